/* The streaming scanner: windows of the input, the stack of open containers, and what is put right on the way. */
#include "trace/json.h"

#include "base/mem.h"
#include "trace/json_lex.h"
#include "trace/reader.h"

#include "base/banned.h"

enum { WINDOW_WANT = 256 << 10 };

void stk__json_init(stk__json *j, stk__builder *builder, stk__input *in)
{
    *j = (stk__json){.builder = builder, .in = in};
    stk_error_clear(&j->error);
    j->lexer = stk__alloc(sizeof *j->lexer);
    if (j->lexer)
        stk__lexer_init(j->lexer);
    else
        j->status = stk__nomem(sizeof *j->lexer, &j->error);
}

void stk__json_release(stk__json *j)
{
    if (j->held)
        stk__input_advance(j->in, (size_t)(j->p - j->window));
    j->held = false;
    j->end = j->p; /* the window is not to be used any more */
}

void stk__json_clear(stk__json *j)
{
    stk__json_release(j);
    if (j->lexer)
        stk__lexer_clear(j->lexer);
    stk__free(j->lexer);
    j->lexer = NULL;
}

bool stk__json_is(const stk__json *j, const char *text)
{
    const size_t size = strlen(text);
    return j->size == size && memcmp(j->text, text, size) == 0;
}

stk_status stk__json_status(const stk__json *j, stk_error *err)
{
    if (j->status != STK_OK && err)
        *err = j->error;
    return j->status;
}

/* A window of at least `want` bytes from the current place on, unless the end comes first. */
static void refill(stk__json *j, size_t want)
{
    size_t size = 0;
    stk__json_release(j);
    if (j->status == STK_OK)
        j->status = stk__reader_progress(j->builder, j->in, &j->error);
    j->window = stk__input_peek(j->in, want, &size);
    j->held = true;
    j->p = j->window;
    j->end = j->window + size;
    j->last = size < want;
    j->window_offset = stk__input_offset(j->in);
    if (j->window_offset == 0 && size >= 3 && memcmp(j->window, "\xef\xbb\xbf", 3) == 0)
        j->p += 3; /* byte order mark */
}

static int64_t place(const stk__json *j)
{
    return j->window_offset + (j->p - j->window);
}

static void note(stk__json *j, stk__trace_reason reason)
{
    stk__builder_note(j->builder, reason, place(j));
}

static bool stopped(stk__json *j)
{
    if (j->lexer && j->lexer->failed && j->status == STK_OK)
        j->status = stk__nomem(0, &j->error);
    return j->status != STK_OK;
}

static bool is_object(const stk__json *j, unsigned depth)
{
    return depth && (j->is_object[(depth - 1) / 64] >> ((depth - 1) % 64) & 1);
}

/* Moves to the next byte that is not space (nor a comma); false at the end of the file. */
static bool find_byte(stk__json *j, bool commas)
{
    for (;;) {
        while (j->p < j->end && (stk__json_space(*j->p) || (commas && *j->p == ',')))
            j->p++;
        if (j->p < j->end)
            return true;
        if ((j->held && j->last) || stopped(j))
            return false;
        refill(j, WINDOW_WANT);
    }
}

/* ---- leaving out ---- */

static stk__json_kind give(stk__json *j, stk__json_kind kind)
{
    if (kind != STK__JSON_KEY)
        j->after_key = false;
    return j->kind = kind;
}

static stk__json_kind pop(stk__json *j)
{
    const bool object = is_object(j, j->depth);
    j->depth--;
    j->objects -= object;
    return give(j, object ? STK__JSON_OBJECT_END : STK__JSON_ARRAY_END);
}

/* Goes behind a string, from behind its opening quote, by JSON's own rules. */
static void pass_string(stk__json *j)
{
    for (;;) {
        j->p = stk__json_plain(j->p, j->end);
        if (j->p == j->end) {
            if (j->last || stopped(j))
                return;
            refill(j, WINDOW_WANT);
            continue;
        }
        const uint8_t c = *j->p++;
        if (c == '"')
            return;
        if (c == '\\') {
            if (j->p == j->end && !j->last && !stopped(j))
                refill(j, WINDOW_WANT);
            j->p += j->p < j->end;
        }
    }
}

/* Goes behind the bracket that closes `open` containers. */
static void pass_container(stk__json *j, uint64_t open)
{
    while (open) {
        while (j->p < j->end && *j->p != '"' && (*j->p | 0x20) != '{' && (*j->p | 0x20) != '}')
            j->p++;
        if (j->p == j->end) {
            if (j->last || stopped(j))
                return;
            refill(j, WINDOW_WANT);
            continue;
        }
        const uint8_t c = *j->p++;
        if (c == '"')
            pass_string(j);
        else if (c == '{' || c == '[')
            open++;
        else
            open--;
    }
}

/* Goes behind bytes that belong nowhere. */
static void pass_junk(stk__json *j)
{
    note(j, STK__REASON_SYNTAX);
    j->p++;
    while (j->p < j->end && !stk__json_space(*j->p) && !strchr("{}[],:\"", *j->p))
        j->p++;
}

void stk__json_skip(stk__json *j)
{
    if (j->kind == STK__JSON_KEY && j->after_key) {
        if (!find_byte(j, false) || (*j->p != '"' && *j->p != '{' && *j->p != '[')) {
            stk__json_next(j);
            return;
        }
        j->after_key = false;
        if (*j->p++ == '"')
            pass_string(j);
        else
            pass_container(j, 1);
    } else if (j->kind == STK__JSON_OBJECT || j->kind == STK__JSON_ARRAY) {
        pass_container(j, 1);
        pop(j);
    }
}

/* ---- tokens ---- */

static stk__json_kind push(stk__json *j, bool object)
{
    j->p++;
    if (j->depth == STK__JSON_DEPTH) {
        note(j, STK__REASON_TOO_DEEP);
        pass_container(j, 1);
        return give(j, STK__JSON_NULL);
    }
    const uint64_t bit = (uint64_t)1 << (j->depth % 64);
    uint64_t *word = &j->is_object[j->depth / 64];
    *word = (*word & ~bit) | (object ? bit : 0);
    j->depth++;
    j->objects += object;
    return give(j, object ? STK__JSON_OBJECT : STK__JSON_ARRAY);
}

/* At a closer. False: it closed nothing and has been passed. */
static bool take_closer(stk__json *j, stk__json_kind *out)
{
    const bool object = *j->p == '}';
    if (j->after_key) {
        *out = give(j, STK__JSON_NULL);
        return true;
    }
    if (j->depth && is_object(j, j->depth) == object) {
        j->p++;
        *out = pop(j);
        return true;
    }
    note(j, STK__REASON_SYNTAX);
    if (object ? j->objects : j->depth - j->objects) {
        *out = pop(j); /* what is open inside was not closed; the closer is looked at again */
        return true;
    }
    j->p++;
    return false;
}

/* Runs the lexer at the current place with a window as large as it needs. BAD when it is larger than the limit. */
static stk__lex lex(stk__json *j, stk__lex (*one)(stk__json *, stk__lexer *))
{
    stk__lexer *x = j->lexer;
    for (;;) {
        stk__lexer_start(x);
        x->p = j->p;
        x->start = j->window;
        x->end = j->end;
        x->offset = j->window_offset;
        x->last = j->last;
        const stk__lex result = one(j, x);
        if (result != STK__LEX_MORE) {
            if (result == STK__LEX_OK) {
                stk__lexer_flush(x, j->builder);
                j->p = x->p;
            }
            return result;
        }
        const size_t size = (size_t)(j->end - j->p);
        if (size > STK__JSON_TOKEN_MAX || stopped(j))
            return STK__LEX_MORE;
        refill(j, STK_MAX(size * 2, (size_t)WINDOW_WANT));
    }
}

static stk__lex lex_string(stk__json *j, stk__lexer *x)
{
    const stk__json_lex_place where = !j->depth                 ? STK__LEX_ALONE
                                 : !is_object(j, j->depth) ? STK__LEX_IN_ARRAY
                                 : j->after_key            ? STK__LEX_IN_OBJECT
                                                           : STK__LEX_KEY;
    return stk__json_lex_string(x, where, &j->text, &j->size);
}

static stk__lex lex_scalar(stk__json *j, stk__lexer *x)
{
    const uint8_t *at = x->p;
    stk__lex result = stk__json_lex_number(x, &j->number);
    j->kind = STK__JSON_NUMBER;
    j->text = (const char *)at;
    if (result == STK__LEX_BAD) {
        x->cut = false;
        result = stk__json_lex_word(x, &j->text, &j->size);
        if (result == STK__LEX_OK) {
            j->kind = stk__json_is(j, "true")    ? STK__JSON_TRUE
                      : stk__json_is(j, "false") ? STK__JSON_FALSE
                      : stk__json_is(j, "null")  ? STK__JSON_NULL
                                                 : STK__JSON_WORD;
            if (j->kind == STK__JSON_WORD)
                stk__lexer_note(x, STK__REASON_NUMBER, at);
        }
    }
    j->size = (size_t)(x->p - at);
    return result;
}

/* What to do with a lexeme that could not be read: it is left out, and false is returned at the end of the file. */
static void leave_out(stk__json *j, stk__lex result)
{
    if (stopped(j))
        return;
    if (result == STK__LEX_MORE) {
        note(j, STK__REASON_TOO_LARGE);
        if (*j->p++ == '"')
            pass_string(j);
    } else if (j->lexer->cut) {
        j->cut = true;
        note(j, STK__REASON_TRUNCATED);
        j->p = j->end;
    } else if (*j->p == '"') {
        note(j, STK__REASON_SYNTAX);
        while (j->p < j->end && *j->p != '\n')
            j->p++;
    } else {
        pass_junk(j);
    }
}

/* A key at its quote; false when it was none and has been passed. */
static bool take_key(stk__json *j)
{
    const stk__lex result = lex(j, lex_string);
    if (result != STK__LEX_OK) {
        leave_out(j, result);
        return false;
    }
    /* the string ended because a colon follows, or the file ends */
    const uint8_t *p = j->p;
    while (p < j->end && stk__json_space(*p))
        p++;
    if (p < j->end && *p == ':')
        j->p = p + 1;
    j->after_key = true;
    give(j, STK__JSON_KEY);
    return true;
}

/* A value without a key in an object. */
static void pass_value(stk__json *j)
{
    if (*j->p == '{' || *j->p == '[') {
        note(j, STK__REASON_SYNTAX);
        j->p++;
        pass_container(j, 1);
    } else {
        pass_junk(j);
    }
}

static stk__json_kind take_value(stk__json *j)
{
    const uint8_t c = *j->p;
    if (c == '{' || c == '[')
        return push(j, c == '{');
    const stk__lex result = lex(j, c == '"' ? lex_string : lex_scalar);
    if (result == STK__LEX_OK)
        return give(j, c == '"' ? STK__JSON_STRING : j->kind);
    leave_out(j, result);
    j->text = "";
    j->size = 0;
    return give(j, result == STK__LEX_MORE && c == '"' ? STK__JSON_STRING : STK__JSON_NULL);
}

/* At the end of the file: what is open is closed, one by one. */
static stk__json_kind take_end(stk__json *j)
{
    if (j->depth && !j->cut && !stopped(j)) {
        j->cut = true;
        note(j, STK__REASON_TRUNCATED);
    }
    if (j->after_key)
        return give(j, STK__JSON_NULL);
    return j->depth ? pop(j) : give(j, STK__JSON_END);
}

stk__json_kind stk__json_next(stk__json *j)
{
    stk__json_kind closed;
    while (!stopped(j)) {
        if (!find_byte(j, !j->after_key))
            break;
        j->offset = place(j);
        const uint8_t c = *j->p;
        if (c == '}' || c == ']') {
            if (take_closer(j, &closed))
                return closed;
        } else if (c == ',') {
            return give(j, STK__JSON_NULL); /* a key without a value */
        } else if (is_object(j, j->depth) && !j->after_key) {
            if (c != '"')
                pass_value(j);
            else if (take_key(j))
                return STK__JSON_KEY;
        } else if (c == ':' || (c < 0x20 || c >= 0x7f)) {
            pass_junk(j);
        } else {
            return take_value(j);
        }
    }
    return take_end(j);
}
