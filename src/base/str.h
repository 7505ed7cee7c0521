/* Text: a growing or fixed builder, escaping, number and size formats, nearest-name search. */
#ifndef STK_BASE_STR_H
#define STK_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* A text that grows on the heap, or is cut at the end of a fixed buffer. Always NUL-terminated once written to. */
typedef struct stk__text {
    char *data;
    size_t length, capacity;
    bool fixed;  /* data is the caller's, never grown */
    bool failed; /* memory ran out or the fixed buffer was full; later writes are ignored */
} stk__text;

#define STK__TEXT_INIT {0}

void stk__text_fixed(stk__text *t, char *buffer, size_t size);
void stk__text_clear(stk__text *t); /* frees; usable again */
void stk__text_reset(stk__text *t); /* empties, keeps the memory */
void stk__text_putc(stk__text *t, char c);
void stk__text_puts(stk__text *t, const char *s);
void stk__text_write(stk__text *t, const void *data, size_t size);
void stk__text_printf(stk__text *t, const char *format, ...) STK_PRINTF(2, 3);
/* Puts text before the message of an error; what is too long is cut off at its end. err may be NULL. */
void stk__error_prefix(stk_error *err, const char *format, ...) STK_PRINTF(2, 3);
/* A JSON string with its quotes; bytes that are not UTF-8 become U+FFFD, what is not to be seen \uNNNN. */
void stk__text_json(stk__text *t, const char *s, size_t size);
void stk__text_json_str(stk__text *t, const char *s);
/* A JSON number that reads back as the same double; NaN and infinities become null. */
void stk__text_json_double(stk__text *t, double x);
/* A field of CSV (RFC 4180): in quotes where it has to be, or where spaces stand at its ends. */
void stk__text_csv(stk__text *t, const char *s, size_t size);
/*
 * The same for whoever opens the file in a spreadsheet: what that would take for a formula (=, +, -, @, TAB or CR first, and no
 * number) gets an apostrophe before it. Returns whether it did.
 */
bool stk__text_csv_safe(stk__text *t, const char *s, size_t size);
/* A string as pipeline text: quotes, backslash escapes. */
void stk__text_quote(stk__text *t, const char *s);
/* "1.5 GiB", "312 MiB", "17 B" */
void stk__text_bytes(stk__text *t, uint64_t bytes);

/* Length of the valid UTF-8 sequence at s, or 0. Rejects overlong forms, surrogates and values past U+10FFFF. */
size_t stk__utf8_length(const unsigned char *s, size_t left);

/* Copies with control characters, marks that turn text around and what has no width as \xNN; cut at size. Returns the
   length that was needed. */
size_t stk__escape_terminal(const char *in, char *out, size_t size);

/* "256M", "1.5GiB", "4096" -> bytes. K, M, G, T are powers of 1024. Returns false on anything else. */
bool stk__parse_size(const char *s, uint64_t *out);
/* "5ms", "1.5s", "200us", "10ns", "2m" -> ns. A bare number is seconds. */
bool stk__parse_duration(const char *s, int64_t *out_ns);
bool stk__parse_int64(const char *s, int64_t *out);
/* strtod with a decimal point whatever the locale. */
double stk__strtod(const char *s, char **end);

/* The candidate closest to `word` by edit distance when close enough to be a likely typo, else NULL. */
const char *stk__nearest(const char *word, const char *const *candidates, size_t count);

#endif
