/* Which stage of the input takes the time: the ways to find it, in order, and the rows that they make. */
#include <stdlib.h>
#include <string.h>

#include "analyze/diagnose_stage.h"
#include "stats/ranks.h"
#include "base/mem.h"

#include "base/banned.h"

enum { LABEL_PART = (STK__LABEL_SIZE - 32) / 2 };

/* ---- names ---- */

const char *stk__stage_label(const stk__diagnosis *d, stk__string name, size_t *out_size)
{
    const char *text = stk__trace_text(d->trace, name, out_size);
    size_t size = *out_size;
    if (strncmp(text, "Iterator::", strlen("Iterator::")) != 0)
        return text;
    size_t start = size;
    while (start > 0 && text[start - 1] != ':')
        start--;
    const char *bracket = memchr(text + start, '[', size - start);
    *out_size = bracket ? (size_t)(bracket - text) - start : size - start;
    return text + start;
}

static size_t base_name(const char *file, size_t size)
{
    size_t start = size;
    while (start && file[start - 1] != '/' && file[start - 1] != '\\')
        start--;
    return start;
}

bool stk__stage_row_frame(const stk__diagnosis *d, const stk__stage_row *row, stk__python_frame *out)
{
    size_t size;
    const char *name = stk__trace_text(d->trace, row->name, &size);
    if (!row->file)
        return stk__python_frame_parse(name, size, out) && out->line > 0;
    *out = (stk__python_frame){.function = name, .function_size = size, .line = row->line};
    out->file = stk__trace_text(d->trace, row->file, &out->file_size);
    out->own = stk__python_file_is_own(out->file, out->file_size);
    return true;
}

void stk__stage_row_label(const stk__diagnosis *d, const stk__stage_row *row, stk__text *out)
{
    stk__python_frame p;
    if (!stk__stage_row_frame(d, row, &p)) {
        size_t size;
        const char *name = stk__stage_label(d, row->name, &size);
        stk__text_write(out, name, STK_MIN(size, (size_t)LABEL_PART));
        return;
    }
    const size_t base = base_name(p.file, p.file_size);
    stk__text_write(out, p.function, STK_MIN(p.function_size, (size_t)LABEL_PART));
    stk__text_puts(out, " (");
    stk__text_write(out, p.file + base, STK_MIN(p.file_size - base, (size_t)LABEL_PART));
    if (p.line > 0)
        stk__text_printf(out, ":%lld", (long long)p.line);
    stk__text_putc(out, ')');
}

/* ---- sums into rows ---- */

double stk__stage_clipped(const stk__stage_finder *f, size_t slice)
{
    const stk__slices *s = &f->d->trace->slices;
    const int64_t from = STK_MAX(s->ts[slice], f->start), to = STK_MIN(s->ts[slice] + s->dur[slice], f->end);
    return from < to ? (double)stk__time_between(from, to) : 0;
}

uint32_t stk__stage_sum_named(stk__stage_finder *f, uint32_t group, stk__string name, stk__string file, int64_t line)
{
    bool fresh = false;
    uint32_t *row = NULL;
    if (f->sum_count < STK__NONE && stk__grow((void **)&f->sums, &f->sum_capacity, f->sum_count + 1, sizeof *f->sums))
        row = stk__keymap_place(&f->sum_map, (stk__key){{name, file, group}}, (uint32_t)f->sum_count, &fresh);
    if (!row) {
        f->failed = true;
        return STK__NONE;
    }
    if (fresh)
        f->sums[f->sum_count++] = (stk__stage_sum){.name = name, .file = file, .group = group, .line = line};
    return *row;
}

uint32_t stk__stage_sum_at(stk__stage_finder *f, uint32_t group, size_t slice)
{
    int64_t line;
    const stk__string file = stk__python_file_of(f->d->trace, &f->keys, slice, &line);
    return stk__stage_sum_named(f, group, f->d->trace->slices.name[slice], file, line);
}

static void row_offer(stk__stage *stage, const stk__stage_sum *sum)
{
    size_t at = stage->count;
    while (at && stage->rows[at - 1].ns < sum->ns)
        at--;
    if (at == STK__STAGE_ROWS)
        return;
    if (stage->count == STK__STAGE_ROWS)
        stage->count--;
    memmove(&stage->rows[at + 1], &stage->rows[at], (stage->count - at) * sizeof stage->rows[0]);
    stage->rows[at] =
        (stk__stage_row){.name = sum->name, .file = sum->file, .line = sum->line, .ns = sum->ns, .calls = sum->calls};
    stage->count++;
}

static int by_name(const void *a, const void *b)
{
    const stk__stage_sum *x = a, *y = b;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    return (x->file > y->file) - (x->file < y->file);
}

void stk__stage_take(stk__stage_finder *f, stk__stage *stage)
{
    size_t kept = 0;
    if (f->sum_count)
        qsort(f->sums, f->sum_count, sizeof *f->sums, by_name);
    for (size_t i = 0; i < f->sum_count; i++) {
        const stk__stage_sum sum = f->sums[i];
        if (sum.ns <= 0)
            continue;
        if (kept && by_name(&f->sums[kept - 1], &sum) == 0) {
            f->sums[kept - 1].ns += sum.ns;
            f->sums[kept - 1].calls += sum.calls;
            f->sums[kept - 1].line = STK_MIN(f->sums[kept - 1].line, sum.line);
        } else {
            f->sums[kept++] = sum;
        }
    }
    for (size_t i = 0; i < kept; i++) {
        row_offer(stage, &f->sums[i]);
        stage->total_ns += f->sums[i].ns;
    }
    for (size_t i = 0; i < stage->count; i++)
        stage->rows[i].share = stage->total_ns > 0 ? stage->rows[i].ns / stage->total_ns : 0;
    stk__stage_drop(f);
}

void stk__stage_drop(stk__stage_finder *f)
{
    f->sum_count = 0;
    stk__keymap_clear(&f->sum_map);
}

/* ---- one call's time ---- */

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Nearest rank. */
static int64_t quantile(const int64_t *sorted, size_t count, double q)
{
    size_t rank = (size_t)(q * (double)count);
    if ((double)rank < q * (double)count)
        rank++;
    return sorted[STK_MIN(rank ? rank - 1 : 0, count - 1)];
}

static bool belongs(const stk__stage_finder *f, const stk__stage *stage, uint32_t track)
{
    switch (stage->kind) {
    case STK__STAGE_OPS:
        return f->c->roles[track] == STK__ROLE_WORKER;
    case STK__STAGE_WORKERS:
        return stk__stage_is_helper(f, track);
    case STK__STAGE_INSIDE:
        return stk__track_root(f->d->trace, track) == f->d->ranks[f->rank].main_track;
    default:
        return f->owners[track] == f->rank && f->c->roles[track] == STK__ROLE_HOST;
    }
}

/* Whether the slice is a call of what the row is about. */
static bool is_call(const stk__stage_finder *f, const stk__stage *stage, size_t slice)
{
    const stk__trace *t = f->d->trace;
    const stk__stage_row *row = &stage->rows[0];
    int64_t line;
    if (stage->kind != STK__STAGE_TF_DATA)
        return t->slices.name[slice] == row->name &&
               (!row->file || stk__python_file_of(f->d->trace, &f->keys, slice, &line) == row->file);
    size_t size, path_size;
    const char *name = stk__trace_text(t, t->slices.name[slice], &size);
    if (!stk__is_iterator(name, size))
        return false;
    const char *path = stk__trace_text(t, stk__iterator_of(&f->c->tf_data, slice).path, &path_size);
    name = stk__trace_text(t, row->name, &size);
    return stk__stage_same_iterator(name, size, path, path_size);
}

/* Median, p95 and maximum of the calls of the first row, which the report is about. */
static bool measure_calls(const stk__stage_finder *f, stk__stage *stage)
{
    const stk__trace *t = f->d->trace;
    int64_t *durs = NULL;
    size_t count = 0, capacity = 0;
    for (size_t k = 0; k < t->track_count; k++) {
        if (!belongs(f, stage, (uint32_t)k))
            continue;
        for (size_t i = t->tracks[k].first_slice, end = i + t->tracks[k].slice_count; i < end; i++) {
            stk__trim_at(t, i);
            if (stk__slice_is_instant(t, i) || !is_call(f, stage, i))
                continue;
            if (!stk__grow((void **)&durs, &capacity, count + 1, sizeof *durs)) {
                stk__free(durs);
                return false;
            }
            durs[count++] = t->slices.dur[i];
        }
    }
    if (count) {
        qsort(durs, count, sizeof *durs, by_value);
        stage->rows[0].p50 = (int64_t)stk__median_of(durs, count).value;
        stage->rows[0].p95 = quantile(durs, count, 0.95);
        stage->rows[0].max = durs[count - 1];
    }
    stk__free(durs);
    return true;
}

/* ---- the ways, best first ---- */

static bool find(stk__stage_finder *f, stk__stage *stage)
{
    if (!stk__stage_ops(f, stage, f->rank))
        return false;
    if (!stage->count && !stk__stage_ops(f, stage, STK__NONE))
        return false;
    if (!stage->count && f->d->ranks[f->rank].kind == STK__STEP_TIMELINE && !stk__stage_timeline(f, stage))
        return false;
    if (!stage->count && !stk__stage_iterators(f, stage))
        return false;
    if (!stage->count && !stk__stage_workers(f, stage))
        return false;
    if (!stage->count && !stk__stage_host(f, stage))
        return false;
    return stage->count || stk__stage_inside(f, stage);
}

stk_status stk__stage_find(stk__diagnosis *d, const stk__classifier *c, const uint32_t *owners, stk_error *err)
{
    const stk__rank *rank = &d->ranks[d->worst];
    const stk__step *first = &d->steps.rows[rank->first_step], *last = first + rank->step_count - 1;
    stk__stage_finder f = {
        .d = d,
        .c = c,
        .owners = owners,
        .rank = (uint32_t)d->worst,
        .start = first->ts,
        .end = last->ts + last->dur,
        .keys = stk__python_keys_of(d->trace),
    };
    const bool ok = find(&f, &d->stage) && (!d->stage.count || measure_calls(&f, &d->stage));
    stk__stage_drop(&f);
    stk__free(f.sums);
    return ok ? STK_OK : stk__nomem((size_t)d->trace->string_count * sizeof(stk__stage_sum), err);
}
