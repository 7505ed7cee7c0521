/* What is said about instruction counts. */
#include "bench/count.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bench/table.h"

#include "base/banned.h"

bool stk__is_count(const stk__metric *metric)
{
    return strcmp(metric->unit, "instructions") == 0;
}

const char *stk__count_word(const char *unit, const char *verdict)
{
    static const struct {
        stk__verdict verdict;
        const char *word;
    } words[] = {{STK__FASTER, "fewer"},
                 {STK__SLOWER, "more"},
                 {STK__TAIL_FASTER, "fewer in some runs"},
                 {STK__TAIL_SLOWER, "more in some runs"}};
    for (size_t i = 0; strcmp(unit, "instructions") == 0 && i < STK_COUNT(words); i++) {
        if (strcmp(verdict, stk__verdict_name(words[i].verdict)) == 0)
            return words[i].word;
    }
    return verdict;
}

size_t stk__count_metric(const stk__result *r)
{
    const size_t m = stk__result_metric(r, stk__measure_metric(STK__INSTRUCTIONS).name);
    return m != SIZE_MAX && stk__is_count(&r->metrics[m]) ? m : SIZE_MAX;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

stk__counts stk__counts_of(const stk__variant *v, size_t metric)
{
    stk__counts c = {0, NAN, NAN, NAN};
    double *known = stk__calloc(v->runs + 1, sizeof *known);
    for (size_t i = 0; known && i < v->runs; i++) {
        if (isfinite(v->values[metric][i]))
            known[c.n++] = v->values[metric][i];
    }
    if (c.n) {
        qsort(known, c.n, sizeof *known, compare_doubles);
        c.least = known[0];
        c.most = known[c.n - 1];
        c.median = (known[(c.n - 1) / 2] + known[c.n / 2]) / 2;
    }
    stk__free(known);
    return c;
}

double stk__counts_spread(const stk__counts *c)
{
    return c->n > 1 && c->least > 0 ? (c->most - c->least) / c->median : NAN;
}

bool stk__count_exact(const stk__result *r, size_t a, size_t b, size_t metric, double *out_ratio, double *out_low,
                      double *out_high)
{
    if (!stk__is_count(&r->metrics[metric]))
        return false;
    const stk__counts x = stk__counts_of(&r->variants[a], metric), y = stk__counts_of(&r->variants[b], metric);
    if (!(stk__counts_spread(&x) <= STK__COUNT_REPEATS) || !(stk__counts_spread(&y) <= STK__COUNT_REPEATS))
        return false;
    *out_ratio = y.median / x.median;
    *out_low = y.least / x.most;
    *out_high = y.most / x.least;
    return true;
}

/* ---- words ---- */

/* Four digits, since counts repeat better than times: "1.234 G". */
static void put_count(stk__text *t, double x)
{
    static const char *const units[] = {"", " k", " M", " G", " T"};
    size_t u = 0;
    if (isnan(x)) {
        stk__text_putc(t, '-');
        return;
    }
    if (x < 99999.5) {
        stk__text_printf(t, "%.0f", x);
        return;
    }
    for (; x >= 999.95 && u + 1 < STK_COUNT(units); u++)
        x /= 1000;
    stk__text_printf(t, x < 9.9995 ? "%.3f%s" : x < 99.995 ? "%.2f%s" : "%.1f%s", x, units[u]);
}

/* As many decimals as the counts can tell apart. */
static void put_ratio(stk__text *t, double ratio, double spread)
{
    if (isnan(ratio))
        stk__text_putc(t, '-');
    else
        stk__text_printf(t, ratio >= 10 || ratio < 0.1 ? "%.4g" : spread <= STK__COUNT_REPEATS ? "%.4f" : "%.3f", ratio);
}

static void put_letters(stk__text *t, size_t variant)
{
    char letters[8];
    stk__variant_letters(variant, letters);
    stk__text_puts(t, letters);
}

/* What a variant is compared with; itself: nothing. */
static size_t base_of(const stk__result *r, const stk__comparisons *c, size_t variant)
{
    size_t a = 0;
    for (size_t i = 0; c && i < c->count; i++) {
        if (c->items[i].b == variant)
            return c->items[i].a;
    }
    while (!c && r->variants[a].group != r->variants[variant].group)
        a++;
    return c ? variant : a;
}

/* "B/A 0.9003" */
static void put_against(const stk__result *r, const stk__comparisons *c, size_t metric, size_t variant, double spread,
                        const char *before, stk__text *out)
{
    const size_t base = base_of(r, c, variant);
    if (base == variant)
        return;
    const stk__counts x = stk__counts_of(&r->variants[base], metric), y = stk__counts_of(&r->variants[variant], metric);
    stk__text_puts(out, before);
    put_letters(out, variant);
    stk__text_putc(out, '/');
    put_letters(out, base);
    stk__text_putc(out, ' ');
    put_ratio(out, x.median > 0 ? y.median / x.median : NAN, spread);
}

/* All variants together: the fewest runs, and the widest spread. */
static void look_over(const stk__result *r, size_t metric, size_t *out_least, size_t *out_most, double *out_spread)
{
    *out_least = SIZE_MAX;
    *out_most = 0;
    *out_spread = 0;
    for (size_t v = 0; v < r->variant_count; v++) {
        const stk__counts c = stk__counts_of(&r->variants[v], metric);
        const double spread = stk__counts_spread(&c);
        *out_least = STK_MIN(*out_least, c.n);
        *out_most = STK_MAX(*out_most, c.n);
        *out_spread = isnan(spread) || isnan(*out_spread) ? NAN : fmax(*out_spread, spread);
    }
}

/* "cachegrind 3.19.0, 3 runs each" */
static void put_how(stk__text *t, const stk__result *r, size_t least, size_t most)
{
    if (r->counted) {
        stk__put_safe(t, r->counted, 60);
        stk__text_puts(t, ", ");
    }
    if (least != most)
        stk__text_printf(t, "%zu to ", least);
    stk__text_printf(t, "%zu run%s%s", most, most == 1 ? "" : "s", r->variant_count > 1 ? " each" : "");
}

static void put_repeats(stk__text *t, double spread)
{
    if (isnan(spread))
        stk__text_puts(t, "one run does not show whether they repeat");
    else if (spread == 0)
        stk__text_puts(t, "the same in every run");
    else if (spread <= STK__COUNT_REPEATS)
        stk__text_puts(t, "repeatable to 0.01 %");
    else
        stk__text_printf(t, "they differ by %.2g %% from run to run", 100 * spread);
}

/* "A 1.234 G -> B 1.111 G, B/A 0.9003; the same in every run" */
static void put_one_line(const stk__result *r, const stk__comparisons *c, size_t metric, double spread, stk__text *out)
{
    for (size_t v = 0; v < r->variant_count; v++) {
        stk__text_puts(out, v ? " -> " : "");
        if (r->variant_count > 1) {
            put_letters(out, v);
            stk__text_putc(out, ' ');
        }
        put_count(out, stk__counts_of(&r->variants[v], metric).median);
    }
    put_against(r, c, metric, r->variant_count - 1, spread, ", ", out);
    stk__text_puts(out, "; ");
    put_repeats(out, spread);
    stk__text_putc(out, '\n');
}

static void put_each(const stk__result *r, const stk__comparisons *c, size_t metric, double spread, const char *indent,
                     stk__text *out)
{
    for (size_t v = 0; v < r->variant_count; v++) {
        stk__text_printf(out, "%s  ", indent);
        put_letters(out, v);
        stk__text_puts(out, "  ");
        put_count(out, stk__counts_of(&r->variants[v], metric).median);
        put_against(r, c, metric, v, spread, "  ", out);
        stk__text_putc(out, '\n');
    }
}

void stk__count_lines(const stk__result *r, const stk__comparisons *c, const char *indent, stk__text *out)
{
    const size_t metric = stk__count_metric(r);
    size_t least, most;
    double spread;
    if (metric == SIZE_MAX)
        return;
    look_over(r, metric, &least, &most, &spread);
    if (!most)
        return;
    stk__text_printf(out, "%sinstructions (", indent);
    put_how(out, r, least, most);
    if (r->variant_count <= 2) {
        stk__text_puts(out, "): ");
        put_one_line(r, c, metric, spread, out);
    } else {
        stk__text_puts(out, "; ");
        put_repeats(out, spread);
        stk__text_puts(out, ")\n");
        put_each(r, c, metric, spread, indent, out);
    }
    stk__text_printf(out, "%swaiting, memory and I/O are not in these counts: fewer of them need not take less time\n",
                     indent);
}
