/* FP32 GRU cells and dense layers with AVX2. */
#include "kernels/gru_impl.h"

#if defined(__x86_64__)

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/gru_avx2.h"

#define TARGET STK__AVX2
#define STATE_BYTES 4
#define TILE 4
#define TILE_WORDS(X) X(0) X(1) X(2) X(3)
#define SMALL_TILE 1
#define PANEL 65536

#define DOT(sum, q, w) \
    (sum) =            \
        _mm256_castps_si256(_mm256_fmadd_ps(_mm256_castsi256_ps(q), _mm256_castsi256_ps(w), _mm256_castsi256_ps(sum)))
#define finish_cell(group, at, r, z, n, x, y, old, f, q)                                                             \
    ((void)(q), stk__cell256_fp32(group, at, _mm256_castsi256_ps(r), _mm256_castsi256_ps(z), _mm256_castsi256_ps(n), \
                                  x, y, old, f))
#define dense_value stk__value256_fp32

#include "kernels/gru_tiles256.inc"
#include "kernels/gru_words.inc"

const stk__gru_kernels stk__gru_fp32_avx2 = {step_words, run_words, dense_words, argmax_words, decode_words};

#else

/* ISO C wants something in every file. */
typedef int stk__gru_fp32_avx2_unused;

#endif
