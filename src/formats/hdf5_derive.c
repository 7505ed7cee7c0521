/* Checks what a description says of one dataset, and works out how its rows are reached. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "formats/hdf5_index.h"

#include "base/banned.h"

/* Decoded chunks beyond this are left to libhdf5. */
#define CHUNK_BYTES_MAX ((uint64_t)2 << 30)
/* What is not chunked comes in blocks of about this size; what libhdf5 reads, in blocks of at most that one. */
enum { BLOCK_BYTES = 1 << 20, LIBRARY_BYTES = 256 << 20, ENTRY_BYTES = 32, LIBRARY_DESCRIPTOR = 16 };
/* Of descriptors of variable length that libhdf5 reads: their contents come with them, and may be much larger. */
enum { VLEN_BYTES = 16 << 10 };

/* What the steps share. */
typedef struct deriving {
    stk__h5_file *file;
    stk__h5_draft *draft;
    stk__h5_dataset *d;
    int64_t size_bytes; /* of the file */
    uint64_t total;     /* bytes of all values */
    uint64_t places;    /* in the grid */
    stk_error *err;
} deriving;

/*
 * False when the product leaves int64_t. A factor of 0 counts as 1 there, so that no part of a product that passed
 * overflows.
 */
static bool times(uint64_t *product, uint64_t factor, bool *empty)
{
    if (!factor)
        *empty = true;
    return !__builtin_mul_overflow(*product, factor ? factor : 1, product) && *product <= INT64_MAX;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

static size_t window_size(stk__wire w)
{
    return (size_t)(w.end - w.p);
}

static uint8_t *keep_copy(const deriving *g, const void *data, size_t size)
{
    uint8_t *copy = stk__h5_keep(g->file, size, g->err);
    if (copy && size)
        memcpy(copy, data, size);
    return copy;
}

/* ---- reasons ---- */

static bool is_vlen(const stk__h5_leaf *leaf)
{
    return leaf->kind == STK__H5_KIND_VLEN || leaf->kind == STK__H5_KIND_VLEN_STRING;
}

/* Leaves the dataset to libhdf5. The helper's own reason stays. */
static stk_status by_library(const deriving *g, const char *why)
{
    stk__h5_dataset *d = g->d;
    d->way = STK__H5_BY_LIBRARY;
    if (!d->why && !(d->why = (char *)keep_copy(g, why, strlen(why) + 1)))
        return STK_NOMEM;
    /* It hands out descriptors of its own, which must not be larger than those that were announced. */
    for (size_t i = 0; i < d->leaf_count; i++) {
        if (is_vlen(&d->leaves[i]) && d->leaves[i].size != LIBRARY_DESCRIPTOR)
            d->leaf_count = 0;
    }
    return STK_OK;
}

/* Nothing can be made of it at all. */
static stk_status unusable(const deriving *g, const char *why)
{
    g->d->leaf_count = 0;
    return by_library(g, why);
}

/* ---- shape and elements ---- */

static stk_status check_shape(const deriving *g)
{
    stk__h5_dataset *d = g->d;
    const stk__h5_draft *draft = g->draft;
    if (draft->max_rank && draft->max_rank != d->rank)
        return stk__h5_corrupt(d->path, g->err, "it has %d dimensions and %d largest ones", d->rank, draft->max_rank);
    for (int32_t i = 0; i < d->rank; i++) {
        if (!draft->max_rank)
            d->max_dims[i] = (uint64_t)d->dims[i];
        if (d->max_dims[i] < (uint64_t)d->dims[i])
            return stk__h5_corrupt(d->path, g->err, "dimension %d is %lld, at most %llu are allowed", i,
                                   (long long)d->dims[i], (unsigned long long)d->max_dims[i]);
    }
    return STK_OK;
}

/* Values of a leaf lie apart from each other and inside the element. */
static stk_status check_leaf(const deriving *g, stk__h5_leaf *leaf)
{
    const stk__h5_dataset *d = g->d;
    const size_t descriptor = d->why ? LIBRARY_DESCRIPTOR : 8 + (size_t)g->file->offset_size;
    if (is_vlen(leaf) && leaf->size != descriptor)
        return stk__h5_corrupt(d->path, g->err, "member '%.100s' has descriptors of %zu bytes, wanted %zu", leaf->path,
                               leaf->size, descriptor);
    uint64_t extent = leaf->size;
    leaf->count = 1;
    for (int32_t i = leaf->ndim - 1; i >= 0; i--) {
        const uint64_t dim = (uint64_t)leaf->dims[i], stride = (uint64_t)leaf->strides[i];
        if (!dim || stride < extent || dim > d->element_bytes || stride > d->element_bytes)
            return stk__h5_corrupt(d->path, g->err, "member '%.100s' has %llu values of %llu bytes every %llu bytes",
                                   leaf->path, (unsigned long long)dim, (unsigned long long)extent,
                                   (unsigned long long)stride);
        extent += (dim - 1) * stride; /* both below 2^27, and the extent is checked each time */
        if (extent > d->element_bytes)
            break;
        leaf->count *= (int64_t)dim;
    }
    if (extent > d->element_bytes || leaf->offset > d->element_bytes - extent)
        return stk__h5_corrupt(d->path, g->err, "member '%.100s' takes %llu bytes at %zu, an element has %zu",
                               leaf->path, (unsigned long long)extent, leaf->offset, d->element_bytes);
    leaf->whole = d->leaf_count == 1 && (uint64_t)leaf->count * leaf->size == d->element_bytes;
    return STK_OK;
}

static stk_status check_element(const deriving *g)
{
    stk__h5_dataset *d = g->d;
    if (!d->leaf_count && !d->why)
        return stk__h5_corrupt(d->path, g->err, "it has no members and no reason is given");
    if (d->leaf_count && !d->element_bytes)
        return stk__h5_corrupt(d->path, g->err, "its elements have no bytes");
    for (size_t i = 0; i < d->leaf_count; i++)
        STK_TRY(check_leaf(g, &d->leaves[i]));
    const size_t size = window_size(g->draft->fill);
    if (size && size != d->element_bytes && !d->why)
        return stk__h5_corrupt(d->path, g->err, "its fill value has %zu bytes, an element has %zu", size,
                               d->element_bytes);
    if (size && size == d->element_bytes)
        d->fill = keep_copy(g, g->draft->fill.p, size);
    else
        d->fill = stk__h5_zeros(g->file, d->element_bytes, g->err);
    return d->fill ? STK_OK : STK_NOMEM;
}

/* Rows and their sizes. */
static stk_status measure(deriving *g)
{
    stk__h5_dataset *d = g->d;
    uint64_t elements = 1;
    bool fits = true, no_elements = false, nothing;
    d->rows = d->rank ? d->dims[0] : 1;
    for (int32_t i = 1; i < d->rank; i++)
        fits = fits && times(&elements, (uint64_t)d->dims[i], &no_elements);
    uint64_t bytes = elements;
    nothing = no_elements;
    fits = fits && times(&bytes, d->element_bytes, &nothing);
    g->total = bytes;
    const bool empty_rows = nothing;
    fits = fits && times(&g->total, (uint64_t)d->rows, &nothing) && bytes <= SIZE_MAX;
    if (nothing || !fits)
        g->total = 0;
    if (!fits)
        return unusable(g, "its values would take more than 2^63 bytes");
    d->row_elements = no_elements ? 0 : (int64_t)elements;
    d->row_bytes = empty_rows ? 0 : (size_t)bytes;
    return STK_OK;
}

/* ---- layouts ---- */

static bool is_chunked(const deriving *g)
{
    return g->d->layout == STK__H5_LAYOUT_CHUNKED && g->draft->chunk_rank == g->d->rank && g->d->rank > 0;
}

/* The grid of chunks, their size, and how many there could be. */
static stk_status measure_chunks(deriving *g)
{
    stk__h5_dataset *d = g->d;
    uint64_t elements = 1, places = 1;
    bool fits = true, few = true, none = false;
    for (int32_t i = d->rank - 1; i >= 0; i--) {
        if (d->chunk_dims[i] < 1)
            return stk__h5_corrupt(d->path, g->err, "dimension %d of its chunks is 0", i);
        if (i == 0)
            d->across = few && !none ? (int64_t)places : 0;
        d->grid[i] = ceil_div(d->dims[i], d->chunk_dims[i]);
        few = few && times(&places, (uint64_t)d->grid[i], &none);
        fits = fits && times(&elements, (uint64_t)d->chunk_dims[i], &none);
    }
    uint64_t bytes = elements;
    fits = fits && times(&bytes, d->element_bytes, &none) && bytes <= SIZE_MAX;
    if (fits) {
        d->chunk_elements = (size_t)elements;
        d->chunk_bytes = (size_t)bytes;
    }
    g->places = few && !none ? places : 0;
    if (!few)
        return unusable(g, "it could have more than 2^63 chunks");
    if (!fits || bytes > CHUNK_BYTES_MAX)
        return by_library(g, "its chunks have more than 2 GiB");
    return STK_OK;
}

static bool holds_whole_rows(const stk__h5_dataset *d)
{
    for (int32_t i = 1; i < d->rank; i++) {
        if (d->chunk_dims[i] != d->dims[i])
            return false;
    }
    return true;
}

/* The way of a chunked dataset, unless it was decided already. */
static stk_status choose_chunked(const deriving *g)
{
    stk__h5_dataset *d = g->d;
    char why[200] = "";
    d->way = STK__H5_BY_CHUNK;
    if (!d->filter_count && holds_whole_rows(d))
        d->way = STK__H5_BY_PLACE;
    else if (d->filter_count && !stk__h5_filters_known(d->filters, d->filter_count, d->chunk_bytes, why, sizeof why))
        return by_library(g, why);
    return STK_OK;
}

static stk_status choose_way(const deriving *g)
{
    stk__h5_dataset *d = g->d;
    if (d->way == STK__H5_BY_LIBRARY)
        return STK_OK;
    if (g->file->offset_size > 8)
        return by_library(g, "its addresses have more than 8 bytes");
    if (d->filter_count && d->layout != STK__H5_LAYOUT_CHUNKED)
        return stk__h5_corrupt(d->path, g->err, "it has %zu filters and no chunks", d->filter_count);
    switch (d->layout) {
    case STK__H5_LAYOUT_COMPACT:
        d->way = STK__H5_BY_MEMORY;
        return STK_OK;
    case STK__H5_LAYOUT_CONTIGUOUS:
        d->way = STK__H5_BY_PLACE;
        return STK_OK;
    case STK__H5_LAYOUT_CHUNKED:
        return choose_chunked(g);
    default:
        return by_library(g, d->layout == STK__H5_LAYOUT_VIRTUAL ? "virtual dataset" : "data in external files");
    }
}

/* Rows of a block of at most `bytes`; at least one. */
static int64_t rows_of(const stk__h5_dataset *d, size_t bytes)
{
    const int64_t all = STK_MAX(d->rows, (int64_t)1);
    if (!d->row_bytes)
        return all;
    return STK_MIN(STK_MAX((int64_t)(bytes / d->row_bytes), (int64_t)1), all);
}

/* Blocks of what has no chunks: as if it had, of whole rows. */
static void cut_blocks(stk__h5_dataset *d)
{
    size_t bytes = BLOCK_BYTES;
    for (size_t i = 0; d->way == STK__H5_BY_LIBRARY && i < d->leaf_count; i++)
        bytes = is_vlen(&d->leaves[i]) ? VLEN_BYTES : bytes;
    d->block_rows = d->way == STK__H5_BY_MEMORY ? STK_MAX(d->rows, (int64_t)1) : rows_of(d, bytes);
    d->chunk_dims[0] = d->block_rows;
    d->grid[0] = ceil_div(d->rows, d->block_rows);
    for (int32_t i = 1; i < d->rank; i++) {
        d->chunk_dims[i] = d->dims[i];
        d->grid[i] = d->dims[i] ? 1 : 0;
    }
    d->chunk_elements = (size_t)d->block_rows * (size_t)d->row_elements; /* at most all of it, or one row */
    d->chunk_bytes = (size_t)d->block_rows * d->row_bytes;
    d->across = 1;
    d->blocks = d->grid[0];
}

static void count_blocks(const deriving *g)
{
    stk__h5_dataset *d = g->d;
    if (!is_chunked(g)) {
        cut_blocks(d);
        return;
    }
    d->block_rows = d->chunk_dims[0];
    if (d->way == STK__H5_BY_LIBRARY) {
        /* It is asked for whole rows, whatever the shape of the chunks. */
        d->block_rows = STK_MIN(d->block_rows, rows_of(d, LIBRARY_BYTES));
        for (size_t i = 0; i < d->leaf_count; i++)
            if (is_vlen(&d->leaves[i]))
                d->block_rows = STK_MIN(d->block_rows, rows_of(d, VLEN_BYTES));
        d->chunk_elements = (size_t)d->block_rows * (size_t)d->row_elements;
        d->chunk_bytes = (size_t)d->block_rows * d->row_bytes;
        d->across = 1;
    }
    d->blocks = ceil_div(d->rows, d->block_rows);
}

/* ---- data ---- */

static uint64_t le64(const uint8_t *p)
{
    uint64_t x = 0;
    for (int i = 0; i < 8; i++)
        x |= (uint64_t)p[i] << 8 * i;
    return x;
}

static stk_status check_chunk(const deriving *g, const stk__h5_chunk *c, const stk__h5_chunk *before)
{
    const stk__h5_dataset *d = g->d;
    const uint64_t size_bytes = (uint64_t)g->size_bytes;
    if (c->number >= g->places || (before && c->number <= before->number))
        return stk__h5_corrupt(d->path, g->err, "chunk %llu of %llu is out of order", (unsigned long long)c->number,
                               (unsigned long long)g->places);
    if (c->size > size_bytes || c->address > size_bytes - c->size)
        return stk__h5_corrupt(d->path, g->err, "chunk %llu has %llu bytes at %llu, the file has %llu",
                               (unsigned long long)c->number, (unsigned long long)c->size,
                               (unsigned long long)c->address, (unsigned long long)size_bytes);
    if (!c->size || c->size > UINT32_MAX || (!d->filter_count && c->size != d->chunk_bytes))
        return stk__h5_corrupt(d->path, g->err, "chunk %llu has %llu bytes, wanted %s%zu",
                               (unsigned long long)c->number, (unsigned long long)c->size,
                               d->filter_count ? "what becomes " : "", d->chunk_bytes);
    if (c->mask > UINT32_MAX)
        return stk__h5_corrupt(d->path, g->err, "chunk %llu has the filter mask 0x%llx, wanted 32 bits",
                               (unsigned long long)c->number, (unsigned long long)c->mask);
    return STK_OK;
}

static stk_status read_chunks(const deriving *g)
{
    stk__h5_dataset *d = g->d;
    const size_t size = window_size(g->draft->chunks), count = size / ENTRY_BYTES;
    if (size % ENTRY_BYTES || count > STK__H5_MAX_CHUNKS)
        return stk__h5_corrupt(d->path, g->err, "its chunk table has %zu bytes, wanted at most %d entries of %d", size,
                               STK__H5_MAX_CHUNKS, ENTRY_BYTES);
    if (!count)
        return STK_OK;
    if (!(d->chunks = stk__h5_keep(g->file, count * sizeof *d->chunks, g->err)))
        return STK_NOMEM;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *p = g->draft->chunks.p + i * ENTRY_BYTES;
        stk__h5_chunk *c = &d->chunks[i];
        *c = (stk__h5_chunk){le64(p), le64(p + 8), le64(p + 16), le64(p + 24)};
        STK_TRY(check_chunk(g, c, i ? c - 1 : NULL));
    }
    d->chunk_count = count;
    return STK_OK;
}

/* The data of a compact dataset; one that was never written holds its fill value. */
static stk_status read_compact(const deriving *g)
{
    stk__h5_dataset *d = g->d;
    const stk__wire data = g->draft->compact;
    const size_t size = window_size(data);
    if (size && size != g->total)
        return stk__h5_corrupt(d->path, g->err, "it has %zu bytes of data, wanted %llu", size,
                               (unsigned long long)g->total);
    if (g->total > BLOCK_BYTES)
        return stk__h5_corrupt(d->path, g->err, "it has %llu bytes in its header, where 64 KiB are the most",
                               (unsigned long long)g->total);
    if (size) {
        d->compact = keep_copy(g, data.p, size);
        return d->compact ? STK_OK : STK_NOMEM;
    }
    if (!(d->compact = stk__h5_keep(g->file, (size_t)g->total, g->err)))
        return STK_NOMEM;
    for (size_t i = 0; i < g->total; i += d->element_bytes)
        memcpy(d->compact + i, d->fill, d->element_bytes);
    return STK_OK;
}

static stk_status check_contiguous(const deriving *g)
{
    const stk__h5_dataset *d = g->d;
    const uint64_t size_bytes = (uint64_t)g->size_bytes;
    if (d->address >= 0 && (g->total > size_bytes || (uint64_t)d->address > size_bytes - g->total))
        return stk__h5_corrupt(d->path, g->err, "it has %llu bytes at %lld, the file has %llu",
                               (unsigned long long)g->total, (long long)d->address, (unsigned long long)size_bytes);
    return STK_OK;
}

static stk_status read_data(const deriving *g)
{
    stk__h5_dataset *d = g->d;
    /* What is of no use is not kept either. */
    if (d->way == STK__H5_BY_LIBRARY || d->layout != STK__H5_LAYOUT_CONTIGUOUS)
        d->address = -1;
    if (d->way == STK__H5_BY_LIBRARY)
        return STK_OK;
    if (d->layout == STK__H5_LAYOUT_COMPACT)
        return read_compact(g);
    return d->layout == STK__H5_LAYOUT_CONTIGUOUS ? check_contiguous(g) : read_chunks(g);
}

/* Whether rows can be taken out of chunks that are still shuffled. */
static bool may_stay_shuffled(const stk__h5_dataset *d)
{
    if (d->way != STK__H5_BY_CHUNK || d->leaf_count != 1 || !d->filter_count || d->raw_edges)
        return false;
    const stk__h5_leaf *leaf = &d->leaves[0];
    const stk__h5_filter *first = &d->filters[0];
    if (!leaf->whole || leaf->count != 1 || leaf->size < 2 || leaf->dtype == STK_BYTES || is_vlen(leaf))
        return false;
    if (first->id != STK__H5_SHUFFLE || !first->value_count || first->values[0] != leaf->size ||
        d->chunk_bytes % leaf->size)
        return false;
    for (size_t i = 0; i < d->chunk_count; i++) {
        if (d->chunks[i].mask & 1)
            return false;
    }
    return true;
}

stk_status stk__h5_derive(stk__h5_file *file, stk__h5_draft *draft, int64_t size_bytes, stk_error *err)
{
    deriving g = {.file = file, .draft = draft, .d = &draft->d, .size_bytes = size_bytes, .err = err};
    stk__h5_dataset *d = g.d;
    STK_TRY(check_shape(&g));
    STK_TRY(check_element(&g));
    if (d->why)
        d->way = STK__H5_BY_LIBRARY;
    STK_TRY(measure(&g));
    if (is_chunked(&g))
        STK_TRY(measure_chunks(&g));
    else if (d->layout == STK__H5_LAYOUT_CHUNKED && !d->why)
        return stk__h5_corrupt(d->path, err, "it has %d dimensions, its chunks %d", d->rank, draft->chunk_rank);
    STK_TRY(choose_way(&g));
    count_blocks(&g);
    STK_TRY(read_data(&g));
    d->keep_shuffled = may_stay_shuffled(d);
    return STK_OK;
}
