/* stoker bench: commands and pipelines compared in turns, with an honest verdict. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "bench.h"
#include "bench/calibrate.h"
#include "bench/git.h"
#include "bench/log.h"

#include "base/banned.h"

typedef struct bench_options {
    bench_design_options design;
    bench_rule_options rule;
    bench_output_options output;
    cli_list names, params;
    const char *against, *candidate, *build, *ladder, *suite, *log, *message, *commits;
    bool rebuild;
    int64_t every;
} bench_options;

/* One comparison on its way. */
typedef struct session {
    const bench_options *o;
    stk__launcher *launcher;
    stk__checkouts checkouts;
    stk__commit commit;
    bench_trials trials;
    stk__result result;
    stk__comparisons comparisons;
    stk__compare_pair *pairs;
    size_t pair_count;
} session;

/* ---- what to run ---- */

static int check_out(session *s)
{
    stk_error err = {0};
    const bench_options *o = s->o;
    if (!o->output.quiet)
        cli_live("bench: checking out both commits");
    if (stk__git_checkouts(s->launcher, o->against, o->candidate, &s->checkouts, &err) != STK_OK)
        return bench_fail(&err);
    if (!o->output.quiet)
        cli_live("bench: building both commits");
    if (o->build && stk__git_build(s->launcher, &s->checkouts, o->build, 0, &err) != STK_OK)
        return bench_fail(&err);
    cli_live_clear();
    return CLI_OK;
}

/* "1a2b3c4", and "1a2b3c4+" with changes that are not committed. */
static void label_commit(const stk__commit *c, char out[24])
{
    stk__text t;
    stk__text_fixed(&t, out, 24);
    stk__text_printf(&t, "%s%s", c->brief, c->dirty ? "+" : "");
}

/* Both commits of --against with their labels; none without it. */
typedef struct both_places {
    char labels[2][24];
    bench_place items[2];
    size_t count;
} both_places;

static int make_places(session *s, both_places *out)
{
    const bench_options *o = s->o;
    out->count = 0;
    if (!o->against)
        return CLI_OK;
    const int code = check_out(s);
    if (code != CLI_OK)
        return code;
    for (size_t i = 0; i < 2; i++) {
        label_commit(&s->checkouts.commits[i], out->labels[i]);
        out->items[i] = (bench_place){s->checkouts.directories[i], out->labels[i]};
    }
    if (strcmp(out->labels[0], out->labels[1]) == 0)
        return cli_usage_error(&cli_command_bench, "--against %s is the commit %s itself: there is nothing to compare",
                               o->against, out->labels[0]);
    out->count = 2;
    return CLI_OK;
}

static int make_trials(session *s, const cli_arguments *arguments)
{
    const bench_options *o = s->o;
    both_places places;
    const int placed = make_places(s, &places);
    if (placed != CLI_OK)
        return placed;
    const int code = bench_trials_make(&s->trials, arguments->items, arguments->count, &o->names, &o->params,
                                       &o->design, places.items, places.count);
    if (code == CLI_OK && o->against && s->trials.pipelines)
        cli_say(
            "stoker: both commits' pipeline files are run by this build of Stoker; give a command to compare builds");
    return code;
}

/* The file is read once more by the suite itself: what is wrong with it is told before anything is built. */
static int run_suite(session *s)
{
    const bench_options *o = s->o;
    stk__suite suite = {0};
    both_places places;
    int code = bench_suite_read(o->suite, false, &suite);
    stk__suite_clear(&suite);
    if (code == CLI_OK)
        code = make_places(s, &places);
    if (code != CLI_OK)
        return code;
    const bench_context x = {.design = &o->design,
                             .rule = &o->rule,
                             .output = &o->output,
                             .launcher = s->launcher,
                             .places = places.items,
                             .place_count = places.count,
                             .commit = places.count ? &s->checkouts.commits[1] : NULL,
                             .log = o->log,
                             .message = o->message};
    return bench_suite(&x, o->suite);
}

/* ---- running ---- */

/* Pairs are needed before the first run, for --width: they follow from the groups. */
static int plan_pairs(session *s)
{
    s->pairs = stk__calloc(s->trials.count ? s->trials.count : 1, sizeof *s->pairs);
    if (!s->pairs) {
        cli_say("stoker: out of memory");
        return CLI_FAILED;
    }
    for (size_t b = 0; b < s->trials.count; b++) {
        size_t a = 0;
        while (s->trials.items[a].group != s->trials.items[b].group)
            a++;
        if (a < b)
            s->pairs[s->pair_count++] = (stk__compare_pair){a, b};
    }
    return CLI_OK;
}

static int run_trials(session *s)
{
    const bench_options *o = s->o;
    const bench_design_options *d = &o->design;
    stk__experiment e = bench_experiment(&s->trials, d, &o->rule, o->output.quiet);
    e.pairs = s->pairs;
    e.pair_count = s->pair_count;
    int code = bench_metrics(&s->result, d, s->trials.pipelines);
    return code == CLI_OK ? bench_run(&e, s->launcher, &s->result) : code;
}

static bool any_rounds(const session *s)
{
    return s->result.variant_count && s->result.variants[0].runs;
}

/* Gates and small samples: what a reader would otherwise trust too much. */
static void add_notes(session *s)
{
    const size_t n = s->result.variants[0].runs;
    const double fail_over = s->o->rule.fail_over;
    for (size_t i = 0; i < s->comparisons.count && fail_over > 0; i++) {
        const stk__comparison *c = &s->comparisons.items[i];
        if (!c->valid || !(c->noise > 0) || stk__verdict_worse(c->verdict))
            continue;
        const double seen = expm1(stk__detectable(c->noise, n, stk__rule_confidence(&s->comparisons.rule, 1), 0.8));
        if (isfinite(seen) && seen > fail_over) {
            stk__result_note(
                &s->result, NULL,
                "with this noise %zu rounds find changes from about %.*f %% on; --fail-over %.4g%% asks for "
                "more than that",
                n, seen < 0.1 ? 1 : 0, 100 * seen, 100 * fail_over);
            return;
        }
    }
}

/* ---- the log ---- */

/* With --against the column is the command, without the commit behind it. */
static size_t column_size(const char *name, bool against)
{
    const char *end = NULL;
    for (const char *at = name; against && (at = strstr(at, " @ ")); at++)
        end = at;
    return end ? (size_t)(end - name) : strlen(name);
}

/* "stored/lazy" */
static int add_pair(const stk__result *r, const stk__compare_pair *pair, const stk__comparison *c, bench_row *row)
{
    stk__text name = STK__TEXT_INIT;
    stk__text_printf(&name, "%s/%s", r->variants[pair->b].name, r->variants[pair->a].name);
    const int code = name.failed ? CLI_FAILED : bench_row_pair(row, name.data, c);
    stk__text_clear(&name);
    return code;
}

/*
 * The row of a result, which may have no runs yet. Commits are the past of their commands; variants of one commit are
 * columns side by side, with the ratios that the run is about.
 */
static int make_row(const session *s, const stk__result *r, const char *against, bench_row *row)
{
    int code = CLI_OK;
    row->confidence = s->o->rule.confidence;
    for (size_t i = 0; i < r->variant_count && !s->o->against && code == CLI_OK; i++) {
        const char *name = r->variants[i].name;
        code = bench_row_figure(row, name, strlen(name), &(stk__log_figure){.result = r, .variant = i});
    }
    for (size_t i = 0; i < s->pair_count && code == CLI_OK; i++) {
        const stk__compare_pair *pair = &s->pairs[i];
        const stk__comparison *c = s->comparisons.count ? &s->comparisons.items[i] : NULL;
        const char *name = r->variants[pair->b].name;
        const stk__log_figure f = {.result = r, .variant = pair->b, .past = c, .against = against};
        code = s->o->against ? bench_row_figure(row, name, column_size(name, true), &f) : add_pair(r, pair, c, row);
    }
    return code;
}

static int append_log(session *s)
{
    stk_error err = {0};
    const bench_options *o = s->o;
    stk__commit here = s->checkouts.commits[1];
    char against[24];
    bench_row row = {0};
    if (!o->log)
        return CLI_OK;
    if (!o->against && stk__git_here(s->launcher, NULL, &here, &err) != STK_OK)
        return bench_fail(&err);
    label_commit(&s->checkouts.commits[0], against);
    int code = make_row(s, &s->result, against, &row);
    if (code == CLI_OK)
        code = bench_row_append(&row, o->log, &here, o->message, s->result.interrupted, o->output.json || o->against);
    bench_row_clear(&row);
    return code;
}

static int finish(session *s, int code)
{
    stk_error err = {0};
    const bench_options *o = s->o;
    const stk__rule rule = bench_rule(&o->rule, o->design.metric);
    if (stk__compare(&s->result, &rule, s->pairs, s->pair_count, s->result.primary, &s->comparisons, &err) != STK_OK)
        return bench_fail(&err);
    add_notes(s);
    /* A run that failed half-way is no measurement of this commit; a chart that could not be written is no such failure. */
    const bool whole = code == CLI_OK;
    code = bench_finish(&s->result, &s->comparisons, s->pairs, s->pair_count, &o->output, code);
    if (whole) {
        const int logged = append_log(s);
        code = code == CLI_OK ? logged : code;
    }
    if (s->result.interrupted)
        return CLI_INTERRUPTED;
    return bench_gate(&s->result, &s->comparisons, o->rule.fail_over, code);
}

/* A log that cannot take the row is told before an hour of runs, not after. */
static int check_log(const session *s)
{
    const bench_options *o = s->o;
    const bench_design_options *d = &o->design;
    stk__result r = {0};
    bench_row row = {0};
    stk_error err = {0};
    if (!o->log)
        return CLI_OK;
    int code = bench_metrics(&r, d, s->trials.pipelines);
    stk_status status = STK_OK;
    for (size_t i = 0; code == CLI_OK && status == STK_OK && i < s->trials.count; i++)
        status = stk__result_add_variant(&r, s->trials.items[i].name, "", s->trials.items[i].group, NULL, &err);
    if (status != STK_OK)
        code = bench_fail(&err);
    if (code == CLI_OK)
        code = make_row(s, &r, NULL, &row);
    if (code == CLI_OK)
        code = bench_row_fits(&row, o->log);
    bench_row_clear(&row);
    stk__result_clear(&r);
    return code;
}

static int run_session(session *s, const cli_arguments *arguments)
{
    int code = make_trials(s, arguments);
    if (code == CLI_OK)
        code = plan_pairs(s);
    if (code == CLI_OK)
        code = check_log(s);
    if (code == CLI_OK)
        code = run_trials(s);
    if (any_rounds(s))
        return finish(s, code);
    if (code == CLI_OK && s->result.interrupted) {
        cli_say("stoker: interrupted before the first round was complete: nothing to report");
        return CLI_INTERRUPTED;
    }
    return code;
}

/* Before an hour of runs, from what 'bench calibrate' found on this machine: a gate may ask for too much. */
static void warn_about_gate(const bench_options *o)
{
    stk__calibration c;
    const bool wall = !o->design.metric || strcmp(o->design.metric, "wall") == 0; /* which is what it measured */
    char *path = wall && o->rule.fail_over > 0 && o->design.rounds > 0 ? bench_calibration_path() : NULL;
    if (path && stk__calibration_load(path, &c, NULL) == STK_OK) {
        const stk__rule rule = {.confidence = o->rule.confidence};
        const double confidence = stk__rule_confidence(&rule, 1);
        const double seen = expm1(stk__detectable(c.noise, (size_t)o->design.rounds, confidence, 0.8));
        if (isfinite(seen) && seen > o->rule.fail_over)
            cli_say("stoker: by its calibration this machine finds changes from about %.*f %% on in %lld rounds; "
                    "--fail-over %.4g%% asks for more",
                    seen < 0.1 ? 1 : 0, 100 * seen, (long long)o->design.rounds, 100 * o->rule.fail_over);
    }
    stk__free(path);
}

/* ---- options that do not fit together ---- */

static int check_message(const bench_options *o)
{
    int64_t number;
    if (!o->message || o->log)
        return CLI_OK;
    return cli_usage_error(&cli_command_bench, "--message is for --log%s",
                           stk__parse_int64(o->message, &number) ? "; the number of rounds is --rounds" : "");
}

static int check_commits(const bench_options *o)
{
    const cli_command *me = &cli_command_bench;
    if (!o->commits && (o->rebuild || o->every > 0))
        return cli_usage_error(me, "--%s is for --commits", o->rebuild ? "rebuild" : "every");
    if (!o->commits && !o->against && (o->build || o->candidate))
        return cli_usage_error(me, "--%s is for --against%s", o->build ? "build" : "candidate",
                               o->build ? " and --commits" : "");
    if (!o->commits)
        return CLI_OK;
    if (o->against || o->candidate || o->ladder)
        return cli_usage_error(me, "--commits and --%s are two things; give one of them",
                               o->against     ? "against"
                               : o->candidate ? "candidate"
                                              : "ladder");
    if (o->message)
        return cli_usage_error(me, "--message is for one commit; rows of --commits have the subjects of theirs");
    if (o->design.keep_output)
        return cli_usage_error(me, "--keep-output is for one comparison, --commits makes many");
    return CLI_OK;
}

static int check(const bench_options *o, const cli_arguments *arguments)
{
    const cli_command *me = &cli_command_bench;
    const char *file = o->ladder ? "--ladder" : o->suite ? "--suite" : NULL;
    const int commits = check_commits(o);
    if (commits != CLI_OK)
        return commits;
    if (o->ladder && o->suite)
        return cli_usage_error(me, "--ladder and --suite are two things; give one of them");
    if (file && (arguments->count || o->params.count || o->names.count))
        return cli_usage_error(me, "%s takes its commands from the file: none here, and no --param or --name", file);
    if (o->ladder && (o->against || o->log))
        return cli_usage_error(me, "--ladder compares its steps: no --against and no --log");
    if (o->suite && !o->commits && o->output.svg)
        return cli_usage_error(me, "--suite makes a table: no --svg; 'bench history --svg' draws its --log");
    if (!file && !arguments->count)
        return cli_usage_error(me, "no command to measure; try: stoker bench 'COMMAND A' 'COMMAND B'");
    for (size_t i = 0; i < arguments->count; i++) {
        if (!arguments->items[i][strspn(arguments->items[i], " \t\n")])
            return cli_usage_error(me, "command %zu is empty", i + 1);
    }
    int code = check_message(o);
    if (code == CLI_OK)
        code = file ? CLI_OK : bench_check_subcommand(arguments);
    if (code == CLI_OK && !file)
        code = bench_check_metric(o->design.metric, o->design.unit, o->design.higher_is_better);
    if (code != CLI_OK)
        return code;
    if (o->design.rounds > 0 && o->design.width > 0)
        return cli_usage_error(me, "--rounds fixes the number, --width leaves it open; give one of them");
    if (!file && o->design.max_rounds > 0 && !(o->design.width > 0))
        return cli_usage_error(me, "--max-rounds is the end of --width");
    if (o->design.keep_output && o->suite)
        return cli_usage_error(me, "--keep-output is for one comparison, --suite makes many");
    if (o->design.keep_output && o->design.show_output)
        return cli_usage_error(me, "--keep-output takes what --show-output lets through; give one of them");
    if (o->design.same_output && o->design.show_output)
        return cli_usage_error(me, "--same-output must keep what --show-output lets through; give one of them");
    if (o->design.show_output && o->design.metric && stk__measure_find(o->design.metric) == STK__NAMED_MEASURES)
        return cli_usage_error(me, "--metric %s must keep what --show-output lets through; give one of them",
                               o->design.metric);
    if (o->design.count_with && strcmp(o->design.count_with, "hardware") != 0 &&
        strcmp(o->design.count_with, "valgrind") != 0)
        return cli_usage_error(me, "--count-with wants hardware or valgrind, found '%s'", o->design.count_with);
    if (o->design.width > 0 && o->design.metric &&
        strcmp(o->design.metric, stk__measure_metric(STK__INSTRUCTIONS).name) == 0)
        return cli_usage_error(me, "--width is for times; counts of instructions repeat, and --count-runs says how "
                                   "often they are taken");
    if (o->rule.confidence >= 1)
        return cli_usage_error(me, "--confidence wants less than 100%%");
    if (o->design.cpus == 0)
        return cli_usage_error(me, "--cpus wants more than 0, as in 1 or 0.5");
    return bench_check_output(&o->output, me);
}

static int make_directory(const char *path)
{
    stk_error err = {0};
    stk__text inside = STK__TEXT_INIT;
    stk__text_printf(&inside, "%s/A-0001.out", path);
    const stk_status status = inside.failed ? stk__nomem(strlen(path), &err) : stk__make_parents(inside.data, &err);
    stk__text_clear(&inside);
    return status == STK_OK ? CLI_OK : bench_fail(&err);
}

static int bench_command_run(const void *options, const cli_arguments *arguments)
{
    const bench_options *o = options;
    session s = {.o = o};
    int code = check(o, arguments);
    if (code == CLI_OK)
        code = bench_launcher_open(&s.launcher);
    if (code != CLI_OK)
        return code;
    if (o->design.keep_output)
        code = make_directory(o->design.keep_output);
    warn_about_gate(o);
    const bench_context x = {.design = &o->design, .rule = &o->rule, .output = &o->output, .launcher = s.launcher};
    const bench_commits_options commits = {.range = o->commits,
                                           .build = o->build,
                                           .log = o->log,
                                           .suite = o->suite,
                                           .rebuild = o->rebuild,
                                           .every = o->every,
                                           .names = &o->names,
                                           .params = &o->params,
                                           .arguments = arguments};
    if (code == CLI_OK)
        code = o->commits  ? bench_commits(&x, &commits)
               : o->ladder ? bench_ladder(&x, o->ladder)
               : o->suite  ? run_suite(&s)
                           : run_session(&s, arguments);
    stk__checkouts_clear(&s.checkouts);
    bench_trials_clear(&s.trials);
    stk__comparisons_clear(&s.comparisons);
    stk__result_clear(&s.result);
    stk__free(s.pairs);
    bench_launcher_close(s.launcher);
    return code;
}

static const cli_option bench_options_table[] = {
    CLI_ROW(bench_options, names, cli_list, CLI_LIST, .name = "name", .letter = 'n', .value = "NAME",
            .group = "Commands", .help = "of a command, in order; may be given again (default: where they differ)"),
    CLI_ROW(
        bench_options, params, cli_list, CLI_LIST, .name = "param", .letter = 'P', .value = "NAME=VALUES",
        .group = "Commands",
        .help =
            "put each value in the place of {NAME}, as in n=1,2,8 or n=1..8 or n=0.5:2:0.5 (START:STOP:STEP); may be given "
            "again for combinations"),
    CLI_ROW(bench_options, against, const char *, CLI_TEXT, .name = "against", .value = "REV", .group = "Commits",
            .help = "check out that commit and this one side by side, and compare the command in both"),
    CLI_ROW(bench_options, commits, const char *, CLI_TEXT, .name = "commits", .value = "A..B", .group = "Commits",
            .help = "compare each commit of the range with the one before it, in the same rounds; A is the baseline; "
                    "with a command or --suite"),
    CLI_ROW(bench_options, build, const char *, CLI_TEXT, .name = "build", .value = "CMD", .group = "Commits",
            .help = "run in each checkout first, as in 'make'; of --commits, once for each commit: builds are kept"),
    CLI_ROW(bench_options, rebuild, bool, CLI_FLAG, .name = "rebuild", .group = "Commits",
            .help = "build commits again that --commits has built before"),
    CLI_ROW(bench_options, every, int64_t, CLI_INT, .name = "every", .value = "N", .min = 1, .max = 1000,
            .fallback = -1, .group = "Commits", .help = "of --commits only each N-th, counted from the newest"),
    CLI_ROW(bench_options, candidate, const char *, CLI_TEXT, .name = "candidate", .value = "REV", .group = "Commits",
            .help = "in place of this commit (default: HEAD with the changes to tracked files)"),
    CLI_ROW(bench_options, ladder, const char *, CLI_TEXT, .name = "ladder", .value = "FILE", .complete = CLI_FILES,
            .group = "Files",
            .help = "steps of an optimisation from a TOML file: each over the one before, and in all"),
    CLI_ROW(bench_options, suite, const char *, CLI_TEXT, .name = "suite", .value = "FILE", .complete = CLI_FILES,
            .group = "Files", .help = "benchmarks, comparisons and limits from a TOML file, as one table"),
    CLI_ROW(bench_options, log, const char *, CLI_TEXT, .name = "log", .value = "FILE", .complete = CLI_FILES,
            .group = "Log", .help = "add a row to this Markdown table (PERF.md), and to the CSV file beside it"),
    CLI_ROW(bench_options, message, const char *, CLI_TEXT, .name = "message", .letter = 'm', .value = "TEXT",
            .group = "Log", .help = "what changed (default: the subject of the commit)"),
    BENCH_DESIGN_ROWS(bench_options, design),
    BENCH_COUNT_ROWS(bench_options, design),
    BENCH_RULE_ROWS(bench_options, rule),
    BENCH_OUTPUT_ROWS(bench_options, output),
    CLI_OPTION_END,
};

/* What hyperfine and others call it: lines are pasted from there. */
static const cli_meaning bench_elsewhere[] = {
    {"-L", "-P NAME=VALUE,VALUE"},
    {"--parameter-list", "-P NAME=VALUE,VALUE"},
    {"--parameter-scan", "-P NAME=START..STOP"},
    {"-D", "-P NAME=START:STOP:STEP"},
    {"--parameter-step-size", "-P NAME=START:STOP:STEP"},
    {"--runs", "--rounds"},
    {"--min-runs", "--rounds, or --width"},
    {"--max-runs", "--rounds, or --max-rounds with --width"},
    {"-M", "--rounds, or --max-rounds with --width"},
    {"--command-name", "--name"},
    {"--export-json", "--export hyperfine=FILE, or --export stoker=FILE"},
    {"--export-csv", "--export csv=FILE"},
    {"--export-markdown", "--export markdown=FILE"},
    {"-C", "--conclude"},
    {"--metrics", "--metric, of one; the others are in the report"},
    {"--reference", "the first command is what the others are compared with"},
    {"--output", "--show-output, or --keep-output DIR"},
    {"-N", "not needed: a shell runs only the commands that need one"},
    {"-S", "not needed: sh runs the commands that need a shell; for another, 'bash -c \"...\"'"},
    {"--shell", "not needed: sh runs the commands that need a shell; for another, 'bash -c \"...\"'"},
    {"--time-unit", "not needed: the unit follows the figures"},
    {"-u", "not needed: the unit follows the figures"},
    {NULL, NULL},
};

static const cli_example bench_examples[] = {
    {"which is faster?", "stoker bench 'python train.py --lazy' 'python train.py --stored'"},
    {"two pipelines, on one core with 4 GB", "stoker bench --cpus 1 --memory 4G lazy.stoker stored.stoker"},
    {"what did my change do? (the tree as it is against the last commit)",
     "stoker bench --against HEAD --build make build/app"},
    {"which commit made it slower? (with a log it goes on where it was)",
     "stoker bench --commits v1.2..main --build make --log PERF.md build/app"},
    {"keep a log by commit", "stoker bench --suite perf.toml --log PERF.md -m 'fused normalise'"},
    {"the same, with each benchmark against the last commit in the same rounds",
     "stoker bench --suite perf.toml --against HEAD~1 --build make --log PERF.md"},
    {"how does it scale?", "stoker bench -P threads=1,2,4 'cifar.stoker --threads {threads}'"},
    {"in CI: exit code 3 when it is more than 5 % slower", "stoker bench --fail-over 5% ./old ./new"},
    {"until the interval is at most 3 % wide", "stoker bench --width 3% ./old ./new"},
    {NULL, NULL},
};

const cli_command cli_command_bench = {
    .name = "bench",
    .summary = "compare commands and pipelines in turns, with a verdict",
    .usage =
        "[OPTION]... COMMAND|FILE.stoker [COMMAND|FILE.stoker]...\n--against REV [--build CMD] COMMAND...\n"
        "--commits A..B [--build CMD] [--log FILE.md] COMMAND...\n--ladder FILE\n"
        "--suite FILE [--against REV [--build CMD]] [--log FILE.md]",
    .about =
        "Runs every variant once in each round, in random order, and compares round by round: drift and "
        "noise of the machine hit all of them alike. Commands that run one after the other look different when they are not.\n"
        "The verdict is faster, slower, slower in a part of the runs, equivalent within the margin, or inconclusive with how many rounds more would tell. "
        "It rests on the ratio of each round: by ranks, with the interval that goes with Wilcoxon's test, and by the means for what a median does not see.\n"
        "Each argument is a command, run by a shell only if it needs one, or a pipeline file with options for 'stoker run'.\n"
        "Subcommands: 'stoker bench calibrate' measures what this machine can tell apart, 'history' draws a log, 'compare' "
        "reads results of other tools, 'convert' rewrites them.",
    .options = bench_options_table,
    .examples = bench_examples,
    .elsewhere = bench_elsewhere,
    .complete = CLI_FILES,
    .options_size = sizeof(bench_options),
    .max_arguments = 1000,
    .run = bench_command_run,
};
