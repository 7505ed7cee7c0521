/* The host table: what ops can ask of the engine while planning, opening and running. */
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "engine/run.h"

static stk__worker *worker_of(const stk_call *call)
{
    return ((const stk__worker_call *)(const void *)call)->worker;
}

static const stk_open_info *host_open_info(const stk_call *call)
{
    const stk_pipeline *p = call->impl;
    return &p->open_info;
}

static bool host_needed(const stk_call *call, int id)
{
    const stk_pipeline *p = call->impl;
    return p->plan.vars[id].needed;
}

static bool host_progress(const stk_call *call, const char *what, int64_t done, int64_t total)
{
    const stk_pipeline *p = call->impl;
    if (atomic_load(&p->cancelled))
        return false;
    return !p->plan.config.progress || p->plan.config.progress(p->plan.config.progress_arg, what, done, total);
}

static void *host_scratch(const stk_call *call, size_t size, stk_error *err)
{
    stk__worker *w = worker_of(call);
    return stk__arena_alloc(&w->scratch, w->pipeline->chunks, size, err);
}

/* Shape and number of elements of a value; false on nonsense. */
static bool set_shape(const stk__var *var, stk_value *value, const int64_t *shape)
{
    int64_t elements = 1;
    for (int d = 0; d < var->ndim; d++) {
        value->shape[d] = shape[d];
        if (shape[d] < 0 || (var->shape[d] >= 0 && shape[d] != var->shape[d]) ||
            __builtin_mul_overflow(elements, shape[d], &elements))
            return false;
    }
    value->elements = elements;
    return elements <= (int64_t)1 << 40;
}

static void *host_out(const stk_call *call, stk_sample *sample, int id, const int64_t *shape, stk_error *err)
{
    stk__worker *w = worker_of(call);
    const stk__var *var = &w->pipeline->plan.vars[id];
    stk_value *value = &sample->values[id];
    if (STK_UNLIKELY(!set_shape(var, value, shape ? shape : var->shape))) {
        stk_error_set(err, STK_CORRUPT, "field '%s' got a shape that does not fit the plan", var->name);
        return NULL;
    }
    if (var->column >= 0 && var->row_bytes > 0) {
        const int64_t row = sample->row;
        value->data = w->part->dense[var->column] + (size_t)row * var->row_bytes;
    } else {
        value->data =
            stk__arena_alloc(&w->scratch, w->pipeline->chunks, (size_t)value->elements * var->element_bytes, err);
    }
    return value->data;
}

static void *host_bytes_block(const stk_call *call, int id, size_t size, stk_error *err)
{
    stk__worker *w = worker_of(call);
    stk__arena *arena = w->pipeline->plan.vars[id].column >= 0 ? &w->part->arena : &w->scratch;
    return stk__arena_alloc(arena, w->pipeline->chunks, size, err);
}

static void host_set_bytes(const stk_call *call, stk_sample *sample, int id, const void *data, int64_t size,
                           bool in_block)
{
    stk__worker *w = worker_of(call);
    const stk__var *var = &w->pipeline->plan.vars[id];
    stk__tile_sample *ts = (stk__tile_sample *)(void *)sample;
    stk_value *value = &sample->values[id];
    value->elements = 1;
    /* A scalar has no shape to keep, so the view itself can live there when it has no place in the batch. */
    value->data = var->column >= 0 ? (void *)(w->part->dense[var->column] + (size_t)ts->sample.row * sizeof(stk_bytes))
                                   : (void *)value->shape;
    const stk_bytes view = {data, size};
    memcpy(value->data, &view, sizeof view);
    ts->placed[id] = in_block;
}

static void host_random(const stk_call *call, const stk_sample *sample, uint32_t block, uint32_t out[4])
{
    const stk__worker_call *wc = (const stk__worker_call *)(const void *)call;
    /* What a cache keeps must not depend on the epoch in which it was filled. */
    const bool before_cache = wc->step < wc->worker->pipeline->plan.cache_at;
    const uint64_t index = (uint64_t)sample->index;
    const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), before_cache ? 0 : (uint32_t)sample->epoch,
                                 block};
    stk__philox(wc->key, counter, out);
}

static void host_count_read(const stk_call *call, int64_t bytes)
{
    atomic_fetch_add_explicit(&worker_of(call)->bytes_read, bytes, memory_order_relaxed);
}

/* A wait inside an op, for the trace. Waits are rare and long, so looking the name up each time does not matter. */
static void host_waited(const stk_call *call, const char *what, int64_t since_ns)
{
    const stk__worker *w = worker_of(call);
    if (w->track)
        stk__track_slice(w->track, stk__recorder_name(w->pipeline->recorder, what, "wait"), since_ns, stk__now_ns(),
                         NULL);
}

static void *host_alloc(const stk_call *call, size_t size, stk_error *err)
{
    stk_pipeline *p = call->impl;
    return stk__budget_alloc(&p->budget, size, err);
}

static void host_free(const stk_call *call, void *p, size_t size)
{
    stk_pipeline *pipeline = call->impl;
    stk__budget_free(&pipeline->budget, p, size);
}

static stk_status host_charge(const stk_call *call, size_t size, stk_error *err)
{
    stk_pipeline *p = call->impl;
    return stk__budget_take(&p->budget, size, err);
}

static void host_give_back(const stk_call *call, size_t size)
{
    stk_pipeline *p = call->impl;
    stk__budget_return(&p->budget, size);
}

static stk_status host_charge_patiently(const stk_call *call, size_t size, stk_error *err)
{
    stk_pipeline *p = call->impl;
    stk_status status = stk__budget_take(&p->budget, size, err);
    if (STK_LIKELY(status != STK_BUDGET) || !stk__room_enter(p, NULL, UINT64_MAX))
        return status;
    do {
        stk_error_clear(err);
        status = stk__budget_take(&p->budget, size, err);
    } while (status == STK_BUDGET && stk__room_await(p, UINT64_MAX));
    stk__room_leave(p);
    return status;
}

static void *host_alloc_patiently(const stk_call *call, size_t size, stk_error *err)
{
    stk_pipeline *p = call->impl;
    void *data = stk__budget_alloc(&p->budget, size, err);
    if (STK_LIKELY(data) || err->status != STK_BUDGET || !stk__room_enter(p, NULL, UINT64_MAX))
        return data;
    do {
        stk_error_clear(err);
        data = stk__budget_alloc(&p->budget, size, err);
    } while (!data && err->status == STK_BUDGET && stk__room_await(p, UINT64_MAX));
    stk__room_leave(p);
    return data;
}

static void host_pause(const stk_call *call)
{
    stk_pipeline *p = call->impl;
    pthread_mutex_lock(&p->lock);
    stk__room_idle_locked(p);
    pthread_mutex_unlock(&p->lock);
}

static void host_resume(const stk_call *call)
{
    stk_pipeline *p = call->impl;
    pthread_mutex_lock(&p->lock);
    stk__room_busy_locked(p);
    pthread_mutex_unlock(&p->lock);
}

static stk_status host_no_room(const stk_call *call, const char *what, uint64_t size, uint64_t kept, stk_error *err)
{
    const stk_pipeline *p = call->impl;
    const stk__budget *budget = &p->budget;
    /* What the op knows of is not less than what it was refused. */
    size = STK_MAX(size, (uint64_t)atomic_load_explicit(&budget->refused, memory_order_relaxed));
    const uint64_t used = (uint64_t)(atomic_load(&budget->used) - atomic_load(&budget->spare));
    /* In the sample, in its part and, with room to grow, in the batch. */
    const uint64_t most = UINT64_MAX / 8 / (uint64_t)(3 * p->plan.batching.size + 4);
    const uint64_t copies = STK_MIN(kept, most) * (uint64_t)(3 * p->plan.batching.size + 4);
    char needs[32], in_use[32], limit[32], option[64];
    stk__text t;
    stk__text_fixed(&t, needs, sizeof needs);
    stk__text_bytes(&t, size);
    stk__text_fixed(&t, in_use, sizeof in_use);
    stk__text_bytes(&t, used);
    stk__text_fixed(&t, limit, sizeof limit);
    stk__text_bytes(&t, (uint64_t)budget->limit);
    const uint64_t all = used + STK_MIN(size, UINT64_MAX / 8) + copies;
    stk__budget_option(budget, all + all / 8, option, sizeof option);
    return stk_error_set(err, STK_BUDGET, "%s needs %s, and %s of the budget of %s are in use; %s would do", what, needs, in_use,
                         limit, option);
}

static stk_status host_print(const stk_call *call, const char *text, size_t size, stk_error *err)
{
    const stk_pipeline *p = call->impl;
    return p->plan.config.print ? p->plan.config.print(p->plan.config.print_arg, text, size, err) : STK_OK;
}

static void host_warn(const stk_call *call, const char *text)
{
    const stk_pipeline *p = call->impl;
    if (p->plan.config.log)
        p->plan.config.log(p->plan.config.log_arg, STK_LOG_WARNING, text);
}

/* Where the work at hand ends, or where it will go on when there is none. */
static bool host_peek(const stk_call *call, int64_t ahead, int64_t *out_index)
{
    const stk__worker *w = worker_of(call);
    const stk_pipeline *p = w->pipeline;
    const stk__chain *chain = &p->plan.chain;
    const int64_t at = w->part ? w->part->ticket + w->part->rows : w->idle_ticket;
    stk__position position = {stk__position_scale(at, 1, ahead), w->part ? w->part->sequence : w->idle_epoch};
    /* An epoch that was resumed with another number of ranks has fewer. */
    const bool resumed = chain->elastic && chain->repeat_at >= chain->batch_at && chain->shard_at < chain->batch_at;
    const int64_t samples = resumed && position.epoch == chain->elastic_seen ? chain->first_samples : chain->samples;
    if (!p->direct) {
        if (position.index >= p->total_tickets)
            return false;
        stk__chain_ticket(chain, position.index, &position);
    } else if (position.index >= samples) {
        /* The next round of a repeat behind the batch; where there is none, nobody needs what lies there. */
        const int64_t round = position.epoch - stk__chain_round_epoch(chain, 0);
        if (chain->samples <= 0 || round + 1 >= chain->total / STK_MAX(chain->batches, 1))
            return false;
        position.index -= samples;
        position.epoch++;
        if (position.index >= chain->samples)
            return false;
    }
    stk__chain_sample(chain, &position, NULL);
    *out_index = position.index;
    return true;
}

const stk_host stk__host = {
    .struct_size = sizeof(stk_host),
    .plan_read = stk__schema_read,
    .plan_write = stk__schema_write,
    .plan_remove = stk__schema_remove,
    .plan_rename = stk__schema_rename,
    .plan_field_count = stk__schema_count,
    .plan_field = stk__schema_field,
    .open_info = host_open_info,
    .needed = host_needed,
    .progress = host_progress,
    .out = host_out,
    .bytes_block = host_bytes_block,
    .set_bytes = host_set_bytes,
    .scratch = host_scratch,
    .random = host_random,
    .count_read = host_count_read,
    .waited = host_waited,
    .alloc = host_alloc,
    .free = host_free,
    .print = host_print,
    .fail = stk_error_set,
    .peek = host_peek,
    .plan_describe = stk__schema_describe,
    .plan_description = stk__schema_description,
    .plan_set_classes = stk__schema_set_classes,
    .plan_has_classes = stk__schema_has_classes,
    .warn = host_warn,
    .charge = host_charge,
    .give_back = host_give_back,
    .charge_patiently = host_charge_patiently,
    .alloc_patiently = host_alloc_patiently,
    .pause = host_pause,
    .resume = host_resume,
    .no_room = host_no_room,
};
