/* stoker bench history: a change log as sparklines, a table and a chart. */
#include <math.h>
#include <unistd.h>

#include "bench.h"
#include "bench/chart.h"
#include "bench/log.h"

#include "base/banned.h"

typedef struct history_options {
    const char *svg;
    bool json;
} history_options;

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
static void json_figures(stk__text *t, const stk__log *log, const stk__log_row *row)
{
    const char *between = "";
    stk__text_puts(t, ",\"benchmarks\":{");
    for (size_t i = 0; i < log->benchmark_count; i++) {
        if (!row->cells[i].n)
            continue;
        stk__text_puts(t, between);
        stk__text_json_str(t, log->benchmarks[i].name);
        stk__text_putc(t, ':');
        json_cell(t, row, i);
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

static void json_row(stk__text *t, const stk__log *log, const stk__log_row *row)
{
    stk__text_printf(t, "{\"time\":%lld,\"dirty\":%s", (long long)row->time_s, row->dirty ? "true" : "false");
    json_texts(t, "commit", row->commit);
    json_texts(t, "parent", row->parent);
    json_texts(t, "machine", row->machine);
    json_texts(t, "limits", row->limits);
    json_texts(t, "description", row->description);
    stk__text_puts(t, ",\"confidence\":");
    stk__text_json_double(t, row->confidence);
    json_figures(t, log, row);
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

static void print_json(const stk__log *log)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, "{\"benchmarks\":[");
    for (size_t i = 0; i < log->benchmark_count; i++) {
        stk__text_puts(&t, i ? "," : "");
        json_benchmark(&t, &log->benchmarks[i]);
    }
    stk__text_puts(&t, "],\"rows\":[");
    for (size_t i = 0; i < log->row_count; i++) {
        stk__text_puts(&t, i ? "," : "");
        json_row(&t, log, &log->rows[i]);
    }
    stk__text_puts(&t, "]}\n");
    cli_out_text(&t);
}

static int write_chart(const stk__log *log, const char *title, const char *path)
{
    stk_error err = {0};
    stk__text svg = STK__TEXT_INIT;
    const stk_status status = stk__chart_history(log, title, &svg, &err);
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

static int history_run(const void *options, const cli_arguments *arguments)
{
    const history_options *o = options;
    const char *path = arguments->count ? arguments->items[0] : "PERF.md";
    stk_error err = {0};
    stk__log log = {0};
    if (stk__log_read(path, &log, &err) != STK_OK)
        return bench_fail(&err);
    if (log.stale)
        mend(path);
    int code = CLI_OK;
    if (!log.row_count && access(path, F_OK) != 0) {
        cli_say("stoker: there is no %s here; 'stoker bench --log %s ...' makes it", path, path);
        code = CLI_FAILED;
    } else if (!log.row_count) {
        cli_say("stoker: %s has no rows; 'stoker bench --log %s ...' adds them", path, path);
        code = CLI_FAILED;
    } else if (o->json) {
        print_json(&log);
    } else {
        stk__text t = STK__TEXT_INIT;
        stk__text_history(&log, bench_columns(), bench_unicode(), &t);
        cli_out_text(&t);
    }
    if (code == CLI_OK && o->svg)
        code = write_chart(&log, path, o->svg);
    stk__log_clear(&log);
    return code;
}

static const cli_option history_options_table[] = {
    CLI_ROW(history_options, json, bool, CLI_FLAG, .name = "json", .group = "Output", .help = "the rows as JSON"),
    CLI_ROW(history_options, svg, const char *, CLI_TEXT, .name = "svg", .value = "FILE", .complete = CLI_FILES,
            .group = "Output", .help = "write a chart"),
    CLI_OPTION_END,
};

static const cli_example history_examples[] = {
    {"the log of this project", "stoker bench history"},
    {"a picture of it", "stoker bench history PERF.md --svg perf.svg"},
    {NULL, NULL},
};

const cli_command cli_command_bench_history = {
    .name = "bench history",
    .summary = "draw a log of 'bench --log'",
    .usage = "[FILE.md] [OPTION]...",
    .about =
        "Draws each benchmark of a change log over its rows, and tells the newest of them. The log is PERF.md unless "
        "another file is named.",
    .options = history_options_table,
    .examples = history_examples,
    .complete = CLI_FILES,
    .options_size = sizeof(history_options),
    .max_arguments = 1,
    .run = history_run,
};
