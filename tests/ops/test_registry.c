/* Checks over every op of the registry: what it says about itself, its options, its example; and failed allocations. */
#include "pictures.h"

#include <ctype.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/op.h"
#include "engine/registry.h"

static bool is_name(const char *s)
{
    if (!islower((unsigned char)*s))
        return false;
    for (; *s; s++)
        if (!islower((unsigned char)*s) && !isdigit((unsigned char)*s) && *s != '_')
            return false;
    return true;
}

/* Names of choices may be capitals: CHW. */
static bool is_choice(const char *s)
{
    bool capitals = *s != '\0';
    for (const char *p = s; *p; p++)
        capitals = capitals && isupper((unsigned char)*p);
    return capitals || is_name(s);
}

static bool is_sentence(const char *s)
{
    const size_t n = s ? strlen(s) : 0;
    return n > 10 && n <= 120 && isupper((unsigned char)s[0]) && s[n - 1] == '.' && !strchr(s, '\n');
}

static void every_op_describes_itself(void **state)
{
    static const char *const groups[] = {"source", "order", "samples", "fields", "image", "batch", "cache", "sink"};
    for (size_t i = 0; stk__builtin_ops[i]; i++) {
        const stk_op *op = stk__builtin_ops[i];
        bool known_group = false;
        for (size_t g = 0; g < STK_COUNT(groups); g++)
            known_group = known_group || strcmp(op->group, groups[g]) == 0;
        if (op->abi != STK_OP_ABI || !is_name(op->name) || !known_group || !op->since || !*op->since)
            fail_msg("op %s: abi, name, group or since is not as it should be", op->name);
        if (!is_sentence(op->summary))
            fail_msg("op %s: summary '%s' is no sentence of at most 120 characters", op->name, op->summary);
        if (!op->example || !strstr(op->example, op->name))
            fail_msg("op %s: example '%s' does not use it", op->name, op->example ? op->example : "");
        if (op->state_size > 64 * 1024)
            fail_msg("op %s: state of %zu bytes", op->name, op->state_size);
    }
}

static void every_op_has_the_callbacks_of_its_role(void **state)
{
    for (size_t i = 0; stk__builtin_ops[i]; i++) {
        const stk_op *op = stk__builtin_ops[i];
        if (op->role == STK_ROLE_SOURCE)
            assert_true(op->count && op->schema && (op->process || op->pull) && !op->pull == !op->rewind);
        if (op->role == STK_ROLE_SINK)
            assert_non_null(op->consume);
        if (op->role == STK_ROLE_SAMPLE)
            assert_true(op->schema || op->process);
        if (op->role == STK_ROLE_ORDER)
            assert_true(op->order && op->order->length && op->order->map);
        else
            assert_null(op->order);
        assert_true(!op->worker_close || op->worker_open);
    }
}

static void check_option(const stk_op *op, const stk_option *o)
{
    if (!is_name(o->name) || !o->help || strlen(o->help) < 5)
        fail_msg("option %s.%s has no help or no proper name", op->name, o->name);
    if (o->help[strlen(o->help) - 1] == '.')
        fail_msg("option %s.%s: help is a phrase, not a sentence: '%s'", op->name, o->name, o->help);
    if (o->offset >= op->state_size)
        fail_msg("option %s.%s lies outside of the state", op->name, o->name);
    const bool ranged = o->kind == STK_OPTION_INT || o->kind == STK_OPTION_SIZE;
    if (ranged &&
        (o->min >= o->max || (!o->required && (o->fallback.integer < o->min || o->fallback.integer > o->max))))
        fail_msg("option %s.%s: default or range is wrong", op->name, o->name);
    if (o->kind == STK_OPTION_FLOAT &&
        (!(o->min_number < o->max_number) || o->fallback.number < o->min_number || o->fallback.number > o->max_number))
        fail_msg("option %s.%s: default or range is wrong", op->name, o->name);
    if (o->kind == STK_OPTION_ENUM) {
        int64_t count = 0;
        while (o->choices[count])
            assert_true(is_choice(o->choices[count++]));
        assert_true(count >= 2 && o->fallback.integer >= 0 && o->fallback.integer < count);
    }
}

static void every_option_has_help_range_and_default(void **state)
{
    for (size_t i = 0; stk__builtin_ops[i]; i++) {
        const stk_op *op = stk__builtin_ops[i];
        assert_non_null(op->options);
        for (const stk_option *o = op->options; o->name; o++) {
            check_option(op, o);
            for (const stk_option *other = op->options; other != o; other++)
                if (strcmp(other->name, o->name) == 0)
                    fail_msg("option %s.%s is there twice", op->name, o->name);
        }
    }
}

static void registry_is_sorted_and_finds_every_op(void **state)
{
    stk_registry *r;
    assert_int_equal(stk_registry_new(&r, NULL), STK_OK);
    const size_t n = stk_registry_count(r);
    assert_true(n >= 21);
    for (size_t i = 0; i < n; i++) {
        const stk_op *op = stk_registry_op(r, i);
        assert_ptr_equal(stk_registry_find(r, op->name), op);
        assert_true(i == 0 || strcmp(stk_registry_op(r, i - 1)->name, op->name) < 0);
    }
    assert_null(stk_registry_op(r, n));
    assert_null(stk_registry_find(r, "no_such_op"));
    assert_string_equal(stk_registry_nearest(r, "shufle"), "shuffle");
    assert_null(stk_registry_nearest(r, "completely_different"));
    stk_registry_free(r);
    stk_registry_free(NULL);
}

static void plugin_that_is_none_is_refused(void **state)
{
    stk_registry *r;
    stk_error error;
    stk_error_clear(&error);
    write_file("x.so", "no object", 9);
    assert_int_equal(stk_registry_new(&r, NULL), STK_OK);
    assert_int_equal(stk_registry_load(r, in_dir("x.so"), &error), STK_IO);
    assert_string_equal(error.file, in_dir("x.so"));
    stk_registry_free(r);
}

/* The examples' files stand in the test's directory. */
static void example_text(const stk_op *op, stk__text *out)
{
    static const char *const names[] = {"\"d/*.tfrecord\"", "\"words.txt\"", "\"out/", "\"d/*.tar\"", "\"d/pictures\"", "\"d/photos\"",
                                        "\"d/train.h5\""};
    static const char *const files[] = {"\"$D/d.tfrecord\"", "\"$D/words.txt\"", "\"$D/out/", "\"$D/d.tar\"",
                                        "\"$D/pictures\"", "\"$D/photos\"", "\"$D/train.h5\""};
    stk__text_reset(out);
    for (const char *p = op->example; *p;) {
        size_t i = 0;
        while (i < STK_COUNT(names) && strncmp(p, names[i], strlen(names[i])) != 0)
            i++;
        if (i < STK_COUNT(names)) {
            stk__text_puts(out, files[i]);
            p += strlen(names[i]);
        } else {
            stk__text_putc(out, *p++);
        }
    }
}

static void write_example_files(void)
{
    seen s;
    write_lines("words.txt", false, 0, 40);
    write_tar("d.tar", false, 0, 40);
    write_folder("pictures", 3, 7);
    write_pictures("p", 12, 40, 30);
    run_all("tfrecord(\"$D/p\") | parse(image=bytes, label=int64) | filter(\"label < 3\") | write_image_folder(\"$D/photos\")", NULL, &s);
    seen_clear(&s);
    /* x=float32[8], y=int64 as the examples have them. */
    write_examples("raw", STK__PLAIN, 0, 50);
    run_all(
        "tfrecord(\"$D/raw\") | parse(x=float32[8](default=1.5), y=int64(from=\"value\"), tags=bytes[](from=\"words\")) | "
        "write_tfrecord(\"$D/d.tfrecord\")",
        NULL, &s);
    seen_clear(&s);
    run_all("tfrecord(\"$D/d.tfrecord\") | parse(features=float32[8](from=\"x\"), labels=int64(from=\"y\")) | "
            "write_hdf5(\"$D/train.h5\", chunk=16, gzip=4)",
            NULL, &s);
    seen_clear(&s);
}

static void every_example_runs(void **state)
{
    stk__text text = STK__TEXT_INIT;
    write_example_files();
    for (size_t i = 0; stk__builtin_ops[i]; i++) {
        seen s;
        example_text(stk__builtin_ops[i], &text);
        run_all(text.data, NULL, &s);
        if (s.stats.samples == 0)
            fail_msg("the example of %s gives nothing: %s", stk__builtin_ops[i]->name, text.data);
        seen_clear(&s);
    }
    stk__text_clear(&text);
}

/* ---- each allocation failed in turn ---- */

/* Like run_some without anything that allocates in the test itself; the digest is of the library. */
static stk_status run_bare(const char *text, const stk_config *config, const char *checkpoint)
{
    stk_pipeline *p = NULL;
    stk_error error;
    stk_status status = try_open(text, config, &p, &error);
    while (status == STK_OK) {
        const stk_batch *batch;
        status = stk_pipeline_next(p, &batch, &error);
        if (status == STK_OK) {
            status = stk_pipeline_consume(p, batch, &error);
            stk_batch_release(p, batch);
        }
    }
    if (status == STK_END && checkpoint)
        status = stk_pipeline_checkpoint(p, checkpoint, &error) == STK_OK ? STK_END : STK_NOMEM;
    if (status == STK_END && stk_pipeline_finish(p, &error) != STK_OK)
        status = error.status;
    stk_pipeline_close(p);
    return status;
}

static void fail_each_allocation(const char *text, bool sticky)
{
    stk_config config = harness_config();
    config.threads = 1;
    stk_status status = STK_OK;
    uint64_t n = 1;
    for (; status != STK_END; n++) {
        assert_true(n < 100000);
        stk__alloc_fail_at(n, sticky);
        status = run_bare(text, &config, NULL);
        const bool hit = status != STK_END;
        stk__alloc_fail_at(0, false);
        if (hit && status != STK_NOMEM && status != STK_BUDGET && status != STK_INVALID && status != STK_IO)
            fail_msg("'%s', allocation %llu failed: %s", text, (unsigned long long)n, stk_status_name(status));
        /* An allocation that may fail without harm (an index that is not kept) must not end the search. */
        if (!hit && !sticky) {
            const uint64_t before = stk__alloc_count();
            assert_int_equal(run_bare(text, &config, NULL), STK_END);
            if (n < stk__alloc_count() - before)
                status = STK_OK;
        }
    }
    assert_true(n > 5);
}

static const char *const small_pipelines[] = {
    "range(6) | shuffle | test_noise | cast(value=float16) | rename(x=value) | batch(2) | repeat(2)",
    "tfrecord(\"$D/a\") | parse(value=int64, words=bytes[], name=bytes, many=int64[]) | batch(3, pad=true)",
    "tfrecord(\"$D/a\", \"$D/a\") | interleave | parse(value=int64, words=bytes[]) | filter(\"value != 2\") | take(4) | cache | batch(2)",
    "tfrecord(\"$D/b.gz\") | shuffle(buffer=3) | parse(value=int64, words=bytes[]) | cache(\"$D/c\") | batch(3) | write_tfrecord(\"$D/o\")",
    "text(\"$D/t\") | shard(count=2) | skip(1) | batch(2) | take(2) | print",
    "webdataset(\"$D/w.tar\") | batch(2) | write_webdataset(\"$D/o-%d.tar\", shards=2, image=\"bin\", label=\"cls\")",
    "webdataset(\"$D/w.tar.gz\", jpg=bytes, x=float32(from=\"cls\")) | batch(4)",
    "image_folder(\"$D/folder\") | batch(2)",
};

static void write_small_files(void)
{
    write_examples("a", STK__PLAIN, 0, 5);
    write_examples("b.gz", STK__GZIP, 0, 5);
    write_lines("t", false, 0, 9);
    write_tar("w.tar", false, 0, 6);
    write_tar("w.tar.gz", true, 0, 6);
    write_folder("folder", 2, 3);
}

static void failed_allocations_are_told(void **state)
{
    write_small_files();
    for (size_t i = 0; i < STK_COUNT(small_pipelines); i++)
        fail_each_allocation(small_pipelines[i], false);
}

static void memory_that_stays_out_is_told(void **state)
{
    write_small_files();
    for (size_t i = 0; i < STK_COUNT(small_pipelines); i++)
        fail_each_allocation(small_pipelines[i], true);
}

/* After a failure the same call works: nothing was left half done. */
static void failed_allocations_with_several_threads(void **state)
{
    write_small_files();
    for (size_t i = 0; i < STK_COUNT(small_pipelines); i++) {
        stk_config config = harness_config();
        config.threads = 3;
        config.checkpoints = true;
        for (uint64_t n = 1; n < 400; n += 7) {
            stk__alloc_fail_at(n, n % 2);
            run_bare(small_pipelines[i], &config, in_dir("point"));
            stk__alloc_fail_at(0, false);
        }
        assert_int_equal(run_bare(small_pipelines[i], &config, in_dir("point")), STK_END);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(every_op_describes_itself),
        OP_TEST(every_op_has_the_callbacks_of_its_role),
        OP_TEST(every_option_has_help_range_and_default),
        OP_TEST(registry_is_sorted_and_finds_every_op),
        OP_TEST(plugin_that_is_none_is_refused),
        OP_TEST(every_example_runs),
        OP_TEST(failed_allocations_are_told),
        OP_TEST(memory_that_stays_out_is_told),
        OP_TEST(failed_allocations_with_several_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
