/* Verdicts, intervals and gains in words; samples without what is not known. */
#include "bench/words.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/quantity.h"

#include "base/banned.h"

stk_status stk__sample_take(const stk__result *r, size_t variant, size_t metric, double confidence, stk__sample *out,
                            stk_error *err)
{
    const stk__variant *v = &r->variants[variant];
    stk__sample s = {.summary = {.mean = NAN, .sd = NAN, .median = NAN, .min = NAN, .max = NAN, .q1 = NAN, .q3 = NAN},
                     .low = NAN,
                     .high = NAN};
    s.sorted = stk__calloc(v->runs ? v->runs : 1, sizeof *s.sorted);
    if (!s.sorted)
        return stk__nomem(v->runs * sizeof *s.sorted, err);
    size_t n = 0;
    for (size_t i = 0; i < v->runs; i++) {
        if (isfinite(v->values[metric][i]))
            s.sorted[n++] = v->values[metric][i];
    }
    if (n) {
        stk__sort_double(s.sorted, n);
        const stk_status status = stk__describe(s.sorted, n, &s.summary, err);
        if (status != STK_OK) {
            stk__free(s.sorted);
            return status;
        }
        double reached;
        s.covered = stk__median_interval(s.sorted, n, confidence, &s.low, &s.high, &reached);
    }
    *out = s;
    return STK_OK;
}

void stk__sample_clear(stk__sample *s)
{
    stk__free(s->sorted);
    *s = (stk__sample){0};
}

stk_status stk__samples_take(const stk__result *r, size_t metric, double confidence, stk__sample **out, stk_error *err)
{
    stk__sample *samples = stk__calloc(r->variant_count ? r->variant_count : 1, sizeof *samples);
    if (!samples)
        return stk__nomem(r->variant_count * sizeof *samples, err);
    for (size_t i = 0; i < r->variant_count; i++) {
        const stk_status status = stk__sample_take(r, i, metric, confidence, &samples[i], err);
        if (status != STK_OK) {
            stk__samples_free(samples, i);
            return status;
        }
    }
    *out = samples;
    return STK_OK;
}

void stk__samples_free(stk__sample *samples, size_t count)
{
    for (size_t i = 0; samples && i < count; i++)
        stk__sample_clear(&samples[i]);
    stk__free(samples);
}

double stk__words_common(const stk__sample *samples, size_t count)
{
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < count; i++) {
        const double mean = fabs(samples[i].summary.mean);
        if (samples[i].summary.n == 0 || mean == 0)
            continue;
        least = fmin(least, mean);
        most = fmax(most, mean);
    }
    return most > 0 && most / least < 100 ? least : NAN;
}

size_t stk__words_metric(const stk__result *r, const stk__comparisons *c)
{
    return c && c->count ? c->items[0].metric : r->primary;
}

size_t stk__words_valid(const stk__comparisons *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->count; i++)
        n += c->items[i].valid;
    return c->family ? STK_MIN(n, c->family) : n;
}

void stk__words_pair(const stk__comparison *c, stk__text *out)
{
    char a[8], b[8];
    stk__variant_letters(c->a, a);
    stk__variant_letters(c->b, b);
    stk__text_printf(out, "%s/%s", b, a);
}

void stk__words_percent(double fraction, stk__text *out)
{
    stk__text_printf(out, "%.4g %%", 100 * fraction);
}

void stk__words_p(double p, stk__text *out)
{
    if (isnan(p))
        stk__text_puts(out, "p unknown");
    else if (p < 0.001)
        stk__text_puts(out, "p<0.001");
    else
        stk__text_printf(out, p < 0.0995 ? "p=%.3f" : "p=%.2f", p);
}

void stk__words_interval(double low, double high, stk__text *out)
{
    stk__ratio(out, low);
    stk__text_puts(out, "..");
    stk__ratio(out, high);
}

static bool ends_with(const char *s, const char *end)
{
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* "ns", "ns/op", "ms", "s": less of it is faster. */
static bool is_time(const char *unit)
{
    static const char *const units[] = {"s", "ms", "us", "ns", "sec", "seconds"};
    const size_t length = strcspn(unit, "/");
    for (size_t i = 0; i < STK_COUNT(units); i++) {
        if (strlen(units[i]) == length && strncmp(unit, units[i], length) == 0)
            return true;
    }
    return false;
}

static const char *change_word(const stk__metric *m, bool better)
{
    if (is_time(m->unit) || ends_with(m->unit, "/s"))
        return better ? "faster" : "slower";
    if (strcmp(m->unit, "bytes") == 0)
        return better != m->higher_is_better ? "smaller" : "larger";
    return better ? "better" : "worse";
}

void stk__words_verdict(const stk__result *r, const stk__comparisons *c, size_t index, stk__text *out)
{
    const stk__comparison *x = &c->items[index];
    char a[8], b[8];
    stk__variant_letters(x->a, a);
    stk__variant_letters(x->b, b);
    switch (x->verdict) {
    case STK__FASTER:
    case STK__SLOWER:
        stk__text_printf(out, "%s is %s", b, change_word(&r->metrics[x->metric], x->verdict == STK__FASTER));
        break;
    case STK__EQUIVALENT:
        stk__text_printf(out, "%s and %s are equivalent within ", a, b);
        stk__words_percent(c->rule.margin, out);
        break;
    case STK__INCONCLUSIVE:
        stk__text_puts(out, "inconclusive");
        break;
    }
}

void stk__words_reason(const stk__comparisons *c, size_t index, stk__text *out)
{
    const stk__comparison *x = &c->items[index];
    if (x->verdict != STK__INCONCLUSIVE)
        return;
    if (x->withheld) {
        stk__text_puts(out, x->withheld);
        return;
    }
    if (!x->valid) {
        stk__text_puts(out, "there are no figures to compare");
        return;
    }
    const bool covered = x->paired ? x->pair.covered : x->free.covered;
    const size_t among = c->family ? c->family : STK_MAX(c->count, (size_t)1);
    if (!covered && x->paired) {
        const size_t least = stk__median_interval_least(1 - (1 - c->rule.confidence) / (double)among);
        stk__text_printf(out, "needs at least %zu rounds for ", least);
        stk__words_percent(c->rule.confidence, out);
        if (among > 1)
            stk__text_printf(out, " over %zu comparisons", among);
    } else if (!covered) {
        stk__text_puts(out, "needs more runs of each for ");
        stk__words_percent(c->rule.confidence, out);
    } else if (x->more_rounds) {
        stk__text_puts(out, "about ");
        stk__quantity(out, (double)x->more_rounds, "count");
        const bool one = x->more_rounds == 1;
        if (x->paired)
            stk__text_printf(out, " more round%s would tell", one ? "" : "s");
        else
            stk__text_printf(out, " more run%s of each would tell", one ? "" : "s");
    }
}

void stk__words_gain(const stk__result *r, const stk__comparison *c, double *out_gain, double *out_low,
                     double *out_high)
{
    const bool higher = r->metrics[c->metric].higher_is_better;
    *out_gain = higher ? c->ratio : 1 / c->ratio;
    *out_low = higher ? c->low : 1 / c->high;
    *out_high = higher ? c->high : 1 / c->low;
}

/* Two decimals tell enough of a gain; past 10 three digits as for other ratios. */
static void put_gain(double gain, stk__text *out)
{
    if (gain >= 0.0995 && gain < 9.995)
        stk__text_printf(out, "%.2f", gain);
    else
        stk__ratio(out, gain);
}

void stk__words_times(double gain, stk__text *out)
{
    stk__text_putc(out, 'x');
    put_gain(gain, out);
}

void stk__words_times_as(const stk__metric *metric, double gain, stk__text *out)
{
    const char *word = is_time(metric->unit) || ends_with(metric->unit, "/s") ? "fast"
                       : strcmp(metric->unit, "bytes") != 0                   ? "good"
                       : metric->higher_is_better                             ? "large"
                                                                              : "small";
    stk__ratio(out, gain);
    stk__text_printf(out, " times as %s as", word);
}

void stk__words_times_interval(double low, double high, stk__text *out)
{
    put_gain(low, out);
    stk__text_puts(out, "..");
    put_gain(high, out);
}

stk__verdict stk__words_row_verdict(const stk__log *log, size_t row, size_t benchmark)
{
    enum { MORE_THAN_THERE_ARE = 16 }; /* names past the last are those of the first */
    const char *word = log->rows[row].cells[benchmark].verdict;
    for (int v = 1; word && v < MORE_THAN_THERE_ARE; v++) {
        if (strcmp(word, stk__verdict_name((stk__verdict)v)) == 0)
            return (stk__verdict)v;
    }
    return STK__INCONCLUSIVE;
}

bool stk__words_same_machine(const stk__log_row *a, const stk__log_row *b)
{
    const char *x = a->machine ? a->machine : "", *y = b->machine ? b->machine : "";
    const char *x_kernel = strstr(x, ", Linux "), *y_kernel = strstr(y, ", Linux ");
    const size_t n = x_kernel ? (size_t)(x_kernel - x) : strlen(x);
    return n == (y_kernel ? (size_t)(y_kernel - y) : strlen(y)) && memcmp(x, y, n) == 0;
}

void stk__words_commit(const stk__log_row *row, stk__text *out)
{
    if (row->commit && row->commit[0])
        stk__text_printf(out, "%.7s%s", row->commit, row->dirty ? "+" : "");
    else
        stk__text_putc(out, '-');
}
