/* Rows in a row: what tests of levels need to know of them, joined in constant time and without sums that cancel. */
#ifndef STK_STATS_STRETCH_H
#define STK_STATS_STRETCH_H

#include <stddef.h>

typedef struct stk__moments {
    size_t n;
    double mean;
    double squares; /* of value - mean */
} stk__moments;

typedef struct stk__stretch {
    size_t begin, n;
    double mean, squares;                     /* as above, of all values */
    stk__moments without_least, without_most; /* each without one value */
    double slope;                             /* sum of (place - middle) * (value - mean) */
    double neighbours;                        /* sum of (value - mean) * (next value - mean) */
    double first, last, least, most;          /* values */
    double errors;                            /* sum of the variances that the values themselves are known to have */
} stk__stretch;

/* Values begin .. end - 1, at least one; all finite, and at most 1e100 so that all sums are. `errors`: or NULL. */
void stk__stretch_of(const double *values, const double *errors, size_t begin, size_t end, stk__stretch *out);
/* b begins where a ends; out may be one of them. */
void stk__stretch_join(const stk__stretch *a, const stk__stretch *b, stk__stretch *out);
/* Squares of what is left when a straight line is fitted. */
double stk__stretch_off_line(const stk__stretch *a);

#endif
