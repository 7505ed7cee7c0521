/* The order of all runs of a calibration, and the time that they may take. */
#include "bench/luck_run.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "bench/design.h"
#include "bench/hyperfine.h"
#include "bench/process_run.h"
#include "stats/ranks.h"

#include "base/banned.h"

/*
 * A cycle has a piece of each part. A piece is two blocks in hyperfine's order, of as many runs as the largest windows
 * that still leave CYCLES cycles: with fewer, the parts would not see the same weather.
 */
enum { PIECE_LEAST = 12, CYCLES = 3 };
static const size_t pieces[] = {2 * 50, 2 * 30, 2 * 20, 2 * 12, 2 * 8, PIECE_LEAST};

typedef struct runner {
    const stk__luck_plan *plan;
    const stk__experiment *e;
    stk__result *r;
    stk__luck *l;
    stk__launcher *launcher;
    stk__process_runs *processes; /* NULL: e->measure */
    double *values;               /* of the run at hand, by metric */
    stk__text why;
    size_t piece; /* rounds of each part in a cycle */
    size_t runs, runs_wanted;
    int64_t began_ns, deadline_ns; /* INT64_MAX: none */
    double one_s;                  /* what a run takes, with all around it */
} runner;

/* ---- one run ---- */

static void tell(const runner *x, const char *what)
{
    if (!x->plan->progress)
        return;
    stk__luck_progress p = {.what = what, .runs = x->runs, .left_s = NAN};
    const int64_t now = stk__now_ns();
    if (what && x->deadline_ns != INT64_MAX)
        p.left_s = fmax(0, (double)(x->deadline_ns - now) / 1e9);
    else if (what && x->runs && x->runs_wanted >= x->runs)
        p.left_s = (double)(now - x->began_ns) / 1e9 / (double)x->runs * (double)(x->runs_wanted - x->runs);
    x->plan->progress(x->e->context, &p);
}

static stk_status fail(const runner *x, size_t trial, stk_error *err)
{
    const stk__trial *t = &x->e->trials[trial];
    return stk_error_set(err, STK_IO, "'%.200s' failed: %s", t->command ? t->command : t->name,
                         x->why.data ? x->why.data : "");
}

/* END: the time is up. */
static stk_status run_trial(runner *x, size_t trial, double *out, stk_error *err)
{
    bool failed = false;
    int exit_code;
    if (x->e->cancelled && x->e->cancelled(x->e->context))
        return STK_CANCELLED;
    if (stk__now_ns() >= x->deadline_ns)
        return STK_END;
    stk__text_reset(&x->why);
    if (x->e->measure)
        STK_TRY(x->e->measure(x->e->measure_context, trial, x->runs, x->values, &failed, &x->why, err));
    else
        STK_TRY(stk__process_measure(x->processes, trial, x->runs, x->values, &exit_code, &failed, &x->why, err));
    if (failed)
        return fail(x, trial, err);
    x->runs++;
    *out = x->values[x->r->primary];
    return STK_OK;
}

/* ---- pieces ---- */

static stk_status add_run(runner *x, size_t trial, bool b, const char *what, stk_error *err)
{
    double value;
    tell(x, what);
    STK_TRY(run_trial(x, trial, &value, err));
    return stk__luck_add(x->l, b, value, err);
}

/* Rounds in turns, with trial `effect` as B; effect 0 is A itself. */
static stk_status take_turns(runner *x, size_t effect, size_t rounds, stk_error *err)
{
    STK_TRY(stk__luck_begin(x->l, effect ? STK__LUCK_TURNS : STK__LUCK_SAME, effect, err));
    const uint64_t seed = stk__mix(x->e->seed, x->l->series_count);
    for (size_t i = 0; i < rounds; i++) {
        size_t order[2];
        stk__design_order(seed, i, 2, order);
        for (size_t k = 0; k < 2; k++)
            STK_TRY(add_run(x, order[k] ? effect : 0, order[k], effect ? "in turns" : "A against itself", err));
    }
    return STK_OK;
}

/* Blocks of half the rounds: A B A B, or B A B A in every second cycle, so that each is first as often. */
static stk_status take_order(runner *x, size_t effect, size_t rounds, bool b_first, stk_error *err)
{
    STK_TRY(stk__luck_begin(x->l, STK__LUCK_ORDER, effect, err));
    const size_t block = rounds / 2;
    for (size_t i = 0; i < 4 * block; i++) {
        const bool b = (i / block) % 2 != b_first;
        STK_TRY(add_run(x, b ? effect : 0, b, "in hyperfine's order", err));
    }
    return STK_OK;
}

static stk_status add_times(runner *x, const stk__result *r, stk_error *err)
{
    for (size_t v = 0; v < 2; v++) {
        for (size_t i = 0; i < r->variants[v].runs; i++) {
            const double time = r->variants[v].values[r->primary][i];
            if (!(time > 0))
                return stk_error_set(
                    err, STK_IO,
                    "hyperfine gave a run %g s, since it subtracts what a shell takes: this is too fast "
                    "for it; let one run do more work",
                    time);
            STK_TRY(stk__luck_add(x->l, v, time, err));
        }
    }
    x->runs += 2 * r->variants[0].runs;
    return STK_OK;
}

static stk_status take_hyperfine(runner *x, size_t effect, size_t rounds, stk_error *err)
{
    const stk__trial *a = &x->e->trials[0], *b = &x->e->trials[effect];
    const stk__hyperfine h = {.program = x->plan->hyperfine,
                              .prepare = a->prepare,
                              .input = x->e->launch.input,
                              .runs = rounds / 2,
                              .warmup = x->e->warmup,
                              .ignore_failure = x->e->ignore_failure,
                              .limits = x->e->launch.limits};
    if (x->e->cancelled && x->e->cancelled(x->e->context))
        return STK_CANCELLED;
    if (h.runs == 0)
        return STK_OK;
    if (stk__now_ns() + (int64_t)(2 * (double)h.runs * x->one_s * 1e9) > x->deadline_ns)
        return STK_END; /* it cannot be stopped half way without losing all of it */
    tell(x, "hyperfine itself");
    stk__result r = {0};
    stk_status status = stk__hyperfine_run(x->launcher, &h, a->command, b->command, &r, err);
    if (status == STK_OK)
        status = stk__luck_begin(x->l, STK__LUCK_HYPERFINE, effect, err);
    if (status == STK_OK)
        status = add_times(x, &r, err);
    stk__result_clear(&r);
    return status;
}

/* ---- all of them ---- */

/* A has the double share when time decides: false alarms are rare, so they take more windows to be counted. */
static stk_status take_cycle(runner *x, size_t cycle, size_t rounds, stk_error *err)
{
    STK_TRY(take_turns(x, 0, x->plan->rounds ? rounds : 2 * rounds, err));
    for (size_t effect = 1; effect < x->e->trial_count; effect++) {
        STK_TRY(take_turns(x, effect, rounds, err));
        STK_TRY(take_order(x, effect, rounds, cycle % 2, err));
    }
    for (size_t effect = 0; effect < x->e->trial_count && x->plan->hyperfine; effect++)
        STK_TRY(take_hyperfine(x, effect, rounds, err));
    return STK_OK;
}

/* Runs of a cycle for each round of its pieces. */
static size_t runs_per_round(const runner *x)
{
    const size_t real = x->e->trial_count - 1;
    return (x->plan->rounds ? 2 : 4) + 4 * real + (x->plan->hyperfine ? 1 + real : 0);
}

/* The first runs are slow; the median of some more tells what the rest will take. */
static stk_status time_runs(runner *x, stk_error *err)
{
    double times[9], value;
    size_t n = 0;
    const int64_t until = stk__now_ns() + (int64_t)(x->plan->time_s * 1e9 / 100);
    while (n < STK_COUNT(times) && (n == 0 || stk__now_ns() < until)) {
        const int64_t start = stk__now_ns();
        tell(x, NULL);
        STK_TRY(run_trial(x, 0, &value, err));
        times[n++] = (double)(stk__now_ns() - start) / 1e9;
    }
    x->one_s = stk__median_double(times, n);
    return STK_OK;
}

static stk_status warm_up(runner *x, stk_error *err)
{
    double value;
    for (size_t k = 0; k < x->e->warmup * x->e->trial_count; k++) {
        tell(x, NULL);
        STK_TRY(run_trial(x, k % x->e->trial_count, &value, err));
    }
    STK_TRY(time_runs(x, err));
    x->runs = 0;
    x->began_ns = stk__now_ns();
    return STK_OK;
}

static stk_status choose_piece(runner *x, stk_error *err)
{
    const bool alone = x->e->trial_count == 1 && !x->plan->hyperfine;
    if (x->plan->rounds) {
        x->piece = alone ? x->plan->rounds : STK_MIN(x->plan->rounds, pieces[0]);
        x->runs_wanted = x->plan->rounds * runs_per_round(x);
        return STK_OK;
    }
    const double fit = x->plan->time_s / x->one_s / (double)runs_per_round(x);
    if (fit < PIECE_LEAST)
        return stk_error_set(err, STK_INVALID,
                             "a run takes %.2g s, and %zu runs are the least here: found %.3g s for all of them, "
                             "wanted at least %.3g s (--time)",
                             x->one_s, PIECE_LEAST * runs_per_round(x), x->plan->time_s,
                             ceil(1.2 * PIECE_LEAST * (double)runs_per_round(x) * x->one_s));
    size_t i = 0;
    while (i + 1 < STK_COUNT(pieces) && fit / CYCLES < (double)pieces[i])
        i++;
    x->piece = alone ? SIZE_MAX / 2 : pieces[i]; /* alone: one long series */
    return STK_OK;
}

static stk_status run_all(runner *x, stk_error *err)
{
    const int64_t start = x->began_ns;
    STK_TRY(warm_up(x, err));
    STK_TRY(choose_piece(x, err));
    /* Not before: what is too short for a single cycle is told as that. */
    if (!x->plan->rounds)
        x->deadline_ns = start + (int64_t)(x->plan->time_s * 1e9);
    size_t done = 0;
    for (size_t cycle = 0; x->plan->rounds == 0 || done < x->plan->rounds; cycle++) {
        const size_t rounds = x->plan->rounds ? STK_MIN(x->piece, x->plan->rounds - done) : x->piece;
        STK_TRY(take_cycle(x, cycle, rounds, err));
        done += rounds;
    }
    return STK_OK;
}

static stk_status open_runner(runner *x, stk_error *err)
{
    x->values = stk__calloc(x->r->metric_count + 1, sizeof *x->values);
    if (!x->values)
        return stk__nomem(x->r->metric_count * sizeof *x->values, err);
    for (size_t t = 0; t < x->e->trial_count; t++)
        STK_TRY(stk__result_add_variant(x->r, x->e->trials[t].name, x->e->trials[t].command, 0, NULL, err));
    x->r->seed = x->e->seed;
    x->r->warmup = x->e->warmup;
    x->r->time_s = (int64_t)time(NULL);
    x->r->floor_s = NAN;
    return x->e->measure ? STK_OK : stk__process_runs_open(x->e, x->launcher, x->r, &x->processes, err);
}

stk_status stk__luck_run(const stk__luck_plan *plan, stk__launcher *launcher, stk__result *r, stk__luck *l,
                         stk_error *err)
{
    runner x = {.plan = plan, .e = plan->e, .r = r, .l = l, .launcher = launcher};
    x.began_ns = stk__now_ns();
    x.deadline_ns = INT64_MAX;
    stk_status status = open_runner(&x, err);
    if (status == STK_OK)
        status = run_all(&x, err);
    if (status == STK_CANCELLED)
        r->interrupted = true;
    if (status == STK_CANCELLED || status == STK_END)
        status = STK_OK;
    stk_status closed = stk__process_runs_close(x.processes, status == STK_OK ? err : NULL);
    if (closed == STK_CANCELLED) {
        r->interrupted = true; /* while it cleaned up */
        closed = STK_OK;
    }
    stk__free(x.values);
    stk__text_clear(&x.why);
    return status == STK_OK ? closed : status;
}
