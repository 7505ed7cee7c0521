/* Writes PNG: each row gets the filter with the smallest sum of differences, libdeflate deflates. */
#include "formats/image_impl.h"

#include <stdlib.h>
#include <string.h>

#include <libdeflate.h>

#include "base/compiler.h"
#include "formats/image_png.h"

#include "base/banned.h"

#define HEADER_BYTES (8 + 25) /* signature and IHDR */
#define CHUNK_EXTRA 12
#define FILTERS 5

static void put_be32(uint8_t *p, uint32_t x)
{
    p[0] = (uint8_t)(x >> 24);
    p[1] = (uint8_t)(x >> 16);
    p[2] = (uint8_t)(x >> 8);
    p[3] = (uint8_t)x;
}

/* Length, name and CRC around data that already stands at p + 8; returns the bytes of the whole chunk. */
static size_t close_chunk(uint8_t *p, const char *name, size_t size)
{
    put_be32(p, (uint32_t)size);
    memcpy(p + 4, name, 4);
    put_be32(p + 8 + size, libdeflate_crc32(0, p + 4, size + 4));
    return size + CHUNK_EXTRA;
}

/* Bytes of all rows with their filter bytes; 0 on overflow. */
static size_t rows_bytes(int32_t width, int32_t height, int32_t pixel)
{
    size_t total;
    if (width < 1 || height < 1 || pixel < 1 || pixel > 8 ||
        __builtin_mul_overflow((size_t)width * (size_t)pixel + 1, (size_t)height, &total))
        return 0;
    return total;
}

size_t stk__png_bound(int32_t width, int32_t height, int32_t pixel_bytes)
{
    const size_t total = rows_bytes(width, height, pixel_bytes);
    if (total == 0 || total > INT32_MAX)
        return 0;
    /* A chunk has at most 2^31 - 1 bytes, and one IDAT has to do. */
    const size_t deflated = libdeflate_zlib_compress_bound(NULL, total);
    return deflated > INT32_MAX ? 0 : HEADER_BYTES + deflated + 2 * CHUNK_EXTRA;
}

static uint8_t paeth(uint8_t a, uint8_t b, uint8_t c)
{
    const int to_a = abs(b - c), to_b = abs(a - c), to_c = abs(a + b - 2 * c);
    return to_a <= to_b && to_a <= to_c ? a : to_b <= to_c ? b : c;
}

/* Filters one row; returns the sum of the differences, taken as signed. */
static uint64_t filter_row(int kind, uint8_t *out, const uint8_t *row, const uint8_t *above, size_t size, size_t pixel)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < size; i++) {
        const uint8_t left = i >= pixel ? row[i - pixel] : 0, up = above ? above[i] : 0;
        const uint8_t corner = above && i >= pixel ? above[i - pixel] : 0;
        const uint8_t guess = kind == 0   ? 0
                              : kind == 1 ? left
                              : kind == 2 ? up
                              : kind == 3 ? (uint8_t)((left + up) / 2)
                                          : paeth(left, up, corner);
        out[i] = (uint8_t)(row[i] - guess);
        sum += (uint64_t)(out[i] < 128 ? out[i] : 256 - out[i]);
    }
    return sum;
}

/* Writes the filter byte and the filtered row to `out`; `scratch` has room for a row. */
static void choose_filter(uint8_t *out, uint8_t *scratch, const uint8_t *row, const uint8_t *above, size_t size,
                          size_t pixel)
{
    out[0] = 0;
    uint64_t best = filter_row(0, out + 1, row, above, size, pixel);
    for (int kind = 1; kind < FILTERS && best > 0; kind++) {
        const uint64_t sum = filter_row(kind, scratch, row, above, size, pixel);
        if (sum < best) {
            best = sum;
            out[0] = (uint8_t)kind;
            memcpy(out + 1, scratch, size);
        }
    }
}

/* A row with the high byte of each sample first; 16 bits are turned into `room`. */
static const uint8_t *row_bytes(const stk__pixels *in, int32_t y, uint8_t *room)
{
    const uint8_t *row = stk__pixel_row(in, y);
    if (in->element_bytes == 1)
        return row;
    const uint16_t *samples = (const uint16_t *)(const void *)row;
    for (size_t i = 0; i < (size_t)in->width * (size_t)in->channels; i++) {
        room[2 * i] = (uint8_t)(samples[i] >> 8);
        room[2 * i + 1] = (uint8_t)samples[i];
    }
    return room;
}

/* `scratch` has room for three rows. */
static void filter_rows(const stk__pixels *in, bool filtered, uint8_t *out, uint8_t *scratch)
{
    const size_t pixel = stk__pixel_bytes(in), size = (size_t)in->width * pixel;
    const uint8_t *above = NULL, *row;
    for (int32_t y = 0; y < in->height; y++, out += size + 1, above = row) {
        row = row_bytes(in, y, scratch + size * (size_t)(1 + y % 2));
        if (filtered) {
            choose_filter(out, scratch, row, above, size, pixel);
        } else {
            out[0] = 0;
            memcpy(out + 1, row, size);
        }
    }
}

static size_t put_header(uint8_t *out, const stk__pixels *in)
{
    static const uint8_t colors[] = {0, 0, 4, 2, 6}; /* by channels */
    memcpy(out, "\x89PNG\r\n\x1a\n", 8);
    uint8_t *p = out + 16;
    put_be32(p, (uint32_t)in->width);
    put_be32(p + 4, (uint32_t)in->height);
    memcpy(p + 8, (uint8_t[]){(uint8_t)(8 * in->element_bytes), colors[in->channels], 0, 0, 0}, 5);
    return 8 + close_chunk(out + 8, "IHDR", 13);
}

/* What libdeflate takes for its tables, about, where it looks for the best way; below that too little to count for a thread. */
static size_t compressor_bytes(int level)
{
    return level >= 10 ? (size_t)9 << 20 : 0;
}

static stk_status get_compressor(stk__image_decoder *decoder, struct stk__png *png, int level, stk_error *err)
{
    if (png->deflate[level])
        return STK_OK;
    STK_TRY(stk__image_charge(decoder, compressor_bytes(level), err));
    png->deflate[level] = libdeflate_alloc_compressor(level);
    if (!png->deflate[level]) {
        stk__image_give_back(decoder, compressor_bytes(level));
        return stk_error_set(err, STK_NOMEM, "no memory for libdeflate at level %d", level);
    }
    png->deflate_bytes += compressor_bytes(level);
    return STK_OK;
}

stk_status stk__png_encode(stk__image_decoder *decoder, const stk__pixels *in, int level, uint8_t *out,
                           size_t *out_size, stk_error *err)
{
    const bool sound = in->channels >= 1 && in->channels <= 4 && (in->element_bytes == 1 || in->element_bytes == 2);
    const size_t bound = sound ? stk__png_bound(in->width, in->height, in->channels * in->element_bytes) : 0;
    if (bound == 0 || level < 0 || level > STK__PNG_LEVEL_MAX)
        return stk_error_set(
            err, STK_INVALID,
            "PNG cannot hold %d x %d pixels of %d channels with %d bytes each at level %d, wanted 1 to 4 channels of "
            "1 or 2 bytes, less than 2 GiB, level 0 to 12",
            (int)in->width, (int)in->height, (int)in->channels, (int)in->element_bytes, level);
    struct stk__png *png;
    STK_TRY(stk__png_get(decoder, &png, err));
    STK_TRY(get_compressor(decoder, png, level, err));
    const size_t total = rows_bytes(in->width, in->height, in->channels * in->element_bytes);
    const size_t scratch = 3 * (size_t)in->width * stk__pixel_bytes(in);
    uint8_t *rows = stk__image_room_get(decoder, &decoder->work, total + scratch, err);
    if (!rows)
        return err ? err->status : STK_NOMEM;
    filter_rows(in, level > 0, rows, rows + total);
    size_t at = put_header(out, in);
    const size_t room = bound - HEADER_BYTES - 2 * CHUNK_EXTRA;
    const size_t deflated = libdeflate_zlib_compress(png->deflate[level], rows, total, out + at + 8, room);
    if (deflated == 0)
        return stk_error_set(err, STK_INVALID, "libdeflate did not fit %zu bytes of PNG rows into %zu", total, room);
    at += close_chunk(out + at, "IDAT", deflated);
    at += close_chunk(out + at, "IEND", 0);
    *out_size = at;
    return STK_OK;
}
