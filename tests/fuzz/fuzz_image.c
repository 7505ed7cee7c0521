/* Fuzz target: probes any bytes as an image and decodes a part of it; the first bytes say which part. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <libdeflate.h>

#include "base/mem.h"
#include "formats/image.h"

#define CONTROL_BYTES 8
#define PIXELS_MAX (1 << 20)
#define FIX_CHECKSUMS 0x80

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

static void *take(void *arg, size_t size, stk_error *err)
{
    void *p = stk__alloc_aligned(size);
    if (!p)
        stk__nomem(size, err);
    return p;
}

static void give_back(void *arg, void *p, size_t size)
{
    stk__free(p);
}

/* No fuzzer finds a CRC by itself. */
static void fix_checksums(uint8_t *data, size_t size)
{
    for (size_t at = 8; at < size && size - at >= 12;) {
        const size_t length =
            (size_t)data[at] << 24 | (size_t)data[at + 1] << 16 | (size_t)data[at + 2] << 8 | (size_t)data[at + 3];
        if (length > size - at - 12)
            return;
        const uint32_t crc = libdeflate_crc32(0, data + at + 4, length + 4);
        for (size_t i = 0; i < 4; i++)
            data[at + 8 + length + i] = (uint8_t)(crc >> (24 - 8 * i));
        at += 12 + length;
    }
}

static int32_t part_of(uint8_t byte, int32_t size)
{
    return (int32_t)((int64_t)byte * size / 256);
}

static stk__image_want want_of(const uint8_t *control, const stk__image_info *info)
{
    stk__image_want want = {.channels = (const int32_t[]){1, 3, 4, 3}[control[0] & 3], .exact = control[5] & 1};
    want.wide = control[5] & 4;
    want.stored = control[5] & 8;
    if (want.stored)
        want.channels = 1;
    want.x = part_of(control[1], info->width);
    want.y = part_of(control[2], info->height);
    want.width = 1 + part_of(control[3], info->width - want.x);
    want.height = 1 + part_of(control[4], info->height - want.y);
    if (control[5] & 2) {
        want.cover_width = 1 + part_of(control[6], want.width);
        want.cover_height = 1 + part_of(control[7], want.height);
    }
    return want;
}

/* Reads every byte of the wanted rectangle, so that sanitizers see what was not written. */
static uint64_t sum_pixels(const stk__image_got *got, const stk__image_want *want)
{
    const stk__pixels *p = &got->pixels;
    check(p->channels == want->channels && p->element_bytes == (want->wide ? 2 : 1) && p->width >= 1 && p->height >= 1);
    check(got->x >= 0 && got->y >= 0);
    check(p->width <= got->scaled_width - got->x && p->height <= got->scaled_height - got->y);
    uint64_t sum = 0;
    for (int32_t y = 0; y < p->height; y++) {
        const uint8_t *row = stk__pixel_row(p, y);
        for (size_t i = 0; i < (size_t)p->width * stk__pixel_bytes(p); i++)
            sum = sum * 31 + row[i];
    }
    return sum;
}

/* The sum of the wanted rectangle inside of what was decoded. */
static uint64_t sum_part(const stk__image_got *got, const stk__image_want *want)
{
    stk__image_got part = *got;
    check(got->x <= want->x && got->y <= want->y);
    check(got->x + got->pixels.width >= want->x + want->width && got->y + got->pixels.height >= want->y + want->height);
    part.pixels.data = stk__pixel_row(&got->pixels, want->y - got->y) +
                       (size_t)(want->x - got->x) * stk__pixel_bytes(&got->pixels);
    part.pixels.width = want->width;
    part.pixels.height = want->height;
    part.x = want->x;
    part.y = want->y;
    return sum_pixels(&part, want);
}

/* Two decodes that are prepared together, of a part and of the whole, must end as each by itself. */
static void decode_pair(stk__image_decoder *decoder, const stk__image_job *part, bool part_good, uint64_t part_sum,
                        const stk__image_job *whole, bool whole_good, uint64_t whole_sum)
{
    stk__image_got got;
    stk__image_job first = *part, second = *whole;
    const stk__image_memory memory = {take, give_back, NULL};
    check(stk__image_decoder_new(&memory, &second.decoder, NULL) == STK_OK);
    first.decoder = decoder;
    stk__image_prepare_pair(&first, &second);
    check((stk__image_decode(decoder, part->data, part->size, part->info, part->want, &got, NULL) == STK_OK) ==
          part_good);
    check(!part_good || sum_part(&got, part->want) == part_sum);
    check((stk__image_decode(second.decoder, whole->data, whole->size, whole->info, whole->want, &got, NULL) ==
           STK_OK) == whole_good);
    check(!whole_good || sum_pixels(&got, whole->want) == whole_sum);
    stk__image_decoder_free(second.decoder);
}

static void decode(stk__image_decoder *decoder, const uint8_t *control, const uint8_t *data, size_t size)
{
    stk__image_info info, plain;
    stk_error err;
    stk_error_clear(&err);
    if (stk__image_probe(data, size, true, &info, &err) != STK_OK) {
        check(err.message[0]);
        return;
    }
    check(info.width >= 1 && info.height >= 1 && info.channels >= 1 && info.channels <= 4);
    check(info.orientation >= 1 && info.orientation <= 8);
    check(stk__image_probe(data, size, false, &plain, NULL) == STK_OK && plain.orientation == 1);
    if ((int64_t)info.width * info.height > PIXELS_MAX)
        return;
    const stk__image_want part = want_of(control, &info);
    stk__image_want whole = {0, 0, info.width, info.height, part.channels, 0, 0, true, part.wide, part.stored};
    stk__image_got got;
    const bool good = stk__image_decode(decoder, data, size, &info, &part, &got, &err) == STK_OK;
    const bool unscaled = good && got.scaled_width == info.width && got.scaled_height == info.height;
    check(good || err.message[0]);
    check(good || !part.stored || info.numbers || err.status == STK_UNFIT);
    const uint64_t sum = !good ? 0 : unscaled ? sum_part(&got, &part) : sum_pixels(&got, &part);
    const bool all_good = stk__image_decode(decoder, data, size, &info, &whole, &got, &err) == STK_OK;
    check(all_good || err.status != STK_OK);
    const uint64_t all_sum = all_good ? sum_pixels(&got, &whole) : 0;
    const bool same_part = all_good && good && unscaled && sum_part(&got, &part) == sum;
    if (info.kind == STK__IMAGE_PNG)
        decode_pair(decoder, &(stk__image_job){NULL, data, size, &info, &part}, good, sum,
                    &(stk__image_job){NULL, data, size, &info, &whole}, all_good, all_sum);
    if (!all_good)
        return;
    /* Where no library is in between, a part of a good picture is good, and is that part of the whole. */
    if (info.kind == STK__IMAGE_PNG || info.kind == STK__IMAGE_BMP || info.kind == STK__IMAGE_GIF)
        check(same_part);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < CONTROL_BYTES)
        return 0;
    const stk__image_memory memory = {take, give_back, NULL};
    stk__image_decoder *decoder = NULL;
    uint8_t *image = stk__alloc(size - CONTROL_BYTES);
    check(image != NULL && stk__image_decoder_new(&memory, &decoder, NULL) == STK_OK);
    memcpy(image, data + CONTROL_BYTES, size - CONTROL_BYTES);
    if (data[0] & FIX_CHECKSUMS)
        fix_checksums(image, size - CONTROL_BYTES);
    decode(decoder, data, image, size - CONTROL_BYTES);
    stk__image_decoder_free(decoder);
    stk__free(image);
    return 0;
}
