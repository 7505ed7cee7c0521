/* Where a series may change its level: E-divisive in windows, a split kept while Student's t finds it likely. */
#ifndef STK_STATS_DIVISIVE_H
#define STK_STATS_DIVISIVE_H

#include "stats/stretch.h"

#include "base/compiler.h"

/*
 * First rows of new levels, ascending, freed by stk__free; none: NULL and 0. Values are finite and at most 1e100. Windows of `window`
 * rows (at least 2) overlap by half; inside one, the split with the greatest energy distance is taken as long as
 * stk__divisive_p is at most `max_p`. Time n * window at least, and n * window^2 at most.
 */
stk_status stk__divisive(const double *values, size_t n, size_t window, double max_p, size_t **out, size_t *out_count,
                         stk_error *err);

/* Student's t of two stretches as Hunter takes it: with variances divided by n. 1 when nothing can be said. */
double stk__divisive_p(const stk__stretch *a, const stk__stretch *b);

#endif
