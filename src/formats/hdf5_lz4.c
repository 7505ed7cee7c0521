/* The lz4 filter of HDF5 (32004): blocks of LZ4 behind a small header, big-endian. */
#include <string.h>

#include <lz4.h>

#include "base/compiler.h"
#include "formats/hdf5_codec.h"

#include "base/banned.h"

/* Size of the data in 8 bytes, size of a block in 4; before each block its stored size in 4. */
enum { HEADER = 12, BLOCK_HEADER = 4 };
/* What the plug-in takes unless told otherwise. */
#define BLOCK_SIZE ((size_t)1 << 30)

static uint32_t read_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void write_u32(uint8_t *p, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(x >> (24 - 8 * i));
}

/*
 * One block of `size` bytes, of which the first `wanted` are kept. A damaged block may refer to 0 bytes back,
 * which LZ4 takes as what was in `out` before: that must be the same in every run.
 */
static stk_status decode_block(const uint8_t *in, size_t in_size, uint8_t *out, size_t size, size_t wanted,
                               stk_error *err)
{
    if (in_size == size) {
        memcpy(out, in, wanted);
        return STK_OK;
    }
    memset(out, 0, wanted);
    const int written = wanted == size ? LZ4_decompress_safe((const char *)in, (char *)out, (int)in_size, (int)size)
                                       : LZ4_decompress_safe_partial((const char *)in, (char *)out, (int)in_size,
                                                                     (int)wanted, (int)wanted);
    if (written < 0)
        return stk_error_set(err, STK_CORRUPT, "a block of %zu bytes is no LZ4, wanted %zu bytes from it", in_size,
                             size);
    if ((size_t)written != wanted)
        return stk_error_set(err, STK_CORRUPT, "a block of %zu bytes gives %d bytes, wanted %zu", in_size, written,
                             size);
    return STK_OK;
}

stk_status stk__h5_undo_lz4(const stk__h5_filter *filter, stk__h5_scratch *scratch, const uint8_t *in, size_t in_size,
                            uint8_t *out, size_t out_size, size_t *out_written, stk_error *err)
{
    if (in_size < HEADER)
        return stk_error_set(err, STK_CORRUPT, "it has %zu bytes, wanted at least %d", in_size, HEADER);
    const uint64_t size = (uint64_t)read_u32(in) << 32 | read_u32(in + 4);
    const uint32_t block_size = read_u32(in + 8);
    if ((block_size == 0 && size > 0) || STK_MIN(block_size, size) > LZ4_MAX_INPUT_SIZE)
        return stk_error_set(err, STK_CORRUPT, "its blocks have %u bytes, wanted 1 to %d", block_size,
                             LZ4_MAX_INPUT_SIZE);
    const size_t wanted = STK_MIN(size, out_size);
    size_t at = HEADER;
    for (size_t done = 0; done < wanted;) {
        const size_t block = STK_MIN(size - done, block_size);
        const size_t stored = in_size - at >= BLOCK_HEADER ? read_u32(in + at) : SIZE_MAX;
        if (stored == SIZE_MAX || stored > in_size - at - BLOCK_HEADER || stored > INT32_MAX)
            return stk_error_set(err, STK_CORRUPT, "it ends at byte %zu inside a block, with %zu of %zu bytes decoded",
                                 in_size, done, wanted);
        const size_t take = STK_MIN(block, wanted - done);
        STK_TRY(decode_block(in + at + BLOCK_HEADER, stored, out + done, block, take, err));
        done += take;
        at += BLOCK_HEADER + stored;
    }
    *out_written = wanted;
    return STK_OK;
}

size_t stk__h5_lz4_compress(const uint8_t *in, size_t in_size, uint8_t *out, size_t capacity)
{
    const size_t block_size = STK_MIN(in_size, BLOCK_SIZE);
    if (capacity < HEADER)
        return 0;
    write_u32(out, (uint32_t)((uint64_t)in_size >> 32));
    write_u32(out + 4, (uint32_t)in_size);
    write_u32(out + 8, (uint32_t)block_size);
    size_t at = HEADER;
    for (size_t done = 0; done < in_size;) {
        const size_t block = STK_MIN(in_size - done, block_size);
        if (capacity - at <= BLOCK_HEADER)
            return 0;
        uint8_t *to = out + at + BLOCK_HEADER;
        const size_t room = capacity - at - BLOCK_HEADER;
        /* A block whose stored size is its own size counts as not compressed. */
        size_t stored = (size_t)LZ4_compress_default((const char *)in + done, (char *)to, (int)block,
                                                     (int)STK_MIN(room, block - 1));
        if (stored == 0) {
            if (room < block)
                return 0;
            memcpy(to, in + done, block);
            stored = block;
        }
        write_u32(out + at, (uint32_t)stored);
        at += BLOCK_HEADER + stored;
        done += block;
    }
    return at;
}
