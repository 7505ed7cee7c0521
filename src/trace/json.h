/*
 * A streaming JSON scanner over an input: one token at a time, in bounded memory, tolerant of what writers of traces get wrong.
 *
 * What a caller may rely on, whatever the bytes are: inside an object come KEY, value, KEY, value..., then OBJECT_END; inside an array
 * values, then ARRAY_END; every container that was opened is closed, also when the file is cut off; then END, again and again. What is
 * put right on the way is noted in the builder with its offset: missing values are NULL, broken text is U+FFFD, a quote that was not
 * escaped stays in its string, stray bytes and closers are left out. Missing and trailing commas are not worth a note.
 *
 *     stk__json j;
 *     stk__json_init(&j, builder, input);
 *     if (stk__json_next(&j) == STK__JSON_OBJECT) {
 *         while (stk__json_next(&j) == STK__JSON_KEY) {
 *             if (stk__json_is(&j, "frames"))
 *                 read_frames(&j);          // takes exactly one value: next() gives its first token
 *             else
 *                 stk__json_skip(&j);       // after KEY: leaves its value out, however large
 *         }
 *     }
 *     stk_status status = stk__json_status(&j, err); // out of memory, cancelled, or OK
 *     stk__json_clear(&j);
 */
#ifndef STK_TRACE_JSON_H
#define STK_TRACE_JSON_H

#include "trace/builder.h"
#include "trace/input.h"

typedef enum stk__json_kind {
    STK__JSON_END,
    STK__JSON_OBJECT,
    STK__JSON_OBJECT_END,
    STK__JSON_ARRAY,
    STK__JSON_ARRAY_END,
    STK__JSON_KEY,
    STK__JSON_STRING,
    STK__JSON_NUMBER,
    STK__JSON_TRUE,
    STK__JSON_FALSE,
    STK__JSON_NULL,
    STK__JSON_WORD, /* NaN, Infinity, -inf, N/A, ...: no JSON, noted as NUMBER */
} stk__json_kind;

/* A number as it was written: (negative ? -1 : 1) * digits * 10^exponent. */
typedef struct stk__json_number {
    uint64_t digits;
    int32_t exponent;
    bool negative;
    bool cut; /* more digits than 64 bits hold: the last ones are missing in `digits` */
} stk__json_number;

enum {
    STK__JSON_DEPTH = 1024,         /* what is nested deeper is left out as NULL and noted as TOO_DEEP */
    STK__JSON_TOKEN_MAX = 32 << 20, /* a longer string is left out as "" and noted as TOO_LARGE */
};

typedef struct stk__json {
    /* the last token */
    stk__json_kind kind;
    const char *
        text; /* KEY, STRING: decoded and valid UTF-8; NUMBER, WORD: as written. No NUL behind it. Until the next call. */
    size_t size;
    stk__json_number number; /* NUMBER */
    int64_t offset;          /* of its first byte */
    unsigned depth;          /* containers open after it */

    /* the scanner's own */
    stk__builder *builder;
    stk__input *in;
    const uint8_t *p, *window, *end;
    int64_t window_offset;
    bool last, after_key, held, cut;
    stk_status status;
    stk_error error;
    unsigned objects; /* of the open containers */
    struct stk__lexer *lexer;
    uint64_t is_object[STK__JSON_DEPTH / 64];
} stk__json;

/* Starts at the input's current place. A failure to allocate is told by stk__json_status; the first token is END then. */
void stk__json_init(stk__json *j, stk__builder *builder, stk__input *in);
/* Frees, and leaves the input behind the last token. */
void stk__json_clear(stk__json *j);

stk__json_kind stk__json_next(stk__json *j);
/* After KEY: leaves its value out. After OBJECT or ARRAY: goes behind its end. After anything else: does nothing. */
void stk__json_skip(stk__json *j);
/* Whether the last KEY or STRING is this text. */
bool stk__json_is(const stk__json *j, const char *text);
/* STK_OK, or what stopped the scanner early (next() then gave END): no memory, or stk__reader_progress said stop. */
stk_status stk__json_status(const stk__json *j, stk_error *err);

/* Leaves the input behind the last token, so that others can read from it; next() goes on from where they leave it. */
void stk__json_release(stk__json *j);

/* The number times 10^power as an integer, rounded half up; *out_rounded (may be NULL) tells. False: past int64. */
bool stk__json_scaled(const stk__json_number *n, int power, int64_t *out, bool *out_rounded);
/* False when it is no integer, or past int64. 12.0 and 1e3 are integers. */
bool stk__json_int64(const stk__json_number *n, int64_t *out);
/* The nearest double; `text` is how it was written. */
double stk__json_double(const stk__json_number *n, const char *text, size_t size);
/* Reads all of `text` as a number; false when it is none. For numbers that come as strings. */
bool stk__json_parse_number(const char *text, size_t size, stk__json_number *out);
/* The value of a word such as NaN, -inf or Infinity, in any case; false for others (N/A). */
bool stk__json_word_double(const char *text, size_t size, double *out);

#endif
