/* Lists of paths from Python, as the C API takes them. */
#include "core.h"

PyObject *stkpy_paths_encode(PyObject *given, const char *name)
{
    if (PyUnicode_Check(given) || PyBytes_Check(given))
        return PyErr_Format(PyExc_TypeError, "%s: wanted a list of paths, found %R", name, given);
    PyObject *items = PySequence_Tuple(given);
    if (!items)
        return NULL;
    const Py_ssize_t count = PyTuple_Size(items);
    PyObject *paths = PyTuple_New(count);
    for (Py_ssize_t i = 0; paths && i < count; i++) {
        PyObject *path = NULL;
        if (!PyUnicode_FSConverter(PyTuple_GetItem(items, i), &path) || PyTuple_SetItem(paths, i, path) < 0)
            Py_CLEAR(paths);
    }
    Py_DECREF(items);
    return paths;
}

const char **stkpy_paths_items(PyObject *paths)
{
    const Py_ssize_t count = PyTuple_Size(paths);
    const char **items = PyMem_Calloc((size_t)count + 1, sizeof *items);
    if (!items)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; items && i < count; i++)
        items[i] = PyBytes_AsString(PyTuple_GetItem(paths, i));
    return items;
}
