/* Numbers with a shape: dates, times, phone numbers, fractions, versions. */
#include <string.h>

#include "g2p/abbreviations.h"
#include "g2p/tokens_amount.h"

#include "base/banned.h"

/* Groups of digits are looked at up to this many; none of the shapes has more. */
#define GROUP_MAX 16

static size_t count_digits(const stk__scan *s, size_t at)
{
    return stk__scan_digits(s, at, GROUP_MAX) - at;
}

/* Of up to four digits. */
static int value(const stk__scan *s, size_t at, size_t count)
{
    int n = 0;
    for (size_t i = 0; i < count; i++)
        n = n * 10 + (s->text[at + i] - '0');
    return n;
}

static void say_value(stk__scan *s, int n, stk__number_form form)
{
    const stk__word_sink sink = stk__scan_sink(s);
    char digits[4];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + n % 10);
        n /= 10;
    } while (n && at);
    stk__number_say(digits + at, sizeof digits - at, form, &sink);
}

static void say_date(stk__scan *s, int month, int day, size_t year_at, size_t year_digits)
{
    const stk__word_sink sink = stk__scan_sink(s);
    stk__scan_say(s, stk__month_name(month), 0, 0);
    say_value(s, day, STK__NUMBER_ORDINAL);
    if (year_digits == 4)
        stk__number_year(s->text + year_at, STK__NUMBER_CARDINAL, &sink);
    else if (value(s, year_at, 2) == 0)
        stk__scan_say(s, "two thousand", 0, 0);
    else
        stk__number_pair(s->text + year_at, STK__NUMBER_CARDINAL, &sink);
}

/* 2024-12-17 and 2024/12/17; 12/17/2024 and 12/17/24, month first as in America, day first where only that can be. */
size_t stk__amount_date(stk__scan *s, size_t at)
{
    const size_t one = count_digits(s, at);
    const unsigned char separator = stk__scan_byte(s, at + one);
    if (one > 4 || one == 3 || (separator != '-' && separator != '/'))
        return 0;
    const size_t two_at = at + one + 1, two = count_digits(s, two_at);
    if (!two || two > 2 || stk__scan_byte(s, two_at + two) != separator)
        return 0;
    const size_t three_at = two_at + two + 1, three = count_digits(s, three_at), end = three_at + three;
    if (stk__scan_byte(s, end) == separator || stk__scan_is(s, end, STK__BYTE_LETTER))
        return 0;
    int month, day;
    const bool year_first = one == 4;
    if (year_first) {
        month = value(s, two_at, two);
        day = three && three <= 2 ? value(s, three_at, three) : 0;
    } else {
        month = value(s, at, one);
        day = value(s, two_at, two);
        if (separator != '/' || (three != 2 && three != 4))
            return 0;
        if (month > 12) {
            const int swap = month;
            month = day;
            day = swap;
        }
    }
    if (month < 1 || month > 12 || day < 1 || day > 31)
        return 0;
    say_date(s, month, day, year_first ? at : three_at, year_first ? 4 : three);
    return end;
}

size_t stk__amount_meridiem(stk__scan *s, size_t at, bool dry)
{
    if (stk__scan_byte(s, at) == ' ')
        at++;
    const char half = stk__lower((char)stk__scan_byte(s, at));
    const bool dots = stk__scan_byte(s, at + 1) == '.';
    size_t end = at + (dots ? 3 : 2);
    if ((half != 'a' && half != 'p') || stk__lower((char)stk__scan_byte(s, end - 1)) != 'm' ||
        stk__scan_is(s, end, STK__BYTE_ALNUM) || stk__scan_byte(s, end) == '\'')
        return 0;
    if (dots && stk__scan_byte(s, end) == '.' && !stk__scan_sentence_ends(s, end + 1))
        end++;
    if (!dry)
        stk__scan_say(s, half == 'a' ? "a m" : "p m", 0, 0);
    return end;
}

static void say_minutes(stk__scan *s, size_t at)
{
    const stk__word_sink sink = stk__scan_sink(s);
    if (value(s, at, 2) == 0)
        stk__scan_say(s, "zero zero", 0, 0);
    else
        stk__number_pair(s->text + at, STK__NUMBER_CARDINAL, &sink);
}

/* 3:30, 3:05 pm, 15:45:10. A full hour is "o'clock" up to twelve and "hundred" later, and neither before am and pm. */
size_t stk__amount_time(stk__scan *s, size_t at)
{
    const size_t hours = count_digits(s, at), minutes_at = at + hours + 1;
    if (hours > 2 || stk__scan_byte(s, at + hours) != ':' || count_digits(s, minutes_at) != 2)
        return 0;
    const int hour = value(s, at, hours), minute = value(s, minutes_at, 2);
    size_t end = minutes_at + 2;
    if (hour > 24 || minute > 59 || stk__scan_is(s, end, STK__BYTE_OTHER))
        return 0;
    const bool seconds = stk__scan_byte(s, end) == ':' && count_digits(s, end + 1) == 2 && value(s, end + 1, 2) < 60;
    if (stk__scan_byte(s, end) == ':' && stk__scan_is(s, end + 1, STK__BYTE_DIGIT) && !seconds)
        return 0;
    say_value(s, hour, STK__NUMBER_CARDINAL);
    if (seconds) {
        say_minutes(s, minutes_at);
        say_minutes(s, end + 1);
        end += 3;
    } else if (minute) {
        say_minutes(s, minutes_at);
    } else if (!stk__amount_meridiem(s, end, true)) {
        stk__scan_say(s, hour > 12 || hour == 0 ? "hundred" : "o'clock", 0, 0);
    }
    const size_t later = stk__amount_meridiem(s, end, false);
    return later ? later : end;
}

/* Groups of digits from `at` on with one of `separators` between; returns their end. */
static size_t say_groups(stk__scan *s, size_t at, const char *separators)
{
    const stk__word_sink sink = stk__scan_sink(s);
    for (;;) {
        const size_t end = stk__scan_digits(s, at, SIZE_MAX);
        stk__number_digits(s->text + at, end - at, STK__NUMBER_CARDINAL, &sink);
        const unsigned char c = stk__scan_byte(s, end);
        if (c == ' ' || !c || !strchr(separators, c) || !stk__scan_is(s, end + 1, STK__BYTE_DIGIT))
            return end;
        at = end + 1;
    }
}

/* 555-1234; three groups and more with hyphens; 555.123.4567; and the code in (555) 123-4567. */
size_t stk__amount_phone(stk__scan *s, size_t at)
{
    const size_t one = count_digits(s, at), two_at = at + one + 1, two = count_digits(s, two_at);
    const unsigned char separator = stk__scan_byte(s, at + one);
    const size_t end = two_at + two;
    if (separator == ')' && one == 3 && stk__scan_before(s, at) == '(') {
        const size_t next = two_at + (stk__scan_byte(s, two_at) == ' ');
        if (count_digits(s, next) != 3 || stk__scan_byte(s, next + 3) != '-' || count_digits(s, next + 4) != 4)
            return 0;
        return say_groups(s, at, "-");
    }
    if (!two || two == GROUP_MAX || one == GROUP_MAX)
        return 0;
    const bool more = stk__scan_byte(s, end) == separator && stk__scan_is(s, end + 1, STK__BYTE_DIGIT);
    if (separator == '-' && (more || (one == 3 && two == 4 && !stk__scan_is(s, end, STK__BYTE_ALNUM))))
        return say_groups(s, at, "-");
    if (separator == '.' && more && one == 3 && two == 3 && count_digits(s, end + 1) == 4)
        return say_groups(s, at, ".");
    return 0;
}

/* 1/2, 3/4, 5/16 by name, others with "over"; "24/7" and "9/11" as they are said. A whole number may stand before. */
size_t stk__amount_ratio(stk__scan *s, size_t at)
{
    static const int named[] = {2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 32, 64, 100};
    const size_t top = count_digits(s, at), bottom_at = at + top + 1, bottom = count_digits(s, bottom_at);
    const size_t end = bottom_at + bottom;
    if (stk__scan_byte(s, at + top) != '/' || top > 4 || !bottom || bottom > 4 || stk__scan_byte(s, end) == '/' ||
        stk__scan_is(s, end, STK__BYTE_LETTER))
        return 0;
    const int over = value(s, at, top), under = value(s, bottom_at, bottom);
    bool name = false;
    for (size_t i = 0; i < STK_COUNT(named); i++)
        name |= named[i] == under;
    const bool bare = (over == 24 && under == 7) || (over == 9 && under == 11);
    if (name && !bare && over < under && stk__scan_after_whole(s, at))
        stk__scan_say(s, "and", 0, 0);
    say_value(s, over, STK__NUMBER_CARDINAL);
    if (!name && !bare)
        stk__scan_say(s, "over", 0, 0);
    if (!name || bare)
        say_value(s, under, STK__NUMBER_CARDINAL);
    else if (under == 2)
        stk__scan_say(s, over == 1 ? "half" : "halves", 0, 0);
    else if (under == 4)
        stk__scan_say(s, over == 1 ? "quarter" : "quarters", 0, 0);
    else
        say_value(s, under, over == 1 ? STK__NUMBER_ORDINAL : STK__NUMBER_PARTS);
    return end;
}

/* 1.2.3 with "point", the four parts of 192.168.0.1 with "dot"; parts of more than two digits one by one. */
size_t stk__amount_version(stk__scan *s, size_t at)
{
    const stk__word_sink sink = stk__scan_sink(s);
    size_t parts = 0, end = at, part_end;
    for (size_t i = at;; i = part_end + 1) {
        part_end = stk__scan_digits(s, i, SIZE_MAX);
        if (part_end == i)
            break;
        parts++;
        end = part_end;
        if (stk__scan_byte(s, part_end) != '.')
            break;
    }
    if (parts < 3)
        return 0;
    for (size_t i = at; i < end; i = part_end + 1) {
        part_end = stk__scan_digits(s, i, SIZE_MAX);
        if (i > at)
            stk__scan_say(s, parts == 4 ? "dot" : "point", 0, 0);
        if (part_end - i > 2)
            stk__number_digits(s->text + i, part_end - i, STK__NUMBER_CARDINAL, &sink);
        else
            stk__number_say(s->text + i, part_end - i, STK__NUMBER_CARDINAL, &sink);
    }
    return end;
}
