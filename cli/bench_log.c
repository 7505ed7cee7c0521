/* The row of a run in the change log: its benchmarks, what became of each, and what the run compared. */
#include <string.h>

#include "base/mem.h"
#include "bench.h"
#include "bench/log.h"

#include "base/banned.h"

void bench_row_clear(bench_row *row)
{
    for (size_t i = 0; i < row->figure_count; i++)
        stk__free((char *)(uintptr_t)row->figures[i].name);
    for (size_t i = 0; i < row->pair_count; i++)
        stk__free((char *)(uintptr_t)row->pairs[i].name);
    stk__free(row->figures);
    stk__free(row->pairs);
    *row = (bench_row){0};
}

static int no_memory(void)
{
    cli_say("stoker: out of memory");
    return CLI_FAILED;
}

int bench_row_figure(bench_row *row, const char *name, size_t name_size, const stk__log_figure *figure)
{
    if (!stk__grow((void **)&row->figures, &row->figure_capacity, row->figure_count + 1, sizeof *row->figures))
        return no_memory();
    stk__log_figure *f = &row->figures[row->figure_count];
    *f = *figure;
    f->name = stk__strndup(name, name_size);
    if (!f->name)
        return no_memory();
    row->figure_count++;
    return CLI_OK;
}

int bench_row_pair(bench_row *row, const char *name, const stk__comparison *comparison)
{
    if (!stk__grow((void **)&row->pairs, &row->pair_capacity, row->pair_count + 1, sizeof *row->pairs))
        return no_memory();
    row->pairs[row->pair_count] = (stk__log_pair){stk__strdup(name), comparison};
    if (!row->pairs[row->pair_count].name)
        return no_memory();
    row->pair_count++;
    return CLI_OK;
}

static stk__log_entry entry_of(const bench_row *row)
{
    return (stk__log_entry){.figures = row->figures,
                            .figure_count = row->figure_count,
                            .pairs = row->pairs,
                            .pair_count = row->pair_count,
                            .confidence = row->confidence};
}

int bench_row_fits(const bench_row *row, const char *path)
{
    stk_error err = {0};
    stk__text notes = STK__TEXT_INIT;
    const stk__log_entry entry = entry_of(row);
    const stk_status status = stk__log_fits(path, &entry, &notes, &err);
    bench_say_lines(&notes);
    stk__text_clear(&notes);
    return status == STK_OK ? CLI_OK : bench_fail(&err);
}

/* Every benchmark against its own past, below the report. */
static void print_added(const stk__log *log)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_putc(&t, '\n');
    stk__log_report(log, &t);
    cli_out_text(&t);
}

int bench_row_append(const bench_row *row, const char *path, const stk__commit *commit, const char *message,
                     bool interrupted, bool told)
{
    stk_error err = {0};
    stk__log log = {0};
    stk__text notes = STK__TEXT_INIT, description = STK__TEXT_INIT;
    if (!commit->hash[0])
        cli_say("stoker: no git commit here: the row of %s has none", path);
    stk__text_puts(&description, message ? message : commit->subject);
    if (interrupted)
        stk__text_puts(&description, " (interrupted)");
    stk__log_entry entry = entry_of(row);
    entry.commit = commit;
    entry.description = description.failed ? message : description.data;
    const stk_status status = stk__log_append(path, &entry, &log, &notes, &err);
    stk__text_clear(&description);
    bench_say_lines(&notes);
    stk__text_clear(&notes);
    if (status != STK_OK)
        return bench_fail(&err);
    cli_say("stoker: added a row to %s", path);
    if (!told)
        print_added(&log);
    stk__log_clear(&log);
    return CLI_OK;
}
