/* Power of the signed-rank interval: that of Student's t at the level which ranks reach, with what ranks lose. */
#include <math.h>
#include <stdint.h>

#include "stats/power.h"
#include "stats/distributions.h"
#include "stats/signed_rank.h"
#include "base/compiler.h"

enum { MOST_ROUNDS = 1000 * 1000 };
#define WANTED_POWER 0.8

/* Rounds count this much less by ranks, if their log-ratios are normal. */
#define RANK_EFFICIENCY 0.95492965855137202 /* 3 / pi */

/* |T| that the interval of n rounds asks for, and how far T spreads around a shift (noncentral t, as a normal). */
typedef struct reach {
    double limit, spread;
} reach;

static reach reach_of(size_t n, double level)
{
    const double df = (double)(n - 1), t = stk__student_quantile(level, df);
    return (reach){t * (1 - 1 / (4 * df)), sqrt(1 + t * t / (2 * df))};
}

/* Of a single rank all log-ratios must have one sign: no approximation but the shape. */
double stk__power(double sd, size_t n, double confidence, double ln_ratio)
{
    double level;
    const uint64_t rank = stk__signed_rank_interval(n, confidence, &level);
    if (!rank)
        return 0;
    if (!(sd > 0))
        return ln_ratio != 0;
    const double size = fabs(ln_ratio) / sd;
    if (rank == 1)
        return pow(stk__normal_cdf(size), (double)n);
    const reach r = reach_of(n, level);
    return stk__normal_cdf((size * sqrt((double)n * RANK_EFFICIENCY) - r.limit) / r.spread);
}

double stk__detectable(double sd, size_t n, double confidence, double power)
{
    double level;
    const uint64_t rank = stk__signed_rank_interval(n, confidence, &level);
    if (!rank || !(power < 1))
        return INFINITY;
    if (rank == 1)
        return sd * stk__normal_quantile(pow(power, 1 / (double)n));
    const reach r = reach_of(n, level);
    return sd * (r.limit + stk__normal_quantile(power) * r.spread) / sqrt((double)n * RANK_EFFICIENCY);
}

double stk__noise_of(double width, size_t n, double level)
{
    if (n < 2 || !(level > 0 && level < 1))
        return NAN;
    const double t = stk__student_quantile(level, (double)(n - 1));
    return width / 2 / t * sqrt((double)n * RANK_EFFICIENCY);
}

/* What a comparison lacks: its interval has to clear 1, or to fit between both edges of the margin. */
typedef struct plan {
    double sd, confidence;
    double near, far; /* distance of the log-ratio from the end in question; of the other edge, or infinite */
} plan;

static bool plan_holds(const plan *p, size_t n)
{
    const double missed = isinf(p->far) ? 0 : 1 - stk__power(p->sd, n, p->confidence, p->far);
    return stk__power(p->sd, n, p->confidence, p->near) - missed >= WANTED_POWER;
}

/* Doubling until it holds, then halving the distance. Ranks are whole, so power may dip between steps: a few back. */
static size_t plan_rounds(const plan *p, size_t n)
{
    size_t low = 0, high = 1;
    while (high <= MOST_ROUNDS && !plan_holds(p, n + high)) {
        low = high;
        high *= 2;
    }
    if (high > MOST_ROUNDS)
        return 0;
    while (low + 1 < high) {
        const size_t middle = (low + high) / 2;
        if (plan_holds(p, n + middle))
            high = middle;
        else
            low = middle;
    }
    while (high > 1 && plan_holds(p, n + high - 1))
        high--;
    return high;
}

size_t stk__more_rounds(const stk__rule *rule, size_t n, double ln_ratio, double sd, size_t comparisons)
{
    const double size = fabs(ln_ratio), edge = log1p(rule->margin);
    const double confidence = stk__rule_confidence(rule, comparisons);
    if (!(sd > 0) || !isfinite(sd) || !(confidence < 1) || n > SIZE_MAX - MOST_ROUNDS)
        return 0;
    const plan clear = {.sd = sd, .confidence = confidence, .near = size, .far = INFINITY};
    const plan fit = {.sd = sd, .confidence = confidence, .near = edge - size, .far = edge + size};
    const size_t to_clear = size > 0 && size >= stk__rule_effect(rule) ? plan_rounds(&clear, n) : 0;
    const size_t to_fit = size < edge ? plan_rounds(&fit, n) : 0;
    return to_clear && to_fit ? STK_MIN(to_clear, to_fit) : to_clear + to_fit;
}
