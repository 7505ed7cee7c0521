/* What the parts of the op `hdf5` share: files as one set of rows, and their fields. */
#ifndef STK_OPS_HDF5_SOURCE_H
#define STK_OPS_HDF5_SOURCE_H

#include <stdatomic.h>

#include "engine/op.h"
#include "formats/file_pool.h"
#include "formats/hdf5.h"
#include "formats/schema.h"
#include "ops/chunk_cache.h"

/* One field of the samples: a leaf of a dataset. */
typedef struct stk__h5_field {
    char *name;
    char *leaf;     /* path below the dataset: "" or "a/b" */
    size_t dataset; /* number among `datasets` of the source */
    stk_dtype dtype;
    int32_t ndim;
    int64_t shape[STK_MAX_DIMS];
    int id;
    bool needed;
    size_t raw_bytes; /* of a row as it is stored, in the file where that is most */
} stk__h5_field;

/* One dataset in one file, with the leaf of each field that is taken out of it. */
typedef struct stk__h5_part {
    const stk__h5_dataset *dataset;
    const stk__h5_leaf **leaves; /* by number of the field; NULL for those of other datasets */
    _Atomic bool given_up;       /* libhdf5 hung on it */
} stk__h5_part;

typedef struct stk__h5_source {
    /* options */
    stk_strings paths;
    stk_args args;
    int64_t cache_bytes;

    stk__paths files;
    stk__h5_helper *helper;
    char **datasets; /* paths of the datasets that are read */
    size_t dataset_count;
    stk__h5_field *fields;
    size_t field_count;
    stk__h5_file *model;     /* the first file as it was when the fields were chosen */
    stk__schema description; /* all that is known of the fields, for sinks */

    /* set by open, then const; by number of the file */
    stk__h5_file **indexes;
    stk__h5_part *parts; /* dataset_count for each file */
    int64_t *firsts;     /* number of the first row, and of all rows at the end */
    int32_t file_count;
    bool *is_read;   /* by dataset: some field of it is needed */
    stk_error *lost; /* files that cannot be read at all */
    size_t lost_count, lost_capacity;
    size_t lead;           /* the dataset whose chunks weigh most: a shuffle goes by these */
    int64_t *block_firsts; /* blocks of the lead in each file, added up; NULL: every row is read on its own */
    size_t stored_max, chunk_max, scratch_max, cache_limit;
    size_t heap_bytes; /* that each worker may keep of heaps; 0: no value has a length of its own */
    bool all_fit;      /* chunks of all files into cache_limit */
    int64_t stride;    /* rows that a look ahead may pass over */
    stk__file_pool *pool;
    stk__chunk_cache *cache;
} stk__h5_source;

/* Fields from the first file that can be read: those asked for, or all. */
stk_status stk__h5_choose_fields(stk__h5_source *s, const stk_host *host, stk_error *err);
/* Finds datasets and leaves of one indexed file; INVALID when it does not fit the fields. */
stk_status stk__h5_match_file(const stk__h5_source *s, const stk__h5_file *file, stk__h5_part *parts, stk_error *err);
void stk__h5_fields_clear(stk__h5_source *s);

/* Reading; callbacks of the op. */
stk_status stk__h5_worker_open(const stk_call *call, void **out_worker, stk_error *err);
void stk__h5_worker_close(const stk_call *call);
stk_status stk__h5_gather(const stk_call *call, stk_sample *const *samples, size_t n, stk_error *err);
stk_status stk__h5_process(const stk_call *call, stk_sample *sample, stk_error *err);
stk_status stk__h5_ahead(const stk_call *call);
/* Memory that one worker keeps besides the cache. */
size_t stk__h5_worker_memory(const stk__h5_source *s);

/* The last of `count` files whose first row, or block, comes at or before `number`. */
static inline int32_t stk__h5_last_at(const int64_t *firsts, int32_t count, int64_t number)
{
    int32_t low = 0, high = count - 1;
    while (low < high) {
        const int32_t middle = low + (high - low + 1) / 2;
        if (firsts[middle] <= number)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* The file that holds a row of the set. */
static inline int32_t stk__h5_file_of(const stk__h5_source *s, int64_t index)
{
    return stk__h5_last_at(s->firsts, s->file_count, index);
}

/* Bytes of a leaf in one row, as they are stored. */
static inline size_t stk__h5_raw_bytes(const stk__h5_dataset *d, const stk__h5_leaf *leaf)
{
    return (size_t)d->row_elements * (size_t)leaf->count * leaf->size;
}

static inline const stk__h5_part *stk__h5_part_of(const stk__h5_source *s, int32_t file, size_t dataset)
{
    return &s->parts[(size_t)file * s->dataset_count + dataset];
}

/* Whether rows are taken out of chunks that are decoded, or read by libhdf5, as a whole. */
static inline bool stk__h5_in_chunks(const stk__h5_dataset *d)
{
    return d->way == STK__H5_BY_CHUNK || d->way == STK__H5_BY_LIBRARY;
}

#endif
