/* Addresses of the web and of mail, and names of files, read out sign by sign. */
#include <string.h>

#include "g2p/abbreviations.h"
#include "g2p/tokens_scan.h"

#include "base/banned.h"

/* Longer addresses are cut here, and the rest is read as text. */
#define ADDRESS_MAX 2048
/* Within a path each part may be the name of a file; looked at anew, so the look is short. */
#define FILE_MAX 64

static bool is_ascii_alnum(const stk__scan *s, size_t at)
{
    return stk__scan_is(s, at, STK__BYTE_LOWER | STK__BYTE_UPPER | STK__BYTE_DIGIT);
}

/* The run without blanks at `at`, less the marks at its end. */
static size_t chunk_end(const stk__scan *s, size_t at, size_t most)
{
    size_t end = at;
    while (end < s->size && end - at < most) {
        const unsigned char c = stk__scan_byte(s, end);
        if (c <= ' ' || c >= 0x7F || strchr("\"<>(),;", c))
            break;
        end++;
    }
    while (end > at && strchr(".:!?'*]}-_", s->text[end - 1]))
        end--;
    return end;
}

/* Two labels or more of letters, digits and hyphens, with single dots between; `last` is where the last one starts. */
static size_t host_end(const stk__scan *s, size_t at, size_t limit, size_t *last)
{
    size_t end = at, labels = 0;
    for (;;) {
        *last = end;
        while (end < limit && (is_ascii_alnum(s, end) || (end > *last && s->text[end] == '-')))
            end++;
        if (end == *last)
            return 0;
        labels++;
        if (end + 1 >= limit || s->text[end] != '.' || !is_ascii_alnum(s, end + 1))
            break;
        end++;
    }
    return labels > 1 ? end : 0;
}

/* "com", "COM", not "Com": that is the start of a sentence without a blank before it. */
static bool is_ending(const stk__scan *s, size_t at, size_t end)
{
    char word[8];
    bool lower = false, upper = false;
    for (size_t i = at; i < end && end - at <= sizeof word; i++) {
        lower |= stk__scan_is(s, i, STK__BYTE_LOWER);
        upper |= stk__scan_is(s, i, STK__BYTE_UPPER);
    }
    return !(lower && upper) && stk__scan_copy_lower(s, at, end, word, sizeof word) && stk__web_ending(word, end - at);
}

static bool is_mail(const stk__scan *s, size_t at, size_t end)
{
    size_t i = at, last;
    while (i < end && (is_ascii_alnum(s, i) || strchr("._%+-", s->text[i])))
        i++;
    return i > at && i < end && s->text[i] == '@' && host_end(s, i + 1, end, &last);
}

static bool is_address(const stk__scan *s, size_t at, size_t end)
{
    char prefix[4];
    const size_t letters = stk__scan_letters(s, at, 12);
    if (letters > at && letters + 3 < end && memcmp(s->text + letters, "://", 3) == 0)
        return true;
    if (end - at > 4 && stk__scan_copy_lower(s, at, at + 4, prefix, 4) && memcmp(prefix, "www.", 4) == 0)
        return true;
    if (is_mail(s, at, end))
        return true;
    size_t last;
    const size_t host = host_end(s, at, end, &last);
    return host && is_ending(s, last, host) && (host == end || strchr("/:?#", s->text[host]));
}

static void put_letters(stk__scan *s, size_t at, size_t end)
{
    for (size_t i = at; i < end; i++) {
        const char letter = stk__lower(s->text[i]);
        stk__scan_put(s, &letter, 1, i, i + 1, STK__TOKEN_LETTER);
    }
}

/* Letters of an address: what nobody reads as a word is spelled, such as "www" and the "uk" behind a dot. */
static void put_label(stk__scan *s, size_t at, size_t end, size_t limit)
{
    static const char *const spelled[] = {"www", "http", "https", "ftp", "html", "htm", "php", "js", "py", "txt", "pdf",
                                          "jpg", "png",  "mp",    "csv", "xml",  "css", "gz",  "rs", "md", "cpp"};
    char word[8];
    const size_t size = end - at;
    bool letters = size == 1 || (size == 2 && stk__scan_before(s, at) == '.' && (end == limit || s->text[end] == '/') &&
                                 stk__lower(s->text[at + 1]) != 'o' && stk__lower(s->text[at]) != 'm');
    if (stk__scan_copy_lower(s, at, end, word, sizeof word)) {
        for (size_t i = 0; i < STK_COUNT(spelled); i++)
            letters |= strlen(spelled[i]) == size && memcmp(spelled[i], word, size) == 0;
    }
    if (letters)
        put_letters(s, at, end);
    else
        stk__scan_put_word(s, at, end, end);
}

static const char *sign_words(char c)
{
    static const char signs[] = "./:@-_?=&%#+~*!$'[]{}|\\^`";
    static const char *const words[] = {"dot",        "slash",         "colon",     "at",       "dash",
                                        "underscore", "question mark", "equals",    "and",      "percent",
                                        "hash",       "plus",          "tilde",     "asterisk", "exclamation mark",
                                        "dollar",     "quote",         "bracket",   "bracket",  "brace",
                                        "brace",      "bar",           "backslash", "caret",    "backtick"};
    const char *found = strchr(signs, c);
    return found ? words[found - signs] : "sign";
}

size_t stk__scan_web(stk__scan *s, size_t at)
{
    const bool in_path = stk__scan_before(s, at) == '/';
    if (at < s->web_until && !in_path)
        return 0;
    const size_t end = chunk_end(s, at, in_path ? FILE_MAX : ADDRESS_MAX);
    if (!is_address(s, at, end)) {
        s->web_until = STK_MAX(s->web_until, end);
        return 0;
    }
    const stk__word_sink sink = stk__scan_sink(s);
    for (size_t i = at, next; i < end; i = next) {
        const size_t first = s->out->count;
        if (stk__scan_is(s, i, STK__BYTE_DIGIT)) {
            next = stk__scan_digits(s, i, end - i);
            stk__number_model(s->text + i, next - i, STK__NUMBER_CARDINAL, &sink);
            stk__scan_cover(s, first, i, next);
        } else if (stk__scan_is(s, i, STK__BYTE_LETTER)) {
            next = stk__scan_letters(s, i, end - i);
            put_label(s, i, next, end);
        } else {
            next = i + 1;
            stk__scan_say(s, sign_words(s->text[i]), i, next);
        }
    }
    return end;
}
