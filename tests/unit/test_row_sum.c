/* Sums of table rows: equal at every level, and what the formula says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "kernels/row_sum.h"
#include "kernels/simd.h"

enum { WIDTH = 48, ROWS = 10 };

static int8_t bytes[ROWS][WIDTH];
static float floats[ROWS][WIDTH], scales[ROWS];

static void fill(void)
{
    for (size_t r = 0; r < ROWS; r++) {
        scales[r] = (float)(stk__mix(r, 77) >> 40) * 1e-8f + 1e-3f;
        for (size_t i = 0; i < WIDTH; i++) {
            bytes[r][i] = (int8_t)(uint8_t)stk__mix(r, i);
            floats[r][i] = (float)(int64_t)(stk__mix(i, r) >> 20) * 1e-12f - 4;
        }
    }
    bytes[0][0] = -128;
    bytes[1][0] = 127;
}

static void rows_of_bytes_add_up_the_same_at_every_level(void **state)
{
    fill();
    const int8_t *rows[ROWS];
    for (size_t r = 0; r < ROWS; r++)
        rows[r] = bytes[r];
    for (size_t count = 1; count <= ROWS; count++) {
        float wanted[WIDTH];
        for (size_t i = 0; i < WIDTH; i++) {
            volatile float sum = (float)bytes[0][i] * scales[0];
            for (size_t r = 1; r < count; r++) {
                const volatile float x = (float)bytes[r][i] * scales[r];
                sum = sum + x;
            }
            wanted[i] = sum;
        }
        for (int level = STK__SIMD_C; level < STK__SIMD_COUNT; level++) {
            float found[WIDTH + 1] = {0};
            found[WIDTH] = 42;
            stk__simd_limit((stk__simd)level);
            stk__row_sum_int8(rows, scales, count, WIDTH, found);
            assert_memory_equal(found, wanted, sizeof wanted);
            assert_true(found[WIDTH] == 42);
        }
    }
    stk__simd_limit(STK__SIMD_COUNT);
}

static void rows_of_floats_add_up_from_the_left(void **state)
{
    fill();
    const float *rows[ROWS];
    for (size_t r = 0; r < ROWS; r++)
        rows[r] = floats[r];
    for (size_t count = 1; count <= ROWS; count++) {
        float found[WIDTH];
        stk__row_sum_float(rows, count, WIDTH, found);
        for (size_t i = 0; i < WIDTH; i++) {
            volatile float sum = floats[0][i];
            for (size_t r = 1; r < count; r++)
                sum = sum + floats[r][i];
            assert_true(found[i] == sum);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_bytes_add_up_the_same_at_every_level),
        cmocka_unit_test(rows_of_floats_add_up_from_the_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
