/*
 * A hash table of chunks and a list of those that nobody holds. Memory of chunks that go is used again for the next
 * of that size.
 *
 * A chunk that cannot be decoded stays in the table without its memory, as the reason why, so that its other rows fail at
 * once with the same words. These have a list and a bound of their own: they are never in the way of chunks with data.
 */
#include "ops/chunk_cache.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

/* Chunks of several datasets lie in one list; so many are looked at for one of the right size. */
enum { USED_UP_LOOKS = 16 };
/* Failures that are remembered take up to this part of the limit; a few always are. */
enum { FAILED_PART = 32, FAILED_LEAST = 16 };
#define FAILED_BYTES (sizeof(stk__chunk) + sizeof(stk_error))

const stk_error stk__chunk_nomem = {
    .status = STK_NOMEM, .message = "out of memory: an error could not be kept", .offset = -1, .record = -1};

void stk__chunk_error_free(const stk_error *error)
{
    if (error != &stk__chunk_nomem)
        stk__free((void *)(uintptr_t)error);
}

/* By last use. */
typedef struct chunk_list {
    stk__chunk *oldest, *newest;
} chunk_list;

struct stk__chunk_cache {
    size_t limit;
    size_t failed_most;
    bool keep;
    pthread_mutex_t lock;
    pthread_cond_t moved;

    /* guarded by lock */
    stk__chunk **buckets;
    size_t bucket_count, count; /* bucket_count is a power of two */
    size_t bytes;               /* of all chunks, and of what waits to be used again */
    chunk_list idle;            /* nobody holds them */
    chunk_list failed;          /* of those without data; nobody holds them */
    size_t failed_count;        /* without data, held or not */
    stk__chunk *spare;          /* dead, by `chain`: memory to be used again */
    uint64_t moves;
    int waiting;
    int64_t hits, fills;
};

static size_t failed_most(size_t limit_bytes)
{
    return STK_MAX(limit_bytes / FAILED_PART / FAILED_BYTES, (size_t)FAILED_LEAST);
}

size_t stk__chunk_cache_memory(size_t limit_bytes)
{
    return limit_bytes + failed_most(limit_bytes) * FAILED_BYTES;
}

stk_status stk__chunk_cache_new(size_t limit_bytes, bool keep, stk__chunk_cache **out, stk_error *err)
{
    stk__chunk_cache *c = stk__calloc(1, sizeof *c);
    if (!c)
        return stk__nomem(sizeof *c, err);
    c->limit = limit_bytes;
    c->failed_most = failed_most(limit_bytes);
    c->keep = keep;
    c->bucket_count = 64;
    c->moves = 1;
    c->buckets = stk__calloc(c->bucket_count, sizeof(stk__chunk *));
    if (!c->buckets) {
        stk__free(c);
        return stk__nomem(64 * sizeof(stk__chunk *), err);
    }
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->moved, NULL);
    *out = c;
    return STK_OK;
}

static void drop_contents(stk__chunk_cache *c, stk__chunk *chunk)
{
    c->bytes -= chunk->heap_bytes;
    stk__free(chunk->heap);
    stk__chunk_error_free(chunk->error);
    chunk->heap = NULL;
    chunk->heap_bytes = 0;
    chunk->error = NULL;
}

static void free_chunk(stk__chunk_cache *c, stk__chunk *chunk)
{
    drop_contents(c, chunk);
    c->bytes -= chunk->bytes;
    stk__free(chunk->data);
    stk__free(chunk);
}

void stk__chunk_cache_free(stk__chunk_cache *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->bucket_count; i++) {
        for (stk__chunk *chunk = c->buckets[i], *next; chunk; chunk = next) {
            next = chunk->chain;
            free_chunk(c, chunk);
        }
    }
    for (stk__chunk *chunk = c->spare, *next; chunk; chunk = next) {
        next = chunk->chain;
        free_chunk(c, chunk);
    }
    stk__free(c->buckets);
    pthread_cond_destroy(&c->moved);
    pthread_mutex_destroy(&c->lock);
    stk__free(c);
}

/* ---- the table ---- */

static stk__chunk **bucket_of(const stk__chunk_cache *c, const stk__chunk_key *key)
{
    const uint64_t hash = stk__mix(key->number, (uint64_t)(uint32_t)key->file << 32 | (uint32_t)key->dataset);
    return &c->buckets[hash & (c->bucket_count - 1)];
}

static bool same(const stk__chunk_key *a, const stk__chunk_key *b)
{
    return a->number == b->number && a->file == b->file && a->dataset == b->dataset;
}

static stk__chunk *find(const stk__chunk_cache *c, const stk__chunk_key *key)
{
    stk__chunk *chunk = *bucket_of(c, key);
    while (chunk && !same(&chunk->key, key))
        chunk = chunk->chain;
    return chunk;
}

/* More buckets when chains grow; without memory they just stay longer. */
static void grow_table(stk__chunk_cache *c)
{
    stk__chunk **old = c->buckets;
    const size_t old_count = c->bucket_count;
    stk__chunk **buckets = stk__calloc(2 * old_count, sizeof(stk__chunk *));
    if (!buckets)
        return;
    c->buckets = buckets;
    c->bucket_count = 2 * old_count;
    for (size_t i = 0; i < old_count; i++) {
        for (stk__chunk *chunk = old[i], *next; chunk; chunk = next) {
            next = chunk->chain;
            stk__chunk **bucket = bucket_of(c, &chunk->key);
            chunk->chain = *bucket;
            *bucket = chunk;
        }
    }
    stk__free(old);
}

static void insert(stk__chunk_cache *c, stk__chunk *chunk)
{
    if (c->count >= c->bucket_count)
        grow_table(c);
    stk__chunk **bucket = bucket_of(c, &chunk->key);
    chunk->chain = *bucket;
    *bucket = chunk;
    c->count++;
}

static void remove_from_table(stk__chunk_cache *c, stk__chunk *chunk)
{
    stk__chunk **link = bucket_of(c, &chunk->key);
    while (*link != chunk)
        link = &(*link)->chain;
    *link = chunk->chain;
    c->count--;
}

/* ---- the lists of those that nobody holds ---- */

/* The list that it is in, or belongs to. Only a failure has no data. */
static chunk_list *list_of(stk__chunk_cache *c, const stk__chunk *chunk)
{
    return chunk->data ? &c->idle : &c->failed;
}

static void unlist(stk__chunk_cache *c, stk__chunk *chunk)
{
    chunk_list *list = list_of(c, chunk);
    *(chunk->older ? &chunk->older->newer : &list->oldest) = chunk->newer;
    *(chunk->newer ? &chunk->newer->older : &list->newest) = chunk->older;
    chunk->newer = chunk->older = NULL;
}

/* Chunks that were used up, or hold nothing that is any good, go first. */
static void enlist(stk__chunk_cache *c, stk__chunk *chunk)
{
    chunk_list *list = list_of(c, chunk);
    const bool first_to_go = chunk->data && (chunk->left <= 0 || chunk->error);
    if (first_to_go) {
        chunk->newer = list->oldest;
        *(list->oldest ? &list->oldest->older : &list->newest) = chunk;
        list->oldest = chunk;
    } else {
        chunk->older = list->newest;
        *(list->newest ? &list->newest->newer : &list->oldest) = chunk;
        list->newest = chunk;
    }
}

/* ---- failures ---- */

/* Whether it would fail in the same way again. Memory, and reading from a disk far away, may do better next time. */
static bool is_final(const stk_error *error)
{
    return error && error->status != STK_NOMEM && error->status != STK_IO && error->status != STK_CANCELLED;
}

/* Gives back the memory of a chunk that nobody holds, and keeps why there is nothing in it. */
static void keep_failure(stk__chunk_cache *c, stk__chunk *chunk)
{
    c->bytes -= chunk->bytes + chunk->heap_bytes;
    stk__free(chunk->data);
    stk__free(chunk->heap);
    chunk->data = chunk->heap = NULL;
    chunk->bytes = chunk->heap_bytes = 0;
    c->failed_count++;
    while (c->failed_count > c->failed_most && c->failed.oldest) {
        stk__chunk *oldest = c->failed.oldest;
        unlist(c, oldest);
        remove_from_table(c, oldest);
        free_chunk(c, oldest);
        c->failed_count--;
    }
}

/* ---- room ---- */

/* Takes a chunk out of use and keeps its memory. */
static void retire(stk__chunk_cache *c, stk__chunk *chunk)
{
    unlist(c, chunk);
    remove_from_table(c, chunk);
    drop_contents(c, chunk);
    chunk->chain = c->spare;
    c->spare = chunk;
}

static stk__chunk *take_spare(stk__chunk_cache *c, size_t bytes)
{
    for (stk__chunk **link = &c->spare; *link; link = &(*link)->chain) {
        stk__chunk *chunk = *link;
        if (chunk->bytes != bytes)
            continue;
        *link = chunk->chain;
        return chunk;
    }
    return NULL;
}

static void free_spares(stk__chunk_cache *c)
{
    while (c->spare) {
        stk__chunk *chunk = c->spare;
        c->spare = chunk->chain;
        free_chunk(c, chunk);
    }
}

static stk__chunk *new_chunk(size_t bytes)
{
    stk__chunk *chunk = stk__calloc(1, sizeof *chunk);
    if (!chunk)
        return NULL;
    chunk->data = stk__alloc_aligned(bytes);
    chunk->bytes = bytes;
    if (chunk->data)
        return chunk;
    stk__free(chunk);
    return NULL;
}

static bool may_go(const stk__chunk *chunk, bool gently)
{
    return chunk && (!gently || chunk->left <= 0 || chunk->error);
}

/* Chunks that have memory: while there are any, some of it will be released. */
static size_t live_count(const stk__chunk_cache *c)
{
    return c->count - c->failed_count;
}

/* Memory of that size, within the limit; NULL: there is none now. */
static stk__chunk *take_memory(stk__chunk_cache *c, size_t bytes, bool gently)
{
    stk__chunk *chunk = take_spare(c, bytes);
    if (chunk)
        return chunk;
    /* Memory of chunks that are used up is taken before new memory, so that reading in order needs little. */
    int looks = c->keep && c->bytes + bytes <= c->limit ? 0 : USED_UP_LOOKS;
    for (chunk = c->idle.oldest; may_go(chunk, true) && looks > 0; chunk = chunk->newer, looks--) {
        if (chunk->bytes != bytes)
            continue;
        retire(c, chunk);
        return take_spare(c, bytes);
    }
    while (c->bytes + bytes > c->limit && may_go(c->idle.oldest, gently)) {
        retire(c, c->idle.oldest);
        chunk = take_spare(c, bytes);
        if (chunk)
            return chunk;
        free_spares(c);
    }
    if (c->bytes + bytes > c->limit && (live_count(c) > 0 || gently))
        return NULL;
    /* Out of memory inside the limit: what nobody holds must go, since nobody would tell of it by a release. */
    while (!(chunk = new_chunk(bytes)) && !gently && c->idle.oldest) {
        retire(c, c->idle.oldest);
        free_spares(c);
    }
    c->bytes += chunk ? bytes : 0;
    return chunk;
}

/* ---- what callers see ---- */

static stk_status start_locked(stk__chunk_cache *c, const stk__chunk_wish *wish, stk__chunk_state *out_state,
                               stk__chunk **out, stk_error *err)
{
    stk__chunk *chunk = take_memory(c, wish->bytes, wish->gently);
    if (!chunk) {
        *out_state = STK__CHUNK_FULL;
        return live_count(c) > 0 || wish->gently ? STK_OK : stk__nomem(wish->bytes, err);
    }
    chunk->key = wish->key;
    chunk->left = wish->rows;
    chunk->holders = 1;
    chunk->ready = chunk->plain = false;
    insert(c, chunk);
    c->fills++;
    *out_state = STK__CHUNK_MINE;
    *out = chunk;
    return STK_OK;
}

stk_status stk__chunk_cache_get(stk__chunk_cache *c, const stk__chunk_wish *wish, stk__chunk_state *out_state,
                                stk__chunk **out, stk_error *err)
{
    stk_status status = STK_OK;
    *out = NULL;
    pthread_mutex_lock(&c->lock);
    stk__chunk *chunk = find(c, &wish->key);
    if (!chunk) {
        status = start_locked(c, wish, out_state, out, err);
    } else if (!chunk->ready) {
        *out_state = STK__CHUNK_BUSY;
    } else {
        if (chunk->holders++ == 0)
            unlist(c, chunk);
        c->hits++;
        *out_state = STK__CHUNK_READY;
        *out = chunk;
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

static void tell_locked(stk__chunk_cache *c)
{
    c->moves++;
    if (c->waiting)
        pthread_cond_broadcast(&c->moved);
}

void stk__chunk_cache_publish(stk__chunk_cache *c, stk__chunk *chunk)
{
    pthread_mutex_lock(&c->lock);
    c->bytes += chunk->heap_bytes;
    chunk->ready = true;
    tell_locked(c);
    pthread_mutex_unlock(&c->lock);
}

void stk__chunk_cache_release(stk__chunk_cache *c, stk__chunk *chunk, int64_t rows)
{
    pthread_mutex_lock(&c->lock);
    chunk->left -= rows;
    if (--chunk->holders == 0) {
        if (chunk->data && is_final(chunk->error))
            keep_failure(c, chunk);
        enlist(c, chunk);
        tell_locked(c);
    }
    pthread_mutex_unlock(&c->lock);
}

uint64_t stk__chunk_cache_moves(stk__chunk_cache *c)
{
    pthread_mutex_lock(&c->lock);
    const uint64_t moves = c->moves;
    pthread_mutex_unlock(&c->lock);
    return moves;
}

uint64_t stk__chunk_cache_wait(stk__chunk_cache *c, uint64_t seen)
{
    pthread_mutex_lock(&c->lock);
    c->waiting++;
    while (c->moves == seen)
        pthread_cond_wait(&c->moved, &c->lock);
    c->waiting--;
    const uint64_t moves = c->moves;
    pthread_mutex_unlock(&c->lock);
    return moves;
}

bool stk__chunk_cache_has(stk__chunk_cache *c, const stk__chunk_key *key)
{
    pthread_mutex_lock(&c->lock);
    const bool has = find(c, key) != NULL;
    pthread_mutex_unlock(&c->lock);
    return has;
}

void stk__chunk_cache_stats(stk__chunk_cache *c, int64_t *out_hits, int64_t *out_fills)
{
    pthread_mutex_lock(&c->lock);
    *out_hits = c->hits;
    *out_fills = c->fills;
    pthread_mutex_unlock(&c->lock);
}
