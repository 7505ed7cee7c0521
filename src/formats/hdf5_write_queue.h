/* Parts of a new HDF5 file on their way to the helper: compressed by several threads, sent in order by one. */
#ifndef STK_FORMATS_HDF5_WRITE_QUEUE_H
#define STK_FORMATS_HDF5_WRITE_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "formats/hdf5_filter.h"
#include "formats/hdf5_helper.h"

/* One request. */
typedef struct stk__h5_part {
    stk__text request;             /* a message of hdf5_wire.h; with a chunk, MASK and DATA are appended */
    const char *field;             /* for errors; NULL: about the whole file. Lives as long as the queue */
    const stk__h5_filter *filters; /* to be applied to the chunk; they live as long as the queue */
    size_t filter_count;
    uint8_t *chunk; /* room for chunk_bytes of the queue; may change places with another such buffer */
    size_t size;    /* of the chunk in it; 0: none */

    /* the queue's own */
    int state;
    size_t weight; /* bytes of the request */
    uint8_t *encoded;
    size_t encoded_capacity, encoded_size;
    uint32_t mask;
} stk__h5_part;

typedef struct stk__h5_queue stk__h5_queue;

typedef struct stk__h5_queue_config {
    stk__h5_helper *helper; /* asked by one thread of the queue alone, from its first request to close */
    int parts;              /* that may be under way at once; at least 1 */
    int threads;            /* that compress; 0: no part has filters */
    size_t chunk_bytes;     /* of the largest chunk */
    uint8_t *memory;        /* parts * chunk_bytes; lives as long as the queue */
} stk__h5_queue_config;

/* Bytes that it allocates besides `memory`, at most, as long as requests without a chunk are small. */
size_t stk__h5_queue_memory(const stk__h5_queue_config *config);
stk_status stk__h5_queue_open(const stk__h5_queue_config *config, stk__h5_queue **out, stk_error *err);
/* Drops what was not sent yet. NULL is fine. */
void stk__h5_queue_close(stk__h5_queue *q);

/*
 * An empty part for the next request of about so many bytes besides its chunk; waits until one is free. Fails with
 * what went wrong with any part before. One thread fills parts.
 */
stk_status stk__h5_queue_get(stk__h5_queue *q, size_t request_bytes, stk__h5_part **out, stk_error *err);
/* Sends the part that was got last. */
void stk__h5_queue_put(stk__h5_queue *q, stk__h5_part *part);
/* Waits until all parts have been answered. */
stk_status stk__h5_queue_drain(stk__h5_queue *q, stk_error *err);

#endif
