/* Two samples whose runs were not paired: Mann-Whitney, Welch, and the ratio with the interval that fits the former. */
#ifndef STK_STATS_UNPAIRED_H
#define STK_STATS_UNPAIRED_H

#include <stdbool.h>
#include <stddef.h>

#include "stats/means.h"
#include "base/compiler.h"

typedef struct stk__unpaired {
    size_t na, nb;
    double ratio;     /* Hodges-Lehmann: exp of the median of all ln(b) - ln(a) */
    double low, high; /* the interval that inverts Mann-Whitney's test (Moses) */
    bool covered;     /* the samples are large enough for the confidence that was asked for */
    double p_mann_whitney;
    bool exact;
    double welch_t, welch_df, p_welch; /* on the values; p is NaN when a side has 1 value or nothing varies */
    double median;                     /* median of b / median of a */
    stk__means means;                  /* p is Welch's */
    double sd_log;                     /* pooled, of ln of the values */
    double noise;                      /* what it would be in pairs, as stk__paired has it */
} stk__unpaired;

/* All values finite and above 0 (INVALID otherwise); na, nb > 0. At most 2^52 pairs (LIMIT). */
stk_status stk__unpaired_test(const double *a, size_t na, const double *b, size_t nb, double confidence,
                              stk__unpaired *out, stk_error *err);

#endif
