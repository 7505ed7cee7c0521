/* Values of fields as Python objects and back: NumPy arrays and scalars, bytes, and what can be taken for them. */
#include "op_python.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compat.h"

enum { LONG_COPY = 64 * 1024 };

/* ---- tools and fields ---- */

int stkpy_tools_make(stkpy_tools *tools)
{
    PyObject *module = PyImport_ImportModule("stoker._functions");
    if (!module)
        return -1;
    PyObject *all = PyObject_CallMethod(module, "tools", NULL);
    Py_DECREF(module);
    if (!all)
        return -1;
    const int ok =
        PyArg_ParseTuple(all, "OOOOO", &tools->empty, &tools->scalar, &tools->dtype, &tools->fit, &tools->contents);
    if (!ok)
        *tools = (stkpy_tools){0};
    Py_XINCREF(tools->empty);
    Py_XINCREF(tools->scalar);
    Py_XINCREF(tools->dtype);
    Py_XINCREF(tools->fit);
    Py_XINCREF(tools->contents);
    Py_DECREF(all);
    return ok ? 0 : -1;
}

void stkpy_tools_clear(stkpy_tools *tools)
{
    Py_CLEAR(tools->empty);
    Py_CLEAR(tools->scalar);
    Py_CLEAR(tools->dtype);
    Py_CLEAR(tools->fit);
    Py_CLEAR(tools->contents);
}

static PyObject *shape_tuple(const int64_t *dims, int ndim)
{
    PyObject *shape = PyTuple_New(ndim);
    for (int d = 0; shape && d < ndim; d++) {
        PyObject *extent = NULL;
        if (dims[d] >= 0) {
            extent = PyLong_FromLongLong(dims[d]);
        } else {
            extent = Py_None;
            Py_INCREF(extent);
        }
        if (!extent || PyTuple_SetItem(shape, d, extent) < 0)
            Py_CLEAR(shape);
    }
    return shape;
}

static int find_dtypes(stkpy_field *field, const stkpy_tools *tools)
{
    PyObject *dtype, *view;
    PyObject *both = PyObject_CallFunction(tools->dtype, "s", stk_dtype_name(field->type));
    const int ok = both && PyArg_ParseTuple(both, "OO", &dtype, &view);
    if (ok) {
        Py_INCREF(field->dtype = dtype);
        if (view != Py_None)
            Py_INCREF(field->view = view);
    }
    Py_XDECREF(both);
    return ok ? 0 : -1;
}

int stkpy_field_make(stkpy_field *out, const stkpy_tools *tools, const stk_field *field, int id)
{
    *out = (stkpy_field){.type = field->dtype, .ndim = field->ndim, .id = id, .fixed = true, .wanted = true};
    const size_t length = strlen(field->name);
    size_t bytes = stk_dtype_size(field->dtype);
    out->text = malloc(length + 1);
    if (!out->text) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(out->text, field->name, length + 1);
    for (int d = 0; d < field->ndim; d++) {
        out->dims[d] = field->shape[d];
        out->fixed = out->fixed && field->shape[d] >= 0;
        bytes *= (size_t)(field->shape[d] >= 0 ? field->shape[d] : 0); /* the plan has seen that it fits */
    }
    out->row_bytes = out->fixed ? bytes : 0;
    out->name = PyUnicode_DecodeUTF8(field->name, (Py_ssize_t)length, "surrogateescape");
    if (!out->name)
        return -1;
    PyUnicode_InternInPlace(&out->name);
    /* Dimensions that vary are None, for messages and checks. */
    out->shape = shape_tuple(out->dims, out->ndim);
    if (!out->shape || field->dtype == STK_BYTES)
        return out->shape ? 0 : -1;
    return find_dtypes(out, tools);
}

void stkpy_field_clear(stkpy_field *field)
{
    free(field->text);
    field->text = NULL;
    Py_CLEAR(field->name);
    Py_CLEAR(field->dtype);
    Py_CLEAR(field->view);
    Py_CLEAR(field->shape);
}

void stkpy_fields_free(stkpy_field *fields, size_t count)
{
    for (size_t i = 0; fields && i < count; i++)
        stkpy_field_clear(&fields[i]);
    free(fields);
}

stk_status stkpy_field_read(const stk_host *host, const stk_named_arg *arg, stk_field *out, stk_error *err)
{
    const stk_arg *type = &arg->value;
    int dtype = 0;
    const bool named = type->kind == STK_ARG_NAME || type->kind == STK_ARG_TYPE;
    while (named && dtype < STK_DTYPE_COUNT && strcmp(type->text, stk_dtype_name((stk_dtype)dtype)) != 0)
        dtype++;
    if (!named || dtype == STK_DTYPE_COUNT || type->mod_count > 0)
        return host->fail(err, STK_INVALID,
                          "field '%s' must be of a type such as float32[3,4], int64, uint8[?,?,3] or bytes", arg->name);
    if (type->item_count > STK_MAX_DIMS)
        return host->fail(err, STK_INVALID, "field '%s' has %zu dimensions, wanted at most %d", arg->name,
                          type->item_count, STK_MAX_DIMS);
    *out = (stk_field){.name = arg->name, .dtype = (stk_dtype)dtype, .ndim = (int32_t)type->item_count};
    for (size_t d = 0; d < type->item_count; d++)
        out->shape[d] = type->items[d].integer;
    return STK_OK;
}

/* Copies with the GIL held, which it lets go of for those that take longer than the change of hands. */
static void copy_bytes(void *out, const void *in, size_t bytes)
{
    if (bytes < LONG_COPY) {
        if (bytes)
            memcpy(out, in, bytes);
        return;
    }
    Py_BEGIN_ALLOW_THREADS;
    memcpy(out, in, bytes);
    Py_END_ALLOW_THREADS;
}

/* ---- from the engine to Python ---- */

static PyObject *bytes_list(const stk_bytes **next, const int64_t *shape, int ndim)
{
    if (ndim == 0) {
        const stk_bytes *one = (*next)++;
        return PyBytes_FromStringAndSize((const char *)one->data, (Py_ssize_t)one->size);
    }
    PyObject *list = PyList_New((Py_ssize_t)shape[0]);
    for (int64_t i = 0; list && i < shape[0]; i++) {
        PyObject *item = bytes_list(next, shape + 1, ndim - 1);
        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *new_scalar(const stkpy_tools *tools, const stkpy_field *field, const stk_value *value)
{
    PyObject *bytes = PyBytes_FromStringAndSize(value->data, (Py_ssize_t)stk_dtype_size(field->type));
    PyObject *scalar = bytes ? PyObject_CallFunctionObjArgs(tools->scalar, field->dtype, bytes, NULL) : NULL;
    Py_XDECREF(bytes);
    return scalar;
}

static PyObject *new_array(const stkpy_tools *tools, const stkpy_field *field, const stk_value *value)
{
    PyObject *shape = NULL;
    if (field->fixed) {
        shape = field->shape;
        Py_INCREF(shape);
    } else {
        shape = shape_tuple(value->shape, field->ndim);
    }
    PyObject *array = shape ? PyObject_CallFunctionObjArgs(tools->empty, shape, field->dtype, NULL) : NULL;
    Py_XDECREF(shape);
    Py_buffer view;
    if (!array || PyObject_GetBuffer(array, &view, PyBUF_WRITABLE) < 0) {
        Py_XDECREF(array);
        return NULL;
    }
    const size_t bytes = (size_t)value->elements * stk_dtype_size(field->type);
    if (bytes == (size_t)view.len)
        copy_bytes(view.buf, value->data, bytes);
    PyBuffer_Release(&view);
    return array;
}

PyObject *stkpy_value_get(const stkpy_tools *tools, const stkpy_field *field, const stk_value *value)
{
    if (field->type == STK_BYTES) {
        const stk_bytes *next = value->data;
        return bytes_list(&next, field->fixed ? field->dims : value->shape, field->ndim);
    }
    PyObject *made = field->ndim == 0 ? new_scalar(tools, field, value) : new_array(tools, field, value);
    if (!made || !field->view)
        return made;
    PyObject *view = PyObject_CallMethod(made, "view", "O", field->view);
    Py_DECREF(made);
    return view;
}

/* ---- from Python to the engine ---- */

static stkpy_result put(const stk_call *call, stk_sample *sample, const stkpy_field *field, const void *data,
                        const int64_t *shape, size_t bytes, stk_error *err)
{
    void *out = stk_out(call, sample, field->id, field->fixed ? NULL : shape, err);
    if (!out)
        return STKPY_FAILED;
    copy_bytes(out, data, bytes);
    return STKPY_OK;
}

static bool fits_double(stk_dtype type, double number, void *out, size_t *out_size)
{
    if (type == STK_FLOAT64) {
        memcpy(out, &number, *out_size = sizeof number);
        return true;
    }
    if (type != STK_FLOAT32)
        return false;
    const float narrow = (float)number; /* a Python float has no width of its own, so it may be rounded */
    memcpy(out, &narrow, *out_size = sizeof narrow);
    return isfinite(narrow) || !isfinite(number);
}

#define INTEGER(type, T, low, high)                 \
    case type: {                                    \
        const T x = (T)number;                      \
        memcpy(out, &x, *out_size = sizeof x);      \
        return number >= (low) && number <= (high); \
    }

static bool fits_long(stk_dtype type, long long number, void *out, size_t *out_size)
{
    switch (type) {
        INTEGER(STK_UINT8, uint8_t, 0, UINT8_MAX)
        INTEGER(STK_INT8, int8_t, INT8_MIN, INT8_MAX)
        INTEGER(STK_UINT16, uint16_t, 0, UINT16_MAX)
        INTEGER(STK_INT16, int16_t, INT16_MIN, INT16_MAX)
        INTEGER(STK_UINT32, uint32_t, 0, UINT32_MAX)
        INTEGER(STK_INT32, int32_t, INT32_MIN, INT32_MAX)
        INTEGER(STK_UINT64, uint64_t, 0, LLONG_MAX)
        INTEGER(STK_INT64, int64_t, INT64_MIN, INT64_MAX)
    case STK_FLOAT32:
        return number >= -(1 << 24) && number <= 1 << 24 && fits_double(type, (double)number, out, out_size);
    case STK_FLOAT64:
        return number >= -(1LL << 53) && number <= 1LL << 53 && fits_double(type, (double)number, out, out_size);
    default:
        return false;
    }
}

/* A Python number for a scalar field, where that is plain. */
static bool fits_number(const stkpy_field *field, PyObject *object, void *out, size_t *out_size)
{
    if (object == Py_True || object == Py_False) {
        const uint8_t x = object == Py_True;
        if (field->type != STK_BOOL)
            return fits_long(field->type, x, out, out_size);
        memcpy(out, &x, *out_size = sizeof x);
        return true;
    }
    if (PyFloat_CheckExact(object))
        return fits_double(field->type, PyFloat_AsDouble(object), out, out_size);
    if (!PyLong_CheckExact(object))
        return false;
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    return !overflow && fits_long(field->type, number, out, out_size);
}

/* Whether a buffer's elements, by their letter in the struct module, are of the type as they lie there. */
static bool format_is(const char *format, Py_ssize_t size, stk_dtype type)
{
    static const char *const letters[STK_DTYPE_COUNT] = {
        [STK_BOOL] = "?",     [STK_UINT8] = "B",   [STK_INT8] = "b",    [STK_UINT16] = "H", [STK_INT16] = "h",
        [STK_UINT32] = "IL",  [STK_INT32] = "il",  [STK_UINT64] = "LQ", [STK_INT64] = "lq", [STK_FLOAT16] = "e",
        [STK_BFLOAT16] = "H", [STK_FLOAT32] = "f", [STK_FLOAT64] = "d",
    };
    if (!format)
        format = "B";
    return (size_t)size == stk_dtype_size(type) && format[0] && !format[1] && letters[type] &&
           strchr(letters[type], format[0]);
}

/* STKPY_OK, or STKPY_RAISED without an exception: it is not just what the field wants. */
static stkpy_result put_buffer(const stk_call *call, stk_sample *sample, const stkpy_field *field, PyObject *object,
                               stk_error *err)
{
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0) {
        stkpy_error_forget();
        return STKPY_RAISED;
    }
    bool same = view.ndim == field->ndim && format_is(view.format, view.itemsize, field->type);
    int64_t shape[STK_MAX_DIMS];
    for (int d = 0; same && d < view.ndim; d++) {
        shape[d] = view.shape[d];
        same = field->dims[d] < 0 || shape[d] == field->dims[d];
    }
    stkpy_result result = STKPY_RAISED;
    if (same)
        result = put(call, sample, field, view.buf, shape, (size_t)view.len, err);
    PyBuffer_Release(&view);
    return result;
}

static stkpy_result put_numbers(const stkpy_tools *tools, const stk_call *call, stk_sample *sample,
                                const stkpy_field *field, PyObject *object, stk_error *err)
{
    unsigned char number[8];
    size_t size = 0;
    if (field->ndim == 0 && fits_number(field, object, number, &size)) {
        void *out = stk_out(call, sample, field->id, NULL, err);
        if (out)
            memcpy(out, number, size);
        return out ? STKPY_OK : STKPY_FAILED;
    }
    stkpy_result result = STKPY_RAISED;
    if (PyObject_CheckBuffer(object))
        result = put_buffer(call, sample, field, object, err);
    if (result != STKPY_RAISED)
        return result;
    /* Anything else is made to fit, or found wrong, in Python. */
    PyObject *array =
        PyObject_CallFunction(tools->fit, "OsOO", object, stk_dtype_name(field->type), field->shape, field->name);
    if (!array)
        return STKPY_RAISED;
    result = put_buffer(call, sample, field, array, err);
    Py_DECREF(array);
    if (result == STKPY_RAISED)
        PyErr_Format(PyExc_RuntimeError, "the array cannot be read as %s", stk_dtype_name(field->type));
    return result;
}

static stkpy_result put_one_bytes(const stk_call *call, stk_sample *sample, const stkpy_field *field, const char *data,
                                  Py_ssize_t size, stk_error *err)
{
    void *copy = stk_bytes_block(call, field->id, size > 0 ? (size_t)size : 1, err);
    if (!copy)
        return STKPY_FAILED;
    copy_bytes(copy, data, (size_t)size);
    stk_set_bytes(call, sample, field->id, copy, (int64_t)size, true);
    return STKPY_OK;
}

/* `contents` is a list of bytes objects, one for each element. */
static stkpy_result put_many_bytes(const stk_call *call, stk_sample *sample, const stkpy_field *field,
                                   PyObject *contents, const int64_t *shape, stk_error *err)
{
    stk_bytes *views = stk_out(call, sample, field->id, shape, err);
    const Py_ssize_t count = PyList_Size(contents);
    if (!views)
        return STKPY_FAILED;
    for (Py_ssize_t i = 0; i < count; i++) {
        char *data;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(PyList_GetItem(contents, i), &data, &size) < 0)
            return STKPY_RAISED;
        uint8_t *copy = stk_scratch(call, size > 0 ? (size_t)size : 1, err);
        if (!copy)
            return STKPY_FAILED;
        memcpy(copy, data, (size_t)size);
        views[i] = (stk_bytes){copy, size};
    }
    return STKPY_OK;
}

static stkpy_result put_contents(const stkpy_tools *tools, const stk_call *call, stk_sample *sample,
                                 const stkpy_field *field, PyObject *object, stk_error *err)
{
    PyObject *contents = NULL, *extents = NULL;
    PyObject *pair = PyObject_CallFunctionObjArgs(tools->contents, object, field->shape, field->name, NULL);
    int64_t shape[STK_MAX_DIMS], elements = 1;
    stkpy_result result = STKPY_RAISED;
    if (!pair || !PyArg_ParseTuple(pair, "OO", &contents, &extents))
        goto out;
    for (int d = 0; d < field->ndim; d++) {
        PyObject *extent = PyTuple_GetItem(extents, d);
        shape[d] = extent ? PyLong_AsLongLong(extent) : -1;
        if (shape[d] < 0)
            goto out;
        elements *= shape[d]; /* as many as there are in the list */
    }
    if (elements != (int64_t)PyList_Size(contents)) {
        PyErr_SetString(PyExc_RuntimeError, "the contents do not fit their shape");
        goto out;
    }
    if (field->ndim == 0) {
        char *data;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(PyList_GetItem(contents, 0), &data, &size) == 0)
            result = put_one_bytes(call, sample, field, data, size, err);
    } else {
        result = put_many_bytes(call, sample, field, contents, shape, err);
    }
out:
    Py_XDECREF(pair);
    return result;
}

stkpy_result stkpy_value_set(const stkpy_tools *tools, const stk_call *call, stk_sample *sample,
                             const stkpy_field *field, PyObject *object, stk_error *err)
{
    if (field->type != STK_BYTES)
        return put_numbers(tools, call, sample, field, object, err);
    if (field->ndim == 0 && PyBytes_CheckExact(object)) {
        char *data;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(object, &data, &size) < 0)
            return STKPY_RAISED;
        return put_one_bytes(call, sample, field, data, size, err);
    }
    if (field->ndim == 0 && PyUnicode_CheckExact(object)) {
        Py_ssize_t size;
        const char *data = PyUnicode_AsUTF8AndSize(object, &size);
        return data ? put_one_bytes(call, sample, field, data, size, err) : STKPY_RAISED;
    }
    return put_contents(tools, call, sample, field, object, err);
}
