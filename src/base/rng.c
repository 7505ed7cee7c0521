/* Philox 4x32-10 after Salmon et al. (2011), and a cycle-walking Feistel network. */
#include "base/rng.h"

void stk__philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        const uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* The finaliser of SplitMix64. */
static uint64_t scramble(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t stk__mix(uint64_t a, uint64_t b)
{
    return scramble(scramble(a + 0x9e3779b97f4a7c15u) ^ (b + 0xd1b54a32d192ed03u));
}

void stk__permutation_init(stk__permutation *p, uint64_t n, uint64_t seed)
{
    uint32_t bits = 2;
    while (bits < 63 && (uint64_t)1 << bits < n)
        bits++;
    p->n = n;
    p->left_bits = bits / 2;
    p->right_bits = bits - p->left_bits;
    for (int i = 0; i < 6; i++)
        p->keys[i] = stk__mix(seed, (uint64_t)i + 1);
}

/*
 * An unbalanced Feistel network over `left_bits + right_bits` bits, the smallest domain that holds n, so that walking
 * out of [0, n) takes two steps on average at most.
 */
static uint64_t feistel(const stk__permutation *p, uint64_t x)
{
    const uint64_t left_mask = ((uint64_t)1 << p->left_bits) - 1;
    const uint64_t right_mask = ((uint64_t)1 << p->right_bits) - 1;
    uint64_t left = x >> p->right_bits, right = x & right_mask;
    for (int i = 0; i < 6; i += 2) {
        left = (left ^ scramble(right + p->keys[i])) & left_mask;
        right = (right ^ scramble(left + p->keys[i + 1])) & right_mask;
    }
    return left << p->right_bits | right;
}

uint64_t stk__permute(const stk__permutation *p, uint64_t i)
{
    do
        i = feistel(p, i);
    while (i >= p->n);
    return i;
}
