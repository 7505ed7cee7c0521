/* Fletcher's checksum of 32 bits, as HDF5 takes it. */
#ifndef STK_KERNELS_FLETCHER32_H
#define STK_KERNELS_FLETCHER32_H

#include <stddef.h>
#include <stdint.h>

/* Over big-endian words of 16 bits; an odd last byte is the upper half of one more. */
uint32_t stk__fletcher32(const void *data, size_t size);

#endif
