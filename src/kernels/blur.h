/* Blurs of uint8 images. */
#ifndef STK_KERNELS_BLUR_H
#define STK_KERNELS_BLUR_H

#include "kernels/image.h"

#define STK__BLUR_SIZE_MAX 255

/* Bytes of scratch memory for stk__blur_gauss. */
size_t stk__blur_scratch(int32_t width, int32_t height, int32_t channels, int32_t size);
/* Gaussian over `size` (odd, up to STK__BLUR_SIZE_MAX) pixels, edges reflected, as torchvision does; within 1 of it. Fixed
   point: every CPU gives the same bytes. `out` may be `in`. */
void stk__blur_gauss(const stk__pixels *out, const stk__pixels *in, int32_t size, double sigma, void *scratch);
/* The 3 x 3 smoothing (1 1 1, 1 5 1, 1 1 1) / 13 of Pillow's SMOOTH; edge pixels stay. For sharpness. `out` is not `in`. */
void stk__blur_smooth(const stk__pixels *out, const stk__pixels *in);

#endif
