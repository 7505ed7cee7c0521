/* Blurs: against double precision, at the borders, in place, and the same bytes at every CPU level. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/rng.h"
#include "kernels/blur.h"
#include "kernels/simd.h"

/* Exactly the memory that is needed, so that the address sanitizer sees a byte too far. */
static stk__pixels new_pixels(int32_t width, int32_t height, int32_t channels, int32_t gap, uint64_t key)
{
    const size_t stride = (size_t)(width * channels + gap);
    const size_t size = stride * (size_t)(height - 1) + (size_t)(width * channels);
    stk__pixels p = {malloc(size), width, height, channels, 1, (ptrdiff_t)stride};
    assert_non_null(p.data);
    for (size_t i = 0; i < size; i++) {
        const uint64_t r = stk__mix(key, i);
        p.data[i] = (uint8_t)(key % 3 ? r : r % 2 ? 255 : 0);
    }
    return p;
}

static void assert_same_rows(const stk__pixels *a, const stk__pixels *b)
{
    for (int32_t y = 0; y < a->height; y++)
        assert_memory_equal(stk__pixel_row(a, y), stk__pixel_row(b, y), (size_t)(a->width * a->channels));
}

static void blur(const stk__pixels *out, const stk__pixels *in, int32_t size, double sigma)
{
    void *scratch = malloc(stk__blur_scratch(in->width, in->height, in->channels, size));
    assert_non_null(scratch);
    stk__blur_gauss(out, in, size, sigma, scratch);
    free(scratch);
}

static int reflected(int at, int size)
{
    while (size > 1 && (at < 0 || at >= size))
        at = at < 0 ? -at : 2 * (size - 1) - at;
    return size > 1 ? at : 0;
}

static double gauss_at(const stk__pixels *in, int x, int y, int c, int size, double sigma)
{
    double sum = 0, total = 0;
    for (int dy = -size / 2; dy <= size / 2; dy++) {
        for (int dx = -size / 2; dx <= size / 2; dx++) {
            const double w = exp(-(dx * dx + dy * dy) / (2 * sigma * sigma));
            const uint8_t *row = stk__pixel_row(in, reflected(y + dy, in->height));
            sum += w * row[reflected(x + dx, in->width) * in->channels + c];
            total += w;
        }
    }
    return sum / total;
}

static void blur_gauss_is_near_double_precision_with_reflected_edges(void **state)
{
    static const struct {
        int width, height, size;
        double sigma;
    } cases[] = {{20, 15, 3, 0.8}, {33, 9, 5, 2}, {7, 30, 23, 2.5}, {3, 2, 9, 1.5},
                 {1, 1, 5, 1},     {40, 1, 7, 3}, {1, 25, 3, 0.3},  {24, 24, 23, 1000}};
    for (size_t i = 0; i < 3 * STK_COUNT(cases); i++) {
        const int channels = i % 3 == 0 ? 1 : (int)(i % 3) + 2, width = cases[i / 3].width,
                  height = cases[i / 3].height;
        stk__pixels in = new_pixels(width, height, channels, 1, i), out = new_pixels(width, height, channels, 2, 0);
        blur(&out, &in, cases[i / 3].size, cases[i / 3].sigma);
        for (int y = 0; y < height; y++) {
            for (int x = 0; x < width * channels; x++) {
                const double want = gauss_at(&in, x / channels, y, x % channels, cases[i / 3].size, cases[i / 3].sigma);
                if (fabs(stk__pixel_row(&out, y)[x] - want) > 0.6)
                    fail_msg("case %zu (%d, %d): %d, wanted %g", i, x, y, stk__pixel_row(&out, y)[x], want);
            }
        }
        free(in.data);
        free(out.data);
    }
}

static void blur_gauss_leaves_even_areas_as_they_are(void **state)
{
    for (int size = 1; size <= STK__BLUR_SIZE_MAX; size += 2) {
        stk__pixels image = new_pixels(40, 3, 3, 0, 1);
        memset(image.data, 255 - size / 3, 360);
        blur(&image, &image, size, 0.15 * size + 0.35);
        for (int i = 0; i < 360; i++)
            assert_int_equal(image.data[i], 255 - size / 3);
        free(image.data);
    }
}

/* Also in place, where rows must not be read after they were written. */
static void blur_gauss_gives_the_same_bytes_at_every_level_and_in_place(void **state)
{
    for (int i = 0; i < 80; i++) {
        const int channels = i % 3 == 0 ? 1 : i % 3 + 2, width = 1 + i * 5 % 47, height = 1 + i * 11 % 31;
        const int size = 1 + 2 * (i % 9);
        const double sigma = 0.2 + 0.3 * (i % 11);
        stk__pixels in = new_pixels(width, height, channels, i % 4, (uint64_t)i);
        stk__pixels plain = new_pixels(width, height, channels, 0, 0), out = new_pixels(width, height, channels, 3, 0);
        stk__simd_limit(STK__SIMD_C);
        blur(&plain, &in, size, sigma);
        for (int level = 1; level < STK__SIMD_COUNT; level++) {
            stk__simd_limit((stk__simd)level);
            blur(&out, &in, size, sigma);
            assert_same_rows(&out, &plain);
        }
        blur(&in, &in, size, sigma);
        assert_same_rows(&in, &plain);
        free(in.data);
        free(plain.data);
        free(out.data);
    }
}

static void blur_gauss_without_width_copies(void **state)
{
    static const double sigmas[] = {0, -1, NAN, 1e-9};
    stk__pixels in = new_pixels(9, 4, 3, 0, 1), out = new_pixels(9, 4, 3, 2, 2);
    for (size_t i = 0; i < STK_COUNT(sigmas); i++) {
        memset(out.data, 0, (size_t)(3 * out.stride + 27));
        blur(&out, &in, 5, sigmas[i]);
        assert_same_rows(&out, &in);
    }
    memset(out.data, 0, (size_t)(3 * out.stride + 27));
    blur(&out, &in, 1, 3);
    assert_same_rows(&out, &in);
    free(in.data);
    free(out.data);
}

static void blur_smooth_weighs_nine_pixels_and_keeps_the_edge(void **state)
{
    for (int i = 0; i < 60; i++) {
        const int channels = i % 3 == 0 ? 1 : i % 3 + 2, width = 1 + i * 7 % 41, height = 1 + i % 6;
        stk__pixels in = new_pixels(width, height, channels, i % 2, (uint64_t)i);
        stk__pixels out = new_pixels(width, height, channels, 1, 0);
        stk__simd_limit((stk__simd)(i % STK__SIMD_COUNT));
        stk__blur_smooth(&out, &in);
        for (int y = 0; y < height; y++) {
            for (int e = 0; e < width * channels; e++) {
                const int x = e / channels;
                double sum = 4 * stk__pixel_row(&in, y)[e];
                const bool edge = x == 0 || y == 0 || x == width - 1 || y == height - 1;
                for (int k = 0; k < 9 && !edge; k++)
                    sum += stk__pixel_row(&in, y + k / 3 - 1)[e + (k % 3 - 1) * channels];
                const int want = edge ? stk__pixel_row(&in, y)[e] : (int)floor(sum / 13 + 0.5);
                assert_int_equal(stk__pixel_row(&out, y)[e], want);
            }
        }
        free(in.data);
        free(out.data);
    }
}

static int restore_level(void **state)
{
    stk__simd_limit(STK__SIMD_AVX512);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blur_gauss_is_near_double_precision_with_reflected_edges),
        cmocka_unit_test(blur_gauss_leaves_even_areas_as_they_are),
        cmocka_unit_test_teardown(blur_gauss_gives_the_same_bytes_at_every_level_and_in_place, restore_level),
        cmocka_unit_test(blur_gauss_without_width_copies),
        cmocka_unit_test_teardown(blur_smooth_weighs_nine_pixels_and_keeps_the_edge, restore_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
