/* Bytes and bits of equal-sized elements, regrouped: what compressors are fed with, and byte order. */
#ifndef STK_KERNELS_SHUFFLE_H
#define STK_KERNELS_SHUFFLE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Byte shuffle: byte j of element i lies at planes[j * stride + i]. Restores elements [first, first + count) of `size`
 * bytes each into `out`; the planes hold `stride` elements in all. Any part can be restored on its own.
 */
void stk__unshuffle(uint8_t *out, const uint8_t *planes, size_t stride, size_t first, size_t count, size_t size);
/*
 * The same, and a copy, past the caches: for results that nobody reads soon, of which a batch has more than a cache
 * holds. To fetch every line before it is overwritten would take as long as writing it.
 */
void stk__unshuffle_past(uint8_t *out, const uint8_t *planes, size_t stride, size_t first, size_t count, size_t size);
void stk__copy_past(uint8_t *out, const uint8_t *in, size_t size);
/* The other way, for `count` elements that lie one behind the other. */
void stk__shuffle(uint8_t *planes, const uint8_t *in, size_t count, size_t size);

/*
 * Copies `count` elements of 2, 4 or 8 bytes with their bytes turned round; in == out is fine, other overlaps are
 * not.
 */
void stk__swap_bytes(void *out, const void *in, size_t count, size_t size);

/*
 * Bit shuffle as in the bitshuffle library: `count` is a multiple of 8; bit k of byte j of element i goes to bit (i %
 * 8) of byte (j * 8 + k) * count / 8 + i / 8. `scratch` has count * size bytes and overlaps nothing.
 */
void stk__bit_unshuffle(uint8_t *out, const uint8_t *in, size_t count, size_t size, uint8_t *scratch);

#endif
