/* Reads BMP: palettes of 1 to 8 bits with or without run lengths, 16, 24 and 32 bits with or without masks. */
#include "formats/image_impl.h"

#include <string.h>

#include "base/compiler.h"
#include "kernels/color.h"

#include "base/banned.h"

enum { BMP_RGB = 0, BMP_RLE8 = 1, BMP_RLE4 = 2, BMP_BITFIELDS = 3, BMP_ALPHA_BITFIELDS = 6 };

#define FILE_HEADER 14
#define CORE_HEADER 12
#define INFO_HEADER 40

/* Where one channel lies in a pixel of 16 or 32 bits. */
typedef struct bmp_mask {
    uint32_t mask;
    uint32_t shift;
    uint32_t top; /* largest value; 0: the channel is not there */
} bmp_mask;

typedef struct bmp_file {
    int32_t width, height;
    bool top_down;
    int bits;
    uint32_t compression;
    uint32_t pixels_at;
    size_t stride; /* of rows that are not compressed */
    bmp_mask masks[4];
    const uint8_t *palette;
    uint32_t palette_count;
    uint32_t palette_step; /* bytes of one colour: 3 or 4 */
} bmp_file;

static uint32_t read_le16(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t read_le32(const uint8_t *p)
{
    return read_le16(p) | read_le16(p + 2) << 16;
}

static stk_status read_size(const uint8_t *data, uint32_t header, bmp_file *file, stk_error *err)
{
    int64_t width, height;
    if (header == CORE_HEADER) {
        width = read_le16(data + 18);
        height = read_le16(data + 20);
        file->bits = (int)read_le16(data + 24);
        file->palette_step = 3;
    } else {
        width = (int32_t)read_le32(data + 18);
        height = (int32_t)read_le32(data + 22);
        file->bits = (int)read_le16(data + 28);
        file->compression = read_le32(data + 30);
        file->palette_count = read_le32(data + 46);
        file->palette_step = 4;
    }
    file->top_down = height < 0;
    height = height < 0 ? -height : height;
    if (width < 1 || height < 1 || height > INT32_MAX)
        return stk_error_set(err, STK_CORRUPT, "BMP is damaged: its header says %lld x %lld pixels", (long long)width,
                             (long long)height);
    file->width = (int32_t)width;
    file->height = (int32_t)height;
    return STK_OK;
}

static bool kind_known(const bmp_file *file)
{
    switch (file->compression) {
    case BMP_RGB:
        return file->bits == 1 || file->bits == 2 || file->bits == 4 || file->bits == 8 || file->bits == 16 ||
               file->bits == 24 || file->bits == 32;
    case BMP_RLE8:
        return file->bits == 8 && !file->top_down;
    case BMP_RLE4:
        return file->bits == 4 && !file->top_down;
    case BMP_BITFIELDS:
    case BMP_ALPHA_BITFIELDS:
        return file->bits == 16 || file->bits == 32;
    default:
        return false;
    }
}

/* False when the bits of the mask are not next to each other. */
static bool mask_set(bmp_mask *out, uint32_t mask)
{
    *out = (bmp_mask){0};
    if (mask == 0)
        return true;
    const uint32_t shift = (uint32_t)__builtin_ctz(mask), top = mask >> shift;
    *out = (bmp_mask){mask, shift, top};
    return (top & (top + 1)) == 0;
}

static stk_status read_masks(const uint8_t *data, size_t size, uint32_t header, bmp_file *file, stk_error *err)
{
    uint32_t masks[4] = {0x7c00, 0x03e0, 0x001f, 0};
    if (file->bits == 32) {
        masks[0] = 0xff0000;
        masks[1] = 0xff00;
        masks[2] = 0xff;
    }
    if (file->compression != BMP_RGB) {
        /* They stand in a long header, or follow the short one; both are the same place. */
        const size_t count = file->compression == BMP_ALPHA_BITFIELDS || header >= INFO_HEADER + 16 ? 4 : 3;
        const size_t at = FILE_HEADER + INFO_HEADER;
        if (size < at + 4 * count)
            return stk_error_set(err, STK_CORRUPT, "BMP is cut off: %zu bytes, its masks end at byte %zu of the image",
                                 size, at + 4 * count);
        for (size_t i = 0; i < count; i++)
            masks[i] = read_le32(data + at + 4 * i);
    }
    for (int i = 0; i < 4; i++) {
        if (!mask_set(&file->masks[i], masks[i]) || (file->bits == 16 && masks[i] > 0xffff))
            return stk_error_set(err, STK_CORRUPT, "BMP is damaged: mask %d is %08lx, which is no run of bits in %d", i,
                                 (unsigned long)masks[i], file->bits);
    }
    return STK_OK;
}

static stk_status read_palette(const uint8_t *data, size_t size, uint32_t header, bmp_file *file, stk_error *err)
{
    const uint32_t top = 1u << file->bits;
    if (file->palette_count == 0 || file->palette_count > top)
        file->palette_count = top;
    const size_t at = FILE_HEADER + (size_t)header;
    /* Some writers leave out the colours that they do not use, and start the pixels there. */
    const size_t end = STK_MIN(size, (size_t)file->pixels_at);
    const size_t fits = end > at ? (end - at) / file->palette_step : 0;
    if (fits == 0)
        return stk_error_set(err, STK_CORRUPT,
                             "BMP is damaged: no room for a palette between byte %zu and %zu of the image", at, end);
    file->palette_count = (uint32_t)STK_MIN((size_t)file->palette_count, fits);
    file->palette = data + at;
    return STK_OK;
}

static stk_status read_header(const uint8_t *data, size_t size, bmp_file *file, stk_error *err)
{
    if (size < FILE_HEADER + CORE_HEADER)
        return stk_error_set(err, STK_CORRUPT, "BMP is cut off: %zu bytes, a header has at least %d", size,
                             FILE_HEADER + CORE_HEADER);
    const uint32_t header = read_le32(data + 14);
    if (header != CORE_HEADER && (header < INFO_HEADER || header > 1024))
        return stk_error_set(err, STK_CORRUPT, "BMP is damaged: a header of %lu bytes, wanted 12 or 40 and more",
                             (unsigned long)header);
    if (size - FILE_HEADER < header)
        return stk_error_set(err, STK_CORRUPT, "BMP is cut off: %zu bytes, its header ends at byte %zu of the image",
                             size, FILE_HEADER + (size_t)header);
    *file = (bmp_file){.pixels_at = read_le32(data + 10)};
    STK_TRY(read_size(data, header, file, err));
    if (!kind_known(file))
        return stk_error_set(
            err, STK_CORRUPT,
            "BMP of a kind that is not read: %d bits with compression %lu (known: plain, RLE4, RLE8, masks)",
            file->bits, (unsigned long)file->compression);
    file->stride = ((size_t)file->width * (size_t)file->bits + 31) / 32 * 4;
    if (file->bits <= 8)
        return read_palette(data, size, header, file, err);
    return file->bits == 24 ? STK_OK : read_masks(data, size, header, file, err);
}

stk_status stk__bmp_probe(const uint8_t *data, size_t size, stk__image_info *out, stk_error *err)
{
    bmp_file file;
    STK_TRY(read_header(data, size, &file, err));
    *out = (stk__image_info){
        .kind = STK__IMAGE_BMP,
        .width = file.width,
        .height = file.height,
        .channels = file.masks[3].top ? 4 : 3,
        .bits = 8,
        .orientation = 1,
    };
    return STK_OK;
}

static void put_pixel(uint8_t *out, int32_t channels, uint8_t r, uint8_t g, uint8_t b, uint8_t alpha)
{
    if (channels == 1) {
        out[0] = stk__luma(r, g, b);
        return;
    }
    out[0] = r;
    out[1] = g;
    out[2] = b;
    if (channels == 4)
        out[3] = alpha;
}

static stk_status put_color(uint8_t *out, int32_t channels, const bmp_file *file, uint32_t index, stk_error *err)
{
    if (STK_UNLIKELY(index >= file->palette_count))
        return stk_error_set(err, STK_CORRUPT, "BMP is damaged: pixel with colour %lu, but its palette has %lu",
                             (unsigned long)index, (unsigned long)file->palette_count);
    const uint8_t *bgr = file->palette + (size_t)index * file->palette_step;
    put_pixel(out, channels, bgr[2], bgr[1], bgr[0], 255);
    return STK_OK;
}

/* Scales to 0..255, rounding to nearest. */
static uint8_t take_masked(const bmp_mask *m, uint32_t pixel, uint8_t otherwise)
{
    if (m->top == 0)
        return otherwise;
    const uint64_t value = (pixel & m->mask) >> m->shift;
    return m->top == 255 ? (uint8_t)value : (uint8_t)((value * 255 + m->top / 2) / m->top);
}

static stk_status take_row(const bmp_file *file, const uint8_t *row, const stk__image_want *want, uint8_t *out,
                           stk_error *err)
{
    const unsigned bits = (unsigned)file->bits;
    for (int32_t i = 0; i < want->width; i++, out += want->channels) {
        const size_t x = (size_t)want->x + (size_t)i;
        if (bits <= 8) {
            const size_t in_byte = 8 / bits;
            const unsigned shift = 8 - bits - bits * (unsigned)(x % in_byte);
            STK_TRY(put_color(out, want->channels, file, row[x / in_byte] >> shift & ((1u << bits) - 1), err));
        } else if (bits == 24) {
            put_pixel(out, want->channels, row[3 * x + 2], row[3 * x + 1], row[3 * x], 255);
        } else {
            const uint32_t pixel = bits == 16 ? read_le16(row + 2 * x) : read_le32(row + 4 * x);
            put_pixel(out, want->channels, take_masked(&file->masks[0], pixel, 0),
                      take_masked(&file->masks[1], pixel, 0), take_masked(&file->masks[2], pixel, 0),
                      take_masked(&file->masks[3], pixel, 255));
        }
    }
    return STK_OK;
}

static stk_status take_plain(const bmp_file *file, const uint8_t *data, size_t size, const stk__image_want *want,
                             stk__image_got *out, stk_error *err)
{
    /* The last row may lack its padding. */
    const size_t row_bytes = ((size_t)file->width * (size_t)file->bits + 7) / 8;
    size_t end;
    if (__builtin_mul_overflow(file->stride, (size_t)file->height - 1, &end) ||
        __builtin_add_overflow(end, row_bytes + file->pixels_at, &end) || end > size)
        return stk_error_set(
            err, STK_CORRUPT,
            "BMP is cut off: %zu bytes, %d x %d pixels of %d bits from byte %lu of the image need more", size,
            (int)file->width, (int)file->height, file->bits, (unsigned long)file->pixels_at);
    for (int32_t i = 0; i < want->height; i++) {
        const int32_t y = want->y + i;
        const size_t line = (size_t)(file->top_down ? y : file->height - 1 - y);
        STK_TRY(
            take_row(file, data + file->pixels_at + line * file->stride, want, stk__pixel_row(&out->pixels, i), err));
    }
    return STK_OK;
}

/* Reads run lengths; rows come from the bottom up. */
typedef struct rle_state {
    const bmp_file *file;
    const uint8_t *p, *end;
    int64_t x, line;
    uint8_t *indices; /* width x height, as counted from the bottom */
} rle_state;

static stk_status rle_cut_off(const rle_state *s, stk_error *err)
{
    return stk_error_set(err, STK_CORRUPT, "BMP is cut off: its run lengths end in line %lld of %d from the bottom",
                         (long long)s->line, (int)s->file->height);
}

/* One pixel; what lies outside of the picture is dropped, as everybody does. */
static void rle_put(rle_state *s, unsigned index)
{
    if (s->x < s->file->width && s->line < s->file->height)
        s->indices[(size_t)s->line * (size_t)s->file->width + (size_t)s->x] = (uint8_t)index;
    s->x++;
}

static unsigned rle_pixel(const rle_state *s, const uint8_t *bytes, unsigned i)
{
    if (s->file->bits == 8)
        return bytes[i];
    return i % 2 ? bytes[i / 2] & 15u : bytes[i / 2] >> 4;
}

/* `count` pixels that stand as they are, padded to 16 bits. */
static stk_status rle_literals(rle_state *s, unsigned count, stk_error *err)
{
    const size_t bytes = s->file->bits == 8 ? count : (count + 1) / 2;
    if ((size_t)(s->end - s->p) < bytes)
        return rle_cut_off(s, err);
    for (unsigned i = 0; i < count; i++)
        rle_put(s, rle_pixel(s, s->p, i));
    s->p += STK_MIN(bytes + bytes % 2, (size_t)(s->end - s->p));
    return STK_OK;
}

static stk_status rle_read(rle_state *s, stk_error *err)
{
    while (s->line < s->file->height) {
        if (s->end - s->p < 2)
            return rle_cut_off(s, err);
        const unsigned count = s->p[0], value = s->p[1];
        s->p += 2;
        if (count) {
            /* A run repeats one byte: one pixel, or two that take turns. */
            const uint8_t byte[2] = {(uint8_t)value, (uint8_t)value};
            for (unsigned i = 0; i < count; i++)
                rle_put(s, rle_pixel(s, byte, i % 2));
        } else if (value == 0) {
            s->x = 0;
            s->line++;
        } else if (value == 1) {
            return STK_OK;
        } else if (value == 2) {
            if (s->end - s->p < 2)
                return rle_cut_off(s, err);
            s->x += s->p[0];
            s->line += s->p[1];
            s->p += 2;
        } else {
            STK_TRY(rle_literals(s, value, err));
        }
    }
    return STK_OK;
}

static stk_status take_rle(stk__image_decoder *decoder, const bmp_file *file, const uint8_t *data, size_t size,
                           const stk__image_want *want, stk__image_got *out, stk_error *err)
{
    if (file->pixels_at > size)
        return stk_error_set(err, STK_CORRUPT, "BMP is cut off: %zu bytes, its pixels start at byte %lu of the image",
                             size, (unsigned long)file->pixels_at);
    const size_t total = (size_t)file->width * (size_t)file->height;
    uint8_t *indices = stk__image_room_get(decoder, &decoder->work, total, err);
    if (!indices)
        return err ? err->status : STK_NOMEM;
    memset(indices, 0, total); /* what no run covers has the first colour */
    rle_state state = {.file = file, .p = data + file->pixels_at, .end = data + size, .indices = indices};
    STK_TRY(rle_read(&state, err));
    for (int32_t i = 0; i < want->height; i++) {
        const uint8_t *row = indices + (size_t)(file->height - 1 - want->y - i) * (size_t)file->width + want->x;
        uint8_t *to = stk__pixel_row(&out->pixels, i);
        for (int32_t x = 0; x < want->width; x++, to += want->channels)
            STK_TRY(put_color(to, want->channels, file, row[x], err));
    }
    return STK_OK;
}

stk_status stk__bmp_decode(stk__image_decoder *decoder, const uint8_t *data, size_t size, const stk__image_info *info,
                           const stk__image_want *want, stk__image_got *out, stk_error *err)
{
    bmp_file file;
    STK_TRY(read_header(data, size, &file, err));
    if (file.width != info->width || file.height != info->height)
        return stk_error_set(err, STK_INVALID, "BMP has %d x %d pixels, but was probed as %d x %d", (int)file.width,
                             (int)file.height, (int)info->width, (int)info->height);
    STK_TRY(stk__image_pixels_get(decoder, want->width, want->height, want->channels, out, err));
    out->x = want->x;
    out->y = want->y;
    out->scaled_width = file.width;
    out->scaled_height = file.height;
    if (file.compression == BMP_RLE8 || file.compression == BMP_RLE4)
        return take_rle(decoder, &file, data, size, want, out, err);
    return take_plain(&file, data, size, want, out, err);
}
