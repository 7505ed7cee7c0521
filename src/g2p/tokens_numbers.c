/* Numbers in running text: what stands before and behind them says how they are read. */
#include <string.h>

#include "g2p/abbreviations.h"
#include "g2p/tokens_amount.h"

#include "base/banned.h"

bool stk__amount_starts(const stk__scan *s, size_t at)
{
    return stk__scan_is(s, at, STK__BYTE_DIGIT) ||
           (stk__scan_byte(s, at) == '.' && stk__scan_is(s, at + 1, STK__BYTE_DIGIT));
}

stk__amount stk__amount_read(const stk__scan *s, size_t at)
{
    stk__amount a = {.whole_at = at};
    a.whole_end = stk__scan_digits(s, at, SIZE_MAX);
    if (a.whole_end > at && a.whole_end - at <= 3) {
        while (stk__scan_byte(s, a.whole_end) == ',' && stk__scan_digits(s, a.whole_end + 1, 4) == a.whole_end + 4) {
            a.whole_end += 4;
            a.commas = true;
        }
    }
    a.end = a.whole_end;
    if (stk__scan_byte(s, a.end) == '.' && stk__scan_is(s, a.end + 1, STK__BYTE_DIGIT)) {
        a.fraction_at = a.end + 1;
        a.fraction_end = a.end = stk__scan_digits(s, a.fraction_at, SIZE_MAX);
    }
    return a;
}

bool stk__amount_is_one(const stk__scan *s, const stk__amount *a)
{
    return a->end - a->whole_at == 1 && s->text[a->whole_at] == '1';
}

void stk__amount_say(stk__scan *s, const stk__amount *a)
{
    const stk__word_sink sink = stk__scan_sink(s);
    stk__number_say(s->text + a->whole_at, a->whole_end - a->whole_at, STK__NUMBER_CARDINAL, &sink);
    if (stk__amount_has_fraction(a)) {
        stk__scan_say(s, "point", 0, 0);
        stk__number_digits(s->text + a->fraction_at, a->fraction_end - a->fraction_at, STK__NUMBER_CARDINAL, &sink);
    }
}

/* "21st", "1980s", "1980's": the end of the ending, and the form that it asks for. */
static size_t form_ending(const stk__scan *s, size_t at, stk__number_form *form)
{
    char text[2];
    const size_t letters_at = at + (stk__scan_byte(s, at) == '\'');
    const size_t end = stk__scan_letters(s, letters_at, 3);
    if (stk__scan_is(s, end, STK__BYTE_ALNUM) || !stk__scan_copy_lower(s, letters_at, end, text, 2))
        return 0;
    if (end - letters_at == 1 && text[0] == 's') {
        *form = STK__NUMBER_PLURAL;
        return end;
    }
    if (letters_at > at || end - at != 2)
        return 0;
    *form = STK__NUMBER_ORDINAL;
    static const char endings[4][3] = {"st", "nd", "rd", "th"};
    for (size_t i = 0; i < 4; i++) {
        if (memcmp(text, endings[i], 2) == 0)
            return end;
    }
    return 0;
}

static size_t with_form(stk__scan *s, const stk__amount *a)
{
    const stk__word_sink sink = stk__scan_sink(s);
    stk__number_form form = STK__NUMBER_CARDINAL;
    const size_t end = stk__amount_has_fraction(a) ? 0 : form_ending(s, a->end, &form);
    if (!end)
        return 0;
    const char *digits = s->text + a->whole_at;
    if (form == STK__NUMBER_PLURAL && a->end - a->whole_at == 4 && stk__number_is_year(digits))
        stk__number_year(digits, form, &sink);
    else
        stk__number_say(digits, a->whole_end - a->whole_at, form, &sink);
    return end;
}

/* 5'10": feet and inches. */
static size_t height(stk__scan *s, const stk__amount *a)
{
    const size_t inches_at = a->end + 1, inches_end = stk__scan_digits(s, inches_at, 3);
    if (a->end - a->whole_at > 2 || stk__scan_byte(s, a->end) != '\'' || inches_end == inches_at ||
        inches_end - inches_at > 2 || stk__scan_is(s, inches_end, STK__BYTE_ALNUM))
        return 0;
    const stk__word_sink sink = stk__scan_sink(s);
    stk__amount_say(s, a);
    stk__scan_say(s, "foot", 0, 0);
    stk__number_say(s->text + inches_at, inches_end - inches_at, STK__NUMBER_CARDINAL, &sink);
    return inches_end + (stk__scan_byte(s, inches_end) == '"');
}

static bool is_unit_byte(const stk__scan *s, size_t at)
{
    const unsigned char c = stk__scan_byte(s, at);
    return stk__scan_is(s, at, STK__BYTE_LOWER | STK__BYTE_UPPER) || c == '%' || c == '$' || c == '/' ||
           (c >= STK__FOLD_DEGREE && c <= STK__FOLD_MICRO);
}

/* A unit at `at`, of letters and signs: with its "/h" when that is known, else without. */
static const stk__unit *unit_at(const stk__scan *s, size_t at, size_t *out_end)
{
    size_t end = at, slash = 0;
    while (end - at < 8 && is_unit_byte(s, end)) {
        if (stk__scan_byte(s, end) == '/' && !slash)
            slash = end;
        end++;
    }
    if (end == at)
        return NULL;
    const stk__unit *u = NULL;
    if (!stk__scan_is(s, end, STK__BYTE_ALNUM))
        u = stk__unit_find(s->text + at, end - at);
    if (!u && slash > at) {
        end = slash;
        u = stk__unit_find(s->text + at, end - at);
    }
    *out_end = end;
    return u;
}

/* A dot behind a unit that is not the end of the sentence: "6 ft. 2 in. tall". */
static bool is_unit_dot(const stk__scan *s, size_t at)
{
    if (stk__scan_byte(s, at) != '.' || !stk__scan_was(s, at, STK__BYTE_LETTER))
        return false;
    const size_t next = stk__scan_skip_blanks(s, at + 1);
    return stk__scan_byte(s, at + 1) == ',' ||
           (next > at + 1 && stk__scan_is(s, next, STK__BYTE_LOWER | STK__BYTE_DIGIT));
}

/* The unit behind a number that ends at `at`: directly, behind a blank, or behind a hyphen and then always singular. */
static const stk__unit *unit_behind(const stk__scan *s, size_t at, size_t *out_end, bool *out_hyphen)
{
    const unsigned char c = stk__scan_byte(s, at);
    const bool gap = at < s->size && (c == ' ' || c == '-');
    const stk__unit *u = unit_at(s, at + gap, out_end);
    *out_hyphen = c == '-';
    if (!u || (gap && (u->flags & STK__UNIT_GLUED) && !is_unit_dot(s, *out_end)) ||
        (*out_hyphen && !stk__scan_is(s, at + 1, STK__BYTE_LETTER)))
        return NULL;
    /* "5$6" and "5 €20" are amounts of their own. */
    if (stk__currency_find((unsigned char)u->name[0]) && stk__scan_is(s, *out_end, STK__BYTE_DIGIT))
        return NULL;
    return u;
}

static size_t with_unit(stk__scan *s, const stk__amount *a)
{
    size_t end;
    bool is_hyphen;
    const stk__unit *u = unit_behind(s, a->end, &end, &is_hyphen);
    if (!u)
        return 0;
    stk__amount_say(s, a);
    stk__scan_say(s, is_hyphen || stk__amount_is_one(s, a) ? u->one : u->many, 0, 0);
    return end + is_unit_dot(s, end);
}

/* "May 5" is the fifth. */
static bool is_day(const stk__scan *s, const stk__amount *a)
{
    const size_t count = a->end - a->whole_at;
    const char *digits = s->text + a->whole_at;
    if (count > 2 || digits[0] == '0' || (count == 2 && (digits[0] > '3' || (digits[0] == '3' && digits[1] > '1'))) ||
        stk__scan_before(s, a->whole_at) != ' ')
        return false;
    size_t end = a->whole_at - 1;
    if (stk__scan_before(s, end) == '.')
        end--;
    size_t start = end;
    while (end - start < 10 && stk__scan_was(s, start, STK__BYTE_LETTER))
        start--;
    char word[10];
    return stk__scan_is(s, start, STK__BYTE_UPPER) && stk__scan_copy_lower(s, start, end, word, sizeof word) &&
           stk__month_known(word, end - start);
}

static bool has_sign(const stk__scan *s, size_t at)
{
    const unsigned char c = stk__scan_before(s, at);
    return c == STK__FOLD_MINUS || c == '+' || c == '#' || (c == '-' && !stk__scan_was(s, at - 1, STK__BYTE_ALNUM));
}

static size_t plain(stk__scan *s, const stk__amount *a)
{
    const stk__word_sink sink = stk__scan_sink(s);
    const char *digits = s->text + a->whole_at;
    const size_t count = a->end - a->whole_at;
    const bool bare = !a->commas && !stk__amount_has_fraction(a) && !has_sign(s, a->whole_at);
    /* Pairs, too, where a name follows: "1080p". */
    if (bare && count == 4 && (stk__number_is_year(digits) || stk__scan_is(s, a->end, STK__BYTE_LETTER)))
        stk__number_year(digits, STK__NUMBER_CARDINAL, &sink);
    else if (bare && is_day(s, a))
        stk__number_say(digits, count, STK__NUMBER_ORDINAL, &sink);
    else
        stk__amount_say(s, a);
    return a->end;
}

static size_t ordinary(stk__scan *s, size_t at)
{
    const stk__amount a = stk__amount_read(s, at);
    size_t end = with_form(s, &a);
    if (!end && a.end - at <= 2 && stk__amount_meridiem(s, a.end, true)) {
        stk__amount_say(s, &a);
        end = stk__amount_meridiem(s, a.end, false);
    }
    if (!end)
        end = height(s, &a);
    if (!end)
        end = with_unit(s, &a);
    return end ? end : plain(s, &a);
}

/* Digits that go with the letters before them: "MP3", "covid-19", "B52s". */
static size_t model(stk__scan *s, size_t at)
{
    const stk__word_sink sink = stk__scan_sink(s);
    const size_t digits_end = stk__scan_digits(s, at, SIZE_MAX);
    stk__number_form form = STK__NUMBER_CARDINAL;
    if (stk__scan_byte(s, digits_end) == '.' && stk__scan_is(s, digits_end + 1, STK__BYTE_DIGIT))
        return 0;
    size_t end = form_ending(s, digits_end, &form);
    if (form == STK__NUMBER_ORDINAL)
        return 0;
    if (!end)
        end = digits_end;
    stk__number_model(s->text + at, digits_end - at, form, &sink);
    return end;
}

/* The word for what joins two numbers: "10-20", "16:9", "4x4"; NULL when nothing does. */
static const char *joint(const stk__scan *s, size_t at, size_t end)
{
    const unsigned char c = stk__scan_byte(s, end);
    const bool money = stk__currency_find(stk__scan_byte(s, end + 1)) && stk__scan_is(s, end + 2, STK__BYTE_DIGIT);
    if ((c == '-' || c == STK__FOLD_EN_DASH) && (money || stk__amount_starts(s, end + 1)))
        return "to";
    if (!stk__scan_is(s, end + 1, STK__BYTE_DIGIT))
        return NULL;
    if (c == ':')
        return "to";
    if (c == STK__FOLD_TIMES || ((c == 'x' || c == 'X') && !(end - at == 1 && s->text[at] == '0')))
        return "by";
    return NULL;
}

size_t stk__amount_join(stk__scan *s, size_t at, size_t end)
{
    const char *word = joint(s, at, end);
    if (!word)
        return end;
    stk__scan_say(s, word, end, end + 1);
    return end + 1;
}

size_t stk__scan_number(stk__scan *s, size_t at)
{
    const unsigned char before = stk__scan_before(s, at);
    const bool glued = stk__scan_was(s, at, STK__BYTE_LETTER) || (before == STK__FOLD_TIMES && at > 1) ||
                       ((before == '-' || before == '_') && stk__scan_was(s, at - 1, STK__BYTE_LETTER));
    const size_t first = s->out->count;
    size_t end = 0;
    if (!glued && stk__scan_is(s, at, STK__BYTE_DIGIT)) {
        end = stk__scan_whole(s, at);
        if (end)
            return end;
        if (!has_sign(s, at)) {
            end = stk__amount_date(s, at);
            if (!end)
                end = stk__amount_phone(s, at);
        }
        if (!end)
            end = stk__amount_time(s, at);
        if (!end)
            end = stk__amount_ratio(s, at);
    } else if (glued) {
        end = model(s, at);
    }
    if (!end && stk__scan_is(s, at, STK__BYTE_DIGIT))
        end = stk__amount_version(s, at);
    if (!end)
        end = ordinary(s, at);
    const bool hyphen =
        (stk__scan_byte(s, end) == '-' || stk__scan_byte(s, end) == '_') && stk__scan_is(s, end + 1, STK__BYTE_LETTER);
    end += hyphen; /* "20-year" */
    stk__scan_cover(s, first, at, end);
    return hyphen ? end : stk__amount_join(s, at, end);
}
