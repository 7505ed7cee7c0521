/* JPEG: the header, and which way an image is decoded. */
#include <string.h>

#include "base/compiler.h"
#include "formats/image_jpeg_impl.h"

#include "base/banned.h"

bool stk__jpeg_segment_next(const uint8_t *data, size_t size, size_t *at, stk__jpeg_segment *out)
{
    size_t i = *at;
    uint8_t marker = 0;
    /* A marker is ff and a byte that is neither 00 (a stuffed ff) nor ff (fill). */
    while (marker == 0) {
        const uint8_t *ff = i < size ? memchr(data + i, 0xff, size - i) : NULL;
        if (!ff)
            return false;
        i = (size_t)(ff - data);
        while (i < size && data[i] == 0xff)
            i++;
        if (i == size)
            return false;
        marker = data[i++];
    }
    *out = (stk__jpeg_segment){.marker = marker, .data = data + i};
    if (marker == 0x01 || (marker >= STK__JPEG_RST0 && marker <= STK__JPEG_EOI)) {
        *at = i;
        return true;
    }
    if (size - i < 2)
        return false;
    const size_t length = stk__jpeg_u16(data + i);
    if (length < 2 || length > size - i)
        return false;
    out->data = data + i + 2;
    out->size = length - 2;
    *at = i + length;
    return true;
}

bool stk__jpeg_is_frame(uint8_t marker)
{
    return marker >= 0xc0 && marker <= 0xcf && marker != STK__JPEG_DHT && marker != 0xc8 && marker != 0xcc;
}

static stk_status read_frame(const stk__jpeg_segment *frame, stk__image_info *info, stk_error *err)
{
    if (frame->size < 6 || frame->size < 6 + 3 * (size_t)frame->data[5])
        return stk_error_set(err, STK_CORRUPT, "JPEG frame header of %zu bytes: too short", frame->size);
    const uint32_t height = stk__jpeg_u16(frame->data + 1), width = stk__jpeg_u16(frame->data + 3);
    if (width == 0 || height == 0)
        return stk_error_set(err, STK_CORRUPT, "JPEG of %u x %u pixels: at least 1 x 1 wanted", width, height);
    const uint8_t components = frame->data[5];
    if (components != 1 && components != 3 && components != 4)
        return stk_error_set(err, STK_UNSUPPORTED, "JPEG with %u components: 1, 3 or 4 wanted", components);
    info->bits = frame->data[0];
    info->height = (int32_t)height;
    info->width = (int32_t)width;
    info->channels = components;
    return STK_OK;
}

stk_status stk__jpeg_probe(const uint8_t *data, size_t size, bool want_orientation, stk__image_info *out,
                           stk_error *err)
{
    static const uint8_t exif[6] = {'E', 'x', 'i', 'f', 0, 0};
    if (size < 2 || data[0] != 0xff || data[1] != STK__JPEG_SOI)
        return stk_error_set(err, STK_CORRUPT, "not a JPEG: %zu bytes that do not start with ff d8", size);
    stk__image_info info = {.kind = STK__IMAGE_JPEG, .orientation = 1};
    bool frame = false, oriented = !want_orientation;
    stk__jpeg_segment segment = {0};
    size_t at = 2;
    while (!frame || !oriented) {
        if (!stk__jpeg_segment_next(data, size, &at, &segment)) {
            if (frame)
                break;
            return stk_error_set(err, STK_CORRUPT, "JPEG cut off: %zu bytes end before its frame header", size);
        }
        if (stk__jpeg_is_frame(segment.marker) && !frame) {
            STK_TRY(read_frame(&segment, &info, err));
            frame = true;
        } else if (segment.marker == STK__JPEG_APP1 && !oriented && segment.size > sizeof exif &&
                   memcmp(segment.data, exif, sizeof exif) == 0) {
            info.orientation = stk__exif_orientation(segment.data + sizeof exif, segment.size - sizeof exif);
            oriented = true;
        } else if (segment.marker == STK__JPEG_SOS || segment.marker == STK__JPEG_EOI) {
            if (frame)
                break;
            return stk_error_set(err, STK_CORRUPT, "JPEG without a frame header: %s at byte %zu",
                                 segment.marker == STK__JPEG_SOS ? "the scan starts" : "it ends", at);
        }
    }
    *out = info;
    return STK_OK;
}

bool stk__jpeg_scale_covers(const stk__image_want *want, int scale)
{
    if (want->exact || want->cover_width <= 0 || want->cover_height <= 0)
        return scale >= 8;
    return (int64_t)want->width * scale >= (int64_t)want->cover_width * 8 &&
           (int64_t)want->height * scale >= (int64_t)want->cover_height * 8;
}

/* From `at` on, `size` long, in a line of `full` that becomes `scaled`: rounded outwards. */
static void scale_span(int32_t at, int32_t size, int32_t full, int32_t scaled, int scale, int32_t *out_at,
                       int32_t *out_size)
{
    const int32_t from = (int32_t)((int64_t)at * scale / 8);
    /*
     * scaled / full is scale / 8 or a little more, where the last block is cut: whoever maps either way finds its
     * pixels.
     */
    const int64_t to = ((int64_t)(at + size) * scaled + full - 1) / full;
    *out_at = from;
    *out_size = (int32_t)STK_MIN(to, (int64_t)scaled) - from;
}

void stk__jpeg_scale_rect(const stk__image_info *info, const stk__image_want *want, int scale, stk__image_got *got)
{
    got->scaled_width = (int32_t)(((int64_t)info->width * scale + 7) / 8);
    got->scaled_height = (int32_t)(((int64_t)info->height * scale + 7) / 8);
    scale_span(want->x, want->width, info->width, got->scaled_width, scale, &got->x, &got->pixels.width);
    scale_span(want->y, want->height, info->height, got->scaled_height, scale, &got->y, &got->pixels.height);
}

stk_status stk__jpeg_get(stk__image_decoder *decoder, struct stk__jpeg **out, stk_error *err)
{
    if (!decoder->jpeg) {
        struct stk__jpeg *jpeg = decoder->memory.alloc(decoder->memory.arg, sizeof *jpeg, err);
        if (!jpeg)
            return err ? err->status : STK_NOMEM;
        memset(jpeg, 0, sizeof *jpeg);
        decoder->jpeg = jpeg;
    }
    *out = decoder->jpeg;
    return STK_OK;
}

stk_status stk__jpeg_decode(stk__image_decoder *decoder, const uint8_t *data, size_t size, const stk__image_info *info,
                            const stk__image_want *want, stk__image_got *out, stk_error *err)
{
    if (info->bits != 8)
        return stk_error_set(err, STK_UNSUPPORTED, "JPEG of %d bits: 8 wanted", info->bits);
    if (!want->exact) {
        bool done = false;
        STK_TRY(stk__jpeg_decode_fast(decoder, data, size, info, want, out, &done, err));
        if (done)
            return STK_OK;
    }
    return stk__jpeg_decode_library(decoder, data, size, info, want, out, err);
}
