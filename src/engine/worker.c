/* A worker takes a part through the segment, tile by tile, and leaves the rows where they belong. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/run.h"

/* Tiles are as large as keeps their scratch memory in the second-level cache. */
#define TILE_BYTES (192 * 1024)
/* Units that follow each other are shown as one up to this length. */
#define TRACE_NS 500000
/* Tables of a worker up to this size are not charged. */
#define TABLE_FREE ((size_t)512 * 1024)

static stk_status open_calls(stk_pipeline *p, stk__worker *w, stk_error *err)
{
    for (int i = 0; i < p->plan.segment_count; i++) {
        stk__step *step = p->plan.segment[i];
        stk__worker_call *wc = &w->calls[i];
        wc->call = (stk_call){.host = &stk__host, .state = step->state, .impl = p, .slots = w->slots};
        wc->worker = w;
        wc->step = i;
        const uint64_t key = stk__mix(p->plan.config.seed, (uint64_t)step->draws + 1);
        wc->key[0] = (uint32_t)key;
        wc->key[1] = (uint32_t)(key >> 32);
        if (step->unused || !step->op->worker_open)
            continue;
        STK_TRY(step->op->worker_open(&wc->call, &wc->call.worker, err));
        wc->opened = true;
    }
    return STK_OK;
}

static stk_status open_groups(const stk_pipeline *p, stk__worker *w, stk_error *err)
{
    for (int i = 0; i < p->plan.segment_count; i++) {
        const stk__step *step = p->plan.segment[i];
        stk__worker_call *wc = &w->calls[i];
        if (!step->group)
            continue;
        wc->group = stk__calloc((size_t)step->group_count, sizeof *wc->group);
        if (!wc->group)
            return stk__nomem((size_t)step->group_count * sizeof *wc->group, err);
        for (int k = 0; k < step->group_count; k++)
            wc->group[wc->group_count++] = &w->calls[step->group[k]].call;
    }
    return STK_OK;
}

int stk__tile_most(int vars)
{
    const int64_t fit = TILE_BYTES / ((int64_t)STK_MAX(vars, 1) * (int64_t)sizeof(stk_value));
    return (int)STK_MAX(1, STK_MIN(fit, STK__TILE_MAX));
}

/* What stands by sample, field and step. Little is not worth counting: 2 MiB of each thread are outside of the budget. */
static size_t table_bytes(const stk_pipeline *p)
{
    const size_t vars = (size_t)p->plan.var_count, tile = (size_t)p->tile_most;
    const size_t bytes = tile * (sizeof(stk__tile_sample) + vars * (sizeof(stk_value) + 1)) + vars * sizeof(stk_slot) +
                         (size_t)p->plan.segment_count * sizeof(stk__worker_call) +
                         (size_t)stk__slot_count(p) * 5 * sizeof(int64_t) + (size_t)p->columns * 2 * sizeof(size_t);
    return bytes > TABLE_FREE ? bytes : 0;
}

static stk_status make_tables(const stk_pipeline *p, stk__worker *w, stk_error *err)
{
    const size_t steps = (size_t)p->plan.segment_count, slots = (size_t)stk__slot_count(p);
    const size_t vars = (size_t)p->plan.var_count, tile = (size_t)p->tile_most;
    w->calls = stk__calloc(steps, sizeof *w->calls);
    w->tile = stk__calloc(tile, sizeof *w->tile);
    w->values = stk__calloc(tile * vars, sizeof *w->values);
    w->slots = stk__calloc(vars, sizeof *w->slots);
    w->placed = stk__calloc(tile * vars, 1);
    w->unit_ns = stk__calloc(slots, sizeof *w->unit_ns);
    w->traced_ns = stk__calloc(slots, sizeof *w->traced_ns);
    w->busy_ns = stk__calloc(slots, sizeof *w->busy_ns);
    w->samples = stk__calloc(slots, sizeof *w->samples);
    w->mark.samples = stk__calloc(slots, sizeof *w->mark.samples);
    w->mark.sizes = stk__calloc((size_t)p->columns, 2 * sizeof *w->mark.sizes);
    if (!w->calls || !w->tile || !w->values || !w->slots || !w->placed || !w->unit_ns || !w->traced_ns || !w->busy_ns ||
        !w->samples || !w->mark.samples || !w->mark.sizes)
        return stk__nomem(tile * vars * sizeof *w->values, err);
    return STK_OK;
}

stk_status stk__worker_open(stk_pipeline *p, stk__worker *w, int number, stk_error *err)
{
    const size_t vars = (size_t)p->plan.var_count;
    w->pipeline = p;
    w->number = number;
    atomic_init(&w->stall_step, -1);
    STK_TRY(stk__budget_take(&p->budget, table_bytes(p), err));
    w->table_bytes = table_bytes(p);
    STK_TRY(make_tables(p, w, err));
    for (size_t i = 0; i < (size_t)p->tile_most; i++) {
        w->tile[i].sample.values = w->values + i * vars;
        w->tile[i].placed = w->placed + i * vars;
        w->tile[i].sample.impl = w;
        /* A fixed shape is the same for every sample: it is set once. */
        for (size_t id = 0; id < vars; id++) {
            const stk__var *var = &p->plan.vars[id];
            if (!var->fixed)
                continue;
            memcpy(w->tile[i].sample.values[id].shape, var->shape, sizeof var->shape);
            w->tile[i].sample.values[id].elements = var->elements;
        }
    }
    STK_TRY(open_calls(p, w, err));
    return open_groups(p, w, err);
}

void stk__worker_close(stk_pipeline *p, stk__worker *w)
{
    for (int i = 0; w->calls && i < p->plan.segment_count; i++) {
        const stk_op *op = p->plan.segment[i]->op;
        if (w->calls[i].opened && op->worker_close)
            op->worker_close(&w->calls[i].call);
        stk__free(w->calls[i].group);
    }
    stk__arena_release(&w->scratch, p->chunks);
    stk__buffer_clear(&w->cache_buffer, &p->budget);
    stk__free(w->calls);
    stk__free(w->tile);
    stk__free(w->values);
    stk__free(w->slots);
    stk__free(w->placed);
    stk__free(w->unit_ns);
    stk__free(w->traced_ns);
    stk__free(w->mark.sizes);
    stk__free(w->mark.samples);
    stk__budget_return(&p->budget, w->table_bytes);
    w->table_bytes = 0;
    w->calls = NULL;
}

void stk__worker_clear(stk__worker *w)
{
    stk__free((void *)w->busy_ns);
    stk__free((void *)w->samples);
}

/* Keeps an error that ends the run: that of the lowest row. */
static void run_failed(stk__part *part, int64_t row, const stk_error *error)
{
    if (part->error_row < 0 || row < part->error_row) {
        part->error_row = row;
        part->error = *error;
    }
}

/* Keeps an error about one row: the run's failure, or one more bad record. */
static void row_failed(stk__worker *w, stk__tile_sample *ts, int step, stk_error *error)
{
    stk_pipeline *p = w->pipeline;
    stk__part *part = w->part;
    stk__error_origin(error, &ts->sample.origin, p->plan.segment[step]->op->name); /* unless the op was named already */
    ts->alive = false;
    const bool about_data = error->status == STK_CORRUPT || error->status == STK_UNFIT || error->status == STK_IO ||
                            error->status == STK_UNSUPPORTED;
    if (p->direct || !about_data || p->plan.config.on_error == STK_ON_ERROR_STOP) {
        run_failed(part, ts->sample.row, error);
        return;
    }
    stk__bad *bad = stk__calloc(1, sizeof *bad);
    if (!bad) {
        part->error_row = ts->sample.row;
        stk__nomem(sizeof *bad, &part->error);
        return;
    }
    bad->row = ts->sample.row;
    bad->error = *error;
    bad->origin = ts->sample.origin;
    part->dropped_at[ts->sample.row] = step;
    stk__bad **link = &part->bad;
    while (*link && (*link)->row < bad->row)
        link = &(*link)->next;
    bad->next = *link;
    *link = bad;
}

static void row_dropped(stk__worker *w, stk__tile_sample *ts, int step)
{
    assert(!w->pipeline->direct);
    ts->alive = false;
    w->part->dropped_at[ts->sample.row] = step;
}

/* One sample through what runs at this step: an op, or several as one. */
static stk_status run_sample(const stk_pipeline *p, const stk__worker_call *wc, stk_sample *sample, stk_error *error)
{
    const stk__step *step = p->plan.segment[wc->step];
    if (!wc->group)
        return step->op->process(&wc->call, sample, error);
    size_t at = 0;
    const stk_status status = step->op->fuse->process(wc->group, wc->group_count, sample, &at, error);
    if (STK_UNLIKELY(status != STK_OK))
        snprintf(error->op, sizeof error->op, "%s", p->plan.segment[step->group[at]]->op->name);
    return status;
}

static bool runs(const stk__worker *w, int i, int step)
{
    return w->tile[i].alive && !(w->tile[i].cached && step < w->pipeline->plan.cache_at);
}

/* Sample i and the one that runs after it, for ops that gain by seeing two. Returns what comes behind these. */
static int pair_up(const stk__worker *w, const stk__worker_call *wc, int i, int n)
{
    int next = i + 1;
    while (next < n && !runs(w, next, wc->step))
        next++;
    if (next < n)
        w->pipeline->plan.segment[wc->step]->op->fuse->pair(wc->group, wc->group_count, &w->tile[i].sample, &w->tile[next].sample);
    return next + 1;
}

/* Ops that gain by seeing many samples get those of the tile at once, before one by one. False: that ended the run. */
static bool gather_tile(stk__worker *w, int step, int n, stk_error *error)
{
    const stk_op *op = w->pipeline->plan.segment[step]->op;
    if (!op->gather)
        return true;
    stk_sample *todo[STK__TILE_MAX];
    size_t count = 0;
    for (int i = 0; i < n; i++)
        if (runs(w, i, step))
            todo[count++] = &w->tile[i].sample;
    error->status = STK_OK;
    if (count == 0 || op->gather(&w->calls[step].call, todo, count, error) == STK_OK)
        return true;
    if (!error->op[0])
        snprintf(error->op, sizeof error->op, "%s", op->name);
    run_failed(w->part, todo[0]->row, error);
    for (int i = 0; i < n; i++)
        w->tile[i].alive = false; /* nothing was made: later steps must not look */
    return false;
}

/* One step over the tile. */
static void run_step(stk__worker *w, int step, int n, stk_error *error)
{
    stk_pipeline *p = w->pipeline;
    const stk__worker_call *wc = &w->calls[step];
    const bool pairs = wc->group && p->plan.segment[step]->op->fuse->pair;
    int done = 0, next_pair = 0;
    if (!gather_tile(w, step, n, error))
        return;
    for (int i = 0; i < n; i++) {
        stk__tile_sample *ts = &w->tile[i];
        if (!runs(w, i, step))
            continue;
        if (pairs && i >= next_pair)
            next_pair = pair_up(w, wc, i, n);
        error->status = STK_OK;
        const stk_status status = run_sample(p, wc, &ts->sample, error);
        done++;
        if (STK_LIKELY(status == STK_OK))
            continue;
        if (status == STK_DROP) {
            row_dropped(w, ts, step);
        } else {
            if (error->status == STK_OK)
                stk_error_set(error, status, "failed without a message");
            row_failed(w, ts, step, error);
        }
    }
    atomic_fetch_add_explicit(&w->samples[step], done, memory_order_relaxed);
}

/* Streams: values come from the items. */
static void load_items(stk__worker *w, int n, stk_error *error)
{
    stk_pipeline *p = w->pipeline;
    const stk__step *source = p->plan.source;
    for (int i = 0; i < n; i++) {
        stk__tile_sample *ts = &w->tile[i];
        const stk__item *item = w->part->items[ts->sample.row];
        if (!ts->alive)
            continue;
        ts->sample.origin = item->origin;
        if (item->bad) {
            *error = item->bad->error;
            row_failed(w, ts, 0, error);
            continue;
        }
        if (ts->cached)
            continue;
        error->status = STK_OK;
        if (item->from_cache) {
            stk_error_set(error, STK_IO, "sample %lld cannot be read from the cache any more, and the stream has passed it",
                          (long long)ts->sample.index);
            snprintf(error->op, sizeof error->op, "cache");
            run_failed(w->part, ts->sample.row, error);
            ts->alive = false;
            continue;
        }
        if (stk__unpack(&p->plan, source->writes, (int)source->write_count, item->packed.data, item->packed.size,
                        ts->sample.values, &w->scratch, p->chunks, error) != STK_OK)
            row_failed(w, ts, 0, error);
    }
}

/* The source reads for the samples that the cache does not have. */
static void run_source(stk__worker *w, int n, stk_error *error)
{
    if (w->pipeline->plan.stream)
        load_items(w, n, error);
    else
        run_step(w, 0, n, error);
}

/* One sample from the cache, or a note on who makes it. */
static void load_one(stk__worker *w, stk__tile_sample *ts, stk_error *error)
{
    stk_pipeline *p = w->pipeline;
    int32_t dropped_at = STK__ROW_KEPT;
    stk__claim claim;
    error->status = STK_OK;
    const stk_status status =
        stk__cache_get(p, w, ts->sample.index, ts->sample.values, &dropped_at, &claim, error);
    ts->cached = status == STK_OK || claim == STK__CLAIM_OTHERS;
    ts->claimed = claim == STK__CLAIM_MINE;
    ts->awaited = claim == STK__CLAIM_OTHERS;
    if (status == STK_OK && dropped_at != STK__ROW_KEPT)
        row_dropped(w, ts, dropped_at);
    else if (status != STK_OK && status != STK_END)
        row_failed(w, ts, 0, error);
}

static void load_cached(stk__worker *w, int n, stk_error *error)
{
    for (int i = 0; i < n; i++)
        load_one(w, &w->tile[i], error);
}

static bool is_bad(const stk__part *part, int64_t row)
{
    for (const stk__bad *bad = part->bad; bad; bad = bad->next)
        if (bad->row == row)
            return true;
    return false;
}

static void store_cached(stk__worker *w, int n, stk_error *error)
{
    for (int i = 0; i < n; i++) {
        stk__tile_sample *ts = &w->tile[i];
        const int32_t dropped_at = w->part->dropped_at ? w->part->dropped_at[ts->sample.row] : STK__ROW_KEPT;
        /* A bad record is not stored: it is met, and counted, again. */
        const bool kept = !ts->cached && (ts->alive || dropped_at != STK__ROW_KEPT) && !is_bad(w->part, ts->sample.row);
        error->status = STK_OK;
        if (kept && stk__cache_put(w->pipeline, w, ts->sample.index, ts->sample.values, dropped_at, error) != STK_OK) {
            /* The disk's failure, not the sample's: it ends the run whatever the policy for bad records. */
            snprintf(error->op, sizeof error->op, "cache");
            run_failed(w->part, ts->sample.row, error);
        }
        if (ts->claimed)
            stk__cache_unclaim(w->pipeline, ts->sample.index);
        ts->claimed = false;
    }
}

/* Waits for samples that others were making. Its own are stored by now: who waits has no claims. */
static void wait_for_others(stk__worker *w, int n)
{
    const int64_t start = stk__now_ns();
    int waited = 0;
    for (int i = 0; i < n; i++) {
        if (!w->tile[i].awaited || !w->tile[i].alive)
            continue;
        stk__cache_wait(w->pipeline, w->tile[i].sample.index);
        waited++;
    }
    if (waited && w->track)
        stk__track_slice(w->track,
                         stk__recorder_name(w->pipeline->recorder, "wait: another worker makes the samples", "wait"),
                         start, stk__now_ns(), NULL);
}

/* Takes them from the cache. True when some must be made here after all, because those who were at it gave up. */
static bool load_awaited(stk__worker *w, int n, stk_error *error)
{
    bool any = false;
    wait_for_others(w, n);
    for (int i = 0; i < n; i++) {
        stk__tile_sample *ts = &w->tile[i];
        const bool awaited = ts->awaited && ts->alive;
        ts->cached = true; /* what was made is not made twice */
        ts->awaited = false;
        if (!awaited)
            continue;
        load_one(w, ts, error);
        if (ts->awaited) { /* others were faster once more: no more waiting */
            stk__cache_missed(w->pipeline);
            ts->cached = ts->awaited = false;
        }
        any = any || (ts->alive && !ts->cached);
    }
    return any;
}

static stk_status place_contents(stk__worker *w, stk_bytes *views, int64_t count, stk_error *err)
{
    for (int64_t i = 0; i < count; i++) {
        if (views[i].size == 0)
            continue;
        uint8_t *copy = stk__arena_alloc(&w->part->arena, w->pipeline->chunks, (size_t)views[i].size, err);
        if (!copy)
            return err->status;
        memcpy(copy, views[i].data, (size_t)views[i].size);
        views[i].data = copy;
    }
    return STK_OK;
}

/* Puts the values of one column of one sample where the part keeps them. */
static stk_status store_value(stk__worker *w, stk__tile_sample *ts, int c, stk_error *err)
{
    stk_pipeline *p = w->pipeline;
    stk__part *part = w->part;
    const int id = p->plan.visible[c];
    const stk__var *var = &p->plan.vars[id];
    const stk_value *value = &ts->sample.values[id];
    const size_t bytes = (size_t)value->elements * var->element_bytes;
    stk_bytes *views;
    if (var->fixed) {
        if (!bytes)
            return STK_OK;
        char *row = part->dense[c] + (size_t)ts->sample.row * p->column_row_bytes[c];
        if (value->data != row)
            memcpy(row, value->data, bytes);
        views = (stk_bytes *)(void *)row;
    } else {
        const size_t shape_bytes = sizeof(int64_t) * (size_t)var->ndim;
        STK_TRY(stk__buffer_reserve(&part->ragged[c], &p->budget, bytes, err));
        STK_TRY(stk__buffer_reserve(&part->shapes[c], &p->budget, shape_bytes, err));
        views = (stk_bytes *)(void *)(part->ragged[c].data + part->ragged[c].size);
        if (bytes)
            memcpy(part->ragged[c].data + part->ragged[c].size, value->data, bytes);
        memcpy(part->shapes[c].data + part->shapes[c].size, value->shape, shape_bytes);
        part->ragged[c].size += bytes;
        part->shapes[c].size += shape_bytes;
    }
    if (var->dtype == STK_BYTES && !ts->placed[id])
        return place_contents(w, views, value->elements, err);
    return STK_OK;
}

/* Rows that fell out have no elements in ragged columns. */
static stk_status store_gap(stk__worker *w, int c, stk_error *err)
{
    stk_pipeline *p = w->pipeline;
    const stk__var *var = &p->plan.vars[p->plan.visible[c]];
    if (var->fixed)
        return STK_OK;
    const size_t shape_bytes = sizeof(int64_t) * (size_t)var->ndim;
    STK_TRY(stk__buffer_reserve(&w->part->shapes[c], &p->budget, shape_bytes, err));
    memset(w->part->shapes[c].data + w->part->shapes[c].size, 0, shape_bytes);
    w->part->shapes[c].size += shape_bytes;
    return STK_OK;
}

static void store_tile(stk__worker *w, int n, stk_error *error)
{
    const stk_pipeline *p = w->pipeline;
    for (int k = 0; k < p->stored_count; k++) {
        const int c = p->stored_columns[k];
        for (int i = 0; i < n; i++) {
            stk__tile_sample *ts = &w->tile[i];
            error->status = STK_OK;
            if (ts->alive && store_value(w, ts, c, error) != STK_OK)
                row_failed(w, ts, 0, error);
            else if (!ts->alive && store_gap(w, c, error) != STK_OK)
                row_failed(w, ts, 0, error);
        }
    }
}

static void stall_mark(stk__worker *w, int step, int64_t now)
{
    atomic_store_explicit(&w->stall_index, w->tile[0].sample.index, memory_order_relaxed);
    atomic_store_explicit(&w->stall_since_ns, now, memory_order_relaxed);
    atomic_store_explicit(&w->stall_step, step, memory_order_relaxed);
}

/* Adds the time since *now to a slot of the unit's times. */
static void charge_time(stk__worker *w, int slot, int64_t *now)
{
    const int64_t then = stk__now_ns();
    w->unit_ns[slot] += then - *now;
    *now = then;
}

/* The tile through steps [from, to); adds each step's time to unit_ns. */
static void run_steps(stk__worker *w, int n, int from, int to, int64_t *now, stk_error *error)
{
    for (int step = from; step < to; step++) {
        const stk__step *s = w->pipeline->plan.segment[step];
        if (s->unused || s->absorbed || (step > 0 && !s->op->process))
            continue;
        stall_mark(w, step, *now);
        if (step == 0)
            run_source(w, n, error);
        else
            run_step(w, step, n, error);
        charge_time(w, step, now);
    }
}

/* The tile up to the cache: what is stored comes from there, the rest is made and stored. */
static void run_to_cache(stk__worker *w, int n, int64_t *now, stk_error *error)
{
    const stk_pipeline *p = w->pipeline;
    const int slot = stk__slot_cache(p);
    load_cached(w, n, error);
    bool more;
    do {
        charge_time(w, slot, now);
        run_steps(w, n, 0, p->plan.cache_at, now, error);
        store_cached(w, n, error);
        more = load_awaited(w, n, error);
    } while (more);
    charge_time(w, slot, now);
}

/* The tile through all steps. Returns the time at the end. */
static int64_t run_tile(stk__worker *w, int n, int64_t now)
{
    stk_pipeline *p = w->pipeline;
    stk_error error;
    stk_error_clear(&error);
    if (p->cache)
        run_to_cache(w, n, &now, &error);
    run_steps(w, n, p->cache ? p->plan.cache_at : 0, p->plan.segment_count, &now, &error);
    store_tile(w, n, &error);
    return now;
}

static int tile_size(const stk_pipeline *p)
{
    const int64_t scratch = atomic_load_explicit(&p->scratch_per_sample, memory_order_relaxed);
    const int64_t each = scratch + p->plan.var_count * (int64_t)sizeof(stk_value);
    const int64_t n = scratch > 0 ? TILE_BYTES / each : 16;
    return (int)STK_MAX(1, STK_MIN(n, p->tile_most));
}

static void note_scratch(stk__worker *w, int n)
{
    stk_pipeline *p = w->pipeline;
    const int64_t each = (int64_t)w->scratch.bytes / n + 1;
    const int64_t mean = atomic_load_explicit(&p->scratch_per_sample, memory_order_relaxed);
    atomic_store_explicit(&p->scratch_per_sample, mean ? (mean * 7 + each) / 8 : each, memory_order_relaxed);
}

/*
 * Slices of the units since the last wait: their steps one after the other, each as long as it took in all of them. Short
 * units are shown together, so that a trace of many small batches costs no more than one of few large ones.
 */
void stk__worker_trace(stk__worker *w)
{
    stk_pipeline *p = w->pipeline;
    if (!w->traced_open)
        return;
    const stk__slice_args args = {.name = {p->names.arg_rows}, .value = {w->traced_rows}};
    stk__track_slice(w->track, p->names.unit, w->traced_start_ns, w->traced_end_ns, &args);
    int64_t at = w->traced_start_ns;
    for (int i = 0; i < stk__slot_count(p); i++) {
        if (w->traced_ns[i])
            stk__track_brief(w->track, p->names.steps[i], at, at + w->traced_ns[i]);
        at += w->traced_ns[i];
        w->traced_ns[i] = 0;
    }
    w->traced_rows = 0;
    w->traced_open = false;
}

void stk__worker_trace_add(stk__worker *w, int slot, int64_t start, int64_t end)
{
    if (!w->traced_open)
        w->traced_start_ns = start;
    w->traced_open = true;
    w->traced_end_ns = end;
    w->traced_ns[slot] += end - start;
}

/* Adds a unit to what will be traced; shows it when it is long enough. */
static void trace_unit(stk__worker *w, int64_t start, int64_t end)
{
    stk__worker_trace_add(w, 0, start, start);
    for (int i = 0; i < stk__slot_count(w->pipeline); i++)
        w->traced_ns[i] += w->unit_ns[i];
    w->traced_end_ns = end;
    w->traced_rows += w->part->rows;
    if (end - w->traced_start_ns >= TRACE_NS || !w->pipeline->direct)
        stk__worker_trace(w);
}

/* Tells ops where rows of this part go. */
static void set_slots(stk__worker *w, const stk__part *part)
{
    const stk_pipeline *p = w->pipeline;
    for (int c = 0; c < p->columns; c++) {
        const int id = p->plan.visible[c];
        const stk__var *var = &p->plan.vars[id];
        /* Where columns are stored from their values (streams, caches), these are read once more. */
        const bool unread = !var->read && var->dtype != STK_BYTES && !p->plan.stream && !p->plan.cache;
        w->slots[id] = (stk_slot){var->fixed ? part->dense[c] : NULL, var->row_bytes, unread};
    }
}

/* ---- tiles that find no memory are done again ---- */

static void mark_tile(stk__worker *w)
{
    const stk_pipeline *p = w->pipeline;
    const stk__part *part = w->part;
    w->mark.arena = stk__arena_here(&part->arena);
    w->mark.bytes_read = atomic_load_explicit(&w->bytes_read, memory_order_relaxed);
    for (int i = 0; i < stk__slot_count(p); i++)
        w->mark.samples[i] = atomic_load_explicit(&w->samples[i], memory_order_relaxed);
    for (int k = 0; k < p->stored_count; k++) {
        const int c = p->stored_columns[k];
        w->mark.sizes[2 * c] = part->ragged[c].size;
        w->mark.sizes[2 * c + 1] = part->shapes[c].size;
    }
}

/* Forgets what the tile whose first row this is has left in the part, and frees its scratch memory. */
static void undo_tile(stk__worker *w, int64_t first)
{
    const stk_pipeline *p = w->pipeline;
    stk__part *part = w->part;
    stk__arena_rewind(&part->arena, p->chunks, w->mark.arena);
    atomic_store_explicit(&w->bytes_read, w->mark.bytes_read, memory_order_relaxed);
    for (int i = 0; i < stk__slot_count(p); i++)
        atomic_store_explicit(&w->samples[i], w->mark.samples[i], memory_order_relaxed);
    for (int k = 0; k < p->stored_count; k++) {
        const int c = p->stored_columns[k];
        part->ragged[c].size = w->mark.sizes[2 * c];
        part->shapes[c].size = w->mark.sizes[2 * c + 1];
    }
    stk__bad **link = &part->bad;
    while (*link && (*link)->row < first)
        link = &(*link)->next;
    while (*link) {
        stk__bad *next = (*link)->next;
        stk__free(*link);
        *link = next;
    }
    part->error_row = -1;
    stk__arena_release(&w->scratch, p->chunks);
    atomic_store_explicit(&w->stall_step, -1, memory_order_relaxed); /* it waits for memory, not for an op */
}

/*
 * Whether the tile is to be done again, after waiting for memory; *alone: it is the only one at work, until `stk__room_leave`.
 * Else the part has the error.
 */
static bool try_again(stk__worker *w, int64_t first, bool *alone)
{
    stk_pipeline *p = w->pipeline;
    stk__part *part = w->part;
    if (STK_LIKELY(part->error_row < 0) || part->error.status != STK_BUDGET)
        return false;
    const stk_error error = part->error;
    const int64_t row = part->error_row;
    undo_tile(w, first);
    const bool again = *alone ? stk__room_await(p, part->serial) : stk__room_enter(p, w, part->serial);
    *alone = *alone || again;
    if (again)
        return true;
    part->error = error;
    part->error_row = row;
    return false;
}

static void begin_tile(stk__worker *w, int64_t row, int n, stk__row_position position)
{
    stk__part *part = w->part;
    memset(w->placed, 0, (size_t)n * (size_t)w->pipeline->plan.var_count);
    mark_tile(w);
    for (int i = 0; i < n; i++, row++) {
        stk__tile_sample *ts = &w->tile[i];
        ts->sample.row = row;
        ts->alive = true;
        ts->cached = false;
        ts->sample.origin = (stk_origin){NULL, -1, -1, -1};
        position(w->pipeline, part, row, &ts->sample);
        if (part->dropped_at)
            part->dropped_at[row] = STK__ROW_KEPT;
    }
}

/* All tiles of the part. One that finds no memory is done again sample by sample, alone. Returns the time at the end. */
static int64_t run_tiles(stk__worker *w, stk__row_position position, int64_t now)
{
    stk_pipeline *p = w->pipeline;
    stk__part *part = w->part;
    bool alone = false;
    int64_t alone_to = 0;
    for (int64_t row = 0; row < part->rows && part->error_row < 0;) {
        const int n = alone ? 1 : (int)STK_MIN(tile_size(p), part->rows - row);
        begin_tile(w, row, n, position);
        charge_time(w, stk__slot_batch(p), &now);
        now = run_tile(w, n, now);
        note_scratch(w, n);
        if (STK_UNLIKELY(try_again(w, row, &alone))) {
            alone_to = STK_MAX(alone_to, row + n);
            now = stk__now_ns();
            continue;
        }
        stk__arena_reset(&w->scratch, p->chunks);
        row += n;
        if (STK_UNLIKELY(alone) && row >= alone_to) {
            stk__room_leave(p);
            alone = false;
        }
    }
    if (alone)
        stk__room_leave(p);
    return now;
}

void stk__worker_run(stk__worker *w, stk__part *part, stk__row_position position)
{
    stk_pipeline *p = w->pipeline;
    const int64_t start = stk__now_ns();
    int64_t now = start;
    w->part = part;
    set_slots(w, part);
    memset(w->unit_ns, 0, sizeof *w->unit_ns * (size_t)stk__slot_count(p));
    now = run_tiles(w, position, now);
    charge_time(w, stk__slot_batch(p), &now);
    atomic_store_explicit(&w->stall_step, -1, memory_order_relaxed);
    for (int i = 0; i < stk__slot_count(p); i++)
        atomic_fetch_add_explicit(&w->busy_ns[i], w->unit_ns[i], memory_order_relaxed);
    atomic_fetch_add_explicit(&w->samples[stk__slot_batch(p)], part->rows, memory_order_relaxed);
    if (w->track && part->rows > 0)
        trace_unit(w, start, now);
    w->part = NULL;
}

stk_status stk__worker_rows(stk__worker *w, const stk_batch *batch, int64_t number, stk_error *err)
{
    const stk_pipeline *p = w->pipeline;
    const stk_sample at = {.index = number, .epoch = batch->epoch, .origin = {NULL, -1, -1, -1}};
    for (int i = 0; p->has_rows_ops && i < p->plan.segment_count; i++) {
        const stk_op *op = p->plan.segment[i]->op;
        if (op->role != STK_ROLE_ROWS)
            continue;
        const int64_t start = stk__now_ns();
        const stk_status status = op->process_rows(&w->calls[i].call, batch, &at, err);
        if (status != STK_OK && !err->op[0])
            snprintf(err->op, sizeof err->op, "%s", op->name);
        STK_TRY(status);
        atomic_fetch_add_explicit(&w->busy_ns[i], stk__now_ns() - start, memory_order_relaxed);
        atomic_fetch_add_explicit(&w->samples[i], batch->rows, memory_order_relaxed);
    }
    return STK_OK;
}
