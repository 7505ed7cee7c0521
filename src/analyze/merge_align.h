/* Estimates of how two clocks differ, from events that both saw. */
#ifndef STK_ANALYZE_MERGE_ALIGN_H
#define STK_ANALYZE_MERGE_ALIGN_H

#include "analyze/merge.h"

/* An event that happens on both sides at nearly the same time. */
typedef struct stk__sync_event {
    uint64_t kind; /* what has to be equal: name and category */
    int64_t at;    /* the end of a collective */
    int64_t dur;
} stk__sync_event;

/* Of one file, by kind, then by time. */
typedef struct stk__sync_events {
    stk__sync_event *rows;
    size_t count, capacity;
} stk__sync_events;

void stk__sync_events_sort(stk__sync_events *e);

/* A step that a marker numbers; by number, each number once. */
typedef struct stk__sync_step {
    int64_t number, ts;
} stk__sync_step;

/* How `b` has to move to agree with `a`. */
typedef struct stk__clock_fit {
    stk__retime retime;
    size_t shared, matched;
    int64_t error_ns, low_ns, high_ns;
    bool ambiguous;
    int64_t other_shift_ns;
} stk__clock_fit;

/*
 * Both return false when there is nothing to match or what there is does not fit, with out->shared saying how much
 * there was; *out_nomem is set when memory ran out. `guesses` are rough shifts from other sources, most trusted first.
 */
bool stk__fit_events(const stk__sync_events *a, const stk__sync_events *b, int64_t resolution_ns,
                     const int64_t *guesses, size_t guess_count, stk__clock_fit *out, bool *out_nomem);
bool stk__fit_steps(const stk__sync_step *a, size_t na, const stk__sync_step *b, size_t nb, int64_t resolution_ns,
                    stk__clock_fit *out, bool *out_nomem);

#endif
