/* What a sample looks like: mean, spread, median with its exact interval, outliers. */
#ifndef STK_STATS_DESCRIBE_H
#define STK_STATS_DESCRIBE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

typedef struct stk__summary {
    size_t n;
    double mean, sd; /* sd: n - 1 below; NaN under 2 values */
    double median, min, max;
    double q1, q3;   /* quartiles, linear between values (type 7, as NumPy and R) */
    size_t outliers; /* beyond 1.5 times the range between the quartiles (Tukey); counted, never dropped */
} stk__summary;

/* Values in any order, all finite, n > 0. They are copied, not reordered. */
stk_status stk__describe(const double *values, size_t n, stk__summary *out, stk_error *err);

void stk__sort_double(double *values, size_t n);

/*
 * The exact distribution-free interval of the median between two values of the sorted sample: covers it with at least
 * `confidence` (0 to 1, both sides alike). False when n is too small for that; then the interval is least to greatest.
 * out_reached: the coverage it really has.
 */
bool stk__median_interval(const double *sorted, size_t n, double confidence, double *out_low, double *out_high,
                          double *out_reached);
/*
 * Where that interval begins: the largest k for which values k and n + 1 - k of the sorted sample (counted from 1)
 * cover the median with `confidence`; 0 when n is too small.
 */
size_t stk__median_rank(size_t n, double confidence);
/* Fewest values with which stk__median_interval can be true: 6 for 0.95. */
size_t stk__median_interval_least(double confidence);

/* Correlation of each value with the next one; 0 under 3 values or without any variation. */
double stk__autocorrelation(const double *values, size_t n);

#endif
