/* Conversion of numbers: every pair of types, the ends of their ranges, half floats bit by bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "kernels/convert.h"

/* Small numbers are the same in every type. */
static void convert_of_small_numbers_between_all_types(void **state)
{
    static const double numbers[] = {0, 1, 0, 1, 1};
    static const double more[] = {0, 1, 2, 100, 127};
    for (int from = 0; from < STK_BYTES; from++) {
        for (int to = 0; to < STK_BYTES; to++) {
            const double *values = from == STK_BOOL || to == STK_BOOL ? numbers : more;
            double back[5];
            char a[40], b[40];
            assert_true(stk__convert(a, (stk_dtype)from, values, STK_FLOAT64, 5));
            assert_true(stk__convert(b, (stk_dtype)to, a, (stk_dtype)from, 5));
            assert_true(stk__convert(back, STK_FLOAT64, b, (stk_dtype)to, 5));
            for (int i = 0; i < 5; i++)
                if (back[i] != values[i])
                    fail_msg("%g from %s to %s is %g", values[i], stk_dtype_name((stk_dtype)from),
                             stk_dtype_name((stk_dtype)to), back[i]);
        }
    }
}

static void convert_of_bytes_is_refused(void **state)
{
    int64_t x = 0;
    assert_false(stk__convert(&x, STK_INT64, &x, STK_BYTES, 0));
    assert_false(stk__convert(&x, STK_BYTES, &x, STK_INT64, 0));
}

static const struct {
    stk_dtype dtype;
    int64_t low;
    uint64_t high;
} ranges[] = {
    {STK_UINT8, 0, UINT8_MAX},         {STK_INT8, INT8_MIN, INT8_MAX},    {STK_UINT16, 0, UINT16_MAX},
    {STK_INT16, INT16_MIN, INT16_MAX}, {STK_UINT32, 0, UINT32_MAX},       {STK_INT32, INT32_MIN, INT32_MAX},
    {STK_UINT64, 0, UINT64_MAX},       {STK_INT64, INT64_MIN, INT64_MAX},
};

static int64_t as_int64(stk_dtype dtype, const void *data)
{
    int64_t out;
    assert_true(stk__convert(&out, STK_INT64, data, dtype, 1));
    return out;
}

static uint64_t as_uint64(stk_dtype dtype, const void *data)
{
    uint64_t out;
    assert_true(stk__convert(&out, STK_UINT64, data, dtype, 1));
    return out;
}

static void convert_from_reals_saturates(void **state)
{
    static const stk_dtype reals[] = {STK_FLOAT32, STK_FLOAT64};
    for (size_t r = 0; r < STK_COUNT(reals); r++) {
        for (size_t i = 0; i < STK_COUNT(ranges); i++) {
            static const double low[] = {-1e30, -INFINITY}, high[] = {1e30, INFINITY}, nan[] = {NAN};
            double in;
            char out[8];
            for (int k = 0; k < 2; k++) {
                stk__convert(&in, reals[r], &low[k], STK_FLOAT64, 1);
                stk__convert(out, ranges[i].dtype, &in, reals[r], 1);
                assert_true(as_int64(ranges[i].dtype, out) == ranges[i].low);
                stk__convert(&in, reals[r], &high[k], STK_FLOAT64, 1);
                stk__convert(out, ranges[i].dtype, &in, reals[r], 1);
                assert_true(as_uint64(ranges[i].dtype, out) == ranges[i].high);
            }
            stk__convert(&in, reals[r], nan, STK_FLOAT64, 1);
            stk__convert(out, ranges[i].dtype, &in, reals[r], 1);
            assert_true(as_int64(ranges[i].dtype, out) == 0);
        }
    }
}

static void convert_from_reals_goes_towards_zero(void **state)
{
    static const double in[] = {1.9, -1.9, 0.5, -0.5};
    int32_t out[4];
    assert_true(stk__convert(out, STK_INT32, in, STK_FLOAT64, 4));
    assert_true(out[0] == 1 && out[1] == -1 && out[2] == 0 && out[3] == 0);
}

static void convert_between_integers_saturates(void **state)
{
    static const int64_t in[] = {INT64_MIN, -1, INT64_MAX};
    static const uint64_t top = UINT64_MAX;
    for (size_t i = 0; i < STK_COUNT(ranges); i++) {
        char out[24];
        const size_t size = stk_dtype_size(ranges[i].dtype);
        assert_true(stk__convert(out, ranges[i].dtype, in, STK_INT64, 3));
        assert_true(as_int64(ranges[i].dtype, out) == ranges[i].low);
        assert_true(as_int64(ranges[i].dtype, out + size) == (ranges[i].low < 0 ? -1 : 0));
        const uint64_t high = ranges[i].high > INT64_MAX ? (uint64_t)INT64_MAX : ranges[i].high;
        assert_true(as_uint64(ranges[i].dtype, out + 2 * size) == high);
        assert_true(stk__convert(out, ranges[i].dtype, &top, STK_UINT64, 1));
        assert_true(as_uint64(ranges[i].dtype, out) == ranges[i].high);
    }
}

static void convert_to_bool_is_true_for_all_but_zero(void **state)
{
    static const double in[] = {0, -0.0, 0.25, -3, NAN};
    uint8_t out[5];
    assert_true(stk__convert(out, STK_BOOL, in, STK_FLOAT64, 5));
    assert_true(out[0] == 0 && out[1] == 0 && out[2] == 1 && out[3] == 1 && out[4] == 1);
}

/* Long arrays take other paths than short ones. */
static void convert_of_any_length_is_the_same(void **state)
{
    int64_t in[300];
    for (int i = 0; i < 300; i++)
        in[i] = (int64_t)i * 37 - 5000;
    for (int to = 0; to < STK_BYTES; to++) {
        char whole[300 * 8], single[8];
        const size_t size = stk_dtype_size((stk_dtype)to);
        for (size_t n = 1; n <= 300; n += 23) {
            assert_true(stk__convert(whole, (stk_dtype)to, in, STK_INT64, n));
            for (size_t i = 0; i < n; i++) {
                assert_true(stk__convert(single, (stk_dtype)to, in + i, STK_INT64, 1));
                assert_memory_equal(whole + i * size, single, size);
            }
        }
    }
}

static void half_floats_come_back_bit_by_bit(void **state)
{
    for (uint32_t h = 0; h <= UINT16_MAX; h++) {
        const float x = stk__half_to_float((uint16_t)h), y = stk__bfloat_to_float((uint16_t)h);
        if (isnan(x))
            assert_true(isnan(stk__half_to_float(stk__float_to_half(x))));
        else
            assert_int_equal(stk__float_to_half(x), h);
        if (isnan(y))
            assert_true(isnan(stk__bfloat_to_float(stk__float_to_bfloat(y))));
        else
            assert_int_equal(stk__float_to_bfloat(y), h);
    }
}

static void half_floats_round_to_nearest_even(void **state)
{
    assert_int_equal(stk__float_to_half(1), 0x3c00);
    assert_int_equal(stk__float_to_half(65504), 0x7bff);
    assert_int_equal(stk__float_to_half(65519), 0x7bff);
    assert_int_equal(stk__float_to_half(65520), 0x7c00); /* infinity */
    assert_int_equal(stk__float_to_half(2049), 0x6800);  /* 2048: a tie goes to even */
    assert_int_equal(stk__float_to_half(2051), 0x6802);
    assert_int_equal(stk__float_to_half(5.9604645e-8f), 0x0001); /* the smallest */
    assert_int_equal(stk__float_to_half(2.9802322e-8f), 0x0000); /* half of it: a tie */
    assert_int_equal(stk__float_to_half(2.9802326e-8f), 0x0001);
    assert_int_equal(stk__float_to_half(-0.0f), 0x8000);
    assert_int_equal(stk__float_to_bfloat(1), 0x3f80);
    assert_int_equal(stk__float_to_bfloat(1.00390625f), 0x3f80); /* a tie */
    assert_int_equal(stk__float_to_bfloat(1.01171875f), 0x3f82); /* a tie the other way */
    assert_int_equal(stk__float_to_bfloat(3.4e38f), 0x7f80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convert_of_small_numbers_between_all_types),
        cmocka_unit_test(convert_of_bytes_is_refused),
        cmocka_unit_test(convert_from_reals_saturates),
        cmocka_unit_test(convert_from_reals_goes_towards_zero),
        cmocka_unit_test(convert_between_integers_saturates),
        cmocka_unit_test(convert_to_bool_is_true_for_all_but_zero),
        cmocka_unit_test(convert_of_any_length_is_the_same),
        cmocka_unit_test(half_floats_come_back_bit_by_bit),
        cmocka_unit_test(half_floats_round_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
