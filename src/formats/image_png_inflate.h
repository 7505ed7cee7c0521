/* Inflates pixels: a reader of zlib streams for data that is mostly literals, and that stops where it is told to. */
#ifndef STK_FORMATS_IMAGE_PNG_INFLATE_H
#define STK_FORMATS_IMAGE_PNG_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STK__INFLATE_LITERAL_BITS 11
#define STK__INFLATE_DISTANCE_BITS 9

/* Bytes that the caller keeps writable behind the output. */
#define STK__INFLATE_OUT_AIR 320

typedef enum stk__inflate_result {
    STK__INFLATE_DONE,    /* the stream ended, and its checksum is right */
    STK__INFLATE_STOPPED, /* as many bytes as were wanted are there; the stream goes on */
    STK__INFLATE_CUT_OFF, /* the input ended first */
    STK__INFLATE_DAMAGED  /* no zlib stream, or its checksum is wrong */
} stk__inflate_result;

/* Symbols by length of code, in order, with their code words: first bit lowest. Row 0 has those without a code. */
typedef struct stk__inflate_codes {
    uint16_t count[16];
    uint16_t literal_count[16]; /* how many of them are literals; they come first */
    uint16_t symbols[16][288];
    uint16_t words[16][288];
} stk__inflate_codes;

/* Tables of the block at hand; contents matter to one call only. */
typedef struct stk__inflate {
    /* Behind each table come those for the rest of long codes, 16 and 64 entries each. */
    uint32_t literals[(1 << STK__INFLATE_LITERAL_BITS) + 144 * 16];
    uint32_t distances[(1 << STK__INFLATE_DISTANCE_BITS) + 16 * 64];
    uint32_t lengths[128]; /* for the lengths of the codes */
    stk__inflate_codes literal_codes;
    stk__inflate_codes distance_codes;
} stk__inflate;

/*
 * Inflates until the stream ends or `stop` bytes are written, at least 1; a few more may be, into the air behind it.
 * *out_size: bytes written, at most stop + STK__INFLATE_OUT_AIR.
 */
stk__inflate_result stk__inflate_zlib(stk__inflate *s, const uint8_t *in, size_t in_size, uint8_t *out, size_t stop,
                                      size_t *out_size);

#endif
