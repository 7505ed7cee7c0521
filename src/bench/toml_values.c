/* Strings, numbers, dates and booleans of TOML. */
#include "bench/toml_impl.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

/* ---- strings ---- */

static int hex_value(int c)
{
    return is_digit(c) ? c - '0' : (c >= 'a' && c <= 'f') ? c - 'a' + 10 : (c >= 'A' && c <= 'F') ? c - 'A' + 10 : -1;
}

static void put_utf8(stk__text *out, uint32_t c)
{
    if (c < 0x80) {
        stk__text_putc(out, (char)c);
    } else if (c < 0x800) {
        const char bytes[] = {(char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f))};
        stk__text_write(out, bytes, sizeof bytes);
    } else if (c < 0x10000) {
        const char bytes[] = {(char)(0xe0 | c >> 12), (char)(0x80 | (c >> 6 & 0x3f)), (char)(0x80 | (c & 0x3f))};
        stk__text_write(out, bytes, sizeof bytes);
    } else {
        const char bytes[] = {(char)(0xf0 | c >> 18), (char)(0x80 | (c >> 12 & 0x3f)), (char)(0x80 | (c >> 6 & 0x3f)),
                              (char)(0x80 | (c & 0x3f))};
        stk__text_write(out, bytes, sizeof bytes);
    }
}

/* \uXXXX or \UXXXXXXXX, at the backslash. */
static stk_status read_code_point(stk__toml_reader *r, stk__text *out)
{
    const size_t digits = stk__toml_peek(r, 1) == 'u' ? 4 : 8;
    uint32_t c = 0;
    for (size_t i = 0; i < digits; i++) {
        const int x = hex_value(stk__toml_peek(r, 2 + i));
        if (x < 0)
            return stk__toml_fail(r, r->at, "found an escape with %zu hexadecimal digits, wanted %zu", i, digits);
        c = c << 4 | (uint32_t)x;
    }
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return stk__toml_fail(
            r, r->at, "found U+%04X in an escape, wanted a character (not a surrogate, at most U+10FFFF)", (unsigned)c);
    put_utf8(out, c);
    r->at += 2 + digits;
    return STK_OK;
}

/* A backslash at the end of a line: the line end goes, with all blanks up to the next character. False: it is none. */
static bool take_folded_line(stk__toml_reader *r)
{
    size_t ahead = 1;
    while (stk__toml_peek(r, ahead) == ' ' || stk__toml_peek(r, ahead) == '\t')
        ahead++;
    if (!stk__toml_line_end(r, ahead))
        return false;
    r->at += ahead;
    while (stk__toml_peek(r, 0) == ' ' || stk__toml_peek(r, 0) == '\t' || stk__toml_line_end(r, 0))
        r->at++;
    return true;
}

static stk_status read_escape(stk__toml_reader *r, bool lines, stk__text *out)
{
    static const char letters[] = "btnfr\"\\", meanings[] = "\b\t\n\f\r\"\\";
    const int c = stk__toml_peek(r, 1);
    const char *letter = c > 0 ? strchr(letters, c) : NULL;
    if (letter) {
        stk__text_putc(out, meanings[letter - letters]);
        r->at += 2;
        return STK_OK;
    }
    if (c == 'u' || c == 'U')
        return read_code_point(r, out);
    if (lines && take_folded_line(r))
        return STK_OK;
    return stk__toml_fail(r, r->at, "found a backslash before %s, wanted one of b t n f r \" \\ u U after it",
                          stk__toml_found_at(r, r->at + 1).text);
}

/* Within three quotes: a run of quotes ends the string, and up to two of them still belong to it. */
static bool take_quotes(stk__toml_reader *r, int quote, stk__text *out)
{
    size_t n = 1;
    while (n < 5 && stk__toml_peek(r, n) == quote)
        n++;
    r->at += n;
    for (size_t i = n < 3 ? 0 : 3; i < n; i++)
        stk__text_putc(out, (char)quote);
    return n >= 3;
}

/* Characters up to a quote, backslash or line end, taken as they are. */
static void take_plain(stk__toml_reader *r, int quote, stk__text *out)
{
    const size_t start = r->at;
    for (int c; (c = stk__toml_peek(r, 0)) >= 0; r->at++)
        if (c == quote || c == '\n' || c == '\r' || (c == '\\' && quote == '"'))
            break;
    stk__text_write(out, r->text + start, r->at - start);
}

static stk_status read_lines(stk__toml_reader *r, size_t start, int quote, stk__text *out)
{
    r->at += 3;
    r->at += stk__toml_line_end(r, 0);
    for (;;) {
        take_plain(r, quote, out);
        const int c = stk__toml_peek(r, 0);
        if (c < 0) {
            return stk__toml_fail(r, start, "found the end of the file in this string, wanted %c%c%c", quote, quote,
                                  quote);
        } else if (c == quote) {
            if (take_quotes(r, quote, out))
                return STK_OK;
        } else if (c == '\\') {
            STK_TRY(read_escape(r, true, out));
        } else {
            r->at += stk__toml_line_end(r, 0);
            stk__text_putc(out, '\n');
        }
    }
}

static stk_status read_line(stk__toml_reader *r, size_t start, int quote, stk__text *out)
{
    r->at++;
    for (;;) {
        take_plain(r, quote, out);
        const int c = stk__toml_peek(r, 0);
        if (c == quote) {
            r->at++;
            return STK_OK;
        }
        if (c != '\\')
            return stk__toml_fail(r, start, "found %s in this string, wanted %c on its line",
                                  stk__toml_found_at(r, r->at).text, quote);
        STK_TRY(read_escape(r, false, out));
    }
}

stk_status stk__toml_read_string(stk__toml_reader *r, bool lines, stk__text *out)
{
    const size_t start = r->at;
    const int quote = stk__toml_peek(r, 0);
    const bool three = stk__toml_peek(r, 1) == quote && stk__toml_peek(r, 2) == quote;
    stk__text_write(out, "", 0); /* makes the empty string one */
    if (three && !lines)
        return stk__toml_fail(r, start, "found a key in three quotes, wanted one quote on each side");
    STK_TRY(three ? read_lines(r, start, quote, out) : read_line(r, start, quote, out));
    return out->failed ? stk__nomem(r->at - start, r->err) : STK_OK;
}

/* ---- numbers ---- */

/* Digits of a base, single underscores between them, into r->scratch without those. */
static stk_status take_digits(stk__toml_reader *r, int base)
{
    for (bool first = true;; first = false) {
        const bool underscore = !first && stk__toml_peek(r, 0) == '_';
        const int x = hex_value(stk__toml_peek(r, underscore));
        if (x < 0 || x >= base) {
            if (first || underscore)
                return stk__toml_fail(r, r->at + underscore, "found %s in a number, wanted a digit%s",
                                      stk__toml_found_at(r, r->at + underscore).text, underscore ? " after '_'" : "");
            return STK_OK;
        }
        stk__text_putc(&r->scratch, r->text[r->at + underscore]);
        r->at += 1u + underscore;
    }
}

/* The digits in r->scratch, from `from` on. */
static stk_status take_integer(stk__toml_reader *r, size_t start, size_t from, int base, bool negative, stk__toml *out)
{
    const uint64_t most = (uint64_t)INT64_MAX + negative;
    uint64_t x = 0;
    for (size_t i = from; i < r->scratch.length; i++) {
        const uint64_t digit = (uint64_t)hex_value((unsigned char)r->scratch.data[i]);
        if (x > (most - digit) / (uint64_t)base)
            return stk__toml_fail(r, start, "found %s, wanted an integer of 64 bits with sign",
                                  stk__toml_found_at(r, start).text);
        x = x * (uint64_t)base + digit;
    }
    out->kind = STK__TOML_INTEGER;
    out->integer = negative ? (int64_t)(0 - x) : (int64_t)x;
    out->number = (double)out->integer;
    return STK_OK;
}

/* Fraction and exponent behind the digits that r->scratch holds. */
static stk_status take_float(stk__toml_reader *r, stk__toml *out)
{
    if (stk__toml_peek(r, 0) == '.') {
        stk__text_putc(&r->scratch, '.');
        r->at++;
        STK_TRY(take_digits(r, 10));
    }
    if (stk__toml_peek(r, 0) == 'e' || stk__toml_peek(r, 0) == 'E') {
        stk__text_putc(&r->scratch, 'e');
        r->at++;
        if (stk__toml_peek(r, 0) == '+' || stk__toml_peek(r, 0) == '-')
            stk__text_putc(&r->scratch, r->text[r->at++]);
        STK_TRY(take_digits(r, 10));
    }
    if (r->scratch.failed)
        return stk__nomem(r->scratch.length, r->err);
    out->kind = STK__TOML_FLOAT;
    out->number = stk__strtod(r->scratch.data, NULL);
    return STK_OK;
}

static bool take_word(stk__toml_reader *r, const char *word)
{
    const size_t n = strlen(word);
    if (r->size - r->at < n || memcmp(r->text + r->at, word, n) != 0)
        return false;
    r->at += n;
    return true;
}

static bool take_special_float(stk__toml_reader *r, bool negative, stk__toml *out)
{
    const bool infinite = take_word(r, "inf");
    if (!infinite && !take_word(r, "nan"))
        return false;
    out->kind = STK__TOML_FLOAT;
    out->number = copysign(infinite ? HUGE_VAL : (double)NAN, negative ? -1.0 : 1.0);
    return true;
}

static stk_status read_number(stk__toml_reader *r, size_t start, stk__toml *out)
{
    static const char letters[] = "xob";
    static const int bases[] = {16, 8, 2};
    const int sign = stk__toml_peek(r, 0), c = stk__toml_peek(r, 1);
    const char *letter = sign == '0' && c > 0 ? strchr(letters, c) : NULL;
    stk__text_reset(&r->scratch);
    if (letter) {
        r->at += 2;
        STK_TRY(take_digits(r, bases[letter - letters]));
        if (r->scratch.failed)
            return stk__nomem(r->scratch.length, r->err);
        return take_integer(r, start, 0, bases[letter - letters], false, out);
    }
    const bool has_sign = sign == '+' || sign == '-', negative = sign == '-';
    r->at += has_sign;
    if (take_special_float(r, negative, out))
        return STK_OK;
    if (has_sign)
        stk__text_putc(&r->scratch, (char)sign);
    STK_TRY(take_digits(r, 10));
    if (r->scratch.failed)
        return stk__nomem(r->scratch.length, r->err);
    if (r->scratch.data[has_sign] == '0' && r->scratch.length > 1u + has_sign)
        return stk__toml_fail(r, start, "found %s, wanted a number without a leading zero",
                              stk__toml_found_at(r, start).text);
    const int next = stk__toml_peek(r, 0);
    if (next == '.' || next == 'e' || next == 'E')
        return take_float(r, out);
    return take_integer(r, start, has_sign, 10, negative, out);
}

/* ---- dates ---- */

/* Two digits at `at` in [least, most], then `after` (0: nothing). */
static bool take_field(stk__toml_reader *r, int least, int most, char after, int *out)
{
    const int a = stk__toml_peek(r, 0), b = stk__toml_peek(r, 1);
    if (!is_digit(a) || !is_digit(b) || (after && stk__toml_peek(r, 2) != after))
        return false;
    const int x = (a - '0') * 10 + b - '0';
    if (x < least || x > most)
        return false;
    if (out)
        *out = x;
    r->at += after ? 3 : 2;
    return true;
}

static int days_of(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

static bool take_date(stk__toml_reader *r)
{
    int year = 0, month = 0;
    for (size_t i = 0; i < 4; i++)
        year = year * 10 + stk__toml_peek(r, i) - '0'; /* four digits: seen by looks_like_date */
    r->at += 5;
    return take_field(r, 1, 12, '-', &month) && take_field(r, 1, days_of(year, month), 0, NULL);
}

/* RFC 3339: a minute has a second 60 when one is let in. */
static bool take_time(stk__toml_reader *r)
{
    if (!take_field(r, 0, 23, ':', NULL) || !take_field(r, 0, 59, ':', NULL) || !take_field(r, 0, 60, 0, NULL))
        return false;
    if (stk__toml_peek(r, 0) != '.')
        return true;
    if (!is_digit(stk__toml_peek(r, 1)))
        return false;
    r->at++;
    while (is_digit(stk__toml_peek(r, 0)))
        r->at++;
    return true;
}

static bool take_offset(stk__toml_reader *r)
{
    const int c = stk__toml_peek(r, 0);
    if (c == 'Z' || c == 'z')
        r->at++;
    if (c != '+' && c != '-')
        return true;
    r->at++;
    return take_field(r, 0, 23, ':', NULL) && take_field(r, 0, 59, 0, NULL);
}

static bool looks_like_time(const stk__toml_reader *r, size_t ahead)
{
    return is_digit(stk__toml_peek(r, ahead)) && is_digit(stk__toml_peek(r, ahead + 1)) &&
           stk__toml_peek(r, ahead + 2) == ':';
}

static bool looks_like_date(const stk__toml_reader *r)
{
    return is_digit(stk__toml_peek(r, 0)) && is_digit(stk__toml_peek(r, 1)) && is_digit(stk__toml_peek(r, 2)) &&
           is_digit(stk__toml_peek(r, 3)) && stk__toml_peek(r, 4) == '-';
}

static bool take_date_time(stk__toml_reader *r)
{
    if (looks_like_time(r, 0))
        return take_time(r);
    if (!take_date(r))
        return false;
    const int c = stk__toml_peek(r, 0);
    if (c != 'T' && c != 't' && !(c == ' ' && looks_like_time(r, 1)))
        return true;
    r->at++;
    return take_time(r) && take_offset(r);
}

static stk_status read_date(stk__toml_reader *r, size_t start, stk__toml *out)
{
    if (!take_date_time(r))
        return stk__toml_fail(r, start,
                              "found %s, wanted a date or time such as 2026-01-31, 23:59:59, "
                              "2026-01-31T23:59:59.5+01:00",
                              stk__toml_found_at(r, start).text);
    out->kind = STK__TOML_DATE;
    out->text_size = r->at - start;
    out->text = stk__strndup(r->text + start, out->text_size);
    return out->text ? STK_OK : stk__nomem(out->text_size, r->err);
}

/* ---- any of them ---- */

static stk_status read_boolean(stk__toml_reader *r, bool value, stk__toml *out)
{
    out->kind = STK__TOML_BOOLEAN;
    out->boolean = value;
    return STK_OK;
}

static stk_status read_text(stk__toml_reader *r, stk__toml *out)
{
    stk__text_reset(&r->scratch);
    STK_TRY(stk__toml_read_string(r, true, &r->scratch));
    out->kind = STK__TOML_STRING;
    out->text_size = r->scratch.length;
    out->text = stk__strndup(r->scratch.data, r->scratch.length);
    return out->text ? STK_OK : stk__nomem(out->text_size, r->err);
}

/* A value must not run into what follows: "1x", "truee". */
static bool is_over(const stk__toml_reader *r)
{
    const int c = stk__toml_peek(r, 0);
    return c < 0 || strchr(" \t\n\r,]}#", c);
}

stk_status stk__toml_read_scalar(stk__toml_reader *r, stk__toml *out)
{
    const size_t start = r->at;
    const int c = stk__toml_peek(r, 0);
    if (c == '"' || c == '\'') {
        STK_TRY(read_text(r, out));
    } else if (looks_like_date(r) || looks_like_time(r, 0)) {
        STK_TRY(read_date(r, start, out));
    } else if (take_word(r, "true")) {
        STK_TRY(read_boolean(r, true, out));
    } else if (take_word(r, "false")) {
        STK_TRY(read_boolean(r, false, out));
    } else if (is_digit(c) || ((c == '+' || c == '-') && stk__toml_peek(r, 1) > ' ')) {
        STK_TRY(read_number(r, start, out));
    } else if (!take_special_float(r, false, out)) {
        return stk__toml_fail(
            r, start, "found %s, wanted a value: a string in quotes, a number, a date, true, false, [...], {...}",
            stk__toml_found_at(r, start).text);
    }
    if (is_over(r))
        return STK_OK;
    const size_t at = c == '"' || c == '\'' ? r->at : start;
    return stk__toml_fail(r, at, "found %s, wanted one value and then the end of the line, ',', ']' or '}'",
                          stk__toml_found_at(r, at).text);
}
