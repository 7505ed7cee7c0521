/* All figures of a paired comparison. */
#include <math.h>

#include "stats/paired.h"
#include "stats/describe.h"
#include "stats/power.h"
#include "stats/ranks.h"
#include "stats/signed_rank.h"
#include "base/mem.h"

/* Rounds beyond so many times the distance from the median to a quartile (0.67 sd) are no part of the noise. */
#define FAR 7

/*
 * ln(b/a), to the last digit the opposite of ln(a/b), and the same for equal ratios: both matter to ties. The quotient
 * overflows only for values that no clock gives.
 */
static double log_ratio(double a, double b)
{
    const double ratio = b >= a ? b / a : a / b;
    const double size = isfinite(ratio) ? log(ratio) : fabs(log(b) - log(a));
    return b >= a ? size : -size;
}

static void walsh_interval(const double *sorted, double confidence, stk__paired *r)
{
    const uint64_t means = (uint64_t)r->n * (r->n + 1) / 2;
    double level;
    const uint64_t rank = stk__signed_rank_interval(r->n, confidence, &level), from = rank ? rank : 1;
    const double low = stk__walsh_select(sorted, r->n, from);
    const double high = stk__walsh_select(sorted, r->n, means + 1 - from);
    r->covered = rank > 0;
    r->ratio = exp(stk__walsh_median(sorted, r->n));
    r->low = exp(low);
    r->high = exp(high);
    r->noise = rank ? stk__noise_of(high - low, r->n, level) : r->sd_log;
}

/*
 * What lies far above is told by the spread below the median, and the other way round: a tail of 30 % does not hide
 * itself by being part of the spread.
 */
static void count_far(const double *sorted, const stk__summary *s, stk__paired *r)
{
    const double above = s->median + FAR * (s->median - s->q1), below = s->median - FAR * (s->q3 - s->median);
    size_t first = 0, end = r->n;
    while (first < r->n && sorted[first] < below)
        first++;
    while (end > first && sorted[end - 1] > above)
        end--;
    const size_t left = end - first, middle = first + left / 2;
    r->far_below = (double)first / (double)r->n;
    r->far_above = (double)(r->n - end) / (double)r->n;
    r->rest = exp(left % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2);
}

/* d has room for n values. */
static stk_status fill(const double *a, const double *b, size_t n, double confidence, uint64_t seed, double *d,
                       stk__paired *out, stk_error *err)
{
    stk__paired r = {.n = n};
    for (size_t i = 0; i < n; i++) {
        d[i] = log_ratio(a[i], b[i]);
        r.smaller += b[i] < a[i];
        r.equal += b[i] == a[i];
    }
    stk__summary s;
    STK_TRY(stk__describe(d, n, &s, err));
    STK_TRY(stk__signed_rank_test(d, n, &r.p, &r.exact, err));
    STK_TRY(stk__means_paired(a, b, n, confidence, seed, &r.means, err));
    r.median = exp(s.median);
    r.sd_log = s.sd;
    stk__sort_double(d, n);
    walsh_interval(d, confidence, &r);
    count_far(d, &s, &r);
    *out = r;
    return STK_OK;
}

stk_status stk__paired_test(const double *a, const double *b, size_t n, double confidence, uint64_t seed,
                            stk__paired *out, stk_error *err)
{
    if (!n)
        return stk_error_set(err, STK_INVALID, "no rounds to compare, wanted at least 1");
    for (size_t i = 0; i < n; i++) {
        const double bad = isfinite(a[i]) && a[i] > 0 ? b[i] : a[i];
        if (!(isfinite(bad) && bad > 0))
            return stk_error_set(err, STK_INVALID, "round %zu has a value of %g, wanted finite ones above 0", i + 1,
                                 bad);
    }
    double *d = stk__calloc(n, sizeof *d);
    if (!d)
        return stk__nomem(n * sizeof *d, err);
    const stk_status status = fill(a, b, n, confidence, seed, d, out, err);
    stk__free(d);
    return status;
}
