/*
 * The slow stage in timelines of TensorFlow 1: what ran while IteratorGetNext waited. Ops of one step are spread over
 * rows without parents, so the one that started last is the innermost: what it waits for started before it.
 */
#include <stdlib.h>

#include "analyze/diagnose_stage.h"
#include "base/mem.h"

#include "base/banned.h"

typedef struct op {
    int64_t start, end;
    uint32_t slice;
} op;

typedef struct ops {
    op *rows;
    size_t count, capacity;
} ops;

static int by_start(const void *a, const void *b)
{
    const op *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->end != y->end)
        return x->end > y->end ? -1 : 1;
    return (x->slice > y->slice) - (x->slice < y->slice);
}

static bool collect(const stk__stage_finder *f, stk__spans *waits, ops *out)
{
    const stk__trace *t = f->d->trace;
    for (size_t k = 0; k < t->track_count; k++) {
        if (f->owners[k] != f->rank || f->c->roles[k] != STK__ROLE_HOST)
            continue;
        for (size_t i = t->tracks[k].first_slice, end = i + t->tracks[k].slice_count; i < end; i++) {
            const int64_t from = t->slices.ts[i], to = from + t->slices.dur[i];
            stk__trim_at(t, i);
            if (stk__slice_is_instant(t, i) || from >= to)
                continue;
            if (stk__slice_wait(f->c, i) == STK__WAIT_GET_NEXT) {
                if (!stk__spans_add(waits, from, to))
                    return false;
                continue;
            }
            if (!stk__grow((void **)&out->rows, &out->capacity, out->count + 1, sizeof *out->rows))
                return false;
            out->rows[out->count++] = (op){from, to, (uint32_t)i};
        }
    }
    stk__spans_normalize(waits);
    if (out->count)
        qsort(out->rows, out->count, sizeof *out->rows, by_start);
    return true;
}

/* The time of [from, to) that lies in a wait counts for the op. */
static bool give(stk__stage_finder *f, const stk__spans *waits, uint32_t slice, int64_t from, int64_t to)
{
    const int64_t ns = stk__spans_within(waits, from, to);
    const uint32_t row = ns > 0 ? stk__stage_sum_at(f, 0, slice) : STK__NONE;
    if (ns > 0 && row == STK__NONE)
        return false;
    if (ns > 0)
        f->sums[row].ns += (double)ns;
    return true;
}

/*
 * Ops come by their starts. `stack` has those that are open, the innermost on top: when it ends, what is left of the
 * one below goes on. One that ends later than what lies above it is found when those are gone.
 */
static bool sweep(stk__stage_finder *f, const stk__spans *waits, const ops *all, size_t *stack)
{
    size_t depth = 0;
    int64_t now = INT64_MIN;
    bool ok = true;
    for (size_t i = 0; ok && i <= all->count; i++) {
        const int64_t until = i < all->count ? all->rows[i].start : INT64_MAX;
        while (ok && depth && now < until) {
            const op *top = &all->rows[stack[depth - 1]];
            const int64_t to = STK_MIN(top->end, until);
            if (to > now) {
                ok = give(f, waits, top->slice, STK_MAX(now, top->start), to);
                now = to;
            }
            if (top->end <= until)
                depth--;
        }
        now = STK_MAX(now, until);
        if (i < all->count)
            stack[depth++] = i;
    }
    return ok;
}

bool stk__stage_timeline(stk__stage_finder *f, stk__stage *stage)
{
    stk__spans waits = {0};
    ops all = {0};
    bool ok = collect(f, &waits, &all);
    size_t *stack = ok ? stk__alloc((all.count + 1) * sizeof *stack) : NULL;
    ok = stack && sweep(f, &waits, &all, stack);
    for (size_t i = 0; ok && i < all.count; i++) {
        const uint32_t row = stk__stage_sum_at(f, 0, all.rows[i].slice);
        ok = row != STK__NONE;
        if (ok)
            f->sums[row].calls++;
    }
    if (ok) {
        stk__stage_take(f, stage);
        stage->kind = stage->count ? STK__STAGE_TIMELINE : STK__STAGE_NONE;
    }
    stk__free(stack);
    stk__free(all.rows);
    stk__spans_clear(&waits);
    return ok;
}
