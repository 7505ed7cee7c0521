/* one_hot: rows, lists, smoothing, labels out of range. */
#include "harness.h"

static void one_hot_makes_rows(void **state)
{
    assert_prints("range(3) | one_hot(value, 3)",
                  "{\"value\":[1, 0, 0]}\n{\"value\":[0, 1, 0]}\n{\"value\":[0, 0, 1]}\n");
    assert_prints("range(2) | cast(value=uint8) | one_hot(value, 4) | batch(2)",
                  "{\"value\":[1, 0, 0, 0]}\n{\"value\":[0, 1, 0, 0]}\n");
}

static void one_hot_of_a_list_makes_a_matrix(void **state)
{
    write_data();
    assert_prints("tfrecord(\"$D/a-0*\") | take(3) | parse(many=int64[]) | one_hot(many, 4)",
                  "{\"many\":[]}\n{\"many\":[[0, 1, 0, 0]]}\n{\"many\":[[0, 0, 1, 0], [0, 0, 0, 1]]}\n");
}

static void one_hot_smooths(void **state)
{
    assert_prints("range(1) | one_hot(value, 4, smoothing=0.5)", "{\"value\":[0.625, 0.125, 0.125, 0.125]}\n");
    assert_prints("range(2, start=1) | one_hot(value, 2, smoothing=1)", "{\"value\":[0.5, 0.5]}\n");
}

static void one_hot_label_out_of_range_is_corrupt(void **state)
{
    assert_fails("range(5) | one_hot(value, 3)", NULL, STK_CORRUPT, "field 'value' is 3, wanted 0 to 2");
    assert_fails("range(1, start=-1) | one_hot(value, 3)", NULL, STK_CORRUPT, "field 'value' is -1, wanted 0 to 2");
    stk_config config = harness_config();
    config.on_error = STK_ON_ERROR_SKIP;
    seen s;
    run_all("range(5) | one_hot(value, 3) | batch(2)", &config, &s);
    assert_string_equal(s.lines.data, "{\"value\":[1, 0, 0]}\n{\"value\":[0, 1, 0]}\n{\"value\":[0, 0, 1]}\n");
    assert_int_equal(s.stats.skipped, 2);
    seen_clear(&s);
}

static void one_hot_refuses(void **state)
{
    write_data();
    assert_refused("range(5) | one_hot(value)", NULL, STK_INVALID, "classes is missing", 1, 12);
    assert_refused("range(5) | cast(value=float32) | one_hot(value, 3)", NULL, STK_INVALID,
                   "field 'value' is float32 with 0 dimensions, wanted integers with 0 or 1", 1, 34);
    assert_refused("range(5) | one_hot(value, 3) | one_hot(value, 3)", NULL, STK_INVALID, "float32 with 1 dimensions",
                   1, 32);
    assert_refused("range(5) | batch(2) | one_hot(value, 3)", NULL, STK_INVALID, "put it before batch", 1, 23);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(one_hot_makes_rows), OP_TEST(one_hot_of_a_list_makes_a_matrix),
        OP_TEST(one_hot_smooths),    OP_TEST(one_hot_label_out_of_range_is_corrupt),
        OP_TEST(one_hot_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
