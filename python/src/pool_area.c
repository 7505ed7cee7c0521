/* Memory that this process and a child share: a file in memory, without a name, that grows. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create, mremap, seals */
#endif
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool.h"

enum { ALIGN = 64, LEAST = 64 * 1024 };

bool stkpy_area_open(stkpy_area *area)
{
    *area = (stkpy_area){.fd = memfd_create("stoker", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    /* Memory that is mapped must stay there: to touch what was cut off would end the process. */
    return area->fd >= 0 && fcntl(area->fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0;
}

void stkpy_area_close(stkpy_area *area)
{
    if (area->base)
        munmap(area->base, area->size);
    if (area->fd >= 0)
        close(area->fd);
    *area = (stkpy_area){.fd = -1};
}

/* Maps `size` bytes of the file, which has them. */
static bool map(stkpy_area *area, size_t size)
{
    void *base = area->base ? mremap(area->base, area->size, size, MREMAP_MAYMOVE)
                            : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, area->fd, 0);
    if (base == MAP_FAILED)
        return false;
    /* Children map what is theirs; what they only inherit would be kept alive by them. */
    madvise(base, size, MADV_DONTFORK);
    area->base = base;
    area->size = size;
    return true;
}

static bool grow(stkpy_area *area, size_t need)
{
    size_t size = area->size ? area->size : LEAST;
    while (size < need && !__builtin_mul_overflow(size, 2, &size))
        continue;
    if (size < need || (uint64_t)size > INT64_MAX)
        return false;
    return ftruncate(area->fd, (off_t)size) == 0 && map(area, size);
}

void *stkpy_area_take(stkpy_area *area, size_t bytes, uint64_t *out_offset)
{
    size_t end;
    const size_t begin = (area->used + ALIGN - 1) / ALIGN * ALIGN;
    if (__builtin_add_overflow(begin, bytes, &end) || ((end > area->size || !area->base) && !grow(area, end)))
        return NULL;
    area->used = end;
    *out_offset = begin;
    return area->base + begin;
}

bool stkpy_area_follow(stkpy_area *area, uint64_t used)
{
    struct stat now;
    area->used = used;
    if (area->base && used <= area->size)
        return true;
    return fstat(area->fd, &now) == 0 && now.st_size > 0 && used <= (uint64_t)now.st_size &&
           map(area, (size_t)now.st_size);
}

void *stkpy_area_at(const stkpy_area *area, uint64_t offset, uint64_t bytes)
{
    uint64_t end;
    if (__builtin_add_overflow(offset, bytes, &end) || end > area->used)
        return NULL;
    return area->base + offset;
}
