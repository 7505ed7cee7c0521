/* stoker bench history: a change log as sparklines with change points, a table and a chart. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "bench/chart.h"
#include "bench/git.h"
#include "bench/history.h"
#include "bench/log.h"
#include "bench/log_foreign.h"
#include "bench/words.h"

#include "base/banned.h"

typedef struct history_options {
    const char *svg, *since;
    cli_list benchmarks;
    int64_t last;
    double min_effect, fail_over;
    bool json, higher_is_better;
} history_options;

/* ---- JSON ---- */

static void json_texts(stk__text *t, const char *key, const char *value)
{
    stk__text_printf(t, ",\"%s\":", key);
    if (value)
        stk__text_json_str(t, value);
    else
        stk__text_puts(t, "null");
}

static void json_numbers(stk__text *t, double ratio, double low, double high, double p, bool paired)
{
    const double numbers[] = {ratio, low, high, p};
    static const char *const keys[] = {"ratio", "ci_low", "ci_high", "p"};
    for (size_t i = 0; i < STK_COUNT(numbers); i++) {
        stk__text_printf(t, ",\"%s\":", keys[i]);
        stk__text_json_double(t, numbers[i]);
    }
    stk__text_printf(t, ",\"paired\":%s", !isfinite(ratio) ? "null" : paired ? "true" : "false");
}

static void json_cell(stk__text *t, const stk__log_row *row, size_t i)
{
    const stk__log_cell *cell = &row->cells[i];
    stk__text_puts(t, "{\"mean\":");
    stk__text_json_double(t, cell->mean);
    stk__text_puts(t, ",\"sd\":");
    stk__text_json_double(t, cell->sd);
    stk__text_printf(t, ",\"n\":%zu", cell->n);
    json_texts(t, "limits", stk__log_limits(row, i));
    json_numbers(t, cell->ratio, cell->low, cell->high, cell->p, cell->paired);
    json_texts(t, "verdict", cell->verdict);
    json_texts(t, "against", cell->against);
    stk__text_putc(t, '}');
}

/* Benchmarks and comparisons that the row has. */
static void json_figures(stk__text *t, const stk__history *h, const stk__log_row *row)
{
    const stk__log *log = h->log;
    const char *between = "";
    stk__text_puts(t, ",\"benchmarks\":{");
    for (size_t i = 0; i < h->benchmark_count; i++) {
        const size_t b = h->benchmarks[i];
        if (!row->cells[b].n)
            continue;
        stk__text_puts(t, between);
        stk__text_json_str(t, log->benchmarks[b].name);
        stk__text_putc(t, ':');
        json_cell(t, row, b);
        between = ",";
    }
    stk__text_puts(t, "},\"comparisons\":{");
    between = "";
    for (size_t i = 0; i < log->pair_count; i++) {
        const stk__log_beside *x = &row->beside[i];
        if (!x->verdict)
            continue;
        stk__text_puts(t, between);
        stk__text_json_str(t, log->pairs[i]);
        stk__text_puts(t, ":{\"verdict\":");
        stk__text_json_str(t, x->verdict);
        json_numbers(t, x->ratio, x->low, x->high, x->p, x->paired);
        stk__text_putc(t, '}');
        between = ",";
    }
    stk__text_putc(t, '}');
}

static void json_row(stk__text *t, const stk__history *h, const stk__log_row *row)
{
    stk__text_printf(t, "{\"time\":%lld,\"dirty\":%s", (long long)row->time_s, row->dirty ? "true" : "false");
    json_texts(t, "commit", row->commit);
    json_texts(t, "parent", row->parent);
    json_texts(t, "machine", row->machine);
    json_texts(t, "limits", row->limits);
    json_texts(t, "description", row->description);
    stk__text_puts(t, ",\"confidence\":");
    stk__text_json_double(t, row->confidence);
    json_figures(t, h, row);
    stk__text_putc(t, '}');
}

static void json_benchmark(stk__text *t, const stk__log_benchmark *b)
{
    stk__text_puts(t, "{\"name\":");
    stk__text_json_str(t, b->name);
    json_texts(t, "metric", b->metric);
    json_texts(t, "unit", b->unit);
    stk__text_printf(t, ",\"higher_is_better\":%s}", b->higher_is_better ? "true" : "false");
}

static void json_change(stk__text *t, const stk__log *log, const stk__log_change *c)
{
    const stk__log_row *row = &log->rows[c->row];
    stk__text_puts(t, "{\"benchmark\":");
    stk__text_json_str(t, log->benchmarks[c->benchmark].name);
    json_texts(t, "commit", row->commit);
    json_texts(t, "from_commit", log->rows[c->after].commit);
    json_texts(t, "to_commit", log->rows[c->up_to].commit);
    stk__text_printf(t, ",\"time\":%lld", (long long)row->time_s);
    json_texts(t, "description", row->description);
    json_texts(t, "machine", row->machine);
    json_texts(t, "limits", stk__log_limits(row, c->benchmark));
    const double numbers[] = {c->was, c->is, c->ratio, c->low, c->high, c->p};
    static const char *const keys[] = {"before", "after", "ratio", "low", "high", "p"};
    for (size_t i = 0; i < STK_COUNT(numbers); i++) {
        stk__text_printf(t, ",\"%s\":", keys[i]);
        stk__text_json_double(t, numbers[i]);
    }
    json_texts(t, "direction", stk__change_word(log, c));
    stk__text_printf(t, ",\"worse\":%s,\"newest\":%s}", c->worse ? "true" : "false", c->newest ? "true" : "false");
}

static void print_json(const stk__history *h)
{
    const stk__log *log = h->log;
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, "{\"benchmarks\":[");
    for (size_t i = 0; i < h->benchmark_count; i++) {
        stk__text_puts(&t, i ? "," : "");
        json_benchmark(&t, &log->benchmarks[h->benchmarks[i]]);
    }
    stk__text_puts(&t, "],\"changes\":[");
    for (size_t i = 0; i < h->change_count; i++) {
        stk__text_puts(&t, i ? "," : "");
        json_change(&t, log, &h->changes[i]);
    }
    stk__text_puts(&t, "],\"rows\":[");
    for (size_t i = h->first; i < log->row_count; i++) {
        stk__text_puts(&t, i > h->first ? "," : "");
        json_row(&t, h, &log->rows[i]);
    }
    stk__text_puts(&t, "]}\n");
    cli_out_text(&t);
}

/* ---- which rows ---- */

/* The first row of a commit by the beginning of its hash, or by its whole name; SIZE_MAX: none. */
static size_t row_of_commit(const stk__log *log, const char *name)
{
    enum { SURE = 4 };
    const size_t n = strlen(name);
    for (size_t i = 0; i < log->row_count; i++) {
        const char *commit = log->rows[i].commit;
        if (commit && commit[0] && (strcmp(commit, name) == 0 || (n >= SURE && strncmp(commit, name, n) == 0)))
            return i;
    }
    return SIZE_MAX;
}

static size_t row_of_time(const stk__log *log, int64_t time_s)
{
    size_t i = 0;
    while (i < log->row_count && log->rows[i].time_s < time_s)
        i++;
    return i;
}

/* A revision that only git knows: the row of that commit, or the first one after its time. */
static int ask_git(const stk__log *log, const char *since, size_t *out_first)
{
    stk__launcher *launcher = NULL;
    int code = bench_launcher_open(&launcher);
    if (code != CLI_OK)
        return code;
    stk__commit commit = {0};
    stk_error err = {0};
    if (stk__git_resolve(launcher, since, &commit, &err) != STK_OK) {
        cli_say("stoker: --since %s: no row has such a commit, it is not a date like 2026-08-18, and git says: %s",
                since, err.message);
        code = CLI_USAGE;
    } else {
        const size_t row = row_of_commit(log, commit.hash);
        *out_first = row != SIZE_MAX ? row : row_of_time(log, commit.time_s);
    }
    bench_launcher_close(launcher);
    return code;
}

static int find_first(const stk__log *log, const history_options *o, size_t *out_first)
{
    size_t first = 0;
    int64_t time_s;
    int code = CLI_OK;
    if (o->since && (first = row_of_commit(log, o->since)) != SIZE_MAX)
        ;
    else if (o->since && stk__log_when(o->since, &time_s))
        first = row_of_time(log, time_s);
    else if (o->since)
        code = ask_git(log, o->since, &first);
    if (code != CLI_OK)
        return code;
    if (first >= log->row_count) {
        cli_say("stoker: no row is as new as --since %s", o->since);
        return CLI_FAILED;
    }
    if (o->last > 0 && (uint64_t)o->last < log->row_count)
        first = STK_MAX(first, log->row_count - (size_t)o->last);
    *out_first = first;
    return CLI_OK;
}

/* ---- what is done with them ---- */

static int write_chart(const stk__history *h, const char *title, const char *path)
{
    stk_error err = {0};
    stk__text svg = STK__TEXT_INIT;
    const stk_status status = stk__chart_history(h, title, &svg, &err);
    const int code = status == STK_OK ? bench_write_text(path, &svg) : bench_fail(&err);
    stk__text_clear(&svg);
    return code;
}

/* A log that cannot be written is read all the same: the CSV file has all of it. */
static void mend(const char *path)
{
    stk_error err = {0};
    stk__text notes = STK__TEXT_INIT;
    if (stk__log_mend(path, &notes, &err) == STK_OK)
        bench_say_lines(&notes);
    else
        cli_say("stoker: %s lacks rows of the CSV file, and cannot be mended: %s", path, err.message);
    stk__text_clear(&notes);
}

static int gate(const stk__history *h, double fail_over)
{
    const stk__log_change *c;
    const double worst = stk__history_worst(h, &c);
    if (fail_over < 0 || !(worst > fail_over))
        return CLI_OK;
    char name[80], commit[64];
    stk__text t;
    stk__text_fixed(&t, commit, sizeof commit);
    stk__words_commit(&h->log->rows[c->row], &t);
    stk__escape_terminal(h->log->benchmarks[c->benchmark].name, name, sizeof name);
    char safe[80];
    stk__escape_terminal(commit, safe, sizeof safe);
    cli_say("stoker: %s is %s since %s: worse by %.3g %%, more than --fail-over %.4g%% allows", name,
            stk__change_word(h->log, c), safe, 100 * worst, 100 * fail_over);
    return CLI_REGRESSION;
}

static int show(const stk__log *log, const char *path, const history_options *o)
{
    stk_error err = {0};
    stk__history_options chosen = {
        .names = o->benchmarks.items, .name_count = o->benchmarks.count, .min_effect = o->min_effect};
    int code = find_first(log, o, &chosen.first);
    if (code != CLI_OK)
        return code;
    stk__history h;
    if (stk__history_init(&h, log, &chosen, &err) != STK_OK)
        return bench_fail(&err);
    if (o->json) {
        print_json(&h);
    } else {
        stk__text t = STK__TEXT_INIT;
        stk__text_history(&h, bench_columns(), bench_unicode(), &t);
        cli_out_text(&t);
    }
    if (o->svg)
        code = write_chart(&h, path, o->svg);
    if (code == CLI_OK)
        code = gate(&h, o->fail_over);
    stk__history_clear(&h);
    return code;
}

static bool is_csv(const char *path)
{
    const size_t n = strlen(path);
    return n > 4 && strcmp(path + n - 4, ".csv") == 0;
}

static int read_log(const char *path, const history_options *o, stk__log *log)
{
    stk_error err = {0};
    if (!is_csv(path)) {
        if (stk__log_read(path, log, &err) != STK_OK)
            return bench_fail(&err);
        if (log->stale)
            mend(path);
        return CLI_OK;
    }
    stk__text notes = STK__TEXT_INIT;
    const stk_status status = stk__log_read_csv(path, o->higher_is_better, log, &notes, &err);
    if (status == STK_OK)
        bench_say_lines(&notes);
    stk__text_clear(&notes);
    return status == STK_OK ? CLI_OK : bench_fail(&err);
}

static int history_run(const void *options, const cli_arguments *arguments)
{
    const history_options *o = options;
    const char *path = arguments->count ? arguments->items[0] : "PERF.md";
    stk__log log = {0};
    int code = read_log(path, o, &log);
    if (code == CLI_OK && !log.row_count) {
        cli_say(access(path, F_OK) != 0 ? "stoker: there is no %s here; 'stoker bench --log %s ...' makes it"
                                        : "stoker: %s has no rows; 'stoker bench --log %s ...' adds them",
                path, path);
        code = CLI_FAILED;
    }
    if (code == CLI_OK)
        code = show(&log, path, o);
    stk__log_clear(&log);
    return code;
}

static const cli_option history_options_table[] = {
    CLI_ROW(history_options, benchmarks, cli_list, CLI_LIST, .name = "benchmark", .letter = 'b', .value = "NAME",
            .group = "Rows", .help = "only this one; may be given again (default: all)"),
    CLI_ROW(history_options, since, const char *, CLI_TEXT, .name = "since", .value = "WHEN", .group = "Rows",
            .help = "from this commit or day on: a hash, a revision that git knows, or 2026-08-18"),
    CLI_ROW(history_options, last, int64_t, CLI_INT, .name = "last", .value = "N", .min = 1, .max = INT32_MAX,
            .fallback = -1, .group = "Rows", .help = "only the newest N rows"),
    CLI_ROW(history_options, min_effect, double, CLI_PERCENT, .name = "min-effect", .value = "PERCENT", .max = 100000,
            .group = "Changes", .help = "smaller changes are not told (default 0%)"),
    CLI_ROW(history_options, fail_over, double, CLI_PERCENT, .name = "fail-over", .value = "PERCENT", .max = 100000,
            .fallback = -1, .group = "Changes",
            .help = "exit code 3 when the newest rows come after a change for the worse by more than this"),
    CLI_ROW(history_options, higher_is_better, bool, CLI_FLAG, .name = "higher-is-better", .group = "Changes",
            .help = "of the columns of a CSV file that do not tell"),
    CLI_ROW(history_options, json, bool, CLI_FLAG, .name = "json", .group = "Output",
            .help = "rows and changes as JSON"),
    CLI_ROW(history_options, svg, const char *, CLI_TEXT, .name = "svg", .value = "FILE", .complete = CLI_FILES,
            .group = "Output", .help = "write a chart"),
    CLI_OPTION_END,
};

static const cli_example history_examples[] = {
    {"the log of this project", "stoker bench history"},
    {"a picture of it", "stoker bench history PERF.md --svg perf.svg"},
    {"what a nightly job asks", "stoker bench history --since v1.4 --fail-over 5%"},
    {"numbers from elsewhere", "stoker bench history timings.csv -b parse_ms"},
    {NULL, NULL},
};

const cli_command cli_command_bench_history = {
    .name = "bench history",
    .summary = "draw a log of 'bench --log', and tell where it changed",
    .usage = "[FILE.md|FILE.csv] [OPTION]...",
    .about =
        "Draws each benchmark of a change log over its rows, tells where its level changed, at which commit and how "
        "surely, and lists the newest rows. The log is PERF.md unless another file is named.\n"
        "A FILE.csv may come from anywhere: a header, then a time, a commit and numbers in each line.",
    .options = history_options_table,
    .examples = history_examples,
    .complete = CLI_FILES,
    .options_size = sizeof(history_options),
    .max_arguments = 1,
    .run = history_run,
};
