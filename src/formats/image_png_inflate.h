/*
 * Inflates pixels and other numbers: a reader of zlib streams for data that is mostly literals and short matches, and
 * that stops where it is told to.
 */
#ifndef STK_FORMATS_IMAGE_PNG_INFLATE_H
#define STK_FORMATS_IMAGE_PNG_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STK__INFLATE_LITERAL_BITS 11
#define STK__INFLATE_MERGED_BITS 12 /* of tables that hold short matches as a whole */
#define STK__INFLATE_DISTANCE_BITS 9

/* Bytes that the caller keeps writable behind the output. */
#define STK__INFLATE_OUT_AIR 312

typedef enum stk__inflate_result {
    STK__INFLATE_DONE,    /* the stream ended, and its checksum is right */
    STK__INFLATE_STOPPED, /* as many bytes as were wanted are there; the stream
                           goes on */
    STK__INFLATE_CUT_OFF, /* the input ended first */
    STK__INFLATE_DAMAGED  /* no zlib stream, or its checksum is wrong */
} stk__inflate_result;

/* Symbols by length of code, in order. Row 0 has some of those without a code.
 */
typedef struct stk__inflate_codes {
    uint16_t count[16];
    uint16_t symbols[16][288];
} stk__inflate_codes;

/* Tables of the block at hand, see image_png_tables.h; contents matter to one
 * call only. */
typedef struct stk__inflate {
    /* Behind each table come those for the rest of long codes, at most 4 and 6
   * bits. */
    uint32_t literals[(1 << STK__INFLATE_MERGED_BITS) + 144 * 16];
    uint32_t distances[(1 << STK__INFLATE_DISTANCE_BITS) + 16 * 64];
    bool merged;                           /* whether `literals` holds short matches as a whole */
    unsigned literal_bits, literal_rest;   /* literal_bits: STK__INFLATE_MERGED_BITS or STK__INFLATE_LITERAL_BITS */
    unsigned distance_bits, distance_rest; /* distance_bits: at most STK__INFLATE_DISTANCE_BITS */
    unsigned longest, shortest;            /* code of a literal or length; code of a literal */
    unsigned long_matches;      /* how many of 2^15 code words start with that of a match that is never merged */
    uint16_t literal_count[16]; /* literals by length of code */
    uint8_t lengths[128];       /* for the lengths of the codes */
    uint32_t steps[(2 << STK__INFLATE_MERGED_BITS) + 8]; /* tables for 0, 1, 2, ... bits while they are made */
    stk__inflate_codes literal_codes;
    stk__inflate_codes distance_codes;
} stk__inflate;

/* A stream, and what becomes of it. */
typedef struct stk__inflate_job {
    stk__inflate *tables;
    const uint8_t *in;
    size_t in_size;
    uint8_t *out;
    size_t stop; /* bytes that are wanted, at least 1; a few more may be written,
                  into the air behind them */
    /* set by the call */
    stk__inflate_result result;
    size_t out_size; /* bytes written, at most stop + STK__INFLATE_OUT_AIR */
} stk__inflate_job;

/* Inflates until the stream ends or `stop` bytes are written. */
void stk__inflate_zlib(stk__inflate_job *job);
/* Both, with the same results, in less time than one after the other. They
 * share nothing but maybe their input. */
void stk__inflate_zlib_pair(stk__inflate_job *a, stk__inflate_job *b);

#endif
