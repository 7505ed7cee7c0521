/* top over samples: each function once per stack, whatever its recursion, with own code folded where that is asked. */
#include <stdlib.h>
#include <string.h>

#include "analyze/top_impl.h"
#include "base/mem.h"

#include "base/banned.h"

/*
 * A function is what has one name, file and module; its frames differ by line. With `own`, call sites of others belong
 * to the function of their nearest own caller, and those without one to function 0, "(not own)".
 */
typedef struct function_row {
    uint32_t frame; /* the first one; STK__NONE: not own, or an empty stack */
    int32_t line;   /* 0 when its frames do not agree */
    bool chosen;    /* by name, and as own where only these are wanted */
} function_row;

enum { FUNCTION_NONE, FUNCTION_FIRST };
#define FUNCTION_ALL UINT32_MAX

typedef struct weight_row {
    int64_t self, total, samples, all_samples; /* of the call site alone; with what it called */
} weight_row;

/* A sample, reduced to what decides its group. */
typedef struct sample_row {
    uint32_t group, unit, callsite, sample;
} sample_row;

typedef struct sample_pass {
    const stk__trace *trace;
    const stk__top_options *options;
    stk__grouping groups;
    function_row *functions;
    size_t function_count, function_capacity;
    uint32_t *frame_function;
    uint32_t *site_function; /* by call site */
    bool *outermost;         /* call sites whose function is not also further out */
    weight_row *weights;     /* by call site; zero between groups */
    uint32_t *touched;       /* call sites that are not zero */
    size_t touched_count;
    sample_row *samples;
    size_t sample_count;
    size_t row_capacity, label_capacity;
    size_t *function_row; /* row of a function in the current group, plus 1 */
} sample_pass;

static void pass_clear(sample_pass *p)
{
    stk__grouping_clear(&p->groups);
    stk__free(p->functions);
    stk__free(p->frame_function);
    stk__free(p->site_function);
    stk__free(p->outermost);
    stk__free(p->weights);
    stk__free(p->touched);
    stk__free(p->samples);
    stk__free(p->function_row);
}

/* ---- functions ---- */

static bool functions_find(sample_pass *p, stk__keymap *map)
{
    const stk__trace *t = p->trace;
    for (uint32_t i = 0; i < t->frame_count; i++) {
        const stk__trace_frame *f = &t->frames[i];
        p->frame_function[i] = FUNCTION_NONE;
        const bool own = !p->options->own_count || stk__frame_own(t, f, p->options->own, p->options->own_count);
        if (!own && !p->options->own_only)
            continue;
        bool is_new;
        uint32_t *place = stk__keymap_place(map, (stk__key){{f->name, f->file, f->module}}, 0, &is_new);
        if (!place)
            return false;
        if (is_new) {
            if (!stk__grow((void **)&p->functions, &p->function_capacity, p->function_count + 1, sizeof *p->functions))
                return false;
            *place = (uint32_t)p->function_count;
            const bool chosen = own && stk__frame_like(t, f, p->groups.chosen.select);
            p->functions[p->function_count++] = (function_row){i, f->line, chosen};
        } else if (p->functions[*place].line != f->line) {
            p->functions[*place].line = 0;
        }
        p->frame_function[i] = *place;
    }
    return true;
}

static stk_status functions_make(sample_pass *p, stk_error *err)
{
    const size_t frames = p->trace->frame_count;
    p->frame_function = stk__alloc((frames + 1) * sizeof *p->frame_function);
    stk__keymap map = {0};
    bool good = p->frame_function &&
                stk__grow((void **)&p->functions, &p->function_capacity, FUNCTION_FIRST, sizeof *p->functions);
    if (good) {
        p->functions[FUNCTION_NONE] = (function_row){.frame = STK__NONE};
        p->function_count = FUNCTION_FIRST;
        good = functions_find(p, &map);
    }
    stk__keymap_clear(&map);
    return good ? STK_OK : stk__nomem((frames + 1) * sizeof *p->functions, err);
}

/* ---- call sites ---- */

/* Children of each call site, as lists. */
typedef struct site_tree {
    uint32_t *child, *next; /* child[count]: the outermost ones */
    uint32_t *path;         /* the walk's way back */
    uint32_t *active;       /* by function: how often it is on that way */
} site_tree;

static void tree_clear(site_tree *tree)
{
    stk__free(tree->child);
    stk__free(tree->next);
    stk__free(tree->path);
    stk__free(tree->active);
}

static bool tree_init(const sample_pass *p, site_tree *tree)
{
    const size_t count = p->trace->callsite_count;
    tree->child = stk__alloc((count + 1) * sizeof *tree->child);
    tree->next = stk__alloc((count + 1) * sizeof *tree->next);
    tree->path = stk__alloc((count + 1) * sizeof *tree->path);
    tree->active = stk__calloc(p->function_count, sizeof *tree->active);
    if (!tree->child || !tree->next || !tree->path || !tree->active)
        return false;
    memset(tree->child, 0xff, (count + 1) * sizeof *tree->child);
    for (size_t i = count; i-- > 0;) {
        const uint32_t parent = p->trace->callsites[i].parent;
        const size_t list = parent < i ? parent : count;
        tree->next[i] = tree->child[list];
        tree->child[list] = (uint32_t)i;
    }
    return true;
}

/* Walks the tree, depth first and without recursion, to see which functions are already active further out. */
static void tree_walk(sample_pass *p, site_tree *tree)
{
    size_t depth = 0;
    uint32_t at = tree->child[p->trace->callsite_count];
    while (at != STK__NONE || depth) {
        if (at == STK__NONE) {
            const uint32_t done = tree->path[--depth];
            tree->active[p->site_function[done]]--;
            at = tree->next[done];
            continue;
        }
        p->outermost[at] = tree->active[p->site_function[at]]++ == 0;
        tree->path[depth++] = at;
        at = tree->child[at];
    }
}

static stk_status sites_make(sample_pass *p, stk_error *err)
{
    const stk__trace *t = p->trace;
    const size_t count = t->callsite_count;
    p->site_function = stk__alloc((count + 1) * sizeof *p->site_function);
    p->outermost = stk__calloc(count + 1, sizeof *p->outermost);
    p->weights = stk__calloc(count + 1, sizeof *p->weights);
    p->touched = stk__alloc((count + 1) * sizeof *p->touched);
    p->function_row = stk__calloc(p->function_count, sizeof *p->function_row);
    site_tree tree = {0};
    bool good = p->site_function && p->outermost && p->weights && p->touched && p->function_row;
    if (good) {
        for (uint32_t i = 0; i < count; i++) {
            const stk__trace_callsite *site = &t->callsites[i];
            const uint32_t own = site->frame < t->frame_count ? p->frame_function[site->frame] : FUNCTION_NONE;
            p->site_function[i] = own != FUNCTION_NONE || site->parent >= i ? own : p->site_function[site->parent];
        }
        good = tree_init(p, &tree);
    }
    if (good)
        tree_walk(p, &tree);
    tree_clear(&tree);
    return good ? STK_OK : stk__nomem((count + 1) * sizeof *p->weights, err);
}

/* ---- samples by group ---- */

static int compare_samples(const void *a, const void *b)
{
    const sample_row *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->unit != y->unit)
        return x->unit < y->unit ? -1 : 1;
    return (x->sample > y->sample) - (x->sample < y->sample);
}

/* By name, all samples of a unit are one group, and the names are those of the functions in it. */
static void collect_sample(sample_pass *p, uint32_t i, uint32_t unit, stk__top *out)
{
    const stk__samples *s = &p->trace->samples;
    stk__grouping *g = &p->groups;
    if (g->chosen.timed && (s->ts[i] == STK__NO_TIME || !stk__chosen_time(&g->chosen, s->ts[i], 0)))
        return;
    out->totals[unit] = stk__add_ns(out->totals[unit], s->weight[i]);
    if (!stk__chosen_category(&g->chosen, s->event[i]))
        return;
    uint32_t group = STK__GROUP_FIRST;
    if (g->by != STK__TOP_NAME)
        group = stk__grouping_find(g, stk__grouping_id(g, s->ts[i], 0, s->event[i]), 0);
    const uint32_t site = s->callsite[i] < p->trace->callsite_count ? s->callsite[i] : STK__NONE;
    p->samples[p->sample_count++] = (sample_row){group, unit, site, i};
}

static stk_status collect_samples(sample_pass *p, stk__top *out, stk_error *err)
{
    const stk__trace *t = p->trace;
    p->samples = stk__alloc((t->samples.count + 1) * sizeof *p->samples);
    if (!p->samples)
        return stk__nomem((t->samples.count + 1) * sizeof *p->samples, err);
    bool sorted = true;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const stk__trace_track *track = &t->tracks[k];
        if (!track->sample_count || !stk__chosen_track(&p->groups.chosen, k))
            continue;
        stk__grouping_track(&p->groups, k);
        const uint32_t unit = STK_MIN(track->unit, (uint32_t)STK__UNIT_NONE);
        for (uint32_t i = 0; i < track->sample_count; i++) {
            collect_sample(p, track->first_sample + i, unit, out);
            const size_t n = p->sample_count;
            sorted = sorted && (n < 2 || compare_samples(&p->samples[n - 2], &p->samples[n - 1]) <= 0);
        }
    }
    if (p->groups.failed)
        return stk__nomem(p->groups.capacity * sizeof *p->groups.groups, err);
    if (!sorted)
        qsort(p->samples, p->sample_count, sizeof *p->samples, compare_samples);
    return STK_OK;
}

/* ---- rows ---- */

static void label_function(const sample_pass *p, uint32_t function, stk__text *text)
{
    const function_row *f = &p->functions[function];
    if (f->frame == STK__NONE)
        stk__text_puts(text, p->options->own_count ? STK__TOP_NOT_OWN : "(empty stack)");
    else
        stk__frame_label(p->trace, &p->trace->frames[f->frame], f->line, text);
}

/* A row of a group, or of a function in it; FUNCTION_ALL: of the group as a whole. NULL when memory is out. */
static stk__top_row *add_row(sample_pass *p, const sample_row *of, uint32_t function, stk__top *out)
{
    const bool by_name = p->groups.by == STK__TOP_NAME;
    stk__top_row *row = stk__top_add(out, &p->row_capacity);
    if (!row || !stk__grow((void **)&out->labels, &p->label_capacity, out->count, sizeof *out->labels))
        return NULL;
    row->unit = of->unit;
    stk__text text = STK__TEXT_INIT;
    if (!by_name) {
        stk__grouping_row(&p->groups, of->group, row);
        stk__grouping_label(&p->groups, row, &text);
        stk__text_puts(&text, function == FUNCTION_ALL ? "" : "  ");
    }
    if (function != FUNCTION_ALL) {
        const uint32_t frame = p->functions[function].frame;
        const stk__string name = frame != STK__NONE ? p->trace->frames[frame].name : 0;
        label_function(p, function, &text);
        row->name = by_name ? 0 : name;
        row->key = by_name ? (frame != STK__NONE ? name : STK__NONE) : row->key;
        row->row = by_name ? frame : row->row;
    }
    /* The text's memory becomes the label. */
    if (text.failed || (!text.data && !(text.data = stk__strdup("")))) {
        stk__text_clear(&text);
        return NULL;
    }
    out->labels[out->label_count++] = text.data;
    return row;
}

/* A group as a whole: nothing is inside anything. */
static bool add_plain(sample_pass *p, const sample_row *samples, size_t count, stk__top *out)
{
    stk__top_row *row = add_row(p, samples, FUNCTION_ALL, out);
    if (!row)
        return false;
    for (size_t i = 0; i < count; i++)
        row->self = stk__add_ns(row->self, p->trace->samples.weight[samples[i].sample]);
    row->total = row->self;
    row->count = (int64_t)count;
    return true;
}

static int compare_sites(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

/* Gives weights to the call sites of the samples and to all around them. */
static void weigh_sites(sample_pass *p, const sample_row *samples, size_t count)
{
    const stk__trace_callsite *sites = p->trace->callsites;
    p->touched_count = 0;
    for (size_t i = 0; i < count; i++) {
        const int64_t weight = p->trace->samples.weight[samples[i].sample];
        uint32_t site = samples[i].callsite;
        if (site == STK__NONE)
            continue;
        weight_row *w = &p->weights[site];
        w->self = stk__add_ns(w->self, weight);
        w->samples++;
        /* all_samples serves as the mark until the sums are made. */
        for (; site != STK__NONE && !p->weights[site].all_samples; site = sites[site].parent) {
            p->weights[site].all_samples = 1;
            p->touched[p->touched_count++] = site;
            if (sites[site].parent >= site)
                break;
        }
    }
    /* Innermost first: parents have lower numbers. */
    qsort(p->touched, p->touched_count, sizeof *p->touched, compare_sites);
    for (size_t i = 0; i < p->touched_count; i++) {
        weight_row *w = &p->weights[p->touched[i]];
        w->total = w->self;
        w->all_samples = w->samples;
    }
    for (size_t i = 0; i < p->touched_count; i++) {
        const weight_row *w = &p->weights[p->touched[i]];
        const uint32_t parent = sites[p->touched[i]].parent;
        if (parent >= p->touched[i])
            continue;
        p->weights[parent].total = stk__add_ns(p->weights[parent].total, w->total);
        p->weights[parent].all_samples += w->all_samples;
    }
}

/* The row of a function in the current group; NULL when memory is out. */
static stk__top_row *row_of(sample_pass *p, uint32_t function, const sample_row *of, stk__top *out)
{
    if (p->function_row[function])
        return &out->rows[p->function_row[function] - 1];
    stk__top_row *row = add_row(p, of, function, out);
    if (row)
        p->function_row[function] = out->count;
    return row;
}

static void forget_group(sample_pass *p)
{
    for (size_t i = 0; i < p->touched_count; i++) {
        p->function_row[p->site_function[p->touched[i]]] = 0;
        p->weights[p->touched[i]] = (weight_row){0};
    }
    p->function_row[FUNCTION_NONE] = 0;
}

/* Stacks without a frame, or without an own one, are a row of their own; it has what is its own and no more. */
static bool add_empty(sample_pass *p, const sample_row *samples, size_t count, stk__top *out)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t site = samples[i].callsite;
        if (site != STK__NONE && p->site_function[site] != FUNCTION_NONE)
            continue;
        stk__top_row *row = row_of(p, FUNCTION_NONE, samples, out);
        if (!row)
            return false;
        row->self = row->total = stk__add_ns(row->self, p->trace->samples.weight[samples[i].sample]);
        row->count++;
    }
    return true;
}

static bool add_functions(sample_pass *p, const sample_row *samples, size_t count, stk__top *out)
{
    weigh_sites(p, samples, count);
    bool good = p->groups.chosen.names || p->options->own_only || add_empty(p, samples, count, out);
    for (size_t i = p->touched_count; i-- > 0 && good;) {
        const uint32_t site = p->touched[i];
        if (!p->functions[p->site_function[site]].chosen)
            continue;
        stk__top_row *row = row_of(p, p->site_function[site], samples, out);
        good = row != NULL;
        if (!row)
            break;
        const weight_row *w = &p->weights[site];
        row->self = stk__add_ns(row->self, w->self);
        if (p->outermost[site]) {
            row->total = stk__add_ns(row->total, w->total);
            row->count += w->all_samples;
        }
    }
    forget_group(p);
    return good;
}

static stk_status add_groups(sample_pass *p, stk__top *out, stk_error *err)
{
    const bool functions = p->groups.by == STK__TOP_NAME || p->groups.with_name;
    for (size_t first = 0, end; first < p->sample_count; first = end) {
        const sample_row *s = &p->samples[first];
        for (end = first + 1; end < p->sample_count; end++) {
            if (p->samples[end].group != s->group || p->samples[end].unit != s->unit)
                break;
        }
        if (!(functions ? add_functions(p, s, end - first, out) : add_plain(p, s, end - first, out)))
            return stk__nomem(p->row_capacity * sizeof *out->rows, err);
    }
    for (size_t i = 0; i < out->count; i++) {
        stk__top_row *row = &out->rows[i];
        row->primitive = row->count;
        row->mean = row->count ? (double)row->total / (double)row->count : 0;
    }
    return STK_OK;
}

stk_status stk__top_samples(const stk__trace *t, const stk__top_options *o, stk__top *out, stk_error *err)
{
    sample_pass p = {.trace = t, .options = o};
    stk_status status = stk__grouping_init(&p.groups, t, o, err);
    if (status == STK_OK)
        status = functions_make(&p, err);
    if (status == STK_OK)
        status = sites_make(&p, err);
    if (status == STK_OK)
        status = collect_samples(&p, out, err);
    if (status == STK_OK)
        status = add_groups(&p, out, err);
    pass_clear(&p);
    return status;
}
