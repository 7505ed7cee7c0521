/* Change points: where the level of a series steps, by how much, how surely, and between which rows. */
#ifndef STK_STATS_CHANGE_POINTS_H
#define STK_STATS_CHANGE_POINTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

typedef struct stk__change_rule {
    size_t window;     /* rows that are searched at once, at least 2 */
    double weak_p;     /* of Student's t, up to which a split is looked at */
    double max_p;      /* up to which a change is told */
    double min_effect; /* smaller ones are not, as a fraction of the smaller level */
    double confidence; /* of the intervals */
    bool as_hunter;    /* decide by Hunter's t alone, as Apache Otava does: to compare with it */
} stk__change_rule;

/* What `bench history` uses. */
extern const stk__change_rule stk__change_rule_default;
/* Otava's settings. */
extern const stk__change_rule stk__change_rule_hunter;

typedef struct stk__change {
    size_t begin, at, end;   /* rows begin .. at - 1 are the level before, at .. end - 1 the one after */
    size_t earliest, latest; /* `at` may as well be one of these */
    double before, after;    /* means */
    double ratio, low, high; /* after / before with its interval; NaN unless both are above 0 */
    double p;                /* corrected for the places looked at; 0: nothing varies but at the step */
} stk__change;

/*
 * Steps of values[0 .. n - 1], in order, freed by stk__free; none: NULL and 0. errors: the standard error of each value,
 * where it is known; else 0, or no array. INVALID for a value that is not finite. Deterministic; n * window^2 at most.
 *
 * A step is told when Student's t between the stretches on both sides says so after the search is paid for, and also
 * with the row left out that speaks most for it, so that one row is never a step; when neighbours that resemble each
 * other do not explain it; and when two levels fit clearly better than one slope does.
 */
stk_status stk__change_points(const double *values, const double *errors, size_t n, const stk__change_rule *rule,
                              stk__change **out, size_t *out_count, stk_error *err);

#endif
