/* PNG's filters undone: every filter, pixel size and CPU level against the formulas of the standard. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "kernels/simd.h"
#include "kernels/unfilter.h"

/* As the standard words it. */
static int paeth_of_standard(int a, int b, int c)
{
    const int p = a + b - c, pa = abs(p - a), pb = abs(p - b), pc = abs(p - c);
    if (pa <= pb && pa <= pc)
        return a;
    return pb <= pc ? b : c;
}

static void unfilter_slowly(int kind, uint8_t *row, const uint8_t *above, size_t size, size_t pixel)
{
    for (size_t i = 0; i < size; i++) {
        const int a = i >= pixel ? row[i - pixel] : 0, b = above ? above[i] : 0;
        const int c = above && i >= pixel ? above[i - pixel] : 0;
        const int predicted[5] = {0, a, b, (a + b) / 2, paeth_of_standard(a, b, c)};
        row[i] = (uint8_t)(row[i] + predicted[kind]);
    }
}

/* Bytes near each other, near the ends, or anywhere. */
static void fill_random(uint8_t *p, size_t size, uint64_t key)
{
    for (size_t i = 0; i < size; i++) {
        const uint64_t r = stk__mix(key, i);
        p[i] = (uint8_t)(key % 3 == 0 ? r : key % 3 == 1 ? 120 + r % 9 : r % 2 ? r >> 8 & 3 : 252 + (r >> 8 & 3));
    }
}

/* Buffers of the exact size, so that the address sanitizer sees a byte too far. */
static void check_row(int kind, size_t size, size_t pixel, bool first, uint64_t key)
{
    uint8_t *row = malloc(size ? size : 1), *wanted = malloc(size ? size : 1), *above = malloc(size ? size : 1);
    assert_true(row && wanted && above);
    fill_random(row, size, key);
    fill_random(above, size, key + 1);
    memcpy(wanted, row, size);
    unfilter_slowly(kind, wanted, first ? NULL : above, size, pixel);
    assert_true(stk__unfilter_row(kind, row, first ? NULL : above, size, pixel));
    if (memcmp(row, wanted, size))
        fail_msg("filter %d, %zu bytes, pixel of %zu, level %s", kind, size, pixel, stk__simd_name(stk__simd_level()));
    free(row);
    free(wanted);
    free(above);
}

static void unfilter_row_is_as_the_standard_says_at_every_level(void **state)
{
    uint64_t key = 1;
    for (int level = 0; level < STK__SIMD_COUNT; level++) {
        stk__simd_limit((stk__simd)level);
        for (int kind = 0; kind <= 4; kind++)
            for (size_t pixel = 1; pixel <= 8; pixel++)
                for (size_t width = 0; width <= 70; width += width < 36 ? 1 : 17)
                    check_row(kind, width * pixel, pixel, width % 5 == 4, key++);
    }
    stk__simd_limit(STK__SIMD_AVX512);
}

/* Every (a, b, c): the row holds a and then zero, so that its second pixel becomes the prediction. */
static void unfilter_paeth_predicts_right_for_all_neighbours(void **state)
{
    enum { PIXEL = 8 };
    for (int level = 0; level <= STK__SIMD_SSE4; level++) {
        stk__simd_limit((stk__simd)level);
        for (int c = 0; c < 256; c++) {
            for (int a = 0; a < 256; a++) {
                for (int b = 0; b < 256; b += PIXEL) {
                    uint8_t row[2 * PIXEL] = {0}, above[2 * PIXEL];
                    for (int i = 0; i < PIXEL; i++) {
                        row[i] = (uint8_t)(a - c);
                        above[i] = (uint8_t)c;
                        above[PIXEL + i] = (uint8_t)(b + i);
                    }
                    stk__unfilter_row(4, row, above, sizeof row, PIXEL);
                    for (int i = 0; i < PIXEL; i++)
                        if (row[i] != a || row[PIXEL + i] != paeth_of_standard(a, b + i, c))
                            fail_msg("a %d, b %d, c %d: found %d", a, b + i, c, row[PIXEL + i]);
                }
            }
        }
    }
    stk__simd_limit(STK__SIMD_AVX512);
}

/* Rows with random filters, mostly Paeth; `size` bytes of each of them count, and what is behind stays as it is. */
static void check_rows(size_t count, size_t size, size_t stride, size_t pixel, uint64_t key)
{
    const size_t total = (count - 1) * stride + size + 1;
    uint8_t *rows = malloc(total), *wanted = malloc(total);
    assert_true(rows && wanted);
    fill_random(rows, total, key);
    for (size_t i = 0; i < count; i++) {
        static const uint8_t kinds[8] = {4, 4, 4, 4, 0, 1, 2, 3};
        rows[i * stride] = kinds[stk__mix(key, i + total) % (key % 4 == 0 ? 8 : 7)];
    }
    memcpy(wanted, rows, total);
    for (size_t i = 0; i < count; i++) {
        uint8_t *row = wanted + i * stride + 1;
        unfilter_slowly(row[-1], row, i ? row - stride : NULL, size, pixel);
    }
    assert_int_equal(stk__unfilter_rows(rows, stride, size, pixel, count), count);
    if (memcmp(rows, wanted, total))
        fail_msg("%zu rows of %zu bytes, %zu apart, pixel of %zu, level %s", count, size, stride, pixel,
                 stk__simd_name(stk__simd_level()));
    free(rows);
    free(wanted);
}

static void unfilter_rows_is_as_each_row_by_itself_at_every_level(void **state)
{
    uint64_t key = 1000000;
    for (int level = 0; level < STK__SIMD_COUNT; level++) {
        stk__simd_limit((stk__simd)level);
        for (size_t pixel = 1; pixel <= 8; pixel++) {
            for (size_t width = 1; width <= 70; width += width < 45 ? 1 : 17) {
                for (size_t count = 1; count <= 24; count += 1 + count / 3)
                    check_rows(count, width * pixel, (width + width % 3) * pixel + 1, pixel, key++);
            }
        }
    }
    stk__simd_limit(STK__SIMD_AVX512);
}

/* Every choice of filters for two times four rows, and what comes before them. */
static void unfilter_rows_takes_filters_in_any_order(void **state)
{
    enum { PIXEL = 3, SIZE = 25 * PIXEL, STRIDE = SIZE + 1, ROWS = 9 };
    uint8_t rows[ROWS * STRIDE], wanted[ROWS * STRIDE];
    for (uint64_t i = 0; i < 65536; i += 7) {
        fill_random(rows, sizeof rows, i);
        rows[0] = (uint8_t)(i % 5);
        for (size_t y = 1; y < ROWS; y++)
            rows[y * STRIDE] = (const uint8_t[]){0, 1, 2, 4}[i >> (2 * (y - 1)) & 3];
        memcpy(wanted, rows, sizeof rows);
        for (size_t y = 0; y < ROWS; y++) {
            uint8_t *row = wanted + y * STRIDE + 1;
            unfilter_slowly(row[-1], row, y ? row - STRIDE : NULL, SIZE, PIXEL);
        }
        assert_int_equal(stk__unfilter_rows(rows, STRIDE, SIZE, PIXEL, ROWS), ROWS);
        assert_memory_equal(rows, wanted, sizeof rows);
    }
}

/* The same for all neighbours as above, but by the way that rows of one picture take. */
static void unfilter_rows_predicts_right_for_all_neighbours(void **state)
{
    enum { PIXEL = 4, WIDTH = 64, SIZE = WIDTH * PIXEL, STRIDE = SIZE + 1, ROWS = 5 };
    uint8_t rows[ROWS * STRIDE], wanted[ROWS * STRIDE];
    for (int c = 0; c < 256; c++) {
        for (int a = 0; a < 256; a += 4) {
            /* Pairs of pixels: c and b above, a and the predicted one below, in each of the rows. */
            for (size_t y = 0; y < ROWS; y++)
                rows[y * STRIDE] = y ? 4 : 0;
            for (size_t i = 0; i < SIZE; i++) {
                rows[1 + i] = (uint8_t)(i / PIXEL % 2 ? (int)(i / (2 * PIXEL)) * 8 + (int)(i % PIXEL) * 2 + c % 2 : c);
                for (size_t y = 1; y < ROWS; y++)
                    rows[y * STRIDE + 1 + i] = (uint8_t)(i / PIXEL % 2 ? 0 : a + (int)y);
            }
            memcpy(wanted, rows, sizeof rows);
            for (size_t y = 1; y < ROWS; y++) {
                uint8_t *row = wanted + y * STRIDE + 1;
                unfilter_slowly(4, row, row - STRIDE, SIZE, PIXEL);
            }
            assert_int_equal(stk__unfilter_rows(rows, STRIDE, SIZE, PIXEL, ROWS), ROWS);
            assert_memory_equal(rows, wanted, sizeof rows);
        }
    }
}

static void unfilter_rows_stops_at_an_unknown_filter(void **state)
{
    enum { SIZE = 32 * 3, STRIDE = SIZE + 1, ROWS = 12 };
    for (size_t bad = 0; bad < ROWS; bad++) {
        uint8_t rows[ROWS * STRIDE];
        fill_random(rows, sizeof rows, bad);
        for (size_t y = 0; y < ROWS; y++)
            rows[y * STRIDE] = y == bad ? 5 : 4;
        assert_int_equal(stk__unfilter_rows(rows, STRIDE, SIZE, 3, ROWS), bad);
    }
}

static void unfilter_of_unknown_filter_is_refused(void **state)
{
    uint8_t row[4] = {1, 2, 3, 4}, above[4] = {0};
    assert_false(stk__unfilter_row(5, row, above, 4, 1));
    assert_false(stk__unfilter_row(-1, row, above, 4, 1));
    assert_false(stk__unfilter_row(255, row, NULL, 4, 1));
    assert_memory_equal(row, ((uint8_t[]){1, 2, 3, 4}), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unfilter_row_is_as_the_standard_says_at_every_level),
        cmocka_unit_test(unfilter_paeth_predicts_right_for_all_neighbours),
        cmocka_unit_test(unfilter_rows_is_as_each_row_by_itself_at_every_level),
        cmocka_unit_test(unfilter_rows_takes_filters_in_any_order),
        cmocka_unit_test(unfilter_rows_predicts_right_for_all_neighbours),
        cmocka_unit_test(unfilter_rows_stops_at_an_unknown_filter),
        cmocka_unit_test(unfilter_of_unknown_filter_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
