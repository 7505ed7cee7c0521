/* Between the files that read Nsight Systems' SQLite exports: the guarded database, its rows, and what is known so far. */
#ifndef STK_TRACE_READ_NSYS_H
#define STK_TRACE_READ_NSYS_H

#include <sqlite3.h>

#include "trace/builder_impl.h"
#include "trace/keymap.h"
#include "trace/reader.h"

/* ---- the database: read_nsys_db.c ---- */

typedef struct ns_source ns_source;

typedef struct ns_table {
    char *name;
    bool used; /* its rows have been read, or mean nothing here */
} ns_table;

/* A device operation's correlation, and how many operations one launch made: a graph makes many. */
typedef struct ns_launch {
    uint64_t process; /* globalPid >> 24 */
    int64_t correlation;
    uint32_t count;
} ns_launch;

/* Strings that many events have. */
#define NS_WORDS(X)                      \
    X(kernel, "kernel")                  \
    X(copy, "gpu_memcpy")                \
    X(fill, "gpu_memset")                \
    X(sync, "cuda_sync")                 \
    X(runtime, "cuda_runtime")           \
    X(driver, "cuda_driver")             \
    X(os, "os_runtime")                  \
    X(range, "user_annotation")          \
    X(flow, "ac2g")                      \
    X(correlation, "correlation")        \
    X(grid, "grid")                      \
    X(block, "block")                    \
    X(registers, "registers per thread") \
    X(shared, "shared memory")           \
    X(graph_node, "graph node")          \
    X(bytes, "bytes")                    \
    X(value, "value")                    \
    X(result, "return")                  \
    X(domain, "domain")                  \
    X(nvtx_category, "category")         \
    X(payload, "payload")                \
    X(json, "json")                      \
    X(details, "details")                \
    X(unnamed, "(unnamed)")

typedef struct ns_words {
#define NS_WORD_FIELD(name, text) stk__string name;
    NS_WORDS(NS_WORD_FIELD)
#undef NS_WORD_FIELD
} ns_words;

typedef struct ns_reader {
    stk__builder *b;
    stk__input *in;
    stk_error *err;
    stk_status status; /* the first failure: memory, cancelled */

    ns_source *source;
    sqlite3 *db;
    ns_table *tables; /* real tables alone: no views, no virtual tables */
    size_t table_count, table_capacity;
    uint64_t damaged; /* tables of which a part could not be read */

    /* StringIds, by id: those below STRINGS_DIRECT in an array */
    stk__string *strings;
    size_t string_capacity;
    stk__keymap far_strings;
    stk__keymap short_names; /* of calls: "cudaMalloc_v3020" -> "cudaMalloc" */

    uint64_t seed;
    stk__keymap ids; /* processes, threads, streams, domains: kinds of key in read_nsys_ids.c */
    stk__rowmap launch_map;
    ns_launch *launches;
    size_t launch_count, launch_capacity;
    uint64_t last_tid; /* the globalTid that was asked for last, and its track */
    uint32_t last_track;
    bool has_last;
    ns_words words;
    stk__text text;
} ns_reader;

/* Opens the input as a database, guarded, and lists its tables. */
stk_status stk__ns_open(ns_reader *r);
void stk__ns_close(ns_reader *r);
bool stk__ns_has_table(const ns_reader *r, const char *name);
/* Keeps the first failure. Always false. */
bool stk__ns_nomem(ns_reader *r, size_t size);

/*
 * The rows of one table, by the names of the columns that are wanted: those that the table does not have read as NULL. A page that is
 * damaged ends the way forward; then the rows come from the end of the table backwards, down to the damage.
 */
enum { NS_COLUMNS_MAX = 32 };

typedef struct ns_rows {
    ns_reader *r;
    const char *table;
    const char *const *columns;
    sqlite3_stmt *statement;
    int column[NS_COLUMNS_MAX];          /* in the statement; -1: the table has none */
    int64_t last_forward, last_backward; /* row numbers */
    bool any_forward, any_backward, backwards;
    uint64_t count;
} ns_rows;

/* False when the table is not there, or has none of the columns. Columns end with NULL. Must be closed. */
bool stk__ns_rows_open(ns_rows *rows, ns_reader *r, const char *table, const char *const *columns);
bool stk__ns_rows_next(ns_rows *rows);
void stk__ns_rows_close(ns_rows *rows);

static inline bool stk__ns_has_column(const ns_rows *rows, int c)
{
    return rows->column[c] >= 0;
}

static inline bool stk__ns_is_null(const ns_rows *rows, int c)
{
    return rows->column[c] < 0 || sqlite3_column_type(rows->statement, rows->column[c]) == SQLITE_NULL;
}

/* `missing` for NULL and for what is no number. */
static inline int64_t stk__ns_int(const ns_rows *rows, int c, int64_t missing)
{
    if (rows->column[c] < 0 || sqlite3_column_type(rows->statement, rows->column[c]) != SQLITE_INTEGER)
        return missing;
    return sqlite3_column_int64(rows->statement, rows->column[c]);
}

/* The text of a column, made valid UTF-8; 0: none. */
stk__string stk__ns_text(const ns_rows *rows, int c);
/* The string of StringIds that a column refers to; 0 with a note when there is none such. */
stk__string stk__ns_name(const ns_rows *rows, int c);

/* ---- processes, threads, streams: read_nsys_ids.c ---- */

stk_status stk__ns_read_strings(ns_reader *r);
void stk__ns_read_gpus(ns_reader *r);
uint32_t stk__ns_thread_track(ns_reader *r, int64_t global_tid);
uint32_t stk__ns_process(ns_reader *r, int64_t global_id);
/* The process that stands for a GPU as one host process sees it, and one of its streams. */
uint32_t stk__ns_device(ns_reader *r, int64_t global_pid, int64_t device);
uint32_t stk__ns_stream_track(ns_reader *r, int64_t global_pid, int64_t device, int64_t context, int64_t stream);
/* A name without the version that CUDA's calls have: "cudaMalloc_v3020" -> "cudaMalloc". */
stk__string stk__ns_call_name(ns_reader *r, stk__string name);
void stk__ns_read_names(ns_reader *r);
stk__key stk__ns_key(const ns_reader *r, uint32_t kind, uint64_t a, uint64_t b);
/* What a key stands for, or STK__NONE; and putting it, true when it is new. */
uint32_t stk__ns_get(const ns_reader *r, uint32_t kind, uint64_t a, uint64_t b);
bool stk__ns_put(ns_reader *r, uint32_t kind, uint64_t a, uint64_t b, uint32_t value);

enum {
    NS_KEY_PROCESS = 1, /* globalPid >> 24 */
    NS_KEY_THREAD,      /* globalTid -> track */
    NS_KEY_DEVICE,      /* globalPid >> 24, deviceId -> process */
    NS_KEY_STREAM,      /* device process, context and stream -> track */
    NS_KEY_TID,         /* device process, stream -> context that has its number as the id */
    NS_KEY_GPU,         /* pid, CUDA's number -> GPU */
    NS_KEY_GPU_NAME,    /* GPU -> string */
    NS_KEY_DOMAIN,      /* globalPid >> 24, NVTX domain -> string */
    NS_KEY_RANGES,      /* process, domain -> track of ranges */
    NS_KEY_METRIC,      /* typeId, metricId -> track */
    NS_KEY_METRIC_NAME,
    NS_KEY_STACK, /* id of a callchain -> call site */
    NS_KEY_COPY,  /* kinds of a copy -> its name */
};

/* ---- events ---- */

void stk__ns_read_device(ns_reader *r);  /* read_nsys_device.c: kernels, copies, fills, graphs, synchronization */
void stk__ns_read_calls(ns_reader *r);   /* read_nsys_host.c: calls of CUDA and of other libraries, OS calls */
void stk__ns_read_nvtx(ns_reader *r);    /* read_nsys_host.c */
void stk__ns_read_samples(ns_reader *r); /* read_nsys_samples.c */
void stk__ns_read_metrics(ns_reader *r); /* read_nsys_samples.c */

/* Counts an event with the given correlation of a device operation, and says which of the launch's operations it is. */
uint32_t stk__ns_launched(ns_reader *r, uint64_t process, int64_t correlation);
/* How many operations a call launched; 0: none. */
uint32_t stk__ns_launch_count(const ns_reader *r, uint64_t process, int64_t correlation);
/* An end of the arrow from a launch to its `nth` operation. */
void stk__ns_flow(ns_reader *r, uint32_t track, int64_t ts, unsigned phase, uint64_t process, int64_t correlation,
                  uint32_t nth);
/* A slice from `start` to `end`; notes what has no time, and drops the args that wait. */
bool stk__ns_slice(ns_rows *rows, uint32_t track, int start, int end, stk__string name, stk__string category);

static inline uint64_t stk__ns_pid_key(int64_t global_id)
{
    return (uint64_t)global_id >> 24;
}

#endif
