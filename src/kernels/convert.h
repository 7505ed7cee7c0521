/* Conversion of number arrays from one element type to another. */
#ifndef STK_KERNELS_CONVERT_H
#define STK_KERNELS_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/types.h>

/*
 * Converts `count` elements. To integers: towards zero, values out of range become the nearest one in range, NaN becomes 0.
 * To bool: anything but 0 is true. To half floats: round to nearest even. False when a type is no number.
 */
bool stk__convert(void *out, stk_dtype to, const void *in, stk_dtype from, size_t count);

/* Single half floats, exact both ways where the value allows. */
float stk__half_to_float(uint16_t half);
uint16_t stk__float_to_half(float x);
float stk__bfloat_to_float(uint16_t bfloat);
uint16_t stk__float_to_bfloat(float x);

#endif
