/* range: numbers, steps, limits. */
#include "harness.h"

static void range_counts_from_start_to_stop(void **state)
{
    assert_prints("range(3) | print", "{\"value\":0}\n{\"value\":1}\n{\"value\":2}\n");
    ASSERT_VALUES("range(10, start=2, step=3)", 2, 5, 8);
    ASSERT_VALUES("range(11, 2, 3)", 2, 5, 8);
    ASSERT_VALUES("range(-4, start=3, step=-2)", 3, 1, -1, -3);
    ASSERT_VALUES("range(-5, start=-7)", -7, -6);
}

static void range_may_be_empty(void **state)
{
    assert_prints("range(0) | print", "");
    assert_prints("range(5, start=5) | batch(2) | repeat(3)", "");
    assert_prints("range(0) | batch(2) | repeat", "");
    assert_prints("range(0) | shuffle | repeat | batch(2)", "");
}

static void range_reaches_the_ends_of_int64(void **state)
{
    ASSERT_VALUES("range(9223372036854775807, start=9223372036854775805)", INT64_MAX - 2, INT64_MAX - 1);
    ASSERT_VALUES("range(-9223372036854775808, start=-9223372036854775806, step=-1)", INT64_MIN + 2, INT64_MIN + 1);
    ASSERT_VALUES("range(9223372036854775807, start=-9223372036854775808, step=9223372036854775807) | take(5)",
                  INT64_MIN, -1, INT64_MAX - 1);
    ASSERT_VALUES("range(9223372036854775807, start=-9223372036854775808) | skip(1000000000000) | take(1)",
                  INT64_MIN + 1000000000000);
}

static void range_without_batch_comes_in_groups(void **state)
{
    ASSERT_ROWS("range(600)", 256, 256, 88);
}

static void range_refuses_what_cannot_be(void **state)
{
    assert_refused("range(5, step=0)", NULL, STK_INVALID, "step must not be 0", 1, 1);
    assert_refused("range(5, start=7)", NULL, STK_INVALID, "stop 5 cannot be reached from start 7", 1, 1);
    assert_refused("range(5, step=-1)", NULL, STK_INVALID, "stop 5 cannot be reached from start 0", 1, 1);
    assert_refused("range()", NULL, STK_INVALID, "stop is missing: the first number that is not reached", 1, 1);
    assert_refused("range(\"5\")", NULL, STK_INVALID, "stop must be an integer, got a string \"5\"", 1, 7);
    assert_refused("range(5, stop=6)", NULL, STK_INVALID, "stop is given twice", 1, 10);
    assert_refused("range(5, 1, 1, 1)", NULL, STK_INVALID, "too many arguments: number 4", 1, 16);
    assert_refused("range(5, stp=2)", NULL, STK_INVALID, "no option 'stp'; did you mean 'stop'?", 1, 10);
    assert_refused("range(5) |\n  range(5)", NULL, STK_INVALID, "is a source: it can only come first", 2, 3);
    assert_refused("batch(5)", NULL, STK_INVALID, "a pipeline starts with a source", 1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(range_counts_from_start_to_stop), OP_TEST(range_may_be_empty),
        OP_TEST(range_reaches_the_ends_of_int64), OP_TEST(range_without_batch_comes_in_groups),
        OP_TEST(range_refuses_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
