/*
 * The cache: samples as they are at one place of the pipeline, in memory or in one file.
 *
 * It never changes what comes out (ops before it draw random numbers as in epoch 0), so a sample that is not in it is
 * simply made again. A cache file is written as a temporary file and renamed once a whole pass is in it:
 *   header (magic, fingerprint), packed samples, entries {index, offset, size, dropped_at, check}, footer.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/run.h"

#include "base/banned.h"

#define PAGE_ENTRIES 1024
#define PAGE_COUNT ((size_t)1 << 22)
#define MAGIC "STKCACHE"
#define VERSION 1

/* A sample in memory. */
typedef struct blob {
    size_t size;
    int32_t dropped_at;
    _Alignas(16) char data[];
} blob;

/* Where a sample is: `in_memory`, or at offset in the file. size < 0: nowhere. */
typedef struct entry {
    _Atomic(blob *) in_memory;
    int64_t index, offset, size;
    int32_t dropped_at;
    uint32_t check;
    atomic_bool stored;
} entry;

/* As it stands in the file. */
typedef struct file_entry {
    int64_t index, offset, size;
    int32_t dropped_at;
    uint32_t check;
} file_entry;

typedef struct file_footer {
    char magic[8];
    uint32_t version, unused;
    uint64_t fingerprint;
    int64_t entries_at, entry_count;
    uint64_t check; /* of the entries and this footer up to here */
} file_footer;

typedef struct stk__cache {
    const char *path; /* NULL: in memory */
    int64_t limit;
    uint64_t fingerprint;
    int64_t expected; /* samples in a whole pass; -1: unknown */
    _Atomic(entry *) *pages;
    _Atomic size_t page_end; /* no page in use lies behind it, so that small caches need not look at all */
    _Atomic int64_t stored, hits, misses, bytes;
    int read_fd, write_fd;
    char *temp;
    atomic_bool published; /* changes under lock; looked at without it */

    pthread_mutex_t lock;
    int64_t end;   /* of the temporary file; guarded by lock */
} stk__cache;

static void note_page(stk__cache *c, size_t page)
{
    size_t end = atomic_load(&c->page_end);
    while (end <= page && !atomic_compare_exchange_weak(&c->page_end, &end, page + 1))
        ;
}

static entry *find_entry(stk_pipeline *p, stk__cache *c, int64_t index, bool make)
{
    const size_t page = (size_t)index / PAGE_ENTRIES;
    if (index < 0 || page >= PAGE_COUNT)
        return NULL;
    entry *entries = atomic_load_explicit(&c->pages[page], memory_order_acquire);
    if (!entries && make) {
        const size_t room = PAGE_ENTRIES * sizeof *entries;
        stk_error ignored;
        stk_error_clear(&ignored);
        /* Pages count as well: small samples would else fill the budget with them. */
        if (!stk__budget_has_room(&p->budget, room) || (!c->path && atomic_load(&c->bytes) + (int64_t)room > c->limit))
            return NULL;
        entry *fresh = stk__budget_alloc(&p->budget, room, &ignored);
        if (!fresh)
            return NULL;
        memset((void *)fresh, 0, room);
        if (atomic_compare_exchange_strong(&c->pages[page], &entries, fresh)) {
            atomic_fetch_add(&c->bytes, (int64_t)room);
            note_page(c, page);
            entries = fresh;
        } else {
            stk__budget_free(&p->budget, (void *)fresh, room);
        }
    }
    return entries ? &entries[index % PAGE_ENTRIES] : NULL;
}

static uint64_t cache_fingerprint(const stk_pipeline *p)
{
    uint64_t h = stk__mix(p->plan.prefix_fingerprint, p->plan.config.seed);
    h = stk__mix(h, stk__data_fingerprint(p, p->plan.cache_at));
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

static stk_status file_problem(stk_error *err, const char *path, const char *what)
{
    stk_error_set(err, STK_IO, "%s: %s", what, strerror(errno));
    if (err)
        snprintf(err->file, sizeof err->file, "%s", path);
    return STK_IO;
}

static bool footer_fits(const stk__cache *c, const file_footer *f, int64_t size)
{
    return memcmp(f->magic, MAGIC, 8) == 0 && f->version == VERSION && f->fingerprint == c->fingerprint &&
           f->entries_at >= 0 && f->entry_count >= 0 && f->entries_at <= size - (int64_t)sizeof *f &&
           f->entry_count == (size - (int64_t)sizeof *f - f->entries_at) / (int64_t)sizeof(file_entry) &&
           (size - (int64_t)sizeof *f - f->entries_at) % (int64_t)sizeof(file_entry) == 0;
}

static uint64_t footer_check(const file_footer *f, const file_entry *entries)
{
    return XXH3_64bits_withSeed(entries, (size_t)f->entry_count * sizeof *entries,
                                XXH3_64bits(f, offsetof(file_footer, check)));
}

/* Only an op before the cache can have dropped a sample, and none does where batches are counted in advance. */
static bool dropped_fits(const stk_pipeline *p, int32_t dropped_at)
{
    return dropped_at == STK__ROW_KEPT || (!p->direct && dropped_at >= 0 && dropped_at < p->plan.cache_at);
}

static void forget_entries(stk__cache *c)
{
    for (size_t page = 0; page < atomic_load(&c->page_end); page++) {
        entry *entries = atomic_load(&c->pages[page]);
        for (int i = 0; entries && i < PAGE_ENTRIES; i++)
            atomic_store(&entries[i].stored, false);
    }
}

/* Takes over the entries of a finished file; false when it does not fit. */
static bool load_entries(stk_pipeline *p, stk__cache *c, int fd, int64_t size)
{
    file_footer f;
    if (size < (int64_t)sizeof f ||
        stk__pread_full(fd, &f, sizeof f, size - (int64_t)sizeof f, c->path, NULL) != STK_OK || !footer_fits(c, &f, size))
        return false;
    const size_t bytes = (size_t)f.entry_count * sizeof(file_entry);
    file_entry *entries = stk__alloc(bytes);
    bool ok = entries && stk__pread_full(fd, entries, bytes, f.entries_at, c->path, NULL) == STK_OK &&
              footer_check(&f, entries) == f.check;
    for (int64_t i = 0; ok && i < f.entry_count; i++) {
        const file_entry *from = &entries[i];
        entry *e = find_entry(p, c, from->index, true);
        ok = e && from->size >= 0 && from->offset >= 0 && from->size <= f.entries_at &&
             from->offset <= f.entries_at - from->size && dropped_fits(p, from->dropped_at);
        if (!ok)
            break;
        e->index = from->index;
        e->offset = from->offset;
        e->size = from->size;
        e->dropped_at = from->dropped_at;
        e->check = from->check;
        atomic_store(&e->stored, true);
    }
    if (ok)
        atomic_store(&c->stored, f.entry_count);
    else
        forget_entries(c);
    stk__free(entries);
    return ok;
}

/* Opens an existing cache file. A file that is no cache of ours is refused rather than overwritten. */
static stk_status open_existing(stk_pipeline *p, stk__cache *c, bool *out_usable, stk_error *err)
{
    *out_usable = false;
    const int fd = open(c->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? STK_OK : file_problem(err, c->path, "cannot open the cache");
    struct stat st;
    char magic[8] = {0};
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || pread(fd, magic, 8, 0) != 8 || memcmp(magic, MAGIC, 8) != 0) {
        close(fd);
        stk_error_set(err, STK_INVALID, "exists and is no cache file; give another name");
        if (err)
            snprintf(err->file, sizeof err->file, "%s", c->path);
        return STK_INVALID;
    }
    if (load_entries(p, c, fd, st.st_size)) {
        c->read_fd = fd;
        c->published = true;
        *out_usable = true;
        return STK_OK;
    }
    close(fd);
    if (p->plan.config.log)
        p->plan.config.log(p->plan.config.log_arg, STK_LOG_INFO,
                           "the cache file is damaged, or of another pipeline or other data; it will be made anew");
    return STK_OK;
}

static stk_status open_temp(stk__cache *c, stk_error *err)
{
    const size_t room = strlen(c->path) + 32;
    STK_TRY(stk__make_parents(c->path, err));
    c->temp = stk__alloc(room);
    if (!c->temp)
        return stk__nomem(room, err);
    snprintf(c->temp, room, "%s.tmp-%ld", c->path, (long)getpid());
    c->write_fd = open(c->temp, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (c->write_fd < 0)
        return file_problem(err, c->path, "cannot create the cache");
    if (pwrite(c->write_fd, MAGIC "\0\0\0\0\0\0\0\0", 16, 0) != 16)
        return file_problem(err, c->path, "cannot write the cache");
    c->end = 16;
    c->read_fd = c->write_fd;
    return STK_OK;
}

/* Ranks keep a file each: PATH.shard-R-of-W. */
static stk_status name_file(stk_pipeline *p, stk__cache *c, const char *path, stk_error *err)
{
    int64_t count = 1, index = 0;
    for (int i = 0; i < p->plan.chain.batch_at; i++)
        if (p->plan.chain.nodes[i].order->get_shard)
            p->plan.chain.nodes[i].order->get_shard(p->plan.chain.nodes[i].state, &count, &index);
    char *name = stk__alloc(strlen(path) + 64);
    if (!name)
        return stk__nomem(strlen(path), err);
    if (count > 1)
        snprintf(name, strlen(path) + 64, "%s.shard-%lld-of-%lld", path, (long long)index, (long long)count);
    else
        snprintf(name, strlen(path) + 64, "%s", path);
    c->path = name;
    return STK_OK;
}

stk_status stk__cache_open(stk_pipeline *p, stk_error *err)
{
    if (!p->plan.cache)
        return STK_OK;
    const stk__cache_state *state = p->plan.cache->state;
    stk__cache *c = stk__calloc(1, sizeof *c);
    if (!c)
        return stk__nomem(sizeof *c, err);
    pthread_mutex_init(&c->lock, NULL);
    c->read_fd = c->write_fd = -1;
    p->cache = c;
    c->pages = stk__calloc(PAGE_COUNT, sizeof *c->pages);
    if (!c->pages)
        return stk__nomem(PAGE_COUNT * sizeof *c->pages, err);
    c->limit = state->memory ? STK_MIN(state->memory, p->budget.limit / 2) : p->budget.limit / 2;
    c->expected = expected_samples(p);
    c->fingerprint = cache_fingerprint(p);
    if (!state->path)
        return STK_OK;
    STK_TRY(name_file(p, c, state->path, err));
    bool usable;
    STK_TRY(open_existing(p, c, &usable, err));
    return usable ? STK_OK : open_temp(c, err);
}

static stk_status read_from_file(stk_pipeline *p, stk__worker *w, const entry *e, const char **out, stk_error *err)
{
    stk__cache *c = p->cache;
    char *data = stk__arena_alloc(&w->scratch, p->chunks, (size_t)e->size, err);
    if (!data)
        return STK_BUDGET;
    STK_TRY(stk__pread_full(c->read_fd, data, (size_t)e->size, e->offset, c->path, err));
    if ((uint32_t)XXH3_64bits(data, (size_t)e->size) != e->check) {
        stk_error_set(err, STK_CORRUPT, "sample %lld in the cache fails its check; delete the cache file",
                      (long long)e->index);
        if (err)
            snprintf(err->file, sizeof err->file, "%s", c->path), err->offset = e->offset;
        return STK_CORRUPT;
    }
    *out = data;
    return STK_OK;
}

stk_status stk__cache_get(stk_pipeline *p, stk__worker *w, int64_t index, stk_value *values, int32_t *out_dropped_at,
                          stk_error *err)
{
    stk__cache *c = p->cache;
    entry *e = find_entry(p, c, index, false);
    if (!e || !atomic_load_explicit(&e->stored, memory_order_acquire)) {
        atomic_fetch_add_explicit(&c->misses, 1, memory_order_relaxed);
        return STK_END;
    }
    atomic_fetch_add_explicit(&c->hits, 1, memory_order_relaxed);
    const blob *b = atomic_load(&e->in_memory);
    *out_dropped_at = b ? b->dropped_at : e->dropped_at;
    if (*out_dropped_at != STK__ROW_KEPT)
        return STK_OK;
    const char *data = b ? b->data : NULL;
    if (!b)
        STK_TRY(read_from_file(p, w, e, &data, err));
    return stk__unpack(&p->plan, p->plan.cache_vars, p->plan.cache_var_count, data, b ? b->size : (size_t)e->size, values,
                       &w->scratch, p->chunks, err);
}

static stk_status put_in_memory(stk_pipeline *p, stk__worker *w, entry *e, int32_t dropped_at)
{
    stk__cache *c = p->cache;
    const size_t size = w->cache_buffer.size, room = sizeof(blob) + size;
    if (atomic_load(&c->bytes) + (int64_t)room > c->limit || !stk__budget_has_room(&p->budget, room))
        return STK_OK; /* full: this sample is made again when it comes next */
    stk_error ignored;
    stk_error_clear(&ignored);
    blob *b = stk__budget_alloc(&p->budget, room, &ignored);
    if (!b)
        return STK_OK;
    b->size = size;
    b->dropped_at = dropped_at;
    if (size)
        memcpy(b->data, w->cache_buffer.data, size);
    blob *expected = NULL;
    if (!atomic_compare_exchange_strong(&e->in_memory, &expected, b)) {
        stk__budget_free(&p->budget, b, room);
        return STK_OK;
    }
    atomic_fetch_add(&c->bytes, (int64_t)room);
    atomic_store_explicit(&e->stored, true, memory_order_release);
    atomic_fetch_add(&c->stored, 1);
    return STK_OK;
}

static stk_status publish_locked(stk_pipeline *p, stk__cache *c, stk_error *err);

static stk_status put_in_file(stk_pipeline *p, stk__worker *w, entry *e, int64_t index, int32_t dropped_at, stk_error *err)
{
    stk__cache *c = p->cache;
    const size_t size = w->cache_buffer.size;
    pthread_mutex_lock(&c->lock);
    stk_status status = STK_OK;
    if (!atomic_load(&e->stored) && !c->published) {
        for (size_t done = 0; done < size && status == STK_OK;) {
            const ssize_t n = pwrite(c->write_fd, w->cache_buffer.data + done, size - done, c->end + (int64_t)done);
            if (n > 0)
                done += (size_t)n;
            else if (errno != EINTR)
                status = file_problem(err, c->path, "cannot write the cache");
        }
        if (status == STK_OK) {
            e->index = index;
            e->offset = c->end;
            e->size = (int64_t)size;
            e->dropped_at = dropped_at;
            e->check = (uint32_t)XXH3_64bits(w->cache_buffer.data, size);
            c->end += (int64_t)size;
            atomic_store_explicit(&e->stored, true, memory_order_release);
            if (atomic_fetch_add(&c->stored, 1) + 1 == c->expected)
                status = publish_locked(p, c, err);
        }
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

stk_status stk__cache_put(stk_pipeline *p, stk__worker *w, int64_t index, const stk_value *values, int32_t dropped_at,
                          stk_error *err)
{
    stk__cache *c = p->cache;
    if (c->published)
        return STK_OK;
    entry *e = find_entry(p, c, index, true);
    if (!e)
        return STK_OK;
    w->cache_buffer.size = 0;
    if (dropped_at == STK__ROW_KEPT)
        STK_TRY(stk__pack(&p->plan, p->plan.cache_vars, p->plan.cache_var_count, values, &w->cache_buffer, &p->budget, err));
    if (!c->path)
        return put_in_memory(p, w, e, dropped_at);
    return put_in_file(p, w, e, index, dropped_at, err);
}

static stk_status write_all(int fd, const void *data, size_t size, int64_t at, const char *path, stk_error *err)
{
    for (size_t done = 0; done < size;) {
        const ssize_t n = pwrite(fd, (const char *)data + done, size - done, at + (int64_t)done);
        if (n > 0)
            done += (size_t)n;
        else if (errno != EINTR)
            return file_problem(err, path, "cannot write the cache");
    }
    return STK_OK;
}

static stk_status publish_locked(stk_pipeline *p, stk__cache *c, stk_error *err)
{
    const int64_t count = atomic_load(&c->stored);
    file_entry *entries = stk__calloc((size_t)count, sizeof *entries);
    if (!entries)
        return stk__nomem((size_t)count * sizeof *entries, err);
    int64_t n = 0;
    for (size_t page = 0; page < atomic_load(&c->page_end) && n < count; page++) {
        const entry *from = atomic_load(&c->pages[page]);
        for (int i = 0; from && i < PAGE_ENTRIES && n < count; i++)
            if (atomic_load(&from[i].stored))
                entries[n++] = (file_entry){from[i].index, from[i].offset, from[i].size, from[i].dropped_at, from[i].check};
    }
    file_footer f = {.version = VERSION, .fingerprint = c->fingerprint, .entries_at = c->end, .entry_count = n};
    memcpy(f.magic, MAGIC, 8);
    f.check = footer_check(&f, entries);
    const size_t bytes = (size_t)n * sizeof *entries;
    stk_status status = write_all(c->write_fd, entries, bytes, c->end, c->path, err);
    if (status == STK_OK)
        status = write_all(c->write_fd, &f, sizeof f, c->end + (int64_t)bytes, c->path, err);
    if (status == STK_OK && (fsync(c->write_fd) || rename(c->temp, c->path)))
        status = file_problem(err, c->path, "cannot publish the cache");
    c->published = status == STK_OK;
    stk__free(entries);
    (void)p;
    return status;
}

bool stk__cache_complete(const stk_pipeline *p)
{
    const stk__cache *c = p->cache;
    const int64_t all = p->plan.stream ? stk__feeder_source_count(p) : c->expected;
    return all >= 0 && atomic_load(&c->stored) >= all;
}

stk_status stk__cache_finish(stk_pipeline *p, stk_error *err)
{
    stk__cache *c = p->cache;
    if (!c || !c->path || c->published)
        return STK_OK;
    pthread_mutex_lock(&c->lock);
    const stk_status status = stk__cache_complete(p) ? publish_locked(p, c, err) : STK_OK;
    pthread_mutex_unlock(&c->lock);
    if (!c->published && p->plan.config.log)
        p->plan.config.log(p->plan.config.log_arg, STK_LOG_INFO,
                           "the run ended before every sample was seen once, so no cache file was left");
    return status;
}

void stk__cache_seal(void *bytes, size_t size, uint64_t fingerprint)
{
    char *data = bytes;
    file_footer f;
    if (size < 16 + sizeof f)
        return;
    memcpy(data, MAGIC, 8);
    memcpy(&f, data + size - sizeof f, sizeof f);
    memcpy(f.magic, MAGIC, 8);
    const size_t room = (size - 16 - sizeof f) / sizeof(file_entry);
    f.version = VERSION;
    f.fingerprint = fingerprint;
    f.entry_count = (int64_t)((uint64_t)f.entry_count % (room + 1));
    f.entries_at = (int64_t)(size - sizeof f - (size_t)f.entry_count * sizeof(file_entry));
    file_entry *entries = stk__calloc((size_t)f.entry_count, sizeof *entries);
    if (!entries)
        return;
    memcpy(entries, data + f.entries_at, (size_t)f.entry_count * sizeof *entries);
    for (int64_t i = 0; i < f.entry_count; i++) {
        file_entry *e = &entries[i];
        if (e->size >= 0 && e->offset >= 0 && e->size <= f.entries_at && e->offset <= f.entries_at - e->size)
            e->check = (uint32_t)XXH3_64bits(data + e->offset, (size_t)e->size);
    }
    memcpy(data + f.entries_at, entries, (size_t)f.entry_count * sizeof *entries);
    f.check = footer_check(&f, entries);
    memcpy(data + size - sizeof f, &f, sizeof f);
    stk__free(entries);
}

static void free_page(stk_pipeline *p, entry *entries)
{
    for (int i = 0; i < PAGE_ENTRIES; i++) {
        blob *b = atomic_load(&entries[i].in_memory);
        if (b)
            stk__budget_free(&p->budget, b, sizeof *b + b->size);
    }
    stk__budget_free(&p->budget, (void *)entries, PAGE_ENTRIES * sizeof *entries);
}

void stk__cache_close(stk_pipeline *p)
{
    stk__cache *c = p->cache;
    if (!c)
        return;
    for (size_t page = 0; c->pages && page < atomic_load(&c->page_end); page++) {
        entry *entries = atomic_load(&c->pages[page]);
        if (entries)
            free_page(p, entries);
    }
    if (c->temp && !c->published)
        unlink(c->temp);
    if (c->read_fd >= 0 && c->read_fd != c->write_fd)
        close(c->read_fd);
    if (c->write_fd >= 0)
        close(c->write_fd);
    pthread_mutex_destroy(&c->lock);
    stk__free((void *)c->pages);
    stk__free(c->temp);
    stk__free((void *)(uintptr_t)c->path);
    stk__free(c);
    p->cache = NULL;
}

void stk__cache_counts(const stk_pipeline *p, int64_t *out_hits, int64_t *out_misses)
{
    *out_hits = p->cache ? atomic_load(&p->cache->hits) : 0;
    *out_misses = p->cache ? atomic_load(&p->cache->misses) : 0;
}
