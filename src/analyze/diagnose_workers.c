/* The slow stage of processes that feed a trainer: DataLoader workers, as samplers and tracers see them. */
#include <string.h>

#include "analyze/diagnose_stage.h"
#include "base/mem.h"

#include "base/banned.h"

/* A process that works less than this share of the steps' time is not the one that is waited for. */
#define BUSY_SHARE 0.01
/* A thread that works less than this share of what the busiest one does helps a worker. */
#define WORKER_SHARE 0.1

typedef struct helpers {
    stk__stage_finder *f;
    double *busy;          /* per track, lanes with their root's */
    double *process_busy;  /* per process */
    int64_t *first, *last; /* per track: when it is there, lanes with their root */
    stk__stage_stack stack;
    uint32_t *rows; /* of the stack: sums that its slices count for; STK__NONE: idle */
    size_t row_capacity;
} helpers;

/* Samplers of a whole process tree write the trainer down as well; it has its own file. */
static bool is_trainer(const stk__stage_finder *f, uint32_t process)
{
    const stk__trace *t = f->d->trace;
    const stk__trace_process *p = &t->processes[process];
    for (size_t r = 0; r < f->d->rank_count; r++) {
        const uint32_t own = f->d->ranks[r].process;
        if (own < t->process_count && t->processes[own].pid == p->pid && !p->pid_text && !t->processes[own].pid_text)
            return true;
    }
    return false;
}

bool stk__stage_is_helper(const stk__stage_finder *f, uint32_t track)
{
    const stk__trace *t = f->d->trace;
    const uint32_t process = stk__track_process(t, track);
    return f->owners[track] == STK__NONE && f->c->roles[track] == STK__ROLE_HOST && t->tracks[track].slice_count &&
           process < t->process_count && !stk__process_is_plane(t, process) &&
           !stk__is_device_work(f->c, t->tracks[track].first_slice) && !is_trainer(f, process);
}

static bool counts(const helpers *h, size_t i)
{
    return !stk__slice_is_instant(h->f->d->trace, i) && !stk__is_ignored(h->f->c, i);
}

/* Helpers of other files may have another clock: then all of their time counts. */
static void helper_range(stk__stage_finder *f)
{
    const stk__trace *t = f->d->trace;
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (size_t k = 0; k < t->track_count; k++) {
        if (!stk__stage_is_helper(f, (uint32_t)k))
            continue;
        const size_t begin = t->tracks[k].first_slice, end = begin + t->tracks[k].slice_count;
        first = STK_MIN(first, t->slices.ts[begin]);
        for (size_t i = begin; i < end; i++)
            if (!t->slices.depth[i])
                last = STK_MAX(last, t->slices.ts[i] + t->slices.dur[i]);
    }
    if (first >= last || (STK_MAX(first, f->start) < STK_MIN(last, f->end)))
        return;
    f->start = first;
    f->end = last;
}

/* ---- sums ---- */

static void give(helpers *h, uint32_t row, uint32_t track, double ns)
{
    const stk__trace *t = h->f->d->trace;
    if (row == STK__NONE)
        return;
    h->f->sums[row].ns += ns;
    h->busy[stk__track_root(t, track)] += ns;
    h->process_busy[stk__track_process(t, track)] += ns;
}

/* Takes the slices off the stack that do not hold this one. */
static void unwind(helpers *h, uint32_t parent)
{
    while (h->stack.count && h->stack.slices[h->stack.count - 1] != parent)
        h->stack.count--;
}

/* Self time: a slice's goes off that of the one around it. */
static bool add_slice(helpers *h, uint32_t track, uint32_t i)
{
    static const stk__stage_frame nothing = {.slice = STK__NONE};
    stk__stage_finder *f = h->f;
    const double ns = stk__stage_clipped(f, i);
    unwind(h, f->d->trace->slices.parent[i]);
    const size_t level = h->stack.count;
    const stk__stage_frame frame = stk__stage_frame_of(f, level ? &h->stack.frames[level - 1] : &nothing, i);
    if (!stk__stage_stack_push(&h->stack, i, &frame) ||
        !stk__grow((void **)&h->rows, &h->row_capacity, level + 1, sizeof *h->rows))
        return false;
    h->rows[level] = frame.idle ? STK__NONE : stk__stage_sum_at(f, stk__track_process(f->d->trace, track), frame.slice);
    if (f->failed)
        return false;
    if (level)
        give(h, h->rows[level - 1], track, -ns);
    give(h, h->rows[level], track, ns);
    if (h->rows[level] != STK__NONE && frame.slice == i && ns > 0)
        f->sums[h->rows[level]].calls++;
    return true;
}

static bool add_track(helpers *h, uint32_t track)
{
    const stk__trace *t = h->f->d->trace;
    const uint32_t root = stk__track_root(t, track);
    const size_t begin = t->tracks[track].first_slice, end = begin + t->tracks[track].slice_count;
    h->stack.count = 0;
    for (size_t i = begin; i < end; i++) {
        stk__trim_at(t, i);
        if (!counts(h, i))
            continue;
        h->first[root] = STK_MIN(h->first[root], t->slices.ts[i]);
        h->last[root] = STK_MAX(h->last[root], t->slices.ts[i] + t->slices.dur[i]);
        if (!add_slice(h, track, (uint32_t)i))
            return false;
    }
    return true;
}

/* ---- who is a worker ---- */

static bool works(const helpers *h, uint32_t process)
{
    const double steps = (double)stk__time_between(h->f->start, h->f->end);
    return process < h->f->d->trace->process_count && h->process_busy[process] >= BUSY_SHARE * steps;
}

static void leave_idlers_out(helpers *h)
{
    for (size_t i = 0; i < h->f->sum_count; i++)
        if (!works(h, h->f->sums[i].group))
            h->f->sums[i].ns = 0;
}

/*
 * py-spy tells threads apart by ids that forked processes share, and ends the slices of one when it samples another:
 * how long they were is lost then, while their shares are good.
 */
static bool shares_ids(const helpers *h, bool *out_shared)
{
    const stk__trace *t = h->f->d->trace;
    stk__keymap seen = {0};
    bool ok = true;
    for (size_t k = 0; ok && k < t->track_count && !*out_shared; k++) {
        const stk__trace_track *track = &t->tracks[k];
        if (h->busy[k] <= 0 || track->thread >= t->thread_count || !track->slice_count ||
            strcmp(stk__trace_str(t, t->slices.category[track->first_slice]), "py-spy") != 0)
            continue;
        bool fresh = false;
        const stk__trace_thread *thread = &t->threads[track->thread];
        ok = stk__keymap_place(&seen, (stk__key){{(uint64_t)thread->tid, thread->tid_text}}, 0, &fresh);
        *out_shared = ok && !fresh;
    }
    stk__keymap_clear(&seen);
    return ok;
}

/* Threads that work, and the share of the time that they are there. Queues' feeders and the like are no workers. */
static bool count_workers(const helpers *h, stk__stage *stage)
{
    const stk__trace *t = h->f->d->trace;
    double time = 0, busy = 0, most = 0;
    bool shared = false;
    if (!shares_ids(h, &shared))
        return false;
    for (size_t k = 0; k < t->track_count; k++)
        most = STK_MAX(most, h->busy[k]);
    for (size_t k = 0; k < t->track_count && !shared; k++) {
        if (h->busy[k] <= WORKER_SHARE * most || !works(h, stk__track_process(t, (uint32_t)k)))
            continue;
        stage->workers++;
        busy += h->busy[k];
        time += (double)stk__time_between(STK_MAX(h->first[k], h->f->start), STK_MIN(h->last[k], h->f->end));
    }
    stage->utilisation = time > 0 ? STK_MIN(1.0, busy / time) : 0;
    return true;
}

static bool helpers_init(helpers *h, stk__stage_finder *f)
{
    const stk__trace *t = f->d->trace;
    *h = (helpers){.f = f};
    h->busy = stk__calloc(t->track_count + 1, sizeof *h->busy);
    h->process_busy = stk__calloc(t->process_count + 1, sizeof *h->process_busy);
    h->first = stk__alloc((t->track_count + 1) * sizeof *h->first);
    h->last = stk__alloc((t->track_count + 1) * sizeof *h->last);
    if (!h->busy || !h->process_busy || !h->first || !h->last)
        return false;
    for (size_t k = 0; k < t->track_count; k++) {
        h->first[k] = INT64_MAX;
        h->last[k] = INT64_MIN;
    }
    return true;
}

static void helpers_clear(helpers *h)
{
    stk__free(h->busy);
    stk__free(h->process_busy);
    stk__free(h->first);
    stk__free(h->last);
    stk__free(h->rows);
    stk__stage_stack_clear(&h->stack);
}

bool stk__stage_workers(stk__stage_finder *f, stk__stage *stage)
{
    const stk__trace *t = f->d->trace;
    const int64_t start = f->start, end = f->end;
    helpers h;
    bool ok = helpers_init(&h, f);
    helper_range(f);
    for (size_t k = 0; ok && k < t->track_count; k++)
        if (stk__stage_is_helper(f, (uint32_t)k))
            ok = add_track(&h, (uint32_t)k);
    if (ok) {
        leave_idlers_out(&h);
        stk__stage_take(f, stage);
    }
    if (ok && stage->count) {
        stage->kind = STK__STAGE_WORKERS;
        ok = count_workers(&h, stage);
    } else {
        f->start = start;
        f->end = end;
    }
    helpers_clear(&h);
    return ok;
}
