/* Scanning of numbers and quoted strings. */
#include "engine/lex.h"

#include <math.h>
#include <string.h>

#include "base/str.h"

#include "base/banned.h"

enum { NUMBER_MAX = 64 };

bool stk__lex_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool stk__lex_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool stk__lex_name_char(char c)
{
    return stk__lex_name_start(c) || stk__lex_digit(c);
}

/* The value of a digit in base 16, or -1. */
static int hex_value(char c)
{
    if (stk__lex_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static bool is_hex(const char *s, size_t size)
{
    return size >= 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
}

/* Everything that touches a number belongs to it, so that "12ab" is one wrong number and not a number and a name. */
static size_t number_length(const char *s, size_t size)
{
    const bool hex = is_hex(s, size);
    size_t n = 0;
    while (n < size) {
        const bool sign = n > 0 && !hex && (s[n] == '+' || s[n] == '-') && (s[n - 1] == 'e' || s[n - 1] == 'E');
        if (!stk__lex_name_char(s[n]) && s[n] != '.' && !sign)
            break;
        n++;
    }
    return n;
}

/* Digits with single underscores between them. Returns BAD, RANGE or INT. */
static stk__number_kind read_int(const char *s, size_t size, bool negative, int64_t *out)
{
    const bool hex = is_hex(s, size);
    const uint64_t base = hex ? 16 : 10;
    const uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX;
    uint64_t x = 0;
    bool over = false, digit_before = false;
    for (size_t i = hex ? 2 : 0; i < size; i++) {
        if (s[i] == '_') {
            if (!digit_before || i + 1 == size)
                return STK__NUMBER_BAD;
            digit_before = false;
            continue;
        }
        const int digit = hex_value(s[i]);
        if (digit < 0 || (uint64_t)digit >= base)
            return STK__NUMBER_BAD;
        digit_before = true;
        if (!over && x > (limit - (uint64_t)digit) / base)
            over = true;
        if (!over)
            x = x * base + (uint64_t)digit;
    }
    if (!digit_before)
        return STK__NUMBER_BAD;
    if (over)
        return STK__NUMBER_RANGE;
    /* The detour over -1 keeps the smallest integer clear of overflow. */
    *out = !negative ? (int64_t)x : x ? -(int64_t)(x - 1) - 1 : 0;
    return STK__NUMBER_INT;
}

/* [digits] [. digits] [e [sign] digits], with at least one digit before the exponent. */
static bool is_float(const char *s)
{
    size_t digits = 0;
    for (; stk__lex_digit(*s); s++)
        digits++;
    if (*s == '.')
        for (s++; stk__lex_digit(*s); s++)
            digits++;
    if (!digits)
        return false;
    if (*s == 'e' || *s == 'E') {
        s++;
        if (*s == '+' || *s == '-')
            s++;
        if (!stk__lex_digit(*s))
            return false;
        while (stk__lex_digit(*s))
            s++;
    }
    return *s == 0;
}

stk__number stk__lex_number(const char *s, size_t size, bool negative)
{
    stk__number n = {.kind = STK__NUMBER_BAD, .length = number_length(s, size)};
    n.kind = read_int(s, n.length, negative, &n.integer);
    if (n.kind == STK__NUMBER_INT)
        n.number = (double)n.integer;
    char copy[NUMBER_MAX];
    if (n.kind != STK__NUMBER_BAD || is_hex(s, n.length) || n.length >= sizeof copy)
        return n;
    memcpy(copy, s, n.length);
    copy[n.length] = 0;
    uint64_t bytes;
    int64_t ns;
    if (is_float(copy)) {
        const double x = stk__strtod(copy, NULL);
        n.kind = isfinite(x) ? STK__NUMBER_FLOAT : STK__NUMBER_RANGE;
        n.number = negative ? -x : x;
    } else if (!negative && (stk__parse_size(copy, &bytes) || stk__parse_duration(copy, &ns))) {
        n.kind = STK__NUMBER_UNIT;
    }
    return n;
}

/* The byte that the escape after a backslash stands for, or -1. *used: bytes after the backslash. */
static int unescape(const char *s, size_t size, size_t *used)
{
    *used = 1;
    if (size == 0)
        return -1;
    switch (s[0]) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'r':
        return '\r';
    case '\\':
    case '"':
    case '\'':
        return (unsigned char)s[0];
    case 'x':
        if (size < 3 || hex_value(s[1]) < 0 || hex_value(s[2]) < 0)
            return -1;
        *used = 3;
        return hex_value(s[1]) * 16 + hex_value(s[2]);
    default:
        return -1;
    }
}

stk__quoted stk__lex_string(const char *s, size_t size, char *out)
{
    stk__quoted q = {.length = 1};
    while (q.length < size && s[q.length] != s[0]) {
        const char c = s[q.length];
        if (c == '\n' || c == '\r' || c == 0)
            break;
        if (c != '\\') {
            out[q.size++] = c;
            q.length++;
            continue;
        }
        size_t used;
        const int byte = unescape(s + q.length + 1, size - q.length - 1, &used);
        if (byte < 0) {
            q.problem = "unknown escape, wanted one of \\n \\t \\r \\\\ \\\" \\' \\xNN";
            return q;
        }
        out[q.size++] = (char)byte;
        q.length += 1 + used;
    }
    if (q.length >= size || s[q.length] != s[0])
        q.problem = "string without closing quote";
    else
        q.length++;
    return q;
}
