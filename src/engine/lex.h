/* Numbers and quoted strings, as pipeline text and filter expressions share them. */
#ifndef STK_ENGINE_LEX_H
#define STK_ENGINE_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum stk__number_kind {
    STK__NUMBER_INT,
    STK__NUMBER_FLOAT,
    STK__NUMBER_UNIT,  /* 256M, 1.5GiB, 5ms: a number with a unit of size or time */
    STK__NUMBER_RANGE, /* well formed, but too large */
    STK__NUMBER_BAD
} stk__number_kind;

typedef struct stk__number {
    stk__number_kind kind;
    size_t length;   /* bytes that belong to it, also when it is bad */
    int64_t integer; /* INT */
    double number;   /* INT and FLOAT */
} stk__number;

/* Letters, digits and underscore; a name does not start with a digit. ASCII alone, whatever the locale. */
bool stk__lex_name_start(char c);
bool stk__lex_name_char(char c);
bool stk__lex_digit(char c);

/*
 * Reads the number at the start of s, which must begin with a digit, or a dot and a digit. `negative`: a minus sign
 * stood before it, which only counts for the range and the result. 1_000, 0x1f, 1.5, 1e-3, 256M, 5ms.
 */
stk__number stk__lex_number(const char *s, size_t size, bool negative);

typedef struct stk__quoted {
    const char *problem; /* NULL: fine; else what is wrong, and `length` is where */
    size_t length;       /* bytes of input, both quotes included */
    size_t size;         /* bytes written to out */
} stk__quoted;

/*
 * Reads the "..." or '...' at the start of s, with \n \t \r \\ \" \' and \xNN. `out` has room for `size` bytes, as the
 * result is never longer than the input.
 */
stk__quoted stk__lex_string(const char *s, size_t size, char *out);

#endif
