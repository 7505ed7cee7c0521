/* Runs that are stopped: batches that are held stay as they are until they are released, all else is gone. */
#include "gate.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>

static void digest_batch(const stk_batch *batch, char out[33])
{
    stk_digest *digest;
    assert_int_equal(stk_digest_new(&digest, NULL), STK_OK);
    stk_digest_add(digest, batch);
    stk_digest_hex(digest, out);
    stk_digest_free(digest);
}

static stk_pipeline *open_text(const char *text, const stk_config *config)
{
    stk_pipeline *p;
    stk_error error;
    if (try_open(text, config, &p, &error) != STK_OK)
        fail_msg("'%s': %s", text, error.message);
    return p;
}

enum { HELD = 3 };

/* Takes a few batches, stops, and looks at them before and after each release. */
static void check_held(const char *text, int threads)
{
    stk_config config = harness_config();
    config.threads = threads;
    stk_pipeline *p = open_text(text, &config);
    const stk_batch *held[HELD], *batch;
    char digests[HELD][33], again[33];
    stk_stats stats;
    int n = 0;
    while (n < HELD && stk_pipeline_next(p, &held[n], NULL) == STK_OK) {
        digest_batch(held[n], digests[n]);
        n++;
    }
    stk_pipeline_stop(p);
    stk_pipeline_stop(p);
    for (int k = 0; k < n; k++) {
        for (int i = k; i < n; i++) {
            digest_batch(held[i], again);
            assert_string_equal(digests[i], again);
        }
        stk_pipeline_stats(p, &stats);
        const int64_t before = stats.buffer_bytes;
        stk_batch_release(p, held[k]);
        stk_pipeline_stats(p, &stats);
        assert_true(stats.buffer_bytes < before);
    }
    assert_int_equal(stk_pipeline_next(p, &batch, NULL), STK_CANCELLED);
    assert_int_equal(stk_pipeline_next_within(p, 0, &batch, NULL), STK_CANCELLED);
    stk_pipeline_close(p);
}

static void held_batches_outlive_the_run(void **state)
{
    write_data();
    for (size_t i = 0; harness_pipelines[i]; i++)
        for (int threads = 1; threads <= 3; threads += 2)
            check_held(harness_pipelines[i], threads);
}

/* All memory of batches and of what works on samples is given back, whatever the pipeline. */
static void stop_gives_the_memory_back(void **state)
{
    write_data();
    for (size_t i = 0; harness_pipelines[i]; i++) {
        stk_stats stats;
        const stk_batch *batch;
        stk_pipeline *p = open_text(harness_pipelines[i], NULL);
        assert_int_equal(stk_pipeline_next(p, &batch, NULL), STK_OK);
        stk_batch_release(p, batch);
        stk_pipeline_stop(p);
        stk_pipeline_stats(p, &stats);
        if (strstr(harness_pipelines[i], "range(")) /* which holds nothing for the whole run */
            assert_int_equal(stats.buffer_bytes, 0);
        assert_true(stats.buffer_bytes < stats.peak_buffer_bytes);
        stk_pipeline_close(p);
    }
}

/* Two calls, so that op i is the same in both. */
static void note_ops(const stk_pipeline *p, stk__text *out)
{
    const char *name;
    int64_t busy_ns, samples;
    for (size_t i = 0; stk_pipeline_op_stats(p, i, &name, &busy_ns, &samples); i++)
        stk__text_printf(out, "%s %lld %lld\n", name, (long long)busy_ns, (long long)samples);
    stk__text_puts(out, stk_pipeline_explain(p));
    stk__text_puts(out, stk_pipeline_explain_json(p));
}

static void state_and_statistics_stay(void **state)
{
    write_data();
    for (size_t i = 0; harness_pipelines[i]; i++) {
        stk_pipeline *p = open_text(harness_pipelines[i], NULL);
        const stk_batch *batch;
        stk_stats before, after;
        stk__text ops_before = STK__TEXT_INIT, ops_after = STK__TEXT_INIT;
        char *place, *again;
        while (stk_pipeline_next(p, &batch, NULL) == STK_OK) /* to the end, where nothing changes any more */
            stk_batch_release(p, batch);
        stk_pipeline_stats(p, &before);
        assert_int_equal(stk_pipeline_state(p, &place, NULL), STK_OK);
        stk_pipeline_stop(p);
        note_ops(p, &ops_before);
        stk_pipeline_next(p, &batch, NULL);
        stk_pipeline_stats(p, &after);
        note_ops(p, &ops_after);
        assert_int_equal(stk_pipeline_state(p, &again, NULL), STK_OK);
        assert_string_equal(place, again);
        assert_string_equal(ops_before.data, ops_after.data);
        assert_int_equal(before.samples, after.samples);
        assert_int_equal(before.batches, after.batches);
        assert_int_equal(before.bytes_read, after.bytes_read);
        assert_int_equal(before.cache_hits, after.cache_hits);
        assert_int_equal(before.cache_misses, after.cache_misses);
        assert_int_equal(before.consumer_wait_ns, after.consumer_wait_ns);
        assert_int_equal(before.total_batches, after.total_batches);
        assert_int_equal(before.dropped, after.dropped);
        stk_pipeline_close(p);
        stk__text_clear(&ops_before);
        stk__text_clear(&ops_after);
        stk_free(place);
        stk_free(again);
    }
}

/* The state of a stopped run is one to go on from. */
static void a_stopped_run_goes_on_elsewhere(void **state)
{
    static const char *const texts[] = {
        "range(23) | shuffle(seed=3) | shard(count=2, index=1) | batch(4) | repeat(2)",
        "range(40) | filter(\"value % 3 != 0\") | batch(4) | repeat(2)",
        "tfrecord(\"$D/b-*.gz\") | shuffle(seed=1, buffer=6) | parse(value=int64) | batch(4) | repeat(2)",
    };
    write_data();
    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        stk_config config = harness_config();
        stk_pipeline *p = open_text(texts[i], NULL);
        const stk_batch *batch;
        char *place;
        seen all, rest;
        for (int k = 0; k < 3; k++) {
            assert_int_equal(stk_pipeline_next(p, &batch, NULL), STK_OK);
            stk_batch_release(p, batch);
        }
        stk_pipeline_stop(p);
        assert_int_equal(stk_pipeline_state(p, &place, NULL), STK_OK);
        stk_pipeline_close(p);
        run_all(texts[i], NULL, &all);
        config.resume_state = place;
        run_all(texts[i], &config, &rest);
        assert_seen_equal(&all, 3, &rest, texts[i]);
        seen_clear(&all);
        seen_clear(&rest);
        stk_free(place);
    }
}

static void sinks_and_caches_publish_nothing(void **state)
{
    static const char *const texts[] = {
        "range(20) | batch(4) | write_tfrecord(\"$D/out\")",
        "range(20) | batch(4) | write_hdf5(\"$D/out.h5\")",
        "range(20) | cache(\"$D/kept\") | batch(4) | take(2) | discard",
        "tfrecord(\"$D/b-0.tfrecord.gz\") | cache(\"$D/kept\") | parse(value=int64) | batch(2) | write_tfrecord(\"$D/out\")",
    };
    write_data();
    const int files = count_files("");
    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        stk_pipeline *p = open_text(texts[i], NULL);
        const stk_batch *batch;
        stk_error error;
        for (int k = 0; k < 2; k++) {
            assert_int_equal(stk_pipeline_next(p, &batch, NULL), STK_OK);
            assert_int_equal(stk_pipeline_consume(p, batch, NULL), STK_OK);
            stk_batch_release(p, batch);
        }
        assert_int_equal(stk_pipeline_next(p, &batch, &error), i == 2 ? STK_END : STK_OK);
        stk_pipeline_stop(p);
        assert_int_equal(count_files(""), files);
        if (i != 2) {
            assert_int_equal(stk_pipeline_consume(p, batch, &error), STK_CANCELLED);
            stk_batch_release(p, batch);
        }
        assert_int_equal(stk_pipeline_finish(p, &error), STK_CANCELLED);
        stk_pipeline_close(p);
        assert_int_equal(count_files(""), files);
    }
}

/* The helper of HDF5 is a process of its own. */
static void no_process_is_left(void **state)
{
    const stk_batch *batch;
    write_data();
    stk_pipeline *p = open_text("hdf5(\"$D/data.h5\") | batch(4) | write_hdf5(\"$D/out.h5\")", NULL);
    assert_int_equal(stk_pipeline_next(p, &batch, NULL), STK_OK);
    assert_int_equal(stk_pipeline_consume(p, batch, NULL), STK_OK);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), 0); /* it runs */
    stk_pipeline_stop(p);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* there is no child */
    stk_batch_release(p, batch);
    stk_pipeline_close(p);
}

typedef struct waiter {
    stk_pipeline *pipeline;
    stk_status status;
    atomic_bool began;
} waiter;

static void *wait_main(void *arg)
{
    waiter *w = arg;
    const stk_batch *batch;
    stk_error error;
    atomic_store(&w->began, true);
    w->status = stk_pipeline_next(w->pipeline, &batch, &error);
    return NULL;
}

static void *stop_main(void *arg)
{
    stk_pipeline_stop(arg);
    return NULL;
}

/* Next returns before anything that it looks at is freed, and stop waits for the op that is under way. */
static void stop_ends_a_next_that_waits(void **state)
{
    stk_registry *registry = gate_registry();
    stk_config config = harness_config();
    config.registry = registry;
    waiter w = {.pipeline = open_text("range(8) | gate | batch(4)", &config)};
    pthread_t waits, stops[2];
    gate_wait();
    assert_int_equal(pthread_create(&waits, NULL, wait_main, &w), 0);
    while (!atomic_load(&w.began))
        sched_yield();
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&stops[i], NULL, stop_main, w.pipeline), 0);
    pthread_join(waits, NULL); /* while workers are still held at the gate */
    assert_int_equal(w.status, STK_CANCELLED);
    gate_open(1000);
    for (int i = 0; i < 2; i++)
        pthread_join(stops[i], NULL);
    stk_pipeline_close(w.pipeline);
    stk_registry_free(registry);
}

static void stop_of_nothing_is_fine(void **state)
{
    stk_pipeline_stop(NULL);
    stk_pipeline *p = open_text("range(5) | batch(2)", NULL);
    stk_pipeline_stop(p);
    stk_pipeline_close(p);
}

/* The recorder need not outlive the stop. */
static void a_recorder_may_go_after_stop(void **state)
{
    stk_config config = harness_config();
    const stk_batch *batch;
    assert_int_equal(stk_recorder_open(in_dir("t.pftrace"), NULL, &config.recorder, NULL), STK_OK);
    stk_pipeline *p = open_text("range(50) | batch(5)", &config);
    assert_int_equal(stk_pipeline_next(p, &batch, NULL), STK_OK);
    stk_pipeline_stop(p);
    assert_int_equal(stk_recorder_close(config.recorder, NULL, NULL), STK_OK);
    stk_batch_release(p, batch);
    assert_int_equal(stk_pipeline_next(p, &batch, NULL), STK_CANCELLED);
    stk_pipeline_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(held_batches_outlive_the_run),     OP_TEST(stop_gives_the_memory_back),
        OP_TEST(state_and_statistics_stay),        OP_TEST(a_stopped_run_goes_on_elsewhere),
        OP_TEST(sinks_and_caches_publish_nothing), OP_TEST(no_process_is_left),
        OP_TEST(stop_ends_a_next_that_waits),      OP_TEST(stop_of_nothing_is_fine),
        OP_TEST(a_recorder_may_go_after_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
