/* Totals per name: which sources a trace has, the order of rows and what they are called. */
#include "analyze/top.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/top_impl.h"
#include "base/mem.h"

#include "base/banned.h"

size_t stk__top_sources(const stk__trace *t, stk__top_source out[3])
{
    size_t count = 0;
    if (t->slices.count)
        out[count++] = STK__TOP_SLICES;
    if (t->samples.count)
        out[count++] = STK__TOP_SAMPLES;
    if (t->function_count)
        out[count++] = STK__TOP_FUNCTIONS;
    return count;
}

stk__top_row *stk__top_add(stk__top *top, size_t *capacity)
{
    if (!stk__grow((void **)&top->rows, capacity, top->count + 1, sizeof *top->rows))
        return NULL;
    stk__top_row *row = &top->rows[top->count++];
    *row = (stk__top_row){.key = STK__NONE,
                          .row = STK__NONE,
                          .min = STK__NO_NUMBER,
                          .max = STK__NO_NUMBER,
                          .p50 = STK__NO_NUMBER,
                          .p95 = STK__NO_NUMBER};
    return row;
}

/* ---- labels ---- */

stk_status stk__top_label_groups(stk__top *top, const stk__grouping *g, stk_error *err)
{
    top->labels = stk__calloc(top->count + 1, sizeof *top->labels);
    if (!top->labels)
        return stk__nomem((top->count + 1) * sizeof *top->labels, err);
    top->label_count = top->count;
    for (size_t i = 0; i < top->count; i++) {
        stk__text text = STK__TEXT_INIT;
        stk__grouping_label(g, &top->rows[i], &text);
        if (g->with_name) {
            stk__text_puts(&text, "  ");
            stk__grouping_name(g, top->rows[i].name, &text);
        }
        /* The text's memory becomes the label. */
        if (text.failed || (!text.data && !(text.data = stk__strdup("")))) {
            stk__text_clear(&text);
            return stk__nomem(256, err);
        }
        top->labels[i] = text.data;
    }
    return STK_OK;
}

void stk__frame_label(const stk__trace *t, const stk__trace_frame *frame, int32_t line, stk__text *out)
{
    stk__text_puts(out, stk__trace_str(t, frame->name));
    const char *place = stk__trace_str(t, frame->file ? frame->file : frame->module);
    if (*place && line > 0)
        stk__text_printf(out, " (%s:%d)", place, (int)line);
    else if (*place)
        stk__text_printf(out, " (%s)", place);
}

/* A file or a folder at the start of the path. */
static bool leads(const char *name, const char *path)
{
    size_t size = strlen(name);
    while (size > 1 && name[size - 1] == '/')
        size--;
    return size && strncmp(name, path, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

static bool own_path(const char *pattern, const char *path)
{
    const bool plain = !strpbrk(pattern, "*?[\\");
    if (plain ? leads(pattern, path) : stk__like(pattern, path))
        return true;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        if (plain ? leads(pattern, slash + 1) : stk__like(pattern, slash + 1))
            return true;
    }
    return false;
}

bool stk__frame_like(const stk__trace *t, const stk__trace_frame *frame, const stk__selection *select)
{
    bool found = !select || !select->like_count;
    stk__text label = STK__TEXT_INIT;
    if (!found)
        stk__frame_label(t, frame, frame->line, &label);
    for (size_t i = 0; !found && i < select->like_count; i++)
        found = stk__like(select->like[i], stk__trace_str(t, frame->name)) ||
                stk__like(select->like[i], stk__trace_str(t, frame->file)) ||
                (label.data && !label.failed && stk__like(select->like[i], label.data));
    stk__text_clear(&label);
    return found;
}

bool stk__frame_own(const stk__trace *t, const stk__trace_frame *frame, const char *const *own, size_t own_count)
{
    for (size_t i = 0; i < own_count; i++) {
        if (stk__like(own[i], stk__trace_str(t, frame->name)) || own_path(own[i], stk__trace_str(t, frame->file)) ||
            own_path(own[i], stk__trace_str(t, frame->module)))
            return true;
    }
    return false;
}

const char *stk__top_label(const stk__trace *t, const stk__top *top, const stk__top_row *row)
{
    if (top->labels)
        return top->labels[row - top->rows];
    return stk__trace_str(t, row->key);
}

/* ---- order ---- */

typedef struct sort_row {
    int64_t number;
    double mean;
    const char *label;
    size_t index;
} sort_row;

static int compare_labels(const void *a, const void *b)
{
    const sort_row *x = a, *y = b;
    const int order = strcmp(x->label, y->label);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* Largest first; equal ones by name, so that the order is the same every time. */
static int compare_numbers(const void *a, const void *b)
{
    const sort_row *x = a, *y = b;
    if (x->number != y->number)
        return x->number > y->number ? -1 : 1;
    return compare_labels(a, b);
}

static int compare_means(const void *a, const void *b)
{
    const sort_row *x = a, *y = b;
    if (x->mean != y->mean)
        return x->mean > y->mean ? -1 : 1;
    return compare_labels(a, b);
}

static int64_t sort_number(const stk__top_row *row, stk__top_sort sort)
{
    switch (sort) {
    case STK__TOP_SELF:
        return row->self;
    case STK__TOP_CALLS:
        return row->count;
    case STK__TOP_MAX:
        return row->max;
    case STK__TOP_TOTAL:
    case STK__TOP_MEAN:
    case STK__TOP_BY_NAME:
        break;
    }
    return row->total;
}

/* Puts rows and labels into the order of `keys`. */
static bool reorder(stk__top *top, const sort_row *keys)
{
    stk__top_row *rows = stk__alloc((top->count + 1) * sizeof *rows);
    char **labels = top->labels ? stk__alloc((top->count + 1) * sizeof *labels) : NULL;
    if (!rows || (top->labels && !labels)) {
        stk__free(rows);
        stk__free(labels);
        return false;
    }
    for (size_t i = 0; i < top->count; i++) {
        rows[i] = top->rows[keys[i].index];
        if (labels)
            labels[i] = top->labels[keys[i].index];
    }
    stk__free(top->rows);
    stk__free(top->labels);
    top->rows = rows;
    top->labels = labels;
    return true;
}

static stk_status sort_rows(const stk__trace *t, stk__top *top, stk__top_sort sort, stk_error *err)
{
    sort_row *keys = stk__alloc((top->count + 1) * sizeof *keys);
    if (!keys)
        return stk__nomem((top->count + 1) * sizeof *keys, err);
    for (size_t i = 0; i < top->count; i++)
        keys[i] = (sort_row){.number = sort_number(&top->rows[i], sort),
                             .mean = top->rows[i].mean,
                             .label = stk__top_label(t, top, &top->rows[i]),
                             .index = i};
    qsort(keys, top->count, sizeof *keys,
          sort == STK__TOP_BY_NAME ? compare_labels
          : sort == STK__TOP_MEAN  ? compare_means
                                   : compare_numbers);
    const bool good = reorder(top, keys);
    stk__free(keys);
    return good ? STK_OK : stk__nomem(top->count * sizeof *top->rows, err);
}

/* ---- all of it ---- */

stk_status stk__top_make(const stk__trace *t, stk__top_source source, const stk__top_options *options, stk__top *out,
                         stk_error *err)
{
    stk__top top = {.source = source};
    stk_status status;
    if (source == STK__TOP_SLICES)
        status = stk__top_slices(t, options, &top, err);
    else if (source == STK__TOP_SAMPLES)
        status = stk__top_samples(t, options, &top, err);
    else
        status = stk__top_functions(t, options, &top, err);
    if (status == STK_OK)
        status = sort_rows(t, &top, options->sort, err);
    if (status != STK_OK) {
        stk__top_clear(&top);
        return status;
    }
    top.total = top.totals[top.count ? top.rows[0].unit : STK__UNIT_NS];
    *out = top;
    return STK_OK;
}

void stk__top_clear(stk__top *top)
{
    for (size_t i = 0; i < top->label_count; i++)
        stk__free(top->labels[i]);
    stk__free(top->labels);
    stk__free(top->rows);
    *top = (stk__top){0};
}
