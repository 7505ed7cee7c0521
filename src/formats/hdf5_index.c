/* Descriptions of HDF5 files: asked of the helper, kept in a cache directory, and what is found by name or number. */
#define _GNU_SOURCE /* realpath */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/cache_dir.h"
#include "base/mem.h"
#include "formats/data_file.h"
#include "formats/hdf5_index.h"
#include "formats/index_cache.h"

#include "base/banned.h"

enum { TIMEOUT_MS = 60000, SIGNATURE_BYTES = 8, PATH_BYTES = 4096 };

static const uint8_t signature[SIGNATURE_BYTES] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

/* ---- index files ---- */

/*
 * An index file is this header and the FILE message as the helper gave it. Numbers of the header are in the machine's
 * own byte order: on another kind of machine the magic does not fit, and the index is made anew.
 */
typedef struct index_header {
    uint64_t magic;
    uint64_t checksum; /* XXH3 of everything behind it */
    uint64_t version;  /* STK__H5_WIRE_VERSION */
    stk__h5_identity id;
    uint64_t size; /* of the message */
} index_header;

_Static_assert(sizeof(index_header) == 88, "no padding");

#define INDEX_MAGIC UINT64_C(0x315844354b545348) /* "HSTK5DX1" */
enum { CHECKSUM_FROM = 16 };

void stk__h5_cached_seal(void *bytes, size_t size)
{
    if (size < sizeof(index_header))
        return;
    const uint64_t checksum = XXH3_64bits((uint8_t *)bytes + CHECKSUM_FROM, size - CHECKSUM_FROM);
    memcpy((uint8_t *)bytes + offsetof(index_header, checksum), &checksum, sizeof checksum);
}

bool stk__h5_cached_format(const stk__h5_identity *id, const void *message, size_t size, stk__text *out)
{
    const index_header h = {.magic = INDEX_MAGIC, .version = STK__H5_WIRE_VERSION, .id = *id, .size = size};
    stk__text_write(out, &h, sizeof h);
    stk__text_write(out, message, size);
    if (out->failed)
        return false;
    stk__h5_cached_seal(out->data, out->length);
    return true;
}

bool stk__h5_cached_parse(const stk__h5_identity *id, const void *bytes, size_t size, stk__h5_file **out)
{
    index_header h;
    if (size < sizeof h)
        return false;
    memcpy(&h, bytes, sizeof h);
    const uint8_t *message = (const uint8_t *)bytes + sizeof h;
    return h.magic == INDEX_MAGIC && h.version == STK__H5_WIRE_VERSION && h.size == size - sizeof h &&
           memcmp(&h.id, id, sizeof h.id) == 0 &&
           h.checksum == XXH3_64bits((const uint8_t *)bytes + CHECKSUM_FROM, size - CHECKSUM_FROM) &&
           stk__h5_parse(message, (size_t)h.size, id->size_bytes, out, NULL) == STK_OK;
}

/* CACHE_DIR/HASH.stkh5, where HASH is the key. */
static bool cached_path(const char *cache_dir, const stk__h5_identity *id, stk__text *out)
{
    stk__text_printf(out, "%s/%016llx%016llx" STK__H5_INDEX_ENDING, cache_dir, (unsigned long long)id->key[0],
                     (unsigned long long)id->key[1]);
    return !out->failed;
}

/* A chunk takes 32 bytes of an answer and at least one byte of the file; names, types and attributes come on top. */
static size_t largest_answer(int64_t size_bytes)
{
    const int64_t most = (int64_t)4 << 30;
    return (size_t)STK_MIN(((int64_t)64 << 20) + 4 * STK_MIN(size_bytes, most), most);
}

static bool cached_load(const char *cache_dir, const stk__h5_identity *id, stk__h5_file **out)
{
    stk__text path = STK__TEXT_INIT;
    char *bytes = NULL;
    size_t size = 0;
    const bool found = cached_path(cache_dir, id, &path) &&
                       stk__read_file(path.data, largest_answer(id->size_bytes) + sizeof(index_header), &bytes, &size,
                                      NULL) == STK_OK &&
                       stk__h5_cached_parse(id, bytes, size, out);
    if (found)
        stk__cache_dir_used(path.data);
    stk__free(bytes);
    stk__text_clear(&path);
    return found;
}

/* Failures are no matter: the next one asks the helper again. */
static void cached_save(const char *cache_dir, const stk__h5_identity *id, stk__wire message)
{
    stk__text path = STK__TEXT_INIT, bytes = STK__TEXT_INIT;
    if (cached_path(cache_dir, id, &path) &&
        stk__h5_cached_format(id, message.p, (size_t)(message.end - message.p), &bytes) &&
        stk__make_parents(path.data, NULL) == STK_OK)
        stk__write_file(path.data, bytes.data, bytes.length, NULL);
    stk__text_clear(&path);
    stk__text_clear(&bytes);
}

/* ---- files ---- */

bool stk__h5_is_file(const char *path)
{
    struct stat st;
    int fd;
    stk__file_id id;
    /* Opening a pipe would wait for its other end. */
    if (stat(path, &st) || !S_ISREG(st.st_mode) || stk__data_file_open(path, &fd, &id, NULL) != STK_OK)
        return false;
    bool found = false;
    for (int64_t at = 0; !found && at <= id.size_bytes - SIGNATURE_BYTES; at = at ? 2 * at : 512) {
        uint8_t bytes[SIGNATURE_BYTES];
        if (stk__pread_full(fd, bytes, sizeof bytes, at, path, NULL) != STK_OK)
            break;
        found = memcmp(bytes, signature, sizeof bytes) == 0;
    }
    close(fd);
    return found;
}

/* What is wanted of which file. */
typedef struct wanted {
    stk__h5_helper *helper;
    const char *path;
    char absolute[PATH_BYTES]; /* the helper may have started in another directory */
    const char *const *datasets;
    size_t count;
    int kind; /* STK__H5_ASK_... */
    stk__h5_identity id;
} wanted;

/* Every error is about that file. */
static stk_status about(const wanted *w, stk_status status, stk_error *err)
{
    if (err && status != STK_OK)
        snprintf(err->file, sizeof err->file, "%s", w->path);
    return status;
}

static bool make_absolute(const char *path, char out[PATH_BYTES])
{
    char cwd[PATH_BYTES];
    if (path[0] == '/')
        return snprintf(out, PATH_BYTES, "%s", path) < PATH_BYTES;
    return getcwd(cwd, sizeof cwd) && snprintf(out, PATH_BYTES, "%s/%s", cwd, path) < PATH_BYTES;
}

static stk_status identify(const char *path, stk__h5_identity *out, stk_error *err)
{
    struct stat st;
    if (stat(path, &st)) {
        if (stk__data_file_is_shortage(errno))
            return stk__data_file_exhausted(errno, path, "cannot open", err);
        return stk_error_set(err, STK_IO, "cannot open: %s", strerror(errno));
    }
    if (!S_ISREG(st.st_mode))
        return stk_error_set(err, STK_UNSUPPORTED, "cannot be read as HDF5: it is no regular file");
    out->size_bytes = st.st_size;
    out->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    out->ctime_ns = (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec;
    out->inode = (uint64_t)st.st_ino;
    out->device = (uint64_t)st.st_dev;
    return STK_OK;
}

/* The key of a cached index: the real path and the datasets, each with its NUL. */
static stk_status make_key(wanted *w, stk_error *err)
{
    char real[PATH_BYTES];
    stk__text t = STK__TEXT_INIT;
    if (!realpath(w->path, real) && stk__data_file_is_shortage(errno))
        return stk__data_file_exhausted(errno, w->path, "cannot open", err);
    if (!realpath(w->path, real))
        return stk_error_set(err, STK_IO, "cannot open: %s", strerror(errno));
    stk__text_write(&t, real, strlen(real) + 1);
    for (size_t i = 0; i < w->count; i++)
        stk__text_write(&t, w->datasets[i], strlen(w->datasets[i]) + 1);
    if (t.failed) {
        stk__text_clear(&t);
        return stk__nomem(t.length, err);
    }
    const XXH128_hash_t hash = XXH3_128bits(t.data, t.length);
    w->id.key[0] = hash.high64;
    w->id.key[1] = hash.low64;
    stk__text_clear(&t);
    return STK_OK;
}

static stk_status check_signature(const char *path, stk_error *err)
{
    if (stk__h5_is_file(path))
        return STK_OK;
    int fd;
    STK_TRY(stk__data_file_open(path, &fd, NULL, err));
    close(fd);
    return stk_error_set(err, STK_CORRUPT,
                         "is no HDF5 file: its signature is neither at the start nor at 512, 1024, "
                         "2048, ...");
}

/* ---- asking ---- */

/* The FILE message of an answer. */
static bool find_file_message(const uint8_t *data, size_t size, stk__wire *out)
{
    stk__wire w = {data, data + size};
    uint32_t field, type;
    while (w.p < w.end && stk__wire_tag(&w, &field, &type)) {
        if (field == STK__H5_ANSWER_FILE && type == STK__WIRE_BYTES)
            return stk__wire_bytes(&w, out);
        if (!stk__wire_skip(&w, type))
            return false;
    }
    return false;
}

static stk_status changed(const wanted *w, int64_t size_bytes, stk_error *err)
{
    if (size_bytes == w->id.size_bytes)
        return stk_error_set(err, STK_CORRUPT, "changed while it was indexed: it has other times or is another file");
    return stk_error_set(err, STK_CORRUPT, "changed while it was indexed: it had %lld bytes, then %lld",
                         (long long)w->id.size_bytes, (long long)size_bytes);
}

/* Whether the file still is what it was before the helper looked at it. */
static stk_status check_unchanged(const wanted *w, stk_error *err)
{
    stk__h5_identity now = w->id;
    STK_TRY(identify(w->path, &now, err));
    return memcmp(&now, &w->id, sizeof now) == 0 ? STK_OK : changed(w, now.size_bytes, err);
}

/* The message lies in *out_data, which the caller frees. A dataset that is not there is INVALID, with a near name. */
static stk_status ask(const wanted *w, uint8_t **out_data, stk__wire *out_message, stk_error *err)
{
    stk__text request = STK__TEXT_INIT;
    uint8_t *data = NULL;
    size_t size = 0;
    stk__wire_put_uint(&request, STK__H5_REQUEST_KIND, (uint64_t)w->kind);
    stk__wire_put_bytes(&request, STK__H5_REQUEST_PATH, w->absolute, strlen(w->absolute));
    for (size_t i = 0; i < w->count; i++)
        stk__wire_put_bytes(&request, STK__H5_REQUEST_DATASET, w->datasets[i], strlen(w->datasets[i]));
    stk_status status =
        stk__h5_helper_ask(w->helper, &request, TIMEOUT_MS, largest_answer(w->id.size_bytes), &data, &size, err);
    stk__text_clear(&request);
    if (status == STK_OK && !find_file_message(data, size, out_message))
        status = stk_error_set(err, STK_CORRUPT, STK__H5_HELPER_NAME " gave an answer without a description");
    if (status != STK_OK) {
        stk__free(data);
        return status;
    }
    *out_data = data;
    return STK_OK;
}

/* ---- describe and index ---- */

static int compare_datasets(const void *a, const void *b)
{
    return strcmp(((const stk__h5_dataset *)a)->path, ((const stk__h5_dataset *)b)->path);
}

/* Ties the description to the file and to what was asked for. */
static stk_status finish(const wanted *w, stk__h5_file *file, stk_error *err)
{
    if (w->count && file->dataset_count != w->count)
        return stk_error_set(err, STK_CORRUPT, STK__H5_HELPER_NAME " described %zu datasets, %zu were asked for",
                             file->dataset_count, w->count);
    if (!w->count && file->dataset_count)
        qsort(file->datasets, file->dataset_count, sizeof *file->datasets, compare_datasets);
    const size_t size = strlen(w->path) + 1;
    if (!(file->path = stk__h5_keep(file, size, err)))
        return STK_NOMEM;
    memcpy(file->path, w->path, size);
    return STK_OK;
}

static stk_status get_fresh(const wanted *w, const char *cache_dir, stk__h5_file **out, stk_error *err)
{
    uint8_t *data = NULL;
    stk__wire message = {0};
    STK_TRY(check_signature(w->path, err));
    STK_TRY(ask(w, &data, &message, err));
    stk_status status = check_unchanged(w, err);
    if (status == STK_OK)
        status = stk__h5_parse(message.p, (size_t)(message.end - message.p), w->id.size_bytes, out, err);
    if (status == STK_OK && (*out)->id.mtime_ns != w->id.mtime_ns)
        status = changed(w, (*out)->id.size_bytes, err);
    if (status == STK_OK && cache_dir)
        cached_save(cache_dir, &w->id, message);
    stk__free(data);
    return status;
}

static stk_status get(wanted *w, const char *cache_dir, stk__h5_file **out, stk_error *err)
{
    stk__h5_file *file = NULL;
    STK_TRY(identify(w->path, &w->id, err));
    if (stk__data_file_settle(w->id.mtime_ns)) /* it was written just now */
        STK_TRY(identify(w->path, &w->id, err));
    if (!make_absolute(w->path, w->absolute))
        return stk_error_set(err, STK_INVALID, "its path is longer than %d bytes", PATH_BYTES);
    if (cache_dir)
        STK_TRY(make_key(w, err));
    stk_status status = STK_OK;
    if (cache_dir && cached_load(cache_dir, &w->id, &file))
        file->cached = true;
    else
        status = get_fresh(w, cache_dir, &file, err);
    if (status == STK_OK)
        status = finish(w, file, err);
    if (status != STK_OK) {
        stk__h5_file_free(file);
        return status;
    }
    *out = file;
    return STK_OK;
}

stk_status stk__h5_describe(stk__h5_helper *helper, const char *path, const char *const *datasets, size_t count,
                            stk__h5_file **out, stk_error *err)
{
    wanted w = {.helper = helper, .path = path, .datasets = datasets, .count = count, .kind = STK__H5_ASK_DESCRIBE};
    return about(&w, get(&w, NULL, out, err), err);
}

stk_status stk__h5_index(stk__h5_helper *helper, const char *path, const char *const *datasets, size_t count,
                         const char *cache_dir, stk__h5_file **out, stk_error *err)
{
    wanted w = {.helper = helper, .path = path, .datasets = datasets, .count = count, .kind = STK__H5_ASK_INDEX};
    return about(&w, get(&w, cache_dir, out, err), err);
}

const stk__h5_chunk *stk__h5_find(const stk__h5_dataset *d, uint64_t number)
{
    /* Where all chunks are there, each stands at its own number; and none can stand behind it. */
    size_t low = 0, high = d->chunk_count;
    if (number < high) {
        if (d->chunks[number].number == number)
            return &d->chunks[number];
        high = (size_t)number;
    }
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (d->chunks[middle].number == number)
            return &d->chunks[middle];
        if (d->chunks[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}
