/* Opening a run: arguments, the open itself without the GIL, and progress that Python can watch and stop. */
#include <stdlib.h>
#include <string.h>

#include "run.h"

/* What the arguments say. Objects are borrowed from them. */
typedef struct open_arguments {
    PyObject *text, *seed, *cache_dir, *quarantine, *resume, *recorder, *functions, *progress, *fields;
    const char *on_error, *shard;
    int threads, exact, pinned, on_demand;
    long long memory, rank, world, local_world, max_errors, first_epoch, stall_ns;
} open_arguments;

static bool parse(PyObject *args, PyObject *kwargs, open_arguments *a)
{
    static char *names[] = {(char *)"text",       (char *)"threads",    (char *)"memory",    (char *)"seed",
                            (char *)"rank",       (char *)"world",      (char *)"cache_dir", (char *)"on_error",
                            (char *)"max_errors", (char *)"quarantine", (char *)"resume",    (char *)"first_epoch",
                            (char *)"exact",      (char *)"recorder",   (char *)"functions", (char *)"pinned",
                            (char *)"on_demand",  (char *)"progress",   (char *)"stall_ns",  (char *)"shard",
                            (char *)"local_world", (char *)"fields",    NULL};
    *a = (open_arguments){.on_error = "stop", .shard = "written"};
    return PyArg_ParseTupleAndKeywords(
        args, kwargs, "U|$iLOLLOsLOOLpOOppOLsLO:Run", names, &a->text, &a->threads, &a->memory, &a->seed, &a->rank,
        &a->world, &a->cache_dir, &a->on_error, &a->max_errors, &a->quarantine, &a->resume, &a->first_epoch, &a->exact,
        &a->recorder, &a->functions, &a->pinned, &a->on_demand, &a->progress, &a->stall_ns, &a->shard, &a->local_world,
        &a->fields);
}

/* A copy of a str for the engine; None is NULL. Names of files that are not UTF-8 come through as they were. */
static bool copy_text(PyObject *object, const char *name, char **out)
{
    if (!object || object == Py_None)
        return true;
    if (!PyUnicode_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s must be a str or None", name);
        return false;
    }
    PyObject *bytes = PyUnicode_AsEncodedString(object, "utf-8", "surrogateescape");
    char *text = NULL;
    Py_ssize_t size;
    if (bytes && PyBytes_AsStringAndSize(bytes, &text, &size) == 0) {
        if (strlen(text) != (size_t)size) {
            PyErr_Format(PyExc_ValueError, "%s has a NUL in it", name);
        } else {
            *out = strdup(text);
            if (!*out)
                PyErr_NoMemory();
        }
    }
    Py_XDECREF(bytes);
    return *out != NULL;
}

/* The number of a word among three. */
static bool read_word(const char *text, const char *name, const char *const words[3], int *out)
{
    for (int i = 0; i < 3; i++) {
        if (strcmp(words[i], text) == 0) {
            *out = i;
            return true;
        }
    }
    PyErr_Format(PyExc_ValueError, "%s must be '%s', '%s' or '%s', not '%.50s'", name, words[0], words[1], words[2],
                 text);
    return false;
}

static bool read_words(const open_arguments *a, stk_config *config)
{
    static const char *const policies[] = {
        [STK_ON_ERROR_STOP] = "stop", [STK_ON_ERROR_SKIP] = "skip", [STK_ON_ERROR_QUARANTINE] = "quarantine"};
    static const char *const shards[] = {
        [STK_SHARD_WRITTEN] = "written", [STK_SHARD_AUTO] = "auto", [STK_SHARD_KEEP] = "keep"};
    int policy, shard;
    if (!read_word(a->on_error, "on_error", policies, &policy) || !read_word(a->shard, "shard", shards, &shard))
        return false;
    config->on_error = (stk_on_error)policy;
    config->auto_shard = (stk_auto_shard)shard;
    return true;
}

static bool not_negative(long long value, const char *name)
{
    if (value < 0)
        PyErr_Format(PyExc_ValueError, "%s must be 0 or more, not %lld", name, value);
    return value >= 0;
}

static bool read_numbers(const open_arguments *a, stk_config *config)
{
    if (!not_negative(a->memory, "memory") || !not_negative(a->threads, "threads") ||
        !not_negative(a->max_errors, "max_errors") || !not_negative(a->first_epoch, "first_epoch") ||
        !not_negative(a->local_world, "local_world"))
        return false;
    if (a->seed) {
        config->seed = PyLong_AsUnsignedLongLong(a->seed);
        if (PyErr_Occurred())
            return false;
    }
    config->threads = a->threads;
    config->memory_bytes = (uint64_t)a->memory;
    config->rank = a->rank;
    config->world = a->world;
    config->local_world = a->local_world;
    config->max_errors = a->max_errors;
    config->first_epoch = a->first_epoch;
    config->no_approximate = a->exact;
    config->on_demand = a->on_demand;
    config->stall_ns = a->stall_ns;
    return read_words(a, config);
}

/* ---- progress ---- */

/* With the GIL; false with an exception, or when the function says so. */
static bool ask(const stkpy_watch *watch, const char *what, int64_t done, int64_t total)
{
    if (PyErr_CheckSignals() < 0)
        return false;
    if (!watch->function)
        return true;
    PyObject *answer = PyObject_CallFunction(watch->function, "sLL", what, (long long)done, (long long)total);
    const bool go_on = answer && (answer == Py_None || PyObject_IsTrue(answer) == 1);
    Py_XDECREF(answer);
    return go_on;
}

/* In the thread that opens, or in another one that builds an index for it. */
bool stkpy_watch_progress(void *arg, const char *what, int64_t done, int64_t total)
{
    enum { EVERY_NS = 50000000 };
    stkpy_watch *watch = arg;
    const PyGILState_STATE gil = PyGILState_Ensure();
    const int64_t now = stkpy_now_ns();
    bool go_on = !watch->type;
    if (go_on && (now - watch->looked_ns >= EVERY_NS || done == total)) {
        watch->looked_ns = now;
        go_on = ask(watch, what, done, total);
        if (PyErr_Occurred()) {
            PyErr_Fetch(&watch->type, &watch->value, &watch->traceback);
            go_on = false;
        }
    }
    PyGILState_Release(gil);
    return go_on;
}

/* ---- open ---- */

static bool read_fields(stkpy_run *run, PyObject *fields, stk_config *config)
{
    if (!fields || fields == Py_None)
        return true;
    PyObject *items = PySequence_Tuple(fields);
    const Py_ssize_t count = items ? PyTuple_Size(items) : 0;
    run->fields = items ? calloc((size_t)count + 1, sizeof *run->fields) : NULL;
    bool ok = run->fields != NULL;
    for (Py_ssize_t i = 0; ok && i < count; i++)
        ok = copy_text(PyTuple_GetItem(items, i), "fields", &run->fields[i]) && run->fields[i];
    Py_XDECREF(items);
    if (!ok && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "fields must be names");
    config->fields = (const char *const *)run->fields;
    config->field_count = (size_t)count;
    return ok;
}

static bool fill_config(stkpy_run *run, const open_arguments *a, stk_config *config, char **out_text)
{
    if (!copy_text(a->text, "text", out_text) || !copy_text(a->cache_dir, "cache_dir", &run->strings[0]) ||
        !copy_text(a->quarantine, "quarantine", &run->strings[1]) ||
        !copy_text(a->resume, "resume", &run->strings[2]) || !read_numbers(a, config) ||
        !read_fields(run, a->fields, config))
        return false;
    config->registry = stkpy_registry();
    config->cache_dir = run->strings[0];
    config->quarantine_path = run->strings[1];
    config->resume_state = run->strings[2];
    config->memory_name = "memory=";
    config->log = stkpy_log_add;
    config->log_arg = &run->log;
    if (a->recorder && a->recorder != Py_None) {
        config->recorder = stkpy_recorder_of(a->recorder);
        if (!config->recorder)
            return false;
        Py_INCREF(a->recorder);
        run->recorder = a->recorder;
    }
    if (a->pinned) {
        if (!stkpy_cuda_find(&run->cuda))
            return false;
        config->batch_alloc = stkpy_cuda_alloc;
        config->batch_free = stkpy_cuda_free;
        config->batch_arg = &run->cuda;
    }
    run->functions = a->functions ? PySequence_Tuple(a->functions) : PyTuple_New(0);
    return run->functions != NULL;
}

static bool open_pipeline(stkpy_run *run, const char *text, stk_config *config, PyObject *progress)
{
    stkpy_watch watch = {.function = progress == Py_None ? NULL : progress, .looked_ns = stkpy_now_ns()};
    stk_error err;
    stk_status status;
    stk_error_clear(&err);
    config->progress = stkpy_watch_progress;
    config->progress_arg = &watch;
    stkpy_functions_set(run->functions, &run->kept);
    Py_BEGIN_ALLOW_THREADS;
    status = stk_pipeline_open(text, config, &run->pipeline, &err);
    Py_END_ALLOW_THREADS;
    stkpy_functions_set(NULL, NULL);
    if (status == STK_OK && !watch.type)
        return true;
    if (status == STK_OK) { /* it was told to stop at the very end */
        Py_BEGIN_ALLOW_THREADS;
        stk_pipeline_close(run->pipeline);
        Py_END_ALLOW_THREADS;
        run->pipeline = NULL;
    }
    if (watch.type)
        PyErr_Restore(watch.type, watch.value, watch.traceback);
    else
        stkpy_raise_kept(&err, &run->kept, false);
    return false;
}

stkpy_run *stkpy_run_open(PyObject *args, PyObject *kwargs)
{
    open_arguments a;
    if (!parse(args, kwargs, &a))
        return NULL;
    if (stkpy_exiting()) {
        PyErr_SetString(PyExc_RuntimeError, "no pipeline can be opened while the interpreter shuts down");
        return NULL;
    }
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        /* Threads of the engine find their way back into the main one only. */
        PyErr_SetString(PyExc_RuntimeError, "a pipeline runs in the main interpreter only, not in a subinterpreter");
        return NULL;
    }
    stkpy_run *run = stkpy_run_new();
    if (!run)
        return NULL;
    char *text = NULL;
    stk_config config = {.struct_size = sizeof config};
    const bool opened = fill_config(run, &a, &config, &text) && open_pipeline(run, text, &config, a.progress);
    free(text);
    if (opened) {
        stkpy_run_list(run);
        return run;
    }
    /* The exception that is set must survive what the objects do when they go. */
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    stkpy_run_clear(run);
    stkpy_run_unref(run);
    PyErr_Restore(type, value, traceback);
    return NULL;
}
