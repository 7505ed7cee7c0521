/* Memory: buffers stay under the budget, too small a budget is told, and a long run allocates nothing. */
#include "harness.h"

#include "base/mem.h"

#define MIB ((uint64_t)1 << 20)

static void write_sets(void)
{
    write_examples("p", STK__PLAIN, 0, 6000);
    write_examples("g.gz", STK__GZIP, 0, 6000);
}

static const char *const hungry[] = {
    "range(200000) | shuffle | batch(1000)",
    "tfrecord(\"$D/p\") | batch(500)",
    "tfrecord(\"$D/p\") | parse(value=int64, words=bytes[], many=int64[], name=bytes) | batch(500)",
    "tfrecord(\"$D/p\") | parse(value=int64, words=bytes[], many=int64[]) | batch(300, pad=true)",
    "tfrecord(\"$D/p\") | parse(value=int64, words=bytes[]) | filter(\"value % 2 == 0\") | batch(300)",
    "tfrecord(\"$D/g.gz\") | batch(300)",
    "tfrecord(\"$D/g.gz\") | shuffle(buffer=500) | parse(value=int64, words=bytes[]) | batch(300)",
    "tfrecord(\"$D/p\") | parse(value=int64, words=bytes[]) | cache | batch(300) | repeat(2)",
};

static void budget_is_kept(void **state)
{
    static const uint64_t budgets[] = {2, 3, 8};
    write_sets();
    for (size_t i = 0; i < STK_COUNT(hungry); i++) {
        seen plain;
        run_all(hungry[i], NULL, &plain);
        for (size_t b = 0; b < STK_COUNT(budgets); b++) {
            stk_config config = harness_config();
            config.memory_bytes = budgets[b] * MIB;
            config.threads = 1 + (int)b;
            seen s;
            run_all(hungry[i], &config, &s);
            assert_seen_equal(&plain, 0, &s, hungry[i]);
            assert_int_equal(s.stats.budget_bytes, budgets[b] * MIB);
            if (s.stats.peak_buffer_bytes > (int64_t)(budgets[b] * MIB) || s.stats.peak_buffer_bytes == 0)
                fail_msg("'%s' took %lld of %llu MiB", hungry[i], (long long)s.stats.peak_buffer_bytes,
                         (unsigned long long)budgets[b]);
            seen_clear(&s);
        }
        seen_clear(&plain);
    }
}

static void budget_that_is_too_small_is_told(void **state)
{
    static const char *const texts[] = {
        "range(1000000) | batch(1000000)",
        "tfrecord(\"$D/p\") | batch(6000)",
        "tfrecord(\"$D/p\") | parse(words=bytes[], many=int64[]) | batch(6000, pad=true)",
        "tfrecord(\"$D/p\") | parse(value=int64, words=bytes[]) | filter(\"value >= 0\") | batch(6000)",
        "tfrecord(\"$D/g.gz\") | shuffle(buffer=6000) | batch(6000)",
    };
    write_sets();
    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        stk_config config = harness_config();
        config.memory_bytes = 300 * 1024;
        seen s;
        run_some(texts[i], &config, -1, NULL, &s);
        if (s.status != STK_BUDGET || !strstr(s.error.message, "would do"))
            fail_msg("'%s' gave %s (%s), wanted BUDGET", texts[i], stk_status_name(s.status), s.error.message);
        assert_true(s.stats.peak_buffer_bytes <= 300 * 1024);
        seen_clear(&s);
    }
}

/* However small: an error or all of the data, never a hang. */
static void budget_of_any_size_ends_the_run(void **state)
{
    write_sets();
    int told = 0, fine = 0;
    for (size_t i = 0; i < STK_COUNT(hungry); i++) {
        for (uint64_t kib = 1; kib < 4096; kib = kib * 2 + 3) {
            stk_config config = harness_config();
            config.memory_bytes = kib * 1024;
            seen s;
            run_some(hungry[i], &config, -1, NULL, &s);
            if (s.status != STK_END && s.status != STK_BUDGET)
                fail_msg("'%s' with %llu KiB: %s", hungry[i], (unsigned long long)kib, s.error.message);
            told += s.status == STK_BUDGET;
            fine += s.status == STK_END;
            assert_true(s.stats.peak_buffer_bytes <= (int64_t)kib * 1024);
            seen_clear(&s);
        }
    }
    assert_true(told > 0 && fine > 0);
}

/* A consumer that never gives back gets an error, not more memory. */
static void hoarding_is_told(void **state)
{
    static const char *const texts[] = {"range(100000000) | batch(1000) | repeat",
                                        "range(100000000) | filter(\"value % 2 == 0\") | batch(1000) | repeat",
                                        "tfrecord(\"$D/p\") | parse(words=bytes[]) | batch(100) | repeat",
                                        "tfrecord(\"$D/g.gz\") | batch(100) | repeat"};
    write_sets();
    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        stk_config config = harness_config();
        stk_pipeline *p;
        stk_error error;
        stk_status status = STK_OK;
        const stk_batch *batch[300];
        int held = 0;
        config.memory_bytes = 2 * MIB;
        assert_int_equal(try_open(texts[i], &config, &p, &error), STK_OK);
        while (held < 300 && (status = stk_pipeline_next(p, &batch[held], &error)) == STK_OK)
            held++;
        if (status != STK_BUDGET)
            fail_msg("'%s': %d batches held, then %s", texts[i], held, stk_status_name(status));
        assert_true(held > 1);
        stk_stats stats;
        stk_pipeline_stats(p, &stats);
        assert_true(stats.peak_buffer_bytes <= (int64_t)(2 * MIB));
        while (held > 0)
            stk_batch_release(p, batch[--held]);
        status = stk_pipeline_next(p, &batch[0], &error); /* goes on when there is room again */
        if (status != STK_OK)
            fail_msg("'%s' after release: %s", texts[i], error.message);
        stk_batch_release(p, batch[0]);
        stk_pipeline_close(p);
    }
}

/* Allocations that a long run makes in each of its windows of 500 batches, after warm-up. */
enum { WINDOWS = 4, WINDOW = 500, WARM_UP = 300 };

static void steady_allocations(const char *text, uint64_t out[WINDOWS])
{
    stk_pipeline *p;
    stk_error error;
    uint64_t before = 0;
    assert_int_equal(try_open(text, NULL, &p, &error), STK_OK);
    for (int i = 0; i <= WARM_UP + WINDOWS * WINDOW; i++) {
        const stk_batch *batch;
        if (stk_pipeline_next(p, &batch, &error) != STK_OK)
            fail_msg("'%s': %s", text, error.message);
        stk_batch_release(p, batch);
        const int done = i - WARM_UP;
        if (done > 0 && done % WINDOW == 0)
            out[done / WINDOW - 1] = stk__alloc_count() - before;
        if (done >= 0 && done % WINDOW == 0)
            before = stk__alloc_count();
    }
    stk_pipeline_close(p);
}

/*
 * None for each sample or batch: that would be 25,000 or 500 in a window. A few come late all the same, when workers first
 * run as far ahead as they may (one more slab or part, some ten allocations each) or when a part meets its largest rows yet.
 */
static void long_runs_do_not_allocate(void **state)
{
    static const char *const texts[] = {
        "range(1000) | batch(50) | repeat",
        "range(1000) | shuffle | cast(value=float32) | batch(50) | repeat",
        "range(1000) | filter(\"value % 3 != 0\") | batch(50) | repeat",
        "tfrecord(\"$D/s\") | parse(value=int64, pair=float32[2]) | batch(50) | repeat",
        "tfrecord(\"$D/s\") | batch(50) | repeat",
        "tfrecord(\"$D/s\") | parse(value=int64, words=bytes[], many=int64[], name=bytes) | batch(50) | repeat",
        "tfrecord(\"$D/s\") | parse(value=int64, words=bytes[]) | filter(\"value % 3 != 0\") | batch(50) | repeat",
        "tfrecord(\"$D/s\") | parse(value=int64) | cache | batch(50) | repeat",
    };
    write_examples("s", STK__PLAIN, 0, 1000);
    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        uint64_t windows[WINDOWS], total = 0, least = UINT64_MAX;
        steady_allocations(texts[i], windows);
        for (int w = 0; w < WINDOWS; w++) {
            total += windows[w];
            least = STK_MIN(least, windows[w]);
        }
        if (least > 20 || total > 1500)
            fail_msg("'%s' made %llu allocations in 2000 batches of 50, at least %llu in any 500", texts[i],
                     (unsigned long long)total, (unsigned long long)least);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(budget_is_kept),   OP_TEST(budget_that_is_too_small_is_told), OP_TEST(budget_of_any_size_ends_the_run),
        OP_TEST(hoarding_is_told), OP_TEST(long_runs_do_not_allocate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
