/* Inside of resizing: the weights of both axes, and the passes over rows. */
#ifndef STK_KERNELS_RESIZE_IMPL_H
#define STK_KERNELS_RESIZE_IMPL_H

#include "kernels/resize.h"

/* Vector code may read this many bytes beyond the end of an input row. */
#define STK__ROW_MARGIN 80

/*
 * Bits after the point between the passes. With the clipping to 0..255 in place they keep the result within 1 of Pillow,
 * which rounds to whole levels there.
 */
#define STK__FRACTION_BITS 6
/* Highest precision of weights at which the sums of a pass fit 32 bits, negative weights included. */
#define STK__X_BITS_MAX 21
#define STK__Y_BITS_MAX 16

/* Filter weights of one axis. Result i is the sum of `count` inputs from `start` on, times weights that sum to 1 << bits. */
typedef struct stk__resize_axis {
    int32_t in_size, size;
    int32_t whole;  /* results that there would be without a crop; size of them are kept */
    int32_t stride; /* weights kept for each result, zeros at the end; even */
    int32_t taps;   /* highest count */
    int32_t bits, bits_max;
    int32_t *start, *count; /* [size] */
    int16_t *weights;       /* [size][stride] */
} stk__resize_axis;

typedef struct stk__resize_plan stk__resize_plan;

/*
 * Filters two input rows along x, to STK__FRACTION_BITS. Word 2e of `out` is element e (pixel e / channels, channel e % channels) of row a, word
 * 2e + 1 that of row b, so that the vertical pass multiplies and adds two rows at once. May write up to 16 elements more.
 */
typedef void (*stk__resize_across)(const stk__resize_plan *p, const uint8_t *a, const uint8_t *b, uint32_t *out);
/* Filters `pairs` such row pairs along y into bytes. Works in steps of 64 elements, beyond the last one if need be. */
typedef void (*stk__resize_down)(const stk__resize_plan *p, const uint32_t *const *rows, const uint32_t *weights,
                                 int32_t pairs, uint8_t *out);

struct stk__resize_plan {
    int32_t channels;
    int32_t elements; /* of a row of the result: width * channels */
    stk__resize_axis x, y;
    double *real_weights; /* while an axis is made */

    /*
     * Pass along x. Each lane holds one element; `window` lanes next to each other pick their inputs by byte from one load at
     * base[], taps 2k and 2k + 1 of all of them by the same index after moving on by 2k pixels.
     */
    stk__resize_across across;
    int32_t pairs;         /* of taps */
    int32_t block, window; /* lanes; 0 for plain C */
    int32_t reach;         /* pairs of taps that one load covers; for 64 byte loads */
    int32_t blocks;
    bool spread;            /* four lanes for each pixel, however many channels */
    int32_t *base;          /* [blocks][block / window] */
    uint32_t *index;        /* [blocks][block] */
    uint32_t *lane_weights; /* [blocks][pairs][block], two int16 each */

    /* Pass along y, over pairs of rows: (0, 1), (2, 3), ... */
    stk__resize_down down;
    int32_t row_pairs;          /* most pairs that a row of the result needs */
    uint32_t *row_weights;      /* [height][row_pairs], two int16 each */
    const uint32_t **ring_rows; /* [row_pairs] */
    int32_t *ring_holds;        /* [row_pairs] which pair is in a place of the ring, or -1 */
    size_t ring_stride;
    uint32_t *ring; /* [row_pairs][ring_stride] */

    uint8_t *row;       /* one row of the result */
    uint8_t *margin[2]; /* input rows that have no margin of their own */
};

/* Most weights of one result; for sizing. */
int32_t stk__resize_taps(stk__filter filter, bool antialias, double length, int32_t in_size, int32_t size);
/* One axis of what is wanted. */
typedef struct stk__resize_span {
    double from, to; /* of the box */
    bool flip, mirror;
    int32_t crop;
} stk__resize_span;

/* Computes start, count, weights and bits, the same for each result whatever else is cropped, flipped or mirrored. */
void stk__resize_weigh(stk__resize_axis *axis, const stk__resize *r, const stk__resize_span *span, double *real);
/* Chooses the passes for this CPU and fills their tables. */
void stk__resize_choose(stk__resize_plan *p);

#endif
