/* Colours of uint8 images: tables, luma, blends and hue; plain C, AVX2 and AVX-512 with the same bytes. */
#include "kernels/color.h"

#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "kernels/simd.h"

/* Truncates, as torchvision and Pillow do. Not a number gives 0. */
static inline uint8_t to_byte(float x)
{
    x = x > 0 ? x : 0;
    return (uint8_t)(int)(x < 255 ? x : 255);
}

static inline uint8_t mix(uint8_t a, uint8_t b, float factor)
{
    return to_byte((float)a + factor * (float)(b - a));
}

/* An image whose rows follow each other without gaps is one row: fewer ends to care for. */
static stk__pixels as_rows(const stk__pixels *image)
{
    stk__pixels p = *image;
    const int64_t pixels = (int64_t)p.width * p.height;
    if (p.stride == (ptrdiff_t)p.width * p.channels && pixels <= INT32_MAX / STK__CHANNELS_MAX) {
        p.width = (int32_t)pixels;
        p.height = 1;
    }
    return p;
}

/* Each works on the pixels of one row from `i` on; vectors did those before. */

static void map_c(uint8_t *p, int32_t i, int32_t count, int channels, stk__color_table table)
{
    if (channels < 3) {
        for (; i < count; i++)
            p[i * channels] = table[0][p[i * channels]];
        return;
    }
    for (p += (ptrdiff_t)i * channels; i < count; i++, p += channels) {
        p[0] = table[0][p[0]];
        p[1] = table[1][p[1]];
        p[2] = table[2][p[2]];
    }
}

static void gray_c(uint8_t *p, int32_t i, int32_t count, int channels)
{
    for (p += (ptrdiff_t)i * channels; i < count; i++, p += channels)
        p[0] = p[1] = p[2] = stk__luma(p[0], p[1], p[2]);
}

static uint64_t luma_sum_c(const uint8_t *p, int32_t i, int32_t count, int channels)
{
    uint64_t sum = 0;
    for (p += (ptrdiff_t)i * channels; i < count; i++, p += channels)
        sum += channels < 3 ? p[0] : stk__luma(p[0], p[1], p[2]);
    return sum;
}

static void saturate_c(uint8_t *p, int32_t i, int32_t count, int channels, float factor)
{
    for (p += (ptrdiff_t)i * channels; i < count; i++, p += channels) {
        const uint8_t gray = stk__luma(p[0], p[1], p[2]);
        for (int c = 0; c < 3; c++)
            p[c] = mix(gray, p[c], factor);
    }
}

/* torchvision turns [0, 1] into bytes by times 255.999 and truncation; here values are 0 to 255. */
#define HUE_SCALE (255.999f / 255)

/*
 * In sixths of a circle the hue is (g - b) / chroma, 2 + (b - r) / chroma or 4 + (r - g) / chroma. Back again, a
 * channel is value - chroma * clamp(min(k, 4 - k), 0, 1) where k is the hue plus 5, 3 or 1, modulo 6.
 */
static inline uint8_t hue_channel(float k, float value, float chroma)
{
    k = k >= 6 ? k - 6 : k;
    float m = k < 4 - k ? k : 4 - k;
    m = m < 1 ? m : 1;
    m = m > 0 ? m : 0;
    return to_byte((value - chroma * m) * HUE_SCALE);
}

static void hue_c(uint8_t *p, int32_t i, int32_t count, int channels, float sixths)
{
    for (p += (ptrdiff_t)i * channels; i < count; i++, p += channels) {
        const int r = p[0], g = p[1], b = p[2];
        const int high = STK_MAX(STK_MAX(r, g), b), chroma = high - STK_MIN(STK_MIN(r, g), b);
        const int difference = high == r ? g - b : high == g ? b - r : r - g;
        const float start = high == r ? 0 : high == g ? 2 : 4;
        float h = (float)difference / (float)STK_MAX(chroma, 1) + start + sixths;
        h = h < 0 ? h + 6 : h;
        h = h >= 6 ? h - 6 : h;
        p[0] = hue_channel(h + 5, (float)high, (float)chroma);
        p[1] = hue_channel(h + 3, (float)high, (float)chroma);
        p[2] = hue_channel(h + 1, (float)high, (float)chroma);
    }
}

static void blend_c(uint8_t *p, const uint8_t *a, int32_t i, int32_t count, int channels, float factor)
{
    const int colors = channels < 3 ? 1 : 3;
    for (p += (ptrdiff_t)i * channels, a += (ptrdiff_t)i * channels; i < count; i++, p += channels, a += channels)
        for (int c = 0; c < colors; c++)
            p[c] = mix(a[c], p[c], factor);
}

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2_INLINE STK__AVX2 static inline __attribute__((always_inline))
#define AVX512_INLINE STK__AVX512 static inline __attribute__((always_inline))

/* Eight pixels as dwords, their fourth byte zero or alpha. */
AVX2_INLINE __m256i load8(const uint8_t *p, int channels)
{
    if (channels == 4)
        return _mm256_loadu_si256((const __m256i *)p);
    const __m256i x = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)p)),
                                              _mm_loadu_si128((const __m128i *)(p + 8)), 1);
    return _mm256_shuffle_epi8(x, _mm256_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, 4, 5, 6, -1, 7,
                                                   8, 9, -1, 10, 11, 12, -1, 13, 14, 15, -1));
}

AVX2_INLINE void store8(uint8_t *p, __m256i pixels, int channels)
{
    if (channels == 4) {
        _mm256_storeu_si256((__m256i *)p, pixels);
        return;
    }
    const __m256i x =
        _mm256_shuffle_epi8(pixels, _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1, 0, 1, 2, 4,
                                                     5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    const __m128i high = _mm256_extracti128_si256(x, 1);
    const int32_t last = _mm_extract_epi32(high, 2);
    _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(x));
    _mm_storel_epi64((__m128i *)(p + 12), high);
    memcpy(p + 20, &last, sizeof last);
}

AVX2_INLINE __m256i byte8(__m256i pixels, int which)
{
    const __m256i x = which == 0 ? pixels : which == 1 ? _mm256_srli_epi32(pixels, 8) : _mm256_srli_epi32(pixels, 16);
    return _mm256_and_si256(x, _mm256_set1_epi32(255));
}

/* 38470 does not fit a signed word: green is taken in two halves, one with red and one with blue. */
AVX2_INLINE __m256i luma8(__m256i pixels)
{
    const __m256i rg =
        _mm256_shuffle_epi8(pixels, _mm256_setr_epi8(0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1, 0, -1, 1,
                                                     -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1));
    const __m256i gb =
        _mm256_shuffle_epi8(pixels, _mm256_setr_epi8(1, -1, 2, -1, 5, -1, 6, -1, 9, -1, 10, -1, 13, -1, 14, -1, 1, -1,
                                                     2, -1, 5, -1, 6, -1, 9, -1, 10, -1, 13, -1, 14, -1));
    const __m256i sum = _mm256_add_epi32(_mm256_madd_epi16(rg, _mm256_set1_epi32(19235 << 16 | 19595)),
                                         _mm256_madd_epi16(gb, _mm256_set1_epi32(7471 << 16 | 19235)));
    return _mm256_srli_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(0x8000)), 16);
}

/* Three channels and the alpha of `pixels`. */
AVX2_INLINE __m256i join8(__m256i r, __m256i g, __m256i b, __m256i pixels)
{
    const __m256i alpha = _mm256_and_si256(pixels, _mm256_set1_epi32((int)0xff000000));
    return _mm256_or_si256(_mm256_or_si256(r, _mm256_slli_epi32(g, 8)),
                           _mm256_or_si256(_mm256_slli_epi32(b, 16), alpha));
}

AVX2_INLINE __m256i to_bytes8(__m256 x)
{
    return _mm256_cvttps_epi32(_mm256_min_ps(_mm256_max_ps(x, _mm256_setzero_ps()), _mm256_set1_ps(255)));
}

AVX2_INLINE __m256i mix8(__m256 a, __m256i b, __m256 factor)
{
    return to_bytes8(_mm256_add_ps(a, _mm256_mul_ps(factor, _mm256_sub_ps(_mm256_cvtepi32_ps(b), a))));
}

AVX2_INLINE int32_t gray_avx2(uint8_t *p, int32_t count, int channels)
{
    int32_t i = 0;
    for (; i + 8 <= count; i += 8, p += 8 * channels) {
        const __m256i x = load8(p, channels), gray = luma8(x);
        store8(p, join8(gray, gray, gray, x), channels);
    }
    return i;
}

AVX2_INLINE int32_t luma_sum_avx2(const uint8_t *p, int32_t count, int channels, uint64_t *sum)
{
    __m256i total = _mm256_setzero_si256();
    int32_t i = 0;
    for (; i + 8 <= count; i += 8, p += 8 * channels)
        total = _mm256_add_epi64(total, _mm256_sad_epu8(luma8(load8(p, channels)), _mm256_setzero_si256()));
    const __m128i half = _mm_add_epi64(_mm256_castsi256_si128(total), _mm256_extracti128_si256(total, 1));
    *sum += (uint64_t)_mm_cvtsi128_si64(half) + (uint64_t)_mm_extract_epi64(half, 1);
    return i;
}

AVX2_INLINE int32_t byte_sum_avx2(const uint8_t *p, int32_t count, uint64_t *sum)
{
    __m256i total = _mm256_setzero_si256();
    int32_t i = 0;
    for (; i + 32 <= count; i += 32)
        total = _mm256_add_epi64(total,
                                 _mm256_sad_epu8(_mm256_loadu_si256((const __m256i *)(p + i)), _mm256_setzero_si256()));
    const __m128i half = _mm_add_epi64(_mm256_castsi256_si128(total), _mm256_extracti128_si256(total, 1));
    *sum += (uint64_t)_mm_cvtsi128_si64(half) + (uint64_t)_mm_extract_epi64(half, 1);
    return i;
}

AVX2_INLINE int32_t saturate_avx2(uint8_t *p, int32_t count, int channels, float factor)
{
    const __m256 f = _mm256_set1_ps(factor);
    int32_t i = 0;
    for (; i + 8 <= count; i += 8, p += 8 * channels) {
        const __m256i x = load8(p, channels);
        const __m256 gray = _mm256_cvtepi32_ps(luma8(x));
        store8(p, join8(mix8(gray, byte8(x, 0), f), mix8(gray, byte8(x, 1), f), mix8(gray, byte8(x, 2), f), x),
               channels);
    }
    return i;
}

AVX2_INLINE __m256i hue_channel8(__m256 k, __m256 value, __m256 chroma)
{
    const __m256 six = _mm256_set1_ps(6), one = _mm256_set1_ps(1), four = _mm256_set1_ps(4);
    k = _mm256_sub_ps(k, _mm256_and_ps(_mm256_cmp_ps(k, six, _CMP_GE_OQ), six));
    const __m256 m = _mm256_min_ps(_mm256_min_ps(k, _mm256_sub_ps(four, k)), one);
    const __m256 x = _mm256_sub_ps(value, _mm256_mul_ps(chroma, _mm256_max_ps(m, _mm256_setzero_ps())));
    return to_bytes8(_mm256_mul_ps(x, _mm256_set1_ps(HUE_SCALE)));
}

/* Hue of eight pixels in sixths, from 0 up to 6. */
AVX2_INLINE __m256 hue_of8(__m256i r, __m256i g, __m256i b, __m256i high, __m256 chroma, __m256 sixths)
{
    const __m256i is_r = _mm256_cmpeq_epi32(high, r), is_g = _mm256_cmpeq_epi32(high, g);
    __m256i difference = _mm256_blendv_epi8(_mm256_sub_epi32(r, g), _mm256_sub_epi32(b, r), is_g);
    difference = _mm256_blendv_epi8(difference, _mm256_sub_epi32(g, b), is_r);
    __m256 start = _mm256_blendv_ps(_mm256_set1_ps(4), _mm256_set1_ps(2), _mm256_castsi256_ps(is_g));
    start = _mm256_andnot_ps(_mm256_castsi256_ps(is_r), start);
    const __m256 six = _mm256_set1_ps(6), zero = _mm256_setzero_ps();
    const __m256 ratio = _mm256_div_ps(_mm256_cvtepi32_ps(difference), _mm256_max_ps(chroma, _mm256_set1_ps(1)));
    __m256 h = _mm256_add_ps(_mm256_add_ps(ratio, start), sixths);
    h = _mm256_add_ps(h, _mm256_and_ps(_mm256_cmp_ps(h, zero, _CMP_LT_OQ), six));
    return _mm256_sub_ps(h, _mm256_and_ps(_mm256_cmp_ps(h, six, _CMP_GE_OQ), six));
}

AVX2_INLINE int32_t hue_avx2(uint8_t *p, int32_t count, int channels, float sixths)
{
    int32_t i = 0;
    for (; i + 8 <= count; i += 8, p += 8 * channels) {
        const __m256i x = load8(p, channels), r = byte8(x, 0), g = byte8(x, 1), b = byte8(x, 2);
        const __m256i high = _mm256_max_epi32(_mm256_max_epi32(r, g), b),
                      low = _mm256_min_epi32(_mm256_min_epi32(r, g), b);
        const __m256 value = _mm256_cvtepi32_ps(high), chroma = _mm256_cvtepi32_ps(_mm256_sub_epi32(high, low));
        const __m256 h = hue_of8(r, g, b, high, chroma, _mm256_set1_ps(sixths));
        store8(p,
               join8(hue_channel8(_mm256_add_ps(h, _mm256_set1_ps(5)), value, chroma),
                     hue_channel8(_mm256_add_ps(h, _mm256_set1_ps(3)), value, chroma),
                     hue_channel8(_mm256_add_ps(h, _mm256_set1_ps(1)), value, chroma), x),
               channels);
    }
    return i;
}

/* Eight bytes of each; where `kept` has ones, b stays. */
AVX2_INLINE void blend8(uint8_t *p, const uint8_t *a, __m256 factor, __m256i kept)
{
    const __m256i b = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
    const __m256 x = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)a)));
    const __m256i mixed = _mm256_blendv_epi8(mix8(x, b, factor), b, kept);
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(mixed), _mm256_extracti128_si256(mixed, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));
}

/* 8 bytes are 8 pixels, two with alpha, or 8/3: so 8 pixels at a time. */
AVX2_INLINE int32_t blend_avx2(uint8_t *p, const uint8_t *a, int32_t count, int channels, float factor)
{
    const __m256 f = _mm256_set1_ps(factor);
    const __m256i kept = channels == 4 ? _mm256_setr_epi32(0, 0, 0, -1, 0, 0, 0, -1) : _mm256_setzero_si256();
    int32_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (int j = 0; j < channels; j++, p += 8, a += 8)
            blend8(p, a, f, kept);
    return i;
}

/* A table of 256 bytes in four registers. */
typedef struct table64 {
    __m512i part[4];
} table64;

AVX512_INLINE table64 load_table(const uint8_t *p)
{
    return (table64){
        {_mm512_loadu_si512(p), _mm512_loadu_si512(p + 64), _mm512_loadu_si512(p + 128), _mm512_loadu_si512(p + 192)}};
}

AVX512_INLINE __m512i look_up(const table64 *t, __m512i x, __mmask64 upper)
{
    const __m512i low = _mm512_permutex2var_epi8(t->part[0], x, t->part[1]);
    return _mm512_mask_blend_epi8(upper, low, _mm512_permutex2var_epi8(t->part[2], x, t->part[3]));
}

/* One table for every byte. */
STK__AVX512 static void map_bytes(uint8_t *p, int64_t size, const uint8_t table[256])
{
    const table64 t = load_table(table);
    for (; size > 0; size -= 64, p += 64) {
        const __mmask64 used = size >= 64 ? UINT64_MAX : _bzhi_u64(UINT64_MAX, (unsigned)size);
        const __m512i x = _mm512_maskz_loadu_epi8(used, p);
        const __m512i y = look_up(&t, x, _mm512_movepi8_mask(x));
        if (size >= 64)
            _mm512_storeu_si512(p, y);
        else
            _mm512_mask_storeu_epi8(p, used, y);
    }
}

/* Three tables. Bytes are of red, green, blue (and alpha) in turn; 64 is one more than a multiple of 3. */
STK__AVX512 static void map_pixels(uint8_t *p, int64_t size, int channels, stk__color_table table)
{
    const table64 r = load_table(table[0]), g = load_table(table[1]), b = load_table(table[2]);
    static const uint64_t every3[3] = {0x9249249249249249, 0x2492492492492492, 0x4924924924924924};
    int turn = 0;
    for (; size > 0; size -= 64, p += 64) {
        const __mmask64 used = size >= 64 ? UINT64_MAX : _bzhi_u64(UINT64_MAX, (unsigned)size);
        const __m512i x = _mm512_maskz_loadu_epi8(used, p);
        const __mmask64 upper = _mm512_movepi8_mask(x);
        const __mmask64 is_r = channels == 4 ? 0x1111111111111111 : every3[turn];
        const __mmask64 is_g = channels == 4 ? 0x2222222222222222 : every3[(turn + 1) % 3];
        const __mmask64 is_b = channels == 4 ? 0x4444444444444444 : every3[(turn + 2) % 3];
        __m512i y = _mm512_mask_blend_epi8(is_r, x, look_up(&r, x, upper));
        y = _mm512_mask_blend_epi8(is_g, y, look_up(&g, x, upper));
        y = _mm512_mask_blend_epi8(is_b, y, look_up(&b, x, upper));
        if (size >= 64)
            _mm512_storeu_si512(p, y);
        else
            _mm512_mask_storeu_epi8(p, used, y);
        turn = (turn + 2) % 3;
    }
}

/* Sixteen pixels as dwords. */
AVX512_INLINE __m512i load16(const uint8_t *p, int channels)
{
    if (channels == 4)
        return _mm512_loadu_si512(p);
    static const uint8_t spread[64] = {0,  1,  2,  0, 3,  4,  5,  0, 6,  7,  8,  0, 9,  10, 11, 0,
                                       12, 13, 14, 0, 15, 16, 17, 0, 18, 19, 20, 0, 21, 22, 23, 0,
                                       24, 25, 26, 0, 27, 28, 29, 0, 30, 31, 32, 0, 33, 34, 35, 0,
                                       36, 37, 38, 0, 39, 40, 41, 0, 42, 43, 44, 0, 45, 46, 47, 0};
    const __m512i x = _mm512_inserti32x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)p)),
                                         _mm_loadu_si128((const __m128i *)(p + 32)), 2);
    return _mm512_maskz_permutexvar_epi8(0x7777777777777777, _mm512_loadu_si512(spread), x);
}

AVX512_INLINE void store16(uint8_t *p, __m512i pixels, int channels)
{
    if (channels == 4) {
        _mm512_storeu_si512(p, pixels);
        return;
    }
    static const uint8_t pack[64] = {0,  1,  2,  4,  5,  6,  8,  9,  10, 12, 13, 14, 16, 17, 18, 20,
                                     21, 22, 24, 25, 26, 28, 29, 30, 32, 33, 34, 36, 37, 38, 40, 41,
                                     42, 44, 45, 46, 48, 49, 50, 52, 53, 54, 56, 57, 58, 60, 61, 62};
    const __m512i x = _mm512_permutexvar_epi8(_mm512_loadu_si512(pack), pixels);
    _mm256_storeu_si256((__m256i *)p, _mm512_castsi512_si256(x));
    _mm_storeu_si128((__m128i *)(p + 32), _mm512_extracti32x4_epi32(x, 2));
}

AVX512_INLINE __m512i byte16(__m512i pixels, int which)
{
    const __m512i x = which == 0 ? pixels : which == 1 ? _mm512_srli_epi32(pixels, 8) : _mm512_srli_epi32(pixels, 16);
    return _mm512_and_si512(x, _mm512_set1_epi32(255));
}

AVX512_INLINE __m512i luma16(__m512i pixels)
{
    const __m512i rg_bytes =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1));
    const __m512i gb_bytes =
        _mm512_broadcast_i32x4(_mm_setr_epi8(1, -1, 2, -1, 5, -1, 6, -1, 9, -1, 10, -1, 13, -1, 14, -1));
    const __m512i rg = _mm512_shuffle_epi8(pixels, rg_bytes), gb = _mm512_shuffle_epi8(pixels, gb_bytes);
    const __m512i sum = _mm512_add_epi32(_mm512_madd_epi16(rg, _mm512_set1_epi32(19235 << 16 | 19595)),
                                         _mm512_madd_epi16(gb, _mm512_set1_epi32(7471 << 16 | 19235)));
    return _mm512_srli_epi32(_mm512_add_epi32(sum, _mm512_set1_epi32(0x8000)), 16);
}

AVX512_INLINE __m512i join16(__m512i r, __m512i g, __m512i b, __m512i pixels)
{
    const __m512i alpha = _mm512_and_si512(pixels, _mm512_set1_epi32((int)0xff000000));
    return _mm512_or_si512(_mm512_or_si512(r, _mm512_slli_epi32(g, 8)),
                           _mm512_or_si512(_mm512_slli_epi32(b, 16), alpha));
}

AVX512_INLINE __m512i to_bytes16(__m512 x)
{
    return _mm512_cvttps_epi32(_mm512_min_ps(_mm512_max_ps(x, _mm512_setzero_ps()), _mm512_set1_ps(255)));
}

AVX512_INLINE __m512i mix16(__m512 a, __m512i b, __m512 factor)
{
    return to_bytes16(_mm512_add_ps(a, _mm512_mul_ps(factor, _mm512_sub_ps(_mm512_cvtepi32_ps(b), a))));
}

AVX512_INLINE int32_t gray_avx512(uint8_t *p, int32_t count, int channels)
{
    int32_t i = 0;
    for (; i + 16 <= count; i += 16, p += 16 * channels) {
        const __m512i x = load16(p, channels), gray = luma16(x);
        store16(p, join16(gray, gray, gray, x), channels);
    }
    return i;
}

AVX512_INLINE int32_t luma_sum_avx512(const uint8_t *p, int32_t count, int channels, uint64_t *sum)
{
    __m512i total = _mm512_setzero_si512();
    int32_t i = 0;
    for (; i + 16 <= count; i += 16, p += 16 * channels)
        total = _mm512_add_epi64(total, _mm512_sad_epu8(luma16(load16(p, channels)), _mm512_setzero_si512()));
    *sum += (uint64_t)_mm512_reduce_add_epi64(total);
    return i;
}

AVX512_INLINE int32_t saturate_avx512(uint8_t *p, int32_t count, int channels, float factor)
{
    const __m512 f = _mm512_set1_ps(factor);
    int32_t i = 0;
    for (; i + 16 <= count; i += 16, p += 16 * channels) {
        const __m512i x = load16(p, channels);
        const __m512 gray = _mm512_cvtepi32_ps(luma16(x));
        store16(p, join16(mix16(gray, byte16(x, 0), f), mix16(gray, byte16(x, 1), f), mix16(gray, byte16(x, 2), f), x),
                channels);
    }
    return i;
}

AVX512_INLINE __m512i hue_channel16(__m512 k, __m512 value, __m512 chroma)
{
    const __m512 six = _mm512_set1_ps(6), one = _mm512_set1_ps(1), four = _mm512_set1_ps(4);
    k = _mm512_mask_sub_ps(k, _mm512_cmp_ps_mask(k, six, _CMP_GE_OQ), k, six);
    const __m512 m = _mm512_min_ps(_mm512_min_ps(k, _mm512_sub_ps(four, k)), one);
    const __m512 x = _mm512_sub_ps(value, _mm512_mul_ps(chroma, _mm512_max_ps(m, _mm512_setzero_ps())));
    return to_bytes16(_mm512_mul_ps(x, _mm512_set1_ps(HUE_SCALE)));
}

AVX512_INLINE __m512 hue_of16(__m512i r, __m512i g, __m512i b, __m512i high, __m512 chroma, __m512 sixths)
{
    const __mmask16 is_r = _mm512_cmpeq_epi32_mask(high, r), is_g = _mm512_cmpeq_epi32_mask(high, g);
    __m512i difference = _mm512_mask_sub_epi32(_mm512_sub_epi32(r, g), is_g, b, r);
    difference = _mm512_mask_sub_epi32(difference, is_r, g, b);
    __m512 start = _mm512_mask_mov_ps(_mm512_set1_ps(4), is_g, _mm512_set1_ps(2));
    start = _mm512_mask_mov_ps(start, is_r, _mm512_setzero_ps());
    const __m512 six = _mm512_set1_ps(6);
    const __m512 ratio = _mm512_div_ps(_mm512_cvtepi32_ps(difference), _mm512_max_ps(chroma, _mm512_set1_ps(1)));
    __m512 h = _mm512_add_ps(_mm512_add_ps(ratio, start), sixths);
    h = _mm512_mask_add_ps(h, _mm512_cmp_ps_mask(h, _mm512_setzero_ps(), _CMP_LT_OQ), h, six);
    return _mm512_mask_sub_ps(h, _mm512_cmp_ps_mask(h, six, _CMP_GE_OQ), h, six);
}

AVX512_INLINE int32_t hue_avx512(uint8_t *p, int32_t count, int channels, float sixths)
{
    int32_t i = 0;
    for (; i + 16 <= count; i += 16, p += 16 * channels) {
        const __m512i x = load16(p, channels), r = byte16(x, 0), g = byte16(x, 1), b = byte16(x, 2);
        const __m512i high = _mm512_max_epi32(_mm512_max_epi32(r, g), b),
                      low = _mm512_min_epi32(_mm512_min_epi32(r, g), b);
        const __m512 value = _mm512_cvtepi32_ps(high), chroma = _mm512_cvtepi32_ps(_mm512_sub_epi32(high, low));
        const __m512 h = hue_of16(r, g, b, high, chroma, _mm512_set1_ps(sixths));
        store16(p,
                join16(hue_channel16(_mm512_add_ps(h, _mm512_set1_ps(5)), value, chroma),
                       hue_channel16(_mm512_add_ps(h, _mm512_set1_ps(3)), value, chroma),
                       hue_channel16(_mm512_add_ps(h, _mm512_set1_ps(1)), value, chroma), x),
                channels);
    }
    return i;
}

/* 16 bytes at a time, 16 pixels in all. */
AVX512_INLINE int32_t blend_avx512(uint8_t *p, const uint8_t *a, int32_t count, int channels, float factor)
{
    const __m512 f = _mm512_set1_ps(factor);
    const __mmask16 changed = channels == 4 ? 0x7777 : 0xffff;
    int32_t i = 0;
    for (; i + 16 <= count; i += 16)
        for (int j = 0; j < channels; j++, p += 16, a += 16) {
            const __m512i b = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
            const __m512 x = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)a)));
            const __m512i mixed = _mm512_mask_mov_epi32(b, changed, mix16(x, b, f));
            _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(mixed));
        }
    return i;
}

/* With the number of channels known at compile time. */
#define BOTH(target, name, call3, call4)      \
    target static int32_t name                \
    {                                         \
        return channels == 3 ? call3 : call4; \
    }
BOTH(STK__AVX2, gray_row_avx2(uint8_t *p, int32_t n, int channels), gray_avx2(p, n, 3), gray_avx2(p, n, 4))
BOTH(STK__AVX512, gray_row_avx512(uint8_t *p, int32_t n, int channels), gray_avx512(p, n, 3), gray_avx512(p, n, 4))
BOTH(STK__AVX2, sum_row_avx2(const uint8_t *p, int32_t n, int channels, uint64_t *sum), luma_sum_avx2(p, n, 3, sum),
     channels == 4 ? luma_sum_avx2(p, n, 4, sum) : byte_sum_avx2(p, n, sum))
BOTH(STK__AVX512, sum_row_avx512(const uint8_t *p, int32_t n, int channels, uint64_t *sum),
     luma_sum_avx512(p, n, 3, sum), channels == 4 ? luma_sum_avx512(p, n, 4, sum) : byte_sum_avx2(p, n, sum))
BOTH(STK__AVX2, saturate_row_avx2(uint8_t *p, int32_t n, int channels, float f), saturate_avx2(p, n, 3, f),
     saturate_avx2(p, n, 4, f))
BOTH(STK__AVX512, saturate_row_avx512(uint8_t *p, int32_t n, int channels, float f), saturate_avx512(p, n, 3, f),
     saturate_avx512(p, n, 4, f))
BOTH(STK__AVX2, hue_row_avx2(uint8_t *p, int32_t n, int channels, float f), hue_avx2(p, n, 3, f), hue_avx2(p, n, 4, f))
BOTH(STK__AVX512, hue_row_avx512(uint8_t *p, int32_t n, int channels, float f), hue_avx512(p, n, 3, f),
     hue_avx512(p, n, 4, f))
BOTH(STK__AVX2, blend_row_avx2(uint8_t *p, const uint8_t *a, int32_t n, int channels, float f),
     blend_avx2(p, a, n, 3, f), channels == 4 ? blend_avx2(p, a, n, 4, f) : blend_avx2(p, a, n, 1, f))
BOTH(STK__AVX512, blend_row_avx512(uint8_t *p, const uint8_t *a, int32_t n, int channels, float f),
     blend_avx512(p, a, n, 3, f), channels == 4 ? blend_avx512(p, a, n, 4, f) : blend_avx512(p, a, n, 1, f))

/* How many pixels the vectors did; C does the rest. */
#define VECTORS(name, ...)                                              \
    (stk__simd_level() >= STK__SIMD_AVX512 ? name##_avx512(__VA_ARGS__) \
     : stk__simd_level() >= STK__SIMD_AVX2 ? name##_avx2(__VA_ARGS__)   \
                                           : 0)
#else
#define VECTORS(name, ...) 0
#endif

void stk__color_map(const stk__pixels *image, stk__color_table table)
{
    const stk__pixels p = as_rows(image);
    for (int32_t y = 0; y < p.height; y++) {
        uint8_t *const row = stk__pixel_row(&p, y);
#if defined(__x86_64__)
        if (stk__simd_level() >= STK__SIMD_AVX512 && p.channels != 2) {
            const int64_t size = (int64_t)p.width * p.channels;
            const bool same = p.channels == 1 || (p.channels == 3 && !memcmp(table[0], table[1], sizeof table[0]) &&
                                                  !memcmp(table[0], table[2], sizeof table[0]));
            if (same)
                map_bytes(row, size, table[0]);
            else
                map_pixels(row, size, p.channels, table);
            continue;
        }
#endif
        map_c(row, 0, p.width, p.channels, table);
    }
}

void stk__color_gray(const stk__pixels *image)
{
    const stk__pixels p = as_rows(image);
    if (p.channels < 3)
        return;
    for (int32_t y = 0; y < p.height; y++) {
        uint8_t *const row = stk__pixel_row(&p, y);
        gray_c(row, VECTORS(gray_row, row, p.width, p.channels), p.width, p.channels);
    }
}

uint8_t stk__color_mean_luma(const stk__pixels *image)
{
    const stk__pixels p = as_rows(image);
    const uint64_t count = (uint64_t)p.width * (uint64_t)p.height;
    uint64_t sum = 0;
    for (int32_t y = 0; y < p.height; y++) {
        const uint8_t *const row = stk__pixel_row(&p, y);
        int32_t done = 0;
        if (p.channels != 2)
            done = VECTORS(sum_row, row, p.width, p.channels, &sum);
        sum += luma_sum_c(row, done, p.width, p.channels);
    }
    return count ? (uint8_t)((2 * sum + count) / (2 * count)) : 0;
}

void stk__color_histogram(const stk__pixels *image, uint32_t counts[3][256])
{
    /* Neighbours are often alike; two sets of counters keep them from waiting for each other. */
    uint32_t more[3][256] = {0};
    memset(counts, 0, sizeof more);
    const int channels = image->channels, colors = channels < 3 ? 1 : 3;
    for (int32_t y = 0; y < image->height; y++) {
        const uint8_t *p = stk__pixel_row(image, y);
        int32_t x = 0;
        for (; x + 2 <= image->width; x += 2, p += 2 * channels) {
            for (int c = 0; c < colors; c++) {
                counts[c][p[c]]++;
                more[c][p[channels + c]]++;
            }
        }
        if (x < image->width)
            for (int c = 0; c < colors; c++)
                counts[c][p[c]]++;
    }
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 256; i++)
            counts[c][i] += more[c][i];
}

void stk__color_saturate(const stk__pixels *image, float factor)
{
    const stk__pixels p = as_rows(image);
    if (p.channels < 3)
        return;
    for (int32_t y = 0; y < p.height; y++) {
        uint8_t *const row = stk__pixel_row(&p, y);
        saturate_c(row, VECTORS(saturate_row, row, p.width, p.channels, factor), p.width, p.channels, factor);
    }
}

void stk__color_hue(const stk__pixels *image, float turn)
{
    const stk__pixels p = as_rows(image);
    if (p.channels < 3 || !isfinite(turn))
        return;
    const float sixths = 6 * (turn - nearbyintf(turn));
    for (int32_t y = 0; y < p.height; y++) {
        uint8_t *const row = stk__pixel_row(&p, y);
        hue_c(row, VECTORS(hue_row, row, p.width, p.channels, sixths), p.width, p.channels, sixths);
    }
}

void stk__color_blend(const stk__pixels *image, const stk__pixels *other, float factor)
{
    const bool dense = other->stride == image->stride;
    const stk__pixels p = dense ? as_rows(image) : *image;
    for (int32_t y = 0; y < p.height; y++) {
        uint8_t *const row = stk__pixel_row(&p, y);
        const uint8_t *const a = stk__pixel_row(other, y);
        int32_t done = 0;
        if (p.channels != 2)
            done = VECTORS(blend_row, row, a, p.width, p.channels, factor);
        blend_c(row, a, done, p.width, p.channels, factor);
    }
}

static void copy_table(stk__color_table table, int from)
{
    for (int c = 0; c < 3; c++)
        if (c != from)
            memcpy(table[c], table[from], sizeof table[c]);
}

void stk__table_brightness(stk__color_table table, float factor)
{
    stk__table_contrast(table, factor, 0);
}

void stk__table_contrast(stk__color_table table, float factor, uint8_t mean_luma)
{
    for (int i = 0; i < 256; i++)
        table[0][i] = mix(mean_luma, (uint8_t)i, factor);
    copy_table(table, 0);
}

void stk__table_solarize(stk__color_table table, int threshold)
{
    for (int i = 0; i < 256; i++)
        table[0][i] = (uint8_t)(i < threshold ? i : 255 - i);
    copy_table(table, 0);
}

void stk__table_posterize(stk__color_table table, int bits)
{
    const int kept = bits <= 0 ? 0 : bits >= 8 ? 255 : 255 << (8 - bits) & 255;
    for (int i = 0; i < 256; i++)
        table[0][i] = (uint8_t)(i & kept);
    copy_table(table, 0);
}

void stk__table_invert(stk__color_table table)
{
    stk__table_solarize(table, 0);
}

static void set_identity(uint8_t table[256])
{
    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)i;
}

/* As Pillow's ImageOps.autocontrast with no cut-off. */
static void autocontrast_channel(uint8_t table[256], const uint32_t counts[256])
{
    int low = 0, high = 255;
    while (low < 255 && !counts[low])
        low++;
    while (high > 0 && !counts[high])
        high--;
    set_identity(table);
    if (high <= low)
        return;
    const double scale = 255.0 / (high - low), offset = -low * scale;
    for (int i = 0; i < 256; i++) {
        const double x = i * scale + offset;
        table[i] = (uint8_t)(x <= 0 ? 0 : x >= 255 ? 255 : (int)x);
    }
}

void stk__table_autocontrast(stk__color_table table, const uint32_t counts[3][256], int channels)
{
    const int colors = channels < 3 ? 1 : 3;
    for (int c = 0; c < colors; c++)
        autocontrast_channel(table[c], counts[c]);
    if (colors == 1)
        copy_table(table, 0);
}

static void equalize_channel(uint8_t table[256], const uint32_t counts[256])
{
    uint64_t total = 0, last = 0;
    for (int i = 0; i < 256; i++) {
        total += counts[i];
        last = counts[i] ? counts[i] : last;
    }
    const uint64_t step = (total - last) / 255;
    set_identity(table);
    if (!step)
        return;
    uint64_t sum = step / 2;
    for (int i = 0; i < 256; i++) {
        const uint64_t x = sum / step;
        table[i] = (uint8_t)STK_MIN(x, 255);
        sum += counts[i];
    }
}

void stk__table_equalize(stk__color_table table, const uint32_t counts[3][256], int channels)
{
    const int colors = channels < 3 ? 1 : 3;
    for (int c = 0; c < colors; c++)
        equalize_channel(table[c], counts[c]);
    if (colors == 1)
        copy_table(table, 0);
}
