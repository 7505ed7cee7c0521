/* The deflate filter of HDF5 undone: zlib streams with the leniency of libhdf5, one or two at a time. */
#ifndef STK_FORMATS_HDF5_DEFLATE_H
#define STK_FORMATS_HDF5_DEFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* Tables of one thread. */
typedef struct stk__h5_inflater stk__h5_inflater;
stk_status stk__h5_inflater_new(stk__h5_inflater **out, stk_error *err);
void stk__h5_inflater_free(stk__h5_inflater *f);
/* The most that one keeps allocated. */
size_t stk__h5_inflater_memory(void);

/* A stream, and what becomes of it. */
typedef struct stk__h5_stream {
    const uint8_t *in;
    size_t in_size;
    uint8_t *out;    /* out_size bytes and STK__H5_AIR behind them */
    size_t out_size; /* what comes behind is thrown away */
    size_t longest;  /* a stream that gives more is refused; at least out_size */
    /* set by the call */
    size_t size; /* bytes that the stream gives: less than out_size, or more, up to `longest` */
} stk__h5_stream;

/*
 * CORRUPT for what is no zlib stream, is cut off, has a wrong checksum or is too long. What follows the stream is
 * ignored.
 */
stk_status stk__h5_inflate(stk__h5_inflater *f, stk__h5_stream *s, stk_error *err);
/* Whether such a stream is better done together with another like it: all but data that compresses very well is. */
bool stk__h5_inflate_pairs(size_t in_size, size_t chunk_bytes);
/* Both, with the same results; *status and *err of each are set as by stk__h5_inflate. */
void stk__h5_inflate_pair(stk__h5_inflater *f, stk__h5_stream *const streams[2], stk_status status[2],
                          stk_error *const err[2]);

#endif
