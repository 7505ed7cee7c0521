/* Normal, Student's t and binomial distributions, exact to about twelve digits from the smallest to the largest n. */
#include <math.h>
#include <stdbool.h>

#include "stats/distributions.h"

#define SQRT_HALF 0.70710678118654752440
#define SQRT_TWO_PI 2.50662827463100050242
#define PI 3.14159265358979323846

double stk__normal_cdf(double z)
{
    return 0.5 * erfc(-z * SQRT_HALF);
}

/* A rough quantile for p <= 1/2 (Abramowitz and Stegun 26.2.23, error below 5e-4). */
static double quantile_guess(double p)
{
    const double t = sqrt(-2 * log(p));
    return (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t;
}

double stk__normal_quantile(double p)
{
    if (!(p > 0 && p < 1))
        return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
    double z = p <= 0.5 ? quantile_guess(p) : -quantile_guess(1 - p);
    for (int step = 0; step < 3; step++) {
        /* The excess of the distribution function, taken where it does not cancel: at the centre 2 p - 1 is exact. */
        const double excess = p > 0.25 && p < 0.75 ? (erf(z * SQRT_HALF) - (2 * p - 1)) / 2
                              : p <= 0.5           ? stk__normal_cdf(z) - p
                                                   : (1 - p) - stk__normal_cdf(-z);
        const double change = excess * SQRT_TWO_PI * exp(z * z / 2);
        z -= change / (1 + z * change / 2); /* Halley */
    }
    return z;
}

/* Gamma(a + 1/2) / Gamma(a). */
static double gamma_step(double a)
{
    if (a < 20)
        return tgamma(a + 0.5) / tgamma(a);
    const double r = 1 / a, rr = r * r; /* Stirling's series of both, subtracted term by term */
    return sqrt(a) * exp(-r * (1.0 / 8 - rr * (1.0 / 192 - rr * (1.0 / 640 - rr * (17.0 / 14336)))));
}

/* The continued fraction of the incomplete beta function (Lentz's method); converges for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double x, double a, double b)
{
    enum { MAX_STEPS = 1000 }; /* some 50 for a below 500 */
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double fraction = d;
    for (int m = 1; m <= MAX_STEPS; m++) {
        double factor = 1;
        for (int odd = 0; odd < 2; odd++) {
            const double k = a + 2 * m;
            const double term = odd ? -(a + m) * (a + b + m) * x / (k * (k + 1)) : m * (b - m) * x / ((k - 1) * k);
            d = 1 + term * d;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = 1 + term / c;
            c = fabs(c) < tiny ? tiny : c;
            factor *= c * d;
        }
        fraction *= factor;
        if (fabs(factor - 1) < 1e-16)
            break;
    }
    return fraction;
}

/* The normal deviate with the same p (Hill 1970, Algorithm 395): exact to 1e-12 from 1,000 degrees of freedom on. */
static double normal_of_student(double square, double df)
{
    const double a = df - 0.5, b = 48 * a * a, y = a * log1p(square / df);
    const double rest = (((-0.4 * y - 3.3) * y - 24) * y - 85.5) / (0.8 * y * y + 100 + b);
    return ((rest + y + 3) / b + 1) * sqrt(y);
}

double stk__student_p(double t, double df)
{
    if (!(df > 0) || isnan(t))
        return NAN;
    const double square = fabs(t) < 1e150 ? t * t : 1e300;
    if (df > 1e15)
        return erfc(fabs(t) * SQRT_HALF);
    if (df > 1000)
        return erfc(normal_of_student(square, df) * SQRT_HALF);
    /* P is the incomplete beta function at x with a = df/2, b = 1/2. */
    const double a = df / 2, x = df / (df + square), rest = square / (df + square);
    const double front = exp(-a * log1p(square / df)) * sqrt(rest) * gamma_step(a) / sqrt(PI);
    if (x < (a + 1) / (a + 2.5))
        return front * beta_fraction(x, a, 0.5) / a;
    return 1 - front * beta_fraction(rest, 0.5, a) / 0.5;
}

double stk__student_quantile(double p_two_sided, double df)
{
    if (!(p_two_sided > 0 && p_two_sided <= 1) || !(df > 0))
        return p_two_sided == 0 ? INFINITY : NAN;
    double low = 0, high = 1;
    while (stk__student_p(high, df) > p_two_sided) {
        low = high;
        high *= 2;
        if (high > 1e150)
            return INFINITY;
    }
    for (int step = 0; step < 200; step++) {
        const double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high)
            break;
        if (stk__student_p(middle, df) > p_two_sided)
            low = middle;
        else
            high = middle;
    }
    return high;
}

/* ln(n!) less Stirling's formula without its series. */
static double stirling_rest(double n)
{
    if (n < 16)
        return log(tgamma(n + 1) / SQRT_TWO_PI) - (n + 0.5) * log(n) + n;
    const double r = 1 / n, rr = r * r;
    return r * (1.0 / 12 - rr * (1.0 / 360 - rr * (1.0 / 1260 - rr * (1.0 / 1680 - rr / 1188))));
}

/* x ln(x / m) + m - x, without cancellation where x is near m. */
static double deviance(double x, double m)
{
    const double v = (x - m) / (x + m);
    if (fabs(v) >= 0.1)
        return x * log(x / m) + m - x;
    double sum = (x - m) * v, term = 2 * x * v;
    for (int k = 1; k < 40; k++) {
        term *= v * v;
        const double next = sum + term / (2 * k + 1);
        if (next == sum)
            break;
        sum = next;
    }
    return sum;
}

/* P(X = k) for 0 < k < n, by Loader's saddle point: no power underflows and no factorial overflows on the way. */
static double binomial_point(double k, double n, double p)
{
    const double rest = stirling_rest(n) - stirling_rest(k) - stirling_rest(n - k);
    return exp(rest - deviance(k, n * p) - deviance(n - k, n * (1 - p))) * sqrt(n / (2 * PI * k * (n - k)));
}

/* P(X <= k) for a k below the mean: downwards from k, until the terms no longer count; about 9 sqrt(n) of them. */
static double lower_tail(size_t k, size_t n, double p)
{
    const double odds = (1 - p) / p;
    double term = k ? binomial_point((double)k, (double)n, p) : exp((double)n * log1p(-p)), sum = term;
    for (size_t i = k; i > 0 && term > sum * 1e-18; i--) {
        term *= (double)i / (double)(n - i + 1) * odds;
        sum += term;
    }
    return sum;
}

double stk__binomial_below(size_t k, size_t n, double p)
{
    if (k >= n || p <= 0)
        return 1;
    if (p >= 1)
        return 0;
    if ((double)k < (double)n * p)
        return fmin(1, lower_tail(k, n, p));
    /* The other side: more than k of X are at most n - k - 1 of n - X. */
    return fmax(0, 1 - lower_tail(n - k - 1, n, 1 - p));
}

double stk__binomial_cdf(size_t k, size_t n)
{
    enum { EXACT = 50 }; /* up to here all counts are whole numbers below 2^53 */
    if (k >= n)
        return 1;
    if (n > EXACT)
        return stk__binomial_below(k, n, 0.5);
    double ways = 1, sum = 1;
    for (size_t i = 0; i < k; i++) {
        ways = ways * (double)(n - i) / (double)(i + 1);
        sum += ways;
    }
    return ldexp(sum, -(int)n);
}
