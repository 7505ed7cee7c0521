/* The blosc filter of HDF5 (32001): Blosc 1 buffers, which say themselves how they were made. */
#include <stdio.h>
#include <string.h>

#include <blosc.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "formats/hdf5_codec.h"

#include "base/banned.h"

/* Client value: which compressor is inside. Older files have fewer values. */
enum { COMPRESSOR = 6 };
/* Data that is longer than wanted is cut, unless it is so much longer that it cannot be meant. */
enum { LONGER_MAX = 2 };

bool stk__h5_blosc_ok(const stk__h5_filter *filter, size_t chunk_bytes, char *why, size_t why_size)
{
    if (chunk_bytes > BLOSC_MAX_BUFFERSIZE) {
        snprintf(why, why_size, "a chunk has %zu bytes, wanted at most %d", chunk_bytes, BLOSC_MAX_BUFFERSIZE);
        return false;
    }
    const char *name = NULL;
    if (filter->value_count > COMPRESSOR && filter->values[COMPRESSOR] <= INT32_MAX &&
        blosc_compcode_to_compname((int)filter->values[COMPRESSOR], &name) < 0) {
        snprintf(why, why_size, "libblosc was built without compressor %u%s%s%s", filter->values[COMPRESSOR],
                 name ? " (" : "", name ? name : "", name ? ")" : "");
        return false;
    }
    return true;
}

/* What the header says: bytes of the data and of the buffer that holds it. */
static stk_status read_sizes(const uint8_t *in, size_t in_size, size_t out_size, size_t *out_data, size_t *out_stored,
                             stk_error *err)
{
    if (in_size < BLOSC_MIN_HEADER_LENGTH)
        return stk_error_set(err, STK_CORRUPT, "it has %zu bytes, wanted at least %d", in_size,
                             BLOSC_MIN_HEADER_LENGTH);
    if (in[0] != BLOSC_VERSION_FORMAT)
        return stk_error_set(err, STK_CORRUPT, "its format has version %d, wanted %d", in[0], BLOSC_VERSION_FORMAT);
    size_t block;
    blosc_cbuffer_sizes(in, out_data, out_stored, &block);
    if (*out_stored > in_size || *out_stored < BLOSC_MIN_HEADER_LENGTH ||
        blosc_cbuffer_validate(in, *out_stored, out_data) < 0)
        return stk_error_set(err, STK_CORRUPT, "its header tells of %zu bytes, found %zu", *out_stored, in_size);
    if (*out_data > LONGER_MAX * out_size)
        return stk_error_set(err, STK_CORRUPT, "it would give %zu bytes, wanted %zu", *out_data, out_size);
    return STK_OK;
}

stk_status stk__h5_undo_blosc(const stk__h5_filter *filter, stk__h5_scratch *scratch, const uint8_t *in, size_t in_size,
                              uint8_t *out, size_t out_size, size_t *out_written, stk_error *err)
{
    size_t size, stored;
    STK_TRY(read_sizes(in, in_size, out_size, &size, &stored, err));
    uint8_t *to = size > out_size ? stk__h5_scratch_get(scratch, size) : out;
    if (!to)
        return stk__nomem(size, err);
    memset(to, 0, size); /* damaged data may refer to what was there before */
    const int written = blosc_decompress_ctx(in, to, size, 1);
    if (written < 0 || (size_t)written != size)
        return stk_error_set(
            err, STK_CORRUPT,
            "%zu bytes stored with compressor format %d and flags 0x%02x: libblosc gives %d, wanted %zu bytes", stored,
            in[2] >> 5, in[2], written, size);
    *out_written = STK_MIN(size, out_size);
    if (to != out)
        memcpy(out, to, *out_written);
    return STK_OK;
}
