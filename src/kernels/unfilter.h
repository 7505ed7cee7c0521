/* PNG's row filters undone. */
#ifndef STK_KERNELS_UNFILTER_H
#define STK_KERNELS_UNFILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Undoes filter `kind` (0 to 4) of one row of `size` bytes in place; `pixel` bytes (1 to 8) per pixel; `above` is the row
 * before it, undone (NULL: zeros). False for an unknown filter.
 */
bool stk__unfilter_row(int kind, uint8_t *row, const uint8_t *above, size_t size, size_t pixel);

/*
 * The same for `count` rows, each behind the byte of its filter, which lie `stride` bytes apart; the first has no row
 * before it. Returns how many rows were undone: fewer than `count` when the next one has an unknown filter.
 */
size_t stk__unfilter_rows(uint8_t *rows, size_t stride, size_t size, size_t pixel, size_t count);

#endif
