/* repeat: epochs before and after batch, without end, of nothing. */
#include "harness.h"

static void repeat_goes_over_the_samples_again(void **state)
{
    ASSERT_VALUES("range(2) | repeat(3)", 0, 1, 0, 1, 0, 1);
    ASSERT_VALUES("range(2) | repeat(1)", 0, 1);
    ASSERT_VALUES("range(2) | repeat(2) | repeat(2)", 0, 1, 0, 1, 0, 1, 0, 1);
    ASSERT_VALUES("range(2) | repeat | take(5)", 0, 1, 0, 1, 0);
    ASSERT_VALUES("range(2) | repeat(count=0) | take(3)", 0, 1, 0);
}

static void repeat_before_batch_lets_batches_span_epochs(void **state)
{
    ASSERT_ROWS("range(5) | repeat(2) | batch(4)", 4, 4, 2);
    ASSERT_ROWS("range(5) | batch(4) | repeat(2)", 4, 1, 4, 1);
    ASSERT_ROWS("range(5) | batch(4, drop_last=true) | repeat(2)", 4, 4);
}

static void assert_epochs(const char *text, const int64_t *epochs, size_t count)
{
    seen s;
    run_all(text, NULL, &s);
    assert_int_equal(s.count, count);
    for (size_t i = 0; i < count; i++)
        if (s.batches[i].epoch != epochs[i])
            fail_msg("'%s': batch %zu is of epoch %lld, wanted %lld", text, i, (long long)s.batches[i].epoch,
                     (long long)epochs[i]);
    seen_clear(&s);
}

/* The epoch of a batch is that of its first row, whichever way batches are made. */
static void repeat_numbers_epochs(void **state)
{
    write_data();
    assert_epochs("range(4) | batch(2) | repeat(3)", (int64_t[]){0, 0, 1, 1, 2, 2}, 6);
    assert_epochs("range(4) | repeat(3) | batch(3)", (int64_t[]){0, 0, 1, 2}, 4);
    assert_epochs("range(4) | filter(\"value < 3\") | batch(2) | repeat(3)", (int64_t[]){0, 0, 1, 1, 2, 2}, 6);
    assert_epochs("range(4) | filter(\"value < 3\") | repeat(3) | batch(3)", (int64_t[]){0, 1, 2}, 3);
    assert_epochs("tfrecord(\"$D/b-2.tfrecord.gz\") | repeat(2) | batch(4)", (int64_t[]){0, 0, 1}, 3);
    assert_epochs("tfrecord(\"$D/b-2.tfrecord.gz\") | batch(4) | repeat(2)", (int64_t[]){0, 0, 1, 1}, 4);
}

static void repeat_of_nothing_ends(void **state)
{
    write_data();
    assert_prints("range(0) | repeat | batch(2)", "");
    assert_prints("tfrecord(\"$D/a-1.tfrecord\") | repeat", "");
    assert_prints("tfrecord(\"$D/b-1.tfrecord.gz\") | repeat", "");
    assert_prints("tfrecord(\"$D/b-1.tfrecord.gz\") | batch(2) | repeat", "");
    assert_prints("range(5) | take(0) | repeat | repeat(3)", "");
}

/* A filter that lets nothing pass would go on for ever. */
static void repeat_without_end_of_what_all_falls_out_is_told(void **state)
{
    assert_fails("range(5) | filter(\"value > 100\") | batch(2) | repeat", NULL, STK_INVALID, "repeat without end");
    assert_fails("range(5) | repeat | filter(\"value > 100\")", NULL, STK_INVALID, "repeat without end");
}

static void repeat_over_a_stream_reads_it_again(void **state)
{
    write_data();
    ASSERT_VALUES("tfrecord(\"$D/b-2.tfrecord.gz\") | parse(value=int64) | repeat(2)", 7, 8, 9, 10, 11, 7, 8, 9, 10,
                  11);
    ASSERT_ROWS("tfrecord(\"$D/b-2.tfrecord.gz\") | batch(3) | repeat | take(5)", 3, 2, 3, 2, 3);
}

static void repeat_refuses_bad_options(void **state)
{
    assert_refused("range(3) | repeat(-1)", NULL, STK_INVALID, "count must be in 0..2147483648, got an integer -1", 1,
                   19);
    assert_refused("range(3) | repeat(2, 3)", NULL, STK_INVALID, "too many arguments", 1, 22);
    assert_refused("range(30) | filter(\"value > 3\") | batch(2) | repeat(2) | repeat(2)", NULL, STK_UNSUPPORTED,
                   "more than one repeat behind batch", 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(repeat_goes_over_the_samples_again),
        OP_TEST(repeat_before_batch_lets_batches_span_epochs),
        OP_TEST(repeat_numbers_epochs),
        OP_TEST(repeat_of_nothing_ends),
        OP_TEST(repeat_without_end_of_what_all_falls_out_is_told),
        OP_TEST(repeat_over_a_stream_reads_it_again),
        OP_TEST(repeat_refuses_bad_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
