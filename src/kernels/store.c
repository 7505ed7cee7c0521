/* Storing of pixels: cast, scale and bias, layout, in plain C, AVX2 and AVX-512. */
#include "kernels/store.h"

#include <string.h>

#include "base/compiler.h"
#include "kernels/convert.h"
#include "kernels/simd.h"

/* A multiple of every number of channels, and of the lanes of a vector. */
#define PERIOD 48

/* What a run of values needs: one scale and bias for each place of the period, or for each plane. */
typedef struct terms {
    float scale[PERIOD], bias[PERIOD];
} terms;

static void terms_of(const stk__store *s, terms *t)
{
    for (int32_t c = 0; c < s->channels; c++) {
        t->scale[c] = s->plain ? 1 : s->scale[c];
        t->bias[c] = s->plain ? 0 : s->bias[c];
    }
}

static void terms_repeat(terms *t, int32_t channels)
{
    for (int32_t i = channels; i < PERIOD; i++) {
        t->scale[i] = t->scale[i - channels];
        t->bias[i] = t->bias[i - channels];
    }
}

static inline uint8_t byte_of(float x)
{
    return !(x > 0) ? 0 : x >= 255 ? 255 : (uint8_t)x;
}

static inline void put(void *out, size_t i, stk_dtype dtype, float x)
{
    if (dtype == STK_FLOAT32)
        ((float *)out)[i] = x;
    else if (dtype == STK_FLOAT16)
        ((uint16_t *)out)[i] = stk__float_to_half(x);
    else if (dtype == STK_BFLOAT16)
        ((uint16_t *)out)[i] = stk__float_to_bfloat(x);
    else
        ((uint8_t *)out)[i] = byte_of(x);
}

/* `count` values next to each other; `done` of them are there already. */
static inline void run_c(void *out, const uint8_t *in, size_t done, size_t count, const terms *t, stk_dtype dtype)
{
    size_t place = done % PERIOD;
    for (size_t i = done; i < count; i++) {
        put(out, i, dtype, (float)in[i] * t->scale[place] + t->bias[place]);
        place = place + 1 == PERIOD ? 0 : place + 1;
    }
}

/* One plane: every `channels`-th byte. */
static inline void plane_c(void *out, const uint8_t *in, size_t done, size_t count, size_t channels, float scale,
                           float bias, stk_dtype dtype)
{
    for (size_t i = done; i < count; i++)
        put(out, i, dtype, (float)in[i * channels] * scale + bias);
}

/* Calls the function with the type as a constant, so that no loop has to ask for it. */
#define FOR_DTYPE(dtype, function, ...)          \
    do {                                         \
        if ((dtype) == STK_FLOAT32)              \
            function(__VA_ARGS__, STK_FLOAT32);  \
        else if ((dtype) == STK_FLOAT16)         \
            function(__VA_ARGS__, STK_FLOAT16);  \
        else if ((dtype) == STK_BFLOAT16)        \
            function(__VA_ARGS__, STK_BFLOAT16); \
        else                                     \
            function(__VA_ARGS__, STK_UINT8);    \
    } while (0)

static inline size_t size_of(stk_dtype dtype)
{
    return dtype == STK_FLOAT32 ? 4 : dtype == STK_UINT8 ? 1 : 2;
}

static void interleaved_c(const stk__store *s, void *out, const uint8_t *in, size_t pixels)
{
    terms t;
    terms_of(s, &t);
    terms_repeat(&t, s->channels);
    FOR_DTYPE(s->dtype, run_c, out, in, 0, pixels * (size_t)s->channels, &t);
}

static void planar_c(const stk__store *s, uint8_t *out, size_t plane, const uint8_t *in, size_t pixels)
{
    terms t;
    terms_of(s, &t);
    for (int32_t c = 0; c < s->channels; c++, out += plane)
        FOR_DTYPE(s->dtype, plane_c, out, in + c, 0, pixels, (size_t)s->channels, t.scale[c], t.bias[c]);
}

#if defined(__x86_64__)
#include <immintrin.h>

STK__AVX2 static inline void put8(void *out, size_t i, stk_dtype dtype, __m256 x)
{
    if (dtype == STK_FLOAT32) {
        _mm256_storeu_ps((float *)out + i, x);
    } else if (dtype == STK_FLOAT16) {
        _mm_storeu_si128((__m128i *)((uint16_t *)out + i), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    } else if (dtype == STK_BFLOAT16) {
        const __m256i bits = _mm256_castps_si256(x);
        const __m256i even = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
        const __m256i sum = _mm256_add_epi32(bits, _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff)));
        const __m256i high = _mm256_srli_epi32(sum, 16);
        const __m256i words = _mm256_packus_epi32(high, high);
        _mm_storeu_si128((__m128i *)((uint16_t *)out + i), _mm256_castsi256_si128(_mm256_permute4x64_epi64(words, 8)));
    } else {
        /* In this order of operands max turns NaN into 0. */
        const __m256 held = _mm256_min_ps(_mm256_max_ps(x, _mm256_setzero_ps()), _mm256_set1_ps(255));
        const __m256i whole = _mm256_cvttps_epi32(held);
        const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
        _mm_storel_epi64((__m128i *)((uint8_t *)out + i), _mm_packus_epi16(words, words));
    }
}

STK__AVX2 static inline __m256 scaled8(__m256i pixels, __m256 scale, __m256 bias)
{
    return _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(pixels), scale), bias);
}

STK__AVX2 static inline void run_avx2(void *out, const uint8_t *in, size_t count, const terms *t, stk_dtype dtype)
{
    size_t i = 0;
    __m256 scale[3], bias[3];
    for (int k = 0; k < 3; k++) {
        scale[k] = _mm256_loadu_ps(t->scale + 8 * k);
        bias[k] = _mm256_loadu_ps(t->bias + 8 * k);
    }
    for (; i + PERIOD / 2 <= count; i += PERIOD / 2) { /* half a period is one as well */
        for (int k = 0; k < 3; k++) {
            const __m256i x = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(in + i + 8 * k)));
            put8(out, i + 8 * (size_t)k, dtype, scaled8(x, scale[k], bias[k]));
        }
    }
    run_c(out, in, i, count, t, dtype);
}

STK__AVX2 static void interleaved_avx2(const stk__store *s, void *out, const uint8_t *in, size_t pixels)
{
    terms t;
    terms_of(s, &t);
    terms_repeat(&t, s->channels);
    FOR_DTYPE(s->dtype, run_avx2, out, in, pixels * (size_t)s->channels, &t);
}

/*
 * Eight pixels at a time. The upper half of the vector holds the last 16 bytes of them, so that no byte beyond is read; the
 * shuffle puts a channel's bytes into lanes of 32 bits.
 */
STK__AVX2 static inline void planes_avx2(uint8_t *out, size_t plane, const uint8_t *in, size_t pixels, int32_t channels,
                                         const terms *t, stk_dtype dtype)
{
    const int32_t shift = 16 - 4 * channels;
    const __m256i pixel = _mm256_setr_epi32(0, 1, 2, 3, 0, 1, 2, 3);
    const __m256i first = _mm256_add_epi32(_mm256_mullo_epi32(pixel, _mm256_set1_epi32(channels)),
                                           _mm256_setr_epi32(0, 0, 0, 0, shift, shift, shift, shift));
    size_t i = 0;
    for (; i + 8 <= pixels; i += 8) {
        const uint8_t *const p = in + i * (size_t)channels;
        const __m128i low = _mm_loadu_si128((const __m128i *)p);
        const __m128i high = _mm_loadu_si128((const __m128i *)(p + 8 * channels - 16));
        const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
        for (int32_t c = 0; c < channels; c++) {
            const __m256i index =
                _mm256_or_si256(_mm256_add_epi32(first, _mm256_set1_epi32(c)), _mm256_set1_epi32((int)0x80808000u));
            const __m256i x = _mm256_shuffle_epi8(both, index);
            put8(out + (size_t)c * plane, i, dtype,
                 scaled8(x, _mm256_set1_ps(t->scale[c]), _mm256_set1_ps(t->bias[c])));
        }
    }
    for (int32_t c = 0; c < channels; c++)
        plane_c(out + (size_t)c * plane, in + c, i, pixels, (size_t)channels, t->scale[c], t->bias[c], dtype);
}

STK__AVX2 static inline void planes_avx2_of(uint8_t *out, size_t plane, const uint8_t *in, size_t pixels,
                                            const terms *t, int32_t channels, stk_dtype dtype)
{
    if (channels == 3)
        planes_avx2(out, plane, in, pixels, 3, t, dtype);
    else
        planes_avx2(out, plane, in, pixels, channels, t, dtype);
}

STK__AVX2 static void planar_avx2(const stk__store *s, uint8_t *out, size_t plane, const uint8_t *in, size_t pixels)
{
    terms t;
    terms_of(s, &t);
    FOR_DTYPE(s->dtype, planes_avx2_of, out, plane, in, pixels, &t, s->channels);
}

/* All sixteen lanes without a mask, since masked stores are slow on some CPUs. */
STK__AVX512 static inline void put16(void *out, size_t i, stk_dtype dtype, __m512 x, uint32_t count)
{
    const __mmask16 lanes = (__mmask16)_bzhi_u32(0xffff, count);
    if (dtype == STK_FLOAT32) {
        float *const to = (float *)out + i;
        if (count == 16)
            _mm512_storeu_ps(to, x);
        else
            _mm512_mask_storeu_ps(to, lanes, x);
    } else if (dtype == STK_UINT8) {
        const __m512 held = _mm512_min_ps(_mm512_max_ps(x, _mm512_setzero_ps()), _mm512_set1_ps(255));
        const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(held));
        uint8_t *const to = (uint8_t *)out + i;
        if (count == 16)
            _mm_storeu_si128((__m128i *)to, bytes);
        else
            _mm_mask_storeu_epi8(to, lanes, bytes);
    } else {
        const __m512i bits = _mm512_castps_si512(x);
        const __m512i even = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
        const __m512i sum = _mm512_add_epi32(bits, _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff)));
        const __m256i words = dtype == STK_BFLOAT16 ? _mm512_cvtepi32_epi16(_mm512_srli_epi32(sum, 16))
                                                    : _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
        uint16_t *const to = (uint16_t *)out + i;
        if (count == 16)
            _mm256_storeu_si256((__m256i *)to, words);
        else
            _mm256_mask_storeu_epi16(to, lanes, words);
    }
}

/* FMA is not for this: it would round once where the other CPUs round twice. */
STK__AVX512 static inline __m512 scaled16(__m512i pixels, __m512 scale, __m512 bias)
{
    return _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(pixels), scale), bias);
}

STK__AVX512 static inline void run_avx512(void *out, const uint8_t *in, size_t count, const terms *t, stk_dtype dtype)
{
    __m512 scale[3], bias[3];
    for (int k = 0; k < 3; k++) {
        scale[k] = _mm512_loadu_ps(t->scale + 16 * k);
        bias[k] = _mm512_loadu_ps(t->bias + 16 * k);
    }
    size_t i = 0;
    for (; i + PERIOD <= count; i += PERIOD) {
        for (int k = 0; k < 3; k++) {
            const __m512i x = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(in + i + 16 * k)));
            put16(out, i + 16 * (size_t)k, dtype, scaled16(x, scale[k], bias[k]), 16);
        }
    }
    for (int k = 0; i < count; k++, i += 16) {
        const uint32_t n = count - i < 16 ? (uint32_t)(count - i) : 16;
        const __m512i x = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8((__mmask16)_bzhi_u32(0xffff, n), in + i));
        put16(out, i, dtype, scaled16(x, scale[k], bias[k]), n);
    }
}

STK__AVX512 static void interleaved_avx512(const stk__store *s, void *out, const uint8_t *in, size_t pixels)
{
    terms t;
    terms_of(s, &t);
    terms_repeat(&t, s->channels);
    FOR_DTYPE(s->dtype, run_avx512, out, in, pixels * (size_t)s->channels, &t);
}

/* Sixteen pixels at a time: one load, then one permutation for each channel that also widens its bytes to 32 bits. */
STK__AVX512 static inline void planes_avx512_step(uint8_t *out, size_t plane, size_t i, uint32_t count, __m512i pixels,
                                                  int32_t channels, const terms *t, stk_dtype dtype)
{
    const __m512i pixel = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i first = _mm512_mullo_epi32(pixel, _mm512_set1_epi32(channels));
    for (int32_t c = 0; c < channels; c++) {
        const __m512i index = _mm512_add_epi32(first, _mm512_set1_epi32(c));
        const __m512i one = _mm512_maskz_permutexvar_epi8(0x1111111111111111, index, pixels);
        const __m512 value = scaled16(one, _mm512_set1_ps(t->scale[c]), _mm512_set1_ps(t->bias[c]));
        put16(out + (size_t)c * plane, i, dtype, value, count);
    }
}

STK__AVX512 static inline void planes_avx512(uint8_t *out, size_t plane, const uint8_t *in, size_t pixels,
                                             int32_t channels, const terms *t, stk_dtype dtype)
{
    const __mmask64 all = _bzhi_u64(UINT64_MAX, 16 * (uint32_t)channels);
    size_t i = 0;
    for (; i + 16 <= pixels; i += 16)
        planes_avx512_step(out, plane, i, 16, _mm512_maskz_loadu_epi8(all, in + i * (size_t)channels), channels, t,
                           dtype);
    if (i < pixels) {
        const uint32_t left = (uint32_t)(pixels - i);
        const __mmask64 bytes = _bzhi_u64(UINT64_MAX, left * (uint32_t)channels);
        planes_avx512_step(out, plane, i, left, _mm512_maskz_loadu_epi8(bytes, in + i * (size_t)channels), channels, t,
                           dtype);
    }
}

/* Bytes as they are, each channel's to its plane. */
STK__AVX512 static void split_avx512(uint8_t *out, size_t plane, const uint8_t *in, size_t pixels, int32_t channels)
{
    uint8_t index[STK__CHANNELS_MAX][16];
    for (int32_t c = 0; c < channels; c++)
        for (int32_t i = 0; i < 16; i++)
            index[c][i] = (uint8_t)(i * channels + c);
    for (size_t i = 0; i < pixels; i += 16) {
        const uint32_t n = pixels - i < 16 ? (uint32_t)(pixels - i) : 16;
        const __mmask64 bytes = _bzhi_u64(UINT64_MAX, n * (uint32_t)channels);
        const __m512i x = _mm512_maskz_loadu_epi8(bytes, in + i * (size_t)channels);
        for (int32_t c = 0; c < channels; c++) {
            const __m512i at = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)index[c]));
            const __m128i one = _mm512_castsi512_si128(_mm512_permutexvar_epi8(at, x));
            uint8_t *const to = out + (size_t)c * plane + i;
            if (n == 16)
                _mm_storeu_si128((__m128i *)to, one);
            else
                _mm_mask_storeu_epi8(to, (__mmask16)_bzhi_u32(0xffff, n), one);
        }
    }
}

STK__AVX512 static inline void planes_avx512_of(uint8_t *out, size_t plane, const uint8_t *in, size_t pixels,
                                                const terms *t, int32_t channels, stk_dtype dtype)
{
    if (channels == 3)
        planes_avx512(out, plane, in, pixels, 3, t, dtype);
    else
        planes_avx512(out, plane, in, pixels, channels, t, dtype);
}

STK__AVX512 static void planar_avx512(const stk__store *s, uint8_t *out, size_t plane, const uint8_t *in, size_t pixels)
{
    terms t;
    terms_of(s, &t);
    FOR_DTYPE(s->dtype, planes_avx512_of, out, plane, in, pixels, &t, s->channels);
}
#endif

/* `pixels` pixels that lie next to each other, stored from pixel `at` of the result on. */
static void store_run(const stk__store *s, void *out, size_t at, const uint8_t *in, size_t pixels)
{
    const size_t channels = (size_t)s->channels, size = size_of(s->dtype);
    const size_t plane = (size_t)s->width * (size_t)s->height * size;
    const bool planar = s->planar && channels > 1;
    uint8_t *const to = (uint8_t *)out + at * size * (planar ? 1 : channels);
    if (s->dtype == STK_UINT8 && s->plain && !planar) {
        memcpy(to, in, pixels * channels);
        return;
    }
    switch (stk__simd_level()) {
#if defined(__x86_64__)
    case STK__SIMD_VNNI:
    case STK__SIMD_AVX512:
        if (planar && s->dtype == STK_UINT8 && s->plain)
            split_avx512(to, plane, in, pixels, s->channels);
        else if (planar)
            planar_avx512(s, to, plane, in, pixels);
        else
            interleaved_avx512(s, to, in, pixels);
        return;
    case STK__SIMD_AVX2:
        if (planar)
            planar_avx2(s, to, plane, in, pixels);
        else
            interleaved_avx2(s, to, in, pixels);
        return;
#endif
    default:
        if (planar)
            planar_c(s, to, plane, in, pixels);
        else
            interleaved_c(s, to, in, pixels);
    }
}

void stk__store_row(const stk__store *store, void *out, int32_t y, const uint8_t *row)
{
    store_run(store, out, (size_t)y * (size_t)store->width, row, (size_t)store->width);
}

/* Mirrors as many pixels at a time as a small buffer holds. */
static void store_flipped(const stk__store *s, void *out, const stk__pixels *in, bool flip_y)
{
    enum { PIECE = 1024 };
    uint8_t buffer[PIECE * STK__CHANNELS_MAX];
    const int32_t columns = STK_MIN(s->width, PIECE), rows = PIECE / columns;
    for (int32_t y = 0; y < s->height; y += rows) {
        const int32_t h = STK_MIN(s->height - y, rows);
        for (int32_t x = 0; x < s->width; x += columns) {
            const int32_t w = STK_MIN(s->width - x, columns);
            const stk__pixels piece = {buffer, w, h, s->channels, 1, (ptrdiff_t)w * s->channels};
            stk__copy_view(&piece, in, s->width - x - w, flip_y ? s->height - y - h : y, true, flip_y, STK__BORDER_EDGE,
                           NULL);
            store_run(s, out, (size_t)y * (size_t)s->width + (size_t)x, buffer, (size_t)w * (size_t)h);
        }
    }
}

void stk__store_image(const stk__store *store, void *out, const stk__pixels *in, bool flip_x, bool flip_y)
{
    const size_t width = (size_t)store->width, height = (size_t)store->height;
    if (flip_x) {
        store_flipped(store, out, in, flip_y);
    } else if (!flip_y && in->stride == (ptrdiff_t)(width * (size_t)store->channels)) {
        store_run(store, out, 0, in->data, width * height);
    } else {
        for (int32_t y = 0; y < store->height; y++) {
            const size_t at = (size_t)(flip_y ? store->height - 1 - y : y) * width;
            store_run(store, out, at, stk__pixel_row(in, y), width);
        }
    }
}

static inline void floats_run(float *restrict out, const float *restrict in, size_t count, const terms *t)
{
    size_t i = 0;
    for (; i + PERIOD <= count; i += PERIOD)
        for (size_t k = 0; k < PERIOD; k++)
            out[i + k] = in[i + k] * t->scale[k] + t->bias[k];
    for (size_t k = 0; i < count; k++, i++)
        out[i] = in[i] * t->scale[k] + t->bias[k];
}

static inline void floats_planes(float *restrict out, const float *restrict in, size_t pixels, size_t channels,
                                 const terms *t)
{
    for (size_t c = 0; c < channels; c++)
        for (size_t i = 0; i < pixels; i++)
            out[c * pixels + i] = in[i * channels + c] * t->scale[c] + t->bias[c];
}

#if defined(__x86_64__)
/* The compiler makes vectors of the same loops; multiply and add stay apart, as everywhere. */
STK__AVX2 static void floats_run_avx2(float *out, const float *in, size_t count, const terms *t)
{
    floats_run(out, in, count, t);
}
#endif

void stk__store_floats(const stk__store *store, void *out, const float *in)
{
    const size_t pixels = (size_t)store->width * (size_t)store->height, channels = (size_t)store->channels;
    const bool planar = store->planar && channels > 1;
    if (store->plain && planar) {
        stk__to_planar(out, in, (int64_t)pixels, store->channels, sizeof *in);
        return;
    }
    if (store->plain) {
        memcpy(out, in, pixels * channels * sizeof *in);
        return;
    }
    terms t;
    terms_of(store, &t);
    if (planar) {
        if (channels == 3)
            floats_planes(out, in, pixels, 3, &t);
        else
            floats_planes(out, in, pixels, channels, &t);
        return;
    }
    terms_repeat(&t, store->channels);
#if defined(__x86_64__)
    if (stk__simd_level() >= STK__SIMD_AVX2) {
        floats_run_avx2(out, in, pixels * channels, &t);
        return;
    }
#endif
    floats_run(out, in, pixels * channels, &t);
}

/*
 * Moves elements between the two layouts, a block of pixels at a time so that it stays in the first cache. Pixel i of
 * channel c lies at i * channels + c, or at c * pixels + i.
 */
static inline void change_layout(uint8_t *restrict out, const uint8_t *restrict in, size_t pixels, size_t channels,
                                 size_t size, bool to_planar)
{
    enum { BLOCK = 1024 };
    for (size_t from = 0; from < pixels; from += BLOCK) {
        const size_t end = pixels - from < BLOCK ? pixels : from + BLOCK;
        for (size_t c = 0; c < channels; c++) {
            for (size_t i = from; i < end; i++) {
                const size_t interleaved = (i * channels + c) * size, planar = (c * pixels + i) * size;
                memcpy(out + (to_planar ? planar : interleaved), in + (to_planar ? interleaved : planar), size);
            }
        }
    }
}

static inline void change_layout_sized(void *out, const void *in, int64_t pixels, int32_t channels, size_t size,
                                       bool to_planar)
{
    const size_t count = (size_t)pixels, depth = (size_t)channels;
    switch (size) {
    case 1:
        change_layout(out, in, count, depth, 1, to_planar);
        break;
    case 2:
        change_layout(out, in, count, depth, 2, to_planar);
        break;
    case 4:
        change_layout(out, in, count, depth, 4, to_planar);
        break;
    default:
        change_layout(out, in, count, depth, 8, to_planar);
    }
}

void stk__to_planar(void *out, const void *in, int64_t pixels, int32_t channels, size_t element_bytes)
{
#if defined(__x86_64__)
    if (element_bytes == 1 && channels <= STK__CHANNELS_MAX && stk__simd_level() >= STK__SIMD_AVX512) {
        split_avx512(out, (size_t)pixels, in, (size_t)pixels, channels);
        return;
    }
#endif
    change_layout_sized(out, in, pixels, channels, element_bytes, true);
}

void stk__to_interleaved(void *out, const void *in, int64_t pixels, int32_t channels, size_t element_bytes)
{
    change_layout_sized(out, in, pixels, channels, element_bytes, false);
}
