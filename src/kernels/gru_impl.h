/* What the GRU and dense kernels of every level share: packed matrices and the table of functions. */
#ifndef STK_KERNELS_GRU_IMPL_H
#define STK_KERNELS_GRU_IMPL_H

#include "kernels/gru.h"
#include "kernels/simd.h"

/* Rows that are computed together: 16 units of r, z and n, or 48 rows of a dense layer. */
#define STK__GROUP_ROWS 48
/* Local copies of a state lie on the stack. */
#define STK__GRU_UNITS_MAX 2048

/* The numbers around the sums of a group. */
typedef struct stk__group {
    float scale[STK__GROUP_ROWS];    /* of a sum of integers; 0 where there is no row */
    int32_t offset[STK__GROUP_ROWS]; /* -128 times the sum of the weights: what 128 in each q adds */
    float bias[STK__GROUP_ROWS];     /* GRU: b_hn for the rows of n */
    float rank[STK__GROUP_ROWS];     /* the same, and -infinity where there is no row */
} stk__group;

/*
 * INT8: int8_t [groups][columns / 4][48][4]; FP32: float [groups][columns][48]. Columns are padded to 16; the weights
 * of padded rows and columns are 0. INT8 weights are -127 .. 127.
 */
typedef struct stk__packed {
    int columns, groups;
    stk__group *group;
    void *weights; /* aligned to 64 */
    size_t bytes;
} stk__packed;

typedef struct stk__gru_kernels {
    void (*step)(const stk__gru *g, const float *const *x, const float *const *y, size_t count, const stk__hidden *h);
    void (*run)(const stk__gru *g, const float *const *x, size_t steps, const stk__hidden *h, ptrdiff_t at,
                ptrdiff_t stride);
    void (*dense)(const stk__dense *d, const stk__hidden *h, size_t count, float *out, size_t out_stride, int add);
    void (*argmax)(const stk__dense *d, const stk__hidden *h, size_t count, int32_t *best);
    size_t (*decode)(const stk__gru *g, const stk__dense *d, const stk__feedback *in, const stk__hidden *h,
                     int32_t *best);
} stk__gru_kernels;

struct stk__gru {
    stk__packed m;
    int units;
    stk__precision precision;
    const stk__gru_kernels *kernels;
};

struct stk__dense {
    stk__packed m;
    int rows;
    stk__precision precision;
    const stk__gru_kernels *kernels;
};

extern const stk__gru_kernels stk__gru_c;
#if defined(__x86_64__)
extern const stk__gru_kernels stk__gru_int8_avx2, stk__gru_int8_avx512, stk__gru_int8_vnni;
extern const stk__gru_kernels stk__gru_fp32_avx2, stk__gru_fp32_avx512;
#endif

static inline const int8_t *stk__int8_weights(const stk__packed *m, int group)
{
    return (const int8_t *)m->weights + (size_t)group * (size_t)m->columns * STK__GROUP_ROWS;
}

static inline const float *stk__fp32_weights(const stk__packed *m, int group)
{
    return (const float *)m->weights + (size_t)group * (size_t)m->columns * STK__GROUP_ROWS;
}

/*
 * One step of one word: the state it has and the one it gets, and how the columns are gone through, by chunks of 16
 * bytes of the state, upwards (step 1) or downwards (step -1) from the first.
 */
typedef struct stk__sweep {
    const float *x, *y; /* y: NULL, or added to x */
    const float *old;
    const uint8_t *from; /* what is multiplied: bytes of q or of f */
    float *f;
    uint8_t *q; /* INT8 only */
    ptrdiff_t first, step;
} stk__sweep;

/* Floats that stk__dense_run writes to a row. */
static inline int stk__dense_width(const stk__dense *d)
{
    return stk__gru_padded(d->rows);
}

#endif
