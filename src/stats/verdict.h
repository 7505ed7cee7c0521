/* From what a comparison found to one of six words. */
#ifndef STK_STATS_VERDICT_H
#define STK_STATS_VERDICT_H

#include <stdbool.h>
#include <stddef.h>

#include "stats/means.h"

typedef enum stk__verdict {
    STK__INCONCLUSIVE = 0,
    STK__FASTER,      /* b is better than a */
    STK__SLOWER,      /* b is worse than a */
    STK__EQUIVALENT,  /* both intervals lie within the margin, that of the ratio and that of the means */
    STK__TAIL_FASTER, /* not by the median, but better in the mean: a is worse in a part of its runs */
    STK__TAIL_SLOWER, /* not by the median, but worse in the mean: b is worse in a part of its runs */
    STK__VERDICTS
} stk__verdict;

/* "inconclusive", "faster", "slower", "equivalent", "faster-tail", "slower-tail"; and back: INCONCLUSIVE for others. */
const char *stk__verdict_name(stk__verdict verdict);
stk__verdict stk__verdict_find(const char *name);
/* Better or worse, by the median or by the tail. */
bool stk__verdict_better(stk__verdict verdict);
bool stk__verdict_worse(stk__verdict verdict);

typedef struct stk__rule {
    double confidence; /* 0.95: alpha is 0.05 */
    double min_effect; /* 0.02: a change must be at least that large, as |ln ratio| >= ln(1 + min_effect) */
    double margin;     /* 0.02: equivalent when the interval lies in 1/(1 + margin) .. 1 + margin */
    bool higher_is_better;
} stk__rule;

/*
 * Two questions share alpha, so that false alarms stay below it: four fifths for the ratio by ranks, one for the tail.
 * `p` of the ratio is divided by the former, and its interval is that wide: both then say the same at alpha.
 */
#define STK__RANK_SHARE 0.8
#define STK__TAIL_SHARE 0.2

typedef struct stk__evidence {
    double ratio, low, high; /* by ranks */
    bool covered;            /* enough rounds for that interval */
    double p;                /* of the ratio, corrected */
    double rest;             /* median ratio of what is no part of a tail */
    stk__means means;        /* p corrected for the number of comparisons alone */
} stk__evidence;

/*
 * Changed: p < alpha, the interval excludes 1, and the ratio is past min_effect. A tail: the means say so in the same
 * way, with p below a part of alpha, and neither the rest of the runs nor a change by ranks tells it. Else equivalent, else
 * inconclusive. Too few rounds for the interval are always inconclusive.
 */
stk__verdict stk__decide(const stk__rule *rule, const stk__evidence *e);

/* Of the interval by ranks, when so many comparisons share alpha. */
double stk__rule_confidence(const stk__rule *rule, size_t comparisons);

/* |ln ratio| that counts as a change, in spite of rounding: effects are asked for in decimals. */
double stk__rule_effect(const stk__rule *rule);

#endif
