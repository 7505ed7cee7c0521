/* Who trains: the processes that have steps, and the tracks of host and device that belong to each. */
#include <string.h>

#include "analyze/diagnose_impl.h"
#include "base/mem.h"

#include "base/banned.h"

typedef struct owning {
    stk__diagnosis *d;
    const stk__classifier *c;
    uint32_t *owners;     /* per track */
    uint32_t *of_process; /* rank of a process; STK__NONE */
    uint32_t *of_file;    /* first rank of a file; STK__NONE */
    uint32_t *in_file;    /* number of ranks of a file */
    bool *has_host;       /* per process: it has threads, not only streams */
} owning;

static bool ranks_collect(stk__diagnosis *d)
{
    size_t capacity = 0;
    for (size_t i = 0; i < d->steps.count; i++) {
        const stk__step *s = &d->steps.rows[i];
        stk__rank *last = d->rank_count ? &d->ranks[d->rank_count - 1] : NULL;
        /* Timelines of one process that were joined are one trainer, whatever files they are from. */
        const bool joined = s->kind == STK__STEP_TIMELINE && s->process != STK__NONE;
        if (last && (last->file == s->file || joined) && last->process == s->process) {
            last->step_count++;
            continue;
        }
        if (!stk__grow((void **)&d->ranks, &capacity, d->rank_count + 1, sizeof *d->ranks))
            return false;
        d->ranks[d->rank_count++] = (stk__rank){
            .file = s->file,
            .process = s->process,
            .first_step = i,
            .step_count = 1,
            .kind = (stk__step_kind)s->kind,
            .main_track = STK__NONE,
        };
    }
    return true;
}

/*
 * TensorFlow and XLA write one process as several; what is beside a trainer in other files' terms is another process.
 */
static uint32_t owner_of(const owning *o, uint32_t track)
{
    const stk__trace *t = o->c->trace;
    const uint32_t process = stk__track_process(t, track), file = t->tracks[track].file;
    if (process < t->process_count && o->of_process[process] != STK__NONE)
        return o->of_process[process];
    if (file >= t->file_count || o->in_file[file] != 1)
        return STK__NONE;
    const stk__rank *rank = &o->d->ranks[o->of_file[file]];
    const unsigned role = o->c->roles[track];
    const bool device = role == STK__ROLE_DEVICE || role == STK__ROLE_DERIVED;
    /* Steps may have been found on a device's row alone: then the host's threads are those of other processes. */
    const bool of_device = rank->process >= t->process_count || !o->has_host[rank->process];
    if (device || of_device || process == STK__NONE || stk__process_is_plane(t, process))
        return o->of_file[file];
    /* Kineto's streams are known by their slices' categories where their names do not tell. */
    if (t->tracks[track].slice_count && stk__is_device_work(o->c, t->tracks[track].first_slice))
        return o->of_file[file];
    return STK__NONE;
}

/* Files of several ranks: an arrow from a launch to its kernel says whose stream it is. */
static void own_by_flows(const owning *o)
{
    const stk__trace *t = o->c->trace;
    for (size_t i = 0; i < t->flows.count; i++) {
        if (t->flows.out[i] >= t->slices.count || t->flows.in[i] >= t->slices.count)
            continue;
        const uint32_t from = t->slices.track[t->flows.out[i]], to = t->slices.track[t->flows.in[i]];
        if (o->owners[from] != STK__NONE && o->owners[to] == STK__NONE && stk__is_device_work(o->c, t->flows.in[i]))
            o->owners[to] = o->owners[from];
    }
}

/* Without arrows: as many devices as ranks are taken in order. */
static void own_by_order(const owning *o, uint32_t file)
{
    const stk__trace *t = o->c->trace;
    uint32_t last_process = STK__NONE, devices = 0;
    for (int pass = 0; pass < 2; pass++) {
        last_process = STK__NONE;
        uint32_t nth = 0;
        for (size_t k = 0; k < t->track_count; k++) {
            const uint32_t process = stk__track_process(t, (uint32_t)k);
            if (t->tracks[k].file != file || o->owners[k] != STK__NONE || !t->tracks[k].slice_count ||
                !stk__is_device_work(o->c, t->tracks[k].first_slice))
                continue;
            if (process != last_process)
                nth++;
            last_process = process;
            if (pass == 1 && devices == o->in_file[file])
                o->owners[k] = o->of_file[file] + nth - 1;
        }
        devices = nth;
        if (pass == 0 && devices != o->in_file[file])
            return;
    }
}

static void own_tracks(const owning *o)
{
    const stk__trace *t = o->c->trace;
    bool several = false;
    for (size_t k = 0; k < t->track_count; k++)
        o->owners[k] = owner_of(o, (uint32_t)k);
    for (size_t f = 0; f < t->file_count; f++)
        several = several || o->in_file[f] > 1;
    if (several && o->c->has_device) {
        own_by_flows(o);
        for (size_t f = 0; f < t->file_count; f++)
            if (o->in_file[f] > 1)
                own_by_order(o, (uint32_t)f);
    }
    for (size_t k = 0; k < t->track_count; k++)
        o->owners[k] = o->owners[stk__track_root(t, (uint32_t)k)];
}

/* ---- the main thread and its waits ---- */

typedef struct main_pick {
    double waits, busy; /* of the best track so far */
    uint32_t by_waits, by_busy;
} main_pick;

static void look_at_track(const stk__classifier *c, uint32_t track, stk__rank *rank, main_pick *pick)
{
    const stk__trace *t = c->trace;
    const stk__trace_track *k = &t->tracks[track];
    double waits = 0, busy = 0;
    if (c->roles[track] != STK__ROLE_HOST)
        return;
    for (size_t i = k->first_slice, end = i + k->slice_count; i < end; i++) {
        const unsigned wait = stk__slice_wait(c, i);
        if (wait != STK__WAIT_NONE) {
            rank->waits_seen |= 1u << wait;
            if (wait != STK__WAIT_HINT)
                waits += (double)t->slices.dur[i] + 1;
        }
        if (!t->slices.depth[i] && !stk__is_ignored(c, i))
            busy += (double)t->slices.dur[i];
        stk__trim_at(t, i);
    }
    if (waits > pick->waits) {
        pick->waits = waits;
        pick->by_waits = stk__track_root(t, track);
    }
    if (busy > pick->busy) {
        pick->busy = busy;
        pick->by_busy = stk__track_root(t, track);
    }
}

/* Waits of the kinds that count. */
static bool track_has_waits(const stk__classifier *c, uint32_t track, unsigned waits)
{
    const stk__trace_track *k = &c->trace->tracks[track];
    for (size_t i = k->first_slice, end = i + k->slice_count; i < end; i++)
        if (waits & ~(1u << STK__WAIT_NONE) & 1u << stk__slice_wait(c, i))
            return true;
    return false;
}

static void choose_main(const stk__classifier *c, const stk__diagnosis *d, stk__rank *rank, const main_pick *pick)
{
    const stk__trace *t = c->trace;
    const uint32_t marker = d->steps.rows[rank->first_step].slice;
    const bool by_marker = rank->kind == STK__STEP_PROFILER || rank->kind == STK__STEP_RANGE ||
                           rank->kind == STK__STEP_XPROF || rank->kind == STK__STEP_LIGHTNING ||
                           (rank->kind == STK__STEP_TOLD && marker < t->slices.count &&
                            c->roles[t->slices.track[marker]] == STK__ROLE_HOST);
    if (by_marker && marker < t->slices.count)
        rank->main_track = stk__track_root(t, t->slices.track[marker]);
    else
        rank->main_track = pick->by_waits != STK__NONE ? pick->by_waits : pick->by_busy;
    rank->waits = stk__waits_that_count(rank->waits_seen);
    rank->own_hints_only = by_marker && rank->main_track != STK__NONE;
    /*
     * A thread that prefetches waits for data without anybody waiting for it. TensorFlow runs the ops of functions on
     * any thread, and XProf counts them all: so here, where the thread of the markers does not wait itself.
     */
    rank->own_waits_only =
        by_marker && rank->main_track != STK__NONE && track_has_waits(c, rank->main_track, rank->waits);
}

static bool find_mains(const owning *o)
{
    const stk__trace *t = o->c->trace;
    stk__diagnosis *d = o->d;
    main_pick *picks = stk__calloc(d->rank_count + 1, sizeof *picks);
    if (!picks)
        return false;
    for (size_t r = 0; r < d->rank_count; r++)
        picks[r] = (main_pick){.by_waits = STK__NONE, .by_busy = STK__NONE};
    for (size_t k = 0; k < t->track_count; k++)
        if (o->owners[k] != STK__NONE)
            look_at_track(o->c, (uint32_t)k, &d->ranks[o->owners[k]], &picks[o->owners[k]]);
    for (size_t r = 0; r < d->rank_count; r++)
        choose_main(o->c, d, &d->ranks[r], &picks[r]);
    stk__free(picks);
    return true;
}

static void index_ranks(owning *o)
{
    const stk__trace *t = o->c->trace;
    for (size_t k = 0; k < t->track_count; k++) {
        const uint32_t process = stk__track_process(t, (uint32_t)k);
        if (process < t->process_count && t->tracks[k].slice_count && o->c->roles[k] == STK__ROLE_HOST &&
            !stk__is_device_work(o->c, t->tracks[k].first_slice))
            o->has_host[process] = true;
    }
    memset(o->of_process, 0xff, (t->process_count + 1) * sizeof *o->of_process);
    memset(o->of_file, 0xff, (t->file_count + 1) * sizeof *o->of_file);
    for (size_t r = o->d->rank_count; r-- > 0;) {
        const stk__rank *rank = &o->d->ranks[r];
        if (rank->process < t->process_count)
            o->of_process[rank->process] = (uint32_t)r;
        if (rank->file < t->file_count) {
            o->of_file[rank->file] = (uint32_t)r;
            o->in_file[rank->file]++;
        }
    }
}

stk_status stk__ranks_make(stk__diagnosis *d, const stk__classifier *c, uint32_t **out_owners, stk_error *err)
{
    const stk__trace *t = c->trace;
    owning o = {.d = d, .c = c};
    o.owners = stk__alloc((t->track_count + 1) * sizeof *o.owners);
    o.of_process = stk__alloc((t->process_count + 1) * sizeof *o.of_process);
    o.of_file = stk__alloc((t->file_count + 1) * sizeof *o.of_file);
    o.in_file = stk__calloc(t->file_count + 1, sizeof *o.in_file);
    o.has_host = stk__calloc(t->process_count + 1, sizeof *o.has_host);
    bool ok = o.owners && o.of_process && o.of_file && o.in_file && o.has_host && ranks_collect(d);
    if (ok) {
        index_ranks(&o);
        own_tracks(&o);
        ok = find_mains(&o);
    }
    stk__free(o.of_process);
    stk__free(o.of_file);
    stk__free(o.in_file);
    stk__free(o.has_host);
    if (!ok) {
        stk__free(o.owners);
        return stk__nomem(t->track_count * sizeof(uint32_t), err);
    }
    *out_owners = o.owners;
    return STK_OK;
}
