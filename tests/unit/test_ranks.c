/* Rank tests against published tables and figures of SciPy and R; corrections and medians by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stats/ranks.h"
#include "base/mem.h"
#include "base/rng.h"

static void assert_near(double found, double wanted, double tolerance)
{
    if (!(fabs(found - wanted) <= tolerance))
        fail_msg("found %.17g, wanted %.17g", found, wanted);
}

static stk__mwu test_of(const int64_t *a, size_t na, const int64_t *b, size_t nb)
{
    stk__mwu out;
    stk__mwu_test(a, na, b, nb, &out);
    return out;
}

/*
 * Two-sided critical values of U at 0.05 (Mann and Whitney 1947, as in most textbooks): U at most this is significant.
 */
static void mwu_exact_agrees_with_published_critical_values(void **state)
{
    static const struct {
        size_t na, nb;
        int critical;
    } table[] = {{4, 4, 0},  {5, 5, 2},    {6, 6, 5}, {7, 7, 8},  {8, 8, 13},
                 {9, 9, 17}, {10, 10, 23}, {4, 8, 4}, {5, 10, 8}, {3, 8, 2}};
    for (size_t i = 0; i < STK_COUNT(table); i++) {
        /* b starts below all of a; moving one value past others raises U by one each. */
        for (int u = 0; u <= table[i].critical + 1; u++) {
            int64_t a[10], b[10];
            for (size_t k = 0; k < table[i].na; k++)
                a[k] = 1000 + 10 * (int64_t)k;
            int left = u;
            for (size_t k = table[i].nb; k-- > 0;) {
                const int steps = left < (int)table[i].na ? left : (int)table[i].na;
                left -= steps;
                b[k] = steps ? 1000 + 10 * (steps - 1) + 1 + (int64_t)k % 8 : (int64_t)k;
            }
            stk__sort_int64(b, table[i].nb);
            const stk__mwu m = test_of(a, table[i].na, b, table[i].nb);
            assert_true(m.exact);
            assert_near(m.u, u, 0);
            if (u <= table[i].critical)
                assert_true(m.p <= 0.05);
            else
                assert_true(m.p > 0.05);
        }
    }
}

/* p of the smallest U is 2 over the number of ways to split: known in closed form. */
static void mwu_exact_of_separated_samples_is_two_over_the_binomial(void **state)
{
    const int64_t a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8};
    const stk__mwu m = test_of(a, 4, b, 4);
    assert_near(m.p, 2.0 / 70, 1e-15);
    assert_near(m.superiority, 1, 0);
    assert_near(stk__mwu_smallest_p(4, 4), 2.0 / 70, 1e-15);
    assert_near(stk__mwu_smallest_p(3, 3), 0.1, 1e-15);
    assert_near(stk__mwu_smallest_p(0, 10), 1, 0);
    assert_true(stk__mwu_smallest_p(100000, 100000) < 1e-10);
}

/*
 * With ties: counted by hand over the 20 splits of {1,1,2,2,3,3}; the rank sums of {1,1,2} are 6.5 or less in 2 of
 * them.
 */
static void mwu_exact_counts_ties(void **state)
{
    const int64_t a[] = {1, 1, 2}, b[] = {2, 3, 3};
    const stk__mwu m = test_of(a, 3, b, 3);
    assert_true(m.exact);
    assert_near(m.u, 8.5, 0);
    assert_near(m.p, 2 * 2.0 / 20, 1e-15);
}

/* scipy.stats.mannwhitneyu(method="asymptotic"), and R's wilcox.test(exact=FALSE) gives the same. */
static void mwu_normal_agrees_with_scipy(void **state)
{
    int64_t a[30], b[25];
    for (int i = 0; i < 30; i++)
        a[i] = (i * 7) % 31; /* all different */
    for (int i = 0; i < 25; i++)
        b[i] = (i * 5) % 27 + 4; /* ties with a */
    stk__sort_int64(a, 30);
    stk__sort_int64(b, 25);
    const stk__mwu m = test_of(a, 30, b, 25);
    assert_false(m.exact);
    assert_near(m.u, 419.0, 1e-12);
    assert_near(m.p, 0.4619725108621887, 1e-12);
}

static void mwu_of_equal_values_finds_nothing(void **state)
{
    int64_t a[50] = {0}, b[50] = {0};
    const stk__mwu m = test_of(a, 50, b, 50);
    assert_near(m.p, 1, 0);
    assert_near(m.superiority, 0.5, 0);
    assert_near(test_of(a, 3, b, 3).p, 1, 0);
}

static void mwu_is_symmetric(void **state)
{
    int64_t a[40], b[17];
    for (int i = 0; i < 40; i++)
        a[i] = (int64_t)(stk__mix(1, (uint64_t)i) % 50);
    for (int i = 0; i < 17; i++)
        b[i] = (int64_t)(stk__mix(2, (uint64_t)i) % 60);
    stk__sort_int64(a, 40);
    stk__sort_int64(b, 17);
    static const size_t sizes[][2] = {{40, 17}, {9, 8}, {4, 13}}; /* normal, then exact */
    for (size_t i = 0; i < STK_COUNT(sizes); i++) {
        const stk__mwu x = test_of(a, sizes[i][0], b, sizes[i][1]), y = test_of(b, sizes[i][1], a, sizes[i][0]);
        assert_int_equal(x.exact, i > 0);
        assert_near(x.p, y.p, 1e-14);
        assert_near(x.superiority, 1 - y.superiority, 1e-14);
    }
}

/* Under the null hypothesis p < 0.05 in about 5 % of the cases; fixed seeds, so the count is the same each time. */
static void mwu_false_positives_stay_at_the_level(void **state)
{
    int positives = 0;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        int64_t a[60], b[60];
        for (uint64_t i = 0; i < 60; i++) {
            a[i] = (int64_t)(stk__mix(seed, i) >> 40);
            b[i] = (int64_t)(stk__mix(seed, i + 1000) >> 40);
        }
        stk__sort_int64(a, 60);
        stk__sort_int64(b, 60);
        positives += test_of(a, 60, b, 60).p < 0.05;
    }
    assert_in_range(positives, 60, 140);
}

static void mwu_survives_the_ends_of_int64(void **state)
{
    const int64_t a[] = {INT64_MIN, INT64_MIN, 0}, b[] = {0, INT64_MAX, INT64_MAX};
    assert_near(test_of(a, 3, b, 3).u, 8.5, 0);
    const stk__median m = stk__median_of(a, 3);
    assert_near(m.value, (double)INT64_MIN, 0);
}

/*
 * Example of Holm's correction by hand: 0.01, 0.04, 0.03, 0.005 give 0.03, 0.06, 0.06, 0.02 (R: p.adjust(p, "holm")).
 */
static void holm_agrees_with_p_adjust(void **state)
{
    const double p[] = {0.01, 0.04, 0.03, 0.005}, wanted[] = {0.03, 0.06, 0.06, 0.02};
    double out[4];
    assert_int_equal(stk__holm(p, 4, out, NULL), STK_OK);
    for (int i = 0; i < 4; i++)
        assert_near(out[i], wanted[i], 1e-15);
    const double large[] = {0.9, 0.8};
    assert_int_equal(stk__holm(large, 2, out, NULL), STK_OK);
    assert_near(out[0], 1, 0);
    assert_near(out[1], 1, 0);
    assert_int_equal(stk__holm(large, 0, out, NULL), STK_OK);
}

static void holm_without_memory_fails(void **state)
{
    const double p[] = {0.5};
    double out[1] = {7};
    stk__alloc_fail_at(1, false);
    assert_int_equal(stk__holm(p, 1, out, NULL), STK_NOMEM);
    stk__alloc_fail_at(0, false);
    assert_near(out[0], 7, 0);
}

/*
 * Ranks of the 95 % interval, from tables of the sign test: n 6: 1 and 6; 10: 2 and 9; 20: 6 and 15; 50: 18 and 33;
 * 100: 40 and 61.
 */
static void median_interval_agrees_with_sign_test_tables(void **state)
{
    static const struct {
        size_t n;
        int64_t low, high;
    } table[] = {{1, 1, 1},  {5, 1, 5},   {6, 1, 6},    {8, 1, 8},    {9, 2, 8},
                 {10, 2, 9}, {20, 6, 15}, {50, 18, 33}, {100, 40, 61}};
    int64_t values[2000];
    for (int i = 0; i < 2000; i++)
        values[i] = i + 1;
    for (size_t i = 0; i < STK_COUNT(table); i++) {
        const stk__median m = stk__median_of(values, table[i].n);
        assert_near(m.value, ((double)table[i].n + 1) / 2, 0);
        assert_int_equal(m.low, table[i].low);
        assert_int_equal(m.high, table[i].high);
    }
    const stk__median exact = stk__median_of(values, 1000), normal = stk__median_of(values, 1001);
    assert_in_range(normal.low, exact.low - 1, exact.low + 1); /* no jump where the approximation takes over */
    assert_in_range(normal.high, exact.high - 1, exact.high + 2);
}

static void spread_of_a_normal_sample_is_its_deviation(void **state)
{
    double values[] = {-2, -1, 0, 1, 2, 1000};
    assert_near(stk__spread_of(values, 6), 1.4826022185056018 * 1.5, 1e-12); /* the outlier does not count */
    double one[] = {5};
    assert_near(stk__median_double(one, 1), 5, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mwu_exact_agrees_with_published_critical_values),
        cmocka_unit_test(mwu_exact_of_separated_samples_is_two_over_the_binomial),
        cmocka_unit_test(mwu_exact_counts_ties),
        cmocka_unit_test(mwu_normal_agrees_with_scipy),
        cmocka_unit_test(mwu_of_equal_values_finds_nothing),
        cmocka_unit_test(mwu_is_symmetric),
        cmocka_unit_test(mwu_false_positives_stay_at_the_level),
        cmocka_unit_test(mwu_survives_the_ends_of_int64),
        cmocka_unit_test(holm_agrees_with_p_adjust),
        cmocka_unit_test(holm_without_memory_fails),
        cmocka_unit_test(median_interval_agrees_with_sign_test_tables),
        cmocka_unit_test(spread_of_a_normal_sample_is_its_deviation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
