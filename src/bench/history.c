/* Change points of a log: its rows by machine and limits, their steps, and words about them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bench/history.h"
#include "bench/log_impl.h"
#include "bench/quantity.h"
#include "bench/words.h"
#include "stats/change_points.h"

#include "base/banned.h"

/* ---- series ---- */

/* A row that has the benchmark, with what makes it comparable. */
typedef struct series_row {
    const char *machine, *limits;
    size_t machine_length, row;
} series_row;

static int compare_series(const series_row *a, const series_row *b)
{
    const int machine = memcmp(a->machine, b->machine, STK_MIN(a->machine_length, b->machine_length));
    if (machine || a->machine_length != b->machine_length)
        return machine ? machine : a->machine_length < b->machine_length ? -1 : 1;
    return strcmp(a->limits, b->limits);
}

static int compare_rows(const void *a, const void *b)
{
    const series_row *x = a, *y = b;
    const int series = compare_series(x, y);
    return series ? series : (x->row > y->row) - (x->row < y->row);
}

/* Room for the rows of one benchmark. */
typedef struct series_room {
    series_row *rows;
    double *values, *errors;
} series_room;

static stk_status room_init(series_room *room, size_t n, stk_error *err)
{
    room->rows = stk__calloc(n, sizeof *room->rows);
    room->values = stk__calloc(n, sizeof *room->values);
    room->errors = stk__calloc(n, sizeof *room->errors);
    return room->rows && room->values && room->errors ? STK_OK : stk__nomem(n * sizeof *room->rows, err);
}

static void room_clear(series_room *room)
{
    stk__free(room->rows);
    stk__free(room->values);
    stk__free(room->errors);
}

static size_t take_rows(const stk__log *log, size_t benchmark, series_row *out)
{
    size_t n = 0;
    for (size_t i = 0; i < log->row_count; i++) {
        const stk__log_row *row = &log->rows[i];
        const stk__log_cell *cell = &row->cells[benchmark];
        if (cell->n && isfinite(cell->mean))
            out[n++] = (series_row){.machine = row->machine ? row->machine : "",
                                    .limits = stk__log_limits(row, benchmark),
                                    .machine_length = stk__words_machine_length(row),
                                    .row = i};
    }
    qsort(out, n, sizeof *out, compare_rows);
    return n;
}

/* ---- changes ---- */

static stk_status add_change(stk__history *h, const stk__log_change *c, stk_error *err)
{
    if (!stk__grow((void **)&h->changes, &h->change_capacity, h->change_count + 1, sizeof *h->changes))
        return stk__nomem(h->change_count * sizeof *h->changes, err);
    h->changes[h->change_count++] = *c;
    return STK_OK;
}

static stk__log_change change_of(const stk__log *log, size_t benchmark, const series_row *rows, const stk__change *c)
{
    const bool higher = log->benchmarks[benchmark].higher_is_better;
    return (stk__log_change){.benchmark = benchmark,
                             .row = rows[c->at].row,
                             .previous = rows[c->at - 1].row,
                             .after = rows[c->earliest - 1].row,
                             .up_to = rows[c->latest].row,
                             .first = rows[c->begin].row,
                             .last = rows[c->end - 1].row,
                             .was = c->before,
                             .is = c->after,
                             .ratio = c->ratio,
                             .low = c->low,
                             .high = c->high,
                             .p = c->p,
                             .worse = (c->after > c->before) != higher};
}

/* One series: rows of a benchmark that compare, in the order of the log. */
static stk_status find_in_series(stk__history *h, size_t benchmark, size_t series, const series_room *room,
                                 const series_row *rows, size_t n, const stk__change_rule *rule, stk_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const stk__log_cell *cell = &h->log->rows[rows[i].row].cells[benchmark];
        room->values[i] = cell->mean;
        room->errors[i] = cell->n > 1 && cell->sd > 0 ? cell->sd / sqrt((double)cell->n) : 0;
    }
    stk__change *changes = NULL;
    size_t count = 0;
    STK_TRY(stk__change_points(room->values, room->errors, n, rule, &changes, &count, err));
    stk_status status = STK_OK;
    for (size_t i = 0; i < count && status == STK_OK; i++) {
        stk__log_change c = change_of(h->log, benchmark, rows, &changes[i]);
        c.series = series;
        if (c.row > h->first)
            status = add_change(h, &c, err);
    }
    stk__free(changes);
    return status;
}

static int compare_changes(const void *a, const void *b)
{
    const stk__log_change *x = a, *y = b;
    return x->row != y->row ? (x->row > y->row ? 1 : -1) : (x->series > y->series) - (x->series < y->series);
}

static stk_status find_in_benchmark(stk__history *h, size_t benchmark, const series_room *room,
                                    const stk__change_rule *rule, stk_error *err)
{
    const size_t n = take_rows(h->log, benchmark, room->rows), from = h->change_count;
    size_t newest = 0;
    for (size_t begin = 0, series = 0; begin < n; series++) {
        size_t end = begin + 1;
        while (end < n && compare_series(&room->rows[begin], &room->rows[end]) == 0)
            end++;
        newest = STK_MAX(newest, room->rows[end - 1].row);
        STK_TRY(find_in_series(h, benchmark, series, room, room->rows + begin, end - begin, rule, err));
        begin = end;
    }
    for (size_t i = from; i < h->change_count; i++)
        h->changes[i].newest = h->changes[i].last == newest;
    if (h->change_count > from)
        qsort(h->changes + from, h->change_count - from, sizeof *h->changes, compare_changes);
    return STK_OK;
}

/* ---- which benchmarks ---- */

static stk_status no_such(const stk__log *log, const char *name, stk_error *err)
{
    stk__text known = STK__TEXT_INIT;
    char shown[80];
    enum { NAMED = 8 };
    for (size_t i = 0; i < log->benchmark_count && i < NAMED; i++) {
        stk__escape_terminal(log->benchmarks[i].name, shown, sizeof shown);
        stk__text_printf(&known, "%s%s", i ? ", " : "", shown);
    }
    if (log->benchmark_count > NAMED)
        stk__text_printf(&known, " and %zu more", log->benchmark_count - NAMED);
    stk__escape_terminal(name, shown, sizeof shown);
    const stk_status status = stk_error_set(err, STK_INVALID, "the log has no benchmark '%s', wanted one of %s", shown,
                                            known.failed || !known.length ? "none" : known.data);
    stk__text_clear(&known);
    return status;
}

static stk_status choose(stk__history *h, const stk__history_options *options, stk_error *err)
{
    const size_t count = options->name_count ? options->name_count : h->log->benchmark_count;
    h->benchmarks = stk__calloc(count ? count : 1, sizeof *h->benchmarks);
    h->begins = stk__calloc(count + 1, sizeof *h->begins);
    if (!h->benchmarks || !h->begins)
        return stk__nomem(count * sizeof *h->benchmarks, err);
    for (size_t i = 0; i < count; i++) {
        const size_t found = options->name_count ? stk__log_find(h->log, options->names[i]) : i;
        if (found == SIZE_MAX)
            return no_such(h->log, options->names[i], err);
        bool twice = false;
        for (size_t k = 0; options->name_count && k < h->benchmark_count; k++)
            twice = twice || h->benchmarks[k] == found;
        if (!twice)
            h->benchmarks[h->benchmark_count++] = found;
    }
    return STK_OK;
}

stk_status stk__history_init(stk__history *h, const stk__log *log, const stk__history_options *options, stk_error *err)
{
    *h = (stk__history){.log = log, .first = options->first};
    stk__change_rule rule = stk__change_rule_default;
    rule.min_effect = options->min_effect;
    series_room room = {0};
    stk_status status = choose(h, options, err);
    if (status == STK_OK)
        status = room_init(&room, log->row_count ? log->row_count : 1, err);
    for (size_t i = 0; i < h->benchmark_count && status == STK_OK; i++) {
        status = find_in_benchmark(h, h->benchmarks[i], &room, &rule, err);
        h->begins[i + 1] = h->change_count;
    }
    room_clear(&room);
    if (status != STK_OK)
        stk__history_clear(h);
    return status;
}

void stk__history_clear(stk__history *h)
{
    stk__free(h->benchmarks);
    stk__free(h->begins);
    stk__free(h->changes);
    *h = (stk__history){0};
}

double stk__history_worst(const stk__history *h, const stk__log_change **out_change)
{
    double worst = 0;
    *out_change = NULL;
    for (size_t i = 0; i < h->change_count; i++) {
        const stk__log_change *c = &h->changes[i];
        if (!c->newest || !c->worse)
            continue;
        double was = c->was;
        for (size_t k = i; k-- > 0 && h->changes[k].benchmark == c->benchmark;) {
            if (h->changes[k].series != c->series)
                continue;
            if (!h->changes[k].worse)
                break;
            was = h->changes[k].was;
        }
        const bool higher = h->log->benchmarks[c->benchmark].higher_is_better;
        /* From nothing to something is more than any share. */
        const double times = higher ? was / c->is : c->is / was;
        const double by = was > 0 && c->is > 0 && isfinite(times) ? times - 1 : INFINITY;
        if (by > worst) {
            worst = by;
            *out_change = c;
        }
    }
    return worst;
}

/* ---- words ---- */

const char *stk__change_word(const stk__log *log, const stk__log_change *c)
{
    const stk__log_benchmark *b = &log->benchmarks[c->benchmark];
    if (!b->unit || !b->unit[0])
        return c->is > c->was ? "higher" : "lower";
    return stk__words_direction(b->unit, b->higher_is_better, !c->worse);
}

/* Three digits as a rule: 9.8, 12.3, 150. */
static int decimals_of(double percent)
{
    return fabs(percent) < 99.95 ? (fabs(percent) < 0.995 ? 2 : 1) : 0;
}

void stk__change_size(const stk__log *log, const stk__log_change *c, bool interval, stk__text *out)
{
    const double percent = 100 * (c->ratio - 1), low = 100 * (c->low - 1), high = 100 * (c->high - 1);
    if (!isfinite(percent) || fabs(percent) >= 1e6) {
        const char *unit = log->benchmarks[c->benchmark].unit ? log->benchmarks[c->benchmark].unit : "";
        stk__quantity(out, c->was, unit);
        stk__text_puts(out, " -> ");
        stk__quantity(out, c->is, unit);
        return;
    }
    const int decimals = decimals_of(percent);
    stk__text_printf(out, "%+.*f %%", decimals, percent);
    if (interval && isfinite(low) && isfinite(high) && high < 1e6)
        stk__text_printf(out, " (%.*f..%.*f)", decimals, low, decimals, high);
}

void stk__change_sureness(const stk__log_change *c, stk__text *out)
{
    stk__text_puts(out, c->p < 0.001 ? "almost certain (" : c->p < 0.01 ? "very likely (" : "likely (");
    stk__words_p(c->p, out);
    stk__text_putc(out, ')');
}

/* A log need not have every commit: those between two rows were not measured. */
static bool are_neighbours(const stk__log_row *before, const stk__log_row *row)
{
    return !row->parent || !row->parent[0] || strcmp(row->parent, before->commit) == 0 || row->dirty;
}

void stk__change_range(const stk__log *log, const stk__log_change *c, stk__text *out)
{
    const stk__log_row *row = &log->rows[c->row], *before = &log->rows[c->after], *last = &log->rows[c->up_to];
    const bool one = c->after == c->previous && c->up_to == c->row;
    if (!before->commit[0] || !last->commit[0])
        return;
    if (strcmp(before->commit, last->commit) == 0) {
        if (!before->dirty && !last->dirty)
            stk__text_puts(out, "the commit was the same before: something else changed");
    } else if (!one || !are_neighbours(before, row)) {
        stk__text_puts(out, "after ");
        stk__words_commit(before, out);
        stk__text_puts(out, ", up to ");
        stk__words_commit(last, out);
    }
}
