/* How the means of two variants compare: what a median does not see, because it happens in less than half of the runs. */
#ifndef STK_STATS_MEANS_H
#define STK_STATS_MEANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/describe.h"
#include "base/compiler.h"

typedef struct stk__means {
    double ratio;     /* mean of b / mean of a */
    double low, high; /* Student's t on the logarithm of it; NaN under 2 values */
    double p;         /* paired: sign flips of b - a. Unpaired: Welch. NaN when it cannot be told */
} stk__means;

/* a[i] and b[i] were measured in round i; all finite and above 0. */
stk_status stk__means_paired(const double *a, const double *b, size_t n, double confidence, uint64_t seed,
                             stk__means *out, stk_error *err);

/* Of two samples; p is the caller's. */
void stk__means_unpaired(const stk__summary *a, const stk__summary *b, double confidence, stk__means *out);

#endif
