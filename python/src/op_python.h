/* What the ops that call Python share: the lock, values of fields as Python objects, and exceptions. */
#ifndef STKPY_OP_PYTHON_H
#define STKPY_OP_PYTHON_H

#include "core.h"

/* ---- the lock ---- */

/* Takes the GIL in any thread; false when the interpreter is going away, and nothing of it may be touched. */
bool stkpy_gil_take(PyGILState_STATE *out);
/* The same for workers, which come again and again: what Python makes for a thread stays until it ends. */
bool stkpy_gil_take_often(PyGILState_STATE *out);
void stkpy_gil_give(PyGILState_STATE state);

/* Around calls of functions of a run, with the GIL: see stkpy_inside. Gives what stkpy_leave takes. */
const stkpy_kept *stkpy_enter(const stkpy_kept *kept);
void stkpy_leave(const stkpy_kept *before);

/* With the GIL: the owner holds objects from here on, and does so no more. */
void stkpy_own(stkpy_kept *kept, stkpy_owner *owner);
void stkpy_disown(stkpy_owner *owner);

/* ---- what `schema` finds ---- */

/* Function number `index` of the pipeline being opened in this thread, a new reference; NULL with err set. */
PyObject *stkpy_function(int64_t index, const char *name, stkpy_kept **out_kept, stk_error *err);

/* What stoker._functions lends; made by `schema`, freed by `close`. */
typedef struct stkpy_tools {
    PyObject *empty;    /* numpy.empty */
    PyObject *scalar;   /* (dtype, bytes): a NumPy scalar */
    PyObject *dtype;    /* (name): the numpy.dtype that holds it, and the one to view it as or None */
    PyObject *fit;      /* (value, dtype name, shape, field): an array of just that type */
    PyObject *contents; /* (value, shape, field): (list of bytes, shape) */
} stkpy_tools;

/* A field as it is read or written. */
typedef struct stkpy_field {
    char *text;      /* its name, */
    PyObject *name;  /* as Python has it */
    PyObject *dtype; /* numpy.dtype that holds it; NULL for bytes */
    PyObject *view;  /* numpy.dtype to show it as, where that is another; else NULL */
    PyObject *shape; /* tuple, None where it varies */
    stk_dtype type;
    int ndim, id;
    int64_t dims[STK_MAX_DIMS]; /* -1: varies */
    size_t row_bytes;           /* of a value, when it is fixed */
    bool fixed, wanted;
} stkpy_field;

/* With the GIL. On failure an exception is set, and what was made is left for the clear function. */
int stkpy_tools_make(stkpy_tools *tools);
void stkpy_tools_clear(stkpy_tools *tools);
int stkpy_field_make(stkpy_field *out, const stkpy_tools *tools, const stk_field *field, int id);
void stkpy_field_clear(stkpy_field *field);
void stkpy_fields_free(stkpy_field *fields, size_t count);

/* The type of an argument such as x=float32[3,?]. */
stk_status stkpy_field_read(const stk_host *host, const stk_named_arg *arg, stk_field *out, stk_error *err);

/* ---- values, with the GIL ---- */

/* The value as an object of its own; NULL with an exception. */
PyObject *stkpy_value_get(const stkpy_tools *tools, const stkpy_field *field, const stk_value *value);

typedef enum stkpy_result {
    STKPY_OK,
    STKPY_RAISED, /* an exception is set */
    STKPY_FAILED  /* the engine has no memory: err is set */
} stkpy_result;

/* Writes the object as the sample's value of that field. */
stkpy_result stkpy_value_set(const stkpy_tools *tools, const stk_call *call, stk_sample *sample,
                             const stkpy_field *field, PyObject *object, stk_error *err);

/* What a function that fails does to the run; also one that ends its process. */
#define STKPY_FUNCTION_FAILED STK_INVALID

/* A number that changes when the function or object does, as far as that can be told; for cache files. With the GIL. */
uint64_t stkpy_stamp(PyObject *object);

/* Whether no further call of a function is to be begun: each may take any time, and others wait for the run to stop. */
bool stkpy_stopping(const stkpy_kept *kept);
/* The status for the exception that is set: that of a bad record where the function says so, by CorruptError or an error of reading; else it is a mistake of the function, which ends the run. */
stk_status stkpy_exception_status(void);

/* Adds the place; `field` may be NULL. */
void stkpy_error_at(stk_error *err, const char *op, const stkpy_field *field);

/* ---- failures of single samples, kept from gather to process ---- */

typedef struct stkpy_failure {
    struct stkpy_failure *next;
    size_t at; /* number of the sample in the tile */
    stk_error error;
} stkpy_failure;

typedef struct stkpy_tile {
    size_t gathered, passed;
    stkpy_failure *first, **last;
} stkpy_tile;

void stkpy_tile_begin(stkpy_tile *tile, size_t samples);
/* Keeps a failure of sample `at`; false when there is no memory. */
bool stkpy_tile_fail(stkpy_tile *tile, size_t at, const stk_error *error);
/* What became of the next sample. */
stk_status stkpy_tile_pass(stkpy_tile *tile, stk_error *err);
void stkpy_tile_clear(stkpy_tile *tile);

extern const stk_op stkpy_op_map, stkpy_op_source;

#endif
