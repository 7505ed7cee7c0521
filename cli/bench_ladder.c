/* stoker bench --ladder: a baseline and the steps that made it faster, all in the same rounds. */
#include <string.h>

#include "base/mem.h"
#include "bench.h"
#include "bench/chart.h"
#include "bench/report.h"
#include "bench/section.h"

#include "base/banned.h"

typedef struct ladder {
    const bench_context *x;
    stk__suite suite;
    bench_trials trials;
    stk__result result;
    stk__compare_pair *step_pairs, *whole_pairs;
    size_t pair_count;
    stk__comparisons steps, whole;
} ladder;

static int ladder_plan(ladder *z)
{
    const stk__suite *s = &z->suite;
    for (size_t i = 0; i < s->step_count; i++) {
        const stk__suite_options o = stk__suite_merge(&s->options, &s->steps[i].options);
        const int code = bench_trials_add(&z->trials, s->steps[i].name, s->steps[i].command, &o, z->x->design);
        if (code != CLI_OK)
            return code;
    }
    z->pair_count = s->step_count - 1;
    z->step_pairs = stk__calloc(s->step_count, sizeof *z->step_pairs);
    z->whole_pairs = stk__calloc(s->step_count, sizeof *z->whole_pairs);
    if (!z->step_pairs || !z->whole_pairs) {
        cli_say("stoker: out of memory");
        return CLI_FAILED;
    }
    for (size_t i = 0; i < z->pair_count; i++) {
        z->step_pairs[i] = (stk__compare_pair){i, i + 1};
        z->whole_pairs[i] = (stk__compare_pair){0, i + 1};
    }
    return CLI_OK;
}

static int ladder_measure(ladder *z)
{
    const bench_design_options d = bench_merge(z->x->design, &z->suite.options);
    const bench_rule_options rule = bench_merge_rule(z->x->rule, &z->suite.options);
    stk__experiment e = bench_experiment(&z->trials, &d, &rule, z->x->output->quiet);
    e.pairs = z->step_pairs;
    e.pair_count = z->pair_count;
    const int code = bench_metrics(&z->result, &d, z->trials.pipelines);
    return code == CLI_OK ? bench_run(&e, z->x->launcher, &z->result) : code;
}

static int ladder_chart(const ladder *z)
{
    stk_error err = {0};
    stk__text svg = STK__TEXT_INIT;
    int code = CLI_OK;
    if (!z->x->output->svg)
        return CLI_OK;
    if (stk__chart_ladder(&z->result, &z->steps, &z->whole, z->suite.title ? z->suite.title : "ladder", &svg, &err) !=
        STK_OK)
        code = bench_fail(&err);
    else
        code = bench_write_text(z->x->output->svg, &svg);
    stk__text_clear(&svg);
    return code;
}

/* Steps and the whole are two questions; the JSON has both, steps first. */
static int ladder_join(const ladder *z, stk__comparisons *out)
{
    *out = (stk__comparisons){.rule = z->steps.rule, .family = z->pair_count};
    out->items = stk__calloc(2 * z->pair_count, sizeof *out->items);
    if (!out->items) {
        cli_say("stoker: out of memory");
        return CLI_FAILED;
    }
    memcpy(out->items, z->steps.items, z->pair_count * sizeof *out->items);
    /* The first step is the whole so far; once is enough. */
    memcpy(out->items + z->pair_count, z->whole.items + 1, (z->pair_count - 1) * sizeof *out->items);
    out->count = 2 * z->pair_count - 1;
    return CLI_OK;
}

static int ladder_print(const ladder *z, const stk__comparisons *all)
{
    stk__text t = STK__TEXT_INIT;
    if (z->x->output->json) {
        stk_error err = {0};
        stk__text notes = STK__TEXT_INIT;
        const stk_status status = stk__bench_write(&z->result, all, STK__BENCH_STOKER, &t, &notes, &err);
        stk__text_clear(&notes);
        if (status != STK_OK)
            return bench_fail(&err);
    } else {
        stk__text_ladder(&z->result, &z->steps, &z->whole, bench_columns(), bench_unicode(), &t);
        stk__text_putc(&t, '\n');
        stk__report_text(&z->result, &z->steps, NULL, 0, &t);
    }
    cli_out_text(&t);
    return CLI_OK;
}

static void put_note(stk__text *t, const char *name, const char *note)
{
    stk__text_puts(t, "- ");
    if (name) {
        stk__markdown_cell(t, name);
        stk__text_puts(t, ": ");
    }
    stk__markdown_cell(t, note);
    stk__text_putc(t, '\n');
}

static int ladder_page(const ladder *z, const stk__comparisons *all)
{
    stk__text page = STK__TEXT_INIT;
    int code = CLI_OK;
    if (!z->x->output->into)
        return CLI_OK;
    stk__report_markdown(&z->result, all, &page);
    stk__text_putc(&page, '\n');
    for (size_t i = 0; i < z->suite.step_count; i++) {
        if (z->suite.steps[i].note)
            put_note(&page, z->suite.steps[i].name, z->suite.steps[i].note);
    }
    for (size_t i = 0; i < z->suite.note_count; i++)
        put_note(&page, NULL, z->suite.notes[i]);
    code = bench_write_page(z->x->output, page.data ? page.data : "");
    stk__text_clear(&page);
    return code;
}

static int ladder_finish(ladder *z, int code)
{
    stk_error err = {0};
    const bench_rule_options options = bench_merge_rule(z->x->rule, &z->suite.options);
    const stk__rule rule = bench_rule(&options, z->result.metrics[z->result.primary].name);
    const size_t metric = z->result.primary;
    if (stk__compare(&z->result, &rule, z->step_pairs, z->pair_count, metric, &z->steps, &err) != STK_OK ||
        stk__compare(&z->result, &rule, z->whole_pairs, z->pair_count, metric, &z->whole, &err) != STK_OK)
        return bench_fail(&err);
    stk__comparisons all;
    if (ladder_join(z, &all) != CLI_OK)
        return CLI_FAILED;
    const int codes[] = {code, ladder_print(z, &all), ladder_chart(z), ladder_page(z, &all),
                         bench_write_exports(&z->result, &all, z->x->output)};
    stk__free(all.items); /* the items' own memory is that of steps and whole */
    for (size_t i = 0; i < STK_COUNT(codes); i++) {
        if (codes[i] != CLI_OK)
            return codes[i];
    }
    if (z->result.interrupted)
        return CLI_INTERRUPTED;
    return bench_gate(&z->result, &z->steps, z->x->rule->fail_over, CLI_OK);
}

int bench_ladder(const bench_context *x, const char *path)
{
    ladder z = {.x = x};
    int code = bench_suite_read(path, true, &z.suite);
    if (code == CLI_OK)
        code = ladder_plan(&z);
    if (code == CLI_OK)
        code = ladder_measure(&z);
    if (z.result.variant_count && z.result.variants[0].runs)
        code = ladder_finish(&z, code);
    else if (code == CLI_OK && z.result.interrupted) {
        cli_say("stoker: interrupted before the first round was complete: nothing to report");
        code = CLI_INTERRUPTED;
    }
    stk__comparisons_clear(&z.steps);
    stk__comparisons_clear(&z.whole);
    stk__result_clear(&z.result);
    bench_trials_clear(&z.trials);
    stk__suite_clear(&z.suite);
    stk__free(z.step_pairs);
    stk__free(z.whole_pairs);
    return code;
}
