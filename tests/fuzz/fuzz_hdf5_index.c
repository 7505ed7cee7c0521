/* Fuzzes the reader of HDF5 descriptions and of cached indexes; what they
 * accept must lie inside the file. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "formats/hdf5_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink;

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void touch(const void *data, size_t size)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < size; i++)
        sum += ((const uint8_t *)data)[i];
    sink += sum;
}

static void touch_text(const char *s)
{
    if (s)
        touch(s, strlen(s) + 1);
}

static void check_attributes(const stk__h5_attribute *a, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        touch_text(a[i].name);
        int64_t values = 1;
        for (int32_t k = 0; k < a[i].ndim; k++)
            values *= a[i].dims[k];
        require(values == a[i].count);
        if (a[i].kind != STK__H5_KIND_STRING) {
            touch(a[i].data, (size_t)values * a[i].size);
            continue;
        }
        for (int64_t k = 0; k < values; k++)
            touch(a[i].strings[k].data, (size_t)a[i].strings[k].size + 1);
    }
}

static void check_leaf(const stk__h5_dataset *d, const stk__h5_leaf *leaf)
{
    size_t end = leaf->offset + leaf->size;
    int64_t count = 1;
    touch_text(leaf->path);
    for (int32_t i = 0; i < leaf->ndim; i++) {
        end += (size_t)(leaf->dims[i] - 1) * (size_t)leaf->strides[i];
        count *= leaf->dims[i];
    }
    require(end <= d->element_bytes && count == leaf->count && leaf->dtype < STK_DTYPE_COUNT);
    require(!leaf->whole || ((size_t)count * leaf->size == d->element_bytes && !leaf->offset));
}

static void check_chunks(const stk__h5_dataset *d, int64_t size_bytes)
{
    uint64_t places = 1;
    for (int32_t i = 0; i < d->rank; i++)
        places *= (uint64_t)d->grid[i];
    for (size_t i = 0; i < d->chunk_count; i++) {
        const stk__h5_chunk *c = &d->chunks[i];
        require(c->number < places && (!i || c->number > c[-1].number));
        require(c->size && c->address + c->size <= (uint64_t)size_bytes && c->mask <= UINT32_MAX);
        require(stk__h5_find(d, c->number) == c);
        const stk__h5_chunk *next = stk__h5_find(d, c->number + 1);
        require(!next || next->number == c->number + 1);
    }
}

static void check_dataset(const stk__h5_file *file, const stk__h5_dataset *d)
{
    require(d->path && d->path[0] == '/' && d->type && d->fill && d->block_rows > 0);
    touch_text(d->path), touch_text(d->type), touch_text(d->why), touch_text(d->index_kind);
    require((d->way == STK__H5_BY_LIBRARY) == (d->why != NULL));
    require(d->blocks == d->rows / d->block_rows + (d->rows % d->block_rows != 0) && d->across >= 0);
    require(d->row_bytes == (size_t)d->row_elements * d->element_bytes || !d->leaf_count);
    for (size_t i = 0; i < d->leaf_count; i++)
        check_leaf(d, &d->leaves[i]);
    for (size_t i = 0; i < d->filter_count; i++)
        touch(d->filters[i].values, d->filters[i].value_count * sizeof *d->filters[i].values);
    touch(d->fill, d->element_bytes < 4096 ? d->element_bytes : 4096);
    if (d->way == STK__H5_BY_MEMORY)
        touch(d->compact, (size_t)d->rows * d->row_bytes);
    if (d->way == STK__H5_BY_PLACE && d->address >= 0)
        require((uint64_t)d->address + (uint64_t)d->rows * d->row_bytes <= (uint64_t)file->id.size_bytes);
    require(!d->keep_shuffled || (d->leaf_count == 1 && d->chunk_bytes % d->leaves[0].size == 0));
    check_chunks(d, file->id.size_bytes);
    check_attributes(d->attributes, d->attribute_count);
}

static void check_file(const stk__h5_file *file)
{
    touch_text(file->library);
    for (size_t i = 0; i < file->dataset_count; i++)
        check_dataset(file, &file->datasets[i]);
    for (size_t i = 0; i < file->skipped_count; i++)
        touch_text(file->skipped[i]);
    check_attributes(file->attributes, file->attribute_count);
}

/* The bytes as a description of a file of that size. */
static void as_message(const uint8_t *data, size_t size, int64_t size_bytes)
{
    stk__text t = STK__TEXT_INIT;
    stk__h5_file *file = NULL;
    stk__text_write(&t, data, size);
    stk__wire_put_uint(&t, STK__H5_FILE_SIZE, (uint64_t)size_bytes); /* the last one counts */
    if (!t.failed && stk__h5_parse((const uint8_t *)t.data, t.length, size_bytes, &file, NULL) == STK_OK)
        check_file(file);
    stk__h5_file_free(file);
    stk__text_clear(&t);
}

/* The bytes as a cached index. The key is taken from them, and the checksum is
 * made to fit. */
static void as_cached(const uint8_t *data, size_t size)
{
    stk__h5_identity id = {0};
    uint8_t *copy = stk__alloc(size);
    stk__h5_file *file = NULL;
    if (!copy)
        return;
    memcpy(copy, data, size);
    stk__h5_cached_seal(copy, size);
    if (size >= 24 + sizeof id)
        memcpy(&id, data + 24, sizeof id);
    if (stk__h5_cached_parse(&id, copy, size, &file))
        check_file(file);
    stk__h5_file_free(file);
    stk__free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t size_bytes = 0;
    if (size < 8)
        return 0;
    memcpy(&size_bytes, data, 8);
    as_message(data + 8, size - 8, (int64_t)(size_bytes & INT64_MAX));
    as_cached(data, size);
    return 0;
}
