/* Stops runs at random moments while other threads wait for batches, release them, and ask for state and statistics. */
#include "shards.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/compiler.h"
#include "base/rng.h"

/* $D is the directory; none ends soon. */
static const char *const pipelines[] = {
    "range(1000) | shuffle(seed=1) | batch(7) | repeat",
    "range(1000) | filter(\"value % 3 != 0\") | batch(7) | repeat",
    "range(100000000) | filter(\"value % 1000000 == 999\") | batch(50)", /* next waits long */
    "tfrecord(\"$D/p-*\") | interleave | shuffle(seed=1) | parse(value=int64) | batch(5) | repeat",
    "tfrecord(\"$D/p-*\") | parse(value=int64[]) | cache | batch(5) | repeat",
    "tfrecord(\"$D/p-*\") | batch(5) | repeat", /* the records themselves: bytes */
    "tfrecord(\"$D/g-*\") | shuffle(seed=1, buffer=50) | parse(value=int64) | filter(\"value != 3\") | batch(5) | repeat",
};

enum { SHARDS = 3, HANDS = 2, ROOM = 8 };

static int make_data(void **state)
{
    return make_shards(500, SHARDS);
}

static int remove_data(void **state)
{
    return remove_shards(SHARDS);
}

static void sleep_us(uint64_t us)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)us * 1000}, NULL);
}

/* One run and what its threads share. */
typedef struct game {
    stk_pipeline *pipeline;
    uint64_t draw;
    atomic_bool over; /* the consumer has seen the end of it */

    pthread_mutex_t lock;
    const stk_batch *batches[ROOM]; /* taken, to be released by anybody; guarded by lock */
    int count;
} game;

static bool put_batch(game *g, const stk_batch *batch)
{
    pthread_mutex_lock(&g->lock);
    const bool room = g->count < ROOM;
    if (room)
        g->batches[g->count++] = batch;
    pthread_mutex_unlock(&g->lock);
    return room;
}

static const stk_batch *get_batch(game *g)
{
    pthread_mutex_lock(&g->lock);
    const stk_batch *batch = g->count ? g->batches[--g->count] : NULL;
    pthread_mutex_unlock(&g->lock);
    return batch;
}

/* What a holder does with a batch: reads it, then writes over what is its own. */
static void use_batch(const stk_batch *batch)
{
    for (int32_t c = 0; c < batch->column_count; c++) {
        const stk_column *column = &batch->columns[c];
        assert_true(column->elements >= 0);
        if (column->dtype == STK_INT64 && column->elements)
            memset((void *)(uintptr_t)column->data, 1, (size_t)column->elements * 8);
    }
}

static void *consume_main(void *arg)
{
    game *g = arg;
    stk_status status;
    do {
        const stk_batch *batch;
        status = g->draw & 1 ? stk_pipeline_next(g->pipeline, &batch, NULL)
                             : stk_pipeline_next_within(g->pipeline, (int64_t)(g->draw >> 1 & 0xfffff), &batch, NULL);
        if (status == STK_OK && !put_batch(g, batch))
            stk_batch_release(g->pipeline, batch);
    } while (status == STK_OK || status == STK_TIMEOUT);
    assert_int_equal(status, STK_CANCELLED);
    atomic_store(&g->over, true);
    return NULL;
}

/* Releases until the end of the run, and behind it what is left. */
static void *release_main(void *arg)
{
    game *g = arg;
    for (;;) {
        const bool over = atomic_load(&g->over);
        const stk_batch *batch = get_batch(g);
        if (!batch && over)
            return NULL;
        if (batch) {
            use_batch(batch);
            stk_batch_release(g->pipeline, batch);
        }
    }
}

static void *ask_main(void *arg)
{
    game *g = arg;
    while (!atomic_load(&g->over)) {
        stk_stats stats;
        char *place;
        const char *name;
        int64_t busy_ns, samples;
        stk_pipeline_stats(g->pipeline, &stats);
        assert_int_equal(stk_pipeline_state(g->pipeline, &place, NULL), STK_OK);
        stk_free(place);
        for (size_t i = 0; stk_pipeline_op_stats(g->pipeline, i, &name, &busy_ns, &samples); i++)
            ;
        sleep_us(100);
    }
    return NULL;
}

static void *stop_main(void *arg)
{
    game *g = arg;
    sleep_us(g->draw >> 24 & 2047);
    stk_pipeline_stop(g->pipeline);
    return NULL;
}

static void stop_once(const char *text, uint64_t draw)
{
    const stk_config config = {.struct_size = sizeof config,
                               .threads = 1 + (int)(draw % 4),
                               .memory_bytes = (uint64_t)4 << 20,
                               .stall_ns = -1};
    game g = {.pipeline = open_or_fail(text, &config), .draw = draw, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t threads[HANDS + 4];
    int n = 0;
    assert_int_equal(pthread_create(&threads[n++], NULL, consume_main, &g), 0);
    for (int i = 0; i < HANDS; i++)
        assert_int_equal(pthread_create(&threads[n++], NULL, release_main, &g), 0);
    assert_int_equal(pthread_create(&threads[n++], NULL, ask_main, &g), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[n++], NULL, stop_main, &g), 0);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    stk_pipeline_close(g.pipeline);
}

static void stop_at_any_moment_ends_the_run(void **state)
{
    for (uint64_t round = 0; round < 140; round++)
        stop_once(pipelines[round % STK_COUNT(pipelines)], stk__mix(9, round));
}

/* Batches that were taken are read in other threads after the run has ended. */
static void batches_are_read_after_the_stop(void **state)
{
    for (uint64_t round = 0; round < 60; round++) {
        const stk_config config = {.struct_size = sizeof config, .threads = 3, .stall_ns = -1};
        game g = {.pipeline = open_or_fail(pipelines[round % 2 ? 4 : 6], &config), .lock = PTHREAD_MUTEX_INITIALIZER};
        const stk_batch *batch;
        for (int i = 0; i < ROOM; i++) {
            assert_int_equal(stk_pipeline_next(g.pipeline, &batch, NULL), STK_OK);
            assert_true(put_batch(&g, batch));
        }
        pthread_t threads[HANDS];
        stk_pipeline_stop(g.pipeline);
        atomic_store(&g.over, true);
        for (int i = 0; i < HANDS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, release_main, &g), 0);
        for (int i = 0; i < HANDS; i++)
            pthread_join(threads[i], NULL);
        stk_pipeline_close(g.pipeline);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stop_at_any_moment_ends_the_run),
        cmocka_unit_test(batches_are_read_after_the_stop),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
