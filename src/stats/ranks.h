/* Statistics for comparing samples: Mann-Whitney's test, Holm's correction, medians with intervals, robust spread. */
#ifndef STK_STATS_RANKS_H
#define STK_STATS_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

void stk__sort_int64(int64_t *values, size_t count);

/* Both samples together up to here: the test is exact, ties included. */
enum { STK__MWU_EXACT = 20 };

typedef struct stk__mwu {
    double u;           /* pairs in which the value of b is larger; ties count half */
    double superiority; /* u / (na * nb): the chance of such a pair; 0.5: neither side tends to be larger */
    double z;           /* of the normal approximation, 0 when exact */
    double p;           /* two-sided */
    bool exact;
} stk__mwu;

/*
 * Are values of b larger or smaller than those of a? Both sorted upwards, with at least one value each. Past
 * STK__MWU_EXACT values the normal approximation with corrections for ties and for continuity.
 */
void stk__mwu_test(const int64_t *a, size_t na, const int64_t *b, size_t nb, stk__mwu *out);
/* The smallest p that samples of these sizes can give at all. */
double stk__mwu_smallest_p(size_t na, size_t nb);
/*
 * The interval that goes with the test runs from the k-th smallest to the k-th largest of the na * nb differences b - a
 * (Moses): the largest k that keeps `confidence`, exact as the test is. 0: the samples are too small for it.
 */
size_t stk__mwu_interval_rank(size_t na, size_t nb, double confidence);

/* Holm's correction: out[i] < alpha for all rejected at a family-wise error of alpha. out may be p. */
stk_status stk__holm(const double *p, size_t count, double *out, stk_error *err);

/*
 * Distribution-free: the interval lies between two values of the sample and covers the median with at least 95 %, from
 * 6 values on.
 */
typedef struct stk__median {
    double value;
    int64_t low, high;
} stk__median;

/* Sorted upwards, count > 0. */
stk__median stk__median_of(const int64_t *sorted, size_t count);
/* Standard deviation of a normal distribution with the same median absolute deviation. Reorders `values`; count > 0. */
double stk__spread_of(double *values, size_t count);
/* Median of unsorted values, which are reordered; count > 0. */
double stk__median_double(double *values, size_t count);

/*
 * Hodges and Lehmann, from sorted samples with at least one value each and fewer than 2^62 pairs: the median of the
 * means of all pairs of values, each with itself too; the median of all differences b - a; and of both the one of rank
 * `rank` from 1. No memory, time in proportion to the values: the result is bisected and pairs are counted, not listed.
 */
double stk__walsh_median(const double *sorted, size_t n);
double stk__walsh_select(const double *sorted, size_t n, uint64_t rank);
double stk__shift_median(const double *a, size_t na, const double *b, size_t nb);
double stk__shift_select(const double *a, size_t na, const double *b, size_t nb, uint64_t rank);

#endif
