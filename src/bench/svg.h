/* SVG by parts: escaped text, shapes that read without colour, axes with round ticks. */
#ifndef STK_BENCH_SVG_H
#define STK_BENCH_SVG_H

#include "base/str.h"

#define STK__SVG_INK "#1a1a1a"
#define STK__SVG_SOFT "#555555"
#define STK__SVG_GRID "#dddddd"
#define STK__SVG_BLUE "#0072b2" /* the two differ in brightness too, for print and for all eyes */
#define STK__SVG_ORANGE "#d55e00"

/* Text of an element or attribute: XML's marks escaped, control bytes left out, bytes that are not UTF-8 as U+FFFD; cut
 * at `most` columns with an ellipsis (0: at 500). */
void stk__svg_escape(stk__text *t, const char *s, size_t most);

/* The document on a white ground, with title, description and the patterns "hatch" and "dots". */
void stk__svg_open(stk__text *t, double width, double height, const char *title, const char *description);
void stk__svg_close(stk__text *t);

/* `style`: attributes, ours. The whole text is in a tooltip when it was cut. */
void stk__svg_text(stk__text *t, double x, double y, const char *style, const char *s, size_t most);
void stk__svg_line(stk__text *t, double x1, double y1, double x2, double y2, const char *style);
void stk__svg_rect(stk__text *t, double x, double y, double width, double height, const char *style);

typedef enum stk__svg_mark {
    STK__MARK_CIRCLE,
    STK__MARK_SQUARE,
    STK__MARK_DIAMOND,
    STK__MARK_UP,
    STK__MARK_DOWN
} stk__svg_mark;
void stk__svg_mark_put(stk__text *t, stk__svg_mark mark, double x, double y, double radius, const char *style);

/* Values onto pixels. Ends and ticks are round numbers; all values are finite, and above 0 for a log axis. */
enum { STK__AXIS_TICKS = 24 };
typedef struct stk__axis {
    double low, high;
    double from, to; /* pixels of low and high */
    bool log;
    double ticks[STK__AXIS_TICKS];
    size_t tick_count;
    int decimals; /* of the ticks, -1: with %g */
} stk__axis;

/* `want`: about how many ticks. Equal ends are moved apart. */
void stk__axis_fit(stk__axis *a, double low, double high, bool log, double from, double to, size_t want);
double stk__axis_at(const stk__axis *a, double value);
void stk__axis_label(const stk__axis *a, size_t tick, stk__text *out);
/* A grid from y1 to y2 with the labels below, and the name of what is shown under them. */
void stk__axis_put_x(const stk__axis *a, double y1, double y2, const char *name, stk__text *out);
/* The same for a vertical axis, from x1 to x2, with the labels to the left. */
void stk__axis_put_y(const stk__axis *a, double x1, double x2, stk__text *out);

#endif
