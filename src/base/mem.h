/* The one allocator: counted, and made to fail on demand by tests. */
#ifndef STK_BASE_MEM_H
#define STK_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* NULL when memory is out, when a size overflows, or when a test asked for it. Thread-safe. Size 0 gives a valid pointer. */
void *stk__alloc(size_t size);
void *stk__calloc(size_t count, size_t size);
void *stk__realloc(void *p, size_t size);
/* Aligned to 64 bytes; size is rounded up. Free with stk__free. */
void *stk__alloc_aligned(size_t size);
/* Freeing NULL is fine. */
void stk__free(void *p);

/*
 * The same for memory whose size is known when it is freed. Much of it has pages of its own, which go back to the system at once:
 * a heap keeps what is freed, in each thread's arena, and the process stays as large.
 */
void *stk__pages_alloc(size_t size);
void stk__pages_free(void *p, size_t size);

char *stk__strdup(const char *s);
char *stk__strndup(const char *s, size_t n);

/* Sets NOMEM with the size that was wanted. */
stk_status stk__nomem(size_t size, stk_error *err);

/* Grows *items (of item_size) so that it holds at least `want`; doubles. Returns false when out of memory. */
bool stk__grow(void **items, size_t *capacity, size_t want, size_t item_size);

/* Number of allocations ever made by this process; the zero-allocation test watches it. */
uint64_t stk__alloc_count(void);
/* Number of those that failed: what was made since may lack something, even where nobody looked. */
uint64_t stk__alloc_failures(void);
/* NOMEM when there are more of them than `before`, else OK: for what is made of many small texts, and must be whole. */
stk_status stk__alloc_check(uint64_t before, stk_error *err);
/* The n-th allocation from now fails (1: the next one), and all after it when `sticky`; 0 switches it off. Tests only. */
void stk__alloc_fail_at(uint64_t n, bool sticky);

#endif
