/*
 * Reads PNG: walks the chunks, inflates the rows and hands them to image_png_rows.c. Every kind of PNG goes this way,
 * interlaced and 16 bit ones too.
 */
#include "formats/image_impl.h"

#include <string.h>

#include <libdeflate.h>

#include "base/mem.h"
#include "formats/image_png.h"

#include "base/banned.h"

#define SIGNATURE_BYTES 8
#define CHUNK_EXTRA 12 /* length, type and CRC around the data of a chunk */
#define NAME(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))
#define IS_ANCILLARY 0x20000000u
/* Deflate makes at most 258 bytes of 2 bits. */
#define MAX_RATIO 1032

typedef struct png_chunk {
    size_t at; /* of its length field, in the image */
    uint32_t name;
    uint32_t size;
    const uint8_t *data;
} png_chunk;

static uint32_t read_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

typedef struct chunk_name {
    char text[5];
} chunk_name;

/* The name for a message; what is no letter becomes a question mark. */
static chunk_name name_of(uint32_t name)
{
    chunk_name out = {{0}};
    for (int i = 0; i < 4; i++) {
        const unsigned char c = (unsigned char)(name >> (24 - 8 * i));
        out.text[i] = ((c | 32) >= 'a' && (c | 32) <= 'z') ? (char)c : '?';
    }
    return out;
}

static stk_status chunk_next(const uint8_t *data, size_t size, size_t *at, png_chunk *out, stk_error *err)
{
    const size_t left = size - *at;
    if (left == 0)
        return stk_error_set(err, STK_CORRUPT, "PNG is cut off: it ends at byte %zu without an IEND chunk", size);
    if (left < CHUNK_EXTRA)
        return stk_error_set(err, STK_CORRUPT,
                             "PNG is cut off: %zu bytes are left at byte %zu of the image, a chunk needs %d", left, *at,
                             CHUNK_EXTRA);
    const uint8_t *p = data + *at;
    const uint32_t length = read_be32(p), name = read_be32(p + 4);
    if (length > left - CHUNK_EXTRA)
        return stk_error_set(
            err, STK_CORRUPT,
            "PNG is cut off: chunk %s at byte %zu of the image is %lu bytes long, but only %zu are left",
            name_of(name).text, *at, (unsigned long)length, left - CHUNK_EXTRA);
    *out = (png_chunk){*at, name, length, p + 8};
    *at += CHUNK_EXTRA + (size_t)length;
    return STK_OK;
}

static stk_status chunk_check_crc(const png_chunk *chunk, stk_error *err)
{
    const uint32_t wanted = read_be32(chunk->data + chunk->size);
    const uint32_t found = libdeflate_crc32(0, chunk->data - 4, (size_t)chunk->size + 4);
    if (STK_LIKELY(found == wanted))
        return STK_OK;
    return stk_error_set(err, STK_CORRUPT,
                         "PNG is damaged: CRC of chunk %s at byte %zu of the image is %08lx, wanted %08lx",
                         name_of(chunk->name).text, chunk->at, (unsigned long)found, (unsigned long)wanted);
}

static bool depth_fits(int color, int bits)
{
    switch (color) {
    case STK__PNG_GRAY:
        return bits == 1 || bits == 2 || bits == 4 || bits == 8 || bits == 16;
    case STK__PNG_PALETTE:
        return bits == 1 || bits == 2 || bits == 4 || bits == 8;
    case STK__PNG_RGB:
    case STK__PNG_GRAY_ALPHA:
    case STK__PNG_RGB_ALPHA:
        return bits == 8 || bits == 16;
    default:
        return false;
    }
}

static stk_status read_header(const png_chunk *chunk, stk__png_file *file, stk_error *err)
{
    if (chunk->name != NAME('I', 'H', 'D', 'R') || chunk->size != 13)
        return stk_error_set(err, STK_CORRUPT, "PNG is damaged: its first chunk is %s of %lu bytes, wanted IHDR of 13",
                             name_of(chunk->name).text, (unsigned long)chunk->size);
    STK_TRY(chunk_check_crc(chunk, err));
    const uint8_t *p = chunk->data;
    const uint32_t width = read_be32(p), height = read_be32(p + 4);
    if (width == 0 || height == 0 || width > INT32_MAX || height > INT32_MAX)
        return stk_error_set(err, STK_CORRUPT, "PNG is damaged: IHDR says %lu x %lu pixels", (unsigned long)width,
                             (unsigned long)height);
    if (!depth_fits(p[9], p[8]))
        return stk_error_set(err, STK_CORRUPT,
                             "PNG is damaged: IHDR says colour type %d with %d bits, which there is not", p[9], p[8]);
    if (p[10] != 0 || p[11] != 0 || p[12] > 1)
        return stk_error_set(
            err, STK_CORRUPT,
            "PNG is damaged: IHDR says compression %d, filter method %d, interlace %d, wanted 0, 0 and 0 or 1", p[10],
            p[11], p[12]);
    *file = (stk__png_file){.width = (int32_t)width, .height = (int32_t)height, .bits = p[8], .color = p[9]};
    file->interlaced = p[12] == 1;
    file->orientation = 1;
    return STK_OK;
}

static stk_status read_palette(const png_chunk *chunk, stk__png_file *file, stk_error *err)
{
    if (file->color == STK__PNG_GRAY || file->color == STK__PNG_GRAY_ALPHA || file->data_chunks || file->palette ||
        chunk->size == 0 || chunk->size > 768 || chunk->size % 3 != 0)
        return stk_error_set(
            err, STK_CORRUPT,
            "PNG is damaged: chunk PLTE of %lu bytes at byte %zu of the image has a wrong size or place",
            (unsigned long)chunk->size, chunk->at);
    file->palette = chunk->data;
    file->palette_count = chunk->size / 3;
    return STK_OK;
}

/* A tRNS chunk that does not fit is left aside, as libpng does. */
static void read_transparency(const png_chunk *chunk, stk__png_file *file)
{
    const bool fits = file->color == STK__PNG_PALETTE ? chunk->size >= 1 && chunk->size <= file->palette_count
                      : file->color == STK__PNG_GRAY  ? chunk->size == 2
                      : file->color == STK__PNG_RGB   ? chunk->size == 6
                                                      : false;
    if (fits && !file->data_chunks && !file->transparency) {
        file->transparency = chunk->data;
        file->transparency_size = chunk->size;
    }
}

static stk_status read_chunk(const png_chunk *chunk, bool *in_data, stk__png_file *file, stk_error *err)
{
    const bool was_in_data = *in_data;
    *in_data = false;
    switch (chunk->name) {
    case NAME('P', 'L', 'T', 'E'):
        return read_palette(chunk, file, err);
    case NAME('t', 'R', 'N', 'S'):
        read_transparency(chunk, file);
        return STK_OK;
    case NAME('e', 'X', 'I', 'f'):
        file->orientation = stk__exif_orientation(chunk->data, chunk->size);
        return STK_OK;
    case NAME('I', 'D', 'A', 'T'):
        if (file->data_chunks && !was_in_data)
            return stk_error_set(err, STK_CORRUPT,
                                 "PNG is damaged: IDAT at byte %zu of the image is apart from the others", chunk->at);
        if (!file->data_chunks)
            file->data_at = chunk->at;
        file->data_chunks++;
        file->data_size += chunk->size;
        *in_data = true;
        return STK_OK;
    default:
        if (chunk->name & IS_ANCILLARY)
            return STK_OK;
        return stk_error_set(err, STK_CORRUPT, "PNG is damaged: critical chunk %s at byte %zu of the image is unknown",
                             name_of(chunk->name).text, chunk->at);
    }
}

/* How far a file is walked. */
typedef enum png_depth {
    TO_DATA, /* to the first IDAT */
    TO_END,  /* to the end, without the checksums of IDAT */
    WHOLE    /* to the end, with them */
} png_depth;

static stk_status walk_chunks(const uint8_t *data, size_t size, png_depth depth, stk__png_file *file, stk_error *err)
{
    size_t at = SIGNATURE_BYTES;
    png_chunk chunk;
    bool in_data = false;
    STK_TRY(chunk_next(data, size, &at, &chunk, err));
    STK_TRY(read_header(&chunk, file, err));
    for (;;) {
        STK_TRY(chunk_next(data, size, &at, &chunk, err));
        const bool is_data = chunk.name == NAME('I', 'D', 'A', 'T');
        if (is_data && depth == TO_DATA)
            break;
        if (!(chunk.name & IS_ANCILLARY) && (!is_data || depth == WHOLE))
            STK_TRY(chunk_check_crc(&chunk, err));
        if (chunk.name == NAME('I', 'E', 'N', 'D')) {
            if (!file->data_chunks)
                return stk_error_set(err, STK_CORRUPT,
                                     "PNG is damaged: no IDAT chunk before IEND at byte %zu of the image", chunk.at);
            break;
        }
        STK_TRY(read_chunk(&chunk, &in_data, file, err));
    }
    if (file->color == STK__PNG_PALETTE && !file->palette)
        return stk_error_set(err, STK_CORRUPT,
                             "PNG is damaged: no PLTE chunk, but its pixels are indices of a palette");
    return STK_OK;
}

static bool is_ramp(const stk__png_file *file)
{
    for (uint32_t i = 0; i < file->palette_count; i++) {
        const uint8_t *rgb = file->palette + 3 * (size_t)i;
        if (rgb[0] != i || rgb[1] != i || rgb[2] != i)
            return false;
    }
    return true;
}

stk_status stk__png_probe(const uint8_t *data, size_t size, bool want_orientation, stk__image_info *out, stk_error *err)
{
    stk__png_file file;
    STK_TRY(walk_chunks(data, size, want_orientation ? TO_END : TO_DATA, &file, err));
    const bool palette = file.color == STK__PNG_PALETTE;
    const int samples = palette ? 3 : stk__png_samples(file.color);
    *out = (stk__image_info){
        .kind = STK__IMAGE_PNG,
        .width = file.width,
        .height = file.height,
        .channels = samples + (file.transparency != NULL),
        .bits = palette ? 8 : file.bits,
        .orientation = want_orientation ? file.orientation : 1,
        .colors = palette ? (int32_t)file.palette_count : 0,
        .ramp = palette && is_ramp(&file),
        .numbers = stk__png_samples(file.color) == 1,
    };
    return STK_OK;
}

/* ---- decoding ---- */

stk_status stk__png_get(stk__image_decoder *decoder, struct stk__png **out, stk_error *err)
{
    if (STK_UNLIKELY(!decoder->png)) {
        struct stk__png *png = decoder->memory.alloc(decoder->memory.arg, sizeof *png, err);
        if (!png)
            return err ? err->status : STK_NOMEM;
        memset(png, 0, sizeof *png);
        decoder->png = png;
    }
    *out = decoder->png;
    return STK_OK;
}

void stk__png_free(struct stk__png *png, const stk__image_memory *memory)
{
    if (!png)
        return;
    for (size_t i = 0; i < STK_COUNT(png->deflate); i++) {
        if (png->deflate[i])
            libdeflate_free_compressor(png->deflate[i]);
    }
    if (png->deflate_bytes && memory->give_back)
        memory->give_back(memory->arg, png->deflate_bytes);
    memory->free(memory->arg, png, sizeof *png);
}

/* Puts the data of all IDAT chunks into one piece; they were walked before. */
static void join_data(const uint8_t *data, const stk__png_file *file, uint8_t *out)
{
    size_t at = file->data_at;
    for (uint32_t i = 0; i < file->data_chunks; i++) {
        const uint32_t length = read_be32(data + at);
        memcpy(out, data + at + 8, length);
        out += length;
        at += CHUNK_EXTRA + (size_t)length;
    }
}

/* Bytes of rows that are needed for so many of them. */
static size_t bytes_needed(const stk__png_rows *rows, const stk__image_want *want)
{
    if (rows->file.interlaced)
        return rows->total;
    return (stk__png_row_bytes(&rows->file, rows->file.width) + 1) * (size_t)(want->y + want->height);
}

/* Walks the chunks and takes the memory; `out` is ready to be inflated then. */
static stk_status plan_rows(const stk__image_job *in, stk__png_rows *out, stk_error *err)
{
    stk__png_file *file = &out->file;
    struct stk__png *png;
    STK_TRY(walk_chunks(in->data, in->size, WHOLE, file, err));
    if (file->width != in->info->width || file->height != in->info->height)
        return stk_error_set(err, STK_INVALID, "PNG has %d x %d pixels, but was probed as %d x %d", (int)file->width,
                             (int)file->height, (int)in->info->width, (int)in->info->height);
    if (!stk__png_rows_total(file, &out->total) || out->total / MAX_RATIO > file->data_size)
        return stk_error_set(
            err, STK_CORRUPT, "PNG is damaged: its %zu bytes of IDAT cannot hold %d x %d pixels of %d bits",
            file->data_size, (int)file->width, (int)file->height, file->bits * stk__png_samples(file->color));
    out->needed = bytes_needed(out, in->want);
    const size_t joined_at = out->needed + 1 + STK__INFLATE_OUT_AIR;
    const size_t scratch_at = joined_at + (file->data_chunks > 1 ? file->data_size : 0);
    STK_TRY(stk__png_get(in->decoder, &png, err));
    uint8_t *work = stk__image_room_get(in->decoder, &in->decoder->work, scratch_at + stk__png_scratch(file), err);
    if (!work)
        return err ? err->status : STK_NOMEM;
    out->scratch = work + scratch_at;
    const uint8_t *deflated = in->data + file->data_at + 8;
    if (file->data_chunks > 1) {
        join_data(in->data, file, work + joined_at);
        deflated = work + joined_at;
    }
    /* One byte more than all rows: a stream should end there, and only then its checksum is looked at. */
    const size_t stop = out->needed < out->total ? out->needed : out->total + 1;
    out->job = (stk__inflate_job){
        .tables = &png->inflate, .in = deflated, .in_size = file->data_size, .out = work, .stop = stop};
    return STK_OK;
}

static stk_status check_inflated(const stk__png_rows *rows, stk_error *err)
{
    const size_t found = rows->job.out_size, total = rows->total;
    switch (rows->job.result) {
    case STK__INFLATE_DONE:
        if (found >= total)
            return STK_OK;
        return stk_error_set(err, STK_CORRUPT, "PNG is cut off: its IDAT chunks inflate to %zu bytes, wanted %zu",
                             found, total);
    case STK__INFLATE_STOPPED:
        /* More data than the picture needs is left aside, as other readers do. */
        return STK_OK;
    case STK__INFLATE_CUT_OFF:
        return stk_error_set(err, STK_CORRUPT, "PNG is cut off: its IDAT chunks end after %zu of %zu bytes of rows",
                             STK_MIN(found, total), total);
    case STK__INFLATE_DAMAGED:
        break;
    }
    return stk_error_set(err, STK_CORRUPT,
                         "PNG is damaged: its IDAT chunks do not inflate after %zu of %zu bytes of rows%s",
                         STK_MIN(found, total), total, found >= total ? ": the checksum is wrong" : "");
}

static void keep_ready(const stk__image_job *in, const stk__png_rows *rows)
{
    if (check_inflated(rows, NULL) != STK_OK)
        return;
    stk__png_ready *ready = &in->decoder->png->ready;
    ready->data = in->data;
    ready->size = in->size;
    memcpy(ready->tail, in->data + in->size - STK__PNG_TAIL, STK__PNG_TAIL);
    ready->rows = *rows;
    in->decoder->ready = true;
}

void stk__png_prepare_pair(const stk__image_job *a, const stk__image_job *b)
{
    stk__png_rows rows_a, rows_b;
    if (plan_rows(a, &rows_a, NULL) != STK_OK || plan_rows(b, &rows_b, NULL) != STK_OK)
        return;
    stk__inflate_zlib_pair(&rows_a.job, &rows_b.job);
    keep_ready(a, &rows_a);
    keep_ready(b, &rows_b);
}

/* Whether enough rows of these bytes were inflated ahead; they can be taken once. */
static bool take_ready(const stk__image_job *in)
{
    const bool was_ready = in->decoder->ready;
    in->decoder->ready = false;
    if (!was_ready)
        return false;
    const stk__png_ready *ready = &in->decoder->png->ready;
    return ready->data == in->data && ready->size == in->size &&
           memcmp(ready->tail, in->data + in->size - STK__PNG_TAIL, STK__PNG_TAIL) == 0 &&
           ready->rows.file.width == in->info->width && ready->rows.file.height == in->info->height &&
           bytes_needed(&ready->rows, in->want) <= ready->rows.needed;
}

static stk_status inflate_now(const stk__image_job *in, stk__png_rows *out, stk_error *err)
{
    STK_TRY(plan_rows(in, out, err));
    stk__inflate_zlib(&out->job);
    return check_inflated(out, err);
}

stk_status stk__png_decode(stk__image_decoder *decoder, const uint8_t *data, size_t size, const stk__image_info *info,
                           const stk__image_want *want, stk__image_got *out, stk_error *err)
{
    const stk__image_job in = {decoder, data, size, info, want};
    stk__png_rows now;
    const stk__png_rows *rows = &now;
    if (take_ready(&in))
        rows = &decoder->png->ready.rows;
    else
        STK_TRY(inflate_now(&in, &now, err));
    out->x = want->x;
    out->y = want->y;
    out->scaled_width = rows->file.width;
    out->scaled_height = rows->file.height;
    return stk__png_take(decoder, &rows->file, rows->job.out, rows->scratch, want, out, err);
}
