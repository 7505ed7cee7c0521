/*
 * A process that calls a function: from the fork to its end.
 *
 * It has the op's state as it was when it was forked, and takes samples through the function by the same code as a worker
 * does. Only the host is another: it gives memory in the answer, and random numbers from the request.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* POLLRDHUP */
#endif
#include "op_python_map.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A piece of memory that lives until the sample is done. */
typedef struct piece {
    struct piece *next;
} piece;

/* What the host of a call in a child knows. */
typedef struct child {
    stkpy_map map;
    stkpy_kept kept;
    stkpy_channel channel;
    long parent;

    PyObject *seed;  /* (number): sets the generators of whole libraries */
    PyObject *pack;  /* (exception): bytes */
    PyObject *flush; /* (): writes what was printed */

    /* of the request */
    uint64_t count, results_at, values_at;
    size_t at; /* the sample at hand */
    /* of the sample */
    stkpy_wire_value *out; /* one for each field that it gives */
    stk_bytes **views;     /* elements of fields that are arrays of bytes, until the sample is done */
    piece *pieces;
} child;

/* ---- the host ---- */

static void *take_piece(child *c, size_t size, stk_error *err)
{
    enum { HEAD = 64 };
    piece *made = size <= SIZE_MAX - HEAD ? malloc(size + HEAD) : NULL;
    if (!made) {
        stk_error_set(err, STK_NOMEM, "no memory for %zu bytes", size);
        return NULL;
    }
    made->next = c->pieces;
    c->pieces = made;
    return (char *)made + HEAD;
}

static void free_pieces(child *c)
{
    while (c->pieces) {
        piece *next = c->pieces->next;
        free(c->pieces);
        c->pieces = next;
    }
}

static void *take_shared(child *c, size_t size, uint64_t *out_offset, stk_error *err)
{
    void *made = stkpy_area_take(&c->channel.answer, size, out_offset);
    if (!made)
        stk_error_set(err, STK_NOMEM, "no memory for %zu bytes to share", size);
    return made;
}

static size_t field_at(const child *c, int id)
{
    size_t k = 0;
    while (c->map.out[k].id != id)
        k++;
    return k;
}

static void *host_out(const stk_call *call, stk_sample *sample, int id, const int64_t *shape, stk_error *err)
{
    child *c = call->impl;
    const size_t k = field_at(c, id);
    const stkpy_field *field = &c->map.out[k];
    stkpy_wire_value *wire = &c->out[k];
    size_t bytes = stk_dtype_size(field->type);
    wire->elements = 1;
    for (int d = 0; d < field->ndim; d++) {
        wire->shape[d] = shape ? shape[d] : field->dims[d];
        if (__builtin_mul_overflow(wire->elements, wire->shape[d], &wire->elements) ||
            __builtin_mul_overflow(bytes, (size_t)wire->shape[d], &bytes)) {
            stk_error_set(err, STK_NOMEM, "no memory for an array of that shape");
            return NULL;
        }
    }
    if (field->type != STK_BYTES)
        return take_shared(c, bytes, &wire->offset, err);
    return c->views[k] = take_piece(c, bytes, err);
}

static void *host_bytes_block(const stk_call *call, int id, size_t size, stk_error *err)
{
    uint64_t offset;
    return take_shared(call->impl, size, &offset, err);
}

static void host_set_bytes(const stk_call *call, stk_sample *sample, int id, const void *data, int64_t size,
                           bool in_block)
{
    child *c = call->impl;
    stkpy_wire_value *wire = &c->out[field_at(c, id)];
    /* The view itself comes when the sample is done: taking memory moves what `data` points to. */
    wire->elements = 1;
    wire->shape[0] = size;
    wire->offset = (uint64_t)((const char *)data - c->channel.answer.base);
}

static void *host_scratch(const stk_call *call, size_t size, stk_error *err)
{
    return take_piece(call->impl, size, err);
}

static void host_random(const stk_call *call, const stk_sample *sample, uint32_t block, uint32_t out[4])
{
    const child *c = call->impl;
    const stkpy_wire_sample *samples = (const void *)c->channel.request.base;
    memcpy(out, samples[c->at].random[block], 4 * sizeof *out);
}

static const stk_host child_host = {
    .struct_size = sizeof(stk_host),
    .out = host_out,
    .bytes_block = host_bytes_block,
    .set_bytes = host_set_bytes,
    .scratch = host_scratch,
    .random = host_random,
};

/* ---- a sample ---- */

/* The values of the sample as a worker has them; false: no memory. */
static bool read_values(child *c, stk_sample *sample, stk_error *err)
{
    const stkpy_area *area = &c->channel.request;
    const size_t fields = c->map.in_count;
    const uint64_t at = (c->count * sizeof(stkpy_wire_sample) + 63) / 64 * 64;
    const stkpy_wire_value *wires = (const void *)(area->base + at);
    for (size_t i = 0; i < fields; i++) {
        const stkpy_field *field = &c->map.in[i];
        const stkpy_wire_value *wire = &wires[c->at * fields + i];
        stk_value *value = &sample->values[field->id];
        value->elements = wire->elements;
        value->data = area->base + wire->offset;
        memcpy(value->shape, wire->shape, sizeof *wire->shape * (size_t)field->ndim);
        if (field->type != STK_BYTES)
            continue;
        const stkpy_wire_bytes *from = value->data;
        stk_bytes *views = take_piece(c, (size_t)wire->elements * sizeof *views, err);
        for (int64_t k = 0; views && k < wire->elements; k++)
            views[k] = (stk_bytes){(const uint8_t *)area->base + from[k].offset, from[k].size};
        if (!views)
            return false;
        value->data = views;
    }
    return true;
}

/* Arrays of bytes, and the views of single ones, into the answer. */
static bool write_contents(child *c, size_t k, stk_error *err)
{
    stkpy_wire_value *wire = &c->out[k];
    const size_t count = (size_t)wire->elements;
    stkpy_wire_bytes single = {wire->offset, wire->shape[0]};
    if (!take_shared(c, count * sizeof single, &wire->offset, err))
        return false;
    for (size_t i = 0; i < count; i++) {
        stkpy_wire_bytes one = single;
        if (c->views[k]) {
            one.size = c->views[k][i].size;
            void *data = take_shared(c, (size_t)one.size, &one.offset, err);
            if (!data)
                return false;
            memcpy(data, c->views[k][i].data, (size_t)one.size);
        }
        memcpy(c->channel.answer.base + wire->offset + i * sizeof one, &one, sizeof one);
    }
    return true;
}

static stk_status write_values(child *c, stk_error *err)
{
    const size_t fields = c->map.out_count;
    for (size_t k = 0; k < fields; k++)
        if (c->map.out[k].wanted && c->map.out[k].type == STK_BYTES && !write_contents(c, k, err))
            return err->status;
    memcpy(c->channel.answer.base + c->values_at + c->at * fields * sizeof *c->out, c->out, fields * sizeof *c->out);
    return STK_OK;
}

/* The exception that was kept, as bytes in the answer; size 0: there is none. */
static stkpy_wire_bytes write_cause(child *c)
{
    stkpy_wire_bytes out = {0, 0};
    PyObject *list = c->kept.exception;
    PyObject *last = list ? PyList_GetItem(list, PyList_Size(list) - 1) : NULL;
    PyObject *packed = last ? PyObject_CallFunctionObjArgs(c->pack, last, NULL) : NULL;
    char *data;
    Py_ssize_t size;
    if (packed && PyBytes_AsStringAndSize(packed, &data, &size) == 0) {
        void *to = stkpy_area_take(&c->channel.answer, (size_t)size, &out.offset);
        if (to) {
            memcpy(to, data, (size_t)size);
            out.size = size;
        }
    }
    PyErr_Clear();
    Py_XDECREF(packed);
    Py_CLEAR(c->kept.exception);
    return out;
}

static bool write_result(child *c, const stk_error *error)
{
    stkpy_wire_result result = {0};
    if (error->status != STK_OK) {
        stk_error *to = stkpy_area_take(&c->channel.answer, sizeof *to, &result.error);
        if (!to)
            return false;
        *to = *error;
        result.cause = write_cause(c);
    }
    memcpy(c->channel.answer.base + c->results_at + c->at * sizeof result, &result, sizeof result);
    return true;
}

/* Generators that belong to whole libraries get the sample's own numbers, whichever process has it. */
static bool seed_libraries(child *c)
{
    uint32_t words[4];
    const stk_call call = {.impl = c};
    host_random(&call, NULL, 1, words);
    PyObject *done = PyObject_CallFunction(c->seed, "K", (unsigned long long)words[0] << 32 | words[1]);
    Py_XDECREF(done);
    return done != NULL;
}

static bool do_sample(child *c, const stk_call *call, stk_sample *sample)
{
    stk_error error;
    stk_error_clear(&error);
    memset(c->out, 0, (c->map.out_count + 1) * sizeof *c->out);
    memset(c->views, 0, (c->map.out_count + 1) * sizeof *c->views);
    stk_status status = STK_OK;
    if (!seed_libraries(c))
        status = stkpy_keep_exception(&c->kept, &error, stkpy_exception_status(), NULL);
    else if (!read_values(c, sample, &error) || stkpy_map_one(call, sample, &error) != STK_OK)
        status = error.status;
    if (status == STK_OK)
        write_values(c, &error);
    else
        error.status = status;
    free_pieces(c);
    return write_result(c, &error);
}

/* ---- requests ---- */

/* The answer begins with a result and the values of each sample. */
static bool begin_answer(child *c)
{
    stkpy_area *area = &c->channel.answer;
    area->used = 0;
    return stkpy_area_take(area, c->count * sizeof(stkpy_wire_result), &c->results_at) &&
           stkpy_area_take(area, c->count * c->map.out_count * sizeof *c->out, &c->values_at);
}

/* False: the other side has gone, or nothing goes any more. */
static bool receive(child *c)
{
    stkpy_post ask;
    ssize_t got;
    Py_BEGIN_ALLOW_THREADS;
    do
        got = recv(c->channel.fd, &ask, sizeof ask, 0);
    while (got < 0 && errno == EINTR);
    Py_END_ALLOW_THREADS;
    c->count = ask.count;
    return got == (ssize_t)sizeof ask && stkpy_area_follow(&c->channel.request, ask.used) && begin_answer(c);
}

static bool answer(const child *c)
{
    const stkpy_post post = {c->count, c->channel.answer.used};
    ssize_t sent;
    do
        sent = send(c->channel.fd, &post, sizeof post, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof post;
}

static void serve(child *c, const stk_call *call, stk_sample *sample)
{
    while (receive(c)) {
        bool fine = true;
        for (c->at = 0; fine && c->at < c->count; c->at++)
            fine = do_sample(c, call, sample);
        PyObject *flushed = PyObject_CallFunctionObjArgs(c->flush, NULL);
        Py_XDECREF(flushed);
        PyErr_Clear();
        if (!fine || !answer(c))
            return;
    }
}

/* ---- life ---- */

/*
 * The other side has gone, while the function is busy or hangs: a short while for it to end, then the process does. Another
 * process may have been forked with the socket and keep it open, so it looks now and then whose child this is, too.
 */
static void *watch_main(void *arg)
{
    enum { LOOK_MS = 1000, GRACE_MS = 500 };
    const child *c = arg;
    struct pollfd one = {.fd = c->channel.fd, .events = POLLRDHUP};
    while (poll(&one, 1, LOOK_MS) <= 0 && (long)getppid() == c->parent)
        continue;
    poll(NULL, 0, GRACE_MS);
    _exit(1);
}

static bool start_watch(child *c)
{
    pthread_t thread;
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    const bool started = pthread_create(&thread, NULL, watch_main, c) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

static bool begin_python(child *c)
{
    PyObject *module = PyImport_ImportModule("stoker._processes");
    PyObject *tools = module ? PyObject_CallMethod(module, "begin", NULL) : NULL;
    return tools && PyArg_ParseTuple(tools, "OOO", &c->seed, &c->pack, &c->flush);
}

/* Field numbers of both kinds are below this. */
static size_t number_limit(const stkpy_map *s)
{
    int most = 0;
    for (size_t i = 0; i < s->in_count + s->out_count; i++) {
        const int id = i < s->in_count ? s->in[i].id : s->out[i - s->in_count].id;
        most = id > most ? id : most;
    }
    return (size_t)most + 1;
}

void stkpy_map_child(const stkpy_map *s, const stkpy_channel *channel)
{
    static child c;
    static stkpy_map_worker worker;
    const size_t numbers = number_limit(s);
    c.map = *s;
    c.map.kept = &c.kept;
    c.channel = *channel;
    c.parent = (long)getppid();
    c.out = calloc(s->out_count + 1, sizeof *c.out);
    c.views = calloc(s->out_count + 1, sizeof *c.views);
    stk_value *values = calloc(numbers, sizeof *values);
    stk_slot *slots = calloc(numbers, sizeof *slots);
    if (c.out && c.views && values && slots && start_watch(&c) && begin_python(&c)) {
        const stk_call call = {.host = &child_host, .state = &c.map, .worker = &worker, .impl = &c, .slots = slots};
        stk_sample sample = {.values = values, .origin = {NULL, -1, -1, -1}};
        serve(&c, &call, &sample);
    }
    const int code = PyErr_Occurred() ? 1 : 0;
    if (code)
        PyErr_Print();
    _exit(code);
}
