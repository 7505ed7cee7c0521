/* What a format that can be written has to offer. One file per format: write_NAME.c, with its line in writers.c. */
#ifndef STK_TRACE_WRITER_H
#define STK_TRACE_WRITER_H

#include "base/str.h"
#include "trace/model.h"

/* A file that appears whole or not at all, or standard output; gzip and zstd on demand. The first failure is kept. */
typedef struct stk__sink stk__sink;

typedef enum stk__sink_compression { STK__SINK_PLAIN, STK__SINK_GZIP, STK__SINK_ZSTD } stk__sink_compression;

/* "-" is standard output. What exists and is no regular file, such as /dev/null or a pipe, is written to as it is. */
stk_status stk__sink_open(const char *path, stk__sink_compression compression, stk__sink **out, stk_error *err);
/* Asked at every write; true is a failure, STK_CANCELLED. NULL: never. */
void stk__sink_stop_when(stk__sink *s, bool (*stopped)(void));
void stk__sink_write(stk__sink *s, const void *data, size_t size);
/* Writes what is in `text` and empties it. */
void stk__sink_text(stk__sink *s, stk__text *text);
uint64_t stk__sink_bytes(const stk__sink *s); /* before compression */
bool stk__sink_failed(const stk__sink *s);
/* Publishes the file, or removes it after a failure, which is returned. Frees. */
stk_status stk__sink_close(stk__sink *s, stk_error *err);
void stk__sink_abort(stk__sink *s);

/* What a format cannot carry is counted here and told to the user. */
typedef struct stk__write_report {
    uint64_t slices, counters, flows, samples, functions; /* written */
    uint64_t lost_slices, lost_counters, lost_flows, lost_samples, lost_functions, lost_args, lost_facts;
    uint64_t shortened_slices; /* they stick out of the ones around them, which the format cannot say */
    int64_t shift_ns;          /* added to all times, where the format has no negative ones */
    bool estimated_stacks;     /* of functions: call_tree.h */
} stk__write_report;

typedef struct stk__trace_writer {
    const char *name; /* "chrome" */
    const char *summary;
    const char *extensions; /* ".json .json.gz", separated by spaces, longest match wins; .gz and .zst may follow any */
    /* Writes to a sink; NULL for formats that need a path of their own (SQLite). */
    stk_status (*write)(const stk__trace *t, stk__sink *sink, stk__write_report *report, stk_error *err);
    stk_status (*write_path)(const stk__trace *t, const char *path, stk__write_report *report, stk_error *err);
} stk__trace_writer;

extern const stk__trace_writer stk__writer_chrome, stk__writer_perfetto, stk__writer_collapsed, stk__writer_speedscope,
    stk__writer_sqlite, stk__writer_csv, stk__writer_ndjson;

extern const stk__trace_writer *const stk__trace_writers[];
const stk__trace_writer *stk__trace_writer_find(const char *name);
/* By the ending of the path; *out_compression from a trailing .gz or .zst. NULL when none fits. */
const stk__trace_writer *stk__trace_writer_for(const char *path, stk__sink_compression *out_compression);
/* Opens, writes, publishes. writer NULL: by the ending of the path. */
stk_status stk__trace_write(const stk__trace *t, const char *path, const stk__trace_writer *writer,
                            stk__write_report *report, stk_error *err);

/* For formats that carry arrows: these stand for the points that they join, the other points are lost. */
stk_status stk__trace_count_joined(const stk__trace *t, stk__write_report *report, stk_error *err);

#endif
