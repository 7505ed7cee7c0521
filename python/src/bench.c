/* bench_compare: Python functions in turns, timed around many calls. */
#include "core.h"

#include <math.h>
#include <string.h>

/* The calls that are timed together take at least this long, so that the clock and the way to it do not count. */
#define LEAST_NS 2000000
/* Shorter ones are taken this many times in a measured run, of which the median counts: one that another process
   interrupts takes twice as long, and would hide what differs. */
#define SHORT_NS 20000000
enum { BURSTS = 5 };
/* Calls of a function between two looks for Ctrl-C. */
enum { CALLS_AT_ONCE = 64 };
#define MOST_CALLS (UINT64_C(1) << 40)

typedef struct {
    PyObject *functions; /* tuple */
    uint64_t *calls;     /* timed together; 0: not known yet */
    bool *bursts;        /* whether a measured run takes them BURSTS times */
    PyObject *progress;  /* NULL: none */
    PyObject *gc;        /* the module */
    PyThreadState *thread;
    bool raised; /* a Python exception is set, and ends it */
} session;

/* ---- one measured run, with the GIL ---- */

static bool call(PyObject *function, uint64_t calls)
{
    for (uint64_t i = 1; i <= calls; i++) {
        PyObject *given = PyObject_CallNoArgs(function);
        if (!given)
            return false;
        Py_DECREF(given);
        if (i % CALLS_AT_ONCE == 0 && PyErr_CheckSignals() < 0)
            return false;
    }
    return PyErr_CheckSignals() == 0;
}

enum { YOUNG_ENOUGH = 20 };

/*
 * Cycles that functions leave must not pile up until the end. Where there are none it is left alone: callbacks of the
 * collector, which some libraries set, swallow a Ctrl-C that comes while they run.
 */
static bool collect_young(session *s)
{
    PyObject *counts = PyObject_CallMethod(s->gc, "get_count", NULL);
    const long young = counts ? PyLong_AsLong(PyTuple_GetItem(counts, 0)) : -1;
    Py_XDECREF(counts);
    if (young < YOUNG_ENOUGH)
        return !PyErr_Occurred();
    PyObject *given = PyObject_CallMethod(s->gc, "collect", "i", 1);
    Py_XDECREF(given);
    return given != NULL;
}

/*
 * The collector is off while a function is timed: when it runs is a matter of chance, and of what ran before. The young
 * objects that the last function left are collected before, untimed.
 */
static bool time_calls(session *s, PyObject *function, uint64_t calls, int64_t *out_ns)
{
    const bool collects = PyGC_IsEnabled();
    if (collects) {
        if (!collect_young(s))
            return false;
        PyGC_Disable();
    }
    const int64_t start = stkpy_now_ns();
    const bool good = call(function, calls);
    *out_ns = stkpy_now_ns() - start;
    if (collects)
        PyGC_Enable();
    return good;
}

/* 1, 2, 5, 10, 20, ... calls until they take long enough; the last try counts like any other. */
static bool choose_calls(session *s, PyObject *function, uint64_t *out_calls, int64_t *out_ns)
{
    static const uint64_t digits[] = {1, 2, 5};
    uint64_t power = 1;
    for (size_t i = 0;; i++) {
        *out_calls = digits[i % 3] * power;
        if (!time_calls(s, function, *out_calls, out_ns))
            return false;
        if (*out_ns >= LEAST_NS)
            return true;
        if (i % 3 == 2)
            power *= 10;
    }
}

/* The middle one of all times; the first is measured already. */
static bool time_bursts(session *s, PyObject *function, uint64_t calls, int64_t first_ns, int64_t *out_ns)
{
    int64_t sorted[BURSTS] = {first_ns};
    for (size_t n = 1; n < BURSTS; n++) {
        int64_t ns;
        size_t at = n;
        if (!time_calls(s, function, calls, &ns))
            return false;
        for (; at && sorted[at - 1] > ns; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = ns;
    }
    *out_ns = sorted[BURSTS / 2];
    return true;
}

static bool run_once(session *s, size_t variant, double *out_seconds)
{
    PyObject *function = PyTuple_GetItem(s->functions, (Py_ssize_t)variant);
    int64_t ns = 0;
    if (s->calls[variant]) {
        if (!time_calls(s, function, s->calls[variant], &ns))
            return false;
    } else {
        if (!choose_calls(s, function, &s->calls[variant], &ns))
            return false;
        s->bursts[variant] = ns < SHORT_NS;
    }
    if (s->bursts[variant] && !time_bursts(s, function, s->calls[variant], ns, &ns))
        return false;
    *out_seconds = (double)ns / 1e9 / (double)s->calls[variant];
    return true;
}

/* ---- what the comparison calls, without the GIL ---- */

static stk_status run(void *arg, size_t variant, double *out_seconds, stk_error *err)
{
    session *s = arg;
    PyEval_RestoreThread(s->thread);
    s->raised = !run_once(s, variant, out_seconds);
    s->thread = PyEval_SaveThread();
    return s->raised ? stk_error_set(err, STK_CANCELLED, "a function raised an exception") : STK_OK;
}

/* What it returns: False ends the comparison; nothing is as good as True, for print and its like. */
static bool goes_on(PyObject *progress, size_t round, size_t rounds, double left_s)
{
    PyObject *given = PyObject_CallFunction(progress, "nnd", (Py_ssize_t)round, (Py_ssize_t)rounds, left_s);
    const int on = !given ? -1 : given == Py_None ? 1 : PyObject_IsTrue(given);
    Py_XDECREF(given);
    return on > 0;
}

static bool tell(void *arg, size_t round, size_t rounds, double left_s)
{
    session *s = arg;
    PyEval_RestoreThread(s->thread);
    const bool on = goes_on(s->progress, round, rounds, left_s);
    s->raised = PyErr_Occurred() != NULL;
    s->thread = PyEval_SaveThread();
    return on;
}

/* ---- arguments ---- */

static bool read_names(PyObject *names, const char **out)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(names); i++) {
        Py_ssize_t size = 0;
        PyObject *name = PyTuple_GetItem(names, i);
        if (!PyUnicode_Check(name)) {
            PyErr_Format(PyExc_TypeError, "names: wanted strings, found %R", name);
            return false;
        }
        out[i] = PyUnicode_AsUTF8AndSize(name, &size);
        if (!out[i])
            return false;
        if (strlen(out[i]) != (size_t)size) {
            PyErr_Format(PyExc_ValueError, "names: %R has a NUL character", name);
            return false;
        }
    }
    return true;
}

static bool read_calls(PyObject *calls, Py_ssize_t count, uint64_t *out)
{
    if (calls == Py_None)
        return true;
    PyObject *given = PySequence_Tuple(calls);
    bool good = given != NULL;
    if (good && PyTuple_Size(given) != count) {
        PyErr_Format(PyExc_ValueError, "calls: %zd for %zd functions, wanted one for each", PyTuple_Size(given), count);
        good = false;
    }
    for (Py_ssize_t i = 0; good && i < count; i++) {
        PyObject *item = PyTuple_GetItem(given, i);
        const long long n = PyLong_AsLongLong(item);
        good = !PyErr_Occurred();
        if (good && (n < 1 || (uint64_t)n > MOST_CALLS)) {
            PyErr_Format(PyExc_ValueError, "calls: found %R, wanted at least 1", item);
            good = false;
        }
        out[i] = (uint64_t)n;
    }
    Py_XDECREF(given);
    return good;
}

static bool check_functions(PyObject *functions, PyObject *names)
{
    const Py_ssize_t count = PyTuple_Size(functions);
    if (PyTuple_Size(names) != count) {
        PyErr_Format(PyExc_ValueError, "names: %zd for %zd functions, wanted one for each", PyTuple_Size(names), count);
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *function = PyTuple_GetItem(functions, i);
        if (!PyCallable_Check(function)) {
            PyErr_Format(PyExc_TypeError, "functions: wanted something to call, found %R", function);
            return false;
        }
    }
    return true;
}

/* ---- the call ---- */

static PyObject *texts_of(char *text, char *json)
{
    PyObject *both = Py_BuildValue("(NN)", PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace"),
                                   PyUnicode_DecodeUTF8(json, (Py_ssize_t)strlen(json), "replace"));
    stk_free(text);
    stk_free(json);
    return both;
}

static PyObject *compare(session *s, const char *const *names, const stk_bench_options *options)
{
    const size_t count = (size_t)PyTuple_Size(s->functions);
    char *text = NULL, *json = NULL;
    stk_error err;
    stk_error_clear(&err);
    s->thread = PyEval_SaveThread();
    const stk_status status = stk_bench_compare(names, count, run, s, options, &text, &json, &err);
    PyEval_RestoreThread(s->thread);
    if (s->raised) {
        /* Also when some rounds were whole: an exception is no wish to end early. */
        stk_free(text);
        stk_free(json);
        return NULL;
    }
    return status == STK_OK ? texts_of(text, json) : stkpy_raise(&err);
}

static PyObject *compare_tuples(session *s, PyObject *names, PyObject *calls, stk_bench_options *options)
{
    const Py_ssize_t count = PyTuple_Size(s->functions);
    const char **texts = PyMem_Calloc((size_t)count + 1, sizeof *texts);
    PyObject *given = NULL;
    s->gc = PyImport_ImportModule("gc");
    s->calls = PyMem_Calloc((size_t)count + 1, sizeof *s->calls);
    s->bursts = PyMem_Calloc((size_t)count + 1, sizeof *s->bursts);
    if (!texts || !s->calls || !s->bursts)
        PyErr_NoMemory();
    else if (s->gc && check_functions(s->functions, names) && read_names(names, texts) &&
             read_calls(calls, count, s->calls))
        given = compare(s, texts, options);
    PyMem_Free(s->bursts);
    PyMem_Free(s->calls);
    PyMem_Free((void *)texts);
    Py_XDECREF(s->gc);
    return given;
}

static bool is_count(const char *name, Py_ssize_t n)
{
    if (n >= 0)
        return true;
    PyErr_Format(PyExc_ValueError, "%s: found %zd, wanted at least 0", name, n);
    return false;
}

static PyObject *bench_compare(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {(char *)"functions", (char *)"names",      (char *)"rounds",
                               (char *)"warmup",    (char *)"min_effect", (char *)"seed",
                               (char *)"calls",     (char *)"progress",   NULL};
    PyObject *functions, *names, *calls = Py_None, *progress = Py_None, *seed = NULL;
    Py_ssize_t rounds = 0, warmup = 0;
    double min_effect = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|$nndO!OO:bench_compare", keywords, &functions, &names, &rounds,
                                     &warmup, &min_effect, &PyLong_Type, &seed, &calls, &progress))
        return NULL;
    if (!is_count("rounds", rounds) || !is_count("warmup", warmup))
        return NULL;
    const unsigned long long number = seed ? PyLong_AsUnsignedLongLong(seed) : 0;
    if (PyErr_Occurred())
        return PyErr_Format(PyExc_ValueError, "seed: found %R, wanted 0 to 2**64 - 1", seed);
    session s = {.functions = PySequence_Tuple(functions), .progress = progress == Py_None ? NULL : progress};
    PyObject *name_tuple = s.functions ? PySequence_Tuple(names) : NULL;
    stk_bench_options options = {.struct_size = sizeof options,
                                 .rounds = (size_t)rounds,
                                 .warmup = (size_t)warmup,
                                 .min_effect = min_effect,
                                 .seed = number,
                                 .progress = s.progress ? tell : NULL,
                                 .progress_arg = &s};
    PyObject *given = name_tuple ? compare_tuples(&s, name_tuple, calls, &options) : NULL;
    Py_XDECREF(name_tuple);
    Py_XDECREF(s.functions);
    return given;
}

/* One burst of calls, for whoever keeps the rounds: seconds for one call, and how many calls were timed together. */
static PyObject *bench_time(PyObject *module, PyObject *args)
{
    PyObject *function;
    long long wanted = 0;
    if (!PyArg_ParseTuple(args, "O|L:bench_time", &function, &wanted))
        return NULL;
    if (wanted < 0 || (uint64_t)wanted > MOST_CALLS)
        return PyErr_Format(PyExc_ValueError, "calls: found %lld, wanted 0 (as many as take a while) or more", wanted);
    session s = {.gc = PyImport_ImportModule("gc")};
    uint64_t calls = (uint64_t)wanted;
    int64_t ns = 0;
    const bool good = s.gc && (calls ? time_calls(&s, function, calls, &ns) : choose_calls(&s, function, &calls, &ns));
    Py_XDECREF(s.gc);
    return good ? Py_BuildValue("(dK)", (double)ns / 1e9 / (double)calls, (unsigned long long)calls) : NULL;
}

static PyMethodDef bench_functions[] = {
    {"bench_time", bench_time, METH_VARARGS, "Time a burst of calls: seconds for one call, and their number."},
    {"bench_compare", (PyCFunction)(void (*)(void))bench_compare, METH_VARARGS | METH_KEYWORDS,
     "Compare functions in turns; gives the report and the JSON of `stoker bench`."},
    {NULL, NULL, 0, NULL},
};

int stkpy_bench_init(PyObject *module)
{
    return PyModule_AddFunctions(module, bench_functions);
}
