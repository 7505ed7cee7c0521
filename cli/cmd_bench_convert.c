/* stoker bench convert: results from one tool's format into another's. */
#include "base/mem.h"
#include "bench.h"

#include "base/banned.h"

typedef struct convert_options {
    const char *read_as, *to, *output;
} convert_options;

static int convert(const stk__result *r, stk__bench_format format, const char *path)
{
    stk_error err = {0};
    stk__compare_pair *pairs = NULL;
    size_t count = 0;
    stk__comparisons c = {0};
    const stk__rule rule = {.confidence = 0.95, .min_effect = 0.02, .margin = 0.02};
    stk__text text = STK__TEXT_INIT, notes = STK__TEXT_INIT;
    stk_status status = stk__compare_groups(r, &pairs, &count, &err);
    if (status == STK_OK)
        status = stk__compare(r, &rule, pairs, count, r->primary, &c, &err);
    if (status == STK_OK)
        status = stk__bench_write(r, &c, format, &text, &notes, &err);
    int code = status == STK_OK ? bench_write_text(path ? path : "-", &text) : bench_fail(&err);
    for (size_t i = 0; code == CLI_OK && i < r->note_count; i++)
        cli_say("stoker: %s", r->notes[i]);
    if (code == CLI_OK)
        bench_say_lines(&notes);
    stk__text_clear(&text);
    stk__text_clear(&notes);
    stk__comparisons_clear(&c);
    stk__free(pairs);
    return code;
}

static int convert_run(const void *options, const cli_arguments *arguments)
{
    const convert_options *o = options;
    if (!arguments->count)
        return cli_usage_error(&cli_command_bench_convert, "no file; try: stoker bench convert --to pyperf runs.json");
    stk__bench_format format;
    if (!o->to)
        return cli_usage_error(&cli_command_bench_convert, "--to is wanted, with one of: " STK__BENCH_WRITTEN_LIST);
    if (!bench_format(&cli_command_bench_convert, "--to", o->to, true, &format))
        return CLI_USAGE;
    stk__result r = {0};
    int code = bench_read(arguments->items[0], o->read_as, &r);
    if (code == CLI_OK)
        code = convert(&r, format, o->output);
    stk__result_clear(&r);
    return code;
}

static const cli_option convert_options_table[] = {
    CLI_ROW(convert_options, to, const char *, CLI_TEXT, .name = "to", .value = "FORMAT", .complete = CLI_WORDS,
            .words = STK__BENCH_WRITTEN_WORDS, .group = "Output", .help = "one of: " STK__BENCH_WRITTEN_LIST),
    CLI_ROW(convert_options, output, const char *, CLI_TEXT, .name = "output", .letter = 'o', .value = "FILE",
            .complete = CLI_FILES, .group = "Output", .help = "where to write it (default: standard output)"),
    CLI_ROW(convert_options, read_as, const char *, CLI_TEXT, .name = "read-as", .value = "FORMAT",
            .complete = CLI_WORDS, .words = STK__BENCH_READ_WORDS, .group = "Reading",
            .help = "one of: " STK__BENCH_READ_LIST " (default: by the content)"),
    CLI_OPTION_END,
};

static const cli_meaning convert_elsewhere[] = {
    {"--export", "--to FORMAT -o FILE"},
    {"--json", "--to stoker"},
    {NULL, NULL},
};

static const cli_example convert_examples[] = {
    {"for pyperf's own tools", "stoker bench convert --to pyperf -o pyperf.json runs.json"},
    {"for benchstat", "stoker bench convert --to go runs.json > runs.txt"},
    {"for github-action-benchmark", "stoker bench convert --to github -o output.json runs.json"},
    {NULL, NULL},
};

const cli_command cli_command_bench_convert = {
    .name = "bench convert",
    .summary = "rewrite results for another tool",
    .usage = "--to FORMAT [-o OUT] FILE",
    .about = "Reads results of these, plain or gzipped: " STK__BENCH_READ_TOOLS
             ". Writes them in the format of another. What a "
             "format cannot carry is told.",
    .options = convert_options_table,
    .examples = convert_examples,
    .elsewhere = convert_elsewhere,
    .complete = CLI_FILES,
    .options_size = sizeof(convert_options),
    .max_arguments = 1,
    .run = convert_run,
};
