/* What the files about runs and batches share: a run, and a batch that is held, both counted in C. */
#ifndef STKPY_RUN_H
#define STKPY_RUN_H

#include "core.h"

#include <pthread.h>
#include <stdatomic.h>

/*
 * A batch that Python has, or copies of some of its columns (run NULL), which are all in one piece with it. Counted in C, so that users of DLPack may drop it in any thread, with or without the GIL.
 */
typedef struct stkpy_hold {
    atomic_int refs;
    stkpy_run *run;
    const stk_batch *batch;
    struct stkpy_hold *next; /* parked ones, see pinned.c */
} stkpy_hold;

void stkpy_hold_ref(stkpy_hold *hold);
void stkpy_hold_unref(stkpy_hold *hold);
/* Copies of columns of numbers, 64-byte aligned; *out_columns: the columns there. NULL: no memory. */
stkpy_hold *stkpy_hold_copy(const stk_column *const *sources, int32_t count, const stk_column **out_columns);
/* Gives the batch back and frees the hold, which nobody has any more. */
void stkpy_hold_end(stkpy_hold *hold);

/* Messages of the engine that nobody has fetched yet; more than these are counted only. */
enum { STKPY_MESSAGES = 64 };

typedef struct stkpy_message {
    stk_log_level level;
    char *text;
} stkpy_message;

typedef struct stkpy_log {
    pthread_mutex_t lock;
    /* guarded by lock */
    stkpy_message items[STKPY_MESSAGES];
    int count;
    long lost;
} stkpy_log;

/* cudaHostAlloc and its like, found in a libcudart that somebody else has loaded. */
typedef struct stkpy_cuda {
    int (*host_alloc)(void **out, size_t size, unsigned flags);
    int (*host_free)(void *p);
    int (*set_device)(int device);
    int device; /* of the thread that opened the run */
} stkpy_cuda;

/* Batches that were dropped before an event of the GPU; given back once it has come. */
typedef struct stkpy_fenced {
    PyObject *event;
    stkpy_hold *holds; /* guarded by the lock of the parking */
    struct stkpy_fenced *next;
} stkpy_fenced;

/* Batches in pinned memory whose tensors are gone, while copies to the GPU may still read them. */
typedef struct stkpy_parking {
    PyObject *fence; /* guarded by the GIL: makes an event that has come when the work queued by now is done */
    atomic_bool on;  /* there is a fence, and the run has not stopped */
    atomic_int count;
    pthread_mutex_t lock;
    /* guarded by lock */
    bool ended;         /* the run has stopped: no more are parked */
    stkpy_hold *parked; /* dropped since the last event */
    stkpy_fenced *fenced;
} stkpy_parking;

struct stkpy_run {
    /* set before start, then const */
    stk_pipeline *pipeline;
    unsigned generation; /* of the process: changes in a forked child */
    long pid;
    pthread_t opener;
    char *strings[4];
    char **fields; /* names that batches are limited to, then NULL; or NULL */
    stkpy_cuda cuda;

    atomic_int refs;
    atomic_int held;
    atomic_int waiting; /* threads that want `turn` from one that loops on it */

    pthread_mutex_t turn; /* calls of the engine that must not overlap; never held while taking the GIL */

    stkpy_log log;
    stkpy_parking parking;

    /* guarded by the GIL; what the workers use until the run has stopped */
    PyObject *functions, *recorder;
    stkpy_kept kept;
    PyObject *names; /* of the columns, for all batches */

    /* guarded by the lock of the list of all runs */
    bool listed, stopping, stopped;
    bool orphan; /* its Run object is gone: who stops it drops the references above */
    stkpy_run *next, **link;
};

/* ---- run.c ---- */

stkpy_run *stkpy_run_new(void);
/* With the GIL: the pipeline is open; from here on the exit of the interpreter stops it. */
void stkpy_run_list(stkpy_run *run);
/* Whether this process is a child that was forked after the run was opened. */
bool stkpy_run_forked(const stkpy_run *run);
/* Begins to stop the workers, in a thread of its own; any number of times. */
void stkpy_run_stop(stkpy_run *run);
/* Without the GIL: waits so long for the end of that; whether it has stopped. */
bool stkpy_run_stopped(stkpy_run *run, int64_t timeout_ns);
/* With the GIL, for the last time: stops it, waits for that where it is safe, and drops what Python gave. */
void stkpy_run_abandon(stkpy_run *run);
/* With the GIL: drops what Python gave. */
void stkpy_run_clear(stkpy_run *run);
/* Without the GIL: takes the turn within 50 ms or so; false: not yet, look for signals and come again. */
bool stkpy_run_turn(stkpy_run *run);
void stkpy_run_turn_end(stkpy_run *run);
/* Whether the interpreter goes away, so that Python must not be called from threads of the engine any more. */
bool stkpy_exiting(void);
/* With the GIL. Daemon threads that loop over batches rest here when the interpreter goes away, as in Python itself. */
void stkpy_exit_rest(void);
/* Registers the hooks for exit and fork. */
int stkpy_life_init(void);

/* ---- run_open.c ---- */

/* Run.__new__ up to the open pipeline; NULL with an exception. */
stkpy_run *stkpy_run_open(PyObject *args, PyObject *kwargs);

/* ---- run_log.c ---- */

void stkpy_log_init(stkpy_log *log);
void stkpy_log_clear(stkpy_log *log);
/* The callback of the engine, which may hold locks. */
void stkpy_log_add(void *log, stk_log_level level, const char *text);
/* Takes them all: a list of (level, text). */
PyObject *stkpy_log_take(stkpy_log *log);
bool stkpy_log_any(stkpy_log *log);

/* ---- pinned.c ---- */

/* Finds the functions of CUDA; false with an exception. */
bool stkpy_cuda_find(stkpy_cuda *cuda);
void *stkpy_cuda_alloc(void *cuda, size_t size);
void stkpy_cuda_free(void *cuda, void *p, size_t size);
/* With the GIL: from now on batches of the run that are dropped wait for an event that `fence` makes. */
void stkpy_park_set(stkpy_run *run, PyObject *fence);
/* Any thread: takes a hold that is no longer used; false: nobody waits for it. */
bool stkpy_park(stkpy_hold *hold);
/* With the GIL: gives back what the GPU is done with; `wait`: all of it. False with an exception. */
bool stkpy_park_sweep(stkpy_run *run, bool wait);
/* Without the GIL: gives all of it back without asking, and parks no more. */
void stkpy_park_end(stkpy_run *run);
/* With the GIL, after that: drops the events. */
void stkpy_park_forget(stkpy_run *run);

/* ---- errors.c ---- */

/* ---- run_open.c ---- */

/* What the opening of something asks every so often: signals, and a function that may be told and may end it. */
typedef struct stkpy_watch {
    PyObject *function;                 /* or NULL: then it only looks for signals */
    PyObject *type, *value, *traceback; /* what it raised: to be restored with PyErr_Restore when type is set */
    int64_t looked_ns;
} stkpy_watch;

/* A stk_config.progress; `arg` is a stkpy_watch. Any thread, without the GIL. */
bool stkpy_watch_progress(void *arg, const char *what, int64_t done, int64_t total);

/* stkpy_raise, with the exception of `kept` that the message is about as the cause; `running`: the function that raised it did so
   in the middle of its work, so that the error is its own. */
PyObject *stkpy_raise_kept(const stk_error *err, const stkpy_kept *kept, bool running);
PyObject *stkpy_raise_fork(long pid);

/* ---- column.c and dlpack.c ---- */

/* One field of a batch, or the offsets or row shapes of one: an array, or ragged, or of bytes. */
typedef struct stkpy_column {
    PyObject_HEAD stkpy_hold *hold;
    const stk_column *source;
    void *data;
    stk_dtype dtype;
    int ndim;
    bool ragged; /* the dimensions vary: `data` cannot be seen as one array */
    Py_ssize_t itemsize, elements;
    Py_ssize_t shape[STK_MAX_DIMS + 1], strides[STK_MAX_DIMS + 1]; /* strides in bytes */
} stkpy_column;

int stkpy_column_init(PyObject *module);
PyObject *stkpy_column_new(stkpy_hold *hold, const stk_column *source);
/* Names may hold any byte; they come back as they were given. */
PyObject *stkpy_field_name(const char *name);
/* False with a BufferError when it cannot be seen as one array. */
bool stkpy_column_is_array(const stkpy_column *column);
PyObject *stkpy_column_dlpack(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *stkpy_column_dlpack_device(PyObject *self, PyObject *none);
PyObject *stkpy_column_tolist(PyObject *self, PyObject *none);

/* ---- ops.c ---- */

PyObject *stkpy_ops_json(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *stkpy_text_ops(PyObject *module, PyObject *text);
PyObject *stkpy_text_fields(PyObject *module, PyObject *args);

#endif
