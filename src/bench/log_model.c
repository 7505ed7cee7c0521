/* The change log in memory: rows and columns that can be added, names that can be found. */
#include "bench/log_impl.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

static void cell_init(stk__log_cell *cell)
{
    *cell = (stk__log_cell){.mean = NAN, .sd = NAN, .ratio = NAN, .low = NAN, .high = NAN, .p = NAN};
}

static void beside_init(stk__log_beside *x)
{
    *x = (stk__log_beside){.ratio = NAN, .low = NAN, .high = NAN, .p = NAN};
}

static void row_clear(stk__log_row *row, size_t cells, size_t pairs)
{
    for (size_t i = 0; row->cells && i < cells; i++) {
        stk__free(row->cells[i].limits);
        stk__free(row->cells[i].verdict);
        stk__free(row->cells[i].against);
    }
    for (size_t i = 0; row->beside && i < pairs; i++)
        stk__free(row->beside[i].verdict);
    stk__free(row->cells);
    stk__free(row->beside);
    stk__free(row->commit);
    stk__free(row->parent);
    stk__free(row->machine);
    stk__free(row->limits);
    stk__free(row->description);
}

void stk__log_clear(stk__log *log)
{
    for (size_t i = 0; i < log->row_count; i++)
        row_clear(&log->rows[i], log->benchmark_count, log->pair_count);
    for (size_t i = 0; i < log->benchmark_count; i++) {
        stk__free(log->benchmarks[i].name);
        stk__free(log->benchmarks[i].metric);
        stk__free(log->benchmarks[i].unit);
    }
    for (size_t i = 0; i < log->pair_count; i++)
        stk__free(log->pairs[i]);
    stk__free(log->benchmarks);
    stk__free(log->pairs);
    stk__free(log->rows);
    *log = (stk__log){0};
}

size_t stk__log_find(const stk__log *log, const char *name)
{
    for (size_t i = 0; i < log->benchmark_count; i++) {
        if (strcmp(log->benchmarks[i].name, name) == 0)
            return i;
    }
    return SIZE_MAX;
}

size_t stk__log_find_pair(const stk__log *log, const char *name)
{
    for (size_t i = 0; i < log->pair_count; i++) {
        if (strcmp(log->pairs[i], name) == 0)
            return i;
    }
    return SIZE_MAX;
}

static stk_status too_many(const char *what, stk_error *err)
{
    return stk_error_set(err, STK_LIMIT, "more than %d %s in one log: use another file with --log", STK__LOG_COLUMNS,
                         what);
}

stk_status stk__log_add_benchmark(stk__log *log, const char *name, size_t *out_index, stk_error *err)
{
    const size_t n = log->benchmark_count;
    if (n >= STK__LOG_COLUMNS)
        return too_many("benchmarks", err);
    for (size_t i = 0; i < log->row_count; i++) {
        stk__log_cell *cells = stk__realloc(log->rows[i].cells, (n + 1) * sizeof *cells);
        if (!cells)
            return stk__nomem((n + 1) * sizeof *cells, err);
        cell_init(&cells[n]);
        log->rows[i].cells = cells;
    }
    if (!stk__grow((void **)&log->benchmarks, &log->benchmark_capacity, n + 1, sizeof *log->benchmarks))
        return stk__nomem((n + 1) * sizeof *log->benchmarks, err);
    log->benchmarks[n] = (stk__log_benchmark){.name = stk__strdup(name)};
    if (!log->benchmarks[n].name)
        return stk__nomem(strlen(name), err);
    *out_index = log->benchmark_count++;
    return STK_OK;
}

stk_status stk__log_add_pair(stk__log *log, const char *name, size_t *out_index, stk_error *err)
{
    const size_t n = log->pair_count;
    if (n >= STK__LOG_COLUMNS)
        return too_many("comparisons", err);
    for (size_t i = 0; i < log->row_count; i++) {
        stk__log_beside *beside = stk__realloc(log->rows[i].beside, (n + 1) * sizeof *beside);
        if (!beside)
            return stk__nomem((n + 1) * sizeof *beside, err);
        beside_init(&beside[n]);
        log->rows[i].beside = beside;
    }
    if (!stk__grow((void **)&log->pairs, &log->pair_capacity, n + 1, sizeof *log->pairs))
        return stk__nomem((n + 1) * sizeof *log->pairs, err);
    log->pairs[n] = stk__strdup(name);
    if (!log->pairs[n])
        return stk__nomem(strlen(name), err);
    *out_index = log->pair_count++;
    return STK_OK;
}

stk_status stk__log_add_row(stk__log *log, stk__log_row **out, stk_error *err)
{
    if (!stk__grow((void **)&log->rows, &log->row_capacity, log->row_count + 1, sizeof *log->rows))
        return stk__nomem((log->row_count + 1) * sizeof *log->rows, err);
    stk__log_row *row = &log->rows[log->row_count];
    *row = (stk__log_row){.confidence = 0.95};
    row->cells = stk__calloc(STK_MAX(log->benchmark_count, 1), sizeof *row->cells);
    row->beside = stk__calloc(STK_MAX(log->pair_count, 1), sizeof *row->beside);
    log->row_count++; /* cleared with the log, also when half filled */
    if (!row->cells || !row->beside)
        return stk__nomem(log->benchmark_count * sizeof *row->cells, err);
    for (size_t i = 0; i < log->benchmark_count; i++)
        cell_init(&row->cells[i]);
    for (size_t i = 0; i < log->pair_count; i++)
        beside_init(&row->beside[i]);
    *out = row;
    return STK_OK;
}

const char *stk__log_limits(const stk__log_row *row, size_t benchmark)
{
    const char *own = row->cells[benchmark].limits;
    return own ? own : row->limits;
}
