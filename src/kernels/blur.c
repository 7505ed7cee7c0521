/* Blurs of uint8 images in fixed point: plain C and AVX2 with the same bytes. */
#include "kernels/blur.h"

#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "kernels/simd.h"

/*
 * Weights sum up to 1 << 15. Rows are blurred first, into words with 7 bits behind the point, which wait in a ring
 * until all that a row of output needs is there. A row of input is read before any row of output that stands in its
 * place is written, so the work may be done in place.
 */
enum { WEIGHT_BITS = 15, POINT_BITS = 7, ALIGN = 64 };
enum { RADIUS_MAX = STK__BLUR_SIZE_MAX / 2 };

static size_t align_up(size_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static int32_t ring_rows(int32_t height, int32_t radius)
{
    return STK_MIN(height, 2 * radius + 1);
}

size_t stk__blur_scratch(int32_t width, int32_t height, int32_t channels, int32_t size)
{
    const size_t row = (size_t)width * (size_t)channels, border = (size_t)(size / 2) * (size_t)channels;
    return ALIGN + align_up(row + 2 * border) + align_up(row * sizeof(uint16_t)) * (size_t)ring_rows(height, size / 2);
}

/* weights[k] is for distance k. Rounded sums from the outside inwards, so that errors do not add up. False if only the
   middle counts. */
static bool set_weights(int16_t weights[RADIUS_MAX + 2], int32_t radius, double sigma)
{
    double raw[RADIUS_MAX + 1], total = 0;
    for (int32_t k = radius; k >= 0; k--) {
        const double x = k / sigma;
        raw[k] = exp(-0.5 * x * x);
        total += k ? 2 * raw[k] : raw[k];
    }
    double sum = 0;
    int32_t used = 0;
    for (int32_t k = radius; k > 0; k--) {
        sum += raw[k] / total * (1 << WEIGHT_BITS);
        weights[k] = (int16_t)((int32_t)floor(sum + 0.5) - used);
        used += weights[k];
    }
    if (!used)
        return false;
    weights[0] = (int16_t)((1 << WEIGHT_BITS) - 2 * used);
    weights[radius + 1] = 0; /* for the half of a pair that is missing */
    return true;
}

/* `row` starts `radius` pixels before the first one. */
static void across_c(uint16_t *out, const uint8_t *row, size_t size, size_t step, const int16_t *weights,
                     int32_t radius)
{
    const uint8_t *const middle = row + (size_t)radius * step;
    for (size_t i = 0; i < size; i++) {
        int32_t sum = weights[0] * middle[i] + (1 << (WEIGHT_BITS - POINT_BITS - 1));
        for (int32_t k = 1; k <= radius; k++)
            sum += weights[k] * (row[i + (size_t)(radius - k) * step] + row[i + (size_t)(radius + k) * step]);
        out[i] = (uint16_t)(sum >> (WEIGHT_BITS - POINT_BITS));
    }
}

/* rows[0] to rows[2 * radius]. */
static void down_c(uint8_t *out, const uint16_t *const *rows, size_t size, const int16_t *weights, int32_t radius)
{
    for (size_t i = 0; i < size; i++) {
        int32_t sum = weights[0] * rows[radius][i] + (1 << (WEIGHT_BITS + POINT_BITS - 1));
        for (int32_t k = 1; k <= radius; k++)
            sum += weights[k] * (rows[radius - k][i] + rows[radius + k][i]);
        out[i] = (uint8_t)(sum >> (WEIGHT_BITS + POINT_BITS));
    }
}

/* Sums of 13 parts: (sum + 6) / 13 is Pillow's rounding, as no sum lies half way. */
static void smooth_c(uint8_t *out, const uint8_t *const rows[3], size_t from, size_t to, size_t step)
{
    for (size_t i = from; i < to; i++) {
        int32_t sum = 4 * rows[1][i];
        for (int k = 0; k < 3; k++)
            sum += rows[k][i - step] + rows[k][i] + rows[k][i + step];
        out[i] = (uint8_t)((sum + 6) / 13);
    }
}

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2_INLINE STK__AVX2 static inline __attribute__((always_inline))

/* Sums of sixteen elements in 32 bits, in the order in which unpack leaves them and pack takes them. */
typedef struct sums16 {
    __m256i low, high;
} sums16;

/* Adds a * w + b * v, where `weights` is the pair of words (w, v). */
AVX2_INLINE void add_pair(sums16 *sums, __m256i a, __m256i b, __m256i weights)
{
    sums->low = _mm256_add_epi32(sums->low, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), weights));
    sums->high = _mm256_add_epi32(sums->high, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), weights));
}

AVX2_INLINE __m256i weight_pair(int16_t first, int16_t second)
{
    return _mm256_set1_epi32((int32_t)((uint32_t)(uint16_t)second << 16 | (uint16_t)first));
}

AVX2_INLINE __m256i load_bytes(const uint8_t *p)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
}

AVX2_INLINE __m256i load_words(const uint16_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

AVX2_INLINE void store_bytes(uint8_t *p, __m256i words)
{
    const __m128i x = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((__m128i *)p, x);
}

AVX2_INLINE void across16(uint16_t *out, const uint8_t *middle, size_t step, const int16_t *weights, int32_t radius)
{
    const __m256i half = _mm256_set1_epi32(1 << (WEIGHT_BITS - POINT_BITS - 1));
    sums16 sums = {half, half};
    __m256i before = load_bytes(middle);
    for (int32_t k = 0; k <= radius; k += 2) {
        __m256i after = _mm256_setzero_si256();
        if (k) {
            const size_t at = (size_t)k * step;
            before = _mm256_add_epi16(load_bytes(middle - at), load_bytes(middle + at));
        }
        if (k < radius) {
            const size_t at = (size_t)(k + 1) * step;
            after = _mm256_add_epi16(load_bytes(middle - at), load_bytes(middle + at));
        }
        add_pair(&sums, before, after, weight_pair(weights[k], weights[k + 1]));
    }
    const __m256i low = _mm256_srli_epi32(sums.low, WEIGHT_BITS - POINT_BITS);
    const __m256i high = _mm256_srli_epi32(sums.high, WEIGHT_BITS - POINT_BITS);
    _mm256_storeu_si256((__m256i *)out, _mm256_packus_epi32(low, high));
}

STK__AVX2 static void across_avx2(uint16_t *out, const uint8_t *row, size_t size, size_t step, const int16_t *weights,
                                  int32_t radius)
{
    const uint8_t *const middle = row + (size_t)radius * step;
    size_t i = 0;
    for (; i + 16 <= size; i += 16)
        across16(out + i, middle + i, step, weights, radius);
    if (i < size)
        across16(out + size - 16, middle + size - 16, step, weights, radius);
}

AVX2_INLINE void down16(uint8_t *out, const uint16_t *const *rows, size_t i, const int16_t *weights, int32_t radius)
{
    const __m256i half = _mm256_set1_epi32(1 << (WEIGHT_BITS + POINT_BITS - 1));
    sums16 sums = {half, half};
    add_pair(&sums, load_words(rows[radius] + i), _mm256_setzero_si256(), weight_pair(weights[0], 0));
    for (int32_t k = 1; k <= radius; k++)
        add_pair(&sums, load_words(rows[radius - k] + i), load_words(rows[radius + k] + i),
                 weight_pair(weights[k], weights[k]));
    const __m256i low = _mm256_srli_epi32(sums.low, WEIGHT_BITS + POINT_BITS);
    const __m256i high = _mm256_srli_epi32(sums.high, WEIGHT_BITS + POINT_BITS);
    store_bytes(out + i, _mm256_packus_epi32(low, high));
}

STK__AVX2 static void down_avx2(uint8_t *out, const uint16_t *const *rows, size_t size, const int16_t *weights,
                                int32_t radius)
{
    size_t i = 0;
    for (; i + 16 <= size; i += 16)
        down16(out, rows, i, weights, radius);
    if (i < size)
        down16(out, rows, size - 16, weights, radius);
}

AVX2_INLINE __m256i column_sum(const uint8_t *const rows[3], size_t i)
{
    return _mm256_add_epi16(_mm256_add_epi16(load_bytes(rows[0] + i), load_bytes(rows[1] + i)),
                            load_bytes(rows[2] + i));
}

AVX2_INLINE void smooth16(uint8_t *out, const uint8_t *const rows[3], size_t i, size_t step)
{
    const __m256i sides = _mm256_add_epi16(column_sum(rows, i - step), column_sum(rows, i + step));
    const __m256i middle = _mm256_add_epi16(column_sum(rows, i), _mm256_slli_epi16(load_bytes(rows[1] + i), 2));
    const __m256i sum = _mm256_add_epi16(_mm256_add_epi16(sides, middle), _mm256_set1_epi16(6));
    /* 5042 / 65536 is 1 / 13 and a little: exact for all sums up to 13 * 255 + 6. */
    store_bytes(out + i, _mm256_mulhi_epu16(sum, _mm256_set1_epi16(5042)));
}

STK__AVX2 static void smooth_avx2(uint8_t *out, const uint8_t *const rows[3], size_t from, size_t to, size_t step)
{
    size_t i = from;
    for (; i + 16 <= to; i += 16)
        smooth16(out, rows, i, step);
    if (i < to)
        smooth16(out, rows, to - 16, step);
}

/* Vectors need 16 elements; the last ones may be done twice. */
static bool with_avx2(size_t size)
{
    return size >= 16 && stk__simd_level() >= STK__SIMD_AVX2;
}
#endif

static void blur_across(uint16_t *out, const uint8_t *row, size_t size, size_t step, const int16_t *weights,
                        int32_t radius)
{
#if defined(__x86_64__)
    if (with_avx2(size)) {
        across_avx2(out, row, size, step, weights, radius);
        return;
    }
#endif
    across_c(out, row, size, step, weights, radius);
}

static void blur_down(uint8_t *out, const uint16_t *const *rows, size_t size, const int16_t *weights, int32_t radius)
{
#if defined(__x86_64__)
    if (with_avx2(size)) {
        down_avx2(out, rows, size, weights, radius);
        return;
    }
#endif
    down_c(out, rows, size, weights, radius);
}

/* A row with `radius` reflected pixels on each side. */
static void pad_row(uint8_t *padded, const uint8_t *row, int32_t width, size_t step, int32_t radius)
{
    memcpy(padded + (size_t)radius * step, row, (size_t)width * step);
    for (int32_t k = 1; k <= radius; k++) {
        const int32_t left = stk__border_at(STK__BORDER_REFLECT, -k, width);
        const int32_t right = stk__border_at(STK__BORDER_REFLECT, width - 1 + k, width);
        memcpy(padded + (size_t)(radius - k) * step, row + (size_t)left * step, step);
        memcpy(padded + (size_t)(radius + width - 1 + k) * step, row + (size_t)right * step, step);
    }
}

static void copy_rows(const stk__pixels *out, const stk__pixels *in)
{
    for (int32_t y = 0; y < in->height && out->data != in->data; y++)
        memcpy(stk__pixel_row(out, y), stk__pixel_row(in, y), (size_t)in->width * (size_t)in->channels);
}

void stk__blur_gauss(const stk__pixels *out, const stk__pixels *in, int32_t size, double sigma, void *scratch)
{
    const int32_t radius = STK_MIN(size / 2, (int32_t)RADIUS_MAX), height = in->height;
    int16_t weights[RADIUS_MAX + 2];
    if (radius < 1 || !(sigma > 0) || in->width < 1 || !set_weights(weights, radius, sigma)) {
        copy_rows(out, in);
        return;
    }
    const size_t step = (size_t)in->channels, row = (size_t)in->width * step;
    const size_t ring_stride = align_up(row * sizeof(uint16_t));
    uint8_t *const ring = (uint8_t *)align_up((uintptr_t)scratch);
    const int32_t kept = ring_rows(height, radius);
    uint8_t *const padded = ring + ring_stride * (size_t)kept;
    int32_t ready = 0;
    for (int32_t y = 0; y < height; y++) {
        for (; ready < height && ready <= y + radius; ready++) {
            pad_row(padded, stk__pixel_row(in, ready), in->width, step, radius);
            blur_across((uint16_t *)(void *)(ring + ring_stride * (size_t)(ready % kept)), padded, row, step, weights,
                        radius);
        }
        const uint16_t *rows[2 * RADIUS_MAX + 1];
        for (int32_t k = 0; k <= 2 * radius; k++) {
            const int32_t from = stk__border_at(STK__BORDER_REFLECT, y + k - radius, height);
            rows[k] = (const uint16_t *)(const void *)(ring + ring_stride * (size_t)(from % kept));
        }
        blur_down(stk__pixel_row(out, y), rows, row, weights, radius);
    }
}

void stk__blur_smooth(const stk__pixels *out, const stk__pixels *in)
{
    const size_t step = (size_t)in->channels, size = (size_t)in->width * step;
    for (int32_t y = 0; y < in->height; y++) {
        uint8_t *const to = stk__pixel_row(out, y);
        const uint8_t *const from = stk__pixel_row(in, y);
        if (y == 0 || y == in->height - 1 || in->width < 3) {
            memcpy(to, from, size);
            continue;
        }
        const uint8_t *const rows[3] = {stk__pixel_row(in, y - 1), from, stk__pixel_row(in, y + 1)};
        memcpy(to, from, step);
        memcpy(to + size - step, from + size - step, step);
#if defined(__x86_64__)
        if (with_avx2(size - 2 * step)) {
            smooth_avx2(to, rows, step, size - step, step);
            continue;
        }
#endif
        smooth_c(to, rows, step, size - step, step);
    }
}
