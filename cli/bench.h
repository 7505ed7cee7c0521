/* What the bench commands share: options, trials from command lines, running, reporting, exit codes. */
#ifndef STK_CLI_BENCH_H
#define STK_CLI_BENCH_H

#include "bench/compare.h"
#include "bench/experiment.h"
#include "bench/interchange.h"
#include "bench/log.h"
#include "bench/suite.h"
#include "cli.h"

/* ---- options ---- */

typedef struct bench_rule_options {
    double confidence, min_effect, margin, fail_over; /* below 0 when not given; confidence always is */
} bench_rule_options;

#define BENCH_RULE_ROWS(T, f)                                                                                        \
    CLI_ROW(T, f.confidence, double, CLI_PERCENT, .name = "confidence", .value = "PERCENT", .min = 50, .max = 100,   \
            .fallback = 95, .group = "Verdict",                                                                      \
            .help = "of intervals; 100 minus it is the risk of a false alarm "                                       \
                    "(default 95%)"),                                                                                \
        CLI_ROW(T, f.min_effect, double, CLI_PERCENT, .name = "min-effect", .value = "PERCENT", .max = 1000,         \
                .fallback = -1, .group = "Verdict", .help = "smaller changes are not called changes (default 2%)"),  \
        CLI_ROW(T, f.margin, double, CLI_PERCENT, .name = "margin", .value = "PERCENT", .max = 1000, .fallback = -1, \
                .group = "Verdict",                                                                                  \
                .help = "equivalent when the whole interval lies within it (default: as --min-effect)"),             \
        CLI_ROW(T, f.fail_over, double, CLI_PERCENT, .name = "fail-over", .value = "PERCENT", .max = 100000,         \
                .fallback = -1, .group = "Verdict",                                                                  \
                .help = "exit code 3 when something is slower by verdict, and by more than this")

typedef struct bench_output_options {
    bool json, quiet;
    const char *svg, *into, *section;
    cli_list exports;
} bench_output_options;

#define BENCH_OUTPUT_ROWS(T, f)                                                                                      \
    CLI_ROW(T, f.json, bool, CLI_FLAG, .name = "json", .group = "Output",                                            \
            .help = "one JSON object with all runs and comparisons, in place of the report"),                        \
        CLI_ROW(T, f.svg, const char *, CLI_TEXT, .name = "svg", .value = "FILE", .complete = CLI_FILES,             \
                .group = "Output", .help = "write a chart"),                                                         \
        CLI_ROW(T, f.exports, cli_list, CLI_LIST, .name = "export", .value = "FORMAT=FILE", .group = "Output",       \
                .help = "write what was measured as one of: " STK__BENCH_WRITTEN_LIST "; may be given again"),       \
        CLI_ROW(T, f.into, const char *, CLI_TEXT, .name = "into", .value = "FILE", .complete = CLI_FILES,           \
                .group = "Output", .help = "write the tables into a Markdown page, between the marks of --section"), \
        CLI_ROW(T, f.section, const char *, CLI_TEXT, .name = "section", .value = "NAME", .group = "Output",         \
                .help = "the marks <!-- NAME --> and <!-- end NAME --> of --into (default: bench)"),                 \
        CLI_ROW(T, f.quiet, bool, CLI_FLAG, .name = "quiet", .letter = 'q', .group = "Output",                       \
                .help = "no progress line")

typedef struct bench_design_options {
    int64_t rounds, warmup, max_rounds, seed, count_runs; /* below 0 when not given */
    double width, quiet_share, cpus;
    uint64_t memory_bytes;
    int64_t timeout_ns;
    const char *setup, *prepare, *conclude, *cleanup, *input, *metric, *unit, *count_with, *keep_output;
    bool higher_is_better, same_output, show_output, ignore_failure, count;
} bench_design_options;

#define BENCH_DESIGN_ROWS(T, f)                                                                                        \
    CLI_ROW(T, f.rounds, int64_t, CLI_INT, .name = "rounds", .letter = 'r', .value = "N", .min = 1, .max = 100000,     \
            .fallback = -1, .group = "Design",                                                                         \
            .help = "every variant runs once in each (default: 12 to 50, as many as fit in about 10 s; 6 are needed "  \
                    "for a verdict)"),                                                                                 \
        CLI_ROW(T, f.width, double, CLI_PERCENT, .name = "width", .value = "PERCENT", .max = 1000, .fallback = -1,     \
                .group = "Design", .help = "go on until every interval is at most this wide, as in 3%"),               \
        CLI_ROW(T, f.max_rounds, int64_t, CLI_INT, .name = "max-rounds", .value = "N", .min = 6, .max = 100000,        \
                .fallback = -1, .group = "Design", .help = "the end of --width (default 200)"),                        \
        CLI_ROW(T, f.warmup, int64_t, CLI_INT, .name = "warmup", .letter = 'w', .value = "N", .min = 0, .max = 100000, \
                .fallback = -1, .group = "Design", .help = "runs of each variant before the first round (default 1)"), \
        CLI_ROW(T, f.seed, int64_t, CLI_INT, .name = "seed", .value = "N", .max = INT64_MAX, .fallback = -1,           \
                .group = "Design", .help = "of the order (default: a new one, which is printed)"),                     \
        CLI_ROW(T, f.setup, const char *, CLI_TEXT, .name = "setup", .letter = 's', .value = "CMD", .group = "Design", \
                .help = "run once for each variant before all runs"),                                                  \
        CLI_ROW(T, f.prepare, const char *, CLI_TEXT, .name = "prepare", .letter = 'p', .value = "CMD",                \
                .group = "Design", .help = "run before each run, untimed: drop a cache, say"),                         \
        CLI_ROW(T, f.conclude, const char *, CLI_TEXT, .name = "conclude", .value = "CMD", .group = "Design",          \
                .help = "run after each run, untimed"),                                                                \
        CLI_ROW(T, f.cleanup, const char *, CLI_TEXT, .name = "cleanup", .letter = 'c', .value = "CMD",                \
                .group = "Design", .help = "run once for each variant after all runs, also when they failed"),         \
        CLI_ROW(T, f.quiet_share, double, CLI_PERCENT, .name = "quiet-machine", .value = "PERCENT", .max = 100,        \
                .fallback = -1, .group = "Design",                                                                     \
                .help = "take a round again when others used more than this share of the CPUs; counted"),              \
        CLI_ROW(T, f.metric, const char *, CLI_TEXT, .name = "metric", .value = "NAME", .group = "Measure",            \
                .help = "what decides: wall, user, system, cpu, rss, minor_faults, major_faults, switches, "           \
                        "preemptions, instructions, or a number of the JSON object that the commands print as their "  \
                        "last line (default wall)"),                                                                   \
        CLI_ROW(T, f.unit, const char *, CLI_TEXT, .name = "unit", .value = "UNIT", .group = "Measure",                \
                .help = "of that number: s, bytes, or any word (default: from its name)"),                             \
        CLI_ROW(T, f.higher_is_better, bool, CLI_FLAG, .name = "higher-is-better", .group = "Measure",                 \
                .help = "that number is a rate (names that end in _per_s are taken as such)"),                         \
        CLI_ROW(T, f.cpus, double, CLI_DOUBLE, .name = "cpus", .value = "N", .max = 4096, .fallback = -1,              \
                .group = "Limits",                                                                                     \
                .help = "cores for each run, as in docker run --cpus; 1.5 needs a cgroup that can be written"),        \
        CLI_ROW(T, f.memory_bytes, uint64_t, CLI_SIZE, .name = "memory", .value = "SIZE", .group = "Limits",           \
                .help = "memory for each run, as in 4G: by a cgroup, else by RLIMIT_AS"),                              \
        CLI_ROW(T, f.timeout_ns, int64_t, CLI_DURATION, .name = "timeout", .value = "TIME", .group = "Limits",         \
                .help = "end a run that takes longer, as in 30s; its round is left out"),                              \
        CLI_ROW(T, f.input, const char *, CLI_TEXT, .name = "input", .value = "FILE", .complete = CLI_FILES,           \
                .group = "Commands", .help = "standard input of the commands (default: nothing)"),                     \
        CLI_ROW(T, f.show_output, bool, CLI_FLAG, .name = "show-output", .group = "Commands",                          \
                .help = "let the commands print (default: what they print is thrown away)"),                           \
        CLI_ROW(T, f.keep_output, const char *, CLI_TEXT, .name = "keep-output", .value = "DIR",                       \
                .complete = CLI_DIRECTORIES, .group = "Commands",                                                      \
                .help = "keep what each run prints in files there: A-0001.out, B-0001.out, ..."),                      \
        CLI_ROW(T, f.same_output, bool, CLI_FLAG, .name = "same-output", .group = "Commands",                          \
                .help = "a variant that prints something else than the first gets no verdict"),                        \
        CLI_ROW(T, f.ignore_failure, bool, CLI_FLAG, .name = "ignore-failure", .letter = 'i', .group = "Commands",     \
                .help = "time commands that end with an exit code other than 0")

#define BENCH_COUNT_ROWS(T, f)                                                                                         \
    CLI_ROW(T, f.count, bool, CLI_FLAG, .name = "count", .group = "Measure",                                           \
            .help = "also count instructions: in hardware in every run, else by valgrind in a few slow runs"),         \
        CLI_ROW(T, f.count_runs, int64_t, CLI_INT, .name = "count-runs", .value = "N", .min = 1, .max = 100000,        \
                .fallback = -1, .group = "Measure",                                                                    \
                .help = "--count with so many of valgrind's runs for each variant (default 3)"),                       \
        CLI_ROW(T, f.count_with, const char *, CLI_TEXT, .name = "count-with", .value = "WHAT", .complete = CLI_WORDS, \
                .words = "hardware valgrind", .group = "Measure",                                                      \
                .help = "--count by this one alone: hardware or valgrind")

/* ---- trials ---- */

typedef struct bench_trials {
    stk__trial *items;
    size_t count, capacity;
    bool pipelines; /* some are pipelines, which tell samples/s and more */
} bench_trials;

/* Where a command is run and what it is called there: the two checkouts of --against. */
typedef struct bench_place {
    const char *directory, *label;
} bench_place;

/*
 * Trials from commands and .stoker files (which become `stoker run FILE --json --quiet`), with every combination of
 * --param, and in every place (may be none). Names: from `names`, else from what tells the commands apart. Returns
 * CLI_OK, or an exit code after saying why.
 */
int bench_trials_make(bench_trials *t, char *const *commands, size_t count, const cli_list *names,
                      const cli_list *params, const bench_design_options *design, const bench_place *places,
                      size_t place_count);
/* One more, with the options of a suite's entry over those of the command line. */
int bench_trials_add(bench_trials *t, const char *name, const char *command, const stk__suite_options *options,
                     const bench_design_options *design);
void bench_trials_clear(bench_trials *t);
/* Is the first command a misspelt subcommand? Then says so. */
int bench_check_subcommand(const cli_arguments *arguments);

/* ---- running ---- */

/* Says what went wrong; returns its exit code. */
int bench_fail(const stk_error *err);

/* The launcher, started while the process is small; interrupts reach it. */
int bench_launcher_open(stk__launcher **out);
void bench_launcher_close(stk__launcher *l);

/* `metric`: its name, or NULL. Counts repeat better than times: smaller changes are told of them. */
stk__rule bench_rule(const bench_rule_options *o, const char *metric);
/* The options of a file where the command line says nothing. */
bench_design_options bench_merge(const bench_design_options *design, const stk__suite_options *file);
bench_rule_options bench_merge_rule(const bench_rule_options *rule, const stk__suite_options *file);
uint64_t bench_seed(const bench_design_options *design);

/* A run's settings from the options; trials stay the caller's. */
stk__experiment bench_experiment(const bench_trials *trials, const bench_design_options *design,
                                 const bench_rule_options *rule, bool quiet);

/* The metrics of an empty result: the measures, those of pipelines, and the one that decides. */
int bench_metrics(stk__result *r, const bench_design_options *design, bool pipelines);

/* Unit and direction are for a metric that the commands print; metric may be NULL. */
int bench_check_metric(const char *metric, const char *unit, bool higher_is_better);

/*
 * Runs it with a progress line. CLI_OK also when it was interrupted (r->interrupted); after a failure the exit code,
 * with what was measured before in `r`.
 */
int bench_run(const stk__experiment *e, stk__launcher *l, stk__result *r);

/* ---- the end ---- */

/* Comparisons of further metrics, for the report: they are shown without a verdict. */
typedef struct bench_others {
    stk__comparisons items[8];
    size_t count;
} bench_others;

stk_status bench_others_make(const stk__result *r, const stk__rule *rule, const stk__compare_pair *pairs, size_t count,
                             bench_others *out, stk_error *err);
void bench_others_clear(bench_others *o);

/* Report or JSON on standard output, charts, exports, pages. Returns `code`, or the code of a failure. */
int bench_finish(const stk__result *r, const stk__comparisons *c, const stk__compare_pair *pairs, size_t pair_count,
                 const bench_output_options *output, int code);
/* The parts of it, for those with reports of their own. */
int bench_write_exports(const stk__result *r, const stk__comparisons *c, const bench_output_options *output);
int bench_write_page(const bench_output_options *output, const char *markdown);
int bench_write_text(const char *path, const stk__text *text);
/* Each line to standard error. */
void bench_say_lines(const stk__text *lines);
/* What can be told before anything runs: formats of --export, and the marks in the page of --into. */
int bench_check_output(const bench_output_options *output, const cli_command *command);
/* CLI_REGRESSION when a regression is past --fail-over, else `code`. */
int bench_gate(const stk__result *r, const stk__comparisons *c, double fail_over, int code);

/* ---- the change log ---- */

/* A row of --log on its way. The names are its own, results and comparisons the caller's. */
typedef struct bench_row {
    stk__log_figure *figures;
    size_t figure_count, figure_capacity;
    stk__log_pair *pairs;
    size_t pair_count, pair_capacity;
    double confidence;
} bench_row;

void bench_row_clear(bench_row *row);
/* One more benchmark, or comparison between two; figure->name does not count. */
int bench_row_figure(bench_row *row, const char *name, size_t name_size, const stk__log_figure *figure);
int bench_row_pair(bench_row *row, const char *name, const stk__comparison *comparison);
/* For before an hour of runs: would the log take it? */
int bench_row_fits(const bench_row *row, const char *path);
/* Adds it and says so. Prints every benchmark against its own past unless that is told already, or JSON is printed. */
int bench_row_append(const bench_row *row, const char *path, const stk__commit *commit, const char *message,
                     bool interrupted, bool told);

/* --ladder and --suite. */
typedef struct bench_context {
    const bench_design_options *design;
    const bench_rule_options *rule;
    const bench_output_options *output;
    stk__launcher *launcher;
    const bench_place *places; /* a suite's: both checkouts of --against, the older one first */
    size_t place_count;
    const stk__commit *commit; /* that its row is about; NULL: the one at hand */
    const char *log, *message; /* a suite's: --log and --message */
} bench_context;
/* Reads the file of either; `ladder` tells which it must be. */
int bench_suite_read(const char *path, bool ladder, stk__suite *out);
int bench_ladder(const bench_context *x, const char *path);
int bench_suite(const bench_context *x, const char *path);

/* The format of that name, for reading or writing; false after saying that there is none. */
bool bench_format(const cli_command *command, const char *option, const char *name, bool write, stk__bench_format *out);

/* --commits; texts may be NULL. */
typedef struct bench_commits_options {
    const char *range, *build, *log, *suite;
    bool rebuild;
    int64_t every;
    const cli_list *names, *params;
    const cli_arguments *arguments; /* commands; none with a suite */
} bench_commits_options;
int bench_commits(const bench_context *x, const bench_commits_options *o);

/* Reads a result of any format, gzip undone. */
int bench_read(const char *path, const char *format, stk__result *out);

/* Columns of the terminal for charts, and whether blocks can be drawn on it. */
size_t bench_columns(void);
bool bench_unicode(void);

/* Where the calibration of this machine is kept; NULL: nowhere. Freed by stk__free. */
char *bench_calibration_path(void);

#endif
