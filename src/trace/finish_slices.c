/* From rows as they came to slices: begins and ends paired, sorted by track and time, lanes for overlaps, parents. */
#include <string.h>

#include "base/mem.h"
#include "trace/builder_impl.h"

#include "base/banned.h"

enum {
    SEARCH_DEPTH = 1024, /* how far below the innermost open slice the one of an end is looked for */
    NESTING_LANES = 32,  /* lanes in which slices may nest; further ones hold one slice at a time */
    TRIM_ROWS = 1 << 20,
};

/* A slice that is open at the current time. */
typedef struct open_slice {
    int64_t end;
    uint32_t row;
} open_slice;

typedef struct stack {
    open_slice *items;
    size_t count, capacity;
} stack;

/* A lane that holds one slice at a time, in a heap by end. */
typedef struct flat_lane {
    int64_t end;
    uint32_t track;
} flat_lane;

typedef struct finisher {
    stk__builder *b;
    stk__slices *s;
    uint32_t *rows, *first, *scratch;
    size_t kept;       /* rows that are left after pairing, at the front of `rows` */
    int64_t *file_end; /* per file: the latest time in it */
    stack open;
    stack stray; /* ends of the current track that closed nothing, by time; `end` is that time */
    stack lanes[NESTING_LANES];
    flat_lane *flat;
    size_t flat_count, flat_capacity;
    uint32_t lane_count; /* of the current track, nesting and flat */
    uint64_t overlaps, rounded;
    bool any_lane;
} finisher;

static bool push(finisher *f, stack *s, int64_t end, uint32_t row)
{
    if (s->count == s->capacity && !stk__grow((void **)&s->items, &s->capacity, s->count + 1, sizeof *s->items)) {
        stk_error err;
        stk_error_clear(&err);
        stk__nomem(s->count * sizeof *s->items, &err);
        stk__builder_fail(f->b, &err);
        return false;
    }
    s->items[s->count++] = (open_slice){end, row};
    return true;
}

/* ---- begins and ends ---- */

/* Where in the stack the slice is that an end with this name closes; open.count when there is none. */
static size_t find_open(const finisher *f, stk__string name)
{
    const stack *open = &f->open;
    if (!name)
        return open->count ? open->count - 1 : 0;
    for (size_t i = open->count, tried = 0; i && tried < SEARCH_DEPTH; tried++) {
        if (f->s->name[open->items[--i].row] == name)
            return i;
    }
    return open->count;
}

static void close_slice(finisher *f, uint32_t begin, int64_t end_ns)
{
    stk__slices *s = f->s;
    s->dur[begin] = end_ns > s->ts[begin] ? end_ns - s->ts[begin] : 0;
    s->flags[begin] &= (uint8_t)~STK__RAW_BEGIN;
}

/* Closes a begin with an end, whose args join its own. */
static void close_with(finisher *f, uint32_t begin, uint32_t end, uint32_t file)
{
    stk__slices *s = f->s;
    close_slice(f, begin, s->ts[end]);
    s->args[begin] = stk__builder_join_args(f->b, s->args[begin], s->args[end], file, s->dur[end]);
}

static void take_end(finisher *f, uint32_t file, uint32_t row)
{
    const stk__slices *s = f->s;
    const size_t at = find_open(f, s->name[row]);
    if (at >= f->open.count) {
        push(f, &f->stray, s->ts[row], row);
        return;
    }
    close_with(f, f->open.items[at].row, row, file);
    memmove(f->open.items + at, f->open.items + at + 1, (f->open.count - at - 1) * sizeof *f->open.items);
    f->open.count--;
}

/* Where in the stray ends those of a time start. */
static size_t stray_at(const finisher *f, int64_t ts)
{
    size_t low = 0, high = f->stray.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (f->stray.items[middle].end < ts)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A slice of no length may have its end before its begin in the file. True when `begin`, which nothing else closed, has one. */
static bool close_with_stray(finisher *f, uint32_t begin, uint32_t file)
{
    const stk__slices *s = f->s;
    const size_t from = stray_at(f, s->ts[begin]);
    for (size_t i = from; i < f->stray.count && i - from < SEARCH_DEPTH; i++) {
        const uint32_t end = f->stray.items[i].row;
        if (f->stray.items[i].end != s->ts[begin])
            return false;
        if (end == STK__NONE || (s->name[end] && s->name[end] != s->name[begin]))
            continue;
        close_with(f, begin, end, file);
        f->stray.items[i].row = STK__NONE;
        return true;
    }
    return false;
}

/* What was never closed lasts until the file's last event; ends that closed nothing are left out. */
static void close_rest(finisher *f, uint32_t file)
{
    stk__slices *s = f->s;
    while (f->open.count) {
        const uint32_t row = f->open.items[--f->open.count].row;
        if (close_with_stray(f, row, file))
            continue;
        stk__builder_note_file(f->b, file, STK__REASON_NO_END, 1, s->dur[row]);
        close_slice(f, row, f->file_end[file]);
        s->flags[row] |= STK__SLICE_UNFINISHED;
    }
    for (size_t i = 0; i < f->stray.count; i++) {
        const uint32_t row = f->stray.items[i].row;
        if (row == STK__NONE)
            continue;
        stk__builder_note_file(f->b, file, STK__REASON_END_WITHOUT_BEGIN, 1, s->dur[row]);
        f->b->loose_args |= s->args[row] != 0;
    }
    f->stray.count = 0;
}

/* Pairs the rows of one track; returns how many are left, at the front of `rows`. */
static size_t pair(finisher *f, uint32_t track, uint32_t *rows, size_t count)
{
    const stk__slices *s = f->s;
    const uint32_t file = f->b->trace->tracks[track].file;
    size_t kept = 0;
    stk__rows_sort(rows, count, (stk__row_keys){.ts = s->ts}, f->scratch);
    f->open.count = 0;
    for (size_t i = 0; i < count && !f->b->status; i++) {
        const uint32_t row = rows[i];
        if (s->flags[row] & STK__RAW_END) {
            take_end(f, file, row);
            continue;
        }
        if (s->flags[row] & STK__RAW_BEGIN && !push(f, &f->open, 0, row))
            break;
        rows[kept++] = row;
    }
    close_rest(f, file);
    return kept;
}

/* ---- lanes ---- */

typedef enum fit { FITS, FITS_ROUNDED, OVERLAPS } fit;

/*
 * Whether [ts, end) nests in a lane, whose ended slices are taken off. Times that were rounded to `slack` may stick out of the outer slice, or
 * into the one before, by as much.
 */
static fit try_lane(stack *lane, int64_t ts, int64_t end, int64_t slack)
{
    fit result = FITS;
    while (lane->count) {
        const int64_t top = lane->items[lane->count - 1].end;
        if (top > ts) {
            if (end <= top)
                return result;
            if (end - top <= slack)
                return FITS_ROUNDED;
            if (top - ts > slack)
                return OVERLAPS;
            result = FITS_ROUNDED;
        }
        lane->count--;
    }
    return result;
}

/*
 * Opens a slice behind try_lane. One that sticks out by rounding counts as ending with what is around it: else slices that each stick out
 * of the one before would nest without end.
 */
static bool open_slice_in(finisher *f, stack *lane, int64_t end, uint32_t row)
{
    return push(f, lane, lane->count ? STK_MIN(end, lane->items[lane->count - 1].end) : end, row);
}

static uint32_t new_lane(finisher *f, uint32_t track)
{
    f->any_lane = true;
    return stk__builder_lane(f->b, track, f->lane_count++);
}

static void sift_down(flat_lane *heap, size_t count, size_t at)
{
    for (;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child < 2 * at + 3 && child < count; child++) {
            if (heap[child].end < heap[least].end)
                least = child;
        }
        if (least == at)
            return;
        const flat_lane moved = heap[at];
        heap[at] = heap[least];
        heap[least] = moved;
        at = least;
    }
}

static void sift_up(flat_lane *heap, size_t at)
{
    for (; at && heap[at].end < heap[(at - 1) / 2].end; at = (at - 1) / 2) {
        const flat_lane moved = heap[at];
        heap[at] = heap[(at - 1) / 2];
        heap[(at - 1) / 2] = moved;
    }
}

/* The lane that has been free for longest, or a new one. */
static uint32_t flat_lane_for(finisher *f, uint32_t track, int64_t ts, int64_t end)
{
    if (f->flat_count && f->flat[0].end <= ts) {
        f->flat[0].end = end;
        const uint32_t lane = f->flat[0].track;
        sift_down(f->flat, f->flat_count, 0);
        return lane;
    }
    if (!stk__grow((void **)&f->flat, &f->flat_capacity, f->flat_count + 1, sizeof *f->flat)) {
        stk_error err;
        stk_error_clear(&err);
        stk__nomem(f->flat_count * sizeof *f->flat, &err);
        stk__builder_fail(f->b, &err);
        return track;
    }
    const uint32_t lane = new_lane(f, track);
    f->flat[f->flat_count] = (flat_lane){end, lane};
    sift_up(f->flat, f->flat_count++);
    return lane;
}

/* Puts one slice on the first lane where it nests. first_lane is the track of lane 1. */
static void place(finisher *f, uint32_t track, uint32_t row, int64_t slack, uint32_t *first_lane)
{
    stk__slices *s = f->s;
    const int64_t ts = s->ts[row], end = ts + s->dur[row];
    for (uint32_t lane = 0; lane < NESTING_LANES; lane++) {
        const bool fresh = lane >= f->lane_count;
        const fit result = fresh ? FITS : try_lane(&f->lanes[lane], ts, end, slack);
        if (result == OVERLAPS)
            continue;
        if (fresh) {
            const uint32_t made = new_lane(f, track);
            if (lane == 1)
                *first_lane = made;
        }
        f->rounded += result == FITS_ROUNDED;
        f->overlaps += lane > 0;
        if (lane > 0)
            s->track[row] = *first_lane + lane - 1;
        open_slice_in(f, &f->lanes[lane], end, row);
        return;
    }
    f->overlaps++;
    s->track[row] = flat_lane_for(f, track, ts, end);
}

static void make_lanes(finisher *f, uint32_t track, const uint32_t *rows, size_t count)
{
    const uint32_t file = f->b->trace->tracks[track].file;
    const int64_t slack = f->b->trace->files[file].resolution_ns;
    uint32_t first_lane = STK__NONE;
    f->lane_count = 1;
    f->flat_count = 0;
    f->overlaps = f->rounded = 0;
    for (size_t i = 0; i < NESTING_LANES; i++)
        f->lanes[i].count = 0;
    for (size_t i = 0; i < count && !f->b->status; i++)
        place(f, track, rows[i], slack, &first_lane);
    if (f->overlaps)
        stk__builder_note_file(f->b, file, STK__REASON_OVERLAP, f->overlaps, -1);
    if (f->rounded)
        stk__builder_note_file(f->b, file, STK__REASON_ROUNDED, f->rounded, -1);
}

/* ---- parents ---- */

static void nest_track(finisher *f, const stk__trace_track *k, int64_t slack)
{
    stk__slices *s = f->s;
    stack *open = &f->open;
    open->count = 0;
    for (uint32_t row = k->first_slice; row < k->first_slice + k->slice_count; row++) {
        const int64_t end = s->ts[row] + s->dur[row];
        try_lane(open, s->ts[row], end, slack);
        s->parent[row] = open->count ? open->items[open->count - 1].row : STK__NONE;
        s->depth[row] = (uint16_t)STK_MIN(open->count, UINT16_MAX);
        if (!open_slice_in(f, open, end, row))
            return;
    }
}

static void nest_all(finisher *f)
{
    stk__trace *t = f->b->trace;
    if (!stk__builder_room(f->b, STK__COLUMN_slices_parent, STK_MAX(f->kept, 1)) ||
        !stk__builder_room(f->b, STK__COLUMN_slices_depth, STK_MAX(f->kept, 1)))
        return;
    size_t since = 0;
    for (size_t k = 0; k < t->track_count && !f->b->status; k++) {
        stk__trace_track *track = &t->tracks[k];
        track->first_slice = f->first[k];
        track->slice_count = f->first[k + 1] - f->first[k];
        nest_track(f, track, t->files[track->file].resolution_ns);
        since += track->slice_count;
        if (since > TRIM_ROWS) {
            stk__store_trim(t->store);
            since = 0;
        }
    }
}

/* ---- all of it ---- */

static void find_file_ends(finisher *f)
{
    const stk__trace *t = f->b->trace;
    for (size_t i = 0; i < t->file_count; i++)
        f->file_end[i] = -STK__TIME_MAX;
    for (size_t i = 0; i < f->s->count; i++) {
        const uint32_t file = t->tracks[f->s->track[i]].file;
        const bool raw = f->s->flags[i] & (STK__RAW_BEGIN | STK__RAW_END);
        const int64_t end = f->s->ts[i] + (raw ? 0 : f->s->dur[i]);
        if (end > f->file_end[file])
            f->file_end[file] = end;
    }
}

static bool has_raw(const stk__builder *b, uint32_t track)
{
    return track < b->track_raw_capacity && b->track_raw[track];
}

/* Rows by track, then paired, sorted and put on lanes track by track. */
static void order_rows(finisher *f)
{
    stk__builder *b = f->b;
    const size_t tracks = b->trace->track_count; /* lanes come behind these */
    stk__rows_group(f->s->track, f->s->count, tracks, f->rows, f->first);
    size_t since = 0;
    for (uint32_t k = 0; k < tracks && !b->status; k++) {
        uint32_t *rows = f->rows + f->first[k];
        size_t count = f->first[k + 1] - f->first[k];
        since += count;
        if (since > TRIM_ROWS) {
            stk__store_trim(b->trace->store);
            since = 0;
        }
        if (has_raw(b, k))
            count = pair(f, k, rows, count);
        stk__rows_sort(rows, count, (stk__row_keys){f->s->ts, f->s->dur}, f->scratch);
        make_lanes(f, k, rows, count);
        memmove(f->rows + f->kept, rows, count * sizeof *rows);
        f->kept += count;
    }
}

static bool is_identity(const finisher *f)
{
    if (f->kept != f->s->count)
        return false;
    for (size_t i = 0; i < f->kept; i++) {
        if (f->rows[i] != i)
            return false;
    }
    return true;
}

/* Rows that went to lanes leave their track: grouped once more, now with the lanes' tracks. */
static bool regroup(finisher *f)
{
    const stk__trace *t = f->b->trace;
    const stk__slices *s = f->s;
    uint32_t *first = stk__calloc(t->track_count + 2, sizeof *first);
    if (!first) {
        stk_error err;
        stk_error_clear(&err);
        stk__nomem((t->track_count + 2) * sizeof *first, &err);
        stk__builder_fail(f->b, &err);
        return false;
    }
    for (size_t i = 0; i < f->kept; i++)
        first[s->track[f->rows[i]] + 2]++;
    for (size_t k = 0; k < t->track_count; k++)
        first[k + 2] += first[k + 1];
    /* first[k + 1] is where track k goes on */
    for (size_t i = 0; i < f->kept; i++)
        f->scratch[first[s->track[f->rows[i]] + 1]++] = f->rows[i];
    memcpy(f->rows, f->scratch, f->kept * sizeof *f->rows);
    stk__free(f->first);
    f->first = first; /* now first[k + 1] is the end of track k, which is where k + 1 starts */
    return true;
}

static void apply_order(finisher *f)
{
    static const int columns[] = {STK__COLUMN_slices_ts,   STK__COLUMN_slices_dur,      STK__COLUMN_slices_track,
                                  STK__COLUMN_slices_name, STK__COLUMN_slices_category, STK__COLUMN_slices_args,
                                  STK__COLUMN_slices_flags};
    if (!f->b->status && !is_identity(f)) {
        for (size_t i = 0; i < STK_COUNT(columns); i++) {
            if (!stk__rows_apply(f->b, columns[i], f->rows, f->kept))
                return;
        }
    }
    f->s->count = f->kept;
}

void stk__finish_slices(stk__builder *b)
{
    stk__trace *t = b->trace;
    finisher f = {.b = b, .s = &t->slices};
    const size_t rows = t->slices.count, tracks = t->track_count;
    f.rows = stk__alloc((rows + 1) * sizeof *f.rows);
    f.scratch = stk__alloc((rows + 1) * sizeof *f.scratch);
    f.first = stk__calloc(tracks + 2, sizeof *f.first);
    f.file_end = stk__alloc((t->file_count + 1) * sizeof *f.file_end);
    if (!f.rows || !f.scratch || !f.first || !f.file_end) {
        stk_error err;
        stk_error_clear(&err);
        stk__nomem(rows * sizeof *f.rows, &err);
        stk__builder_fail(b, &err);
    }
    if (!b->status) {
        find_file_ends(&f);
        order_rows(&f);
    }
    if (!b->status && (f.any_lane || f.kept != rows))
        regroup(&f);
    stk__free(f.scratch);
    f.scratch = NULL;
    if (!b->status)
        apply_order(&f);
    if (!b->status)
        nest_all(&f);
    for (size_t i = 0; i < NESTING_LANES; i++)
        stk__free(f.lanes[i].items);
    stk__free(f.open.items);
    stk__free(f.stray.items);
    stk__free(f.flat);
    stk__free(f.rows);
    stk__free(f.scratch);
    stk__free(f.first);
    stk__free(f.file_end);
}
