/* Cancels runs of many kinds at random moments from another thread; nothing may hang, leak or race. */
#include "shards.h"

#include <pthread.h>
#include <time.h>

#include "base/compiler.h"
#include "base/rng.h"

/* $D is the directory; all but the last run without end. */
static const char *const pipelines[] = {
    "range(1000) | shuffle(seed=1) | batch(7) | repeat",
    "range(1000) | filter(\"value % 3 != 0\") | batch(7) | repeat",
    "range(100000000) | filter(\"value % 1000000 == 999\") | batch(50)", /* next waits long */
    "range(5) | filter(\"value > 7\") | batch(2) | repeat(100000)",
    "tfrecord(\"$D/p-*\") | interleave | shuffle(seed=1) | parse(value=int64) | batch(5) | repeat",
    "tfrecord(\"$D/p-*\") | parse(value=int64) | cache | batch(5, pad=true) | repeat",
    "tfrecord(\"$D/g-*\") | parse(value=int64) | batch(5) | repeat",
    "tfrecord(\"$D/g-*\") | shuffle(seed=1, buffer=50) | repeat | parse(value=int64) | filter(\"value != 3\") | batch(5)",
    "tfrecord(\"$D/g-*\") | skip(100000) | repeat",
    "range(3000) | batch(11)",
};

enum { SHARDS = 3 };

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

typedef struct canceller {
    stk_pipeline *pipeline;
    uint64_t after_us;
} canceller;

static void *cancel_main(void *arg)
{
    const canceller *c = arg;
    sleep_us(c->after_us);
    stk_pipeline_cancel(c->pipeline);
    return NULL;
}

static void cancel_once(const char *text, uint64_t draw)
{
    stk_config config = {.struct_size = sizeof config,
                         .threads = 1 + (int)(draw % 4),
                         .memory_bytes = (uint64_t)4 << 20,
                         .stall_ns = -1};
    stk_error error;
    canceller c = {.pipeline = open_or_fail(text, &config), .after_us = draw >> 8 & 2047};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_main, &c), 0);
    const stk_batch *held = NULL, *batch;
    stk_status status;
    while ((status = stk_pipeline_next(c.pipeline, &batch, &error)) == STK_OK) {
        stk_batch_release(c.pipeline, held); /* one is always held, also when the run is closed */
        held = batch;
    }
    if (status != STK_CANCELLED && status != STK_END)
        fail_msg("%s: %s %s", text, stk_status_name(status), error.message);
    pthread_join(thread, NULL);
    assert_int_equal(stk_pipeline_next(c.pipeline, &batch, &error), STK_CANCELLED);
    stk_pipeline_close(c.pipeline);
}

static void cancel_at_any_moment_ends_the_run(void **state)
{
    for (uint64_t round = 0; round < 200; round++)
        cancel_once(pipelines[round % STK_COUNT(pipelines)], stk__mix(7, round));
}

/* Closing needs no cancel before it. */
static void close_at_any_moment_ends_the_run(void **state)
{
    for (uint64_t round = 0; round < 200; round++) {
        const uint64_t draw = stk__mix(8, round);
        stk_config config = {.struct_size = sizeof config, .threads = 1 + (int)(draw % 4), .stall_ns = -1};
        stk_pipeline *p = open_or_fail(pipelines[round % STK_COUNT(pipelines)], &config);
        const stk_batch *batch;
        if (draw >> 8 & 1 && round % STK_COUNT(pipelines) < 2)
            assert_int_equal(stk_pipeline_next(p, &batch, NULL), STK_OK);
        sleep_us(draw >> 9 & 1023);
        stk_pipeline_close(p);
    }
}

static bool refuse(void *arg, const char *what, int64_t done, int64_t total)
{
    return false;
}

/* The progress callback may end the opening. */
static void cancel_while_opening(void **state)
{
    stk_config config = {.struct_size = sizeof config, .progress = refuse};
    stk_pipeline *p = NULL;
    stk_error error;
    char full[512];
    fill("tfrecord(\"$D/p-*\") | batch(5)", full, sizeof full);
    const stk_status status = stk_pipeline_open(full, &config, &p, &error);
    if (status == STK_OK) /* too small to be asked */
        stk_pipeline_close(p);
    else
        assert_int_equal(status, STK_CANCELLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancel_at_any_moment_ends_the_run),
        cmocka_unit_test(close_at_any_moment_ends_the_run),
        cmocka_unit_test(cancel_while_opening),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
