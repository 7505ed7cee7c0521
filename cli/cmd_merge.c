/* stoker merge: files of many ranks and workers on one timeline, with their clocks aligned. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyze/merge.h"
#include "base/file.h"
#include "base/mem.h"
#include "workbench.h"

#include "base/banned.h"

typedef struct merge_options {
    cli_trace_options trace;
    const char *output, *align, *to;
    cli_list offsets;
    bool json;
} merge_options;

/* ---- the files ---- */

/* What makes two paths one file. */
typedef struct identity {
    const char *path;
    dev_t device;
    ino_t inode;
    bool is_stdin;
} identity;

static int compare_identities(const void *a, const void *b)
{
    const identity *x = a, *y = b;
    if (x->is_stdin != y->is_stdin)
        return x->is_stdin ? -1 : 1;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return (x->inode > y->inode) - (x->inode < y->inode);
}

static bool identify(const char *path, identity *out)
{
    struct stat st;
    *out = (identity){.path = path, .is_stdin = strcmp(path, "-") == 0};
    if (out->is_stdin)
        return true;
    if (stat(path, &st) != 0)
        return false; /* opening it will say why */
    out->device = st.st_dev;
    out->inode = st.st_ino;
    return true;
}

static int check_duplicates(const stk__paths *paths, const char *output)
{
    identity *rows = stk__calloc(paths->count, sizeof *rows), target;
    if (!rows) {
        cli_say("stoker: out of memory");
        return CLI_FAILED;
    }
    const bool target_exists = strcmp(output, "-") != 0 && identify(output, &target);
    size_t count = 0;
    int code = CLI_OK;
    for (size_t i = 0; i < paths->count; i++)
        count += identify(paths->items[i], &rows[count]);
    qsort(rows, count, sizeof *rows, compare_identities);
    for (size_t i = 0; i < count && code == CLI_OK; i++) {
        if (i && compare_identities(&rows[i - 1], &rows[i]) == 0)
            code = cli_usage_error(&cli_command_merge, "'%s' and '%s' are the same file: wanted each one once",
                                   rows[i - 1].path, rows[i].path);
        else if (target_exists && compare_identities(&rows[i], &target) == 0)
            code = cli_usage_error(&cli_command_merge, "the output '%s' is one of the files to merge", output);
    }
    stk__free(rows);
    return code;
}

static int expand(const cli_arguments *arguments, stk__paths *out)
{
    stk_error err;
    stk_error_clear(&err);
    for (size_t i = 0; i < arguments->count; i++) {
        if (stk__paths_glob(out, arguments->items[i], &err) != STK_OK) {
            cli_say_error(&err, NULL, NULL);
            return cli_exit_code(&err);
        }
    }
    return CLI_OK;
}

/* ---- options ---- */

static bool read_align(const char *text, stk__align *out)
{
    static const char *const names[] = {[STK__ALIGN_AUTO] = "auto",
                                        [STK__ALIGN_COLLECTIVES] = "collectives",
                                        [STK__ALIGN_STEPS] = "steps",
                                        [STK__ALIGN_REALTIME] = "realtime",
                                        [STK__ALIGN_NONE] = "none"};
    *out = STK__ALIGN_AUTO;
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        if (text && strcmp(names[i], text) == 0)
            *out = (stk__align)i;
    }
    if (!text || strcmp(names[*out], text) == 0)
        return true;
    const char *near = stk__nearest(text, names, STK_COUNT(names));
    cli_usage_error(&cli_command_merge, "--align wants auto, collectives, steps, realtime or none, found '%s'%s%s%s",
                    text, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return false;
}

static bool read_signed_duration(const char *text, int64_t *out)
{
    const bool negative = *text == '-';
    if (!stk__parse_duration(text + (negative || *text == '+'), out))
        return false;
    *out = negative ? -*out : *out;
    return true;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* By its path, or by the last part of it when only one file has that. */
static uint32_t find_file(const stk__trace *t, const char *name)
{
    uint32_t found = STK__NONE;
    for (uint32_t i = 0; i < t->file_count; i++) {
        const char *path = stk__trace_str(t, t->files[i].path);
        if (strcmp(path, name) == 0)
            return i;
        if (strcmp(last_part(path), name) == 0)
            found = found == STK__NONE ? i : STK__NONE - 1;
    }
    return found;
}

/* FILE=DURATION; the last '=' counts, as paths may have one. */
static int read_offset(const stk__trace *t, const char *text, stk__given_offset *out)
{
    const char *equals = strrchr(text, '=');
    int64_t shift;
    if (!equals || equals == text || !read_signed_duration(equals + 1, &shift))
        return cli_usage_error(&cli_command_merge, "--offset wants FILE=DURATION, as in rank1.json=-1.5ms, found '%s'",
                               text);
    char *name = stk__strndup(text, (size_t)(equals - text));
    if (!name) {
        cli_say("stoker: out of memory");
        return CLI_FAILED;
    }
    const uint32_t file = find_file(t, name);
    int code = CLI_OK;
    if (file == STK__NONE)
        code = cli_usage_error(&cli_command_merge, "--offset %s: no such file among those to merge", text);
    else if (file >= t->file_count)
        code = cli_usage_error(&cli_command_merge, "--offset %s: several files are called so, wanted the whole path",
                               text);
    *out = (stk__given_offset){file, shift};
    stk__free(name);
    return code;
}

static int read_offsets(const stk__trace *t, const cli_list *list, stk__given_offset **out)
{
    stk__given_offset *rows = stk__calloc(list->count, sizeof *rows);
    if (!rows) {
        cli_say("stoker: out of memory");
        return CLI_FAILED;
    }
    int code = CLI_OK;
    for (size_t i = 0; i < list->count && code == CLI_OK; i++) {
        code = read_offset(t, list->items[i], &rows[i]);
        for (size_t k = 0; k < i && code == CLI_OK; k++) {
            if (rows[k].file == rows[i].file)
                code =
                    cli_usage_error(&cli_command_merge, "--offset %s: this file has an offset already", list->items[i]);
        }
    }
    *out = rows;
    return code;
}

/* ---- what was done ---- */

static void text_ns(stk__text *out, int64_t ns, bool with_sign)
{
    const double x = (double)ns, size = fabs(x);
    const char *sign = with_sign && ns >= 0 ? "+" : "";
    if (size >= 1e9)
        stk__text_printf(out, "%s%.6f s", sign, x / 1e9);
    else if (size >= 1e6)
        stk__text_printf(out, "%s%.3f ms", sign, x / 1e6);
    else if (size >= 1e3)
        stk__text_printf(out, "%s%.3f us", sign, x / 1e3);
    else
        stk__text_printf(out, "%s%.0f ns", sign, x);
}

static void text_estimate(stk__text *out, const stk__merge_file *f)
{
    if (f->matched)
        stk__text_printf(out, "; %zu of %zu events matched", f->matched, f->shared);
    if (f->error_ns >= 0) {
        stk__text_puts(out, ", error at most about ");
        text_ns(out, f->error_ns, false);
    } else if (f->by != STK__ALIGNED_GIVEN) {
        stk__text_puts(out,
                       f->by == STK__ALIGNED_REALTIME ? ", as good as the hosts' clocks agree" : ", error not known");
    }
    if (f->matched > 1) {
        stk__text_puts(out, ", events lie ");
        text_ns(out, f->low_ns, true);
        stk__text_puts(out, " to ");
        text_ns(out, f->high_ns, true);
        stk__text_puts(out, " around");
    }
    if (f->retime.drift != 0)
        stk__text_printf(out, "; drift of %+.2f ppm taken out", 1e6 * f->retime.drift);
    else if (f->matched >= 16)
        stk__text_puts(out, "; no drift seen");
}

static void text_file(stk__text *out, const stk__merge *m, size_t i)
{
    const stk__merge_file *f = &m->files[i];
    if (f->by == STK__ALIGNED_NOT) {
        stk__text_printf(out, "NOT aligned, times kept: %s", f->why ? f->why : "nothing in common");
        return;
    }
    if (f->by == STK__ALIGNED_REFERENCE || f->by == STK__ALIGNED_KEPT) {
        stk__text_puts(out, stk__aligned_text(f->by));
        return;
    }
    text_ns(out, f->retime.shift_ns, true);
    stk__text_printf(out, ", by %s", stk__aligned_text(f->by));
    text_estimate(out, f);
    if (f->ambiguous) {
        stk__text_puts(out, "; AMBIGUOUS: ");
        text_ns(out, f->other_shift_ns, true);
        stk__text_puts(out, " fits as well (the events repeat evenly), give --offset if that is right");
    }
}

/* A line for each file; files behind each other of which the same is said share one. */
static void report(const stk__trace *t, const stk__merge *m)
{
    stk__text line = STK__TEXT_INIT, next = STK__TEXT_INIT;
    for (size_t i = 0, end; i < m->count; i = end) {
        stk__text_reset(&line);
        text_file(&line, m, i);
        for (end = i + 1; end < m->count; end++) {
            stk__text_reset(&next);
            text_file(&next, m, end);
            if (next.failed || line.failed || next.length != line.length ||
                memcmp(next.data, line.data, line.length) != 0)
                break;
        }
        const char *path = stk__trace_str(t, t->files[i].path);
        const char *text = line.failed || !line.data ? "stoker: out of memory" : line.data;
        if (end - i > 1)
            cli_say("%s and %zu more: %s", path, end - i - 1, text);
        else
            cli_say("%s: %s", path, text);
    }
    stk__text_clear(&line);
    stk__text_clear(&next);
}

static void json_file(stk__text *out, const stk__trace *t, const stk__merge *m, size_t i)
{
    const stk__merge_file *f = &m->files[i];
    stk__text_puts(out, "{\"file\":");
    stk__text_json_str(out, stk__trace_str(t, t->files[i].path));
    stk__text_printf(out, ",\"aligned_by\":\"%s\",\"shift_ns\":%lld,\"matched\":%zu,\"shared\":%zu",
                     stk__aligned_name(f->by), (long long)f->retime.shift_ns, f->matched, f->shared);
    if (f->error_ns >= 0)
        stk__text_printf(out, ",\"error_ns\":%lld", (long long)f->error_ns);
    else
        stk__text_puts(out, ",\"error_ns\":null");
    stk__text_printf(out, ",\"low_ns\":%lld,\"high_ns\":%lld,\"origin_ns\":%lld,\"drift_ppm\":", (long long)f->low_ns,
                     (long long)f->high_ns, (long long)f->retime.origin_ns);
    stk__text_json_double(out, 1e6 * f->retime.drift);
    stk__text_printf(out, ",\"ambiguous\":%s,\"why\":", f->ambiguous ? "true" : "false");
    stk__text_json_str(out, f->why ? f->why : "");
    stk__text_putc(out, '}');
}

static void report_json(const stk__trace *t, const stk__merge *m)
{
    stk__text out = STK__TEXT_INIT;
    stk__text_puts(&out, "[");
    for (size_t i = 0; i < m->count; i++) {
        stk__text_puts(&out, i ? ",\n" : "");
        json_file(&out, t, m, i);
    }
    stk__text_puts(&out, "]\n");
    cli_out_text(&out);
}

/* ---- running ---- */

/* A way to align that was asked for by name has to work for all files. */
static int check_aligned(const stk__trace *t, const stk__merge *m, stk__align align)
{
    size_t count = 0, first = 0;
    for (size_t i = m->count; i-- > 0;) {
        if (m->files[i].by == STK__ALIGNED_NOT) {
            first = i;
            count++;
        }
    }
    if (!count || align == STK__ALIGN_AUTO)
        return CLI_OK;
    cli_say(
        "stoker: %s: %s (%zu of %zu files cannot be aligned so; give --offset FILE=DURATION for them, or --align auto)",
        stk__trace_str(t, t->files[first].path), m->files[first].why, count, m->count);
    return CLI_FAILED;
}

static int align_and_write(const merge_options *o, stk__align align, const stk__trace_writer *writer, stk__trace *t)
{
    stk_error err;
    stk_error_clear(&err);
    stk__given_offset *offsets = NULL;
    stk__merge m = {0};
    stk__write_report written = {0};
    int code = read_offsets(t, &o->offsets, &offsets);
    if (code == CLI_OK) {
        const stk__merge_options options = {.align = align, .offsets = offsets, .offset_count = o->offsets.count};
        stk_status status = stk__merge_find(t, &options, &m, &err);
        if (status == STK_OK)
            code = check_aligned(t, &m, align);
        if (status == STK_OK && code == CLI_OK)
            status = stk__merge_apply(t, &m, &err);
        if (status == STK_OK && code == CLI_OK)
            status = stk__trace_write(t, o->output, writer, &written, &err);
        if (status != STK_OK) {
            cli_say_error(&err, NULL, NULL);
            code = cli_exit_code(&err);
        }
    }
    if (code == CLI_OK) {
        if (o->json)
            report_json(t, &m);
        else if (!o->trace.quiet)
            report(t, &m);
        if (!o->trace.quiet)
            cli_say_written(o->output, writer, &written);
    }
    stk__merge_clear(&m);
    stk__free(offsets);
    return code;
}

static int find_writer(const merge_options *o, const stk__trace_writer **out)
{
    if (!o->output || !o->output[0])
        return cli_usage_error(&cli_command_merge, "no output; give -o FILE, as in -o all.pftrace");
    if (o->json && strcmp(o->output, "-") == 0)
        return cli_usage_error(&cli_command_merge, "--json and the trace cannot both go to standard output");
    *out = o->to ? stk__trace_writer_find(o->to) : stk__trace_writer_for(o->output, NULL);
    if (o->to && !*out)
        return cli_usage_error(&cli_command_merge,
                               "--to wants chrome, perfetto, collapsed, speedscope, sqlite, csv or ndjson, found '%s'",
                               o->to);
    if (!*out)
        return cli_usage_error(&cli_command_merge, "cannot tell the format of '%s' by its ending; give --to FORMAT",
                               o->output);
    if (!(*out)->write && strcmp(o->output, "-") == 0)
        return cli_usage_error(&cli_command_merge, "format %s needs a file, not standard output", (*out)->name);
    return CLI_OK;
}

static int merge_run(const void *options, const cli_arguments *arguments)
{
    const merge_options *o = options;
    const stk__trace_writer *writer = NULL;
    stk__align align;
    if (!arguments->count)
        return cli_no_trace(&cli_command_merge);
    int code = find_writer(o, &writer);
    if (code == CLI_OK && !read_align(o->align, &align))
        code = CLI_USAGE;
    if (code != CLI_OK)
        return code;
    stk__paths paths = {0};
    stk__trace *t = NULL;
    code = expand(arguments, &paths);
    if (code == CLI_OK)
        code = check_duplicates(&paths, o->output);
    if (code == CLI_OK)
        code = cli_trace_open(&cli_command_merge, &o->trace, arguments->items, arguments->count, &t);
    if (code == CLI_OK)
        code = align_and_write(o, align, writer, t);
    stk__trace_free(t);
    stk__paths_clear(&paths);
    return code;
}

static const cli_option merge_options_table[] = {
    CLI_ROW(merge_options, output, const char *, CLI_TEXT, .name = "output", .letter = 'o', .value = "FILE",
            .complete = CLI_FILES, .group = "Output",
            .help = "where to write; .gz or .zst at the end compresses; '-' is standard output"),
    CLI_ROW(merge_options, to, const char *, CLI_TEXT, .name = "to", .value = "FORMAT", .complete = CLI_WORDS,
            .words = "chrome perfetto collapsed speedscope sqlite csv ndjson", .group = "Output",
            .help = "chrome, perfetto, collapsed, speedscope, sqlite, csv or ndjson (default: by the ending of FILE)"),
    CLI_ROW(merge_options, json, bool, CLI_FLAG, .name = "json", .group = "Output",
            .help = "shifts, error bounds and drifts as JSON on standard output, in place of text on standard error"),
    CLI_ROW(merge_options, align, const char *, CLI_TEXT, .name = "align", .value = "HOW", .complete = CLI_WORDS,
            .words = "auto steps collectives realtime none", .group = "Clocks",
            .help = "auto (default), or only collectives, steps or realtime; none keeps all times"),
    CLI_ROW(merge_options, offsets, cli_list, CLI_LIST, .name = "offset", .value = "FILE=DURATION",
            .complete = CLI_FILES, .group = "Clocks",
            .help =
                "add this to the file's times, as in rank1.json=-1.5ms, and do not estimate it; may be given again"),
    CLI_TRACE_ROWS(merge_options, trace),
    CLI_OPTION_END,
};

static const cli_example merge_examples[] = {
    {"all ranks on one timeline", "stoker merge rank*.json.gz -o all.pftrace"},
    {"a trainer and its DataLoader workers", "stoker merge trainer.json.gz worker-*.json -o all.json.gz"},
    {"one rank's clock is known to be 11.56 s ahead",
     "stoker merge rank0.json rank1.json --offset rank1.json=-11.56s -o all.pftrace"},
    {"how clocks differ, for programs", "stoker merge rank*.json.gz -o all.pftrace --json"},
    {NULL, NULL},
};

const cli_command cli_command_merge = {
    .name = "merge",
    .summary = "join traces of ranks and workers into one timeline, with their clocks aligned",
    .usage = "[OPTION]... FILE... -o OUT",
    .about =
        "Reads all files, works out how their clocks differ, shifts their times to those of the first file and "
        "writes one trace. Processes of different files stay apart, also with equal pids, unless --join-processes "
        "says that they are one. A clock is aligned by, in "
        "this order: --offset; being the same monotonic clock of the same host; collectives and barriers, which all "
        "ranks leave together; the starts of steps of equal number; the hosts' real time. For each file it says the "
        "shift, what it rests on, how many events matched, the error and whether the clock drifted.\n"
        "A file that has nothing of this in common with the others is not guessed: it keeps its times, and that is "
        "said.",
    .options = merge_options_table,
    .examples = merge_examples,
    .complete = CLI_FILES,
    .options_size = sizeof(merge_options),
    .max_arguments = SIZE_MAX,
    .run = merge_run,
};
