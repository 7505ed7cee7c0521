/* Variants and comparisons as lines for the terminal. */
#include "bench/report.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/count.h"
#include "bench/quantity.h"
#include "bench/report_parts.h"
#include "bench/table.h"
#include "bench/words.h"

#include "base/banned.h"

/* Up to here each comparison tells its test; more of them share a line that does. */
enum { FULL_LINES = 3, NAME_COLUMNS = 40 };

static size_t failed_exits(const stk__variant *v)
{
    size_t n = 0;
    for (size_t i = 0; v->exit_codes && i < v->runs; i++)
        n += v->exit_codes[i] != 0;
    return n;
}

static void put_tail(const stk__variant *v, const stk__summary *s, stk__text *cell)
{
    if (s->outliers)
        stk__text_printf(cell, ", %zu outlier%s", s->outliers, s->outliers == 1 ? "" : "s");
    const size_t exits = failed_exits(v);
    if (exits)
        stk__text_printf(cell, ", exit code not 0 in %zu run%s", exits, exits == 1 ? "" : "s");
}

/* "15.9 s +- 0.4", "(n=12)", "median 15.8,", "min 15.2,", "max 16.9, 1 outlier" */
static void add_figures(stk__table *t, const stk__variant *v, const stk__sample *sample, double fits, const char *unit,
                        stk__text *cell)
{
    const stk__summary *s = &sample->summary;
    if (s->n == 0) {
        stk__table_cell(t, "no runs");
        for (int i = 0; i < 4; i++)
            stk__table_cell(t, "");
        return;
    }
    const stk__quantity_style style = {s->mean, s->sd, isnan(fits) ? s->mean : fits, unit};
    stk__quantity_style_put(cell, &style);
    stk__table_take(t, cell);
    stk__text_printf(cell, "(n=%zu)", s->n);
    stk__table_take(t, cell);
    const struct {
        const char *name;
        double value;
        const char *end;
    } parts[] = {{"median ", s->median, ","}, {"min ", s->min, ","}, {"max ", s->max, ""}};
    for (size_t i = 0; i < STK_COUNT(parts); i++) {
        stk__text_puts(cell, parts[i].name);
        stk__quantity_like(cell, parts[i].value, &style);
        stk__text_puts(cell, parts[i].end);
        if (i + 1 == STK_COUNT(parts))
            put_tail(v, s, cell);
        stk__table_take(t, cell);
    }
}

static void fill_variants(const stk__result *r, const stk__sample *samples, size_t metric, stk__table *t)
{
    static const stk__column columns[] = {
        {.gap = 2}, {.gap = 2, .most = NAME_COLUMNS}, {.gap = 2}, {.gap = 2}, {.gap = 1}, {.gap = 1}, {0}};
    stk__table_init(t, columns, STK_COUNT(columns));
    stk__text cell = STK__TEXT_INIT;
    const double fits = stk__words_common(samples, r->variant_count);
    for (size_t i = 0; i < r->variant_count; i++) {
        char letters[8];
        stk__variant_letters(i, letters);
        stk__table_cell(t, letters);
        stk__table_cell(t, r->variants[i].name);
        add_figures(t, &r->variants[i], &samples[i], fits, r->metrics[metric].unit, &cell);
    }
    stk__text_clear(&cell);
}

static void put_test(const stk__comparisons *c, const stk__comparison *x, stk__text *out)
{
    if (x->exact) {
        stk__text_puts(out, "exact: its runs agree");
        return;
    }
    const bool tail = x->verdict == STK__TAIL_FASTER || x->verdict == STK__TAIL_SLOWER;
    if (!x->paired)
        stk__text_puts(out, "unpaired: order not controlled; Mann-Whitney ");
    else
        stk__text_puts(out, tail ? "means " : "Wilcoxon ");
    stk__words_p(tail && x->paired ? x->means.p : x->p_holm, out);
    const size_t among = stk__words_valid(c);
    if (among > 1)
        stk__text_printf(out, ", Holm over %zu", among);
    if (!x->paired) {
        stk__text_puts(out, ", Welch ");
        stk__words_p(x->free.p_welch, out);
    }
}

/* "B is faster (Wilcoxon p=0.003, minimum effect 2 %)", "inconclusive (Wilcoxon p=0.21): about 30 more rounds ..." */
static void put_verdict(const stk__result *r, const stk__comparisons *c, size_t index, bool with_test, stk__text *out)
{
    const stk__comparison *x = &c->items[index];
    const bool changed = stk__verdict_better(x->verdict) || stk__verdict_worse(x->verdict);
    stk__words_verdict(r, c, index, out);
    if (x->valid && with_test) {
        stk__text_puts(out, " (");
        put_test(c, x, out);
        if (changed) {
            stk__text_puts(out, ", minimum effect ");
            stk__words_percent(c->rule.min_effect, out);
        }
        stk__text_putc(out, ')');
    }
    stk__text reason = STK__TEXT_INIT;
    stk__words_reason(r, c, index, &reason);
    if (reason.failed)
        out->failed = true;
    else if (reason.length)
        stk__text_printf(out, ": %s", reason.data);
    stk__text_clear(&reason);
}

static void add_comparison(const stk__result *r, const stk__comparisons *c, size_t index, bool full, stk__table *t,
                           stk__text *cell)
{
    const stk__comparison *x = &c->items[index];
    stk__words_pair(x, cell);
    stk__table_take(t, cell);
    stk__ratio(cell, x->ratio);
    stk__table_take(t, cell);
    const bool covered = x->paired ? x->pair.covered : x->free.covered;
    if (full && x->exact) {
        stk__text_puts(cell, "all runs ");
    } else if (full && x->valid && !covered) {
        stk__text_puts(cell, "least to greatest "); /* too few rounds for an interval */
    } else if (full) {
        stk__words_percent(c->rule.confidence, cell);
        stk__text_puts(cell, " CI ");
    }
    if (x->valid)
        stk__words_interval(x->low, x->high, cell);
    else
        stk__text_putc(cell, '-');
    stk__table_take(t, cell);
    if (full)
        stk__text_puts(cell, "verdict: ");
    else if (x->exact)
        stk__table_cell(t, "exact");
    else
        stk__words_p(x->p_holm, cell), stk__table_take(t, cell);
    put_verdict(r, c, index, full, cell);
    stk__table_take(t, cell);
}

/* Few: whole sentences. Many: a table with a head, and what they share is told once. */
static void fill_comparisons(const stk__result *r, const stk__comparisons *c, bool full, stk__table *t)
{
    static const stk__column lines[] = {{.gap = 1}, {.right = true, .gap = 2}, {.gap = 3}, {0}};
    static const stk__column table[] = {{.gap = 2}, {.right = true, .gap = 2}, {.gap = 2}, {.gap = 2}, {0}};
    stk__table_init(t, full ? lines : table, full ? STK_COUNT(lines) : STK_COUNT(table));
    stk__text cell = STK__TEXT_INIT;
    if (!full) {
        stk__table_cell(t, "");
        stk__table_cell(t, "ratio");
        stk__words_percent(c->rule.confidence, &cell);
        stk__text_puts(&cell, " CI");
        stk__table_take(t, &cell);
        stk__table_cell(t, "p");
        stk__table_cell(t, "verdict");
    }
    for (size_t i = 0; i < c->count; i++)
        add_comparison(r, c, i, full, t, &cell);
    stk__text_clear(&cell);
}

static void put_shared(const stk__comparisons *c, stk__text *out)
{
    stk__text_puts(out, c->items[0].paired ? "  p: Wilcoxon" : "  unpaired: order not controlled; p: Mann-Whitney");
    stk__text_printf(out, " (Holm over %zu); minimum effect ", stk__words_valid(c));
    stk__words_percent(c->rule.min_effect, out);
    stk__text_printf(out, "; the intervals hold for all %zu together\n", c->family ? c->family : c->count);
}

/* "B is 1.32 times as fast as A (1.22 to 1.38)": what changed, in the words of a suite. */
static void put_gain(const stk__result *r, const stk__comparison *x, stk__text *out)
{
    double gain, low, high;
    char a[8], b[8];
    if (!x->valid || (x->verdict != STK__FASTER && x->verdict != STK__SLOWER))
        return;
    if (stk__is_count(&r->metrics[x->metric])) /* fewer is not "as fast", nor as good */
        return;
    stk__words_gain(r, x, &gain, &low, &high);
    stk__variant_letters(x->a, a);
    stk__variant_letters(x->b, b);
    stk__text_printf(out, "  %s is ", b);
    stk__words_times_as(&r->metrics[x->metric], gain, out);
    stk__text_printf(out, " %s (", a);
    stk__ratio(out, low);
    stk__text_puts(out, " to ");
    stk__ratio(out, high);
    stk__text_puts(out, ")\n");
}

/* The variants of a group; then, where each has its own sentence, the comparisons within it. */
static void put_group(const stk__result *r, const stk__comparisons *c, const stk__table *variants,
                      const stk__table *sentences, size_t group, stk__text *out)
{
    for (size_t i = 0; i < r->variant_count; i++) {
        if (r->variants[i].group == group)
            stk__table_put_row(variants, i, 2, out);
    }
    for (size_t i = 0; sentences && i < c->count; i++) {
        if (r->variants[c->items[i].b].group != group)
            continue;
        stk__table_put_row(sentences, i, 2, out);
        put_gain(r, &c->items[i], out);
    }
}

static bool group_is_first(const stk__result *r, size_t variant)
{
    for (size_t i = 0; i < variant; i++) {
        if (r->variants[i].group == r->variants[variant].group)
            return false;
    }
    return true;
}

static void put_variants(const stk__result *r, const stk__comparisons *c, stk__text *out)
{
    const size_t metric = stk__words_metric(r, c);
    stk__sample *samples;
    if (stk__samples_take(r, metric, c ? c->rule.confidence : 0.95, &samples, NULL) != STK_OK) {
        out->failed = true;
        return;
    }
    stk__table variants, comparisons;
    const bool compared = c && c->count, full = compared && c->count <= FULL_LINES;
    fill_variants(r, samples, metric, &variants);
    if (compared)
        fill_comparisons(r, c, full, &comparisons);
    const bool lost = variants.failed || (compared && comparisons.failed);
    for (size_t i = 0; i < r->variant_count && !lost; i++) {
        if (!group_is_first(r, i))
            continue;
        if (i && r->variant_count > 1)
            stk__text_putc(out, '\n');
        put_group(r, c, &variants, full ? &comparisons : NULL, r->variants[i].group, out);
    }
    if (compared && !full) {
        stk__text_putc(out, '\n');
        stk__table_put(&comparisons, 2, out);
        put_shared(c, out);
    }
    if (lost)
        out->failed = true;
    if (compared)
        stk__table_clear(&comparisons);
    stk__table_clear(&variants);
    stk__samples_free(samples, r->variant_count);
}

void stk__report_line(const stk__result *r, const stk__comparisons *c, size_t index, stk__text *out)
{
    stk__table t;
    static const stk__column columns[] = {{.gap = 1}, {.gap = 2}, {.gap = 3}, {0}};
    stk__table_init(&t, columns, STK_COUNT(columns));
    stk__text cell = STK__TEXT_INIT;
    add_comparison(r, c, index, true, &t, &cell);
    stk__table_put(&t, 0, out);
    if (out->length && out->data[out->length - 1] == '\n')
        out->data[--out->length] = 0;
    stk__text_clear(&cell);
    stk__table_clear(&t);
}

/* Apart from times: they are another kind of figure. */
static void put_counts(const stk__result *r, const stk__comparisons *c, stk__text *out)
{
    stk__text counts = STK__TEXT_INIT;
    stk__count_lines(r, c, "  ", &counts);
    if (counts.length)
        stk__text_printf(out, "\n%s", counts.data);
    out->failed = out->failed || counts.failed;
    stk__text_clear(&counts);
}

void stk__report_text(const stk__result *r, const stk__comparisons *c, const stk__comparisons *others,
                      size_t others_count, stk__text *out)
{
    put_variants(r, c, out);
    put_counts(r, c, out);
    stk__report_others(r, c, others, others_count, out);
    stk__report_interference(r, out);
    stk__report_circumstances(r, out);
}
