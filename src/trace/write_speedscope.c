/*
 * Writes speedscope's JSON: of each track with slices an "evented" profile in ns, of each track with samples a
 * "sampled" one per kind of event, and of the functions of a Python profile one with their own times, below stacks that
 * are estimated from the callers (call_tree.h).
 *
 * Numbers in JavaScript are exact up to 2^53 only, so when a time is past that, all times count from the start of the
 * trace.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "trace/call_tree.h"
#include "trace/emit.h"
#include "trace/writer.h"

#include "base/banned.h"

/*
 * Of stacks that are deeper only the outer part is written, and the sample counted as lost: each one is written in
 * full.
 */
enum { FLUSH_BYTES = 1 << 18, DEPTH_MAX = 4096, NAME_MAX_BYTES = 4096 };
#define EXACT_MAX (INT64_C(1) << 53)

typedef struct scope_writer {
    const stk__trace *t;
    stk__sink *sink;
    stk__write_report *report;
    stk__text out;
    uint32_t *of_name;       /* by string: number of its frame + 1; 0: it is no slice's name */
    uint32_t *of_frame;      /* by frame of the model: the same */
    uint32_t *depth, *shown; /* by call site */
    uint32_t frames;         /* written so far */
    uint32_t rest_frame;     /* with functions: what is in none of their stacks */
    uint32_t profiles;
    int64_t base_ns; /* taken from all times */
    bool nomem;
} scope_writer;

static void flush(scope_writer *w)
{
    if (w->out.failed)
        w->nomem = true;
    else if (w->out.length > FLUSH_BYTES)
        stk__sink_text(w->sink, &w->out);
}

static bool stopped(const scope_writer *w)
{
    return w->nomem || stk__sink_failed(w->sink);
}

static bool is_counted(const stk__trace *t, size_t slice)
{
    return !(t->slices.flags[slice] & STK__SLICE_INSTANT);
}

/* Time from the base on; far ones do not overflow. */
static int64_t from_base(const scope_writer *w, int64_t ts)
{
    int64_t time;
    if (__builtin_sub_overflow(ts, w->base_ns, &time))
        return ts < 0 ? INT64_MIN : INT64_MAX;
    return time;
}

/* ---- frames ---- */

/* Names of frames past `most` bytes are cut: many frames can share one. */
static void write_frame(scope_writer *w, stk__string name, stk__string file, int32_t line, size_t most)
{
    stk__text *out = &w->out;
    size_t size;
    const char *text = stk__trace_text(w->t, name, &size);
    if (size > most) {
        size = most;
        while (size > 0 && ((unsigned char)text[size] & 0xc0) == 0x80)
            size--;
    }
    if (w->frames)
        STK__EMIT(out, ",\n");
    STK__EMIT(out, "{\"name\":");
    stk__emit_json(out, text, size);
    if (file) {
        STK__EMIT(out, ",\"file\":");
        stk__emit_json_string(out, w->t, file);
    }
    if (line > 0) {
        STK__EMIT(out, ",\"line\":");
        stk__emit_int(out, line);
    }
    stk__emit_char(out, '}');
    w->frames++;
    flush(w);
}

static void use_frame(scope_writer *w, uint32_t frame)
{
    const stk__trace_frame *f = &w->t->frames[frame];
    if (w->of_frame[frame])
        return;
    w->of_frame[frame] = w->frames + 1;
    write_frame(w, f->name, f->file ? f->file : f->module, f->line, NAME_MAX_BYTES);
}

static void write_frames(scope_writer *w)
{
    const stk__trace *t = w->t;
    STK__EMIT(&w->out, "\"shared\":{\"frames\":[\n");
    for (size_t i = 0; i < t->slices.count && !stopped(w); i++) {
        uint32_t *number = &w->of_name[t->slices.name[i]];
        if (*number || !is_counted(t, i))
            continue;
        *number = w->frames + 1;
        write_frame(w, t->slices.name[i], 0, 0, SIZE_MAX);
    }
    for (size_t i = 0; i < t->callsite_count && !stopped(w); i++)
        use_frame(w, t->callsites[i].frame);
    for (size_t i = 0; i < t->function_count && !stopped(w); i++)
        use_frame(w, t->functions[i].frame);
    if (t->function_count) {
        w->rest_frame = w->frames++;
        STK__EMIT(&w->out, ",\n{\"name\":\"" STK__CALL_TREE_REST "\"}");
    }
    STK__EMIT(&w->out, "\n]},\n");
}

/* ---- profiles ---- */

static const char *unit_name(uint32_t unit)
{
    return unit == STK__UNIT_NS                                     ? "nanoseconds"
           : unit == STK__UNIT_BYTES || unit == STK__UNIT_ALLOCATED ? "bytes"
                                                                    : "none";
}

/* {"type":...,"name":...,"unit":...,"startValue":...,"endValue":..., */
static void start_profile(scope_writer *w, const char *type, const stk__text *name, uint32_t unit, int64_t start,
                          int64_t end)
{
    stk__text *out = &w->out;
    if (w->profiles++)
        STK__EMIT(out, ",\n");
    STK__EMIT(out, "{\"type\":\"");
    stk__text_puts(out, type);
    STK__EMIT(out, "\",\"name\":");
    stk__emit_json(out, name->data ? name->data : "", name->length);
    STK__EMIT(out, ",\"unit\":\"");
    stk__text_puts(out, unit_name(unit));
    STK__EMIT(out, "\",\"startValue\":");
    stk__emit_int(out, start);
    STK__EMIT(out, ",\"endValue\":");
    stk__emit_int(out, end);
    stk__emit_char(out, ',');
    w->nomem = w->nomem || name->failed;
}

static void write_event(scope_writer *w, char type, size_t slice, int64_t at, bool *first)
{
    stk__text *out = &w->out;
    stk__emit_bytes(out, *first ? "\n{\"type\":\"" : ",\n{\"type\":\"", *first ? 10 : 11);
    stk__emit_char(out, type);
    STK__EMIT(out, "\",\"frame\":");
    stk__emit_uint(out, w->of_name[w->t->slices.name[slice]] - 1);
    STK__EMIT(out, ",\"at\":");
    stk__emit_int(out, from_base(w, at));
    stk__emit_char(out, '}');
    *first = false;
}

/* The slices that are open: each is inside of the one before. */
typedef struct open_slices {
    uint32_t *items;
    int64_t *ends; /* not past that of the slice around */
    size_t count, capacity, end_capacity;
} open_slices;

/* Closes what has ended, until the slice around the next one is innermost. Times never go back. */
static void close_until(scope_writer *w, open_slices *o, uint32_t parent, int64_t *now, bool *first)
{
    while (o->count && o->items[o->count - 1] != parent) {
        o->count--;
        if (!is_counted(w->t, o->items[o->count]))
            continue; /* an instant that slices hang on has no events */
        *now = STK_MAX(*now, o->ends[o->count]);
        write_event(w, 'C', o->items[o->count], *now, first);
    }
}

static void open_slice(scope_writer *w, open_slices *o, size_t i, int64_t *now, bool *first)
{
    const stk__slices *s = &w->t->slices;
    if (!stk__grow((void **)&o->items, &o->capacity, o->count + 1, sizeof *o->items) ||
        !stk__grow((void **)&o->ends, &o->end_capacity, o->count + 1, sizeof *o->ends)) {
        w->nomem = true;
        return;
    }
    *now = STK_MAX(*now, s->ts[i]);
    const int64_t end = STK_MAX(s->ts[i] + s->dur[i], *now);
    o->ends[o->count] = o->count ? STK_MIN(end, o->ends[o->count - 1]) : end;
    o->items[o->count++] = (uint32_t)i;
    if (!is_counted(w->t, i))
        return;
    write_event(w, 'O', i, *now, first);
    w->report->slices++;
}

static void write_slices(scope_writer *w, uint32_t track, const stk__text *name)
{
    const stk__trace *t = w->t;
    const size_t begin = t->tracks[track].first_slice, end = begin + t->tracks[track].slice_count;
    size_t counted = 0;
    int64_t start = INT64_MAX, stop = INT64_MIN;
    for (size_t i = begin; i < end; i++) {
        if (!is_counted(t, i))
            continue;
        counted++;
        start = STK_MIN(start, t->slices.ts[i]);
        stop = STK_MAX(stop, t->slices.ts[i] + t->slices.dur[i]);
    }
    w->report->lost_slices += end - begin - counted;
    if (!counted)
        return;
    start_profile(w, "evented", name, STK__UNIT_NS, from_base(w, start), from_base(w, stop));
    STK__EMIT(&w->out, "\"events\":[");
    open_slices open = {0};
    int64_t now = start;
    bool first = true;
    for (size_t i = begin; i < end && !stopped(w); i++) {
        close_until(w, &open, t->slices.parent[i], &now, &first);
        open_slice(w, &open, i, &now, &first);
        flush(w);
    }
    close_until(w, &open, STK__NONE, &now, &first);
    STK__EMIT(&w->out, "\n]}");
    stk__free(open.items);
    stk__free(open.ends);
    stk__trace_trim(t);
}

/* ---- samples ---- */

/* The depth of every call site, and for those that are too deep the caller that stands for them. */
static bool measure_stacks(scope_writer *w)
{
    const stk__trace *t = w->t;
    w->depth = stk__alloc(t->callsite_count * sizeof *w->depth);
    w->shown = stk__alloc(t->callsite_count * sizeof *w->shown);
    for (size_t i = 0; w->depth && w->shown && i < t->callsite_count; i++) {
        const uint32_t parent = t->callsites[i].parent;
        const bool cut = parent != STK__NONE && w->depth[parent] >= DEPTH_MAX;
        w->depth[i] = parent == STK__NONE ? 1 : w->depth[parent] + 1;
        w->shown[i] = cut ? w->shown[parent] : (uint32_t)i;
    }
    return w->depth && w->shown;
}

/* Innermost first is how frames are linked, outermost first how they are written: digits from the end. */
static void write_stack(scope_writer *w, uint32_t callsite, stk__text *numbers)
{
    const stk__trace_callsite *c = w->t->callsites;
    const size_t room = (callsite == STK__NONE ? 0 : w->depth[callsite]) * (size_t)11 + 2;
    char *text = stk__emit_room(numbers, room);
    if (!text) {
        w->nomem = true;
        return;
    }
    char *p = text + room;
    *--p = ']';
    for (uint32_t at = callsite; at != STK__NONE; at = c[at].parent) {
        p = stk__emit_digits(p, w->of_frame[c[at].frame] - 1);
        if (c[at].parent != STK__NONE)
            *--p = ',';
    }
    *--p = '[';
    stk__emit_bytes(&w->out, p, (size_t)(text + room - p));
}

static void write_sample(scope_writer *w, uint32_t callsite, stk__text *numbers)
{
    const uint32_t shown = callsite == STK__NONE ? STK__NONE : w->shown[callsite];
    write_stack(w, shown, numbers);
    if (shown == callsite)
        w->report->samples++;
    else
        w->report->lost_samples++;
}

/* Samples of one kind on a track: `rows` of them. */
static void write_sampled(scope_writer *w, const stk__text *name, uint32_t unit, const uint32_t *rows, size_t count)
{
    const stk__samples *s = &w->t->samples;
    stk__text numbers = STK__TEXT_INIT;
    int64_t total = 0;
    const int64_t ts = s->ts[rows[0]];
    const int64_t start = unit == STK__UNIT_NS && ts != STK__NO_TIME ? from_base(w, ts) : 0;
    for (size_t i = 0; i < count; i++)
        total = s->weight[rows[i]] > INT64_MAX - STK_MAX(total, 0) ? INT64_MAX : total + STK_MAX(s->weight[rows[i]], 0);
    start_profile(w, "sampled", name, unit, start, total > INT64_MAX - STK_MAX(start, 0) ? INT64_MAX : start + total);
    STK__EMIT(&w->out, "\"samples\":[");
    for (size_t i = 0; i < count && !stopped(w); i++) {
        if (i)
            STK__EMIT(&w->out, ",\n");
        write_sample(w, s->callsite[rows[i]], &numbers);
        flush(w);
    }
    STK__EMIT(&w->out, "\n],\"weights\":[");
    for (size_t i = 0; i < count && !stopped(w); i++) {
        if (i)
            stk__emit_char(&w->out, ',');
        stk__emit_int(&w->out, s->weight[rows[i]]);
        flush(w);
    }
    STK__EMIT(&w->out, "]}");
    stk__text_clear(&numbers);
}

typedef struct sample_order {
    stk__string event;
    uint32_t row;
} sample_order;

static int by_event(const void *a, const void *b)
{
    const sample_order *x = a, *y = b;
    return x->event != y->event ? (x->event < y->event ? -1 : 1) : x->row < y->row ? -1 : x->row > y->row;
}

static void write_samples(scope_writer *w, uint32_t track, stk__text *name)
{
    const stk__trace_track *row = &w->t->tracks[track];
    const size_t count = row->sample_count, label = name->length;
    sample_order *order = stk__alloc(count * sizeof *order);
    uint32_t *rows = stk__alloc(count * sizeof *rows);
    w->nomem = w->nomem || !order || !rows;
    for (size_t i = 0; i < count && !w->nomem; i++)
        order[i] = (sample_order){w->t->samples.event[row->first_sample + i], (uint32_t)(row->first_sample + i)};
    if (!w->nomem)
        qsort(order, count, sizeof *order, by_event);
    const bool many = !w->nomem && order[0].event != order[count - 1].event;
    for (size_t start = 0, end; start < count && !stopped(w); start = end) {
        for (end = start; end < count && order[end].event == order[start].event; end++)
            rows[end - start] = order[end].row;
        name->length = label;
        if (many && order[start].event)
            stk__text_printf(name, " (%s)", stk__trace_str(w->t, order[start].event));
        write_sampled(w, name, row->unit, rows, end - start);
    }
    stk__free(order);
    stk__free(rows);
}

/* The frames of a stack, outermost first. */
static void write_call_stack(scope_writer *w, const stk__call_tree *tree, uint32_t node, uint32_t *path)
{
    size_t depth = 0;
    for (uint32_t at = node; at != STK__NONE; at = tree->nodes[at].parent) {
        const uint32_t function = tree->nodes[at].function;
        path[depth++] = function == STK__NONE ? w->rest_frame : w->of_frame[w->t->functions[function].frame] - 1;
    }
    stk__emit_char(&w->out, '[');
    while (depth > 0) {
        stk__emit_uint(&w->out, path[--depth]);
        if (depth)
            stk__emit_char(&w->out, ',');
    }
    stk__emit_char(&w->out, ']');
    flush(w);
}

/* Own times below stacks that are estimated from the callers. */
static void write_call_tree(scope_writer *w, const stk__call_tree *tree, uint32_t *path)
{
    stk__text name = STK__TEXT_INIT;
    int64_t total = 0;
    bool first = true;
    for (size_t i = 0; i < tree->count; i++)
        total = tree->nodes[i].self_ns > INT64_MAX - total ? INT64_MAX : total + STK_MAX(tree->nodes[i].self_ns, 0);
    stk__text_puts(&name,
                   tree->estimated ? "functions, own time; stacks are estimated from callers" : "functions, own time");
    start_profile(w, "sampled", &name, STK__UNIT_NS, 0, total);
    STK__EMIT(&w->out, "\"samples\":[");
    for (uint32_t i = 0; i < tree->count && !stopped(w); i++) {
        if (tree->nodes[i].self_ns <= 0)
            continue;
        if (!first)
            STK__EMIT(&w->out, ",\n");
        write_call_stack(w, tree, i, path);
        first = false;
    }
    STK__EMIT(&w->out, "\n],\"weights\":[");
    first = true;
    for (size_t i = 0; i < tree->count && !stopped(w); i++) {
        if (tree->nodes[i].self_ns <= 0)
            continue;
        if (!first)
            stk__emit_char(&w->out, ',');
        stk__emit_int(&w->out, tree->nodes[i].self_ns);
        first = false;
        flush(w);
    }
    STK__EMIT(&w->out, "]}");
    stk__text_clear(&name);
}

static void write_functions(scope_writer *w)
{
    stk__call_tree tree;
    if (w->t->function_count == 0 || w->nomem)
        return;
    w->nomem = stk__call_tree_make(w->t, &tree, NULL) != STK_OK;
    uint32_t *path = w->nomem ? NULL : stk__alloc((tree.count + 1) * sizeof *path);
    w->nomem = !path;
    if (path)
        write_call_tree(w, &tree, path);
    w->report->functions += w->t->function_count;
    w->report->estimated_stacks = tree.estimated;
    stk__free(path);
    stk__call_tree_clear(&tree);
}

/* ---- the file ---- */

/* With one process only, the name of a thread says enough, and comes back as it is when the file is read. */
static void put_track_name(const stk__trace *t, uint32_t track, stk__text *out)
{
    const stk__trace_track *row = &t->tracks[track];
    const bool own = row->kind == STK__TRACK_THREAD && row->lane == 0 && !row->name && row->thread < t->thread_count;
    if (t->process_count == 1 && own && t->threads[row->thread].name) {
        size_t size;
        const char *name = stk__trace_text(t, t->threads[row->thread].name, &size);
        stk__text_write(out, name, size);
    } else {
        stk__trace_track_label(t, track, out);
    }
}

static void write_profiles(scope_writer *w)
{
    const stk__trace *t = w->t;
    stk__text name = STK__TEXT_INIT;
    STK__EMIT(&w->out, "\"profiles\":[\n");
    for (uint32_t i = 0; i < t->track_count && !stopped(w); i++) {
        const stk__trace_track *track = &t->tracks[i];
        if (!track->slice_count && !track->sample_count)
            continue;
        stk__text_reset(&name);
        put_track_name(t, i, &name);
        if (track->slice_count)
            write_slices(w, i, &name);
        if (track->sample_count)
            write_samples(w, i, &name);
    }
    write_functions(w);
    STK__EMIT(&w->out, "\n],\n");
    stk__text_clear(&name);
}

static void count_lost(const stk__trace *t, stk__write_report *report)
{
    report->lost_counters += t->counters.count;
    report->lost_flows += t->points.count;
    report->lost_args += t->args.count ? t->args.count - 1 : 0;
}

static stk_status speedscope_write(const stk__trace *t, stk__sink *sink, stk__write_report *report, stk_error *err)
{
    const bool far = t->start_ns < -EXACT_MAX || t->end_ns > EXACT_MAX;
    scope_writer w = {
        .t = t,
        .sink = sink,
        .report = report,
        .of_name = stk__calloc(t->string_count, sizeof *w.of_name),
        .of_frame = stk__calloc(t->frame_count, sizeof *w.of_frame),
        .base_ns = far ? t->start_ns : 0,
    };
    w.nomem = !w.of_name || !w.of_frame || !measure_stacks(&w);
    count_lost(t, report);
    STK__EMIT(&w.out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n");
    if (!w.nomem) {
        write_frames(&w);
        write_profiles(&w);
    }
    STK__EMIT(&w.out, "\"exporter\":\"stoker\"}\n");
    w.nomem = w.nomem || w.out.failed;
    if (!w.nomem)
        stk__sink_text(sink, &w.out);
    stk__text_clear(&w.out);
    stk__free(w.of_name);
    stk__free(w.of_frame);
    stk__free(w.depth);
    stk__free(w.shown);
    return w.nomem ? stk__nomem(t->string_count * sizeof *w.of_name, err) : STK_OK;
}

const stk__trace_writer stk__writer_speedscope = {
    .name = "speedscope",
    .summary = "speedscope JSON, for www.speedscope.app",
    .extensions = ".speedscope.json .speedscope",
    .write = speedscope_write,
};
