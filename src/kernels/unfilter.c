/* PNG's row filters undone: plain C, and SSE4 that keeps the pixel before in a register. */
#include "kernels/unfilter.h"

#include <string.h>

#include "base/compiler.h"
#include "kernels/simd.h"

enum { FILTER_NONE, FILTER_SUB, FILTER_UP, FILTER_AVERAGE, FILTER_PAETH };

/*
 * The one of a, b and c that is nearest to a + b - c. With c between the two, it wins while 3c - a - b lies strictly
 * between them as well; else the end that is further from c wins.
 */
static inline int paeth(int a, int b, int c)
{
    const int threshold = 3 * c - a - b, low = STK_MIN(a, b), high = STK_MAX(a, b);
    const int inner = high <= threshold ? low : c;
    return threshold <= low ? high : inner;
}

static void sub_c(uint8_t *row, size_t size, size_t pixel)
{
    for (size_t i = pixel; i < size; i++)
        row[i] = (uint8_t)(row[i] + row[i - pixel]);
}

static void up_c(uint8_t *row, const uint8_t *above, size_t size)
{
    for (size_t i = 0; i < size; i++)
        row[i] = (uint8_t)(row[i] + above[i]);
}

static void average_first_row(uint8_t *row, size_t size, size_t pixel)
{
    for (size_t i = pixel; i < size; i++)
        row[i] = (uint8_t)(row[i] + row[i - pixel] / 2);
}

static void average_c(uint8_t *row, const uint8_t *above, size_t size, size_t pixel)
{
    for (size_t i = 0; i < STK_MIN(size, pixel); i++)
        row[i] = (uint8_t)(row[i] + above[i] / 2);
    for (size_t i = pixel; i < size; i++)
        row[i] = (uint8_t)(row[i] + (row[i - pixel] + above[i]) / 2);
}

static void paeth_c(uint8_t *row, const uint8_t *above, size_t size, size_t pixel)
{
    for (size_t i = 0; i < STK_MIN(size, pixel); i++)
        row[i] = (uint8_t)(row[i] + above[i]);
    for (size_t i = pixel; i < size; i++)
        row[i] = (uint8_t)(row[i] + paeth(row[i - pixel], above[i], above[i - pixel]));
}

#if defined(__x86_64__)
#include <immintrin.h>

#define SSE4_INLINE STK__SSE4 static inline __attribute__((always_inline))

/*
 * Rows are worked off in chunks of whole pixels: 16 bytes, or 12 for pixels of 3 and 6 bytes, which are spread to 4
 * and 8 bytes. What is left over goes through a buffer of one chunk.
 */
SSE4_INLINE size_t chunk_size(size_t pixel)
{
    return pixel % 3 ? 16 : 12;
}

/* Two parts for 12 bytes, so that the row below finds each part as it was stored. */
SSE4_INLINE __m128i load_chunk(const uint8_t *p, size_t pixel)
{
    if (pixel % 3)
        return _mm_loadu_si128((const __m128i *)p);
    int32_t last;
    memcpy(&last, p + 8, sizeof last);
    return _mm_insert_epi32(_mm_loadl_epi64((const __m128i *)p), last, 2);
}

SSE4_INLINE void store_chunk(uint8_t *p, __m128i x, size_t pixel)
{
    if (pixel % 3) {
        _mm_storeu_si128((__m128i *)p, x);
        return;
    }
    const int32_t last = _mm_extract_epi32(x, 2);
    _mm_storel_epi64((__m128i *)p, x);
    memcpy(p + 8, &last, sizeof last);
}

SSE4_INLINE __m128i spread(__m128i x, size_t pixel)
{
    if (pixel == 3)
        return _mm_shuffle_epi8(x, _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1));
    if (pixel == 6)
        return _mm_shuffle_epi8(x, _mm_setr_epi8(0, 1, 2, 3, 4, 5, -1, -1, 6, 7, 8, 9, 10, 11, -1, -1));
    return x;
}

SSE4_INLINE __m128i unspread(__m128i x, size_t pixel)
{
    if (pixel == 3)
        return _mm_shuffle_epi8(x, _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    if (pixel == 6)
        return _mm_shuffle_epi8(x, _mm_setr_epi8(0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, -1, -1, -1, -1));
    return x;
}

/* Bytes move up by `by`; zeros come in. */
SSE4_INLINE __m128i move_up(__m128i x, size_t by)
{
    static const uint8_t from[32] = {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
                                     0,   1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  12,  13,  14,  15};
    return _mm_shuffle_epi8(x, _mm_loadu_si128((const __m128i *)(from + 16 - by)));
}

/* The last pixel of a chunk, repeated. */
SSE4_INLINE __m128i repeat_last(__m128i x, size_t pixel)
{
    switch (pixel) {
    case 1:
        return _mm_shuffle_epi8(x, _mm_set1_epi8(15));
    case 2:
        return _mm_shuffle_epi8(x, _mm_set1_epi16(0x0f0e));
    case 3:
        return _mm_shuffle_epi8(x, _mm_setr_epi8(9, 10, 11, 9, 10, 11, 9, 10, 11, 9, 10, 11, -1, -1, -1, -1));
    case 4:
        return _mm_shuffle_epi32(x, 0xff);
    case 6:
        return _mm_shuffle_epi8(x, _mm_setr_epi8(6, 7, 8, 9, 10, 11, 6, 7, 8, 9, 10, 11, -1, -1, -1, -1));
    default:
        return _mm_shuffle_epi32(x, 0xee);
    }
}

/* Sums within the chunk in log steps, then what came before. */
SSE4_INLINE __m128i sub_chunk(__m128i x, __m128i before, size_t pixel)
{
    const size_t chunk = chunk_size(pixel);
    x = _mm_add_epi8(x, move_up(x, pixel));
    if (2 * pixel < chunk)
        x = _mm_add_epi8(x, move_up(x, 2 * pixel));
    if (4 * pixel < chunk)
        x = _mm_add_epi8(x, move_up(x, 4 * pixel));
    if (8 * pixel < chunk)
        x = _mm_add_epi8(x, move_up(x, 8 * pixel));
    return _mm_add_epi8(x, before);
}

SSE4_INLINE void sub_row(uint8_t *row, size_t size, size_t pixel)
{
    const size_t chunk = chunk_size(pixel);
    __m128i before = _mm_setzero_si128();
    for (; size >= chunk; size -= chunk, row += chunk) {
        const __m128i x = sub_chunk(load_chunk(row, pixel), before, pixel);
        store_chunk(row, x, pixel);
        before = repeat_last(x, pixel);
    }
    if (size) {
        uint8_t rest[16] = {0};
        memcpy(rest, row, size);
        store_chunk(rest, sub_chunk(load_chunk(rest, pixel), before, pixel), pixel);
        memcpy(row, rest, size);
    }
}

/*
 * pavgb rounds up, so this works on complements: ~floor((a + b) / 2) is pavgb(~a, ~b), and taking the raw byte from
 * it gives the complement of the result, ready for the next pixel. `*before` is the complement of the pixel before,
 * lowest.
 */
SSE4_INLINE __m128i average_chunk(__m128i x, __m128i above, __m128i *before, size_t pixel)
{
    const __m128i ones = _mm_set1_epi8(-1);
    x = spread(x, pixel);
    above = _mm_xor_si128(spread(above, pixel), ones);
    __m128i out;
    if (pixel <= 4) {
        const __m128i p0 = _mm_sub_epi8(_mm_avg_epu8(*before, above), x);
        const __m128i p1 = _mm_sub_epi8(_mm_avg_epu8(p0, _mm_srli_si128(above, 4)), _mm_srli_si128(x, 4));
        const __m128i p2 = _mm_sub_epi8(_mm_avg_epu8(p1, _mm_srli_si128(above, 8)), _mm_srli_si128(x, 8));
        const __m128i p3 = _mm_sub_epi8(_mm_avg_epu8(p2, _mm_srli_si128(above, 12)), _mm_srli_si128(x, 12));
        *before = p3;
        out = _mm_unpacklo_epi64(_mm_unpacklo_epi32(p0, p1), _mm_unpacklo_epi32(p2, p3));
    } else {
        const __m128i p0 = _mm_sub_epi8(_mm_avg_epu8(*before, above), x);
        const __m128i p1 = _mm_sub_epi8(_mm_avg_epu8(p0, _mm_srli_si128(above, 8)), _mm_srli_si128(x, 8));
        *before = p1;
        out = _mm_unpacklo_epi64(p0, p1);
    }
    return unspread(_mm_xor_si128(out, ones), pixel);
}

SSE4_INLINE void average_row(uint8_t *row, const uint8_t *above, size_t size, size_t pixel)
{
    const size_t chunk = chunk_size(pixel);
    __m128i before = _mm_set1_epi8(-1);
    for (; size >= chunk; size -= chunk, row += chunk, above += chunk)
        store_chunk(row, average_chunk(load_chunk(row, pixel), load_chunk(above, pixel), &before, pixel), pixel);
    if (size) {
        uint8_t rest[16] = {0}, rest_above[16] = {0};
        memcpy(rest, row, size);
        memcpy(rest_above, above, size);
        store_chunk(rest, average_chunk(load_chunk(rest, pixel), load_chunk(rest_above, pixel), &before, pixel), pixel);
        memcpy(row, rest, size);
    }
}

/* One pixel in 16-bit lanes, all below 256. The raw byte x is added to each candidate early: the chain from a to the
   result is four instructions long. `c3_b` is 3c - b, `x_c` is x + c. */
SSE4_INLINE __m128i paeth_pixel(__m128i a, __m128i b, __m128i c3_b, __m128i x, __m128i x_c)
{
    const __m128i threshold = _mm_sub_epi16(c3_b, a), low = _mm_min_epi16(a, b), high = _mm_max_epi16(a, b);
    const __m128i inner = _mm_blendv_epi8(_mm_add_epi8(x, low), x_c, _mm_cmpgt_epi16(high, threshold));
    return _mm_blendv_epi8(_mm_add_epi8(x, high), inner, _mm_cmpgt_epi16(threshold, low));
}

/* `*a` and `*c` are the pixels before, in the low lanes; the high ones may hold anything for small pixels. */
SSE4_INLINE __m128i paeth_chunk(__m128i raw, __m128i above, __m128i *a, __m128i *c, size_t pixel)
{
    const __m128i zero = _mm_setzero_si128();
    raw = spread(raw, pixel);
    above = spread(above, pixel);
    const __m128i x0 = _mm_unpacklo_epi8(raw, zero), x1 = _mm_unpackhi_epi8(raw, zero);
    const __m128i b0 = _mm_unpacklo_epi8(above, zero), b1 = _mm_unpackhi_epi8(above, zero);
    const __m128i c0 = pixel <= 4 ? _mm_unpacklo_epi64(*c, b0) : *c;
    const __m128i c1 = pixel <= 4 ? _mm_alignr_epi8(b1, b0, 8) : b0;
    const __m128i t0 = _mm_sub_epi16(_mm_add_epi16(_mm_add_epi16(c0, c0), c0), b0);
    const __m128i t1 = _mm_sub_epi16(_mm_add_epi16(_mm_add_epi16(c1, c1), c1), b1);
    const __m128i xc0 = _mm_add_epi8(x0, c0), xc1 = _mm_add_epi8(x1, c1);
    if (pixel > 4) {
        const __m128i p0 = paeth_pixel(*a, b0, t0, x0, xc0);
        *a = paeth_pixel(p0, b1, t1, x1, xc1);
        *c = b1;
        return unspread(_mm_packus_epi16(p0, *a), pixel);
    }
    const __m128i p0 = paeth_pixel(*a, b0, t0, x0, xc0);
    const __m128i p1 =
        paeth_pixel(p0, _mm_srli_si128(b0, 8), _mm_srli_si128(t0, 8), _mm_srli_si128(x0, 8), _mm_srli_si128(xc0, 8));
    const __m128i p2 = paeth_pixel(p1, b1, t1, x1, xc1);
    *a = paeth_pixel(p2, _mm_srli_si128(b1, 8), _mm_srli_si128(t1, 8), _mm_srli_si128(x1, 8), _mm_srli_si128(xc1, 8));
    *c = _mm_srli_si128(b1, 8);
    return unspread(_mm_packus_epi16(_mm_unpacklo_epi64(p0, p1), _mm_unpacklo_epi64(p2, *a)), pixel);
}

SSE4_INLINE void paeth_row(uint8_t *row, const uint8_t *above, size_t size, size_t pixel)
{
    const size_t chunk = chunk_size(pixel);
    __m128i a = _mm_setzero_si128(), c = a;
    for (; size >= chunk; size -= chunk, row += chunk, above += chunk)
        store_chunk(row, paeth_chunk(load_chunk(row, pixel), load_chunk(above, pixel), &a, &c, pixel), pixel);
    if (size) {
        uint8_t rest[16] = {0}, rest_above[16] = {0};
        memcpy(rest, row, size);
        memcpy(rest_above, above, size);
        store_chunk(rest, paeth_chunk(load_chunk(rest, pixel), load_chunk(rest_above, pixel), &a, &c, pixel), pixel);
        memcpy(row, rest, size);
    }
}

SSE4_INLINE void up_row(uint8_t *row, const uint8_t *above, size_t size)
{
    size_t i = 0;
    for (; i + 16 <= size; i += 16) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(row + i)),
                      b = _mm_loadu_si128((const __m128i *)(above + i));
        _mm_storeu_si128((__m128i *)(row + i), _mm_add_epi8(x, b));
    }
    up_c(row + i, above + i, size - i);
}

SSE4_INLINE void sub_row_any(uint8_t *row, size_t size, size_t pixel)
{
    switch (pixel) {
    case 1:
        sub_row(row, size, 1);
        break;
    case 2:
        sub_row(row, size, 2);
        break;
    case 3:
        sub_row(row, size, 3);
        break;
    case 4:
        sub_row(row, size, 4);
        break;
    case 6:
        sub_row(row, size, 6);
        break;
    case 8:
        sub_row(row, size, 8);
        break;
    default:
        sub_c(row, size, pixel);
    }
}

SSE4_INLINE void average_row_any(uint8_t *row, const uint8_t *above, size_t size, size_t pixel)
{
    switch (pixel) {
    case 3:
        average_row(row, above, size, 3);
        break;
    case 4:
        average_row(row, above, size, 4);
        break;
    case 6:
        average_row(row, above, size, 6);
        break;
    case 8:
        average_row(row, above, size, 8);
        break;
    default:
        average_c(row, above, size, pixel);
    }
}

SSE4_INLINE void paeth_row_any(uint8_t *row, const uint8_t *above, size_t size, size_t pixel)
{
    switch (pixel) {
    case 3:
        paeth_row(row, above, size, 3);
        break;
    case 4:
        paeth_row(row, above, size, 4);
        break;
    case 6:
        paeth_row(row, above, size, 6);
        break;
    case 8:
        paeth_row(row, above, size, 8);
        break;
    default:
        paeth_c(row, above, size, pixel);
    }
}

SSE4_INLINE void unfilter_inline(int kind, uint8_t *row, const uint8_t *above, size_t size, size_t pixel)
{
    switch (kind) {
    case FILTER_SUB:
        sub_row_any(row, size, pixel);
        break;
    case FILTER_UP:
        up_row(row, above, size);
        break;
    case FILTER_AVERAGE:
        average_row_any(row, above, size, pixel);
        break;
    default:
        paeth_row_any(row, above, size, pixel);
    }
}

STK__SSE4 static void unfilter_sse4(int kind, uint8_t *row, const uint8_t *above, size_t size, size_t pixel)
{
    unfilter_inline(kind, row, above, size, pixel);
}

/* The same instructions with three operands: fewer copies. */
STK__AVX2 static void unfilter_avx2(int kind, uint8_t *row, const uint8_t *above, size_t size, size_t pixel)
{
    unfilter_inline(kind, row, above, size, pixel);
}
#endif

static void unfilter_c(int kind, uint8_t *row, const uint8_t *above, size_t size, size_t pixel)
{
    switch (kind) {
    case FILTER_SUB:
        sub_c(row, size, pixel);
        break;
    case FILTER_UP:
        up_c(row, above, size);
        break;
    case FILTER_AVERAGE:
        average_c(row, above, size, pixel);
        break;
    default:
        paeth_c(row, above, size, pixel);
    }
}

bool stk__unfilter_row(int kind, uint8_t *row, const uint8_t *above, size_t size, size_t pixel)
{
    if (kind == FILTER_NONE)
        return true;
    if (kind < FILTER_NONE || kind > FILTER_PAETH)
        return false;
    if (!above) {
        /* Over zeros, "up" adds nothing and Paeth's choice is the pixel before. */
        if (kind == FILTER_UP)
            return true;
        if (kind == FILTER_AVERAGE) {
            average_first_row(row, size, pixel);
            return true;
        }
        kind = FILTER_SUB;
    }
#if defined(__x86_64__)
    const stk__simd level = stk__simd_level();
    if (level >= STK__SIMD_AVX2)
        unfilter_avx2(kind, row, above, size, pixel);
    else if (level == STK__SIMD_SSE4)
        unfilter_sse4(kind, row, above, size, pixel);
    else
        unfilter_c(kind, row, above, size, pixel);
#else
    unfilter_c(kind, row, above, size, pixel);
#endif
    return true;
}
