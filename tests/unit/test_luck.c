/* Windows and labels on made-up runs whose answers are known, and the order in which runs are made. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "bench/design.h"
#include "bench/luck.h"
#include "bench/luck_report.h"
#include "bench/luck_run.h"
#include "stats/distributions.h"

static double normal(uint64_t seed, uint64_t i)
{
    return stk__normal_quantile(((double)(stk__mix(seed, i) >> 12) + 0.5) / 4503599627370496.0);
}

/* Runs of 1 s with 2 % of noise; a machine that slows down by `drift` from the first run to the last. */
static void add_same(stk__luck *l, uint64_t seed, size_t rounds, double drift)
{
    assert_int_equal(stk__luck_begin(l, STK__LUCK_SAME, 0, NULL), STK_OK);
    for (size_t i = 0; i < 2 * rounds; i++) {
        size_t order[2];
        stk__design_order(seed, i / 2, 2, order);
        const double slow = 1 + drift * (double)i / (double)(2 * rounds);
        assert_int_equal(stk__luck_add(l, order[i % 2], slow * exp(0.02 * normal(seed, i)), NULL), STK_OK);
    }
}

static void add_effects(stk__luck *l, size_t count, double more, bool scaled)
{
    assert_int_equal(stk__luck_add_effect(l, 0, false, NULL), STK_OK);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(stk__luck_add_effect(l, more, scaled, NULL), STK_OK);
}

static void judge(stk__luck *l)
{
    stk_error err = {0};
    if (stk__luck_judge(l, 0.95, 3, &err) != STK_OK)
        fail_msg("%s", err.message);
}

static void a_steady_machine_gives_few_false_alarms_in_both_orders(void **state)
{
    stk__luck l = {0};
    add_effects(&l, 0, 0, false);
    add_same(&l, 11, 4000, 0);
    judge(&l);
    assert_int_equal(l.effects[0].row_count, 4);
    for (size_t i = 0; i < 4; i++) {
        const stk__luck_row *row = &l.effects[0].rows[i];
        assert_true(row->turns.windows >= 80 && row->order.windows == row->turns.windows);
        assert_true(row->turns.apart == row->turns.windows);
        assert_true(row->turns.rules[STK__LUCK_VERDICT].called <= 0.09);
        assert_true(row->order.rules[STK__LUCK_MANN_WHITNEY].called <= 0.12);
        assert_true(row->order.rules[STK__LUCK_WELCH].called <= 0.12);
        assert_true(row->order.rules[STK__LUCK_MEANS].called == 0); /* 2 % of noise */
        assert_true(row->turns.covered >= 0.9 && row->order.covered >= 0.88);
        assert_true(isnan(row->turns.rules[STK__LUCK_WELCH].called) && isnan(row->order.rules[0].called));
        assert_true(isnan(row->turns.rules[STK__LUCK_VERDICT].right));
        assert_true(row->hyperfine.windows == 0 && isnan(row->hyperfine.error));
    }
    stk__luck_clear(&l);
}

/* 30 % slower at the end: within 100 runs more than the noise, within a round nothing. */
static void a_drifting_machine_gives_false_alarms_in_hyperfines_order_only(void **state)
{
    stk__luck l = {0};
    add_effects(&l, 0, 0, false);
    for (uint64_t k = 0; k < 8; k++)
        add_same(&l, 20 + k, 100, 0.3);
    judge(&l);
    const stk__luck_row *rows = l.effects[0].rows;
    assert_true(rows[3].n == 50 && rows[0].n == 12);
    for (size_t i = 0; i < 4; i++)
        assert_true(rows[i].turns.rules[STK__LUCK_VERDICT].called <= 0.1);
    assert_true(rows[0].order.rules[STK__LUCK_MANN_WHITNEY].called > 0.15);
    assert_true(rows[3].order.rules[STK__LUCK_MANN_WHITNEY].called > 0.95);
    assert_true(rows[3].order.rules[STK__LUCK_WELCH].called > 0.95);
    assert_true(rows[3].order.rules[STK__LUCK_MEANS].called > 0.95);
    assert_true(rows[3].order.error > 0.05 && rows[3].turns.error < 0.01);
    assert_true(rows[3].order.covered < 0.05 && rows[3].turns.covered > 0.85);
    stk__luck_clear(&l);
}

/* Two levels, in turn every 6 runs: a window of 6 rounds has the one level first and the other second. */
static void labels_follow_the_order_in_which_runs_were_made(void **state)
{
    stk__luck l = {0};
    add_effects(&l, 0, 0, false);
    assert_int_equal(stk__luck_begin(&l, STK__LUCK_SAME, 0, NULL), STK_OK);
    for (size_t i = 0; i < 12; i++) {
        const bool b = (i % 2 == 1) != (i / 2 % 2 == 1);
        assert_int_equal(stk__luck_add(&l, b, (i < 6 ? 1 : 2) + 0.001 * (double)i, NULL), STK_OK);
    }
    judge(&l);
    assert_int_equal(l.effects[0].row_count, 1);
    const stk__luck_row *row = &l.effects[0].rows[0];
    assert_true(row->n == 6 && row->turns.windows == 1 && row->order.windows == 1);
    assert_true(row->turns.rules[STK__LUCK_VERDICT].called == 0);
    for (size_t k = STK__LUCK_MANN_WHITNEY; k < STK__LUCK_RULES; k++)
        assert_true(row->order.rules[k].called == 1);
    assert_true(fabs(row->order.error - (12.051 / 6.015 - 1)) < 1e-12);
    stk__luck_clear(&l);
}

static void windows_do_not_reach_from_one_series_into_the_next(void **state)
{
    stk__luck l = {0};
    add_effects(&l, 0, 0, false);
    for (uint64_t k = 0; k < 30; k++)
        add_same(&l, 40 + k, 7, 0);
    judge(&l);
    assert_int_equal(stk__luck_rounds(&l), 210);
    assert_int_equal(l.effects[0].row_count, 1);
    assert_int_equal(l.effects[0].rows[0].n, 6);
    assert_int_equal(l.effects[0].rows[0].turns.windows, 30);
    stk__luck_clear(&l);
}

static void a_scaled_change_is_found_with_its_ratio(void **state)
{
    stk__luck l = {0};
    assert_int_equal(stk__luck_add_effect(&l, 0, false, NULL), STK_OK);
    assert_int_equal(stk__luck_add_effect(&l, 0.05, true, NULL), STK_OK);
    add_same(&l, 12, 2000, 0);
    judge(&l);
    const stk__luck_effect *e = &l.effects[1];
    assert_true(e->truth == 1.05 && e->truth_rounds == 0 && e->row_count == 4);
    for (size_t i = 1; i < 4; i++) {
        /* 5 % against 2.8 % of noise in each round: nearly always from 20 rounds on, and never the other way. */
        assert_true(e->rows[i].turns.rules[STK__LUCK_VERDICT].right > 0.9);
        assert_true(e->rows[i].turns.rules[STK__LUCK_VERDICT].called ==
                    e->rows[i].turns.rules[STK__LUCK_VERDICT].right);
        assert_true(e->rows[i].order.rules[STK__LUCK_MANN_WHITNEY].right > 0.95);
        assert_true(e->rows[i].turns.error < 0.01 && e->rows[i].order.error < 0.01);
        assert_true(e->rows[i].turns.covered > 0.85 && e->rows[i].order.covered > 0.85);
    }
    stk__luck_clear(&l);
}

/* Blocks of 8: windows of 6 and 8 lie around each change, larger ones nowhere. */
static void windows_in_hyperfines_order_lie_around_each_change_of_command(void **state)
{
    stk__luck l = {0};
    add_effects(&l, 1, 0.1, false);
    add_same(&l, 13, 40, 0);
    for (size_t k = 0; k < 2; k++) {
        assert_int_equal(stk__luck_begin(&l, STK__LUCK_TURNS, 1, NULL), STK_OK);
        for (size_t i = 0; i < 40; i++)
            assert_int_equal(stk__luck_add(&l, i % 2, (i % 2 ? 1.1 : 1) * (1 + 0.001 * (double)(i % 7)), NULL), STK_OK);
        assert_int_equal(stk__luck_begin(&l, STK__LUCK_ORDER, 1, NULL), STK_OK);
        for (size_t i = 0; i < 32; i++) {
            const bool b = (i / 8 % 2 == 1) != (k == 1);
            assert_int_equal(stk__luck_add(&l, b, (b ? 1.1 : 1) * (1 + 0.001 * (double)(i % 5)), NULL), STK_OK);
        }
    }
    judge(&l);
    const stk__luck_effect *e = &l.effects[1];
    assert_true(fabs(e->truth - 1.1) < 0.01 && e->truth_rounds == 40);
    assert_true(e->row_count == 4 && e->rows[0].n == 6 && e->rows[1].n == 8 && e->rows[2].n == 12);
    assert_int_equal(e->rows[0].order.windows, 6);
    assert_int_equal(e->rows[1].order.windows, 6);
    assert_int_equal(e->rows[0].order.apart, 4); /* the second of three shares runs with both */
    assert_int_equal(e->rows[2].order.windows, 0);
    for (size_t i = 0; i < 2; i++) {
        assert_true(e->rows[i].order.rules[STK__LUCK_MANN_WHITNEY].right == 1);
        assert_true(e->rows[i].order.rules[STK__LUCK_WELCH].right == 1);
        assert_true(e->rows[i].order.rules[STK__LUCK_MEANS].right == 1);
        assert_true(e->rows[i].turns.rules[STK__LUCK_VERDICT].right == 1);
    }
    assert_true(isnan(e->rows[2].order.error) && isnan(e->rows[2].order.rules[STK__LUCK_WELCH].called));
    stk__luck_clear(&l);
}

/* What a drift makes of a slower command: B before A, on a machine that slows down, looks faster. */
static void a_change_that_is_called_the_other_way_round_is_not_found(void **state)
{
    stk__luck l = {0};
    add_effects(&l, 1, 0.1, false);
    add_same(&l, 14, 20, 0);
    assert_int_equal(stk__luck_begin(&l, STK__LUCK_TURNS, 1, NULL), STK_OK);
    for (size_t i = 0; i < 40; i++)
        assert_int_equal(stk__luck_add(&l, i % 2, i % 2 ? 1.1 : 1, NULL), STK_OK);
    assert_int_equal(stk__luck_begin(&l, STK__LUCK_ORDER, 1, NULL), STK_OK);
    for (size_t i = 0; i < 24; i++)
        assert_int_equal(stk__luck_add(&l, i < 12, i < 12 ? 1.1 + 0.001 * (double)i : 1.5 + 0.001 * (double)i, NULL),
                         STK_OK);
    judge(&l);
    const stk__luck_row *row = &l.effects[1].rows[0];
    assert_int_equal(row->order.windows, 1);
    for (size_t k = STK__LUCK_MANN_WHITNEY; k < STK__LUCK_RULES; k++)
        assert_true(row->order.rules[k].called == 1 && row->order.rules[k].right == 0);
    assert_true(row->order.covered == 0);
    stk__luck_clear(&l);
}

static void shares_have_intervals(void **state)
{
    double low, high;
    stk__luck_interval(0, 20, &low, &high);
    assert_true(low == 0 && fabs(high - 0.1611) < 1e-3);
    stk__luck_interval(0.5, 100, &low, &high);
    assert_true(fabs(low - 0.4038) < 1e-3 && fabs(high - 0.5962) < 1e-3);
    stk__luck_interval(NAN, 100, &low, &high);
    assert_true(low == 0 && high == 1);
}

static void judging_refuses_too_little(void **state)
{
    stk__luck l = {0};
    stk_error err = {0};
    add_effects(&l, 0, 0, false);
    assert_int_equal(stk__luck_judge(&l, 0.95, 1, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "0 rounds"));
    add_same(&l, 15, 6, 0);
    assert_int_equal(stk__luck_judge(&l, 1, 1, &err), STK_INVALID);
    assert_int_equal(stk__luck_judge(&l, 0.95, 1, &err), STK_OK);
    while (l.effect_count < STK__LUCK_EFFECTS)
        assert_int_equal(stk__luck_add_effect(&l, 0.1, true, &err), STK_OK);
    assert_int_equal(stk__luck_add_effect(&l, 0.1, true, &err), STK_INVALID);
    stk__luck_clear(&l);
}

/* ---- the order of the runs ---- */

typedef struct machine {
    size_t trials[8];
    size_t runs, fail_at, cancel_at;
} machine;

static stk_status take(void *context, size_t trial, size_t round, double *values, bool *out_failed, stk__text *why,
                       stk_error *err)
{
    machine *m = context;
    m->trials[trial]++;
    values[0] = (1 + 0.1 * (double)trial) * exp(0.01 * normal(77, m->runs));
    if (++m->runs == m->fail_at) {
        *out_failed = true;
        stk__text_puts(why, "exit code 7");
    }
    return STK_OK;
}

static bool is_cancelled(void *context)
{
    const machine *m = context;
    return m->cancel_at && m->runs >= m->cancel_at;
}

static stk_status run(machine *m, size_t trials, size_t rounds, stk__result *r, stk__luck *l, stk_error *err)
{
    stk__trial commands[3] = {{.name = (char[]){"A"}, .command = (char[]){"a"}},
                              {.name = (char[]){"B1"}, .command = (char[]){"b --more"}},
                              {.name = (char[]){"B2"}, .command = (char[]){"b"}}};
    const stk__experiment e = {.trials = commands,
                               .trial_count = trials,
                               .warmup = 2,
                               .seed = 5,
                               .measure = take,
                               .measure_context = m,
                               .cancelled = is_cancelled,
                               .context = m};
    const stk__luck_plan plan = {.e = &e, .rounds = rounds};
    assert_int_equal(stk__result_add_metric(r, "wall", "s", false, NULL, NULL), STK_OK);
    add_effects(l, trials - 1, 0.1, false);
    return stk__luck_run(&plan, NULL, r, l, err);
}

static void every_part_has_the_rounds_that_were_asked_for(void **state)
{
    machine m = {0};
    stk__result r = {0};
    stk__luck l = {0};
    assert_int_equal(run(&m, 3, 130, &r, &l, NULL), STK_OK);
    assert_int_equal(stk__luck_rounds(&l), 130);
    size_t turns[3] = {0}, order[3] = {0};
    for (size_t i = 0; i < l.series_count; i++) {
        const stk__luck_series *s = &l.series[i];
        size_t b = 0;
        for (size_t k = 0; k < s->count; k++)
            b += s->sides[k];
        assert_int_equal(2 * b, s->count);
        *(s->kind == STK__LUCK_ORDER ? &order[s->effect] : &turns[s->effect]) += s->count;
        if (s->kind != STK__LUCK_ORDER) {
            for (size_t k = 0; k < s->count; k += 2)
                assert_true(s->sides[k] != s->sides[k + 1]);
        }
    }
    for (size_t i = 0; i < 3; i++)
        assert_true(turns[i] == 260 && order[i] == (i ? 260 : 0));
    /* Cycles of 100 and 30 rounds: blocks of 50, then of 15, with the other command first. */
    assert_int_equal(l.series_count, 10);
    assert_true(l.series[2].kind == STK__LUCK_ORDER && l.series[2].sides[49] == 0 && l.series[2].sides[50] == 1);
    assert_true(l.series[7].kind == STK__LUCK_ORDER && l.series[7].sides[14] == 1 && l.series[7].sides[15] == 0);
    judge(&l);
    assert_true(fabs(l.effects[1].truth - 1.1) < 0.01 && fabs(l.effects[2].truth - 1.2) < 0.01);
    assert_int_equal(m.runs - m.trials[0], 2 + 260 + 2 + 260);
    stk__luck_clear(&l);
    stk__result_clear(&r);
}

static void an_interrupt_leaves_what_was_run(void **state)
{
    machine m = {.cancel_at = 100};
    stk__result r = {0};
    stk__luck l = {0};
    assert_int_equal(run(&m, 2, 1000, &r, &l, NULL), STK_OK);
    assert_true(r.interrupted && m.runs == 100);
    assert_true(stk__luck_rounds(&l) > 30);
    judge(&l);
    assert_true(l.effects[0].row_count > 0 && isnan(l.effects[1].truth));
    stk__luck_clear(&l);
    stk__result_clear(&r);
}

static void a_run_that_fails_is_told_with_its_command(void **state)
{
    machine m = {.fail_at = 100};
    stk__result r = {0};
    stk__luck l = {0};
    stk_error err = {0};
    assert_int_equal(run(&m, 2, 20, &r, &l, &err), STK_IO);
    assert_non_null(strstr(err.message, "'b --more' failed: exit code 7"));
    assert_int_equal(stk__luck_rounds(&l), 20);
    stk__luck_clear(&l);
    stk__result_clear(&r);
}

/* ---- what is written ---- */

static void reports_stand_also_when_parts_are_missing(void **state)
{
    for (size_t cut = 40; cut < 400; cut += 60) {
        machine m = {.cancel_at = cut};
        stk__result r = {0};
        stk__luck l = {0};
        stk__calibration c;
        stk__text t = STK__TEXT_INIT, json = STK__TEXT_INIT, svg = STK__TEXT_INIT;
        assert_int_equal(run(&m, 2, 60, &r, &l, NULL), STK_OK);
        judge(&l);
        assert_int_equal(stk__calibration_from(&l, 0.95, &c, NULL), STK_OK);
        const stk__luck_story story = {.l = &l, .c = &c, .r = &r, .took_s = 1};
        stk__luck_text(&story, &t);
        stk__luck_json(&story, &json);
        assert_int_equal(stk__chart_luck(&story, "a < b & c", &svg, NULL), STK_OK);
        assert_false(t.failed || json.failed);
        assert_null(strstr(svg.data, "nan"));
        assert_null(strstr(json.data, "nan"));
        assert_null(strstr(t.data, "nan"));
        assert_non_null(strstr(svg.data, "a &lt; b &amp; c"));
        stk__text_clear(&t);
        stk__text_clear(&json);
        stk__text_clear(&svg);
        stk__luck_clear(&l);
        stk__result_clear(&r);
    }
}

static void judging_with_any_allocation_failing_gives_nomem(void **state)
{
    stk__luck l = {0};
    add_effects(&l, 0, 0, false);
    add_same(&l, 16, 8, 0);
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        stk__alloc_fail_at(n, false);
        const stk_status status = stk__luck_judge(&l, 0.95, 1, NULL);
        stk__alloc_fail_at(0, false);
        done = status == STK_OK;
        if (!done)
            assert_int_equal(status, STK_NOMEM);
    }
    stk__luck_clear(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steady_machine_gives_few_false_alarms_in_both_orders),
        cmocka_unit_test(a_drifting_machine_gives_false_alarms_in_hyperfines_order_only),
        cmocka_unit_test(labels_follow_the_order_in_which_runs_were_made),
        cmocka_unit_test(windows_do_not_reach_from_one_series_into_the_next),
        cmocka_unit_test(a_scaled_change_is_found_with_its_ratio),
        cmocka_unit_test(windows_in_hyperfines_order_lie_around_each_change_of_command),
        cmocka_unit_test(a_change_that_is_called_the_other_way_round_is_not_found),
        cmocka_unit_test(shares_have_intervals),
        cmocka_unit_test(judging_refuses_too_little),
        cmocka_unit_test(every_part_has_the_rounds_that_were_asked_for),
        cmocka_unit_test(an_interrupt_leaves_what_was_run),
        cmocka_unit_test(a_run_that_fails_is_told_with_its_command),
        cmocka_unit_test(reports_stand_also_when_parts_are_missing),
        cmocka_unit_test(judging_with_any_allocation_failing_gives_nomem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
