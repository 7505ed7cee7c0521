/* Numbers of every type in Examples: narrowed from lists in any form, raw bytes, limits of each type. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "formats/example.h"
#include "kernels/convert.h"

/* A record with one feature "x", and that feature in memory of its exact size. */
typedef struct {
    uint8_t *record;
    stk__feature feature;
} single;

static single single_of(stk__example_writer *w)
{
    static const stk__wanted wanted = {"x", false};
    stk__text t = STK__TEXT_INIT;
    stk__example_layout *layout;
    stk__example_guess guess = {{0}};
    stk__found found;
    assert_int_equal(stk__example_end(w, &t, NULL), STK_OK);
    single s = {.record = malloc(t.length)};
    memcpy(s.record, t.data, t.length);
    assert_int_equal(stk__example_layout_new(&wanted, 1, &layout, NULL), STK_OK);
    assert_int_equal(stk__example_find(layout, &guess, (stk_bytes){s.record, (int64_t)t.length}, false, &found, NULL),
                     STK_OK);
    s.feature = found.feature;
    stk__example_layout_free(layout);
    stk__text_clear(&t);
    stk__example_writer_clear(w);
    return s;
}

static single of_ints(const int64_t *values, int64_t count)
{
    stk__example_writer w = {0};
    stk__example_begin(&w);
    stk__example_add_ints(&w, "x", values, count);
    return single_of(&w);
}

static single of_floats(const float *values, int64_t count)
{
    stk__example_writer w = {0};
    stk__example_begin(&w);
    stk__example_add_floats(&w, "x", values, count);
    return single_of(&w);
}

static void integers_at_the_limits_fit_and_beyond_do_not(void **state)
{
    static const struct {
        stk_dtype dtype;
        int64_t low, high;
    } cases[] = {
        {STK_BOOL, 0, 1},
        {STK_UINT8, 0, UINT8_MAX},
        {STK_INT8, INT8_MIN, INT8_MAX},
        {STK_UINT16, 0, UINT16_MAX},
        {STK_INT16, INT16_MIN, INT16_MAX},
        {STK_UINT32, 0, UINT32_MAX},
        {STK_INT32, INT32_MIN, INT32_MAX},
        {STK_UINT64, 0, INT64_MAX},
        {STK_INT64, INT64_MIN, INT64_MAX},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const stk_dtype dtype = cases[i].dtype;
        const int64_t limits[] = {cases[i].low, cases[i].high, 0};
        uint64_t out[3];
        int64_t back[3], count = 0;
        single s = of_ints(limits, 3);
        assert_int_equal(stk__feature_numbers(&s.feature, dtype, out, 3, NULL), STK_OK);
        stk__convert(back, STK_INT64, out, dtype, 3);
        assert_memory_equal(back, limits, sizeof back);
        assert_int_equal(stk__feature_number_count(&s.feature, dtype, &count, NULL), STK_OK);
        assert_int_equal(count, 3);
        free(s.record);
        const int64_t beyond[] = {cases[i].low - (cases[i].low > INT64_MIN),
                                  cases[i].high + (cases[i].high < INT64_MAX)};
        for (int k = 0; k < 2; k++) {
            if (beyond[k] == limits[k])
                continue;
            s = of_ints(&beyond[k], 1);
            assert_int_equal(stk__feature_numbers(&s.feature, dtype, out, 1, NULL), STK_CORRUPT);
            free(s.record);
        }
    }
}

/* Lists are narrowed in pieces: every length around the size of one, with the bad value anywhere. */
static void long_lists_are_narrowed_to_the_last_value(void **state)
{
    static const int64_t counts[] = {0, 1, 7, 8, 9, 511, 512, 513, 1023, 1024, 1025, 3000};
    int64_t values[3000];
    for (size_t c = 0; c < STK_COUNT(counts); c++) {
        const int64_t count = counts[c];
        uint16_t *out = malloc((size_t)count * 2 + 1);
        for (int64_t i = 0; i < count; i++)
            values[i] = i * 7919 % 65536;
        single s = of_ints(values, count);
        assert_int_equal(stk__feature_numbers(&s.feature, STK_UINT16, out, count, NULL), STK_OK);
        for (int64_t i = 0; i < count; i++)
            assert_int_equal(out[i], values[i]);
        assert_int_equal(stk__feature_numbers(&s.feature, STK_UINT16, out, count + 1, NULL), STK_CORRUPT);
        if (count > 0)
            assert_int_equal(stk__feature_numbers(&s.feature, STK_UINT16, out, count - 1, NULL), STK_CORRUPT);
        free(s.record);
        for (int64_t at = 0; at < count; at += STK_MAX(count / 5, 1)) {
            stk_error err;
            char part[64];
            const int64_t good = values[at];
            stk_error_clear(&err);
            values[at] = -5;
            s = of_ints(values, count);
            assert_int_equal(stk__feature_numbers(&s.feature, STK_UINT16, out, count, &err), STK_CORRUPT);
            snprintf(part, sizeof part, "has -5 as value %lld, which does not fit uint16", (long long)at);
            assert_string_equal(err.message, part);
            values[at] = good;
            free(s.record);
        }
        free(out);
    }
}

/* Unpacked values and several packed runs, as some writers have them: the list is put together by hand. */
static void lists_in_odd_forms_are_narrowed(void **state)
{
    static const uint8_t ints[] = {0x08, 5, 0x0a, 3, 1, 2, 3, 0x0a, 0, 0x08, 0xff, 1};
    static const uint8_t floats[] = {0x0d, 0, 0, 0x80, 0x3f, 0x0a, 8, 0, 0, 0, 0, 0, 0, 0, 0x40};
    static const uint8_t cut[] = {0x0a, 2, 1, 0x80};
    uint8_t narrow[5];
    double wide[3];
    stk__feature feature = {.list = {ints, ints + sizeof ints}, .kind = STK__FEATURE_INT64, .present = true};
    assert_int_equal(stk__feature_numbers(&feature, STK_UINT8, narrow, 5, NULL), STK_OK);
    assert_memory_equal(narrow, ((const uint8_t[]){5, 1, 2, 3, 255}), 5);
    feature = (stk__feature){.list = {floats, floats + sizeof floats}, .kind = STK__FEATURE_FLOAT, .present = true};
    assert_int_equal(stk__feature_numbers(&feature, STK_FLOAT64, wide, 3, NULL), STK_OK);
    assert_true(wide[0] == 1 && wide[1] == 0 && wide[2] == 2);
    feature = (stk__feature){.list = {cut, cut + sizeof cut}, .kind = STK__FEATURE_INT64, .present = true};
    assert_int_equal(stk__feature_numbers(&feature, STK_UINT8, narrow, 2, NULL), STK_CORRUPT);
}

/* Every bit pattern of a half float comes back, NaNs included. */
static void half_floats_come_back_bit_by_bit(void **state)
{
    static float wide[65536];
    static uint16_t back[65536];
    static const stk_dtype dtypes[] = {STK_FLOAT16, STK_BFLOAT16};
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 65536; i++)
            wide[i] = k ? stk__bfloat_to_float((uint16_t)i) : stk__half_to_float((uint16_t)i);
        single s = of_floats(wide, 65536);
        assert_int_equal(stk__feature_numbers(&s.feature, dtypes[k], back, 65536, NULL), STK_OK);
        for (int i = 0; i < 65536; i++)
            if (back[i] != i)
                fail_msg("%04x came back as %04x", i, back[i]);
        free(s.record);
    }
}

static void half_floats_keep_the_range(void **state)
{
    static const float good[] = {65504, 65519, -65519, INFINITY, -INFINITY, 1e-30f}, bad[] = {65520, -1e9f};
    uint16_t out[8];
    single s = of_floats(good, 6);
    assert_int_equal(stk__feature_numbers(&s.feature, STK_FLOAT16, out, 6, NULL), STK_OK);
    assert_int_equal(out[1], 0x7bff);
    assert_int_equal(out[4], 0xfc00);
    free(s.record);
    for (int i = 0; i < 2; i++) {
        s = of_floats(&bad[i], 1);
        assert_int_equal(stk__feature_numbers(&s.feature, STK_FLOAT16, out, 1, NULL), STK_CORRUPT);
        assert_int_equal(stk__feature_numbers(&s.feature, STK_BFLOAT16, out, 1, NULL), STK_OK);
        free(s.record);
    }
}

static void raw_bytes_of_every_type_come_back(void **state)
{
    uint8_t values[8 * 100], back[8 * 100];
    for (int dtype = 0; dtype < STK_BYTES; dtype++) {
        const size_t size = stk_dtype_size((stk_dtype)dtype);
        for (size_t i = 0; i < sizeof values; i++)
            values[i] = (uint8_t)(dtype == STK_BOOL ? i % 2 : i * 37);
        for (int64_t count = 0; count <= 100; count += 50) {
            stk__example_writer w = {0};
            int64_t found = -1;
            stk__example_begin(&w);
            stk__example_add_raw(&w, "x", (stk_dtype)dtype, values, count);
            single s = single_of(&w);
            assert_int_equal(stk__feature_number_count(&s.feature, (stk_dtype)dtype, &found, NULL), STK_OK);
            assert_int_equal(found, count);
            assert_int_equal(stk__feature_numbers(&s.feature, (stk_dtype)dtype, back, count, NULL), STK_OK);
            assert_memory_equal(values, back, size * (size_t)count);
            assert_int_equal(stk__feature_numbers(&s.feature, (stk_dtype)dtype, back, count + 1, NULL), STK_CORRUPT);
            free(s.record);
        }
    }
}

static void feature_without_a_list_holds_no_values(void **state)
{
    const stk__feature feature = {.present = true};
    int64_t count = -1;
    uint8_t out;
    assert_int_equal(stk__feature_number_count(&feature, STK_UINT8, &count, NULL), STK_OK);
    assert_int_equal(count, 0);
    assert_int_equal(stk__feature_numbers(&feature, STK_UINT8, &out, 0, NULL), STK_OK);
    assert_int_equal(stk__feature_numbers(&feature, STK_UINT8, &out, 1, NULL), STK_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_at_the_limits_fit_and_beyond_do_not),
        cmocka_unit_test(long_lists_are_narrowed_to_the_last_value),
        cmocka_unit_test(lists_in_odd_forms_are_narrowed),
        cmocka_unit_test(half_floats_come_back_bit_by_bit),
        cmocka_unit_test(half_floats_keep_the_range),
        cmocka_unit_test(raw_bytes_of_every_type_come_back),
        cmocka_unit_test(feature_without_a_list_holds_no_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
