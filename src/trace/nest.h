/* Turns slices that arrive in order of their ends into begins and ends that nest, also across batches. */
#ifndef STK_TRACE_NEST_H
#define STK_TRACE_NEST_H

#include "trace/ring.h"

enum { STK__NEST_ROOTS = 64, STK__NEST_DEPTH = 128 };

typedef struct stk__interval {
    int64_t start, end; /* as shown */
} stk__interval;

/*
 * What has been written on one row: its newest outermost slices, oldest first and disjoint. A reader sorts by time and
 * keeps file order for ties, so this is what tells whether an outer slice that comes late still nests.
 */
typedef struct stk__nest {
    stk__interval roots[STK__NEST_ROOTS];
    size_t count;
    int64_t forgotten_end; /* end of the newest root that was dropped from `roots` */
} stk__nest;

typedef struct stk__nest_sink {
    /* `start_ns` may be 1 less than the slice's own start, see nest.c. */
    void (*begin)(void *context, const stk__event *slice, int64_t start_ns);
    void (*end)(void *context, int64_t end_ns);
    void *context;
} stk__nest_sink;

void stk__nest_init(stk__nest *nest);

/* Puts `slice`, recorded after all in `sorted`, in its place: by start, longer first, then later recorded first. */
void stk__nest_insert(const stk__event **sorted, size_t count, const stk__event *slice);

/*
 * Passes the sorted slices on as begins and ends in file order. Those that would not nest are kept, in order, at the
 * front of `sorted`; returns their number.
 */
size_t stk__nest_place(stk__nest *nest, const stk__event **sorted, size_t count, const stk__nest_sink *sink);

#endif
