/* A comparison as SVG: every run as a dot, medians with intervals, then the ratios with verdicts. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/chart.h"
#include "bench/quantity.h"
#include "bench/svg.h"
#include "bench/words.h"

#include "base/banned.h"

/* Past these the picture would be too large to open; what is left out is told. */
enum { ROWS_MOST = 300, DOTS_MOST = 20000, DOTS_OF_ROW_LEAST = 20 };

static const double width = 960, left = 16, plot_from = 236, plot_to = 690, words_at = 706, row_height = 40;

typedef struct comparison_chart {
    const stk__result *r;
    const stk__comparisons *c; /* may be NULL */
    stk__sample *samples;
    size_t metric, rows, ratios, dots_of_row;
    double factor; /* from values to the unit of the axis */
    const char *unit_name;
    bool thinned;
    double fits; /* picks the unit of the figures beside */
    stk__text cell;
} comparison_chart;

/* -1 to 1, the same for the same run in every picture. */
static double jitter(size_t i)
{
    return (double)(i * 2654435761u % 1000u) / 499.5 - 1;
}

static void put_name(comparison_chart *k, size_t variant, double y, stk__text *out)
{
    char letters[8];
    stk__variant_letters(variant, letters);
    stk__svg_text(out, left, y, "font-weight=\"bold\"", letters, 0);
    stk__svg_text(out, left + (strlen(letters) > 1 ? 26 : 16), y, "", k->r->variants[variant].name, 29);
}

/* A path of points with round ends is a third of the size of as many circles. */
static void put_dots(comparison_chart *k, const stk__axis *axis, const stk__sample *s, double y, stk__text *out)
{
    const size_t n = s->summary.n, shown = STK_MIN(n, k->dots_of_row);
    k->thinned = k->thinned || shown < n;
    stk__text_puts(out, "<path fill=\"none\" stroke=\"" STK__SVG_BLUE
                        "\" stroke-opacity=\"0.5\" stroke-width=\"5\" stroke-linecap=\"round\" d=\"");
    for (size_t i = 0; i < shown; i++) {
        const double value = s->sorted[shown > 1 ? i * (n - 1) / (shown - 1) : 0];
        stk__text_printf(out, "M%.1f %.1fh0", stk__axis_at(axis, value * k->factor), y + 7 * jitter(i));
    }
    stk__text_puts(out, "\"/>\n");
}

static void put_variant(comparison_chart *k, const stk__axis *axis, size_t i, double y, stk__text *out)
{
    const stk__sample *s = &k->samples[i];
    put_name(k, i, y + 4, out);
    if (s->summary.n == 0) {
        stk__svg_text(out, words_at, y + 4, "fill=\"" STK__SVG_SOFT "\"", "no runs", 0);
        return;
    }
    put_dots(k, axis, s, y - 6, out);
    const double x1 = stk__axis_at(axis, s->low * k->factor), x2 = stk__axis_at(axis, s->high * k->factor);
    const double middle = stk__axis_at(axis, s->summary.median * k->factor);
    if (s->covered)
        stk__svg_rect(out, x1, y + 6, fmax(x2 - x1, 1), 6,
                      "fill=\"#ffffff\" fill-opacity=\"0.8\" stroke=\"" STK__SVG_INK "\"");
    stk__svg_line(out, middle, y + 2, middle, y + 16, "stroke=\"" STK__SVG_INK "\" stroke-width=\"3\"");
    const stk__quantity_style style = {s->summary.mean, s->summary.sd, isnan(k->fits) ? s->summary.mean : k->fits,
                                       k->r->metrics[k->metric].unit};
    stk__quantity_style_put(&k->cell, &style);
    stk__text_printf(&k->cell, "  (n=%zu)", s->summary.n);
    stk__svg_text(out, words_at, y - 2, "", k->cell.failed ? "" : k->cell.data, 40);
    stk__text_reset(&k->cell);
    stk__text_puts(&k->cell, "median ");
    stk__quantity_like(&k->cell, s->summary.median, &style);
    stk__svg_text(out, words_at, y + 13, "font-size=\"11\" fill=\"" STK__SVG_SOFT "\"",
                  k->cell.failed ? "" : k->cell.data, 0);
    stk__text_reset(&k->cell);
}

/* The common axis; logarithmic when the variants lie far apart. */
static void fit_runs(comparison_chart *k, stk__axis *axis)
{
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < k->rows; i++) {
        if (k->samples[i].summary.n) {
            low = fmin(low, k->samples[i].summary.min);
            high = fmax(high, k->samples[i].summary.max);
        }
    }
    if (!(low <= high))
        low = 0, high = 1;
    const char *unit = k->r->metrics[k->metric].unit;
    const bool is_log = low > 0 && high / low > 20;
    /* The unit of the figures beside the picture, where they have one in common. */
    const double fits = isnan(k->fits) ? is_log ? sqrt(low) * sqrt(high) : high : k->fits;
    k->factor = stk__quantity_factor(fits, unit, &k->unit_name);
    stk__axis_fit(axis, low * k->factor, high * k->factor, is_log, plot_from, plot_to, 6);
}

static double put_runs(comparison_chart *k, double top, stk__text *out)
{
    stk__axis axis;
    fit_runs(k, &axis);
    const double bottom = top + row_height * (double)k->rows;
    const char *metric = k->r->metrics[k->metric].name;
    stk__text_puts(&k->cell, metric);
    if (k->unit_name[0])
        stk__text_printf(&k->cell, " (%s%s)", k->unit_name, axis.log ? ", logarithmic" : "");
    stk__axis_put_x(&axis, top, bottom, k->cell.failed ? "" : k->cell.data, out);
    stk__text_reset(&k->cell);
    for (size_t i = 0; i < k->rows; i++)
        put_variant(k, &axis, i, top + row_height * ((double)i + 0.5), out);
    return bottom + 40;
}

static void fit_ratios(const comparison_chart *k, stk__axis *axis)
{
    const double margin = fmax(k->c->rule.margin, 0.005);
    double low = 1 / (1 + margin), high = 1 + margin;
    for (size_t i = 0; i < k->ratios; i++) {
        const stk__comparison *x = &k->c->items[i];
        if (x->valid && x->low > 0 && isfinite(x->high)) {
            low = fmin(low, x->low);
            high = fmax(high, x->high);
        }
    }
    /* A little room, so that no whisker ends on the frame. */
    const double room = pow(high / low, 0.04);
    stk__axis_fit(axis, low / room, high * room, true, plot_from, plot_to, 8);
}

static void put_ratio_mark(const stk__comparison *x, const stk__axis *axis, double y, stk__text *out)
{
    const double at = stk__axis_at(axis, x->ratio), from = stk__axis_at(axis, x->low), to = stk__axis_at(axis, x->high);
    const char *ink = "stroke=\"" STK__SVG_INK "\" stroke-width=\"1.5\"";
    stk__svg_line(out, from, y, to, y, ink);
    stk__svg_line(out, from, y - 5, from, y + 5, ink);
    stk__svg_line(out, to, y - 5, to, y + 5, ink);
    if (stk__verdict_better(x->verdict))
        stk__svg_mark_put(out, STK__MARK_DIAMOND, at, y, 6, "fill=\"" STK__SVG_BLUE "\" stroke=\"" STK__SVG_INK "\"");
    else if (stk__verdict_worse(x->verdict))
        stk__svg_mark_put(out, STK__MARK_DIAMOND, at, y, 6, "fill=\"" STK__SVG_ORANGE "\" stroke=\"" STK__SVG_INK "\"");
    else if (x->verdict == STK__EQUIVALENT)
        stk__svg_mark_put(out, STK__MARK_SQUARE, at, y, 6, "fill=\"#ffffff\" stroke=\"" STK__SVG_INK "\"");
    else
        stk__svg_mark_put(out, STK__MARK_CIRCLE, at, y, 5,
                          "fill=\"#ffffff\" stroke=\"" STK__SVG_INK "\" stroke-dasharray=\"2 2\"");
}

static void put_ratio(comparison_chart *k, const stk__axis *axis, size_t i, double y, stk__text *out)
{
    const stk__comparison *x = &k->c->items[i];
    const stk__variant *v = k->r->variants;
    stk__words_pair(x, &k->cell);
    const size_t letters = k->cell.length;
    stk__svg_text(out, left, y + 4, "font-weight=\"bold\"", k->cell.failed ? "" : k->cell.data, 0);
    stk__text_reset(&k->cell);
    /* Each name cut by itself, so that the second one is not lost. */
    stk__svg_text(out, left + 10 + 9 * (double)letters, y - 3, "font-size=\"11\"", v[x->b].name, 26);
    stk__text_puts(&k->cell, "/ ");
    stk__text_puts(&k->cell, v[x->a].name);
    stk__svg_text(out, left + 10 + 9 * (double)letters, y + 11, "font-size=\"11\" fill=\"" STK__SVG_SOFT "\"",
                  k->cell.failed ? "" : k->cell.data, 26);
    stk__text_reset(&k->cell);
    if (x->valid) {
        put_ratio_mark(x, axis, y, out);
        stk__ratio(&k->cell, x->ratio);
        stk__text_puts(&k->cell, "  (");
        stk__words_interval(x->low, x->high, &k->cell);
        stk__text_puts(&k->cell, ")");
    } else {
        stk__text_puts(&k->cell, "no figures");
    }
    stk__svg_text(out, words_at, y - 3, "", k->cell.failed ? "" : k->cell.data, 40);
    stk__text_reset(&k->cell);
    stk__words_brief(k->r, k->c, i, &k->cell);
    stk__svg_text(out, words_at, y + 12,
                  x->verdict == STK__INCONCLUSIVE ? "font-size=\"11\" fill=\"" STK__SVG_SOFT "\""
                                                  : "font-size=\"11\" font-weight=\"bold\"",
                  k->cell.failed ? "" : k->cell.data, 42);
    stk__text_reset(&k->cell);
}

static double put_ratios(comparison_chart *k, double top, stk__text *out)
{
    stk__axis axis;
    fit_ratios(k, &axis);
    const double bottom = top + row_height * (double)k->ratios;
    const double margin = k->c->rule.margin;
    stk__axis_put_x(&axis, top, bottom, "ratio (logarithmic)", out);
    if (margin > 0) {
        const double from = stk__axis_at(&axis, 1 / (1 + margin)), to = stk__axis_at(&axis, 1 + margin);
        stk__svg_rect(out, from, top, to - from, bottom - top, "fill=\"url(#hatch)\" fill-opacity=\"0.6\"");
    }
    const double one = stk__axis_at(&axis, 1);
    stk__svg_line(out, one, top, one, bottom, "stroke=\"" STK__SVG_INK "\" stroke-dasharray=\"4 3\"");
    for (size_t i = 0; i < k->ratios; i++)
        put_ratio(k, &axis, i, top + row_height * ((double)i + 0.5), out);
    return bottom + 40;
}

static double put_legend_line(comparison_chart *k, double y, stk__text *out)
{
    stk__svg_text(out, left, y, "font-size=\"11\" fill=\"" STK__SVG_SOFT "\"", k->cell.failed ? "" : k->cell.data, 0);
    stk__text_reset(&k->cell);
    return y + 15;
}

static void put_legend(comparison_chart *k, double y, stk__text *out)
{
    const double confidence = k->c ? k->c->rule.confidence : 0.95;
    stk__text_puts(&k->cell, "Dot: one run. Thick tick: median. Box: its ");
    stk__words_percent(confidence, &k->cell);
    stk__text_puts(&k->cell, " interval.");
    if (k->thinned)
        stk__text_printf(&k->cell,
                         " Not all runs are drawn: %zu of each variant at most, evenly over the sorted values.",
                         k->dots_of_row);
    y = put_legend_line(k, y, out);
    if (k->ratios) {
        stk__text_puts(&k->cell,
                       "Filled diamond: changed. Square: equivalent. Dashed circle: inconclusive. Hatched: within ");
        stk__words_percent(k->c->rule.margin, &k->cell);
        stk__text_puts(&k->cell, " of 1.");
        if (!k->c->items[0].paired)
            stk__text_puts(&k->cell, " Unpaired: order not controlled.");
        y = put_legend_line(k, y, out);
    }
    const size_t rest = k->r->variant_count - k->rows;
    if (rest) {
        stk__text_printf(&k->cell, "%zu more variants are not drawn.", rest);
        put_legend_line(k, y, out);
    }
}

static double chart_height(const comparison_chart *k)
{
    return 56 + row_height * (double)k->rows + 40 + (k->ratios ? 16 + row_height * (double)k->ratios + 40 : 0) + 50;
}

stk_status stk__chart_comparison(const stk__result *r, const stk__comparisons *c, const char *title, stk__text *out,
                                 stk_error *err)
{
    comparison_chart k = {.r = r, .c = c, .metric = stk__words_metric(r, c)};
    k.rows = STK_MIN(r->variant_count, (size_t)ROWS_MOST);
    k.ratios = c ? STK_MIN(c->count, (size_t)ROWS_MOST) : 0;
    k.dots_of_row = STK_MAX((size_t)DOTS_MOST / (k.rows ? k.rows : 1), (size_t)DOTS_OF_ROW_LEAST);
    k.dots_of_row = STK_MIN(k.dots_of_row, (size_t)1000);
    STK_TRY(stk__samples_take(r, k.metric, c ? c->rule.confidence : 0.95, &k.samples, err));
    k.fits = stk__words_common(k.samples, r->variant_count);
    stk__svg_open(out, width, chart_height(&k), title,
                  "Runs of each variant with medians and their intervals, then ratios with intervals and verdicts.");
    stk__svg_text(out, left, 28, "font-size=\"16\" font-weight=\"bold\"", title, 100);
    double y = put_runs(&k, 48, out);
    if (k.ratios)
        y = put_ratios(&k, y + 16, out);
    put_legend(&k, y + 12, out);
    stk__svg_close(out);
    const bool failed = out->failed || k.cell.failed;
    stk__text_clear(&k.cell);
    stk__samples_free(k.samples, r->variant_count);
    return failed ? stk__nomem(out->length, err) : STK_OK;
}
