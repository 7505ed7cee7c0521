/* stoker bench calibrate: a command against itself and against slower ones, to learn what this machine can tell apart. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "bench.h"
#include "bench/calibrate.h"
#include "bench/hyperfine.h"
#include "bench/luck_report.h"
#include "bench/luck_run.h"
#include "bench/machine.h"

#include "base/banned.h"

typedef struct calibrate_options {
    bench_design_options design;
    cli_list slower;
    int64_t time_ns;
    const char *svg;
    bool hyperfine, json, quiet;
} calibrate_options;

#define CONFIDENCE 0.95

enum { DEFAULT_TIME_S = 120, BUILT_IN_COUNT = 10000 };

/* Work that B has more, where nobody says otherwise. */
static const double more_work[] = {0.05, 0.1};

/* About 5 ms of a shell that counts: short, so that many fit in, and busy, so that it feels its neighbours. */
static char *built_in_command(double more)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_printf(&t, "i=0; while [ $i -lt %.0f ]; do i=$((i+1)); done", (1 + more) * BUILT_IN_COUNT);
    if (!t.failed)
        return t.data;
    stk__text_clear(&t);
    return NULL;
}

char *bench_calibration_path(void)
{
    char machine[9];
    stk__text t = STK__TEXT_INIT;
    char *cache = cli_cache_dir();
    if (!cache)
        return NULL;
    stk__machine_fingerprint(machine);
    stk__text_printf(&t, "%s/bench-%s.json", cache, machine);
    stk__free(cache);
    if (!t.failed)
        return t.data;
    stk__text_clear(&t);
    return NULL;
}

static void save(const stk__calibration *c)
{
    stk_error err = {0};
    char *path = bench_calibration_path();
    if (!path)
        return;
    if (stk__make_parents(path, &err) != STK_OK || stk__calibration_save(c, path, &err) != STK_OK)
        cli_say_error(&err, NULL, NULL);
    else
        cli_say("stoker: kept in %s", path);
    stk__free(path);
}

/* ---- the commands ---- */

/* A, and what it is compared with: in `commands` what runs, in `l` what is known of it. */
typedef struct contest {
    char *commands[STK__LUCK_EFFECTS];
    const char *names[STK__LUCK_EFFECTS];
    size_t count;
    stk__luck luck;
} contest;

static void contest_clear(contest *x)
{
    for (size_t i = 0; i < x->count; i++)
        stk__free(x->commands[i]);
    stk__luck_clear(&x->luck);
}

/* Takes over `command`. */
static stk_status enter(contest *x, char *command, double more, stk_error *err)
{
    static const char *const names[STK__LUCK_EFFECTS] = {"A", "B1", "B2", "B3", "B4", "B5", "B6", "B7"};
    if (!command)
        return stk__nomem(sizeof(contest), err);
    const stk_status status = stk__luck_add_effect(&x->luck, more, false, err);
    if (status != STK_OK) {
        stk__free(command);
        return status;
    }
    x->names[x->count] = names[x->count];
    x->commands[x->count++] = command;
    return STK_OK;
}

/* The built-in work and more of it; or a command against those of --slower; or against itself, counted longer. */
static stk_status make_contest(const calibrate_options *o, const cli_arguments *arguments, contest *x, stk_error *err)
{
    const bool built_in = arguments->count == 0;
    STK_TRY(enter(x, built_in ? built_in_command(0) : stk__strdup(arguments->items[0]), 0, err));
    for (size_t i = 0; i < o->slower.count; i++)
        STK_TRY(enter(x, stk__strdup(o->slower.items[i]), NAN, err));
    for (size_t i = 0; i < STK_COUNT(more_work) && !o->slower.count; i++) {
        if (built_in)
            STK_TRY(enter(x, built_in_command(more_work[i]), more_work[i], err));
        else
            STK_TRY(stk__luck_add_effect(&x->luck, more_work[i], true, err));
    }
    return STK_OK;
}

/* ---- running ---- */

static void show_progress(void *context, const stk__luck_progress *p)
{
    stk__text t = STK__TEXT_INIT;
    (void)context;
    stk__text_printf(&t, "calibrate: %s, ", p->what ? p->what : "warm-up");
    cli_text_count(&t, (int64_t)p->runs);
    stk__text_puts(&t, " runs");
    if (isfinite(p->left_s))
        stk__text_printf(&t, ", about %.0f s left; Ctrl-C ends it", ceil(p->left_s));
    if (!t.failed)
        cli_live(t.data);
    stk__text_clear(&t);
}

static int run_all(const calibrate_options *o, bench_trials *trials, stk__launcher *l, stk__result *r, stk__luck *luck)
{
    stk_error err = {0};
    stk__text machine = STK__TEXT_INIT;
    const bench_rule_options rule = {.confidence = CONFIDENCE, .min_effect = -1, .margin = -1, .fail_over = -1};
    const stk__experiment e = bench_experiment(trials, &o->design, &rule, true);
    const stk__luck_plan plan = {.e = &e,
                                 .time_s = o->time_ns ? (double)o->time_ns / 1e9 : DEFAULT_TIME_S,
                                 .rounds = o->design.rounds < 0 ? 0 : (size_t)o->design.rounds,
                                 .hyperfine = o->hyperfine ? "hyperfine" : NULL,
                                 .progress = o->quiet ? NULL : show_progress};
    stk__machine_describe(&machine);
    r->machine = machine.failed ? NULL : machine.data;
    const stk_status status = stk__luck_run(&plan, l, r, luck, &err);
    cli_live_clear();
    return status == STK_OK ? CLI_OK : bench_fail(&err);
}

static int measure(const calibrate_options *o, contest *x, stk__launcher *l, stk__result *r)
{
    const cli_list names = {.items = x->names, .count = x->count}, none = {0};
    bench_trials trials = {0};
    int code = bench_trials_make(&trials, x->commands, x->count, &names, &none, &o->design, NULL, 0);
    if (code == CLI_OK)
        code = bench_metrics(r, &o->design, false);
    if (code == CLI_OK)
        code = run_all(o, &trials, l, r, &x->luck);
    bench_trials_clear(&trials);
    return code;
}

/* ---- the end ---- */

static int write_picture(const char *path, const stk__luck_story *story)
{
    stk__text t = STK__TEXT_INIT;
    stk_error err = {0};
    int code = CLI_OK;
    if (stk__chart_luck(story, "Is it faster, or was that luck?", &t, &err) != STK_OK)
        code = bench_fail(&err);
    else
        code = bench_write_text(path, &t);
    stk__text_clear(&t);
    return code;
}

static int report(const calibrate_options *o, const stk__luck_story *story)
{
    stk__text t = STK__TEXT_INIT;
    if (o->json)
        stk__luck_json(story, &t);
    else
        stk__luck_text(story, &t);
    cli_out_text(&t);
    return o->svg ? write_picture(o->svg, story) : CLI_OK;
}

/* Also of what ran before a failure or an interrupt, when there is enough of it. */
static int evaluate(const calibrate_options *o, contest *x, const stk__result *r, const char *version, double took_s,
                    int code)
{
    stk_error err = {0};
    stk__calibration c = {0};
    if (stk__luck_rounds(&x->luck) < STK__LEAST_ROUNDS && code != CLI_OK)
        return code;
    if (stk__luck_rounds(&x->luck) < STK__LEAST_ROUNDS) {
        cli_say("stoker: %s before the first %d rounds were complete: nothing to report",
                r->interrupted ? "interrupted" : "the time was up", STK__LEAST_ROUNDS);
        return r->interrupted ? CLI_INTERRUPTED : CLI_FAILED;
    }
    if (!o->quiet)
        cli_live("calibrate: judging");
    stk_status status = stk__luck_judge(&x->luck, CONFIDENCE, r->seed, &err);
    cli_live_clear();
    if (status == STK_OK)
        status = stk__calibration_from(&x->luck, CONFIDENCE, &c, &err);
    if (status != STK_OK)
        return bench_fail(&err);
    c.floor_s = r->floor_s;
    c.time_s = r->time_s;
    stk__machine_fingerprint(c.machine);
    const stk__luck_story story = {.l = &x->luck, .c = &c, .r = r, .hyperfine = version, .took_s = took_s};
    const int reported = report(o, &story);
    /* What --fail-over asks later is about wall time. */
    if (r->primary == STK__WALL)
        save(&c);
    return code != CLI_OK ? code : reported != CLI_OK ? reported : r->interrupted ? CLI_INTERRUPTED : CLI_OK;
}

static int calibrate(const calibrate_options *o, contest *x, stk__launcher *l)
{
    stk_error err = {0};
    stk__result r = {0};
    char *version = NULL;
    const int64_t start = stk__now_ns();
    if (o->hyperfine && stk__hyperfine_version(l, "hyperfine", &version, &err) != STK_OK)
        return bench_fail(&err);
    int code = measure(o, x, l, &r);
    code = evaluate(o, x, &r, version, (double)(stk__now_ns() - start) / 1e9, code);
    stk__free(version);
    stk__result_clear(&r);
    return code;
}

/* ---- options ---- */

static int check_options(const calibrate_options *o, const cli_arguments *arguments)
{
    const cli_command *me = &cli_command_bench_calibrate;
    const bool alone = arguments->count && !o->slower.count && !o->hyperfine;
    const int least = alone ? STK__LEAST_ROUNDS : 2 * STK__LEAST_ROUNDS;
    if (o->design.rounds > 0 && o->design.rounds < least)
        return cli_usage_error(me, "--rounds wants at least %d here, found %lld", least, (long long)o->design.rounds);
    if (o->design.rounds > 0 && o->time_ns)
        return cli_usage_error(me, "--rounds and --time do not go together: one of them ends it");
    if (o->slower.count && !arguments->count)
        return cli_usage_error(me, "--slower wants a COMMAND that it is slower than");
    if (o->slower.count >= STK__LUCK_EFFECTS)
        return cli_usage_error(me, "--slower was given %zu times, wanted at most %d", o->slower.count,
                               STK__LUCK_EFFECTS - 1);
    if (o->hyperfine && o->design.metric && strcmp(o->design.metric, "wall") != 0)
        return cli_usage_error(me, "--hyperfine keeps each run's wall time only, found --metric %s", o->design.metric);
    if (o->design.metric && strcmp(o->design.metric, "instructions") == 0)
        return cli_usage_error(
            me, "--metric instructions is not for calibrate: counts repeat, so there is no luck in them");
    if (o->hyperfine && o->design.conclude)
        return cli_usage_error(me, "--hyperfine and --conclude do not go together");
    return CLI_OK;
}

/* Minutes of runs should not end with a picture that cannot be written. */
static int check_picture(const char *path)
{
    stk__new_file f;
    stk_error err = {0};
    if (stk__new_file_open(&f, path, &err) != STK_OK)
        return bench_fail(&err);
    stk__new_file_abort(&f);
    return CLI_OK;
}

static int calibrate_run(const void *options, const cli_arguments *arguments)
{
    const calibrate_options *o = options;
    stk__launcher *l = NULL;
    stk_error err = {0};
    contest x = {0};
    int code = check_options(o, arguments);
    if (code == CLI_OK && o->svg)
        code = check_picture(o->svg);
    if (code != CLI_OK)
        return code;
    code = bench_launcher_open(&l);
    if (code != CLI_OK)
        return code;
    if (make_contest(o, arguments, &x, &err) != STK_OK)
        code = bench_fail(&err);
    else
        code = calibrate(o, &x, l);
    contest_clear(&x);
    bench_launcher_close(l);
    return code;
}

static const cli_option calibrate_options_table[] = {
    CLI_ROW(calibrate_options, time_ns, int64_t, CLI_DURATION, .name = "time", .value = "TIME", .group = "Design",
            .help = "for all of it, as in 10m (default 2m); more time gives more windows"),
    CLI_ROW(calibrate_options, design.rounds, int64_t, CLI_INT, .name = "rounds", .letter = 'r', .value = "N", .min = 1,
            .max = 100000, .fallback = -1, .group = "Design",
            .help = "so many rounds of each part, however long they take, in place of --time"),
    CLI_ROW(calibrate_options, slower, cli_list, CLI_LIST, .name = "slower", .value = "CMD", .group = "Design",
            .help = "a command that is really slower than COMMAND: is it found? May be given again"),
    CLI_ROW(calibrate_options, hyperfine, bool, CLI_FLAG, .name = "hyperfine", .group = "Design",
            .help = "run hyperfine itself as well, and judge the files that it writes"),
    CLI_ROW(calibrate_options, design.warmup, int64_t, CLI_INT, .name = "warmup", .letter = 'w', .value = "N", .min = 0,
            .max = 100000, .fallback = -1, .group = "Design",
            .help = "runs of each command before all others (default 1)"),
    CLI_ROW(calibrate_options, design.seed, int64_t, CLI_INT, .name = "seed", .value = "N", .max = INT64_MAX,
            .fallback = -1, .group = "Design", .help = "of the order of the rounds (default: a new one)"),
    CLI_ROW(calibrate_options, design.setup, const char *, CLI_TEXT, .name = "setup", .letter = 's', .value = "CMD",
            .group = "Design", .help = "run once for each command before all runs"),
    CLI_ROW(calibrate_options, design.prepare, const char *, CLI_TEXT, .name = "prepare", .letter = 'p', .value = "CMD",
            .group = "Design", .help = "run before each run, untimed"),
    CLI_ROW(calibrate_options, design.conclude, const char *, CLI_TEXT, .name = "conclude", .value = "CMD",
            .group = "Design", .help = "run after each run, untimed"),
    CLI_ROW(calibrate_options, design.cleanup, const char *, CLI_TEXT, .name = "cleanup", .letter = 'c', .value = "CMD",
            .group = "Design", .help = "run once for each command after all runs, also when they failed"),
    CLI_ROW(calibrate_options, design.metric, const char *, CLI_TEXT, .name = "metric", .value = "NAME",
            .group = "Measure",
            .help = "what is compared: wall, user, system, cpu, or a number of the JSON object that "
                    "the commands print as their last line (default wall)"),
    CLI_ROW(calibrate_options, design.cpus, double, CLI_DOUBLE, .name = "cpus", .value = "N", .max = 4096,
            .group = "Limits", .help = "cores for each run, as in docker run --cpus"),
    CLI_ROW(calibrate_options, design.memory_bytes, uint64_t, CLI_SIZE, .name = "memory", .value = "SIZE",
            .group = "Limits", .help = "memory for each run, as in 4G"),
    CLI_ROW(calibrate_options, design.timeout_ns, int64_t, CLI_DURATION, .name = "timeout", .value = "TIME",
            .group = "Limits", .help = "a run that takes longer has failed, as in 30s"),
    CLI_ROW(calibrate_options, design.input, const char *, CLI_TEXT, .name = "input", .value = "FILE",
            .complete = CLI_FILES, .group = "Commands", .help = "standard input of the commands (default: nothing)"),
    CLI_ROW(calibrate_options, design.ignore_failure, bool, CLI_FLAG, .name = "ignore-failure", .letter = 'i',
            .group = "Commands", .help = "time commands that end with an exit code other than 0"),
    CLI_ROW(calibrate_options, json, bool, CLI_FLAG, .name = "json", .group = "Output", .help = "the figures as JSON"),
    CLI_ROW(calibrate_options, svg, const char *, CLI_TEXT, .name = "svg", .value = "FILE", .complete = CLI_FILES,
            .group = "Output", .help = "draw them: false alarms, and real changes found, by the number of runs"),
    CLI_ROW(calibrate_options, quiet, bool, CLI_FLAG, .name = "quiet", .letter = 'q', .group = "Output",
            .help = "no progress line"),
    CLI_OPTION_END,
};

static const cli_example calibrate_examples[] = {
    {"is it faster, or was that luck? The whole experiment in 2 minutes", "stoker bench calibrate --svg luck.svg"},
    {"better figures, and hyperfine itself as a witness", "stoker bench calibrate --time 10m --hyperfine"},
    {"for a command of one's own, on one core, by its CPU time",
     "stoker bench calibrate --cpus 1 --metric cpu 'python step.py'"},
    {"with one that is known to be slower", "stoker bench calibrate 'gzip -1 <f' --slower 'gzip -3 <f'"},
    {NULL, NULL},
};

const cli_command cli_command_bench_calibrate = {
    .name = "bench calibrate",
    .summary = "what this machine can tell apart: A against A",
    .usage = "[OPTION]... [COMMAND]",
    .about =
        "Runs one command against itself, and against one that is slower: how often is a change called where there is "
        "none, and how often is a real one found? Each is judged in two ways: in turns, by the verdict of 'stoker bench' "
        "without a minimum effect, and in the order in which hyperfine runs (all of one, then all of the other) by "
        "Mann-Whitney's test, by Welch's t-test, and by means that are more than 5 % apart.\n"
        "Of one command every run is the same program, so the same runs serve for both ways. Slower commands are run in "
        "both orders. The built-in command is a short busy loop, and the slower ones are 5 % and 10 % more of it. For a "
        "COMMAND of your own, runs of it stand for a slower one by counting 5 % and 10 % longer, unless --slower names "
        "one.\n"
        "Ctrl-C ends it with the figures so far. What the machine can tell apart is kept in the cache directory.",
    .options = calibrate_options_table,
    .examples = calibrate_examples,
    .options_size = sizeof(calibrate_options),
    .max_arguments = 1,
    .run = calibrate_run,
};
