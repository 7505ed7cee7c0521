/* Experiments with functions in place of processes: rounds, warm-up, failures, stopping, cancelling. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "bench/design.h"
#include "bench/experiment.h"
#include "base/mem.h"
#include "base/rng.h"

enum { MOST_CALLS = 4096, TRIALS = 3 };

/* What the trials do, and what was asked of them. */
typedef struct bed {
    size_t count; /* of calls */
    size_t trials[MOST_CALLS], rounds[MOST_CALLS];
    double times[TRIALS]; /* of each trial, before noise */
    double noise;         /* share */
    uint64_t seed;        /* of the noise */
    bool (*fails)(size_t call, size_t trial, size_t round);
    size_t cancel_at; /* call from which on the user wants no more */
    size_t cancel_in; /* call that is cancelled while it runs */
    size_t break_at;  /* call that cannot be made at all */
    int64_t nap_ns;
    size_t warm, told; /* calls of progress */
    size_t planned;    /* rounds, as it last said */
    double last_left_s;
} bed;

static void bed_init(bed *b)
{
    *b = (bed){
        .times = {1, 2, 3}, .cancel_at = SIZE_MAX, .cancel_in = SIZE_MAX, .break_at = SIZE_MAX, .last_left_s = -1};
}

static stk_status measure(void *context, size_t trial, size_t round, double *values, bool *out_failed, stk__text *why,
                          stk_error *err)
{
    bed *b = context;
    const size_t call = b->count++;
    assert_true(call < MOST_CALLS);
    b->trials[call] = trial;
    b->rounds[call] = round;
    if (b->nap_ns) {
        const struct timespec nap = {.tv_nsec = b->nap_ns};
        nanosleep(&nap, NULL);
    }
    if (call == b->cancel_in)
        return STK_CANCELLED;
    if (call == b->break_at)
        return stk_error_set(err, STK_IO, "no such launcher");
    values[0] = b->times[trial] * (1 + b->noise * ((double)(stk__mix(b->seed, call) % 1001) / 500 - 1));
    values[1] = (double)call;
    if (b->fails && b->fails(call, trial, round)) {
        *out_failed = true;
        stk__text_printf(why, "exit code %zu", call);
    }
    return STK_OK;
}

static bool cancelled(void *context)
{
    const bed *b = context;
    return b->count >= b->cancel_at;
}

static void progress(void *context, const stk__progress *p)
{
    bed *b = context;
    assert_true(p->done < p->runs);
    assert_true(p->warming || p->round < p->rounds);
    assert_false(p->left_s < 0);
    b->warm += p->warming;
    b->told++;
    b->planned = p->rounds;
    b->last_left_s = p->left_s;
}

static stk__trial trials[TRIALS] = {
    {.name = (char *)(uintptr_t) "a", .command = (char *)(uintptr_t) "run a"},
    {.name = (char *)(uintptr_t) "b", .command = (char *)(uintptr_t) "run b"},
    {.name = (char *)(uintptr_t) "c", .command = (char *)(uintptr_t) "run c"},
};
static const stk__compare_pair pairs[] = {{0, 1}, {0, 2}};

static stk__experiment experiment(bed *b, size_t count)
{
    return (stk__experiment){
        .trials = trials,
        .trial_count = count,
        .seed = 11,
        .pairs = pairs,
        .pair_count = count - 1,
        .rule = {.confidence = 0.95, .min_effect = 0.02, .margin = 0.02},
        .progress = progress,
        .cancelled = cancelled,
        .context = b,
        .measure = measure,
        .measure_context = b,
    };
}

static stk_status run(const stk__experiment *e, stk__result *r, stk_error *err)
{
    *r = (stk__result){0};
    stk_status status = stk__result_add_metric(r, "wall", "s", false, NULL, err);
    if (status == STK_OK)
        status = stk__result_add_metric(r, "call", "count", false, NULL, err);
    return status == STK_OK ? stk__experiment_run(e, NULL, r, err) : status;
}

static void assert_runs(const stk__result *r, size_t wanted)
{
    for (size_t v = 0; v < r->variant_count; v++)
        assert_int_equal(r->variants[v].runs, wanted);
}

/* ---- rounds and warm-up ---- */

static void fixed_rounds_run_every_trial_once_in_each(void **state)
{
    bed b;
    bed_init(&b);
    stk__experiment e = experiment(&b, 3);
    e.rounds = 7;
    stk__result r;
    assert_int_equal(run(&e, &r, NULL), STK_OK);
    assert_int_equal(b.count, 21);
    assert_int_equal(r.variant_count, 3);
    assert_string_equal(r.variants[1].name, "b");
    assert_string_equal(r.variants[1].command, "run b");
    assert_runs(&r, 7);
    assert_true(r.paired);
    assert_false(r.interrupted);
    assert_int_equal(r.seed, 11);
    assert_int_equal(r.dropped, 0);
    assert_int_equal(r.retaken, 0);
    assert_true(isnan(r.floor_s));
    assert_true(r.time_s > 0);
    for (size_t round = 0; round < 7; round++) {
        size_t order[3];
        stk__design_order(11, round, 3, order);
        for (size_t k = 0; k < 3; k++) {
            const size_t call = 3 * round + k;
            assert_int_equal(b.trials[call], order[k]);
            assert_int_equal(b.rounds[call], round);
            /* The value is that of the right trial, in the right round. */
            assert_true(r.variants[order[k]].values[1][round] == (double)call);
            assert_true(r.variants[order[k]].values[0][round] == b.times[order[k]]);
        }
    }
    assert_int_equal(b.told, 21);
    assert_int_equal(b.warm, 0);
    assert_true(b.last_left_s >= 0);
    stk__result_clear(&r);
}

static void warm_up_runs_are_not_counted(void **state)
{
    bed b;
    bed_init(&b);
    stk__experiment e = experiment(&b, 2);
    e.rounds = 4;
    e.warmup = 3;
    stk__result r;
    assert_int_equal(run(&e, &r, NULL), STK_OK);
    assert_int_equal(b.count, 2 * 3 + 2 * 4);
    assert_int_equal(b.warm, 6);
    assert_int_equal(r.warmup, 3);
    assert_runs(&r, 4);
    size_t of_a = 0;
    for (size_t i = 0; i < 6; i++)
        of_a += b.trials[i] == 0;
    assert_int_equal(of_a, 3);
    for (size_t v = 0; v < 2; v++) {
        for (size_t i = 0; i < 4; i++)
            assert_true(r.variants[v].values[1][i] >= 6);
    }
    stk__result_clear(&r);
}

static void rounds_are_chosen_from_the_warm_up(void **state)
{
    stk__result r;
    bed b;
    bed_init(&b);
    stk__experiment e = experiment(&b, 2);
    e.warmup = 1;
    assert_int_equal(run(&e, &r, NULL), STK_OK);
    assert_runs(&r, 50); /* runs that take no time: the most */
    stk__result_clear(&r);
    bed_init(&b);
    e.warmup = 0;
    assert_int_equal(run(&e, &r, NULL), STK_OK);
    assert_runs(&r, 12); /* nothing is known: the least */
    stk__result_clear(&r);
    bed_init(&b);
    b.cancel_at = 3;      /* not the 10 s that this would take */
    b.nap_ns = 420000000; /* two of them, or more when the machine is slow: 12 rounds are all that fit */
    e.warmup = 1;
    assert_int_equal(run(&e, &r, NULL), STK_OK);
    assert_true(r.interrupted);
    assert_int_equal(b.planned, 12);
    stk__result_clear(&r);
}

static void one_trial_alone_is_measured(void **state)
{
    bed b;
    bed_init(&b);
    stk__experiment e = experiment(&b, 1);
    e.rounds = 5;
    stk__result r;
    assert_int_equal(run(&e, &r, NULL), STK_OK);
    assert_int_equal(b.count, 5);
    assert_runs(&r, 5);
    stk__result_clear(&r);
}

static void parameters_go_into_the_result(void **state)
{
    stk__parameter parameters[] = {{(char *)(uintptr_t) "threads", (char *)(uintptr_t) "4"}};
    stk__trial one = {.name = (char *)(uintptr_t) "threads=4",
                      .command = (char *)(uintptr_t) "run -j4",
                      .parameters = parameters,
                      .parameter_count = 1,
                      .group = 6};
    bed b;
    bed_init(&b);
    stk__experiment e = experiment(&b, 1);
    e.trials = &one;
    e.rounds = 1;
    stk__result r;
    assert_int_equal(run(&e, &r, NULL), STK_OK);
    assert_int_equal(r.variants[0].group, 6);
    assert_int_equal(r.variants[0].parameter_count, 1);
    assert_string_equal(r.variants[0].parameters[0].name, "threads");
    assert_string_equal(r.variants[0].parameters[0].value, "4");
    stk__result_clear(&r);
}

static void same_seed_gives_the_same_calls(void **state)
{
    stk__result r;
    bed first, second, other;
    bed_init(&first);
    bed_init(&second);
    bed_init(&other);
    stk__experiment e = experiment(&first, 3);
    e.rounds = 30;
    e.warmup = 1;
    assert_int_equal(run(&e, &r, NULL), STK_OK);
    stk__result_clear(&r);
    e.context = e.measure_context = &second;
    assert_int_equal(run(&e, &r, NULL), STK_OK);
    stk__result_clear(&r);
    e.context = e.measure_context = &other;
    e.seed = 12;
    assert_int_equal(run(&e, &r, NULL), STK_OK);
    stk__result_clear(&r);
    assert_int_equal(first.count, second.count);
    assert_memory_equal(first.trials, second.trials, first.count * sizeof *first.trials);
    assert_memory_not_equal(first.trials, other.trials, first.count * sizeof *first.trials);
}

static void callbacks_may_be_missing(void **state)
{
    bed b;
    bed_init(&b);
    stk__experiment e = experiment(&b, 2);
    e.progress = NULL;
    e.cancelled = NULL;
    e.rounds = 2;
    e.warmup = 1;
    stk__result r;
    assert_int_equal(run(&e, &r, NULL), STK_OK);
    assert_runs(&r, 2);
    stk__result_clear(&r);
}

/* ---- stopping on the width ---- */

static void width_stops_when_every_interval_is_narrow(void **state)
{
    bed b;
    bed_init(&b);
    b.noise = 0.05;
    stk__experiment e = experiment(&b, 3);
    e.width = 0.06;
    e.max_rounds = 400;
    stk__result r;
    assert_int_equal(run(&e, &r, NULL), STK_OK);
    const size_t n = r.variants[0].runs;
    assert_true(n > STK__LEAST_ROUNDS && n < 400);
    assert_int_equal(r.note_count, 0);
    stk__comparisons c;
    assert_int_equal(stk__compare(&r, &e.rule, pairs, 2, 0, &c, NULL), STK_OK);
    for (size_t i = 0; i < 2; i++)
        assert_true(c.items[i].high / c.items[i].low - 1 <= 0.06);
    stk__comparisons_clear(&c);
    /* It did not go on for long after that: two rounds before, one of them was too wide. */
    for (size_t v = 0; v < 3; v++)
        r.variants[v].runs = n - 2;
    assert_int_equal(stk__compare(&r, &e.rule, pairs, 2, 0, &c, NULL), STK_OK);
    assert_true(c.items[0].high / c.items[0].low - 1 > 0.06 || c.items[1].high / c.items[1].low - 1 > 0.06);
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
}

/* Without any noise the interval has no width as soon as there is one, which takes six rounds. */
static void width_wants_enough_rounds_for_an_interval(void **state)
{
    bed b;
    bed_init(&b);
    stk__experiment e = experiment(&b, 2);
    e.width = 0.5;
    stk__result r;
    assert_int_equal(run(&e, &r, NULL), STK_OK);
    assert_runs(&r, STK__LEAST_ROUNDS);
    assert_int_equal(r.note_count, 0);
    stk__result_clear(&r);
}

static void width_that_is_never_reached_ends_with_a_note(void **state)
{
    bed b;
    bed_init(&b);
    b.noise = 0.3;
    stk__experiment e = experiment(&b, 2);
    e.width = 0.001;
    e.max_rounds = 21;
    stk__result r;
    assert_int_equal(run(&e, &r, NULL), STK_OK);
    assert_runs(&r, 21);
    assert_int_equal(r.note_count, 1);
    assert_non_null(strstr(r.notes[0], "0.1 %"));
    assert_non_null(strstr(r.notes[0], "21 rounds"));
    stk__result_clear(&r);
}

/* One trial has no interval of a ratio: the width says nothing about it, and it ends as without one. */
static void width_without_pairs_is_left_aside(void **state)
{
    bed b;
    bed_init(&b);
    stk__experiment e = experiment(&b, 1);
    e.width = 0.05;
    e.warmup = 1;
    stk__result r;
    assert_int_equal(run(&e, &r, NULL), STK_OK);
    assert_runs(&r, 50);
    assert_int_equal(r.note_count, 0);
    stk__result_clear(&r);
}

/*
 * Equals, stopped on the width: looking again after every second round does not raise the share of false alarms, since what
 * it looks at is not p. 600 experiments; 5 % of them is 30, and the standard deviation of that 5.
 */
static void width_does_not_raise_false_alarms(void **state)
{
    size_t alarms = 0, longer = 0;
    for (uint64_t seed = 0; seed < 600; seed++) {
        bed b;
        bed_init(&b);
        b.times[1] = 1;
        b.noise = 0.04;
        b.seed = 1000 + seed;
        stk__experiment e = experiment(&b, 2);
        e.seed = seed;
        e.width = 0.06;
        e.max_rounds = 16;
        e.rule.min_effect = 0;
        stk__result r;
        stk__comparisons c;
        assert_int_equal(run(&e, &r, NULL), STK_OK);
        assert_int_equal(stk__compare(&r, &e.rule, pairs, 1, 0, &c, NULL), STK_OK);
        alarms += c.items[0].verdict == STK__FASTER || c.items[0].verdict == STK__SLOWER;
        longer += r.variants[0].runs > STK__LEAST_ROUNDS;
        stk__comparisons_clear(&c);
        stk__result_clear(&r);
    }
    assert_true(alarms <= 36);
    assert_in_range(longer, 100, 590); /* some stop at once, others look again */
}

/* ---- failures ---- */

static bool fails_in_the_warm_up(size_t call, size_t trial, size_t round)
{
    return call == 1;
}

static void failed_warm_up_is_an_error(void **state)
{
    bed b;
    bed_init(&b);
    b.fails = fails_in_the_warm_up;
    stk__experiment e = experiment(&b, 2);
    e.rounds = 6;
    e.warmup = 1;
    stk__result r;
    stk_error err = {0};
    assert_int_equal(run(&e, &r, &err), STK_IO);
    assert_non_null(strstr(err.message, " failed in the warm-up"));
    assert_non_null(strstr(err.message, "run b"));
    assert_non_null(strstr(err.message, "exit code 1"));
    assert_int_equal(b.count, 2);
    assert_runs(&r, 0);
    stk__result_clear(&r);
}

/* The name may be a whole command; the reason must not be pushed out of the message. */
static void failure_of_a_long_name_tells_its_reason(void **state)
{
    char name[900];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    stk__trial two[2] = {trials[0], {.name = name, .command = name}};
    bed b;
    bed_init(&b);
    b.fails = fails_in_the_warm_up;
    stk__experiment e = experiment(&b, 2);
    e.trials = two;
    e.warmup = 1;
    stk__result r;
    stk_error err = {0};
    assert_int_equal(run(&e, &r, &err), STK_IO);
    assert_non_null(strstr(err.message, "exit code 1"));
    stk__result_clear(&r);
}

static bool fails_in_some_rounds(size_t call, size_t trial, size_t round)
{
    return call == 2 || call == 3 || call == 9;
}

/* Rounds of two calls: call 2 ends the second round before its other trial runs, call 3 the third try, call 9 a later one. */
static void round_with_a_failed_run_is_dropped_whole(void **state)
{
    bed b;
    bed_init(&b);
    b.fails = fails_in_some_rounds;
    stk__experiment e = experiment(&b, 2);
    e.rounds = 8;
    stk__result r;
    assert_int_equal(run(&e, &r, NULL), STK_OK);
    assert_int_equal(r.dropped, 3);
    assert_runs(&r, 8);
    assert_int_equal(b.count, 2 * 8 + 1 + 1 + 2);
    for (size_t i = 0; i < 8; i++) {
        /* Both values of a round come from neighbouring calls, never from a dropped one. */
        const double x = r.variants[0].values[1][i], y = r.variants[1].values[1][i];
        assert_true(fabs(x - y) == 1);
        for (size_t bad = 2; bad <= 3; bad++)
            assert_true(x != (double)bad && y != (double)bad);
        assert_true(x != 8 && y != 8 && x != 9 && y != 9);
    }
    /* The order stays that of the design: the round is taken again, not skipped. */
    size_t order[2];
    stk__design_order(11, 1, 2, order);
    assert_int_equal(b.trials[4], order[0]);
    assert_int_equal(b.rounds[4], 1);
    stk__result_clear(&r);
}

static bool fails_from_the_fourth_round_on(size_t call, size_t trial, size_t round)
{
    return round >= 3 && trial == 1;
}

static void three_failed_rounds_in_a_row_end_it_and_keep_the_others(void **state)
{
    bed b;
    bed_init(&b);
    b.fails = fails_from_the_fourth_round_on;
    stk__experiment e = experiment(&b, 2);
    e.rounds = 100;
    stk__result r;
    stk_error err = {0};
    assert_int_equal(run(&e, &r, &err), STK_IO);
    assert_non_null(strstr(err.message, " failed in three rounds in a row"));
    assert_non_null(strstr(err.message, "run b"));
    assert_non_null(strstr(err.message, "exit code"));
    assert_int_equal(r.dropped, 3);
    assert_false(r.interrupted);
    assert_runs(&r, 3);
    stk__result_clear(&r);
}

static bool fails_every_second_time(size_t call, size_t trial, size_t round)
{
    static size_t calls;
    if (call == 0)
        calls = 0;
    return trial == 0 && calls++ % 2;
}

static void failures_of_more_than_a_third_end_it(void **state)
{
    bed b;
    bed_init(&b);
    b.fails = fails_every_second_time;
    stk__experiment e = experiment(&b, 2);
    e.rounds = 12;
    stk__result r;
    stk_error err = {0};
    assert_int_equal(run(&e, &r, &err), STK_IO);
    assert_non_null(strstr(err.message, " fails too often"));
    assert_non_null(strstr(err.message, "run a"));
    assert_in_range(r.dropped, 4, 6);
    assert_true(r.variants[0].runs > 0);
    assert_int_equal(r.variants[0].runs, r.variants[1].runs);
    stk__result_clear(&r);
}

static void call_that_cannot_be_made_ends_it_and_keeps_the_rounds(void **state)
{
    bed b;
    bed_init(&b);
    b.break_at = 5;
    stk__experiment e = experiment(&b, 2);
    e.rounds = 8;
    stk__result r;
    stk_error err = {0};
    assert_int_equal(run(&e, &r, &err), STK_IO);
    assert_string_equal(err.message, "no such launcher");
    assert_runs(&r, 2);
    stk__result_clear(&r);
}

static void trials_of_the_same_name_are_refused(void **state)
{
    stk__trial twins[2] = {trials[0], trials[0]};
    bed b;
    bed_init(&b);
    stk__experiment e = experiment(&b, 2);
    e.trials = twins;
    stk__result r;
    assert_int_equal(run(&e, &r, NULL), STK_INVALID);
    assert_int_equal(b.count, 0);
    stk__result_clear(&r);
}

/* ---- cancelling ---- */

/* At any moment, between the runs or in one of them: whole rounds are kept, parts of one are not. */
static void cancelled_experiment_keeps_whole_rounds(void **state)
{
    enum { WARMUP = 1, COUNT = 3, ROUNDS = 4 };
    for (int during = 0; during < 2; during++) {
        for (size_t at = 0; at < COUNT * (WARMUP + ROUNDS); at++) {
            bed b;
            bed_init(&b);
            *(during ? &b.cancel_in : &b.cancel_at) = at;
            stk__experiment e = experiment(&b, COUNT);
            e.rounds = ROUNDS;
            e.warmup = WARMUP;
            stk__result r;
            assert_int_equal(run(&e, &r, NULL), STK_OK);
            assert_true(r.interrupted);
            assert_int_equal(b.count, at + (size_t)during);
            assert_runs(&r, at < COUNT * WARMUP ? 0 : at / COUNT - WARMUP);
            stk__result_clear(&r);
        }
    }
}

static void cancelling_after_the_last_run_changes_nothing(void **state)
{
    bed b;
    bed_init(&b);
    b.cancel_at = 8;
    stk__experiment e = experiment(&b, 2);
    e.rounds = 4;
    stk__result r;
    assert_int_equal(run(&e, &r, NULL), STK_OK);
    assert_false(r.interrupted);
    assert_runs(&r, 4);
    stk__result_clear(&r);
}

/* ---- memory ---- */

static void experiment_without_memory_fails_without_a_leak(void **state)
{
    stk_status status = STK_NOMEM;
    size_t failures = 0;
    for (uint64_t n = 1; status != STK_OK; n++) {
        bed b;
        bed_init(&b);
        b.fails = fails_in_some_rounds;
        b.noise = 0.2;
        stk__experiment e = experiment(&b, 2);
        e.warmup = 0;
        e.width = 0.001;
        e.max_rounds = 20;
        stk__result r;
        stk_error err = {0};
        stk__alloc_fail_at(n, true);
        status = run(&e, &r, &err);
        stk__alloc_fail_at(0, false);
        if (status != STK_OK) {
            assert_int_equal(status, STK_NOMEM);
            assert_int_equal(err.status, STK_NOMEM);
            for (size_t v = 0; v < r.variant_count && r.variant_count == 2; v++)
                assert_true(r.variants[v].runs <= 20);
            failures++;
        } else {
            assert_runs(&r, 20);
            assert_int_equal(r.note_count, 1);
        }
        stk__result_clear(&r);
        assert_true(n < 2000);
    }
    assert_true(failures > 20);
}

/* A round is in the result for all variants or for none, also when memory runs out while it is kept. */
static void rounds_stay_whole_without_memory(void **state)
{
    stk_status status = STK_NOMEM;
    for (uint64_t n = 1; status != STK_OK; n++) {
        bed b;
        bed_init(&b);
        stk__experiment e = experiment(&b, 3);
        e.rounds = 40; /* past two growths of the rows */
        stk__result r;
        stk__alloc_fail_at(n, true);
        status = run(&e, &r, NULL);
        stk__alloc_fail_at(0, false);
        for (size_t v = 1; v < r.variant_count && r.variant_count == 3; v++)
            assert_int_equal(r.variants[v].runs, r.variants[0].runs);
        stk__result_clear(&r);
        assert_true(n < 200);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixed_rounds_run_every_trial_once_in_each),
        cmocka_unit_test(warm_up_runs_are_not_counted),
        cmocka_unit_test(rounds_are_chosen_from_the_warm_up),
        cmocka_unit_test(one_trial_alone_is_measured),
        cmocka_unit_test(parameters_go_into_the_result),
        cmocka_unit_test(same_seed_gives_the_same_calls),
        cmocka_unit_test(callbacks_may_be_missing),
        cmocka_unit_test(width_stops_when_every_interval_is_narrow),
        cmocka_unit_test(width_wants_enough_rounds_for_an_interval),
        cmocka_unit_test(width_that_is_never_reached_ends_with_a_note),
        cmocka_unit_test(width_without_pairs_is_left_aside),
        cmocka_unit_test(width_does_not_raise_false_alarms),
        cmocka_unit_test(failed_warm_up_is_an_error),
        cmocka_unit_test(failure_of_a_long_name_tells_its_reason),
        cmocka_unit_test(round_with_a_failed_run_is_dropped_whole),
        cmocka_unit_test(three_failed_rounds_in_a_row_end_it_and_keep_the_others),
        cmocka_unit_test(failures_of_more_than_a_third_end_it),
        cmocka_unit_test(call_that_cannot_be_made_ends_it_and_keeps_the_rounds),
        cmocka_unit_test(trials_of_the_same_name_are_refused),
        cmocka_unit_test(cancelled_experiment_keeps_whole_rounds),
        cmocka_unit_test(cancelling_after_the_last_run_changes_nothing),
        cmocka_unit_test(experiment_without_memory_fails_without_a_leak),
        cmocka_unit_test(rounds_stay_whole_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
