/* Charts for the terminal: strips on a common scale, bars of a ladder. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/chart.h"
#include "bench/quantity.h"
#include "bench/svg.h"
#include "bench/table.h"
#include "bench/words.h"

#include "base/banned.h"

enum { WIDTH_LEAST = 40, STRIP_LEAST = 6, STRIP_MOST = 200, NAME_LEAST = 8, NAME_MOST = 40 };

/* The characters of a strip; each is one column. */
typedef struct strip_set {
    const char *edge_low, *edge_high, *line, *box_low, *box_high, *box, *middle, *one, *bar, *bar_half;
} strip_set;

static const strip_set ascii_set = {"|", "|", "-", "[", "]", "=", "#", ":", "#", ""};
static const strip_set unicode_set = {"├", "┤", "─", "▒", "▒", "▒", "█", "┊", "█", "▌"};

static size_t column_at(const stk__axis *axis, double value)
{
    return (size_t)floor(stk__axis_at(axis, value) + 0.5);
}

/* Fills cells from .. to, both within. */
static void draw(const char **cells, size_t from, size_t to, const char *with)
{
    for (size_t i = from; i <= to; i++)
        cells[i] = with;
}

static void put_cells(const char **cells, size_t count, stk__text *out)
{
    while (count && strcmp(cells[count - 1], " ") == 0)
        count--;
    for (size_t i = 0; i < count; i++)
        stk__text_puts(out, cells[i]);
    stk__text_putc(out, '\n');
}

/* Letter and name, padded to a common width. */
static void put_label(const char *letters, size_t letter_columns, const char *name, size_t name_columns, stk__text *out)
{
    stk__text_printf(out, "  %-*s  ", (int)letter_columns, letters);
    stk__text safe = STK__TEXT_INIT;
    stk__put_safe(&safe, name, name_columns);
    if (safe.failed) {
        out->failed = true;
    } else {
        stk__text_puts(out, safe.data);
        const size_t used = stk__columns(safe.data);
        stk__put_spaces(out, (name_columns > used ? name_columns - used : 0) + 2);
    }
    stk__text_clear(&safe);
}

typedef struct text_layout {
    size_t letters, name, strip; /* columns */
} text_layout;

/* The strip gets what letters, names and `behind` columns leave; `label`: least columns before it. */
static text_layout layout_of(const stk__result *r, size_t width, size_t behind, size_t label)
{
    text_layout l = {.name = 4, .letters = 1};
    for (size_t i = 0; i < r->variant_count; i++) {
        char letters[8];
        stk__variant_letters(i, letters);
        l.letters = STK_MAX(l.letters, strlen(letters));
        stk__text safe = STK__TEXT_INIT;
        stk__put_safe(&safe, r->variants[i].name, NAME_MOST);
        l.name = STK_MAX(l.name, safe.data ? stk__columns(safe.data) : 0);
        stk__text_clear(&safe);
    }
    width = STK_MAX(width, (size_t)WIDTH_LEAST);
    const size_t others = 6 + l.letters + behind + STRIP_LEAST;
    l.name = STK_MIN(l.name, STK_MAX(width / 4, (size_t)NAME_LEAST));
    l.name = STK_MIN(l.name, STK_MAX(width > others ? width - others : 0, (size_t)NAME_LEAST));
    if (l.letters + 2 + l.name < label)
        l.name = label - l.letters - 2;
    const size_t used = 2 + l.letters + 2 + l.name + 2 + behind;
    l.strip = width > used + STRIP_LEAST ? width - used : STRIP_LEAST;
    l.strip = STK_MIN(l.strip, (size_t)STRIP_MOST);
    return l;
}

/* |---[==#==]-----|: least, quartiles with the median between them, greatest. */
static void put_strip(const stk__summary *s, const stk__axis *axis, const strip_set *set, size_t columns,
                      stk__text *out)
{
    const char *cells[STRIP_MOST];
    draw(cells, 0, columns - 1, " ");
    const size_t min = column_at(axis, s->min), max = column_at(axis, s->max), q1 = column_at(axis, s->q1),
                 q3 = column_at(axis, s->q3);
    draw(cells, min, max, set->line);
    cells[min] = set->edge_low;
    cells[max] = set->edge_high;
    draw(cells, q1, q3, set->box);
    cells[q1] = set->box_low;
    cells[q3] = set->box_high;
    cells[column_at(axis, s->median)] = set->middle;
    put_cells(cells, columns, out);
}

/* The ends of the axis under the strips: "15.1 s            17.7 s"; ratios without a unit. */
static void put_ends(double low, double high, const char *unit, size_t indent, size_t columns, bool is_log,
                     stk__text *out)
{
    stk__text a = STK__TEXT_INIT, b = STK__TEXT_INIT;
    if (unit)
        stk__quantity(&a, low, unit), stk__quantity(&b, high, unit);
    else
        stk__ratio(&a, low), stk__ratio(&b, high);
    if (is_log)
        stk__text_puts(&a, " (logarithmic)");
    stk__put_spaces(out, indent);
    stk__put_safe(out, a.data ? a.data : "", 0);
    const size_t used = (a.data ? stk__columns(a.data) : 0) + (b.data ? stk__columns(b.data) : 0);
    stk__put_spaces(out, columns > used ? columns - used : 1);
    stk__put_safe(out, b.data ? b.data : "", 0);
    stk__text_putc(out, '\n');
    out->failed |= a.failed || b.failed;
    stk__text_clear(&a);
    stk__text_clear(&b);
}

/* An axis over columns, without rounding: the ends are what was measured. */
static stk__axis plain_axis(double low, double high, bool is_log, size_t columns)
{
    if (!(high > low)) {
        low = is_log ? low / 1.05 : low - 1;
        high = is_log ? high * 1.05 : high + 1;
    }
    return (stk__axis){.low = low, .high = high, .log = is_log, .from = 0, .to = (double)columns - 1};
}

static void put_strips(const stk__result *r, const stk__sample *samples, size_t metric, const text_layout *l,
                       const strip_set *set, stk__text *out)
{
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < r->variant_count; i++) {
        if (samples[i].summary.n) {
            low = fmin(low, samples[i].summary.min);
            high = fmax(high, samples[i].summary.max);
        }
    }
    const bool any = low <= high;
    const bool is_log = any && low > 0 && high / low > 20;
    const stk__axis axis = plain_axis(any ? low : 0, any ? high : 1, is_log, l->strip);
    for (size_t i = 0; i < r->variant_count; i++) {
        char letters[8];
        stk__variant_letters(i, letters);
        put_label(letters, l->letters, r->variants[i].name, l->name, out);
        if (samples[i].summary.n)
            put_strip(&samples[i].summary, &axis, set, l->strip, out);
        else
            stk__text_puts(out, "no runs\n");
    }
    if (any)
        put_ends(low, high, r->metrics[metric].unit, 6 + l->letters + l->name, l->strip, is_log, out);
}

/* |--#--| on a log scale, with a mark at 1. */
static void put_ratio(const stk__comparison *x, const stk__axis *axis, const strip_set *set, size_t columns,
                      stk__text *out)
{
    const char *cells[STRIP_MOST];
    draw(cells, 0, columns - 1, " ");
    cells[column_at(axis, 1)] = set->one;
    const size_t low = column_at(axis, x->low), high = column_at(axis, x->high);
    draw(cells, low, high, set->line);
    cells[low] = set->edge_low;
    cells[high] = set->edge_high;
    if (column_at(axis, 1) > low && column_at(axis, 1) < high)
        cells[column_at(axis, 1)] = set->one;
    cells[column_at(axis, x->ratio)] = set->middle;
    put_cells(cells, columns, out);
}

static void put_ratio_label(const stk__comparison *x, stk__text *out)
{
    stk__words_pair(x, out);
    if (x->valid) {
        stk__text_putc(out, ' ');
        stk__ratio(out, x->ratio);
    }
}

static size_t ratio_label_columns(const stk__comparisons *c)
{
    size_t most = 0;
    for (size_t i = 0; c && i < c->count; i++) {
        char buffer[64];
        stk__text label;
        stk__text_fixed(&label, buffer, sizeof buffer);
        put_ratio_label(&c->items[i], &label);
        most = STK_MAX(most, label.length);
    }
    return most;
}

static void put_ratios(const stk__comparisons *c, const text_layout *l, const strip_set *set, stk__text *out)
{
    double low = 1 / (1 + c->rule.margin), high = 1 + c->rule.margin;
    for (size_t i = 0; i < c->count; i++) {
        if (c->items[i].valid && c->items[i].low > 0 && isfinite(c->items[i].high)) {
            low = fmin(low, c->items[i].low);
            high = fmax(high, c->items[i].high);
        }
    }
    const stk__axis axis = plain_axis(low, high, true, l->strip);
    for (size_t i = 0; i < c->count; i++) {
        const size_t start = out->length + 2, wanted = 2 + l->letters + l->name;
        stk__text_puts(out, "  ");
        put_ratio_label(&c->items[i], out);
        const size_t label = out->length > start ? out->length - start : 0;
        stk__put_spaces(out, (wanted > label ? wanted - label : 0) + 2);
        if (c->items[i].valid)
            put_ratio(&c->items[i], &axis, set, l->strip, out);
        else
            stk__text_puts(out, "no figures\n");
    }
    put_ends(low, high, NULL, 6 + l->letters + l->name, l->strip, true, out);
}

void stk__text_comparison(const stk__result *r, const stk__comparisons *c, size_t width, bool unicode, stk__text *out)
{
    const size_t metric = stk__words_metric(r, c);
    stk__sample *samples;
    if (stk__samples_take(r, metric, 0.95, &samples, NULL) != STK_OK) {
        out->failed = true;
        return;
    }
    const text_layout l = layout_of(r, width, 0, ratio_label_columns(c));
    const strip_set *set = unicode ? &unicode_set : &ascii_set;
    put_strips(r, samples, metric, &l, set, out);
    if (c && c->count)
        put_ratios(c, &l, set, out);
    stk__samples_free(samples, r->variant_count);
}

static void put_bar(double share, size_t columns, const strip_set *set, stk__text *out)
{
    const bool halves = set->bar_half[0];
    const size_t units = (size_t)floor(share * (double)columns * (halves ? 2 : 1) + 0.5);
    size_t used = STK_MIN(halves ? units / 2 : units, columns);
    for (size_t i = 0; i < used; i++)
        stk__text_puts(out, set->bar);
    if (halves && units % 2 && used < columns)
        stk__text_puts(out, set->bar_half), used++;
    /* Something is there, however short. */
    if (used == 0)
        stk__text_puts(out, halves ? set->bar_half : "|"), used++;
    stk__put_spaces(out, columns - used + 2);
}

static void put_gain(const stk__result *r, const stk__comparisons *c, size_t index, stk__text *cell)
{
    if (index >= c->count || !c->items[index].valid) {
        stk__text_putc(cell, '-');
        return;
    }
    double gain, low, high;
    stk__words_gain(r, &c->items[index], &gain, &low, &high);
    stk__words_times(gain, cell);
}

static void fill_ladder(const stk__result *r, const stk__comparisons *steps, const stk__comparisons *whole,
                        const stk__sample *samples, size_t metric, stk__table *t)
{
    static const stk__column columns[] = {{.right = true, .gap = 2}, {.right = true, .gap = 2}, {0}, {0}};
    stk__table_init(t, columns, STK_COUNT(columns));
    stk__text cell = STK__TEXT_INIT;
    const double fits = stk__words_common(samples, r->variant_count);
    for (size_t i = 0; i < r->variant_count; i++) {
        const stk__summary *s = &samples[i].summary;
        const double mean = isnan(fits) ? s->median : fits;
        stk__quantity_style_put(&cell, &(stk__quantity_style){s->median, NAN, mean, r->metrics[metric].unit});
        stk__table_take(t, &cell);
        if (i)
            put_gain(r, steps, i - 1, &cell);
        stk__table_take(t, &cell);
        if (i) {
            put_gain(r, whole, i - 1, &cell);
            stk__text_puts(&cell, " in all");
        }
        if (i && i <= steps->count && steps->items[i - 1].verdict == STK__INCONCLUSIVE)
            stk__text_puts(&cell, " (?)");
        stk__table_take(t, &cell);
        stk__table_cell(t, ""); /* the last column is not measured, the others are */
    }
    stk__text_clear(&cell);
}

void stk__text_ladder(const stk__result *r, const stk__comparisons *steps, const stk__comparisons *whole, size_t width,
                      bool unicode, stk__text *out)
{
    const size_t metric = stk__words_metric(r, steps);
    stk__sample *samples;
    if (stk__samples_take(r, metric, 0.95, &samples, NULL) != STK_OK) {
        out->failed = true;
        return;
    }
    double high = 0;
    for (size_t i = 0; i < r->variant_count; i++)
        high = samples[i].summary.n ? fmax(high, samples[i].summary.median) : high;
    stk__table t;
    fill_ladder(r, steps, whole, samples, metric, &t);
    /* Behind the bars: median, gain of the step, gain in all with its words. */
    const text_layout l = layout_of(r, width, 2 + t.widths[0] + 2 + t.widths[1] + 2 + t.widths[2], 0);
    for (size_t i = 0; i < r->variant_count && !t.failed; i++) {
        char letters[8];
        stk__variant_letters(i, letters);
        put_label(letters, l.letters, r->variants[i].name, l.name, out);
        const double share = high > 0 && samples[i].summary.n ? fmax(samples[i].summary.median, 0) / high : 0;
        put_bar(share, l.strip, unicode ? &unicode_set : &ascii_set, out);
        stk__table_put_row(&t, i, 0, out);
    }
    out->failed |= t.failed;
    stk__table_clear(&t);
    stk__samples_free(samples, r->variant_count);
}
