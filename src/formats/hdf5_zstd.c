/* The zstd filter of HDF5 (32015): Zstandard frames as they are. */
#include <zstd.h>
#include <zstd_errors.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "formats/hdf5_codec.h"

#include "base/banned.h"

void stk__h5_zstd_free(struct ZSTD_DCtx_s *context)
{
    ZSTD_freeDCtx(context);
}

/* The smallest power of two that is not below x, times 8: windows up to there may be allocated. */
static int window_log(size_t x)
{
    int log = 3;
    while (log < 27 && ((size_t)1 << (log - 3)) < x)
        log++;
    return STK_MAX(log, 17);
}

/* The first out_size bytes of data that is longer. */
static stk_status decode_start(ZSTD_DCtx *context, const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size,
                               size_t *out_written, stk_error *err)
{
    ZSTD_inBuffer from = {in, in_size, 0};
    ZSTD_outBuffer to = {out, out_size, 0};
    size_t result = ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, window_log(out_size));
    while (!ZSTD_isError(result) && to.pos < to.size) {
        const size_t from_pos = from.pos, to_pos = to.pos;
        result = ZSTD_decompressStream(context, &to, &from);
        if (from.pos == from_pos && to.pos == to_pos)
            break;
    }
    ZSTD_DCtx_reset(context, ZSTD_reset_session_and_parameters);
    if (to.pos < to.size)
        return stk_error_set(err, STK_CORRUPT, "after %zu of %zu bytes: %s", to.pos, out_size,
                             ZSTD_isError(result) ? ZSTD_getErrorName(result) : "the data ends");
    *out_written = to.pos;
    return STK_OK;
}

stk_status stk__h5_undo_zstd(const stk__h5_filter *filter, stk__h5_scratch *scratch, const uint8_t *in, size_t in_size,
                             uint8_t *out, size_t out_size, size_t *out_written, stk_error *err)
{
    if (!scratch->zstd)
        scratch->zstd = ZSTD_createDCtx();
    if (!scratch->zstd)
        return stk_error_set(err, STK_NOMEM, "out of memory for a zstd context");
    if (in_size == 0)
        return stk_error_set(err, STK_CORRUPT, "it has 0 bytes, wanted a frame");
    const size_t result = ZSTD_decompressDCtx(scratch->zstd, out, out_size, in, in_size);
    if (!ZSTD_isError(result)) {
        *out_written = result;
        return STK_OK;
    }
    if (ZSTD_getErrorCode(result) == ZSTD_error_dstSize_tooSmall)
        return decode_start(scratch->zstd, in, in_size, out, out_size, out_written, err);
    return stk_error_set(err, STK_CORRUPT, "%zu bytes stored, wanted %zu from them: %s", in_size, out_size,
                         ZSTD_getErrorName(result));
}

size_t stk__h5_zstd_compress(const uint8_t *in, size_t in_size, uint8_t *out, size_t capacity, int level)
{
    const size_t result = ZSTD_compress(out, capacity, in, in_size, level);
    return ZSTD_isError(result) ? 0 : result;
}
