/* What the commands on traces share: opening with progress and notes, tables as text, CSV or JSON. */
#ifndef STK_CLI_WORKBENCH_H
#define STK_CLI_WORKBENCH_H

#include "cli.h"

#include "trace/model.h"
#include "trace/writer.h"

typedef struct cli_trace_options {
    uint64_t memory_bytes;
    const char *cache_dir, *temp_dir, *format, *join;
    bool no_cache, quiet;
    bool all_notes; /* set by the command: also what matters to few */
} cli_trace_options;

#define CLI_TRACE_ROWS(T, f) CLI_TRACE_ROWS_WITH(T, f, 'q')

/* The same for commands that need -q for something else: `quiet_letter` is that of --quiet, 0: none. */
#define CLI_TRACE_ROWS_WITH(T, f, quiet_letter)                                                                       \
    CLI_ROW(T, f.format, const char *, CLI_TEXT, .name = "read-as", .value = "FORMAT", .complete = CLI_WORDS,         \
            .words = "chrome perfetto xplane pstats collapsed speedscope perf_script flamegraph snapshot nsys",       \
            .group = "Reading",                                                                                       \
            .help = "chrome, perfetto, xplane, pstats, collapsed, speedscope, perf_script, flamegraph, snapshot or "  \
                    "nsys (default: by the content)"),                                                                \
        CLI_ROW(T, f.join, const char *, CLI_TEXT, .name = "join-processes", .value = "WHEN", .complete = CLI_WORDS,  \
                .words = "auto always never", .group = "Reading",                                                     \
                .help = "processes of equal id and name in several files are one: always, never, or auto: in "        \
                        "timelines of TensorFlow 1 (default)"),                                                       \
        CLI_ROW(T, f.memory_bytes, uint64_t, CLI_SIZE, .name = "memory", .value = "SIZE", .group = "Reading",         \
                .help =                                                                                               \
                    "cap on the columns in memory, as in 512M; the rest goes to a temporary file (default: no cap)"), \
        CLI_ROW(T, f.temp_dir, const char *, CLI_TEXT, .name = "temp-dir", .value = "DIR",                            \
                .complete = CLI_DIRECTORIES, .group = "Reading",                                                      \
                .help = "where that file lies (default $TMPDIR or /var/tmp)"),                                        \
        CLI_ROW(T, f.cache_dir, const char *, CLI_TEXT, .name = "cache-dir", .value = "DIR",                          \
                .complete = CLI_DIRECTORIES, .group = "Reading",                                                      \
                .help = "where the columns of files are kept (default $XDG_CACHE_HOME/stoker or ~/.cache/stoker)"),   \
        CLI_ROW(T, f.no_cache, bool, CLI_FLAG, .name = "no-cache", .group = "Reading",                                \
                .help = "neither use nor keep columns of files that were read before"),                               \
        CLI_ROW(T, f.quiet, bool, CLI_FLAG, .name = "quiet", .letter = (quiet_letter), .group = "Reading",            \
                .help = "no progress and no list of what was skipped or changed")

/*
 * Opens files and patterns as one trace; draws progress, then says on standard error what was left out or changed, and why. Returns CLI_OK,
 * or an exit code after saying what is wrong.
 */
int cli_trace_open(const cli_command *command, const cli_trace_options *options, char *const *paths, size_t count,
                   stk__trace **out);

/* That there is none, in the words of all commands. Returns CLI_USAGE. */
int cli_no_trace(const cli_command *command);

/* Says on standard error what was written, what was left out for the format's sake, and what was changed. */
void cli_say_written(const char *output, const stk__trace_writer *writer, const stk__write_report *report);

/* ---- tables ---- */

/* CSV is for spreadsheets: a cell that these would take for a formula begins with an apostrophe; not so in raw CSV. */
typedef enum cli_format { CLI_TABLE, CLI_CSV, CLI_JSON, CLI_RAW_CSV } cli_format;

const char *cli_format_name(cli_format format);
bool cli_format_named(const char *name, cli_format *out);

typedef struct cli_format_options {
    const char *name;
    bool json;
} cli_format_options;

#define CLI_FORMAT_ROWS(T, f)                                                                                         \
    CLI_ROW(T, f.name, const char *, CLI_TEXT, .name = "format", .value = "FORMAT", .complete = CLI_WORDS,            \
            .words = "table csv raw-csv json", .group = "Output",                                                     \
            .help = "table, csv, json, or raw-csv, which has no ' before what looks like a formula (default table)"), \
        CLI_ROW(T, f.json, bool, CLI_FLAG, .name = "json", .group = "Output", .help = "the same as --format json")

/* False after saying what is wrong. */
bool cli_format_of(const cli_command *command, const cli_format_options *options, cli_format *out);

/*
 * Cells one after the other; the row is full when all columns have one. JSON is an array of objects, CSV has a heading (RFC 4180). As a table,
 * numbers stand on the right, and text is escaped and cut so that the row fits the terminal's width (not when it is no
 * terminal). CSV and JSON are written as rows come, so that results of any size take no memory.
 */
typedef struct cli_table cli_table;
cli_table *cli_table_new(cli_format format, const char *const *columns, size_t count);
void cli_table_text(cli_table *t, const char *text, size_t size);
void cli_table_str(cli_table *t, const char *text);
void cli_table_int(cli_table *t, int64_t value);
void cli_table_double(cli_table *t, double value);
/* ns: "1.234 ms" in a table, the integer else. */
void cli_table_ns(cli_table *t, int64_t ns);
/* A time as tables have it: "12.345 ms". */
void cli_text_ns(stk__text *out, int64_t ns);
/* A name for people: without control bytes, and of a very long one the first characters and a sign. */
void cli_text_name(stk__text *out, const char *name);
void cli_table_null(cli_table *t);
/* There was no memory for a cell: nothing more is printed, and finish says so. */
void cli_table_fail(cli_table *t);
size_t cli_table_rows(const cli_table *t);
/* Writes what is left and frees. NULL is fine. False when memory or the output failed. */
bool cli_table_finish(cli_table *t);

#endif
