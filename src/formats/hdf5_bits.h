/* Numbers of any width packed with the highest bit first, as n-bit and scale-offset store them. */
#ifndef STK_FORMATS_HDF5_BITS_H
#define STK_FORMATS_HDF5_BITS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A place in packed bits. Plain data; reading moves `at`. */
typedef struct stk__h5_bits {
    const uint8_t *data;
    size_t size;
    uint64_t at; /* in bits */
} stk__h5_bits;

static inline uint64_t stk__h5_bits_at(const uint8_t *data, unsigned skip, unsigned count)
{
    uint64_t word;
    memcpy(&word, data, sizeof word);
    word = __builtin_bswap64(word) << skip;
    if (skip)
        word |= data[8] >> (8 - skip);
    return word >> (64 - count);
}

/* The next `count` bits, 1 to 64; what lies past the end reads as 0. */
static inline uint64_t stk__h5_bits_get(stk__h5_bits *b, unsigned count)
{
    const size_t byte = (size_t)(b->at >> 3);
    const unsigned skip = (unsigned)(b->at & 7);
    b->at += count;
    if (byte + 9 <= b->size)
        return stk__h5_bits_at(b->data + byte, skip, count);
    uint8_t tail[9] = {0};
    if (byte < b->size)
        memcpy(tail, b->data + byte, b->size - byte);
    return stk__h5_bits_at(tail, skip, count);
}

/* `n` numbers of `count` bits each. */
static inline void stk__h5_bits_read(stk__h5_bits *b, unsigned count, uint64_t *out, size_t n)
{
    size_t i = 0;
    /* Below 57 bits one load holds a whole number whatever bit it starts at. */
    if (count <= 57) {
        const unsigned drop = 64 - count;
        uint64_t at = b->at;
        for (; i < n && (at >> 3) + 8 <= b->size; i++, at += count) {
            uint64_t word;
            memcpy(&word, b->data + (at >> 3), sizeof word);
            out[i] = __builtin_bswap64(word) << (at & 7) >> drop;
        }
        b->at = at;
    }
    for (; i < n; i++)
        out[i] = stk__h5_bits_get(b, count);
}

/* Writes the low `size` bytes of `n` numbers, little-endian; size is 1, 2, 4 or 8. */
static inline void stk__h5_bits_store(uint8_t *out, const uint64_t *values, size_t n, size_t size)
{
    switch (size) {
    case 1:
        for (size_t i = 0; i < n; i++)
            out[i] = (uint8_t)values[i];
        break;
    case 2:
        for (size_t i = 0; i < n; i++) {
            const uint16_t x = (uint16_t)values[i];
            memcpy(out + 2 * i, &x, 2);
        }
        break;
    case 4:
        for (size_t i = 0; i < n; i++) {
            const uint32_t x = (uint32_t)values[i];
            memcpy(out + 4 * i, &x, 4);
        }
        break;
    default:
        memcpy(out, values, 8 * n);
        break;
    }
}

#endif
