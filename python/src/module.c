/* The extension module stoker._core: the registry of ops, and what the other files add. */
#include <string.h>

#include "run.h"

/* ---- the registry ---- */

/*
 * Guarded by the GIL. Runs that are open refer to the registry of their time, so an old one stays when a plug-in comes.
 */
static const stk_registry *registry;
static PyObject *plugins; /* list of the paths that are loaded */

const stk_registry *stkpy_registry(void)
{
    return registry;
}

/* All built-in ops, those that call Python, and the plug-ins; NULL with an exception. */
static stk_registry *registry_make(PyObject *paths)
{
    stk_registry *made = NULL;
    stk_error err;
    stk_error_clear(&err);
    stk_status status = stk_registry_new(&made, &err);
    if (status == STK_OK)
        status = stk_registry_add(made, stkpy_ops, &err);
    for (Py_ssize_t i = 0; status == STK_OK && i < PyList_Size(paths); i++)
        status = stk_registry_load(made, PyBytes_AsString(PyList_GetItem(paths, i)), &err);
    if (status == STK_OK)
        return made;
    stk_registry_free(made);
    stkpy_raise(&err);
    return NULL;
}

static PyObject *names_added(const stk_registry *before, const stk_registry *after)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < stk_registry_count(after); i++) {
        const char *name = stk_registry_op(after, i)->name;
        if (stk_registry_find(before, name))
            continue;
        PyObject *text = PyUnicode_FromString(name);
        if (!text || PyList_Append(list, text) < 0)
            Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

static PyObject *load_plugin(PyObject *module, PyObject *object)
{
    PyObject *path = NULL;
    if (!PyUnicode_FSConverter(object, &path))
        return NULL;
    PyObject *paths = PyList_GetSlice(plugins, 0, PyList_Size(plugins));
    stk_registry *made = NULL;
    PyObject *names = NULL;
    if (paths && PyList_Append(paths, path) == 0)
        made = registry_make(paths);
    if (made)
        names = names_added(registry, made);
    if (names) {
        registry = made;
        Py_DECREF(plugins);
        plugins = paths;
        paths = NULL;
    } else {
        stk_registry_free(made);
    }
    Py_XDECREF(paths);
    Py_DECREF(path);
    return names;
}

/* ---- the module ---- */

static PyMethodDef functions[] = {
    {"ops_json", (PyCFunction)(void (*)(void))stkpy_ops_json, METH_VARARGS | METH_KEYWORDS,
     "All ops with their options, as `stoker ops --json` gives them."},
    {"text_ops", stkpy_text_ops, METH_O, "Name, role, begin and end of each op of a text."},
    {"text_fields", stkpy_text_fields, METH_VARARGS, "Name, dtype and shape of each field at the end of a text."},
    {"load_plugin", load_plugin, METH_O, "Adds the ops of a shared object; their names."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_core",
    .m_doc = "The engine as it is. People use the package stoker.",
    .m_size = -1,
    .m_methods = functions,
};

static int (*const parts[])(PyObject *module) = {
    stkpy_errors_init, stkpy_run_init,       stkpy_batch_init, stkpy_record_init,
    stkpy_g2p_init,    stkpy_workbench_init, stkpy_bench_init, stkpy_pool_init,
};

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void)
{
    PyObject *module = PyModule_Create(&definition);
    bool fine = module && PyModule_AddStringConstant(module, "__version__", stk_version()) == 0;
    for (size_t i = 0; fine && i < sizeof parts / sizeof *parts; i++)
        fine = parts[i](module) == 0;
    if (fine && !registry) {
        plugins = PyList_New(0);
        registry = plugins ? registry_make(plugins) : NULL;
        fine = registry != NULL;
    }
    if (!fine)
        Py_CLEAR(module);
    return module;
}
