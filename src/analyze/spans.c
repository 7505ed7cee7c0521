/* Sets of spans: sorted and joined, their total, and what two of them share. */
#include <stdlib.h>
#include <string.h>

#include "analyze/intervals.h"
#include "base/mem.h"

bool stk__spans_add(stk__spans *s, int64_t start, int64_t end)
{
    if (end <= start)
        return true;
    if (!stk__grow((void **)&s->rows, &s->capacity, s->count + 1, sizeof *s->rows))
        return false;
    s->rows[s->count++] = (stk__span){start, end};
    return true;
}

void stk__spans_clear(stk__spans *s)
{
    stk__free(s->rows);
    *s = (stk__spans){0};
}

/* ---- sorting and joining ---- */

/* Spans come as runs that are sorted already, one per track; runs are merged two by two, and shrink as they join. */
typedef struct span_run {
    size_t first, count;
} span_run;

static int compare_spans(const void *a, const void *b)
{
    const stk__span *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* Appends to a run at rows[count - 1] or starts a new span. Spans that touch become one. */
static inline size_t put_span(stk__span *rows, size_t count, stk__span span)
{
    if (count && span.start <= rows[count - 1].end) {
        rows[count - 1].end = STK_MAX(rows[count - 1].end, span.end);
        return count;
    }
    rows[count] = span;
    return count + 1;
}

static size_t join_sorted(stk__span *rows, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        kept = put_span(rows, kept, rows[i]);
    return kept;
}

static size_t merge_runs(const stk__span *a, size_t a_count, const stk__span *b, size_t b_count, stk__span *out)
{
    size_t i = 0, j = 0, count = 0;
    while (i < a_count && j < b_count)
        count = put_span(out, count, a[i].start <= b[j].start ? a[i++] : b[j++]);
    while (i < a_count)
        count = put_span(out, count, a[i++]);
    while (j < b_count)
        count = put_span(out, count, b[j++]);
    return count;
}

static bool find_runs(const stk__spans *s, span_run **out, size_t *out_count)
{
    span_run *runs = NULL;
    size_t count = 0, capacity = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (i && s->rows[i].start >= s->rows[i - 1].start) {
            runs[count - 1].count++;
            continue;
        }
        if (!stk__grow((void **)&runs, &capacity, count + 1, sizeof *runs)) {
            stk__free(runs);
            return false;
        }
        runs[count++] = (span_run){i, 1};
    }
    *out = runs;
    *out_count = count;
    return true;
}

/* Merges neighbours until one run is left, to and fro between the rows and `spare`. */
static void merge_all(stk__spans *s, span_run *runs, size_t count, stk__span *spare)
{
    stk__span *from = s->rows, *to = spare;
    for (size_t i = 0; i < count; i++)
        runs[i].count = join_sorted(from + runs[i].first, runs[i].count);
    while (count > 1) {
        size_t kept = 0;
        for (size_t i = 0; i < count; i += 2) {
            const span_run a = runs[i], b = i + 1 < count ? runs[i + 1] : (span_run){a.first, 0};
            runs[kept].count = merge_runs(from + a.first, a.count, from + b.first, b.count, to + a.first);
            runs[kept++].first = a.first;
        }
        count = kept;
        stk__span *swap = from;
        from = to;
        to = swap;
    }
    s->count = count ? runs[0].count : 0;
    if (from != s->rows)
        memcpy(s->rows, from, s->count * sizeof *s->rows);
}

void stk__spans_normalize(stk__spans *s)
{
    if (!s->count)
        return;
    span_run *runs = NULL;
    size_t count = 0;
    stk__span *spare = NULL;
    if (find_runs(s, &runs, &count) && (count == 1 || (spare = stk__alloc(s->count * sizeof *spare)))) {
        merge_all(s, runs, count, spare);
    } else {
        /* Slower, but in place. */
        qsort(s->rows, s->count, sizeof *s->rows, compare_spans);
        s->count = join_sorted(s->rows, s->count);
    }
    stk__free(runs);
    stk__free(spare);
}

/* ---- questions ---- */

static int64_t add_span(int64_t sum, int64_t start, int64_t end)
{
    if (end <= start)
        return sum;
    const uint64_t length = (uint64_t)end - (uint64_t)start;
    return length > (uint64_t)(INT64_MAX - sum) ? INT64_MAX : sum + (int64_t)length;
}

int64_t stk__spans_total(const stk__spans *s)
{
    int64_t sum = 0;
    for (size_t i = 0; i < s->count; i++)
        sum = add_span(sum, s->rows[i].start, s->rows[i].end);
    return sum;
}

int64_t stk__spans_overlap(const stk__spans *a, const stk__spans *b)
{
    int64_t sum = 0;
    for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
        const stk__span x = a->rows[i], y = b->rows[j];
        sum = add_span(sum, STK_MAX(x.start, y.start), STK_MIN(x.end, y.end));
        if (x.end <= y.end)
            i++;
        else
            j++;
    }
    return sum;
}

int64_t stk__spans_within(const stk__spans *a, int64_t start, int64_t end)
{
    /* The first span that ends after the start. */
    size_t low = 0, high = a->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (a->rows[middle].end <= start)
            low = middle + 1;
        else
            high = middle;
    }
    int64_t sum = 0;
    for (; low < a->count && a->rows[low].start < end; low++)
        sum = add_span(sum, STK_MAX(a->rows[low].start, start), STK_MIN(a->rows[low].end, end));
    return sum;
}
