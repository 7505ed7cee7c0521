/* Distributions against printed tables and closed forms, and each quantile against its own distribution. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stats/distributions.h"
#include "base/compiler.h"

static void assert_near(double found, double wanted, double tolerance)
{
    if (!(fabs(found - wanted) <= tolerance))
        fail_msg("found %.17g, wanted %.17g", found, wanted);
}

static void assert_close(double found, double wanted, double relative)
{
    assert_near(found, wanted, relative * fabs(wanted));
}

static void normal_agrees_with_tables(void **state)
{
    static const struct {
        double z, p;
    } table[] = {{0, 0.5},
                 {1, 0.84134474606854294859},
                 {1.9599639845400542355, 0.975},
                 {2.5758293035489007610, 0.995},
                 {-1.2815515655446004, 0.1},
                 {-6, 9.8658764503769814070e-10},
                 {-10, 7.6198530241605260660e-24},
                 {-37, 5.7255712225239266e-300}};
    for (size_t i = 0; i < STK_COUNT(table); i++) {
        assert_close(stk__normal_cdf(table[i].z), table[i].p, 1e-12);
        assert_near(stk__normal_quantile(table[i].p), table[i].z, 1e-12 * fmax(1, fabs(table[i].z)));
    }
}

static void normal_quantile_is_the_inverse_everywhere(void **state)
{
    for (double p = 1e-300; p < 0.5; p *= 1.7)
        assert_close(stk__normal_cdf(stk__normal_quantile(p)), p, 1e-12);
    for (double d = 0x1p-50; d < 0.25; d *= 2) /* near the centre it is linear, and loses no digits */
        assert_close(stk__normal_quantile(0.5 + d), -stk__normal_quantile(0.5 - d), 1e-15);
    const double centre = 0.5 + 0x1p-40;
    assert_close(stk__normal_quantile(centre), 0x1p-40 * 2.5066282746310005, 1e-12);
    assert_true(stk__normal_quantile(0) == -INFINITY && stk__normal_quantile(1) == INFINITY);
    assert_true(isnan(stk__normal_quantile(-0.1)) && isnan(stk__normal_quantile(NAN)));
}

/* Two-sided critical values of t as every textbook prints them, to three decimals. */
static void student_agrees_with_tables(void **state)
{
    static const struct {
        double df, p, t;
    } table[] = {{1, 0.05, 12.706}, {2, 0.05, 4.303},  {5, 0.05, 2.571},   {10, 0.05, 2.228},  {11, 0.05, 2.201},
                 {30, 0.05, 2.042}, {60, 0.05, 2.000}, {120, 0.05, 1.980}, {1, 0.01, 63.657},  {3, 0.01, 5.841},
                 {7, 0.1, 1.895},   {19, 0.01, 2.861}, {29, 0.001, 3.659}, {10, 0.001, 4.587}, {4, 0.2, 1.533}};
    for (size_t i = 0; i < STK_COUNT(table); i++) {
        assert_near(stk__student_quantile(table[i].p, table[i].df), table[i].t, 0.0005);
        assert_near(stk__student_p(table[i].t, table[i].df), table[i].p, 0.0005 * table[i].p * 3);
    }
}

/* For 1, 2 and 4 degrees of freedom the distribution is elementary. */
static void student_agrees_with_closed_forms(void **state)
{
    for (double t = 1e-6; t < 1e6; t *= 3.7) {
        const double one = 2 * atan2(1, t) / 3.14159265358979323846, root = sqrt(2 + t * t);
        assert_close(stk__student_p(t, 1), one, 1e-12);
        assert_close(stk__student_p(-t, 2), 2 / (root * (root + t)), 1e-12);
        assert_close(stk__student_quantile(one, 1), t, t < 1 ? 1e-12 / t : 1e-12);
    }
    assert_near(stk__student_p(0, 3.5), 1, 0);
    assert_near(stk__student_quantile(1, 3.5), 0, 1e-12);
    assert_true(isnan(stk__student_p(1, 0)) && isnan(stk__student_p(NAN, 1)) && isnan(stk__student_quantile(2, 1)));
    assert_true(stk__student_p(INFINITY, 5) < 1e-300);
}

static void student_turns_into_the_normal_without_a_jump(void **state)
{
    for (double t = 0.1; t < 12; t += 0.7) {
        assert_close(stk__student_p(t, 1000 - 1e-9), stk__student_p(t, 1000 + 1e-9), 1e-11);
        assert_close(stk__student_p(t, 1e14), 2 * stk__normal_cdf(-t), 1e-10);
        assert_close(stk__student_p(t, INFINITY), 2 * stk__normal_cdf(-t), 1e-15);
        assert_close(stk__student_p(t, 40 - 1e-9), stk__student_p(t, 40 + 1e-9), 1e-8); /* the gamma series begins */
    }
}

static void binomial_of_small_n_is_exact(void **state)
{
    assert_true(stk__binomial_cdf(0, 6) == 1.0 / 64 && stk__binomial_cdf(1, 10) == 11.0 / 1024);
    assert_true(stk__binomial_cdf(5, 20) == 21700.0 / 1048576 && stk__binomial_cdf(2, 5) == 0.5);
    assert_true(stk__binomial_cdf(6, 6) == 1 && stk__binomial_cdf(9, 6) == 1 && stk__binomial_cdf(0, 0) == 1);
    for (size_t n = 1; n <= 50; n++) {
        for (size_t k = 0; k < n; k++) {
            assert_close(stk__binomial_below(k, n, 0.5), stk__binomial_cdf(k, n), 1e-13);
            assert_near(stk__binomial_cdf(k, n) + stk__binomial_cdf(n - k - 1, n), 1, 1e-15);
        }
    }
}

/* P(X <= k) for n = 2 and 3 by hand, and the ends of p. */
static void binomial_of_any_p_agrees_with_closed_forms(void **state)
{
    for (double p = 0.001; p < 1; p += 0.037) {
        assert_close(stk__binomial_below(0, 3, p), (1 - p) * (1 - p) * (1 - p), 1e-13);
        assert_close(stk__binomial_below(1, 2, p), 1 - p * p, 1e-13);
        assert_close(stk__binomial_below(1, 3, p), (1 - p) * (1 - p) * (1 + 2 * p), 1e-13);
    }
    assert_true(stk__binomial_below(3, 10, 0) == 1 && stk__binomial_below(3, 10, 1) == 0);
}

static void binomial_of_large_n_neither_underflows_nor_drifts(void **state)
{
    /* Odd n: exactly half. */
    assert_close(stk__binomial_cdf(500000, 1000001), 0.5, 1e-12);
    assert_close(stk__binomial_cdf(1500, 3001), 0.5, 1e-12);
    /* A million: the normal with continuity correction is right to 1e-7 or so. */
    const size_t n = 1000000;
    for (size_t k = 497000; k < 503000; k += 500)
        assert_near(stk__binomial_cdf(k, n), stk__normal_cdf(((double)k + 0.5 - 500000) / 500), 1e-6);
    assert_true(stk__binomial_cdf(0, 1000) > 0 && stk__binomial_cdf(0, 100000) == 0);
    double last = 0;
    for (size_t k = 0; k < 2000; k += 7) {
        const double p = stk__binomial_cdf(k, 2000);
        assert_true(p >= last && p <= 1);
        last = p;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normal_agrees_with_tables),
        cmocka_unit_test(normal_quantile_is_the_inverse_everywhere),
        cmocka_unit_test(student_agrees_with_tables),
        cmocka_unit_test(student_agrees_with_closed_forms),
        cmocka_unit_test(student_turns_into_the_normal_without_a_jump),
        cmocka_unit_test(binomial_of_small_n_is_exact),
        cmocka_unit_test(binomial_of_any_p_agrees_with_closed_forms),
        cmocka_unit_test(binomial_of_large_n_neither_underflows_nor_drifts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
