/* Chunks of several datasets under many threads and in little memory: rows stay right, and nothing hangs, leaks or races. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <stoker/pipeline.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "base/rng.h"
#include "formats/hdf5_writer.h"
#include "ops/chunk_cache.h"

static char dir[64];

enum { ROWS = 700, FILES = 2, WIDE = 900, MATRIX = 24 };

/* ---- files: four datasets whose chunks have nothing in common ---- */

static const uint32_t level[] = {1};
static const stk__h5_filter gzip_only[] = {{.id = STK__H5_DEFLATE, .values = level, .value_count = 1}};
static const stk__h5_filter shuffle_gzip[] = {{.id = STK__H5_SHUFFLE},
                                              {.id = STK__H5_DEFLATE, .values = level, .value_count = 1}};

static const stk__h5_new fields[] = {
    {.name = "row",
     .dtype = STK_INT64,
     .kind = STK__H5_KIND_INT,
     .chunk_rows = 5,
     .filters = gzip_only,
     .filter_count = 1},
    {.name = "matrix",
     .dtype = STK_FLOAT32,
     .kind = STK__H5_KIND_FLOAT,
     .ndim = 2,
     .shape = {MATRIX / 4, 4},
     .chunk_rows = 16,
     .filters = shuffle_gzip,
     .filter_count = 2},
    {.name = "wide",
     .dtype = STK_UINT8,
     .kind = STK__H5_KIND_UINT,
     .ndim = 1,
     .shape = {WIDE},
     .chunk_rows = 3,
     .filters = gzip_only,
     .filter_count = 1},
    {.name = "plain", .dtype = STK_INT32, .kind = STK__H5_KIND_INT, .swap = true, .chunk_rows = 64},
};

typedef struct row_values {
    int64_t row;
    float matrix[MATRIX];
    uint8_t wide[WIDE];
    int32_t plain;
} row_values;

static void set_row(row_values *v, int64_t row)
{
    v->row = row;
    v->plain = (int32_t)(row * -3);
    for (int i = 0; i < MATRIX; i++)
        v->matrix[i] = (float)(row * 32 + i);
    for (int i = 0; i < WIDE; i++)
        v->wide[i] = (uint8_t)(row * 7 + i / 5);
}

static void in_dir(char out[96], const char *name, int number)
{
    snprintf(out, 96, "%s/%s-%d.h5", dir, name, number);
}

static void add_row(stk__h5_writer *w, int64_t row)
{
    row_values v;
    set_row(&v, row);
    stk_column columns[] = {
        {.name = "row", .dtype = STK_INT64, .ndim = 1, .shape = {1}, .data = &v.row, .elements = 1, .size_bytes = 8},
        {.name = "matrix",
         .dtype = STK_FLOAT32,
         .ndim = 3,
         .shape = {1, MATRIX / 4, 4},
         .data = v.matrix,
         .elements = MATRIX,
         .size_bytes = sizeof v.matrix},
        {.name = "wide",
         .dtype = STK_UINT8,
         .ndim = 2,
         .shape = {1, WIDE},
         .data = v.wide,
         .elements = WIDE,
         .size_bytes = WIDE},
        {.name = "plain",
         .dtype = STK_INT32,
         .ndim = 1,
         .shape = {1},
         .data = &v.plain,
         .elements = 1,
         .size_bytes = 4},
    };
    const stk_batch batch = {.rows = 1, .column_count = STK_COUNT(columns), .columns = columns};
    assert_int_equal(stk__h5_writer_add(w, &batch, NULL), STK_OK);
}

static void make_file(int number, int64_t first, int64_t end)
{
    char path[96];
    in_dir(path, "rows", number);
    stk__h5_writer_config config = {.path = path, .fields = fields, .field_count = STK_COUNT(fields), .threads = 1};
    stk__h5_writer *w = NULL;
    stk_error error;
    size_t bytes = 0;
    assert_int_equal(stk__h5_writer_measure(&config, &bytes, &error), STK_OK);
    void *memory = stk__alloc_aligned(bytes);
    assert_non_null(memory);
    if (stk__h5_writer_open(&config, memory, &w, &error) != STK_OK)
        fail_msg("%s", error.message);
    for (int64_t row = first; row < end; row++)
        add_row(w, row);
    if (stk__h5_writer_finish(w, &error) != STK_OK)
        fail_msg("%s", error.message);
    stk__h5_writer_close(w);
    stk__free(memory);
}

static int make_data(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/stk-stress-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    for (int i = 0; i < FILES; i++)
        make_file(i, i * ROWS / FILES, (i + 1) * ROWS / FILES);
    return 0;
}

static int remove_data(void **state)
{
    for (int i = 0; i < FILES; i++) {
        char path[96];
        in_dir(path, "rows", i);
        unlink(path);
    }
    return rmdir(dir);
}

/* ---- whole runs ---- */

static void sleep_ns(uint64_t ns)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

static const stk_column *column_of(const stk_batch *batch, const char *name)
{
    for (int32_t i = 0; i < batch->column_count; i++)
        if (strcmp(batch->columns[i].name, name) == 0)
            return &batch->columns[i];
    return NULL;
}

static void assert_values(const stk_batch *batch, const char *name, int64_t at, const void *wanted, size_t size)
{
    const stk_column *column = column_of(batch, name);
    if (column)
        assert_memory_equal((const char *)column->data + (size_t)at * size, wanted, size);
}

/* Every field of every row that is there belongs to the row's number. */
static void check_batch(const stk_batch *batch)
{
    const int64_t *rows = column_of(batch, "row")->data;
    for (int64_t i = 0; i < batch->rows; i++) {
        row_values v;
        assert_in_range(rows[i], 0, ROWS - 1);
        set_row(&v, rows[i]);
        assert_values(batch, "matrix", i, v.matrix, sizeof v.matrix);
        assert_values(batch, "wide", i, v.wide, sizeof v.wide);
        assert_values(batch, "plain", i, &v.plain, sizeof v.plain);
    }
}

/* One chunk at a time; two; some; all. A chunk of `wide` is the largest: 3,020 bytes. */
static const int64_t caches[] = {3100, 6200, 50000, 0};

static stk_pipeline *open_or_fail(int64_t cache_bytes, const char *ops, const stk_config *config)
{
    char text[512];
    stk_pipeline *p;
    stk_error error;
    snprintf(
        text, sizeof text,
        "hdf5(\"%s/rows-*.h5\", row=\"/row\", matrix=\"/matrix\", wide=\"/wide\", plain=\"/plain\", cache_bytes=%lld) | %s",
        dir, (long long)cache_bytes, ops);
    if (stk_pipeline_open(text, config, &p, &error) != STK_OK)
        fail_msg("%s: %s", text, error.message);
    return p;
}

/* Digest of a run whose values are all checked; `seed`: how the consumer dawdles. */
static void digest_of(int64_t cache_bytes, const char *ops, const stk_config *config, uint64_t seed, char out[33])
{
    stk_pipeline *p = open_or_fail(cache_bytes, ops, config);
    stk_digest *digest;
    stk_error error;
    stk_status status;
    const stk_batch *batch;
    assert_int_equal(stk_digest_new(&digest, NULL), STK_OK);
    for (uint64_t i = 0; (status = stk_pipeline_next(p, &batch, &error)) == STK_OK; i++) {
        check_batch(batch);
        stk_digest_add(digest, batch);
        if (stk__mix(seed, i) % 8 < seed % 8)
            sleep_ns(stk__mix(seed, i) >> 8 & 0xfffff);
        stk_batch_release(p, batch);
    }
    if (status != STK_END)
        fail_msg("%s: %s", ops, error.message);
    stk_digest_hex(digest, out);
    stk_digest_free(digest);
    stk_stats stats;
    stk_pipeline_stats(p, &stats);
    assert_true(stats.peak_buffer_bytes <= stats.budget_bytes);
    stk_pipeline_close(p);
}

static const char *const orders[] = {
    "batch(32)",
    "shuffle(seed=1) | batch(32)",
    "shuffle(seed=2, window=3) | repeat(2) | batch(50)",
    "shuffle(seed=2, window=auto) | batch(16) | repeat(3)",
    "take(3) | repeat(40) | batch(25)",                               /* the same rows many times in a batch */
    "take(40) | shuffle(seed=3, window=1) | repeat(20) | batch(500)", /* more epochs in a batch than orders are kept for */
    "shard(count=3, index=1, contiguous=true) | shuffle(seed=4, window=2) | batch(9)",
    "filter(\"row % 5 != 2\") | drop(wide) | batch(20) | repeat(2)",
    "shuffle(seed=5) | cache | select(row, plain) | batch(64) | repeat(3)",
};

static void rows_are_right_for_any_threads_and_memory(void **state)
{
    for (size_t i = 0; i < STK_COUNT(orders); i++) {
        char wanted[33], found[33];
        stk_config config = {.struct_size = sizeof config, .threads = 1, .stall_ns = -1};
        digest_of(0, orders[i], &config, 0, wanted);
        for (size_t k = 0; k < STK_COUNT(caches); k++) {
            config.threads = k % 2 ? 3 : 8;
            config.on_demand = (i + k) % 5 == 4;
            digest_of(caches[k], orders[i], &config, i + k, found);
            assert_string_equal(wanted, found);
        }
    }
}

typedef struct canceller {
    stk_pipeline *pipeline;
    uint64_t after_ns;
} canceller;

static void *cancel_main(void *arg)
{
    const canceller *c = arg;
    sleep_ns(c->after_ns);
    stk_pipeline_cancel(c->pipeline);
    return NULL;
}

static void cancel_at_any_moment_ends_the_run(void **state)
{
    for (uint64_t round = 0; round < 60; round++) {
        const uint64_t draw = stk__mix(9, round);
        stk_config config = {.struct_size = sizeof config, .threads = 1 + (int)(draw % 8), .stall_ns = -1};
        char ops[128];
        snprintf(ops, sizeof ops, "%s | repeat", orders[draw >> 40 & 3]);
        canceller c = {.pipeline = open_or_fail(caches[round % STK_COUNT(caches)], ops, &config),
                       .after_ns = draw >> 8 & 0x3fffff};
        pthread_t thread;
        stk_error error;
        stk_status status;
        const stk_batch *batch;
        assert_int_equal(pthread_create(&thread, NULL, cancel_main, &c), 0);
        while ((status = stk_pipeline_next(c.pipeline, &batch, &error)) == STK_OK)
            stk_batch_release(c.pipeline, batch);
        assert_int_equal(status, STK_CANCELLED);
        pthread_join(thread, NULL);
        stk_pipeline_close(c.pipeline);
    }
}

static void close_at_any_moment_ends_the_run(void **state)
{
    for (uint64_t round = 0; round < 60; round++) {
        const uint64_t draw = stk__mix(10, round);
        stk_config config = {.struct_size = sizeof config, .threads = 1 + (int)(draw % 8), .stall_ns = -1};
        stk_pipeline *p = open_or_fail(caches[round % STK_COUNT(caches)], orders[draw >> 40 & 3], &config);
        const stk_batch *batch;
        if (draw >> 32 & 1)
            assert_int_equal(stk_pipeline_next(p, &batch, NULL), STK_OK);
        sleep_ns(draw >> 8 & 0x3fffff);
        stk_pipeline_close(p);
    }
}

/* Out of memory at any moment, for once or for good: the run ends with that, or does without. */
static void a_failed_allocation_never_hangs_a_run(void **state)
{
    for (uint64_t n = 1; n < 6000; n += 1 + n / 12) {
        stk_config config = {.struct_size = sizeof config, .threads = n % 3 ? 1 : 3, .stall_ns = -1};
        stk_pipeline *p = NULL;
        stk_error error;
        stk_status status;
        const stk_batch *batch;
        char text[256];
        snprintf(text, sizeof text,
                 "hdf5(\"%s/rows-*.h5\", row=\"/row\", wide=\"/wide\", cache_bytes=%lld) | shuffle(seed=1) | batch(8)",
                 dir, (long long)caches[n % STK_COUNT(caches)]);
        stk__alloc_fail_at(n, n % 2);
        status = stk_pipeline_open(text, &config, &p, &error);
        while (status == STK_OK) {
            status = stk_pipeline_next(p, &batch, &error);
            if (status == STK_OK)
                stk_batch_release(p, batch);
        }
        stk__alloc_fail_at(0, false);
        stk_pipeline_close(p);
        if (status != STK_END)
            assert_int_equal(status, STK_NOMEM);
    }
}

/* ---- the cache alone ---- */

enum { KEYS = 40, TURNS = 3000, WORKERS = 8 };

typedef struct cache_user {
    stk__chunk_cache *cache;
    uint64_t seed;
} cache_user;

static size_t size_of(uint64_t key)
{
    return key % 7 == 0 ? 4096 : 512 + key % 3 * 256;
}

/* Even ones have contents behind them; every eleventh cannot be read. */
static void fill_chunk(stk__chunk *chunk)
{
    const uint64_t key = chunk->key.number;
    memset(chunk->data, (int)key, size_of(key));
    chunk->plain = true;
    if (key % 11 == 10) {
        chunk->error = &stk__chunk_nomem;
    } else if (key % 2 == 0) {
        chunk->heap = stk__alloc(100);
        chunk->heap_bytes = chunk->heap ? 100 : 0;
    }
}

static void check_chunk(const stk__chunk *chunk)
{
    const uint64_t key = chunk->key.number;
    if (key % 11 == 10) {
        assert_non_null(chunk->error);
        return;
    }
    assert_null(chunk->error);
    for (size_t i = 0; i < size_of(key); i++)
        assert_int_equal(chunk->data[i], (uint8_t)key);
}

/* As a worker of the source does it: waits only while it holds nothing. */
static void use_chunk(const cache_user *u, uint64_t key, bool gently)
{
    const stk__chunk_wish wish = {
        .key = {0, (int32_t)(key % 3), key}, .bytes = size_of(key), .rows = 4, .gently = gently};
    for (;;) {
        const uint64_t moves = stk__chunk_cache_moves(u->cache);
        stk__chunk_state chunk_state;
        stk__chunk *chunk;
        assert_int_equal(stk__chunk_cache_get(u->cache, &wish, &chunk_state, &chunk, NULL), STK_OK);
        if (chunk_state == STK__CHUNK_MINE) {
            fill_chunk(chunk);
            stk__chunk_cache_publish(u->cache, chunk);
        }
        if (chunk) {
            check_chunk(chunk);
            stk__chunk_cache_release(u->cache, chunk, gently ? 0 : 1 + (int64_t)(key % 2));
            return;
        }
        if (gently)
            return;
        stk__chunk_cache_wait(u->cache, moves);
    }
}

static void *use_cache(void *arg)
{
    const cache_user *u = arg;
    for (uint64_t i = 0; i < TURNS; i++) {
        const uint64_t draw = stk__mix(u->seed, i);
        use_chunk(u, draw % KEYS, draw >> 32 & 1);
    }
    return NULL;
}

static void a_cache_of_any_size_serves_all_threads(void **state)
{
    static const size_t limits[] = {1, 4096, 5000, 20000, 1 << 20};
    for (size_t i = 0; i < STK_COUNT(limits); i++) {
        stk__chunk_cache *cache;
        pthread_t threads[WORKERS];
        cache_user users[WORKERS];
        assert_int_equal(stk__chunk_cache_new(limits[i], i % 2, &cache, NULL), STK_OK);
        for (int k = 0; k < WORKERS; k++) {
            users[k] = (cache_user){cache, i * WORKERS + (uint64_t)k + 1};
            assert_int_equal(pthread_create(&threads[k], NULL, use_cache, &users[k]), 0);
        }
        for (int k = 0; k < WORKERS; k++)
            pthread_join(threads[k], NULL);
        int64_t hits, fills;
        stk__chunk_cache_stats(cache, &hits, &fills);
        assert_in_range(fills, KEYS, WORKERS * TURNS);
        stk__chunk_cache_free(cache);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_right_for_any_threads_and_memory),
        cmocka_unit_test(cancel_at_any_moment_ends_the_run),
        cmocka_unit_test(close_at_any_moment_ends_the_run),
        cmocka_unit_test(a_failed_allocation_never_hangs_a_run),
        cmocka_unit_test(a_cache_of_any_size_serves_all_threads),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
