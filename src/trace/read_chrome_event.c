/* The tolerant parser of one event: takes what can be taken, and notes what it had to change. */
#include "base/mem.h"
#include "trace/read_chrome.h"

#include "base/banned.h"

int stk__chrome_field_of(const char *key, size_t size)
{
    static const char *const names[] = {
#define NAME(name, text) text,
        STK__CHROME_FIELDS(NAME)
#undef NAME
    };
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        if (strlen(names[i]) == size && memcmp(names[i], key, size) == 0)
            return (int)i;
    }
    return -1;
}

bool stk__chrome_container_key(const char *key, size_t size)
{
    static const char *const names[] = {
        "traceEvents", "displayTimeUnit", "schemaVersion", "deviceProperties",       "distributedInfo",
        "traceName",   "otherData",       "metadata",      "systemTraceEvents",      "baseTimeNanoseconds",
        "stackFrames", "samples",         "beginTimeNs",   "controllerTraceDataKey",
    };
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        if (strlen(names[i]) == size && memcmp(names[i], key, size) == 0)
            return true;
    }
    return false;
}

stk__chrome_arg *stk__chrome_add_arg(stk__chrome *r)
{
    stk__chrome_event *e = &r->event;
    if (e->arg_count == e->arg_capacity &&
        !stk__grow((void **)&e->args, &e->arg_capacity, e->arg_count + 1, sizeof *e->args)) {
        stk__chrome_nomem(r, (e->arg_count + 1) * sizeof *e->args);
        return NULL;
    }
    return &e->args[e->arg_count++];
}

static bool word_is(const stk__chrome_value *v, const char *text)
{
    return strlen(text) == v->size && memcmp(v->text, text, v->size) == 0;
}

static stk__lex parse_word(stk__lexer *x, stk__chrome_value *v)
{
    const uint8_t *at = x->p;
    size_t size = 0;
    const stk__lex result = stk__json_lex_word(x, &v->text, &size);
    if (result != STK__LEX_OK)
        return result;
    v->size = (uint32_t)size;
    v->kind = word_is(v, "true")    ? STK__CHROME_TRUE
              : word_is(v, "false") ? STK__CHROME_FALSE
              : word_is(v, "null")  ? STK__CHROME_NULL
                                    : STK__CHROME_WORD;
    if (v->kind == STK__CHROME_WORD) {
        stk__lexer_note(x, STK__REASON_NUMBER, at);
        if (word_is(v, "True") || word_is(v, "False"))
            v->kind = v->size == 4 ? STK__CHROME_TRUE : STK__CHROME_FALSE;
        else if (word_is(v, "None") || word_is(v, "undefined"))
            v->kind = STK__CHROME_NULL;
    }
    return STK__LEX_OK;
}

static stk__lex parse_nested(stk__lexer *x, stk__chrome_value *v)
{
    const stk__lex result = stk__json_lex_nested(x);
    if (result != STK__LEX_OK)
        return result;
    char *copy = stk__lexer_alloc(x, x->json.length);
    if (!copy)
        return STK__LEX_BAD;
    memcpy(copy, x->json.data, x->json.length);
    v->text = copy;
    v->size = (uint32_t)x->json.length;
    v->kind = v->size == 4 && memcmp(copy, "null", 4) == 0 ? STK__CHROME_NULL : STK__CHROME_JSON;
    return STK__LEX_OK;
}

static bool written_as_integer(const uint8_t *p, const uint8_t *end)
{
    while (p < end && *p != '.' && (*p | 0x20) != 'e')
        p++;
    return p == end;
}

/* The value at the lexer's place, in an object. */
static stk__lex parse_value(stk__lexer *x, stk__chrome_value *v)
{
    *v = (stk__chrome_value){.kind = STK__CHROME_NULL, .text = ""};
    stk__json_lex_space(x);
    if (x->p == x->end)
        return stk__json_lex_end(x);
    const uint8_t *at = x->p;
    if (*at == ',' || *at == '}') {
        stk__lexer_note(x, STK__REASON_NUMBER, at); /* nothing stands there */
        return STK__LEX_OK;
    }
    if (*at == '{' || *at == '[')
        return parse_nested(x, v);
    if (*at == '"') {
        size_t size = 0;
        const stk__lex result = stk__json_lex_string(x, STK__LEX_IN_OBJECT, &v->text, &size);
        v->size = (uint32_t)size;
        v->kind = STK__CHROME_STRING;
        return result;
    }
    const stk__lex result = stk__json_lex_number(x, &v->number);
    if (result == STK__LEX_BAD && !x->cut)
        return parse_word(x, v);
    v->text = (const char *)at;
    v->size = (uint32_t)(x->p - at);
    v->kind = STK__CHROME_NUMBER;
    v->integer = written_as_integer(at, x->p);
    return result;
}

/* At a key: takes it with its colon. */
static stk__lex parse_key(stk__lexer *x, const char **key, size_t *size)
{
    if (*x->p != '"')
        return STK__LEX_BAD;
    const stk__lex result = stk__json_lex_string(x, STK__LEX_KEY, key, size);
    if (result != STK__LEX_OK)
        return result;
    stk__json_lex_space(x);
    if (x->p == x->end)
        return stk__json_lex_end(x);
    if (*x->p != ':')
        return STK__LEX_BAD;
    x->p++;
    return STK__LEX_OK;
}

/* Moves to the next key. OK with *out_done at the closing brace, which is passed. */
static stk__lex next_member(stk__lexer *x, bool *out_done)
{
    while (x->p < x->end && (stk__json_space(*x->p) || *x->p == ','))
        x->p++;
    *out_done = false;
    if (x->p == x->end)
        return stk__json_lex_end(x);
    if (*x->p == '}') {
        x->p++;
        *out_done = true;
    }
    return STK__LEX_OK;
}

static bool add_arg(stk__chrome *r, const char *key, size_t size, const stk__chrome_value *v, bool outer)
{
    stk__chrome_arg *arg = stk__chrome_add_arg(r);
    if (!arg)
        return false;
    *arg = (stk__chrome_arg){.value = *v, .key = key, .key_size = (uint32_t)size, .outer = outer};
    return true;
}

/* The members of "args" or "id2". */
static stk__lex parse_members(stk__chrome *r, bool args)
{
    stk__lexer *x = &r->lexer;
    stk__chrome_event *e = &r->event;
    stk__chrome_value v;
    x->p++;
    for (;;) {
        bool done;
        const char *key = NULL;
        size_t size = 0;
        stk__lex result = next_member(x, &done);
        if (result != STK__LEX_OK || done)
            return result;
        result = parse_key(x, &key, &size);
        if (result == STK__LEX_OK)
            result = parse_value(x, &v);
        if (result != STK__LEX_OK)
            return result;
        if (args && !add_arg(r, key, size, &v, false))
            return STK__LEX_BAD;
        if (!args) { /* an id of another kind, or of none, holds in the whole file */
            const bool local = size == 5 && memcmp(key, "local", 5) == 0;
            const stk__chrome_field field = local ? STK__CHROME_LOCAL : STK__CHROME_GLOBAL;
            e->fields[field] = v;
            e->seen |= 1u << field;
        }
    }
}

/* Args given twice: those of the last one count. */
static void forget_args(stk__chrome_event *e)
{
    size_t kept = 0;
    for (size_t i = 0; i < e->arg_count; i++) {
        if (e->args[i].outer)
            e->args[kept++] = e->args[i];
    }
    e->arg_count = kept;
}

/* One key of the event and its value. */
static stk__chrome_result parse_member(stk__chrome *r, bool outermost)
{
    stk__lexer *x = &r->lexer;
    stk__chrome_event *e = &r->event;
    const uint8_t *at = x->p;
    const char *key = NULL;
    size_t size = 0;
    stk__chrome_value v;
    stk__lex result = parse_key(x, &key, &size);
    if (result != STK__LEX_OK)
        return result == STK__LEX_MORE ? STK__CHROME_MORE : STK__CHROME_BAD;
    const int field = stk__chrome_field_of(key, size);
    if (field < 0 && ((outermost && !e->seen) || (size == 11 && memcmp(key, "traceEvents", 11) == 0)))
        return STK__CHROME_CONTAINER;
    if (field >= 0 && e->seen >> field & 1) {
        stk__lexer_note(x, STK__REASON_DUPLICATE_KEY, at);
        if (field == STK__CHROME_ARGS)
            forget_args(e);
        else if (field == STK__CHROME_ID2)
            e->seen &= ~(1u << STK__CHROME_LOCAL | 1u << STK__CHROME_GLOBAL);
    }
    stk__json_lex_space(x);
    if (x->p < x->end && *x->p == '{' && (field == STK__CHROME_ARGS || field == STK__CHROME_ID2)) {
        v = (stk__chrome_value){.kind = STK__CHROME_JSON, .text = "{}", .size = 2};
        result = parse_members(r, field == STK__CHROME_ARGS);
    } else {
        result = parse_value(x, &v);
        const bool wanted = field < 0 || (field == STK__CHROME_ARGS && v.kind != STK__CHROME_NULL);
        if (result == STK__LEX_OK && wanted && !add_arg(r, key, size, &v, field < 0))
            result = STK__LEX_BAD;
    }
    if (result == STK__LEX_OK && field >= 0) {
        e->fields[field] = v;
        e->seen |= 1u << field;
    }
    return result == STK__LEX_OK ? STK__CHROME_OK : result == STK__LEX_MORE ? STK__CHROME_MORE : STK__CHROME_BAD;
}

stk__chrome_result stk__chrome_parse(stk__chrome *r, const uint8_t *p, bool outermost, const uint8_t **out_end)
{
    stk__lexer *x = &r->lexer;
    stk__lexer_start(x);
    x->p = p + 1;
    x->start = r->window;
    x->end = r->end;
    x->offset = r->window_offset;
    x->last = r->last;
    r->event.seen = 0;
    r->event.arg_count = 0;
    stk__chrome_result result = STK__CHROME_OK;
    for (bool done = false; result == STK__CHROME_OK;) {
        const stk__lex member = next_member(x, &done);
        if (member != STK__LEX_OK)
            result = member == STK__LEX_MORE ? STK__CHROME_MORE : STK__CHROME_BAD;
        else if (done)
            break;
        else
            result = parse_member(r, outermost);
    }
    if (x->failed)
        stk__chrome_nomem(r, 0);
    *out_end = result != STK__CHROME_OK && x->far && x->far > x->p ? x->far : x->p;
    return result;
}
