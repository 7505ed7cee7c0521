/* The registry as Python sees it: every op with its options as JSON, and the ops of a pipeline's text. */
#include <ctype.h>
#include <string.h>

#include "run.h"

/* Steals `item`. */
static int append(PyObject *list, PyObject *item)
{
    const int failed = !item || PyList_Append(list, item) < 0;
    Py_XDECREF(item);
    return failed ? -1 : 0;
}

/* The ops that call Python are no part of the language: pipe.map and stoker.source write them. */
static bool is_python(const stk_op *op)
{
    return op->group && strcmp(op->group, "python") == 0;
}

static PyObject *op_json(const stk_op *op)
{
    char *json = NULL;
    stk_error err;
    if (stk_op_json(op, &json, &err) != STK_OK)
        return stkpy_raise(&err);
    PyObject *text = PyUnicode_FromString(json);
    stk_free(json);
    return text;
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
        if ((python || !is_python(op)) && append(list, op_json(op)) < 0)
            Py_CLEAR(list);
    }
    PyObject *comma = list ? PyUnicode_FromString(",\n") : NULL;
    PyObject *joined = comma ? PyUnicode_Join(comma, list) : NULL;
    PyObject *text = joined ? PyUnicode_FromFormat("[%U]", joined) : NULL;
    Py_XDECREF(joined);
    Py_XDECREF(comma);
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
    return Py_BuildValue("(s#snn)", text + op->begin, (Py_ssize_t)length, op->op ? stk_role_name(op->op->role) : "",
                         characters(text, op->begin), characters(text, op->end));
}

static PyObject *field_tuple(const stk_field *field)
{
    PyObject *shape = PyTuple_New(field->ndim);
    for (int d = 0; shape && d < field->ndim; d++) {
        PyObject *extent = PyLong_FromLongLong(field->shape[d]);
        if (!extent || PyTuple_SetItem(shape, d, extent) < 0)
            Py_CLEAR(shape);
    }
    PyObject *name = shape ? stkpy_field_name(field->name) : NULL;
    PyObject *made = name ? Py_BuildValue("(OsO)", name, stk_dtype_name(field->dtype), shape) : NULL;
    Py_XDECREF(name);
    Py_XDECREF(shape);
    return made;
}

static PyObject *plan_fields(const char *text, PyObject *functions)
{
    stkpy_kept kept = {0};
    stkpy_watch watch = {.looked_ns = stkpy_now_ns()};
    stk_config config = {.struct_size = sizeof config,
                         .registry = stkpy_registry(),
                         .progress = stkpy_watch_progress,
                         .progress_arg = &watch};
    stk_field *fields = NULL;
    size_t count = 0;
    stk_error err;
    stk_status status;
    stk_error_clear(&err);
    stkpy_functions_set(functions, &kept);
    Py_BEGIN_ALLOW_THREADS;
    status = stk_text_fields(text, &config, &fields, &count, &err);
    Py_END_ALLOW_THREADS;
    stkpy_functions_set(NULL, NULL);
    PyObject *list = status == STK_OK ? PyList_New(0) : NULL;
    if (watch.type) {
        Py_CLEAR(list);
        PyErr_Restore(watch.type, watch.value, watch.traceback);
    } else if (status != STK_OK) {
        stkpy_raise_kept(&err, &kept, false);
    }
    for (size_t i = 0; list && i < count; i++) {
        if (append(list, field_tuple(&fields[i])) < 0)
            Py_CLEAR(list);
    }
    stk_free(fields);
    Py_XDECREF(kept.exception);
    return list;
}

PyObject *stkpy_text_fields(PyObject *module, PyObject *args)
{
    PyObject *text, *functions = NULL, *list = NULL;
    char *bytes = NULL;
    if (!PyArg_ParseTuple(args, "U|O!:text_fields", &text, &PyTuple_Type, &functions))
        return NULL;
    PyObject *encoded = PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape");
    if (encoded && PyBytes_AsStringAndSize(encoded, &bytes, NULL) == 0)
        list = plan_fields(bytes, functions);
    Py_XDECREF(encoded);
    return list;
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
