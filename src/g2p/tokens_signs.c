/* Marks and signs: what is no letter and no digit. */
#include <string.h>

#include "g2p/abbreviations.h"
#include "g2p/tokens_amount.h"

#include "base/banned.h"

/* Words of the codes of folded text from DEGREE on; empty: not spoken. */
static const char *const code_words[STK__FOLD_END - STK__FOLD_DEGREE] = {"degrees",
                                                                         "degrees celsius",
                                                                         "degrees fahrenheit",
                                                                         "euros",
                                                                         "pounds",
                                                                         "yen",
                                                                         "cents",
                                                                         "rupees",
                                                                         "won",
                                                                         "rubles",
                                                                         "squared",
                                                                         "cubed",
                                                                         "micro",
                                                                         "times",
                                                                         "divided by",
                                                                         "plus or minus",
                                                                         "one half",
                                                                         "one third",
                                                                         "two thirds",
                                                                         "one quarter",
                                                                         "three quarters",
                                                                         "one eighth",
                                                                         "three eighths",
                                                                         "five eighths",
                                                                         "seven eighths",
                                                                         "section",
                                                                         "paragraph",
                                                                         "copyright",
                                                                         "registered",
                                                                         "trademark",
                                                                         "number",
                                                                         "less than or equal to",
                                                                         "greater than or equal to",
                                                                         "not equal to",
                                                                         "about",
                                                                         "infinity"};

static size_t same_run(const stk__scan *s, size_t at)
{
    const unsigned char c = stk__scan_byte(s, at);
    size_t end = at;
    while (end < s->size && stk__scan_byte(s, end) == c)
        end++;
    return end;
}

static size_t put_mark(stk__scan *s, const char *text, size_t at, size_t end)
{
    stk__scan_put(s, text, strlen(text), at, end, STK__TOKEN_MARK);
    return end;
}

static size_t put_unknown(stk__scan *s, size_t at, size_t end)
{
    const bool letters = stk__scan_byte(s, at) == STK__FOLD_OTHER;
    stk__scan_put(s, "", 0, at, end, STK__TOKEN_UNKNOWN | (letters ? 0 : STK__TOKEN_SIGN));
    return end;
}

/* The mark that a byte is, or NULL. */
static const char *mark_text(unsigned char c)
{
    static const char marks[] = ".,?!;:-()[]{}\"`";
    static const char *const texts[] = {".", ",", "?", "!", ";", ":", "-", "(", ")", "(", ")", "(", ")", "\"", "\""};
    const char *found = c ? strchr(marks, c) : NULL;
    if (c == STK__FOLD_EN_DASH || c == STK__FOLD_EM_DASH)
        return "-";
    return found ? texts[found - marks] : NULL;
}

/* A minus directly before a number, with nothing before it that it could join. */
static bool is_minus(const stk__scan *s, size_t at)
{
    const unsigned char c = stk__scan_byte(s, at);
    if (c == STK__FOLD_MINUS)
        return true;
    const size_t next = at + 1 + (stk__currency_find(stk__scan_byte(s, at + 1)) != NULL);
    return c == '-' && stk__amount_starts(s, next) && !stk__scan_was(s, at, STK__BYTE_ALNUM) &&
           !memchr(")%-", stk__scan_before(s, at), 3);
}

/* Whether blanks or digits stand on both sides, as in a formula and not in markup. */
static bool is_operator(const stk__scan *s, size_t at)
{
    return stk__scan_was(s, at, STK__BYTE_BLANK | STK__BYTE_DIGIT) &&
           stk__scan_is(s, at + 1, STK__BYTE_BLANK | STK__BYTE_DIGIT);
}

static const char *hash_words(const stk__scan *s, size_t at)
{
    if (stk__scan_is(s, at + 1, STK__BYTE_DIGIT))
        return "number";
    if (stk__scan_is(s, at + 1, STK__BYTE_LETTER))
        return "hashtag";
    return stk__scan_was(s, at, STK__BYTE_UPPER) ? "sharp" : "hash";
}

/* The words of an ASCII sign; NULL for one that is not spoken here. */
static const char *sign_words(const stk__scan *s, size_t at)
{
    switch (stk__scan_byte(s, at)) {
    case '&':
        return "and";
    case '@':
        return "at";
    case '+':
        return "plus";
    case '=':
        return "equals";
    case '%':
        return "percent";
    case '$':
        return "dollar";
    case '\\':
        return "backslash";
    case '#':
        return hash_words(s, at);
    case '/':
        return stk__scan_was(s, at, STK__BYTE_DIGIT) && stk__scan_is(s, at + 1, STK__BYTE_LETTER) ? "per" : "slash";
    case '*':
        return is_operator(s, at) ? "times" : NULL;
    case '<':
        return is_operator(s, at) ? "less than" : NULL;
    case '>':
        return is_operator(s, at) ? "greater than" : NULL;
    case '~':
        return stk__scan_is(s, at + 1, STK__BYTE_DIGIT) ? "about" : NULL;
    default:
        return NULL;
    }
}

static bool is_part(unsigned char c)
{
    return c >= STK__FOLD_HALF && c <= STK__FOLD_SEVEN_EIGHTHS;
}

static size_t code(stk__scan *s, size_t at)
{
    const unsigned char c = stk__scan_byte(s, at);
    if (c < STK__FOLD_DEGREE || c >= STK__FOLD_END)
        return put_unknown(s, at, at + 1);
    /* "2½" and "2 ½": "two and one half". */
    if (is_part(c) && (stk__scan_was(s, at, STK__BYTE_DIGIT) || stk__scan_after_whole(s, at)))
        stk__scan_say(s, "and", at, at + 1);
    stk__scan_say(s, code_words[c - STK__FOLD_DEGREE], at, at + 1);
    return at + 1;
}

static size_t mark(stk__scan *s, size_t at, const char *text)
{
    const size_t end = same_run(s, at);
    if (text[0] == '.' && end - at > 1)
        text = "...";
    return put_mark(s, text, at, end);
}

size_t stk__scan_sign(stk__scan *s, size_t at)
{
    const unsigned char c = stk__scan_byte(s, at);
    if (c == '\'')
        return stk__scan_quote(s, at);
    if (c == '.' && stk__amount_starts(s, at) && !stk__scan_was(s, at, STK__BYTE_ALNUM))
        return stk__scan_number(s, at);
    if (is_minus(s, at)) {
        stk__scan_say(s, "minus", at, at + 1);
        return at + 1;
    }
    const size_t money = stk__scan_money(s, at, at, NULL);
    if (money)
        return money;
    const char *text = mark_text(c);
    if (text)
        return mark(s, at, text);
    if (c >= 0x80)
        return code(s, at);
    /* Rows of signs are lines drawn with them, but "C++" is not. */
    const size_t end = same_run(s, at);
    const char *words = end - at < 3 ? sign_words(s, at) : NULL;
    if (!words)
        return put_unknown(s, at, end);
    stk__scan_say(s, words, at, at + 1);
    return at + 1;
}
