/* Decoded chunks that workers share, inside a limit of bytes. */
#ifndef STK_OPS_CHUNK_CACHE_H
#define STK_OPS_CHUNK_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

typedef struct stk__chunk_key {
    int32_t file;
    int32_t dataset;
    uint64_t number;
} stk__chunk_key;

/* A chunk in memory. Who holds it may read it; who was told to fill it writes it until it is published. */
typedef struct stk__chunk {
    stk__chunk_key key;
    uint8_t *data; /* as many bytes as were asked for; NULL: it failed before */
    bool plain;    /* nothing is left to be undone */
    uint8_t *heap; /* what its values of variable length point into; freed with it */
    size_t heap_bytes;
    const stk_error *error; /* why there is no data; NULL: there is. Freed with it, unless it is stk__chunk_nomem */

    /* guarded by the cache's lock */
    size_t bytes;
    int64_t left; /* rows that nobody took yet; 0: it will hardly be asked for again */
    int holders;
    bool ready;
    struct stk__chunk *chain;         /* of the same hash */
    struct stk__chunk *newer, *older; /* by last use; only those that nobody holds */
} stk__chunk;

typedef struct stk__chunk_cache stk__chunk_cache;

/* Stands for an error that there was no memory to keep. */
extern const stk_error stk__chunk_nomem;
void stk__chunk_error_free(const stk_error *error);

/*
 * Nothing is allocated before it is needed. One chunk is always let in, however large. `keep`: all there is fits into
 * the limit, so that what was used up stays for the next epoch; else its memory is the first to be used again.
 */
stk_status stk__chunk_cache_new(size_t limit_bytes, bool keep, stk__chunk_cache **out, stk_error *err);
void stk__chunk_cache_free(stk__chunk_cache *c);
/* What one of that limit takes at most: chunks, and why others could not be decoded. */
size_t stk__chunk_cache_memory(size_t limit_bytes);

typedef enum stk__chunk_state {
    STK__CHUNK_READY, /* held, to be read */
    STK__CHUNK_MINE,  /* held, to be filled by the caller and then published */
    STK__CHUNK_BUSY,  /* somebody else is filling it */
    STK__CHUNK_FULL   /* there is no room now: those that are held take all of it */
} stk__chunk_state;

/* What the caller wants of a chunk that is not there. */
typedef struct stk__chunk_wish {
    stk__chunk_key key;
    size_t bytes;
    int64_t rows; /* that it holds; for `left` */
    bool gently;  /* only if nothing has to go for it that may be asked for again */
} stk__chunk_wish;

/*
 * READY and MINE need a release. NULL in *out otherwise. NOMEM shows as FULL when others hold memory, else as an
 * error.
 */
stk_status stk__chunk_cache_get(stk__chunk_cache *c, const stk__chunk_wish *wish, stk__chunk_state *out_state,
                                stk__chunk **out, stk_error *err);
/*
 * The caller filled it: data, or an error that is the cache's from now on. An error that will not be another next time is
 * remembered: the chunk is READY with it, and its memory is given back.
 */
void stk__chunk_cache_publish(stk__chunk_cache *c, stk__chunk *chunk);
/* `rows` of it were taken. */
void stk__chunk_cache_release(stk__chunk_cache *c, stk__chunk *chunk, int64_t rows);
/* Returns when something was published or released since `seen` (from the last call; 0 at first). */
uint64_t stk__chunk_cache_wait(stk__chunk_cache *c, uint64_t seen);
/* A number that moves with every publish and release: taken before `get`, it makes sure that `wait` misses nothing. */
uint64_t stk__chunk_cache_moves(stk__chunk_cache *c);

/* Whether it is there, or on its way. */
bool stk__chunk_cache_has(stk__chunk_cache *c, const stk__chunk_key *key);

/* How often a chunk was there, and how often it had to be filled. */
void stk__chunk_cache_stats(stk__chunk_cache *c, int64_t *out_hits, int64_t *out_fills);

#endif
