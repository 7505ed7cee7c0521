/* Affine maps: exact cases, a reference in floating point, the same bytes at every CPU level, nothing read outside. */
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
#include "kernels/simd.h"
#include "kernels/warp.h"

/* Exactly the memory that rows need, the last one without the gap: the address sanitizer sees the rest. */
static stk__pixels new_pixels(int32_t width, int32_t height, int32_t channels, int32_t gap)
{
    const size_t stride = (size_t)(width * channels + gap);
    const size_t size = height ? stride * (size_t)(height - 1) + (size_t)(width * channels) : 0;
    stk__pixels p = {malloc(size ? size : 1), width, height, channels, 1, (ptrdiff_t)stride};
    assert_non_null(p.data);
    memset(p.data, 0xee, size);
    return p;
}

static void set_noise(const stk__pixels *p, uint64_t key)
{
    for (int32_t y = 0; y < p->height; y++)
        for (int32_t i = 0; i < p->width * p->channels; i++)
            stk__pixel_row(p, y)[i] = (uint8_t)stk__mix(key, (uint64_t)y << 32 | (uint64_t)i);
}

/* Slopes of at most 4 levels per pixel. */
static void set_smooth(const stk__pixels *p)
{
    for (int32_t y = 0; y < p->height; y++)
        for (int32_t x = 0; x < p->width; x++)
            for (int32_t c = 0; c < p->channels; c++)
                stk__pixel_row(p, y)[x * p->channels + c] =
                    (uint8_t)lrint(127 + 60 * sin(x * 0.05 + c) + 60 * cos(y * 0.04 + 2 * c));
}

static double sample(const stk__pixels *in, int x, int y, int c, const uint8_t *fill)
{
    return x < 0 || y < 0 || x >= in->width || y >= in->height ? fill[c] : stk__pixel_row(in, y)[x * in->channels + c];
}

static double reference(const stk__pixels *in, const double m[6], int x, int y, int c, const uint8_t *fill)
{
    const double u = x + 0.5, v = y + 0.5;
    const double sx = m[0] * u + m[1] * v + m[2] - 0.5, sy = m[3] * u + m[4] * v + m[5] - 0.5;
    if (!(fabs(sx) < 1e6 && fabs(sy) < 1e6))
        return fill[c];
    const int x0 = (int)floor(sx), y0 = (int)floor(sy);
    const double fx = sx - x0, fy = sy - y0;
    return (1 - fy) * ((1 - fx) * sample(in, x0, y0, c, fill) + fx * sample(in, x0 + 1, y0, c, fill)) +
           fy * ((1 - fx) * sample(in, x0, y0 + 1, c, fill) + fx * sample(in, x0 + 1, y0 + 1, c, fill));
}

/* Turn about the middle, scale, then shift. */
static void set_turn(double m[6], const stk__pixels *out, const stk__pixels *in, double degrees, double scale,
                     double shift)
{
    const double a = degrees * 3.14159265358979323846 / 180, s = sin(a) * scale, c = cos(a) * scale;
    const double cx = out->width / 2.0, cy = out->height / 2.0;
    const double whole[6] = {c,  s, in->width / 2.0 + shift - c * cx - s * cy,
                             -s, c, in->height / 2.0 + s * cx - c * cy};
    memcpy(m, whole, sizeof whole);
}

static const uint8_t gray_fill[4] = {7, 7, 7, 7}, color_fill[4] = {10, 200, 0, 255};

static void warp_by_identity_changes_nothing(void **state)
{
    static const double identity[6] = {1, 0, 0, 0, 1, 0};
    for (int level = 0; level < STK__SIMD_COUNT; level++) {
        stk__simd_limit((stk__simd)level);
        for (int i = 0; i < 18; i++) {
            const int channels = i % 3 == 0 ? 1 : i % 3 + 2, size = i / 6 == 0 ? 5 : i / 6 == 1 ? 32 : 300;
            stk__pixels in = new_pixels(size, size - 2, channels, 3), out = new_pixels(size, size - 2, channels, 0);
            set_noise(&in, 5);
            stk__warp_affine(&out, &in, identity, i % 2, color_fill);
            for (int y = 0; y < in.height; y++)
                assert_memory_equal(stk__pixel_row(&out, y), stk__pixel_row(&in, y), (size_t)(size * channels));
            free(in.data);
            free(out.data);
        }
    }
}

static void warp_by_quarter_turn_moves_whole_pixels(void **state)
{
    stk__pixels in = new_pixels(20, 20, 3, 0), out = new_pixels(20, 20, 3, 0);
    set_noise(&in, 6);
    double m[6];
    set_turn(m, &out, &in, 90, 1, 0);
    for (int bilinear = 0; bilinear < 2; bilinear++) {
        stk__warp_affine(&out, &in, m, bilinear, gray_fill);
        for (int y = 0; y < 20; y++)
            for (int x = 0; x < 20; x++)
                assert_memory_equal(stk__pixel_row(&out, y) + 3 * x, stk__pixel_row(&in, 19 - x) + 3 * y, 3);
    }
    free(in.data);
    free(out.data);
}

static void warp_by_half_a_pixel_takes_the_mean(void **state)
{
    uint8_t from[] = {10, 20, 101, 255}, to[4];
    const stk__pixels in = {from, 4, 1, 1, 1, 4}, out = {to, 4, 1, 1, 1, 4};
    const uint8_t fill[4] = {50};
    stk__warp_affine(&out, &in, (double[6]){1, 0, 0.5, 0, 1, 0}, true, fill);
    assert_memory_equal(to, ((uint8_t[]){15, 61, 178, 153}), 4);
    stk__warp_affine(&out, &in, (double[6]){1, 0, -1.5, 0, 1, 0}, true, fill);
    assert_memory_equal(to, ((uint8_t[]){50, 30, 15, 61}), 4);
    stk__warp_affine(&out, &in, (double[6]){1, 0, 1.25, 0, 1, 0}, false, fill);
    assert_memory_equal(to, ((uint8_t[]){20, 101, 255, 50}), 4);
    stk__warp_affine(&out, &in, (double[6]){1, 0, -0.75, 0, 1, 0}, false, fill);
    assert_memory_equal(to, ((uint8_t[]){50, 10, 20, 101}), 4);
}

/* Sizes on both sides of the limit for the padded copy. */
static void warp_is_near_floating_point(void **state)
{
    static const int32_t sizes[][4] = {{32, 32, 32, 32}, {224, 200, 224, 224}, {700, 90, 600, 50}, {40, 500, 33, 47}};
    for (int i = 0; i < 12; i++) {
        const int32_t *s = sizes[i / 3];
        const int channels = i % 3 == 0 ? 1 : i % 3 + 2;
        stk__pixels in = new_pixels(s[0], s[1], channels, 1), out = new_pixels(s[2], s[3], channels, 2);
        set_smooth(&in);
        double m[6];
        set_turn(m, &out, &in, 10 + 25 * i, 1 + 0.1 * i, i);
        /* The step from image to fill is as steep as noise: where both come in, more is allowed. */
        stk__warp_affine(&out, &in, m, true, color_fill);
        for (int y = 0; y < out.height; y++) {
            for (int x = 0; x < out.width * channels; x++) {
                static const uint8_t low[4] = {0}, high[4] = {255, 255, 255, 255};
                const int c = x % channels;
                const double wanted = reference(&in, m, x / channels, y, c, color_fill);
                const double spread =
                    reference(&in, m, x / channels, y, c, high) - reference(&in, m, x / channels, y, c, low);
                const double error = fabs(stk__pixel_row(&out, y)[x] - wanted);
                if (error > (spread > 0 && spread < 254.999 ? 2 : 0.55))
                    fail_msg("case %d, (%d, %d): %d, wanted %g", i, x / channels, y, stk__pixel_row(&out, y)[x],
                             wanted);
            }
        }
        free(in.data);
        free(out.data);
    }
}

static void check_levels(const stk__pixels *in, int32_t width, int32_t height, const double m[6], bool bilinear,
                         const uint8_t *fill)
{
    stk__pixels wanted = new_pixels(width, height, in->channels, 0), out = new_pixels(width, height, in->channels, 5);
    stk__simd_limit(STK__SIMD_C);
    stk__warp_affine(&wanted, in, m, bilinear, fill);
    for (int level = 1; level < STK__SIMD_COUNT; level++) {
        stk__simd_limit((stk__simd)level);
        stk__warp_affine(&out, in, m, bilinear, fill);
        for (int y = 0; y < height; y++) {
            assert_memory_equal(stk__pixel_row(&out, y), stk__pixel_row(&wanted, y), (size_t)(width * in->channels));
            for (int i = 0; i < 5 && y + 1 < height; i++)
                assert_int_equal(stk__pixel_row(&out, y)[width * in->channels + i], 0xee);
        }
    }
    free(wanted.data);
    free(out.data);
}

static void warp_gives_the_same_bytes_at_every_level(void **state)
{
    for (uint64_t i = 0; i < 240; i++) {
        const uint64_t r = stk__mix(99, i);
        const int32_t limit = i % 4 ? 40 : 330, channels = i % 3 == 0 ? 1 : (int)(i % 3) + 2;
        const int32_t width = 1 + (int32_t)(r % (uint64_t)limit), height = 1 + (int32_t)((r >> 8) % (uint64_t)limit);
        stk__pixels in = new_pixels(width, height, channels, (int32_t)(r >> 16 & 3));
        set_noise(&in, i);
        stk__pixels size = {NULL, 1 + (int32_t)(r >> 20 & 63), 1 + (int32_t)(r >> 28 & 31), channels, 1, 0};
        if (i % 5 == 0)
            size.width += 290;
        double m[6];
        set_turn(m, &size, &in, (double)(r >> 36 & 511), 0.25 + (double)(r >> 45 & 15) / 8,
                 (double)(r >> 50 & 63) - 32);
        check_levels(&in, size.width, size.height, m, i % 7 != 0, i % 2 ? gray_fill : color_fill);
        free(in.data);
    }
}

/* Maps that leave the image at once, do not move at all, or are no numbers. */
static void warp_survives_maps_beyond_reason(void **state)
{
    static const double maps[][6] = {
        {1e12, 0, 0, 0, 1e12, 0},      {0, 0, 3.5, 0, 0, 3.5},       {1, 0, 1e300, 0, 1, 0},
        {NAN, 0, 0, 0, 1, 0},          {1, 0, 0, INFINITY, 1, 0},    {-1e6, 3, 5, 7, -1e-9, 1},
        {32768, 0, -1, 0, 1, 0},       {1, 0, 0, 0, 1, -1e18},       {-1, 0, 70000, 0, 1, 0},
        {20000, 1, -30000, 0.5, 1, 0}, {0.001, 0, -0.5, 0, 0.01, 0}, {1, 0, -40000, 0, 1, 0}};
    for (size_t i = 0; i < STK_COUNT(maps) * 4; i++) {
        stk__pixels in = new_pixels(i & 1 ? 20 : 200, i & 1 ? 10 : 150, 3, 0);
        set_noise(&in, i);
        check_levels(&in, 300, 7, maps[i / 4], i & 2, color_fill);
        free(in.data);
    }
    stk__pixels in = new_pixels(20, 20, 3, 0), out = new_pixels(20, 20, 3, 0);
    set_noise(&in, 1);
    stk__warp_affine(&out, &in, maps[2], true, color_fill);
    for (int i = 0; i < 1200; i++)
        assert_int_equal(out.data[i], color_fill[i % 3]);
    free(in.data);
    free(out.data);
}

static void warp_reads_rows_from_bottom_to_top(void **state)
{
    stk__pixels in = new_pixels(200, 150, 3, 0), turned = in, out = new_pixels(90, 80, 3, 0),
                wanted = new_pixels(90, 80, 3, 0);
    set_noise(&in, 3);
    turned.data = stk__pixel_row(&in, in.height - 1);
    turned.stride = -in.stride;
    double m[6];
    set_turn(m, &out, &in, 33, 2, 0);
    const double flipped[6] = {m[0], m[1], m[2], -m[3], -m[4], in.height - m[5]};
    /* Weights of mirrored points differ by their rounding. */
    stk__warp_affine(&wanted, &in, flipped, false, gray_fill);
    stk__warp_affine(&out, &turned, m, false, gray_fill);
    int differing = 0;
    for (int i = 0; i < 90 * 80 * 3; i++)
        differing += out.data[i] != wanted.data[i];
    assert_true(differing < 90 * 80 * 3 / 500);
    check_levels(&turned, 90, 80, m, true, gray_fill);
    free(in.data);
    free(out.data);
    free(wanted.data);
}

static int restore_level(void **state)
{
    stk__simd_limit(STK__SIMD_AVX512);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(warp_by_identity_changes_nothing, restore_level),
        cmocka_unit_test(warp_by_quarter_turn_moves_whole_pixels),
        cmocka_unit_test(warp_by_half_a_pixel_takes_the_mean),
        cmocka_unit_test(warp_is_near_floating_point),
        cmocka_unit_test_teardown(warp_gives_the_same_bytes_at_every_level, restore_level),
        cmocka_unit_test_teardown(warp_survives_maps_beyond_reason, restore_level),
        cmocka_unit_test_teardown(warp_reads_rows_from_bottom_to_top, restore_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
