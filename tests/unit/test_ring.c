/* The event ring: order, fullness, and one producer against one consumer. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "trace/ring.h"

static bool push(stk__ring *ring, int64_t n)
{
    bool busy;
    stk__event *e = stk__ring_reserve(ring, &busy);
    if (!e)
        return false;
    *e = (stk__event){.start_ns = n, .end_ns = ~n};
    stk__ring_commit(ring);
    return true;
}

static void ring_event_fits_in_a_cache_line(void **state)
{
    assert_in_range(sizeof(stk__event), 1, 64);
}

static void ring_peek_on_empty_ring_finds_nothing(void **state)
{
    stk__ring ring;
    uint64_t tail, head;
    assert_true(stk__ring_init(&ring, 8));
    stk__ring_peek(&ring, &tail, &head);
    assert_int_equal(tail, head);
    stk__ring_clear(&ring);
}

static void ring_reserve_on_full_ring_returns_null(void **state)
{
    stk__ring ring;
    assert_true(stk__ring_init(&ring, 8));
    for (int i = 0; i < 8; i++)
        assert_true(push(&ring, i));
    assert_false(push(&ring, 8));
    stk__ring_release(&ring, 1);
    assert_true(push(&ring, 8));
    assert_false(push(&ring, 9));
    stk__ring_clear(&ring);
}

static void ring_is_busy_from_half_full_on(void **state)
{
    stk__ring ring;
    bool busy;
    assert_true(stk__ring_init(&ring, 8));
    for (int i = 0; i < 8; i++) {
        assert_non_null(stk__ring_reserve(&ring, &busy));
        assert_int_equal(busy, i >= 4);
        stk__ring_commit(&ring);
    }
    stk__ring_release(&ring, 8);
    assert_non_null(stk__ring_reserve(&ring, &busy));
    assert_false(busy);
    stk__ring_clear(&ring);
}

static void ring_keeps_order_around_its_end(void **state)
{
    stk__ring ring;
    uint64_t tail, head;
    int64_t next_in = 0, next_out = 0;
    assert_true(stk__ring_init(&ring, 4));
    for (int round = 0; round < 50; round++) {
        while (push(&ring, next_in))
            next_in++;
        stk__ring_peek(&ring, &tail, &head);
        assert_int_equal(head - tail, 4);
        const uint64_t until = tail + 1 + (uint64_t)round % 4;
        for (uint64_t p = tail; p < until; p++)
            assert_int_equal(stk__ring_at(&ring, p)->start_ns, next_out++);
        stk__ring_release(&ring, until);
    }
    stk__ring_clear(&ring);
}

static void ring_init_without_memory_fails(void **state)
{
    stk__ring ring;
    stk__alloc_fail_at(1, true);
    const bool made = stk__ring_init(&ring, 8);
    stk__alloc_fail_at(0, false);
    assert_false(made);
    stk__ring_clear(&ring);
}

enum { RACE_EVENTS = 200000 };

static void *race_producer(void *ring)
{
    for (int64_t i = 0; i < RACE_EVENTS; i++)
        while (!push(ring, i))
            sched_yield();
    return NULL;
}

static void ring_passes_every_event_between_two_threads(void **state)
{
    stk__ring ring;
    pthread_t producer;
    int64_t next = 0;
    assert_true(stk__ring_init(&ring, 64));
    assert_int_equal(pthread_create(&producer, NULL, race_producer, &ring), 0);
    while (next < RACE_EVENTS) {
        uint64_t tail, head;
        stk__ring_peek(&ring, &tail, &head);
        for (uint64_t p = tail; p < head; p++, next++) {
            assert_int_equal(stk__ring_at(&ring, p)->start_ns, next);
            assert_int_equal(stk__ring_at(&ring, p)->end_ns, ~next);
        }
        stk__ring_release(&ring, head);
        if (tail == head)
            sched_yield();
    }
    pthread_join(producer, NULL);
    stk__ring_clear(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_event_fits_in_a_cache_line),
        cmocka_unit_test(ring_peek_on_empty_ring_finds_nothing),
        cmocka_unit_test(ring_reserve_on_full_ring_returns_null),
        cmocka_unit_test(ring_is_busy_from_half_full_on),
        cmocka_unit_test(ring_keeps_order_around_its_end),
        cmocka_unit_test(ring_init_without_memory_fails),
        cmocka_unit_test(ring_passes_every_event_between_two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
