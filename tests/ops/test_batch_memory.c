/* Memory of batches: aligned, the program's own where it wants that, and the holder's to write to. */
#include "harness.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"

/* ---- who may touch it ---- */

static void scribble(const void *data, int64_t size)
{
    if (size > 0)
        memset((void *)(uintptr_t)data, 0xa5, (size_t)size);
}

/* Over everything in a batch: nobody may look at it again. Views of bytes first lead to what they show. */
static void scribble_batch(const stk_batch *batch)
{
    for (int32_t c = 0; c < batch->column_count; c++) {
        const stk_column *column = &batch->columns[c];
        const stk_bytes *views = column->data;
        for (int64_t i = 0; column->dtype == STK_BYTES && i < column->elements; i++)
            scribble(views[i].data, views[i].size);
    }
    for (int32_t c = 0; c < batch->column_count; c++) {
        const stk_column *column = &batch->columns[c];
        scribble(column->data, column->elements * (int64_t)stk_dtype_size(column->dtype));
        if (column->offsets)
            scribble(column->offsets, (batch->rows + 1) * (int64_t)sizeof *column->offsets);
        if (column->row_shapes)
            scribble(column->row_shapes, batch->rows * (column->ndim - 1) * (int64_t)sizeof *column->row_shapes);
    }
}

enum { KEEP = 3 };

/* Batches are written over at once, and given back a few batches later. */
static void digest_run(const char *text, const stk_config *config, bool scribbles, char out[33])
{
    stk_pipeline *p;
    stk_digest *digest;
    stk_error error;
    const stk_batch *kept[KEEP] = {NULL}, *batch;
    if (try_open(text, config, &p, &error) != STK_OK)
        fail_msg("'%s': %s", text, error.message);
    assert_int_equal(stk_digest_new(&digest, NULL), STK_OK);
    for (int n = 0; stk_pipeline_next(p, &batch, &error) == STK_OK; n = (n + 1) % KEEP) {
        stk_digest_add(digest, batch);
        if (scribbles)
            scribble_batch(batch);
        stk_batch_release(p, kept[n]);
        kept[n] = batch;
    }
    for (int n = 0; n < KEEP; n++)
        stk_batch_release(p, kept[n]);
    stk_pipeline_close(p);
    stk_digest_hex(digest, out);
    stk_digest_free(digest);
}

static void a_batch_may_be_written_over(void **state)
{
    write_data();
    for (size_t i = 0; harness_pipelines[i]; i++) {
        for (int threads = 1; threads <= 3; threads += 2) {
            stk_config config = harness_config();
            char clean[33], written[33];
            config.threads = threads;
            digest_run(harness_pipelines[i], &config, false, clean);
            digest_run(harness_pipelines[i], &config, true, written);
            if (strcmp(clean, written) != 0)
                fail_msg("'%s' gives something else when batches are written over", harness_pipelines[i]);
        }
    }
}

/* ---- where it lies ---- */

static void assert_aligned(const void *p)
{
    assert_int_equal((uintptr_t)p % 64, 0);
}

static void columns_are_aligned(void **state)
{
    write_data();
    for (size_t i = 0; harness_pipelines[i]; i++) {
        stk_pipeline *p;
        const stk_batch *batch;
        assert_int_equal(try_open(harness_pipelines[i], NULL, &p, NULL), STK_OK);
        while (stk_pipeline_next(p, &batch, NULL) == STK_OK) {
            for (int32_t c = 0; c < batch->column_count; c++) {
                assert_non_null(batch->columns[c].data);
                assert_aligned(batch->columns[c].data);
                assert_aligned(batch->columns[c].offsets);
                assert_aligned(batch->columns[c].row_shapes);
            }
            stk_batch_release(p, batch);
        }
        stk_pipeline_close(p);
    }
}

/* ---- the program's own ---- */

typedef struct piece {
    char *data;
    size_t size;
} piece;

/* Guarded by lock. */
typedef struct own_memory {
    pthread_mutex_t lock;
    piece pieces[1024];
    size_t count, calls;
    size_t fail_at; /* the n-th call gives NULL; 0: none */
    size_t shift;   /* bytes that addresses are off by */
} own_memory;

static void *own_alloc(void *arg, size_t size)
{
    own_memory *m = arg;
    pthread_mutex_lock(&m->lock);
    char *p = NULL;
    if (++m->calls != m->fail_at && m->count < STK_COUNT(m->pieces)) {
        p = aligned_alloc(64, (size + m->shift + 63) / 64 * 64);
        m->pieces[m->count++] = (piece){p += m->shift, size};
    }
    pthread_mutex_unlock(&m->lock);
    return p;
}

static void own_free(void *arg, void *p, size_t size)
{
    own_memory *m = arg;
    pthread_mutex_lock(&m->lock);
    size_t i = 0;
    while (i < m->count && m->pieces[i].data != p)
        i++;
    if (i == m->count || m->pieces[i].size != size)
        abort(); /* not ours, or another size */
    m->pieces[i] = m->pieces[--m->count];
    free((char *)p - m->shift);
    pthread_mutex_unlock(&m->lock);
}

static stk_config own_config(own_memory *m)
{
    stk_config config = harness_config();
    config.batch_alloc = own_alloc;
    config.batch_free = own_free;
    config.batch_arg = m;
    return config;
}

static void assert_own(own_memory *m, const void *p)
{
    bool found = !p;
    pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < m->count; i++)
        found =
            found || ((const char *)p >= m->pieces[i].data && (const char *)p < m->pieces[i].data + m->pieces[i].size);
    pthread_mutex_unlock(&m->lock);
    assert_true(found);
}

static void batches_lie_in_memory_of_the_program(void **state)
{
    write_data();
    for (size_t i = 0; harness_pipelines[i]; i++) {
        own_memory m = {.lock = PTHREAD_MUTEX_INITIALIZER};
        const stk_config config = own_config(&m);
        stk_pipeline *p;
        const stk_batch *batch, *held = NULL;
        char usual[33], own[33];
        assert_int_equal(try_open(harness_pipelines[i], &config, &p, NULL), STK_OK);
        while (stk_pipeline_next(p, &batch, NULL) == STK_OK) {
            for (int32_t c = 0; c < batch->column_count; c++) {
                assert_own(&m, batch->columns[c].data);
                assert_own(&m, batch->columns[c].offsets);
                assert_own(&m, batch->columns[c].row_shapes);
            }
            stk_batch_release(p, held);
            held = batch;
        }
        stk_pipeline_stop(p);
        assert_true(m.count > 0); /* that of the one that is held */
        stk_batch_release(p, held);
        assert_int_equal(m.count, 0);
        stk_pipeline_close(p);
        digest_run(harness_pipelines[i], NULL, false, usual);
        digest_run(harness_pipelines[i], &config, true, own);
        assert_string_equal(usual, own);
        assert_int_equal(m.count, 0);
    }
}

static void memory_of_the_program_counts_towards_the_budget(void **state)
{
    own_memory m = {.lock = PTHREAD_MUTEX_INITIALIZER};
    stk_config config = own_config(&m);
    stk_pipeline *p;
    const stk_batch *batch;
    stk_status status;
    stk_stats stats;
    config.memory_bytes = 1 << 20;
    assert_int_equal(try_open("range(1000000) | batch(10000)", &config, &p, NULL), STK_OK);
    while ((status = stk_pipeline_next(p, &batch, NULL)) == STK_OK)
        ; /* never given back */
    assert_int_equal(status, STK_BUDGET);
    stk_pipeline_stats(p, &stats);
    assert_true(stats.peak_buffer_bytes <= 1 << 20);
    assert_true(m.count * 80000 <= 1 << 20);
    stk_pipeline_close(p);
    assert_int_equal(m.count, 0);
}

static void no_memory_from_the_program_ends_the_run(void **state)
{
    for (size_t n = 1; n < 6; n++) {
        own_memory m = {.lock = PTHREAD_MUTEX_INITIALIZER, .fail_at = n};
        const stk_config config = own_config(&m);
        assert_fails("range(100) | filter(\"value % 7 != 3\") | batch(8) | prefetch(8)", &config, STK_NOMEM,
                     "out of memory");
        assert_int_equal(m.count, 0);
    }
}

static void wrong_memory_from_the_program_is_refused(void **state)
{
    own_memory m = {.lock = PTHREAD_MUTEX_INITIALIZER, .shift = 16};
    stk_config config = own_config(&m);
    assert_fails("range(100) | batch(8)", &config, STK_INVALID, "wanted an address that 64 divides");
    assert_int_equal(m.count, 0);
    config.batch_free = NULL;
    assert_fails("range(100) | batch(8)", &config, STK_INVALID, "must be given together");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(a_batch_may_be_written_over),
        OP_TEST(columns_are_aligned),
        OP_TEST(batches_lie_in_memory_of_the_program),
        OP_TEST(memory_of_the_program_counts_towards_the_budget),
        OP_TEST(no_memory_from_the_program_ends_the_run),
        OP_TEST(wrong_memory_from_the_program_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
