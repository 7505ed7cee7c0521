/* Set-up of the event ring, and its consumer side. */
#include "trace/ring.h"

#include "base/mem.h"

bool stk__ring_init(stk__ring *ring, size_t capacity)
{
    *ring = (stk__ring){.mask = capacity - 1};
    ring->events = stk__alloc_aligned(stk__ring_bytes(capacity));
    return ring->events != NULL;
}

void stk__ring_clear(stk__ring *ring)
{
    stk__free(ring->events);
    ring->events = NULL;
}

void stk__ring_peek(const stk__ring *ring, uint64_t *out_tail, uint64_t *out_head)
{
    *out_tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    *out_head = atomic_load_explicit(&ring->head, memory_order_acquire);
}

void stk__ring_release(stk__ring *ring, uint64_t position)
{
    atomic_store_explicit(&ring->tail, position, memory_order_release);
}
