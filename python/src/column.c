/* The type Column: one field of a batch, seen through the buffer protocol and DLPack without a copy. */
#include <limits.h>
#include <string.h>

#include "compat.h"
#include "run.h"

static PyTypeObject *column_type; /* made once at import, then const */

/* Where arrays without elements are said to be: some consumers do not take NULL. */
static _Alignas(64) char nowhere[64];

enum { AHEAD = 8 };

/* ---- life ---- */

static stkpy_column *column_alloc(stkpy_hold *hold, const stk_column *source)
{
    stkpy_column *self = PyObject_New(stkpy_column, column_type);
    if (!self)
        return NULL;
    stkpy_hold_ref(hold);
    self->hold = hold;
    self->source = source;
    return self;
}

static void set_data(stkpy_column *self, const void *data, stk_dtype dtype, Py_ssize_t elements)
{
    self->data = data ? (void *)(uintptr_t)data : nowhere;
    self->dtype = dtype;
    self->itemsize = (Py_ssize_t)stk_dtype_size(dtype);
    self->elements = elements;
}

/* Rows one after the other, without gaps. */
static void set_strides(stkpy_column *self)
{
    Py_ssize_t step = self->itemsize;
    for (int d = self->ndim; d-- > 0;) {
        self->strides[d] = step;
        step *= self->shape[d] > 0 ? self->shape[d] : 1;
    }
}

PyObject *stkpy_column_new(stkpy_hold *hold, const stk_column *source)
{
    stkpy_column *self = column_alloc(hold, source);
    if (!self)
        return NULL;
    set_data(self, source->data, source->dtype, (Py_ssize_t)source->elements);
    self->ragged = source->offsets != NULL;
    self->ndim = source->ndim;
    for (int d = 0; d < self->ndim; d++)
        self->shape[d] = (Py_ssize_t)source->shape[d];
    set_strides(self);
    return (PyObject *)self;
}

/* A view of other memory of the same column: one dimension, or two. */
static PyObject *part_new(const stkpy_column *of, const void *data, stk_dtype dtype, Py_ssize_t first,
                          Py_ssize_t second)
{
    stkpy_column *self = column_alloc(of->hold, of->source);
    if (!self)
        return NULL;
    set_data(self, data, dtype, second < 0 ? first : first * second);
    self->ragged = false;
    self->ndim = second < 0 ? 1 : 2;
    self->shape[0] = first;
    self->shape[1] = second;
    set_strides(self);
    return (PyObject *)self;
}

static void column_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    stkpy_hold_unref(((stkpy_column *)self)->hold);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ---- the buffer protocol ---- */

bool stkpy_column_is_array(const stkpy_column *self)
{
    if (self->dtype == STK_BYTES)
        PyErr_Format(PyExc_BufferError, "field '%s' holds bytes of any length, which are no array; tolist() gives them",
                     self->source->name);
    else if (self->ragged)
        PyErr_Format(PyExc_BufferError,
                     "field '%s' is ragged: its rows differ in shape; values, offsets and row_shapes are arrays",
                     self->source->name);
    else
        return true;
    return false;
}

/* NumPy has two types of 64 bits: "l" is the one that it calls int64 itself, "q" is equal but not the same. */
#if LONG_MAX > 2147483647
#define INT64_FORMAT "l"
#define UINT64_FORMAT "L"
#else
#define INT64_FORMAT "q"
#define UINT64_FORMAT "Q"
#endif

static const char *format_of(stk_dtype dtype)
{
    static const char *const formats[STK_DTYPE_COUNT] = {
        [STK_BOOL] = "?",           [STK_UINT8] = "B",   [STK_INT8] = "b",     [STK_UINT16] = "H",
        [STK_INT16] = "h",          [STK_UINT32] = "I",  [STK_INT32] = "i",    [STK_UINT64] = UINT64_FORMAT,
        [STK_INT64] = INT64_FORMAT, [STK_FLOAT16] = "e", [STK_BFLOAT16] = "H", [STK_FLOAT32] = "f",
        [STK_FLOAT64] = "d",
    };
    return formats[dtype];
}

static int column_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    stkpy_column *self = (stkpy_column *)object;
    view->obj = NULL;
    if (!stkpy_column_is_array(self))
        return -1;
    if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && self->ndim > 1) {
        PyErr_SetString(PyExc_BufferError, "a batch is stored row by row, not in Fortran order");
        return -1;
    }
    Py_INCREF(object);
    *view = (Py_buffer){
        .buf = self->data,
        .obj = object,
        .len = self->elements * self->itemsize,
        .itemsize = self->itemsize,
        .ndim = (flags & PyBUF_ND) ? self->ndim : 1,
        .format = (flags & PyBUF_FORMAT) ? (char *)(uintptr_t)format_of(self->dtype) : NULL,
        .shape = (flags & PyBUF_ND) ? self->shape : NULL,
        .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->strides : NULL,
    };
    return 0;
}

/* ---- bytes in an array of objects ---- */

static bool is_object_array(const Py_buffer *view, const stkpy_column *self)
{
    if (self->dtype == STK_BYTES && view->itemsize == (Py_ssize_t)sizeof(PyObject *) && view->format &&
        !strcmp(view->format, "O") && view->len == self->elements * (Py_ssize_t)sizeof(PyObject *))
        return true;
    PyErr_Format(PyExc_TypeError, "an array of %zd objects is wanted, for a column of bytes", self->elements);
    return false;
}

static bool put_bytes(const stk_bytes *views, PyObject **slots, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            __builtin_prefetch(views[i + AHEAD].data); /* other cores have written it */
        PyObject *old = slots[i];
        PyObject *item = PyBytes_FromStringAndSize((const char *)views[i].data, (Py_ssize_t)views[i].size);
        if (!item)
            return false;
        slots[i] = item;
        Py_XDECREF(old);
    }
    return true;
}

/* Faster than NumPy's way from a list, which looks at each item to find out what it is. */
static PyObject *column_put_into(PyObject *object, PyObject *array)
{
    stkpy_column *self = (stkpy_column *)object;
    Py_buffer view;
    if (PyObject_GetBuffer(array, &view, PyBUF_ND | PyBUF_WRITABLE | PyBUF_FORMAT) < 0)
        return NULL;
    const bool done = is_object_array(&view, self) && put_bytes(self->data, view.buf, self->elements);
    PyBuffer_Release(&view);
    if (!done)
        return NULL;
    Py_INCREF(array);
    return array;
}

/* ---- attributes ---- */

PyObject *stkpy_field_name(const char *name)
{
    return PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "surrogateescape");
}

static PyObject *column_name(PyObject *self, void *closure)
{
    return stkpy_field_name(((stkpy_column *)self)->source->name);
}

static PyObject *column_dtype(PyObject *self, void *closure)
{
    return PyUnicode_FromString(stk_dtype_name(((stkpy_column *)self)->dtype));
}

static PyObject *column_shape(PyObject *object, void *closure)
{
    const stkpy_column *self = (stkpy_column *)object;
    PyObject *shape = PyTuple_New(self->ndim);
    for (int d = 0; shape && d < self->ndim; d++) {
        PyObject *extent = PyLong_FromSsize_t(self->shape[d]);
        if (!extent || PyTuple_SetItem(shape, d, extent) < 0)
            Py_CLEAR(shape);
    }
    return shape;
}

static PyObject *column_rows(PyObject *self, void *closure)
{
    return PyLong_FromSsize_t(((stkpy_column *)self)->shape[0]);
}

static PyObject *column_itemsize(PyObject *self, void *closure)
{
    return PyLong_FromSsize_t(((stkpy_column *)self)->itemsize);
}

static PyObject *column_nbytes(PyObject *object, void *closure)
{
    const stkpy_column *self = (stkpy_column *)object;
    return PyLong_FromLongLong(self->dtype == STK_BYTES ? (long long)self->source->size_bytes
                                                        : (long long)(self->elements * self->itemsize));
}

static PyObject *column_pointer(PyObject *self, void *closure)
{
    return PyLong_FromVoidPtr(((stkpy_column *)self)->data);
}

static PyObject *column_ragged(PyObject *self, void *closure)
{
    return PyBool_FromLong(((stkpy_column *)self)->ragged);
}

/* Parts of a column have the same source: only the column itself, which shares its data, is padded. */
static bool is_whole(const stkpy_column *self)
{
    return self->data == self->source->data || (!self->source->data && self->data == nowhere);
}

static PyObject *column_padded(PyObject *object, void *closure)
{
    const stkpy_column *self = (stkpy_column *)object;
    return PyBool_FromLong(is_whole(self) && !self->source->offsets && self->source->row_shapes);
}

static PyObject *column_values(PyObject *object, void *closure)
{
    const stkpy_column *self = (stkpy_column *)object;
    if (self->ragged)
        return part_new(self, self->source->data, self->dtype, self->elements, -1);
    Py_INCREF(object);
    return object;
}

static PyObject *column_offsets(PyObject *object, void *closure)
{
    const stkpy_column *self = (stkpy_column *)object;
    if (!self->ragged)
        Py_RETURN_NONE;
    return part_new(self, self->source->offsets, STK_INT64, self->shape[0] + 1, -1);
}

static PyObject *column_row_shapes(PyObject *object, void *closure)
{
    const stkpy_column *self = (stkpy_column *)object;
    if (!self->source->row_shapes || !is_whole(self) || (self->source->offsets && !self->ragged))
        Py_RETURN_NONE;
    return part_new(self, self->source->row_shapes, STK_INT64, self->shape[0], self->ndim - 1);
}

static PyObject *column_repr(PyObject *object)
{
    const stkpy_column *self = (stkpy_column *)object;
    PyObject *shape = column_shape(object, NULL);
    PyObject *text = shape ? PyUnicode_FromFormat("<stoker Column '%s': %s %R>", self->source->name,
                                                  stk_dtype_name(self->dtype), shape)
                           : NULL;
    Py_XDECREF(shape);
    return text;
}

static PyMethodDef column_methods[] = {
    {"tolist", stkpy_column_tolist, METH_NOARGS, "The values as Python objects, nested by shape."},
    {"_put_into", column_put_into, METH_O, "Puts a column of bytes into an array of objects; returns it."},
    {"__dlpack__", (PyCFunction)(void (*)(void))stkpy_column_dlpack, METH_VARARGS | METH_KEYWORDS,
     "A DLPack capsule on the batch's memory."},
    {"__dlpack_device__", stkpy_column_dlpack_device, METH_NOARGS, "The CPU: (1, 0)."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef column_getset[] = {
    {"name", column_name, NULL, "Name of the field.", NULL},
    {"dtype", column_dtype, NULL, "Name of the element type.", NULL},
    {"shape", column_shape, NULL, "Rows, then the shape of one; -1 where it varies.", NULL},
    {"rows", column_rows, NULL, "The first dimension.", NULL},
    {"itemsize", column_itemsize, NULL, "Bytes of an element.", NULL},
    {"nbytes", column_nbytes, NULL, "Bytes of all elements.", NULL},
    {"pointer", column_pointer, NULL, "Address of the first element.", NULL},
    {"ragged", column_ragged, NULL, "Whether rows differ in shape.", NULL},
    {"padded", column_padded, NULL, "Whether rows were made equal by padding; row_shapes has what they were.", NULL},
    {"values", column_values, NULL, "Ragged: the elements of all rows one after the other; else itself.", NULL},
    {"offsets", column_offsets, NULL, "Ragged: where each row begins in values, and the end; else None.", NULL},
    {"row_shapes", column_row_shapes, NULL, "The shape of each row, where offsets or padding do not tell; else None.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot column_slots[] = {
    {Py_tp_doc, (char *)"One field of a batch, by the buffer protocol and DLPack; keeps the batch alive."},
    {Py_tp_dealloc, (void *)(uintptr_t)column_dealloc},
    {Py_tp_repr, (void *)(uintptr_t)column_repr},
    {Py_tp_methods, column_methods},
    {Py_tp_getset, column_getset},
    {Py_bf_getbuffer, (void *)(uintptr_t)column_getbuffer},
    {0, NULL},
};

static PyType_Spec column_spec = {
    .name = "stoker._core.Column",
    .basicsize = sizeof(stkpy_column),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = column_slots,
};

int stkpy_column_init(PyObject *module)
{
    column_type = (PyTypeObject *)PyType_FromSpec(&column_spec);
    return column_type ? PyModule_AddObjectRef(module, "Column", (PyObject *)column_type) : -1;
}
