/* What one filter of HDF5 is to hdf5_filter.c. */
#ifndef STK_FORMATS_HDF5_CODEC_H
#define STK_FORMATS_HDF5_CODEC_H

#include "formats/hdf5_filter.h"

/* Scratch memory of a decoder that codecs may use during one call; grows, and is kept for the next. */
typedef struct stk__h5_scratch {
    uint8_t *data;
    size_t capacity;
    struct ZSTD_DCtx_s *zstd; /* made by the first chunk that needs one; stk__h5_zstd_free */
} stk__h5_scratch;

/* NULL when memory is out. What was in it before is lost. */
uint8_t *stk__h5_scratch_get(stk__h5_scratch *s, size_t size);

/*
 * Undoes one filter: reads in[0..in_size), writes at most out_size bytes (STK__H5_AIR more may be scribbled over),
 * sets *out_written. `out_size` is the most that this stage can sensibly give: the chunk, or a little more where a
 * checksum follows. Data that would give more is cut, and *out_written is out_size then. CORRUPT when the data is no
 * such stream, its size or checksum does not fit; the message says what was found ("stored checksum is 0x..., the
 * data has 0x...") without the filter's name, which the caller puts before it.
 */
typedef stk_status stk__h5_undo(const stk__h5_filter *filter, stk__h5_scratch *scratch, const uint8_t *in,
                                size_t in_size, uint8_t *out, size_t out_size, size_t *out_written, stk_error *err);
/* Whether the client values make sense; else false with the reason in `why`. */
typedef bool stk__h5_values_ok(const stk__h5_filter *filter, size_t chunk_bytes, char *why, size_t why_size);

stk__h5_undo stk__h5_undo_szip, stk__h5_undo_nbit, stk__h5_undo_scaleoffset, stk__h5_undo_lzf, stk__h5_undo_lz4,
    stk__h5_undo_zstd, stk__h5_undo_blosc, stk__h5_undo_bitshuffle;
stk__h5_values_ok stk__h5_szip_ok, stk__h5_nbit_ok, stk__h5_scaleoffset_ok, stk__h5_lzf_ok, stk__h5_blosc_ok,
    stk__h5_bitshuffle_ok;

/* Frees what undoing zstd keeps from chunk to chunk: making it anew takes longer than decoding 4 KB. NULL is fine. */
void stk__h5_zstd_free(struct ZSTD_DCtx_s *context);

/* Compress one buffer: *out has room for `capacity` bytes. Returns 0 when the result would not fit. */
size_t stk__h5_lzf_compress(const uint8_t *in, size_t in_size, uint8_t *out, size_t capacity);
size_t stk__h5_lz4_compress(const uint8_t *in, size_t in_size, uint8_t *out, size_t capacity);
size_t stk__h5_zstd_compress(const uint8_t *in, size_t in_size, uint8_t *out, size_t capacity, int level);

#endif
