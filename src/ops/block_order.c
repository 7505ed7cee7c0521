/* Windows over blocks: which block a position falls into takes a table for each seed, that is for each epoch. */
#include "ops/block_order.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

/* Batches are made ahead, so that an epoch and the one behind it are at work at a time. */
enum { TABLES = 3 };

/* Where blocks begin in the order of one seed. */
typedef struct table {
    bool made;
    uint64_t seed;
    uint64_t used; /* when it was made, counted; the oldest goes first */
    stk__permutation order;
    int64_t *starts; /* blocks + 1 positions, by place in the order */
} table;

struct stk__block_order {
    int64_t *firsts;
    int64_t blocks, window;
    pthread_rwlock_t lock;
    table tables[TABLES]; /* guarded by lock */
    uint64_t clock;
};

stk_status stk__block_order_new(const int64_t *firsts, int64_t blocks, int64_t window, stk__block_order **out,
                                stk_error *err)
{
    const size_t bytes = ((size_t)blocks + 1) * sizeof(int64_t);
    stk__block_order *o = stk__calloc(1, sizeof *o);
    if (!o)
        return stk__nomem(sizeof *o, err);
    o->blocks = blocks;
    o->window = window;
    pthread_rwlock_init(&o->lock, NULL);
    bool ok = (o->firsts = stk__alloc(bytes)) != NULL;
    for (int i = 0; i < TABLES; i++)
        ok = (o->tables[i].starts = stk__alloc(bytes)) != NULL && ok;
    if (!ok) {
        stk__block_order_free(o);
        return stk__nomem(bytes * (TABLES + 1), err);
    }
    memcpy(o->firsts, firsts, bytes);
    *out = o;
    return STK_OK;
}

void stk__block_order_free(stk__block_order *o)
{
    if (!o)
        return;
    for (int i = 0; i < TABLES; i++)
        stk__free(o->tables[i].starts);
    stk__free(o->firsts);
    pthread_rwlock_destroy(&o->lock);
    stk__free(o);
}

int64_t stk__block_order_memory(const stk__block_order *o)
{
    return (o->blocks + 1) * (int64_t)sizeof(int64_t) * (TABLES + 1) + (int64_t)sizeof *o;
}

static const table *find_table(const stk__block_order *o, uint64_t seed)
{
    for (int i = 0; i < TABLES; i++)
        if (o->tables[i].made && o->tables[i].seed == seed)
            return &o->tables[i];
    return NULL;
}

static void make_table(stk__block_order *o, uint64_t seed)
{
    table *t = &o->tables[0];
    for (int i = 1; i < TABLES; i++)
        if (o->tables[i].used < t->used)
            t = &o->tables[i];
    t->made = true;
    t->seed = seed;
    t->used = ++o->clock;
    stk__permutation_init(&t->order, (uint64_t)o->blocks, stk__mix(seed, 1));
    int64_t at = 0;
    for (int64_t k = 0; k < o->blocks; k++) {
        const uint64_t block = stk__permute(&t->order, (uint64_t)k);
        t->starts[k] = at;
        at += o->firsts[block + 1] - o->firsts[block];
    }
    t->starts[o->blocks] = at;
}

/* The last place in [low, high] that is a multiple of `step` from low and starts at or before `position`. */
static int64_t find_place(const table *t, int64_t low, int64_t high, int64_t step, int64_t position)
{
    int64_t count = (high - low) / step + 1;
    while (count > 1) {
        const int64_t half = count / 2;
        if (t->starts[low + half * step] <= position)
            low += half * step;
        count -= half;
    }
    return low;
}

static int64_t map_in(const stk__block_order *o, const table *t, int64_t position)
{
    const int64_t from = find_place(t, 0, o->blocks - 1, o->window, position);
    const int64_t to = STK_MIN(from + o->window, o->blocks);
    stk__permutation rows;
    stk__permutation_init(&rows, (uint64_t)(t->starts[to] - t->starts[from]), stk__mix(t->seed, 2 + (uint64_t)from));
    const int64_t mixed = t->starts[from] + (int64_t)stk__permute(&rows, (uint64_t)(position - t->starts[from]));
    const int64_t place = find_place(t, from, to - 1, 1, mixed);
    const uint64_t block = stk__permute(&t->order, (uint64_t)place);
    return o->firsts[block] + (mixed - t->starts[place]);
}

int64_t stk__block_order_map(stk__block_order *o, uint64_t seed, int64_t position)
{
    pthread_rwlock_rdlock(&o->lock);
    const table *t = find_table(o, seed);
    if (!t) {
        pthread_rwlock_unlock(&o->lock);
        pthread_rwlock_wrlock(&o->lock);
        if (!find_table(o, seed))
            make_table(o, seed);
        t = find_table(o, seed);
    }
    const int64_t index = map_in(o, t, position);
    pthread_rwlock_unlock(&o->lock);
    return index;
}
