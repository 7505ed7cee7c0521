/*
 * How many groups of Huffman codes a lossless WebP has: libwebp makes tables of up to 20 KiB for each of them, and a small
 * file can ask for 65536. Only what stands before the pixels is read (RFC 9649, 3.4 to 3.7): the transforms and the map from
 * blocks to groups, all coded as small images. Their pixels matter little: copies and cached colours repeat what came
 * before, so that the largest number in the map stands somewhere as it is.
 */
#include <string.h>

#include "base/compiler.h"
#include "formats/image_impl.h"

#include "base/banned.h"

enum { CODES = 5, LENGTH_MOST = 15, LENGTH_CODES = 19, COPY_CODES = 24, DISTANCE_CODES = 40, CACHE_BITS_MOST = 11 };
enum { ALPHABET_MOST = 256 + COPY_CODES + (1 << CACHE_BITS_MOST) };

/* Bits come from the lowest of the first byte on. Past the end there are zeros, and `cut` is set. */
typedef struct bit_reader {
    const uint8_t *data;
    size_t size, at; /* at: in bits */
    bool cut;
} bit_reader;

/* A code by lengths: how many symbols have each of them, and the symbols in order. */
typedef struct code {
    uint16_t counts[LENGTH_MOST + 1];
    uint16_t symbols[ALPHABET_MOST];
    int only; /* the one symbol, which takes no bits; -1: there are more */
} code;

typedef struct header_reader {
    bit_reader bits;
    code codes[CODES];
    uint8_t lengths[ALPHABET_MOST];
    uint32_t largest, literals; /* of red << 8 | green, in the last image */
} header_reader;

static uint32_t read_bits(bit_reader *b, int count)
{
    uint32_t value = 0;
    for (int i = 0; i < count; i++, b->at++) {
        if (b->at >= 8 * b->size)
            b->cut = true;
        else
            value |= (uint32_t)(b->data[b->at / 8] >> b->at % 8 & 1) << i;
    }
    return value;
}

/* False: no symbol has a length. */
static bool make_code(code *c, const uint8_t *lengths, int count)
{
    uint16_t at[LENGTH_MOST + 2] = {0};
    int used = 0;
    memset(c->counts, 0, sizeof c->counts);
    c->only = -1;
    for (int i = 0; i < count; i++) {
        c->counts[lengths[i]]++;
        used += lengths[i] > 0;
        c->only = lengths[i] ? i : c->only;
    }
    c->counts[0] = 0;
    if (used != 1)
        c->only = -1;
    for (int n = 1; n <= LENGTH_MOST; n++)
        at[n + 1] = (uint16_t)(at[n] + c->counts[n]);
    for (int i = 0; i < count; i++)
        if (lengths[i])
            c->symbols[at[lengths[i]]++] = (uint16_t)i;
    return used > 0;
}

/* -1: there is no such code. */
static int read_symbol(bit_reader *b, const code *c)
{
    int value = 0, first = 0, index = 0;
    if (c->only >= 0)
        return c->only;
    for (int n = 1; n <= LENGTH_MOST; n++) {
        value |= (int)read_bits(b, 1);
        const int count = c->counts[n];
        if (value - first < count)
            return c->symbols[index + value - first];
        index += count;
        first = (first + count) << 1;
        value <<= 1;
    }
    return -1;
}

/* The lengths of a code, which are coded themselves. */
static bool read_lengths(header_reader *r, int alphabet)
{
    static const uint8_t order[LENGTH_CODES] = {17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    static const uint8_t extra[] = {2, 3, 7}, least[] = {3, 3, 11};
    bit_reader *b = &r->bits;
    uint8_t lengths[LENGTH_CODES] = {0};
    code *c = &r->codes[0]; /* free until the codes of the image are made: see read_codes */
    const int given = (int)read_bits(b, 4) + 4;
    for (int i = 0; i < given && i < LENGTH_CODES; i++)
        lengths[order[i]] = (uint8_t)read_bits(b, 3);
    int left = alphabet, before = 8;
    if (read_bits(b, 1))
        left = 2 + (int)read_bits(b, 2 + 2 * (int)read_bits(b, 3));
    if (left > alphabet || !make_code(c, lengths, LENGTH_CODES))
        return false;
    for (int i = 0; i < alphabet && left > 0 && !b->cut; left--) {
        const int symbol = read_symbol(b, c);
        if (symbol < 0)
            return false;
        if (symbol <= LENGTH_MOST) {
            r->lengths[i++] = (uint8_t)symbol;
            before = symbol ? symbol : before;
            continue;
        }
        int repeat = (int)read_bits(b, extra[symbol - 16]) + least[symbol - 16];
        if (repeat > alphabet - i)
            return false;
        while (repeat-- > 0)
            r->lengths[i++] = symbol == 16 ? (uint8_t)before : 0;
    }
    return true;
}

static bool read_code(header_reader *r, code *out, int alphabet)
{
    bit_reader *b = &r->bits;
    memset(r->lengths, 0, sizeof r->lengths);
    if (read_bits(b, 1)) { /* one or two symbols */
        const bool two = read_bits(b, 1);
        r->lengths[read_bits(b, read_bits(b, 1) ? 8 : 1)] = 1;
        if (two)
            r->lengths[read_bits(b, 8)] = 1;
    } else if (!read_lengths(r, alphabet)) {
        return false;
    }
    return make_code(out, r->lengths, alphabet) && !b->cut;
}

/* What a prefix stands for, from 1 on. */
static uint32_t read_prefix(bit_reader *b, int symbol)
{
    if (symbol < 4)
        return (uint32_t)symbol + 1;
    const int extra = (symbol - 2) >> 1;
    return ((2u + ((uint32_t)symbol & 1)) << extra) + read_bits(b, extra) + 1;
}

static bool read_cache_bits(bit_reader *b, int *out)
{
    *out = read_bits(b, 1) ? (int)read_bits(b, 4) : 0;
    return *out <= CACHE_BITS_MOST;
}

/* The first code lies in r->codes[0], which reading the others uses: so it is made last, from a copy of its lengths. */
static bool read_codes(header_reader *r, int cache_bits)
{
    const int green = 256 + COPY_CODES + (cache_bits ? 1 << cache_bits : 0);
    uint8_t lengths[ALPHABET_MOST];
    code ignored;
    if (!read_code(r, &ignored, green))
        return false;
    memcpy(lengths, r->lengths, sizeof lengths);
    for (int i = 1; i < CODES; i++)
        if (!read_code(r, &r->codes[i], i == CODES - 1 ? DISTANCE_CODES : 256))
            return false;
    return make_code(&r->codes[0], lengths, green);
}

/* A small image: its codes, then its pixels. */
static bool read_image(header_reader *r, uint64_t pixels)
{
    bit_reader *b = &r->bits;
    int cache_bits;
    if (!read_cache_bits(b, &cache_bits) || !read_codes(r, cache_bits))
        return false;
    r->largest = r->literals = 0;
    for (uint64_t i = 0; i < pixels && !b->cut;) {
        const int green = read_symbol(b, &r->codes[0]);
        if (green < 0)
            return false;
        if (green < 256) {
            const int red = read_symbol(b, &r->codes[1]), blue = read_symbol(b, &r->codes[2]);
            if (red < 0 || blue < 0 || read_symbol(b, &r->codes[3]) < 0)
                return false;
            r->largest = STK_MAX(r->largest, (uint32_t)red << 8 | (uint32_t)green);
            r->literals++;
            i++;
        } else if (green < 256 + COPY_CODES) {
            i += read_prefix(b, green - 256);
            const int distance = read_symbol(b, &r->codes[4]);
            if (distance < 0)
                return false;
            read_prefix(b, distance);
        } else {
            i++;
        }
    }
    return !b->cut;
}

static uint64_t blocks(uint32_t size, int bits)
{
    return ((uint64_t)size + (1u << bits) - 1) >> bits;
}

/* Steps over the transforms; a palette makes the image narrower. */
static bool read_transforms(header_reader *r, uint32_t *width, uint32_t height)
{
    bit_reader *b = &r->bits;
    for (int seen = 0; read_bits(b, 1);) {
        const int type = (int)read_bits(b, 2);
        if (seen & 1 << type)
            return false;
        seen |= 1 << type;
        if (type < 2) {
            const int bits = (int)read_bits(b, 3) + 2;
            if (!read_image(r, blocks(*width, bits) * blocks(height, bits)))
                return false;
        } else if (type == 3) {
            const uint32_t colors = read_bits(b, 8) + 1;
            *width = (uint32_t)blocks(*width, colors <= 2 ? 3 : colors <= 4 ? 2 : colors <= 16 ? 1 : 0);
            if (!read_image(r, colors))
                return false;
        }
    }
    return !b->cut;
}

size_t stk__webp_code_bytes(const uint8_t *data, size_t size, uint32_t width, uint32_t height)
{
    header_reader r = {.bits = {data, size, 0, false}};
    int cache_bits;
    /* Where this fails, libwebp will not come so far as to make tables. */
    if (!read_transforms(&r, &width, height) || !read_cache_bits(&r.bits, &cache_bits))
        return 0;
    uint32_t groups = 1;
    if (read_bits(&r.bits, 1)) {
        const int bits = (int)read_bits(&r.bits, 3) + 2;
        if (!read_image(&r, blocks(width, bits) * blocks(height, bits)))
            return 0;
        /* Of many numbers libwebp makes tables for those alone that occur. */
        groups = r.largest < 1000 ? r.largest + 1 : STK_MAX(STK_MIN(r.largest + 1, r.literals), 1000);
    }
    const size_t entries = 3u * 630 + 410 + 654 + (cache_bits ? 1u << cache_bits : 0);
    return groups * (entries * 4 + 640);
}
