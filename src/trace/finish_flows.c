/* Counters and samples in order, flow points bound to slices, and arrows between these. */
#include <string.h>

#include "base/mem.h"
#include "trace/builder_impl.h"

#include "base/banned.h"

/* Lanes of one track that are searched for the slice of a flow. */
enum { LANES_SEARCHED = 64 };

static void fail_nomem(stk__builder *b, size_t size)
{
    stk_error err;
    stk_error_clear(&err);
    stk__nomem(size, &err);
    stk__builder_fail(b, &err);
}

/* Sorts a group of columns by track and ts. `columns` are its first column and how many there are. */
static void sort_group(stk__builder *b, const uint32_t *track, const int64_t *ts, size_t count, int first_column,
                       int columns, uint32_t *first)
{
    uint32_t *rows = stk__alloc((count + 1) * 2 * sizeof *rows);
    if (!rows) {
        fail_nomem(b, count * 2 * sizeof *rows);
        return;
    }
    stk__rows_group(track, count, b->trace->track_count, rows, first);
    for (size_t k = 0; k < b->trace->track_count; k++)
        stk__rows_sort(rows + first[k], first[k + 1] - first[k], (stk__row_keys){.ts = ts}, rows + count + 1);
    bool in_order = true;
    for (size_t i = 0; i < count && in_order; i++)
        in_order = rows[i] == i;
    for (int i = 0; i < columns && !in_order && !b->status; i++)
        stk__rows_apply(b, first_column + i, rows, count);
    stk__free(rows);
}

void stk__finish_points(stk__builder *b)
{
    stk__trace *t = b->trace;
    uint32_t *first = stk__calloc(t->track_count + 1, sizeof *first);
    if (!first)
        fail_nomem(b, (t->track_count + 1) * sizeof *first);
    if (!b->status && t->counters.count) {
        sort_group(b, t->counters.track, t->counters.ts, t->counters.count, STK__COLUMN_counters_ts, 3, first);
        for (size_t k = 0; k < t->track_count; k++) {
            t->tracks[k].first_counter = first[k];
            t->tracks[k].counter_count = first[k + 1] - first[k];
        }
    }
    if (!b->status && t->samples.count) {
        sort_group(b, t->samples.track, t->samples.ts, t->samples.count, STK__COLUMN_samples_ts, 5, first);
        for (size_t k = 0; k < t->track_count; k++) {
            t->tracks[k].first_sample = first[k];
            t->tracks[k].sample_count = first[k + 1] - first[k];
        }
    }
    stk__free(first);
}

/* ---- flows ---- */

/* Number of the track's slices that start at or before ts. */
static uint32_t starts_until(const stk__slices *s, const stk__trace_track *k, int64_t ts)
{
    uint32_t low = 0, high = k->slice_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (s->ts[k->first_slice + middle] <= ts)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* What binding needs: the first lane of each track, and for each slice the nearest one around it that may still run. */
typedef struct binder {
    const stk__trace *t;
    uint32_t *first_lane, *outer;
    uint32_t *started; /* per track: slices that start at or before the last point; points come by time */
} binder;

static uint32_t started_until(const binder *m, uint32_t track, int64_t ts)
{
    const stk__trace_track *k = &m->t->tracks[track];
    uint32_t *n = &m->started[track];
    while (*n < k->slice_count && m->t->slices.ts[k->first_slice + *n] <= ts)
        ++*n;
    return *n;
}

static bool is_over(const stk__slices *s, uint32_t row, int64_t ts)
{
    return s->ts[row] + s->dur[row] < ts || s->flags[row] & STK__SLICE_INSTANT;
}

/*
 * The innermost slice that runs at ts, both ends included. Points come by time, so what is over stays so, and the way past it is made
 * short for the next one: else deep nesting would cost its depth for each point.
 */
static uint32_t slice_around(const binder *m, uint32_t track, int64_t ts)
{
    const stk__slices *s = &m->t->slices;
    const uint32_t until = started_until(m, track, ts);
    const uint32_t start = until ? m->t->tracks[track].first_slice + until - 1 : STK__NONE;
    uint32_t found = start;
    while (found != STK__NONE && is_over(s, found, ts))
        found = m->outer[found];
    for (uint32_t row = start; row != found;) {
        const uint32_t next = m->outer[row];
        m->outer[row] = found;
        row = next;
    }
    return found;
}

/* The first slice that starts at or after ts. */
static uint32_t slice_behind(const stk__trace *t, const stk__trace_track *k, int64_t ts)
{
    const uint32_t until = starts_until(&t->slices, k, ts - 1);
    return until < k->slice_count ? k->first_slice + until : STK__NONE;
}

static uint32_t find_slice(const binder *m, uint32_t track, int64_t ts, bool behind)
{
    const stk__trace *t = m->t;
    uint32_t row = behind ? slice_behind(t, &t->tracks[track], ts) : slice_around(m, track, ts);
    uint32_t lane = m->first_lane[track];
    for (int i = 0;
         i < LANES_SEARCHED && lane < t->track_count && t->tracks[lane].parent == track && t->tracks[lane].lane;
         i++, lane++) {
        const uint32_t other = behind ? slice_behind(t, &t->tracks[lane], ts) : slice_around(m, lane, ts);
        if (other == STK__NONE)
            continue;
        /* of several, the one that starts nearest to the point */
        const bool nearer = row == STK__NONE || (behind ? t->slices.ts[other] < t->slices.ts[row]
                                                        : t->slices.ts[other] > t->slices.ts[row]);
        if (nearer)
            row = other;
    }
    return row;
}

/* Lanes of a track follow each other; per track the first of them, STK__NONE: none. */
static uint32_t *find_lanes(stk__builder *b)
{
    const stk__trace *t = b->trace;
    uint32_t *first = stk__alloc((t->track_count + 1) * sizeof *first);
    if (!first) {
        fail_nomem(b, (t->track_count + 1) * sizeof *first);
        return NULL;
    }
    memset(first, 0xff, (t->track_count + 1) * sizeof *first);
    for (size_t k = t->track_count; k-- > 0;) {
        if (t->tracks[k].lane && t->tracks[k].parent < t->track_count)
            first[t->tracks[k].parent] = (uint32_t)k;
    }
    return first;
}

/* Points in `rows` by time. */
static void bind_points(stk__builder *b, const binder *m, const uint32_t *rows)
{
    stk__trace *t = b->trace;
    stk__flow_points *p = &t->points;
    for (size_t i = 0; i < p->count; i++) {
        const uint32_t row = rows[i];
        const unsigned phase = p->phase[row] & STK__FLOW_PHASE;
        const bool behind = phase == STK__FLOW_END && !(p->phase[row] & STK__FLOW_ENCLOSING);
        p->slice[row] = find_slice(m, p->track[row], p->ts[row], behind);
        if (p->slice[row] == STK__NONE)
            stk__builder_note_file(b, t->tracks[p->track[row]].file, STK__REASON_NO_FLOW_SLICE, 1, -1);
    }
}

static void bind_all(stk__builder *b)
{
    const stk__trace *t = b->trace;
    const size_t slices = t->slices.count, points = t->points.count;
    binder m = {.t = t, .first_lane = find_lanes(b), .outer = stk__alloc((slices + 1) * sizeof *m.outer)};
    m.started = stk__calloc(t->track_count + 1, sizeof *m.started);
    uint32_t *rows = stk__alloc((points + 1) * 2 * sizeof *rows);
    if (!m.first_lane || !m.outer || !m.started || !rows) {
        fail_nomem(b, slices * sizeof *m.outer);
    } else {
        if (slices)
            memcpy(m.outer, t->slices.parent, slices * sizeof *m.outer);
        for (size_t i = 0; i < points; i++)
            rows[i] = (uint32_t)i;
        stk__rows_sort(rows, points, (stk__row_keys){.ts = t->points.ts}, rows + points + 1);
        bind_points(b, &m, rows);
    }
    stk__free(rows);
    stk__free(m.outer);
    stk__free(m.started);
    stk__free(m.first_lane);
}

/* ---- arrows ---- */

static bool add_arrow(stk__builder *b, uint32_t out, uint32_t in, uint32_t key)
{
    stk__flows *f = &b->trace->flows;
    const size_t row = f->count;
    if (!stk__builder_room(b, STK__COLUMN_flows_out, row + 1) || !stk__builder_room(b, STK__COLUMN_flows_in, row + 1) ||
        !stk__builder_room(b, STK__COLUMN_flows_key, row + 1))
        return false;
    f->out[row] = out;
    f->in[row] = in;
    f->key[row] = key;
    f->count = row + 1;
    return true;
}

/* One flow on its way through its points: the slice that the next arrow comes from. */
typedef struct flow_walk {
    uint32_t source; /* STK__NONE: it has not started */
    bool ended;      /* at least once since it started */
} flow_walk;

static unsigned phase_of(const stk__flow_points *p, uint32_t row)
{
    return p->phase[row] & STK__FLOW_PHASE;
}

/* Recorders put an end before its start when both have one time. `rows` start with the first point of their time. */
static void start_in_time(const stk__flow_points *p, const uint32_t *rows, size_t count, flow_walk *w)
{
    for (size_t i = 0; i < count && p->ts[rows[i]] == p->ts[rows[0]] && w->source == STK__NONE; i++) {
        if (phase_of(p, rows[i]) == STK__FLOW_START)
            w->source = p->slice[rows[i]];
    }
}

static void start_flow(stk__builder *b, uint32_t row, flow_walk *w)
{
    const stk__flow_points *p = &b->trace->points;
    if (w->source != STK__NONE && !w->ended && w->source != p->slice[row]) {
        stk__builder_note_file(b, b->trace->tracks[p->track[row]].file, STK__REASON_FLOW_AGAIN, 1, -1);
        return;
    }
    w->source = p->slice[row];
    w->ended = false;
}

/* A step or an end. What starts later is where the arrow points to, whichever was told first. */
static bool go_on(stk__builder *b, uint32_t row, flow_walk *w)
{
    const stk__flow_points *p = &b->trace->points;
    const int64_t *ts = b->trace->slices.ts;
    const uint32_t slice = p->slice[row];
    if (w->source == STK__NONE) {
        stk__builder_note_file(b, b->trace->tracks[p->track[row]].file, STK__REASON_NO_FLOW_START, 1, -1);
        return true;
    }
    const bool back = ts[w->source] > ts[slice];
    const bool good = add_arrow(b, back ? slice : w->source, back ? w->source : slice, p->key[row]);
    if (phase_of(p, row) == STK__FLOW_END)
        w->ended = true;
    else
        w->source = slice;
    return good;
}

/*
 * `rows` are the points of one flow, by time. As Perfetto: a step has an arrow from where the flow is and takes it
 * along, an end has one and leaves it there, so that a launch has an arrow to each of its kernels. A start counts when
 * the flow has none yet, or has ended; Perfetto's flows of JSON never end, and a second use of an id would come from
 * the first one's slice.
 */
static void add_arrows(stk__builder *b, const uint32_t *rows, size_t count)
{
    const stk__flow_points *p = &b->trace->points;
    flow_walk w = {.source = STK__NONE};
    for (size_t i = 0; i < count; i++) {
        if (w.source == STK__NONE && (i == 0 || p->ts[rows[i]] != p->ts[rows[i - 1]]))
            start_in_time(p, rows + i, count - i, &w);
        if (p->slice[rows[i]] == STK__NONE)
            continue; /* noted when it was bound */
        if (phase_of(p, rows[i]) == STK__FLOW_START)
            start_flow(b, rows[i], &w);
        else if (!go_on(b, rows[i], &w))
            return;
    }
}

static void make_arrows(stk__builder *b)
{
    stk__trace *t = b->trace;
    const size_t count = t->points.count;
    uint32_t *rows = stk__alloc((count + 1) * 2 * sizeof *rows);
    uint32_t *first = stk__calloc(t->flow_key_count + 1, sizeof *first);
    if (!rows || !first) {
        fail_nomem(b, count * 2 * sizeof *rows);
    } else {
        stk__rows_group(t->points.key, count, t->flow_key_count, rows, first);
        for (size_t k = 0; k < t->flow_key_count && !b->status; k++) {
            const size_t size = first[k + 1] - first[k];
            stk__rows_sort(rows + first[k], size, (stk__row_keys){.ts = t->points.ts}, rows + count + 1);
            add_arrows(b, rows + first[k], size);
        }
    }
    stk__free(rows);
    stk__free(first);
}

void stk__finish_flows(stk__builder *b)
{
    if (b->status || !b->trace->points.count)
        return;
    bind_all(b);
    if (!b->status)
        make_arrows(b);
}
