/* Byte and bit shuffles undone and done, and byte order: plain C, SSE4 and AVX2. */
#include "kernels/shuffle.h"

#include <stdbool.h>
#include <string.h>

#include "base/compiler.h"
#include "kernels/simd.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "bytes and bits are moved about in whole words");

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* Bit j of byte i becomes bit i of byte j. */
static inline uint64_t turn_bits(uint64_t x)
{
    uint64_t t = (x ^ x >> 7) & 0x00aa00aa00aa00aau;
    x ^= t ^ t << 7;
    t = (x ^ x >> 14) & 0x0000cccc0000ccccu;
    x ^= t ^ t << 14;
    t = (x ^ x >> 28) & 0x00000000f0f0f0f0u;
    return x ^ t ^ t << 28;
}

/* ---- bytes, plain C ---- */

/* Bytes [0, width) of each element from as many planes; elements lie `size` apart, few enough for the cache. */
static void join_planes_c(uint8_t *out, size_t size, const uint8_t *planes, size_t stride, size_t count, size_t width)
{
    for (size_t j = 0; j < width; j++)
        for (size_t i = 0; i < count; i++)
            out[i * size + j] = planes[j * stride + i];
}

/* The other way, for all bytes of the elements. */
static void split_planes_c(uint8_t *planes, size_t stride, const uint8_t *in, size_t size, size_t count)
{
    for (size_t j = 0; j < size; j++)
        for (size_t i = 0; i < count; i++)
            planes[j * stride + i] = in[i * size + j];
}

/* ---- byte order, plain C ---- */

static void swap_c(uint8_t *out, const uint8_t *in, size_t count, size_t size)
{
    for (size_t i = 0; i < count; i++, in += size, out += size) {
        if (size == 8) {
            const uint64_t x = __builtin_bswap64(load64(in));
            memcpy(out, &x, 8);
        } else if (size == 4) {
            uint32_t x;
            memcpy(&x, in, 4);
            x = __builtin_bswap32(x);
            memcpy(out, &x, 4);
        } else {
            const uint8_t low = in[0];
            out[0] = in[1];
            out[1] = low;
        }
    }
}

/* ---- bits, plain C ---- */

/* Eight rows of bits, `row` bytes each, become 8 * row bytes of one byte plane; from byte `from` of the rows on. */
static void join_bits_c(uint8_t *plane, const uint8_t *rows, size_t row, size_t from)
{
    for (size_t i = from; i < row; i++) {
        uint64_t x = 0;
        for (unsigned k = 0; k < 8; k++)
            x |= (uint64_t)rows[k * row + i] << 8 * k;
        x = turn_bits(x);
        memcpy(plane + 8 * i, &x, 8);
    }
}

#if defined(__x86_64__)
#include <immintrin.h>

#define SSE4_INLINE STK__SSE4 static inline __attribute__((always_inline))
#define AVX2_INLINE STK__AVX2 static inline __attribute__((always_inline))

SSE4_INLINE __m128i load128(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

SSE4_INLINE void store128(uint8_t *p, __m128i x)
{
    _mm_storeu_si128((__m128i *)(void *)p, x);
}

AVX2_INLINE __m256i load256(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

AVX2_INLINE void store256(uint8_t *p, __m256i x)
{
    _mm256_storeu_si256((__m256i *)(void *)p, x);
}

/* ---- unshuffle, SSE4 ---- */

/* Each returns how many elements it did; elements of 2, 4 and 8 bytes lie one behind the other. */

STK__SSE4 static size_t unshuffle2_sse4(uint8_t *out, const uint8_t *planes, size_t stride, size_t count)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const __m128i a = load128(planes + i), b = load128(planes + stride + i);
        store128(out + 2 * i, _mm_unpacklo_epi8(a, b));
        store128(out + 2 * i + 16, _mm_unpackhi_epi8(a, b));
    }
    return i;
}

STK__SSE4 static size_t unshuffle4_sse4(uint8_t *out, const uint8_t *planes, size_t stride, size_t count)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const __m128i a = load128(planes + i), b = load128(planes + stride + i);
        const __m128i c = load128(planes + 2 * stride + i), d = load128(planes + 3 * stride + i);
        const __m128i ab0 = _mm_unpacklo_epi8(a, b), ab1 = _mm_unpackhi_epi8(a, b);
        const __m128i cd0 = _mm_unpacklo_epi8(c, d), cd1 = _mm_unpackhi_epi8(c, d);
        store128(out + 4 * i, _mm_unpacklo_epi16(ab0, cd0));
        store128(out + 4 * i + 16, _mm_unpackhi_epi16(ab0, cd0));
        store128(out + 4 * i + 32, _mm_unpacklo_epi16(ab1, cd1));
        store128(out + 4 * i + 48, _mm_unpackhi_epi16(ab1, cd1));
    }
    return i;
}

/* Byte i of eight vectors becomes the eight bytes of element i: two elements in each. */
SSE4_INLINE void turn_sixteen(__m128i v[8])
{
    __m128i t[8];
    for (unsigned k = 0; k < 4; k++) {
        t[2 * k] = _mm_unpacklo_epi8(v[2 * k], v[2 * k + 1]);
        t[2 * k + 1] = _mm_unpackhi_epi8(v[2 * k], v[2 * k + 1]);
    }
    for (unsigned k = 0; k < 2; k++) {
        const __m128i ab = t[k], cd = t[2 + k], ef = t[4 + k], gh = t[6 + k];
        const __m128i abcd0 = _mm_unpacklo_epi16(ab, cd), abcd1 = _mm_unpackhi_epi16(ab, cd);
        const __m128i efgh0 = _mm_unpacklo_epi16(ef, gh), efgh1 = _mm_unpackhi_epi16(ef, gh);
        v[4 * k] = _mm_unpacklo_epi32(abcd0, efgh0);
        v[4 * k + 1] = _mm_unpackhi_epi32(abcd0, efgh0);
        v[4 * k + 2] = _mm_unpacklo_epi32(abcd1, efgh1);
        v[4 * k + 3] = _mm_unpackhi_epi32(abcd1, efgh1);
    }
}

/* Eight planes of elements that lie `size` apart. */
STK__SSE4 static size_t join_eight_sse4(uint8_t *out, size_t size, const uint8_t *planes, size_t stride, size_t count)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m128i v[8];
        for (size_t j = 0; j < 8; j++)
            v[j] = load128(planes + j * stride + i);
        turn_sixteen(v);
        uint8_t *to = out + i * size;
        for (size_t j = 0; j < 8; j++, to += 2 * size) {
            const int64_t a = _mm_cvtsi128_si64(v[j]), b = _mm_extract_epi64(v[j], 1);
            memcpy(to, &a, 8);
            memcpy(to + size, &b, 8);
        }
    }
    return i;
}

STK__SSE4 static size_t unshuffle8_sse4(uint8_t *out, const uint8_t *planes, size_t stride, size_t count)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m128i v[8];
        for (size_t j = 0; j < 8; j++)
            v[j] = load128(planes + j * stride + i);
        turn_sixteen(v);
        for (size_t j = 0; j < 8; j++)
            store128(out + 8 * i + 16 * j, v[j]);
    }
    return i;
}

/* Four or two planes of elements that lie `size` apart. */
STK__SSE4 static size_t join_few_sse4(uint8_t *out, size_t size, const uint8_t *planes, size_t stride, size_t count,
                                      size_t width)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        uint8_t close[64], *to = out + i * size;
        if (width == 4) {
            unshuffle4_sse4(close, planes + i, stride, 16);
            for (size_t j = 0; j < 16; j++, to += size)
                memcpy(to, close + 4 * j, 4);
        } else {
            unshuffle2_sse4(close, planes + i, stride, 16);
            for (size_t j = 0; j < 16; j++, to += size)
                memcpy(to, close + 2 * j, 2);
        }
    }
    return i;
}

/* ---- unshuffle, AVX2: the two halves of a vector are 16 elements apart until the end ---- */

/* `past`: past the caches; the address is aligned then. */
AVX2_INLINE void put256(uint8_t *p, __m256i x, bool past)
{
    if (past)
        _mm256_stream_si256((__m256i *)(void *)p, x);
    else
        store256(p, x);
}

AVX2_INLINE void store_halves(uint8_t *low, uint8_t *high, __m256i a, __m256i b, bool past)
{
    put256(low, _mm256_permute2x128_si256(a, b, 0x20), past);
    put256(high, _mm256_permute2x128_si256(a, b, 0x31), past);
}

AVX2_INLINE size_t unshuffle2_lanes(uint8_t *out, const uint8_t *planes, size_t stride, size_t count, bool past)
{
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        const __m256i a = load256(planes + i), b = load256(planes + stride + i);
        store_halves(out + 2 * i, out + 2 * i + 32, _mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b), past);
    }
    return i;
}

AVX2_INLINE size_t unshuffle4_lanes(uint8_t *out, const uint8_t *planes, size_t stride, size_t count, bool past)
{
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        const __m256i a = load256(planes + i), b = load256(planes + stride + i);
        const __m256i c = load256(planes + 2 * stride + i), d = load256(planes + 3 * stride + i);
        const __m256i ab0 = _mm256_unpacklo_epi8(a, b), ab1 = _mm256_unpackhi_epi8(a, b);
        const __m256i cd0 = _mm256_unpacklo_epi8(c, d), cd1 = _mm256_unpackhi_epi8(c, d);
        uint8_t *to = out + 4 * i;
        store_halves(to, to + 64, _mm256_unpacklo_epi16(ab0, cd0), _mm256_unpackhi_epi16(ab0, cd0), past);
        store_halves(to + 32, to + 96, _mm256_unpacklo_epi16(ab1, cd1), _mm256_unpackhi_epi16(ab1, cd1), past);
    }
    return i;
}

/* As turn_sixteen, with elements 2k, 2k + 1 and 16 + 2k, 17 + 2k in vector k. */
AVX2_INLINE void turn_thirty_two(__m256i v[8])
{
    __m256i t[8];
    for (unsigned k = 0; k < 4; k++) {
        t[2 * k] = _mm256_unpacklo_epi8(v[2 * k], v[2 * k + 1]);
        t[2 * k + 1] = _mm256_unpackhi_epi8(v[2 * k], v[2 * k + 1]);
    }
    for (unsigned k = 0; k < 2; k++) {
        const __m256i ab = t[k], cd = t[2 + k], ef = t[4 + k], gh = t[6 + k];
        const __m256i abcd0 = _mm256_unpacklo_epi16(ab, cd), abcd1 = _mm256_unpackhi_epi16(ab, cd);
        const __m256i efgh0 = _mm256_unpacklo_epi16(ef, gh), efgh1 = _mm256_unpackhi_epi16(ef, gh);
        v[4 * k] = _mm256_unpacklo_epi32(abcd0, efgh0);
        v[4 * k + 1] = _mm256_unpackhi_epi32(abcd0, efgh0);
        v[4 * k + 2] = _mm256_unpacklo_epi32(abcd1, efgh1);
        v[4 * k + 3] = _mm256_unpackhi_epi32(abcd1, efgh1);
    }
}

AVX2_INLINE void load_eight(__m256i v[8], const uint8_t *planes, size_t stride)
{
    for (size_t j = 0; j < 8; j++)
        v[j] = load256(planes + j * stride);
}

AVX2_INLINE size_t unshuffle8_lanes(uint8_t *out, const uint8_t *planes, size_t stride, size_t count, bool past)
{
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        __m256i v[8];
        load_eight(v, planes + i, stride);
        turn_thirty_two(v);
        uint8_t *to = out + 8 * i;
        for (size_t j = 0; j < 8; j += 2)
            store_halves(to + 16 * j, to + 128 + 16 * j, v[j], v[j + 1], past);
    }
    return i;
}

STK__AVX2 static size_t unshuffle_avx2(uint8_t *out, const uint8_t *planes, size_t stride, size_t count, size_t size)
{
    return size == 2   ? unshuffle2_lanes(out, planes, stride, count, false)
           : size == 4 ? unshuffle4_lanes(out, planes, stride, count, false)
                       : unshuffle8_lanes(out, planes, stride, count, false);
}

/* `out` is aligned to 32 bytes. */
STK__AVX2 static size_t unshuffle_past_avx2(uint8_t *out, const uint8_t *planes, size_t stride, size_t count, size_t size)
{
    const size_t done = size == 2   ? unshuffle2_lanes(out, planes, stride, count, true)
                        : size == 4 ? unshuffle4_lanes(out, planes, stride, count, true)
                                    : unshuffle8_lanes(out, planes, stride, count, true);
    _mm_sfence(); /* before anybody else is told of it */
    return done;
}

/* ---- shuffle, SSE4 ---- */

STK__SSE4 static size_t shuffle2_sse4(uint8_t *planes, const uint8_t *in, size_t count)
{
    const __m128i low = _mm_set1_epi16(255);
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const __m128i a = load128(in + 2 * i), b = load128(in + 2 * i + 16);
        store128(planes + i, _mm_packus_epi16(_mm_and_si128(a, low), _mm_and_si128(b, low)));
        store128(planes + count + i, _mm_packus_epi16(_mm_srli_epi16(a, 8), _mm_srli_epi16(b, 8)));
    }
    return i;
}

STK__SSE4 static size_t shuffle4_sse4(uint8_t *planes, const uint8_t *in, size_t count)
{
    const __m128i group = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const uint8_t *from = in + 4 * i;
        const __m128i a = _mm_shuffle_epi8(load128(from), group), b = _mm_shuffle_epi8(load128(from + 16), group);
        const __m128i c = _mm_shuffle_epi8(load128(from + 32), group), d = _mm_shuffle_epi8(load128(from + 48), group);
        const __m128i ab0 = _mm_unpacklo_epi32(a, b), ab1 = _mm_unpackhi_epi32(a, b);
        const __m128i cd0 = _mm_unpacklo_epi32(c, d), cd1 = _mm_unpackhi_epi32(c, d);
        store128(planes + i, _mm_unpacklo_epi64(ab0, cd0));
        store128(planes + count + i, _mm_unpackhi_epi64(ab0, cd0));
        store128(planes + 2 * count + i, _mm_unpacklo_epi64(ab1, cd1));
        store128(planes + 3 * count + i, _mm_unpackhi_epi64(ab1, cd1));
    }
    return i;
}

/* ---- byte order ---- */

SSE4_INLINE __m128i swap_order(size_t size)
{
    if (size == 2)
        return _mm_setr_epi8(1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    if (size == 4)
        return _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
    return _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8);
}

/* Both take bytes and return how many they did. */
STK__SSE4 static size_t swap_sse4(uint8_t *out, const uint8_t *in, size_t bytes, size_t size)
{
    const __m128i order = swap_order(size);
    size_t i = 0;
    for (; i + 16 <= bytes; i += 16)
        store128(out + i, _mm_shuffle_epi8(load128(in + i), order));
    return i;
}

STK__AVX2 static size_t swap_avx2(uint8_t *out, const uint8_t *in, size_t bytes, size_t size)
{
    const __m256i order = _mm256_broadcastsi128_si256(swap_order(size));
    size_t i = 0;
    for (; i + 64 <= bytes; i += 64) {
        const __m256i a = load256(in + i), b = load256(in + i + 32);
        store256(out + i, _mm256_shuffle_epi8(a, order));
        store256(out + i + 32, _mm256_shuffle_epi8(b, order));
    }
    return i;
}

/* ---- bits ---- */

AVX2_INLINE __m256i swap_under(__m256i x, __m256i mask, int shift)
{
    const __m256i t = _mm256_and_si256(_mm256_xor_si256(x, _mm256_srli_epi64(x, shift)), mask);
    return _mm256_xor_si256(_mm256_xor_si256(x, t), _mm256_slli_epi64(t, shift));
}

/* turn_bits in four words. */
AVX2_INLINE __m256i turn_bits_four(__m256i x)
{
    x = swap_under(x, _mm256_set1_epi64x(0x00aa00aa00aa00aa), 7);
    x = swap_under(x, _mm256_set1_epi64x(0x0000cccc0000cccc), 14);
    return swap_under(x, _mm256_set1_epi64x(0x00000000f0f0f0f0), 28);
}

/* As join_bits_c from byte 0 on; returns how many bytes of the rows it did. */
STK__AVX2 static size_t join_bits_avx2(uint8_t *plane, const uint8_t *rows, size_t row)
{
    size_t i = 0;
    for (; i + 32 <= row; i += 32) {
        __m256i v[8];
        load_eight(v, rows + i, row);
        turn_thirty_two(v);
        uint8_t *to = plane + 8 * i;
        for (size_t j = 0; j < 8; j += 2)
            store_halves(to + 16 * j, to + 128 + 16 * j, turn_bits_four(v[j]), turn_bits_four(v[j + 1]), false);
    }
    return i;
}
#endif

/* ---- what others call ---- */

/* Elements of 2, 4 or 8 bytes, with vectors where there are any; returns how many it did. */
static size_t unshuffle_vectors(uint8_t *out, const uint8_t *planes, size_t stride, size_t count, size_t size)
{
#if defined(__x86_64__)
    size_t done = 0;
    if (stk__simd_level() >= STK__SIMD_AVX2)
        done = unshuffle_avx2(out, planes, stride, count, size);
    if (stk__simd_level() < STK__SIMD_SSE4)
        return done;
    out += done * size;
    planes += done;
    count -= done;
    return done + (size == 2   ? unshuffle2_sse4(out, planes, stride, count)
                   : size == 4 ? unshuffle4_sse4(out, planes, stride, count)
                               : unshuffle8_sse4(out, planes, stride, count));
#else
    return 0;
#endif
}

static void join_eight(uint8_t *out, size_t size, const uint8_t *planes, size_t stride, size_t count)
{
    size_t done = 0;
#if defined(__x86_64__)
    if (stk__simd_level() >= STK__SIMD_SSE4)
        done = join_eight_sse4(out, size, planes, stride, count);
#endif
    join_planes_c(out + done * size, size, planes + done, stride, count - done, 8);
}

/* For 4, 2 or 1 planes. */
static void join_few(uint8_t *out, size_t size, const uint8_t *planes, size_t stride, size_t count, size_t width)
{
    size_t done = 0;
#if defined(__x86_64__)
    if (stk__simd_level() >= STK__SIMD_SSE4 && width > 1)
        done = join_few_sse4(out, size, planes, stride, count, width);
#endif
    join_planes_c(out + done * size, size, planes + done, stride, count - done, width);
}

/* Elements of any size, eight of their bytes at a time and then four, two and one. */
static void unshuffle_any(uint8_t *out, const uint8_t *planes, size_t stride, size_t count, size_t size)
{
    size_t j = 0;
    for (; j + 8 <= size; j += 8)
        join_eight(out + j, size, planes + j * stride, stride, count);
    for (size_t width = 4; width; width /= 2) {
        if (!(size & width))
            continue;
        join_few(out + j, size, planes + j * stride, stride, count, width);
        j += width;
    }
}

void stk__unshuffle(uint8_t *out, const uint8_t *planes, size_t stride, size_t first, size_t count, size_t size)
{
    planes += first;
    if (size == 1) {
        memcpy(out, planes, count);
        return;
    }
    size_t done = 0;
    if (size == 2 || size == 4 || size == 8)
        done = unshuffle_vectors(out, planes, stride, count, size);
    /* The bytes of an element come at several times: those elements should still be in the cache then. */
    const size_t part = STK_MAX(16384 / size / 16 * 16, (size_t)16);
    for (size_t i = done; i < count; i += part)
        unshuffle_any(out + i * size, planes + i, stride, STK_MIN(part, count - i), size);
}

#if defined(__x86_64__)
/* Returns how many bytes it copied; `out` is aligned. */
STK__AVX2 static size_t copy_past_avx2(uint8_t *out, const uint8_t *in, size_t size)
{
    size_t i = 0;
    for (; i + 128 <= size; i += 128)
        for (size_t k = 0; k < 128; k += 32)
            _mm256_stream_si256((__m256i *)(void *)(out + i + k), load256(in + i + k));
    _mm_sfence(); /* before anybody else is told of it */
    return i;
}
#endif

void stk__copy_past(uint8_t *out, const uint8_t *in, size_t size)
{
    size_t done = 0;
#if defined(__x86_64__)
    if (stk__simd_level() >= STK__SIMD_AVX2) {
        done = STK_MIN((size_t)(-(uintptr_t)out & 31), size);
        memcpy(out, in, done);
        done += copy_past_avx2(out + done, in + done, size - done);
    }
#endif
    memcpy(out + done, in + done, size - done);
}

void stk__unshuffle_past(uint8_t *out, const uint8_t *planes, size_t stride, size_t first, size_t count, size_t size)
{
    size_t done = 0;
#if defined(__x86_64__)
    const bool wide = size == 2 || size == 4 || size == 8;
    if (wide && stk__simd_level() >= STK__SIMD_AVX2 && (uintptr_t)out % size == 0) {
        done = STK_MIN((-(uintptr_t)out & 31) / size, count);
        stk__unshuffle(out, planes, stride, first, done, size);
        done += unshuffle_past_avx2(out + done * size, planes + first + done, stride, count - done, size);
    }
#endif
    stk__unshuffle(out + done * size, planes, stride, first + done, count - done, size);
}

/* Elements of `size` bytes of which the first `done` are in their planes. */
static void shuffle_rest(uint8_t *planes, const uint8_t *in, size_t count, size_t size, size_t done)
{
    const size_t part = STK_MAX(16384 / size / 8 * 8, (size_t)8);
    for (size_t i = done; i < count; i += part)
        split_planes_c(planes + i, count, in + i * size, size, STK_MIN(part, count - i));
}

void stk__shuffle(uint8_t *planes, const uint8_t *in, size_t count, size_t size)
{
    if (size == 1) {
        memcpy(planes, in, count);
        return;
    }
    size_t done = 0;
#if defined(__x86_64__)
    if (stk__simd_level() >= STK__SIMD_SSE4 && (size == 2 || size == 4))
        done = size == 2 ? shuffle2_sse4(planes, in, count) : shuffle4_sse4(planes, in, count);
#endif
    shuffle_rest(planes, in, count, size, done);
}

void stk__swap_bytes(void *out, const void *in, size_t count, size_t size)
{
    uint8_t *to = out;
    const uint8_t *from = in;
    size_t done = 0;
#if defined(__x86_64__)
    const size_t bytes = count * size;
    if (stk__simd_level() >= STK__SIMD_AVX2)
        done = swap_avx2(to, from, bytes, size);
    if (stk__simd_level() >= STK__SIMD_SSE4)
        done += swap_sse4(to + done, from + done, bytes - done, size);
#endif
    swap_c(to + done, from + done, count - done / size, size);
}

static void join_bits(uint8_t *plane, const uint8_t *rows, size_t row)
{
    size_t done = 0;
#if defined(__x86_64__)
    if (stk__simd_level() >= STK__SIMD_AVX2)
        done = join_bits_avx2(plane, rows, row);
#endif
    join_bits_c(plane, rows, row, done);
}

void stk__bit_unshuffle(uint8_t *out, const uint8_t *in, size_t count, size_t size, uint8_t *scratch)
{
    uint8_t *planes = size == 1 ? out : scratch;
    for (size_t j = 0; j < size; j++)
        join_bits(planes + j * count, in + j * count, count / 8);
    if (size > 1)
        stk__unshuffle(out, scratch, count, 0, count, size);
}
