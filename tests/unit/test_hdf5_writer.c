/* Writing HDF5: what a field asks for beyond its numbers is in the file, and
 * what cannot be is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "formats/hdf5_writer.h"

#include "base/banned.h"

static char path[64];
static stk__h5_helper *helper;

static int setup(void **state)
{
    snprintf(path, sizeof path, "/tmp/stk-h5w-XXXXXX");
    return mkdtemp(path) && snprintf(path + strlen(path), 10, "/x.h5") > 0 &&
                   stk__h5_helper_new(&helper, NULL) == STK_OK
               ? 0
               : -1;
}

static int teardown(void **state)
{
    unlink(path);
    path[strlen(path) - 5] = 0;
    stk__h5_helper_free(helper);
    return rmdir(path); /* which fails when anything else was left there */
}

/* Writes batches of these fields; the columns stand in the same order. */
static stk_status write_all(const stk__h5_writer_config *config, const stk_batch *batches, size_t count, stk_error *err)
{
    size_t bytes = 0;
    stk__h5_writer *w = NULL;
    stk_error_clear(err);
    stk_status status = stk__h5_writer_measure(config, &bytes, err);
    if (status != STK_OK)
        return status;
    void *memory = stk__alloc_aligned(bytes);
    assert_non_null(memory);
    status = stk__h5_writer_open(config, memory, &w, err);
    for (size_t i = 0; i < count && status == STK_OK; i++)
        status = stk__h5_writer_add(w, &batches[i], err);
    if (status == STK_OK)
        status = stk__h5_writer_finish(w, err);
    stk__h5_writer_close(w);
    stk__free(memory);
    return status;
}

static stk_status write_one(const stk__h5_new *field, const stk_column *column, stk_error *err)
{
    const stk__h5_writer_config config = {
        .path = path, .fields = field, .field_count = 1, .threads = 2, .memory_wanted = SIZE_MAX};
    const stk_batch batch = {.rows = column->shape[0], .column_count = 1, .columns = column};
    return write_all(&config, &batch, 1, err);
}

static void write_or_fail(const stk__h5_new *field, const stk_column *column)
{
    stk_error error;
    if (write_one(field, column, &error) != STK_OK)
        fail_msg("%s: %s", error.field, error.message);
}

static stk__h5_file *look(void)
{
    stk__h5_file *file = NULL;
    stk_error error;
    stk_error_clear(&error);
    if (stk__h5_describe(helper, path, NULL, 0, &file, &error) != STK_OK)
        fail_msg("%s", error.message);
    return file;
}

static void assert_stored(const stk__h5_file *file, const stk__h5_dataset *d, const void *wanted, size_t size)
{
    stk_error error;
    uint8_t *heap = NULL, *rows = stk__calloc(1, size + 1);
    size_t heap_size;
    assert_non_null(rows);
    assert_int_equal((size_t)d->rows * d->row_bytes, size);
    if (stk__h5_library_rows(helper, file->path, d, 0, d->rows, 1 << 20, rows, &heap, &heap_size, &error) != STK_OK)
        fail_msg("%s", error.message);
    assert_memory_equal(rows, wanted, size);
    stk__free(rows);
    stk__free(heap);
}

static stk_column column_of(const char *name, stk_dtype dtype, const void *data, int64_t rows)
{
    return (stk_column){.name = name,
                        .dtype = dtype,
                        .ndim = 1,
                        .shape = {rows},
                        .data = data,
                        .elements = rows,
                        .size_bytes = rows * (int64_t)stk_dtype_size(dtype)};
}

/* ---- what is in the file ---- */

static void big_endian_numbers_are_stored_so(void **state)
{
    const uint32_t numbers[3] = {1, 0x01020304, 0xffffff00};
    const uint8_t wanted[12] = {0, 0, 0, 1, 1, 2, 3, 4, 0xff, 0xff, 0xff, 0};
    const stk__h5_filter filters[] = {{.id = STK__H5_SHUFFLE, .optional = true}, {.id = STK__H5_LZF, .optional = true}};
    const stk__h5_new field = {.name = (char *)(uintptr_t)"x",
                               .path = "/deep/er/x",
                               .dtype = STK_UINT32,
                               .kind = STK__H5_KIND_UINT,
                               .swap = true,
                               .chunk_rows = 2};
    const stk_column column = column_of("x", STK_UINT32, numbers, 3);
    write_or_fail(&field, &column);
    stk__h5_file *file = look();
    const stk__h5_dataset *d = &file->datasets[0];
    assert_string_equal(d->path, "/deep/er/x");
    assert_true(d->leaves[0].swap);
    assert_stored(file, d, wanted, sizeof wanted);
    stk__h5_file_free(file);
    /* The values of filters that hang on type and chunk are filled in. */
    stk__h5_new packed = field;
    packed.filters = filters;
    packed.filter_count = 2;
    write_or_fail(&packed, &column);
    file = look();
    d = &file->datasets[0];
    assert_int_equal(d->filter_count, 2);
    assert_int_equal(d->filters[0].values[0], 4);
    assert_int_equal(d->filters[1].value_count, 3);
    assert_int_equal(d->filters[1].values[2], 8);
    stk__h5_file_free(file);
}

static void fill_value_is_kept(void **state)
{
    const int16_t numbers[3] = {5, 6, 7};
    const uint8_t fill[2] = {0x12, 0x34};
    const stk__h5_new field = {
        .name = "x", .dtype = STK_INT16, .kind = STK__H5_KIND_INT, .chunk_rows = 2, .fill = fill, .fill_size = 2};
    const stk_column column = column_of("x", STK_INT16, numbers, 3);
    write_or_fail(&field, &column);
    stk__h5_file *file = look();
    assert_true(file->datasets[0].has_fill);
    assert_memory_equal(file->datasets[0].fill, fill, 2);
    assert_stored(file, &file->datasets[0], numbers, sizeof numbers);
    stk__h5_file_free(file);
}

static const stk__h5_attribute *attribute_of(const stk__h5_attribute *items, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(items[i].name, name) == 0)
            return &items[i];
    fail_msg("no attribute %s", name);
    return NULL;
}

static void attributes_are_kept(void **state)
{
    const double pi[2] = {3.25, -1};
    const int32_t one = 1;
    const uint8_t yes = 1;
    const stk_bytes words[2] = {{(const uint8_t *)"gr\xc3\xb6\xc3\x9f"
                                                  "er",
                                 8},
                                {(const uint8_t *)"", 0}};
    const stk__h5_attribute attributes[] = {
        {.name = (char *)(uintptr_t)"scale",
         .kind = STK__H5_KIND_FLOAT,
         .size = 8,
         .ndim = 1,
         .dims = {2},
         .count = 2,
         .data = (uint8_t *)(uintptr_t)pi},
        {.name = (char *)(uintptr_t)"one",
         .kind = STK__H5_KIND_INT,
         .size = 4,
         .count = 1,
         .data = (uint8_t *)(uintptr_t)&one,
         .big = true},
        {.name = (char *)(uintptr_t)"yes", .kind = STK__H5_KIND_BOOL, .size = 1, .count = 1, .data = (uint8_t *)(uintptr_t)&yes},
        {.name = (char *)(uintptr_t)"words",
         .kind = STK__H5_KIND_STRING,
         .ndim = 1,
         .dims = {2},
         .count = 2,
         .strings = (stk_bytes *)(uintptr_t)words,
         .utf8 = true},
    };
    const stk__h5_new field = {.name = (char *)(uintptr_t)"x",
                               .dtype = STK_UINT8,
                               .kind = STK__H5_KIND_UINT,
                               .attributes = attributes,
                               .attribute_count = STK_COUNT(attributes)};
    const stk_column column = column_of("x", STK_UINT8, "abc", 3);
    const stk_batch batch = {.rows = 3, .column_count = 1, .columns = &column};
    const stk__h5_writer_config config = {
        .path = path, .fields = &field, .field_count = 1, .attributes = attributes, .attribute_count = 1};
    stk_error error;
    if (write_all(&config, &batch, 1, &error) != STK_OK)
        fail_msg("%s", error.message);
    stk__h5_file *file = look();
    const stk__h5_dataset *d = &file->datasets[0];
    assert_int_equal(d->attribute_count, 4);
    assert_int_equal(file->attribute_count, 1);
    const stk__h5_attribute *scale = attribute_of(file->attributes, 1, "scale");
    assert_int_equal(scale->ndim, 1);
    assert_memory_equal(scale->data, pi, sizeof pi);
    assert_memory_equal(attribute_of(d->attributes, 4, "scale")->data, pi, sizeof pi);
    const stk__h5_attribute *number = attribute_of(d->attributes, 4, "one");
    assert_true(number->big);
    assert_memory_equal(number->data, &one, sizeof one);
    assert_int_equal(attribute_of(d->attributes, 4, "yes")->kind, STK__H5_KIND_BOOL);
    const stk__h5_attribute *texts = attribute_of(d->attributes, 4, "words");
    assert_true(texts->utf8);
    assert_int_equal(texts->count, 2);
    assert_int_equal(texts->strings[0].size, 8);
    assert_memory_equal(texts->strings[0].data, words[0].data, 8);
    assert_int_equal(texts->strings[1].size, 0);
    stk__h5_file_free(file);
}

static void strings_of_one_size_are_padded(void **state)
{
    static const struct {
        int kind, pad;
        const char *wanted;
    } cases[] = {
        {STK__H5_KIND_STRING, STK__H5_PAD_NUL_TERMINATED, "abc\0d\0\0\0\0\0\0\0"},
        {STK__H5_KIND_STRING, STK__H5_PAD_NUL, "abc\0d\0\0\0\0\0\0\0"},
        {STK__H5_KIND_STRING, STK__H5_PAD_SPACE, "abc d       "},
    };
    const stk_bytes values[3] = {{(const uint8_t *)"abc", 3}, {(const uint8_t *)"d", 1}, {NULL, 0}};
    const stk_column column = column_of("x", STK_BYTES, values, 3);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const stk__h5_new field = {
            .name = "x", .dtype = STK_BYTES, .kind = cases[i].kind, .size = 4, .pad = cases[i].pad, .chunk_rows = 2};
        write_or_fail(&field, &column);
        stk__h5_file *file = look();
        assert_int_equal(file->datasets[0].leaves[0].kind, cases[i].kind);
        assert_int_equal(file->datasets[0].leaves[0].pad, cases[i].pad);
        assert_stored(file, &file->datasets[0], cases[i].wanted, 12);
        stk__h5_file_free(file);
    }
}

static void opaque_values_are_stored_as_they_are(void **state)
{
    const stk_bytes values[2] = {{(const uint8_t *)"a\0c", 3}, {(const uint8_t *)"\xff\0\0", 3}};
    const stk_column column = column_of("x", STK_BYTES, values, 2);
    const stk__h5_new field = {.name = (char *)(uintptr_t)"x", .dtype = STK_BYTES, .kind = STK__H5_KIND_OPAQUE, .size = 3};
    write_or_fail(&field, &column);
    stk__h5_file *file = look();
    assert_int_equal(file->datasets[0].leaves[0].kind, STK__H5_KIND_OPAQUE);
    assert_stored(file, &file->datasets[0], "a\0c\xff\0\0", 6);
    stk__h5_file_free(file);
}

/* Memory has them little-endian; libhdf5 turns them round. */
static void big_endian_sequences(void **state)
{
    const uint16_t numbers[4] = {1, 2, 3, 4};
    const int64_t offsets[4] = {0, 3, 3, 4};
    stk_column column = column_of("x", STK_UINT16, numbers, 3);
    column.ndim = 2;
    column.shape[1] = -1;
    column.offsets = offsets;
    const stk__h5_new field = {.name = (char *)(uintptr_t)"x", .dtype = STK_UINT16, .kind = STK__H5_KIND_VLEN, .swap = true};
    write_or_fail(&field, &column);
    stk__h5_file *file = look();
    const stk__h5_leaf *leaf = &file->datasets[0].leaves[0];
    assert_int_equal(leaf->kind, STK__H5_KIND_VLEN);
    assert_int_equal(leaf->base_size, 2);
    assert_true(leaf->base_swap);
    stk__h5_file_free(file);
}

/* ---- what goes wrong ---- */

static void assert_refuses(const stk__h5_new *field, const stk_column *column, const char *part)
{
    stk_error error;
    assert_int_equal(write_one(field, column, &error), STK_INVALID);
    if (!strstr(error.message, part))
        fail_msg("'%s' is not in '%s'", part, error.message);
    assert_string_equal(error.field, "x");
    assert_string_equal(error.file, path);
    assert_int_equal(access(path, F_OK), -1);
}

static void values_that_do_not_fit_are_told(void **state)
{
    const stk_bytes values[2] = {{(const uint8_t *)"ab", 2}, {(const uint8_t *)"abcd", 4}};
    const stk_column column = column_of("x", STK_BYTES, values, 2);
    stk__h5_new field = {.name = (char *)(uintptr_t)"x", .dtype = STK_BYTES, .kind = STK__H5_KIND_STRING, .size = 4};
    assert_refuses(&field, &column, "a value of 4 bytes, wanted at most 3");
    field.pad = STK__H5_PAD_NUL;
    field.size = 3;
    assert_refuses(&field, &column, "a value of 4 bytes, wanted at most 3");
    field.kind = STK__H5_KIND_OPAQUE;
    field.size = 4;
    assert_refuses(&field, &column, "a value of 2 bytes, wanted 4");
    const stk_column numbers = column_of("x", STK_INT32, "abcdefgh", 2);
    assert_refuses(&field, &numbers, "rows of int32[], wanted bytes[]");
    const stk_column other = column_of("y", STK_BYTES, values, 2);
    assert_refuses(&field, &other, "the batch has no such field");
}

static void fields_that_make_no_dataset_are_refused(void **state)
{
    static const stk__h5_new fields[] = {
        {.name = (char *)(uintptr_t)"x", .dtype = STK_INT32, .kind = STK__H5_KIND_FLOAT},
        {.name = (char *)(uintptr_t)"x", .dtype = STK_BYTES, .kind = STK__H5_KIND_INT},
        {.name = (char *)(uintptr_t)"x", .dtype = STK_BYTES, .kind = STK__H5_KIND_STRING, .size = 0},
        {.name = (char *)(uintptr_t)"x", .dtype = STK_FLOAT32, .kind = STK__H5_KIND_VLEN, .ndim = 1, .shape = {2}},
        {.name = (char *)(uintptr_t)"x", .dtype = STK_FLOAT32, .kind = STK__H5_KIND_FLOAT, .ndim = 1, .shape = {-1}},
        {.name = (char *)(uintptr_t)"x", .dtype = STK_FLOAT32, .kind = STK__H5_KIND_FLOAT, .ndim = 2, .shape = {INT64_MAX, 3}},
        {.name = (char *)(uintptr_t)"x", .dtype = STK_FLOAT32, .kind = STK__H5_KIND_FLOAT, .ndim = 1, .shape = {1 << 29}},
        {.name = (char *)(uintptr_t)"x", .dtype = STK_FLOAT32, .kind = STK__H5_KIND_FLOAT, .chunk_rows = INT64_MAX},
        {.name = (char *)(uintptr_t)"x", .dtype = STK_FLOAT32, .kind = STK__H5_KIND_FLOAT, .chunk_rows = -1},
        {.name = (char *)(uintptr_t)"x", .dtype = STK_FLOAT32, .kind = STK__H5_KIND_FLOAT, .fill = (const uint8_t *)"ab", .fill_size = 2},
        {.name = (char *)(uintptr_t)"x", .dtype = STK_FLOAT32, .kind = STK__H5_KIND_FLOAT, .filter_count = 33},
    };
    size_t bytes;
    stk_error error;
    for (size_t i = 0; i < STK_COUNT(fields); i++) {
        const stk__h5_writer_config config = {.path = path, .fields = &fields[i], .field_count = 1};
        stk_error_clear(&error);
        assert_int_equal(stk__h5_writer_measure(&config, &bytes, &error), STK_INVALID);
        assert_string_equal(error.field, "x");
        assert_true(error.message[0]);
        assert_int_equal(stk__h5_writer_measure(&config, &bytes, NULL), STK_INVALID);
    }
}

/* A dataset cannot lie in another one; it is libhdf5 that finds out. */
static void what_libhdf5_refuses_is_told(void **state)
{
    const stk__h5_new fields[2] = {{.name = (char *)(uintptr_t)"x", .path = "/a", .dtype = STK_INT32, .kind = STK__H5_KIND_INT},
                                   {.name = (char *)(uintptr_t)"y", .path = "/a/b", .dtype = STK_INT32, .kind = STK__H5_KIND_INT}};
    const stk_column columns[2] = {column_of("x", STK_INT32, "abcdefgh", 2), column_of("y", STK_INT32, "abcdefgh", 2)};
    const stk_batch batch = {.rows = 2, .column_count = 2, .columns = columns};
    const stk__h5_writer_config config = {.path = path, .fields = fields, .field_count = 2};
    stk_error error;
    assert_int_equal(write_all(&config, &batch, 1, &error), STK_IO);
    assert_non_null(strstr(error.message, "cannot make dataset '/a/b'"));
    assert_string_equal(error.file, path);
    assert_int_equal(access(path, F_OK), -1);
}

static void filter_that_cannot_be_applied_is_told(void **state)
{
    const stk__h5_filter filter = {.id = STK__H5_SZIP};
    const stk__h5_new field = {.name = (char *)(uintptr_t)"x",
                               .dtype = STK_INT32,
                               .kind = STK__H5_KIND_INT,
                               .chunk_rows = 1,
                               .filters = &filter,
                               .filter_count = 1};
    const stk_column column = column_of("x", STK_INT32, "abcdefgh", 2);
    stk_error error;
    assert_true(write_one(&field, &column, &error) != STK_OK);
    assert_string_equal(error.file, path);
    assert_int_equal(access(path, F_OK), -1);
}

#define WRITER_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WRITER_TEST(big_endian_numbers_are_stored_so),
        WRITER_TEST(fill_value_is_kept),
        WRITER_TEST(attributes_are_kept),
        WRITER_TEST(strings_of_one_size_are_padded),
        WRITER_TEST(opaque_values_are_stored_as_they_are),
        WRITER_TEST(big_endian_sequences),
        WRITER_TEST(values_that_do_not_fit_are_told),
        WRITER_TEST(fields_that_make_no_dataset_are_refused),
        WRITER_TEST(what_libhdf5_refuses_is_told),
        WRITER_TEST(filter_that_cannot_be_applied_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
