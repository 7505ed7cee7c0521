/* Columns as DLPack tensors, in both kinds of capsule. Deleters touch counts in C alone: any thread may call them. */
#include <stdlib.h>
#include <string.h>

#include "dlpack.h"
#include "run.h"

/* What a tensor needs as long as it lives. The struct that the consumer sees is part of it. */
typedef struct export
{
    stkpy_hold *hold; /* NULL: `copy` is its memory */
    void *copy;
    int64_t shape[STK_MAX_DIMS + 1], strides[STK_MAX_DIMS + 1];
    union {
        dlpack_managed managed;
        dlpack_versioned versioned;
    };
}
export;

static void export_free(export *e)
{
    if (e->hold)
        stkpy_hold_unref(e->hold);
    free(e->copy);
    free(e);
}

static void delete_managed(dlpack_managed *self)
{
    export_free(self->context);
}

static void delete_versioned(dlpack_versioned *self)
{
    export_free(self->context);
}

static void type_of(stk_dtype dtype, dlpack_tensor *out)
{
    static const uint8_t codes[STK_DTYPE_COUNT] = {
        [STK_BOOL] = DLPACK_BOOL,     [STK_UINT8] = DLPACK_UINT,      [STK_INT8] = DLPACK_INT,
        [STK_UINT16] = DLPACK_UINT,   [STK_INT16] = DLPACK_INT,       [STK_UINT32] = DLPACK_UINT,
        [STK_INT32] = DLPACK_INT,     [STK_UINT64] = DLPACK_UINT,     [STK_INT64] = DLPACK_INT,
        [STK_FLOAT16] = DLPACK_FLOAT, [STK_BFLOAT16] = DLPACK_BFLOAT, [STK_FLOAT32] = DLPACK_FLOAT,
        [STK_FLOAT64] = DLPACK_FLOAT,
    };
    out->dtype.code = codes[dtype];
    out->dtype.bits = (uint8_t)(stk_dtype_size(dtype) * 8);
    out->dtype.lanes = 1;
}

static void fill_tensor(export *e, const stkpy_column *column, dlpack_tensor *out)
{
    for (int d = 0; d < column->ndim; d++) {
        e->shape[d] = column->shape[d];
        e->strides[d] = column->strides[d] / column->itemsize;
    }
    *out = (dlpack_tensor){
        .data = e->copy ? e->copy : column->data,
        .device = {.type = DLPACK_CPU},
        .ndim = column->ndim,
        .shape = e->shape,
        .strides = e->strides,
    };
    type_of(column->dtype, out);
}

static void *copy_data(const stkpy_column *column)
{
    const size_t size = (size_t)(column->elements * column->itemsize);
    void *copy = NULL;
    if (posix_memalign(&copy, 64, size ? size : 1) != 0)
        return NULL;
    memcpy(copy, column->data, size);
    return copy;
}

static export *export_new(stkpy_column *column, bool copied)
{
    export *e = calloc(1, sizeof *e);
    if (e && copied) {
        Py_BEGIN_ALLOW_THREADS;
        e->copy = copy_data(column);
        Py_END_ALLOW_THREADS;
    }
    if (!e || (copied && !e->copy)) {
        free(e);
        PyErr_NoMemory();
        return NULL;
    }
    if (!copied) {
        stkpy_hold_ref(column->hold);
        e->hold = column->hold;
    }
    return e;
}

/* A consumer renames the capsule that it takes; one that nobody took frees the tensor. */
static void drop_managed(PyObject *capsule)
{
    if (!PyCapsule_IsValid(capsule, "dltensor"))
        return;
    dlpack_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
    managed->deleter(managed);
}

static void drop_versioned(PyObject *capsule)
{
    if (!PyCapsule_IsValid(capsule, "dltensor_versioned"))
        return;
    dlpack_versioned *versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    versioned->deleter(versioned);
}

static PyObject *make_capsule(stkpy_column *column, bool versioned, bool copied)
{
    export *e = export_new(column, copied);
    if (!e)
        return NULL;
    PyObject *capsule;
    if (versioned) {
        e->versioned.version.major = DLPACK_MAJOR;
        e->versioned.version.minor = DLPACK_MINOR;
        e->versioned.context = e;
        e->versioned.deleter = delete_versioned;
        e->versioned.flags = copied ? DLPACK_IS_COPIED : 0;
        fill_tensor(e, column, &e->versioned.tensor);
        capsule = PyCapsule_New(&e->versioned, "dltensor_versioned", drop_versioned);
    } else {
        e->managed.context = e;
        e->managed.deleter = delete_managed;
        fill_tensor(e, column, &e->managed.tensor);
        capsule = PyCapsule_New(&e->managed, "dltensor", drop_managed);
    }
    if (!capsule)
        export_free(e);
    return capsule;
}

/* ---- arguments ---- */

static bool given(PyObject *object)
{
    return object && object != Py_None;
}

/* Two numbers of a tuple; false with an exception. */
static bool read_pair(PyObject *object, const char *name, long *first, long *second)
{
    if (PyTuple_Check(object) && PyArg_ParseTuple(object, "ll", first, second))
        return true;
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%s must be a tuple of two numbers", name);
    return false;
}

static bool check_device(PyObject *device)
{
    long type, id;
    if (!given(device))
        return true;
    if (!read_pair(device, "dl_device", &type, &id))
        return false;
    if (type == DLPACK_CPU && id == 0)
        return true;
    PyErr_Format(PyExc_BufferError, "the batch is in memory of the CPU (1, 0), not of device (%ld, %ld)", type, id);
    return false;
}

PyObject *stkpy_column_dlpack(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {(char *)"stream", (char *)"max_version", (char *)"dl_device", (char *)"copy", NULL};
    PyObject *stream = NULL, *max_version = NULL, *device = NULL, *copy = NULL;
    long major = 0, minor = 0;
    if ((kwargs || PyTuple_Size(args)) &&
        !PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream, &max_version, &device, &copy))
        return NULL;
    if (given(max_version) && !read_pair(max_version, "max_version", &major, &minor))
        return NULL;
    if (!stkpy_column_is_array((stkpy_column *)self) || !check_device(device))
        return NULL;
    if (given(stream))
        return PyErr_Format(PyExc_BufferError, "memory of the CPU has no stream; stream must be None, not %R", stream);
    const int copied = given(copy) ? PyObject_IsTrue(copy) : 0;
    if (copied < 0)
        return NULL;
    return make_capsule((stkpy_column *)self, major >= DLPACK_MAJOR, copied);
}

PyObject *stkpy_column_dlpack_device(PyObject *self, PyObject *none)
{
    return Py_BuildValue("(ii)", DLPACK_CPU, 0);
}
