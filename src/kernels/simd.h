/* Which vector instructions this CPU has: found once, lowered by tests. */
#ifndef STK_KERNELS_SIMD_H
#define STK_KERNELS_SIMD_H

/*
 * Each level includes those before it. AVX2 comes with FMA, F16C and BMI2; AVX512 means F, BW, DQ, VL and VBMI; VNNI
 * adds the dot products of bytes.
 */
typedef enum stk__simd {
    STK__SIMD_C,
    STK__SIMD_SSE4,
    STK__SIMD_AVX2,
    STK__SIMD_AVX512,
    STK__SIMD_VNNI,
    STK__SIMD_COUNT
} stk__simd;

/* The level that kernels use. Any thread. */
stk__simd stk__simd_level(void);
/* The highest level of this CPU. */
stk__simd stk__simd_highest(void);
/* Tests only: kernels use at most this level from now on. */
void stk__simd_limit(stk__simd level);
const char *stk__simd_name(stk__simd level);

#if defined(__x86_64__)
#define STK__SSE4 __attribute__((target("sse4.2,ssse3,popcnt")))
#define STK__AVX2 __attribute__((target("avx2,fma,f16c,bmi,bmi2,popcnt")))
#define STK__AVX512 __attribute__((target("avx2,fma,f16c,bmi,bmi2,popcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")))
#define STK__VNNI \
    __attribute__((target("avx2,fma,f16c,bmi,bmi2,popcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")))
#endif

#endif
