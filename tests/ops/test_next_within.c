/* Waiting for a batch with an end: what comes does not depend on it, and a wait in pieces counts as one. */
#include "gate.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"

#define MS ((int64_t)1000000)

static void next_within_tells_that_none_is_ready(void **state)
{
    stk_registry *registry = gate_registry();
    stk_config config = harness_config();
    stk_pipeline *p;
    stk_error error;
    const stk_batch *batch = (const stk_batch *)state;
    stk_stats stats;
    config.registry = registry;
    assert_int_equal(try_open("range(8) | gate | batch(4)", &config, &p, NULL), STK_OK);
    const int64_t start = stk__now_ns();
    assert_int_equal(stk_pipeline_next_within(p, 0, &batch, &error), STK_TIMEOUT);
    assert_int_equal(error.status, STK_TIMEOUT);
    assert_int_equal(stk_pipeline_next_within(p, -5, &batch, NULL), STK_TIMEOUT);
    assert_int_equal(stk_pipeline_next_within(p, 20 * MS, &batch, NULL), STK_TIMEOUT);
    assert_true(stk__now_ns() - start >= 20 * MS); /* not before its time */
    assert_ptr_equal(batch, state);
    stk_pipeline_stats(p, &stats);
    assert_int_equal(stats.batches, 0);
    assert_true(stats.consumer_wait_ns >= 20 * MS && stats.consumer_wait_ns <= stk__now_ns() - start);
    gate_open(8);
    for (int64_t i = 0; i < 2; i++) {
        assert_int_equal(stk_pipeline_next_within(p, INT64_MAX, &batch, &error), STK_OK);
        assert_int_equal(batch->index, i);
        stk_batch_release(p, batch);
    }
    assert_int_equal(stk_pipeline_next_within(p, 0, &batch, &error), STK_END);
    stk_pipeline_stats(p, &stats);
    assert_int_equal(stats.batches, 2);
    stk_pipeline_close(p);
    stk_registry_free(registry);
}

/* All batches, waited for in pieces of `piece_ns`. */
static void digest_in_pieces(const char *text, const stk_config *config, int64_t piece_ns, char out[33],
                             int64_t *out_late)
{
    stk_pipeline *p;
    stk_digest *digest;
    stk_error error;
    stk_status status;
    const stk_batch *batch;
    assert_int_equal(stk_digest_new(&digest, NULL), STK_OK);
    assert_int_equal(try_open(text, config, &p, &error), STK_OK);
    do {
        status =
            piece_ns < 0 ? stk_pipeline_next(p, &batch, &error) : stk_pipeline_next_within(p, piece_ns, &batch, &error);
        if (status == STK_OK) {
            stk_digest_add(digest, batch);
            stk_batch_release(p, batch);
        }
        *out_late += status == STK_TIMEOUT;
    } while (status == STK_OK || status == STK_TIMEOUT);
    assert_int_equal(status, STK_END);
    stk_pipeline_close(p);
    stk_digest_hex(digest, out);
    stk_digest_free(digest);
}

static void what_comes_does_not_depend_on_how_it_is_waited_for(void **state)
{
    static const int64_t pieces[] = {0, 1000, 100000, MS};
    int64_t late = 0;
    write_data();
    for (size_t i = 0; harness_pipelines[i]; i++) {
        for (int on_demand = 0; on_demand < 2; on_demand++) {
            char wanted[33], found[33];
            stk_config config = harness_config();
            config.on_demand = on_demand;
            digest_in_pieces(harness_pipelines[i], &config, -1, wanted, &late);
            assert_int_equal(late, 0);
            for (size_t k = 0; k < STK_COUNT(pieces); k++) {
                digest_in_pieces(harness_pipelines[i], &config, pieces[k], found, &late);
                assert_string_equal(found, wanted);
            }
            late = 0;
        }
    }
}

/* On demand, a batch is made while nobody waits, once it was asked for; and no more than that one. */
static void a_batch_that_was_asked_for_is_made_meanwhile(void **state)
{
    static const char *const texts[] = {"range(8) | gate | batch(2)",
                                        "range(8) | filter(\"value >= 0\") | gate | batch(2)"};
    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        stk_registry *registry = gate_registry();
        stk_config config = harness_config();
        stk_pipeline *p;
        const stk_batch *batch;
        stk_stats stats;
        config.registry = registry;
        config.on_demand = true;
        assert_int_equal(try_open(texts[i], &config, &p, NULL), STK_OK);
        assert_int_equal(gate_waiting, 0); /* nothing is made before it is asked for */
        assert_int_equal(stk_pipeline_next_within(p, 0, &batch, NULL), STK_TIMEOUT);
        gate_wait();
        gate_open(8);
        do
            stk_pipeline_stats(p, &stats);
        while (stats.ready_batches == 0);
        assert_int_equal(stats.ready_batches, 1);
        assert_int_equal(stk_pipeline_next_within(p, 0, &batch, NULL), STK_OK);
        stk_batch_release(p, batch);
        stk_pipeline_close(p);
        stk_registry_free(registry);
    }
}

static int64_t waits_in_trace(const char *name)
{
    char *text;
    size_t size;
    int64_t n = 0;
    assert_int_equal(stk__read_file(in_dir(name), 1 << 24, &text, &size, NULL), STK_OK);
    for (const char *p = text; (p = strstr(p, "\"X\",\"name\":\"wait for batch\"")); p++)
        n++;
    stk__free(text);
    return n;
}

/* Opens the gate when the waits have had their pieces. */
static void *open_later(void *arg)
{
    nanosleep(&(struct timespec){.tv_nsec = 60 * MS}, NULL);
    gate_open(4);
    return NULL;
}

static void a_wait_in_pieces_is_one_slice(void **state)
{
    stk_registry *registry = gate_registry();
    stk_config config = harness_config();
    stk_pipeline *p;
    const stk_batch *batch;
    pthread_t thread;
    int pieces = 0;
    config.registry = registry;
    assert_int_equal(stk_recorder_open(in_dir("t.json"), NULL, &config.recorder, NULL), STK_OK);
    assert_int_equal(try_open("range(4) | gate | batch(4)", &config, &p, NULL), STK_OK);
    assert_int_equal(pthread_create(&thread, NULL, open_later, NULL), 0);
    while (stk_pipeline_next_within(p, 5 * MS, &batch, NULL) == STK_TIMEOUT)
        pieces++;
    assert_true(pieces > 1);
    stk_batch_release(p, batch);
    pthread_join(thread, NULL);
    stk_pipeline_stop(p);
    assert_int_equal(stk_recorder_close(config.recorder, NULL, NULL), STK_OK);
    stk_pipeline_close(p);
    /* A busy machine may keep this thread from its next piece for so long that the wait counts as two. */
    assert_true(waits_in_trace("t.json") >= 1 && waits_in_trace("t.json") < pieces);
    stk_registry_free(registry);
}

/* What was waited for in vain is in the trace too when the run is stopped. */
static void a_wait_in_vain_is_in_the_trace(void **state)
{
    stk_registry *registry = gate_registry();
    stk_config config = harness_config();
    stk_pipeline *p;
    const stk_batch *batch;
    config.registry = registry;
    assert_int_equal(stk_recorder_open(in_dir("v.json"), NULL, &config.recorder, NULL), STK_OK);
    assert_int_equal(try_open("range(4) | gate | batch(4)", &config, &p, NULL), STK_OK);
    assert_int_equal(stk_pipeline_next_within(p, 5 * MS, &batch, NULL), STK_TIMEOUT);
    gate_open(4);
    stk_pipeline_close(p);
    assert_int_equal(stk_recorder_close(config.recorder, NULL, NULL), STK_OK);
    assert_int_equal(waits_in_trace("v.json"), 1);
    stk_registry_free(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(next_within_tells_that_none_is_ready),
        OP_TEST(what_comes_does_not_depend_on_how_it_is_waited_for),
        OP_TEST(a_batch_that_was_asked_for_is_made_meanwhile),
        OP_TEST(a_wait_in_pieces_is_one_slice),
        OP_TEST(a_wait_in_vain_is_in_the_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
