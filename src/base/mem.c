/* Counted allocation with fault injection. */
#define _GNU_SOURCE
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* From here on memory has pages of its own. A mapping costs microseconds and a fault for each page; such sizes are few. */
#define PAGES_LEAST ((size_t)1 << 20)
#if defined(__SANITIZE_ADDRESS__)
#define PAGES 0 /* who writes past the end is to be found */
#else
#define PAGES 1
#endif

static atomic_uint_fast64_t alloc_count;
static atomic_uint_fast64_t failures;
static atomic_uint_fast64_t fail_at; /* 0: never */
static atomic_bool fail_sticky;

static bool must_fail(void)
{
    const uint64_t n = atomic_fetch_add_explicit(&alloc_count, 1, memory_order_relaxed) + 1;
    const uint64_t at = atomic_load_explicit(&fail_at, memory_order_relaxed);
    if (STK_LIKELY(at == 0))
        return false;
    return n == at || (n > at && atomic_load(&fail_sticky));
}

uint64_t stk__alloc_count(void)
{
    return atomic_load(&alloc_count);
}

void stk__alloc_fail_at(uint64_t n, bool sticky)
{
    atomic_store(&fail_sticky, sticky);
    atomic_store(&fail_at, n ? atomic_load(&alloc_count) + n : 0);
}

uint64_t stk__alloc_failures(void)
{
    return atomic_load(&failures);
}

stk_status stk__alloc_check(uint64_t before, stk_error *err)
{
    if (atomic_load(&failures) == before)
        return STK_OK;
    return stk_error_set(err, STK_NOMEM, "out of memory on the way");
}

static void *counted(void *p)
{
    if (STK_UNLIKELY(!p))
        atomic_fetch_add(&failures, 1);
    return p;
}

void *stk__alloc(size_t size)
{
    return counted(must_fail() ? NULL : malloc(size ? size : 1));
}

void *stk__calloc(size_t count, size_t size)
{
    return counted(must_fail() ? NULL : calloc(count ? count : 1, size ? size : 1));
}

void *stk__realloc(void *p, size_t size)
{
    return counted(must_fail() ? NULL : realloc(p, size ? size : 1));
}

void *stk__alloc_aligned(size_t size)
{
    if (size > SIZE_MAX - 64 || must_fail())
        return counted(NULL);
    return counted(aligned_alloc(64, size ? (size + 63) & ~(size_t)63 : 64));
}

void stk__free(void *p)
{
    free(p);
}

void *stk__pages_alloc(size_t size)
{
    if (!PAGES || size < PAGES_LEAST)
        return stk__alloc_aligned(size);
    if (size > SIZE_MAX / 2 || must_fail())
        return NULL;
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void stk__pages_free(void *p, size_t size)
{
    if (!PAGES || size < PAGES_LEAST)
        free(p);
    else if (p)
        munmap(p, size);
}

char *stk__strndup(const char *s, size_t n)
{
    char *copy = stk__alloc(n + 1);
    if (copy) {
        memcpy(copy, s, n);
        copy[n] = 0;
    }
    return copy;
}

char *stk__strdup(const char *s)
{
    return stk__strndup(s, strlen(s));
}

stk_status stk__nomem(size_t size, stk_error *err)
{
    return stk_error_set(err, STK_NOMEM, "out of memory: could not allocate %zu bytes", size);
}

bool stk__grow(void **items, size_t *capacity, size_t want, size_t item_size)
{
    if (want <= *capacity)
        return true;
    size_t next = *capacity ? *capacity : 8;
    while (next < want) {
        if (next > SIZE_MAX / 2)
            return false;
        next *= 2;
    }
    if (next > SIZE_MAX / item_size)
        return false;
    void *p = stk__realloc(*items, next * item_size);
    if (!p)
        return false;
    *items = p;
    *capacity = next;
    return true;
}
