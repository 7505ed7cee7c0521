/* Flat tables: what each column of a row holds. */
#include "trace/flat.h"

#include <string.h>

#include "base/mem.h"
#include "trace/flat_impl.h"

#include "base/banned.h"

static void label_track(const void *arg, uint32_t row, stk__text *out)
{
    stk__trace_track_label(arg, row, out);
}

/* "function (file:line)"; of a frame without a name, its module. */
static void label_frame(const void *arg, uint32_t frame, stk__text *out)
{
    const stk__trace *t = arg;
    const stk__trace_frame *f = &t->frames[frame];
    size_t size;
    const char *name = stk__trace_text(t, f->name ? f->name : f->module, &size);
    stk__text_write(out, name, size);
    if (!f->file)
        return;
    const char *file = stk__trace_text(t, f->file, &size);
    stk__text_puts(out, " (");
    stk__text_write(out, file, size);
    if (f->line)
        stk__text_printf(out, ":%d", (int)f->line);
    stk__text_putc(out, ')');
}

stk_status stk__flat_new(const stk__trace *t, stk__flat **out, stk_error *err)
{
    stk__flat *r = stk__calloc(1, sizeof *r);
    if (!r)
        return stk__nomem(sizeof *r, err);
    r->t = t;
    if (!stk__labels_make(&r->tracks, t->track_count, label_track, t) ||
        !stk__labels_make(&r->frames, t->frame_count, label_frame, t)) {
        stk__flat_free(r);
        return stk__nomem((t->track_count + t->frame_count) * sizeof(size_t), err);
    }
    *out = r;
    return STK_OK;
}

void stk__flat_free(stk__flat *r)
{
    if (!r)
        return;
    stk__labels_clear(&r->tracks);
    stk__labels_clear(&r->frames);
    stk__text_clear(&r->scratch);
    stk__free(r);
}

const char *stk__unit_name(uint32_t unit)
{
    static const char *const names[] = {"ns", "samples", "bytes", "bytes allocated", ""};
    return unit < STK_COUNT(names) ? names[unit] : "";
}

/* ---- cells ---- */

static stk__flat_cell int_cell(int64_t n)
{
    return (stk__flat_cell){.integer = n};
}

static stk__flat_cell null_cell(void)
{
    return (stk__flat_cell){.null = true};
}

static stk__flat_cell row_cell(uint32_t row)
{
    return row == STK__NONE ? null_cell() : int_cell(row);
}

static stk__flat_cell string_cell(const stk__trace *t, stk__string s)
{
    stk__flat_cell c = {0};
    c.text = stk__trace_text(t, s, &c.size);
    return c;
}

static stk__flat_cell text_cell(const char *text)
{
    return (stk__flat_cell){.text = text, .size = strlen(text)};
}

/* The columns pid, tid, process, thread, track: who did it. */
enum { WHO_COLUMNS = 5 };
#define WHO                                                                                           \
    {"pid", STK__FLAT_INT, true, "process id, null where it is no integer"},                          \
        {"tid", STK__FLAT_INT, true, "thread id, null where it is no integer or there is no thread"}, \
        {"process", STK__FLAT_TEXT, false, "name of the process, or its id where that is a text"},    \
        {"thread", STK__FLAT_TEXT, false, "name of the thread, or its id where that is a text"},      \
    {                                                                                                 \
        "track", STK__FLAT_TEXT, false, "what people call the track"                                  \
    }

static void fill_who(const stk__flat *r, uint32_t row, stk__flat_cell *cells)
{
    const stk__trace *t = r->t;
    cells[0] = cells[1] = null_cell();
    cells[2] = cells[3] = cells[4] = text_cell("");
    if (row >= t->track_count)
        return;
    const stk__trace_track *track = &t->tracks[row];
    const stk__trace_thread *thread = track->thread < t->thread_count ? &t->threads[track->thread] : NULL;
    const uint32_t owner = thread && track->process == STK__NONE ? thread->process : track->process;
    if (owner < t->process_count) {
        const stk__trace_process *p = &t->processes[owner];
        if (!p->pid_text)
            cells[0] = int_cell(p->pid);
        cells[2] = string_cell(t, p->name ? p->name : p->pid_text);
    }
    if (thread) {
        if (!thread->tid_text)
            cells[1] = int_cell(thread->tid);
        cells[3] = string_cell(t, thread->name ? thread->name : thread->tid_text);
    }
    cells[4].text = stk__labels_get(&r->tracks, row, &cells[4].size);
}

static stk__flat_cell file_cell(const stk__trace *t, uint32_t file)
{
    return string_cell(t, file < t->file_count ? t->files[file].path : 0);
}

static stk__flat_cell track_file_cell(const stk__trace *t, uint32_t track)
{
    return file_cell(t, track < t->track_count ? t->tracks[track].file : STK__NONE);
}

/* ---- slice ---- */

static const stk__flat_column slice_columns[] = {
    {"ts", STK__FLAT_INT, false, "start, in ns"},
    {"dur", STK__FLAT_INT, false, "duration, in ns"},
    {"name", STK__FLAT_TEXT, false, "name of the slice"},
    {"category", STK__FLAT_TEXT, false, "its category"},
    WHO,
    {"depth", STK__FLAT_INT, false, "0: outermost on its track"},
    {"id", STK__FLAT_INT, false, "number of the slice"},
    {"parent_id", STK__FLAT_INT, true, "the slice around it"},
    {"is_instant", STK__FLAT_BOOL, false, "a point in time, whose duration means nothing"},
    {"is_unfinished", STK__FLAT_BOOL, false, "the file had no end of it"},
    {"file", STK__FLAT_TEXT, false, "file that it came from"},
    {"args", STK__FLAT_ARGS, false, "further values by name"},
};

static size_t slice_count(const stk__trace *t)
{
    return t->slices.count;
}

static void slice_fill(const stk__flat *r, size_t i, stk__flat_cell *c)
{
    const stk__slices *s = &r->t->slices;
    *c++ = int_cell(s->ts[i]);
    *c++ = int_cell(s->dur[i]);
    *c++ = string_cell(r->t, s->name[i]);
    *c++ = string_cell(r->t, s->category[i]);
    fill_who(r, s->track[i], c);
    c += WHO_COLUMNS;
    *c++ = int_cell(s->depth[i]);
    *c++ = int_cell((int64_t)i);
    *c++ = row_cell(s->parent[i]);
    *c++ = int_cell((s->flags[i] & STK__SLICE_INSTANT) != 0);
    *c++ = int_cell((s->flags[i] & STK__SLICE_UNFINISHED) != 0);
    *c++ = track_file_cell(r->t, s->track[i]);
    *c = int_cell(s->args[i]);
}

const stk__flat_table stk__flat_slice = {
    "slice", "spans of time, and points in time", slice_columns, STK_COUNT(slice_columns), slice_count, slice_fill,
};

/* ---- counter ---- */

static const stk__flat_column counter_columns[] = {
    {"ts", STK__FLAT_INT, false, "time, in ns"},
    {"name", STK__FLAT_TEXT, false, "name of the counter"},
    {"value", STK__FLAT_DOUBLE, true, "its value from then on"},
    {"unit", STK__FLAT_TEXT, false, "unit of the value, where the file says"},
    WHO,
    {"file", STK__FLAT_TEXT, false, "file that it came from"},
};

static size_t counter_count(const stk__trace *t)
{
    return t->counters.count;
}

static void counter_fill(const stk__flat *r, size_t i, stk__flat_cell *c)
{
    const stk__counters *s = &r->t->counters;
    const stk__trace_track *track = s->track[i] < r->t->track_count ? &r->t->tracks[s->track[i]] : NULL;
    *c++ = int_cell(s->ts[i]);
    *c++ = string_cell(r->t, track ? track->name : 0);
    *c++ = (stk__flat_cell){.real = s->value[i]};
    *c++ = string_cell(r->t, track ? track->scope : 0);
    fill_who(r, s->track[i], c);
    c += WHO_COLUMNS;
    *c = track_file_cell(r->t, s->track[i]);
}

const stk__flat_table stk__flat_counter = {
    "counter", "values over time", counter_columns, STK_COUNT(counter_columns), counter_count, counter_fill,
};

/* ---- flow ---- */

static const stk__flat_column flow_columns[] = {
    {"ts", STK__FLAT_INT, false, "time, in ns"},
    {"phase", STK__FLAT_TEXT, false, "start, step or end"},
    {"flow", STK__FLAT_INT, false, "number of the flow that joins its points"},
    {"name", STK__FLAT_TEXT, false, "name of the flow"},
    {"category", STK__FLAT_TEXT, false, "its category"},
    {"flow_id", STK__FLAT_TEXT, false, "its id in the file"},
    WHO,
    {"slice_id", STK__FLAT_INT, true, "the slice that this point is bound to"},
    {"file", STK__FLAT_TEXT, false, "file that it came from"},
};

static size_t flow_count(const stk__trace *t)
{
    return t->points.count;
}

static void flow_fill(const stk__flat *r, size_t i, stk__flat_cell *c)
{
    static const char *const phases[] = {"start", "step", "end", ""};
    static const stk__trace_flow_key none;
    const stk__flow_points *s = &r->t->points;
    const stk__trace_flow_key *key = s->key[i] < r->t->flow_key_count ? &r->t->flow_keys[s->key[i]] : &none;
    *c++ = int_cell(s->ts[i]);
    *c++ = text_cell(phases[s->phase[i] & STK__FLOW_PHASE]);
    *c++ = int_cell(s->key[i]);
    *c++ = string_cell(r->t, key->name);
    *c++ = string_cell(r->t, key->category);
    *c++ = string_cell(r->t, key->id);
    fill_who(r, s->track[i], c);
    c += WHO_COLUMNS;
    *c++ = row_cell(s->slice[i]);
    *c = track_file_cell(r->t, s->track[i]);
}

const stk__flat_table stk__flat_flow = {
    "flow", "points of arrows between slices", flow_columns, STK_COUNT(flow_columns), flow_count, flow_fill,
};

/* ---- sample ---- */

static const stk__flat_column sample_columns[] = {
    {"ts", STK__FLAT_INT, true, "time, in ns, null where the file has none"},
    {"weight", STK__FLAT_INT, false, "how much it counts"},
    {"unit", STK__FLAT_TEXT, false, "unit of the weight: ns, samples, bytes"},
    {"event", STK__FLAT_TEXT, false, "what was sampled"},
    WHO,
    {"file", STK__FLAT_TEXT, false, "file that it came from"},
    {"stack", STK__FLAT_STACK, false, "frames, outermost first"},
};

static size_t sample_count(const stk__trace *t)
{
    return t->samples.count;
}

static void sample_fill(const stk__flat *r, size_t i, stk__flat_cell *c)
{
    const stk__samples *s = &r->t->samples;
    const uint32_t track = s->track[i];
    *c++ = s->ts[i] == STK__NO_TIME ? null_cell() : int_cell(s->ts[i]);
    *c++ = int_cell(s->weight[i]);
    *c++ = text_cell(stk__unit_name(track < r->t->track_count ? r->t->tracks[track].unit : STK__UNIT_NONE));
    *c++ = string_cell(r->t, s->event[i]);
    fill_who(r, track, c);
    c += WHO_COLUMNS;
    *c++ = track_file_cell(r->t, track);
    *c = int_cell(s->callsite[i]);
}

const stk__flat_table stk__flat_sample = {
    "sample", "stacks that a profiler saw", sample_columns, STK_COUNT(sample_columns), sample_count, sample_fill,
};

/* ---- function ---- */

static const stk__flat_column function_columns[] = {
    {"name", STK__FLAT_TEXT, false, "name of the function"},
    {"source", STK__FLAT_TEXT, false, "source file"},
    {"line", STK__FLAT_INT, true, "line in it"},
    {"module", STK__FLAT_TEXT, false, "module or library"},
    {"calls", STK__FLAT_INT, false, "all calls"},
    {"primitive_calls", STK__FLAT_INT, false, "calls that are not recursive"},
    {"self_ns", STK__FLAT_INT, false, "time without what it called, in ns"},
    {"total_ns", STK__FLAT_INT, false, "time with what it called, in ns"},
    {"file", STK__FLAT_TEXT, false, "file that it came from"},
};

static size_t function_count(const stk__trace *t)
{
    return t->function_count;
}

static void function_fill(const stk__flat *r, size_t i, stk__flat_cell *c)
{
    static const stk__trace_frame none;
    const stk__trace_function *f = &r->t->functions[i];
    const stk__trace_frame *frame = f->frame < r->t->frame_count ? &r->t->frames[f->frame] : &none;
    *c++ = string_cell(r->t, frame->name);
    *c++ = string_cell(r->t, frame->file);
    *c++ = frame->line ? int_cell(frame->line) : null_cell();
    *c++ = string_cell(r->t, frame->module);
    *c++ = int_cell(f->calls);
    *c++ = int_cell(f->primitive_calls);
    *c++ = int_cell(f->self_ns);
    *c++ = int_cell(f->total_ns);
    *c = file_cell(r->t, f->file);
}

const stk__flat_table stk__flat_function = {
    "function",    "functions with their totals", function_columns, STK_COUNT(function_columns), function_count,
    function_fill,
};

const stk__flat_table *const stk__flat_tables[] = {
    &stk__flat_slice, &stk__flat_counter, &stk__flat_flow, &stk__flat_sample, &stk__flat_function, NULL,
};
