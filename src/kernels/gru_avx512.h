/* The float part of the GRU kernels with vectors of 64 bytes: activations and the cell. */
#ifndef STK_KERNELS_GRU_AVX512_H
#define STK_KERNELS_GRU_AVX512_H

#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>

#include "kernels/gru_impl.h"
#include "kernels/gru_math.h"

#define STK__INLINE512 STK__AVX512 __attribute__((always_inline)) static inline

/* stk__sigmoid_parabolas in registers. */
typedef struct stk__curve512 {
    __m512 low[3], high[3];
} stk__curve512;

STK__INLINE512 stk__curve512 stk__curve512_load(void)
{
    stk__curve512 c;
    for (int i = 0; i < 3; i++) {
        c.low[i] = _mm512_loadu_ps(stk__sigmoid_parabolas[i]);
        c.high[i] = _mm512_loadu_ps(stk__sigmoid_parabolas[i] + 16);
    }
    return c;
}

/* x with the sign of `of` turned over where that is negative. */
STK__INLINE512 __m512 stk__signed512(__m512 x, __m512 of)
{
    const __m512i sign = _mm512_set1_epi32(INT32_MIN);
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(x), _mm512_castps_si512(of), sign, 0x78));
}

/* As stk__half_sigmoid, bit for bit. */
STK__INLINE512 __m512 stk__half_sigmoid512(stk__curve512 c, __m512 x)
{
    /* The smaller absolute value, without sign; the end for NaN. */
    const __m512 t = _mm512_range_ps(x, _mm512_set1_ps(STK__SIGMOID_END), 0x0A);
    const __m512i i = _mm512_srli_epi32(_mm512_castps_si512(_mm512_add_ps(t, _mm512_set1_ps(1.0F))), 20);
    __m512 p = _mm512_mul_ps(_mm512_permutex2var_ps(c.low[2], i, c.high[2]), t);
    p = _mm512_mul_ps(_mm512_add_ps(p, _mm512_permutex2var_ps(c.low[1], i, c.high[1])), t);
    p = _mm512_add_ps(p, _mm512_permutex2var_ps(c.low[0], i, c.high[0]));
    return stk__signed512(p, x);
}

STK__INLINE512 __m512 stk__table_sigmoid512(stk__curve512 c, __m512 x)
{
    return _mm512_add_ps(stk__half_sigmoid512(c, x), _mm512_set1_ps(0.5F));
}

STK__INLINE512 __m512 stk__table_tanh512(stk__curve512 c, __m512 x)
{
    const __m512 half = stk__half_sigmoid512(c, _mm512_add_ps(x, x));
    return _mm512_add_ps(half, half);
}

/* The inputs of one word to one group. */
typedef struct stk__inputs512 {
    __m512 r, z, n;
} stk__inputs512;

STK__INLINE512 stk__inputs512 stk__inputs512_load(const float *x, const float *y)
{
    stk__inputs512 in = {_mm512_loadu_ps(x), _mm512_loadu_ps(x + 16), _mm512_loadu_ps(x + 32)};
    if (y) {
        in.r = _mm512_add_ps(in.r, _mm512_loadu_ps(y));
        in.z = _mm512_add_ps(in.z, _mm512_loadu_ps(y + 16));
        in.n = _mm512_add_ps(in.n, _mm512_loadu_ps(y + 32));
    }
    return in;
}

/* INT8: the new state of 16 units, stored as floats and as bytes. */
STK__INLINE512 void stk__cell512_int8(stk__curve512 c, const stk__group *group, __m512i sum_r, __m512i sum_z,
                                      __m512i sum_n, stk__inputs512 in, const float *old, float *f, uint8_t *q)
{
    const __m512 ur = _mm512_mul_ps(_mm512_cvtepi32_ps(sum_r), _mm512_loadu_ps(group->scale));
    const __m512 uz = _mm512_mul_ps(_mm512_cvtepi32_ps(sum_z), _mm512_loadu_ps(group->scale + 16));
    const __m512 un = _mm512_mul_ps(_mm512_cvtepi32_ps(sum_n), _mm512_loadu_ps(group->scale + 32));
    const __m512 r = stk__table_sigmoid512(c, _mm512_add_ps(ur, in.r));
    const __m512 z = stk__table_sigmoid512(c, _mm512_add_ps(uz, in.z));
    const __m512 inner = _mm512_mul_ps(r, _mm512_add_ps(un, _mm512_loadu_ps(group->bias + 32)));
    const __m512 n = stk__table_tanh512(c, _mm512_add_ps(inner, in.n));
    const __m512 h = _mm512_add_ps(_mm512_mul_ps(z, _mm512_sub_ps(_mm512_loadu_ps(old), n)), n);
    _mm512_storeu_ps(f, h);
    const __m512 shifted = _mm512_add_ps(_mm512_mul_ps(h, _mm512_set1_ps(127.0F)), _mm512_set1_ps(STK__QUANT_SHIFT));
    _mm_storeu_si128((__m128i *)q, _mm512_cvtepi32_epi8(_mm512_castps_si512(shifted)));
}

/* exp(-|x|), as stk__exp_down. */
STK__INLINE512 __m512 stk__exp_down512(__m512 x)
{
    const __m512 down = _mm512_or_ps(x, _mm512_set1_ps(-0.0F));
    const __m512 v = _mm512_max_ps(down, _mm512_set1_ps(STK__EXP_LOW));
    const __m512 n = _mm512_fmadd_ps(v, _mm512_set1_ps(STK__EXP_LOG2E), _mm512_set1_ps(STK__EXP_ROUND));
    const __m512 whole = _mm512_sub_ps(n, _mm512_set1_ps(STK__EXP_ROUND));
    __m512 t = _mm512_fnmadd_ps(whole, _mm512_set1_ps(STK__EXP_LN2_HIGH), v);
    t = _mm512_fnmadd_ps(whole, _mm512_set1_ps(STK__EXP_LN2_LOW), t);
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(STK__EXP_C6), t, _mm512_set1_ps(STK__EXP_C5));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(STK__EXP_C4));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(STK__EXP_C3));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(STK__EXP_C2));
    p = _mm512_fmadd_ps(_mm512_mul_ps(p, t), t, _mm512_add_ps(t, _mm512_set1_ps(1.0F)));
    const __m512i power = _mm512_slli_epi32(_mm512_add_epi32(_mm512_castps_si512(n), _mm512_set1_epi32(127)), 23);
    return _mm512_mul_ps(p, _mm512_castsi512_ps(power));
}

STK__INLINE512 __m512 stk__exp_sigmoid512(__m512 x)
{
    const __m512 e = stk__exp_down512(x);
    const __m512 one = _mm512_set1_ps(1.0F);
    const __mmask16 negative = _mm512_movepi32_mask(_mm512_castps_si512(x));
    return _mm512_div_ps(_mm512_mask_mov_ps(one, negative, e), _mm512_add_ps(one, e));
}

STK__INLINE512 __m512 stk__exp_tanh512(__m512 x)
{
    const __m512 e = stk__exp_down512(_mm512_add_ps(x, x));
    const __m512 one = _mm512_set1_ps(1.0F);
    return stk__signed512(_mm512_div_ps(_mm512_sub_ps(one, e), _mm512_add_ps(one, e)), x);
}

/* FP32: the new state of 16 units. */
STK__INLINE512 void stk__cell512_fp32(const stk__group *group, __m512 sum_r, __m512 sum_z, __m512 sum_n,
                                      stk__inputs512 in, const float *old, float *f)
{
    const __m512 r = stk__exp_sigmoid512(_mm512_add_ps(sum_r, in.r));
    const __m512 z = stk__exp_sigmoid512(_mm512_add_ps(sum_z, in.z));
    const __m512 un = _mm512_add_ps(sum_n, _mm512_loadu_ps(group->bias + 32));
    const __m512 n = stk__exp_tanh512(_mm512_fmadd_ps(r, un, in.n));
    _mm512_storeu_ps(f, _mm512_fmadd_ps(z, _mm512_sub_ps(_mm512_loadu_ps(old), n), n));
}

/* 16 rows of a dense layer. */
STK__INLINE512 __m512 stk__value512_int8(__m512i sum, const float *scale, const float *bias)
{
    const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_loadu_ps(scale));
    return _mm512_add_ps(scaled, _mm512_loadu_ps(bias));
}

STK__INLINE512 __m512 stk__value512_fp32(__m512i sum, const float *scale, const float *bias)
{
    return _mm512_add_ps(_mm512_castsi512_ps(sum), _mm512_loadu_ps(bias));
}

/* The largest so far in each of 16 lanes, and its row. */
typedef struct stk__best512 {
    __m512 value;
    __m512i row;
} stk__best512;

STK__INLINE512 stk__best512 stk__best512_start(void)
{
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return (stk__best512){_mm512_set1_ps(-INFINITY), lanes};
}

/* Rows row .. row + 15. */
STK__INLINE512 void stk__best512_add(stk__best512 *b, __m512 value, int row)
{
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __mmask16 larger = _mm512_cmp_ps_mask(value, b->value, _CMP_GT_OQ);
    b->value = _mm512_mask_mov_ps(b->value, larger, value);
    b->row = _mm512_mask_add_epi32(b->row, larger, lanes, _mm512_set1_epi32(row));
}

/* The lowest row of those that are largest. */
STK__INLINE512 int32_t stk__best512_row(stk__best512 b)
{
    const __m512 largest = _mm512_set1_ps(_mm512_reduce_max_ps(b.value));
    return _mm512_mask_reduce_min_epi32(_mm512_cmp_ps_mask(b.value, largest, _CMP_EQ_OQ), b.row);
}

#endif

#endif
