/* Huffman-coded coefficients of sequential JPEG: tables, bits, blocks. */
#ifndef STK_FORMATS_IMAGE_JPEG_HUFFMAN_H
#define STK_FORMATS_IMAGE_JPEG_HUFFMAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STK__JPEG_LOOK_BITS = 10,         /* codes of so many bits are found by one look */
    STK__JPEG_SKIP_BITS = 11,         /* the same, when the values do not matter */
    STK__JPEG_BLOCKS_MAX = 6,         /* blocks of an MCU */
    STK__JPEG_COEFFICIENTS = 64 + 32, /* a block in natural order, and where what lies behind its end is thrown */
    STK__JPEG_PAD = 2048              /* zero bytes behind the data: an MCU that is all wrong stays inside */
};

/* From the order of the file to natural order; all that lies behind the end of a block goes to its spare place. */
extern const uint8_t stk__jpeg_zigzag[192];

/*
 * One table. An entry of `look` tells all about one code: how many bits it and its value take (bits 0 to 5), how
 * many are its own (8 to 12), by how many coefficients it moves on (16 to 23, 128 more at the end of the block) and
 * how many bits the value has (24 to 27). 0: the code is longer, or wrong.
 *
 * An entry of `pairs` (of AC tables) has the values as well, and those of a second code where it is wholly in sight:
 * bits of all (0 to 7), how far the first and both move on (8 to 15 and 16 to 23), the values (32 to 47 and 48 to
 * 63). Without a second code it tells the first one twice. 0: not even the first one is wholly in sight.
 *
 * An entry of `skip` adds up as many codes as fit, wherever their values lie: bits (0 to 5) and how far they move on
 * (from 6).
 */
typedef struct stk__jpeg_table {
    uint32_t look[1 << STK__JPEG_LOOK_BITS];
    uint64_t pairs[1 << STK__JPEG_LOOK_BITS];
    uint16_t skip[1 << STK__JPEG_SKIP_BITS];
    bool is_set, has_skip;
    bool is_dc;
    uint8_t counts[16]; /* codes of each length, as in the file */
    uint8_t values[256];
    int32_t last_code[17]; /* of each length; -1 where there is none */
    int32_t offset[17];    /* from a code of that length to its place in values */
} stk__jpeg_table;

typedef struct stk__jpeg_tables {
    stk__jpeg_table dc[2], ac[2];
} stk__jpeg_tables;

/*
 * Takes one table of a DHT segment: 16 counts and their values, of which `size` bytes are there. Returns the bytes
 * it takes, 0 when it is wrong or has symbols that baseline images of 8 bits cannot have. Nothing is built again for
 * the same table.
 */
size_t stk__jpeg_table_set(stk__jpeg_table *table, bool is_dc, const uint8_t *data, size_t size);
/* Makes `skip`, which only some images need. */
void stk__jpeg_table_make_skip(stk__jpeg_table *table);

/*
 * Bits of a segment without stuffed bytes, the next one on top. At least STK__JPEG_PAD bytes behind `end` can be
 * read.
 */
typedef struct stk__jpeg_bits {
    uint64_t bits;
    uint32_t count; /* of valid ones */
    const uint8_t *next, *end;
} stk__jpeg_bits;

/* One MCU: the tables of its blocks, in order, and how much of them is wanted. */
typedef struct stk__jpeg_mcu {
    int blocks;
    struct {
        const stk__jpeg_table *dc, *ac;
        int component;
        int last; /* of the wanted coefficients, in zigzag order; 63: all of them */
    } block[STK__JPEG_BLOCKS_MAX];
} stk__jpeg_mcu;

typedef struct stk__jpeg_coefficients {
    _Alignas(64) int16_t block[STK__JPEG_BLOCKS_MAX][STK__JPEG_COEFFICIENTS];
} stk__jpeg_coefficients;

/*
 * Decodes the wanted coefficients of one MCU; those that are not may be there or 0. `dc` is the last DC value of
 * each component. Returns bit i set when block i has more than its DC value; -1 when the data is damaged.
 */
typedef int stk__jpeg_decode_mcu_fn(stk__jpeg_bits *bits, const stk__jpeg_mcu *mcu, int32_t dc[3],
                                    stk__jpeg_coefficients *out);
/* Steps over `count` MCUs, following only the DC values. */
typedef bool stk__jpeg_skip_mcus_fn(stk__jpeg_bits *bits, const stk__jpeg_mcu *mcu, int32_t dc[3], int64_t count);

/* The two, for this CPU. */
typedef struct stk__jpeg_entropy {
    stk__jpeg_decode_mcu_fn *decode;
    stk__jpeg_skip_mcus_fn *skip;
} stk__jpeg_entropy;

stk__jpeg_entropy stk__jpeg_entropy_get(void);

void stk__jpeg_bits_start(stk__jpeg_bits *bits, const uint8_t *data, const uint8_t *end);
/* True when no more bits were taken than there are. */
bool stk__jpeg_bits_inside(const stk__jpeg_bits *bits);
/* Bits that were not taken; negative when too many were. */
int64_t stk__jpeg_bits_left(const stk__jpeg_bits *bits);

#endif
