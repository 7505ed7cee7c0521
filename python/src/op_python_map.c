/* python_map: a Python function on every sample. */
#include "op_python_map.h"

#include <stdlib.h>
#include <string.h>

/* ---- planning ---- */

/* An exception while planning: a mistake of ours or a NumPy that is missing. */
static stk_status plan_failed(const stkpy_map *s, stk_error *err)
{
    return stkpy_keep_exception(s->kept, err, STK_INVALID, s->name);
}

static int map_traverse(const stkpy_owner *owner, visitproc visit, void *arg)
{
    const stkpy_map *s = (const stkpy_map *)owner;
    Py_VISIT(s->function);
    Py_VISIT(s->make_random);
    return 0;
}

static stk_status find_function(stkpy_map *s, stk_error *err)
{
    PyObject *item = stkpy_function(s->index, s->name, &s->kept, err);
    if (!item)
        return STK_INVALID;
    s->owner.traverse = map_traverse;
    stkpy_own(s->kept, &s->owner);
    s->function = PyObject_GetAttrString(item, "fn");
    PyObject *random = s->function ? PyObject_GetAttrString(item, "make_random") : NULL;
    PyObject *pool = random ? PyObject_GetAttrString(item, "pool") : NULL;
    if (pool && pool != Py_None)
        s->pool = stkpy_pool_of(pool);
    const bool found = pool && (s->pool || pool == Py_None);
    Py_XDECREF(pool);
    Py_DECREF(item);
    if (!found || stkpy_tools_make(&s->tools) < 0) {
        Py_XDECREF(random);
        return plan_failed(s, err);
    }
    if (random == Py_None)
        Py_DECREF(random);
    else
        s->make_random = random;
    return STK_OK;
}

/* The function may look at every field. */
static stk_status read_inputs(stk_plan *plan, const stk_host *host, stkpy_map *s, stk_error *err)
{
    const int count = host->plan_field_count(plan);
    s->in = calloc((size_t)count + 1, sizeof *s->in);
    if (!s->in)
        return host->fail(err, STK_NOMEM, "no memory for %d fields", count);
    for (int i = 0; i < count; i++) {
        stk_field field;
        int id;
        host->plan_field(plan, i, &field);
        const stk_status status = host->plan_read(plan, field.name, &id, &field, err);
        if (status != STK_OK)
            return status;
        if (stkpy_field_make(&s->in[s->in_count++], &s->tools, &field, id) < 0)
            return plan_failed(s, err);
    }
    return STK_OK;
}

static stk_status write_outputs(stk_plan *plan, const stk_host *host, stkpy_map *s, stk_error *err)
{
    s->out = calloc(s->outputs.count + 1, sizeof *s->out);
    if (!s->out)
        return host->fail(err, STK_NOMEM, "no memory for %zu fields", s->outputs.count);
    for (size_t i = 0; i < s->outputs.count; i++) {
        stk_field field;
        int id;
        stk_status status = stkpy_field_read(host, &s->outputs.items[i], &field, err);
        if (status == STK_OK)
            status = host->plan_write(plan, &field, &id, err);
        if (status != STK_OK)
            return status;
        if (stkpy_field_make(&s->out[s->out_count++], &s->tools, &field, id) < 0)
            return plan_failed(s, err);
    }
    return STK_OK;
}

static stk_status map_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    stkpy_map *s = state;
    PyGILState_STATE gil;
    if (!stkpy_gil_take(&gil))
        return host->fail(err, STK_CANCELLED, "Python is shutting down");
    stk_status status = find_function(s, err);
    if (status == STK_OK)
        status = read_inputs(plan, host, s, err);
    if (status == STK_OK)
        status = write_outputs(plan, host, s, err);
    stkpy_gil_give(gil);
    return status;
}

/* Here, in the thread that opens the run: its workers have not started yet. */
static stk_status start_processes(const stkpy_map *s, stk_error *err)
{
    PyGILState_STATE gil;
    if (!stkpy_gil_take(&gil))
        return stk_error_set(err, STK_CANCELLED, "Python is shutting down");
    const stk_status status = stkpy_pool_start(s->pool, s) ? STK_OK : plan_failed(s, err);
    stkpy_gil_give(gil);
    return status;
}

static stk_status map_open(const stk_call *call, stk_error *err)
{
    stkpy_map *s = call->state;
    for (size_t i = 0; i < s->out_count; i++)
        s->out[i].wanted = stk_needed(call, s->out[i].id);
    return s->pool ? start_processes(s, err) : STK_OK;
}

/* What a sample takes in a request and in its answer, where that is known. */
static int64_t map_memory(const stk_call *call)
{
    const stkpy_map *s = call->state;
    size_t each = 0;
    if (!s->pool)
        return 0;
    for (size_t i = 0; i < s->in_count + s->out_count; i++)
        each += (i < s->in_count ? &s->in[i] : &s->out[i - s->in_count])->row_bytes;
    return stkpy_pool_bytes(s->pool, each);
}

static void map_close(void *state)
{
    stkpy_map *s = state;
    PyGILState_STATE gil;
    stkpy_pool_unref(s->pool);
    if (!s->owner.link || !stkpy_gil_take(&gil))
        return; /* at the exit of the interpreter all of it is left where it is */
    stkpy_disown(&s->owner);
    Py_CLEAR(s->function);
    Py_CLEAR(s->make_random);
    stkpy_fields_free(s->in, s->in_count);
    stkpy_fields_free(s->out, s->out_count);
    stkpy_tools_clear(&s->tools);
    stkpy_gil_give(gil);
}

static stk_status map_worker_open(const stk_call *call, void **out_worker, stk_error *err)
{
    *out_worker = calloc(1, sizeof(stkpy_map_worker));
    return *out_worker ? STK_OK : call->host->fail(err, STK_NOMEM, "no memory for %zu bytes", sizeof(stkpy_map_worker));
}

static void map_worker_close(const stk_call *call)
{
    stkpy_map_worker *w = call->worker;
    PyGILState_STATE gil;
    stkpy_tile_clear(&w->tile);
    if (w->generator && stkpy_gil_take(&gil)) {
        PyBuffer_Release(&w->key);
        Py_CLEAR(w->generator);
        Py_CLEAR(w->bits);
        Py_CLEAR(w->start);
        stkpy_gil_give(gil);
    }
    free(w);
}

/* ---- one sample, with the GIL ---- */

static PyObject *make_sample(const stkpy_map *s, const stk_sample *sample)
{
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < s->in_count; i++) {
        const stkpy_field *field = &s->in[i];
        PyObject *value = stkpy_value_get(&s->tools, field, &sample->values[field->id]);
        if (!value || PyDict_SetItem(dict, field->name, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

static int make_generator(const stkpy_map *s, stkpy_map_worker *w)
{
    PyObject *key = NULL, *made = PyObject_CallFunctionObjArgs(s->make_random, NULL);
    int result = -1;
    PyObject *generator, *bits, *start;
    if (made && PyArg_ParseTuple(made, "OOOO", &generator, &bits, &start, &key) &&
        PyObject_GetBuffer(key, &w->key, PyBUF_WRITABLE) == 0) {
        Py_INCREF(w->generator = generator);
        Py_INCREF(w->bits = bits);
        Py_INCREF(w->start = start);
        result = 0;
    }
    Py_XDECREF(made);
    return result;
}

/* One generator per worker, set to the sample's own stream: by seed, epoch, sample and op alone. */
static PyObject *seed_generator(const stkpy_map *s, const stk_call *call, const stk_sample *sample)
{
    stkpy_map_worker *w = call->worker;
    if (!w->generator && make_generator(s, w) < 0)
        return NULL;
    uint32_t words[4];
    call->host->random(call, sample, 0, words);
    if ((size_t)w->key.len == sizeof words)
        memcpy(w->key.buf, words, sizeof words);
    return PyObject_SetAttrString(w->bits, "state", w->start) < 0 ? NULL : w->generator;
}

/* Holds the function meanwhile, so that the garbage collector sees it in use. */
static PyObject *call_function(const stkpy_map *s, const stk_call *call, const stk_sample *sample)
{
    PyObject *random = NULL, *result = NULL, *function = s->function;
    Py_INCREF(function);
    if (s->make_random)
        random = seed_generator(s, call, sample);
    PyObject *argument = random || !s->make_random ? make_sample(s, sample) : NULL;
    if (argument)
        result = PyObject_CallFunctionObjArgs(function, argument, random, NULL);
    Py_XDECREF(argument);
    Py_DECREF(function);
    return result;
}

/* Raises for the first field that was not declared. */
static stkpy_result unknown_field(const stkpy_map *s, PyObject *result)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(result, &at, &key, &value)) {
        bool known = false;
        for (size_t i = 0; i < s->out_count && !known; i++)
            known = PyObject_RichCompareBool(s->out[i].name, key, Py_EQ) == 1;
        if (known)
            continue;
        PyErr_Clear();
        Py_INCREF(key); /* writing it down may let others change the dict */
        PyErr_Format(PyExc_TypeError,
                     "returned a field %R that was not declared; declare it: map(fn, ..., %S=\"float32[8]\")", key,
                     key);
        Py_DECREF(key);
        break;
    }
    return STKPY_RAISED;
}

/* The fields that the function gave must be those that were said. */
static stkpy_result check_names(const stkpy_map *s, PyObject *result)
{
    if (!PyDict_Check(result)) {
        PyErr_Format(
            PyExc_TypeError,
            "returned %R, wanted a dict of the fields to change or add, such as {\"x\": array}; {} changes none",
            (PyObject *)Py_TYPE(result));
        return STKPY_RAISED;
    }
    for (size_t i = 0; i < s->out_count; i++) {
        if (PyDict_GetItemWithError(result, s->out[i].name))
            continue;
        if (!PyErr_Occurred())
            PyErr_Format(
                PyExc_TypeError,
                "returned no field '%U'; wanted the same fields for every sample: take it from the sample where it "
                "stays as it is",
                s->out[i].name);
        return STKPY_RAISED;
    }
    return (size_t)PyDict_Size(result) == s->out_count ? STKPY_OK : unknown_field(s, result);
}

/* *out_at: the field that it failed at. */
static stkpy_result take_result(const stkpy_map *s, const stk_call *call, stk_sample *sample, PyObject *result,
                                const stkpy_field **out_at, stk_error *err)
{
    stkpy_result taken = check_names(s, result);
    for (size_t i = 0; taken == STKPY_OK && i < s->out_count; i++) {
        const stkpy_field *field = &s->out[i];
        /* A reference of our own: other threads may change the dict, where the function gives the same one to all. */
        PyObject *value = PyDict_GetItemWithError(result, field->name);
        Py_XINCREF(value);
        if (!value) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_RuntimeError, "field '%U' was taken out of the dict meanwhile", field->name);
            taken = STKPY_RAISED;
        } else if (field->wanted) {
            taken = stkpy_value_set(&s->tools, call, sample, field, value, err);
        }
        Py_XDECREF(value);
        if (taken != STKPY_OK)
            *out_at = field;
    }
    return taken;
}

stk_status stkpy_map_one(const stk_call *call, stk_sample *sample, stk_error *err)
{
    const stkpy_map *s = call->state;
    const stkpy_field *at = NULL;
    PyObject *result = call_function(s, call, sample);
    const stkpy_result taken = result ? take_result(s, call, sample, result, &at, err) : STKPY_RAISED;
    stk_status status = taken == STKPY_FAILED ? err->status : STK_OK;
    if (taken == STKPY_RAISED)
        status = stkpy_keep_exception(s->kept, err, stkpy_exception_status(), NULL);
    Py_XDECREF(result);
    if (status != STK_OK)
        stkpy_error_at(err, s->name, at);
    return status;
}

/* ---- running ---- */

/*
 * All samples of a tile with the GIL taken once: with several workers, one that lets go of it after each sample would
 * wait for its turn again each time. Python itself passes it on when others have waited for 5 ms.
 */
static stk_status map_gather(const stk_call *call, stk_sample *const *samples, size_t n, stk_error *err)
{
    const stkpy_map *s = call->state;
    stkpy_map_worker *w = call->worker;
    PyGILState_STATE gil;
    stk_status status = STK_OK;
    stkpy_tile_begin(&w->tile, n);
    if (s->pool)
        return stkpy_map_remote(call, samples, n, err);
    if (!stkpy_gil_take_often(&gil))
        return call->host->fail(err, STK_CANCELLED, "Python is shutting down");
    const stkpy_kept *before = stkpy_enter(s->kept);
    for (size_t i = 0; i < n && status == STK_OK; i++) {
        stk_error error;
        stk_error_clear(&error);
        if (stkpy_stopping(s->kept))
            status = call->host->fail(err, STK_CANCELLED, "the run was stopped");
        else if (stkpy_map_one(call, samples[i], &error) != STK_OK && !stkpy_tile_fail(&w->tile, i, &error))
            status = call->host->fail(err, STK_NOMEM, "no memory for %zu bytes", sizeof error);
    }
    stkpy_leave(before);
    stkpy_gil_give(gil);
    return status;
}

static stk_status map_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    stkpy_map_worker *w = call->worker;
    return stkpy_tile_pass(&w->tile, err);
}

static const char *map_label(const void *state)
{
    const stkpy_map *s = state;
    return s->name;
}

static uint64_t map_stamp(const stk_call *call, int64_t *newest_ns)
{
    const stkpy_map *s = call->state;
    PyGILState_STATE gil;
    (void)newest_ns;
    if (!call->host->open_info(call)->cache_file || !stkpy_gil_take(&gil))
        return 0;
    const uint64_t stamp = stkpy_stamp(s->function);
    stkpy_gil_give(gil);
    return stamp;
}

/* Two underscores, because all other names are those of fields. */
static const stk_option map_options[] = {
    {.name = "__index",
     .kind = STK_OPTION_INT,
     .required = true,
     .offset = STK_FIELD_OFFSET(stkpy_map, index, int64_t),
     .min = 0,
     .max = INT32_MAX,
     .help = "number of the function"},
    {.name = "__name",
     .kind = STK_OPTION_STRING,
     .required = true,
     .offset = STK_FIELD_OFFSET(stkpy_map, name, const char *),
     .help = "name of the function"},
    {.name = "outputs",
     .kind = STK_OPTION_ARGS,
     .offset = STK_FIELD_OFFSET(stkpy_map, outputs, stk_args),
     .help = "name=type for each field that it changes or adds"},
    STK_OPTION_END,
};

const stk_op stkpy_op_map = {
    .abi = STK_OP_ABI,
    .name = "python_map",
    .group = "python",
    .since = "0.1",
    .summary = "Call a Python function with every sample.",
    .options = map_options,
    .state_size = sizeof(stkpy_map),
    .role = STK_ROLE_SAMPLE,
    .flags = STK_OP_RANDOM,
    .schema = map_schema,
    .open = map_open,
    .close = map_close,
    .worker_open = map_worker_open,
    .worker_close = map_worker_close,
    .process = map_process,
    .gather = map_gather,
    .memory = map_memory,
    .label = map_label,
    .stamp = map_stamp,
};
