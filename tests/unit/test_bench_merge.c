/* Results of a suite as one result, and comparisons of several results as one family. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench/merge.h"
#include "bench_results.h"

enum { ROUNDS = 14 };

/* Two variants of which the second takes `ratio` times as long, with some noise. */
static void make_result(stk__result *r, double ratio, double noise)
{
    static const char *const names[] = {"before", "after"};
    results_start(r, names, 2);
    for (size_t i = 0; i < ROUNDS; i++) {
        double values[STK__MEASURES];
        for (size_t m = 0; m < STK__MEASURES; m++)
            values[m] = NAN;
        values[STK__WALL] = 1 + 0.01 * (double)(i % 4);
        assert_int_equal(stk__result_add_run(r, 0, values, 0, NULL), STK_OK);
        values[STK__WALL] *= ratio * (1 + noise * ((double)(i * 5 % 7) - 3) / 3);
        assert_int_equal(stk__result_add_run(r, 1, values, 0, NULL), STK_OK);
    }
}

/* The same variants in one result, a group for each two. */
static void join(stk__result *to, const stk__result *parts, size_t count)
{
    static const char *const names[][2] = {{"a", "b"}, {"c", "d"}, {"e", "f"}, {"g", "h"}};
    stk__merge_part merge[4];
    stk__comparisons none = {0};
    for (size_t i = 0; i < count; i++)
        merge[i] = (stk__merge_part){&parts[i], NULL, names[i], 0};
    assert_int_equal(stk__result_merge(merge, count, to, &none, NULL), STK_OK);
    assert_int_equal(none.count, 0);
}

static void a_family_of_results_is_judged_as_one_result_is(void **state)
{
    (void)state;
    enum { PARTS = 4 };
    static const double ratios[PARTS] = {1.05, 0.97, 1.0, 1.03}, noises[PARTS] = {0.02, 0.02, 0.004, 0.04};
    const stk__rule rule = {.confidence = 0.95, .min_effect = 0.02, .margin = 0.02};
    const stk__compare_pair pair = {0, 1}, pairs[PARTS] = {{0, 1}, {2, 3}, {4, 5}, {6, 7}};
    stk__result parts[PARTS], whole = {0};
    stk__comparisons alone[PARTS], all;
    stk__compare_set sets[PARTS];
    double narrow = 0;
    for (size_t i = 0; i < PARTS; i++) {
        make_result(&parts[i], ratios[i], noises[i]);
        assert_int_equal(stk__compare(&parts[i], &rule, &pair, 1, STK__WALL, &alone[i], NULL), STK_OK);
        sets[i] = (stk__compare_set){&parts[i], &alone[i]};
    }
    narrow = alone[0].items[0].high / alone[0].items[0].low;
    assert_int_equal(stk__compare_together(sets, PARTS, NULL), STK_OK);
    join(&whole, parts, PARTS);
    assert_int_equal(stk__compare(&whole, &rule, pairs, PARTS, STK__WALL, &all, NULL), STK_OK);
    for (size_t i = 0; i < PARTS; i++) {
        const stk__comparison *x = &alone[i].items[0], *y = &all.items[i];
        assert_true(x->ratio == y->ratio && x->low == y->low && x->high == y->high && x->p_holm == y->p_holm);
        assert_int_equal(x->verdict, y->verdict);
        assert_int_equal(x->more_rounds, y->more_rounds);
        assert_int_equal(alone[i].family, PARTS);
    }
    assert_true(alone[0].items[0].high / alone[0].items[0].low > narrow);
    assert_int_equal(alone[0].items[0].verdict, STK__SLOWER);
    for (size_t i = 0; i < PARTS; i++) {
        stk__comparisons_clear(&alone[i]);
        stk__result_clear(&parts[i]);
    }
    stk__comparisons_clear(&all);
    stk__result_clear(&whole);
}

/* Three parts: by wall, by memory, and by a number that another part has in another unit. */
static void make_parts(stk__result parts[3])
{
    for (size_t i = 0; i < 3; i++) {
        const double value[STK__MEASURES + 1] = {[STK__WALL] = 2.0, [STK__RSS] = 1024, [STK__MEASURES] = 7};
        size_t metric, v;
        parts[i] = (stk__result){.paired = true, .seed = 42, .warmup = 1, .floor_s = NAN, .time_s = 1000};
        assert_int_equal(stk__result_add_measures(&parts[i], NULL), STK_OK);
        assert_int_equal(stk__result_add_metric(&parts[i], "loss", i == 2 ? "points" : "s", i == 2, &metric, NULL),
                         STK_OK);
        parts[i].primary = i == 0 ? STK__WALL : i == 1 ? STK__RSS : metric;
        for (size_t k = 0; k < 1 + (i == 0); k++) {
            assert_int_equal(stk__result_add_variant(&parts[i], k ? "b" : "a", "true", 0, &v, NULL), STK_OK);
            for (size_t run = 0; run < 3 + i; run++)
                assert_int_equal(stk__result_add_run(&parts[i], v, value, i == 1 ? 3 : 0, NULL), STK_OK);
        }
        assert_int_equal(stk__result_add_parameter(&parts[i], 0, "n", "1", NULL), STK_OK);
        assert_int_equal(stk__result_note(&parts[i], NULL, "noisy"), STK_OK);
    }
}

static stk_status merge_parts(const stk__result parts[3], stk__result *out, stk__comparisons *c)
{
    static const char *const names[][2] = {{"x before", "x after"}, {"memory", ""}, {"training", ""}};
    stk__comparison item = {.a = 0, .b = 1, .metric = STK__WALL, .withheld = (char *)(uintptr_t) "why"};
    const stk__comparisons one = {.items = &item, .count = 1, .rule = {.confidence = 0.9}};
    const stk__merge_part merge[] = {
        {&parts[0], &one, names[0], 0}, {&parts[1], NULL, names[1], 0}, {&parts[2], NULL, names[2], 0}};
    return stk__result_merge(merge, 3, out, c, NULL);
}

static void parts_keep_metrics_runs_and_comparisons(void **state)
{
    (void)state;
    stk__result parts[3], r = {0};
    stk__comparisons c = {0};
    make_parts(parts);
    assert_int_equal(merge_parts(parts, &r, &c), STK_OK);
    assert_int_equal(r.variant_count, 4);
    assert_string_equal(r.variants[3].name, "training");
    assert_int_equal(r.variants[0].group, r.variants[1].group);
    assert_int_not_equal(r.variants[1].group, r.variants[2].group);
    assert_int_equal(r.metric_count, STK__MEASURES + 2);
    assert_string_equal(r.metrics[STK__MEASURES].name, "loss");
    assert_string_equal(r.metrics[STK__MEASURES + 1].name, "loss (points, more is better)");
    assert_int_equal(r.primary, STK__WALL); /* they share none */
    assert_int_equal(stk__variant_metric(&r, 2), STK__RSS);
    assert_int_equal(stk__variant_metric(&r, 3), STK__MEASURES + 1);
    assert_int_equal(r.variants[3].runs, 5);
    assert_true(isnan(r.variants[3].values[STK__MEASURES][0]) && r.variants[3].values[STK__MEASURES + 1][4] == 7);
    assert_int_equal(r.variants[2].exit_codes[0], 3);
    assert_true(r.paired && r.seed == 42 && r.time_s == 1000);
    assert_int_equal(r.note_count, 3);
    assert_string_equal(r.notes[2], "training: noisy");
    assert_int_equal(c.count, 1);
    assert_string_equal(c.items[0].withheld, "why");
    assert_true(c.rule.confidence == 0.9);
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
    for (size_t i = 0; i < 3; i++)
        stk__result_clear(&parts[i]);
}

static void merging_nothing_or_equal_names_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"same", "same"};
    stk__result part, r = {0};
    stk__comparisons c = {0};
    assert_int_equal(stk__result_merge(NULL, 0, &r, &c, NULL), STK_INVALID);
    make_result(&part, 1, 0);
    const stk__merge_part merge = {&part, NULL, names, 0};
    assert_int_equal(stk__result_merge(&merge, 1, &r, &c, NULL), STK_INVALID);
    assert_null(r.variants);
    stk__result_clear(&part);
}

static void every_failed_allocation_is_told(void **state)
{
    (void)state;
    stk__result parts[3], r = {0};
    stk__comparisons c = {0};
    make_parts(parts);
    stk_status status = STK_NOMEM;
    for (uint64_t n = 1; status != STK_OK; n++) {
        assert_true(n < 2000);
        stk__alloc_fail_at(n, false);
        status = merge_parts(parts, &r, &c);
        stk__alloc_fail_at(0, false);
        assert_true(status == STK_OK || status == STK_NOMEM);
    }
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
    for (size_t i = 0; i < 3; i++)
        stk__result_clear(&parts[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_family_of_results_is_judged_as_one_result_is),
        cmocka_unit_test(parts_keep_metrics_runs_and_comparisons),
        cmocka_unit_test(merging_nothing_or_equal_names_is_refused),
        cmocka_unit_test(every_failed_allocation_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
