/*
 * Processes that call a function: how they are started, lent to workers, and ended; and the memory that each shares with
 * this process. What is in that memory is the matter of op_python_remote.c and op_python_child.c.
 */
#ifndef STKPY_POOL_H
#define STKPY_POOL_H

#include "core.h"

/* ---- pool_area.c: memory that two processes see, which either may make larger ---- */

/* A file without a name. Only one side writes at a time, so who has the turn has all of it. */
typedef struct stkpy_area {
    int fd; /* -1: none */
    char *base;
    size_t size; /* that is mapped here */
    size_t used; /* by what was taken since the last reset */
} stkpy_area;

bool stkpy_area_open(stkpy_area *area);
void stkpy_area_close(stkpy_area *area);
/* So many bytes at a multiple of 64, and where they lie; NULL when there is no memory. Moves what was taken before. */
void *stkpy_area_take(stkpy_area *area, size_t bytes, uint64_t *out_offset);
/* Maps as much as the other side says that it used; false when there is less. */
bool stkpy_area_follow(stkpy_area *area, uint64_t used);
/* What lies there; NULL when it is not inside. */
void *stkpy_area_at(const stkpy_area *area, uint64_t offset, uint64_t bytes);

/* ---- what goes to and fro ---- */

/* One side of the connection between this process and a child. */
typedef struct stkpy_channel {
    int fd; /* a socket that keeps messages apart; -1: none */
    stkpy_area request, answer;
} stkpy_channel;

/* "The request is in its area", "the answer is in its area". */
typedef struct stkpy_post {
    uint64_t count; /* samples */
    uint64_t used;  /* bytes of the area */
} stkpy_post;

/* A value: of STK_BYTES, `offset` leads to a stkpy_wire_bytes for each element. */
typedef struct stkpy_wire_value {
    int64_t elements, shape[STK_MAX_DIMS];
    uint64_t offset;
} stkpy_wire_value;

typedef struct stkpy_wire_bytes {
    uint64_t offset;
    int64_t size;
} stkpy_wire_bytes;

/* A request begins with one of these for each sample; then the values of the first sample, of the second, ... */
typedef struct stkpy_wire_sample {
    uint32_t random[2][4]; /* the sample's random numbers: for the Generator, and for generators of whole libraries */
} stkpy_wire_sample;

/* An answer begins with these in the same way. */
typedef struct stkpy_wire_result {
    uint64_t error;         /* 0: it went well; else the offset of a stk_error, */
    stkpy_wire_bytes cause; /* and the exception, pickled; size 0: there is none */
} stkpy_wire_result;

/* ---- pool.c ---- */

/* A child. Who has taken it has it alone. */
typedef struct stkpy_process {
    atomic_long pid; /* 0: there is none */
    stkpy_channel channel;
    bool owes; /* the answer to a request that nobody waits for any more */
    bool taken;
} stkpy_process;

/* Counted in C: a run and the Pool object have it. */
typedef struct stkpy_pool stkpy_pool;

enum { STKPY_PROCESSES_MOST = 1024 };

/* NULL: no memory. */
stkpy_pool *stkpy_pool_new(int count);
void stkpy_pool_ref(stkpy_pool *pool);
void stkpy_pool_unref(stkpy_pool *pool);
/* The pool inside a Pool object, with a reference; NULL with an exception. */
stkpy_pool *stkpy_pool_of(PyObject *object);

/* Ends the processes. Without the GIL. */
void stkpy_pool_close(stkpy_pool *pool);
/* Whether this process made it, not one that it was forked from. */
bool stkpy_pool_is_ours(const stkpy_pool *pool);
/* Processes that are there, at most STKPY_PROCESSES_MOST. */
size_t stkpy_pool_pids(const stkpy_pool *pool, long *out);

struct stkpy_map;
/* With the GIL: sees to it that all processes are there, for this function. False with an exception. */
bool stkpy_pool_start(stkpy_pool *pool, const struct stkpy_map *map);
/* Bytes that are shared with the processes now, or will be at least: `each` for a request and its answer. */
int64_t stkpy_pool_bytes(stkpy_pool *pool, size_t each);

/* Without the GIL. `stop` may become true at any time, in any thread. */
stkpy_process *stkpy_pool_take(stkpy_pool *pool, const stkpy_kept *stop, stk_error *err);
void stkpy_pool_give(stkpy_pool *pool, stkpy_process *process);
/* Waits for an answer that it owes, before a request is written. */
stk_status stkpy_process_clear(stkpy_pool *pool, stkpy_process *process, const stkpy_kept *stop, stk_error *err);
/* Sends the request that is in its area, and waits for the answer. */
stk_status stkpy_process_ask(stkpy_pool *pool, stkpy_process *process, uint64_t count, const stkpy_kept *stop,
                             stk_error *err);

/* Registers what happens at a fork. */
bool stkpy_pools_init(void);
/* Ends all processes of all pools; at exit. Without the GIL. */
void stkpy_pools_end(void);

#endif
