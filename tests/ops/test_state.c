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
    static const char *const lines[] = {"first_epoch 99999999999\n", "first_epoch -1\n", "round_batches -1\n",
                                        "elastic_epoch 999999999999999999\n", "mode 3\n",
                                        "mode -1\n", "quarantined 1\n", "listed_bytes -1\n"};
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

/* Bad records that were listed before are not listed again, nor is the list begun anew. */
static void quarantine_goes_on(void **state)
{
    static const char text[] = "tfrecord(\"$D/a-*.tfrecord\") | parse(value=int64, rare=int64) | batch(2)";
    stk_config config = harness_config();
    char *file;
    size_t size;
    int lines = 0;
    write_data();
    config.on_error = STK_ON_ERROR_QUARANTINE;
    config.quarantine_path = in_dir("bad");
    char *place = state_after(text, &config, 2);
    config.resume_state = place;
    seen s;
    run_all(text, &config, &s);
    seen_clear(&s);
    stk_free(place);
    assert_int_equal(stk__read_file(in_dir("bad"), 1 << 20, &file, &size, NULL), STK_OK);
    for (size_t i = 0; i < size; i++)
        lines += file[i] == '\n';
    assert_int_equal(lines, 11); /* those that were ahead of the state were cut off, and met again */
    stk__free(file);
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
        OP_TEST(quarantine_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
