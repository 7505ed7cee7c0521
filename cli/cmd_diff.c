/* stoker diff: two traces compared, with a test per name and an exit code for a regression. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "analyze/diff.h"
#include "base/mem.h"
#include "workbench.h"

#include "base/banned.h"

typedef struct diff_options {
    cli_trace_options trace;
    cli_list before, after;
    cli_format_options format;
    const char *by;
    double fail_over, min_change, min_share; /* negative: not given */
    int64_t limit;
} diff_options;

/* ---- reading options ---- */

/* A default stays where an option was not given. */
static void set_given(double given, double *out)
{
    if (given >= 0)
        *out = given;
}

static bool read_by(const char *text, stk__diff_by *out_by, stk__diff_section *out_section)
{
    static const struct {
        const char *name;
        stk__diff_by by;
        stk__diff_section section;
    } rows[] = {{"name", STK__DIFF_NAME, STK__DIFF_ALL},         {"category", STK__DIFF_CATEGORY, STK__DIFF_ALL},
                {"thread", STK__DIFF_THREAD, STK__DIFF_ALL},     {"process", STK__DIFF_PROCESS, STK__DIFF_ALL},
                {"step", STK__DIFF_NAME, STK__DIFF_ONLY_STEP},   {"stage", STK__DIFF_NAME, STK__DIFF_ONLY_STAGE},
                {"stack", STK__DIFF_NAME, STK__DIFF_ONLY_STACK}, {"cat", STK__DIFF_CATEGORY, STK__DIFF_ALL}};
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        if (!text || strcmp(rows[i].name, text) == 0) {
            *out_by = rows[i].by;
            *out_section = rows[i].section;
            return true;
        }
    }
    const char *names[STK_COUNT(rows)];
    for (size_t i = 0; i < STK_COUNT(rows); i++)
        names[i] = rows[i].name;
    const char *near = stk__nearest(text, names, STK_COUNT(rows));
    if (near)
        cli_usage_error(&cli_command_diff, "--by: unknown '%s'; did you mean '%s'?", text, near);
    else
        cli_usage_error(&cli_command_diff,
                        "--by wants name, category, thread, process, step, stage or stack, found '%s'", text);
    return false;
}

/* ---- the files of one side ---- */

/* Parts of arguments, which it holds. */
typedef struct side_files {
    char **items;
    size_t count, capacity;
} side_files;

static void side_clear(side_files *s)
{
    for (size_t i = 0; i < s->count; i++)
        stk__free(s->items[i]);
    stk__free(s->items);
}

static bool side_add(side_files *s, const char *text, size_t size)
{
    if (!stk__grow((void **)&s->items, &s->capacity, s->count + 1, sizeof *s->items))
        return false;
    char *copy = stk__strndup(text, size);
    if (copy)
        s->items[s->count++] = copy;
    return copy != NULL;
}

/* A comma separates files, unless there is a file of that name. */
static bool side_split(side_files *s, const char *text)
{
    struct stat st;
    if (stat(text, &st) == 0)
        return side_add(s, text, strlen(text));
    while (true) {
        const size_t size = strcspn(text, ",");
        if (size && !side_add(s, text, size))
            return false;
        if (!text[size])
            return true;
        text += size + 1;
    }
}

/* From the option, else from the argument. */
static int side_read(side_files *s, const cli_list *list, const char *argument, const char *name)
{
    bool ok = true;
    for (size_t i = 0; i < list->count && ok; i++)
        ok = side_split(s, list->items[i]);
    if (argument)
        ok = ok && side_split(s, argument);
    if (!ok) {
        cli_say("stoker: out of memory");
        return CLI_FAILED;
    }
    if (!s->count)
        return cli_usage_error(&cli_command_diff, "no trace %s: wanted 'stoker diff BEFORE AFTER'", name);
    return CLI_OK;
}

static int read_sides(const diff_options *o, const cli_arguments *arguments, side_files sides[2])
{
    const size_t given = (o->before.count > 0) + (o->after.count > 0);
    if (given + arguments->count > 2)
        return cli_usage_error(&cli_command_diff,
                               "unexpected argument '%s': the sides are given by --before or --after",
                               arguments->items[arguments->count - 1]);
    size_t next = 0;
    const char *before = o->before.count || next >= arguments->count ? NULL : arguments->items[next++];
    const char *after = o->after.count || next >= arguments->count ? NULL : arguments->items[next++];
    int code = side_read(&sides[0], &o->before, before, "before");
    if (code == CLI_OK)
        code = side_read(&sides[1], &o->after, after, "after");
    size_t pipes = 0;
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < sides[side].count; i++)
            pipes += strcmp(sides[side].items[i], "-") == 0;
    }
    if (code == CLI_OK && pipes > 1)
        code = cli_usage_error(&cli_command_diff, "'-' given %zu times; standard input can be read once", pipes);
    return code;
}

/* ---- running ---- */

static int show(const stk__diff *d, cli_format format, stk__diff_section section, int64_t limit)
{
    stk__text text = STK__TEXT_INIT;
    const size_t rows = limit >= 0 ? (size_t)limit : format == CLI_TABLE ? 20 : 0;
    if (format == CLI_JSON)
        stk__diff_json(d, section, rows, &text);
    else if (format == CLI_CSV || format == CLI_RAW_CSV)
        stk__diff_csv(d, section, rows, format == CLI_RAW_CSV, &text);
    else
        stk__diff_text(d, section, rows, &text);
    cli_out_text(&text);
    if (!d->regression)
        return CLI_OK;
    if (format != CLI_TABLE && isinf(d->rule_change)) /* a table says it itself */
        cli_say("stoker: regression: %s, from 0, limit +%g %%", stk__diff_rule_text(d->rule),
                100 * d->options.fail_over);
    else if (format != CLI_TABLE)
        cli_say("stoker: regression: %s %+.1f %%, limit +%g %%", stk__diff_rule_text(d->rule), 100 * d->rule_change,
                100 * d->options.fail_over);
    return CLI_REGRESSION;
}

static int compare(const diff_options *o, const stk__diff_options *options, cli_format format,
                   stk__diff_section section, stk__trace *const traces[2])
{
    stk_error err;
    stk_error_clear(&err);
    stk__diff d;
    if (stk__diff_make(traces[0], traces[1], options, &d, &err) != STK_OK) {
        cli_say_error(&err, NULL, NULL);
        return cli_exit_code(&err);
    }
    int code = CLI_OK;
    if (o->fail_over >= 0 && d.basis == STK__DIFF_PER_SHARE)
        code = cli_usage_error(&cli_command_diff,
                               "--fail-over wants traces with slices; profiles have no durations to test");
    else
        code = show(&d, format, section, o->limit);
    stk__diff_clear(&d);
    return code;
}

static int diff_run(const void *options, const cli_arguments *arguments)
{
    const diff_options *o = options;
    stk__diff_options d = STK__DIFF_DEFAULTS;
    stk__diff_section section;
    cli_format format;
    set_given(o->fail_over, &d.fail_over);
    set_given(o->min_change, &d.min_change);
    set_given(o->min_share, &d.min_share);
    if (!read_by(o->by, &d.by, &section) || !cli_format_of(&cli_command_diff, &o->format, &format))
        return CLI_USAGE;
    side_files sides[2] = {{.count = 0}, {.count = 0}};
    stk__trace *traces[2] = {NULL, NULL};
    int code = read_sides(o, arguments, sides);
    for (int i = 0; i < 2 && code == CLI_OK; i++)
        code = cli_trace_open(&cli_command_diff, &o->trace, sides[i].items, sides[i].count, &traces[i]);
    if (code == CLI_OK)
        code = compare(o, &d, format, section, traces);
    stk__trace_free(traces[0]);
    stk__trace_free(traces[1]);
    side_clear(&sides[0]);
    side_clear(&sides[1]);
    return code;
}

static const cli_option diff_options_table[] = {
    CLI_ROW(diff_options, by, const char *, CLI_TEXT, .name = "by", .value = "WHAT", .complete = CLI_WORDS,
            .words = "name category thread process step stage stack", .group = "Comparison",
            .help = "groups that are compared: name (default), category, thread or process; "
                    "step, stage or stack show only that"),
    CLI_ROW(
        diff_options, fail_over, double, CLI_PERCENT, .name = "fail-over", .value = "PERCENT", .max = 1000000,
        .fallback = -1, .group = "Comparison",
        .help =
            "exit with 3 when the median step got slower by more, and significantly; without enough step markers, when "
            "the busy time of all names that changed significantly did, or that of all names where some appeared"),
    CLI_ROW(diff_options, min_change, double, CLI_PERCENT, .name = "min-change", .value = "PERCENT", .max = 1000000,
            .fallback = -1, .group = "Comparison",
            .help = "smaller changes are not called slower or faster, however significant (default 1%)"),
    CLI_ROW(diff_options, min_share, double, CLI_PERCENT, .name = "min-share", .value = "PERCENT", .max = 100,
            .fallback = -1, .group = "Comparison",
            .help = "names with less of the busy time on both sides are not tested (default 0.1%)"),
    CLI_ROW(diff_options, before, cli_list, CLI_LIST, .name = "before", .value = "FILE", .complete = CLI_FILES,
            .group = "Comparison", .help = "a file of the side before, in place of the argument; may be given again"),
    CLI_ROW(diff_options, after, cli_list, CLI_LIST, .name = "after", .value = "FILE", .complete = CLI_FILES,
            .group = "Comparison", .help = "the same for the side after"),
    CLI_FORMAT_ROWS(diff_options, format),
    CLI_ROW(diff_options, limit, int64_t, CLI_INT, .name = "limit", .value = "N", .min = 0, .max = INT64_MAX,
            .fallback = -1, .group = "Output", .help = "rows per section, 0 for all (default 20, all as CSV and JSON)"),
    CLI_TRACE_ROWS(diff_options, trace),
    CLI_OPTION_END,
};

static const cli_example diff_examples[] = {
    {"what changed since last week", "stoker diff before.json.gz after.json.gz"},
    {"in CI: fail when a step takes over 5 % longer",
     "stoker diff before.json.gz after.json.gz --fail-over 5% --quiet"},
    {"two runs of several ranks each", "stoker diff 'old/rank*.json.gz' 'new/rank*.json.gz' --by stage"},
    {"which code path costs more", "stoker diff before.pftrace after.pftrace --by stack --limit 50"},
    {"for programs", "stoker diff before.json after.json --format json"},
    {NULL, NULL},
};

const cli_command cli_command_diff = {
    .name = "diff",
    .summary = "compare two traces: what got slower, by how much, with significance",
    .usage = "[OPTION]... BEFORE AFTER\n[OPTION]... --before FILE... --after FILE...",
    .about =
        "Compares steps, names, stages of the input pipeline and stacks. Durations of each name are compared by the "
        "test of Mann and Whitney, and p is corrected for the number of names (Holm); a name is slower or faster "
        "when p is under 0.05 and its median or its time per step moved by more than --min-change. Traces of "
        "different length are compared per step when both have steps, else per call. Each side may be a pattern or "
        "several files separated by commas.\n"
        "Slices of one run are not independent of each other: p says whether these two runs differ, not whether the "
        "next one would. Profiles (samples, pstats) are compared by their shares of self time, without a test.",
    .options = diff_options_table,
    .examples = diff_examples,
    .complete = CLI_FILES,
    .options_size = sizeof(diff_options),
    .max_arguments = 2,
    .run = diff_run,
};
