/* Two variants measured side by side, round by round: ratio, interval and tests on the log-ratio of each round. */
#ifndef STK_STATS_PAIRED_H
#define STK_STATS_PAIRED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/means.h"
#include "base/compiler.h"

typedef struct stk__paired {
    size_t n;         /* rounds */
    double ratio;     /* Hodges-Lehmann: exp of the median of all means of two ln(b/a) */
    double low, high; /* the interval of it that inverts the signed-rank test */
    bool covered;     /* n is large enough for the confidence that was asked for; else least to greatest */
    double p;         /* signed-rank test, two-sided */
    bool exact;
    double median;               /* exp of the median of ln(b/a) */
    stk__means means;            /* what the median does not see */
    double far_below, far_above; /* share of rounds whose ratio lies far from all the others: b quick or a slow, and
                                    the other way round */
    double rest;                 /* exp of the median of ln(b/a) without those */
    double sd_log;               /* of ln(b/a) */
    double noise; /* sd of normal ln(b/a) that would make the interval as wide: outliers hardly count; sd_log when
                              n is too small for one */
    size_t smaller, equal; /* rounds with b < a, with b == a */
} stk__paired;

/* a[i] and b[i] were measured in round i; all finite and above 0 (INVALID otherwise), n > 0. */
stk_status stk__paired_test(const double *a, const double *b, size_t n, double confidence, uint64_t seed,
                            stk__paired *out, stk_error *err);

#endif
