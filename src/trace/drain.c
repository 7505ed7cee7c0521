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
};

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
    char name[STK__NAME_SIZE + 32];
    stk__text text;
    stk__text_fixed(&text, name, sizeof name);
    stk__text_puts(&text, track->name);
    if (lane)
        stk__text_printf(&text, " (overlap %d)", lane);
    *row = (stk__row){.id = ++r->rows_count, .parent = parent, .tid = track->tid, .name = name};
    r->writer.format->row(&r->writer, row);
    row->name = track->name;
}

typedef struct lane_sink {
    stk_recorder *recorder;
    stk__track *track;
    int lane;
} lane_sink;

static void lane_begin(void *context, const stk__event *slice, int64_t start_ns)
{
    lane_sink *s = context;
    row_open(s->recorder, s->track, s->lane);
    s->recorder->writer.format->begin(&s->recorder->writer, &s->track->rows[s->lane], slice, start_ns);
    s->recorder->events_written++;
}

static void lane_end(void *context, int64_t end_ns)
{
    lane_sink *s = context;
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
        lane_sink context = {r, track, lane};
        const stk__nest_sink sink = {lane_begin, lane_end, &context};
        count = stk__nest_place(&track->nests[lane], r->batch, count, &sink);
    }
    for (size_t i = 0; i < count; i++)
        r->unplaced[r->batch[i]->name]++;
    r->events_unwritten += count;
}

static void drain_track(stk_recorder *r, stk__track *track, bool final)
{
    uint64_t tail, head;
    stk__ring_peek(&track->ring, &tail, &head);
    const uint64_t until = final ? head : hold_from(track, tail, head);
    size_t count = 0;
    for (uint64_t p = tail; p < until; p++) {
        stk__event *event = &track->ring.events[p & track->ring.mask]; /* the consumer's until it is released */
        if (!name_exists(r, event->name))
            event->name = r->name_other;
        for (int i = 0; i < 2; i++)
            if (event->arg[i] && !name_exists(r, event->arg[i]))
                event->arg[i] = r->name_other;
        if (event->kind == STK__EVENT_COUNTER) {
            r->writer.format->counter(&r->writer, event);
            r->events_written++;
        } else {
            stk__nest_insert(r->batch, count++, event);
        }
    }
    write_batch(r, track, count);
    stk__ring_release(&track->ring, until);
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
    if (failed || r->output.error.status != STK_OK) { /* they went nowhere */
        r->events_unwritten += r->events_written - before;
        r->events_written = before;
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
