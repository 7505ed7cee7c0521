/* Affine maps of uint8 images in 16.16 fixed point: plain C, AVX2 and AVX-512. */
#include "kernels/warp.h"

#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "kernels/simd.h"

/*
 * A row of output goes in blocks, each of which starts from coordinates in double: so the rounded step cannot sum up
 * to more than BLOCK / 2 parts of 65536.
 *
 * Where all that a pixel needs lies in memory, a kernel runs without looking; it clamps coordinates to that region,
 * so that it can never read elsewhere. Pixels near the border are mixed one by one.
 *
 * Small images are first copied between borders of `fill`, so that every coordinate may be clamped into the copy.
 * Each row of the copy is woven with the one below it (a A b B c C ...): the four neighbours of a point then come
 * with one load.
 */
enum { BLOCK = 256, BLOCK_ROWS = 64, PAD = 2, COPY_MAX = 40 * 1024, SLACK = 16, ONE = 65536, WEIGHT_BITS = 14 };

/* Everywhere: [low, high) of a coordinate in 16.16. */
typedef struct range {
    int64_t low, high;
} range;

typedef struct source {
    const uint8_t *data; /* pixel (0, 0) */
    ptrdiff_t stride;
    int32_t width, height; /* as given, without borders */
    range safe_x, safe_y;  /* where the vector kernel may read */
    range seen_x, seen_y;  /* outside of this everything is fill */
    bool woven;
    uint8_t fill[STK__CHANNELS_MAX];
} source;

/* Where a run of pixels starts, and what one pixel to the right adds. */
typedef struct path {
    int64_t x, y, dx, dy;
} path;

/* `rows` runs of `count` pixels, each with a path of its own. */
typedef struct target {
    uint8_t *data;
    ptrdiff_t stride;
    int32_t count, rows;
} target;

typedef void run_function(const target *to, const source *in, const path *at);

static inline int32_t clamp32(int32_t x, range to)
{
    return x < to.low ? (int32_t)to.low : x >= to.high ? (int32_t)(to.high - 1) : x;
}

/* The four weights of a point sum up to exactly 1 << WEIGHT_BITS, so that even areas stay as they are. */
static inline uint8_t mix(const int32_t w[4], int p00, int p01, int p10, int p11)
{
    return (uint8_t)((w[0] * p00 + w[1] * p01 + w[2] * p10 + w[3] * p11 + (1 << (WEIGHT_BITS - 1))) >> WEIGHT_BITS);
}

static inline void set_weights(int32_t w[4], int32_t x, int32_t y)
{
    const int32_t fx = (x & (ONE - 1)) >> 2, fy = (y & (ONE - 1)) >> 2;
    w[3] = (fx * fy + (1 << (WEIGHT_BITS - 1))) >> WEIGHT_BITS;
    w[2] = fy - w[3];
    w[1] = fx - w[3];
    w[0] = (1 << WEIGHT_BITS) - fx - fy + w[3];
}

static inline __attribute__((always_inline)) void linear_c(uint8_t *out, int32_t count, const source *in, path at,
                                                           int channels)
{
    for (int32_t i = 0; i < count; i++, out += channels, at.x += at.dx, at.y += at.dy) {
        const int32_t x = clamp32((int32_t)at.x, in->safe_x), y = clamp32((int32_t)at.y, in->safe_y);
        const uint8_t *top = in->data + (y >> 16) * in->stride + (x >> 16) * channels, *bottom = top + in->stride;
        int32_t w[4];
        set_weights(w, x, y);
        for (int c = 0; c < channels; c++)
            out[c] = mix(w, top[c], top[channels + c], bottom[c], bottom[channels + c]);
    }
}

static inline __attribute__((always_inline)) void nearest_c(uint8_t *out, int32_t count, const source *in, path at,
                                                            int channels)
{
    for (int32_t i = 0; i < count; i++, out += channels, at.x += at.dx, at.y += at.dy) {
        const int32_t x = clamp32((int32_t)at.x, in->safe_x), y = clamp32((int32_t)at.y, in->safe_y);
        memcpy(out, in->data + (y >> 16) * in->stride + (x >> 16) * channels, (size_t)channels);
    }
}

#define RUN(name, row, ...)                                                      \
    static void name(const target *to, const source *in, const path *at)         \
    {                                                                            \
        const source own = *in; /* `out` cannot be an alias of this one */       \
        for (int32_t y = 0; y < to->rows; y++)                                   \
            row(to->data + y * to->stride, to->count, &own, at[y], __VA_ARGS__); \
    }
RUN(linear1_c, linear_c, 1)
RUN(linear3_c, linear_c, 3)
RUN(linear4_c, linear_c, 4)
RUN(nearest1_c, nearest_c, 1)
RUN(nearest3_c, nearest_c, 3)
RUN(nearest4_c, nearest_c, 4)

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2_INLINE STK__AVX2 static inline __attribute__((always_inline))
#define AVX512_INLINE STK__AVX512 static inline __attribute__((always_inline))

/* Offsets go through memory: compilers would rather take them out of the vector with shuffles, which are scarcer. */
#define KEEP_IN_MEMORY(array) __asm__("" : "+m"(array))

/*
 * Points: where they are in bytes, and their weights as pairs of words. The first pair is for the two neighbours
 * above and the second for those below; in a woven copy the first is for those on the left and the second for those
 * on the right.
 */
typedef struct points8 {
    __m256i at, first, second;
} points8;

AVX2_INLINE __m256i clamp8(__m256i x, range to)
{
    x = _mm256_max_epi32(x, _mm256_set1_epi32((int32_t)to.low));
    return _mm256_min_epi32(x, _mm256_set1_epi32((int32_t)(to.high - 1)));
}

AVX2_INLINE __m256i offsets8(__m256i x, __m256i y, const source *in, int step)
{
    const __m256i row = _mm256_mullo_epi32(_mm256_srai_epi32(y, 16), _mm256_set1_epi32((int32_t)in->stride));
    return _mm256_add_epi32(row, _mm256_mullo_epi32(_mm256_srai_epi32(x, 16), _mm256_set1_epi32(step)));
}

AVX2_INLINE points8 locate8(__m256i x, __m256i y, const source *in, int channels, bool woven)
{
    x = clamp8(x, in->safe_x);
    y = clamp8(y, in->safe_y);
    const __m256i fx = _mm256_srli_epi32(_mm256_slli_epi32(x, 16), 18);
    const __m256i fy = _mm256_srli_epi32(_mm256_slli_epi32(y, 16), 18);
    const __m256i round = _mm256_set1_epi32(1 << (WEIGHT_BITS - 1)), one = _mm256_set1_epi32(1 << WEIGHT_BITS);
    const __m256i w3 = _mm256_srli_epi32(_mm256_add_epi32(_mm256_madd_epi16(fx, fy), round), WEIGHT_BITS);
    const __m256i w2 = _mm256_sub_epi32(fy, w3), w1 = _mm256_sub_epi32(fx, w3);
    const __m256i w0 = _mm256_sub_epi32(_mm256_sub_epi32(one, fx), w2);
    const __m256i low = woven ? w2 : w1, high = woven ? w1 : w2;
    return (points8){offsets8(x, y, in, woven ? 2 * channels : channels),
                     _mm256_or_si256(w0, _mm256_slli_epi32(low, 16)), _mm256_or_si256(high, _mm256_slli_epi32(w3, 16))};
}

/* Sum of weighted pairs, as 32-bit results. */
AVX2_INLINE __m256i weigh8(__m256i a, __m256i first, __m256i b, __m256i second)
{
    const __m256i sum = _mm256_add_epi32(_mm256_madd_epi16(a, first), _mm256_madd_epi16(b, second));
    return _mm256_srli_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(1 << (WEIGHT_BITS - 1))), WEIGHT_BITS);
}

/* The four neighbours of a point in 16 bytes: two above and two below, or woven. */
AVX2_INLINE __m128i load_square(const uint8_t *p, ptrdiff_t stride, bool woven)
{
    if (woven)
        return _mm_loadu_si128((const __m128i *)p);
    const __m128 above = _mm_castsi128_ps(_mm_loadl_epi64((const __m128i *)p));
    return _mm_castps_si128(_mm_loadh_pi(above, (const __m64 *)(p + stride)));
}

AVX2_INLINE __m256i load_squares(const source *in, int32_t a, int32_t b, bool woven)
{
    const __m128i low = load_square(in->data + a, in->stride, woven),
                  high = load_square(in->data + b, in->stride, woven);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

/* Bytes of such a square that make words for the first and for the second pair of weights. */
static const int8_t square_bytes[2][2][2][16] = {
    {{{0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1},
      {8, -1, 11, -1, 9, -1, 12, -1, 10, -1, 13, -1, -1, -1, -1, -1}},
     {{0, -1, 1, -1, 2, -1, 3, -1, 4, -1, 5, -1, -1, -1, -1, -1},
      {6, -1, 7, -1, 8, -1, 9, -1, 10, -1, 11, -1, -1, -1, -1, -1}}},
    {{{0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1},
      {8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1}},
     {{0, -1, 1, -1, 2, -1, 3, -1, 4, -1, 5, -1, 6, -1, 7, -1},
      {8, -1, 9, -1, 10, -1, 11, -1, 12, -1, 13, -1, 14, -1, 15, -1}}},
};

AVX2_INLINE __m128i square_words(int channels, bool woven, int second)
{
    return _mm_loadu_si128((const __m128i *)square_bytes[channels == 4][woven][second]);
}

/* Dword j of each part of 16 bytes, four times. */
AVX2_INLINE __m256i repeat8(__m256i x, int j)
{
    return j == 0   ? _mm256_shuffle_epi32(x, 0x00)
           : j == 1 ? _mm256_shuffle_epi32(x, 0x55)
           : j == 2 ? _mm256_shuffle_epi32(x, 0xaa)
                    : _mm256_shuffle_epi32(x, 0xff);
}

/* Points j and 4 + j, one in each half: their weights lie in that half as well, and packing puts all in order. */
AVX2_INLINE __m256i linear2(const source *in, const int32_t at[8], points8 p, int j, int channels, bool woven)
{
    const __m256i all = load_squares(in, at[j], at[4 + j], woven);
    const __m256i a = _mm256_shuffle_epi8(all, _mm256_broadcastsi128_si256(square_words(channels, woven, 0)));
    const __m256i b = _mm256_shuffle_epi8(all, _mm256_broadcastsi128_si256(square_words(channels, woven, 1)));
    return weigh8(a, repeat8(p.first, j), b, repeat8(p.second, j));
}

/* Eight pixels of four bytes each. */
AVX2_INLINE __m256i linear8(const source *in, points8 p, int channels, bool woven)
{
    int32_t at[8];
    _mm256_storeu_si256((__m256i *)at, p.at);
    KEEP_IN_MEMORY(at);
    const __m256i a =
        _mm256_packus_epi32(linear2(in, at, p, 0, channels, woven), linear2(in, at, p, 1, channels, woven));
    const __m256i b =
        _mm256_packus_epi32(linear2(in, at, p, 2, channels, woven), linear2(in, at, p, 3, channels, woven));
    return _mm256_packus_epi16(a, b);
}

AVX2_INLINE int32_t load_pixel(const uint8_t *p)
{
    int32_t pixel;
    memcpy(&pixel, p, sizeof pixel);
    return pixel;
}

/* Four bytes at each of eight points. */
AVX2_INLINE __m256i fetch8(const uint8_t *data, __m256i offsets)
{
    int32_t at[8];
    _mm256_storeu_si256((__m256i *)at, offsets);
    KEEP_IN_MEMORY(at);
    return _mm256_setr_epi32(load_pixel(data + at[0]), load_pixel(data + at[1]), load_pixel(data + at[2]),
                             load_pixel(data + at[3]), load_pixel(data + at[4]), load_pixel(data + at[5]),
                             load_pixel(data + at[6]), load_pixel(data + at[7]));
}

/* Bytes `from` and `from` + 1 of each dword as words. */
AVX2_INLINE __m256i pair_words8(__m256i x, int from)
{
    x = from ? _mm256_srli_epi32(x, 16) : x;
    return _mm256_or_si256(_mm256_and_si256(x, _mm256_set1_epi32(255)),
                           _mm256_and_si256(_mm256_slli_epi32(x, 8), _mm256_set1_epi32(255 << 16)));
}

AVX2_INLINE __m256i linear8_gray(const source *in, points8 p, bool woven)
{
    const __m256i x = fetch8(in->data, p.at), y = woven ? x : fetch8(in->data + in->stride, p.at);
    return weigh8(pair_words8(x, 0), p.first, pair_words8(y, woven ? 2 : 0), p.second);
}

/* Three of each four bytes, packed in each half. */
AVX2_INLINE __m256i pack3(__m256i x)
{
    return _mm256_shuffle_epi8(x, _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1, 0, 1, 2, 4,
                                                   5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
}

/* Eight pixels, a dword each, go to `out`; fewer through a buffer. */
AVX2_INLINE void put8(uint8_t *out, int32_t count, __m256i pixels, int channels)
{
    uint8_t rest[32];
    uint8_t *const to = count < 8 ? rest : out;
    if (channels == 4) {
        _mm256_storeu_si256((__m256i *)to, pixels);
    } else if (channels == 3) {
        const __m256i x = pack3(pixels);
        const __m128i high = _mm256_extracti128_si256(x, 1);
        const int32_t last = _mm_extract_epi32(high, 2);
        _mm_storeu_si128((__m128i *)to, _mm256_castsi256_si128(x));
        _mm_storel_epi64((__m128i *)(to + 12), high);
        memcpy(to + 20, &last, sizeof last);
    } else {
        const __m256i x = _mm256_and_si256(pixels, _mm256_set1_epi32(255));
        const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
        _mm_storel_epi64((__m128i *)to, _mm_packus_epi16(words, words));
    }
    if (count < 8)
        memcpy(out, rest, (size_t)(count * channels));
}

AVX2_INLINE __m256i ramp8(int64_t start, int64_t step)
{
    const __m256i by = _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32((int32_t)step));
    return _mm256_add_epi32(_mm256_set1_epi32((int32_t)start), by);
}

AVX2_INLINE void linear_avx2(uint8_t *out, int32_t count, const source *in, path at, int channels, bool woven)
{
    __m256i x = ramp8(at.x, at.dx), y = ramp8(at.y, at.dy);
    const __m256i dx = _mm256_set1_epi32((int32_t)(8 * at.dx)), dy = _mm256_set1_epi32((int32_t)(8 * at.dy));
    for (; count > 0; count -= 8, out += 8 * channels) {
        const points8 p = locate8(x, y, in, channels, woven);
        put8(out, count, channels == 1 ? linear8_gray(in, p, woven) : linear8(in, p, channels, woven), channels);
        x = _mm256_add_epi32(x, dx);
        y = _mm256_add_epi32(y, dy);
    }
}

AVX2_INLINE void nearest_avx2(uint8_t *out, int32_t count, const source *in, path at, int channels)
{
    __m256i x = ramp8(at.x, at.dx), y = ramp8(at.y, at.dy);
    const __m256i dx = _mm256_set1_epi32((int32_t)(8 * at.dx)), dy = _mm256_set1_epi32((int32_t)(8 * at.dy));
    for (; count > 0; count -= 8, out += 8 * channels) {
        const __m256i offsets = offsets8(clamp8(x, in->safe_x), clamp8(y, in->safe_y), in, channels);
        put8(out, count, fetch8(in->data, offsets), channels);
        x = _mm256_add_epi32(x, dx);
        y = _mm256_add_epi32(y, dy);
    }
}

typedef struct points16 {
    __m512i at, first, second;
} points16;

AVX512_INLINE __m512i clamp16(__m512i x, range to)
{
    x = _mm512_max_epi32(x, _mm512_set1_epi32((int32_t)to.low));
    return _mm512_min_epi32(x, _mm512_set1_epi32((int32_t)(to.high - 1)));
}

AVX512_INLINE points16 locate16(__m512i x, __m512i y, const source *in, int channels, bool woven)
{
    x = clamp16(x, in->safe_x);
    y = clamp16(y, in->safe_y);
    const __m512i row = _mm512_mullo_epi32(_mm512_srai_epi32(y, 16), _mm512_set1_epi32((int32_t)in->stride));
    const __m512i column =
        _mm512_mullo_epi32(_mm512_srai_epi32(x, 16), _mm512_set1_epi32(woven ? 2 * channels : channels));
    const __m512i fx = _mm512_srli_epi32(_mm512_slli_epi32(x, 16), 18);
    const __m512i fy = _mm512_srli_epi32(_mm512_slli_epi32(y, 16), 18);
    const __m512i round = _mm512_set1_epi32(1 << (WEIGHT_BITS - 1)), one = _mm512_set1_epi32(1 << WEIGHT_BITS);
    const __m512i w3 = _mm512_srli_epi32(_mm512_add_epi32(_mm512_madd_epi16(fx, fy), round), WEIGHT_BITS);
    const __m512i w2 = _mm512_sub_epi32(fy, w3), w1 = _mm512_sub_epi32(fx, w3);
    const __m512i w0 = _mm512_sub_epi32(_mm512_sub_epi32(one, fx), w2);
    const __m512i low = woven ? w2 : w1, high = woven ? w1 : w2;
    return (points16){_mm512_add_epi32(row, column), _mm512_or_si512(w0, _mm512_slli_epi32(low, 16)),
                      _mm512_or_si512(high, _mm512_slli_epi32(w3, 16))};
}

AVX512_INLINE __m512i repeat16(__m512i x, int j)
{
    return j == 0   ? _mm512_shuffle_epi32(x, (_MM_PERM_ENUM)0x00)
           : j == 1 ? _mm512_shuffle_epi32(x, (_MM_PERM_ENUM)0x55)
           : j == 2 ? _mm512_shuffle_epi32(x, (_MM_PERM_ENUM)0xaa)
                    : _mm512_shuffle_epi32(x, (_MM_PERM_ENUM)0xff);
}

/* Points j, 4 + j, 8 + j and 12 + j, as linear2. */
AVX512_INLINE __m512i linear4(const source *in, const int32_t at[16], points16 p, int j, int channels, bool woven)
{
    const __m256i low = load_squares(in, at[j], at[4 + j], woven),
                  high = load_squares(in, at[8 + j], at[12 + j], woven);
    const __m512i all = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    const __m512i a = _mm512_shuffle_epi8(all, _mm512_broadcast_i32x4(square_words(channels, woven, 0)));
    const __m512i b = _mm512_shuffle_epi8(all, _mm512_broadcast_i32x4(square_words(channels, woven, 1)));
    const __m512i sum =
        _mm512_add_epi32(_mm512_madd_epi16(a, repeat16(p.first, j)), _mm512_madd_epi16(b, repeat16(p.second, j)));
    return _mm512_srli_epi32(_mm512_add_epi32(sum, _mm512_set1_epi32(1 << (WEIGHT_BITS - 1))), WEIGHT_BITS);
}

/* Sixteen pixels, packed. */
AVX512_INLINE __m512i linear16(const source *in, points16 p, int channels, bool woven)
{
    static const uint8_t to3[64] = {0,  1,  2,  4,  5,  6,  8,  9,  10, 12, 13, 14, 16, 17, 18, 20,
                                    21, 22, 24, 25, 26, 28, 29, 30, 32, 33, 34, 36, 37, 38, 40, 41,
                                    42, 44, 45, 46, 48, 49, 50, 52, 53, 54, 56, 57, 58, 60, 61, 62};
    int32_t at[16];
    _mm512_storeu_si512(at, p.at);
    KEEP_IN_MEMORY(at);
    const __m512i a =
        _mm512_packus_epi32(linear4(in, at, p, 0, channels, woven), linear4(in, at, p, 1, channels, woven));
    const __m512i b =
        _mm512_packus_epi32(linear4(in, at, p, 2, channels, woven), linear4(in, at, p, 3, channels, woven));
    const __m512i pixels = _mm512_packus_epi16(a, b);
    return channels == 3 ? _mm512_permutexvar_epi8(_mm512_loadu_si512(to3), pixels) : pixels;
}

/* Masked stores are slow on some CPUs, so only the end of a run has one. */
AVX512_INLINE void put16(uint8_t *out, int32_t count, __m512i pixels, int channels)
{
    if (count < 16) {
        _mm512_mask_storeu_epi8(out, _bzhi_u64(UINT64_MAX, (unsigned)(count * channels)), pixels);
    } else if (channels == 3) {
        _mm256_storeu_si256((__m256i *)out, _mm512_castsi512_si256(pixels));
        _mm_storeu_si128((__m128i *)(out + 32), _mm512_extracti32x4_epi32(pixels, 2));
    } else {
        _mm512_storeu_si512(out, pixels);
    }
}

AVX512_INLINE __m512i ramp16(int64_t start, int64_t step)
{
    const __m512i numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_add_epi32(_mm512_set1_epi32((int32_t)start),
                            _mm512_mullo_epi32(numbers, _mm512_set1_epi32((int32_t)step)));
}

AVX512_INLINE void linear_avx512(uint8_t *out, int32_t count, const source *in, path at, int channels, bool woven)
{
    __m512i x = ramp16(at.x, at.dx), y = ramp16(at.y, at.dy);
    const __m512i dx = _mm512_set1_epi32((int32_t)(16 * at.dx)), dy = _mm512_set1_epi32((int32_t)(16 * at.dy));
    for (; count > 0; count -= 16, out += 16 * channels) {
        const __m512i pixels = linear16(in, locate16(x, y, in, channels, woven), channels, woven);
        put16(out, count, pixels, channels);
        x = _mm512_add_epi32(x, dx);
        y = _mm512_add_epi32(y, dy);
    }
}

STK__AVX2 RUN(linear1_avx2, linear_avx2, 1, false) STK__AVX2 RUN(linear3_avx2, linear_avx2, 3, false) STK__AVX2
    RUN(linear4_avx2, linear_avx2, 4, false) STK__AVX2 RUN(woven1_avx2, linear_avx2, 1, true) STK__AVX2
    RUN(woven3_avx2, linear_avx2, 3, true) STK__AVX2 RUN(woven4_avx2, linear_avx2, 4, true) STK__AVX2
    RUN(nearest1_avx2, nearest_avx2, 1) STK__AVX2 RUN(nearest3_avx2, nearest_avx2, 3) STK__AVX2
    RUN(nearest4_avx2, nearest_avx2, 4) STK__AVX512 RUN(linear3_avx512, linear_avx512, 3, false) STK__AVX512
    RUN(linear4_avx512, linear_avx512, 4, false) STK__AVX512 RUN(woven3_avx512, linear_avx512, 3, true) STK__AVX512
    RUN(woven4_avx512, linear_avx512, 4, true)
#endif

        typedef enum way {
            NEAREST,
            LINEAR,
            WOVEN
        } way;

static run_function *choose_run(int channels, way kind, stk__simd level)
{
    const int which = channels == 1 ? 0 : channels == 3 ? 1 : 2;
#if defined(__x86_64__)
    static run_function *const avx512[3][3] = {{nearest1_avx2, nearest3_avx2, nearest4_avx2},
                                               {linear1_avx2, linear3_avx512, linear4_avx512},
                                               {woven1_avx2, woven3_avx512, woven4_avx512}};
    static run_function *const avx2[3][3] = {{nearest1_avx2, nearest3_avx2, nearest4_avx2},
                                             {linear1_avx2, linear3_avx2, linear4_avx2},
                                             {woven1_avx2, woven3_avx2, woven4_avx2}};
    if (level >= STK__SIMD_AVX2)
        return level >= STK__SIMD_AVX512 ? avx512[kind][which] : avx2[kind][which];
#endif
    static run_function *const plain[2][3] = {{nearest1_c, nearest3_c, nearest4_c}, {linear1_c, linear3_c, linear4_c}};
    return plain[kind == NEAREST ? 0 : 1][which];
}

static void fill_run(uint8_t *out, int32_t count, const uint8_t *fill, int channels)
{
    bool even = true;
    for (int c = 1; c < channels; c++)
        even = even && fill[c] == fill[0];
    if (even) {
        memset(out, fill[0], (size_t)count * (size_t)channels);
        return;
    }
    for (int32_t i = 0; i < count; i++)
        for (int c = 0; c < channels; c++)
            out[i * channels + c] = fill[c];
}

/* Anywhere within one pixel of the image: each neighbour is looked at. */
static void mix_at_border(uint8_t *out, const source *in, int32_t x, int32_t y, int channels)
{
    const uint8_t *from[4];
    for (int i = 0; i < 4; i++) {
        const int32_t px = (x >> 16) + (i & 1), py = (y >> 16) + (i >> 1);
        const bool inside = px >= 0 && px < in->width && py >= 0 && py < in->height;
        from[i] = inside ? in->data + py * in->stride + px * channels : in->fill;
    }
    int32_t w[4];
    set_weights(w, x, y);
    for (int c = 0; c < channels; c++)
        out[c] = mix(w, from[0][c], from[1][c], from[2][c], from[3][c]);
}

static void border_run(uint8_t *out, int32_t count, const source *in, path at, int channels, bool bilinear)
{
    for (; count > 0; count--, out += channels, at.x += at.dx, at.y += at.dy) {
        if (bilinear)
            mix_at_border(out, in, (int32_t)at.x, (int32_t)at.y, channels);
        else
            memcpy(out, in->data + (at.y >> 16) * in->stride + (at.x >> 16) * channels, (size_t)channels);
    }
}

/* Rounded up; `by` is positive. */
static int64_t divide_up(int64_t n, int64_t by)
{
    return n / by + (n % by > 0);
}

/* Narrows [*a, *b) to the steps at which a coordinate lies in `to`. */
static void narrow(int32_t *a, int32_t *b, int64_t start, int64_t step, range to)
{
    if (step < 0) {
        start = -start;
        step = -step;
        to = (range){1 - to.high, 1 - to.low};
    }
    if (step == 0) {
        if (start < to.low || start >= to.high)
            *b = *a;
        return;
    }
    const int64_t first = divide_up(to.low - start, step), end = divide_up(to.high - start, step);
    if (first > *a)
        *a = (int32_t)STK_MIN(first, *b);
    if (end < *b)
        *b = (int32_t)STK_MAX(end, *a);
}

static path move(path at, int32_t steps)
{
    at.x += at.dx * steps;
    at.y += at.dy * steps;
    return at;
}

/* fill, border, inside, border, fill: any of these may be empty. */
static void warp_parts(uint8_t *out, int32_t count, const source *in, path at, int channels, bool bilinear,
                       run_function *run)
{
    int32_t seen = 0, seen_end = count;
    narrow(&seen, &seen_end, at.x, at.dx, in->seen_x);
    narrow(&seen, &seen_end, at.y, at.dy, in->seen_y);
    int32_t safe = seen, safe_end = seen_end;
    narrow(&safe, &safe_end, at.x, at.dx, in->safe_x);
    narrow(&safe, &safe_end, at.y, at.dy, in->safe_y);
    fill_run(out, seen, in->fill, channels);
    border_run(out + seen * channels, safe - seen, in, move(at, seen), channels, bilinear);
    if (safe < safe_end) {
        const path inside = move(at, safe);
        run(&(target){out + safe * channels, 0, safe_end - safe, 1}, in, &inside);
    }
    border_run(out + safe_end * channels, seen_end - safe_end, in, move(at, safe_end), channels, bilinear);
    fill_run(out + seen_end * channels, count - seen_end, in->fill, channels);
}

/* Far beyond any image, so that a sum of some thousand such numbers fits as well. */
#define FIXED_MAX 0x1p45

static int64_t to_fixed(double x)
{
    x *= ONE;
    return x >= FIXED_MAX ? (int64_t)FIXED_MAX : x > -FIXED_MAX ? llrint(x) : -(int64_t)FIXED_MAX;
}

static bool fits(int64_t start, int64_t step, int32_t count)
{
    const int64_t end = start + step * (count + 16); /* vectors go on to their end */
    return start > -(1 << 30) && start < 1 << 30 && end > -(1 << 30) && end < 1 << 30;
}

/* A block of output, up to BLOCK pixels wide and BLOCK_ROWS high, that starts at (x, y). */
static void warp_block(const stk__pixels *out, int32_t x, int32_t y, const source *in, const double m[6], bool bilinear,
                       run_function *run)
{
    const target to = {stk__pixel_row(out, y) + (ptrdiff_t)x * out->channels, out->stride,
                       STK_MIN(out->width - x, (int32_t)BLOCK), STK_MIN(out->height - y, (int32_t)BLOCK_ROWS)};
    const double u = x + 0.5, centre = bilinear ? 0.5 : 0;
    const int64_t dx = to_fixed(m[0]), dy = to_fixed(m[3]);
    bool direct = in->woven;
    path at[BLOCK_ROWS];
    for (int32_t i = 0; i < to.rows; i++) {
        const double v = y + i + 0.5;
        at[i] = (path){to_fixed(m[0] * u + m[1] * v + m[2] - centre), to_fixed(m[3] * u + m[4] * v + m[5] - centre), dx,
                       dy};
        direct = direct && fits(at[i].x, dx, to.count) && fits(at[i].y, dy, to.count);
    }
    if (direct)
        run(&to, in, at);
    else
        for (int32_t i = 0; i < to.rows; i++)
            warp_parts(to.data + i * to.stride, to.count, in, at[i], out->channels, bilinear, run);
}

#if defined(__x86_64__)
/* a A b B ... */
AVX2_INLINE void weave16(uint8_t *out, const uint8_t *upper, const uint8_t *lower)
{
    const __m256i a = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)upper));
    const __m256i b = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)lower));
    _mm256_storeu_si256((__m256i *)out, _mm256_or_si256(a, _mm256_slli_epi16(b, 8)));
}

STK__AVX2 static void weave(uint8_t *out, const uint8_t *upper, const uint8_t *lower, size_t size)
{
    size_t i = 0;
    for (; i + 16 <= size; i += 16)
        weave16(out + 2 * i, upper + i, lower + i);
    if (i < size && size >= 16) {
        weave16(out + 2 * (size - 16), upper + size - 16, lower + size - 16);
        return;
    }
    for (; i < size; i++) {
        out[2 * i] = upper[i];
        out[2 * i + 1] = lower[i];
    }
}

/* Bytes of the woven copy, and of one row of fill after it. */
static int64_t woven_size(const stk__pixels *in)
{
    const int64_t row = (int64_t)(in->width + 2 * PAD) * in->channels;
    return row * 2 * (in->height + 2 * PAD - 1) + row;
}

static void make_woven(source *s, uint8_t copy[COPY_MAX], const stk__pixels *in)
{
    const int channels = in->channels;
    const size_t size = (size_t)in->width * (size_t)channels, stride = 2 * (size + 2 * PAD * (size_t)channels);
    const int32_t rows = in->height + 2 * PAD - 1;
    uint8_t *const fill_row = copy + stride * (size_t)rows, *const first =
                                                                copy + PAD * stride + 2 * PAD * (size_t)channels;
    fill_run(fill_row, in->width, s->fill, channels);
    uint8_t twice[2 * STK__CHANNELS_MAX], gap[4 * PAD * STK__CHANNELS_MAX];
    weave(twice, s->fill, s->fill, (size_t)channels);
    fill_run(gap, 2 * PAD, twice, 2 * channels);
    /* What is right of one row and left of the next is one gap. */
    fill_run(copy, in->width + 3 * PAD, twice, 2 * channels);
    for (int32_t y = -1; y < in->height; y++) {
        uint8_t *const row = first + y * (ptrdiff_t)stride;
        weave(row, y < 0 ? fill_row : stk__pixel_row(in, y), y + 1 < in->height ? stk__pixel_row(in, y + 1) : fill_row,
              size);
        memcpy(row + 2 * size, gap, 4 * PAD * (size_t)channels);
    }
    fill_run(first + in->height * (ptrdiff_t)stride, in->width + PAD, twice, 2 * channels);
    s->data = first;
    s->stride = (ptrdiff_t)stride;
    s->safe_x = (range){-PAD * ONE, (int64_t)(in->width + PAD - 1) * ONE};
    s->safe_y = (range){-PAD * ONE, (int64_t)(in->height + PAD - 1) * ONE};
    s->woven = true;
}
#endif

/* Where a kernel may read without a copy. Vectors take 8 bytes for two pixels, and 4 for one or for two gray ones. */
static void set_ranges(source *s, const stk__pixels *in, bool bilinear)
{
    static const int32_t reach[2][STK__CHANNELS_MAX + 1] = {{0, 4, 2, 2, 1}, {0, 4, 3, 3, 2}};
    const int32_t margin = bilinear ? 1 : 0;
    s->seen_x = (range){-margin * ONE, (int64_t)in->width * ONE};
    s->seen_y = (range){-margin * ONE, (int64_t)in->height * ONE};
    s->safe_x = (range){0, (int64_t)(in->width - reach[bilinear][in->channels] + 1) * ONE};
    s->safe_y = (range){0, (int64_t)(in->height - margin) * ONE};
}

void stk__warp_affine(const stk__pixels *out, const stk__pixels *in, const double m[6], bool bilinear,
                      const uint8_t fill[STK__CHANNELS_MAX])
{
    source s = {in->data, in->stride, in->width, in->height};
    memcpy(s.fill, fill, (size_t)in->channels);
    set_ranges(&s, in, bilinear);
    stk__simd level = stk__simd_level();
#if defined(__x86_64__)
    uint8_t copy[COPY_MAX + SLACK];
    if (level >= STK__SIMD_AVX2 && bilinear && woven_size(in) <= COPY_MAX)
        make_woven(&s, copy, in);
#endif
    /* The offsets of vectors have 32 bits. */
    if ((s.stride < 0 ? -s.stride : s.stride) * ((ptrdiff_t)in->height + PAD) > INT32_MAX)
        level = STK__SIMD_C;
    run_function *run = choose_run(in->channels, s.woven ? WOVEN : bilinear ? LINEAR : NEAREST, level);
    for (int32_t y = 0; y < out->height; y += BLOCK_ROWS)
        for (int32_t x = 0; x < out->width; x += BLOCK)
            warp_block(out, x, y, &s, m, bilinear, run);
}
