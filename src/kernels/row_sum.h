/* Sums of table rows: what a lookup of several features adds up to. Equal bit for bit at every level of stk__simd. */
#ifndef STK_KERNELS_ROW_SUM_H
#define STK_KERNELS_ROW_SUM_H

#include <stddef.h>
#include <stdint.h>

/* out[i] = scales[0] * rows[0][i] + scales[1] * rows[1][i] + ..., from the left; at least one row, width a multiple of 16. */
void stk__row_sum_int8(const int8_t *const *rows, const float *scales, size_t count, size_t width, float *out);
/* The same for rows of floats without factors. */
void stk__row_sum_float(const float *const *rows, size_t count, size_t width, float *out);

#endif
