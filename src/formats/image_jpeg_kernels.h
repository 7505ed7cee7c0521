/*
 * From JPEG coefficients to pixels: inverse DCT, interpolation of colour, YCbCr to RGB. The same bytes at every
 * level.
 */
#ifndef STK_FORMATS_IMAGE_JPEG_KERNELS_H
#define STK_FORMATS_IMAGE_JPEG_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/simd.h"

enum { STK__JPEG_SLACK = 64 }; /* bytes that kernels may read before and behind a row of samples, and write behind it */

/* One block on its way: 64 coefficients and 64 factors in natural order, aligned to 16 bytes; where its samples go. */
typedef struct stk__jpeg_block {
    const int16_t *coefficients, *factors;
    uint8_t *out;
    ptrdiff_t stride;
} stk__jpeg_block;

typedef struct stk__jpeg_kernels {
    /* 8 x 8 samples of each block: the bytes of libjpeg's accurate integer method. */
    void (*idct8)(const stk__jpeg_block *blocks, int count);
    /* 4 x 4 samples from the 4 x 4 lowest frequencies: the picture at half its size. */
    void (*idct4)(const stk__jpeg_block *blocks, int count);
    /*
     * Twice as many samples as `count`, interpolated as libjpeg's "fancy" upsampling does: between the samples of
     * one row, or also between a row and the one `far` of it. Sample -1 and sample `count` must be there; slack on
     * all rows.
     */
    void (*widen)(uint8_t *out, const uint8_t *in, int32_t count);
    void (*widen_between)(uint8_t *out, const uint8_t *near, const uint8_t *far, int32_t count);
    /* RGB (3 channels) or RGBA (4) of `count` pixels; slack on the inputs, none on the output. */
    void (*rgb)(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int32_t count, int channels);
} stk__jpeg_kernels;

/* Those of the current level. */
const stk__jpeg_kernels *stk__jpeg_kernels_get(void);

/* 2 x 2 samples, and 1, from the lowest frequencies; 8 x 8 of one value. Nothing to gain from vectors. */
void stk__jpeg_idct2(const stk__jpeg_block *block);
void stk__jpeg_idct1(const stk__jpeg_block *block);
void stk__jpeg_fill(const stk__jpeg_block *block, int size);

#endif
