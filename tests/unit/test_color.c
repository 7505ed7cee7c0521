/* Colours: against formulas in double precision, against Pillow's figures, and the same bytes at every CPU level. */
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
#include "kernels/color.h"
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
        p.data[i] = (uint8_t)(key % 3 ? r : r % 2 ? 255 - (r >> 8) % 3 : (r >> 8) % 3);
    }
    return p;
}

static size_t bytes_of(const stk__pixels *p)
{
    return (size_t)p->stride * (size_t)(p->height - 1) + (size_t)(p->width * p->channels);
}

static stk__pixels copy_of(const stk__pixels *p)
{
    stk__pixels copy = *p;
    copy.data = malloc(bytes_of(p));
    assert_non_null(copy.data);
    memcpy(copy.data, p->data, bytes_of(p));
    return copy;
}

static double clamped(double x)
{
    return x < 0 ? 0 : x > 255 ? 255 : x;
}

static void mix_tables(stk__color_table table, uint64_t key, bool same)
{
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 256; i++)
            table[c][i] = (uint8_t)stk__mix(key, (uint64_t)(same ? i : 256 * c + i));
}

/* What a kernel does to pixel `p`, in `want`; `a` is the same pixel of the other image. */
typedef void pixel_function(uint8_t want[3], const uint8_t *p, const uint8_t *a, int colors, float factor);
typedef void image_function(const stk__pixels *image, const stk__pixels *other, float factor);

static void gray_pixel(uint8_t want[3], const uint8_t *p, const uint8_t *a, int colors, float factor)
{
    want[0] = p[0];
    if (colors == 1)
        return;
    const double luma = (19595.0 * p[0] + 38470.0 * p[1] + 7471.0 * p[2]) / 65536;
    for (int c = 0; c < 3; c++)
        want[c] = (uint8_t)floor(luma + 0.5);
}

static void gray_image(const stk__pixels *image, const stk__pixels *other, float factor)
{
    stk__color_gray(image);
}

static void saturate_pixel(uint8_t want[3], const uint8_t *p, const uint8_t *a, int colors, float factor)
{
    uint8_t gray[3];
    gray_pixel(gray, p, a, colors, factor);
    for (int c = 0; c < colors; c++)
        want[c] = colors == 1 ? p[c] : (uint8_t)clamped((float)gray[c] + factor * (float)(p[c] - gray[c]));
}

static void saturate_image(const stk__pixels *image, const stk__pixels *other, float factor)
{
    stk__color_saturate(image, factor);
}

static void blend_pixel(uint8_t want[3], const uint8_t *p, const uint8_t *a, int colors, float factor)
{
    for (int c = 0; c < colors; c++)
        want[c] = (uint8_t)clamped((float)a[c] + factor * (float)(p[c] - a[c]));
}

static void blend_image(const stk__pixels *image, const stk__pixels *other, float factor)
{
    stk__color_blend(image, other, factor);
}

static void map_pixel(uint8_t want[3], const uint8_t *p, const uint8_t *a, int colors, float factor)
{
    stk__color_table table;
    mix_tables(table, (uint64_t)(factor * 10), factor > 1);
    for (int c = 0; c < colors; c++)
        want[c] = table[c][p[c]];
}

static void map_image(const stk__pixels *image, const stk__pixels *other, float factor)
{
    stk__color_table table;
    mix_tables(table, (uint64_t)(factor * 10), factor > 1);
    stk__color_map(image, table);
}

/* Exact at every level, on rows of any length; alpha and what lies between rows stays. */
static void check_kernel(const char *name, image_function *run, pixel_function *pixel)
{
    static const float factors[] = {0, 0.5f, 1, 1.3f, 2, 0.1f};
    for (int i = 0; i < 180; i++) {
        const int channels = i % 3 == 0 ? 1 : i % 3 + 2, colors = channels < 3 ? 1 : 3, width = 1 + i * 7 % 90;
        const float factor = factors[i % STK_COUNT(factors)];
        stk__pixels image = new_pixels(width, 1 + i % 4, channels, i / 3 % 3, (uint64_t)i);
        stk__pixels other = new_pixels(width, 1 + i % 4, channels, i / 9 % 3, (uint64_t)i + 999);
        stk__simd_limit((stk__simd)(i % STK__SIMD_COUNT));
        stk__pixels out = copy_of(&image);
        run(&out, &other, factor);
        for (size_t at = 0; at < bytes_of(&image); at++) {
            const int y = (int)(at / (size_t)image.stride), x = (int)(at % (size_t)image.stride), c = x % channels;
            uint8_t want = image.data[at], all[3];
            if (x < width * channels && c < colors) {
                pixel(all, image.data + at - c, stk__pixel_row(&other, y) + x - c, colors, factor);
                want = all[c];
            }
            if (out.data[at] != want)
                fail_msg("%s, case %d: byte %d of row %d is %d, wanted %d", name, i, x, y, out.data[at], want);
        }
        free(image.data);
        free(other.data);
        free(out.data);
    }
}

static void color_map_takes_each_channel_from_its_table(void **state)
{
    check_kernel("map", map_image, map_pixel);
}

static void color_gray_is_luma_in_all_channels(void **state)
{
    check_kernel("gray", gray_image, gray_pixel);
}

static void color_saturate_goes_from_gray_to_beyond(void **state)
{
    check_kernel("saturate", saturate_image, saturate_pixel);
}

static void color_blend_is_between_and_beyond_two_images(void **state)
{
    check_kernel("blend", blend_image, blend_pixel);
}

/* HSV and back in double precision, in the words of torchvision. */
static void hue_slowly(double out[3], const uint8_t *p, double turn)
{
    const double r = p[0] / 255.0, g = p[1] / 255.0, b = p[2] / 255.0;
    const double high = fmax(r, fmax(g, b)), low = fmin(r, fmin(g, b)), range = high - low;
    const double s = high > low ? range / high : 0, divisor = high > low ? range : 1;
    const double rc = (high - r) / divisor, gc = (high - g) / divisor, bc = (high - b) / divisor;
    double h = high == r ? bc - gc : high == g ? 2 + rc - bc : 4 + gc - rc;
    h = fmod(h / 6 + 1, 1) + turn;
    h -= floor(h);
    const int i = (int)floor(h * 6);
    const double f = h * 6 - i, v = high, q0 = v * (1 - s), q1 = v * (1 - s * f), q2 = v * (1 - s * (1 - f));
    const double to[6][3] = {{v, q2, q0}, {q1, v, q0}, {q0, v, q2}, {q0, q1, v}, {q2, q0, v}, {v, q0, q1}};
    for (int c = 0; c < 3; c++)
        out[c] = to[i % 6][c] * 255.999;
}

static void color_hue_is_as_in_hsv(void **state)
{
    for (int i = 0; i < 60; i++) {
        const float turn = (float)(i % 21) / 20 - 0.5f;
        stk__pixels image = new_pixels(37, 3, 3, 0, (uint64_t)i), out = copy_of(&image);
        stk__color_hue(&out, turn);
        for (size_t at = 0; at < bytes_of(&image); at += 3) {
            double want[3];
            hue_slowly(want, image.data + at, turn);
            for (int c = 0; c < 3; c++)
                if (out.data[at + (size_t)c] < floor(want[c] - 0.01) || out.data[at + (size_t)c] > want[c] + 0.01)
                    fail_msg("turn %g: %d, wanted %g", (double)turn, out.data[at + (size_t)c], want[c]);
        }
        free(image.data);
        free(out.data);
    }
}

static void color_hue_of_every_kind_of_turn_is_the_same_at_every_level(void **state)
{
    static const float turns[] = {0, 0.5f, -0.5f, 0.1f, -0.033f, 1, 7.25f, 1e30f, INFINITY, NAN};
    for (int i = 0; i < 60; i++) {
        const int channels = i % 3 == 0 ? 1 : i % 3 + 2;
        stk__pixels image = new_pixels(1 + i, 2, channels, i % 5, (uint64_t)i), plain = copy_of(&image);
        stk__simd_limit(STK__SIMD_C);
        stk__color_hue(&plain, turns[i % (int)STK_COUNT(turns)]);
        for (int level = 1; level < STK__SIMD_COUNT; level++) {
            stk__pixels out = copy_of(&image);
            stk__simd_limit((stk__simd)level);
            stk__color_hue(&out, turns[i % (int)STK_COUNT(turns)]);
            assert_memory_equal(out.data, plain.data, bytes_of(&image));
            free(out.data);
        }
        if (channels == 1 || i % (int)STK_COUNT(turns) == 0)
            assert_memory_equal(plain.data, image.data, bytes_of(&image));
        free(image.data);
        free(plain.data);
    }
}

static void color_blend_and_saturate_survive_huge_factors(void **state)
{
    static const float factors[] = {1e30f, -1e30f, INFINITY, -5, NAN, 3e4f};
    for (int i = 0; i < 24; i++) {
        const float factor = factors[i % (int)STK_COUNT(factors)];
        stk__pixels image = new_pixels(50, 1, 3, 0, 4), other = new_pixels(50, 1, 3, 0, 5), want = copy_of(&image);
        stk__simd_limit(STK__SIMD_C);
        (i & 1 ? saturate_image : blend_image)(&want, &other, factor);
        stk__simd_limit((stk__simd)(1 + i % 3));
        (i & 1 ? saturate_image : blend_image)(&image, &other, factor);
        assert_memory_equal(image.data, want.data, bytes_of(&want));
        free(image.data);
        free(other.data);
        free(want.data);
    }
}

static void color_mean_luma_is_rounded(void **state)
{
    uint8_t two[] = {10, 11}, three[] = {10, 10, 11};
    assert_int_equal(stk__color_mean_luma(&(stk__pixels){two, 2, 1, 1, 1, 2}), 11);
    assert_int_equal(stk__color_mean_luma(&(stk__pixels){three, 3, 1, 1, 1, 3}), 10);
    for (int i = 0; i < 120; i++) {
        const int channels = i % 3 == 0 ? 1 : i % 3 + 2;
        stk__pixels p = new_pixels(1 + i, 1 + i % 7, channels, i % 2, (uint64_t)i);
        double sum = 0;
        for (int y = 0; y < p.height; y++) {
            for (int x = 0; x < p.width; x++) {
                uint8_t gray[3] = {stk__pixel_row(&p, y)[x * channels]};
                if (channels > 1)
                    gray_pixel(gray, stk__pixel_row(&p, y) + x * channels, NULL, 3, 0);
                sum += gray[0];
            }
        }
        stk__simd_limit((stk__simd)(i / 3 % STK__SIMD_COUNT));
        assert_int_equal(stk__color_mean_luma(&p), (int)floor(sum / p.width / p.height + 0.5));
        free(p.data);
    }
}

static void color_histogram_counts_each_channel(void **state)
{
    uint8_t data[] = {1, 2, 3, 99, 1, 2, 4, 99, 5, 2, 3, 99};
    static uint32_t counts[3][256];
    memset(counts, 7, sizeof counts);
    stk__color_histogram(&(stk__pixels){data, 3, 1, 4, 1, 12}, counts);
    assert_int_equal(counts[0][1], 2);
    assert_int_equal(counts[0][5], 1);
    assert_int_equal(counts[1][2], 3);
    assert_int_equal(counts[2][3], 2);
    assert_int_equal(counts[2][4], 1);
    uint64_t total = 0;
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 256; i++)
            total += counts[c][i];
    assert_int_equal(total, 9);
}

static void tables_are_as_their_names_say(void **state)
{
    stk__color_table t;
    stk__table_brightness(t, 1.5f);
    assert_int_equal(t[0][101], 151);
    assert_int_equal(t[2][171], 255);
    stk__table_brightness(t, 0);
    assert_int_equal(t[1][255], 0);
    stk__table_contrast(t, 0.5f, 100);
    assert_int_equal(t[0][0], 50);
    assert_int_equal(t[1][201], 150);
    stk__table_contrast(t, 2, 100);
    assert_int_equal(t[0][40], 0);
    assert_int_equal(t[2][178], 255);
    stk__table_solarize(t, 128);
    assert_int_equal(t[0][127], 127);
    assert_int_equal(t[1][128], 127);
    stk__table_posterize(t, 3);
    assert_int_equal(t[0][0xbf], 0xa0);
    stk__table_posterize(t, 8);
    assert_int_equal(t[0][0xbf], 0xbf);
    stk__table_posterize(t, 0);
    assert_int_equal(t[0][0xbf], 0);
    stk__table_invert(t);
    assert_int_equal(t[2][0], 255);
    assert_int_equal(t[0][254], 1);
}

static void tables_with_factor_one_change_nothing(void **state)
{
    stk__color_table b, c;
    stk__table_brightness(b, 1);
    stk__table_contrast(c, 1, 77);
    for (int i = 0; i < 256; i++)
        assert_true(b[1][i] == i && c[2][i] == i);
}

static void table_autocontrast_stretches_to_the_ends(void **state)
{
    static uint32_t counts[3][256];
    stk__color_table t;
    memset(counts, 0, sizeof counts);
    counts[0][10] = counts[0][60] = 3;
    counts[1][9] = 5; /* one value only: stays */
    counts[2][0] = counts[2][255] = 1;
    stk__table_autocontrast(t, (const uint32_t(*)[256])counts, 3);
    assert_int_equal(t[0][10], 0);
    assert_int_equal(t[0][60], 255);
    assert_int_equal(t[0][35], 127);
    assert_int_equal(t[0][5], 0);
    assert_int_equal(t[0][70], 255);
    assert_int_equal(t[1][9], 9);
    assert_int_equal(t[2][123], 123);
    stk__table_autocontrast(t, (const uint32_t(*)[256])counts, 1);
    assert_memory_equal(t[2], t[0], 256);
}

/* The figures are Pillow's. */
static void table_equalize_spreads_evenly(void **state)
{
    static uint32_t counts[3][256];
    stk__color_table t;
    memset(counts, 0, sizeof counts);
    for (int i = 0; i < 100; i++)
        counts[0][100 + i] = 51;
    counts[1][7] = 1000; /* one value only: stays */
    counts[2][7] = 100;  /* too few for one level each: stays */
    counts[2][9] = 100;
    stk__table_equalize(t, (const uint32_t(*)[256])counts, 3);
    assert_int_equal(t[0][100], 0);
    assert_int_equal(t[0][150], 134);
    assert_int_equal(t[0][199], 255);
    assert_int_equal(t[1][7], 7);
    assert_int_equal(t[2][9], 9);
    stk__table_equalize(t, (const uint32_t(*)[256])counts, 1);
    assert_memory_equal(t[1], t[0], 256);
}

static int restore_level(void **state)
{
    stk__simd_limit(STK__SIMD_AVX512);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(color_map_takes_each_channel_from_its_table, restore_level),
        cmocka_unit_test_teardown(color_gray_is_luma_in_all_channels, restore_level),
        cmocka_unit_test_teardown(color_saturate_goes_from_gray_to_beyond, restore_level),
        cmocka_unit_test_teardown(color_blend_is_between_and_beyond_two_images, restore_level),
        cmocka_unit_test_teardown(color_blend_and_saturate_survive_huge_factors, restore_level),
        cmocka_unit_test(color_hue_is_as_in_hsv),
        cmocka_unit_test_teardown(color_hue_of_every_kind_of_turn_is_the_same_at_every_level, restore_level),
        cmocka_unit_test_teardown(color_mean_luma_is_rounded, restore_level),
        cmocka_unit_test(color_histogram_counts_each_channel),
        cmocka_unit_test(tables_are_as_their_names_say),
        cmocka_unit_test(tables_with_factor_one_change_nothing),
        cmocka_unit_test(table_autocontrast_stretches_to_the_ends),
        cmocka_unit_test(table_equalize_spreads_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
