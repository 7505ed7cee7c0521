/*
 * Cache files: header (magic), packed samples, entries {index, offset, size, dropped_at, check}, footer.
 *
 * One is written under a hidden name and renamed once a whole pass is in it. What is read from one is untrusted: entries and
 * footer have a check sum, each sample its own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/mem.h"
#include "engine/cache.h"
#include "engine/run.h"

#include "base/banned.h"

#define MAGIC "STKCACHE"
enum { VERSION = 1, HEADER_BYTES = 16, BLOCK_ENTRIES = 1024, COPY_BYTES = 1 << 16 };

/* As they stand in the file. */
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

_Static_assert(sizeof(file_entry) == 32 && sizeof(file_footer) == 48, "no padding");

static stk_status about_file(stk_error *err, const char *path, stk_status status)
{
    if (err)
        snprintf(err->file, sizeof err->file, "%s", path);
    return status;
}

static stk_status file_problem(stk_error *err, const char *path, const char *what)
{
    stk_error_set(err, STK_IO, "%s: %s", what, strerror(errno));
    return about_file(err, path, STK_IO);
}

static stk_status write_all(int fd, const void *data, size_t size, int64_t at, const char *path, stk_error *err)
{
    for (size_t done = 0; done < size;) {
        const ssize_t n = pwrite(fd, (const char *)data + done, size - done, at + (int64_t)done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            return file_problem(err, path, "cannot write the cache");
    }
    return STK_OK;
}

/* ---- reading ---- */

static uint64_t footer_seed(const file_footer *f)
{
    return XXH3_64bits(f, offsetof(file_footer, check));
}

static bool footer_fits(const file_footer *f, uint64_t fingerprint, int64_t size)
{
    const int64_t room = size - (int64_t)sizeof *f - f->entries_at;
    return memcmp(f->magic, MAGIC, 8) == 0 && f->version == VERSION && f->fingerprint == fingerprint &&
           f->entries_at >= 0 && f->entry_count >= 0 && f->entries_at <= size - (int64_t)sizeof *f &&
           f->entry_count == room / (int64_t)sizeof(file_entry) && room % (int64_t)sizeof(file_entry) == 0;
}

/* What is done with a block of entries. */
typedef struct block_visit {
    bool (*take)(struct block_visit *visit, const file_entry *entries, size_t count);
    XXH3_state_t *hash;      /* checking */
    stk__cache_store *store; /* taking them in */
    const file_footer *footer;
    stk__budget *budget;
    _Atomic int64_t *charged;
} block_visit;

static bool visit_entries(int fd, const char *path, const file_footer *f, block_visit *visit)
{
    file_entry *entries = stk__alloc(BLOCK_ENTRIES * sizeof *entries);
    bool ok = entries != NULL;
    for (int64_t done = 0; ok && done < f->entry_count;) {
        const size_t n = (size_t)STK_MIN(f->entry_count - done, (int64_t)BLOCK_ENTRIES);
        ok = stk__pread_full(fd, entries, n * sizeof *entries, f->entries_at + done * (int64_t)sizeof *entries, path,
                             NULL) == STK_OK &&
             visit->take(visit, entries, n);
        done += (int64_t)n;
    }
    stk__free(entries);
    return ok;
}

static bool hash_block(block_visit *visit, const file_entry *entries, size_t count)
{
    return XXH3_64bits_update(visit->hash, entries, count * sizeof *entries) == XXH_OK;
}

static bool entries_sound(int fd, const char *path, const file_footer *f)
{
    block_visit visit = {.take = hash_block, .hash = XXH3_createState()};
    const bool ok = visit.hash && XXH3_64bits_reset_withSeed(visit.hash, footer_seed(f)) == XXH_OK &&
                    visit_entries(fd, path, f, &visit) && XXH3_64bits_digest(visit.hash) == f->check;
    XXH3_freeState(visit.hash);
    return ok;
}

/* What the store lacks, from the file that is its newest one. Anything odd in an entry leaves that sample out. */
static bool take_block(block_visit *visit, const file_entry *entries, size_t count)
{
    stk__cache_store *s = visit->store;
    for (size_t i = 0; i < count; i++) {
        const file_entry *from = &entries[i];
        if (from->size < 0 || from->offset < 0 || from->size > visit->footer->entries_at ||
            from->offset > visit->footer->entries_at - from->size)
            continue;
        stk__cache_entry *e = stk__cache_make(s, from->index, visit->budget, visit->charged);
        if (!e && from->index >= 0)
            atomic_store(&s->cramped, true);
        if (!e || atomic_load(&e->state) != STK__CACHE_EMPTY)
            continue;
        e->place = (stk__cache_place){.offset = from->offset,
                                      .size = from->size,
                                      .dropped_at = from->dropped_at,
                                      .check = from->check,
                                      .file = (uint8_t)(s->fd_count - 1)};
        atomic_store_explicit(&e->state, STK__CACHE_STORED, memory_order_release);
        atomic_fetch_add(&s->stored, 1);
    }
    return true;
}

/* Takes the file over, which then is the store's to close; false when it does not fit. */
static bool take_in_locked(stk__cache_store *s, int fd, int64_t size, stk__budget *budget, _Atomic int64_t *charged)
{
    file_footer f;
    if (s->fd_count == STK__CACHE_FILES || size < (int64_t)sizeof f ||
        stk__pread_full(fd, &f, sizeof f, size - (int64_t)sizeof f, s->path, NULL) != STK_OK ||
        !footer_fits(&f, s->fingerprint, size) || !entries_sound(fd, s->path, &f))
        return false;
    s->fds[s->fd_count++] = fd;
    block_visit visit = {.take = take_block, .store = s, .footer = &f, .budget = budget, .charged = charged};
    visit_entries(fd, s->path, &f, &visit);
    s->published = f.entry_count;
    s->mended = 0;
    return true;
}

static stk__cache_file_id id_of(const struct stat *st)
{
    return (stk__cache_file_id){st->st_dev, st->st_ino, st->st_size,
                                (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec};
}

static bool same_file(const stk__cache_file_id *a, const stk__cache_file_id *b)
{
    return a->device == b->device && a->inode == b->inode && a->size_bytes == b->size_bytes &&
           a->mtime_ns == b->mtime_ns;
}

static bool has_magic(int fd)
{
    char magic[8];
    return stk__pread_full(fd, magic, sizeof magic, 0, "", NULL) == STK_OK && memcmp(magic, MAGIC, sizeof magic) == 0;
}

stk_status stk__cache_adopt_locked(stk__cache_store *s, stk__budget *budget, _Atomic int64_t *charged, bool *out_unfit,
                                   stk_error *err)
{
    *out_unfit = false;
    struct stat st;
    const int fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold us up */
    if (fd < 0) {
        if (errno != ENOENT)
            return file_problem(err, s->path, "cannot open the cache");
        s->known = (stk__cache_file_id){0};
        s->published = -1;
        return STK_OK;
    }
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || !has_magic(fd)) {
        close(fd);
        return about_file(err, s->path,
                          stk_error_set(err, STK_INVALID, "exists and is no cache file; give another name"));
    }
    const stk__cache_file_id id = id_of(&st);
    if (same_file(&id, &s->known)) {
        close(fd);
        return STK_OK;
    }
    s->known = id;
    if (!take_in_locked(s, fd, st.st_size, budget, charged)) {
        close(fd);
        s->published = -1;
        *out_unfit = true;
    }
    return STK_OK;
}

bool stk__cache_read(const stk__cache_store *s, const stk__cache_place *place, void *out)
{
    return stk__pread_full(s->fds[place->file], out, (size_t)place->size, place->offset, s->path, NULL) == STK_OK &&
           (uint32_t)XXH3_64bits(out, (size_t)place->size) == place->check;
}

/* ---- writing ---- */

stk_status stk__cache_temp_locked(stk__cache_store *s, stk_error *err)
{
    static const char header[HEADER_BYTES] = MAGIC;
    if (s->temp.stream)
        return STK_OK;
    if (s->fd_count == STK__CACHE_FILES)
        return about_file(err, s->path, stk_error_set(err, STK_IO, "was replaced too often during this run"));
    STK_TRY(stk__make_parents(s->path, err));
    STK_TRY(stk__new_file_open(&s->temp, s->path, err));
    stk_status status = write_all(fileno(s->temp.stream), header, sizeof header, 0, s->path, err);
    /* It outlives the stream, which publishing closes. */
    const int fd = status == STK_OK ? fcntl(fileno(s->temp.stream), F_DUPFD_CLOEXEC, 3) : -1;
    if (status == STK_OK && fd < 0)
        status = file_problem(err, s->path, "cannot create the cache");
    if (status != STK_OK) {
        stk__new_file_abort(&s->temp);
        return status;
    }
    s->end = HEADER_BYTES;
    s->temp_number = (uint8_t)s->fd_count;
    s->fds[s->fd_count++] = fd;
    return STK_OK;
}

/* The bytes of a sample behind all that is there. */
static stk_status append_bytes_locked(stk__cache_store *s, const void *data, size_t size, stk_error *err)
{
    STK_TRY(write_all(fileno(s->temp.stream), data, size, s->end, s->path, err));
    s->end += (int64_t)size;
    return STK_OK;
}

stk_status stk__cache_append_locked(stk__cache_store *s, stk__cache_entry *e, const void *data, size_t size,
                                    int32_t dropped_at, stk_error *err)
{
    const stk__cache_place place = {.offset = s->end,
                                    .size = (int64_t)size,
                                    .dropped_at = dropped_at,
                                    .check = (uint32_t)XXH3_64bits(data, size),
                                    .file = s->temp_number};
    const bool mends = atomic_load(&e->state) == STK__CACHE_BAD;
    stk__cache_place *mended = mends ? stk__alloc(sizeof *mended) : NULL;
    if (mends && !mended)
        return STK_OK; /* it stays bad, and is made again each time */
    const stk_status status = append_bytes_locked(s, data, size, err);
    if (status != STK_OK) {
        stk__free(mended);
        return status;
    }
    if (mends) {
        *mended = place;
        atomic_store(&e->mended, mended);
        s->mended++;
    } else {
        e->place = place;
    }
    atomic_store_explicit(&e->state, mends ? STK__CACHE_MENDED : STK__CACHE_STORED, memory_order_release);
    atomic_fetch_add(&s->stored, 1);
    return STK_OK;
}

/* ---- publishing ---- */

/* A walk over the samples that can be had, in order; the lock keeps them as they are. */
typedef struct walk {
    const stk__cache_store *store;
    size_t page;
    int at;
} walk;

static stk__cache_entry *next_entry(walk *w, int64_t *out_index, stk__cache_place *out)
{
    for (; w->page < atomic_load(&w->store->page_end); w->page++, w->at = 0) {
        stk__cache_entry *entries = atomic_load(&w->store->pages[w->page]);
        while (entries && w->at < STK__CACHE_PAGE_ENTRIES) {
            stk__cache_entry *e = &entries[w->at++];
            if (!stk__cache_place_of(e, out))
                continue;
            *out_index = (int64_t)w->page * STK__CACHE_PAGE_ENTRIES + w->at - 1;
            return e;
        }
    }
    return NULL;
}

/* One sample from another file into the new one, in pieces; *out_good: its check held. */
static stk_status copy_sample_locked(stk__cache_store *s, const stk__cache_place *place, char *buffer,
                                     XXH3_state_t *hash, bool *out_good, stk_error *err)
{
    int64_t done = 0;
    XXH3_64bits_reset(hash);
    while (done < place->size) {
        const size_t n = (size_t)STK_MIN(place->size - done, (int64_t)COPY_BYTES);
        if (stk__pread_full(s->fds[place->file], buffer, n, place->offset + done, s->path, NULL) != STK_OK)
            break;
        XXH3_64bits_update(hash, buffer, n);
        STK_TRY(write_all(fileno(s->temp.stream), buffer, n, s->end + done, s->path, err));
        done += (int64_t)n;
    }
    *out_good = done == place->size && (uint32_t)XXH3_64bits_digest(hash) == place->check;
    return STK_OK;
}

/*
 * Copies what lies in other files, so that the new one is whole by itself. Samples whose check fails are left out, and made again
 * by whoever wants them. The order is that of next_entry, so that offsets can be counted again by write_entries.
 */
static stk_status copy_others_locked(stk__cache_store *s, stk_error *err)
{
    char *buffer = stk__alloc(COPY_BYTES);
    XXH3_state_t *hash = XXH3_createState();
    stk_status status = buffer && hash ? STK_OK : stk__nomem(COPY_BYTES, err);
    walk w = {.store = s};
    stk__cache_place place;
    int64_t index;
    for (stk__cache_entry *e; status == STK_OK && (e = next_entry(&w, &index, &place));) {
        bool good = true;
        if (place.file == s->temp_number)
            continue;
        status = copy_sample_locked(s, &place, buffer, hash, &good, err);
        if (good)
            s->end += place.size;
        else if (status == STK_OK)
            stk__cache_spoil_locked(s, e);
    }
    XXH3_freeState(hash);
    stk__free(buffer);
    return status;
}

/* The entries, in blocks; `copied_at`: where copies begin. Hashes them on the way. */
static stk_status write_entries_locked(stk__cache_store *s, int64_t copied_at, XXH3_state_t *hash, stk_error *err)
{
    file_entry *block = stk__alloc(BLOCK_ENTRIES * sizeof *block);
    if (!block)
        return stk__nomem(BLOCK_ENTRIES * sizeof *block, err);
    walk w = {.store = s};
    stk__cache_place place;
    int64_t index, at = s->end;
    size_t n = 0;
    stk_status status = STK_OK;
    for (bool more = true; more && status == STK_OK;) {
        more = next_entry(&w, &index, &place) != NULL;
        if (more) {
            const bool copied = place.file != s->temp_number;
            block[n++] =
                (file_entry){index, copied ? copied_at : place.offset, place.size, place.dropped_at, place.check};
            copied_at += copied ? place.size : 0;
        }
        if (n < BLOCK_ENTRIES && more)
            continue;
        XXH3_64bits_update(hash, block, n * sizeof *block);
        status = write_all(fileno(s->temp.stream), block, n * sizeof *block, at, s->path, err);
        at += (int64_t)(n * sizeof *block);
        n = 0;
    }
    stk__free(block);
    return status;
}

static stk_status write_end_locked(stk__cache_store *s, int64_t copied_at, stk_error *err)
{
    file_footer f = {.magic = MAGIC,
                     .version = VERSION,
                     .fingerprint = s->fingerprint,
                     .entries_at = s->end,
                     .entry_count = atomic_load(&s->stored)};
    XXH3_state_t *hash = XXH3_createState();
    if (!hash)
        return stk__nomem(sizeof f, err);
    XXH3_64bits_reset_withSeed(hash, footer_seed(&f));
    stk_status status = write_entries_locked(s, copied_at, hash, err);
    f.check = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    const int64_t at = s->end + f.entry_count * (int64_t)sizeof(file_entry);
    if (status == STK_OK)
        status = write_all(fileno(s->temp.stream), &f, sizeof f, at, s->path, err);
    return status;
}

stk_status stk__cache_publish_locked(stk__cache_store *s, stk_error *err)
{
    STK_TRY(stk__cache_temp_locked(s, err));
    const int64_t samples_end = s->end;
    stk_status status = copy_others_locked(s, err);
    if (status == STK_OK)
        status = write_end_locked(s, samples_end, err);
    if (status != STK_OK) {
        s->end = samples_end; /* more samples go over what was written */
        return status;
    }
    struct stat st;
    const bool known = fstat(s->fds[s->temp_number], &st) == 0;
    STK_TRY(stk__new_file_commit(&s->temp, err));
    s->known = known ? id_of(&st) : (stk__cache_file_id){0};
    s->published = atomic_load(&s->stored);
    s->mended = 0;
    return STK_OK;
}

void stk__cache_seal(void *bytes, size_t size, uint64_t fingerprint)
{
    char *data = bytes;
    file_footer f;
    if (size < HEADER_BYTES + sizeof f)
        return;
    memcpy(data, MAGIC, 8);
    memcpy(&f, data + size - sizeof f, sizeof f);
    memcpy(f.magic, MAGIC, 8);
    const size_t room = (size - HEADER_BYTES - sizeof f) / sizeof(file_entry);
    f.version = VERSION;
    f.fingerprint = fingerprint;
    f.entry_count = (int64_t)((uint64_t)f.entry_count % (room + 1));
    f.entries_at = (int64_t)(size - sizeof f - (size_t)f.entry_count * sizeof(file_entry));
    char *at = data + f.entries_at;
    for (int64_t i = 0; i < f.entry_count; i++) {
        file_entry e;
        memcpy(&e, at + (size_t)i * sizeof e, sizeof e);
        if (e.size >= 0 && e.offset >= 0 && e.size <= f.entries_at && e.offset <= f.entries_at - e.size)
            e.check = (uint32_t)XXH3_64bits(data + e.offset, (size_t)e.size);
        memcpy(at + (size_t)i * sizeof e, &e, sizeof e);
    }
    f.check = XXH3_64bits_withSeed(at, (size_t)f.entry_count * sizeof(file_entry), footer_seed(&f));
    memcpy(data + size - sizeof f, &f, sizeof f);
}
