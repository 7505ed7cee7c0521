/* Budget accounting, growing buffers and pooled chunks. */
#include "engine/budget.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

#define CHUNK_MOST ((size_t)256 * 1024)
/* A new chunk is made this small first, so that little data takes little memory. */
#define CHUNK_SMALL ((size_t)16 * 1024)

bool stk__budget_charge(stk__budget *budget, size_t size)
{
    if (size > (size_t)budget->limit)
        return false;
    /* Never above the limit, not even for a moment: another thread's charge must not fail for one that is refused. */
    int64_t used = atomic_load(&budget->used);
    do {
        if ((int64_t)size > budget->limit - used)
            return false;
    } while (!atomic_compare_exchange_weak(&budget->used, &used, used + (int64_t)size));
    used += (int64_t)size;
    int64_t peak = atomic_load_explicit(&budget->peak, memory_order_relaxed);
    while (used > peak && !atomic_compare_exchange_weak(&budget->peak, &peak, used))
        ;
    return true;
}

void stk__budget_return(stk__budget *budget, size_t size)
{
    atomic_fetch_sub(&budget->used, (int64_t)size);
}

bool stk__budget_has_room(const stk__budget *budget, size_t size)
{
    const int64_t used = atomic_load(&budget->used) - atomic_load(&budget->spare);
    return size <= (size_t)budget->limit && used + (int64_t)size <= budget->limit / 4 * 3;
}

stk_status stk__budget_error(stk__budget *budget, size_t size, stk_error *err)
{
    atomic_store_explicit(&budget->refused, (int64_t)STK_MIN(size, (size_t)INT64_MAX / 8), memory_order_relaxed);
    char used[32], limit[32], want[32], option[64];
    const int64_t in_use = atomic_load(&budget->used) - atomic_load(&budget->spare);
    stk__text t;
    stk__text_fixed(&t, used, sizeof used);
    stk__text_bytes(&t, (uint64_t)in_use);
    stk__text_fixed(&t, limit, sizeof limit);
    stk__text_bytes(&t, (uint64_t)budget->limit);
    stk__text_fixed(&t, want, sizeof want);
    stk__text_bytes(&t, size);
    /* Twice as much: what failed is seldom the last that is asked for, and caches take their share of any budget. */
    stk__budget_option(budget, 2 * ((uint64_t)in_use + STK_MIN(size, SIZE_MAX / 8)), option, sizeof option);
    return stk_error_set(err, STK_BUDGET,
                         "buffers need %s more, %s of the budget of %s are in use; %s would do, or a smaller batch",
                         want, used, limit, option);
}

void stk__budget_option(const stk__budget *budget, uint64_t size, char *out, size_t out_size)
{
    const char *name = budget->name ? budget->name : "memory";
    const uint64_t kib = size / 1024 + 1, mib = size / (1024 * 1024) + 1;
    if (kib < 1024)
        snprintf(out, out_size, "%s %lluK", name, (unsigned long long)kib);
    else
        snprintf(out, out_size, "%s %lluM", name, (unsigned long long)mib);
}

static bool charge_or_trim(stk__budget *budget, size_t size)
{
    return stk__budget_charge(budget, size) ||
           (budget->pool && stk__chunk_pool_trim(budget->pool) && stk__budget_charge(budget, size));
}

stk_status stk__budget_take(stk__budget *budget, size_t size, stk_error *err)
{
    return charge_or_trim(budget, size) ? STK_OK : stk__budget_error(budget, size, err);
}

static void release(const stk__allocator *from, void *p, size_t size)
{
    if (from)
        from->free(from->arg, p, size);
    else
        stk__pages_free(p, size);
}

/* NULL with err set. Vector code and the frameworks that take batches over rely on the alignment. */
static void *acquire(const stk__allocator *from, size_t size, stk_error *err)
{
    void *p = from ? from->alloc(from->arg, size) : stk__pages_alloc(size);
    if (!p) {
        stk__nomem(size, err);
    } else if ((uintptr_t)p % 64 != 0) {
        stk_error_set(err, STK_INVALID, "batch_alloc gave memory at %p, wanted an address that 64 divides", p);
        release(from, p, size);
        p = NULL;
    }
    return p;
}

static void *alloc_from(stk__budget *budget, const stk__allocator *from, size_t size, stk_error *err)
{
    if (stk__budget_take(budget, size, err) != STK_OK)
        return NULL;
    void *p = acquire(from, size, err);
    if (!p)
        stk__budget_return(budget, size);
    return p;
}

static void free_to(stk__budget *budget, const stk__allocator *from, void *p, size_t size)
{
    if (!p)
        return;
    release(from, p, size);
    stk__budget_return(budget, size);
}

void *stk__budget_alloc(stk__budget *budget, size_t size, stk_error *err)
{
    return alloc_from(budget, NULL, size, err);
}

void stk__budget_free(stk__budget *budget, void *p, size_t size)
{
    free_to(budget, NULL, p, size);
}

stk_status stk__buffer_reserve(stk__buffer *b, stk__budget *budget, size_t extra, stk_error *err)
{
    if (STK_LIKELY(b->data && extra <= b->capacity - b->size))
        return STK_OK;
    if (extra > SIZE_MAX / 4 - b->size)
        return stk__budget_error(budget, extra, err);
    const size_t capacity = STK_MAX(b->size + extra, STK_MAX(b->capacity + b->capacity / 2, (size_t)1024));
    char *data = alloc_from(budget, b->from, capacity, err);
    if (!data)
        return err && err->status ? err->status : STK_NOMEM;
    if (b->size)
        memcpy(data, b->data, b->size);
    free_to(budget, b->from, b->data, b->capacity);
    b->data = data;
    b->capacity = capacity;
    return STK_OK;
}

void stk__buffer_clear(stk__buffer *b, stk__budget *budget)
{
    free_to(budget, b->from, b->data, b->capacity);
    *b = (stk__buffer){.from = b->from};
}

struct stk__chunk_pool {
    stk__budget *budget;
    size_t chunk_bytes; /* of the usual chunk; a small budget has smaller ones */
    pthread_mutex_t lock;
    stk__chunk *spare; /* guarded by lock */
};

stk__chunk_pool *stk__chunk_pool_new(stk__budget *budget)
{
    stk__chunk_pool *pool = stk__calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->budget = budget;
    budget->pool = pool;
    pool->chunk_bytes = STK_MAX(CHUNK_SMALL, STK_MIN((size_t)budget->limit / 64, CHUNK_MOST));
    pthread_mutex_init(&pool->lock, NULL);
    return pool;
}

static void chunk_destroy(stk__chunk_pool *pool, stk__chunk *chunk)
{
    stk__budget_free(pool->budget, chunk, sizeof *chunk + chunk->capacity);
}

bool stk__chunk_pool_trim(stk__chunk_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    stk__chunk *chunk = pool->spare;
    pool->spare = NULL;
    pthread_mutex_unlock(&pool->lock);
    const bool any = chunk != NULL;
    while (chunk) {
        stk__chunk *next = chunk->next;
        atomic_fetch_sub(&pool->budget->spare, (int64_t)chunk->capacity);
        chunk_destroy(pool, chunk);
        chunk = next;
    }
    return any;
}

void stk__chunk_pool_free(stk__chunk_pool *pool)
{
    if (!pool)
        return;
    stk__chunk_pool_trim(pool);
    pool->budget->pool = NULL;
    pthread_mutex_destroy(&pool->lock);
    stk__free(pool);
}

/* First fit among the spare ones, so that one outsized record does not keep an outsized chunk per batch busy. */
static stk__chunk *take_spare(stk__chunk_pool *pool, size_t want)
{
    pthread_mutex_lock(&pool->lock);
    stk__chunk **link = &pool->spare;
    while (*link && ((*link)->capacity < want || (*link)->capacity > STK_MAX(4 * want, pool->chunk_bytes)))
        link = &(*link)->next;
    stk__chunk *chunk = *link;
    if (chunk) {
        *link = chunk->next;
        atomic_fetch_sub(&pool->budget->spare, (int64_t)chunk->capacity);
    }
    pthread_mutex_unlock(&pool->lock);
    return chunk;
}

static stk__chunk *chunk_take(stk__chunk_pool *pool, size_t want, bool small, stk_error *err)
{
    stk__chunk *chunk = take_spare(pool, want);
    if (!chunk) {
        const size_t usual = small ? CHUNK_SMALL : pool->chunk_bytes;
        /* Large sizes are rounded up to 1/8 of their power of two, so that they fit again next time. */
        size_t step = 1024;
        while (step * 8 < want)
            step *= 2;
        const size_t capacity = want <= usual ? usual : (want + step - 1) / step * step;
        if (want > SIZE_MAX / 4) {
            stk__budget_error(pool->budget, want, err);
            return NULL;
        }
        chunk = stk__budget_alloc(pool->budget, sizeof *chunk + capacity, err);
        if (!chunk)
            return NULL;
        chunk->capacity = capacity;
    }
    chunk->used = 0;
    chunk->next = NULL;
    atomic_init(&chunk->refs, 1);
    return chunk;
}

void stk__chunk_unref(stk__chunk_pool *pool, stk__chunk *chunk)
{
    if (atomic_fetch_sub(&chunk->refs, 1) != 1)
        return;
    pthread_mutex_lock(&pool->lock);
    chunk->next = pool->spare;
    pool->spare = chunk;
    atomic_fetch_add(&pool->budget->spare, (int64_t)chunk->capacity);
    pthread_mutex_unlock(&pool->lock);
}

void *stk__arena_alloc(stk__arena *arena, stk__chunk_pool *pool, size_t size, stk_error *err)
{
    const size_t aligned = (size + 15) & ~(size_t)15;
    if (STK_UNLIKELY(aligned < size)) {
        stk__budget_error(pool->budget, size, err);
        return NULL;
    }
    stk__chunk *head = arena->head;
    if (STK_UNLIKELY(!head || aligned > head->capacity - head->used)) {
        stk__chunk *chunk = chunk_take(pool, aligned, head == NULL, err);
        if (!chunk)
            return NULL;
        chunk->next = head;
        arena->head = head = chunk;
    }
    void *p = head->data + head->used;
    head->used += aligned;
    arena->bytes += aligned;
    return p;
}

stk__arena_mark stk__arena_here(const stk__arena *arena)
{
    return (stk__arena_mark){arena->head, arena->head ? arena->head->used : 0, arena->bytes};
}

void stk__arena_rewind(stk__arena *arena, stk__chunk_pool *pool, stk__arena_mark mark)
{
    while (arena->head != mark.head) {
        stk__chunk *next = arena->head->next;
        stk__chunk_unref(pool, arena->head);
        arena->head = next;
    }
    if (arena->head)
        arena->head->used = mark.used;
    arena->bytes = mark.bytes;
}

void stk__arena_release(stk__arena *arena, stk__chunk_pool *pool)
{
    for (stk__chunk *chunk = arena->head; chunk;) {
        stk__chunk *next = chunk->next;
        stk__chunk_unref(pool, chunk);
        chunk = next;
    }
    *arena = (stk__arena){0};
}

void stk__arena_reset(stk__arena *arena, stk__chunk_pool *pool)
{
    stk__chunk *keep = arena->head;
    if (!keep)
        return;
    stk__arena rest = {.head = keep->next};
    if (atomic_load(&keep->refs) == 1) {
        keep->next = NULL;
        keep->used = 0;
        arena->head = keep;
    } else {
        rest.head = keep;
        arena->head = NULL;
    }
    arena->bytes = 0;
    stk__arena_release(&rest, pool);
}
