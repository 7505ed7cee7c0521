/* The slow stage of tf.data: how long the loop was blocked in each iterator of the pipelines that it called. */
#include <string.h>

#include "analyze/diagnose_stage.h"
#include "base/mem.h"

#include "base/banned.h"

enum { MAX_NODES = 4096, MAX_LEVEL = 100 };

/* A stage of a pipeline. Stages that have no slices of their own stand in the tree as well. */
typedef struct node {
    uint32_t parent;  /* STK__NONE: a pipeline, which is no stage */
    uint32_t sibling; /* the one before among its parent's children; STK__NONE */
    uint32_t child;   /* the last one */
    const char *scope;
    size_t scope_size;
    uint32_t level;
    stk__string path; /* of its first slice */
    uint64_t calls;
    stk__spans runs;    /* when it runs, on any thread */
    stk__spans called;  /* roots: when the loop runs them */
    stk__spans blocked; /* when the loop is blocked in it */
    stk__spans inner;   /* when that is explained by its inputs */
} node;

/* An iterator that has an id. */
typedef struct known {
    stk__iterator_id parent;
    stk__string path;
    uint32_t node; /* STK__NONE: none */
    bool placed;   /* node is set, or being looked for: ids may go round in circles */
} known;

typedef struct tree {
    stk__stage_finder *f;
    const stk__tf_data *x;
    node *nodes;
    size_t count, capacity;
    stk__keymap paths; /* pipeline and path -> node */
    stk__keymap pipelines;
    known *ids;
    size_t id_count, id_capacity;
    stk__keymap id_rows;
    stk__spans waits; /* of the loop */
    bool has_waits;   /* those are known by something else than the roots themselves */
    bool has_nested;  /* the roots that are waited for lie inside of waits on the same thread */
} tree;

/* ---- text ---- */

static size_t scope_end(const char *s, size_t size, size_t at)
{
    while (at < size && !(s[at] == ':' && at + 1 < size && s[at + 1] == ':'))
        at++;
    return at;
}

static bool has_word(const char *s, size_t size, const char *word)
{
    const size_t n = strlen(word);
    for (size_t i = 0; i + n <= size; i++)
        if (memcmp(s + i, word, n) == 0)
            return true;
    return false;
}

/*
 * The scope without its number where that counts the elements or epochs that the stage reads one after the other.
 * Of Zip and its like the number says which input it is, which is another stage.
 */
static size_t scope_stem(const char *s, size_t size)
{
    const char *bracket = memchr(s, '[', size);
    const size_t stem = bracket ? (size_t)(bracket - s) : size;
    const bool elements = (has_word(s, stem, "Interleave") && !has_word(s, stem, "Directed")) ||
                          has_word(s, stem, "FlatMap") || has_word(s, stem, "Repeat");
    return elements ? stem : size;
}

bool stk__stage_same_iterator(const char *a, size_t a_size, const char *b, size_t b_size)
{
    size_t i = 0, j = 0;
    while (i < a_size && j < b_size) {
        const size_t i_end = scope_end(a, a_size, i), j_end = scope_end(b, b_size, j);
        const size_t n = scope_stem(a + i, i_end - i);
        if (n != scope_stem(b + j, j_end - j) || memcmp(a + i, b + j, n) != 0)
            return false;
        i = i_end + 2;
        j = j_end + 2;
    }
    return i >= a_size && j >= b_size;
}

/* ---- the tree ---- */

static uint32_t node_new(tree *tr, uint32_t parent, const char *scope, size_t size)
{
    const uint32_t level = parent == STK__NONE ? 0 : tr->nodes[parent].level + 1;
    if (tr->count == MAX_NODES || level > MAX_LEVEL)
        return STK__NONE;
    if (!stk__grow((void **)&tr->nodes, &tr->capacity, tr->count + 1, sizeof *tr->nodes)) {
        tr->f->failed = true;
        return STK__NONE;
    }
    node *n = &tr->nodes[tr->count];
    *n = (node){.parent = parent, .sibling = STK__NONE, .child = STK__NONE, .level = level};
    n->scope = scope;
    n->scope_size = size;
    if (parent != STK__NONE) {
        n->sibling = tr->nodes[parent].child;
        tr->nodes[parent].child = (uint32_t)tr->count;
    }
    return (uint32_t)tr->count++;
}

static uint32_t node_child(tree *tr, uint32_t parent, const char *scope, size_t size)
{
    for (uint32_t n = tr->nodes[parent].child; n != STK__NONE; n = tr->nodes[n].sibling)
        if (tr->nodes[n].scope_size == size && memcmp(tr->nodes[n].scope, scope, size) == 0)
            return n;
    return node_new(tr, parent, scope, size);
}

/* The node of a scope; "Zip[1]", the second input of Zip, is a node without slices below that of "Zip". */
static uint32_t scope_node(tree *tr, uint32_t parent, const char *scope, size_t size)
{
    const size_t kept = scope_stem(scope, size);
    const char *bracket = memchr(scope, '[', kept);
    const size_t stem = bracket ? (size_t)(bracket - scope) : kept;
    const uint32_t n = node_child(tr, parent, scope, stem);
    return n == STK__NONE || stem == kept ? n : node_child(tr, n, scope + stem, kept - stem);
}

/* The place of a key's value, which is STK__NONE when it is new. NULL: no memory. */
static uint32_t *place(tree *tr, stk__keymap *map, stk__key key)
{
    bool fresh;
    uint32_t *at = stk__keymap_place(map, key, STK__NONE, &fresh);
    tr->f->failed = tr->f->failed || !at;
    return at;
}

static uint32_t pipeline_node(tree *tr, stk__iterator_id root)
{
    const stk__key key = {{root.value, root.kind}};
    uint32_t *at = place(tr, &tr->pipelines, key);
    if (at && *at == STK__NONE)
        *at = node_new(tr, STK__NONE, "", 0);
    return at ? *at : STK__NONE;
}

/* "Iterator::Root::Prefetch::Map" below its pipeline. */
static uint32_t path_node(tree *tr, uint32_t pipeline, stk__string path)
{
    const stk__key key = {{pipeline, path}};
    const uint32_t found = stk__keymap_find(&tr->paths, key, STK__NONE);
    size_t size;
    const char *text = stk__trace_text(tr->f->d->trace, path, &size);
    if (found != STK__NONE || pipeline == STK__NONE || tr->count == MAX_NODES)
        return found;
    uint32_t n = pipeline;
    for (size_t at = strlen("Iterator::"); at < size && n != STK__NONE;) {
        const size_t end = scope_end(text, size, at);
        n = scope_node(tr, n, text + at, end - at);
        at = end + 2;
    }
    uint32_t *slot = place(tr, &tr->paths, key);
    if (slot)
        *slot = n;
    return n;
}

static uint32_t id_row(const tree *tr, stk__iterator_id id)
{
    return id.kind ? stk__keymap_find(&tr->id_rows, (stk__key){{id.value, id.kind}}, STK__NONE) : STK__NONE;
}

/* The root above an iterator; where its slices are not in the trace, the outermost id that is spoken of. */
static stk__iterator_id root_of(const tree *tr, stk__iterator_id id)
{
    for (int level = 0; level < MAX_LEVEL; level++) {
        const uint32_t row = id_row(tr, id);
        if (row == STK__NONE || !tr->ids[row].parent.kind)
            break;
        id = tr->ids[row].parent;
    }
    return id;
}

static bool is_long(const tree *tr, stk__string path)
{
    return strstr(stk__trace_str(tr->f->d->trace, path) + strlen("Iterator::"), "::");
}

/* Where only ids tell the tree, a stage's place is below that of its parent. */
static uint32_t id_node(tree *tr, uint32_t row, stk__iterator_id id, int level)
{
    known *k = &tr->ids[row];
    if (k->placed || level > MAX_LEVEL)
        return k->node;
    k->placed = true;
    const uint32_t pipeline = pipeline_node(tr, root_of(tr, id));
    const uint32_t parent_row = id_row(tr, k->parent);
    uint32_t at = STK__NONE;
    if (is_long(tr, k->path) || !k->parent.kind) {
        at = path_node(tr, pipeline, k->path);
    } else {
        const uint32_t parent = parent_row == STK__NONE ? pipeline : id_node(tr, parent_row, k->parent, level + 1);
        size_t size;
        const char *text = stk__trace_text(tr->f->d->trace, k->path, &size);
        const size_t head = strlen("Iterator::");
        if (parent != STK__NONE)
            at = scope_node(tr, parent, text + head, size - head);
    }
    return tr->ids[row].node = at;
}

/* ---- slices ---- */

static bool is_own_track(const stk__stage_finder *f, size_t track)
{
    return f->owners[track] == f->rank && f->c->roles[track] == STK__ROLE_HOST;
}

static bool is_iterator_slice(const stk__trace *t, size_t i)
{
    size_t size;
    const char *name = stk__trace_text(t, t->slices.name[i], &size);
    return name[0] == 'I' && stk__is_iterator(name, size) && !stk__slice_is_instant(t, i);
}

static bool collect_id(tree *tr, size_t slice)
{
    const stk__iterator it = stk__iterator_of(tr->x, slice);
    bool fresh = false;
    if (!it.id.kind)
        return true;
    if (!stk__grow((void **)&tr->ids, &tr->id_capacity, tr->id_count + 1, sizeof *tr->ids) ||
        !stk__keymap_place(&tr->id_rows, (stk__key){{it.id.value, it.id.kind}}, (uint32_t)tr->id_count, &fresh))
        return false;
    if (fresh)
        tr->ids[tr->id_count++] = (known){.parent = it.parent, .path = it.path, .node = STK__NONE};
    return true;
}

static bool is_wait(const tree *tr, size_t slice)
{
    const stk__rank *rank = &tr->f->d->ranks[tr->f->rank];
    const stk__trace *t = tr->f->d->trace;
    return stk__classify(tr->f->c, slice, rank->waits) == STK__HOST_WAIT_INPUT &&
           (!rank->own_waits_only || stk__track_root(t, t->slices.track[slice]) == rank->main_track);
}

static bool collect_wait(tree *tr, size_t slice)
{
    const stk__trace *t = tr->f->d->trace;
    return !is_wait(tr, slice) ||
           stk__spans_add(&tr->waits, t->slices.ts[slice], t->slices.ts[slice] + t->slices.dur[slice]);
}

/* A root that some thread calls for itself lies inside of no wait of the loop. */
static bool is_nested_root(const tree *tr, size_t slice)
{
    const stk__slices *s = &tr->f->d->trace->slices;
    int level = 0;
    if (!stk__iterator_is_root(tr->x, slice))
        return false;
    for (uint32_t up = s->parent[slice]; up != STK__NONE && level < MAX_LEVEL; up = s->parent[up], level++)
        if (!is_iterator_slice(tr->f->d->trace, up) && is_wait(tr, up))
            return true;
    return false;
}

static bool collect_slice(tree *tr, size_t slice)
{
    if (!is_iterator_slice(tr->f->d->trace, slice))
        return collect_wait(tr, slice);
    tr->has_nested = tr->has_nested || is_nested_root(tr, slice);
    return collect_id(tr, slice);
}

/* First pass: the ids, and when the loop waits. */
static bool collect(tree *tr)
{
    const stk__trace *t = tr->f->d->trace;
    for (size_t k = 0; k < t->track_count; k++) {
        if (!is_own_track(tr->f, k))
            continue;
        for (size_t i = t->tracks[k].first_slice, end = i + t->tracks[k].slice_count; i < end; i++) {
            stk__trim_at(t, i);
            if (!collect_slice(tr, i))
                return false;
        }
    }
    stk__spans_normalize(&tr->waits);
    tr->has_waits = tr->waits.count;
    return true;
}

static uint32_t node_of(tree *tr, size_t slice)
{
    const stk__iterator it = stk__iterator_of(tr->x, slice);
    const uint32_t row = id_row(tr, it.id);
    if (row != STK__NONE)
        return id_node(tr, row, it.id, 0);
    return path_node(tr, pipeline_node(tr, root_of(tr, it.parent)), it.path);
}

static bool add_slice(tree *tr, size_t i)
{
    const stk__trace *t = tr->f->d->trace;
    const uint32_t at = node_of(tr, i);
    const int64_t from = t->slices.ts[i], to = from + t->slices.dur[i];
    if (at == STK__NONE)
        return !tr->f->failed;
    node *n = &tr->nodes[at];
    if (!n->path)
        n->path = stk__iterator_of(tr->x, i).path;
    n->calls++;
    /* Where nothing else shows the loop's waits, they are the roots that it calls itself. */
    const bool root = tr->has_nested  ? is_nested_root(tr, i)
                      : tr->has_waits ? stk__iterator_is_root(tr->x, i)
                                      : stk__iterator_is_wait(tr->x, i);
    return stk__spans_add(&n->runs, from, to) && (!root || stk__spans_add(&n->called, from, to));
}

/* Second pass. */
static bool add_slices(tree *tr)
{
    const stk__trace *t = tr->f->d->trace;
    for (size_t k = 0; k < t->track_count; k++)
        for (size_t i = t->tracks[k].first_slice, end = i + t->tracks[k].slice_count; is_own_track(tr->f, k) && i < end;
             i++) {
            stk__trim_at(t, i);
            if (is_iterator_slice(t, i) && !add_slice(tr, i))
                return false;
        }
    return true;
}

/* ---- blocking ---- */

static bool intersect(const stk__spans *a, const stk__spans *b, stk__spans *out)
{
    for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
        const int64_t from = STK_MAX(a->rows[i].start, b->rows[j].start);
        const int64_t to = STK_MIN(a->rows[i].end, b->rows[j].end);
        if (from < to && !stk__spans_add(out, from, to))
            return false;
        if (a->rows[i].end < b->rows[j].end)
            i++;
        else
            j++;
    }
    stk__spans_normalize(out);
    return true;
}

static bool append(stk__spans *to, const stk__spans *from)
{
    for (size_t i = 0; i < from->count; i++)
        if (!stk__spans_add(to, from->rows[i].start, from->rows[i].end))
            return false;
    return true;
}

/* The nearest stage outwards that has slices. */
static uint32_t outer_of(const tree *tr, uint32_t at)
{
    do
        at = tr->nodes[at].parent;
    while (at != STK__NONE && !tr->nodes[at].runs.count);
    return at;
}

/*
 * XProf walks from a root's call into the children that overlap it, in the slowest call alone. Here for all calls at
 * once: a root blocks while it runs and the loop waits; a child blocks while it runs and its parent blocks, on whatever
 * thread; what of a parent's blocking time no child explains is its own. The own times add up to the time that roots
 * were blocked. Children of one parent may run at once (interleave), so it is their union that goes off.
 */
static bool block(tree *tr)
{
    stk__spans steps = {0};
    bool ok = tr->f->start >= tr->f->end || stk__spans_add(&steps, tr->f->start, tr->f->end);
    for (uint32_t i = 0; ok && i < tr->count; i++) {
        node *n = &tr->nodes[i];
        const uint32_t outer = outer_of(tr, i);
        stk__spans_normalize(&n->runs);
        stk__spans_normalize(&n->called);
        if (n->called.count)
            ok = intersect(&n->called, tr->has_waits ? &tr->waits : &steps, &n->blocked);
        else if (outer != STK__NONE)
            ok = intersect(&n->runs, &tr->nodes[outer].blocked, &n->blocked) &&
                 append(&tr->nodes[outer].inner, &n->blocked);
    }
    stk__spans_clear(&steps);
    return ok;
}

static bool take(tree *tr, stk__stage *stage)
{
    stk__stage_finder *f = tr->f;
    for (size_t i = 0; i < tr->count; i++) {
        node *n = &tr->nodes[i];
        stk__spans_normalize(&n->inner);
        const double ns = (double)stk__spans_within(&n->blocked, f->start, f->end) -
                          (double)stk__spans_within(&n->inner, f->start, f->end);
        if (ns <= 0)
            continue;
        const uint32_t row = stk__stage_sum_named(f, 0, n->path, 0, 0);
        if (row == STK__NONE)
            return false;
        f->sums[row].ns += ns;
        f->sums[row].calls += n->calls;
    }
    stk__stage_take(f, stage);
    stage->kind = stage->count ? STK__STAGE_TF_DATA : STK__STAGE_NONE;
    return true;
}

static void tree_clear(tree *tr)
{
    for (size_t i = 0; i < tr->count; i++) {
        stk__spans_clear(&tr->nodes[i].runs);
        stk__spans_clear(&tr->nodes[i].called);
        stk__spans_clear(&tr->nodes[i].blocked);
        stk__spans_clear(&tr->nodes[i].inner);
    }
    stk__free(tr->nodes);
    stk__free(tr->ids);
    stk__keymap_clear(&tr->paths);
    stk__keymap_clear(&tr->pipelines);
    stk__keymap_clear(&tr->id_rows);
    stk__spans_clear(&tr->waits);
}

bool stk__stage_iterators(stk__stage_finder *f, stk__stage *stage)
{
    tree tr = {.f = f, .x = &f->c->tf_data};
    const bool ok = collect(&tr) && add_slices(&tr) && block(&tr) && take(&tr, stage);
    tree_clear(&tr);
    return ok && !f->failed;
}
