/* The lexer's memory and notes, and strings of tolerant JSON. */
#include "trace/json_lex.h"

#include "base/mem.h"

#include "base/banned.h"

enum { BLOCK_BYTES = 64 << 10, KEY_LOOK = 256 };

void stk__lexer_init(stk__lexer *x)
{
    *x = (stk__lexer){0};
}

static void free_blocks(stk__lexer *x, bool all)
{
    while (x->blocks && (all || x->blocks->next || x->blocks->size > BLOCK_BYTES)) {
        stk__json_lex_block *next = x->blocks->next;
        stk__free(x->blocks);
        x->blocks = next;
    }
    if (x->blocks)
        x->blocks->used = 0;
}

void stk__lexer_clear(stk__lexer *x)
{
    free_blocks(x, true);
    stk__text_clear(&x->json);
    *x = (stk__lexer){0};
}

void stk__lexer_start(stk__lexer *x)
{
    x->cut = false;
    x->far = NULL;
    if (x->noted) {
        memset(x->note_count, 0, sizeof x->note_count);
        x->noted = false;
    }
    if (x->blocks)
        free_blocks(x, false);
}

void stk__lexer_note(stk__lexer *x, stk__trace_reason reason, const uint8_t *at)
{
    if (x->note_count[reason]++ == 0)
        x->note_offset[reason] = x->offset + (at - x->start);
    x->noted = true;
}

void stk__lexer_flush(stk__lexer *x, stk__builder *b)
{
    if (!x->noted)
        return;
    for (int i = 0; i < STK__REASON_COUNT; i++) {
        if (x->note_count[i])
            stk__builder_notes(b, (stk__trace_reason)i, x->note_count[i], x->note_offset[i]);
    }
    memset(x->note_count, 0, sizeof x->note_count);
    x->noted = false;
}

char *stk__lexer_alloc(stk__lexer *x, size_t size)
{
    stk__json_lex_block *block = x->blocks;
    if (!block || block->size - block->used < size) {
        const size_t room = STK_MAX(size, (size_t)BLOCK_BYTES);
        block = stk__alloc(sizeof *block + room);
        if (!block) {
            x->failed = true;
            return NULL;
        }
        *block = (stk__json_lex_block){.next = x->blocks, .size = room};
        x->blocks = block;
    }
    char *out = block->data + block->used;
    block->used += size;
    return out;
}

stk__lex stk__json_lex_end(stk__lexer *x)
{
    x->far = x->end;
    if (!x->last)
        return STK__LEX_MORE;
    x->cut = true;
    return STK__LEX_BAD;
}

/* ---- strings ---- */

typedef enum verdict { NO, YES, UNCLEAR } verdict;

/* Whether a key with its colon stands at p, as far as a short look tells. */
static verdict looks_like_key(const stk__lexer *x, const uint8_t *p)
{
    const uint8_t *stop = x->end - p > KEY_LOOK ? p + KEY_LOOK : x->end;
    const uint8_t *q = p + 1;
    while (q < stop && *q != '"' && *q != '\\' && *q >= 0x20)
        q++;
    if (q == stop)
        return stop == x->end && !x->last ? UNCLEAR : YES;
    if (*q == '\\')
        return YES;
    if (*q != '"')
        return NO;
    q = stk__json_skip_space(q + 1, x->end);
    if (q == x->end)
        return x->last ? YES : UNCLEAR;
    return *q == ':' ? YES : NO;
}

/* Whether a quote ends its string, judged by what follows it. In JSON as it should be the answer is always yes. */
static verdict closes(const stk__lexer *x, const uint8_t *p, stk__json_lex_place place)
{
    const uint8_t *q = stk__json_skip_space(p, x->end);
    if (place == STK__LEX_ALONE)
        return YES;
    if (q == x->end)
        return x->last ? YES : UNCLEAR;
    if (place == STK__LEX_KEY)
        return *q == ':' ? YES : NO;
    if (*q == '}' || *q == ']')
        return YES;
    if (place == STK__LEX_IN_ARRAY)
        return *q == ',' || (*q == '"' && q > p) ? YES : NO;
    if (*q == '"')
        return q > p ? looks_like_key(x, q) : NO;
    if (*q != ',')
        return NO;
    q = stk__json_skip_space(q + 1, x->end);
    if (q == x->end)
        return x->last ? YES : UNCLEAR;
    if (*q == '"')
        return looks_like_key(x, q);
    return *q == '}' || *q == '{' ? YES : NO;
}

/* A raw newline and then the start of an object: the string was never ended. */
static verdict new_line_of_events(const stk__lexer *x, const uint8_t *p)
{
    const uint8_t *q = stk__json_skip_space(p, x->end);
    if (q < x->end && *q == '{')
        q = stk__json_skip_space(q + 1, x->end);
    else if (q < x->end)
        return NO;
    if (q == x->end)
        return x->last ? NO : UNCLEAR;
    return *q == '"' ? YES : NO;
}

enum { HAS_ESCAPE = 1, HAS_QUOTE = 2, HAS_CONTROL = 4, HAS_HIGH = 8 };

/* Finds the closing quote of a string whose text starts at x->p. */
static stk__lex find_end(stk__lexer *x, stk__json_lex_place place, const uint8_t **out, unsigned *out_flags)
{
    const uint8_t *p = x->p;
    unsigned flags = 0;
    verdict v = NO;
    for (;; p++) {
        p = stk__json_plain(p, x->end);
        if (p == x->end)
            return stk__json_lex_end(x);
        if (*p == '"') {
            v = closes(x, p + 1, place);
            if (v == YES)
                break;
            flags |= HAS_QUOTE;
        } else if (*p == '\\') {
            flags |= HAS_ESCAPE;
            if (++p == x->end)
                return stk__json_lex_end(x);
            continue;
        } else if (*p >= 0x80) {
            flags |= HAS_HIGH;
            continue;
        } else {
            flags |= HAS_CONTROL;
            v = *p == '\n' ? new_line_of_events(x, p + 1) : NO;
            if (v == YES) {
                x->far = p;
                return STK__LEX_BAD;
            }
        }
        if (v == UNCLEAR)
            return stk__json_lex_end(x);
    }
    *out = p;
    *out_flags = flags;
    return STK__LEX_OK;
}

static int hex4(const uint8_t *p)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        const int c = p[i] | 0x20;
        if (p[i] >= '0' && p[i] <= '9')
            value = value << 4 | (p[i] - '0');
        else if (c >= 'a' && c <= 'f')
            value = value << 4 | (c - 'a' + 10);
        else
            return -1;
    }
    return value;
}

static size_t put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* \uXXXX at p, perhaps a pair; writes it and returns behind it. NULL: the four digits are not there. */
static const uint8_t *unicode_escape(stk__lexer *x, const uint8_t *p, const uint8_t *end, char **out)
{
    const int high = end - p >= 6 ? hex4(p + 2) : -1;
    if (high < 0)
        return NULL;
    uint32_t c = (uint32_t)high;
    const uint8_t *next = p + 6;
    if (c >= 0xd800 && c < 0xe000) {
        const int low = end - next >= 6 && next[0] == '\\' && next[1] == 'u' ? hex4(next + 2) : -1;
        if (c < 0xdc00 && low >= 0xdc00 && low < 0xe000) {
            c = 0x10000 + ((c - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
            next += 6;
        } else {
            c = 0xfffd;
            stk__lexer_note(x, STK__REASON_ESCAPE, p);
        }
    }
    *out += put_utf8(*out, c);
    return next;
}

/* An escape at p; a broken one stays as it is. Returns behind it. */
static const uint8_t *decode_escape(stk__lexer *x, const uint8_t *p, const uint8_t *end, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *known = p[1] ? strchr(from, p[1]) : NULL;
    if (known) {
        *(*out)++ = to[known - from];
        return p + 2;
    }
    const uint8_t *next = p[1] == 'u' ? unicode_escape(x, p, end, out) : NULL;
    if (next)
        return next;
    stk__lexer_note(x, STK__REASON_ESCAPE, p);
    *(*out)++ = '\\';
    return p + 1;
}

static bool valid_utf8(const uint8_t *p, const uint8_t *end)
{
    while (p < end) {
        const size_t n = *p < 0x80 ? 1 : stk__utf8_length(p, (size_t)(end - p));
        if (!n)
            return false;
        p += n;
    }
    return true;
}

/* Decodes [p, end) to `out`, which has room for 3 bytes per byte that is not ASCII and 1 per other. Returns the size. */
static size_t decode(stk__lexer *x, const uint8_t *p, const uint8_t *end, char *out)
{
    const char *start = out;
    bool bad = false;
    while (p < end) {
        if (*p == '\\' && end - p >= 2) {
            p = decode_escape(x, p, end, &out);
        } else if (*p < 0x80) {
            if (*p == '"')
                stk__lexer_note(x, STK__REASON_ESCAPE, p);
            *out++ = (char)*p++;
        } else {
            const size_t n = stk__utf8_length(p, (size_t)(end - p));
            if (n)
                memcpy(out, p, n);
            else
                put_utf8(out, 0xfffd);
            bad |= !n;
            out += n ? n : 3;
            p += n ? n : 1;
        }
    }
    if (bad)
        stk__lexer_note(x, STK__REASON_TEXT, x->p);
    return (size_t)(out - start);
}

stk__lex stk__json_lex_string(stk__lexer *x, stk__json_lex_place place, const char **out_text, size_t *out_size)
{
    const uint8_t *open = x->p++, *end;
    unsigned flags;
    const stk__lex result = find_end(x, place, &end, &flags);
    if (result != STK__LEX_OK) {
        x->p = open;
        return result;
    }
    *out_text = (const char *)x->p;
    *out_size = (size_t)(end - x->p);
    if (flags & HAS_CONTROL)
        stk__lexer_note(x, STK__REASON_TEXT, open);
    if ((flags & (HAS_ESCAPE | HAS_QUOTE)) || ((flags & HAS_HIGH) && !valid_utf8(x->p, end))) {
        size_t room = *out_size;
        for (const uint8_t *p = x->p; p < end; p++)
            room += *p >= 0x80 ? 2 : 0;
        char *text = stk__lexer_alloc(x, room);
        if (!text)
            return STK__LEX_BAD;
        *out_text = text;
        *out_size = decode(x, x->p, end, text);
    }
    x->p = end + 1;
    return STK__LEX_OK;
}
