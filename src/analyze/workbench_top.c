/* Totals for programs: their words, columns and shares, which the command has too, and as a table of the workbench. */
#include <string.h>

#include "analyze/workbench.h"
#include "analyze/workbench_impl.h"
#include "base/mem.h"

#include "base/banned.h"

/* ---- words ---- */

const stk__word stk__top_by_words[] = {
    {"name", STK__TOP_NAME}, {"thread", STK__TOP_THREAD},   {"category", STK__TOP_CATEGORY}, {"file", STK__TOP_FILE},
    {"step", STK__TOP_STEP}, {"process", STK__TOP_PROCESS}, {"cat", STK__TOP_CATEGORY},      {NULL, 0},
};

/* The last lines have the function's word, and pstats's, for the same. */
const stk__word stk__top_sort_words[] = {
    {"total", STK__TOP_TOTAL},
    {"self", STK__TOP_SELF},
    {"count", STK__TOP_CALLS},
    {"mean", STK__TOP_MEAN},
    {"max", STK__TOP_MAX},
    {"name", STK__TOP_BY_NAME},
    {"calls", STK__TOP_CALLS},
    {"cumulative", STK__TOP_TOTAL},
    {"tottime", STK__TOP_SELF},
    {"ncalls", STK__TOP_CALLS},
    {NULL, 0},
};

bool stk__word_find(const stk__word *words, const char *text, int *out, const char **out_nearest)
{
    const char *names[16];
    size_t count = 0;
    for (; words[count].name && count < STK_COUNT(names); count++) {
        names[count] = words[count].name;
        if (!text || strcmp(text, words[count].name) == 0) {
            *out = words[count].value;
            return true;
        }
    }
    *out_nearest = stk__nearest(text, names, count);
    return false;
}

/* ---- rows ---- */

const char *const stk__top_source_names[] = {"slices", "samples", "functions"};
const char *const stk__unit_names[] = {"ns", "samples", "bytes", "bytes allocated", "none"};

const char *const stk__top_columns[STK__TOP_COLUMNS] = {
    "name",    "count",   "total_ns", "mean_ns", "min_ns", "max_ns", "p50_ns",    "p95_ns",
    "self_ns", "percent", "source",   "unit",    "total",  "self",   "primitive", "self_is_estimate",
};

double stk__top_percent(const stk__top_options *options, const stk__top *top, const stk__top_row *row)
{
    const bool inclusive = top->source != STK__TOP_FUNCTIONS && (options->with_name || options->by == STK__TOP_NAME);
    const int64_t part = inclusive ? row->total : row->self, all = top->totals[row->unit];
    return all > 0 ? 100.0 * (double)part / (double)all : 0;
}

static void put_number(stk__table_maker *m, int64_t number, bool known)
{
    if (known && number != STK__NO_NUMBER)
        stk__maker_int(m, number);
    else
        stk__maker_null(m);
}

static void put_row(stk__table_maker *m, const stk__top_options *o, const stk__trace *t, const stk__top *top,
                    const stk__top_row *row)
{
    const bool ns = row->unit == STK__UNIT_NS;
    stk__maker_str(m, stk__top_label(t, top, row));
    stk__maker_int(m, row->count);
    put_number(m, row->total, ns);
    if (ns)
        stk__maker_double(m, row->mean);
    else
        stk__maker_null(m);
    put_number(m, row->min, ns);
    put_number(m, row->max, ns);
    put_number(m, row->p50, ns);
    put_number(m, row->p95, ns);
    put_number(m, row->self, ns);
    stk__maker_double(m, stk__top_percent(o, top, row));
    stk__maker_str(m, stk__top_source_names[top->source]);
    stk__maker_str(m, stk__unit_names[row->unit]);
    stk__maker_int(m, row->total);
    stk__maker_int(m, row->self);
    stk__maker_int(m, row->primitive);
    stk__maker_int(m, row->estimate);
}

static stk_status put_source(stk__table_maker *m, const stk__top_options *o, int64_t limit, const stk__trace *t,
                             stk__top_source source, bool alone, stk_error *err)
{
    stk__top top;
    stk_error failure;
    stk_error_clear(&failure);
    const stk_status status = stk__top_make(t, source, o, &top, &failure);
    /* Groups that one kind of data does not know are no reason to hide the others. */
    if (status == STK_UNSUPPORTED && !alone)
        return STK_OK;
    if (status != STK_OK) {
        if (err)
            *err = failure;
        return status;
    }
    const size_t shown = limit && (uint64_t)limit < top.count ? (size_t)limit : top.count;
    for (size_t i = 0; i < shown; i++)
        put_row(m, o, t, &top, &top.rows[i]);
    stk__top_clear(&top);
    return STK_OK;
}

/* ---- the question ---- */

static stk_status bad_word(const char *option, const char *text, const stk__word *words, const char *nearest,
                           stk_error *err)
{
    char list[200];
    stk__text all;
    stk__text_fixed(&all, list, sizeof list);
    for (size_t i = 0; words[i].name; i++)
        stk__text_printf(&all, "%s%s", i ? ", " : "", words[i].name);
    return stk_error_set(err, STK_INVALID, "%s is '%.40s', wanted one of %s%s%s%s", option, text, list,
                         nearest ? " (did you mean '" : "", nearest ? nearest : "", nearest ? "'?)" : "");
}

static stk_status read_options(const stk_top_options *in, stk_top_options *out, stk__top_options *made, stk_error *err)
{
    int by, sort;
    const char *nearest = NULL;
    *out = (stk_top_options){.struct_size = sizeof *out};
    if (in && in->struct_size < sizeof in->struct_size)
        return stk_error_set(err, STK_INVALID, "struct_size of the options of top is %zu, wanted %zu", in->struct_size,
                             sizeof *out);
    if (in)
        memcpy(out, in, STK_MIN(in->struct_size, sizeof *out));
    if (!stk__word_find(stk__top_by_words, out->by, &by, &nearest))
        return bad_word("by", out->by, stk__top_by_words, nearest, err);
    if (!stk__word_find(stk__top_sort_words, out->sort, &sort, &nearest))
        return bad_word("sort", out->sort, stk__top_sort_words, nearest, err);
    if (out->limit < 0)
        return stk_error_set(err, STK_INVALID, "limit is %lld, wanted 0 or more", (long long)out->limit);
    *made = (stk__top_options){.by = (stk__top_by)by, .sort = (stk__top_sort)sort, .fold = true, .leave_out = true};
    return STK_OK;
}

stk_status stk_trace_top(stk_trace *trace, const stk_top_options *options, stk_table **out, stk_error *err)
{
    stk_top_options o;
    stk__top_options made;
    stk__top_source sources[3];
    stk__table_maker m;
    STK_TRY(read_options(options, &o, &made, err));
    made.select = (stk__selection){.like = &o.pattern, .like_count = o.pattern ? 1 : 0};
    STK_TRY(stk__maker_init(&m, STK__TOP_COLUMNS, err));
    for (size_t i = 0; i < STK__TOP_COLUMNS; i++)
        stk__maker_name(&m, i, stk__top_columns[i]);
    for (size_t i = 1; i < STK__TOP_COLUMNS; i++)
        m.columns[i].declared = STK_KIND_INT64;
    m.columns[0].declared = m.columns[10].declared = m.columns[11].declared = STK_KIND_TEXT;
    m.columns[3].declared = m.columns[9].declared = STK_KIND_DOUBLE;
    const size_t count = stk__top_sources(trace->model, sources);
    stk_status status = stk__workbench_stopped(trace, err);
    for (size_t i = 0; i < count && status == STK_OK; i++) {
        status = put_source(&m, &made, o.limit, trace->model, sources[i], count == 1, err);
        if (status == STK_OK)
            status = stk__workbench_stopped(trace, err);
    }
    if (status == STK_OK)
        return stk__maker_finish(&m, out, err);
    stk__maker_clear(&m);
    return status;
}
