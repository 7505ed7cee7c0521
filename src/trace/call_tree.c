/*
 * A profile of functions knows each edge: caller, callee, and the callee's time on behalf of that caller. It does not
 * know stacks. They are estimated as gprof and its viewers do: when c was called from several places, what c called is
 * shared out over these places in the proportion of the time below c on each edge.
 *
 * Edges that close a circle (recursion) are left out, so that what is left is a graph without circles, and the shares
 * of each function's remaining callers are made to add up to 1. Then the shares of all stacks that end in a function
 * add up to 1 as well, and its own time is met exactly. The number of stacks can grow beyond all bounds, so the largest
 * are made first, and the rest is told as such.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "trace/call_tree.h"

#include "base/banned.h"

enum { STACKS_MAX = 1 << 15, WAITING_MAX = 1 << 20, DEPTH_MAX = 1000 };
#define SMALLEST_PART 1e-6 /* of all time: no picture shows less */
#define WHOLE (1 - 1e-6)   /* of a function: what is missing is rounding */

/* A kept edge, or the world that calls the outermost functions. */
typedef struct tree_edge {
    uint32_t caller, callee;
    double self, below; /* the part of the callee's own time, and of what it called */
} tree_edge;

/* A stack that waits for its turn: its part of the function's own time, and of what the function called. */
typedef struct open_stack {
    double self, below;
    double weight; /* time in it and below */
    uint32_t parent, function;
    uint32_t depth;
} open_stack;

typedef struct tree_maker {
    const stk__trace *t;
    tree_edge *edges;               /* those kept, by caller: the ones of f are from first[f] to first[f + 1] */
    uint32_t *first;                /* function_count + 1 */
    bool *dropped;                  /* by call */
    double *root_self, *root_below; /* part that no caller had */
    double *met;                    /* part of the function's own time in stacks so far */
    uint32_t *largest;              /* the stack with most of it */
    double *largest_part;
    open_stack *heap; /* largest weight first */
    size_t heap_count, heap_capacity;
    stk__call_tree *out;
    size_t capacity;
    double all;
    bool nomem;
} tree_maker;

void stk__call_tree_clear(stk__call_tree *tree)
{
    stk__free(tree->nodes);
    *tree = (stk__call_tree){0};
}

static double plain(int64_t x)
{
    return x == STK__NO_NUMBER || x < 0 ? 0 : (double)x;
}

static double self_of(const tree_maker *m, uint32_t f)
{
    return plain(m->t->functions[f].self_ns);
}

static double below_of(const tree_maker *m, uint32_t f)
{
    return STK_MAX(plain(m->t->functions[f].total_ns) - self_of(m, f), 0.0);
}

static bool is_call(const stk__trace *t, size_t i)
{
    return t->calls[i].caller < t->function_count && t->calls[i].callee < t->function_count;
}

/* ---- a graph without circles ---- */

/* Calls by caller. */
typedef struct call_order {
    uint32_t *rows, *first, *at, *path;
    uint8_t *stage;
} call_order;

enum { NEW, ON_PATH, DONE };

static void order_calls(const stk__trace *t, call_order *o)
{
    for (size_t i = 0; i < t->call_count; i++) {
        if (is_call(t, i))
            o->first[t->calls[i].caller + 1]++;
    }
    for (size_t f = 0; f < t->function_count; f++)
        o->first[f + 1] += o->first[f];
    memcpy(o->at, o->first, t->function_count * sizeof *o->at);
    for (size_t i = 0; i < t->call_count; i++) {
        if (is_call(t, i))
            o->rows[o->at[t->calls[i].caller]++] = (uint32_t)i;
    }
    memcpy(o->at, o->first, t->function_count * sizeof *o->at);
}

/* Depth first, without recursion: an edge back to a function on the way closes a circle. */
static void drop_circles(tree_maker *m, call_order *o, uint32_t root)
{
    size_t depth = 0;
    o->stage[root] = ON_PATH;
    o->path[depth++] = root;
    while (depth) {
        const uint32_t f = o->path[depth - 1];
        if (o->at[f] == o->first[f + 1]) {
            o->stage[f] = DONE;
            depth--;
            continue;
        }
        const uint32_t call = o->rows[o->at[f]++];
        const uint32_t callee = m->t->calls[call].callee;
        if (o->stage[callee] == ON_PATH) {
            m->dropped[call] = true;
        } else if (o->stage[callee] == NEW) {
            o->stage[callee] = ON_PATH;
            o->path[depth++] = callee;
        }
    }
}

/* Functions that others call, and in a circle of those the one with most time, come after those that nobody calls. */
typedef struct start_order {
    bool is_called;
    int64_t total_ns;
    uint32_t function;
} start_order;

static int by_start(const void *a, const void *b)
{
    const start_order *x = a, *y = b;
    if (x->is_called != y->is_called)
        return x->is_called ? 1 : -1;
    if (x->total_ns != y->total_ns)
        return x->total_ns > y->total_ns ? -1 : 1;
    return x->function < y->function ? -1 : x->function > y->function;
}

static bool find_circles(tree_maker *m, call_order *o)
{
    const stk__trace *t = m->t;
    start_order *starts = stk__calloc(t->function_count + 1, sizeof *starts);
    if (!starts)
        return false;
    for (uint32_t f = 0; f < t->function_count; f++)
        starts[f] = (start_order){false, t->functions[f].total_ns, f};
    for (size_t i = 0; i < t->call_count; i++) {
        if (is_call(t, i) && t->calls[i].caller != t->calls[i].callee)
            starts[t->calls[i].callee].is_called = true;
    }
    qsort(starts, t->function_count, sizeof *starts, by_start);
    for (size_t i = 0; i < t->function_count; i++) {
        if (o->stage[starts[i].function] == NEW)
            drop_circles(m, o, starts[i].function);
    }
    stk__free(starts);
    return true;
}

static bool make_acyclic(tree_maker *m)
{
    const stk__trace *t = m->t;
    const size_t functions = t->function_count + 1;
    call_order o = {
        .rows = stk__alloc((t->call_count + 1) * sizeof *o.rows),
        .first = stk__calloc(functions + 1, sizeof *o.first),
        .at = stk__alloc(functions * sizeof *o.at),
        .path = stk__alloc(functions * sizeof *o.path),
        .stage = stk__calloc(functions, sizeof *o.stage),
    };
    bool good = o.rows && o.first && o.at && o.path && o.stage;
    if (good) {
        order_calls(t, &o);
        good = find_circles(m, &o);
    }
    stk__free(o.rows);
    stk__free(o.first);
    stk__free(o.at);
    stk__free(o.path);
    stk__free(o.stage);
    return good;
}

/* ---- parts ---- */

/* What an edge says about its callee; figures that the file does not have are 0. */
typedef struct edge_figures {
    double self, below, total, calls, one;
} edge_figures;

static edge_figures figures_of(const stk__trace_call *c)
{
    const double self = plain(c->self_ns), total = plain(c->total_ns);
    return (edge_figures){self, STK_MAX(total - self, 0.0), total, plain(c->calls), 1};
}

/* Sums over the callers of each function: of all edges, and of those that are kept. */
typedef struct edge_sums {
    edge_figures all, kept;
} edge_sums;

static void add_figures(edge_figures *to, const edge_figures *x)
{
    to->self += x->self;
    to->below += x->below;
    to->total += x->total;
    to->calls += x->calls;
    to->one += x->one;
}

static double self_part(const edge_figures *x, const edge_figures *sum)
{
    return sum->self > 0    ? x->self / sum->self
           : sum->total > 0 ? x->total / sum->total
           : sum->calls > 0 ? x->calls / sum->calls
                            : x->one / sum->one;
}

static double below_part(const edge_figures *x, const edge_figures *sum)
{
    return sum->below > 0   ? x->below / sum->below
           : sum->total > 0 ? x->total / sum->total
           : sum->calls > 0 ? x->calls / sum->calls
                            : x->one / sum->one;
}

static double missing_part(double whole, double known, double slack)
{
    return whole > 0 && whole - known > slack ? (whole - known) / whole : 0;
}

/* A function that was also called from outside of the profile is outermost with that part of its time. */
static void find_roots(tree_maker *m, const edge_sums *sums)
{
    for (uint32_t f = 0; f < m->t->function_count; f++) {
        const edge_sums *s = &sums[f];
        if (s->kept.one <= 0) {
            m->root_self[f] = m->root_below[f] = 1;
        } else if (s->all.self > 0) {
            const double slack = 2 + s->all.one + self_of(m, f) * 1e-6;
            m->root_self[f] = missing_part(self_of(m, f), s->all.self, slack);
            if (m->root_self[f] > 0)
                m->root_below[f] = missing_part(below_of(m, f), s->all.below, below_of(m, f) * 0.01);
        }
    }
}

static void place_edges(tree_maker *m, const edge_sums *sums)
{
    const stk__trace *t = m->t;
    for (size_t i = 0; i < t->call_count; i++) {
        if (is_call(t, i) && !m->dropped[i])
            m->first[t->calls[i].caller + 1]++;
    }
    for (size_t f = 0; f < t->function_count; f++)
        m->first[f + 1] += m->first[f];
    for (size_t i = 0; i < t->call_count; i++) {
        const stk__trace_call *c = &t->calls[i];
        if (!is_call(t, i) || m->dropped[i])
            continue;
        const edge_figures x = figures_of(c);
        m->edges[m->first[c->caller]++] =
            (tree_edge){c->caller, c->callee, self_part(&x, &sums[c->callee].kept) * (1 - m->root_self[c->callee]),
                        below_part(&x, &sums[c->callee].kept) * (1 - m->root_below[c->callee])};
    }
    memmove(m->first + 1, m->first, t->function_count * sizeof *m->first); /* each had moved to the next one's */
    m->first[0] = 0;
}

static bool find_parts(tree_maker *m)
{
    const stk__trace *t = m->t;
    edge_sums *sums = stk__calloc(t->function_count + 1, sizeof *sums);
    if (!sums)
        return false;
    for (size_t i = 0; i < t->call_count; i++) {
        if (!is_call(t, i))
            continue;
        const edge_figures x = figures_of(&t->calls[i]);
        add_figures(&sums[t->calls[i].callee].all, &x);
        if (!m->dropped[i])
            add_figures(&sums[t->calls[i].callee].kept, &x);
        m->out->estimated = m->out->estimated || m->dropped[i] || sums[t->calls[i].callee].kept.one > 1;
    }
    find_roots(m, sums);
    place_edges(m, sums);
    stk__free(sums);
    return true;
}

/* ---- stacks, the largest first ---- */

static void heap_push(tree_maker *m, open_stack x)
{
    if (!stk__grow((void **)&m->heap, &m->heap_capacity, m->heap_count + 1, sizeof *m->heap)) {
        m->nomem = true;
        return;
    }
    size_t at = m->heap_count++;
    for (; at > 0 && m->heap[(at - 1) / 2].weight < x.weight; at = (at - 1) / 2)
        m->heap[at] = m->heap[(at - 1) / 2];
    m->heap[at] = x;
}

static open_stack heap_pop(tree_maker *m)
{
    const open_stack top = m->heap[0], last = m->heap[--m->heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= m->heap_count)
            break;
        if (child + 1 < m->heap_count && m->heap[child + 1].weight > m->heap[child].weight)
            child++;
        if (m->heap[child].weight <= last.weight)
            break;
        m->heap[at] = m->heap[child];
        at = child;
    }
    m->heap[at] = last;
    return top;
}

static uint32_t add_node(tree_maker *m, uint32_t parent, uint32_t function, int64_t self_ns)
{
    if (!stk__grow((void **)&m->out->nodes, &m->capacity, m->out->count + 1, sizeof *m->out->nodes)) {
        m->nomem = true;
        return STK__NONE;
    }
    m->out->nodes[m->out->count] = (stk__call_node){parent, function, self_ns};
    return (uint32_t)m->out->count++;
}

/* What is too small or too deep stays for the rest. */
static void offer_stack(tree_maker *m, uint32_t parent, uint32_t f, double self, double below, uint32_t depth)
{
    const double weight = self * self_of(m, f) + below * below_of(m, f);
    if (weight > 0 && weight >= m->all * SMALLEST_PART && depth < DEPTH_MAX && m->heap_count < WAITING_MAX)
        heap_push(m, (open_stack){self, below, weight, parent, f, depth});
}

static uint32_t take_stack(tree_maker *m, const open_stack *x)
{
    const uint32_t f = x->function;
    const uint32_t node = add_node(m, x->parent, f, (int64_t)floor(STK_MIN(x->self * self_of(m, f), 9e18)));
    m->met[f] += x->self;
    if (m->largest[f] == STK__NONE || x->self > m->largest_part[f]) {
        m->largest[f] = node;
        m->largest_part[f] = x->self;
    }
    return node;
}

static void make_stacks(tree_maker *m)
{
    for (uint32_t f = 0; f < m->t->function_count && !m->nomem; f++) {
        m->largest[f] = STK__NONE;
        offer_stack(m, STK__NONE, f, m->root_self[f], m->root_below[f], 0);
    }
    while (m->heap_count && m->out->count < STACKS_MAX && !m->nomem) {
        const open_stack x = heap_pop(m);
        const uint32_t node = take_stack(m, &x);
        for (uint32_t e = m->first[x.function]; e < m->first[x.function + 1] && !m->nomem; e++)
            offer_stack(m, node, m->edges[e].callee, x.below * m->edges[e].self, x.below * m->edges[e].below,
                        x.depth + 1);
    }
}

/* Own time that no stack has yet: rounding goes to the largest stack of the function, the rest below one node. */
static void add_rest(tree_maker *m)
{
    const stk__trace *t = m->t;
    int64_t *left = stk__alloc((t->function_count + 1) * sizeof *left);
    uint32_t rest = STK__NONE;
    if (!left) {
        m->nomem = true;
        return;
    }
    for (size_t f = 0; f < t->function_count; f++)
        left[f] = t->functions[f].self_ns;
    for (size_t i = 0; i < m->out->count; i++)
        left[m->out->nodes[i].function] -= m->out->nodes[i].self_ns;
    for (uint32_t f = 0; f < t->function_count && !m->nomem; f++) {
        if (left[f] == 0)
            continue;
        if (m->largest[f] != STK__NONE && (m->met[f] >= WHOLE || left[f] < 0)) {
            m->out->nodes[m->largest[f]].self_ns += left[f];
            continue;
        }
        if (rest == STK__NONE)
            rest = add_node(m, STK__NONE, STK__NONE, 0);
        add_node(m, rest, f, left[f]);
    }
    stk__free(left);
}

static bool maker_init(tree_maker *m)
{
    const size_t functions = m->t->function_count + 1;
    m->edges = stk__alloc((m->t->call_count + 1) * sizeof *m->edges);
    m->dropped = stk__calloc(m->t->call_count + 1, sizeof *m->dropped);
    m->first = stk__calloc(functions + 1, sizeof *m->first);
    m->root_self = stk__calloc(functions, sizeof *m->root_self);
    m->root_below = stk__calloc(functions, sizeof *m->root_below);
    m->met = stk__calloc(functions, sizeof *m->met);
    m->largest = stk__alloc(functions * sizeof *m->largest);
    m->largest_part = stk__calloc(functions, sizeof *m->largest_part);
    for (uint32_t f = 0; f < m->t->function_count; f++)
        m->all += self_of(m, f);
    return m->edges && m->dropped && m->first && m->root_self && m->root_below && m->met && m->largest &&
           m->largest_part;
}

stk_status stk__call_tree_make(const stk__trace *t, stk__call_tree *out, stk_error *err)
{
    *out = (stk__call_tree){0};
    tree_maker m = {.t = t, .out = out};
    m.nomem = !maker_init(&m) || !make_acyclic(&m) || !find_parts(&m);
    if (!m.nomem) {
        make_stacks(&m);
        add_rest(&m);
    }
    stk__free(m.edges);
    stk__free(m.dropped);
    stk__free(m.first);
    stk__free(m.root_self);
    stk__free(m.root_below);
    stk__free(m.met);
    stk__free(m.largest);
    stk__free(m.largest_part);
    stk__free(m.heap);
    if (!m.nomem)
        return STK_OK;
    stk__call_tree_clear(out);
    return stk__nomem((t->function_count + t->call_count) * sizeof(tree_edge), err);
}
