/* write_hdf5: what libhdf5 reads is what was written; the file appears whole or not at all. */
#include "harness.h"

#include "base/file.h"
#include "base/mem.h"
#include "formats/hdf5.h"

/* ---- the file as libhdf5 sees it ---- */

static stk__h5_helper *helper;

static int group_setup(void **state)
{
    return stk__h5_helper_new(&helper, NULL) == STK_OK ? 0 : -1;
}

static int group_teardown(void **state)
{
    stk__h5_helper_free(helper);
    return 0;
}

static stk__h5_file *look_at(const char *name)
{
    stk__h5_file *file = NULL;
    stk_error error;
    stk_error_clear(&error);
    if (stk__h5_describe(helper, in_dir(name), NULL, 0, &file, &error) != STK_OK)
        fail_msg("%s: %s", name, error.message);
    return file;
}

static const stk__h5_dataset *dataset_of(const stk__h5_file *file, const char *path)
{
    for (size_t i = 0; i < file->dataset_count; i++)
        if (strcmp(file->datasets[i].path, path) == 0)
            return &file->datasets[i];
    fail_msg("no dataset %s", path);
    return NULL;
}

/* All rows; to be freed. Values of variable length point into *out_heap. */
static uint8_t *rows_of(const stk__h5_file *file, const stk__h5_dataset *d, uint8_t **out_heap, size_t *out_heap_size)
{
    stk_error error;
    stk_error_clear(&error);
    uint8_t *rows = stk__alloc((size_t)d->rows * d->row_bytes + 1);
    assert_non_null(rows);
    if (stk__h5_library_rows(helper, file->path, d, 0, d->rows, 1 << 24, rows, out_heap, out_heap_size, &error) !=
        STK_OK)
        fail_msg("%s: %s", d->path, error.message);
    return rows;
}

static void assert_dataset(const stk__h5_file *file, const char *path, const void *wanted, size_t size)
{
    const stk__h5_dataset *d = dataset_of(file, path);
    uint8_t *heap = NULL;
    size_t heap_size = 0;
    uint8_t *rows = rows_of(file, d, &heap, &heap_size);
    assert_int_equal((size_t)d->rows * d->row_bytes, size);
    assert_memory_equal(rows, wanted, size);
    stk__free(rows);
    stk__free(heap);
}

static void assert_shape(const stk__h5_dataset *d, int32_t rank, int64_t rows, int64_t second, int64_t chunk_rows)
{
    assert_int_equal(d->layout, STK__H5_LAYOUT_CHUNKED);
    assert_int_equal(d->rank, rank);
    assert_int_equal(d->dims[0], rows);
    assert_true(d->max_dims[0] == UINT64_MAX);
    assert_int_equal(d->chunk_dims[0], chunk_rows);
    if (rank > 1) {
        assert_int_equal(d->dims[1], second);
        assert_true(d->max_dims[1] == (uint64_t)second);
        assert_int_equal(d->chunk_dims[1], second);
    }
}

static void run_text(const char *text, const stk_config *config)
{
    seen s;
    run_all(text, config, &s);
    seen_clear(&s);
}

/* ---- what is written ---- */

static void write_makes_a_dataset_of_each_field(void **state)
{
    int64_t values[50];
    float halves[50], pairs[50][2];
    for (int i = 0; i < 50; i++) {
        values[i] = i;
        halves[i] = (float)i / 2;
        pairs[i][0] = (float)i;
        pairs[i][1] = (float)-i;
    }
    write_examples("in", STK__PLAIN, 0, 50);
    run_text("tfrecord(\"$D/in\") | parse(value=int64, half=float32, pair=float32[2]) | batch(7) | "
             "write_hdf5(\"$D/deep/er/out.h5\", chunk=16, gzip=4, fletcher32=true)",
             NULL);
    stk__h5_file *file = look_at("deep/er/out.h5");
    assert_int_equal(file->dataset_count, 3);
    assert_shape(dataset_of(file, "/value"), 1, 50, 0, 16);
    assert_shape(dataset_of(file, "/pair"), 2, 50, 2, 16);
    assert_dataset(file, "/value", values, sizeof values);
    assert_dataset(file, "/half", halves, sizeof halves);
    assert_dataset(file, "/pair", pairs, sizeof pairs);
    const stk__h5_dataset *d = dataset_of(file, "/pair");
    assert_int_equal(d->filter_count, 3);
    assert_int_equal(d->filters[0].id, STK__H5_SHUFFLE);
    assert_int_equal(d->filters[0].values[0], 4);
    assert_int_equal(d->filters[1].id, STK__H5_DEFLATE);
    assert_int_equal(d->filters[2].id, STK__H5_FLETCHER32);
    stk__h5_file_free(file);
}

static void write_keeps_every_type_of_number(void **state)
{
    static const struct {
        const char *name;
        int kind;
        size_t size;
        uint8_t three[8]; /* the number 3 */
    } types[] = {
        {"bool", STK__H5_KIND_BOOL, 1, {1}},
        {"uint8", STK__H5_KIND_UINT, 1, {3}},
        {"int8", STK__H5_KIND_INT, 1, {3}},
        {"uint16", STK__H5_KIND_UINT, 2, {3}},
        {"int16", STK__H5_KIND_INT, 2, {3}},
        {"uint32", STK__H5_KIND_UINT, 4, {3}},
        {"int32", STK__H5_KIND_INT, 4, {3}},
        {"uint64", STK__H5_KIND_UINT, 8, {3}},
        {"int64", STK__H5_KIND_INT, 8, {3}},
        {"float16", STK__H5_KIND_FLOAT, 2, {0, 0x42}},
        {"bfloat16", STK__H5_KIND_BFLOAT, 2, {0x40, 0x40}},
        {"float32", STK__H5_KIND_FLOAT, 4, {0, 0, 0x40, 0x40}},
        {"float64", STK__H5_KIND_FLOAT, 8, {0, 0, 0, 0, 0, 0, 8, 0x40}},
    };
    char text[160];
    for (size_t i = 0; i < STK_COUNT(types); i++) {
        snprintf(text, sizeof text, "range(4) | cast(value=%s) | write_hdf5(\"$D/out.h5\", gzip=1)", types[i].name);
        run_text(text, NULL);
        stk__h5_file *file = look_at("out.h5");
        const stk__h5_dataset *d = &file->datasets[0];
        assert_int_equal(d->leaf_count, 1);
        assert_int_equal(d->leaves[0].kind, types[i].kind);
        assert_int_equal(d->leaves[0].size, types[i].size);
        uint8_t *heap;
        size_t heap_size;
        uint8_t *rows = rows_of(file, d, &heap, &heap_size);
        assert_memory_equal(rows + 3 * types[i].size, types[i].three, types[i].size);
        stk__free(rows);
        stk__h5_file_free(file);
    }
}

static const char *bytes_at(const uint8_t *rows, const uint8_t *heap, size_t heap_size, int64_t row, size_t unit,
                            size_t *out_size)
{
    const uint8_t *data = NULL;
    stk_error error;
    assert_int_equal(stk__h5_inline_get(heap, heap_size, rows + row * 16, unit, &data, out_size, &error), STK_OK);
    return (const char *)data;
}

static void write_makes_sequences_and_strings(void **state)
{
    write_examples("in", STK__PLAIN, 0, 20);
    run_text("tfrecord(\"$D/in\") | parse(name=bytes, many=int64[]) | batch(6) | write_hdf5(\"$D/out.h5\", chunk=8)",
             NULL);
    stk__h5_file *file = look_at("out.h5");
    const stk__h5_dataset *names = dataset_of(file, "/name"), *many = dataset_of(file, "/many");
    assert_int_equal(names->leaves[0].kind, STK__H5_KIND_VLEN_STRING);
    assert_int_equal(many->leaves[0].kind, STK__H5_KIND_VLEN);
    assert_shape(names, 1, 20, 0, 8);
    assert_shape(many, 1, 20, 0, 8);
    uint8_t *heap;
    size_t heap_size, size;
    uint8_t *rows = rows_of(file, names, &heap, &heap_size);
    char name[16];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "n%d", i);
        const char *found = bytes_at(rows, heap, heap_size, i, 1, &size);
        assert_int_equal(size, strlen(name));
        assert_memory_equal(found, name, size);
    }
    stk__free(rows);
    stk__free(heap);
    rows = rows_of(file, many, &heap, &heap_size);
    for (int64_t i = 0; i < 20; i++) {
        const int64_t wanted[2] = {i, i + 1};
        const char *found = bytes_at(rows, heap, heap_size, i, 8, &size);
        assert_int_equal(size, (size_t)(i % 3) * 8);
        if (size)
            assert_memory_equal(found, wanted, size);
    }
    stk__free(rows);
    stk__free(heap);
    stk__h5_file_free(file);
}

static void write_of_no_samples_makes_empty_datasets(void **state)
{
    run_text("range(0) | write_hdf5(\"$D/out.h5\", chunk=3)", NULL);
    stk__h5_file *file = look_at("out.h5");
    assert_shape(dataset_of(file, "/value"), 1, 0, 0, 3);
    stk__h5_file_free(file);
}

static void write_of_few_samples_makes_a_small_file(void **state)
{
    run_text("range(5) | write_hdf5(\"$D/out.h5\")", NULL);
    stk__h5_file *file = look_at("out.h5");
    assert_shape(dataset_of(file, "/value"), 1, 5, 0, 5);
    assert_true(file->id.size_bytes < 8192);
    stk__h5_file_free(file);
}

static void assert_same_file(const char *name, const char *first, size_t first_size)
{
    char *data;
    size_t size;
    assert_int_equal(stk__read_file(in_dir(name), 1 << 26, &data, &size, NULL), STK_OK);
    assert_int_equal(size, first_size);
    assert_memory_equal(data, first, size);
    stk__free(data);
}

static void write_makes_the_same_file_with_any_threads_and_batches(void **state)
{
    static const int threads[] = {1, 2, 8};
    static const int batches[] = {1, 13, 500};
    char text[256];
    char *first = NULL;
    size_t first_size = 0;
    write_examples("in", STK__PLAIN, 0, 300);
    for (size_t i = 0; i < STK_COUNT(threads) * STK_COUNT(batches); i++) {
        stk_config config = harness_config();
        config.threads = threads[i % 3];
        snprintf(text, sizeof text,
                 "tfrecord(\"$D/in\") | parse(value=int64, pair=float32[2], name=bytes, many=int64[]) | batch(%d) | "
                 "write_hdf5(\"$D/out.h5\", chunk=4, zstd=3)",
                 batches[i / 3]);
        run_text(text, &config);
        if (!first)
            assert_int_equal(stk__read_file(in_dir("out.h5"), 1 << 26, &first, &first_size, NULL), STK_OK);
        assert_same_file("out.h5", first, first_size);
    }
    stk__free(first);
}

/* ---- what goes wrong ---- */

static void write_leaves_nothing_without_finish(void **state)
{
    seen s;
    run_some("range(1000) | batch(100) | write_hdf5(\"$D/out.h5\", chunk=10, gzip=9)", NULL, 5, NULL, &s);
    assert_int_equal(s.status, STK_OK);
    seen_clear(&s);
    assert_int_equal(count_files(""), 0);
}

static void write_leaves_nothing_after_an_error(void **state)
{
    stk_error error;
    stk_pipeline *p;
    write_examples("in", STK__PLAIN, 0, 20);
    assert_fails("tfrecord(\"$D/in\") | parse(rare=int64) | batch(1) | write_hdf5(\"$D/out.h5\", chunk=1)", NULL,
                 STK_UNFIT, "is missing");
    assert_fails("tfrecord(\"$D/in\") | parse(words=bytes[]) | batch(5) | write_hdf5(\"$D/out.h5\")", NULL, STK_INVALID,
                 "make the rows equal with batch(..., pad=true)");
    assert_fails("tfrecord(\"$D/in\") | parse(many=int64[]) | batch(2, pad=true) | write_hdf5(\"$D/out.h5\")", NULL,
                 STK_INVALID, "rows of int64[2], wanted int64[1]");
    assert_fails("tfrecord(\"$D/in\") | write_hdf5(\"$D/out.h5\")", NULL, STK_INVALID,
                 "list the field in binary=[...]");
    assert_int_equal(count_files(""), 1);
    assert_int_equal(try_open("range(3) | write_hdf5(\"/proc/no/such.h5\")", NULL, &p, &error), STK_IO);
    assert_string_equal(error.op, "write_hdf5");
    assert_string_equal(error.file, "/proc/no");
    assert_int_equal(try_open("range(3) | write_hdf5(\"$D\")", NULL, &p, &error), STK_IO);
}

static void write_keeps_to_the_budget(void **state)
{
    stk_config config = harness_config();
    seen s;
    write_examples("in", STK__PLAIN, 0, 40);
    config.memory_bytes = 32 << 20;
    config.threads = 8;
    run_all("tfrecord(\"$D/in\") | parse(pair=float32[2]) | write_hdf5(\"$D/out.h5\", gzip=1, chunk=131072)", &config,
            &s);
    assert_true(s.stats.peak_buffer_bytes <= 32 << 20);
    seen_clear(&s);
    assert_fails("range(10) | write_hdf5(\"$D/out.h5\", chunk=10000000)", &config, STK_BUDGET, "would do");
}

static void write_refuses_bad_options(void **state)
{
    assert_refused("range(3) | write_hdf5()", NULL, STK_INVALID, "path is missing", 1, 12);
    assert_refused("range(3) | write_hdf5(\"\")", NULL, STK_INVALID, "path is empty", 1, 12);
    assert_refused("range(3) | write_hdf5(\"x\", gzip=10)", NULL, STK_INVALID, "gzip must be in 0..9", 1, 33);
    assert_refused("range(3) | write_hdf5(\"x\", gzip=1, lzf=true)", NULL, STK_INVALID,
                   "2 of gzip, zstd and lzf are set", 1, 12);
    assert_refused("range(3) | write_hdf5(\"x\", chunk=1000000000)", NULL, STK_INVALID,
                   "chunks of 1000000000 rows of 8 bytes, wanted at most 1073741824 bytes in a chunk", 1, 12);
    assert_refused("range(3) | write_hdf5(\"x\", binary=[value])", NULL, STK_INVALID,
                   "binary has field 'value' of type int64, wanted bytes", 1, 12);
    assert_refused("range(3) | write_hdf5(\"x\", binary=[no])", NULL, STK_INVALID,
                   "binary has 'no', which is no field here", 1, 12);
    assert_int_equal(count_files(""), 0);
}

/* ---- memory that runs out ---- */

static stk_status run_bare(const char *text, const stk_config *config)
{
    stk_pipeline *p = NULL;
    stk_error error;
    stk_status status = try_open(text, config, &p, &error);
    while (status == STK_OK) {
        const stk_batch *batch;
        status = stk_pipeline_next(p, &batch, &error);
        if (status == STK_OK) {
            status = stk_pipeline_consume(p, batch, &error);
            stk_batch_release(p, batch);
        }
    }
    if (status == STK_END && stk_pipeline_finish(p, &error) != STK_OK)
        status = error.status;
    stk_pipeline_close(p);
    return status;
}

static void write_tells_allocations_that_fail(void **state)
{
    static const char text[] = "tfrecord(\"$D/in\") | parse(value=int64, name=bytes, many=int64[]) | batch(3) | "
                               "write_hdf5(\"$D/out.h5\", chunk=2, gzip=1)";
    stk_config config = harness_config();
    config.threads = 1;
    write_examples("in", STK__PLAIN, 0, 7);
    assert_int_equal(run_bare(text, &config), STK_END);
    remove(in_dir("out.h5"));
    const uint64_t before = stk__alloc_count();
    assert_int_equal(run_bare(text, &config), STK_END);
    const uint64_t all = stk__alloc_count() - before;
    assert_true(all > 20);
    for (uint64_t n = 1; n <= all; n += 1 + n / 100) {
        remove(in_dir("out.h5"));
        stk__alloc_fail_at(n, n % 2);
        const stk_status status = run_bare(text, &config);
        stk__alloc_fail_at(0, false);
        if (status != STK_END && status != STK_NOMEM && status != STK_BUDGET && status != STK_INVALID &&
            status != STK_IO)
            fail_msg("allocation %llu failed: %s", (unsigned long long)n, stk_status_name(status));
        assert_int_equal(file_exists("out.h5"), status == STK_END);
        assert_int_equal(count_files(""), 1 + (status == STK_END));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(write_makes_a_dataset_of_each_field),
        OP_TEST(write_keeps_every_type_of_number),
        OP_TEST(write_makes_sequences_and_strings),
        OP_TEST(write_of_no_samples_makes_empty_datasets),
        OP_TEST(write_of_few_samples_makes_a_small_file),
        OP_TEST(write_makes_the_same_file_with_any_threads_and_batches),
        OP_TEST(write_leaves_nothing_without_finish),
        OP_TEST(write_leaves_nothing_after_an_error),
        OP_TEST(write_keeps_to_the_budget),
        OP_TEST(write_refuses_bad_options),
        OP_TEST(write_tells_allocations_that_fail),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
