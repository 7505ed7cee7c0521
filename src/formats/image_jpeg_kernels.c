/* From JPEG coefficients to pixels, in plain C, with SSE4, with AVX2, and a little with AVX-512. */
#include "formats/image_jpeg_kernels.h"

#include <string.h>

#include "base/compiler.h"

/* Before loops over vectors, which must become registers. */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* ---- plain C: what the vectors must give, wrap and saturation included ---- */

static int16_t saturate16(int32_t x)
{
    return (int16_t)(x > INT16_MAX ? INT16_MAX : x < INT16_MIN ? INT16_MIN : x);
}

static uint8_t to_sample(int32_t x)
{
    return (uint8_t)(x > 127 ? 255 : x < -128 ? 0 : x + 128);
}

static uint8_t to_byte(int32_t x)
{
    return (uint8_t)(x > 255 ? 255 : x < 0 ? 0 : x);
}

/* a * x + b * y of 16-bit numbers; sums wrap as in vectors. */
static uint32_t madd(int16_t x, int16_t y, int32_t a, int32_t b)
{
    return (uint32_t)(x * a) + (uint32_t)(y * b);
}

static int32_t descale(uint32_t x, int bits)
{
    return (int32_t)(x + (1u << (bits - 1))) >> bits;
}

/* One line of 8, `step` apart. See image_jpeg_idct8.inc for the method. */
static void idct8_line(const int16_t in[8], int32_t out[8], int bits)
{
    const int16_t z3 = (int16_t)(in[7] + in[3]), z4 = (int16_t)(in[5] + in[1]);
    const uint32_t t0 = (uint32_t)(int16_t)(in[0] + in[4]) << 13, t1 = (uint32_t)(int16_t)(in[0] - in[4]) << 13;
    const uint32_t t2 = madd(in[2], in[6], 4433, -10704), t3 = madd(in[2], in[6], 10703, 4433);
    const uint32_t y3 = madd(z3, z4, -6436, 9633), y4 = madd(z3, z4, 9633, 6437);
    const uint32_t even[4] = {t0 + t3, t1 + t2, t1 - t2, t0 - t3};
    const uint32_t odd[4] = {
        madd(in[7], in[1], -7373, 4926) + y4,
        madd(in[5], in[3], -20995, 4177) + y3,
        madd(in[5], in[3], -4176, -20995) + y4,
        madd(in[7], in[1], -4927, -7373) + y3,
    };
    for (int i = 0; i < 4; i++) {
        out[i] = descale(even[i] + odd[i], bits);
        out[7 - i] = descale(even[i] - odd[i], bits);
    }
}

static void idct8_c(const stk__jpeg_block *blocks, int count)
{
    for (; count > 0; count--, blocks++) {
        int16_t between[64];
        for (int x = 0; x < 8; x++) {
            int16_t in[8];
            int32_t out[8];
            for (int y = 0; y < 8; y++)
                in[y] = (int16_t)(blocks->coefficients[8 * y + x] * blocks->factors[8 * y + x]);
            idct8_line(in, out, 11);
            for (int y = 0; y < 8; y++)
                between[8 * y + x] = saturate16(out[y]);
        }
        for (int y = 0; y < 8; y++) {
            int32_t out[8];
            idct8_line(between + 8 * y, out, 18);
            for (int x = 0; x < 8; x++)
                blocks->out[y * blocks->stride + x] = to_sample(out[x]);
        }
    }
}

/*
 * One line of 4. The mean of each two samples of 8 is an inverse DCT of 4, with frequency u weighted by cos(u pi /
 * 16): what a picture has that is decoded and then made half as large. (It would take a little of the frequencies
 * above 4, too.)
 */
static void idct4_line(const int16_t in[4], int32_t out[4], int bits)
{
    const uint32_t e0 = madd(in[0], in[2], 8192, 7568), e1 = madd(in[0], in[2], 8192, -7568);
    const uint32_t o0 = madd(in[1], in[3], 10498, 3686), o1 = madd(in[1], in[3], 4348, -8900);
    out[0] = descale(e0 + o0, bits);
    out[1] = descale(e1 + o1, bits);
    out[2] = descale(e1 - o1, bits);
    out[3] = descale(e0 - o0, bits);
}

static void idct4_c(const stk__jpeg_block *blocks, int count)
{
    for (; count > 0; count--, blocks++) {
        int16_t between[16];
        int32_t out[4];
        for (int x = 0; x < 4; x++) {
            int16_t in[4];
            for (int y = 0; y < 4; y++)
                in[y] = (int16_t)(blocks->coefficients[8 * y + x] * blocks->factors[8 * y + x]);
            idct4_line(in, out, 11);
            for (int y = 0; y < 4; y++)
                between[4 * y + x] = saturate16(out[y]);
        }
        for (int y = 0; y < 4; y++) {
            idct4_line(between + 4 * y, out, 18);
            for (int x = 0; x < 4; x++)
                blocks->out[y * blocks->stride + x] = to_sample(out[x]);
        }
    }
}

static int32_t dequantized(const stk__jpeg_block *block, int i)
{
    return block->coefficients[i] * block->factors[i];
}

/* The mean of each four samples: frequency 1 is weighted by cos(pi / 16) cos(pi / 8), here with 10 bits of fraction. */
void stk__jpeg_idct2(const stk__jpeg_block *block)
{
    const int32_t a = dequantized(block, 0) * 1024 + 4096, b = dequantized(block, 1) * 928;
    const int32_t c = dequantized(block, 8) * 928, d = dequantized(block, 9) * 841;
    block->out[0] = to_sample((a + b + c + d) >> 13);
    block->out[1] = to_sample((a - b + c - d) >> 13);
    block->out[block->stride] = to_sample((a + b - c - d) >> 13);
    block->out[block->stride + 1] = to_sample((a - b - c + d) >> 13);
}

void stk__jpeg_idct1(const stk__jpeg_block *block)
{
    block->out[0] = to_sample((dequantized(block, 0) + 4) >> 3);
}

void stk__jpeg_fill(const stk__jpeg_block *block, int size)
{
    const uint8_t sample = to_sample(((int16_t)dequantized(block, 0) + 4) >> 3);
    for (int y = 0; y < size; y++)
        memset(block->out + y * block->stride, sample, (size_t)size);
}

static void widen_c(uint8_t *out, const uint8_t *in, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        out[2 * i] = (uint8_t)((3 * in[i] + in[i - 1] + 1) >> 2);
        out[2 * i + 1] = (uint8_t)((3 * in[i] + in[i + 1] + 2) >> 2);
    }
}

static void widen_between_c(uint8_t *out, const uint8_t *near, const uint8_t *far, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        const int before = 3 * near[i - 1] + far[i - 1], here = 3 * near[i] + far[i],
                  after = 3 * near[i + 1] + far[i + 1];
        out[2 * i] = (uint8_t)((3 * here + before + 8) >> 4);
        out[2 * i + 1] = (uint8_t)((3 * here + after + 7) >> 4);
    }
}

/* The factors of JFIF with 16 bits of fraction, as libjpeg rounds them. */
static void rgb_c(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int32_t count, int channels)
{
    for (int32_t i = 0; i < count; i++, out += channels) {
        const int32_t b = cb[i] - 128, r = cr[i] - 128;
        out[0] = to_byte(y[i] + ((91881 * r + 32768) >> 16));
        out[1] = to_byte(y[i] + ((-22554 * b - 46802 * r + 32768) >> 16));
        out[2] = to_byte(y[i] + ((116130 * b + 32768) >> 16));
        if (channels == 4)
            out[3] = 255;
    }
}

#if defined(__x86_64__)
#include <immintrin.h>

/* Two 16-bit factors in one 32-bit number, for madd. */
#define FACTORS(a, b) ((int)((uint32_t)(uint16_t)(a) | (uint32_t)(uint16_t)(b) << 16))

/* ---- 8 x 8: one template, two widths ---- */

#define LOAD_128(lane, member, row) _mm_load_si128((const __m128i *)((lane)->member + 8 * (row)))

STK__SSE4 static inline void store_rows(const stk__jpeg_block *block, __m128i rows, int y)
{
    _mm_storel_epi64((__m128i *)(block->out + y * block->stride), rows);
    _mm_storel_epi64((__m128i *)(block->out + (y + 1) * block->stride), _mm_unpackhi_epi64(rows, rows));
}

#define VECTOR __m128i
#define WIDE(op) _mm_##op
#define ZERO_VECTOR _mm_setzero_si128()
#define BLOCKS 1
#define LOAD_ROW(lane, member, row) LOAD_128((lane)[0], member, row)
#define STORE_ROWS(lane, rows, y) store_rows((lane)[0], rows, y)
#define IDCT8_NAME idct8_sse4
#define IDCT8_TARGET STK__SSE4
#include "formats/image_jpeg_idct8.inc"
#undef VECTOR
#undef WIDE
#undef ZERO_VECTOR
#undef BLOCKS
#undef LOAD_ROW
#undef STORE_ROWS
#undef IDCT8_NAME
#undef IDCT8_TARGET

STK__AVX2 static inline void store_row_pairs(const stk__jpeg_block *const lane[2], __m256i rows, int y)
{
    const __m128i parts[2] = {_mm256_castsi256_si128(rows), _mm256_extracti128_si256(rows, 1)};
    UNROLL for (int i = 0; i < 2; i++)
    {
        _mm_storel_epi64((__m128i *)(lane[i]->out + y * lane[i]->stride), parts[i]);
        _mm_storeh_pd((double *)(lane[i]->out + (y + 1) * lane[i]->stride), _mm_castsi128_pd(parts[i]));
    }
}

#define VECTOR __m256i
#define WIDE(op) _mm256_##op
#define ZERO_VECTOR _mm256_setzero_si256()
#define BLOCKS 2
#define LOAD_ROW(lane, member, row)                                                   \
    _mm256_inserti128_si256(_mm256_castsi128_si256(LOAD_128((lane)[0], member, row)), \
                            LOAD_128((lane)[1], member, row), 1)
#define STORE_ROWS(lane, rows, y) store_row_pairs(lane, rows, y)
#define IDCT8_NAME idct8_avx2
#define IDCT8_TARGET STK__AVX2
#include "formats/image_jpeg_idct8.inc"

/* ---- 4 x 4: two blocks side by side in 128 bits ---- */

STK__SSE4 static inline __m128i load_row4(const int16_t *a, const int16_t *b, int row)
{
    return _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)(a + 8 * row)),
                              _mm_loadl_epi64((const __m128i *)(b + 8 * row)));
}

/* Four outputs of the line whose pairs of (0, 2) and (1, 3) are given. */
STK__SSE4 static inline void idct4_sums(__m128i p02, __m128i p13, int bits, __m128i out[4])
{
    const __m128i round = _mm_set1_epi32(1 << (bits - 1));
    const __m128i e0 = _mm_add_epi32(_mm_madd_epi16(p02, _mm_set1_epi32(FACTORS(8192, 7568))), round);
    const __m128i e1 = _mm_add_epi32(_mm_madd_epi16(p02, _mm_set1_epi32(FACTORS(8192, -7568))), round);
    const __m128i o0 = _mm_madd_epi16(p13, _mm_set1_epi32(FACTORS(10498, 3686)));
    const __m128i o1 = _mm_madd_epi16(p13, _mm_set1_epi32(FACTORS(4348, -8900)));
    out[0] = _mm_srai_epi32(_mm_add_epi32(e0, o0), bits);
    out[1] = _mm_srai_epi32(_mm_add_epi32(e1, o1), bits);
    out[2] = _mm_srai_epi32(_mm_sub_epi32(e1, o1), bits);
    out[3] = _mm_srai_epi32(_mm_sub_epi32(e0, o0), bits);
}

/* The second pass and the store of one block: `rows` of (0, 1) and (2, 3) are interleaved. */
STK__SSE4 static inline void idct4_finish(const stk__jpeg_block *block, __m128i r01, __m128i r23)
{
    const __m128i c01 = _mm_unpacklo_epi32(r01, r23), c23 = _mm_unpackhi_epi32(r01, r23);
    __m128i out[4];
    idct4_sums(_mm_unpacklo_epi16(c01, c23), _mm_unpackhi_epi16(c01, c23), 18, out);
    __m128i all = _mm_packs_epi16(_mm_packs_epi32(out[0], out[1]), _mm_packs_epi32(out[2], out[3]));
    all = _mm_shuffle_epi8(all, _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    all = _mm_add_epi8(all, _mm_set1_epi8((char)128));
    uint32_t rows[4];
    _mm_storeu_si128((__m128i *)rows, all);
    UNROLL for (int y = 0; y < 4; y++) memcpy(block->out + y * block->stride, &rows[y], 4);
}

STK__SSE4 static void idct4_sse4(const stk__jpeg_block *blocks, int count)
{
    for (int at = 0; at < count; at += 2) {
        const stk__jpeg_block *a = &blocks[at], *b = &blocks[STK_MIN(at + 1, count - 1)];
        __m128i v[4], lo[4], hi[4];
        UNROLL for (int i = 0; i < 4; i++) v[i] =
            _mm_mullo_epi16(load_row4(a->coefficients, b->coefficients, i), load_row4(a->factors, b->factors, i));
        idct4_sums(_mm_unpacklo_epi16(v[0], v[2]), _mm_unpacklo_epi16(v[1], v[3]), 11, lo);
        idct4_sums(_mm_unpackhi_epi16(v[0], v[2]), _mm_unpackhi_epi16(v[1], v[3]), 11, hi);
        UNROLL for (int i = 0; i < 4; i++) v[i] = _mm_packs_epi32(lo[i], hi[i]);
        idct4_finish(a, _mm_unpacklo_epi16(v[0], v[1]), _mm_unpacklo_epi16(v[2], v[3]));
        idct4_finish(b, _mm_unpackhi_epi16(v[0], v[1]), _mm_unpackhi_epi16(v[2], v[3]));
    }
}

/* ---- rows ---- */

STK__AVX2 static inline __m256i load_256(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

/* Bytes of even and odd samples, each in order, to one row. */
STK__AVX2 static inline void store_interleaved(uint8_t *out, __m256i even, __m256i odd)
{
    const __m256i lo = _mm256_unpacklo_epi8(even, odd), hi = _mm256_unpackhi_epi8(even, odd);
    _mm256_storeu_si256((__m256i *)out, _mm256_permute2x128_si256(lo, hi, 0x20));
    _mm256_storeu_si256((__m256i *)(out + 32), _mm256_permute2x128_si256(lo, hi, 0x31));
}

/* 3 * a + b of the bytes of one half of each 128 bits. */
#define THRICE(half, a, b) _mm256_maddubs_epi16(half(a, b), _mm256_set1_epi16(0x0103))

STK__AVX2 static void widen_avx2(uint8_t *out, const uint8_t *in, int32_t count)
{
    const __m256i one = _mm256_set1_epi16(1), two = _mm256_set1_epi16(2);
    for (int32_t i = 0; i < count; i += 32) {
        const __m256i before = load_256(in + i - 1), here = load_256(in + i), after = load_256(in + i + 1);
        __m256i even[2] = {THRICE(_mm256_unpacklo_epi8, here, before), THRICE(_mm256_unpackhi_epi8, here, before)};
        __m256i odd[2] = {THRICE(_mm256_unpacklo_epi8, here, after), THRICE(_mm256_unpackhi_epi8, here, after)};
        UNROLL for (int j = 0; j < 2; j++)
        {
            even[j] = _mm256_srli_epi16(_mm256_add_epi16(even[j], one), 2);
            odd[j] = _mm256_srli_epi16(_mm256_add_epi16(odd[j], two), 2);
        }
        store_interleaved(out + 2 * i, _mm256_packus_epi16(even[0], even[1]), _mm256_packus_epi16(odd[0], odd[1]));
    }
}

/* (3 * here + side + round) >> 4 */
STK__AVX2 static inline __m256i between(__m256i here, __m256i side, int round)
{
    const __m256i thrice = _mm256_add_epi16(_mm256_add_epi16(here, here), here);
    return _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(thrice, side), _mm256_set1_epi16((short)round)), 4);
}

STK__AVX2 static void widen_between_avx2(uint8_t *out, const uint8_t *near, const uint8_t *far, int32_t count)
{
    for (int32_t i = 0; i < count; i += 32) {
        __m256i lo[3], hi[3];
        UNROLL for (int j = 0; j < 3; j++)
        {
            const __m256i a = load_256(near + i + j - 1), b = load_256(far + i + j - 1);
            lo[j] = THRICE(_mm256_unpacklo_epi8, a, b);
            hi[j] = THRICE(_mm256_unpackhi_epi8, a, b);
        }
        store_interleaved(out + 2 * i, _mm256_packus_epi16(between(lo[1], lo[0], 8), between(hi[1], hi[0], 8)),
                          _mm256_packus_epi16(between(lo[1], lo[2], 7), between(hi[1], hi[2], 7)));
    }
}

/*
 * 16 bits are enough: with x in -128 to 127, (91881 x + 32768) >> 16 is x + (((2 * 26345 x) >> 16) + 1 >> 1), and so
 * on; only green, which adds two products before it rounds, takes 32.
 */
STK__AVX2 static inline void rgb_half(__m256i y, __m256i b, __m256i r, __m256i out[3])
{
    const __m256i one = _mm256_set1_epi16(1), b2 = _mm256_add_epi16(b, b), r2 = _mm256_add_epi16(r, r);
    const __m256i red = _mm256_srai_epi16(_mm256_add_epi16(_mm256_mulhi_epi16(r2, _mm256_set1_epi16(26345)), one), 1);
    const __m256i blue = _mm256_srai_epi16(_mm256_add_epi16(_mm256_mulhi_epi16(b2, _mm256_set1_epi16(-14942)), one), 1);
    const __m256i factors = _mm256_set1_epi32(FACTORS(-22554, 18734));
    const __m256i round = _mm256_set1_epi32(32768);
    const __m256i lo = _mm256_add_epi32(_mm256_madd_epi16(_mm256_unpacklo_epi16(b, r), factors), round);
    const __m256i hi = _mm256_add_epi32(_mm256_madd_epi16(_mm256_unpackhi_epi16(b, r), factors), round);
    const __m256i green = _mm256_packs_epi32(_mm256_srai_epi32(lo, 16), _mm256_srai_epi32(hi, 16));
    out[0] = _mm256_add_epi16(y, _mm256_add_epi16(r, red));
    out[1] = _mm256_add_epi16(y, _mm256_sub_epi16(green, r));
    out[2] = _mm256_add_epi16(y, _mm256_add_epi16(b2, blue));
}

STK__AVX2 static inline void store_rgb(uint8_t *out, const __m256i c[3])
{
    /*
     * In each 128 bits: which byte of a colour goes where, in the first, second and third 16 bytes; -1: another
     * colour's.
     */
#define ROW(...) _mm256_broadcastsi128_si256(_mm_setr_epi8(__VA_ARGS__))
    const __m256i part[3] = {
        _mm256_or_si256(
            _mm256_or_si256(_mm256_shuffle_epi8(c[0], ROW(0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5)),
                            _mm256_shuffle_epi8(c[1], ROW(-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1))),
            _mm256_shuffle_epi8(c[2], ROW(-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1))),
        _mm256_or_si256(
            _mm256_or_si256(_mm256_shuffle_epi8(c[0], ROW(-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1)),
                            _mm256_shuffle_epi8(c[1], ROW(5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10))),
            _mm256_shuffle_epi8(c[2], ROW(-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1))),
        _mm256_or_si256(
            _mm256_or_si256(
                _mm256_shuffle_epi8(c[0], ROW(-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1)),
                _mm256_shuffle_epi8(c[1], ROW(-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1))),
            _mm256_shuffle_epi8(c[2], ROW(10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15))),
    };
#undef ROW
    _mm256_storeu_si256((__m256i *)out, _mm256_permute2x128_si256(part[0], part[1], 0x20));
    _mm256_storeu_si256((__m256i *)(out + 32), _mm256_permute2x128_si256(part[2], part[0], 0x30));
    _mm256_storeu_si256((__m256i *)(out + 64), _mm256_permute2x128_si256(part[1], part[2], 0x31));
}

STK__AVX2 static inline void store_rgba(uint8_t *out, const __m256i c[3])
{
    const __m256i full = _mm256_set1_epi8((char)255);
    const __m256i rg[2] = {_mm256_unpacklo_epi8(c[0], c[1]), _mm256_unpackhi_epi8(c[0], c[1])};
    const __m256i ba[2] = {_mm256_unpacklo_epi8(c[2], full), _mm256_unpackhi_epi8(c[2], full)};
    /* Four pixels in each 128 bits, from 0, 4, 8 and 12 on, and 16 more in the upper half. */
    const __m256i p0 = _mm256_unpacklo_epi16(rg[0], ba[0]), p4 = _mm256_unpackhi_epi16(rg[0], ba[0]);
    const __m256i p8 = _mm256_unpacklo_epi16(rg[1], ba[1]), p12 = _mm256_unpackhi_epi16(rg[1], ba[1]);
    _mm256_storeu_si256((__m256i *)out, _mm256_permute2x128_si256(p0, p4, 0x20));
    _mm256_storeu_si256((__m256i *)(out + 32), _mm256_permute2x128_si256(p8, p12, 0x20));
    _mm256_storeu_si256((__m256i *)(out + 64), _mm256_permute2x128_si256(p0, p4, 0x31));
    _mm256_storeu_si256((__m256i *)(out + 96), _mm256_permute2x128_si256(p8, p12, 0x31));
}

STK__AVX2 static void rgb_avx2(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int32_t count,
                               int channels)
{
    const __m256i zero = _mm256_setzero_si256(), middle = _mm256_set1_epi16(128);
    for (int32_t i = 0; i < count; i += 32) {
        const __m256i luma = load_256(y + i), b = load_256(cb + i), r = load_256(cr + i);
        __m256i lo[3], hi[3], c[3];
        rgb_half(_mm256_unpacklo_epi8(luma, zero), _mm256_sub_epi16(_mm256_unpacklo_epi8(b, zero), middle),
                 _mm256_sub_epi16(_mm256_unpacklo_epi8(r, zero), middle), lo);
        rgb_half(_mm256_unpackhi_epi8(luma, zero), _mm256_sub_epi16(_mm256_unpackhi_epi8(b, zero), middle),
                 _mm256_sub_epi16(_mm256_unpackhi_epi8(r, zero), middle), hi);
        UNROLL for (int j = 0; j < 3; j++) c[j] = _mm256_packus_epi16(lo[j], hi[j]);
        uint8_t tail[128];
        uint8_t *to = count - i < 32 ? tail : out + (ptrdiff_t)i * channels;
        if (channels == 3)
            store_rgb(to, c);
        else
            store_rgba(to, c);
        if (to == tail)
            memcpy(out + (ptrdiff_t)i * channels, tail, (size_t)(count - i) * (size_t)channels);
    }
}
/* ---- AVX-512: RGB only, where bytes of three colours meet in any order with one instruction ---- */

STK__AVX512 static inline void rgb_half_512(__m512i y, __m512i b, __m512i r, __m512i out[3])
{
    const __m512i one = _mm512_set1_epi16(1), b2 = _mm512_add_epi16(b, b), r2 = _mm512_add_epi16(r, r);
    const __m512i red = _mm512_srai_epi16(_mm512_add_epi16(_mm512_mulhi_epi16(r2, _mm512_set1_epi16(26345)), one), 1);
    const __m512i blue = _mm512_srai_epi16(_mm512_add_epi16(_mm512_mulhi_epi16(b2, _mm512_set1_epi16(-14942)), one), 1);
    const __m512i factors = _mm512_set1_epi32(FACTORS(-22554, 18734)), round = _mm512_set1_epi32(32768);
    const __m512i lo = _mm512_add_epi32(_mm512_madd_epi16(_mm512_unpacklo_epi16(b, r), factors), round);
    const __m512i hi = _mm512_add_epi32(_mm512_madd_epi16(_mm512_unpackhi_epi16(b, r), factors), round);
    const __m512i green = _mm512_packs_epi32(_mm512_srai_epi32(lo, 16), _mm512_srai_epi32(hi, 16));
    out[0] = _mm512_add_epi16(y, _mm512_add_epi16(r, red));
    out[1] = _mm512_add_epi16(y, _mm512_sub_epi16(green, r));
    out[2] = _mm512_add_epi16(y, _mm512_add_epi16(b2, blue));
}

/* Where byte i of the output comes from: pixel i / 3, and 64 more for green. */
#define FROM(i) ((uint8_t)((i) / 3 | ((i) % 3 == 1) << 6))
#define FROM4(i) FROM(i), FROM(i + 1), FROM(i + 2), FROM(i + 3)
#define FROM16(i) FROM4(i), FROM4(i + 4), FROM4(i + 8), FROM4(i + 12)
#define FROM64(i) FROM16(i), FROM16(i + 16), FROM16(i + 32), FROM16(i + 48)
_Alignas(64) static const uint8_t rgb_from[3][64] = {{FROM64(0)}, {FROM64(64)}, {FROM64(128)}};
/* Which bytes are blue. */
static const uint64_t rgb_blue[3] = {0x4924924924924924, 0x2492492492492492, 0x9249249249249249};

STK__AVX512 static void rgb_avx512(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int32_t count,
                                   int channels)
{
    if (channels != 3) {
        rgb_avx2(out, y, cb, cr, count, channels);
        return;
    }
    const __m512i zero = _mm512_setzero_si512(), middle = _mm512_set1_epi16(128);
    for (int32_t i = 0; i < count; i += 64) {
        const __m512i luma = _mm512_loadu_si512(y + i), b = _mm512_loadu_si512(cb + i), r = _mm512_loadu_si512(cr + i);
        __m512i lo[3], hi[3], c[3];
        rgb_half_512(_mm512_unpacklo_epi8(luma, zero), _mm512_sub_epi16(_mm512_unpacklo_epi8(b, zero), middle),
                     _mm512_sub_epi16(_mm512_unpacklo_epi8(r, zero), middle), lo);
        rgb_half_512(_mm512_unpackhi_epi8(luma, zero), _mm512_sub_epi16(_mm512_unpackhi_epi8(b, zero), middle),
                     _mm512_sub_epi16(_mm512_unpackhi_epi8(r, zero), middle), hi);
        UNROLL for (int j = 0; j < 3; j++) c[j] = _mm512_packus_epi16(lo[j], hi[j]);
        UNROLL for (int j = 0; j < 3; j++)
        {
            const __m512i from = _mm512_load_si512(rgb_from[j]);
            __m512i bytes = _mm512_permutex2var_epi8(c[0], from, c[1]);
            bytes = _mm512_mask_permutexvar_epi8(bytes, rgb_blue[j], from, c[2]);
            const int left = 3 * (count - i) - 64 * j;
            uint8_t *to = out + 3 * (ptrdiff_t)i + 64 * j;
            if (STK_LIKELY(left >= 64))
                _mm512_storeu_si512(to, bytes);
            else if (left > 0)
                _mm512_mask_storeu_epi8(to, _bzhi_u64(~UINT64_C(0), (unsigned)left), bytes);
        }
    }
}
#endif

static const stk__jpeg_kernels kernels_c = {idct8_c, idct4_c, widen_c, widen_between_c, rgb_c};
#if defined(__x86_64__)
static const stk__jpeg_kernels kernels_sse4 = {idct8_sse4, idct4_sse4, widen_c, widen_between_c, rgb_c};
static const stk__jpeg_kernels kernels_avx2 = {idct8_avx2, idct4_sse4, widen_avx2, widen_between_avx2, rgb_avx2};
static const stk__jpeg_kernels kernels_avx512 = {idct8_avx2, idct4_sse4, widen_avx2, widen_between_avx2, rgb_avx512};
#endif

const stk__jpeg_kernels *stk__jpeg_kernels_get(void)
{
#if defined(__x86_64__)
    if (stk__simd_level() >= STK__SIMD_AVX512)
        return &kernels_avx512;
    if (stk__simd_level() >= STK__SIMD_AVX2)
        return &kernels_avx2;
    if (stk__simd_level() >= STK__SIMD_SSE4)
        return &kernels_sse4;
#endif
    return &kernels_c;
}
