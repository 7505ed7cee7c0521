/* Paired tests against published tables and examples, against counting every case, and by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <string.h>

#include <cmocka.h>

#include "stats/paired.h"
#include "stats/describe.h"
#include "stats/flips.h"
#include "stats/power.h"
#include "stats/signed_rank.h"
#include "base/mem.h"
#include "base/rng.h"

static void assert_near(double found, double wanted, double tolerance)
{
    if (!(fabs(found - wanted) <= tolerance))
        fail_msg("found %.17g, wanted %.17g", found, wanted);
}

static double flip_p(const double *d, size_t n)
{
    bool exact;
    const double p = stk__sign_flip_p(d, n, 1, &exact);
    assert_int_equal(exact, n <= STK__FLIP_EXACT);
    return p;
}

static double wilcoxon_p(const double *d, size_t n, bool exact_wanted)
{
    double p;
    bool exact;
    assert_int_equal(stk__signed_rank_test(d, n, &p, &exact, NULL), STK_OK);
    assert_int_equal(exact, exact_wanted);
    return p;
}

/* In [0, count). */
static int draw(uint64_t seed, uint64_t at, int count)
{
    return (int)(stk__mix(seed, at) % (uint64_t)count);
}

/*
 * Darwin's fifteen pairs of maize, in eighths of an inch. Fisher (The Design of Experiments, 1935, section 21) counted
 * by hand: 863 of the 32,768 arrangements have a total as great, and as many one as small.
 */
static const double maize[] = {49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48};

static void sign_flip_agrees_with_fisher(void **state)
{
    assert_near(flip_p(maize, 15), 2 * 863.0 / 32768, 1e-15);
    double scaled[15]; /* tenths are not exact in binary; the ties must still be ties */
    for (int i = 0; i < 15; i++)
        scaled[i] = maize[i] / 10;
    assert_near(flip_p(scaled, 15), 2 * 863.0 / 32768, 1e-15);
}

static void sign_flip_of_three_is_counted_by_hand(void **state)
{
    const double all[] = {1, 2, 3}, most[] = {3, 3, -1}, mixed[] = {1, 3, -2}, none[] = {1, 2, -3};
    assert_near(flip_p(all, 3), 0.25, 0);   /* 6 and -6 of 8 sums */
    assert_near(flip_p(most, 3), 0.5, 0);   /* 7, 5 */
    assert_near(flip_p(mixed, 3), 0.75, 0); /* 6, 4, 2; not 0 */
    assert_near(flip_p(none, 3), 1, 0);
    const double zero[25] = {0}, one = 5;
    assert_near(flip_p(zero, 3), 1, 0);
    assert_near(flip_p(zero, 25), 1, 0);
    assert_near(flip_p(&one, 1), 1, 0);
    double same[STK__FLIP_EXACT];
    for (size_t n = 1; n <= STK__FLIP_EXACT; n++) {
        same[n - 1] = 0.1;
        assert_near(flip_p(same, n), ldexp(1, 1 - (int)n), 0);
    }
}

/* Whole numbers, so that ties are exact in the count; tenths of them for the function. */
static void sign_flip_agrees_with_counting_every_case(void **state)
{
    for (uint64_t seed = 0; seed < 300; seed++) {
        const size_t n = 1 + (size_t)draw(seed, 0, 12);
        int whole[12], sum = 0;
        double d[12];
        for (size_t i = 0; i < n; i++) {
            whole[i] = draw(seed, i + 1, 21) - 8;
            d[i] = whole[i] * 0.1;
            sum += whole[i];
        }
        int found = 0;
        for (unsigned signs = 0; signs < 1u << n; signs++) {
            int other = 0;
            for (size_t i = 0; i < n; i++)
                other += signs >> i & 1 ? -whole[i] : whole[i];
            found += (other < 0 ? -other : other) >= (sum < 0 ? -sum : sum);
        }
        assert_near(flip_p(d, n), ldexp(found, -(int)n), 1e-15);
    }
}

/* A difference of 0 changes no sum: twenty and a zero have the p of the twenty, but draw their flips. */
static void sign_flip_by_chance_agrees_with_all_flips(void **state)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        double d[STK__FLIP_EXACT + 15] = {0};
        for (size_t i = 0; i < STK__FLIP_EXACT; i++)
            d[i] = draw(seed, i, 1000) - 350 - 5.0 * (double)seed;
        const double wanted = flip_p(d, STK__FLIP_EXACT), found = flip_p(d, STK__FLIP_EXACT + 1 + seed % 15);
        assert_near(found, wanted, 4.5 * sqrt(wanted * (1 - wanted) / STK__FLIPS) + 2.0 / STK__FLIPS);
    }
}

static void sign_flip_follows_its_seed_and_is_never_zero(void **state)
{
    enum { MANY = 3000 };
    static double d[MANY];
    for (size_t i = 0; i < MANY; i++)
        d[i] = draw(3, i, 1000) - 480;
    bool exact;
    const double first = stk__sign_flip_p(d, 100, 7, &exact), again = stk__sign_flip_p(d, 100, 7, &exact);
    const double other = stk__sign_flip_p(d, 100, 8, &exact);
    assert_true(first == again && first != other && fabs(first - other) < 0.01);
    /* Many values: the sum of random signs is close to normal. */
    double sum = 0, squares = 0;
    for (size_t i = 0; i < MANY; i++) {
        sum += d[i];
        squares += d[i] * d[i];
    }
    const double normal = erfc(fabs(sum) / sqrt(2 * squares));
    assert_near(flip_p(d, MANY), normal, 4 * sqrt(normal / STK__FLIPS) + 1e-3);
    for (size_t i = 0; i < MANY; i++)
        d[i] = 0.1;
    assert_near(flip_p(d, 64), 1.0 / (STK__FLIPS + 1), 1e-18);
}

static void sign_flip_of_very_many_takes_fewer_flips(void **state)
{
    enum { MANY = 400 * 1000 };
    double *d = stk__alloc(MANY * sizeof *d);
    assert_non_null(d);
    for (size_t i = 0; i < MANY; i++)
        d[i] = 1;
    assert_near(flip_p(d, MANY), 1.0 / 10001, 1e-15);
    stk__free(d);
}

/* Two-sided critical values of the signed-rank sum at 0.05 (Wilcoxon 1949; as in most textbooks). */
static void wilcoxon_agrees_with_published_critical_values(void **state)
{
    static const struct {
        size_t n, critical;
    } table[] = {{6, 0},   {7, 2},   {8, 3},   {9, 5},   {10, 8},  {11, 10}, {12, 13}, {13, 17},  {14, 21},
                 {15, 25}, {16, 29}, {17, 34}, {18, 40}, {19, 46}, {20, 52}, {25, 89}, {30, 137}, {50, 434}};
    for (size_t i = 0; i < STK_COUNT(table); i++) {
        const size_t n = table[i].n;
        for (size_t sum = table[i].critical; sum <= table[i].critical + 1; sum++) {
            double d[50];
            size_t left = sum;
            for (size_t rank = n; rank > 0; rank--) {
                const bool negative = rank <= left; /* the largest ranks that fit */
                left -= negative ? rank : 0;
                d[n - rank] = negative ? -0.1 * (double)rank : 0.1 * (double)rank;
            }
            const double p = wilcoxon_p(d, n, true);
            assert_true(sum <= table[i].critical ? p <= 0.05 : p > 0.05);
        }
    }
}

/* R: wilcox.test(maize) gives V = 96, p = 0.04126. */
static void wilcoxon_agrees_with_r(void **state)
{
    assert_near(wilcoxon_p(maize, 15, true), 0.04126, 5e-6);
    const double three[] = {1, 2, 3}, mixed[] = {1, 2, -3};
    assert_near(wilcoxon_p(three, 3, true), 0.25, 0);
    assert_near(wilcoxon_p(mixed, 3, true), 1, 0);
}

/* Ties share a rank, zeros are dropped: every case counted, up to twelve whole numbers. */
static void wilcoxon_with_ties_agrees_with_counting_every_case(void **state)
{
    for (uint64_t seed = 0; seed < 300; seed++) {
        const size_t n = 1 + (size_t)draw(seed, 0, 12);
        double d[12];
        int ranks[12], sum = 0, total = 0;
        size_t count = 0;
        for (size_t i = 0; i < n; i++)
            d[i] = (draw(seed, i + 1, 13) - 5) * 0.1;
        for (size_t i = 0; i < n; i++) {
            int below = 0, same = 0;
            for (size_t k = 0; k < n; k++) {
                below += d[k] != 0 && fabs(d[k]) < fabs(d[i]);
                same += d[k] != 0 && fabs(d[k]) == fabs(d[i]);
            }
            if (d[i] == 0)
                continue;
            ranks[count] = 2 * below + same + 1; /* doubled */
            total += ranks[count];
            sum += d[i] > 0 ? ranks[count] : 0;
            count++;
        }
        const int least = sum < total - sum ? sum : total - sum;
        int found = 0;
        for (unsigned signs = 0; signs < 1u << count; signs++) {
            int other = 0;
            for (size_t i = 0; i < count; i++)
                other += signs >> i & 1 ? ranks[i] : 0;
            found += other <= least;
        }
        assert_near(wilcoxon_p(d, n, true), fmin(1, ldexp(2 * found, -(int)count)), 1e-15);
    }
}

static void wilcoxon_of_many_is_normal(void **state)
{
    const double zero[60] = {0};
    assert_near(wilcoxon_p(zero, 60, true), 1, 0);
    double many[60];
    for (int i = 0; i < 60; i++)
        many[i] = i % 2 ? i + 1 : -i - 1.5;
    assert_true(wilcoxon_p(many, 60, false) > 0.5);
    /* At its limit the count and the normal distribution agree. */
    double d[STK__SIGNED_RANK_EXACT + 1];
    for (int i = 0; i <= STK__SIGNED_RANK_EXACT; i++)
        d[i] = i % 3 ? i + 1 : -i - 1;
    assert_near(wilcoxon_p(d, STK__SIGNED_RANK_EXACT, true), wilcoxon_p(d, STK__SIGNED_RANK_EXACT + 1, false), 0.02);
}

/* R: wilcox.test(x, conf.int = TRUE) takes the qsignrank(0.025, n)-th mean; critical value + 1 of the tables. */
static void signed_rank_interval_agrees_with_published_critical_values(void **state)
{
    static const struct {
        size_t n, rank;
    } table[] = {{5, 0}, {6, 1}, {7, 3}, {8, 4}, {10, 9}, {12, 14}, {15, 26}, {20, 53}, {30, 138}, {50, 435}};
    for (size_t i = 0; i < STK_COUNT(table); i++) {
        double level;
        assert_int_equal(stk__signed_rank_interval(table[i].n, 0.95, &level), table[i].rank);
        assert_true(table[i].rank ? level <= 0.05 && level > 0.02 : level == 1);
    }
    const size_t normal = stk__signed_rank_interval(60, 0.95, NULL); /* critical value 650 */
    assert_in_range(normal, 648, 651);
    assert_int_equal(stk__signed_rank_interval(0, 0.95, NULL), 0);
    assert_int_equal(stk__signed_rank_interval(100, 1, NULL), 0);
}

static void paired_agrees_with_all_means_of_two(void **state)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        const size_t n = 1 + (size_t)draw(seed, 0, 30);
        double a[30], b[30], means[30 * 31 / 2];
        size_t count = 0;
        for (size_t i = 0; i < n; i++) {
            a[i] = 1;
            b[i] = exp(0.001 * (draw(seed, i + 1, seed % 2 ? 7 : 100000) - 3));
        }
        for (size_t i = 0; i < n; i++) {
            for (size_t k = i; k < n; k++)
                means[count++] = (log(b[i]) + log(b[k])) / 2;
        }
        stk__summary s;
        assert_int_equal(stk__describe(means, count, &s, NULL), STK_OK);
        stk__paired r;
        assert_int_equal(stk__paired_test(a, b, n, 0.95, 1, &r, NULL), STK_OK);
        assert_near(r.ratio, exp(s.median), 1e-12 * r.ratio);
    }
}

static void paired_figures_are_those_of_the_log_ratios(void **state)
{
    const double a[] = {1, 2, 4, 8, 1, 5, 10}, b[] = {2, 3, 4, 4, 4, 6, 11};
    stk__paired r;
    assert_int_equal(stk__paired_test(a, b, 7, 0.95, 1, &r, NULL), STK_OK);
    assert_int_equal(r.n, 7);
    assert_int_equal(r.smaller, 1);
    assert_int_equal(r.equal, 1);
    assert_near(r.median, 1.2, 1e-15);          /* 0.5 1 1.1 1.2 1.5 2 4 */
    assert_near(r.low, sqrt(0.5 * 1.1), 1e-15); /* third of 28 means: 0.5, 0.5 and 1, 0.5 and 1.1 */
    assert_near(r.high, sqrt(4 * 1.5), 1e-15);
    assert_true(r.covered && r.exact && r.ratio > r.low && r.ratio < r.high);
    assert_near(r.means.ratio, 34.0 / 31, 1e-15);
    assert_true(r.means.low < 1 && r.means.high > 1 && r.means.p > 0.3);
    assert_int_equal(stk__paired_test(a, b, 5, 0.95, 1, &r, NULL), STK_OK);
    assert_true(!r.covered && r.noise == r.sd_log);
    assert_int_equal(stk__paired_test(a, b, 1, 0.95, 1, &r, NULL), STK_OK);
    assert_true(isnan(r.sd_log) && isnan(r.means.low) && r.ratio == 2 && r.p == 1 && r.means.p == 1);
}

/* One round in four is far slower: the median does not move, the mean does, and the noise is that of the others. */
static void paired_tells_far_rounds_apart(void **state)
{
    double a[40], b[40];
    for (int i = 0; i < 40; i++) {
        a[i] = 1 + 0.001 * (draw(1, (uint64_t)i, 11) - 5);
        b[i] = (1 + 0.001 * (draw(2, (uint64_t)i, 11) - 5)) * (i % 4 ? 1 : 3);
    }
    stk__paired r, back;
    assert_int_equal(stk__paired_test(a, b, 40, 0.95, 1, &r, NULL), STK_OK);
    assert_int_equal(stk__paired_test(b, a, 40, 0.95, 1, &back, NULL), STK_OK);
    assert_true(r.far_above == 0.25 && r.far_below == 0 && back.far_below == 0.25 && back.far_above == 0);
    assert_near(r.median, 1, 0.003);
    assert_near(r.means.ratio, 1.5, 0.005);
    assert_true(r.means.low > 1.2 && r.means.high < 2 && r.means.p < 0.01);
    assert_near(r.means.low * back.means.high, 1, 1e-12);
    assert_int_equal(stk__paired_test(a, a, 40, 0.95, 1, &r, NULL), STK_OK);
    assert_true(r.far_above == 0 && r.far_below == 0 && r.noise == 0 && r.means.low == 1 && r.means.high == 1);
}

/* The noise that is taken from an interval is that of the values, and outliers hardly touch it. */
static void noise_is_the_spread_of_the_log_ratios(void **state)
{
    enum { N = 1000 };
    static double a[N], b[N];
    double sum = 0;
    for (uint64_t i = 0; i < N; i++) {
        double x = 0; /* about normal: twelve uniform values */
        for (uint64_t k = 0; k < 12; k++)
            x += draw(9, 12 * i + k, 1000) / 1000.0;
        a[i] = 1;
        b[i] = exp(0.05 * (x - 6));
        sum += 0.0025 * (x - 6) * (x - 6);
    }
    stk__paired r;
    assert_int_equal(stk__paired_test(a, b, N, 0.95, 1, &r, NULL), STK_OK);
    assert_near(r.noise, sqrt(sum / N), 0.004);
    for (size_t i = 0; i < N; i += 50)
        b[i] *= 20;
    assert_int_equal(stk__paired_test(a, b, N, 0.95, 1, &r, NULL), STK_OK);
    assert_true(r.noise < 0.06 && r.sd_log > 0.3);
}

static void paired_of_equals_is_one(void **state)
{
    double a[30];
    for (int i = 0; i < 30; i++)
        a[i] = 0.1 * (i + 1);
    for (size_t n = 1; n <= 30; n++) {
        stk__paired r;
        assert_int_equal(stk__paired_test(a, a, n, 0.95, 1, &r, NULL), STK_OK);
        assert_true(r.ratio == 1 && r.low == 1 && r.high == 1 && r.median == 1);
        assert_true(r.p == 1 && r.means.p == 1 && r.equal == n && r.smaller == 0);
    }
}

/* B against A is A against B turned over, to the last digit where it is a count. */
static void paired_is_symmetric(void **state)
{
    for (uint64_t seed = 0; seed < 100; seed++) {
        const size_t n = 6 + seed % 30;
        double a[40], b[40];
        for (size_t i = 0; i < n; i++) {
            a[i] = 1 + draw(seed, 2 * i, 50);
            b[i] = 1 + draw(seed, 2 * i + 1, 50);
        }
        stk__paired r, back;
        assert_int_equal(stk__paired_test(a, b, n, 0.95, 1, &r, NULL), STK_OK);
        assert_int_equal(stk__paired_test(b, a, n, 0.95, 1, &back, NULL), STK_OK);
        assert_true(r.p == back.p && fabs(r.means.p - back.means.p) < 1e-12);
        assert_int_equal(r.smaller + r.equal + back.smaller, n);
        assert_near(r.ratio * back.ratio, 1, 1e-14);
        assert_near(r.low * back.high, 1, 1e-14);
        assert_near(r.median * back.median, 1, 1e-14);
    }
}

static void paired_survives_the_ends_of_double(void **state)
{
    const double a[] = {1e308, 5e-324, 1e-300, 1, 1, 1, 1}, b[] = {5e-324, 1e308, 1e300, 1, 2, 3, 4};
    stk__paired r;
    assert_int_equal(stk__paired_test(a, b, 7, 0.95, 1, &r, NULL), STK_OK);
    assert_near(r.median, 3, 1e-15);
    assert_true(isfinite(r.sd_log) && r.p > 0 && r.means.p > 0 && r.low < r.median && r.high > r.median);
}

static void paired_refuses_what_has_no_logarithm(void **state)
{
    const double good[] = {1, 2, 3};
    static const double bad[] = {0, -1, NAN, INFINITY};
    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        const double values[] = {1, bad[i], 3};
        stk__paired r = {.n = 77};
        stk_error err = {0};
        assert_int_equal(stk__paired_test(good, values, 3, 0.95, 1, &r, &err), STK_INVALID);
        assert_non_null(strstr(err.message, "round 2"));
        assert_int_equal(stk__paired_test(values, good, 3, 0.95, 1, &r, NULL), STK_INVALID);
        assert_int_equal(r.n, 77);
    }
    stk__paired r;
    assert_int_equal(stk__paired_test(good, good, 0, 0.95, 1, &r, NULL), STK_INVALID);
}

static void paired_without_memory_fails(void **state)
{
    const double a[] = {1, 2, 3, 4, 5, 6, 7}, b[] = {2, 2, 4, 4, 5, 7, 7};
    int failures = 0;
    for (uint64_t at = 1;; at++) {
        stk__paired r = {.n = 77};
        stk__alloc_fail_at(at, false);
        const stk_status status = stk__paired_test(a, b, 7, 0.95, 1, &r, NULL);
        stk__alloc_fail_at(0, false);
        if (status == STK_OK)
            break;
        assert_int_equal(status, STK_NOMEM);
        assert_int_equal(r.n, 77);
        failures++;
    }
    assert_true(failures >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sign_flip_agrees_with_fisher),
        cmocka_unit_test(sign_flip_of_three_is_counted_by_hand),
        cmocka_unit_test(sign_flip_agrees_with_counting_every_case),
        cmocka_unit_test(sign_flip_by_chance_agrees_with_all_flips),
        cmocka_unit_test(sign_flip_follows_its_seed_and_is_never_zero),
        cmocka_unit_test(sign_flip_of_very_many_takes_fewer_flips),
        cmocka_unit_test(wilcoxon_agrees_with_published_critical_values),
        cmocka_unit_test(wilcoxon_agrees_with_r),
        cmocka_unit_test(wilcoxon_with_ties_agrees_with_counting_every_case),
        cmocka_unit_test(wilcoxon_of_many_is_normal),
        cmocka_unit_test(signed_rank_interval_agrees_with_published_critical_values),
        cmocka_unit_test(paired_tells_far_rounds_apart),
        cmocka_unit_test(noise_is_the_spread_of_the_log_ratios),
        cmocka_unit_test(paired_agrees_with_all_means_of_two),
        cmocka_unit_test(paired_figures_are_those_of_the_log_ratios),
        cmocka_unit_test(paired_of_equals_is_one),
        cmocka_unit_test(paired_is_symmetric),
        cmocka_unit_test(paired_survives_the_ends_of_double),
        cmocka_unit_test(paired_refuses_what_has_no_logarithm),
        cmocka_unit_test(paired_without_memory_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
