/* Running an experiment: the launcher, the settings, the metrics, a line of progress. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "bench.h"
#include "bench/machine.h"

#include "base/banned.h"

int bench_fail(const stk_error *err)
{
    cli_live_clear();
    cli_say_error(err, NULL, NULL);
    return cli_exit_code(err);
}

int bench_launcher_open(stk__launcher **out)
{
    stk_error err = {0};
    if (stk__launcher_start(out, &err) != STK_OK)
        return bench_fail(&err);
    cli_interrupts_catch();
    cli_interrupts_launcher(*out);
    return CLI_OK;
}

void bench_launcher_close(stk__launcher *l)
{
    cli_interrupts_launcher(NULL);
    stk__launcher_stop(l);
}

static bool decides_by_counts(const char *metric)
{
    return metric && strcmp(metric, stk__measure_metric(STK__INSTRUCTIONS).name) == 0;
}

stk__rule bench_rule(const bench_rule_options *o, const char *metric)
{
    const double usual = o->min_effect >= 0 ? o->min_effect : decides_by_counts(metric) ? 0.001 : 0.02;
    /* A gate below the usual effect asks for changes of its own size: else what it is for would be "equivalent". */
    const bool gated = o->min_effect < 0 && o->fail_over >= 0 && o->fail_over < usual;
    return (stk__rule){.confidence = o->confidence,
                       .min_effect = gated ? o->fail_over : usual,
                       .margin = o->margin < 0 ? usual : o->margin};
}

bench_rule_options bench_merge_rule(const bench_rule_options *rule, const stk__suite_options *file)
{
    bench_rule_options out = *rule;
    if (out.min_effect < 0 && file->min_effect >= 0)
        out.min_effect = file->min_effect;
    if (out.margin < 0 && file->margin >= 0)
        out.margin = file->margin;
    return out;
}

/* NaN and 0 stand for what the file does not say. */
bench_design_options bench_merge(const bench_design_options *design, const stk__suite_options *file)
{
    bench_design_options out = *design;
    if (out.rounds < 0 && !(out.width > 0) && file->rounds)
        out.rounds = file->rounds;
    if (!(out.width > 0) && design->rounds < 0 && file->width > 0)
        out.width = file->width;
    if (out.max_rounds < 0 && file->max_rounds)
        out.max_rounds = file->max_rounds;
    if (out.warmup < 0 && file->warmup >= 0)
        out.warmup = file->warmup;
    if (!(out.quiet_share > 0) && file->quiet > 0)
        out.quiet_share = file->quiet;
    if (!(out.cpus > 0))
        out.cpus = file->limits.cpus;
    if (!out.memory_bytes)
        out.memory_bytes = file->limits.memory_bytes;
    if (!out.timeout_ns)
        out.timeout_ns = file->timeout_ns;
    out.count = out.count || file->count > 0;
    out.input = out.input ? out.input : file->input;
    out.metric = out.metric ? out.metric : file->metric;
    out.unit = out.unit ? out.unit : file->unit;
    out.higher_is_better = out.higher_is_better || file->higher_is_better > 0;
    return out;
}

uint64_t bench_seed(const bench_design_options *design)
{
    if (design->seed >= 0)
        return (uint64_t)design->seed;
    /* Short enough to be typed again. */
    return stk__mix((uint64_t)stk__now_ns(), (uint64_t)getpid()) % 1000000;
}

/* ---- progress ---- */

static void show_progress(void *context, const stk__progress *p)
{
    stk__text t = STK__TEXT_INIT;
    (void)context;
    if (p->counting)
        stk__text_printf(&t, "bench: counting instructions under valgrind, run %zu of %zu", p->done + 1, p->runs);
    else if (p->warming)
        stk__text_printf(&t, "bench: warm-up, run %zu of %zu", p->done + 1, p->runs);
    else
        stk__text_printf(&t, "bench: round %zu of %zu, run %zu of %zu", p->round + 1, p->rounds, p->done + 1, p->runs);
    if (isfinite(p->left_s)) {
        stk__text_puts(&t, ", about ");
        cli_text_seconds(&t, p->left_s);
        stk__text_puts(&t, " left");
    }
    if (!t.failed)
        cli_live(t.data);
    stk__text_clear(&t);
}

static bool stop_wanted(void *context)
{
    (void)context;
    return cli_interrupted();
}

/* Three runs show whether counts repeat; those that do not are tested, which takes a dozen. */
enum { COUNT_RUNS = 3, COUNT_MOST = 12 };

static bool counts(const bench_design_options *d)
{
    return d->count || d->count_with || d->count_runs > 0 || decides_by_counts(d->metric);
}

stk__experiment bench_experiment(const bench_trials *trials, const bench_design_options *d,
                                 const bench_rule_options *rule, bool quiet)
{
    return (stk__experiment){
        .trials = trials->items,
        .trial_count = trials->count,
        .warmup = d->warmup < 0 ? 1 : (size_t)d->warmup,
        .rounds = d->rounds < 0 ? 0 : (size_t)d->rounds,
        .width = d->width > 0 ? d->width : 0,
        .max_rounds = d->max_rounds < 0 ? 0 : (size_t)d->max_rounds,
        .seed = bench_seed(d),
        .quiet = d->quiet_share > 0 ? d->quiet_share : 0,
        .ignore_failure = d->ignore_failure,
        .same_output = d->same_output,
        .keep_directory = d->keep_output,
        .launch = {.input = d->input,
                   .output = d->show_output ? STK__OUTPUT_SHOW : STK__OUTPUT_DISCARD,
                   .limits = {.cpus = d->cpus > 0 ? d->cpus : 0, .memory_bytes = d->memory_bytes},
                   .timeout_ns = d->timeout_ns},
        .count = !counts(d)          ? 0
                 : d->count_runs > 0 ? (size_t)d->count_runs
                                     : COUNT_RUNS,
        .count_with = !d->count_with                           ? STK__COUNT_ANYHOW
                      : strcmp(d->count_with, "hardware") == 0 ? STK__COUNT_HARDWARE
                                                               : STK__COUNT_VALGRIND,
        .count_most = d->count_runs > 0 ? (size_t)d->count_runs : COUNT_MOST,
        .rule = bench_rule(rule, d->metric),
        .progress = quiet ? NULL : show_progress,
        .cancelled = stop_wanted,
    };
}

/* ---- metrics ---- */

static bool ends_in(const char *name, const char *suffix)
{
    const size_t n = strlen(name), k = strlen(suffix);
    return n > k && strcmp(name + n - k, suffix) == 0;
}

/* "samples_per_s": samples/s, more is better; "open_s": s; "peak_bytes": bytes. */
static stk_status add_named(stk__result *r, const char *name, const char *unit, bool higher_is_better, stk_error *err)
{
    const bool rate = ends_in(name, "_per_s");
    char guess[64] = "";
    stk__text t;
    stk__text_fixed(&t, guess, sizeof guess);
    if (rate)
        stk__text_printf(&t, "%.*s/s", (int)STK_MIN(strlen(name) - 6, (size_t)50), name);
    else
        stk__text_puts(&t, ends_in(name, "_s") || strcmp(name, "seconds") == 0 ? "s"
                           : ends_in(name, "_bytes")                           ? "bytes"
                                                                               : "count");
    return stk__result_add_metric(r, name, unit ? unit : guess, rate || higher_is_better, NULL, err);
}

static stk_status add_metrics(stk__result *r, const bench_design_options *d, bool pipelines, stk_error *err)
{
    const char *metric = d->metric ? d->metric : "wall";
    STK_TRY(stk__result_add_measures(r, err));
    if (counts(d)) {
        const stk__metric row = stk__measure_metric(STK__INSTRUCTIONS);
        STK_TRY(stk__result_add_metric(r, row.name, row.unit, row.higher_is_better, NULL, err));
    }
    if (stk__result_metric(r, metric) == SIZE_MAX)
        STK_TRY(add_named(r, metric, d->unit, d->higher_is_better, err));
    static const char *const told[] = {"samples_per_s", "consumer_wait_s", "cpu_per_1000"};
    for (size_t i = 0; pipelines && i < STK_COUNT(told); i++) {
        if (stk__result_metric(r, told[i]) == SIZE_MAX)
            STK_TRY(add_named(r, told[i], strcmp(told[i], "cpu_per_1000") == 0 ? "s" : NULL, false, err));
    }
    r->primary = stk__result_metric(r, metric);
    return STK_OK;
}

int bench_check_metric(const char *metric, const char *unit, bool higher_is_better)
{
    const stk__measure m = stk__measure_find(metric ? metric : "wall");
    if (m == STK__NAMED_MEASURES || (!unit && !higher_is_better))
        return CLI_OK;
    const stk__metric row = stk__measure_metric(m);
    return cli_usage_error(
        &cli_command_bench,
        "--%s is for a --metric that the commands print; %s is measured here, in %s, and less is better",
        unit ? "unit" : "higher-is-better", row.name, row.unit);
}

int bench_metrics(stk__result *r, const bench_design_options *design, bool pipelines)
{
    stk_error err = {0};
    const int code = bench_check_metric(design->metric, design->unit, design->higher_is_better);
    if (code != CLI_OK)
        return code;
    const stk_status status = add_metrics(r, design, pipelines, &err);
    return status == STK_OK ? CLI_OK : bench_fail(&err);
}

/* ---- running ---- */

static void say_metrics(void)
{
    stk__text names = STK__TEXT_INIT;
    for (int m = 0; m < STK__STEAL; m++)
        stk__text_printf(&names, "%s%s", m ? ", " : "", stk__measure_metric((stk__measure)m).name);
    if (!names.failed)
        cli_say("    measured whatever commands print: %s", names.data);
    stk__text_clear(&names);
}

static void say_failure(const stk_error *err, const stk__result *r)
{
    cli_say_error(err, NULL, NULL);
    if (strstr(err->message, "yntax error"))
        cli_say("    the shell cannot read that command: are its quotes balanced?");
    else if (strstr(err->message, "exit code") && !strstr(err->message, ": cannot run '") && err->message[0] != '-')
        cli_say("    --ignore-failure times commands whatever their exit code, --show-output shows what they print");
    else if (strstr(err->message, "longer than"))
        cli_say("    --timeout sets how long a run may take");
    else if (strstr(err->message, "JSON object with a number"))
        say_metrics();
    else if (strstr(err->message, ": Permission denied"))
        cli_say("    a program is a file that may be executed (chmod +x FILE), and no directory");
    if (r->variant_count && r->variants[0].runs)
        cli_say("    rounds before it, which are kept: %zu", r->variants[0].runs);
}

int bench_run(const stk__experiment *e, stk__launcher *l, stk__result *r)
{
    stk_error err = {0};
    stk__text machine = STK__TEXT_INIT;
    stk__machine_describe(&machine);
    r->machine = machine.failed ? NULL : machine.data;
    const stk_status status = stk__experiment_run(e, l, r, &err);
    cli_live_clear();
    if (status == STK_OK)
        return CLI_OK;
    say_failure(&err, r);
    return cli_exit_code(&err);
}
