/* The trace model: plain columns that every reader fills and every question is asked of. Read-only once it is built. */
#ifndef STK_TRACE_MODEL_H
#define STK_TRACE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* Number of an interned string; 0 is the empty string, which also stands for "none". */
typedef uint32_t stk__string;

#define STK__NONE UINT32_MAX   /* no row of a table */
#define STK__NO_TIME INT64_MIN /* a sample or function without a time */
#define STK__NO_NUMBER INT64_MIN
/* All times and ends of slices lie within +-STK__TIME_MAX, so that differences of two never overflow. Sums of many may. */
#define STK__TIME_MAX (((int64_t)1 << 62) - 1)

/*
 * Why something in a file was left out (L), kept after a change of its time (T) or of another part (K), which is no news for whoever only
 * wants to know where the time goes. One list gives enum, name and text.
 */
#define STK__TRACE_REASONS(X)                                                                          \
    X(SYNTAX, syntax, L, "not an event: broken syntax")                                                \
    X(TRUNCATED, truncated, L, "cut off at the end of the file")                                       \
    X(COMPRESSION, compression, L, "the compressed data is damaged or cut off here")                   \
    X(NO_PHASE, no_phase, L, "event without a known phase")                                            \
    X(NO_TIME, no_time, L, "event without a usable time")                                              \
    X(END_WITHOUT_BEGIN, end_without_begin, L, "end without a begin")                                  \
    X(TOO_LARGE, too_large, L, "larger than the limit of its kind")                                    \
    X(TOO_DEEP, too_deep, L, "nested too deep")                                                        \
    X(UNKNOWN_KIND, unknown_kind, L, "of a kind that is not used here")                                \
    X(BAD_REFERENCE, bad_reference, L, "refers to something that is not in the file")                  \
    X(BAD_VALUE, bad_value, L, "value that cannot be read")                                            \
    X(DUPLICATE, duplicate, L, "given before")                                                         \
    X(NO_END, no_end, T, "begin without an end, closed at the end of the file")                        \
    X(NEGATIVE_DURATION, negative_duration, T, "negative duration, set to 0")                          \
    X(NO_DURATION, no_duration, T, "complete event without a duration, set to 0")                      \
    X(CPU_DURATION, cpu_duration, T, "complete event with CPU time alone, taken as its duration")      \
    X(LONG_DURATION, long_duration, T, "duration out of range, cut off at the limit")                  \
    X(FRACTION, fraction, T, "weights with a fraction, all kept in thousandths or rounded")            \
    X(NUMBER, number, K, "NaN, infinity, N/A or a number past 64 bits")                                \
    X(TEXT, text, K, "text that is not UTF-8, or with raw control bytes")                              \
    X(ESCAPE, escape, K, "broken escape in a string")                                                  \
    X(TEXT_ID, text_id, K, "process or thread whose id is not an integer")                             \
    X(DUPLICATE_KEY, duplicate_key, K, "key given twice in an object, the last one counts")            \
    X(NO_PLACE, no_place, K, "detail of what is kept, for which there is no place here")               \
    X(OVERLAP, overlap, K, "slice that overlaps others on its track, put on a second lane")            \
    X(ROUNDED, rounded, K, "overlap no larger than the rounding of the file's times, taken as nested") \
    X(NO_FLOW_START, no_flow_start, K, "flow end or step without a start")                             \
    X(FLOW_AGAIN, flow_again, K, "flow that starts again before it ended, the first start counts")     \
    X(NO_FLOW_SLICE, no_flow_slice, K, "flow without a slice to bind to")                              \
    X(REDEFINED, redefined, K, "name of a process or thread given again with another value")           \
    X(LOST_BY_RECORDER, lost_by_recorder, T, "events that the recorder says it lost")                  \
    X(NO_EVENTS, no_events, T, "file without any event that can be used")                              \
    X(PAST_LIMIT, past_limit, T, "events that the recorder left out, by the limit on its file's size")

typedef enum stk__trace_reason {
#define STK__REASON_ENUM(name, lower, kind, text) STK__REASON_##name,
    STK__TRACE_REASONS(STK__REASON_ENUM)
#undef STK__REASON_ENUM
        STK__REASON_COUNT
} stk__trace_reason;

/* "end_without_begin"; its text; whether the event was left out. */
const char *stk__trace_reason_name(stk__trace_reason reason);
const char *stk__trace_reason_text(stk__trace_reason reason);
bool stk__trace_reason_loses(stk__trace_reason reason);
/* Whether it is worth a line to everyone: something is missing, or a time is not that of the file. */
bool stk__trace_reason_matters(stk__trace_reason reason);

/* What happened to one file's content, per reason. */
typedef struct stk__trace_note {
    uint32_t file;
    uint32_t reason;
    uint64_t count;
    int64_t offset; /* of the first case, in the file after decompression; -1: not known */
} stk__trace_note;

typedef enum stk__trace_clock {
    STK__CLOCK_UNKNOWN,   /* any zero */
    STK__CLOCK_MONOTONIC, /* of the machine */
    STK__CLOCK_BOOT,
    STK__CLOCK_REALTIME, /* since 1970 */
} stk__trace_clock;

typedef struct stk__trace_file {
    stk__string path;
    stk__string format;      /* "chrome", "perfetto", ... */
    stk__string compression; /* "", "gzip", "zstd" */
    uint32_t clock;          /* stk__trace_clock */
    uint64_t size_bytes;     /* on disk; 0 for a pipe */
    uint64_t text_bytes;     /* after decompression */
    uint64_t events;         /* all that the file had, kept or not */
    int64_t resolution_ns;   /* of its times: 1000 for whole microseconds, 1 for those with decimals, 0: exact */
    int64_t realtime_ns;     /* added to its times gives ns since 1970; STK__NO_NUMBER: not known */
    int64_t rank;            /* of a distributed run; -1: not known */
    int64_t shift_ns;        /* already added to its times, by a merge */
} stk__trace_file;

/*
 * Facts about a file, as text: "distributedInfo.rank", "traceName", ... The reader of Chrome JSON adds one of its own, STK__FACT_TIMELINE: a
 * timeline of TensorFlow 1 (its timeline.py), which holds one step, or several of them that were put into one file.
 */
#define STK__FACT_TIMELINE "timeline"
#define STK__TIMELINE_TF1 "tensorflow1"
#define STK__TIMELINE_TF1_JOINED "tensorflow1_joined"
typedef struct stk__trace_fact {
    uint32_t file;
    stk__string key, value;
} stk__trace_fact;

typedef struct stk__trace_process {
    uint32_t file;        /* joined: the first one; tracks have their own */
    stk__string pid_text; /* when the file's id is no integer; 0 else */
    int64_t pid;
    stk__string name, labels;
    int64_t sort_index; /* STK__NO_NUMBER: none */
} stk__trace_process;

typedef struct stk__trace_thread {
    uint32_t process;
    stk__string tid_text;
    int64_t tid;
    stk__string name;
    uint32_t track; /* its own track, STK__NONE: it has none yet */
    int64_t sort_index;
} stk__trace_thread;

typedef enum stk__track_kind {
    STK__TRACK_THREAD,  /* also a GPU's stream */
    STK__TRACK_PROCESS, /* events of a process as a whole */
    STK__TRACK_GLOBAL,
    STK__TRACK_ASYNC, /* slices of one id, beside threads */
    STK__TRACK_COUNTER,
} stk__track_kind;

/* Weights of two units are never added up. ALLOCATED are bytes over a time, which may be the same memory many times. */
typedef enum stk__unit {
    STK__UNIT_NS,
    STK__UNIT_SAMPLES,
    STK__UNIT_BYTES,
    STK__UNIT_ALLOCATED,
    STK__UNIT_NONE, /* the last one */
} stk__unit;

typedef struct stk__trace_track {
    uint32_t kind;                  /* stk__track_kind */
    uint32_t file, process, thread; /* STK__NONE where it has none */
    stk__string name;  /* of async tracks, counters and lanes that have one; 0: named as the thread or process */
    stk__string scope; /* async: category or scope of the id; counter: its unit */
    stk__string id;    /* async: the id as text */
    uint32_t unit;     /* of the weights of samples on it: stk__unit */
    uint32_t parent;   /* a lane: the track that it belongs to; a child track: its parent; STK__NONE */
    uint32_t lane;     /* 0: the track itself; 1...: slices that overlapped on `parent` */
    uint32_t first_slice, slice_count;     /* its slices lie together, by ts, then longer first */
    uint32_t first_counter, counter_count; /* likewise, by ts */
    uint32_t first_sample, sample_count;   /* likewise, by ts; those without time in order of the file */
} stk__trace_track;

enum {
    STK__SLICE_INSTANT = 1,    /* dur is 0 and means nothing */
    STK__SLICE_UNFINISHED = 2, /* the file had no end of it */
    STK__SLICE_CLAMPED = 4,    /* its duration was negative or missing */
};

typedef struct stk__slices {
    size_t count;
    int64_t *ts, *dur; /* ns; dur >= 0; see STK__TIME_MAX */
    uint32_t *track;
    stk__string *name, *category;
    uint32_t *args;   /* first row of its args; 0: none */
    uint32_t *parent; /* slice around it on the same track, a lower number; STK__NONE */
    uint16_t *depth;  /* 0: outermost; stops at 65535 */
    uint8_t *flags;
} stk__slices;

typedef enum stk__arg_type {
    STK__ARG_NULL,
    STK__ARG_BOOL,
    STK__ARG_INT,
    STK__ARG_DOUBLE,
    STK__ARG_STRING, /* stk__string */
    STK__ARG_JSON,   /* stk__string of valid JSON: an array, an object, or a number past 64 bits */
} stk__arg_type;

enum { STK__ARG_LAST = 0x80, STK__ARG_TYPE = 0x0f };

typedef union stk__arg_value {
    int64_t integer; /* BOOL: 0 or 1 */
    double real;
    uint64_t string; /* stk__string */
} stk__arg_value;

/* Row 0 is unused, so that 0 can mean "no args". The rows of one set follow each other. */
typedef struct stk__args {
    size_t count;
    stk__string *key;
    uint8_t *type; /* stk__arg_type, | STK__ARG_LAST on the last row of a set */
    stk__arg_value *value;
} stk__args;

typedef struct stk__counters {
    size_t count;
    int64_t *ts;
    uint32_t *track;
    double *value;
} stk__counters;

enum { STK__FLOW_START, STK__FLOW_STEP, STK__FLOW_END, STK__FLOW_PHASE = 3, STK__FLOW_ENCLOSING = 4 };

/* One flow: what joins its points. */
typedef struct stk__trace_flow_key {
    uint32_t file;
    stk__string name, category, id;
} stk__trace_flow_key;

typedef struct stk__flow_points {
    size_t count;
    int64_t *ts;
    uint32_t *track;
    uint32_t *key;   /* row of flow_keys */
    uint8_t *phase;  /* STK__FLOW_START..., | STK__FLOW_ENCLOSING: binds to the slice around it, not to the next one */
    uint32_t *slice; /* the slice it is bound to; STK__NONE */
} stk__flow_points;

/*
 * Arrows between slices, worked out from the points of each key, by time: from the start to each end; where there are
 * steps, from the start to the first step, from step to step, and from the last of them to each end.
 */
typedef struct stk__flows {
    size_t count;
    uint32_t *out, *in; /* slices */
    uint32_t *key;
} stk__flows;

typedef struct stk__trace_frame {
    stk__string name, file, module;
    int32_t line;   /* 0: not known */
    uint32_t flags; /* STK__FRAME_KERNEL... */
} stk__trace_frame;

enum { STK__FRAME_KERNEL = 1, STK__FRAME_JIT = 2, STK__FRAME_INLINED = 4 };

/* A place in the tree of stacks. Parents have lower numbers. */
typedef struct stk__trace_callsite {
    uint32_t parent; /* STK__NONE: outermost */
    uint32_t frame;
} stk__trace_callsite;

typedef struct stk__samples {
    size_t count;
    int64_t *ts;        /* STK__NO_TIME: none */
    uint32_t *track;    /* its `unit` is that of the weight */
    uint32_t *callsite; /* the innermost frame; STK__NONE: empty stack */
    int64_t *weight;
    stk__string *event; /* "cycles", "cpu-clock"; 0 */
} stk__samples;

/* What pstats knows of a function: totals without stacks or times. */
typedef struct stk__trace_function {
    uint32_t file; /* of the trace */
    uint32_t frame;
    int64_t calls, primitive_calls;
    int64_t self_ns, total_ns; /* tottime, cumtime */
} stk__trace_function;

/* Calls of one function by another. */
typedef struct stk__trace_call {
    uint32_t caller, callee;                           /* functions */
    int64_t calls, primitive_calls, self_ns, total_ns; /* STK__NO_NUMBER where the file does not say */
} stk__trace_call;

/* Exact totals that a recorder wrote, also for events that it lost. */
typedef struct stk__trace_total {
    uint32_t file;
    stk__string track, name;
    uint64_t count, total_ns, lost;
} stk__trace_total;

/* Small tables, as arrays of structs. */
#define STK__TRACE_TABLES(X)                          \
    X(stk__trace_file, files, file_count)             \
    X(stk__trace_fact, facts, fact_count)             \
    X(stk__trace_note, notes, note_count)             \
    X(stk__trace_process, processes, process_count)   \
    X(stk__trace_thread, threads, thread_count)       \
    X(stk__trace_track, tracks, track_count)          \
    X(stk__trace_flow_key, flow_keys, flow_key_count) \
    X(stk__trace_frame, frames, frame_count)          \
    X(stk__trace_callsite, callsites, callsite_count) \
    X(stk__trace_function, functions, function_count) \
    X(stk__trace_call, calls, call_count)             \
    X(stk__trace_total, totals, total_count)

/* Columns; those of one group have the same length. */
#define STK__TRACE_COLUMNS(X)        \
    X(slices, int64_t, ts)           \
    X(slices, int64_t, dur)          \
    X(slices, uint32_t, track)       \
    X(slices, stk__string, name)     \
    X(slices, stk__string, category) \
    X(slices, uint32_t, args)        \
    X(slices, uint32_t, parent)      \
    X(slices, uint16_t, depth)       \
    X(slices, uint8_t, flags)        \
    X(args, stk__string, key)        \
    X(args, uint8_t, type)           \
    X(args, stk__arg_value, value)   \
    X(counters, int64_t, ts)         \
    X(counters, uint32_t, track)     \
    X(counters, double, value)       \
    X(points, int64_t, ts)           \
    X(points, uint32_t, track)       \
    X(points, uint32_t, key)         \
    X(points, uint8_t, phase)        \
    X(points, uint32_t, slice)       \
    X(flows, uint32_t, out)          \
    X(flows, uint32_t, in)           \
    X(flows, uint32_t, key)          \
    X(samples, int64_t, ts)          \
    X(samples, uint32_t, track)      \
    X(samples, uint32_t, callsite)   \
    X(samples, int64_t, weight)      \
    X(samples, stk__string, event)

typedef struct stk__trace {
    uint32_t string_count;
    uint64_t *string_offset; /* string_count + 1; each string has a NUL behind it, which is not part of it */
    char *string_bytes;

    stk__slices slices;
    stk__args args;
    stk__counters counters;
    stk__flow_points points;
    stk__flows flows;
    stk__samples samples;

#define STK__TABLE_FIELD(type, name, count) \
    type *name;                             \
    size_t count;
    STK__TRACE_TABLES(STK__TABLE_FIELD)
#undef STK__TABLE_FIELD

    int64_t start_ns, end_ns; /* of all slices, counters and samples with a time; 0 and 0 when there are none */
    /* Asked by long work such as writing; true ends it with STK_CANCELLED. Set by whoever opened the trace; NULL: never. */
    bool (*stopped)(void);
    struct stk__store *store; /* what the memory is: store.h */
} stk__trace;

/* Valid for the trace's life, NUL-terminated (but may hold NUL inside). Any number is safe: unknown ones give "". */
const char *stk__trace_text(const stk__trace *t, stk__string s, size_t *out_size);
static inline const char *stk__trace_str(const stk__trace *t, stk__string s)
{
    return s < t->string_count ? t->string_bytes + t->string_offset[s] : "";
}
/* The number of a text, or STK__NONE when no row has it. A linear or hashed search: not for inner loops. */
stk__string stk__trace_find(const stk__trace *t, const char *text, size_t size);

/* The name of the track alone, as Perfetto has it: one of async events without a name is called as its first event. */
stk__string stk__trace_track_name(const stk__trace *t, const stk__trace_track *track);
/* How people call a track: the name of thread, lane, counter or process; "thread 12 of python", "python: stream 7". */
void stk__trace_track_label(const stk__trace *t, uint32_t track, stk__text *out);

/* Bytes of the columns, and whether they lie in a temporary file because of the cap. */
uint64_t stk__trace_bytes(const stk__trace *t);
bool stk__trace_spilled(const stk__trace *t);
/*
 * Gives memory of columns in a file back to the system; they are read again when touched. Long passes over the columns
 * call it about every 2^20 rows, so that --memory holds. Cheap and harmless at any time, also when nothing is spilled.
 */
void stk__trace_trim(const stk__trace *t);
/* To be called before columns are changed: from then on, columns of the cache are not given back. */
void stk__trace_will_change(stk__trace *t);

void stk__trace_free(stk__trace *t);

/* ---- opening ---- */

/* Which processes of different files are one: those of equal id and name, when both files are TensorFlow 1 timelines, always, or never. */
typedef enum stk__join_processes { STK__JOIN_AUTO, STK__JOIN_ALWAYS, STK__JOIN_NEVER } stk__join_processes;
/* By its name; NULL is "auto". False: unknown. */
bool stk__join_find(const char *name, stk__join_processes *out);

typedef struct stk__trace_options {
    uint64_t memory_bytes; /* cap on the columns in memory, the rest goes to a temporary file; 0: no cap */
    const char *temp_dir;  /* for that file; NULL: "/var/tmp" */
    const char *cache_dir; /* where columns are kept for the next time; NULL: no cache */
    uint64_t cache_bytes;  /* cap on all files in it; 0: 4 GiB */
    const char *format;    /* read as this format, not by content; NULL */
    stk__join_processes join;
    /* Told now and then how far the reading is; false stops it with STK_CANCELLED. total is 0 for a pipe. May be NULL. */
    bool (*progress)(void *arg, const char *path, uint64_t done_bytes, uint64_t total_bytes);
    void *progress_arg;
} stk__trace_options;

/*
 * Reads files (paths, no patterns; "-" is standard input) into one model. A file that is damaged gives what is good of it, and notes; one
 * that is no trace at all, or cannot be read, fails the call, and so do files that have no event among them. The trace is what the files
 * say, in order.
 */
stk_status stk__trace_open(const char *const *paths, size_t count, const stk__trace_options *options, stk__trace **out,
                           stk_error *err);

#endif
