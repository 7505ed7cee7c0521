/* Order of begins and ends on one row of the timeline. */
#include "trace/nest.h"

#include <string.h>

/*
 * Readers sort all events by time; events of the same time keep the order of the file. Ends carry no name: an end
 * closes what was begun last. So these must hold for ties on one row:
 *   - an end stands before a begin          [A   ][B   ]     A ends, then B begins
 *   - an outer begin stands before an inner [P[C ]    ]      P begins, then C begins
 * Inside a batch the order below gives both. Across batches the first holds because A was recorded before B. The second
 * breaks when C went out in an earlier batch and P, recorded when it ended, shares C's start. Then P is shown 1 ns
 * early if nothing before it ends at that very time; if something does, P goes to another row, with its exact times.
 */

static bool goes_before(const stk__event *a, const stk__event *b)
{
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns;
    return a->end_ns > b->end_ns;
}

void stk__nest_init(stk__nest *nest)
{
    nest->count = 0;
    nest->forgotten_end = INT64_MIN;
}

void stk__nest_insert(const stk__event **sorted, size_t count, const stk__event *slice)
{
    /* Most slices go last or pass over the few that they contain, so moving is cheap. */
    size_t low = 0, high = count;
    if (count && goes_before(sorted[count - 1], slice))
        low = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (goes_before(sorted[middle], slice))
            low = middle + 1;
        else
            high = middle;
    }
    memmove(sorted + low + 1, sorted + low, (count - low) * sizeof *sorted);
    sorted[low] = slice;
}

/* Whether a slice fits among the roots of earlier batches, and where its begin is shown. */
static bool fits_written(const stk__nest *nest, const stk__event *s, int64_t *start)
{
    bool tie = false;
    size_t i = nest->count;
    for (; i > 0 && nest->roots[i - 1].end > s->start_ns; i--) {
        const stk__interval *r = &nest->roots[i - 1];
        if (s->start_ns > r->start || s->end_ns < r->end)
            return false;
        tie = tie || s->start_ns == r->start;
    }
    if (!tie)
        return true;
    const int64_t before = i > 0 ? nest->roots[i - 1].end : nest->forgotten_end;
    if (before >= s->start_ns || s->start_ns <= 0)
        return false;
    *start = s->start_ns - 1;
    return true;
}

/* Adds a root; it replaces the roots at the back that it covers. */
static void root_add(stk__nest *nest, size_t keep, stk__interval root)
{
    while (nest->count > keep && nest->roots[nest->count - 1].start >= root.start)
        nest->count--;
    if (nest->count == STK__NEST_ROOTS) {
        const size_t half = STK__NEST_ROOTS / 2;
        nest->forgotten_end = nest->roots[half - 1].end;
        memmove(nest->roots, nest->roots + half, half * sizeof *nest->roots);
        nest->count = half;
    }
    nest->roots[nest->count++] = root;
}

size_t stk__nest_place(stk__nest *nest, const stk__event **sorted, size_t count, const stk__nest_sink *sink)
{
    int64_t ends[STK__NEST_DEPTH];
    size_t depth = 0, refused = 0;
    stk__nest fresh;
    stk__nest_init(&fresh);
    for (size_t i = 0; i < count; i++) {
        const stk__event *s = sorted[i];
        while (depth && ends[depth - 1] <= s->start_ns)
            sink->end(sink->context, ends[--depth]);
        int64_t start = s->start_ns;
        if (depth == STK__NEST_DEPTH || (depth && s->end_ns > ends[depth - 1]) || !fits_written(nest, s, &start)) {
            sorted[refused++] = s;
            continue;
        }
        if (depth == 0)
            root_add(&fresh, fresh.count, (stk__interval){start, s->end_ns});
        sink->begin(sink->context, s, start);
        ends[depth++] = s->end_ns;
    }
    while (depth)
        sink->end(sink->context, ends[--depth]);
    if (fresh.forgotten_end != INT64_MIN)
        *nest = fresh; /* the batch alone fills the memory; all of `nest` lies before it */
    else
        for (size_t i = 0; i < fresh.count; i++)
            root_add(nest, 0, fresh.roots[i]);
    return refused;
}
