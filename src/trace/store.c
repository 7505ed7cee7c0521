/* Growth of columns from heap to pages to temporary files, and their release. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "trace/store.h"

#include "base/banned.h"

/* Below it the heap serves, which is cheaper for small traces; above it growing moves page tables, not bytes. */
enum { PAGES_FROM = 1 << 20, FILE_FROM = 1 << 16 };

stk__store *stk__store_new(uint64_t cap_bytes, const char *temp_dir)
{
    stk__store *s = stk__calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->cap_bytes = cap_bytes;
    s->temp_dir = stk__strdup(temp_dir ? temp_dir : "/var/tmp");
    if (!s->temp_dir) {
        stk__free(s);
        return NULL;
    }
    return s;
}

void stk__column_clear(stk__store *s, stk__column *c)
{
    switch (c->place) {
    case STK__IN_HEAP:
        s->memory_bytes -= c->capacity;
        stk__free(c->data);
        break;
    case STK__IN_PAGES:
        s->memory_bytes -= c->capacity;
        munmap(c->data, c->capacity);
        break;
    case STK__IN_FILE:
        s->file_bytes -= c->capacity;
        munmap(c->data, c->capacity);
        close(c->fd);
        break;
    case STK__IN_CACHE:
        break;
    }
    *c = (stk__column){0};
}

void stk__store_free(stk__store *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < STK__STORE_COLUMNS; i++)
        stk__column_clear(s, &s->columns[i]);
    if (s->cache)
        munmap(s->cache, s->cache_bytes);
    stk__free(s->temp_dir);
    stk__free(s);
}

static bool grow_heap(stk__store *s, stk__column *c, size_t capacity)
{
    void *data = stk__realloc(c->data, capacity);
    if (!data) {
        stk__nomem(capacity, &s->error);
        return false;
    }
    s->memory_bytes += capacity - c->capacity;
    *c = (stk__column){data, capacity, STK__IN_HEAP, 0};
    return true;
}

static bool grow_pages(stk__store *s, stk__column *c, size_t capacity)
{
    void *data;
    if (c->place == STK__IN_PAGES)
        data = mremap(c->data, c->capacity, capacity, MREMAP_MAYMOVE);
    else
        data = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) {
        stk__nomem(capacity, &s->error);
        return false;
    }
    if (c->place == STK__IN_HEAP) {
        if (c->capacity)
            memcpy(data, c->data, c->capacity);
        stk__free(c->data);
    }
    s->memory_bytes += capacity - c->capacity;
    *c = (stk__column){data, capacity, STK__IN_PAGES, 0};
    return true;
}

static int open_temp(stk__store *s)
{
    const int fd = open(s->temp_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    /* not every file system has files without a name */
    stk__text path = STK__TEXT_INIT;
    stk__text_printf(&path, "%s/stoker-XXXXXX", s->temp_dir);
    const int named = path.failed ? -1 : mkostemp(path.data, O_CLOEXEC);
    if (named >= 0)
        unlink(path.data);
    stk__text_clear(&path);
    return named;
}

static bool file_failed(stk__store *s, const char *what)
{
    stk_error_clear(&s->error);
    stk_error_set(&s->error, STK_IO, "temporary file for columns past the memory cap: %s: %s", what, strerror(errno));
    snprintf(s->error.file, sizeof s->error.file, "%s", s->temp_dir);
    return false;
}

/* The blocks are claimed at once: a full disk must be an error here, not a signal at a later store. */
static bool set_file_size(stk__store *s, int fd, size_t from, size_t capacity)
{
    const int failed = posix_fallocate(fd, (off_t)from, (off_t)(capacity - from));
    if (!failed)
        return true;
    errno = failed;
    return file_failed(s, "cannot make room");
}

static bool move_to_file(stk__store *s, stk__column *c, size_t capacity)
{
    const int fd = open_temp(s);
    if (fd < 0)
        return file_failed(s, "cannot create");
    void *data = MAP_FAILED;
    if (set_file_size(s, fd, 0, capacity)) {
        data = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED)
            file_failed(s, "cannot map");
    }
    if (data == MAP_FAILED) {
        close(fd);
        return false;
    }
    if (c->capacity)
        memcpy(data, c->data, c->capacity);
    stk__column_clear(s, c);
    *c = (stk__column){data, capacity, STK__IN_FILE, fd};
    s->file_bytes += capacity;
    return true;
}

static bool grow_file(stk__store *s, stk__column *c, size_t capacity)
{
    if (!set_file_size(s, c->fd, c->capacity, capacity))
        return false;
    void *data = mremap(c->data, c->capacity, capacity, MREMAP_MAYMOVE);
    if (data == MAP_FAILED)
        return file_failed(s, "cannot map");
    s->file_bytes += capacity - c->capacity;
    c->data = data;
    c->capacity = capacity;
    return true;
}

/* Doubling costs nothing in untouched pages; files grow by halves, since their blocks are claimed. */
static size_t next_capacity(const stk__column *c, size_t want)
{
    size_t capacity = c->place == STK__IN_FILE ? c->capacity + c->capacity / 2 : c->capacity * 2;
    if (capacity < want)
        capacity = want;
    if (capacity < 4096)
        capacity = 4096;
    return (capacity + 4095) & ~(size_t)4095;
}

bool stk__column_grow(stk__store *s, stk__column *c, size_t want)
{
    if (want <= c->capacity)
        return true;
    if (want > SIZE_MAX / 4) {
        stk__nomem(want, &s->error);
        return false;
    }
    const size_t capacity = next_capacity(c, want);
    if (c->place == STK__IN_FILE)
        return grow_file(s, c, capacity);
    const bool past_cap = s->cap_bytes && s->memory_bytes - c->capacity + capacity > s->cap_bytes;
    if (past_cap && capacity >= FILE_FROM)
        return move_to_file(s, c, capacity);
    return capacity < PAGES_FROM ? grow_heap(s, c, capacity) : grow_pages(s, c, capacity);
}

void stk__column_trim(const stk__column *c)
{
    if (c->place == STK__IN_FILE)
        madvise(c->data, c->capacity, MADV_DONTNEED); /* a shared mapping: the bytes stay in the file */
}

void stk__store_trim(stk__store *s)
{
    for (size_t i = 0; i < STK__STORE_COLUMNS && s->file_bytes; i++)
        stk__column_trim(&s->columns[i]);
    if (s->cache && s->cap_bytes && !s->will_change)
        madvise(s->cache, s->cache_bytes, MADV_DONTNEED);
}
