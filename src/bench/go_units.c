/* Units of Go's benchmark text: from them to metrics and back. */
#include <string.h>

#include "bench/go_units.h"

#include "base/banned.h"

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

static void copy(char *out, size_t size, const char *text, size_t length)
{
    stk__text t;
    stk__text_fixed(&t, out, size);
    stk__text_write(&t, text, length);
}

void stk__go_unit_parse(const char *written, stk__go_unit *out)
{
    static const struct {
        const char *end, *unit;
        double divisor;
    } ends[] = {{"-ns", "s", 1e9}, {"-bytes", "bytes", 1}, {"-share", "share", 1}, {"-count", "count", 1}};
    *out = (stk__go_unit){.divisor = 1};
    const char *unit = written;
    size_t name = strlen(written);
    if (strcmp(written, "ns/op") == 0) {
        unit = "s";
        out->divisor = 1e9;
    } else if (strcmp(written, "B/op") == 0) {
        unit = "bytes";
    }
    for (size_t i = 0; i < STK_COUNT(ends); i++) {
        if (ends_with(written, ends[i].end)) {
            unit = ends[i].unit;
            name -= strlen(ends[i].end);
            out->divisor = ends[i].divisor;
            break;
        }
    }
    if (strcmp(written, "ns/op") == 0)
        copy(out->name, sizeof out->name, "wall", 4);
    else
        copy(out->name, sizeof out->name, written, name);
    copy(out->unit, sizeof out->unit, unit, strlen(unit));
    out->higher_is_better = unit == written && ends_with(written, "/s");
    out->not_negative = strcmp(unit, "s") == 0 || strcmp(unit, "bytes") == 0;
}

void stk__go_unit_print(const stk__metric *metric, stk__text *out, double *out_factor)
{
    *out_factor = strcmp(metric->unit, "s") == 0 ? 1e9 : 1;
    if (strcmp(metric->name, "wall") == 0 && *out_factor != 1) {
        stk__text_puts(out, "ns/op");
        return;
    }
    stk__go_safe(out, metric->name, "");
    if (strcmp(metric->name, metric->unit) == 0 || !*metric->unit || strcmp(metric->name, "B/op") == 0)
        return;
    stk__text_putc(out, '-');
    stk__go_safe(out, *out_factor != 1 ? "ns" : metric->unit, "");
}

bool stk__go_unit_tells(const char *written, bool higher_is_better)
{
    return higher_is_better
               ? strcmp(written, "MB/s") == 0 || strcmp(written, "B/s") == 0
               : strcmp(written, "ns/op") == 0 || strcmp(written, "B/op") == 0 || strcmp(written, "allocs/op") == 0;
}

/* Blanks outside ASCII, at which Go splits lines too. */
static bool is_wide_blank(const unsigned char *s, size_t n)
{
    if (n == 2)
        return s[0] == 0xc2 && (s[1] == 0x85 || s[1] == 0xa0);
    if (n != 3)
        return false;
    const unsigned c = (unsigned)(s[0] & 0x0f) << 12 | (unsigned)(s[1] & 0x3f) << 6 | (s[2] & 0x3f);
    return c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
           c == 0x3000;
}

void stk__go_safe(stk__text *out, const char *text, const char *more)
{
    const unsigned char *s = (const unsigned char *)text;
    for (size_t left = strlen(text), n; left; s += n, left -= n) {
        n = stk__utf8_length(s, left);
        if (n == 0 || is_wide_blank(s, n) || *s <= ' ' || *s == 0x7f || (n == 1 && strchr(more, *s)))
            stk__text_putc(out, '_');
        else
            stk__text_write(out, s, n);
        n = n ? n : 1;
    }
}
