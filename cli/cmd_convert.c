/* stoker convert: any trace to any format that can be written; --repair gives a valid file. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "trace/writer.h"
#include "workbench.h"

#include "base/banned.h"

typedef struct convert_options {
    cli_trace_options trace;
    const char *output, *to;
    bool repair;
} convert_options;

/* ---- what is asked for ---- */

static int unknown_format(const char *name)
{
    const char *names[16];
    size_t count = 0;
    stk__text list = STK__TEXT_INIT;
    for (; stk__trace_writers[count] && count < STK_COUNT(names); count++) {
        names[count] = stk__trace_writers[count]->name;
        stk__text_printf(&list, "%s%s", count ? ", " : "", names[count]);
    }
    const char *nearest = stk__nearest(name, names, count);
    if (nearest)
        cli_usage_error(&cli_command_convert, "--to: unknown format '%s'; did you mean '%s'?", name, nearest);
    else
        cli_usage_error(&cli_command_convert, "--to: unknown format '%s', wanted %s", name, list.data ? list.data : "");
    stk__text_clear(&list);
    return CLI_USAGE;
}

/* Whether two names are one file. */
static bool same_file(const struct stat *output, const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && st.st_dev == output->st_dev && st.st_ino == output->st_ino;
}

/* The output takes the place of what was there, so it must not be what is read. */
static int check_inputs(const char *output, const cli_arguments *arguments)
{
    struct stat st;
    stk__paths paths = {0};
    int code = CLI_OK;
    if (stat(output, &st))
        return CLI_OK;
    for (size_t i = 0; i < arguments->count; i++) {
        if (strcmp(arguments->items[i], "-") != 0)
            stk__paths_glob(&paths, arguments->items[i], NULL); /* what is wrong with it is told when it is opened */
    }
    for (size_t i = 0; i < paths.count && code == CLI_OK; i++) {
        if (same_file(&st, paths.items[i]))
            code = cli_usage_error(&cli_command_convert, "'%s' is read and would be overwritten; give -o another name",
                                   paths.items[i]);
    }
    stk__paths_clear(&paths);
    return code;
}

/* By --to or the ending of the output; NULL with CLI_OK: --repair is to find out. */
static int choose_writer(const convert_options *o, const stk__trace_writer **out)
{
    const bool to_stdout = strcmp(o->output, "-") == 0;
    *out = o->to ? stk__trace_writer_find(o->to) : to_stdout ? NULL : stk__trace_writer_for(o->output, NULL);
    if (o->to && !*out)
        return unknown_format(o->to);
    if (!*out && !o->repair && to_stdout)
        return cli_usage_error(&cli_command_convert, "no format; -o - needs --to FORMAT");
    if (!*out && !o->repair)
        return cli_usage_error(&cli_command_convert, "cannot tell the format of '%s' by its ending; give --to FORMAT",
                               o->output);
    if (*out && !(*out)->write && to_stdout)
        return cli_usage_error(&cli_command_convert, "format %s needs a file, not standard output", (*out)->name);
    if (to_stdout && isatty(STDOUT_FILENO))
        return cli_usage_error(&cli_command_convert, "standard output is a terminal; send it to a file or a program");
    return CLI_OK;
}

/*
 * The format of what was repaired: the one that was read, unless the ending of the output says another. ".json" may be
 * that of speedscope as well as that of Chrome.
 */
static const stk__trace_writer *repair_writer(const convert_options *o, const stk__trace *t,
                                              const stk__trace_writer *chosen)
{
    const char *format = t->file_count ? stk__trace_str(t, t->files[0].format) : "";
    const stk__trace_writer *same = stk__trace_writer_find(format);
    for (size_t i = 1; i < t->file_count; i++) {
        if (t->files[i].format != t->files[0].format)
            same = NULL;
    }
    if (o->to || (chosen && chosen != &stk__writer_chrome))
        return chosen;
    if (same && (!chosen || same == &stk__writer_speedscope))
        return same;
    return &stk__writer_chrome;
}

/* ---- what is told ---- */

static void say_repaired(const stk__trace *t)
{
    uint64_t lost = 0, changed = 0;
    for (size_t i = 0; i < t->note_count; i++)
        *(stk__trace_reason_loses((stk__trace_reason)t->notes[i].reason) ? &lost : &changed) += t->notes[i].count;
    stk__text line = STK__TEXT_INIT;
    stk__text_puts(&line, "repair: ");
    cli_text_count(&line, (int64_t)lost);
    stk__text_puts(&line, " left out, ");
    cli_text_count(&line, (int64_t)changed);
    stk__text_puts(&line, lost || changed ? " put right or noted" : " put right: there was nothing to repair");
    if (!line.failed)
        cli_say("%s", line.data);
    stk__text_clear(&line);
}

/* ---- the command ---- */

static int write_trace(const convert_options *o, const stk__trace *t, const stk__trace_writer *writer)
{
    stk__write_report report;
    stk_error err;
    stk_error_clear(&err);
    if (stk__trace_write(t, o->output, writer, &report, &err) != STK_OK) {
        if (err.status == STK_CANCELLED && !cli_interrupted())
            return CLI_PIPE_CLOSED;
        cli_say_error(&err, NULL, NULL);
        return cli_exit_code(&err);
    }
    if (o->trace.quiet)
        return CLI_OK;
    if (o->repair)
        say_repaired(t);
    cli_say_written(o->output, writer, &report);
    return CLI_OK;
}

static int convert_run(const void *options, const cli_arguments *arguments)
{
    const convert_options *o = options;
    const stk__trace_writer *writer = NULL;
    if (!arguments->count)
        return cli_no_trace(&cli_command_convert);
    if (!o->output || !o->output[0])
        return cli_usage_error(&cli_command_convert, "no output; give -o FILE, or -o - for standard output");
    int code = choose_writer(o, &writer);
    if (code == CLI_OK)
        code = check_inputs(o->output, arguments);
    stk__trace *t = NULL;
    cli_trace_options trace = o->trace;
    trace.all_notes = o->repair;
    if (code == CLI_OK)
        code = cli_trace_open(&cli_command_convert, &trace, arguments->items, arguments->count, &t);
    if (code == CLI_OK)
        code = write_trace(o, t, o->repair ? repair_writer(o, t, writer) : writer);
    stk__trace_free(t);
    return code;
}

static const cli_option convert_options_table[] = {
    CLI_ROW(convert_options, output, const char *, CLI_TEXT, .name = "output", .letter = 'o', .value = "FILE",
            .complete = CLI_FILES, .group = "Output",
            .help = "where to write; .gz or .zst at the end compresses; '-' is standard output"),
    CLI_ROW(convert_options, to, const char *, CLI_TEXT, .name = "to", .value = "FORMAT", .complete = CLI_WORDS,
            .words = "chrome perfetto collapsed speedscope sqlite csv ndjson", .group = "Output",
            .help = "chrome, perfetto, collapsed, speedscope, sqlite, csv or ndjson (default: by the ending of FILE)"),
    CLI_ROW(convert_options, repair, bool, CLI_FLAG, .name = "repair", .group = "Output",
            .help = "write a valid file of the format that was read, or as Chrome JSON; says what was put right"),
    CLI_TRACE_ROWS(convert_options, trace),
    CLI_OPTION_END,
};

static const cli_example convert_examples[] = {
    {"a JAX profile for Perfetto's UI", "stoker convert host.xplane.pb -o host.json.gz"},
    {"a trace that a killed job cut off", "stoker convert --repair broken.json -o whole.json"},
    {"all ranks in one SQLite file", "stoker convert 'rank*.json.gz' -o ranks.sqlite"},
    {"slices for another program", "stoker convert run.json.gz --to ndjson -o - | head"},
    {"a flame graph's input from a profile", "stoker convert profile.speedscope.json -o profile.collapsed"},
    {NULL, NULL},
};

const cli_command cli_command_convert = {
    .name = "convert",
    .summary = "write traces in another format, or repair them",
    .usage = "[OPTION]... FILE... -o OUTPUT",
    .about =
        "Reads traces of any format, also compressed, and writes them as one file. FILE may be '-' for standard "
        "input. Formats are found by content when reading and by the ending when writing: .json (Chrome), .pftrace "
        "(Perfetto), .collapsed, .speedscope.json, .sqlite, .csv, .ndjson. Processes of different files with the "
        "same id stay apart, unless --join-processes says that they are one.\n"
        "What cannot be read is left out and counted, and so is what the new format cannot carry; both are told on "
        "standard error. The output appears whole or not at all, and never takes the place of an input.",
    .options = convert_options_table,
    .examples = convert_examples,
    .complete = CLI_FILES,
    .options_size = sizeof(convert_options),
    .max_arguments = SIZE_MAX,
    .run = convert_run,
};
