/* From a ratio with interval and p to one of four words, and how many rounds a clearer word would take. */
#ifndef STK_STATS_VERDICT_H
#define STK_STATS_VERDICT_H

#include <stdbool.h>
#include <stddef.h>

typedef enum stk__verdict {
    STK__INCONCLUSIVE = 0,
    STK__FASTER,     /* b is better than a */
    STK__SLOWER,     /* b is worse than a */
    STK__EQUIVALENT, /* the whole interval lies within the margin */
} stk__verdict;

/* "inconclusive", "faster", "slower", "equivalent" */
const char *stk__verdict_name(stk__verdict verdict);

typedef struct stk__rule {
    double confidence; /* 0.95: alpha is 0.05 */
    double min_effect; /* 0.02: a change must be at least that large, as |ln ratio| >= ln(1 + min_effect) */
    double margin;     /* 0.02: equivalent when the interval lies in 1/(1 + margin) .. 1 + margin */
    bool higher_is_better;
} stk__rule;

/*
 * Changed: p < alpha, the interval excludes 1, and the ratio is past min_effect. Else equivalent, else inconclusive.
 * An interval that is not covered (too few rounds) is always inconclusive.
 */
stk__verdict stk__decide(const stk__rule *rule, double ratio, double low, double high, bool covered, double p);

/*
 * About how many rounds more (80 % chance) decide an inconclusive comparison with n rounds, log-ratio ln_ratio and
 * standard deviation sd of the log-ratios: enough to exclude 1 when the ratio is past min_effect, or to fit into the
 * margin when it lies within; where both can be, the fewer. At least 1; 0 when no number would do (no spread, or more
 * than a million). `comparisons`: how many share alpha.
 */
size_t stk__more_rounds(const stk__rule *rule, size_t n, double ln_ratio, double sd, size_t comparisons);

/*
 * Smallest |ln ratio| that n rounds find with a chance of `power`, given sd of the log-ratios; infinite when n is too
 * small for any. And the chance that n rounds find ln_ratio. Both for normal log-ratios: exact for the interval to
 * exclude 1; that p is below alpha as well costs up to 6 points at a power of 0.3, 1 point at 0.8.
 */
double stk__detectable(double sd, size_t n, double confidence, double power);
double stk__power(double sd, size_t n, double confidence, double ln_ratio);

#endif
