/* Cancels runs of many kinds at random moments from another thread; nothing may hang, leak or race. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <stoker/pipeline.h>

#include "base/compiler.h"
#include "base/rng.h"

static char dir[64];

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

static void fill(const char *text, char *out, size_t size)
{
    size_t n = 0;
    for (; *text && n + sizeof dir < size; text++) {
        if (text[0] == '$' && text[1] == 'D')
            n += (size_t)snprintf(out + n, size - n, "%s", dir), text++;
        else
            out[n++] = *text;
    }
    out[n] = 0;
}

static void run_to_end(const char *text)
{
    char full[512];
    stk_pipeline *p;
    stk_error error;
    const stk_batch *batch;
    stk_status status;
    fill(text, full, sizeof full);
    if (stk_pipeline_open(full, NULL, &p, &error) != STK_OK)
        fail_msg("%s: %s", full, error.message);
    while ((status = stk_pipeline_next(p, &batch, &error)) == STK_OK) {
        assert_int_equal(stk_pipeline_consume(p, batch, &error), STK_OK);
        stk_batch_release(p, batch);
    }
    assert_int_equal(status, STK_END);
    assert_int_equal(stk_pipeline_finish(p, &error), STK_OK);
    stk_pipeline_close(p);
}

static int make_data(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/stk-stress-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    run_to_end("range(500) | write_tfrecord(\"$D/p-%d\", shards=3)");
    run_to_end("range(500) | write_tfrecord(\"$D/g-%d\", shards=3, compression=gzip)");
    return 0;
}

static int remove_data(void **state)
{
    for (int i = 0; i < 3; i++) {
        char path[96];
        snprintf(path, sizeof path, "%s/p-%d", dir, i);
        unlink(path);
        snprintf(path, sizeof path, "%s/g-%d", dir, i);
        unlink(path);
    }
    return rmdir(dir);
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
    stk_config config = {.struct_size = sizeof config, .threads = 1 + (int)(draw % 4), .memory_bytes = (uint64_t)4 << 20,
                         .stall_ns = -1};
    char full[512];
    stk_error error;
    canceller c = {.after_us = draw >> 8 & 2047};
    pthread_t thread;
    fill(text, full, sizeof full);
    if (stk_pipeline_open(full, &config, &c.pipeline, &error) != STK_OK)
        fail_msg("%s: %s", full, error.message);
    assert_int_equal(pthread_create(&thread, NULL, cancel_main, &c), 0);
    const stk_batch *held = NULL, *batch;
    stk_status status;
    while ((status = stk_pipeline_next(c.pipeline, &batch, &error)) == STK_OK) {
        stk_batch_release(c.pipeline, held); /* one is always held, also when the run is closed */
        held = batch;
    }
    if (status != STK_CANCELLED && status != STK_END)
        fail_msg("%s: %s %s", full, stk_status_name(status), error.message);
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
        char full[512];
        stk_pipeline *p;
        const stk_batch *batch;
        fill(pipelines[round % STK_COUNT(pipelines)], full, sizeof full);
        assert_int_equal(stk_pipeline_open(full, &config, &p, NULL), STK_OK);
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
