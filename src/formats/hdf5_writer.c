/* Rows become chunks here, chunks go to the queue, and the helper puts them into the file. */
#include "formats/hdf5_writer.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/wire.h"
#include "formats/hdf5_write_queue.h"
#include "kernels/shuffle.h"

#include "base/banned.h"

enum {
    THREADS_MAX = 16,
    SPARE_PARTS = 2,         /* besides one for each thread: one being sent, one being filled */
    PENDING_BYTES = 1 << 18, /* of variable length, sent together */
    DESCRIPTOR_BYTES = 16,   /* of a value of variable length, in its chunk */
    PATCHED_VALUES = 3
};

/* A dataset on its way. */
typedef struct output {
    stk__h5_new spec;
    char *path;
    bool variable;      /* rows go to `pending`, not to `chunk` */
    size_t value_bytes; /* as stored */
    int64_t row_values;
    size_t row_bytes, chunk_bytes;
    int64_t chunk_rows;
    stk__h5_filter filters[STK__H5_FILTERS_MAX];
    uint32_t values[STK__H5_FILTERS_MAX][PATCHED_VALUES];
    uint8_t *chunk;
    stk__text pending;
    int64_t first_row; /* of what is in chunk or pending */
    int64_t rows;      /* in it */
} output;

struct stk__h5_writer {
    stk__new_file file;
    char *path;
    stk__h5_helper *helper;
    stk__h5_queue *queue;
    output *outputs;
    size_t count;
    const stk__h5_attribute *attributes;
    size_t attribute_count;
    size_t swap_bytes; /* buffers of this size can change places with those of the queue */
    bool any_variable, created, opened;
    int64_t rows;
};

/* Errors name the file that the user asked for. */
static stk_status at_file(const char *path, stk_status status, stk_error *err)
{
    if (status != STK_OK && err && !err->file[0])
        snprintf(err->file, sizeof err->file, "%s", path);
    return status;
}

static stk_status at_field(const stk__h5_new *spec, int64_t row, stk_status status, stk_error *err)
{
    if (status != STK_OK && err) {
        snprintf(err->field, sizeof err->field, "%s", spec->name);
        if (row >= 0)
            err->record = row;
    }
    return status;
}

/* ---- sizes ---- */

int stk__h5_kind_of(stk_dtype dtype)
{
    switch (dtype) {
    case STK_BOOL:
        return STK__H5_KIND_BOOL;
    case STK_UINT8:
    case STK_UINT16:
    case STK_UINT32:
    case STK_UINT64:
        return STK__H5_KIND_UINT;
    case STK_FLOAT16:
    case STK_FLOAT32:
    case STK_FLOAT64:
        return STK__H5_KIND_FLOAT;
    case STK_BFLOAT16:
        return STK__H5_KIND_BFLOAT;
    case STK_BYTES:
        return STK__H5_KIND_VLEN_STRING;
    default:
        return STK__H5_KIND_INT;
    }
}

static stk_status check_kind(const stk__h5_new *spec, stk_error *err)
{
    const bool bytes = spec->dtype == STK_BYTES;
    bool good = (size_t)spec->dtype < STK_DTYPE_COUNT && spec->ndim >= 0 && spec->ndim <= STK_MAX_DIMS;
    switch (spec->kind) {
    case STK__H5_KIND_VLEN:
        good = good && (bytes || spec->ndim == 0);
        break;
    case STK__H5_KIND_VLEN_STRING:
        good = good && bytes;
        break;
    case STK__H5_KIND_STRING:
    case STK__H5_KIND_OPAQUE:
        good = good && bytes && spec->size > 0 && spec->size <= STK__H5_MAX_ELEMENT_BYTES;
        break;
    default:
        good = good && !bytes && spec->kind == stk__h5_kind_of(spec->dtype);
    }
    if (good)
        return STK_OK;
    return stk_error_set(err, STK_INVALID, "%s in %d dimensions cannot be stored as kind %d with %zu bytes",
                         (size_t)spec->dtype < STK_DTYPE_COUNT ? stk_dtype_name(spec->dtype) : "an unknown type",
                         spec->ndim, spec->kind, spec->size);
}

/* Bytes of a row, and rows of a chunk. */
static stk_status measure_rows(output *o, stk_error *err)
{
    const stk__h5_new *spec = &o->spec;
    const bool fixed = spec->kind == STK__H5_KIND_STRING || spec->kind == STK__H5_KIND_OPAQUE;
    o->variable = spec->kind == STK__H5_KIND_VLEN || spec->kind == STK__H5_KIND_VLEN_STRING;
    o->value_bytes = o->variable ? DESCRIPTOR_BYTES : fixed ? spec->size : stk_dtype_size(spec->dtype);
    o->row_values = 1;
    for (int d = 0; d < spec->ndim; d++)
        if (spec->shape[d] < 0 || __builtin_mul_overflow(o->row_values, spec->shape[d], &o->row_values))
            return stk_error_set(err, STK_INVALID,
                                 "dimension %d of a row is %lld, wanted a size that is known and fits", d,
                                 (long long)spec->shape[d]);
    if (__builtin_mul_overflow((size_t)o->row_values, o->value_bytes, &o->row_bytes) ||
        o->row_bytes > STK__H5_CHUNK_MAX)
        return stk_error_set(err, STK_INVALID, "a row has %lld values of %zu bytes, wanted at most %zu bytes",
                             (long long)o->row_values, o->value_bytes, STK__H5_CHUNK_MAX);
    const int64_t fit = o->row_bytes ? (int64_t)(STK__H5_CHUNK_BYTES / o->row_bytes) : STK__H5_CHUNK_ROWS;
    o->chunk_rows = spec->chunk_rows ? spec->chunk_rows : STK_MAX(STK_MIN(fit, STK__H5_CHUNK_ROWS), 1);
    if (__builtin_mul_overflow((size_t)o->chunk_rows, o->row_bytes, &o->chunk_bytes) ||
        o->chunk_bytes > STK__H5_CHUNK_MAX || o->chunk_rows < 1 || o->chunk_rows > UINT32_MAX)
        return stk_error_set(err, STK_INVALID,
                             "chunks of %lld rows of %zu bytes, wanted at most %zu bytes in a chunk; lower chunk",
                             (long long)o->chunk_rows, o->row_bytes, STK__H5_CHUNK_MAX);
    return STK_OK;
}

static stk_status measure_output(const stk__h5_new *spec, output *o, stk_error *err)
{
    *o = (output){.spec = *spec};
    stk_status status = check_kind(spec, err);
    if (status == STK_OK)
        status = measure_rows(o, err);
    if (status == STK_OK && spec->filter_count > STK__H5_FILTERS_MAX)
        status =
            stk_error_set(err, STK_INVALID, "%zu filters, wanted at most %d", spec->filter_count, STK__H5_FILTERS_MAX);
    if (status == STK_OK && spec->fill && (o->variable || spec->fill_size != o->value_bytes))
        status = stk_error_set(err, STK_INVALID, "a fill value of %zu bytes, wanted %zu", spec->fill_size,
                               o->variable ? 0 : o->value_bytes);
    return at_field(spec, -1, status, err);
}

/* Where everything lies in the memory that is handed over. */
typedef struct layout {
    size_t fill_bytes; /* of the chunks being filled, one behind the other */
    stk__h5_queue_config queue;
    size_t total;
} layout;

static size_t round_up(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

static size_t total_memory(const layout *l)
{
    return l->fill_bytes + (size_t)l->queue.parts * l->queue.chunk_bytes + stk__h5_queue_memory(&l->queue);
}

static stk_status measure(const stk__h5_writer_config *config, layout *l, stk_error *err)
{
    size_t variable = 0;
    bool filtered = false;
    *l = (layout){0};
    for (size_t i = 0; i < config->field_count; i++) {
        output o;
        STK_TRY(measure_output(&config->fields[i], &o, err));
        variable += o.variable;
        if (o.variable)
            continue;
        l->fill_bytes += round_up(o.chunk_bytes);
        l->queue.chunk_bytes = STK_MAX(l->queue.chunk_bytes, round_up(o.chunk_bytes));
        filtered = filtered || (o.spec.filter_count && o.chunk_bytes);
    }
    l->queue.threads = filtered ? STK_MIN(STK_MAX(config->threads, 1), (int)THREADS_MAX) : 0;
    l->queue.parts = l->queue.threads + SPARE_PARTS;
    while (l->queue.parts > SPARE_PARTS && total_memory(l) > config->memory_wanted) {
        l->queue.threads = STK_MAX(l->queue.threads - 1, filtered);
        l->queue.parts--;
    }
    l->total = total_memory(l) + variable * 2 * PENDING_BYTES;
    return STK_OK;
}

stk_status stk__h5_writer_measure(const stk__h5_writer_config *config, size_t *out_bytes, stk_error *err)
{
    layout l;
    STK_TRY(at_file(config->path, measure(config, &l, err), err));
    *out_bytes = l.total;
    return STK_OK;
}

/* ---- CREATE ---- */

static void put_message(stk__text *t, uint32_t field, stk__text *message)
{
    stk__wire_put_bytes(t, field, message->data, message->length);
    t->failed = t->failed || message->failed;
    stk__text_clear(message);
}

static void put_filter(stk__text *t, const stk__h5_filter *filter)
{
    stk__text m = STK__TEXT_INIT;
    stk__wire_put_uint(&m, STK__H5_FILTER_ID, filter->id);
    stk__wire_put_uint(&m, STK__H5_FILTER_FLAGS, filter->optional);
    for (size_t i = 0; i < filter->value_count; i++)
        stk__wire_put_uint(&m, STK__H5_FILTER_VALUE, filter->values[i]);
    put_message(t, STK__H5_NEW_FILTER, &m);
}

static void put_attribute(stk__text *t, uint32_t field, const stk__h5_attribute *a)
{
    stk__text m = STK__TEXT_INIT;
    stk__wire_put_bytes(&m, STK__H5_ATTRIBUTE_NAME, a->name, strlen(a->name));
    stk__wire_put_uint(&m, STK__H5_ATTRIBUTE_KIND, (uint64_t)a->kind);
    stk__wire_put_uint(&m, STK__H5_ATTRIBUTE_SIZE, a->size);
    for (int32_t d = 0; d < a->ndim; d++)
        stk__wire_put_uint(&m, STK__H5_ATTRIBUTE_DIM, (uint64_t)a->dims[d]);
    if (a->kind != STK__H5_KIND_STRING)
        stk__wire_put_bytes(&m, STK__H5_ATTRIBUTE_DATA, a->data, (size_t)a->count * a->size);
    for (int64_t i = 0; a->kind == STK__H5_KIND_STRING && i < a->count; i++)
        stk__wire_put_bytes(&m, STK__H5_ATTRIBUTE_STRING, a->strings[i].data, (size_t)a->strings[i].size);
    stk__wire_put_uint(&m, STK__H5_ATTRIBUTE_UTF8, a->utf8);
    stk__wire_put_uint(&m, STK__H5_ATTRIBUTE_BIG, a->big);
    put_message(t, field, &m);
}

/* Filters with the values that hang on the type and the chunk. */
static void patch_filters(output *o)
{
    for (size_t i = 0; i < o->spec.filter_count; i++) {
        stk__h5_filter *filter = &o->filters[i];
        uint32_t *values = o->values[i];
        *filter = o->spec.filters[i];
        if (filter->id == STK__H5_SHUFFLE) {
            values[0] = (uint32_t)o->value_bytes;
            filter->values = values;
            filter->value_count = 1;
        } else if (filter->id == STK__H5_LZF) {
            values[0] = 4;      /* revision of the filter */
            values[1] = 0x0105; /* version of liblzf */
            values[2] = (uint32_t)o->chunk_bytes;
            filter->values = values;
            filter->value_count = 3;
        }
    }
}

static void put_output(stk__text *t, const output *o)
{
    const stk__h5_new *spec = &o->spec;
    stk__text m = STK__TEXT_INIT;
    stk__wire_put_bytes(&m, STK__H5_NEW_PATH, o->path, strlen(o->path));
    stk__wire_put_uint(&m, STK__H5_NEW_KIND, (uint64_t)spec->kind);
    stk__wire_put_uint(&m, STK__H5_NEW_SIZE, o->value_bytes);
    if (spec->kind == STK__H5_KIND_VLEN) {
        const bool bytes = spec->dtype == STK_BYTES;
        stk__wire_put_uint(&m, STK__H5_NEW_BASE_KIND,
                           bytes ? STK__H5_KIND_UINT : (uint64_t)stk__h5_kind_of(spec->dtype));
        stk__wire_put_uint(&m, STK__H5_NEW_BASE_SIZE, bytes ? 1 : stk_dtype_size(spec->dtype));
    }
    for (int d = 0; d < spec->ndim; d++)
        stk__wire_put_uint(&m, STK__H5_NEW_DIM, (uint64_t)spec->shape[d]);
    stk__wire_put_uint(&m, STK__H5_NEW_CHUNK_ROWS, (uint64_t)o->chunk_rows);
    for (size_t i = 0; !o->variable && i < spec->filter_count; i++)
        put_filter(&m, &o->filters[i]);
    if (spec->fill)
        stk__wire_put_bytes(&m, STK__H5_NEW_FILL, spec->fill, spec->fill_size);
    for (size_t i = 0; i < spec->attribute_count; i++)
        put_attribute(&m, STK__H5_NEW_ATTRIBUTE, &spec->attributes[i]);
    stk__wire_put_uint(&m, STK__H5_NEW_PAD, (uint64_t)spec->pad);
    stk__wire_put_uint(&m, STK__H5_NEW_SWAP, spec->swap);
    stk__wire_put_uint(&m, STK__H5_NEW_UTF8, spec->utf8);
    put_message(t, STK__H5_REQUEST_NEW, &m);
}

/*
 * Datasets are made with the first thing that is sent. When everything has come before that, a chunk whose size
 * nobody chose has as many rows as there are: a small file stays small.
 */
static stk_status create(stk__h5_writer *w, bool all_here, stk_error *err)
{
    stk__h5_part *part;
    if (w->created)
        return STK_OK;
    for (size_t i = 0; i < w->count; i++) {
        output *o = &w->outputs[i];
        if (all_here && !o->spec.chunk_rows && w->rows > 0 && w->rows < o->chunk_rows) {
            o->chunk_rows = w->rows;
            o->chunk_bytes = (size_t)w->rows * o->row_bytes;
        }
        patch_filters(o);
    }
    STK_TRY(stk__h5_queue_get(w->queue, 0, &part, err));
    stk__wire_put_uint(&part->request, STK__H5_REQUEST_KIND, STK__H5_ASK_CREATE);
    stk__wire_put_bytes(&part->request, STK__H5_REQUEST_PATH, w->file.temp, strlen(w->file.temp));
    for (size_t i = 0; i < w->count; i++)
        put_output(&part->request, &w->outputs[i]);
    for (size_t i = 0; i < w->attribute_count; i++)
        put_attribute(&part->request, STK__H5_REQUEST_ATTRIBUTE, &w->attributes[i]);
    stk__h5_queue_put(w->queue, part);
    w->created = true;
    return STK_OK;
}

/* ---- sending ---- */

/* What is in the chunk: all of it, or with `rows` less than that, the last of the dataset. */
static stk_status send_chunk(stk__h5_writer *w, output *o, stk_error *err)
{
    stk__h5_part *part;
    STK_TRY(create(w, false, err));
    STK_TRY(stk__h5_queue_get(w->queue, 0, &part, err));
    stk__text *t = &part->request;
    stk__wire_put_uint(t, STK__H5_REQUEST_KIND, STK__H5_ASK_CHUNK);
    stk__wire_put_bytes(t, STK__H5_REQUEST_DATASET, o->path, strlen(o->path));
    stk__wire_put_uint(t, STK__H5_REQUEST_CHUNK_OFFSET, (uint64_t)o->first_row);
    for (int d = 0; d < o->spec.ndim; d++)
        stk__wire_put_uint(t, STK__H5_REQUEST_CHUNK_OFFSET, 0);
    if (o->rows < o->chunk_rows)
        stk__wire_put_uint(t, STK__H5_REQUEST_ROWS, (uint64_t)o->rows);
    if (round_up(o->chunk_bytes) == w->swap_bytes) {
        uint8_t *spare = part->chunk;
        part->chunk = o->chunk;
        o->chunk = spare;
    } else {
        memcpy(part->chunk, o->chunk, o->chunk_bytes);
    }
    part->size = o->chunk_bytes;
    part->filters = o->filters;
    part->filter_count = o->spec.filter_count;
    part->field = o->spec.name;
    stk__h5_queue_put(w->queue, part);
    o->first_row += o->rows;
    o->rows = 0;
    return STK_OK;
}

static stk_status send_pending(stk__h5_writer *w, output *o, stk_error *err)
{
    stk__h5_part *part;
    if (o->pending.failed)
        return stk__nomem(o->pending.length, err);
    STK_TRY(create(w, false, err));
    STK_TRY(stk__h5_queue_get(w->queue, o->pending.length, &part, err));
    stk__text *t = &part->request;
    stk__wire_put_uint(t, STK__H5_REQUEST_KIND, STK__H5_ASK_ROWS);
    stk__wire_put_bytes(t, STK__H5_REQUEST_DATASET, o->path, strlen(o->path));
    stk__wire_put_uint(t, STK__H5_REQUEST_FIRST_ROW, (uint64_t)o->first_row);
    stk__wire_put_bytes(t, STK__H5_REQUEST_DATA, o->pending.data, o->pending.length);
    part->field = o->spec.name;
    stk__h5_queue_put(w->queue, part);
    if (o->pending.capacity > 4 * PENDING_BYTES)
        stk__text_clear(&o->pending);
    stk__text_reset(&o->pending);
    o->first_row += o->rows;
    o->rows = 0;
    return STK_OK;
}

/* ---- rows ---- */

static bool is_utf8(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size;) {
        const size_t n = data[i] < 0x80 ? 1 : stk__utf8_length(data + i, size - i);
        if (n == 0)
            return false;
        i += n;
    }
    return true;
}

/* Whether the bytes can be a string of this dataset. */
static stk_status check_text(const stk__h5_new *spec, const uint8_t *data, size_t size, stk_error *err)
{
    static const char advice[] = "which no string of HDF5 can have; list the field in binary=[...]";
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    if (nul)
        return stk_error_set(err, STK_INVALID, "a value of %zu bytes has a NUL at byte %zu, %s", size,
                             (size_t)(nul - data), advice);
    if (spec->utf8 && !is_utf8(data, size))
        return stk_error_set(err, STK_INVALID,
                             "a value of %zu bytes is not UTF-8, wanted text; list the field in binary=[...]", size);
    return STK_OK;
}

static stk_status put_value(output *o, const void *data, size_t size, stk_error *err)
{
    if (size > STK__H5_CHUNK_MAX || o->pending.length > STK__H5_CHUNK_MAX - size)
        return stk_error_set(err, STK_INVALID, "a value of %zu bytes, wanted at most %zu in a row", size,
                             STK__H5_CHUNK_MAX);
    if (o->spec.kind == STK__H5_KIND_VLEN_STRING)
        STK_TRY(check_text(&o->spec, data, size, err));
    const uint8_t head[4] = {(uint8_t)size, (uint8_t)(size >> 8), (uint8_t)(size >> 16), (uint8_t)(size >> 24)};
    stk__text_write(&o->pending, head, sizeof head);
    if (size)
        stk__text_write(&o->pending, data, size);
    return o->pending.failed ? stk__nomem(size, err) : STK_OK;
}

static stk_status put_row(output *o, const stk_column *c, int64_t row, stk_error *err)
{
    if (c->dtype == STK_BYTES) {
        const stk_bytes *values = (const stk_bytes *)c->data + row * o->row_values;
        for (int64_t i = 0; i < o->row_values; i++)
            STK_TRY(put_value(o, values[i].data, (size_t)values[i].size, err));
        return STK_OK;
    }
    const size_t size = stk_dtype_size(c->dtype);
    int64_t first, count;
    if (c->offsets) {
        first = c->offsets[row];
        count = c->offsets[row + 1] - first;
    } else { /* padded, or all of one length */
        first = row * c->shape[1];
        count = c->row_shapes ? c->row_shapes[row] : c->shape[1];
    }
    return put_value(o, (const char *)c->data + (size_t)first * size, (size_t)count * size, err);
}

/* Bytes into values of one size. */
static stk_status pack_bytes(const output *o, const stk_bytes *values, size_t count, uint8_t *to, stk_error *err)
{
    const stk__h5_new *spec = &o->spec;
    const bool opaque = spec->kind == STK__H5_KIND_OPAQUE;
    const size_t most = spec->size - (!opaque && spec->pad == STK__H5_PAD_NUL_TERMINATED);
    const int padding = !opaque && spec->pad == STK__H5_PAD_SPACE ? ' ' : 0;
    for (size_t i = 0; i < count; i++, to += spec->size) {
        const size_t size = (size_t)values[i].size;
        if (size > most || (opaque && size != most))
            return stk_error_set(err, STK_INVALID, "a value of %zu bytes, wanted %s%zu as the dataset has them", size,
                                 opaque ? "" : "at most ", most);
        if (spec->utf8 && !opaque && !is_utf8(values[i].data, size))
            return stk_error_set(err, STK_INVALID, "a value of %zu bytes is not UTF-8, wanted text", size);
        if (size)
            memcpy(to, values[i].data, size);
        memset(to + size, padding, spec->size - size);
    }
    return STK_OK;
}

static stk_status copy_rows(output *o, const stk_column *c, int64_t row, int64_t rows, stk_error *err)
{
    const size_t element = stk_dtype_size(c->dtype);
    const size_t values = (size_t)(rows * o->row_values);
    const uint8_t *from = (const uint8_t *)c->data + (size_t)(row * o->row_values) * element;
    uint8_t *to = o->chunk + (size_t)o->rows * o->row_bytes;
    if (c->dtype == STK_BYTES)
        return pack_bytes(o, (const stk_bytes *)(const void *)from, values, to, err);
    if (o->spec.swap && element > 1)
        stk__swap_bytes(to, from, values, element);
    else
        memcpy(to, from, values * element);
    return STK_OK;
}

static stk_status add_rows(stk__h5_writer *w, output *o, const stk_column *c, int64_t row, int64_t rows, stk_error *err)
{
    stk_status status = STK_OK;
    const int64_t number = o->first_row + o->rows;
    if (o->row_values == 0) {
        o->first_row += rows;
        return STK_OK;
    }
    if (o->variable)
        status = put_row(o, c, row, err);
    else
        status = copy_rows(o, c, row, rows, err);
    if (status != STK_OK)
        return at_field(&o->spec, number, status, err);
    o->rows += rows;
    if (o->variable && o->pending.length >= PENDING_BYTES)
        return send_pending(w, o, err);
    return !o->variable && o->rows == o->chunk_rows ? send_chunk(w, o, err) : STK_OK;
}

/* ---- batches ---- */

static void put_shape(stk__text *t, const int64_t *shape, int32_t ndim)
{
    stk__text_putc(t, '[');
    for (int d = 0; d < ndim; d++)
        stk__text_printf(t, "%s%lld", d ? ", " : "", (long long)shape[d]);
    stk__text_putc(t, ']');
}

static stk_status check_column(const stk__h5_new *spec, const stk_column *c, stk_error *err)
{
    const bool sequence = spec->kind == STK__H5_KIND_VLEN && spec->dtype != STK_BYTES;
    bool good = c->dtype == spec->dtype;
    if (sequence)
        good = good && c->ndim == 2;
    else
        good = good && !c->offsets && c->ndim == spec->ndim + 1 &&
               (spec->ndim == 0 || memcmp(c->shape + 1, spec->shape, sizeof *c->shape * (size_t)spec->ndim) == 0);
    if (good)
        return STK_OK;
    char text[256];
    stk__text t;
    stk__text_fixed(&t, text, sizeof text);
    stk__text_printf(&t, "rows of %s", stk_dtype_name(c->dtype));
    put_shape(&t, c->shape + 1, c->ndim - 1);
    stk__text_printf(&t, ", wanted %s", stk_dtype_name(spec->dtype));
    put_shape(&t, spec->shape, spec->ndim);
    if (c->row_shapes && !c->offsets)
        stk__text_puts(&t, " as in the first batch, to which rows are padded; a dataset has one shape");
    return at_field(spec, -1, stk_error_set(err, STK_INVALID, "%s", text), err);
}

static const stk_column *find_column(const stk_batch *batch, size_t guess, const char *name)
{
    if (guess < (size_t)batch->column_count && strcmp(batch->columns[guess].name, name) == 0)
        return &batch->columns[guess];
    for (int32_t i = 0; i < batch->column_count; i++)
        if (strcmp(batch->columns[i].name, name) == 0)
            return &batch->columns[i];
    return NULL;
}

static stk_status check_batch(const stk__h5_writer *w, const stk_batch *batch, stk_error *err)
{
    for (size_t i = 0; i < w->count; i++) {
        const stk__h5_new *spec = &w->outputs[i].spec;
        const stk_column *c = find_column(batch, i, spec->name);
        if (!c)
            return at_field(spec, -1, stk_error_set(err, STK_INVALID, "the batch has no such field"), err);
        STK_TRY(check_column(spec, c, err));
    }
    return STK_OK;
}

/*
 * As many rows as can be added to every dataset before one of them has something to send: the order of chunks in the
 * file is that of their last rows then, however the rows come.
 */
static int64_t step_rows(const stk__h5_writer *w, int64_t left)
{
    if (w->any_variable)
        return STK_MIN(left, 1);
    for (size_t i = 0; i < w->count; i++)
        if (w->outputs[i].row_values)
            left = STK_MIN(left, w->outputs[i].chunk_rows - w->outputs[i].rows);
    return left;
}

static stk_status add_batch(stk__h5_writer *w, const stk_batch *batch, stk_error *err)
{
    STK_TRY(check_batch(w, batch, err));
    for (int64_t row = 0; row < batch->rows;) {
        const int64_t rows = step_rows(w, batch->rows - row);
        w->rows += rows;
        for (size_t i = 0; i < w->count; i++) {
            const stk_column *c = find_column(batch, i, w->outputs[i].spec.name);
            STK_TRY(add_rows(w, &w->outputs[i], c, row, rows, err));
        }
        row += rows;
    }
    return STK_OK;
}

stk_status stk__h5_writer_add(stk__h5_writer *w, const stk_batch *batch, stk_error *err)
{
    return at_file(w->path, add_batch(w, batch, err), err);
}

/* ---- from open to close ---- */

/* The rest of the last chunk has no rows: the fill value, as libhdf5 would put there. */
static void pad_chunk(output *o)
{
    const size_t used = (size_t)o->rows * o->row_bytes;
    memset(o->chunk + used, 0, o->chunk_bytes - used);
    for (size_t at = used; o->spec.fill && at < o->chunk_bytes; at += o->value_bytes)
        memcpy(o->chunk + at, o->spec.fill, o->value_bytes);
}

static stk_status finish(stk__h5_writer *w, stk_error *err)
{
    stk__h5_part *part;
    STK_TRY(create(w, true, err));
    for (size_t i = 0; i < w->count; i++) {
        output *o = &w->outputs[i];
        if (o->rows == 0)
            continue;
        if (!o->variable)
            pad_chunk(o);
        STK_TRY(o->variable ? send_pending(w, o, err) : send_chunk(w, o, err));
    }
    STK_TRY(stk__h5_queue_get(w->queue, 0, &part, err));
    stk__wire_put_uint(&part->request, STK__H5_REQUEST_KIND, STK__H5_ASK_FINISH);
    stk__wire_put_uint(&part->request, STK__H5_REQUEST_ROWS, (uint64_t)w->rows);
    stk__h5_queue_put(w->queue, part);
    STK_TRY(stk__h5_queue_drain(w->queue, err));
    w->opened = false;
    return stk__new_file_commit(&w->file, err);
}

stk_status stk__h5_writer_finish(stk__h5_writer *w, stk_error *err)
{
    return at_file(w->path, finish(w, err), err);
}

static stk_status open_outputs(stk__h5_writer *w, const stk__h5_writer_config *config, uint8_t *memory, stk_error *err)
{
    w->outputs = stk__calloc(config->field_count, sizeof *w->outputs);
    if (!w->outputs)
        return stk__nomem(config->field_count * sizeof *w->outputs, err);
    for (; w->count < config->field_count; w->count++) {
        output *o = &w->outputs[w->count];
        const stk__h5_new *spec = &config->fields[w->count];
        STK_TRY(measure_output(spec, o, err));
        const char *path = spec->path ? spec->path : spec->name;
        const size_t room = strlen(path) + 2;
        o->path = stk__alloc(room);
        if (!o->path)
            return stk__nomem(room, err);
        snprintf(o->path, room, "%s%s", path[0] == '/' ? "" : "/", path);
        w->any_variable = w->any_variable || o->variable;
        if (o->variable)
            continue;
        o->chunk = memory;
        memory += round_up(o->chunk_bytes);
    }
    return STK_OK;
}

static stk_status open_all(stk__h5_writer *w, const stk__h5_writer_config *config, uint8_t *memory, stk_error *err)
{
    layout l;
    char *program = NULL;
    STK_TRY(measure(config, &l, err));
    STK_TRY(open_outputs(w, config, memory, err));
    /* Before any work is done: the program that writes is there, and so is the file. */
    STK_TRY(stk__h5_helper_find(&program, err));
    stk__free(program);
    STK_TRY(stk__make_parents(config->path, err));
    STK_TRY(stk__new_file_open(&w->file, config->path, err));
    w->opened = true;
    STK_TRY(stk__h5_helper_new(&w->helper, err));
    stk__h5_helper_remember(w->helper);
    l.queue.helper = w->helper;
    l.queue.memory = memory + l.fill_bytes;
    w->swap_bytes = l.queue.chunk_bytes;
    return stk__h5_queue_open(&l.queue, &w->queue, err);
}

stk_status stk__h5_writer_open(const stk__h5_writer_config *config, void *memory, stk__h5_writer **out, stk_error *err)
{
    stk__h5_writer *w = stk__calloc(1, sizeof *w);
    if (!w)
        return stk__nomem(sizeof *w, err);
    w->attributes = config->attributes;
    w->attribute_count = config->attribute_count;
    w->path = stk__strdup(config->path);
    const stk_status status = w->path ? open_all(w, config, memory, err) : stk__nomem(strlen(config->path) + 1, err);
    if (status != STK_OK) {
        stk__h5_writer_close(w);
        return at_file(config->path, status, err);
    }
    *out = w;
    return STK_OK;
}

void stk__h5_writer_close(stk__h5_writer *w)
{
    if (!w)
        return;
    stk__h5_queue_close(w->queue);
    stk__h5_helper_free(w->helper);
    if (w->opened)
        stk__new_file_abort(&w->file);
    for (size_t i = 0; w->outputs && i < w->count; i++) {
        stk__free(w->outputs[i].path);
        stk__text_clear(&w->outputs[i].pending);
    }
    stk__free(w->outputs);
    stk__free(w->path);
    stk__free(w);
}
