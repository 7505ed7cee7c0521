/* Text builder, escapes, size and duration parsing. */
#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

void stk__text_fixed(stk__text *t, char *buffer, size_t size)
{
    *t = (stk__text){.data = buffer, .capacity = size, .fixed = true};
    if (size)
        buffer[0] = 0;
}

void stk__text_clear(stk__text *t)
{
    if (!t->fixed)
        stk__free(t->data);
    *t = (stk__text){0};
}

void stk__text_reset(stk__text *t)
{
    t->length = 0;
    t->failed = false;
    if (t->data && t->capacity)
        t->data[0] = 0;
}

/* Makes room for `extra` bytes and the NUL; in a fixed buffer returns how many of them fit. */
static size_t text_room(stk__text *t, size_t extra)
{
    if (t->failed)
        return 0;
    if (t->fixed) {
        const size_t left = t->capacity > t->length ? t->capacity - t->length - 1 : 0;
        if (extra > left)
            t->failed = true;
        return STK_MIN(extra, left);
    }
    if (extra > SIZE_MAX - t->length - 1 ||
        !stk__grow((void **)&t->data, &t->capacity, t->length + extra + 1, 1)) {
        t->failed = true;
        return 0;
    }
    return extra;
}

void stk__text_write(stk__text *t, const void *data, size_t size)
{
    size = text_room(t, size);
    if (!t->data || !t->capacity)
        return;
    if (size)
        memcpy(t->data + t->length, data, size);
    t->length += size;
    t->data[t->length] = 0;
}

void stk__text_putc(stk__text *t, char c)
{
    stk__text_write(t, &c, 1);
}

void stk__text_puts(stk__text *t, const char *s)
{
    stk__text_write(t, s, strlen(s));
}

/* Programs that use the library may have set a locale with a decimal comma; our formats are the same everywhere. */
static locale_t enter_c_locale(void)
{
    const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return c ? uselocale(c) : (locale_t)0;
}

static void leave_c_locale(locale_t before)
{
    if (!before)
        return;
    const locale_t c = uselocale(before);
    if (c != LC_GLOBAL_LOCALE)
        freelocale(c);
}

double stk__strtod(const char *s, char **end)
{
    const locale_t before = enter_c_locale();
    const double x = strtod(s, end);
    leave_c_locale(before);
    return x;
}

void stk__text_printf(stk__text *t, const char *format, ...)
{
    char small[256];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const locale_t before = enter_c_locale();
    const int n = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof small) {
        stk__text_write(t, small, (size_t)n);
    } else if (n > 0) {
        char *big = stk__alloc((size_t)n + 1);
        if (big) {
            vsnprintf(big, (size_t)n + 1, format, again);
            stk__text_write(t, big, (size_t)n);
            stk__free(big);
        } else {
            t->failed = true;
        }
    }
    leave_c_locale(before);
    va_end(again);
}

size_t stk__utf8_length(const unsigned char *s, size_t left)
{
    if (s[0] < 0x80)
        return 1;
    size_t n;
    uint32_t min, c;
    if ((s[0] & 0xe0) == 0xc0)
        n = 2, min = 0x80, c = s[0] & 0x1f;
    else if ((s[0] & 0xf0) == 0xe0)
        n = 3, min = 0x800, c = s[0] & 0x0f;
    else if ((s[0] & 0xf8) == 0xf0)
        n = 4, min = 0x10000, c = s[0] & 0x07;
    else
        return 0;
    if (n > left)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    if (c < min || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    return n;
}

/* The value of a valid sequence. */
static uint32_t utf8_value(const unsigned char *s, size_t size)
{
    static const unsigned char lead[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t c = s[0] & lead[size];
    for (size_t i = 1; i < size; i++)
        c = c << 6 | (s[i] & 0x3f);
    return c;
}

/*
 * What is not to be seen, or makes what follows be read as something else: control characters (C1 steer a terminal as well as
 * C0), marks that turn the direction of text around, separators of lines, and what has no width. The joiners U+200C and
 * U+200D are letters' business and stay.
 */
static bool is_hidden(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0x00, 0x1f},     {0x7f, 0x9f},     {0x61c, 0x61c},   {0x180e, 0x180e},  {0x200b, 0x200b},
                  {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff},  {0xfff9, 0xfffb},
                  {0xe0000, 0xe007f}};
    for (size_t i = 0; i < STK_COUNT(ranges); i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    return false;
}

/* Length of the character at s when it can be shown as it is, else 0. */
static size_t shown_length(const unsigned char *s, size_t left)
{
    const size_t n = stk__utf8_length(s, left);
    return n && !is_hidden(utf8_value(s, n)) ? n : 0;
}

void stk__error_prefix(stk_error *err, const char *format, ...)
{
    if (!err)
        return;
    char message[sizeof err->message];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    const size_t used = n < 0 ? 0 : STK_MIN((size_t)n, sizeof message - 1);
    const size_t rest = STK_MIN(strlen(err->message), sizeof message - 1 - used);
    memcpy(message + used, err->message, rest);
    message[used + rest] = 0;
    memcpy(err->message, message, used + rest + 1);
}

/* The same text for whoever reads JSON. */
static void put_json_unit(stk__text *t, uint32_t c)
{
    if (c < 0x10000)
        stk__text_printf(t, "\\u%04x", c);
    else
        stk__text_printf(t, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 0x3ff));
}

void stk__text_json(stk__text *t, const char *s, size_t size)
{
    const unsigned char *p = (const unsigned char *)s;
    stk__text_putc(t, '"');
    for (size_t i = 0; i < size;) {
        const unsigned char c = p[i];
        const size_t n = stk__utf8_length(p + i, size - i);
        if (n == 0) {
            stk__text_puts(t, "\\ufffd");
            i++;
            continue;
        }
        if (c == '"' || c == '\\') {
            stk__text_putc(t, '\\');
            stk__text_putc(t, (char)c);
        } else if (c == '\n') {
            stk__text_puts(t, "\\n");
        } else if (c == '\t') {
            stk__text_puts(t, "\\t");
        } else if (is_hidden(utf8_value(p + i, n))) {
            put_json_unit(t, utf8_value(p + i, n));
        } else {
            stk__text_write(t, p + i, n);
        }
        i += n;
    }
    stk__text_putc(t, '"');
}

void stk__text_json_str(stk__text *t, const char *s)
{
    stk__text_json(t, s, strlen(s));
}

void stk__text_json_double(stk__text *t, double x)
{
    if (!isfinite(x)) {
        stk__text_puts(t, "null");
        return;
    }
    char shortest[40];
    const locale_t before = enter_c_locale();
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(shortest, sizeof shortest, "%.*g", digits, x);
        if (strtod(shortest, NULL) == x)
            break;
    }
    leave_c_locale(before);
    stk__text_puts(t, shortest);
}

/* With `mark` (may be "") before the text, inside of the quotes. */
static void put_csv(stk__text *t, const char *mark, const char *s, size_t size)
{
    bool quoted = size && (s[0] == ' ' || s[size - 1] == ' ');
    for (size_t i = 0; i < size && !quoted; i++)
        quoted = s[i] == ',' || s[i] == '"' || s[i] == '\n' || s[i] == '\r';
    stk__text_puts(t, quoted ? "\"" : "");
    stk__text_puts(t, mark);
    while (size) {
        const char *quote = memchr(s, '"', size);
        const size_t piece = quote ? (size_t)(quote - s) + 1 : size;
        stk__text_write(t, s, piece);
        if (quote)
            stk__text_putc(t, '"');
        s += piece;
        size -= piece;
    }
    stk__text_puts(t, quoted ? "\"" : "");
}

void stk__text_csv(stk__text *t, const char *s, size_t size)
{
    put_csv(t, "", s, size);
}

/* -1.5, +2e3; not -1+2, nor -inf. */
static bool is_number(const char *s, size_t size)
{
    char copy[64], *end;
    if (size == 0 || size >= sizeof copy || memchr(s, 0, size))
        return false;
    memcpy(copy, s, size);
    copy[size] = 0;
    const double x = stk__strtod(copy, &end);
    return end != copy && !*end && isfinite(x) && !isspace((unsigned char)copy[0]);
}

bool stk__text_csv_safe(stk__text *t, const char *s, size_t size)
{
    const bool formula = size && memchr("=+-@\t\r", s[0], 6) && !is_number(s, size);
    put_csv(t, formula ? "'" : "", s, size);
    return formula;
}

void stk__text_quote(stk__text *t, const char *s)
{
    const unsigned char *const end = (const unsigned char *)s + strlen(s);
    stk__text_putc(t, '"');
    for (const unsigned char *p = (const unsigned char *)s; p < end;) {
        const size_t n = shown_length(p, (size_t)(end - p));
        if (*p == '"' || *p == '\\')
            stk__text_printf(t, "\\%c", *p);
        else if (*p == '\n')
            stk__text_puts(t, "\\n");
        else if (*p == '\t')
            stk__text_puts(t, "\\t");
        else if (n)
            stk__text_write(t, p, n);
        else
            stk__text_printf(t, "\\x%02x", *p);
        p += n ? n : 1;
    }
    stk__text_putc(t, '"');
}

void stk__text_bytes(stk__text *t, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double x = (double)bytes;
    size_t u = 0;
    for (; x >= 1023.5 && u + 1 < STK_COUNT(units); u++)
        x /= 1024;
    stk__text_printf(t, u && x < 100 ? "%.1f %s" : "%.0f %s", x, units[u]);
}

size_t stk__escape_terminal(const char *in, char *out, size_t size)
{
    size_t n = 0;
    const unsigned char *const end = (const unsigned char *)in + strlen(in);
    for (const unsigned char *p = (const unsigned char *)in; p < end;) {
        char piece[8];
        size_t used = 1;
        const size_t utf8 = shown_length(p, (size_t)(end - p));
        int length = (int)utf8;
        if (utf8) {
            memcpy(piece, p, utf8);
            used = utf8;
        } else { /* what follows of a character is no character, and goes the same way */
            length = snprintf(piece, sizeof piece, "\\x%02x", *p);
        }
        if (n + (size_t)length < size)
            memcpy(out + n, piece, (size_t)length);
        else if (n < size)
            out[n] = 0, size = n; /* cut at a whole character */
        n += (size_t)length;
        p += used;
    }
    if (n < size)
        out[n] = 0;
    return n;
}

bool stk__parse_size(const char *s, uint64_t *out)
{
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)*s))
        return false;
    const double x = stk__strtod(s, &end);
    if (errno || !(x >= 0))
        return false;
    double unit = 1;
    static const char prefixes[] = "KMGT";
    const char *p = *end ? strchr(prefixes, toupper((unsigned char)*end)) : NULL;
    if (p) {
        for (const char *q = prefixes; q <= p; q++)
            unit *= 1024;
        end++;
        if (*end == 'i')
            end++;
    }
    if (*end == 'B' || *end == 'b')
        end++;
    if (*end || x * unit >= 9.2e18)
        return false;
    *out = (uint64_t)(x * unit);
    return true;
}

bool stk__parse_duration(const char *s, int64_t *out_ns)
{
    static const struct {
        const char *suffix;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}, {"", 1e9}};
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)*s) && *s != '.')
        return false;
    const double x = stk__strtod(s, &end);
    if (errno || !(x >= 0))
        return false;
    for (size_t i = 0; i < STK_COUNT(units); i++) {
        if (strcmp(end, units[i].suffix) == 0 && x * units[i].ns < 9e18) {
            *out_ns = (int64_t)(x * units[i].ns);
            return true;
        }
    }
    return false;
}

bool stk__parse_int64(const char *s, int64_t *out)
{
    char *end;
    errno = 0;
    const long long x = strtoll(s, &end, 10);
    if (errno || end == s || *end || isspace((unsigned char)*s))
        return false;
    *out = x;
    return true;
}

#define NEAREST_MAX 64

static size_t edit_distance(const char *a, const char *b)
{
    const size_t n = strlen(a), m = strlen(b);
    if (n >= NEAREST_MAX || m >= NEAREST_MAX)
        return SIZE_MAX;
    size_t row[NEAREST_MAX + 1];
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            const size_t above = row[j];
            const size_t change = diagonal + (a[i - 1] != b[j - 1]);
            row[j] = STK_MIN(change, STK_MIN(above, row[j - 1]) + 1);
            diagonal = above;
        }
    }
    return row[m];
}

const char *stk__nearest(const char *word, const char *const *candidates, size_t count)
{
    const char *best = NULL;
    size_t best_distance = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        const size_t d = edit_distance(word, candidates[i]);
        if (d < best_distance)
            best = candidates[i], best_distance = d;
    }
    const size_t limit = strlen(word) / 3 + 1;
    return best_distance <= limit ? best : NULL;
}
