/*
 * Scheduling: which worker does what next, and how batches reach the consumer in order.
 *
 * Where batches can be counted (p->direct) a work unit is a run of rows of the oldest batch that has rows left, written
 * straight into its slab. Elsewhere units are runs of tickets that fill parts of their own, and a worker assembles the
 * oldest part into batches when it is done.
 */
#include <string.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "engine/run.h"

#define FLIGHT_MAX ((int)STK_COUNT(((stk_pipeline *)0)->flight))
/* A unit should take about this long: short enough for low latency, long enough that the lock does not matter. */
#define UNIT_NS 250000
/* Batches that come faster than this are taken in bunches. */
#define FAST_BATCH_NS 200000
#define NAP_MOST_NS 2000000
/* Counters in the trace are written this often at most. */
#define COUNTER_NS 1000000
/* Pieces of a wait that come this soon after each other are one wait. */
#define PIECES_NS 1000000
#define AHEAD_BYTES ((int64_t)8 << 20)
#define AHEAD_MOST 64

void stk__fail_locked(stk_pipeline *p, const stk_error *error)
{
    if (!p->failure_set) {
        p->failure = *error;
        p->failure_set = true;
    }
    p->failed = true;
    pthread_cond_broadcast(&p->ready);
    pthread_cond_broadcast(&p->work);
}

/*
 * Work turned up. One worker is woken; it wakes the next when it has taken its share and sees more, so that a piece of work
 * never wakes the whole pool.
 */
static void wake_one_locked(stk_pipeline *p)
{
    if (p->waiting)
        pthread_cond_signal(&p->work);
}

/* ---- slabs ---- */

/* Batches that are being made or wait for the consumer. */
static int batches_ahead(const stk_pipeline *p)
{
    return p->flight_count + (p->filling != NULL);
}

/*
 * How many batches may be made ahead. Small ones are soon used up while the consumer waits for its turn on a busy core, so
 * there may be more of them.
 */
int stk__ahead_locked(const stk_pipeline *p)
{
    if (p->plan.config.on_demand)
        return p->asked ? 1 : 0;
    if (p->ahead_fixed || !p->slab_known)
        return p->ahead;
    const int64_t small = AHEAD_BYTES / ((int64_t)p->slab_bytes + 1);
    return (int)STK_MAX(p->ahead, STK_MIN(small, AHEAD_MOST));
}

/*
 * The consumer made room. Where it takes batches faster than a worker is woken, workers may sleep until half of what was
 * made ahead is used up, and then make many at once.
 */
static void wake_for_room_locked(stk_pipeline *p)
{
    const bool fast = p->interval_ns > 0 && p->interval_ns < FAST_BATCH_NS;
    if (!fast || batches_ahead(p) <= stk__ahead_locked(p) / 2)
        wake_one_locked(p);
}

/* What batches that are being made may still come to need, and one more. */
static size_t slab_demand(const stk_pipeline *p)
{
    if (p->stored_count > 0)
        return p->slab_bytes * (size_t)(1 + p->unfinished);
    return p->free_slabs ? 0 : p->slab_bytes; /* all rows have the same size: a slab is all that a batch takes */
}

bool stk__slab_room_locked(const stk_pipeline *p)
{
    if (p->slab_count == 0 || (p->free_slabs && batches_ahead(p) == 0))
        return true; /* one batch at a time must always go */
    /* How much a batch takes is not known before the first is done, unless all its rows have the same size. */
    if (p->stored_count > 0 && !p->slab_known)
        return false;
    /* Those that the consumer holds are bounded by the budget alone. */
    return (p->free_slabs || p->slab_count - p->held_count < FLIGHT_MAX) && stk__budget_has_room(&p->budget, slab_demand(p));
}

/* Lets go of the lock where memory must be waited for: no batch is begun, nor any unit, before it is back. */
static stk_status new_slab_locked(stk_pipeline *p, stk__slab **out, stk_error *err)
{
    stk_status status = stk__slab_new(p, out, err);
    if (STK_LIKELY(status != STK_BUDGET) || !stk__room_enter_locked(p, NULL, UINT64_MAX))
        return status;
    do {
        status = stk__slab_new(p, out, err);
    } while (status == STK_BUDGET && stk__room_await_locked(p, UINT64_MAX));
    stk__room_leave_locked(p);
    return status;
}

stk__slab *stk__take_slab_locked(stk_pipeline *p)
{
    stk__slab *slab = p->free_slabs;
    if (slab) {
        p->free_slabs = slab->next;
        slab->next = NULL;
        return slab;
    }
    stk_error error;
    stk_error_clear(&error);
    if (new_slab_locked(p, &slab, &error) != STK_OK) {
        stk__fail_locked(p, &error);
        return NULL;
    }
    p->slab_count++;
    return slab;
}

static void give_slab_back_locked(stk_pipeline *p, stk__slab *slab)
{
    p->slab_bytes = STK_MAX(p->slab_bytes, stk__slab_bytes(p, slab));
    stk__slab_reset(p, slab);
    slab->next = p->free_slabs;
    p->free_slabs = slab;
}

static stk__slab *flight_at(const stk_pipeline *p, int i)
{
    return p->flight[(p->flight_head + i) % FLIGHT_MAX];
}

static void flight_push(stk_pipeline *p, stk__slab *slab)
{
    p->flight[(p->flight_head + p->flight_count++) % FLIGHT_MAX] = slab;
}

void stk__push_ready_locked(stk_pipeline *p, stk__slab *slab)
{
    slab->ready = p->slab_known = true;
    p->slab_bytes = STK_MAX(p->slab_bytes, stk__slab_bytes(p, slab));
    flight_push(p, slab);
    if (p->consumer_waits && p->flight_count == 1)
        pthread_cond_signal(&p->ready);
}

/* ---- parts ---- */

/* May let go of the lock, as new_slab_locked does. */
static stk__part *new_part_locked(stk_pipeline *p, stk_error *err)
{
    stk__part *part = stk__part_new(p, err);
    if (STK_LIKELY(part) || err->status != STK_BUDGET || !stk__room_enter_locked(p, NULL, UINT64_MAX))
        return part;
    do {
        part = stk__part_new(p, err);
    } while (!part && err->status == STK_BUDGET && stk__room_await_locked(p, UINT64_MAX));
    stk__room_leave_locked(p);
    return part;
}

static stk__part *take_part_locked(stk_pipeline *p)
{
    stk__part *part = p->free_parts;
    if (part) {
        p->free_parts = part->next;
        part->next = NULL;
    } else {
        stk_error error;
        stk_error_clear(&error);
        part = new_part_locked(p, &error);
        if (!part) {
            stk__fail_locked(p, &error);
            return NULL;
        }
    }
    part->serial = ++p->last_serial;
    return part;
}

static void give_part_back_locked(stk_pipeline *p, stk__part *part)
{
    stk__part_reset(p, part);
    part->next = p->free_parts;
    p->free_parts = part;
}

static int64_t unit_rows(const stk_pipeline *p, int64_t left)
{
    int64_t n = p->ns_per_sample > 0 ? UNIT_NS / p->ns_per_sample : 16;
    n = STK_MAX(1, STK_MIN(n, p->part_rows));
    /* Each part of a batch has chunks and buffers of its own: slow samples must not make a part each. */
    if (p->direct && p->stored_count > 0)
        n = STK_MIN(p->part_rows, STK_MAX(n, p->plan.batching.size / (4 * p->threads)));
    if (!p->direct) { /* parts have memory of their own: all together at most a sixteenth of the budget */
        const int64_t row_bytes = STK_MAX((int64_t)p->slab_bytes / p->plan.batching.size + 1, p->row_bytes);
        n = STK_MAX(1, STK_MIN(n, p->budget.limit / 16 / (p->threads + 2) / row_bytes));
        if (p->row_bytes == 0 && p->stored_count > 0)
            n = 1; /* a row may be anything: the first tells */
    }
    /* What is left is shared out evenly rather than with a crumb at the end. */
    if (left > n && left < 2 * n)
        n = (left + 1) / 2;
    return STK_MIN(n, left);
}

static void note_speed_locked(stk_pipeline *p, int64_t rows, int64_t ns)
{
    if (rows <= 0)
        return;
    const int64_t each = ns / rows + 1;
    p->ns_per_sample = p->ns_per_sample ? (p->ns_per_sample * 3 + each) / 4 : each;
}

/* ---- batches that can be counted ---- */

static void direct_position(stk_pipeline *p, stk__part *part, int64_t row, stk_sample *out)
{
    /* `ticket` holds the position of the part's first row, `sequence` its epoch. */
    stk__position at = {part->ticket + row, part->sequence};
    stk__chain_sample(&p->plan.chain, &at, NULL);
    out->index = at.index;
    out->epoch = at.epoch;
}

static bool may_open_batch_locked(const stk_pipeline *p)
{
    return !p->failed && p->next_batch < p->plan.chain.total && batches_ahead(p) < stk__ahead_locked(p) &&
           stk__slab_room_locked(p);
}

/* By which ops on finished batches draw. An epoch that was resumed with other ranks goes on with numbers of the run. */
static int64_t number_of(const stk_pipeline *p, int64_t batch)
{
    const stk__chain *chain = &p->plan.chain;
    const int64_t round = stk__chain_ends_in_repeat(chain) && !chain->elastic ? chain->nodes[chain->count - 1].in : 0;
    return round > 0 ? batch % round : p->index_base + batch;
}

/* Starts the next batch where budget and look-ahead allow. */
static bool open_batch_locked(stk_pipeline *p)
{
    if (!may_open_batch_locked(p))
        return false;
    stk__slab *slab = stk__take_slab_locked(p);
    if (!slab)
        return false;
    stk__chain_batch(&p->plan.chain, p->next_batch, &slab->first, &slab->rows);
    slab->batch.index = p->index_base + p->next_batch;
    slab->number = number_of(p, p->next_batch);
    stk__position sample = slab->first;
    stk__chain_sample(&p->plan.chain, &sample, NULL);
    slab->batch.epoch = sample.epoch;
    p->next_batch++;
    p->unfinished++;
    flight_push(p, slab);
    return true;
}

static stk__slab *slab_with_rows_locked(const stk_pipeline *p)
{
    for (int i = 0; i < p->flight_count; i++) {
        stk__slab *slab = flight_at(p, i);
        if (slab->next_row < slab->rows)
            return slab;
    }
    return NULL;
}

/* Merges the finished parts; by the worker that finished the last of them, without the lock. */
static void finish_slab(stk_pipeline *p, stk__worker *w, stk__slab *slab, stk__part *parts)
{
    stk_error error;
    stk_error_clear(&error);
    stk_status status = STK_OK;
    const int64_t start = stk__now_ns();
    for (stk__part *part = parts; part && status == STK_OK; part = part->next)
        status = stk__slab_append(p, slab, part, 0, part->rows, &error);
    if (status == STK_OK)
        status = stk__slab_finish(p, slab, &error);
    atomic_fetch_add_explicit(&w->busy_ns[stk__slot_batch(p)], stk__now_ns() - start, memory_order_relaxed);
    if (status == STK_OK)
        status = stk__worker_rows(w, &slab->batch, slab->number, &error);
    if (status != STK_OK && slab->error_row < 0) {
        slab->error_row = 0;
        slab->error = stk__alloc(sizeof error);
        if (slab->error)
            *slab->error = error;
    }
}

static void insert_part(stk__slab *slab, stk__part *part)
{
    stk__part **link = &slab->parts;
    while (*link && (*link)->row0 < part->row0)
        link = &(*link)->next;
    part->next = *link;
    *link = part;
}

static void note_part_error(stk__slab *slab, const stk__part *part)
{
    const int64_t row = part->row0 + part->error_row;
    if (part->error_row < 0 || (slab->error_row >= 0 && slab->error_row <= row))
        return;
    slab->error_row = row;
    if (!slab->error)
        slab->error = stk__alloc(sizeof *slab->error);
    if (slab->error)
        *slab->error = part->error;
}

static void direct_done_locked(stk_pipeline *p, stk__worker *w, stk__slab *slab, stk__part *part)
{
    note_part_error(slab, part);
    insert_part(slab, part);
    slab->rows_done += part->rows;
    if (slab->error_row >= 0)
        p->failed = true; /* no later batches; the consumer gets the error when it comes to this one */
    if (slab->rows_done < slab->rows)
        return;
    stk__part *parts = slab->parts;
    slab->parts = NULL;
    if (slab->error_row < 0) {
        pthread_mutex_unlock(&p->lock);
        const int64_t start = w->track ? stk__now_ns() : 0;
        finish_slab(p, w, slab, parts);
        if (w->track) /* shown with the units that made it */
            stk__worker_trace_add(w, stk__slot_batch(p), start, stk__now_ns());
        pthread_mutex_lock(&p->lock);
    }
    while (parts) {
        stk__part *next = parts->next;
        give_part_back_locked(p, parts);
        parts = next;
    }
    slab->ready = p->slab_known = true;
    p->unfinished--;
    p->slab_bytes = STK_MAX(p->slab_bytes, stk__slab_bytes(p, slab));
    wake_one_locked(p); /* there may be room for more */
    if (p->consumer_waits && flight_at(p, 0) == slab)
        pthread_cond_signal(&p->ready);
}

static bool direct_unit_locked(stk_pipeline *p, stk__worker *w)
{
    stk__slab *slab = slab_with_rows_locked(p);
    if (!slab) {
        if (!open_batch_locked(p))
            return false;
        slab = flight_at(p, p->flight_count - 1);
    }
    stk__part *part = take_part_locked(p);
    if (!part)
        return false;
    part->row0 = slab->next_row;
    part->rows = unit_rows(p, slab->rows - slab->next_row);
    part->ticket = slab->first.index + part->row0;
    part->sequence = slab->first.epoch;
    slab->next_row += part->rows;
    for (int c = 0; c < p->columns; c++)
        part->dense[c] = p->column_row_bytes[c] ? slab->data[c].data + (size_t)part->row0 * p->column_row_bytes[c] : NULL;
    if (slab->next_row < slab->rows || may_open_batch_locked(p))
        wake_one_locked(p);
    pthread_mutex_unlock(&p->lock);
    const int64_t start = stk__now_ns();
    stk__worker_run(w, part, direct_position);
    const int64_t ns = stk__now_ns() - start;
    pthread_mutex_lock(&p->lock);
    note_speed_locked(p, part->rows, ns);
    direct_done_locked(p, w, slab, part);
    return true;
}

/* ---- batches that cannot ---- */

static void ticket_position(stk_pipeline *p, stk__part *part, int64_t row, stk_sample *out)
{
    stk__position at;
    int64_t epochs[STK__CHAIN_MAX + 1];
    stk__chain_ticket(&p->plan.chain, part->ticket + row, &at);
    part->epoch_behind_batch[row] = at.epoch;
    stk__chain_sample(&p->plan.chain, &at, epochs);
    for (int k = 0; k < p->plan.relay_count; k++)
        part->epochs[row * STK__MAX_RELAYS + k] = epochs[p->plan.relays[k].chain_at];
    out->index = at.index;
    out->epoch = part->row_epoch[row] = at.epoch;
}

static void item_position(stk_pipeline *p, stk__part *part, int64_t row, stk_sample *out)
{
    const stk__item *item = part->items[row];
    part->epoch_behind_batch[row] = item->epoch_behind_batch;
    memcpy(part->epochs + row * STK__MAX_RELAYS, item->epochs, sizeof item->epochs);
    out->index = item->index;
    out->epoch = part->row_epoch[row] = item->epoch;
    (void)p;
}

/* Pulls items into the part without the lock; `feeding` keeps others out. */
static void feed_part_locked(stk_pipeline *p, stk__worker *w, stk__part *part, int64_t rows)
{
    stk_error error;
    stk_error_clear(&error);
    p->feeding = true;
    pthread_mutex_unlock(&p->lock);
    const int64_t start = stk__now_ns();
    const stk_status status = stk__feeder_pull(p, w, part, rows, &error);
    const int64_t end = stk__now_ns();
    atomic_fetch_add_explicit(&w->busy_ns[0], end - start, memory_order_relaxed);
    if (w->track)
        stk__track_slice(w->track, p->names.steps[0], start, end, NULL);
    pthread_mutex_lock(&p->lock);
    p->feeding = false;
    if (status == STK_END) {
        p->supply_ended = true;
    } else if (status != STK_OK) {
        part->error_row = part->rows;
        part->error = error;
        p->supply_ended = true;
    }
    p->next_ticket += part->rows;
    wake_one_locked(p);
}

static bool may_start_part_locked(const stk_pipeline *p)
{
    if (p->failed || p->supply_ended || p->feeding || p->next_ticket >= p->total_tickets)
        return false;
    if (p->plan.config.on_demand && !p->asked)
        return false;
    const int limit = STK_MIN(p->threads + 2, (int)STK_COUNT(p->queue));
    if (p->queue_count >= limit)
        return false;
    if (p->queue_count > 0 && p->part_bytes == 0 && p->stored_count > 0)
        return false; /* how much a part takes is not known before the first is done */
    return p->queue_count < 1 || stk__budget_has_room(&p->budget, p->part_bytes * (size_t)(1 + p->running));
}

static bool flow_unit_locked(stk_pipeline *p, stk__worker *w)
{
    if (!may_start_part_locked(p))
        return false;
    stk__part *part = take_part_locked(p);
    if (!part)
        return false;
    const bool endless = p->total_tickets == STK__ENDLESS;
    const int64_t rows = unit_rows(p, endless ? p->part_rows : p->total_tickets - p->next_ticket);
    part->ticket = p->next_ticket;
    part->rows = 0;
    p->running++;
    p->queue[(p->queue_head + p->queue_count++) % (int)STK_COUNT(p->queue)] = part;
    wake_one_locked(p);
    if (p->plan.stream) {
        feed_part_locked(p, w, part, rows);
    } else {
        part->rows = rows;
        p->next_ticket += rows;
    }
    pthread_mutex_unlock(&p->lock);
    const int64_t start = stk__now_ns();
    const int64_t feed_error = part->error_row;
    part->error_row = -1;
    stk__worker_run(w, part, p->plan.stream ? item_position : ticket_position);
    if (part->error_row < 0)
        part->error_row = feed_error;
    const int64_t ns = stk__now_ns() - start;
    pthread_mutex_lock(&p->lock);
    note_speed_locked(p, part->rows, ns);
    const size_t bytes = stk__part_bytes(p, part);
    p->part_bytes = STK_MAX(p->part_bytes, bytes);
    if (part->rows > 0)
        p->row_bytes = STK_MAX(p->row_bytes, (int64_t)bytes / part->rows + 1);
    p->running--;
    part->ready = true;
    return true;
}

/* ---- what was made too early ---- */

/* The last batch in the making, or ready, when none of its rows is being worked on. One with an error stays: it is told. */
static bool drop_batch_locked(stk_pipeline *p)
{
    stk__slab *slab = p->flight_count > 1 ? flight_at(p, p->flight_count - 1) : NULL;
    if (!slab || slab->next_row != slab->rows_done || slab->error_row >= 0)
        return false;
    p->flight_count--;
    p->next_batch--;
    p->slab_count--;
    p->unfinished -= !slab->ready;
    stk__slab_free(p, slab);
    return true;
}

/* The last part in the line, when it is done. A stream cannot be read again. */
static bool drop_part_locked(stk_pipeline *p)
{
    const int last = (p->queue_head + p->queue_count - 1) % (int)STK_COUNT(p->queue);
    stk__part *part = p->queue_count > 1 ? p->queue[last] : NULL;
    if (!part || p->plan.stream || !part->ready || part->error_row >= 0 || part->cursor > 0)
        return false;
    p->queue_count--;
    p->next_ticket = part->ticket;
    stk__part_free(p, part);
    return true;
}

bool stk__drop_newest_locked(stk_pipeline *p)
{
    return p->direct ? drop_batch_locked(p) : drop_part_locked(p);
}

/* Where the next unit will start, for a source that looks ahead. */
static bool set_idle_place_locked(const stk_pipeline *p, stk__worker *w)
{
    w->idle_ticket = p->next_ticket;
    w->idle_epoch = 0;
    if (p->plan.stream || !p->direct)
        return true;
    if (p->next_batch >= p->plan.chain.total)
        return false;
    stk__position first;
    int64_t rows;
    stk__chain_batch(&p->plan.chain, p->next_batch, &first, &rows);
    w->idle_ticket = first.index;
    w->idle_epoch = first.epoch;
    return true;
}

/* A worker with nothing else to do works ahead for the source. */
static bool read_ahead_locked(stk_pipeline *p, stk__worker *w)
{
    const stk_op *source = p->plan.source->op;
    if (!source->ahead || p->failed || p->supply_ended || (p->plan.config.on_demand && !p->plan.stream) ||
        !set_idle_place_locked(p, w))
        return false;
    pthread_mutex_unlock(&p->lock);
    stk__worker_trace(w); /* what is shown as one must not reach over this */
    const int64_t start = stk__now_ns();
    const stk_status status = source->ahead(&w->calls[0].call);
    const int64_t end = stk__now_ns();
    if (status == STK_OK) {
        atomic_fetch_add_explicit(&w->busy_ns[0], end - start, memory_order_relaxed);
        if (w->track)
            stk__track_slice(w->track, p->names.steps[0], start, end, NULL);
    }
    pthread_mutex_lock(&p->lock);
    return status == STK_OK;
}

/* ---- workers ---- */

static bool assemble_locked(stk_pipeline *p, stk__worker *w)
{
    if (p->direct || !stk__can_assemble_locked(p))
        return false;
    stk__assemble_locked(p, w);
    return true;
}

static bool flow_work_locked(stk_pipeline *p, stk__worker *w)
{
    return assemble_locked(p, w) || flow_unit_locked(p, w);
}

static bool unit_locked(stk_pipeline *p, stk__worker *w)
{
    return p->direct ? direct_unit_locked(p, w) : flow_work_locked(p, w);
}

/* False with the lock held since the last look: the caller may wait. */
static bool work_locked(stk_pipeline *p, stk__worker *w)
{
    if (!stk__room_open_locked(p)) /* memory is short: only what gives some back */
        return p->room.pressed && assemble_locked(p, w);
    if (unit_locked(p, w) || read_ahead_locked(p, w))
        return true;
    /* Reading ahead lets go of the lock even when there is nothing to read: things may have changed meanwhile. */
    return p->plan.source->op->ahead && unit_locked(p, w);
}

static bool worker_stopped(void *arg)
{
    const stk_pipeline *p = arg;
    return atomic_load(&p->cancelled);
}

static void *worker_main(void *arg)
{
    stk__worker *w = arg;
    stk_pipeline *p = w->pipeline;
    stk__interrupt_set((stk__interrupt){worker_stopped, p}); /* a read of a pipe may never end by itself */
    pthread_mutex_lock(&p->lock);
    stk__room_busy_locked(p);
    while (!p->stopping) {
        if (work_locked(p, w)) {
            if (stk__room_done_locked(p) || !p->direct) /* a finished part lets others assemble it, or start the next */
                wake_one_locked(p);
            continue;
        }
        if (p->stopping) /* told while reading ahead had let go of the lock */
            break;
        stk__worker_trace(w);
        const int64_t start = w->track ? stk__now_ns() : 0;
        p->waiting++;
        stk__room_idle_locked(p);
        pthread_cond_wait(&p->work, &p->lock);
        stk__room_busy_locked(p);
        p->waiting--;
        if (w->track)
            stk__track_slice(w->track, p->feeding ? p->names.wait_input : p->names.wait_room, start, stk__now_ns(), NULL);
    }
    stk__room_idle_locked(p);
    pthread_mutex_unlock(&p->lock);
    stk__worker_trace(w);
    return NULL;
}

/* A time of our clock, which the condition variables go by too. */
static struct timespec time_at(int64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

/* Names workers that are long on one op; looks once a second. Not under the lock: what takes the message may wait. */
static void watch(stk_pipeline *p, int64_t limit_ns, int64_t *told)
{
    const int64_t now = stk__now_ns();
    for (int i = 0; i < p->threads; i++) {
        stk__worker *w = &p->workers[i];
        const int step = atomic_load(&w->stall_step);
        const int64_t since = atomic_load(&w->stall_since_ns);
        if (step < 0 || now - since < limit_ns || told[i] == since)
            continue;
        told[i] = since;
        stk__text t = STK__TEXT_INIT;
        stk__text_printf(&t, "worker %d has been in %s for %.0f s, at sample %lld or up to %d behind it", i,
                         stk__step_label(p->plan.segment[step]), (double)(now - since) / 1e9,
                         (long long)atomic_load(&w->stall_index), STK__TILE_MAX);
        if (p->plan.config.log && t.data)
            p->plan.config.log(p->plan.config.log_arg, STK_LOG_WARNING, t.data);
        stk__text_clear(&t);
    }
}

static void *watchdog_main(void *arg)
{
    stk_pipeline *p = arg;
    const int64_t limit = p->plan.config.stall_ns ? p->plan.config.stall_ns : (int64_t)30 * 1000000000;
    int64_t *told = stk__calloc((size_t)p->threads, sizeof *told);
    pthread_mutex_lock(&p->lock);
    while (told && !p->stopping) {
        const struct timespec until = time_at(stk__now_ns() + STK_MIN(limit / 2, (int64_t)1000000000) + 1000000);
        pthread_cond_timedwait(&p->watch, &p->lock, &until);
        pthread_mutex_unlock(&p->lock);
        watch(p, limit, told);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    stk__free(told);
    return NULL;
}

stk_status stk__exec_start(stk_pipeline *p, stk_error *err)
{
    p->started = true;
    for (int i = 0; i < p->threads; i++) {
        stk__worker *w = &p->workers[i];
        if (pthread_create(&w->thread, NULL, worker_main, w))
            return stk_error_set(err, STK_NOMEM, "cannot start worker thread %d of %d", i + 1, p->threads);
        w->started = true;
    }
    if (p->plan.config.stall_ns >= 0 && p->plan.config.log)
        p->watchdog_started = pthread_create(&p->watchdog, NULL, watchdog_main, p) == 0;
    return STK_OK;
}

static void trace_pause_locked(stk_pipeline *p);

void stk__exec_stop(stk_pipeline *p)
{
    atomic_store(&p->cancelled, true); /* also for what workers are in: they look now and then */
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_broadcast(&p->work);
    pthread_cond_broadcast(&p->ready);
    pthread_cond_broadcast(&p->watch);
    pthread_cond_broadcast(&p->room.calm);
    while (p->in_next > 0)
        pthread_cond_wait(&p->quiet, &p->lock);
    trace_pause_locked(p);
    p->consumer_track = NULL; /* the recorder may be closed from here on */
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; p->started && i < p->threads; i++)
        if (p->workers[i].started)
            pthread_join(p->workers[i].thread, NULL);
    if (p->watchdog_started)
        pthread_join(p->watchdog, NULL);
    p->started = false;
}

/* ---- the consumer ---- */

static bool all_done_locked(const stk_pipeline *p)
{
    return p->direct ? p->next_batch >= p->plan.chain.total && p->flight_count == 0 : p->ended && p->flight_count == 0;
}

static bool front_ready_locked(const stk_pipeline *p)
{
    return p->flight_count > 0 && flight_at(p, 0)->ready;
}

/* The failure can be told once all batches that are ready were taken. */
static bool front_failed_locked(const stk_pipeline *p)
{
    return p->failure_set && !front_ready_locked(p);
}

/* The consumer holds everything there is room for: waiting would never end. */
static bool starved_by_consumer_locked(const stk_pipeline *p)
{
    if (p->room.stuck && p->held_count > 0)
        return true;
    return p->held_count > 0 && p->flight_count == 0 && !p->filling && p->room.pressed == 0 && !stk__slab_room_locked(p);
}

/*
 * Waking a thread costs the waker microseconds, which matters when a batch takes not much longer than that. So where batches
 * come fast the consumer first naps by its own timer, for a quarter of what may be made ahead, and only asks to be woken when
 * nothing has come by then. A signal handler may set `cancelled` without waking anybody, so every wait has an end.
 */
static void wait_ready_locked(stk_pipeline *p, bool *nap, int64_t now, int64_t deadline)
{
    const int64_t nap_ns = STK_MIN(p->interval_ns * stk__ahead_locked(p) / 4, NAP_MOST_NS);
    const struct timespec until = time_at(STK_MIN(now + (*nap ? nap_ns : 50000000), deadline));
    p->consumer_waits = !*nap;
    pthread_cond_timedwait(&p->ready, &p->lock, &until);
    p->consumer_waits = false;
    *nap = false;
}

static stk_status starved(const stk_pipeline *p, stk_error *err)
{
    return stk_error_set(err, STK_BUDGET,
                         "the consumer holds %d batches and the budget of %lld bytes has no room for another; "
                         "release some or raise %s",
                         p->held_count, (long long)p->budget.limit, p->budget.name ? p->budget.name : "memory");
}

/* OK when the oldest batch is there. */
static stk_status wait_front_locked(stk_pipeline *p, int64_t deadline, stk_error *err)
{
    bool nap = p->interval_ns > 0 && p->interval_ns < FAST_BATCH_NS && !p->plan.config.on_demand && !p->paused;
    p->asked = true;
    if (p->plan.config.on_demand)
        wake_one_locked(p);
    stk__room_consumer_locked(p);
    for (;;) {
        if (atomic_load(&p->cancelled) || p->stopping)
            return stk_error_set(err, STK_CANCELLED, "the run was cancelled");
        if (front_ready_locked(p))
            return STK_OK;
        if (front_failed_locked(p)) {
            if (err)
                *err = p->failure;
            return p->failure.status;
        }
        if (all_done_locked(p))
            return STK_END;
        if (starved_by_consumer_locked(p))
            return starved(p, err);
        const int64_t now = stk__now_ns();
        if (now >= deadline)
            return stk_error_set(err, STK_TIMEOUT, "no batch was ready in time");
        wait_ready_locked(p, &nap, now, deadline);
    }
}

/* ---- what is noted of a wait ---- */

/* Time from one batch to the next, as the consumer takes them. */
static void note_interval_locked(stk_pipeline *p, int64_t now)
{
    if (p->last_batch_ns)
        p->interval_ns = (p->interval_ns * 7 + (now - p->last_batch_ns)) / 8;
    p->last_batch_ns = now;
}

/* Shows a wait that timed out and did not go on. */
static void trace_pause_locked(stk_pipeline *p)
{
    if (p->paused && p->consumer_track)
        stk__track_brief(p->consumer_track, p->names.wait_batch, p->paused_start_ns, p->paused_end_ns);
    p->paused = false;
}

static void trace_wait_locked(stk_pipeline *p, int64_t start, int64_t end)
{
    if (!p->consumer_track)
        return;
    stk__track_brief(p->consumer_track, p->names.wait_batch, start, end);
    if (end - p->counted_ns < COUNTER_NS)
        return;
    p->counted_ns = end;
    stk__track_counter(p->consumer_track, p->names.memory, end, (double)atomic_load(&p->budget.used));
    stk__track_counter(p->consumer_track, p->names.ready, end, (double)p->flight_count);
}

/*
 * A wait that a caller takes in pieces, to look at signals say, is one wait: one slice in the trace, one interval. Time
 * between the pieces, in which the caller did something else, ends it.
 */
static void note_wait_locked(stk_pipeline *p, stk_status status, int64_t start, int64_t end)
{
    atomic_fetch_add(&p->consumer_wait_ns, end - start);
    if (p->paused && start - p->paused_end_ns < PIECES_NS)
        start = p->paused_start_ns;
    else
        trace_pause_locked(p);
    p->paused = status == STK_TIMEOUT;
    if (p->paused) { /* `asked` stays: a batch is being made meanwhile */
        p->paused_start_ns = start;
        p->paused_end_ns = end;
        return;
    }
    p->asked = false;
    note_interval_locked(p, end);
    trace_wait_locked(p, start, end);
}

static stk_status take_front_locked(stk_pipeline *p, stk__slab **out, stk_error *err)
{
    stk__slab *slab = flight_at(p, 0);
    if (slab->error_row >= 0) {
        if (slab->error)
            p->failure = *slab->error;
        else
            stk__nomem(sizeof(stk_error), &p->failure);
        p->failure_set = true;
        if (err)
            *err = p->failure;
        return p->failure.status;
    }
    p->flight_head = (p->flight_head + 1) % FLIGHT_MAX;
    p->flight_count--;
    p->held_count++;
    slab->next = p->held_slabs;
    slab->previous = NULL;
    if (slab->next)
        slab->next->previous = slab;
    p->held_slabs = slab;
    p->slab_bytes = STK_MAX(p->slab_bytes, stk__slab_bytes(p, slab));
    wake_for_room_locked(p);
    stk__room_consumer_locked(p);
    *out = slab;
    return STK_OK;
}

static void note_place_locked(stk_pipeline *p, const stk__slab *slab)
{
    if (!p->direct)
        p->consumed = slab->after;
    else
        p->consumed.batches++;
    if (p->direct)
        p->consumed.samples += slab->batch.rows;
    atomic_fetch_add(&p->samples_out, slab->batch.rows);
    atomic_fetch_add(&p->batches_out, 1);
}

static stk_status next_until(stk_pipeline *p, int64_t deadline, const stk_batch **out, stk_error *err)
{
    stk_error_clear(err);
    stk__slab *slab = NULL;
    pthread_mutex_lock(&p->lock);
    p->in_next++;
    const int64_t start = stk__now_ns();
    stk_status status = wait_front_locked(p, deadline, err);
    const int64_t end = stk__now_ns();
    if (status == STK_OK)
        status = take_front_locked(p, &slab, err);
    if (!p->stopped) /* else the statistics stay as they are */
        note_wait_locked(p, status, start, end);
    if (status == STK_OK)
        note_place_locked(p, slab);
    p->in_next--;
    if (p->stopping)
        pthread_cond_broadcast(&p->quiet);
    pthread_mutex_unlock(&p->lock);
    if (status == STK_OK)
        *out = &slab->batch;
    return status;
}

stk_status stk_pipeline_next(stk_pipeline *p, const stk_batch **out, stk_error *err)
{
    return next_until(p, INT64_MAX, out, err);
}

stk_status stk_pipeline_next_within(stk_pipeline *p, int64_t timeout_ns, const stk_batch **out, stk_error *err)
{
    int64_t deadline;
    if (__builtin_add_overflow(stk__now_ns(), STK_MAX(timeout_ns, 0), &deadline))
        deadline = INT64_MAX;
    return next_until(p, deadline, out, err);
}

void stk_batch_release(stk_pipeline *p, const stk_batch *batch)
{
    if (!batch)
        return;
    stk__slab *slab = (stk__slab *)(uintptr_t)batch;
    pthread_mutex_lock(&p->lock);
    p->held_count--;
    /* A consumer may hold thousands, and give them back in any order. */
    *(slab->previous ? &slab->previous->next : &p->held_slabs) = slab->next;
    if (slab->next)
        slab->next->previous = slab->previous;
    if (p->stopped) {
        stk__slab_free(p, slab);
        stk__chunk_pool_trim(p->chunks);
    } else {
        give_slab_back_locked(p, slab);
        wake_for_room_locked(p);
        stk__room_consumer_locked(p);
    }
    pthread_mutex_unlock(&p->lock);
}

void stk_pipeline_cancel(stk_pipeline *p)
{
    /* Nothing but an atomic store, so that signal handlers may call it. */
    atomic_store(&p->cancelled, true);
}
