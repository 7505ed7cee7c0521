/* Checkpoints: every pipeline goes on exactly, from every batch boundary; what does not fit is refused with the reason. */
#include "harness.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

static void every_pipeline_resumes_at_every_batch(void **state)
{
    write_data();
    for (size_t i = 0; harness_pipelines[i]; i++) {
        const char *text = harness_pipelines[i];
        seen all;
        run_all(text, NULL, &all);
        for (size_t k = 0; k <= all.count; k++) {
            stk_config config = harness_config();
            config.threads = 1 + (int)k % 3;
            const char *path = in_dir("checkpoint");
            seen head, tail;
            run_some(text, &config, (int64_t)k, path, &head);
            assert_int_equal(head.status, STK_OK);
            config.threads = 3 - (int)k % 3;
            config.resume_path = path;
            run_all(text, &config, &tail);
            assert_seen_equal(&all, k, &tail, text);
            assert_int_equal(all.stats.dropped, tail.stats.dropped);
            seen_clear(&head);
            seen_clear(&tail);
        }
        seen_clear(&all);
    }
}

static void every_pipeline_resumes_twice(void **state)
{
    write_data();
    for (size_t i = 0; harness_pipelines[i]; i++) {
        const char *text = harness_pipelines[i];
        stk_config config = harness_config();
        seen all, part;
        run_all(text, &config, &all);
        for (size_t at = 0; at <= all.count; at += 2) { /* each run goes two batches on from the one before */
            run_some(text, &config, 2, in_dir("checkpoint"), &part);
            for (size_t k = 0; k < part.count; k++) {
                assert_int_equal(part.batches[k].index, at + k);
                assert_string_equal(part.batches[k].digest, all.batches[at + k].digest);
            }
            assert_int_equal(part.count, STK_MIN((size_t)2, all.count - at));
            config.resume_path = in_dir("checkpoint");
            config.threads = config.threads % 3 + 1;
            seen_clear(&part);
        }
        seen_clear(&all);
    }
}

static void checkpoint_counts_only_what_was_handed_over(void **state)
{
    const char *text = "range(100) | batch(3) | prefetch(8)";
    stk_config config = harness_config();
    seen head, tail;
    run_some(text, &config, 1, in_dir("c"), &head);
    config.resume_path = in_dir("c");
    run_some(text, &config, 1, NULL, &tail);
    assert_int_equal(tail.values[0], 3);
    seen_clear(&head);
    seen_clear(&tail);
}

/* How much may wait, where output goes and how it is traced do not belong to the order of samples. */
static void resume_takes_another_prefetch_and_sink(void **state)
{
    stk_config config = harness_config();
    seen head, tail;
    run_some("range(20) | batch(3) | prefetch(2) | print", &config, 2, in_dir("c"), &head);
    config.resume_path = in_dir("c");
    run_all("range(20) | batch(3) | discard", &config, &tail);
    assert_int_equal(tail.count, 5);
    assert_int_equal(tail.values[0], 6);
    seen_clear(&head);
    seen_clear(&tail);
    run_all("range(20) | batch(3) | prefetch(5)", &config, &tail);
    assert_int_equal(tail.values[0], 6);
    seen_clear(&tail);
}

static void make_checkpoint(const char *text, int64_t batches, stk_config config)
{
    seen head;
    run_some(text, &config, batches, in_dir("checkpoint"), &head);
    assert_int_equal(head.count, batches);
    seen_clear(&head);
}

static void refuses(const char *text, stk_config config, const char *reason)
{
    stk_pipeline *p = NULL;
    stk_error error;
    config.resume_path = in_dir("checkpoint");
    const stk_status status = try_open(text, &config, &p, &error);
    stk_pipeline_close(p);
    if (status != STK_MISMATCH || !strstr(error.message, reason))
        fail_msg("'%s' gave %s (%s), wanted '%s'", text, stk_status_name(status), error.message, reason);
    assert_string_equal(error.file, in_dir("checkpoint"));
}

static void resume_refuses_another_pipeline(void **state)
{
    stk_config config = harness_config();
    make_checkpoint("range(20) | shuffle(seed=1) | batch(3)", 2, config);
    refuses("range(20) | shuffle(seed=2) | batch(3)", config, "of another pipeline");
    refuses("range(21) | shuffle(seed=1) | batch(3)", config, "of another pipeline");
    refuses("range(20) | batch(3)", config, "of another pipeline");
    refuses("range(20) | shuffle(seed=1) | batch(4)", config, "its batch size does");
    refuses("range(20) | shuffle(seed=1) | batch(3) | repeat(2)", config, "of another pipeline");
    config.seed++;
    refuses("range(20) | shuffle(seed=1) | batch(3)", config, "of another pipeline");
}

/* Rounds at the end may become more, also after the last, or fewer, where that many are not done yet. */
static void resume_takes_another_number_of_rounds(void **state)
{
    static const char *const texts[] = {
        "range(10) | shuffle(seed=1) | batch(3) | repeat",
        "range(10) | shuffle | shard | batch(3) | repeat",
        "range(20) | filter(\"value % 3 == 0\") | take(5) | batch(2) | take(2) | repeat",
        "tfrecord(\"$D/b-*.gz\") | parse(value=int64) | shuffle(buffer=4) | batch(7) | repeat",
    };
    write_data();
    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        stk_config config = harness_config();
        char two[128], four[128];
        seen whole, head, tail;
        snprintf(two, sizeof two, "%s(2)", texts[i]);
        snprintf(four, sizeof four, "%s(4)", texts[i]);
        run_all(four, NULL, &whole);
        for (size_t k = 0; k <= whole.count / 2; k++) {
            run_some(two, &config, (int64_t)k, in_dir("checkpoint"), &head);
            assert_int_equal(head.count, k);
            config.resume_path = in_dir("checkpoint");
            run_all(four, &config, &tail);
            assert_seen_equal(&whole, k, &tail, four);
            config.resume_path = NULL;
            seen_clear(&head);
            seen_clear(&tail);
        }
        make_checkpoint(four, (int64_t)whole.count - 1, config);
        refuses(two, config, "the checkpoint stands at");
        seen_clear(&whole);
    }
    /* Without a batch before it the last rows of a round share one with the next: how many there are matters. */
    make_checkpoint("range(10) | repeat(2)", 1, harness_config());
    refuses("range(10) | repeat(4)", harness_config(), "of another pipeline");
}

static void resume_refuses_other_data(void **state)
{
    static const char text[] = "tfrecord(\"$D/a-*.tfrecord\") | batch(3)",
                      stream[] = "tfrecord(\"$D/b-*.gz\") | batch(3)";
    write_data();
    make_checkpoint(text, 2, harness_config());
    write_examples("a-2.tfrecord", STK__PLAIN, 7, 6);
    refuses(text, harness_config(), "of other data");
    make_checkpoint(stream, 2, harness_config());
    write_examples("b-2.tfrecord.gz", STK__GZIP, 7, 9);
    refuses(stream, harness_config(), "of other data");
}

static void resume_refuses_a_damaged_file(void **state)
{
    static const char text[] = "range(20) | batch(3)";
    char *data;
    size_t size;
    make_checkpoint(text, 2, harness_config());
    assert_int_equal(stk__read_file(in_dir("checkpoint"), 1 << 20, &data, &size, NULL), STK_OK);
    for (size_t i = 0; i < size; i++) { /* any one bit */
        data[i] ^= 4;
        write_file("checkpoint", data, size);
        refuses(text, harness_config(), "");
        data[i] ^= 4;
    }
    for (size_t cut = 0; cut < size; cut += 7) {
        write_file("checkpoint", data, cut);
        refuses(text, harness_config(), "");
    }
    write_file("checkpoint", "hello\n", 6);
    refuses(text, harness_config(), "is no checkpoint of this version");
    stk__free(data);
}

static void resume_without_a_file_says_so(void **state)
{
    stk_config config = harness_config();
    config.resume_path = in_dir("nothing");
    assert_fails("range(20) | batch(3)", &config, STK_IO, "No such file");
}

static void checkpoint_that_cannot_be_written_says_so(void **state)
{
    stk_pipeline *p;
    stk_error error;
    assert_int_equal(try_open("range(5)", NULL, &p, &error), STK_OK);
    assert_int_equal(stk_pipeline_checkpoint(p, in_dir("no/such/dir"), &error), STK_IO);
    assert_non_null(strstr(error.file, "no/such/dir"));
    stk_pipeline_close(p);
}

/* A run that is over resumes to its end. */
static void resume_at_the_end_gives_the_end(void **state)
{
    stk_config config = harness_config();
    make_checkpoint("range(20) | batch(5)", 4, config);
    seen s;
    config.resume_path = in_dir("checkpoint");
    run_all("range(20) | batch(5)", &config, &s);
    assert_int_equal(s.count, 0);
    seen_clear(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(every_pipeline_resumes_at_every_batch),
        OP_TEST(every_pipeline_resumes_twice),
        OP_TEST(checkpoint_counts_only_what_was_handed_over),
        OP_TEST(resume_takes_another_prefetch_and_sink),
        OP_TEST(resume_refuses_another_pipeline),
        OP_TEST(resume_takes_another_number_of_rounds),
        OP_TEST(resume_refuses_other_data),
        OP_TEST(resume_refuses_a_damaged_file),
        OP_TEST(resume_without_a_file_says_so),
        OP_TEST(checkpoint_that_cannot_be_written_says_so),
        OP_TEST(resume_at_the_end_gives_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
