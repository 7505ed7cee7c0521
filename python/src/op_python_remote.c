/* python_map with processes, this side: samples into the memory of a process, and what it made of them into the batch. */
#include "op_python_map.h"

#include <string.h>

/* A request has as many samples as fit into this, or one. */
enum { REQUEST_BYTES = 1 << 20 };

static stk_status no_memory(stk_error *err)
{
    return stk_error_set(err, STK_NOMEM, "no memory to share with the processes");
}

static stk_status nonsense(stk_error *err)
{
    return stk_error_set(err, STKPY_FUNCTION_FAILED, "a process gave an answer that cannot be read");
}

/* ---- requests ---- */

static size_t value_bytes(const stkpy_field *field, const stk_value *value)
{
    size_t bytes = (size_t)value->elements * stk_dtype_size(field->type);
    const stk_bytes *views = value->data;
    for (int64_t i = 0; field->type == STK_BYTES && i < value->elements; i++)
        bytes += (size_t)views[i].size;
    return bytes;
}

/* How many of the samples go into one request. */
static size_t choose_count(const stkpy_map *s, stk_sample *const *samples, size_t n)
{
    size_t bytes = 0, count = 0;
    while (count < n) {
        for (size_t i = 0; i < s->in_count; i++)
            bytes += value_bytes(&s->in[i], &samples[count]->values[s->in[i].id]);
        if (count > 0 && bytes > REQUEST_BYTES)
            break;
        count++;
    }
    return count;
}

static bool put_contents(stkpy_area *area, const stk_value *value, stkpy_wire_value *out)
{
    const size_t count = (size_t)value->elements;
    const stk_bytes *views = value->data;
    uint64_t at, total = 0;
    for (size_t i = 0; i < count; i++)
        total += (uint64_t)views[i].size;
    if (!stkpy_area_take(area, count * sizeof(stkpy_wire_bytes), &out->offset))
        return false;
    char *contents = stkpy_area_take(area, total, &at);
    if (!contents)
        return false;
    stkpy_wire_bytes *wire = (void *)(area->base + out->offset);
    for (size_t i = 0; i < count; i++) {
        wire[i] = (stkpy_wire_bytes){at, views[i].size};
        if (views[i].size)
            memcpy(contents, views[i].data, (size_t)views[i].size);
        contents += views[i].size;
        at += (uint64_t)views[i].size;
    }
    return true;
}

static bool put_value(stkpy_area *area, const stkpy_field *field, const stk_value *value, stkpy_wire_value *out)
{
    *out = (stkpy_wire_value){.elements = value->elements};
    memcpy(out->shape, field->fixed ? field->dims : value->shape, sizeof *out->shape * (size_t)field->ndim);
    if (field->type == STK_BYTES)
        return put_contents(area, value, out);
    const size_t bytes = (size_t)value->elements * stk_dtype_size(field->type);
    void *data = stkpy_area_take(area, bytes, &out->offset);
    if (data && bytes)
        memcpy(data, value->data, bytes);
    return data != NULL;
}

static bool write_request(const stk_call *call, stkpy_area *area, stk_sample *const *samples, size_t n)
{
    const stkpy_map *s = call->state;
    uint64_t at, values;
    area->used = 0;
    stkpy_wire_sample *head = stkpy_area_take(area, n * sizeof *head, &at);
    for (size_t i = 0; head && i < n; i++)
        for (uint32_t block = 0; block < 2; block++)
            call->host->random(call, samples[i], block, head[i].random[block]);
    if (!head || !stkpy_area_take(area, n * s->in_count * sizeof(stkpy_wire_value), &values))
        return false;
    for (size_t i = 0; i < n * s->in_count; i++) {
        const stkpy_field *field = &s->in[i % s->in_count];
        stkpy_wire_value wire;
        if (!put_value(area, field, &samples[i / s->in_count]->values[field->id], &wire))
            return false;
        memcpy(area->base + values + i * sizeof wire, &wire, sizeof wire);
    }
    return true;
}

/* ---- answers: sizes are checked, since a function may have spoiled the memory of its process ---- */

static stk_status take_contents(const stk_call *call, const stkpy_area *area, stk_sample *sample,
                                const stkpy_field *field, const stkpy_wire_value *wire, stk_error *err)
{
    const size_t count = (size_t)wire->elements;
    const stkpy_wire_bytes *from = stkpy_area_at(area, wire->offset, count * sizeof *from);
    stk_bytes *views = NULL;
    if (!from)
        return nonsense(err);
    if (field->ndim > 0 && !(views = stk_out(call, sample, field->id, field->fixed ? NULL : wire->shape, err)))
        return err->status;
    for (size_t i = 0; i < count; i++) {
        const stkpy_wire_bytes one = from[i];
        const void *data = one.size >= 0 ? stkpy_area_at(area, one.offset, (uint64_t)one.size) : NULL;
        const size_t size = one.size > 0 ? (size_t)one.size : 1;
        if (!data)
            return nonsense(err);
        void *copy = views ? stk_scratch(call, size, err) : stk_bytes_block(call, field->id, size, err);
        if (!copy)
            return err->status;
        memcpy(copy, data, (size_t)one.size);
        if (views)
            views[i] = (stk_bytes){copy, one.size};
        else
            stk_set_bytes(call, sample, field->id, copy, one.size, true);
    }
    return STK_OK;
}

/* Whether the shape is one that the field may have, of so many elements. */
static bool shape_fits(const stkpy_field *field, const stkpy_wire_value *wire)
{
    int64_t elements = 1;
    for (int d = 0; d < field->ndim; d++)
        if (wire->shape[d] < 0 || (field->dims[d] >= 0 && wire->shape[d] != field->dims[d]) ||
            __builtin_mul_overflow(elements, wire->shape[d], &elements))
            return false;
    return elements == wire->elements && elements <= (int64_t)1 << 40;
}

static stk_status take_value(const stk_call *call, const stkpy_area *area, stk_sample *sample, const stkpy_field *field,
                             const stkpy_wire_value *wire, stk_error *err)
{
    if (!shape_fits(field, wire))
        return nonsense(err);
    if (field->type == STK_BYTES)
        return take_contents(call, area, sample, field, wire, err);
    const size_t bytes = (size_t)wire->elements * stk_dtype_size(field->type);
    const void *data = stkpy_area_at(area, wire->offset, bytes);
    if (!data)
        return nonsense(err);
    void *out = stk_out(call, sample, field->id, field->fixed ? NULL : wire->shape, err);
    if (!out)
        return err->status;
    if (bytes)
        memcpy(out, data, bytes);
    return STK_OK;
}

/* The exception of the other process becomes one of this run. */
static void keep_cause(const stkpy_map *s, const void *pickled, size_t size)
{
    PyGILState_STATE gil;
    if (!stkpy_gil_take_often(&gil))
        return;
    PyObject *module = PyImport_ImportModule("stoker._processes");
    PyObject *exception =
        module ? PyObject_CallMethod(module, "unpack", "y#", (const char *)pickled, (Py_ssize_t)size) : NULL;
    if (exception)
        stkpy_keep_object(s->kept, exception);
    stkpy_error_forget(); /* the message tells what happened all the same */
    Py_XDECREF(exception);
    Py_XDECREF(module);
    stkpy_gil_give(gil);
}

static stk_status take_error(const stkpy_map *s, const stkpy_area *area, const stkpy_wire_result *result,
                             stk_error *err)
{
    const stk_error *error = stkpy_area_at(area, result->error, sizeof *error);
    const stkpy_wire_bytes cause = result->cause;
    const void *pickled = cause.size > 0 ? stkpy_area_at(area, cause.offset, (uint64_t)cause.size) : NULL;
    if (!error)
        return nonsense(err);
    *err = *error;
    err->message[sizeof err->message - 1] = err->field[sizeof err->field - 1] = err->op[sizeof err->op - 1] = '\0';
    if (pickled)
        keep_cause(s, pickled, (size_t)cause.size);
    return err->status != STK_OK ? err->status : nonsense(err);
}

/* What became of the samples; what is wrong with one of them is kept for `process`. */
static stk_status read_answer(const stk_call *call, const stkpy_area *area, stk_sample *const *samples, size_t first,
                              size_t n, stk_error *err)
{
    const stkpy_map *s = call->state;
    stkpy_map_worker *w = call->worker;
    const stkpy_wire_result *results = stkpy_area_at(area, 0, n * sizeof *results);
    const uint64_t values_at = (n * sizeof *results + 63) / 64 * 64;
    const stkpy_wire_value *values = stkpy_area_at(area, values_at, n * s->out_count * sizeof *values);
    if (!results || !values)
        return nonsense(err);
    for (size_t i = 0; i < n; i++) {
        stk_error error;
        stk_error_clear(&error);
        const stkpy_field *at = NULL;
        stk_status status = results[i].error ? take_error(s, area, &results[i], &error) : STK_OK;
        for (size_t k = 0; status == STK_OK && !results[i].error && k < s->out_count; k++) {
            at = &s->out[k];
            if (at->wanted)
                status = take_value(call, area, samples[first + i], at, &values[i * s->out_count + k], &error);
            if (status != STK_OK)
                stkpy_error_at(&error, s->name, at);
        }
        if (status != STK_OK && !stkpy_tile_fail(&w->tile, first + i, &error))
            return call->host->fail(err, STK_NOMEM, "no memory for %zu bytes", sizeof error);
    }
    return STK_OK;
}

/* ---- a tile ---- */

static stk_status ask(const stk_call *call, stkpy_process *process, stk_sample *const *samples, size_t first, size_t n,
                      stk_error *err)
{
    const stkpy_map *s = call->state;
    if (!write_request(call, &process->channel.request, samples + first, n))
        return no_memory(err);
    const stk_status status = stkpy_process_ask(s->pool, process, n, s->kept, err);
    return status == STK_OK ? read_answer(call, &process->channel.answer, samples, first, n, err) : status;
}

stk_status stkpy_map_remote(const stk_call *call, stk_sample *const *samples, size_t n, stk_error *err)
{
    enum { LONG_NS = 1000000 };
    const stkpy_map *s = call->state;
    const int64_t began = stkpy_now_ns();
    stkpy_process *process = stkpy_pool_take(s->pool, s->kept, err);
    if (process && stkpy_now_ns() - began > LONG_NS)
        call->host->waited(call, "wait: all processes are busy", began);
    stk_status status = process ? stkpy_process_clear(s->pool, process, s->kept, err) : err->status;
    for (size_t first = 0, count; status == STK_OK && first < n; first += count) {
        count = choose_count(s, samples + first, n - first);
        status = ask(call, process, samples, first, count, err);
    }
    if (process)
        stkpy_pool_give(s->pool, process);
    if (status != STK_OK)
        stkpy_error_at(err, s->name, NULL);
    return status;
}
