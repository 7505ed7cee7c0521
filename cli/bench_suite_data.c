/* A suite for programs: JSON, files of other tools, and its row in the change log. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/merge.h"
#include "bench_suite.h"

#include "base/banned.h"

static int no_memory(void)
{
    cli_say("stoker: out of memory");
    return CLI_FAILED;
}

/* ---- comparisons ---- */

/* All comparisons of a row, for its result: b over a, then each over its past. Items are shared: free only the array. */
static bool row_comparisons(const suite_table *z, const suite_row *w, stk__comparisons *out)
{
    const size_t places = suite_places(z), count = w->beside.count + w->past.count;
    *out = (stk__comparisons){.rule = w->beside.count ? w->beside.rule : w->past.rule, .count = count};
    out->items = stk__calloc(count ? count : 1, sizeof *out->items);
    if (!out->items)
        return false;
    for (size_t i = 0; i < w->beside.count; i++) {
        out->items[i] = w->beside.items[i];
        out->items[i].a = places - 1;
        out->items[i].b = 2 * places - 1;
    }
    for (size_t i = 0; i < w->past.count; i++)
        out->items[w->beside.count + i] = w->past.items[i];
    return true;
}

/* ---- JSON ---- */

static void json_string(stk__text *t, const char *key, const char *text)
{
    stk__text_printf(t, ",\"%s\":", key);
    if (text)
        stk__text_json_str(t, text);
    else
        stk__text_puts(t, "null");
}

static void json_figures(stk__text *t, const suite_row *w)
{
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"value", w->value},
                   {"low", w->n > 1 ? w->low : NAN},
                   {"high", w->n > 1 ? w->high : NAN},
                   {"at_least", w->entry->at_least},
                   {"at_most", w->entry->at_most}};
    for (size_t i = 0; i < STK_COUNT(numbers); i++) {
        stk__text_printf(t, ",\"%s\":", numbers[i].key);
        stk__text_json_double(t, numbers[i].value);
    }
    stk__text_printf(t, ",\"n\":%zu,\"met\":%s", w->n, !w->judged ? "null" : w->met ? "true" : "false");
}

/* The runs, as `stoker bench --json` has them. */
static void json_result(const suite_table *z, stk__text *t, const suite_row *w)
{
    stk__comparisons all;
    if (!row_comparisons(z, w, &all)) {
        t->failed = true;
        return;
    }
    stk__text one = STK__TEXT_INIT;
    stk__text_puts(t, ",\"result\":");
    if (stk__bench_write(&w->result, &all, STK__BENCH_STOKER, &one, NULL, NULL) != STK_OK || one.failed)
        t->failed = true;
    else
        stk__text_write(t, one.data, one.length - (one.data[one.length - 1] == '\n'));
    stk__text_clear(&one);
    stk__free(all.items);
}

static void json_row(const suite_table *z, stk__text *t, const suite_row *w)
{
    const stk__result *r = &w->result;
    stk__text_puts(t, "{\"name\":");
    stk__text_json_str(t, w->entry->name);
    json_string(t, "kind", w->entry->b ? "compare" : "measure");
    json_string(t, "limits", r->limits);
    if (r->metric_count) {
        const stk__metric *m = &r->metrics[r->primary];
        json_string(t, "metric", m->name);
        json_string(t, "unit", m->unit);
        stk__text_printf(t, ",\"higher_is_better\":%s", m->higher_is_better ? "true" : "false");
    }
    if (w->failure)
        json_string(t, "failure", w->failure);
    else
        json_figures(t, w);
    if (w->whole)
        json_result(z, t, w);
    stk__text_putc(t, '}');
}

int suite_json(const suite_table *z)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, "{\"stoker\":\"suite\",\"title\":");
    stk__text_json_str(&t, z->suite.title ? z->suite.title : "");
    stk__text_printf(&t, ",\"seed\":%lld,\"interrupted\":%s", (long long)z->x->design->seed,
                     z->interrupted ? "true" : "false");
    json_string(&t, "against", z->x->place_count ? z->x->places[0].label : NULL);
    json_string(&t, "candidate", z->x->place_count ? z->x->places[1].label : NULL);
    stk__text_puts(&t, ",\"rows\":[");
    for (size_t i = 0; i < z->count; i++) {
        stk__text_puts(&t, i ? "," : "");
        json_row(z, &t, &z->rows[i]);
    }
    stk__text_puts(&t, "]}\n");
    const bool failed = t.failed;
    cli_out_text(&t);
    return failed ? CLI_FAILED : CLI_OK;
}

/* ---- files of other tools ---- */

/* Parts of one result, with the names of all their variants. */
typedef struct parts {
    stk__merge_part *items;
    stk__comparisons *comparisons;
    char *(*names)[4];
    size_t count;
} parts;

static void parts_clear(parts *p)
{
    for (size_t i = 0; i < p->count; i++) {
        for (size_t k = 0; k < 4; k++)
            stk__free(p->names[i][k]);
        stk__free(p->comparisons[i].items);
    }
    stk__free(p->items);
    stk__free(p->comparisons);
    stk__free(p->names);
}

static bool part_add(const suite_table *z, const suite_row *w, parts *p)
{
    const size_t places = suite_places(z), i = p->count++;
    bool ok = row_comparisons(z, w, &p->comparisons[i]);
    for (size_t k = 0; k < w->result.variant_count && ok; k++) {
        stk__text name = STK__TEXT_INIT;
        suite_column(w->entry, k / places, z->x->place_count ? &z->x->places[k % places] : NULL, &name);
        ok = !name.failed;
        p->names[i][k] = name.data;
    }
    /* Read back, each is compared with its past where it has one, else b with a. */
    p->items[i] = (stk__merge_part){&w->result, &p->comparisons[i], (const char *const *)p->names[i],
                                    z->x->place_count ? places : 0};
    return ok;
}

static bool parts_make(const suite_table *z, parts *p)
{
    const size_t n = z->count ? z->count : 1;
    *p = (parts){stk__calloc(n, sizeof *p->items), stk__calloc(n, sizeof *p->comparisons),
                 stk__calloc(n, sizeof *p->names), 0};
    bool ok = p->items && p->comparisons && p->names;
    for (size_t i = 0; i < z->count && ok; i++) {
        if (z->rows[i].whole)
            ok = part_add(z, &z->rows[i], p);
    }
    return ok;
}

/* Formats with one metric for the whole file are told here; what else they cannot carry, the writers tell. */
static void say_metrics(const stk__result *r)
{
    size_t others = 0;
    for (size_t i = 0; i < r->variant_count; i++)
        others += stk__variant_metric(r, i) != r->primary;
    if (others)
        cli_say(
            "stoker: %zu of %zu benchmarks have another metric than %s: it is written where the format has room for "
            "it, but readers compare by %s",
            others, r->variant_count, r->metrics[r->primary].name, r->metrics[r->primary].name);
}

int suite_exports(const suite_table *z)
{
    if (!z->x->output->exports.count)
        return CLI_OK;
    parts p;
    stk__result r = {0};
    stk__comparisons c = {0};
    stk_error err = {0};
    int code = parts_make(z, &p) ? CLI_OK : no_memory();
    if (code == CLI_OK && !p.count) {
        cli_say("stoker: no benchmark was measured: nothing to export");
        code = CLI_FAILED;
    }
    if (code == CLI_OK && stk__result_merge(p.items, p.count, &r, &c, &err) != STK_OK)
        code = bench_fail(&err);
    if (code == CLI_OK) {
        say_metrics(&r);
        code = bench_write_exports(&r, &c, z->x->output);
    }
    stk__result_clear(&r);
    stk__comparisons_clear(&c);
    parts_clear(&p);
    return code;
}

/* ---- the log ---- */

/* "level 1 against level 6 theirs/ours" */
static int add_pair(const stk__suite_entry *e, const stk__comparison *c, bench_row *row)
{
    stk__text name = STK__TEXT_INIT;
    stk__text_printf(&name, "%s %s/%s", e->name, suite_side_name(e, 1), suite_side_name(e, 0));
    const int code = name.failed ? no_memory() : bench_row_pair(row, name.data, c);
    stk__text_clear(&name);
    return code;
}

/* The sides of an entry, from a result that may have no runs yet. */
static int add_entry(const suite_table *z, const suite_row *w, const stk__result *r, bench_row *row)
{
    const size_t places = suite_places(z);
    int code = CLI_OK;
    for (size_t side = 0; side < suite_sides(w->entry) && code == CLI_OK; side++) {
        stk__log_figure f = {.result = r, .variant = side * places + places - 1};
        if (side < w->past.count) {
            f.past = &w->past.items[side];
            f.against = z->x->places[0].label;
        }
        stk__text name = STK__TEXT_INIT;
        suite_column(w->entry, side, NULL, &name);
        code = name.failed ? no_memory() : bench_row_figure(row, name.data, name.length, &f);
        stk__text_clear(&name);
    }
    if (code == CLI_OK && w->entry->b)
        code = add_pair(w->entry, w->beside.count ? &w->beside.items[0] : NULL, row);
    return code;
}

static int plan_entry(const suite_table *z, const suite_row *w, stk__result *r, bench_row *row)
{
    const stk__suite_options options = stk__suite_merge(&z->suite.options, &w->entry->options);
    const bench_design_options d = bench_merge(z->x->design, &options);
    stk_error err = {0};
    int code = bench_metrics(r, &d, true);
    for (size_t i = 0; i < suite_sides(w->entry) * suite_places(z) && code == CLI_OK; i++) {
        char letters[8];
        stk__variant_letters(i, letters);
        if (stk__result_add_variant(r, letters, "", 0, NULL, &err) != STK_OK)
            code = bench_fail(&err);
    }
    return code == CLI_OK ? add_entry(z, w, r, row) : code;
}

int suite_log_fits(const suite_table *z)
{
    const size_t n = z->suite.entry_count;
    if (!z->x->log)
        return CLI_OK;
    bench_row row = {.confidence = z->x->rule->confidence};
    stk__result *plans = stk__calloc(n, sizeof *plans);
    int code = plans ? CLI_OK : no_memory();
    for (size_t i = 0; i < n && code == CLI_OK; i++)
        code = plan_entry(z, &z->rows[i], &plans[i], &row);
    if (code == CLI_OK)
        code = bench_row_fits(&row, z->x->log);
    bench_row_clear(&row);
    for (size_t i = 0; plans && i < n; i++)
        stk__result_clear(&plans[i]);
    stk__free(plans);
    return code;
}

/* Benchmarks that failed leave their cells empty; the others were measured as asked for. */
int suite_log_append(const suite_table *z)
{
    bench_row row = {.confidence = z->x->rule->confidence};
    stk__commit here = {0};
    stk_error err = {0};
    int code = CLI_OK;
    if (!z->x->log)
        return CLI_OK;
    if (z->x->commit)
        here = *z->x->commit;
    else if (stk__git_here(z->x->launcher, NULL, &here, &err) != STK_OK)
        return bench_fail(&err);
    for (size_t i = 0; i < z->count && code == CLI_OK; i++) {
        if (z->rows[i].whole)
            code = add_entry(z, &z->rows[i], &z->rows[i].result, &row);
    }
    if (code == CLI_OK && !row.figure_count)
        cli_say("stoker: no benchmark was measured: no row for %s", z->x->log);
    else if (code == CLI_OK)
        code = bench_row_append(&row, z->x->log, &here, z->x->message, z->interrupted,
                                z->x->output->json || z->x->place_count);
    bench_row_clear(&row);
    return code;
}
