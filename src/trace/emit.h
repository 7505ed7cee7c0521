/* Text at speed: numbers, times and JSON appended to a stk__text without printf. For loops over millions of rows. */
#ifndef STK_TRACE_EMIT_H
#define STK_TRACE_EMIT_H

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "trace/model.h"

/*
 * Room for `size` bytes behind the text, whose length the caller moves on; NULL once memory has run out. The NUL that
 * stk__text promises is not kept up: these texts go to a sink by their length.
 */
static inline char *stk__emit_room(stk__text *t, size_t size)
{
    if (STK_UNLIKELY(t->failed))
        return NULL;
    if (STK_UNLIKELY(t->capacity - t->length <= size)) {
        if (size > SIZE_MAX / 4 - t->length || !stk__grow((void **)&t->data, &t->capacity, t->length + size + 1, 1)) {
            t->failed = true;
            return NULL;
        }
    }
    return t->data + t->length;
}

static inline void stk__emit_bytes(stk__text *t, const char *text, size_t size)
{
    char *to = stk__emit_room(t, size);
    if (to && size) {
        memcpy(to, text, size);
        t->length += size;
    }
}

static inline void stk__emit_char(stk__text *t, char c)
{
    char *to = stk__emit_room(t, 1);
    if (to) {
        *to = c;
        t->length++;
    }
}

/* A text in quotes, whose length the compiler knows. */
#define STK__EMIT(t, literal) stk__emit_bytes((t), literal, sizeof(literal) - 1)

/* Digits from `end` backwards; returns where they start. */
static inline char *stk__emit_digits(char *end, uint64_t n)
{
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748"
        "4950515253545556575859606162636465666768697071727374757677787980818283848586878889909192939495969798"
        "99";
    while (n >= 100) {
        end -= 2;
        memcpy(end, pairs + n % 100 * 2, 2);
        n /= 100;
    }
    if (n >= 10) {
        end -= 2;
        memcpy(end, pairs + n * 2, 2);
    } else {
        *--end = (char)('0' + n);
    }
    return end;
}

static inline void stk__emit_uint(stk__text *t, uint64_t n)
{
    char digits[20];
    const char *from = stk__emit_digits(digits + sizeof digits, n);
    stk__emit_bytes(t, from, (size_t)(digits + sizeof digits - from));
}

static inline void stk__emit_int(stk__text *t, int64_t n)
{
    if (n < 0)
        stk__emit_char(t, '-');
    stk__emit_uint(t, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
}

/* ns as microseconds: whole ones as an integer, others with three decimals. Nothing is rounded. */
static inline void stk__emit_us(stk__text *t, int64_t ns)
{
    const uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    const unsigned rest = (unsigned)(size % 1000);
    if (ns < 0)
        stk__emit_char(t, '-');
    stk__emit_uint(t, size / 1000);
    if (rest) {
        const char decimals[4] = {'.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10), (char)('0' + rest % 10)};
        stk__emit_bytes(t, decimals, sizeof decimals);
    }
}

/* Bits set where a byte must be escaped in JSON, or may have to: quotes, backslash, control bytes, all but ASCII. */
static inline uint64_t stk__emit_odd_bytes(uint64_t w)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = UINT64_C(0x8080808080808080);
    const uint64_t quote = w ^ ones * '"', slash = w ^ ones * '\\', del = w ^ ones * 0x7f;
    const uint64_t low = (w - ones * 0x20) & ~w;
    return (w | low | ((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((del - ones) & ~del)) & highs;
}

/* As stk__text_json: a JSON string with its quotes. */
static inline void stk__emit_json(stk__text *t, const char *text, size_t size)
{
    char *to = stk__emit_room(t, size + 2);
    if (!to)
        return;
    *to++ = '"';
    size_t at = 0;
    for (; at + 8 <= size; at += 8) {
        uint64_t w;
        memcpy(&w, text + at, 8);
        if (stk__emit_odd_bytes(w))
            break;
        memcpy(to + at, &w, 8);
    }
    for (; at < size && text[at] >= 0x20 && text[at] != '"' && text[at] != '\\' && text[at] != 0x7f; at++)
        to[at] = text[at];
    if (at < size) { /* length has not moved: what was copied is written over */
        stk__text_json(t, text, size);
        return;
    }
    to[at] = '"';
    t->length += size + 2;
}

static inline void stk__emit_json_string(stk__text *t, const stk__trace *trace, stk__string s)
{
    size_t size;
    const char *text = stk__trace_text(trace, s, &size);
    stk__emit_json(t, text, size);
}

/*
 * A finite double that reads back as the same one. n / 10^k is rounded right when both are exact, and so is the decimal
 * that readers see: where the quotient is x, its few digits are enough, and printf is not needed.
 */
static inline void stk__emit_double(stk__text *t, double x)
{
    static const double powers[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9};
    const double size = fabs(x);
    for (size_t k = 0; k < STK_COUNT(powers) && size * powers[k] < 9e15; k++) {
        const double n = nearbyint(size * powers[k]);
        if (n / powers[k] != size)
            continue;
        char digits[40];
        char *from = digits + sizeof digits;
        uint64_t whole = (uint64_t)n;
        for (size_t i = 0; i < k; i++, whole /= 10)
            *--from = (char)('0' + whole % 10);
        if (k)
            *--from = '.';
        from = stk__emit_digits(from, whole);
        if (signbit(x))
            *--from = '-';
        stk__emit_bytes(t, from, (size_t)(digits + sizeof digits - from));
        return;
    }
    stk__text_json_double(t, x);
}

/* JSON has no word for these, so they are texts. */
static inline void stk__emit_json_double(stk__text *t, double x)
{
    if (isnan(x))
        STK__EMIT(t, "\"NaN\"");
    else if (isinf(x))
        stk__emit_bytes(t, x > 0 ? "\"Infinity\"" : "\"-Infinity\"", x > 0 ? 10 : 11);
    else
        stk__emit_double(t, x);
}

/* JSON that lies in the model, on one line. A raw line break is never inside a JSON string. */
void stk__emit_json_verbatim(stk__text *t, const char *json, size_t size);
/* The value of one row of the args. Doubles keep their point: 5.0 comes back as a double. */
void stk__emit_arg_value(stk__text *t, const stk__trace *trace, size_t row);
/* A set of args as an object; "{}" for none. */
void stk__emit_args(stk__text *t, const stk__trace *trace, uint32_t first);

/* Row behind the last of the set that starts at `first`; args.count at the latest. */
static inline size_t stk__args_end(const stk__trace *trace, uint32_t first)
{
    size_t row = first;
    if (first == 0)
        return 0;
    while (row < trace->args.count && !(trace->args.type[row] & STK__ARG_LAST))
        row++;
    return row < trace->args.count ? row + 1 : row;
}

#endif
