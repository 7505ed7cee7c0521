/* Affine maps of uint8 images: rotate, shear, translate. */
#ifndef STK_KERNELS_WARP_H
#define STK_KERNELS_WARP_H

#include "kernels/image.h"

/*
 * Pixel (x, y) of `out` is what `in` has at (m[0] u + m[1] v + m[2], m[3] u + m[4] v + m[5]), where u = x + 0.5 and
 * v = y + 0.5 and the result counts pixel centres at 0.5 as well. Bilinear mixes the four neighbours, those outside of `in`
 * being `fill`; nearest takes the one below the point, or `fill`. Coordinates are 16.16 fixed point, weights 8 bits or finer,
 * so that every CPU gives the same bytes. 1, 3 or 4 channels. At most 32767 pixels wide and high.
 */
void stk__warp_affine(const stk__pixels *out, const stk__pixels *in, const double m[6], bool bilinear,
                      const uint8_t fill[STK__CHANNELS_MAX]);

#endif
