/*
 * A shuffle that keeps samples near each other that are read together: blocks in random order, rows mixed over a few
 * of them.
 */
#ifndef STK_OPS_BLOCK_ORDER_H
#define STK_OPS_BLOCK_ORDER_H

#include "engine/op.h"

/* Which sample comes when, for any seed. Any thread. */
typedef struct stk__block_order stk__block_order;

/* firsts[0..blocks] are the first positions of the blocks, then their end. `window` blocks are mixed at a time. */
stk_status stk__block_order_new(const int64_t *firsts, int64_t blocks, int64_t window, stk__block_order **out,
                                stk_error *err);
void stk__block_order_free(stk__block_order *o);
int64_t stk__block_order_map(stk__block_order *o, uint64_t seed, int64_t position);
int64_t stk__block_order_memory(const stk__block_order *o);

#endif
