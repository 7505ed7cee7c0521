/* What python_map and its processes share: the op's state, and one sample taken through the function. */
#ifndef STKPY_OP_PYTHON_MAP_H
#define STKPY_OP_PYTHON_MAP_H

#include "op_python.h"
#include "pool.h"

#include "compat.h"

typedef struct stkpy_map {
    stkpy_owner owner; /* first: it is cast to the whole */
    int64_t index;
    const char *name;
    stk_args outputs;

    /* set by schema, then const; references are given up by close */
    stkpy_kept *kept;
    stkpy_tools tools;
    PyObject *function;
    /* () -> (Generator, its bit generator, the state to set, array of the key in that); NULL: it wants none */
    PyObject *make_random;
    stkpy_field *in, *out;
    size_t in_count, out_count;
    stkpy_pool *pool; /* processes that call it; NULL: the worker itself does */
} stkpy_map;

typedef struct stkpy_map_worker {
    stkpy_tile tile;
    /* made when the first sample comes */
    PyObject *generator, *bits, *start;
    Py_buffer key; /* of `start`; obj NULL: not made yet */
} stkpy_map_worker;

/* With the GIL: one sample through the function. Asks the host of the call for nothing but memory and random numbers. */
stk_status stkpy_map_one(const stk_call *call, stk_sample *sample, stk_error *err);

/* op_python_remote.c: the samples of a tile through a process of the pool. Without the GIL. */
stk_status stkpy_map_remote(const stk_call *call, stk_sample *const *samples, size_t n, stk_error *err);

/* op_python_child.c: the life of a process of the pool. With the GIL; does not return. */
_Noreturn void stkpy_map_child(const stkpy_map *s, const stkpy_channel *channel);

#endif
