/* The reader of pipeline text: a scanner with one token of look-ahead and a recursive descent over it. */
#include "engine/text.h"

#include <string.h>

#include <stoker/pipeline.h>

#include "base/mem.h"
#include "engine/lex.h"

#include "base/banned.h"

enum { MAX_DEPTH = 16, MAX_OPS = 1024, MAX_ARGS = 65536, CHUNK_BYTES = 4096 };

/* ---- memory: chunks in a chain, freed together ---- */

typedef struct chunk {
    struct chunk *next;
    size_t used, capacity;
    max_align_t data[];
} chunk;

static void chunks_free(chunk *c)
{
    while (c) {
        chunk *next = c->next;
        stk__free(c);
        c = next;
    }
}

/* ---- scanner ---- */

typedef enum token_kind { TOKEN_END, TOKEN_NAME, TOKEN_STRING, TOKEN_INT, TOKEN_FLOAT, TOKEN_PUNCT } token_kind;

typedef struct token {
    token_kind kind;
    int line, column;
    const char *start; /* in the input, for messages */
    size_t length;
    const char *text; /* NAME and STRING */
    int64_t integer;
    double number;
    char punct;
} token;

typedef struct parser {
    const char *begin, *p, *end;
    int line, column;      /* of p */
    token tok;             /* the token that comes next */
    const char *token_end; /* where the one before it ends */
    chunk *memory;
    size_t arg_total;
    /* Arguments of lists and calls that are not closed yet; copied out when they are. */
    stk_arg *args;
    size_t arg_count, arg_capacity;
    stk_named_arg *named;
    size_t named_count, named_capacity;
    stk__op_text *ops;
    size_t op_count, op_capacity;
    stk_error *err;
} parser;

static void *take(parser *p, size_t size)
{
    const size_t unit = sizeof(max_align_t);
    const size_t room = (size + unit - 1) / unit * unit;
    chunk *c = p->memory;
    if (!c || c->capacity - c->used < room) {
        const size_t capacity = STK_MAX(room, (size_t)CHUNK_BYTES);
        c = stk__alloc(sizeof *c + capacity);
        if (!c) {
            stk__nomem(capacity, p->err);
            return NULL;
        }
        *c = (chunk){.next = p->memory, .capacity = capacity};
        p->memory = c;
    }
    void *out = (char *)c->data + c->used;
    c->used += room;
    return out;
}

static const void *keep(parser *p, const void *data, size_t size)
{
    void *copy = take(p, size);
    if (copy && size)
        memcpy(copy, data, size);
    return copy;
}

static stk_status fail_at(parser *p, int line, int column)
{
    if (p->err) {
        p->err->line = line;
        p->err->column = column;
    }
    return STK_INVALID;
}

static void advance(parser *p, size_t n)
{
    for (; n; n--, p->p++) {
        if (*p->p == '\n') {
            p->line++;
            p->column = 1;
        } else if (((unsigned char)*p->p & 0xc0) != 0x80) { /* one column for each character of UTF-8 */
            p->column++;
        }
    }
}

static void skip_space(parser *p)
{
    bool comment = false;
    while (p->p < p->end) {
        const char c = *p->p;
        if (c == '\n')
            comment = false;
        else if (c == '#')
            comment = true;
        else if (!comment && c != ' ' && c != '\t' && c != '\r')
            break;
        advance(p, 1);
    }
}

static stk_status scan_number(parser *p, bool negative)
{
    token *t = &p->tok;
    const char *digits = p->p + negative;
    const stk__number n = stk__lex_number(digits, (size_t)(p->end - digits), negative);
    t->length = n.length + negative;
    t->integer = n.integer;
    t->number = n.number;
    const int cut = (int)STK_MIN(t->length, (size_t)60);
    switch (n.kind) {
    case STK__NUMBER_INT:
        t->kind = TOKEN_INT;
        break;
    case STK__NUMBER_FLOAT:
        t->kind = TOKEN_FLOAT;
        break;
    case STK__NUMBER_UNIT:
        /* The option that it belongs to knows whether it is a size or a time. */
        t->kind = TOKEN_STRING;
        char *copy = take(p, n.length + 1);
        if (!copy)
            return STK_NOMEM;
        memcpy(copy, digits, n.length);
        copy[n.length] = 0;
        t->text = copy;
        break;
    case STK__NUMBER_RANGE:
        stk_error_set(p->err, STK_INVALID, "number '%.*s' is too large, wanted an integer of 64 bits or a finite float",
                      cut, t->start);
        return fail_at(p, t->line, t->column);
    case STK__NUMBER_BAD:
        stk_error_set(p->err, STK_INVALID, "'%.*s' is no number, wanted one like 12, 1_000, 0x1f, 0.5, 1e-3, 256M, 5ms",
                      cut, t->start);
        return fail_at(p, t->line, t->column);
    }
    advance(p, t->length);
    return STK_OK;
}

/* Bytes up to the closing quote or the end of the line: all that a string can need. */
static size_t string_extent(const parser *p)
{
    const size_t left = (size_t)(p->end - p->p);
    size_t n = 1;
    while (n < left && p->p[n] != *p->p && p->p[n] != '\n')
        n += p->p[n] == '\\' ? 2 : 1;
    return n < left ? n + 1 : left;
}

static stk_status scan_string(parser *p)
{
    token *t = &p->tok;
    const size_t extent = string_extent(p);
    char *buffer = take(p, extent + 1);
    if (!buffer)
        return STK_NOMEM;
    const stk__quoted q = stk__lex_string(p->p, extent, buffer);
    const char *problem = q.problem;
    if (!problem && memchr(buffer, 0, q.size))
        problem = "zero byte in a string";
    if (problem) {
        /* A bad escape is shown where it stands, other trouble where the string starts. */
        if (q.problem && q.length < extent && p->p[q.length] == '\\')
            advance(p, q.length);
        stk_error_set(p->err, STK_INVALID, "%s", problem);
        return fail_at(p, p->line, p->column);
    }
    buffer[q.size] = 0;
    t->kind = TOKEN_STRING;
    t->length = q.length;
    t->text = buffer;
    advance(p, q.length);
    return STK_OK;
}

static stk_status scan_name(parser *p)
{
    token *t = &p->tok;
    while (p->p + t->length < p->end && stk__lex_name_char(p->p[t->length]))
        t->length++;
    char *copy = take(p, t->length + 1);
    if (!copy)
        return STK_NOMEM;
    memcpy(copy, p->p, t->length);
    copy[t->length] = 0;
    t->kind = TOKEN_NAME;
    t->text = copy;
    advance(p, t->length);
    return STK_OK;
}

/* Replaces p->tok by the token after it. */
static stk_status scan(parser *p)
{
    p->token_end = p->p;
    skip_space(p);
    p->tok = (token){.kind = TOKEN_END, .line = p->line, .column = p->column, .start = p->p};
    if (p->p == p->end)
        return STK_OK;
    const char c = *p->p;
    const char next = p->p + 1 < p->end ? p->p[1] : 0;
    const char third = p->p + 2 < p->end ? p->p[2] : 0;
    const bool minus = c == '-';
    const char first = minus ? next : c, second = minus ? third : next;
    if (stk__lex_digit(first) || (first == '.' && stk__lex_digit(second)))
        return scan_number(p, minus);
    if (c == '"' || c == '\'')
        return scan_string(p);
    if (stk__lex_name_start(c))
        return scan_name(p);
    p->tok.kind = TOKEN_PUNCT;
    p->tok.punct = c;
    p->tok.length = 1;
    while (p->tok.start + p->tok.length < p->end && ((unsigned char)p->tok.start[p->tok.length] & 0xc0) == 0x80 &&
           p->tok.length < 4)
        p->tok.length++; /* the whole character, for the message */
    advance(p, p->tok.length);
    return STK_OK;
}

/* ---- grammar ---- */

static bool at(const parser *p, char punct)
{
    return p->tok.kind == TOKEN_PUNCT && p->tok.punct == punct;
}

static stk_status unexpected(parser *p, const char *wanted)
{
    const token *t = &p->tok;
    if (t->kind == TOKEN_END)
        stk_error_set(p->err, STK_INVALID, "found the end of the text, wanted %s", wanted);
    else if (t->kind == TOKEN_PUNCT && ((unsigned char)t->punct < 0x20 || t->punct == 0x7f))
        stk_error_set(p->err, STK_INVALID, "found byte 0x%02x, wanted %s", (unsigned char)t->punct, wanted);
    else if (t->kind == TOKEN_PUNCT && (t->punct == '/' || t->punct == '.' || t->punct == '-'))
        stk_error_set(p->err, STK_INVALID, "found '%c', wanted %s; put quotes around names that hold it", t->punct,
                      wanted);
    else
        stk_error_set(p->err, STK_INVALID, "found '%.*s', wanted %s", (int)STK_MIN(t->length, (size_t)60), t->start,
                      wanted);
    return fail_at(p, t->line, t->column);
}

static stk_status count_arg(parser *p)
{
    if (++p->arg_total <= MAX_ARGS)
        return STK_OK;
    stk_error_set(p->err, STK_INVALID, "more than %d arguments in all", MAX_ARGS);
    return fail_at(p, p->tok.line, p->tok.column);
}

static stk_status push_arg(parser *p, const stk_arg *arg)
{
    if (!stk__grow((void **)&p->args, &p->arg_capacity, p->arg_count + 1, sizeof *p->args))
        return stk__nomem((p->arg_count + 1) * sizeof *p->args, p->err);
    p->args[p->arg_count++] = *arg;
    return STK_OK;
}

static stk_status push_named(parser *p, const stk_named_arg *arg)
{
    if (!stk__grow((void **)&p->named, &p->named_capacity, p->named_count + 1, sizeof *p->named))
        return stk__nomem((p->named_count + 1) * sizeof *p->named, p->err);
    p->named[p->named_count++] = *arg;
    return STK_OK;
}

/* Moves what was pushed since `base` into kept memory. */
static stk_status pop_args(parser *p, size_t base, const stk_arg **out, size_t *out_count)
{
    *out_count = p->arg_count - base;
    *out = keep(p, p->args ? p->args + base : NULL, *out_count * sizeof **out);
    p->arg_count = base;
    return *out ? STK_OK : STK_NOMEM;
}

static stk_status pop_named(parser *p, size_t base, const stk_named_arg **out, size_t *out_count)
{
    *out_count = p->named_count - base;
    *out = keep(p, p->named ? p->named + base : NULL, *out_count * sizeof **out);
    p->named_count = base;
    return *out ? STK_OK : STK_NOMEM;
}

static stk_status parse_value(parser *p, int depth, stk_arg *out);
static stk_status parse_value_after(parser *p, const token *first, int depth, stk_arg *out);

/* name = value, or a bare value where `names_only` is false. */
static stk_status parse_arg(parser *p, int depth, bool names_only)
{
    STK_TRY(count_arg(p));
    const token first = p->tok;
    stk_named_arg arg = {.line = first.line, .column = first.column};
    if (first.kind == TOKEN_NAME || first.kind == TOKEN_STRING) {
        STK_TRY(scan(p));
        if (at(p, '=')) {
            arg.name = first.text;
            STK_TRY(scan(p));
            STK_TRY(parse_value(p, depth, &arg.value));
        } else if (names_only) {
            return unexpected(p, "'=' after the name");
        } else {
            STK_TRY(parse_value_after(p, &first, depth, &arg.value));
        }
    } else if (names_only) {
        return unexpected(p, "name=value or ')'");
    } else {
        STK_TRY(parse_value(p, depth, &arg.value));
    }
    return push_named(p, &arg);
}

/* What stands between parentheses, from the token after '(' to the one after ')'. */
static stk_status parse_args(parser *p, int depth, bool names_only, const stk_named_arg **out, size_t *out_count)
{
    const size_t base = p->named_count;
    while (!at(p, ')')) {
        STK_TRY(parse_arg(p, depth, names_only));
        if (at(p, ','))
            STK_TRY(scan(p));
        else if (!at(p, ')'))
            return unexpected(p, "',' or ')'");
    }
    STK_TRY(scan(p));
    return pop_named(p, base, out, out_count);
}

/* One dimension: a number, or -1 for one that is left empty. */
static stk_status parse_dim(parser *p)
{
    STK_TRY(count_arg(p));
    stk_arg dim = {.kind = STK_ARG_INT, .line = p->tok.line, .column = p->tok.column, .integer = -1, .number = -1};
    if (p->tok.kind == TOKEN_INT && p->tok.integer >= 0) {
        dim.integer = p->tok.integer;
        dim.number = p->tok.number;
        STK_TRY(scan(p));
    } else if (at(p, '?') || at(p, '*')) {
        STK_TRY(scan(p));
    } else if (!at(p, ',') && !at(p, ']')) {
        return unexpected(p, "a dimension: an integer of at least 0, or ? for one that varies");
    }
    return push_arg(p, &dim);
}

/* From the token after '[' to the one after ']'. */
static stk_status parse_dims(parser *p, stk_arg *out)
{
    const size_t base = p->arg_count;
    for (;;) {
        STK_TRY(parse_dim(p));
        if (at(p, ']'))
            break;
        if (!at(p, ','))
            return unexpected(p, "',' or ']'");
        STK_TRY(scan(p));
    }
    STK_TRY(scan(p));
    out->has_dims = true;
    return pop_args(p, base, &out->items, &out->item_count);
}

/* From the token after '[' to the one after ']'. */
static stk_status parse_list(parser *p, int depth, stk_arg *out)
{
    const size_t base = p->arg_count;
    out->kind = STK_ARG_LIST;
    while (!at(p, ']')) {
        stk_arg item;
        STK_TRY(count_arg(p));
        STK_TRY(parse_value(p, depth, &item));
        STK_TRY(push_arg(p, &item));
        if (at(p, ','))
            STK_TRY(scan(p));
        else if (!at(p, ']'))
            return unexpected(p, "',' or ']'");
    }
    STK_TRY(scan(p));
    return pop_args(p, base, &out->items, &out->item_count);
}

static stk_status check_depth(parser *p, int depth)
{
    if (depth < MAX_DEPTH)
        return STK_OK;
    stk_error_set(p->err, STK_INVALID, "brackets nest deeper than %d levels", MAX_DEPTH);
    return fail_at(p, p->tok.line, p->tok.column);
}

/* A value whose first token, a name or a string, has been passed. */
static stk_status parse_value_after(parser *p, const token *first, int depth, stk_arg *out)
{
    *out = (stk_arg){.line = first->line, .column = first->column, .text = first->text};
    if (first->kind == TOKEN_STRING) {
        out->kind = STK_ARG_STRING;
        return STK_OK;
    }
    if (strcmp(first->text, "true") == 0 || strcmp(first->text, "false") == 0) {
        out->kind = STK_ARG_BOOL;
        out->boolean = first->text[0] == 't';
        out->text = NULL;
        return STK_OK;
    }
    out->kind = STK_ARG_NAME;
    if (at(p, '[')) {
        out->kind = STK_ARG_TYPE;
        STK_TRY(scan(p));
        STK_TRY(parse_dims(p, out));
    }
    if (at(p, '(')) {
        out->kind = STK_ARG_TYPE;
        STK_TRY(check_depth(p, depth));
        STK_TRY(scan(p));
        STK_TRY(parse_args(p, depth + 1, true, &out->mods, &out->mod_count));
    }
    return STK_OK;
}

static stk_status parse_value(parser *p, int depth, stk_arg *out)
{
    const token first = p->tok;
    *out = (stk_arg){.line = first.line, .column = first.column};
    switch (first.kind) {
    case TOKEN_NAME:
    case TOKEN_STRING:
        STK_TRY(scan(p));
        return parse_value_after(p, &first, depth, out);
    case TOKEN_INT:
    case TOKEN_FLOAT:
        out->kind = first.kind == TOKEN_INT ? STK_ARG_INT : STK_ARG_FLOAT;
        out->integer = first.kind == TOKEN_INT ? first.integer : 0;
        out->number = first.number;
        return scan(p);
    default:
        break;
    }
    if (!at(p, '['))
        return unexpected(p, "a value");
    STK_TRY(check_depth(p, depth));
    STK_TRY(scan(p));
    return parse_list(p, depth + 1, out);
}

static stk_status parse_op(parser *p)
{
    if (p->tok.kind != TOKEN_NAME)
        return unexpected(p, p->op_count ? "an op after '|'" : "an op, such as tfrecord(\"data/*.tfrecord\")");
    if (p->op_count == MAX_OPS) {
        stk_error_set(p->err, STK_INVALID, "more than %d ops", MAX_OPS);
        return fail_at(p, p->tok.line, p->tok.column);
    }
    stk__op_text op = {.name = p->tok.text, .line = p->tok.line, .column = p->tok.column};
    op.begin = (size_t)(p->tok.start - p->begin);
    STK_TRY(scan(p));
    if (at(p, '(')) {
        STK_TRY(scan(p));
        STK_TRY(parse_args(p, 0, false, &op.args, &op.arg_count));
    }
    op.end = (size_t)(p->token_end - p->begin);
    if (!stk__grow((void **)&p->ops, &p->op_capacity, p->op_count + 1, sizeof *p->ops))
        return stk__nomem((p->op_count + 1) * sizeof *p->ops, p->err);
    p->ops[p->op_count++] = op;
    return STK_OK;
}

static stk_status parse_ops(parser *p)
{
    STK_TRY(scan(p));
    STK_TRY(parse_op(p));
    while (p->tok.kind != TOKEN_END) {
        if (!at(p, '|'))
            return unexpected(p, "'|' before the next op");
        STK_TRY(scan(p));
        STK_TRY(parse_op(p));
    }
    return STK_OK;
}

stk_status stk__pipeline_parse(const char *text, size_t size, stk__pipeline_text *out, stk_error *err)
{
    parser p = {.begin = text, .p = text, .end = text + size, .line = 1, .column = 1, .err = err};
    stk_status status = parse_ops(&p);
    const stk__op_text *ops = NULL;
    if (status == STK_OK) {
        ops = keep(&p, p.ops, p.op_count * sizeof *ops);
        status = ops ? STK_OK : STK_NOMEM;
    }
    stk__free(p.args);
    stk__free(p.named);
    stk__free(p.ops);
    if (status != STK_OK) {
        chunks_free(p.memory);
        return status;
    }
    *out = (stk__pipeline_text){.ops = ops, .op_count = p.op_count, .memory = p.memory};
    return STK_OK;
}

void stk__pipeline_text_clear(stk__pipeline_text *p)
{
    chunks_free(p->memory);
    *p = (stk__pipeline_text){0};
}

/* ---- for programs that change the text ---- */

stk_status stk_text_ops(const char *text, const stk_registry *registry, stk_text_op **out, size_t *out_count,
                        stk_error *err)
{
    stk_error_clear(err);
    stk__pipeline_text parsed;
    STK_TRY(stk__pipeline_parse(text, strlen(text), &parsed, err));
    const size_t count = parsed.op_count;
    stk_text_op *ops = stk__calloc(count, sizeof *ops);
    for (size_t i = 0; ops && i < count; i++) {
        const stk__op_text *op = &parsed.ops[i];
        ops[i] = (stk_text_op){.op = stk_registry_find(registry, op->name), .begin = op->begin, .end = op->end};
    }
    stk__pipeline_text_clear(&parsed);
    if (!ops)
        return stk__nomem(count * sizeof *ops, err);
    *out = ops;
    *out_count = count;
    return STK_OK;
}

void stk_text_ops_free(stk_text_op *ops)
{
    stk__free(ops);
}

/* ---- printing ---- */

static bool is_name(const char *s)
{
    if (!stk__lex_name_start(*s))
        return false;
    while (stk__lex_name_char(*s))
        s++;
    return *s == 0;
}

static void print_float(stk__text *t, double x)
{
    char number[64];
    stk__text n;
    stk__text_fixed(&n, number, sizeof number);
    stk__text_json_double(&n, x);
    stk__text_puts(t, number);
    if (!strpbrk(number, ".en"))
        stk__text_puts(t, ".0"); /* without it, it would come back as an integer */
}

static void print_type(stk__text *t, const stk_arg *arg)
{
    stk__text_puts(t, arg->text);
    if (arg->has_dims) {
        stk__text_putc(t, '[');
        for (size_t i = 0; i < arg->item_count; i++) {
            if (i)
                stk__text_puts(t, ", ");
            if (arg->items[i].integer >= 0)
                stk__text_printf(t, "%lld", (long long)arg->items[i].integer);
            else if (arg->item_count > 1)
                stk__text_putc(t, '?');
        }
        stk__text_putc(t, ']');
    }
    if (arg->mod_count || !arg->has_dims) {
        stk__text_putc(t, '(');
        for (size_t i = 0; i < arg->mod_count; i++) {
            if (i)
                stk__text_puts(t, ", ");
            if (is_name(arg->mods[i].name))
                stk__text_puts(t, arg->mods[i].name);
            else
                stk__text_quote(t, arg->mods[i].name);
            stk__text_putc(t, '=');
            stk__arg_print(t, &arg->mods[i].value);
        }
        stk__text_putc(t, ')');
    }
}

void stk__arg_print(stk__text *t, const stk_arg *arg)
{
    switch (arg->kind) {
    case STK_ARG_INT:
        stk__text_printf(t, "%lld", (long long)arg->integer);
        break;
    case STK_ARG_FLOAT:
        print_float(t, arg->number);
        break;
    case STK_ARG_BOOL:
        stk__text_puts(t, arg->boolean ? "true" : "false");
        break;
    case STK_ARG_STRING:
        stk__text_quote(t, arg->text);
        break;
    case STK_ARG_NAME:
        stk__text_puts(t, arg->text);
        break;
    case STK_ARG_TYPE:
        print_type(t, arg);
        break;
    case STK_ARG_LIST:
        stk__text_putc(t, '[');
        for (size_t i = 0; i < arg->item_count; i++) {
            if (i)
                stk__text_puts(t, ", ");
            stk__arg_print(t, &arg->items[i]);
        }
        stk__text_putc(t, ']');
        break;
    }
}
