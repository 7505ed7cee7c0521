/* Verdicts, and the power of the interval that they rest on. */
#include <math.h>
#include <stdint.h>

#include "stats/verdict.h"
#include "stats/describe.h"
#include "stats/distributions.h"
#include "base/compiler.h"

/* Ratios and levels are asked for in decimals: a ratio counts as reached, a p as not below, in spite of rounding. */
#define SLACK 1e-12

enum { MOST_ROUNDS = 1000 * 1000 };
#define WANTED_POWER 0.8

const char *stk__verdict_name(stk__verdict verdict)
{
    static const char *const names[] = {"inconclusive", "faster", "slower", "equivalent"};
    return (size_t)verdict < STK_COUNT(names) ? names[verdict] : names[STK__INCONCLUSIVE];
}

/* |ln ratio| that counts as a change. */
static double effect_of(const stk__rule *rule)
{
    return log1p(rule->min_effect) * (1 - SLACK);
}

stk__verdict stk__decide(const stk__rule *rule, double ratio, double low, double high, bool covered, double p)
{
    if (!covered || !(low <= high) || !(low > 0))
        return STK__INCONCLUSIVE;
    const bool excludes = low > 1 || high < 1;
    const double alpha = (1 - rule->confidence) * (1 - SLACK);
    if (p < alpha && excludes && fabs(log(ratio)) >= effect_of(rule))
        return (ratio > 1) == rule->higher_is_better ? STK__FASTER : STK__SLOWER;
    const double edge = (1 + rule->margin) * (1 + SLACK);
    return low >= 1 / edge && high <= edge ? STK__EQUIVALENT : STK__INCONCLUSIVE;
}

/*
 * The interval's end lies beyond 0 when fewer than k of n log-ratios are on its other side, k being the rank of that
 * end; for normal log-ratios each of them is with chance Phi(-delta / sd). No approximation but the shape.
 */
static double side_power(double sd, size_t n, size_t rank, double delta)
{
    return rank ? stk__binomial_below(rank - 1, n, stk__normal_cdf(-delta / sd)) : 0;
}

double stk__power(double sd, size_t n, double confidence, double ln_ratio)
{
    const size_t rank = stk__median_rank(n, confidence);
    if (!(sd > 0))
        return rank && ln_ratio != 0 ? 1 : 0;
    return side_power(sd, n, rank, fabs(ln_ratio));
}

double stk__detectable(double sd, size_t n, double confidence, double power)
{
    const size_t rank = stk__median_rank(n, confidence);
    if (!rank || !(power < 1))
        return INFINITY;
    double low = 0, high = 40; /* in standard deviations */
    for (int step = 0; step < 60; step++) {
        const double middle = (low + high) / 2;
        if (side_power(1, n, rank, middle) >= power)
            high = middle;
        else
            low = middle;
    }
    return high * sd;
}

/* What a comparison lacks: its interval has to clear 1, or to fit between both edges of the margin. */
typedef struct plan {
    double sd, confidence;
    double near, far; /* distance of the log-ratio from the end in question; of the other edge, or infinite */
} plan;

static bool plan_holds(const plan *p, size_t n)
{
    const size_t rank = stk__median_rank(n, p->confidence);
    const double missed = isinf(p->far) ? 0 : 1 - side_power(p->sd, n, rank, p->far);
    return side_power(p->sd, n, rank, p->near) - missed >= WANTED_POWER;
}

/* Ranks are whole, so power grows in steps and falls between them: one by one at first, then halving the distance. */
static size_t plan_rounds(const plan *p, size_t n)
{
    enum { ONE_BY_ONE = 300 };
    for (size_t more = 1; more <= ONE_BY_ONE; more++) {
        if (plan_holds(p, n + more))
            return more;
    }
    if (!plan_holds(p, n + MOST_ROUNDS))
        return 0;
    size_t low = ONE_BY_ONE, high = MOST_ROUNDS;
    while (low + 1 < high) {
        const size_t middle = (low + high) / 2;
        if (plan_holds(p, n + middle))
            high = middle;
        else
            low = middle;
    }
    return high;
}

size_t stk__more_rounds(const stk__rule *rule, size_t n, double ln_ratio, double sd, size_t comparisons)
{
    const double size = fabs(ln_ratio), edge = log1p(rule->margin);
    const double alpha = (1 - rule->confidence) / (double)STK_MAX(comparisons, (size_t)1);
    if (!(sd > 0) || !isfinite(sd) || !(alpha > 0) || n > SIZE_MAX - MOST_ROUNDS)
        return 0;
    const plan clear = {.sd = sd, .confidence = 1 - alpha, .near = size, .far = INFINITY};
    const plan fit = {.sd = sd, .confidence = 1 - alpha, .near = edge - size, .far = edge + size};
    const size_t to_clear = size > 0 && size >= effect_of(rule) ? plan_rounds(&clear, n) : 0;
    const size_t to_fit = size < edge ? plan_rounds(&fit, n) : 0;
    return to_clear && to_fit ? STK_MIN(to_clear, to_fit) : to_clear + to_fit;
}
