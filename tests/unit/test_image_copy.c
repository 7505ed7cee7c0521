/* Copies of pixels: every border, mirror, turn and pixel size against plain definitions, at each level of the CPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "base/rng.h"
#include "kernels/image.h"
#include "kernels/simd.h"

static uint64_t drawn;

static uint32_t draw(uint32_t below)
{
    return (uint32_t)(stk__mix(0x1a6e, drawn++) >> 33) % below;
}

static int32_t draw_in(int32_t low, int32_t high)
{
    return low + (int32_t)draw((uint32_t)(high - low + 1));
}

/* Random pixels in memory of just that size, rows `gap` bytes apart. */
static stk__pixels make_pixels(int32_t width, int32_t height, int32_t channels, int32_t element_bytes, int32_t gap)
{
    stk__pixels p = {.width = width, .height = height, .channels = channels, .element_bytes = element_bytes};
    p.stride = (ptrdiff_t)(width * channels * element_bytes) + gap;
    const size_t size = (size_t)p.stride * (size_t)height - (size_t)gap;
    p.data = stk__alloc(size);
    assert_non_null(p.data);
    for (size_t i = 0; i < size; i++)
        p.data[i] = (uint8_t)draw(256);
    return p;
}

/* The definition, by walking: one step at a time, turning at the ends. */
static int32_t reflect_by_steps(int32_t at, int32_t size)
{
    int32_t place = 0, step = at < 0 ? -1 : 1;
    for (int32_t i = 0; i != at; i += at < 0 ? -1 : 1) {
        if (size == 1)
            return 0;
        if (place + step < 0 || place + step >= size)
            step = -step;
        place += step;
    }
    return place;
}

static void border_at_reflects_and_clamps(void **state)
{
    for (int32_t size = 1; size < 8; size++) {
        for (int32_t at = -40; at < 40; at++) {
            assert_int_equal(stk__border_at(STK__BORDER_REFLECT, at, size), reflect_by_steps(at, size));
            assert_int_equal(stk__border_at(STK__BORDER_EDGE, at, size), at < 0 ? 0 : at >= size ? size - 1 : at);
        }
    }
    assert_int_equal(stk__border_at(STK__BORDER_REFLECT, INT32_MIN, 2), 0);
    assert_int_equal(stk__border_at(STK__BORDER_REFLECT, INT32_MAX, 2), 1);
    assert_int_equal(stk__border_at(STK__BORDER_EDGE, INT32_MAX, INT32_MAX), INT32_MAX - 1);
}

typedef struct copy {
    stk__pixels in, out;
    int32_t x, y;
    bool flip_x, flip_y;
    stk__border border;
    uint8_t fill[64];
} copy;

static const uint8_t *wanted_pixel(const copy *c, int32_t x, int32_t y)
{
    const int32_t at_x = c->x + (c->flip_x ? c->out.width - 1 - x : x);
    const int32_t at_y = c->y + (c->flip_y ? c->out.height - 1 - y : y);
    const bool outside = at_x < 0 || at_y < 0 || at_x >= c->in.width || at_y >= c->in.height;
    if (outside && c->border == STK__BORDER_CONSTANT)
        return c->fill;
    const int32_t from_x = stk__border_at(c->border, at_x, c->in.width);
    return stk__pixel_row(&c->in, stk__border_at(c->border, at_y, c->in.height)) +
           (size_t)from_x * stk__pixel_bytes(&c->in);
}

/* Copies at every level, and looks at each pixel and at the bytes between the rows. */
static void check_copy(const copy *c, int32_t gap)
{
    const size_t pixel = stk__pixel_bytes(&c->in), row = (size_t)c->out.width * pixel;
    for (int level = 0; level <= (int)stk__simd_highest(); level++) {
        stk__simd_limit((stk__simd)level);
        memset(c->out.data, 0xa5, (size_t)c->out.stride * (size_t)c->out.height - (size_t)gap);
        stk__copy_view(&c->out, &c->in, c->x, c->y, c->flip_x, c->flip_y, c->border, c->fill);
        for (int32_t y = 0; y < c->out.height; y++) {
            const uint8_t *const got = stk__pixel_row(&c->out, y);
            for (int32_t x = 0; x < c->out.width; x++)
                if (memcmp(got + (size_t)x * pixel, wanted_pixel(c, x, y), pixel))
                    fail_msg("pixel (%d, %d) of %dx%dx%zu from (%d, %d) of %dx%d, flips %d %d, border %d, level %d", x,
                             y, c->out.width, c->out.height, pixel, c->x, c->y, c->in.width, c->in.height, c->flip_x,
                             c->flip_y, (int)c->border, level);
            for (int32_t i = 0; y + 1 < c->out.height && i < gap; i++)
                assert_int_equal(got[row + (size_t)i], 0xa5);
        }
    }
    stk__simd_limit(STK__SIMD_COUNT);
}

static void check_random_copy(int32_t most, int32_t beyond)
{
    static const int32_t shapes[][2] = {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {3, 4}, {1, 8}, {3, 2}, {5, 1}};
    const int32_t *shape = shapes[draw(STK_COUNT(shapes))];
    const int32_t gap = draw(2) ? 0 : draw_in(1, 70);
    copy c = {.in = make_pixels(draw_in(1, most), draw_in(1, 20), shape[0], shape[1], draw_in(0, 9)),
              .out = make_pixels(draw_in(1, most), draw_in(1, 20), shape[0], shape[1], gap)};
    c.x = draw_in(-beyond, c.in.width + beyond);
    c.y = draw_in(-30, c.in.height + 30);
    c.flip_x = draw(2);
    c.flip_y = draw(2);
    c.border = (stk__border)draw(3);
    for (size_t i = 0; i < sizeof c.fill; i++)
        c.fill[i] = (uint8_t)draw(256);
    check_copy(&c, gap);
    stk__free(c.in.data);
    stk__free(c.out.data);
}

static void copy_view_of_random_rectangles_fits_the_definition(void **state)
{
    for (int i = 0; i < 1500; i++)
        check_random_copy(50, 20);
    for (int i = 0; i < 300; i++)
        check_random_copy(400, 60);
}

/* So narrow that a row has more reflections than the fast way takes. */
static void copy_view_of_narrow_images_reflects_to_and_fro(void **state)
{
    for (int i = 0; i < 200; i++)
        check_random_copy(4, 100);
}

static void copy_view_of_cifar_crops_fits_the_definition(void **state)
{
    copy c = {.in = make_pixels(32, 32, 3, 1, 0), .out = make_pixels(32, 32, 3, 1, 0), .border = STK__BORDER_REFLECT};
    for (c.y = -4; c.y <= 4; c.y++) {
        for (c.x = -4; c.x <= 4; c.x++) {
            c.flip_x = !c.flip_x;
            check_copy(&c, 0);
        }
    }
    stk__free(c.in.data);
    stk__free(c.out.data);
}

static void copy_view_far_outside_is_all_border(void **state)
{
    stk__pixels in = make_pixels(3, 2, 3, 1, 0), out = make_pixels(40, 5, 3, 1, 0);
    const uint8_t fill[3] = {1, 2, 3};
    static const int32_t far[] = {INT32_MIN, INT32_MIN + 1, INT32_MAX - 100, INT32_MAX};
    for (size_t i = 0; i < STK_COUNT(far); i++) {
        stk__copy_view(&out, &in, far[i], far[i], true, false, STK__BORDER_CONSTANT, fill);
        assert_memory_equal(out.data + 30, fill, 3);
        stk__copy_view(&out, &in, far[i], far[i], true, false, STK__BORDER_EDGE, NULL);
        assert_memory_equal(out.data + 30, far[i] < 0 ? in.data : stk__pixel_row(&in, 1) + 6, 3);
        stk__copy_view(&out, &in, far[i], far[i], false, true, STK__BORDER_REFLECT, NULL);
        const int64_t x = (int64_t)far[i] + 10, y = (int64_t)far[i] + 4; /* column 10 of the first row, mirrored */
        const int64_t place = ((x % 4) + 4) % 4, row = ((y % 2) + 2) % 2;
        assert_memory_equal(out.data + 30, stk__pixel_row(&in, (int32_t)row) + (place == 3 ? 1 : place) * 3, 3);
    }
    stk__free(in.data);
    stk__free(out.data);
}

/* The picture "F" tells all eight apart. Letters are pixels; see the EXIF standard. */
static void orient_turns_as_exif_says(void **state)
{
    uint8_t in[] = "abcdef"; /* abc over def */
    static const struct {
        int32_t width;
        const char *want;
    } cases[] = {{3, "abcdef"}, {3, "cbafed"}, {3, "fedcba"}, {3, "defabc"},
                 {2, "adbecf"}, {2, "daebfc"}, {2, "fcebda"}, {2, "cfbead"}};
    const stk__pixels from = {in, 3, 2, 1, 1, 3};
    for (int i = 0; i < 8; i++) {
        uint8_t out[7] = {0};
        const int32_t width = cases[i].width;
        const stk__pixels to = {out, width, 6 / width, 1, 1, width};
        stk__orient(&to, &from, i + 1);
        assert_string_equal((const char *)out, cases[i].want);
    }
}

/* Orientation and the one that undoes it. */
static void orient_and_back_is_the_same_picture(void **state)
{
    static const int back[] = {0, 1, 2, 3, 4, 5, 8, 7, 6};
    for (int i = 0; i < 200; i++) {
        const int32_t channels = draw_in(1, 4), bytes = draw(4) ? 1 : 4;
        const int orientation = draw_in(1, 8);
        stk__pixels in = make_pixels(draw_in(1, 50), draw_in(1, 50), channels, bytes, 0);
        const bool turned = orientation >= 5;
        stk__pixels out = make_pixels(turned ? in.height : in.width, turned ? in.width : in.height, channels, bytes, 3);
        stk__pixels again = make_pixels(in.width, in.height, channels, bytes, 0);
        stk__orient(&out, &in, orientation);
        stk__orient(&again, &out, back[orientation]);
        assert_memory_equal(again.data, in.data, (size_t)in.stride * (size_t)in.height);
        stk__free(in.data);
        stk__free(out.data);
        stk__free(again.data);
    }
}

static void fill_rect_is_cut_to_the_image(void **state)
{
    const uint8_t pixel[4] = {9, 8, 7, 6};
    for (int i = 0; i < 500; i++) {
        const int32_t channels = draw_in(1, 4);
        stk__pixels p = make_pixels(draw_in(1, 20), draw_in(1, 20), channels, 1, draw_in(0, 3));
        const size_t size = (size_t)p.stride * (size_t)(p.height - 1) + (size_t)(p.width * channels);
        const int32_t x = draw_in(-15, 25), y = draw_in(-15, 25), w = draw_in(-2, 30), h = draw_in(-2, 30);
        uint8_t want[20 * (20 * 4 + 3)];
        memcpy(want, p.data, size);
        for (int32_t row = 0; row < p.height; row++)
            for (int32_t column = 0; column < p.width; column++)
                if (column >= x && column < x + w && row >= y && row < y + h)
                    memcpy(want + row * p.stride + column * channels, pixel, (size_t)channels);
        stk__fill_rect(&p, x, y, w, h, pixel);
        assert_memory_equal(p.data, want, size);
        stk__free(p.data);
    }
}

static void fill_rect_of_the_largest_size_fills_all(void **state)
{
    uint8_t data[12] = {0};
    const stk__pixels p = {data, 4, 3, 1, 1, 4};
    const uint8_t pixel = 5, want[12] = {5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5};
    stk__fill_rect(&p, INT32_MAX, 0, INT32_MAX, INT32_MAX, &pixel);
    assert_int_equal(data[0], 0);
    stk__fill_rect(&p, -1, -1, INT32_MAX, INT32_MAX, &pixel);
    assert_memory_equal(data, want, sizeof want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(border_at_reflects_and_clamps),
        cmocka_unit_test(copy_view_of_random_rectangles_fits_the_definition),
        cmocka_unit_test(copy_view_of_narrow_images_reflects_to_and_fro),
        cmocka_unit_test(copy_view_of_cifar_crops_fits_the_definition),
        cmocka_unit_test(copy_view_far_outside_is_all_border),
        cmocka_unit_test(orient_turns_as_exif_says),
        cmocka_unit_test(orient_and_back_is_the_same_picture),
        cmocka_unit_test(fill_rect_is_cut_to_the_image),
        cmocka_unit_test(fill_rect_of_the_largest_size_fills_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
