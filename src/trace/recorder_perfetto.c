/* Perfetto's protobuf trace: a stream of TracePackets, each whole by itself. */
#include <string.h>
#include <time.h>

#include "base/wire.h"
#include "trace/perfetto.h"
#include "trace/recorder_format.h"

#include "base/banned.h"

/* Bits of stk__writer.written: 1 << INTERNED_x for what was interned, and the counter's track. */
enum { WRITTEN_COUNTER_TRACK = 1 << 4 };

/* Rows are numbered from 1, so 0 is the process; the totals' row and counters come after all rows. */
enum { UUID_BITS = 14, UUID_PROCESS = 0, UUID_TOTALS = 4095, UUID_COUNTERS = 4096 };

static uint64_t uuid_of(const stk__writer *w, uint32_t number)
{
    return ((uint64_t)(w->salt & 0x1fffff) + 1) << UUID_BITS | number;
}

static uint32_t sequence_of(const stk__writer *w)
{
    return (w->salt & 0xfffff) + 1;
}

/* Writes the packet whose fields are in `body`. */
static void packet_write(stk__writer *w, const stk__text *body)
{
    char head_bytes[16];
    stk__text head;
    stk__text_fixed(&head, head_bytes, sizeof head_bytes);
    stk__wire_put_tag(&head, TRACE_PACKET, STK__WIRE_BYTES);
    stk__wire_put_varint(&head, body->length);
    stk__output_write(w->output, head.data, head.length);
    stk__output_write(w->output, body->data, body->length);
}

/* Puts a message field made of `fields`. */
static void put_message(stk__text *t, uint32_t field, const stk__text *fields)
{
    stk__wire_put_bytes(t, field, fields->data, fields->length);
}

static void put_string(stk__text *t, uint32_t field, const char *s)
{
    stk__wire_put_bytes(t, field, s, strlen(s));
}

/* All cold packets fit: the longest holds three names and a few numbers. */
enum { BODY_BYTES = 4 * STK__NAME_SIZE };

typedef struct body {
    stk__text text;
    char bytes[BODY_BYTES];
} body;

static stk__text *body_init(body *b)
{
    stk__text_fixed(&b->text, b->bytes, sizeof b->bytes);
    return &b->text;
}

static void intern(stk__writer *w, int32_t name, uint32_t kind)
{
    if (!name || w->written[name] & 1u << kind)
        return;
    w->written[name] |= (uint8_t)(1u << kind);
    body entry, data, packet;
    body_init(&entry);
    stk__wire_put_uint(&entry.text, INTERNED_IID, (uint64_t)name);
    put_string(&entry.text, INTERNED_TEXT, w->names[name].text);
    put_message(body_init(&data), kind, &entry.text);
    body_init(&packet);
    stk__wire_put_uint(&packet.text, PACKET_SEQUENCE_ID, sequence_of(w));
    stk__wire_put_uint(&packet.text, PACKET_SEQUENCE_FLAGS, SEQUENCE_NEEDS_STATE);
    put_message(&packet.text, PACKET_INTERNED_DATA, &data.text);
    packet_write(w, &packet.text);
}

static void put_clock(stk__text *snapshot, uint32_t id, clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t))
        return;
    body fields;
    body_init(&fields);
    stk__wire_put_uint(&fields.text, CLOCK_ID, id);
    stk__wire_put_uint(&fields.text, CLOCK_TIMESTAMP, (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec);
    put_message(snapshot, SNAPSHOT_CLOCK, &fields.text);
}

/* The first packet of a segment clears the sequence's state and sets its clock to CLOCK_MONOTONIC; the second relates clocks. */
static void write_clocks(stk__writer *w)
{
    body defaults, packet, snapshot;
    stk__wire_put_uint(body_init(&defaults), DEFAULTS_CLOCK_ID, CLOCK_MONOTONIC_ID);
    body_init(&packet);
    stk__wire_put_uint(&packet.text, PACKET_SEQUENCE_ID, sequence_of(w));
    stk__wire_put_uint(&packet.text, PACKET_SEQUENCE_FLAGS, SEQUENCE_STATE_CLEARED);
    if (!w->further_segment)
        stk__wire_put_uint(&packet.text, PACKET_FIRST_ON_SEQUENCE, 1);
    put_message(&packet.text, PACKET_DEFAULTS, &defaults.text);
    packet_write(w, &packet.text);

    body_init(&snapshot);
    put_clock(&snapshot.text, CLOCK_MONOTONIC_ID, CLOCK_MONOTONIC);
#ifdef CLOCK_BOOTTIME
    put_clock(&snapshot.text, CLOCK_BOOTTIME_ID, CLOCK_BOOTTIME);
#endif
    put_clock(&snapshot.text, CLOCK_REALTIME_ID, CLOCK_REALTIME);
    stk__wire_put_uint(&snapshot.text, SNAPSHOT_PRIMARY, CLOCK_MONOTONIC_ID);
    body_init(&packet);
    stk__wire_put_uint(&packet.text, PACKET_SEQUENCE_ID, sequence_of(w));
    put_message(&packet.text, PACKET_CLOCK_SNAPSHOT, &snapshot.text);
    packet_write(w, &packet.text);
}

static void write_descriptor(stk__writer *w, const stk__text *fields)
{
    body packet;
    body_init(&packet);
    stk__wire_put_uint(&packet.text, PACKET_SEQUENCE_ID, sequence_of(w));
    put_message(&packet.text, PACKET_TRACK_DESCRIPTOR, fields);
    packet_write(w, &packet.text);
}

/* A track that is neither a process nor a thread. */
static void write_named_track(stk__writer *w, uint32_t number, uint32_t parent, const char *name, bool counter)
{
    body track;
    body_init(&track);
    stk__wire_put_uint(&track.text, TRACK_UUID, uuid_of(w, number));
    stk__wire_put_uint(&track.text, TRACK_PARENT, uuid_of(w, parent));
    put_string(&track.text, TRACK_NAME, name);
    if (counter)
        stk__wire_put_bytes(&track.text, TRACK_COUNTER, "", 0);
    write_descriptor(w, &track.text);
}

static void perfetto_start(stk__writer *w)
{
    write_clocks(w);
    body track, process;
    body_init(&process);
    stk__wire_put_uint(&process.text, PROCESS_PID, (uint64_t)w->pid);
    put_string(&process.text, PROCESS_NAME, w->process);
    body_init(&track);
    stk__wire_put_uint(&track.text, TRACK_UUID, uuid_of(w, UUID_PROCESS));
    put_message(&track.text, TRACK_PROCESS, &process.text);
    write_descriptor(w, &track.text);
    write_named_track(w, UUID_TOTALS, UUID_PROCESS, STK__TOTALS_TRACK, false);
}

static void perfetto_row(stk__writer *w, const stk__row *row)
{
    if (row->parent) {
        write_named_track(w, row->id, row->parent, row->name, false);
        return;
    }
    body track, thread;
    body_init(&thread);
    stk__wire_put_uint(&thread.text, THREAD_PID, (uint64_t)w->pid);
    stk__wire_put_uint(&thread.text, THREAD_TID, (uint64_t)row->tid);
    put_string(&thread.text, THREAD_NAME, row->name);
    body_init(&track);
    stk__wire_put_uint(&track.text, TRACK_UUID, uuid_of(w, row->id));
    stk__wire_put_uint(&track.text, TRACK_PARENT, uuid_of(w, UUID_PROCESS));
    put_message(&track.text, TRACK_THREAD, &thread.text);
    write_descriptor(w, &track.text);
}

/*
 * Events are the hot part of the writer, so they are put together in a plain array instead of a stk__text. The longest
 * (two args) has about 90 bytes; as it stays under 128, every length is one byte and can be filled in afterwards.
 */
typedef struct event_packet {
    uint8_t bytes[128];
    uint8_t *p;
    uint8_t *packet_size, *event_size;
} event_packet;

static uint8_t *put_field(uint8_t *p, uint32_t field, uint64_t x)
{
    *p++ = (uint8_t)(field << 3 | STK__WIRE_VARINT); /* all fields used here are below 16 */
    for (; x >= 0x80; x >>= 7)
        *p++ = (uint8_t)(x | 0x80);
    *p++ = (uint8_t)x;
    return p;
}

static uint8_t *put_open(uint8_t *p, uint32_t field, uint8_t **out_size)
{
    *p++ = (uint8_t)(field << 3 | STK__WIRE_BYTES);
    *out_size = p;
    return p + 1;
}

static void put_close(uint8_t *p, uint8_t *size)
{
    *size = (uint8_t)(p - size - 1);
}

static void event_open(const stk__writer *w, event_packet *e, uint32_t type, uint32_t number, int64_t at_ns)
{
    e->p = put_open(e->bytes, TRACE_PACKET, &e->packet_size);
    e->p = put_field(e->p, PACKET_TIMESTAMP, (uint64_t)at_ns);
    e->p = put_field(e->p, PACKET_SEQUENCE_ID, sequence_of(w));
    e->p = put_field(e->p, PACKET_SEQUENCE_FLAGS, SEQUENCE_NEEDS_STATE);
    e->p = put_open(e->p, PACKET_TRACK_EVENT, &e->event_size);
    e->p = put_field(e->p, EVENT_TYPE, type);
    e->p = put_field(e->p, EVENT_TRACK_UUID, uuid_of(w, number));
}

static void event_close(stk__writer *w, event_packet *e)
{
    put_close(e->p, e->event_size);
    put_close(e->p, e->packet_size);
    stk__output_write(w->output, e->bytes, (size_t)(e->p - e->bytes));
}

static void perfetto_begin(stk__writer *w, const stk__row *row, const stk__event *slice, int64_t start_ns)
{
    const int32_t category = w->names[slice->name].category;
    intern(w, slice->name, INTERNED_EVENT_NAME);
    intern(w, category, INTERNED_CATEGORY);
    event_packet e;
    for (int i = 0; i < 2; i++)
        intern(w, slice->arg[i], INTERNED_ARG_NAME);
    event_open(w, &e, EVENT_SLICE_BEGIN, row->id, start_ns);
    e.p = put_field(e.p, EVENT_NAME_IID, (uint64_t)slice->name);
    if (category)
        e.p = put_field(e.p, EVENT_CATEGORY_IID, (uint64_t)category);
    for (int i = 0; i < 2; i++) {
        uint8_t *size;
        if (!slice->arg[i])
            continue;
        e.p = put_open(e.p, EVENT_ARG, &size);
        e.p = put_field(e.p, ARG_NAME_IID, (uint64_t)slice->arg[i]);
        e.p = put_field(e.p, ARG_INT, (uint64_t)slice->value[i]);
        put_close(e.p, size);
    }
    event_close(w, &e);
}

static void perfetto_end(stk__writer *w, const stk__row *row, int64_t end_ns)
{
    event_packet e;
    event_open(w, &e, EVENT_SLICE_END, row->id, end_ns);
    event_close(w, &e);
}

static void perfetto_counter(stk__writer *w, const stk__event *event)
{
    const uint32_t number = UUID_COUNTERS + (uint32_t)event->name;
    if (!(w->written[event->name] & WRITTEN_COUNTER_TRACK)) {
        w->written[event->name] |= WRITTEN_COUNTER_TRACK;
        write_named_track(w, number, UUID_PROCESS, w->names[event->name].text, true);
    }
    event_packet e;
    event_open(w, &e, EVENT_COUNTER, number, event->start_ns);
    const uint32_t tag = EVENT_DOUBLE_VALUE << 3 | STK__WIRE_FIXED64;
    *e.p++ = (uint8_t)(tag | 0x80);
    *e.p++ = (uint8_t)(tag >> 7);
    for (int i = 0; i < 8; i++)
        *e.p++ = (uint8_t)((uint64_t)event->value[0] >> 8 * i);
    event_close(w, &e);
}

static void put_arg_uint(stk__text *event, const char *name, uint64_t x)
{
    body arg;
    body_init(&arg);
    put_string(&arg.text, ARG_NAME_TEXT, name);
    stk__wire_put_uint(&arg.text, ARG_UINT, x);
    put_message(event, EVENT_ARG, &arg.text);
}

static void put_arg_string(stk__text *event, const char *name, const char *s)
{
    body arg;
    body_init(&arg);
    put_string(&arg.text, ARG_NAME_TEXT, name);
    put_string(&arg.text, ARG_STRING, s);
    put_message(event, EVENT_ARG, &arg.text);
}

/* An instant on the totals' row; the caller has put its args into `event`. */
static void write_instant(stk__writer *w, stk__text *event, const char *name, int64_t at_ns)
{
    body packet;
    stk__wire_put_uint(event, EVENT_TYPE, EVENT_INSTANT);
    stk__wire_put_uint(event, EVENT_TRACK_UUID, uuid_of(w, UUID_TOTALS));
    put_string(event, EVENT_CATEGORY_TEXT, STK__TOTALS_CATEGORY);
    put_string(event, EVENT_NAME_TEXT, name);
    body_init(&packet);
    stk__wire_put_uint(&packet.text, PACKET_TIMESTAMP, (uint64_t)at_ns);
    stk__wire_put_uint(&packet.text, PACKET_SEQUENCE_ID, sequence_of(w));
    stk__wire_put_uint(&packet.text, PACKET_SEQUENCE_FLAGS, SEQUENCE_NEEDS_STATE);
    put_message(&packet.text, PACKET_TRACK_EVENT, event);
    packet_write(w, &packet.text);
}

static void perfetto_total(stk__writer *w, const stk__total *total, int64_t at_ns)
{
    body event;
    body_init(&event);
    put_arg_string(&event.text, "track", total->row);
    put_arg_string(&event.text, "name", w->names[total->name].text);
    put_arg_uint(&event.text, "count", total->count);
    put_arg_uint(&event.text, "total_ns", total->total_ns);
    put_arg_uint(&event.text, "lost", total->lost);
    write_instant(w, &event.text, STK__TOTALS_TOTAL, at_ns);
}

static void perfetto_finish(stk__writer *w, const stk_recorder_stats *stats, int64_t at_ns)
{
    body event;
    body_init(&event);
    put_arg_uint(&event.text, "events_written", stats->events_written);
    put_arg_uint(&event.text, "events_lost", stats->events_lost);
    if (stats->events_dropped)
        put_arg_uint(&event.text, "events_dropped", stats->events_dropped);
    write_instant(w, &event.text, STK__TOTALS_SUMMARY, at_ns);
}

const stk__format stk__format_perfetto = {
    .start = perfetto_start,
    .row = perfetto_row,
    .begin = perfetto_begin,
    .end = perfetto_end,
    .counter = perfetto_counter,
    .total = perfetto_total,
    .finish = perfetto_finish,
};
