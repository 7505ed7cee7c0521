/*
 * The workbench: traces of any format as tables, with SQL, totals and a verdict.
 *
 * A trace is never changed once it is open: any number of threads may ask at once, each with results of its own.
 * Results are tables of columns that lie in memory as Apache Arrow wants them: stk_table_export hands them over without
 * a copy.
 */
#ifndef STOKER_WORKBENCH_H
#define STOKER_WORKBENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_trace stk_trace;

/* Zero it, set struct_size, then what matters. */
typedef struct stk_trace_options {
    size_t struct_size;
    const char *format;    /* "chrome", "perfetto", ...; NULL: by the content */
    uint64_t memory_bytes; /* cap on columns in memory, the rest goes to a temporary file; 0: no cap */
    const char *temp_dir;  /* where that file lies; NULL: /var/tmp */
    const char *cache_dir; /* where columns of files are kept; NULL: nowhere */
    bool (*progress)(void *arg, const char *path, uint64_t done_bytes,
                     uint64_t total_bytes); /* false cancels; may be NULL */
    void *progress_arg;
    const char *join_processes; /* those of equal id and name in several files are one: "always", "never", or "auto" and
                                   NULL: in timelines of TensorFlow 1 */
} stk_trace_options;

/* Reads files as one trace; patterns such as "run-*.json.gz" are expanded. `options` may be NULL. Since 0.1. */
STK_API stk_status stk_trace_open(const char *const *paths, size_t count, const stk_trace_options *options,
                                  stk_trace **out, stk_error *err);
/* Tables made from it stay valid. NULL is fine. */
STK_API void stk_trace_close(stk_trace *trace);
/*
 * Makes questions that are being answered end with STK_CANCELLED, in all threads, until it is called with false: queries
 * at once, totals and verdicts when they have been worked out. Any thread.
 */
STK_API void stk_trace_cancel(stk_trace *trace, bool cancel);

/* ---- tables ---- */

typedef enum stk_column_kind {
    STK_KIND_NULL, /* every value is missing */
    STK_KIND_INT64,
    STK_KIND_DOUBLE,
    STK_KIND_TEXT, /* UTF-8 */
    STK_KIND_BYTES,
    STK_KIND_DICTIONARY /* text as 32-bit numbers of distinct ones */
} stk_column_kind;

typedef struct stk_table stk_table;

STK_API void stk_table_free(stk_table *table);
STK_API int64_t stk_table_rows(const stk_table *table);
STK_API size_t stk_table_columns(const stk_table *table);
STK_API const char *stk_table_name(const stk_table *table, size_t column);
STK_API stk_column_kind stk_table_kind(const stk_table *table, size_t column);
/* Values; column and row must be there and of that kind. */
STK_API bool stk_table_is_null(const stk_table *table, size_t column, int64_t row);
STK_API int64_t stk_table_int64(const stk_table *table, size_t column, int64_t row);
STK_API double stk_table_double(const stk_table *table, size_t column, int64_t row);
/* Text, bytes and dictionaries; valid as long as the table. */
STK_API const char *stk_table_text(const stk_table *table, size_t column, int64_t row, size_t *out_size);

/*
 * Fills a struct ArrowSchema and a struct ArrowArray (a struct array with a child per column) of <stoker/arrow.h>; each
 * may be NULL. The array keeps what it needs alive until its release is called, from any thread, and the table may be
 * freed before. Columns of results, and those of the trace that lie in memory as Arrow wants them, are not copied;
 * stk_trace_table says which are. What is made for an export is kept by the table for the next one. Since 0.1.
 */
struct ArrowSchema;
struct ArrowArray;
struct ArrowArrayStream;
STK_API stk_status stk_table_export(const stk_table *table, struct ArrowSchema *out_schema,
                                    struct ArrowArray *out_array, stk_error *err);
/* The same as a stream of one array. Since 0.1. */
STK_API stk_status stk_table_export_stream(const stk_table *table, struct ArrowArrayStream *out, stk_error *err);

/* ---- questions ---- */

/*
 * One of the trace's own tables, with the columns that SQL has: "slice", "counter", "sample" and "flow" as they lie in
 * memory, with the trace kept alive. Of these ts, dur, value, weight, depth and the ids of rows of other tables are
 * exported without a copy, and so are names, as numbers of the trace's strings, whose dictionary is made once. What is
 * missing gets a bitmap; flags, ids of the rows themselves, and what slices, samples and counters have from their track
 * are made at the export. All other tables and views of `stoker sql` are copied. Two tables are not in SQL:
 * "trace", one row of counts and times, and "tables", a row for each table, view and function. An unknown name is
 * STK_INVALID with the names that there are. Since 0.1.
 */
STK_API stk_status stk_trace_table(stk_trace *trace, const char *name, stk_table **out, stk_error *err);

/*
 * One SELECT; the tables and functions are those of `stoker sql`. A column of integers is INT64, of integers and other
 * numbers DOUBLE; with any text in it TEXT, with any blob BYTES, numbers written as SQLite does. One that is NULL in
 * every row has the type that its table declares, else NULL. A name that was there before gets ":1" behind it. For a
 * mistake in the text `err` has its line and column. Since 0.1.
 */
STK_API stk_status stk_trace_query(stk_trace *trace, const char *sql, stk_table **out, stk_error *err);

typedef struct stk_top_options {
    size_t struct_size;
    const char *by;      /* "name", "thread", "category", "file", "step", "process"; NULL: "name" */
    const char *sort;    /* "total", "self", "calls", "mean", "max", "name"; NULL: "total", as `stoker top` does */
    const char *pattern; /* only names that match this glob; NULL: all */
    int64_t limit;       /* rows at most of slices, of samples and of functions each; 0: all */
} stk_top_options;

/*
 * Totals per name, as `stoker top`: numbered names are one ("ProfilerStep#*"), and what a profiler writes about itself is
 * left out unless `pattern` asks for it. `options` may be NULL. Since 0.1.
 */
STK_API stk_status stk_trace_top(stk_trace *trace, const stk_top_options *options, stk_table **out, stk_error *err);

typedef struct stk_diagnose_options {
    size_t struct_size;
    double what_if;           /* how many times faster a stage is in the what-if, above 1; 0: 2 */
    const char *const *waits; /* globs: slices and Python functions that wait for data; then nothing else counts */
    size_t wait_count;
    const char *const *steps; /* globs: slices that start a step, which lasts until the next one */
    size_t step_count;
    bool one_rank; /* only the steps of `rank` */
    int64_t rank;
} stk_diagnose_options;

/*
 * The verdict of `stoker diagnose`, for people and as one JSON object; each may be NULL. Freed by stk_free. `options`
 * may be NULL. Since 0.1.
 */
STK_API stk_status stk_trace_diagnose(stk_trace *trace, const stk_diagnose_options *options, char **out_text,
                                      char **out_json, stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
