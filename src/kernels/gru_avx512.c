/* INT8 GRU cells and dense layers for the few CPUs that have AVX-512 but not VNNI. */
#include "kernels/gru_impl.h"

#if defined(__x86_64__)

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/gru_avx512.h"

#define TARGET STK__AVX512
#define STATE_BYTES 1
#define TILE 4
#define TILE_WORDS(X) X(0) X(1) X(2) X(3)
#define SMALL_TILE 1
#define PANEL 16384

/*
 * vpmaddubsw adds two products of an unsigned and a signed byte in 16 bits: with |q| <= 128 and |w| <= 127 that is
 * exact. The sign of q goes to w.
 */
STK__INLINE512 __m512i dot_bytes(__m512i sum, __m512i q, __m512i w)
{
    const __m512i s = _mm512_xor_si512(q, _mm512_set1_epi8(-128));
    const __m512i turned = _mm512_mask_sub_epi8(w, _mm512_movepi8_mask(s), _mm512_setzero_si512(), w);
    const __m512i pairs = _mm512_maddubs_epi16(_mm512_abs_epi8(s), turned);
    return _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}

#define START_SUM(group, at) ((void)(group), _mm512_setzero_si512())
/* The empty statement keeps compilers from adding in another order, for which the registers do not suffice. */
#define DOT(sum, q, w)                \
    do {                              \
        (sum) = dot_bytes(sum, q, w); \
        __asm__("" : "+v"(sum));      \
    } while (0)

#define finish_cell(curve, group, s, x, y, old, f, q) \
    stk__cell512_int8(curve, group, (s).r, (s).z, (s).n, stk__inputs512_load(x, y), old, f, q)
#define dense_value stk__value512_int8

#include "kernels/gru_tiles512.inc"
#include "kernels/gru_words.inc"

const stk__gru_kernels stk__gru_int8_avx512 = {step_words, run_words, dense_words, argmax_words, decode_words};

#else

/* ISO C wants something in every file. */
typedef int stk__gru_int8_avx512_unused;

#endif
