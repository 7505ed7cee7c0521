/* Columns of files that were read before, kept in the cache directory and mapped the next time. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cache_dir.h"
#include "base/file.h"
#include "base/mem.h"
#include "trace/store.h"

#include <xxhash.h>

#include "base/banned.h"

enum {
    CACHE_VERSION = 4,     /* one more whenever a reader or the builder gives other columns for the same file */
    WORTH_BYTES = 1 << 20, /* smaller files are read again as fast */
    HASH_WHOLE = 64 << 20, /* larger files are hashed in pieces */
    PIECES = 64,
    PIECE_BYTES = 64 * 1024,
    ALIGN = 4096,
    HASH_PIECE = 8 << 20,
};

static const char magic[8] = "stktrc\r\n";
static const char ending[] = ".columns";
#define DEFAULT_CAP ((uint64_t)4 << 30)

/* At the start of the file; what follows are the columns, each at a whole page. */
typedef struct cache_head {
    char magic[8];
    uint32_t version, columns;
    uint64_t layout; /* hash of the columns' names and sizes: another build may have others */
    uint64_t check;  /* of this head with `check` 0 */
    int64_t start_ns, end_ns;
    uint64_t string_count;
    uint64_t file_bytes;
    struct {
        uint64_t rows, offset, hash;
    } column[STK__STORE_COLUMNS];
} cache_head;

static uint64_t layout_hash(void)
{
    uint64_t hash = CACHE_VERSION;
    for (int i = 0; i < STK__STORE_COLUMNS; i++) {
        hash = XXH3_64bits_withSeed(stk__column_infos[i].name, strlen(stk__column_infos[i].name), hash);
        hash = XXH3_64bits_withSeed(&stk__column_infos[i].item_bytes, sizeof(size_t), hash);
    }
    return hash;
}

static uint64_t head_check(const cache_head *head)
{
    cache_head copy = *head;
    copy.check = 0;
    return XXH3_64bits(&copy, sizeof copy);
}

/* In pieces, so that --memory holds. */
static uint64_t hash_column(const stk__trace *t, const void *data, uint64_t bytes)
{
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return 0;
    XXH3_64bits_reset(state);
    for (uint64_t at = 0; at < bytes; at += HASH_PIECE) {
        XXH3_64bits_update(state, (const char *)data + at, (size_t)STK_MIN((uint64_t)HASH_PIECE, bytes - at));
        if (at)
            stk__trace_trim(t);
    }
    const uint64_t hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return hash;
}

/* ---- which file ---- */

/* The whole content of a small file, else pieces spread over it and its end. */
static bool hash_content(XXH3_state_t *state, int fd, int64_t size)
{
    uint8_t *piece = stk__alloc(PIECE_BYTES);
    if (!piece)
        return false;
    const bool whole = size <= HASH_WHOLE;
    const int64_t step = whole ? PIECE_BYTES : (size - PIECE_BYTES) / PIECES;
    bool good = true;
    for (int64_t at = 0; good && at < size; at += step) {
        const size_t want = (size_t)STK_MIN(PIECE_BYTES, size - at);
        good = stk__pread_full(fd, piece, want, at, "", NULL) == STK_OK;
        XXH3_128bits_update(state, piece, good ? want : 0);
    }
    stk__free(piece);
    return good;
}

static bool hash_file(XXH3_state_t *state, const char *path, uint64_t *total_bytes)
{
    int fd;
    stk__file_id id;
    struct stat info;
    if (stat(path, &info) || !S_ISREG(info.st_mode) || stk__file_open(path, &fd, &id, NULL) != STK_OK)
        return false;
    XXH3_128bits_update(state, &id, sizeof id);
    /* A change in place that keeps size and mtime still shows here; large files are not hashed as a whole. */
    const int64_t change[] = {(int64_t)info.st_ino, (int64_t)info.st_ctim.tv_sec, (int64_t)info.st_ctim.tv_nsec};
    XXH3_128bits_update(state, change, sizeof change);
    XXH3_128bits_update(state, path, strlen(path) + 1); /* the trace has it as the user wrote it */
    const bool good = hash_content(state, fd, id.size_bytes);
    close(fd);
    *total_bytes += (uint64_t)id.size_bytes;
    return good;
}

char *stk__trace_cache_path(const char *const *paths, size_t count, const stk__trace_options *options)
{
    if (!options->cache_dir || !count)
        return NULL;
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return NULL;
    XXH3_128bits_reset(state);
    const uint64_t layout = layout_hash();
    uint64_t total_bytes = 0;
    bool good = true;
    XXH3_128bits_update(state, &layout, sizeof layout);
    XXH3_128bits_update(state, &options->join, sizeof options->join);
    if (options->format)
        XXH3_128bits_update(state, options->format, strlen(options->format) + 1);
    for (size_t i = 0; i < count && good; i++)
        good = strcmp(paths[i], "-") != 0 && hash_file(state, paths[i], &total_bytes);
    const XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    if (!good || total_bytes < WORTH_BYTES)
        return NULL;
    stk__text path = STK__TEXT_INIT;
    stk__text_printf(&path, "%s/traces/%016llx%016llx%s", options->cache_dir, (unsigned long long)hash.high64,
                     (unsigned long long)hash.low64, ending);
    if (path.failed) {
        stk__text_clear(&path);
        return NULL;
    }
    return path.data;
}

/* ---- loading ---- */

static bool head_is_good(const cache_head *head, uint64_t size)
{
    if (memcmp(head->magic, magic, sizeof magic) != 0 || head->version != CACHE_VERSION ||
        head->columns != STK__STORE_COLUMNS || head->layout != layout_hash() || head->check != head_check(head) ||
        head->file_bytes != size || head->string_count < 1 || head->string_count >= UINT32_MAX)
        return false;
    for (int i = 0; i < STK__STORE_COLUMNS; i++) {
        const uint64_t rows = head->column[i].rows, offset = head->column[i].offset;
        if (offset % ALIGN || offset > size || rows > (size - offset) / stk__column_infos[i].item_bytes)
            return false;
    }
    return head->column[STK__STRING_OFFSETS].rows == head->string_count + 1;
}

/* Columns of one group share their number of rows, which is the first one's. */
static bool attach(stk__trace *t, const cache_head *head, char *base)
{
    t->string_count = (uint32_t)head->string_count;
    t->start_ns = head->start_ns;
    t->end_ns = head->end_ns;
    for (int i = 0; i < STK__STORE_COLUMNS; i++) {
        const stk__column_info *info = &stk__column_infos[i];
        const uint64_t rows = head->column[i].rows;
        void *data = base + head->column[i].offset;
        if (hash_column(t, data, rows * info->item_bytes) != head->column[i].hash)
            return false;
        t->store->columns[i] = (stk__column){data, rows * info->item_bytes, STK__IN_CACHE, 0};
        *stk__column_pointer(t, i) = data;
        if (!info->count)
            continue;
        size_t *count = (size_t *)((char *)t + info->count);
        if (*count && *count != rows)
            return false;
        *count = rows;
    }
    for (int i = 0; i < STK__STRING_OFFSETS; i++) {
        if (stk__column_rows(t, i) != head->column[i].rows)
            return false;
    }
    return head->column[STK__STRING_BYTES].rows == t->string_offset[t->string_count];
}

static stk__trace *map_trace(void *base, size_t size, uint64_t memory_bytes)
{
    stk__trace *t = stk__calloc(1, sizeof *t);
    stk__store *s = stk__store_new(memory_bytes, NULL);
    if (!t || !s) {
        stk__free(t);
        stk__store_free(s);
        munmap(base, size);
        return NULL;
    }
    t->store = s;
    s->cache = base;
    s->cache_bytes = size;
    if (!head_is_good(base, size) || !attach(t, base, base) || !stk__trace_is_sound(t)) {
        stk__trace_free(t);
        return NULL;
    }
    stk__store_trim(s);
    return t;
}

stk__trace *stk__trace_cache_load(const char *path, uint64_t memory_bytes)
{
    int fd;
    stk__file_id id;
    if (stk__file_open(path, &fd, &id, NULL) != STK_OK)
        return NULL;
    void *base = MAP_FAILED;
    if ((uint64_t)id.size_bytes >= sizeof(cache_head))
        base = mmap(NULL, (size_t)id.size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (base != MAP_FAILED)
        futimens(fd, NULL); /* used just now: the last one to be removed */
    close(fd);
    return base == MAP_FAILED ? NULL : map_trace(base, (size_t)id.size_bytes, memory_bytes);
}

/* ---- saving ---- */

/* Removes the files that were not used for longest until `bytes` more fit below the cap. */
static void make_room(const char *path, uint64_t bytes, uint64_t cap_bytes)
{
    static const char *const endings[] = {ending, NULL};
    char *directory = stk__strndup(path, (size_t)(strrchr(path, '/') - path));
    if (directory)
        stk__cache_dir_trim(directory, &(stk__cache_bounds){.endings = endings,
                                                            .most_bytes = cap_bytes - bytes,
                                                            .used_since_s = INT64_MAX});
    stk__free(directory);
}

static void fill_head(const stk__trace *t, cache_head *head)
{
    memcpy(head->magic, magic, sizeof magic);
    head->version = CACHE_VERSION;
    head->columns = STK__STORE_COLUMNS;
    head->layout = layout_hash();
    head->start_ns = t->start_ns;
    head->end_ns = t->end_ns;
    head->string_count = t->string_count;
    uint64_t offset = (sizeof *head + ALIGN - 1) / ALIGN * ALIGN;
    for (int i = 0; i < STK__STORE_COLUMNS; i++) {
        const uint64_t rows = stk__column_rows(t, i), bytes = rows * stk__column_infos[i].item_bytes;
        const void *data = *stk__column_pointer((stk__trace *)(uintptr_t)t, i);
        head->column[i].rows = rows;
        head->column[i].offset = offset;
        head->column[i].hash = hash_column(t, data, bytes);
        offset = (offset + bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
    head->file_bytes = offset;
    head->check = head_check(head);
}

static stk_status write_padded(stk__new_file *f, const void *data, uint64_t bytes)
{
    static const char zeros[ALIGN];
    if (bytes)
        STK_TRY(stk__new_file_write(f, data, bytes, NULL));
    const size_t rest = (size_t)((ALIGN - bytes % ALIGN) % ALIGN);
    return rest ? stk__new_file_write(f, zeros, rest, NULL) : STK_OK;
}

void stk__trace_cache_save(const stk__trace *t, const char *path, uint64_t cap_bytes)
{
    cache_head *head = stk__calloc(1, sizeof *head);
    if (!head)
        return;
    fill_head(t, head);
    const uint64_t cap = cap_bytes ? cap_bytes : DEFAULT_CAP;
    stk__new_file f;
    if (head->file_bytes > cap || stk__make_parents(path, NULL) != STK_OK) {
        stk__free(head);
        return;
    }
    make_room(path, head->file_bytes, cap);
    if (stk__new_file_open(&f, path, NULL) == STK_OK) {
        fchmod(fileno(f.stream), 0600); /* the trace itself may not be for all to read */
        stk_status status = write_padded(&f, head, sizeof *head);
        for (int i = 0; i < STK__STORE_COLUMNS && status == STK_OK; i++) {
            status = write_padded(&f, *stk__column_pointer((stk__trace *)(uintptr_t)t, i),
                                  head->column[i].rows * stk__column_infos[i].item_bytes);
            stk__trace_trim(t);
        }
        if (status == STK_OK)
            stk__new_file_commit(&f, NULL);
        else
            stk__new_file_abort(&f);
    }
    stk__free(head);
}
