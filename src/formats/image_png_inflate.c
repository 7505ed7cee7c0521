/*
 * Inflates pixels. Filtered rows of photographs are mostly literals, and there it is the look-up of one after the other
 * that takes the time; so an entry of the table holds up to three literals whose codes fit into its bits together.
 */
#include "formats/image_png_inflate.h"

#include <string.h>

#include <libdeflate.h>

#include "base/compiler.h"
#include "kernels/simd.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "bits and literals are read and written as whole words");

#define LITERAL_BITS STK__INFLATE_LITERAL_BITS
#define DISTANCE_BITS STK__INFLATE_DISTANCE_BITS
#define LITERAL_REST (15 - LITERAL_BITS)
#define DISTANCE_REST (15 - DISTANCE_BITS)

/*
 * An entry: bits 0-5 how many bits to take, bits 6-7 how many literals it holds, bits 8-31 those. With none of them:
 * bits 8-11 extra bits (which are counted in bits 0-5 too), bit 12 end of block, bit 13 the rest of the code is looked
 * up elsewhere, bits 16-31 the base of a length or distance, or where to look. 0 stands for no code at all.
 */
#define TAKE 63u
#define COUNT 192u
#define END_OF_BLOCK (1u << 12)
#define ELSEWHERE (1u << 13)

static const uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
static const uint16_t length_base[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                         31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
static const uint8_t length_extra[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                         2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
static const uint16_t distance_base[30] = {1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                           33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                           1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
static const uint8_t distance_extra[30] = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                           6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};

/* ---- tables ---- */

static inline void codes_add(stk__inflate_codes *codes, unsigned symbol, unsigned length)
{
    codes->symbols[length][codes->count[length]++] = (uint16_t)symbol;
}

static uint16_t reverse(unsigned x)
{
    static const uint8_t nibbles[16] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};
    return (uint16_t)(nibbles[x & 15] << 12 | nibbles[x >> 4 & 15] << 8 | nibbles[x >> 8 & 15] << 4 |
                      nibbles[x >> 12 & 15]);
}

/* Gives out the code words. False when there are fewer of them than codes, or, with more than one code, more. */
static bool codes_finish(stk__inflate_codes *codes)
{
    unsigned word = 0, space = 0, longest = 0;
    for (unsigned n = 1; n < 16; n++) {
        word <<= 1;
        space += (unsigned)codes->count[n] << (15 - n);
        if (space > 1u << 15)
            return false;
        for (unsigned i = 0; i < codes->count[n]; i++)
            codes->words[n][i] = (uint16_t)(reverse(word + i) >> (16 - n));
        word += codes->count[n];
        longest = codes->count[n] ? n : longest;
    }
    return space == 1u << 15 || longest <= 1;
}

static uint32_t literal_entry(unsigned symbol, unsigned length)
{
    if (symbol < 256)
        return symbol << 8 | 1u << 6 | length;
    if (symbol == 256)
        return END_OF_BLOCK | length;
    if (symbol > 285)
        return 0;
    const unsigned extra = length_extra[symbol - 257];
    return (uint32_t)length_base[symbol - 257] << 16 | extra << 8 | (length + extra);
}

static uint32_t distance_entry(unsigned symbol, unsigned length)
{
    if (symbol > 29)
        return 0;
    const unsigned extra = distance_extra[symbol];
    return (uint32_t)distance_base[symbol] << 16 | extra << 8 | (length + extra);
}

/*
 * Two literals whose codes have `total` bits together: the first has `first` of them. The larger group goes inside: the
 * ends of loops are what takes the time.
 */
static void put_pairs(const stk__inflate_codes *codes, uint32_t *table, unsigned first, unsigned total)
{
    const unsigned second = total - first, count_1 = codes->literal_count[first],
                   count_2 = codes->literal_count[second];
    const uint16_t *symbols_1 = codes->symbols[first], *symbols_2 = codes->symbols[second];
    const uint16_t *words_1 = codes->words[first], *words_2 = codes->words[second];
    const uint32_t entry = 2u << 6 | total;
    if (count_1 < count_2) {
        for (unsigned i = 0; i < count_1; i++) {
            for (unsigned k = 0; k < count_2; k++)
                table[words_1[i] | (unsigned)words_2[k] << first] =
                    entry | (uint32_t)symbols_1[i] << 8 | (uint32_t)symbols_2[k] << 16;
        }
        return;
    }
    for (unsigned k = 0; k < count_2; k++) {
        for (unsigned i = 0; i < count_1; i++)
            table[words_1[i] | (unsigned)words_2[k] << first] =
                entry | (uint32_t)symbols_1[i] << 8 | (uint32_t)symbols_2[k] << 16;
    }
}

static void put_triples(const stk__inflate_codes *codes, uint32_t *table, unsigned first, unsigned second,
                        unsigned total)
{
    const unsigned third = total - first - second;
    for (unsigned i = 0; i < codes->literal_count[first]; i++) {
        for (unsigned k = 0; k < codes->literal_count[second]; k++) {
            const uint32_t entry =
                (uint32_t)codes->symbols[second][k] << 16 | (uint32_t)codes->symbols[first][i] << 8 | 3u << 6 | total;
            uint32_t *part = table + (codes->words[first][i] | (unsigned)codes->words[second][k] << first);
            for (unsigned m = 0; m < codes->literal_count[third]; m++)
                part[(unsigned)codes->words[third][m] << (first + second)] = entry | (uint32_t)codes->symbols[third][m]
                                                                                         << 24;
        }
    }
}

/* Literals whose codes have n bits together. */
static void put_groups(const stk__inflate_codes *codes, uint32_t *table, unsigned shortest, unsigned n)
{
    for (unsigned first = shortest; first + shortest <= n; first++) {
        if (!codes->literal_count[first])
            continue;
        put_pairs(codes, table, first, n);
        for (unsigned second = shortest; first + second + shortest <= n; second++) {
            if (codes->literal_count[second] && codes->literal_count[n - first - second])
                put_triples(codes, table, first, second, n);
        }
    }
}

typedef uint32_t entry_of(unsigned symbol, unsigned length);

/* Codes longer than `bits`: their first bits lead to a table of their own. False when there are too many of those. */
static bool put_long_codes(const stk__inflate_codes *codes, uint32_t *table, unsigned bits, size_t room,
                           entry_of *entry)
{
    const unsigned rest = 15 - bits;
    size_t next = (size_t)1 << bits;
    for (unsigned n = bits + 1; n < 16; n++) {
        for (unsigned i = 0; i < codes->count[n]; i++) {
            const unsigned head = codes->words[n][i] & ((1u << bits) - 1), tail = (unsigned)codes->words[n][i] >> bits;
            if (!table[head]) {
                if (next + ((size_t)1 << rest) > room)
                    return false;
                memset(table + next, 0, sizeof *table << rest);
                table[head] = (uint32_t)next << 16 | ELSEWHERE;
                next += (size_t)1 << rest;
            }
            uint32_t *part = table + (table[head] >> 16);
            for (unsigned k = tail; k < 1u << rest; k += 1u << (n - bits))
                part[k] = entry(codes->symbols[n][i], n);
        }
    }
    return true;
}

/* The table for n bits is that for n - 1 bits twice, with what has n bits put over it. */
static inline void put_codes(const stk__inflate_codes *codes, uint32_t *table, unsigned n, entry_of *entry)
{
    memcpy(table + ((size_t)1 << (n - 1)), table, sizeof *table << (n - 1));
    for (unsigned i = 0; i < codes->count[n]; i++)
        table[codes->words[n][i]] = entry(codes->symbols[n][i], n);
}

static bool build_literals(stk__inflate *s)
{
    stk__inflate_codes *codes = &s->literal_codes;
    if (!codes_finish(codes))
        return false;
    bool has_end = false;
    unsigned shortest = 0;
    for (unsigned n = 1; n < 16; n++) {
        unsigned count = codes->count[n];
        for (; count && codes->symbols[n][count - 1] >= 256; count--)
            has_end |= codes->symbols[n][count - 1] == 256;
        codes->literal_count[n] = (uint16_t)count;
        shortest = shortest || !count ? shortest : n;
    }
    s->literals[0] = 0;
    for (unsigned n = 1; n <= LITERAL_BITS; n++) {
        put_codes(codes, s->literals, n, literal_entry);
        if (shortest)
            put_groups(codes, s->literals, shortest, n);
    }
    return has_end && put_long_codes(codes, s->literals, LITERAL_BITS, STK_COUNT(s->literals), literal_entry);
}

static bool build_distances(stk__inflate *s)
{
    if (!codes_finish(&s->distance_codes))
        return false;
    s->distances[0] = 0;
    for (unsigned n = 1; n <= DISTANCE_BITS; n++)
        put_codes(&s->distance_codes, s->distances, n, distance_entry);
    return put_long_codes(&s->distance_codes, s->distances, DISTANCE_BITS, STK_COUNT(s->distances), distance_entry);
}

/* ---- bits ---- */

typedef struct reader {
    uint64_t bits;
    unsigned left; /* of them */
    unsigned past; /* bytes of zeros that were read behind the end */
    const uint8_t *in, *in_end;
    uint8_t *out, *out_start, *out_stop;
} reader;

/* At least 56 bits; needs 8 bytes of input. */
#define REFILL_FAST()           \
    do {                        \
        uint64_t next_;         \
        memcpy(&next_, in, 8);  \
        bits |= next_ << left;  \
        in += (63 - left) >> 3; \
        left |= 56;             \
    } while (0)

static inline void refill(reader *r)
{
    if (STK_LIKELY(r->in_end - r->in >= 8)) {
        uint64_t next;
        memcpy(&next, r->in, 8);
        r->bits |= next << r->left;
        r->in += (63 - r->left) >> 3;
        r->left |= 56;
        return;
    }
    while (r->left <= 56) {
        if (r->in < r->in_end)
            r->bits |= (uint64_t)*r->in++ << r->left;
        else
            r->past++;
        r->left += 8;
    }
}

/* Whether bits were taken that are not there. */
static bool is_cut_off(const reader *r)
{
    return r->past * 8 > r->left;
}

static inline unsigned take(reader *r, unsigned n)
{
    const unsigned value = (unsigned)(r->bits & ((1u << n) - 1));
    r->bits >>= n;
    r->left -= n;
    return value;
}

/* Copies a match; may write up to 15 bytes past its end. */
static inline uint8_t *copy_match(uint8_t *out, size_t distance, size_t length)
{
    const uint8_t *from = out - distance;
    uint8_t *const end = out + length;
    if (distance >= 16) {
        do {
            memcpy(out, from, 16);
            out += 16;
            from += 16;
        } while (out < end);
    } else if (distance >= 8) {
        do {
            memcpy(out, from, 8);
            out += 8;
            from += 8;
        } while (out < end);
    } else if (distance == 1) {
        memset(out, *from, length);
    } else {
        do
            *out++ = *from++;
        while (out < end);
    }
    return end;
}

/* ---- blocks ---- */

typedef enum block_end { BLOCK_ENDED, BLOCK_PAUSED, BLOCK_DAMAGED } block_end;

/*
 * Decodes while there is input for it without a look at its end: a round reads at most 2 times 8 bytes. PAUSED: the
 * output is where it should stop, or the input is near its end.
 */
static inline __attribute__((always_inline)) block_end decode_fast(const stk__inflate *s, reader *r)
{
    const uint32_t *literals = s->literals;
    const uint64_t mask = (1u << LITERAL_BITS) - 1;
    uint64_t bits = r->bits;
    unsigned left = r->left;
    const uint8_t *in = r->in;
    uint8_t *out = r->out, *const stop = r->out_stop;
    block_end end = BLOCK_PAUSED;
    if (r->in_end - in < 32 || r->past)
        return BLOCK_PAUSED;
    const uint8_t *const in_last = r->in_end - 32;
#define PUT_LITERALS()                    \
    do {                                  \
        const uint32_t put_ = entry >> 8; \
        memcpy(out, &put_, 4);            \
        out += entry >> 6 & 3;            \
        bits >>= entry & TAKE;            \
        left -= entry & TAKE;             \
        entry = literals[bits & mask];    \
    } while (0)
    while (in <= in_last && out < stop) {
        REFILL_FAST();
        uint32_t entry = literals[bits & mask];
        if (entry & COUNT) {
            PUT_LITERALS();
            if (entry & COUNT) {
                PUT_LITERALS();
                if (entry & COUNT) {
                    PUT_LITERALS();
                    if (entry & COUNT) {
                        PUT_LITERALS();
                        continue;
                    }
                }
            }
            REFILL_FAST();
        }
        if (entry & ELSEWHERE)
            entry = literals[(entry >> 16) + (bits >> LITERAL_BITS & ((1u << LITERAL_REST) - 1))];
        if (entry & COUNT) {
            *out++ = (uint8_t)(entry >> 8);
            bits >>= entry & TAKE;
            left -= entry & TAKE;
            continue;
        }
        if (STK_UNLIKELY(!entry || entry & END_OF_BLOCK)) {
            bits >>= entry & TAKE;
            left -= entry & TAKE;
            end = entry ? BLOCK_ENDED : BLOCK_DAMAGED;
            break;
        }
        unsigned extra = entry >> 8 & 15;
        const size_t length = (entry >> 16) + (bits >> ((entry & TAKE) - extra) & ((1u << extra) - 1));
        bits >>= entry & TAKE;
        left -= entry & TAKE;
        uint32_t where = s->distances[bits & ((1u << DISTANCE_BITS) - 1)];
        if (where & ELSEWHERE)
            where = s->distances[(where >> 16) + (bits >> DISTANCE_BITS & ((1u << DISTANCE_REST) - 1))];
        extra = where >> 8 & 15;
        const size_t distance = (where >> 16) + (bits >> ((where & TAKE) - extra) & ((1u << extra) - 1));
        bits >>= where & TAKE;
        left -= where & TAKE;
        if (STK_UNLIKELY(!where || distance > (size_t)(out - r->out_start))) {
            end = BLOCK_DAMAGED;
            break;
        }
        out = copy_match(out, distance, length);
    }
#undef PUT_LITERALS
    r->bits = bits;
    r->left = left;
    r->in = in;
    r->out = out;
    return end;
}

static block_end decode_fast_plain(const stk__inflate *s, reader *r)
{
    return decode_fast(s, r);
}

#if defined(__x86_64__)
/* Shifts by any register need no detour there. */
STK__AVX2 static block_end decode_fast_avx2(const stk__inflate *s, reader *r)
{
    return decode_fast(s, r);
}
#endif

/* The same with a look at the end of the input for each symbol. */
static block_end decode_last(const stk__inflate *s, reader *r)
{
    while (r->out < r->out_stop) {
        refill(r);
        uint32_t entry = s->literals[r->bits & ((1u << LITERAL_BITS) - 1)];
        if (!(entry & COUNT) && entry & ELSEWHERE)
            entry = s->literals[(entry >> 16) + (r->bits >> LITERAL_BITS & ((1u << LITERAL_REST) - 1))];
        if (entry & COUNT) {
            const uint32_t put = entry >> 8;
            memcpy(r->out, &put, 4);
            r->out += entry >> 6 & 3;
            take(r, entry & TAKE);
        } else if (entry & END_OF_BLOCK || !entry) {
            take(r, entry & TAKE);
            return entry ? BLOCK_ENDED : BLOCK_DAMAGED;
        } else {
            unsigned extra = entry >> 8 & 15;
            take(r, (entry & TAKE) - extra);
            const size_t length = (entry >> 16) + take(r, extra);
            uint32_t where = s->distances[r->bits & ((1u << DISTANCE_BITS) - 1)];
            if (where & ELSEWHERE)
                where = s->distances[(where >> 16) + (r->bits >> DISTANCE_BITS & ((1u << DISTANCE_REST) - 1))];
            extra = where >> 8 & 15;
            take(r, (where & TAKE) - extra);
            const size_t distance = (where >> 16) + take(r, extra);
            if (!where || distance > (size_t)(r->out - r->out_start))
                return BLOCK_DAMAGED;
            r->out = copy_match(r->out, distance, length);
        }
        if (is_cut_off(r))
            break;
    }
    return BLOCK_PAUSED;
}

static block_end decode_block(const stk__inflate *s, reader *r)
{
#if defined(__x86_64__)
    const block_end end = stk__simd_level() >= STK__SIMD_AVX2 ? decode_fast_avx2(s, r) : decode_fast_plain(s, r);
#else
    const block_end end = decode_fast_plain(s, r);
#endif
    return end == BLOCK_PAUSED ? decode_last(s, r) : end;
}

/* Bytes as they are: up to 65535 of them, as far as they are wanted. */
static block_end copy_stored(reader *r)
{
    take(r, r->left & 7);
    refill(r);
    const unsigned length = take(r, 16), check = take(r, 16);
    if (is_cut_off(r))
        return BLOCK_PAUSED;
    if (length != (check ^ 0xffff))
        return BLOCK_DAMAGED;
    r->in -= r->left / 8 - r->past;
    r->bits = 0;
    r->left = 0;
    r->past = 0;
    const size_t wanted = STK_MIN((size_t)length, (size_t)(r->out_stop - r->out));
    const size_t found = STK_MIN(wanted, (size_t)(r->in_end - r->in));
    memcpy(r->out, r->in, found);
    r->out += found;
    r->in += found;
    if (found < wanted)
        r->past = 1; /* one more byte than there is */
    return found == length ? BLOCK_ENDED : BLOCK_PAUSED;
}

static bool build_fixed(stk__inflate *s)
{
    memset(s->literal_codes.count, 0, sizeof s->literal_codes.count);
    memset(s->distance_codes.count, 0, sizeof s->distance_codes.count);
    for (unsigned i = 0; i < 288; i++)
        codes_add(&s->literal_codes, i, i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8);
    for (unsigned i = 0; i < 32; i++)
        codes_add(&s->distance_codes, i, 5);
    return build_literals(s) && build_distances(s);
}

static uint32_t length_entry(unsigned symbol, unsigned length)
{
    return symbol << 8 | length;
}

/* The table of the code that the lengths of all others are written in. */
static bool build_lengths(stk__inflate *s, reader *r, unsigned count)
{
    stk__inflate_codes *codes = &s->distance_codes; /* not in use yet */
    uint8_t lengths[19] = {0};
    for (unsigned i = 0; i < count; i++) {
        if (r->left < 3)
            refill(r);
        lengths[order[i]] = (uint8_t)take(r, 3);
    }
    memset(codes->count, 0, sizeof codes->count);
    for (unsigned i = 0; i < 19; i++)
        codes_add(codes, i, lengths[i]);
    if (!codes_finish(codes))
        return false;
    s->lengths[0] = 0;
    for (unsigned n = 1; n <= 7; n++)
        put_codes(codes, s->lengths, n, length_entry);
    return true;
}

/* Reads the lengths of all codes; false when they are damaged. */
static bool read_lengths(stk__inflate *s, reader *r, unsigned literals, unsigned total)
{
    unsigned last = 0;
    for (unsigned i = 0; i < total;) {
        if (r->left < 14) /* a code of up to 7 bits and as many extra bits */
            refill(r);
        const uint32_t entry = s->lengths[r->bits & 127];
        const unsigned symbol = entry >> 8;
        take(r, entry & TAKE);
        if (STK_LIKELY(entry && symbol < 16)) {
            last = symbol;
            codes_add(i < literals ? &s->literal_codes : &s->distance_codes, i < literals ? i : i - literals, symbol);
            i++;
            continue;
        }
        const unsigned repeat = symbol == 16 ? 3 + take(r, 2) : symbol == 17 ? 3 + take(r, 3) : 11 + take(r, 7);
        if (!entry || repeat > total - i || (symbol == 16 && i == 0) || is_cut_off(r))
            return false;
        last = symbol == 16 ? last : 0;
        for (const unsigned end = i + repeat; i < end; i++)
            codes_add(i < literals ? &s->literal_codes : &s->distance_codes, i < literals ? i : i - literals, last);
    }
    return true;
}

static bool read_tables(stk__inflate *s, reader *r)
{
    refill(r);
    const unsigned literals = take(r, 5) + 257, distances = take(r, 5) + 1, count = take(r, 4) + 4;
    if (literals > 286 || distances > 30 || !build_lengths(s, r, count))
        return false;
    memset(s->literal_codes.count, 0, sizeof s->literal_codes.count);
    memset(s->distance_codes.count, 0, sizeof s->distance_codes.count);
    return read_lengths(s, r, literals, literals + distances) && build_literals(s) && build_distances(s);
}

static stk__inflate_result read_blocks(stk__inflate *s, reader *r)
{
    for (bool last = false; !last;) {
        refill(r);
        last = take(r, 1);
        const unsigned kind = take(r, 2);
        block_end end = BLOCK_DAMAGED;
        if (kind == 0)
            end = copy_stored(r);
        else if (kind == 3 || !(kind == 1 ? build_fixed(s) : read_tables(s, r)))
            return is_cut_off(r) ? STK__INFLATE_CUT_OFF : STK__INFLATE_DAMAGED;
        else
            end = decode_block(s, r);
        if (is_cut_off(r))
            return STK__INFLATE_CUT_OFF;
        if (end == BLOCK_DAMAGED)
            return STK__INFLATE_DAMAGED;
        if (end == BLOCK_PAUSED || (!last && r->out >= r->out_stop))
            return STK__INFLATE_STOPPED;
    }
    return STK__INFLATE_DONE;
}

stk__inflate_result stk__inflate_zlib(stk__inflate *s, const uint8_t *in, size_t in_size, uint8_t *out, size_t stop,
                                      size_t *out_size)
{
    *out_size = 0;
    if (in_size < 2)
        return STK__INFLATE_CUT_OFF;
    /* Deflate, with a window of any size, without a dictionary. */
    if ((in[0] & 15) != 8 || in[0] >> 4 > 7 || in[1] & 0x20 || (in[0] << 8 | in[1]) % 31 != 0)
        return STK__INFLATE_DAMAGED;
    reader r = {.in = in + 2, .in_end = in + in_size, .out = out, .out_start = out, .out_stop = out + stop};
    const stk__inflate_result result = read_blocks(s, &r);
    *out_size = (size_t)(r.out - out);
    if (result != STK__INFLATE_DONE)
        return result;
    take(&r, r.left & 7);
    refill(&r);
    uint32_t wanted = 0;
    for (int i = 0; i < 4; i++)
        wanted = wanted << 8 | take(&r, 8);
    if (is_cut_off(&r))
        return STK__INFLATE_CUT_OFF;
    return libdeflate_adler32(1, out, *out_size) == wanted ? STK__INFLATE_DONE : STK__INFLATE_DAMAGED;
}
