/* take: of samples, of batches, behind a filter, over streams. */
#include "harness.h"

static void take_keeps_the_first_samples(void **state)
{
    ASSERT_VALUES("range(10) | take(3)", 0, 1, 2);
    ASSERT_VALUES("range(3) | take(10)", 0, 1, 2);
    ASSERT_VALUES("range(4) | repeat | take(6)", 0, 1, 2, 3, 0, 1);
    ASSERT_VALUES("range(4) | take(3) | repeat(2) | take(4)", 0, 1, 2, 0);
    assert_prints("range(10) | take(0)", "");
    assert_prints("range(10) | batch(2) | take(0) | repeat", "");
}

static void take_after_batch_counts_batches(void **state)
{
    ASSERT_ROWS("range(10) | batch(4) | take(2)", 4, 4);
    ASSERT_ROWS("range(10) | batch(4) | take(3)", 4, 4, 2);
    ASSERT_ROWS("range(10) | batch(4) | repeat | take(4)", 4, 4, 2, 4);
}

static void take_behind_a_filter_counts_what_passes(void **state)
{
    ASSERT_VALUES("range(100) | filter(\"value % 10 == 0\") | take(3)", 0, 10, 20);
    ASSERT_VALUES("range(100) | filter(\"value % 40 == 0\") | take(2) | repeat(2)", 0, 40, 0, 40);
    ASSERT_VALUES("range(100) | take(30) | filter(\"value % 10 == 0\")", 0, 10, 20);
    ASSERT_ROWS("range(100) | filter(\"value % 10 == 0\") | batch(3) | take(2) | repeat(2)", 3, 3, 3, 3);
    assert_explains("range(100) | filter(\"value % 10 == 0\") | take(3)", "counts what the filter lets pass");
}

/* What is left of the source is not gone through. */
static void take_behind_a_filter_ends_an_endless_run(void **state)
{
    ASSERT_VALUES("range(10) | repeat | filter(\"value % 5 == 4\") | take(4)", 4, 9, 4, 9);
    ASSERT_VALUES("range(10) | filter(\"value % 5 == 4\") | repeat | take(3)", 4, 9, 4);
    ASSERT_ROWS("range(9000000000000) | filter(\"value % 5 == 4\") | batch(2) | take(2)", 2, 2);
}

static void take_is_lifted_to_the_index_plane(void **state)
{
    assert_explains("range(100) | cast(value=int32) | take(3)", "take lifted to the index plane");
    seen s;
    run_all("range(1000) | cast(value=int32) | take(3)", NULL, &s);
    assert_int_equal(s.stats.dropped, 0);
    assert_int_equal(s.stats.total_batches, 1);
    seen_clear(&s);
}

static void take_over_a_stream_stops_reading(void **state)
{
    write_data();
    ASSERT_VALUES("tfrecord(\"$D/b-*.gz\") | take(3) | parse(value=int64)", 0, 1, 2);
    ASSERT_VALUES("tfrecord(\"$D/b-*.gz\") | parse(value=int64) | take(2) | repeat(2)", 0, 1, 0, 1);
    write_file("b-9.gz", "\x1f\x8b garbage", 10); /* is never come to */
    ASSERT_VALUES("tfrecord([\"$D/b-0.tfrecord.gz\", \"$D/b-9.gz\"]) | take(7) | parse(value=int64)", 0, 1, 2, 3, 4, 5,
                  6);
}

static void take_refuses_bad_options(void **state)
{
    assert_refused("range(3) | take()", NULL, STK_INVALID, "count is missing", 1, 12);
    assert_refused("range(3) | take(-1)", NULL, STK_INVALID, "count must be at least 0, got an integer -1", 1, 17);
    assert_refused("range(3) | take(1.5)", NULL, STK_INVALID, "count must be an integer, got a number 1.5", 1, 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(take_keeps_the_first_samples),
        OP_TEST(take_after_batch_counts_batches),
        OP_TEST(take_behind_a_filter_counts_what_passes),
        OP_TEST(take_behind_a_filter_ends_an_endless_run),
        OP_TEST(take_is_lifted_to_the_index_plane),
        OP_TEST(take_over_a_stream_stops_reading),
        OP_TEST(take_refuses_bad_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
