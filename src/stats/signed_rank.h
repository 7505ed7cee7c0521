/* Wilcoxon's signed-rank test on differences of pairs, and the interval that inverts it. */
#ifndef STK_STATS_SIGNED_RANK_H
#define STK_STATS_SIGNED_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* Up to here all 2^n signs are counted, ties included; past it normal with corrections for ties and continuity. */
enum { STK__SIGNED_RANK_EXACT = 50 };

/* Are differences above 0 as large and as many as those below? Two-sided; differences of 0 are left out. */
stk_status stk__signed_rank_test(const double *d, size_t n, double *out_p, bool *out_exact, stk_error *err);

/*
 * The interval runs from the k-th smallest to the k-th largest of the n (n + 1) / 2 means of two differences (Walsh
 * averages): the largest k that keeps `confidence`; 0 when n is too small for it. out_level, which may be NULL: the
 * share of false alarms that it leaves, at most 1 - confidence; 1 when n is too small.
 */
uint64_t stk__signed_rank_interval(size_t n, double confidence, double *out_level);

#endif
