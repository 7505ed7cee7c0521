/* The public comparison of functions: an experiment without processes, its report and its JSON. */
#include <stoker/bench.h>

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "bench/experiment.h"
#include "bench/interchange.h"
#include "bench/machine.h"
#include "bench/report.h"

#include "base/banned.h"

/* As the program has them. */
enum { MOST_VARIANTS = 1000, MOST_ROUNDS = 100000, MOST_NAME = 4096, MOST_UNIT = 32 };
#define CONFIDENCE 0.95
#define USUAL_EFFECT 0.02

/* Shares of the machine from which on a reader should know. */
#define OTHERS_NOTABLE 0.1
#define STEAL_NOTABLE 0.01

/* One comparison on its way. */
typedef struct session {
    stk_bench_fn *run;
    void *arg;
    stk_bench_options options;
    const char *const *names;
    stk_status failed; /* what a function returned, which may be CANCELLED too */
    bool stop;         /* progress wants no more */
    stk__trial *trials;
    stk__compare_pair *pairs; /* each against the first */
    size_t count;
    stk__result result;
    stk__comparisons comparisons;
    /* of the machine and of this process, before the first run */
    stk__machine_ticks ticks;
    bool ticks_known;
    double own_s;
} session;

/* ---- what the caller gave ---- */

static stk_status read_options(const stk_bench_options *in, stk_bench_options *out, stk_error *err)
{
    *out = (stk_bench_options){.struct_size = sizeof *out};
    if (in && in->struct_size < sizeof in->struct_size)
        return stk_error_set(err, STK_INVALID, "struct_size of the bench options is %zu, wanted %zu", in->struct_size,
                             sizeof *out);
    if (in)
        memcpy(out, in, STK_MIN(in->struct_size, sizeof *out));
    if (out->rounds > MOST_ROUNDS || out->warmup > MOST_ROUNDS)
        return stk_error_set(err, STK_INVALID, "%s is %zu, wanted at most %d",
                             out->rounds > MOST_ROUNDS ? "rounds" : "warmup",
                             out->rounds > MOST_ROUNDS ? out->rounds : out->warmup, MOST_ROUNDS);
    if (!(out->min_effect >= 0 && out->min_effect <= 10))
        return stk_error_set(err, STK_INVALID, "min_effect is %g, wanted 0 to 10 (0.02 is 2 %%)", out->min_effect);
    out->unit = out->unit ? out->unit : "s";
    size_t length = 0;
    for (const char *c = out->unit; *c && length <= MOST_UNIT; c++, length++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return stk_error_set(err, STK_INVALID, "the unit has the control byte 0x%02x", (unsigned char)*c);
    }
    if (length == 0 || length > MOST_UNIT)
        return stk_error_set(err, STK_INVALID, "the unit has %s bytes, wanted 1 to %d", length ? "more" : "no",
                             MOST_UNIT);
    out->warmup = out->warmup ? out->warmup : 1;
    out->min_effect = out->min_effect > 0 ? out->min_effect : USUAL_EFFECT;
    /* Short enough to be typed again, and never the 0 that asks for a new one. */
    if (!out->seed)
        out->seed = 1 + stk__mix((uint64_t)stk__now_ns(), (uint64_t)time(NULL)) % 999999;
    return STK_OK;
}

static stk_status check_names(const char *const *names, size_t count, stk_error *err)
{
    if (!names || !count || count > MOST_VARIANTS)
        return stk_error_set(err, STK_INVALID, "%zu functions to compare, wanted 1 to %d", names ? count : 0,
                             MOST_VARIANTS);
    for (size_t i = 0; i < count; i++) {
        if (!names[i] || !names[i][0])
            return stk_error_set(err, STK_INVALID, "function %zu has no name", i);
        if (strnlen(names[i], MOST_NAME + 1) > MOST_NAME)
            return stk_error_set(err, STK_INVALID, "the name of function %zu is longer than %d bytes", i, MOST_NAME);
        for (size_t k = 0; k < i; k++) {
            if (strcmp(names[i], names[k]) == 0)
                return stk_error_set(err, STK_INVALID, "two functions are called '%.200s', wanted different names",
                                     names[i]);
        }
    }
    return STK_OK;
}

/* ---- running ---- */

static stk_status measure(void *context, size_t trial, size_t round, double *values, bool *out_failed, stk__text *why,
                          stk_error *err)
{
    session *s = context;
    double seconds = NAN;
    s->failed = s->run(s->arg, trial, &seconds, err);
    if (s->failed != STK_OK) {
        if (err && err->status == STK_OK) /* it left the words to us */
            stk_error_set(err, s->failed, "a run of '%.200s' failed: %s", s->names[trial], stk_status_text(s->failed));
        return s->failed;
    }
    if (!isfinite(seconds) || seconds < 0)
        return s->failed = stk_error_set(err, STK_INVALID, "a run of '%.200s' gave %g %s, wanted at least 0",
                                         s->names[trial], seconds, s->options.unit);
    values[0] = seconds;
    return STK_OK;
}

static void progress(void *context, const stk__progress *p)
{
    session *s = context;
    const stk_bench_options *o = &s->options;
    if (o->progress && !o->progress(o->progress_arg, p->round, p->warming ? 0 : p->rounds, p->left_s))
        s->stop = true;
}

static bool cancelled(void *context)
{
    return ((const session *)context)->stop;
}

static double own_cpu_s(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) ? 0 : (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void watch_machine(session *s)
{
    s->ticks_known = stk__machine_ticks_now(&s->ticks);
    s->own_s = own_cpu_s();
}

/* One figure for the whole time: runs are far shorter than the ticks in which the kernel counts. */
static stk_status note_interference(session *s, stk_error *err)
{
    stk__machine_ticks now;
    if (!s->ticks_known || !stk__machine_ticks_now(&now))
        return STK_OK;
    const double all_s = (double)(now.at_ns - s->ticks.at_ns) / 1e9 * now.cpus;
    if (!(all_s > 0.2))
        return STK_OK; /* so few ticks tell nothing */
    const double others = (now.busy_s - s->ticks.busy_s - (own_cpu_s() - s->own_s)) / all_s;
    const double steal = (now.steal_s - s->ticks.steal_s) / all_s;
    if (others >= OTHERS_NOTABLE)
        STK_TRY(stk__result_note(&s->result, err, "others used %.0f %% of the CPUs in the meantime",
                                 100 * fmin(others, 1)));
    if (steal >= STEAL_NOTABLE)
        STK_TRY(stk__result_note(&s->result, err, "the hypervisor took %.1f %% of the CPUs in the meantime",
                                 100 * fmin(steal, 1)));
    return STK_OK;
}

static stk_status plan(session *s, stk_error *err)
{
    s->trials = stk__calloc(s->count, sizeof *s->trials);
    s->pairs = stk__calloc(s->count, sizeof *s->pairs);
    if (!s->trials || !s->pairs)
        return stk__nomem(s->count * sizeof *s->trials, err);
    for (size_t i = 0; i < s->count; i++) {
        char *name = (char *)(uintptr_t)s->names[i]; /* only read */
        s->trials[i] = (stk__trial){.name = name, .command = name};
        if (i)
            s->pairs[i - 1] = (stk__compare_pair){0, i};
    }
    const bool time = strcmp(s->options.unit, "s") == 0;
    STK_TRY(stk__result_add_metric(&s->result, time ? "wall" : "value", s->options.unit, false, NULL, err));
    stk__text machine = STK__TEXT_INIT;
    stk__machine_describe(&machine);
    if (machine.failed) {
        stk__text_clear(&machine);
        return stk__nomem(256, err);
    }
    s->result.machine = machine.data;
    return STK_OK;
}

static stk_status run_rounds(session *s, stk_error *err)
{
    const stk_bench_options *o = &s->options;
    const stk__rule rule = {.confidence = CONFIDENCE, .min_effect = o->min_effect, .margin = o->min_effect};
    const stk__experiment e = {
        .trials = s->trials,
        .trial_count = s->count,
        .warmup = o->warmup,
        .rounds = o->rounds,
        .seed = o->seed,
        .pairs = s->pairs,
        .pair_count = s->count - 1,
        .rule = rule,
        .progress = progress,
        .cancelled = cancelled,
        .context = s,
        .measure = measure,
        .measure_context = s,
    };
    watch_machine(s);
    STK_TRY(stk__experiment_run(&e, NULL, &s->result, err));
    if (s->failed != STK_OK)
        return s->failed; /* it was CANCELLED, which the experiment takes for its own */
    if (!s->result.variants[0].runs)
        return stk_error_set(err, STK_CANCELLED, "ended before the first round was complete: nothing was measured");
    STK_TRY(note_interference(s, err));
    return stk__compare(&s->result, &rule, s->pairs, s->count - 1, 0, &s->comparisons, err);
}

/* ---- the end ---- */

static stk_status write_both(const session *s, bool want_text, bool want_json, stk__text *text, stk__text *json,
                             stk_error *err)
{
    if (want_text)
        stk__report_text(&s->result, &s->comparisons, NULL, 0, text);
    if (want_json)
        STK_TRY(stk__bench_write(&s->result, &s->comparisons, STK__BENCH_STOKER, json, NULL, err));
    return text->failed || json->failed ? stk__nomem(text->length + json->length, err) : STK_OK;
}

static stk_status compare(session *s, char **out_text, char **out_json, stk_error *err)
{
    STK_TRY(plan(s, err));
    STK_TRY(run_rounds(s, err));
    stk__text text = STK__TEXT_INIT, json = STK__TEXT_INIT;
    const stk_status status = write_both(s, out_text != NULL, out_json != NULL, &text, &json, err);
    if (status != STK_OK) {
        stk__text_clear(&text);
        stk__text_clear(&json);
        return status;
    }
    if (out_text)
        *out_text = text.data;
    if (out_json)
        *out_json = json.data;
    return STK_OK;
}

stk_status stk_bench_compare(const char *const *names, size_t count, stk_bench_fn *run, void *arg,
                             const stk_bench_options *options, char **out_text, char **out_json, stk_error *err)
{
    session s = {.run = run, .arg = arg, .names = names, .count = count};
    if (!run)
        return stk_error_set(err, STK_INVALID, "there is no function that runs a variant");
    STK_TRY(check_names(names, count, err));
    STK_TRY(read_options(options, &s.options, err));
    const stk_status status = compare(&s, out_text, out_json, err);
    stk__comparisons_clear(&s.comparisons);
    stk__result_clear(&s.result);
    stk__free(s.pairs);
    stk__free(s.trials);
    return status;
}
