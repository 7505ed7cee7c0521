/* Sums of table rows. */
#include "kernels/row_sum.h"

#include "base/compiler.h"
#include "kernels/simd.h"

#if defined(__x86_64__)
#include <immintrin.h>

static inline __attribute__((always_inline)) STK__AVX512 __m512 scaled_avx512(const int8_t *row, __m512 scale)
{
    const __m512i q = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)row));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(q), scale);
}

/* What our own model has: four rows, whose factors then stay in registers. */
STK__AVX512 static void sum_4_int8_avx512(const int8_t *const *rows, const float *scales, size_t width, float *out)
{
    const int8_t *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3];
    const __m512 sa = _mm512_set1_ps(scales[0]), sb = _mm512_set1_ps(scales[1]), sc = _mm512_set1_ps(scales[2]),
                 sd = _mm512_set1_ps(scales[3]);
    for (size_t i = 0; i < width; i += 16) {
        const __m512 ab = _mm512_add_ps(scaled_avx512(a + i, sa), scaled_avx512(b + i, sb));
        const __m512 abc = _mm512_add_ps(ab, scaled_avx512(c + i, sc));
        _mm512_storeu_ps(out + i, _mm512_add_ps(abc, scaled_avx512(d + i, sd)));
    }
}

STK__AVX512 static void sum_int8_avx512(const int8_t *const *rows, const float *scales, size_t count, size_t width,
                                        float *out)
{
    if (count == 4) {
        sum_4_int8_avx512(rows, scales, width, out);
        return;
    }
    for (size_t i = 0; i < width; i += 16) {
        __m512 sum = scaled_avx512(rows[0] + i, _mm512_set1_ps(scales[0]));
        for (size_t r = 1; r < count; r++)
            sum = _mm512_add_ps(sum, scaled_avx512(rows[r] + i, _mm512_set1_ps(scales[r])));
        _mm512_storeu_ps(out + i, sum);
    }
}

static inline __attribute__((always_inline)) STK__AVX2 __m256 scaled_avx2(const int8_t *row, float scale)
{
    const __m256i q = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)row));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(q), _mm256_set1_ps(scale));
}

STK__AVX2 static void sum_int8_avx2(const int8_t *const *rows, const float *scales, size_t count, size_t width,
                                    float *out)
{
    for (size_t i = 0; i < width; i += 8) {
        __m256 sum = scaled_avx2(rows[0] + i, scales[0]);
        for (size_t r = 1; r < count; r++)
            sum = _mm256_add_ps(sum, scaled_avx2(rows[r] + i, scales[r]));
        _mm256_storeu_ps(out + i, sum);
    }
}
#endif

static void sum_int8_c(const int8_t *const *rows, const float *scales, size_t count, size_t width, float *out)
{
    for (size_t i = 0; i < width; i++) {
        float sum = (float)rows[0][i] * scales[0];
        for (size_t r = 1; r < count; r++)
            sum += (float)rows[r][i] * scales[r];
        out[i] = sum;
    }
}

void stk__row_sum_int8(const int8_t *const *rows, const float *scales, size_t count, size_t width, float *out)
{
#if defined(__x86_64__)
    const stk__simd level = stk__simd_level();
    if (STK_LIKELY(level >= STK__SIMD_AVX512)) {
        sum_int8_avx512(rows, scales, count, width, out);
        return;
    }
    if (level >= STK__SIMD_AVX2) {
        sum_int8_avx2(rows, scales, count, width, out);
        return;
    }
#endif
    sum_int8_c(rows, scales, count, width, out);
}

/* Compilers make vectors of it; models with such tables are for comparison, not for speed. */
void stk__row_sum_float(const float *const *rows, size_t count, size_t width, float *out)
{
    for (size_t i = 0; i < width; i++)
        out[i] = rows[0][i];
    for (size_t r = 1; r < count; r++)
        for (size_t i = 0; i < width; i++)
            out[i] += rows[r][i];
}
