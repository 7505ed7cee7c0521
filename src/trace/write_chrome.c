/* Chrome JSON: everything that the model has, one event per line. */
#include "trace/write_chrome.h"

#include "base/mem.h"
#include "trace/emit.h"
#include "trace/flat.h"

#include "base/banned.h"

enum { BLOCK_BYTES = 1 << 20, TRIM_ROWS = 1 << 16 };

typedef struct chrome {
    const stk__trace *t;
    stk__sink *sink;
    stk__write_report *report;
    stk__chrome_ids ids;
    stk__text out;
    bool any_event;
    uint32_t *open; /* async slices that are open, outermost first */
    size_t open_count, open_capacity;
    size_t since_trim;
} chrome;

/* ---- pieces ---- */

static void start_event(chrome *c, char phase)
{
    static const char *const starts[] = {"\n{\"ph\":\"", ",\n{\"ph\":\""};
    stk__emit_bytes(&c->out, starts[c->any_event], c->any_event ? 9 : 8);
    stk__emit_char(&c->out, phase);
    stk__emit_char(&c->out, '"');
    c->any_event = true;
}

static void end_event(chrome *c)
{
    stk__emit_char(&c->out, '}');
    if (c->out.length >= BLOCK_BYTES || c->out.failed)
        stk__sink_text(c->sink, &c->out);
    if (++c->since_trim >= TRIM_ROWS) {
        c->since_trim = 0;
        stk__trace_trim(c->t);
    }
}

static void put_name(chrome *c, stk__string name, stk__string category)
{
    STK__EMIT(&c->out, ",\"name\":");
    stk__emit_json_string(&c->out, c->t, name);
    if (category) {
        STK__EMIT(&c->out, ",\"cat\":");
        stk__emit_json_string(&c->out, c->t, category);
    }
}

static void put_ts(chrome *c, int64_t ts)
{
    STK__EMIT(&c->out, ",\"ts\":");
    stk__emit_us(&c->out, ts);
}

static void put_label(chrome *c, const stk__labels *labels, uint32_t row)
{
    size_t size;
    const char *text = stk__labels_get(labels, row, &size);
    stk__emit_bytes(&c->out, text, size);
}

static void put_args(chrome *c, uint32_t first)
{
    if (!first)
        return;
    STK__EMIT(&c->out, ",\"args\":");
    stk__emit_args(&c->out, c->t, first);
}

/* ---- metadata ---- */

static void start_metadata(chrome *c, const char *what)
{
    start_event(c, 'M');
    stk__text_printf(&c->out, ",\"name\":\"%s\"", what);
}

static void put_process_pid(chrome *c, uint32_t process)
{
    STK__EMIT(&c->out, ",\"pid\":");
    put_label(c, &c->ids.pids, process);
}

static void put_process_text(chrome *c, uint32_t process, const char *what, const char *key, const stk__text *text)
{
    start_metadata(c, what);
    put_process_pid(c, process);
    stk__text_printf(&c->out, ",\"args\":{\"%s\":", key);
    stk__emit_json(&c->out, text->data ? text->data : "", text->length);
    stk__emit_char(&c->out, '}');
    end_event(c);
    c->out.failed = c->out.failed || text->failed;
}

static void add_string(stk__text *text, const stk__trace *t, stk__string s)
{
    size_t size;
    const char *bytes = stk__trace_text(t, s, &size);
    stk__text_write(text, bytes, size);
}

/* A process that had to get another pid says where it is from. */
static void write_process(chrome *c, uint32_t row)
{
    const stk__trace_process *p = &c->t->processes[row];
    const bool moved = c->ids.renumbered[row];
    stk__text text = STK__TEXT_INIT;
    add_string(&text, c->t, p->name ? p->name : moved ? p->pid_text : 0);
    if (text.length)
        put_process_text(c, row, "process_name", "name", &text);
    stk__text_reset(&text);
    add_string(&text, c->t, p->labels);
    if (moved) {
        stk__text_puts(&text, text.length ? ", " : "");
        if (p->pid_text)
            add_string(&text, c->t, p->pid_text);
        else
            stk__text_printf(&text, "pid %lld", (long long)p->pid);
        stk__text_puts(&text, " of ");
        add_string(&text, c->t, p->file < c->t->file_count ? c->t->files[p->file].path : 0);
    }
    if (text.length)
        put_process_text(c, row, "process_labels", "labels", &text);
    stk__text_clear(&text);
    if (p->sort_index == STK__NO_NUMBER)
        return;
    start_metadata(c, "process_sort_index");
    put_process_pid(c, row);
    STK__EMIT(&c->out, ",\"args\":{\"sort_index\":");
    stk__emit_int(&c->out, p->sort_index);
    stk__emit_char(&c->out, '}');
    end_event(c);
}

static void put_thread_ids(chrome *c, const stk__trace_thread *thread)
{
    put_process_pid(c, thread->process);
    STK__EMIT(&c->out, ",\"tid\":");
    if (thread->tid_text)
        stk__emit_json_string(&c->out, c->t, thread->tid_text);
    else
        stk__emit_int(&c->out, thread->tid);
}

static void write_thread(chrome *c, uint32_t row)
{
    const stk__trace_thread *thread = &c->t->threads[row];
    if (thread->name) {
        start_metadata(c, "thread_name");
        put_thread_ids(c, thread);
        STK__EMIT(&c->out, ",\"args\":{\"name\":");
        stk__emit_json_string(&c->out, c->t, thread->name);
        stk__emit_char(&c->out, '}');
        end_event(c);
    }
    if (thread->sort_index == STK__NO_NUMBER)
        return;
    start_metadata(c, "thread_sort_index");
    put_thread_ids(c, thread);
    STK__EMIT(&c->out, ",\"args\":{\"sort_index\":");
    stk__emit_int(&c->out, thread->sort_index);
    stk__emit_char(&c->out, '}');
    end_event(c);
}

/* A track beside the threads looks like one of them, with its name. */
static void write_track(chrome *c, uint32_t row)
{
    const stk__trace_track *k = &c->t->tracks[row];
    if (k->lane || !c->ids.own_tid[row])
        return;
    start_metadata(c, "thread_name");
    put_label(c, &c->ids.who, row);
    STK__EMIT(&c->out, ",\"args\":{\"name\":");
    if (k->name)
        stk__emit_json_string(&c->out, c->t, k->name);
    else
        stk__text_json_str(&c->out, k->kind == STK__TRACK_PROCESS ? "(process)" : "(global)");
    stk__emit_char(&c->out, '}');
    end_event(c);
}

static void write_total(chrome *c, const stk__trace_total *total)
{
    const uint32_t process = total->file < c->t->file_count ? c->ids.file_process[total->file] : STK__NONE;
    start_metadata(c, "stoker_total");
    if (process != STK__NONE)
        put_process_pid(c, process);
    STK__EMIT(&c->out, ",\"args\":{\"track\":");
    stk__emit_json_string(&c->out, c->t, total->track);
    STK__EMIT(&c->out, ",\"name\":");
    stk__emit_json_string(&c->out, c->t, total->name);
    STK__EMIT(&c->out, ",\"count\":");
    stk__emit_uint(&c->out, total->count);
    STK__EMIT(&c->out, ",\"total_ns\":");
    stk__emit_uint(&c->out, total->total_ns);
    STK__EMIT(&c->out, ",\"lost\":");
    stk__emit_uint(&c->out, total->lost);
    stk__emit_char(&c->out, '}');
    end_event(c);
}

static void write_metadata(chrome *c)
{
    for (uint32_t i = 0; i < c->t->process_count; i++)
        write_process(c, i);
    for (uint32_t i = 0; i < c->t->thread_count; i++)
        write_thread(c, i);
    for (uint32_t i = 0; i < c->t->track_count; i++)
        write_track(c, i);
    for (size_t i = 0; i < c->t->total_count; i++)
        write_total(c, &c->t->totals[i]);
}

/* ---- slices ---- */

/* Readers join category and scope, so what the category says already is left away. */
static void put_scope(chrome *c, const stk__trace_track *k, stk__string category)
{
    size_t size, category_size;
    const char *scope = stk__trace_text(c->t, k->scope, &size);
    const char *start = stk__trace_text(c->t, category, &category_size);
    if (k->scope == category || size == 0)
        return;
    if (category && size > category_size && memcmp(scope, start, category_size) == 0 && scope[category_size] == ':') {
        scope += category_size + 1;
        size -= category_size + 1;
    }
    STK__EMIT(&c->out, ",\"scope\":");
    stk__emit_json(&c->out, scope, size);
}

static void put_async_ids(chrome *c, size_t slice)
{
    const uint32_t track = c->t->slices.track[slice];
    put_label(c, &c->ids.who, track);
    put_label(c, &c->ids.async, track);
    put_scope(c, &c->t->tracks[track], c->t->slices.category[slice]);
}

static void write_complete(chrome *c, size_t i)
{
    const stk__slices *s = &c->t->slices;
    start_event(c, 'X');
    put_name(c, s->name[i], s->category[i]);
    put_ts(c, s->ts[i]);
    STK__EMIT(&c->out, ",\"dur\":");
    stk__emit_us(&c->out, s->dur[i]);
    put_label(c, &c->ids.who, s->track[i]);
    put_args(c, s->args[i]);
    end_event(c);
}

static void write_instant(chrome *c, size_t i)
{
    const stk__slices *s = &c->t->slices;
    const stk__trace_track *k = &c->t->tracks[s->track[i]];
    const bool async = stk__chrome_async(c->t, k);
    start_event(c, async ? 'n' : 'i');
    put_name(c, s->name[i], s->category[i]);
    put_ts(c, s->ts[i]);
    if (async) {
        put_async_ids(c, i);
    } else {
        const char scope = k->kind == STK__TRACK_THREAD || k->name ? 't' : k->kind == STK__TRACK_PROCESS ? 'p' : 'g';
        put_label(c, &c->ids.who, s->track[i]);
        STK__EMIT(&c->out, ",\"s\":\"");
        stk__emit_char(&c->out, scope);
        stk__emit_char(&c->out, '"');
    }
    put_args(c, s->args[i]);
    end_event(c);
}

static void write_async_point(chrome *c, char phase, size_t i, int64_t ts)
{
    const stk__slices *s = &c->t->slices;
    start_event(c, phase);
    put_name(c, s->name[i], s->category[i]);
    put_ts(c, ts);
    put_async_ids(c, i);
    if (phase == 'b')
        put_args(c, s->args[i]);
    end_event(c);
}

/* Ends the innermost open slices up to `parent`, so that begins and ends are in the order of time and nesting. */
static void close_async(chrome *c, uint32_t parent)
{
    const stk__slices *s = &c->t->slices;
    while (c->open_count && c->open[c->open_count - 1] != parent) {
        const uint32_t i = c->open[--c->open_count];
        write_async_point(c, 'e', i, s->ts[i] + s->dur[i]);
    }
}

static void write_async(chrome *c, size_t i)
{
    const stk__slices *s = &c->t->slices;
    close_async(c, s->parent[i]);
    if (s->flags[i] & STK__SLICE_INSTANT) {
        write_instant(c, i);
        return;
    }
    if (!stk__grow((void **)&c->open, &c->open_capacity, c->open_count + 1, sizeof *c->open)) {
        c->out.failed = true;
        return;
    }
    c->open[c->open_count++] = (uint32_t)i;
    write_async_point(c, 'b', i, s->ts[i]);
}

static void write_slices(chrome *c)
{
    const stk__slices *s = &c->t->slices;
    for (size_t i = 0; i < s->count && !stk__sink_failed(c->sink); i++) {
        if (c->open_count && s->track[i] != s->track[c->open[0]])
            close_async(c, STK__NONE);
        if (stk__chrome_async(c->t, &c->t->tracks[s->track[i]]))
            write_async(c, i);
        else if (s->flags[i] & STK__SLICE_INSTANT)
            write_instant(c, i);
        else
            write_complete(c, i);
    }
    close_async(c, STK__NONE);
    c->report->slices = s->count;
}

/* ---- counters, flows ---- */

static void write_counters(chrome *c)
{
    const stk__counters *s = &c->t->counters;
    for (size_t i = 0; i < s->count && !stk__sink_failed(c->sink); i++) {
        start_event(c, 'C');
        put_name(c, c->t->tracks[s->track[i]].name, 0);
        put_ts(c, s->ts[i]);
        put_label(c, &c->ids.who, s->track[i]);
        STK__EMIT(&c->out, ",\"args\":{\"value\":");
        stk__emit_json_double(&c->out, s->value[i]);
        stk__emit_char(&c->out, '}');
        end_event(c);
    }
    c->report->counters = s->count;
}

static void write_flows(chrome *c)
{
    static const char phases[] = {'s', 't', 'f', 't'};
    const stk__flow_points *p = &c->t->points;
    for (size_t i = 0; i < p->count && !stk__sink_failed(c->sink); i++) {
        const stk__trace_flow_key *key = &c->t->flow_keys[p->key[i]];
        const stk__trace_track *k = &c->t->tracks[p->track[i]];
        if (k->kind != STK__TRACK_THREAD && !c->ids.own_tid[p->track[i]]) {
            c->report->lost_flows++; /* arrows go between threads */
            continue;
        }
        const unsigned phase = p->phase[i] & STK__FLOW_PHASE;
        start_event(c, phases[phase]);
        put_name(c, key->name, key->category);
        STK__EMIT(&c->out, ",\"id\":");
        stk__emit_json_string(&c->out, c->t, key->id);
        put_ts(c, p->ts[i]);
        put_label(c, &c->ids.who, p->track[i]);
        if (phase == STK__FLOW_END && p->phase[i] & STK__FLOW_ENCLOSING)
            STK__EMIT(&c->out, ",\"bp\":\"e\"");
        end_event(c);
        c->report->flows++;
    }
}

/* ---- samples ---- */

static void put_frame(chrome *c, const stk__trace_frame *f)
{
    STK__EMIT(&c->out, "{\"name\":");
    stk__emit_json_string(&c->out, c->t, f->name);
    if (f->module) {
        STK__EMIT(&c->out, ",\"category\":");
        stk__emit_json_string(&c->out, c->t, f->module);
    }
    if (f->file) {
        STK__EMIT(&c->out, ",\"file\":");
        stk__emit_json_string(&c->out, c->t, f->file);
    }
    if (f->line) {
        STK__EMIT(&c->out, ",\"line\":");
        stk__emit_int(&c->out, f->line);
    }
}

/* The tree of stacks stands before the events that refer to it. */
static void write_frames(chrome *c)
{
    const stk__trace *t = c->t;
    if (!t->samples.count)
        return;
    STK__EMIT(&c->out, ",\"stackFrames\":{");
    for (size_t i = 0; i < t->callsite_count && !stk__sink_failed(c->sink); i++) {
        stk__emit_bytes(&c->out, i ? ",\n\"" : "\n\"", i ? 3 : 2);
        stk__emit_uint(&c->out, i);
        STK__EMIT(&c->out, "\":");
        put_frame(c, &t->frames[t->callsites[i].frame]);
        if (t->callsites[i].parent != STK__NONE) {
            STK__EMIT(&c->out, ",\"parent\":\"");
            stk__emit_uint(&c->out, t->callsites[i].parent);
            stk__emit_char(&c->out, '"');
        }
        end_event(c);
    }
    STK__EMIT(&c->out, "\n}");
}

static void put_sample(chrome *c, size_t i)
{
    const stk__samples *s = &c->t->samples;
    put_name(c, s->event[i], 0);
    if (s->ts[i] != STK__NO_TIME)
        put_ts(c, s->ts[i]);
    put_label(c, &c->ids.who, s->track[i]);
    STK__EMIT(&c->out, ",\"weight\":");
    stk__emit_int(&c->out, s->weight[i]);
    const uint32_t unit = c->t->tracks[s->track[i]].unit;
    if (unit != STK__UNIT_SAMPLES)
        stk__text_printf(&c->out, ",\"unit\":\"%s\"", stk__unit_name(unit));
    if (s->callsite[i] != STK__NONE) {
        STK__EMIT(&c->out, ",\"sf\":\"");
        stk__emit_uint(&c->out, s->callsite[i]);
        stk__emit_char(&c->out, '"');
    }
    end_event(c);
}

/* An event of its own needs a time and a stack. */
static bool is_event(const stk__samples *s, size_t i)
{
    return s->ts[i] != STK__NO_TIME && s->callsite[i] != STK__NONE;
}

static void write_sample_events(chrome *c)
{
    const stk__samples *s = &c->t->samples;
    for (size_t i = 0; i < s->count && !stk__sink_failed(c->sink); i++) {
        if (!is_event(s, i))
            continue;
        start_event(c, 'P');
        put_sample(c, i);
    }
}

/* The others, in the section that asks for neither. */
static void write_other_samples(chrome *c)
{
    const stk__samples *s = &c->t->samples;
    bool any = false;
    for (size_t i = 0; i < s->count && !stk__sink_failed(c->sink); i++) {
        if (is_event(s, i))
            continue;
        if (any)
            STK__EMIT(&c->out, ",\n{\"cpu\":0");
        else
            STK__EMIT(&c->out, ",\"samples\":[\n{\"cpu\":0");
        put_sample(c, i);
        any = true;
    }
    if (any)
        STK__EMIT(&c->out, "\n]");
    c->report->samples = s->count;
}

/* ---- the file ---- */

static stk_status chrome_write(const stk__trace *t, stk__sink *sink, stk__write_report *report, stk_error *err)
{
    chrome c = {.t = t, .sink = sink, .report = report};
    STK_TRY(stk__chrome_ids_make(&c.ids, t, err));
    STK__EMIT(&c.out, "{\"displayTimeUnit\":\"ms\"");
    if (!stk__chrome_facts(t, &c.out))
        c.out.failed = true;
    write_frames(&c);
    STK__EMIT(&c.out, ",\"traceEvents\":[");
    write_metadata(&c);
    write_slices(&c);
    write_counters(&c);
    write_flows(&c);
    write_sample_events(&c);
    STK__EMIT(&c.out, "\n]");
    write_other_samples(&c);
    STK__EMIT(&c.out, "}\n");
    stk__sink_text(sink, &c.out);
    report->lost_functions = t->function_count;
    stk__chrome_ids_clear(&c.ids);
    stk__free(c.open);
    stk__text_clear(&c.out);
    return STK_OK;
}

const stk__trace_writer stk__writer_chrome = {
    .name = "chrome",
    .summary = "Chrome JSON, for Perfetto's UI, chrome://tracing and most tools",
    .extensions = ".json .trace",
    .write = chrome_write,
};
