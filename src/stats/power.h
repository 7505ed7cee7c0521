/* What rounds can find: the power of the signed-rank interval, and how many rounds a clearer verdict would take. */
#ifndef STK_STATS_POWER_H
#define STK_STATS_POWER_H

#include <stddef.h>

#include "stats/verdict.h"

/*
 * Smallest |ln ratio| that n rounds find with a chance of `power`, given sd of the log-ratios; infinite when n is too
 * small for any. And the chance that n rounds find ln_ratio, on its side of 1. For normal log-ratios, within a point or
 * two.
 */
double stk__detectable(double sd, size_t n, double confidence, double power);
double stk__power(double sd, size_t n, double confidence, double ln_ratio);

/* The sd of normal log-ratios whose interval is this wide, in logarithms, by n rounds at this level (0.05, say). */
double stk__noise_of(double width, size_t n, double level);

/*
 * About how many rounds more (80 % chance) decide an inconclusive comparison with n rounds, log-ratio ln_ratio and
 * standard deviation sd of the log-ratios: enough to exclude 1 when the ratio is past min_effect, or to fit into the
 * margin when it lies within; where both can be, the fewer. At least 1; 0 when no number would do (no spread, or more
 * than a million). `comparisons`: how many share alpha.
 */
size_t stk__more_rounds(const stk__rule *rule, size_t n, double ln_ratio, double sd, size_t comparisons);

#endif
