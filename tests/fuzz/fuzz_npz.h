/* Sets the CRCs of members that were changed, without which a fuzzer never gets past them. */
#ifndef TESTS_FUZZ_NPZ_H
#define TESTS_FUZZ_NPZ_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <libdeflate.h>

static inline uint32_t fuzz_read(const uint8_t *p, int bytes)
{
    uint32_t x = 0;
    for (int i = 0; i < bytes; i++)
        x |= (uint32_t)p[i] << 8 * i;
    return x;
}

/* The data of a stored member of the central directory's entry at `e`; NULL when it lies anywhere else than in the file. */
static inline const uint8_t *fuzz_npz_data(const uint8_t *data, size_t size, const uint8_t *e, uint32_t *out_size)
{
    const uint32_t at = fuzz_read(e + 42, 4), length = fuzz_read(e + 24, 4);
    if (fuzz_read(e + 10, 2) != 0 || size < 30 || at > size - 30)
        return NULL;
    const size_t head = 30 + (size_t)fuzz_read(data + at + 26, 2) + fuzz_read(data + at + 28, 2);
    if (head > size - at || length > size - at - head)
        return NULL;
    *out_size = length;
    return data + at + head;
}

/* A copy with right CRCs, or NULL. */
static inline uint8_t *fuzz_npz_mend(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1);
    if (!copy)
        return NULL;
    memcpy(copy, data, size);
    for (size_t at = 0; at + 46 <= size; at++) {
        uint32_t length;
        if (fuzz_read(copy + at, 4) != 0x02014b50)
            continue;
        const uint8_t *member = fuzz_npz_data(copy, size, copy + at, &length);
        if (!member)
            continue;
        const uint32_t crc = libdeflate_crc32(0, member, length);
        for (int i = 0; i < 4; i++)
            copy[at + 16 + (size_t)i] = (uint8_t)(crc >> 8 * i);
    }
    return copy;
}

#endif
