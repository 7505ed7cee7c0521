/* Strings and sequences of HDF5 rows: from what is stored to values of samples. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "kernels/shuffle.h"
#include "ops/hdf5_reader.h"

#include "base/banned.h"

static stk_status get_contents(const stk__h5_contents *c, const uint8_t *descriptor, size_t unit, const uint8_t **out,
                               size_t *out_size, stk_error *err)
{
    const stk__h5_source *s = c->call->state;
    const stk__h5_reader *r = c->call->worker;
    if (c->fd < 0)
        return stk__h5_inline_get(c->heap, c->heap_bytes, descriptor, unit, out, out_size, err);
    return stk__h5_heap_get(r->heap, s->indexes[c->file], c->fd, descriptor, unit, out, out_size, err);
}

/* One string or opaque value, as a view into `data` or on a copy of its contents. */
static stk_status string_value(const stk__h5_contents *c, const stk__h5_field *f, const stk__h5_leaf *leaf,
                               const uint8_t *data, stk_bytes *out, stk_error *err)
{
    const uint8_t *from = data;
    size_t size = leaf->size;
    if (leaf->kind == STK__H5_KIND_VLEN_STRING)
        STK_TRY(get_contents(c, data, 1, &from, &size, err));
    else if (leaf->kind == STK__H5_KIND_STRING)
        size = stk__h5_string_length(leaf, data);
    uint8_t *copy = f->ndim == 0 ? stk_bytes_block(c->call, f->id, size, err) : stk_scratch(c->call, size, err);
    if (!copy)
        return err->status;
    if (size)
        memcpy(copy, from, size);
    *out = (stk_bytes){copy, (int64_t)size};
    return STK_OK;
}

static stk_status make_strings(const stk__h5_contents *c, const stk__h5_field *f, const stk__h5_leaf *leaf,
                               const uint8_t *raw, stk_sample *sample, stk_error *err)
{
    if (f->ndim == 0) {
        stk_bytes one;
        STK_TRY(string_value(c, f, leaf, raw, &one, err));
        stk_set_bytes(c->call, sample, f->id, one.data, one.size, true);
        return STK_OK;
    }
    stk_bytes *views = stk_out(c->call, sample, f->id, NULL, err);
    if (!views)
        return err->status;
    const int64_t count = c->dataset->row_elements * leaf->count;
    for (int64_t i = 0; i < count; i++)
        STK_TRY(string_value(c, f, leaf, raw + (size_t)i * leaf->size, &views[i], err));
    return STK_OK;
}

static stk_status make_sequence(const stk__h5_contents *c, const stk__h5_field *f, const stk__h5_leaf *leaf,
                                const uint8_t *raw, stk_sample *sample, stk_error *err)
{
    const uint8_t *from;
    size_t size;
    STK_TRY(get_contents(c, raw, leaf->base_size, &from, &size, err));
    int64_t shape[STK_MAX_DIMS];
    memcpy(shape, f->shape, sizeof shape);
    shape[f->ndim - 1] = (int64_t)(size / leaf->base_size);
    uint8_t *out = stk_out(c->call, sample, f->id, shape, err);
    if (!out)
        return err->status;
    if (size)
        memcpy(out, from, size);
    if (leaf->base_swap)
        stk__swap_bytes(out, out, size / leaf->base_size, leaf->base_size);
    return STK_OK;
}

/* Values of variable length and strings for places [from, to), out of their raw form. */
void stk__h5_make_values(const stk__h5_contents *c, size_t field, const stk__h5_leaf *leaf, size_t from, size_t to)
{
    const stk__h5_source *s = c->call->state;
    stk__h5_reader *r = c->call->worker;
    const stk__h5_field *f = &s->fields[field];
    for (size_t i = from; i < to; i++) {
        const stk__h5_row_place *p = &r->places[i];
        const uint8_t *raw = stk__h5_outs(r, field)[p->sample];
        stk_error error;
        stk_error_clear(&error);
        if (r->errors[p->sample])
            continue;
        const stk_status status = leaf->kind == STK__H5_KIND_VLEN
                                      ? make_sequence(c, f, leaf, raw, r->samples[p->sample], &error)
                                      : make_strings(c, f, leaf, raw, r->samples[p->sample], &error);
        if (status == STK_OK)
            continue;
        snprintf(error.file, sizeof error.file, "%s", s->indexes[p->file]->path);
        snprintf(error.field, sizeof error.field, "%s", f->name);
        error.record = p->row;
        stk__error_prefix(&error, "dataset '%.200s': ", c->dataset->path);
        stk__h5_sample_failed(r, p->sample, &error);
    }
}
