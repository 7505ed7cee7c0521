/* Table: the columns of a result as Python values, and by Arrow's capsules. */
#include "workbench.h"

#include <string.h>

#include <stoker/arrow.h>

typedef struct {
    PyObject_HEAD stk_table *table;
    PyObject *names, *kinds; /* tuples */
} table_object;

/* Made once at import, then const. */
static PyObject *table_type;

/* ---- life ---- */

static const char *kind_name(stk_column_kind kind)
{
    static const char *const names[] = {
        [STK_KIND_NULL] = "null", [STK_KIND_INT64] = "int64", [STK_KIND_DOUBLE] = "double",
        [STK_KIND_TEXT] = "text", [STK_KIND_BYTES] = "bytes", [STK_KIND_DICTIONARY] = "dictionary",
    };
    return names[kind];
}

static PyObject *text_object(const char *text, size_t size)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)size, "replace");
}

/* Names of the columns, or their kinds. */
static PyObject *words_of(const stk_table *table, bool kinds)
{
    const size_t count = stk_table_columns(table);
    PyObject *words = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; words && i < count; i++) {
        const char *text = kinds ? kind_name(stk_table_kind(table, i)) : stk_table_name(table, i);
        PyObject *word = text_object(text, strlen(text));
        if (!word || PyTuple_SetItem(words, (Py_ssize_t)i, word) < 0)
            Py_CLEAR(words);
    }
    return words;
}

PyObject *stkpy_table_new(stk_table *table)
{
    table_object *self = (table_object *)PyType_GenericAlloc((PyTypeObject *)table_type, 0);
    if (!self) {
        stk_table_free(table);
        return NULL;
    }
    self->table = table;
    self->names = words_of(table, false);
    self->kinds = self->names ? words_of(table, true) : NULL;
    if (!self->kinds)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void table_dealloc(PyObject *object)
{
    table_object *self = (table_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    stk_table_free(self->table);
    Py_XDECREF(self->names);
    Py_XDECREF(self->kinds);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ---- values ---- */

static PyObject *none(void)
{
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject *value_of(const stk_table *table, size_t column, int64_t row)
{
    size_t size;
    const char *text;
    if (stk_table_is_null(table, column, row))
        return none();
    switch (stk_table_kind(table, column)) {
    case STK_KIND_INT64:
        return PyLong_FromLongLong(stk_table_int64(table, column, row));
    case STK_KIND_DOUBLE:
        return PyFloat_FromDouble(stk_table_double(table, column, row));
    case STK_KIND_BYTES:
        text = stk_table_text(table, column, row, &size);
        return PyBytes_FromStringAndSize(text, (Py_ssize_t)size);
    case STK_KIND_TEXT:
    case STK_KIND_DICTIONARY:
        text = stk_table_text(table, column, row, &size);
        return text_object(text, size);
    default:
        return none();
    }
}

static Py_ssize_t table_length(PyObject *object)
{
    return (Py_ssize_t)stk_table_rows(((table_object *)object)->table);
}

static PyObject *table_row(PyObject *object, PyObject *argument)
{
    const stk_table *table = ((table_object *)object)->table;
    const int64_t rows = stk_table_rows(table);
    const Py_ssize_t given = PyNumber_AsSsize_t(argument, PyExc_IndexError);
    if (given == -1 && PyErr_Occurred())
        return NULL;
    const int64_t row = given < 0 ? given + rows : given;
    if (row < 0 || row >= rows)
        return PyErr_Format(PyExc_IndexError, "row %zd: the table has %lld rows", given, (long long)rows);
    const size_t count = stk_table_columns(table);
    PyObject *cells = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; cells && i < count; i++) {
        PyObject *cell = value_of(table, i, row);
        if (!cell || PyTuple_SetItem(cells, (Py_ssize_t)i, cell) < 0)
            Py_CLEAR(cells);
    }
    return cells;
}

/* The column that a number or a name means; -1 with an exception. */
static Py_ssize_t find_column(table_object *self, PyObject *which)
{
    const Py_ssize_t count = PyTuple_Size(self->names);
    if (PyUnicode_Check(which)) {
        const Py_ssize_t at = PySequence_Index(self->names, which);
        if (at < 0 && PyErr_ExceptionMatches(PyExc_ValueError)) {
            PyErr_Clear();
            PyErr_Format(PyExc_KeyError, "no column %R; there are %R", which, self->names);
        }
        return at;
    }
    const Py_ssize_t given = PyNumber_AsSsize_t(which, PyExc_IndexError);
    if (given == -1 && PyErr_Occurred())
        return -1;
    const Py_ssize_t at = given < 0 ? given + count : given;
    if (at >= 0 && at < count)
        return at;
    PyErr_Format(PyExc_IndexError, "column %zd: the table has %zd", given, count);
    return -1;
}

/* Texts of a dictionary come again and again: those seen last are kept by their address. */
enum { KEPT = 512 };

typedef struct {
    const char *text[KEPT];
    PyObject *object[KEPT]; /* borrowed from the list that is being made */
} kept_texts;

static PyObject *kept_value(const stk_table *table, size_t column, int64_t row, kept_texts *kept)
{
    if (stk_table_is_null(table, column, row))
        return none();
    size_t size;
    const char *text = stk_table_text(table, column, row, &size);
    const size_t place = ((uintptr_t)text ^ (uintptr_t)text >> 9) % KEPT;
    if (size && kept->text[place] == text) {
        Py_INCREF(kept->object[place]);
        return kept->object[place];
    }
    PyObject *made = text_object(text, size);
    if (made && size) {
        kept->text[place] = text;
        kept->object[place] = made;
    }
    return made;
}

static PyObject *table_column(PyObject *object, PyObject *which)
{
    table_object *self = (table_object *)object;
    const Py_ssize_t column = find_column(self, which);
    if (column < 0)
        return NULL;
    const int64_t rows = stk_table_rows(self->table);
    const bool dictionary = stk_table_kind(self->table, (size_t)column) == STK_KIND_DICTIONARY;
    kept_texts kept;
    if (dictionary)
        memset(&kept, 0, sizeof kept);
    PyObject *list = PyList_New((Py_ssize_t)rows);
    for (int64_t i = 0; list && i < rows; i++) {
        PyObject *cell =
            dictionary ? kept_value(self->table, (size_t)column, i, &kept) : value_of(self->table, (size_t)column, i);
        if (!cell || PyList_SetItem(list, (Py_ssize_t)i, cell) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* ---- Arrow ---- */

/* Releases what nobody has moved out of a capsule, then frees the structure. */
#define DESTRUCTOR(function, type, name)                              \
    static void function(PyObject *capsule)                           \
    {                                                                 \
        struct type *structure = PyCapsule_GetPointer(capsule, name); \
        if (structure && structure->release)                          \
            structure->release(structure);                            \
        PyMem_Free(structure);                                        \
    }

DESTRUCTOR(free_schema, ArrowSchema, "arrow_schema")
DESTRUCTOR(free_array, ArrowArray, "arrow_array")
DESTRUCTOR(free_stream, ArrowArrayStream, "arrow_array_stream")

/* A capsule on a structure that is all zero. */
static PyObject *capsule_new(size_t size, const char *name, PyCapsule_Destructor destructor, void *out)
{
    void *structure = PyMem_Calloc(1, size);
    if (!structure)
        return PyErr_NoMemory();
    PyObject *capsule = PyCapsule_New(structure, name, destructor);
    if (!capsule) {
        PyMem_Free(structure);
        return NULL;
    }
    *(void **)out = structure;
    return capsule;
}

static PyObject *table_arrow_schema(PyObject *object, PyObject *ignored)
{
    struct ArrowSchema *schema = NULL;
    PyObject *capsule = capsule_new(sizeof *schema, "arrow_schema", free_schema, &schema);
    if (!capsule)
        return NULL;
    stk_error err;
    stk_error_clear(&err);
    if (stk_table_export(((table_object *)object)->table, schema, NULL, &err) == STK_OK)
        return capsule;
    Py_DECREF(capsule);
    return stkpy_raise(&err);
}

/* Arrow lets a producer pass over the schema that was asked for when it has no other. */
static bool read_requested(PyObject *args, PyObject *kwargs, const char *format)
{
    static char *names[] = {(char *)"requested_schema", NULL};
    PyObject *requested = NULL;
    return PyArg_ParseTupleAndKeywords(args, kwargs, format, names, &requested);
}

static PyObject *table_arrow_array(PyObject *object, PyObject *args, PyObject *kwargs)
{
    if (!read_requested(args, kwargs, "|O:__arrow_c_array__"))
        return NULL;
    struct ArrowSchema *schema = NULL;
    struct ArrowArray *array = NULL;
    PyObject *schema_capsule = capsule_new(sizeof *schema, "arrow_schema", free_schema, &schema);
    PyObject *array_capsule = schema_capsule ? capsule_new(sizeof *array, "arrow_array", free_array, &array) : NULL;
    PyObject *pair = array_capsule ? PyTuple_Pack(2, schema_capsule, array_capsule) : NULL;
    if (pair) {
        stk_error err;
        stk_error_clear(&err);
        stk_status status = STK_OK;
        PyThreadState *saved = PyEval_SaveThread();
        status = stk_table_export(((table_object *)object)->table, schema, array, &err);
        PyEval_RestoreThread(saved);
        if (status != STK_OK) {
            Py_CLEAR(pair);
            stkpy_raise(&err);
        }
    }
    Py_XDECREF(schema_capsule);
    Py_XDECREF(array_capsule);
    return pair;
}

static PyObject *table_arrow_stream(PyObject *object, PyObject *args, PyObject *kwargs)
{
    if (!read_requested(args, kwargs, "|O:__arrow_c_stream__"))
        return NULL;
    struct ArrowArrayStream *stream = NULL;
    PyObject *capsule = capsule_new(sizeof *stream, "arrow_array_stream", free_stream, &stream);
    if (!capsule)
        return NULL;
    stk_error err;
    stk_error_clear(&err);
    if (stk_table_export_stream(((table_object *)object)->table, stream, &err) == STK_OK)
        return capsule;
    Py_DECREF(capsule);
    return stkpy_raise(&err);
}

/* ---- the type ---- */

static PyObject *get_names(PyObject *object, void *ignored)
{
    PyObject *names = ((table_object *)object)->names;
    Py_INCREF(names);
    return names;
}

static PyObject *get_kinds(PyObject *object, void *ignored)
{
    PyObject *kinds = ((table_object *)object)->kinds;
    Py_INCREF(kinds);
    return kinds;
}

static PyGetSetDef table_attributes[] = {
    {"names", get_names, NULL, "Names of the columns.", NULL},
    {"kinds", get_kinds, NULL, "Kinds of the columns: null, int64, double, text, bytes or dictionary.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

#define WITH_KEYWORDS(function) (PyCFunction)(void (*)(void)) function, METH_VARARGS | METH_KEYWORDS

static PyMethodDef table_methods[] = {
    {"row", table_row, METH_O, "One row, as a tuple."},
    {"column", table_column, METH_O, "One column by number or name, as a list."},
    {"__arrow_c_schema__", table_arrow_schema, METH_NOARGS, "The types of the columns, for Arrow."},
    {"__arrow_c_array__", WITH_KEYWORDS(table_arrow_array), "Types and columns, for Arrow."},
    {"__arrow_c_stream__", WITH_KEYWORDS(table_arrow_stream), "The columns as a stream of one batch, for Arrow."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot table_slots[] = {
    {Py_tp_dealloc, (void *)(uintptr_t)table_dealloc},
    {Py_tp_methods, table_methods},
    {Py_tp_getset, table_attributes},
    {Py_sq_length, (void *)(uintptr_t)table_length},
    {Py_tp_doc, (char *)"Columns of a result; Arrow takes them without a copy."},
    {0, NULL},
};

static PyType_Spec table_spec = {
    .name = "stoker._core.Table",
    .basicsize = sizeof(table_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = table_slots,
};

int stkpy_table_init(PyObject *module)
{
    table_type = PyType_FromSpec(&table_spec);
    return table_type ? PyModule_AddObjectRef(module, "Table", table_type) : -1;
}
