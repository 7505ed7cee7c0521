/* The thread that drains the rings into the file. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <time.h>

#include "trace/recorder_impl.h"

#include "base/banned.h"

enum {
    DRAIN_NS = 50 * 1000 * 1000,
    HOLD_EVENTS = 64,   /* newest events of a track that wait one drain for a slice around them */
    HOLD_FURTHER = 128, /* and how many more when a waiting slice contains them */
    EVENT_BYTES = 256,  /* what a slice takes in the file, on the safe side */
};

static void declare_row(stk_recorder *r, const stk__track *track, int lane)
{
    stk__row row = track->rows[lane];
    char name[STK__NAME_SIZE + 32];
    stk__text text;
    stk__text_fixed(&text, name, sizeof name);
    stk__text_puts(&text, track->name);
    if (lane)
        stk__text_printf(&text, " (overlap %d)", lane);
    row.name = name;
    r->writer.format->row(&r->writer, &row);
}

/* Declares the row of a lane. Two tracks of one thread: the second belongs to the first. */
static void row_open(stk_recorder *r, stk__track *track, int lane)
{
    stk__row *row = &track->rows[lane];
    if (row->id)
        return;
    uint32_t parent = 0;
    if (lane > 0) {
        row_open(r, track, 0);
        parent = track->rows[0].parent ? track->rows[0].parent : track->rows[0].id;
    } else if (track->home) {
        row_open(r, track->home, 0);
        parent = track->home->rows[0].parent ? track->home->rows[0].parent : track->home->rows[0].id;
    }
    const size_t tracks = atomic_load_explicit(&r->tracks_count, memory_order_acquire);
    for (size_t i = 0; i < tracks && !parent; i++) {
        const stk__row *other = &r->tracks[i]->rows[0];
        if (other->id && !other->parent && other->tid == track->tid)
            parent = other->id;
    }
    *row = (stk__row){.id = ++r->rows_count, .parent = parent, .tid = track->tid, .name = track->name};
    declare_row(r, track, lane);
}

/* ---- the size of the file ---- */

/* Threads' own rows first: those beside them name them as their parents. */
static void declare_rows_again(stk_recorder *r)
{
    const size_t tracks = atomic_load_explicit(&r->tracks_count, memory_order_acquire);
    for (int beside = 0; beside < 2; beside++)
        for (size_t i = 0; i < tracks; i++)
            for (int lane = 0; lane < STK__LANES; lane++) {
                const stk__row *row = &r->tracks[i]->rows[lane];
                if (row->id && (row->parent != 0) == beside)
                    declare_row(r, r->tracks[i], lane);
            }
}

/* Ends the segment; the oldest one goes when there are enough. */
static void begin_segment(stk_recorder *r)
{
    stk__output *o = &r->output;
    stk__output_end_segment(o);
    r->segment_events[o->segment_count - 1] = r->events_written - r->segment_first;
    r->segment_first = r->events_written;
    if (o->segment_count == STK__SEGMENTS) {
        stk__output_drop_oldest(o);
        if (o->error.status != STK_OK)
            return;
        r->events_rolled += r->segment_events[0];
        memmove(r->segment_events, r->segment_events + 1, o->segment_count * sizeof *r->segment_events);
    }
    memset(r->writer.written, 0, r->names_max);
    r->writer.further_segment = true;
    r->writer.format->start(&r->writer);
    declare_rows_again(r);
}

/*
 * What may be written between two looks at the size, in events. Segments of last_bytes are ended when another such piece
 * might not fit, so that all of them together stay within it.
 */
static uint64_t piece_events(const stk_recorder *r)
{
    return r->last_bytes ? r->last_bytes / STK__SEGMENTS / 8 / EVENT_BYTES : UINT64_MAX;
}

/* Between pieces; is_full() looks inside of them, too. */
static void keep_size(stk_recorder *r)
{
    const stk__output *o = &r->output;
    const uint64_t most = r->last_bytes / STK__SEGMENTS;
    if (r->last_bytes && o->error.status == STK_OK && o->current.bytes + o->used >= most - most / 8)
        begin_segment(r);
}

/* Once it is, nothing but the ends of open slices and the totals is written. */
static bool is_full(stk_recorder *r)
{
    if (!r->full && !r->last_bytes)
        r->full = r->output.bytes_written + r->output.used >= r->limit_bytes;
    return r->full;
}

/* ---- batches ---- */

typedef struct lane_sink {
    stk_recorder *recorder;
    stk__track *track;
    int lane;
    uint32_t left_out; /* open slices whose begin was not written; the innermost ones */
} lane_sink;

static void lane_begin(void *context, const stk__event *slice, int64_t start_ns)
{
    lane_sink *s = context;
    if (is_full(s->recorder)) {
        s->left_out++;
        s->recorder->events_past_limit++;
        return;
    }
    row_open(s->recorder, s->track, s->lane);
    s->recorder->writer.format->begin(&s->recorder->writer, &s->track->rows[s->lane], slice, start_ns);
    s->recorder->events_written++;
}

static void lane_end(void *context, int64_t end_ns)
{
    lane_sink *s = context;
    if (s->left_out) {
        s->left_out--;
        return;
    }
    s->recorder->writer.format->end(&s->recorder->writer, &s->track->rows[s->lane], end_ns);
}

/*
 * First position that is kept for the next drain. A slice is recorded when it ends, after those inside it; holding the
 * newest back lets most of them meet the slice around them in one batch, where ties can be put in order.
 */
static uint64_t hold_from(const stk__track *track, uint64_t tail, uint64_t head)
{
    uint64_t from = STK_MAX(tail, track->seen);
    if (head - from > HOLD_EVENTS)
        from = head - HOLD_EVENTS;
    int64_t first_start = INT64_MAX;
    for (uint64_t p = from; p < head; p++)
        first_start = STK_MIN(first_start, stk__ring_at(&track->ring, p)->start_ns);
    uint64_t further = from;
    while (further > tail && stk__ring_at(&track->ring, further - 1)->end_ns > first_start) {
        first_start = STK_MIN(first_start, stk__ring_at(&track->ring, further - 1)->start_ns);
        if (from - --further > HOLD_FURTHER)
            return from; /* a long slice over many: waiting for it would fill the ring */
    }
    return further;
}

/* Numbers that no call to stk__recorder_name has given out must not reach the formats. */
static bool name_exists(const stk_recorder *r, int32_t name)
{
    return name > 0 && (size_t)name < r->names_max && r->names[name].text;
}

static void write_batch(stk_recorder *r, stk__track *track, size_t count)
{
    for (int lane = 0; lane < STK__LANES && count; lane++) {
        lane_sink context = {r, track, lane, 0};
        const stk__nest_sink sink = {lane_begin, lane_end, &context};
        count = stk__nest_place(&track->nests[lane], r->batch, count, &sink);
    }
    for (size_t i = 0; i < count; i++)
        r->unplaced[r->batch[i]->name]++;
    r->events_unwritten += count;
}

static void write_counter(stk_recorder *r, const stk__event *event)
{
    if (is_full(r)) {
        r->events_past_limit++;
        return;
    }
    r->writer.format->counter(&r->writer, event);
    r->events_written++;
}

/* Takes events out of the ring up to this position. */
static void drain_until(stk_recorder *r, stk__track *track, uint64_t tail, uint64_t until)
{
    size_t count = 0;
    for (uint64_t p = tail; p < until; p++) {
        stk__event *event = &track->ring.events[p & track->ring.mask]; /* the consumer's until it is released */
        if (!name_exists(r, event->name))
            event->name = r->name_other;
        for (int i = 0; i < 2; i++)
            if (event->arg[i] && !name_exists(r, event->arg[i]))
                event->arg[i] = r->name_other;
        if (event->kind == STK__EVENT_COUNTER) {
            write_counter(r, event);
        } else {
            stk__nest_insert(r->batch, count++, event);
        }
    }
    write_batch(r, track, count);
    stk__ring_release(&track->ring, until);
}

static void drain_track(stk_recorder *r, stk__track *track, bool final)
{
    uint64_t tail, head;
    stk__ring_peek(&track->ring, &tail, &head);
    const uint64_t until = final ? head : hold_from(track, tail, head);
    while (tail < until) {
        const uint64_t piece = STK_MIN(until - tail, piece_events(r));
        keep_size(r);
        drain_until(r, track, tail, tail + piece);
        tail += piece;
    }
    track->seen = head;
}

void stk__recorder_drain(stk_recorder *r, bool final)
{
    const uint64_t before = r->events_written;
    const bool failed = r->output.error.status != STK_OK;
    const size_t tracks = atomic_load_explicit(&r->tracks_count, memory_order_acquire);
    for (size_t i = 0; i < tracks; i++)
        drain_track(r, r->tracks[i], final);
    stk__output_flush(&r->output);
    if (failed || r->output.error.status != STK_OK) { /* they went nowhere, but for those that have come and gone */
        const uint64_t kept = STK_MAX(before, r->events_rolled);
        r->events_unwritten += r->events_written - kept;
        r->events_written = kept;
    }
}

void *stk__recorder_main(void *argument)
{
    stk_recorder *r = argument;
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += DRAIN_NS;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        while (sem_clockwait(&r->wake, CLOCK_MONOTONIC, &until) && errno == EINTR)
            ;
        atomic_store(&r->wake_sent, false);
        if (atomic_load(&r->end_writer))
            return NULL;
        stk__recorder_drain(r, false);
    }
}
