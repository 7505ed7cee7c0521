/* A suite for people: a line per row, every benchmark against its past, and the tables of a page. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/count.h"
#include "bench/machine.h"
#include "bench/quantity.h"
#include "bench/report.h"
#include "bench/section.h"
#include "bench/table.h"
#include "bench/words.h"
#include "bench_suite.h"

#include "base/banned.h"

/* ---- figures ---- */

static const char *row_unit(const suite_row *w)
{
    return w->entry->b || !w->result.metric_count ? "" : w->result.metrics[w->result.primary].unit;
}

static void put_figure(stk__text *t, const suite_row *w, double value)
{
    if (w->entry->b)
        stk__ratio(t, value);
    else
        stk__quantity(t, value, row_unit(w));
}

/* A single run has no range. */
static void put_range(stk__text *t, const suite_row *w)
{
    if (w->n < 2) {
        stk__text_puts(t, "a single run");
        return;
    }
    put_figure(t, w, w->low);
    stk__text_puts(t, " to ");
    put_figure(t, w, w->high);
}

static void put_target(stk__text *t, const suite_row *w)
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

static const char *outcome(const suite_row *w)
{
    if (!w->judged)
        return "";
    if (!w->entry->b || w->clear)
        return w->met ? "ok" : "MISSED";
    return w->met ? "ok, within noise" : "MISSED, within noise";
}

/* ---- lines ---- */

/* "ours is 3.04 times as fast as theirs": what the target is for. */
static void put_sentence(stk__text *t, const suite_row *w)
{
    const stk__result *r = &w->view;
    stk__text_printf(t, "%s is ", suite_side_name(w->entry, 0));
    stk__words_times_as(&r->metrics[r->primary], w->value, t);
    stk__text_printf(t, " %s", suite_side_name(w->entry, 1));
}

static void put_line(stk__text *t, const suite_row *w)
{
    if (w->entry->b)
        put_sentence(t, w);
    else
        put_figure(t, w, w->value);
    stk__text_puts(t, " (");
    put_range(t, w);
    stk__text_printf(t, ", n=%zu)", w->n);
    if (w->judged) {
        stk__text_puts(t, "  ");
        put_target(t, w);
        stk__text_printf(t, ": %s", outcome(w));
    }
}

void suite_print_row(const suite_row *w)
{
    stk__text t = STK__TEXT_INIT, line = STK__TEXT_INIT;
    stk__text_printf(&t, "%s: ", w->entry->name);
    if (w->failure)
        stk__text_puts(&t, w->failure);
    else
        put_line(&t, w);
    /* Names and units come from the file. */
    cli_text_escaped(&line, t.failed ? "" : t.data);
    line.failed = line.failed || t.failed;
    stk__text_clear(&t);
    stk__text_putc(&line, '\n');
    if (!w->failure && w->entry->b) {
        stk__text_puts(&line, "  ");
        stk__report_line(&w->view, &w->beside, 0, &line);
        stk__text_putc(&line, '\n');
    }
    stk__count_lines(&w->result, NULL, "  ", &line);
    cli_out_text(&line);
    cli_out_flush();
}

/* ---- the past ---- */

static double median_of(const stk__variant *v, size_t metric)
{
    stk__summary s;
    for (size_t i = 0; i < v->runs; i++) {
        if (!isfinite(v->values[metric][i]))
            return metric == STK__INSTRUCTIONS ? stk__counts_of(v, metric).median : NAN; /* not every run has one */
    }
    return v->runs && stk__describe(v->values[metric], v->runs, &s, NULL) == STK_OK ? s.median : NAN;
}

/* Name, "12.1 ms -> 11.4 ms", "ratio 0.942 (0.930..0.955)", "faster" or why not. */
static void add_past(const suite_row *w, size_t side, stk__table *t, stk__text *cell)
{
    const stk__result *r = &w->result;
    const stk__comparison *c = &w->past.items[side];
    const char *unit = r->metrics[c->metric].unit;
    suite_column(w->entry, side, NULL, cell);
    stk__table_take(t, cell);
    stk__quantity(cell, median_of(&r->variants[c->a], c->metric), unit);
    stk__text_puts(cell, " -> ");
    stk__quantity(cell, median_of(&r->variants[c->b], c->metric), unit);
    stk__table_take(t, cell);
    if (c->valid) {
        stk__text_puts(cell, "ratio ");
        stk__ratio(cell, c->ratio);
    }
    if (c->valid && (c->paired ? c->pair.covered : c->free.covered)) {
        stk__text_puts(cell, " (");
        stk__words_interval(c->low, c->high, cell);
        stk__text_putc(cell, ')');
    }
    stk__table_take(t, cell);
    stk__text_puts(cell, stk__count_word(unit, stk__verdict_name(c->verdict)));
    stk__text reason = STK__TEXT_INIT;
    if (c->verdict == STK__TAIL_FASTER || c->verdict == STK__TAIL_SLOWER) {
        stk__text_puts(cell, ": mean ");
        stk__words_change(c->means.ratio, c->means.low, c->means.high, cell);
    }
    stk__words_reason(&w->result, &w->past, side, &reason);
    if (c->n == 1 && !c->withheld)
        stk__text_puts(cell, ": a single round has no interval");
    else if (reason.length)
        stk__text_printf(cell, ": %s", reason.data);
    cell->failed |= reason.failed;
    stk__text_clear(&reason);
    stk__table_take(t, cell);
}

static size_t family_of(const suite_table *z)
{
    size_t family = 0;
    for (size_t i = 0; i < z->count; i++)
        family = STK_MAX(family, z->rows[i].past.family);
    return family;
}

void suite_print_past(const suite_table *z)
{
    static const stk__column columns[] = {{.gap = 2, .most = 40}, {.gap = 2}, {.gap = 2}, {0}};
    if (!z->x->place_count)
        return;
    stk__table t;
    stk__text cell = STK__TEXT_INIT, out = STK__TEXT_INIT;
    stk__table_init(&t, columns, STK_COUNT(columns));
    for (size_t i = 0; i < z->count; i++) {
        for (size_t side = 0; side < z->rows[i].past.count && z->rows[i].whole; side++)
            add_past(&z->rows[i], side, &t, &cell);
    }
    stk__text_printf(&out, "\n%s against %s, in the same rounds", z->x->places[1].label, z->x->places[0].label);
    if (family_of(z) > 1)
        stk__text_printf(&out, "; verdicts and intervals hold for all %zu together (Holm)", family_of(z));
    stk__text_puts(&out, ":\n");
    stk__table_put(&t, 2, &out);
    stk__text_putc(&out, '\n');
    out.failed |= cell.failed;
    stk__table_clear(&t);
    stk__text_clear(&cell);
    cli_out_text(&out);
}

/* ---- the page ---- */

static void page_ratios(const suite_table *z, stk__text *t)
{
    stk__text_printf(
        t, "| work | median | %.4g %% interval, or least to greatest | runs | target |  |\n|---|---|---|---|---|---|\n",
        100 * z->x->rule->confidence);
    for (size_t i = 0; i < z->count; i++) {
        const suite_row *w = &z->rows[i];
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

static void page_contestants(const suite_table *z, stk__text *t)
{
    stk__text_puts(t, "\n| work | who | median | CPU time | CPU-seconds per 1,000 samples | peak memory |\n"
                      "|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < z->count; i++) {
        const stk__result *r = &z->rows[i].view;
        if (z->rows[i].failure || !z->rows[i].entry->b)
            continue;
        for (size_t k = 0; k < r->variant_count; k++) {
            const stk__variant *v = &r->variants[k];
            const double per_1000 = median_of(v, stk__result_metric(r, "cpu_per_1000"));
            stk__text_puts(t, "| ");
            stk__markdown_cell(t, z->rows[i].entry->name);
            stk__text_puts(t, " | ");
            stk__markdown_cell(t, suite_side_name(z->rows[i].entry, k));
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
void suite_circumstances(const suite_table *z, const char *before, stk__text *t)
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

/* Every benchmark against the older commit. */
static void page_past(const suite_table *z, stk__text *t)
{
    if (!z->x->place_count)
        return;
    stk__text_printf(
        t, "\n| %s against %s | before | after | ratio | %.4g %% interval | verdict |\n|---|---|---|---|---|---|\n",
        z->x->places[1].label, z->x->places[0].label, 100 * z->x->rule->confidence);
    for (size_t i = 0; i < z->count; i++) {
        const suite_row *w = &z->rows[i];
        for (size_t side = 0; side < w->past.count && w->whole; side++) {
            const stk__comparison *c = &w->past.items[side];
            const char *unit = w->result.metrics[c->metric].unit;
            stk__text name = STK__TEXT_INIT;
            suite_column(w->entry, side, NULL, &name);
            stk__text_puts(t, "| ");
            stk__markdown_cell(t, name.failed ? "" : name.data);
            stk__text_puts(t, " | ");
            stk__quantity(t, median_of(&w->result.variants[c->a], c->metric), unit);
            stk__text_puts(t, " | ");
            stk__quantity(t, median_of(&w->result.variants[c->b], c->metric), unit);
            stk__text_puts(t, " | ");
            stk__ratio(t, c->ratio);
            stk__text_puts(t, " | ");
            if (c->valid && (c->paired ? c->pair.covered : c->free.covered))
                stk__words_interval(c->low, c->high, t);
            stk__text_printf(t, " | %s |\n", stk__count_word(unit, stk__verdict_name(c->verdict)));
            stk__text_clear(&name);
        }
    }
}

/* The first line of each tells the counts; that time is not in them is the guide's to say. */
static void page_counts(const suite_table *z, stk__text *t)
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

static void page_notes(const suite_table *z, stk__text *t)
{
    size_t retaken = 0, dropped = 0;
    for (size_t i = 0; i < z->count; i++) {
        retaken += z->rows[i].result.retaken;
        dropped += z->rows[i].result.dropped;
    }
    stk__text_putc(t, '\n');
    page_counts(z, t);
    suite_circumstances(z, "- ", t);
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

int suite_page(const suite_table *z)
{
    if (!z->x->output->into)
        return CLI_OK;
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, "Machine: ");
    stk__machine_describe(&t);
    stk__text_puts(&t, ".\n\n");
    page_ratios(z, &t);
    page_contestants(z, &t);
    page_past(z, &t);
    page_notes(z, &t);
    const int code = t.failed ? CLI_FAILED : bench_write_page(z->x->output, t.data);
    stk__text_clear(&t);
    return code;
}
