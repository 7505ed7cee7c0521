/* A ring of fixed-size events between one producer and one consumer; neither side ever waits for the other. */
#ifndef STK_TRACE_RING_H
#define STK_TRACE_RING_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

typedef enum stk__event_kind { STK__EVENT_SLICE, STK__EVENT_COUNTER } stk__event_kind;

/* One record; 48 bytes. A counter has start_ns == end_ns, and its double's bits in value[0]. */
typedef struct stk__event {
    int64_t start_ns, end_ns;
    int64_t value[2];
    int32_t arg[2]; /* names of value[0] and value[1]; 0: none */
    int32_t name;
    int32_t kind; /* stk__event_kind */
} stk__event;

/* Positions count up for ever; position & mask is the place in `events`. */
typedef struct stk__ring {
    /* set before use, then const */
    stk__event *events;
    uint64_t mask;

    /* written by the producer only */
    alignas(64) atomic_uint_fast64_t head;
    uint64_t tail_seen; /* the producer's copy of `tail`, refreshed when the ring looks half full */

    /* written by the consumer only */
    alignas(64) atomic_uint_fast64_t tail;
} stk__ring;

/* Bytes that a ring of this capacity allocates. */
static inline size_t stk__ring_bytes(size_t capacity)
{
    return capacity * sizeof(stk__event);
}

/* Capacity must be a power of two. False when memory is out. */
bool stk__ring_init(stk__ring *ring, size_t capacity);
void stk__ring_clear(stk__ring *ring);

static inline size_t stk__ring_capacity(const stk__ring *ring)
{
    return (size_t)ring->mask + 1;
}

/*
 * Producer: the place for the next event, or NULL when the ring is full. It becomes visible by stk__ring_commit.
 * *out_busy is set when the ring is at least half full, which is the time to wake the consumer.
 */
static inline stk__event *stk__ring_reserve(stk__ring *ring, bool *out_busy)
{
    const uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    *out_busy = false;
    if (STK_UNLIKELY((head - ring->tail_seen) * 2 > ring->mask)) {
        ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
        *out_busy = (head - ring->tail_seen) * 2 > ring->mask;
        if (head - ring->tail_seen > ring->mask)
            return NULL;
    }
    return &ring->events[head & ring->mask];
}

static inline void stk__ring_commit(stk__ring *ring)
{
    const uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

/* Consumer: positions [*out_tail, *out_head) hold events that stay put until they are released. */
void stk__ring_peek(const stk__ring *ring, uint64_t *out_tail, uint64_t *out_head);
static inline const stk__event *stk__ring_at(const stk__ring *ring, uint64_t position)
{
    return &ring->events[position & ring->mask];
}
/* Gives everything before `position` back to the producer. */
void stk__ring_release(stk__ring *ring, uint64_t position);

#endif
