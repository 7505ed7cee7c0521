/* The type Run: a pipeline that is open, with the GIL released in every wait. */
#include <string.h>

#include "run.h"

typedef struct run_object {
    PyObject_HEAD stkpy_run *run;
} run_object;

static stkpy_run *run_of(PyObject *self)
{
    return ((run_object *)self)->run;
}

/* ---- life ---- */

static PyObject *run_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    stkpy_run *run = stkpy_run_open(args, kwargs);
    if (!run)
        return NULL;
    allocfunc alloc = (allocfunc)(uintptr_t)PyType_GetSlot(type, Py_tp_alloc);
    run_object *self = (run_object *)alloc(type, 0);
    if (!self) {
        stkpy_run_abandon(run);
        stkpy_run_unref(run);
        return NULL;
    }
    self->run = run;
    return (PyObject *)self;
}

/* References of a run that a thread still stops are that thread's. */
static int run_traverse(PyObject *self, visitproc visit, void *arg)
{
    stkpy_run *run = run_of(self);
    Py_VISIT(Py_TYPE(self));
    if (!run || run->orphan)
        return 0;
    Py_VISIT(run->functions);
    Py_VISIT(run->recorder);
    Py_VISIT(run->kept.exception);
    Py_VISIT(run->parking.fence);
    /* At exit ops that end go without a word, since they may not have the GIL. */
    for (stkpy_owner *owner = stkpy_exiting() ? NULL : run->kept.owners; owner; owner = owner->next) {
        const int result = owner->traverse(owner, visit, arg);
        if (result)
            return result;
    }
    return 0;
}

static int run_clear(PyObject *self)
{
    stkpy_run *run = run_of(self);
    if (run && !run->orphan)
        stkpy_run_clear(run);
    return 0;
}

static void abandon(PyObject *self)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    stkpy_run_abandon(run_of(self));
    PyErr_Restore(type, value, traceback);
}

/* The garbage collector calls this before it takes functions apart that workers may be in. */
static void run_finalize(PyObject *self)
{
    if (run_of(self))
        abandon(self);
}

static void run_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (run_of(self)) {
        abandon(self);
        stkpy_run_unref(run_of(self));
    }
    freefunc release = (freefunc)(uintptr_t)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* Waits until it has stopped; Ctrl-C leaves it to stop by itself. So does a function of the run: it waits for that. */
static PyObject *run_close(PyObject *self, PyObject *none)
{
    stkpy_run *run = run_of(self);
    if (stkpy_run_forked(run))
        Py_RETURN_NONE;
    if (!stkpy_park_sweep(run, true))
        stkpy_error_forget(); /* the memory of batches that are freed is safe all the same */
    stkpy_run_stop(run);
    if (stkpy_inside(&run->kept))
        Py_RETURN_NONE;
    for (bool stopped = false; !stopped;) {
        Py_BEGIN_ALLOW_THREADS;
        stopped = stkpy_run_stopped(run, 50000000);
        Py_END_ALLOW_THREADS;
        if (!stopped && PyErr_CheckSignals() < 0)
            return NULL;
    }
    stkpy_run_clear(run);
    Py_RETURN_NONE;
}

/* ---- batches ---- */

/* One look, without the GIL. STK_TIMEOUT: no batch yet, or another thread is at it. */
static stk_status look(stkpy_run *run, int64_t timeout_ns, const stk_batch **out, stk_error *err)
{
    stk_status status = STK_TIMEOUT;
    Py_BEGIN_ALLOW_THREADS;
    if (stkpy_run_turn(run)) {
        status = stk_pipeline_next_within(run->pipeline, timeout_ns, out, err);
        stkpy_run_turn_end(run);
    }
    Py_END_ALLOW_THREADS;
    return status;
}

/* A worker that hangs is told while the loop waits for it, not behind the batch that never comes. */
static bool tell_messages(stkpy_run *run)
{
    if (!stkpy_log_any(&run->log))
        return true;
    PyObject *watch = PyImport_ImportModule("stoker._watch");
    PyObject *messages = watch ? stkpy_log_take(&run->log) : NULL;
    PyObject *given = messages ? PyObject_CallMethod(watch, "tell", "O", messages) : NULL;
    Py_XDECREF(watch);
    Py_XDECREF(messages);
    Py_XDECREF(given);
    return given != NULL;
}

static stk_status next_batch(stkpy_run *run, const stk_batch **out, stk_error *err)
{
    enum { SLICE_NS = 50000000, PARKED_SLICE_NS = 1000000 };
    for (;;) {
        if (!stkpy_park_sweep(run, false))
            return STK_INVALID;
        const bool parked = atomic_load(&run->parking.count) > 0;
        const stk_status status = look(run, parked ? PARKED_SLICE_NS : SLICE_NS, out, err);
        if (status == STK_BUDGET && parked) { /* copies hold the room: it comes back when they are done */
            if (!stkpy_park_sweep(run, true))
                return STK_INVALID;
            continue;
        }
        if (status == STK_CANCELLED)
            stkpy_exit_rest();
        if (status != STK_TIMEOUT)
            return status;
        if (PyErr_CheckSignals() < 0 || !tell_messages(run))
            return STK_CANCELLED;
    }
}

static PyObject *run_next(PyObject *self, PyObject *none)
{
    stkpy_run *run = run_of(self);
    if (stkpy_run_forked(run))
        return stkpy_raise_fork(run->pid);
    if (stkpy_inside(&run->kept))
        return PyErr_Format(PyExc_RuntimeError,
                            "a function of the pipeline asks for a batch that it has to make itself");
    const stk_batch *batch = NULL;
    stk_error err;
    const stk_status status = next_batch(run, &batch, &err);
    if (status == STK_OK)
        return stkpy_batch_new(run, batch);
    if (PyErr_Occurred())
        return NULL;
    if (status == STK_END)
        Py_RETURN_NONE;
    return stkpy_raise_kept(&err, &run->kept, true);
}

/* ---- calls that take their turn ---- */

/* False with an exception: forked, or a signal came. */
static bool begin_turn(stkpy_run *run)
{
    if (stkpy_run_forked(run)) {
        stkpy_raise_fork(run->pid);
        return false;
    }
    for (bool mine = false; !mine;) {
        Py_BEGIN_ALLOW_THREADS;
        mine = stkpy_run_turn(run);
        Py_END_ALLOW_THREADS;
        if (!mine && stkpy_inside(&run->kept) && atomic_load(&run->kept.stop)) {
            /* Who stops the run has the turn, and waits for this function. */
            PyErr_SetString(PyExc_RuntimeError, "the run is being stopped");
            return false;
        }
        if (PyErr_CheckSignals() < 0) {
            if (mine)
                stkpy_run_turn_end(run);
            return false;
        }
    }
    return true;
}

static PyObject *run_state(PyObject *self, PyObject *none)
{
    stkpy_run *run = run_of(self);
    char *text = NULL;
    stk_error err;
    stk_status status;
    stk_error_clear(&err);
    if (!begin_turn(run))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = stk_pipeline_state(run->pipeline, &text, &err);
    stkpy_run_turn_end(run);
    Py_END_ALLOW_THREADS;
    if (status != STK_OK)
        return stkpy_raise(&err);
    PyObject *state = PyUnicode_FromString(text);
    stk_free(text);
    return state;
}

static PyObject *run_consume(PyObject *self, PyObject *object)
{
    stkpy_run *run = run_of(self);
    const stk_batch *batch = stkpy_batch_of(object, run);
    stk_error err;
    stk_status status;
    stk_error_clear(&err);
    if (!batch || !begin_turn(run))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = stk_pipeline_consume(run->pipeline, batch, &err);
    stkpy_run_turn_end(run);
    Py_END_ALLOW_THREADS;
    if (status != STK_OK)
        return stkpy_raise_kept(&err, &run->kept, true);
    Py_RETURN_NONE;
}

static PyObject *run_finish(PyObject *self, PyObject *none)
{
    stkpy_run *run = run_of(self);
    stk_error err;
    stk_status status;
    stk_error_clear(&err);
    if (!begin_turn(run))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = stk_pipeline_finish(run->pipeline, &err);
    stkpy_run_turn_end(run);
    Py_END_ALLOW_THREADS;
    if (status != STK_OK)
        return stkpy_raise_kept(&err, &run->kept, true);
    Py_RETURN_NONE;
}

/* ---- what is going on ---- */

static PyObject *run_stats(PyObject *self, PyObject *none)
{
    stkpy_run *run = run_of(self);
    stk_stats s;
    if (!begin_turn(run))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    stk_pipeline_stats(run->pipeline, &s);
    stkpy_run_turn_end(run);
    Py_END_ALLOW_THREADS;
#define FIELDS(X)                                                                                                \
    X(samples)                                                                                                   \
    X(batches)                                                                                                   \
    X(bytes_read)                                                                                                \
    X(consumer_wait_ns)                                                                                          \
    X(buffer_bytes)                                                                                              \
    X(peak_buffer_bytes)                                                                                         \
    X(budget_bytes)                                                                                              \
    X(skipped) X(quarantined) X(dropped) X(lost_bytes) X(cache_hits) X(cache_misses) X(cache_damaged) X(threads) X(total_batches) \
        X(ready_batches) X(epoch_batches) X(held_batches)
#define FIELD(name) {#name, (long long)s.name},
    const struct {
        const char *name;
        long long value;
    } fields[] = {FIELDS(FIELD)};
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < sizeof fields / sizeof *fields; i++) {
        PyObject *value = PyLong_FromLongLong(fields[i].value);
        if (!value || PyDict_SetItemString(dict, fields[i].name, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

static PyObject *run_op_stats(PyObject *self, PyObject *none)
{
    stkpy_run *run = run_of(self);
    PyObject *list = PyList_New(0);
    const char *name;
    int64_t busy, samples;
    if (!list || !begin_turn(run)) {
        Py_XDECREF(list);
        return NULL;
    }
    for (size_t i = 0; list && stk_pipeline_op_stats(run->pipeline, i, &name, &busy, &samples); i++) {
        PyObject *row = Py_BuildValue("(sLL)", name, (long long)busy, (long long)samples);
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    stkpy_run_turn_end(run);
    return list;
}

/* Names of files need not be UTF-8: they come as those of os.listdir. */
static PyObject *run_classes(PyObject *self, PyObject *none)
{
    stkpy_run *run = run_of(self);
    PyObject *list = PyList_New(0);
    const char *name;
    if (!list || !begin_turn(run)) {
        Py_XDECREF(list);
        return NULL;
    }
    for (int64_t i = 0; list && (name = stk_pipeline_class_name(run->pipeline, i)) != NULL; i++) {
        PyObject *text = PyUnicode_DecodeFSDefault(name);
        if (!text || PyList_Append(list, text) < 0)
            Py_CLEAR(list);
        Py_XDECREF(text);
    }
    stkpy_run_turn_end(run);
    return list;
}

static PyObject *explain_by(PyObject *self, const char *(*explain)(const stk_pipeline *))
{
    stkpy_run *run = run_of(self);
    if (!begin_turn(run))
        return NULL;
    const char *plan = explain(run->pipeline);
    PyObject *text = PyUnicode_DecodeUTF8(plan, (Py_ssize_t)strlen(plan), "backslashreplace");
    stkpy_run_turn_end(run);
    return text;
}

static PyObject *run_explain(PyObject *self, PyObject *none)
{
    return explain_by(self, stk_pipeline_explain);
}

static PyObject *run_explain_json(PyObject *self, PyObject *none)
{
    return explain_by(self, stk_pipeline_explain_json);
}

static PyObject *run_messages(PyObject *self, PyObject *none)
{
    stkpy_run *run = run_of(self);
    return stkpy_run_forked(run) ? PyList_New(0) : stkpy_log_take(&run->log);
}

static PyObject *run_has_sink(PyObject *self, PyObject *none)
{
    return PyBool_FromLong(stk_pipeline_has_sink(run_of(self)->pipeline));
}

static PyObject *run_cancel(PyObject *self, PyObject *none)
{
    atomic_store(&run_of(self)->kept.stop, true); /* who waits for a function waits no more */
    stk_pipeline_cancel(run_of(self)->pipeline);
    Py_RETURN_NONE;
}

/* Batches that are dropped go back only when an event that `fence` makes has come; see pinned.c. */
static PyObject *run_fence(PyObject *self, PyObject *fence)
{
    if (!PyCallable_Check(fence))
        return PyErr_Format(PyExc_TypeError, "a fence must be callable");
    stkpy_park_set(run_of(self), fence);
    Py_RETURN_NONE;
}

static PyObject *run_closed(PyObject *self, void *closure)
{
    stkpy_run *run = run_of(self);
    return PyBool_FromLong(!stkpy_run_forked(run) && run->stopping);
}

static PyObject *run_held(PyObject *self, void *closure)
{
    return PyLong_FromLong(atomic_load(&run_of(self)->held));
}

static PyMethodDef run_methods[] = {
    {"next", run_next, METH_NOARGS, "The next batch; None: the end."},
    {"state", run_state, METH_NOARGS, "The place behind the last batch that next gave."},
    {"stats", run_stats, METH_NOARGS, "Counts of the run by name."},
    {"op_stats", run_op_stats, METH_NOARGS, "Label, busy nanoseconds and samples of each op."},
    {"classes", run_classes, METH_NOARGS, "What the labels of the source stand for; empty: not known."},
    {"messages", run_messages, METH_NOARGS, "What the engine had to say since the last call."},
    {"explain", run_explain, METH_NOARGS, "The plan, for people."},
    {"explain_json", run_explain_json, METH_NOARGS, "The plan as JSON."},
    {"has_sink", run_has_sink, METH_NOARGS, "Whether the pipeline ends in an op that writes."},
    {"consume", run_consume, METH_O, "Hands a batch to the sink."},
    {"finish", run_finish, METH_NOARGS, "Publishes what the sink wrote."},
    {"cancel", run_cancel, METH_NOARGS, "Makes a waiting or later next raise CancelledError; any thread."},
    {"close", run_close, METH_NOARGS, "Stops the workers; batches that are alive stay valid."},
    {"_fence", run_fence, METH_O, "Keeps dropped batches until the GPU is done with them."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef run_getset[] = {
    {"closed", run_closed, NULL, "Whether close was called.", NULL},
    {"held", run_held, NULL, "Batches that are alive.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot run_slots[] = {
    {Py_tp_doc, (char *)"A pipeline that is open. Every wait lets other threads run, and Ctrl-C in."},
    {Py_tp_new, (void *)(uintptr_t)run_new},
    {Py_tp_dealloc, (void *)(uintptr_t)run_dealloc},
    {Py_tp_finalize, (void *)(uintptr_t)run_finalize},
    {Py_tp_traverse, (void *)(uintptr_t)run_traverse},
    {Py_tp_clear, (void *)(uintptr_t)run_clear},
    {Py_tp_methods, run_methods},
    {Py_tp_getset, run_getset},
    {0, NULL},
};

static PyType_Spec run_spec = {
    .name = "stoker._core.Run",
    .basicsize = sizeof(run_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = run_slots,
};

int stkpy_run_init(PyObject *module)
{
    if (stkpy_life_init() < 0)
        return -1;
    PyObject *type = PyType_FromSpec(&run_spec);
    const int failed = !type || PyModule_AddObjectRef(module, "Run", type) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}
