/* The rule that decides: ranks for the middle, means for the tail. */
#include <math.h>
#include <string.h>

#include "stats/verdict.h"
#include "base/compiler.h"

/* Ratios and levels are asked for in decimals: a ratio counts as reached, a p as not below, in spite of rounding. */
#define SLACK 1e-12

static const char *const names[STK__VERDICTS] = {"inconclusive", "faster",      "slower",
                                                 "equivalent",   "faster-tail", "slower-tail"};

const char *stk__verdict_name(stk__verdict verdict)
{
    return (size_t)verdict < STK_COUNT(names) ? names[verdict] : names[STK__INCONCLUSIVE];
}

stk__verdict stk__verdict_find(const char *name)
{
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        if (strcmp(names[i], name) == 0)
            return (stk__verdict)i;
    }
    return STK__INCONCLUSIVE;
}

bool stk__verdict_better(stk__verdict verdict)
{
    return verdict == STK__FASTER || verdict == STK__TAIL_FASTER;
}

bool stk__verdict_worse(stk__verdict verdict)
{
    return verdict == STK__SLOWER || verdict == STK__TAIL_SLOWER;
}

double stk__rule_confidence(const stk__rule *rule, size_t comparisons)
{
    return 1 - STK__RANK_SHARE * (1 - rule->confidence) / (double)STK_MAX(comparisons, (size_t)1);
}

double stk__rule_effect(const stk__rule *rule)
{
    return log1p(rule->min_effect) * (1 - SLACK);
}

/* -1, 0 or 1: which way a ratio goes when interval, size and p all say so. */
static int way_of(const stk__rule *rule, double ratio, double low, double high, double p, double alpha)
{
    const bool excludes = low > 1 || high < 1;
    if (!excludes || !(p < alpha * (1 - SLACK)) || !(fabs(log(ratio)) >= stk__rule_effect(rule)))
        return 0;
    return ratio > 1 ? 1 : -1;
}

/*
 * A tail that ranks have seen already takes the whole of alpha: it only names what was found. One that they have not
 * seen is a second try, and gets a part of it.
 */
static int tail_of(const stk__rule *rule, const stk__evidence *e, int changed)
{
    const stk__means *m = &e->means;
    const double alpha = 1 - rule->confidence;
    const int way = way_of(rule, m->ratio, m->low, m->high, m->p, alpha);
    const bool told = way == changed, rest = way * log(e->rest) >= stk__rule_effect(rule);
    if (!way || (told && rest))
        return 0;
    return told || m->p < STK__TAIL_SHARE * alpha ? way : 0;
}

static bool within(const stk__rule *rule, double low, double high)
{
    const double edge = (1 + rule->margin) * (1 + SLACK);
    return low >= 1 / edge && high <= edge;
}

stk__verdict stk__decide(const stk__rule *rule, const stk__evidence *e)
{
    if (!e->covered || !(e->low <= e->high) || !(e->low > 0))
        return STK__INCONCLUSIVE;
    const int changed = way_of(rule, e->ratio, e->low, e->high, e->p, 1 - rule->confidence);
    const int tail = tail_of(rule, e, changed);
    if (tail)
        return (tail > 0) == rule->higher_is_better ? STK__TAIL_FASTER : STK__TAIL_SLOWER;
    if (changed)
        return (changed > 0) == rule->higher_is_better ? STK__FASTER : STK__SLOWER;
    return within(rule, e->low, e->high) && within(rule, e->means.low, e->means.high) ? STK__EQUIVALENT
                                                                                      : STK__INCONCLUSIVE;
}
