/* Tells image formats apart by their first bytes and hands them to the decoder of each. */
#include "formats/image_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

#include "base/banned.h"

const char *stk__image_kind_name(stk__image_kind kind)
{
    static const char *const names[] = {"unknown", "JPEG", "PNG", "WebP", "GIF", "BMP"};
    return (unsigned)kind < STK_COUNT(names) ? names[kind] : names[0];
}

static bool starts_with(const uint8_t *data, size_t size, const char *magic, size_t length)
{
    return size >= length && memcmp(data, magic, length) == 0;
}

static stk__image_kind kind_of(const uint8_t *data, size_t size)
{
    if (starts_with(data, size, "\xff\xd8\xff", 3))
        return STK__IMAGE_JPEG;
    if (starts_with(data, size, "\x89PNG\r\n\x1a\n", 8))
        return STK__IMAGE_PNG;
    if (starts_with(data, size, "RIFF", 4) && size >= 12 && memcmp(data + 8, "WEBP", 4) == 0)
        return STK__IMAGE_WEBP;
    if (starts_with(data, size, "GIF87a", 6) || starts_with(data, size, "GIF89a", 6))
        return STK__IMAGE_GIF;
    if (starts_with(data, size, "BM", 2))
        return STK__IMAGE_BMP;
    return STK__IMAGE_UNKNOWN;
}

static stk_status refuse(const uint8_t *data, size_t size, stk_error *err)
{
    if (size == 0)
        return stk_error_set(err, STK_CORRUPT, "not an image: it is empty");
    char found[3 * 8 + 1];
    stk__text text;
    stk__text_fixed(&text, found, sizeof found);
    for (size_t i = 0; i < size && i < 8; i++)
        stk__text_printf(&text, i ? " %02x" : "%02x", data[i]);
    return stk_error_set(err, STK_CORRUPT, "not an image: starts with %s, wanted JPEG, PNG, WebP, GIF or BMP", found);
}

stk_status stk__image_probe(const uint8_t *data, size_t size, bool want_orientation, stk__image_info *out,
                            stk_error *err)
{
    switch (kind_of(data, size)) {
    case STK__IMAGE_JPEG:
        return stk__jpeg_probe(data, size, want_orientation, out, err);
    case STK__IMAGE_PNG:
        return stk__png_probe(data, size, want_orientation, out, err);
    case STK__IMAGE_WEBP:
        return stk__webp_probe(data, size, want_orientation, out, err);
    case STK__IMAGE_GIF:
        return stk__gif_probe(data, size, out, err);
    case STK__IMAGE_BMP:
        return stk__bmp_probe(data, size, out, err);
    case STK__IMAGE_UNKNOWN:
        break;
    }
    return refuse(data, size, err);
}

stk_status stk__image_decoder_new(const stk__image_memory *memory, stk__image_decoder **out, stk_error *err)
{
    stk__image_decoder *decoder = stk__calloc(1, sizeof *decoder);
    if (!decoder)
        return stk__nomem(sizeof *decoder, err);
    decoder->memory = *memory;
    *out = decoder;
    return STK_OK;
}

static void room_clear(stk__image_decoder *decoder, stk__image_room *room)
{
    if (room->data)
        decoder->memory.free(decoder->memory.arg, room->data, room->size);
    *room = (stk__image_room){0};
}

void stk__image_decoder_trim(stk__image_decoder *decoder)
{
    if (!decoder)
        return;
    decoder->ready = false;
    stk__jpeg_free(decoder->jpeg, &decoder->memory);
    stk__png_free(decoder->png, &decoder->memory);
    decoder->jpeg = NULL;
    decoder->png = NULL;
    room_clear(decoder, &decoder->pixels);
    room_clear(decoder, &decoder->work);
    room_clear(decoder, &decoder->wide);
}

void stk__image_decoder_free(stk__image_decoder *decoder)
{
    if (!decoder)
        return;
    stk__image_decoder_trim(decoder);
    stk__free(decoder);
}

uint64_t stk__image_demand(const stk__image_info *info, int32_t channels)
{
    const uint64_t pixels = (uint64_t)info->width * (uint64_t)info->height;
    const uint64_t stored = (uint64_t)STK_MAX(info->channels, 1) * (info->bits > 8 ? 2 : 1);
    uint64_t each = (uint64_t)channels; /* bytes of a pixel */
    switch (info->kind) {
    case STK__IMAGE_JPEG: /* coefficients, should there be several scans */
        each += 2 * stored;
        break;
    case STK__IMAGE_PNG: /* all rows are inflated first */
        each += stored + 1;
        break;
    case STK__IMAGE_WEBP: /* as image_webp.c counts it, and pixels once more where they are put on a canvas */
        each += 5 + 4;
        break;
    default:
        each += stored;
        break;
    }
    return pixels * (info->bits > 8 ? each + 2 * (uint64_t)channels : each) + (1 << 20);
}

stk_status stk__image_charge(const stk__image_decoder *decoder, size_t size, stk_error *err)
{
    return decoder->memory.charge ? decoder->memory.charge(decoder->memory.arg, size, err) : STK_OK;
}

void stk__image_give_back(const stk__image_decoder *decoder, size_t size)
{
    if (decoder->memory.give_back)
        decoder->memory.give_back(decoder->memory.arg, size);
}

void *stk__image_room_get(stk__image_decoder *decoder, stk__image_room *room, size_t size, stk_error *err)
{
    decoder->ready &= room != &decoder->work;
    if (STK_LIKELY(room->data && size <= room->size))
        return room->data;
    if (size > SIZE_MAX / 2) {
        stk__nomem(size, err);
        return NULL;
    }
    /* A room that grows again will grow once more: some air saves the next steps. */
    size_t want = room->data ? size + size / 8 : size;
    want = (want + 4095) & ~(size_t)4095;
    want = STK_MAX(want, 4096);
    room_clear(decoder, room);
    room->data = decoder->memory.alloc(decoder->memory.arg, want, err);
    room->size = room->data ? want : 0;
    return room->data;
}

static stk_status get_pixels(stk__image_decoder *decoder, stk__image_room *room, int32_t width, int32_t height,
                             int32_t channels, int32_t element_bytes, stk__image_got *got, stk_error *err)
{
    size_t row, size;
    if (__builtin_mul_overflow((size_t)width, (size_t)channels * (size_t)element_bytes, &row) ||
        __builtin_mul_overflow(row, (size_t)height, &size) || size > PTRDIFF_MAX)
        return stk_error_set(err, STK_NOMEM, "%d x %d pixels of %d channels are more than memory can hold", (int)width,
                             (int)height, (int)channels);
    uint8_t *data = stk__image_room_get(decoder, room, size, err);
    if (!data)
        return err ? err->status : STK_NOMEM;
    got->pixels = (stk__pixels){data, width, height, channels, element_bytes, (ptrdiff_t)row};
    return STK_OK;
}

stk_status stk__image_pixels_get(stk__image_decoder *decoder, int32_t width, int32_t height, int32_t channels,
                                 stk__image_got *got, stk_error *err)
{
    return get_pixels(decoder, &decoder->pixels, width, height, channels, 1, got, err);
}

stk_status stk__image_wide_get(stk__image_decoder *decoder, int32_t width, int32_t height, int32_t channels,
                               stk__image_got *got, stk_error *err)
{
    return get_pixels(decoder, &decoder->wide, width, height, channels, 2, got, err);
}

stk_status stk__image_check_stored(const stk__image_info *info, stk_error *err)
{
    static const char *const kinds[] = {"nothing", "gray", "gray with alpha", "colour", "colour with alpha"};
    if (info->numbers)
        return STK_OK;
    if (info->kind == STK__IMAGE_GIF)
        return stk_error_set(err, STK_UNFIT, "GIF whose first frame does not fill its screen: the rest has no number");
    return stk_error_set(err, STK_UNFIT, "%s of %d bits of %s, wanted one whole number for each pixel: a PNG or "
                         "GIF with a palette, or a gray PNG", stk__image_kind_name(info->kind), (int)info->bits,
                         kinds[(unsigned)info->channels < STK_COUNT(kinds) ? info->channels : 0]);
}

static stk_status check_want(const stk__image_info *info, const stk__image_want *want, stk_error *err)
{
    if (want->x < 0 || want->y < 0 || want->width < 1 || want->height < 1 || want->x > info->width - want->width ||
        want->y > info->height - want->height)
        return stk_error_set(err, STK_INVALID, "wanted %d x %d pixels at (%d, %d) of an image of %d x %d",
                             (int)want->width, (int)want->height, (int)want->x, (int)want->y, (int)info->width,
                             (int)info->height);
    if (want->channels != 1 && want->channels != 3 && want->channels != 4)
        return stk_error_set(err, STK_INVALID, "wanted %d channels: there are 1, 3 and 4", (int)want->channels);
    if (!want->stored)
        return STK_OK;
    if (want->channels != 1)
        return stk_error_set(err, STK_INVALID, "wanted %d channels of stored numbers, which have 1", (int)want->channels);
    return stk__image_check_stored(info, err);
}

/* 8 bits as 16: 255 becomes 65535, unless numbers are wanted as they are. */
static stk_status widen(stk__image_decoder *decoder, bool as_is, stk__image_got *got, stk_error *err)
{
    const stk__pixels in = got->pixels;
    const uint16_t factor = as_is ? 1 : 257;
    STK_TRY(stk__image_wide_get(decoder, in.width, in.height, in.channels, got, err));
    for (int32_t y = 0; y < in.height; y++) {
        const uint8_t *restrict from = stk__pixel_row(&in, y);
        uint16_t *restrict to = (uint16_t *)(void *)stk__pixel_row(&got->pixels, y);
        for (size_t i = 0; i < (size_t)in.width * (size_t)in.channels; i++)
            to[i] = (uint16_t)(from[i] * factor);
    }
    return STK_OK;
}

static stk_status decode(stk__image_decoder *decoder, const uint8_t *data, size_t size, const stk__image_info *info,
                         const stk__image_want *want, stk__image_got *out, stk_error *err)
{
    switch (info->kind) {
    case STK__IMAGE_JPEG:
        return stk__jpeg_decode(decoder, data, size, info, want, out, err);
    case STK__IMAGE_PNG:
        return stk__png_decode(decoder, data, size, info, want, out, err);
    case STK__IMAGE_WEBP:
        return stk__webp_decode(decoder, data, size, info, want, out, err);
    case STK__IMAGE_GIF:
        return stk__gif_decode(decoder, data, size, info, want, out, err);
    case STK__IMAGE_BMP:
        return stk__bmp_decode(decoder, data, size, info, want, out, err);
    case STK__IMAGE_UNKNOWN:
        break;
    }
    return refuse(data, size, err);
}

stk_status stk__image_decode(stk__image_decoder *decoder, const uint8_t *data, size_t size, const stk__image_info *info,
                             const stk__image_want *want, stk__image_got *out, stk_error *err)
{
    STK_TRY(check_want(info, want, err));
    STK_TRY(decode(decoder, data, size, info, want, out, err));
    if (want->wide && out->pixels.element_bytes == 1)
        return widen(decoder, want->stored, out, err);
    return STK_OK;
}

void stk__image_prepare_pair(const stk__image_job *a, const stk__image_job *b)
{
    if (a->decoder != b->decoder && a->info->kind == STK__IMAGE_PNG && b->info->kind == STK__IMAGE_PNG &&
        check_want(a->info, a->want, NULL) == STK_OK && check_want(b->info, b->want, NULL) == STK_OK)
        stk__png_prepare_pair(a, b);
}
