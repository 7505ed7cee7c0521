/*
 * Makes the tables of deflate. That of the literals holds up to three of them
 * in an entry. It is made in the order of the code words, first bit highest,
 * where all that starts with the same code lies side by side: it is a copy of
 * the table for the bits behind that code, with one more literal in each entry.
 * At the end the bits of its indices are turned round.
 */
#include "formats/image_png_tables.h"

#include <string.h>

#include "base/compiler.h"
#include "kernels/simd.h"

#define LITERAL_BITS STK__INFLATE_LITERAL_BITS
#define MERGED_BITS STK__INFLATE_MERGED_BITS
#define DISTANCE_BITS STK__INFLATE_DISTANCE_BITS
#define ONE_LITERAL (1u << 6)

static const uint16_t length_base[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                         31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
static const uint8_t length_extra[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                         2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
const uint16_t stk__inflate_distance_base[256] = {1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                                  33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                                  1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
static const uint8_t distance_extra[30] = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                           6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};

static inline unsigned reverse(unsigned x, unsigned bits)
{
    static const uint8_t nibbles[16] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};
    const unsigned all = (unsigned)nibbles[x & 15] << 12 | (unsigned)nibbles[x >> 4 & 15] << 8 |
                         (unsigned)nibbles[x >> 8 & 15] << 4 | nibbles[x >> 12 & 15];
    return all >> (16 - bits);
}

/* Whether codes of these lengths use up all code words; a single code may leave
 * some. */
static bool counts_fit(const uint16_t count[16], unsigned *longest)
{
    unsigned space = 0;
    *longest = 0;
    for (unsigned n = 1; n < 16; n++) {
        space += (unsigned)count[n] << (15 - n);
        *longest = count[n] ? n : *longest;
    }
    return space == 1u << 15 || (space < 1u << 15 && *longest <= 1);
}

static uint32_t literal_entry(unsigned symbol, unsigned length)
{
    if (symbol < 256)
        return symbol << 8 | ONE_LITERAL | length;
    if (symbol == 256)
        return STK__INFLATE_END_OF_BLOCK | length << 8;
    if (symbol > 285)
        return 0;
    const unsigned extra = length_extra[symbol - 257];
    return (uint32_t)extra << 29 | (uint32_t)length_base[symbol - 257] << 16 | (length + extra) << 8;
}

static uint32_t distance_entry(unsigned symbol, unsigned length)
{
    if (symbol > 29)
        return 0;
    const unsigned extra = distance_extra[symbol];
    return (uint32_t)stk__inflate_distance_base[symbol] << 16 | extra << 8 | (length + extra);
}

/* ---- literals ---- */

typedef uint32_t four __attribute__((vector_size(16)));
typedef uint32_t eight __attribute__((vector_size(32)));

#define INLINE static inline __attribute__((always_inline))

/*
 * Entries become what is added to the entry of a literal before them: their own
 * literals one further up, or, where there is no room for one more or they are
 * no literals, nothing.
 */
INLINE void make_followers(uint32_t *table, size_t count, bool merged)
{
    for (size_t i = 0; i < count; i += 8) {
        eight e;
        memcpy(&e, table + i, sizeof e);
        const eight has_room = merged ? -(e >> 6 & ~e >> 7 & 1) : -((e + ONE_LITERAL) >> 7 & 1); /* 1, or 1 or 2 */
        e = ((((e & ~255u) << 8) + (e & 255)) & has_room) + ONE_LITERAL;
        memcpy(table + i, &e, sizeof e);
    }
}

/*
 * Literals that have codes of `length` bits, each with what may follow: 2^rest
 * entries. Writes up to 7 entries too many, which others are put over.
 */
INLINE uint32_t *put_literals(uint32_t *out, const uint32_t *followers, unsigned rest, const uint16_t *symbols,
                              unsigned count, unsigned length)
{
    const size_t run = (size_t)1 << rest;
    if (rest <= 2) {
        four f;
        memcpy(&f, followers, sizeof f);
        f += length;
        for (unsigned i = 0; i < count; i++, out += run) {
            const four e = f + ((uint32_t)symbols[i] << 8);
            memcpy(out, &e, sizeof e);
        }
        return out;
    }
    for (unsigned i = 0; i < count; i++, out += run) {
        for (size_t k = 0; k < run; k += 8) {
            eight e;
            memcpy(&e, followers + k, sizeof e);
            e += (uint32_t)symbols[i] << 8 | length;
            memcpy(out + k, &e, sizeof e);
        }
    }
    return out;
}

INLINE uint32_t *put_same(uint32_t *out, uint32_t entry, size_t count)
{
    const eight e = (eight){0} + entry;
    for (size_t i = 0; i < count; i += 8)
        memcpy(out + i, &e, sizeof e);
    return out + count;
}

/* The table for `bits` bits, in the order of the code words; those for fewer
 * bits are made, and lie before it. */
INLINE void put_level(stk__inflate *s, unsigned bits)
{
    const stk__inflate_codes *codes = &s->literal_codes;
    uint32_t *out = s->steps + ((size_t)1 << bits), *const end = out + ((size_t)1 << bits);
    for (unsigned n = 1; n <= bits; n++) {
        const unsigned rest = bits - n;
        if (!codes->count[n])
            continue;
        out = put_literals(out, s->steps + ((size_t)1 << rest), rest, codes->symbols[n], s->literal_count[n], n);
        for (unsigned i = s->literal_count[n]; i < codes->count[n]; i++)
            out = put_same(out, literal_entry(codes->symbols[n][i], n), (size_t)1 << rest);
    }
    put_same(out, 0, (size_t)(end - out));
}

/* The entries of literals become those of a merged table. */
INLINE void mark_literals(uint32_t *table)
{
    for (size_t i = 0; i < (size_t)1 << MERGED_BITS; i += 8) {
        eight e;
        memcpy(&e, table + i, sizeof e);
        const eight count = e >> 6 & 3;
        const eight marked = (e & 0xffff3f) | count << 24 | STK__INFLATE_IS_LITERAL;
        const eight none = (eight)(count == 0);
        e = (none & e) | (~none & marked);
        memcpy(table + i, &e, sizeof e);
    }
}

INLINE void put_levels(stk__inflate *s, bool merged)
{
    const unsigned bits = merged ? MERGED_BITS : LITERAL_BITS;
    s->steps[1] = ONE_LITERAL;
    for (unsigned n = 1; n + s->shortest <= bits; n++) {
        put_level(s, n);
        make_followers(s->steps + ((size_t)1 << n), (size_t)1 << n, merged);
    }
    put_level(s, bits);
    if (merged)
        mark_literals(s->steps + ((size_t)1 << MERGED_BITS));
}

/* Codes longer than the table's bits: their first bits lead to a table of their
 * own. False when there are too many. */
static bool put_long_literals(stk__inflate *s, unsigned longest)
{
    const stk__inflate_codes *codes = &s->literal_codes;
    const unsigned bits = s->literal_bits, rest = longest - bits;
    uint32_t *table = s->steps + ((size_t)1 << bits);
    size_t next = (size_t)1 << bits;
    unsigned word = 0;
    for (unsigned n = 1; n <= longest; n++) {
        word <<= 1;
        for (unsigned i = 0; n > bits && i < codes->count[n]; i++) {
            const unsigned more = n - bits, head = (word + i) >> more;
            if (!table[head]) {
                if (next + ((size_t)1 << rest) > STK_COUNT(s->literals))
                    return false;
                table[head] = (uint32_t)next << 16 | STK__INFLATE_ELSEWHERE;
                next += (size_t)1 << rest;
            }
            uint32_t *part = s->literals + (table[head] >> 16);
            const unsigned tail = reverse((word + i) & ((1u << more) - 1), more);
            for (unsigned k = tail; k < 1u << rest; k += 1u << more)
                part[k] = literal_entry(codes->symbols[n][i], n);
        }
        word += codes->count[n];
    }
    return true;
}

static void put_levels_plain(stk__inflate *s, bool merged)
{
    if (merged)
        put_levels(s, true);
    else
        put_levels(s, false);
}

static void turn_indices_plain(uint32_t *out, const uint32_t *in, unsigned bits)
{
    for (unsigned i = 0; i < 1u << bits; i++)
        out[reverse(i, bits)] = in[i];
}

#if defined(__x86_64__)
#include <immintrin.h>

STK__AVX2 static void put_levels_avx2(stk__inflate *s, bool merged)
{
    if (merged)
        put_levels(s, true);
    else
        put_levels(s, false);
}

#define AVX2_INLINE STK__AVX2 static inline __attribute__((always_inline))

/* Four entries from row i and four from row i + 4. */
AVX2_INLINE __m256 load_rows(const uint32_t *a, const uint32_t *b)
{
    const __m128 low = _mm_loadu_ps((const float *)(const void *)a),
                 high = _mm_loadu_ps((const float *)(const void *)b);
    return _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
}

AVX2_INLINE void store_row(uint32_t *out, __m256d row)
{
    _mm256_storeu_si256((__m256i *)out, _mm256_castpd_si256(row));
}

/* Blocks of 8 x 8: the highest three bits of an index become the lowest three,
 * turned round, and these the highest. */
STK__AVX2 static void turn_indices_avx2(uint32_t *out, const uint32_t *in, unsigned bits)
{
    const unsigned middle = bits - 6;
    const size_t row = (size_t)1 << (bits - 3);
    static const uint8_t turned[8] = {0, 4, 2, 6, 1, 5, 3, 7};
    for (unsigned b = 0; b < 1u << middle; b++) {
        for (unsigned half = 0; half < 2; half++) {
            const uint32_t *from = in + 8 * b + 4 * half;
            const __m256 r0 = load_rows(from + turned[0] * row, from + turned[4] * row);
            const __m256 r1 = load_rows(from + turned[1] * row, from + turned[5] * row);
            const __m256 r2 = load_rows(from + turned[2] * row, from + turned[6] * row);
            const __m256 r3 = load_rows(from + turned[3] * row, from + turned[7] * row);
            const __m256d t0 = _mm256_castps_pd(_mm256_unpacklo_ps(r0, r1));
            const __m256d t1 = _mm256_castps_pd(_mm256_unpackhi_ps(r0, r1));
            const __m256d t2 = _mm256_castps_pd(_mm256_unpacklo_ps(r2, r3));
            const __m256d t3 = _mm256_castps_pd(_mm256_unpackhi_ps(r2, r3));
            uint32_t *to = out + 8 * reverse(b, middle) + turned[4 * half] * row;
            store_row(to + turned[0] * row, _mm256_unpacklo_pd(t0, t2));
            store_row(to + turned[1] * row, _mm256_unpackhi_pd(t0, t2));
            store_row(to + turned[2] * row, _mm256_unpacklo_pd(t1, t3));
            store_row(to + turned[3] * row, _mm256_unpackhi_pd(t1, t3));
        }
    }
}
#endif

/* The short matches that start with a code of a length, of n bits: one for each code of a distance that fits too. */
static void put_matches(const stk__inflate_codes *distances, uint32_t *out, unsigned length, unsigned n)
{
    const unsigned rest = MERGED_BITS - n;
    for (unsigned m = 1; m <= rest; m++) {
        for (unsigned i = 0; i < distances->count[m]; i++, out += (size_t)1 << (rest - m)) {
            const unsigned symbol = distances->symbols[m][i];
            if (stk__inflate_distance_base[symbol] < length) /* it may overlap with what it is copied from */
                continue;
            const unsigned extra = distance_extra[symbol];
            const uint32_t entry = (uint32_t)length << 24 | symbol << 16 | (n + m) << 8 | (n + m + extra);
            for (size_t k = 0; k < (size_t)1 << (rest - m); k++)
                out[k] = entry;
        }
    }
}

static void put_all_matches(stk__inflate *s, uint32_t *out)
{
    const stk__inflate_codes *codes = &s->literal_codes;
    for (unsigned n = 1; n < MERGED_BITS; n++) {
        for (unsigned i = 0; i < codes->count[n]; i++, out += (size_t)1 << (MERGED_BITS - n)) {
            const unsigned symbol = codes->symbols[n][i];
            if (symbol > 256 && symbol - 254 <= STK__INFLATE_MERGED_LENGTH)
                put_matches(&s->distance_codes, out, symbol - 254, n);
        }
    }
}

static bool make_literals(stk__inflate *s, bool merged)
{
    const unsigned bits = merged ? MERGED_BITS : LITERAL_BITS;
    uint32_t *table = s->steps + ((size_t)1 << bits);
    const bool has_long = s->longest > bits;
    s->merged = merged;
    s->literal_bits = bits;
    s->literal_rest = has_long ? s->longest - bits : 0;
    bool wide = false;
#if defined(__x86_64__)
    wide = stk__simd_level() >= STK__SIMD_AVX2;
    if (wide)
        put_levels_avx2(s, merged);
#endif
    if (!wide)
        put_levels_plain(s, merged);
    if (merged)
        put_all_matches(s, table);
    if (has_long && !put_long_literals(s, s->longest))
        return false;
#if defined(__x86_64__)
    if (wide)
        turn_indices_avx2(s->literals, table, bits);
#endif
    if (!wide)
        turn_indices_plain(s->literals, table, bits);
    return true;
}

/*
 * Whether a merged table saves time. With it a short match takes some 40 cycles less and an entry with literals 2
 * more; but where distances are short, few matches can be merged.
 */
static bool merging_gains(const stk__inflate *s, unsigned short_matches)
{
    const stk__inflate_codes *codes = &s->distance_codes;
    const unsigned all = 1u << 15;
    unsigned near = 0;
    for (unsigned n = 1; n < 16; n++)
        for (unsigned i = 0; i < codes->count[n] && stk__inflate_distance_base[codes->symbols[n][i]] < 8; i++)
            near += all >> n;
    const unsigned gaining = short_matches * (all - near) / all, literals = all - short_matches - s->long_matches;
    return s->long_matches < STK__INFLATE_MANY && gaining * 20 >= literals;
}

bool stk__inflate_build_literals(stk__inflate *s, bool may_merge)
{
    const stk__inflate_codes *codes = &s->literal_codes;
    unsigned longest, short_matches = 0;
    if (!counts_fit(codes->count, &longest))
        return false;
    bool has_end = false;
    s->longest = longest;
    s->shortest = LITERAL_BITS;
    s->long_matches = 0;
    for (unsigned n = 15; n > 0; n--) {
        unsigned count = codes->count[n];
        for (; count && codes->symbols[n][count - 1] >= 256; count--) {
            const unsigned symbol = codes->symbols[n][count - 1], share = (1u << 15) >> n;
            has_end |= symbol == 256;
            short_matches += symbol > 256 && symbol <= 254 + STK__INFLATE_MERGED_LENGTH ? share : 0;
            s->long_matches += symbol > 254 + STK__INFLATE_MERGED_LENGTH ? share : 0;
        }
        s->literal_count[n] = (uint16_t)count;
        s->shortest = count ? n : s->shortest;
    }
    return has_end && make_literals(s, may_merge && merging_gains(s, short_matches));
}

void stk__inflate_merge(stk__inflate *s)
{
    if (!s->merged)
        make_literals(s, true);
}

/* ---- the others ---- */

bool stk__inflate_build_distances(stk__inflate *s)
{
    const stk__inflate_codes *codes = &s->distance_codes;
    unsigned longest, word = 0;
    if (!counts_fit(codes->count, &longest))
        return false;
    const unsigned bits = STK_MIN(longest, DISTANCE_BITS), rest = longest - bits;
    size_t next = (size_t)1 << bits;
    s->distance_bits = bits;
    s->distance_rest = rest;
    memset(s->distances, 0, sizeof *s->distances << bits);
    for (unsigned n = 1; n <= longest; n++) {
        word <<= 1;
        for (unsigned i = 0; i < codes->count[n]; i++, word++) {
            const unsigned turned = reverse(word, n);
            const uint32_t entry = distance_entry(codes->symbols[n][i], n);
            if (n <= bits) {
                for (size_t k = turned; k < (size_t)1 << bits; k += (size_t)1 << n)
                    s->distances[k] = entry;
                continue;
            }
            const unsigned head = turned & ((1u << bits) - 1);
            if (!s->distances[head]) {
                if (next + ((size_t)1 << rest) > STK_COUNT(s->distances))
                    return false;
                s->distances[head] = (uint32_t)next << 16 | STK__INFLATE_ELSEWHERE;
                next += (size_t)1 << rest;
            }
            uint32_t *part = s->distances + (s->distances[head] >> 16);
            for (size_t k = turned >> bits; k < (size_t)1 << rest; k += (size_t)1 << (n - bits))
                part[k] = entry;
        }
    }
    return true;
}

bool stk__inflate_build_lengths(stk__inflate *s, const uint8_t lengths[19])
{
    uint16_t count[16] = {0};
    unsigned longest, next[8], word = 0;
    for (unsigned i = 0; i < 19; i++)
        count[lengths[i]]++;
    if (!counts_fit(count, &longest))
        return false;
    for (unsigned n = 1; n < 8; n++) {
        word <<= 1;
        next[n] = word;
        word += count[n];
    }
    if (longest <= 1)
        memset(s->lengths, 0, sizeof s->lengths);
    for (unsigned i = 0; i < 19; i++) {
        const unsigned n = lengths[i];
        if (!n)
            continue;
        for (unsigned k = reverse(next[n]++, n); k < 128; k += 1u << n)
            s->lengths[k] = (uint8_t)(i << 3 | n);
    }
    return true;
}
