/* batch: sizes, the last one, ragged and padded columns, bytes, places, errors. */
#include "harness.h"

static void batch_stacks_samples(void **state)
{
    ASSERT_ROWS("range(10) | batch(4)", 4, 4, 2);
    ASSERT_ROWS("range(10) | batch(size=5)", 5, 5);
    ASSERT_ROWS("range(10) | batch(4, drop_last=true)", 4, 4);
    ASSERT_ROWS("range(3) | batch(100)", 3);
    ASSERT_VALUES("range(5) | batch(2)", 0, 1, 2, 3, 4);
    assert_prints("range(3) | batch(4, drop_last=true)", "");
}

/* Hands the first batch of a pipeline to a check. */
static void first_batch(const char *text, void (*check)(const stk_batch *batch))
{
    stk_pipeline *p;
    stk_error error;
    const stk_batch *batch;
    if (try_open(text, NULL, &p, &error) != STK_OK || stk_pipeline_next(p, &batch, &error) != STK_OK)
        fail_msg("'%s': %s", text, error.message);
    check(batch);
    stk_batch_release(p, batch);
    stk_pipeline_close(p);
}

static void check_dense(const stk_batch *batch)
{
    assert_int_equal(batch->rows, 3);
    assert_int_equal(batch->column_count, 2);
    const stk_column *pair = &batch->columns[0];
    assert_string_equal(pair->name, "pair");
    assert_int_equal(pair->dtype, STK_FLOAT32);
    assert_int_equal(pair->ndim, 2);
    assert_int_equal(pair->shape[0], 3);
    assert_int_equal(pair->shape[1], 2);
    assert_int_equal(pair->elements, 6);
    assert_int_equal(pair->size_bytes, 24);
    assert_null(pair->offsets);
    assert_null(pair->row_shapes);
    const float *x = pair->data;
    assert_true(x[0] == 0 && x[2] == 1 && x[3] == -1 && x[5] == -2);
    const stk_column *name = &batch->columns[1];
    assert_int_equal(name->dtype, STK_BYTES);
    assert_int_equal(name->ndim, 1);
    assert_int_equal(name->size_bytes, 6);
    const stk_bytes *views = name->data;
    assert_int_equal(views[2].size, 2);
    assert_memory_equal(views[2].data, "n2", 2);
}

static void batch_of_fixed_fields_is_dense(void **state)
{
    write_data();
    first_batch("tfrecord(\"$D/a-*\") | parse(pair=float32[2], name=bytes) | batch(3)", check_dense);
    first_batch("tfrecord(\"$D/b-*\") | parse(pair=float32[2], name=bytes) | batch(3)", check_dense);
    first_batch(
        "tfrecord(\"$D/a-*\") | parse(pair=float32[2], name=bytes, value=int64) | filter(\"value < 9\") | drop(value) | batch(3)",
        check_dense);
}

static void check_ragged(const stk_batch *batch)
{
    static const int64_t offsets[] = {0, 0, 1, 3, 6};
    const stk_column *words = &batch->columns[0];
    assert_int_equal(words->ndim, 2);
    assert_int_equal(words->shape[0], 4);
    assert_int_equal(words->shape[1], -1);
    assert_int_equal(words->elements, 6);
    assert_int_equal(words->size_bytes, 12);
    assert_memory_equal(words->offsets, offsets, sizeof offsets);
    assert_null(words->row_shapes);
    const stk_bytes *views = words->data;
    assert_memory_equal(views[5].data, "w2", 2);
}

static void batch_of_varying_fields_is_ragged(void **state)
{
    write_data();
    first_batch("tfrecord(\"$D/a-*\") | parse(words=bytes[]) | batch(4)", check_ragged);
    first_batch("tfrecord(\"$D/b-*\") | parse(words=bytes[]) | batch(4)", check_ragged);
    first_batch("tfrecord(\"$D/b-*\") | parse(words=bytes[]) | cache | batch(4)", check_ragged);
}

static void check_ragged_rows(const stk_batch *batch)
{
    static const int64_t offsets[] = {0, 2, 2}, shapes[] = {1, 2, 0, 2};
    const stk_column *many = &batch->columns[0];
    assert_int_equal(many->ndim, 3);
    assert_int_equal(many->shape[1], -1);
    assert_int_equal(many->shape[2], 2);
    assert_memory_equal(many->offsets, offsets, sizeof offsets);
    assert_memory_equal(many->row_shapes, shapes, sizeof shapes);
}

static void batch_of_varying_rows_tells_their_shapes(void **state)
{
    write_data();
    /* Numbers 2 and 3 have two values and none. */
    first_batch("tfrecord(\"$D/a-*\") | skip(2) | take(2) | parse(many=int64[, 2]) | batch(3)", check_ragged_rows);
    first_batch("tfrecord(\"$D/b-*\") | skip(2) | take(2) | parse(many=int64[, 2]) | batch(3)", check_ragged_rows);
}

static void check_padded(const stk_batch *batch)
{
    static const int64_t values[] = {-7, -7, 1, -7, 2, 3, -7, -7}, shapes[] = {0, 1, 2, 0};
    const stk_column *many = &batch->columns[0];
    assert_null(many->offsets);
    assert_int_equal(many->shape[0], 4);
    assert_int_equal(many->shape[1], 2);
    assert_int_equal(many->elements, 8);
    assert_memory_equal(many->data, values, sizeof values);
    assert_memory_equal(many->row_shapes, shapes, sizeof shapes);
}

static void batch_pads_to_the_largest(void **state)
{
    write_data();
    first_batch("tfrecord(\"$D/a-*\") | parse(many=int64[]) | batch(4, pad=true, pad_value=-7)", check_padded);
    first_batch("tfrecord(\"$D/b-*\") | parse(many=int64[]) | batch(4, pad=true, pad_value=-7)", check_padded);
    assert_prints("tfrecord(\"$D/a-*\") | take(2) | parse(words=bytes[]) | batch(2, pad=true)",
                  "{\"words\":[\"\"]}\n{\"words\":[\"w0\"]}\n");
    assert_prints("tfrecord(\"$D/a-*\") | take(4) | skip(3) | parse(many=int64[]) | batch(2, pad=true)",
                  "{\"many\":[]}\n");
    assert_prints(
        "tfrecord(\"$D/a-*\") | take(3) | skip(1) | parse(many=int64[]) | cast(many=float32) | batch(2, pad=true, pad_value=0.5)",
        "{\"many\":[1, 0.5]}\n{\"many\":[2, 3]}\n");
}

#define CAST \
    "tfrecord(\"$D/a-*\") | take(3) | skip(1) | parse(many=int64[]) | cast(many=%s) | batch(2, pad=true, pad_value=%s)"

static void batch_refuses_a_pad_value_that_does_not_fit(void **state)
{
    static const struct {
        const char *type, *value;
    } cases[] = {{"float16", "0.5"}, {"bfloat16", "1"}, {"uint8", "-1"}, {"uint8", "256"},
                 {"int32", "0.5"},   {"int64", "1e19"}, {"bool", "2"},   {"float32", "1e39"}};
    write_data();
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        char text[160], wanted[96];
        snprintf(text, sizeof text, CAST, cases[i].type, cases[i].value);
        snprintf(wanted, sizeof wanted, "field 'many' of type %s cannot be padded with", cases[i].type);
        assert_fails(text, NULL, STK_INVALID, wanted);
    }
    char text[160];
    snprintf(text, sizeof text, CAST, "uint8", "255");
    assert_prints(text, "{\"many\":[1, 255]}\n{\"many\":[2, 3]}\n");
    snprintf(text, sizeof text, CAST, "float16", "0");
    assert_prints(text, "{\"many\":[1, 0]}\n{\"many\":[2, 3]}\n");
}

/* A slab that is used again must not show what it held before. */
static void batches_do_not_leak_into_each_other(void **state)
{
    write_data();
    static const char text[] =
        "tfrecord(\"$D/a-*\") | parse(words=bytes[], many=int64[], name=bytes) | batch(2, pad=true)";
    seen once, often;
    char repeated[256];
    snprintf(repeated, sizeof repeated, "%s | repeat(20)", text);
    run_all(text, NULL, &once);
    run_all(repeated, NULL, &often);
    for (size_t i = 0; i < often.count; i++)
        assert_string_equal(often.batches[i].digest, once.batches[i % once.count].digest);
    seen_clear(&once);
    seen_clear(&often);
}

static void batches_may_be_held(void **state)
{
    stk_pipeline *p;
    const stk_batch *held[8];
    assert_int_equal(try_open("range(100) | batch(3)", NULL, &p, NULL), STK_OK);
    for (int i = 0; i < 8; i++)
        assert_int_equal(stk_pipeline_next(p, &held[i], NULL), STK_OK);
    for (int i = 0; i < 8; i++)
        assert_int_equal(*(const int64_t *)held[i]->columns[0].data, i * 3);
    for (int i = 7; i >= 0; i--)
        stk_batch_release(p, held[i]);
    stk_pipeline_close(p);
}

static void batch_refuses_bad_options(void **state)
{
    assert_refused("range(3) | batch()", NULL, STK_INVALID, "size is missing: samples in a batch", 1, 12);
    assert_refused("range(3) | batch(0)", NULL, STK_INVALID, "size must be in 1..16777216, got an integer 0", 1, 18);
    assert_refused("range(3) | batch(16777217)", NULL, STK_INVALID, "size must be in 1..16777216", 1, 18);
    assert_refused("range(3) | batch(2, pad_value=1)", NULL, STK_INVALID, "pad is false", 1, 12);
    assert_refused("range(3) | batch(2, pad=true, pad_value=\"x\")", NULL, STK_INVALID, "pad_value must be a number", 1,
                   41);
    assert_refused("range(3) | batch(2) | batch(2)", NULL, STK_INVALID, "there is one at line 1, column 12 already", 1,
                   23);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(batch_stacks_samples),
        OP_TEST(batch_of_fixed_fields_is_dense),
        OP_TEST(batch_of_varying_fields_is_ragged),
        OP_TEST(batch_of_varying_rows_tells_their_shapes),
        OP_TEST(batch_pads_to_the_largest),
        OP_TEST(batch_refuses_a_pad_value_that_does_not_fit),
        OP_TEST(batches_do_not_leak_into_each_other),
        OP_TEST(batches_may_be_held),
        OP_TEST(batch_refuses_bad_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
