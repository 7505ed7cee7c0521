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
        cmocka_unit_test(unfilter_of_unknown_filter_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
