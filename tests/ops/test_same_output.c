/* The same bytes for any number of threads, traced or not, and with any way of waiting: over pipelines that use everything. */
#include "harness.h"

#include <stdlib.h>

static void every_pipeline_gives_the_same_with_any_number_of_threads(void **state)
{
    static const int threads[] = {2, 3, 8};
    write_data();
    for (size_t i = 0; harness_pipelines[i]; i++) {
        stk_config config = harness_config();
        config.threads = 1;
        seen one;
        run_all(harness_pipelines[i], &config, &one);
        assert_true(one.count > 0);
        for (size_t k = 0; k < STK_COUNT(threads); k++) {
            config.threads = threads[k];
            seen more;
            run_all(harness_pipelines[i], &config, &more);
            assert_seen_equal(&one, 0, &more, harness_pipelines[i]);
            assert_string_equal(one.lines.data, more.lines.data);
            assert_int_equal(one.stats.dropped, more.stats.dropped);
            assert_int_equal(more.stats.threads, threads[k]);
            seen_clear(&more);
        }
        seen_clear(&one);
    }
}

static void every_pipeline_gives_the_same_when_traced(void **state)
{
    write_data();
    for (size_t i = 0; harness_pipelines[i]; i++) {
        stk_config config = harness_config();
        seen plain, traced;
        stk_recorder_stats stats;
        run_all(harness_pipelines[i], &config, &plain);
        assert_int_equal(stk_recorder_open(in_dir(i % 2 ? "t.json" : "t.pftrace"), NULL, &config.recorder, NULL),
                         STK_OK);
        run_all(harness_pipelines[i], &config, &traced);
        assert_int_equal(stk_recorder_close(config.recorder, &stats, NULL), STK_OK);
        assert_seen_equal(&plain, 0, &traced, harness_pipelines[i]);
        assert_true(stats.events_written > 0);
        seen_clear(&plain);
        seen_clear(&traced);
    }
}

/* Memory that is tight changes how far the workers run ahead, not what they make. */
static void every_pipeline_gives_the_same_with_little_memory(void **state)
{
    write_data();
    for (size_t i = 0; harness_pipelines[i]; i++) {
        stk_config config = harness_config();
        seen plain, tight;
        run_all(harness_pipelines[i], &config, &plain);
        config.memory_bytes = (uint64_t)1 << 20;
        run_all(harness_pipelines[i], &config, &tight);
        assert_seen_equal(&plain, 0, &tight, harness_pipelines[i]);
        assert_true(tight.stats.peak_buffer_bytes <= 1 << 20);
        seen_clear(&plain);
        seen_clear(&tight);
    }
}

static void a_seed_of_the_run_changes_random_ops_only(void **state)
{
    stk_config config = harness_config();
    seen a, b, c;
    run_all("range(50) | test_noise | batch(50)", &config, &a);
    config.threads = 5;
    run_all("range(50) | test_noise | batch(50)", &config, &b);
    config.seed = 6;
    run_all("range(50) | test_noise | batch(50)", &config, &c);
    assert_seen_equal(&a, 0, &b, "same seed");
    assert_string_not_equal(a.batches[0].digest, c.batches[0].digest);
    assert_memory_equal(a.values, c.values, 50 * sizeof *a.values);
    seen_clear(&a);
    seen_clear(&b);
    seen_clear(&c);
}

/* The numbers in "noise":X of the lines. */
static size_t noise_of(const char *lines, double *out, size_t limit)
{
    static const char key[] = "\"noise\":";
    size_t n = 0;
    for (const char *p = lines; (p = strstr(p, key)) && n < limit; n++) {
        p += sizeof key - 1;
        out[n] = strtod(p, NULL);
    }
    return n;
}

static void random_numbers_follow_the_sample_not_its_place(void **state)
{
    double plain[40], shuffled[40];
    seen a, b;
    run_all("range(20) | test_noise | batch(3) | repeat(2)", NULL, &a);
    run_all("range(20) | test_noise | shuffle(seed=9) | batch(7) | repeat(2)", NULL, &b);
    assert_int_equal(noise_of(a.lines.data, plain, 40), 40);
    assert_int_equal(noise_of(b.lines.data, shuffled, 40), 40);
    bool epochs_differ = false;
    for (int i = 0; i < 40; i++) {
        const int64_t value = b.values[i] + i / 20 * 20;
        assert_true(plain[value] == shuffled[i]);
        epochs_differ = epochs_differ || plain[i % 20] != plain[i % 20 + 20];
    }
    assert_true(epochs_differ);
    seen_clear(&a);
    seen_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(every_pipeline_gives_the_same_with_any_number_of_threads),
        OP_TEST(every_pipeline_gives_the_same_when_traced),
        OP_TEST(every_pipeline_gives_the_same_with_little_memory),
        OP_TEST(a_seed_of_the_run_changes_random_ops_only),
        OP_TEST(random_numbers_follow_the_sample_not_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
