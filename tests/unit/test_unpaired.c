/* Unpaired comparisons against tables, examples of R, and all differences listed one by one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <string.h>

#include <cmocka.h>

#include "stats/unpaired.h"
#include "stats/describe.h"
#include "stats/ranks.h"
#include "base/mem.h"
#include "base/rng.h"

static void assert_near(double found, double wanted, double tolerance)
{
    if (!(fabs(found - wanted) <= tolerance))
        fail_msg("found %.17g, wanted %.17g", found, wanted);
}

static stk__unpaired test_of(const double *a, size_t na, const double *b, size_t nb)
{
    stk__unpaired out;
    assert_int_equal(stk__unpaired_test(a, na, b, nb, 0.95, &out, NULL), STK_OK);
    return out;
}

static void draw_sample(uint64_t seed, size_t n, uint64_t values, double *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = 1 + (double)(stk__mix(seed, i) % values) / 1000;
}

/* The interval begins one rank past the critical value of U at 0.05 (Mann and Whitney 1947; Hollander and Wolfe). */
static void interval_rank_agrees_with_critical_values(void **state)
{
    static const struct {
        size_t na, nb, rank;
    } table[] = {{4, 4, 1},    {5, 5, 3},    {6, 6, 6},    {7, 7, 9},     {8, 8, 14}, {9, 9, 18},
                 {10, 10, 24}, {4, 8, 5},    {8, 4, 5},    {5, 10, 9},    {3, 8, 3},  {3, 3, 0},
                 {1, 19, 0},   {12, 12, 38}, {15, 15, 65}, {20, 20, 128}, {1, 30, 0}, {0, 5, 0}};
    for (size_t i = 0; i < STK_COUNT(table); i++)
        assert_int_equal(stk__mwu_interval_rank(table[i].na, table[i].nb, 0.95), table[i].rank);
    assert_int_equal(stk__mwu_interval_rank(5, 5, 0.99), 1);
    assert_int_equal(stk__mwu_interval_rank(4, 4, 0.99), 0);
    assert_int_equal(stk__mwu_interval_rank(4, 4, 1), 0);
}

/* R's data set `sleep`, 10 hours added: t.test(extra ~ group) gives t = -1.8608, df = 17.776, p = 0.07939. */
static void welch_agrees_with_r(void **state)
{
    const double a[] = {10.7, 8.4, 9.8, 8.8, 9.9, 13.4, 13.7, 10.8, 10.0, 12.0};
    const double b[] = {11.9, 10.8, 11.1, 10.1, 9.9, 14.4, 15.5, 11.6, 14.6, 13.4};
    const stk__unpaired r = test_of(a, 10, b, 10);
    assert_near(r.welch_t, 1.8608, 5e-5);
    assert_near(r.welch_df, 17.776, 5e-4);
    assert_near(r.p_welch, 0.07939, 5e-6);
    assert_true(r.exact && r.na == 10 && r.nb == 10);
}

static void welch_without_variation_is_not_a_number(void **state)
{
    const double a[] = {2, 2, 2}, b[] = {3, 3, 3}, c[] = {1, 2, 3};
    assert_true(isnan(test_of(a, 3, b, 3).p_welch) && isnan(test_of(a, 1, c, 3).p_welch));
    const stk__unpaired r = test_of(a, 3, c, 3); /* one side is enough */
    assert_near(r.welch_t, 0, 0);
    assert_near(r.p_welch, 1, 0);
    assert_near(r.welch_df, 2, 1e-15);
    assert_true(isnan(test_of(a, 1, b, 1).sd_log) && test_of(a, 2, b, 1).sd_log == 0);
}

static void ratio_and_interval_are_those_of_all_differences(void **state)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        const size_t na = 1 + stk__mix(seed, 1) % 25, nb = 1 + stk__mix(seed, 2) % 25, count = na * nb;
        double a[25], b[25], all[625];
        draw_sample(2 * seed, na, seed % 3 ? 100000 : 7, a);
        draw_sample(2 * seed + 1, nb, seed % 3 ? 100000 : 7, b);
        for (size_t i = 0; i < count; i++)
            all[i] = log(b[i % nb]) - log(a[i / nb]);
        stk__sort_double(all, count);
        const stk__unpaired r = test_of(a, na, b, nb);
        const size_t rank = stk__mwu_interval_rank(na, nb, 0.95), from = rank ? rank : 1;
        assert_int_equal(r.covered, rank > 0);
        assert_near(r.low, exp(all[from - 1]), 0);
        assert_near(r.high, exp(all[count - from]), 0);
        assert_near(log(r.ratio), (all[(count - 1) / 2] + all[count / 2]) / 2, 1e-15);
        assert_true(r.low <= r.ratio && r.ratio <= r.high);
    }
}

/* Without ties the interval excludes 1 exactly when p is at most alpha. */
static void interval_and_p_agree(void **state)
{
    size_t excluded = 0;
    for (uint64_t seed = 0; seed < 600; seed++) {
        const size_t na = 3 + stk__mix(seed, 1) % 20, nb = 3 + stk__mix(seed, 2) % 20;
        double a[25], b[25];
        draw_sample(seed + 5000, na, 1000003, a);
        draw_sample(seed + 6000, nb, 1000003, b);
        for (size_t i = 0; i < nb; i++)
            b[i] *= 1 + 0.003 * (double)(seed % 100);
        const stk__unpaired r = test_of(a, na, b, nb);
        const bool excludes = r.covered && (r.low > 1 || r.high < 1);
        assert_int_equal(excludes, r.p_mann_whitney <= 0.05 && r.covered);
        excluded += excludes;
    }
    assert_in_range(excluded, 30, 570);
}

static void unpaired_is_symmetric(void **state)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        double a[20], b[20];
        draw_sample(seed, 9, 50, a);
        draw_sample(seed + 99, 12 + seed % 8, 50, b);
        const stk__unpaired r = test_of(a, 9, b, 12 + seed % 8), back = test_of(b, 12 + seed % 8, a, 9);
        assert_near(r.ratio * back.ratio, 1, 1e-14);
        assert_near(r.low * back.high, 1, 1e-14);
        assert_near(r.p_mann_whitney, back.p_mann_whitney, 1e-15);
        assert_near(r.welch_t, -back.welch_t, 1e-12);
        assert_near(r.sd_log, back.sd_log, 1e-15);
    }
}

static void unpaired_takes_thousands_on_each_side(void **state)
{
    stk__unpaired r;
    enum { MANY = 5000 }; /* as pytest-benchmark takes of a quick function */
    static double many[MANY], more[MANY];
    for (size_t i = 0; i < MANY; i++) {
        many[i] = 1 + 0.1 * (double)(i % 97) / 97;
        more[i] = 1.05 * many[i];
    }
    assert_int_equal(stk__unpaired_test(many, MANY, more, MANY, 0.95, &r, NULL), STK_OK);
    assert_true(fabs(r.ratio - 1.05) < 1e-12 && r.low > 1.04 && r.high < 1.06);
}

static void unpaired_refuses_bad_values_and_too_many(void **state)
{
    const double good[] = {1, 2, 3}, bad[] = {1, -2, 3};
    stk__unpaired r = {.na = 77};
    stk_error err = {0};
    assert_int_equal(stk__unpaired_test(good, 3, bad, 3, 0.95, &r, &err), STK_INVALID);
    assert_string_equal(err.message, "value 2 of b is -2, wanted a finite one above 0");
    assert_int_equal(stk__unpaired_test(good, 0, bad, 3, 0.95, &r, NULL), STK_INVALID);
    assert_int_equal(stk__unpaired_test(good, (size_t)1 << 27, good, (size_t)1 << 26, 0.95, &r, NULL), STK_LIMIT);
    assert_int_equal(stk__unpaired_test(good, SIZE_MAX / 2, good, SIZE_MAX / 2, 0.95, &r, NULL), STK_LIMIT);
    int failures = 0;
    for (uint64_t at = 1;; at++) {
        stk__alloc_fail_at(at, false);
        const stk_status status = stk__unpaired_test(good, 3, good, 3, 0.95, &r, NULL);
        stk__alloc_fail_at(0, false);
        if (status == STK_OK)
            break;
        assert_int_equal(status, STK_NOMEM);
        assert_int_equal(r.na, 77);
        failures++;
    }
    assert_true(failures >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interval_rank_agrees_with_critical_values),
        cmocka_unit_test(welch_agrees_with_r),
        cmocka_unit_test(welch_without_variation_is_not_a_number),
        cmocka_unit_test(ratio_and_interval_are_those_of_all_differences),
        cmocka_unit_test(interval_and_p_agree),
        cmocka_unit_test(unpaired_is_symmetric),
        cmocka_unit_test(unpaired_takes_thousands_on_each_side),
        cmocka_unit_test(unpaired_refuses_bad_values_and_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
