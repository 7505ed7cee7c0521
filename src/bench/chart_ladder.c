/* A ladder of optimisation steps as SVG: a bar for each, its gain over the step before and over the first. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/chart.h"
#include "bench/quantity.h"
#include "bench/svg.h"
#include "bench/words.h"

#include "base/banned.h"

enum { STEPS_MOST = 200 };

static const double width = 960, left = 16, plot_from = 236, plot_to = 590, words_at = 606, row_height = 46;

typedef struct ladder_chart {
    const stk__result *r;
    const stk__comparisons *steps, *whole;
    stk__sample *samples;
    size_t metric, rows;
    double factor, fits;
    const char *unit_name;
    stk__axis axis;
    stk__text cell;
} ladder_chart;

static void fit_bars(ladder_chart *k)
{
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < k->rows; i++) {
        const stk__summary *s = &k->samples[i].summary;
        if (s->n == 0)
            continue;
        low = fmin(low, s->median);
        high = fmax(high, fmax(s->median, isnan(s->sd) ? s->mean : s->mean + s->sd));
    }
    if (!(low <= high))
        low = 0, high = 1;
    const bool is_log = low > 0 && high / low > 20;
    const double fits = isnan(k->fits) ? is_log ? sqrt(low) * sqrt(high) : high : k->fits;
    k->factor = stk__quantity_factor(fits, k->r->metrics[k->metric].unit, &k->unit_name);
    /* A bar has a length only from a common foot: 0, or the power of ten below the shortest. */
    const double foot = is_log ? pow(10, floor(log10(low * k->factor) - 0.2)) : fmin(low * k->factor, 0);
    stk__axis_fit(&k->axis, foot, high * k->factor, is_log, plot_from, plot_to, 5);
}

static void put_words(ladder_chart *k, size_t i, double y, stk__text *out)
{
    const stk__summary *s = &k->samples[i].summary;
    stk__quantity_style_put(&k->cell, &(stk__quantity_style){s->mean, s->sd, isnan(k->fits) ? s->mean : k->fits,
                                                             k->r->metrics[k->metric].unit});
    stk__text_printf(&k->cell, "  (n=%zu)", s->n);
    stk__svg_text(out, words_at, y - 3, "", s->n == 0 ? "no runs" : k->cell.failed ? "" : k->cell.data, 50);
    stk__text_reset(&k->cell);
    const stk__comparison *step = i && i <= k->steps->count ? &k->steps->items[i - 1] : NULL;
    const stk__comparison *whole = i && i <= k->whole->count ? &k->whole->items[i - 1] : NULL;
    if (step && step->valid) {
        double gain, low, high;
        stk__words_gain(k->r, step, &gain, &low, &high);
        stk__words_times(gain, &k->cell);
        stk__text_puts(&k->cell, " (");
        stk__words_times_interval(low, high, &k->cell);
        stk__text_puts(&k->cell, ") over the step before");
        if (step->verdict == STK__INCONCLUSIVE)
            stk__text_puts(&k->cell, " (?)");
    }
    if (whole && whole->valid) {
        double gain, low, high;
        stk__words_gain(k->r, whole, &gain, &low, &high);
        stk__text_puts(&k->cell, k->cell.length ? ", " : "");
        stk__words_times(gain, &k->cell);
        stk__text_puts(&k->cell, " in all");
    }
    if (k->cell.length)
        stk__svg_text(out, words_at, y + 12, "font-size=\"11\"", k->cell.data, 0);
    stk__text_reset(&k->cell);
}

/* The first bar is empty, steps that help are filled, steps that harm hatched, others dotted. */
static const char *bar_style(const ladder_chart *k, size_t i)
{
    if (i == 0 || i > k->steps->count)
        return "fill=\"#ffffff\" stroke=\"" STK__SVG_INK "\"";
    const stk__verdict verdict = k->steps->items[i - 1].verdict;
    if (stk__verdict_better(verdict))
        return "fill=\"#7fb8d8\" stroke=\"" STK__SVG_INK "\"";
    if (stk__verdict_worse(verdict))
        return "fill=\"url(#hatch)\" stroke=\"" STK__SVG_ORANGE "\"";
    return "fill=\"url(#dots)\" stroke=\"" STK__SVG_INK "\"";
}

static void put_step(ladder_chart *k, size_t i, double y, stk__text *out)
{
    const stk__summary *s = &k->samples[i].summary;
    char letters[8];
    stk__variant_letters(i, letters);
    stk__svg_text(out, left, y + 4, "font-weight=\"bold\"", letters, 0);
    stk__svg_text(out, left + (strlen(letters) > 1 ? 26 : 16), y + 4, "", k->r->variants[i].name, 29);
    put_words(k, i, y, out);
    if (s->n == 0)
        return;
    const double end = stk__axis_at(&k->axis, s->median * k->factor);
    const double foot = k->axis.log ? k->axis.from : stk__axis_at(&k->axis, 0);
    stk__svg_rect(out, fmin(foot, end), y - 12, fabs(end - foot), 24, bar_style(k, i));
    if (isnan(s->sd))
        return;
    /* On a log axis the lower end may lie at or below 0: it is then at the foot. */
    const double from = stk__axis_at(&k->axis, (s->mean - s->sd) * k->factor);
    const double to = stk__axis_at(&k->axis, (s->mean + s->sd) * k->factor);
    const char *ink = "stroke=\"" STK__SVG_INK "\" stroke-width=\"1.5\"";
    stk__svg_line(out, from, y, to, y, ink);
    stk__svg_line(out, from, y - 5, from, y + 5, ink);
    stk__svg_line(out, to, y - 5, to, y + 5, ink);
}

static void put_legend(ladder_chart *k, double y, stk__text *out)
{
    const char *style = "font-size=\"11\" fill=\"" STK__SVG_SOFT "\"";
    stk__svg_text(out, left, y, style,
                  "Bar: median. Whisker: mean and standard deviation. Filled: better than the step before. Hatched: "
                  "worse. Dotted: equivalent, or inconclusive (?).",
                  0);
    const size_t rest = k->r->variant_count - k->rows;
    if (rest) {
        stk__text_printf(&k->cell, "%zu more steps are not drawn.", rest);
        stk__svg_text(out, left, y + 15, style, k->cell.failed ? "" : k->cell.data, 0);
    }
}

stk_status stk__chart_ladder(const stk__result *r, const stk__comparisons *steps, const stk__comparisons *whole,
                             const char *title, stk__text *out, stk_error *err)
{
    ladder_chart k = {.r = r, .steps = steps, .whole = whole, .metric = stk__words_metric(r, steps)};
    k.rows = STK_MIN(r->variant_count, (size_t)STEPS_MOST);
    STK_TRY(stk__samples_take(r, k.metric, steps->rule.confidence, &k.samples, err));
    k.fits = stk__words_common(k.samples, r->variant_count);
    fit_bars(&k);
    const double top = 48, bottom = top + row_height * (double)k.rows;
    stk__svg_open(out, width, bottom + 92, title,
                  "A bar for each step, with its gain over the step before and over the first.");
    stk__svg_text(out, left, 28, "font-size=\"16\" font-weight=\"bold\"", title, 100);
    stk__text_puts(&k.cell, r->metrics[k.metric].name);
    if (k.unit_name[0])
        stk__text_printf(&k.cell, " (%s%s)", k.unit_name, k.axis.log ? ", logarithmic" : "");
    stk__axis_put_x(&k.axis, top, bottom, k.cell.failed ? "" : k.cell.data, out);
    stk__text_reset(&k.cell);
    for (size_t i = 0; i < k.rows; i++)
        put_step(&k, i, top + row_height * ((double)i + 0.5), out);
    put_legend(&k, bottom + 58, out);
    stk__svg_close(out);
    const bool failed = out->failed || k.cell.failed;
    stk__text_clear(&k.cell);
    stk__samples_free(k.samples, r->variant_count);
    return failed ? stk__nomem(out->length, err) : STK_OK;
}
