/* stoker bench --suite: many comparisons and limits as one table, for the terminal, a page and programs. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "bench.h"
#include "bench/count.h"
#include "bench/machine.h"
#include "bench/quantity.h"
#include "bench/section.h"

#include "base/banned.h"

enum { MOST_FILE = 16 << 20 };

/* One line of the table. */
typedef struct row {
    const stk__suite_entry *entry;
    stk__result result;
    double value, low, high; /* compare: how many times as good a is as b; measure: median, least, greatest */
    size_t n;
    bool covered;            /* low and high are at the confidence that was asked for */
    bool judged, met, clear; /* clear: the whole interval, or every run, lies on that side of the target */
    char *failure;           /* why there are no figures, or NULL */
} row;

typedef struct table {
    const bench_context *x;
    stk__suite suite;
    row *rows;
    size_t count;
    bool interrupted;
} table;

int bench_suite_read(const char *path, bool ladder, stk__suite *out)
{
    stk_error err = {0};
    char *text = NULL;
    size_t size = 0;
    stk_status status = stk__read_file(path, MOST_FILE, &text, &size, &err);
    if (status == STK_OK)
        status = stk__suite_parse(text, size, path, out, &err);
    if (status == STK_OK && ladder && !out->step_count)
        status = stk_error_set(&err, STK_INVALID, "%s has no [[step]]; --suite runs [[compare]] and [[measure]]", path);
    if (status == STK_OK && !ladder && !out->entry_count)
        status =
            stk_error_set(&err, STK_INVALID, "%s has no [[compare]] and no [[measure]]; --ladder runs [[step]]", path);
    stk__free(text);
    return status == STK_OK ? CLI_OK : bench_fail(&err);
}

static int table_read(table *z, const char *path)
{
    const int code = bench_suite_read(path, false, &z->suite);
    if (code != CLI_OK)
        return code;
    z->rows = stk__calloc(z->suite.entry_count, sizeof *z->rows);
    if (z->rows)
        return CLI_OK;
    cli_say("stoker: out of memory");
    return CLI_FAILED;
}

static void table_clear(table *z)
{
    for (size_t i = 0; z->rows && i < z->suite.entry_count; i++) {
        stk__result_clear(&z->rows[i].result);
        stk__free(z->rows[i].failure);
    }
    stk__free(z->rows);
    stk__suite_clear(&z->suite);
}

/* ---- measuring ---- */

static const char *side_name(const stk__suite_entry *e, bool b)
{
    const char *given = b ? e->b_name : e->a_name;
    return given ? given : !e->b ? e->name : b ? "b" : "a";
}

static int row_trials(const table *z, const row *w, const stk__suite_options *options, bench_trials *out)
{
    const stk__suite_entry *e = w->entry;
    int code = bench_trials_add(out, side_name(e, false), e->a, options, z->x->design);
    if (code == CLI_OK && e->b)
        code = bench_trials_add(out, side_name(e, true), e->b, options, z->x->design);
    return code;
}

static void row_judge(row *w)
{
    const stk__suite_entry *e = w->entry;
    w->judged = !isnan(e->at_least) || !isnan(e->at_most);
    if (!w->judged)
        return;
    w->met = w->clear = true;
    if (!isnan(e->at_least)) {
        w->met = w->value >= e->at_least;
        w->clear = w->low >= e->at_least || w->high < e->at_least;
    }
    if (!isnan(e->at_most)) {
        w->met = w->met && w->value <= e->at_most;
        w->clear = w->clear && (w->high <= e->at_most || w->low > e->at_most);
    }
    w->clear = w->clear && w->covered;
    /* A limit is for every run, not for the median one. */
    if (!e->b && !w->clear)
        w->met = false;
}

static stk_status row_compare(row *w, const stk__rule *rule, stk_error *err)
{
    const stk__compare_pair pair = {0, 1};
    const stk__result *r = &w->result;
    stk__comparisons c;
    STK_TRY(stk__compare(r, rule, &pair, 1, r->primary, &c, err));
    const stk__comparison *x = &c.items[0];
    /* The ratio is b / a. Of a time that is how many times as fast a is; of a rate it is the other way round. */
    const bool turn = r->metrics[r->primary].higher_is_better;
    w->value = turn ? 1 / x->ratio : x->ratio;
    w->low = turn ? 1 / x->high : x->low;
    w->high = turn ? 1 / x->low : x->high;
    w->n = x->n;
    w->covered = x->valid && (x->paired ? x->pair.covered : x->free.covered);
    stk_status status = STK_OK;
    if (x->withheld) {
        /* Computes something else, or has no ratio: no figure that could be taken for a verdict. */
        w->failure = stk__strdup(x->withheld);
        status = w->failure ? STK_OK : stk__nomem(strlen(x->withheld), err);
    }
    stk__comparisons_clear(&c);
    return status;
}

static stk_status row_figures(row *w, const stk__rule *rule, stk_error *err)
{
    stk__summary s;
    if (w->entry->b)
        return row_compare(w, rule, err);
    const stk__variant *v = &w->result.variants[0];
    STK_TRY(stk__describe(v->values[w->result.primary], v->runs, &s, err));
    w->value = s.median;
    w->low = s.min;
    w->high = s.max;
    w->n = s.n;
    w->covered = true;
    return STK_OK;
}

static int row_measure(table *z, row *w)
{
    const stk__suite_options options = stk__suite_merge(&z->suite.options, &w->entry->options);
    const bench_design_options d = bench_merge(z->x->design, &options);
    const bench_rule_options rule_options = bench_merge_rule(z->x->rule, &options);
    const stk__rule rule = bench_rule(&rule_options, d.metric);
    const stk__compare_pair pair = {0, 1};
    bench_trials trials = {0};
    stk_error err = {0};
    int code = row_trials(z, w, &options, &trials);
    if (code == CLI_OK)
        code = bench_metrics(&w->result, &d, true);
    if (code == CLI_OK) {
        stk__experiment e = bench_experiment(&trials, &d, &rule_options, z->x->output->quiet);
        e.pairs = &pair;
        e.pair_count = w->entry->b ? 1 : 0;
        code = bench_run(&e, z->x->launcher, &w->result);
    }
    z->interrupted = w->result.interrupted;
    const bool measured = w->result.variant_count && w->result.variants[0].runs;
    if (code == CLI_OK && measured && row_figures(w, &rule, &err) != STK_OK)
        code = bench_fail(&err);
    if (code == CLI_OK && measured && !w->failure)
        row_judge(w);
    else if (!w->failure)
        w->failure = stk__strdup(w->result.interrupted ? "interrupted" : "did not run");
    bench_trials_clear(&trials);
    return code;
}

/* ---- words ---- */

static const char *row_unit(const row *w)
{
    return w->entry->b || !w->result.metric_count ? "" : w->result.metrics[w->result.primary].unit;
}

static void put_figure(stk__text *t, const row *w, double value)
{
    if (w->entry->b)
        stk__ratio(t, value);
    else
        stk__quantity(t, value, row_unit(w));
}

static void put_range(stk__text *t, const row *w)
{
    put_figure(t, w, w->low);
    stk__text_puts(t, " to ");
    put_figure(t, w, w->high);
}

static void put_target(stk__text *t, const row *w)
{
    const stk__suite_entry *e = w->entry;
    if (!isnan(e->at_least)) {
        stk__text_puts(t, "at least ");
        put_figure(t, w, e->at_least);
    }
    if (!isnan(e->at_most)) {
        stk__text_puts(t, isnan(e->at_least) ? "at most " : ", at most ");
        put_figure(t, w, e->at_most);
    }
}

static const char *outcome(const row *w)
{
    if (!w->judged)
        return "";
    if (!w->entry->b || w->clear)
        return w->met ? "ok" : "MISSED";
    return w->met ? "ok, within noise" : "MISSED, within noise";
}

static void print_row(const row *w)
{
    stk__text t = STK__TEXT_INIT, line = STK__TEXT_INIT;
    stk__text_printf(&t, "%s: ", w->entry->name);
    if (w->failure) {
        stk__text_puts(&t, w->failure);
    } else {
        put_figure(&t, w, w->value);
        stk__text_puts(&t, " (");
        put_range(&t, w);
        stk__text_printf(&t, ", n=%zu)", w->n);
        if (w->judged) {
            stk__text_puts(&t, "  ");
            put_target(&t, w);
            stk__text_printf(&t, ": %s", outcome(w));
        }
    }
    /* Names and units come from the file. */
    cli_text_escaped(&line, t.failed ? "" : t.data);
    line.failed = line.failed || t.failed;
    stk__text_clear(&t);
    stk__text_putc(&line, '\n');
    stk__count_lines(&w->result, NULL, "  ", &line);
    cli_out_text(&line);
    cli_out_flush();
}

/* ---- the page ---- */

static void page_ratios(const table *z, stk__text *t)
{
    stk__text_printf(
        t, "| work | median | %.4g %% interval, or least to greatest | runs | target |  |\n|---|---|---|---|---|---|\n",
        100 * z->x->rule->confidence);
    for (size_t i = 0; i < z->count; i++) {
        const row *w = &z->rows[i];
        stk__text_puts(t, "| ");
        stk__markdown_cell(t, w->entry->name);
        if (w->failure) {
            stk__text_puts(t, " | ");
            stk__markdown_cell(t, w->failure);
            stk__text_puts(t, " |  |  |  |  |\n");
            continue;
        }
        stk__text_puts(t, " | ");
        put_figure(t, w, w->value);
        stk__text_puts(t, " | ");
        put_range(t, w);
        stk__text_printf(t, " | %zu | ", w->n);
        put_target(t, w);
        stk__text_printf(t, " | %s |\n", outcome(w));
    }
}

static double median_of(const stk__variant *v, size_t metric)
{
    stk__summary s;
    for (size_t i = 0; i < v->runs; i++) {
        if (!isfinite(v->values[metric][i]))
            return NAN;
    }
    return v->runs && stk__describe(v->values[metric], v->runs, &s, NULL) == STK_OK ? s.median : NAN;
}

static void page_contestants(const table *z, stk__text *t)
{
    stk__text_puts(t, "\n| work | who | median | CPU time | CPU-seconds per 1,000 samples | peak memory |\n"
                      "|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < z->count; i++) {
        const stk__result *r = &z->rows[i].result;
        if (z->rows[i].failure || !z->rows[i].entry->b)
            continue;
        for (size_t k = 0; k < r->variant_count; k++) {
            const stk__variant *v = &r->variants[k];
            const double per_1000 = median_of(v, stk__result_metric(r, "cpu_per_1000"));
            stk__text_puts(t, "| ");
            stk__markdown_cell(t, z->rows[i].entry->name);
            stk__text_puts(t, " | ");
            stk__markdown_cell(t, v->name);
            stk__text_puts(t, " | ");
            stk__quantity(t, median_of(v, r->primary), r->metrics[r->primary].unit);
            stk__text_puts(t, " | ");
            stk__quantity(t, median_of(v, STK__CPU), "s");
            if (isfinite(per_1000))
                stk__text_printf(t, " | %.3g | ", per_1000);
            else
                stk__text_puts(t, " |  | ");
            stk__quantity(t, median_of(v, STK__RSS), "bytes");
            stk__text_puts(t, " |\n");
        }
    }
}

/* The seed that all rows share, and their limits, each once. */
static void put_circumstances(const table *z, const char *before, stk__text *t)
{
    const char *last = "";
    stk__text_printf(t, "%sorder: random blocks, seed %lld\n", before, (long long)z->x->design->seed);
    for (size_t i = 0; i < z->count; i++) {
        const char *limits = z->rows[i].result.limits;
        if (limits && strcmp(limits, last) != 0)
            stk__text_printf(t, "%slimits: %s\n", before, limits);
        last = limits ? limits : last;
    }
}

static void page_counts(const table *z, stk__text *t)
{
    for (size_t i = 0; i < z->count; i++) {
        stk__text lines = STK__TEXT_INIT;
        stk__count_lines(&z->rows[i].result, NULL, "", &lines);
        t->failed = t->failed || lines.failed;
        if (lines.length) {
            lines.data[strcspn(lines.data, "\n")] = 0;
            stk__text_puts(t, "- ");
            stk__markdown_cell(t, z->rows[i].entry->name);
            stk__text_puts(t, ": ");
            stk__markdown_cell(t, lines.data);
            stk__text_putc(t, '\n');
        }
        stk__text_clear(&lines);
    }
}

static void page_notes(const table *z, stk__text *t)
{
    size_t retaken = 0, dropped = 0;
    for (size_t i = 0; i < z->count; i++) {
        retaken += z->rows[i].result.retaken;
        dropped += z->rows[i].result.dropped;
    }
    stk__text_putc(t, '\n');
    page_counts(z, t);
    put_circumstances(z, "- ", t);
    for (size_t i = 0; i < z->suite.note_count; i++) {
        stk__text_puts(t, "- ");
        stk__markdown_cell(t, z->suite.notes[i]);
        stk__text_putc(t, '\n');
    }
    for (size_t i = 0; i < z->count; i++) {
        for (size_t k = 0; k < z->rows[i].result.note_count; k++) {
            stk__text_puts(t, "- ");
            stk__markdown_cell(t, z->rows[i].entry->name);
            stk__text_puts(t, ": ");
            stk__markdown_cell(t, z->rows[i].result.notes[k]);
            stk__text_putc(t, '\n');
        }
    }
    if (retaken)
        stk__text_printf(t, "- %zu rounds were taken again because others used the machine\n", retaken);
    if (dropped)
        stk__text_printf(t, "- %zu rounds were left out because a run failed\n", dropped);
}

static int table_page(const table *z)
{
    if (!z->x->output->into)
        return CLI_OK;
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, "Machine: ");
    stk__machine_describe(&t);
    stk__text_puts(&t, ".\n\n");
    page_ratios(z, &t);
    page_contestants(z, &t);
    page_notes(z, &t);
    const int code = t.failed ? CLI_FAILED : bench_write_page(z->x->output, t.data);
    stk__text_clear(&t);
    return code;
}

/* ---- JSON ---- */

/* Medians, in the order of the variants; nothing where they were not counted. */
static void json_counts(stk__text *t, const stk__result *r)
{
    const size_t metric = stk__count_metric(r);
    if (metric == SIZE_MAX || !r->counted)
        return;
    stk__text_puts(t, ",\"counted\":");
    stk__text_json_str(t, r->counted);
    stk__text_puts(t, ",\"instructions\":[");
    for (size_t v = 0; v < r->variant_count; v++) {
        stk__text_puts(t, v ? "," : "");
        stk__text_json_double(t, stk__counts_of(&r->variants[v], metric).median);
    }
    stk__text_putc(t, ']');
}

static void json_row(stk__text *t, const row *w)
{
    stk__text_puts(t, "{\"name\":");
    stk__text_json_str(t, w->entry->name);
    stk__text_printf(t, ",\"kind\":\"%s\",\"limits\":", w->entry->b ? "compare" : "measure");
    if (w->result.limits)
        stk__text_json_str(t, w->result.limits);
    else
        stk__text_puts(t, "null");
    if (w->failure) {
        stk__text_puts(t, ",\"failure\":");
        stk__text_json_str(t, w->failure);
    } else {
        const struct {
            const char *key;
            double value;
        } numbers[] = {{"value", w->value},
                       {"low", w->low},
                       {"high", w->high},
                       {"at_least", w->entry->at_least},
                       {"at_most", w->entry->at_most}};
        for (size_t i = 0; i < STK_COUNT(numbers); i++) {
            stk__text_printf(t, ",\"%s\":", numbers[i].key);
            stk__text_json_double(t, numbers[i].value);
        }
        stk__text_printf(t, ",\"n\":%zu,\"met\":%s", w->n, !w->judged ? "null" : w->met ? "true" : "false");
        json_counts(t, &w->result);
    }
    stk__text_putc(t, '}');
}

static void table_json(const table *z)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, "{\"stoker\":\"suite\",\"title\":");
    stk__text_json_str(&t, z->suite.title ? z->suite.title : "");
    stk__text_printf(&t, ",\"seed\":%lld,\"interrupted\":%s", (long long)z->x->design->seed,
                     z->interrupted ? "true" : "false");
    stk__text_puts(&t, ",\"rows\":[");
    for (size_t i = 0; i < z->count; i++) {
        stk__text_puts(&t, i ? "," : "");
        json_row(&t, &z->rows[i]);
    }
    stk__text_puts(&t, "]}\n");
    cli_out_text(&t);
}

/* ---- in order ---- */

static int table_run(table *z)
{
    int code = CLI_OK;
    for (size_t i = 0; i < z->suite.entry_count && !z->interrupted; i++) {
        row *w = &z->rows[z->count++];
        w->entry = &z->suite.entries[i];
        /* One that fails is told and leaves its row; the others still run. */
        const int one = row_measure(z, w);
        code = code == CLI_OK ? one : code;
        if (!z->x->output->json)
            print_row(w);
    }
    return code;
}

static int table_finish(const table *z, int code)
{
    size_t missed = 0, targets = 0, without = 0;
    for (size_t i = 0; i < z->count; i++) {
        const stk__suite_entry *e = z->rows[i].entry;
        without += z->rows[i].failure && (!isnan(e->at_least) || !isnan(e->at_most));
        targets += z->rows[i].judged;
        missed += z->rows[i].judged && !z->rows[i].met;
    }
    if (z->x->output->json) {
        table_json(z);
    } else {
        stk__text t = STK__TEXT_INIT;
        put_circumstances(z, "", &t);
        cli_out_text(&t);
    }
    const int page = z->interrupted ? CLI_OK : table_page(z);
    if (z->interrupted)
        return CLI_INTERRUPTED;
    if (code == CLI_OK)
        code = page;
    if (code == CLI_OK && missed && z->x->rule->fail_over >= 0) {
        cli_say("stoker: %zu of %zu targets were missed", missed, targets);
        return CLI_REGRESSION;
    }
    if (code == CLI_OK && without && z->x->rule->fail_over >= 0) {
        cli_say("stoker: %zu targets could not be judged", without);
        return CLI_FAILED;
    }
    return code;
}

int bench_suite(const bench_context *given, const char *path)
{
    /* One seed for all rows, so that it can be told and given again. */
    bench_design_options design = *given->design;
    design.seed = (int64_t)bench_seed(given->design);
    bench_context own = *given;
    own.design = &design;
    const bench_context *x = &own;
    table z = {.x = x};
    int code = CLI_OK;
    if (x->output->svg || x->output->exports.count)
        return cli_usage_error(&cli_command_bench, "--suite makes a table: no --svg and no --export");
    code = table_read(&z, path);
    if (code == CLI_OK) {
        code = table_run(&z);
        code = table_finish(&z, code);
    }
    table_clear(&z);
    return code;
}
