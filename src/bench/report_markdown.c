/* A result as two Markdown tables: variants, comparisons. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/count.h"
#include "bench/quantity.h"
#include "bench/report.h"
#include "bench/section.h"
#include "bench/words.h"

#include "base/banned.h"

/* One more cell from what was built in `cell`, which is emptied. */
static void put_cell(stk__text *out, stk__text *cell)
{
    stk__text_puts(out, " | ");
    if (cell->failed)
        out->failed = true;
    stk__markdown_cell(out, cell->data ? cell->data : "");
    stk__text_reset(cell);
}

static void put_variant(const stk__result *r, size_t i, const stk__summary *s, const stk__quantity_style *style,
                        stk__text *cell, stk__text *out)
{
    char letters[8];
    stk__variant_letters(i, letters);
    stk__text_printf(out, "| %s", letters);
    stk__text_puts(cell, r->variants[i].name);
    put_cell(out, cell);
    stk__quantity_style_put(cell, style);
    put_cell(out, cell);
    stk__text_printf(cell, "%zu", s->n);
    put_cell(out, cell);
    const double values[] = {s->median, s->min, s->max};
    for (size_t k = 0; k < STK_COUNT(values); k++) {
        stk__quantity_like(cell, values[k], style);
        put_cell(out, cell);
    }
    stk__text_printf(cell, "%zu", s->outliers);
    put_cell(out, cell);
    stk__text_puts(out, " |\n");
}

static void put_comparison(const stk__result *r, const stk__comparisons *c, size_t i, stk__text *cell, stk__text *out)
{
    const stk__comparison *x = &c->items[i];
    stk__text_putc(out, '|');
    stk__text_putc(out, ' ');
    stk__words_pair(x, out);
    stk__ratio(cell, x->ratio);
    put_cell(out, cell);
    if (x->valid)
        stk__words_interval(x->low, x->high, cell);
    put_cell(out, cell);
    if (x->exact)
        stk__text_puts(cell, "exact");
    else if (x->valid)
        stk__words_p(x->p_holm, cell);
    put_cell(out, cell);
    stk__words_verdict(r, c, i, cell);
    stk__text reason = STK__TEXT_INIT;
    stk__words_reason(r, c, i, &reason);
    if (reason.length)
        stk__text_printf(cell, ": %s", reason.data);
    if (reason.failed)
        cell->failed = true;
    stk__text_clear(&reason);
    put_cell(out, cell);
    stk__text_puts(out, " |\n");
}

static void put_comparisons(const stk__result *r, const stk__comparisons *c, stk__text *cell, stk__text *out)
{
    stk__text_puts(out, "\n| | ratio | ");
    stk__words_percent(c->rule.confidence, out);
    stk__text_puts(out, " CI | p | verdict |\n|---|--:|---|---|---|\n");
    for (size_t i = 0; i < c->count; i++)
        put_comparison(r, c, i, cell, out);
    const size_t among = stk__words_valid(c);
    stk__text_puts(out, c->items[0].paired ? "\np: Wilcoxon" : "\nunpaired: order not controlled; p: Mann-Whitney");
    if (among > 1)
        stk__text_printf(out, " (Holm over %zu)", among);
    stk__text_puts(out, "; minimum effect ");
    stk__words_percent(c->rule.min_effect, out);
    stk__text_puts(out, ".\n");
}

/* Each line as one of a list. */
static void put_counts(const stk__result *r, const stk__comparisons *c, stk__text *cell, stk__text *out)
{
    stk__count_lines(r, c, "", cell);
    out->failed |= cell->failed;
    for (const char *p = cell->data, *end; cell->length && (end = strchr(p, '\n')); p = end + 1) {
        char *one = stk__strndup(p, (size_t)(end - p));
        out->failed |= !one;
        stk__text_puts(out, p == cell->data ? "\n- " : "- ");
        stk__markdown_cell(out, one ? one : "");
        stk__text_putc(out, '\n');
        stk__free(one);
    }
    stk__text_reset(cell);
}

/* What another run would need to be the same. */
static void put_circumstances(const stk__result *r, stk__text *cell, stk__text *out)
{
    if (r->paired && r->variant_count > 1)
        stk__text_printf(cell, "order: random blocks, seed %llu", (unsigned long long)r->seed);
    const struct {
        const char *name, *text;
    } facts[] = {{"limits", r->limits}, {"machine", r->machine}};
    for (size_t i = 0; i < STK_COUNT(facts); i++) {
        if (facts[i].text && facts[i].text[0])
            stk__text_printf(cell, "%s%s: %s", cell->length ? "; " : "", facts[i].name, facts[i].text);
    }
    out->failed |= cell->failed;
    if (!cell->length)
        return;
    stk__text_putc(out, '\n');
    stk__markdown_cell(out, cell->data);
    stk__text_puts(out, ".\n");
}

void stk__report_markdown(const stk__result *r, const stk__comparisons *c, stk__text *out)
{
    const size_t metric = stk__words_metric(r, c);
    stk__sample *samples;
    if (stk__samples_take(r, metric, c ? c->rule.confidence : 0.95, &samples, NULL) != STK_OK) {
        out->failed = true;
        return;
    }
    stk__text cell = STK__TEXT_INIT;
    stk__text_puts(out, "| | variant | ");
    stk__markdown_cell(out, r->metrics[metric].name);
    stk__text_puts(out, " | n | median | min | max | outliers |\n|---|---|--:|--:|--:|--:|--:|--:|\n");
    const double fits = stk__words_common(samples, r->variant_count);
    for (size_t i = 0; i < r->variant_count; i++) {
        const stk__summary *s = &samples[i].summary;
        const stk__quantity_style style = {s->mean, s->sd, isnan(fits) ? s->mean : fits, r->metrics[metric].unit};
        put_variant(r, i, s, &style, &cell, out);
    }
    if (c && c->count)
        put_comparisons(r, c, &cell, out);
    put_counts(r, c, &cell, out);
    put_circumstances(r, &cell, out);
    stk__text_clear(&cell);
    stk__samples_free(samples, r->variant_count);
}
