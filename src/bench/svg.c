/* SVG by parts. Everything that comes from outside passes stk__svg_escape. */
#include "bench/svg.h"

#include <math.h>
#include <string.h>

#include "bench/table.h"

#include "base/banned.h"

enum { TEXT_COLUMNS = 500 };

/* What XML 1.0 forbids, or what would turn the text around it, in valid UTF-8. */
static bool is_left_out(const unsigned char *p, size_t n)
{
    if (n == 1)
        return p[0] < 0x20 || p[0] == 0x7f;
    if (n == 2)
        return (p[0] == 0xc2 && p[1] < 0xa0) || (p[0] == 0xd8 && p[1] == 0x9c); /* C1, U+061C */
    if (n != 3)
        return false;
    if (p[0] == 0xe2 && p[1] == 0x80)
        return p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xa8 && p[2] <= 0xae);
    if (p[0] == 0xe2 && p[1] == 0x81)
        return p[2] >= 0xa6 && p[2] <= 0xa9;
    return p[0] == 0xef && p[1] == 0xbf && p[2] >= 0xbe; /* U+FFFE, U+FFFF */
}

static void put_character(stk__text *t, const unsigned char *p, size_t n)
{
    static const struct {
        char c;
        const char *name;
    } names[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
    for (size_t i = 0; i < STK_COUNT(names) && n == 1; i++) {
        if (p[0] == (unsigned char)names[i].c) {
            stk__text_puts(t, names[i].name);
            return;
        }
    }
    stk__text_write(t, p, n);
}

/* Columns of one character, for which the terminal's measure is good enough. */
static size_t width_of(const unsigned char *p, size_t n)
{
    char one[5] = {0};
    memcpy(one, p, n);
    return stk__columns(one);
}

/* Returns whether all of it was put. With out NULL it only tells. */
static bool escape(stk__text *out, const char *s, size_t most)
{
    const unsigned char *p = (const unsigned char *)s;
    const size_t size = strlen(s);
    size_t used = 0;
    for (size_t i = 0; i < size;) {
        const size_t n = stk__utf8_length(p + i, size - i);
        const bool left_out = n && is_left_out(p + i, n);
        const size_t width = left_out ? 0 : n ? width_of(p + i, n) : 1;
        if (used + width > most)
            return false;
        used += width;
        if (out && n == 0)
            stk__text_puts(out, "\xef\xbf\xbd");
        else if (out && !left_out)
            put_character(out, p + i, n);
        i += n ? n : 1;
    }
    return true;
}

void stk__svg_escape(stk__text *t, const char *s, size_t most)
{
    if (most == 0)
        most = TEXT_COLUMNS;
    if (escape(NULL, s, most)) {
        escape(t, s, most);
    } else {
        escape(t, s, most - 1);
        stk__text_puts(t, "\xe2\x80\xa6");
    }
}

void stk__svg_open(stk__text *t, double width, double height, const char *title, const char *description)
{
    stk__text_printf(t,
                     "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" viewBox=\"0 0 %.0f %.0f\" "
                     "width=\"%.0f\" height=\"%.0f\" role=\"img\" "
                     "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"" STK__SVG_INK
                     "\">\n<title>",
                     width, height, width, height);
    stk__svg_escape(t, title, 0);
    stk__text_puts(t, "</title>\n<desc>");
    stk__svg_escape(t, description, 0);
    stk__text_puts(t, "</desc>\n<defs>\n"
                      "<pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
                      "patternTransform=\"rotate(45)\"><line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" stroke=\"#999999\" "
                      "stroke-width=\"1.5\"/></pattern>\n"
                      "<pattern id=\"dots\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
                      "<circle cx=\"3\" cy=\"3\" r=\"1.3\" fill=\"" STK__SVG_SOFT "\"/></pattern>\n</defs>\n");
    stk__text_printf(t, "<rect x=\"0\" y=\"0\" width=\"%.0f\" height=\"%.0f\" fill=\"#ffffff\"/>\n", width, height);
}

void stk__svg_close(stk__text *t)
{
    stk__text_puts(t, "</svg>\n");
}

void stk__svg_text(stk__text *t, double x, double y, const char *style, const char *s, size_t most)
{
    stk__text_printf(t, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, style);
    if (most && !escape(NULL, s, most)) {
        stk__text_puts(t, "<title>");
        stk__svg_escape(t, s, 0);
        stk__text_puts(t, "</title>");
    }
    stk__svg_escape(t, s, most);
    stk__text_puts(t, "</text>\n");
}

void stk__svg_line(stk__text *t, double x1, double y1, double x2, double y2, const char *style)
{
    stk__text_printf(t, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2, y2, style);
}

void stk__svg_rect(stk__text *t, double x, double y, double width, double height, const char *style)
{
    stk__text_printf(t, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" %s/>\n", x, y, width, height,
                     style);
}

void stk__svg_mark_put(stk__text *t, stk__svg_mark mark, double x, double y, double radius, const char *style)
{
    /* Corners in units of the radius; x and y in turn. */
    static const struct {
        size_t count;
        double at[8];
    } shapes[] = {[STK__MARK_SQUARE] = {4, {-0.9, -0.9, 0.9, -0.9, 0.9, 0.9, -0.9, 0.9}},
                  [STK__MARK_DIAMOND] = {4, {0, -1.25, 1.25, 0, 0, 1.25, -1.25, 0}},
                  [STK__MARK_UP] = {3, {0, -1.1, 1.1, 0.9, -1.1, 0.9}},
                  [STK__MARK_DOWN] = {3, {0, 1.1, 1.1, -0.9, -1.1, -0.9}}};
    if (mark == STK__MARK_CIRCLE) {
        stk__text_printf(t, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" %s/>\n", x, y, radius, style);
        return;
    }
    stk__text_puts(t, "<polygon points=\"");
    for (size_t i = 0; i < shapes[mark].count; i++)
        stk__text_printf(t, "%s%.1f,%.1f", i ? " " : "", x + radius * shapes[mark].at[2 * i],
                         y + radius * shapes[mark].at[2 * i + 1]);
    stk__text_printf(t, "\" %s/>\n", style);
}
