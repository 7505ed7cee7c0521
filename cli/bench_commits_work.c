/* What bench --commits runs in every commit: the commands of the command line, or the entries of a suite. */
#include <string.h>

#include "base/mem.h"
#include "bench_commits.h"
#include "bench_suite.h"

#include "base/banned.h"

int commits_no_memory(void)
{
    cli_say("stoker: out of memory");
    return CLI_FAILED;
}

/* ---- trials ---- */

static int entry_trial(const commits_run *z, const commits_work *w, size_t side, const bench_place *place,
                       bench_trials *out)
{
    const stk__suite_entry *e = w->entry;
    stk__text name = STK__TEXT_INIT;
    suite_column(e, side, place, &name);
    const int code = name.failed ? commits_no_memory()
                                 : bench_trials_add(out, name.data, side ? e->b : e->a, &w->options, z->x->design);
    stk__text_clear(&name);
    if (code != CLI_OK)
        return code;
    stk__trial *t = &out->items[out->count - 1];
    stk__free(t->directory);
    t->group = side;
    t->directory = suite_directory(place, w->options.directory);
    return t->directory ? CLI_OK : commits_no_memory();
}

static int entry_trials(const commits_run *z, const commits_work *w, const bench_place *places, size_t count,
                        bench_trials *out)
{
    int code = CLI_OK;
    for (size_t side = 0; side < w->count; side++) {
        for (size_t p = 0; p < count && code == CLI_OK; p++)
            code = entry_trial(z, w, side, &places[p], out);
    }
    return code;
}

int commits_trials(const commits_run *z, const commits_work *w, const bench_place *places, size_t count,
                   bench_trials *out)
{
    const bench_commits_options *o = z->o;
    if (w->entry)
        return entry_trials(z, w, places, count, out);
    return bench_trials_make(out, o->arguments->items, o->arguments->count, o->names, o->params, &w->design, places,
                             count);
}

/* ---- benchmarks ---- */

static int add_benchmark(commits_run *z, const commits_work *w, char *name)
{
    commits_benchmark *all = stk__realloc(z->benchmarks, (z->benchmark_count + 1) * sizeof *all);
    stk__result r = {0};
    if (!name || !all) {
        stk__free(name);
        return commits_no_memory();
    }
    z->benchmarks = all;
    const bench_design_options *d = &w->design;
    const int code = bench_metrics(&r, d, true);
    commits_benchmark b = {.name = name};
    if (code == CLI_OK) {
        const stk__metric *m = &r.metrics[r.primary];
        b.metric = stk__strdup(m->name);
        b.unit = stk__strdup(m->unit);
        b.higher_is_better = m->higher_is_better;
    }
    stk__result_clear(&r);
    z->benchmarks[z->benchmark_count++] = b;
    return code != CLI_OK ? code : b.metric && b.unit ? CLI_OK : commits_no_memory();
}

/* The commands of the command line are called in a commit as they are by --against, without the commit. */
static int command_benchmarks(commits_run *z, commits_work *w)
{
    static const bench_place nowhere = {"/", "-"};
    bench_trials trials = {0};
    int code = commits_trials(z, w, &nowhere, 1, &trials);
    for (size_t i = 0; i < trials.count && code == CLI_OK; i++) {
        const char *name = trials.items[i].name;
        code = add_benchmark(z, w, stk__strndup(name, strlen(name) - strlen(" @ -")));
    }
    if (code == CLI_OK && trials.pipelines)
        cli_say("stoker: pipeline files of all commits are run by this build of Stoker; give a command to compare "
                "builds");
    w->count = trials.count;
    bench_trials_clear(&trials);
    return code;
}

/* "level 1 against level 6 a": one benchmark for each side. */
static int entry_benchmarks(commits_run *z, commits_work *w)
{
    const stk__suite_entry *e = w->entry;
    w->count = e->b ? 2 : 1;
    for (size_t side = 0; side < w->count; side++) {
        stk__text t = STK__TEXT_INIT;
        suite_column(e, side, NULL, &t);
        const int code = add_benchmark(z, w, t.failed ? NULL : t.data);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

static int describe_limits(const commits_run *z, commits_work *w)
{
    stk_error err = {0};
    stk__text text = STK__TEXT_INIT, note = STK__TEXT_INIT;
    const bench_trials none = {0};
    const stk__experiment e = bench_experiment(&none, &w->design, &w->rule, true);
    const stk_status status = stk__limits_describe(z->x->launcher, &e.launch.limits, &text, &note, &err);
    stk__text_clear(&note);
    w->limits = stk__strdup(text.data ? text.data : "");
    stk__text_clear(&text);
    return status != STK_OK ? bench_fail(&err) : w->limits ? CLI_OK : commits_no_memory();
}

static int work_make(commits_run *z, commits_work *w, const stk__suite_entry *entry)
{
    w->entry = entry;
    w->first = z->benchmark_count;
    w->design = *z->x->design;
    w->rule = *z->x->rule;
    if (entry) {
        w->options = stk__suite_merge(&z->suite.options, &entry->options);
        w->design = bench_merge(z->x->design, &w->options);
        w->rule = bench_merge_rule(z->x->rule, &w->options);
    }
    const int code = entry ? entry_benchmarks(z, w) : command_benchmarks(z, w);
    return code == CLI_OK ? describe_limits(z, w) : code;
}

int commits_works_make(commits_run *z)
{
    int code = z->o->suite ? bench_suite_read(z->o->suite, false, &z->suite) : CLI_OK;
    const size_t count = z->o->suite ? z->suite.entry_count : 1;
    if (code != CLI_OK)
        return code;
    z->works = stk__calloc(count, sizeof *z->works);
    if (!z->works)
        return commits_no_memory();
    for (size_t i = 0; i < count && code == CLI_OK; i++)
        code = work_make(z, &z->works[z->work_count++], z->o->suite ? &z->suite.entries[i] : NULL);
    return code;
}

void commits_works_clear(commits_run *z)
{
    for (size_t i = 0; i < z->work_count; i++)
        stk__free(z->works[i].limits);
    for (size_t i = 0; i < z->benchmark_count; i++) {
        stk__free(z->benchmarks[i].name);
        stk__free(z->benchmarks[i].metric);
        stk__free(z->benchmarks[i].unit);
    }
    stk__free(z->works);
    stk__free(z->benchmarks);
    stk__suite_clear(&z->suite);
}
