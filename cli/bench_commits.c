/*
 * stoker bench --commits: a line of commits, each compared with the one before it in the same rounds.
 *
 * Commits are taken in blocks of eight and the one before them. A block is checked out and built side by side, and
 * every round runs all of it in random order: what the machine does meanwhile hits a commit and its parent alike. The
 * next block begins with the last commit of this one.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "bench/machine.h"
#include "bench/words.h"
#include "bench_commits.h"

#include "base/banned.h"

enum {
    BLOCK = 8,         /* commits to be measured at once */
    LEAST_ROUNDS = 20, /* twelve are few when many commits share one risk of a false alarm */
    SECONDS_EACH = 5,  /* for each run of a round, where that makes for more of them */
    MOST_BUILDS = 64,  /* that are kept */
    MOST_NOTES = 20
};
#define MOST_BYTES (UINT64_C(8) << 30)

/* ---- commits ---- */

void commits_figure_clear(commits_figure *f)
{
    stk__free(f->verdict);
    stk__free(f->reason);
    *f = (commits_figure){0};
}

static int items_make(commits_run *z)
{
    z->count = z->range.count;
    z->items = stk__calloc(z->count, sizeof *z->items);
    if (!z->items)
        return commits_no_memory();
    for (size_t i = 0; i < z->count; i++) {
        z->items[i] = (commits_item){.commit = &z->range.items[i], .before = SIZE_MAX, .build.lock = -1};
        z->items[i].figures = stk__calloc(z->benchmark_count, sizeof *z->items[i].figures);
        if (!z->items[i].figures)
            return commits_no_memory();
    }
    return CLI_OK;
}

static void items_clear(commits_run *z)
{
    for (size_t i = 0; z->items && i < z->count; i++) {
        for (size_t k = 0; z->items[i].figures && k < z->benchmark_count; k++)
            commits_figure_clear(&z->items[i].figures[k]);
        stk__build_release(&z->items[i].build);
        stk__free(z->items[i].figures);
        stk__free(z->items[i].failure);
    }
    stk__free(z->items);
}

static int break_item(commits_run *z, size_t i, const char *what, const char *why)
{
    commits_item *m = &z->items[i];
    stk__text t = STK__TEXT_INIT;
    stk__text_printf(&t, "%s: %s", what, why);
    if (t.failed) {
        stk__text_clear(&t);
        return commits_no_memory();
    }
    stk__build_release(&m->build);
    stk__free(m->failure);
    m->failure = t.data;
    if (m->state != COMMITS_LOGGED) {
        m->state = COMMITS_BROKEN;
        m->before = SIZE_MAX;
    }
    cli_say("stoker: commit %s %s", m->commit->brief, m->failure);
    return CLI_OK;
}

/* ---- building ---- */

static void tell_building(const commits_run *z, size_t i)
{
    stk__text t = STK__TEXT_INIT;
    if (z->x->output->quiet)
        return;
    stk__text_printf(&t, "bench: commit %zu of %zu, %s %s: %s", i, z->count - 1,
                     z->o->build ? "building" : "checking out", z->items[i].commit->brief, z->items[i].commit->subject);
    if (!t.failed)
        cli_live(t.data);
    stk__text_clear(&t);
}

static bool wait_for_others(void *context)
{
    const commits_run *z = context;
    if (!z->x->output->quiet)
        cli_live("bench: waiting for another stoker that builds the same commit");
    return !cli_interrupted();
}

/* Sets `interrupted`, or a failure of the commit; an error code only when nothing can go on. */
static int prepare(commits_run *z, size_t i)
{
    commits_item *m = &z->items[i];
    stk_error err = {0};
    if (m->build.directory || m->failure)
        return CLI_OK;
    tell_building(z, i);
    const stk_status status =
        stk__build_take(z->x->launcher, &z->builds, m->commit, z->o->rebuild && !m->tried, &m->build, &err);
    cli_live_clear();
    if (status == STK_CANCELLED || cli_interrupted()) {
        z->interrupted = true;
        return CLI_OK;
    }
    if (status == STK_NOMEM)
        return commits_no_memory();
    if (status != STK_OK)
        return break_item(z, i, "cannot be had", err.message);
    z->made += !m->tried && m->build.made;
    z->found += !m->tried && !m->build.made;
    m->tried = true;
    if (m->build.directory)
        return CLI_OK;
    return break_item(z, i, m->build.made ? "did not build" : "did not build before (--rebuild tries again)",
                      m->build.failure);
}

/* ---- a block ---- */

static void block_clear(const commits_run *z, commits_block *b)
{
    for (size_t w = 0; w < z->work_count; w++) {
        if (b->results)
            stk__result_clear(&b->results[w]);
        if (b->comparisons)
            stk__comparisons_clear(&b->comparisons[w]);
    }
    stk__free(b->results);
    stk__free(b->comparisons);
    stk__free(b->members);
    stk__free(b->wanted);
    *b = (commits_block){0};
}

static bool block_open(const commits_run *z, commits_block *b)
{
    *b = (commits_block){.members = stk__calloc(2 * BLOCK, sizeof *b->members),
                         .wanted = stk__calloc(BLOCK, sizeof *b->wanted),
                         .results = stk__calloc(z->work_count, sizeof *b->results),
                         .comparisons = stk__calloc(z->work_count, sizeof *b->comparisons)};
    return b->members && b->wanted && b->results && b->comparisons;
}

/* Is ready, once it could be built. */
static bool ready(const commits_run *z, size_t i)
{
    return z->items[i].build.directory != NULL;
}

/* The nearest commit before that builds and runs, or SIZE_MAX. */
static int find_before(commits_run *z, size_t i, size_t *out)
{
    *out = SIZE_MAX;
    while (i-- > 0 && !z->interrupted) {
        const int code = prepare(z, i);
        if (code != CLI_OK)
            return code;
        if (ready(z, i)) {
            *out = i;
            return CLI_OK;
        }
    }
    return CLI_OK;
}

static void add_member(commits_block *b, size_t i)
{
    if (!b->count || b->members[b->count - 1] != i)
        b->members[b->count++] = i;
}

/* Without anything before it that builds, a commit is what the next ones are compared with. */
static int add_wanted(commits_run *z, commits_block *b, size_t i)
{
    size_t before;
    z->items[i].before = SIZE_MAX; /* what it was may have failed since */
    int code = find_before(z, i, &before);
    if (code == CLI_OK && !z->interrupted)
        code = prepare(z, i);
    if (code != CLI_OK || z->interrupted || !ready(z, i) || before == SIZE_MAX)
        return code;
    add_member(b, before);
    add_member(b, i);
    z->items[i].before = before;
    b->wanted[b->wanted_count++] = i;
    return CLI_OK;
}

/*
 * A row may skip commits: they did not build or run then, or that range had fewer of them. It tells what is asked for
 * when none of those between can be measured; whether they can must be known first (*out_wait).
 */
static void look_again(commits_run *z, size_t i, bool *out_wait)
{
    bool open = false, measured = false;
    *out_wait = false;
    for (size_t k = z->items[i].before; k != SIZE_MAX && k + 1 < i; k++) {
        open = open || z->items[k + 1].state == COMMITS_OPEN;
        measured = measured || z->items[k + 1].state == COMMITS_MEASURED || z->items[k + 1].state == COMMITS_LOGGED;
    }
    if (measured)
        commits_reopen(z, i);
    else
        *out_wait = open;
}

/* The next commits that are open, from `from` on, each with what it is compared with. */
static int block_plan(commits_run *z, size_t from, commits_block *b)
{
    int code = block_open(z, b) ? CLI_OK : commits_no_memory();
    for (size_t i = STK_MAX(from, 1); i < z->count && b->wanted_count < BLOCK && code == CLI_OK && !z->interrupted;
         i++) {
        bool wait = false;
        if (z->items[i].state == COMMITS_LOGGED)
            look_again(z, i, &wait);
        if (wait && b->wanted_count)
            break;
        if (wait)
            commits_reopen(z, i); /* what is open by now is only there to compare with */
        if (z->items[i].state == COMMITS_OPEN)
            code = add_wanted(z, b, i);
    }
    return code;
}

/* ---- running ---- */

typedef struct watch {
    const commits_run *z;
    const commits_block *b;
    size_t work;
    int64_t began_ns;
} watch;

/* Works of this block that are to come take as long as this one; other commits as long as those so far. */
static double time_left(const watch *w, double in_work)
{
    const commits_run *z = w->z;
    const int64_t now = stk__now_ns();
    size_t open = 0;
    const double work = (double)(now - w->began_ns) / 1e9 + in_work;
    const double in_block = in_work + work * (double)(z->work_count - w->work - 1);
    const double block = (double)(now - z->block_began_ns) / 1e9 + in_block;
    for (size_t i = w->b->wanted[w->b->wanted_count - 1] + 1; i < z->count; i++)
        open += z->items[i].state == COMMITS_OPEN;
    return in_block + (z->seconds_done + block) / (z->commits_done + (double)w->b->wanted_count) * (double)open;
}

static void show_progress(void *context, const stk__progress *p)
{
    const watch *w = context;
    const commits_block *b = w->b;
    stk__text t = STK__TEXT_INIT;
    stk__text_printf(&t, "bench: commits %zu to %zu of %zu, ", b->wanted[0], b->wanted[b->wanted_count - 1],
                     w->z->count - 1);
    if (w->z->work_count > 1)
        stk__text_printf(&t, "%s, ", w->z->benchmarks[w->z->works[w->work].first].name);
    if (p->warming)
        stk__text_printf(&t, "warm-up, run %zu of %zu", p->done + 1, p->runs);
    else
        stk__text_printf(&t, "round %zu of %zu, run %zu of %zu", p->round + 1, p->rounds, p->done + 1, p->runs);
    if (isfinite(p->left_s)) {
        stk__text_puts(&t, ", about ");
        cli_text_seconds(&t, time_left(w, p->left_s));
        stk__text_puts(&t, " left");
    }
    if (!t.failed)
        cli_live(t.data);
    stk__text_clear(&t);
}

/*
 * The risk of a false alarm is shared by all comparisons of the range: a block has its part of it, whether or not
 * another run has measured the rest before. Holm and the intervals of the block share that part.
 */
static stk__rule block_rule(const commits_run *z, const commits_work *w, size_t pairs)
{
    stk__rule rule = bench_rule(&w->rule, w->design.metric);
    const double all = (double)(z->count - 1) * (double)z->benchmark_count;
    rule.confidence = 1 - (1 - rule.confidence) * (double)pairs / all;
    return rule;
}

static int work_trials(const commits_run *z, const commits_work *w, const commits_block *b, bench_trials *out)
{
    bench_place *places = stk__calloc(b->count, sizeof *places);
    if (!places)
        return commits_no_memory();
    for (size_t i = 0; i < b->count; i++) {
        const commits_item *m = &z->items[b->members[i]];
        places[i] = (bench_place){m->build.directory, m->commit->brief};
    }
    const int code = commits_trials(z, w, places, b->count, out);
    stk__free(places);
    return code;
}

static size_t place_of(const commits_block *b, size_t item)
{
    size_t place = 0;
    while (b->members[place] != item)
        place++;
    return place;
}

static stk__compare_pair *work_pairs(const commits_run *z, const commits_work *w, const commits_block *b)
{
    stk__compare_pair *pairs = stk__calloc(w->count * b->wanted_count, sizeof *pairs);
    for (size_t k = 0; pairs && k < w->count; k++) {
        for (size_t i = 0; i < b->wanted_count; i++) {
            const size_t item = b->wanted[i];
            pairs[commits_comparison(b, k, i)] = (stk__compare_pair){
                commits_variant(b, k, place_of(b, z->items[item].before)), commits_variant(b, k, place_of(b, item))};
        }
    }
    return pairs;
}

static stk_status run_experiment(const commits_run *z, size_t work, const commits_block *b, const bench_trials *trials,
                                 const stk__compare_pair *pairs, size_t *out_failed, stk_error *err)
{
    const commits_work *w = &z->works[work];
    stk__result *r = &b->results[work];
    const size_t pair_count = w->count * b->wanted_count;
    watch context = {z, b, work, stk__now_ns()};
    stk__experiment e = bench_experiment(trials, &w->design, &w->rule, z->x->output->quiet);
    e.pairs = pairs;
    e.pair_count = pair_count;
    e.rule = block_rule(z, w, pair_count);
    e.seed = stk__mix((uint64_t)z->seed, b->wanted[0]);
    e.least = LEAST_ROUNDS;
    e.seconds = SECONDS_EACH * (double)trials->count;
    e.context = &context;
    e.out_failed = out_failed;
    if (e.progress)
        e.progress = show_progress;
    r->machine = stk__strdup(z->machine);
    STK_TRY(r->machine ? stk__experiment_run(&e, z->x->launcher, r, err) : stk__nomem(1, err));
    if (r->variants[0].runs)
        STK_TRY(stk__compare(r, &e.rule, pairs, pair_count, r->primary, &b->comparisons[work], err));
    return STK_OK;
}

/* "app @ 1a2b3c4 ('app') failed in the warm-up: exit code 1: no such file": what comes after the command. */
static const char *after_command(const char *message, const stk__trial *t)
{
    char start[300];
    const int n = snprintf(start, sizeof start, "%.60s ('%.200s') ", t->name, t->command);
    return n > 0 && strncmp(message, start, (size_t)n) == 0 ? message + n : message;
}

/* *out_broken: a commit of it failed, so that the block must be made anew. */
static int work_run(commits_run *z, size_t work, const commits_block *b, bool *out_broken)
{
    const commits_work *w = &z->works[work];
    bench_trials trials = {0};
    stk_error err = {0};
    size_t failed = SIZE_MAX;
    int code = work_trials(z, w, b, &trials);
    stk__compare_pair *pairs = code == CLI_OK ? work_pairs(z, w, b) : NULL;
    if (code == CLI_OK && !pairs)
        code = commits_no_memory();
    if (code == CLI_OK)
        code = bench_metrics(&b->results[work], &w->design, trials.pipelines || w->entry);
    if (code == CLI_OK && run_experiment(z, work, b, &trials, pairs, &failed, &err) != STK_OK) {
        *out_broken = failed != SIZE_MAX;
        code = *out_broken ? break_item(z, b->members[failed % b->count], "does not run",
                                        after_command(err.message, &trials.items[failed]))
                           : bench_fail(&err);
    }
    cli_live_clear();
    stk__free(pairs);
    bench_trials_clear(&trials);
    return code;
}

/* ---- figures ---- */

static int figure_values(const stk__result *r, size_t variant, commits_figure *out)
{
    const stk__variant *v = &r->variants[variant];
    stk_error err = {0};
    stk__summary s = {0};
    double *known = stk__calloc(v->runs + 1, sizeof *known);
    size_t n = 0;
    if (!known)
        return commits_no_memory();
    for (size_t i = 0; i < v->runs; i++) {
        if (isfinite(v->values[r->primary][i]))
            known[n++] = v->values[r->primary][i];
    }
    const stk_status status = n ? stk__describe(known, n, &s, &err) : STK_OK;
    stk__free(known);
    if (status != STK_OK)
        return bench_fail(&err);
    commits_figure_clear(out);
    *out = (commits_figure){.n = n, .mean = s.mean, .sd = s.sd, .median = s.median};
    return CLI_OK;
}

static int figure_compare(const stk__result *r, const stk__comparisons *all, size_t index, commits_figure *f)
{
    stk__comparison *c = &all->items[index];
    const stk__comparisons one = {.items = c, .count = 1, .rule = all->rule};
    stk__text reason = STK__TEXT_INIT;
    stk__words_reason(r, all, index, &reason);
    f->compared = true;
    f->valid = c->valid;
    f->ratio = c->ratio;
    f->low = c->low;
    f->high = c->high;
    f->p = c->p_holm;
    f->withheld = c->withheld != NULL;
    f->open = c->verdict == STK__INCONCLUSIVE;
    f->changed = !f->open && c->verdict != STK__EQUIVALENT;
    f->regression = stk__worst_regression(&one, r);
    f->verdict = stk__strdup(stk__verdict_name(c->verdict));
    f->reason = reason.length ? reason.data : NULL;
    if (!reason.length)
        stk__text_clear(&reason);
    return f->verdict && !reason.failed ? CLI_OK : commits_no_memory();
}

static void keep_note(commits_run *z, const char *note)
{
    for (size_t i = 0; i < z->note_count; i++) {
        if (strcmp(z->notes[i], note) == 0)
            return;
    }
    if (z->note_count < MOST_NOTES &&
        stk__grow((void **)&z->notes, &z->note_capacity, z->note_count + 1, sizeof *z->notes) &&
        (z->notes[z->note_count] = stk__strdup(note)))
        z->note_count++;
}

static int work_figures(commits_run *z, size_t work, const commits_block *b)
{
    const commits_work *w = &z->works[work];
    const stk__result *r = &b->results[work];
    int code = CLI_OK;
    for (size_t k = 0; k < w->count && code == CLI_OK; k++) {
        for (size_t p = 0; p < b->count && code == CLI_OK; p++) {
            /* What it is compared with keeps the figures that it had from the block before. */
            commits_figure *f = &z->items[b->members[p]].figures[w->first + k];
            if (!f->n)
                code = figure_values(r, commits_variant(b, k, p), f);
        }
        for (size_t i = 0; i < b->wanted_count && code == CLI_OK; i++)
            code = figure_compare(r, &b->comparisons[work], commits_comparison(b, k, i),
                                  &z->items[b->wanted[i]].figures[w->first + k]);
    }
    for (size_t i = 0; i < r->note_count; i++)
        keep_note(z, r->notes[i]);
    z->retaken += r->retaken;
    z->dropped += r->dropped;
    z->rounds = STK_MAX(z->rounds, r->variants[0].runs);
    z->warmup = r->warmup;
    return code;
}

/* ---- blocks, one after the other ---- */

/* Works of which rounds were finished; all of them unless it was interrupted. */
static size_t works_measured(const commits_run *z, const commits_block *b)
{
    size_t n = 0;
    while (n < z->work_count && b->results[n].variant_count && b->results[n].variants[0].runs)
        n++;
    return n;
}

static int block_keep(commits_run *z, const commits_block *b)
{
    const size_t works = works_measured(z, b);
    int code = CLI_OK;
    for (size_t w = 0; w < works && code == CLI_OK; w++)
        code = work_figures(z, w, b);
    for (size_t i = 0; i < b->count && works; i++) {
        commits_item *m = &z->items[b->members[i]];
        m->interrupted = m->state == COMMITS_OPEN && z->interrupted;
        if (m->state == COMMITS_OPEN)
            m->state = COMMITS_MEASURED;
    }
    return code;
}

static int block_run(commits_run *z, const commits_block *b, bool *out_broken)
{
    int code = CLI_OK;
    *out_broken = false;
    for (size_t w = 0; w < z->work_count && code == CLI_OK && !*out_broken && !z->interrupted; w++) {
        code = work_run(z, w, b, out_broken);
        z->interrupted = z->interrupted || b->results[w].interrupted;
    }
    if (code != CLI_OK || *out_broken)
        return code;
    code = block_keep(z, b);
    z->seconds_done += (double)(stk__now_ns() - z->block_began_ns) / 1e9;
    z->commits_done += (double)b->wanted_count;
    if (code == CLI_OK && !z->interrupted)
        code = commits_log_append(z, b);
    if (!z->x->output->json)
        commits_print_rows(z, b->wanted[b->wanted_count - 1] + 1);
    return code;
}

/* But the last one, which the next block begins with. */
static void release_builds(commits_run *z, const commits_block *b)
{
    for (size_t i = 0; i < b->wanted[b->wanted_count - 1]; i++)
        stk__build_release(&z->items[i].build);
    stk__builds_trim(z->builds.folder, MOST_BUILDS, MOST_BYTES);
}

static int measure(commits_run *z)
{
    size_t from = 1;
    for (;;) {
        commits_block b;
        bool broken = false;
        z->block_began_ns = stk__now_ns();
        int code = block_plan(z, from, &b);
        if (code == CLI_OK && b.wanted_count && !z->interrupted) {
            code = block_run(z, &b, &broken);
            if (!broken) {
                from = b.wanted[b.wanted_count - 1] + 1;
                release_builds(z, &b);
            }
        }
        const bool more = b.wanted_count > 0;
        block_clear(z, &b);
        if (code != CLI_OK || z->interrupted || !more)
            return code;
    }
}

/* ---- from beginning to end ---- */

static void tell_range(const commits_run *z)
{
    stk__commit here = {0};
    if (z->range.elsewhere)
        cli_say("stoker: %s: the commits begin after %s, where both ends meet on the line of first parents",
                z->o->range, z->range.items[0].brief);
    if (stk__git_here(z->x->launcher, NULL, &here, NULL) == STK_OK && here.dirty)
        cli_say("stoker: changes that are not committed are not measured");
    if (z->logged)
        cli_say("stoker: %zu of %zu commits are in %s already, and are not measured again", z->logged, z->count - 1,
                z->o->log);
}

static int open_builds(commits_run *z)
{
    stk_error err = {0};
    stk__text folder = STK__TEXT_INIT;
    char *cache = cli_cache_dir();
    if (!cache) {
        cli_say("stoker: there is no place to keep builds: set XDG_CACHE_HOME or HOME to a directory");
        return CLI_FAILED;
    }
    stk__text_printf(&folder, "%s/builds", cache);
    stk__free(cache);
    int code = folder.failed ? commits_no_memory() : CLI_OK;
    if (code == CLI_OK && stk__builds_open(z->x->launcher, folder.data, z->o->build, &z->builds, &err) != STK_OK)
        code = bench_fail(&err);
    stk__text_clear(&folder);
    z->builds.wait = wait_for_others;
    z->builds.context = z;
    return code;
}

static int open_run(commits_run *z)
{
    stk_error err = {0};
    stk__text machine = STK__TEXT_INIT;
    stk__machine_describe(&machine);
    z->machine = machine.data;
    if (machine.failed || !z->machine)
        return commits_no_memory();
    if (stk__git_range(z->x->launcher, z->o->range, (size_t)STK_MAX(z->o->every, 1), &z->range, &err) != STK_OK)
        return bench_fail(&err);
    int code = commits_works_make(z);
    if (code == CLI_OK)
        code = items_make(z);
    if (code == CLI_OK)
        code = commits_log_open(z);
    if (code == CLI_OK)
        code = open_builds(z);
    if (code == CLI_OK)
        tell_range(z);
    return code;
}

static bool any_measured(const commits_run *z)
{
    for (size_t i = 1; i < z->count; i++) {
        if (z->items[i].state == COMMITS_MEASURED || z->items[i].state == COMMITS_LOGGED)
            return true;
    }
    return false;
}

static int finish(commits_run *z, int code)
{
    const bool any = any_measured(z);
    if (z->x->output->json) {
        commits_print_json(z);
    } else {
        commits_print_rows(z, z->interrupted ? z->printed : z->count);
        commits_print_end(z);
    }
    const int page = any && !z->interrupted ? commits_write_page(z) : CLI_OK;
    if (z->interrupted) {
        cli_say(z->o->log ? "stoker: interrupted: the same command goes on where the log ends"
                          : "stoker: interrupted: builds are kept; with --log, measurements are as well");
        return CLI_INTERRUPTED;
    }
    if (code == CLI_OK && !any) {
        cli_say("stoker: nothing could be measured: no two commits of %s build and run", z->o->range);
        return CLI_FAILED;
    }
    return commits_gate(z, code == CLI_OK ? page : code);
}

static void run_clear(commits_run *z)
{
    items_clear(z);
    commits_works_clear(z);
    stk__builds_close(&z->builds);
    stk__commits_clear(&z->range);
    for (size_t i = 0; i < z->note_count; i++)
        stk__free(z->notes[i]);
    stk__free(z->notes);
    stk__free(z->machine);
}

int bench_commits(const bench_context *x, const bench_commits_options *o)
{
    commits_run z = {.x = x, .o = o, .seed = (int64_t)bench_seed(x->design)};
    if (x->output->svg || x->output->exports.count)
        return cli_usage_error(&cli_command_bench, "--commits makes a table: no --svg and no --export");
    int code = open_run(&z);
    if (code == CLI_OK) {
        code = measure(&z);
        code = finish(&z, code);
    }
    run_clear(&z);
    return code;
}
