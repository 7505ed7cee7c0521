/* What bench --commits found: a table commit by commit, JSON, a section of a page, an exit code. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/count.h"
#include "bench/quantity.h"
#include "bench/section.h"
#include "bench/table.h"
#include "bench/words.h"
#include "bench_commits.h"

#include "base/banned.h"

enum { SUBJECT = 36, BENCHMARK = 24 };

/* ---- words ---- */

static bool has_figures(const commits_item *m)
{
    return m->state == COMMITS_MEASURED || m->state == COMMITS_LOGGED;
}

static void put_time(const commits_run *z, size_t benchmark, const commits_figure *f, stk__text *t)
{
    if (f->n)
        stk__quantity_spread(t, f->mean, f->sd, z->benchmarks[benchmark].unit);
    else
        stk__text_putc(t, '-');
}

static void put_ratio(const commits_figure *f, stk__text *ratio, stk__text *interval)
{
    if (!f->compared || !f->valid) {
        stk__text_putc(ratio, '-');
        return;
    }
    stk__ratio(ratio, f->ratio);
    stk__words_interval(f->low, f->high, interval);
}

/* "slower", "equivalent, against 1a2b3c4", "inconclusive: about 30 more rounds would tell" */
static void put_verdict(const commits_run *z, size_t i, const commits_figure *f, stk__text *t)
{
    const commits_item *m = &z->items[i];
    if (!has_figures(m)) {
        stk__text_puts(t, m->failure ? m->failure : "not measured");
        return;
    }
    const char *unit = z->benchmarks[f - m->figures].unit;
    stk__text_puts(t, f->compared ? stk__count_word(unit, f->verdict) : i && m->before != SIZE_MAX ? "-" : "baseline");
    if (f->compared && m->before != SIZE_MAX && m->before + 1 != i)
        stk__text_printf(t, ", against %s", z->items[m->before].commit->brief);
    if (m->state == COMMITS_LOGGED)
        stk__text_puts(t, ", from the log");
    if (m->interrupted)
        stk__text_printf(t, ", interrupted after %zu rounds", f->n);
    if (f->reason)
        stk__text_printf(t, ": %s", f->reason);
}

/* ---- the table ---- */

/* Rows are printed block by block, so that columns have widths of their own that most cells fit. */
static void open_table(const commits_run *z, stk__table *t)
{
    static const stk__column columns[COMMITS_COLUMNS] = {
        {.gap = 2}, {.gap = 2, .most = SUBJECT}, {.gap = 2, .most = BENCHMARK}, {.gap = 2}, {.gap = 2}, {.gap = 2},
        {.gap = 0}};
    stk__table_init(t, columns, COMMITS_COLUMNS);
    t->widths[0] = strlen("1a2b3c4");
    t->widths[3] = strlen("1,520 ms +- 95");
    t->widths[4] = strlen("1.050");
    t->widths[5] = strlen("0.941..0.985");
    for (size_t i = 0; i < COMMITS_COLUMNS; i++)
        t->widths[i] = STK_MAX(t->widths[i], z->widths[i]);
    for (size_t i = 0; i < z->count; i++)
        t->widths[1] = STK_MAX(t->widths[1], STK_MIN(stk__columns(z->items[i].commit->subject), (size_t)SUBJECT));
    for (size_t i = 0; i < z->benchmark_count && z->benchmark_count > 1; i++)
        t->widths[2] = STK_MAX(t->widths[2], STK_MIN(stk__columns(z->benchmarks[i].name), (size_t)BENCHMARK));
}

static void put_header(const commits_run *z, stk__table *t)
{
    const char *const names[COMMITS_COLUMNS] = {
        "commit",   "subject",          z->benchmark_count > 1 ? "benchmark" : "", z->benchmarks[0].metric, "ratio",
        "interval", "to the one before"};
    for (size_t i = 0; i < COMMITS_COLUMNS; i++)
        stk__table_cell(t, i == 3 && z->benchmark_count > 1 ? "figure" : names[i]);
}

static void put_rows(const commits_run *z, size_t i, stk__table *t)
{
    const commits_item *m = &z->items[i];
    const size_t rows = has_figures(m) ? z->benchmark_count : 1;
    stk__text cell = STK__TEXT_INIT, interval = STK__TEXT_INIT;
    for (size_t k = 0; k < rows; k++) {
        const commits_figure *f = &m->figures[k];
        stk__table_cell(t, k ? "" : m->commit->brief);
        stk__table_cell(t, k ? "" : m->commit->subject);
        stk__table_cell(t, z->benchmark_count > 1 && has_figures(m) ? z->benchmarks[k].name : "");
        put_time(z, k, f, &cell);
        stk__table_take(t, &cell);
        put_ratio(f, &cell, &interval);
        stk__table_take(t, &cell);
        stk__table_take(t, &interval);
        put_verdict(z, i, f, &cell);
        stk__table_take(t, &cell);
    }
    stk__text_clear(&cell);
    stk__text_clear(&interval);
}

void commits_print_rows(commits_run *z, size_t end)
{
    stk__table t;
    stk__text out = STK__TEXT_INIT;
    if (end <= z->printed)
        return;
    open_table(z, &t);
    if (!z->printed)
        put_header(z, &t);
    for (; z->printed < end; z->printed++)
        put_rows(z, z->printed, &t);
    stk__table_put(&t, 2, &out);
    memcpy(z->widths, t.widths, sizeof z->widths);
    stk__table_clear(&t);
    cli_out_text(&out);
    cli_out_flush();
}

/* ---- below the table ---- */

static size_t count_changed(const commits_run *z)
{
    size_t n = 0;
    for (size_t i = 1; i < z->count; i++) {
        bool changed = false;
        for (size_t k = 0; k < z->benchmark_count && has_figures(&z->items[i]); k++)
            changed = changed || z->items[i].figures[k].changed;
        n += changed;
    }
    return n;
}

static void put_changes(const commits_run *z, const char *before, stk__text *t)
{
    size_t measured = 0, broken = 0;
    for (size_t i = 0; i < z->count; i++) {
        measured += has_figures(&z->items[i]) && z->items[i].before != SIZE_MAX;
        broken += z->items[i].state == COMMITS_BROKEN;
    }
    const size_t changed = count_changed(z);
    stk__text_printf(t, "%schanged: %zu of %zu commits", before, changed, measured);
    const char *separator = ": ";
    for (size_t i = 1; i < z->count; i++) {
        for (size_t k = 0; k < z->benchmark_count && has_figures(&z->items[i]); k++) {
            const commits_figure *f = &z->items[i].figures[k];
            if (!f->changed)
                continue;
            stk__text_printf(t, "%s%s %s ", separator, z->items[i].commit->brief,
                             stk__count_word(z->benchmarks[k].unit, f->verdict));
            stk__ratio(t, f->ratio);
            separator = ", ";
        }
    }
    if (broken)
        stk__text_printf(t, "; %zu could not be measured", broken);
    stk__text_putc(t, '\n');
}

static void put_circumstances(const commits_run *z, const char *before, stk__text *t)
{
    const char *last = "";
    stk__text_printf(t, "%sinterval: %.4g %% for all %zu comparisons of the range together\n", before,
                     100 * z->x->rule->confidence, (z->count - 1) * z->benchmark_count);
    if (z->rounds)
        stk__text_printf(t, "%sorder: random blocks, seed %lld; warm-up %zu run%s each; %zu rounds%s\n", before,
                         (long long)z->seed, z->warmup, z->warmup == 1 ? "" : "s", z->rounds,
                         z->work_count > 1 ? " at most" : "");
    if (z->dropped)
        stk__text_printf(t, "%s%zu rounds were left out because a run failed\n", before, z->dropped);
    if (z->retaken)
        stk__text_printf(t, "%s%zu rounds were taken again because others used the machine\n", before, z->retaken);
    for (size_t i = 0; i < z->work_count; i++) {
        if (z->works[i].limits[0] && strcmp(z->works[i].limits, last) != 0)
            stk__text_printf(t, "%slimits: %s\n", before, z->works[i].limits);
        last = z->works[i].limits;
    }
}

void commits_print_end(const commits_run *z)
{
    stk__text t = STK__TEXT_INIT;
    if (!z->printed)
        return;
    stk__text_putc(&t, '\n');
    put_changes(z, "  ", &t);
    put_circumstances(z, "  ", &t);
    stk__text_puts(&t, "  machine: ");
    stk__put_safe(&t, z->machine, 0);
    stk__text_printf(&t, "\n  builds: %zu made, %zu there before, in ", z->made, z->found);
    stk__put_safe(&t, z->builds.folder, 0);
    stk__text_putc(&t, '\n');
    for (size_t i = 0; i < z->note_count; i++) {
        stk__text_puts(&t, "  note: ");
        stk__put_safe(&t, z->notes[i], 0);
        stk__text_putc(&t, '\n');
    }
    cli_out_text(&t);
}

/* ---- a page ---- */

static void page_row(const commits_run *z, size_t i, size_t k, stk__text *t)
{
    const commits_item *m = &z->items[i];
    const commits_figure *f = &m->figures[k];
    stk__text ratio = STK__TEXT_INIT, interval = STK__TEXT_INIT, verdict = STK__TEXT_INIT, time = STK__TEXT_INIT;
    put_time(z, k, f, &time);
    put_ratio(f, &ratio, &interval);
    put_verdict(z, i, f, &verdict);
    stk__text_printf(t, "| %s | ", m->commit->brief);
    stk__markdown_cell(t, m->commit->subject);
    if (z->benchmark_count > 1) {
        stk__text_puts(t, " | ");
        stk__markdown_cell(t, has_figures(m) ? z->benchmarks[k].name : "");
    }
    stk__text *const cells[] = {&time, &ratio, &interval, &verdict};
    for (size_t c = 0; c < STK_COUNT(cells); c++) {
        stk__text_puts(t, " | ");
        stk__markdown_cell(t, cells[c]->data ? cells[c]->data : "");
        t->failed = t->failed || cells[c]->failed;
        stk__text_clear(cells[c]);
    }
    stk__text_puts(t, " |\n");
}

int commits_write_page(const commits_run *z)
{
    stk__text t = STK__TEXT_INIT;
    if (!z->x->output->into)
        return CLI_OK;
    const bool many = z->benchmark_count > 1;
    stk__text_puts(&t, "Machine: ");
    stk__markdown_cell(&t, z->machine);
    stk__text_puts(&t, ".\n\n| commit | subject | ");
    stk__text_puts(&t, many ? "benchmark | figure" : "");
    if (!many)
        stk__markdown_cell(&t, z->benchmarks[0].metric);
    stk__text_printf(&t, " | ratio | interval | to the one before |\n|---|---|---|---|---|---|%s\n",
                     many ? "---|" : "");
    for (size_t i = 0; i < z->count; i++) {
        for (size_t k = 0; k < (has_figures(&z->items[i]) ? z->benchmark_count : 1); k++)
            page_row(z, i, k, &t);
    }
    stk__text_putc(&t, '\n');
    put_changes(z, "- ", &t);
    put_circumstances(z, "- ", &t);
    for (size_t i = 0; i < z->note_count; i++) {
        stk__text_puts(&t, "- ");
        stk__markdown_cell(&t, z->notes[i]);
        stk__text_putc(&t, '\n');
    }
    const int code = t.failed ? commits_no_memory() : bench_write_page(z->x->output, t.data);
    stk__text_clear(&t);
    return code;
}

/* ---- JSON ---- */

static void put_string(stk__text *t, const char *key, const char *text)
{
    stk__text_printf(t, ",\"%s\":", key);
    if (text)
        stk__text_json_str(t, text);
    else
        stk__text_puts(t, "null");
}

static void put_number(stk__text *t, const char *key, double x, bool known)
{
    stk__text_printf(t, ",\"%s\":", key);
    stk__text_json_double(t, known ? x : NAN);
}

static void json_figure(const commits_run *z, size_t k, const commits_figure *f, stk__text *t)
{
    const bool known = f->n > 0, ratio = f->compared && f->valid;
    stk__text_puts(t, "{\"name\":");
    stk__text_json_str(t, z->benchmarks[k].name);
    stk__text_printf(t, ",\"n\":%zu", f->n);
    put_number(t, "mean", f->mean, known);
    put_number(t, "sd", f->sd, known);
    put_number(t, "median", f->median, known);
    put_number(t, "ratio", f->ratio, ratio);
    put_number(t, "ci_low", f->low, ratio);
    put_number(t, "ci_high", f->high, ratio);
    put_number(t, "p", f->p, ratio);
    put_string(t, "verdict", f->compared ? f->verdict : NULL);
    put_string(t, "reason", f->reason);
    stk__text_putc(t, '}');
}

static void json_commit(const commits_run *z, size_t i, stk__text *t)
{
    static const char *const states[] = {"not measured", "in the log", "measured", "broken"};
    const commits_item *m = &z->items[i];
    stk__text_puts(t, "{\"commit\":");
    stk__text_json_str(t, m->commit->hash);
    put_string(t, "subject", m->commit->subject);
    stk__text_printf(t, ",\"time\":%lld", (long long)m->commit->time_s);
    put_string(t, "state", states[m->state]);
    put_string(t, "failure", m->failure);
    put_string(t, "against", m->before == SIZE_MAX ? NULL : z->items[m->before].commit->hash);
    stk__text_printf(t, ",\"interrupted\":%s,\"benchmarks\":[", m->interrupted ? "true" : "false");
    for (size_t k = 0; k < z->benchmark_count && has_figures(m); k++) {
        stk__text_puts(t, k ? "," : "");
        json_figure(z, k, &m->figures[k], t);
    }
    stk__text_puts(t, "]}");
}

void commits_print_json(const commits_run *z)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, "{\"stoker\":\"commits\",\"version\":1");
    put_string(&t, "range", z->o->range);
    stk__text_printf(&t, ",\"seed\":%lld,\"interrupted\":%s", (long long)z->seed, z->interrupted ? "true" : "false");
    put_number(&t, "confidence", z->x->rule->confidence, true);
    put_string(&t, "machine", z->machine);
    stk__text_printf(&t, ",\"rounds\":%zu,\"builds\":%zu,\"builds_kept\":%zu,\"metrics\":[", z->rounds, z->made,
                     z->found);
    for (size_t i = 0; i < z->benchmark_count; i++) {
        const commits_benchmark *b = &z->benchmarks[i];
        stk__text_puts(&t, i ? ",{\"benchmark\":" : "{\"benchmark\":");
        stk__text_json_str(&t, b->name);
        put_string(&t, "name", b->metric);
        put_string(&t, "unit", b->unit);
        stk__text_printf(&t, ",\"higher_is_better\":%s}", b->higher_is_better ? "true" : "false");
    }
    stk__text_puts(&t, "],\"commits\":[");
    for (size_t i = 0; i < z->count; i++) {
        stk__text_puts(&t, i ? "," : "");
        json_commit(z, i, &t);
    }
    stk__text_puts(&t, "],\"notes\":[");
    for (size_t i = 0; i < z->note_count; i++) {
        stk__text_puts(&t, i ? "," : "");
        stk__text_json_str(&t, z->notes[i]);
    }
    stk__text_puts(&t, "]}\n");
    cli_out_text(&t);
}

/* ---- the gate ---- */

typedef struct gate {
    size_t slower, open, withheld, all;
} gate;

static void look_at(const commits_run *z, size_t i, gate *g)
{
    const double limit = z->x->rule->fail_over;
    for (size_t k = 0; k < z->benchmark_count && has_figures(&z->items[i]); k++) {
        const commits_figure *f = &z->items[i].figures[k];
        const double by = f->regression;
        g->all += f->compared;
        g->open += f->compared && f->open;
        g->withheld += f->compared && f->withheld;
        if (!(by > limit))
            continue;
        g->slower++;
        const bool count = strcmp(z->benchmarks[k].unit, "instructions") == 0;
        cli_say(by < 1 ? "stoker: commit %s %s by %.3g %%, more than --fail-over %.4g%% allows: %s"
                       : "stoker: commit %s %s by %.0f %%, more than --fail-over %.6g%% allows: %s",
                z->items[i].commit->brief, count ? "takes more instructions" : "is slower", 100 * by, 100 * limit,
                z->items[i].commit->subject);
    }
}

int commits_gate(const commits_run *z, int code)
{
    gate g = {0};
    if (z->x->rule->fail_over < 0 || code != CLI_OK)
        return code;
    for (size_t i = 1; i < z->count; i++)
        look_at(z, i, &g);
    if (g.slower)
        return CLI_REGRESSION;
    const commits_item *newest = &z->items[z->count - 1];
    if (!has_figures(newest)) {
        cli_say("stoker: --fail-over cannot tell: commit %s, the newest, was not measured", newest->commit->brief);
        return CLI_FAILED;
    }
    /* Silence would read as "no regression". */
    if (g.withheld)
        cli_say("stoker: --fail-over cannot tell: no verdict, for another reason than noise, in %zu of %zu comparisons",
                g.withheld, g.all);
    else if (g.open)
        cli_say("stoker: --fail-over cannot tell yet: inconclusive in %zu of %zu comparisons", g.open, g.all);
    return g.withheld ? CLI_FAILED : code;
}
