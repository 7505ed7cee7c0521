/* Chooses for each file what its clock is aligned by, and moves its times. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyze/diff_impl.h"
#include "analyze/merge_align.h"
#include "analyze/steps.h"
#include "base/mem.h"

#include "base/banned.h"

#define TRIM_ROWS ((size_t)1 << 20)
#define SAME_BOOT_NS \
    20000000      /* two looks at real minus monotonic time on one host; adjusting the clock moves it a little */
#define ANCHORS 8 /* files that have been aligned, to try for one that shares nothing with the reference */

static const struct {
    const char *name, *text;
} alignments[] = {
#define ALIGNMENT(name, word, text) {word, text},
    STK__ALIGNMENTS(ALIGNMENT)
#undef ALIGNMENT
};

const char *stk__aligned_name(stk__aligned by)
{
    return alignments[by].name;
}

const char *stk__aligned_text(stk__aligned by)
{
    return alignments[by].text;
}

/* ---- moving times ---- */

static bool retime(const stk__retime *r, int64_t ts, int64_t *out)
{
    const double extra = r->drift != 0 ? round(r->drift * (double)stk__saturating_sub(ts, r->origin_ns)) : 0;
    int64_t moved;
    return fabs(extra) < 9e18 && !__builtin_add_overflow(ts, r->shift_ns, &moved) &&
           !__builtin_add_overflow(moved, (int64_t)extra, out) && *out != STK__NO_TIME;
}

/* The earliest and the latest time of each file. */
typedef struct extent {
    int64_t start, end; /* start > end: no times */
} extent;

typedef struct extents {
    const stk__trace *t;
    extent *rows;
} extents;

static void extend(const extents *e, uint32_t track, int64_t start, int64_t end)
{
    const uint32_t file = track < e->t->track_count ? e->t->tracks[track].file : STK__NONE;
    if (file >= e->t->file_count)
        return;
    e->rows[file].start = STK_MIN(e->rows[file].start, start);
    e->rows[file].end = STK_MAX(e->rows[file].end, end);
}

static void trim_now_and_then(const stk__trace *t, size_t row)
{
    if (row % TRIM_ROWS == TRIM_ROWS - 1)
        stk__trace_trim(t);
}

/* `with_points`: also the points of flows, which do not count for the trace's start and end. */
static stk_status measure(const stk__trace *t, bool with_points, extent **out, stk_error *err)
{
    const extents e = {t, stk__calloc(t->file_count, sizeof *e.rows)};
    if (!e.rows)
        return stk__nomem(t->file_count * sizeof *e.rows, err);
    for (size_t i = 0; i < t->file_count; i++)
        e.rows[i] = (extent){INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < t->slices.count; i++) {
        extend(&e, t->slices.track[i], t->slices.ts[i], stk__saturating_add(t->slices.ts[i], t->slices.dur[i]));
        trim_now_and_then(t, i);
    }
    for (size_t i = 0; i < t->counters.count; i++) {
        extend(&e, t->counters.track[i], t->counters.ts[i], t->counters.ts[i]);
        trim_now_and_then(t, i);
    }
    for (size_t i = 0; i < t->samples.count; i++) {
        if (t->samples.ts[i] != STK__NO_TIME)
            extend(&e, t->samples.track[i], t->samples.ts[i], t->samples.ts[i]);
        trim_now_and_then(t, i);
    }
    for (size_t i = 0; with_points && i < t->points.count; i++) {
        extend(&e, t->points.track[i], t->points.ts[i], t->points.ts[i]);
        trim_now_and_then(t, i);
    }
    *out = e.rows;
    return STK_OK;
}

/* Times are moved in order, so what holds for the first and the last of a file holds for all of it. */
static stk_status check_range(const stk__trace *t, const stk__retime *moves, stk_error *err)
{
    extent *all;
    STK_TRY(measure(t, true, &all, err));
    stk_status status = STK_OK;
    for (size_t i = 0; i < t->file_count && status == STK_OK; i++) {
        int64_t ignored;
        if (all[i].start <= all[i].end &&
            !(retime(&moves[i], all[i].start, &ignored) && retime(&moves[i], all[i].end, &ignored)))
            status = stk_error_set(
                err, STK_INVALID,
                "times of %s from %lld to %lld ns cannot be shifted by %lld ns: wanted a result in 64 bits",
                stk__trace_str(t, t->files[i].path), (long long)all[i].start, (long long)all[i].end,
                (long long)moves[i].shift_ns);
    }
    stk__free(all);
    return status;
}

static const stk__retime *move_of(const stk__trace *t, const stk__retime *moves, uint32_t track)
{
    const uint32_t file = track < t->track_count ? t->tracks[track].file : STK__NONE;
    if (file >= t->file_count || (moves[file].shift_ns == 0 && moves[file].drift == 0))
        return NULL;
    return &moves[file];
}

/*
 * Slices of a track stand by time, then longer first. Two that did not start together may do so after a drift was taken
 * out, and then the second one, when it is the longer, starts 1 ns later: it has the room, and what was nested stays
 * nested.
 */
static void move_slices(stk__trace *t, const stk__retime *moves)
{
    stk__slices *s = &t->slices;
    for (size_t i = 0; i < s->count; i++) {
        const stk__retime *move = move_of(t, moves, s->track[i]);
        trim_now_and_then(t, i);
        int64_t start = 0, end = 0;
        if (!move || !retime(move, s->ts[i], &start) || !retime(move, s->ts[i] + s->dur[i], &end))
            continue;
        s->dur[i] = end - start;
        s->ts[i] = start;
        if (i && s->track[i - 1] == s->track[i] && move->drift != 0 && start <= s->ts[i - 1] &&
            s->dur[i] > s->dur[i - 1] && s->parent[i] != i - 1) {
            const int64_t later = STK_MIN(s->ts[i - 1] + 1, end);
            s->ts[i] = later;
            s->dur[i] = end - later;
        }
    }
}

static void move_column(stk__trace *t, const stk__retime *moves, int64_t *ts, const uint32_t *track, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const stk__retime *move = ts[i] == STK__NO_TIME ? NULL : move_of(t, moves, track[i]);
        if (move)
            retime(move, ts[i], &ts[i]);
        trim_now_and_then(t, i);
    }
}

static stk_status move_all(stk__trace *t, const stk__retime *moves, stk_error *err)
{
    STK_TRY(check_range(t, moves, err));
    move_slices(t, moves);
    move_column(t, moves, t->counters.ts, t->counters.track, t->counters.count);
    move_column(t, moves, t->samples.ts, t->samples.track, t->samples.count);
    move_column(t, moves, t->points.ts, t->points.track, t->points.count);
    for (size_t i = 0; i < t->file_count; i++) {
        stk__trace_file *f = &t->files[i];
        f->shift_ns = stk__saturating_add(f->shift_ns, moves[i].shift_ns);
        if (f->realtime_ns != STK__NO_NUMBER)
            f->realtime_ns = stk__saturating_sub(f->realtime_ns, moves[i].shift_ns);
    }
    return STK_OK;
}

/* start_ns and end_ns from what each file had before: no pass over the columns is needed again. */
static void refresh_range(stk__trace *t, const extent *before, const stk__retime *moves)
{
    int64_t start = INT64_MAX, end = INT64_MIN;
    for (size_t i = 0; i < t->file_count; i++) {
        int64_t first, last;
        if (before[i].start > before[i].end || !retime(&moves[i], before[i].start, &first) ||
            !retime(&moves[i], before[i].end, &last))
            continue;
        start = STK_MIN(start, first);
        end = STK_MAX(end, last);
    }
    t->start_ns = start <= end ? start : 0;
    t->end_ns = start <= end ? end : 0;
}

static stk_status apply(stk__trace *t, const stk__retime *moves, stk_error *err)
{
    extent *before;
    STK_TRY(measure(t, false, &before, err));
    const stk_status status = move_all(t, moves, err);
    if (status == STK_OK)
        refresh_range(t, before, moves);
    stk__free(before);
    return status;
}

stk_status stk__trace_shift(stk__trace *t, uint32_t file, int64_t shift_ns, stk_error *err)
{
    if (file >= t->file_count)
        return stk_error_set(err, STK_INVALID, "no file %u: the trace has %zu", file, t->file_count);
    stk__retime *moves = stk__calloc(t->file_count, sizeof *moves);
    if (!moves)
        return stk__nomem(t->file_count * sizeof *moves, err);
    moves[file].shift_ns = shift_ns;
    const stk_status status = apply(t, moves, err);
    stk__free(moves);
    return status;
}

stk_status stk__merge_apply(stk__trace *t, const stk__merge *m, stk_error *err)
{
    stk__retime *moves = stk__calloc(t->file_count, sizeof *moves);
    if (!moves)
        return stk__nomem(t->file_count * sizeof *moves, err);
    uint32_t clock = STK__CLOCK_UNKNOWN;
    for (size_t i = 0; i < t->file_count && i < m->count; i++) {
        moves[i] = m->files[i].retime;
        if (m->files[i].by == STK__ALIGNED_REFERENCE && moves[i].shift_ns == 0)
            clock = t->files[i].clock;
    }
    const stk_status status = apply(t, moves, err);
    for (size_t i = 0; status == STK_OK && i < t->file_count && i < m->count; i++) {
        if (moves[i].shift_ns || moves[i].drift != 0)
            t->files[i].clock = clock; /* it now tells the reference's time */
    }
    stk__free(moves);
    return status;
}

/* ---- what files share ---- */

static bool contains_word(const char *text, const char *word)
{
    const size_t size = strlen(word);
    for (; *text; text++) {
        if (strncasecmp(text, word, size) == 0)
            return true;
    }
    return false;
}

bool stk__is_collective(const char *name)
{
    static const char *const words[] = {"nccl",          "rccl",           "allreduce",      "all_reduce",
                                        "all-reduce",    "allgather",      "all_gather",     "all-gather",
                                        "reducescatter", "reduce_scatter", "reduce-scatter", "alltoall",
                                        "all_to_all",    "all-to-all",     "barrier",        "collective-permute"};
    for (size_t i = 0; i < STK_COUNT(words); i++) {
        if (contains_word(name, words[i]))
            return true;
    }
    return false;
}

/* All that a merge looks at, per file. */
typedef struct shared {
    const stk__trace *t;
    extent *extents;
    stk__sync_events *events;
    stk__sync_step *steps; /* of all files, by file, then by number */
    size_t *step_first;    /* file_count + 1 */
} shared;

static void shared_clear(shared *s)
{
    for (size_t i = 0; s->events && i < s->t->file_count; i++)
        stk__free(s->events[i].rows);
    stk__free(s->events);
    stk__free(s->extents);
    stk__free(s->steps);
    stk__free(s->step_first);
}

/* Per string: 0 not looked at, 1 no, 2 yes. */
static bool is_collective_name(const stk__trace *t, uint8_t *known, stk__string name)
{
    if (name >= t->string_count)
        return false;
    if (!known[name])
        known[name] = stk__is_collective(stk__trace_str(t, name)) ? 2 : 1;
    return known[name] == 2;
}

static stk_status collect_events(shared *s, stk_error *err)
{
    const stk__trace *t = s->t;
    s->events = stk__calloc(t->file_count, sizeof *s->events);
    uint8_t *known = stk__calloc(t->string_count, 1);
    bool ok = s->events && known;
    for (size_t i = 0; ok && i < t->slices.count; i++) {
        trim_now_and_then(t, i);
        const uint32_t file = t->tracks[t->slices.track[i]].file;
        if (file >= t->file_count || (t->slices.flags[i] & STK__SLICE_UNFINISHED) ||
            !is_collective_name(t, known, t->slices.name[i]))
            continue;
        stk__sync_events *e = &s->events[file];
        ok = stk__grow((void **)&e->rows, &e->capacity, e->count + 1, sizeof *e->rows);
        if (ok)
            e->rows[e->count++] = (stk__sync_event){(uint64_t)t->slices.name[i] << 32 | t->slices.category[i],
                                                    t->slices.ts[i] + t->slices.dur[i], t->slices.dur[i]};
    }
    stk__free(known);
    for (size_t i = 0; ok && i < t->file_count; i++)
        stk__sync_events_sort(&s->events[i]);
    return ok ? STK_OK : stk__nomem(t->slices.count, err);
}

static int compare_steps(const void *a, const void *b)
{
    const stk__sync_step *x = a, *y = b;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return (x->ts > y->ts) - (x->ts < y->ts);
}

/* Sorts the steps of one file by number; of equal numbers (several processes) the first to start stays. */
static size_t sort_steps(stk__sync_step *rows, size_t count)
{
    if (count > 1)
        qsort(rows, count, sizeof *rows, compare_steps);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (!kept || rows[i].number != rows[kept - 1].number)
            rows[kept++] = rows[i];
    }
    return kept;
}

static void place_steps(shared *s, const stk__steps *steps)
{
    size_t written = 0, read = 0;
    for (uint32_t file = 0; file < s->t->file_count; file++) {
        s->step_first[file] = written;
        size_t count = 0;
        for (; read < steps->count && steps->rows[read].file <= file; read++) {
            if (steps->rows[read].file == file && steps->rows[read].slice != STK__NONE)
                s->steps[written + count++] = (stk__sync_step){steps->rows[read].number, steps->rows[read].ts};
        }
        written += sort_steps(s->steps + written, count);
    }
    s->step_first[s->t->file_count] = written;
}

static stk_status collect_steps(shared *s, stk_error *err)
{
    stk__steps steps = {0};
    STK_TRY(stk__steps_find(s->t, &steps, err));
    if (steps.from != STK__STEPS_MARKERS)
        steps.count = 0; /* inferred ones are counted by each file for itself */
    s->steps = stk__calloc(steps.count, sizeof *s->steps);
    s->step_first = stk__calloc(s->t->file_count + 1, sizeof *s->step_first);
    const bool ok = s->steps && s->step_first;
    if (ok)
        place_steps(s, &steps);
    const size_t size = steps.count * sizeof *s->steps;
    stk__steps_clear(&steps);
    return ok ? STK_OK : stk__nomem(size, err);
}

static stk_status collect(shared *s, stk__align align, stk_error *err)
{
    STK_TRY(measure(s->t, false, &s->extents, err));
    if (align == STK__ALIGN_NONE || align == STK__ALIGN_REALTIME)
        return STK_OK;
    if (align != STK__ALIGN_STEPS)
        STK_TRY(collect_events(s, err));
    return collect_steps(s, err);
}

/* ---- choosing ---- */

typedef struct aligner {
    shared shared;
    stk__align align;
    stk__merge *m;
    uint32_t reference;
    bool nomem;
} aligner;

static stk__string fact_of(const stk__trace *t, uint32_t file, const char *const *keys, size_t count)
{
    for (size_t i = 0; i < t->fact_count; i++) {
        for (size_t k = 0; k < count && t->facts[i].file == file; k++) {
            if (strcasecmp(stk__trace_str(t, t->facts[i].key), keys[k]) == 0)
                return t->facts[i].value;
        }
    }
    return 0;
}

typedef enum same_host { HOST_UNKNOWN, HOST_SAME, HOST_OTHER } same_host;

static same_host compare_hosts(const stk__trace *t, uint32_t a, uint32_t b)
{
    static const char *const keys[] = {"boot_id", "hostname", "host", "machine"};
    const stk__string x = fact_of(t, a, keys, STK_COUNT(keys)), y = fact_of(t, b, keys, STK_COUNT(keys));
    if (x && y)
        return x == y ? HOST_SAME : HOST_OTHER;
    const int64_t rx = t->files[a].realtime_ns, ry = t->files[b].realtime_ns;
    if (rx == STK__NO_NUMBER || ry == STK__NO_NUMBER)
        return HOST_UNKNOWN;
    const int64_t apart = stk__saturating_sub(rx, ry);
    return apart < SAME_BOOT_NS && apart > -SAME_BOOT_NS ? HOST_SAME : HOST_OTHER;
}

/* Clocks that start with the machine. */
static bool same_machine_clock(const stk__trace *t, uint32_t a, uint32_t b)
{
    const uint32_t clock = t->files[a].clock;
    return clock == t->files[b].clock && (clock == STK__CLOCK_MONOTONIC || clock == STK__CLOCK_BOOT);
}

static bool overlap(const extent *a, const extent *b)
{
    return a->start <= b->end && b->start <= a->end;
}

static int64_t resolution_of(const stk__trace *t, uint32_t a, uint32_t b)
{
    const int64_t x = t->files[a].resolution_ns, y = t->files[b].resolution_ns;
    return STK_MAX(STK_MAX(x, y), 0);
}

static bool realtime_shift(const stk__trace *t, uint32_t to, uint32_t file, int64_t *out)
{
    const int64_t a = t->files[to].realtime_ns, b = t->files[file].realtime_ns;
    return a != STK__NO_NUMBER && b != STK__NO_NUMBER && !__builtin_sub_overflow(b, a, out);
}

/* Sets everything but the moves of `to` itself, which settle adds. */
static void take_fit(stk__merge_file *f, stk__aligned by, uint32_t to, const stk__clock_fit *fit)
{
    *f = (stk__merge_file){.by = by,
                           .to = to,
                           .retime = fit->retime,
                           .shared = fit->shared,
                           .matched = fit->matched,
                           .error_ns = fit->error_ns,
                           .low_ns = fit->low_ns,
                           .high_ns = fit->high_ns,
                           .ambiguous = fit->ambiguous,
                           .other_shift_ns = fit->other_shift_ns};
}

static bool try_steps(aligner *a, uint32_t to, uint32_t file, stk__clock_fit *fit)
{
    const shared *s = &a->shared;
    return stk__fit_steps(s->steps + s->step_first[to], s->step_first[to + 1] - s->step_first[to],
                          s->steps + s->step_first[file], s->step_first[file + 1] - s->step_first[file],
                          resolution_of(s->t, to, file), fit, &a->nomem);
}

static bool align_by_events(aligner *a, uint32_t to, uint32_t file)
{
    const shared *s = &a->shared;
    stk__clock_fit fit;
    int64_t guesses[2];
    size_t count = 0;
    if (try_steps(a, to, file, &fit))
        guesses[count++] = fit.retime.shift_ns;
    if (realtime_shift(s->t, to, file, &guesses[count]))
        count++;
    const bool ok = stk__fit_events(&s->events[to], &s->events[file], resolution_of(s->t, to, file), guesses, count,
                                    &fit, &a->nomem);
    if (ok)
        take_fit(&a->m->files[file], STK__ALIGNED_COLLECTIVES, to, &fit);
    else if (fit.shared)
        a->m->files[file].why = "collectives are shared, but their times do not line up";
    return ok;
}

static bool align_by_steps(aligner *a, uint32_t to, uint32_t file)
{
    stk__clock_fit fit;
    if (!try_steps(a, to, file, &fit))
        return false;
    take_fit(&a->m->files[file], STK__ALIGNED_STEPS, to, &fit);
    return true;
}

static bool align_by_realtime(aligner *a, uint32_t to, uint32_t file)
{
    stk__clock_fit fit = {.error_ns = -1};
    if (!realtime_shift(a->shared.t, to, file, &fit.retime.shift_ns))
        return false;
    take_fit(&a->m->files[file], STK__ALIGNED_REALTIME, to, &fit);
    return true;
}

static bool align_by_clock(aligner *a, uint32_t to, uint32_t file, bool certain)
{
    const stk__trace *t = a->shared.t;
    const same_host host = compare_hosts(t, to, file);
    if (!same_machine_clock(t, to, file) || host == HOST_OTHER || (host == HOST_SAME) != certain)
        return false;
    if (!certain && !overlap(&a->shared.extents[to], &a->shared.extents[file]))
        return false;
    const stk__clock_fit fit = {.error_ns = certain ? resolution_of(t, to, file) : -1};
    take_fit(&a->m->files[file], certain ? STK__ALIGNED_SAME_CLOCK : STK__ALIGNED_LIKELY_CLOCK, to, &fit);
    return true;
}

static bool align_pair(aligner *a, uint32_t to, uint32_t file)
{
    switch (a->align) {
    case STK__ALIGN_COLLECTIVES:
        return align_by_events(a, to, file);
    case STK__ALIGN_STEPS:
        return align_by_steps(a, to, file);
    case STK__ALIGN_REALTIME:
        return align_by_realtime(a, to, file);
    default:
        return align_by_clock(a, to, file, true) || align_by_events(a, to, file) || align_by_steps(a, to, file) ||
               align_by_realtime(a, to, file) || align_by_clock(a, to, file, false);
    }
}

/* The file was fitted to `to` as it is; now also by what `to` itself is moved. */
static void settle(aligner *a, uint32_t file)
{
    stk__merge_file *f = &a->m->files[file];
    const stk__merge_file *to = &a->m->files[f->to];
    stk__retime *r = &f->retime;
    const int64_t at = stk__saturating_add(r->origin_ns, r->shift_ns);
    int64_t moved;
    if (!retime(&to->retime, at, &moved))
        moved = at;
    f->other_shift_ns = stk__saturating_add(f->other_shift_ns, stk__saturating_sub(moved, at));
    r->shift_ns = stk__saturating_sub(moved, r->origin_ns);
    r->drift = (1 + r->drift) * (1 + to->retime.drift) - 1;
    if (f->error_ns >= 0 && f->to != a->reference)
        f->error_ns = to->error_ns < 0 ? -1 : stk__saturating_add(f->error_ns, to->error_ns);
}

static bool has_times(const aligner *a, uint32_t file)
{
    return a->shared.extents[file].start <= a->shared.extents[file].end;
}

static const char *what_is_missing(const aligner *a)
{
    switch (a->align) {
    case STK__ALIGN_COLLECTIVES:
        return "no collectives or barriers that the reference has too";
    case STK__ALIGN_STEPS:
        return "no numbered step markers that the reference has too";
    case STK__ALIGN_REALTIME:
        return "real time is not known for both files";
    default:
        return "no shared collectives or steps, and neither real time nor a common clock is known";
    }
}

static bool is_open(const stk__merge_file *f)
{
    return f->by == STK__ALIGNED_NOT;
}

/* The reference first; then, for what shares nothing with it, files that have been aligned meanwhile. */
static void align_all(aligner *a)
{
    uint32_t anchors[ANCHORS + 1] = {a->reference};
    size_t anchor_count = 1;
    for (size_t n = 0; n < anchor_count && !a->nomem; n++) {
        for (uint32_t i = 0; i < a->m->count && !a->nomem; i++) {
            if (!is_open(&a->m->files[i]) || !has_times(a, i) || i == anchors[n] || !align_pair(a, anchors[n], i))
                continue;
            settle(a, i);
            a->m->files[i].why = NULL;
            if (anchor_count <= ANCHORS)
                anchors[anchor_count++] = i;
        }
    }
    for (uint32_t i = 0; i < a->m->count; i++) {
        stk__merge_file *f = &a->m->files[i];
        if (is_open(f) && !f->why)
            f->why = has_times(a, i) ? what_is_missing(a) : "it has no times";
    }
}

static stk_status take_offsets(const stk__trace *t, const stk__merge_options *o, stk__merge *m, stk_error *err)
{
    for (size_t i = 0; i < o->offset_count; i++) {
        if (o->offsets[i].file >= t->file_count)
            return stk_error_set(err, STK_INVALID, "offset for file %u: the trace has %zu files", o->offsets[i].file,
                                 t->file_count);
        m->files[o->offsets[i].file].by = STK__ALIGNED_GIVEN;
        m->files[o->offsets[i].file].retime.shift_ns = o->offsets[i].shift_ns;
    }
    return STK_OK;
}

stk_status stk__merge_find(const stk__trace *t, const stk__merge_options *options, stk__merge *out, stk_error *err)
{
    stk__merge m = {stk__calloc(t->file_count, sizeof *m.files), t->file_count};
    if (!m.files)
        return stk__nomem(t->file_count * sizeof *m.files, err);
    for (size_t i = 0; i < m.count; i++)
        m.files[i] = (stk__merge_file){.to = STK__NONE, .error_ns = -1};
    aligner a = {.shared = {.t = t}, .align = options->align, .m = &m};
    stk_status status = take_offsets(t, options, &m, err);
    if (status == STK_OK)
        status = collect(&a.shared, options->align, err);
    if (status == STK_OK && m.count && options->align != STK__ALIGN_NONE) {
        while (a.reference + 1 < m.count && !has_times(&a, a.reference))
            a.reference++;
        if (is_open(&m.files[a.reference]))
            m.files[a.reference].by = STK__ALIGNED_REFERENCE;
        align_all(&a);
        if (a.nomem)
            status = stk__nomem(0, err);
    }
    for (size_t i = 0; status == STK_OK && options->align == STK__ALIGN_NONE && i < m.count; i++) {
        if (is_open(&m.files[i]))
            m.files[i].by = STK__ALIGNED_KEPT;
    }
    shared_clear(&a.shared);
    if (status == STK_OK)
        *out = m;
    else
        stk__free(m.files);
    return status;
}

void stk__merge_clear(stk__merge *m)
{
    stk__free(m->files);
    *m = (stk__merge){0};
}
