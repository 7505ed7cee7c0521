/* Comparisons of the variants of a result: statistics, correction for many comparisons, verdicts. */
#ifndef STK_BENCH_COMPARE_H
#define STK_BENCH_COMPARE_H

#include "bench/result.h"
#include "stats/describe.h"
#include "stats/paired.h"
#include "stats/power.h"
#include "stats/unpaired.h"
#include "stats/verdict.h"

/* Fewer rounds than this never give a verdict at 95 %. */
enum { STK__LEAST_ROUNDS = 6 };

/* What CPU time says where wall time cannot tell: an offer, not the verdict. */
typedef struct stk__offer {
    bool made;
    double ratio, low, high, p;
    stk__verdict verdict;
} stk__offer;

typedef struct stk__comparison {
    size_t a, b; /* variants; the ratio is b / a */
    size_t metric;
    bool valid;  /* there are figures: both sides have runs, all above 0 */
    bool paired; /* `pair` holds, else `free` ("unpaired: order not controlled") */
    stk__paired pair;
    stk__unpaired free;
    double ratio, low, high; /* of the one that holds; the interval is widened when there are many comparisons */
    double p, p_holm;        /* signed-rank or Mann-Whitney; corrected over the comparisons of the set */
    double median;           /* without the ranks: median of the ratios, or ratio of the medians */
    double rest;             /* the same without rounds that are far from all others */
    stk__means means;        /* what medians do not see; p corrected */
    double noise;            /* of the log-ratio of a round, for plans */
    size_t n;                /* rounds, or runs of the smaller side */
    stk__verdict verdict;
    stk__offer cpu;
    size_t more_rounds; /* when inconclusive; 0: cannot be said */
    bool exact;         /* counts that repeat: low and high are the extremes of all runs, and there is no p */
    char *withheld;     /* why it is inconclusive when that is not a matter of statistics, or NULL */
} stk__comparison;

typedef struct stk__comparisons {
    stk__comparison *items;
    size_t count, capacity;
    size_t family;  /* how many share the correction; below count where two sets stand together; 0: all */
    stk__rule rule; /* higher_is_better is taken from the metric */
} stk__comparisons;

typedef struct stk__compare_pair {
    size_t a, b;
} stk__compare_pair;

/* Each variant against the first of its group. Freed by stk__free. */
stk_status stk__compare_groups(const stk__result *r, stk__compare_pair **out, size_t *out_count, stk_error *err);

/* Compares the pairs by `metric`; Holm and the widened intervals are over these pairs. */
stk_status stk__compare(const stk__result *r, const stk__rule *rule, const stk__compare_pair *pairs, size_t count,
                        size_t metric, stk__comparisons *out, stk_error *err);
void stk__comparisons_clear(stk__comparisons *c);

/* The share of rounds far on the side of the means' ratio: "slower in 30 % of its runs"; 0 when not paired. */
double stk__comparison_far(const stk__comparison *c);
/* Inconclusive, and the means are why: the medians are the same, and some runs are not. */
bool stk__comparison_by_means(const stk__comparison *c, const stk__rule *rule);

/*
 * Sets of different results, each made by stk__compare, become one family: intervals, Holm and verdicts as if all had
 * been compared in one call. For benchmarks that ran one after the other and are judged together.
 */
typedef struct stk__compare_set {
    const stk__result *result;
    stk__comparisons *comparisons;
} stk__compare_set;
stk_status stk__compare_together(const stk__compare_set *sets, size_t count, stk_error *err);

/* Worst regression as a fraction (0.05: 5 % worse), by the mean where that tells; 0 when none is slower by verdict. */
double stk__worst_regression(const stk__comparisons *c, const stk__result *r);

#endif
