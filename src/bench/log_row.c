/* From the result of a run to a row of the change log: figures for programs, words for people. */
#include "bench/log_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "bench/count.h"
#include "bench/quantity.h"
#include "stats/distributions.h"

#include "base/banned.h"

char *stk__log_clean(const char *text)
{
    const size_t size = strlen(text);
    char *blank = stk__strdup(text);
    char *out = stk__alloc(size * 4 + 1); /* \xNN */
    if (blank && out) {
        for (char *c = blank; *c; c++)
            if (*c == '\n' || *c == '\r' || *c == '\t')
                *c = ' ';
        stk__escape_terminal(blank, out, size * 4 + 1);
    } else {
        stk__free(out);
        out = NULL;
    }
    stk__free(blank);
    return out;
}

void stk__log_row_clear(stk__log_row *row)
{
    stk__free(row->commit);
    stk__free(row->parent);
    stk__free(row->machine);
    stk__free(row->limits);
    stk__free(row->description);
    stk__free(row->cells);
    stk__free(row->compared);
    stk__free(row->verdict);
    *row = (stk__log_row){0};
}

void stk__log_words_clear(stk__log_words *words)
{
    stk__text_clear(&words->ratio);
    stk__text_clear(&words->interval);
    stk__text_clear(&words->verdict);
    stk__text_clear(&words->to_parent);
}

/* ---- benchmarks: the columns ---- */

/* The variants that are the run's benchmarks, with their names in the log. */
typedef struct columns {
    size_t *variants;
    char **names;
    size_t count;
} columns;

static void columns_clear(columns *c)
{
    for (size_t i = 0; i < c->count; i++)
        stk__free(c->names[i]);
    stk__free(c->names);
    stk__free(c->variants);
}

/* With `against` each group holds the older commit's variant first: the column is the one behind it. */
static bool is_column(const stk__result *r, size_t variant, bool against)
{
    if (!against)
        return true;
    size_t before = 0, all = 0;
    for (size_t i = 0; i < r->variant_count; i++) {
        if (r->variants[i].group != r->variants[variant].group)
            continue;
        all++;
        before += i < variant;
    }
    return before == (all > 1);
}

/* "lazy @ HEAD": "lazy". */
static char *column_name(const char *name, bool against)
{
    const char *cut = NULL;
    for (const char *at = name; against && (at = strstr(at, " @ ")); at++)
        cut = at;
    char *part = cut ? stk__strndup(name, (size_t)(cut - name)) : stk__strdup(name);
    char *clean = part ? stk__log_clean(part) : NULL;
    stk__free(part);
    return clean;
}

static stk_status columns_of(const stk__log_entry *entry, columns *out, stk_error *err)
{
    const stk__result *r = entry->result;
    columns c = {.variants = stk__calloc(r->variant_count, sizeof *c.variants),
                 .names = stk__calloc(r->variant_count, sizeof *c.names)};
    stk_status status = c.variants && c.names ? STK_OK : stk__nomem(r->variant_count * sizeof *c.names, err);
    for (size_t i = 0; status == STK_OK && i < r->variant_count; i++) {
        if (!is_column(r, i, entry->against != NULL))
            continue;
        c.variants[c.count] = i;
        c.names[c.count] = column_name(r->variants[i].name, entry->against != NULL);
        if (!c.names[c.count++])
            status = stk__nomem(strlen(r->variants[i].name), err);
    }
    if (status == STK_OK && !c.count)
        status = stk_error_set(err, STK_INVALID, "the run has no benchmark, wanted one for the log");
    if (status == STK_OK)
        *out = c;
    else
        columns_clear(&c);
    return status;
}

static size_t find_name(char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return SIZE_MAX;
}

static void list_names(stk__text *t, char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        stk__text_printf(t, "%s%s", i ? ", " : "", names[i]);
}

static stk_status other_benchmarks(const stk__log_paths *paths, const stk__log *log, const columns *c, stk_error *err)
{
    char has[140], run[140];
    stk__text t;
    stk__text_fixed(&t, has, sizeof has);
    list_names(&t, log->benchmarks, log->benchmark_count);
    stk__text_fixed(&t, run, sizeof run);
    list_names(&t, c->names, c->count);
    return stk_error_set(err, STK_INVALID,
                         "%s has the benchmarks %s; this run has %s: use another file with --log, or the same names",
                         paths->markdown, has, run);
}

/* A log without rows measures what the run does. */
static stk_status adopt_metric(stk__log *log, const stk__metric *metric, stk_error *err)
{
    stk__free(log->metric);
    log->metric = stk__log_clean(metric->name);
    bool ok = log->metric != NULL;
    for (size_t i = 0; i < log->benchmark_count; i++) {
        stk__free(log->units[i]);
        log->units[i] = stk__log_clean(metric->unit ? metric->unit : "");
        ok = ok && log->units[i];
    }
    return ok ? STK_OK : stk__nomem(strlen(metric->name), err);
}

/* A log without benchmarks gets those of the run. */
static stk_status adopt_names(stk__log *log, const columns *c, stk_error *err)
{
    log->benchmarks = stk__calloc(c->count, sizeof *log->benchmarks);
    log->units = stk__calloc(c->count, sizeof *log->units);
    if (!log->benchmarks || !log->units)
        return stk__nomem(c->count * sizeof *log->benchmarks, err);
    log->benchmark_count = c->count;
    for (size_t i = 0; i < c->count; i++)
        if (!(log->benchmarks[i] = stk__strdup(c->names[i])))
            return stk__nomem(strlen(c->names[i]), err);
    return STK_OK;
}

static stk_status check_metric(const stk__log_paths *paths, const stk__log *log, const stk__metric *metric,
                               stk_error *err)
{
    char *name = stk__log_clean(metric->name), *unit = stk__log_clean(metric->unit ? metric->unit : "");
    stk_status status = name && unit ? STK_OK : stk__nomem(strlen(metric->name), err);
    if (status == STK_OK && (strcmp(name, log->metric) != 0 || strcmp(unit, log->units[0]) != 0))
        status = stk_error_set(err, STK_INVALID,
                               "%s measures '%.60s' (%.20s), this run '%.60s' (%.20s): use another file with --log",
                               paths->markdown, log->metric, log->units[0], name, unit);
    stk__free(name);
    stk__free(unit);
    return status;
}

static stk_status cell_of(const stk__result *r, size_t variant, stk__log_cell *out, stk_error *err)
{
    const stk__variant *v = &r->variants[variant];
    double *known = stk__calloc(v->runs ? v->runs : 1, sizeof *known);
    if (!known)
        return stk__nomem(v->runs * sizeof *known, err);
    size_t n = 0;
    for (size_t i = 0; i < v->runs; i++)
        if (isfinite(v->values[r->primary][i]))
            known[n++] = v->values[r->primary][i];
    stk__summary s = {0};
    const stk_status status =
        n ? stk__describe(known, n, &s, err)
          : stk_error_set(err, STK_INVALID, "'%.200s' has no value of '%.100s', wanted one for the log", v->name,
                          r->metrics[r->primary].name);
    stk__free(known);
    if (status == STK_OK)
        *out = (stk__log_cell){.mean = s.mean, .sd = s.sd, .n = n};
    return status;
}

static bool same_names(const stk__log *log, const columns *c)
{
    for (size_t i = 0; i < log->benchmark_count; i++)
        if (find_name(c->names, c->count, log->benchmarks[i]) == SIZE_MAX)
            return false;
    return c->count == log->benchmark_count;
}

static stk_status check_columns(const stk__log_paths *paths, stk__log *log, const columns *c, const stk__metric *metric,
                                stk_error *err)
{
    if (!log->benchmark_count)
        STK_TRY(adopt_names(log, c, err));
    if (!same_names(log, c))
        return other_benchmarks(paths, log, c, err);
    return log->row_count ? check_metric(paths, log, metric, err) : adopt_metric(log, metric, err);
}

stk_status stk__log_columns_check(const stk__log_entry *entry, const stk__log_paths *paths, stk__log *log,
                                  stk_error *err)
{
    columns c = {0};
    STK_TRY(columns_of(entry, &c, err));
    const stk_status status = check_columns(paths, log, &c, &entry->result->metrics[entry->result->primary], err);
    columns_clear(&c);
    return status;
}

/* The figures in the order of the log, whatever the order of the run. */
static stk_status fill_cells(const stk__log_entry *entry, const stk__log_paths *paths, stk__log *log, stk__log_row *row,
                             stk_error *err)
{
    columns c = {0};
    STK_TRY(columns_of(entry, &c, err));
    stk_status status = check_columns(paths, log, &c, &entry->result->metrics[entry->result->primary], err);
    row->cells = stk__calloc(STK_MAX(c.count, 1), sizeof *row->cells);
    if (status == STK_OK && !row->cells)
        status = stk__nomem(c.count * sizeof *row->cells, err);
    for (size_t i = 0; status == STK_OK && i < log->benchmark_count; i++)
        status =
            cell_of(entry->result, c.variants[find_name(c.names, c.count, log->benchmarks[i])], &row->cells[i], err);
    columns_clear(&c);
    return status;
}

/* ---- comparisons ---- */

static double confidence_of(const stk__log_entry *entry)
{
    const double c = entry->comparisons ? entry->comparisons->rule.confidence : 0;
    return c > 0 && c < 1 ? c : 0.95;
}

static size_t comparison_count(const stk__log_entry *entry)
{
    return entry->comparisons ? entry->comparisons->count : 0;
}

static void put_compared(const stk__log_entry *entry, const stk__comparison *c, stk__text *out)
{
    const stk__variant *variants = entry->result->variants;
    if (entry->against) {
        char *name = column_name(variants[c->b].name, true);
        stk__text_puts(out, name ? name : "");
        out->failed |= !name;
        stk__free(name);
    } else {
        stk__text_printf(out, "%s/%s", variants[c->b].name, variants[c->a].name);
    }
}

static void put_interval(double low, double high, double confidence, stk__text *out)
{
    stk__ratio(out, low);
    stk__text_puts(out, "..");
    stk__ratio(out, high);
    if (fabs(confidence - 0.95) > 1e-9)
        stk__text_printf(out, " (%g %%)", confidence * 100);
}

static void put_verdict(const stk__result *r, const stk__comparison *c, stk__text *out)
{
    const bool count = stk__is_count(&r->metrics[c->metric]);
    if (count && (c->verdict == STK__FASTER || c->verdict == STK__SLOWER))
        stk__text_puts(out, c->verdict == STK__FASTER ? "fewer" : "more");
    else
        stk__text_puts(out, stk__verdict_name(c->verdict));
    if (c->withheld)
        stk__text_printf(out, ": %s", c->withheld);
}

/* "0.963 (0.941..0.985)" */
static void put_both(const stk__comparison *c, double confidence, stk__text *out)
{
    stk__ratio(out, c->ratio);
    stk__text_puts(out, " (");
    put_interval(c->low, c->high, confidence, out);
    stk__text_puts(out, ")");
}

/* Where there are several, each with its names. */
static void comparison_words(const stk__log_entry *entry, stk__log_words *words)
{
    const size_t count = comparison_count(entry);
    const double confidence = confidence_of(entry);
    stk__text *const texts[] = {&words->ratio, &words->interval, &words->verdict, &words->to_parent};
    for (size_t i = 0; i < count; i++) {
        const stk__comparison *c = &entry->comparisons->items[i];
        for (size_t t = 0; t < STK_COUNT(texts) - !entry->against; t++) {
            stk__text_puts(texts[t], i ? "; " : "");
            if (count > 1) {
                put_compared(entry, c, texts[t]);
                stk__text_putc(texts[t], ' ');
            }
            if (texts[t] == &words->verdict)
                put_verdict(entry->result, c, texts[t]);
            else if (!c->valid)
                stk__text_putc(texts[t], '-');
            else if (texts[t] == &words->ratio)
                stk__ratio(texts[t], c->ratio);
            else if (texts[t] == &words->interval)
                put_interval(c->low, c->high, confidence, texts[t]);
            else
                put_both(c, confidence, texts[t]);
        }
    }
    if (entry->against && count)
        stk__text_printf(&words->to_parent, " %s, %s", entry->comparisons->items[0].paired ? "paired" : "unpaired",
                         entry->against);
}

static stk_status fill_comparison(const stk__log_entry *entry, stk__log_row *row, stk_error *err)
{
    row->ratio = row->low = row->high = row->p = NAN;
    stk__text compared = STK__TEXT_INIT;
    stk__text_puts(&compared, entry->against ? entry->against : "");
    if (comparison_count(entry)) {
        const stk__comparison *c = &entry->comparisons->items[0];
        if (!entry->against)
            put_compared(entry, c, &compared);
        if (c->valid)
            row->ratio = c->ratio, row->low = c->low, row->high = c->high, row->p = c->p_holm;
        row->paired = c->paired;
        row->verdict = stk__strdup(stk__verdict_name(c->verdict));
    } else {
        row->verdict = stk__strdup("");
    }
    row->compared = compared.failed ? NULL : stk__log_clean(compared.data);
    stk__text_clear(&compared);
    return row->verdict && row->compared ? STK_OK : stk__nomem(1, err);
}

/* ---- the parent, from an earlier row ---- */

/* Without the kernel's version: an update keeps the history. */
static size_t machine_length(const char *machine)
{
    const char *kernel = strstr(machine, ", Linux ");
    return kernel ? (size_t)(kernel - machine) : strlen(machine);
}

static bool same_machine(const char *a, const char *b)
{
    const size_t n = machine_length(a);
    return n == machine_length(b) && memcmp(a, b, n) == 0;
}

/* The newest row of what this one was made from: its own commit when tracked files were changed, else the parent. */
static const stk__log_row *parent_row(const stk__log *log, const stk__log_row *row)
{
    const char *parent = row->dirty ? row->commit : row->parent;
    for (size_t i = log->row_count; parent[0] && i-- > 0;) {
        const stk__log_row *earlier = &log->rows[i];
        if (!earlier->dirty && strcmp(earlier->commit, parent) == 0 && strcmp(earlier->limits, row->limits) == 0 &&
            same_machine(earlier->machine, row->machine))
            return earlier;
    }
    return NULL;
}

typedef struct log_ratio {
    double mean;        /* of ln(now / then) over the benchmarks */
    double error;       /* its standard error */
    double df;          /* degrees of freedom of that */
    bool known, spread; /* mean is known; error as well */
} log_ratio;

/*
 * Welch on logs, from means and standard deviations: the variance of ln(mean) is about (sd / mean)^2 / n. Benchmarks of
 * one run share the state of the machine, so their errors are added as if they always went the same way.
 */
static log_ratio ratio_to(size_t count, const stk__log_row *then, const stk__log_row *now)
{
    log_ratio out = {.df = HUGE_VAL, .known = true, .spread = true};
    for (size_t i = 0; i < count; i++) {
        const stk__log_cell *a = &then->cells[i], *b = &now->cells[i];
        if (!(a->mean > 0) || !(b->mean > 0))
            return (log_ratio){.known = false};
        out.mean += log(b->mean / a->mean) / (double)count;
        if (a->n < 2 || b->n < 2 || !isfinite(a->sd) || !isfinite(b->sd)) {
            out.spread = false;
            continue;
        }
        const double va = pow(a->sd / a->mean, 2) / (double)a->n, vb = pow(b->sd / b->mean, 2) / (double)b->n;
        out.error += sqrt(va + vb) / (double)count;
        const double df = pow(va + vb, 2) / (va * va / (double)(a->n - 1) + vb * vb / (double)(b->n - 1));
        if (isfinite(df) && df > 0)
            out.df = STK_MIN(out.df, df);
    }
    out.spread = out.spread && isfinite(out.df) && isfinite(out.error);
    out.known = isfinite(out.mean);
    return out;
}

static void parent_words(const stk__log_entry *entry, const stk__log *log, const stk__log_row *row, stk__text *out)
{
    const stk__log_row *then = parent_row(log, row);
    const log_ratio x = then ? ratio_to(log->benchmark_count, then, row) : (log_ratio){.known = false};
    if (!x.known)
        return;
    stk__ratio(out, exp(x.mean));
    const double confidence = confidence_of(entry);
    if (x.spread) {
        const double half = stk__student_quantile(1 - confidence, x.df) * x.error;
        stk__text_puts(out, " (");
        put_interval(exp(x.mean - half), exp(x.mean + half), confidence, out);
        stk__text_puts(out, ")");
    }
    stk__text_puts(out, " unpaired");
}

/* ---- the row ---- */

static stk_status fill_facts(const stk__log_entry *entry, stk__log_row *row, stk_error *err)
{
    static const stk__commit none;
    const stk__commit *commit = entry->commit ? entry->commit : &none;
    const stk__result *r = entry->result;
    row->time_s = r->time_s > 0 ? r->time_s : (int64_t)time(NULL);
    row->dirty = commit->hash[0] && commit->dirty;
    row->commit = stk__strdup(commit->hash);
    row->parent = stk__strdup(commit->hash[0] ? commit->parent : "");
    row->machine = stk__log_clean(r->machine ? r->machine : "");
    row->limits = stk__log_clean(r->limits ? r->limits : "");
    row->description = stk__log_clean(entry->description ? entry->description : commit->subject);
    return row->commit && row->parent && row->machine && row->limits && row->description ? STK_OK : stk__nomem(1, err);
}

stk_status stk__log_row_make(const stk__log_entry *entry, const stk__log_paths *paths, stk__log *log,
                             stk__log_row *out_row, stk__log_words *out_words, stk_error *err)
{
    stk__log_row row = {0};
    const stk__commit *commit = entry->commit;
    stk__log_words words = {.brief = !commit ? "" : commit->brief[0] ? commit->brief : commit->hash};
    stk_status status = fill_facts(entry, &row, err);
    if (status == STK_OK)
        status = fill_cells(entry, paths, log, &row, err);
    if (status == STK_OK)
        status = fill_comparison(entry, &row, err);
    if (status == STK_OK) {
        comparison_words(entry, &words);
        if (!entry->against)
            parent_words(entry, log, &row, &words.to_parent);
        *out_row = row;
        *out_words = words;
        return STK_OK;
    }
    stk__log_row_clear(&row);
    return status;
}
