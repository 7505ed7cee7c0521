/* For tests of image formats: a decoder on counted memory, and calls that fail the test by themselves. */
#ifndef STK_TESTS_IMAGE_DECODER_H
#define STK_TESTS_IMAGE_DECODER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "formats/image.h"

typedef struct memory_use {
    long calls;
    size_t bytes;
    bool refuse; /* as a budget does that is spent */
} memory_use;

static void *memory_alloc(void *arg, size_t size, stk_error *err)
{
    memory_use *use = arg;
    use->calls++;
    void *p = use->refuse ? NULL : stk__alloc_aligned(size);
    if (!p)
        stk_error_set(err, STK_BUDGET, "no room for %zu bytes", size);
    else
        use->bytes += size;
    return p;
}

static void memory_free(void *arg, void *p, size_t size)
{
    memory_use *use = arg;
    use->bytes -= size;
    stk__free(p);
}

static STK_UNUSED stk__image_decoder *decoder_new(memory_use *use)
{
    *use = (memory_use){0};
    const stk__image_memory memory = {memory_alloc, memory_free, use};
    stk__image_decoder *decoder = NULL;
    assert_int_equal(stk__image_decoder_new(&memory, &decoder, NULL), STK_OK);
    return decoder;
}

static STK_UNUSED void decoder_free(stk__image_decoder *decoder, const memory_use *use)
{
    stk__image_decoder_free(decoder);
    assert_int_equal(use->bytes, 0);
}

/* Probe and decode; the data lies in memory of its exact size, so that the address sanitizer sees reads past it. */
static STK_UNUSED stk_status decode(stk__image_decoder *decoder, const uint8_t *data, size_t size,
                                    const stk__image_want *want, stk__image_got *got, stk_error *err)
{
    stk_error_clear(err);
    uint8_t *exact = malloc(size ? size : 1);
    assert_non_null(exact);
    memcpy(exact, data, size);
    stk__image_info info;
    stk_status status = stk__image_probe(exact, size, true, &info, err);
    if (status == STK_OK) {
        stk__image_want part = *want;
        if (!want->width) {
            part.width = info.width;
            part.height = info.height;
        }
        status = stk__image_decode(decoder, exact, size, &info, &part, got, err);
    }
    free(exact);
    if (status != STK_OK) {
        assert_int_equal(err->status, status);
        assert_true(err->message[0]);
    }
    return status;
}

/* The wanted pixels with tight rows; width 0 wants all. To be freed. */
static STK_UNUSED uint8_t *decode_tight(stk__image_decoder *decoder, const uint8_t *data, size_t size,
                                        stk__image_want want)
{
    stk__image_got got;
    stk_error err;
    if (decode(decoder, data, size, &want, &got, &err) != STK_OK)
        fail_msg("%s", err.message);
    if (!want.width) {
        want.width = got.scaled_width;
        want.height = got.scaled_height;
    }
    assert_int_equal(got.pixels.channels, want.channels);
    assert_int_equal(got.pixels.element_bytes, want.wide ? 2 : 1);
    assert_true(got.x <= want.x && got.y <= want.y);
    assert_true(got.x + got.pixels.width >= want.x + want.width && got.y + got.pixels.height >= want.y + want.height);
    const size_t pixel = stk__pixel_bytes(&got.pixels), row = (size_t)want.width * pixel;
    uint8_t *out = malloc(row * (size_t)want.height);
    assert_non_null(out);
    for (int32_t y = 0; y < want.height; y++)
        memcpy(out + (size_t)y * row,
               stk__pixel_row(&got.pixels, want.y - got.y + y) + (size_t)(want.x - got.x) * pixel, row);
    return out;
}

/* A stream of random numbers. */
typedef struct dice {
    uint32_t at;
} dice;

static STK_UNUSED uint32_t roll(dice *d, uint32_t below)
{
    uint32_t out[4];
    stk__philox((const uint32_t[]){7, 11}, (const uint32_t[]){d->at++, 0, 0, 0}, out);
    return (uint32_t)(((uint64_t)out[0] * below) >> 32);
}

/* A slope with noise of `noise` steps; 256 is noise alone. To be freed. */
static STK_UNUSED uint8_t *picture(dice *d, int32_t width, int32_t height, int32_t channels, uint32_t noise)
{
    const size_t total = (size_t)width * (size_t)height * (size_t)channels;
    uint8_t *out = malloc(total);
    assert_non_null(out);
    for (size_t i = 0; i < total; i++) {
        const size_t pixel = i / (size_t)channels, x = pixel % (size_t)width, y = pixel / (size_t)width;
        out[i] = (uint8_t)(3 * x + 2 * y + 40 * (i % (size_t)channels) + (noise ? roll(d, noise) : 0));
    }
    return out;
}

static STK_UNUSED stk__image_want random_part(dice *d, int32_t width, int32_t height, int32_t channels)
{
    stk__image_want want = {.channels = channels};
    want.x = (int32_t)roll(d, (uint32_t)width);
    want.y = (int32_t)roll(d, (uint32_t)height);
    want.width = 1 + (int32_t)roll(d, (uint32_t)(width - want.x));
    want.height = 1 + (int32_t)roll(d, (uint32_t)(height - want.y));
    return want;
}

/* A part is the same as that part of the whole. */
static STK_UNUSED void check_part(stk__image_decoder *decoder, const uint8_t *data, size_t size, const uint8_t *whole,
                                  int32_t width, stk__image_want want)
{
    uint8_t *part = decode_tight(decoder, data, size, want);
    const size_t pixel = (size_t)want.channels * (want.wide ? 2 : 1), row = (size_t)want.width * pixel;
    for (int32_t y = 0; y < want.height; y++) {
        const size_t at = ((size_t)(want.y + y) * (size_t)width + (size_t)want.x) * pixel;
        assert_memory_equal(part + (size_t)y * row, whole + at, row);
    }
    free(part);
}

#endif
