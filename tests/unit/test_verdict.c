/* Which word a comparison gets, and whether power, detectable effect and planned rounds fit each other. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stats/power.h"
#include "stats/verdict.h"
#include "base/compiler.h"

static void assert_near(double found, double wanted, double tolerance)
{
    if (!(fabs(found - wanted) <= tolerance))
        fail_msg("found %.17g, wanted %.17g", found, wanted);
}

static const stk__rule rule = {.confidence = 0.95, .min_effect = 0.02, .margin = 0.02};

static void verdict_needs_p_interval_and_effect(void **state)
{
    static const struct {
        double ratio, low, high, p;
        bool covered;
        stk__verdict verdict;
    } table[] = {
        {0.963, 0.941, 0.985, 0.003, true, STK__FASTER},
        {1.05, 1.01, 1.09, 0.01, true, STK__SLOWER},
        {0.963, 0.941, 0.985, 0.06, true, STK__INCONCLUSIVE},  /* p */
        {0.963, 0.941, 0.985, 0.05, true, STK__INCONCLUSIVE},  /* p is not below alpha */
        {0.963, 0.941, 1.001, 0.003, true, STK__INCONCLUSIVE}, /* interval */
        {0.963, 0.941, 1, 0.003, true, STK__INCONCLUSIVE},     /* which ends at 1 */
        {0.985, 0.97, 0.99, 0.003, true, STK__INCONCLUSIVE},   /* effect, and past the margin */
        {0.963, 0.941, 0.985, 0.003, false, STK__INCONCLUSIVE},
        {0.99, 0.985, 0.995, 0.003, true, STK__EQUIVALENT}, /* a change, but too small a one */
        {1, 0.99, 1.01, 0.9, true, STK__EQUIVALENT},
        {1, 1, 1, 1, true, STK__EQUIVALENT},
        {1, 1 / 1.02, 1.02, 0.9, true, STK__EQUIVALENT}, /* the edges belong to it */
        {1, 0.98, 1.01, 0.9, true, STK__INCONCLUSIVE},   /* below 1 / 1.02 */
        {1, 0.99, 1.021, 0.9, true, STK__INCONCLUSIVE},
        {1, 0.99, 1.01, 0.9, false, STK__INCONCLUSIVE},
        {1.02, 1.01, 1.03, 0.003, true, STK__SLOWER}, /* at least that large */
        {1 / 1.02, 0.97, 0.99, 0.003, true, STK__FASTER},
        {NAN, NAN, NAN, NAN, true, STK__INCONCLUSIVE},
        {1.05, 1.01, 1.09, NAN, true, STK__INCONCLUSIVE},
        {0, 0, INFINITY, 0.001, true, STK__INCONCLUSIVE},
    };
    for (size_t i = 0; i < STK_COUNT(table); i++) {
        /* The means say the same, but are too uncertain for a verdict of their own. */
        const stk__means means = {table[i].ratio, table[i].low, table[i].high, 0.5};
        const stk__evidence e = {table[i].ratio, table[i].low,   table[i].high, table[i].covered,
                                 table[i].p,     table[i].ratio, means};
        const stk__verdict found = stk__decide(&rule, &e);
        if (found != table[i].verdict)
            fail_msg("case %zu: %s, wanted %s", i, stk__verdict_name(found), stk__verdict_name(table[i].verdict));
        stk__rule turned = rule; /* samples per second: more is better */
        turned.higher_is_better = true;
        const stk__verdict other = stk__decide(&turned, &e);
        const stk__verdict wanted = found == STK__FASTER ? STK__SLOWER : found == STK__SLOWER ? STK__FASTER : found;
        assert_int_equal(other, wanted);
    }
}

/* What ranks say, what the median says, what the means say. */
static void verdict_of_a_tail(void **state)
{
    static const struct {
        double ratio, low, high, p, median;
        stk__means means;
        stk__verdict verdict;
    } table[] = {
        /* ranks see nothing, the means much */
        {1.001, 0.99, 1.01, 0.4, 1.001, {1.24, 1.12, 1.37, 0.001}, STK__TAIL_SLOWER},
        {1.001, 0.99, 1.01, 0.4, 1.001, {0.8, 0.7, 0.9, 0.001}, STK__TAIL_FASTER},
        /* a second try: p must be below a part of alpha */
        {1.001, 0.99, 1.01, 0.4, 1.001, {1.24, 1.12, 1.37, 0.009}, STK__TAIL_SLOWER},
        {1.001, 0.99, 1.01, 0.4, 1.001, {1.24, 1.12, 1.37, 0.011}, STK__INCONCLUSIVE},
        {1.001, 0.99, 1.01, 0.4, 1.001, {1.24, 0.99, 1.37, 0.001}, STK__INCONCLUSIVE},
        {1.001, 0.99, 1.01, 0.4, 1.001, {1.015, 1.01, 1.02, 0.001}, STK__EQUIVALENT}, /* too small */
        /* equivalent wants both */
        {1.001, 0.99, 1.01, 0.4, 1.001, {1.001, 0.99, 1.01, 0.5}, STK__EQUIVALENT},
        {1.001, 0.99, 1.01, 0.4, 1.001, {1.01, 0.95, 1.07, 0.5}, STK__INCONCLUSIVE},
        {1.001, 0.99, 1.01, 0.4, 1.001, {NAN, NAN, NAN, NAN}, STK__INCONCLUSIVE},
        /* ranks have seen it: named by the tail if the median has not moved */
        {1.05, 1.01, 1.3, 0.01, 1.001, {1.24, 1.12, 1.37, 0.03}, STK__TAIL_SLOWER},
        {1.05, 1.01, 1.3, 0.01, 1.05, {1.24, 1.12, 1.37, 0.001}, STK__SLOWER},
        {1.05, 1.01, 1.3, 0.01, 1.001, {1.24, 1.12, 1.37, 0.06}, STK__SLOWER},
        /* faster as a rule, but slower in the mean: that is no good news */
        {0.95, 0.94, 0.96, 0.001, 0.95, {1.2, 1.1, 1.3, 0.001}, STK__TAIL_SLOWER},
        {0.95, 0.94, 0.96, 0.001, 0.95, {1.2, 0.9, 1.5, 0.2}, STK__FASTER},
    };
    for (size_t i = 0; i < STK_COUNT(table); i++) {
        const stk__evidence e = {table[i].ratio, table[i].low,    table[i].high, true,
                                 table[i].p,     table[i].median, table[i].means};
        const stk__verdict found = stk__decide(&rule, &e);
        if (found != table[i].verdict)
            fail_msg("case %zu: %s, wanted %s", i, stk__verdict_name(found), stk__verdict_name(table[i].verdict));
        stk__rule turned = rule;
        turned.higher_is_better = true;
        const stk__verdict other = stk__decide(&turned, &e);
        assert_true(stk__verdict_better(found) == stk__verdict_worse(other));
        assert_true(stk__verdict_worse(found) == stk__verdict_better(other));
    }
}

static void verdict_names_are_those_of_the_json(void **state)
{
    for (int i = 0; i < STK__VERDICTS; i++)
        assert_int_equal(stk__verdict_find(stk__verdict_name((stk__verdict)i)), i);
    assert_int_equal(stk__verdict_find("nonsense"), STK__INCONCLUSIVE);
    assert_string_equal(stk__verdict_name(STK__TAIL_FASTER), "faster-tail");
    assert_string_equal(stk__verdict_name(STK__TAIL_SLOWER), "slower-tail");
    assert_string_equal(stk__verdict_name(STK__INCONCLUSIVE), "inconclusive");
    assert_string_equal(stk__verdict_name(STK__FASTER), "faster");
    assert_string_equal(stk__verdict_name(STK__SLOWER), "slower");
    assert_string_equal(stk__verdict_name(STK__EQUIVALENT), "equivalent");
}

/* Six rounds need six of one sign: (1 - q)^6. Ten as 20,000 simulated sessions: 79.0 %. */
static void power_of_few_rounds_is_counted_by_hand(void **state)
{
    const double q = 0.15865525393145705; /* one standard deviation */
    assert_near(stk__power(0.05, 6, 0.95, 0.05), pow(1 - q, 6), 1e-14);
    assert_near(stk__power(0.05, 10, 0.95, -0.05), 0.79, 0.015);
    assert_near(stk__power(0.05, 5, 0.95, 0.5), 0, 0);
    assert_near(stk__power(0, 6, 0.95, 0.01), 1, 0);
    assert_near(stk__power(0, 6, 0.95, 0), 0, 0);
}

/* The textbook: (1.96 + 0.84)^2 (sd / delta)^2 pi / 3 rounds for 80 %. */
static void power_of_many_rounds_agrees_with_the_textbook(void **state)
{
    for (double ratio = 3; ratio < 40; ratio *= 1.7) {
        const double rounds = 7.8489 * ratio * ratio * 1.0472;
        assert_near(stk__power(ratio, (size_t)rounds, 0.95, 1), 0.8, 0.04); /* whole ranks cost a little */
    }
}

static void detectable_is_the_inverse_of_power(void **state)
{
    static const size_t sizes[] = {6, 8, 12, 20, 30, 50, 200, 5000, 100000};
    static const double powers[] = {0.2, 0.5, 0.8, 0.95};
    for (size_t i = 0; i < STK_COUNT(sizes); i++) {
        double last = 0;
        for (size_t k = 0; k < STK_COUNT(powers); k++) {
            const double size = stk__detectable(0.07, sizes[i], 0.95, powers[k]);
            assert_near(stk__power(0.07, sizes[i], 0.95, size), powers[k], 1e-9);
            assert_true(size > last);
            last = size;
        }
    }
    assert_true(isinf(stk__detectable(0.07, 5, 0.95, 0.8)) && isinf(stk__detectable(0.07, 20, 0.95, 1)));
    assert_near(stk__detectable(0, 20, 0.95, 0.8), 0, 0);
}

static void more_rounds_reach_the_power(void **state)
{
    static const double sds[] = {0.02, 0.05, 0.1, 0.3};
    for (size_t i = 0; i < STK_COUNT(sds); i++) {
        for (double size = 0.03; size < 0.2; size *= 1.5) {
            const size_t more = stk__more_rounds(&rule, 6, size, sds[i], 1);
            const double confidence = stk__rule_confidence(&rule, 1);
            assert_true(more >= 1 && stk__power(sds[i], 6 + more, confidence, size) >= 0.8);
            if (more > 1 && more <= 300)
                assert_true(stk__power(sds[i], 6 + more - 1, confidence, size) < 0.8);
            assert_int_equal(stk__more_rounds(&rule, 6, -size, sds[i], 1), more);
            assert_true(stk__more_rounds(&rule, 6, size, sds[i], 10) >= more); /* many share alpha */
        }
    }
    /* About the textbook's 49 * 1.05 for 2 % at a spread of 5 %, and 1.07 for the tail's share of alpha. */
    assert_in_range(stk__more_rounds(&rule, 6, log(1.02), 0.05, 1), 45, 60);
}

/* No difference: both ends have to fit, each with 90 %: (2.05 + 1.28)^2 (sd / margin)^2 pi / 3. */
static void more_rounds_fit_into_the_margin(void **state)
{
    const double edge = log(1.02), wanted = 11.128 * pow(0.05 / edge, 2) * 1.0472;
    assert_near((double)stk__more_rounds(&rule, 10, 0, 0.05, 1) + 10, wanted, 12);
    /* Near an edge it takes more, at the edge no number would do. */
    assert_true(stk__more_rounds(&rule, 10, 0.015, 0.05, 1) > 2 * stk__more_rounds(&rule, 10, 0.005, 0.05, 1));
    assert_int_equal(stk__more_rounds(&rule, 10, edge * (1 - 1e-9), 0.05, 1), 0);
}

static void more_rounds_takes_the_shorter_way(void **state)
{
    stk__rule wide = {.confidence = 0.95, .min_effect = 0, .margin = 0.1};
    const size_t either = stk__more_rounds(&wide, 10, 0.001, 0.05, 1);
    assert_in_range(either, 1, 30); /* to exclude 1 it would take thousands, to fit into 10 % few */
    wide.margin = 0;
    assert_true(stk__more_rounds(&wide, 10, 0.001, 0.05, 1) > 10000);
}

static void more_rounds_without_hope_are_zero(void **state)
{
    const stk__rule gap = {.confidence = 0.95, .min_effect = 0.05, .margin = 0.02},
                    sure = {.confidence = 1, .margin = 0.02};
    assert_int_equal(stk__more_rounds(&rule, 10, 0.1, 0, 1), 0);
    assert_int_equal(stk__more_rounds(&rule, 10, 0.1, NAN, 1), 0);
    assert_int_equal(stk__more_rounds(&rule, 10, 0.1, INFINITY, 1), 0);
    assert_int_equal(stk__more_rounds(&rule, 10, NAN, 0.1, 1), 0);
    assert_int_equal(stk__more_rounds(&rule, 10, 0.021, 100, 1), 0);     /* more than a million */
    assert_int_equal(stk__more_rounds(&gap, 10, log(1.03), 0.01, 1), 0); /* neither large nor small enough */
    assert_int_equal(stk__more_rounds(&sure, 10, 0.1, 0.1, 1), 0);
    assert_int_equal(stk__more_rounds(&rule, SIZE_MAX, 0.1, 0.1, 1), 0);
    assert_int_equal(stk__more_rounds(&rule, 20, 0.5, 0.01, 0),
                     1); /* the next one may do; 0 comparisons count as one */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdict_needs_p_interval_and_effect),
        cmocka_unit_test(verdict_of_a_tail),
        cmocka_unit_test(verdict_names_are_those_of_the_json),
        cmocka_unit_test(power_of_few_rounds_is_counted_by_hand),
        cmocka_unit_test(power_of_many_rounds_agrees_with_the_textbook),
        cmocka_unit_test(detectable_is_the_inverse_of_power),
        cmocka_unit_test(more_rounds_reach_the_power),
        cmocka_unit_test(more_rounds_fit_into_the_margin),
        cmocka_unit_test(more_rounds_takes_the_shorter_way),
        cmocka_unit_test(more_rounds_without_hope_are_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
