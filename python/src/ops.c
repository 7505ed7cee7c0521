/* The registry as Python sees it: every op with its options as JSON, and the ops of a pipeline's text. */
#include <ctype.h>
#include <string.h>

#include "run.h"

static const char *const kind_names[] = {
    [STK_OPTION_INT] = "int",         [STK_OPTION_FLOAT] = "float",     [STK_OPTION_BOOL] = "bool",
    [STK_OPTION_STRING] = "string",   [STK_OPTION_ENUM] = "enum",       [STK_OPTION_SIZE] = "size",
    [STK_OPTION_STRINGS] = "strings", [STK_OPTION_NUMBERS] = "numbers", [STK_OPTION_FIELD] = "field",
    [STK_OPTION_FIELDS] = "fields",   [STK_OPTION_ARGS] = "args",
};

static const char *const role_names[] = {
    [STK_ROLE_SAMPLE] = "sample",     [STK_ROLE_SOURCE] = "source", [STK_ROLE_SINK] = "sink",
    [STK_ROLE_ORDER] = "order",       [STK_ROLE_BATCH] = "batch",   [STK_ROLE_CACHE] = "cache",
    [STK_ROLE_PREFETCH] = "prefetch", [STK_ROLE_ROWS] = "rows",
};

static PyObject *none(void)
{
    Py_INCREF(Py_None);
    return Py_None;
}

/* ---- options ---- */

static PyObject *default_of(const stk_option *o)
{
    if (o->required)
        return none();
    switch (o->kind) {
    case STK_OPTION_INT:
    case STK_OPTION_SIZE:
        return PyLong_FromLongLong(o->fallback.integer);
    case STK_OPTION_FLOAT:
        return PyFloat_FromDouble(o->fallback.number);
    case STK_OPTION_BOOL:
        return PyBool_FromLong(o->fallback.integer != 0);
    case STK_OPTION_ENUM:
        return PyUnicode_FromString(o->choices[o->fallback.integer]);
    case STK_OPTION_STRING:
        return o->fallback.text ? PyUnicode_FromString(o->fallback.text) : none();
    default:
        return none();
    }
}

static PyObject *bound_of(const stk_option *o, bool max)
{
    if (o->kind == STK_OPTION_FLOAT) {
        const double bound = max ? o->max_number : o->min_number;
        return bound > -1e300 && bound < 1e300 ? PyFloat_FromDouble(bound) : none();
    }
    if (o->kind != STK_OPTION_INT && o->kind != STK_OPTION_SIZE)
        return none();
    const int64_t bound = max ? o->max : o->min;
    return bound == (max ? INT64_MAX : INT64_MIN) ? none() : PyLong_FromLongLong(bound);
}

/* Steals `item`. */
static int append(PyObject *list, PyObject *item)
{
    const int failed = !item || PyList_Append(list, item) < 0;
    Py_XDECREF(item);
    return failed ? -1 : 0;
}

static PyObject *choices_of(const stk_option *o)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && o->choices && o->choices[i]; i++) {
        if (append(list, PyUnicode_FromString(o->choices[i])) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *option_dict(const stk_option *o)
{
    return Py_BuildValue("{s:s,s:s,s:O,s:N,s:N,s:N,s:N,s:s}", "name", o->name, "kind", kind_names[o->kind], "required",
                         o->required ? Py_True : Py_False, "default", default_of(o), "min", bound_of(o, false), "max",
                         bound_of(o, true), "choices", choices_of(o), "help", o->help ? o->help : "");
}

static PyObject *options_of(const stk_op *op)
{
    PyObject *list = PyList_New(0);
    for (const stk_option *o = op->options; list && o && o->name; o++) {
        if (append(list, option_dict(o)) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* ---- ops ---- */

static PyObject *flags_of(const stk_op *op)
{
    static const struct {
        uint32_t flag;
        const char *name;
    } flags[] = {{STK_OP_RANDOM, "random"}, {STK_OP_DROPS, "drops"}, {STK_OP_ELEMENTWISE, "elementwise"}};
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < sizeof flags / sizeof *flags; i++) {
        if ((op->flags & flags[i].flag) && append(list, PyUnicode_FromString(flags[i].name)) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* Plug-ins may leave some of it out. */
static PyObject *op_dict(const stk_op *op)
{
    return Py_BuildValue("{s:s,s:s,s:z,s:z,s:z,s:s,s:N,s:N}", "name", op->name, "group",
                         op->group ? op->group : "other", "since", op->since, "summary", op->summary, "example",
                         op->example, "role", role_names[op->role], "flags", flags_of(op), "options", options_of(op));
}

/* The ops that call Python are no part of the language: pipe.map and stoker.source write them. */
static bool is_python(const stk_op *op)
{
    return op->group && strcmp(op->group, "python") == 0;
}

PyObject *stkpy_ops_json(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {(char *)"python", NULL};
    int python = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$p:ops_json", names, &python))
        return NULL;
    const stk_registry *registry = stkpy_registry();
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < stk_registry_count(registry); i++) {
        const stk_op *op = stk_registry_op(registry, i);
        if ((python || !is_python(op)) && append(list, op_dict(op)) < 0)
            Py_CLEAR(list);
    }
    PyObject *json = list ? PyImport_ImportModule("json") : NULL;
    PyObject *text = json ? PyObject_CallMethod(json, "dumps", "O", list) : NULL;
    Py_XDECREF(json);
    Py_XDECREF(list);
    return text;
}

/* ---- the text of a pipeline ---- */

/* Characters in so many bytes of UTF-8. */
static Py_ssize_t characters(const char *text, size_t bytes)
{
    Py_ssize_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

static PyObject *text_op(const char *text, const stk_text_op *op)
{
    size_t length = 0;
    while (op->begin + length < op->end &&
           (isalnum((unsigned char)text[op->begin + length]) || text[op->begin + length] == '_'))
        length++;
    return Py_BuildValue("(s#snn)", text + op->begin, (Py_ssize_t)length, op->op ? role_names[op->op->role] : "",
                         characters(text, op->begin), characters(text, op->end));
}

PyObject *stkpy_text_ops(PyObject *module, PyObject *object)
{
    PyObject *bytes = PyUnicode_Check(object) ? PyUnicode_AsEncodedString(object, "utf-8", "surrogateescape") : NULL;
    if (!bytes) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "the text of a pipeline must be a str");
        return NULL;
    }
    char *text = NULL;
    stk_text_op *ops = NULL;
    size_t count = 0;
    stk_error err;
    stk_error_clear(&err);
    PyObject *list = NULL;
    if (PyBytes_AsStringAndSize(bytes, &text, NULL) < 0) { /* raises when there is a NUL in it */
        Py_DECREF(bytes);
        return NULL;
    }
    if (stk_text_ops(text, stkpy_registry(), &ops, &count, &err) != STK_OK)
        stkpy_raise(&err);
    else
        list = PyList_New(0);
    for (size_t i = 0; list && i < count; i++) {
        if (append(list, text_op(text, &ops[i])) < 0)
            Py_CLEAR(list);
    }
    stk_text_ops_free(ops);
    Py_DECREF(bytes);
    return list;
}
