/* Numbers and bare words of tolerant JSON: how they are read, and what they are worth. */
#include <inttypes.h>
#include <stdio.h>

#include "trace/json_lex.h"

#include "base/banned.h"

enum { WORD_MAX = 64, EXPONENT_MAX = 1000000 };

/* Takes digits into the number; those behind the point lower the exponent. Returns how many there were. */
static size_t take_digits(const uint8_t **pp, const uint8_t *end, stk__json_number *n, bool fraction)
{
    const uint8_t *p = *pp;
    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        const unsigned d = *p - '0';
        uint64_t next;
        if (!n->cut && !__builtin_mul_overflow(n->digits, 10, &next) && !__builtin_add_overflow(next, d, &next)) {
            n->digits = next;
            n->exponent -= fraction;
        } else if (fraction && d == 0 && !n->cut) {
            continue; /* zeros at the end say nothing */
        } else {
            n->cut = true;
            n->exponent += !fraction;
        }
    }
    const size_t count = (size_t)(p - *pp);
    *pp = p;
    return count;
}

static const uint8_t *take_exponent(const uint8_t *p, const uint8_t *end, stk__json_number *n)
{
    const uint8_t *q = p + 1;
    const bool negative = q < end && *q == '-';
    int32_t value = 0;
    if (q < end && (*q == '-' || *q == '+'))
        q++;
    if (q == end || *q < '0' || *q > '9')
        return p;
    for (; q < end && *q >= '0' && *q <= '9'; q++)
        value = value < EXPONENT_MAX ? value * 10 + (*q - '0') : EXPONENT_MAX;
    n->exponent += negative ? -value : value;
    return q;
}

const uint8_t *stk__json_number_at(const uint8_t *p, const uint8_t *end, stk__json_number *out)
{
    stk__json_number n = {0};
    if (p < end && (*p == '-' || *p == '+'))
        n.negative = *p++ == '-';
    size_t digits = take_digits(&p, end, &n, false);
    if (p < end && *p == '.') {
        p++;
        digits += take_digits(&p, end, &n, true);
    }
    if (!digits)
        return NULL;
    if (p < end && (*p == 'e' || *p == 'E'))
        p = take_exponent(p, end, &n);
    *out = n;
    return p;
}

static bool word_byte(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("_./+-#", c));
}

stk__lex stk__json_lex_number(stk__lexer *x, stk__json_number *out)
{
    const uint8_t *p = stk__json_number_at(x->p, x->end, out);
    if (p == x->end && !x->last)
        return STK__LEX_MORE;
    if (!p || (p < x->end && word_byte(*p)))
        return !p && x->end - x->p < 2 ? stk__json_lex_end(x) : STK__LEX_BAD;
    x->p = p;
    return STK__LEX_OK;
}

stk__lex stk__json_lex_word(stk__lexer *x, const char **out_text, size_t *out_size)
{
    const uint8_t *p = x->p;
    while (p < x->end && word_byte(*p) && p - x->p <= WORD_MAX)
        p++;
    if (p == x->end && p - x->p <= WORD_MAX)
        return stk__json_lex_end(x);
    if (p == x->p || p - x->p > WORD_MAX)
        return STK__LEX_BAD;
    *out_text = (const char *)x->p;
    *out_size = (size_t)(p - x->p);
    x->p = p;
    return STK__LEX_OK;
}

/* ---- values of numbers ---- */

static const uint64_t powers[20] = {1u,
                                    10u,
                                    100u,
                                    1000u,
                                    10000u,
                                    100000u,
                                    1000000u,
                                    10000000u,
                                    100000000u,
                                    1000000000u,
                                    10000000000u,
                                    100000000000u,
                                    1000000000000u,
                                    10000000000000u,
                                    100000000000000u,
                                    1000000000000000u,
                                    10000000000000000u,
                                    100000000000000000u,
                                    1000000000000000000u,
                                    10000000000000000000u};

/* The absolute value times 10^power, cut to an integer, and what is left: -1 below a half, 0 a half, 1 above; 2: nothing. */
static bool scale(const stk__json_number *n, int power, uint64_t *out, int *out_rest)
{
    const int64_t e = (int64_t)n->exponent + power;
    *out_rest = n->cut ? -1 : 2;
    *out = n->digits;
    if (n->digits == 0 || e == 0)
        return true;
    if (e > 0)
        return e < 20 && !__builtin_mul_overflow(n->digits, powers[e], out);
    if (e < -19) {
        *out = 0;
        *out_rest = -1;
        return true;
    }
    const uint64_t d = powers[-e], rest = n->digits % d;
    *out = n->digits / d;
    if (rest)
        *out_rest = rest > d - rest ? 1 : rest < d - rest ? -1 : n->cut ? 1 : 0;
    return true;
}

static bool signed_value(uint64_t value, bool negative, int64_t *out)
{
    if (value > (uint64_t)INT64_MAX + negative)
        return false;
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

bool stk__json_scaled(const stk__json_number *n, int power, int64_t *out, bool *out_rounded)
{
    uint64_t value;
    int rest;
    if (!scale(n, power, &value, &rest))
        return false;
    if (out_rounded)
        *out_rounded = rest != 2;
    if ((rest == 1 || (rest == 0 && !n->negative)) && __builtin_add_overflow(value, 1, &value))
        return false;
    return signed_value(value, n->negative, out);
}

bool stk__json_int64(const stk__json_number *n, int64_t *out)
{
    uint64_t value;
    int rest;
    return scale(n, 0, &value, &rest) && rest == 2 && signed_value(value, n->negative, out);
}

double stk__json_double(const stk__json_number *n, const char *text, size_t size)
{
    static const double exact[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    char buffer[512];
    if (!n->cut && n->digits <= (uint64_t)1 << 53 && n->exponent >= -22 && n->exponent <= 22) {
        const double d = (double)n->digits;
        const double value = n->exponent < 0 ? d / exact[-n->exponent] : d * exact[n->exponent];
        return n->negative ? -value : value;
    }
    if (size < sizeof buffer) {
        memcpy(buffer, text, size);
        buffer[size] = 0;
    } else {
        snprintf(buffer, sizeof buffer, "%s%" PRIu64 "e%" PRId32, n->negative ? "-" : "", n->digits, n->exponent);
    }
    return stk__strtod(buffer, NULL);
}

bool stk__json_parse_number(const char *text, size_t size, stk__json_number *out)
{
    const uint8_t *p = (const uint8_t *)text, *end = p + size;
    p = stk__json_skip_space(p, end);
    p = stk__json_number_at(p, end, out);
    return p && stk__json_skip_space(p, end) == end;
}

bool stk__json_word_double(const char *text, size_t size, double *out)
{
    static const struct {
        const char *name;
        double value;
    } words[] = {{"nan", __builtin_nan("")}, {"inf", __builtin_inf()}, {"infinity", __builtin_inf()}};
    const bool negative = size && text[0] == '-';
    if (size && (text[0] == '-' || text[0] == '+')) {
        text++;
        size--;
    }
    for (size_t i = 0; i < STK_COUNT(words); i++) {
        if (size != strlen(words[i].name))
            continue;
        size_t same = 0;
        while (same < size && (text[same] | 0x20) == words[i].name[same])
            same++;
        if (same == size) {
            *out = negative ? -words[i].value : words[i].value;
            return true;
        }
    }
    return false;
}
