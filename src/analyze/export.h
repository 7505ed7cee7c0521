/* A directory that another engine loads as it is: data, schema, queries and how to run them. */
#ifndef STK_ANALYZE_EXPORT_H
#define STK_ANALYZE_EXPORT_H

#include "trace/model.h"

/* BigQuery takes no file of 4 GB or more. */
#define STK__SHARD_BYTES_MAX UINT64_C(4000000000)
#define STK__SHARD_BYTES_MIN UINT64_C(4096)
#define STK__SHARD_BYTES UINT64_C(1073741824)

typedef struct stk__export_options {
    const char *dir;      /* made when it is missing */
    uint64_t shard_bytes; /* 0: STK__SHARD_BYTES */
    bool force;           /* write into a directory that is not empty; shards of an earlier export are removed */
    /* Told now and then; false stops with STK_CANCELLED. May be NULL. */
    bool (*progress)(void *arg, uint64_t rows_done, uint64_t rows_total);
    void *progress_arg;
} stk__export_options;

typedef struct stk__export_report {
    uint64_t slices, counters, flows, samples, functions; /* rows written */
    uint64_t data_bytes;
    size_t data_files;
} stk__export_report;

typedef struct stk__export_target stk__export_target;

extern const stk__export_target stk__export_bigquery, stk__export_clickhouse, stk__export_spark, stk__export_sqlite,
    stk__export_csv;

/* All of them; ends with NULL. */
extern const stk__export_target *const stk__export_targets[];
const stk__export_target *stk__export_find(const char *name);
const char *stk__export_name(const stk__export_target *target);
const char *stk__export_summary(const stk__export_target *target);

/* Refuses a directory that is not empty with STK_INVALID unless `force`: what stk__export_write does first. */
stk_status stk__export_check(const char *dir, bool force, stk_error *err);

/*
 * Everything is written beside `dir` first and moved there at the end, so that a failure leaves nothing behind. A
 * directory that is not empty is refused with STK_INVALID unless `force`. `report` may be NULL.
 */
stk_status stk__export_write(const stk__trace *t, const stk__export_target *target, const stk__export_options *options,
                             stk__export_report *report, stk_error *err);

#endif
