/* Writes a result as Bencher Metric Format: a median with its interval for each benchmark and measure. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/export.h"
#include "bench/words.h"

#include "base/banned.h"

/* Bencher takes names of at most 1024 characters, and 64 for measures; a number may follow ours. */
enum { MOST_NAME = 1000, MOST_MEASURE = 60 };

typedef struct measure {
    size_t metric;
    const char *name;
    double factor;
} measure;

/* Without blanks at its ends, which Bencher refuses; cut before a character; a name that is there already gets a number. */
static const char *fit(stk__name_table *names, const char *name, size_t most)
{
    static const char blanks[] = " \t\n\v\f\r";
    name += strspn(name, blanks);
    size_t size = strlen(name);
    if (size > most) {
        for (size = most; size && ((unsigned char)name[size] & 0xc0) == 0x80;)
            size--;
    }
    while (size && strchr(blanks, name[size - 1]))
        size--;
    char *cut = stk__strndup(name, size);
    const char *unique = cut ? stk__names_unique(names, *cut ? cut : "(no name)", " #", 1) : NULL;
    stk__free(cut);
    return unique;
}

/* Times are in ns everywhere, as Bencher's own latency. Rates that decide are its throughput. */
static bool choose(const stk__export *ex, size_t metric, measure *out)
{
    const stk__metric *m = &ex->r->metrics[metric];
    const bool primary = metric == ex->r->primary;
    const bool told =
        primary || strcmp(m->name, "wall") == 0 || strcmp(m->name, "cpu") == 0 || strcmp(m->name, "rss") == 0;
    if (!told || !stk__bench_export_any(ex, metric))
        return false;
    const size_t size = strlen(m->unit);
    const bool rate = m->higher_is_better && size > 2 && strcmp(m->unit + size - 2, "/s") == 0;
    *out = (measure){metric,
                     strcmp(m->name, "wall") == 0 ? "latency"
                     : rate                       ? "throughput"
                                                  : m->name,
                     strcmp(m->unit, "s") == 0 ? 1e9 : 1};
    return true;
}

static void put_bound(const stk__export *ex, const char *key, double x)
{
    if (!isfinite(x))
        return;
    stk__text_printf(ex->out, ", \"%s\": ", key);
    stk__text_json_double(ex->out, x);
}

static stk_status put_measure(const stk__export *ex, size_t variant, const measure *m, const char *name,
                              size_t *written)
{
    stk__sample s;
    STK_TRY(stk__sample_take(ex->r, variant, m->metric, ex->c ? ex->c->rule.confidence : 0.95, &s, ex->err));
    if (s.summary.n && isfinite(s.summary.median * m->factor)) {
        stk__text_puts(ex->out, (*written)++ ? ", " : "");
        stk__text_json_str(ex->out, name);
        stk__text_puts(ex->out, ": {\"value\": ");
        stk__text_json_double(ex->out, s.summary.median * m->factor);
        put_bound(ex, "lower_value", s.low * m->factor);
        put_bound(ex, "upper_value", s.high * m->factor);
        stk__text_putc(ex->out, '}');
    }
    stk__sample_clear(&s);
    return STK_OK;
}

static stk_status put_variant(const stk__export *ex, size_t variant, stk__name_table *names, const measure *measures,
                              const stk__name_table *slots, size_t count)
{
    const stk__variant *v = &ex->r->variants[variant];
    const char *name = fit(names, v->name, MOST_NAME);
    size_t written = 0;
    if (!name)
        return stk__nomem(strlen(v->name), ex->err);
    stk__text_puts(ex->out, variant ? ",\n  " : "\n  ");
    stk__text_json_str(ex->out, name);
    stk__text_puts(ex->out, ": {");
    for (size_t i = 0; i < count; i++)
        STK_TRY(put_measure(ex, variant, &measures[i], slots->items[i], &written));
    stk__text_putc(ex->out, '}');
    return STK_OK;
}

static stk_status write_all(const stk__export *ex, stk__name_table *names, stk__name_table *slots)
{
    measure measures[4];
    size_t count = 0;
    for (size_t m = 0; m < ex->r->metric_count && count < STK_COUNT(measures); m++) {
        if (!choose(ex, m, &measures[count]))
            continue;
        if (!fit(slots, measures[count++].name, MOST_MEASURE))
            return stk__nomem(MOST_MEASURE, ex->err);
    }
    stk__text_putc(ex->out, '{');
    for (size_t i = 0; i < ex->r->variant_count; i++)
        STK_TRY(put_variant(ex, i, names, measures, slots, count));
    stk__text_puts(ex->out, "\n}\n");
    stk__bench_export_note(ex, "medians with their intervals were written, times in ns; Bencher holds no single runs");
    return STK_OK;
}

stk_status stk__write_bencher(const stk__export *ex)
{
    stk__name_table names = {0}, slots = {0};
    const stk_status status = write_all(ex, &names, &slots);
    stk__names_clear(&names);
    stk__names_clear(&slots);
    return status;
}
