/* Reads schemas from JSON, trusting nothing in it. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "formats/json_bytes.h"
#include "formats/schema.h"
#include "formats/schema_impl.h"
#include "kernels/convert.h"

#include "base/banned.h"

#define MAX_ELEMENTS ((int64_t)1 << 40)

/* What is being read, for errors. */
typedef struct place {
    const char *field;     /* NULL: none */
    const char *attribute; /* NULL: none */
    stk_error *err;
} place;

static stk_status wanted(const place *at, const char *key, const char *what)
{
    char attribute[160] = "";
    if (at->attribute)
        snprintf(attribute, sizeof attribute, "attribute '%.120s': ", at->attribute);
    stk_error_set(at->err, STK_CORRUPT, "%s\"%s\" is not there or wrong, wanted %s", attribute, key, what);
    if (at->err && at->field)
        snprintf(at->err->field, sizeof at->err->field, "%s", at->field);
    return STK_CORRUPT;
}

/* ---- values ---- */

static stk_status failed(stk_status status, const place *at, const char *key, const char *what)
{
    if (status == STK_INVALID)
        return wanted(at, key, what);
    return status == STK_NOMEM ? stk__nomem(STK__H5_MAX_NAME, at->err) : status;
}

static stk_status read_name(const json_t *object, const char *key, const place *at, char **out)
{
    uint8_t *data = NULL;
    size_t size = 0;
    stk_status status = stk__json_read_bytes(json_object_get(object, key), STK__H5_MAX_NAME, &data, &size);
    if (status == STK_OK && (size == 0 || strlen((char *)data) != size)) {
        stk__free(data);
        status = STK_INVALID;
    }
    STK_TRY(failed(status, at, key, "a name"));
    *out = (char *)data;
    return STK_OK;
}

/* Stores one JSON number as the bytes of a value; false when it does not fit. */
static bool read_number(const json_t *value, stk_dtype dtype, uint8_t *out)
{
    if (dtype == STK_BOOL) {
        *out = json_is_true(value);
        return json_is_boolean(value);
    }
    if (stk__schema_is_real(dtype)) {
        const double x = json_number_value(value);
        double back;
        if (!json_is_number(value))
            return false;
        stk__convert(out, dtype, &x, STK_FLOAT64, 1);
        stk__convert(&back, STK_FLOAT64, out, dtype, 1);
        return isfinite(back);
    }
    const int64_t x = json_integer_value(value);
    int64_t back = 0;
    if (!json_is_integer(value) || (dtype == STK_UINT64 && x < 0))
        return false;
    stk__convert(out, dtype, &x, STK_INT64, 1);
    stk__convert(&back, STK_INT64, out, dtype, 1);
    return back == x;
}

/* A list of numbers; the count must lie in 0..max. */
static bool read_integers(const json_t *list, int64_t min, int64_t max, size_t most, int64_t *out, size_t *out_count)
{
    const size_t count = json_array_size(list);
    if (!json_is_array(list) || count > most)
        return false;
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(list, i);
        out[i] = json_integer_value(item);
        if (!json_is_integer(item) || out[i] < min || out[i] > max)
            return false;
    }
    *out_count = count;
    return true;
}

static bool read_dtype(const json_t *value, stk_dtype *out)
{
    const char *name = json_string_value(value);
    for (int i = 0; name && i < STK_DTYPE_COUNT; i++) {
        if (strcmp(stk_dtype_name((stk_dtype)i), name) == 0) {
            *out = (stk_dtype)i;
            return true;
        }
    }
    return false;
}

/* The number of a word; -1 when it is none of them. */
static int read_word(const json_t *value, const char *const *names, int count)
{
    const char *word = json_string_value(value);
    for (int i = 0; word && i < count; i++)
        if (names[i] && strcmp(names[i], word) == 0)
            return i;
    return -1;
}

/* Missing is false. */
static stk_status read_flag(const json_t *object, const char *key, const place *at, bool *out)
{
    const json_t *value = json_object_get(object, key);
    *out = json_is_true(value);
    return !value || json_is_boolean(value) ? STK_OK : wanted(at, key, "true or false");
}

/* ---- attributes ---- */

static stk_status read_strings(const json_t *object, const place *at, stk__h5_attribute *a)
{
    const json_t *values = json_object_get(object, "values"), *size = json_object_get(object, "size");
    STK_TRY(read_flag(object, "utf8", at, &a->utf8));
    if (size && (!json_is_integer(size) || json_integer_value(size) < 0 ||
                 json_integer_value(size) > STK__H5_MAX_ATTRIBUTE_BYTES))
        return wanted(at, "size", "a number of bytes");
    a->size = (size_t)json_integer_value(size);
    if (!json_is_array(values) || json_array_size(values) != (size_t)a->count)
        return wanted(at, "values", "as many strings as the shape says");
    a->strings = stk__calloc((size_t)a->count, sizeof *a->strings);
    if (!a->strings)
        return stk__nomem((size_t)a->count * sizeof *a->strings, at->err);
    for (int64_t i = 0; i < a->count; i++) {
        uint8_t *data = NULL;
        size_t length = 0;
        STK_TRY(failed(stk__json_read_bytes(json_array_get(values, (size_t)i), STK__H5_MAX_ATTRIBUTE_BYTES, &data, &length), at,
                       "values", "strings"));
        a->strings[i] = (stk_bytes){data, (int64_t)length};
    }
    return STK_OK;
}

static stk_status read_numbers(const json_t *object, const place *at, stk_dtype dtype, stk__h5_attribute *a)
{
    const json_t *values = json_object_get(object, "values"), *base64 = json_object_get(object, "base64");
    const size_t bytes = (size_t)a->count * a->size;
    if (base64) {
        size_t size = 0;
        STK_TRY(failed(stk__json_read_base64(base64, bytes, &a->data, &size), at, "base64", "base64 of all values"));
        return size == bytes ? STK_OK : wanted(at, "base64", "base64 of as many values as the shape says");
    }
    if (!json_is_array(values) || json_array_size(values) != (size_t)a->count)
        return wanted(at, "values", "as many numbers as the shape says");
    a->data = stk__calloc(bytes + 1, 1);
    if (!a->data)
        return stk__nomem(bytes, at->err);
    for (int64_t i = 0; i < a->count; i++)
        if (!read_number(json_array_get(values, (size_t)i), dtype, a->data + (size_t)i * a->size))
            return wanted(at, "values", "numbers of the attribute's dtype");
    return STK_OK;
}

static stk_status read_attribute(const json_t *object, const place *outer, stk__h5_attribute *a)
{
    place at = *outer;
    STK_TRY(read_name(object, "name", &at, &a->name));
    at.attribute = a->name;
    stk_dtype dtype = STK_BYTES;
    const json_t *type = json_object_get(object, "dtype");
    const bool string = json_is_string(type) && strcmp(json_string_value(type), "string") == 0;
    if (!string && (!read_dtype(type, &dtype) || dtype == STK_BYTES))
        return wanted(&at, "dtype", "a type of numbers or string");
    a->kind = string ? STK__H5_KIND_STRING : stk__schema_kind(dtype);
    a->size = string ? 0 : stk_dtype_size(dtype);
    size_t ndim = 0;
    if (!read_integers(json_object_get(object, "shape"), 0, STK__H5_MAX_ATTRIBUTE_BYTES, STK__H5_MAX_RANK, a->dims,
                       &ndim))
        return wanted(&at, "shape", "a list of dimensions");
    a->ndim = (int32_t)ndim;
    a->count = 1;
    for (size_t d = 0; d < ndim; d++)
        if (__builtin_mul_overflow(a->count, a->dims[d], &a->count) || a->count > STK__H5_MAX_ATTRIBUTE_BYTES)
            return wanted(&at, "shape", "a shape of fewer values");
    STK_TRY(read_flag(object, "big_endian", &at, &a->big));
    return string ? read_strings(object, &at, a) : read_numbers(object, &at, dtype, a);
}

static stk_status read_attributes(const json_t *object, const place *at, stk__h5_attribute **out, size_t *out_count)
{
    const json_t *list = json_object_get(object, "attributes");
    const size_t count = json_array_size(list);
    if (!list)
        return STK_OK;
    if (!json_is_array(list))
        return wanted(at, "attributes", "a list");
    *out = stk__calloc(count, sizeof **out);
    if (!*out)
        return stk__nomem(count * sizeof **out, at->err);
    for (size_t i = 0; i < count; i++) {
        ++*out_count; /* one that is half read is cleared too */
        STK_TRY(read_attribute(json_array_get(list, i), at, &(*out)[i]));
    }
    return STK_OK;
}

/* ---- fields ---- */

static stk_status read_shape(const json_t *object, const place *at, stk__schema_entry *e)
{
    size_t ndim = 0;
    if (!read_integers(json_object_get(object, "shape"), -1, MAX_ELEMENTS, STK_MAX_DIMS, e->shape, &ndim))
        return wanted(at, "shape", "a list of at most 6 dimensions, -1 for one that varies");
    e->ndim = (int32_t)ndim;
    int64_t elements = 1;
    for (size_t d = 0; d < ndim; d++)
        if (e->shape[d] > 0 && (__builtin_mul_overflow(elements, e->shape[d], &elements) || elements > MAX_ELEMENTS))
            return wanted(at, "shape", "a shape of at most 2^40 values");
    return STK_OK;
}

static stk_status read_kind(const json_t *object, const place *at, stk__schema_entry *e)
{
    const json_t *kind = json_object_get(object, "kind"), *pad = json_object_get(object, "pad");
    STK_TRY(read_flag(object, "big_endian", at, &e->big_endian));
    STK_TRY(read_flag(object, "utf8", at, &e->utf8));
    if (!kind)
        return STK_OK;
    e->kind = read_word(kind, stk__schema_kind_names, STK__SCHEMA_KINDS);
    if (e->kind < 0 || (e->kind == STK__H5_KIND_VLEN) == (e->dtype == STK_BYTES))
        return wanted(at, "kind", "string, opaque or vlen_string for bytes, vlen for numbers");
    if (e->kind == STK__H5_KIND_STRING && (e->pad = read_word(pad, stk__schema_pad_names, STK__SCHEMA_PADS)) < 0)
        return wanted(at, "pad", "null_terminated, null or space");
    if (e->kind != STK__H5_KIND_STRING && e->kind != STK__H5_KIND_OPAQUE)
        return STK_OK;
    const json_t *size = json_object_get(object, "size");
    if (!json_is_integer(size) || json_integer_value(size) < 1 || json_integer_value(size) > STK__H5_MAX_ELEMENT_BYTES)
        return wanted(at, "size", "the bytes of a value");
    e->size = (size_t)json_integer_value(size);
    return STK_OK;
}

/* One value: a number, or base64 of its little-endian bytes. */
static stk_status read_fill(const json_t *object, const place *at, stk__schema_entry *e)
{
    const json_t *fill = json_object_get(object, "fill");
    const size_t bytes = e->dtype == STK_BYTES ? e->size : stk_dtype_size(e->dtype);
    if (!fill)
        return STK_OK;
    if (bytes == 0 || e->kind == STK__H5_KIND_VLEN)
        return wanted(at, "fill", "none for values of variable length");
    if (json_is_string(fill)) {
        STK_TRY(failed(stk__json_read_base64(fill, bytes, &e->fill, &e->fill_size), at, "fill", "a number or base64 of a value"));
        return e->fill_size == bytes ? STK_OK : wanted(at, "fill", "base64 of one whole value");
    }
    e->fill = stk__calloc(1, bytes);
    e->fill_size = bytes;
    if (!e->fill)
        return stk__nomem(bytes, at->err);
    if (e->dtype == STK_BYTES || !read_number(fill, e->dtype, e->fill))
        return wanted(at, "fill", "a number of the field's dtype");
    return STK_OK;
}

static stk_status read_filter(const json_t *object, const place *at, stk__h5_filter *f)
{
    const json_t *id = json_object_get(object, "id"), *list = json_object_get(object, "values");
    const size_t count = json_array_size(list);
    STK_TRY(read_flag(object, "optional", at, &f->optional));
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > UINT16_MAX)
        return wanted(at, "filters", "filters with an id");
    f->id = (uint32_t)json_integer_value(id);
    if (!json_is_array(list) || count > STK__H5_FILTER_VALUES_MAX)
        return wanted(at, "filters", "filters with a list of values");
    uint32_t *values = stk__calloc(count, sizeof *values);
    if (!values)
        return stk__nomem(count * sizeof *values, at->err);
    f->values = values;
    f->value_count = count;
    for (size_t i = 0; i < count; i++) {
        const json_int_t x = json_integer_value(json_array_get(list, i));
        if (!json_is_integer(json_array_get(list, i)) || x < 0 || x > UINT32_MAX)
            return wanted(at, "filters", "values in 0..4294967295");
        values[i] = (uint32_t)x;
    }
    return STK_OK;
}

static stk_status read_filters(const json_t *object, const place *at, stk__schema_entry *e)
{
    const json_t *list = json_object_get(object, "filters");
    const size_t count = json_array_size(list);
    if (!list)
        return STK_OK;
    if (!json_is_array(list) || count > STK__H5_FILTERS_MAX)
        return wanted(at, "filters", "a list of at most 32 filters");
    e->filters = stk__calloc(count, sizeof *e->filters);
    if (!e->filters)
        return stk__nomem(count * sizeof *e->filters, at->err);
    for (size_t i = 0; i < count; i++) {
        e->filter_count++;
        STK_TRY(read_filter(json_array_get(list, i), at, &e->filters[i]));
    }
    return STK_OK;
}

static stk_status read_chunk(const json_t *object, const place *at, stk__schema_entry *e)
{
    const json_t *chunk = json_object_get(object, "chunk");
    size_t ndim = 0;
    if (!chunk)
        return STK_OK;
    if (!read_integers(chunk, 1, UINT32_MAX, STK__H5_MAX_RANK, e->chunk, &ndim))
        return wanted(at, "chunk", "a list of at most 32 dimensions of at least 1");
    e->chunk_ndim = (int32_t)ndim;
    return STK_OK;
}

static stk_status read_entry(const json_t *object, stk__schema *s, stk__schema_entry *e, stk_error *err)
{
    place at = {.err = err};
    STK_TRY(read_name(object, "name", &at, &e->name));
    at.field = e->name;
    for (const stk__schema_entry *other = s->entries; other != e; other++)
        if (strcmp(other->name, e->name) == 0)
            return wanted(&at, "name", "a name that no other field has");
    if (!read_dtype(json_object_get(object, "dtype"), &e->dtype))
        return wanted(&at, "dtype", "a type such as float32, int64 or bytes");
    if (json_object_get(object, "dataset"))
        STK_TRY(read_name(object, "dataset", &at, &e->dataset));
    STK_TRY(read_shape(object, &at, e));
    STK_TRY(read_kind(object, &at, e));
    STK_TRY(read_fill(object, &at, e));
    STK_TRY(read_chunk(object, &at, e));
    STK_TRY(read_filters(object, &at, e));
    return read_attributes(object, &at, &e->attributes, &e->attribute_count);
}

static stk_status read_entries(const json_t *list, stk__schema *s, stk_error *err)
{
    const place at = {.err = err};
    const size_t count = json_array_size(list);
    if (!json_is_array(list) || count > STK__SCHEMA_MAX_FIELDS)
        return wanted(&at, "fields", "a list of at most 16384 fields");
    if (!stk__grow((void **)&s->entries, &s->capacity, count, sizeof *s->entries))
        return stk__nomem(count * sizeof *s->entries, err);
    for (size_t i = 0; i < count; i++) {
        s->entries[i] = (stk__schema_entry){0};
        s->count++;
        STK_TRY(read_entry(json_array_get(list, i), s, &s->entries[i], err));
    }
    return STK_OK;
}

static stk_status read_schema(const json_t *root, stk__schema *s, stk_error *err)
{
    const place at = {.err = err};
    const json_t *version = json_object_get(root, "stoker_schema"), *rows = json_object_get(root, "rows");
    if (!json_is_integer(version))
        return wanted(&at, "stoker_schema", "a schema as write_tfrecord writes it");
    if (json_integer_value(version) != STK__SCHEMA_VERSION)
        return stk_error_set(err, STK_UNSUPPORTED, "the schema has version %lld, wanted %d",
                             (long long)json_integer_value(version), STK__SCHEMA_VERSION);
    if (rows && (!json_is_integer(rows) || json_integer_value(rows) < 0))
        return wanted(&at, "rows", "a number of samples");
    s->rows = json_integer_value(rows);
    STK_TRY(read_entries(json_object_get(root, "fields"), s, err));
    return read_attributes(root, &at, &s->attributes, &s->attribute_count);
}

stk_status stk__schema_parse(const char *text, size_t size, stk__schema *out, stk_error *err)
{
    json_error_t why;
    *out = (stk__schema){0};
    if (size > STK__SCHEMA_MAX_BYTES)
        return stk_error_set(err, STK_CORRUPT, "the schema has %zu bytes, wanted at most %zu", size,
                             STK__SCHEMA_MAX_BYTES);
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return stk_error_set(err, STK_CORRUPT, "no schema: line %d, column %d: %s", why.line, why.column, why.text);
    const stk_status status = read_schema(root, out, err);
    json_decref(root);
    if (status != STK_OK)
        stk__schema_clear(out);
    return status;
}

stk_status stk__schema_load(const char *path, stk__schema *out, stk_error *err)
{
    char *text;
    size_t size;
    *out = (stk__schema){0};
    STK_TRY(stk__read_file(path, STK__SCHEMA_MAX_BYTES, &text, &size, err));
    const stk_status status = stk__schema_parse(text, size, out, err);
    stk__free(text);
    if (status != STK_OK && err)
        snprintf(err->file, sizeof err->file, "%s", path);
    return status;
}
