/* skip: of samples, of batches, behind a filter, over streams. */
#include "harness.h"

static void skip_leaves_out_the_first_samples(void **state)
{
    ASSERT_VALUES("range(6) | skip(4)", 4, 5);
    ASSERT_VALUES("range(6) | skip(0) | skip(5)", 5);
    ASSERT_VALUES("range(4) | skip(3) | repeat(3)", 3, 3, 3);
    ASSERT_VALUES("range(3) | repeat | skip(4) | take(3)", 1, 2, 0);
    assert_prints("range(6) | skip(6)", "");
    assert_prints("range(6) | skip(7) | repeat | batch(2)", "");
}

static void skip_after_batch_counts_batches(void **state)
{
    ASSERT_ROWS("range(10) | batch(4) | skip(1)", 4, 2);
    ASSERT_VALUES("range(5) | batch(2) | skip(2) | repeat(2)", 4, 4);
    ASSERT_VALUES("range(5) | batch(2) | repeat(2) | skip(4)", 2, 3, 4);
}

static void skip_behind_a_filter_counts_what_passes(void **state)
{
    ASSERT_VALUES("range(50) | filter(\"value % 10 == 0\") | skip(3)", 30, 40);
    ASSERT_VALUES("range(50) | filter(\"value % 10 == 0\") | skip(4) | repeat(2)", 40, 40);
    ASSERT_VALUES("range(50) | skip(35) | filter(\"value % 10 == 0\")", 40);
    seen s;
    run_all("range(50) | filter(\"value % 10 == 0\") | skip(3)", NULL, &s);
    assert_int_equal(s.stats.dropped, 48);
    seen_clear(&s);
}

static void skip_over_a_stream(void **state)
{
    write_data();
    ASSERT_VALUES("tfrecord(\"$D/b-*.gz\") | skip(21) | parse(value=int64)", 21, 22);
    ASSERT_VALUES("tfrecord(\"$D/b-*.gz\") | skip(22) | parse(value=int64) | repeat(2)", 22, 22);
    assert_prints("tfrecord(\"$D/b-*.gz\") | skip(23) | repeat", "");
}

static void skip_far_into_a_long_range_takes_no_time(void **state)
{
    ASSERT_VALUES("range(1000000000000) | skip(999999999999)", 999999999999);
}

static void skip_refuses_bad_options(void **state)
{
    assert_refused("range(3) | skip()", NULL, STK_INVALID, "count is missing", 1, 12);
    assert_refused("range(3)\n| skip(count=-1)", NULL, STK_INVALID,
                   "count must be in 0..1152921504606846976, got an integer -1", 2, 14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(skip_leaves_out_the_first_samples),        OP_TEST(skip_after_batch_counts_batches),
        OP_TEST(skip_behind_a_filter_counts_what_passes),  OP_TEST(skip_over_a_stream),
        OP_TEST(skip_far_into_a_long_range_takes_no_time), OP_TEST(skip_refuses_bad_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
