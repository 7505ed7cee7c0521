/*
 * The sigmoid and tanh of the GRU kernels, as plain C: what every vector form computes too.
 *
 * INT8 wants the same bits on every CPU, so there is one table of parabolas and nothing but multiplications, additions
 * and bits; the largest error is 1.9e-5 for the sigmoid and 3.8e-5 for tanh. FP32 wants accuracy: exp by a polynomial,
 * and a division; errors of about 1e-7.
 */
#ifndef STK_KERNELS_GRU_MATH_H
#define STK_KERNELS_GRU_MATH_H

#include <stdint.h>
#include <string.h>

/*
 * sigmoid(t) - 1/2 for t >= 0 is c[0] + c[1] t + c[2] t^2 with the parabola number (bits of (t + 1) >> 20) & 31: eight
 * to each octave of t + 1, so that they are narrow where the curve bends. Number 24 is the first, and passes through 0.
 */
extern const float stk__sigmoid_parabolas[3][32];

/* Beyond this the curve is flat; 1 more is still below 16, where the numbers would start again. */
#define STK__SIGMOID_END 14.999F

static inline uint32_t stk__float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float stk__bits_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* sigmoid(x) - 1/2, an odd function. NaN counts as beyond the end. */
static inline float stk__half_sigmoid(float x)
{
    const uint32_t bits = stk__float_bits(x), sign = bits & 0x80000000U;
    const float size = stk__bits_float(bits ^ sign);
    const float t = size < STK__SIGMOID_END ? size : STK__SIGMOID_END;
    const uint32_t i = stk__float_bits(t + 1.0F) >> 20 & 31;
    float p = stk__sigmoid_parabolas[2][i] * t;
    p = (p + stk__sigmoid_parabolas[1][i]) * t;
    return stk__bits_float(stk__float_bits(p + stk__sigmoid_parabolas[0][i]) ^ sign);
}

static inline float stk__table_sigmoid(float x)
{
    return stk__half_sigmoid(x) + 0.5F;
}

static inline float stk__table_tanh(float x)
{
    const float half = stk__half_sigmoid(x + x);
    return half + half;
}

/* h as the kernels take it: round(127 h) + 128. The sum's last bits are that integer, rounded to even. */
#define STK__QUANT_SHIFT (12582912.0F + 128.0F)

static inline uint8_t stk__quantised(float h)
{
    return (uint8_t)stk__float_bits(h * 127.0F + STK__QUANT_SHIFT);
}

/* exp(x) of the FP32 forms, x in -87 .. 0: 2^n times a polynomial on half a step to both sides of 0. */
#define STK__EXP_LOW (-87.0F)
#define STK__EXP_LOG2E 1.44269504F
#define STK__EXP_LN2_HIGH 0.693359375F
#define STK__EXP_LN2_LOW (-2.12194440e-4F)
#define STK__EXP_ROUND 12582912.0F
#define STK__EXP_C2 0.5F
#define STK__EXP_C3 1.66666655e-1F
#define STK__EXP_C4 4.16657950e-2F
#define STK__EXP_C5 8.33345000e-3F
#define STK__EXP_C6 1.39819994e-3F

/* exp(-|x|). */
static inline float stk__exp_down(float x)
{
    const float down = stk__bits_float(stk__float_bits(x) | 0x80000000U);
    const float v = down > STK__EXP_LOW ? down : STK__EXP_LOW;
    const float n = v * STK__EXP_LOG2E + STK__EXP_ROUND;
    const float whole = n - STK__EXP_ROUND;
    const float t = v - whole * STK__EXP_LN2_HIGH - whole * STK__EXP_LN2_LOW;
    float p = STK__EXP_C6 * t + STK__EXP_C5;
    p = p * t + STK__EXP_C4;
    p = p * t + STK__EXP_C3;
    p = p * t + STK__EXP_C2;
    p = p * t * t + t + 1.0F;
    return p * stk__bits_float((stk__float_bits(n) + 127) << 23);
}

static inline float stk__exp_sigmoid(float x)
{
    const float e = stk__exp_down(x), high = 1.0F / (1.0F + e);
    return x < 0 ? e * high : high;
}

static inline float stk__exp_tanh(float x)
{
    const float e = stk__exp_down(x + x), size = (1.0F - e) / (1.0F + e);
    return stk__bits_float(stk__float_bits(size) ^ (stk__float_bits(x) & 0x80000000U));
}

#endif
