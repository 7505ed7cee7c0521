/* Verdicts, intervals and gains in words; samples without what is not known. */
#include "bench/words.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/count.h"
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

static void put_change(double ratio, stk__text *out)
{
    const double percent = 100 * (ratio - 1);
    stk__text_printf(out, fabs(percent) < 9.95 ? "%+.1f" : "%+.0f", percent);
}

void stk__words_change(double ratio, double low, double high, stk__text *out)
{
    put_change(ratio, out);
    stk__text_puts(out, " % (");
    put_change(low, out);
    stk__text_puts(out, "..");
    put_change(high, out);
    stk__text_puts(out, " %)");
}

/* "same median", "the same as a rule", "median -5.2 %" */
static void put_median(const stk__comparisons *c, const stk__comparison *x, stk__text *out)
{
    const double effect = stk__rule_effect(&c->rule);
    if (fabs(log(x->median)) < effect) {
        stk__text_puts(out, "same median");
    } else if (fabs(log(x->rest)) < effect) {
        stk__text_puts(out, "the same as a rule");
    } else {
        stk__text_puts(out, "median ");
        put_change(x->median, out);
        stk__text_puts(out, " %");
    }
}

/* "B is slower in 30 % of its runs"; where no runs stand out, "B is slower in the mean" */
static void put_slow_runs(const stk__metric *m, const stk__comparison *x, stk__text *out)
{
    const bool worse = (x->means.ratio > 1) != m->higher_is_better;
    const double share = stk__comparison_far(x);
    char a[8], b[8];
    stk__variant_letters(x->a, a);
    stk__variant_letters(x->b, b);
    if (share > 0)
        stk__text_printf(out, "%s is %s in %.0f %% of its runs", worse ? b : a, change_word(m, false), 100 * share);
    else
        stk__text_printf(out, "%s is %s in the mean", b, change_word(m, !worse));
}

/* "same median, but B is slower in 30 % of its runs: mean +24 % (+12..+37 %)" */
static void put_tail(const stk__metric *m, const stk__comparisons *c, const stk__comparison *x, stk__text *out)
{
    put_median(c, x, out);
    stk__text_puts(out, ", but ");
    put_slow_runs(m, x, out);
    stk__text_puts(out, ": mean ");
    stk__words_change(x->means.ratio, x->means.low, x->means.high, out);
}

const char *stk__words_direction(char *unit, bool higher_is_better, bool better)
{
    return change_word(&(stk__metric){.unit = unit, .higher_is_better = higher_is_better}, better);
}

/* As long as it is open: slow runs are told when they make a difference, else only that the means do not agree yet. */
static void put_open(const stk__metric *m, const stk__comparisons *c, const stk__comparison *x, stk__text *out)
{
    if (fabs(log(x->means.ratio)) >= stk__rule_effect(&c->rule)) {
        put_tail(m, c, x, out);
        return;
    }
    put_median(c, x, out);
    stk__text_puts(out, ", but the means leave it open: ");
    stk__words_change(x->means.ratio, x->means.low, x->means.high, out);
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
        if (stk__is_count(&r->metrics[x->metric]))
            stk__text_printf(out, "%s takes %s instructions", b, x->verdict == STK__FASTER ? "fewer" : "more");
        else
            stk__text_printf(out, "%s is %s", b, change_word(&r->metrics[x->metric], x->verdict == STK__FASTER));
        break;
    case STK__EQUIVALENT:
        stk__text_printf(out, "%s and %s are equivalent within ", a, b);
        stk__words_percent(c->rule.margin, out);
        break;
    case STK__TAIL_FASTER:
    case STK__TAIL_SLOWER:
        put_tail(&r->metrics[x->metric], c, x, out);
        break;
    case STK__INCONCLUSIVE:
    case STK__VERDICTS:
        stk__text_puts(out, "inconclusive");
        break;
    }
}

void stk__words_brief(const stk__result *r, const stk__comparisons *c, size_t index, stk__text *out)
{
    const stk__comparison *x = &c->items[index];
    if (x->verdict == STK__TAIL_FASTER || x->verdict == STK__TAIL_SLOWER)
        put_slow_runs(&r->metrics[x->metric], x, out);
    else
        stk__words_verdict(r, c, index, out);
}

static void put_too_few(const stk__comparisons *c, const stk__comparison *x, stk__text *out)
{
    const size_t among = c->family ? c->family : STK_MAX(c->count, (size_t)1);
    if (!x->paired) {
        stk__text_puts(out, "needs more runs of each for ");
        stk__words_percent(c->rule.confidence, out);
        return;
    }
    const size_t least = stk__median_interval_least(stk__rule_confidence(&c->rule, among));
    stk__text_printf(out, "needs at least %zu rounds for ", least);
    stk__words_percent(c->rule.confidence, out);
    if (among > 1)
        stk__text_printf(out, " over %zu comparisons", among);
}

/* More rounds than these are no plan. */
enum { MOST_ROUNDS = 1000 };

static void put_plan(const stk__comparison *x, stk__text *out)
{
    const char *rounds = x->paired ? "round" : "run";
    if (!x->more_rounds)
        return;
    if (x->more_rounds > MOST_ROUNDS)
        stk__text_printf(out, "more %ss would hardly tell: a difference, if there is one, is lost in the noise",
                         rounds);
    else
        stk__text_printf(out, "about %zu more %s%s%s would tell", x->more_rounds, rounds,
                         x->more_rounds == 1 ? "" : "s", x->paired ? "" : " of each");
}

/* "by CPU time B is slower: +3.0 % (+2.6..+3.4 %); --metric cpu decides by it" */
static void put_offer(const stk__comparison *x, stk__text *out)
{
    char b[8];
    stk__variant_letters(x->b, b);
    if (!x->cpu.made)
        return;
    stk__text_printf(out, "%sby CPU time ", out->length ? "; " : "");
    if (x->cpu.verdict == STK__EQUIVALENT)
        stk__text_puts(out, "they are equivalent: ");
    else
        stk__text_printf(out, "%s is %s: ", b, stk__verdict_better(x->cpu.verdict) ? "faster" : "slower");
    stk__words_change(x->cpu.ratio, x->cpu.low, x->cpu.high, out);
    stk__text_puts(out, " (--metric cpu)");
}

void stk__words_reason(const stk__result *r, const stk__comparisons *c, size_t index, stk__text *out)
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
    if (!(x->paired ? x->pair.covered : x->free.covered)) {
        put_too_few(c, x, out);
        return;
    }
    stk__text plan = STK__TEXT_INIT;
    if (stk__comparison_by_means(x, &c->rule))
        put_open(&r->metrics[x->metric], c, x, out);
    put_plan(x, &plan);
    if (plan.length)
        stk__text_printf(out, "%s%s", out->length ? "; " : "", plan.data);
    out->failed |= plan.failed;
    stk__text_clear(&plan);
    put_offer(x, out);
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
    const char *word = log->rows[row].cells[benchmark].verdict;
    return word ? stk__verdict_find(word) : STK__INCONCLUSIVE;
}

size_t stk__words_machine_length(const stk__log_row *row)
{
    const char *machine = row->machine ? row->machine : "", *kernel = strstr(machine, ", Linux ");
    return kernel ? (size_t)(kernel - machine) : strlen(machine);
}

bool stk__words_same_machine(const stk__log_row *a, const stk__log_row *b)
{
    const size_t n = stk__words_machine_length(a);
    return n == stk__words_machine_length(b) && (n == 0 || memcmp(a->machine, b->machine, n) == 0);
}

void stk__words_commit(const stk__log_row *row, stk__text *out)
{
    /* Of a hash the first characters tell; logs of others have names of versions as well. */
    enum { HASH = 7, VERSION = 20 };
    const char *commit = row->commit ? row->commit : "";
    const bool hash = commit[strspn(commit, "0123456789abcdef")] == 0;
    if (commit[0])
        stk__text_printf(out, "%.*s%s", hash ? HASH : VERSION, commit, row->dirty ? "+" : "");
    else
        stk__text_putc(out, '-');
}
