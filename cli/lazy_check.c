/* How many different augmentations of a sample come over the epochs: counted, not assumed. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "lazy.h"

#include "base/banned.h"

enum { CHECK_MAX = 1000 };

/* Hashes of the first rows of each epoch. Without shuffling, position i is the same sample in all of them. */
typedef struct check {
    uint64_t *hashes; /* epochs * CHECK_MAX */
    int64_t *rows;    /* of each epoch */
    int64_t epochs, bytes, all_rows;
    stk_digest *digest, *first_digest;
} check;

static uint64_t hash_row(const stk_column *c, int64_t row, uint64_t seed)
{
    const int64_t rows = c->shape[0];
    const int64_t begin = c->offsets ? c->offsets[row] : c->elements / rows * row;
    const int64_t end = c->offsets ? c->offsets[row + 1] : begin + c->elements / rows;
    if (c->dtype != STK_BYTES) {
        const size_t size = stk_dtype_size(c->dtype);
        return XXH3_64bits_withSeed((const char *)c->data + (size_t)begin * size, (size_t)(end - begin) * size, seed);
    }
    const stk_bytes *views = c->data;
    for (int64_t i = begin; i < end; i++)
        seed = XXH3_64bits_withSeed(views[i].data ? (const void *)views[i].data : "", (size_t)views[i].size, seed + 1);
    return seed;
}

static void add_batch(check *c, const stk_batch *batch)
{
    stk_digest_add(c->digest, batch);
    if (batch->epoch == 0)
        stk_digest_add(c->first_digest, batch);
    if (batch->epoch < 0 || batch->epoch >= c->epochs)
        return;
    int64_t *rows = &c->rows[batch->epoch];
    for (int64_t row = 0; row < batch->rows; row++, (*rows)++) {
        if (*rows >= CHECK_MAX)
            continue;
        uint64_t hash = 0;
        for (int32_t i = 0; i < batch->column_count; i++)
            hash = hash_row(&batch->columns[i], row, hash);
        c->hashes[batch->epoch * CHECK_MAX + *rows] = hash;
    }
    c->all_rows += batch->rows;
    for (int32_t i = 0; i < batch->column_count; i++)
        c->bytes += batch->columns[i].size_bytes;
}

static stk_status run_check(lazy *z, const char *text, check *c, stk_error *err)
{
    stk_pipeline *pipeline = NULL;
    stk_status status = stk_pipeline_open(text, &z->config, &pipeline, err);
    cli_interrupts_cancel(pipeline);
    while (status == STK_OK) {
        const stk_batch *batch;
        status = stk_pipeline_next(pipeline, &batch, err);
        if (status == STK_OK) {
            add_batch(c, batch);
            stk_batch_release(pipeline, batch);
        }
    }
    cli_interrupts_cancel(NULL);
    stk_pipeline_close(pipeline);
    return status == STK_END ? STK_OK : status;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Different hashes at one position; `column` has room for one of each epoch. */
static int64_t count_distinct(const check *c, int64_t position, uint64_t *column)
{
    for (int64_t e = 0; e < c->epochs; e++)
        column[e] = c->hashes[e * CHECK_MAX + position];
    qsort(column, (size_t)c->epochs, sizeof *column, by_value);
    int64_t n = 1;
    for (int64_t e = 1; e < c->epochs; e++)
        n += column[e] != column[e - 1];
    return n;
}

static void count_all(const check *c, lazy_way *way, uint64_t *column)
{
    for (int64_t e = 1; e < c->epochs; e++) {
        if (c->rows[e] != c->rows[0])
            return; /* a filter on random values: positions are no samples any more, and nothing can be said */
    }
    way->checked = STK_MIN(c->rows[0], (int64_t)CHECK_MAX);
    int64_t sum = 0;
    for (int64_t i = 0; i < way->checked; i++) {
        const int64_t n = count_distinct(c, i, column);
        sum += n;
        way->distinct_min = i ? STK_MIN(way->distinct_min, n) : n;
        way->distinct_max = STK_MAX(way->distinct_max, n);
    }
    way->distinct_mean = way->checked ? (double)sum / (double)way->checked : 0;
}

static stk_status check_into(lazy *z, lazy_way *way, check *c, stk_error *err)
{
    uint64_t *column = stk__calloc((size_t)c->epochs, sizeof *column);
    stk_status status = column ? STK_OK : stk_error_set(err, STK_NOMEM, "out of memory");
    if (status == STK_OK)
        status = run_check(z, way->check.data, c, err);
    if (status == STK_OK) {
        count_all(c, way, column);
        stk_digest_hex(c->digest, way->digest);
        stk_digest_hex(c->first_digest, way->first_digest);
        if (c->all_rows)
            z->row_bytes = (double)c->bytes / (double)c->all_rows;
    }
    stk__free(column);
    return status;
}

stk_status cli_lazy_check(lazy *z, lazy_way *way)
{
    check c = {.epochs = z->options->epochs};
    stk_error err;
    stk_error_clear(&err);
    c.hashes = stk__calloc((size_t)c.epochs * CHECK_MAX, sizeof *c.hashes);
    c.rows = stk__calloc((size_t)c.epochs, sizeof *c.rows);
    stk_status status = STK_OK;
    if (!c.hashes || !c.rows)
        status = stk_error_set(&err, STK_NOMEM, "out of memory");
    if (status == STK_OK)
        status = stk_digest_new(&c.digest, &err);
    if (status == STK_OK)
        status = stk_digest_new(&c.first_digest, &err);
    if (status == STK_OK)
        status = check_into(z, way, &c, &err);
    cli_lazy_disk_clear(z);
    stk_digest_free(c.digest);
    stk_digest_free(c.first_digest);
    stk__free(c.hashes);
    stk__free(c.rows);
    return status == STK_OK ? STK_OK : cli_lazy_failed(way, &err);
}
