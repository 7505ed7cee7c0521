/* What the ways of finding the slow stage share: sums by name, and what a stack of slices says. */
#ifndef STK_ANALYZE_DIAGNOSE_STAGE_H
#define STK_ANALYZE_DIAGNOSE_STAGE_H

#include "analyze/diagnose_impl.h"
#include "analyze/python_frames.h"
#include "trace/keymap.h"

/* Time of one function: of slices with one name and, where args give it, one file. */
typedef struct stk__stage_sum {
    stk__string name, file;
    uint32_t group; /* sums of different groups are kept apart until they are taken */
    int64_t line;
    double ns;
    uint64_t calls;
} stk__stage_sum;

typedef struct stk__stage_finder {
    stk__diagnosis *d;
    const stk__classifier *c;
    const uint32_t *owners;
    uint32_t rank;
    int64_t start, end; /* of the rank's steps */
    stk__python_keys keys;
    stk__stage_sum *sums;
    size_t sum_count, sum_capacity;
    stk__keymap sum_map;
    bool failed; /* out of memory */
} stk__stage_finder;

/* The part of a slice within the steps. */
double stk__stage_clipped(const stk__stage_finder *f, size_t slice);
/* The sum that a slice counts for: its row, or STK__NONE when memory is out. */
uint32_t stk__stage_sum_at(stk__stage_finder *f, uint32_t group, size_t slice);
uint32_t stk__stage_sum_named(stk__stage_finder *f, uint32_t group, stk__string name, stk__string file, int64_t line);
/* Makes the stage's rows of the sums, and empties these. */
void stk__stage_take(stk__stage_finder *f, stk__stage *stage);
void stk__stage_drop(stk__stage_finder *f);

/*
 * The ways, each with what it found in stage->kind. False: out of memory.
 * diagnose_ops.c, diagnose_timeline.c, diagnose_iterators.c, diagnose_workers.c, diagnose_host.c, diagnose_inside.c
 */
bool stk__stage_ops(stk__stage_finder *f, stk__stage *stage, uint32_t owner);
bool stk__stage_timeline(stk__stage_finder *f, stk__stage *stage);
bool stk__stage_iterators(stk__stage_finder *f, stk__stage *stage);
bool stk__stage_workers(stk__stage_finder *f, stk__stage *stage);
bool stk__stage_host(stk__stage_finder *f, stk__stage *stage);
bool stk__stage_inside(stk__stage_finder *f, stk__stage *stage);

/* Whether a track is that of a process which feeds the trainers. */
bool stk__stage_is_helper(const stk__stage_finder *f, uint32_t track);
/* Whether two paths of iterators are of one stage: "Interleave[0]::Map" and "Interleave[1]::Map". */
bool stk__stage_same_iterator(const char *a, size_t a_size, const char *b, size_t b_size);

/* ---- diagnose_stack.c: whose time it is, by the slices around ---- */

/*
 * Of Python, people want to see the function they wrote: time counts for the innermost own one, whatever library code
 * it is in. Without any, for the innermost that has a file.
 */
typedef struct stk__stage_frame {
    uint32_t slice;        /* that the time below counts for */
    bool own, python;      /* `slice` is an own Python function; is a Python function with a file */
    bool queues;           /* code of queues, pipes and locks is around */
    bool idle;             /* waits for somebody else */
    bool in_wait, is_wait; /* for diagnose_inside.c */
} stk__stage_frame;

/* What a slice inside of `outer` means; zeroed with slice STK__NONE: inside of nothing. */
stk__stage_frame stk__stage_frame_of(const stk__stage_finder *f, const stk__stage_frame *outer, uint32_t slice);

/* The slices that are open at one time on a track, outermost first. */
typedef struct stk__stage_stack {
    stk__stage_frame *frames;
    uint32_t *slices;
    size_t count, capacity, slice_capacity;
} stk__stage_stack;

bool stk__stage_stack_push(stk__stage_stack *s, uint32_t slice, const stk__stage_frame *frame);
void stk__stage_stack_clear(stk__stage_stack *s);
/* Whether somebody who is in this function or span waits, by its name alone. */
bool stk__sounds_idle(const char *name, size_t size);

#endif
