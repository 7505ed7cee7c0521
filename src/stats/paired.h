/* Two variants measured side by side, round by round: ratio, interval and tests on the log-ratio of each round. */
#ifndef STK_STATS_PAIRED_H
#define STK_STATS_PAIRED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* Up to here all 2^n sign flips are tried; past it STK__FLIPS random ones by the seed. */
enum { STK__FLIP_EXACT = 20, STK__FLIPS = 100000 };

typedef struct stk__paired {
    size_t n;                /* rounds */
    double ratio;            /* exp of the median of ln(b/a) */
    double low, high;        /* exact order-statistic interval of it */
    bool covered;            /* n is large enough for the confidence that was asked for */
    double hodges_lehmann;   /* exp of the median of all means of two log-ratios: a second opinion on the ratio */
    double mean_log, sd_log; /* of ln(b/a) */
    size_t smaller, equal;   /* rounds with b < a, with b == a */
    double p_flip;           /* sign-flip permutation test on the mean of ln(b/a), two-sided */
    bool flip_exact;
    double p_wilcoxon; /* signed-rank; exact up to 50 rounds without ties or zeros, else normal with corrections */
    bool wilcoxon_exact;
} stk__paired;

/*
 * a[i] and b[i] were measured in round i; all finite and above 0 (INVALID otherwise), n > 0. The same seed gives the
 * same p. The Monte Carlo p counts the observed arrangement too: (1 + as extreme) / (1 + STK__FLIPS), never 0. Past
 * 40,000 rounds it takes fewer flips, at least 1,000, so that the time stays bounded.
 */
stk_status stk__paired_test(const double *a, const double *b, size_t n, double confidence, uint64_t seed,
                            stk__paired *out, stk_error *err);

/* The two tests alone, on differences d (here log-ratios). */
stk_status stk__sign_flip_test(const double *d, size_t n, uint64_t seed, double *out_p, bool *out_exact,
                               stk_error *err);
stk_status stk__wilcoxon_test(const double *d, size_t n, double *out_p, bool *out_exact, stk_error *err);

#endif
