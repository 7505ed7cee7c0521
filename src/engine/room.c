/*
 * When the budget is full: a worker that found no memory waits until the others are idle, all that is kept for later is
 * freed, and it has the memory to itself; then it tries again. So a run ends with STK_BUDGET only where one tile, on its
 * own, does not fit beside the batches that must be there.
 *
 * All of p->room is guarded by the pipeline's lock. While anybody is pressed, no unit is started; parts that are done are
 * still assembled, since that is how memory comes back. The oldest work goes first (by the serial of its part): newer work
 * waits for it, so nothing older can ever be waited for. A worker holds neither locks nor chunks of a source here: it comes
 * from outside of all ops.
 */
#include "base/clock.h"
#include "engine/run.h"

static bool older_waits(const struct stk__room *r, uint64_t serial)
{
    for (int i = 0; i < r->waiting_count; i++)
        if (r->waiting[i] < serial)
            return true;
    return false;
}

static bool may_take(const struct stk__room *r, uint64_t serial)
{
    return !r->taken && r->busy == 0 && !older_waits(r, serial);
}

static void wait_begin(stk_pipeline *p, uint64_t serial)
{
    p->room.waiting[p->room.waiting_count++] = serial;
    stk__room_idle_locked(p);
}

static void wait_end(stk_pipeline *p, uint64_t serial)
{
    struct stk__room *r = &p->room;
    int at = 0;
    while (r->waiting[at] != serial)
        at++;
    r->waiting[at] = r->waiting[--r->waiting_count];
    r->busy++;
}

/* What can be made anew. Nobody is in an op. */
static void give_up_spare_locked(stk_pipeline *p)
{
    for (int k = 0; k < p->threads; k++) {
        stk__arena_release(&p->workers[k].scratch, p->chunks);
        stk__buffer_clear(&p->workers[k].cache_buffer, &p->budget);
        for (int i = 0; i < p->plan.segment_count; i++) {
            const stk__worker_call *wc = &p->workers[k].calls[i];
            if (wc->opened && p->plan.segment[i]->op->trim)
                p->plan.segment[i]->op->trim(&wc->call);
        }
    }
    for (stk__slab *slab = p->free_slabs, *next; slab; slab = next, p->slab_count--) {
        next = slab->next;
        stk__slab_free(p, slab);
    }
    p->free_slabs = NULL;
    for (stk__part *part = p->free_parts, *next; part; part = next) {
        next = part->next;
        stk__part_free(p, part);
    }
    p->free_parts = NULL;
    stk__chunk_pool_trim(p->chunks);
}

void stk__room_idle_locked(stk_pipeline *p)
{
    p->room.busy--;
    if (p->room.pressed)
        pthread_cond_broadcast(&p->room.calm);
}

void stk__room_busy_locked(stk_pipeline *p)
{
    p->room.busy++;
}

bool stk__room_open_locked(const stk_pipeline *p)
{
    return p->room.pressed == 0 && p->room.busy <= p->room.allowed;
}

bool stk__room_done_locked(stk_pipeline *p)
{
    struct stk__room *r = &p->room;
    if (STK_LIKELY(r->allowed >= p->threads) || r->pressed || ++r->calm_units < 8 * r->allowed)
        return false;
    r->calm_units = 0;
    r->allowed++;
    return true;
}

void stk__room_consumer_locked(stk_pipeline *p)
{
    if (STK_LIKELY(!p->room.pressed))
        return;
    pthread_cond_broadcast(&p->room.calm);
    pthread_cond_broadcast(&p->work); /* there may be something to assemble */
}

bool stk__room_enter_locked(stk_pipeline *p, stk__worker *w, uint64_t serial)
{
    struct stk__room *r = &p->room;
    if (!p->started || p->stopping)
        return false;
    const int64_t start = w && w->track ? stk__now_ns() : 0;
    /* So many at a time were too many. */
    r->allowed = STK_MAX(1, STK_MIN(r->allowed, r->busy) - 1);
    r->calm_units = 0;
    r->pressed++;
    wait_begin(p, serial);
    while (!p->stopping && !may_take(r, serial))
        pthread_cond_wait(&r->calm, &p->lock);
    wait_end(p, serial);
    if (start)
        stk__track_slice(w->track, p->names.wait_memory, start, stk__now_ns(), NULL);
    r->taken = true;
    if (p->stopping) {
        stk__room_leave_locked(p);
        return false;
    }
    give_up_spare_locked(p);
    return true;
}

void stk__room_leave_locked(stk_pipeline *p)
{
    p->room.taken = p->room.stuck = false;
    p->room.pressed--;
    pthread_cond_broadcast(&p->room.calm);
    if (p->room.pressed == 0)
        pthread_cond_broadcast(&p->work);
}

/* Batches that the consumer will take, or may be giving back. */
static bool may_come_back_locked(const stk_pipeline *p)
{
    const bool front_ready = p->flight_count > 0 && p->flight[p->flight_head]->ready;
    return front_ready || !p->asked || (!p->direct && stk__can_assemble_locked(p));
}

static int64_t in_use(const stk_pipeline *p)
{
    return atomic_load(&p->budget.used) - atomic_load(&p->budget.spare);
}

bool stk__room_await_locked(stk_pipeline *p, uint64_t serial)
{
    struct stk__room *r = &p->room;
    const int64_t used = in_use(p);
    bool more = true;
    r->taken = false;
    wait_begin(p, serial);
    stk__room_consumer_locked(p);
    while (!p->stopping) {
        if (may_take(r, serial) && !p->direct && p->waiting == 0 && stk__can_assemble_locked(p)) {
            /* All others wait here too: what they have done is assembled by this one. Which worker's name it has does not matter. */
            wait_end(p, serial);
            stk__assemble_locked(p, &p->workers[0]);
            wait_begin(p, serial);
            continue;
        }
        if (may_take(r, serial)) {
            if (in_use(p) < used || p->free_slabs || p->free_parts)
                break;
            if (!may_come_back_locked(p)) {
                if (stk__drop_newest_locked(p))
                    break;
                more = p->held_count > 0;
                if (!more)
                    break;
                r->stuck = true; /* the consumer is told so: see stk_pipeline_next */
                pthread_cond_broadcast(&p->ready);
            }
        }
        pthread_cond_wait(&r->calm, &p->lock);
    }
    wait_end(p, serial);
    r->taken = true;
    r->stuck = false;
    if (p->stopping || !more)
        return false;
    give_up_spare_locked(p);
    return true;
}

bool stk__room_enter(stk_pipeline *p, stk__worker *w, uint64_t serial)
{
    pthread_mutex_lock(&p->lock);
    const bool entered = stk__room_enter_locked(p, w, serial);
    pthread_mutex_unlock(&p->lock);
    return entered;
}

void stk__room_leave(stk_pipeline *p)
{
    pthread_mutex_lock(&p->lock);
    stk__room_leave_locked(p);
    pthread_mutex_unlock(&p->lock);
}

bool stk__room_await(stk_pipeline *p, uint64_t serial)
{
    pthread_mutex_lock(&p->lock);
    const bool again = stk__room_await_locked(p, serial);
    pthread_mutex_unlock(&p->lock);
    return again;
}

stk_status stk__room_reserve(stk_pipeline *p, stk__buffer *b, size_t extra, uint64_t serial, stk_error *err)
{
    stk_status status = stk__buffer_reserve(b, &p->budget, extra, err);
    if (STK_LIKELY(status != STK_BUDGET) || !stk__room_enter(p, NULL, serial))
        return status;
    do {
        stk_error_clear(err);
        status = stk__buffer_reserve(b, &p->budget, extra, err);
    } while (status == STK_BUDGET && stk__room_await(p, serial));
    stk__room_leave(p);
    return status;
}
