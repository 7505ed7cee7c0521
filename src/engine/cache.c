/*
 * The cache: samples as they are at one place of the pipeline, in memory or in one file.
 *
 * It never changes what comes out (ops before it draw random numbers as in epoch 0), so a sample that is not in it, or whose
 * bytes fail their check, is simply made again.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/cache.h"
#include "engine/run.h"

#include "base/banned.h"

#define LOOK_EVERY_NS ((int64_t)1000000000)
#define WAIT_STEP_NS ((int64_t)50 * 1000000)
#define WAIT_MOST_NS ((int64_t)60 * 1000000000)

/* A sample in memory. */
typedef struct stk__cache_blob {
    size_t size;
    int32_t dropped_at;
    _Alignas(16) char data[];
} blob;

/* What one run has of a store. */
typedef struct stk__cache {
    /* set at open, then const */
    stk__cache_store *store;
    int64_t limit;    /* of memory, without a file */
    int64_t expected; /* samples in a whole pass; -1: unknown */
    bool must_write;  /* there was no fitting file: failing to write one ends the run */

    _Atomic int64_t hits, misses, damaged;
    _Atomic int64_t bytes;   /* in memory: samples and pages */
    _Atomic int64_t charged; /* pages that the run's budget carries */
    atomic_bool told;        /* of damage */
} stk__cache;

static void say(const stk_pipeline *p, stk_log_level level, const char *text)
{
    if (p->plan.config.log)
        p->plan.config.log(p->plan.config.log_arg, level, text);
}

/* ---- opening ---- */

static uint64_t cache_fingerprint(stk_pipeline *p)
{
    uint64_t h = stk__mix(p->plan.prefix_fingerprint, p->plan.config.seed);
    h = stk__mix(h, p->plan.config.no_approximate);
    h = stk__mix(h, stk__data_fingerprint(p, p->plan.cache_at));
    stk__data_settle(p, p->plan.cache_at);
    h = stk__mix(h, stk__data_stamp(p, p->plan.cache_at));
    for (int i = 0; i < p->plan.cache_var_count; i++) {
        const stk__var *var = &p->plan.vars[p->plan.cache_vars[i]];
        h = stk__mix(h, XXH3_64bits(var->name, strlen(var->name)));
        h = stk__mix(h, (uint64_t)var->dtype * 16 + (uint64_t)var->ndim);
        h = stk__mix(h, XXH3_64bits(var->shape, sizeof var->shape));
    }
    return h;
}

/* How many different samples one pass brings: the order ops without their repeats. */
static int64_t expected_samples(const stk_pipeline *p)
{
    if (p->plan.stream)
        return -1;
    int64_t n = p->plan.chain.source_count;
    for (int i = 0; i < p->plan.chain.batch_at; i++) {
        const stk__chain_node *node = &p->plan.chain.nodes[i];
        if (node->order->kind != STK__ORDER_REPEAT)
            n = node->order->length(node->state, n);
    }
    return n;
}

/* Ranks keep a file each: PATH.shard-R-of-W. */
static char *name_file(const stk_pipeline *p, const char *path)
{
    int64_t count = 1, index = 0;
    for (int i = 0; i < p->plan.chain.batch_at; i++)
        if (p->plan.chain.nodes[i].order->get_shard)
            p->plan.chain.nodes[i].order->get_shard(p->plan.chain.nodes[i].state, &count, &index);
    const size_t room = strlen(path) + 64;
    char *name = stk__alloc(room);
    if (name && count > 1)
        snprintf(name, room, "%s.shard-%lld-of-%lld", path, (long long)index, (long long)count);
    else if (name)
        snprintf(name, room, "%s", path);
    return name;
}

/* Takes a fitting file over, or begins one. A file that is no cache of ours is refused rather than overwritten. */
static stk_status open_store_locked(stk_pipeline *p, stk__cache *c, stk_error *err)
{
    stk__cache_store *s = c->store;
    bool unfit = false;
    if (!s->opened)
        STK_TRY(stk__cache_adopt_locked(s, &p->budget, &c->charged, &unfit, err));
    s->opened = true;
    if (unfit)
        say(p, STK_LOG_INFO, "the cache file is damaged, or of another pipeline or other data; it will be made anew");
    if (atomic_load(&s->cramped))
        say(p, STK_LOG_WARNING,
            "the memory budget has no room for all entries of the cache file: some samples are made again");
    const bool enough = s->published >= 0 && s->published >= c->expected;
    c->must_write = !enough && !atomic_load(&s->cramped);
    return c->must_write ? stk__cache_temp_locked(s, err) : STK_OK;
}

static stk_status open_file(stk_pipeline *p, stk__cache *c, const char *path, stk_error *err)
{
    char *name = name_file(p, path);
    if (!name)
        return stk__nomem(strlen(path), err);
    stk_status status = stk__make_parents(name, err);
    if (status == STK_OK)
        status = stk__cache_store_join(name, cache_fingerprint(p), &c->store, err);
    stk__free(name);
    STK_TRY(status);
    pthread_mutex_lock(&c->store->lock);
    status = open_store_locked(p, c, err);
    pthread_mutex_unlock(&c->store->lock);
    return status;
}

stk_status stk__cache_open(stk_pipeline *p, stk_error *err)
{
    if (!p->plan.cache)
        return STK_OK;
    const stk__cache_state *state = p->plan.cache->state;
    stk__cache *c = stk__calloc(1, sizeof *c);
    if (!c)
        return stk__nomem(sizeof *c, err);
    p->cache = c;
    c->limit = state->memory ? STK_MIN(state->memory, p->budget.limit / 2) : p->budget.limit / 2;
    c->expected = expected_samples(p);
    return state->path ? open_file(p, c, state->path, err) : stk__cache_store_new(NULL, 0, &c->store, err);
}

/* ---- taking samples out ---- */

/* Pages that other runs added to the store count here as well. Without room for them the run does without the cache. */
static bool carries_pages(stk_pipeline *p, stk__cache *c)
{
    int64_t charged = atomic_load_explicit(&c->charged, memory_order_relaxed);
    for (;;) {
        const int64_t bytes = atomic_load_explicit(&c->store->page_bytes, memory_order_relaxed);
        if (STK_LIKELY(charged >= bytes))
            return true;
        if (!atomic_compare_exchange_weak(&c->charged, &charged, bytes))
            continue;
        const size_t more = (size_t)(bytes - charged);
        if (stk__budget_has_room(&p->budget, more) && stk__budget_charge(&p->budget, more))
            return true;
        atomic_fetch_sub(&c->charged, (int64_t)more);
        return false;
    }
}

/* Looks, now and then, whether another process has published the file meanwhile. True: there is something new in the store. */
static bool look_for_file(stk_pipeline *p, stk__cache *c)
{
    stk__cache_store *s = c->store;
    const int64_t now = stk__now_ns();
    int64_t before = atomic_load_explicit(&s->looked_ns, memory_order_relaxed);
    if (now - before < LOOK_EVERY_NS || !atomic_compare_exchange_strong(&s->looked_ns, &before, now) || before == 0)
        return false;
    bool unfit;
    pthread_mutex_lock(&s->lock);
    const int had = s->fd_count;
    stk__cache_adopt_locked(s, &p->budget, &c->charged, &unfit, NULL);
    const bool found = s->fd_count > had;
    pthread_mutex_unlock(&s->lock);
    return found;
}

/* Only an op before the cache can have dropped a sample, and none does where batches are counted in advance. */
static bool dropped_fits(const stk_pipeline *p, int32_t dropped_at)
{
    return dropped_at == STK__ROW_KEPT || (!p->direct && dropped_at >= 0 && dropped_at < p->plan.cache_at);
}

static void note_damage(const stk_pipeline *p, stk__cache *c, int64_t index, const stk__cache_place *place)
{
    char text[512];
    atomic_fetch_add(&c->damaged, 1);
    if (atomic_exchange(&c->told, true))
        return;
    snprintf(text, sizeof text,
             "%.300s: sample %lld at byte %lld fails its check and is made again; others that do are only counted",
             c->store->path, (long long)index, (long long)place->offset);
    say(p, STK_LOG_WARNING, text);
}

/* The sample from the file: OK, or END when it must be made again. */
static stk_status get_from_file(stk_pipeline *p, stk__worker *w, stk__cache_entry *e, int64_t index, stk_value *values,
                                int32_t *out_dropped_at)
{
    stk__cache *c = p->cache;
    stk__cache_place place;
    if (!stk__cache_place_of(e, &place))
        return STK_END;
    bool good = dropped_fits(p, place.dropped_at);
    stk_error error;
    stk_error_clear(&error);
    if (good && place.dropped_at == STK__ROW_KEPT) {
        char *data = stk__arena_alloc(&w->scratch, p->chunks, (size_t)place.size, &error);
        if (!data)
            return STK_END; /* if it is that large, making it fails in the same way */
        good = stk__cache_read(c->store, &place, data) &&
               stk__unpack(&p->plan, p->plan.cache_vars, p->plan.cache_var_count, data, (size_t)place.size, values,
                           &w->scratch, p->chunks, &error) == STK_OK;
    }
    if (good) {
        *out_dropped_at = place.dropped_at;
        return STK_OK;
    }
    if (error.status == STK_BUDGET || error.status == STK_NOMEM)
        return STK_END;
    if (stk__cache_spoil(c->store, e, &place))
        note_damage(p, c, index, &place);
    return STK_END;
}

static stk_status get_from_memory(stk_pipeline *p, stk__worker *w, const stk__cache_entry *e, stk_value *values,
                                  int32_t *out_dropped_at, stk_error *err)
{
    if (atomic_load_explicit(&e->state, memory_order_acquire) != STK__CACHE_STORED)
        return STK_END;
    const blob *b = atomic_load(&e->in_memory);
    *out_dropped_at = b->dropped_at;
    if (b->dropped_at != STK__ROW_KEPT)
        return STK_OK;
    return stk__unpack(&p->plan, p->plan.cache_vars, p->plan.cache_var_count, b->data, b->size, values, &w->scratch,
                       p->chunks, err);
}

static stk_status look_up(stk_pipeline *p, stk__worker *w, int64_t index, stk_value *values, int32_t *out_dropped_at,
                          stk_error *err)
{
    stk__cache *c = p->cache;
    stk__cache_store *s = c->store;
    for (int look = 0; look < 2; look++) {
        if (look && (!s->path || !look_for_file(p, c)))
            break;
        stk__cache_entry *e = carries_pages(p, c) ? stk__cache_find(s, index) : NULL;
        stk_status status = STK_END;
        if (e)
            status = s->path ? get_from_file(p, w, e, index, values, out_dropped_at)
                             : get_from_memory(p, w, e, values, out_dropped_at, err);
        if (status != STK_END)
            return status;
    }
    return STK_END;
}

/* ---- claims ---- */

/* MINE, OTHERS, or NONE where it could not be stored anyway. *out_ready: it was stored just now. */
static stk__claim claim(stk_pipeline *p, int64_t index, bool *out_ready)
{
    stk__cache *c = p->cache;
    stk__cache_place place;
    *out_ready = false;
    if (!c->store->path || !carries_pages(p, c))
        return STK__CLAIM_NONE;
    stk__cache_entry *e = stk__cache_make(c->store, index, &p->budget, &c->charged);
    if (!e || atomic_load(&e->state) == STK__CACHE_LOST)
        return STK__CLAIM_NONE;
    if (atomic_exchange(&e->claimed, true))
        return STK__CLAIM_OTHERS;
    *out_ready = stk__cache_place_of(e, &place);
    if (*out_ready)
        stk__cache_unclaim(p, index);
    return *out_ready ? STK__CLAIM_NONE : STK__CLAIM_MINE;
}

stk_status stk__cache_get(stk_pipeline *p, stk__worker *w, int64_t index, stk_value *values, int32_t *out_dropped_at,
                          stk__claim *out_claim, stk_error *err)
{
    stk__cache *c = p->cache;
    *out_claim = STK__CLAIM_NONE;
    bool again = true;
    stk_status status = STK_END;
    for (int tries = 0; again && tries < 3; tries++) {
        status = look_up(p, w, index, values, out_dropped_at, err);
        if (status != STK_END)
            break;
        *out_claim = claim(p, index, &again);
    }
    if (*out_claim != STK__CLAIM_OTHERS)
        atomic_fetch_add_explicit(status == STK_END ? &c->misses : &c->hits, 1, memory_order_relaxed);
    return status;
}

void stk__cache_unclaim(stk_pipeline *p, int64_t index)
{
    stk__cache_store *s = p->cache->store;
    pthread_mutex_lock(&s->lock); /* so that nobody goes to sleep between looking and this */
    atomic_store(&stk__cache_find(s, index)->claimed, false);
    pthread_cond_broadcast(&s->unclaimed);
    pthread_mutex_unlock(&s->lock);
}

void stk__cache_missed(stk_pipeline *p)
{
    atomic_fetch_add_explicit(&p->cache->misses, 1, memory_order_relaxed);
}

static struct timespec from_now(int64_t ns)
{
    const int64_t at = stk__now_ns() + ns;
    return (struct timespec){at / 1000000000, at % 1000000000};
}

void stk__cache_wait(stk_pipeline *p, int64_t index)
{
    stk__cache_store *s = p->cache->store;
    const stk__cache_entry *e = stk__cache_find(s, index);
    const int64_t end = stk__now_ns() + WAIT_MOST_NS;
    pthread_mutex_lock(&s->lock);
    while (atomic_load(&e->claimed) && !atomic_load(&p->stop_asked) && !atomic_load(&p->cancelled) &&
           stk__now_ns() < end) {
        const struct timespec until = from_now(WAIT_STEP_NS); /* a stop does not wake us */
        pthread_cond_timedwait(&s->unclaimed, &s->lock, &until);
    }
    pthread_mutex_unlock(&s->lock);
}

/* ---- putting samples in ---- */

static void put_in_memory(stk_pipeline *p, stk__worker *w, int64_t index, int32_t dropped_at)
{
    stk__cache *c = p->cache;
    const size_t size = w->cache_buffer.size, room = sizeof(blob) + size;
    const int64_t pages = atomic_load(&c->charged);
    stk__cache_entry *e = atomic_load(&c->bytes) + pages + (int64_t)room > c->limit
                              ? NULL
                              : stk__cache_make(c->store, index, &p->budget, &c->charged);
    /* Full: this sample is made again when it comes next. */
    if (!e || !stk__budget_has_room(&p->budget, room))
        return;
    stk_error ignored;
    stk_error_clear(&ignored);
    blob *b = stk__budget_alloc(&p->budget, room, &ignored);
    if (!b)
        return;
    b->size = size;
    b->dropped_at = dropped_at;
    if (size)
        memcpy(b->data, w->cache_buffer.data, size);
    blob *none = NULL;
    if (!atomic_compare_exchange_strong(&e->in_memory, &none, b)) {
        stk__budget_free(&p->budget, b, room);
        return;
    }
    atomic_fetch_add(&c->bytes, (int64_t)room);
    atomic_store_explicit(&e->state, STK__CACHE_STORED, memory_order_release);
    atomic_fetch_add(&c->store->stored, 1);
}

/* Publishes, unless another process was faster with all that is wanted. */
static stk_status publish_locked(stk_pipeline *p, stk__cache *c, int64_t wanted, stk_error *err)
{
    stk__cache_store *s = c->store;
    bool unfit;
    if (atomic_load(&s->cramped))
        return STK_OK;
    STK_TRY(stk__cache_adopt_locked(s, &p->budget, &c->charged, &unfit, err));
    return s->published >= wanted && s->mended == 0 ? STK_OK : stk__cache_publish_locked(s, err);
}

static stk_status put_locked(stk_pipeline *p, stk__worker *w, stk__cache_entry *e, int32_t dropped_at, stk_error *err)
{
    stk__cache *c = p->cache;
    stk__cache_store *s = c->store;
    const uint8_t state = atomic_load(&e->state);
    if ((state != STK__CACHE_EMPTY && state != STK__CACHE_BAD) || s->no_temp)
        return STK_OK;
    STK_TRY(stk__cache_temp_locked(s, err));
    STK_TRY(stk__cache_append_locked(s, e, w->cache_buffer.data, w->cache_buffer.size, dropped_at, err));
    const bool whole = c->expected >= 0 && atomic_load(&s->stored) >= c->expected;
    return whole && s->published < c->expected ? publish_locked(p, c, c->expected, err) : STK_OK;
}

/* A file that was there already is only to be mended: that this fails is no harm. */
static stk_status forgive_locked(const stk_pipeline *p, stk__cache *c, stk_status status, stk_error *err)
{
    if (status == STK_OK || c->must_write)
        return status;
    char text[512];
    snprintf(text, sizeof text, "%.200s: the cache file cannot be mended: %.250s", c->store->path,
             err ? err->message : "");
    say(p, STK_LOG_WARNING, text);
    c->store->no_temp = true;
    stk_error_clear(err);
    return STK_OK;
}

stk_status stk__cache_put(stk_pipeline *p, stk__worker *w, int64_t index, const stk_value *values, int32_t dropped_at,
                          stk_error *err)
{
    stk__cache *c = p->cache;
    stk__cache_store *s = c->store;
    stk__cache_entry *e = NULL;
    if (s->path) {
        e = carries_pages(p, c) ? stk__cache_make(s, index, &p->budget, &c->charged) : NULL;
        const uint8_t state = e ? atomic_load(&e->state) : STK__CACHE_LOST;
        if (state != STK__CACHE_EMPTY && state != STK__CACHE_BAD)
            return STK_OK;
    }
    w->cache_buffer.size = 0;
    if (dropped_at == STK__ROW_KEPT)
        STK_TRY(stk__pack(&p->plan, p->plan.cache_vars, p->plan.cache_var_count, values, &w->cache_buffer, &p->budget,
                          err));
    if (!s->path) {
        put_in_memory(p, w, index, dropped_at);
        return STK_OK;
    }
    pthread_mutex_lock(&s->lock);
    const stk_status status = forgive_locked(p, c, put_locked(p, w, e, dropped_at, err), err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* ---- the end ---- */

/* How many samples a whole pass has; -1: not known yet. */
static int64_t pass_samples(const stk_pipeline *p)
{
    const stk__cache *c = p->cache;
    return p->plan.stream ? stk__feeder_source_count(p) : c->expected;
}

bool stk__cache_complete(const stk_pipeline *p)
{
    const stk__cache *c = p->cache;
    const int64_t all = pass_samples(p);
    return all >= 0 && atomic_load(&c->store->stored) >= all;
}

static void tell_damage(const stk_pipeline *p, const stk__cache *c, bool replaced)
{
    char text[512];
    snprintf(text, sizeof text, "%.300s: %lld samples failed their check and were made again; %s", c->store->path,
             (long long)atomic_load(&c->damaged),
             replaced ? "the file was replaced by a sound one" : "the file is still damaged");
    say(p, STK_LOG_WARNING, text);
}

stk_status stk__cache_finish(stk_pipeline *p, stk_error *err)
{
    stk__cache *c = p->cache;
    if (!c || !c->store->path)
        return STK_OK;
    stk__cache_store *s = c->store;
    pthread_mutex_lock(&s->lock);
    const bool complete = stk__cache_complete(p), damaged = atomic_load(&c->damaged) > 0;
    stk_status status = STK_OK;
    if (complete && (s->published < pass_samples(p) || s->mended > 0) && !s->no_temp)
        status = forgive_locked(p, c, publish_locked(p, c, pass_samples(p), err), err);
    const bool left = s->published >= 0, sound = s->mended == 0 && complete;
    pthread_mutex_unlock(&s->lock);
    if (damaged)
        tell_damage(p, c, status == STK_OK && sound);
    if (!left && status == STK_OK)
        say(p, STK_LOG_INFO, "the run ended before every sample was seen once, so no cache file was left");
    return status;
}

static void free_blobs(stk_pipeline *p, stk__cache_store *s)
{
    for (size_t page = 0; page < atomic_load(&s->page_end); page++) {
        stk__cache_entry *entries = atomic_load(&s->pages[page]);
        for (int i = 0; entries && i < STK__CACHE_PAGE_ENTRIES; i++) {
            blob *b = atomic_load(&entries[i].in_memory);
            if (b)
                stk__budget_free(&p->budget, b, sizeof *b + b->size);
        }
    }
}

void stk__cache_close(stk_pipeline *p)
{
    stk__cache *c = p->cache;
    if (!c)
        return;
    if (c->store && !c->store->path)
        free_blobs(p, c->store);
    stk__budget_return(&p->budget, (size_t)atomic_load(&c->charged));
    stk__cache_store_leave(c->store);
    stk__free(c);
    p->cache = NULL;
}

void stk__cache_counts(const stk_pipeline *p, int64_t *out_hits, int64_t *out_misses, int64_t *out_damaged)
{
    const stk__cache *c = p->cache;
    *out_hits = c ? atomic_load(&c->hits) : 0;
    *out_misses = c ? atomic_load(&c->misses) : 0;
    *out_damaged = c ? atomic_load(&c->damaged) : 0;
}
