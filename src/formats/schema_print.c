/* Writes schemas as JSON, one field a line. */
#include <math.h>
#include <string.h>

#include "formats/json_bytes.h"
#include "formats/schema.h"
#include "formats/schema_impl.h"
#include "kernels/convert.h"

#include "base/banned.h"

/* Longer arrays are shorter as base64, and nobody reads them. */
#define MAX_LISTED 64

const char *const stk__schema_kind_names[] = {
    [STK__H5_KIND_STRING] = "string",
    [STK__H5_KIND_OPAQUE] = "opaque",
    [STK__H5_KIND_VLEN_STRING] = "vlen_string",
    [STK__H5_KIND_VLEN] = "vlen",
};

const char *const stk__schema_pad_names[] = {
    [STK__H5_PAD_NUL_TERMINATED] = "null_terminated",
    [STK__H5_PAD_NUL] = "null",
    [STK__H5_PAD_SPACE] = "space",
};

static void put_name(stk__text *t, const char *name)
{
    stk__json_put_bytes(t, (const uint8_t *)name, strlen(name));
}

/* The value as an integer or a double; false when JSON has no number that reads back as the same bytes. */
static bool number_of(stk_dtype dtype, const uint8_t *at, bool *out_real, int64_t *out_integer, double *out_number)
{
    *out_real = stk__schema_is_real(dtype);
    if (!*out_real) {
        stk__convert(out_integer, STK_INT64, at, dtype, 1);
        uint64_t wide = 0;
        if (dtype == STK_UINT64)
            memcpy(&wide, at, sizeof wide);
        return wide <= INT64_MAX && !(dtype == STK_BOOL && *at > 1);
    }
    stk__convert(out_number, STK_FLOAT64, at, dtype, 1);
    return isfinite(*out_number) && !(*out_number == 0 && signbit(*out_number));
}

static bool put_number(stk__text *t, stk_dtype dtype, const uint8_t *at)
{
    bool real;
    int64_t integer;
    double number;
    if (!number_of(dtype, at, &real, &integer, &number))
        return false;
    if (real)
        stk__text_json_double(t, number);
    else if (dtype == STK_BOOL)
        stk__text_puts(t, integer ? "true" : "false");
    else
        stk__text_printf(t, "%lld", (long long)integer);
    return true;
}

static void put_dims(stk__text *t, const char *key, const int64_t *dims, int32_t ndim)
{
    stk__text_printf(t, ", \"%s\": [", key);
    for (int32_t d = 0; d < ndim; d++)
        stk__text_printf(t, "%s%lld", d ? ", " : "", (long long)dims[d]);
    stk__text_putc(t, ']');
}

/* ---- attributes ---- */

static void put_numbers(stk__text *t, const stk__h5_attribute *a, stk_dtype dtype)
{
    const size_t start = t->length;
    bool good = a->count <= MAX_LISTED;
    if (good)
        stk__text_puts(t, ", \"values\": [");
    for (int64_t i = 0; good && i < a->count; i++) {
        stk__text_puts(t, i ? ", " : "");
        good = put_number(t, dtype, a->data + (size_t)i * a->size);
    }
    if (good) {
        stk__text_putc(t, ']');
        return;
    }
    t->length = start;
    stk__text_puts(t, ", \"base64\": ");
    stk__json_put_base64(t, a->data, (size_t)a->count * a->size);
}

static void put_strings(stk__text *t, const stk__h5_attribute *a)
{
    if (a->size > 0)
        stk__text_printf(t, ", \"size\": %zu", a->size);
    if (a->utf8)
        stk__text_puts(t, ", \"utf8\": true");
    stk__text_puts(t, ", \"values\": [");
    for (int64_t i = 0; i < a->count; i++) {
        stk__text_puts(t, i ? ", " : "");
        stk__json_put_bytes(t, a->strings[i].data, (size_t)a->strings[i].size);
    }
    stk__text_putc(t, ']');
}

static void put_attribute(stk__text *t, const stk__h5_attribute *a, stk_dtype dtype)
{
    stk__text_puts(t, "{\"name\": ");
    put_name(t, a->name);
    stk__text_printf(t, ", \"dtype\": \"%s\"", dtype == STK_BYTES ? "string" : stk_dtype_name(dtype));
    put_dims(t, "shape", a->dims, a->ndim);
    if (a->big)
        stk__text_puts(t, ", \"big_endian\": true");
    if (dtype == STK_BYTES)
        put_strings(t, a);
    else
        put_numbers(t, a, dtype);
    stk__text_putc(t, '}');
}

/* Attributes of types that attributes cannot have here are left out. */
static void put_attributes(stk__text *t, const char *indent, const stk__h5_attribute *attributes, size_t count)
{
    bool first = true;
    stk__text_puts(t, "\"attributes\": [");
    for (size_t i = 0; i < count; i++) {
        const stk_dtype dtype = stk__schema_attribute_dtype(attributes[i].kind, attributes[i].size);
        if (dtype == STK_DTYPE_COUNT)
            continue;
        stk__text_printf(t, "%s\n%s", first ? "" : ",", indent);
        put_attribute(t, &attributes[i], dtype);
        first = false;
    }
    stk__text_putc(t, ']');
}

/* ---- fields ---- */

static void put_fill(stk__text *t, const stk__schema_entry *e)
{
    const size_t start = t->length;
    stk__text_puts(t, ", \"fill\": ");
    if (e->dtype != STK_BYTES && e->fill_size == stk_dtype_size(e->dtype) && put_number(t, e->dtype, e->fill))
        return;
    t->length = start;
    stk__text_puts(t, ", \"fill\": ");
    stk__json_put_base64(t, e->fill, e->fill_size);
}

static void put_filters(stk__text *t, const stk__schema_entry *e)
{
    stk__text_puts(t, ", \"filters\": [");
    for (size_t i = 0; i < e->filter_count; i++) {
        const stk__h5_filter *f = &e->filters[i];
        stk__text_printf(t, "%s{\"id\": %lu%s, \"values\": [", i ? ", " : "", (unsigned long)f->id,
                         f->optional ? ", \"optional\": true" : "");
        for (size_t k = 0; k < f->value_count; k++)
            stk__text_printf(t, "%s%lu", k ? ", " : "", (unsigned long)f->values[k]);
        stk__text_puts(t, "]}");
    }
    stk__text_putc(t, ']');
}

static void put_storage(stk__text *t, const stk__schema_entry *e)
{
    if (e->dataset) {
        stk__text_puts(t, ", \"dataset\": ");
        put_name(t, e->dataset);
    }
    if (e->kind)
        stk__text_printf(t, ", \"kind\": \"%s\"", stk__schema_kind_names[e->kind]);
    if (e->kind == STK__H5_KIND_STRING || e->kind == STK__H5_KIND_OPAQUE)
        stk__text_printf(t, ", \"size\": %zu", e->size);
    if (e->kind == STK__H5_KIND_STRING)
        stk__text_printf(t, ", \"pad\": \"%s\"", stk__schema_pad_names[e->pad]);
    if (e->utf8)
        stk__text_puts(t, ", \"utf8\": true");
    if (e->big_endian)
        stk__text_puts(t, ", \"big_endian\": true");
    if (e->fill)
        put_fill(t, e);
    if (e->chunk_ndim > 0)
        put_dims(t, "chunk", e->chunk, e->chunk_ndim);
    if (e->filter_count)
        put_filters(t, e);
}

static void put_entry(stk__text *t, const stk__schema_entry *e)
{
    stk__text_puts(t, "  {\"name\": ");
    put_name(t, e->name);
    stk__text_printf(t, ", \"dtype\": \"%s\"", stk_dtype_name(e->dtype));
    put_dims(t, "shape", e->shape, e->ndim);
    put_storage(t, e);
    if (e->attribute_count) {
        stk__text_puts(t, ",\n   ");
        put_attributes(t, "    ", e->attributes, e->attribute_count);
    }
    stk__text_putc(t, '}');
}

stk_status stk__schema_print(const stk__schema *s, stk__text *out, stk_error *err)
{
    const size_t start = out->length;
    if (s->count > STK__SCHEMA_MAX_FIELDS)
        return stk_error_set(err, STK_INVALID, "the schema has %zu fields, wanted at most %d", s->count,
                             STK__SCHEMA_MAX_FIELDS);
    stk__text_printf(out, "{\"stoker_schema\": %d,\n \"rows\": %lld,\n \"fields\": [", STK__SCHEMA_VERSION,
                     (long long)s->rows);
    for (size_t i = 0; i < s->count; i++) {
        stk__text_puts(out, i ? ",\n" : "\n");
        put_entry(out, &s->entries[i]);
    }
    stk__text_puts(out, "],\n ");
    put_attributes(out, "  ", s->attributes, s->attribute_count);
    stk__text_puts(out, "}\n");
    if (out->failed)
        return stk_error_set(err, STK_NOMEM, "out of memory: a schema could not grow past %zu bytes", out->length);
    if (out->length - start > STK__SCHEMA_MAX_BYTES)
        return stk_error_set(err, STK_INVALID, "the schema has %zu bytes, wanted at most %zu", out->length - start,
                             STK__SCHEMA_MAX_BYTES);
    return STK_OK;
}
