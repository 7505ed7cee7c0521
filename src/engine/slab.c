/* Memory of batches and work units: dense columns, ragged ones, and contents of bytes. */
#include <string.h>

#include "base/mem.h"
#include "engine/run.h"

static const stk__var *column_var(const stk_pipeline *p, int c)
{
    return &p->plan.vars[p->plan.visible[c]];
}

static bool is_dense(const stk_pipeline *p, int c)
{
    return column_var(p, c)->fixed;
}

size_t stk__slab_bytes(const stk_pipeline *p, const stk__slab *slab)
{
    size_t bytes = 0;
    for (int c = 0; c < p->columns; c++)
        bytes += slab->data[c].capacity + slab->offsets[c].capacity + slab->shapes[c].capacity;
    for (size_t i = 0; i < slab->chunk_count; i++)
        bytes += slab->chunks[i]->capacity;
    return bytes;
}

/* Of tables by column: with thousands of columns they are larger than many a batch. */
static size_t slab_table_bytes(const stk_pipeline *p)
{
    return sizeof(stk__slab) + (size_t)p->columns * (sizeof(stk_column) + 3 * sizeof(stk__buffer));
}

stk_status stk__slab_new(stk_pipeline *p, stk__slab **out, stk_error *err)
{
    const size_t n = (size_t)p->columns;
    STK_TRY(stk__budget_take(&p->budget, slab_table_bytes(p), err));
    stk__slab *slab = stk__calloc(1, sizeof *slab);
    if (!slab) {
        stk__budget_return(&p->budget, slab_table_bytes(p));
        return stk__nomem(sizeof *slab, err);
    }
    slab->columns = stk__calloc(n, sizeof *slab->columns);
    slab->data = stk__calloc(n, sizeof *slab->data);
    slab->offsets = stk__calloc(n, sizeof *slab->offsets);
    slab->shapes = stk__calloc(n, sizeof *slab->shapes);
    stk_status status = STK_OK;
    if (!slab->columns || !slab->data || !slab->offsets || !slab->shapes)
        status = stk__nomem(n * sizeof *slab->columns, err);
    for (int c = 0; c < p->columns && status == STK_OK; c++) {
        slab->data[c].from = slab->offsets[c].from = slab->shapes[c].from =
            p->batch_memory.alloc ? &p->batch_memory : NULL;
        if (is_dense(p, c))
            status = stk__buffer_reserve(&slab->data[c], &p->budget,
                                         p->column_row_bytes[c] * (size_t)p->plan.batching.size, err);
    }
    if (status != STK_OK) {
        stk__slab_free(p, slab);
        return status;
    }
    slab->error_row = -1;
    *out = slab;
    return STK_OK;
}

static void drop_chunks(stk_pipeline *p, stk__slab *slab)
{
    for (size_t i = 0; i < slab->chunk_count; i++)
        stk__chunk_unref(p->chunks, slab->chunks[i]);
    slab->chunk_count = 0;
}

void stk__slab_free(stk_pipeline *p, stk__slab *slab)
{
    if (!slab)
        return;
    drop_chunks(p, slab);
    for (int c = 0; c < p->columns; c++) {
        if (slab->data)
            stk__buffer_clear(&slab->data[c], &p->budget);
        if (slab->offsets)
            stk__buffer_clear(&slab->offsets[c], &p->budget);
        if (slab->shapes)
            stk__buffer_clear(&slab->shapes[c], &p->budget);
    }
    while (slab->parts) {
        stk__part *next = slab->parts->next;
        stk__part_free(p, slab->parts);
        slab->parts = next;
    }
    stk__free(slab->error);
    stk__free(slab->columns);
    stk__free(slab->data);
    stk__free(slab->offsets);
    stk__free(slab->shapes);
    stk__free(slab->chunks);
    stk__free(slab);
    stk__budget_return(&p->budget, slab_table_bytes(p));
}

void stk__slab_reset(stk_pipeline *p, stk__slab *slab)
{
    drop_chunks(p, slab);
    for (int c = 0; c < p->columns; c++)
        slab->data[c].size = slab->offsets[c].size = slab->shapes[c].size = 0;
    slab->next = NULL;
    slab->rows = slab->next_row = slab->rows_done = 0;
    slab->ready = false;
    slab->batch.rows = 0;
    slab->held_serial = 0;
    stk__free(slab->error);
    slab->error = NULL;
    slab->error_row = -1;
}

/* Own memory for rows of dense columns, and the per-row arrays. */
static stk_status part_own_rows(stk_pipeline *p, stk__part *part, stk_error *err)
{
    const size_t rows = (size_t)p->part_rows;
    size_t bytes = 0;
    for (int c = 0; c < p->columns; c++)
        bytes += (p->column_row_bytes[c] * rows + 63) & ~(size_t)63;
    part->dense_memory = stk__budget_alloc(&p->budget, bytes, err);
    if (!part->dense_memory)
        return STK_BUDGET;
    char *at = part->dense_memory;
    for (int c = 0; c < p->columns; c++) {
        part->dense[c] = at;
        at += (p->column_row_bytes[c] * rows + 63) & ~(size_t)63;
    }
    part->dropped_at = stk__calloc(rows, sizeof *part->dropped_at);
    part->epoch_behind_batch = stk__calloc(rows, sizeof *part->epoch_behind_batch);
    part->epochs = stk__calloc(rows * STK__MAX_RELAYS, sizeof *part->epochs);
    part->row_epoch = stk__calloc(rows, sizeof *part->row_epoch);
    part->items = stk__calloc(rows, sizeof *part->items);
    if (!part->dropped_at || !part->epoch_behind_batch || !part->epochs || !part->row_epoch || !part->items)
        return stk__nomem(rows * sizeof *part->epochs, err);
    return STK_OK;
}

static size_t part_table_bytes(const stk_pipeline *p)
{
    const stk__part *part = NULL;
    const size_t row = sizeof *part->dropped_at + sizeof *part->epoch_behind_batch + sizeof *part->row_epoch +
                       sizeof *part->items + STK__MAX_RELAYS * sizeof *part->epochs;
    return sizeof *part + (size_t)p->columns * (sizeof *part->dense + 2 * sizeof(stk__buffer)) +
           (p->direct ? 0 : (size_t)p->part_rows * row);
}

stk__part *stk__part_new(stk_pipeline *p, stk_error *err)
{
    if (stk__budget_take(&p->budget, part_table_bytes(p), err) != STK_OK)
        return NULL;
    stk__part *part = stk__calloc(1, sizeof *part);
    if (!part) {
        stk__budget_return(&p->budget, part_table_bytes(p));
        stk__nomem(sizeof *part, err);
        return NULL;
    }
    const size_t n = (size_t)p->columns;
    part->error_row = -1;
    part->dense = stk__calloc(n, sizeof *part->dense);
    part->ragged = stk__calloc(n, sizeof *part->ragged);
    part->shapes = stk__calloc(n, sizeof *part->shapes);
    stk_status status = STK_OK;
    if (!part->dense || !part->ragged || !part->shapes)
        status = stk__nomem(n * sizeof *part->ragged, err);
    else if (!p->direct)
        status = part_own_rows(p, part, err);
    if (status != STK_OK) {
        stk__part_free(p, part);
        return NULL;
    }
    return part;
}

size_t stk__part_bytes(const stk_pipeline *p, const stk__part *part)
{
    size_t bytes = part->arena.bytes;
    for (int c = 0; c < p->columns; c++)
        bytes += part->ragged[c].capacity + part->shapes[c].capacity;
    for (int64_t i = 0; p->plan.stream && i < part->rows; i++)
        bytes += part->items[i]->packed.capacity;
    return bytes;
}

static size_t part_dense_bytes(const stk_pipeline *p)
{
    size_t bytes = 0;
    for (int c = 0; c < p->columns; c++)
        bytes += (p->column_row_bytes[c] * (size_t)p->part_rows + 63) & ~(size_t)63;
    return bytes;
}

static void free_bad(stk__part *part)
{
    while (part->bad) {
        stk__bad *next = part->bad->next;
        stk__free(part->bad);
        part->bad = next;
    }
}

void stk__part_reset(stk_pipeline *p, stk__part *part)
{
    for (int c = 0; c < p->columns; c++)
        part->ragged[c].size = part->shapes[c].size = 0;
    stk__arena_release(&part->arena, p->chunks);
    free_bad(part);
    part->next = NULL;
    part->rows = part->cursor = part->row0 = 0;
    part->error_row = -1;
    part->ready = false;
}

void stk__part_free(stk_pipeline *p, stk__part *part)
{
    if (!part)
        return;
    stk__arena_release(&part->arena, p->chunks);
    free_bad(part);
    for (int c = 0; c < p->columns; c++) {
        if (part->ragged)
            stk__buffer_clear(&part->ragged[c], &p->budget);
        if (part->shapes)
            stk__buffer_clear(&part->shapes[c], &p->budget);
    }
    stk__budget_free(&p->budget, part->dense_memory, part_dense_bytes(p));
    stk__free(part->dense);
    stk__free(part->ragged);
    stk__free(part->shapes);
    stk__free(part->dropped_at);
    stk__free(part->epoch_behind_batch);
    stk__free(part->epochs);
    stk__free(part->row_epoch);
    stk__free(part->items);
    stk__free(part);
    stk__budget_return(&p->budget, part_table_bytes(p));
}

/* The slab holds a reference to every chunk that its bytes lie in. */
static stk_status hold_chunks(stk_pipeline *p, stk__slab *slab, const stk__part *part, stk_error *err)
{
    for (stk__chunk *chunk = part->arena.head; chunk; chunk = chunk->next) {
        if (!stk__grow((void **)&slab->chunks, &slab->chunk_capacity, slab->chunk_count + 1, sizeof(stk__chunk *)))
            return stk__nomem(sizeof(stk__chunk *), err);
        atomic_fetch_add(&chunk->refs, 1);
        slab->chunks[slab->chunk_count++] = chunk;
    }
    return STK_OK;
}

static int64_t shape_elements(const int64_t *shape, int ndim)
{
    int64_t n = 1;
    for (int d = 0; d < ndim; d++)
        n *= shape[d];
    return n;
}

/* Elements of the rows [from, to) of a ragged column of a part, and of the rows before them. */
static void ragged_extent(const stk__part *part, int c, int ndim, int64_t from, int64_t to, int64_t *out_before,
                          int64_t *out_elements)
{
    const int64_t *shapes = (const int64_t *)(const void *)part->shapes[c].data;
    int64_t before = 0, elements = 0;
    for (int64_t r = 0; r < to; r++) {
        const int64_t n = shape_elements(shapes + r * ndim, ndim);
        if (r < from)
            before += n;
        else
            elements += n;
    }
    *out_before = before;
    *out_elements = elements;
}

static stk_status append_ragged(stk_pipeline *p, stk__slab *slab, const stk__part *part, int c, int64_t from, int64_t to,
                                stk_error *err)
{
    const stk__var *var = column_var(p, c);
    const size_t element = stk_dtype_size(var->dtype);
    const size_t row = sizeof(int64_t) * (size_t)var->ndim;
    int64_t before, elements;
    ragged_extent(part, c, var->ndim, from, to, &before, &elements);
    const size_t bytes = (size_t)elements * element, shape_bytes = (size_t)(to - from) * row;
    STK_TRY(stk__room_reserve(p, &slab->data[c], bytes, part->serial, err));
    STK_TRY(stk__room_reserve(p, &slab->shapes[c], shape_bytes, part->serial, err));
    if (bytes)
        memcpy(slab->data[c].data + slab->data[c].size, part->ragged[c].data + (size_t)before * element, bytes);
    memcpy(slab->shapes[c].data + slab->shapes[c].size, part->shapes[c].data + (size_t)from * row, shape_bytes);
    slab->data[c].size += bytes;
    slab->shapes[c].size += shape_bytes;
    return STK_OK;
}

stk_status stk__slab_append(stk_pipeline *p, stk__slab *slab, stk__part *part, int64_t from, int64_t to, stk_error *err)
{
    if (slab->held_serial != part->serial)
        STK_TRY(hold_chunks(p, slab, part, err));
    slab->held_serial = part->serial;
    for (int c = 0; c < p->columns; c++) {
        if (!is_dense(p, c)) {
            STK_TRY(append_ragged(p, slab, part, c, from, to, err));
            continue;
        }
        const size_t row = p->column_row_bytes[c];
        char *to_rows = slab->data[c].data + (size_t)slab->batch.rows * row;
        const char *from_rows = part->dense[c] + (size_t)from * row;
        if (to_rows != from_rows && row)
            memcpy(to_rows, from_rows, (size_t)(to - from) * row);
    }
    slab->batch.rows += to - from;
    return STK_OK;
}

/* Turns ragged rows into a dense array of the largest extent in each dimension, filled up with the pad value. */
static stk_status pad_column(stk_pipeline *p, stk__slab *slab, int c, int64_t *max_shape, stk_error *err);

static int64_t bytes_total(const stk_bytes *views, int64_t count)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += views[i].size;
    return sum;
}

/* Offsets from the shapes of the rows. */
static stk_status finish_ragged(stk_pipeline *p, stk__slab *slab, int c, stk_column *column, stk_error *err)
{
    const stk__var *var = column_var(p, c);
    const int64_t rows = slab->batch.rows;
    const int64_t *shapes = (const int64_t *)(const void *)slab->shapes[c].data;
    STK_TRY(stk__room_reserve(p, &slab->offsets[c], (size_t)(rows + 1) * sizeof(int64_t), slab->held_serial, err));
    int64_t *offsets = (int64_t *)(void *)slab->offsets[c].data;
    offsets[0] = 0;
    for (int64_t r = 0; r < rows; r++)
        offsets[r + 1] = offsets[r] + shape_elements(shapes + r * var->ndim, var->ndim);
    column->offsets = offsets;
    column->elements = offsets[rows];
    column->row_shapes = var->ndim > 1 ? shapes : NULL;
    return STK_OK;
}

stk_status stk__slab_finish(stk_pipeline *p, stk__slab *slab, stk_error *err)
{
    const int64_t rows = slab->batch.rows;
    for (int c = 0; c < p->columns; c++) {
        const stk__var *var = column_var(p, c);
        stk_column *column = &slab->columns[c];
        *column = (stk_column){.name = var->name, .dtype = var->dtype, .ndim = var->ndim + 1};
        column->shape[0] = rows;
        memcpy(column->shape + 1, var->shape, sizeof(int64_t) * (size_t)var->ndim);
        if (var->fixed)
            column->elements = rows * var->elements;
        else if (p->plan.batching.pad)
            STK_TRY(pad_column(p, slab, c, column->shape + 1, err));
        else
            STK_TRY(finish_ragged(p, slab, c, column, err));
        if (!var->fixed && p->plan.batching.pad) {
            column->elements = shape_elements(column->shape, column->ndim);
            column->row_shapes = (const int64_t *)(const void *)slab->shapes[c].data;
        }
        column->data = slab->data[c].data;
        column->size_bytes = var->dtype == STK_BYTES
                                 ? bytes_total((const stk_bytes *)column->data, column->elements)
                                 : column->elements * (int64_t)stk_dtype_size(var->dtype);
    }
    slab->batch.column_count = p->columns;
    slab->batch.columns = slab->columns;
    return STK_OK;
}

static void fill_value(char *out, stk_dtype dtype, double value);

/* Copies one row into its place in the padded array, innermost dimension by innermost dimension. */
static void place_row(char *out, const char *in, const int64_t *shape, const int64_t *full, int ndim, size_t element)
{
    int64_t index[STK_MAX_DIMS] = {0};
    const int64_t inner = shape[ndim - 1];
    if (shape_elements(shape, ndim) == 0)
        return;
    for (;;) {
        int64_t at = 0;
        for (int d = 0; d < ndim; d++)
            at = at * full[d] + (d < ndim - 1 ? index[d] : 0);
        memcpy(out + (size_t)at * element, in, (size_t)inner * element);
        in += (size_t)inner * element;
        int d = ndim - 2;
        while (d >= 0 && ++index[d] == shape[d])
            index[d--] = 0;
        if (d < 0)
            return;
    }
}

static stk_status pad_column(stk_pipeline *p, stk__slab *slab, int c, int64_t *max_shape, stk_error *err)
{
    const stk__var *var = column_var(p, c);
    const int64_t rows = slab->batch.rows, *shapes = (const int64_t *)(const void *)slab->shapes[c].data;
    const size_t element = stk_dtype_size(var->dtype);
    for (int d = 0; d < var->ndim; d++) {
        max_shape[d] = var->shape[d] > 0 ? var->shape[d] : 0;
        for (int64_t r = 0; r < rows; r++)
            max_shape[d] = STK_MAX(max_shape[d], shapes[r * var->ndim + d]);
    }
    int64_t row_elements = shape_elements(max_shape, var->ndim), all;
    if (__builtin_mul_overflow(row_elements, rows, &all) || all > INT64_MAX / 16)
        return stk__budget_error(&p->budget, SIZE_MAX, err);
    if (all == 0)
        return STK_OK;
    /* The offsets buffer is free for a padded column: the padded array is made there, then the two change places. */
    stk__buffer *padded = &slab->offsets[c];
    padded->size = 0;
    STK_TRY(stk__room_reserve(p, padded, (size_t)all * element, slab->held_serial, err));
    if (var->dtype == STK_BYTES || p->plan.batching.pad_value == 0)
        memset(padded->data, 0, (size_t)all * element);
    else
        for (int64_t i = 0; i < all; i++)
            fill_value(padded->data + (size_t)i * element, var->dtype, p->plan.batching.pad_value);
    const char *in = slab->data[c].data;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t *shape = shapes + r * var->ndim;
        place_row(padded->data + (size_t)(r * row_elements) * element, in, shape, max_shape, var->ndim, element);
        in += (size_t)shape_elements(shape, var->ndim) * element;
    }
    const stk__buffer swapped = slab->data[c];
    slab->data[c] = *padded;
    *padded = swapped;
    return STK_OK;
}

#define FILL(type, T)                \
    case type: {                     \
        const T x = (T)value;        \
        memcpy(out, &x, sizeof x);   \
        return;                      \
    }

static void fill_value(char *out, stk_dtype dtype, double value)
{
    switch (dtype) {
        FILL(STK_BOOL, _Bool)
        FILL(STK_UINT8, uint8_t)
        FILL(STK_INT8, int8_t)
        FILL(STK_UINT16, uint16_t)
        FILL(STK_INT16, int16_t)
        FILL(STK_UINT32, uint32_t)
        FILL(STK_INT32, int32_t)
        FILL(STK_UINT64, uint64_t)
        FILL(STK_INT64, int64_t)
        FILL(STK_FLOAT32, float)
        FILL(STK_FLOAT64, double)
    default:
        memset(out, 0, stk_dtype_size(dtype)); /* half floats: zero; the plan refuses other values */
    }
}
