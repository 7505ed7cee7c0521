/* Types and storage of datasets, restored from a schema. */
#include "ops/hdf5_restore.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "kernels/convert.h"

#include "base/banned.h"

/* ---- types ---- */

static bool same_shape(const stk_field *f, const stk__schema_entry *e)
{
    return f->ndim == e->ndim && memcmp(f->shape, e->shape, sizeof *f->shape * (size_t)f->ndim) == 0;
}

/* The number of values in a shape; -1: varies. */
static int64_t elements_of(const int64_t *shape, int32_t ndim)
{
    int64_t n = 1;
    for (int32_t d = 0; d < ndim; d++)
        if (shape[d] < 0 || __builtin_mul_overflow(n, shape[d], &n))
            return -1;
    return n;
}

static bool can_become(const stk_field *f, const stk__schema_entry *e)
{
    if ((f->dtype == STK_BYTES) != (e->dtype == STK_BYTES))
        return false;
    if (same_shape(f, e))
        return true;
    /* The same values in other dimensions: parse was told a flat shape. */
    const int64_t n = elements_of(f->shape, f->ndim);
    return f->dtype != STK_BYTES && n >= 0 && n == elements_of(e->shape, e->ndim);
}

static void put_type(stk__text *t, stk_dtype dtype, const int64_t *shape, int32_t ndim)
{
    stk__text_puts(t, stk_dtype_name(dtype));
    for (int32_t d = 0; d < ndim; d++)
        stk__text_printf(t, "%s%lld%s", d ? ", " : "[", (long long)shape[d], d + 1 == ndim ? "]" : "");
}

stk_status stk__h5_restore_type(stk_plan *plan, const stk_host *host, const stk__schema_entry *entry, stk_field *field,
                                int id, stk__h5_conversion *out, bool *out_differs, stk_error *err)
{
    *out_differs = false;
    if (!can_become(field, entry)) {
        char here[128], there[128];
        stk__text t;
        stk__text_fixed(&t, here, sizeof here);
        put_type(&t, field->dtype, field->shape, field->ndim);
        stk__text_fixed(&t, there, sizeof there);
        put_type(&t, entry->dtype, entry->shape, entry->ndim);
        return host->fail(err, STK_INVALID, "field '%s' is %s here and %s in the schema", field->name, here, there);
    }
    if (field->dtype == entry->dtype && same_shape(field, entry))
        return STK_OK;
    *out = (stk__h5_conversion){.name = entry->name,
                                .from = id,
                                .from_dtype = field->dtype,
                                .to_dtype = entry->dtype,
                                .varies = elements_of(entry->shape, entry->ndim) < 0};
    const stk_field restored = {.name = entry->name, .dtype = entry->dtype, .ndim = entry->ndim};
    *field = restored;
    memcpy(field->shape, entry->shape, sizeof field->shape);
    *out_differs = true;
    return host->plan_write(plan, field, &out->to, err);
}

static bool is_real(stk_dtype dtype)
{
    return dtype == STK_FLOAT16 || dtype == STK_BFLOAT16 || dtype == STK_FLOAT32 || dtype == STK_FLOAT64;
}

/* Whether a number is still what it was: the same, or rounded but not out of range when both are floats. */
static bool still_fits(stk_dtype from, const char *before, stk_dtype to, const char *after)
{
    uint64_t back = 0;
    double x, y;
    if (!is_real(from)) {
        stk__convert(&back, from, after, to, 1);
        return memcmp(&back, before, stk_dtype_size(from)) == 0;
    }
    stk__convert(&x, STK_FLOAT64, before, from, 1);
    stk__convert(&y, STK_FLOAT64, after, to, 1);
    return is_real(to) ? isfinite(y) || !isfinite(x) : x == y;
}

static stk_status does_not_fit(const stk__h5_conversion *c, const char *at, int64_t i, stk_error *err)
{
    double x;
    int64_t n;
    if (is_real(c->from_dtype)) {
        stk__convert(&x, STK_FLOAT64, at, c->from_dtype, 1);
        stk_error_set(err, STK_CORRUPT, "has %g as value %lld, which does not fit the %s of the schema", x,
                      (long long)i, stk_dtype_name(c->to_dtype));
    } else {
        stk__convert(&n, STK_INT64, at, c->from_dtype, 1);
        stk_error_set(err, STK_CORRUPT, "has %lld as value %lld, which does not fit the %s of the schema", (long long)n,
                      (long long)i, stk_dtype_name(c->to_dtype));
    }
    if (err)
        snprintf(err->field, sizeof err->field, "%s", c->name);
    return STK_CORRUPT;
}

stk_status stk__h5_convert(const stk_call *call, const stk__h5_conversion *c, stk_sample *sample, stk_error *err)
{
    const stk_value *value = &sample->values[c->from];
    const char *in = value->data;
    const int64_t n = value->elements;
    char *out = stk_out(call, sample, c->to, c->varies ? value->shape : NULL, err);
    if (!out)
        return err->status;
    stk__convert(out, c->to_dtype, in, c->from_dtype, (size_t)n);
    if (c->from_dtype == c->to_dtype)
        return STK_OK;
    const size_t from_size = stk_dtype_size(c->from_dtype), to_size = stk_dtype_size(c->to_dtype);
    for (int64_t i = 0; i < n; i++)
        if (!still_fits(c->from_dtype, in + (size_t)i * from_size, c->to_dtype, out + (size_t)i * to_size))
            return does_not_fit(c, in + (size_t)i * from_size, i, err);
    return STK_OK;
}

/* ---- storage ---- */

static bool can_encode(uint32_t id)
{
    return id == STK__H5_DEFLATE || id == STK__H5_SHUFFLE || id == STK__H5_FLETCHER32 || id == STK__H5_LZF ||
           id == STK__H5_LZ4 || id == STK__H5_ZSTD;
}

static void drop_filters(stk__schema_entry *e)
{
    size_t kept = 0;
    for (size_t i = 0; i < e->filter_count; i++) {
        if (can_encode(e->filters[i].id))
            e->filters[kept++] = e->filters[i];
        else
            stk__free((void *)(uintptr_t)e->filters[i].values);
    }
    e->filter_count = kept;
}

/* Chunks here hold whole rows: as many as have about the size of those that were. 0: the writer chooses. */
static int64_t chunk_rows(const stk__schema_entry *e)
{
    const int64_t row = e->kind == STK__H5_KIND_VLEN ? 1 : elements_of(e->shape, e->ndim);
    const int64_t chunk = elements_of(e->chunk, e->chunk_ndim);
    const size_t value_bytes = e->size ? e->size : stk_dtype_size(e->dtype);
    if (e->chunk_ndim == 0 || row < 0 || chunk < 0)
        return 0;
    const int64_t rows = row > 0 ? STK_MAX(STK_MIN(chunk / row, e->chunk[0]), 1) : e->chunk[0];
    int64_t bytes;
    if (__builtin_mul_overflow(rows, row, &bytes) || __builtin_mul_overflow(bytes, (int64_t)value_bytes, &bytes) ||
        (uint64_t)bytes > STK__H5_CHUNK_MAX)
        return 0;
    return rows;
}

static void reverse(uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size / 2; i++) {
        const uint8_t byte = data[i];
        data[i] = data[size - 1 - i];
        data[size - 1 - i] = byte;
    }
}

void stk__h5_restore_storage(stk__schema_entry *e, bool filters, stk__h5_new *out)
{
    const bool sequence = e->kind == STK__H5_KIND_VLEN; /* the writer sees that from the shape */
    out->path = e->dataset;
    out->attributes = e->attributes;
    out->attribute_count = e->attribute_count;
    if (e->kind && !sequence) {
        out->kind = e->kind;
        out->size = e->size;
        out->pad = e->pad;
        out->utf8 = e->utf8;
    }
    out->swap = e->big_endian && e->dtype != STK_BYTES && !sequence;
    if (out->swap && e->fill)
        reverse(e->fill, e->fill_size);
    out->fill = e->fill;
    out->fill_size = e->fill ? e->fill_size : 0;
    if (out->chunk_rows == 0)
        out->chunk_rows = chunk_rows(e);
    if (!filters)
        return;
    drop_filters(e);
    out->filters = e->filters;
    out->filter_count = e->filter_count;
}
