/* Many threads, a consumer of changing speed that holds batches, readers of the statistics: the output stays the same. */
#include "shards.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/compiler.h"
#include "base/rng.h"

static const char *in_trace_path(void)
{
    static char path[96];
    snprintf(path, sizeof path, "%s/t.pftrace", dir);
    return path;
}

static const char *const pipelines[] = {
    "range(4000) | shuffle(seed=1) | batch(16) | repeat(2)",
    "range(4000) | filter(\"value % 3 != 0\") | take(2500) | batch(16) | repeat(2)",
    "range(4000) | batch(16) | take(100) | shuffle(seed=3) | repeat(2)",
    "tfrecord(\"$D/p-*\") | interleave(block=3) | parse(value=int64) | cache | batch(16) | repeat(3)",
    "tfrecord(\"$D/p-*\") | shuffle(seed=2) | batch(16)",
    "tfrecord(\"$D/g-*\") | shuffle(seed=1, buffer=100) | parse(value=int64) | filter(\"value % 7 != 2\") | batch(16) | repeat(2)",
};

enum { SHARDS = 5 };

static int make_data(void **state)
{
    return make_shards(2000, SHARDS);
}

static int remove_data(void **state)
{
    unlink(in_trace_path());
    return remove_shards(SHARDS);
}

/* Looks at everything that may be looked at while a run goes on. */
typedef struct watcher {
    stk_pipeline *pipeline;
    atomic_bool stop;
} watcher;

static void *watch_main(void *arg)
{
    watcher *w = arg;
    while (!atomic_load(&w->stop)) {
        stk_stats stats;
        const char *name;
        int64_t busy_ns, samples;
        stk_pipeline_stats(w->pipeline, &stats);
        for (size_t i = 0; stk_pipeline_op_stats(w->pipeline, i, &name, &busy_ns, &samples); i++)
            ;
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    return NULL;
}

enum { HOLD = 4 };

/* Digest of a run whose consumer dawdles at random and gives batches back late and out of order. */
static void digest_of(const char *text, const stk_config *config, uint64_t seed, char out[33])
{
    watcher w = {.pipeline = open_or_fail(text, config)};
    const stk_batch *held[HOLD] = {NULL};
    pthread_t thread;
    stk_digest *digest;
    stk_error error;
    stk_status status;
    const stk_batch *batch;
    assert_int_equal(stk_digest_new(&digest, NULL), STK_OK);
    assert_int_equal(pthread_create(&thread, NULL, watch_main, &w), 0);
    for (uint64_t i = 0; (status = stk_pipeline_next(w.pipeline, &batch, &error)) == STK_OK; i++) {
        const uint64_t draw = stk__mix(seed, i);
        stk_digest_add(digest, batch);
        if (seed && draw % 16 == 0)
            nanosleep(&(struct timespec){.tv_nsec = (long)(draw >> 8 & 0x3ffff)}, NULL);
        const size_t place = draw >> 32 & (HOLD - 1);
        stk_batch_release(w.pipeline, held[place]);
        held[place] = batch;
    }
    if (status != STK_END)
        fail_msg("%s: %s", text, error.message);
    atomic_store(&w.stop, true);
    pthread_join(thread, NULL);
    stk_digest_hex(digest, out);
    stk_digest_free(digest);
    stk_pipeline_close(w.pipeline);
}

static void eight_threads_give_what_one_gives(void **state)
{
    for (size_t i = 0; i < STK_COUNT(pipelines); i++) {
        stk_config config = {
            .struct_size = sizeof config, .threads = 1, .memory_bytes = (uint64_t)64 << 20, .stall_ns = -1};
        char one[33], many[33];
        digest_of(pipelines[i], &config, 0, one);
        for (uint64_t round = 1; round <= 3; round++) {
            config.threads = 8;
            config.memory_bytes = (uint64_t)(round == 3 ? 4 : 64) << 20;
            digest_of(pipelines[i], &config, round, many);
            assert_string_equal(many, one);
        }
    }
}

static void traced_runs_give_the_same(void **state)
{
    for (size_t i = 0; i < STK_COUNT(pipelines); i++) {
        stk_config config = {
            .struct_size = sizeof config, .threads = 4, .memory_bytes = (uint64_t)64 << 20, .stall_ns = -1};
        char plain[33], traced[33];
        digest_of(pipelines[i], &config, 0, plain);
        assert_int_equal(stk_recorder_open(in_trace_path(), NULL, &config.recorder, NULL), STK_OK);
        digest_of(pipelines[i], &config, 5, traced);
        assert_int_equal(stk_recorder_close(config.recorder, NULL, NULL), STK_OK);
        assert_string_equal(traced, plain);
    }
}

static _Atomic int warnings;

static void on_log(void *arg, stk_log_level level, const char *text)
{
    atomic_fetch_add(&warnings, level == STK_LOG_WARNING);
}

/* The watchdog looks on while workers come and go. */
static void stalls_are_watched_without_harm(void **state)
{
    for (size_t i = 0; i < STK_COUNT(pipelines); i++) {
        stk_config config = {.struct_size = sizeof config, .threads = 4, .stall_ns = 1000000, .log = on_log};
        char a[33], b[33];
        digest_of(pipelines[i], &config, 1, a);
        digest_of(pipelines[i], &config, 2, b);
        assert_string_equal(a, b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_threads_give_what_one_gives),
        cmocka_unit_test(traced_runs_give_the_same),
        cmocka_unit_test(stalls_are_watched_without_harm),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
