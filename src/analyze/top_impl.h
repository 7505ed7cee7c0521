/* What the files of `top` share: groups of rows, percentiles, and one function per source. */
#ifndef STK_ANALYZE_TOP_IMPL_H
#define STK_ANALYZE_TOP_IMPL_H

#include <pthread.h>

#include "analyze/diff_impl.h"
#include "analyze/steps.h"
#include "analyze/top.h"
#include "trace/keymap.h"

/* ---- groups: from a slice or a sample to the row it counts for ---- */

/* Not chosen by name or category; not chosen by time; of the profiler itself; then the groups. */
enum { STK__GROUP_OTHER, STK__GROUP_OUTSIDE, STK__GROUP_PROFILER, STK__GROUP_FIRST };

typedef struct stk__top_group {
    uint32_t id;      /* what `by` makes of it: string, track, file, step or process; see stk__grouping_id */
    stk__string name; /* of with_name; else 0 */
} stk__top_group;

typedef struct stk__grouping {
    const stk__trace *trace;
    stk__top_by by;
    bool with_name;
    bool plain;    /* by name, and no selection but by name and track */
    bool constant; /* all slices of a track are of one group */
    stk__chosen chosen;
    stk__steps steps;
    uint32_t id_count;
    /* id -> group, STK__NONE: not met yet; without with_name. Read without the lock, and set once. */
    uint32_t *map;
    stk__keymap pairs; /* with_name */
    bool fold, leave_out;
    stk__string profiler_category; /* 0: none in this trace, or not left out */
    /* guarded by lock, where several threads may meet new ids: `plain` and `constant` */
    pthread_mutex_t lock;
    stk__top_group *groups;
    size_t count, capacity; /* the count may also be read without the lock, after a group was found */
    bool failed;            /* memory ran out; what came later is in GROUP_OTHER */
    stk__diff_keys stems;   /* of numbered names */
    stk__string *stem_name; /* by stem: the first name that has it; all others count as it */
    size_t stem_capacity;
    uint8_t *folded; /* by string: FOLDED_... */
    /* of the track that is on; one thread only */
    uint32_t track;
    uint32_t track_id;                      /* by thread, file and process */
    size_t step_first, step_end, step_last; /* steps of its process; the one that was found last */
} stk__grouping;

stk_status stk__grouping_init(stk__grouping *g, const stk__trace *t, const stk__top_options *o, stk_error *err);
void stk__grouping_clear(stk__grouping *g);
/* Rows that follow are of this track. */
void stk__grouping_track(stk__grouping *g, uint32_t track);
/* The id of a row; `name` and `category` as the slice has them, for samples 0 and the event. */
uint32_t stk__grouping_id(stk__grouping *g, int64_t ts, stk__string name, stk__string category);
/* The group of an id, made when it is new. */
uint32_t stk__grouping_find(stk__grouping *g, uint32_t id, stk__string name);
/* Whether stk__grouping_slices may be called by several threads at once. */
static inline bool stk__grouping_parallel(const stk__grouping *g)
{
    return g->plain || g->constant;
}
/* The groups of slices [first, first + count), which lie on the track. */
void stk__grouping_slices(stk__grouping *g, uint32_t track, size_t first, size_t count, uint32_t *out);
/* Groups so far, those that came out of stk__grouping_slices at least. */
static inline size_t stk__grouping_count(const stk__grouping *g)
{
    return __atomic_load_n(&g->count, __ATOMIC_RELAXED);
}
/* Fills in key, name and row. */
void stk__grouping_row(const stk__grouping *g, uint32_t group, stk__top_row *out);
/* The name that a numbered one counts as: itself, or the first with the same stem. */
stk__string stk__grouping_fold(stk__grouping *g, stk__string name);
/* Adds a name, with '*' for its number where it stands for several. */
void stk__grouping_name(const stk__grouping *g, stk__string name, stk__text *out);
/* Whether rows need a label, and what it is (without the name). */
bool stk__grouping_labelled(const stk__grouping *g);
void stk__grouping_label(const stk__grouping *g, const stk__top_row *row, stk__text *out);

/* ---- ranks: exact percentiles of many groups at once, in memory that does not grow with the rows ---- */

/*
 * A value is looked for in a range that passes over all values make narrower, until it is one value, or so few values
 * are in the ranges that they can be kept and sorted out.
 */
enum { STK__RANKS = 2, STK__RANK_BUCKETS = 960 };

typedef struct stk__rank_range {
    int64_t low, high;    /* the value lies in [low, high] */
    uint64_t rank, count; /* it is number `rank` (from 0) of the `count` values in there */
} stk__rank_range;

typedef struct stk__rank_watch stk__rank_watch;

typedef struct stk__ranks {
    size_t groups;
    stk__rank_range (*ranges)[STK__RANKS];
    bool parallel; /* several threads call `take` at once */
    /* of the pass that is on */
    struct stk__rank_bounds *bounds;
    stk__rank_watch *watches;
    int64_t *values;
    uint32_t *buckets;
} stk__ranks;

/* Bucket of a value >= 0: 16 to an octave. More would find the percentiles faster, but miss the cache more often. */
static inline uint32_t stk__rank_bucket(uint64_t value)
{
    const int octave = 59 - __builtin_clzll(value | 16);
    return (uint32_t)(octave << 4) + (uint32_t)(value >> octave);
}

stk_status stk__ranks_init(stk__ranks *r, size_t groups, stk_error *err);
void stk__ranks_clear(stk__ranks *r);
/* The p50 and p95 of `count` values between min and max. */
void stk__ranks_want(stk__ranks *r, size_t group, uint64_t count, int64_t min, int64_t max);
/* What a first pass has counted, by stk__rank_bucket. */
void stk__ranks_narrow(stk__ranks *r, size_t group, const uint32_t *buckets);
/* Another pass is needed: *out_more, then all values through `take`, then `settle`. */
stk_status stk__ranks_plan(stk__ranks *r, bool *out_more, stk_error *err);
void stk__ranks_take(stk__ranks *r, const uint32_t *group, const int64_t *values, size_t count);
void stk__ranks_settle(stk__ranks *r);
static inline int64_t stk__ranks_get(const stk__ranks *r, size_t group, size_t which)
{
    return r->ranges[group][which].low;
}

/* ---- sums that stop at the ends of int64 ---- */

static inline int64_t stk__add_ns(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? (a < 0 ? INT64_MIN : INT64_MAX) : sum;
}

/* ---- the run: what shares are of ---- */

stk_status stk__top_run(const stk__trace *t, const stk__top_options *o, const stk__chosen *chosen, stk__top *out,
                        stk_error *err);

/* ---- sources; each fills rows and totals, and labels where it has its own ---- */

stk_status stk__top_slices(const stk__trace *t, const stk__top_options *o, stk__top *out, stk_error *err);
stk_status stk__top_samples(const stk__trace *t, const stk__top_options *o, stk__top *out, stk_error *err);
stk_status stk__top_functions(const stk__trace *t, const stk__top_options *o, stk__top *out, stk_error *err);

/* One more row, zeroed but for what profiles do not have. NULL when memory is out. */
stk__top_row *stk__top_add(stk__top *top, size_t *capacity);
/* The labels of rows by group. */
stk_status stk__top_label_groups(stk__top *top, const stk__grouping *g, stk_error *err);
/* "function (file:line)"; a line of 0 or below is left out. */
void stk__frame_label(const stk__trace *t, const stk__trace_frame *frame, int32_t line, stk__text *out);

#endif
