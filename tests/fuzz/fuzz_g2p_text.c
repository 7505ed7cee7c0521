/* Fuzz target: any bytes as running text and as one word; every byte must come out in some token, in order and in bounds. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "g2p/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static const char marker;

/* A lexicon with words of every length by chance, the same each time. */
static bool known(const void *context, const char *word, size_t size)
{
    unsigned sum = 7;
    for (size_t i = 0; i < size; i++)
        sum = sum * 31 + (unsigned char)word[i];
    require(context == &marker && size > 0);
    return sum % 3 == 0;
}

/* How many bytes of blank or invisible text there are at s; 0: something that must be in a token. */
static size_t blank_length(const uint8_t *s, size_t left)
{
    if (s[0] <= ' ' || s[0] == 0x7F)
        return 1;
    const size_t length = stk__utf8_length(s, left);
    if (length < 2)
        return 0;
    uint32_t c = length == 2 ? s[0] & 0x1Fu : length == 3 ? s[0] & 0x0Fu : s[0] & 0x07u;
    for (size_t i = 1; i < length; i++)
        c = c << 6 | (s[i] & 0x3Fu);
    const bool blank = (c >= 0x80 && c <= 0xA0) || c == 0xAD || c == 0x61C || c == 0x1680 || c == 0x180E ||
                       (c >= 0x2000 && c <= 0x200F) || (c >= 0x2028 && c <= 0x202F) || (c >= 0x205F && c <= 0x2069) ||
                       c == 0x3000 || c == 0xFEFF;
    return blank ? length : 0;
}

static bool is_mark(const char *text, size_t size)
{
    return (size == 1 && strchr(".,?!;:-()\"", text[0])) || (size == 3 && memcmp(text, "...", 3) == 0);
}

static void check_text(const stk__tokens *t, const stk__token *token, bool lexicon)
{
    const char *text = t->text + token->text_at;
    if (token->flags & STK__TOKEN_MARK) {
        require(token->flags == STK__TOKEN_MARK && is_mark(text, token->text_size));
        return;
    }
    require(token->text_size > 0 || (token->flags & STK__TOKEN_UNKNOWN));
    require(!(token->flags & STK__TOKEN_LETTER) || token->text_size == 1);
    for (size_t i = 0; i < token->text_size; i++) {
        const char c = text[i];
        const bool letter = c >= 'a' && c <= 'z';
        require(letter || c == '\'' || (lexicon && ((c >= '0' && c <= '9') || c == '-')));
    }
}

static void check_tokens(const stk__tokens *t, const uint8_t *data, size_t size, bool lexicon)
{
    size_t covered = 0, text_at = 0, last_at = 0, last_end = 0;
    for (size_t i = 0; i <= t->count; i++) {
        const stk__token *token = i < t->count ? &t->items[i] : NULL;
        const size_t at = token ? token->source_at : size;
        while (covered < at) { /* between tokens there are blanks only */
            const size_t length = blank_length(data + covered, size - covered);
            require(length > 0);
            covered += length;
        }
        if (!token)
            break;
        const size_t end = at + token->source_size;
        require(token->source_size > 0 && end <= size && at >= last_at && end >= last_end);
        require(token->text_at == text_at);
        text_at += token->text_size;
        check_text(t, token, lexicon);
        last_at = at;
        last_end = end;
        covered = covered > end ? covered : end;
    }
    require(text_at == t->text_size);
    require(t->count <= 2 * size && t->text_size <= 16 * size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk__tokens t = {0};
    const char *text = (const char *)data;
    require(stk__tokens_add(&t, text, size, NULL, NULL, NULL) == STK_OK);
    check_tokens(&t, data, size, false);
    stk__tokens_reset(&t);
    require(stk__tokens_add(&t, text, size, known, &marker, NULL) == STK_OK);
    check_tokens(&t, data, size, true);
    const size_t count = t.count;
    require(stk__tokens_add_word(&t, text, size, NULL) == STK_OK);
    require(t.count == count + 1 && t.items[count].source_at == 0 && t.items[count].source_size == size);
    stk__tokens_clear(&t);
    return 0;
}
