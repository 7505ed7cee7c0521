/* Column.tolist: values as Python objects, nested by shape. */
#include <math.h>
#include <string.h>

#include "run.h"

/* ---- one element ---- */

static double half_to_double(uint16_t bits)
{
    const int exponent = (bits >> 10) & 31;
    const int fraction = bits & 1023;
    const double sign = bits >> 15 ? -1 : 1;
    if (exponent == 31)
        return fraction ? (double)NAN : sign * (double)INFINITY;
    return exponent ? sign * ldexp(fraction + 1024, exponent - 25) : sign * ldexp(fraction, -24);
}

static double bfloat_to_double(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static PyObject *bytes_object(const stk_bytes *view)
{
    return PyBytes_FromStringAndSize((const char *)view->data, (Py_ssize_t)view->size);
}

static PyObject *element(stk_dtype dtype, const void *data, Py_ssize_t i)
{
    switch (dtype) {
    case STK_BOOL:
        return PyBool_FromLong(((const uint8_t *)data)[i]);
    case STK_UINT8:
        return PyLong_FromLong(((const uint8_t *)data)[i]);
    case STK_INT8:
        return PyLong_FromLong(((const int8_t *)data)[i]);
    case STK_UINT16:
        return PyLong_FromLong(((const uint16_t *)data)[i]);
    case STK_INT16:
        return PyLong_FromLong(((const int16_t *)data)[i]);
    case STK_UINT32:
        return PyLong_FromUnsignedLong(((const uint32_t *)data)[i]);
    case STK_INT32:
        return PyLong_FromLong(((const int32_t *)data)[i]);
    case STK_UINT64:
        return PyLong_FromUnsignedLongLong(((const uint64_t *)data)[i]);
    case STK_INT64:
        return PyLong_FromLongLong(((const int64_t *)data)[i]);
    case STK_FLOAT16:
        return PyFloat_FromDouble(half_to_double(((const uint16_t *)data)[i]));
    case STK_BFLOAT16:
        return PyFloat_FromDouble(bfloat_to_double(((const uint16_t *)data)[i]));
    case STK_FLOAT32:
        return PyFloat_FromDouble((double)((const float *)data)[i]);
    case STK_FLOAT64:
        return PyFloat_FromDouble(((const double *)data)[i]);
    default:
        return bytes_object((const stk_bytes *)data + i);
    }
}

/* ---- nests ---- */

/* The elements from *at on, as lists of that shape; without dimensions, one element. */
static PyObject *nest(const stkpy_column *column, const int64_t *shape, int ndim, Py_ssize_t *at)
{
    if (ndim == 0)
        return element(column->dtype, column->data, (*at)++);
    PyObject *list = PyList_New((Py_ssize_t)shape[0]);
    for (int64_t i = 0; list && i < shape[0]; i++) {
        PyObject *item = nest(column, shape + 1, ndim - 1, at);
        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* The shape of a row; where one dimension alone varies, its elements tell. */
static void row_shape(const stkpy_column *column, Py_ssize_t row, int64_t *out)
{
    const stk_column *source = column->source;
    const int ndim = column->ndim - 1;
    if (source->row_shapes) {
        memcpy(out, source->row_shapes + (int64_t)row * ndim, sizeof *out * (size_t)ndim);
        return;
    }
    int64_t fixed = 1;
    for (int d = 0; d < ndim; d++)
        fixed *= column->shape[d + 1] > 0 ? column->shape[d + 1] : 1;
    for (int d = 0; d < ndim; d++)
        out[d] = column->shape[d + 1] >= 0 ? column->shape[d + 1]
                                           : (source->offsets[row + 1] - source->offsets[row]) / fixed;
}

PyObject *stkpy_column_tolist(PyObject *self, PyObject *none)
{
    const stkpy_column *column = (stkpy_column *)self;
    int64_t shape[STK_MAX_DIMS + 1];
    Py_ssize_t at = 0;
    if (!column->ragged) {
        for (int d = 0; d < column->ndim; d++)
            shape[d] = column->shape[d];
        return nest(column, shape, column->ndim, &at);
    }
    PyObject *list = PyList_New(column->shape[0]);
    for (Py_ssize_t row = 0; list && row < column->shape[0]; row++) {
        at = (Py_ssize_t)column->source->offsets[row];
        row_shape(column, row, shape);
        PyObject *item = nest(column, shape, column->ndim - 1, &at);
        if (!item || PyList_SetItem(list, row, item) < 0)
            Py_CLEAR(list);
    }
    return list;
}
