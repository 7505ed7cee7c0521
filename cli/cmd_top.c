/* stoker top: totals per name, thread, category, file, step or process. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/classify.h"
#include "analyze/workbench.h"
#include "base/mem.h"
#include "top_calls.h"
#include "workbench.h"

#include "base/banned.h"

enum { LOST_SHOWN = 10 };

typedef struct top_options {
    cli_trace_options trace;
    cli_list like, category, track, own, callers, callees;
    cli_format_options format;
    const char *by, *sort;
    int64_t limit, from_ns, to_ns;
    bool with_name, all, no_fold, own_only;
} top_options;

/* ---- words ---- */

#define BY_WORDS "name thread category file step process"
#define SORT_WORDS "total self count mean max name cumulative tottime ncalls"

/* NULL is the first word. False after saying what is wrong. */
static bool find_word(const char *option, const char *text, const stk__word *words, const char *list, int *out)
{
    const char *nearest = NULL;
    if (stk__word_find(words, text, out, &nearest))
        return true;
    cli_usage_error(&cli_command_top, "--%s is '%s'; it takes one of: %s%s%s%s", option, text, list,
                    nearest ? " (did you mean '" : "", nearest ? nearest : "", nearest ? "'?)" : "");
    return false;
}

/* Offsets from the start of the trace become times; an end of 0 is its end. */
static bool read_times(const top_options *o, const stk__trace *t, stk__selection *select)
{
    if (!o->from_ns && !o->to_ns)
        return true;
    if (o->to_ns && o->to_ns <= o->from_ns) {
        cli_usage_error(&cli_command_top, "--to must lie after --from");
        return false;
    }
    if (__builtin_add_overflow(t->start_ns, o->from_ns, &select->from_ns))
        select->from_ns = INT64_MAX;
    if (!o->to_ns || __builtin_add_overflow(t->start_ns, o->to_ns, &select->to_ns))
        select->to_ns = INT64_MAX;
    return true;
}

static bool read_options(const top_options *o, stk__top_options *out)
{
    int by, sort;
    if (!find_word("by", o->by, stk__top_by_words, BY_WORDS, &by) ||
        !find_word("sort", o->sort, stk__top_sort_words, SORT_WORDS, &sort))
        return false;
    if (o->callers.count + o->callees.count &&
        ((o->callers.count && o->callees.count) || o->like.count || o->own.count || o->by || o->sort)) {
        cli_usage_error(&cli_command_top,
                        "--callers and --callees are questions of their own: each other, --like, --own, --by and "
                        "--sort do not go with them");
        return false;
    }
    if (o->own_only && !o->own.count) {
        cli_usage_error(&cli_command_top, "--own-only wants --own PATTERN, which says what is own");
        return false;
    }
    if (o->from_ns < 0 || o->to_ns < 0) {
        cli_usage_error(&cli_command_top, "--from and --to count from the start of the trace and cannot be negative");
        return false;
    }
    *out = (stk__top_options){.by = (stk__top_by)by,
                              .sort = (stk__top_sort)sort,
                              .with_name = o->with_name,
                              .fold = !o->no_fold,
                              .leave_out = !o->all,
                              .own = o->own.items,
                              .own_count = o->own.count,
                              .own_only = o->own_only,
                              .select = {.like = o->like.items,
                                         .like_count = o->like.count,
                                         .category = o->category.items,
                                         .category_count = o->category.count,
                                         .track = o->track.items,
                                         .track_count = o->track.count,
                                         .leave_out = !o->all}};
    return true;
}

/* ---- rows for programs ---- */

static void put_number(cli_table *table, int64_t number, bool known)
{
    if (known && number != STK__NO_NUMBER)
        cli_table_int(table, number);
    else
        cli_table_null(table);
}

static double percent(int64_t part, int64_t all)
{
    return all > 0 ? 100.0 * (double)part / (double)all : 0;
}

/* What rows are grouped by; the word has been checked. */
static stk__top_by grouped_by(const top_options *o)
{
    const char *nearest;
    int by = STK__TOP_NAME;
    stk__word_find(stk__top_by_words, o->by, &by, &nearest);
    return (stk__top_by)by;
}

static double percent_of(const top_options *o, const stk__top *top, const stk__top_row *row)
{
    return stk__top_percent(&(stk__top_options){.by = grouped_by(o), .with_name = o->with_name}, top, row);
}

static void put_data_row(cli_table *table, const top_options *o, const stk__trace *t, const stk__top *top,
                         const stk__top_row *row)
{
    const bool ns = row->unit == STK__UNIT_NS;
    cli_table_str(table, stk__top_label(t, top, row));
    cli_table_int(table, row->count);
    put_number(table, row->total, ns);
    if (ns)
        cli_table_double(table, row->mean);
    else
        cli_table_null(table);
    put_number(table, row->min, ns);
    put_number(table, row->max, ns);
    put_number(table, row->p50, ns);
    put_number(table, row->p95, ns);
    put_number(table, row->self, ns);
    cli_table_double(table, percent_of(o, top, row));
    cli_table_str(table, stk__top_source_names[top->source]);
    cli_table_str(table, stk__unit_names[row->unit]);
    cli_table_int(table, row->total);
    cli_table_int(table, row->self);
    cli_table_int(table, row->primitive);
    cli_table_int(table, row->estimate);
}

static size_t rows_shown(const top_options *o, size_t count)
{
    return o->limit && (uint64_t)o->limit < count ? (size_t)o->limit : count;
}

/* ---- tables for people ---- */

/* The columns, and what puts all of a row but its last cell, the label. */
typedef struct top_table {
    const char *const *columns;
    size_t count;
    void (*put)(cli_table *table, const top_options *o, const stk__top *top, const stk__top_row *row);
} top_table;

static void put_label(cli_table *table, const stk__trace *t, const stk__top *top, const stk__top_row *row)
{
    const char *label = stk__top_label(t, top, row);
    stk__text text = STK__TEXT_INIT;
    cli_text_name(&text, *label ? label : "(no name)");
    if (row->estimate)
        stk__text_puts(&text, " (self: estimate)");
    if (text.failed)
        cli_table_fail(table);
    else
        cli_table_str(table, text.data);
    stk__text_clear(&text);
}

static void put_percent(cli_table *table, double x)
{
    cli_table_double(table, round(x * 10) / 10);
}

static void put_slice_row(cli_table *table, const top_options *o, const stk__top *top, const stk__top_row *row)
{
    cli_table_int(table, row->count);
    cli_table_ns(table, row->total);
    put_percent(table, percent_of(o, top, row));
    cli_table_ns(table, row->self);
    cli_table_ns(table, (int64_t)STK_MIN(row->mean, 9.2e18));
    cli_table_ns(table, row->min);
    cli_table_ns(table, row->max);
    cli_table_ns(table, row->p50);
    cli_table_ns(table, row->p95);
}

static void put_weight(cli_table *table, const stk__top_row *row, int64_t weight)
{
    if (row->unit == STK__UNIT_NS)
        cli_table_ns(table, weight);
    else
        cli_table_int(table, weight);
}

/* Samples that count samples need no column of their own for that. */
static void put_count_row(cli_table *table, const top_options *o, const stk__top *top, const stk__top_row *row)
{
    put_weight(table, row, row->total);
    put_percent(table, percent_of(o, top, row));
    put_weight(table, row, row->self);
    put_percent(table, percent(row->self, top->totals[row->unit]));
}

static void put_sample_row(cli_table *table, const top_options *o, const stk__top *top, const stk__top_row *row)
{
    cli_table_int(table, row->count);
    put_count_row(table, o, top, row);
}

/* As pstats prints: "5/3" are five calls, three of which were not made by the function itself. */
static void put_function_row(cli_table *table, const top_options *o, const stk__top *top, const stk__top_row *row)
{
    if (row->primitive == row->count) {
        cli_table_int(table, row->count);
    } else {
        char calls[64];
        stk__text text;
        stk__text_fixed(&text, calls, sizeof calls);
        stk__text_printf(&text, "%lld/%lld", (long long)row->count, (long long)row->primitive);
        cli_table_str(table, calls);
    }
    cli_table_ns(table, row->self);
    cli_table_ns(table, row->count ? row->self / row->count : 0);
    cli_table_ns(table, row->total);
    cli_table_ns(table, row->primitive ? row->total / row->primitive : 0);
}

static const char *const slice_columns[] = {"count", "total", "%", "self", "mean", "min", "max", "p50", "p95", "name"};
static const char *const sample_columns[] = {"samples", "total", "%", "self", "self %", "name"};
static const char *const count_columns[] = {"samples", "%", "self", "self %", "name"};
static const char *const function_columns[] = {"ncalls", "tottime", "percall", "cumtime", "percall", "function"};

static const top_table slice_table = {slice_columns, STK_COUNT(slice_columns), put_slice_row};
static const top_table sample_table = {sample_columns, STK_COUNT(sample_columns), put_sample_row};
static const top_table count_table = {count_columns, STK_COUNT(count_columns), put_count_row};
static const top_table function_table = {function_columns, STK_COUNT(function_columns), put_function_row};

static const top_table *table_of(stk__top_source source, uint32_t unit)
{
    if (source == STK__TOP_SAMPLES)
        return unit == STK__UNIT_SAMPLES ? &count_table : &sample_table;
    return source == STK__TOP_SLICES ? &slice_table : &function_table;
}

static const char *group_words(const top_options *o, stk__top_source source)
{
    static const char *const words[] = {"name", "thread", "category", "file", "step", "process"};
    const stk__top_by by = grouped_by(o);
    return source != STK__TOP_SLICES && by == STK__TOP_NAME ? "function" : words[by];
}

static void put_amount(stk__text *text, uint32_t unit, int64_t amount)
{
    if (unit == STK__UNIT_NS) {
        cli_text_ns(text, amount);
    } else if ((unit == STK__UNIT_BYTES || unit == STK__UNIT_ALLOCATED) && amount >= 0) {
        stk__text_bytes(text, (uint64_t)amount);
    } else {
        cli_text_count(text, amount);
        stk__text_puts(text, unit != STK__UNIT_SAMPLES ? "" : amount == 1 ? " sample" : " samples");
    }
}

/* What is counted, and what a share is a share of. */
static void put_heading(const top_options *o, const stk__top *top, uint32_t unit, size_t rows)
{
    static const char *const whole[] = {"the run", "sampled", "time in functions"};
    const char *what = unit == STK__UNIT_BYTES       ? "held"
                       : unit == STK__UNIT_ALLOCATED ? "allocated"
                                                     : whole[top->source];
    stk__text text = STK__TEXT_INIT;
    stk__text_puts(&text, stk__top_source_names[top->source]);
    if (top->source != STK__TOP_FUNCTIONS || (o->by && strcmp(o->by, "name") != 0))
        stk__text_printf(&text, " by %s", group_words(o, top->source));
    stk__text_puts(&text, ": ");
    cli_text_count(&text, (int64_t)rows);
    stk__text_printf(&text, " row%s; %s: ", rows == 1 ? "" : "s", what);
    put_amount(&text, unit, top->totals[unit]);
    stk__text_puts(&text, top->source == STK__TOP_FUNCTIONS ? "" : " (100 %)");
    if (top->source == STK__TOP_SLICES && top->tracks > 1)
        stk__text_printf(&text, "; shares add up over %zu tracks, which run at once", top->tracks);
    else if (top->source == STK__TOP_SLICES && top->lanes)
        stk__text_printf(&text, "; shares add up over %zu lanes of slices that overlap", top->lanes + 1);
    if (o->own.count && top->source != STK__TOP_SLICES)
        stk__text_puts(&text,
                       o->own_only ? "; only what is own" : "; what is not own counts for its nearest own caller");
    stk__text_putc(&text, '\n');
    cli_out_text(&text);
}

static void put_notes(const stk__top *top, uint32_t unit, size_t rows, size_t shown)
{
    stk__text text = STK__TEXT_INIT;
    if (shown < rows) {
        stk__text_puts(&text, "... and ");
        cli_text_count(&text, (int64_t)(rows - shown));
        stk__text_puts(&text, " more; --limit 0 shows all\n");
    }
    if (top->left_out) {
        stk__text_puts(&text, "left out: ");
        cli_text_count(&text, top->left_out);
        stk__text_printf(&text, " slice%s of the profiler itself; --all counts %s\n", top->left_out == 1 ? "" : "s",
                         top->left_out == 1 ? "it" : "them");
    }
    size_t estimates = 0;
    for (size_t i = 0; i < top->count; i++)
        estimates += top->rows[i].estimate && top->rows[i].unit == unit;
    if (estimates)
        stk__text_printf(&text,
                         "%zu self time%s: a profile without stacks does not say for whom shared code worked; it was "
                         "shared out by the times on its call edges\n",
                         estimates, estimates == 1 ? " is an estimate" : "s are estimates");
    cli_out_text(&text);
}

/* Rows of one unit; several units never share a table, since their numbers cannot be compared. */
static bool put_table(const top_options *o, const stk__trace *t, const stk__top *top, uint32_t unit, bool *first)
{
    const top_table *kind = table_of(top->source, unit);
    size_t rows = 0;
    for (size_t i = 0; i < top->count; i++)
        rows += top->rows[i].unit == unit;
    if (!rows && (top->count || unit != STK__UNIT_NS))
        return true;
    if (!*first)
        cli_out("\n", 1);
    *first = false;
    put_heading(o, top, unit, rows);
    cli_table *table = cli_table_new(CLI_TABLE, kind->columns, kind->count);
    if (!table)
        return false;
    const size_t shown = rows_shown(o, rows);
    size_t put = 0;
    for (size_t i = 0; i < top->count && put < shown; i++) {
        if (top->rows[i].unit != unit)
            continue;
        kind->put(table, o, top, &top->rows[i]);
        put_label(table, t, top, &top->rows[i]);
        put++;
    }
    const bool good = cli_table_finish(table);
    put_notes(top, unit, rows, shown);
    return good;
}

/* ---- what the recorder lost, or added up only ---- */

static void put_exact(stk__text *text, uint64_t count, uint64_t total_ns)
{
    stk__text_puts(text, "; with them, exactly: count ");
    cli_text_count(text, (int64_t)STK_MIN(count, (uint64_t)INT64_MAX));
    stk__text_puts(text, ", total ");
    put_amount(text, STK__UNIT_NS, (int64_t)STK_MIN(total_ns, (uint64_t)INT64_MAX));
}

static void put_loss(const stk__trace *t, const stk__trace_total *total, stk__text *text)
{
    stk__text_puts(text, "the recorder lost ");
    cli_text_count(text, (int64_t)STK_MIN(total->lost, (uint64_t)INT64_MAX));
    stk__text_puts(text, " of ");
    cli_text_escaped(text, stk__trace_str(t, total->name));
    if (total->track) {
        stk__text_puts(text, " on ");
        cli_text_escaped(text, stk__trace_str(t, total->track));
    }
    put_exact(text, total->count, total->total_ns);
}

/* Below a table on standard output; with data for programs there, on standard error. */
static void put_line(const top_options *o, cli_format format, stk__text *text)
{
    if (format == CLI_TABLE) {
        stk__text_putc(text, '\n');
        cli_out_text(text);
    } else if (!text->failed && !o->trace.quiet) {
        cli_say("%s", text->data);
    }
    stk__text_clear(text);
}

static bool is_filtered(const top_options *o)
{
    return o->like.count || o->category.count || o->track.count || o->from_ns || o->to_ns;
}

/* A name of all tracks together: what its totals have, and its slices in the files that have totals. */
typedef struct recorded {
    uint64_t count, total_ns, lost, shown;
} recorded;

static void count_recorded(const stk__trace *t, recorded *names, bool *files)
{
    for (size_t i = 0; i < t->total_count; i++) {
        const stk__trace_total *total = &t->totals[i];
        recorded *r = &names[total->name];
        files[total->file] = true;
        r->count += STK_MIN(total->count, UINT64_MAX - r->count);
        r->total_ns += STK_MIN(total->total_ns, UINT64_MAX - r->total_ns);
        r->lost += STK_MIN(total->lost, UINT64_MAX - r->lost);
    }
    for (size_t k = 0; k < t->track_count; k++) {
        const size_t first = t->tracks[k].first_slice;
        if (t->tracks[k].file >= t->file_count || !files[t->tracks[k].file])
            continue;
        for (size_t i = first; i < first + t->tracks[k].slice_count; i++) {
            stk__trim_at(t, i);
            names[t->slices.name[i]].shown++;
        }
    }
}

static bool has_limit(const stk__trace *t)
{
    for (size_t i = 0; i < t->note_count; i++)
        if (t->notes[i].reason == STK__REASON_PAST_LIMIT)
            return true;
    return false;
}

/* Spans that the recorder only adds up, for they are too short to be shown. Counters have totals, but no time. */
static void put_briefs(const top_options *o, const stk__trace *t, cli_format format)
{
    recorded *names = stk__calloc((size_t)t->string_count + 1, sizeof *names);
    bool *files = stk__calloc(t->file_count + 1, sizeof *files);
    if (names && files)
        count_recorded(t, names, files);
    for (uint32_t s = 0; names && files && s < t->string_count; s++) {
        const recorded *r = &names[s];
        if (!r->total_ns || r->count < r->lost || r->count - r->lost <= r->shown)
            continue;
        stk__text text = STK__TEXT_INIT;
        stk__text_puts(&text, "the recorder shows no slices for ");
        cli_text_count(&text, (int64_t)STK_MIN(r->count - r->lost - r->shown, (uint64_t)INT64_MAX));
        stk__text_puts(&text, " of ");
        cli_text_escaped(&text, stk__trace_str(t, s));
        stk__text_puts(&text, has_limit(t) ? ", which were too short, or left out by the limit on the file's size"
                                           : ", which were too short");
        put_exact(&text, r->count, r->total_ns);
        put_line(o, format, &text);
    }
    stk__free(names);
    stk__free(files);
}

static void put_losses(const top_options *o, const stk__trace *t, cli_format format)
{
    size_t count = 0;
    for (size_t i = 0; i < t->total_count; i++) {
        if (!t->totals[i].lost || count++ >= LOST_SHOWN)
            continue;
        stk__text text = STK__TEXT_INIT;
        put_loss(t, &t->totals[i], &text);
        put_line(o, format, &text);
    }
    if (t->total_count && !is_filtered(o)) /* they are of all there is */
        put_briefs(o, t, format);
    if (count > LOST_SHOWN)
        cli_say("(and %zu more that the recorder lost events of)", count - LOST_SHOWN);
}

/* ---- running ---- */

/* A pattern that matches nothing makes everything foreign, which is hardly what was meant. */
static void say_unmatched(const top_options *o, const stk__trace *t)
{
    for (size_t i = 0; i < o->own.count; i++) {
        bool found = false;
        for (size_t f = 0; f < t->frame_count && !found; f++)
            found = stk__frame_own(t, &t->frames[f], &o->own.items[i], 1);
        if (!found && t->frame_count)
            cli_say("stoker: --own '%s' is like no file, folder, module or function here", o->own.items[i]);
    }
}

/* One source: made, then put as a table or into the rows for programs. Returns an exit code. */
static int put_source(const top_options *o, const stk__top_options *options, const stk__trace *t,
                      stk__top_source source, bool *first, bool alone, cli_table *data)
{
    stk__top top;
    stk_error err;
    stk_error_clear(&err);
    if (source == STK__TOP_SLICES && o->own.count)
        cli_say("stoker: --own is about stacks and functions; slices are shown as they are (--like selects names)");
    if (stk__top_make(t, source, options, &top, &err) != STK_OK) {
        /* Groups that one kind of data does not know are no reason to hide the others. */
        if (err.status == STK_UNSUPPORTED && !alone) {
            cli_say("no rows of %s: %s", stk__top_source_names[source], err.message);
            return CLI_OK;
        }
        cli_say_error(&err, NULL, NULL);
        return cli_exit_code(&err);
    }
    bool good = true;
    if (!top.count && is_filtered(o))
        cli_say("no %.*s matches", (int)strlen(stk__top_source_names[source]) - 1, stk__top_source_names[source]);
    if (data) {
        for (size_t i = 0; i < rows_shown(o, top.count); i++)
            put_data_row(data, o, t, &top, &top.rows[i]);
    } else {
        for (uint32_t unit = 0; unit <= STK__UNIT_NONE && good; unit++)
            good = put_table(o, t, &top, unit, first);
    }
    stk__top_clear(&top);
    return good ? CLI_OK : CLI_FAILED;
}

static int put_all(const top_options *o, const stk__top_options *options, const stk__trace *t, cli_format format)
{
    stk__top_source sources[3];
    const size_t count = stk__top_sources(t, sources);
    if (!count) {
        cli_say("stoker: there are no slices, samples or functions in what was read");
        return CLI_FAILED;
    }
    say_unmatched(o, t);
    cli_table *data = NULL;
    if (format != CLI_TABLE && !(data = cli_table_new(format, stk__top_columns, STK__TOP_COLUMNS))) {
        cli_say("stoker: out of memory");
        return CLI_FAILED;
    }
    int code = CLI_OK;
    bool first = true;
    for (size_t i = 0; i < count && code == CLI_OK; i++)
        code = put_source(o, options, t, sources[i], &first, count == 1, data);
    if (data && !cli_table_finish(data) && code == CLI_OK)
        code = CLI_FAILED;
    if (code == CLI_OK)
        put_losses(o, t, format);
    return code;
}

static int top_run(const void *options, const cli_arguments *arguments)
{
    const top_options *o = options;
    stk__top_options made;
    cli_format format;
    if (!read_options(o, &made) || !cli_format_of(&cli_command_top, &o->format, &format))
        return CLI_USAGE;
    stk__trace *t;
    int code = cli_trace_open(&cli_command_top, &o->trace, arguments->items, arguments->count, &t);
    if (code != CLI_OK)
        return code;
    const cli_list *calls = o->callers.count ? &o->callers : &o->callees;
    if (!read_times(o, t, &made.select))
        code = CLI_USAGE;
    else if (calls->count)
        code = cli_top_calls(t, &made.select, calls, calls == &o->callees, o->limit, format);
    else
        code = put_all(o, &made, t, format);
    stk__trace_free(t);
    return code;
}

static const cli_option top_options_table[] = {
    CLI_ROW(top_options, by, const char *, CLI_TEXT, .name = "by", .value = "WHAT", .complete = CLI_WORDS,
            .words = BY_WORDS, .group = "Rows",
            .help = "one row for each name, thread, category (or cat), file, step or process (default name)"),
    CLI_ROW(top_options, with_name, bool, CLI_FLAG, .name = "with-name", .group = "Rows",
            .help = "with --by: one row for each name in each of them"),
    CLI_ROW(top_options, no_fold, bool, CLI_FLAG, .name = "no-fold", .group = "Rows",
            .help = "rows of their own for names that differ in the number after a '#', as in ProfilerStep#1; else "
                    "they are one, ProfilerStep#*"),
    CLI_ROW(top_options, sort, const char *, CLI_TEXT, .name = "sort", .value = "WHAT", .complete = CLI_WORDS,
            .words = SORT_WORDS, .group = "Rows",
            .help = "total, self, count, mean, max or name (default total); also pstats's words: cumulative, tottime, "
                    "ncalls"),
    CLI_ROW(top_options, callers, cli_list, CLI_LIST, .name = "callers", .value = "PATTERN", .group = "Rows",
            .help =
                "in place of totals: who calls what is like this, or has it inside, how often and for how long; may "
                "be given again"),
    CLI_ROW(top_options, callees, cli_list, CLI_LIST, .name = "callees", .value = "PATTERN", .group = "Rows",
            .help = "in place of totals: what is called by, or lies directly inside, what is like this; may be given "
                    "again"),
    CLI_ROW(top_options, limit, int64_t, CLI_INT, .name = "limit", .value = "N", .min = 0, .max = INT64_MAX,
            .fallback = 20, .group = "Rows", .help = "show the first N rows (default 20; 0: all)"),
    CLI_ROW(top_options, like, cli_list, CLI_LIST, .name = "like", .value = "PATTERN", .group = "What counts",
            .help = "only names like this, as in 'Iterator*'; of functions also files, as in '*/src/*'; may be given "
                    "again"),
    CLI_ROW(top_options, category, cli_list, CLI_LIST, .name = "category", .value = "PATTERN", .group = "What counts",
            .help = "only these categories; of samples, events; may be given again"),
    CLI_ROW(top_options, track, cli_list, CLI_LIST, .name = "track", .value = "PATTERN", .group = "What counts",
            .help = "only threads, streams and other tracks whose label or name is like this; may be given again"),
    CLI_ROW(top_options, own, cli_list, CLI_LIST, .name = "own", .value = "PATTERN", .group = "What counts",
            .help =
                "profiles: only code whose file, folder, module or function is like this, as in src or 'src/*'; what "
                "it calls counts as its own self time; may be given again"),
    CLI_ROW(top_options, own_only, bool, CLI_FLAG, .name = "own-only", .group = "What counts",
            .help = "with --own: only the rows of that code, with the self times that they have in the profile"),
    CLI_ROW(top_options, all, bool, CLI_FLAG, .name = "all", .group = "What counts",
            .help = "count what the profiler writes about itself, too, as PyTorch's span over all that it recorded"),
    CLI_ROW(top_options, from_ns, int64_t, CLI_DURATION, .name = "from", .value = "TIME", .group = "What counts",
            .help = "only what runs this long after the start of the trace, as in 1.5s, or later"),
    CLI_ROW(top_options, to_ns, int64_t, CLI_DURATION, .name = "to", .value = "TIME", .group = "What counts",
            .help = "only what starts before this"),
    CLI_FORMAT_ROWS(top_options, format),
    CLI_TRACE_ROWS(top_options, trace),
    CLI_OPTION_END,
};

static const cli_example top_examples[] = {
    {"where the time goes, over several files", "stoker top run.json.gz 'worker-*.json'"},
    {"the stages of tf.data, by the time they take themselves",
     "stoker top run.json.gz --like 'Iterator*' --sort self"},
    {"which steps are slow", "stoker top run.json.gz --by step --sort max"},
    {"my own code in a profile of cProfile", "stoker top train.prof --own 'src/*' --sort cumulative"},
    {"the same rows as Python's print_stats('src')", "stoker top train.prof --own src --own-only --sort tottime"},
    {"all rows, for programs", "stoker top run.json.gz --limit 0 --format json"},
    {NULL, NULL},
};

const cli_command cli_command_top = {
    .name = "top",
    .summary = "totals of a trace or profile per name, thread, step, ...",
    .usage = "[OPTION]... FILE...",
    .about =
        "Adds up the slices of traces and the samples or functions of profiles. Of slices it shows how often each name "
        "ran, the sum of its durations (total), what of that was not spent in slices inside it on the same track "
        "(self), mean, minimum, maximum and exact percentiles. What runs inside a slice of its own name counts as a "
        "call, but its time is in the total once. % is the share of total in the run, from the first to the last slice "
        "of the chosen tracks and times; of threads, steps and the like it is the share of self. Tracks run at once, so "
        "that shares may add up to more than 100 %. Of samples, a function counts once per stack, however often it "
        "calls itself. Of pstats files the figures are Python's own.\n"
        "Several FILEs, also as patterns, are one trace; '-' is standard input. Chrome JSON, Perfetto, xplane, pstats, "
        "collapsed stacks, speedscope and perf script are told by their content, also compressed with gzip or zstd.",
    .options = top_options_table,
    .examples = top_examples,
    .complete = CLI_FILES,
    .options_size = sizeof(top_options),
    .max_arguments = SIZE_MAX,
    .run = top_run,
};
