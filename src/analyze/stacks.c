/* The tree of stacks: equal paths of nested slices or of samples are one row. */
#include "analyze/stacks.h"

#include <string.h>

#include "base/mem.h"
#include "trace/keymap.h"

#include "base/banned.h"

enum { TRIM_ROWS = 1 << 20 };

/* A slice that is still open, and the row around whatever comes inside it. */
typedef struct open_slice {
    uint32_t slice, row;
} open_slice;

typedef struct stack_maker {
    const stk__trace *trace;
    stk__chosen chosen;
    bool by_process;
    stk__stacks out;
    size_t capacity;
    stk__keymap rows; /* (parent + 1 or context, name or frame, kind) -> row */
    open_slice *open;
    size_t open_count, open_capacity;
    /* The last child that was found of each row: runs of equal names need no search. */
    uint32_t *last_child;
    size_t last_capacity;
} stack_maker;

static void maker_clear(stack_maker *m)
{
    stk__chosen_clear(&m->chosen);
    stk__keymap_clear(&m->rows);
    stk__free(m->open);
    stk__free(m->last_child);
}

/* Adds to sums that stop at the ends of int64. */
static void add_to(int64_t *sum, int64_t x)
{
    if (__builtin_add_overflow(*sum, x, sum))
        *sum = x < 0 ? INT64_MIN : INT64_MAX;
}

/*
 * The row below `parent` (STK__NONE: outermost, then told apart by group and unit) for a name, or a frame with its
 * name. STK__NONE when memory is out.
 */
static uint32_t row_below(stack_maker *m, uint32_t parent, const stk__stack *like)
{
    const uint32_t what = like->frame == STK__NONE ? like->name : like->frame;
    if (parent != STK__NONE) {
        const uint32_t last = m->last_child[parent];
        if (last != STK__NONE && m->out.rows[last].name == like->name && m->out.rows[last].frame == like->frame)
            return last;
    }
    const uint64_t around = parent != STK__NONE ? parent : (uint64_t)like->group << 3 | like->unit | (uint64_t)1 << 40;
    const uint64_t kind = (uint64_t)(parent == STK__NONE) << 1 | (like->frame != STK__NONE);
    bool is_new;
    uint32_t *place = stk__keymap_place(&m->rows, (stk__key){{around, what, kind}}, STK__NONE, &is_new);
    if (!place)
        return STK__NONE;
    if (is_new) {
        if (m->out.count >= STK__NONE ||
            !stk__grow((void **)&m->out.rows, &m->capacity, m->out.count + 1, sizeof *m->out.rows) ||
            !stk__grow((void **)&m->last_child, &m->last_capacity, m->out.count + 1, sizeof *m->last_child))
            return STK__NONE;
        *place = (uint32_t)m->out.count;
        stk__stack *row = &m->out.rows[m->out.count];
        *row = *like;
        row->parent = parent;
        row->depth = parent == STK__NONE ? 0 : m->out.rows[parent].depth + 1;
        row->count = row->total = row->self = 0;
        m->last_child[m->out.count++] = STK__NONE;
    }
    if (parent != STK__NONE)
        m->last_child[parent] = *place;
    return *place;
}

static uint32_t group_of(const stack_maker *m, uint32_t track)
{
    return m->by_process ? m->trace->tracks[track].process : STK__NONE;
}

/* ---- slices ---- */

/* Slices that are not chosen are passed over: what is inside them counts as inside the next chosen one around. */
static bool add_slice(stack_maker *m, uint32_t i, uint32_t group)
{
    const stk__slices *s = &m->trace->slices;
    while (m->open_count && m->open[m->open_count - 1].slice != s->parent[i])
        m->open_count--;
    uint32_t row = m->open_count ? m->open[m->open_count - 1].row : STK__NONE;
    if (stk__chosen_slice(&m->chosen, i)) {
        row = row_below(m, row, &(stk__stack){.name = s->name[i], .frame = STK__NONE, .group = group});
        if (row == STK__NONE)
            return false;
        m->out.rows[row].count++;
        add_to(&m->out.rows[row].total, s->dur[i]);
    }
    if (!stk__grow((void **)&m->open, &m->open_capacity, m->open_count + 1, sizeof *m->open))
        return false;
    m->open[m->open_count++] = (open_slice){i, row};
    return true;
}

static bool add_slices(stack_maker *m)
{
    const stk__trace *t = m->trace;
    for (uint32_t k = 0; k < t->track_count; k++) {
        if (!stk__chosen_track(&m->chosen, k))
            continue;
        const uint32_t group = group_of(m, k);
        const uint32_t first = t->tracks[k].first_slice, end = first + t->tracks[k].slice_count;
        m->open_count = 0;
        for (uint32_t i = first; i < end; i++) {
            if ((i & (TRIM_ROWS - 1)) == 0)
                stk__trace_trim(t);
            if (!add_slice(m, i, group))
                return false;
        }
    }
    return true;
}

/* Rounding can make children longer than what is around them; self time is never below 0. */
static void subtract_children(stk__stacks *out)
{
    for (size_t i = 0; i < out->count; i++)
        out->rows[i].self = out->rows[i].total;
    for (size_t i = 0; i < out->count; i++) {
        if (out->rows[i].parent != STK__NONE)
            add_to(&out->rows[out->rows[i].parent].self, -out->rows[i].total);
    }
    for (size_t i = 0; i < out->count; i++)
        out->rows[i].self = STK_MAX(out->rows[i].self, 0);
}

/* ---- samples ---- */

/* Rows of call sites that samples of one group and unit have met, so that a stack is walked up only where it is new. */
typedef struct site_rows {
    stk__keymap map;
    uint32_t *path; /* call sites that have no row yet, innermost first */
    size_t capacity;
} site_rows;

/*
 * The row of a call site, made with those around it; STK__NONE: memory is out, or *out_none: none of its frames is
 * chosen.
 */
static uint32_t row_of_site(stack_maker *m, site_rows *sites, uint32_t site, const stk__stack *like, bool *out_none)
{
    const stk__trace *t = m->trace;
    const uint64_t context = (uint64_t)like->group << 3 | like->unit;
    size_t depth = 0;
    uint32_t row = STK__NONE, at = site;
    while (at < t->callsite_count) {
        const uint32_t known = stk__keymap_find(&sites->map, (stk__key){{context, at, 0}}, 0);
        if (known) {
            row = known - 2;
            break;
        }
        if (!stk__grow((void **)&sites->path, &sites->capacity, depth + 1, sizeof *sites->path))
            return STK__NONE;
        sites->path[depth++] = at;
        at = t->callsites[at].parent < at ? t->callsites[at].parent : STK__NONE;
    }
    while (depth) {
        at = sites->path[--depth];
        const uint32_t frame = t->callsites[at].frame;
        stk__stack below = *like;
        below.frame = frame;
        below.name = frame < t->frame_count ? t->frames[frame].name : 0;
        if (stk__chosen_name(&m->chosen, below.name) && (row = row_below(m, row, &below)) == STK__NONE)
            return STK__NONE;
        bool is_new;
        /* 1: no frame of it is chosen; 2 and up: rows. */
        uint32_t *place = stk__keymap_place(&sites->map, (stk__key){{context, at, 0}}, row + 2, &is_new);
        if (!place)
            return STK__NONE;
    }
    *out_none = row == STK__NONE;
    return row;
}

static bool add_sample(stack_maker *m, site_rows *sites, uint32_t i, const stk__stack *like)
{
    const stk__samples *s = &m->trace->samples;
    if (m->chosen.timed && (s->ts[i] == STK__NO_TIME || !stk__chosen_time(&m->chosen, s->ts[i], 0)))
        return true;
    if (!stk__chosen_category(&m->chosen, s->event[i]))
        return true;
    bool none = false;
    uint32_t row;
    if (s->callsite[i] >= m->trace->callsite_count) {
        /* An empty stack is a row without a name, unless names were asked for. */
        none = m->chosen.names != NULL;
        row = none ? STK__NONE : row_below(m, STK__NONE, like);
    } else {
        row = row_of_site(m, sites, s->callsite[i], like, &none);
    }
    if (row == STK__NONE)
        return none;
    stk__stack *stack = &m->out.rows[row];
    stack->count++;
    add_to(&stack->self, s->weight[i]);
    return true;
}

static bool add_samples(stack_maker *m)
{
    const stk__trace *t = m->trace;
    site_rows sites = {0};
    bool good = true;
    for (uint32_t k = 0; k < t->track_count && good; k++) {
        const stk__trace_track *track = &t->tracks[k];
        if (!stk__chosen_track(&m->chosen, k))
            continue;
        const stk__stack like = {.frame = STK__NONE, .group = group_of(m, k), .unit = track->unit & 7};
        for (uint32_t i = 0; i < track->sample_count && good; i++)
            good = add_sample(m, &sites, track->first_sample + i, &like);
    }
    stk__keymap_clear(&sites.map);
    stk__free(sites.path);
    return good;
}

/* Samples know their innermost frame; counts and weights go up to all around it. */
static void add_up(stk__stacks *out)
{
    for (size_t i = out->count; i-- > 0;) {
        stk__stack *row = &out->rows[i];
        add_to(&row->total, row->self);
        if (row->parent != STK__NONE) {
            add_to(&out->rows[row->parent].total, row->total);
            out->rows[row->parent].count += row->count;
        }
    }
}

/* ---- all of it ---- */

stk_status stk__stacks_make(const stk__trace *t, const stk__selection *select, bool by_process, stk__stacks *out,
                            stk_error *err)
{
    stack_maker m = {.trace = t, .by_process = by_process};
    STK_TRY(stk__chosen_init(&m.chosen, t, select, err));
    const bool slices = t->slices.count > 0;
    const bool good = slices ? add_slices(&m) : add_samples(&m);
    maker_clear(&m);
    if (!good) {
        stk__free(m.out.rows);
        return stk__nomem((m.out.count + 1) * sizeof *m.out.rows, err);
    }
    if (slices)
        subtract_children(&m.out);
    else
        add_up(&m.out);
    *out = m.out;
    return STK_OK;
}

void stk__stacks_path(const stk__trace *t, const stk__stacks *stacks, uint32_t row, stk__text *out)
{
    uint32_t *path = row < stacks->count ? stk__alloc(((size_t)stacks->rows[row].depth + 1) * sizeof *path) : NULL;
    if (!path) {
        out->failed |= row < stacks->count;
        return;
    }
    size_t depth = (size_t)stacks->rows[row].depth + 1;
    for (size_t i = depth; i-- > 0; row = stacks->rows[row].parent)
        path[i] = row;
    for (size_t i = 0; i < depth; i++) {
        if (i)
            stk__text_putc(out, ';');
        const char *name = stk__trace_str(t, stacks->rows[path[i]].name);
        if (!*name)
            name = "[unknown]";
        /* ';' parts frames, and a line's end parts stacks. */
        for (; *name; name++)
            stk__text_putc(out, *name == ';' ? ':' : *name == '\n' || *name == '\r' ? ' ' : *name);
    }
    stk__free(path);
}

void stk__stacks_clear(stk__stacks *stacks)
{
    stk__free(stacks->rows);
    *stacks = (stk__stacks){0};
}
