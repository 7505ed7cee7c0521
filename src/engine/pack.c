/*
 * Values of a sample as one run of bytes: for streams, shuffle buffers and caches.
 * Per var: ndim dimensions (int64), then the elements; for bytes the sizes (int64) and then all contents. Each piece
 * starts at a multiple of 16.
 */
#include <string.h>

#include "engine/run.h"

static size_t round_up(size_t size)
{
    return (size + 15) & ~(size_t)15;
}

static stk_status put(stk__buffer *out, stk__budget *budget, const void *data, size_t size, stk_error *err)
{
    const size_t room = round_up(size);
    STK_TRY(stk__buffer_reserve(out, budget, room, err));
    if (size)
        memcpy(out->data + out->size, data, size);
    if (room > size)
        memset(out->data + out->size + size, 0, room - size);
    out->size += room;
    return STK_OK;
}

static stk_status put_bytes(stk__buffer *out, stk__budget *budget, const stk_bytes *views, int64_t count, stk_error *err)
{
    size_t total = 0;
    STK_TRY(stk__buffer_reserve(out, budget, round_up((size_t)count * sizeof(int64_t)), err));
    for (int64_t i = 0; i < count; i++) {
        memcpy(out->data + out->size + (size_t)i * sizeof(int64_t), &views[i].size, sizeof(int64_t));
        total += (size_t)views[i].size;
    }
    out->size += round_up((size_t)count * sizeof(int64_t));
    STK_TRY(stk__buffer_reserve(out, budget, round_up(total), err));
    char *at = out->data + out->size;
    for (int64_t i = 0; i < count; i++) {
        if (views[i].size)
            memcpy(at, views[i].data, (size_t)views[i].size);
        at += views[i].size;
    }
    memset(at, 0, round_up(total) - total);
    out->size += round_up(total);
    return STK_OK;
}

stk_status stk__pack(const stk__plan *plan, const int *vars, int count, const stk_value *values, stk__buffer *out,
                     stk__budget *budget, stk_error *err)
{
    out->size = 0;
    for (int i = 0; i < count; i++) {
        const stk__var *var = &plan->vars[vars[i]];
        const stk_value *value = &values[vars[i]];
        if (!var->needed) /* nobody has made it */
            continue;
        STK_TRY(put(out, budget, value->shape, sizeof(int64_t) * (size_t)var->ndim, err));
        if (var->dtype == STK_BYTES)
            STK_TRY(put_bytes(out, budget, value->data, value->elements, err));
        else
            STK_TRY(put(out, budget, value->data, (size_t)value->elements * stk_dtype_size(var->dtype), err));
    }
    return STK_OK;
}

/* A window that is cut off in pieces. */
typedef struct cutter {
    const char *p;
    size_t left;
} cutter;

static const char *cut(cutter *c, size_t size)
{
    const size_t room = round_up(size);
    if (room < size || room > c->left)
        return NULL;
    const char *piece = c->p;
    c->p += room;
    c->left -= room;
    return piece;
}

static stk_status broken(stk_error *err)
{
    return stk_error_set(err, STK_CORRUPT, "stored sample is cut off or does not fit the pipeline's fields");
}

static stk_status read_shape(cutter *c, const stk__var *var, stk_value *value, stk_error *err)
{
    const char *shape = cut(c, sizeof(int64_t) * (size_t)var->ndim);
    if (!shape)
        return broken(err);
    memcpy(value->shape, shape, sizeof(int64_t) * (size_t)var->ndim);
    int64_t elements = 1;
    for (int d = 0; d < var->ndim; d++) {
        const int64_t n = value->shape[d];
        if (n < 0 || (var->shape[d] >= 0 && n != var->shape[d]) || __builtin_mul_overflow(elements, n, &elements))
            return broken(err);
    }
    value->elements = elements;
    return STK_OK;
}

static stk_status read_bytes(cutter *c, stk_value *value, stk__arena *scratch, stk__chunk_pool *chunks, stk_error *err)
{
    const size_t count = (size_t)value->elements;
    if (count > c->left / sizeof(int64_t))
        return broken(err);
    const char *sizes = cut(c, count * sizeof(int64_t)); /* NULL: the padding behind them is cut off */
    if (!sizes)
        return broken(err);
    stk_bytes *views = stk__arena_alloc(scratch, chunks, count * sizeof *views, err);
    if (!views)
        return STK_BUDGET;
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t size;
        memcpy(&size, sizes + i * sizeof size, sizeof size);
        if (size < 0 || (size_t)size > c->left - total)
            return broken(err);
        views[i] = (stk_bytes){(const uint8_t *)c->p + total, size};
        total += (size_t)size;
    }
    if (!cut(c, total))
        return broken(err);
    value->data = views;
    return STK_OK;
}

stk_status stk__unpack(const stk__plan *plan, const int *vars, int count, const char *packed, size_t size,
                       stk_value *values, stk__arena *scratch, stk__chunk_pool *chunks, stk_error *err)
{
    cutter c = {packed, size};
    for (int i = 0; i < count; i++) {
        const stk__var *var = &plan->vars[vars[i]];
        stk_value *value = &values[vars[i]];
        if (!var->needed)
            continue;
        STK_TRY(read_shape(&c, var, value, err));
        if (var->dtype == STK_BYTES) {
            STK_TRY(read_bytes(&c, value, scratch, chunks, err));
            continue;
        }
        const size_t element = stk_dtype_size(var->dtype);
        if ((size_t)value->elements > c.left / element)
            return broken(err);
        value->data = (void *)(uintptr_t)cut(&c, (size_t)value->elements * element);
        if (!value->data)
            return broken(err);
    }
    return STK_OK;
}
