/* FP32 GRU cells and dense layers with AVX-512. */
#include "kernels/gru_impl.h"

#if defined(__x86_64__)

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/gru_avx512.h"

#define TARGET STK__AVX512
#define STATE_BYTES 4
#define TILE 8
#define TILE_WORDS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define SMALL_TILE 4
#define PANEL 65536

#define START_SUM(group, at) ((void)(group), _mm512_setzero_si512())
#define DOT(sum, q, w) \
    (sum) =            \
        _mm512_castps_si512(_mm512_fmadd_ps(_mm512_castsi512_ps(q), _mm512_castsi512_ps(w), _mm512_castsi512_ps(sum)))

#define finish_cell(curve, group, s, x, y, old, f, q)                                                            \
    stk__cell512_fp32(group, _mm512_castsi512_ps((s).r), _mm512_castsi512_ps((s).z), _mm512_castsi512_ps((s).n), \
                      stk__inputs512_load(x, y), old, f)
#define dense_value stk__value512_fp32

#include "kernels/gru_tiles512.inc"
#include "kernels/gru_words.inc"

const stk__gru_kernels stk__gru_fp32_avx512 = {step_words, run_words, dense_words, argmax_words, decode_words};

#else

/* ISO C wants something in every file. */
typedef int stk__gru_fp32_avx512_unused;

#endif
