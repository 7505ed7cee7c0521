/* Moments of rows in a row, joined as Chan, Golub and LeVeque join variances. */
#include <math.h>

#include "stats/stretch.h"

static stk__moments moments_of(const stk__stretch *a)
{
    return (stk__moments){a->n, a->mean, a->squares};
}

static stk__moments join_moments(stk__moments a, stk__moments b)
{
    if (!a.n || !b.n)
        return a.n ? a : b;
    const double na = (double)a.n, nb = (double)b.n, n = na + nb, step = b.mean - a.mean;
    return (stk__moments){a.n + b.n, a.mean + step * (nb / n), a.squares + b.squares + step * step * (na * nb / n)};
}

/* The sum over neighbours, about another mean. Each value but the last stands first in a product, each but the first second. */
static double neighbours_about(const stk__stretch *a, double mean)
{
    const double shift = a->mean - mean;
    const double ends = (a->mean - a->first) + (a->mean - a->last);
    return a->neighbours + shift * ends + (double)(a->n - 1) * shift * shift;
}

void stk__stretch_join(const stk__stretch *a, const stk__stretch *b, stk__stretch *out)
{
    const stk__moments of_a = moments_of(a), of_b = moments_of(b), both = join_moments(of_a, of_b);
    stk__stretch joined = {
        .begin = a->begin,
        .n = both.n,
        .mean = both.mean,
        .squares = both.squares,
        .without_least =
            b->least < a->least ? join_moments(of_a, b->without_least) : join_moments(a->without_least, of_b),
        .without_most = b->most > a->most ? join_moments(of_a, b->without_most) : join_moments(a->without_most, of_b),
        /* The middles of two stretches that touch lie (na + nb) / 2 apart. */
        .slope = a->slope + b->slope + (b->mean - a->mean) * ((double)a->n * (double)b->n / 2),
        .first = a->first,
        .last = b->last,
        .least = fmin(a->least, b->least),
        .most = fmax(a->most, b->most),
        .errors = a->errors + b->errors,
    };
    joined.neighbours = neighbours_about(a, both.mean) + neighbours_about(b, both.mean) +
                        (a->last - both.mean) * (b->first - both.mean);
    *out = joined;
}

void stk__stretch_of(const double *values, const double *errors, size_t begin, size_t end, stk__stretch *out)
{
    for (size_t i = begin; i < end; i++) {
        const double x = values[i];
        const stk__stretch one = {.begin = i,
                                  .n = 1,
                                  .mean = x,
                                  .first = x,
                                  .last = x,
                                  .least = x,
                                  .most = x,
                                  .errors = errors ? errors[i] : 0};
        if (i == begin)
            *out = one;
        else
            stk__stretch_join(out, &one, out);
    }
}

double stk__stretch_off_line(const stk__stretch *a)
{
    const double n = (double)a->n, places = n * (n * n - 1) / 12; /* sum of (place - middle)^2 */
    return places > 0 ? fmax(0, a->squares - a->slope / places * a->slope) : 0;
}
