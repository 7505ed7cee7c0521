/* Arrays and objects of tolerant JSON, written again as compact and valid JSON; without recursion. */
#include <inttypes.h>

#include "trace/json_lex.h"

#include "base/banned.h"

typedef struct nest {
    unsigned depth; /* open containers */
    bool after_key; /* a key and its colon were written */
    bool too_deep;
    uint64_t is_object[STK__JSON_DEPTH / 64];
} nest;

static bool in_object(const nest *n, unsigned depth)
{
    return depth && depth <= STK__JSON_DEPTH && (n->is_object[(depth - 1) / 64] >> ((depth - 1) % 64) & 1);
}

static void before_value(stk__lexer *x, nest *n)
{
    const char before = x->json.length ? x->json.data[x->json.length - 1] : '[';
    if (!n->after_key && before != '[' && before != '{')
        stk__text_putc(&x->json, ',');
    n->after_key = false;
}

static void nest_open(stk__lexer *x, nest *n, bool object)
{
    before_value(x, n);
    if (n->depth < STK__JSON_DEPTH) {
        const uint64_t bit = (uint64_t)1 << (n->depth % 64);
        n->is_object[n->depth / 64] = (n->is_object[n->depth / 64] & ~bit) | (object ? bit : 0);
        stk__text_putc(&x->json, object ? '{' : '[');
    } else {
        n->too_deep = true;
    }
    n->depth++;
    x->p++;
}

static stk__lex nest_close(stk__lexer *x, nest *n)
{
    const bool object = *x->p == '}';
    if (n->depth <= STK__JSON_DEPTH) {
        if (object != in_object(n, n->depth))
            return STK__LEX_BAD;
        if (n->after_key)
            stk__text_puts(&x->json, "null");
        stk__text_putc(&x->json, object ? '}' : ']');
    }
    n->after_key = false;
    n->depth--;
    x->p++;
    return STK__LEX_OK;
}

static stk__lex nest_key(stk__lexer *x, nest *n)
{
    const char *text = NULL;
    size_t size = 0;
    stk__lex result = stk__json_lex_string(x, STK__LEX_KEY, &text, &size);
    if (result != STK__LEX_OK)
        return result;
    /* An event inside an array inside an event: the array was cut off and another writer went on. */
    if (size == 2 && memcmp(text, "ph", 2) == 0 && n->depth >= 2 && !in_object(n, n->depth - 1))
        return STK__LEX_BAD;
    stk__json_lex_space(x);
    if (x->p == x->end)
        return stk__json_lex_end(x);
    if (*x->p != ':')
        return STK__LEX_BAD;
    x->p++;
    before_value(x, n);
    stk__text_json(&x->json, text, size);
    stk__text_putc(&x->json, ':');
    n->after_key = true;
    return STK__LEX_OK;
}

/* Whether the text is a number by JSON's own rules. */
static bool strict_number(const uint8_t *p, const uint8_t *end)
{
    p += p < end && *p == '-';
    const uint8_t *whole = p;
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    if (p == whole || (*whole == '0' && p - whole > 1))
        return false;
    if (p < end && *p == '.') {
        const uint8_t *fraction = ++p;
        while (p < end && *p >= '0' && *p <= '9')
            p++;
        if (p == fraction)
            return false;
    }
    return p == end || *p == 'e' || *p == 'E'; /* an exponent was read with its digits */
}

static void put_word(stk__lexer *x, const uint8_t *at, const char *text, size_t size)
{
    double value;
    if ((size == 4 && (memcmp(text, "true", 4) == 0 || memcmp(text, "null", 4) == 0)) ||
        (size == 5 && memcmp(text, "false", 5) == 0)) {
        stk__text_write(&x->json, text, size);
        return;
    }
    stk__lexer_note(x, STK__REASON_NUMBER, at);
    if (stk__json_word_double(text, size, &value))
        stk__text_puts(&x->json, "null");
    else
        stk__text_json(&x->json, text, size);
}

static stk__lex nest_scalar(stk__lexer *x, nest *n)
{
    const uint8_t *at = x->p;
    const char *text = NULL;
    size_t size = 0;
    stk__json_number number;
    if (*at == '"') {
        const stk__json_lex_place place = n->depth > STK__JSON_DEPTH ? STK__LEX_ALONE
                                     : in_object(n, n->depth)   ? STK__LEX_IN_OBJECT
                                                                : STK__LEX_IN_ARRAY;
        const stk__lex result = stk__json_lex_string(x, place, &text, &size);
        if (result != STK__LEX_OK)
            return result;
        before_value(x, n);
        stk__text_json(&x->json, text, size);
        return STK__LEX_OK;
    }
    stk__lex result = stk__json_lex_number(x, &number);
    if (result == STK__LEX_BAD && !x->cut)
        result = stk__json_lex_word(x, &text, &size);
    if (result != STK__LEX_OK)
        return result;
    before_value(x, n);
    if (text)
        put_word(x, at, text, size);
    else if (strict_number(at, x->p))
        stk__text_write(&x->json, at, (size_t)(x->p - at));
    else
        stk__text_printf(&x->json, "%s%" PRIu64 "e%" PRId32, number.negative ? "-" : "", number.digits,
                         number.exponent);
    return STK__LEX_OK;
}

/* One lexeme of a nested value. */
static stk__lex nest_step(stk__lexer *x, nest *n)
{
    const uint8_t c = *x->p;
    const bool shallow = n->depth <= STK__JSON_DEPTH;
    const bool wants_key = shallow && in_object(n, n->depth) && !n->after_key;
    if (c == '}' || c == ']')
        return nest_close(x, n);
    if (c == ':' && !shallow) {
        x->p++;
        return STK__LEX_OK;
    }
    if (wants_key)
        return c == '"' ? nest_key(x, n) : STK__LEX_BAD;
    if (c == '{' || c == '[') {
        nest_open(x, n, c == '{');
        return STK__LEX_OK;
    }
    return nest_scalar(x, n);
}

stk__lex stk__json_lex_nested(stk__lexer *x)
{
    const uint8_t *open = x->p;
    nest n = {0};
    stk__lex result = STK__LEX_OK;
    stk__text_reset(&x->json);
    nest_open(x, &n, *open == '{');
    while (n.depth && result == STK__LEX_OK) {
        while (x->p < x->end && (stk__json_space(*x->p) || (*x->p == ',' && !n.after_key)))
            x->p++;
        if (n.too_deep)
            stk__text_reset(&x->json);
        result = x->p == x->end ? stk__json_lex_end(x) : nest_step(x, &n);
    }
    if (result == STK__LEX_OK && n.too_deep) {
        stk__lexer_note(x, STK__REASON_TOO_DEEP, open);
        stk__text_reset(&x->json);
        stk__text_puts(&x->json, "null");
    }
    if (x->json.failed) {
        x->failed = true;
        result = STK__LEX_BAD;
    }
    if (result != STK__LEX_OK) {
        if (!x->far || x->far < x->p)
            x->far = x->p;
        x->p = open;
    }
    return result;
}
