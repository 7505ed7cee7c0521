/* Descriptions of HDF5 files: what is read, what follows from it, and what is
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "formats/hdf5_index.h"
#include "hdf5_messages.h"

enum { FILE_BYTES = 1 << 20 };
#define GIB ((uint64_t)1 << 30)

/* The description of one dataset; frees the message. */
static stk_status parse_one(stk__text *dataset, int offset_size, stk__h5_file **out, stk_error *err)
{
    stk__text file = STK__TEXT_INIT;
    put_file_header(&file, FILE_BYTES, 7);
    PUT_NUMBERS(&file, STK__H5_FILE_OFFSET_SIZE, (uint64_t)offset_size);
    put_message(&file, STK__H5_FILE_DATASET, dataset);
    /* Memory of the exact size, so that the sanitizer sees reads past the end. */
    uint8_t *exact = malloc(file.length);
    assert_non_null(exact);
    memcpy(exact, file.data, file.length);
    const stk_status status = stk__h5_parse(exact, file.length, FILE_BYTES, out, err);
    free(exact);
    stk__text_clear(&file);
    return status;
}

static stk__h5_file *good(stk__text *dataset)
{
    stk__h5_file *file = NULL;
    stk_error err;
    stk_error_clear(&err);
    if (parse_one(dataset, 8, &file, &err) != STK_OK)
        fail_msg("%s", err.message);
    assert_int_equal(file->dataset_count, 1);
    return file;
}

static void corrupt(stk__text *dataset, const char *part)
{
    stk__h5_file *file = NULL;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(parse_one(dataset, 8, &file, &err), STK_CORRUPT);
    assert_null(file);
    if (!strstr(err.message, part))
        fail_msg("'%s' is not in '%s'", part, err.message);
}

static stk__text begin(int layout, const uint64_t *dims, size_t rank)
{
    stk__text t = STK__TEXT_INIT;
    begin_dataset(&t, "/g/x", layout, dims, rank);
    return t;
}
#define BEGIN(layout, ...) begin(layout, (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / 8)

static stk__text begin_float(int layout, const uint64_t *dims, size_t rank)
{
    stk__text t = begin(layout, dims, rank);
    put_leaf(&t, "", STK__H5_KIND_FLOAT, 4, 0);
    return t;
}
#define BEGIN_FLOAT(layout, ...) \
    begin_float(layout, (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / 8)

static void parse_of_a_chunked_dataset_derives_its_grid(void **state)
{
    stk__text t = BEGIN_FLOAT(STK__H5_LAYOUT_CHUNKED, 10, 7, 5);
    PUT_NUMBERS(&t, STK__H5_DATASET_CHUNK_DIM, 4, 3, 5);
    PUT_NUMBERS(&t, STK__H5_DATASET_MAX_DIM, UINT64_MAX, 7, 9);
    put_filter(&t, STK__H5_DEFLATE, (const uint64_t[]){4}, 1);
    const uint64_t chunks[][4] = {{0, 100, 50, 0}, {2, 200, 60, 1}, {8, FILE_BYTES - 70, 70, 0}};
    put_chunks(&t, chunks, 3);
    stk__h5_file *file = good(&t);
    const stk__h5_dataset *d = &file->datasets[0];
    assert_string_equal(d->path, "/g/x");
    assert_string_equal(d->type, "float32");
    assert_int_equal(d->rows, 10);
    assert_int_equal(d->row_elements, 35);
    assert_int_equal(d->row_bytes, 140);
    assert_int_equal(d->way, STK__H5_BY_CHUNK);
    assert_int_equal(d->grid[0], 3);
    assert_int_equal(d->grid[1], 3);
    assert_int_equal(d->grid[2], 1);
    assert_int_equal(d->block_rows, 4);
    assert_int_equal(d->blocks, 3);
    assert_int_equal(d->across, 3);
    assert_int_equal(d->chunk_elements, 60);
    assert_int_equal(d->chunk_bytes, 240);
    assert_true(d->max_dims[0] == UINT64_MAX && d->max_dims[2] == 9);
    assert_int_equal(d->leaf_count, 1);
    assert_int_equal(d->leaves[0].dtype, STK_FLOAT32);
    assert_true(d->leaves[0].whole);
    assert_string_equal(d->leaves[0].path, "");
    assert_int_equal(d->filters[0].id, STK__H5_DEFLATE);
    assert_int_equal(d->filters[0].values[0], 4);
    assert_int_equal(d->chunk_count, 3);
    assert_int_equal(stk__h5_find(d, 2)->address, 200);
    assert_int_equal(stk__h5_find(d, 8)->size, 70);
    assert_null(stk__h5_find(d, 1));
    assert_null(stk__h5_find(d, 9));
    assert_memory_equal(d->fill, "\0\0\0\0", 4);
    assert_string_equal(file->library, "1.10.8");
    assert_int_equal(file->id.mtime_ns, 7);
    assert_true(file->memory > sizeof *d);
    stk__h5_file_free(file);
}

/* Every number of a table, dense or with gaps, is found; the others are not. */
static void find_in_tables_with_and_without_gaps(void **state)
{
    stk__h5_chunk chunks[100];
    for (uint64_t step = 1; step <= 3; step++) {
        for (uint64_t i = 0; i < 100; i++)
            chunks[i] = (stk__h5_chunk){.number = i * step + (step > 1 && i > 50)};
        const stk__h5_dataset d = {.chunks = chunks, .chunk_count = 100};
        size_t found = 0;
        for (uint64_t n = 0; n < 400; n++) {
            const stk__h5_chunk *c = stk__h5_find(&d, n);
            assert_true(!c || c->number == n);
            found += c != NULL;
        }
        assert_int_equal(found, 100);
        assert_null(stk__h5_find(&d, UINT64_MAX));
    }
    const stk__h5_dataset none = {0};
    assert_null(stk__h5_find(&none, 0));
}

static void contiguous_data_lies_in_place_in_blocks_of_rows(void **state)
{
    stk__text t = BEGIN_FLOAT(STK__H5_LAYOUT_CONTIGUOUS, 1000, 64);
    PUT_NUMBERS(&t, STK__H5_DATASET_ADDRESS, FILE_BYTES - 256000);
    stk__h5_file *file = good(&t);
    const stk__h5_dataset *d = &file->datasets[0];
    assert_int_equal(d->way, STK__H5_BY_PLACE);
    assert_int_equal(d->address, FILE_BYTES - 256000);
    assert_int_equal(d->block_rows, 1000);
    assert_int_equal(d->blocks, 1);
    assert_int_equal(d->across, 1);
    assert_int_equal(d->chunk_dims[0], 1000);
    assert_int_equal(d->chunk_dims[1], 64);
    assert_int_equal(d->chunk_bytes, 256000);
    stk__h5_file_free(file);
    t = BEGIN_FLOAT(STK__H5_LAYOUT_CONTIGUOUS, 100000, 64); /* never written: larger than the file */
    file = good(&t);
    d = &file->datasets[0];
    assert_int_equal(d->address, -1);
    assert_int_equal(d->block_rows, (1 << 20) / 256);
    assert_int_equal(d->blocks, (100000 + 4095) / 4096);
    stk__h5_file_free(file);
    t = BEGIN_FLOAT(STK__H5_LAYOUT_CONTIGUOUS, 1000, 64);
    PUT_NUMBERS(&t, STK__H5_DATASET_ADDRESS, FILE_BYTES - 256000 + 1);
    corrupt(&t, "dataset '/g/x': it has 256000 bytes at 792577, the file has 1048576");
}

static void chunks_of_whole_rows_without_filters_lie_in_place(void **state)
{
    const uint64_t chunks[][4] = {{0, 100, 96, 0}, {2, 200, 96, 0}};
    for (uint64_t width = 3; width <= 4; width++) {
        stk__text t = BEGIN_FLOAT(STK__H5_LAYOUT_CHUNKED, 20, width);
        PUT_NUMBERS(&t, STK__H5_DATASET_CHUNK_DIM, 8, 3);
        put_chunks(&t, chunks, 2);
        stk__h5_file *file = good(&t);
        assert_int_equal(file->datasets[0].way, width == 3 ? STK__H5_BY_PLACE : STK__H5_BY_CHUNK);
        assert_int_equal(file->datasets[0].block_rows, 8);
        assert_int_equal(file->datasets[0].across, width - 2);
        assert_int_equal(file->datasets[0].chunk_count, 2);
        stk__h5_file_free(file);
    }
}

static void compact_data_is_kept_or_made_of_the_fill_value(void **state)
{
    stk__text t = BEGIN_FLOAT(STK__H5_LAYOUT_COMPACT, 3);
    stk__wire_put_bytes(&t, STK__H5_DATASET_COMPACT, "abcdefghijkl", 12);
    stk__h5_file *file = good(&t);
    assert_int_equal(file->datasets[0].way, STK__H5_BY_MEMORY);
    assert_memory_equal(file->datasets[0].compact, "abcdefghijkl", 12);
    assert_int_equal(file->datasets[0].block_rows, 3);
    stk__h5_file_free(file);
    t = BEGIN_FLOAT(STK__H5_LAYOUT_COMPACT, 2);
    stk__wire_put_bytes(&t, STK__H5_DATASET_FILL, "fill", 4);
    PUT_NUMBERS(&t, STK__H5_DATASET_HAS_FILL, 1);
    file = good(&t);
    assert_memory_equal(file->datasets[0].compact, "fillfill", 8);
    assert_true(file->datasets[0].has_fill);
    stk__h5_file_free(file);
    t = BEGIN_FLOAT(STK__H5_LAYOUT_COMPACT, 3);
    stk__wire_put_bytes(&t, STK__H5_DATASET_COMPACT, "abcdefghijk", 11);
    corrupt(&t, "it has 11 bytes of data, wanted 12");
}

static void scalars_and_empty_shapes_have_rows_and_blocks(void **state)
{
    stk__text t = begin_float(STK__H5_LAYOUT_CONTIGUOUS, NULL, 0);
    PUT_NUMBERS(&t, STK__H5_DATASET_ADDRESS, 800);
    stk__h5_file *file = good(&t);
    const stk__h5_dataset *d = &file->datasets[0];
    assert_true(d->rank == 0 && d->rows == 1 && d->row_elements == 1 && d->row_bytes == 4);
    assert_true(d->chunk_dims[0] == 1 && d->grid[0] == 1 && d->blocks == 1 && d->block_rows == 1 && d->across == 1);
    stk__h5_file_free(file);

    t = BEGIN_FLOAT(STK__H5_LAYOUT_CONTIGUOUS, 0, 5);
    file = good(&t);
    d = &file->datasets[0];
    assert_true(d->rows == 0 && d->row_bytes == 20 && d->blocks == 0 && d->block_rows == 1);
    stk__h5_file_free(file);

    t = BEGIN_FLOAT(STK__H5_LAYOUT_CHUNKED, 6, 0, 4);
    PUT_NUMBERS(&t, STK__H5_DATASET_CHUNK_DIM, 4, 2, 4);
    file = good(&t);
    d = &file->datasets[0];
    assert_true(d->rows == 6 && d->row_elements == 0 && d->row_bytes == 0);
    assert_true(d->blocks == 2 && d->across == 0 && d->grid[1] == 0 && d->chunk_elements == 32);
    stk__h5_file_free(file);

    const uint64_t chunk[1][4] = {{0, 100, 128, 0}};
    t = BEGIN_FLOAT(STK__H5_LAYOUT_CHUNKED, 6, 0, 4);
    PUT_NUMBERS(&t, STK__H5_DATASET_CHUNK_DIM, 4, 2, 4);
    put_chunks(&t, chunk, 1);
    corrupt(&t, "chunk 0 of 0 is out of order");
}

/* Each entry of a chunk table is checked against grid, file and size. */
static void bad_chunk_tables_are_refused(void **state)
{
    static const struct {
        uint64_t chunks[2][4];
        bool filtered;
        const char *part;
    } cases[] = {
        {{{1, 100, 32, 0}, {1, 200, 32, 0}}, false, "chunk 1 of 4 is out of order"},
        {{{2, 100, 32, 0}, {1, 200, 32, 0}}, true, "chunk 1 of 4 is out of order"},
        {{{0, 100, 32, 0}, {4, 200, 32, 0}}, false, "chunk 4 of 4 is out of order"},
        {{{0, 100, 32, 0}, {1, FILE_BYTES - 31, 32, 0}}, false, "chunk 1 has 32 bytes at 1048545, the file has"},
        {{{0, 100, 32, 0}, {1, UINT64_MAX, 32, 0}}, true, "chunk 1 has 32 bytes at 18446744073709551615"},
        {{{0, UINT64_MAX - 31, 32, 0}, {1, 0, 32, 0}}, true, "chunk 0 has 32 bytes at 18446744073709551584"},
        {{{0, 100, UINT64_MAX, 0}, {1, 0, 32, 0}}, true, "chunk 0 has 18446744073709551615 bytes at 100"},
        {{{0, 100, 31, 0}, {1, 200, 32, 0}}, false, "chunk 0 has 31 bytes, wanted 32"},
        {{{0, 100, 0, 0}, {1, 200, 32, 0}}, true, "chunk 0 has 0 bytes, wanted what becomes 32"},
        {{{0, 100, 9, GIB * 4}, {1, 200, 32, 0}}, true, "chunk 0 has the filter mask 0x100000000"},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__text t = BEGIN_FLOAT(STK__H5_LAYOUT_CHUNKED, 8, 4);
        PUT_NUMBERS(&t, STK__H5_DATASET_CHUNK_DIM, 4, 2);
        if (cases[i].filtered)
            put_filter(&t, STK__H5_DEFLATE, NULL, 0);
        put_chunks(&t, cases[i].chunks, 2);
        corrupt(&t, cases[i].part);
    }
    stk__text t = BEGIN_FLOAT(STK__H5_LAYOUT_CHUNKED, 8, 4);
    PUT_NUMBERS(&t, STK__H5_DATASET_CHUNK_DIM, 4, 2);
    stk__wire_put_bytes(&t, STK__H5_DATASET_CHUNKS, "0123456789", 10);
    corrupt(&t, "its chunk table has 10 bytes");
}

static stk__text shuffled(uint64_t size, int kind, uint64_t value)
{
    stk__text t = BEGIN(STK__H5_LAYOUT_CHUNKED, 8, 4);
    PUT_NUMBERS(&t, STK__H5_DATASET_ELEMENT, size);
    put_leaf(&t, "", kind, size, 0);
    PUT_NUMBERS(&t, STK__H5_DATASET_CHUNK_DIM, 4, 4);
    put_filter(&t, STK__H5_SHUFFLE, &value, 1);
    put_filter(&t, STK__H5_DEFLATE, NULL, 0);
    return t;
}

static bool stays_shuffled(stk__text *t)
{
    stk__h5_file *file = good(t);
    assert_int_equal(file->datasets[0].way, STK__H5_BY_CHUNK);
    const bool yes = file->datasets[0].keep_shuffled;
    stk__h5_file_free(file);
    return yes;
}

static void only_plain_shuffled_numbers_stay_shuffled(void **state)
{
    const uint64_t sound[2][4] = {{0, 100, 20, 2}, {1, 200, 20, 0}};
    const uint64_t masked[2][4] = {{0, 100, 20, 0}, {1, 200, 20, 1}};
    stk__text t = shuffled(4, STK__H5_KIND_FLOAT, 4);
    put_chunks(&t, sound, 2);
    assert_true(stays_shuffled(&t));
    t = shuffled(4, STK__H5_KIND_FLOAT, 4);
    put_chunks(&t, masked, 2);
    assert_false(stays_shuffled(&t));
    t = shuffled(4, STK__H5_KIND_FLOAT, 2); /* shuffled by another size */
    assert_false(stays_shuffled(&t));
    t = shuffled(1, STK__H5_KIND_UINT, 1);
    assert_false(stays_shuffled(&t));
    t = shuffled(4, STK__H5_KIND_STRING, 4);
    assert_false(stays_shuffled(&t));
    t = shuffled(4, STK__H5_KIND_INT, 4);
    PUT_NUMBERS(&t, STK__H5_DATASET_RAW_EDGES, 1);
    assert_false(stays_shuffled(&t));
    t = shuffled(4, STK__H5_KIND_INT, 4);
    PUT_NUMBERS(&t, STK__H5_DATASET_ELEMENT, 8); /* a gap behind the value */
    assert_false(stays_shuffled(&t));
}

static void put_array_leaf(stk__text *t, const char *path, size_t offset, const uint64_t *dims, const uint64_t *strides,
                           size_t n)
{
    stk__text leaf = STK__TEXT_INIT;
    put_str(&leaf, STK__H5_LEAF_PATH, path);
    PUT_NUMBERS(&leaf, STK__H5_LEAF_KIND, STK__H5_KIND_INT);
    PUT_NUMBERS(&leaf, STK__H5_LEAF_SIZE, 2);
    PUT_NUMBERS(&leaf, STK__H5_LEAF_SWAP, 1);
    PUT_NUMBERS(&leaf, STK__H5_LEAF_OFFSET, offset);
    put_numbers(&leaf, STK__H5_LEAF_DIM, dims, n);
    put_numbers(&leaf, STK__H5_LEAF_STRIDE, strides, n);
    put_message(t, STK__H5_DATASET_LEAF, &leaf);
}

static stk__text with_array(uint64_t element, size_t offset, uint64_t dim0, uint64_t dim1, uint64_t stride0,
                            uint64_t stride1)
{
    stk__text t = BEGIN(STK__H5_LAYOUT_CONTIGUOUS, 5);
    PUT_NUMBERS(&t, STK__H5_DATASET_ELEMENT, element);
    put_array_leaf(&t, "a/b", offset, (const uint64_t[]){dim0, dim1}, (const uint64_t[]){stride0, stride1}, 2);
    return t;
}

static void members_lie_inside_their_element(void **state)
{
    stk__text t = with_array(48, 0, 6, 4, 8, 2);
    stk__h5_file *file = good(&t);
    const stk__h5_leaf *leaf = file->datasets[0].leaves;
    assert_true(leaf->whole && leaf->swap && leaf->count == 24 && leaf->ndim == 2 && leaf->dtype == STK_INT16);
    assert_true(leaf->dims[0] == 6 && leaf->strides[0] == 8);
    assert_string_equal(leaf->path, "a/b");
    stk__h5_file_free(file);
    t = with_array(60, 1, 6, 4, 10, 2); /* ends at 1 + 5 * 10 + 8 */
    file = good(&t);
    assert_false(file->datasets[0].leaves[0].whole);
    stk__h5_file_free(file);

    t = with_array(58, 1, 6, 4, 10, 2);
    corrupt(&t, "member 'a/b' takes 58 bytes at 1, an element has 58");
    t = with_array(60, 61, 6, 4, 10, 2);
    corrupt(&t, "takes 58 bytes at 61");
    t = with_array(60, 0, 6, 4, 7, 2);
    corrupt(&t, "has 6 values of 8 bytes every 7 bytes");
    t = with_array(60, 0, 6, 0, 10, 2);
    corrupt(&t, "has 0 values of 2 bytes");
    t = with_array(60, 0, 6, 1 << 25, 10, 2);
    corrupt(&t, "has 33554432 values of 2 bytes");
    t = with_array(60, 0, 60, 60, 60, 60);
    corrupt(&t, "takes 3542 bytes at 0");
    t = BEGIN(STK__H5_LAYOUT_CONTIGUOUS, 5);
    put_array_leaf(&t, "", 0, (const uint64_t[]){2, 1}, (const uint64_t[]){2}, 1);
    put_leaf(&t, "b", STK__H5_KIND_FLOAT, 8, 0);
    corrupt(&t, "member 'b' takes 8 bytes at 0, an element has 4");
}

static void kinds_and_sizes_give_types(void **state)
{
    static const struct {
        int kind;
        size_t size;
        stk_dtype dtype;
    } cases[] = {
        {STK__H5_KIND_INT, 1, STK_INT8},
        {STK__H5_KIND_INT, 8, STK_INT64},
        {STK__H5_KIND_UINT, 2, STK_UINT16},
        {STK__H5_KIND_UINT, 4, STK_UINT32},
        {STK__H5_KIND_FLOAT, 2, STK_FLOAT16},
        {STK__H5_KIND_FLOAT, 8, STK_FLOAT64},
        {STK__H5_KIND_BFLOAT, 2, STK_BFLOAT16},
        {STK__H5_KIND_BOOL, 1, STK_BOOL},
        {STK__H5_KIND_STRING, 17, STK_BYTES},
        {STK__H5_KIND_OPAQUE, 3, STK_BYTES},
        {STK__H5_KIND_INT, 3, STK_DTYPE_COUNT},
        {STK__H5_KIND_FLOAT, 1, STK_DTYPE_COUNT},
        {STK__H5_KIND_BOOL, 2, STK_DTYPE_COUNT},
        {STK__H5_KIND_STRING, 0, STK_DTYPE_COUNT},
        {0, 4, STK_DTYPE_COUNT},
        {10, 4, STK_DTYPE_COUNT},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__text t = BEGIN(STK__H5_LAYOUT_CONTIGUOUS, 5);
        PUT_NUMBERS(&t, STK__H5_DATASET_ELEMENT, 17);
        put_leaf(&t, "m", cases[i].kind, cases[i].size, 0);
        if (cases[i].dtype == STK_DTYPE_COUNT) {
            corrupt(&t, cases[i].kind > 9 ? "kind of a value is out of range" : "there are no values of kind");
            continue;
        }
        stk__h5_file *file = good(&t);
        assert_int_equal(file->datasets[0].leaves[0].dtype, cases[i].dtype);
        stk__h5_file_free(file);
    }
}

static stk__text with_vlen(size_t size, int base_kind, size_t base_size, const char *why)
{
    stk__text t = BEGIN(STK__H5_LAYOUT_CONTIGUOUS, 5), leaf = STK__TEXT_INIT;
    PUT_NUMBERS(&t, STK__H5_DATASET_ELEMENT, 16);
    PUT_NUMBERS(&leaf, STK__H5_LEAF_KIND, base_kind ? STK__H5_KIND_VLEN : STK__H5_KIND_VLEN_STRING);
    PUT_NUMBERS(&leaf, STK__H5_LEAF_SIZE, size);
    PUT_NUMBERS(&leaf, STK__H5_LEAF_BASE_KIND, (uint64_t)base_kind);
    PUT_NUMBERS(&leaf, STK__H5_LEAF_BASE_SIZE, base_size);
    put_message(&t, STK__H5_DATASET_LEAF, &leaf);
    if (why)
        put_str(&t, STK__H5_DATASET_WHY, why);
    return t;
}

static void descriptors_of_variable_length_have_the_size_of_addresses(void **state)
{
    stk__h5_file *file = NULL;
    stk__text t = with_vlen(16, 0, 0, NULL);
    file = good(&t);
    assert_int_equal(file->datasets[0].leaves[0].dtype, STK_BYTES);
    stk__h5_file_free(file);
    t = with_vlen(16, STK__H5_KIND_INT, 4, NULL);
    file = good(&t);
    assert_int_equal(file->datasets[0].leaves[0].dtype, STK_INT32);
    assert_int_equal(file->datasets[0].leaves[0].base_size, 4);
    stk__h5_file_free(file);
    t = with_vlen(12, 0, 0, NULL);
    assert_int_equal(parse_one(&t, 4, &file, NULL), STK_OK);
    stk__h5_file_free(file);
    t = with_vlen(16, 0, 0, "opaque reasons");
    assert_int_equal(parse_one(&t, 4, &file, NULL), STK_OK);
    assert_int_equal(file->datasets[0].way, STK__H5_BY_LIBRARY);
    stk__h5_file_free(file);
    t = with_vlen(12, 0, 0, NULL);
    corrupt(&t, "has descriptors of 12 bytes, wanted 16");
    t = with_vlen(16, STK__H5_KIND_STRING, 4, NULL);
    corrupt(&t, "there are no values of kind 6");
}

static void filters_that_are_unknown_leave_it_to_the_library(void **state)
{
    stk__text t = BEGIN_FLOAT(STK__H5_LAYOUT_CHUNKED, 8, 4);
    PUT_NUMBERS(&t, STK__H5_DATASET_CHUNK_DIM, 3, 2);
    put_filter(&t, 307, (const uint64_t[]){1, UINT32_MAX}, 2);
    put_chunks(&t, (const uint64_t[1][4]){{0, 100, 20, 0}}, 1);
    stk__h5_file *file = good(&t);
    const stk__h5_dataset *d = &file->datasets[0];
    assert_int_equal(d->way, STK__H5_BY_LIBRARY);
    assert_non_null(strstr(d->why, "307"));
    assert_int_equal(d->leaf_count, 1);
    assert_true(d->block_rows == 3 && d->blocks == 3 && d->across == 1 && d->grid[1] == 2);
    assert_null(d->chunks);
    assert_int_equal(d->filters[0].values[1], UINT32_MAX);
    stk__h5_file_free(file);
}

/* Chunks that are too big for us, and shapes that are too big for anybody. */
static void sizes_that_overflow_are_told_not_computed(void **state)
{
    stk__text t = BEGIN_FLOAT(STK__H5_LAYOUT_CHUNKED, GIB, 4);
    PUT_NUMBERS(&t, STK__H5_DATASET_CHUNK_DIM, GIB, 1);
    put_filter(&t, STK__H5_DEFLATE, NULL, 0);
    stk__h5_file *file = good(&t);
    const stk__h5_dataset *d = &file->datasets[0];
    assert_int_equal(d->way, STK__H5_BY_LIBRARY);
    assert_non_null(strstr(d->why, "2 GiB"));
    assert_int_equal(d->leaf_count, 1);
    assert_int_equal(d->block_rows, (256 << 20) / 16);
    stk__h5_file_free(file);

    static const uint64_t shapes[][3] = {{GIB, GIB, GIB}, {GIB * 8, GIB, 1}, {0, GIB * 8, GIB * 8}, {4, 0, INT64_MAX}};
    for (size_t i = 0; i < STK_COUNT(shapes); i++) {
        for (int layout = STK__H5_LAYOUT_CONTIGUOUS; layout <= STK__H5_LAYOUT_VIRTUAL; layout++) {
            t = begin_float(layout, shapes[i], 3);
            if (layout == STK__H5_LAYOUT_CHUNKED)
                PUT_NUMBERS(&t, STK__H5_DATASET_CHUNK_DIM, 1, 1, 1);
            file = good(&t);
            d = &file->datasets[0];
            assert_int_equal(d->way, STK__H5_BY_LIBRARY);
            assert_int_equal(d->leaf_count, 0);
            assert_non_null(strstr(d->why, "more than 2^63"));
            assert_int_equal(d->row_bytes, 0);
            stk__h5_file_free(file);
        }
    }
    t = BEGIN_FLOAT(STK__H5_LAYOUT_CHUNKED, 4, 4);
    PUT_NUMBERS(&t, STK__H5_DATASET_CHUNK_DIM, GIB * 4, GIB * 4);
    file = good(&t);
    assert_non_null(strstr(file->datasets[0].why, "2 GiB"));
    stk__h5_file_free(file);
}

static void layouts_of_other_files_are_left_to_the_library(void **state)
{
    for (int layout = STK__H5_LAYOUT_VIRTUAL; layout <= STK__H5_LAYOUT_EXTERNAL; layout++) {
        stk__text t = BEGIN_FLOAT(layout, 100, 4);
        stk__h5_file *file = good(&t);
        assert_int_equal(file->datasets[0].way, STK__H5_BY_LIBRARY);
        assert_non_null(file->datasets[0].why);
        assert_int_equal(file->datasets[0].block_rows, 100);
        stk__h5_file_free(file);
    }
    stk__text t = BEGIN(STK__H5_LAYOUT_CONTIGUOUS, 5);
    put_str(&t, STK__H5_DATASET_WHY, "a type of 3 bytes");
    stk__wire_put_bytes(&t, STK__H5_DATASET_FILL, "0123456789", 10); /* in a layout of its own */
    PUT_NUMBERS(&t, STK__H5_DATASET_ADDRESS, FILE_BYTES * 2);
    stk__h5_file *file = good(&t);
    assert_string_equal(file->datasets[0].why, "a type of 3 bytes");
    assert_int_equal(file->datasets[0].leaf_count, 0);
    assert_int_equal(file->datasets[0].address, -1);
    assert_memory_equal(file->datasets[0].fill, "\0\0\0\0", 4);
    stk__h5_file_free(file);
}

static void datasets_that_make_no_sense_are_refused(void **state)
{
    stk__text t = BEGIN(STK__H5_LAYOUT_CONTIGUOUS, 5);
    corrupt(&t, "it has no members and no reason is given");
    t = BEGIN_FLOAT(STK__H5_LAYOUT_CHUNKED, 5, 5);
    PUT_NUMBERS(&t, STK__H5_DATASET_CHUNK_DIM, 5);
    corrupt(&t, "it has 2 dimensions, its chunks 1");
    t = BEGIN_FLOAT(STK__H5_LAYOUT_CHUNKED, 5, 5);
    PUT_NUMBERS(&t, STK__H5_DATASET_CHUNK_DIM, 5, 0);
    corrupt(&t, "dimension 1 of its chunks is 0");
    t = BEGIN_FLOAT(STK__H5_LAYOUT_CONTIGUOUS, 5, 5);
    PUT_NUMBERS(&t, STK__H5_DATASET_MAX_DIM, 5, 4);
    corrupt(&t, "dimension 1 is 5, at most 4 are allowed");
    t = BEGIN_FLOAT(STK__H5_LAYOUT_CONTIGUOUS, 5, 5);
    PUT_NUMBERS(&t, STK__H5_DATASET_MAX_DIM, 5);
    corrupt(&t, "it has 2 dimensions and 1 largest ones");
    t = BEGIN_FLOAT(STK__H5_LAYOUT_CONTIGUOUS, 5);
    stk__wire_put_bytes(&t, STK__H5_DATASET_FILL, "12345", 5);
    corrupt(&t, "its fill value has 5 bytes, an element has 4");
    t = BEGIN_FLOAT(STK__H5_LAYOUT_CONTIGUOUS, 5);
    put_filter(&t, STK__H5_DEFLATE, NULL, 0);
    corrupt(&t, "it has 1 filters and no chunks");
    t = BEGIN_FLOAT(STK__H5_LAYOUT_CONTIGUOUS, 5);
    PUT_NUMBERS(&t, STK__H5_DATASET_ELEMENT, 0);
    corrupt(&t, "its elements have no bytes");
    t = BEGIN_FLOAT(STK__H5_LAYOUT_CONTIGUOUS, 5);
    PUT_NUMBERS(&t, STK__H5_DATASET_LAYOUT, 5);
    corrupt(&t, "layout is out of range: found 5, wanted at most 4");
    t = BEGIN_FLOAT(STK__H5_LAYOUT_CONTIGUOUS, UINT64_MAX);
    corrupt(&t, "dimension is out of range");
    t = (stk__text)STK__TEXT_INIT;
    for (int i = 0; i <= STK__H5_MAX_RANK; i++)
        PUT_NUMBERS(&t, STK__H5_DATASET_DIM, 1);
    corrupt(&t, "dimension is given too often: found 33, wanted at most 32");
    t = BEGIN_FLOAT(STK__H5_LAYOUT_CONTIGUOUS, 5);
    put_str(&t, STK__H5_DATASET_PATH, "/again");
    corrupt(&t, "path is given too often");
    t = (stk__text)STK__TEXT_INIT;
    begin_dataset(&t, "relative", STK__H5_LAYOUT_CONTIGUOUS, (const uint64_t[]){5}, 1);
    corrupt(&t, "a dataset has the path 'relative'");
    t = (stk__text)STK__TEXT_INIT;
    stk__wire_put_bytes(&t, STK__H5_DATASET_PATH, "/a\0b", 4);
    corrupt(&t, "path holds a NUL byte");
    t = BEGIN_FLOAT(STK__H5_LAYOUT_CONTIGUOUS, 5);
    PUT_NUMBERS(&t, STK__H5_DATASET_TYPE + 100, 1); /* unknown fields are skipped */
    stk__h5_file_free(good(&t));
    t = BEGIN_FLOAT(STK__H5_LAYOUT_CONTIGUOUS, 5);
    put_str(&t, STK__H5_DATASET_RAW_EDGES, "a text");
    corrupt(&t, "raw edges is no sound message");
}

static stk__text with_attribute(int kind, size_t size, const uint64_t *dims, size_t rank, const char *data,
                                size_t strings)
{
    stk__text t = BEGIN_FLOAT(STK__H5_LAYOUT_CONTIGUOUS, 5), a = STK__TEXT_INIT;
    put_str(&a, STK__H5_ATTRIBUTE_NAME, "units");
    PUT_NUMBERS(&a, STK__H5_ATTRIBUTE_KIND, (uint64_t)kind);
    PUT_NUMBERS(&a, STK__H5_ATTRIBUTE_SIZE, size);
    put_numbers(&a, STK__H5_ATTRIBUTE_DIM, dims, rank);
    if (data)
        put_str(&a, STK__H5_ATTRIBUTE_DATA, data);
    for (size_t i = 0; i < strings; i++)
        stk__wire_put_bytes(&a, STK__H5_ATTRIBUTE_STRING, "m\0s", 3);
    put_message(&t, STK__H5_DATASET_ATTRIBUTE, &a);
    return t;
}

static void attributes_hold_numbers_or_strings(void **state)
{
    stk__text t = with_attribute(STK__H5_KIND_INT, 2, (const uint64_t[]){2, 2}, 2, "01234567", 0);
    stk__h5_file *file = good(&t);
    const stk__h5_attribute *a = file->datasets[0].attributes;
    assert_int_equal(file->datasets[0].attribute_count, 1);
    assert_string_equal(a->name, "units");
    assert_true(a->count == 4 && a->ndim == 2 && a->size == 2);
    assert_memory_equal(a->data, "01234567", 8);
    stk__h5_file_free(file);
    t = with_attribute(STK__H5_KIND_STRING, 0, (const uint64_t[]){3}, 1, NULL, 3);
    file = good(&t);
    a = file->datasets[0].attributes;
    assert_int_equal(a->count, 3);
    assert_int_equal(a->strings[2].size, 3);
    assert_memory_equal(a->strings[2].data, "m\0s", 4);
    stk__h5_file_free(file);
    t = with_attribute(STK__H5_KIND_STRING, 0, NULL, 0, NULL, 1);
    stk__h5_file_free(good(&t));
    t = with_attribute(STK__H5_KIND_INT, 4, (const uint64_t[]){0}, 1, NULL, 0);
    stk__h5_file_free(good(&t));

    t = with_attribute(STK__H5_KIND_INT, 2, (const uint64_t[]){3}, 1, "01234567", 0);
    corrupt(&t, "attribute 'units' has 8 bytes, wanted 6");
    t = with_attribute(STK__H5_KIND_STRING, 0, (const uint64_t[]){2}, 1, NULL, 3);
    corrupt(&t, "attribute 'units' has 3 strings, wanted 2");
    t = with_attribute(STK__H5_KIND_OPAQUE, 2, NULL, 0, "01", 0);
    corrupt(&t, "attribute 'units' has values of kind 7 with 2 bytes");
    t = with_attribute(STK__H5_KIND_INT, 8, (const uint64_t[]){60000, 60000, 60000}, 3, "01", 0);
    corrupt(&t, "attribute 'units' has more than 65536 values");
}

static void expect_file_error(stk__text *t, int64_t size_bytes, const char *part)
{
    stk__h5_file *file = NULL;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__h5_parse((const uint8_t *)t->data, t->length, size_bytes, &file, &err), STK_CORRUPT);
    if (!strstr(err.message, part))
        fail_msg("'%s' is not in '%s'", part, err.message);
    stk__text_clear(t);
}

static void headers_of_files_are_checked(void **state)
{
    stk__text t = STK__TEXT_INIT;
    stk__h5_file *file = NULL;
    put_file_header(&t, FILE_BYTES, -5);
    put_str(&t, STK__H5_FILE_SKIPPED, "/g/x: unknown type");
    assert_int_equal(stk__h5_parse((const uint8_t *)t.data, t.length, FILE_BYTES, &file, NULL), STK_OK);
    assert_int_equal(file->id.mtime_ns, -5);
    assert_int_equal(file->skipped_count, 1);
    assert_string_equal(file->skipped[0], "/g/x: unknown type");
    assert_int_equal(file->dataset_count, 0);
    stk__h5_file_free(file);
    expect_file_error(&t, FILE_BYTES + 1, "it is about a file of 1048576 bytes, this one has 1048577");
    put_file_header(&t, 10, 0);
    PUT_NUMBERS(&t, STK__H5_FILE_VERSION, 99);
    expect_file_error(&t, 10, "it has version 99, wanted");
    put_file_header(&t, 10, 0);
    PUT_NUMBERS(&t, STK__H5_FILE_OFFSET_SIZE, 3);
    expect_file_error(&t, 10, "addresses or lengths of 3 bytes");
    put_file_header(&t, 10, 0);
    PUT_NUMBERS(&t, STK__H5_FILE_BASE, 11);
    expect_file_error(&t, 10, "a user block of 11 bytes in a file of 10");
    stk__text_puts(&t, "\xff\xff\xff");
    expect_file_error(&t, 10, "file is no sound message");
}

/* A file with one of everything. */
static stk__text everything(void)
{
    stk__text file = STK__TEXT_INIT;
    put_file_header(&file, FILE_BYTES, 7);
    stk__text t = with_attribute(STK__H5_KIND_STRING, 0, (const uint64_t[]){2}, 1, NULL, 2);
    put_message(&file, STK__H5_FILE_DATASET, &t);
    t = shuffled(4, STK__H5_KIND_FLOAT, 4);
    put_str(&t, STK__H5_DATASET_INDEX, "v1 B-tree");
    put_chunks(&t, (const uint64_t[2][4]){{0, 100, 20, 0}, {1, 200, 20, 0}}, 2);
    put_message(&file, STK__H5_FILE_DATASET, &t);
    t = with_array(60, 1, 6, 4, 10, 2);
    put_message(&file, STK__H5_FILE_DATASET, &t);
    t = with_vlen(16, STK__H5_KIND_UINT, 8, "some reason");
    put_message(&file, STK__H5_FILE_DATASET, &t);
    t = BEGIN_FLOAT(STK__H5_LAYOUT_COMPACT, 3);
    stk__wire_put_bytes(&t, STK__H5_DATASET_COMPACT, "abcdefghijkl", 12);
    put_message(&file, STK__H5_FILE_DATASET, &t);
    put_str(&file, STK__H5_FILE_SKIPPED, "/y: no");
    return file;
}

/* A message that is cut or changed anywhere is refused or understood, never
 * more. */
static void cut_and_changed_messages_do_no_harm(void **state)
{
    stk__text t = everything();
    size_t refused = 0;
    for (size_t length = 0; length < t.length; length++) {
        uint8_t *exact = malloc(length ? length : 1);
        assert_non_null(exact);
        memcpy(exact, t.data, length);
        stk__h5_file *file = NULL;
        if (stk__h5_parse(exact, length, FILE_BYTES, &file, NULL) != STK_OK)
            refused++;
        stk__h5_file_free(file);
        free(exact);
    }
    assert_true(refused > t.length - 20); /* between two datasets it looks whole */
    uint8_t *copy = malloc(t.length);
    assert_non_null(copy);
    for (size_t i = 0; i < t.length * 8; i++) {
        memcpy(copy, t.data, t.length);
        copy[i / 8] ^= (uint8_t)(1 << i % 8);
        stk__h5_file *file = NULL;
        stk__h5_parse(copy, t.length, FILE_BYTES, &file, NULL);
        stk__h5_file_free(file);
    }
    free(copy);
    stk__text_clear(&t);
}

static void parse_without_memory_fails_and_leaks_nothing(void **state)
{
    stk__text t = everything();
    for (uint64_t n = 1;; n++) {
        stk__h5_file *file = NULL;
        stk_error err;
        stk_error_clear(&err);
        stk__alloc_fail_at(n, false);
        const stk_status status = stk__h5_parse((const uint8_t *)t.data, t.length, FILE_BYTES, &file, &err);
        stk__alloc_fail_at(0, false);
        if (status == STK_OK) {
            assert_int_equal(file->dataset_count, 5);
            stk__h5_file_free(file);
            assert_true(n > 20);
            break;
        }
        assert_int_equal(status, STK_NOMEM);
        assert_int_equal(err.status, STK_NOMEM);
    }
    stk__text_clear(&t);
}

/* A few bytes that stand for much memory: many datasets with a large element
 * each share their zeros. */
static void small_messages_do_not_take_much_memory(void **state)
{
    stk__text file = STK__TEXT_INIT;
    put_file_header(&file, FILE_BYTES, 7);
    for (int i = 0; i < 1000; i++) {
        stk__text t = BEGIN(STK__H5_LAYOUT_CONTIGUOUS, 1);
        PUT_NUMBERS(&t, STK__H5_DATASET_ELEMENT, STK__H5_MAX_ELEMENT_BYTES);
        put_leaf(&t, "", STK__H5_KIND_OPAQUE, 1, 0);
        put_message(&file, STK__H5_FILE_DATASET, &t);
    }
    stk__h5_file *out = NULL;
    assert_int_equal(stk__h5_parse((const uint8_t *)file.data, file.length, FILE_BYTES, &out, NULL), STK_OK);
    assert_true(out->memory < (size_t)100 << 20);
    stk__h5_file_free(out);
    stk__text_reset(&file);
    put_file_header(&file, FILE_BYTES, 7);
    for (int i = 0; i < STK__H5_MAX_DATASETS + 1; i++)
        stk__wire_put_bytes(&file, STK__H5_FILE_DATASET, "", 0);
    expect_file_error(&file, FILE_BYTES, "dataset is given too often: found 100001, wanted at most 100000");
    /* A million empty members would become half a gigabyte. */
    put_file_header(&file, FILE_BYTES, 7);
    for (int i = 0; i < 300; i++) {
        stk__text t = BEGIN(STK__H5_LAYOUT_CONTIGUOUS, 1);
        for (int k = 0; k < STK__H5_MAX_LEAVES; k++)
            put_leaf(&t, "", STK__H5_KIND_UINT, 1, 0);
        put_message(&file, STK__H5_FILE_DATASET, &t);
    }
    expect_file_error(&file, FILE_BYTES, "its description takes more than");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse_of_a_chunked_dataset_derives_its_grid),
        cmocka_unit_test(find_in_tables_with_and_without_gaps),
        cmocka_unit_test(contiguous_data_lies_in_place_in_blocks_of_rows),
        cmocka_unit_test(chunks_of_whole_rows_without_filters_lie_in_place),
        cmocka_unit_test(compact_data_is_kept_or_made_of_the_fill_value),
        cmocka_unit_test(scalars_and_empty_shapes_have_rows_and_blocks),
        cmocka_unit_test(bad_chunk_tables_are_refused),
        cmocka_unit_test(only_plain_shuffled_numbers_stay_shuffled),
        cmocka_unit_test(members_lie_inside_their_element),
        cmocka_unit_test(kinds_and_sizes_give_types),
        cmocka_unit_test(descriptors_of_variable_length_have_the_size_of_addresses),
        cmocka_unit_test(filters_that_are_unknown_leave_it_to_the_library),
        cmocka_unit_test(sizes_that_overflow_are_told_not_computed),
        cmocka_unit_test(layouts_of_other_files_are_left_to_the_library),
        cmocka_unit_test(datasets_that_make_no_sense_are_refused),
        cmocka_unit_test(attributes_hold_numbers_or_strings),
        cmocka_unit_test(headers_of_files_are_checked),
        cmocka_unit_test(cut_and_changed_messages_do_no_harm),
        cmocka_unit_test(parse_without_memory_fails_and_leaks_nothing),
        cmocka_unit_test(small_messages_do_not_take_much_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
