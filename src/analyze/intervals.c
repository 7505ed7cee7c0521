/* Sweeps over the slices of tracks, in order of time: gaps, unions, overlaps. */
#include "analyze/intervals.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { TRIM_ROWS = 1 << 20 };

/* ---- slices of a track and its lanes, by time ---- */

/* What is left of one lane. */
typedef struct lane_rest {
    int64_t ts; /* of its next slice */
    uint32_t next, end;
} lane_rest;

typedef struct sweep {
    const stk__trace *trace;
    stk__chosen chosen;
    bool all; /* nothing is selected by name, category or time */
    /* Lanes of each track, as lists: lane_first by track, lane_next by lane. */
    uint32_t *lane_first, *lane_next;
    lane_rest *heap; /* of the current track, the earliest first */
    size_t heap_count;
    size_t rows; /* since memory was given back */
} sweep;

static void sweep_clear(sweep *w)
{
    stk__chosen_clear(&w->chosen);
    stk__free(w->lane_first);
    stk__free(w->lane_next);
    stk__free(w->heap);
}

static stk_status sweep_init(sweep *w, const stk__trace *t, const stk__selection *select, stk_error *err)
{
    *w = (sweep){.trace = t};
    STK_TRY(stk__chosen_init(&w->chosen, t, select, err));
    w->all = !w->chosen.names && !w->chosen.categories && !w->chosen.timed;
    w->lane_first = stk__alloc((t->track_count + 1) * sizeof *w->lane_first);
    w->lane_next = stk__alloc((t->track_count + 1) * sizeof *w->lane_next);
    w->heap = stk__alloc((t->track_count + 1) * sizeof *w->heap);
    if (!w->lane_first || !w->lane_next || !w->heap) {
        sweep_clear(w);
        return stk__nomem((t->track_count + 1) * sizeof *w->heap, err);
    }
    memset(w->lane_first, 0xff, (t->track_count + 1) * sizeof *w->lane_first);
    for (size_t i = t->track_count; i-- > 0;) {
        const uint32_t root = stk__track_root(t, (uint32_t)i);
        w->lane_next[i] = STK__NONE;
        if (root != i) {
            w->lane_next[i] = w->lane_first[root];
            w->lane_first[root] = (uint32_t)i;
        }
    }
    return STK_OK;
}

static inline bool takes(sweep *w, uint32_t i)
{
    return !(w->trace->slices.flags[i] & STK__SLICE_INSTANT) && (w->all || stk__chosen_slice(&w->chosen, i));
}

static void count_rows(sweep *w, size_t rows)
{
    w->rows += rows;
    if (w->rows >= TRIM_ROWS) {
        stk__trace_trim(w->trace);
        w->rows = 0;
    }
}

/* Moves the first lane of the heap to its place. */
static void heap_sink(sweep *w)
{
    lane_rest *heap = w->heap;
    size_t at = 0;
    for (;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < w->heap_count; child++) {
            if (heap[child].ts < heap[least].ts ||
                (heap[child].ts == heap[least].ts && heap[child].next < heap[least].next))
                least = child;
        }
        if (least == at)
            return;
        const lane_rest moved = heap[at];
        heap[at] = heap[least];
        heap[least] = moved;
        at = least;
    }
}

static void heap_add(sweep *w, uint32_t track)
{
    const stk__trace_track *row = &w->trace->tracks[track];
    if (!row->slice_count || !stk__chosen_track(&w->chosen, track))
        return;
    lane_rest *heap = w->heap;
    size_t at = w->heap_count++;
    const lane_rest added = {w->trace->slices.ts[row->first_slice], row->first_slice,
                             row->first_slice + row->slice_count};
    for (; at && added.ts < heap[(at - 1) / 2].ts; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = added;
}

/* ---- gaps ---- */

typedef struct gap_search {
    sweep sweep;
    int64_t min_ns;
    size_t limit;
    stk__gaps found;
    size_t capacity;
    bool failed;
    /* On the current track: what has ended last. */
    uint32_t track, last;
    int64_t end;
} gap_search;

/* Whether a is listed before b: longer, or as long and earlier in the trace. */
static bool gap_before(const stk__gap *a, const stk__gap *b)
{
    if (a->dur != b->dur)
        return a->dur > b->dur;
    return a->track != b->track ? a->track < b->track : a->ts < b->ts;
}

/* The kept gaps are a heap with the one to give up first on top. */
static void keep_sink(stk__gap *rows, size_t count, size_t at)
{
    for (;;) {
        size_t worst = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++) {
            if (gap_before(&rows[worst], &rows[child]))
                worst = child;
        }
        if (worst == at)
            return;
        const stk__gap moved = rows[at];
        rows[at] = rows[worst];
        rows[worst] = moved;
        at = worst;
    }
}

static void keep_gap(gap_search *s, const stk__gap *gap)
{
    stk__gaps *f = &s->found;
    if (s->limit && f->count == s->limit) {
        if (gap_before(gap, &f->rows[0])) {
            f->rows[0] = *gap;
            keep_sink(f->rows, f->count, 0);
        }
        return;
    }
    if (!stk__grow((void **)&f->rows, &s->capacity, f->count + 1, sizeof *f->rows)) {
        s->failed = true;
        return;
    }
    f->rows[f->count++] = *gap;
    if (s->limit && f->count == s->limit) {
        for (size_t i = f->count / 2; i-- > 0;)
            keep_sink(f->rows, f->count, i);
    }
}

static STK_NOINLINE void meet_gap(gap_search *s, uint32_t after, int64_t ts)
{
    const uint64_t length = (uint64_t)ts - (uint64_t)s->end;
    const int64_t dur = length > INT64_MAX ? INT64_MAX : (int64_t)length;
    if (dur >= s->min_ns)
        keep_gap(s, &(stk__gap){.track = s->track, .ts = s->end, .dur = dur, .before = s->last, .after = after});
}

static inline void gap_slice(gap_search *s, uint32_t i)
{
    const stk__slices *slices = &s->sweep.trace->slices;
    const int64_t ts = slices->ts[i], end = ts + slices->dur[i];
    if (s->last == STK__NONE) {
        s->last = i;
        s->end = end;
        return;
    }
    if (ts > s->end)
        meet_gap(s, i, ts);
    if (end >= s->end) {
        s->last = i;
        s->end = end;
    }
}

/* Most tracks have one lane. In pieces, so that memory can be given back. */
static void gaps_of_lane(gap_search *s, uint32_t at, uint32_t end)
{
    while (at < end && !s->failed) {
        const uint32_t stop = at + STK_MIN((uint32_t)TRIM_ROWS, end - at);
        count_rows(&s->sweep, stop - at);
        for (; at < stop && !s->failed; at++) {
            if (takes(&s->sweep, at))
                gap_slice(s, at);
        }
    }
}

static void gaps_of_track(gap_search *s, uint32_t track)
{
    sweep *w = &s->sweep;
    s->track = track;
    s->last = STK__NONE;
    w->heap_count = 0;
    heap_add(w, track);
    for (uint32_t lane = w->lane_first[track]; lane != STK__NONE; lane = w->lane_next[lane])
        heap_add(w, lane);
    if (w->heap_count == 1) {
        gaps_of_lane(s, w->heap[0].next, w->heap[0].end);
        return;
    }
    while (w->heap_count && !s->failed) {
        const uint32_t i = w->heap[0].next++;
        if (takes(w, i))
            gap_slice(s, i);
        if (w->heap[0].next < w->heap[0].end)
            w->heap[0].ts = w->trace->slices.ts[w->heap[0].next];
        else
            w->heap[0] = w->heap[--w->heap_count];
        heap_sink(w);
        count_rows(w, 1);
    }
}

static int compare_gaps(const void *a, const void *b)
{
    return gap_before(a, b) ? -1 : gap_before(b, a) ? 1 : 0;
}

stk_status stk__gaps_find(const stk__trace *t, const stk__selection *select, int64_t min_ns, size_t limit,
                          stk__gaps *out, stk_error *err)
{
    gap_search s = {.min_ns = min_ns, .limit = limit};
    STK_TRY(sweep_init(&s.sweep, t, select, err));
    for (uint32_t i = 0; i < t->track_count && !s.failed; i++) {
        if (stk__track_root(t, i) == i)
            gaps_of_track(&s, i);
    }
    sweep_clear(&s.sweep);
    if (s.failed) {
        stk__free(s.found.rows);
        return stk__nomem((s.found.count + 1) * sizeof *s.found.rows, err);
    }
    if (limit && s.found.count)
        qsort(s.found.rows, s.found.count, sizeof *s.found.rows, compare_gaps);
    *out = s.found;
    return STK_OK;
}

void stk__gaps_clear(stk__gaps *gaps)
{
    stk__free(gaps->rows);
    *gaps = (stk__gaps){0};
}

/* ---- unions ---- */

/* The slices of one lane, which are sorted, joined on the way. */
static bool union_of_lane(sweep *w, const stk__trace_track *track, stk__spans *out)
{
    const stk__slices *s = &w->trace->slices;
    stk__span span = {0, 0};
    bool open = false;
    const size_t end = (size_t)track->first_slice + track->slice_count;
    for (size_t i = track->first_slice; i < end; i++) {
        if ((i & (TRIM_ROWS - 1)) == 0)
            stk__trace_trim(w->trace);
        if (!takes(w, (uint32_t)i))
            continue;
        const int64_t from = s->ts[i], to = from + s->dur[i];
        if (open && from <= span.end) {
            span.end = STK_MAX(span.end, to);
            continue;
        }
        if (open && !stk__spans_add(out, span.start, span.end))
            return false;
        open = true;
        span = (stk__span){from, to};
    }
    return !open || stk__spans_add(out, span.start, span.end);
}

stk_status stk__spans_union(const stk__trace *t, const stk__selection *select, stk__spans *out, stk_error *err)
{
    sweep w;
    STK_TRY(sweep_init(&w, t, select, err));
    stk__spans spans = {0};
    bool good = true;
    for (uint32_t i = 0; i < t->track_count && good; i++) {
        if (stk__chosen_track(&w.chosen, i))
            good = union_of_lane(&w, &t->tracks[i], &spans);
    }
    sweep_clear(&w);
    if (!good) {
        stk__spans_clear(&spans);
        return stk__nomem((spans.count + 1) * sizeof *spans.rows, err);
    }
    stk__spans_normalize(&spans);
    *out = spans;
    return STK_OK;
}

stk_status stk__overlap_of(const stk__trace *t, const stk__selection *a, const stk__selection *b, stk__overlap *out,
                           stk_error *err)
{
    stk__spans a_spans = {0}, b_spans = {0};
    stk_status status = stk__spans_union(t, a, &a_spans, err);
    if (status == STK_OK)
        status = stk__spans_union(t, b, &b_spans, err);
    if (status == STK_OK)
        *out = (stk__overlap){stk__spans_total(&a_spans), stk__spans_total(&b_spans),
                              stk__spans_overlap(&a_spans, &b_spans)};
    stk__spans_clear(&a_spans);
    stk__spans_clear(&b_spans);
    return status;
}
