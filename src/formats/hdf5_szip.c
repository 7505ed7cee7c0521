/* The szip filter of HDF5: extended Rice coding, through libaec. */
#include <stdio.h>
#include <string.h>

#include <szlib.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "formats/hdf5_codec.h"
#include "kernels/shuffle.h"

#include "base/banned.h"

enum { OPTIONS, PIXELS_PER_BLOCK, BITS_PER_PIXEL, PIXELS_PER_LINE, VALUES };
/* Data that is longer than wanted is cut, unless it is so much longer that it cannot be meant. */
enum { LONGER_MAX = 2 };
/* libaec counts the zeros of a run in 31 bits. */
#define INPUT_MAX (((size_t)1 << 28) - 1)

/*
 * How pixels lie in the coded data. libaec's szlib would take off the padding and regroup the bytes itself, in memory
 * that it allocates for each call, and with rests of that memory in the result when a stream is too short: so it is
 * asked for neither.
 */
typedef struct layout {
    size_t word;        /* 32 and 64 bits: bytes of a pixel, coded plane by plane; else 0 */
    size_t line;        /* bytes of a line */
    size_t padded_line; /* the same with pixels that make it a multiple of the block */
    SZ_com_t coding;
} layout;

bool stk__h5_szip_ok(const stk__h5_filter *filter, size_t chunk_bytes, char *why, size_t why_size)
{
    const uint32_t *v = filter->values;
    if (filter->value_count != VALUES) {
        snprintf(why, why_size, "the number of client values is %zu, wanted %d", filter->value_count, VALUES);
        return false;
    }
    if (v[PIXELS_PER_BLOCK] < 2 || v[PIXELS_PER_BLOCK] > SZ_MAX_PIXELS_PER_BLOCK || v[PIXELS_PER_BLOCK] % 2) {
        snprintf(why, why_size, "%u pixels per block, wanted an even number up to %d", v[PIXELS_PER_BLOCK],
                 SZ_MAX_PIXELS_PER_BLOCK);
        return false;
    }
    if (v[BITS_PER_PIXEL] == 0 || (v[BITS_PER_PIXEL] > 32 && v[BITS_PER_PIXEL] != 64)) {
        snprintf(why, why_size, "%u bits per pixel, wanted 1 to 32 or 64", v[BITS_PER_PIXEL]);
        return false;
    }
    /* libhdf5 never makes shorter lines; padded, they would take many times the memory of a chunk. */
    if (v[PIXELS_PER_LINE] < v[PIXELS_PER_BLOCK] || v[PIXELS_PER_LINE] > SZ_MAX_PIXELS_PER_SCANLINE) {
        snprintf(why, why_size, "%u pixels per line, wanted %u to %d", v[PIXELS_PER_LINE], v[PIXELS_PER_BLOCK],
                 SZ_MAX_PIXELS_PER_SCANLINE);
        return false;
    }
    if (v[OPTIONS] > INT32_MAX || chunk_bytes > UINT32_MAX) {
        snprintf(why, why_size, "options 0x%x, %zu bytes per chunk: too large", v[OPTIONS], chunk_bytes);
        return false;
    }
    return true;
}

static layout layout_of(const uint32_t *v)
{
    const uint32_t bits = v[BITS_PER_PIXEL], block = v[PIXELS_PER_BLOCK];
    const size_t word = bits == 32 || bits == 64 ? bits / 8 : 0;
    const size_t pixel = word || bits <= 8 ? 1 : bits <= 16 ? 2 : 4;
    const uint32_t padded = (v[PIXELS_PER_LINE] + block - 1) / block * block;
    return (layout){
        .word = word,
        .line = v[PIXELS_PER_LINE] * pixel,
        .padded_line = padded * pixel,
        .coding = {.options_mask = (int)v[OPTIONS],
                   .bits_per_pixel = word ? 8 : (int)bits,
                   .pixels_per_block = (int)block,
                   .pixels_per_scanline = (int)padded},
    };
}

static void remove_padding(const layout *l, uint8_t *data, size_t size)
{
    for (size_t to = l->line, from = l->padded_line; to < size; to += l->line, from += l->padded_line)
        memmove(data + to, data + from, STK_MIN(l->line, size - to));
}

/* Decodes at least `wanted` bytes of the `capacity` that `out` has room for. */
static stk_status decode(layout *l, const uint8_t *in, size_t in_size, uint8_t *out, size_t capacity, size_t wanted,
                         stk_error *err)
{
    size_t written = capacity;
    const int status = SZ_BufftoBuffDecompress(out, &written, in, STK_MIN(in_size, INPUT_MAX), &l->coding);
    if (status == SZ_MEM_ERROR)
        return stk_error_set(err, STK_CORRUPT, "%zu bytes cannot be decoded to whole pixels", wanted);
    if (status != SZ_OK)
        return stk_error_set(err, STK_CORRUPT, "libaec refuses the data (status %d)", status);
    if (written < wanted)
        return stk_error_set(err, STK_CORRUPT, "the data ends after %zu bytes, wanted %zu", written, wanted);
    return STK_OK;
}

stk_status stk__h5_undo_szip(const stk__h5_filter *filter, stk__h5_scratch *scratch, const uint8_t *in, size_t in_size,
                             uint8_t *out, size_t out_size, size_t *out_written, stk_error *err)
{
    layout l = layout_of(filter->values);
    if (in_size < 4)
        return stk_error_set(err, STK_CORRUPT, "it has %zu bytes, wanted at least 4", in_size);
    const size_t size = in[0] | (size_t)in[1] << 8 | (size_t)in[2] << 16 | (size_t)in[3] << 24;
    if (size > LONGER_MAX * out_size)
        return stk_error_set(err, STK_CORRUPT, "its size is %zu bytes, wanted %zu", size, out_size);
    const size_t lines = size / l.line, rest = size % l.line;
    const size_t wanted = lines * l.padded_line + rest, capacity = wanted + (rest ? l.padded_line - rest : 0);
    *out_written = STK_MIN(size, out_size);
    const bool padded = l.line != l.padded_line;
    if (size == 0)
        return STK_OK;
    if (!padded && !l.word && size <= out_size)
        return decode(&l, in + 4, in_size - 4, out, size, size, err);

    uint8_t *data = stk__h5_scratch_get(scratch, capacity);
    if (!data)
        return stk__nomem(capacity, err);
    STK_TRY(decode(&l, in + 4, in_size - 4, data, padded ? capacity : size, wanted, err));
    if (padded)
        remove_padding(&l, data, size);
    if (!l.word) {
        memcpy(out, data, *out_written);
        return STK_OK;
    }
    const size_t whole = *out_written / l.word;
    stk__unshuffle(out, data, size / l.word, 0, whole, l.word);
    memset(out + whole * l.word, 0, *out_written - whole * l.word);
    return STK_OK;
}
