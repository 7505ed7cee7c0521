/* Counter-based random numbers (Philox 4x32-10) and a keyed permutation of [0, n). */
#ifndef STK_BASE_RNG_H
#define STK_BASE_RNG_H

#include <stdint.h>

/* The same key and counter give the same four words on every machine and in every thread. */
void stk__philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

/* 64 well mixed bits of a and b; for deriving keys. */
uint64_t stk__mix(uint64_t a, uint64_t b);

/* A permutation of [0, n) that is computed, not stored. Plain data. */
typedef struct stk__permutation {
    uint64_t n;
    uint64_t keys[6];
    uint32_t left_bits, right_bits;
} stk__permutation;

/* n in [0, 2^62]. */
void stk__permutation_init(stk__permutation *p, uint64_t n, uint64_t seed);
/* Where position i goes; i < n. Constant time on average, no memory. */
uint64_t stk__permute(const stk__permutation *p, uint64_t i);

#endif
