/* Amounts of money: "$1.50", "£3.2 million", "US$5-10". */
#include <string.h>

#include "g2p/abbreviations.h"
#include "g2p/tokens_amount.h"

#include "base/banned.h"

/* "million" behind the amount, as a word or a letter, and where it ends. */
static const char *magnitude(const stk__scan *s, size_t at, size_t *end)
{
    const size_t gap = stk__scan_byte(s, at) == ' ' ? 1 : 0;
    const size_t word_at = at + gap, word_end = stk__scan_letters(s, word_at, 12);
    if (word_end == word_at || stk__scan_is(s, word_end, STK__BYTE_ALNUM))
        return NULL;
    char word[12];
    stk__scan_copy_lower(s, word_at, word_end, word, sizeof word);
    const char *found = stk__magnitude_find(s->text + word_at, word_end - word_at, gap == 0);
    if (!found && word_end - word_at > 2)
        found = stk__magnitude_find(word, word_end - word_at, gap == 0);
    if (found)
        *end = word_end;
    return found;
}

static bool all_zeros(const stk__scan *s, size_t at, size_t end)
{
    while (at < end && s->text[at] == '0')
        at++;
    return at == end;
}

static void say_country(stk__scan *s, const char *country)
{
    if (country)
        stk__scan_say(s, country, 0, 0);
}

/* Two decimals are cents: "one dollar fifty cents", "ninety nine cents". */
static void say_with_cents(stk__scan *s, const stk__amount *a, const stk__currency *c, const char *country)
{
    const stk__word_sink sink = stk__scan_sink(s);
    const char *cents = s->text + a->fraction_at;
    const bool no_cents = all_zeros(s, a->fraction_at, a->fraction_end);
    if (no_cents || !all_zeros(s, a->whole_at, a->whole_end)) {
        const size_t whole = a->whole_end - a->whole_at;
        if (whole)
            stk__number_say(s->text + a->whole_at, whole, STK__NUMBER_CARDINAL, &sink);
        else
            stk__scan_say(s, "zero", 0, 0);
        say_country(s, country);
        stk__scan_say(s, whole == 1 && s->text[a->whole_at] == '1' ? c->one : c->many, 0, 0);
    }
    if (no_cents)
        return;
    const size_t zeros = cents[0] == '0';
    stk__number_say(cents + zeros, 2 - zeros, STK__NUMBER_CARDINAL, &sink);
    stk__scan_say(s, cents[0] == '0' && cents[1] == '1' ? c->cent : c->cents, 0, 0);
}

size_t stk__scan_money(stk__scan *s, size_t at, size_t sign_at, const char *country)
{
    const stk__currency *c = stk__currency_find(stk__scan_byte(s, sign_at));
    const size_t number_at = sign_at + 1 + (stk__scan_byte(s, sign_at + 1) == ' ');
    if (!c || !stk__amount_starts(s, number_at))
        return 0;
    const size_t first = s->out->count;
    const stk__amount a = stk__amount_read(s, number_at);
    stk__amount last = a;
    const unsigned char dash = stk__scan_byte(s, a.end);
    if ((dash == '-' || dash == STK__FOLD_EN_DASH) && stk__scan_is(s, a.end + 1, STK__BYTE_DIGIT))
        last = stk__amount_read(s, a.end + 1);
    size_t end = last.end;
    const char *times = magnitude(s, last.end, &end);
    const bool range = last.whole_at != a.whole_at;
    if (!range && !times && c->cent && a.fraction_end - a.fraction_at == 2) {
        say_with_cents(s, &a, c, country);
    } else {
        stk__amount_say(s, &a);
        if (range) {
            stk__scan_say(s, "to", 0, 0);
            stk__amount_say(s, &last);
        }
        if (times)
            stk__scan_say(s, times, 0, 0);
        say_country(s, country);
        stk__scan_say(s, !times && !range && stk__amount_is_one(s, &a) ? c->one : c->many, 0, 0);
    }
    stk__scan_cover(s, first, at, end);
    return stk__amount_join(s, at, end);
}
