/* filter: expressions on fields of every type, places, what is counted, errors. */
#include "harness.h"

static void filter_keeps_what_is_true(void **state)
{
    ASSERT_VALUES("range(10) | filter(\"value % 4 == 1\")", 1, 5, 9);
    ASSERT_VALUES("range(10) | filter(where=\"value in [3, 5] or value > 8\")", 3, 5, 9);
    ASSERT_VALUES("range(10) | filter(\"value > 2\") | filter(\"value < 5\")", 3, 4);
    assert_prints("range(10) | filter(\"value > 100\")", "");
    ASSERT_ROWS("range(10) | filter(\"value != 4\") | batch(4)", 4, 4, 1);
    ASSERT_ROWS("range(10) | filter(\"value != 4\") | batch(4, drop_last=true) | repeat(2)", 4, 4, 4, 4);
}

static void filter_reads_fields_of_every_type(void **state)
{
    static const char *const types[] = {"uint8", "int8",  "uint16",  "int16",  "uint32",
                                        "int32", "int64", "float32", "float64"};
    for (size_t i = 0; i < STK_COUNT(types); i++) {
        char text[128];
        snprintf(text, sizeof text, "range(6) | cast(value=%s) | filter(\"value >= 4\") | cast(value=int64)", types[i]);
        ASSERT_VALUES(text, 4, 5);
    }
    assert_prints("range(3) | cast(value=bool) | filter(\"not value\")", "{\"value\":false}\n");
    write_data();
    ASSERT_VALUES("tfrecord(\"$D/a-*\") | parse(value=int64, name=bytes) | filter(\"name == 'n7' or name > 'n8'\")", 7,
                  9);
    ASSERT_VALUES("tfrecord(\"$D/a-*\") | parse(value=int64, half=float32) | filter(\"half > 10.4\")", 21, 22);
}

/* A field that only the filter reads is parsed for it, and not handed over. */
static void filter_may_read_what_is_dropped_later(void **state)
{
    write_data();
    assert_prints("tfrecord(\"$D/a-*\") | parse(value=int64, name=bytes) | filter(\"value == 3\") | drop(value)",
                  "{\"name\":\"n3\"}\n");
    assert_prints("tfrecord(\"$D/a-*\") | parse(value=int64, name=bytes) | select(value) | filter(\"value == 3\")",
                  "{\"value\":3}\n");
}

static void filter_works_on_streams(void **state)
{
    write_data();
    ASSERT_VALUES("tfrecord(\"$D/b-*\") | parse(value=int64) | filter(\"value % 10 == 2\") | repeat(2)", 2, 12, 22, 2,
                  12, 22);
    assert_prints("text(\"$D/lines.txt.gz\") | filter(\"text == 'line 7'\")", "{\"text\":\"line 7\"}\n");
}

static void filter_counts_what_it_drops(void **state)
{
    seen s;
    run_all("range(100) | filter(\"value % 4 == 0\") | batch(10) | repeat(2)", NULL, &s);
    assert_int_equal(s.stats.samples, 50);
    assert_int_equal(s.stats.dropped, 150);
    assert_int_equal(s.stats.skipped, 0);
    assert_int_equal(s.stats.total_batches, -1);
    seen_clear(&s);
}

/* Ragged columns lose the rows that fell out, and theirs alone. */
static void filter_keeps_ragged_rows_together(void **state)
{
    write_data();
    assert_prints(
        "tfrecord(\"$D/a-0*\") | parse(value=int64, words=bytes[], many=int64[]) | filter(\"value in [2, 3, 5]\") | batch(2)",
        "{\"value\":2, \"words\":[\"w0\", \"w1\"], \"many\":[2, 3]}\n"
        "{\"value\":3, \"words\":[\"w0\", \"w1\", \"w2\"], \"many\":[]}\n"
        "{\"value\":5, \"words\":[\"w0\"], \"many\":[5, 6]}\n");
}

static void filter_that_cannot_be_evaluated_is_a_bad_record(void **state)
{
    static const char text[] = "range(6) | filter(\"10 % value != 3\")";
    assert_fails(text, NULL, STK_CORRUPT, "");
    stk_config config = harness_config();
    config.on_error = STK_ON_ERROR_SKIP;
    seen s;
    run_all(text, &config, &s);
    assert_int_equal(s.stats.skipped, 1);
    assert_int_equal(s.value_count, 5);
    seen_clear(&s);
}

static void filter_refuses_bad_expressions(void **state)
{
    write_data();
    assert_refused("range(9) | filter()", NULL, STK_INVALID, "where is missing", 1, 12);
    assert_refused("range(9) | filter(\"valu > 3\")", NULL, STK_INVALID, "no field 'valu' here; did you mean 'value'?",
                   1, 12);
    assert_refused("range(9) |\n filter(\"value >\")", NULL, STK_INVALID, "at 8 of the expression", 2, 2);
    assert_refused("range(9) | filter(\"value\")", NULL, STK_INVALID, "", 1, 12);
    assert_refused("range(9) | cast(value=float16) | filter(\"value > 1\")", NULL, STK_INVALID,
                   "field 'value' is float16; cast it to float32 or int64 first", 1, 34);
    assert_refused("tfrecord(\"$D/a-0*\")\n| parse(many=int64[])\n| filter(\"many > 1\")", NULL, STK_INVALID,
                   "field 'many' has 1 dimensions, wanted a scalar", 3, 3);
    assert_refused("range(9) | batch(3) | filter(\"value > 3\")", NULL, STK_INVALID, "put it before batch", 1, 23);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(filter_keeps_what_is_true),
        OP_TEST(filter_reads_fields_of_every_type),
        OP_TEST(filter_may_read_what_is_dropped_later),
        OP_TEST(filter_works_on_streams),
        OP_TEST(filter_counts_what_it_drops),
        OP_TEST(filter_keeps_ragged_rows_together),
        OP_TEST(filter_that_cannot_be_evaluated_is_a_bad_record),
        OP_TEST(filter_refuses_bad_expressions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
