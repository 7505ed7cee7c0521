/* CRC-32C (Castagnoli), as TFRecord uses it. */
#ifndef STK_KERNELS_CRC32C_H
#define STK_KERNELS_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* CRC of `size` bytes that follow bytes whose CRC is `crc` (0 at the start), by the CPU's fastest way. */
uint32_t stk__crc32c_extend(uint32_t crc, const void *data, size_t size);

static inline uint32_t stk__crc32c(const void *data, size_t size)
{
    return stk__crc32c_extend(0, data, size);
}

/* TFRecord stores CRCs rotated and offset, so that a CRC of bytes that hold CRCs stays sound. */
static inline uint32_t stk__crc32c_mask(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* The plain C way; tests compare the fast ones with it. */
uint32_t stk__crc32c_extend_c(uint32_t crc, const void *data, size_t size);
/* Name of the way that stk__crc32c_extend takes on this CPU: "sse4.2", "c", ... */
const char *stk__crc32c_way(void);

/* The ways that this CPU can take, fastest first, "c" last; so that tests and benches reach each of them. */
typedef struct stk__crc32c_kind {
    const char *name;
    uint32_t (*extend)(uint32_t crc, const void *data, size_t size);
} stk__crc32c_kind;
const stk__crc32c_kind *stk__crc32c_kinds(size_t *out_count);

#endif
