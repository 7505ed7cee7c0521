/* prefetch: how many batches wait, and that nothing else changes. */
#include "harness.h"

#include <time.h>

/* Batches that lie ready when the workers have nothing more to do. */
static int64_t settled(const char *text)
{
    stk_pipeline *p;
    stk_error error;
    const stk_batch *batch;
    stk_stats stats = {0};
    assert_int_equal(try_open(text, NULL, &p, &error), STK_OK);
    assert_int_equal(stk_pipeline_next(p, &batch, &error), STK_OK);
    int64_t before = -1;
    for (int quiet = 0; quiet < 20; quiet++) { /* until it no longer grows */
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        stk_pipeline_stats(p, &stats);
        if (stats.ready_batches != before)
            quiet = 0;
        before = stats.ready_batches;
    }
    stk_pipeline_close(p);
    return before;
}

static void prefetch_bounds_what_waits(void **state)
{
    assert_true(settled("range(1000) | batch(2) | prefetch(1)") <= 2);
    assert_true(settled("range(1000) | batch(2) | prefetch(5)") <= 6);
    assert_true(settled("range(1000) | batch(2) | prefetch(5)") >= 5);
    assert_true(settled("range(1000) | filter(\"value != 3\") | batch(2) | prefetch(5)") <= 6);
    assert_true(settled("range(100000) | batch(2) | prefetch(253)") <= 254);
}

static void prefetch_changes_no_data(void **state)
{
    seen a, b;
    run_all("range(50) | shuffle | batch(3)", NULL, &a);
    run_all("range(50) | shuffle | prefetch(1) | batch(3)", NULL, &b); /* at any place */
    assert_seen_equal(&a, 0, &b, "prefetch");
    seen_clear(&a);
    seen_clear(&b);
    ASSERT_VALUES("range(3) | batch(1) | prefetch", 0, 1, 2);
}

static void prefetch_refuses_bad_options(void **state)
{
    assert_refused("range(3) | prefetch(254)", NULL, STK_INVALID, "batches must be in 0..253, got an integer 254", 1,
                   21);
    assert_refused("range(3) | prefetch(-1)", NULL, STK_INVALID, "batches must be in 0..253, got an integer -1", 1, 21);
    assert_refused("range(3) | prefetch(1) | prefetch(2)", NULL, STK_INVALID,
                   "there is one at line 1, column 12 already", 1, 26);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(prefetch_bounds_what_waits),
        OP_TEST(prefetch_changes_no_data),
        OP_TEST(prefetch_refuses_bad_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
