/* Comparisons of a result: which pairs, corrections over several, what gets no verdict and why. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/compare.h"
#include "base/mem.h"
#include "base/rng.h"

enum { MOST_RUNS = 64 };

static const stk__rule rule = {.confidence = 0.95, .min_effect = 0.02, .margin = 0.02};

static void assert_near(double found, double wanted, double tolerance)
{
    if (!(fabs(found - wanted) <= tolerance))
        fail_msg("found %.17g, wanted %.17g", found, wanted);
}

/* A result with one metric, "wall", and one more that counts the other way, "rate". */
static void result_init(stk__result *r, bool paired)
{
    *r = (stk__result){.paired = paired, .seed = 7};
    assert_int_equal(stk__result_add_metric(r, "wall", "s", false, NULL, NULL), STK_OK);
    assert_int_equal(stk__result_add_metric(r, "rate", "1/s", true, NULL, NULL), STK_OK);
}

static size_t add(stk__result *r, const char *name, size_t group, const double *values, size_t n)
{
    size_t index = 0;
    assert_int_equal(stk__result_add_variant(r, name, name, group, &index, NULL), STK_OK);
    for (size_t i = 0; i < n; i++) {
        const double row[2] = {values[i], 1 / values[i]};
        assert_int_equal(stk__result_add_run(r, index, row, 0, NULL), STK_OK);
    }
    return index;
}

/* Values around `middle`, a few per cent up and down, the same on every machine. */
static const double *around(double middle, uint64_t seed, size_t n)
{
    static double values[8][MOST_RUNS];
    static size_t next;
    double *out = values[next++ % 8];
    for (size_t i = 0; i < n; i++)
        out[i] = middle * (1 + 0.01 * ((double)(stk__mix(seed, i) % 1001) / 500 - 1));
    return out;
}

static stk__comparisons compared(const stk__result *r, const stk__rule *by, size_t metric)
{
    stk__compare_pair *pairs = NULL;
    size_t count = 0;
    stk__comparisons c = {0};
    assert_int_equal(stk__compare_groups(r, &pairs, &count, NULL), STK_OK);
    assert_int_equal(stk__compare(r, by, pairs, count, metric, &c, NULL), STK_OK);
    assert_int_equal(c.count, count);
    stk__free(pairs);
    return c;
}

/* ---- which pairs ---- */

static void groups_pair_each_variant_with_the_first_of_its_own(void **state)
{
    static const size_t groups[] = {5, 9, 5, 5, 9, 1};
    static const stk__compare_pair wanted[] = {{0, 2}, {0, 3}, {1, 4}};
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    stk__result r;
    stk__compare_pair *pairs = NULL;
    size_t count = 77;
    result_init(&r, true);
    for (size_t i = 0; i < STK_COUNT(groups); i++)
        add(&r, names[i], groups[i], NULL, 0);
    assert_int_equal(stk__compare_groups(&r, &pairs, &count, NULL), STK_OK);
    assert_int_equal(count, STK_COUNT(wanted));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(pairs[i].a, wanted[i].a);
        assert_int_equal(pairs[i].b, wanted[i].b);
    }
    stk__free(pairs);
    stk__result_clear(&r);
}

static void groups_of_an_empty_result_are_none(void **state)
{
    stk__result r = {0};
    stk__compare_pair *pairs = NULL;
    size_t count = 77;
    assert_int_equal(stk__compare_groups(&r, &pairs, &count, NULL), STK_OK);
    assert_int_equal(count, 0);
    stk__free(pairs);
    stk__comparisons c = {0};
    assert_int_equal(stk__compare(&r, &rule, NULL, 0, 0, &c, NULL), STK_OK);
    assert_int_equal(c.count, 0);
    assert_true(stk__worst_regression(&c, &r) == 0);
    stk__comparisons_clear(&c);
}

/* ---- one comparison ---- */

static void paired_figures_are_those_of_the_paired_test(void **state)
{
    const double a[] = {1.00, 1.10, 0.95, 1.02, 1.20, 0.99, 1.01, 1.05};
    const double b[] = {0.90, 0.98, 0.88, 0.90, 1.10, 0.87, 0.93, 0.91};
    stk__paired want;
    assert_int_equal(stk__paired_test(a, b, 8, stk__rule_confidence(&rule, 1), 7, &want, NULL), STK_OK);
    stk__result r;
    result_init(&r, true);
    add(&r, "a", 0, a, 8);
    add(&r, "b", 0, b, 8);
    stk__comparisons c = compared(&r, &rule, 0);
    const stk__comparison *x = &c.items[0];
    assert_true(x->valid);
    assert_true(x->paired);
    assert_null(x->withheld);
    assert_int_equal(x->n, 8);
    assert_near(x->ratio, want.ratio, 0);
    assert_near(x->low, want.low, 0);
    assert_near(x->high, want.high, 0);
    assert_near(x->p, 2.0 / 256, 1e-15); /* b is smaller in all 8 rounds: only one flip is as extreme, and its mirror */
    assert_near(x->p_holm, x->p / STK__RANK_SHARE, 0);
    assert_near(x->noise, want.noise, 0);
    assert_near(x->median, want.median, 0);
    assert_near(x->means.ratio, want.means.ratio, 0);
    assert_int_equal(x->verdict, STK__FASTER);
    assert_int_equal(x->more_rounds, 0);
    assert_true(stk__worst_regression(&c, &r) == 0);
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
}

static void higher_is_better_turns_the_verdict(void **state)
{
    stk__result r;
    result_init(&r, true);
    add(&r, "a", 0, around(1, 1, 12), 12);
    add(&r, "b", 0, around(1.25, 2, 12), 12);
    stk__comparisons times = compared(&r, &rule, 0), rates = compared(&r, &rule, 1);
    assert_int_equal(times.items[0].verdict, STK__SLOWER);
    assert_int_equal(rates.items[0].verdict, STK__SLOWER);
    assert_true(times.items[0].ratio > 1.2);
    assert_true(rates.items[0].ratio < 1 / 1.2);
    assert_near(times.items[0].ratio * rates.items[0].ratio, 1, 1e-12);
    assert_near(stk__worst_regression(&times, &r), times.items[0].ratio - 1, 1e-12);
    assert_near(stk__worst_regression(&rates, &r), 1 / rates.items[0].ratio - 1, 1e-12);
    stk__comparisons_clear(&times);
    stk__comparisons_clear(&rates);
    stk__result_clear(&r);
}

static void equal_variants_are_equivalent_within_the_margin(void **state)
{
    stk__result r;
    result_init(&r, true);
    add(&r, "a", 0, around(1, 1, 40), 40);
    add(&r, "b", 0, around(1, 2, 40), 40);
    stk__comparisons c = compared(&r, &rule, 0);
    assert_int_equal(c.items[0].verdict, STK__EQUIVALENT);
    stk__comparisons_clear(&c);
    const stk__rule narrow = {.confidence = 0.95, .min_effect = 0.02, .margin = 1e-6};
    c = compared(&r, &narrow, 0);
    assert_int_equal(c.items[0].verdict, STK__INCONCLUSIVE);
    assert_null(c.items[0].withheld);
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
}

static void change_below_the_minimum_effect_is_no_change(void **state)
{
    stk__result r;
    result_init(&r, true);
    add(&r, "a", 0, around(1, 1, 20), 20);
    add(&r, "b", 0, around(1.3, 2, 20), 20);
    const stk__rule large = {.confidence = 0.95, .min_effect = 0.5, .margin = 0.02};
    stk__comparisons c = compared(&r, &large, 0);
    assert_true(c.items[0].p < 0.001);
    assert_true(c.items[0].low > 1);
    assert_int_equal(c.items[0].verdict, STK__INCONCLUSIVE);
    assert_true(stk__worst_regression(&c, &r) == 0); /* no verdict, no regression */
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
}

static void fewer_than_six_rounds_are_inconclusive(void **state)
{
    for (size_t n = 1; n <= STK__LEAST_ROUNDS; n++) {
        stk__result r;
        result_init(&r, true);
        add(&r, "a", 0, around(1, 1, n), n);
        add(&r, "b", 0, around(3, 2, n), n);
        stk__comparisons c = compared(&r, &rule, 0);
        assert_true(c.items[0].valid);
        assert_int_equal(c.items[0].n, n);
        assert_near(c.items[0].ratio, 3, 0.1);
        assert_int_equal(c.items[0].pair.covered, n >= STK__LEAST_ROUNDS);
        assert_int_equal(c.items[0].verdict, n < STK__LEAST_ROUNDS ? STK__INCONCLUSIVE : STK__SLOWER);
        if (n > 1 && n < STK__LEAST_ROUNDS)
            assert_true(c.items[0].more_rounds >= STK__LEAST_ROUNDS - n);
        stk__comparisons_clear(&c);
        stk__result_clear(&r);
    }
}

static void unpaired_results_take_the_other_test(void **state)
{
    const double a[] = {1.01, 1.03, 0.99, 1.02, 1.00, 0.98, 1.04}, b[] = {1.21, 1.19, 1.25, 1.22, 1.18, 1.20};
    stk__unpaired want;
    assert_int_equal(stk__unpaired_test(a, 7, b, 6, stk__rule_confidence(&rule, 1), &want, NULL), STK_OK);
    stk__result r;
    result_init(&r, false);
    add(&r, "a", 0, a, 7);
    add(&r, "b", 0, b, 6);
    stk__comparisons c = compared(&r, &rule, 0);
    assert_false(c.items[0].paired);
    assert_true(c.items[0].valid);
    assert_int_equal(c.items[0].n, 6);
    assert_near(c.items[0].ratio, want.ratio, 0);
    assert_near(c.items[0].low, want.low, 0);
    assert_near(c.items[0].high, want.high, 0);
    assert_near(c.items[0].p, want.p_mann_whitney, 0);
    assert_near(c.items[0].p, 2.0 / 1716, 1e-15); /* 13 over 6: no value of b is below one of a */
    assert_int_equal(c.items[0].verdict, STK__SLOWER);
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
}

/* ---- values that are missing or have no ratio ---- */

static void unknown_values_drop_their_round_on_both_sides(void **state)
{
    double a[10], b[10], kept_a[8], kept_b[8];
    size_t kept = 0;
    memcpy(a, around(1, 1, 10), sizeof a);
    memcpy(b, around(1.5, 2, 10), sizeof b);
    a[2] = NAN;
    b[7] = INFINITY;
    for (size_t i = 0; i < 10; i++) {
        if (i != 2 && i != 7) {
            kept_a[kept] = a[i];
            kept_b[kept++] = b[i];
        }
    }
    stk__paired want;
    assert_int_equal(stk__paired_test(kept_a, kept_b, kept, stk__rule_confidence(&rule, 1), 7, &want, NULL), STK_OK);
    stk__result r;
    result_init(&r, true);
    add(&r, "a", 0, a, 10);
    add(&r, "b", 0, b, 10);
    stk__comparisons c = compared(&r, &rule, 0);
    assert_int_equal(c.items[0].n, 8);
    assert_near(c.items[0].ratio, want.ratio, 0);
    assert_near(c.items[0].p, want.p, 0);
    stk__comparisons_clear(&c);
    r.paired = false;
    c = compared(&r, &rule, 0);
    assert_int_equal(c.items[0].free.na, 9);
    assert_int_equal(c.items[0].free.nb, 9);
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
}

static void values_of_zero_have_no_ratio(void **state)
{
    for (int paired = 0; paired < 2; paired++) {
        double b[8];
        memcpy(b, around(1, 2, 8), sizeof b);
        b[5] = 0;
        stk__result r;
        result_init(&r, paired);
        add(&r, "a", 0, around(1, 1, 8), 8);
        add(&r, "b", 0, b, 8);
        stk__comparisons c = compared(&r, &rule, 0);
        assert_false(c.items[0].valid);
        assert_int_equal(c.items[0].verdict, STK__INCONCLUSIVE);
        assert_non_null(c.items[0].withheld);
        assert_non_null(strstr(c.items[0].withheld, "0"));
        assert_true(isnan(c.items[0].ratio));
        assert_true(isnan(c.items[0].p_holm));
        stk__comparisons_clear(&c);
        stk__result_clear(&r);
    }
}

static void variants_without_runs_are_not_compared(void **state)
{
    const double none[] = {NAN, NAN};
    stk__result r;
    result_init(&r, true);
    add(&r, "a", 0, around(1, 1, 8), 8);
    add(&r, "b", 0, NULL, 0);
    add(&r, "c", 0, none, 2);
    stk__comparisons c = compared(&r, &rule, 0);
    for (size_t i = 0; i < 2; i++) {
        assert_false(c.items[i].valid);
        assert_non_null(c.items[i].withheld);
        assert_int_equal(c.items[i].verdict, STK__INCONCLUSIVE);
    }
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
}

/* ---- no verdict ---- */

static void withheld_variants_get_figures_but_no_verdict(void **state)
{
    stk__result r;
    result_init(&r, true);
    add(&r, "a", 0, around(1, 1, 12), 12);
    add(&r, "b", 0, around(2, 2, 12), 12);
    add(&r, "c", 0, around(2, 3, 12), 12);
    r.variants[1].withheld = stk__strdup("its output differs");
    stk__comparisons c = compared(&r, &rule, 0);
    assert_true(c.items[0].valid);
    assert_near(c.items[0].ratio, 2, 0.1);
    assert_int_equal(c.items[0].verdict, STK__INCONCLUSIVE);
    assert_string_equal(c.items[0].withheld, "its output differs");
    assert_int_equal(c.items[0].more_rounds, 0); /* no number of rounds would help */
    assert_int_equal(c.items[1].verdict, STK__SLOWER);
    assert_null(c.items[1].withheld);
    assert_near(stk__worst_regression(&c, &r), c.items[1].ratio - 1, 1e-12);
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
}

static void withheld_baseline_takes_all_verdicts_of_its_group(void **state)
{
    stk__result r;
    result_init(&r, true);
    add(&r, "a", 0, around(1, 1, 12), 12);
    add(&r, "b", 0, around(2, 2, 12), 12);
    add(&r, "c", 1, around(1, 3, 12), 12);
    add(&r, "d", 1, around(2, 4, 12), 12);
    r.variants[0].withheld = stk__strdup("its output changes");
    stk__comparisons c = compared(&r, &rule, 0);
    assert_string_equal(c.items[0].withheld, "its output changes");
    assert_int_equal(c.items[0].verdict, STK__INCONCLUSIVE);
    assert_int_equal(c.items[1].verdict, STK__SLOWER);
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
}

/* ---- tails, and what CPU time says ---- */

/* B takes twice as long in 12 of 40 runs; or A does. */
static void slow_runs_of_one_side_are_a_regression_by_the_mean(void **state)
{
    double slow[40], quick[40];
    memcpy(quick, around(1, 1, 40), sizeof quick);
    memcpy(slow, around(1, 2, 40), sizeof slow);
    for (size_t i = 0; i < 12; i++)
        slow[3 * i] *= 2;
    for (int turned = 0; turned < 2; turned++) {
        stk__result r;
        result_init(&r, true);
        add(&r, "a", 0, turned ? slow : quick, 40);
        add(&r, "b", 0, turned ? quick : slow, 40);
        stk__comparisons c = compared(&r, &rule, 0);
        assert_int_equal(c.items[0].verdict, turned ? STK__TAIL_FASTER : STK__TAIL_SLOWER);
        assert_near(turned ? c.items[0].pair.far_below : c.items[0].pair.far_above, 0.3, 1e-12);
        assert_near(c.items[0].means.ratio, turned ? 1 / 1.3 : 1.3, 0.01);
        if (turned)
            assert_true(stk__worst_regression(&c, &r) == 0);
        else
            assert_near(stk__worst_regression(&c, &r), c.items[0].means.ratio - 1, 1e-12);
        stk__comparisons_clear(&c);
        stk__result_clear(&r);
    }
}

/* One slow run is no verdict, and neither is it nothing. */
static void one_slow_run_leaves_the_means_open(void **state)
{
    double b[12];
    memcpy(b, around(1, 2, 12), sizeof b);
    b[5] *= 2;
    stk__result r;
    result_init(&r, true);
    add(&r, "a", 0, around(1, 1, 12), 12);
    add(&r, "b", 0, b, 12);
    stk__comparisons c = compared(&r, &rule, 0);
    assert_int_equal(c.items[0].verdict, STK__INCONCLUSIVE);
    assert_true(stk__comparison_by_means(&c.items[0], &rule));
    assert_true(c.items[0].means.low < 1 / 1.02 || c.items[0].means.high > 1.02);
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
}

/* Wall time differs by 40 % from run to run, CPU time by next to nothing. */
static void cpu_time_is_offered_where_wall_time_cannot_tell(void **state)
{
    stk__result r = {.paired = true, .seed = 7};
    assert_int_equal(stk__result_add_measures(&r, NULL), STK_OK);
    for (size_t v = 0; v < 2; v++) {
        size_t index;
        assert_int_equal(stk__result_add_variant(&r, v ? "b" : "a", "x", 0, &index, NULL), STK_OK);
        for (size_t i = 0; i < 12; i++) {
            double values[STK__MEASURES] = {0};
            values[STK__WALL] = 1 + 0.4 * (double)((i * 7 + v * 5) % 12) / 12;
            values[STK__CPU] = (v ? 1.03 : 1) + 0.0001 * (double)((i * 5 + v) % 7);
            assert_int_equal(stk__result_add_run(&r, index, values, 0, NULL), STK_OK);
        }
    }
    stk__comparisons c = compared(&r, &rule, STK__WALL);
    assert_int_equal(c.items[0].verdict, STK__INCONCLUSIVE);
    assert_true(c.items[0].cpu.made);
    assert_int_equal(c.items[0].cpu.verdict, STK__SLOWER);
    assert_near(c.items[0].cpu.ratio, 1.03, 0.001);
    stk__comparisons_clear(&c);
    c = compared(&r, &rule, STK__CPU); /* what decides by itself offers nothing */
    assert_int_equal(c.items[0].verdict, STK__SLOWER);
    assert_false(c.items[0].cpu.made);
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
}

/* ---- several comparisons ---- */

/* Three comparisons with p of 2/128 (all 7 rounds one way): Holm multiplies by 3, 2, 1, the tail has its share. */
static void holm_corrects_over_the_set(void **state)
{
    static const char *const names[] = {"b", "c", "d"};
    stk__result r;
    result_init(&r, true);
    add(&r, "a", 0, around(1, 1, 7), 7);
    for (size_t i = 0; i < 3; i++)
        add(&r, names[i], 0, around(1.5, 2 + i, 7), 7);
    stk__comparisons c = compared(&r, &rule, 0);
    for (size_t i = 0; i < 3; i++) {
        assert_near(c.items[i].p, 2.0 / 128, 1e-15);
        assert_near(c.items[i].p_holm, 6.0 / 128 / 0.8, 1e-15);
    }
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
}

/* A comparison without figures has no p: it does not count as a test. */
static void holm_leaves_out_what_has_no_figures(void **state)
{
    const double zeros[7] = {0};
    stk__result r;
    result_init(&r, true);
    add(&r, "a", 0, around(1, 1, 7), 7);
    add(&r, "b", 0, zeros, 7);
    add(&r, "c", 0, around(1.5, 3, 7), 7);
    stk__comparisons c = compared(&r, &rule, 0);
    assert_true(isnan(c.items[0].p_holm));
    assert_near(c.items[1].p_holm, c.items[1].p / 0.8, 1e-15);
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
}

/* Seven rounds cover 1 - 2/128 = 98.4 %: enough for two intervals at 98 %, not for three at 98.7 %. */
static void intervals_widen_with_the_number_of_comparisons(void **state)
{
    static const char *const names[] = {"b", "c", "d", "e"};
    double last = 0;
    for (size_t others = 1; others <= 4; others++) {
        stk__result r;
        result_init(&r, true);
        add(&r, "a", 0, around(1, 1, 7), 7);
        for (size_t i = 0; i < others; i++)
            add(&r, names[i], 0, around(2, 2 + i, 7), 7);
        stk__comparisons c = compared(&r, &rule, 0);
        assert_int_equal(c.items[0].pair.covered, others <= 2);
        assert_int_equal(c.items[0].verdict, others <= 2 ? STK__SLOWER : STK__INCONCLUSIVE);
        stk__comparisons_clear(&c);
        stk__result_clear(&r);
    }
    for (size_t others = 1; others <= 4; others++) {
        stk__result r;
        result_init(&r, true);
        add(&r, "a", 0, around(1, 1, 40), 40);
        for (size_t i = 0; i < others; i++)
            add(&r, names[i], 0, around(1, 2 + i, 40), 40);
        stk__comparisons c = compared(&r, &rule, 0);
        const double width = c.items[0].high - c.items[0].low;
        assert_true(others == 1 || width >= last);
        if (others == 4) {
            stk__paired want;
            assert_int_equal(
                stk__paired_test(r.variants[0].values[0], r.variants[1].values[0], 40, 1 - 0.04 / 4, 7, &want, NULL),
                STK_OK);
            assert_near(c.items[0].low, want.low, 0);
            assert_near(c.items[0].high, want.high, 0);
        }
        last = width;
        stk__comparisons_clear(&c);
        stk__result_clear(&r);
    }
}

static void worst_regression_is_the_largest_of_those_with_a_verdict(void **state)
{
    stk__result r;
    result_init(&r, true);
    add(&r, "a", 0, around(1, 1, 12), 12);
    add(&r, "b", 0, around(1.2, 2, 12), 12);
    add(&r, "c", 0, around(1.6, 3, 12), 12);
    add(&r, "d", 0, around(0.5, 4, 12), 12);
    stk__comparisons c = compared(&r, &rule, 0);
    assert_near(stk__worst_regression(&c, &r), 0.6, 0.05);
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
}

static void chosen_pairs_may_go_any_way(void **state)
{
    const stk__compare_pair pairs[] = {{1, 0}, {1, 2}};
    stk__result r;
    result_init(&r, true);
    add(&r, "a", 0, around(1, 1, 12), 12);
    add(&r, "b", 0, around(2, 2, 12), 12);
    add(&r, "c", 0, around(4, 3, 12), 12);
    stk__comparisons c;
    assert_int_equal(stk__compare(&r, &rule, pairs, 2, 0, &c, NULL), STK_OK);
    assert_int_equal(c.items[0].verdict, STK__FASTER);
    assert_near(c.items[0].ratio, 0.5, 0.02);
    assert_int_equal(c.items[1].verdict, STK__SLOWER);
    assert_near(c.items[1].ratio, 2, 0.1);
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
}

static void comparisons_without_memory_fail_and_leave_nothing(void **state)
{
    stk__result r;
    const double zeros[8] = {0};
    const stk__compare_pair pairs[] = {{0, 1}, {0, 2}, {0, 3}};
    result_init(&r, true);
    add(&r, "a", 0, around(1, 1, 8), 8);
    add(&r, "b", 0, around(1.1, 2, 8), 8);
    add(&r, "c", 0, zeros, 8);
    add(&r, "d", 0, around(1.1, 3, 8), 8);
    r.variants[3].withheld = stk__strdup("its output differs");
    for (int paired = 0; paired < 2; paired++) {
        stk_status status = STK_NOMEM;
        r.paired = paired;
        for (uint64_t n = 1; status == STK_NOMEM; n++) {
            stk__comparisons c = {.count = 77};
            stk_error err = {0};
            stk__alloc_fail_at(n, true);
            status = stk__compare(&r, &rule, pairs, STK_COUNT(pairs), 0, &c, &err);
            stk__alloc_fail_at(0, false);
            if (status == STK_OK)
                stk__comparisons_clear(&c);
            else
                assert_int_equal(c.count, 77);
            assert_true(n < 200);
        }
        assert_int_equal(status, STK_OK);
    }
    stk__compare_pair *groups = NULL;
    size_t count = 77;
    stk__alloc_fail_at(1, true);
    assert_int_equal(stk__compare_groups(&r, &groups, &count, NULL), STK_NOMEM);
    stk__alloc_fail_at(0, false);
    assert_null(groups);
    assert_int_equal(count, 77);
    stk__result_clear(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_pair_each_variant_with_the_first_of_its_own),
        cmocka_unit_test(groups_of_an_empty_result_are_none),
        cmocka_unit_test(paired_figures_are_those_of_the_paired_test),
        cmocka_unit_test(higher_is_better_turns_the_verdict),
        cmocka_unit_test(equal_variants_are_equivalent_within_the_margin),
        cmocka_unit_test(change_below_the_minimum_effect_is_no_change),
        cmocka_unit_test(fewer_than_six_rounds_are_inconclusive),
        cmocka_unit_test(unpaired_results_take_the_other_test),
        cmocka_unit_test(unknown_values_drop_their_round_on_both_sides),
        cmocka_unit_test(values_of_zero_have_no_ratio),
        cmocka_unit_test(variants_without_runs_are_not_compared),
        cmocka_unit_test(withheld_variants_get_figures_but_no_verdict),
        cmocka_unit_test(withheld_baseline_takes_all_verdicts_of_its_group),
        cmocka_unit_test(slow_runs_of_one_side_are_a_regression_by_the_mean),
        cmocka_unit_test(one_slow_run_leaves_the_means_open),
        cmocka_unit_test(cpu_time_is_offered_where_wall_time_cannot_tell),
        cmocka_unit_test(holm_corrects_over_the_set),
        cmocka_unit_test(holm_leaves_out_what_has_no_figures),
        cmocka_unit_test(intervals_widen_with_the_number_of_comparisons),
        cmocka_unit_test(worst_regression_is_the_largest_of_those_with_a_verdict),
        cmocka_unit_test(chosen_pairs_may_go_any_way),
        cmocka_unit_test(comparisons_without_memory_fail_and_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
