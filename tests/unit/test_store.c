/* Storing of pixels: every type, layout, mirror and size against one multiplication and one addition at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "base/rng.h"
#include "kernels/convert.h"
#include "kernels/simd.h"
#include "kernels/store.h"

static uint64_t drawn;

static uint32_t draw(uint32_t below)
{
    return (uint32_t)(stk__mix(0x5706e, drawn++) >> 33) % below;
}

static int32_t draw_in(int32_t low, int32_t high)
{
    return low + (int32_t)draw((uint32_t)(high - low + 1));
}

static const stk_dtype dtypes[] = {STK_UINT8, STK_FLOAT16, STK_BFLOAT16, STK_FLOAT32};

static stk__store draw_store(int32_t width, int32_t height, int32_t channels)
{
    stk__store s = {.dtype = dtypes[draw(4)], .plain = draw(4) == 0, .planar = draw(2)};
    s.width = width;
    s.height = height;
    s.channels = channels;
    for (int c = 0; c < STK__CHANNELS_MAX; c++) {
        s.scale[c] = (float)draw_in(-4000, 4000) / 997;
        s.bias[c] = (float)draw_in(-400000, 400000) / 991;
    }
    return s;
}

static size_t store_elements(const stk__store *s)
{
    return (size_t)s->width * (size_t)s->height * (size_t)s->channels;
}

static size_t element_of(const stk__store *s, int32_t x, int32_t y, int32_t c)
{
    return s->planar ? (size_t)((c * s->height + y) * s->width + x) : (size_t)((y * s->width + x) * s->channels + c);
}

/* Volatile, so that no compiler joins the two roundings. */
static float value_of(const stk__store *s, float pixel, int32_t c)
{
    if (s->plain)
        return pixel;
    volatile float product = pixel * s->scale[c];
    return product + s->bias[c];
}

/* Exactly as many bytes as needed, so that a sanitizer sees every byte too many. */
static void *make_bytes(size_t size)
{
    uint8_t *const p = stk__alloc(size);
    assert_non_null(p);
    for (size_t i = 0; i < size; i++)
        p[i] = (uint8_t)draw(256);
    return p;
}

static void check_image(const stk__store *s, const stk__pixels *in, bool flip_x, bool flip_y)
{
    const size_t count = store_elements(s), size = count * stk_dtype_size(s->dtype);
    void *const out = make_bytes(size), *const want = make_bytes(size);
    for (int32_t y = 0; y < s->height; y++) {
        const uint8_t *const row = stk__pixel_row(in, flip_y ? s->height - 1 - y : y);
        for (int32_t x = 0; x < s->width; x++) {
            for (int32_t c = 0; c < s->channels; c++) {
                const float value = value_of(s, row[(flip_x ? s->width - 1 - x : x) * s->channels + c], c);
                uint8_t *const to = (uint8_t *)want + element_of(s, x, y, c) * stk_dtype_size(s->dtype);
                assert_true(stk__convert(to, s->dtype, &value, STK_FLOAT32, 1));
            }
        }
    }
    for (int level = 0; level <= (int)stk__simd_highest(); level++) {
        stk__simd_limit((stk__simd)level);
        memset(out, 0xa5, size);
        stk__store_image(s, out, in, flip_x, flip_y);
        if (memcmp(out, want, size))
            fail_msg("%dx%dx%d as %s, planar %d, plain %d, flips %d %d, level %d", s->width, s->height, s->channels,
                     stk_dtype_name(s->dtype), s->planar, s->plain, flip_x, flip_y, level);
    }
    stk__simd_limit(STK__SIMD_COUNT);
    stk__free(out);
    stk__free(want);
}

static void check_random_image(int32_t width, int32_t height)
{
    const stk__store s = draw_store(width, height, draw_in(1, 4));
    const int32_t gap = draw(2) ? 0 : draw_in(1, 9);
    stk__pixels in = {NULL, width, height, s.channels, 1, (ptrdiff_t)width * s.channels + gap};
    in.data = make_bytes((size_t)in.stride * (size_t)height - (size_t)gap);
    check_image(&s, &in, draw(2), draw(2));
    stk__free(in.data);
}

static void store_image_of_every_width_is_one_product_and_one_sum(void **state)
{
    for (int32_t width = 1; width <= 100; width++)
        for (int k = 0; k < 12; k++)
            check_random_image(width, draw_in(1, 6));
}

static void store_image_of_wide_and_of_cifar_images_is_right(void **state)
{
    for (int k = 0; k < 24; k++) {
        check_random_image(draw_in(1000, 2600), 2);
        check_random_image(32, 32);
    }
}

/* All pixel values in all types, with the factors of CIFAR and ImageNet. */
static void store_of_every_pixel_value_is_the_same_at_every_level(void **state)
{
    static const float means[] = {125.3f, 123.0f, 113.9f, 103.53f}, stds[] = {63.0f, 62.1f, 66.7f, 57.375f};
    for (size_t d = 0; d < STK_COUNT(dtypes); d++) {
        stk__store s = {.dtype = dtypes[d], .planar = d % 2, .width = 256, .height = 1, .channels = 4};
        uint8_t pixels[256 * 4];
        for (int i = 0; i < 256 * 4; i++)
            pixels[i] = (uint8_t)(i / 4);
        for (int c = 0; c < 4; c++) {
            s.scale[c] = 1 / stds[c];
            s.bias[c] = -means[c] / stds[c];
        }
        const stk__pixels in = {pixels, 256, 1, 4, 1, sizeof pixels};
        check_image(&s, &in, false, false);
        for (int c = 0; c < 4; c++) { /* beyond both ends of uint8, and of half floats */
            s.scale[c] = 1000.0f * (float)(c + 1);
            s.bias[c] = -500.5f * (float)c;
        }
        check_image(&s, &in, false, false);
    }
}

static void store_row_writes_its_row_only(void **state)
{
    for (int level = 0; level <= (int)stk__simd_highest(); level++) {
        stk__simd_limit((stk__simd)level);
        for (int k = 0; k < 200; k++) {
            const stk__store s = draw_store(draw_in(1, 80), draw_in(1, 4), draw_in(1, 4));
            const size_t size = store_elements(&s) * stk_dtype_size(s.dtype), bytes = stk_dtype_size(s.dtype);
            uint8_t *const row = make_bytes((size_t)(s.width * s.channels));
            uint8_t *const out = make_bytes(size), *const want = make_bytes(size);
            const int32_t y = draw_in(0, s.height - 1);
            memcpy(want, out, size);
            for (int32_t x = 0; x < s.width; x++) {
                for (int32_t c = 0; c < s.channels; c++) {
                    const float value = value_of(&s, row[x * s.channels + c], c);
                    stk__convert(want + element_of(&s, x, y, c) * bytes, s.dtype, &value, STK_FLOAT32, 1);
                }
            }
            stk__store_row(&s, out, y, row);
            assert_memory_equal(out, want, size);
            stk__free(row);
            stk__free(out);
            stk__free(want);
        }
    }
    stk__simd_limit(STK__SIMD_COUNT);
}

static void store_floats_scales_and_changes_the_layout(void **state)
{
    for (int k = 0; k < 300; k++) {
        stk__store s = draw_store(draw_in(1, 60), draw_in(1, 5), draw_in(1, 4));
        s.dtype = STK_FLOAT32;
        const size_t count = store_elements(&s);
        float *const in = make_bytes(count * sizeof *in), *const out = make_bytes(count * sizeof *out);
        float *const want = make_bytes(count * sizeof *want);
        for (size_t i = 0; i < count; i++)
            in[i] = (float)draw_in(-100000, 100000) / 37;
        in[0] = -0.0f;
        for (size_t i = 0; i < count; i++) {
            const int32_t pixel = (int32_t)i / s.channels, c = (int32_t)i % s.channels;
            want[element_of(&s, pixel % s.width, pixel / s.width, c)] = value_of(&s, in[i], c);
        }
        for (int level = 0; level <= (int)stk__simd_highest(); level++) {
            stk__simd_limit((stk__simd)level);
            memset(out, 0xa5, count * sizeof *out);
            stk__store_floats(&s, out, in);
            assert_memory_equal(out, want, count * sizeof *out);
        }
        stk__simd_limit(STK__SIMD_COUNT);
        stk__free(in);
        stk__free(out);
        stk__free(want);
    }
}

static void to_planar_and_back_moves_every_element(void **state)
{
    static const size_t sizes[] = {1, 2, 4, 8};
    for (int k = 0; k < 400; k++) {
        const size_t size = sizes[draw(4)];
        const int32_t channels = draw_in(1, 6);
        const int64_t pixels = draw(8) ? draw_in(0, 90) : draw_in(1000, 3000);
        const size_t bytes = (size_t)pixels * (size_t)channels * size;
        uint8_t *const in = make_bytes(bytes), *const out = make_bytes(bytes), *const back = make_bytes(bytes);
        for (int level = 0; level <= (int)stk__simd_highest(); level++) {
            stk__simd_limit((stk__simd)level);
            memset(out, 0, bytes);
            memset(back, 0, bytes);
            stk__to_planar(out, in, pixels, channels, size);
            for (int64_t i = 0; i < pixels; i++)
                for (int32_t c = 0; c < channels; c++)
                    assert_memory_equal(out + (size_t)(c * pixels + i) * size, in + (size_t)(i * channels + c) * size,
                                        size);
            stk__to_interleaved(back, out, pixels, channels, size);
            assert_memory_equal(back, in, bytes);
        }
        stk__simd_limit(STK__SIMD_COUNT);
        stk__free(in);
        stk__free(out);
        stk__free(back);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_image_of_every_width_is_one_product_and_one_sum),
        cmocka_unit_test(store_image_of_wide_and_of_cifar_images_is_right),
        cmocka_unit_test(store_of_every_pixel_value_is_the_same_at_every_level),
        cmocka_unit_test(store_row_writes_its_row_only),
        cmocka_unit_test(store_floats_scales_and_changes_the_layout),
        cmocka_unit_test(to_planar_and_back_moves_every_element),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
