/* Writes a result as one JSON object on one line: what `stoker bench --json` prints. */
#include <math.h>

#include "bench/export.h"

#include "base/banned.h"

static void put_key(stk__text *t, const char *key)
{
    stk__text_printf(t, ",\"%s\":", key);
}

static void put_double(stk__text *t, const char *key, double x)
{
    put_key(t, key);
    stk__text_json_double(t, x);
}

static void put_bool(stk__text *t, const char *key, bool on)
{
    put_key(t, key);
    stk__text_puts(t, on ? "true" : "false");
}

static void put_string(stk__text *t, const char *key, const char *text)
{
    put_key(t, key);
    if (text)
        stk__text_json_str(t, text);
    else
        stk__text_puts(t, "null");
}

static void put_metric(stk__text *t, const stk__metric *m)
{
    stk__text_puts(t, "{\"name\":");
    stk__text_json_str(t, m->name);
    put_string(t, "unit", m->unit);
    put_bool(t, "higher_is_better", m->higher_is_better);
    stk__text_putc(t, '}');
}

static void write_head(const stk__export *ex)
{
    const stk__result *r = ex->r;
    stk__text *t = ex->out;
    stk__text_puts(t, "{\"stoker\":\"bench\",\"version\":1");
    put_key(t, "time");
    if (r->time_s > 0) {
        stk__text_putc(t, '"');
        stk__bench_export_time(t, r->time_s, 'T', "Z");
        stk__text_putc(t, '"');
    } else {
        stk__text_puts(t, "null");
    }
    /* Past 2^53 readers in other languages would round it. */
    const char *quote = r->seed > (uint64_t)1 << 53 ? "\"" : "";
    stk__text_printf(t, ",\"seed\":%s%llu%s", quote, (unsigned long long)r->seed, quote);
    put_bool(t, "paired", r->paired);
    put_bool(t, "interrupted", r->interrupted);
    put_double(t, "confidence", ex->c ? ex->c->rule.confidence : NAN);
    put_double(t, "min_effect", ex->c ? ex->c->rule.min_effect : NAN);
    put_double(t, "margin", ex->c ? ex->c->rule.margin : NAN);
    put_string(t, "machine", r->machine);
    put_string(t, "limits", r->limits);
    if (r->counted)
        put_string(t, "counted", r->counted);
    stk__text_printf(t, ",\"warmup\":%zu,\"dropped\":%zu,\"retaken\":%zu", r->warmup, r->dropped, r->retaken);
    put_double(t, "floor_s", r->floor_s);
    put_key(t, "metric");
    put_metric(t, &r->metrics[r->primary]);
}

static void write_values(stk__text *t, const double *values, size_t n)
{
    stk__text_putc(t, '[');
    for (size_t i = 0; i < n; i++) {
        if (i)
            stk__text_putc(t, ',');
        stk__text_json_double(t, values[i]);
    }
    stk__text_putc(t, ']');
}

static void write_exit_codes(stk__text *t, const stk__variant *v)
{
    bool any = false;
    for (size_t i = 0; i < v->runs; i++)
        any |= stk__bench_export_exit_code(v, i) != 0;
    if (!any)
        return;
    stk__text_puts(t, ",\"exit_codes\":");
    for (size_t i = 0; i < v->runs; i++)
        stk__text_printf(t, "%c%d", i ? ',' : '[', stk__bench_export_exit_code(v, i));
    stk__text_putc(t, ']');
}

static stk_status write_variant(const stk__export *ex, size_t index)
{
    const stk__variant *v = &ex->r->variants[index];
    stk__text *t = ex->out;
    stk__summary s;
    char letters[8];
    STK_TRY(stk__bench_export_summary(ex, v, ex->r->primary, &s));
    stk__variant_letters(index, letters);
    stk__text_puts(t, "{\"name\":");
    stk__text_json_str(t, v->name);
    put_string(t, "label", letters);
    put_string(t, "command", v->command);
    stk__text_printf(t, ",\"group\":%zu,\"parameters\":", v->group);
    stk__bench_export_parameters(t, v);
    stk__text_printf(t, ",\"n\":%zu", s.n);
    put_double(t, "mean", s.mean);
    put_double(t, "sd", s.sd);
    put_double(t, "median", s.median);
    put_double(t, "min", s.min);
    put_double(t, "max", s.max);
    stk__text_printf(t, ",\"outliers\":%zu,\"times\":", s.outliers);
    write_values(t, v->values[ex->r->primary], v->runs);
    write_exit_codes(t, v);
    put_key(t, "measures");
    for (size_t m = 0; m < ex->r->metric_count; m++) {
        stk__text_putc(t, m ? ',' : '{');
        stk__text_json_str(t, ex->r->metrics[m].name);
        stk__text_putc(t, ':');
        write_values(t, v->values[m], v->runs);
    }
    stk__text_putc(t, '}');
    put_string(t, "withheld", v->withheld);
    stk__text_putc(t, '}');
    return STK_OK;
}

/* Figures of a comparison; null where there are none. */
static void write_figures(stk__text *t, const stk__comparison *c)
{
    put_double(t, "ratio", c->valid ? c->ratio : NAN);
    stk__text_printf(t, ",\"covered\":%s",
                     c->valid && (c->paired ? c->pair.covered : c->free.covered) ? "true" : "false");
    put_double(t, "ci_low", c->valid ? c->low : NAN);
    put_double(t, "ci_high", c->valid ? c->high : NAN);
    put_double(t, "p", c->valid ? c->p_holm : NAN);
    put_double(t, "p_raw", c->valid ? c->p : NAN);
    put_string(t, "verdict", stk__verdict_name(c->verdict));
    if (c->exact) {
        put_string(t, "test", "exact");
        return;
    }
    if (c->paired)
        put_string(t, "test", c->valid && !c->pair.exact ? "Wilcoxon (normal)" : "Wilcoxon (exact)");
    else
        put_string(t, "test", "Mann-Whitney");
    put_double(t, "median_ratio", c->valid ? c->median : NAN);
    put_double(t, "rest_ratio", c->valid ? c->rest : NAN);
    put_double(t, "mean_ratio", c->valid ? c->means.ratio : NAN);
    put_double(t, "mean_low", c->valid ? c->means.low : NAN);
    put_double(t, "mean_high", c->valid ? c->means.high : NAN);
    put_double(t, "p_mean", c->valid ? c->means.p : NAN);
    put_double(t, "far_below", c->valid && c->paired ? c->pair.far_below : NAN);
    put_double(t, "far_above", c->valid && c->paired ? c->pair.far_above : NAN);
}

static void write_offer(stk__text *t, const stk__offer *o)
{
    if (!o->made) {
        stk__text_puts(t, ",\"by_cpu\":null");
        return;
    }
    stk__text_puts(t, ",\"by_cpu\":{\"metric\":\"cpu\"");
    put_double(t, "ratio", o->ratio);
    put_double(t, "ci_low", o->low);
    put_double(t, "ci_high", o->high);
    put_double(t, "p", o->p);
    put_string(t, "verdict", stk__verdict_name(o->verdict));
    stk__text_putc(t, '}');
}

static void write_comparison(const stk__export *ex, const stk__comparison *c)
{
    stk__text *t = ex->out;
    stk__text_puts(t, "{\"a\":");
    stk__text_json_str(t, ex->r->variants[c->a].name);
    put_string(t, "b", ex->r->variants[c->b].name);
    put_string(t, "metric", ex->r->metrics[c->metric].name);
    put_bool(t, "paired", c->paired);
    stk__text_printf(t, ",\"n\":%zu", c->n);
    write_figures(t, c);
    if (c->verdict == STK__INCONCLUSIVE && c->more_rounds)
        stk__text_printf(t, ",\"more_rounds\":%zu", c->more_rounds);
    else
        stk__text_puts(t, ",\"more_rounds\":null");
    put_string(t, "withheld", c->withheld);
    write_offer(t, &c->cpu);
    stk__text_putc(t, '}');
}

stk_status stk__write_stoker(const stk__export *ex)
{
    stk__text *t = ex->out;
    write_head(ex);
    stk__text_puts(t, ",\"variants\":[");
    for (size_t i = 0; i < ex->r->variant_count; i++) {
        if (i)
            stk__text_putc(t, ',');
        STK_TRY(write_variant(ex, i));
    }
    stk__text_puts(t, "],\"metrics\":[");
    for (size_t i = 0; i < ex->r->metric_count; i++) {
        if (i)
            stk__text_putc(t, ',');
        put_metric(t, &ex->r->metrics[i]);
    }
    stk__text_puts(t, "],\"comparisons\":[");
    for (size_t i = 0; ex->c && i < ex->c->count; i++) {
        if (i)
            stk__text_putc(t, ',');
        write_comparison(ex, &ex->c->items[i]);
    }
    stk__text_puts(t, "],\"notes\":[");
    for (size_t i = 0; i < ex->r->note_count; i++) {
        if (i)
            stk__text_putc(t, ',');
        stk__text_json_str(t, ex->r->notes[i]);
    }
    stk__text_puts(t, "]}\n");
    return STK_OK;
}
