/* Who calls what: edges of a pstats file, or of the tree of slices or stacks, around some names. */
#include "analyze/top_calls.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/stacks.h"
#include "analyze/top_impl.h"
#include "base/mem.h"

#include "base/banned.h"

typedef struct edge_maker {
    const stk__trace *trace;
    stk__selection select; /* the names that were asked for */
    bool callees;
    stk__top_edges out;
    size_t capacity;
    stk__keymap places; /* caller, callee, unit -> row + 1 */
    bool failed;
} edge_maker;

static uint32_t name_frame(edge_maker *m, uint32_t frame, bool line)
{
    const stk__trace *t = m->trace;
    stk__text text = STK__TEXT_INIT;
    if (frame < t->frame_count)
        stk__frame_label(t, &t->frames[frame], line ? t->frames[frame].line : 0, &text);
    const uint32_t key =
        text.failed ? STK__NONE : stk__diff_key(&m->out.names, text.data ? text.data : "", text.length);
    m->failed |= key == STK__NONE;
    stk__text_clear(&text);
    return key;
}

static void add_edge(edge_maker *m, const stk__top_edge *edge)
{
    bool is_new;
    const stk__key key = {{edge->caller, edge->callee, edge->unit}};
    uint32_t *place = m->failed ? NULL : stk__keymap_place(&m->places, key, (uint32_t)m->out.count, &is_new);
    if (!place || !stk__grow((void **)&m->out.rows, &m->capacity, m->out.count + 1, sizeof *m->out.rows)) {
        m->failed = true;
        return;
    }
    stk__top_edge *row = &m->out.rows[*place];
    if (is_new) {
        *row = *edge;
        m->out.count++;
        return;
    }
    row->count = stk__add_ns(row->count, edge->count);
    row->self = stk__add_ns(row->self, edge->self);
    row->total = stk__add_ns(row->total, edge->total);
}

/* ---- pstats ---- */

static bool asked_function(const edge_maker *m, uint32_t function)
{
    const stk__trace *t = m->trace;
    return function < t->function_count && t->functions[function].frame < t->frame_count &&
           stk__frame_like(t, &t->frames[t->functions[function].frame], &m->select);
}

static int64_t known(int64_t number)
{
    return number == STK__NO_NUMBER ? 0 : number;
}

static void add_functions(edge_maker *m)
{
    const stk__trace *t = m->trace;
    for (size_t i = 0; i < t->call_count && !m->failed; i++) {
        const stk__trace_call *call = &t->calls[i];
        if (call->caller >= t->function_count || call->callee >= t->function_count ||
            !asked_function(m, m->callees ? call->caller : call->callee))
            continue;
        add_edge(m, &(stk__top_edge){.caller = name_frame(m, t->functions[call->caller].frame, true),
                                     .callee = name_frame(m, t->functions[call->callee].frame, true),
                                     .unit = STK__UNIT_NS,
                                     .count = known(call->calls),
                                     .self = known(call->self_ns),
                                     .total = known(call->total_ns)});
    }
}

/* ---- trees ---- */

static bool asked_stack(const edge_maker *m, const stk__stack *row)
{
    const stk__trace *t = m->trace;
    if (row->frame < t->frame_count)
        return stk__frame_like(t, &t->frames[row->frame], &m->select);
    for (size_t i = 0; i < m->select.like_count; i++) {
        if (stk__like(m->select.like[i], stk__trace_str(t, row->name)))
            return true;
    }
    return false;
}

static uint32_t name_stack(edge_maker *m, const stk__stack *row)
{
    size_t size;
    if (row->frame < m->trace->frame_count)
        return name_frame(m, row->frame, false);
    const char *text = stk__trace_text(m->trace, row->name, &size);
    const uint32_t key = stk__diff_name_key(&m->out.names, "", text, size);
    m->failed |= key == STK__NONE;
    return key;
}

static stk_status add_trees(edge_maker *m, const stk__selection *select, stk_error *err)
{
    stk__stacks stacks = {0};
    STK_TRY(stk__stacks_make(m->trace, select, false, &stacks, err));
    for (size_t i = 0; i < stacks.count && !m->failed; i++) {
        const stk__stack *row = &stacks.rows[i];
        const stk__stack *around = row->parent < stacks.count ? &stacks.rows[row->parent] : NULL;
        if (m->callees ? !around || !asked_stack(m, around) : !asked_stack(m, row))
            continue;
        add_edge(m, &(stk__top_edge){.caller = around ? name_stack(m, around) : STK__NONE,
                                     .callee = name_stack(m, row),
                                     .unit = row->unit,
                                     .count = row->count,
                                     .self = row->self,
                                     .total = row->total});
    }
    stk__stacks_clear(&stacks);
    return STK_OK;
}

/* ---- all of it ---- */

/* Numbers of names are in the order in which they were met, which is that of the file. */
static int compare_callers(const void *a, const void *b)
{
    const stk__top_edge *x = a, *y = b;
    if (x->callee != y->callee)
        return x->callee < y->callee ? -1 : 1;
    return x->total != y->total ? (x->total > y->total ? -1 : 1) : (x->caller > y->caller) - (x->caller < y->caller);
}

static int compare_callees(const void *a, const void *b)
{
    const stk__top_edge *x = a, *y = b;
    if (x->caller != y->caller)
        return x->caller < y->caller ? -1 : 1;
    return x->total != y->total ? (x->total > y->total ? -1 : 1) : (x->callee > y->callee) - (x->callee < y->callee);
}

stk_status stk__top_edges_make(const stk__trace *t, const stk__selection *select, const char *const *like,
                               size_t like_count, bool callees, stk__top_edges *out, stk_error *err)
{
    edge_maker m = {.trace = t, .select = {.like = like, .like_count = like_count}, .callees = callees};
    stk__top_source sources[3];
    stk_status status = STK_OK;
    if (stk__top_sources(t, sources))
        m.out.source = sources[0];
    if (m.out.source == STK__TOP_FUNCTIONS)
        add_functions(&m);
    else
        status = add_trees(&m, select, err);
    stk__keymap_clear(&m.places);
    if (status == STK_OK && m.failed)
        status = stk__nomem(m.capacity * sizeof *m.out.rows, err);
    if (status != STK_OK) {
        stk__top_edges_clear(&m.out);
        return status;
    }
    if (m.out.count)
        qsort(m.out.rows, m.out.count, sizeof *m.out.rows, callees ? compare_callees : compare_callers);
    *out = m.out;
    return STK_OK;
}

const char *stk__top_edge_name(const stk__top_edges *edges, uint32_t name)
{
    return name == STK__NONE ? "" : stk__diff_key_text(&edges->names, name, NULL);
}

void stk__top_edges_clear(stk__top_edges *edges)
{
    stk__diff_keys_clear(&edges->names);
    stk__free(edges->rows);
    *edges = (stk__top_edges){0};
}
