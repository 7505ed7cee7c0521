/* Debug annotations of a Perfetto trace: plain values as args, nested ones as JSON. */
#include <math.h>

#include "base/mem.h"
#include "trace/read_perfetto_impl.h"

#include "base/banned.h"

enum { JSON_MAX = 1 << 20, DEPTH_MAX = 64 };

/* ---- is it JSON? ---- */

typedef struct check {
    const uint8_t *p, *end;
} check;

static void check_space(check *c)
{
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\t' || *c->p == '\n' || *c->p == '\r'))
        c->p++;
}

static bool check_string(check *c)
{
    if (c->p >= c->end || *c->p != '"')
        return false;
    for (c->p++; c->p < c->end && *c->p != '"';) {
        if (*c->p == '\\') {
            if (c->end - c->p < 2 || !strchr("\"\\/bfnrtu", c->p[1]) || !c->p[1])
                return false;
            size_t digits = c->p[1] == 'u' ? 4 : 0;
            for (c->p += 2; digits; digits--, c->p++) {
                const uint8_t lower = c->p < c->end ? (uint8_t)(*c->p | 0x20) : 0;
                if (!((lower >= '0' && lower <= '9' && *c->p < ':') || (lower >= 'a' && lower <= 'f')))
                    return false;
            }
            continue;
        }
        const size_t length = *c->p < 0x20 ? 0 : stk__utf8_length(c->p, (size_t)(c->end - c->p));
        if (!length)
            return false;
        c->p += length;
    }
    return c->p++ < c->end;
}

static size_t check_digits(check *c)
{
    const uint8_t *start = c->p;
    while (c->p < c->end && *c->p >= '0' && *c->p <= '9')
        c->p++;
    return (size_t)(c->p - start);
}

static bool check_number(check *c)
{
    if (c->p < c->end && *c->p == '-')
        c->p++;
    const bool zero = c->p < c->end && *c->p == '0';
    const size_t whole = check_digits(c);
    if (!whole || (zero && whole > 1))
        return false;
    if (c->p < c->end && *c->p == '.') {
        c->p++;
        if (!check_digits(c))
            return false;
    }
    if (c->p < c->end && (*c->p | 0x20) == 'e') {
        c->p++;
        if (c->p < c->end && (*c->p == '+' || *c->p == '-'))
            c->p++;
        return check_digits(c) > 0;
    }
    return true;
}

static bool check_word(check *c, const char *word)
{
    const size_t size = strlen(word);
    if ((size_t)(c->end - c->p) < size || memcmp(c->p, word, size) != 0)
        return false;
    c->p += size;
    return true;
}

static bool check_scalar(check *c)
{
    if (c->p >= c->end)
        return false;
    if (*c->p == '"')
        return check_string(c);
    if (*c->p == '-' || (*c->p >= '0' && *c->p <= '9'))
        return check_number(c);
    return check_word(c, "true") || check_word(c, "false") || check_word(c, "null");
}

/* After '{' or ',' of an object: the key and its colon. */
static bool check_key(check *c)
{
    check_space(c);
    if (!check_string(c))
        return false;
    check_space(c);
    return c->p < c->end && *c->p++ == ':';
}

/* One value of any kind; a stack of bits instead of recursion. */
static bool is_json(stk__wire text)
{
    check c = {text.p, text.end};
    uint64_t objects = 0;
    int depth = 0;
    for (;;) {
        check_space(&c);
        const uint8_t open = c.p < c.end ? *c.p : 0;
        bool closed = true;
        if (open == '{' || open == '[') {
            if (depth == DEPTH_MAX)
                return false;
            objects = objects << 1 | (open == '{');
            depth++;
            c.p++;
            check_space(&c);
            if (!(c.p < c.end && *c.p == (open == '{' ? '}' : ']'))) {
                if (open == '{' && !check_key(&c))
                    return false;
                closed = false;
            }
        } else if (!check_scalar(&c)) {
            return false;
        }
        while (closed && depth) {
            check_space(&c);
            if (c.p >= c.end)
                return false;
            const uint8_t next = *c.p++;
            if (next == ',') {
                if (objects & 1 && !check_key(&c))
                    return false;
                closed = false;
            } else if (next == (objects & 1 ? '}' : ']')) {
                objects >>= 1;
                depth--;
            } else {
                return false;
            }
        }
        if (closed) {
            check_space(&c);
            return c.p == c.end;
        }
    }
}

/* ---- nested values ---- */

static void json_double(stk__text *t, double x)
{
    if (isfinite(x))
        stk__text_json_double(t, x);
    else
        stk__text_puts(t, isnan(x) ? "\"NaN\"" : x > 0 ? "\"Infinity\"" : "\"-Infinity\"");
}

static void json_string(pf_reader *r, stk__string s)
{
    size_t size;
    const char *text = stk__builder_get(r->b, s, &size);
    stk__text_json(&r->json, text, size);
}

static void json_wire(pf_reader *r, stk__wire text)
{
    stk__text_json(&r->json, (const char *)text.p, stk__wire_size(text));
}

/* Whether the text may grow. What is left out is noted once by the caller, as the text is then too long. */
static bool json_fits(const pf_reader *r)
{
    return r->json.length < JSON_MAX;
}

static void json_hex(stk__text *t, uint64_t x)
{
    stk__text_printf(t, "\"0x%llx\"", (unsigned long long)x);
}

/* A dict or an array: the value of an annotation, or nested in one. */
static void json_annotation(pf_reader *r, const pf_sequence *s, stk__wire arg, int depth);

static void json_entries(pf_reader *r, const pf_sequence *s, stk__wire arg, uint32_t kind, int depth)
{
    bool first = true;
    stk__field f = stk__fields(arg);
    stk__text_putc(&r->json, kind == ARG_DICT ? '{' : '[');
    while (stk__field_next(&f) && json_fits(r)) {
        if (f.number != kind || f.type != STK__WIRE_BYTES)
            continue;
        if (!first)
            stk__text_putc(&r->json, ',');
        first = false;
        if (kind == ARG_DICT) {
            bool named = false;
            stk__field name = stk__fields(f.bytes);
            while (!named && stk__field_next(&name)) {
                named = name.number == ARG_NAME_IID || (name.number == ARG_NAME_TEXT && name.type == STK__WIRE_BYTES);
                if (named && name.number == ARG_NAME_IID)
                    json_string(r, stk__pf_interned(r, s, INTERNED_ARG_NAME, name.value));
                else if (named)
                    json_wire(r, name.bytes);
            }
            stk__text_puts(&r->json, named ? ":" : "\"\":");
        }
        json_annotation(r, s, f.bytes, depth + 1);
    }
    stk__text_putc(&r->json, kind == ARG_DICT ? '}' : ']');
}

static void json_nested(pf_reader *r, stk__wire nested, int depth);

/* NestedValue has keys and values in two lists, which belong together by their order. */
static void json_nested_list(pf_reader *r, stk__wire nested, bool dict, int depth)
{
    bool first = true;
    stk__field keys = stk__fields(nested), values = keys;
    stk__text_putc(&r->json, dict ? '{' : '[');
    while (stk__field_next(&values) && json_fits(r)) {
        if (values.number != (dict ? NESTED_VALUE : NESTED_ARRAY) || values.type != STK__WIRE_BYTES)
            continue;
        if (!first)
            stk__text_putc(&r->json, ',');
        first = false;
        if (dict) {
            bool found = false;
            while (!found && stk__field_next(&keys))
                found = keys.number == NESTED_KEY && keys.type == STK__WIRE_BYTES;
            json_wire(r, found ? keys.bytes : (stk__wire){nested.p, nested.p});
            stk__text_putc(&r->json, ':');
        }
        json_nested(r, values.bytes, depth + 1);
    }
    stk__text_putc(&r->json, dict ? '}' : ']');
}

static void json_nested(pf_reader *r, stk__wire nested, int depth)
{
    uint64_t type = 0;
    const size_t before = r->json.length;
    if (depth >= DEPTH_MAX) {
        stk__pf_note(r, STK__REASON_TOO_DEEP);
        stk__text_puts(&r->json, "null");
        return;
    }
    stk__field f = stk__fields(nested);
    while (stk__field_next(&f)) {
        const bool written = r->json.length != before;
        if (f.number == NESTED_TYPE)
            type = f.value;
        else if (written)
            continue;
        else if (f.number == NESTED_INT)
            stk__text_printf(&r->json, "%lld", (long long)(int64_t)f.value);
        else if (f.number == NESTED_DOUBLE)
            json_double(&r->json, stk__field_double(f.value));
        else if (f.number == NESTED_BOOL)
            stk__text_puts(&r->json, f.value ? "true" : "false");
        else if (f.number == NESTED_STRING && f.type == STK__WIRE_BYTES)
            json_wire(r, f.bytes);
    }
    if (r->json.length != before)
        return;
    if (type == NESTED_DICT_TYPE || type == NESTED_ARRAY_TYPE)
        json_nested_list(r, nested, type == NESTED_DICT_TYPE, depth);
    else
        stk__text_puts(&r->json, "null");
}

static void json_annotation(pf_reader *r, const pf_sequence *s, stk__wire arg, int depth)
{
    const size_t before = r->json.length;
    uint32_t list = 0;
    if (depth >= DEPTH_MAX) {
        stk__pf_note(r, STK__REASON_TOO_DEEP);
        stk__text_puts(&r->json, "null");
        return;
    }
    stk__field f = stk__fields(arg);
    while (r->json.length == before && stk__field_next(&f)) {
        const bool bytes = f.type == STK__WIRE_BYTES;
        if (f.number == ARG_BOOL)
            stk__text_puts(&r->json, f.value ? "true" : "false");
        else if (f.number == ARG_UINT)
            stk__text_printf(&r->json, "%llu", (unsigned long long)f.value);
        else if (f.number == ARG_INT)
            stk__text_printf(&r->json, "%lld", (long long)(int64_t)f.value);
        else if (f.number == ARG_POINTER)
            json_hex(&r->json, f.value);
        else if (f.number == ARG_DOUBLE)
            json_double(&r->json, stk__field_double(f.value));
        else if (f.number == ARG_STRING_IID)
            json_string(r, stk__pf_interned(r, s, INTERNED_ARG_STRING, f.value));
        else if (f.number == ARG_STRING && bytes)
            json_wire(r, f.bytes);
        else if (f.number == ARG_JSON && bytes && is_json(f.bytes))
            stk__text_write(&r->json, f.bytes.p, stk__wire_size(f.bytes));
        else if (f.number == ARG_JSON && bytes)
            json_wire(r, f.bytes);
        else if (f.number == ARG_NESTED && bytes)
            json_nested(r, f.bytes, depth + 1);
        else if ((f.number == ARG_DICT || f.number == ARG_ARRAY) && bytes && !list)
            list = f.number;
    }
    if (r->json.length != before)
        return;
    if (list)
        json_entries(r, s, arg, list, depth);
    else
        stk__text_puts(&r->json, "null");
}

/* ---- args ---- */

/* Makes an arg of what json_annotation or json_nested have written to r->json. */
static void put_json(pf_reader *r, stk__string key)
{
    if (r->json.failed) {
        r->nomem = true;
    } else if (r->json.length >= JSON_MAX) {
        stk__pf_note(r, STK__REASON_TOO_LARGE);
        stk__builder_arg_null(r->b, key);
    } else {
        stk__builder_arg_json(r->b, key, stk__builder_string(r->b, r->json.data, r->json.length));
    }
}

static void put_text_arg(pf_reader *r, stk__string key, stk__wire text, bool json)
{
    const stk__string s = stk__pf_text(r, text);
    if (json && is_json(text))
        stk__builder_arg_json(r->b, key, s);
    else
        stk__builder_arg_string(r->b, key, s);
}

static void put_pointer(pf_reader *r, stk__string key, uint64_t x)
{
    char hex[24];
    stk__text text;
    stk__text_fixed(&text, hex, sizeof hex);
    stk__text_printf(&text, "0x%llx", (unsigned long long)x);
    stk__builder_arg_string(r->b, key, stk__builder_string(r->b, hex, text.length));
}

static void put_value(pf_reader *r, const pf_sequence *s, stk__string key, const stk__field *value, stk__wire arg)
{
    stk__builder *b = r->b;
    stk__text_reset(&r->json);
    switch (value->number) {
    case ARG_BOOL:
        stk__builder_arg_bool(b, key, value->value != 0);
        break;
    case ARG_UINT:
        stk__builder_arg_uint(b, key, value->value);
        break;
    case ARG_INT:
        stk__builder_arg_int(b, key, (int64_t)value->value);
        break;
    case ARG_DOUBLE:
        stk__builder_arg_double(b, key, stk__field_double(value->value));
        break;
    case ARG_POINTER:
        put_pointer(r, key, value->value);
        break;
    case ARG_STRING_IID:
        stk__builder_arg_string(b, key, stk__pf_interned(r, s, INTERNED_ARG_STRING, value->value));
        break;
    case ARG_STRING:
    case ARG_JSON:
        put_text_arg(r, key, value->bytes, value->number == ARG_JSON);
        break;
    case ARG_NESTED:
        json_nested(r, value->bytes, 0);
        put_json(r, key);
        break;
    case ARG_DICT:
    case ARG_ARRAY:
        json_annotation(r, s, arg, 0);
        put_json(r, key);
        break;
    case ARG_PROTO: /* a message whose schema would have to be at hand */
        stk__pf_note(r, STK__REASON_NO_PLACE);
        break;
    default:
        stk__builder_arg_null(b, key);
        break;
    }
}

static bool type_fits(const stk__field *f)
{
    switch (f->number) {
    case ARG_BOOL:
    case ARG_UINT:
    case ARG_INT:
    case ARG_POINTER:
    case ARG_STRING_IID:
        return f->type == STK__WIRE_VARINT;
    case ARG_DOUBLE:
        return f->type == STK__WIRE_FIXED64;
    case ARG_STRING:
    case ARG_JSON:
    case ARG_NESTED:
    case ARG_DICT:
    case ARG_ARRAY:
    case ARG_PROTO:
        return f->type == STK__WIRE_BYTES;
    default:
        return false;
    }
}

void stk__pf_arg(pf_reader *r, const pf_sequence *s, stk__wire arg)
{
    stk__string key = 0;
    stk__field value = {0};
    stk__field f = stk__fields(arg);
    while (stk__field_next(&f)) {
        if (f.number == ARG_NAME_IID && f.type == STK__WIRE_VARINT)
            key = stk__pf_interned(r, s, INTERNED_ARG_NAME, f.value);
        else if (f.number == ARG_NAME_TEXT && f.type == STK__WIRE_BYTES)
            key = stk__pf_text(r, f.bytes);
        else if (type_fits(&f))
            value = f;
    }
    if (f.bad)
        stk__pf_note(r, STK__REASON_SYNTAX);
    else
        put_value(r, s, key, &value, arg);
}
