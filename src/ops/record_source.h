/* What `tfrecord`, `text` and `webdataset` share: files of records, read by number or as streams. */
#ifndef STK_OPS_RECORD_SOURCE_H
#define STK_OPS_RECORD_SOURCE_H

#include "engine/op.h"
#include "formats/records.h"
#include "ops/record_lanes.h"

typedef struct stk__record_source {
    /* set by the op */
    stk__framing framing;
    bool verify;
    int field; /* the bytes field that it makes */
    const int *cuts; /* scalar bytes fields that the op cuts out of `field`, which itself never goes into the batch */
    size_t cut_count;

    stk__paths paths;
    stk__set_marks marks;
    stk_error *lost; /* files that cannot be read at all */
    size_t lost_count, lost_capacity;
    stk__records *records; /* NULL: a stream */
    bool has_only;
    int64_t *only; /* with has_only: the records to visit, sorted; numbers in the set, or file and record of a stream */
    int64_t only_count;
    size_t only_file; /* the file that a stream looked at last */

    /* streams */
    int64_t cycle, block;
    stk__lanes *_Atomic lanes; /* from the first rewind on */
} stk__record_source;

/* Expands the patterns and indexes the files. `only_path`: a quarantine list that names the records to visit, or NULL. */
stk_status stk__source_open(stk__record_source *s, const stk_call *call, const stk_strings *patterns, const char *only_path,
                            stk_error *err);

/*
 * Whether records are read into memory of the batch, so that views on them need no copy. So it is when all fields that are
 * cut out of them go there; with no such field, when the record itself does. Only while reading by number.
 */
bool stk__source_in_batch(const stk__record_source *s, const stk_call *call);

/* The callbacks of a source; each finds its stk__record_source at the start of the op's state. */
void stk__source_close(void *state);
stk_status stk__source_worker_open(const stk_call *call, void **out_worker, stk_error *err);
void stk__source_worker_close(const stk_call *call);
int64_t stk__source_count(const stk_call *call);
stk_status stk__source_gather(const stk_call *call, stk_sample *const *samples, size_t n, stk_error *err);
stk_status stk__source_process(const stk_call *call, stk_sample *sample, stk_error *err);
stk_status stk__source_rewind(const stk_call *call, stk_error *err);
stk_status stk__source_pull(const stk_call *call, stk_sample *sample, stk_error *err);
stk_status stk__source_ahead(const stk_call *call);
void stk__source_trim(const stk_call *call);
int64_t stk__source_group_count(const stk_call *call);
int64_t stk__source_group_first(const stk_call *call, int64_t group);
void stk__source_set_interleave(const stk_call *call, int64_t cycle, int64_t block);
int64_t stk__source_memory(const stk_call *call);
uint64_t stk__source_fingerprint(const stk_call *call);
uint64_t stk__source_stamp(const stk_call *call, int64_t *newest_ns);
bool stk__source_damage(const stk_call *call, size_t i, stk_error *out, int64_t *out_bytes);

/* For the op's descriptor: all of them, or all but close, process and pull. */
#define STK__RECORD_SOURCE_CALLBACKS \
    STK__RECORD_SOURCE_SHARED,       \
    .close = stk__source_close,      \
    .process = stk__source_process,  \
    .pull = stk__source_pull

#define STK__RECORD_SOURCE_SHARED                 \
    .worker_open = stk__source_worker_open,       \
    .worker_close = stk__source_worker_close,     \
    .count = stk__source_count,                   \
    .gather = stk__source_gather,                 \
    .rewind = stk__source_rewind,                 \
    .ahead = stk__source_ahead,                   \
    .trim = stk__source_trim,                     \
    .group_count = stk__source_group_count,       \
    .group_first = stk__source_group_first,       \
    .set_interleave = stk__source_set_interleave, \
    .memory = stk__source_memory,                 \
    .fingerprint = stk__source_fingerprint,       \
    .stamp = stk__source_stamp,                   \
    .damage = stk__source_damage

#endif
