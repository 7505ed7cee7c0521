/* bench --commits --log: commits that have their row already, and a row for each new one. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/log.h"
#include "bench/words.h"
#include "bench_commits.h"

#include "base/banned.h"

/* ---- what is there ---- */

static size_t find_benchmark(const stk__log *log, const char *name)
{
    for (size_t i = 0; i < log->benchmark_count; i++) {
        if (strcmp(log->benchmarks[i].name, name) == 0)
            return i;
    }
    return SIZE_MAX;
}

/* The commit before `i` that a cell was compared with, or SIZE_MAX. */
static size_t find_against(const commits_run *z, size_t i, const char *against)
{
    const size_t length = against ? strlen(against) : 0;
    while (length >= 4 && i-- > 0) {
        if (strncmp(z->items[i].commit->hash, against, length) == 0)
            return i;
    }
    return SIZE_MAX;
}

static const commits_work *work_of(const commits_run *z, size_t benchmark)
{
    const commits_work *w = z->works;
    while (benchmark >= w->first + w->count)
        w++;
    return w;
}

/*
 * Whether a row says about a benchmark of commit `i` what a measurement now would: by this machine under these limits,
 * and in the same rounds as a commit before it. The baseline is not compared.
 */
static bool cell_tells(const commits_run *z, size_t i, size_t benchmark, const stk__log *log, const stk__log_row *row)
{
    const size_t column = find_benchmark(log, z->benchmarks[benchmark].name);
    if (column == SIZE_MAX || !row->cells[column].n)
        return false;
    const stk__log_cell *c = &row->cells[column];
    if (strcmp(stk__log_limits(row, column), work_of(z, benchmark)->limits) != 0)
        return false;
    return i == 0 || (c->paired && c->verdict && find_against(z, i, c->against) != SIZE_MAX);
}

static bool row_tells(const commits_run *z, size_t i, const stk__log *log, const stk__log_row *row)
{
    const stk__log_row here = {.machine = z->machine};
    if (row->dirty || strcmp(row->commit, z->items[i].commit->hash) != 0 || !stk__words_same_machine(row, &here))
        return false;
    for (size_t k = 0; k < z->benchmark_count; k++) {
        if (!cell_tells(z, i, k, log, row))
            return false;
    }
    return true;
}

/* Read back from the log: what was measured before stands in the table and before the gate as well. */
static int take_cell(commits_run *z, size_t i, size_t benchmark, const stk__log_cell *c)
{
    commits_figure *f = &z->items[i].figures[benchmark];
    *f = (commits_figure){.n = c->n, .mean = c->mean, .sd = c->sd, .median = NAN};
    if (i == 0 || !c->paired || !c->verdict)
        return CLI_OK;
    f->compared = true;
    f->valid = isfinite(c->ratio) && c->ratio > 0;
    f->ratio = c->ratio;
    f->low = c->low;
    f->high = c->high;
    f->p = c->p;
    f->open = strcmp(c->verdict, stk__verdict_name(STK__INCONCLUSIVE)) == 0;
    f->changed = !f->open && strcmp(c->verdict, stk__verdict_name(STK__EQUIVALENT)) != 0;
    /* "slower", and what else begins with it. */
    const char *slower = stk__verdict_name(STK__SLOWER);
    if (f->valid && strncmp(c->verdict, slower, strlen(slower)) == 0)
        f->regression = (z->benchmarks[benchmark].higher_is_better ? 1 / c->ratio : c->ratio) - 1;
    f->verdict = stk__strdup(c->verdict);
    z->items[i].before = find_against(z, i, c->against);
    return f->verdict ? CLI_OK : commits_no_memory();
}

static int take_row(commits_run *z, size_t i, const stk__log *log, const stk__log_row *row)
{
    int code = CLI_OK;
    z->items[i].state = COMMITS_LOGGED;
    for (size_t k = 0; k < z->benchmark_count && code == CLI_OK; k++)
        code = take_cell(z, i, k, &row->cells[find_benchmark(log, z->benchmarks[k].name)]);
    z->logged += i > 0 && z->items[i].before + 1 == i;
    return code;
}

/* The newest row of each. */
static int mark_logged(commits_run *z, const stk__log *log)
{
    for (size_t i = 0; i < z->count; i++) {
        size_t row = log->row_count;
        while (row > 0 && !row_tells(z, i, log, &log->rows[row - 1]))
            row--;
        const int code = row ? take_row(z, i, log, &log->rows[row - 1]) : CLI_OK;
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

void commits_reopen(commits_run *z, size_t i)
{
    commits_item *m = &z->items[i];
    for (size_t k = 0; k < z->benchmark_count; k++)
        commits_figure_clear(&m->figures[k]);
    m->state = COMMITS_OPEN;
    m->before = SIZE_MAX;
}

/* ---- would it take our rows? ---- */

/* Results of the works with variants and metrics, but no runs. */
static int empty_results(const commits_run *z, stk__result *results)
{
    stk_error err = {0};
    for (size_t w = 0; w < z->work_count; w++) {
        const bench_design_options *d = &z->works[w].design;
        const int code = bench_metrics(&results[w], d, true);
        if (code != CLI_OK)
            return code;
        for (size_t k = 0; k < z->works[w].count; k++) {
            if (stk__result_add_variant(&results[w], z->benchmarks[z->works[w].first + k].name, "", k, NULL, &err) !=
                STK_OK)
                return bench_fail(&err);
        }
    }
    return CLI_OK;
}

static int check_fits(const commits_run *z, const stk__result *results)
{
    bench_row row = {.confidence = z->x->rule->confidence};
    int code = CLI_OK;
    for (size_t w = 0; w < z->work_count; w++) {
        for (size_t k = 0; k < z->works[w].count && code == CLI_OK; k++) {
            const char *name = z->benchmarks[z->works[w].first + k].name;
            const stk__log_figure figure = {.result = &results[w], .variant = k};
            code = bench_row_figure(&row, name, strlen(name), &figure);
        }
    }
    if (code == CLI_OK)
        code = bench_row_fits(&row, z->o->log);
    bench_row_clear(&row);
    return code;
}

int commits_log_open(commits_run *z)
{
    stk_error err = {0};
    stk__log log = {0};
    if (!z->o->log)
        return CLI_OK;
    stk__result *results = stk__calloc(z->work_count, sizeof *results);
    if (!results)
        return commits_no_memory();
    int code = empty_results(z, results);
    if (code == CLI_OK)
        code = check_fits(z, results);
    for (size_t w = 0; w < z->work_count; w++)
        stk__result_clear(&results[w]);
    stk__free(results);
    if (code == CLI_OK && stk__log_read(z->o->log, &log, &err) != STK_OK)
        code = bench_fail(&err);
    if (code == CLI_OK)
        code = mark_logged(z, &log);
    stk__log_clear(&log);
    return code;
}

/* ---- adding ---- */

/* `wanted`: its index among those of the block; SIZE_MAX: the row of what is only compared with. */
static int make_row(const commits_run *z, const commits_block *b, size_t place, size_t wanted, bench_row *out)
{
    const commits_item *m = &z->items[b->members[place]];
    out->confidence = z->x->rule->confidence;
    for (size_t w = 0; w < z->work_count; w++) {
        for (size_t k = 0; k < z->works[w].count; k++) {
            const char *name = z->benchmarks[z->works[w].first + k].name;
            stk__log_figure figure = {.result = &b->results[w], .variant = commits_variant(b, k, place)};
            if (wanted != SIZE_MAX) {
                figure.past = &b->comparisons[w].items[commits_comparison(b, k, wanted)];
                figure.against = z->items[m->before].commit->brief;
            }
            const int code = bench_row_figure(out, name, strlen(name), &figure);
            if (code != CLI_OK)
                return code;
        }
    }
    return CLI_OK;
}

static int append(const commits_run *z, const commits_block *b, size_t place, size_t wanted)
{
    stk_error err = {0};
    stk__text notes = STK__TEXT_INIT;
    bench_row row = {0};
    int code = make_row(z, b, place, wanted, &row);
    const stk__log_entry entry = {.figures = row.figures,
                                  .figure_count = row.figure_count,
                                  .commit = z->items[b->members[place]].commit,
                                  .confidence = row.confidence};
    if (code == CLI_OK && stk__log_append(z->o->log, &entry, NULL, &notes, &err) != STK_OK)
        code = bench_fail(&err);
    bench_say_lines(&notes);
    stk__text_clear(&notes);
    bench_row_clear(&row);
    return code;
}

int commits_log_append(commits_run *z, const commits_block *b)
{
    size_t next = 0, rows = 0;
    int code = CLI_OK;
    if (!z->o->log)
        return CLI_OK;
    for (size_t place = 0; place < b->count && code == CLI_OK; place++) {
        const size_t i = b->members[place];
        const bool wanted = next < b->wanted_count && b->wanted[next] == i;
        /* What others are compared with has its row from the block before, or from another run. */
        if (wanted || (!z->items[i].logged && z->items[i].state == COMMITS_MEASURED)) {
            code = append(z, b, place, wanted ? next : SIZE_MAX);
            z->items[i].logged = true;
            rows++;
        }
        next += wanted;
    }
    if (code == CLI_OK)
        cli_say("stoker: added %zu row%s to %s", rows, rows == 1 ? "" : "s", z->o->log);
    return code;
}
