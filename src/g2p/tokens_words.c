/* Words that need a second look: apostrophes, hyphens, digits, and what the lexicon has as a whole. */
#include <string.h>

#include "g2p/abbreviations.h"
#include "g2p/tokens_scan.h"

#include "base/banned.h"

/* An opened single quote that is not closed within this many bytes was none. */
#define QUOTE_REACH 500
/* The longest word with hyphens that the lexicon is asked for. */
#define WHOLE_MAX 64

/* Letters, with single apostrophes between them. */
static size_t word_end(const stk__scan *s, size_t at)
{
    for (;;) {
        while (at < s->size && stk__scan_is(s, at, STK__BYTE_LETTER))
            at++;
        if (stk__scan_byte(s, at) != '\'' || !stk__scan_is(s, at + 1, STK__BYTE_LETTER))
            return at;
        at++;
    }
}

static bool is_known(const stk__scan *s, const char *word, size_t size)
{
    return s->known && s->known(s->context, word, size);
}

size_t stk__scan_whole(stk__scan *s, size_t at)
{
    if (!s->known || at < s->whole_until)
        return 0;
    size_t end = at;
    while (end - at <= WHOLE_MAX && (stk__scan_is(s, end, STK__BYTE_ALNUM) ||
                                     ((stk__scan_byte(s, end) == '-' || stk__scan_byte(s, end) == '\'') &&
                                      stk__scan_is(s, end + 1, STK__BYTE_ALNUM))))
        end++;
    s->whole_until = end;
    char word[WHOLE_MAX];
    if (!stk__scan_copy_lower(s, at, end, word, sizeof word) || memchr(word, STK__FOLD_OTHER, end - at) ||
        !is_known(s, word, end - at))
        return 0;
    stk__scan_put(s, word, end - at, at, end, 0);
    return end;
}

/* "goin'", "ol'": spoken without the apostrophe, and no closing quote. */
static bool drops_its_end(const char *word, size_t size)
{
    static const char *const words[] = {"o'", "an'", "th'", "ol'", "wi'", "lil'", "mo'", "po'"};
    for (size_t i = 0; i < STK_COUNT(words); i++) {
        if (strlen(words[i]) == size && memcmp(words[i], word, size) == 0)
            return true;
    }
    return size > 4 && memcmp(word + size - 3, "in'", 3) == 0;
}

/* An apostrophe behind the word at `at`: part of it, unless it closes a quotation. */
static size_t trailing_apostrophe(stk__scan *s, size_t at, size_t end)
{
    char word[WHOLE_MAX];
    if ((s->quote_at != SIZE_MAX && at - s->quote_at < QUOTE_REACH) ||
        !stk__scan_copy_lower(s, at, end + 1, word, sizeof word) || stk__scan_byte(s, end + 1) == '\'')
        return 0;
    const size_t size = end + 1 - at;
    const bool plural = size > 2 && (word[size - 2] == 's' || word[size - 2] == 'z' || word[size - 2] == 'x');
    const bool known = is_known(s, word, size);
    if (!known && !plural && !drops_its_end(word, size))
        return 0;
    /* "dogs'" sounds like "dogs", which the lexicon is more likely to have. */
    const bool shorter = plural && !known && is_known(s, word, size - 1);
    stk__scan_put_word(s, at, shorter ? end : end + 1, end + 1);
    return end + 1;
}

/* A hyphen or underscore behind the word: it belongs to the word before it, but for dashes ("so--well"). */
static size_t hyphen(stk__scan *s, size_t at, size_t end)
{
    if (stk__scan_byte(s, end + 1) == stk__scan_byte(s, end))
        return 0;
    stk__scan_put_word(s, at, end, end + 1);
    return end + 1;
}

/* "AT&T": capitals before "&" are no word. */
static size_t before_and(stk__scan *s, size_t at, size_t end)
{
    if (end - at > 3 || end - at < 2)
        return 0;
    for (size_t i = at; i < end; i++) {
        if (!stk__scan_is(s, i, STK__BYTE_UPPER))
            return 0;
    }
    for (size_t i = at; i < end; i++) {
        const char letter = stk__lower(s->text[i]);
        stk__scan_put(s, &letter, 1, i, i + 1, STK__TOKEN_LETTER);
    }
    return end;
}

/* "w/" and "w/o". */
static size_t with(stk__scan *s, size_t at, size_t end)
{
    if (end - at != 1 || stk__lower(s->text[at]) != 'w' || stk__scan_was(s, at, STK__BYTE_ALNUM))
        return 0;
    const bool without =
        stk__lower((char)stk__scan_byte(s, end + 1)) == 'o' && !stk__scan_is(s, end + 2, STK__BYTE_ALNUM);
    if (!without && !stk__scan_is(s, end + 1, STK__BYTE_BLANK | STK__BYTE_LETTER))
        return 0;
    end += without ? 2 : 1;
    stk__scan_say(s, without ? "without" : "with", at, end);
    return end;
}

size_t stk__scan_word(stk__scan *s, size_t at)
{
    const size_t end = word_end(s, at);
    const unsigned char next = stk__scan_byte(s, end);
    const bool digit = stk__scan_is(s, end, STK__BYTE_DIGIT);
    size_t done = 0;
    if (digit || (next && strchr(".:@-_+/", next)))
        done = stk__scan_web(s, at);
    if (!done && (digit || (next == '-' && stk__scan_is(s, end + 1, STK__BYTE_ALNUM))))
        done = stk__scan_whole(s, at);
    if (!done && next == '.')
        done = stk__scan_short(s, at, end);
    else if (!done && (next == '-' || next == '_'))
        done = hyphen(s, at, end);
    else if (!done && next == '\'')
        done = trailing_apostrophe(s, at, end);
    else if (!done && next == '&')
        done = before_and(s, at, end);
    else if (!done && next == '/')
        done = with(s, at, end);
    else if (!done && next == '$' && end - at <= 2 && stk__currency_country(s->text + at, end - at))
        done = stk__scan_money(s, at, end, stk__currency_country(s->text + at, end - at));
    else if (!done && !digit)
        done = stk__scan_bare(s, at, end);
    if (!done) {
        stk__scan_put_word(s, at, end, end);
        done = end;
    }
    return done;
}

/* "'tis", "'em", "'n'". */
static size_t elided_word(stk__scan *s, size_t at)
{
    char word[16] = "'";
    const size_t end = word_end(s, at + 1);
    if (!stk__scan_copy_lower(s, at + 1, end, word + 1, sizeof word - 1))
        return 0;
    const size_t size = end - at;
    if (size == 2 && word[1] == 'n' && stk__scan_byte(s, end) == '\'' && !stk__scan_is(s, end + 1, STK__BYTE_ALNUM)) {
        if (is_known(s, word, size))
            stk__scan_put(s, word, size, at, end + 1, 0);
        else
            stk__scan_say(s, "and", at, end + 1);
        return end + 1;
    }
    if (!is_known(s, word, size) && !stk__elided(word + 1, size - 1))
        return 0;
    stk__scan_put_word(s, at, end, end);
    return end;
}

size_t stk__scan_quote(stk__scan *s, size_t at)
{
    size_t end = at + 1, done = 0;
    while (stk__scan_byte(s, end) == '\'')
        end++;
    const bool opens = !stk__scan_was(s, at, STK__BYTE_ALNUM) && stk__scan_is(s, end, STK__BYTE_ALNUM);
    if (opens && end - at == 1 && stk__scan_is(s, end, STK__BYTE_LETTER))
        done = elided_word(s, at);
    if (done)
        return done;
    if (opens && end - at == 1 && stk__scan_digits(s, end, 3) == end + 2) {
        const size_t first = s->out->count;
        end = stk__scan_number(s, end);
        for (size_t i = first; i < s->out->count && s->out->items[i].source_at == at + 1; i++) {
            s->out->items[i].source_at--;
            s->out->items[i].source_size++;
        }
        return end;
    }
    s->quote_at = opens ? at : SIZE_MAX;
    stk__scan_put(s, "\"", 1, at, end, STK__TOKEN_MARK);
    return end;
}
