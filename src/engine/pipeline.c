/* The public pipeline: open, close, sink, statistics. */
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "base/mem.h"
#include "engine/registry.h"
#include "engine/run.h"

#include "base/banned.h"

#define MIB ((int64_t)1 << 20)
#define MAX_THREADS 256

static void default_limits(stk_pipeline *p)
{
    const stk_config *config = &p->plan.config;
    p->threads = config->threads > 0 ? STK_MIN(config->threads, MAX_THREADS) : stk__cpu_limit();
    const int64_t quarter = (int64_t)STK_MIN(stk__memory_limit() / 4, (uint64_t)INT64_MAX);
    p->budget.limit = config->memory_bytes ? (int64_t)STK_MIN(config->memory_bytes, (uint64_t)INT64_MAX)
                                           : STK_MIN(quarter, 1024 * MIB);
    p->open_info = (stk_open_info){.threads = p->threads, .rank = config->world > 0 ? config->rank : 0,
                                   .world = config->world > 0 ? config->world : 1, .cache_dir = config->cache_dir,
                                   .memory_bytes = p->budget.limit, .seed = config->seed,
                                   .exact = config->no_approximate};
}

static stk_status measure_columns(stk_pipeline *p, stk_error *err)
{
    const stk__plan *plan = &p->plan;
    p->columns = plan->visible_count;
    p->column_row_bytes = stk__calloc((size_t)p->columns, sizeof *p->column_row_bytes);
    p->stored_columns = stk__calloc((size_t)p->columns, sizeof *p->stored_columns);
    if (!p->column_row_bytes || !p->stored_columns)
        return stk__nomem((size_t)p->columns * sizeof *p->column_row_bytes, err);
    size_t row = 0;
    for (int c = 0; c < p->columns; c++) {
        const stk__var *var = &plan->vars[plan->visible[c]];
        p->column_row_bytes[c] = var->row_bytes;
        if (!var->fixed || var->dtype == STK_BYTES || plan->stream || plan->cache)
            p->stored_columns[p->stored_count++] = c;
        row += p->column_row_bytes[c];
    }
    size_t batch;
    if (__builtin_mul_overflow(row, (size_t)plan->batching.size, &batch) || batch > (size_t)p->budget.limit)
        return stk__budget_error(&p->budget, batch, err);
    p->slab_bytes = batch;
    /* A part that must own its rows stays small; one that writes into the slab may be as large as the batch. */
    const int64_t fit = row ? STK_MAX((int64_t)1, MIB / (int64_t)row) : 256;
    p->part_rows = p->direct ? 1024 : STK_MIN(fit, 256);
    return STK_OK;
}

/* Stretches of input that hold no record were found while indexing. */
static stk_status count_damage(stk_pipeline *p, stk_error *err)
{
    const stk__step *source = p->plan.source;
    stk__bad bad = {0};
    if (!source->op->damage)
        return STK_OK;
    int64_t bytes = 0;
    for (size_t i = 0; source->op->damage(&source->call, i, &bad.error, &bytes); i++) {
        bad.origin = (stk_origin){NULL, bad.error.offset, bad.error.record, -1};
        if (!bad.error.op[0])
            snprintf(bad.error.op, sizeof bad.error.op, "%s", source->op->name);
        if (p->plan.config.on_error == STK_ON_ERROR_STOP) {
            if (err)
                *err = bad.error;
            return bad.error.status;
        }
        p->place.lost_bytes += bytes;
        STK_TRY(stk__count_bad(p, &bad, &p->place, err));
    }
    return STK_OK;
}

static const char *slot_name(const stk_pipeline *p, int slot)
{
    if (slot == stk__slot_cache(p))
        return "cache";
    return slot == stk__slot_batch(p) ? "batch" : stk__step_label(p->plan.segment[slot]);
}

static void name_slices(stk_pipeline *p)
{
    stk_recorder *r = p->recorder;
    stk__trace_names *n = &p->names;
    for (int i = 0; i < stk__slot_count(p); i++)
        n->steps[i] = stk__recorder_name(r, slot_name(p, i), "op");
    n->unit = stk__recorder_name(r, "unit", "work");
    n->assemble = stk__recorder_name(r, "assemble", "work");
    n->wait_room = stk__recorder_name(r, "wait: batches ahead are full", "wait");
    n->wait_input = stk__recorder_name(r, "wait: stream is being read", "wait");
    n->wait_batch = stk__recorder_name(r, "wait for batch", "wait");
    n->arg_rows = stk__recorder_name(r, "rows", "arg");
    n->memory = stk__recorder_name(r, "buffer bytes", "counter");
    n->ready = stk__recorder_name(r, "batches ahead", "counter");
}

static stk_status start_trace(stk_pipeline *p, stk_error *err)
{
    p->recorder = p->plan.config.recorder;
    p->names.steps = stk__calloc((size_t)stk__slot_count(p), sizeof *p->names.steps);
    if (!p->names.steps)
        return stk__nomem((size_t)stk__slot_count(p) * sizeof *p->names.steps, err);
    if (!p->recorder)
        return STK_OK;
    name_slices(p);
    p->consumer_track = stk__recorder_track(p->recorder, "consumer");
    for (int i = 0; i < p->threads; i++) {
        char name[32];
        snprintf(name, sizeof name, "worker %d", i);
        p->workers[i].track = stk__recorder_track(p->recorder, name);
    }
    return STK_OK;
}

static stk_status open_workers(stk_pipeline *p, stk_error *err)
{
    p->workers = stk__calloc((size_t)p->threads, sizeof *p->workers);
    if (!p->workers)
        return stk__nomem((size_t)p->threads * sizeof *p->workers, err);
    for (int i = 0; i < p->threads; i++)
        STK_TRY(stk__worker_open(p, &p->workers[i], i, err));
    return STK_OK;
}

static void choose_ahead(stk_pipeline *p)
{
    const stk__prefetch_state *prefetch = p->plan.prefetch ? p->plan.prefetch->state : NULL;
    p->ahead_fixed = prefetch && prefetch->batches > 0;
    const int64_t wanted = p->ahead_fixed ? prefetch->batches + 1 : STK_MAX(2 * p->threads + 2, 8);
    p->ahead = (int)STK_MIN(wanted, (int64_t)STK_COUNT(p->flight) - 2);
}

/* What ops hold for the whole run. */
static stk_status charge_ops(stk_pipeline *p, stk_error *err)
{
    for (int i = 0; i < p->plan.step_count; i++) {
        const stk__step *step = &p->plan.steps[i];
        const int64_t bytes = step->op->memory && step->opened ? step->op->memory(&step->call) : 0;
        if (bytes > 0 && !stk__budget_charge(&p->budget, (size_t)bytes)) {
            stk__budget_error(&p->budget, (size_t)bytes, err);
            if (err)
                snprintf(err->op, sizeof err->op, "%s", step->op->name);
            return STK_BUDGET;
        }
    }
    return STK_OK;
}

static stk_status open_all(stk_pipeline *p, const char *text, stk_error *err)
{
    const stk_config *config = &p->plan.config;
    if (config->world < 0 || (config->world > 0 && (config->rank < 0 || config->rank >= config->world)))
        return stk_error_set(err, STK_INVALID, "rank must be in 0..%lld for a world of %lld, got %lld",
                             (long long)config->world - 1, (long long)config->world, (long long)config->rank);
    STK_TRY(stk__plan_make(&p->plan, text, &p->plan.config, err));
    p->open_info.repeats = stk__plan_repeats(&p->plan);
    STK_TRY(stk__plan_open(&p->plan, p, err));
    STK_TRY(charge_ops(p, err));
    p->direct = !p->plan.stream && !p->plan.may_drop;
    for (int i = 0; i < p->plan.segment_count; i++)
        p->has_rows_ops = p->has_rows_ops || p->plan.segment[i]->op->role == STK_ROLE_ROWS;
    p->chunks = stk__chunk_pool_new(&p->budget);
    if (!p->chunks)
        return stk__nomem(64, err);
    STK_TRY(measure_columns(p, err));
    choose_ahead(p);
    STK_TRY(stk__quarantine_open(p, err));
    if (!p->plan.config.resume_path)
        STK_TRY(count_damage(p, err));
    STK_TRY(open_workers(p, err));
    STK_TRY(start_trace(p, err));
    if (p->plan.stream)
        STK_TRY(stk__feeder_open(p, err));
    STK_TRY(stk__cache_open(p, err));
    p->total_tickets = p->plan.stream ? STK__ENDLESS : stk__chain_tickets(&p->plan.chain);
    stk__plan_explain(&p->plan, p->threads, p->budget.limit);
    if (p->plan.config.resume_path)
        STK_TRY(stk__checkpoint_load(p, p->plan.config.resume_path, err));
    atomic_store(&p->skipped, p->place.skipped);
    atomic_store(&p->quarantined, p->place.quarantined);
    if (!p->direct && !p->plan.stream && p->place.ticket > 0) {
        stk__position at;
        stk__chain_ticket(&p->plan.chain, p->place.ticket - 1, &at);
        p->last_epoch_behind_batch = at.epoch;
    }
    p->consumed = p->start = p->place;
    return stk__exec_start(p, err);
}

stk_status stk_pipeline_open(const char *text, const stk_config *config, stk_pipeline **out, stk_error *err)
{
    stk_error local;
    if (!err)
        err = &local;
    stk_error_clear(err);
    stk_pipeline *p = stk__calloc(1, sizeof *p);
    if (!p)
        return stk__nomem(sizeof *p, err);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->ready, NULL);
    pthread_cond_init(&p->watch, NULL);
    if (config)
        memcpy(&p->plan.config, config, STK_MIN(config->struct_size, sizeof *config));
    stk_status status = STK_OK;
    if (!p->plan.config.registry) {
        status = stk_registry_new(&p->own_registry, err);
        p->plan.config.registry = p->own_registry;
    }
    default_limits(p);
    if (status == STK_OK)
        status = open_all(p, text, err);
    if (status != STK_OK) {
        stk_pipeline_close(p);
        return status;
    }
    *out = p;
    return STK_OK;
}

static void free_slabs(stk_pipeline *p, stk__slab *list)
{
    while (list) {
        stk__slab *next = list->next;
        stk__slab_free(p, list);
        list = next;
    }
}

static void free_queues(stk_pipeline *p)
{
    for (int i = 0; i < p->queue_count; i++) {
        stk__part *part = p->queue[(p->queue_head + i) % (int)STK_COUNT(p->queue)];
        if (p->feeder)
            stk__feeder_return(p, part);
        stk__part_free(p, part);
    }
    for (int i = 0; i < p->flight_count; i++)
        stk__slab_free(p, p->flight[(p->flight_head + i) % (int)STK_COUNT(p->flight)]);
    stk__slab_free(p, p->filling);
    free_slabs(p, p->free_slabs);
    free_slabs(p, p->held_slabs);
    while (p->free_parts) {
        stk__part *next = p->free_parts->next;
        stk__part_free(p, p->free_parts);
        p->free_parts = next;
    }
}

void stk_pipeline_close(stk_pipeline *p)
{
    if (!p)
        return;
    stk__exec_stop(p);
    free_queues(p);
    for (int i = 0; p->workers && i < p->threads; i++)
        stk__worker_close(p, &p->workers[i]);
    stk__feeder_close(p);
    stk__cache_close(p);
    stk__plan_clear(&p->plan);
    stk__chunk_pool_free(p->chunks);
    if (p->quarantine)
        fclose(p->quarantine);
    stk__free(p->workers);
    stk__free(p->column_row_bytes);
    stk__free(p->stored_columns);
    stk__free(p->names.steps);
    stk_registry_free(p->own_registry);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->ready);
    pthread_cond_destroy(&p->watch);
    stk__free(p);
}

bool stk_pipeline_has_sink(const stk_pipeline *p)
{
    return p->plan.sink != NULL;
}

static stk_status at_sink(const stk_pipeline *p, stk_status status, stk_error *err)
{
    if (status != STK_OK && err && !err->op[0])
        snprintf(err->op, sizeof err->op, "%s", p->plan.sink->op->name);
    return status;
}

stk_status stk_pipeline_consume(stk_pipeline *p, const stk_batch *batch, stk_error *err)
{
    stk_error_clear(err);
    if (!p->plan.sink)
        return STK_OK;
    return at_sink(p, p->plan.sink->op->consume(&p->plan.sink->call, batch, err), err);
}

stk_status stk_pipeline_finish(stk_pipeline *p, stk_error *err)
{
    stk_error_clear(err);
    STK_TRY(stk__cache_finish(p, err));
    if (!p->plan.sink || !p->plan.sink->op->finish)
        return STK_OK;
    return at_sink(p, p->plan.sink->op->finish(&p->plan.sink->call, err), err);
}

void stk_pipeline_stats(const stk_pipeline *p, stk_stats *out)
{
    *out = (stk_stats){.samples = atomic_load(&p->samples_out), .batches = atomic_load(&p->batches_out),
                       .consumer_wait_ns = atomic_load(&p->consumer_wait_ns), .buffer_bytes = atomic_load(&p->budget.used),
                       .peak_buffer_bytes = atomic_load(&p->budget.peak), .budget_bytes = p->budget.limit,
                       .skipped = atomic_load(&p->skipped), .quarantined = atomic_load(&p->quarantined),
                       .dropped = atomic_load(&p->dropped), .lost_bytes = atomic_load(&p->lost_bytes),
                       .threads = p->threads, .total_batches = -1};
    out->bytes_read = stk__feeder_bytes_read(p);
    for (int i = 0; i < p->threads; i++)
        out->bytes_read += atomic_load(&p->workers[i].bytes_read);
    stk__cache_counts(p, &out->cache_hits, &out->cache_misses);
    if (p->direct && p->plan.chain.total != STK__ENDLESS)
        out->total_batches = p->plan.chain.total + p->index_base;
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&p->lock;
    pthread_mutex_lock(lock);
    for (int i = 0; i < p->flight_count; i++)
        out->ready_batches += p->flight[(p->flight_head + i) % (int)STK_COUNT(p->flight)]->ready;
    pthread_mutex_unlock(lock);
}

bool stk_pipeline_op_stats(const stk_pipeline *p, size_t i, const char **out_name, int64_t *out_busy_ns,
                           int64_t *out_samples)
{
    int slot = 0;
    for (size_t left = i;; slot++) {
        if (slot >= stk__slot_count(p))
            return false;
        /* What runs in the group of another step, and a cache that is not there, have no row. */
        const bool hidden = slot == stk__slot_cache(p) ? !p->cache : slot < stk__slot_cache(p) && p->plan.segment[slot]->absorbed;
        if (!hidden && left-- == 0)
            break;
    }
    *out_name = slot_name(p, slot);
    *out_busy_ns = *out_samples = 0;
    for (int w = 0; w < p->threads; w++) {
        *out_busy_ns += atomic_load(&p->workers[w].busy_ns[slot]);
        *out_samples += atomic_load(&p->workers[w].samples[slot]);
    }
    return true;
}

const char *stk_pipeline_explain(const stk_pipeline *p)
{
    return p->plan.explain.data ? p->plan.explain.data : "";
}

const char *stk_pipeline_explain_json(const stk_pipeline *p)
{
    return p->plan.explain_json.data ? p->plan.explain_json.data : "{}";
}
