/* The compiler of filter expressions: recursive descent that checks types and emits code as it goes. */
#include <string.h>

#include "base/mem.h"
#include "engine/expr_code.h"
#include "engine/lex.h"

#include "base/banned.h"

enum { MAX_DEPTH = 64, MAX_BYTES = 65536 };

typedef enum token_kind { TOKEN_END, TOKEN_NAME, TOKEN_QUOTED_NAME, TOKEN_NUMBER, TOKEN_STRING, TOKEN_SIGN } token_kind;

typedef struct token {
    token_kind kind;
    const char *start;
    size_t length;
} token;

typedef struct compiler {
    const char *text, *end;
    token tok; /* the token that comes next */
    int depth;
    size_t stacked; /* values on the stack at this point of the code */
    size_t strings_used;
    char *name; /* room for any name of the text */
    stk__expr *expr;
    stk__expr_lookup lookup;
    void *arg;
    stk_error *err;
} compiler;

static const char *type_name(stk__expr_type type)
{
    static const char *const names[] = {"bool", "int", "float", "bytes"};
    return names[type];
}

static bool is_number(stk__expr_type type)
{
    return type == STK__EXPR_INT || type == STK__EXPR_FLOAT;
}

int stk__expr_column(const char *text, size_t offset)
{
    int column = 1;
    for (size_t i = 0; i < offset; i++)
        column += ((unsigned char)text[i] & 0xc0) != 0x80;
    return column;
}

/* Sets the column of an error that was just written. */
static stk_status fail_at(compiler *c, const char *at)
{
    if (c->err)
        c->err->column = stk__expr_column(c->text, (size_t)(at - c->text));
    return STK_INVALID;
}

/* ---- tokens ---- */

static size_t sign_length(const char *p)
{
    static const char *const pairs[] = {"==", "!=", "<=", ">=", "&&", "||"};
    for (size_t i = 0; i < STK_COUNT(pairs); i++)
        if (strncmp(p, pairs[i], 2) == 0)
            return 2;
    size_t n = 1;
    while (((unsigned char)p[n] & 0xc0) == 0x80 && n < 4)
        n++;
    return n;
}

/* Length of the quoted text at p, or 0 when it is not closed. */
static size_t quoted_length(const compiler *c, const char *p)
{
    for (const char *q = p + 1; q < c->end && *q != '\n'; q++) {
        if (*q == *p)
            return (size_t)(q - p) + 1;
        if (*q == '\\' && *p != '`')
            q++;
    }
    return 0;
}

/* Replaces c->tok by the token after it. */
static stk_status scan(compiler *c)
{
    const char *p = c->tok.start + c->tok.length;
    while (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')
        p++;
    token *t = &c->tok;
    *t = (token){.kind = TOKEN_END, .start = p};
    if (!*p)
        return STK_OK;
    if (stk__lex_name_start(*p)) {
        t->kind = TOKEN_NAME;
        while (stk__lex_name_char(p[t->length]))
            t->length++;
    } else if (stk__lex_digit(*p) || (*p == '.' && stk__lex_digit(p[1]))) {
        t->kind = TOKEN_NUMBER;
        t->length = stk__lex_number(p, (size_t)(c->end - p), false).length;
    } else if (*p == '"' || *p == '\'' || *p == '`') {
        t->kind = *p == '`' ? TOKEN_QUOTED_NAME : TOKEN_STRING;
        t->length = quoted_length(c, p);
        if (!t->length) {
            stk_error_set(c->err, STK_INVALID, "%s without closing quote", *p == '`' ? "name" : "string");
            return fail_at(c, p);
        }
    } else {
        t->kind = TOKEN_SIGN;
        t->length = sign_length(p);
    }
    return STK_OK;
}

static bool token_is(const token *t, token_kind kind, const char *text)
{
    return t->kind == kind && strlen(text) == t->length && memcmp(t->start, text, t->length) == 0;
}

static bool at_sign(const compiler *c, const char *sign)
{
    return token_is(&c->tok, TOKEN_SIGN, sign);
}

static bool at_word(const compiler *c, const char *word)
{
    return token_is(&c->tok, TOKEN_NAME, word);
}

static stk_status unexpected(compiler *c, const char *wanted)
{
    static const char *const likely[][2] = {{"=", "=="},  {"&&", "and"}, {"&", "and"},
                                            {"||", "or"}, {"|", "or"},   {"!", "not"}};
    const token *t = &c->tok;
    for (size_t i = 0; i < STK_COUNT(likely); i++)
        if (at_sign(c, likely[i][0]))
            wanted = likely[i][1];
    if (t->kind == TOKEN_END)
        stk_error_set(c->err, STK_INVALID, "found the end of the expression, wanted %s", wanted);
    else
        stk_error_set(c->err, STK_INVALID, "found '%.*s', wanted %s", (int)STK_MIN(t->length, (size_t)60), t->start,
                      wanted);
    return fail_at(c, t->start);
}

/* ---- code ---- */

/* Appends a step after which the stack holds `change` values more. */
static stk_status emit(compiler *c, stk__expr_op op, int mask, int32_t arg, const char *at, int change)
{
    stk__expr *e = c->expr;
    if (!stk__grow((void **)&e->steps, &e->step_capacity, e->step_count + 1, sizeof *e->steps))
        return stk__nomem((e->step_count + 1) * sizeof *e->steps, c->err);
    e->steps[e->step_count++] =
        (stk__expr_step){.op = (uint8_t)op, .mask = (uint8_t)mask, .arg = arg, .offset = (int32_t)(at - c->text)};
    c->stacked = (size_t)((int64_t)c->stacked + change);
    if (c->stacked <= STK__EXPR_STACK)
        return STK_OK;
    stk_error_set(c->err, STK_INVALID, "the expression is too deep: more than %d values at once", STK__EXPR_STACK);
    return fail_at(c, at);
}

static stk_status emit_constant(compiler *c, const stk__expr_value *v, const char *at)
{
    stk__expr *e = c->expr;
    if (!stk__grow((void **)&e->constants, &e->constant_capacity, e->constant_count + 1, sizeof *e->constants))
        return stk__nomem((e->constant_count + 1) * sizeof *e->constants, c->err);
    e->constants[e->constant_count++] = *v;
    return emit(c, STK__EXPR_CONST, 0, (int32_t)(e->constant_count - 1), at, 1);
}

/* ---- grammar; each function leaves one value on the stack and tells its type ---- */

static stk_status parse_or(compiler *c, stk__expr_type *out);

static stk_status enter(compiler *c)
{
    if (++c->depth <= MAX_DEPTH)
        return STK_OK;
    stk_error_set(c->err, STK_INVALID, "the expression nests deeper than %d levels", MAX_DEPTH);
    return fail_at(c, c->tok.start);
}

static stk_status parse_number(compiler *c, bool negative, stk__expr_type *out)
{
    const char *start = c->tok.start;
    const stk__number n = stk__lex_number(start, c->tok.length, negative);
    if (n.kind != STK__NUMBER_INT && n.kind != STK__NUMBER_FLOAT) {
        const int cut = (int)STK_MIN(c->tok.length, (size_t)60);
        stk_error_set(c->err, STK_INVALID,
                      n.kind == STK__NUMBER_RANGE ? "number '%.*s' is too large" : "'%.*s' is no number", cut, start);
        return fail_at(c, start);
    }
    *out = n.kind == STK__NUMBER_INT ? STK__EXPR_INT : STK__EXPR_FLOAT;
    const stk__expr_value v = {.type = *out, .integer = n.integer, .number = n.number};
    STK_TRY(emit_constant(c, &v, start));
    return scan(c);
}

static stk_status parse_string(compiler *c, stk__expr_type *out)
{
    const char *start = c->tok.start;
    char *bytes = c->expr->strings + c->strings_used;
    const stk__quoted q = stk__lex_string(start, c->tok.length, bytes);
    if (q.problem) {
        stk_error_set(c->err, STK_INVALID, "%s", q.problem);
        return fail_at(c, start + q.length);
    }
    c->strings_used += q.size;
    *out = STK__EXPR_BYTES;
    const stk__expr_value v = {.type = *out, .bytes = {(const uint8_t *)bytes, (int64_t)q.size}};
    STK_TRY(emit_constant(c, &v, start));
    return scan(c);
}

static stk_status parse_name(compiler *c, stk__expr_type *out)
{
    const token t = c->tok;
    if (at_word(c, "true") || at_word(c, "false")) {
        *out = STK__EXPR_BOOL;
        const stk__expr_value v = {.type = *out, .integer = t.start[0] == 't'};
        STK_TRY(emit_constant(c, &v, t.start));
        return scan(c);
    }
    if (at_word(c, "and") || at_word(c, "or") || at_word(c, "in"))
        return unexpected(c, "a value");
    const size_t quote = t.kind == TOKEN_QUOTED_NAME;
    memcpy(c->name, t.start + quote, t.length - 2 * quote);
    c->name[t.length - 2 * quote] = 0;
    int slot = 0;
    const stk_status status = c->lookup(c->arg, c->name, out, &slot, c->err);
    if (status != STK_OK) {
        fail_at(c, t.start);
        return status;
    }
    STK_TRY(emit(c, STK__EXPR_FETCH, *out, slot, t.start, 1));
    return scan(c);
}

static stk_status parse_primary(compiler *c, stk__expr_type *out)
{
    switch (c->tok.kind) {
    case TOKEN_NUMBER:
        return parse_number(c, false, out);
    case TOKEN_STRING:
        return parse_string(c, out);
    case TOKEN_NAME:
    case TOKEN_QUOTED_NAME:
        return parse_name(c, out);
    default:
        break;
    }
    if (!at_sign(c, "("))
        return unexpected(c, "a value");
    STK_TRY(enter(c));
    STK_TRY(scan(c));
    STK_TRY(parse_or(c, out));
    if (!at_sign(c, ")"))
        return unexpected(c, "')'");
    c->depth--;
    return scan(c);
}

static stk_status parse_unary(compiler *c, stk__expr_type *out)
{
    if (!at_sign(c, "-"))
        return parse_primary(c, out);
    const char *sign = c->tok.start;
    STK_TRY(enter(c));
    STK_TRY(scan(c));
    /* A minus before digits belongs to the number: the smallest integer has no positive twin. */
    if (c->tok.kind == TOKEN_NUMBER) {
        STK_TRY(parse_number(c, true, out));
    } else {
        STK_TRY(parse_unary(c, out));
        if (!is_number(*out)) {
            stk_error_set(c->err, STK_INVALID, "'-' before %s, wanted int or float", type_name(*out));
            return fail_at(c, sign);
        }
        STK_TRY(emit(c, STK__EXPR_NEGATE, 0, 0, sign, 0));
    }
    c->depth--;
    return STK_OK;
}

/* Checks both sides of an arithmetic operator and emits it. */
static stk_status emit_math(compiler *c, stk__expr_op op, const char *sign, stk__expr_type *left, stk__expr_type right)
{
    const bool ints = *left == STK__EXPR_INT && right == STK__EXPR_INT;
    if (!is_number(*left) || !is_number(right) || (op == STK__EXPR_MOD && !ints)) {
        stk_error_set(c->err, STK_INVALID, "%s %c %s, wanted %s on both sides", type_name(*left), *sign,
                      type_name(right), op == STK__EXPR_MOD ? "int" : "int or float");
        return fail_at(c, sign);
    }
    *left = ints && op != STK__EXPR_DIV ? STK__EXPR_INT : STK__EXPR_FLOAT;
    return emit(c, op, 0, 0, sign, -1);
}

static stk_status parse_product(compiler *c, stk__expr_type *out)
{
    STK_TRY(parse_unary(c, out));
    while (at_sign(c, "*") || at_sign(c, "/") || at_sign(c, "%")) {
        const char *sign = c->tok.start;
        stk__expr_type right;
        STK_TRY(scan(c));
        STK_TRY(parse_unary(c, &right));
        const stk__expr_op op = *sign == '*' ? STK__EXPR_MUL : *sign == '/' ? STK__EXPR_DIV : STK__EXPR_MOD;
        STK_TRY(emit_math(c, op, sign, out, right));
    }
    return STK_OK;
}

static stk_status parse_sum(compiler *c, stk__expr_type *out)
{
    STK_TRY(parse_product(c, out));
    while (at_sign(c, "+") || at_sign(c, "-")) {
        const char *sign = c->tok.start;
        stk__expr_type right;
        STK_TRY(scan(c));
        STK_TRY(parse_product(c, &right));
        STK_TRY(emit_math(c, *sign == '+' ? STK__EXPR_ADD : STK__EXPR_SUB, sign, out, right));
    }
    return STK_OK;
}

static stk_status check_comparable(compiler *c, const char *at, stk__expr_type left, stk__expr_type right, bool ordered)
{
    const bool fit = left == right || (is_number(left) && is_number(right));
    if (fit && !(ordered && left == STK__EXPR_BOOL))
        return STK_OK;
    if (fit)
        stk_error_set(c->err, STK_INVALID, "bools have no order, wanted == or !=");
    else
        stk_error_set(c->err, STK_INVALID, "cannot compare %s with %s, wanted two numbers or two values of one type",
                      type_name(left), type_name(right));
    return fail_at(c, at);
}

/* in [item, ...]: each item jumps to the end when it is equal. */
static stk_status parse_in(compiler *c, stk__expr_type *out)
{
    const stk__expr_type left = *out;
    const size_t first = c->expr->step_count;
    const int depth = c->depth;
    STK_TRY(enter(c));
    STK_TRY(scan(c));
    if (!at_sign(c, "["))
        return unexpected(c, "'[' after in");
    do {
        STK_TRY(scan(c));
        if (at_sign(c, "]") && c->expr->step_count > first)
            break; /* a comma after the last item */
        const char *start = c->tok.start;
        stk__expr_type item;
        STK_TRY(parse_sum(c, &item));
        STK_TRY(check_comparable(c, start, left, item, false));
        /* -depth marks the jumps of this list until their target is known: inner lists are done by then. */
        STK_TRY(emit(c, STK__EXPR_IN, 0, -1 - depth, start, -1));
    } while (at_sign(c, ","));
    if (!at_sign(c, "]"))
        return unexpected(c, "',' or ']'");
    STK_TRY(emit(c, STK__EXPR_IN_END, 0, 0, c->tok.start, 0));
    for (size_t i = first; i < c->expr->step_count; i++)
        if (c->expr->steps[i].op == STK__EXPR_IN && c->expr->steps[i].arg == -1 - depth)
            c->expr->steps[i].arg = (int32_t)c->expr->step_count;
    c->depth = depth;
    *out = STK__EXPR_BOOL;
    return scan(c);
}

/* The outcomes for which a comparison sign holds, or 0 when the token is none. */
static int comparison_mask(const compiler *c)
{
    static const struct {
        const char *sign;
        int mask;
    } signs[] = {{"==", STK__EQUAL},  {"!=", STK__LESS | STK__GREATER | STK__UNORDERED},
                 {"<", STK__LESS},    {"<=", STK__LESS | STK__EQUAL},
                 {">", STK__GREATER}, {">=", STK__GREATER | STK__EQUAL}};
    for (size_t i = 0; i < STK_COUNT(signs); i++)
        if (at_sign(c, signs[i].sign))
            return signs[i].mask;
    return 0;
}

static stk_status parse_comparison(compiler *c, stk__expr_type *out)
{
    STK_TRY(parse_sum(c, out));
    const char *sign = c->tok.start;
    const int mask = comparison_mask(c);
    if (mask) {
        stk__expr_type right;
        STK_TRY(scan(c));
        STK_TRY(parse_sum(c, &right));
        const bool ordered = mask != STK__EQUAL && !(mask & STK__UNORDERED);
        STK_TRY(check_comparable(c, sign, *out, right, ordered));
        *out = STK__EXPR_BOOL;
        STK_TRY(emit(c, STK__EXPR_COMPARE, mask, 0, sign, -1));
    } else if (at_word(c, "in")) {
        STK_TRY(parse_in(c, out));
    } else if (at_word(c, "not")) {
        STK_TRY(scan(c));
        if (!at_word(c, "in"))
            return unexpected(c, "in after not");
        STK_TRY(parse_in(c, out));
        STK_TRY(emit(c, STK__EXPR_NOT, 0, 0, sign, 0));
    }
    if (comparison_mask(c))
        return unexpected(c, "and: comparisons do not chain, write a < b and b < c");
    return STK_OK;
}

static stk_status wanted_bool(compiler *c, const char *word, const char *at, stk__expr_type found)
{
    if (found == STK__EXPR_BOOL)
        return STK_OK;
    stk_error_set(c->err, STK_INVALID, "%s %s, wanted a bool, such as label > 0", word, type_name(found));
    return fail_at(c, at);
}

static stk_status parse_not(compiler *c, stk__expr_type *out)
{
    if (!at_word(c, "not"))
        return parse_comparison(c, out);
    const char *word = c->tok.start;
    STK_TRY(enter(c));
    STK_TRY(scan(c));
    STK_TRY(parse_not(c, out));
    STK_TRY(wanted_bool(c, "'not' before", word, *out));
    c->depth--;
    return emit(c, STK__EXPR_NOT, 0, 0, word, 0);
}

/* a and b, a or b: the right side is skipped when the left one decides. */
static stk_status parse_logic(compiler *c, const char *word, stk__expr_op op,
                              stk_status (*parse_side)(compiler *, stk__expr_type *), stk__expr_type *out)
{
    STK_TRY(parse_side(c, out));
    while (at_word(c, word)) {
        const char *at = c->tok.start;
        STK_TRY(wanted_bool(c, op == STK__EXPR_OR ? "'or' after" : "'and' after", at, *out));
        const size_t jump = c->expr->step_count;
        STK_TRY(emit(c, op, 0, 0, at, -1));
        STK_TRY(scan(c));
        STK_TRY(parse_side(c, out));
        STK_TRY(wanted_bool(c, op == STK__EXPR_OR ? "'or' before" : "'and' before", at, *out));
        c->expr->steps[jump].arg = (int32_t)c->expr->step_count;
    }
    return STK_OK;
}

static stk_status parse_and(compiler *c, stk__expr_type *out)
{
    return parse_logic(c, "and", STK__EXPR_AND, parse_not, out);
}

static stk_status parse_or(compiler *c, stk__expr_type *out)
{
    return parse_logic(c, "or", STK__EXPR_OR, parse_and, out);
}

static stk_status parse_all(compiler *c)
{
    stk__expr_type type;
    STK_TRY(scan(c));
    STK_TRY(parse_or(c, &type));
    if (c->tok.kind != TOKEN_END)
        return unexpected(c, "an operator or the end");
    return wanted_bool(c, "the expression gives", c->text, type);
}

stk_status stk__expr_compile(const char *text, stk__expr_lookup lookup, void *arg, stk__expr **out, stk_error *err)
{
    const size_t size = strlen(text);
    if (size > MAX_BYTES)
        return stk_error_set(err, STK_INVALID, "the expression has %zu bytes, wanted at most %d", size, MAX_BYTES);
    compiler c = {.text = text, .end = text + size, .tok = {.start = text}, .lookup = lookup, .arg = arg, .err = err};
    c.expr = stk__calloc(1, sizeof *c.expr);
    c.name = stk__alloc(size + 1);
    if (c.expr) {
        c.expr->strings = stk__alloc(size + 1);
        c.expr->text = stk__strndup(text, size);
    }
    stk_status status = STK_OK;
    if (!c.expr || !c.name || !c.expr->strings || !c.expr->text)
        status = stk__nomem(size + 1, err);
    if (status == STK_OK)
        status = parse_all(&c);
    stk__free(c.name);
    if (status != STK_OK) {
        stk__expr_free(c.expr);
        return status;
    }
    *out = c.expr;
    return STK_OK;
}

void stk__expr_free(stk__expr *expr)
{
    if (!expr)
        return;
    stk__free(expr->steps);
    stk__free(expr->constants);
    stk__free(expr->strings);
    stk__free(expr->text);
    stk__free(expr);
}
