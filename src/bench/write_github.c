/* Writes a result for github-action-benchmark (customSmallerIsBetter): one value for each variant. */
#include <math.h>

#include "bench/export.h"

#include "base/banned.h"

/* The comparison that has this variant as its second, or NULL. */
static const stk__comparison *comparison_of(const stk__export *ex, size_t variant)
{
    for (size_t i = 0; ex->c && i < ex->c->count; i++) {
        if (ex->c->items[i].b == variant && ex->c->items[i].metric == stk__variant_metric(ex->r, variant))
            return &ex->c->items[i];
    }
    return NULL;
}

static void write_extra(const stk__export *ex, size_t variant, const stk__summary *s)
{
    const stk__comparison *c = comparison_of(ex, variant);
    stk__text extra = STK__TEXT_INIT;
    stk__text_printf(&extra, "n=%zu\nmean %.6g, min %.6g, max %.6g", s->n, s->mean, s->min, s->max);
    if (c) {
        stk__text_printf(&extra, "\nverdict: %s", stk__verdict_name(c->verdict));
        stk__text_printf(&extra, " against %.200s", ex->r->variants[c->a].name);
        if (c->exact)
            stk__text_printf(&extra, "\nratio %.6g, exact", c->ratio);
        else if (c->valid)
            stk__text_printf(&extra, "\nratio %.4g (%.4g..%.4g), p=%.3g, %s", c->ratio, c->low, c->high, c->p_holm,
                             c->paired ? "paired" : "unpaired: order not controlled");
    }
    stk__text_json(ex->out, extra.data ? extra.data : "", extra.length);
    if (extra.failed)
        ex->out->failed = true;
    stk__text_clear(&extra);
}

static void write_item(const stk__export *ex, size_t variant, const stk__summary *s)
{
    const stk__metric *m = &ex->r->metrics[stk__variant_metric(ex->r, variant)];
    stk__text *t = ex->out;
    stk__text_puts(t, "  {\"name\": ");
    stk__text_json_str(t, ex->r->variants[variant].name);
    stk__text_puts(t, ", \"unit\": ");
    stk__text_json_str(t, m->unit);
    stk__text_puts(t, ", \"value\": ");
    stk__text_json_double(t, s->median);
    if (isfinite(s->sd))
        stk__text_printf(t, ", \"range\": \"\xc2\xb1 %.3g\"", s->sd);
    stk__text_puts(t, ", \"extra\": ");
    write_extra(ex, variant, s);
    stk__text_putc(t, '}');
}

stk_status stk__write_github(const stk__export *ex)
{
    const stk__metric *m = &ex->r->metrics[ex->r->primary];
    size_t written = 0, empty = 0, higher = 0;
    bool mixed = false;
    stk__text_puts(ex->out, "[\n");
    for (size_t i = 0; i < ex->r->variant_count; i++) {
        stk__summary s;
        const size_t metric = stk__variant_metric(ex->r, i);
        STK_TRY(stk__bench_export_summary(ex, &ex->r->variants[i], metric, &s));
        if (!s.n) {
            empty++;
            continue;
        }
        mixed |= metric != ex->r->primary;
        higher += ex->r->metrics[metric].higher_is_better;
        stk__text_puts(ex->out, written++ ? ",\n" : "");
        write_item(ex, i, &s);
    }
    stk__text_puts(ex->out, "\n]\n");
    if (higher && higher < written)
        stk__bench_export_note(ex,
                               "higher is better for %zu of %zu benchmarks: the action takes one direction for a file, "
                               "and will call their gains losses",
                               higher, written);
    else if (higher)
        stk__bench_export_note(ex, "higher is better for '%.80s': give the action tool: customBiggerIsBetter", m->name);
    if (empty)
        stk__bench_export_note(ex, "%zu benchmarks without values were left out", empty);
    if (mixed)
        stk__bench_export_note(ex, "medians of each benchmark's own metric were written; github-action-benchmark holds "
                                   "no single runs");
    else
        stk__bench_export_note(ex, "medians of '%.80s' were written; github-action-benchmark holds no single runs",
                               m->name);
    return STK_OK;
}
