/* Luck as SVG: a panel for A against itself, and one for each slower command; shares of windows by their size. */
#include <math.h>

#include "base/mem.h"
#include "bench/luck_report.h"
#include "bench/quantity.h"
#include "bench/svg.h"

#include "base/banned.h"

enum { PANELS_MOST = 3 };

static const double width = 960, left = 16, plot_height = 220;

/* How the lines of a design and a rule look; found ones are filled, those called the other way round are not. */
typedef struct look {
    const char *colour, *stroke; /* stroke: attributes of the line */
    stk__svg_mark mark;
    double radius;
    bool whiskers;
} look;

/* What is drawn: the rules, and Mann-Whitney's test on hyperfine's own files. */
enum { BY_HYPERFINE = STK__LUCK_RULES, LINES };

static const look looks[LINES] = {
    [STK__LUCK_VERDICT] = {STK__SVG_BLUE, "stroke-width=\"2.5\"", STK__MARK_CIRCLE, 4.5, true},
    [STK__LUCK_MANN_WHITNEY] = {STK__SVG_ORANGE, "stroke-width=\"2.5\"", STK__MARK_SQUARE, 4.5, true},
    [STK__LUCK_WELCH] = {STK__SVG_ORANGE, "stroke-width=\"1\"", STK__MARK_DIAMOND, 3, false},
    [STK__LUCK_MEANS] = {STK__SVG_ORANGE, "stroke-width=\"1\"", STK__MARK_UP, 3.5, false},
    [BY_HYPERFINE] = {STK__SVG_INK, "stroke-width=\"1\"", STK__MARK_DOWN, 4, false},
};

typedef struct luck_chart {
    const stk__luck_story *s;
    size_t panels;
    double top; /* of the plots */
    stk__axis y;
    stk__text cell;
} luck_chart;

/* ---- a panel ---- */

typedef struct panel {
    const stk__luck_effect *e;
    double from, to;
} panel;

static double x_of(const panel *p, size_t row)
{
    return p->from + (p->to - p->from) * ((double)row + 0.5) / (double)STK_MAX(p->e->row_count, (size_t)1);
}

/* What a line shows at a row; NaN: nothing. */
static double value_of(const panel *p, size_t row, size_t line, bool wrong, size_t *out_apart)
{
    const stk__luck_row *r = &p->e->rows[row];
    const stk__luck_rule rule = line == BY_HYPERFINE ? STK__LUCK_MANN_WHITNEY : (stk__luck_rule)line;
    const stk__luck_shares *s = line == BY_HYPERFINE        ? &r->hyperfine
                                : line == STK__LUCK_VERDICT ? &r->turns
                                                            : &r->order;
    *out_apart = s->apart;
    if (p->e->more == 0)
        return s->rules[rule].called;
    return wrong ? s->rules[rule].called - s->rules[rule].right : s->rules[rule].right;
}

static void put_whisker(const luck_chart *k, double x, double share, size_t apart, const char *colour, stk__text *out)
{
    double low, high;
    stk__luck_interval(share, apart, &low, &high);
    stk__text_printf(
        out, "<path fill=\"none\" stroke=\"%s\" stroke-opacity=\"0.5\" stroke-width=\"1.5\" d=\"M%.1f %.1fV%.1f\"/>\n",
        colour, x, stk__axis_at(&k->y, 100 * low), stk__axis_at(&k->y, 100 * high));
}

static void put_mark(const look *style, double x, double y, bool filled, stk__text *out)
{
    char attributes[96];
    stk__text t;
    stk__text_fixed(&t, attributes, sizeof attributes);
    stk__text_printf(&t, "fill=\"%s\" stroke=\"%s\" stroke-width=\"1.5\"", filled ? style->colour : "#ffffff",
                     style->colour);
    stk__svg_mark_put(out, style->mark, x, y, style->radius, attributes);
}

/* The line, then its marks over it; a small step aside keeps the two designs' whiskers apart. */
static void put_line(const luck_chart *k, const panel *p, size_t line, bool wrong, stk__text *out)
{
    const look *style = &looks[line];
    const double aside = !style->whiskers ? 0 : line == STK__LUCK_VERDICT ? -2 : 2;
    size_t apart;
    bool joined = false;
    stk__text_printf(out, "<path fill=\"none\" stroke=\"%s\" %s%s d=\"", style->colour, style->stroke,
                     wrong ? " stroke-dasharray=\"3 4\"" : "");
    for (size_t i = 0; i < p->e->row_count; i++) {
        const double share = value_of(p, i, line, wrong, &apart);
        if (isfinite(share))
            stk__text_printf(out, "%c%.1f %.1f", joined ? 'L' : 'M', x_of(p, i) + aside,
                             stk__axis_at(&k->y, 100 * share));
        joined = isfinite(share);
    }
    stk__text_puts(out, "\"/>\n");
    for (size_t i = 0; i < p->e->row_count; i++) {
        const double share = value_of(p, i, line, wrong, &apart), x = x_of(p, i) + aside;
        if (!isfinite(share))
            continue;
        if (style->whiskers && !wrong)
            put_whisker(k, x, share, apart, style->colour, out);
        put_mark(style, x, stk__axis_at(&k->y, 100 * share), !wrong, out);
    }
}

static void put_sizes(const luck_chart *k, const panel *p, stk__text *out)
{
    const double bottom = k->top + plot_height;
    stk__svg_line(out, p->from, bottom, p->to, bottom, "stroke=\"" STK__SVG_SOFT "\"");
    for (size_t i = 0; i < p->e->row_count; i++) {
        char label[32];
        stk__text t;
        stk__text_fixed(&t, label, sizeof label);
        stk__text_printf(&t, "%zu", p->e->rows[i].n);
        stk__svg_text(out, x_of(p, i), bottom + 16, "text-anchor=\"middle\" font-size=\"11\"", label, 0);
    }
    stk__svg_text(out, (p->from + p->to) / 2, bottom + 32, "text-anchor=\"middle\" font-size=\"11\"", "runs of each",
                  0);
}

static void put_titles(luck_chart *k, const panel *p, stk__text *out)
{
    const bool known = isfinite(p->e->more);
    if (p->e->more == 0) {
        stk__text_puts(&k->cell, "One program against itself");
    } else {
        stk__text_printf(&k->cell, known ? p->e->scaled ? "B takes %.4g %% longer" : "B has %.4g %% more work" : "B",
                         100 * p->e->more);
        if (!known && isfinite(p->e->truth)) {
            stk__text_puts(&k->cell, " takes ");
            stk__ratio(&k->cell, p->e->truth);
            stk__text_puts(&k->cell, " times as long");
        }
    }
    stk__svg_text(out, p->from, k->top - 38, "font-size=\"13\" font-weight=\"bold\"",
                  k->cell.failed || !k->cell.data ? "" : k->cell.data, 0);
    stk__text_reset(&k->cell);
    stk__svg_text(out, p->from, k->top - 21, "fill=\"" STK__SVG_SOFT "\"",
                  p->e->more == 0 ? "how often a change is called that is none" : "how often that is found", 0);
}

static void put_panel(luck_chart *k, size_t index, stk__text *out)
{
    const double gap = 44, first = 58,
                 each = (width - left - first - gap * (double)(k->panels - 1)) / (double)k->panels;
    panel p = {.e = &k->s->l->effects[index], .from = first + (each + gap) * (double)index};
    p.to = p.from + each;
    put_titles(k, &p, out);
    stk__axis_put_y(&k->y, p.from, p.to, out);
    stk__svg_text(out, p.from - 6, k->top - 10, "text-anchor=\"end\" font-size=\"11\"", "%", 0);
    put_sizes(k, &p, out);
    const double promised = stk__axis_at(&k->y, 5);
    if (p.e->more == 0) {
        stk__svg_line(out, p.from, promised, p.to, promised, "stroke=\"" STK__SVG_INK "\" stroke-dasharray=\"6 4\"");
        stk__svg_text(out, p.to - 2, promised - 5, "text-anchor=\"end\" font-size=\"11\"",
                      "5 %: what the tests promise", 0);
        put_line(k, &p, STK__LUCK_MEANS, false, out);
        put_line(k, &p, STK__LUCK_WELCH, false, out);
    } else {
        put_line(k, &p, STK__LUCK_MANN_WHITNEY, true, out);
        put_line(k, &p, STK__LUCK_VERDICT, true, out);
    }
    put_line(k, &p, BY_HYPERFINE, false, out);
    put_line(k, &p, STK__LUCK_MANN_WHITNEY, false, out);
    put_line(k, &p, STK__LUCK_VERDICT, false, out);
}

/* ---- around them ---- */

static void put_sample(size_t line, bool wrong, double x, double y, const char *words, stk__text *out)
{
    stk__text_printf(out, "<path fill=\"none\" stroke=\"%s\" %s%s d=\"M%.1f %.1fh26\"/>\n", looks[line].colour,
                     looks[line].stroke, wrong ? " stroke-dasharray=\"3 4\"" : "", x, y - 4);
    put_mark(&looks[line], x + 13, y - 4, !wrong, out);
    stk__svg_text(out, x + 33, y, "", words, 0);
}

static void put_legend(const luck_chart *k, stk__text *out)
{
    if (k->s->hyperfine)
        put_sample(BY_HYPERFINE, false, left, 112, "hyperfine itself, Mann-Whitney on its files", out);
    put_sample(STK__LUCK_VERDICT, false, left, 72, "in turns, verdict of stoker bench", out);
    put_sample(STK__LUCK_MANN_WHITNEY, false, left, 92, "in hyperfine's order, Mann-Whitney", out);
    put_sample(STK__LUCK_WELCH, false, 300, 72, "in hyperfine's order, Welch's t", out);
    put_sample(STK__LUCK_MEANS, false, 300, 92, "in hyperfine's order, means more than 5 % apart", out);
    put_sample(STK__LUCK_VERDICT, true, 640, 72, "called the other way round: faster", out);
    put_sample(STK__LUCK_MANN_WHITNEY, true, 640, 92, "the same, in hyperfine's order", out);
}

static void put_machine(luck_chart *k, stk__text *out)
{
    const stk__luck_story *s = k->s;
    const stk__metric *metric = &s->r->metrics[s->r->primary];
    if (s->r->machine)
        stk__text_printf(&k->cell, "%s; ", s->r->machine);
    stk__text_printf(&k->cell, "A: %s ", metric->name);
    stk__quantity(&k->cell, s->c->median_s, metric->unit);
    stk__text_printf(&k->cell, ", coefficient of variation %.0f %%, autocorrelation %.2f", 100 * s->c->cv,
                     s->c->autocorrelation);
    stk__svg_text(out, left, 48, "fill=\"" STK__SVG_SOFT "\"", k->cell.failed ? "" : k->cell.data, 140);
    stk__text_reset(&k->cell);
}

static void put_foot(luck_chart *k, stk__text *out)
{
    const char *style = "font-size=\"11\" fill=\"" STK__SVG_SOFT "\"";
    stk__text_puts(&k->cell, "Share of the windows of so many runs. Whisker: where the share may lie with 95 %. "
                             "Hyperfine's order: all runs of A, then all runs of B.");
    if (k->s->l->effect_count > k->panels)
        stk__text_printf(&k->cell, " %zu more are not drawn.", k->s->l->effect_count - k->panels);
    stk__svg_text(out, left, k->top + plot_height + 62, style, k->cell.failed ? "" : k->cell.data, 0);
    stk__text_reset(&k->cell);
}

stk_status stk__chart_luck(const stk__luck_story *s, const char *title, stk__text *out, stk_error *err)
{
    luck_chart k = {.s = s, .panels = STK_MIN(s->l->effect_count, (size_t)PANELS_MOST)};
    k.top = s->hyperfine ? 178 : 158;
    stk__axis_fit(&k.y, 0, 100, false, k.top + plot_height, k.top, 5);
    stk__svg_open(
        out, width, k.top + plot_height + 74, title,
        "How often a change is called that is none, and how often a real one is found, by the number of runs: "
        "in turns and in hyperfine's order.");
    stk__svg_text(out, left, 28, "font-size=\"16\" font-weight=\"bold\"", title, 100);
    put_machine(&k, out);
    put_legend(&k, out);
    for (size_t i = 0; i < k.panels; i++)
        put_panel(&k, i, out);
    put_foot(&k, out);
    stk__svg_close(out);
    const bool failed = out->failed || k.cell.failed;
    stk__text_clear(&k.cell);
    return failed ? stk__nomem(out->length, err) : STK_OK;
}
