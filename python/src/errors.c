/* Errors of the engine as exceptions: a class for each status, and the place as attributes. */
#include <stdio.h>
#include <string.h>

#include "op_python.h"
#include "run.h"

/* name, status, second base (NULL: none), doc */
#define CLASSES(X)                                                                                         \
    X(INVALID, "InvalidError", PyExc_ValueError, "A pipeline, an option or an argument is wrong.")         \
    X(IO, "ReadError", PyExc_OSError, "A file cannot be read or written.")                                 \
    X(CORRUPT, "CorruptError", PyExc_ValueError, "The data is damaged.")                                   \
    X(BUDGET, "BudgetError", PyExc_MemoryError, "The memory budget, or the memory, has no room left.")     \
    X(CANCELLED, "CancelledError", NULL, "The run was cancelled or closed.")                               \
    X(UNSUPPORTED, "UnsupportedError", PyExc_NotImplementedError, "This cannot be done (yet).")            \
    X(MISMATCH, "MismatchError", PyExc_ValueError, "A saved state does not fit the pipeline or its data.") \
    X(LIMIT, "LimitError", NULL, "There were more bad records than allowed.")                              \
    X(UNFIT, "UnfitError", PyExc_ValueError, "The data is sound, but not what the pipeline asks for.")

enum { CLASS_COUNT = 16 }; /* above the number of statuses */

/* Made once at import, then const. */
static PyObject *base_class;
static PyObject *fork_class, *function_class;
static PyObject *classes[CLASS_COUNT];

_Static_assert((int)STK_UNFIT < CLASS_COUNT, "a place for every status");

/* A class "stoker.NAME", found by pickle there; also an attribute of the module. Borrowed from then on. */
static PyObject *add_class(PyObject *module, const char *name, PyObject *base, PyObject *second, const char *doc,
                           PyObject *dict)
{
    char full[64];
    snprintf(full, sizeof full, "stoker.%s", name);
    PyObject *bases = !base ? NULL : second ? PyTuple_Pack(2, base, second) : PyTuple_Pack(1, base);
    if (base && !bases)
        return NULL;
    PyObject *made = PyErr_NewExceptionWithDoc(full, doc, bases, dict);
    Py_XDECREF(bases);
    if (!made || PyModule_AddObjectRef(module, name, made) < 0) {
        Py_XDECREF(made);
        return NULL;
    }
    return made;
}

static PyObject *add_base(PyObject *module)
{
    PyObject *dict = PyDict_New();
    static const char *const names[] = {"status", "message", "file", "offset", "record",
                                        "field",  "op",      "line", "column"};
    for (size_t i = 0; dict && i < sizeof names / sizeof *names; i++) {
        if (PyDict_SetItemString(dict, names[i], Py_None) < 0)
            Py_CLEAR(dict);
    }
    if (!dict)
        return NULL;
    PyObject *made = add_class(module, "Error", NULL, NULL, "What went wrong in the engine, and where.", dict);
    Py_DECREF(dict);
    return made;
}

int stkpy_errors_init(PyObject *module)
{
    base_class = add_base(module);
    if (!base_class)
        return -1;
#define ADD_CLASS(status, name, second, doc)                            \
    classes[STK_##status] = add_class(module, name, base_class, second, doc, NULL); \
    if (!classes[STK_##status])                                         \
        return -1;
    CLASSES(ADD_CLASS)
#undef ADD_CLASS
    classes[STK_NOMEM] = classes[STK_BUDGET];
    fork_class = add_class(module, "ForkError", base_class, PyExc_RuntimeError,
                           "A run that was opened before a fork is used in the child.", NULL);
    function_class = add_class(module, "FunctionError", classes[STK_INVALID], NULL,
                               "A Python function of the pipeline raised an exception, which is the cause.", NULL);
    return fork_class && function_class ? 0 : -1;
}

/* KeyboardInterrupt, SystemExit: no failure of a function, but the end of what it works for. */
static bool is_exit(PyObject *exception)
{
    return !PyErr_GivenExceptionMatches(exception, PyExc_Exception);
}

void stkpy_error_forget(void)
{
    if (!PyErr_Occurred())
        return;
    const bool interrupt = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
    PyErr_Clear();
    if (interrupt)
        PyErr_SetInterrupt();
}

stk_status stkpy_exception_status(void)
{
    if (PyErr_Occurred() && is_exit(PyErr_Occurred()))
        return STK_CANCELLED;
    if (PyErr_ExceptionMatches(PyExc_MemoryError))
        return STK_NOMEM;
    if (PyErr_ExceptionMatches(classes[STK_CORRUPT]))
        return STK_CORRUPT;
    if (PyErr_ExceptionMatches(PyExc_OSError) || PyErr_ExceptionMatches(PyExc_EOFError))
        return STK_IO;
    return STK_INVALID;
}

/* ---- from the record of an error to an exception ---- */

/* Steals `value`; false with an exception. */
static bool set_attribute(PyObject *object, const char *name, PyObject *value)
{
    if (!value)
        return false;
    const int failed = PyObject_SetAttrString(object, name, value);
    Py_DECREF(value);
    return failed == 0;
}

static PyObject *none(void)
{
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject *text_or_none(const char *text)
{
    return *text ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "backslashreplace") : none();
}

/* Names of files may hold any byte; Python's way to write them can be given back to open(). */
static PyObject *path_or_none(const char *path)
{
    return *path ? PyUnicode_DecodeUTF8(path, (Py_ssize_t)strlen(path), "surrogateescape") : none();
}

static PyObject *number_or_none(int64_t number, int64_t unknown)
{
    return number != unknown ? PyLong_FromLongLong(number) : none();
}

static bool set_places(PyObject *e, const stk_error *err)
{
    return set_attribute(e, "status", PyUnicode_FromString(stk_status_name(err->status))) &&
           set_attribute(e, "message", text_or_none(err->message)) &&
           set_attribute(e, "file", path_or_none(err->file)) &&
           set_attribute(e, "offset", number_or_none(err->offset, -1)) &&
           set_attribute(e, "record", number_or_none(err->record, -1)) &&
           set_attribute(e, "field", text_or_none(err->field)) && set_attribute(e, "op", text_or_none(err->op)) &&
           set_attribute(e, "line", number_or_none(err->line, 0)) &&
           set_attribute(e, "column", number_or_none(err->column, 0));
}

static PyObject *class_of(const stk_error *err)
{
    return (int)err->status < CLASS_COUNT && classes[err->status] ? classes[err->status] : base_class;
}

/* The place in the text is told where the text is wrong. Ops that methods made stand in a text that nobody wrote, and what is
   wrong with a file is not mended there; the attributes have the place all the same. */
static void format_line(const stk_error *err, char *out, size_t size)
{
    stk_error shown = *err;
    if (err->status != STK_INVALID || err->file[0])
        shown.line = shown.column = 0;
    stk_error_format(&shown, out, size);
}

/* `cause` is borrowed and may be NULL. */
static PyObject *raise_from(const stk_error *err, PyObject *class, PyObject *cause)
{
    char line[2048];
    format_line(err, line, sizeof line);
    PyObject *text = PyUnicode_DecodeUTF8(line, (Py_ssize_t)strlen(line), "backslashreplace");
    PyObject *e = text ? PyObject_CallFunctionObjArgs(class, text, NULL) : NULL;
    Py_XDECREF(text);
    if (!e)
        return NULL;
    if (set_places(e, err)) {
        if (cause) {
            Py_INCREF(cause);
            PyException_SetCause(e, cause);
        }
        PyErr_SetObject(class, e);
    }
    Py_DECREF(e);
    return NULL;
}

/* A signal that came meanwhile is the likely reason of any error, and what the user waits for. */
static bool signal_came(void)
{
    return PyErr_CheckSignals() < 0;
}

PyObject *stkpy_raise(const stk_error *err)
{
    if (signal_came())
        return NULL;
    return raise_from(err, class_of(err), NULL);
}

PyObject *stkpy_raise_fork(long pid)
{
    PyObject *text =
        PyUnicode_FromFormat("opened before a fork, in process %ld; make the loader in the child, or use one "
                             "process: stoker needs no workers",
                             pid);
    PyObject *e = text ? PyObject_CallFunctionObjArgs(fork_class, text, NULL) : NULL;
    if (e && set_attribute(e, "status", PyUnicode_FromString("FORK")) &&
        PyObject_SetAttrString(e, "message", text) == 0)
        PyErr_SetObject(fork_class, e);
    Py_XDECREF(text);
    Py_XDECREF(e);
    return NULL;
}

/* ---- exceptions of Python functions that the engine called ---- */

/* Each holds frames with arrays; the one that ends the run is among the last. */
enum { KEPT_MOST = 16 };

/* "ValueError: text", at most so long; the same for the same exception. */
static void describe(PyObject *exception, char *out, size_t size)
{
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(exception), "__name__");
    PyObject *text = PyObject_Str(exception);
    PyObject *both =
        name && text ? PyUnicode_FromFormat(PyUnicode_GetLength(text) ? "%U: %U" : "%U", name, text) : NULL;
    PyObject *bytes = both ? PyUnicode_AsEncodedString(both, "utf-8", "backslashreplace") : NULL;
    stkpy_error_forget(); /* an exception that cannot even be written */
    snprintf(out, size, "%s", bytes ? PyBytes_AsString(bytes) : "an exception that has no text");
    Py_XDECREF(name);
    Py_XDECREF(text);
    Py_XDECREF(both);
    Py_XDECREF(bytes);
}

/* The exception that is set, as one object with its traceback; NULL when there is none. */
static PyObject *take_exception(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (!type)
        return NULL;
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback)
        PyException_SetTraceback(value, traceback);
    Py_XDECREF(traceback);
    Py_DECREF(type);
    return value;
}

/* One that ends the program stays, however many follow. */
static bool drop_oldest(PyObject *list)
{
    const Py_ssize_t first = is_exit(PyList_GetItem(list, 0)) ? 1 : 0;
    return PyList_Size(list) <= KEPT_MOST || PyList_SetSlice(list, first, first + 1, NULL) == 0;
}

void stkpy_keep_object(stkpy_kept *kept, PyObject *exception)
{
    if (!kept->exception)
        kept->exception = PyList_New(0);
    if (!kept->exception || PyList_Append(kept->exception, exception) < 0 ||
        !drop_oldest(kept->exception))
        stkpy_error_forget();
}

stk_status stkpy_keep_exception(stkpy_kept *kept, stk_error *err, stk_status status, const char *what)
{
    char text[400];
    PyObject *exception = take_exception();
    if (!exception)
        return stk_error_set(err, status, "%s failed", what && *what ? what : "a Python function");
    describe(exception, text, sizeof text);
    if (is_exit(exception))
        status = STK_CANCELLED; /* no bad record, whatever the policy */
    if (kept)
        stkpy_keep_object(kept, exception);
    Py_DECREF(exception);
    if (!what || !*what)
        return stk_error_set(err, status, "%s", text);
    return stk_error_set(err, status, "%.80s: %s", what, text);
}

/* Ctrl-C, and the exit that a function asked for, are raised as what they are. */
static bool raise_exit(PyObject *all)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(all); i++) {
        PyObject *exception = PyTuple_GetItem(all, i);
        if (is_exit(exception)) {
            PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
            return true;
        }
    }
    return false;
}

PyObject *stkpy_raise_kept(const stk_error *err, const stkpy_kept *kept, bool running)
{
    /* A copy: writing an exception down runs Python, which lets other threads add more. */
    if (signal_came())
        return NULL;
    PyObject *all = kept->exception ? PyList_AsTuple(kept->exception) : NULL;
    PyObject *cause = NULL;
    if (!all)
        PyErr_Clear();
    if (all && err->status == STK_CANCELLED && raise_exit(all)) {
        Py_DECREF(all);
        return NULL;
    }
    /* Records that were skipped leave exceptions behind too: only the one that the message is about is the cause. */
    for (Py_ssize_t i = all ? PyTuple_Size(all) : 0; !cause && i-- > 0;) {
        char text[400];
        PyObject *exception = PyTuple_GetItem(all, i);
        describe(exception, text, sizeof text);
        if (err->status == STK_LIMIT || strstr(err->message, text))
            cause = exception;
    }
    raise_from(err, running && cause && err->status == STK_INVALID ? function_class : class_of(err), cause);
    Py_XDECREF(all);
    return NULL;
}
