/*
 * A memory snapshot as events: how much memory was allocated and reserved over time, what held it at the peak, and what
 * allocated it.
 *
 * The file has the last entries of a device's history and the blocks at the end. Entries and blocks are joined by their
 * addresses, as PyTorch's viewer does: a free without an allocation, and a block that nothing in the history allocated,
 * were there before it. So levels are absolute, and the last one is the sum of the active blocks. Sizes are those that
 * were asked for, since the history has no others.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "trace/read_snapshot_impl.h"

#include "base/banned.h"

enum { PROGRESS_EVENTS = 1 << 20, US = 1000 };
#define EPOCH_US INT64_C(1000000000000000) /* times past this one are since 1970 */

/* An allocation that something else took the place of: its free is not in the history. */
typedef struct replaced_alloc {
    uint32_t event; /* that took its place */
    uint64_t size;
} replaced_alloc;

/* One GPU, or the host. */
typedef struct memory_device {
    stk__builder *b;
    stk__input *in;
    stk__memory_snapshot *s;
    char name[32];
    uint32_t process;
    stk__memory_rows rows; /* its events */
    stk__memory_rows segments;
    int64_t device; /* of segments; -1: all */
    /* where the live allocation of an address is */
    stk__rowmap map;
    uint64_t *addresses; /* by place */
    uint32_t *live;      /* event, or STK__NONE */
    size_t places, address_capacity, live_capacity;
    replaced_alloc *replaced;
    size_t replaced_count, replaced_capacity;
    uint64_t before; /* bytes that were there before the history */
    uint64_t at_end, reserved_at_end;
    uint64_t peak;
    int64_t peak_event; /* -1: before the first */
    int64_t peak_ts;
    uint32_t no_stack, before_history; /* call sites for what has none */
    bool timed;
    bool nomem;
} memory_device;

static stk__memory_event *event_at(const memory_device *d, size_t i)
{
    return STK__MEMORY_ROW(&d->s->events, stk__memory_event, d->rows.first + i);
}

static const stk__memory_segment *segment_at(const memory_device *d, size_t i)
{
    const stk__memory_segment *segment = STK__MEMORY_ROW(&d->s->segments, stk__memory_segment, d->segments.first + i);
    return d->device < 0 || segment->device == d->device ? segment : NULL;
}

static const stk__memory_block *block_at(const memory_device *d, const stk__memory_segment *segment, size_t i)
{
    return STK__MEMORY_ROW(&d->s->blocks, stk__memory_block, segment->first_block + i);
}

static uint32_t site_of(memory_device *d, const char *name)
{
    const stk__trace_frame frame = {.name = stk__builder_str(d->b, name)};
    return stk__builder_callsite(d->b, STK__NONE, stk__builder_frame(d->b, &frame));
}

/* ---- which free ends which allocation ---- */

static stk__key address_key(const void *table, uint32_t row)
{
    return (stk__key){{((const uint64_t *)table)[row]}};
}

/* The place of an address; STK__NONE when memory is out. */
static uint32_t place_of(memory_device *d, uint64_t address)
{
    uint32_t place;
    bool fresh;
    if (!stk__grow((void **)&d->addresses, &d->address_capacity, d->places + 1, sizeof *d->addresses) ||
        !stk__grow((void **)&d->live, &d->live_capacity, d->places + 1, sizeof *d->live) ||
        !stk__rowmap_place(&d->map, (stk__key){{address}}, address_key, d->addresses, (uint32_t)d->places, &place,
                           &fresh)) {
        d->nomem = true;
        return STK__NONE;
    }
    if (fresh) {
        d->addresses[d->places] = address;
        d->live[d->places++] = STK__NONE;
    }
    return place;
}

static void replace(memory_device *d, uint32_t old, uint32_t event)
{
    if (!stk__grow((void **)&d->replaced, &d->replaced_capacity, d->replaced_count + 1, sizeof *d->replaced)) {
        d->nomem = true;
        return;
    }
    event_at(d, old)->other = event;
    d->replaced[d->replaced_count++] = (replaced_alloc){event, event_at(d, old)->size};
}

static void match_event(memory_device *d, uint32_t i)
{
    stk__memory_event *e = event_at(d, i);
    if (e->action != STK__MEMORY_ALLOC && e->action != STK__MEMORY_FREE)
        return;
    const uint32_t place = place_of(d, e->address);
    if (place == STK__NONE)
        return;
    const uint32_t old = d->live[place];
    if (e->action == STK__MEMORY_ALLOC) {
        if (old != STK__NONE)
            replace(d, old, i);
        d->live[place] = i;
        e->other = STK__NONE;
    } else if (old != STK__NONE) {
        event_at(d, old)->other = i;
        d->live[place] = STK__NONE;
        e->other = old;
    } else {
        d->before += e->size;
        e->other = STK__NONE;
    }
}

static bool is_in_history(const memory_device *d, uint32_t place)
{
    return d->live[place] != STK__NONE;
}

/* Blocks that are active at the end: those of the history are marked as held. */
static void match_block(memory_device *d, const stk__memory_block *block)
{
    if (!block->active)
        return;
    d->at_end += block->size;
    const uint32_t place = place_of(d, block->address);
    if (place == STK__NONE)
        return;
    if (block->address && is_in_history(d, place))
        event_at(d, d->live[place])->other = STK__MEMORY_HELD;
    else
        d->before += block->size;
}

typedef void (*block_function)(memory_device *d, const stk__memory_block *block);

static void each_block(memory_device *d, block_function go)
{
    for (size_t i = 0; i < d->segments.count && !d->nomem; i++) {
        const stk__memory_segment *segment = segment_at(d, i);
        for (size_t k = 0; segment && k < segment->block_count && !d->nomem; k++)
            go(d, block_at(d, segment, k));
    }
}

static stk_status progress(memory_device *d, size_t i, stk_error *err)
{
    if (i % PROGRESS_EVENTS)
        return STK_OK;
    stk__memory_trim(d->s);
    return stk__reader_progress(d->b, d->in, err);
}

static stk_status match_all(memory_device *d, stk_error *err)
{
    for (uint32_t i = 0; i < d->rows.count && !d->nomem; i++) {
        STK_TRY(progress(d, i, err));
        match_event(d, i);
        d->timed = d->timed || event_at(d, i)->time_us != STK__NO_NUMBER;
    }
    each_block(d, match_block);
    for (size_t i = 0; i < d->segments.count; i++) {
        const stk__memory_segment *segment = segment_at(d, i);
        d->reserved_at_end += segment ? segment->total_size : 0;
    }
    return d->nomem ? stk__nomem(d->places * sizeof *d->addresses, err) : STK_OK;
}

/* ---- levels ---- */

/* Times in order, as the entries are; files without times count entries, one for each microsecond. */
static int64_t time_of(const memory_device *d, size_t i, int64_t last)
{
    const stk__memory_event *e = event_at(d, i);
    const int64_t ts = !d->timed ? (int64_t)i * US : e->time_us == STK__NO_NUMBER ? last : e->time_us * US;
    return STK_MAX(ts, last);
}

static int64_t first_time(const memory_device *d)
{
    for (size_t i = 0; d->timed && i < d->rows.count; i++) {
        if (event_at(d, i)->time_us != STK__NO_NUMBER)
            return event_at(d, i)->time_us * US;
    }
    return 0;
}

static uint32_t counter_track(memory_device *d, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", what, d->timed ? "" : ", by number of the entry");
    const uint32_t track = stk__builder_counter_track(d->b, d->process, STK__NONE, stk__builder_str(d->b, name));
    const stk__string unit = stk__builder_str(d->b, "bytes");
    stk__trace_track *row = stk__builder_track_at(d->b, track);
    if (row)
        row->scope = unit;
    return track;
}

static stk_status emit_allocated(memory_device *d, stk_error *err)
{
    const uint32_t track = counter_track(d, "allocated");
    int64_t ts = first_time(d);
    uint64_t level = d->before;
    size_t replaced = 0;
    d->peak = level;
    d->peak_event = -1;
    d->peak_ts = ts;
    stk__builder_counter(d->b, track, ts, (double)level);
    for (size_t i = 0; i < d->rows.count; i++) {
        STK_TRY(progress(d, i, err));
        const stk__memory_event *e = event_at(d, i);
        ts = time_of(d, i, ts);
        if (e->action != STK__MEMORY_ALLOC && e->action != STK__MEMORY_FREE)
            continue;
        for (; replaced < d->replaced_count && d->replaced[replaced].event == i; replaced++)
            level -= d->replaced[replaced].size;
        const bool is_alloc = e->action == STK__MEMORY_ALLOC;
        /* a free gives back what its allocation took, whatever it says itself */
        level = is_alloc ? level + e->size : level - (e->other == STK__NONE ? e->size : event_at(d, e->other)->size);
        stk__builder_counter(d->b, track, ts, (double)level);
        if (level > d->peak) {
            d->peak = level;
            d->peak_event = (int64_t)i;
            d->peak_ts = ts;
        }
    }
    if (level != d->at_end && d->segments.count)
        stk__builder_counter(d->b, track, ts, (double)d->at_end);
    return STK_OK;
}

/* Backwards from the segments at the end. */
static stk_status emit_reserved(memory_device *d, stk_error *err)
{
    const uint32_t track = counter_track(d, "reserved");
    int64_t ts = first_time(d);
    uint64_t level = d->reserved_at_end, reserved = 0;
    for (size_t i = 0; i < d->rows.count; i++) {
        const stk__memory_event *e = event_at(d, i);
        level += e->action == STK__MEMORY_RELEASE ? e->size : 0;
        reserved += e->action == STK__MEMORY_RESERVE ? e->size : 0;
    }
    if (reserved > level)
        stk__builder_note(d->b, STK__REASON_BAD_VALUE, -1); /* more was reserved than released and there at the end */
    level -= STK_MIN(level, reserved);
    stk__builder_counter(d->b, track, ts, (double)level);
    for (size_t i = 0; i < d->rows.count; i++) {
        STK_TRY(progress(d, i, err));
        const stk__memory_event *e = event_at(d, i);
        ts = time_of(d, i, ts);
        if (e->action != STK__MEMORY_RESERVE && e->action != STK__MEMORY_RELEASE)
            continue;
        level = e->action == STK__MEMORY_RESERVE ? level + e->size : level - STK_MIN(level, (uint64_t)e->size);
        stk__builder_counter(d->b, track, ts, (double)level);
    }
    stk__builder_counter(d->b, track, ts, (double)level);
    return STK_OK;
}

/* ---- stacks ---- */

static uint32_t thread_track(memory_device *d, int64_t tid, const char *what, stk__unit unit)
{
    char name[96];
    snprintf(name, sizeof name, "%s %s", d->name, what);
    const uint32_t thread = stk__builder_thread(d->b, d->process, tid, 0);
    const stk__string text = stk__builder_str(d->b, name);
    stk__trace_thread *row = stk__builder_thread_at(d->b, thread);
    if (row)
        row->name = text;
    const uint32_t track = stk__builder_thread_track(d->b, thread);
    stk__trace_track *made = stk__builder_track_at(d->b, track);
    if (made)
        made->unit = unit;
    return track;
}

static void emit_sample(memory_device *d, uint32_t track, int64_t ts, uint32_t callsite, uint64_t size)
{
    stk__builder_sample(d->b, track, ts, callsite == STK__NONE ? d->no_stack : callsite, (int64_t)size, 0);
}

/* Of what is older than the history a block may have its stack, a free only that of the free. */
static uint32_t old_site(const memory_device *d, uint32_t callsite)
{
    return callsite == STK__NONE && d->rows.count ? d->before_history : callsite;
}

typedef struct held_blocks {
    uint32_t track;
    int64_t ts;
} held_blocks;

/* Blocks that no entry of the history allocated were there at the peak as well. */
static void emit_old_blocks(memory_device *d, const held_blocks *h)
{
    for (size_t i = 0; i < d->segments.count && !d->nomem; i++) {
        const stk__memory_segment *segment = segment_at(d, i);
        for (size_t k = 0; segment && k < segment->block_count && !d->nomem; k++) {
            const stk__memory_block *block = block_at(d, segment, k);
            const uint32_t place = block->active ? place_of(d, block->address) : STK__NONE;
            if (place != STK__NONE && (!block->address || !is_in_history(d, place)))
                emit_sample(d, h->track, h->ts, old_site(d, block->callsite), block->size);
        }
    }
}

/* Each allocation that was there at the peak; their sum is the peak. */
static stk_status emit_held(memory_device *d, stk_error *err)
{
    const char *what = d->rows.count ? "memory held at the peak" : "memory held at the end";
    const held_blocks h = {thread_track(d, 1, what, STK__UNIT_BYTES), d->rows.count ? d->peak_ts : STK__NO_TIME};
    for (size_t i = 0; i < d->rows.count; i++) {
        STK_TRY(progress(d, i, err));
        const stk__memory_event *e = event_at(d, i);
        const bool before = (int64_t)i <= d->peak_event;
        if (e->action == STK__MEMORY_ALLOC && before && (int64_t)e->other > d->peak_event)
            emit_sample(d, h.track, h.ts, e->callsite, e->size);
        else if (e->action == STK__MEMORY_FREE && !before && e->other == STK__NONE)
            emit_sample(d, h.track, h.ts, old_site(d, STK__NONE), e->size);
    }
    emit_old_blocks(d, &h);
    return STK_OK;
}

static stk_status emit_allocations(memory_device *d, stk_error *err)
{
    const uint32_t track = thread_track(d, 2, "memory allocated in total", STK__UNIT_ALLOCATED);
    int64_t ts = first_time(d);
    uint64_t unseen = 0;
    for (size_t i = 0; i < d->rows.count; i++) {
        STK_TRY(progress(d, i, err));
        const stk__memory_event *e = event_at(d, i);
        ts = time_of(d, i, ts);
        if (e->action != STK__MEMORY_ALLOC)
            continue;
        emit_sample(d, track, ts, e->callsite, e->size);
        unseen += e->other == STK__NONE;
    }
    unseen += d->replaced_count;
    if (unseen && d->segments.count)
        stk__builder_notes(d->b, STK__REASON_NO_END, unseen, -1);
    return STK_OK;
}

/* ---- instants and annotations ---- */

static void emit_instants(memory_device *d)
{
    const stk__string category = stk__builder_str(d->b, "memory"), size = stk__builder_str(d->b, "size"),
                      free = stk__builder_str(d->b, "device_free");
    int64_t ts = first_time(d);
    for (size_t i = 0; i < d->rows.count; i++) {
        const stk__memory_event *e = event_at(d, i);
        ts = time_of(d, i, ts);
        if (e->action != STK__MEMORY_OOM && e->action != STK__MEMORY_OTHER)
            continue;
        if (e->size)
            stk__builder_arg_uint(d->b, size, e->size);
        if (e->action == STK__MEMORY_OOM)
            stk__builder_arg_uint(d->b, free, e->address);
        stk__builder_instant(d->b, stk__builder_process_track(d->b, d->process), ts, e->other, category);
    }
}

static void emit_annotations(memory_device *d)
{
    uint32_t track = STK__NONE;
    const stk__string category = stk__builder_str(d->b, "annotation");
    for (size_t i = 0; i < d->s->external_annotations.count; i++) {
        const stk__memory_annotation *a =
            STK__MEMORY_ROW(&d->s->annotations, stk__memory_annotation, d->s->external_annotations.first + i);
        if (a->device != d->device)
            continue;
        if (track == STK__NONE)
            track = thread_track(d, 3, "annotations", STK__UNIT_NS);
        if (a->is_end)
            stk__builder_end(d->b, track, a->time_us * US, a->name);
        else
            stk__builder_begin(d->b, track, a->time_us * US, a->name, category);
    }
}

/* ---- devices ---- */

static stk_status emit_device(memory_device *d, stk_error *err)
{
    const stk__string name = stk__builder_str(d->b, d->name);
    d->process = stk__builder_process(d->b, d->device < 0 ? -1 : d->device, 0);
    stk__trace_process *process = stk__builder_process_at(d->b, d->process);
    if (process)
        process->name = name;
    STK_TRY(match_all(d, err));
    d->no_stack = site_of(d, "(no stack)");
    d->before_history = site_of(d, "(before the history)");
    if (d->rows.count) {
        STK_TRY(emit_allocated(d, err));
        STK_TRY(emit_reserved(d, err));
    }
    STK_TRY(emit_held(d, err)); /* the first track with samples is the one that becomes a flame graph */
    if (d->rows.count)
        STK_TRY(emit_allocations(d, err));
    emit_instants(d);
    if (d->device >= 0)
        emit_annotations(d);
    if (d->timed && first_time(d) > EPOCH_US * US) {
        stk__trace_file *file = stk__builder_file(d->b);
        file->clock = STK__CLOCK_REALTIME;
        file->realtime_ns = 0;
    }
    return d->nomem ? stk__nomem(d->places * sizeof *d->addresses, err) : stk__builder_status(d->b, err);
}

static bool has_segments(const memory_device *d)
{
    for (size_t i = 0; i < d->segments.count; i++) {
        if (segment_at(d, i))
            return true;
    }
    return false;
}

static stk_status emit_one(memory_device *d, stk_error *err)
{
    stk_status status = STK_OK;
    if (d->rows.count || has_segments(d))
        status = emit_device(d, err);
    stk__rowmap_clear(&d->map);
    stk__free(d->addresses);
    stk__free(d->live);
    stk__free(d->replaced);
    return status;
}

static stk__memory_rows trace_of(const stk__memory_snapshot *s, stk__memory_rows traces, size_t i)
{
    return i < traces.count ? *STK__MEMORY_ROW(&s->traces, stk__memory_rows, traces.first + i) : (stk__memory_rows){0};
}

stk_status stk__memory_emit(stk__builder *b, stk__input *in, stk__memory_snapshot *s, stk_error *err)
{
    size_t devices = s->device_traces.count;
    for (size_t i = 0; i < s->segments.count; i++)
        devices = STK_MAX(devices, (size_t)STK__MEMORY_ROW(&s->segments, stk__memory_segment, i)->device + 1);
    stk__builder_file(b)->resolution_ns = US;
    for (size_t i = 0; i < devices; i++) {
        memory_device d = {.b = b, .in = in, .s = s, .device = (int64_t)i, .segments = s->device_segments};
        d.rows = trace_of(s, s->device_traces, i);
        snprintf(d.name, sizeof d.name, "GPU %zu", i);
        STK_TRY(emit_one(&d, err));
    }
    memory_device host = {.b = b, .in = in, .s = s, .device = -1, .segments = s->host_segments, .name = "host"};
    host.rows = trace_of(s, s->host_traces, 0);
    return emit_one(&host, err);
}
