/* Axes of charts: round ends and ticks, linear or logarithmic. */
#include <math.h>
#include <string.h>

#include "bench/svg.h"

#include "base/banned.h"

/* Figures past this have no place on a picture; it keeps the arithmetic below finite. */
#define AXIS_MOST 1e300

static double round_step(double rough)
{
    const double decade = pow(10, floor(log10(rough)));
    const double lead = rough / decade;
    return decade * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}

static void add_tick(stk__axis *a, double value)
{
    if (a->tick_count < STK__AXIS_TICKS)
        a->ticks[a->tick_count++] = value;
}

/* Decimals of a step that is 1, 2 or 5 times a power of ten. */
static int step_decimals(double step, double most)
{
    if (most >= 1e7 || step < 1e-6)
        return -1;
    return step >= 1 ? 0 : (int)ceil(-log10(step) - 1e-9);
}

static void fit_linear(stk__axis *a, double low, double high, size_t want, bool round_ends)
{
    const double step = round_step((high - low) / (double)want);
    const double first = floor(low / step + 1e-9), last = ceil(high / step - 1e-9);
    if (round_ends) {
        a->low = first * step;
        a->high = last * step;
    }
    for (double k = first; k <= last; k++) {
        const double value = k * step;
        if (value >= a->low - 1e-9 * step && value <= a->high + 1e-9 * step)
            add_tick(a, k == 0 ? 0 : value);
    }
    a->decimals = step_decimals(step, fmax(fabs(a->low), fabs(a->high)));
}

static void fit_log(stk__axis *a, double low, double high, size_t want)
{
    static const double leads[] = {1, 2, 5};
    const int first = (int)floor(log10(low) + 1e-9), last = (int)ceil(log10(high) - 1e-9);
    const int decades = last - first;
    const int each = decades / (int)want + 1;
    a->decimals = -1;
    a->low = low;
    a->high = high;
    for (int d = first; d <= last; d += each) {
        for (size_t i = 0; i < (decades <= 3 ? STK_COUNT(leads) : 1); i++) {
            const double value = leads[i] * pow(10, d);
            if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9))
                add_tick(a, value);
        }
    }
}

void stk__axis_fit(stk__axis *a, double low, double high, bool is_log, double from, double to, size_t want)
{
    *a = (stk__axis){.from = from, .to = to, .log = is_log};
    low = fmax(low, is_log ? 1 / AXIS_MOST : -AXIS_MOST);
    high = fmin(fmax(high, low), AXIS_MOST);
    /* What is so small has no digits left to tell apart. */
    if (!is_log && fabs(low) < 1 / AXIS_MOST && fabs(high) < 1 / AXIS_MOST)
        low = high = 0;
    if (high - low <= 1e-6 * fabs(high)) {
        const double room = is_log ? 0 : low == 0 ? 1 : 0.05 * fabs(low);
        low = is_log ? low / 1.05 : low - room;
        high = is_log ? high * 1.05 : high + room;
    }
    a->low = low;
    a->high = high;
    if (!is_log)
        fit_linear(a, low, high, want, true);
    else if (high / low < 4)
        fit_linear(a, low, high, want, false); /* round numbers, placed by their logarithms */
    else
        fit_log(a, low, high, want);
}

double stk__axis_at(const stk__axis *a, double value)
{
    if (!(a->high > a->low))
        return a->from;
    const double x = fmin(fmax(value, a->low), a->high);
    /* In halves and by differences of logarithms, since the whole range may be past what a double holds. */
    const double low = a->log ? log(a->low) : a->low / 2, high = a->log ? log(a->high) : a->high / 2;
    const double share = high > low ? ((a->log ? log(x) : x / 2) - low) / (high - low) : 0;
    return a->from + share * (a->to - a->from);
}

void stk__axis_label(const stk__axis *a, size_t tick, stk__text *out)
{
    const double value = a->ticks[tick];
    if (a->decimals >= 0)
        stk__text_printf(out, "%.*f", a->decimals, value);
    else
        stk__text_printf(out, "%.7g", value);
}

void stk__axis_put_x(const stk__axis *a, double y1, double y2, const char *name, stk__text *out)
{
    for (size_t i = 0; i < a->tick_count; i++) {
        char label[64];
        stk__text text;
        stk__text_fixed(&text, label, sizeof label);
        stk__axis_label(a, i, &text);
        const double x = stk__axis_at(a, a->ticks[i]);
        stk__svg_line(out, x, y1, x, y2, "stroke=\"" STK__SVG_GRID "\"");
        stk__svg_text(out, x, y2 + 14, "text-anchor=\"middle\" font-size=\"11\"", label, 0);
    }
    stk__svg_line(out, a->from, y2, a->to, y2, "stroke=\"" STK__SVG_SOFT "\"");
    stk__svg_text(out, (a->from + a->to) / 2, y2 + 30, "text-anchor=\"middle\" font-size=\"11\"", name, 60);
}

void stk__axis_put_y(const stk__axis *a, double x1, double x2, stk__text *out)
{
    for (size_t i = 0; i < a->tick_count; i++) {
        char label[64];
        stk__text text;
        stk__text_fixed(&text, label, sizeof label);
        stk__axis_label(a, i, &text);
        const double y = stk__axis_at(a, a->ticks[i]);
        stk__svg_line(out, x1, y, x2, y, "stroke=\"" STK__SVG_GRID "\"");
        stk__svg_text(out, x1 - 6, y + 4, "text-anchor=\"end\" font-size=\"11\"", label, 0);
    }
    stk__svg_line(out, x1, a->from, x1, a->to, "stroke=\"" STK__SVG_SOFT "\"");
}
