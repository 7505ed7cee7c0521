/* What the parts of reading HDF5 rows share: one worker's state, and who does what of it. */
#ifndef STK_OPS_HDF5_READER_H
#define STK_OPS_HDF5_READER_H

#include "ops/hdf5_source.h"

/* A sample, by its row. */
typedef struct stk__h5_row_place {
    int64_t row; /* in the file */
    int32_t file;
    uint32_t sample; /* number among those at hand */
} stk__h5_row_place;

/* Rows places[from .. to) of one block of a dataset, of which chunk `across` is still to be looked at. */
typedef struct stk__h5_errand {
    size_t from, to;
    size_t dataset;
    int64_t across;
} stk__h5_errand;

typedef struct stk__h5_reader {
    stk__h5_decoder *decoder;
    stk__h5_heap *heap;
    uint8_t *stored[2]; /* chunks as they lie in the file, of two that are decoded together */
    size_t stored_capacity[2];

    stk__h5_row_place *places; /* sorted by file and row */
    size_t count, place_capacity;
    stk_sample *const *samples; /* during gather */
    const stk_sample **order;   /* the same, for process */
    size_t order_capacity, next;
    uint8_t **outs; /* by field and sample: where its values go, raw ones where bytes are to be made of them */
    size_t out_capacity;
    const stk_error **errors; /* by sample; NULL: none */
    size_t error_capacity;
    stk__h5_errand *errands;
    size_t errand_count, errand_capacity;
    /*
     * Working ahead: how far was looked, so that the next look goes on there as long as the work at hand is the same.
     */
    int64_t ahead_of; /* the sample that came next; -1: none */
    int64_t look;
    size_t seen_bytes;
    int32_t looked_file;
    uint64_t *looked; /* by dataset: the first chunk of the row that was looked at last */
} stk__h5_reader;

/* A chunk that this worker has to fill. */
typedef struct stk__h5_claim {
    int32_t file;
    const stk__h5_dataset *dataset;
    stk__chunk *chunk;
} stk__h5_claim;

/* Contents of variable length: found while the chunk that holds them, if one does, is held. */
typedef struct stk__h5_contents {
    const stk_call *call;
    const stk__h5_dataset *dataset;
    int32_t file;
    int fd; /* -1: in memory */
    const uint8_t *heap;
    size_t heap_bytes;
} stk__h5_contents;

/* ---- errors that are told later ---- */

/* A copy. When there is no memory for one, that is the error. */
const stk_error *stk__h5_keep_error(const stk_error *error);
void stk__h5_drop_error(const stk_error **error);
/* For one sample, and for places[from, to). */
void stk__h5_sample_failed(stk__h5_reader *r, uint32_t sample, const stk_error *error);
void stk__h5_rows_failed(stk__h5_reader *r, size_t from, size_t to, const stk_error *error);

/* ---- chunks (hdf5_chunks.c) ---- */

/*
 * Reads bytes of a file that must not have changed. `look`: it is looked at then, so that they are what was indexed; else
 * the caller sees to that when it has read all that it needs.
 */
stk_status stk__h5_read_bytes(const stk_call *call, int32_t file, uint8_t *out, size_t size, int64_t offset, bool look,
                              stk_error *err);
/* What to ask the cache for. `gently`: see there. */
stk__chunk_wish stk__h5_wish(int32_t file, size_t dataset, const stk__h5_dataset *d, uint64_t number, bool gently);
/* Fills one chunk or two, and publishes them. Two take less time together where their compression allows. */
void stk__h5_fill_chunks(const stk_call *call, const stk__h5_claim *claims, int count);
/* Whether to look for a second chunk to go with this one. */
bool stk__h5_wants_partner(const stk__h5_claim *c);
/* Looks for a chunk to be decoded together with another one: it must be found quickly or not at all. */
#define STK__H5_PARTNER_LOOKS 64
/* Claims the next chunk that will be needed within so many looks, if there is one that nobody has. */
bool stk__h5_claim_ahead(const stk_call *call, int64_t end, stk__h5_claim *out);

/* ---- values (hdf5_values.c) ---- */

/* Values of variable length and strings for places[from, to), out of their raw form. */
void stk__h5_make_values(const stk__h5_contents *c, size_t field, const stk__h5_leaf *leaf, size_t from, size_t to);

static inline bool stk__h5_is_number(const stk__h5_leaf *leaf)
{
    return leaf->kind <= STK__H5_KIND_BOOL;
}

static inline uint8_t **stk__h5_outs(const stk__h5_reader *r, size_t field)
{
    return r->outs + field * r->count;
}

/* How many places from `at` on are consecutive rows whose values go behind each other. */
static inline size_t stk__h5_run_of(const stk__h5_reader *r, uint8_t *const *outs, size_t stride, size_t at, size_t to)
{
    size_t n = 1;
    while (at + n < to && r->places[at + n].row == r->places[at + n - 1].row + 1 &&
           outs[r->places[at + n].sample] == outs[r->places[at + n - 1].sample] + stride)
        n++;
    return n;
}

#endif
