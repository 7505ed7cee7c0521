/* An op that holds samples back until the test lets them pass, so that a wait lasts as long as a test wants. */
#ifndef STK_TESTS_GATE_H
#define STK_TESTS_GATE_H

#include "harness.h"

#include <pthread.h>

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_changed = PTHREAD_COND_INITIALIZER;
static int64_t gate_passes;  /* samples that may still pass */
static int64_t gate_waiting; /* samples that stand before it */

typedef struct {
    int in;
} gate_state;

static stk_status gate_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    gate_state *s = state;
    stk_field field;
    return host->plan_read(plan, "value", &s->in, &field, err);
}

static stk_status gate_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    pthread_mutex_lock(&gate_lock);
    gate_waiting++;
    pthread_cond_broadcast(&gate_changed);
    while (gate_passes <= 0)
        pthread_cond_wait(&gate_changed, &gate_lock);
    gate_passes--;
    gate_waiting--;
    pthread_mutex_unlock(&gate_lock);
    return STK_OK;
}

static const stk_option gate_options[] = {STK_OPTION_END};

static const stk_op gate_op = {
    .abi = STK_OP_ABI,
    .name = "gate",
    .group = "samples",
    .since = "0.1",
    .summary = "Wait for the test.",
    .options = gate_options,
    .state_size = sizeof(gate_state),
    .schema = gate_schema,
    .process = gate_process,
};

static const stk_op *const gate_ops[] = {&gate_op, NULL};

static stk_registry *gate_registry(void)
{
    stk_registry *registry;
    gate_passes = gate_waiting = 0;
    assert_int_equal(stk_registry_new(&registry, NULL), STK_OK);
    assert_int_equal(stk_registry_add(registry, gate_ops, NULL), STK_OK);
    return registry;
}

static void gate_open(int64_t samples)
{
    pthread_mutex_lock(&gate_lock);
    gate_passes += samples;
    pthread_cond_broadcast(&gate_changed);
    pthread_mutex_unlock(&gate_lock);
}

/* Until a sample stands before the gate. */
static void gate_wait(void)
{
    pthread_mutex_lock(&gate_lock);
    while (gate_waiting == 0)
        pthread_cond_wait(&gate_changed, &gate_lock);
    pthread_mutex_unlock(&gate_lock);
}

#endif
