/* The recorder as the engine sees it: tracks with rings, and interned names. */
#ifndef STK_TRACE_RECORDER_H
#define STK_TRACE_RECORDER_H

#include <stdint.h>

#include <stoker/trace.h>

/* One row of the timeline with a ring of its own. Written by one thread at a time. */
typedef struct stk__track stk__track;

/* A new track, named as in "worker 0"; lives until the recorder closes. NULL when memory is out: slices on NULL do nothing. */
stk__track *stk__recorder_track(stk_recorder *recorder, const char *name);

/* Memory that the recorder has taken, never more than its cap. */
size_t stk__recorder_memory(const stk_recorder *recorder);

/* A number for (name, category), the same for the same pair. Not for hot paths. */
int32_t stk__recorder_name(stk_recorder *recorder, const char *name, const char *category);

/* Up to two numbers that go with a slice; names are interned by stk__recorder_name(recorder, NAME, "arg"). 0 means none. */
typedef struct stk__slice_args {
    int32_t name[2];
    int64_t value[2];
} stk__slice_args;

/* A span that has ended. A few ns; never blocks, never allocates. `args` may be NULL. Nesting is given by the times. */
void stk__track_slice(stk__track *track, int32_t name, int64_t start_ns, int64_t end_ns, const stk__slice_args *args);
/* The same for spans that may be too short to show: under 1 µs they count in the totals of their name alone. */
#define STK__BRIEF_NS 1000
void stk__track_brief(stk__track *track, int32_t name, int64_t start_ns, int64_t end_ns);
/* A value of a counter at this time. Counter tracks are per process, one for each name. */
void stk__track_counter(stk__track *track, int32_t name, int64_t at_ns, double value);

#endif
