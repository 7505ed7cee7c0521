/* G2p: words and text to lists of phonemes. */
#include "run.h"

#include <string.h>

/* Results keep their memory for the next call; those of a long text are not kept. */
enum { SPARES = 4, SPARE_BYTES = 1 << 20 };

typedef struct {
    PyObject_HEAD stk_g2p *g; /* never changed once it is open */
    PyObject *symbols;        /* tuple: what each number stands for */
    /* guarded by the GIL */
    stk_g2p_results spares[SPARES];
    size_t spare_count;
} g2p_object;

static stk_g2p_results take_results(g2p_object *self)
{
    return self->spare_count ? self->spares[--self->spare_count] : (stk_g2p_results){0};
}

static void give_results(g2p_object *self, stk_g2p_results *results, size_t input_bytes)
{
    if (self->spare_count < SPARES && input_bytes <= SPARE_BYTES)
        self->spares[self->spare_count++] = *results;
    else
        stk_g2p_results_clear(results);
}

/* ---- life ---- */

static PyObject *make_symbols(void)
{
    const size_t count = stk_g2p_symbol_count();
    PyObject *symbols = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; symbols && i < count; i++) {
        const char *text = stk_g2p_symbol(i);
        PyObject *name = PyUnicode_FromString(text ? text : "");
        if (!name || PyTuple_SetItem(symbols, (Py_ssize_t)i, name) < 0) {
            Py_DECREF(symbols);
            return NULL;
        }
    }
    return symbols;
}

static bool read_precision(const char *text, stk_g2p_precision *out)
{
    const bool fp32 = strcmp(text, "fp32") == 0;
    if (!fp32 && strcmp(text, "int8") != 0) {
        PyErr_Format(PyExc_ValueError, "precision: wanted 'int8' or 'fp32', found '%.60s'", text);
        return false;
    }
    *out = fp32 ? STK_G2P_FP32 : STK_G2P_INT8;
    return true;
}

static int is_stopped(void *watch)
{
    return !stkpy_watch_progress(watch, "opening", 0, -1);
}

/* Opens it without the GIL: a lexicon has megabytes, or is a pipe that nobody writes to. */
static int open_g2p(g2p_object *self, stk_g2p_config *config, PyObject *paths)
{
    const Py_ssize_t count = PyTuple_Size(paths);
    const char **lexicons = stkpy_paths_items(paths);
    if (!lexicons)
        return -1;
    config->lexicons = lexicons;
    config->lexicon_count = (size_t)count;
    stkpy_watch watch = {.looked_ns = stkpy_now_ns()};
    config->stopped = is_stopped;
    config->stopped_arg = &watch;
    stk_error err;
    stk_error_clear(&err);
    stk_g2p *opened = NULL;
    stk_status status = STK_OK;
    Py_BEGIN_ALLOW_THREADS;
    status = stk_g2p_open(config, &opened, &err);
    Py_END_ALLOW_THREADS;
    PyMem_Free((void *)lexicons);
    self->g = opened;
    if (watch.type)
        PyErr_Restore(watch.type, watch.value, watch.traceback);
    else if (status == STK_OK)
        return 0;
    else
        stkpy_raise(&err);
    return -1;
}

/* None stands for no path. */
static int optional_path(PyObject *object, void *out)
{
    if (object && object != Py_None)
        return PyUnicode_FSConverter(object, out);
    if (!object) /* called to clean up */
        Py_CLEAR(*(PyObject **)out);
    return Py_CLEANUP_SUPPORTED;
}

static PyObject *g2p_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {(char *)"model", (char *)"precision", (char *)"lexicons", (char *)"common", NULL};
    PyObject *model = NULL, *lexicons = NULL, *paths = NULL;
    const char *precision = "int8";
    int common = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$O&sOp:G2p", names, optional_path, &model, &precision, &lexicons,
                                     &common))
        return NULL;
    g2p_object *self = NULL;
    stk_g2p_config config = {.struct_size = sizeof config, .no_common = !common};
    config.model = model ? PyBytes_AsString(model) : NULL;
    if (!read_precision(precision, &config.precision))
        goto out;
    paths = lexicons ? stkpy_paths_encode(lexicons, "lexicons") : PyTuple_New(0);
    self = paths ? (g2p_object *)PyType_GenericAlloc(type, 0) : NULL;
    if (!self)
        goto out;
    self->symbols = make_symbols();
    if (!self->symbols || open_g2p(self, &config, paths) < 0)
        Py_CLEAR(self);
out:
    Py_XDECREF(model);
    Py_XDECREF(paths);
    return (PyObject *)self;
}

static void g2p_dealloc(PyObject *object)
{
    g2p_object *self = (g2p_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    while (self->spare_count)
        stk_g2p_results_clear(&self->spares[--self->spare_count]);
    stk_g2p_close(self->g);
    Py_XDECREF(self->symbols);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ---- text in, phonemes out ---- */

/*
 * The UTF-8 of a str. Half of a surrogate pair has none: it goes in as bytes that are no UTF-8, which are unknown
 * letters; *out_keep owns the bytes then.
 */
static bool utf8_of(PyObject *text, stk_bytes *out, PyObject **out_keep)
{
    Py_ssize_t size = 0;
    *out_keep = NULL;
    if (!PyUnicode_Check(text)) {
        PyErr_Format(PyExc_TypeError, "wanted a str, found %R", Py_TYPE(text));
        return false;
    }
    const char *data = PyUnicode_AsUTF8AndSize(text, &size);
    if (!data) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
            return false;
        PyErr_Clear();
        char *bytes = NULL;
        *out_keep = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
        if (!*out_keep || PyBytes_AsStringAndSize(*out_keep, &bytes, &size) < 0) {
            Py_CLEAR(*out_keep);
            return false;
        }
        data = bytes;
    }
    *out = (stk_bytes){(const uint8_t *)data, size};
    return true;
}

static PyObject *phonemes_of(const g2p_object *self, const stk_g2p_token *token)
{
    PyObject *list = PyList_New((Py_ssize_t)token->id_count);
    for (size_t i = 0; list && i < token->id_count; i++) {
        PyObject *name = PyTuple_GetItem(self->symbols, token->ids[i]);
        if (!name) {
            Py_DECREF(list);
            return NULL;
        }
        Py_INCREF(name);
        PyList_SetItem(list, (Py_ssize_t)i, name);
    }
    return list;
}

/* (text, phonemes, flags) */
static PyObject *token_tuple(const g2p_object *self, const stk_g2p_token *token)
{
    PyObject *text = PyUnicode_DecodeUTF8(token->text, (Py_ssize_t)token->text_size, "replace");
    PyObject *phonemes = text ? phonemes_of(self, token) : NULL;
    if (!phonemes) {
        Py_XDECREF(text);
        return NULL;
    }
    return Py_BuildValue("(NNk)", text, phonemes, (unsigned long)token->flags);
}

typedef PyObject *make_item(const g2p_object *self, const stk_g2p_token *token);

static PyObject *list_of(const g2p_object *self, const stk_g2p_results *results, make_item *make)
{
    PyObject *list = PyList_New((Py_ssize_t)results->count);
    for (size_t i = 0; list && i < results->count; i++) {
        PyObject *item = make(self, &results->tokens[i]);
        if (!item) {
            Py_DECREF(list);
            return NULL;
        }
        PyList_SetItem(list, (Py_ssize_t)i, item);
    }
    return list;
}

/* Pronounces words as they are, or one text when `running`; what `words` point at must stay alive. */
static PyObject *pronounce(g2p_object *self, const stk_bytes *words, size_t count, bool running, make_item *make)
{
    stk_g2p_results results = take_results(self);
    stk_error err;
    stk_error_clear(&err);
    stk_status status = STK_OK;
    size_t bytes = 0;
    Py_BEGIN_ALLOW_THREADS;
    for (size_t i = 0; i < count; i++)
        bytes += (size_t)words[i].size;
    status = running ? stk_g2p_text(self->g, (const char *)words[0].data, (size_t)words[0].size, &results, &err)
                     : stk_g2p_predict_many(self->g, words, count, &results, &err);
    Py_END_ALLOW_THREADS;
    PyObject *list = status == STK_OK ? list_of(self, &results, make) : stkpy_raise(&err);
    give_results(self, &results, bytes);
    return list;
}

/* ---- methods ---- */

static PyObject *g2p_word(PyObject *object, PyObject *word)
{
    g2p_object *self = (g2p_object *)object;
    stk_bytes bytes;
    PyObject *keep;
    if (!utf8_of(word, &bytes, &keep))
        return NULL;
    PyObject *list = pronounce(self, &bytes, 1, false, phonemes_of);
    Py_XDECREF(keep);
    if (!list)
        return NULL;
    PyObject *phonemes = PyList_GetItem(list, 0);
    Py_XINCREF(phonemes);
    Py_DECREF(list);
    return phonemes;
}

static PyObject *g2p_text(PyObject *object, PyObject *text)
{
    stk_bytes bytes;
    PyObject *keep;
    if (!utf8_of(text, &bytes, &keep))
        return NULL;
    PyObject *list = pronounce((g2p_object *)object, &bytes, 1, true, token_tuple);
    Py_XDECREF(keep);
    return list;
}

/* `keeps` takes one reference for each word without UTF-8 of its own. */
static bool utf8_of_all(PyObject *words, stk_bytes *out, PyObject *keeps)
{
    const Py_ssize_t count = PyTuple_Size(words);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *keep;
        if (!utf8_of(PyTuple_GetItem(words, i), &out[i], &keep))
            return false;
        const int kept = keep ? PyList_Append(keeps, keep) : 0;
        Py_XDECREF(keep);
        if (kept < 0)
            return false;
    }
    return true;
}

static PyObject *g2p_words(PyObject *object, PyObject *given)
{
    if (PyUnicode_Check(given))
        return PyErr_Format(PyExc_TypeError, "words: wanted a list of words, found the str %R", given);
    PyObject *words = PySequence_Tuple(given), *keeps = PyList_New(0), *list = NULL;
    const Py_ssize_t count = words ? PyTuple_Size(words) : 0;
    stk_bytes *bytes = words && keeps ? PyMem_Calloc((size_t)count + 1, sizeof *bytes) : NULL;
    if (!bytes) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        goto out;
    }
    if (utf8_of_all(words, bytes, keeps))
        list = pronounce((g2p_object *)object, bytes, (size_t)count, false, phonemes_of);
out:
    PyMem_Free(bytes);
    Py_XDECREF(keeps);
    Py_XDECREF(words);
    return list;
}

/* ---- the type ---- */

static PyMethodDef g2p_methods[] = {
    {"word", g2p_word, METH_O, "Phonemes of one word as it is."},
    {"words", g2p_words, METH_O, "Phonemes of each word; many at once are faster."},
    {"text", g2p_text, METH_O, "Running text as tokens: (text, phonemes, flags)."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot g2p_slots[] = {
    {Py_tp_new, (void *)(uintptr_t)g2p_new},
    {Py_tp_dealloc, (void *)(uintptr_t)g2p_dealloc},
    {Py_tp_methods, g2p_methods},
    {Py_tp_doc, (char *)"A model for words to phonemes, with lexicons; any thread may use it."},
    {0, NULL},
};

static PyType_Spec g2p_spec = {
    .name = "stoker._core.G2p",
    .basicsize = sizeof(g2p_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = g2p_slots,
};

int stkpy_g2p_init(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&g2p_spec);
    const int status = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;
    Py_XDECREF(type);
    return status;
}
