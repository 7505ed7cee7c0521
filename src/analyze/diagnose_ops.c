/* The slow stage among our own ops: self times on the recorder's workers, made exact by its totals. */
#include <string.h>

#include "analyze/diagnose_stage.h"
#include "base/mem.h"

#include "base/banned.h"

typedef struct ops_pass {
    stk__stage_finder *f;
    int64_t start, end; /* of the time that counts */
    double *sums;       /* per string */
    uint32_t *calls;    /* per string */
} ops_pass;

static double clipped(const ops_pass *f, size_t i)
{
    const stk__slices *s = &f->f->d->trace->slices;
    const int64_t from = STK_MAX(s->ts[i], f->start), to = STK_MIN(s->ts[i] + s->dur[i], f->end);
    return from < to ? (double)stk__time_between(from, to) : 0;
}

/* Self time: a slice's goes off its parent's. */
static void sum_slice(ops_pass *f, size_t i, double ns)
{
    const stk__slices *s = &f->f->d->trace->slices;
    f->sums[s->name[i]] += ns;
    f->calls[s->name[i]]++;
    if (s->parent[i] != STK__NONE)
        f->sums[s->name[s->parent[i]]] -= ns;
}

static bool is_room_wait(const stk__trace *t, size_t i)
{
    return strcmp(stk__trace_str(t, t->slices.name[i]), "wait: batches ahead are full") == 0;
}

static void sum_worker(ops_pass *f, uint32_t track, stk__stage *stage, double *waited)
{
    const stk__trace *t = f->f->d->trace;
    const stk__trace_track *k = &t->tracks[track];
    for (size_t i = k->first_slice, end = i + k->slice_count; i < end; i++) {
        const double ns = clipped(f, i);
        stk__trim_at(t, i);
        if (ns <= 0 || stk__slice_is_instant(t, i))
            continue;
        if (!stk__is_wait(f->f->c, i)) {
            sum_slice(f, i, ns);
            continue;
        }
        if (t->slices.parent[i] != STK__NONE)
            f->sums[t->slices.name[t->slices.parent[i]]] -= ns;
        if (is_room_wait(t, i))
            *waited += ns;
    }
    stage->workers += !k->lane;
}

static bool is_worker(const ops_pass *f, size_t track, uint32_t owner)
{
    return f->f->c->roles[track] == STK__ROLE_WORKER && f->f->owners[track] == owner &&
           f->f->d->trace->tracks[track].slice_count;
}

/* What the recorder added up of some workers, beside what their slices show. */
typedef struct tally {
    uint8_t *rows, *files; /* by name of the row and by file: whether a worker is there */
    double *missing;       /* per string: time in the totals that no slice shows */
    uint32_t *calls;       /* per string: in the totals */
} tally;

static bool tally_init(tally *y, const stk__trace *t)
{
    y->rows = stk__calloc((size_t)t->string_count + 1, 1);
    y->files = stk__calloc(t->file_count + 1, 1);
    y->missing = stk__calloc((size_t)t->string_count + 1, sizeof *y->missing);
    y->calls = stk__calloc((size_t)t->string_count + 1, sizeof *y->calls);
    return y->rows && y->files && y->missing && y->calls;
}

static void tally_clear(tally *y)
{
    stk__free(y->rows);
    stk__free(y->files);
    stk__free(y->missing);
    stk__free(y->calls);
}

static void tally_track(tally *y, const ops_pass *f, size_t track)
{
    const stk__trace *t = f->f->d->trace;
    const stk__trace_track *k = &t->tracks[track];
    y->rows[k->thread < t->thread_count ? t->threads[k->thread].name : k->name] = 1;
    y->files[k->file < t->file_count ? k->file : t->file_count] = 1;
    for (size_t i = k->first_slice, end = i + k->slice_count; i < end; i++) {
        stk__trim_at(t, i);
        if (!stk__slice_is_instant(t, i) && !stk__is_wait(f->f->c, i))
            y->missing[t->slices.name[i]] -= (double)t->slices.dur[i];
    }
}

static bool tally_totals(tally *y, const stk__trace *t)
{
    bool any = false;
    for (size_t i = 0; i < t->total_count; i++) {
        const stk__trace_total *total = &t->totals[i];
        if (!y->files[total->file] || !y->rows[total->track] ||
            strncmp(stk__trace_str(t, total->name), "wait", strlen("wait")) == 0)
            continue;
        y->missing[total->name] += (double)total->total_ns;
        y->calls[total->name] =
            (uint32_t)STK_MIN((uint64_t)y->calls[total->name] + STK_MIN(total->count, UINT32_MAX), UINT32_MAX);
        any = true;
    }
    return any;
}

/*
 * Our recorder's totals are exact and of the whole run, as is what the run itself says at its end: they have what came
 * before the first step, spans that were lost, and spans that are too short to be shown. What the slices do not show
 * of ops lay inside units, so that a unit's own time is less by it.
 */
static void sum_totals(ops_pass *f, const tally *y)
{
    const stk__trace *t = f->f->d->trace;
    stk__string unit = 0;
    double inside = 0;
    for (uint32_t s = 0; s < t->string_count; s++) {
        if (!y->calls[s])
            continue;
        f->calls[s] = STK_MAX(f->calls[s], y->calls[s]);
        f->sums[s] += STK_MAX(0.0, y->missing[s]);
        if (strcmp(stk__trace_str(t, s), "unit") == 0)
            unit = s;
        else
            inside += STK_MAX(0.0, y->missing[s]);
    }
    f->sums[unit] -= inside;
}

/* Puts exact sums in place of those within the steps, where the trace has them. */
static void make_exact(ops_pass *f, uint32_t owner)
{
    const stk__trace *t = f->f->d->trace;
    tally y = {0};
    if (!t->total_count)
        return;
    f->f->failed = !tally_init(&y, t);
    for (size_t k = 0; !f->f->failed && k < t->track_count; k++)
        if (is_worker(f, k, owner))
            tally_track(&y, f, k);
    if (!f->f->failed && tally_totals(&y, t)) {
        ops_pass whole = *f;
        stk__stage unused = {0};
        double room = 0;
        whole.start = t->start_ns;
        whole.end = t->end_ns;
        memset(f->sums, 0, t->string_count * sizeof *f->sums);
        memset(f->calls, 0, t->string_count * sizeof *f->calls);
        for (size_t k = 0; k < t->track_count; k++)
            if (is_worker(f, k, owner))
                sum_worker(&whole, (uint32_t)k, &unused, &room);
        sum_totals(f, &y);
    }
    tally_clear(&y);
}

static void ops_take(ops_pass *f, stk__stage *stage)
{
    const stk__trace *t = f->f->d->trace;
    for (uint32_t s = 0; s < t->string_count && !f->f->failed; s++) {
        if (f->sums[s] <= 0)
            continue;
        const uint32_t row = stk__stage_sum_named(f->f, 0, s, 0, 0);
        if (row == STK__NONE)
            return;
        f->f->sums[row].ns = f->sums[s];
        f->f->sums[row].calls = f->calls[s];
    }
    stk__stage_take(f->f, stage);
}

static void find_ops(ops_pass *f, stk__stage *stage, uint32_t owner)
{
    const stk__trace *t = f->f->d->trace;
    double room = 0, busy = 0;
    for (size_t k = 0; k < t->track_count; k++)
        if (is_worker(f, k, owner))
            sum_worker(f, (uint32_t)k, stage, &room);
    for (uint32_t s = 0; s < t->string_count; s++)
        busy += STK_MAX(0.0, f->sums[s]);
    if (busy > 0)
        make_exact(f, owner);
    ops_take(f, stage);
    if (!stage->count) {
        stage->workers = 0;
        return;
    }
    const double time = (double)stk__time_between(f->start, f->end) * (double)STK_MAX(stage->workers, 1u);
    stage->kind = STK__STAGE_OPS;
    stage->utilisation = time > 0 ? STK_MIN(1.0, busy / time) : 0;
    stage->room_share = time > 0 ? STK_MIN(1.0, room / time) : 0;
}

bool stk__stage_ops(stk__stage_finder *f, stk__stage *stage, uint32_t owner)
{
    const size_t strings = (size_t)f->d->trace->string_count + 1;
    ops_pass pass = {.f = f, .start = f->start, .end = f->end};
    pass.sums = stk__calloc(strings, sizeof *pass.sums);
    pass.calls = stk__calloc(strings, sizeof *pass.calls);
    const bool ok = pass.sums && pass.calls;
    if (ok)
        find_ops(&pass, stage, owner);
    stk__free(pass.sums);
    stk__free(pass.calls);
    return ok && !f->failed;
}
