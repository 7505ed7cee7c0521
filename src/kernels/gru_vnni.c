/* INT8 GRU cells and dense layers by vpdpbusd: 64 products of bytes to an instruction. */
#include "kernels/gru_impl.h"

#if defined(__x86_64__)

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/gru_avx512.h"

#define TARGET STK__VNNI
#define STATE_BYTES 1
#define TILE 8
#define TILE_WORDS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define SMALL_TILE 4
#define PANEL 16384

/* q has 128 too much in each byte, for which the sums start lower. */
#define START_SUM(group, at) _mm512_load_si512((group)->offset + (at))
#define DOT(sum, q, w) (sum) = _mm512_dpbusd_epi32(sum, q, w)

#define finish_cell(curve, group, s, x, y, old, f, q) \
    stk__cell512_int8(curve, group, (s).r, (s).z, (s).n, stk__inputs512_load(x, y), old, f, q)
#define dense_value stk__value512_int8

#include "kernels/gru_tiles512.inc"
#include "kernels/gru_words.inc"

const stk__gru_kernels stk__gru_int8_vnni = {step_words, run_words, dense_words, argmax_words, decode_words};

#else

/* ISO C wants something in every file. */
typedef int stk__gru_int8_vnni_unused;

#endif
