/* Trace: files opened as one trace, and questions to it, which Ctrl-C ends. */
#include "workbench.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum { LOOK_MS = 50 }; /* between two looks at whether a signal has come */

typedef struct {
    PyObject_HEAD stk_trace *trace; /* NULL once it is closed */
    /* guarded by the GIL */
    size_t users; /* questions that are being answered */
    bool closed;  /* the last of them closes it */
} trace_object;

/* ---- opening ---- */

typedef struct {
    PyObject *call;              /* borrowed; NULL: nobody wants to be told */
    int64_t looked_ns;           /* when it last was; 0: never */
    PyObject *type, *value, *at; /* the exception that ended the reading */
} progress;

/* With the GIL; false: the reading is to end. */
static bool tell(progress *p, const char *path, uint64_t done_bytes, uint64_t total_bytes)
{
    if (PyErr_CheckSignals() < 0)
        return false;
    if (!p->call)
        return true;
    PyObject *name = PyUnicode_DecodeFSDefault(path);
    PyObject *answer = name ? PyObject_CallFunction(p->call, "OKK", name, (unsigned long long)done_bytes,
                                                    (unsigned long long)total_bytes)
                            : NULL;
    Py_XDECREF(name);
    const bool go_on = answer && answer != Py_False;
    Py_XDECREF(answer);
    return go_on;
}

/* Called by the reader without the GIL, far more often than anyone wants to know. */
static bool on_progress(void *arg, const char *path, uint64_t done_bytes, uint64_t total_bytes)
{
    progress *p = arg;
    const int64_t now = stkpy_now_ns();
    if (p->looked_ns && now - p->looked_ns < (int64_t)LOOK_MS * 1000000)
        return true;
    p->looked_ns = now;
    const PyGILState_STATE state = PyGILState_Ensure();
    const bool go_on = tell(p, path, done_bytes, total_bytes);
    if (!go_on)
        PyErr_Fetch(&p->type, &p->value, &p->at);
    PyGILState_Release(state);
    return go_on;
}

static stk_trace *open_paths(PyObject *paths, stk_trace_options *options, progress *p)
{
    const Py_ssize_t count = PyTuple_Size(paths);
    const char **items = stkpy_paths_items(paths);
    if (!items)
        return NULL;
    options->progress = on_progress;
    options->progress_arg = p;
    stk_trace *trace = NULL;
    stk_error err;
    stk_error_clear(&err);
    stk_status status = STK_OK;
    PyThreadState *saved = PyEval_SaveThread();
    status = stk_trace_open(items, (size_t)count, options, &trace, &err);
    PyEval_RestoreThread(saved);
    PyMem_Free((void *)items);
    if (p->type)
        PyErr_Restore(p->type, p->value, p->at);
    else if (status != STK_OK)
        stkpy_raise(&err);
    if (PyErr_Occurred()) {
        stk_trace_close(trace);
        return NULL;
    }
    return trace;
}

/* None stands for no path. */
static int optional_path(PyObject *object, void *out)
{
    if (object && object != Py_None)
        return PyUnicode_FSConverter(object, out);
    if (!object) /* called to clean up */
        Py_CLEAR(*(PyObject **)out);
    return Py_CLEANUP_SUPPORTED;
}

static PyObject *trace_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {(char *)"paths",     (char *)"format",   (char *)"memory",         (char *)"temp_dir",
                            (char *)"cache_dir", (char *)"progress", (char *)"join_processes", NULL};
    PyObject *given, *temp_dir = NULL, *cache_dir = NULL, *call = NULL;
    const char *format = NULL, *join = NULL;
    unsigned long long memory = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$zKO&O&Oz:Trace", names, &given, &format, &memory, optional_path,
                                     &temp_dir, optional_path, &cache_dir, &call, &join))
        return NULL;
    progress p = {.call = call == Py_None ? NULL : call};
    stk_trace_options options = {
        .struct_size = sizeof options,
        .format = format,
        .memory_bytes = memory,
        .temp_dir = temp_dir ? PyBytes_AsString(temp_dir) : NULL,
        .cache_dir = cache_dir ? PyBytes_AsString(cache_dir) : NULL,
        .join_processes = join,
    };
    PyObject *paths = stkpy_paths_encode(given, "paths");
    trace_object *self = paths ? (trace_object *)PyType_GenericAlloc(type, 0) : NULL;
    if (self && !(self->trace = open_paths(paths, &options, &p)))
        Py_CLEAR(self);
    Py_XDECREF(paths);
    Py_XDECREF(temp_dir);
    Py_XDECREF(cache_dir);
    return (PyObject *)self;
}

/* ---- closing ---- */

static void close_now(trace_object *self)
{
    stk_trace *trace = self->trace;
    self->trace = NULL;
    PyThreadState *saved = PyEval_SaveThread();
    stk_trace_close(trace);
    PyEval_RestoreThread(saved);
}

/* The trace for one question, which leave() must follow; NULL with an exception. */
static stk_trace *enter(trace_object *self)
{
    if (self->closed) {
        PyErr_SetString(PyExc_ValueError, "the trace is closed; ask before close(), or open it again");
        return NULL;
    }
    self->users++;
    return self->trace;
}

static void leave(trace_object *self)
{
    if (--self->users == 0 && self->closed)
        close_now(self);
}

static PyObject *trace_close(PyObject *object, PyObject *ignored)
{
    trace_object *self = (trace_object *)object;
    const bool first = !self->closed;
    self->closed = true;
    if (first && !self->users)
        close_now(self);
    Py_INCREF(Py_None);
    return Py_None;
}

static void trace_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    stk_trace_close(((trace_object *)object)->trace);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* ---- questions ---- */

/*
 * A question is answered in a thread of its own, while the asking one looks for signals: nothing else could let Ctrl-C
 * in.
 */
typedef struct question {
    stk_status (*ask)(struct question *q);
    stk_trace *trace;
    const char *text; /* SQL, or the name of a table */
    stk_top_options top;
    stk_diagnose_options diagnose;
    /* set by ask */
    stk_status status;
    stk_error err;
    stk_table *table;
    char *report, *json;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done; /* guarded by lock */
} question;

static stk_status ask_query(question *q)
{
    return stk_trace_query(q->trace, q->text, &q->table, &q->err);
}

static stk_status ask_table(question *q)
{
    return stk_trace_table(q->trace, q->text, &q->table, &q->err);
}

static stk_status ask_top(question *q)
{
    return stk_trace_top(q->trace, &q->top, &q->table, &q->err);
}

static stk_status ask_diagnose(question *q)
{
    return stk_trace_diagnose(q->trace, &q->diagnose, &q->report, &q->json, &q->err);
}

static void *answer(void *arg)
{
    question *q = arg;
    q->status = q->ask(q);
    pthread_mutex_lock(&q->lock);
    q->done = true;
    pthread_cond_signal(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

/* Without the GIL; whether the answer is there within LOOK_MS. */
static bool wait_a_little(question *q)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&q->lock);
    int code = 0;
    while (!q->done && code == 0)
        code = pthread_cond_timedwait(&q->changed, &q->lock, &until);
    const bool done = q->done;
    pthread_mutex_unlock(&q->lock);
    return done;
}

/* With the GIL. False: a signal's handler raised, and the exception is set. */
static bool wait_for_answer(question *q)
{
    bool done = false, interrupted = false;
    while (!done) {
        PyThreadState *saved = PyEval_SaveThread();
        done = wait_a_little(q);
        PyEval_RestoreThread(saved);
        if (!done && !interrupted && PyErr_CheckSignals() < 0) {
            interrupted = true;
            stk_trace_cancel(q->trace, true);
        }
    }
    if (interrupted)
        stk_trace_cancel(q->trace, false);
    return !interrupted;
}

static void drop_answer(question *q)
{
    stk_table_free(q->table);
    stk_free(q->report);
    stk_free(q->json);
    q->table = NULL;
    q->report = q->json = NULL;
}

static bool ask_once(question *q)
{
    pthread_t thread;
    stk_error_clear(&q->err);
    q->done = false;
    if (pthread_create(&thread, NULL, answer, q) != 0) {
        /* No room for a thread: then without Ctrl-C. */
        PyThreadState *saved = PyEval_SaveThread();
        q->status = q->ask(q);
        PyEval_RestoreThread(saved);
        return true;
    }
    const bool good = wait_for_answer(q);
    PyThreadState *saved = PyEval_SaveThread();
    pthread_join(thread, NULL);
    PyEval_RestoreThread(saved);
    return good;
}

/* False with an exception, and nothing to free. */
static bool ask(trace_object *self, question *q)
{
    q->trace = enter(self);
    if (!q->trace)
        return false;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    bool good;
    do {
        good = ask_once(q);
        /* Cancelled, but not by us: another thread was interrupted, and this one is still wanted. */
    } while (good && q->status == STK_CANCELLED);
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
    leave(self);
    if (good && q->status != STK_OK)
        stkpy_raise(&q->err);
    if (!good || q->status != STK_OK) {
        drop_answer(q);
        return false;
    }
    return true;
}

static PyObject *ask_for_table(PyObject *object, question *q)
{
    return ask((trace_object *)object, q) ? stkpy_table_new(q->table) : NULL;
}

/* A str whose UTF-8 has no NUL; NULL with an exception. */
static const char *plain_text(PyObject *text, const char *what)
{
    Py_ssize_t size = 0;
    if (!PyUnicode_Check(text)) {
        PyErr_Format(PyExc_TypeError, "%s: wanted a str, found %R", what, Py_TYPE(text));
        return NULL;
    }
    const char *data = PyUnicode_AsUTF8AndSize(text, &size);
    if (data && strlen(data) != (size_t)size) {
        PyErr_Format(PyExc_ValueError, "%s: found a NUL character in %R", what, text);
        return NULL;
    }
    return data;
}

static PyObject *trace_query(PyObject *object, PyObject *sql)
{
    question q = {.ask = ask_query, .text = plain_text(sql, "sql")};
    return q.text ? ask_for_table(object, &q) : NULL;
}

static PyObject *trace_table(PyObject *object, PyObject *name)
{
    question q = {.ask = ask_table, .text = plain_text(name, "name")};
    return q.text ? ask_for_table(object, &q) : NULL;
}

static PyObject *trace_top(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {(char *)"by", (char *)"sort", (char *)"pattern", (char *)"limit", NULL};
    question q = {.ask = ask_top, .top = {.struct_size = sizeof q.top}};
    long long limit = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$zzzL:top", names, &q.top.by, &q.top.sort, &q.top.pattern, &limit))
        return NULL;
    q.top.limit = limit;
    return ask_for_table(object, &q);
}

/* The texts of a tuple, which must stay alive; NULL with an exception set. Freed by PyMem_Free. */
static const char **texts_of(PyObject *tuple)
{
    const Py_ssize_t count = PyTuple_Size(tuple);
    const char **texts = PyMem_Malloc(((size_t)count + 1) * sizeof *texts);
    if (!texts)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; texts && i < count; i++) {
        texts[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(tuple, i), NULL);
        if (texts[i])
            continue;
        PyMem_Free(texts);
        texts = NULL;
    }
    return texts;
}

static PyObject *trace_diagnose(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {(char *)"what_if", (char *)"wait", (char *)"step", (char *)"rank", NULL};
    question q = {.ask = ask_diagnose, .diagnose = {.struct_size = sizeof q.diagnose}};
    PyObject *wait = NULL, *step = NULL;
    long long rank = -1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$dO!O!L:diagnose", names, &q.diagnose.what_if, &PyTuple_Type,
                                     &wait, &PyTuple_Type, &step, &rank))
        return NULL;
    const char **waits = wait ? texts_of(wait) : NULL, **steps = step ? texts_of(step) : NULL;
    q.diagnose.waits = waits;
    q.diagnose.wait_count = waits ? (size_t)PyTuple_Size(wait) : 0;
    q.diagnose.steps = steps;
    q.diagnose.step_count = steps ? (size_t)PyTuple_Size(step) : 0;
    q.diagnose.one_rank = rank >= 0;
    q.diagnose.rank = rank;
    const bool answered = !PyErr_Occurred() && ask((trace_object *)object, &q);
    PyMem_Free(waits);
    PyMem_Free(steps);
    if (!answered)
        return NULL;
    PyObject *report = PyUnicode_DecodeUTF8(q.report, (Py_ssize_t)strlen(q.report), "replace");
    PyObject *json = PyUnicode_DecodeUTF8(q.json, (Py_ssize_t)strlen(q.json), "replace");
    drop_answer(&q);
    PyObject *pair = report && json ? PyTuple_Pack(2, report, json) : NULL;
    Py_XDECREF(report);
    Py_XDECREF(json);
    return pair;
}

/* ---- the type ---- */

#define WITH_KEYWORDS(function) (PyCFunction)(void (*)(void)) function, METH_VARARGS | METH_KEYWORDS

static PyMethodDef trace_methods[] = {
    {"query", trace_query, METH_O, "The answer to one SELECT."},
    {"table", trace_table, METH_O, "One of the trace's own tables."},
    {"top", WITH_KEYWORDS(trace_top), "Totals per name, thread, ..."},
    {"diagnose", WITH_KEYWORDS(trace_diagnose), "The verdict: text and JSON."},
    {"close", trace_close, METH_NOARGS, "Ends it; tables stay valid."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot trace_slots[] = {
    {Py_tp_new, (void *)(uintptr_t)trace_new},
    {Py_tp_dealloc, (void *)(uintptr_t)trace_dealloc},
    {Py_tp_methods, trace_methods},
    {Py_tp_doc, (char *)"Files of any trace format as one trace; any thread may ask it."},
    {0, NULL},
};

static PyType_Spec trace_spec = {
    .name = "stoker._core.Trace",
    .basicsize = sizeof(trace_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = trace_slots,
};

int stkpy_workbench_init(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&trace_spec);
    const int failed = type ? PyModule_AddObjectRef(module, "Trace", type) : -1;
    Py_XDECREF(type);
    return failed < 0 ? -1 : stkpy_table_init(module);
}
