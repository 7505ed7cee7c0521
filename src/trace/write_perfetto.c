/* Writes a trace as Perfetto's protobuf: one packet sequence, track by track. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/wire.h"
#include "trace/perfetto.h"
#include "trace/writer.h"

#include "base/banned.h"

enum { SEQUENCE = 1, FLUSH_BYTES = 1 << 18, TRIM_ROWS = 1 << 16, STACK_MAX = 1024 };

/*
 * Ids of tracks: rows of three tables, kept apart by their high bits; the process's own is also that of its
 * descriptor.
 */
enum { UUID_TRACK = 1, UUID_PROCESS = 2, UUID_THREAD = 3, UUID_TOTALS = 4, UUID_SHIFT = 33 };

/* What is interned: a bit per string and kind. The number of a string is its id. */
enum { KIND_NAME, KIND_CATEGORY, KIND_ARG_NAME, KIND_ARG_STRING, KIND_FUNCTION, KIND_PATH, KIND_MODULE, KINDS };

typedef struct pf_writer {
    const stk__trace *t;
    stk__sink *sink;
    stk__write_report *report;
    stk__text out;                     /* packets that wait for the sink */
    stk__text packet, event, interned; /* of the packet being made */
    stk__text part, inner;             /* messages inside of it */
    uint8_t *written;                  /* per string: bits of KIND_... */
    uint8_t *frame_written, *callsite_written;
    int32_t *pid;         /* per process */
    uint64_t *track_uuid; /* per track */
    int64_t base_ns;      /* taken off all times; not 0 only when some are negative */
    uint32_t clock_id;    /* of the packets; 0: the trace's */
    uint32_t *flow_id;    /* per arrow; NULL when there are none */
    size_t *end_first;    /* per slice: where its ends of arrows start in `ends` */
    uint64_t *ends;       /* 2 * arrow, + 1: where it goes to; by slice */
    uint32_t *stack;      /* open slices */
    int64_t *stack_end;
    size_t stack_count, stack_capacity, end_capacity;
    size_t endless;   /* of the open slices, the outermost ones that get no end */
    uint32_t *frames; /* of one callstack */
    size_t frame_capacity;
    size_t since_trim;
    bool nomem;
} pf_writer;

/* ---- packets ---- */

static uint64_t uuid_of(uint32_t table, uint32_t row)
{
    return (uint64_t)table << UUID_SHIFT | row;
}

static void put_message(stk__text *t, uint32_t field, const stk__text *message)
{
    stk__wire_put_bytes(t, field, message->data ? message->data : "", message->length);
}

static void put_fixed64(stk__text *t, uint32_t field, uint64_t x)
{
    uint8_t bytes[8];
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(x >> 8 * i);
    stk__wire_put_tag(t, field, STK__WIRE_FIXED64);
    stk__text_write(t, bytes, sizeof bytes);
}

static void put_double(stk__text *t, uint32_t field, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_fixed64(t, field, bits);
}

static void put_string(pf_writer *w, stk__text *t, uint32_t field, stk__string s)
{
    size_t size;
    const char *text = stk__trace_text(w->t, s, &size);
    stk__wire_put_bytes(t, field, text, size);
}

static void put_str(stk__text *t, uint32_t field, const char *s)
{
    stk__wire_put_bytes(t, field, s, strlen(s));
}

static uint64_t file_time(const pf_writer *w, int64_t ts)
{
    return (uint64_t)ts - (uint64_t)w->base_ns;
}

static void packet_open(pf_writer *w, uint32_t flags)
{
    stk__text_reset(&w->packet);
    stk__wire_put_uint(&w->packet, PACKET_SEQUENCE_ID, SEQUENCE);
    if (flags)
        stk__wire_put_uint(&w->packet, PACKET_SEQUENCE_FLAGS, flags);
}

static void packet_close(pf_writer *w)
{
    if (w->interned.length)
        put_message(&w->packet, PACKET_INTERNED_DATA, &w->interned);
    stk__text_reset(&w->interned);
    put_message(&w->out, TRACE_PACKET, &w->packet);
    if (w->out.length >= FLUSH_BYTES)
        stk__sink_text(w->sink, &w->out);
}

/* ---- interning ---- */

/* Whether it is the first time, which is remembered. */
static bool first_use(pf_writer *w, stk__string s, unsigned kind)
{
    if (s >= w->t->string_count || w->written[s] & 1u << kind)
        return false;
    w->written[s] |= (uint8_t)(1u << kind);
    return true;
}

static void intern(pf_writer *w, stk__string s, unsigned kind)
{
    static const uint32_t fields[KINDS] = {
        [KIND_NAME] = INTERNED_EVENT_NAME,    [KIND_CATEGORY] = INTERNED_CATEGORY,
        [KIND_ARG_NAME] = INTERNED_ARG_NAME,  [KIND_ARG_STRING] = INTERNED_ARG_STRING,
        [KIND_FUNCTION] = INTERNED_FUNCTION,  [KIND_PATH] = INTERNED_SOURCE_PATH,
        [KIND_MODULE] = INTERNED_MAPPING_PATH};
    if (!first_use(w, s, kind))
        return;
    stk__text_reset(&w->inner);
    stk__wire_put_uint(&w->inner, INTERNED_IID, s);
    put_string(w, &w->inner, INTERNED_TEXT, s);
    put_message(&w->interned, fields[kind], &w->inner);
    if (kind != KIND_MODULE)
        return;
    stk__text_reset(&w->inner); /* a module is a mapping with one part to its path */
    stk__wire_put_uint(&w->inner, INTERNED_IID, s);
    stk__wire_put_uint(&w->inner, MAPPING_PATH, s);
    put_message(&w->interned, INTERNED_MAPPING, &w->inner);
}

/* ---- processes, threads and tracks ---- */

/* Any set of numbers; a table of bits would be as large as the largest pid. */
typedef struct pid_set {
    int32_t *slots;
    uint8_t *used;
    size_t mask;
} pid_set;

static bool pid_add(pid_set *set, int32_t pid)
{
    size_t at = (uint32_t)pid * 2654435761u & set->mask;
    while (set->used[at] && set->slots[at] != pid)
        at = (at + 1) & set->mask;
    if (set->used[at])
        return false;
    set->used[at] = 1;
    set->slots[at] = pid;
    return true;
}

/* Each process keeps its pid when that is free and fits; else it gets one that no process of the files has. */
static bool choose_pids(pf_writer *w)
{
    const stk__trace *t = w->t;
    pid_set set = {.mask = 63};
    int32_t next = 1 << 23; /* no kernel gives one this high */
    while (set.mask < t->process_count * 2)
        set.mask = set.mask * 2 + 1;
    set.slots = stk__calloc(set.mask + 1, sizeof *set.slots);
    set.used = stk__calloc(set.mask + 1, 1);
    if (!set.slots || !set.used) {
        stk__free(set.slots);
        stk__free(set.used);
        return false;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < t->process_count; i++) {
            const stk__trace_process *p = &t->processes[i];
            const bool fits = !p->pid_text && p->pid >= 0 && p->pid <= INT32_MAX;
            if (pass == 0) {
                w->pid[i] = fits && pid_add(&set, (int32_t)p->pid) ? (int32_t)p->pid : -1;
            } else if (w->pid[i] < 0) {
                while (!pid_add(&set, next))
                    next++;
                w->pid[i] = next;
            }
        }
    }
    stk__free(set.slots);
    stk__free(set.used);
    return true;
}

static void write_descriptor(pf_writer *w)
{
    packet_open(w, 0);
    put_message(&w->packet, PACKET_TRACK_DESCRIPTOR, &w->event);
    packet_close(w);
}

static void write_process(pf_writer *w, uint32_t row)
{
    const stk__trace_process *p = &w->t->processes[row];
    stk__text_reset(&w->part);
    stk__wire_put_uint(&w->part, PROCESS_PID, (uint64_t)(int64_t)w->pid[row]);
    if (p->name || p->pid_text)
        put_string(w, &w->part, PROCESS_NAME, p->name ? p->name : p->pid_text);
    if (p->labels)
        put_string(w, &w->part, PROCESS_LABEL, p->labels);
    if (p->sort_index >= INT32_MIN && p->sort_index <= INT32_MAX)
        stk__wire_put_uint(&w->part, PROCESS_SORT_INDEX, (uint64_t)p->sort_index);
    stk__text_reset(&w->event);
    stk__wire_put_uint(&w->event, TRACK_UUID, uuid_of(UUID_PROCESS, row));
    put_message(&w->event, TRACK_PROCESS, &w->part);
    write_descriptor(w);
}

static uint32_t process_of(const pf_writer *w, uint32_t thread)
{
    const uint32_t process = thread < w->t->thread_count ? w->t->threads[thread].process : STK__NONE;
    return process < w->t->process_count ? process : STK__NONE;
}

/* Threads whose id is a text get a number; it cannot meet another one's, since kernels give none this high. */
static int64_t tid_of(const pf_writer *w, uint32_t row)
{
    const stk__trace_thread *thread = &w->t->threads[row];
    return thread->tid_text ? ((int64_t)1 << 24) + row : thread->tid;
}

static void write_thread(pf_writer *w, uint32_t row)
{
    const stk__trace_thread *thread = &w->t->threads[row];
    const uint32_t process = process_of(w, row);
    stk__text_reset(&w->part);
    stk__wire_put_uint(&w->part, THREAD_PID, process == STK__NONE ? 0 : (uint64_t)(int64_t)w->pid[process]);
    stk__wire_put_uint(&w->part, THREAD_TID, (uint64_t)tid_of(w, row));
    if (thread->name || thread->tid_text)
        put_string(w, &w->part, THREAD_NAME, thread->name ? thread->name : thread->tid_text);
    if (thread->sort_index >= INT32_MIN && thread->sort_index <= INT32_MAX)
        stk__wire_put_uint(&w->part, THREAD_SORT_INDEX, (uint64_t)thread->sort_index);
    stk__text_reset(&w->event);
    stk__wire_put_uint(&w->event, TRACK_UUID, uuid_of(UUID_THREAD, row));
    if (process != STK__NONE)
        stk__wire_put_uint(&w->event, TRACK_PARENT, uuid_of(UUID_PROCESS, process));
    put_message(&w->event, TRACK_THREAD, &w->part);
    write_descriptor(w);
}

/* The track that it hangs below: its thread's, its process's, or none. */
static uint64_t parent_uuid(const pf_writer *w, const stk__trace_track *k)
{
    if (k->thread < w->t->thread_count)
        return uuid_of(UUID_THREAD, k->thread);
    return k->process < w->t->process_count ? uuid_of(UUID_PROCESS, k->process) : 0;
}

/* The name of a lane is that of its track, and which one it is; our reader makes a lane of it again. */
static void put_lane_name(pf_writer *w, const stk__trace_track *k)
{
    size_t size;
    const bool thread = k->kind == STK__TRACK_THREAD && k->thread < w->t->thread_count;
    const bool process = k->kind == STK__TRACK_PROCESS && k->process < w->t->process_count;
    const stk__string name = thread    ? w->t->threads[k->thread].name
                             : process ? w->t->processes[k->process].name
                                       : k->name;
    const char *text = stk__trace_text(w->t, name, &size);
    stk__text_reset(&w->part);
    stk__text_write(&w->part, text, size);
    stk__text_printf(&w->part, STK__OVERLAP_SUFFIX "%u)", (unsigned)k->lane);
    put_message(&w->event, TRACK_NAME, &w->part);
}

/* A track of a thread, or of a process, that has no name of its own. */
typedef struct plain_track {
    uint64_t owner;
    int64_t start;
    uint32_t row;
} plain_track;

static int compare_plain(const void *a, const void *b)
{
    const plain_track *x = a, *y = b;
    if (x->owner != y->owner)
        return x->owner < y->owner ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* What such a track could be written as, 0: it is none. */
static uint64_t owner_uuid(const pf_writer *w, uint32_t row)
{
    const stk__trace_track *k = &w->t->tracks[row];
    if (k->lane || !k->slice_count)
        return 0;
    if (k->kind == STK__TRACK_THREAD && k->thread < w->t->thread_count) {
        const uint32_t own = w->t->threads[k->thread].track;
        const bool of_other_file = !k->name && own < w->t->track_count && w->t->tracks[own].file != k->file;
        return own == row || of_other_file ? uuid_of(UUID_THREAD, k->thread) : 0;
    }
    return k->kind == STK__TRACK_PROCESS && k->process < w->t->process_count ? uuid_of(UUID_PROCESS, k->process) : 0;
}

static int64_t track_end(const stk__trace *t, uint32_t row)
{
    const stk__trace_track *k = &t->tracks[row];
    int64_t end = INT64_MIN;
    for (size_t i = k->first_slice; i < (size_t)k->first_slice + k->slice_count; i++)
        end = STK_MAX(end, t->slices.ts[i] + t->slices.dur[i]);
    return end;
}

/*
 * Joined threads and processes have a track for each file. Those that come one after the other are written as one; one that runs beside
 * them stays a track of its own, since slices must nest.
 */
static bool choose_plain_tracks(pf_writer *w)
{
    const stk__trace *t = w->t;
    plain_track *rows = stk__alloc((t->track_count + 1) * sizeof *rows);
    size_t count = 0;
    if (!rows)
        return false;
    for (uint32_t i = 0; i < t->track_count; i++) {
        const uint64_t owner = owner_uuid(w, i);
        if (owner)
            rows[count++] = (plain_track){owner, t->slices.ts[t->tracks[i].first_slice], i};
    }
    if (count)
        qsort(rows, count, sizeof *rows, compare_plain);
    int64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        const bool first = !i || rows[i].owner != rows[i - 1].owner;
        if (!first && rows[i].start <= end)
            continue;
        w->track_uuid[rows[i].row] = rows[i].owner;
        if (i + 1 < count && rows[i + 1].owner == rows[i].owner)
            end = track_end(t, rows[i].row);
    }
    stk__free(rows);
    return true;
}

static void write_track(pf_writer *w, uint32_t row)
{
    const stk__trace_track *k = &w->t->tracks[row];
    if ((!k->slice_count && !k->counter_count) || w->track_uuid[row])
        return;
    w->track_uuid[row] = uuid_of(UUID_TRACK, row);
    if (!k->lane && k->kind == STK__TRACK_GLOBAL && w->t->file_count == 1) {
        w->track_uuid[row] = 0; /* Perfetto's track for all that has none */
        return;
    }
    const uint64_t parent = parent_uuid(w, k);
    stk__text_reset(&w->event);
    stk__wire_put_uint(&w->event, TRACK_UUID, w->track_uuid[row]);
    if (parent)
        stk__wire_put_uint(&w->event, TRACK_PARENT, parent);
    if (k->lane)
        put_lane_name(w, k);
    else if (k->name)
        put_string(w, &w->event, TRACK_NAME, k->name);
    if (k->kind == STK__TRACK_COUNTER) {
        stk__text_reset(&w->part);
        if (k->scope)
            put_string(w, &w->part, COUNTER_UNIT_NAME, k->scope);
        put_message(&w->event, TRACK_COUNTER, &w->part);
    }
    write_descriptor(w);
}

/* ---- clocks ---- */

/* The first file that knows the time of day speaks for all: a merge has brought the others to its clock. */
static const stk__trace_file *clock_file(const stk__trace *t)
{
    for (size_t i = 0; i < t->file_count; i++) {
        if (t->files[i].realtime_ns != STK__NO_NUMBER)
            return &t->files[i];
    }
    return t->file_count ? &t->files[0] : NULL;
}

static void put_clock(pf_writer *w, uint32_t id, uint64_t at)
{
    stk__text_reset(&w->part);
    stk__wire_put_uint(&w->part, CLOCK_ID, id);
    stk__wire_put_uint(&w->part, CLOCK_TIMESTAMP, at);
    put_message(&w->event, SNAPSHOT_CLOCK, &w->part);
}

/* The packet that starts the sequence, and the relation of its clock to the time of day. */
static void write_clocks(pf_writer *w)
{
    static const uint32_t ids[] = {[STK__CLOCK_UNKNOWN] = 0,
                                   [STK__CLOCK_MONOTONIC] = CLOCK_MONOTONIC_ID,
                                   [STK__CLOCK_BOOT] = CLOCK_BOOTTIME_ID,
                                   [STK__CLOCK_REALTIME] = CLOCK_REALTIME_ID};
    const stk__trace_file *file = clock_file(w->t);
    int64_t real;
    w->clock_id = file && file->clock < STK_COUNT(ids) && !w->base_ns ? ids[file->clock] : 0;
    stk__text_reset(&w->part);
    if (w->clock_id)
        stk__wire_put_uint(&w->part, DEFAULTS_CLOCK_ID, w->clock_id);
    packet_open(w, SEQUENCE_STATE_CLEARED);
    stk__wire_put_uint(&w->packet, PACKET_FIRST_ON_SEQUENCE, 1);
    put_message(&w->packet, PACKET_DEFAULTS, &w->part);
    packet_close(w);
    if (!file || file->realtime_ns == STK__NO_NUMBER ||
        __builtin_add_overflow(w->t->start_ns, file->realtime_ns, &real) || real < 0)
        return;
    const uint32_t own = w->clock_id ? w->clock_id : CLOCK_BOOTTIME_ID;
    stk__text_reset(&w->event);
    put_clock(w, own, file_time(w, w->t->start_ns));
    if (own != CLOCK_REALTIME_ID)
        put_clock(w, CLOCK_REALTIME_ID, (uint64_t)real);
    stk__wire_put_uint(&w->event, SNAPSHOT_PRIMARY, own);
    packet_open(w, 0);
    put_message(&w->packet, PACKET_CLOCK_SNAPSHOT, &w->event);
    packet_close(w);
}

/* ---- slices ---- */

static void event_open(pf_writer *w, uint32_t type, uint64_t track_uuid)
{
    stk__text_reset(&w->event);
    stk__wire_put_uint(&w->event, EVENT_TYPE, type);
    stk__wire_put_uint(&w->event, EVENT_TRACK_UUID, track_uuid);
}

static void event_close(pf_writer *w, int64_t ts)
{
    packet_open(w, SEQUENCE_NEEDS_STATE);
    stk__wire_put_uint(&w->packet, PACKET_TIMESTAMP, file_time(w, ts));
    put_message(&w->packet, PACKET_TRACK_EVENT, &w->event);
    packet_close(w);
}

static void put_arg(pf_writer *w, size_t row)
{
    const stk__args *a = &w->t->args;
    const stk__arg_value *v = &a->value[row];
    intern(w, a->key[row], KIND_ARG_NAME);
    if ((a->type[row] & STK__ARG_TYPE) == STK__ARG_STRING && v->string)
        intern(w, (stk__string)v->string, KIND_ARG_STRING);
    stk__text_reset(&w->part);
    stk__wire_put_uint(&w->part, ARG_NAME_IID, a->key[row]);
    switch (a->type[row] & STK__ARG_TYPE) {
    case STK__ARG_BOOL:
        stk__wire_put_uint(&w->part, ARG_BOOL, v->integer != 0);
        break;
    case STK__ARG_INT:
        stk__wire_put_uint(&w->part, ARG_INT, (uint64_t)v->integer);
        break;
    case STK__ARG_DOUBLE:
        put_double(&w->part, ARG_DOUBLE, v->real);
        break;
    case STK__ARG_STRING:
        if (v->string)
            stk__wire_put_uint(&w->part, ARG_STRING_IID, v->string);
        else
            put_str(&w->part, ARG_STRING, "");
        break;
    case STK__ARG_JSON:
        put_string(w, &w->part, ARG_JSON, (stk__string)v->string);
        break;
    default:
        break;
    }
    put_message(&w->event, EVENT_ARG, &w->part);
}

static void put_args(pf_writer *w, uint32_t first)
{
    const stk__args *a = &w->t->args;
    for (size_t row = first; row && row < a->count; row++) {
        put_arg(w, row);
        if (a->type[row] & STK__ARG_LAST)
            break;
    }
}

/* Whether a reader, which sorts by time and keeps the order of the file, sees the arrow's start first. */
static bool in_order(const stk__trace *t, size_t arrow)
{
    const uint32_t out = t->flows.out[arrow], in = t->flows.in[arrow];
    return t->slices.ts[out] < t->slices.ts[in] || (t->slices.ts[out] == t->slices.ts[in] && out < in);
}

/* Whether the arrow goes on where the one before it ended. */
static bool goes_on(const stk__trace *t, size_t arrow)
{
    const stk__flows *f = &t->flows;
    return arrow && arrow < f->count && f->key[arrow] == f->key[arrow - 1] && f->out[arrow] == f->in[arrow - 1] &&
           in_order(t, arrow - 1) && in_order(t, arrow);
}

static void put_flows(pf_writer *w, size_t slice)
{
    if (!w->flow_id)
        return;
    for (size_t i = w->end_first[slice]; i < w->end_first[slice + 1]; i++) {
        const size_t arrow = w->ends[i] / 2;
        const bool last = w->ends[i] % 2 && !goes_on(w->t, arrow + 1);
        put_fixed64(&w->event, last ? EVENT_FLOW_END : EVENT_FLOW, (uint64_t)w->flow_id[arrow] + 1);
    }
}

static void write_begin(pf_writer *w, size_t row, uint64_t uuid)
{
    const stk__slices *s = &w->t->slices;
    event_open(w, s->flags[row] & STK__SLICE_INSTANT ? EVENT_INSTANT : EVENT_SLICE_BEGIN, uuid);
    if (s->name[row]) {
        intern(w, s->name[row], KIND_NAME);
        stk__wire_put_uint(&w->event, EVENT_NAME_IID, s->name[row]);
    }
    if (s->category[row]) {
        intern(w, s->category[row], KIND_CATEGORY);
        stk__wire_put_uint(&w->event, EVENT_CATEGORY_IID, s->category[row]);
    }
    put_args(w, s->args[row]);
    put_flows(w, row);
    event_close(w, s->ts[row]);
    w->report->slices++;
}

/*
 * Ends the innermost open slice, not after `until`: times that were rounded may stick into the next slice. One that
 * the file did not end stays open where nothing around it has an end, which would close it instead.
 */
static void write_end(pf_writer *w, uint64_t uuid, int64_t until)
{
    const size_t top = --w->stack_count;
    if (w->endless > top) {
        w->endless = top;
        return;
    }
    const int64_t end = STK_MIN(w->stack_end[top], until);
    w->report->shortened_slices += end < w->t->slices.ts[w->stack[top]] + w->t->slices.dur[w->stack[top]];
    event_open(w, EVENT_SLICE_END, uuid);
    event_close(w, end);
}

static bool push_slice(pf_writer *w, uint32_t row)
{
    const stk__slices *s = &w->t->slices;
    if (!stk__grow((void **)&w->stack, &w->stack_capacity, w->stack_count + 1, sizeof *w->stack) ||
        !stk__grow((void **)&w->stack_end, &w->end_capacity, w->stack_count + 1, sizeof *w->stack_end)) {
        w->nomem = true;
        return false;
    }
    int64_t end = s->ts[row] + s->dur[row];
    if (w->stack_count) /* a child may stick out of its parent by rounding, which begins and ends cannot say */
        end = STK_MAX(STK_MIN(end, w->stack_end[w->stack_count - 1]), s->ts[row]);
    if (w->endless == w->stack_count && s->flags[row] & STK__SLICE_UNFINISHED && end == w->t->end_ns)
        w->endless++;
    w->stack[w->stack_count] = row;
    w->stack_end[w->stack_count++] = end;
    return true;
}

/*
 * Readers sort by time, keep the order of the file for equal times, and an end closes what was begun last. So an end
 * comes before every later begin of its time, and those of children before that of their parent: this is the order in
 * which the tree is walked.
 */
static void write_slices(pf_writer *w, uint32_t track)
{
    const stk__trace_track *k = &w->t->tracks[track];
    const stk__slices *s = &w->t->slices;
    const uint64_t uuid = w->track_uuid[track];
    w->stack_count = w->endless = 0;
    for (size_t i = 0; i < k->slice_count && !w->nomem; i++) {
        const uint32_t row = k->first_slice + (uint32_t)i;
        while (w->stack_count && w->stack[w->stack_count - 1] != s->parent[row])
            write_end(w, uuid, s->ts[row]);
        write_begin(w, row, uuid);
        if (!(s->flags[row] & STK__SLICE_INSTANT) && !push_slice(w, row))
            return;
        if (++w->since_trim % TRIM_ROWS == 0) /* of all tracks: most are short */
            stk__trace_trim(w->t);
    }
    while (w->stack_count)
        write_end(w, uuid, INT64_MAX);
}

static void write_counters(pf_writer *w, uint32_t track)
{
    const stk__trace_track *k = &w->t->tracks[track];
    const stk__counters *c = &w->t->counters;
    for (size_t i = 0; i < k->counter_count; i++) {
        const size_t row = k->first_counter + i;
        event_open(w, EVENT_COUNTER, w->track_uuid[track]);
        put_double(&w->event, EVENT_DOUBLE_VALUE, c->value[row]);
        event_close(w, c->ts[row]);
        w->report->counters++;
    }
}

/* ---- flows ---- */

/*
 * An id of this format is a chain: each event that has it follows the one before. So a flow that parts, as from a launch
 * to its kernels, needs an id for each arrow but those that go on where another one ended.
 */
static void number_arrows(pf_writer *w)
{
    const stk__flows *f = &w->t->flows;
    for (size_t i = 0; i < f->count; i++) {
        w->flow_id[i] = goes_on(w->t, i) ? w->flow_id[i - 1] : (uint32_t)i;
        w->end_first[(size_t)f->in[i] + 2]++;
        w->end_first[(size_t)f->out[i] + 2] += !goes_on(w->t, i);
    }
}

/* The ends of arrows at each slice, as a list per slice. */
static bool index_arrows(pf_writer *w)
{
    const stk__flows *f = &w->t->flows;
    const size_t slices = w->t->slices.count;
    if (!f->count)
        return true;
    w->flow_id = stk__calloc(f->count, sizeof *w->flow_id);
    w->end_first = stk__calloc(slices + 2, sizeof *w->end_first);
    w->ends = stk__calloc(2 * f->count, sizeof *w->ends);
    if (!w->flow_id || !w->end_first || !w->ends)
        return false;
    number_arrows(w);
    for (size_t i = 2; i < slices + 2; i++)
        w->end_first[i] += w->end_first[i - 1];
    for (size_t i = 0; i < f->count; i++) {
        if (!goes_on(w->t, i))
            w->ends[w->end_first[(size_t)f->out[i] + 1]++] = 2 * i;
        w->ends[w->end_first[(size_t)f->in[i] + 1]++] = 2 * i + 1;
    }
    return true;
}

/* ---- samples ---- */

static void intern_frame(pf_writer *w, uint32_t row)
{
    const stk__trace_frame *f = &w->t->frames[row];
    if (w->frame_written[row])
        return;
    w->frame_written[row] = 1;
    intern(w, f->name, KIND_FUNCTION);
    if (f->file)
        intern(w, f->file, KIND_PATH);
    if (f->module)
        intern(w, f->module, KIND_MODULE);
    stk__text_reset(&w->inner);
    stk__wire_put_uint(&w->inner, INTERNED_IID, (uint64_t)row + 1);
    stk__wire_put_uint(&w->inner, FRAME_FUNCTION, f->name);
    if (f->module)
        stk__wire_put_uint(&w->inner, FRAME_MAPPING, f->module);
    if (f->file)
        stk__wire_put_uint(&w->inner, FRAME_SOURCE_PATH, f->file);
    if (f->line > 0)
        stk__wire_put_uint(&w->inner, FRAME_LINE, (uint64_t)f->line);
    put_message(&w->interned, INTERNED_FRAME, &w->inner);
}

/*
 * The stack from its outermost frame on; its id is that of the call site. The format repeats all frames for each
 * stack, so very deep ones lose their outermost frames.
 */
static void intern_stack(pf_writer *w, uint32_t callsite)
{
    const stk__trace *t = w->t;
    size_t count = 0;
    if (w->callsite_written[callsite])
        return;
    w->callsite_written[callsite] = 1;
    for (uint32_t at = callsite; at < t->callsite_count; at = t->callsites[at].parent) {
        if (count == STACK_MAX) {
            w->report->lost_args++;
            break;
        }
        if (!stk__grow((void **)&w->frames, &w->frame_capacity, count + 1, sizeof *w->frames)) {
            w->nomem = true;
            return;
        }
        if (t->callsites[at].frame < t->frame_count)
            w->frames[count++] = t->callsites[at].frame;
    }
    for (size_t i = 0; i < count; i++)
        intern_frame(w, w->frames[i]);
    stk__text_reset(&w->inner);
    stk__wire_put_uint(&w->inner, INTERNED_IID, (uint64_t)callsite + 1);
    while (count)
        stk__wire_put_uint(&w->inner, CALLSTACK_FRAME, (uint64_t)w->frames[--count] + 1);
    put_message(&w->interned, INTERNED_CALLSTACK, &w->inner);
}

/* What the samples that follow are counted by; their weight stands beside them as a counter that we name ourselves. */
static void write_sample_defaults(pf_writer *w, uint32_t unit, stk__string event)
{
    static const char *const units[] = {[STK__UNIT_NS] = STK__WEIGHT_FOLLOWER "ns",
                                        [STK__UNIT_SAMPLES] = STK__WEIGHT_FOLLOWER "samples",
                                        [STK__UNIT_BYTES] = STK__WEIGHT_FOLLOWER "bytes",
                                        [STK__UNIT_ALLOCATED] = STK__WEIGHT_FOLLOWER "bytes allocated",
                                        [STK__UNIT_NONE] = STK__WEIGHT_FOLLOWER "none"};
    stk__text_reset(&w->event);
    stk__text_reset(&w->part);
    put_string(w, &w->part, TIMEBASE_NAME, event);
    put_message(&w->event, PERF_DEFAULTS_TIMEBASE, &w->part);
    stk__text_reset(&w->part);
    put_str(&w->part, FOLLOWER_NAME, units[unit < STK_COUNT(units) ? unit : STK__UNIT_NONE]);
    put_message(&w->event, PERF_DEFAULTS_FOLLOWER, &w->part);
    stk__text_reset(&w->part);
    if (w->clock_id)
        stk__wire_put_uint(&w->part, DEFAULTS_CLOCK_ID, w->clock_id);
    put_message(&w->part, DEFAULTS_PERF_SAMPLE, &w->event);
    packet_open(w, SEQUENCE_NEEDS_STATE);
    put_message(&w->packet, PACKET_DEFAULTS, &w->part);
    packet_close(w);
}

static void write_sample(pf_writer *w, const stk__trace_track *k, size_t row)
{
    const stk__samples *s = &w->t->samples;
    const uint32_t process = k->thread < w->t->thread_count ? process_of(w, k->thread) : k->process;
    stk__text_reset(&w->event);
    if (process < w->t->process_count)
        stk__wire_put_uint(&w->event, SAMPLE_PID, (uint32_t)w->pid[process]);
    if (k->thread < w->t->thread_count)
        stk__wire_put_uint(&w->event, SAMPLE_TID, (uint32_t)tid_of(w, k->thread));
    if (s->callsite[row] < w->t->callsite_count) {
        intern_stack(w, s->callsite[row]);
        stk__wire_put_uint(&w->event, SAMPLE_CALLSTACK, (uint64_t)s->callsite[row] + 1);
    }
    stk__wire_put_uint(&w->event, SAMPLE_FOLLOWER_COUNT, (uint64_t)s->weight[row]);
    packet_open(w, SEQUENCE_NEEDS_STATE);
    if (s->ts[row] != STK__NO_TIME)
        stk__wire_put_uint(&w->packet, PACKET_TIMESTAMP, file_time(w, s->ts[row]));
    put_message(&w->packet, PACKET_PERF_SAMPLE, &w->event);
    packet_close(w);
    w->report->samples++;
}

static void write_samples(pf_writer *w, uint32_t track)
{
    const stk__trace_track *k = &w->t->tracks[track];
    const stk__samples *s = &w->t->samples;
    for (size_t i = 0; i < k->sample_count && !w->nomem; i++) {
        const size_t row = k->first_sample + i;
        if (i == 0 || s->event[row] != s->event[row - 1])
            write_sample_defaults(w, k->unit, s->event[row]);
        write_sample(w, k, row);
    }
}

/* ---- our recorder's totals ---- */

static void put_named_uint(pf_writer *w, const char *name, uint64_t x)
{
    stk__text_reset(&w->part);
    put_str(&w->part, ARG_NAME_TEXT, name);
    stk__wire_put_uint(&w->part, ARG_UINT, x);
    put_message(&w->event, EVENT_ARG, &w->part);
}

static void put_named_string(pf_writer *w, const char *name, stk__string s)
{
    stk__text_reset(&w->part);
    put_str(&w->part, ARG_NAME_TEXT, name);
    put_string(w, &w->part, ARG_STRING, s);
    put_message(&w->event, EVENT_ARG, &w->part);
}

static void totals_open(pf_writer *w, const char *name)
{
    event_open(w, EVENT_INSTANT, uuid_of(UUID_TOTALS, 0));
    put_str(&w->event, EVENT_CATEGORY_TEXT, STK__TOTALS_CATEGORY);
    put_str(&w->event, EVENT_NAME_TEXT, name);
}

static void write_totals(pf_writer *w)
{
    const stk__trace *t = w->t;
    uint64_t lost = 0, dropped = 0;
    for (size_t i = 0; i < t->note_count; i++) {
        lost += t->notes[i].reason == STK__REASON_LOST_BY_RECORDER ? t->notes[i].count : 0;
        dropped += t->notes[i].reason == STK__REASON_PAST_LIMIT ? t->notes[i].count : 0;
    }
    if (!t->total_count && !lost && !dropped)
        return;
    stk__text_reset(&w->event);
    stk__wire_put_uint(&w->event, TRACK_UUID, uuid_of(UUID_TOTALS, 0));
    put_str(&w->event, TRACK_NAME, STK__TOTALS_TRACK);
    write_descriptor(w);
    for (size_t i = 0; i < t->total_count; i++) {
        const stk__trace_total *total = &t->totals[i];
        totals_open(w, STK__TOTALS_TOTAL);
        put_named_string(w, "track", total->track);
        put_named_string(w, "name", total->name);
        put_named_uint(w, "count", total->count);
        put_named_uint(w, "total_ns", total->total_ns);
        put_named_uint(w, "lost", total->lost);
        event_close(w, t->end_ns);
    }
    totals_open(w, STK__TOTALS_SUMMARY);
    put_named_uint(w, "events_written", t->slices.count + t->counters.count);
    put_named_uint(w, "events_lost", lost);
    if (dropped)
        put_named_uint(w, "events_dropped", dropped);
    event_close(w, t->end_ns);
}

/* ---- all of it ---- */

static bool writer_init(pf_writer *w)
{
    const stk__trace *t = w->t;
    w->written = stk__calloc((size_t)t->string_count + 1, 1);
    w->frame_written = stk__calloc(t->frame_count + 1, 1);
    w->callsite_written = stk__calloc(t->callsite_count + 1, 1);
    w->pid = stk__calloc(t->process_count + 1, sizeof *w->pid);
    w->track_uuid = stk__calloc(t->track_count + 1, sizeof *w->track_uuid);
    w->base_ns = STK_MIN(t->start_ns, 0); /* Perfetto's times are not negative */
    return w->written && w->frame_written && w->callsite_written && w->pid && w->track_uuid && choose_pids(w) &&
           choose_plain_tracks(w) && index_arrows(w);
}

static void writer_clear(pf_writer *w)
{
    stk__text *texts[] = {&w->out, &w->packet, &w->event, &w->interned, &w->part, &w->inner};
    for (size_t i = 0; i < STK_COUNT(texts); i++)
        stk__text_clear(texts[i]);
    stk__free(w->written);
    stk__free(w->frame_written);
    stk__free(w->callsite_written);
    stk__free(w->pid);
    stk__free(w->track_uuid);
    stk__free(w->flow_id);
    stk__free(w->end_first);
    stk__free(w->ends);
    stk__free(w->stack);
    stk__free(w->stack_end);
    stk__free(w->frames);
}

static bool writer_failed(const pf_writer *w)
{
    return w->nomem || w->out.failed || w->packet.failed || w->event.failed || w->interned.failed || w->part.failed ||
           w->inner.failed;
}

static void write_all(pf_writer *w)
{
    const stk__trace *t = w->t;
    write_clocks(w);
    for (size_t i = 0; i < t->process_count; i++)
        write_process(w, (uint32_t)i);
    for (size_t i = 0; i < t->thread_count; i++)
        write_thread(w, (uint32_t)i);
    for (size_t i = 0; i < t->track_count; i++)
        write_track(w, (uint32_t)i);
    for (size_t i = 0; i < t->track_count && !writer_failed(w) && !stk__sink_failed(w->sink); i++) {
        write_slices(w, (uint32_t)i);
        write_counters(w, (uint32_t)i);
    }
    for (size_t i = 0; i < t->track_count && !writer_failed(w) && !stk__sink_failed(w->sink); i++)
        write_samples(w, (uint32_t)i);
    write_totals(w);
}

static stk_status perfetto_write(const stk__trace *t, stk__sink *sink, stk__write_report *report, stk_error *err)
{
    pf_writer w = {.t = t, .sink = sink, .report = report};
    if (writer_init(&w))
        write_all(&w);
    else
        w.nomem = true;
    const bool failed = writer_failed(&w);
    if (!failed)
        stk__sink_text(sink, &w.out);
    report->lost_functions += t->function_count;
    report->lost_facts += t->fact_count;
    report->shift_ns = -STK_MIN(t->start_ns, 0);
    writer_clear(&w);
    return failed ? stk__nomem(FLUSH_BYTES, err) : stk__trace_count_joined(t, report, err);
}

const stk__trace_writer stk__writer_perfetto = {
    .name = "perfetto",
    .summary = "Perfetto protobuf, for ui.perfetto.dev and trace_processor",
    .extensions = ".pftrace .perfetto-trace .perfetto",
    .write = perfetto_write,
};
