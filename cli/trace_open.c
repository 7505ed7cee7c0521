/* Opening and writing of traces for the commands on them: patterns, progress, and what was left out or changed. */
#include <stdlib.h>
#include <string.h>

#include "analyze/workbench.h"
#include "base/clock.h"
#include "base/mem.h"
#include "workbench.h"

#include "base/banned.h"

static const int64_t draw_every_ns = 100 * 1000 * 1000;

typedef struct progress {
    int64_t drawn_ns;
} progress;

static bool show_progress(void *arg, const char *path, uint64_t done_bytes, uint64_t total_bytes)
{
    progress *p = arg;
    const int64_t now = stk__now_ns();
    if (cli_live_possible() && now - p->drawn_ns > draw_every_ns) {
        stk__text line = STK__TEXT_INIT;
        stk__text_printf(&line, "reading %s: ", path);
        stk__text_bytes(&line, done_bytes);
        if (total_bytes) {
            stk__text_puts(&line, " of ");
            stk__text_bytes(&line, total_bytes);
            stk__text_printf(&line, ", %d %%", (int)(100.0 * (double)done_bytes / (double)total_bytes));
        }
        if (!line.failed)
            cli_live(line.data);
        stk__text_clear(&line);
        p->drawn_ns = now;
    }
    return !cli_interrupted();
}

/* What is said of one reason, in all files together. */
typedef struct noted {
    uint64_t count;
    size_t files;
    const stk__trace_note *first;
} noted;

static void collect_notes(const stk__trace *t, noted *out)
{
    for (size_t i = 0; i < t->note_count; i++) {
        const stk__trace_note *n = &t->notes[i];
        if (n->reason >= STK__REASON_COUNT || n->file >= t->file_count)
            continue;
        noted *sum = &out[n->reason];
        sum->count += STK_MIN(n->count, INT64_MAX - sum->count);
        sum->files++;
        if (!sum->first || n->file < sum->first->file)
            sum->first = n;
    }
}

/* "(first at byte 12)", "(first in a.json at byte 12)" */
static void put_first(stk__text *line, const stk__trace *t, const noted *sum)
{
    const bool many = sum->files > 1;
    if (!many && sum->first->offset < 0)
        return;
    stk__text_puts(line, " (first");
    if (many)
        stk__text_printf(line, " in %s", stk__trace_str(t, t->files[sum->first->file].path));
    if (sum->first->offset >= 0)
        stk__text_printf(line, " at byte %lld", (long long)sum->first->offset);
    stk__text_puts(line, ")");
}

static void say_noted(const stk__trace *t, stk__trace_reason reason, const noted *sum)
{
    stk__text line = STK__TEXT_INIT;
    if (sum->files > 1)
        stk__text_printf(&line, "%zu files: ", sum->files);
    else
        stk__text_printf(&line, "%s: ", stk__trace_str(t, t->files[sum->first->file].path));
    if (reason != STK__REASON_NO_EVENTS) {
        stk__text_puts(&line, stk__trace_reason_loses(reason) ? "left out " : "noted ");
        cli_text_count(&line, (int64_t)sum->count);
        stk__text_puts(&line, ": ");
    }
    stk__text_puts(&line, stk__trace_reason_text(reason));
    put_first(&line, t, sum);
    if (!line.failed)
        cli_say("%s", line.data);
    stk__text_clear(&line);
}

/* Only what is missing, and times that are not the file's; the rest is for whoever asks the table. Losses first: they matter more. */
static void say_notes(const stk__trace *t, bool all)
{
    noted sums[STK__REASON_COUNT] = {0};
    collect_notes(t, sums);
    for (int losses = 1; losses >= 0; losses--) {
        for (int i = 0; i < STK__REASON_COUNT; i++) {
            const stk__trace_reason reason = (stk__trace_reason)i;
            if (sums[i].files && (all || stk__trace_reason_matters(reason)) &&
                stk__trace_reason_loses(reason) == (losses == 1))
                say_noted(t, reason, &sums[i]);
        }
    }
}

int cli_no_trace(const cli_command *command)
{
    return cli_usage_error(command, "no trace; give one or more files, or - for standard input");
}

static void say_repeated(void *arg, const char *path, const char *before)
{
    const bool *quiet = arg;
    if (!*quiet)
        cli_say("%s: the same file as %s, read once", path, before);
}

static int expand(const cli_command *command, char *const *paths, size_t count, bool quiet, stk__paths *out)
{
    stk_error err;
    stk_error_clear(&err);
    if (!count)
        return cli_no_trace(command);
    size_t pipes = 0;
    for (size_t i = 0; i < count; i++)
        pipes += strcmp(paths[i], "-") == 0;
    if (pipes > 1)
        return cli_usage_error(command, "'-' given %zu times; standard input can be read once", pipes);
    if (stk__trace_paths((const char *const *)paths, count, out, say_repeated, &quiet, &err) == STK_OK)
        return CLI_OK;
    cli_say_error(&err, NULL, NULL);
    return cli_exit_code(&err);
}

int cli_trace_open(const cli_command *command, const cli_trace_options *options, char *const *paths, size_t count,
                   stk__trace **out)
{
    stk__paths expanded = {0};
    int code = CLI_OK;
    if (options->cache_dir && options->no_cache && count)
        code = cli_usage_error(command, "--cache-dir and --no-cache exclude each other");
    stk__join_processes join = STK__JOIN_AUTO;
    if (code == CLI_OK && !stk__join_find(options->join, &join))
        code = cli_usage_error(command, "--join-processes wants auto, always or never, found '%s'", options->join);
    if (code == CLI_OK)
        code = expand(command, paths, count, options->quiet, &expanded);
    if (code != CLI_OK) {
        stk__paths_clear(&expanded);
        return code;
    }
    char *cache_dir = options->no_cache ? NULL : options->cache_dir ? stk__strdup(options->cache_dir) : cli_cache_dir();
    progress drawn = {stk__now_ns()};
    const char *temp_dir = options->temp_dir ? options->temp_dir : getenv("TMPDIR");
    const stk__trace_options how = {.memory_bytes = options->memory_bytes,
                                    .temp_dir = temp_dir && temp_dir[0] ? temp_dir : NULL,
                                    .cache_dir = cache_dir,
                                    .format = options->format,
                                    .join = join,
                                    .progress = show_progress,
                                    .progress_arg = &drawn};
    stk_error err;
    stk_error_clear(&err);
    cli_interrupts_catch();
    const stk_status status = stk__trace_open((const char *const *)expanded.items, expanded.count, &how, out, &err);
    cli_live_clear();
    if (status == STK_OK)
        (*out)->stopped = cli_interrupted;
    if (status == STK_OK && !options->quiet)
        say_notes(*out, options->all_notes);
    if (status != STK_OK) {
        cli_say_error(&err, NULL, NULL);
        code = cli_exit_code(&err);
    }
    stk__free(cache_dir);
    stk__paths_clear(&expanded);
    return code;
}

/* ---- written ---- */

typedef struct counted {
    uint64_t count;
    const char *one, *many;
} counted;

/* "12 slices, 1 counter value"; nothing when all are 0. */
static void put_counts(stk__text *t, const counted *items, size_t count)
{
    const char *before = "";
    for (size_t i = 0; i < count; i++) {
        if (!items[i].count)
            continue;
        stk__text_puts(t, before);
        cli_text_count(t, (int64_t)STK_MIN(items[i].count, (uint64_t)INT64_MAX));
        stk__text_printf(t, " %s", items[i].count == 1 ? items[i].one : items[i].many);
        before = ", ";
    }
}

void cli_say_written(const char *output, const stk__trace_writer *writer, const stk__write_report *r)
{
    const counted written[] = {{r->slices, "slice", "slices"},
                               {r->counters, "counter value", "counter values"},
                               {r->flows, "flow point", "flow points"},
                               {r->samples, "sample", "samples"},
                               {r->functions, "function", "functions"}};
    const counted lost[] = {{r->lost_slices, "slice", "slices"},
                            {r->lost_counters, "counter value", "counter values"},
                            {r->lost_flows, "flow point", "flow points"},
                            {r->lost_samples, "sample", "samples"},
                            {r->lost_functions, "function", "functions"},
                            {r->lost_args, "arg", "args"},
                            {r->lost_facts, "fact about the file", "facts about the files"}};
    stk__text line = STK__TEXT_INIT;
    put_counts(&line, written, STK_COUNT(written));
    cli_say("%s: wrote %s as %s", strcmp(output, "-") == 0 ? "standard output" : output,
            line.length ? line.data : "an empty trace", writer->name);
    stk__text_reset(&line);
    put_counts(&line, lost, STK_COUNT(lost));
    if (line.length)
        cli_say("left out, for the format %s cannot carry them: %s", writer->name, line.data);
    if (r->estimated_stacks)
        cli_say(
            "the stacks are an estimate: a profile of functions knows who called whom, not whole stacks; the time of "
            "each function is exact");
    if (r->shortened_slices)
        cli_say("shortened to fit into the slices around them: %llu slices", (unsigned long long)r->shortened_slices);
    if (r->shift_ns)
        cli_say("all times were moved by %lld ns, for the format %s has no negative ones", (long long)r->shift_ns,
                writer->name);
    stk__text_clear(&line);
}
