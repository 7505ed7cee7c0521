/* Entries of a cache by the number of the sample, and the table of stores that runs of this process share. */
#define _GNU_SOURCE
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/cache.h"

#include "base/banned.h"

/* ---- the table ---- */

/* Stores of files, so that two runs on one file make each sample once and do not write it twice. */
static struct {
    pthread_once_t once;
    pthread_mutex_t lock;
    stk__cache_store *first; /* guarded by lock */
} table = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

/* Whoever had the lock, or claims, is not there in a child: it begins with none of the parent's stores. */
static void after_fork(void)
{
    pthread_mutex_init(&table.lock, NULL);
    table.first = NULL;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, after_fork);
}

/* The path with the directory's real name, so that two ways to write it meet; where that fails, as it is. */
static char *full_path(const char *path)
{
    char real[PATH_MAX];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *directory = slash ? stk__strndup(path, (size_t)(slash - path) + 1) : stk__strdup(".");
    stk__text t = STK__TEXT_INIT;
    if (directory && realpath(directory, real))
        stk__text_printf(&t, "%s/%s", real, name);
    else
        stk__text_puts(&t, path);
    stk__free(directory);
    if (t.failed)
        stk__text_clear(&t);
    return t.data;
}

stk_status stk__cache_store_join(const char *path, uint64_t fingerprint, stk__cache_store **out, stk_error *err)
{
    char *full = full_path(path);
    if (!full)
        return stk__nomem(strlen(path), err);
    pthread_once(&table.once, watch_forks);
    pthread_mutex_lock(&table.lock);
    stk__cache_store *s = table.first;
    while (s && (s->fingerprint != fingerprint || strcmp(s->path, full) != 0))
        s = s->next;
    stk_status status = STK_OK;
    if (!s && (status = stk__cache_store_new(full, fingerprint, &s, err)) == STK_OK) {
        s->next = table.first;
        table.first = s;
    }
    if (status == STK_OK) {
        s->users++;
        *out = s;
    }
    pthread_mutex_unlock(&table.lock);
    stk__free(full);
    return status;
}

/* ---- a store ---- */

stk_status stk__cache_store_new(const char *path, uint64_t fingerprint, stk__cache_store **out, stk_error *err)
{
    stk__cache_store *s = stk__calloc(1, sizeof *s);
    if (!s)
        return stk__nomem(sizeof *s, err);
    s->pages = stk__calloc(STK__CACHE_PAGE_COUNT, sizeof *s->pages);
    s->path = path ? stk__strdup(path) : NULL;
    if (!s->pages || (path && !s->path)) {
        stk__free((void *)s->pages);
        stk__free(s->path);
        stk__free(s);
        return stk__nomem(STK__CACHE_PAGE_COUNT * sizeof *s->pages, err);
    }
    s->fingerprint = fingerprint;
    s->pid = getpid();
    s->published = -1;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->unclaimed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    *out = s;
    return STK_OK;
}

static void free_pages(stk__cache_store *s)
{
    for (size_t page = 0; page < atomic_load(&s->page_end); page++) {
        stk__cache_entry *entries = atomic_load(&s->pages[page]);
        for (int i = 0; entries && s->path && i < STK__CACHE_PAGE_ENTRIES; i++)
            stk__free(atomic_load(&entries[i].mended));
        stk__free((void *)entries);
    }
    stk__free((void *)s->pages);
}

static void store_free(stk__cache_store *s)
{
    free_pages(s);
    /* A child that closes what its parent opened must leave the parent's file alone. */
    if (s->pid == getpid())
        stk__new_file_abort(&s->temp);
    for (int i = 0; i < s->fd_count; i++)
        close(s->fds[i]);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->unclaimed);
    stk__free(s->path);
    stk__free(s);
}

void stk__cache_store_leave(stk__cache_store *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&table.lock);
    const bool last = s->users <= 1;
    s->users--;
    for (stk__cache_store **link = &table.first; last && *link; link = &(*link)->next) {
        if (*link == s) {
            *link = s->next;
            break;
        }
    }
    pthread_mutex_unlock(&table.lock);
    if (last)
        store_free(s);
}

/* ---- entries ---- */

stk__cache_entry *stk__cache_find(const stk__cache_store *s, int64_t index)
{
    const size_t page = (size_t)index / STK__CACHE_PAGE_ENTRIES;
    if (index < 0 || page >= STK__CACHE_PAGE_COUNT)
        return NULL;
    stk__cache_entry *entries = atomic_load_explicit(&s->pages[page], memory_order_acquire);
    return entries ? &entries[index % STK__CACHE_PAGE_ENTRIES] : NULL;
}

static void note_page(stk__cache_store *s, size_t page)
{
    size_t end = atomic_load(&s->page_end);
    while (end <= page && !atomic_compare_exchange_weak(&s->page_end, &end, page + 1))
        ;
}

/* Pages count as well: small samples would else fill the memory with them. */
static bool add_page(stk__cache_store *s, size_t page, stk__budget *budget, _Atomic int64_t *charged)
{
    const size_t room = STK__CACHE_PAGE_ENTRIES * sizeof(stk__cache_entry);
    if (!stk__budget_has_room(budget, room) || !stk__budget_charge(budget, room))
        return false;
    stk__cache_entry *fresh = stk__calloc(1, room), *before = NULL;
    if (!fresh || !atomic_compare_exchange_strong(&s->pages[page], &before, fresh)) {
        stk__free((void *)fresh);
        stk__budget_return(budget, room);
        return before != NULL;
    }
    atomic_fetch_add(charged, (int64_t)room);
    atomic_fetch_add(&s->page_bytes, (int64_t)room);
    note_page(s, page);
    return true;
}

stk__cache_entry *stk__cache_make(stk__cache_store *s, int64_t index, stk__budget *budget, _Atomic int64_t *charged)
{
    stk__cache_entry *e = stk__cache_find(s, index);
    const size_t page = (size_t)index / STK__CACHE_PAGE_ENTRIES;
    if (e || index < 0 || page >= STK__CACHE_PAGE_COUNT || !add_page(s, page, budget, charged))
        return e;
    return stk__cache_find(s, index);
}

bool stk__cache_place_of(const stk__cache_entry *e, stk__cache_place *out)
{
    const uint8_t state = atomic_load_explicit(&e->state, memory_order_acquire);
    if (state == STK__CACHE_STORED)
        *out = e->place;
    else if (state == STK__CACHE_MENDED)
        *out = *atomic_load_explicit(&e->mended, memory_order_acquire);
    return state == STK__CACHE_STORED || state == STK__CACHE_MENDED;
}

void stk__cache_spoil_locked(stk__cache_store *s, stk__cache_entry *e)
{
    const bool first = atomic_load(&e->state) == STK__CACHE_STORED;
    atomic_store(&e->state, first ? STK__CACHE_BAD : STK__CACHE_LOST);
    atomic_fetch_sub(&s->stored, 1);
}

bool stk__cache_spoil(stk__cache_store *s, stk__cache_entry *e, const stk__cache_place *place)
{
    stk__cache_place now;
    pthread_mutex_lock(&s->lock);
    const bool same = stk__cache_place_of(e, &now) && now.file == place->file && now.offset == place->offset;
    if (same)
        stk__cache_spoil_locked(s, e);
    pthread_mutex_unlock(&s->lock);
    return same;
}
