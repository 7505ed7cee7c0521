/* The filters of HDF5 chunks: compressors, checksums and shuffles, undone in reverse order. */
#ifndef STK_FORMATS_HDF5_FILTER_H
#define STK_FORMATS_HDF5_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* libhdf5 takes no more of them. */
#define STK__H5_FILTERS_MAX 32
#define STK__H5_FILTER_VALUES_MAX 8192
/* Bytes that callers keep writable behind the output of a decoder. */
#define STK__H5_AIR 320

/* Numbers as registered with the HDF Group. */
enum {
    STK__H5_DEFLATE = 1,
    STK__H5_SHUFFLE = 2,
    STK__H5_FLETCHER32 = 3,
    STK__H5_SZIP = 4,
    STK__H5_NBIT = 5,
    STK__H5_SCALEOFFSET = 6,
    STK__H5_LZF = 32000,
    STK__H5_BLOSC = 32001,
    STK__H5_LZ4 = 32004,
    STK__H5_BITSHUFFLE = 32008,
    STK__H5_ZSTD = 32015
};

/* One filter of a dataset, in the order in which it was applied. Plain data, owned by the dataset. */
typedef struct stk__h5_filter {
    uint32_t id;
    bool optional;
    const uint32_t *values; /* the client data of the filter */
    size_t value_count;
} stk__h5_filter;

/* "gzip", "shuffle", "blosc", ...; NULL for a filter that is not ours. */
const char *stk__h5_filter_name(uint32_t id);

/*
 * Whether these filters can be undone here; else false, with the reason in `why` ("filter 307 is not built in").
 * Checks the client values too: a set that passes never reads past value_count. `chunk_bytes` is the size of a
 * decoded chunk.
 */
bool stk__h5_filters_known(const stk__h5_filter *filters, size_t count, size_t chunk_bytes, char *why, size_t why_size);

/* Tables and scratch memory of one thread. */
typedef struct stk__h5_decoder stk__h5_decoder;
stk_status stk__h5_decoder_new(stk__h5_decoder **out, stk_error *err);
void stk__h5_decoder_free(stk__h5_decoder *d);
/* The most that decoding chunks of this size (stored and decoded) may keep allocated. */
size_t stk__h5_decoder_memory(const stk__h5_filter *filters, size_t count, size_t stored_bytes, size_t chunk_bytes);

/* A chunk as it was stored, and what is to become of it. */
typedef struct stk__h5_job {
    const stk__h5_filter *filters;
    size_t filter_count;
    uint32_t mask; /* bit i set: filter i was not applied to this chunk */
    const uint8_t *in;
    size_t in_size;
    uint8_t *out;       /* out_size bytes and STK__H5_AIR behind them */
    size_t out_size;    /* of a whole chunk */
    bool keep_shuffled; /* leaves filter 0 alone, which is a shuffle that is not masked */
} stk__h5_job;

/*
 * Undoes the filters. Never writes more than out_size (and the air behind), whatever the data claims. A result that
 * is longer than out_size is cut as libhdf5 does; one that is shorter is filled up with zeros. CORRUPT with the
 * filter's name, what was found and what was wanted.
 */
stk_status stk__h5_decode(stk__h5_decoder *d, const stk__h5_job *job, stk_error *err);
/*
 * Two chunks, with the same results as one after the other; *err of each may be NULL. Where both come to a deflate of
 * data that compresses little, these are undone in turns, which takes two thirds of the time.
 */
bool stk__h5_pairs_well(const stk__h5_job *job); /* whether a pair takes less time than this one and another after it */
void stk__h5_decode_pair(stk__h5_decoder *d, const stk__h5_job *const jobs[2], stk_status status[2],
                         stk_error *const err[2]);

/*
 * Applies the filters (deflate, shuffle, fletcher32, lzf, lz4 and zstd) to one chunk. *out grows (stk__grow, capacity
 * in *capacity) and holds *out_size bytes then. An optional filter that gains nothing is left out and its bit set in
 * *out_mask. Tables come from the encoder, one for each thread.
 */
typedef struct stk__h5_encoder stk__h5_encoder;
stk_status stk__h5_encoder_new(stk__h5_encoder **out, stk_error *err);
void stk__h5_encoder_free(stk__h5_encoder *e);
stk_status stk__h5_encode(stk__h5_encoder *e, const stk__h5_filter *filters, size_t count, const uint8_t *in,
                          size_t in_size, uint8_t **out, size_t *capacity, size_t *out_size, uint32_t *out_mask,
                          stk_error *err);

#endif
