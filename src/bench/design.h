/* The order of runs: random blocks in which every variant runs once per round. */
#ifndef STK_BENCH_DESIGN_H
#define STK_BENCH_DESIGN_H

#include <stddef.h>
#include <stdint.h>

/*
 * The order of the variants in a round, drawn anew for each from the seed: whatever the machine does, equals then give
 * a ratio and its opposite with the same chance, which is all that the tests rest on. out[count].
 */
void stk__design_order(uint64_t seed, size_t round, size_t count, size_t *out);

#endif
