/* Rows out of chunks: every geometry against copies value by value, fill values, padded strings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "formats/hdf5.h"

static uint64_t random_state;

static int64_t random_in(int64_t low, int64_t high)
{
    return low + (int64_t)(stk__mix(random_state++, 17) % (uint64_t)(high - low + 1));
}

static uint8_t *random_bytes(size_t size)
{
    uint8_t *p = stk__alloc(size);
    assert_non_null(p);
    for (size_t i = 0; i < size; i++)
        p[i] = (uint8_t)random_in(0, 255);
    return p;
}

/* ---- datasets by hand ---- */

static void set_element(stk__h5_dataset *d, stk__h5_leaf *leaf, int kind, size_t size)
{
    *d = (stk__h5_dataset){.leaves = leaf, .leaf_count = 1, .element_bytes = size};
    *leaf = (stk__h5_leaf){.kind = kind, .size = size, .count = 1, .whole = true};
}

static void set_shape(stk__h5_dataset *d, int32_t rank, const int64_t *dims, const int64_t *chunk)
{
    d->rank = rank;
    d->rows = rank ? dims[0] : 1;
    d->row_elements = d->across = 1;
    d->chunk_elements = rank ? (size_t)chunk[0] : 1;
    for (int32_t i = 0; i < rank; i++) {
        d->dims[i] = dims[i];
        d->chunk_dims[i] = chunk[i];
        d->grid[i] = (dims[i] + chunk[i] - 1) / chunk[i];
        if (i > 0) {
            d->row_elements *= dims[i];
            d->across *= d->grid[i];
            d->chunk_elements *= (size_t)chunk[i];
        }
    }
    d->row_bytes = (size_t)d->row_elements * d->element_bytes;
    d->block_rows = rank ? chunk[0] : 1;
    d->blocks = rank ? d->grid[0] : 1;
    d->chunk_bytes = d->chunk_elements * d->element_bytes;
    d->way = STK__H5_BY_CHUNK;
}

/* A leaf inside `ndim` arrays, with gaps of up to `gap` bytes around everything. */
static void set_random_leaf(stk__h5_dataset *d, stk__h5_leaf *leaf, int32_t ndim, int64_t gap)
{
    static const size_t sizes[] = {1, 2, 4, 8};
    const bool text = random_in(0, 4) == 0;
    const int kind = text ? STK__H5_KIND_STRING : STK__H5_KIND_UINT;
    set_element(d, leaf, kind, text ? (size_t)random_in(1, 40) : sizes[random_in(0, 3)]);
    leaf->swap = random_in(0, 1);
    leaf->offset = (size_t)random_in(0, gap);
    leaf->whole = gap == 0;
    leaf->ndim = ndim;
    size_t extent = leaf->size;
    for (int32_t i = ndim - 1; i >= 0; i--) {
        leaf->dims[i] = random_in(1, 4);
        leaf->strides[i] = (int64_t)extent + random_in(0, gap);
        leaf->count *= leaf->dims[i];
        extent += (size_t)(leaf->strides[i] * (leaf->dims[i] - 1));
    }
    d->element_bytes = leaf->offset + extent + (size_t)random_in(0, gap);
}

/* ---- the slow way ---- */

static uint8_t byte_of(const stk__h5_dataset *d, const uint8_t *chunk, bool shuffled, int64_t element, size_t at)
{
    return shuffled ? chunk[at * d->chunk_elements + (size_t)element] : chunk[(size_t)element * d->element_bytes + at];
}

/* All values of one element, wherever it lies in a chunk or a row. */
static void take_element(const stk__h5_dataset *d, const stk__h5_leaf *leaf, const uint8_t *data, bool shuffled,
                         int64_t element, uint8_t *out)
{
    const bool swap = leaf->swap && leaf->kind != STK__H5_KIND_STRING;
    for (int64_t v = 0; v < leaf->count; v++) {
        size_t at = leaf->offset;
        int64_t rest = v;
        for (int32_t i = leaf->ndim - 1; i >= 0; i--) {
            at += (size_t)(rest % leaf->dims[i] * leaf->strides[i]);
            rest /= leaf->dims[i];
        }
        for (size_t b = 0; b < leaf->size; b++)
            out[(size_t)v * leaf->size + b] = byte_of(d, data, shuffled, element, at + (swap ? leaf->size - 1 - b : b));
    }
}

/* Where element `e` of row `row` lies in chunk `number`; -1: in another. */
static int64_t element_in_chunk(const stk__h5_dataset *d, uint64_t number, int64_t row, int64_t e)
{
    int64_t index[STK__H5_MAX_RANK], in_chunk = 0;
    uint64_t holder = 0;
    for (int32_t i = d->rank - 1; i >= 1; i--) {
        index[i] = e % d->dims[i];
        e /= d->dims[i];
    }
    index[0] = row;
    for (int32_t i = 0; i < d->rank; i++) {
        holder = holder * (uint64_t)d->grid[i] + (uint64_t)(index[i] / d->chunk_dims[i]);
        in_chunk = in_chunk * d->chunk_dims[i] + index[i] % d->chunk_dims[i];
    }
    return holder == number ? in_chunk : -1;
}

static void take_slowly(const stk__h5_dataset *d, const stk__h5_leaf *leaf, uint64_t number, const uint8_t *chunk,
                        bool plain, int64_t row, int64_t rows, uint8_t *out, size_t out_stride)
{
    const bool shuffled = d->keep_shuffled && !plain;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t e = 0; e < d->row_elements; e++) {
            const int64_t at = element_in_chunk(d, number, row + r, e);
            if (at >= 0)
                take_element(d, leaf, chunk, shuffled, at,
                             out + (size_t)r * out_stride + (size_t)(e * leaf->count) * leaf->size);
        }
    }
}

/* ---- comparing ---- */

static size_t row_size(const stk__h5_dataset *d, const stk__h5_leaf *leaf)
{
    return (size_t)(d->row_elements * leaf->count) * leaf->size;
}

/* Rows [row, row + rows) of a block out of all chunks that hold parts of them, through both. */
static void compare_rows(const stk__h5_dataset *d, int64_t row, int64_t rows, size_t more)
{
    const stk__h5_leaf *leaf = &d->leaves[0];
    const size_t stride = row_size(d, leaf) + more, size = (size_t)(rows - 1) * stride + row_size(d, leaf);
    const bool plain = random_in(0, 3) == 0;
    uint8_t *found = stk__alloc(size), *wanted = stk__alloc(size);
    assert_true(found && wanted);
    memset(found, 0xa5, size);
    memset(wanted, 0xa5, size);
    for (int64_t i = 0; i < d->across; i++) {
        const uint64_t number = (uint64_t)(row / d->block_rows * d->across + i);
        uint8_t *chunk = random_bytes(d->chunk_bytes);
        stk__h5_take(d, leaf, number, chunk, plain, row, rows, found, stride);
        take_slowly(d, leaf, number, chunk, plain, row, rows, wanted, stride);
        assert_memory_equal(found, wanted, size);
        stk__free(chunk);
    }
    stk__free(found);
    stk__free(wanted);
}

/* Some rows of each block; all chunks are whole, at the edges too. */
static void compare_dataset(const stk__h5_dataset *d)
{
    for (int64_t block = 0; block < d->blocks; block++) {
        const int64_t first = block * d->block_rows, end = STK_MIN(first + d->block_rows, d->rows);
        const int64_t row = random_in(first, end - 1);
        compare_rows(d, first, end - first, 0);
        compare_rows(d, row, random_in(1, end - row), (size_t)random_in(0, 20));
    }
}

static void compare_random(int32_t ndim, int64_t gap)
{
    stk__h5_dataset d;
    stk__h5_leaf leaf;
    int64_t dims[5], chunk[5];
    const int32_t rank = (int32_t)random_in(1, 5);
    const int64_t most = rank > 3 ? 4 : 9;
    for (int32_t i = 0; i < rank; i++) {
        dims[i] = random_in(1, most);
        chunk[i] = random_in(0, 2) ? random_in(1, most + 2) : dims[i];
    }
    set_random_leaf(&d, &leaf, ndim, gap);
    set_shape(&d, rank, dims, chunk);
    d.keep_shuffled = leaf.whole && random_in(0, 1);
    compare_dataset(&d);
}

/* ---- chunks ---- */

static void take_from_chunks_of_whole_elements(void **state)
{
    for (random_state = 1; random_state < 1500000;)
        compare_random(0, 0);
}

static void take_from_chunks_of_packed_arrays(void **state)
{
    for (random_state = 1ull << 32; random_state < (1ull << 32) + 2500000;)
        compare_random((int32_t)random_in(1, 3), 0);
}

static void take_of_members_of_compounds(void **state)
{
    for (random_state = 2ull << 32; random_state < (2ull << 32) + 4000000;)
        compare_random((int32_t)random_in(0, 3), random_in(1, 9));
}

/* Long enough for more than one block of the copies that go in two steps. */
static void take_from_large_chunks(void **state)
{
    static const struct {
        int64_t dims[3], chunk[3];
    } cases[] = {
        {{3000, 10, 1}, {3000, 10, 1}}, {{5000, 1, 1}, {2048, 1, 1}}, {{2500, 9, 1}, {2500, 1, 1}},
        {{2500, 7, 1}, {2500, 2, 1}},   {{40, 33, 21}, {16, 8, 21}},  {{40, 33, 21}, {16, 33, 5}},
        {{20, 700, 1}, {8, 300, 1}},    {{900, 1, 5}, {500, 3, 8}},   {{1, 5000, 3}, {1, 5000, 3}},
    };
    static const size_t sizes[] = {1, 2, 4, 8};
    random_state = 3ull << 32;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        for (int kind = 0; kind < 16; kind++) {
            stk__h5_dataset d;
            stk__h5_leaf leaf;
            set_element(&d, &leaf, STK__H5_KIND_FLOAT, sizes[kind & 3]);
            set_shape(&d, 3, cases[i].dims, cases[i].chunk);
            leaf.swap = kind & 4;
            d.keep_shuffled = kind & 8;
            compare_rows(&d, 0, STK_MIN(d.rows, d.block_rows), 0);
            compare_rows(&d, 0, STK_MIN(d.rows, d.block_rows), 3);
        }
    }
}

static void take_of_the_highest_rank(void **state)
{
    stk__h5_dataset d;
    stk__h5_leaf leaf;
    int64_t dims[STK__H5_MAX_RANK], chunk[STK__H5_MAX_RANK];
    random_state = 4ull << 32;
    for (int i = 0; i < STK__H5_MAX_RANK; i++) {
        dims[i] = i % 5 == 3 ? 3 : 1;
        chunk[i] = i % 5 == 3 || i % 11 == 0 ? 2 : 1;
    }
    set_element(&d, &leaf, STK__H5_KIND_INT, 2);
    leaf.ndim = STK__H5_MAX_RANK;
    for (int i = STK__H5_MAX_RANK - 1; i >= 0; i--) {
        leaf.dims[i] = i % 8 == 0 ? 2 : 1;
        leaf.strides[i] = (int64_t)d.element_bytes + 1;
        d.element_bytes = (size_t)(leaf.strides[i] * (leaf.dims[i] - 1)) + d.element_bytes;
        leaf.count *= leaf.dims[i];
    }
    leaf.whole = false;
    set_shape(&d, STK__H5_MAX_RANK, dims, chunk);
    compare_dataset(&d);
}

static void take_of_rows_without_elements_writes_nothing(void **state)
{
    stk__h5_dataset d;
    stk__h5_leaf leaf;
    uint8_t out[4] = {1, 2, 3, 4};
    set_element(&d, &leaf, STK__H5_KIND_INT, 4);
    set_shape(&d, 3, (const int64_t[]){5, 0, 2}, (const int64_t[]){2, 3, 2});
    stk__h5_take(&d, &leaf, 0, out, false, 0, 2, out, 0);
    stk__h5_take_rows(&d, &leaf, out, 2, out, 0);
    set_shape(&d, 1, (const int64_t[]){5}, (const int64_t[]){2});
    stk__h5_take(&d, &leaf, 0, out, false, 0, 0, out, 4);
    stk__h5_take_rows(&d, &leaf, out, 0, out, 4);
    assert_memory_equal(out, "\1\2\3\4", 4);
}

static void take_of_big_endian_numbers_turns_them_round(void **state)
{
    static const uint8_t chunk[] = {0, 1, 0, 2, 1, 3}, planes[] = {0, 0, 1, 1, 2, 3};
    static const uint8_t wanted[] = {1, 0, 2, 0, 3, 1};
    stk__h5_dataset d;
    stk__h5_leaf leaf;
    uint8_t out[6];
    set_element(&d, &leaf, STK__H5_KIND_INT, 2);
    set_shape(&d, 1, (const int64_t[]){3}, (const int64_t[]){3});
    leaf.swap = d.keep_shuffled = true;
    stk__h5_take(&d, &leaf, 0, chunk, true, 0, 3, out, 2);
    assert_memory_equal(out, wanted, 6);
    memset(out, 0, sizeof out);
    stk__h5_take(&d, &leaf, 0, planes, false, 0, 3, out, 2);
    assert_memory_equal(out, wanted, 6);
}

/* ---- stored rows ---- */

static void compare_stored(int32_t ndim, int64_t gap)
{
    stk__h5_dataset d;
    stk__h5_leaf leaf;
    int64_t dims[4];
    const int32_t rank = (int32_t)random_in(0, 4);
    for (int32_t i = 0; i < rank; i++)
        dims[i] = random_in(1, 6);
    set_random_leaf(&d, &leaf, ndim, gap);
    set_shape(&d, rank, dims, dims);
    d.way = STK__H5_BY_PLACE;
    const int64_t rows = random_in(1, d.rows);
    const size_t stride = row_size(&d, &leaf) + (size_t)random_in(0, 9);
    const size_t size = (size_t)(rows - 1) * stride + row_size(&d, &leaf);
    uint8_t *data = random_bytes((size_t)rows * d.row_bytes), *found = stk__alloc(size), *wanted = stk__alloc(size);
    assert_true(found && wanted);
    memset(found, 0xa5, size);
    memset(wanted, 0xa5, size);
    stk__h5_take_rows(&d, &leaf, data, rows, found, stride);
    for (int64_t i = 0; i < rows * d.row_elements; i++)
        take_element(&d, &leaf, data, false, i,
                     wanted + (size_t)(i / d.row_elements) * stride +
                         (size_t)(i % d.row_elements * leaf.count) * leaf.size);
    assert_memory_equal(found, wanted, size);
    stk__free(data);
    stk__free(found);
    stk__free(wanted);
}

static void take_rows_of_every_shape(void **state)
{
    for (random_state = 5ull << 32; random_state < (5ull << 32) + 1000000;)
        compare_stored((int32_t)random_in(0, 3), random_in(0, 2) * 3);
}

/* ---- fill values and strings ---- */

static void fill_repeats_the_fill_value(void **state)
{
    random_state = 6ull << 32;
    for (size_t size = 1; size < 40; size++) {
        for (size_t n = 0; n < 5000; n = n * 3 + 1) {
            uint8_t *fill = random_bytes(size), *out = stk__alloc(n * size);
            const stk__h5_dataset d = {.element_bytes = size, .fill = fill};
            assert_non_null(out);
            if (size % 3 == 0)
                memset(fill, 7, size);
            stk__h5_fill(&d, out, n);
            for (size_t i = 0; i < n; i++)
                assert_memory_equal(out + i * size, fill, size);
            stk__free(fill);
            stk__free(out);
        }
    }
}

static void string_length_leaves_the_padding_out(void **state)
{
    static const struct {
        int pad;
        const char *data;
        size_t wanted;
    } cases[] = {
        {STK__H5_PAD_NUL_TERMINATED, "ab\0cd\0", 2},
        {STK__H5_PAD_NUL_TERMINATED, "abcdef", 6},
        {STK__H5_PAD_NUL_TERMINATED, "\0bcdef", 0},
        {STK__H5_PAD_NUL, "ab\0cd\0", 5},
        {STK__H5_PAD_NUL, "abcdef", 6},
        {STK__H5_PAD_NUL, "\0\0\0\0\0", 0},
        {STK__H5_PAD_NUL, "ab   ", 5},
        {STK__H5_PAD_SPACE, "ab c  ", 4},
        {STK__H5_PAD_SPACE, "      ", 0},
        {STK__H5_PAD_SPACE, "a\0    ", 2},
        {STK__H5_PAD_SPACE, "abcdef", 6},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const stk__h5_leaf leaf = {.kind = STK__H5_KIND_STRING, .size = 6, .pad = cases[i].pad};
        assert_int_equal(stk__h5_string_length(&leaf, (const uint8_t *)cases[i].data), cases[i].wanted);
    }
    const stk__h5_leaf opaque = {.kind = STK__H5_KIND_OPAQUE, .size = 6};
    assert_int_equal(stk__h5_string_length(&opaque, (const uint8_t *)"a\0\0\0\0"), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(take_from_chunks_of_whole_elements),
        cmocka_unit_test(take_from_chunks_of_packed_arrays),
        cmocka_unit_test(take_of_members_of_compounds),
        cmocka_unit_test(take_from_large_chunks),
        cmocka_unit_test(take_of_the_highest_rank),
        cmocka_unit_test(take_of_rows_without_elements_writes_nothing),
        cmocka_unit_test(take_of_big_endian_numbers_turns_them_round),
        cmocka_unit_test(take_rows_of_every_shape),
        cmocka_unit_test(fill_repeats_the_fill_value),
        cmocka_unit_test(string_length_leaves_the_padding_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
