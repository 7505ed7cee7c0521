/* The public pipeline: open, close, sink, statistics. */
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "engine/checkpoint.h"
#include "engine/registry.h"
#include "engine/run.h"

#include "base/banned.h"

#define MIB ((int64_t)1 << 20)

static void default_limits(stk_pipeline *p)
{
    const stk_config *config = &p->plan.config;
    const int64_t neighbours = STK_MAX(config->local_world, (int64_t)1);
    const int threads =
        config->threads > 0 ? config->threads : stk__cpu_share((int)STK_MIN(neighbours, (int64_t)STK__THREADS_MAX));
    p->threads = p->room.allowed = STK_MIN(threads, STK__THREADS_MAX);
    p->budget.name = config->memory_name;
    p->budget.limit = (int64_t)STK_MIN(config->memory_bytes, (uint64_t)INT64_MAX);
    if (!config->memory_bytes)
        p->budget.limit = (int64_t)STK_MIN(stk__memory_limit() / 4 / (uint64_t)neighbours, (uint64_t)(1024 * MIB));
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
    p->tile_most = stk__tile_most(plan->var_count);
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
    n->wait_memory = stk__recorder_name(r, "wait: memory is short", "wait");
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

static stk_status check_config(const stk_config *config, stk_error *err)
{
    if (config->world < 0 || (config->world > 0 && (config->rank < 0 || config->rank >= config->world)))
        return stk_error_set(err, STK_INVALID, "rank must be in 0..%lld for a world of %lld, got %lld",
                             (long long)config->world - 1, (long long)config->world, (long long)config->rank);
    if (config->local_world < 0)
        return stk_error_set(err, STK_INVALID, "local_world must be at least 0, got %lld", (long long)config->local_world);
    if (config->resume_path && config->resume_state)
        return stk_error_set(err, STK_INVALID, "resume_path and resume_state are both given, wanted one of them");
    if (!config->batch_alloc != !config->batch_free)
        return stk_error_set(err, STK_INVALID, "batch_alloc and batch_free must be given together");
    return STK_OK;
}

/* Where the run starts: at its beginning, at an epoch, or at a checkpoint. */
static stk_status choose_start(stk_pipeline *p, stk_error *err)
{
    stk__look_at_open(p);
    STK_TRY(p->resumed ? stk__resume_apply(p, err) : stk__begin_epoch(p, p->plan.config.first_epoch, err));
    if (p->resumed)
        STK_TRY(stk__quarantine_open(p, err));
    atomic_store(&p->skipped, p->place.skipped);
    atomic_store(&p->quarantined, p->place.quarantined);
    atomic_store(&p->dropped, p->place.dropped);
    atomic_store(&p->lost_bytes, p->place.lost_bytes);
    if (!p->direct && !p->plan.stream && p->place.ticket > 0) {
        stk__position at;
        stk__chain_ticket(&p->plan.chain, p->place.ticket - 1, &at);
        p->last_epoch_behind_batch = at.epoch;
    }
    p->consumed = p->start = p->place;
    return STK_OK;
}

static stk_status open_all(stk_pipeline *p, const char *text, stk_error *err)
{
    const stk_config *config = &p->plan.config;
    STK_TRY(check_config(config, err));
    p->batch_memory = (stk__allocator){config->batch_alloc, config->batch_free, config->batch_arg};
    STK_TRY(stk__plan_make(&p->plan, text, &p->plan.config, err));
    STK_TRY(stk__sink_check(p, err));
    p->open_info.checkpoints = config->checkpoints;
    p->open_info.resumes = stk__resumes(p);
    if (stk__resumes(p))
        STK_TRY(stk__resume_read(p, err));
    p->open_info.repeats = stk__plan_repeats(&p->plan);
    p->open_info.cache_file = p->plan.cache && ((const stk__cache_state *)p->plan.cache->state)->path;
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
    if (!p->resumed) { /* else both were done, and the list is not touched before all is compared */
        STK_TRY(stk__quarantine_open(p, err));
        STK_TRY(count_damage(p, err));
    }
    STK_TRY(open_workers(p, err));
    STK_TRY(start_trace(p, err));
    if (p->plan.stream)
        STK_TRY(stk__feeder_open(p, err));
    STK_TRY(stk__cache_open(p, err));
    p->total_tickets = p->plan.stream ? STK__ENDLESS : stk__chain_tickets(&p->plan.chain);
    STK_TRY(stk__plan_explain(&p->plan, p->threads, p->budget.limit, err));
    STK_TRY(choose_start(p, err));
    return stk__exec_start(p, err);
}

/* Waits with an end go by the clock that nobody sets. */
static void init_locks(stk_pipeline *p)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_init(&p->look, NULL);
    pthread_mutex_init(&p->list_lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->ready, &monotonic);
    pthread_cond_init(&p->watch, &monotonic);
    pthread_cond_init(&p->quiet, NULL);
    pthread_cond_init(&p->room.calm, NULL);
    pthread_condattr_destroy(&monotonic);
}

typedef struct opening {
    const stk_config *config;
    stk__interrupt before;
} opening;

/* What waits while a pipeline opens asks its progress, besides whoever the thread's work is for. */
static bool opening_stopped(void *arg)
{
    const opening *o = arg;
    return (o->before.stopped && o->before.stopped(o->before.arg)) ||
           (o->config->progress && !o->config->progress(o->config->progress_arg, "opening", 0, -1));
}

static stk_status plan_interruptibly(stk__plan *plan, const char *text, const stk_config *config, stk_error *err)
{
    opening o = {config, stk__interrupt_get()};
    stk__interrupt_set((stk__interrupt){opening_stopped, &o});
    const stk_status status = stk__plan_make(plan, text, config, err);
    stk__interrupt_set(o.before);
    return status;
}

static stk_status open_interruptibly(stk_pipeline *p, const char *text, stk_error *err)
{
    opening o = {&p->plan.config, stk__interrupt_get()};
    stk__interrupt_set((stk__interrupt){opening_stopped, &o});
    const stk_status status = open_all(p, text, err);
    stk__interrupt_set(o.before);
    return status;
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
    init_locks(p);
    if (config)
        memcpy(&p->plan.config, config, STK_MIN(config->struct_size, sizeof *config));
    stk_status status = STK_OK;
    if (!p->plan.config.registry) {
        status = stk_registry_new(&p->own_registry, err);
        p->plan.config.registry = p->own_registry;
    }
    default_limits(p);
    if (status == STK_OK)
        status = open_interruptibly(p, text, err);
    if (status != STK_OK) {
        stk_pipeline_close(p);
        return status;
    }
    *out = p;
    return STK_OK;
}

/* In one piece with their names. */
static stk_status copy_fields(const stk__plan *plan, stk_field **out, size_t *out_count, stk_error *err)
{
    const size_t count = (size_t)plan->visible_count;
    size_t size = count * sizeof **out;
    for (size_t i = 0; i < count; i++)
        size += strlen(plan->vars[plan->visible[i]].name) + 1;
    stk_field *fields = stk__calloc(1, STK_MAX(size, (size_t)1));
    if (!fields)
        return stk__nomem(size, err);
    char *name = (char *)(fields + count);
    for (size_t i = 0; i < count; i++) {
        const stk__var *var = &plan->vars[plan->visible[i]];
        const size_t length = strlen(var->name) + 1;
        memcpy(name, var->name, length);
        fields[i] = (stk_field){.name = name, .dtype = var->dtype, .ndim = var->ndim};
        memcpy(fields[i].shape, var->shape, sizeof fields[i].shape);
        name += length;
    }
    *out = fields;
    *out_count = count;
    return STK_OK;
}

stk_status stk_text_fields(const char *text, const stk_config *config, stk_field **out, size_t *out_count,
                           stk_error *err)
{
    stk_error_clear(err);
    stk_config given = {.struct_size = sizeof given};
    if (config)
        memcpy(&given, config, STK_MIN(config->struct_size, sizeof given));
    stk_registry *own = NULL;
    if (!given.registry)
        STK_TRY(stk_registry_new(&own, err));
    if (own)
        given.registry = own;
    stk__plan plan = {0};
    stk_status status = plan_interruptibly(&plan, text, &given, err);
    if (status == STK_OK)
        status = copy_fields(&plan, out, out_count, err);
    stk__plan_clear(&plan);
    stk_registry_free(own);
    return status;
}

static void free_slabs(stk_pipeline *p, stk__slab **list)
{
    while (*list) {
        stk__slab *next = (*list)->next;
        stk__slab_free(p, *list);
        *list = next;
    }
}

/* All batches and units but the batches that are held. */
static void free_queues_locked(stk_pipeline *p)
{
    for (; p->queue_count > 0; p->queue_count--) {
        stk__part *part = p->queue[p->queue_head];
        if (p->feeder)
            stk__feeder_return(p, part);
        stk__part_free(p, part);
        p->queue_head = (p->queue_head + 1) % (int)STK_COUNT(p->queue);
    }
    for (; p->flight_count > 0; p->flight_count--) {
        stk__slab_free(p, p->flight[p->flight_head]);
        p->flight_head = (p->flight_head + 1) % (int)STK_COUNT(p->flight);
    }
    stk__slab_free(p, p->filling);
    p->filling = NULL;
    free_slabs(p, &p->free_slabs);
    while (p->free_parts) {
        stk__part *next = p->free_parts->next;
        stk__part_free(p, p->free_parts);
        p->free_parts = next;
    }
}

/* Numbers of the parts that are about to be freed: statistics go on telling them. */
static void keep_numbers_locked(stk_pipeline *p)
{
    p->kept.bytes_read = stk__feeder_bytes_read(p);
    stk__cache_counts(p, &p->kept.cache_hits, &p->kept.cache_misses, &p->kept.cache_damaged);
    p->kept.valid = true;
}

/* Closes what works on samples. Not under the lock: closing an op may wait for somebody who wants it. */
static void close_parts(stk_pipeline *p)
{
    for (int i = 0; p->workers && i < p->threads; i++)
        stk__worker_close(p, &p->workers[i]);
    stk__feeder_close(p);
    stk__cache_close(p);
    stk__plan_close(&p->plan);
    stk__quarantine_close(p);
}

void stk_pipeline_stop(stk_pipeline *p)
{
    if (!p)
        return;
    if (atomic_exchange(&p->stop_asked, true)) { /* again, or by another thread: it is done when the first is */
        pthread_mutex_lock(&p->lock);
        while (!p->stopped)
            pthread_cond_wait(&p->quiet, &p->lock);
        pthread_mutex_unlock(&p->lock);
        return;
    }
    stk__exec_stop(p);
    pthread_mutex_lock(&p->lock);
    free_queues_locked(p);
    keep_numbers_locked(p);
    pthread_mutex_unlock(&p->lock);
    close_parts(p);
    pthread_mutex_lock(&p->lock);
    p->stopped = true;
    free_slabs(p, &p->free_slabs); /* released meanwhile */
    if (p->chunks)
        stk__chunk_pool_trim(p->chunks);
    pthread_cond_broadcast(&p->quiet);
    pthread_mutex_unlock(&p->lock);
}

void stk_pipeline_close(stk_pipeline *p)
{
    if (!p)
        return;
    stk_pipeline_stop(p);
    free_slabs(p, &p->held_slabs);
    for (int i = 0; p->workers && i < p->threads; i++)
        stk__worker_clear(&p->workers[i]);
    stk__plan_clear(&p->plan);
    stk__chunk_pool_free(p->chunks);
    stk__free(p->workers);
    stk__free(p->column_row_bytes);
    stk__free(p->stored_columns);
    stk__free(p->names.steps);
    stk__free(p->resumed);
    stk_registry_free(p->own_registry);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->look);
    pthread_mutex_destroy(&p->list_lock);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->ready);
    pthread_cond_destroy(&p->watch);
    pthread_cond_destroy(&p->quiet);
    pthread_cond_destroy(&p->room.calm);
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

/* The sink is closed then. */
static stk_status check_open(const stk_pipeline *p, stk_error *err)
{
    return atomic_load(&p->stop_asked) ? stk_error_set(err, STK_CANCELLED, "the run was stopped") : STK_OK;
}

stk_status stk_pipeline_consume(stk_pipeline *p, const stk_batch *batch, stk_error *err)
{
    stk_error_clear(err);
    if (!p->plan.sink)
        return STK_OK;
    STK_TRY(check_open(p, err));
    STK_TRY(at_sink(p, p->plan.sink->op->consume(&p->plan.sink->call, batch, err), err));
    p->sunk += batch->rows;
    return STK_OK;
}

stk_status stk_pipeline_finish(stk_pipeline *p, stk_error *err)
{
    stk_error_clear(err);
    STK_TRY(check_open(p, err));
    STK_TRY(stk__cache_finish(p, err));
    if (!p->plan.sink || !p->plan.sink->op->finish)
        return STK_OK;
    return at_sink(p, p->plan.sink->op->finish(&p->plan.sink->call, err), err);
}

/* Of one round of a repeat at the end, else of the run; -1: not known, or without end. */
static int64_t epoch_batches(const stk_pipeline *p, int64_t total)
{
    const stk__chain *chain = &p->plan.chain;
    if (!p->direct || !stk__chain_ends_in_repeat(chain))
        return total;
    const int64_t each = chain->nodes[chain->count - 1].in;
    return each == STK__ENDLESS ? -1 : each;
}

void stk_pipeline_stats(const stk_pipeline *p, stk_stats *out)
{
    *out = (stk_stats){.samples = atomic_load(&p->samples_out), .batches = atomic_load(&p->batches_out),
                       .consumer_wait_ns = atomic_load(&p->consumer_wait_ns), .buffer_bytes = atomic_load(&p->budget.used),
                       .peak_buffer_bytes = atomic_load(&p->budget.peak), .budget_bytes = p->budget.limit,
                       .skipped = atomic_load(&p->skipped), .quarantined = atomic_load(&p->quarantined),
                       .dropped = atomic_load(&p->dropped), .lost_bytes = atomic_load(&p->lost_bytes),
                       .threads = p->threads, .total_batches = -1};
    for (int i = 0; i < p->threads; i++)
        out->bytes_read += atomic_load(&p->workers[i].bytes_read);
    if (p->direct && p->plan.chain.total != STK__ENDLESS)
        out->total_batches = p->plan.chain.total + p->index_base;
    out->epoch_batches = epoch_batches(p, out->total_batches);
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&p->lock;
    pthread_mutex_lock(lock); /* what stop frees is looked at under it */
    out->bytes_read += p->kept.valid ? p->kept.bytes_read : stk__feeder_bytes_read(p);
    if (p->kept.valid) {
        out->cache_hits = p->kept.cache_hits;
        out->cache_misses = p->kept.cache_misses;
        out->cache_damaged = p->kept.cache_damaged;
    } else {
        stk__cache_counts(p, &out->cache_hits, &out->cache_misses, &out->cache_damaged);
    }
    for (int i = 0; i < p->flight_count; i++)
        out->ready_batches += p->flight[(p->flight_head + i) % (int)STK_COUNT(p->flight)]->ready;
    out->held_batches = p->held_count;
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
        const bool hidden =
            slot == stk__slot_cache(p) ? !p->plan.cache : slot < stk__slot_cache(p) && p->plan.segment[slot]->absorbed;
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

const char *stk_pipeline_class_name(const stk_pipeline *p, int64_t i)
{
    const stk__step *source = p->plan.source;
    return source->op->class_name && i >= 0 ? source->op->class_name(&source->call, i) : NULL;
}
