/* The two passes of resizing in plain C, SSE4, AVX2 and AVX-512, and the tables that the vector ones use. */
#include "kernels/resize_impl.h"

#include <string.h>

#include "base/compiler.h"
#include "kernels/simd.h"

static inline uint32_t join(int16_t low, int16_t high)
{
    return (uint32_t)(uint16_t)low | (uint32_t)(uint16_t)high << 16;
}

/* The highest value between the passes. */
#define LEVEL_MAX (255 << STK__FRACTION_BITS)

static inline int32_t clamp(int32_t x, int32_t high)
{
    return x < 0 ? 0 : x > high ? high : x;
}

static void across_c(const stk__resize_plan *p, const uint8_t *a, const uint8_t *b, uint32_t *out)
{
    const int32_t channels = p->channels, bits = p->x.bits - STK__FRACTION_BITS, half = 1 << (bits - 1);
    for (int32_t x = 0; x < p->x.size; x++) {
        const int16_t *const w = p->x.weights + (size_t)x * (size_t)p->x.stride;
        const size_t from = (size_t)p->x.start[x] * (size_t)channels;
        for (int32_t c = 0; c < channels; c++) {
            int32_t sum_a = half, sum_b = half;
            for (int32_t k = 0; k < p->x.count[x]; k++) {
                const size_t at = from + (size_t)(k * channels + c);
                sum_a += w[k] * a[at];
                sum_b += w[k] * b[at];
            }
            *out++ = join((int16_t)clamp(sum_a >> bits, LEVEL_MAX), (int16_t)clamp(sum_b >> bits, LEVEL_MAX));
        }
    }
}

static void down_c(const stk__resize_plan *p, const uint32_t *const *rows, const uint32_t *weights, int32_t pairs,
                   uint8_t *out)
{
    const int32_t bits = p->y.bits + STK__FRACTION_BITS;
    for (int32_t e = 0; e < p->elements; e++) {
        int32_t sum = 1 << (bits - 1);
        for (int32_t k = 0; k < pairs; k++)
            sum += (int16_t)weights[k] * (int32_t)(rows[k][e] & 0xffff) +
                   (int16_t)(weights[k] >> 16) * (int32_t)(rows[k][e] >> 16);
        out[e] = (uint8_t)clamp(sum >> bits, 255);
    }
}

#if defined(__x86_64__)
#include <immintrin.h>

STK__SSE4 static void across_sse4(const stk__resize_plan *p, const uint8_t *a, const uint8_t *b, uint32_t *out)
{
    const __m128i bits = _mm_cvtsi32_si128(p->x.bits - STK__FRACTION_BITS);
    const __m128i half = _mm_set1_epi32(1 << (p->x.bits - STK__FRACTION_BITS - 1));
    const ptrdiff_t step = 2 * p->channels;
    const __m128i *w = (const __m128i *)p->lane_weights;
    for (int32_t i = 0; i < p->blocks; i++) {
        const __m128i index = _mm_load_si128((const __m128i *)p->index + i);
        ptrdiff_t at = p->base[i];
        __m128i sum_a = half, sum_b = half;
        for (int32_t k = 0; k < p->pairs; k++, at += step) {
            const __m128i weights = _mm_load_si128(w++);
            const __m128i in_a = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(a + at)), index);
            const __m128i in_b = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(b + at)), index);
            sum_a = _mm_add_epi32(sum_a, _mm_madd_epi16(in_a, weights));
            sum_b = _mm_add_epi32(sum_b, _mm_madd_epi16(in_b, weights));
        }
        const __m128i high = _mm_slli_epi32(_mm_sra_epi32(sum_b, bits), 16);
        const __m128i both = _mm_blend_epi16(_mm_sra_epi32(sum_a, bits), high, 0xaa);
        const __m128i held = _mm_min_epi16(_mm_max_epi16(both, _mm_setzero_si128()), _mm_set1_epi16(LEVEL_MAX));
        _mm_storeu_si128((__m128i *)out, held);
        out += p->spread ? p->channels : 4; /* lanes without a channel are overwritten by the next pixel */
    }
}

STK__SSE4 static void down_sse4(const stk__resize_plan *p, const uint32_t *const *rows, const uint32_t *weights,
                                int32_t pairs, uint8_t *out)
{
    const __m128i bits = _mm_cvtsi32_si128(p->y.bits + STK__FRACTION_BITS);
    const __m128i half = _mm_set1_epi32(1 << (p->y.bits + STK__FRACTION_BITS - 1));
    for (int32_t e = 0; e < p->elements; e += 16) {
        __m128i s0 = half, s1 = half, s2 = half, s3 = half;
        for (int32_t k = 0; k < pairs; k++) {
            const __m128i w = _mm_set1_epi32((int)weights[k]);
            const __m128i *row = (const __m128i *)(rows[k] + e);
            s0 = _mm_add_epi32(s0, _mm_madd_epi16(_mm_load_si128(row), w));
            s1 = _mm_add_epi32(s1, _mm_madd_epi16(_mm_load_si128(row + 1), w));
            s2 = _mm_add_epi32(s2, _mm_madd_epi16(_mm_load_si128(row + 2), w));
            s3 = _mm_add_epi32(s3, _mm_madd_epi16(_mm_load_si128(row + 3), w));
        }
        const __m128i s01 = _mm_packs_epi32(_mm_sra_epi32(s0, bits), _mm_sra_epi32(s1, bits));
        const __m128i s23 = _mm_packs_epi32(_mm_sra_epi32(s2, bits), _mm_sra_epi32(s3, bits));
        _mm_store_si128((__m128i *)(out + e), _mm_packus_epi16(s01, s23));
    }
}

/* Two input rows in lanes of int32 become words in turn, held to the range of pixels. */
STK__AVX2 static inline __m256i join_avx2(__m256i a, __m256i b, __m128i bits)
{
    const __m256i high = _mm256_slli_epi32(_mm256_sra_epi32(b, bits), 16);
    const __m256i both = _mm256_blend_epi16(_mm256_sra_epi32(a, bits), high, 0xaa);
    return _mm256_min_epi16(_mm256_max_epi16(both, _mm256_setzero_si256()), _mm256_set1_epi16(LEVEL_MAX));
}

/* Four lanes from `low`, four from `high`, by byte. */
STK__AVX2 static inline __m256i pick_avx2(const uint8_t *low, const uint8_t *high, __m256i index)
{
    const __m256i in = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)low)),
                                               _mm_loadu_si128((const __m128i *)high), 1);
    return _mm256_shuffle_epi8(in, index);
}

STK__AVX2 static inline void across_avx2_of(const stk__resize_plan *p, const uint8_t *a, const uint8_t *b,
                                            uint32_t *out, int32_t pairs, bool spread)
{
    const __m128i bits = _mm_cvtsi32_si128(p->x.bits - STK__FRACTION_BITS);
    const __m256i half = _mm256_set1_epi32(1 << (p->x.bits - STK__FRACTION_BITS - 1));
    const ptrdiff_t step = 2 * p->channels;
    const __m256i *w = (const __m256i *)p->lane_weights;
    for (int32_t i = 0; i < p->blocks; i++) {
        const __m256i index = _mm256_load_si256((const __m256i *)p->index + i);
        ptrdiff_t low = p->base[2 * i], high = p->base[2 * i + 1];
        __m256i sum_a = half, sum_b = half;
        for (int32_t k = 0; k < pairs; k++, low += step, high += step) {
            const __m256i weights = _mm256_load_si256(w++);
            sum_a = _mm256_add_epi32(sum_a, _mm256_madd_epi16(pick_avx2(a + low, a + high, index), weights));
            sum_b = _mm256_add_epi32(sum_b, _mm256_madd_epi16(pick_avx2(b + low, b + high, index), weights));
        }
        const __m256i both = join_avx2(sum_a, sum_b, bits);
        if (spread) { /* the lanes without a channel are overwritten by the next pixel */
            _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(both));
            _mm_storeu_si128((__m128i *)(out + p->channels), _mm256_extracti128_si256(both, 1));
            out += 2 * p->channels;
        } else {
            _mm256_store_si256((__m256i *)out, both);
            out += 8;
        }
    }
}

STK__AVX2 static void across_avx2(const stk__resize_plan *p, const uint8_t *a, const uint8_t *b, uint32_t *out)
{
    if (p->spread)
        across_avx2_of(p, a, b, out, p->pairs, true);
    else if (p->pairs == 1)
        across_avx2_of(p, a, b, out, 1, false);
    else if (p->pairs == 2)
        across_avx2_of(p, a, b, out, 2, false);
    else
        across_avx2_of(p, a, b, out, p->pairs, false);
}

STK__AVX2 static inline void down_avx2_of(const stk__resize_plan *p, const uint32_t *const *rows,
                                          const uint32_t *weights, int32_t pairs, uint8_t *out)
{
    const __m128i bits = _mm_cvtsi32_si128(p->y.bits + STK__FRACTION_BITS);
    const __m256i half = _mm256_set1_epi32(1 << (p->y.bits + STK__FRACTION_BITS - 1));
    const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (int32_t e = 0; e < p->elements; e += 32) {
        __m256i s0 = half, s1 = half, s2 = half, s3 = half;
        for (int32_t k = 0; k < pairs; k++) {
            const __m256i w = _mm256_set1_epi32((int)weights[k]);
            const __m256i *row = (const __m256i *)(rows[k] + e);
            s0 = _mm256_add_epi32(s0, _mm256_madd_epi16(_mm256_load_si256(row), w));
            s1 = _mm256_add_epi32(s1, _mm256_madd_epi16(_mm256_load_si256(row + 1), w));
            s2 = _mm256_add_epi32(s2, _mm256_madd_epi16(_mm256_load_si256(row + 2), w));
            s3 = _mm256_add_epi32(s3, _mm256_madd_epi16(_mm256_load_si256(row + 3), w));
        }
        const __m256i s01 = _mm256_packs_epi32(_mm256_sra_epi32(s0, bits), _mm256_sra_epi32(s1, bits));
        const __m256i s23 = _mm256_packs_epi32(_mm256_sra_epi32(s2, bits), _mm256_sra_epi32(s3, bits));
        const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(s01, s23), in_order);
        _mm256_store_si256((__m256i *)(out + e), bytes);
    }
}

STK__AVX2 static void down_avx2(const stk__resize_plan *p, const uint32_t *const *rows, const uint32_t *weights,
                                int32_t pairs, uint8_t *out)
{
    if (pairs == 1)
        down_avx2_of(p, rows, weights, 1, out);
    else if (pairs == 2)
        down_avx2_of(p, rows, weights, 2, out);
    else if (pairs == 3)
        down_avx2_of(p, rows, weights, 3, out);
    else
        down_avx2_of(p, rows, weights, pairs, out);
}

STK__AVX512 static inline __m512i join_avx512(__m512i a, __m512i b, __m128i bits)
{
    const __m512i high = _mm512_slli_epi32(_mm512_sra_epi32(b, bits), 16);
    const __m512i both = _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_sra_epi32(a, bits), high);
    return _mm512_min_epi16(_mm512_max_epi16(both, _mm512_setzero_si512()), _mm512_set1_epi16(LEVEL_MAX));
}

/* Inputs of a block's lanes: one window for all sixteen, or two for eight each. */
typedef struct windows {
    __m512i low, high;
} windows;

STK__AVX512 static inline windows load_windows(const uint8_t *low, const uint8_t *high, bool two)
{
    return (windows){_mm512_loadu_si512(low), two ? _mm512_loadu_si512(high) : _mm512_setzero_si512()};
}

/* Odd bytes become zero. */
STK__AVX512 static inline __m512i pick_avx512(windows in, __m512i index, bool two)
{
    if (!two)
        return _mm512_maskz_permutexvar_epi8(0x5555555555555555, index, in.low);
    const __m512i first = _mm512_maskz_permutexvar_epi8(0x55555555, index, in.low);
    return _mm512_mask_permutexvar_epi8(first, 0x5555555500000000, index, in.high);
}

/* `reach` pairs of taps are picked from the same load, by an index that moves on. */
STK__AVX512 static inline void across_avx512_of(const stk__resize_plan *p, const uint8_t *a, const uint8_t *b,
                                                uint32_t *out, int32_t pairs, int32_t reach, bool two)
{
    const __m128i bits = _mm_cvtsi32_si128(p->x.bits - STK__FRACTION_BITS);
    const __m512i half = _mm512_set1_epi32(1 << (p->x.bits - STK__FRACTION_BITS - 1));
    const ptrdiff_t step = 2 * p->channels;
    const __m512i move = _mm512_set1_epi8((char)step);
    const uint32_t *w = p->lane_weights;
    for (int32_t i = 0; i < p->blocks; i++) {
        ptrdiff_t low = p->base[two ? 2 * i : i], high = two ? p->base[2 * i + 1] : 0;
        __m512i sum_a = half, sum_b = half;
        for (int32_t k = 0; k < pairs; k += reach, low += reach * step, high += reach * step) {
            const windows from_a = load_windows(a + low, a + high, two), from_b = load_windows(b + low, b + high, two);
            __m512i index = _mm512_load_si512(p->index + 16 * i);
            for (int32_t j = 0; j < STK_MIN(reach, pairs - k); j++, w += 16, index = _mm512_add_epi8(index, move)) {
                const __m512i weights = _mm512_load_si512(w);
                sum_a = _mm512_add_epi32(sum_a, _mm512_madd_epi16(pick_avx512(from_a, index, two), weights));
                sum_b = _mm512_add_epi32(sum_b, _mm512_madd_epi16(pick_avx512(from_b, index, two), weights));
            }
        }
        _mm512_store_si512(out + 16 * i, join_avx512(sum_a, sum_b, bits));
    }
}

STK__AVX512 static void across_avx512(const stk__resize_plan *p, const uint8_t *a, const uint8_t *b, uint32_t *out)
{
    if (p->window == 8)
        across_avx512_of(p, a, b, out, p->pairs, p->reach, true);
    else if (p->pairs == 1)
        across_avx512_of(p, a, b, out, 1, 1, false);
    else if (p->pairs == 2 && p->reach >= 2)
        across_avx512_of(p, a, b, out, 2, 2, false);
    else if (p->pairs == 3 && p->reach >= 3)
        across_avx512_of(p, a, b, out, 3, 3, false);
    else
        across_avx512_of(p, a, b, out, p->pairs, p->reach, false);
}

STK__AVX512 static inline void down_avx512_of(const stk__resize_plan *p, const uint32_t *const *rows,
                                              const uint32_t *weights, int32_t pairs, uint8_t *out)
{
    const __m128i bits = _mm_cvtsi32_si128(p->y.bits + STK__FRACTION_BITS);
    const __m512i half = _mm512_set1_epi32(1 << (p->y.bits + STK__FRACTION_BITS - 1));
    const __m512i in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (int32_t e = 0; e < p->elements; e += 64) {
        __m512i s0 = half, s1 = half, s2 = half, s3 = half;
        for (int32_t k = 0; k < pairs; k++) {
            const __m512i w = _mm512_set1_epi32((int)weights[k]);
            const uint32_t *row = rows[k] + e;
            s0 = _mm512_add_epi32(s0, _mm512_madd_epi16(_mm512_load_si512(row), w));
            s1 = _mm512_add_epi32(s1, _mm512_madd_epi16(_mm512_load_si512(row + 16), w));
            s2 = _mm512_add_epi32(s2, _mm512_madd_epi16(_mm512_load_si512(row + 32), w));
            s3 = _mm512_add_epi32(s3, _mm512_madd_epi16(_mm512_load_si512(row + 48), w));
        }
        const __m512i s01 = _mm512_packs_epi32(_mm512_sra_epi32(s0, bits), _mm512_sra_epi32(s1, bits));
        const __m512i s23 = _mm512_packs_epi32(_mm512_sra_epi32(s2, bits), _mm512_sra_epi32(s3, bits));
        _mm512_store_si512(out + e, _mm512_permutexvar_epi32(in_order, _mm512_packus_epi16(s01, s23)));
    }
}

STK__AVX512 static void down_avx512(const stk__resize_plan *p, const uint32_t *const *rows, const uint32_t *weights,
                                    int32_t pairs, uint8_t *out)
{
    if (pairs == 1)
        down_avx512_of(p, rows, weights, 1, out);
    else if (pairs == 2)
        down_avx512_of(p, rows, weights, 2, out);
    else if (pairs == 3)
        down_avx512_of(p, rows, weights, 3, out);
    else
        down_avx512_of(p, rows, weights, pairs, out);
}

/* Where the first tap of pixel x is; moved left near the end of the row, so that all pairs of taps lie in it. */
static inline int32_t first_tap(const stk__resize_plan *p, int32_t x)
{
    return STK_MIN(p->x.start[x], STK_MAX(p->x.in_size - 2 * p->pairs, 0));
}

/* The range of first taps of `window` lanes from lane i on. */
static void lane_range(const stk__resize_plan *p, int32_t i, int32_t window, int32_t *out_low, int32_t *out_high)
{
    const int32_t lanes = p->spread ? 4 : p->channels, last = p->x.size - 1;
    int32_t low = INT32_MAX, high = 0;
    for (int32_t x = STK_MIN(i / lanes, last); x <= STK_MIN((i + window - 1) / lanes, last); x++) {
        const int32_t at = first_tap(p, x);
        low = STK_MIN(low, at);
        high = STK_MAX(high, at);
    }
    *out_low = low;
    *out_high = high;
}

/* How many pairs of taps `window` lanes next to each other can always pick from one load of `bytes`. */
static int32_t window_reach(const stk__resize_plan *p, int32_t window, int32_t bytes)
{
    int32_t range = 0;
    for (int32_t i = 0; i < p->elements; i += window) {
        int32_t low, high;
        lane_range(p, i, window, &low, &high);
        range = STK_MAX(range, high - low);
    }
    return STK_MAX(bytes / p->channels - range, 0) / 2;
}

/* Weights of pixel x, two at a time, `apart` from one pair to the next. */
static inline void fill_weights(const stk__resize_plan *p, int32_t x, uint32_t *out, int32_t pairs, int32_t apart)
{
    const int16_t *const w = p->x.weights + (size_t)x * (size_t)p->x.stride;
    const int32_t shift = p->x.start[x] - first_tap(p, x);
    if (STK_LIKELY(shift == 0)) {
        for (int32_t k = 0; k < pairs; k++, out += apart)
            *out = join(w[2 * k], w[2 * k + 1]);
        return;
    }
    for (int32_t k = 0; k < pairs; k++, out += apart) {
        const int32_t one = 2 * k - shift, other = one + 1;
        *out = join(one >= 0 ? w[one] : 0, other >= 0 ? w[other] : 0);
    }
}

static void fill_lanes(stk__resize_plan *p)
{
    const int32_t block = p->block, window = p->window, pairs = p->pairs, channels = p->channels;
    const int32_t lanes = p->spread ? 4 : channels;
    p->blocks = (p->x.size * lanes + block - 1) / block;
    uint32_t *w = p->lane_weights;
    int32_t x = 0, channel = 0, base = 0;
    for (int32_t i = 0; i < p->blocks * block; i++) {
        if (i % window == 0) {
            int32_t low, high;
            lane_range(p, i, window, &low, &high);
            p->base[i / window] = base = low * channels;
        }
        uint32_t at = 0;
        if (x < p->x.size && channel < channels) {
            at = (uint32_t)(first_tap(p, x) * channels + channel - base);
            fill_weights(p, x, w, pairs, block);
        } else {
            for (int32_t k = 0; k < pairs; k++)
                w[(size_t)k * (size_t)block] = 0;
        }
        /* Bytes for two words; 0x80 makes the upper half of each zero where the shuffle has no mask. */
        p->index[i] = 0x80008000u | at | (at + (uint32_t)channels) << 16;
        w += (i + 1) % block == 0 ? (size_t)(pairs - 1) * (size_t)block + 1 : 1;
        if (++channel == lanes) {
            channel = 0;
            x++;
        }
    }
}

static void choose_sse4(stk__resize_plan *p)
{
    p->block = p->window = 4;
    p->spread = window_reach(p, 4, 16) == 0;
    p->across = across_sse4;
    p->down = down_sse4;
}

static void choose_avx2(stk__resize_plan *p)
{
    p->block = 8;
    p->window = 4;
    p->spread = window_reach(p, 4, 16) == 0;
    p->across = across_avx2;
    p->down = down_avx2;
}

static void choose_avx512(stk__resize_plan *p)
{
    p->down = down_avx512;
    p->across = across_avx512;
    p->block = 16;
    for (p->window = 16; p->window >= 8; p->window /= 2) {
        p->reach = window_reach(p, p->window, 64);
        if (p->reach > 0)
            return;
    }
    choose_avx2(p);
}
#endif

static void fill_rows(stk__resize_plan *p)
{
    p->row_pairs = 1;
    for (int32_t y = 0; y < p->y.size; y++) {
        const int32_t start = p->y.start[y], last = start + p->y.count[y] - 1;
        p->row_pairs = STK_MAX(p->row_pairs, last / 2 - start / 2 + 1);
    }
    for (int32_t y = 0; y < p->y.size; y++) {
        const int16_t *w = p->y.weights + (size_t)y * (size_t)p->y.stride;
        const int32_t odd = p->y.start[y] & 1, count = p->y.count[y];
        uint32_t *const out = p->row_weights + (size_t)y * (size_t)p->row_pairs;
        for (int32_t k = 0; 2 * k - odd < count; k++) {
            const int32_t one = 2 * k - odd, other = one + 1;
            out[k] = join(one >= 0 ? w[one] : 0, other < count ? w[other] : 0);
        }
    }
}

void stk__resize_choose(stk__resize_plan *p)
{
    p->pairs = (p->x.taps + 1) / 2;
    p->across = across_c;
    p->down = down_c;
    fill_rows(p);
#if defined(__x86_64__)
    switch (stk__simd_level()) {
    case STK__SIMD_VNNI:
    case STK__SIMD_AVX512:
        choose_avx512(p);
        break;
    case STK__SIMD_AVX2:
        choose_avx2(p);
        break;
    case STK__SIMD_SSE4:
        choose_sse4(p);
        break;
    default:
        return;
    }
    fill_lanes(p);
#endif
}
