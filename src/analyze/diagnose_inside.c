/* What runs inside the waits on the thread that waits: all lanes of the thread seen as one stack. */
#include <string.h>

#include "analyze/diagnose_stage.h"
#include "base/mem.h"

#include "base/banned.h"

/* Threads have one lane, or two where an annotation straddles the call that began it. */
enum { MAX_LANES = 16 };

typedef struct lane {
    size_t at, end; /* slices that are not open yet */
    stk__stage_stack stack;
    size_t wait;  /* level of the outermost open wait + 1; 0: none is open */
    size_t named; /* the same of an annotation of a wait, which tells more than the function that wrote it */
} lane;

typedef struct inside {
    stk__stage_finder *f;
    lane lanes[MAX_LANES];
    size_t lane_count;
} inside;

static int64_t end_of(const stk__trace *t, uint32_t slice)
{
    return t->slices.ts[slice] + t->slices.dur[slice];
}

/* The lane of the outermost open wait; NULL. */
static const lane *waiting(const inside *x)
{
    for (size_t i = 0; i < x->lane_count; i++)
        if (x->lanes[i].wait)
            return &x->lanes[i];
    return NULL;
}

/* ---- opening and closing ---- */

static bool is_wait(const inside *x, uint32_t slice)
{
    const stk__stage_finder *f = x->f;
    return stk__classify(f->c, slice, f->d->ranks[f->rank].waits) == STK__HOST_WAIT_INPUT;
}

static stk__stage_frame frame_of(const inside *x, const lane *l, uint32_t slice)
{
    static const stk__stage_frame nothing = {.slice = STK__NONE};
    const stk__stage_frame *outer = l->stack.count ? &l->stack.frames[l->stack.count - 1] : &nothing;
    const bool waits = waiting(x);
    /* What is around the wait says nothing about what is in it. */
    stk__stage_frame frame = stk__stage_frame_of(x->f, waits && outer->in_wait ? outer : &nothing, slice);
    frame.in_wait = waits;
    if ((!waits || !frame.python) && is_wait(x, slice)) {
        frame.is_wait = frame.in_wait = true;
        frame.idle = false;
        frame.slice = slice;
    }
    return frame;
}

static bool open_slice(inside *x, lane *l, uint32_t slice)
{
    stk__stage_finder *f = x->f;
    const stk__stage_frame frame = frame_of(x, l, slice);
    if (!stk__stage_stack_push(&l->stack, slice, &frame))
        return false;
    if (frame.is_wait && !l->wait)
        l->wait = l->stack.count;
    if (frame.is_wait && !frame.python && !l->named)
        l->named = l->stack.count;
    if (!frame.in_wait || frame.slice != slice || stk__stage_clipped(f, slice) <= 0)
        return true;
    const uint32_t row = stk__stage_sum_at(f, 0, slice);
    if (row != STK__NONE)
        f->sums[row].calls++;
    return row != STK__NONE;
}

static void close_slices(const stk__trace *t, lane *l, int64_t now)
{
    while (l->stack.count && end_of(t, l->stack.slices[l->stack.count - 1]) <= now)
        l->stack.count--;
    if (l->wait > l->stack.count)
        l->wait = 0;
    if (l->named > l->stack.count)
        l->named = 0;
}

/* What the profiler writes of itself, and calls of the OS in which a thread only sleeps; a read says more. */
static bool only_sleeps(const inside *x, size_t slice)
{
    static const char *const words[] = {"wait", "poll", "select", "sleep", "lock", "futex"};
    const stk__trace *t = x->f->d->trace;
    const char *name = stk__trace_str(t, t->slices.name[slice]);
    if (!stk__is_ignored(x->f->c, slice))
        return false;
    if (strcmp(stk__trace_str(t, t->slices.category[slice]), "os_runtime") != 0)
        return true;
    for (size_t i = 0; i < STK_COUNT(words); i++)
        if (strstr(name, words[i]))
            return true;
    return false;
}

static bool advance(inside *x, int64_t now)
{
    const stk__trace *t = x->f->d->trace;
    for (size_t i = 0; i < x->lane_count; i++)
        close_slices(t, &x->lanes[i], now);
    for (size_t i = 0; i < x->lane_count; i++) {
        lane *l = &x->lanes[i];
        for (; l->at < l->end && t->slices.ts[l->at] <= now; l->at++) {
            stk__trim_at(t, l->at);
            if (end_of(t, (uint32_t)l->at) > now && !stk__slice_is_instant(t, l->at) && !only_sleeps(x, l->at) &&
                !open_slice(x, l, (uint32_t)l->at))
                return false;
        }
    }
    return true;
}

/* ---- the sweep ---- */

static int64_t next_change(const inside *x)
{
    const stk__trace *t = x->f->d->trace;
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < x->lane_count; i++) {
        const lane *l = &x->lanes[i];
        if (l->stack.count)
            next = STK_MIN(next, end_of(t, l->stack.slices[l->stack.count - 1]));
        if (l->at < l->end)
            next = STK_MIN(next, t->slices.ts[l->at]);
    }
    return next;
}

/* Of the innermost slices of the lanes the one that started last: it is the innermost of the thread. */
static const stk__stage_frame *innermost(const inside *x)
{
    const stk__trace *t = x->f->d->trace;
    const stk__stage_frame *best = NULL;
    uint32_t best_slice = 0;
    for (size_t i = 0; i < x->lane_count; i++) {
        const lane *l = &x->lanes[i];
        if (!l->stack.count || !l->stack.frames[l->stack.count - 1].in_wait)
            continue;
        const uint32_t slice = l->stack.slices[l->stack.count - 1];
        if (best && (t->slices.ts[slice] < t->slices.ts[best_slice] ||
                     (t->slices.ts[slice] == t->slices.ts[best_slice] && end_of(t, slice) >= end_of(t, best_slice))))
            continue;
        best = &l->stack.frames[l->stack.count - 1];
        best_slice = slice;
    }
    return best;
}

/* The slice that the wait is called by. */
static uint32_t wait_slice(const inside *x)
{
    const lane *l = waiting(x);
    for (size_t i = 0; i < x->lane_count; i++)
        if (x->lanes[i].named)
            return x->lanes[i].stack.slices[x->lanes[i].named - 1];
    return l->stack.slices[l->wait - 1];
}

/* Time in which the loader itself only waits, for workers or a thread, is the wait's: nothing in it says why. */
static bool give(inside *x, int64_t from, int64_t to)
{
    stk__stage_finder *f = x->f;
    from = STK_MAX(from, f->start);
    to = STK_MIN(to, f->end);
    if (!waiting(x) || from >= to)
        return true;
    const stk__stage_frame *frame = innermost(x);
    const uint32_t slice = frame && !frame->idle ? frame->slice : wait_slice(x);
    const uint32_t row = stk__stage_sum_at(f, 0, slice);
    if (row != STK__NONE)
        f->sums[row].ns += (double)stk__time_between(from, to);
    return row != STK__NONE;
}

static bool sweep(inside *x)
{
    int64_t now = next_change(x);
    while (now != INT64_MAX && now < x->f->end) {
        if (!advance(x, now))
            return false;
        const int64_t next = next_change(x);
        if (!give(x, now, next))
            return false;
        now = next;
    }
    return true;
}

/* ---- the stage ---- */

/* The wait itself says nothing, unless it is a function that somebody wrote. */
static bool says_nothing(const stk__stage_finder *f, const stk__stage_row *row)
{
    stk__python_frame p;
    size_t size;
    const char *name = stk__trace_text(f->d->trace, row->name, &size);
    return f->c->wait[row->name] != STK__WAIT_NONE && !(stk__python_frame_parse(name, size, &p) && p.own);
}

bool stk__stage_inside(stk__stage_finder *f, stk__stage *stage)
{
    const stk__trace *t = f->d->trace;
    inside x = {.f = f};
    for (size_t k = 0; k < t->track_count && x.lane_count < MAX_LANES; k++)
        if (stk__track_root(t, (uint32_t)k) == f->d->ranks[f->rank].main_track && t->tracks[k].slice_count) {
            lane *l = &x.lanes[x.lane_count++];
            l->at = t->tracks[k].first_slice;
            l->end = l->at + t->tracks[k].slice_count;
        }
    const bool ok = sweep(&x);
    for (size_t i = 0; i < x.lane_count; i++)
        stk__stage_stack_clear(&x.lanes[i].stack);
    if (!ok)
        return false;
    stk__stage_take(f, stage);
    for (size_t i = 0; i < stage->count; i++)
        stage->rows[i].is_wait = says_nothing(f, &stage->rows[i]);
    stage->kind = stage->count ? STK__STAGE_INSIDE : STK__STAGE_NONE;
    return true;
}
