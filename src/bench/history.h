/* A change log as people look at it: which benchmarks, from which row on, and where their levels step. */
#ifndef STK_BENCH_HISTORY_H
#define STK_BENCH_HISTORY_H

#include "base/str.h"
#include "bench/log.h"

/* A step of a benchmark. Rows are those of the log. */
typedef struct stk__log_change {
    size_t benchmark;
    size_t series;           /* rows of one machine and the same limits: only these are compared */
    size_t row, previous;    /* first of the new level; the one before it in the series */
    size_t after, up_to;     /* if not at `row`, then after the one and at the other at the latest */
    size_t first, last;      /* where the level before begins, and the one after ends */
    bool newest;             /* the benchmark's newest rows are at this level */
    double was, is;          /* levels */
    double ratio, low, high; /* is / was; NaN unless both are above 0 */
    double p;
    bool worse;
} stk__log_change;

typedef struct stk__history {
    const stk__log *log;
    size_t first;       /* row from which on it is shown */
    size_t *benchmarks; /* that are shown */
    size_t *begins;     /* their changes: from begins[i] to begins[i + 1] */
    size_t benchmark_count;
    stk__log_change *changes; /* of these, after the first row that is shown; by benchmark, then by row */
    size_t change_count, change_capacity;
} stk__history;

typedef struct stk__history_options {
    const char *const *names; /* of benchmarks; none: all */
    size_t name_count;
    size_t first;
    double min_effect; /* smaller steps are not told */
} stk__history_options;

/*
 * The log stays the caller's. Steps are looked for in all rows, also those before `first`. INVALID for a benchmark that
 * the log does not have, with those that it has.
 */
stk_status stk__history_init(stk__history *h, const stk__log *log, const stk__history_options *options, stk_error *err);
void stk__history_clear(stk__history *h);

/*
 * How much worse the newest level of a benchmark is than the one before it became worse for the last time, in one step
 * or in several without one for the better between them; the worst of all, with its newest change. 0: none is.
 */
double stk__history_worst(const stk__history *h, const stk__log_change **out_change);

/* "slower", "larger", "higher": what the benchmark is since. */
const char *stk__change_word(const stk__log *log, const stk__log_change *c);
/* "+9.8 % (8.1..11.6)"; levels where there is no ratio: "0 s -> 1.20 s". `interval`: the part in parentheses. */
void stk__change_size(const stk__log *log, const stk__log_change *c, bool interval, stk__text *out);
/* "almost certain (p<0.001)" */
void stk__change_sureness(const stk__log_change *c, stk__text *out);
/* "after 1a2b3c4, up to 5d6e7f8" where it need not be the one commit, or that it is not the commit; else nothing. */
void stk__change_range(const stk__log *log, const stk__log_change *c, stk__text *out);

#endif
