/* stoker export: a directory that BigQuery, ClickHouse, Spark, SQLite or a spreadsheet loads as it is. */
#include <string.h>
#include <sys/stat.h>

#include "analyze/export.h"
#include "base/clock.h"
#include "base/mem.h"
#include "workbench.h"

#include "base/banned.h"

typedef struct export_options {
    cli_trace_options trace;
    const char *to;
    uint64_t shard_bytes;
    bool force;
} export_options;

static const int64_t draw_every_ns = 100 * 1000 * 1000;

static bool show_progress(void *arg, uint64_t done, uint64_t total)
{
    int64_t *drawn_ns = arg;
    const int64_t now = stk__now_ns();
    if (cli_live_possible() && now - *drawn_ns > draw_every_ns) {
        stk__text line = STK__TEXT_INIT;
        stk__text_puts(&line, "writing: ");
        cli_text_count(&line, (int64_t)done);
        stk__text_puts(&line, " of ");
        cli_text_count(&line, (int64_t)total);
        stk__text_printf(&line, " rows, %d %%", total ? (int)(100.0 * (double)done / (double)total) : 100);
        if (!line.failed)
            cli_live(line.data);
        stk__text_clear(&line);
        *drawn_ns = now;
    }
    return !cli_interrupted();
}

static int choose_target(const char *name, const stk__export_target **out)
{
    const char *names[16];
    size_t count = 0;
    if (!name)
        return cli_usage_error(&cli_command_export, "no target; give --to bigquery, clickhouse, spark, sqlite or csv");
    *out = stk__export_find(name);
    if (*out)
        return CLI_OK;
    for (; stk__export_targets[count] && count < STK_COUNT(names); count++)
        names[count] = stk__export_name(stk__export_targets[count]);
    const char *nearest = stk__nearest(name, names, count);
    if (nearest)
        return cli_usage_error(&cli_command_export, "--to: unknown target '%s'; did you mean '%s'?", name, nearest);
    return cli_usage_error(&cli_command_export,
                           "--to: unknown target '%s', wanted bigquery, clickhouse, spark, sqlite or csv", name);
}

/* Before the traces are read, which may take a while. */
static int check_directory(const export_options *o, const char *dir)
{
    stk_error err;
    stk_error_clear(&err);
    if (stk__export_check(dir, o->force, &err) == STK_OK)
        return CLI_OK;
    cli_say_error(&err, NULL, NULL);
    return cli_exit_code(&err);
}

static int check_arguments(const export_options *o, const cli_arguments *arguments)
{
    if (arguments->count < 2)
        return cli_usage_error(&cli_command_export, "wanted one or more traces and then the directory to write");
    const char *dir = arguments->items[arguments->count - 1];
    struct stat st;
    if (stat(dir, &st) == 0 && !S_ISDIR(st.st_mode))
        return cli_usage_error(&cli_command_export, "'%s' is a file; the last argument is the directory to write", dir);
    if (o->shard_bytes && (o->shard_bytes < STK__SHARD_BYTES_MIN || o->shard_bytes > STK__SHARD_BYTES_MAX))
        return cli_usage_error(&cli_command_export,
                               "--shard-size %llu, wanted %llu to %llu (BigQuery takes no larger file)",
                               (unsigned long long)o->shard_bytes, (unsigned long long)STK__SHARD_BYTES_MIN,
                               (unsigned long long)STK__SHARD_BYTES_MAX);
    return check_directory(o, dir);
}

static void say_report(const char *dir, const stk__export_target *target, const stk__export_report *r)
{
    const struct {
        uint64_t count;
        const char *one, *many;
    } kinds[] = {{r->slices, "slice", "slices"},
                 {r->counters, "counter value", "counter values"},
                 {r->flows, "flow point", "flow points"},
                 {r->samples, "sample", "samples"},
                 {r->functions, "function", "functions"}};
    stk__text line = STK__TEXT_INIT;
    stk__text_printf(&line, "%s: wrote ", dir);
    const size_t start = line.length;
    for (size_t i = 0; i < STK_COUNT(kinds); i++) {
        if (!kinds[i].count)
            continue;
        stk__text_puts(&line, line.length > start ? ", " : "");
        cli_text_count(&line, (int64_t)kinds[i].count);
        stk__text_printf(&line, " %s", kinds[i].count == 1 ? kinds[i].one : kinds[i].many);
    }
    stk__text_puts(&line, line.length > start ? "" : "an empty trace");
    stk__text_printf(&line, " for %s: %zu data file%s, ", stk__export_name(target), r->data_files,
                     r->data_files == 1 ? "" : "s");
    stk__text_bytes(&line, r->data_bytes);
    stk__text_puts(&line, "; README.md says what to run");
    if (!line.failed)
        cli_say("%s", line.data);
    stk__text_clear(&line);
}

static int write_export(const export_options *o, const stk__trace *t, const stk__export_target *target, const char *dir)
{
    int64_t drawn_ns = stk__now_ns();
    const stk__export_options how = {.dir = dir,
                                     .shard_bytes = o->shard_bytes,
                                     .force = o->force,
                                     .progress = show_progress,
                                     .progress_arg = &drawn_ns};
    stk__export_report report;
    stk_error err;
    stk_error_clear(&err);
    const stk_status status = stk__export_write(t, target, &how, &report, &err);
    cli_live_clear();
    if (status != STK_OK) {
        cli_say_error(&err, NULL, NULL);
        return cli_exit_code(&err);
    }
    if (!o->trace.quiet)
        say_report(dir, target, &report);
    return CLI_OK;
}

static int export_run(const void *options, const cli_arguments *arguments)
{
    const export_options *o = options;
    const stk__export_target *target = NULL;
    int code = arguments->count ? choose_target(o->to, &target) : cli_no_trace(&cli_command_export);
    if (code == CLI_OK)
        code = check_arguments(o, arguments);
    stk__trace *t = NULL;
    if (code == CLI_OK)
        code = cli_trace_open(&cli_command_export, &o->trace, arguments->items, arguments->count - 1, &t);
    if (code == CLI_OK)
        code = write_export(o, t, target, arguments->items[arguments->count - 1]);
    stk__trace_free(t);
    return code;
}

static const cli_option export_options_table[] = {
    CLI_ROW(export_options, to, const char *, CLI_TEXT, .name = "to", .value = "TARGET", .complete = CLI_WORDS,
            .words = "bigquery clickhouse spark sqlite csv", .group = "Output",
            .help = "bigquery, clickhouse, spark, sqlite or csv"),
    CLI_ROW(export_options, shard_bytes, uint64_t, CLI_SIZE, .name = "shard-size", .value = "SIZE", .group = "Output",
            .help = "largest NDJSON file, as in 512M (default 1G; less than 4 GB)"),
    CLI_ROW(export_options, force, bool, CLI_FLAG, .name = "force", .letter = 'f', .group = "Output",
            .help = "write into a directory that is not empty; shards of an earlier export are removed"),
    CLI_TRACE_ROWS(export_options, trace),
    CLI_OPTION_END,
};

static const cli_example export_examples[] = {
    {"for BigQuery; then out/load.sh DATASET", "stoker export run.json.gz --to bigquery out"},
    {"all ranks for Spark; then spark-submit out/top.py", "stoker export 'rank*.json.gz' --to spark out"},
    {"for ClickHouse, in files of 256 MiB", "stoker export run.pftrace --to clickhouse --shard-size 256M out"},
    {NULL, NULL},
};

const cli_command cli_command_export = {
    .name = "export",
    .summary = "write traces for BigQuery, ClickHouse, Spark, SQLite or CSV",
    .usage = "[OPTION]... --to TARGET FILE... DIR",
    .about =
        "Writes a directory with everything that the target needs: the rows of the traces, the schema, a script that "
        "loads them, queries, and a README.md that says what to run. Tables are slice, counter, flow, sample and "
        "function, as far as the traces have them; times are nanoseconds.\n"
        "DIR is made, and must be new or empty unless --force is given. It appears whole or not at all.",
    .options = export_options_table,
    .examples = export_examples,
    .complete = CLI_FILES,
    .options_size = sizeof(export_options),
    .max_arguments = SIZE_MAX,
    .run = export_run,
};
