/* The float part of the GRU kernels with vectors of 32 bytes: activations and the cell. */
#ifndef STK_KERNELS_GRU_AVX2_H
#define STK_KERNELS_GRU_AVX2_H

#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>

#include "kernels/gru_impl.h"
#include "kernels/gru_math.h"

#define STK__INLINE256 STK__AVX2 __attribute__((always_inline)) static inline

/* x with its sign turned over where `of` is negative. */
STK__INLINE256 __m256 stk__signed256(__m256 x, __m256 of)
{
    return _mm256_xor_ps(x, _mm256_and_ps(of, _mm256_set1_ps(-0.0F)));
}

/* One coefficient of each lane's parabola: bits 3 and 4 of its number choose among four permutations of 8. */
STK__INLINE256 __m256 stk__coefficient256(const float c[32], __m256i i)
{
    const __m256 bit3 = _mm256_castsi256_ps(_mm256_slli_epi32(i, 28));
    const __m256 bit4 = _mm256_castsi256_ps(_mm256_slli_epi32(i, 27));
    const __m256 a = _mm256_permutevar8x32_ps(_mm256_loadu_ps(c), i);
    const __m256 b = _mm256_permutevar8x32_ps(_mm256_loadu_ps(c + 8), i);
    const __m256 d = _mm256_permutevar8x32_ps(_mm256_loadu_ps(c + 16), i);
    const __m256 e = _mm256_permutevar8x32_ps(_mm256_loadu_ps(c + 24), i);
    return _mm256_blendv_ps(_mm256_blendv_ps(a, b, bit3), _mm256_blendv_ps(d, e, bit3), bit4);
}

/* As stk__half_sigmoid, bit for bit. */
STK__INLINE256 __m256 stk__half_sigmoid256(__m256 x)
{
    const __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0F), x);
    const __m256 t = _mm256_min_ps(size, _mm256_set1_ps(STK__SIGMOID_END)); /* the end for NaN */
    const __m256i i = _mm256_srli_epi32(_mm256_castps_si256(_mm256_add_ps(t, _mm256_set1_ps(1.0F))), 20);
    __m256 p = _mm256_mul_ps(stk__coefficient256(stk__sigmoid_parabolas[2], i), t);
    p = _mm256_mul_ps(_mm256_add_ps(p, stk__coefficient256(stk__sigmoid_parabolas[1], i)), t);
    p = _mm256_add_ps(p, stk__coefficient256(stk__sigmoid_parabolas[0], i));
    return stk__signed256(p, x);
}

STK__INLINE256 __m256 stk__table_sigmoid256(__m256 x)
{
    return _mm256_add_ps(stk__half_sigmoid256(x), _mm256_set1_ps(0.5F));
}

STK__INLINE256 __m256 stk__table_tanh256(__m256 x)
{
    const __m256 half = stk__half_sigmoid256(_mm256_add_ps(x, x));
    return _mm256_add_ps(half, half);
}

/* 8 inputs of one word. */
STK__INLINE256 __m256 stk__input256(const float *x, const float *y, int at)
{
    const __m256 in = _mm256_loadu_ps(x + at);
    return y ? _mm256_add_ps(in, _mm256_loadu_ps(y + at)) : in;
}

/* INT8: the new state of units `at` .. at + 7 of a group (at: 0 or 8), stored as floats and as bytes. */
STK__INLINE256 void stk__cell256_int8(const stk__group *group, int at, __m256i sum_r, __m256i sum_z, __m256i sum_n,
                                      const float *x, const float *y, const float *old, float *f, uint8_t *q)
{
    const __m256 ur = _mm256_mul_ps(_mm256_cvtepi32_ps(sum_r), _mm256_loadu_ps(group->scale + at));
    const __m256 uz = _mm256_mul_ps(_mm256_cvtepi32_ps(sum_z), _mm256_loadu_ps(group->scale + 16 + at));
    const __m256 un = _mm256_mul_ps(_mm256_cvtepi32_ps(sum_n), _mm256_loadu_ps(group->scale + 32 + at));
    const __m256 r = stk__table_sigmoid256(_mm256_add_ps(ur, stk__input256(x, y, at)));
    const __m256 z = stk__table_sigmoid256(_mm256_add_ps(uz, stk__input256(x, y, 16 + at)));
    const __m256 inner = _mm256_mul_ps(r, _mm256_add_ps(un, _mm256_loadu_ps(group->bias + 32 + at)));
    const __m256 n = stk__table_tanh256(_mm256_add_ps(inner, stk__input256(x, y, 32 + at)));
    const __m256 h = _mm256_add_ps(_mm256_mul_ps(z, _mm256_sub_ps(_mm256_loadu_ps(old + at), n)), n);
    _mm256_storeu_ps(f + at, h);
    const __m256 shifted = _mm256_add_ps(_mm256_mul_ps(h, _mm256_set1_ps(127.0F)), _mm256_set1_ps(STK__QUANT_SHIFT));
    const __m256i byte = _mm256_and_si256(_mm256_castps_si256(shifted), _mm256_set1_epi32(255));
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(byte), _mm256_extracti128_si256(byte, 1));
    _mm_storel_epi64((__m128i *)(q + at), _mm_packus_epi16(words, words));
}

/* exp(-|x|), as stk__exp_down. */
STK__INLINE256 __m256 stk__exp_down256(__m256 x)
{
    const __m256 down = _mm256_or_ps(x, _mm256_set1_ps(-0.0F));
    const __m256 v = _mm256_max_ps(down, _mm256_set1_ps(STK__EXP_LOW));
    const __m256 n = _mm256_fmadd_ps(v, _mm256_set1_ps(STK__EXP_LOG2E), _mm256_set1_ps(STK__EXP_ROUND));
    const __m256 whole = _mm256_sub_ps(n, _mm256_set1_ps(STK__EXP_ROUND));
    __m256 t = _mm256_fnmadd_ps(whole, _mm256_set1_ps(STK__EXP_LN2_HIGH), v);
    t = _mm256_fnmadd_ps(whole, _mm256_set1_ps(STK__EXP_LN2_LOW), t);
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(STK__EXP_C6), t, _mm256_set1_ps(STK__EXP_C5));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(STK__EXP_C4));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(STK__EXP_C3));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(STK__EXP_C2));
    p = _mm256_fmadd_ps(_mm256_mul_ps(p, t), t, _mm256_add_ps(t, _mm256_set1_ps(1.0F)));
    const __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_castps_si256(n), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(p, _mm256_castsi256_ps(power));
}

STK__INLINE256 __m256 stk__exp_sigmoid256(__m256 x)
{
    const __m256 e = stk__exp_down256(x);
    const __m256 one = _mm256_set1_ps(1.0F);
    return _mm256_div_ps(_mm256_blendv_ps(one, e, x), _mm256_add_ps(one, e));
}

STK__INLINE256 __m256 stk__exp_tanh256(__m256 x)
{
    const __m256 e = stk__exp_down256(_mm256_add_ps(x, x));
    const __m256 one = _mm256_set1_ps(1.0F);
    return stk__signed256(_mm256_div_ps(_mm256_sub_ps(one, e), _mm256_add_ps(one, e)), x);
}

/* FP32: as stk__cell256_int8. */
STK__INLINE256 void stk__cell256_fp32(const stk__group *group, int at, __m256 sum_r, __m256 sum_z, __m256 sum_n,
                                      const float *x, const float *y, const float *old, float *f)
{
    const __m256 r = stk__exp_sigmoid256(_mm256_add_ps(sum_r, stk__input256(x, y, at)));
    const __m256 z = stk__exp_sigmoid256(_mm256_add_ps(sum_z, stk__input256(x, y, 16 + at)));
    const __m256 un = _mm256_add_ps(sum_n, _mm256_loadu_ps(group->bias + 32 + at));
    const __m256 n = stk__exp_tanh256(_mm256_fmadd_ps(r, un, stk__input256(x, y, 32 + at)));
    _mm256_storeu_ps(f + at, _mm256_fmadd_ps(z, _mm256_sub_ps(_mm256_loadu_ps(old + at), n), n));
}

/* 8 rows of a dense layer. */
STK__INLINE256 __m256 stk__value256_int8(__m256i sum, const float *scale, const float *bias)
{
    const __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_loadu_ps(scale));
    return _mm256_add_ps(scaled, _mm256_loadu_ps(bias));
}

STK__INLINE256 __m256 stk__value256_fp32(__m256i sum, const float *scale, const float *bias)
{
    return _mm256_add_ps(_mm256_castsi256_ps(sum), _mm256_loadu_ps(bias));
}

/* The largest so far in each of 8 lanes, and its row. */
typedef struct stk__best256 {
    __m256 value;
    __m256i row;
} stk__best256;

STK__INLINE256 stk__best256 stk__best256_start(void)
{
    return (stk__best256){_mm256_set1_ps(-INFINITY), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)};
}

/* Rows row .. row + 7. */
STK__INLINE256 void stk__best256_add(stk__best256 *b, __m256 value, int row)
{
    const __m256 larger = _mm256_cmp_ps(value, b->value, _CMP_GT_OQ);
    const __m256i rows = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(row));
    b->value = _mm256_blendv_ps(b->value, value, larger);
    b->row = _mm256_blendv_epi8(b->row, rows, _mm256_castps_si256(larger));
}

/* The lowest row of those that are largest. */
STK__INLINE256 int32_t stk__best256_row(stk__best256 b)
{
    float value[8];
    int32_t row[8];
    _mm256_storeu_ps(value, b.value);
    _mm256_storeu_si256((__m256i *)row, b.row);
    int at = 0;
    for (int i = 1; i < 8; i++)
        if (value[i] > value[at] || (value[i] == value[at] && row[i] < row[at]))
            at = i;
    return row[at];
}

#endif

#endif
