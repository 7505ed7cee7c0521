/* Mean, spread, quartiles, the median's interval and autocorrelation of a sample. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "stats/describe.h"
#include "stats/distributions.h"
#include "base/mem.h"

static int compare_double(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void stk__sort_double(double *values, size_t n)
{
    if (n > 1)
        qsort(values, n, sizeof *values, compare_double);
}

/* Type 7: the value at (n - 1) * share, linear between neighbours. */
static double quantile_of(const double *sorted, size_t n, double share)
{
    const double place = (double)(n - 1) * share, below = floor(place);
    const size_t i = (size_t)below;
    return i + 1 < n ? sorted[i] + (place - below) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

static void summarize(const double *sorted, size_t n, stk__summary *out)
{
    double mean = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        const double change = sorted[i] - mean;
        mean += change / (double)(i + 1);
        squares += change * (sorted[i] - mean);
    }
    const double q1 = quantile_of(sorted, n, 0.25), q3 = quantile_of(sorted, n, 0.75), fence = 1.5 * (q3 - q1);
    size_t outliers = 0;
    for (size_t i = 0; i < n; i++)
        outliers += sorted[i] < q1 - fence || sorted[i] > q3 + fence;
    *out = (stk__summary){.n = n,
                          .mean = fmin(fmax(mean, sorted[0]), sorted[n - 1]),
                          .sd = n > 1 ? sqrt(squares / (double)(n - 1)) : NAN,
                          .median = quantile_of(sorted, n, 0.5),
                          .min = sorted[0],
                          .max = sorted[n - 1],
                          .q1 = q1,
                          .q3 = q3,
                          .outliers = outliers};
}

/* The power of two that brings values near the ends of what a double holds to about 1; squares overflow otherwise. */
static int scale_of(double largest)
{
    int exponent = 0;
    if (largest > 0 && (largest > 1e150 || largest < 1e-150))
        frexp(largest, &exponent);
    return exponent;
}

stk_status stk__describe(const double *values, size_t n, stk__summary *out, stk_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(values[i]))
            return stk_error_set(err, STK_INVALID, "value %zu of %zu is %g, wanted a finite number", i + 1, n,
                                 values[i]);
    }
    if (!n)
        return stk_error_set(err, STK_INVALID, "no values to describe, wanted at least 1");
    if (n > SIZE_MAX / sizeof *values)
        return stk__nomem(SIZE_MAX, err);
    double *sorted = stk__alloc(n * sizeof *sorted);
    if (!sorted)
        return stk__nomem(n * sizeof *sorted, err);
    memcpy(sorted, values, n * sizeof *sorted);
    stk__sort_double(sorted, n);
    const double min = sorted[0], max = sorted[n - 1];
    const int scale = scale_of(fmax(fabs(min), fabs(max)));
    for (size_t i = 0; scale && i < n; i++)
        sorted[i] = ldexp(sorted[i], -scale);
    stk__summary s;
    summarize(sorted, n, &s);
    stk__free(sorted);
    double *const figures[] = {&s.mean, &s.sd, &s.median, &s.q1, &s.q3};
    for (size_t i = 0; scale && i < STK_COUNT(figures); i++)
        *figures[i] = ldexp(*figures[i], scale);
    s.min = min;
    s.max = max;
    *out = s;
    return STK_OK;
}

size_t stk__median_rank(size_t n, double confidence)
{
    const double tail = (1 - confidence) / 2;
    size_t low = 0, high = n - n / 2; /* the middle is as far as two ends can go */
    while (low < high) {
        const size_t middle = high - (high - low) / 2;
        if (stk__binomial_cdf(middle - 1, n) <= tail)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

bool stk__median_interval(const double *sorted, size_t n, double confidence, double *out_low, double *out_high,
                          double *out_reached)
{
    const size_t rank = stk__median_rank(n, confidence), from = rank ? rank : 1;
    *out_low = n ? sorted[from - 1] : NAN;
    *out_high = n ? sorted[n - from] : NAN;
    *out_reached = n ? fmax(0, 1 - 2 * stk__binomial_cdf(from - 1, n)) : 0;
    return rank > 0;
}

size_t stk__median_interval_least(double confidence)
{
    const double alpha = 1 - confidence;
    if (!(alpha > 0))
        return SIZE_MAX;
    size_t n = 1;
    while (ldexp(1, 1 - (int)n) > alpha)
        n++;
    return n;
}

double stk__autocorrelation(const double *values, size_t n)
{
    double mean = 0, least = INFINITY, most = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        mean += (values[i] - mean) / (double)(i + 1);
        least = fmin(least, values[i]);
        most = fmax(most, values[i]);
    }
    if (n < 3 || !(most > least)) /* equal values: what differs from the mean is only its rounding */
        return 0;
    double squares = 0, products = 0;
    for (size_t i = 0; i < n; i++) {
        squares += (values[i] - mean) * (values[i] - mean);
        products += i + 1 < n ? (values[i] - mean) * (values[i + 1] - mean) : 0;
    }
    return squares > 0 && isfinite(squares) ? products / squares : 0;
}
