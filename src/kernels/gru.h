/*
 * GRU cells and dense layers for one core: weights packed once, vector code chosen then.
 *
 * PyTorch's form, "linear before reset":
 *   r = sigmoid(xr + Ur h), z = sigmoid(xz + Uz h), n = tanh(xn + r * (Un h + cn)), h' = (1 - z) n + z h
 * where x is the input's part with all other biases in it: a row of a table, or the sum of two.
 *
 * INT8: weights are 8-bit with a scale for each row, h is carried as float and as 8-bit (h * 127, rounded to even);
 * sums are integers, and the float arithmetic around them is the same, operation by operation, at every level of
 * stk__simd: results are equal bit for bit on every CPU. FP32: sums of floats, with FMA where there is one; one word
 * and many give the same bits.
 */
#ifndef STK_KERNELS_GRU_H
#define STK_KERNELS_GRU_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

typedef enum stk__precision { STK__PRECISION_INT8, STK__PRECISION_FP32 } stk__precision;

/* Units are padded to a multiple of this; padded ones stay 0. */
#define STK__GRU_LANES 16

static inline int stk__gru_padded(int units)
{
    return (units + STK__GRU_LANES - 1) / STK__GRU_LANES * STK__GRU_LANES;
}

/* Where unit u of gate g (0 r, 1 z, 2 n) stands in an input row: groups of 16 units, r z n in each. */
static inline int stk__gru_input_at(int gate, int unit)
{
    return (unit / STK__GRU_LANES * 3 + gate) * STK__GRU_LANES + unit % STK__GRU_LANES;
}

/* The hidden state of words, row after row of `padded` units. Rows of both arrays are aligned to 16 bytes at least. */
typedef struct stk__hidden {
    float *f;
    uint8_t *q; /* 8-bit form, as the kernels like it; INT8 only */
} stk__hidden;

typedef struct stk__gru stk__gru;

/* w_hh: [3 * units][units], gates r z n; b_hn: [units]. The level of stk__simd_level() at this moment is kept. */
stk_status stk__gru_new(const float *w_hh, const float *b_hn, int units, stk__precision precision, stk__gru **out,
                        stk_error *err);
void stk__gru_free(stk__gru *g);
size_t stk__gru_bytes(const stk__gru *g);

/* Sets rows first .. first + count - 1 to h = 0. */
void stk__hidden_zero(const stk__gru *g, const stk__hidden *h, size_t first, size_t count);
/* Copies row `from` to row `to` (compaction). */
void stk__hidden_move(const stk__gru *g, const stk__hidden *h, size_t from, size_t to);

/*
 * One step of `count` words: x[i], and y[i] added to it where y is not NULL, are input rows of 3 * padded floats, 0 for
 * padded units; rows i of h are the state before and after.
 */
void stk__gru_step(const stk__gru *g, const float *const *x, const float *const *y, size_t count, const stk__hidden *h);

/*
 * One word through `steps` steps, as fast as one word can go. Row `at` of h is the state before the first step; the
 * state after step t is row `at + (t + 1) * stride`: stride 0 keeps only the last, -1 and 1 keep all.
 */
void stk__gru_run(const stk__gru *g, const float *const *x, size_t steps, const stk__hidden *h, ptrdiff_t at,
                  ptrdiff_t stride);

typedef struct stk__dense stk__dense;

/* w: [rows][columns], b: [rows] or NULL. The input is a hidden state of `columns` units (padded like one). */
stk_status stk__dense_new(const float *w, const float *b, int rows, int columns, stk__precision precision,
                          stk__dense **out, stk_error *err);
void stk__dense_free(stk__dense *d);
size_t stk__dense_bytes(const stk__dense *d);

/* Row i of out, `out_stride` floats apart, gets W h_i + b, or has it added. Rows are padded to 16 floats. */
void stk__dense_run(const stk__dense *d, const stk__hidden *h, size_t count, float *out, size_t out_stride, int add);
/* best[i] is the row of W h_i + b that is largest; the lowest of equals. */
void stk__dense_argmax(const stk__dense *d, const stk__hidden *h, size_t count, int32_t *best);

/* The inputs of a word whose every answer is an input of the next step. */
typedef struct stk__feedback {
    const float *const *x; /* an input row for each step; NULL: none */
    const float *table;    /* an input row for each answer, added to that of x */
    int32_t first;         /* the row of the table for the first step */
    int32_t stop;          /* the answer that ends it; -1: none does */
    size_t steps;          /* at most */
} stk__feedback;

/*
 * One word, decoded as fast as one can be: each step is a step of g, then best[t] = argmax of d. Row 0 of h is the
 * state before and after. Returns the number of steps done; the last has the answer `stop`, or all were done. The table
 * has a row for each row of d at least.
 */
size_t stk__gru_decode(const stk__gru *g, const stk__dense *d, const stk__feedback *in, const stk__hidden *h,
                       int32_t *best);

#endif
