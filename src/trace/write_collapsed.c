/*
 * Writes collapsed stacks, "a;b;c 42": what FlameGraph, inferno, speedscope and others draw. Lines are in the order of
 * their bytes.
 *
 * A file has one unit, so it holds one kind of thing, the first of these that the trace has:
 *   - slices: the path of names with the time in none of the inner ones, in ns. When more than one track has slices,
 *     each path starts with the name of its track (a lane counts as its track).
 *   - samples: the stack with its weight. Before it stands the name of the thread with '_' for spaces, as FlameGraph
 *     does with the commands of perf; tracks that are no threads are named when there are several. Only samples of the
 *     unit of the first one, and of a file of perf only those of its first kind of event. Weights that the reader kept
 *     in thousandths, as the fact weight_scale says, are written with their fraction again.
 *   - functions of Python profiles: their own time in ns, with stacks that are estimated from the callers (call_tree.h).
 * Of memory snapshots samples come before slices: those are annotations, and memory is what the file is about.
 * Frames that have a module are written by their name alone, as FlameGraph does; others as "name (file:line)", with
 * _[k], _[j] or _[i] behind the name for the kernel, code made at run time and inlined frames. A ';' in names becomes
 * ':', control bytes become spaces, and names end after 4096 bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "trace/call_tree.h"
#include "trace/emit.h"
#include "trace/keymap.h"
#include "trace/writer.h"

#include <xxhash.h>

#include "base/banned.h"

/* What is deeper is added to the frame at this depth and counted as lost: paths repeat all frames above them. */
enum { DEPTH_MAX = 4096, NAME_MAX_BYTES = 4096, FLUSH_BYTES = 1 << 18, WEIGHT_SCALE = 1000 };
#define CUT_OFF (UINT32_C(1) << 31) /* so there are at most 2^31 - 1 nodes */

typedef struct fold_node {
    uint32_t parent, label; /* parent: lower number; STK__NONE */
    uint32_t depth;
    bool has_value;
    int64_t value;
} fold_node;

typedef struct folder {
    const stk__trace *t;
    stk__write_report *report;
    /* distinct texts of frames: two frames with the same text are one */
    stk__text texts;
    size_t *text_at; /* label_count + 1 */
    size_t label_count, text_at_capacity;
    stk__keymap labels; /* (hash, number of the collision) -> label */
    /* the tree */
    fold_node *nodes;
    size_t node_count, node_capacity;
    stk__keymap children; /* (parent, label) -> node */
    stk__text scratch;
    bool scaled; /* values are in thousandths */
    bool nomem;
} folder;

/* ---- texts ---- */

/* Longer names are cut, as a name can stand in very many lines. */
static void put_name(stk__text *out, const char *text, size_t size)
{
    if (size > NAME_MAX_BYTES) {
        size = NAME_MAX_BYTES;
        while (size > 0 && ((unsigned char)text[size] & 0xc0) == 0x80)
            size--;
    }
    char *to = stk__emit_room(out, size);
    if (!to)
        return;
    for (size_t i = 0; i < size; i++) {
        const unsigned char c = (unsigned char)text[i];
        to[i] = c == ';' ? ':' : c < 0x20 || c == 0x7f ? ' ' : (char)c;
    }
    out->length += size;
}

static void put_string(stk__text *out, const stk__trace *t, stk__string s)
{
    size_t size;
    const char *text = stk__trace_text(t, s, &size);
    put_name(out, text, size);
}

static void put_frame(stk__text *out, const stk__trace *t, const stk__trace_frame *frame)
{
    put_string(out, t, frame->name);
    if (frame->module)
        return;
    if (frame->file) {
        STK__EMIT(out, " (");
        put_string(out, t, frame->file);
        if (frame->line > 0) {
            stk__emit_char(out, ':');
            stk__emit_int(out, frame->line);
        }
        stk__emit_char(out, ')');
    } else if (frame->flags & STK__FRAME_INLINED) {
        STK__EMIT(out, "_[i]");
    } else if (frame->flags & STK__FRAME_KERNEL) {
        STK__EMIT(out, "_[k]");
    } else if (frame->flags & STK__FRAME_JIT) {
        STK__EMIT(out, "_[j]");
    }
}

static const char *label_text(const folder *f, uint32_t label, size_t *out_size)
{
    *out_size = f->text_at[label + 1] - f->text_at[label];
    return f->texts.data + f->text_at[label];
}

static uint32_t new_label(folder *f)
{
    if (!stk__grow((void **)&f->text_at, &f->text_at_capacity, f->label_count + 2, sizeof *f->text_at)) {
        f->nomem = true;
        return 0;
    }
    f->text_at[f->label_count] = f->texts.length;
    stk__emit_bytes(&f->texts, f->scratch.data, f->scratch.length);
    f->nomem = f->nomem || f->texts.failed;
    f->text_at[f->label_count + 1] = f->texts.length;
    return (uint32_t)f->label_count++;
}

/* The number of the text in `scratch`, which is emptied. */
static uint32_t take_label(folder *f)
{
    const uint64_t hash = XXH3_64bits(f->scratch.length ? f->scratch.data : "", f->scratch.length);
    uint32_t label = 0;
    f->nomem = f->nomem || f->scratch.failed;
    for (uint64_t tries = 0; !f->nomem; tries++) {
        bool fresh;
        uint32_t *place = stk__keymap_place(&f->labels, (stk__key){{hash, tries, 0}}, 0, &fresh);
        if (!place) {
            f->nomem = true;
            break;
        }
        if (fresh) {
            label = *place = new_label(f);
            break;
        }
        size_t size;
        const char *text = label_text(f, *place, &size);
        label = *place;
        if (size == f->scratch.length && (size == 0 || memcmp(text, f->scratch.data, size) == 0))
            break;
    }
    f->scratch.length = 0;
    return label;
}

static uint32_t take_label_of(folder *f, stk__string s)
{
    put_string(&f->scratch, f->t, s);
    return take_label(f);
}

/* ---- the tree ---- */

static uint32_t find_node(folder *f, uint32_t parent, uint32_t label)
{
    bool fresh;
    uint32_t *place = f->nomem ? NULL : stk__keymap_place(&f->children, (stk__key){{parent, label, 0}}, 0, &fresh);
    if (!place || f->node_count >= CUT_OFF - 1 ||
        (fresh && !stk__grow((void **)&f->nodes, &f->node_capacity, f->node_count + 1, sizeof *f->nodes))) {
        f->nomem = true;
        return STK__NONE;
    }
    if (fresh) {
        const uint32_t depth = parent == STK__NONE ? 0 : f->nodes[parent].depth + 1;
        f->nodes[f->node_count] = (fold_node){.parent = parent, .label = label, .depth = depth};
        *place = (uint32_t)f->node_count++;
    }
    return *place;
}

static void add_value(folder *f, uint32_t node, int64_t value)
{
    if (f->nomem || node == STK__NONE)
        return;
    fold_node *n = &f->nodes[node];
    n->has_value = true;
    if (__builtin_add_overflow(n->value, value, &n->value))
        n->value = value < 0 ? INT64_MIN : INT64_MAX;
}

/* ---- slices ---- */

/* Labels of names, and of tracks when they stand first, are worked out once: label + 1, 0 when not known yet. */
typedef struct slice_fold {
    uint32_t *of_name;
    uint32_t *node;    /* of each slice */
    int64_t *inner_ns; /* of each slice: time in the slices directly inside of it */
} slice_fold;

static uint32_t top_track(const stk__trace *t, uint32_t track)
{
    const stk__trace_track *row = &t->tracks[track];
    return row->lane && row->parent < t->track_count ? row->parent : track;
}

static bool is_counted(const stk__trace *t, size_t slice)
{
    return !(t->slices.flags[slice] & STK__SLICE_INSTANT);
}

/* Whether more than one track has slices; lanes are part of theirs. */
static bool has_many_tracks(const stk__trace *t)
{
    uint32_t first = STK__NONE;
    for (uint32_t i = 0; i < t->track_count; i++) {
        if (t->tracks[i].slice_count == 0)
            continue;
        const uint32_t top = top_track(t, i);
        if (first != STK__NONE && top != first)
            return true;
        first = top;
    }
    return false;
}

static uint32_t label_of_slice(folder *f, slice_fold *s, size_t i)
{
    uint32_t *label = &s->of_name[f->t->slices.name[i]];
    if (*label == 0)
        *label = take_label_of(f, f->t->slices.name[i]) + 1;
    return *label - 1;
}

static void fold_slice(folder *f, slice_fold *s, size_t i, uint32_t root)
{
    const stk__slices *slices = &f->t->slices;
    const uint32_t parent = slices->parent[i];
    const uint32_t above = parent == STK__NONE ? root : s->node[parent];
    if (parent != STK__NONE)
        s->inner_ns[parent] += STK_MIN(slices->dur[i], INT64_MAX - s->inner_ns[parent]);
    if (!is_counted(f->t, i) || (above != STK__NONE && f->nodes[above].depth + 1 >= DEPTH_MAX)) {
        s->node[i] = above;
        f->report->lost_slices++;
    } else {
        s->node[i] = find_node(f, above, label_of_slice(f, s, i));
        f->report->slices++;
    }
}

static void fold_track(folder *f, slice_fold *s, uint32_t track, bool named)
{
    const stk__trace *t = f->t;
    const size_t first = t->tracks[track].first_slice, end = first + t->tracks[track].slice_count;
    uint32_t root = STK__NONE;
    if (named && first < end) {
        stk__text label = STK__TEXT_INIT;
        stk__trace_track_label(t, top_track(t, track), &label);
        put_name(&f->scratch, label.data ? label.data : "", label.length);
        f->nomem = f->nomem || label.failed;
        stk__text_clear(&label);
        root = find_node(f, STK__NONE, take_label(f));
    }
    for (size_t i = first; i < end && !f->nomem; i++)
        fold_slice(f, s, i, root);
    for (size_t i = first; i < end && !f->nomem; i++) {
        if (is_counted(t, i) && t->slices.dur[i] > s->inner_ns[i])
            add_value(f, s->node[i], t->slices.dur[i] - s->inner_ns[i]);
    }
    stk__trace_trim(t);
}

static void fold_slices(folder *f)
{
    const stk__trace *t = f->t;
    slice_fold s = {
        .of_name = stk__calloc(t->string_count, sizeof *s.of_name),
        .node = stk__alloc(t->slices.count * sizeof *s.node),
        .inner_ns = stk__calloc(t->slices.count, sizeof *s.inner_ns),
    };
    f->nomem = !s.of_name || !s.node || !s.inner_ns;
    const bool named = has_many_tracks(t);
    for (uint32_t i = 0; i < t->track_count && !f->nomem; i++)
        fold_track(f, &s, i, named);
    stk__free(s.of_name);
    stk__free(s.node);
    stk__free(s.inner_ns);
}

/* ---- samples ---- */

typedef struct sample_track {
    uint32_t root; /* node of the name before the stacks; STK__NONE */
    uint32_t track;
} sample_track;

typedef struct sample_fold {
    sample_track *tracks;
    size_t track_count;
    uint32_t *of_frame; /* label + 1 */
    uint32_t *node;     /* of call sites, below the root that `made_for` says */
    uint32_t *made_for; /* root + 2; 0: none yet */
    uint32_t *path;     /* DEPTH_MAX call sites that are still to be made */
    stk__string *event; /* of each file: the only kind that counts; 0: all do */
    bool *scaled;       /* of each file: its weights are thousandths */
    uint32_t unit;
} sample_fold;

static int by_root(const void *a, const void *b)
{
    const sample_track *x = a, *y = b;
    return x->root != y->root ? (x->root < y->root ? -1 : 1) : x->track < y->track ? -1 : x->track > y->track;
}

/* The node of the name that stands before the stacks of a track. */
static uint32_t root_of(folder *f, uint32_t track, bool many)
{
    const stk__trace *t = f->t;
    const stk__trace_track *row = &t->tracks[track];
    const bool is_thread = row->kind == STK__TRACK_THREAD && row->thread < t->thread_count;
    const stk__string name = row->name ? row->name : is_thread ? t->threads[row->thread].name : 0;
    if (is_thread && name) {
        put_string(&f->scratch, t, name);
    } else if (many) {
        stk__text label = STK__TEXT_INIT;
        stk__trace_track_label(t, track, &label);
        put_name(&f->scratch, label.data ? label.data : "", label.length);
        f->nomem = f->nomem || label.failed;
        stk__text_clear(&label);
    }
    if (f->scratch.length == 0)
        return STK__NONE;
    for (size_t i = 0; i < f->scratch.length; i++) {
        if (f->scratch.data[i] == ' ')
            f->scratch.data[i] = '_';
    }
    return find_node(f, STK__NONE, take_label(f));
}

static bool is_scaled(const stk__trace *t, const sample_fold *s, const stk__trace_track *track)
{
    return s->unit == STK__UNIT_NONE && track->unit == s->unit && track->file < t->file_count && s->scaled[track->file];
}

static void list_tracks(folder *f, sample_fold *s)
{
    const stk__trace *t = f->t;
    size_t with_samples = 0;
    for (uint32_t i = 0; i < t->track_count; i++)
        with_samples += t->tracks[i].sample_count > 0;
    for (uint32_t i = 0; i < t->track_count && !f->nomem; i++) {
        if (t->tracks[i].sample_count == 0)
            continue;
        if (s->track_count == 0)
            s->unit = t->tracks[i].unit;
        f->scaled = f->scaled || is_scaled(t, s, &t->tracks[i]);
        s->tracks[s->track_count++] = (sample_track){root_of(f, i, with_samples > 1), i};
    }
    /* tracks with the same name follow each other, so that nodes of call sites are made once per name */
    qsort(s->tracks, s->track_count, sizeof *s->tracks, by_root);
}

/* What the facts of files say about their samples. */
static void read_facts(const folder *f, sample_fold *s)
{
    const stk__trace *t = f->t;
    for (size_t i = 0; i < t->fact_count; i++) {
        const stk__trace_fact *fact = &t->facts[i];
        if (fact->file < t->file_count && strcmp(stk__trace_str(t, fact->key), "first_event") == 0)
            s->event[fact->file] = fact->value;
        if (fact->file < t->file_count && strcmp(stk__trace_str(t, fact->key), "weight_scale") == 0)
            s->scaled[fact->file] = strcmp(stk__trace_str(t, fact->value), "1000") == 0;
    }
}

static uint32_t label_of_frame(folder *f, sample_fold *s, uint32_t frame)
{
    uint32_t *label = &s->of_frame[frame];
    if (*label == 0) {
        put_frame(&f->scratch, f->t, &f->t->frames[frame]);
        *label = take_label(f) + 1;
    }
    return *label - 1;
}

/* Goes `steps` callers up. */
static uint32_t go_up(const stk__trace *t, uint32_t callsite, size_t steps)
{
    for (; steps > 0; steps--)
        callsite = t->callsites[callsite].parent;
    return callsite;
}

/*
 * The node of a call site below `root`, | CUT_OFF when it was too deep: up to a caller that has one, then down again.
 */
static uint32_t node_of(folder *f, sample_fold *s, uint32_t callsite, uint32_t root)
{
    const stk__trace *t = f->t;
    const uint32_t mark = root == STK__NONE ? 1 : root + 2;
    uint32_t node = root, at = callsite;
    size_t left = 0;
    for (; at != STK__NONE && s->made_for[at] != mark; at = t->callsites[at].parent)
        left++;
    if (at != STK__NONE)
        node = s->node[at];
    const bool below_cut = node != STK__NONE && (node & CUT_OFF);
    const size_t used = node == STK__NONE ? 0 : f->nodes[node & ~CUT_OFF].depth + 1u;
    const size_t room = below_cut || used >= DEPTH_MAX ? 0 : DEPTH_MAX - used, cut = left > room ? left - room : 0;
    at = go_up(t, callsite, cut);
    for (size_t i = 0; i < left - cut; i++, at = t->callsites[at].parent)
        s->path[i] = at;
    for (size_t i = left - cut; i-- > 0 && !f->nomem;) {
        at = s->path[i];
        node = find_node(f, node, label_of_frame(f, s, t->callsites[at].frame));
        s->node[at] = node;
        s->made_for[at] = mark;
    }
    at = callsite;
    for (size_t i = 0; i < cut && !f->nomem; i++, at = t->callsites[at].parent) {
        s->node[at] = node | CUT_OFF;
        s->made_for[at] = mark;
    }
    return cut ? node | CUT_OFF : node;
}

/* In thousandths when some file has its weights so. */
static int64_t scale_weight(int64_t weight, bool multiply)
{
    int64_t out;
    if (!multiply)
        return weight;
    return __builtin_mul_overflow(weight, (int64_t)WEIGHT_SCALE, &out) ? (weight < 0 ? INT64_MIN : INT64_MAX) : out;
}

static void fold_sample_track(folder *f, sample_fold *s, const sample_track *track)
{
    const stk__trace *t = f->t;
    const stk__trace_track *row = &t->tracks[track->track];
    const stk__string event = row->file < t->file_count ? s->event[row->file] : 0;
    const bool multiply = f->scaled && !is_scaled(t, s, row);
    for (size_t n = 0; n < row->sample_count && !f->nomem; n++) {
        const size_t i = row->first_sample + n;
        if (row->unit != s->unit || (event && t->samples.event[i] && t->samples.event[i] != event)) {
            f->report->lost_samples++;
            continue;
        }
        uint32_t node = node_of(f, s, t->samples.callsite[i], track->root);
        const bool cut = node != STK__NONE && (node & CUT_OFF);
        if (node == STK__NONE) /* an empty stack without a thread's name is the empty text */
            node = find_node(f, STK__NONE, take_label(f));
        add_value(f, cut ? node & ~CUT_OFF : node, scale_weight(t->samples.weight[i], multiply));
        f->report->samples += !cut;
        f->report->lost_samples += cut;
    }
}

static void fold_samples(folder *f)
{
    const stk__trace *t = f->t;
    sample_fold s = {
        .tracks = stk__calloc(t->track_count, sizeof *s.tracks),
        .of_frame = stk__calloc(t->frame_count, sizeof *s.of_frame),
        .node = stk__alloc(t->callsite_count * sizeof *s.node),
        .made_for = stk__calloc(t->callsite_count, sizeof *s.made_for),
        .path = stk__alloc(DEPTH_MAX * sizeof *s.path),
        .event = stk__calloc(t->file_count, sizeof *s.event),
        .scaled = stk__calloc(t->file_count, sizeof *s.scaled),
    };
    f->nomem = !s.tracks || !s.of_frame || !s.node || !s.made_for || !s.path || !s.event || !s.scaled;
    if (!f->nomem) {
        read_facts(f, &s);
        list_tracks(f, &s);
    }
    for (size_t i = 0; i < s.track_count && !f->nomem; i++)
        fold_sample_track(f, &s, &s.tracks[i]);
    stk__free(s.tracks);
    stk__free(s.of_frame);
    stk__free(s.node);
    stk__free(s.made_for);
    stk__free(s.path);
    stk__free(s.event);
    stk__free(s.scaled);
}

/* ---- functions ---- */

static void fold_functions(folder *f)
{
    const stk__trace *t = f->t;
    stk__call_tree tree;
    f->nomem = stk__call_tree_make(t, &tree, NULL) != STK_OK;
    uint32_t *node = f->nomem ? NULL : stk__alloc((tree.count + 1) * sizeof *node);
    f->nomem = !node;
    for (size_t i = 0; node && i < tree.count && !f->nomem; i++) {
        const stk__call_node *n = &tree.nodes[i];
        if (n->function == STK__NONE)
            STK__EMIT(&f->scratch, STK__CALL_TREE_REST);
        else
            put_frame(&f->scratch, t, &t->frames[t->functions[n->function].frame]);
        node[i] = find_node(f, n->parent == STK__NONE ? STK__NONE : node[n->parent], take_label(f));
        if (n->self_ns)
            add_value(f, node[i], n->self_ns);
    }
    f->report->functions += t->function_count;
    f->report->estimated_stacks = tree.estimated;
    stk__free(node);
    stk__call_tree_clear(&tree);
}

/* ---- lines ---- */

/*
 * "a", "a;b" and "a!" sort as "a", "a!", "a;b": a node's own line and the lines below it are two entries, and the
 * second one is compared with ';' behind its name.
 */
typedef struct fold_entry {
    uint32_t node;
    bool inner; /* the lines below it */
} fold_entry;

typedef struct entry_order {
    const char *text;
    size_t size;
    fold_entry entry;
} entry_order;

static int by_text(const void *a, const void *b)
{
    const entry_order *x = a, *y = b;
    const size_t shorter = STK_MIN(x->size, y->size);
    const int order = shorter ? memcmp(x->text, y->text, shorter) : 0;
    if (order)
        return order;
    const int next_x = shorter < x->size ? (unsigned char)x->text[shorter] : x->entry.inner ? ';' : -1;
    const int next_y = shorter < y->size ? (unsigned char)y->text[shorter] : y->entry.inner ? ';' : -1;
    return next_x - next_y;
}

/*
 * Entries of all nodes, those of one parent together and in order. first[node + 1] is where a node's start; 0 has the
 * outermost.
 */
typedef struct fold_order {
    entry_order *entries;
    uint32_t *first; /* node_count + 2 */
    size_t count;
} fold_order;

static bool order_nodes(const folder *f, fold_order *o)
{
    const size_t count = f->node_count;
    bool *has_inner = stk__calloc(count, sizeof *has_inner);
    o->first = stk__calloc(count + 2, sizeof *o->first);
    o->entries = count < UINT32_MAX / 2 ? stk__alloc(count * 2 * sizeof *o->entries) : NULL;
    if (!has_inner || !o->first || !o->entries) {
        stk__free(has_inner);
        return false;
    }
    for (size_t i = count; i-- > 0;) { /* parents have lower numbers */
        const fold_node *n = &f->nodes[i];
        o->first[n->parent + 1u] += (n->has_value ? 1 : 0) + (has_inner[i] ? 1 : 0);
        if (n->parent != STK__NONE)
            has_inner[n->parent] = true;
    }
    uint32_t sum = 0;
    for (size_t i = 0; i <= count + 1; i++) {
        const uint32_t here = o->first[i];
        o->first[i] = sum;
        sum += here;
    }
    o->count = sum;
    for (size_t i = 0; i < count; i++) {
        const fold_node *n = &f->nodes[i];
        size_t size;
        const char *text = label_text(f, n->label, &size);
        if (n->has_value)
            o->entries[o->first[n->parent + 1u]++] = (entry_order){text, size, {(uint32_t)i, false}};
        if (has_inner[i])
            o->entries[o->first[n->parent + 1u]++] = (entry_order){text, size, {(uint32_t)i, true}};
    }
    memmove(o->first + 1, o->first, (count + 1) * sizeof *o->first); /* each had moved to where the next one starts */
    o->first[0] = 0;
    for (size_t i = 0; i <= count; i++) {
        if (o->first[i + 1] - o->first[i] > 1)
            qsort(o->entries + o->first[i], o->first[i + 1] - o->first[i], sizeof *o->entries, by_text);
    }
    stk__free(has_inner);
    return true;
}

/* One level of the walk down the tree. */
typedef struct fold_level {
    uint32_t at, end;   /* entries */
    size_t path_length; /* of the text before them */
} fold_level;

/* 1500 thousandths: "1.5" */
static void put_thousandths(stk__text *out, int64_t value)
{
    const uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    unsigned rest = (unsigned)(size % WEIGHT_SCALE);
    if (value < 0)
        stk__emit_char(out, '-');
    stk__emit_int(out, (int64_t)(size / WEIGHT_SCALE));
    if (rest)
        stk__emit_char(out, '.');
    for (unsigned unit = WEIGHT_SCALE / 10; rest; rest %= unit, unit /= 10)
        stk__emit_char(out, (char)('0' + rest / unit));
}

static void write_line(const folder *f, stk__text *out, const stk__text *path, const entry_order *e)
{
    stk__emit_bytes(out, path->data, path->length);
    stk__emit_bytes(out, e->text, e->size);
    stk__emit_char(out, ' ');
    if (f->scaled)
        put_thousandths(out, f->nodes[e->entry.node].value);
    else
        stk__emit_int(out, f->nodes[e->entry.node].value);
    stk__emit_char(out, '\n');
}

static bool write_lines(const folder *f, const fold_order *o, stk__sink *sink)
{
    stk__text out = STK__TEXT_INIT, path = STK__TEXT_INIT;
    fold_level *levels = stk__alloc((DEPTH_MAX + 2) * sizeof *levels);
    size_t depth = 0;
    if (levels)
        levels[depth++] = (fold_level){0, o->first[1], 0};
    while (depth > 0 && !out.failed && !path.failed && !stk__sink_failed(sink)) {
        fold_level *level = &levels[depth - 1];
        path.length = level->path_length;
        if (level->at == level->end) {
            depth--;
            continue;
        }
        const entry_order *e = &o->entries[level->at++];
        if (!e->entry.inner) {
            write_line(f, &out, &path, e);
        } else {
            stk__emit_bytes(&path, e->text, e->size);
            stk__emit_char(&path, ';');
            levels[depth++] = (fold_level){o->first[e->entry.node + 1], o->first[e->entry.node + 2], path.length};
        }
        if (out.length > FLUSH_BYTES)
            stk__sink_text(sink, &out);
    }
    const bool good = levels && !out.failed && !path.failed;
    if (good)
        stk__sink_text(sink, &out);
    stk__text_clear(&out);
    stk__text_clear(&path);
    stk__free(levels);
    return good;
}

typedef enum fold_source { FOLD_SLICES, FOLD_SAMPLES, FOLD_FUNCTIONS } fold_source;

static bool is_memory(const stk__trace *t)
{
    for (size_t i = 0; i < t->file_count; i++) {
        if (strcmp(stk__trace_str(t, t->files[i].format), "snapshot") != 0)
            return false;
    }
    return t->samples.count > 0;
}

static fold_source source_of(const stk__trace *t)
{
    if (t->slices.count && !is_memory(t))
        return FOLD_SLICES;
    return t->samples.count ? FOLD_SAMPLES : FOLD_FUNCTIONS;
}

static void count_lost(const stk__trace *t, fold_source source, stk__write_report *report)
{
    report->lost_counters += t->counters.count;
    report->lost_flows += t->points.count;
    report->lost_args += t->args.count ? t->args.count - 1 : 0;
    if (source != FOLD_SLICES)
        report->lost_slices += t->slices.count;
    if (source != FOLD_SAMPLES)
        report->lost_samples += t->samples.count;
    if (source != FOLD_FUNCTIONS)
        report->lost_functions += t->function_count;
}

static stk_status collapsed_write(const stk__trace *t, stk__sink *sink, stk__write_report *report, stk_error *err)
{
    folder f = {.t = t, .report = report};
    fold_order order = {0};
    const fold_source source = source_of(t);
    count_lost(t, source, report);
    if (source == FOLD_SLICES)
        fold_slices(&f);
    else if (source == FOLD_SAMPLES)
        fold_samples(&f);
    else
        fold_functions(&f);
    const bool good = !f.nomem && order_nodes(&f, &order) && write_lines(&f, &order, sink);
    stk__free(order.entries);
    stk__free(order.first);
    stk__free(f.nodes);
    stk__free(f.text_at);
    stk__text_clear(&f.texts);
    stk__text_clear(&f.scratch);
    stk__keymap_clear(&f.labels);
    stk__keymap_clear(&f.children);
    return good ? STK_OK : stk__nomem(f.node_capacity * sizeof *f.nodes, err);
}

const stk__trace_writer stk__writer_collapsed = {
    .name = "collapsed",
    .summary = "collapsed stacks for FlameGraph, inferno, speedscope",
    .extensions = ".collapsed .folded .stacks .collapsed.txt .folded.txt",
    .write = collapsed_write,
};
