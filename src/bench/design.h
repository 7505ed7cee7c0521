/* The order of runs: random blocks in which every variant runs once per round. */
#ifndef STK_BENCH_DESIGN_H
#define STK_BENCH_DESIGN_H

#include <stddef.h>
#include <stdint.h>

/*
 * The order of the variants in a round, drawn from the seed. Two variants: ABBA or BAAB over each two rounds, so that
 * drift cancels. More: a random permutation of each round. out[count].
 */
void stk__design_order(uint64_t seed, size_t round, size_t count, size_t *out);

#endif
