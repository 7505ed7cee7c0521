/* python_source: samples from Python: rows of arrays, items of a sequence, or what an iterator gives. */
#include "op_python.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compat.h"

typedef enum { KIND_ROWS, KIND_ITEMS, KIND_STREAM } source_kind;

typedef struct {
    stkpy_owner owner; /* first: it is cast to the whole */
    int64_t index;
    const char *name;
    int64_t size; /* samples; -1: a stream */
    stk_args types;

    /* set by schema and open, then const; references are given up by close */
    stkpy_kept *kept;
    stkpy_tools tools;
    PyObject *source;  /* a Source of _functions.py */
    PyObject *items;   /* ITEMS: the sequence */
    PyObject *missing; /* (item, fields): raises what is wrong with it */
    PyObject *names;   /* tuple of the fields */
    source_kind kind;
    stkpy_field *fields;
    size_t field_count;
    Py_buffer *arrays; /* ROWS: one for each field; obj NULL: not held */
    uint64_t fingerprint;

    /* streams: one thread at a time; with the GIL */
    PyObject *iterator;
} source_state;

/* ---- planning ---- */

static stk_status open_failed(const source_state *s, stk_error *err)
{
    return stkpy_keep_exception(s->kept, err, STK_INVALID, NULL);
}

static int source_traverse(const stkpy_owner *owner, visitproc visit, void *arg)
{
    const source_state *s = (const source_state *)owner;
    Py_VISIT(s->source);
    Py_VISIT(s->items);
    Py_VISIT(s->missing);
    Py_VISIT(s->iterator);
    return 0;
}

static stk_status find_source(source_state *s, stk_error *err)
{
    s->source = stkpy_function(s->index, s->name, &s->kept, err);
    if (!s->source)
        return STK_INVALID;
    s->owner.traverse = source_traverse;
    stkpy_own(s->kept, &s->owner);
    PyObject *kind = PyObject_GetAttrString(s->source, "kind");
    const char *text = kind ? PyUnicode_AsUTF8AndSize(kind, NULL) : NULL;
    if (text)
        s->kind = strcmp(text, "rows") == 0 ? KIND_ROWS : strcmp(text, "items") == 0 ? KIND_ITEMS : KIND_STREAM;
    Py_XDECREF(kind);
    s->missing = text ? PyObject_GetAttrString(s->source, "missing") : NULL;
    return s->missing && stkpy_tools_make(&s->tools) == 0 ? STK_OK : open_failed(s, err);
}

static stk_status write_fields(stk_plan *plan, const stk_host *host, source_state *s, stk_error *err)
{
    s->fields = calloc(s->types.count + 1, sizeof *s->fields);
    s->arrays = calloc(s->types.count + 1, sizeof *s->arrays);
    s->names = PyTuple_New((Py_ssize_t)s->types.count);
    if (!s->fields || !s->arrays || !s->names)
        return host->fail(err, STK_NOMEM, "no memory for %zu fields", s->types.count);
    for (size_t i = 0; i < s->types.count; i++) {
        stk_field field;
        int id;
        stk_status status = stkpy_field_read(host, &s->types.items[i], &field, err);
        if (status == STK_OK)
            status = host->plan_write(plan, &field, &id, err);
        if (status != STK_OK)
            return status;
        if (stkpy_field_make(&s->fields[s->field_count++], &s->tools, &field, id) < 0)
            return open_failed(s, err);
        Py_INCREF(s->fields[i].name);
        if (PyTuple_SetItem(s->names, (Py_ssize_t)i, s->fields[i].name) < 0)
            return open_failed(s, err);
    }
    return STK_OK;
}

static stk_status source_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    source_state *s = state;
    PyGILState_STATE gil;
    if (!stkpy_gil_take(&gil))
        return host->fail(err, STK_CANCELLED, "Python is shutting down");
    stk_status status = find_source(s, err);
    if (status == STK_OK)
        status = write_fields(plan, host, s, err);
    stkpy_gil_give(gil);
    return status;
}

/* ---- opening ---- */

/* Whether each row is; they may lie apart from each other, or overlap. */
static bool rows_in_one_piece(const Py_buffer *view)
{
    Py_ssize_t wanted = view->itemsize;
    for (int d = view->ndim - 1; d > 0; d--) {
        if (view->shape[d] > 1 && view->strides[d] != wanted)
            return false;
        wanted *= view->shape[d];
    }
    return true;
}

static const char *row_at(const Py_buffer *view, int64_t row)
{
    return (const char *)view->buf + row * view->strides[0];
}

/* Rows are read without the GIL: the buffers are held, so that nobody can resize the arrays. */
static stk_status hold_array(source_state *s, size_t i, PyObject *arrays, stk_error *err)
{
    const stkpy_field *field = &s->fields[i];
    PyObject *array = PyObject_GetItem(arrays, field->name);
    if (!array)
        return open_failed(s, err);
    const int failed = PyObject_GetBuffer(array, &s->arrays[i], PyBUF_STRIDES | PyBUF_FORMAT);
    Py_DECREF(array);
    if (failed) {
        s->arrays[i] = (Py_buffer){0};
        return open_failed(s, err);
    }
    const Py_buffer *view = &s->arrays[i];
    size_t bytes;
    const bool fits = field->fixed && view->ndim > 0 && view->shape[0] == s->size &&
                      !__builtin_mul_overflow(field->row_bytes, (size_t)s->size, &bytes) && bytes == (size_t)view->len;
    if (!fits)
        return stk_error_set(err, STK_INVALID, "field '%s' has %lld bytes in %lld rows, wanted %lld rows of %zu bytes",
                             field->text, (long long)view->len, (long long)(view->ndim > 0 ? view->shape[0] : 0),
                             (long long)s->size, field->row_bytes);
    if (!rows_in_one_piece(view))
        return stk_error_set(err, STK_INVALID, "field '%s' has rows with gaps in them, wanted each in one piece", field->text);
    return STK_OK;
}

static uint64_t mix(uint64_t h, const void *data, size_t size)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < size; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h ^ h >> 29;
}

/*
 * A state that is loaded must belong to the same data. The text of the pipeline has types and count; for arrays some
 * bytes of some rows tell a set that was split or sorted another way. Items of sequences are not looked at: they may
 * cost anything.
 */
static uint64_t look_at_rows(const source_state *s)
{
    enum { ROWS = 64, BYTES = 64 };
    uint64_t h = 0xcbf29ce484222325u;
    const int64_t step = s->size <= ROWS ? 1 : (s->size - 1) / (ROWS - 1);
    for (size_t i = 0; i < s->field_count; i++) {
        const size_t row = s->fields[i].row_bytes, size = row < BYTES ? row : BYTES;
        for (int64_t k = 0; k < ROWS && k < s->size; k++)
            h = mix(h, row_at(&s->arrays[i], k * step) + (row - size) / 2, size);
    }
    return h;
}

static stk_status open_rows(source_state *s, stk_error *err)
{
    PyObject *arrays = PyObject_GetAttrString(s->source, "arrays");
    stk_status status = arrays ? STK_OK : open_failed(s, err);
    for (size_t i = 0; status == STK_OK && i < s->field_count; i++)
        status = hold_array(s, i, arrays, err);
    Py_XDECREF(arrays);
    if (status == STK_OK)
        s->fingerprint = look_at_rows(s);
    return status;
}

static stk_status open_items(source_state *s, stk_error *err)
{
    s->items = PyObject_GetAttrString(s->source, "items");
    const Py_ssize_t size = s->items ? PyObject_Size(s->items) : -1;
    if (size < 0)
        return open_failed(s, err);
    if (size != s->size)
        return stk_error_set(err, STK_INVALID,
                             "the sequence has %lld items now, but had %lld when the source was made; make it anew",
                             (long long)size, (long long)s->size);
    return STK_OK;
}

static stk_status source_open(const stk_call *call, stk_error *err)
{
    source_state *s = call->state;
    PyGILState_STATE gil;
    if (!stkpy_gil_take(&gil))
        return call->host->fail(err, STK_CANCELLED, "Python is shutting down");
    for (size_t i = 0; i < s->field_count; i++)
        s->fields[i].wanted = stk_needed(call, s->fields[i].id);
    stk_status status = STK_OK;
    if (s->kind == KIND_ROWS)
        status = open_rows(s, err);
    else if (s->kind == KIND_ITEMS)
        status = open_items(s, err);
    stkpy_gil_give(gil);
    return status;
}

static void source_close(void *state)
{
    source_state *s = state;
    PyGILState_STATE gil;
    if (!s->source || !stkpy_gil_take(&gil))
        return; /* at the exit of the interpreter all of it is left where it is */
    stkpy_disown(&s->owner);
    for (size_t i = 0; s->arrays && i < s->field_count; i++)
        PyBuffer_Release(&s->arrays[i]);
    free(s->arrays);
    stkpy_fields_free(s->fields, s->field_count);
    stkpy_tools_clear(&s->tools);
    Py_CLEAR(s->iterator);
    Py_CLEAR(s->items);
    Py_CLEAR(s->missing);
    Py_CLEAR(s->names);
    Py_CLEAR(s->source);
    stkpy_gil_give(gil);
}

static stk_status source_worker_open(const stk_call *call, void **out_worker, stk_error *err)
{
    *out_worker = calloc(1, sizeof(stkpy_tile));
    return *out_worker ? STK_OK : call->host->fail(err, STK_NOMEM, "no memory for %zu bytes", sizeof(stkpy_tile));
}

static void source_worker_close(const stk_call *call)
{
    stkpy_tile_clear(call->worker);
    free(call->worker);
}

static int64_t source_count(const stk_call *call)
{
    const source_state *s = call->state;
    return s->kind == KIND_STREAM ? -1 : s->size;
}

static uint64_t source_fingerprint(const stk_call *call)
{
    const source_state *s = call->state;
    return s->fingerprint;
}

/* Every byte of what lies in memory, up to so much; of larger arrays evenly chosen rows. */
static uint64_t read_rows(const source_state *s)
{
    const size_t most = (size_t)1 << 30;
    size_t bytes = 0;
    for (size_t i = 0; i < s->field_count; i++)
        bytes += s->fields[i].row_bytes * (size_t)s->size;
    const int64_t step = (int64_t)(bytes / most) + 1;
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < s->field_count; i++) {
        const size_t row = s->fields[i].row_bytes;
        for (int64_t k = 0; k < s->size; k += step) {
            const char *p = row_at(&s->arrays[i], k);
            size_t at = 0;
            for (uint64_t word; at + sizeof word <= row; at += sizeof word) {
                memcpy(&word, p + at, sizeof word);
                h = (h ^ word) * 0xd6e8feb86659fd93u;
                h ^= h >> 32;
            }
            h = mix(h, p + at, row - at);
        }
    }
    return h;
}

static uint64_t source_stamp(const stk_call *call, int64_t *newest_ns)
{
    const source_state *s = call->state;
    PyGILState_STATE gil;
    (void)newest_ns;
    if (!call->host->open_info(call)->cache_file)
        return 0;
    if (s->kind == KIND_ROWS)
        return read_rows(s);
    if (!stkpy_gil_take(&gil))
        return 0;
    PyObject *items = PyObject_GetAttrString(s->source, "items");
    if (!items)
        PyErr_Clear();
    const uint64_t stamp = stkpy_stamp(items ? items : s->source);
    Py_XDECREF(items);
    stkpy_gil_give(gil);
    return stamp;
}

/* ---- items, with the GIL ---- */

/* The value of field i, a new reference; NULL with an exception. */
static PyObject *field_of(const source_state *s, PyObject *item, size_t i)
{
    PyObject *value = NULL;
    if (PyDict_Check(item)) {
        value = PyDict_GetItemWithError(item, s->fields[i].name);
    } else if (PyTuple_Check(item)) {
        if (PyTuple_Size(item) == (Py_ssize_t)s->field_count)
            value = PyTuple_GetItem(item, (Py_ssize_t)i);
    } else if (s->field_count == 1) {
        value = item;
    }
    if (!value && !PyErr_Occurred()) {
        /* Mappings that are no dict, and messages, are rare: Python does them. */
        return PyObject_CallFunctionObjArgs(s->missing, item, s->names, s->fields[i].name, NULL);
    }
    Py_XINCREF(value);
    return value;
}

/* *out_at: the field that it failed at. */
static stkpy_result take_item(const source_state *s, const stk_call *call, stk_sample *sample, PyObject *item,
                              const stkpy_field **out_at, stk_error *err)
{
    for (size_t i = 0; i < s->field_count; i++) {
        const stkpy_field *field = &s->fields[i];
        if (!field->wanted)
            continue;
        PyObject *value = field_of(s, item, i);
        stkpy_result taken = STKPY_RAISED;
        if (value)
            taken = stkpy_value_set(&s->tools, call, sample, field, value, err);
        Py_XDECREF(value);
        if (taken == STKPY_OK)
            continue;
        *out_at = value ? field : NULL;
        return taken;
    }
    return STKPY_OK;
}

static void set_origin(const source_state *s, stk_sample *sample)
{
    sample->origin = (stk_origin){.file = s->name, .offset = -1, .record = sample->index, .size_bytes = -1};
}

/* The status of an item that was taken, or not; `raised`: what an exception means. */
static stk_status item_status(const source_state *s, stkpy_result taken, stk_status raised, const stkpy_field *at,
                              stk_error *err)
{
    stk_status status = STK_OK;
    if (taken == STKPY_FAILED)
        status = err->status;
    else if (taken == STKPY_RAISED)
        status = stkpy_keep_exception(s->kept, err, raised, NULL);
    if (status != STK_OK)
        stkpy_error_at(err, "source", at);
    return status;
}

static stk_status item_taken(const stk_call *call, stk_sample *sample, PyObject *item, stk_error *err)
{
    const source_state *s = call->state;
    const stkpy_field *at = NULL;
    const stkpy_result taken = item ? take_item(s, call, sample, item, &at, err) : STKPY_RAISED;
    stk_status raised = taken == STKPY_RAISED ? stkpy_exception_status() : STK_OK;
    if (item && raised == STK_INVALID)
        raised = STK_CORRUPT; /* the source gave it, but it is not what it was said to be */
    return item_status(s, taken, raised, at, err);
}

static stk_status item_one(const stk_call *call, stk_sample *sample, stk_error *err)
{
    const source_state *s = call->state;
    set_origin(s, sample);
    PyObject *key = PyLong_FromLongLong(sample->index);
    PyObject *items = s->items; /* held meanwhile, so that the garbage collector sees it in use */
    Py_INCREF(items);
    PyObject *item = key ? PyObject_GetItem(items, key) : NULL;
    const stk_status status = item_taken(call, sample, item, err);
    Py_XDECREF(key);
    Py_XDECREF(item);
    Py_DECREF(items);
    return status;
}

/* ---- running: indexable ---- */

static stk_status source_gather(const stk_call *call, stk_sample *const *samples, size_t n, stk_error *err)
{
    const source_state *s = call->state;
    PyGILState_STATE gil;
    stk_status status = STK_OK;
    if (s->kind != KIND_ITEMS)
        return STK_OK;
    stkpy_tile_begin(call->worker, n);
    if (!stkpy_gil_take_often(&gil))
        return call->host->fail(err, STK_CANCELLED, "Python is shutting down");
    const stkpy_kept *before = stkpy_enter(s->kept);
    for (size_t i = 0; i < n && status == STK_OK; i++) {
        stk_error error;
        stk_error_clear(&error);
        if (stkpy_stopping(s->kept))
            status = call->host->fail(err, STK_CANCELLED, "the run was stopped");
        else if (item_one(call, samples[i], &error) != STK_OK && !stkpy_tile_fail(call->worker, i, &error))
            status = call->host->fail(err, STK_NOMEM, "no memory for %zu bytes", sizeof error);
    }
    stkpy_leave(before);
    stkpy_gil_give(gil);
    return status;
}

static stk_status source_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    const source_state *s = call->state;
    if (s->kind == KIND_ITEMS)
        return stkpy_tile_pass(call->worker, err);
    set_origin(s, sample);
    for (size_t i = 0; i < s->field_count; i++) {
        const stkpy_field *field = &s->fields[i];
        if (!field->wanted)
            continue;
        void *out = stk_out(call, sample, field->id, NULL, err);
        if (!out)
            return err->status;
        memcpy(out, row_at(&s->arrays[i], sample->index), field->row_bytes);
    }
    return STK_OK;
}

/* ---- running: streams ---- */

static stk_status begin(source_state *s, stk_error *err)
{
    if (stkpy_stopping(s->kept))
        return stk_error_set(err, STK_CANCELLED, "the run was stopped");
    PyObject *source = s->source; /* held meanwhile, so that the garbage collector sees it in use */
    Py_INCREF(source);
    Py_CLEAR(s->iterator);
    PyObject *iterator = PyObject_CallMethod(source, "begin", NULL);
    Py_DECREF(source);
    s->iterator = iterator;
    return iterator ? STK_OK : item_status(s, STKPY_RAISED, STK_INVALID, NULL, err);
}

static stk_status source_rewind(const stk_call *call, stk_error *err)
{
    source_state *s = call->state;
    PyGILState_STATE gil;
    if (!stkpy_gil_take_often(&gil))
        return call->host->fail(err, STK_CANCELLED, "Python is shutting down");
    const stkpy_kept *before = stkpy_enter(s->kept);
    const stk_status status = begin(s, err);
    stkpy_leave(before);
    stkpy_gil_give(gil);
    return status;
}

static stk_status pull_one(source_state *s, const stk_call *call, stk_sample *sample, stk_error *err)
{
    if (stkpy_stopping(s->kept))
        return stk_error_set(err, STK_CANCELLED, "the run was stopped");
    set_origin(s, sample);
    PyObject *iterator = s->iterator; /* held meanwhile, as the source is in begin */
    Py_XINCREF(iterator);
    PyObject *item = iterator ? PyIter_Next(iterator) : NULL;
    Py_XDECREF(iterator);
    if (!item && !PyErr_Occurred())
        return STK_END;
    /* An iterator that raises has come to its end: leaving out one record would leave out all that follow. */
    if (!item) {
        const stk_status failed = item_status(s, STKPY_RAISED, STK_INVALID, NULL, err);
        snprintf(err->file, sizeof err->file, "%s", s->name);
        err->record = sample->index;
        return failed;
    }
    const stk_status status = item_taken(call, sample, item, err);
    Py_DECREF(item);
    return status;
}

static stk_status source_pull(const stk_call *call, stk_sample *sample, stk_error *err)
{
    source_state *s = call->state;
    PyGILState_STATE gil;
    if (!stkpy_gil_take_often(&gil))
        return call->host->fail(err, STK_CANCELLED, "Python is shutting down");
    const stkpy_kept *before = stkpy_enter(s->kept);
    const stk_status status = pull_one(s, call, sample, err);
    if (status == STK_END)
        Py_CLEAR(s->iterator);
    stkpy_leave(before);
    stkpy_gil_give(gil);
    return status;
}

static const char *source_label(const void *state)
{
    const source_state *s = state;
    return s->name;
}

/* Two underscores, because all other names are those of fields. */
static const stk_option source_options[] = {
    {.name = "__index",
     .kind = STK_OPTION_INT,
     .required = true,
     .offset = STK_FIELD_OFFSET(source_state, index, int64_t),
     .min = 0,
     .max = INT32_MAX,
     .help = "number of the source"},
    {.name = "__name",
     .kind = STK_OPTION_STRING,
     .required = true,
     .offset = STK_FIELD_OFFSET(source_state, name, const char *),
     .help = "name of the source"},
    {.name = "__count",
     .kind = STK_OPTION_INT,
     .required = true,
     .offset = STK_FIELD_OFFSET(source_state, size, int64_t),
     .min = -1,
     .max = (int64_t)1 << 61,
     .help = "number of samples; -1: not known"},
    {.name = "types",
     .kind = STK_OPTION_ARGS,
     .required = true,
     .offset = STK_FIELD_OFFSET(source_state, types, stk_args),
     .help = "name=type for each field"},
    STK_OPTION_END,
};

const stk_op stkpy_op_source = {
    .abi = STK_OP_ABI,
    .name = "python_source",
    .group = "python",
    .since = "0.1",
    .summary = "Take samples from Python.",
    .options = source_options,
    .state_size = sizeof(source_state),
    .role = STK_ROLE_SOURCE,
    .schema = source_schema,
    .open = source_open,
    .close = source_close,
    .worker_open = source_worker_open,
    .worker_close = source_worker_close,
    .process = source_process,
    .count = source_count,
    .gather = source_gather,
    .rewind = source_rewind,
    .pull = source_pull,
    .fingerprint = source_fingerprint,
    .stamp = source_stamp,
    .label = source_label,
};
