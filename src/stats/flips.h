/* Is the mean of differences 0? By flipping their signs: equals give d and -d with the same chance. */
#ifndef STK_STATS_FLIPS_H
#define STK_STATS_FLIPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* Up to here all 2^n sign flips are tried; past it STK__FLIPS random ones by the seed. */
enum { STK__FLIP_EXACT = 20, STK__FLIPS = 20000 };

/*
 * Two-sided p of the mean of d[n], n > 0. The same seed gives the same p. Of random flips the observed arrangement
 * counts too: (1 + as extreme) / (1 + flips), never 0. Past 40,000 values it takes fewer flips, at least 1,000, so that
 * the time stays bounded.
 */
double stk__sign_flip_p(const double *d, size_t n, uint64_t seed, bool *out_exact);

#endif
