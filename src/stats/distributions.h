/* The distributions that tests and plans need: normal, Student's t, binomial. */
#ifndef STK_STATS_DISTRIBUTIONS_H
#define STK_STATS_DISTRIBUTIONS_H

#include <stddef.h>

/* P(X <= z), and its inverse for p in (0, 1). Relative error under 1e-12. */
double stk__normal_cdf(double z);
double stk__normal_quantile(double p);

/* P(|T| >= |t|) for Student's t with `df` > 0 degrees of freedom, not necessarily whole; and the t with that p. */
double stk__student_p(double t, double df);
double stk__student_quantile(double p_two_sided, double df);

/* P(X <= k) for X binomial (n, 1/2): exact up to n = 50. The other for any p. Time grows with the square root of n. */
double stk__binomial_cdf(size_t k, size_t n);
double stk__binomial_below(size_t k, size_t n, double p);

#endif
