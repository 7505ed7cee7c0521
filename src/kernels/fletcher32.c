/* Fletcher's checksum: plain C, and AVX2 with a sum of its own for every lane. */
#include "kernels/fletcher32.h"

#include <string.h>

#include "base/compiler.h"
#include "kernels/simd.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are summed with their bytes swapped");

/*
 * Sums modulo 65535 of little-endian words, and of these sums after each word. Swapping the two bytes of a word multiplies it by
 * 256 modulo 65535, so that is made good at the end. The reference folds its sums in a way that gives 65535 for 0
 * unless all words were 0.
 */
typedef struct sums {
    uint64_t first, second; /* below 65535 each */
    uint64_t any;           /* not 0 once a word was not */
} sums;

/* `count` words whose plain and weighted sums are these; the weight of the last word is 1. */
static void sums_add(sums *s, uint64_t count, uint64_t plain, uint64_t weighted)
{
    s->second = (s->second + count % 65535 * s->first + weighted) % 65535;
    s->first = (s->first + plain) % 65535;
    s->any |= plain;
}

static void add_words(sums *s, const uint8_t *p, size_t count)
{
    while (count) {
        const size_t n = STK_MIN(count, (size_t)4096);
        uint64_t plain = 0, weighted = 0;
        for (size_t i = 0; i < n; i++, p += 2) {
            plain += (uint64_t)(p[0] | p[1] << 8);
            weighted += plain;
        }
        sums_add(s, n, plain, weighted);
        count -= n;
    }
}

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2_INLINE STK__AVX2 static inline __attribute__((always_inline))

AVX2_INLINE uint64_t add_up(__m256i x)
{
    const __m256i low = _mm256_and_si256(x, _mm256_set1_epi64x(0xffffffff));
    const __m256i sum = _mm256_add_epi64(low, _mm256_srli_epi64(x, 32));
    uint64_t parts[4];
    _mm256_storeu_si256((__m256i *)(void *)parts, sum);
    return parts[0] + parts[1] + parts[2] + parts[3];
}

/*
 * Vectors of 16 words, n of them: lane l sums its words, and these sums. A word in vector t weighs 16 (n - t) - l, so the
 * weighted sum is 16 times that of the lanes' sums of sums, less l times the plain sum of each lane.
 */
enum { LANES = 16, VECTORS = 360 }; /* 360 * 361 / 2 * 65535 is just below 2^32 */

STK__AVX2 static size_t add_words_avx2(sums *s, const uint8_t *p, size_t count)
{
    const __m256i low = _mm256_set1_epi32(0xffff);
    const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14),
                  odd = _mm256_add_epi32(even, _mm256_set1_epi32(1));
    size_t done = 0;
    while (count - done >= LANES) {
        const size_t n = STK_MIN((count - done) / LANES, (size_t)VECTORS);
        __m256i a = _mm256_setzero_si256(), b = a, aa = a, bb = a;
        for (size_t t = 0; t < n; t++, p += 2 * LANES) {
            const __m256i words = _mm256_loadu_si256((const __m256i *)(const void *)p);
            a = _mm256_add_epi32(a, _mm256_and_si256(words, low));
            b = _mm256_add_epi32(b, _mm256_srli_epi32(words, 16));
            aa = _mm256_add_epi32(aa, a);
            bb = _mm256_add_epi32(bb, b);
        }
        const uint64_t less = add_up(_mm256_mullo_epi32(a, even)) + add_up(_mm256_mullo_epi32(b, odd));
        sums_add(s, n * LANES, add_up(a) + add_up(b), LANES * (add_up(aa) + add_up(bb)) - less);
        done += n * LANES;
    }
    return done;
}
#endif

/* From sums of swapped words to that of the words. */
static uint32_t finish(uint64_t sum, uint64_t any)
{
    const uint32_t folded = (uint32_t)(sum * 256 % 65535);
    return folded || !any ? folded : 65535;
}

uint32_t stk__fletcher32(const void *data, size_t size)
{
    const uint8_t *p = data;
    sums s = {0};
    size_t done = 0;
#if defined(__x86_64__)
    if (stk__simd_level() >= STK__SIMD_AVX2)
        done = add_words_avx2(&s, p, size / 2);
#endif
    add_words(&s, p + 2 * done, size / 2 - done);
    if (size % 2)
        sums_add(&s, 1, p[size - 1], p[size - 1]);
    return finish(s.second, s.any) << 16 | finish(s.first, s.any);
}
