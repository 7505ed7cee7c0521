/* Comparing traces whose differences are known: what is flagged, what is not, and which rule calls a regression. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/diff.h"
#include "base/mem.h"
#include "base/rng.h"
#include "trace/builder.h"

/* What a made-up trace looks like: `names` ops per step, one after the other. */
typedef struct recipe {
    uint64_t seed;
    int names, rounds;
    bool markers; /* "ProfilerStep#N" around each round */
    int slow;     /* this op takes `factor` times as long; -1: none */
    double factor;
    int repeats;       /* op 0 runs so often in each round */
    const char *extra; /* one more op per round */
} recipe;

static double uniform(uint64_t seed, uint64_t n)
{
    return (double)(stk__mix(seed, n) >> 11) * 0x1p-53;
}

/* Log-normal-like: a median with a tail to the right, as durations have. */
static int64_t duration(uint64_t seed, uint64_t n, double median)
{
    const double u = uniform(seed, 2 * n) + 1e-12, v = uniform(seed, 2 * n + 1);
    return (int64_t)(median * exp(0.1 * sqrt(-2 * log(u)) * cos(6.283185307179586 * v)));
}

static stk__builder *start(uint32_t *out_track)
{
    stk__builder *b = NULL;
    const stk__trace_options options = {0};
    assert_int_equal(stk__builder_new(&options, &b, NULL), STK_OK);
    stk__builder_start_file(b, "made.json", "chrome");
    const uint32_t process = stk__builder_process(b, 1, 0);
    *out_track = stk__builder_thread_track(b, stk__builder_thread(b, process, 1, 0));
    return b;
}

static stk__trace *finish(stk__builder *b)
{
    stk__trace *t = NULL;
    assert_int_equal(stk__builder_finish(b, &t, NULL), STK_OK);
    return t;
}

static int64_t add_op(stk__builder *b, uint32_t track, const recipe *r, int name, int64_t at, uint64_t *n)
{
    char text[32];
    snprintf(text, sizeof text, "op_%02d", name);
    const double factor = name == r->slow ? r->factor : 1;
    const int64_t dur = (int64_t)(factor * (double)duration(r->seed, (*n)++, 10000.0 * (1 + name % 7)));
    stk__builder_slice(b, track, at, dur, stk__builder_str(b, text), 0, -1);
    return at + dur + 100;
}

static stk__trace *make(const recipe *r)
{
    uint32_t track;
    stk__builder *b = start(&track);
    int64_t now = 1000000;
    uint64_t n = 0;
    for (int round = 0; round < r->rounds; round++) {
        const int64_t begun = now;
        now += 100;
        for (int name = 0; name < r->names; name++) {
            for (int k = 0; k < (name == 0 && r->repeats ? r->repeats : 1); k++)
                now = add_op(b, track, r, name, now, &n);
        }
        if (r->extra) {
            stk__builder_slice(b, track, now, 50000, stk__builder_str(b, r->extra), 0, -1);
            now += 50100;
        }
        if (r->markers) {
            char text[40];
            snprintf(text, sizeof text, "ProfilerStep#%d", round + 3);
            stk__builder_slice(b, track, begun, now - begun, stk__builder_str(b, text), 0, -1);
            now += 100;
        }
    }
    return finish(b);
}

static void compare_traces(const recipe *before, const recipe *after, double fail_over, stk__diff *out)
{
    stk__trace *a = make(before), *b = make(after);
    stk__diff_options options = STK__DIFF_DEFAULTS;
    options.fail_over = fail_over;
    assert_int_equal(stk__diff_make(a, b, &options, out, NULL), STK_OK);
    stk__trace_free(a); /* the comparison stands on its own */
    stk__trace_free(b);
}

static const stk__diff_row *row_of(const stk__diff *d, const char *label)
{
    for (size_t i = 0; i < d->count; i++) {
        if (strcmp(d->rows[i].label, label) == 0)
            return &d->rows[i];
    }
    return NULL;
}

/* 50 names, one of them 10 % slower: it is always found, and others hardly ever are. Fixed seeds. */
static void diff_flags_only_the_slow_name_over_many_seeds(void **state)
{
    int found = 0, wrong = 0;
    enum { SEEDS = 60 };
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const recipe before = {.seed = seed, .names = 50, .rounds = 100, .slow = -1};
        const recipe after = {.seed = seed + 1000, .names = 50, .rounds = 100, .slow = 17, .factor = 1.1};
        stk__diff d;
        compare_traces(&before, &after, -1, &d);
        assert_int_equal(d.count, 50);
        assert_int_equal(d.tested, 50);
        for (size_t i = 0; i < d.count; i++) {
            const bool flagged = d.rows[i].verdict != STK__DIFF_SAME && d.rows[i].verdict != STK__DIFF_NEGLIGIBLE;
            if (strcmp(d.rows[i].label, "op_17") == 0)
                found += d.rows[i].verdict == STK__DIFF_SLOWER;
            else
                wrong += flagged;
        }
        stk__diff_clear(&d);
    }
    assert_true(found >= SEEDS - 3);
    assert_in_range(wrong, 0, 6); /* 5 % of the 60 comparisons would have one */
}

static void diff_of_equal_traces_finds_nothing(void **state)
{
    const recipe r = {.seed = 5, .names = 20, .rounds = 50, .slow = -1, .markers = true};
    stk__diff d;
    compare_traces(&r, &r, 0, &d);
    assert_int_equal(d.changed, 0);
    assert_int_equal(d.stack_count, 0);
    assert_int_equal(d.step_verdict, STK__DIFF_SAME);
    assert_false(d.regression);
    stk__diff_clear(&d);
}

static void diff_with_steps_compares_per_step(void **state)
{
    const recipe before = {.seed = 1, .names = 5, .rounds = 40, .slow = -1, .markers = true};
    const recipe after = {.seed = 2, .names = 5, .rounds = 90, .slow = 4, .factor = 2, .markers = true};
    stk__diff d;
    compare_traces(&before, &after, 0.05, &d);
    assert_int_equal(d.basis, STK__DIFF_PER_STEP);
    assert_int_equal(d.before.steps, 40);
    assert_int_equal(d.after.steps, 90);
    assert_int_equal(d.step_verdict, STK__DIFF_SLOWER);
    assert_true(d.regression);
    assert_int_equal(d.rule, STK__DIFF_STEP_TIME);
    assert_true(d.step_change > 0.2 && d.step_change < 0.5); /* 50 of 150 us more */
    const stk__diff_row *slow = row_of(&d, "op_04"), *step = row_of(&d, "ProfilerStep#*"), *same = row_of(&d, "op_01");
    assert_int_equal(slow->verdict, STK__DIFF_SLOWER);
    assert_true(fabs(slow->median_change - 1) < 0.1);
    assert_true(slow == &d.rows[0]); /* the cause stands before the step around it */
    assert_int_equal(step->verdict, STK__DIFF_SLOWER);
    assert_int_equal(same->verdict, STK__DIFF_SAME);
    assert_true(fabs(same->after.per_step - same->before.per_step) < 0.1 * same->before.per_step);
    assert_true(strcmp(d.stacks[0].path, "ProfilerStep#*;op_04") == 0);
    stk__diff_clear(&d);
}

static void diff_faster_is_no_regression(void **state)
{
    const recipe before = {.seed = 1, .names = 5, .rounds = 40, .slow = 4, .factor = 2, .markers = true};
    const recipe after = {.seed = 2, .names = 5, .rounds = 40, .slow = -1, .markers = true};
    stk__diff d;
    compare_traces(&before, &after, 0.0, &d);
    assert_int_equal(d.step_verdict, STK__DIFF_FASTER);
    assert_int_equal(row_of(&d, "op_04")->verdict, STK__DIFF_FASTER);
    assert_false(d.regression);
    stk__diff_clear(&d);
}

static void diff_under_the_limit_is_no_regression(void **state)
{
    const recipe before = {.seed = 1, .names = 5, .rounds = 40, .slow = -1, .markers = true};
    const recipe after = {.seed = 2, .names = 5, .rounds = 40, .slow = 4, .factor = 2, .markers = true};
    stk__diff d;
    compare_traces(&before, &after, 0.9, &d);
    assert_int_equal(d.step_verdict, STK__DIFF_SLOWER);
    assert_false(d.regression);
    stk__diff_clear(&d);
}

/* Three steps a side can never be significant; then the names decide. */
static void diff_with_few_steps_falls_back_to_names(void **state)
{
    const recipe before = {.seed = 1, .names = 4, .rounds = 3, .slow = -1, .markers = true, .repeats = 30};
    const recipe after = {.seed = 2, .names = 4, .rounds = 3, .slow = 0, .factor = 1.5, .markers = true, .repeats = 30};
    stk__diff d;
    compare_traces(&before, &after, 0.05, &d);
    assert_int_equal(d.step_verdict, STK__DIFF_TOO_FEW);
    assert_int_equal(d.rule, STK__DIFF_NAMES_TIME);
    assert_true(d.regression);
    assert_int_equal(row_of(&d, "op_01")->verdict, STK__DIFF_TOO_FEW);
    assert_int_equal(row_of(&d, "op_00")->verdict, STK__DIFF_SLOWER);
    stk__diff_clear(&d);
}

static void diff_sees_calls_that_became_more(void **state)
{
    const recipe before = {.seed = 1, .names = 4, .rounds = 40, .slow = -1, .markers = true, .repeats = 2};
    const recipe after = {.seed = 2, .names = 4, .rounds = 40, .slow = -1, .markers = true, .repeats = 4};
    stk__diff d;
    compare_traces(&before, &after, -1, &d);
    assert_int_equal(row_of(&d, "op_00")->verdict, STK__DIFF_MORE_CALLS);
    assert_true(fabs(row_of(&d, "op_00")->after.calls_per_step - 4) < 1e-9);
    assert_int_equal(d.rule, STK__DIFF_NO_RULE);
    stk__diff_clear(&d);
}

/* Op 0 in each of 40 steps: `calls` times, `factor` as long as usual; of every tenth step's calls one takes `stall` ns. */
static stk__trace *steps_of(uint64_t seed, int calls, double factor, int64_t stall)
{
    uint32_t track;
    stk__builder *b = start(&track);
    int64_t now = 1000;
    uint64_t n = 0;
    for (int step = 0; step < 40; step++) {
        char text[40];
        const int64_t begun = now;
        for (int i = 0; i < calls; i++) {
            int64_t dur = (int64_t)(factor * (double)duration(seed, n++, 10000));
            if (step % 10 == 0 && i == 0)
                dur += stall;
            stk__builder_slice(b, track, now, dur, stk__builder_str(b, "op"), 0, -1);
            now += dur + 10;
        }
        snprintf(text, sizeof text, "ProfilerStep#%d", step);
        stk__builder_slice(b, track, begun, now - begun, stk__builder_str(b, text), 0, -1);
        now += 10;
    }
    return finish(b);
}

/* The word is that of the time in a step, whatever a single call does. */
static void diff_says_what_happened_to_the_time_per_step(void **state)
{
    static const struct {
        int calls;
        double factor;
        int64_t stall;
        stk__diff_verdict verdict;
        const char *says;
    } rows[] = {
        {4, 1.3, 0, STK__DIFF_SLOWER, ""},
        {4, 0.7, 0, STK__DIFF_FASTER, ""},
        {40, 0.85, 0, STK__DIFF_MORE_CALLS, "10x as often, each 15."},
        {2, 1.5, 0, STK__DIFF_FEWER_CALLS, "50 % less often, each 5"},
        {40, 1.5, 0, STK__DIFF_SLOWER, "10x as often, each 4"},
        {4, 0.9, 500000, STK__DIFF_COSTS_MORE, ""}, /* most calls are faster, and some stall */
    };
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        stk__trace *a = steps_of(1, 4, 1, 0), *b = steps_of(2, rows[i].calls, rows[i].factor, rows[i].stall);
        const stk__diff_options options = STK__DIFF_DEFAULTS;
        stk__diff d;
        assert_int_equal(stk__diff_make(a, b, &options, &d, NULL), STK_OK);
        assert_int_equal(d.basis, STK__DIFF_PER_STEP);
        const stk__diff_row *r = row_of(&d, "op");
        if (r->verdict != rows[i].verdict)
            fail_msg("row %zu: %s", i, stk__diff_verdict_name(r->verdict));
        const bool more = r->after.per_step > r->before.per_step;
        const bool says_more =
            r->verdict == STK__DIFF_SLOWER || r->verdict == STK__DIFF_MORE_CALLS || r->verdict == STK__DIFF_COSTS_MORE;
        assert_int_equal(more, says_more);
        stk__text text = STK__TEXT_INIT;
        stk__diff_calls_text(&d, r, &text);
        assert_memory_equal(text.data ? text.data : "", rows[i].says, strlen(rows[i].says));
        assert_int_equal(text.length > 0, rows[i].says[0] != 0);
        stk__text_clear(&text);
        stk__diff_clear(&d);
        stk__trace_free(a);
        stk__trace_free(b);
    }
}

/* With few steps the names decide: what is faster and called far more often is a regression. */
static void diff_fails_for_faster_calls_that_are_many(void **state)
{
    const recipe before = {.seed = 1, .names = 2, .rounds = 2, .slow = 0, .factor = 1, .markers = true, .repeats = 20};
    const recipe after = {
        .seed = 2, .names = 2, .rounds = 2, .slow = 0, .factor = 0.8, .markers = true, .repeats = 200};
    stk__diff d;
    compare_traces(&before, &after, 0.1, &d);
    assert_int_equal(row_of(&d, "op_00")->verdict, STK__DIFF_MORE_CALLS);
    assert_int_equal(d.rule, STK__DIFF_NAMES_TIME);
    assert_true(d.regression && d.rule_change > 6);
    stk__diff_clear(&d);
}

static void diff_leaves_out_what_the_profiler_says_of_itself(void **state)
{
    stk__trace *traces[2];
    for (int i = 0; i < 2; i++) {
        uint32_t track;
        stk__builder *b = start(&track);
        const uint32_t spans =
            stk__builder_thread_track(b, stk__builder_thread(b, stk__builder_process(b, 2, 0), 1, 0));
        stk__builder_slice(b, track, 0, 100 + i, stk__builder_str(b, "op"), 0, -1);
        stk__builder_slice(b, spans, 0, 5000 * (i + 1), stk__builder_str(b, "PyTorch Profiler (0)"), 0, -1);
        traces[i] = finish(b);
    }
    const stk__diff_options options = STK__DIFF_DEFAULTS;
    stk__diff d;
    assert_int_equal(stk__diff_make(traces[0], traces[1], &options, &d, NULL), STK_OK);
    assert_int_equal(d.count, 1);
    assert_int_equal(d.stack_count, 1);
    assert_string_equal(d.stacks[0].path, "op");
    assert_int_equal(d.before.busy, 100);
    assert_int_equal(d.left_out, 2);
    stk__diff_clear(&d);
    stk__trace_free(traces[0]);
    stk__trace_free(traces[1]);
}

static void diff_tells_what_appeared_and_vanished(void **state)
{
    const recipe before = {.seed = 1, .names = 4, .rounds = 40, .slow = -1, .extra = "old\x1b[31m,\"name\""};
    const recipe after = {.seed = 2, .names = 4, .rounds = 40, .slow = -1, .extra = "new"};
    stk__diff d;
    compare_traces(&before, &after, -1, &d);
    assert_int_equal(row_of(&d, "new")->verdict, STK__DIFF_APPEARED);
    assert_int_equal(row_of(&d, before.extra)->verdict, STK__DIFF_VANISHED);
    stk__text text = STK__TEXT_INIT, json = STK__TEXT_INIT, csv = STK__TEXT_INIT;
    stk__diff_text(&d, STK__DIFF_ALL, 20, &text);
    stk__diff_json(&d, STK__DIFF_ALL, 0, &json);
    stk__diff_csv(&d, STK__DIFF_ALL, 0, false, &csv);
    assert_non_null(strstr(text.data, "appeared (1): new"));
    assert_null(strchr(text.data, 0x1b)); /* nothing from a trace reaches a terminal as it is */
    assert_null(strchr(json.data, 0x1b));
    assert_null(strstr(json.data, "e+"));
    assert_null(strstr(csv.data, "e+"));
    assert_non_null(strstr(json.data, "\"vanished\":[\"old\\u001b[31m,\\\"name\\\"\"]"));
    assert_non_null(strstr(csv.data, "\"old\x1b[31m,\"\"name\"\"\",vanished,ns,40,0"));
    stk__text_clear(&text);
    stk__text_clear(&json);
    stk__text_clear(&csv);
    stk__diff_clear(&d);
}

/* Calls of "work" one after the other, and one of "new" when it takes time. */
static stk__trace *calls_of(int count, int64_t dur, int64_t new_dur)
{
    uint32_t track;
    stk__builder *b = start(&track);
    int64_t now = 1000;
    for (uint64_t i = 0; i < (uint64_t)count; i++) {
        /* at odd intervals, so that no steps are seen in them */
        stk__builder_slice(b, track, now, dur, stk__builder_str(b, "work"), 0, -1);
        now += dur + (int64_t)(stk__mix(7, i) % 1000000);
    }
    if (new_dur)
        stk__builder_slice(b, track, now, new_dur, stk__builder_str(b, "new"), 0, -1);
    return finish(b);
}

static void compare_calls(stk__trace *before, stk__trace *after, stk__diff *out)
{
    stk__diff_options options = STK__DIFF_DEFAULTS;
    options.fail_over = 0.05;
    assert_int_equal(stk__diff_make(before, after, &options, out, NULL), STK_OK);
    stk__trace_free(before);
    stk__trace_free(after);
}

static void diff_from_nothing_is_slower(void **state)
{
    stk__diff d;
    compare_calls(calls_of(40, 0, 0), calls_of(40, 5000, 0), &d);
    assert_int_equal(d.basis, STK__DIFF_PER_CALL);
    assert_int_equal(row_of(&d, "work")->verdict, STK__DIFF_SLOWER);
    assert_true(isinf(row_of(&d, "work")->median_change));
    assert_true(d.regression);
    stk__text text = STK__TEXT_INIT, json = STK__TEXT_INIT, csv = STK__TEXT_INIT;
    stk__diff_text(&d, STK__DIFF_ALL, 20, &text);
    stk__diff_json(&d, STK__DIFF_ALL, 0, &json);
    stk__diff_csv(&d, STK__DIFF_ALL, 0, false, &csv);
    assert_non_null(strstr(text.data, "REGRESSION: busy time of the names that changed significantly from 0 (0 to "));
    assert_null(strstr(text.data, "inf"));
    assert_null(strstr(json.data, "inf"));
    assert_null(strstr(csv.data, "inf"));
    assert_null(strstr(csv.data, "null"));
    stk__text_clear(&text);
    stk__text_clear(&json);
    stk__text_clear(&csv);
    stk__diff_clear(&d);
}

static void diff_counts_names_that_appeared(void **state)
{
    stk__diff d;
    compare_calls(calls_of(40, 1000, 0), calls_of(40, 1000, 20 * 40000), &d);
    assert_int_equal(d.rule, STK__DIFF_BUSY_TIME);
    assert_true(d.regression && fabs(d.rule_change - 20) < 1e-9);
    stk__diff_clear(&d);
    compare_calls(calls_of(40, 1000, 0), calls_of(40, 1000, 800), &d); /* 2 % more is under the limit */
    assert_true(!d.regression && fabs(d.rule_change - 0.02) < 1e-9);
    stk__diff_clear(&d);
    compare_calls(calls_of(40, 1000, 0), calls_of(80, 1000, 3200), &d); /* of a trace twice as long: 4 % */
    assert_true(!d.regression && fabs(d.rule_change - 0.04) < 1e-9);
    stk__diff_clear(&d);
}

/* Verdicts stand as a whole in front of their row. */
static void diff_cuts_no_verdict(void **state)
{
    stk__diff d;
    compare_calls(calls_of(400, 100000, 0), calls_of(400, 100100, 0), &d);
    assert_int_equal(row_of(&d, "work")->verdict, STK__DIFF_NEGLIGIBLE);
    stk__text text = STK__TEXT_INIT;
    stk__diff_text(&d, STK__DIFF_ALL, 20, &text);
    assert_non_null(strstr(text.data, "\ndiffers, but by less than --min-change "));
    stk__text_clear(&text);
    stk__diff_clear(&d);
}

/* Samples drawn from many durations: as many as asked for, the same each time, and the verdict stays. */
static void diff_draws_samples_that_are_many(void **state)
{
    const recipe before = {.seed = 1, .names = 2, .rounds = 3000, .slow = -1};
    const recipe after = {.seed = 2, .names = 2, .rounds = 3000, .slow = 1, .factor = 1.1};
    stk__trace *a = make(&before), *b = make(&after);
    stk__diff_options options = STK__DIFF_DEFAULTS;
    options.sample_limit = 500;
    stk__diff d, again;
    assert_int_equal(stk__diff_make(a, b, &options, &d, NULL), STK_OK);
    assert_int_equal(stk__diff_make(a, b, &options, &again, NULL), STK_OK);
    assert_true(d.sampled);
    const stk__diff_row *row = row_of(&d, "op_01");
    assert_int_equal(row->before.tested, 500);
    assert_int_equal(row->before.count, 3000);
    assert_int_equal(row->verdict, STK__DIFF_SLOWER);
    assert_int_equal(row_of(&d, "op_00")->verdict, STK__DIFF_SAME);
    assert_true(row->p == row_of(&again, "op_01")->p);
    stk__diff_clear(&d);
    stk__diff_clear(&again);
    stk__trace_free(a);
    stk__trace_free(b);
}

static void diff_of_hostile_times_stays_defined(void **state)
{
    static const int64_t values[] = {INT64_MIN + 1, -9000000000000000000, -1, 0, 1, 9000000000000000000, INT64_MAX};
    uint32_t track;
    stk__builder *b = start(&track);
    for (size_t i = 0; i < STK_COUNT(values); i++) {
        for (size_t k = 0; k < STK_COUNT(values); k++)
            stk__builder_slice(b, track, values[i], values[k], stk__builder_str(b, i % 2 ? "x" : "step 7"), 0, -1);
    }
    stk__trace *t = finish(b);
    const recipe r = {.seed = 1, .names = 2, .rounds = 30, .slow = -1, .markers = true};
    stk__trace *plain = make(&r);
    stk__diff_options options = STK__DIFF_DEFAULTS;
    options.fail_over = 0.05;
    for (int by = STK__DIFF_NAME; by <= STK__DIFF_PROCESS; by++) {
        stk__diff d;
        options.by = (stk__diff_by)by;
        assert_int_equal(stk__diff_make(t, t, &options, &d, NULL), STK_OK);
        stk__diff_clear(&d);
        assert_int_equal(stk__diff_make(plain, t, &options, &d, NULL), STK_OK);
        stk__text text = STK__TEXT_INIT;
        stk__diff_text(&d, STK__DIFF_ALL, 0, &text);
        stk__diff_json(&d, STK__DIFF_ALL, 0, &text);
        stk__diff_csv(&d, STK__DIFF_ALL, 0, false, &text);
        assert_false(text.failed);
        stk__text_clear(&text);
        stk__diff_clear(&d);
    }
    stk__trace_free(t);
    stk__trace_free(plain);
}

static void diff_of_slices_and_nothing_is_refused(void **state)
{
    const recipe r = {.seed = 1, .names = 2, .rounds = 3, .slow = -1};
    uint32_t track;
    stk__trace *a = make(&r), *b = finish(start(&track));
    const stk__diff_options options = STK__DIFF_DEFAULTS;
    stk__diff d;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__diff_make(a, b, &options, &d, &err), STK_UNSUPPORTED);
    assert_non_null(strstr(err.message, "slices"));
    stk__trace_free(a);
    stk__trace_free(b);
}

/* A profile: main calls work and wait, with these weights. */
static stk__trace *make_profile(int64_t work, int64_t wait)
{
    uint32_t track;
    stk__builder *b = start(&track);
    stk__builder_track_at(b, track)->unit = STK__UNIT_SAMPLES;
    static const char *const names[] = {"main", "work", "wait"};
    uint32_t frames[3];
    for (int i = 0; i < 3; i++) {
        const stk__trace_frame frame = {.name = stk__builder_str(b, names[i])};
        frames[i] = stk__builder_frame(b, &frame);
    }
    const uint32_t root = stk__builder_callsite(b, STK__NONE, frames[0]);
    stk__builder_sample(b, track, STK__NO_TIME, stk__builder_callsite(b, root, frames[1]), work, 0);
    if (wait)
        stk__builder_sample(b, track, STK__NO_TIME, stk__builder_callsite(b, root, frames[2]), wait, 0);
    return finish(b);
}

static void diff_of_profiles_compares_shares_without_a_test(void **state)
{
    stk__trace *a = make_profile(100, 0), *b = make_profile(150, 50);
    const stk__diff_options options = STK__DIFF_DEFAULTS;
    stk__diff d;
    assert_int_equal(stk__diff_make(a, b, &options, &d, NULL), STK_OK);
    assert_int_equal(d.basis, STK__DIFF_PER_SHARE);
    const stk__diff_row *work = row_of(&d, "work"), *wait = row_of(&d, "wait");
    assert_non_null(work);
    assert_non_null(wait);
    assert_true(fabs(work->before.self_share - 1) < 1e-12 && fabs(work->after.self_share - 0.75) < 1e-12);
    assert_int_equal(work->verdict, STK__DIFF_NO_TEST);
    assert_int_equal(wait->verdict, STK__DIFF_APPEARED);
    assert_true(isnan(work->p));
    assert_int_equal(d.stack_count, 2);
    stk__text text = STK__TEXT_INIT;
    stk__diff_text(&d, STK__DIFF_ALL, 20, &text);
    assert_non_null(strstr(text.data, "no durations to test"));
    stk__text_clear(&text);
    stk__diff_clear(&d);
    stk__trace_free(a);
    stk__trace_free(b);
}

/* Every allocation fails once: an error each time, nothing lost. */
static void diff_without_memory_fails_cleanly(void **state)
{
    const recipe r = {.seed = 1, .names = 3, .rounds = 12, .slow = -1, .markers = true};
    stk__trace *a = make(&r), *b = make(&r);
    const stk__diff_options options = STK__DIFF_DEFAULTS;
    stk_status status = STK_NOMEM;
    int failures = 0;
    for (uint64_t n = 1; status != STK_OK && n < 10000; n++) {
        stk__diff d;
        stk__alloc_fail_at(n, false);
        status = stk__diff_make(a, b, &options, &d, NULL);
        stk__alloc_fail_at(0, false);
        if (status == STK_OK)
            stk__diff_clear(&d);
        else
            assert_int_equal(status, STK_NOMEM);
        failures += status != STK_OK;
    }
    assert_int_equal(status, STK_OK);
    assert_true(failures > 10);
    stk__trace_free(a);
    stk__trace_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(diff_flags_only_the_slow_name_over_many_seeds),
        cmocka_unit_test(diff_of_equal_traces_finds_nothing),
        cmocka_unit_test(diff_with_steps_compares_per_step),
        cmocka_unit_test(diff_faster_is_no_regression),
        cmocka_unit_test(diff_under_the_limit_is_no_regression),
        cmocka_unit_test(diff_with_few_steps_falls_back_to_names),
        cmocka_unit_test(diff_sees_calls_that_became_more),
        cmocka_unit_test(diff_says_what_happened_to_the_time_per_step),
        cmocka_unit_test(diff_fails_for_faster_calls_that_are_many),
        cmocka_unit_test(diff_leaves_out_what_the_profiler_says_of_itself),
        cmocka_unit_test(diff_tells_what_appeared_and_vanished),
        cmocka_unit_test(diff_from_nothing_is_slower),
        cmocka_unit_test(diff_counts_names_that_appeared),
        cmocka_unit_test(diff_cuts_no_verdict),
        cmocka_unit_test(diff_draws_samples_that_are_many),
        cmocka_unit_test(diff_of_hostile_times_stays_defined),
        cmocka_unit_test(diff_of_slices_and_nothing_is_refused),
        cmocka_unit_test(diff_of_profiles_compares_shares_without_a_test),
        cmocka_unit_test(diff_without_memory_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
