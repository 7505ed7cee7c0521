/* The place of a run as a text: every pipeline goes on from it, and text that is none is refused. */
#include "harness.h"

#include <xxhash.h>

#include "base/file.h"
#include "base/mem.h"

/* Opens, takes `limit` batches, returns the state. */
static char *state_after(const char *text, const stk_config *config, int64_t limit)
{
    stk_pipeline *p;
    stk_error error;
    char *out = NULL;
    if (try_open(text, config, &p, &error) != STK_OK)
        fail_msg("'%s': %s", text, error.message);
    for (int64_t i = 0; i < limit; i++) {
        const stk_batch *batch;
        assert_int_equal(stk_pipeline_next(p, &batch, &error), STK_OK);
        stk_batch_release(p, batch);
    }
    assert_int_equal(stk_pipeline_state(p, &out, &error), STK_OK);
    stk_pipeline_close(p);
    assert_true(strlen(out) < 4096);
    return out;
}

static void every_pipeline_goes_on_from_its_state(void **state)
{
    write_data();
    for (size_t i = 0; harness_pipelines[i]; i++) {
        const char *text = harness_pipelines[i];
        seen all, tail;
        run_all(text, NULL, &all);
        for (size_t k = 0; k <= all.count; k += 2) {
            stk_config config = harness_config();
            config.threads = 1 + (int)k % 3;
            char *place = state_after(text, &config, (int64_t)k);
            config.threads = 3 - (int)k % 3;
            config.resume_state = place;
            run_all(text, &config, &tail);
            assert_seen_equal(&all, k, &tail, text);
            seen_clear(&tail);
            stk_free(place);
        }
        seen_clear(&all);
    }
}

static void state_is_what_a_checkpoint_file_holds(void **state)
{
    static const char text[] = "range(20) | filter(\"value % 3 != 0\") | batch(3) | repeat(2)";
    char *place = state_after(text, NULL, 3), *file;
    size_t size;
    seen s;
    run_some(text, NULL, 3, in_dir("c"), &s);
    assert_int_equal(stk__read_file(in_dir("c"), 1 << 16, &file, &size, NULL), STK_OK);
    assert_string_equal(place, file);
    seen_clear(&s);
    stk_free(place);
    stk__free(file);
}

static void state_carries_the_digest(void **state)
{
    static const char text[] = "range(20) | batch(3)";
    char whole[33], joined[33];
    for (int resumed = 0; resumed < 2; resumed++) {
        stk_config config = harness_config();
        stk_digest *digest;
        char *place = NULL;
        for (int part = resumed ? 0 : 1; part < 2; part++) {
            stk_pipeline *p;
            const stk_batch *batch;
            assert_int_equal(stk_digest_new(&digest, NULL), STK_OK);
            config.resume_state = place;
            assert_int_equal(try_open(text, &config, &p, NULL), STK_OK);
            assert_true(stk_pipeline_carry_digest(p, digest));
            for (int i = 0; (part || i < 3) && stk_pipeline_next(p, &batch, NULL) == STK_OK; i++) {
                stk_digest_add(digest, batch);
                stk_batch_release(p, batch);
            }
            if (!part)
                assert_int_equal(stk_pipeline_state(p, &place, NULL), STK_OK);
            stk_pipeline_close(p);
            stk_digest_hex(digest, resumed ? joined : whole);
            stk_digest_free(digest);
        }
        stk_free(place);
    }
    assert_string_equal(whole, joined);
}

/* A run that was resumed from a state without a digest says so. */
static void digest_of_a_state_without_one_covers_the_rest(void **state)
{
    stk_config config = harness_config();
    stk_digest *digest;
    stk_pipeline *p;
    char *place = state_after("range(20) | batch(3)", NULL, 2);
    config.resume_state = place;
    assert_int_equal(stk_digest_new(&digest, NULL), STK_OK);
    assert_int_equal(try_open("range(20) | batch(3)", &config, &p, NULL), STK_OK);
    assert_false(stk_pipeline_carry_digest(p, digest));
    stk_pipeline_close(p);
    stk_digest_free(digest);
    stk_free(place);
}

static void refused(const char *place, stk_status status, const char *reason)
{
    stk_config config = harness_config();
    config.resume_state = place;
    assert_fails("range(20) | batch(3)", &config, status, reason);
}

static void text_that_is_no_state_is_refused(void **state)
{
    char *place = state_after("range(20) | batch(3)", NULL, 2);
    char *long_text = stk__calloc(1, (64 << 10) + 2);
    memset(long_text, 'x', (64 << 10) + 1);
    refused("", STK_MISMATCH, "no checkpoint");
    refused("nothing", STK_MISMATCH, "no checkpoint");
    refused(long_text, STK_MISMATCH, "more than 65536 bytes");
    for (size_t i = 0; i < strlen(place); i += 7) {
        char was = place[i];
        place[i] = 'x';
        if (was != 'x')
            refused(place, STK_MISMATCH, "");
        place[i] = 0;
        refused(place, STK_MISMATCH, "");
        place[i] = was;
    }
    stk_free(place);
    place = state_after("range(20) | batch(4)", NULL, 2);
    refused(place, STK_MISMATCH, "of another pipeline");
    stk_free(place);
    stk__free(long_text);
}

/* Numbers that only somebody with a hash function can put there. */
static void hostile_numbers_are_refused(void **state)
{
    static const char *const lines[] = {"first_epoch 99999999999\n",
                                        "first_epoch -1\n",
                                        "round_batches -1\n",
                                        "elastic_epoch 999999999999999999\n",
                                        "mode 3\n",
                                        "mode -1\n",
                                        "quarantined 1\n",
                                        "listed_bytes -1\n"};
    for (size_t i = 0; i < STK_COUNT(lines); i++) {
        stk__text t = STK__TEXT_INIT;
        stk__text_printf(&t, "stoker-checkpoint 2\nworld 1\n%s", lines[i]);
        stk__text_printf(&t, "check %016llx\n", (unsigned long long)XXH3_64bits(t.data, t.length));
        refused(t.data, STK_MISMATCH, "cannot be");
        stk__text_clear(&t);
    }
}

static void path_and_state_together_are_refused(void **state)
{
    stk_config config = harness_config();
    char *place = state_after("range(20) | batch(3)", NULL, 2);
    config.resume_state = place;
    config.resume_path = in_dir("c");
    assert_fails("range(20) | batch(3)", &config, STK_INVALID, "both given");
    stk_free(place);
}

/* ---- the list of bad records ---- */

static const char bad_text[] = "tfrecord(\"$D/a-*.tfrecord\") | parse(value=int64, rare=int64) | batch(2)";

static stk_config listing(void)
{
    stk_config config = harness_config();
    config.on_error = STK_ON_ERROR_QUARANTINE;
    config.quarantine_path = in_dir("bad");
    return config;
}

static char *read_list(void)
{
    char *file;
    size_t size;
    assert_int_equal(stk__read_file(in_dir("bad"), 1 << 20, &file, &size, NULL), STK_OK);
    return file;
}

static void assert_list(const char *wanted)
{
    char *list = read_list();
    assert_string_equal(list, wanted);
    stk__free(list);
}

/* The list of a whole run; freed by stk__free. */
static char *whole_list(void)
{
    const stk_config config = listing();
    seen s;
    run_all(bad_text, &config, &s);
    seen_clear(&s);
    return read_list();
}

static int lines_in(const char *text)
{
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

/* Records that were listed ahead of the place are cut off, and met again: each line comes once, wherever a run was left. */
static void quarantine_lists_each_record_once(void **state)
{
    write_data();
    char *whole = whole_list();
    assert_int_equal(lines_in(whole), 11);
    for (int64_t step = 1; step <= 4; step++) {
        char *place = NULL;
        seen s;
        for (int64_t at = 0; at < 12; at += step) {
            stk_config config = listing();
            config.resume_state = place;
            stk_pipeline *p;
            const stk_batch *batch;
            assert_int_equal(try_open(bad_text, &config, &p, NULL), STK_OK);
            for (int64_t i = 0; i < step && stk_pipeline_next(p, &batch, NULL) == STK_OK; i++)
                stk_batch_release(p, batch);
            stk_free(place);
            assert_int_equal(stk_pipeline_state(p, &place, NULL), STK_OK);
            stk_pipeline_close(p);
        }
        stk_config config = listing();
        config.resume_state = place;
        run_all(bad_text, &config, &s);
        assert_list(whole);
        assert_int_equal(s.stats.quarantined, 11);
        assert_int_equal(s.stats.skipped, 11);
        seen_clear(&s);
        stk_free(place);
    }
    stk__free(whole);
}

/* Half a line, as a full disk or a power cut leaves it, is cut off too. */
static void quarantine_cuts_off_half_a_line(void **state)
{
    write_data();
    char *whole = whole_list();
    stk_config config = listing();
    char *place = state_after(bad_text, &config, 2), *list = read_list();
    stk__text t = STK__TEXT_INIT;
    seen s;
    stk__text_printf(&t, "%s{\"file\":\"d/a.tf", list);
    write_file("bad", t.data, t.length);
    config.resume_state = place;
    run_all(bad_text, &config, &s);
    assert_list(whole);
    seen_clear(&s);
    stk__text_clear(&t);
    stk_free(place);
    stk__free(list);
    stk__free(whole);
}

static void keep_log(void *arg, stk_log_level level, const char *text)
{
    stk__text_printf(arg, "%d %s\n", (int)level, text);
}

/* A list that was taken away: said, and begun anew, so that its lines are those that are counted. */
static void quarantine_without_its_list_says_so(void **state)
{
    write_data();
    stk_config config = listing();
    char *place = state_after(bad_text, &config, 3);
    stk__text log = STK__TEXT_INIT;
    seen s;
    config.resume_state = place;
    config.quarantine_path = in_dir("other");
    config.log = keep_log;
    config.log_arg = &log;
    run_all(bad_text, &config, &s);
    char *list;
    size_t size;
    assert_int_equal(stk__read_file(in_dir("other"), 1 << 20, &list, &size, NULL), STK_OK);
    assert_int_equal(s.stats.quarantined, lines_in(list));
    assert_true(s.stats.quarantined < 11);
    assert_int_equal(s.stats.skipped, 11);
    assert_non_null(strstr(log.data, "does not have them"));
    stk__free(list);
    stk__text_clear(&log);
    seen_clear(&s);
    stk_free(place);
}

/* What is not the run's list, or no longer, is refused and left as it is. */
static void quarantine_refuses_another_list(void **state)
{
    write_data();
    stk_config config = listing();
    char *place = state_after(bad_text, &config, 3), *list = read_list();
    char *changed = stk__strndup(list, strlen(list));
    changed[10] ^= 1;
    const char *const others[] = {"mine\n", changed, "\n\n\n\n", "{\"file\":\"d/a.tf"};
    config.resume_state = place;
    for (size_t i = 0; i < STK_COUNT(others); i++) {
        write_file("bad", others[i], strlen(others[i]));
        assert_fails(bad_text, &config, STK_MISMATCH, "not the list that the run left");
        assert_list(others[i]);
    }
    write_file("bad", list, strlen(list) - 1 > 40 ? 40 : 1);
    assert_fails(bad_text, &config, STK_MISMATCH, "not the list that the run left");
    stk__free(changed);
    stk__free(list);
    stk_free(place);
}

/* A checkpoint that is refused changes no list. */
static void refused_checkpoint_leaves_the_list(void **state)
{
    write_data();
    stk_config config = listing();
    char *place = state_after(bad_text, &config, 1);
    config.resume_state = place;
    write_file("bad", "mine\n", 5);
    assert_fails("tfrecord(\"$D/a-*.tfrecord\") | parse(value=int64, rare=int64) | batch(3)", &config, STK_MISMATCH,
                 "another pipeline");
    assert_fails("tfrecord(\"$D/a-0.tfrecord\") | parse(value=int64, rare=int64) | batch(2)", &config, STK_MISMATCH,
                 "another pipeline");
    config.rank = 1;
    config.world = 2;
    config.auto_shard = STK_SHARD_AUTO;
    assert_fails(bad_text, &config, STK_MISMATCH, "2");
    assert_list("mine\n");
    stk_free(place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(every_pipeline_goes_on_from_its_state),
        OP_TEST(state_is_what_a_checkpoint_file_holds),
        OP_TEST(state_carries_the_digest),
        OP_TEST(digest_of_a_state_without_one_covers_the_rest),
        OP_TEST(text_that_is_no_state_is_refused),
        OP_TEST(hostile_numbers_are_refused),
        OP_TEST(path_and_state_together_are_refused),
        OP_TEST(quarantine_lists_each_record_once),
        OP_TEST(quarantine_cuts_off_half_a_line),
        OP_TEST(quarantine_without_its_list_says_so),
        OP_TEST(quarantine_refuses_another_list),
        OP_TEST(refused_checkpoint_leaves_the_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
