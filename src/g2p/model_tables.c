/* Arrays of a model file as floats, checked, and the input tables of GRUs made of them. */
#include "g2p/model_impl.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "kernels/convert.h"

#include "base/banned.h"

/* Sums of products of larger ones might overflow; those of trained models stay below 10. */
#define WEIGHT_MAX 1e6f

stk_status stk__g2p_bad(stk_error *err, const char *array, const char *format, ...)
{
    if (!err)
        return STK_CORRUPT;
    char text[sizeof err->message];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    stk_error_set(err, STK_CORRUPT, "%s", text);
    snprintf(err->field, sizeof err->field, "%s", array);
    return STK_CORRUPT;
}

/* ---- arrays ---- */

static void write_shape(const int64_t *shape, int ndim, char *out, size_t size)
{
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < ndim && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%lld", i ? "x" : "", (long long)shape[i]);
}

stk_status stk__g2p_find(const stk__npz *npz, const char *name, int ndim, const stk__npy **out, stk_error *err)
{
    const stk__npy *a = stk__npz_find(npz, name);
    if (!a)
        return stk__g2p_bad(err, name, "the model has no such array");
    if (a->ndim != ndim)
        return stk__g2p_bad(err, name, "has %d dimensions, wanted %d", a->ndim, ndim);
    *out = a;
    return STK_OK;
}

stk_status stk__g2p_length(const stk__npz *npz, const char *name, int64_t max, int *out, stk_error *err)
{
    const stk__npy *a;
    STK_TRY(stk__g2p_find(npz, name, 1, &a, err));
    if (a->type != STK__NPY_F32)
        return stk__g2p_bad(err, name, "has another type than float32");
    if (a->shape[0] < 1 || a->shape[0] > max)
        return stk__g2p_bad(err, name, "has %lld items, wanted 1 to %lld", (long long)a->shape[0], (long long)max);
    *out = (int)a->shape[0];
    return STK_OK;
}

static stk_status check_shape(const stk__npy *a, const int64_t *shape, stk_error *err)
{
    char found[96], wanted[96];
    if (memcmp(a->shape, shape, (size_t)a->ndim * sizeof *shape) == 0)
        return STK_OK;
    write_shape(a->shape, a->ndim, found, sizeof found);
    write_shape(shape, a->ndim, wanted, sizeof wanted);
    return stk__g2p_bad(err, a->name, "has shape %s, wanted %s", found, wanted);
}

static void copy_halves(const stk__npy *a, float *out)
{
    const uint8_t *p = a->data;
    for (size_t i = 0; i < a->elements; i++)
        out[i] = stk__half_to_float((uint16_t)(p[2 * i] | p[2 * i + 1] << 8));
}

/* In pieces of a fixed size, of which compilers make vectors. */
static void scale_row(const int8_t *in, float scale, size_t count, float *out)
{
    enum { PIECE = 16 };
    size_t i = 0;
    for (; i + PIECE <= count; i += PIECE)
        for (size_t k = 0; k < PIECE; k++)
            out[i + k] = (float)in[i + k] * scale;
    for (; i < count; i++)
        out[i] = (float)in[i] * scale;
}

/* NAME_scale has a factor for each row; free them. */
static stk_status read_scale(const stk__npz *npz, const stk__npy *a, float **out, stk_error *err)
{
    char name[sizeof a->name + 8];
    const stk__npy *found;
    float *scale;
    const size_t rows = a->elements / (size_t)a->shape[a->ndim - 1];
    snprintf(name, sizeof name, "%s_scale", a->name);
    STK_TRY(stk__g2p_find(npz, name, a->ndim - 1, &found, err));
    if (found->type != STK__NPY_F32)
        return stk__g2p_bad(err, name, "has another type than float32");
    STK_TRY(stk__g2p_floats(npz, name, a->ndim - 1, a->shape, &scale, err));
    for (size_t r = 0; r < rows; r++) {
        if (fabsf(scale[r]) <= WEIGHT_MAX / -INT8_MIN) /* so that no weight is too large */
            continue;
        const stk_status status = stk__g2p_bad(err, name, "item %zu is %g, wanted at most %g", r, (double)scale[r],
                                               (double)(WEIGHT_MAX / -INT8_MIN));
        stk__free(scale);
        return status;
    }
    *out = scale;
    return STK_OK;
}

static stk_status scale_rows(const stk__npz *npz, const stk__npy *a, float *out, stk_error *err)
{
    float *scale;
    const int8_t *p = a->data;
    const size_t width = (size_t)a->shape[a->ndim - 1], rows = a->elements / width;
    STK_TRY(read_scale(npz, a, &scale, err));
    for (size_t r = 0; r < rows; r++)
        scale_row(p + r * width, scale[r], width, out + r * width);
    stk__free(scale);
    return STK_OK;
}

static stk_status check_values(const stk__npy *a, const float *values, stk_error *err)
{
    for (size_t i = 0; i < a->elements; i++)
        if (!(fabsf(values[i]) <= WEIGHT_MAX)) /* NaN is not, either */
            return stk__g2p_bad(err, a->name, "item %zu is %g, wanted at most %g", i, (double)values[i],
                                (double)WEIGHT_MAX);
    return STK_OK;
}

static stk_status convert(const stk__npz *npz, const stk__npy *a, float *out, stk_error *err)
{
    if (a->type == STK__NPY_F32)
        memcpy(out, a->data, a->elements * sizeof *out);
    else if (a->type == STK__NPY_F16)
        copy_halves(a, out);
    else if (a->type == STK__NPY_I8 && a->ndim > 1)
        return scale_rows(npz, a, out, err);
    else
        return stk__g2p_bad(err, a->name, "has no type that weights can have: float32, float16 or int8 with a scale");
    return check_values(a, out, err);
}

stk_status stk__g2p_floats(const stk__npz *npz, const char *name, int ndim, const int64_t *shape, float **out,
                           stk_error *err)
{
    const stk__npy *a;
    STK_TRY(stk__g2p_find(npz, name, ndim, &a, err));
    STK_TRY(check_shape(a, shape, err));
    const size_t size = a->elements * sizeof(float);
    float *values = stk__alloc(size);
    if (!values)
        return stk__nomem(size, err);
    const stk_status status = convert(npz, a, values, err);
    if (status != STK_OK) {
        stk__free(values);
        return status;
    }
    *out = values;
    return STK_OK;
}

stk_status stk__g2p_int8(const stk__npz *npz, const char *name, int ndim, const int64_t *shape, const int8_t **out,
                         float **out_scale, stk_error *err)
{
    const stk__npy *a;
    STK_TRY(stk__g2p_find(npz, name, ndim, &a, err));
    STK_TRY(check_shape(a, shape, err));
    if (a->type != STK__NPY_I8)
        return stk__g2p_bad(err, name, "has another type than int8");
    STK_TRY(read_scale(npz, a, out_scale, err));
    *out = a->data;
    return STK_OK;
}

/* ---- tables ---- */

stk_status stk__g2p_make_table(const float *rows, size_t ids, int units, stk__g2p_table *out, stk_error *err)
{
    const size_t width = 3 * (size_t)stk__gru_padded(units), size = ids * width * sizeof(float);
    float *made = stk__alloc_aligned(size);
    if (!made)
        return stk__nomem(size, err);
    memset(made, 0, size);
    for (size_t r = 0; r < ids; r++)
        for (int gate = 0; gate < 3; gate++)
            for (int u = 0; u < units; u++)
                made[r * width + (size_t)stk__gru_input_at(gate, u)] =
                    rows[(r * 3 + (size_t)gate) * (size_t)units + (size_t)u];
    *out = (stk__g2p_table){.rows = made, .ids = ids, .width = width};
    return STK_OK;
}

stk_status stk__g2p_read_rows(const stk__npz *npz, const char *name, size_t ids, int units, stk__g2p_table *out,
                              stk_error *err)
{
    const int64_t shape[] = {(int64_t)ids, 3 * (int64_t)units};
    float *rows;
    STK_TRY(stk__g2p_floats(npz, name, 2, shape, &rows, err));
    const stk_status status = stk__g2p_make_table(rows, ids, units, out, err);
    stk__free(rows);
    return status;
}

void stk__g2p_table_clear(stk__g2p_table *t)
{
    stk__free(t->rows);
    *t = (stk__g2p_table){0};
}

size_t stk__g2p_table_bytes(const stk__g2p_table *t)
{
    return t->ids * t->width * sizeof *t->rows;
}
