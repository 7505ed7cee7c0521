/* The type Batch: columns of one batch, which goes back to the engine when nothing made from it is left. */
#include <stdlib.h>
#include <string.h>

#include "run.h"

typedef struct batch_object {
    PyObject_HEAD stkpy_hold *hold;
    PyObject *names;
    /* made when somebody asks for columns that may be kept: copies of the small ones, and which of them is which column */
    stkpy_hold *loose;
    const stk_column *loose_columns;
    int32_t *loose_numbers; /* -1: it is not small */
} batch_object;

static PyTypeObject *batch_type; /* made once at import, then const */

static const stk_batch *batch_in(PyObject *self)
{
    return ((batch_object *)self)->hold->batch;
}

const stk_batch *stkpy_batch_of(PyObject *object, const stkpy_run *run)
{
    if (Py_TYPE(object) != batch_type)
        PyErr_Format(PyExc_TypeError, "a Batch is wanted, not %R", (PyObject *)Py_TYPE(object));
    else if (((batch_object *)object)->hold->run != run)
        PyErr_SetString(PyExc_ValueError, "the batch is of another run");
    else
        return batch_in(object);
    return NULL;
}

/* ---- life ---- */

static PyObject *make_names(const stk_batch *batch)
{
    PyObject *names = PyTuple_New(batch->column_count);
    for (int32_t i = 0; names && i < batch->column_count; i++) {
        PyObject *name = stkpy_field_name(batch->columns[i].name);
        if (name)
            PyUnicode_InternInPlace(&name);
        if (!name || PyTuple_SetItem(names, i, name) < 0)
            Py_CLEAR(names);
    }
    return names;
}

/* A new reference to the names, which are the same in all batches of the run. */
static PyObject *names_of(stkpy_run *run, const stk_batch *batch)
{
    if (!run->names)
        run->names = make_names(batch);
    Py_XINCREF(run->names);
    return run->names;
}

static stkpy_hold *hold_new(stkpy_run *run, const stk_batch *batch)
{
    stkpy_hold *hold = malloc(sizeof *hold);
    if (!hold) {
        stk_batch_release(run->pipeline, batch);
        PyErr_NoMemory();
        return NULL;
    }
    atomic_init(&hold->refs, 1);
    hold->run = run;
    hold->batch = batch;
    hold->next = NULL;
    stkpy_run_ref(run);
    atomic_fetch_add_explicit(&run->held, 1, memory_order_relaxed);
    return hold;
}

PyObject *stkpy_batch_new(stkpy_run *run, const stk_batch *batch)
{
    stkpy_hold *hold = hold_new(run, batch);
    if (!hold)
        return NULL;
    PyObject *names = names_of(run, batch);
    batch_object *self = names ? PyObject_New(batch_object, batch_type) : NULL;
    if (!self) {
        Py_XDECREF(names);
        stkpy_hold_unref(hold);
        return NULL;
    }
    self->hold = hold;
    self->names = names;
    self->loose = NULL;
    self->loose_columns = NULL;
    self->loose_numbers = NULL;
    return (PyObject *)self;
}

static void batch_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    stkpy_hold_unref(((batch_object *)self)->hold);
    if (((batch_object *)self)->loose)
        stkpy_hold_unref(((batch_object *)self)->loose);
    PyMem_Free(((batch_object *)self)->loose_numbers);
    Py_DECREF(((batch_object *)self)->names);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ---- columns ---- */

static PyObject *column_at(PyObject *self, Py_ssize_t i)
{
    const stk_batch *batch = batch_in(self);
    return stkpy_column_new(((batch_object *)self)->hold, &batch->columns[i]);
}

/* -1 with an exception. */
static Py_ssize_t column_number(PyObject *self, PyObject *number)
{
    const Py_ssize_t count = batch_in(self)->column_count;
    const Py_ssize_t i = PyLong_AsSsize_t(number);
    if (i == -1 && PyErr_Occurred())
        return -1;
    if (i >= -count && i < count)
        return i < 0 ? i + count : i;
    PyErr_Format(PyExc_IndexError, "column %zd of a batch that has %zd", i, count);
    return -1;
}

static PyObject *column_by_number(PyObject *self, PyObject *number)
{
    const Py_ssize_t i = column_number(self, number);
    return i < 0 ? NULL : column_at(self, i);
}

/* ---- columns that loops may keep ---- */

enum { TINY_BYTES = 4096, SMALL_BYTES = 65536, SMALL_SHARE = 8 };

static int64_t batch_bytes(const stk_batch *batch)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < batch->column_count; i++)
        sum += batch->columns[i].size_bytes;
    return sum;
}

/*
 * Labels and the like are kept by evaluation loops, and a view of them would keep the pictures of the batch alive. Bytes become
 * objects of Python anyway, and what is in pinned memory is to stay there.
 */
static bool is_small(const stkpy_hold *hold, const stk_column *column, int64_t whole)
{
    if (column->dtype == STK_BYTES || hold->run->cuda.host_alloc)
        return false;
    const int64_t size = column->size_bytes + (column->offsets ? 8 * (column->shape[0] + 1) : 0);
    return size <= TINY_BYTES || (size <= SMALL_BYTES && size <= whole / SMALL_SHARE);
}

/* Copies all small columns at once: one block is cheaper than many. False with an exception. */
static bool make_loose(batch_object *self)
{
    const stk_batch *batch = self->hold->batch;
    const int32_t count = batch->column_count;
    const int64_t whole = batch_bytes(batch);
    const stk_column **small = PyMem_Calloc((size_t)count + 1, sizeof *small);
    self->loose_numbers = PyMem_Calloc((size_t)count + 1, sizeof *self->loose_numbers);
    int32_t found = 0;
    for (int32_t i = 0; small && self->loose_numbers && i < count; i++) {
        const bool is = is_small(self->hold, &batch->columns[i], whole);
        self->loose_numbers[i] = is ? found : -1;
        if (is)
            small[found++] = &batch->columns[i];
    }
    if (small && self->loose_numbers)
        self->loose = stkpy_hold_copy(small, found, &self->loose_columns);
    PyMem_Free(small);
    if (!self->loose)
        PyErr_NoMemory();
    return self->loose != NULL;
}

/* The column, on memory of its own where it is small. */
static PyObject *loose_at(PyObject *object, Py_ssize_t i)
{
    batch_object *self = (batch_object *)object;
    if (!self->loose && !make_loose(self))
        return NULL;
    const int32_t number = self->loose_numbers[i];
    return number < 0 ? column_at(object, i) : stkpy_column_new(self->loose, &self->loose_columns[number]);
}

static PyObject *batch_loose_column(PyObject *self, PyObject *number)
{
    const Py_ssize_t i = column_number(self, number);
    return i < 0 ? NULL : loose_at(self, i);
}

static PyObject *list_columns(PyObject *self, PyObject *(*at)(PyObject *self, Py_ssize_t i))
{
    const Py_ssize_t count = batch_in(self)->column_count;
    PyObject *list = PyList_New(count);
    for (Py_ssize_t i = 0; list && i < count; i++) {
        PyObject *column = at(self, i);
        if (!column || PyList_SetItem(list, i, column) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *batch_loose_columns(PyObject *self, PyObject *none)
{
    return list_columns(self, loose_at);
}

static PyObject *batch_column(PyObject *self, PyObject *which)
{
    if (PyLong_Check(which))
        return column_by_number(self, which);
    if (!PyUnicode_Check(which))
        return PyErr_Format(PyExc_TypeError, "a column is found by number or name, not by %R",
                            (PyObject *)Py_TYPE(which));
    PyObject *names = ((batch_object *)self)->names;
    for (Py_ssize_t i = 0; i < PyTuple_Size(names); i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        if (name == which || PyUnicode_Compare(name, which) == 0)
            return column_at(self, i);
    }
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_KeyError, "no field '%U'; this batch has %R", which, names);
    return NULL;
}

static PyObject *batch_columns(PyObject *self, PyObject *none)
{
    return list_columns(self, column_at);
}

static Py_ssize_t batch_length(PyObject *self)
{
    return batch_in(self)->column_count;
}

static PyObject *batch_rows(PyObject *self, void *closure)
{
    return PyLong_FromLongLong(batch_in(self)->rows);
}

static PyObject *batch_index(PyObject *self, void *closure)
{
    return PyLong_FromLongLong(batch_in(self)->index);
}

static PyObject *batch_epoch(PyObject *self, void *closure)
{
    return PyLong_FromLongLong(batch_in(self)->epoch);
}

static PyObject *batch_names(PyObject *self, void *closure)
{
    PyObject *names = ((batch_object *)self)->names;
    Py_INCREF(names);
    return names;
}

static PyObject *batch_repr(PyObject *self)
{
    const stk_batch *batch = batch_in(self);
    return PyUnicode_FromFormat("<stoker Batch %lld: %lld rows of %R>", (long long)batch->index, (long long)batch->rows,
                                ((batch_object *)self)->names);
}

/* See Run._fence: for converters, which have the batch alone. */
static PyObject *batch_fence(PyObject *self, PyObject *fence)
{
    if (!PyCallable_Check(fence))
        return PyErr_Format(PyExc_TypeError, "a fence must be callable");
    stkpy_park_set(((batch_object *)self)->hold->run, fence);
    Py_RETURN_NONE;
}

static PyMethodDef batch_methods[] = {
    {"column", batch_column, METH_O, "The column of that number or name."},
    {"columns", batch_columns, METH_NOARGS, "All columns, in the order of the fields."},
    {"loose_column", batch_loose_column, METH_O, "The column of that number, on memory of its own where it is small."},
    {"loose_columns", batch_loose_columns, METH_NOARGS, "All columns, small ones on memory of their own."},
    {"_fence", batch_fence, METH_O, "Keeps dropped batches of the run until the GPU is done with them."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef batch_getset[] = {
    {"rows", batch_rows, NULL, "Samples in the batch.", NULL},
    {"index", batch_index, NULL, "Number of the batch in the run.", NULL},
    {"epoch", batch_epoch, NULL, "Epoch of its first row.", NULL},
    {"names", batch_names, NULL, "Names of the fields, in order.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot batch_slots[] = {
    {Py_tp_doc, (char *)"One batch. Its memory goes back when it and everything made from it are gone."},
    {Py_tp_dealloc, (void *)(uintptr_t)batch_dealloc},
    {Py_tp_repr, (void *)(uintptr_t)batch_repr},
    {Py_tp_methods, batch_methods},
    {Py_tp_getset, batch_getset},
    {Py_sq_length, (void *)(uintptr_t)batch_length},
    {0, NULL},
};

static PyType_Spec batch_spec = {
    .name = "stoker._core.Batch",
    .basicsize = sizeof(batch_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = batch_slots,
};

int stkpy_batch_init(PyObject *module)
{
    batch_type = (PyTypeObject *)PyType_FromSpec(&batch_spec);
    if (!batch_type || PyModule_AddObjectRef(module, "Batch", (PyObject *)batch_type) < 0)
        return -1;
    return stkpy_column_init(module);
}
