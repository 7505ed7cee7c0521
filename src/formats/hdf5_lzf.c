/* The lzf filter of h5py: one plain LZF block. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include <lzf.h>

#include "base/compiler.h"
#include "formats/hdf5_codec.h"

#include "base/banned.h"

/* What the longest token of LZF gives: 264 bytes. */
enum { TOKEN_MAX = 264 };
_Static_assert(TOKEN_MAX < STK__H5_AIR, "a token that begins inside the output ends inside the air behind it");

bool stk__h5_lzf_ok(const stk__h5_filter *filter, size_t chunk_bytes, char *why, size_t why_size)
{
    if (chunk_bytes > UINT_MAX - STK__H5_AIR) {
        snprintf(why, why_size, "a chunk has %zu bytes, wanted at most %u", chunk_bytes, UINT_MAX - STK__H5_AIR);
        return false;
    }
    return true;
}

stk_status stk__h5_undo_lzf(const stk__h5_filter *filter, stk__h5_scratch *scratch, const uint8_t *in, size_t in_size,
                            uint8_t *out, size_t out_size, size_t *out_written, stk_error *err)
{
    if (in_size == 0 || in_size > UINT_MAX)
        return stk_error_set(err, STK_CORRUPT, "it has %zu bytes, wanted 1 to %u", in_size, UINT_MAX);
    /*
     * With the air as room, data that is too long stops behind out_size, not before: everything up to there is
     * written, and can be cut.
     */
    const size_t room = STK_MIN(out_size, UINT_MAX - STK__H5_AIR);
    const unsigned written = lzf_decompress(in, (unsigned)in_size, out, (unsigned)(room + STK__H5_AIR));
    if (written == 0 && errno != E2BIG)
        return stk_error_set(err, STK_CORRUPT, "the data of %zu bytes is cut off or refers to bytes before its start",
                             in_size);
    *out_written = written == 0 || written > room ? room : written;
    return STK_OK;
}

/*
 * liblzf leaves its hash table uninitialised. That should not show in what it writes when it is built with VERY_FAST,
 * its default: three bytes that stood anywhere before were entered at their first occurrence, so a place left over
 * from another buffer is never equal.
 */
size_t stk__h5_lzf_compress(const uint8_t *in, size_t in_size, uint8_t *out, size_t capacity)
{
    if (in_size > UINT_MAX)
        return 0;
    return lzf_compress(in, (unsigned)in_size, out, (unsigned)STK_MIN(capacity, UINT_MAX));
}
