/* The pool of descriptors: each file's state is one atomic word. */
#include "formats/file_pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "formats/data_file.h"

#include "base/banned.h"

enum { OPEN_MAX_FILES = 256, OPEN_MIN_FILES = 8 };
/* How often a file is looked at of which only whole, checked records are handed on. */
#define RECHECK_NS 10000000

/*
 * State of a file's descriptor in one word, so that acquire and release are one atomic step each:
 * (descriptor + 1) << 32 | used lately << 31 | users. 0: not open.
 */
#define FD_SHIFT 32
#define FD_LATELY (UINT64_C(1) << 31)
#define FD_USERS (FD_LATELY - 1)

/* A cache line for each: threads that read different files do not get in each other's way. */
typedef struct pool_file {
    _Alignas(64) atomic_uint_fast64_t fd;
    _Atomic int64_t checked_ns;                 /* when it was last looked at */
    atomic_bool changed;                        /* found to differ: every later read is refused */
    _Atomic int64_t found_size, found_mtime_ns; /* what it was then; before `changed` is set */
    stk__pool_file file;                        /* const */
} pool_file;

struct stk__file_pool {
    stk__file_pool *before, *after; /* guarded by pools.lock */

    /* const after creation */
    pool_file *files;
    int32_t count;
    int32_t open_max;

    pthread_mutex_t lock; /* opening and closing of descriptors */
    /* guarded by lock */
    int32_t open_count;
    int32_t hand; /* where the search for a descriptor to close goes on */
};

/* All pools: descriptors are the process's, so one that lies idle in a pool is there for everybody. */
static struct {
    pthread_mutex_t lock; /* taken before that of a pool, never after it */
    stk__file_pool *first;
} pools = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void list_pool(stk__file_pool *pool)
{
    pthread_mutex_lock(&pools.lock);
    pool->after = pools.first;
    if (pools.first)
        pools.first->before = pool;
    pools.first = pool;
    pthread_mutex_unlock(&pools.lock);
}

static void unlist_pool(stk__file_pool *pool)
{
    pthread_mutex_lock(&pools.lock);
    if (pool->after)
        pool->after->before = pool->before;
    if (pool->before)
        pool->before->after = pool->after;
    else
        pools.first = pool->after;
    pthread_mutex_unlock(&pools.lock);
}

/* A share of the descriptors that the process may have. */
static int32_t open_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return OPEN_MAX_FILES;
    const rlim_t share = limit.rlim_cur / 4;
    return (int32_t)STK_MAX(STK_MIN(share, (rlim_t)OPEN_MAX_FILES), (rlim_t)OPEN_MIN_FILES);
}

stk_status stk__file_pool_new(const stk__pool_file *files, int32_t count, stk__file_pool **out, stk_error *err)
{
    stk__file_pool *pool = stk__calloc(1, sizeof *pool);
    if (!pool)
        return stk__nomem(sizeof *pool, err);
    pool->files = stk__alloc_aligned((size_t)count * sizeof *pool->files);
    if (!pool->files) {
        stk__free(pool);
        return stk__nomem((size_t)count * sizeof *pool->files, err);
    }
    for (int32_t i = 0; i < count; i++) {
        pool_file *file = &pool->files[i];
        atomic_init(&file->fd, 0);
        atomic_init(&file->checked_ns, INT64_MIN);
        atomic_init(&file->changed, false);
        atomic_init(&file->found_size, 0);
        atomic_init(&file->found_mtime_ns, 0);
        file->file = files[i];
    }
    pool->count = count;
    pool->open_max = open_limit();
    pthread_mutex_init(&pool->lock, NULL);
    list_pool(pool);
    *out = pool;
    return STK_OK;
}

void stk__file_pool_free(stk__file_pool *pool)
{
    if (!pool)
        return;
    unlist_pool(pool);
    for (int32_t i = 0; i < pool->count; i++) {
        const uint64_t fd = atomic_load(&pool->files[i].fd);
        if (fd)
            close((int)(fd >> FD_SHIFT) - 1);
    }
    pthread_mutex_destroy(&pool->lock);
    stk__free(pool->files);
    stk__free(pool);
}

size_t stk__file_pool_memory(const stk__file_pool *pool)
{
    return sizeof *pool + (size_t)pool->count * sizeof *pool->files;
}

/* ---- changes ---- */

static stk_status tell_change(const pool_file *file, const stk__file_id *now, stk_error *err)
{
    const stk__file_id *then = &file->file.id;
    if (now->size_bytes != then->size_bytes)
        stk_error_set(err, STK_CORRUPT, "changed since it was indexed: it had %lld bytes, now it has %lld",
                      (long long)then->size_bytes, (long long)now->size_bytes);
    else
        stk_error_set(err, STK_CORRUPT, "changed since it was indexed: same size, modified %lld ns later",
                      (long long)(now->mtime_ns - then->mtime_ns));
    if (err)
        snprintf(err->file, sizeof err->file, "%s", file->file.path);
    return STK_CORRUPT;
}

static stk_status tell_known(const pool_file *file, stk_error *err)
{
    const stk__file_id found = {.size_bytes = atomic_load(&file->found_size),
                                .mtime_ns = atomic_load(&file->found_mtime_ns)};
    return tell_change(file, &found, err);
}

/* Whether it still is what was indexed, and always was when it was looked at. */
static stk_status compare(pool_file *file, const stk__file_id *now, stk_error *err)
{
    if (STK_UNLIKELY(atomic_load_explicit(&file->changed, memory_order_acquire)))
        return tell_known(file, err);
    if (STK_LIKELY(now->size_bytes == file->file.id.size_bytes && now->mtime_ns == file->file.id.mtime_ns))
        return STK_OK;
    atomic_store(&file->found_size, now->size_bytes);
    atomic_store(&file->found_mtime_ns, now->mtime_ns);
    atomic_store_explicit(&file->changed, true, memory_order_release);
    return tell_change(file, now, err);
}

stk_status stk__file_pool_check_unchanged(stk__file_pool *pool, int32_t file, stk_error *err)
{
    stk__file_id now;
    STK_TRY(stk__data_file_look(pool->files[file].file.path, &now, err));
    return compare(&pool->files[file], &now, err);
}

stk_status stk__file_pool_recheck(stk__file_pool *pool, int32_t number, int fd, stk_error *err)
{
    pool_file *file = &pool->files[number];
    stk__file_id now;
    STK_TRY(stk__file_id_of(fd, file->file.path, &now, err));
    return compare(file, &now, err);
}

stk_status stk__file_pool_recheck_lately(stk__file_pool *pool, int32_t number, int fd, int64_t now_ns, stk_error *err)
{
    pool_file *file = &pool->files[number];
    if (STK_LIKELY(atomic_load_explicit(&file->checked_ns, memory_order_relaxed) > now_ns - RECHECK_NS &&
                   !atomic_load_explicit(&file->changed, memory_order_relaxed)))
        return STK_OK;
    atomic_store_explicit(&file->checked_ns, now_ns, memory_order_relaxed);
    return stk__file_pool_recheck(pool, number, fd, err);
}

/* ---- descriptors ---- */

/* One more user when the file is open. */
static bool acquire_open(pool_file *file, int *out_fd)
{
    uint64_t fd = atomic_load_explicit(&file->fd, memory_order_acquire);
    while (fd) {
        if (atomic_compare_exchange_weak_explicit(&file->fd, &fd, (fd | FD_LATELY) + 1, memory_order_acquire,
                                                  memory_order_acquire)) {
            *out_fd = (int)(fd >> FD_SHIFT) - 1;
            return true;
        }
    }
    return false;
}

/* Closes a descriptor that nobody uses, preferably one not used since the hand last came by. */
static bool close_one_locked(stk__file_pool *pool)
{
    for (int64_t tries = 2 * (int64_t)pool->count; pool->open_count > 0 && tries > 0; tries--) {
        pool_file *file = &pool->files[pool->hand];
        pool->hand = (pool->hand + 1) % pool->count;
        uint64_t fd = atomic_load(&file->fd);
        if (!fd || fd & FD_USERS)
            continue;
        if (fd & FD_LATELY) {
            atomic_compare_exchange_strong(&file->fd, &fd, fd & ~FD_LATELY);
        } else if (atomic_compare_exchange_strong(&file->fd, &fd, 0)) {
            close((int)(fd >> FD_SHIFT) - 1);
            pool->open_count--;
            return true;
        }
    }
    return false;
}

bool stk__file_pools_close_one(void)
{
    bool closed = false;
    pthread_mutex_lock(&pools.lock);
    for (stk__file_pool *pool = pools.first; pool && !closed; pool = pool->after) {
        pthread_mutex_lock(&pool->lock);
        closed = close_one_locked(pool);
        pthread_mutex_unlock(&pool->lock);
    }
    pthread_mutex_unlock(&pools.lock);
    return closed;
}

static stk_status open_locked(stk__file_pool *pool, pool_file *file, int *out_fd, stk_error *err)
{
    if (acquire_open(file, out_fd)) /* somebody else was first */
        return STK_OK;
    if (pool->open_count >= pool->open_max)
        close_one_locked(pool);
    int fd;
    stk__file_id now;
    STK_TRY(stk__file_open(file->file.path, &fd, &now, err));
    const stk_status status = compare(file, &now, err);
    if (status != STK_OK) {
        close(fd);
        return status;
    }
    pool->open_count++;
    atomic_store_explicit(&file->fd, (uint64_t)(fd + 1) << FD_SHIFT | FD_LATELY | 1, memory_order_release);
    *out_fd = fd;
    return STK_OK;
}

stk_status stk__file_pool_acquire(stk__file_pool *pool, int32_t file, int *out_fd, stk_error *err)
{
    if (STK_UNLIKELY(atomic_load_explicit(&pool->files[file].changed, memory_order_acquire)))
        return tell_known(&pool->files[file], err);
    if (STK_LIKELY(acquire_open(&pool->files[file], out_fd)))
        return STK_OK;
    for (int naps = 0;;) {
        pthread_mutex_lock(&pool->lock);
        errno = 0;
        const stk_status status = open_locked(pool, &pool->files[file], out_fd, err);
        const int code = stk__data_file_is_shortage(errno) ? errno : EMFILE;
        pthread_mutex_unlock(&pool->lock);
        if (status != STK_NOMEM)
            return status;
        if (!stk__data_file_try_again(code, &naps))
            return stk__data_file_exhausted(code, pool->files[file].file.path, "cannot open", err);
    }
}

void stk__file_pool_release(stk__file_pool *pool, int32_t file)
{
    atomic_fetch_sub_explicit(&pool->files[file].fd, 1, memory_order_release);
}
