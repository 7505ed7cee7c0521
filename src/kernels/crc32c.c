/* CRC-32C in plain C (eight tables), with SSE4.2 (three lanes) and with AVX-512 carry-less multiplication. */
#include "kernels/crc32c.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/compiler.h"

/*
 * The CRC is linear, so entry n of a table is the xor of the entries of n's bits. The eight arguments are those of bits
 * 7 down to 0; over the eight tables they are x^32, x^33, ... x^95 modulo the polynomial, in reflected bit order.
 */
#define T1(n, a, b, c, d, e, f, g, h)                                                                    \
    (((n)&128 ? a : 0u) ^ ((n)&64 ? b : 0u) ^ ((n)&32 ? c : 0u) ^ ((n)&16 ? d : 0u) ^ ((n)&8 ? e : 0u) ^ \
     ((n)&4 ? f : 0u) ^ ((n)&2 ? g : 0u) ^ ((n)&1 ? h : 0u))
#define T4(n, ...) T1(n, __VA_ARGS__), T1(n + 1, __VA_ARGS__), T1(n + 2, __VA_ARGS__), T1(n + 3, __VA_ARGS__)
#define T16(n, ...) T4(n, __VA_ARGS__), T4(n + 4, __VA_ARGS__), T4(n + 8, __VA_ARGS__), T4(n + 12, __VA_ARGS__)
#define T64(n, ...) T16(n, __VA_ARGS__), T16(n + 16, __VA_ARGS__), T16(n + 32, __VA_ARGS__), T16(n + 48, __VA_ARGS__)
#define T256(...) T64(0, __VA_ARGS__), T64(64, __VA_ARGS__), T64(128, __VA_ARGS__), T64(192, __VA_ARGS__)

/* table[k][n]: the CRC register after byte n and k zero bytes. */
static const uint32_t table[8][256] = {
    {T256(0x82f63b78, 0x417b1dbc, 0x20bd8ede, 0x105ec76f, 0x8ad958cf, 0xc79a971f, 0xe13b70f7, 0xf26b8303)},
    {T256(0xfbc3faf9, 0xff17c604, 0x7f8be302, 0x3fc5f181, 0x9d14c3b8, 0x4e8a61dc, 0x274530ee, 0x13a29877)},
    {T256(0x8b277743, 0xc76580d9, 0xe144fb14, 0x70a27d8a, 0x38513ec5, 0x9edea41a, 0x4f6f520d, 0xa541927e)},
    {T256(0x52a0c93f, 0xaba65fe7, 0xd725148b, 0xe964b13d, 0xf64463e6, 0x7b2231f3, 0xbf672381, 0xdd45aab8)},
    {T256(0x6ea2d55c, 0x37516aae, 0x1ba8b557, 0x8f2261d3, 0xc5670b91, 0xe045beb0, 0x7022df58, 0x38116fac)},
    {T256(0x1c08b7d6, 0x0e045beb, 0x85f4168d, 0xc00c303e, 0x6006181f, 0xb2f53777, 0xdb8ca0c3, 0xef306b19)},
    {T256(0xf56e0ef4, 0x7ab7077a, 0x3d5b83bd, 0x9c5bfaa6, 0x4e2dfd53, 0xa5e0c5d1, 0xd0065990, 0x68032cc8)},
    {T256(0x34019664, 0x1a00cb32, 0x0d006599, 0x847609b4, 0x423b04da, 0x211d826d, 0x9278fa4e, 0x493c7d27)},
};

static inline uint32_t load_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint32_t stk__crc32c_extend_c(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *p = data;
    crc = ~crc;
    for (; size >= 8; size -= 8, p += 8) {
        const uint32_t a = load_le32(p) ^ crc, b = load_le32(p + 4);
        crc = table[7][a & 255] ^ table[6][a >> 8 & 255] ^ table[5][a >> 16 & 255] ^ table[4][a >> 24] ^
              table[3][b & 255] ^ table[2][b >> 8 & 255] ^ table[1][b >> 16 & 255] ^ table[0][b >> 24];
    }
    for (; size; size--, p++)
        crc = crc >> 8 ^ table[0][(crc ^ *p) & 255];
    return ~crc;
}

#if defined(__x86_64__)
#include <immintrin.h>

#define SSE42 __attribute__((target("sse4.2,pclmul")))
#define AVX512 __attribute__((target("sse4.2,pclmul,avx512f,avx512vl,avx512dq,vpclmulqdq")))

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* The rest of any size, one lane; `crc` is the bare register, without the inversions at both ends. */
SSE42 static inline uint32_t crc_tail(uint32_t crc, const uint8_t *p, size_t size)
{
    uint64_t c = crc;
    for (; size >= 8; size -= 8, p += 8)
        c = _mm_crc32_u64(c, load64(p));
    crc = (uint32_t)c;
    if (size & 4) {
        uint32_t x;
        memcpy(&x, p, sizeof x);
        crc = _mm_crc32_u32(crc, x);
        p += 4;
    }
    if (size & 2) {
        uint16_t x;
        memcpy(&x, p, sizeof x);
        crc = _mm_crc32_u16(crc, x);
        p += 2;
    }
    return size & 1 ? _mm_crc32_u8(crc, *p) : crc;
}

/*
 * Three lanes side by side hide the latency of crc32. To join them, the first two registers are moved ahead by two
 * lanes and one lane: a product with x^(8 * bytes - 33), whose 64 bits go through crc32 together with the last word.
 */
SSE42 static inline uint32_t crc_lanes(uint32_t crc, const uint8_t *p, size_t lane, uint32_t by_two, uint32_t by_one)
{
    uint64_t a = crc, b = 0, c = 0;
    const uint8_t *const last = p + lane - 8;
    for (; p < last; p += 8) {
        a = _mm_crc32_u64(a, load64(p));
        b = _mm_crc32_u64(b, load64(p + lane));
        c = _mm_crc32_u64(c, load64(p + 2 * lane));
    }
    a = _mm_crc32_u64(a, load64(p));
    b = _mm_crc32_u64(b, load64(p + lane));
    const __m128i k = _mm_set_epi64x((int64_t)(uint64_t)by_one, (int64_t)(uint64_t)by_two);
    const __m128i moved = _mm_xor_si128(_mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t)a), k, 0x00),
                                        _mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t)b), k, 0x10));
    return (uint32_t)_mm_crc32_u64(c, load64(p + 2 * lane) ^ (uint64_t)_mm_cvtsi128_si64(moved));
}

SSE42 static inline uint32_t crc_sse42(uint32_t crc, const uint8_t *p, size_t size)
{
    for (; size >= 3 * 1024; size -= 3 * 1024, p += 3 * 1024)
        crc = crc_lanes(crc, p, 1024, 0xa51b6135, 0x170076fa);
    for (; size >= 3 * 128; size -= 3 * 128, p += 3 * 128)
        crc = crc_lanes(crc, p, 128, 0xb9e02b86, 0x0d3b6092);
    for (; size >= 3 * 32; size -= 3 * 32, p += 3 * 32)
        crc = crc_lanes(crc, p, 32, 0x9e4addf8, 0xba4fc28e);
    return crc_tail(crc, p, size);
}

SSE42 static uint32_t extend_sse42(uint32_t crc, const void *data, size_t size)
{
    return ~crc_sse42(~crc, data, size);
}

/* Moves each 128-bit part of x ahead and adds y: low half times x^(bits + 31), high half times x^(bits - 33). */
AVX512 static inline __m512i fold(__m512i x, __m512i k, __m512i y)
{
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, k, 0x00), _mm512_clmulepi64_epi128(x, k, 0x11), y,
                                     0x96);
}

AVX512 static inline __m512i fold_factors(uint32_t low, uint32_t high)
{
    return _mm512_broadcast_i64x2(_mm_set_epi64x((int64_t)(uint64_t)high, (int64_t)(uint64_t)low));
}

/* The last step of folding: four parts of 16 bytes become one, then a register. */
AVX512 static inline uint32_t fold_finish(__m512i x)
{
    /* Parts 0, 1 and 2 move ahead by 48, 32 and 16 bytes; the last one stays where it is. */
    const __m512i k = _mm512_set_epi64(0, 0, 0x493c7d27, 0xf20c0dfe, 0xba4fc28e, 0x3da6d0cb, 0xddc0152b, 0x1c291d04);
    const __m512i last = _mm512_maskz_mov_epi64(0xc0, x);
    const __m512i sum = fold(x, k, last);
    const __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64(sum, 1));
    const __m128i one = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    const uint64_t crc = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(one));
    return (uint32_t)_mm_crc32_u64(crc, (uint64_t)_mm_extract_epi64(one, 1));
}

enum { FOLD_MIN = 256 };

AVX512 static uint32_t extend_avx512(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *p = data;
    crc = ~crc;
    if (size < FOLD_MIN)
        return ~crc_sse42(crc, p, size);
    __m512i a = _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
    __m512i b = _mm512_loadu_si512(p + 64), c = _mm512_loadu_si512(p + 128), d = _mm512_loadu_si512(p + 192);
    const __m512i by_256 = fold_factors(0xdcb17aa4, 0xb9e02b86), by_64 = fold_factors(0x740eef02, 0x9e4addf8);
    for (p += 256, size -= 256; size >= 256; p += 256, size -= 256) {
        a = fold(a, by_256, _mm512_loadu_si512(p));
        b = fold(b, by_256, _mm512_loadu_si512(p + 64));
        c = fold(c, by_256, _mm512_loadu_si512(p + 128));
        d = fold(d, by_256, _mm512_loadu_si512(p + 192));
    }
    a = fold(a, fold_factors(0xa87ab8a8, 0xab7aff2a), fold(b, fold_factors(0x6992cea2, 0x0d3b6092), fold(c, by_64, d)));
    for (; size >= 64; p += 64, size -= 64)
        a = fold(a, by_64, _mm512_loadu_si512(p));
    return ~crc_tail(fold_finish(a), p, size);
}

#endif

/* Fastest first. What a CPU can run is always a tail of this list. */
static const stk__crc32c_kind kinds[] = {
#if defined(__x86_64__)
    {"avx512", extend_avx512},
    {"sse4.2", extend_sse42},
#endif
    {"c", stk__crc32c_extend_c},
};

const stk__crc32c_kind *stk__crc32c_kinds(size_t *out_count)
{
    size_t skip = 0;
#if defined(__x86_64__)
    const bool sse42 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
    if (!sse42)
        skip = 2;
    else if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl") ||
             !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("vpclmulqdq"))
        skip = 1;
#endif
    *out_count = STK_COUNT(kinds) - skip;
    return kinds + skip;
}

typedef uint32_t (*crc_function)(uint32_t crc, const void *data, size_t size);

static uint32_t extend_first(uint32_t crc, const void *data, size_t size);

/* Set by the first call; every thread that races there stores the same value. */
static _Atomic(crc_function) extend_now = extend_first;

static uint32_t extend_first(uint32_t crc, const void *data, size_t size)
{
    size_t count;
    const crc_function extend = stk__crc32c_kinds(&count)->extend;
    atomic_store_explicit(&extend_now, extend, memory_order_relaxed);
    return extend(crc, data, size);
}

uint32_t stk__crc32c_extend(uint32_t crc, const void *data, size_t size)
{
    return atomic_load_explicit(&extend_now, memory_order_relaxed)(crc, data, size);
}

const char *stk__crc32c_way(void)
{
    size_t count;
    return stk__crc32c_kinds(&count)->name;
}
