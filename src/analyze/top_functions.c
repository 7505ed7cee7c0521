/* top over functions of pstats: the file's figures, with own code folded along the call edges if asked. */
#include <stdlib.h>
#include <string.h>

#include "analyze/top_impl.h"
#include "base/mem.h"

#include "base/banned.h"

/*
 * Folding. A profile has no stacks: it knows a function's own time per caller (exact), and nothing of who called the
 * caller at that moment. So the own time of a foreign function goes to its callers as the edges say; what arrives at a
 * caller that is foreign, too, goes on to its callers in the proportion of what ran below them on those edges. With one
 * caller that is exact, with more it is an estimate. Time that goes round among foreign functions loses a part to the
 * outside on each round; a round is repeated until nothing is left to speak of.
 */
enum { MAX_ROUNDS = 100 };

typedef struct function_pass {
    const stk__trace *trace;
    const stk__top_options *options;
    stk__chosen chosen;
    bool *own;
    bool *estimate;  /* has a part that is one */
    double *pending; /* time that arrived at a foreign function and must go on */
    double *gained;  /* time that own functions got */
    double lost;     /* time that no own function called */
    bool lost_estimate;
    uint32_t *edges; /* calls by callee: those of f are edges[first[f]] up to edges[first[f + 1]] */
    uint32_t *first;
    uint32_t *order; /* foreign functions, callees before callers as far as there are no cycles */
    size_t order_count;
} function_pass;

static void pass_clear(function_pass *p)
{
    stk__chosen_clear(&p->chosen);
    stk__free(p->own);
    stk__free(p->estimate);
    stk__free(p->pending);
    stk__free(p->gained);
    stk__free(p->edges);
    stk__free(p->first);
    stk__free(p->order);
}

static bool good_call(const stk__trace *t, const stk__trace_call *call)
{
    return call->caller < t->function_count && call->callee < t->function_count && call->caller != call->callee;
}

static void sort_edges(function_pass *p)
{
    const stk__trace *t = p->trace;
    for (size_t i = 0; i < t->call_count; i++) {
        if (good_call(t, &t->calls[i]))
            p->first[t->calls[i].callee + 1]++;
    }
    for (size_t f = 0; f < t->function_count; f++)
        p->first[f + 1] += p->first[f];
    /* Filling moves each start to the next one's; one shift puts them back. */
    for (size_t i = 0; i < t->call_count; i++) {
        if (good_call(t, &t->calls[i]))
            p->edges[p->first[t->calls[i].callee]++] = (uint32_t)i;
    }
    memmove(p->first + 1, p->first, t->function_count * sizeof *p->first);
    p->first[0] = 0;
}

static stk_status fold_init(function_pass *p, stk_error *err)
{
    const stk__trace *t = p->trace;
    const size_t count = t->function_count + 1;
    p->estimate = stk__calloc(count, sizeof *p->estimate);
    p->pending = stk__calloc(count, sizeof *p->pending);
    p->gained = stk__calloc(count, sizeof *p->gained);
    p->first = stk__calloc(count + 1, sizeof *p->first);
    p->order = stk__alloc(count * sizeof *p->order);
    p->edges = stk__alloc((t->call_count + 1) * sizeof *p->edges);
    if (!p->estimate || !p->pending || !p->gained || !p->first || !p->order || !p->edges)
        return stk__nomem(count * sizeof *p->pending, err);
    sort_edges(p);
    return STK_OK;
}

static stk_status find_own(function_pass *p, stk_error *err)
{
    const stk__trace *t = p->trace;
    p->own = stk__calloc(t->function_count + 1, sizeof *p->own);
    if (!p->own)
        return stk__nomem(t->function_count, err);
    for (size_t f = 0; f < t->function_count; f++) {
        const uint32_t frame = t->functions[f].frame;
        p->own[f] =
            frame < t->frame_count && stk__frame_own(t, &t->frames[frame], p->options->own, p->options->own_count);
    }
    return STK_OK;
}

typedef struct caller_walk {
    uint32_t *at, *path; /* the next edge of a function; the way back */
    bool *seen;
    size_t left; /* places of `order` that are free, which is filled from its end */
} caller_walk;

/* Depth first from a foreign function to its callers: who is done first has no callers left to wait for. */
static void walk_callers(function_pass *p, caller_walk *w, uint32_t root)
{
    size_t depth = 0;
    uint32_t enter = root;
    do {
        if (enter != STK__NONE) {
            w->seen[enter] = true;
            w->at[enter] = p->first[enter];
            w->path[depth++] = enter;
        }
        const uint32_t f = w->path[depth - 1];
        enter = STK__NONE;
        if (w->at[f] == p->first[f + 1]) {
            p->order[--w->left] = f;
            depth--;
        } else {
            const uint32_t caller = p->trace->calls[p->edges[w->at[f]++]].caller;
            if (!p->own[caller] && !w->seen[caller])
                enter = caller;
        }
    } while (depth);
}

static stk_status order_functions(function_pass *p, stk_error *err)
{
    const size_t count = p->trace->function_count;
    caller_walk w = {.left = count};
    w.at = stk__alloc((count + 1) * sizeof *w.at);
    w.path = stk__alloc((count + 1) * sizeof *w.path);
    w.seen = stk__calloc(count + 1, sizeof *w.seen);
    const bool good = w.at && w.path && w.seen;
    if (good) {
        for (uint32_t f = 0; f < count; f++) {
            if (!p->own[f] && !w.seen[f])
                walk_callers(p, &w, f);
        }
        p->order_count = count - w.left;
        memmove(p->order, p->order + w.left, p->order_count * sizeof *p->order);
    }
    stk__free(w.at);
    stk__free(w.path);
    stk__free(w.seen);
    return good ? STK_OK : stk__nomem((count + 1) * sizeof *w.at, err);
}

/* ---- sharing out ---- */

typedef enum edge_figure { EDGE_SELF, EDGE_BELOW, EDGE_TOTAL, EDGE_CALLS, EDGE_EQUAL } edge_figure;

static double edge_weight(const stk__trace_call *call, edge_figure figure)
{
    double x = 1;
    if (figure == EDGE_SELF)
        x = call->self_ns == STK__NO_NUMBER ? 0 : (double)call->self_ns;
    else if (figure == EDGE_TOTAL)
        x = call->total_ns == STK__NO_NUMBER ? 0 : (double)call->total_ns;
    else if (figure == EDGE_BELOW)
        x = edge_weight(call, EDGE_TOTAL) - edge_weight(call, EDGE_SELF);
    else if (figure == EDGE_CALLS)
        x = call->calls == STK__NO_NUMBER ? 0 : (double)call->calls;
    return x > 0 ? x : 0;
}

static double sum_edges(const function_pass *p, uint32_t f, edge_figure figure)
{
    double sum = 0;
    for (uint32_t e = p->first[f]; e < p->first[f + 1]; e++)
        sum += edge_weight(&p->trace->calls[p->edges[e]], figure);
    return sum;
}

/*
 * Gives `amount` of time that foreign function f had to its callers. `exact`: the edges themselves say how much each.
 */
static void share_out(function_pass *p, uint32_t f, double amount, edge_figure figure, bool exact, bool estimate)
{
    double sum = 0;
    while (figure < EDGE_EQUAL && (sum = sum_edges(p, f, figure)) <= 0) {
        /* What ran below says nothing of the time of the function itself, and the other way round. */
        figure = figure == EDGE_SELF ? EDGE_TOTAL : (edge_figure)(figure + 1);
        exact = false;
    }
    const uint32_t callers = p->first[f + 1] - p->first[f];
    if (figure == EDGE_EQUAL)
        sum = callers;
    estimate |= !exact && callers > 1;
    for (uint32_t e = p->first[f]; e < p->first[f + 1]; e++) {
        const stk__trace_call *call = &p->trace->calls[p->edges[e]];
        const double part = amount * (edge_weight(call, figure) / sum);
        if (part <= 0)
            continue;
        p->estimate[call->caller] |= estimate;
        if (p->own[call->caller])
            p->gained[call->caller] += part;
        else
            p->pending[call->caller] += part;
    }
    if (!callers) {
        p->lost += amount;
        p->lost_estimate |= estimate;
    }
}

/* The time that f spent itself: what its edges do not say (the root of a profile has none) has no caller. */
static void share_self(function_pass *p, uint32_t f)
{
    const double self = (double)STK_MAX(p->trace->functions[f].self_ns, 0);
    const double known = sum_edges(p, f, EDGE_SELF);
    /* Rounding of each edge to ns is not worth a word. */
    const double slack = 1 + (double)(p->first[f + 1] - p->first[f]);
    const bool exact = known > 0 && known - self <= slack && self - known <= slack;
    if (self > 0)
        share_out(p, f, self, EDGE_SELF, exact, false);
}

static void fold(function_pass *p)
{
    const stk__trace *t = p->trace;
    for (size_t i = 0; i < p->order_count; i++)
        share_self(p, p->order[i]);
    double left = 1;
    for (int round = 0; round < MAX_ROUNDS && left > 0.5; round++) {
        for (size_t i = 0; i < p->order_count; i++) {
            const uint32_t f = p->order[i];
            const double amount = p->pending[f];
            p->pending[f] = 0;
            if (amount > 0)
                share_out(p, f, amount, EDGE_BELOW, false, p->estimate[f]);
        }
        left = 0;
        for (size_t i = 0; i < p->order_count; i++)
            left += p->pending[p->order[i]];
    }
    /* Functions that only call each other keep their time to themselves. */
    for (size_t f = 0; f < t->function_count; f++) {
        p->lost += p->pending[f];
        p->lost_estimate |= p->pending[f] > 0.5;
    }
}

/* ---- rows ---- */

static int64_t to_ns(double x)
{
    return x >= 0x1p63 ? INT64_MAX : x <= 0 ? 0 : (int64_t)(x + 0.5);
}

static void add_function(const function_pass *p, uint32_t f, stk__top_row *row)
{
    const stk__trace_function *function = &p->trace->functions[f];
    row->count = stk__add_ns(row->count, function->calls);
    row->primitive = stk__add_ns(row->primitive, function->primitive_calls);
    row->self = stk__add_ns(row->self, function->self_ns);
    row->total = stk__add_ns(row->total, function->total_ns);
    if (p->gained) {
        row->self = stk__add_ns(row->self, to_ns(p->gained[f]));
        row->estimate |= p->estimate[f];
    }
}

/* The row that a function counts for, by frame or by file; made when it is new. NULL when memory is out. */
static stk__top_row *row_of(const function_pass *p, uint32_t f, uint32_t *rows, size_t *capacity, stk__top *out)
{
    const stk__trace *t = p->trace;
    const bool by_file = p->options->by == STK__TOP_FILE;
    const uint32_t id = by_file ? t->functions[f].file : t->functions[f].frame;
    if (rows[id])
        return &out->rows[rows[id] - 1];
    stk__top_row *row = stk__top_add(out, capacity);
    if (!row)
        return NULL;
    rows[id] = (uint32_t)out->count;
    row->unit = STK__UNIT_NS;
    row->row = id;
    row->key = by_file ? t->files[id].path : t->frames[id].name;
    return row;
}

static bool chosen_function(const function_pass *p, uint32_t f)
{
    const stk__trace *t = p->trace;
    const stk__trace_function *function = &t->functions[f];
    return function->frame < t->frame_count && function->file < t->file_count && (!p->own || p->own[f]) &&
           stk__frame_like(t, &t->frames[function->frame], p->chosen.select);
}

static stk_status add_rows(function_pass *p, stk__top *out, stk_error *err)
{
    const stk__trace *t = p->trace;
    size_t capacity = 0;
    uint32_t *rows = stk__calloc(STK_MAX(t->frame_count, t->file_count) + 1, sizeof *rows);
    bool good = rows != NULL;
    for (uint32_t f = 0; f < t->function_count && good; f++) {
        out->totals[STK__UNIT_NS] = stk__add_ns(out->totals[STK__UNIT_NS], t->functions[f].self_ns);
        if (!chosen_function(p, f))
            continue;
        stk__top_row *row = row_of(p, f, rows, &capacity, out);
        good = row != NULL;
        if (row)
            add_function(p, f, row);
    }
    stk__free(rows);
    if (good && p->gained && p->lost >= 0.5 && !p->chosen.names) {
        stk__top_row *row = stk__top_add(out, &capacity);
        good = row != NULL;
        if (row) {
            row->unit = STK__UNIT_NS;
            row->self = row->total = to_ns(p->lost);
            row->estimate = p->lost_estimate;
        }
    }
    return good ? STK_OK : stk__nomem(capacity * sizeof *out->rows, err);
}

static stk_status finish_rows(const function_pass *p, stk__top *out, stk_error *err)
{
    const stk__trace *t = p->trace;
    out->labels = stk__calloc(out->count + 1, sizeof *out->labels);
    if (!out->labels)
        return stk__nomem((out->count + 1) * sizeof *out->labels, err);
    out->label_count = out->count;
    for (size_t i = 0; i < out->count; i++) {
        stk__top_row *row = &out->rows[i];
        stk__text text = STK__TEXT_INIT;
        if (row->row == STK__NONE)
            stk__text_puts(&text, STK__TOP_NOT_OWN);
        else if (p->options->by == STK__TOP_FILE)
            stk__text_puts(&text, stk__trace_str(t, row->key));
        else
            stk__frame_label(t, &t->frames[row->row], t->frames[row->row].line, &text);
        /* Inclusive times of functions that call each other do not add up. */
        if (p->options->by == STK__TOP_FILE)
            row->total = row->self;
        row->mean = row->count ? (double)row->total / (double)row->count : 0;
        if (text.failed || (!text.data && !(text.data = stk__strdup("")))) {
            stk__text_clear(&text);
            return stk__nomem(256, err);
        }
        out->labels[i] = text.data;
    }
    return STK_OK;
}

stk_status stk__top_functions(const stk__trace *t, const stk__top_options *o, stk__top *out, stk_error *err)
{
    if ((o->by != STK__TOP_NAME && o->by != STK__TOP_FILE) || (o->with_name && o->by == STK__TOP_FILE))
        return stk_error_set(
            err, STK_UNSUPPORTED,
            "a pstats profile knows functions and files, but no threads, processes, categories or steps");
    function_pass p = {.trace = t, .options = o};
    stk_status status = stk__chosen_init(&p.chosen, t, &o->select, err);
    if (status == STK_OK && o->own_count)
        status = find_own(&p, err);
    if (status == STK_OK && o->own_count && !o->own_only) {
        status = fold_init(&p, err);
        if (status == STK_OK)
            status = order_functions(&p, err);
        if (status == STK_OK)
            fold(&p);
    }
    if (status == STK_OK)
        status = add_rows(&p, out, err);
    if (status == STK_OK)
        status = finish_rows(&p, out, err);
    pass_clear(&p);
    return status;
}
