/* Sets of record files: indexed in parallel, found by number, their descriptors shared. */
#include "formats/records.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/mem.h"
#include "formats/file_pool.h"
#include "formats/data_file.h"
#include "formats/index_cache.h"
#include "formats/record_index.h"

#include "base/banned.h"

enum { EDGE_BYTES = 4096 };

typedef struct record_file {
    char *path; /* set before start, then const */
    stk__record_index index;
} record_file;

struct stk__records {
    /* all const after open */
    record_file *files;
    int32_t file_count;
    int64_t *firsts; /* file_count + 1 */
    int64_t bytes;
    int32_t cached;
    uint64_t fingerprint;
    stk__damage *damage;
    size_t damage_count;
    stk__file_pool *pool;
};

/* What the indexing threads share. */
typedef struct indexing {
    stk__records *records;
    const stk__records_config *config;
    int64_t bytes_total;
    atomic_int next_file;
    atomic_int first_failed; /* lowest number of a file that failed; files behind it need no index */
    atomic_bool cancelled;
    atomic_int cached, saved;

    pthread_mutex_t lock;
    /* guarded by lock */
    int64_t bytes_done;
    int32_t error_file; /* whose error is kept in `error`: the lowest one, so that the same files give the same error */
    stk_error error;
} indexing;

typedef struct file_progress {
    indexing *shared;
    int32_t file;
} file_progress;

static bool on_progress(void *arg, int64_t bytes)
{
    const file_progress *p = arg;
    indexing *in = p->shared;
    if (atomic_load(&in->cancelled) || atomic_load(&in->first_failed) < p->file)
        return false;
    if (!in->config->progress)
        return true;
    pthread_mutex_lock(&in->lock);
    in->bytes_done += bytes;
    const bool go_on = in->config->progress(in->config->progress_arg, in->bytes_done, in->bytes_total);
    pthread_mutex_unlock(&in->lock);
    if (!go_on)
        atomic_store(&in->cancelled, true);
    return go_on;
}

static stk_status file_error(stk_error *err, stk_status status, const char *path)
{
    if (err)
        snprintf(err->file, sizeof err->file, "%s", path);
    return status;
}

/* Checks that the file is regular and plain, and hashes its first and last bytes. */
static stk_status look_at_edges(int fd, const char *path, stk__record_index *index, stk_error *err)
{
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode))
        return file_error(err, stk_error_set(err, STK_UNSUPPORTED, "cannot be indexed: it is no regular file"), path);
    uint8_t edges[2 * EDGE_BYTES];
    const int64_t size = index->id.size_bytes;
    const size_t n = (size_t)STK_MIN(size, (int64_t)EDGE_BYTES);
    STK_TRY(stk__pread_full(fd, edges, n, 0, path, err));
    STK_TRY(stk__pread_full(fd, edges + n, n, size - (int64_t)n, path, err));
    index->edge_hash = XXH3_64bits(edges, 2 * n);
    const size_t first = STK_MIN(n, (size_t)STK__SNIFF_BYTES);
    const stk__compression found = stk__record_sniff(edges, first, (int64_t)first == size, index->framing);
    if (found == STK__PLAIN)
        return STK_OK;
    stk_error_set(err, STK_UNSUPPORTED, "cannot be indexed: it is compressed (%s)", stk__compression_name(found));
    return file_error(err, STK_UNSUPPORTED, path);
}

static stk_status index_open_file(indexing *in, int32_t number, int fd, stk__scan_buffers *buffers, stk_error *err)
{
    record_file *file = &in->records->files[number];
    stk__record_index *index = &file->index;
    const char *cache_dir = in->config->cache_dir;
    file_progress progress = {in, number};
    index->framing = in->config->framing;
    STK_TRY(look_at_edges(fd, file->path, index, err));
    if (cache_dir && stk__record_index_load(cache_dir, file->path, index)) {
        atomic_fetch_add(&in->cached, 1);
        if (!on_progress(&progress, index->id.size_bytes))
            return stk_error_set(err, STK_CANCELLED, "cancelled while indexing");
        return STK_OK;
    }
    STK_TRY(stk__record_scan(fd, file->path, buffers, on_progress, &progress, index, err));
    if (cache_dir && stk__record_index_save(cache_dir, file->path, index))
        atomic_fetch_add(&in->saved, 1);
    return STK_OK;
}

static stk_status index_file(indexing *in, int32_t number, stk__scan_buffers *buffers, stk_error *err)
{
    record_file *file = &in->records->files[number];
    int fd;
    STK_TRY(stk__data_file_open_settled(file->path, &fd, &file->index.id, err));
    const stk_status status = index_open_file(in, number, fd, buffers, err);
    close(fd);
    return status;
}

static void keep_error(indexing *in, int32_t number, const stk_error *err)
{
    int lowest = atomic_load(&in->first_failed);
    while (number < lowest && !atomic_compare_exchange_weak(&in->first_failed, &lowest, number)) {
    }
    pthread_mutex_lock(&in->lock);
    if (number < in->error_file) {
        in->error_file = number;
        in->error = *err;
    }
    pthread_mutex_unlock(&in->lock);
}

static void *index_files(void *arg)
{
    indexing *in = arg;
    stk__scan_buffers buffers = {0};
    stk_error err;
    for (;;) {
        const int32_t number = atomic_fetch_add(&in->next_file, 1);
        if (number >= in->records->file_count || atomic_load(&in->cancelled) || number > atomic_load(&in->first_failed))
            break;
        stk_error_clear(&err);
        if (index_file(in, number, &buffers, &err) != STK_OK)
            keep_error(in, number, &err);
    }
    stk__scan_buffers_clear(&buffers);
    return NULL;
}

/* Indexes every file; the calling thread works too, so that it goes on even if no thread can be started. */
static stk_status index_all(indexing *in, stk_error *err)
{
    pthread_t threads[64];
    const int32_t wanted = STK_MIN(STK_MIN(in->config->threads, in->records->file_count), (int32_t)STK_COUNT(threads));
    int32_t started = 0;
    while (started + 1 < wanted && pthread_create(&threads[started], NULL, index_files, in) == 0)
        started++;
    index_files(in);
    for (int32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (atomic_load(&in->cancelled))
        return stk_error_set(err, STK_CANCELLED, "cancelled while indexing");
    if (in->error_file == INT32_MAX)
        return STK_OK;
    if (err)
        *err = in->error;
    return in->error.status;
}

/* The sum of all sizes, for progress; files that are gone are found by the indexing itself. */
static int64_t total_size(const stk__records *r)
{
    int64_t sum = 0;
    struct stat st;
    for (int32_t i = 0; i < r->file_count; i++) {
        if (stat(r->files[i].path, &st) == 0)
            sum += st.st_size;
    }
    return sum;
}

static void add_fingerprint(stk__records *r, const record_file *file)
{
    const char *slash = strrchr(file->path, '/');
    const char *name = slash ? slash + 1 : file->path;
    const stk__record_index *index = &file->index;
    const uint64_t facts[] = {r->fingerprint,   XXH3_64bits(name, strlen(name)), (uint64_t)index->id.size_bytes,
                              index->edge_hash, (uint64_t)index->extents.count,  (uint64_t)index->framing};
    r->fingerprint = XXH3_64bits(facts, sizeof facts);
}

/* Puts together what the files' indexes say. */
static stk_status sum_up(stk__records *r, stk_error *err)
{
    size_t damage_count = 0;
    for (int32_t i = 0; i < r->file_count; i++)
        damage_count += r->files[i].index.damage_count;
    if (damage_count && !(r->damage = stk__calloc(damage_count, sizeof *r->damage)))
        return stk__nomem(damage_count * sizeof *r->damage, err);
    for (int32_t i = 0; i < r->file_count; i++) {
        stk__record_index *index = &r->files[i].index;
        r->firsts[i + 1] = r->firsts[i] + index->extents.count;
        r->bytes += index->id.size_bytes;
        add_fingerprint(r, &r->files[i]);
        for (size_t k = 0; k < index->damage_count; k++) {
            r->damage[r->damage_count] = index->damage[k];
            r->damage[r->damage_count++].file = i;
        }
        stk__free(index->damage);
        index->damage = NULL;
        index->damage_count = index->damage_capacity = 0;
    }
    return STK_OK;
}

static stk_status records_new(const stk__paths *paths, stk__records **out, stk_error *err)
{
    if (paths->count >= INT32_MAX)
        return stk_error_set(err, STK_INVALID, "%zu files, at most %d can be read together", paths->count,
                             INT32_MAX - 1);
    stk__records *r = stk__calloc(1, sizeof *r);
    if (!r)
        return stk__nomem(sizeof *r, err);
    r->files = stk__calloc(paths->count, sizeof *r->files);
    r->firsts = stk__calloc(paths->count + 1, sizeof *r->firsts);
    bool ok = r->files && r->firsts;
    for (size_t i = 0; ok && i < paths->count; i++) {
        r->file_count = (int32_t)i + 1;
        r->files[i].path = stk__strdup(paths->items[i]);
        ok = r->files[i].path != NULL;
    }
    if (!ok) {
        stk__records_close(r);
        return stk__nomem((paths->count + 1) * sizeof *r->files, err);
    }
    *out = r;
    return STK_OK;
}

static stk_status make_pool(stk__records *r, stk_error *err)
{
    const size_t size = (size_t)r->file_count * sizeof(stk__pool_file);
    stk__pool_file *files = stk__alloc(size);
    if (!files)
        return stk__nomem(size, err);
    for (int32_t i = 0; i < r->file_count; i++)
        files[i] = (stk__pool_file){r->files[i].path, r->files[i].index.id};
    const stk_status status = stk__file_pool_new(files, r->file_count, &r->pool, err);
    stk__free(files);
    return status;
}

stk_status stk__records_open(const stk__paths *paths, const stk__records_config *config, stk__records **out,
                             stk_error *err)
{
    stk__records *r = NULL;
    const int64_t start_s = (int64_t)time(NULL);
    STK_TRY(records_new(paths, &r, err));
    indexing in = {.records = r, .config = config, .error_file = INT32_MAX};
    atomic_init(&in.first_failed, INT32_MAX);
    pthread_mutex_init(&in.lock, NULL);
    if (config->progress)
        in.bytes_total = total_size(r);
    stk_status status = index_all(&in, err);
    if (atomic_load(&in.saved))
        stk__index_cache_trim(config->cache_dir, config->cache_bytes, start_s, (size_t)atomic_load(&in.saved));
    pthread_mutex_destroy(&in.lock);
    if (status == STK_OK)
        status = sum_up(r, err);
    if (status == STK_OK)
        status = make_pool(r, err);
    if (status != STK_OK) {
        stk__records_close(r);
        return status;
    }
    r->cached = atomic_load(&in.cached);
    *out = r;
    return STK_OK;
}

void stk__records_close(stk__records *r)
{
    if (!r)
        return;
    stk__file_pool_free(r->pool);
    for (int32_t i = 0; i < r->file_count; i++) {
        stk__record_index_clear(&r->files[i].index);
        stk__free(r->files[i].path);
    }
    stk__free(r->files);
    stk__free(r->firsts);
    stk__free(r->damage);
    stk__free(r);
}

int64_t stk__records_count(const stk__records *r)
{
    return r->firsts[r->file_count];
}

int64_t stk__records_bytes(const stk__records *r)
{
    return r->bytes;
}

int32_t stk__records_file_count(const stk__records *r)
{
    return r->file_count;
}

const char *stk__records_path(const stk__records *r, int32_t file)
{
    return r->files[file].path;
}

int64_t stk__records_first(const stk__records *r, int32_t file)
{
    return r->firsts[file];
}

size_t stk__records_damage_count(const stk__records *r)
{
    return r->damage_count;
}

const stk__damage *stk__records_damage(const stk__records *r, size_t i)
{
    return &r->damage[i];
}

int64_t stk__records_stray(const stk__records *r, int32_t *out_first)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < r->file_count; i++) {
        if (sum == 0 && r->files[i].index.stray > 0)
            *out_first = i;
        sum += r->files[i].index.stray;
    }
    return sum;
}

int32_t stk__records_cached(const stk__records *r)
{
    return r->cached;
}

uint64_t stk__records_fingerprint(const stk__records *r)
{
    return r->fingerprint;
}

size_t stk__records_memory(const stk__records *r)
{
    size_t sum = sizeof *r + stk__file_pool_memory(r->pool) + r->damage_count * sizeof *r->damage;
    for (int32_t i = 0; i < r->file_count; i++)
        sum += sizeof r->files[i] + sizeof r->firsts[i] + stk__record_index_memory(&r->files[i].index);
    return sum;
}

void stk__records_find(const stk__records *r, int64_t index, stk__record_place *out)
{
    /* The last file that starts at or before `index`; empty files before it start there too. */
    const int64_t *first = r->firsts;
    for (int32_t n = r->file_count; n > 1;) {
        const int32_t half = n / 2;
        first += first[half] <= index ? half : 0;
        n -= half;
    }
    const int32_t file = (int32_t)(first - r->firsts);
    out->file = file;
    out->record = index - *first;
    stk__extents_find(&r->files[file].index.extents, out->record, &out->offset, &out->size_bytes);
}

void stk__records_find_next(const stk__records *r, int64_t index, const stk__record_place *before, stk__record_place *out)
{
    const record_file *file = &r->files[before->file];
    if (index >= r->firsts[before->file + 1] ||
        !stk__extents_next(&file->index.extents, before->record + 1, before->offset, before->size_bytes, &out->offset,
                           &out->size_bytes)) {
        stk__records_find(r, index, out);
        return;
    }
    out->file = before->file;
    out->record = before->record + 1;
}

stk_status stk__records_acquire(stk__records *r, int32_t file, int *out_fd, stk_error *err)
{
    return stk__file_pool_acquire(r->pool, file, out_fd, err);
}

void stk__records_release(stk__records *r, int32_t file)
{
    stk__file_pool_release(r->pool, file);
}

stk_status stk__records_recheck(stk__records *r, int32_t file, int fd, stk_error *err)
{
    return stk__file_pool_recheck(r->pool, file, fd, err);
}

stk_status stk__records_recheck_lately(stk__records *r, int32_t file, int fd, int64_t now_ns, stk_error *err)
{
    return stk__file_pool_recheck_lately(r->pool, file, fd, now_ns, err);
}

stk_status stk__records_check_unchanged(stk__records *r, int32_t file, stk_error *err)
{
    return stk__file_pool_check_unchanged(r->pool, file, err);
}
