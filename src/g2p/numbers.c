/* Digits as words of American English. */
#include "g2p/numbers.h"

#include <string.h>

#include "base/compiler.h"

#include "base/banned.h"

static const char *const ones[20] = {"zero",     "one",     "two",     "three",     "four",     "five",    "six",
                                     "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
                                     "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
static const char *const tens[10] = {"",      "",      "twenty",  "thirty", "forty",
                                     "fifty", "sixty", "seventy", "eighty", "ninety"};
static const char *const scales[STK__NUMBER_NAMED / 3] = {"",
                                                          "thousand",
                                                          "million",
                                                          "billion",
                                                          "trillion",
                                                          "quadrillion",
                                                          "quintillion",
                                                          "sextillion",
                                                          "septillion",
                                                          "octillion",
                                                          "nonillion",
                                                          "decillion",
                                                          "undecillion",
                                                          "duodecillion",
                                                          "tredecillion",
                                                          "quattuordecillion",
                                                          "quindecillion",
                                                          "sexdecillion",
                                                          "septendecillion",
                                                          "octodecillion",
                                                          "novemdecillion",
                                                          "vigintillion"};

/* Words leave one behind, so that the last of them can still change its form. */
typedef struct speaker {
    const stk__word_sink *sink;
    const char *pending;
} speaker;

static void say(speaker *s, const char *word)
{
    if (s->pending)
        s->sink->put(s->sink->to, s->pending, strlen(s->pending));
    s->pending = word;
}

static size_t replace_end(char *word, size_t size, size_t cut, const char *ending)
{
    const size_t added = strlen(ending);
    memcpy(word + size - cut, ending, added);
    return size - cut + added;
}

static size_t make_ordinal(char *word, size_t size)
{
    static const struct {
        const char *word, *ordinal;
    } irregular[] = {{"one", "first"},    {"two", "second"}, {"three", "third"},   {"five", "fifth"},
                     {"eight", "eighth"}, {"nine", "ninth"}, {"twelve", "twelfth"}};
    for (size_t i = 0; i < STK_COUNT(irregular); i++) {
        if (size == strlen(irregular[i].word) && memcmp(word, irregular[i].word, size) == 0)
            return replace_end(word, size, size, irregular[i].ordinal);
    }
    return word[size - 1] == 'y' ? replace_end(word, size, 1, "ieth") : replace_end(word, size, 0, "th");
}

static size_t make_plural(char *word, size_t size)
{
    if (word[size - 1] == 'y')
        return replace_end(word, size, 1, "ies");
    return replace_end(word, size, 0, word[size - 1] == 'x' ? "es" : "s");
}

/* The last word in its form: "twenty" becomes "twentieth" or "twenties". */
static void finish(speaker *s, stk__number_form form)
{
    if (!s->pending)
        return;
    char word[32];
    size_t size = strlen(s->pending);
    memcpy(word, s->pending, size);
    s->pending = NULL;
    if (form == STK__NUMBER_ORDINAL || form == STK__NUMBER_PARTS)
        size = make_ordinal(word, size);
    if (form == STK__NUMBER_PLURAL || form == STK__NUMBER_PARTS)
        size = make_plural(word, size);
    s->sink->put(s->sink->to, word, size);
}

static void say_below_hundred(speaker *s, int n)
{
    if (n < 20) {
        say(s, ones[n]);
        return;
    }
    say(s, tens[n / 10]);
    if (n % 10)
        say(s, ones[n % 10]);
}

/* `digits` holds count digits, at most STK__NUMBER_NAMED, without a leading zero (but for "0" itself). */
static void say_named(speaker *s, const char *digits, size_t count)
{
    if (count == 1 && digits[0] == '0') {
        say(s, ones[0]);
        return;
    }
    size_t at = 0;
    while (at < count) {
        const size_t left = count - at;
        const size_t group = left % 3 ? left % 3 : 3;
        int n = 0;
        for (size_t i = 0; i < group; i++)
            n = n * 10 + (digits[at + i] - '0');
        at += group;
        if (!n)
            continue;
        if (n >= 100) {
            say(s, ones[n / 100]);
            say(s, "hundred");
        }
        if (n % 100)
            say_below_hundred(s, n % 100);
        if (at < count)
            say(s, scales[(count - at) / 3]);
    }
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

void stk__number_digits(const char *digits, size_t size, stk__number_form form, const stk__word_sink *sink)
{
    speaker s = {sink, NULL};
    for (size_t i = 0; i < size; i++) {
        if (is_digit(digits[i]))
            say(&s, ones[digits[i] - '0']);
    }
    finish(&s, form);
}

void stk__number_say(const char *digits, size_t size, stk__number_form form, const stk__word_sink *sink)
{
    char named[STK__NUMBER_NAMED];
    size_t count = 0;
    for (size_t i = 0; i < size; i++) {
        if (!is_digit(digits[i]))
            continue;
        if (count == STK__NUMBER_NAMED || (count == 1 && named[0] == '0')) {
            stk__number_digits(digits, size, form, sink);
            return;
        }
        named[count++] = digits[i];
    }
    speaker s = {sink, NULL};
    if (count)
        say_named(&s, named, count);
    finish(&s, form);
}

static void say_pair(speaker *s, const char digits[2])
{
    const int n = (digits[0] - '0') * 10 + (digits[1] - '0');
    if (n == 0) {
        say(s, "hundred");
    } else {
        if (n < 10)
            say(s, "oh");
        say_below_hundred(s, n);
    }
}

void stk__number_pair(const char digits[2], stk__number_form form, const stk__word_sink *sink)
{
    speaker s = {sink, NULL};
    say_pair(&s, digits);
    finish(&s, form);
}

bool stk__number_is_year(const char digits[4])
{
    return digits[0] == '1' ? digits[1] != '0' : digits[0] == '2' && digits[1] == '0' && digits[2] != '0';
}

void stk__number_year(const char digits[4], stk__number_form form, const stk__word_sink *sink)
{
    /* 2000 to 2009, and all thousands, are said as numbers. */
    if (digits[0] == '0' || (digits[1] == '0' && digits[2] == '0')) {
        stk__number_say(digits, 4, form, sink);
        return;
    }
    speaker s = {sink, NULL};
    say_below_hundred(&s, (digits[0] - '0') * 10 + (digits[1] - '0'));
    say_pair(&s, digits + 2);
    finish(&s, form);
}

void stk__number_model(const char *digits, size_t size, stk__number_form form, const stk__word_sink *sink)
{
    if (size > 4 || (size && digits[0] == '0')) {
        stk__number_digits(digits, size, form, sink);
    } else if (size == 4) {
        stk__number_year(digits, form, sink);
    } else if (size == 3) {
        stk__number_say(digits, 1, STK__NUMBER_CARDINAL, sink);
        stk__number_pair(digits + 1, form, sink);
    } else {
        stk__number_say(digits, size, form, sink);
    }
}
