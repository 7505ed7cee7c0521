/* Small pictures for the tests of image ops: PNGs in TFRecords, and the pixels that a run makes of them. */
#ifndef STK_TESTS_PICTURES_H
#define STK_TESTS_PICTURES_H

#include "harness.h"

#include "base/mem.h"
#include "formats/example.h"
#include "formats/image.h"
#include "formats/tfrecord.h"

/* What a run starts with to have the pictures of write_pictures("p", ...) as `image` and `label`. */
#define PICTURES "tfrecord(\"$D/p\") | parse(image=bytes, label=int64) | decode_image(image)"

/* Sample c of pixel (x, y) of picture i. */
static inline uint8_t picture_sample(int i, int x, int y, int c)
{
    return (uint8_t)(c == 0 ? 8 * i + x : c == 1 ? 8 * i + 2 * y : i);
}

static inline void *picture_alloc(void *arg, size_t size, stk_error *err)
{
    return stk__alloc_aligned(size);
}

static inline void picture_free(void *arg, void *p, size_t size)
{
    stk__free(p);
}

static inline stk__image_decoder *picture_codec(void)
{
    const stk__image_memory memory = {picture_alloc, picture_free, NULL};
    stk__image_decoder *codec;
    assert_int_equal(stk__image_decoder_new(&memory, &codec, NULL), STK_OK);
    return codec;
}

/* Examples 0 .. count - 1 with image (a PNG of RGB pixels, see picture_sample) and label = i % 10. */
static inline void write_pictures(const char *name, int count, int width, int height)
{
    stk__tfrecord_writer *file;
    stk__example_writer writer = {0};
    stk__text record = STK__TEXT_INIT;
    stk__image_decoder *codec = picture_codec();
    uint8_t *pixels = stk__alloc((size_t)width * (size_t)height * 3);
    uint8_t *png = stk__alloc(stk__png_bound(width, height, 3));
    assert_true(pixels && png);
    assert_int_equal(stk__tfrecord_writer_open(in_dir(name), STK__PLAIN, 6, &file, NULL), STK_OK);
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < width * height * 3; k++)
            pixels[k] = picture_sample(i, k / 3 % width, k / 3 / width, k % 3);
        const stk__pixels image = {pixels, width, height, 3, 1, (ptrdiff_t)width * 3};
        size_t size = 0;
        assert_int_equal(stk__png_encode(codec, &image, 1, png, &size, NULL), STK_OK);
        const stk_bytes bytes = {png, (int64_t)size};
        const int64_t label = i % 10;
        stk__example_begin(&writer);
        stk__example_add_bytes(&writer, "image", &bytes, 1);
        stk__example_add_ints(&writer, "label", &label, 1);
        stk__text_reset(&record);
        assert_int_equal(stk__example_end(&writer, &record, NULL), STK_OK);
        assert_int_equal(stk__tfrecord_writer_add(file, record.data, record.length, NULL), STK_OK);
    }
    assert_int_equal(stk__tfrecord_writer_commit(file, NULL), STK_OK);
    stk__image_decoder_free(codec);
    stk__example_writer_clear(&writer);
    stk__text_clear(&record);
    stk__free(pixels);
    stk__free(png);
}

/* All values of one column of a run, one after the other. */
typedef struct taken {
    uint8_t *data;
    size_t size, capacity;
    int64_t rows, batches;
    stk_dtype dtype;
    int32_t ndim;                    /* of a row */
    int64_t shape[STK_MAX_DIMS + 1]; /* likewise, of the last batch */
    size_t stride;                   /* bytes of a row, when all have the same size */
} taken;

static inline void take_batch(taken *t, const stk_batch *batch, const char *name)
{
    for (int32_t c = 0; c < batch->column_count; c++) {
        const stk_column *column = &batch->columns[c];
        if (strcmp(column->name, name) != 0)
            continue;
        const size_t n = (size_t)column->size_bytes;
        t->dtype = column->dtype;
        assert_true(stk__grow((void **)&t->data, &t->capacity, t->size + n + 1, 1));
        if (column->dtype == STK_BYTES) {
            const stk_bytes *items = column->data;
            for (int64_t i = 0; i < column->elements; i++) {
                memcpy(t->data + t->size, items[i].data, (size_t)items[i].size);
                t->size += (size_t)items[i].size;
            }
        } else if (n) {
            memcpy(t->data + t->size, column->data, n);
            t->size += n;
        }
        t->ndim = column->ndim - 1;
        memcpy(t->shape, column->shape + 1, sizeof *t->shape * (size_t)t->ndim);
        t->rows += batch->rows;
        t->batches++;
        return;
    }
    fail_msg("there is no column '%s'", name);
}

/* Runs to the end, which must be reached, and keeps the column `name`. */
static inline void take_column(const char *text, int threads, const char *name, taken *out)
{
    stk_config config = harness_config();
    stk_pipeline *p = NULL;
    stk_error error;
    const stk_batch *batch;
    config.threads = threads;
    *out = (taken){0};
    stk_error_clear(&error);
    stk_status status = try_open(text, &config, &p, &error);
    while (status == STK_OK && (status = stk_pipeline_next(p, &batch, &error)) == STK_OK) {
        take_batch(out, batch, name);
        stk_batch_release(p, batch);
    }
    if (status != STK_END)
        fail_msg("'%s' ended with %s: %s", text, stk_status_name(status), error.message);
    stk_pipeline_close(p);
    out->stride = out->rows ? out->size / (size_t)out->rows : 0;
}

static inline const uint8_t *taken_row(const taken *t, int64_t row)
{
    assert_true(row < t->rows);
    return t->data + (size_t)row * t->stride;
}

static inline const float *taken_floats(const taken *t, int64_t row)
{
    assert_int_equal(t->dtype, STK_FLOAT32);
    return (const float *)(const void *)taken_row(t, row);
}

static inline void taken_clear(taken *t)
{
    stk__free(t->data);
    *t = (taken){0};
}

/* Both give the same batches, with one thread and with three. */
static inline void assert_same_batches(const char *a, const char *b)
{
    stk_config config = harness_config();
    config.no_approximate = true;
    config.threads = 1;
    seen first;
    run_all(a, &config, &first);
    assert_true(first.count > 0);
    for (int threads = 1; threads <= 3; threads += 2) {
        seen other;
        config.threads = threads;
        run_all(b, &config, &other);
        assert_seen_equal(&first, 0, &other, b);
        seen_clear(&other);
    }
    seen_clear(&first);
}

static inline void assert_same_with_any_threads(const char *text)
{
    assert_same_batches(text, text);
}

/*
 * Behind decode_image the op runs as one with it; behind a cache it does not. The same bytes must come. Neither `take` nor
 * `cache` changes what the op draws, which depends on how many ops stand before it.
 */
static inline void assert_fused_is_the_same(const char *op)
{
    stk__text fused = STK__TEXT_INIT, alone = STK__TEXT_INIT;
    stk__text_printf(&fused, PICTURES " | take(100000) | %s | batch(7)", op);
    stk__text_printf(&alone, PICTURES " | cache | %s | batch(7)", op);
    assert_same_batches(fused.data, alone.data);
    assert_explains(fused.data, "run as one");
    stk__text_clear(&fused);
    stk__text_clear(&alone);
}

/* About p * n of n, within five deviations. */
static inline void assert_about(int64_t count, int64_t n, double p)
{
    const double off = (double)count - p * (double)n;
    if (off * off > 25 * p * (1 - p) * (double)n)
        fail_msg("%lld of %lld, wanted about %g of them", (long long)count, (long long)n, p);
}

#endif
