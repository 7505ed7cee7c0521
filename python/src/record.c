/* Recorder: a trace file that takes marks of Python and the spans of runs. */
#include "core.h"

#include <pthread.h>

typedef struct {
    PyObject_HEAD stk_recorder *recorder; /* never changed once it is open */
    unsigned forks;                       /* as in_child had counted when it was opened */
    bool ended;                           /* guarded by the GIL: no marks any more; stop has begun */
    pthread_mutex_t lock;
    /* guarded by lock, which is never waited for with the GIL */
    bool stopped;
    stk_status status;
    stk_recorder_stats stats;
    stk_error err;
} recorder_object;

static PyTypeObject *recorder_type;

/* A forked child has our memory, but neither the thread that writes nor the right to the file. Marks cannot ask for the
   process id each time, which is a system call. */
static unsigned forks;

static void in_child(void)
{
    forks++;
}

static bool inherited(const recorder_object *self)
{
    return self->forks != forks;
}

/* Marks are made with the GIL, and so is `ended` set: none is under way when stop begins. */
static bool takes_marks(const recorder_object *self)
{
    return !self->ended && !inherited(self);
}

/* ---- life ---- */

static PyObject *recorder_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {(char *)"path", (char *)"memory", (char *)"process", (char *)"limit", (char *)"last", NULL};
    PyObject *path = NULL;
    Py_ssize_t memory = 0;
    const char *process = NULL;
    unsigned long long limit = 0, last = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$nzKK:Recorder", names, PyUnicode_FSConverter, &path, &memory,
                                     &process, &limit, &last))
        return NULL;
    recorder_object *self = NULL;
    if (memory < 0) {
        PyErr_Format(PyExc_ValueError, "memory of the recorder is %zd bytes, wanted at least 0", memory);
        goto out;
    }
    self = (recorder_object *)PyType_GenericAlloc(type, 0);
    if (!self)
        goto out;
    self->forks = forks;
    pthread_mutex_init(&self->lock, NULL);
    const stk_recorder_options options = {.struct_size = sizeof options,
                                          .memory_bytes = (size_t)memory,
                                          .process = process,
                                          .limit_bytes = limit,
                                          .last_bytes = last};
    const char *name = PyBytes_AsString(path);
    stk_recorder *opened = NULL;
    stk_error err;
    stk_error_clear(&err);
    stk_status status = STK_OK;
    Py_BEGIN_ALLOW_THREADS;
    status = stk_recorder_open(name, &options, &opened, &err);
    Py_END_ALLOW_THREADS;
    self->recorder = opened;
    if (status != STK_OK) {
        stkpy_raise(&err);
        Py_DECREF(self);
        self = NULL;
    }
out:
    Py_DECREF(path);
    return (PyObject *)self;
}

/* Finishes the file once, without the GIL; who comes meanwhile waits for the end. */
static stk_status stop(recorder_object *self, stk_error *err)
{
    pthread_mutex_lock(&self->lock);
    if (!self->stopped) {
        stk_error_clear(&self->err);
        self->status = stk_recorder_stop(self->recorder, &self->stats, &self->err);
        self->stopped = true;
    }
    const stk_status status = self->status;
    *err = self->err;
    pthread_mutex_unlock(&self->lock);
    return status;
}

/* The last reference is gone: nobody else is here. An error that stop has not told goes to sys.unraisablehook. */
static void close_recorder(recorder_object *self)
{
    const bool told = self->stopped;
    stk_error err;
    stk_status status = STK_OK;
    Py_BEGIN_ALLOW_THREADS;
    status = stop(self, &err);
    stk_recorder_close(self->recorder, NULL, NULL);
    Py_END_ALLOW_THREADS;
    if (status == STK_OK || told)
        return;
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    stkpy_raise(&err);
    PyErr_WriteUnraisable(NULL);
    PyErr_Restore(kind, value, trace);
}

static void recorder_dealloc(PyObject *object)
{
    recorder_object *self = (recorder_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (!inherited(self)) { /* else a thread of the parent may have held the lock, and the file is not ours */
        if (self->recorder)
            close_recorder(self);
        pthread_mutex_destroy(&self->lock);
    }
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *stats_dict(const stk_recorder_stats *stats)
{
    return Py_BuildValue("{s:K,s:K,s:K,s:K}", "events_written", (unsigned long long)stats->events_written, "events_lost",
                         (unsigned long long)stats->events_lost, "bytes_written",
                         (unsigned long long)stats->bytes_written, "events_dropped",
                         (unsigned long long)stats->events_dropped);
}

static PyObject *recorder_stop(PyObject *object, PyObject *unused)
{
    recorder_object *self = (recorder_object *)object;
    if (inherited(self))
        return stats_dict(&(stk_recorder_stats){0}); /* the file is the parent's */
    stk_error err;
    stk_status status = STK_OK;
    self->ended = true;
    Py_BEGIN_ALLOW_THREADS;
    status = stop(self, &err);
    Py_END_ALLOW_THREADS;
    return status == STK_OK ? stats_dict(&self->stats) : stkpy_raise(&err);
}

static PyObject *recorder_stopped(PyObject *object, void *unused)
{
    return PyBool_FromLong(!takes_marks((const recorder_object *)object));
}

/* ---- marks ---- */

static PyObject *recorder_step(PyObject *object, PyObject *number)
{
    const recorder_object *self = (const recorder_object *)object;
    if (takes_marks(self)) {
        const long long value = PyLong_AsLongLong(number);
        if (value == -1 && PyErr_Occurred())
            return NULL;
        stk_step(self->recorder, value);
    }
    Py_RETURN_NONE;
}

static PyObject *recorder_step_end(PyObject *object, PyObject *unused)
{
    const recorder_object *self = (const recorder_object *)object;
    if (takes_marks(self))
        stk_step_end(self->recorder);
    Py_RETURN_NONE;
}

/* ASCII text is its own UTF-8; other text keeps it once it was asked for. */
static const char *text_of(PyObject *name)
{
    Py_ssize_t size;
    return PyUnicode_AsUTF8AndSize(name, &size);
}

static PyObject *recorder_span_begin(PyObject *object, PyObject *name)
{
    const recorder_object *self = (const recorder_object *)object;
    if (takes_marks(self)) {
        const char *text = text_of(name);
        if (!text)
            return NULL;
        stk_span_begin(self->recorder, text);
    }
    Py_RETURN_NONE;
}

static PyObject *recorder_span_end(PyObject *object, PyObject *unused)
{
    const recorder_object *self = (const recorder_object *)object;
    if (takes_marks(self))
        stk_span_end(self->recorder);
    Py_RETURN_NONE;
}

static PyObject *recorder_counter(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    const recorder_object *self = (const recorder_object *)object;
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "counter takes a name and a value, found %zd arguments", count);
    if (takes_marks(self)) {
        const char *text = text_of(args[0]);
        if (!text)
            return NULL;
        const double value = PyFloat_AsDouble(args[1]);
        if (value == -1 && PyErr_Occurred())
            return NULL;
        stk_counter(self->recorder, text, value);
    }
    Py_RETURN_NONE;
}

/* ---- for runs ---- */

/* Who uses the recorder holds a reference to the object meanwhile. */
stk_recorder *stkpy_recorder_of(PyObject *object)
{
    if (!PyObject_TypeCheck(object, recorder_type)) {
        PyErr_Format(PyExc_TypeError, "recorder: wanted a Recorder or None, found %R", Py_TYPE(object));
        return NULL;
    }
    const recorder_object *self = (const recorder_object *)object;
    if (inherited(self)) {
        PyErr_SetString(PyExc_RuntimeError, "recorder: opened before a fork; a child records to a file of its own");
        return NULL;
    }
    return self->recorder;
}

/* ---- the type ---- */

static PyMethodDef recorder_methods[] = {
    {"stop", recorder_stop, METH_NOARGS, "Finish the file; gives what was written. Again: the same."},
    {"step", recorder_step, METH_O, "Begin a step of the calling thread."},
    {"step_end", recorder_step_end, METH_NOARGS, "End the step."},
    {"span_begin", recorder_span_begin, METH_O, "Begin a span of the calling thread."},
    {"span_end", recorder_span_end, METH_NOARGS, "End the innermost span."},
    {"counter", (PyCFunction)(void (*)(void))recorder_counter, METH_FASTCALL, "Record a value of a counter."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef recorder_properties[] = {
    {"stopped", recorder_stopped, NULL, "Whether marks do nothing: after stop, and in a forked child.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot recorder_slots[] = {
    {Py_tp_new, (void *)(uintptr_t)recorder_new},
    {Py_tp_dealloc, (void *)(uintptr_t)recorder_dealloc},
    {Py_tp_methods, recorder_methods},
    {Py_tp_getset, recorder_properties},
    {Py_tp_doc, (char *)"A trace file that is being written."},
    {0, NULL},
};

static PyType_Spec recorder_spec = {
    .name = "stoker._core.Recorder",
    .basicsize = sizeof(recorder_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = recorder_slots,
};

int stkpy_record_init(PyObject *module)
{
    if (!recorder_type) {
        if (pthread_atfork(NULL, NULL, in_child)) {
            PyErr_NoMemory();
            return -1;
        }
        recorder_type = (PyTypeObject *)PyType_FromSpec(&recorder_spec);
    }
    return recorder_type ? PyModule_AddType(module, recorder_type) : -1;
}
