/* Stacks of two traces laid over each other: equal paths meet, and the largest changes of self time are kept. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/diff_impl.h"
#include "analyze/stacks.h"
#include "base/mem.h"
#include "trace/keymap.h"

#include "base/banned.h"

#define KEPT 1000      /* paths; the smaller changes are noise to whoever reads them */
#define PATH_LEVELS 64 /* innermost ones that a path tells */

typedef struct node {
    uint32_t parent, name; /* node; key */
    uint32_t unit;
    int64_t self[2], count[2];
} node;

typedef struct overlay {
    stk__diff_keys names;
    stk__keymap map; /* parent and name -> node */
    node *nodes;
    size_t count, capacity;
    int64_t all[2]; /* self of all */
    uint32_t unit;  /* that counts */
} overlay;

static uint32_t find_node(overlay *o, uint32_t parent, uint32_t name)
{
    bool is_new;
    const stk__key key = {{parent, name, 0}};
    uint32_t *place = stk__keymap_place(&o->map, key, (uint32_t)o->count, &is_new);
    if (!place)
        return STK__NONE;
    const uint32_t found = *place;
    if (is_new) {
        if (!stk__grow((void **)&o->nodes, &o->capacity, o->count + 1, sizeof *o->nodes))
            return STK__NONE;
        o->nodes[o->count++] = (node){.parent = parent, .name = name};
    }
    return found;
}

static stk_status add_stacks(overlay *o, const stk__trace *t, const stk__stacks *stacks, const char *marker, int side,
                             stk_error *err)
{
    uint32_t *node_of = stk__calloc(stacks->count, sizeof *node_of);
    if (!node_of)
        return stk__nomem(stacks->count * sizeof *node_of, err);
    bool ok = true;
    for (size_t i = 0; i < stacks->count && ok; i++) {
        const stk__stack *row = &stacks->rows[i];
        size_t size;
        if (row->unit != o->unit) {
            node_of[i] = STK__NONE;
            continue;
        }
        const char *text = stk__trace_text(t, row->name, &size);
        const uint32_t name = stk__diff_name_key(&o->names, marker, text, size);
        const uint32_t parent = row->parent < i ? node_of[row->parent] : STK__NONE;
        node_of[i] = name == STK__NONE ? STK__NONE : find_node(o, parent, name);
        ok = node_of[i] != STK__NONE;
        if (!ok)
            break;
        node *n = &o->nodes[node_of[i]];
        n->unit = row->unit;
        n->self[side] = stk__saturating_add(n->self[side], row->self);
        n->count[side] = stk__saturating_add(n->count[side], row->count);
        o->all[side] = stk__saturating_add(o->all[side], row->self);
    }
    stk__free(node_of);
    return ok ? STK_OK : stk__nomem(o->count * sizeof *o->nodes, err);
}

/* With one file, only what runs during the steps; files of several clocks have no common span. */
static stk__selection during_steps(const stk__trace *t, const stk__diff_steps *steps)
{
    stk__selection select = {.leave_out = true};
    if (t->file_count == 1 && steps->per > 0 && steps->from[0] < steps->to[0]) {
        select.from_ns = steps->from[0];
        select.to_ns = steps->to[0];
    }
    return select;
}

static stk_status add_trace(overlay *o, const stk__trace *t, const stk__diff_steps *steps, int side, stk_error *err)
{
    stk__stacks stacks = {0};
    const stk__selection select =
        steps->from ? during_steps(t, steps) : (stk__selection){0}; /* profiles: steps were not looked for */
    stk_status status = stk__stacks_make(t, &select, false, &stacks, err);
    if (status == STK_OK)
        status = add_stacks(o, t, &stacks, steps->steps.marker, side, err);
    stk__stacks_clear(&stacks);
    return status;
}

typedef struct change {
    uint32_t node;
    double before, after;
} change;

static int compare_changes(const void *a, const void *b)
{
    const change *x = a, *y = b;
    const double dx = fabs(x->after - x->before), dy = fabs(y->after - y->before);
    return dx != dy ? (dx > dy ? -1 : 1) : (x->node > y->node) - (x->node < y->node);
}

static char *path_of(const overlay *o, uint32_t at)
{
    uint32_t levels[PATH_LEVELS];
    size_t depth = 0;
    for (; at != STK__NONE && depth < PATH_LEVELS; at = o->nodes[at].parent)
        levels[depth++] = at;
    stk__text path = STK__TEXT_INIT;
    if (at != STK__NONE)
        stk__text_puts(&path, "...;");
    while (depth--) {
        size_t size;
        const char *name = stk__diff_key_text(&o->names, o->nodes[levels[depth]].name, &size);
        for (size_t i = 0; i < size; i++)
            stk__text_putc(&path, name[i] == ';' ? ':' : name[i] ? name[i] : ' ');
        if (depth)
            stk__text_putc(&path, ';');
    }
    if (!path.failed && path.data)
        return path.data;
    const bool failed = path.failed;
    stk__text_clear(&path);
    return failed ? NULL : stk__strdup("");
}

/* What a self time is divided by, so that traces of different length can be compared. */
static double divisor(const stk__diff *d, const overlay *o, const stk__diff_steps *steps, int side)
{
    if (d->basis == STK__DIFF_PER_STEP)
        return steps->per;
    return d->basis == STK__DIFF_PER_SHARE && o->all[side] > 0 ? (double)o->all[side] : 1;
}

static stk_status keep_largest(stk__diff *d, const overlay *o, const stk__diff_steps steps[2], stk_error *err)
{
    change *changes = stk__calloc(o->count, sizeof *changes);
    if (!changes)
        return stk__nomem(o->count * sizeof *changes, err);
    const double per[2] = {divisor(d, o, &steps[0], 0), divisor(d, o, &steps[1], 1)};
    size_t count = 0;
    for (uint32_t i = 0; i < o->count; i++) {
        const change c = {i, (double)o->nodes[i].self[0] / per[0], (double)o->nodes[i].self[1] / per[1]};
        if (c.before != c.after)
            changes[count++] = c;
    }
    if (count > 1)
        qsort(changes, count, sizeof *changes, compare_changes);
    count = STK_MIN(count, (size_t)KEPT);
    stk_status status = STK_OK;
    d->stacks = stk__calloc(count, sizeof *d->stacks);
    if (!d->stacks)
        status = stk__nomem(count * sizeof *d->stacks, err);
    for (size_t i = 0; i < count && status == STK_OK; i++) {
        const node *n = &o->nodes[changes[i].node];
        char *path = path_of(o, changes[i].node);
        if (!path)
            status = stk__nomem(PATH_LEVELS, err);
        else
            d->stacks[d->stack_count++] = (stk__diff_stack){.path = path,
                                                            .unit = n->unit,
                                                            .before = n->count[0] ? changes[i].before : NAN,
                                                            .after = n->count[1] ? changes[i].after : NAN,
                                                            .before_count = n->count[0],
                                                            .after_count = n->count[1]};
    }
    stk__free(changes);
    return status;
}

stk_status stk__diff_stacks(stk__diff *d, const stk__trace *before, const stk__trace *after,
                            const stk__diff_steps steps[2], stk_error *err)
{
    overlay o = {.unit = d->unit};
    stk_status status = add_trace(&o, before, &steps[0], 0, err);
    if (status == STK_OK)
        status = add_trace(&o, after, &steps[1], 1, err);
    if (status == STK_OK)
        status = keep_largest(d, &o, steps, err);
    stk__diff_keys_clear(&o.names);
    stk__keymap_clear(&o.map);
    stk__free(o.nodes);
    return status;
}
