/* Sweeps over sorted slices: gaps of a track, and how much of one set runs while another does. */
#ifndef STK_ANALYZE_INTERVALS_H
#define STK_ANALYZE_INTERVALS_H

#include "analyze/select.h"

/* Time on a track in which none of the selected slices runs, between the first and the last. */
typedef struct stk__gap {
    uint32_t track;
    int64_t ts, dur;
    uint32_t before, after; /* slices at both sides */
} stk__gap;

typedef struct stk__gaps {
    stk__gap *rows;
    size_t count;
} stk__gaps;

/*
 * Gaps of at least min_ns, by track and time; lanes of one track count as one. limit > 0 keeps the longest `limit` of all, longest
 * first. Instants do not fill a gap.
 */
stk_status stk__gaps_find(const stk__trace *t, const stk__selection *select, int64_t min_ns, size_t limit, stk__gaps *out,
                          stk_error *err);
void stk__gaps_clear(stk__gaps *gaps);

/* Half-open, sorted, disjoint. */
typedef struct stk__span {
    int64_t start, end;
} stk__span;

typedef struct stk__spans {
    stk__span *rows;
    size_t count, capacity;
} stk__spans;

/* Union of the selected slices over all their tracks (instants left out). */
stk_status stk__spans_union(const stk__trace *t, const stk__selection *select, stk__spans *out, stk_error *err);
/* Adds one span anywhere; stk__spans_normalize sorts and joins. */
bool stk__spans_add(stk__spans *s, int64_t start, int64_t end);
void stk__spans_normalize(stk__spans *s);
int64_t stk__spans_total(const stk__spans *s);
/* Time that both have. */
int64_t stk__spans_overlap(const stk__spans *a, const stk__spans *b);
/* Time of `a` within [start, end). */
int64_t stk__spans_within(const stk__spans *a, int64_t start, int64_t end);
void stk__spans_clear(stk__spans *s);

/* For each pair of names: how long both ran at once, on whatever tracks. */
typedef struct stk__overlap {
    int64_t a_ns, b_ns, both_ns;
} stk__overlap;
stk_status stk__overlap_of(const stk__trace *t, const stk__selection *a, const stk__selection *b, stk__overlap *out,
                           stk_error *err);

#endif
