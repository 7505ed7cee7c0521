/* Short forms with dots: acronyms, initials and abbreviations, by what stands around them. */
#include <string.h>

#include "g2p/abbreviations.h"
#include "g2p/tokens_scan.h"

#include "base/banned.h"

#define ASCII_LETTER (STK__BYTE_LOWER | STK__BYTE_UPPER)

/* Letters of which each but the last has a dot: "U.S.A." or "U.S.A"; where they end, and how many. */
static size_t acronym_end(const stk__scan *s, size_t at, size_t *count)
{
    *count = 0;
    while (stk__scan_is(s, at, ASCII_LETTER) && stk__scan_byte(s, at + 1) == '.') {
        at += 2;
        ++*count;
    }
    if (*count && stk__scan_is(s, at, ASCII_LETTER) && !stk__scan_is(s, at + 1, STK__BYTE_ALNUM)) {
        at++;
        ++*count;
    }
    return at;
}

static bool starts_sentence(const stk__scan *s, size_t next)
{
    char word[8];
    const size_t end = stk__scan_letters(s, next, sizeof word);
    return stk__scan_copy_lower(s, next, end, word, sizeof word) && stk__opens_sentence(word, end - next);
}

bool stk__scan_sentence_ends(const stk__scan *s, size_t at)
{
    const size_t next = stk__scan_skip_blanks(s, at);
    return stk__scan_ends(s, at) || (next > at && stk__scan_is(s, next, STK__BYTE_UPPER) && starts_sentence(s, next));
}

/*
 * Where the token ends: before its last dot when that ends the text as well, or starts an ellipsis. `any`: the end of
 * any sentence will do, for nothing of its own follows ("5 p.m. The").
 */
static size_t without_final_dot(const stk__scan *s, size_t end, bool any)
{
    if (stk__scan_before(s, end) != '.')
        return end;
    const bool ends = any ? stk__scan_sentence_ends(s, end) : stk__scan_ends(s, end);
    return stk__scan_byte(s, end) == '.' || ends ? end - 1 : end;
}

static void say_letters(stk__scan *s, size_t at, size_t end)
{
    for (size_t i = at; i < end; i++) {
        if (!stk__scan_is(s, i, ASCII_LETTER))
            continue;
        const char letter = stk__lower(s->text[i]);
        /* The dot goes with its letter. */
        const size_t letter_end = i + 1 < end && s->text[i + 1] == '.' ? i + 2 : i + 1;
        stk__scan_put(s, &letter, 1, i, letter_end, STK__TOKEN_LETTER);
    }
}

/* "U.S.'s" is one word, "us's". */
static size_t owning_acronym(stk__scan *s, size_t at, size_t end)
{
    char word[16];
    size_t size = 0;
    if (stk__scan_byte(s, end) != '\'' || stk__scan_byte(s, end + 1) != 's' ||
        stk__scan_is(s, end + 2, STK__BYTE_ALNUM) || end - at > sizeof word - 2)
        return 0;
    for (size_t i = at; i < end; i++) {
        if (s->text[i] != '.')
            word[size++] = stk__lower(s->text[i]);
    }
    word[size++] = '\'';
    word[size++] = 's';
    stk__scan_put(s, word, size, at, end + 2, STK__TOKEN_CAPITALS);
    return end + 2;
}

/* "e.g.", "U.S.", "J.R.R."; 0 when fewer than two letters have dots. */
static size_t acronym(stk__scan *s, size_t at)
{
    size_t count;
    const size_t full_end = acronym_end(s, at, &count);
    if (count < 2)
        return 0;
    const size_t owning = owning_acronym(s, at, full_end);
    if (owning)
        return owning;
    const bool example = count == 2 && memcmp(s->text + at, "e.g", 3) == 0;
    const bool that_is = count == 2 && memcmp(s->text + at, "i.e", 3) == 0;
    const size_t end = without_final_dot(s, full_end, !example && !that_is);
    if (example)
        stk__scan_say(s, "for example", at, end);
    else if (that_is)
        stk__scan_say(s, "that is", at, end);
    else
        say_letters(s, at, end);
    return end;
}

static size_t doctorate(stk__scan *s, size_t at, size_t end)
{
    char text[4];
    if (end - at != 2 || at + 4 > s->size || !stk__scan_copy_lower(s, at, at + 4, text, 4) || memcmp(text, "ph.d", 4) ||
        stk__scan_is(s, at + 4, STK__BYTE_ALNUM))
        return 0;
    end = without_final_dot(s, stk__scan_byte(s, at + 4) == '.' ? at + 5 : at + 4, true);
    say_letters(s, at, end);
    return end;
}

/* "J. Smith": a capital with a dot before a name. "I." only before another initial, else it ends a sentence. */
static size_t initial(stk__scan *s, size_t at)
{
    if (!stk__scan_is(s, at, STK__BYTE_UPPER))
        return 0;
    const size_t next = stk__scan_skip_blanks(s, at + 2);
    if (!stk__scan_is(s, next, STK__BYTE_UPPER) || (s->text[at] == 'I' && stk__scan_byte(s, next + 1) != '.'))
        return 0;
    say_letters(s, at, at + 2);
    return at + 2;
}

/* The word before it, behind one blank, has a capital or is a number ("5th St."). */
static bool after_name(const stk__scan *s, size_t at)
{
    if (stk__scan_before(s, at) != ' ')
        return false;
    size_t start = at - 1;
    for (int i = 0; i < 40 && (stk__scan_was(s, start, STK__BYTE_ALNUM) || stk__scan_before(s, start) == '\''); i++)
        start--;
    return start < at - 1 && stk__scan_is(s, start, STK__BYTE_UPPER | STK__BYTE_DIGIT);
}

/* The words that it stands for here, or NULL. What follows starts at `next`. */
static const char *words_for(const stk__scan *s, const stk__abbreviation *a, size_t at, size_t next, bool dot)
{
    const bool capital = stk__scan_is(s, at, STK__BYTE_UPPER);
    const bool digit = stk__scan_is(s, next, STK__BYTE_DIGIT);
    if ((a->flags & (STK__ABBREVIATION_CAPITAL | STK__ABBREVIATION_TITLE | STK__ABBREVIATION_DATE)) && !capital)
        return NULL;
    if ((a->flags & STK__ABBREVIATION_LOWER) && capital)
        return NULL;
    if ((a->flags & STK__ABBREVIATION_TITLE) && !stk__scan_is(s, next, STK__BYTE_UPPER))
        return NULL;
    if ((a->flags & STK__ABBREVIATION_DIGIT) && !digit)
        return NULL;
    if ((a->flags & STK__ABBREVIATION_DATE) && !digit && stk__scan_byte(s, next) != ',')
        return NULL;
    if (!(a->flags & STK__ABBREVIATION_PLACE))
        return a->words;
    const bool behind = after_name(s, at);
    if (stk__scan_is(s, next, STK__BYTE_UPPER) && !(behind && starts_sentence(s, next)))
        return a->words;
    return dot || behind ? a->after : NULL;
}

static const stk__abbreviation *find(const stk__scan *s, size_t at, size_t end, char word[8])
{
    return stk__scan_copy_lower(s, at, end, word, 8) ? stk__abbreviation_find(word, end - at) : NULL;
}

static void put_short(stk__scan *s, const stk__abbreviation *a, const char *words, size_t at, size_t end)
{
    if ((a->flags & STK__ABBREVIATION_KNOWN) && s->known && s->known(s->context, a->name, strlen(a->name)))
        stk__scan_put(s, a->name, strlen(a->name), at, end, 0);
    else
        stk__scan_say(s, words, at, end);
}

static size_t abbreviation(stk__scan *s, size_t at, size_t end)
{
    char word[8];
    const stk__abbreviation *a = find(s, at, end, word);
    if (!a)
        return 0;
    const size_t next = stk__scan_skip_blanks(s, end + 1);
    const char *words = words_for(s, a, at, next, true);
    if (!words)
        return 0;
    size_t done = without_final_dot(s, end + 1, words == a->after);
    if ((a->flags & STK__ABBREVIATION_LAST) && next > end + 1 && stk__scan_is(s, next, STK__BYTE_UPPER))
        done = end;
    put_short(s, a, words, at, done);
    return done;
}

size_t stk__scan_short(stk__scan *s, size_t at, size_t end)
{
    size_t done = 0;
    if (end - at == 1)
        done = acronym(s, at);
    if (!done)
        done = doctorate(s, at, end);
    if (!done)
        done = abbreviation(s, at, end);
    if (!done && end - at == 1)
        done = initial(s, at);
    return done;
}

size_t stk__scan_bare(stk__scan *s, size_t at, size_t end)
{
    char word[8];
    const stk__abbreviation *a = find(s, at, end, word);
    /* Two capitals are an acronym of their own: "MS", "DR". */
    if (!a || !(a->flags & STK__ABBREVIATION_BARE) || stk__scan_is(s, at + 1, STK__BYTE_UPPER))
        return 0;
    const char *words = words_for(s, a, at, stk__scan_skip_blanks(s, end), false);
    if (!words)
        return 0;
    put_short(s, a, words, at, end);
    return end;
}
