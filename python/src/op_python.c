/* What the ops that call Python share: the lock, functions by number, and failures kept between gather and process. */
#include "op_python.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "run.h"

const stk_op *const stkpy_ops[] = {&stkpy_op_map, &stkpy_op_source, NULL};

/* ---- the lock ---- */

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static bool thread_keyed;

/*
 * A thread of the engine ends: the state that Python had for it goes with it. Python's own record of which state is the
 * thread's may be gone by now, so it is taken down by hand.
 */
static void thread_ends(void *state)
{
    if (stkpy_exiting() || !Py_IsInitialized())
        return;
    PyEval_RestoreThread(state);
    PyThreadState_Clear(state);
    PyEval_SaveThread();
    PyThreadState_Delete(state);
}

static void make_thread_key(void)
{
    thread_keyed = pthread_key_create(&thread_key, thread_ends) == 0;
}

/* Without this Python would make and free a state, with a stack, each time that the thread comes. */
static void keep_thread(void)
{
    pthread_once(&thread_once, make_thread_key);
    if (!thread_keyed)
        return;
    const PyGILState_STATE state = PyGILState_Ensure();
    PyThreadState *thread = PyThreadState_Get();
    if (pthread_setspecific(thread_key, thread) == 0)
        PyEval_SaveThread();
    else
        PyGILState_Release(state);
}

bool stkpy_gil_take(PyGILState_STATE *out)
{
    if (!Py_IsInitialized())
        return false;
    *out = PyGILState_Ensure();
    return true;
}

bool stkpy_gil_take_often(PyGILState_STATE *out)
{
    if (Py_IsInitialized() && !PyGILState_GetThisThreadState())
        keep_thread();
    return stkpy_gil_take(out);
}

void stkpy_gil_give(PyGILState_STATE state)
{
    PyGILState_Release(state);
}

/* ---- who is in a function, and who holds one ---- */

static _Thread_local const stkpy_kept *inside;

const stkpy_kept *stkpy_enter(const stkpy_kept *kept)
{
    const stkpy_kept *before = inside;
    inside = kept;
    return before;
}

void stkpy_leave(const stkpy_kept *before)
{
    inside = before;
}

bool stkpy_inside(const stkpy_kept *kept)
{
    return inside == kept;
}

void stkpy_own(stkpy_kept *kept, stkpy_owner *owner)
{
    if (!kept)
        return;
    owner->next = kept->owners;
    owner->link = &kept->owners;
    if (owner->next)
        owner->next->link = &owner->next;
    kept->owners = owner;
}

void stkpy_disown(stkpy_owner *owner)
{
    if (!owner->link)
        return;
    *owner->link = owner->next;
    if (owner->next)
        owner->next->link = owner->link;
    owner->link = NULL;
}

/* ---- functions by number ---- */

static _Thread_local PyObject *opening_functions;
static _Thread_local stkpy_kept *opening_kept;

void stkpy_functions_set(PyObject *functions, struct stkpy_kept *kept)
{
    opening_functions = functions;
    opening_kept = kept;
}

PyObject *stkpy_function(int64_t index, const char *name, stkpy_kept **out_kept, stk_error *err)
{
    const Py_ssize_t count = opening_functions ? PyTuple_Size(opening_functions) : 0;
    PyObject *function = NULL;
    if (index < count)
        function = PyTuple_GetItem(opening_functions, (Py_ssize_t)index);
    if (!function) {
        PyErr_Clear();
        stk_error_set(err, STK_INVALID,
                      "there is no function %lld ('%s') here: a text with Python functions runs only as the pipeline "
                      "that they were given to",
                      (long long)index, name);
        return NULL;
    }
    *out_kept = opening_kept;
    Py_INCREF(function);
    return function;
}

uint64_t stkpy_stamp(PyObject *object)
{
    static atomic_uint_least64_t unknown;
    PyObject *module = PyImport_ImportModule("stoker._stamp");
    PyObject *number = module ? PyObject_CallMethod(module, "stamp", "O", object) : NULL;
    uint64_t stamp = number ? PyLong_AsUnsignedLongLong(number) : 0;
    Py_XDECREF(number);
    Py_XDECREF(module);
    if (PyErr_Occurred()) { /* what cannot be told apart is never the same */
        struct timespec now;
        PyErr_Clear();
        clock_gettime(CLOCK_REALTIME, &now);
        stamp = (uint64_t)now.tv_nsec * 1000003 + (uint64_t)now.tv_sec + atomic_fetch_add(&unknown, 1);
    }
    return stamp;
}

bool stkpy_stopping(const stkpy_kept *kept)
{
    return stkpy_exiting() || (kept && atomic_load_explicit(&kept->stop, memory_order_relaxed));
}

void stkpy_error_at(stk_error *err, const char *op, const stkpy_field *field)
{
    snprintf(err->op, sizeof err->op, "%s", op);
    if (field)
        snprintf(err->field, sizeof err->field, "%s", field->text);
}

/* ---- failures of single samples ---- */

void stkpy_tile_begin(stkpy_tile *tile, size_t samples)
{
    stkpy_tile_clear(tile);
    tile->gathered = samples;
    tile->passed = 0;
    tile->last = &tile->first;
}

bool stkpy_tile_fail(stkpy_tile *tile, size_t at, const stk_error *error)
{
    stkpy_failure *failure = malloc(sizeof *failure);
    if (!failure)
        return false;
    *failure = (stkpy_failure){.at = at, .error = *error};
    *tile->last = failure;
    tile->last = &failure->next;
    return true;
}

stk_status stkpy_tile_pass(stkpy_tile *tile, stk_error *err)
{
    const size_t at = tile->passed++;
    stkpy_failure *failure = tile->first;
    if (!failure || failure->at != at)
        return STK_OK;
    const stk_status status = failure->error.status;
    if (err)
        *err = failure->error;
    tile->first = failure->next;
    free(failure);
    return status;
}

void stkpy_tile_clear(stkpy_tile *tile)
{
    while (tile->first) {
        stkpy_failure *next = tile->first->next;
        free(tile->first);
        tile->first = next;
    }
    tile->last = &tile->first;
}
