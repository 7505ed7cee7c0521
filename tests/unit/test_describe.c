/* Summaries by hand and as NumPy has them; the interval of the median against the tables of the sign test. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stats/describe.h"
#include "stats/distributions.h"
#include "base/mem.h"

static void assert_near(double found, double wanted, double tolerance)
{
    if (!(fabs(found - wanted) <= tolerance))
        fail_msg("found %.17g, wanted %.17g", found, wanted);
}

static void describe_agrees_with_numpy(void **state)
{
    const double values[] = {9, 2, 4, 4, 5, 4, 7, 5}; /* mean 5, squares 32 */
    stk__summary s;
    assert_int_equal(stk__describe(values, 8, &s, NULL), STK_OK);
    assert_int_equal(s.n, 8);
    assert_near(s.mean, 5, 1e-15);
    assert_near(s.sd, sqrt(32.0 / 7), 1e-15);
    assert_near(s.median, 4.5, 0);
    assert_near(s.q1, 4, 0);
    assert_near(s.q3, 5.5, 0);
    assert_near(s.min, 2, 0);
    assert_near(s.max, 9, 0);
    assert_int_equal(s.outliers, 1); /* 9 lies beyond 5.5 + 1.5 * 1.5 */
    assert_near(values[0], 9, 0);    /* not reordered */
    const double four[] = {1, 2, 3, 4};
    assert_int_equal(stk__describe(four, 4, &s, NULL), STK_OK);
    assert_near(s.q1, 1.75, 0);
    assert_near(s.q3, 3.25, 0);
}

static void describe_of_one_value_has_no_spread(void **state)
{
    const double one = 3;
    stk__summary s;
    assert_int_equal(stk__describe(&one, 1, &s, NULL), STK_OK);
    assert_true(isnan(s.sd));
    assert_true(s.mean == 3 && s.median == 3 && s.q1 == 3 && s.q3 == 3 && s.outliers == 0);
    const double same[] = {0.1, 0.1, 0.1};
    assert_int_equal(stk__describe(same, 3, &s, NULL), STK_OK);
    assert_true(s.sd == 0 && s.mean == 0.1);
}

static void describe_survives_the_ends_of_double(void **state)
{
    const double large[] = {1e308, 1.5e308, 1.7e308, -1.7e308}, small[] = {1e-310, 3e-310};
    stk__summary s;
    assert_int_equal(stk__describe(large, 4, &s, NULL), STK_OK);
    assert_near(s.mean / 1e308, 0.625, 1e-12);
    assert_true(isfinite(s.sd) && s.min == -1.7e308 && s.max == 1.7e308);
    assert_int_equal(stk__describe(small, 2, &s, NULL), STK_OK);
    assert_near(s.mean / 1e-310, 2, 1e-10);
    assert_near(s.sd / 1e-310, sqrt(2), 1e-10);
}

static void describe_refuses_what_is_not_a_number(void **state)
{
    const double values[] = {1, NAN, INFINITY};
    stk_error err = {0};
    stk__summary s = {.n = 77};
    assert_int_equal(stk__describe(values, 3, &s, &err), STK_INVALID);
    assert_string_equal(err.message, "value 2 of 3 is nan, wanted a finite number");
    assert_int_equal(stk__describe(values, 0, &s, NULL), STK_INVALID);
    assert_int_equal(stk__describe(values + 2, 1, &s, NULL), STK_INVALID);
    stk__alloc_fail_at(1, false);
    assert_int_equal(stk__describe(values, 1, &s, NULL), STK_NOMEM);
    assert_int_equal(s.n, 77);
}

/* Ranks of the 95 % interval (Conover, table A3; Hollander and Wolfe): 6: 1..6, 10: 2..9, 20: 6..15. */
static void median_interval_agrees_with_sign_test_tables(void **state)
{
    static const struct {
        size_t n, low;
        double confidence, reached;
    } table[] = {{6, 1, 0.95, 0.96875},      {8, 1, 0.95, 0.9921875},      {9, 2, 0.95, 0.9609375},
                 {10, 2, 0.95, 0.978515625}, {12, 3, 0.95, 0.96142578125}, {15, 4, 0.95, 0.96484375},
                 {20, 6, 0.95, 0.9586105},   {25, 8, 0.95, 0.9567147},     {30, 10, 0.95, 0.9572261},
                 {50, 18, 0.95, 0.9671609},  {100, 40, 0.95, 0.9647998},   {8, 1, 0.99, 0.9921875},
                 {20, 4, 0.99, 0.9974232},   {5, 1, 0.9, 0.9375}};
    double values[100];
    for (int i = 0; i < 100; i++)
        values[i] = i + 1;
    for (size_t i = 0; i < STK_COUNT(table); i++) {
        double low, high, reached;
        assert_true(stk__median_interval(values, table[i].n, table[i].confidence, &low, &high, &reached));
        assert_near(low, (double)table[i].low, 0);
        assert_near(high, (double)(table[i].n + 1 - table[i].low), 0);
        assert_near(reached, table[i].reached, 5e-8);
    }
}

static void median_interval_of_few_values_is_not_covered(void **state)
{
    const double values[] = {1, 2, 3, 4, 5};
    double low, high, reached;
    assert_false(stk__median_interval(values, 5, 0.95, &low, &high, &reached));
    assert_true(low == 1 && high == 5 && reached == 0.9375);
    assert_false(stk__median_interval(values, 1, 0.95, &low, &high, &reached));
    assert_true(low == 1 && high == 1 && reached == 0);
    assert_false(stk__median_interval(values, 5, 1, &low, &high, &reached));
    assert_int_equal(stk__median_interval_least(0.9), 5);
    assert_int_equal(stk__median_interval_least(0.95), 6);
    assert_int_equal(stk__median_interval_least(0.99), 8);
    assert_int_equal(stk__median_interval_least(0.96875), 6); /* reached to the last bit */
    assert_true(stk__median_interval_least(1) == SIZE_MAX);
    for (double alpha = 0.4; alpha > 1e-12; alpha /= 3) {
        const size_t least = stk__median_interval_least(1 - alpha);
        assert_true(stk__median_rank(least, 1 - alpha) > 0 && stk__median_rank(least - 1, 1 - alpha) == 0);
    }
}

static void median_rank_holds_for_millions(void **state)
{
    static const size_t sizes[] = {51, 1000, 1001, 1075, 5000, 123457, 3000000};
    for (size_t i = 0; i < STK_COUNT(sizes); i++) {
        const size_t n = sizes[i], rank = stk__median_rank(n, 0.95);
        assert_true(stk__binomial_cdf(rank - 1, n) <= 0.025 + 1e-12 && stk__binomial_cdf(rank, n) > 0.025);
        const double normal = ((double)n - 1.9599639845400545 * sqrt((double)n)) / 2;
        assert_near((double)rank, normal, 1.5);
    }
}

static void autocorrelation_is_that_of_neighbours(void **state)
{
    const double up[] = {1, 2, 3, 4}, turns[] = {1, -1, 1, -1, 1, -1}, same[] = {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1};
    assert_near(stk__autocorrelation(up, 4), 0.25, 1e-15);
    assert_near(stk__autocorrelation(turns, 6), -5.0 / 6, 1e-15);
    assert_near(stk__autocorrelation(same, 7), 0, 0);
    assert_near(stk__autocorrelation(up, 2), 0, 0);
    assert_near(stk__autocorrelation(up, 0), 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(describe_agrees_with_numpy),
        cmocka_unit_test(describe_of_one_value_has_no_spread),
        cmocka_unit_test(describe_survives_the_ends_of_double),
        cmocka_unit_test(describe_refuses_what_is_not_a_number),
        cmocka_unit_test(median_interval_agrees_with_sign_test_tables),
        cmocka_unit_test(median_interval_of_few_values_is_not_covered),
        cmocka_unit_test(median_rank_holds_for_millions),
        cmocka_unit_test(autocorrelation_is_that_of_neighbours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
