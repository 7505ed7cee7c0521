/*
 * Huffman-coded coefficients of sequential JPEG: one look per code, several codes per look where values do not
 * matter.
 */
#include "formats/image_jpeg_huffman.h"

#include <string.h>

#include "base/compiler.h"
#include "kernels/simd.h"

#include "base/banned.h"

/* Inlined into a function for each level of the CPU, with its instructions. */
#define INLINE __attribute__((always_inline)) static inline

enum { END_OF_BLOCK = 128, DC_SIZE_MAX = 11, AC_SIZE_MAX = 10 };

#define SPARE4 64, 64, 64, 64
#define SPARE16 SPARE4, SPARE4, SPARE4, SPARE4
const uint8_t stk__jpeg_zigzag[192] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32,      25,      18,      11,      4,       5,       12,      19,
    26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,       14,      21,      28,      35,      42,      49,      56,
    57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44,      51,      58,      59,      52,      45,      38,      31,
    39, 46, 53, 60, 61, 54, 47, 55, 62, 63, SPARE16, SPARE16, SPARE16, SPARE16, SPARE16, SPARE16, SPARE16, SPARE16,
};

/* ---- tables ---- */

#define ENTRY_BITS(e) ((e)&63)
#define ENTRY_LENGTH(e) ((e) >> 8 & 31)
#define ENTRY_ADVANCE(e) ((e) >> 16 & 255)
#define ENTRY_SIZE(e) ((e) >> 24)

#define PAIR_BITS(e) ((uint32_t)(e)&255)
#define PAIR_FIRST(e) ((uint32_t)(e) >> 8 & 255)
#define PAIR_BOTH(e) ((uint32_t)(e) >> 16 & 255)

static uint32_t make_entry(bool is_dc, uint32_t length, uint8_t symbol)
{
    const uint32_t size = is_dc ? symbol : symbol & 15, run = symbol >> 4;
    uint32_t advance = run + 1;
    if (!is_dc && size == 0)
        advance = run == 15 ? 16 : END_OF_BLOCK;
    return (length + size) | length << 8 | advance << 16 | size << 24;
}

/* The value in the `size` top bits: negative when the first one is 0. 0 for a size of 0. */
INLINE int32_t value_on_top(uint64_t bits, uint32_t size)
{
    const int32_t value = (int32_t)(bits >> 1 >> (63 - size));
    const uint64_t negative = (uint64_t)((int64_t)~bits >> 63);
    return value - (int32_t)(negative & ((UINT64_C(1) << size) - 1));
}

static void fill_pairs(stk__jpeg_table *table)
{
    enum { BITS = STK__JPEG_LOOK_BITS };
    for (uint32_t i = 0; i < 1u << BITS; i++) {
        const uint32_t first = table->look[i];
        uint32_t taken = ENTRY_BITS(first), both = ENTRY_ADVANCE(first);
        if (!first || taken > BITS) {
            table->pairs[i] = 0;
            continue;
        }
        const uint64_t bits = (uint64_t)i << (64 - BITS);
        const uint64_t value = (uint16_t)value_on_top(bits << ENTRY_LENGTH(first), ENTRY_SIZE(first));
        uint64_t second_value = value;
        const uint64_t rest = bits << taken;
        const uint32_t second = table->look[rest >> (64 - BITS)];
        if (second && taken + ENTRY_BITS(second) <= BITS && both != END_OF_BLOCK) {
            second_value = (uint16_t)value_on_top(rest << ENTRY_LENGTH(second), ENTRY_SIZE(second));
            taken += ENTRY_BITS(second);
            both += ENTRY_ADVANCE(second);
        }
        table->pairs[i] = taken | ENTRY_ADVANCE(first) << 8 | both << 16 | value << 32 | second_value << 48;
    }
}

/* Baseline images have no other symbols; the sizes keep two codes and their values within one fill of 56 bits. */
static bool is_symbol(bool is_dc, uint8_t symbol)
{
    if (is_dc)
        return symbol <= DC_SIZE_MAX;
    return (symbol & 15) == 0 ? symbol == 0 || symbol == 0xf0 : (symbol & 15) <= AC_SIZE_MAX;
}

static bool fill_table(stk__jpeg_table *table)
{
    memset(table->look, 0, sizeof table->look);
    uint32_t code = 0;
    int32_t at = 0;
    for (uint32_t length = 1; length <= 16; length++, code <<= 1) {
        const uint32_t count = table->counts[length - 1];
        /* The code of all ones is no code. */
        if (code + count >= 1u << length && count > 0)
            return false;
        table->offset[length] = at - (int32_t)code;
        for (uint32_t i = 0; i < count; i++, at++, code++) {
            if (!is_symbol(table->is_dc, table->values[at]))
                return false;
            if (length > STK__JPEG_LOOK_BITS)
                continue;
            const uint32_t free_bits = STK__JPEG_LOOK_BITS - length;
            const uint32_t entry = make_entry(table->is_dc, length, table->values[at]);
            for (uint32_t j = 0; j < 1u << free_bits; j++)
                table->look[(code << free_bits) + j] = entry;
        }
        table->last_code[length] = count ? (int32_t)code - 1 : -1;
    }
    if (!table->is_dc)
        fill_pairs(table);
    return true;
}

size_t stk__jpeg_table_set(stk__jpeg_table *table, bool is_dc, const uint8_t *data, size_t size)
{
    size_t total = 0;
    if (size < 16)
        return 0;
    for (int i = 0; i < 16; i++)
        total += data[i];
    if (total == 0 || total > 256 || size - 16 < total)
        return 0;
    if (table->is_set && table->is_dc == is_dc && memcmp(table->counts, data, 16) == 0 &&
        memcmp(table->values, data + 16, total) == 0)
        return 16 + total;
    memcpy(table->counts, data, 16);
    memset(table->values, 0, sizeof table->values);
    memcpy(table->values, data + 16, total);
    table->is_dc = is_dc;
    table->has_skip = false;
    table->is_set = fill_table(table);
    return table->is_set ? 16 + total : 0;
}

/* The entry of a code that is longer than a look; 0 when there is no such code. `bits` has the code on top. */
STK_NOINLINE static uint32_t find_long(const stk__jpeg_table *table, uint64_t bits)
{
    for (uint32_t length = STK__JPEG_LOOK_BITS + 1; length <= 16; length++) {
        const int32_t code = (int32_t)(bits >> (64 - length));
        if (code <= table->last_code[length])
            return make_entry(table->is_dc, length, table->values[code + table->offset[length]]);
    }
    return 0;
}

void stk__jpeg_table_make_skip(stk__jpeg_table *table)
{
    if (table->has_skip)
        return;
    enum { BITS = STK__JPEG_SKIP_BITS };
    for (uint32_t i = 0; i < 1u << BITS; i++) {
        uint32_t taken = 0, advance = 0;
        /* The first code may be as long as the look; others must lie in what is left of it. Their values need not. */
        while (taken < BITS && advance < END_OF_BLOCK) {
            const uint64_t rest = (uint64_t)i << (64 - BITS) << taken;
            uint32_t entry = table->look[rest >> (64 - STK__JPEG_LOOK_BITS)];
            if (!entry && taken == 0)
                entry = find_long(table, rest);
            if (!entry || ENTRY_LENGTH(entry) > BITS - taken || advance + (ENTRY_ADVANCE(entry) & 127) > 63)
                break;
            taken += ENTRY_BITS(entry);
            advance += ENTRY_ADVANCE(entry);
        }
        table->skip[i] = (uint16_t)(taken | advance << 6);
    }
    table->has_skip = true;
}

/* ---- bits ---- */

void stk__jpeg_bits_start(stk__jpeg_bits *bits, const uint8_t *data, const uint8_t *end)
{
    *bits = (stk__jpeg_bits){.next = data, .end = end};
}

int64_t stk__jpeg_bits_left(const stk__jpeg_bits *bits)
{
    return (int64_t)(bits->end - bits->next) * 8 + bits->count;
}

bool stk__jpeg_bits_inside(const stk__jpeg_bits *bits)
{
    return stk__jpeg_bits_left(bits) >= 0;
}

/* At least 56 valid bits afterwards. Bits below `count` may be set already: those of the byte that comes next. */
INLINE void refill(stk__jpeg_bits *b)
{
    uint64_t word;
    memcpy(&word, b->next, sizeof word);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    b->bits |= word >> b->count;
    b->next += (63 - b->count) >> 3;
    b->count |= 56;
}

INLINE void take(stk__jpeg_bits *b, uint32_t count)
{
    b->bits <<= count & 63;
    b->count -= count;
}

/* The entry of the next code; its bits are not taken yet. */
INLINE uint32_t look(const stk__jpeg_table *table, const stk__jpeg_bits *b)
{
    const uint32_t entry = table->look[b->bits >> (64 - STK__JPEG_LOOK_BITS)];
    return STK_LIKELY(entry) ? entry : find_long(table, b->bits);
}

/* The value that follows the code of `entry`. */
INLINE int16_t value_of(const stk__jpeg_bits *b, uint32_t entry)
{
    return (int16_t)value_on_top(b->bits << ENTRY_LENGTH(entry), ENTRY_SIZE(entry));
}

/* ---- blocks ---- */

typedef int64_t quad __attribute__((vector_size(32)));

/* In place of a memset, which compilers make slow for so few bytes. */
INLINE void clear_block(int16_t *block)
{
    quad *parts = (quad *)(void *)block;
    for (int i = 0; i < 4; i++)
        parts[i] = (quad){0};
}

/* False when there is no such code. */
INLINE bool decode_dc(stk__jpeg_bits *b, const stk__jpeg_table *table, int32_t *dc)
{
    const uint32_t entry = look(table, b);
    if (STK_UNLIKELY(!entry))
        return false;
    *dc = (int16_t)(*dc + value_of(b, entry));
    take(b, ENTRY_BITS(entry));
    return true;
}

/*
 * True when coefficient `after` can follow all codes of an entry: the last one was read, or an end of block before
 * it.
 */
INLINE bool is_end(uint32_t after)
{
    return after == 64 || (after >= END_OF_BLOCK && after < END_OF_BLOCK + 64);
}

/* One code at a time to the end of the block, from coefficient k: where it might end inside of a look. */
INLINE bool skip_singly(stk__jpeg_bits *b, const stk__jpeg_table *table, uint32_t k)
{
    while (k < 64) {
        refill(b);
        const uint32_t entry = look(table, b);
        if (!entry)
            return false;
        take(b, ENTRY_BITS(entry));
        k += ENTRY_ADVANCE(entry);
    }
    return is_end(k);
}

/* The same, out of line; the bits are copied, because nothing may point to those that the loops keep in registers. */
STK_NOINLINE static bool skip_end(stk__jpeg_bits *bits, const stk__jpeg_table *table, uint32_t k)
{
    return skip_singly(bits, table, k);
}

INLINE bool skip_rest(stk__jpeg_bits *b, const stk__jpeg_table *table, uint32_t k)
{
    stk__jpeg_bits copy = *b;
    const bool ok = skip_end(&copy, table, k);
    *b = copy;
    return ok;
}

/* Steps over the rest of a block, from coefficient k. */
INLINE bool skip_ac(stk__jpeg_bits *b, const stk__jpeg_table *table, uint32_t k)
{
    for (;;) {
        refill(b);
        for (int twice = 0; twice < 2; twice++) {
            const uint32_t entry = table->skip[b->bits >> (64 - STK__JPEG_SKIP_BITS)];
            const uint32_t after = k + (entry >> 6);
            if (STK_UNLIKELY(after >= 64)) {
                /* The end of this block, or codes that belong to the next one. */
                if (is_end(after)) {
                    take(b, entry & 63);
                    return true;
                }
                return skip_rest(b, table, k);
            }
            if (STK_UNLIKELY(!entry))
                return skip_rest(b, table, k);
            take(b, entry & 63);
            k = after;
        }
    }
}

/* One coefficient, whose code or value is too long for a pair; or the last one of a block. */
INLINE bool decode_one(stk__jpeg_bits *b, const stk__jpeg_table *table, int16_t *out, uint32_t *k)
{
    const uint32_t entry = look(table, b);
    if (STK_UNLIKELY(!entry))
        return false;
    *k += ENTRY_ADVANCE(entry);
    out[stk__jpeg_zigzag[*k - 1]] = value_of(b, entry);
    take(b, ENTRY_BITS(entry));
    return true;
}

/* The coefficients of one look, from *k on; takes at most 26 bits. False when there is no such code. */
INLINE bool decode_pair(stk__jpeg_bits *b, const stk__jpeg_table *table, int16_t *out, uint32_t *k)
{
    const uint64_t pair = table->pairs[b->bits >> (64 - STK__JPEG_LOOK_BITS)];
    const uint32_t first = *k + PAIR_FIRST(pair), both = *k + PAIR_BOTH(pair);
    /* Past the end: the second code belongs to the next block. */
    if (STK_UNLIKELY(!pair) || (STK_UNLIKELY(both > 64) && !is_end(both)))
        return decode_one(b, table, out, k);
    out[stk__jpeg_zigzag[first - 1]] = (int16_t)(pair >> 32);
    out[stk__jpeg_zigzag[both - 1]] = (int16_t)(pair >> 48);
    take(b, PAIR_BITS(pair));
    *k = both;
    return true;
}

/*
 * The coefficients up to `last` after the DC value, for which the bits have room for one look. *k is where the next
 * one would stand.
 */
INLINE bool decode_ac(stk__jpeg_bits *b, const stk__jpeg_table *table, uint32_t last, int16_t *out, uint32_t *k)
{
    for (;;) {
        if (STK_UNLIKELY(!decode_pair(b, table, out, k)))
            return false;
        /* For a few coefficients a second look costs less than guessing whether the first has brought them all. */
        if (*k > (last < 8 ? 63 : last))
            return true;
        refill(b);
        if (STK_UNLIKELY(!decode_pair(b, table, out, k)))
            return false;
        if (*k > last)
            return true;
    }
}

INLINE int decode_mcu(stk__jpeg_bits *bits, const stk__jpeg_mcu *mcu, int32_t dc[3], stk__jpeg_coefficients *out)
{
    stk__jpeg_bits b = *bits;
    int busy = 0;
    for (int i = 0; i < mcu->blocks; i++) {
        const uint32_t last = (uint32_t)mcu->block[i].last;
        int16_t *block = out->block[i];
        int32_t *component = &dc[mcu->block[i].component];
        clear_block(block);
        refill(&b);
        if (STK_UNLIKELY(!decode_dc(&b, mcu->block[i].dc, component)))
            return -1;
        block[0] = (int16_t)*component;
        uint32_t k = 1;
        bool ok = true;
        if (last == 63)
            ok = decode_ac(&b, mcu->block[i].ac, 63, block, &k) && is_end(k);
        else if (last == 4)
            ok = decode_ac(&b, mcu->block[i].ac, 4, block, &k) && (k < 64 || is_end(k));
        else if (last > 0)
            ok = decode_ac(&b, mcu->block[i].ac, last, block, &k) && (k < 64 || is_end(k));
        if (k < 64 && ok)
            ok = skip_ac(&b, mcu->block[i].ac, k);
        if (STK_UNLIKELY(!ok))
            return -1;
        busy |= (k != 1 + END_OF_BLOCK) << i;
    }
    *bits = b;
    return stk__jpeg_bits_inside(bits) ? busy : -1;
}

INLINE bool skip_mcus(stk__jpeg_bits *bits, const stk__jpeg_mcu *mcu, int32_t dc[3], int64_t count)
{
    stk__jpeg_bits b = *bits;
    for (; count > 0; count--) {
        for (int i = 0; i < mcu->blocks; i++) {
            refill(&b);
            if (STK_UNLIKELY(!decode_dc(&b, mcu->block[i].dc, &dc[mcu->block[i].component])) ||
                STK_UNLIKELY(!skip_ac(&b, mcu->block[i].ac, 1)))
                return false;
        }
        if (STK_UNLIKELY(!stk__jpeg_bits_inside(&b)))
            return false;
    }
    *bits = b;
    return true;
}

static int decode_mcu_c(stk__jpeg_bits *bits, const stk__jpeg_mcu *mcu, int32_t dc[3], stk__jpeg_coefficients *out)
{
    return decode_mcu(bits, mcu, dc, out);
}

static bool skip_mcus_c(stk__jpeg_bits *bits, const stk__jpeg_mcu *mcu, int32_t dc[3], int64_t count)
{
    return skip_mcus(bits, mcu, dc, count);
}

#if defined(__x86_64__)
/* The same with shifts that take their count from any register. */
STK__AVX2 static int decode_mcu_avx2(stk__jpeg_bits *bits, const stk__jpeg_mcu *mcu, int32_t dc[3],
                                     stk__jpeg_coefficients *out)
{
    return decode_mcu(bits, mcu, dc, out);
}

STK__AVX2 static bool skip_mcus_avx2(stk__jpeg_bits *bits, const stk__jpeg_mcu *mcu, int32_t dc[3], int64_t count)
{
    return skip_mcus(bits, mcu, dc, count);
}
#endif

stk__jpeg_entropy stk__jpeg_entropy_get(void)
{
#if defined(__x86_64__)
    if (stk__simd_level() >= STK__SIMD_AVX2)
        return (stk__jpeg_entropy){decode_mcu_avx2, skip_mcus_avx2};
#endif
    return (stk__jpeg_entropy){decode_mcu_c, skip_mcus_c};
}
