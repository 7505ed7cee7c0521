/* Resizing against the same filters in double precision, and at each level of the CPU against the others. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "base/rng.h"
#include "kernels/resize.h"
#include "kernels/simd.h"

static uint64_t drawn;

static uint32_t draw(uint32_t below)
{
    return (uint32_t)(stk__mix(0x2e512e, drawn++) >> 33) % below;
}

static int32_t draw_in(int32_t low, int32_t high)
{
    return low + (int32_t)draw((uint32_t)(high - low + 1));
}

static stk__pixels make_pixels(int32_t width, int32_t height, int32_t channels, int32_t gap)
{
    stk__pixels p = {NULL, width, height, channels, 1, (ptrdiff_t)width * channels + gap};
    const size_t size = (size_t)p.stride * (size_t)height - (size_t)gap;
    p.data = stk__alloc(size);
    assert_non_null(p.data);
    const uint32_t kind = draw(3);
    for (size_t i = 0; i < size; i++)
        p.data[i] = (uint8_t)(kind == 0 ? draw(256) : kind == 1 ? draw(2) * 255 : (i / 7 + draw(20)) % 256);
    return p;
}

typedef struct picture {
    int32_t width, height;
    size_t row_bytes;
    uint8_t *data;
    int32_t *seen; /* how often each row came */
} picture;

static void picture_row(void *arg, int32_t y, const uint8_t *row)
{
    picture *const p = arg;
    assert_in_range(y, 0, p->height - 1);
    p->seen[y]++;
    memcpy(p->data + (size_t)y * p->row_bytes, row, p->row_bytes);
}

static void *must_alloc(size_t size)
{
    void *const p = stk__alloc_aligned(size);
    assert_non_null(p);
    return p;
}

/* Owned by the caller. */
static uint8_t *resized(const stk__resize *r, const stk__pixels *in)
{
    const size_t size = stk__resize_scratch(r, in->width, in->height, in->channels);
    assert_true(size > 0);
    void *const scratch = must_alloc(size);
    memset(scratch, 0xa5, size);
    picture p = {r->width, r->height, (size_t)(r->width * in->channels), NULL,
                 stk__calloc((size_t)r->height, sizeof(int32_t))};
    assert_non_null(p.seen);
    p.data = must_alloc(p.row_bytes * (size_t)r->height);
    stk__resize_run(r, in, scratch, picture_row, &p);
    for (int32_t y = 0; y < r->height; y++)
        assert_int_equal(p.seen[y], 1);
    stk__free(p.seen);
    stk__free(scratch);
    return p.data;
}

static double filter_at(stk__filter filter, double x)
{
    if (filter == STK__FILTER_AREA)
        return x > -0.5 && x <= 0.5 ? 1 : 0;
    x = fabs(x);
    if (filter == STK__FILTER_BILINEAR)
        return x < 1 ? 1 - x : 0;
    if (x < 1)
        return 1.5 * x * x * x - 2.5 * x * x + 1;
    return x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2 : 0;
}

/* One result of one axis: weights over all inputs. */
static void true_weights(const stk__resize *r, int32_t i, int32_t size, double from, double to, int32_t in_size,
                         double *w)
{
    const double scale = (to - from) / size, center = from + (i + 0.5) * scale;
    const double spread = scale > 1 && (r->antialias || r->filter == STK__FILTER_AREA) ? scale : 1;
    const double support = spread * (r->filter == STK__FILTER_BICUBIC ? 2 : r->filter == STK__FILTER_AREA ? 0.5 : 1);
    double sum = 0;
    memset(w, 0, (size_t)in_size * sizeof *w);
    const int32_t low = (int32_t)fmax(center - support + 0.5, 0), high = (int32_t)fmin(center + support + 0.5, in_size);
    for (int32_t k = low; k < high; k++)
        sum += w[k] = filter_at(r->filter, (k - center + 0.5) / spread);
    for (int32_t k = low; k < high; k++)
        w[k] /= sum;
}

static double clip(double x)
{
    return x < 0 ? 0 : x > 255 ? 255 : x;
}

/* Along x, clipped, then along y, clipped: real numbers throughout. Owned by the caller. */
static double *true_resize(const stk__resize *r, const stk__pixels *in)
{
    const int32_t c = in->channels, row = r->width * c;
    double *const wide = must_alloc((size_t)(in->height * row) * sizeof(double));
    double *const out = must_alloc((size_t)(r->height * row) * sizeof(double));
    double *const w = must_alloc((size_t)STK_MAX(in->width, in->height) * sizeof(double));
    for (int32_t x = 0; x < r->width; x++) {
        true_weights(r, r->flip_x ? r->width - 1 - x : x, r->width, r->box.x0, r->box.x1, in->width, w);
        for (int32_t y = 0; y < in->height; y++) {
            for (int32_t k = 0; k < c; k++) {
                double sum = 0;
                for (int32_t i = 0; i < in->width; i++)
                    sum += w[i] * stk__pixel_row(in, y)[i * c + k];
                wide[y * row + x * c + k] = clip(sum);
            }
        }
    }
    for (int32_t y = 0; y < r->height; y++) {
        true_weights(r, r->flip_y ? r->height - 1 - y : y, r->height, r->box.y0, r->box.y1, in->height, w);
        for (int32_t e = 0; e < row; e++) {
            double sum = 0;
            for (int32_t i = 0; i < in->height; i++)
                sum += w[i] * wide[i * row + e];
            out[y * row + e] = clip(sum);
        }
    }
    stk__free(wide);
    stk__free(w);
    return out;
}

/* A box in quarters of pixels, or all of it. */
static stk__box draw_box(const stk__pixels *in)
{
    if (draw(3) == 0)
        return (stk__box){0, 0, in->width, in->height};
    const int32_t x0 = draw_in(0, in->width * 4 - 1), y0 = draw_in(0, in->height * 4 - 1);
    return (stk__box){x0 / 4.0, y0 / 4.0, draw_in(x0 + 1, in->width * 4) / 4.0, draw_in(y0 + 1, in->height * 4) / 4.0};
}

static void check_filter(const stk__resize *r, const stk__pixels *in)
{
    double *const want = true_resize(r, in);
    const size_t count = (size_t)(r->width * r->height * in->channels);
    uint8_t *first = NULL;
    for (int level = 0; level <= (int)stk__simd_highest(); level++) {
        stk__simd_limit((stk__simd)level);
        uint8_t *const got = resized(r, in);
        for (size_t i = 0; !first && i < count; i++)
            if (fabs(got[i] - want[i]) > 0.6)
                fail_msg("filter %d, %dx%dx%d to %dx%d, box %g %g %g %g: element %zu is %d, not %g", (int)r->filter,
                         in->width, in->height, in->channels, r->width, r->height, r->box.x0, r->box.y0, r->box.x1,
                         r->box.y1, i, got[i], want[i]);
        if (!first) {
            first = got;
            continue;
        }
        if (memcmp(got, first, count))
            fail_msg("filter %d, %dx%dx%d to %dx%d: level %d differs from plain C", (int)r->filter, in->width,
                     in->height, in->channels, r->width, r->height, level);
        stk__free(got);
    }
    stk__simd_limit(STK__SIMD_COUNT);
    stk__free(first);
    stk__free(want);
}

static void check_random_filter(int32_t in_most, int32_t most)
{
    stk__pixels in = make_pixels(draw_in(1, in_most), draw_in(1, 60), draw_in(1, 4), draw_in(0, 5));
    stk__resize r = {.filter = (stk__filter)draw_in(STK__FILTER_BILINEAR, STK__FILTER_AREA), .antialias = draw(4) != 0};
    r.flip_x = draw(2);
    r.flip_y = draw(2);
    r.width = draw_in(1, most);
    r.height = draw_in(1, 40);
    r.box = draw_box(&in);
    check_filter(&r, &in);
    stk__free(in.data);
}

static void resize_of_random_sizes_and_boxes_fits_the_real_filter(void **state)
{
    for (int i = 0; i < 400; i++)
        check_random_filter(90, 90);
}

/* So much smaller that the taps of neighbours lie far apart. */
static void resize_of_wide_images_fits_the_real_filter(void **state)
{
    for (int i = 0; i < 40; i++)
        check_random_filter(1000, 60);
}

static void resize_of_nearest_takes_the_pixel_below_the_center(void **state)
{
    for (int i = 0; i < 300; i++) {
        stk__pixels in = make_pixels(draw_in(1, 60), draw_in(1, 60), draw_in(1, 4), draw_in(0, 5));
        const stk__resize r = {STK__FILTER_NEAREST, draw(2),        draw(2),      draw(2),
                               draw_in(1, 80),      draw_in(1, 80), draw_box(&in)};
        uint8_t *const got = resized(&r, &in);
        const double x_step = (r.box.x1 - r.box.x0) / r.width, y_step = (r.box.y1 - r.box.y0) / r.height;
        for (int32_t y = 0; y < r.height; y++) {
            for (int32_t x = 0; x < r.width; x++) {
                const double at_x = r.box.x0 + ((r.flip_x ? r.width - 1 - x : x) + 0.5) * x_step;
                const double at_y = r.box.y0 + ((r.flip_y ? r.height - 1 - y : y) + 0.5) * y_step;
                /* Where the center falls between two pixels, the last bit of the sum decides. */
                if (fabs(at_x - nearbyint(at_x)) < 1e-9 || fabs(at_y - nearbyint(at_y)) < 1e-9)
                    continue;
                const size_t c = (size_t)in.channels;
                assert_memory_equal(got + (size_t)(y * r.width + x) * c,
                                    stk__pixel_row(&in, (int32_t)at_y) + (size_t)at_x * c, c);
            }
        }
        stk__free(got);
        stk__free(in.data);
    }
}

static void resize_to_the_same_size_is_a_copy(void **state)
{
    for (int i = 0; i < 100; i++) {
        stk__pixels in = make_pixels(draw_in(2, 50), draw_in(2, 50), draw_in(1, 4), draw_in(0, 5));
        const int32_t x = draw_in(0, in.width - 1), y = draw_in(0, in.height - 1);
        stk__resize r = {.filter = (stk__filter)draw(4), .antialias = true, .flip_x = draw(2), .flip_y = draw(2)};
        r.width = draw_in(1, in.width - x);
        r.height = draw_in(1, in.height - y);
        r.box = (stk__box){x, y, x + r.width, y + r.height};
        uint8_t *const got = resized(&r, &in);
        for (int32_t row = 0; row < r.height; row++) {
            for (int32_t column = 0; column < r.width; column++) {
                const int32_t from_x = x + (r.flip_x ? r.width - 1 - column : column);
                const int32_t from_y = y + (r.flip_y ? r.height - 1 - row : row);
                assert_memory_equal(got + (row * r.width + column) * in.channels,
                                    stk__pixel_row(&in, from_y) + from_x * in.channels, (size_t)in.channels);
            }
        }
        stk__free(got);
        stk__free(in.data);
    }
}

static void resize_of_one_colour_keeps_it(void **state)
{
    for (int i = 0; i < 200; i++) {
        stk__pixels in = make_pixels(draw_in(1, 300), draw_in(1, 80), draw_in(1, 4), 0);
        const uint8_t colour = (uint8_t)draw(256);
        memset(in.data, colour, (size_t)in.stride * (size_t)in.height);
        const stk__resize r = {(stk__filter)draw(4), draw(2),        draw(2),      draw(2),
                               draw_in(1, 99),       draw_in(1, 99), draw_box(&in)};
        uint8_t *const got = resized(&r, &in);
        for (int32_t k = 0; k < r.width * r.height * in.channels; k++)
            assert_int_equal(got[k], colour);
        stk__free(got);
        stk__free(in.data);
    }
}

static void resize_with_flips_is_the_mirror_image(void **state)
{
    for (int i = 0; i < 100; i++) {
        stk__pixels in = make_pixels(draw_in(1, 90), draw_in(1, 90), draw_in(1, 4), 0);
        stk__resize r = {(stk__filter)draw(4), true, false, false, draw_in(1, 60), draw_in(1, 60), draw_box(&in)};
        uint8_t *const straight = resized(&r, &in);
        r.flip_x = draw(2);
        r.flip_y = !r.flip_x || draw(2);
        uint8_t *const mirrored = resized(&r, &in);
        for (int32_t y = 0; y < r.height; y++) {
            for (int32_t x = 0; x < r.width; x++) {
                const int32_t from_x = r.flip_x ? r.width - 1 - x : x, from_y = r.flip_y ? r.height - 1 - y : y;
                assert_memory_equal(mirrored + (y * r.width + x) * in.channels,
                                    straight + (from_y * r.width + from_x) * in.channels, (size_t)in.channels);
            }
        }
        stk__free(straight);
        stk__free(mirrored);
        stk__free(in.data);
    }
}

/* A crop of a resize of the mirrored input is the same bytes, whether that is done at once or one by one. */
static void resize_of_a_mirrored_input_and_a_crop_of_it_are_exact(void **state)
{
    for (int i = 0; i < 400; i++) {
        stk__pixels in = make_pixels(draw_in(1, 70), draw_in(1, 70), draw_in(1, 4), draw_in(0, 5));
        stk__pixels mirrored = make_pixels(in.width, in.height, in.channels, 0);
        stk__resize r = {
            .filter = (stk__filter)draw(4), .antialias = draw(2), .mirror_x = draw(2), .mirror_y = draw(2)};
        for (int32_t y = 0; y < in.height; y++)
            for (int32_t x = 0; x < in.width; x++)
                memcpy(stk__pixel_row(&mirrored, y) + x * in.channels,
                       stk__pixel_row(&in, r.mirror_y ? in.height - 1 - y : y) +
                           (r.mirror_x ? in.width - 1 - x : x) * in.channels,
                       (size_t)in.channels);
        r.box = (stk__box){0, 0, in.width, in.height};
        stk__resize plain = {.filter = r.filter, .antialias = r.antialias, .box = r.box};
        r.whole_width = plain.width = draw_in(1, 90);
        r.whole_height = plain.height = draw_in(1, 90);
        r.width = draw_in(1, plain.width);
        r.height = draw_in(1, plain.height);
        r.crop_x = draw_in(0, plain.width - r.width);
        r.crop_y = draw_in(0, plain.height - r.height);
        r.flip_x = draw(2);
        r.flip_y = draw(2);
        uint8_t *const whole = resized(&plain, &mirrored), *const part = resized(&r, &in);
        for (int32_t y = 0; y < r.height; y++) {
            for (int32_t x = 0; x < r.width; x++) {
                const int32_t from_x = r.crop_x + (r.flip_x ? r.width - 1 - x : x);
                const int32_t from_y = r.crop_y + (r.flip_y ? r.height - 1 - y : y);
                assert_memory_equal(part + (y * r.width + x) * in.channels,
                                    whole + (from_y * plain.width + from_x) * in.channels, (size_t)in.channels);
            }
        }
        stk__free(whole);
        stk__free(part);
        stk__free(in.data);
        stk__free(mirrored.data);
    }
}

/* Rows from the last to the first in memory. */
static void resize_of_rows_in_reverse_order_is_the_same(void **state)
{
    for (int i = 0; i < 60; i++) {
        stk__pixels in = make_pixels(draw_in(1, 40), draw_in(1, 40), draw_in(1, 4), 0);
        stk__pixels reversed = in;
        reversed.data = stk__pixel_row(&in, in.height - 1);
        reversed.stride = -in.stride;
        stk__resize r = {STK__FILTER_BILINEAR, true, false, false, 30, 30, {0, 0, in.width, in.height}};
        stk__pixels copy = make_pixels(in.width, in.height, in.channels, 0);
        for (int32_t y = 0; y < in.height; y++)
            memcpy(stk__pixel_row(&copy, y), stk__pixel_row(&reversed, y), (size_t)in.stride);
        uint8_t *const got = resized(&r, &reversed), *const want = resized(&r, &copy);
        assert_memory_equal(got, want, (size_t)(30 * 30 * in.channels));
        stk__free(got);
        stk__free(want);
        stk__free(copy.data);
        stk__free(in.data);
    }
}

static void resize_scratch_refuses_nonsense(void **state)
{
    const stk__resize good = {STK__FILTER_BILINEAR, true, false, false, 10, 10, {0, 0, 20, 20}};
    assert_true(stk__resize_scratch(&good, 20, 20, 3) > 0);
    assert_int_equal(stk__resize_scratch(&good, 19, 20, 3), 0); /* the box is larger than the image */
    assert_int_equal(stk__resize_scratch(&good, 20, 0, 3), 0);
    assert_int_equal(stk__resize_scratch(&good, 20, 20, 0), 0);
    assert_int_equal(stk__resize_scratch(&good, 20, 20, 5), 0);
    static const stk__box boxes[] = {{5, 0, 5, 20}, {0, 9, 20, 3}, {-1, 0, 20, 20}, {0, 0, 20, NAN}, {NAN, 0, 20, 20}};
    for (size_t i = 0; i < STK_COUNT(boxes); i++) {
        stk__resize bad = good;
        bad.box = boxes[i];
        assert_int_equal(stk__resize_scratch(&bad, 20, 20, 3), 0);
    }
    stk__resize bad = good;
    bad.width = 0;
    assert_int_equal(stk__resize_scratch(&bad, 20, 20, 3), 0);
    bad.width = INT32_MAX;
    assert_int_equal(stk__resize_scratch(&bad, 20, 20, 3), 0);
    bad.width = 10;
    bad.height = -4;
    assert_int_equal(stk__resize_scratch(&bad, 20, 20, 3), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resize_of_random_sizes_and_boxes_fits_the_real_filter),
        cmocka_unit_test(resize_of_wide_images_fits_the_real_filter),
        cmocka_unit_test(resize_of_nearest_takes_the_pixel_below_the_center),
        cmocka_unit_test(resize_to_the_same_size_is_a_copy),
        cmocka_unit_test(resize_of_one_colour_keeps_it),
        cmocka_unit_test(resize_with_flips_is_the_mirror_image),
        cmocka_unit_test(resize_of_a_mirrored_input_and_a_crop_of_it_are_exact),
        cmocka_unit_test(resize_of_rows_in_reverse_order_is_the_same),
        cmocka_unit_test(resize_scratch_refuses_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
