/* Warm-up, rounds in random order, and what to do with rounds that fail or were disturbed. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "bench/count.h"
#include "bench/design.h"
#include "bench/experiment.h"
#include "bench/machine.h"
#include "bench/process_run.h"

#include "base/banned.h"

enum {
    FAILED_IN_A_ROW = 3,
    AUTO_LEAST = 12,
    AUTO_MOST = 50,
    AUTO_S = 10,
    DEFAULT_MOST = 200, /* rounds when stopping on the width */
    ATTEMPTS = 3        /* per round, when others disturb */
};

/* State of one experiment. */
typedef struct lab {
    const stk__experiment *e;
    stk__result *r;
    stk__process_runs *processes; /* NULL: e->measure */
    size_t rounds;                /* wanted, as known so far */
    size_t accepted, failed_in_a_row, failed;
    size_t attempts; /* at the round at hand */
    bool counting;   /* the rounds are over */
    double *values;  /* [trial][metric] of the round at hand */
    int *exit_codes;
    size_t *order;
    stk__text why; /* of the last failure */
    int64_t began_ns;
} lab;

static bool interrupted(const lab *x)
{
    return x->e->cancelled && x->e->cancelled(x->e->context);
}

static void tell(const lab *x, size_t done, bool warming)
{
    if (!x->e->progress)
        return;
    if (x->counting) {
        const size_t all = x->e->trial_count * STK_MAX(x->e->count, done / x->e->trial_count + 1);
        const stk__progress p = {.counting = true, .done = done, .runs = all, .left_s = NAN};
        x->e->progress(x->e->context, &p);
        return;
    }
    const size_t runs = x->e->trial_count * (warming ? x->e->warmup : 1);
    stk__progress p = {
        .round = x->accepted, .rounds = x->rounds, .done = done, .runs = runs, .warming = warming, .left_s = NAN};
    const double over = (double)x->accepted + (double)done / (double)x->e->trial_count;
    if (!warming && x->accepted && (double)x->rounds >= over)
        p.left_s = (double)(stk__now_ns() - x->began_ns) / 1e9 / over * ((double)x->rounds - over);
    x->e->progress(x->e->context, &p);
}

/* One run of one trial; CANCELLED when the user wants no more. */
static stk_status run_trial(lab *x, size_t trial, size_t round, bool *out_failed, stk_error *err)
{
    if (interrupted(x))
        return STK_CANCELLED;
    double *values = x->values + trial * x->r->metric_count;
    stk__text_reset(&x->why);
    *out_failed = false;
    x->exit_codes[trial] = 0;
    if (x->e->measure)
        return x->e->measure(x->e->measure_context, trial, round, values, out_failed, &x->why, err);
    return stk__process_measure(x->processes, trial, round, values, &x->exit_codes[trial], out_failed, &x->why, err);
}

static stk_status fail(const lab *x, size_t trial, const char *when, stk_error *err)
{
    const stk__trial *t = &x->e->trials[trial];
    const char *why = x->why.data ? x->why.data : "failed";
    if (x->e->out_failed)
        *x->e->out_failed = trial;
    if (!t->command || strcmp(t->name, t->command) == 0)
        return stk_error_set(err, STK_IO, "'%.200s'%s: %s", t->name, when, why);
    return stk_error_set(err, STK_IO, "%.60s ('%.200s')%s: %s", t->name, t->command, when, why);
}

/* Every trial `warmup` times, in the order they were given. Returns what a round of them takes. */
static stk_status warm_up(lab *x, double *out_round_s, stk_error *err)
{
    const int64_t start = stk__now_ns();
    for (size_t k = 0; k < x->e->warmup; k++) {
        for (size_t trial = 0; trial < x->e->trial_count; trial++) {
            bool failed;
            tell(x, k * x->e->trial_count + trial, true);
            STK_TRY(run_trial(x, trial, 0, &failed, err));
            if (failed)
                return fail(x, trial, " failed in the warm-up", err);
        }
    }
    *out_round_s = x->e->warmup ? (double)(stk__now_ns() - start) / 1e9 / (double)x->e->warmup : NAN;
    return STK_OK;
}

/* One variant alone has no ratio whose interval could be narrow. */
static bool by_width(const lab *x)
{
    return x->e->width > 0 && x->e->pair_count > 0;
}

static bool decided_by_counts(const lab *x)
{
    return x->e->count && x->r->primary == STK__INSTRUCTIONS;
}

/* Only the time of the warm-up goes into it, never what it compares. */
static size_t choose_rounds(const lab *x, double round_s)
{
    if (by_width(x))
        return x->e->max_rounds ? x->e->max_rounds : DEFAULT_MOST;
    if (x->e->rounds)
        return x->e->rounds;
    const size_t least = x->e->least ? x->e->least : AUTO_LEAST;
    if (!(round_s > 0) || decided_by_counts(x))
        return least; /* counts repeat, or take so long that rounds do not matter */
    const double fit = (x->e->seconds > 0 ? x->e->seconds : AUTO_S) / round_s;
    return fit <= (double)least ? least : fit >= AUTO_MOST ? AUTO_MOST : (size_t)fit;
}

/* Share of the machine that others took since `start`, or 0 where that cannot be known. */
static double others_since(const lab *x, const stk__machine_ticks *start, double hooks_s)
{
    stk__machine_ticks now;
    if (!stk__machine_ticks_now(&now) || now.at_ns <= start->at_ns)
        return 0;
    double own = stk__process_hooks_s(x->processes) - hooks_s;
    for (size_t t = 0; t < x->e->trial_count; t++)
        own += x->values[t * x->r->metric_count + STK__CPU];
    const double busy = now.busy_s + now.steal_s - start->busy_s - start->steal_s - own;
    return busy / ((double)(now.at_ns - start->at_ns) / 1e9 * now.cpus);
}

static stk_status keep_round(lab *x, stk_error *err)
{
    for (size_t t = 0; t < x->e->trial_count; t++) {
        const stk_status status =
            stk__result_add_run(x->r, t, x->values + t * x->r->metric_count, x->exit_codes[t], err);
        if (status != STK_OK) {
            /* For all variants or for none: the i-th runs belong together. */
            while (t--)
                x->r->variants[t].runs--;
            return status;
        }
    }
    x->accepted++;
    x->attempts = 0;
    x->failed_in_a_row = 0;
    return STK_OK;
}

/* A round with a failed run is left out whole, so that no variant gains from it. */
static stk_status drop_round(lab *x, size_t trial, stk_error *err)
{
    x->failed++;
    x->r->dropped++;
    if (++x->failed_in_a_row >= FAILED_IN_A_ROW)
        return fail(x, trial, " failed in three rounds in a row", err);
    if (x->failed > x->rounds / 3 + 1)
        return fail(x, trial, " fails too often", err);
    return STK_OK;
}

static stk_status one_round(lab *x, stk_error *err)
{
    stk__machine_ticks start;
    const bool known = x->e->quiet > 0 && !x->e->measure && stk__machine_ticks_now(&start);
    const double hooks_s = known ? stk__process_hooks_s(x->processes) : 0;
    stk__design_order(x->e->seed, x->accepted, x->e->trial_count, x->order);
    x->attempts++;
    for (size_t k = 0; k < x->e->trial_count; k++) {
        bool failed;
        tell(x, k, false);
        STK_TRY(run_trial(x, x->order[k], x->accepted, &failed, err));
        if (failed)
            return drop_round(x, x->order[k], err);
    }
    if (known && others_since(x, &start, hooks_s) > x->e->quiet) {
        /* Counted for each round: on a machine that is never quiet the first ones are kept soon, for Ctrl-C and --width. */
        if (x->attempts < ATTEMPTS) {
            x->r->retaken++;
            return STK_OK;
        }
        x->r->disturbed++;
    }
    return keep_round(x, err);
}

static stk_status narrow_enough(const lab *x, bool *out, stk_error *err)
{
    *out = false;
    if (!by_width(x) || x->accepted < STK__LEAST_ROUNDS || x->accepted % 2)
        return STK_OK;
    stk__comparisons c;
    STK_TRY(stk__compare(x->r, &x->e->rule, x->e->pairs, x->e->pair_count, x->r->primary, &c, err));
    *out = true;
    for (size_t i = 0; i < c.count; i++) {
        const stk__comparison *p = &c.items[i];
        const bool covered = p->valid && (p->paired ? p->pair.covered : p->free.covered);
        *out = *out && covered && p->high / p->low - 1 <= x->e->width;
    }
    stk__comparisons_clear(&c);
    return STK_OK;
}

static stk_status all_rounds(lab *x, stk_error *err)
{
    bool enough = false;
    x->began_ns = stk__now_ns();
    while (x->accepted < x->rounds && !enough) {
        STK_TRY(one_round(x, err));
        STK_TRY(narrow_enough(x, &enough, err));
    }
    if (x->r->disturbed)
        STK_TRY(stk__result_note(x->r, err,
                                 "%zu of the rounds are kept though others used more than %.3g %% of the machine in "
                                 "them: the tries had run out",
                                 x->r->disturbed, 100 * x->e->quiet));
    if (by_width(x) && !enough)
        STK_TRY(stk__result_note(x->r, err,
                                 "the interval was still wider than %.3g %% after %zu rounds, the most that were "
                                 "allowed",
                                 100 * x->e->width, x->accepted));
    return STK_OK;
}

/* ---- counting apart from the rounds ---- */

/* The k-th count of each trial stands with its k-th run. Again: so far the wrong tool counted. */
static stk_status count_once(lab *x, size_t k, bool *out_failed, bool *out_again, stk_error *err)
{
    for (size_t t = 0; t < x->e->trial_count; t++) {
        double value = NAN;
        if (interrupted(x))
            return STK_CANCELLED;
        tell(x, k * x->e->trial_count + t, false);
        STK_TRY(stk__process_count(x->processes, t, k, &value, out_failed, &x->why, err));
        *out_again = stk__process_counts_anew(x->processes);
        if (*out_failed || *out_again)
            return STK_OK;
        x->r->variants[t].values[STK__INSTRUCTIONS][k] = value;
    }
    return STK_OK;
}

/* The fixed number; then, where they decide and do not repeat, as many as a test needs. */
static bool more_counts(const lab *x, size_t done)
{
    if (done >= x->accepted || done < x->e->count)
        return done < x->accepted;
    if (x->r->primary != STK__INSTRUCTIONS || done >= x->e->count_most)
        return false;
    for (size_t t = 0; t < x->e->trial_count; t++) {
        const stk__counts c = stk__counts_of(&x->r->variants[t], STK__INSTRUCTIONS);
        if (stk__counts_spread(&c) > STK__COUNT_REPEATS)
            return true;
    }
    return false;
}

static void forget_counts(const lab *x)
{
    for (size_t t = 0; t < x->e->trial_count; t++)
        for (size_t i = 0; i < x->r->variants[t].runs; i++)
            x->r->variants[t].values[STK__INSTRUCTIONS][i] = NAN;
}

/* Runs after the rounds, since they are far too slow to be timed. Where one fails, the times stay. */
static stk_status count_apart(lab *x, stk_error *err)
{
    if (x->e->measure || !x->e->count || !stk__process_counts_apart(x->processes))
        return STK_OK;
    bool failed = false, again = false;
    x->counting = true;
    stk__text_reset(&x->why);
    for (size_t k = 0; more_counts(x, k) && !failed;) {
        STK_TRY(count_once(x, k, &failed, &again, err));
        k = again ? 0 : k + 1;
    }
    if (!failed)
        return STK_OK;
    forget_counts(x);
    const char *why = x->why.data ? x->why.data : "valgrind failed";
    if (x->r->primary == STK__INSTRUCTIONS)
        return stk_error_set(err, STK_IO, "instructions could not be counted: %s", why);
    return stk__result_note(x->r, err, "instructions were not counted: %s", why);
}

static stk_status lab_open(lab *x, stk__launcher *l, stk_error *err)
{
    const stk__experiment *e = x->e;
    x->values = stk__calloc(e->trial_count * x->r->metric_count + 1, sizeof *x->values);
    x->exit_codes = stk__calloc(e->trial_count + 1, sizeof *x->exit_codes);
    x->order = stk__calloc(e->trial_count + 1, sizeof *x->order);
    if (!x->values || !x->exit_codes || !x->order)
        return stk__nomem(e->trial_count * x->r->metric_count * sizeof *x->values, err);
    for (size_t t = 0; t < e->trial_count; t++) {
        const stk__trial *trial = &e->trials[t];
        STK_TRY(stk__result_add_variant(x->r, trial->name, trial->command, trial->group, NULL, err));
        for (size_t k = 0; k < trial->parameter_count; k++)
            STK_TRY(stk__result_add_parameter(x->r, t, trial->parameters[k].name, trial->parameters[k].value, err));
    }
    x->r->paired = true;
    x->r->seed = e->seed;
    x->r->warmup = e->warmup;
    x->r->time_s = (int64_t)time(NULL);
    x->r->floor_s = NAN;
    return e->measure ? STK_OK : stk__process_runs_open(e, l, x->r, &x->processes, err);
}

static stk_status run(lab *x, stk_error *err)
{
    double round_s = NAN;
    STK_TRY(warm_up(x, &round_s, err));
    x->rounds = choose_rounds(x, round_s);
    STK_TRY(all_rounds(x, err));
    return count_apart(x, err);
}

stk_status stk__experiment_run(const stk__experiment *e, stk__launcher *l, stk__result *r, stk_error *err)
{
    lab x = {.e = e, .r = r};
    stk_status status = lab_open(&x, l, err);
    if (status == STK_OK)
        status = run(&x, err);
    if (status == STK_CANCELLED) {
        r->interrupted = true;
        status = STK_OK;
    }
    /* Also after a failure: what --setup made is taken away. */
    stk_status closed = stk__process_runs_close(x.processes, status == STK_OK ? err : NULL);
    if (closed == STK_CANCELLED) {
        r->interrupted = true; /* while it cleaned up */
        closed = STK_OK;
    }
    stk__free(x.values);
    stk__free(x.exit_codes);
    stk__free(x.order);
    stk__text_clear(&x.why);
    return status == STK_OK ? closed : status;
}
