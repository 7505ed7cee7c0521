/* stoker bench history: a change log as sparklines, a table and a chart. */
#include <unistd.h>

#include "bench.h"
#include "bench/chart.h"
#include "bench/log.h"

#include "base/banned.h"

typedef struct history_options {
    const char *svg;
    bool json;
} history_options;

static void json_row(stk__text *t, const stk__log *log, const stk__log_row *row)
{
    const struct {
        const char *key, *value;
    } words[] = {{"commit", row->commit},     {"machine", row->machine}, {"limits", row->limits},
                 {"compared", row->compared}, {"verdict", row->verdict}, {"description", row->description}};
    stk__text_printf(t, "{\"time\":%lld,\"dirty\":%s", (long long)row->time_s, row->dirty ? "true" : "false");
    for (size_t i = 0; i < STK_COUNT(words); i++) {
        stk__text_printf(t, ",\"%s\":", words[i].key);
        stk__text_json_str(t, words[i].value ? words[i].value : "");
    }
    stk__text_printf(t, ",\"paired\":%s,\"metric\":", row->paired ? "true" : "false");
    stk__text_json_str(t, log->metric ? log->metric : "");
    const double numbers[] = {row->ratio, row->low, row->high, row->p};
    static const char *const keys[] = {"ratio", "ci_low", "ci_high", "p"};
    for (size_t i = 0; i < STK_COUNT(numbers); i++) {
        stk__text_printf(t, ",\"%s\":", keys[i]);
        stk__text_json_double(t, numbers[i]);
    }
    stk__text_puts(t, ",\"benchmarks\":{");
    for (size_t b = 0; b < log->benchmark_count; b++) {
        stk__text_puts(t, b ? "," : "");
        stk__text_json_str(t, log->benchmarks[b]);
        stk__text_puts(t, ":{\"mean\":");
        stk__text_json_double(t, row->cells[b].mean);
        stk__text_puts(t, ",\"sd\":");
        stk__text_json_double(t, row->cells[b].sd);
        stk__text_printf(t, ",\"n\":%zu}", row->cells[b].n);
    }
    stk__text_puts(t, "}}");
}

static void print_json(const stk__log *log)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, "{\"rows\":[");
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

static int history_run(const void *options, const cli_arguments *arguments)
{
    const history_options *o = options;
    const char *path = arguments->count ? arguments->items[0] : "PERF.md";
    stk_error err = {0};
    stk__log log = {0};
    if (stk__log_read(path, &log, &err) != STK_OK)
        return bench_fail(&err);
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
