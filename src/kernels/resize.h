/* Resizing of uint8 images by separable filters, row by row. */
#ifndef STK_KERNELS_RESIZE_H
#define STK_KERNELS_RESIZE_H

#include "kernels/image.h"

typedef enum stk__filter { STK__FILTER_NEAREST, STK__FILTER_BILINEAR, STK__FILTER_BICUBIC, STK__FILTER_AREA } stk__filter;

/* A rectangle of the input in its pixel coordinates (pixel 0 reaches from 0 to 1); inside of the input. */
typedef struct stk__box {
    double x0, y0, x1, y1;
} stk__box;

/* The box, mirrored or not, is resized; the result is a part of that, flipped or not. */
typedef struct stk__resize {
    stk__filter filter;
    bool antialias; /* where the result is smaller, the filter is as much wider (as Pillow always does); AREA always */
    bool flip_x, flip_y;
    int32_t width, height; /* of the result */
    stk__box box;
    bool mirror_x, mirror_y;           /* the input is seen mirrored: other than a flip where filters are not symmetric */
    int32_t crop_x, crop_y;            /* where the result lies, before it is flipped, in ... */
    int32_t whole_width, whole_height; /* ... what the box becomes; 0: the result is all of it */
} stk__resize;

/* One row of the result (width pixels, valid during the call). y may go down, when flip_y. */
typedef void (*stk__row_sink)(void *arg, int32_t y, const uint8_t *row);

/* Bytes of scratch memory that stk__resize_run needs; 0 when the request is nonsense (empty box or result, overflow). */
size_t stk__resize_scratch(const stk__resize *r, int32_t in_width, int32_t in_height, int32_t channels);

/*
 * Fixed-point arithmetic, so every CPU gives the same bytes; within 1 of Pillow (BILINEAR, BICUBIC a = -0.5, AREA = its
 * BOX, NEAREST exact). Along x first, clipped, then along y, as Pillow up to 12 does; later ones may turn that round, which
 * matters where BICUBIC overshoots. NEAREST takes up to 8 channels: it copies whole pixels, so they may be the bytes of
 * other elements. `scratch` is 64-byte aligned.
 */
void stk__resize_run(const stk__resize *r, const stk__pixels *in, void *scratch, stk__row_sink sink, void *arg);

#endif
