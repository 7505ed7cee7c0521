/* INT8 GRU cells and dense layers with AVX2. */
#include "kernels/gru_impl.h"

#if defined(__x86_64__)

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/gru_avx2.h"

#define TARGET STK__AVX2
#define STATE_BYTES 1
#define TILE 2
#define TILE_WORDS(X) X(0) X(1)
#define SMALL_TILE 1
#define PANEL 16384

/*
 * vpmaddubsw adds two products of an unsigned and a signed byte in 16 bits: with |q| <= 128 and |w| <= 127 that is
 * exact. The sign of q goes to w.
 */
STK__INLINE256 __m256i dot_bytes(__m256i sum, __m256i q, __m256i w)
{
    const __m256i s = _mm256_xor_si256(q, _mm256_set1_epi8(-128));
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(s), _mm256_sign_epi8(w, s));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/* The empty statement keeps compilers from adding in another order, for which the registers do not suffice. */
#define DOT(sum, q, w)                \
    do {                              \
        (sum) = dot_bytes(sum, q, w); \
        __asm__("" : "+x"(sum));      \
    } while (0)
#define finish_cell stk__cell256_int8
#define dense_value stk__value256_int8

#include "kernels/gru_tiles256.inc"
#include "kernels/gru_words.inc"

const stk__gru_kernels stk__gru_int8_avx2 = {step_words, run_words, dense_words, argmax_words, decode_words};

#else

/* ISO C wants something in every file. */
typedef int stk__gru_int8_avx2_unused;

#endif
