/* Running text into words as they are spoken, and marks: the loop over bytes and what puts out tokens. */
#include "g2p/tokens.h"

#include <string.h>

#include "base/mem.h"
#include "g2p/abbreviations.h"
#include "g2p/tokens_scan.h"

#include "base/banned.h"

#define B STK__BYTE_BLANK
#define P STK__BYTE_PLAIN
#define D STK__BYTE_DIGIT
#define U STK__BYTE_UPPER
#define L STK__BYTE_LOWER
#define O STK__BYTE_OTHER
/* clang-format off */
const uint8_t stk__byte_classes[256] = {
    B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B,
    B, P, P, 0, 0, 0, 0, 0, P, P, 0, 0, P, 0, 0, 0, D, D, D, D, D, D, D, D, D, D, 0, P, 0, 0, 0, P,
    0, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, P, 0, P, 0, 0,
    0, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, P, 0, P, 0, B,
    O,
};
/* clang-format on */
#undef B
#undef P
#undef D
#undef U
#undef L
#undef O

void stk__tokens_clear(stk__tokens *tokens)
{
    stk__free(tokens->items);
    stk__free(tokens->text);
    stk__folded_clear(&tokens->folded);
    *tokens = (stk__tokens){0};
}

void stk__tokens_reset(stk__tokens *tokens)
{
    tokens->count = tokens->text_size = 0;
}

static bool reserve(stk__scan *s, size_t text_size)
{
    stk__tokens *t = s->out;
    if (STK_LIKELY(t->count < t->capacity && text_size <= t->text_capacity - t->text_size))
        return true;
    if (!s->failed)
        s->failed = !stk__grow((void **)&t->items, &t->capacity, t->count + 1, sizeof *t->items) ||
                    !stk__grow((void **)&t->text, &t->text_capacity, t->text_size + text_size + 1, 1);
    return !s->failed;
}

/* The text has been written already. */
static inline void commit(stk__scan *s, size_t text_size, size_t at, size_t end, uint32_t flags)
{
    stk__tokens *t = s->out;
    t->items[t->count++] = (stk__token){t->text_size, text_size, at, end - at, flags};
    t->text_size += text_size;
}

void stk__scan_put(stk__scan *s, const char *text, size_t size, size_t at, size_t end, uint32_t flags)
{
    if (!reserve(s, size))
        return;
    if (size)
        memcpy(s->out->text + s->out->text_size, text, size);
    commit(s, size, at, end, flags);
}

static void put_expanded(void *to, const char *word, size_t size)
{
    stk__scan_put(to, word, size, 0, 0, STK__TOKEN_EXPANDED);
}

stk__word_sink stk__scan_sink(stk__scan *s)
{
    return (stk__word_sink){put_expanded, s};
}

void stk__scan_say(stk__scan *s, const char *words, size_t at, size_t end)
{
    while (*words) {
        const size_t size = strcspn(words, " ");
        stk__scan_put(s, words, size, at, end, STK__TOKEN_EXPANDED | (size == 1 ? STK__TOKEN_LETTER : 0u));
        words += size + (words[size] == ' ');
    }
}

void stk__scan_cover(stk__scan *s, size_t first, size_t at, size_t end)
{
    for (size_t i = first; i < s->out->count; i++) {
        s->out->items[i].source_at = at;
        s->out->items[i].source_size = end - at;
    }
}

size_t stk__scan_skip_blanks(const stk__scan *s, size_t at)
{
    while (at < s->size && stk__scan_is(s, at, STK__BYTE_BLANK))
        at++;
    return at;
}

static size_t run(const stk__scan *s, size_t at, size_t most, unsigned classes)
{
    const size_t limit = most < s->size - at ? at + most : s->size;
    while (at < limit && stk__scan_is(s, at, classes))
        at++;
    return at;
}

size_t stk__scan_letters(const stk__scan *s, size_t at, size_t most)
{
    return at < s->size ? run(s, at, most, STK__BYTE_LOWER | STK__BYTE_UPPER) : at;
}

size_t stk__scan_digits(const stk__scan *s, size_t at, size_t most)
{
    return at < s->size ? run(s, at, most, STK__BYTE_DIGIT) : at;
}

bool stk__scan_after_whole(const stk__scan *s, size_t at)
{
    if (stk__scan_before(s, at) != ' ')
        return false;
    size_t start = at - 1;
    while (at - start < 4 && stk__scan_was(s, start, STK__BYTE_DIGIT))
        start--;
    return start < at - 1 && stk__scan_was(s, start, STK__BYTE_BLANK | STK__BYTE_PLAIN);
}

bool stk__scan_ends(const stk__scan *s, size_t at)
{
    int lines = 0;
    for (; at < s->size && lines < 2; at++) {
        const unsigned char c = stk__scan_byte(s, at);
        if (c == '\n')
            lines++;
        else if (!stk__scan_is(s, at, STK__BYTE_BLANK) && c != '"' && c != '\'' && c != ')' && c != ']')
            return false;
    }
    return true;
}

bool stk__scan_copy_lower(const stk__scan *s, size_t at, size_t end, char *out, size_t size)
{
    if (end - at > size)
        return false;
    for (size_t i = at; i < end; i++)
        out[i - at] = stk__lower(s->text[i]);
    return true;
}

/* "A" and "a" are the article but before a mark, the end, a digit or a hyphen; "I" sounds the same both ways. */
static bool is_letter_name(const stk__scan *s, char letter, size_t at, size_t end)
{
    if (letter == 'i')
        return false;
    if (letter != 'a' || stk__scan_was(s, at, STK__BYTE_DIGIT) || stk__scan_before(s, at) == '&')
        return true;
    size_t next = end;
    if (end - at == 1)
        next = stk__scan_skip_blanks(s, end);
    const unsigned char c = stk__scan_byte(s, next);
    return next == s->size || end - at > 1 || memchr(".,;:!?)-_/&@+", c, 13) ||
           (next == end && stk__scan_is(s, end, STK__BYTE_DIGIT));
}

/* "TVs" is written "tv's", which sounds the same and shows where the letters end; not when the lexicon has it. */
static size_t split_plural(const stk__scan *s, char *word, size_t size)
{
    if (word[size - 2] == '\'' || (s->known && s->known(s->context, word, size)))
        return size;
    word[size - 1] = '\'';
    word[size] = 's';
    return size + 1;
}

void stk__scan_put_word(stk__scan *s, size_t at, size_t text_end, size_t end)
{
    if (!reserve(s, text_end - at + 1))
        return;
    char *out = s->out->text + s->out->text_size;
    size_t size = 0, capitals = 0, small = 0;
    bool other = false;
    for (size_t i = at; i < text_end; i++) {
        const unsigned class = stk__byte_classes[(unsigned char)s->text[i]];
        if (class & STK__BYTE_OTHER) {
            other = true;
            continue;
        }
        out[size++] = stk__lower(s->text[i]);
        capitals += (class & STK__BYTE_UPPER) != 0;
        small += (class & STK__BYTE_LOWER) != 0;
    }
    uint32_t flags = other ? STK__TOKEN_UNKNOWN : 0;
    if (capitals >= 2 && small == 0)
        flags |= STK__TOKEN_CAPITALS;
    if (capitals >= 2 && small == 1 && s->text[text_end - 1] == 's' && !other) {
        flags |= STK__TOKEN_CAPITALS;
        size = split_plural(s, out, size);
    }
    if (size == 1 && out[0] != '\'' && !other && is_letter_name(s, out[0], at, end))
        flags |= STK__TOKEN_LETTER;
    commit(s, size, at, end, flags);
}

/*
 * Most of all text goes through here: letters, then a blank or a plain mark. Returns 0 when there is more to look at,
 * and then nothing has been put out.
 */
static inline size_t plain_word(stk__scan *s, size_t at)
{
    const unsigned char *text = (const unsigned char *)s->text;
    const size_t size = s->size;
    unsigned all = 0, class = 0;
    size_t end = at;
    for (; end < size; end++) {
        class = stk__byte_classes[text[end]];
        if (!(class & STK__BYTE_LETTER))
            break;
        all |= class;
    }
    const size_t length = end - at;
    if (length < 2 || (all & STK__BYTE_OTHER) || (end < size && !(class & (STK__BYTE_BLANK | STK__BYTE_PLAIN))))
        return 0;
    /* "TVs" */
    if ((all & STK__BYTE_LOWER) && stk__byte_classes[text[at + 1]] & STK__BYTE_UPPER)
        return 0;
    if (!reserve(s, length))
        return end;
    char *out = s->out->text + s->out->text_size;
    for (size_t i = 0; i < length; i++)
        out[i] = (char)(text[at + i] | 0x20);
    if (stk__abbreviation_maybe_bare(out, length))
        return 0;
    commit(s, length, at, end, all & STK__BYTE_LOWER ? 0 : STK__TOKEN_CAPITALS);
    return end;
}

static void scan(stk__scan *s)
{
    for (size_t at = 0; at < s->size && !s->failed;) {
        const unsigned class = stk__byte_classes[(unsigned char)s->text[at]];
        if (class & STK__BYTE_BLANK) {
            at++;
        } else if (class & STK__BYTE_LETTER) {
            const size_t end = plain_word(s, at);
            at = end ? end : stk__scan_word(s, at);
        } else if (class & STK__BYTE_DIGIT) {
            at = stk__scan_number(s, at);
        } else {
            at = stk__scan_sign(s, at);
        }
    }
}

/* Places in folded text become places in the source. Both ends never go back, so that two cursors do. */
static void place_tokens(stk__tokens *t, size_t first)
{
    size_t start_cursor = 0, end_cursor = 0;
    for (size_t i = first; i < t->count; i++) {
        stk__token *token = &t->items[i];
        const size_t end = stk__fold_source(&t->folded, token->source_at + token->source_size, &end_cursor);
        token->source_at = stk__fold_source(&t->folded, token->source_at, &start_cursor);
        token->source_size = end - token->source_at;
    }
}

static stk_status open_scan(stk__scan *s, stk__tokens *tokens, const char *text, size_t size, stk_error *err)
{
    *s = (stk__scan){.text = text, .size = size, .out = tokens, .quote_at = SIZE_MAX};
    if (!stk__fold_needed(text, size))
        return STK_OK;
    if (!stk__fold(&tokens->folded, text, size))
        return stk__nomem(size, err);
    s->text = tokens->folded.text;
    s->size = tokens->folded.size;
    return STK_OK;
}

stk_status stk__tokens_add(stk__tokens *tokens, const char *text, size_t size, stk__word_known known,
                           const void *context, stk_error *err)
{
    const size_t count = tokens->count, text_size = tokens->text_size;
    stk__scan s;
    STK_TRY(open_scan(&s, tokens, text, size, err));
    s.known = known;
    s.context = context;
    scan(&s);
    if (s.failed) {
        tokens->count = count;
        tokens->text_size = text_size;
        return stk__nomem(size, err);
    }
    if (s.text != text)
        place_tokens(tokens, count);
    return STK_OK;
}

stk_status stk__tokens_add_word(stk__tokens *tokens, const char *word, size_t size, stk_error *err)
{
    stk__scan s;
    STK_TRY(open_scan(&s, tokens, word, size, err));
    if (!reserve(&s, s.size))
        return stk__nomem(s.size, err);
    char *out = tokens->text + tokens->text_size;
    size_t length = 0, letters = 0;
    unsigned all = 0;
    bool unknown = false, dropped = false;
    const size_t start = stk__scan_skip_blanks(&s, 0);
    while (s.size > start && stk__scan_was(&s, s.size, STK__BYTE_BLANK))
        s.size--;
    for (size_t i = start; i < s.size; i++) {
        const unsigned char c = stk__scan_byte(&s, i);
        const unsigned class = stk__byte_classes[c];
        all |= class;
        letters += (class & (STK__BYTE_LOWER | STK__BYTE_UPPER)) != 0;
        unknown |= !(class & (STK__BYTE_LOWER | STK__BYTE_UPPER)) && c != '\'';
        if (c > ' ' && c < 0x7F)
            out[length++] = stk__lower((char)c);
        else
            dropped = true;
    }
    uint32_t flags = (unknown ? STK__TOKEN_UNKNOWN : 0) | (dropped ? STK__TOKEN_DROPPED : 0);
    if (letters >= 2 && !(all & STK__BYTE_LOWER))
        flags |= STK__TOKEN_CAPITALS;
    commit(&s, length, 0, size, flags);
    return STK_OK;
}
