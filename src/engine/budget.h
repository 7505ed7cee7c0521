/* The byte budget: every buffer of a run is charged to it. */
#ifndef STK_ENGINE_BUDGET_H
#define STK_ENGINE_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

typedef struct stk__budget {
    int64_t limit; /* set before start, then const */
    const char *name; /* of the option that sets it, for messages */
    struct stk__chunk_pool *pool; /* gives up its spare chunks when memory is short; NULL: none */
    _Atomic int64_t used, peak;
    _Atomic int64_t refused; /* the size that was asked for last and not given, for messages */
    _Atomic int64_t spare; /* of what is used: given back as soon as anybody needs it */
} stk__budget;

/* False, charging nothing, when it would pass the limit. */
bool stk__budget_charge(stk__budget *budget, size_t size);
void stk__budget_return(stk__budget *budget, size_t size);
/* The same with an error, after spare chunks were given up. */
stk_status stk__budget_take(stk__budget *budget, size_t size, stk_error *err);
/* Whether `size` more bytes would leave a quarter of the limit free for work that is already under way. */
bool stk__budget_has_room(const stk__budget *budget, size_t size);
/* "buffers need N more ..., --memory M would do" */
stk_status stk__budget_error(stk__budget *budget, size_t size, stk_error *err);
/* "--memory 300M", of a budget that has room for `size` bytes in all. */
void stk__budget_option(const stk__budget *budget, uint64_t size, char *out, size_t out_size);

/* Charged allocation; `size` must be given back to free. */
void *stk__budget_alloc(stk__budget *budget, size_t size, stk_error *err);
void stk__budget_free(stk__budget *budget, void *p, size_t size);

/* Where memory comes from that the program wants to give itself, pinned say. 64-byte aligned. */
typedef struct stk__allocator {
    void *(*alloc)(void *arg, size_t size);
    void (*free)(void *arg, void *p, size_t size);
    void *arg;
} stk__allocator;

/* A buffer that grows and keeps its memory. */
typedef struct stk__buffer {
    char *data;
    size_t size, capacity;
    const stk__allocator *from; /* NULL: the usual one */
} stk__buffer;

/* Makes room for `extra` more bytes behind `size`. */
stk_status stk__buffer_reserve(stk__buffer *b, stk__budget *budget, size_t extra, stk_error *err);
void stk__buffer_clear(stk__buffer *b, stk__budget *budget);

/*
 * Chunks of bump-allocated memory. A chunk is shared by reference: whoever holds views on it holds a reference.
 */
typedef struct stk__chunk {
    struct stk__chunk *next; /* in its arena or in the pool */
    _Atomic int32_t refs;
    size_t capacity, used;
    _Alignas(64) char data[];
} stk__chunk;

/* Spare chunks of the usual size, kept for reuse. Thread-safe. */
typedef struct stk__chunk_pool stk__chunk_pool;
stk__chunk_pool *stk__chunk_pool_new(stk__budget *budget);
void stk__chunk_pool_free(stk__chunk_pool *pool);
void stk__chunk_unref(stk__chunk_pool *pool, stk__chunk *chunk);
/* Frees the spare ones; true when there were any. */
bool stk__chunk_pool_trim(stk__chunk_pool *pool);

/* A place in an arena, to go back to. */
typedef struct stk__arena_mark {
    stk__chunk *head;
    size_t used, bytes;
} stk__arena_mark;

/* An arena holds one reference to each of its chunks. One thread at a time. */
typedef struct stk__arena {
    stk__chunk *head; /* the one being filled */
    size_t bytes;     /* handed out since the last reset */
} stk__arena;

/* 16-byte aligned. */
void *stk__arena_alloc(stk__arena *arena, stk__chunk_pool *pool, size_t size, stk_error *err);
stk__arena_mark stk__arena_here(const stk__arena *arena);
/* Gives back what was allocated since; nobody else may have a view on it. */
void stk__arena_rewind(stk__arena *arena, stk__chunk_pool *pool, stk__arena_mark mark);
/* Gives all chunks back. */
void stk__arena_release(stk__arena *arena, stk__chunk_pool *pool);
/* Empties it for reuse by the same owner; keeps the first chunk when nobody else refers to it. */
void stk__arena_reset(stk__arena *arena, stk__chunk_pool *pool);

#endif
