/* print: JSON of every type, bytes that are no text, errors of the taker. */
#include "harness.h"

#include "base/mem.h"
#include "formats/example.h"
#include "formats/tfrecord.h"

static void print_writes_one_line_for_each_sample(void **state)
{
    write_data();
    assert_prints(
        "tfrecord(\"$D/a-0*\") | take(3) | skip(1) | parse(value=int64, half=float32, pair=float32[2], words=bytes[], "
        "many=int64[], name=bytes) | batch(2) | print",
        "{\"value\":1, \"half\":0.5, \"pair\":[1, -1], \"words\":[\"w0\"], \"many\":[1], \"name\":\"n1\"}\n"
        "{\"value\":2, \"half\":1, \"pair\":[2, -2], \"words\":[\"w0\", \"w1\"], \"many\":[2, 3], \"name\":\"n2\"}\n");
    assert_prints("range(0) | print", "");
}

static void write_one(const char *name, const char *feature, const stk_bytes *bytes, const float *floats, int64_t count)
{
    stk__tfrecord_writer *file;
    stk__example_writer writer = {0};
    stk__text record = STK__TEXT_INIT;
    assert_int_equal(stk__tfrecord_writer_open(in_dir(name), STK__PLAIN, 6, &file, NULL), STK_OK);
    stk__example_begin(&writer);
    if (bytes)
        stk__example_add_bytes(&writer, feature, bytes, count);
    else
        stk__example_add_floats(&writer, feature, floats, count);
    assert_int_equal(stk__example_end(&writer, &record, NULL), STK_OK);
    assert_int_equal(stk__tfrecord_writer_add(file, record.data, record.length, NULL), STK_OK);
    assert_int_equal(stk__tfrecord_writer_commit(file, NULL), STK_OK);
    stk__example_writer_clear(&writer);
    stk__text_clear(&record);
}

static void print_writes_bytes_as_text_or_base64(void **state)
{
    const stk_bytes values[] = {{(const uint8_t *)"a\"b\n\xc3\xa9", 6},
                                {(const uint8_t *)"", 0},
                                {(const uint8_t *)"\xff", 1},
                                {(const uint8_t *)"\xff\xfe", 2},
                                {(const uint8_t *)"\xff\xfe\x00", 3}};
    write_one("one", "b", values, NULL, 5);
    assert_prints(
        "tfrecord(\"$D/one\") | parse(b=bytes[])",
        "{\"b\":[\"a\\\"b\\n\xc3\xa9\", \"\", {\"base64\":\"/w==\"}, {\"base64\":\"//4=\"}, {\"base64\":\"//4A\"}]}\n");
}

static void print_writes_numbers_that_read_back(void **state)
{
    const float values[] = {0.1f, 1e30f, -2.5e-8f, 16777216.0f, 1.0f / 3.0f, -0.0f};
    write_one("one", "x", NULL, values, 6);
    assert_prints("tfrecord(\"$D/one\") | parse(x=float32[6])",
                  "{\"x\":[0.1, 1e+30, -2.5e-08, 16777216, 0.33333334, -0]}\n");
    assert_prints("range(9223372036854775807, start=9223372036854775806) | cast(value=uint64)",
                  "{\"value\":9223372036854775806}\n");
    assert_prints("range(-1, start=-3) | cast(value=int8)", "{\"value\":-3}\n{\"value\":-2}\n");
}

static void print_of_special_floats_is_a_string(void **state)
{
    const float zero = 0, values[] = {1 / zero, -1 / zero, zero / zero};
    write_one("one", "x", NULL, values, 3);
    assert_prints("tfrecord(\"$D/one\") | parse(x=float32[])", "{\"x\":[\"Infinity\", \"-Infinity\", \"NaN\"]}\n");
}

static void print_nests_lists_by_shape(void **state)
{
    const float values[] = {1, 2, 3, 4, 5, 6};
    write_one("one", "x", NULL, values, 6);
    assert_prints("tfrecord(\"$D/one\") | parse(x=float32[3, 2])", "{\"x\":[[1, 2], [3, 4], [5, 6]]}\n");
    assert_prints("tfrecord(\"$D/one\") | parse(x=float32[, 3])", "{\"x\":[[1, 2, 3], [4, 5, 6]]}\n");
}

static stk_status full(void *arg, const char *text, size_t size, stk_error *err)
{
    return stk_error_set(err, STK_IO, "no space left");
}

static void print_hands_on_what_the_taker_says(void **state)
{
    stk_config config = harness_config();
    stk_pipeline *p;
    stk_error error;
    const stk_batch *batch;
    config.print = full;
    assert_int_equal(try_open("range(3) | print", &config, &p, &error), STK_OK);
    assert_int_equal(stk_pipeline_next(p, &batch, &error), STK_OK);
    assert_int_equal(stk_pipeline_consume(p, batch, &error), STK_IO);
    assert_string_equal(error.op, "print");
    assert_string_equal(error.message, "no space left");
    stk_pipeline_close(p);
}

static void print_without_a_taker_does_nothing(void **state)
{
    stk_pipeline *p;
    const stk_batch *batch;
    assert_int_equal(try_open("range(3) | print", NULL, &p, NULL), STK_OK);
    assert_int_equal(stk_pipeline_next(p, &batch, NULL), STK_OK);
    assert_int_equal(stk_pipeline_consume(p, batch, NULL), STK_OK);
    stk_pipeline_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(print_writes_one_line_for_each_sample),
        OP_TEST(print_writes_bytes_as_text_or_base64),
        OP_TEST(print_writes_numbers_that_read_back),
        OP_TEST(print_of_special_floats_is_a_string),
        OP_TEST(print_nests_lists_by_shape),
        OP_TEST(print_hands_on_what_the_taker_says),
        OP_TEST(print_without_a_taker_does_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
