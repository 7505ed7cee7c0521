/*
 * The bitshuffle filter of HDF5 (32008): blocks of elements whose bits are regrouped, with LZ4, Zstandard or nothing
 * behind.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <lz4.h>
#include <zstd.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "formats/hdf5_codec.h"
#include "kernels/shuffle.h"

#include "base/banned.h"

enum { ELEMENT_SIZE = 2, BLOCK_SIZE = 3, COMPRESSOR = 4 }; /* client values; the first two are a version */
enum { WITH_NOTHING = 0, WITH_LZ4 = 2, WITH_ZSTD = 3 };
/*
 * When compressed: size of the data in 8 bytes, bytes of a block in 4, all big-endian; before each block its stored
 * size in 4.
 */
enum { HEADER = 12, BLOCK_HEADER = 4 };

static uint32_t value_of(const stk__h5_filter *filter, size_t i)
{
    return i < filter->value_count ? filter->values[i] : 0;
}

static uint32_t read_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

bool stk__h5_bitshuffle_ok(const stk__h5_filter *filter, size_t chunk_bytes, char *why, size_t why_size)
{
    const uint32_t size = value_of(filter, ELEMENT_SIZE), block = value_of(filter, BLOCK_SIZE);
    const uint32_t with = value_of(filter, COMPRESSOR);
    if (size == 0 || size > chunk_bytes || chunk_bytes % size != 0)
        snprintf(why, why_size, "its elements have %u bytes, of which a chunk has %zu", size, chunk_bytes);
    else if (block % 8 != 0)
        snprintf(why, why_size, "its blocks have %u elements, wanted a multiple of 8", block);
    else if (with != WITH_NOTHING && with != WITH_LZ4 && with != WITH_ZSTD)
        snprintf(why, why_size, "its compressor is %u, wanted 0, 2 (lz4) or 3 (zstd)", with);
    else
        return true;
    return false;
}

/* Elements of a block where none are told. */
static size_t default_block(size_t size)
{
    return STK_MAX(8192 / size / 8 * 8, (size_t)128);
}

/* ---- one block ---- */

/* Decompresses exactly `size` bytes. */
static stk_status decompress(uint32_t with, stk__h5_scratch *scratch, const uint8_t *in, size_t in_size, uint8_t *out,
                             size_t size, stk_error *err)
{
    if (with == WITH_LZ4) {
        memset(out, 0, size); /* damaged data may refer to what was there before */
        const int written = in_size <= INT_MAX && size <= INT_MAX
                                ? LZ4_decompress_safe((const char *)in, (char *)out, (int)in_size, (int)size)
                                : -1;
        if (written < 0 || (size_t)written != size)
            return stk_error_set(err, STK_CORRUPT, "LZ4 gives %d for a block of %zu bytes, wanted %zu", written,
                                 in_size, size);
        return STK_OK;
    }
    if (!scratch->zstd)
        scratch->zstd = ZSTD_createDCtx();
    if (!scratch->zstd)
        return stk_error_set(err, STK_NOMEM, "out of memory for a zstd context");
    const size_t written = ZSTD_decompressDCtx(scratch->zstd, out, size, in, in_size);
    if (ZSTD_isError(written))
        return stk_error_set(err, STK_CORRUPT, "a block of %zu bytes, wanted %zu from it: %s", in_size, size,
                             ZSTD_getErrorName(written));
    if (written != size)
        return stk_error_set(err, STK_CORRUPT, "zstd gives %zu for a block of %zu bytes, wanted %zu", written, in_size,
                             size);
    return STK_OK;
}

/* Where a stage reads from and writes to. */
typedef struct blocks {
    uint32_t with;
    const uint8_t *in;
    size_t in_size, at;
    uint8_t *out;
    size_t out_size, done;
    uint8_t *packed, *planes, *whole; /* room for a block each; `whole` for one that the output has no room for */
} blocks;

/* `count` elements, a multiple of 8. What is behind out_size is thrown away. */
static stk_status undo_block(blocks *b, stk__h5_scratch *scratch, size_t count, size_t size, stk_error *err)
{
    const size_t bytes = count * size, left = b->in_size - b->at;
    const size_t head = b->with ? BLOCK_HEADER : 0;
    const size_t stored = !b->with ? bytes : left >= BLOCK_HEADER ? read_u32(b->in + b->at) : left;
    if (left < head || stored > left - head)
        return stk_error_set(err, STK_CORRUPT, "it ends at byte %zu inside a block, with %zu of %zu bytes decoded",
                             b->in_size, b->done, b->out_size);
    const uint8_t *packed = b->in + b->at + head;
    if (b->with) {
        STK_TRY(decompress(b->with, scratch, packed, stored, b->packed, bytes, err));
        packed = b->packed;
    }
    const size_t room = b->out_size - b->done;
    uint8_t *to = bytes <= room ? b->out + b->done : b->whole;
    stk__bit_unshuffle(to, packed, count, size, b->planes);
    if (bytes > room)
        memcpy(b->out + b->done, to, room);
    b->done += STK_MIN(bytes, room);
    b->at += head + stored;
    return STK_OK;
}

/* ---- all ---- */

static stk_status undo_blocks(blocks *b, stk__h5_scratch *scratch, uint64_t elements, size_t block, size_t size,
                              stk_error *err)
{
    const size_t rest = (size_t)(elements % 8) * size;
    for (elements -= elements % 8; elements && b->done < b->out_size;) {
        const size_t count = (size_t)STK_MIN(elements, (uint64_t)block);
        STK_TRY(undo_block(b, scratch, count, size, err));
        elements -= count;
    }
    const size_t wanted = STK_MIN(rest, b->out_size - b->done);
    if (b->in_size - b->at < wanted)
        return stk_error_set(err, STK_CORRUPT, "it ends after %zu bytes, wanted %zu more", b->in_size,
                             wanted - (b->in_size - b->at));
    memcpy(b->out + b->done, b->in + b->at, wanted);
    b->done += wanted;
    return STK_OK;
}

/* What the header of compressed data says; `block` in elements. */
static stk_status read_header(const uint8_t *in, size_t in_size, size_t size, uint64_t *total, size_t *block,
                              stk_error *err)
{
    if (in_size < HEADER)
        return stk_error_set(err, STK_CORRUPT, "it has %zu bytes, wanted at least %d", in_size, HEADER);
    *total = (uint64_t)read_u32(in) << 32 | read_u32(in + 4);
    const uint32_t bytes = read_u32(in + 8);
    *block = bytes / size ? bytes / size : default_block(size);
    return STK_OK;
}

stk_status stk__h5_undo_bitshuffle(const stk__h5_filter *filter, stk__h5_scratch *scratch, const uint8_t *in,
                                   size_t in_size, uint8_t *out, size_t out_size, size_t *out_written, stk_error *err)
{
    const size_t size = value_of(filter, ELEMENT_SIZE);
    blocks b = {.with = value_of(filter, COMPRESSOR), .in = in, .in_size = in_size, .out = out, .out_size = out_size};
    uint64_t total = in_size;
    size_t block = value_of(filter, BLOCK_SIZE) ? value_of(filter, BLOCK_SIZE) : default_block(size);
    if (b.with) {
        STK_TRY(read_header(in, in_size, size, &total, &block, err));
        b.at = HEADER;
    }
    if (total % size || block % 8)
        return stk_error_set(
            err, STK_CORRUPT,
            "it has %llu bytes in blocks of %zu elements, wanted whole elements of %zu bytes and blocks of 8",
            (unsigned long long)total, block, size);
    /* No block is larger than the data. Data much longer than the output is not worth a buffer for it. */
    const uint64_t elements = total / size, largest = STK_MIN(elements - elements % 8, (uint64_t)block) * size;
    if (largest > out_size && largest - out_size > out_size + 65536)
        return stk_error_set(err, STK_CORRUPT, "its blocks have %llu bytes, wanted at most %zu",
                             (unsigned long long)largest, out_size);
    uint8_t *room = stk__h5_scratch_get(scratch, 3 * (size_t)largest);
    if (!room)
        return stk__nomem(3 * (size_t)largest, err);
    b.packed = room;
    b.planes = room + largest;
    b.whole = b.planes + largest;
    STK_TRY(undo_blocks(&b, scratch, elements, block, size, err));
    *out_written = b.done;
    return STK_OK;
}
