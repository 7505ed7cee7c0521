/* Indexes of record files as files of their own, in a cache directory. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/cache_dir.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/index_cache.h"
#include "formats/record_index.h"
#include "formats/tar.h"

#include "base/banned.h"

/*
 * An index file is this header, the blocks, the damage, the packed data. Numbers are in the machine's own byte order:
 * on another kind of machine the magic does not fit, and the data is scanned again.
 */
typedef struct index_header {
    uint64_t magic;
    uint64_t checksum; /* XXH3 of everything behind it */
    uint32_t version;
    uint32_t framing;
    int64_t size_bytes, mtime_ns; /* of the data file */
    uint64_t edge_hash;
    int64_t records;
    uint64_t block_count, damage_count, data_size;
    int64_t stray;
    int64_t ctime_ns; /* of the data file */
} index_header;

typedef struct index_damage {
    int64_t record, offset, size_bytes;
    char message[sizeof((stk__damage *)0)->message];
} index_damage;

_Static_assert(sizeof(index_header) == 96, "no padding");
_Static_assert(sizeof(index_damage) == 184, "no padding");
_Static_assert(sizeof(stk__extents_block) == 24, "no padding");

#define INDEX_MAGIC UINT64_C(0x3158444e494b5453) /* "STKINDX1" */
enum { INDEX_VERSION = 2, CHECKSUM_FROM = 16 };

void stk__record_index_clear(stk__record_index *index)
{
    stk__extents_clear(&index->extents);
    stk__free(index->damage);
    stk__free(index->loaded);
    index->damage = NULL;
    index->damage_count = index->damage_capacity = 0;
    index->loaded = NULL;
    index->loaded_size = 0;
}

size_t stk__record_index_memory(const stk__record_index *index)
{
    return stk__extents_memory(&index->extents) + index->loaded_size + index->damage_capacity * sizeof *index->damage;
}

void stk__record_index_seal(void *bytes, size_t size)
{
    if (size < sizeof(index_header))
        return;
    const uint64_t checksum = XXH3_64bits((uint8_t *)bytes + CHECKSUM_FROM, size - CHECKSUM_FROM);
    memcpy((uint8_t *)bytes + offsetof(index_header, checksum), &checksum, sizeof checksum);
}

/* Whether the header fits the data file, and the counts the index file's size. */
static bool header_fits(const index_header *h, size_t size, const stk__record_index *index)
{
    if (h->magic != INDEX_MAGIC || h->version != INDEX_VERSION || h->framing != (uint32_t)index->framing ||
        h->size_bytes != index->id.size_bytes || h->mtime_ns != index->id.mtime_ns ||
        h->ctime_ns != index->id.ctime_ns || h->edge_hash != index->edge_hash)
        return false;
    size_t left = size - sizeof *h;
    if (h->stray < 0 || h->stray > index->id.size_bytes / STK__TAR_BLOCK)
        return false;
    if (h->block_count > left / sizeof(stk__extents_block))
        return false;
    left -= h->block_count * sizeof(stk__extents_block);
    if (h->damage_count > left / sizeof(index_damage))
        return false;
    left -= h->damage_count * sizeof(index_damage);
    return h->data_size == left;
}

/* Copies the damage, which must lie in the file and be in order. */
static bool parse_damage(const uint8_t *p, size_t count, stk__record_index *index)
{
    if (!count)
        return true;
    stk__damage *damage = stk__calloc(count, sizeof *damage);
    if (!damage)
        return false;
    int64_t from = 0, record = 0;
    for (size_t i = 0; i < count; i++) {
        index_damage d;
        memcpy(&d, p + i * sizeof d, sizeof d);
        if (d.record < record || d.record > index->extents.count || d.offset < from ||
            d.offset > index->id.size_bytes || d.size_bytes < 0 || d.size_bytes > index->id.size_bytes - d.offset ||
            !memchr(d.message, 0, sizeof d.message)) {
            stk__free(damage);
            return false;
        }
        damage[i] = (stk__damage){.record = d.record, .offset = d.offset, .size_bytes = d.size_bytes};
        memcpy(damage[i].message, d.message, sizeof d.message);
        from = d.offset + d.size_bytes;
        record = d.record;
    }
    index->damage = damage;
    index->damage_count = index->damage_capacity = count;
    return true;
}

bool stk__record_index_parse(void *bytes, size_t size, stk__record_index *index)
{
    index_header h;
    if (size < sizeof h)
        return false;
    memcpy(&h, bytes, sizeof h);
    if (!header_fits(&h, size, index) ||
        h.checksum != XXH3_64bits((uint8_t *)bytes + CHECKSUM_FROM, size - CHECKSUM_FROM))
        return false;
    uint8_t *blocks = (uint8_t *)bytes + sizeof h;
    uint8_t *damage = blocks + h.block_count * sizeof(stk__extents_block);
    const stk__extents extents = {
        .count = h.records,
        .blocks = (stk__extents_block *)(void *)blocks, /* aligned: the memory and the header's size are */
        .block_count = h.block_count,
        .data = damage + h.damage_count * sizeof(index_damage),
        .data_size = h.data_size,
        .borrowed = true,
    };
    const stk__extents_frame frame = stk__record_frame(index->framing);
    if (!stk__extents_check(&extents, &frame, index->id.size_bytes))
        return false;
    index->extents = extents;
    if (!parse_damage(damage, h.damage_count, index)) {
        index->extents = (stk__extents){0};
        return false;
    }
    index->stray = h.stray;
    index->loaded = bytes;
    index->loaded_size = size;
    return true;
}

bool stk__record_index_format(const stk__record_index *index, void **out_bytes, size_t *out_size)
{
    const stk__extents *e = &index->extents;
    const index_header h = {
        .magic = INDEX_MAGIC,
        .version = INDEX_VERSION,
        .framing = (uint32_t)index->framing,
        .size_bytes = index->id.size_bytes,
        .mtime_ns = index->id.mtime_ns,
        .ctime_ns = index->id.ctime_ns,
        .edge_hash = index->edge_hash,
        .records = e->count,
        .block_count = e->block_count,
        .damage_count = index->damage_count,
        .data_size = e->data_size,
        .stray = index->stray,
    };
    stk__text t = STK__TEXT_INIT;
    stk__text_write(&t, &h, sizeof h);
    if (e->block_count)
        stk__text_write(&t, e->blocks, e->block_count * sizeof *e->blocks);
    for (size_t i = 0; i < index->damage_count; i++) {
        const stk__damage *from = &index->damage[i];
        index_damage d = {.record = from->record, .offset = from->offset, .size_bytes = from->size_bytes};
        memcpy(d.message, from->message, sizeof d.message);
        stk__text_write(&t, &d, sizeof d);
    }
    if (e->data_size)
        stk__text_write(&t, e->data, e->data_size);
    if (t.failed) {
        stk__text_clear(&t);
        return false;
    }
    stk__record_index_seal(t.data, t.length);
    *out_bytes = t.data;
    *out_size = t.length;
    return true;
}

/* CACHE_DIR/HASH.stkidx, where HASH is that of the data file's absolute path. */
static bool index_path(const char *cache_dir, const char *path, stk__text *out)
{
    stk__text absolute = STK__TEXT_INIT;
    if (path[0] != '/') {
        char cwd[4096];
        if (getcwd(cwd, sizeof cwd))
            stk__text_printf(&absolute, "%s/", cwd);
        else
            absolute.failed = true; /* not worth more: this file is scanned each time */
    }
    stk__text_puts(&absolute, path);
    if (!absolute.failed) {
        const XXH128_hash_t hash = XXH3_128bits(absolute.data, absolute.length);
        stk__text_printf(out, "%s/%016llx%016llx" STK__RECORD_INDEX_ENDING, cache_dir, (unsigned long long)hash.high64,
                         (unsigned long long)hash.low64);
    }
    const bool ok = !absolute.failed && !out->failed;
    stk__text_clear(&absolute);
    return ok;
}

/* No index of a data file of that size is larger: 16 bytes and its share of a block for each record, and damage. */
static int64_t largest_index(const stk__record_index *index)
{
    const stk__extents_frame frame = stk__record_frame(index->framing);
    const int64_t least = STK_MAX(frame.between, index->framing == STK__FRAMING_TAR ? (int64_t)STK__TAR_BLOCK : 1);
    const int64_t records = index->id.size_bytes / least + 1;
    const int64_t damage = STK__DAMAGE_MAX * (int64_t)sizeof(index_damage);
    return (int64_t)sizeof(index_header) + (int64_t)sizeof(stk__extents_block) + 17 * records + damage;
}

/* Reads the whole index file; NULL when there is none. */
static void *read_index(const char *path, int64_t max, size_t *out_size)
{
    int fd;
    stk__file_id id;
    if (stk__file_open(path, &fd, &id, NULL) != STK_OK)
        return NULL;
    void *bytes = NULL;
    if (id.size_bytes >= (int64_t)sizeof(index_header) && id.size_bytes <= max)
        bytes = stk__alloc((size_t)id.size_bytes);
    if (bytes && stk__pread_full(fd, bytes, (size_t)id.size_bytes, 0, path, NULL) != STK_OK) {
        stk__free(bytes);
        bytes = NULL;
    }
    close(fd);
    *out_size = (size_t)id.size_bytes;
    return bytes;
}

bool stk__record_index_load(const char *cache_dir, const char *path, stk__record_index *index)
{
    stk__text file = STK__TEXT_INIT;
    size_t size = 0;
    void *bytes = index_path(cache_dir, path, &file) ? read_index(file.data, largest_index(index), &size) : NULL;
    const bool good = bytes && stk__record_index_parse(bytes, size, index);
    if (good)
        stk__cache_dir_used(file.data);
    else
        stk__free(bytes);
    stk__text_clear(&file);
    return good;
}

bool stk__record_index_save(const char *cache_dir, const char *path, const stk__record_index *index)
{
    stk__text file = STK__TEXT_INIT;
    void *bytes = NULL;
    size_t size = 0;
    stk__new_file f;
    bool saved = false;
    if (index_path(cache_dir, path, &file) && stk__record_index_format(index, &bytes, &size) &&
        stk__make_parents(file.data, NULL) == STK_OK && stk__new_file_open(&f, file.data, NULL) == STK_OK) {
        if (stk__new_file_write(&f, bytes, size, NULL) == STK_OK)
            saved = stk__new_file_commit_unsynced(&f, NULL) == STK_OK; /* after a power cut the checksum tells */
        else
            stk__new_file_abort(&f);
    }
    stk__free(bytes);
    stk__text_clear(&file);
    return saved;
}
