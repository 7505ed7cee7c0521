/* The run that shares of slices are of: from the first start to the last end, and how many tracks ran in it. */
#include <stdlib.h>
#include <string.h>

#include "analyze/classify.h"
#include "analyze/top_impl.h"
#include "base/mem.h"

#include "base/banned.h"

typedef struct file_span {
    int64_t start, end; /* end below start: nothing yet */
} file_span;

typedef struct run_pass {
    const stk__trace *trace;
    const stk__chosen *chosen;
    bool leave_out;
    stk__string profiler_category;
    file_span *spans; /* by file; the last one is of tracks without a file */
    bool *ran;        /* by track, lanes as their track */
    size_t lanes;
} run_pass;

static bool counts(const run_pass *p, size_t i)
{
    const stk__slices *s = &p->trace->slices;
    if (!stk__chosen_time(p->chosen, s->ts[i], s->dur[i]))
        return false;
    return !p->leave_out || ((!p->profiler_category || s->category[i] != p->profiler_category) &&
                             !stk__profiler_name(stk__trace_str(p->trace, s->name[i])));
}

/* All outermost slices that count: those of a track lie inside each other. */
static bool search_track(const run_pass *p, const stk__trace_track *k, file_span *span)
{
    const stk__trace *t = p->trace;
    unsigned deepest = 0; /* depth that is looked at */
    bool ran = false;
    for (size_t i = k->first_slice; i < (size_t)k->first_slice + k->slice_count; i++) {
        stk__trim_at(t, i);
        const unsigned depth = t->slices.depth[i];
        if (depth > deepest)
            continue;
        deepest = depth;
        if (!counts(p, i)) {
            deepest = depth + 1;
            continue;
        }
        ran = true;
        span->start = STK_MIN(span->start, t->slices.ts[i]);
        span->end = STK_MAX(span->end, t->slices.ts[i] + t->slices.dur[i]);
    }
    return ran;
}

/*
 * Outermost slices of a track follow each other, so that the first and the last of them say all, if both count. A
 * profiler's span around everything does not: then all are looked at.
 */
static bool take_ends(const run_pass *p, const stk__trace_track *k, file_span *span)
{
    const stk__slices *s = &p->trace->slices;
    size_t first = k->first_slice, last = first + k->slice_count - 1;
    while (last > first && s->depth[last])
        last--;
    if (!counts(p, first) || !counts(p, last))
        return false;
    span->start = STK_MIN(span->start, s->ts[first]);
    span->end = STK_MAX(span->end, s->ts[last] + s->dur[last]);
    return true;
}

static void take_track(run_pass *p, uint32_t track)
{
    const stk__trace *t = p->trace;
    const stk__trace_track *k = &t->tracks[track];
    file_span *span = &p->spans[STK_MIN((size_t)k->file, t->file_count)];
    if (!k->slice_count || (!take_ends(p, k, span) && !search_track(p, k, span)))
        return;
    p->lanes += k->lane != 0;
    p->ran[stk__track_of_thread(t, track)] = true;
}

static int compare_spans(const void *a, const void *b)
{
    const file_span *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* Files of one run overlap, and that time is one; parts of a run that were recorded apart have nothing between them. */
static int64_t join_spans(file_span *spans, size_t count)
{
    int64_t sum = 0, until = INT64_MIN;
    qsort(spans, count, sizeof *spans, compare_spans);
    for (size_t i = 0; i < count; i++) {
        const int64_t from = STK_MAX(spans[i].start, until);
        if (spans[i].end > from)
            sum = stk__add_ns(sum, spans[i].end - from);
        until = STK_MAX(until, spans[i].end);
    }
    return sum;
}

stk_status stk__top_run(const stk__trace *t, const stk__top_options *o, const stk__chosen *chosen, stk__top *out,
                        stk_error *err)
{
    run_pass p = {.trace = t, .chosen = chosen, .leave_out = o->leave_out};
    const size_t files = t->file_count + 1;
    p.profiler_category = o->leave_out ? stk__profiler_category(t) : 0;
    p.spans = stk__alloc(files * sizeof *p.spans);
    p.ran = stk__calloc(t->track_count + 1, sizeof *p.ran);
    const bool good = p.spans && p.ran;
    if (good) {
        for (size_t i = 0; i < files; i++)
            p.spans[i] = (file_span){INT64_MAX, INT64_MIN};
        for (uint32_t k = 0; k < t->track_count; k++) {
            if (stk__chosen_track(chosen, k))
                take_track(&p, k);
        }
        for (size_t k = 0; k < t->track_count; k++)
            out->tracks += p.ran[k];
        out->lanes = p.lanes;
        out->totals[STK__UNIT_NS] = join_spans(p.spans, files);
    }
    stk__free(p.spans);
    stk__free(p.ran);
    return good ? STK_OK : stk__nomem(files * sizeof *p.spans, err);
}
