/* Ratio of two means with an interval on the logarithm of it, by the delta method. */
#include <math.h>

#include "stats/means.h"
#include "stats/distributions.h"
#include "stats/flips.h"
#include "base/mem.h"

static void interval(double error, double df, double confidence, stk__means *m)
{
    const double half = error > 0 ? stk__student_quantile(1 - confidence, df) * error : 0;
    m->low = exp(log(m->ratio) - half);
    m->high = exp(log(m->ratio) + half);
}

static double mean_of(const double *values, size_t n)
{
    double mean = 0; /* moves to the mean, so that no sum overflows */
    for (size_t i = 0; i < n; i++)
        mean += (values[i] - mean) / (double)(i + 1);
    return mean;
}

/* The error of ln(mean b / mean a) is that of the mean of b/B - a/A: a round that was slow for both has no part in it. */
static double paired_error(const double *a, const double *b, size_t n, double mean_a, double mean_b)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++) {
        const double e = b[i] / mean_b - a[i] / mean_a;
        squares += e * e; /* their mean is 0 */
    }
    return sqrt(squares / (double)(n - 1) / (double)n);
}

stk_status stk__means_paired(const double *a, const double *b, size_t n, double confidence, uint64_t seed,
                             stk__means *out, stk_error *err)
{
    const double mean_a = mean_of(a, n), mean_b = mean_of(b, n), scale = fmax(mean_a, mean_b);
    stk__means m = {.ratio = mean_b / mean_a, .low = NAN, .high = NAN, .p = NAN};
    if (n > 1 && isfinite(m.ratio) && m.ratio > 0)
        interval(paired_error(a, b, n, mean_a, mean_b), (double)(n - 1), confidence, &m);
    double *d = stk__calloc(n, sizeof *d);
    if (!d)
        return stk__nomem(n * sizeof *d, err);
    for (size_t i = 0; i < n; i++)
        d[i] = b[i] / scale - a[i] / scale;
    bool exact;
    m.p = stk__sign_flip_p(d, n, seed, &exact);
    stk__free(d);
    *out = m;
    return STK_OK;
}

void stk__means_unpaired(const stk__summary *a, const stk__summary *b, double confidence, stk__means *out)
{
    stk__means m = {.ratio = b->mean / a->mean, .low = NAN, .high = NAN, .p = NAN};
    if (a->n > 1 && b->n > 1 && isfinite(m.ratio) && m.ratio > 0) {
        const double va = pow(a->sd / a->mean, 2) / (double)a->n, vb = pow(b->sd / b->mean, 2) / (double)b->n;
        const double df = (va + vb) * (va + vb) / (va * va / (double)(a->n - 1) + vb * vb / (double)(b->n - 1));
        interval(sqrt(va + vb), df, confidence, &m);
    }
    *out = m;
}
