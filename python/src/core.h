/*
 * What the files of the extension module share. All of it uses the limited API of CPython 3.10.
 *
 * Rules of the lock: the engine never takes the GIL while it holds a lock of its own, and nothing here waits for the engine
 * with the GIL held, except for stk_batch_release, which is short. So callbacks that the engine makes under its locks (log,
 * batch_alloc) must not touch Python; messages are put into a list in C and fetched by Run.messages.
 */
#ifndef STKPY_CORE_H
#define STKPY_CORE_H

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030a0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <stoker/stoker.h>

/* Of a clock that only goes forward. */
static inline int64_t stkpy_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- errors.c ---- */

/* Makes stoker.Error and its kinds; adds them to the module. */
int stkpy_errors_init(PyObject *module);
/* Sets the exception for `err`: class by status, text by stk_error_format, places as attributes. A Python exception that a
   callback left behind (see stkpy_keep_exception) becomes its cause. Returns NULL. */
PyObject *stkpy_raise(const stk_error *err);
struct stkpy_kept;
/* With the GIL, in any thread: takes the exception that is set, keeps it for the run's thread, and fills `err` with its text. */
stk_status stkpy_keep_exception(struct stkpy_kept *kept, stk_error *err, stk_status status, const char *what);

/* PyErr_Clear for what goes on without; a Ctrl-C among it is raised at the next chance. */
void stkpy_error_forget(void);

/* With the GIL: keeps an exception that another process has raised. */
void stkpy_keep_object(struct stkpy_kept *kept, PyObject *exception);

/* ---- run.c: a pipeline that is open, shared by the loop and by every batch that is alive ---- */

/* Counted in C, so that batches may be dropped in any thread, also after the Run object is gone. */
typedef struct stkpy_run stkpy_run;
void stkpy_run_ref(stkpy_run *run);
void stkpy_run_unref(stkpy_run *run);
/* Gives a batch back; in a forked child nothing happens. With or without the GIL. */
void stkpy_run_release(stkpy_run *run, const stk_batch *batch);

/* ---- batch.c ---- */

/* A Batch that owns `batch` of `run`; NULL with an exception, and the batch given back. */
PyObject *stkpy_batch_new(stkpy_run *run, const stk_batch *batch);
/* The batch inside, or NULL with an exception: it is none, or of another run, whose columns may be others. */
const stk_batch *stkpy_batch_of(PyObject *object, const stkpy_run *run);

/* ---- op_python.c: ops that call Python ---- */

/* NULL-terminated: python_map, python_source. */
extern const stk_op *const stkpy_ops[];
/*
 * Functions that the ops of the pipeline being opened in this thread refer to by number: set before stk_pipeline_open (which
 * calls `schema` and `open` in this thread), cleared after it. `functions` is a Python tuple that outlives the run; `kept`
 * takes the first exception that one of them raises.
 */
void stkpy_functions_set(PyObject *functions, struct stkpy_kept *kept);

/* An op that holds Python objects, which may refer to its own run: the garbage collector must know of them. */
typedef struct stkpy_owner {
    int (*traverse)(const struct stkpy_owner *owner, visitproc visit, void *arg);
    struct stkpy_owner *next, **link;
} stkpy_owner;

/* What the callbacks of a run share with it. */
typedef struct stkpy_kept {
    PyObject *exception; /* guarded by the GIL: a list of the last ones that they raised */
    stkpy_owner *owners; /* guarded by the GIL */
    atomic_bool stop;    /* the run is being stopped: no function is called any more */
} stkpy_kept;

/* Whether this thread is in a function that the run of `kept` called, and waits for. */
bool stkpy_inside(const stkpy_kept *kept);

/* ---- paths.c ---- */

/* A tuple of paths as bytes; `name` is what an error calls the argument. */
PyObject *stkpy_paths_encode(PyObject *given, const char *name);
/* Its texts, for PyMem_Free; they live as long as the tuple. */
const char **stkpy_paths_items(PyObject *paths);

/* ---- one function per file that adds its types and functions to the module ---- */

int stkpy_run_init(PyObject *module);
int stkpy_batch_init(PyObject *module);
int stkpy_record_init(PyObject *module);    /* Recorder, step, step_end, span_begin, span_end, counter */
int stkpy_workbench_init(PyObject *module); /* Trace, Table */
int stkpy_g2p_init(PyObject *module);       /* G2p */
int stkpy_bench_init(PyObject *module);     /* compare */
int stkpy_pool_init(PyObject *module);      /* Pool */

/* record.c: the recorder inside, with a reference that keeps it from being closed; NULL with an exception. */
stk_recorder *stkpy_recorder_of(PyObject *object);

/* module.c: the registry of built-in ops, python ops and plug-ins that are loaded; never freed, replaced when one is added. */
const stk_registry *stkpy_registry(void);

#endif
