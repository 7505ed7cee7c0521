/* stoker bench --suite: many benchmarks, comparisons and limits from one file, each measured on its own. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "bench/count.h"
#include "bench_suite.h"

#include "base/banned.h"

enum { MOST_FILE = 16 << 20 };

static int no_memory(void)
{
    cli_say("stoker: out of memory");
    return CLI_FAILED;
}

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

static int table_read(suite_table *z, const char *path)
{
    const int code = bench_suite_read(path, false, &z->suite);
    if (code != CLI_OK)
        return code;
    z->rows = stk__calloc(z->suite.entry_count, sizeof *z->rows);
    if (!z->rows)
        return no_memory();
    for (size_t i = 0; i < z->suite.entry_count; i++)
        z->rows[i].entry = &z->suite.entries[i];
    return CLI_OK;
}

static void table_clear(suite_table *z)
{
    for (size_t i = 0; z->rows && i < z->suite.entry_count; i++) {
        stk__comparisons_clear(&z->rows[i].beside);
        stk__comparisons_clear(&z->rows[i].past);
        stk__result_clear(&z->rows[i].result);
        stk__free(z->rows[i].failure);
    }
    stk__free(z->rows);
    stk__suite_clear(&z->suite);
}

/* ---- what to run ---- */

const char *suite_side_name(const stk__suite_entry *e, size_t side)
{
    const char *given = side ? e->b_name : e->a_name;
    return given ? given : !e->b ? e->name : side ? "b" : "a";
}

void suite_column(const stk__suite_entry *e, size_t side, const bench_place *place, stk__text *out)
{
    stk__text_puts(out, e->name);
    if (e->b)
        stk__text_printf(out, " %s", suite_side_name(e, side));
    if (place)
        stk__text_printf(out, " @ %s", place->label);
}

char *suite_directory(const bench_place *place, const char *directory)
{
    if (directory && directory[0] == '/')
        return stk__strdup(directory);
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, place->directory);
    if (directory)
        stk__text_printf(&t, "/%s", directory);
    if (!t.failed)
        return t.data;
    stk__text_clear(&t);
    return NULL;
}

static int add_trial(const suite_table *z, const suite_row *w, size_t side, const bench_place *place,
                     const stk__suite_options *options, bench_trials *out)
{
    const stk__suite_entry *e = w->entry;
    stk__text name = STK__TEXT_INIT;
    stk__text_puts(&name, suite_side_name(e, side));
    if (place)
        stk__text_printf(&name, " @ %s", place->label);
    int code = name.failed ? no_memory() : bench_trials_add(out, name.data, side ? e->b : e->a, options, z->x->design);
    stk__text_clear(&name);
    if (code != CLI_OK || !place)
        return code;
    stk__trial *t = &out->items[out->count - 1];
    stk__free(t->directory);
    t->directory = suite_directory(place, options->directory);
    return t->directory ? CLI_OK : no_memory();
}

static int row_trials(const suite_table *z, const suite_row *w, const stk__suite_options *options, bench_trials *out)
{
    int code = CLI_OK;
    for (size_t side = 0; side < suite_sides(w->entry) && code == CLI_OK; side++) {
        for (size_t p = 0; p < suite_places(z) && code == CLI_OK; p++)
            code = add_trial(z, w, side, z->x->place_count ? &z->x->places[p] : NULL, options, out);
    }
    return code;
}

/* ---- figures ---- */

static void row_judge(suite_row *w)
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

/* The sides as they are today, whatever else was measured beside them. */
static void row_view(const suite_table *z, suite_row *w)
{
    const size_t places = suite_places(z), sides = suite_sides(w->entry);
    for (size_t side = 0; side < sides; side++)
        w->sides[side] = w->result.variants[side * places + places - 1];
    w->view = w->result;
    w->view.variants = w->sides;
    w->view.variant_count = sides;
}

static stk_status row_compare(suite_row *w, const stk__rule *rule, stk_error *err)
{
    const stk__compare_pair pair = {0, 1};
    const stk__result *r = &w->view;
    STK_TRY(stk__compare(r, rule, &pair, 1, r->primary, &w->beside, err));
    const stk__comparison *x = &w->beside.items[0];
    /* The ratio is b / a. Of a time that is how many times as fast a is; of a rate it is the other way round. */
    const bool turn = r->metrics[r->primary].higher_is_better;
    w->value = turn ? 1 / x->ratio : x->ratio;
    w->low = turn ? 1 / x->high : x->low;
    w->high = turn ? 1 / x->low : x->high;
    w->n = x->n;
    w->covered = x->valid && (x->paired ? x->pair.covered : x->free.covered);
    if (!x->withheld)
        return STK_OK;
    /* Computes something else, or has no ratio: no figure that could be taken for a verdict. */
    w->failure = stk__strdup(x->withheld);
    return w->failure ? STK_OK : stk__nomem(strlen(x->withheld), err);
}

static stk_status row_describe(suite_row *w, stk_error *err)
{
    stk__summary s;
    const stk__variant *v = &w->view.variants[0];
    if (stk__is_count(&w->result.metrics[w->result.primary])) {
        const stk__counts c = stk__counts_of(v, w->result.primary); /* not every run has one */
        w->value = c.median;
        w->low = c.least;
        w->high = c.most;
        w->n = c.n;
        w->covered = true;
        return STK_OK;
    }
    STK_TRY(stk__describe(v->values[w->result.primary], v->runs, &s, err));
    w->value = s.median;
    w->low = s.min;
    w->high = s.max;
    w->n = s.n;
    w->covered = true;
    return STK_OK;
}

/* Each side against the older commit; judged once more when all rows are there. */
static stk_status row_past(const suite_table *z, suite_row *w, const stk__rule *rule, stk_error *err)
{
    const stk__compare_pair pairs[] = {{0, 1}, {2, 3}};
    if (!z->x->place_count)
        return STK_OK;
    return stk__compare(&w->result, rule, pairs, suite_sides(w->entry), w->result.primary, &w->past, err);
}

static stk_status row_figures(const suite_table *z, suite_row *w, const stk__rule *rule, stk_error *err)
{
    row_view(z, w);
    STK_TRY(row_past(z, w, rule, err));
    STK_TRY(w->entry->b ? row_compare(w, rule, err) : row_describe(w, err));
    if (!w->failure)
        row_judge(w);
    return STK_OK;
}

/* ---- measuring ---- */

/* One run is one run: whoever asks for a single round does not want another before it. */
static bench_design_options row_design(const suite_table *z, const stk__suite_options *options)
{
    bench_design_options d = bench_merge(z->x->design, options);
    if (d.rounds == 1 && d.warmup < 0)
        d.warmup = 0;
    return d;
}

static int row_run(suite_table *z, suite_row *w, const stk__suite_options *options, const bench_rule_options *rule)
{
    const bench_design_options d = row_design(z, options);
    /* With --width it is the intervals that are told which must be narrow. */
    const stk__compare_pair own = {0, 1}, past[] = {{0, 1}, {2, 3}};
    bench_trials trials = {0};
    int code = row_trials(z, w, options, &trials);
    if (code == CLI_OK)
        code = bench_metrics(&w->result, &d, true);
    if (code == CLI_OK) {
        stk__experiment e = bench_experiment(&trials, &d, rule, z->x->output->quiet);
        e.pairs = z->x->place_count ? past : &own;
        e.pair_count = z->x->place_count ? suite_sides(w->entry) : w->entry->b ? 1 : 0;
        code = bench_run(&e, z->x->launcher, &w->result);
    }
    bench_trials_clear(&trials);
    return code;
}

static int row_measure(suite_table *z, suite_row *w)
{
    const stk__suite_options options = stk__suite_merge(&z->suite.options, &w->entry->options);
    const bench_rule_options rule_options = bench_merge_rule(z->x->rule, &options);
    const stk__rule rule = bench_rule(&rule_options, options.metric ? options.metric : z->x->design->metric);
    stk_error err = {0};
    int code = row_run(z, w, &options, &rule_options);
    z->interrupted = w->result.interrupted;
    if (code == CLI_OK && suite_measured(w) && row_figures(z, w, &rule, &err) != STK_OK)
        code = bench_fail(&err);
    w->whole = code == CLI_OK && suite_measured(w);
    if (!w->whole && !w->failure)
        w->failure = stk__strdup(w->result.interrupted ? "interrupted" : "did not run");
    return code;
}

static int table_run(suite_table *z)
{
    int code = CLI_OK;
    for (size_t i = 0; i < z->suite.entry_count && !z->interrupted; i++) {
        suite_row *w = &z->rows[z->count++];
        /* One that fails is told and leaves its row; the others still run. */
        const int one = row_measure(z, w);
        code = code == CLI_OK ? one : code;
        if (!z->x->output->json)
            suite_print_row(w);
    }
    return code;
}

/* All benchmarks are looked at together, so they share the risk of a false alarm: those that can have a verdict at all. */
static int judge_past(suite_table *z)
{
    stk_error err = {0};
    size_t count = 0;
    stk__compare_set *sets = stk__calloc(z->count ? z->count : 1, sizeof *sets);
    if (!sets)
        return no_memory();
    for (size_t i = 0; i < z->count; i++) {
        suite_row *w = &z->rows[i];
        if (w->past.count && w->result.variants[0].runs >= STK__LEAST_ROUNDS)
            sets[count++] = (stk__compare_set){&w->result, &w->past};
    }
    const stk_status status = stk__compare_together(sets, count, &err);
    stk__free(sets);
    return status == STK_OK ? CLI_OK : bench_fail(&err);
}

/* ---- the end ---- */

typedef struct suite_outcome {
    size_t missed, targets, without; /* targets that were missed, all that were judged, that could not be */
    size_t slower, open, withheld;   /* benchmarks by their past: past the gate, undecided, not to be decided */
} suite_outcome;

static void count_past(const suite_table *z, const suite_row *w, suite_outcome *out)
{
    const double fail_over = z->x->rule->fail_over;
    for (size_t i = 0; i < w->past.count; i++) {
        const stk__comparisons one = {.items = &w->past.items[i], .count = 1, .rule = w->past.rule};
        const double worse = stk__worst_regression(&one, &w->result);
        stk__text name = STK__TEXT_INIT;
        suite_column(w->entry, i, NULL, &name);
        if (worse > fail_over) {
            out->slower++;
            cli_say("stoker: %s is slower by %.3g %%, more than --fail-over %.4g%% allows",
                    name.failed ? "" : name.data, 100 * worse, 100 * fail_over);
        } else if (one.items->verdict == STK__INCONCLUSIVE) {
            out->open += !one.items->withheld;
            out->withheld += one.items->withheld != NULL;
        }
        stk__text_clear(&name);
    }
}

static suite_outcome count_rows(const suite_table *z)
{
    suite_outcome out = {0};
    for (size_t i = 0; i < z->count; i++) {
        const suite_row *w = &z->rows[i];
        const stk__suite_entry *e = w->entry;
        out.without += w->failure && (!isnan(e->at_least) || !isnan(e->at_most));
        out.targets += w->judged;
        out.missed += w->judged && !w->met;
        if (z->x->rule->fail_over >= 0)
            count_past(z, w, &out);
    }
    return out;
}

/* Silence would read as "no regression". */
static int table_gate(const suite_table *z, int code)
{
    if (z->x->rule->fail_over < 0 || code != CLI_OK)
        return code;
    const suite_outcome out = count_rows(z);
    if (out.missed)
        cli_say("stoker: %zu of %zu targets were missed", out.missed, out.targets);
    if (out.missed || out.slower)
        return CLI_REGRESSION;
    if (out.open)
        cli_say("stoker: --fail-over cannot tell yet: %zu benchmark%s inconclusive", out.open,
                out.open == 1 ? " is" : "s are");
    if (out.withheld)
        cli_say("stoker: --fail-over cannot tell: %zu benchmark%s no verdict", out.withheld,
                out.withheld == 1 ? " has" : "s have");
    if (out.without)
        cli_say("stoker: %zu targets could not be judged", out.without);
    return out.without || out.withheld ? CLI_FAILED : CLI_OK;
}

static int table_finish(suite_table *z, int code)
{
    const int judged = judge_past(z);
    code = code == CLI_OK ? judged : code;
    if (!z->x->output->json) {
        stk__text t = STK__TEXT_INIT;
        suite_print_past(z);
        suite_circumstances(z, "", &t);
        cli_out_text(&t);
    }
    const int codes[] = {z->x->output->json ? suite_json(z) : CLI_OK, z->interrupted ? CLI_OK : suite_page(z),
                         suite_exports(z), suite_log_append(z)};
    for (size_t i = 0; i < STK_COUNT(codes); i++)
        code = code == CLI_OK ? codes[i] : code;
    return z->interrupted ? CLI_INTERRUPTED : table_gate(z, code);
}

int bench_suite(const bench_context *given, const char *path)
{
    /* One seed for all rows, so that it can be told and given again. */
    bench_design_options design = *given->design;
    design.seed = (int64_t)bench_seed(given->design);
    bench_context own = *given;
    own.design = &design;
    suite_table z = {.x = &own};
    int code = table_read(&z, path);
    if (code == CLI_OK)
        code = suite_log_fits(&z);
    if (code == CLI_OK) {
        code = table_run(&z);
        code = table_finish(&z, code);
    }
    table_clear(&z);
    return code;
}
