/* From the results of a run to a row of the change log. */
#include "bench/log_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "bench/quantity.h"
#include "bench/words.h"
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

void stk__log_interval(double low, double high, double confidence, stk__text *out)
{
    stk__ratio(out, low);
    stk__text_puts(out, "..");
    stk__ratio(out, high);
    if (fabs(confidence - 0.95) > 1e-9)
        stk__text_printf(out, " (%g %%)", confidence * 100);
}

/* ---- columns ---- */

static const stk__metric *metric_of(const stk__log_figure *f)
{
    return &f->result->metrics[f->result->primary];
}

static stk_status check_metric(const stk__log_paths *paths, const stk__log_benchmark *b, const char *name,
                               const char *unit, bool higher, stk_error *err)
{
    if (strcmp(name, b->metric) != 0 || strcmp(unit, b->unit) != 0)
        return stk_error_set(err, STK_INVALID,
                             "%s has '%.60s' by '%.60s' (%.20s), this run by '%.60s' (%.20s): give it another name, or "
                             "use another file with --log",
                             paths->markdown, b->name, b->metric, b->unit, name, unit);
    if (higher != b->higher_is_better)
        return stk_error_set(err, STK_INVALID,
                             "in %s %s of '%.60s' is better, in this run %s: give it another name, or use another file "
                             "with --log",
                             paths->markdown, b->higher_is_better ? "more" : "less", b->name, higher ? "more" : "less");
    return STK_OK;
}

/* Whether any row says what the benchmark measures. */
static bool is_measured(const stk__log *log, size_t benchmark)
{
    for (size_t i = log->row_count; i-- > 0;) {
        if (log->rows[i].cells[benchmark].n)
            return true;
    }
    return false;
}

static stk_status set_metric(const stk__log_paths *paths, stk__log *log, size_t benchmark, const stk__metric *m,
                             stk_error *err)
{
    stk__log_benchmark *b = &log->benchmarks[benchmark];
    char *name = stk__log_clean(m->name), *unit = stk__log_clean(m->unit ? m->unit : "");
    stk_status status = name && unit ? STK_OK : stk__nomem(strlen(m->name), err);
    if (status == STK_OK && is_measured(log, benchmark)) {
        status = check_metric(paths, b, name, unit, m->higher_is_better, err);
    } else if (status == STK_OK) {
        stk__free(b->metric);
        stk__free(b->unit);
        b->metric = name;
        b->unit = unit;
        b->higher_is_better = m->higher_is_better;
        return STK_OK;
    }
    stk__free(name);
    stk__free(unit);
    return status;
}

static stk_status add_figure(const stk__log_figure *f, const stk__log_paths *paths, stk__log *log, size_t *out_index,
                             stk_error *err)
{
    char *name = stk__log_clean(f->name);
    if (!name)
        return stk__nomem(strlen(f->name), err);
    size_t index = stk__log_find(log, name);
    stk_status status = index == SIZE_MAX ? stk__log_add_benchmark(log, name, &index, err) : STK_OK;
    stk__free(name);
    STK_TRY(status);
    *out_index = index;
    return set_metric(paths, log, index, metric_of(f), err);
}

static stk_status add_pair(const stk__log_pair *p, stk__log *log, size_t *out_index, stk_error *err)
{
    char *name = stk__log_clean(p->name);
    if (!name)
        return stk__nomem(strlen(p->name), err);
    size_t index = stk__log_find_pair(log, name);
    const stk_status status = index == SIZE_MAX ? stk__log_add_pair(log, name, &index, err) : STK_OK;
    stk__free(name);
    STK_TRY(status);
    *out_index = index;
    return STK_OK;
}

/* Two of one name cannot be told apart, once they are in the file. */
static stk_status check_entry(const stk__log_entry *entry, stk_error *err)
{
    if (!entry->figure_count)
        return stk_error_set(err, STK_INVALID, "the run has no benchmark, wanted one for the log");
    for (size_t i = 0; i < entry->figure_count; i++) {
        if (!entry->figures[i].name[0])
            return stk_error_set(err, STK_INVALID, "benchmark %zu has no name, wanted one for the log", i + 1);
        for (size_t k = 0; k < i; k++) {
            if (strcmp(entry->figures[k].name, entry->figures[i].name) == 0)
                return stk_error_set(err, STK_INVALID, "two benchmarks are called '%.200s', wanted a name for each",
                                     entry->figures[i].name);
        }
    }
    return STK_OK;
}

stk_status stk__log_columns_add(const stk__log_entry *entry, const stk__log_paths *paths, stk__log *log, stk_error *err)
{
    size_t index;
    STK_TRY(check_entry(entry, err));
    for (size_t i = 0; i < entry->figure_count; i++)
        STK_TRY(add_figure(&entry->figures[i], paths, log, &index, err));
    for (size_t i = 0; i < entry->pair_count; i++)
        STK_TRY(add_pair(&entry->pairs[i], log, &index, err));
    return STK_OK;
}

/* ---- the past, from an earlier row ---- */

/*
 * The newest row of what this one was made from, its own commit when tracked files were changed and else the parent,
 * that has the benchmark too.
 */
static const stk__log_row *past_row(const stk__log *log, const stk__log_row *row, size_t benchmark)
{
    const char *commit = row->dirty ? row->commit : row->parent;
    for (size_t i = (size_t)(row - log->rows); commit[0] && i-- > 0;) {
        const stk__log_row *earlier = &log->rows[i];
        if (!earlier->dirty && strcmp(earlier->commit, commit) == 0 && earlier->cells[benchmark].n &&
            strcmp(stk__log_limits(earlier, benchmark), stk__log_limits(row, benchmark)) == 0 &&
            stk__words_same_machine(earlier, row))
            return earlier;
    }
    return NULL;
}

static bool has_spread(const stk__log_cell *cell)
{
    return cell->n > 1 && isfinite(cell->sd);
}

/* Welch on logs, from means and standard deviations: the variance of ln(mean) is about (sd / mean)^2 / n. */
static void set_unpaired(const stk__log_cell *then, double confidence, stk__log_cell *now)
{
    const double mean = log(now->mean / then->mean);
    now->ratio = exp(mean);
    if (!has_spread(then) || !has_spread(now))
        return;
    const double va = pow(then->sd / then->mean, 2) / (double)then->n,
                 vb = pow(now->sd / now->mean, 2) / (double)now->n;
    const double df = pow(va + vb, 2) / (va * va / (double)(then->n - 1) + vb * vb / (double)(now->n - 1));
    if (!isfinite(df) || !(df > 0))
        return;
    const double error = sqrt(va + vb), half = stk__student_quantile(1 - confidence, df) * error;
    const double low = exp(mean - half), high = exp(mean + half);
    if (!isfinite(low) || !isfinite(high))
        return;
    now->low = low;
    now->high = high;
    now->p = stk__student_p(mean / error, df);
}

static stk_status look_back(const stk__log *log, stk__log_row *row, size_t benchmark, stk_error *err)
{
    stk__log_cell *now = &row->cells[benchmark];
    const stk__log_row *earlier = past_row(log, row, benchmark);
    const stk__log_cell *then = earlier ? &earlier->cells[benchmark] : NULL;
    if (!then || !(then->mean > 0) || !(now->mean > 0) || !isfinite(now->mean / then->mean) ||
        !(now->mean / then->mean > 0))
        return STK_OK;
    set_unpaired(then, row->confidence, now);
    now->against = stk__strndup(earlier->commit, STK__LOG_BRIEF);
    return now->against ? STK_OK : stk__nomem(STK__LOG_BRIEF, err);
}

/* ---- cells ---- */

/* With too few rounds for an interval, low and high are but the least and the greatest: nothing for a log. */
static void take_ratio(const stk__comparison *c, double *ratio, double *low, double *high, double *p)
{
    if (!c->valid)
        return;
    *ratio = c->ratio;
    *p = c->p_holm;
    if (c->paired ? c->pair.covered : c->free.covered) {
        *low = c->low;
        *high = c->high;
    }
}

static stk_status set_past(const stk__log_figure *f, stk__log_cell *cell, stk_error *err)
{
    const stk__comparison *c = f->past;
    take_ratio(c, &cell->ratio, &cell->low, &cell->high, &cell->p);
    cell->paired = c->paired;
    cell->verdict = stk__strdup(stk__verdict_name(c->verdict));
    cell->against = stk__log_clean(f->against ? f->against : "?");
    return cell->verdict && cell->against ? STK_OK : stk__nomem(1, err);
}

static stk_status set_values(const stk__log_figure *f, stk__log_cell *cell, stk_error *err)
{
    const stk__result *r = f->result;
    const stk__variant *v = &r->variants[f->variant];
    double *known = stk__calloc(v->runs ? v->runs : 1, sizeof *known);
    if (!known)
        return stk__nomem(v->runs * sizeof *known, err);
    size_t n = 0;
    for (size_t i = 0; i < v->runs; i++) {
        if (isfinite(v->values[r->primary][i]))
            known[n++] = v->values[r->primary][i];
    }
    stk__summary s = {0};
    const stk_status status =
        n ? stk__describe(known, n, &s, err)
          : stk_error_set(err, STK_INVALID, "'%.200s' has no value of '%.100s', wanted one for the log", f->name,
                          metric_of(f)->name);
    stk__free(known);
    STK_TRY(status);
    cell->n = n;
    cell->mean = s.mean;
    cell->sd = s.sd;
    return STK_OK;
}

static stk_status set_cells(const stk__log_entry *entry, const stk__log_paths *paths, stk__log *log, stk__log_row *row,
                            stk_error *err)
{
    const bool same = row->limits[0] != 0;
    for (size_t i = 0; i < entry->figure_count; i++) {
        const stk__log_figure *f = &entry->figures[i];
        size_t index;
        STK_TRY(add_figure(f, paths, log, &index, err));
        stk__log_cell *cell = &row->cells[index];
        if (cell->n)
            return stk_error_set(err, STK_INVALID, "two benchmarks are called '%.200s' in the log", f->name);
        STK_TRY(set_values(f, cell, err));
        if (!same && f->result->limits && f->result->limits[0] && !(cell->limits = stk__log_clean(f->result->limits)))
            return stk__nomem(strlen(f->result->limits), err);
        STK_TRY(f->past ? set_past(f, cell, err) : look_back(log, row, index, err));
    }
    return STK_OK;
}

static stk_status set_beside(const stk__log_entry *entry, stk__log *log, stk__log_row *row, stk_error *err)
{
    for (size_t i = 0; i < entry->pair_count; i++) {
        const stk__comparison *c = entry->pairs[i].comparison;
        size_t index;
        STK_TRY(add_pair(&entry->pairs[i], log, &index, err));
        stk__log_beside *x = &row->beside[index];
        stk__free(x->verdict);
        *x = (stk__log_beside){NAN, NAN, NAN, NAN, c->paired, stk__strdup(stk__verdict_name(c->verdict))};
        if (!x->verdict)
            return stk__nomem(1, err);
        take_ratio(c, &x->ratio, &x->low, &x->high, &x->p);
    }
    return STK_OK;
}

/* ---- the row ---- */

/* The limits that all of them share; "" where they differ. */
static const char *common_limits(const stk__log_entry *entry)
{
    const char *first = entry->figures[0].result->limits;
    for (size_t i = 1; first && i < entry->figure_count; i++) {
        const char *other = entry->figures[i].result->limits;
        if (!other || strcmp(other, first) != 0)
            return "";
    }
    return first ? first : "";
}

/* The time at which the first of them began. */
static int64_t start_of(const stk__log_entry *entry)
{
    int64_t least = 0;
    for (size_t i = 0; i < entry->figure_count; i++) {
        const int64_t t = entry->figures[i].result->time_s;
        if (t > 0 && (!least || t < least))
            least = t;
    }
    return least ? least : (int64_t)time(NULL);
}

static stk_status set_facts(const stk__log_entry *entry, stk__log_row *row, stk_error *err)
{
    static const stk__commit none;
    const stk__commit *commit = entry->commit ? entry->commit : &none;
    const char *machine = entry->figures[0].result->machine;
    row->time_s = start_of(entry);
    row->dirty = commit->hash[0] && commit->dirty;
    row->commit = stk__strdup(commit->hash);
    row->parent = stk__strdup(commit->hash[0] ? commit->parent : "");
    row->machine = stk__log_clean(machine ? machine : "");
    row->limits = stk__log_clean(common_limits(entry));
    row->description = stk__log_clean(entry->description ? entry->description : commit->subject);
    row->confidence = entry->confidence > 0 && entry->confidence < 1 ? entry->confidence : 0.95;
    return row->commit && row->parent && row->machine && row->limits && row->description ? STK_OK : stk__nomem(1, err);
}

stk_status stk__log_row_add(const stk__log_entry *entry, const stk__log_paths *paths, stk__log *log, stk_error *err)
{
    stk__log_row *row;
    /* Columns first: they are what all rows get. */
    STK_TRY(stk__log_columns_add(entry, paths, log, err));
    STK_TRY(stk__log_add_row(log, &row, err));
    STK_TRY(set_facts(entry, row, err));
    STK_TRY(set_cells(entry, paths, log, row, err));
    return set_beside(entry, log, row, err);
}
