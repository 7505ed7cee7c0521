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

/*
 * Four rows at once, for pixels of 3 and 4 bytes: each row is one chunk behind the row above it, whose pixels are then
 * known, and the fifth row follows the first without a gap. A pixel is four lanes of 16 bits, and the rows lie side by
 * side: 0 and 1 in the low half, 2 and 3 in the high one. All rows go the way of Paeth: "up" is Paeth without what is
 * left of the pixel, "sub" without what is above.
 */
#define WAVE_ROWS 4
#define WAVE_CHUNKS_MIN 4 /* the first row of the next wave needs the last row of this one */
#define AVX2_INLINE STK__AVX2 static inline __attribute__((always_inline))

/* What rows look at: ones where they do. */
typedef struct wave_masks {
    __m256i left, corner;
    __m256i above_02, above_13; /* for whole chunks of two rows */
} wave_masks;

typedef struct wave {
    uint8_t *row[WAVE_ROWS]; /* NULL: none yet, or none any more */
    size_t chunks, rest;     /* whole chunks of a row, and bytes behind them */
    wave_masks masks;
    __m256i a, c;           /* pixels before: to the left, and above that */
    __m256i out_02, out_13; /* what came out last: four pixels of each row */
} wave;

/* Ones for each row whose filter is one of `kinds`. */
AVX2_INLINE __m256i row_masks(unsigned kind_0, unsigned kind_1, unsigned kind_2, unsigned kind_3, unsigned kinds)
{
    return _mm256_setr_epi64x(-(long long)(kinds >> kind_0 & 1), -(long long)(kinds >> kind_1 & 1),
                              -(long long)(kinds >> kind_2 & 1), -(long long)(kinds >> kind_3 & 1));
}

AVX2_INLINE wave_masks masks_of(const uint8_t *rows, size_t stride)
{
    const unsigned kind_0 = rows[0], kind_1 = rows[stride], kind_2 = rows[2 * stride], kind_3 = rows[3 * stride];
    const unsigned left = 1u << FILTER_SUB | 1u << FILTER_PAETH, up = 1u << FILTER_UP | 1u << FILTER_PAETH;
    return (wave_masks){row_masks(kind_0, kind_1, kind_2, kind_3, left),
                        row_masks(kind_0, kind_1, kind_2, kind_3, 1u << FILTER_PAETH),
                        row_masks(kind_0, kind_0, kind_2, kind_2, up), row_masks(kind_1, kind_1, kind_3, kind_3, up)};
}

/* The next row with number i of its wave takes the place of the one before. */
AVX2_INLINE void wave_enter(wave *w, size_t i, uint8_t *row, const wave_masks *masks)
{
    const __m256i index = _mm256_setr_epi64x(0, 1, 2, 3), half = _mm256_setr_epi64x(0, 0, 2, 2);
    const __m256i this = _mm256_set1_epi64x((long long)i);
    const __m256i is_row = _mm256_cmpeq_epi64(index, this), is_02 = _mm256_cmpeq_epi64(half, this);
    const __m256i is_13 = _mm256_cmpeq_epi64(_mm256_add_epi64(half, _mm256_set1_epi64x(1)), this);
    w->row[i] = row;
    w->masks.left = _mm256_blendv_epi8(w->masks.left, masks->left, is_row);
    w->masks.corner = _mm256_blendv_epi8(w->masks.corner, masks->corner, is_row);
    w->masks.above_02 = _mm256_blendv_epi8(w->masks.above_02, masks->above_02, is_02);
    w->masks.above_13 = _mm256_blendv_epi8(w->masks.above_13, masks->above_13, is_13);
    w->a = _mm256_andnot_si256(is_row, w->a);
    w->c = _mm256_andnot_si256(is_row, w->c);
}

/* Chunk k of a row; zeros where there is none. */
AVX2_INLINE __m128i wave_load(const wave *w, const uint8_t *row, size_t k, size_t pixel)
{
    const size_t chunk = chunk_size(pixel);
    if (STK_LIKELY(row && k < w->chunks))
        return spread(load_chunk(row + k * chunk, pixel), pixel);
    uint8_t rest[16] = {0};
    if (row)
        memcpy(rest, row + k * chunk, w->rest);
    return spread(load_chunk(rest, pixel), pixel);
}

AVX2_INLINE void wave_store(const wave *w, uint8_t *row, size_t k, __m128i x, size_t pixel)
{
    const size_t chunk = chunk_size(pixel);
    x = unspread(x, pixel);
    if (STK_LIKELY(row && k < w->chunks)) {
        store_chunk(row + k * chunk, x, pixel);
    } else if (row) {
        uint8_t rest[16];
        store_chunk(rest, x, pixel);
        memcpy(row + k * chunk, rest, w->rest);
    }
}

AVX2_INLINE __m256i wave_pixel(wave *w, __m256i x, __m256i b)
{
    const __m256i a = w->a, c = _mm256_and_si256(w->c, w->masks.corner);
    const __m256i c3_b = _mm256_add_epi16(_mm256_add_epi16(c, c), _mm256_sub_epi16(c, b));
    const __m256i threshold = _mm256_sub_epi16(c3_b, a), low = _mm256_min_epi16(a, b), high = _mm256_max_epi16(a, b);
    const __m256i inner =
        _mm256_blendv_epi8(_mm256_add_epi8(x, low), _mm256_add_epi8(x, c), _mm256_cmpgt_epi16(high, threshold));
    const __m256i out = _mm256_blendv_epi8(_mm256_add_epi8(x, high), inner, _mm256_cmpgt_epi16(threshold, low));
    w->a = _mm256_and_si256(out, w->masks.left);
    w->c = b;
    return out;
}

AVX2_INLINE __m256i join(__m128i low, __m128i high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

/* Chunk k of row 0, and of each other row the one before that of the row above it. */
AVX2_INLINE void wave_step(wave *w, const uint8_t *above, size_t k, size_t count, size_t pixel)
{
    const __m256i zero = _mm256_setzero_si256();
    const size_t k1 = k >= 1 ? k - 1 : k + count - 1, k2 = k >= 2 ? k - 2 : k + count - 2,
                 k3 = k >= 3 ? k - 3 : k + count - 3;
    const __m128i top = wave_load(w, above, k, pixel);
    const __m256i b_02 = _mm256_and_si256(join(top, _mm256_castsi256_si128(w->out_13)), w->masks.above_02);
    const __m256i b_13 = _mm256_and_si256(w->out_02, w->masks.above_13);
    const __m256i x_02 = join(wave_load(w, w->row[0], k, pixel), wave_load(w, w->row[2], k2, pixel));
    const __m256i x_13 = join(wave_load(w, w->row[1], k1, pixel), wave_load(w, w->row[3], k3, pixel));
    const __m256i x01 = _mm256_unpacklo_epi32(x_02, x_13), x23 = _mm256_unpackhi_epi32(x_02, x_13);
    const __m256i b01 = _mm256_unpacklo_epi32(b_02, b_13), b23 = _mm256_unpackhi_epi32(b_02, b_13);
    const __m256i p0 = wave_pixel(w, _mm256_unpacklo_epi8(x01, zero), _mm256_unpacklo_epi8(b01, zero));
    const __m256i p1 = wave_pixel(w, _mm256_unpackhi_epi8(x01, zero), _mm256_unpackhi_epi8(b01, zero));
    const __m256i p2 = wave_pixel(w, _mm256_unpacklo_epi8(x23, zero), _mm256_unpacklo_epi8(b23, zero));
    const __m256i p3 = wave_pixel(w, _mm256_unpackhi_epi8(x23, zero), _mm256_unpackhi_epi8(b23, zero));
    const __m256 p01 = _mm256_castsi256_ps(_mm256_packus_epi16(p0, p1));
    const __m256 p23 = _mm256_castsi256_ps(_mm256_packus_epi16(p2, p3));
    w->out_02 = _mm256_castps_si256(_mm256_shuffle_ps(p01, p23, 0x88));
    w->out_13 = _mm256_castps_si256(_mm256_shuffle_ps(p01, p23, 0xdd));
    wave_store(w, w->row[0], k, _mm256_castsi256_si128(w->out_02), pixel);
    wave_store(w, w->row[1], k1, _mm256_castsi256_si128(w->out_13), pixel);
    wave_store(w, w->row[2], k2, _mm256_extracti128_si256(w->out_02, 1), pixel);
    wave_store(w, w->row[3], k3, _mm256_extracti128_si256(w->out_13, 1), pixel);
}

AVX2_INLINE void unfilter_waves(uint8_t *rows, size_t stride, const uint8_t *above, size_t size, size_t pixel,
                                size_t waves)
{
    const __m256i zero = _mm256_setzero_si256();
    const size_t chunk = chunk_size(pixel), count = (size + chunk - 1) / chunk;
    wave w = {.chunks = size / chunk, .rest = size % chunk, .masks = {zero, zero, zero, zero}};
    w.a = w.c = w.out_02 = w.out_13 = zero;
    for (size_t i = 0; i < waves; i++, rows += WAVE_ROWS * stride) {
        const wave_masks masks = masks_of(rows, stride);
        for (size_t k = 0; k < count; k++) {
            if (k < WAVE_ROWS)
                wave_enter(&w, k, rows + k * stride + 1, &masks);
            wave_step(&w, above, k, count, pixel);
        }
        above = rows + (WAVE_ROWS - 1) * stride + 1;
    }
    for (size_t k = 0; k < WAVE_ROWS - 1; k++) {
        w.row[k] = NULL;
        wave_step(&w, NULL, k, count, pixel);
    }
}

STK__AVX2 static void unfilter_waves_avx2(uint8_t *rows, size_t stride, const uint8_t *above, size_t size, size_t pixel,
                                          size_t waves)
{
    if (pixel == 3)
        unfilter_waves(rows, stride, above, size, 3, waves);
    else
        unfilter_waves(rows, stride, above, size, 4, waves);
}

/* Whether the next four rows can go together, and gain by it: a row of Paeth by itself takes longest. */
static bool is_wave(const uint8_t *rows, size_t stride)
{
    int paeth_rows = 0;
    for (size_t i = 0; i < WAVE_ROWS; i++) {
        const uint8_t kind = rows[i * stride];
        if (kind > FILTER_PAETH || kind == FILTER_AVERAGE)
            return false;
        paeth_rows += kind == FILTER_PAETH;
    }
    return paeth_rows >= 2;
}

/* How many times four rows go together from here on. */
static size_t count_waves(const uint8_t *rows, size_t stride, size_t size, size_t pixel, size_t count)
{
    if (stk__simd_level() < STK__SIMD_AVX2 || (pixel != 3 && pixel != 4) || size < WAVE_CHUNKS_MIN * 16)
        return 0;
    size_t waves = 0;
    while (count - waves * WAVE_ROWS >= WAVE_ROWS && is_wave(rows + waves * WAVE_ROWS * stride, stride))
        waves++;
    return waves;
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

size_t stk__unfilter_rows(uint8_t *rows, size_t stride, size_t size, size_t pixel, size_t count)
{
    const uint8_t *above = NULL;
    for (size_t i = 0; i < count; i++) {
        uint8_t *row = rows + i * stride;
#if defined(__x86_64__)
        const size_t waves = count_waves(row, stride, size, pixel, count - i);
        if (waves) {
            unfilter_waves_avx2(row, stride, above, size, pixel, waves);
            i += waves * WAVE_ROWS - 1;
            above = rows + i * stride + 1;
            continue;
        }
#endif
        if (!stk__unfilter_row(row[0], row + 1, above, size, pixel))
            return i;
        above = row + 1;
    }
    return count;
}
