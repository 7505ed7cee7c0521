/* Schemas in memory: made field by field, from samples or from HDF5 datasets. */
#include "formats/schema.h"

#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

static const struct {
    int kind;
    size_t size;
    stk_dtype dtype;
} number_kinds[] = {
    {STK__H5_KIND_BOOL, 1, STK_BOOL},     {STK__H5_KIND_UINT, 1, STK_UINT8},      {STK__H5_KIND_INT, 1, STK_INT8},
    {STK__H5_KIND_UINT, 2, STK_UINT16},   {STK__H5_KIND_INT, 2, STK_INT16},       {STK__H5_KIND_UINT, 4, STK_UINT32},
    {STK__H5_KIND_INT, 4, STK_INT32},     {STK__H5_KIND_UINT, 8, STK_UINT64},     {STK__H5_KIND_INT, 8, STK_INT64},
    {STK__H5_KIND_FLOAT, 2, STK_FLOAT16}, {STK__H5_KIND_BFLOAT, 2, STK_BFLOAT16}, {STK__H5_KIND_FLOAT, 4, STK_FLOAT32},
    {STK__H5_KIND_FLOAT, 8, STK_FLOAT64},
};

stk_dtype stk__schema_attribute_dtype(int kind, size_t size)
{
    if (kind == STK__H5_KIND_STRING)
        return STK_BYTES;
    for (size_t i = 0; i < STK_COUNT(number_kinds); i++)
        if (number_kinds[i].kind == kind && number_kinds[i].size == size)
            return number_kinds[i].dtype;
    return STK_DTYPE_COUNT;
}

int stk__schema_kind(stk_dtype dtype)
{
    for (size_t i = 0; i < STK_COUNT(number_kinds); i++)
        if (number_kinds[i].dtype == dtype)
            return number_kinds[i].kind;
    return 0;
}

/* ---- freeing ---- */

static void clear_attributes(stk__h5_attribute **attributes, size_t *count)
{
    for (size_t i = 0; i < *count; i++) {
        stk__h5_attribute *a = &(*attributes)[i];
        for (int64_t k = 0; a->strings && k < a->count; k++)
            stk__free((void *)(uintptr_t)a->strings[k].data);
        stk__free(a->strings);
        stk__free(a->data);
        stk__free(a->name);
    }
    stk__free(*attributes);
    *attributes = NULL;
    *count = 0;
}

static void clear_filters(stk__schema_entry *e)
{
    for (size_t i = 0; i < e->filter_count; i++)
        stk__free((void *)(uintptr_t)e->filters[i].values);
    stk__free(e->filters);
}

void stk__schema_clear(stk__schema *s)
{
    for (size_t i = 0; i < s->count; i++) {
        stk__schema_entry *e = &s->entries[i];
        clear_attributes(&e->attributes, &e->attribute_count);
        clear_filters(e);
        stk__free(e->fill);
        stk__free(e->dataset);
        stk__free(e->name);
    }
    stk__free(s->entries);
    clear_attributes(&s->attributes, &s->attribute_count);
    *s = (stk__schema){0};
}

const stk__schema_entry *stk__schema_find(const stk__schema *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->entries[i].name, name) == 0)
            return &s->entries[i];
    return NULL;
}

/* ---- copying ---- */

static uint8_t *copy_bytes(const uint8_t *data, size_t size)
{
    uint8_t *copy = stk__alloc(size + 1);
    if (!copy)
        return NULL;
    if (size)
        memcpy(copy, data, size);
    copy[size] = 0;
    return copy;
}

static bool copy_strings(stk__h5_attribute *to, const stk__h5_attribute *from)
{
    to->strings = stk__calloc((size_t)from->count, sizeof *to->strings);
    for (int64_t i = 0; to->strings && i < from->count; i++) {
        to->strings[i].size = from->strings[i].size;
        to->strings[i].data = copy_bytes(from->strings[i].data, (size_t)from->strings[i].size);
        if (!to->strings[i].data)
            return false;
    }
    return to->strings != NULL;
}

/* On failure what is there so far can be cleared. */
static bool copy_attributes(stk__h5_attribute **out, size_t *out_count, const stk__h5_attribute *from, size_t count)
{
    *out = stk__calloc(count, sizeof **out);
    if (!*out)
        return false;
    for (; *out_count < count; ++*out_count) {
        stk__h5_attribute *a = &(*out)[*out_count];
        const stk__h5_attribute *f = &from[*out_count];
        *a = *f;
        a->strings = NULL;
        a->data = NULL;
        a->name = stk__strdup(f->name);
        const bool good = a->name && (f->strings ? copy_strings(a, f)
                                                 : (a->data = copy_bytes(f->data, (size_t)f->count * f->size)) != NULL);
        if (!good) {
            ++*out_count;
            return false;
        }
    }
    return true;
}

static bool copy_filters(stk__schema_entry *e, const stk__h5_filter *filters, size_t count)
{
    e->filters = stk__calloc(count, sizeof *e->filters);
    if (!e->filters)
        return false;
    for (size_t i = 0; i < count; i++) {
        uint32_t *values = stk__calloc(filters[i].value_count, sizeof *values);
        if (!values)
            return false;
        if (filters[i].value_count)
            memcpy(values, filters[i].values, filters[i].value_count * sizeof *values);
        e->filters[e->filter_count] = filters[i];
        e->filters[e->filter_count++].values = values;
    }
    return true;
}

static bool copy_text(char **out, const char *text)
{
    *out = text ? stk__strdup(text) : NULL;
    return *out || !text;
}

/* ---- making ---- */

static stk__schema_entry *new_entry(stk__schema *s, const char *name, stk_dtype dtype, int32_t ndim,
                                    const int64_t *shape)
{
    if (!stk__grow((void **)&s->entries, &s->capacity, s->count + 1, sizeof *s->entries))
        return NULL;
    stk__schema_entry *e = &s->entries[s->count];
    *e = (stk__schema_entry){.name = stk__strdup(name), .dtype = dtype, .ndim = ndim};
    if (!e->name)
        return NULL;
    if (ndim > 0)
        memcpy(e->shape, shape, sizeof *shape * (size_t)ndim);
    s->count++;
    return e;
}

static bool is_same(const stk__schema_entry *a, const stk__schema_entry *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, sizeof *a->shape * (size_t)a->ndim) == 0;
}

/* How it is stored; only where the values are still the same kind of thing. */
static bool copy_storage(stk__schema_entry *e, const stk__schema_entry *from)
{
    e->kind = from->kind;
    e->size = from->size;
    e->pad = from->pad;
    e->utf8 = from->utf8;
    e->big_endian = from->big_endian;
    e->chunk_ndim = from->chunk_ndim;
    memcpy(e->chunk, from->chunk, sizeof e->chunk);
    e->fill_size = from->fill_size;
    if (from->fill && !(e->fill = copy_bytes(from->fill, from->fill_size)))
        return false;
    return copy_filters(e, from->filters, from->filter_count);
}

stk_status stk__schema_add(stk__schema *s, const char *name, stk_dtype dtype, int32_t ndim, const int64_t *shape,
                           const stk__schema *origin, stk_error *err)
{
    stk__schema_entry *e = new_entry(s, name, dtype, ndim, shape);
    const stk__schema_entry *from = e && origin ? stk__schema_find(origin, name) : NULL;
    bool good = e != NULL;
    if (from)
        good = copy_text(&e->dataset, from->dataset) &&
               copy_attributes(&e->attributes, &e->attribute_count, from->attributes, from->attribute_count) &&
               (!is_same(e, from) || copy_storage(e, from));
    return good ? STK_OK : stk__nomem(sizeof *e, err);
}

static bool leaf_path(stk__schema_entry *e, const stk__h5_dataset *d, const stk__h5_leaf *leaf)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, d->path);
    if (leaf->path && *leaf->path)
        stk__text_printf(&t, "/%s", leaf->path);
    const bool good = !t.failed && t.data && (e->dataset = stk__strdup(t.data)) != NULL;
    stk__text_clear(&t);
    return good;
}

/* The fill value of elements of several values, or of values that lie in a heap, has no single value to tell. */
static bool leaf_fill(stk__schema_entry *e, const stk__h5_dataset *d, const stk__h5_leaf *leaf)
{
    const bool heap = leaf->kind == STK__H5_KIND_VLEN || leaf->kind == STK__H5_KIND_VLEN_STRING;
    if (!d->has_fill || heap || leaf->count != 1)
        return true;
    e->fill_size = leaf->size;
    e->fill = copy_bytes(d->fill + leaf->offset, leaf->size);
    for (size_t i = 0; e->fill && leaf->swap && i < leaf->size / 2; i++) {
        const uint8_t byte = e->fill[i];
        e->fill[i] = e->fill[leaf->size - 1 - i];
        e->fill[leaf->size - 1 - i] = byte;
    }
    return e->fill != NULL;
}

static void leaf_kind(stk__schema_entry *e, const stk__h5_leaf *leaf)
{
    const bool vlen = leaf->kind == STK__H5_KIND_VLEN;
    e->big_endian = vlen ? leaf->base_swap : leaf->swap;
    if (leaf->dtype == STK_BYTES || vlen)
        e->kind = leaf->kind;
    if (leaf->kind == STK__H5_KIND_STRING || leaf->kind == STK__H5_KIND_OPAQUE)
        e->size = leaf->size;
    if (leaf->kind == STK__H5_KIND_STRING)
        e->pad = leaf->pad;
    e->utf8 = leaf->utf8;
}

stk_status stk__schema_add_leaf(stk__schema *s, const char *name, int32_t ndim, const int64_t *shape,
                                const stk__h5_dataset *d, const stk__h5_leaf *leaf, stk_error *err)
{
    stk__schema_entry *e = new_entry(s, name, leaf->dtype, ndim, shape);
    if (!e)
        return stk__nomem(sizeof *e, err);
    leaf_kind(e, leaf);
    if (d->layout == STK__H5_LAYOUT_CHUNKED) {
        e->chunk_ndim = d->rank;
        memcpy(e->chunk, d->chunk_dims, sizeof *e->chunk * (size_t)d->rank);
    }
    if (!leaf_path(e, d, leaf) || !leaf_fill(e, d, leaf) || !copy_filters(e, d->filters, d->filter_count) ||
        !copy_attributes(&e->attributes, &e->attribute_count, d->attributes, d->attribute_count))
        return stk__nomem(sizeof *e, err);
    return STK_OK;
}

stk_status stk__schema_set_attributes(stk__schema *s, const stk__h5_attribute *attributes, size_t count, stk_error *err)
{
    clear_attributes(&s->attributes, &s->attribute_count);
    return copy_attributes(&s->attributes, &s->attribute_count, attributes, count)
               ? STK_OK
               : stk__nomem(count * sizeof *attributes, err);
}

/* ---- names ---- */

/* Up to the first number of a shard, or without the last ending; "%%" is a percent sign. */
static void put_stem(stk__text *t, const char *pattern)
{
    const char *p = pattern;
    for (; *p && !(p[0] == '%' && p[1] != '%'); p++) {
        stk__text_putc(t, *p);
        p += *p == '%';
    }
    if (*p || !t->data)
        return;
    const char *slash = strrchr(t->data, '/'), *dot = strrchr(t->data, '.');
    const char *base = slash ? slash + 1 : t->data;
    if (dot && dot > base)
        t->length = (size_t)(dot - t->data);
}

void stk__schema_path(stk__text *t, const char *pattern)
{
    stk__text stem = STK__TEXT_INIT;
    put_stem(&stem, pattern);
    while (stem.length > 0 && strchr("-_.", stem.data[stem.length - 1]))
        stem.length--;
    stk__text_write(t, stem.data, stem.length);
    /* Shards that are numbers alone leave no name. */
    if (stem.length == 0 || stem.data[stem.length - 1] == '/')
        stk__text_puts(t, "data");
    stk__text_puts(t, STK__SCHEMA_ENDING);
    t->failed = t->failed || stem.failed;
    stk__text_clear(&stem);
}

bool stk__schema_is_path(const char *path)
{
    const size_t size = strlen(path), ending = strlen(STK__SCHEMA_ENDING);
    return size > ending && strcmp(path + size - ending, STK__SCHEMA_ENDING) == 0;
}
