/* stoker sql: questions to a trace in SQL, one by one or in a shell. */
#include <stdint.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "sql.h"

#include "base/banned.h"

enum { FILE_MAX = 1 << 26 };

typedef struct sql_options {
    cli_trace_options trace;
    cli_list queries, files;
    cli_format_options format;
} sql_options;

static int run_file(cli_sql *s, const char *path)
{
    char *text = NULL;
    size_t size;
    stk_error err;
    stk_error_clear(&err);
    if (stk__read_file(path, FILE_MAX, &text, &size, &err) != STK_OK) {
        cli_say_error(&err, NULL, NULL);
        return cli_exit_code(&err);
    }
    const int code = cli_sql_run(s, text);
    stk__free(text);
    return code;
}

static int run_all(cli_sql *s, const sql_options *o)
{
    int code = CLI_OK;
    if (!o->queries.count && !o->files.count)
        return cli_sql_shell(s);
    s->stopped = cli_interrupted;
    for (size_t i = 0; i < o->files.count && code == CLI_OK && !s->quit; i++)
        code = run_file(s, o->files.items[i]);
    for (size_t i = 0; i < o->queries.count && code == CLI_OK && !s->quit; i++)
        code = cli_sql_run(s, o->queries.items[i]);
    return code;
}

static bool reads_standard_input(const sql_options *o, const cli_arguments *arguments)
{
    bool trace = false, queries = !o->queries.count && !o->files.count;
    for (size_t i = 0; i < arguments->count; i++)
        trace |= strcmp(arguments->items[i], "-") == 0;
    for (size_t i = 0; i < o->files.count; i++)
        queries |= strcmp(o->files.items[i], "-") == 0;
    return trace && queries;
}

static int sql_run(const void *options, const cli_arguments *arguments)
{
    const sql_options *o = options;
    cli_sql s = {0};
    stk__trace *trace = NULL;
    stk_error err;
    stk_error_clear(&err);
    if (!cli_format_of(&cli_command_sql, &o->format, &s.format))
        return CLI_USAGE;
    if (reads_standard_input(o, arguments))
        return cli_usage_error(&cli_command_sql,
                               "the trace comes from standard input, so queries can not; give them with -q");
    int code = cli_trace_open(&cli_command_sql, &o->trace, arguments->items, arguments->count, &trace);
    if (code != CLI_OK)
        return code;
    s.trace = trace;
    if (stk__sql_open(trace, &s.db, &err) == STK_OK) {
        code = run_all(&s, o);
        sqlite3_close(s.db);
    } else {
        cli_say_error(&err, NULL, NULL);
        code = cli_exit_code(&err);
    }
    stk__trace_free(trace);
    return code;
}

static const cli_option sql_options_table[] = {
    CLI_ROW(sql_options, queries, cli_list, CLI_LIST, .name = "query", .letter = 'q', .value = "SQL",
            .group = "Queries", .help = "run this and end; may be given again"),
    CLI_ROW(sql_options, files, cli_list, CLI_LIST, .name = "file", .letter = 'f', .value = "FILE",
            .complete = CLI_FILES, .group = "Queries",
            .help = "run the statements of a file, before those of -q; may be given again"),
    CLI_FORMAT_ROWS(sql_options, format),
    CLI_TRACE_ROWS_WITH(sql_options, trace, 0),
    CLI_OPTION_END,
};

static const cli_example sql_examples[] = {
    {"where the time goes",
     "stoker sql run.json.gz -q 'SELECT name, sum(dur), avg(dur) FROM slice GROUP BY name ORDER BY 2 DESC "
     "LIMIT 20'"},
    {"the longest gaps, for a program",
     "stoker sql run.json.gz --format json -q 'SELECT * FROM gaps(1000000) ORDER BY dur DESC LIMIT 5'"},
    {"a shell over several files", "stoker sql trainer.json.gz worker-*.json"},
    {"queries from a file, as CSV", "stoker sql run.pftrace -f report.sql --format csv"},
    {NULL, NULL},
};

const cli_command cli_command_sql = {
    .name = "sql",
    .summary = "ask a trace in SQL",
    .usage = "[OPTION]... FILE... [-q SQL]...",
    .about =
        "Reads traces of any format and answers queries with SQLite, straight from the columns: tables slice, thread, "
        "process, track, counter, flow, args, step, file and more, with Perfetto's names, and functions top(), "
        "gaps(), steps(), stacks() and overlap() that compute in C. Any arg of a slice is a column: arg_KEY. Queries "
        "written for BigQuery or Perfetto run as pasted where they fit.\n"
        "Without -q and -f it is a shell, whose commands -q and -f take too: '.tables' lists what there is, "
        "'.examples' shows queries to start from, '.help' the rest. When standard input is no terminal, the shell "
        "reads it as a script.\n"
        "Times are in nanoseconds. Queries can make views and tables in memory, but can not touch files.",
    .options = sql_options_table,
    .examples = sql_examples,
    .complete = CLI_FILES,
    .options_size = sizeof(sql_options),
    .max_arguments = SIZE_MAX,
    .run = sql_run,
};
