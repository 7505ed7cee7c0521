/* Recording of spans, steps and counters to a trace file. */
#ifndef STOKER_TRACE_H
#define STOKER_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Collects events from any number of threads and writes them from one thread of its own. */
typedef struct stk_recorder stk_recorder;

typedef struct stk_recorder_options {
    size_t struct_size;    /* sizeof(stk_recorder_options) */
    size_t memory_bytes;   /* cap on all memory of the recorder; 0: 16 MiB */
    const char *process;   /* name of the process in the trace; NULL: "stoker" */
    uint64_t limit_bytes;  /* size of the file from which on events are counted only; 0: 1 GiB, UINT64_MAX: none */
    uint64_t last_bytes;   /* not 0: the file holds the last events, in two thirds of these bytes up to all of them */
} stk_recorder_options;

typedef struct stk_recorder_stats {
    uint64_t events_written;
    uint64_t events_lost;  /* rings were full; totals per name are in the trace all the same */
    uint64_t bytes_written;
    uint64_t events_dropped; /* not in the file because of limit_bytes or last_bytes; the totals have them */
} stk_recorder_stats;

/*
 * Starts recording to `path`; the ending says how: .pftrace or .perfetto-trace (Perfetto protobuf), .json or .json.gz (Chrome).
 * The file grows as the run goes on and can be read up to the last whole packet after a crash. `options` may be NULL. Since 0.1.
 */
STK_API stk_status stk_recorder_open(const char *path, const stk_recorder_options *options, stk_recorder **out,
                                     stk_error *err);
/*
 * Finishes the file: ends spans that are open, writes what is left, then totals. Marks and runs that still go to the recorder,
 * also meanwhile, do no harm and are ignored from here on; it must be closed all the same, once nothing uses it. Called again
 * it does nothing, nor does close then tell a failure once more. Not by two threads at once. `out_stats` may be NULL. Since 0.1.
 */
STK_API stk_status stk_recorder_stop(stk_recorder *recorder, stk_recorder_stats *out_stats, stk_error *err);
/* Writes what is left, then totals per name with what was lost. Frees the recorder. `out_stats` may be NULL. Since 0.1. */
STK_API stk_status stk_recorder_close(stk_recorder *recorder, stk_recorder_stats *out_stats, stk_error *err);

/*
 * Marks of the calling thread. All may be called with NULL as recorder, which does nothing. Spans nest per thread.
 * A step lasts until the next call of stk_step or stk_step_end in the same thread. Names are copied when first seen. Since 0.1.
 */
STK_API void stk_step(stk_recorder *recorder, int64_t number);
STK_API void stk_step_end(stk_recorder *recorder);
STK_API void stk_span_begin(stk_recorder *recorder, const char *name);
STK_API void stk_span_end(stk_recorder *recorder);
STK_API void stk_counter(stk_recorder *recorder, const char *name, double value);

#ifdef __cplusplus
}
#endif
#endif
