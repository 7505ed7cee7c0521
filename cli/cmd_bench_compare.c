/* stoker bench compare: results that were measured before, by this or another tool. */
#include <string.h>

#include "base/mem.h"
#include "bench.h"

#include "base/banned.h"

typedef struct compare_options {
    bench_rule_options rule;
    bench_output_options output;
    const char *read_as;
} compare_options;

/* The last part of a path, which tells benchmarks of one name apart. */
static const char *short_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int read_all(const compare_options *o, const cli_arguments *arguments, stk__result *r)
{
    for (size_t i = 0; i < arguments->count; i++) {
        stk__result one = {0};
        stk_error err = {0};
        int code = bench_read(arguments->items[i], o->read_as, &one);
        if (code == CLI_OK && i == 0) {
            *r = one;
            continue;
        }
        if (code == CLI_OK && stk__bench_join(r, &one, short_name(arguments->items[i]), &err) != STK_OK)
            code = bench_fail(&err);
        stk__result_clear(&one);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

static int compare_all(const compare_options *o, stk__result *r)
{
    stk_error err = {0};
    stk__compare_pair *pairs = NULL;
    size_t count = 0;
    stk__comparisons c = {0};
    const stk__rule rule = bench_rule(&o->rule, r->metrics[r->primary].name);
    stk_status status = stk__compare_groups(r, &pairs, &count, &err);
    if (status == STK_OK)
        status = stk__compare(r, &rule, pairs, count, r->primary, &c, &err);
    int code = CLI_OK;
    if (status != STK_OK) {
        code = bench_fail(&err);
    } else {
        code = bench_finish(r, &c, pairs, count, &o->output, CLI_OK);
        code = bench_gate(r, &c, o->rule.fail_over, code);
    }
    stk__comparisons_clear(&c);
    stk__free(pairs);
    return code;
}

static int compare_run(const void *options, const cli_arguments *arguments)
{
    const compare_options *o = options;
    stk__result r = {0};
    if (!arguments->count)
        return cli_usage_error(&cli_command_bench_compare, "no file; try: stoker bench compare before.json after.json");
    if (o->rule.confidence >= 1)
        return cli_usage_error(&cli_command_bench_compare, "--confidence wants less than 100%%");
    int code = bench_check_output(&o->output, &cli_command_bench_compare);
    if (code == CLI_OK)
        code = read_all(o, arguments, &r);
    if (code == CLI_OK)
        code = compare_all(o, &r);
    stk__result_clear(&r);
    return code;
}

static const cli_option compare_options_table[] = {
    CLI_ROW(compare_options, read_as, const char *, CLI_TEXT, .name = "read-as", .value = "FORMAT",
            .complete = CLI_WORDS, .words = STK__BENCH_READ_WORDS, .group = "Reading",
            .help = "one of: " STK__BENCH_READ_LIST " (default: by the content)"),
    BENCH_RULE_ROWS(compare_options, rule),
    BENCH_OUTPUT_ROWS(compare_options, output),
    CLI_OPTION_END,
};

static const cli_meaning compare_elsewhere[] = {
    {"--to", "--export FORMAT=FILE, or 'stoker bench convert --to FORMAT'"},
    {"-o", "--export FORMAT=FILE"},
    {NULL, NULL},
};

static const cli_example compare_examples[] = {
    {"two runs of hyperfine", "stoker bench compare before.json after.json"},
    {"what Go's benchmarks printed, with a gate for CI", "stoker bench compare --fail-over 5% old.txt new.txt"},
    {"a saved comparison again, with another margin", "stoker bench compare --min-effect 5% saved.json"},
    {NULL, NULL},
};

const cli_command cli_command_bench_compare = {
    .name = "bench compare",
    .summary = "compare results of this and other tools",
    .usage = "[OPTION]... FILE [FILE]...",
    .about =
        "Reads results of these, plain or gzipped: " STK__BENCH_READ_TOOLS
        ". In one file everything is compared with the "
        "first of its group; of two files, what has the same name.\n"
        "Only results of stoker bench are known to have run in turns. All others are compared by Mann-Whitney and Welch, "
        "with the words 'unpaired: order not controlled': drift of the machine between them looks like a change.",
    .options = compare_options_table,
    .examples = compare_examples,
    .elsewhere = compare_elsewhere,
    .complete = CLI_FILES,
    .options_size = sizeof(compare_options),
    .max_arguments = 100,
    .run = compare_run,
};
