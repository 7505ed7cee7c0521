/* Other metrics, interference and circumstances of a result, as lines for the terminal. */
#include "bench/report_parts.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/count.h"
#include "bench/quantity.h"
#include "bench/table.h"
#include "bench/words.h"

#include "base/banned.h"

enum { METRICS_SHOWN = 10, DIFFERENCES_SHOWN = 4 };

static const struct disturbance {
    const char *metric, *name;
    double notable, shown; /* worth a line; worth a word in it */
} disturbances[] = {{"steal", "steal", 0.01, 0.001},
                    {"pressure_cpu", "CPU pressure", 0.05, 0.01},
                    {"pressure_io", "I/O pressure", 0.05, 0.01},
                    {"pressure_memory", "memory pressure", 0.05, 0.01}};

static bool is_disturbance(const char *metric)
{
    for (size_t i = 0; i < STK_COUNT(disturbances); i++) {
        if (strcmp(metric, disturbances[i].metric) == 0)
            return true;
    }
    return false;
}

/* Something is known of it, and not only zeros. */
static bool metric_tells(const stk__result *r, size_t metric)
{
    for (size_t i = 0; i < r->variant_count; i++) {
        for (size_t k = 0; k < r->variants[i].runs; k++) {
            const double x = r->variants[i].values[metric][k];
            if (isfinite(x) && x != 0)
                return true;
        }
    }
    return false;
}

static const stk__comparisons *others_of(const stk__comparisons *others, size_t count, size_t metric)
{
    for (size_t i = 0; i < count; i++) {
        if (others[i].count && others[i].items[0].metric == metric)
            return &others[i];
    }
    return NULL;
}

static void put_median(const stk__result *r, size_t variant, size_t metric, stk__table *t, stk__text *cell)
{
    stk__sample s;
    if (stk__sample_take(r, variant, metric, 0.95, &s, NULL) != STK_OK) {
        t->failed = true;
        return;
    }
    stk__quantity(cell, s.summary.median, r->metrics[metric].unit);
    stk__table_take(t, cell);
    stk__sample_clear(&s);
}

/* A line per metric: "cpu  15.2 s  14.6 s  B/A 0.961 (0.950..0.972)". */
static void put_by_metric(const stk__result *r, const size_t *metrics, size_t count, const stk__comparisons *others,
                          size_t others_count, stk__text *out)
{
    static const stk__column columns[] = {
        {.gap = 2, .most = 30}, {.right = true, .gap = 2}, {.right = true, .gap = 2}, {.gap = 1}, {0}};
    stk__table t;
    stk__table_init(&t, columns, STK_COUNT(columns));
    stk__text cell = STK__TEXT_INIT;
    for (size_t i = 0; i < count; i++) {
        stk__table_cell(&t, r->metrics[metrics[i]].name);
        put_median(r, 0, metrics[i], &t, &cell);
        if (r->variant_count > 1)
            put_median(r, 1, metrics[i], &t, &cell);
        else
            stk__table_cell(&t, "");
        const stk__comparisons *c = others_of(others, others_count, metrics[i]);
        if (c && c->items[0].valid) {
            stk__words_pair(&c->items[0], &cell);
            stk__text_putc(&cell, ' ');
            stk__ratio(&cell, c->items[0].ratio);
        }
        stk__table_take(&t, &cell);
        if (c && c->items[0].valid) {
            stk__text_putc(&cell, '(');
            stk__words_interval(c->items[0].low, c->items[0].high, &cell);
            stk__text_putc(&cell, ')');
        }
        stk__table_take(&t, &cell);
    }
    stk__table_put(&t, 2, out);
    stk__text_clear(&cell);
    stk__table_clear(&t);
}

static const stk__comparison *comparison_of(const stk__comparisons *c, size_t variant)
{
    for (size_t i = 0; c && i < c->count; i++) {
        if (c->items[i].b == variant && c->items[i].valid)
            return &c->items[i];
    }
    return NULL;
}

/* A line per variant, a column per metric, and one for the ratio to the first where there is one. */
static void put_by_variant(const stk__result *r, const size_t *metrics, size_t count, const stk__comparisons *others,
                           size_t others_count, stk__text *out)
{
    stk__column columns[STK__TABLE_COLUMNS] = {{.gap = 2}};
    size_t n = 1;
    stk__table t;
    stk__text cell = STK__TEXT_INIT;
    for (size_t i = 0; i < count; i++) {
        columns[n++] = (stk__column){.right = true, .gap = others_of(others, others_count, metrics[i]) ? 1 : 2};
        columns[n++] = (stk__column){.gap = 2};
    }
    stk__table_init(&t, columns, n);
    stk__table_cell(&t, "");
    for (size_t i = 0; i < count; i++) {
        stk__put_safe(&cell, r->metrics[metrics[i]].name, 16);
        stk__table_take(&t, &cell);
        stk__table_cell(&t, "");
    }
    for (size_t v = 0; v < r->variant_count; v++) {
        char letters[8];
        stk__variant_letters(v, letters);
        stk__table_cell(&t, letters);
        for (size_t i = 0; i < count; i++) {
            put_median(r, v, metrics[i], &t, &cell);
            const stk__comparison *x = comparison_of(others_of(others, others_count, metrics[i]), v);
            if (x) {
                stk__text_putc(&cell, '(');
                stk__ratio(&cell, x->ratio);
                stk__text_putc(&cell, ')');
            }
            stk__table_take(&t, &cell);
        }
    }
    stk__text_puts(out, others_count ? "  medians (and ratios)\n" : "  medians\n");
    stk__table_put(&t, 2, out);
    stk__text_clear(&cell);
    stk__table_clear(&t);
}

void stk__report_others(const stk__result *r, const stk__comparisons *c, const stk__comparisons *others,
                        size_t others_count, stk__text *out)
{
    /* In this order where they are there; what a command printed itself comes first. */
    static const char *const order[] = {"wall",         "cpu",          "user",     "system",     "rss",
                                        "minor_faults", "major_faults", "switches", "preemptions"};
    size_t metrics[METRICS_SHOWN], count = 0, left = 0;
    const size_t decides = stk__words_metric(r, c);
    for (size_t pass = 0; pass < 2; pass++) {
        for (size_t k = 0; k < (pass ? STK_COUNT(order) : r->metric_count); k++) {
            const size_t m = pass ? stk__result_metric(r, order[k]) : k;
            bool ordered = false;
            for (size_t i = 0; i < STK_COUNT(order) && !pass; i++)
                ordered = ordered || strcmp(r->metrics[m].name, order[i]) == 0;
            if (m == SIZE_MAX || m == decides || ordered || is_disturbance(r->metrics[m].name) ||
                stk__is_count(&r->metrics[m]) /* which have lines of their own */ || !metric_tells(r, m))
                continue;
            if (count < METRICS_SHOWN)
                metrics[count++] = m;
            else
                left++;
        }
    }
    if (count == 0)
        return;
    stk__text_putc(out, '\n');
    if (r->variant_count <= 2)
        put_by_metric(r, metrics, count, others, others_count, out);
    else
        put_by_variant(r, metrics, count, others, others_count, out);
    if (left)
        stk__text_printf(out, "  and %zu more metric%s\n", left, left == 1 ? "" : "s");
}

typedef struct level {
    size_t n;
    double mean, error; /* standard error of the mean */
} level;

static level level_of(const stk__result *r, size_t variant, size_t metric)
{
    const stk__variant *v = &r->variants[variant];
    level l = {0};
    double squares = 0;
    for (size_t i = 0; i < v->runs; i++) {
        const double x = v->values[metric][i];
        if (!isfinite(x))
            continue;
        const double off = x - l.mean;
        l.mean += off / (double)++l.n;
        squares += off * (x - l.mean);
    }
    if (l.n > 1)
        l.error = sqrt(squares / (double)(l.n - 1) / (double)l.n);
    return l;
}

static double overall(const stk__result *r, size_t metric)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < r->variant_count; i++) {
        const level l = level_of(r, i, metric);
        sum += l.mean * (double)l.n;
        n += l.n;
    }
    return n ? sum / (double)n : 0;
}

static size_t first_of_group(const stk__result *r, size_t variant)
{
    size_t a = 0;
    while (r->variants[a].group != r->variants[variant].group)
        a++;
    return a;
}

/* "B had more steal than A: 3.1 % against 0.2 %": a point or more, and past what chance would do. */
static void put_differences(const stk__result *r, const struct disturbance *d, size_t metric, size_t *told,
                            stk__text *out)
{
    for (size_t b = 0; b < r->variant_count; b++) {
        const size_t a = first_of_group(r, b);
        const level x = level_of(r, a, metric), y = level_of(r, b, metric);
        const double off = fabs(x.mean - y.mean);
        /* Both are shares, so the squares neither overflow nor vanish; hypot() would ask for glibc 2.35. */
        const double error = sqrt(x.error * x.error + y.error * y.error);
        if (x.n < 2 || y.n < 2 || off < 0.01 || off < 2.5 * error)
            continue;
        if (++*told > DIFFERENCES_SHOWN)
            continue;
        char names[2][8];
        const bool more = y.mean > x.mean;
        stk__variant_letters(more ? b : a, names[0]);
        stk__variant_letters(more ? a : b, names[1]);
        stk__text_printf(out, "  %s had more %s than %s: ", names[0], d->name, names[1]);
        stk__quantity(out, fmax(x.mean, y.mean), "share");
        stk__text_puts(out, " against ");
        stk__quantity(out, fmin(x.mean, y.mean), "share");
        stk__text_putc(out, '\n');
    }
}

void stk__report_interference(const stk__result *r, stk__text *out)
{
    bool notable = false;
    double means[STK_COUNT(disturbances)] = {0};
    for (size_t i = 0; i < STK_COUNT(disturbances); i++) {
        const size_t metric = stk__result_metric(r, disturbances[i].metric);
        if (metric == SIZE_MAX)
            continue;
        means[i] = overall(r, metric);
        notable = notable || means[i] >= disturbances[i].notable;
    }
    const char *before = "\n  interference: ";
    for (size_t i = 0; notable && i < STK_COUNT(disturbances); i++) {
        if (means[i] < disturbances[i].shown)
            continue;
        stk__text_printf(out, "%s%s ", before, disturbances[i].name);
        stk__quantity(out, means[i], "share");
        before = ", ";
    }
    if (notable)
        stk__text_putc(out, '\n');
    size_t told = 0;
    for (size_t i = 0; i < STK_COUNT(disturbances); i++) {
        const size_t metric = stk__result_metric(r, disturbances[i].metric);
        if (metric != SIZE_MAX)
            put_differences(r, &disturbances[i], metric, &told, out);
    }
    if (told > DIFFERENCES_SHOWN)
        stk__text_printf(out, "  and %zu more differences of that kind\n", told - DIFFERENCES_SHOWN);
}

static size_t most_runs(const stk__result *r)
{
    size_t most = 0;
    for (size_t i = 0; i < r->variant_count; i++)
        most = STK_MAX(most, r->variants[i].runs);
    return most;
}

/* "order: random blocks, seed 42; warm-up 1 run each; 12 rounds (1 dropped, 2 taken again)" */
static void put_order(const stk__result *r, stk__text *out)
{
    const size_t runs = most_runs(r);
    const bool alone = r->variant_count < 2;
    stk__text_puts(out, "  order: ");
    if (alone)
        stk__text_puts(out, "one variant; ");
    else if (r->paired)
        stk__text_printf(out, "random blocks, seed %llu; ", (unsigned long long)r->seed);
    else
        stk__text_puts(out, "not controlled; ");
    if (r->warmup)
        stk__text_printf(out, "warm-up %zu run%s%s; ", r->warmup, r->warmup == 1 ? "" : "s", alone ? "" : " each");
    const char *word = r->paired && !alone ? "round" : "run";
    stk__text_printf(out, "%s%zu %s%s", r->paired || alone ? "" : "up to ", runs, word, runs == 1 ? "" : "s");
    if (r->dropped || r->retaken) {
        stk__text_puts(out, " (");
        if (r->dropped)
            stk__text_printf(out, "%zu dropped%s", r->dropped, r->retaken ? ", " : "");
        if (r->retaken)
            stk__text_printf(out, "%zu taken again", r->retaken);
        stk__text_putc(out, ')');
    }
    stk__text_puts(out, r->interrupted ? "; interrupted\n" : "\n");
}

static void put_named(const char *name, const char *text, stk__text *out)
{
    if (!text || !text[0])
        return;
    stk__text_printf(out, "  %s: ", name);
    stk__put_safe(out, text, 0);
    stk__text_putc(out, '\n');
}

void stk__report_circumstances(const stk__result *r, stk__text *out)
{
    stk__text_putc(out, '\n');
    put_order(r, out);
    put_named("limits", r->limits, out);
    put_named("machine", r->machine, out);
    for (size_t i = 0; i < r->note_count; i++)
        put_named("note", r->notes[i], out);
}
