/* The type Pool: processes as a loader keeps them between its runs. */
#include "pool.h"

typedef struct pool_object {
    PyObject_HEAD stkpy_pool *pool;
} pool_object;

static PyTypeObject *pool_type;

static PyObject *pool_object_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {(char *)"count", NULL};
    int count;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "i:Pool", names, &count))
        return NULL;
    if (count < 1 || count > STKPY_PROCESSES_MOST)
        return PyErr_Format(PyExc_ValueError, "processes: wanted 1..%d, found %d", STKPY_PROCESSES_MOST, count);
    allocfunc alloc = (allocfunc)(uintptr_t)PyType_GetSlot(type, Py_tp_alloc);
    pool_object *self = (pool_object *)alloc(type, 0);
    if (!self)
        return NULL;
    self->pool = stkpy_pool_new(count);
    if (!self->pool) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static void pool_object_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    stkpy_pool *pool = ((pool_object *)self)->pool;
    if (pool) {
        Py_BEGIN_ALLOW_THREADS;
        stkpy_pool_close(pool);
        stkpy_pool_unref(pool);
        Py_END_ALLOW_THREADS;
    }
    freefunc release = (freefunc)(uintptr_t)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyObject *pool_object_close(PyObject *self, PyObject *none)
{
    Py_BEGIN_ALLOW_THREADS;
    stkpy_pool_close(((pool_object *)self)->pool);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyObject *pool_object_pids(PyObject *self, void *closure)
{
    long numbers[STKPY_PROCESSES_MOST];
    const size_t count = stkpy_pool_pids(((pool_object *)self)->pool, numbers);
    PyObject *pids = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; pids && i < count; i++) {
        PyObject *pid = PyLong_FromLong(numbers[i]);
        if (!pid || PyList_SetItem(pids, (Py_ssize_t)i, pid) < 0)
            Py_CLEAR(pids);
    }
    return pids;
}

static PyObject *pool_object_ours(PyObject *self, void *closure)
{
    return PyBool_FromLong(stkpy_pool_is_ours(((pool_object *)self)->pool));
}

stkpy_pool *stkpy_pool_of(PyObject *object)
{
    if (Py_TYPE(object) != pool_type) {
        PyErr_Format(PyExc_TypeError, "wanted a Pool, found %R", object);
        return NULL;
    }
    stkpy_pool *pool = ((pool_object *)object)->pool;
    stkpy_pool_ref(pool);
    return pool;
}

static PyMethodDef pool_methods[] = {
    {"close", pool_object_close, METH_NOARGS, "Ends the processes."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef pool_getset[] = {
    {"pids", pool_object_pids, NULL, "Processes that are there.", NULL},
    {"ours", pool_object_ours, NULL, "Whether this process made it, not one that it was forked from.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot pool_slots[] = {
    {Py_tp_doc, (char *)"Processes that call a function of a pipeline; the run that has it starts them."},
    {Py_tp_new, (void *)(uintptr_t)pool_object_new},
    {Py_tp_dealloc, (void *)(uintptr_t)pool_object_dealloc},
    {Py_tp_methods, pool_methods},
    {Py_tp_getset, pool_getset},
    {0, NULL},
};

static PyType_Spec pool_spec = {
    .name = "stoker._core.Pool",
    .basicsize = sizeof(pool_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = pool_slots,
};

int stkpy_pool_init(PyObject *module)
{
    if (!stkpy_pools_init()) {
        PyErr_NoMemory();
        return -1;
    }
    PyObject *type = PyType_FromSpec(&pool_spec);
    pool_type = (PyTypeObject *)type;
    return type && PyModule_AddObjectRef(module, "Pool", type) == 0 ? 0 : -1;
}
