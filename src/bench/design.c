/* Random orders, the same for the same seed on every machine. */
#include "base/rng.h"
#include "bench/design.h"

/* Uniform in [0, n), n small: the bias of 2^-32 * n does not matter here. */
static uint32_t draw(uint64_t seed, uint64_t round, uint32_t position, uint32_t n)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)round, (uint32_t)(round >> 32), position, 0};
    uint32_t out[4];
    stk__philox(key, counter, out);
    return (uint32_t)(((uint64_t)out[0] * n) >> 32);
}

void stk__design_order(uint64_t seed, size_t round, size_t count, size_t *out)
{
    for (size_t i = 0; i < count; i++) {
        const size_t at = draw(seed, round, (uint32_t)i, (uint32_t)i + 1);
        out[i] = out[at];
        out[at] = i;
    }
}
