/* Instructions as a second metric: how far counts repeat, and what reports say of them. Never in the words of time. */
#ifndef STK_BENCH_COUNT_H
#define STK_BENCH_COUNT_H

#include "bench/compare.h"
#include "bench/result.h"

/* Runs that agree this closely tell a difference as it is, without a test. */
#define STK__COUNT_REPEATS 1e-4

/* Are they counts of instructions, whose words are "fewer" and "more"? */
bool stk__is_count(const stk__metric *metric);
/* The word of a verdict for figures of this unit: "fewer" and "more" of instructions, for the rest as it stands. */
const char *stk__count_word(const char *unit, const char *verdict);
/* The metric, or SIZE_MAX: not counted. */
size_t stk__count_metric(const stk__result *r);

/* Known values of a variant. */
typedef struct stk__counts {
    size_t n;
    double median, least, most;
} stk__counts;
stk__counts stk__counts_of(const stk__variant *v, size_t metric);
/* (most - least) / median; NaN below two runs. */
double stk__counts_spread(const stk__counts *c);

/*
 * Do all runs of both agree to within STK__COUNT_REPEATS? Then the ratio of the medians, and the least and the greatest
 * that any two runs give.
 */
bool stk__count_exact(const stk__result *r, size_t a, size_t b, size_t metric, double *out_ratio, double *out_low,
                      double *out_high);

/*
 * "instructions (cachegrind 3.19.0, 3 runs each): A 1.234 G -> B 1.111 G, B/A 0.9003; the same in every run", or a line
 * for each variant when there are more; nothing when they were not counted. Each against what `c` compares it with, or
 * against the first of its group (NULL). Each line begins with `indent`.
 */
void stk__count_lines(const stk__result *r, const stk__comparisons *c, const char *indent, stk__text *out);

#endif
