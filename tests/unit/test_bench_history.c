/* The history of a log: which rows are compared, what is told of their steps, and logs that other programs wrote. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "bench/history.h"
#include "bench/log_foreign.h"
#include "bench/log_impl.h"
#include "bench/quantity.h"

#define CPU "Test CPU, 2 cores, 4.0 GiB, Linux "

static void add_benchmark(stk__log *log, const char *name, const char *unit, bool higher)
{
    size_t index;
    assert_int_equal(stk__log_add_benchmark(log, name, &index, NULL), STK_OK);
    log->benchmarks[index].metric = stk__strdup("");
    log->benchmarks[index].unit = stk__strdup(unit);
    log->benchmarks[index].higher_is_better = higher;
}

/* A row with a figure for each benchmark; its commit is its number. */
static stk__log_row *add_row(stk__log *log, const char *machine, const char *limits, const double *figures)
{
    stk__log_row *row;
    char commit[32];
    stk__text t;
    assert_int_equal(stk__log_add_row(log, &row, NULL), STK_OK);
    stk__text_fixed(&t, commit, sizeof commit);
    stk__text_printf(&t, "%07zx%033d", log->row_count - 1, 0);
    row->commit = stk__strdup(commit);
    row->parent = stk__strdup("");
    row->machine = stk__strdup(machine);
    row->limits = stk__strdup(limits);
    row->description = stk__strdup("what was done");
    row->time_s = 1760000000 + 86400 * (int64_t)log->row_count;
    for (size_t i = 0; i < log->benchmark_count; i++) {
        if (isnan(figures[i]))
            continue;
        row->cells[i].mean = figures[i];
        row->cells[i].sd = 0.001 * fabs(figures[i]);
        row->cells[i].n = 6;
    }
    return row;
}

/* Noise of about half a percent that is the same everywhere. */
static double around(double level, size_t i)
{
    return level * (1 + 0.005 * ((double)(i * 7 % 11) / 5 - 1));
}

static stk__history history(const stk__log *log, size_t first)
{
    stk__history h;
    assert_int_equal(stk__history_init(&h, log, &(stk__history_options){.first = first}, NULL), STK_OK);
    return h;
}

static void steps_have_commit_size_and_direction(void **state)
{
    (void)state;
    stk__log log = {.version = 2};
    add_benchmark(&log, "open", "s", false);
    add_benchmark(&log, "rate", "rows/s", true);
    add_benchmark(&log, "size", "bytes", false);
    for (size_t i = 0; i < 30; i++) {
        const double figures[] = {around(i < 12 ? 1 : 1.1, i), around(i < 20 ? 500 : 450, i), i < 15 ? 1000 : 990};
        add_row(&log, CPU "6.1", "", figures);
    }
    stk__history h = history(&log, 0);
    assert_int_equal(h.change_count, 3);
    static const struct {
        size_t row;
        const char *word, *size;
        bool worse;
    } wanted[] = {{12, "slower", "+10.0 %", true}, {20, "slower", "-10.0 %", true}, {15, "smaller", "-1.0 %", false}};
    for (size_t i = 0; i < 3; i++) {
        const stk__log_change *c = &h.changes[i];
        stk__text size = STK__TEXT_INIT;
        stk__change_size(&log, c, false, &size);
        assert_true(c->row == wanted[i].row && c->previous == c->row - 1 && c->benchmark == i && c->newest);
        assert_true(c->first == 0 && c->last == 29 && c->worse == wanted[i].worse && h.begins[i] == i);
        assert_true(c->low <= c->ratio && c->ratio <= c->high && c->p < 0.001);
        assert_string_equal(stk__change_word(&log, c), wanted[i].word);
        assert_int_equal(strncmp(size.data, wanted[i].size, 4), 0);
        stk__text_clear(&size);
    }
    const stk__log_change *worst;
    assert_true(fabs(stk__history_worst(&h, &worst) - 0.11) < 0.02 && worst == &h.changes[1]);
    stk__history_clear(&h);
    /* Of the rows that are shown, those before the first are known all the same. */
    h = history(&log, 16);
    assert_true(h.change_count == 1 && h.changes[0].benchmark == 1 && h.changes[0].first == 0);
    stk__history_clear(&h);
    stk__log_clear(&log);
}

/* Machines that take turns, 20 % apart: two series without a step; and one series whose kernel was updated. */
static void machines_and_limits_are_series_of_their_own(void **state)
{
    (void)state;
    static const struct {
        const char *machines[2], *limits[2];
        size_t changes;
    } cases[] = {{{CPU "6.1", "Other CPU"}, {"", ""}, 0},
                 {{CPU "6.1", CPU "6.1"}, {"", "1 CPU"}, 0},
                 {{CPU "6.1", CPU "6.8"}, {"", ""}, 1}};
    for (size_t k = 0; k < STK_COUNT(cases); k++) {
        for (size_t order = 0; order < 2; order++) {
            stk__log log = {.version = 2};
            add_benchmark(&log, "open", "s", false);
            for (size_t i = 0; i < 40; i++) {
                /* Taking turns, or one after the other. */
                const size_t which = order ? i >= 20 : k < 2 ? i % 2 : i >= 20;
                const double figures[] = {around(which ? 1.2 : 1, i)};
                add_row(&log, cases[k].machines[which], cases[k].limits[which], figures);
            }
            stk__history h = history(&log, 0);
            assert_int_equal(h.change_count, cases[k].changes);
            stk__history_clear(&h);
            stk__log_clear(&log);
        }
    }
}

/* Two steps of 4 % for the worse add up; one for the better between them starts anew. */
static void worst_adds_up_what_came_without_relief(void **state)
{
    (void)state;
    static const struct {
        double levels[4];
        double worst;
    } cases[] = {{{1, 1.04, 1.0816, 1.0816}, 0.0816}, {{1, 1.1, 1.0, 1.04}, 0.04}, {{1.1, 1.2, 1, 1}, 0}};
    for (size_t k = 0; k < STK_COUNT(cases); k++) {
        stk__log log = {.version = 2};
        add_benchmark(&log, "open", "s", false);
        for (size_t i = 0; i < 60; i++) {
            const double figures[] = {around(cases[k].levels[i / 15], i)};
            add_row(&log, CPU "6.1", "", figures);
        }
        stk__history h = history(&log, 0);
        const stk__log_change *worst;
        assert_true(fabs(stk__history_worst(&h, &worst) - cases[k].worst) < 0.01);
        assert_int_equal(worst != NULL, cases[k].worst > 0);
        stk__history_clear(&h);
        stk__log_clear(&log);
    }
}

static void ranges_are_told_where_commits_are_missing(void **state)
{
    (void)state;
    stk__log log = {.version = 2};
    add_benchmark(&log, "open", "s", false);
    for (size_t i = 0; i < 30; i++) {
        const double figures[] = {around(i < 15 ? 1 : 1.1, i)};
        add_row(&log, CPU "6.1", "", figures);
    }
    stk__history h = history(&log, 0);
    assert_int_equal(h.change_count, 1);
    stk__text t = STK__TEXT_INIT;
    stk__change_range(&log, &h.changes[0], &t);
    assert_int_equal(t.length, 0);
    /* The commit before is not the parent: others lie between them. */
    stk__free(log.rows[15].parent);
    log.rows[15].parent = stk__strdup("abcdef");
    stk__change_range(&log, &h.changes[0], &t);
    assert_string_equal(t.data, "after 000000e, up to 000000f");
    stk__text_reset(&t);
    log.rows[15].commit[6] = 'e';
    stk__change_range(&log, &h.changes[0], &t);
    assert_string_equal(t.data, "the commit was the same before: something else changed");
    stk__text_reset(&t);
    h.changes[0].p = 0.004;
    stk__change_sureness(&h.changes[0], &t);
    assert_string_equal(t.data, "very likely (p=0.004)");
    stk__text_clear(&t);
    stk__history_clear(&h);
    stk_error err = {0};
    const char *const names[] = {"open", "open", "shut"};
    assert_int_equal(stk__history_init(&h, &log, &(stk__history_options){.names = names, .name_count = 3}, &err),
                     STK_INVALID);
    assert_string_equal(err.message, "the log has no benchmark 'shut', wanted one of open");
    assert_int_equal(stk__history_init(&h, &log, &(stk__history_options){.names = names, .name_count = 2}, &err),
                     STK_OK);
    assert_int_equal(h.benchmark_count, 1);
    stk__history_clear(&h);
    stk__log_clear(&log);
}

static stk_status foreign(const char *text, stk__log *log, stk__text *notes, stk_error *err)
{
    *log = (stk__log){0};
    return stk__log_foreign_parse(text, strlen(text), "x.csv", false, log, notes, err);
}

static void foreign_files_are_read_by_the_names_of_columns(void **state)
{
    (void)state;
    stk__log log;
    stk__text notes = STK__TEXT_INIT;
    assert_int_equal(foreign("\xef\xbb\xbf"
                             "Date;Revision;branch;parse_ms;parse_ms_sd;parse_ms_n;rows/s;Message\r\n"
                             "# a remark\r\n"
                             "2026.01.02 3:00:00 +0100;v1.1;main;12.5;0.5;7;1e3;\"a; \"\"b\"\"\nc\"\r\n"
                             "\r\n"
                             "2026-01-01;v1.0;main;10;;;n/a; x \r\n",
                             &log, &notes, NULL),
                     STK_OK);
    assert_int_equal(log.benchmark_count, 2);
    assert_string_equal(log.benchmarks[0].name, "parse_ms");
    assert_string_equal(log.benchmarks[0].unit, "ms");
    assert_false(log.benchmarks[0].higher_is_better);
    assert_true(log.benchmarks[1].higher_is_better);
    /* Sorted by time. */
    assert_int_equal(log.row_count, 2);
    const stk__log_row *a = &log.rows[0], *b = &log.rows[1];
    assert_true(a->time_s == 1767225600 && b->time_s == 1767225600 + 86400 + 2 * 3600);
    assert_string_equal(a->commit, "v1.0");
    assert_string_equal(a->description, "x");
    assert_string_equal(b->description, "a; \"b\" c");
    assert_true(a->cells[0].n == 1 && a->cells[0].mean == 10 && isnan(a->cells[0].sd) && a->cells[1].n == 0);
    assert_true(b->cells[0].n == 7 && b->cells[0].sd == 0.5 && b->cells[1].mean == 1000);
    assert_string_equal(notes.data, "1 column is left out: not numbers alone\n");
    stk__text_clear(&notes);
    stk__log_clear(&log);
}

static void foreign_files_that_are_none_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wanted;
        int line;
    } cases[] = {{"", "no lines", 0},
                 {"\n# only\n", "no lines", 0},
                 {"time,x\n", "no rows", 2},
                 {"time,x\n2026-01-01,1,2\n", "more than 2 fields", 2},
                 {"time,x\n\n2026-01-01\n", "fewer than 2 fields", 3},
                 {"time,x\nyesterday,1\n", "the time is 'yesterday'", 2},
                 {"time,x\n2026-13-01,1\n", "the time is", 2},
                 {"time,x\n2026-01-01,\"1\n", "never closed", 2},
                 {"time,x\n2026-01-01,\"1\"2\n", "after a closing quote", 2},
                 {"time,x\n2026-01-01,one\n", "no column has numbers alone", 1},
                 {"1,2\n3,4\n", "wanted names of columns", 1},
                 {"time,x,x_n\n2026-01-01,1,0\n", "wanted how many runs", 2}};
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__log log;
        stk_error err = {0};
        assert_int_equal(foreign(cases[i].text, &log, NULL, &err), STK_CORRUPT);
        assert_non_null(strstr(err.message, cases[i].wanted));
        assert_int_equal(err.line, cases[i].line);
        assert_int_equal(log.row_count, 0);
    }
}

static void times_are_read_as_they_are_written(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t time_s;
    } good[] = {{"2026-01-01", 1767225600},
                {"2026/1/1", 1767225600},
                {"2026-01-01T00:00:00Z", 1767225600},
                {"2026-01-01 02:00:00.123+02:00", 1767225600},
                {"2026.01.01 1:00 +0100", 1767225600},
                {"1767225600", 1767225600},
                {"1767225600.5", 1767225600},
                {"1767225600123", 1767225600},
                {"1767225600123456789", 1767225600}};
    for (size_t i = 0; i < STK_COUNT(good); i++) {
        int64_t time_s = 0;
        assert_true(stk__log_when(good[i].text, &time_s));
        assert_int_equal(time_s, good[i].time_s);
    }
    static const char *const bad[] = {
        "",           "now",         "2026",         "2026-01",          "2026-02-30",
        "01/02/2026", "2026-01-01T", "-17672256000", "2026-01-01 25:00", "2026-01-01 10:00 +99:00",
        "2026-01-01x"};
    for (size_t i = 0; i < STK_COUNT(bad); i++)
        assert_false(stk__log_when(bad[i], &(int64_t){0}));
}

static void failed_allocations_leave_nothing(void **state)
{
    (void)state;
    static const char text[] = "time,commit,machine,x,y\n2026-01-01,a,m,1,2\n2026-01-02,b,m,1,2\n2026-01-03,c,m,1,2\n"
                               "2026-01-04,d,m,3,2\n2026-01-05,e,m,3,2\n2026-01-06,f,m,3,2\n";
    bool done = false;
    size_t tries = 0;
    for (uint64_t n = 1; !done; n++, tries++) {
        stk__log log = {0};
        stk__history h = {0};
        stk__alloc_fail_at(n, true);
        stk_status status = foreign(text, &log, NULL, NULL);
        if (status == STK_OK)
            status = stk__history_init(&h, &log, &(stk__history_options){0}, NULL);
        stk__alloc_fail_at(0, false);
        done = status == STK_OK;
        assert_int_equal(status, done ? STK_OK : STK_NOMEM);
        assert_int_equal(h.change_count, done ? 1 : 0);
        stk__history_clear(&h);
        stk__log_clear(&log);
    }
    assert_true(tries > 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_have_commit_size_and_direction),
        cmocka_unit_test(machines_and_limits_are_series_of_their_own),
        cmocka_unit_test(worst_adds_up_what_came_without_relief),
        cmocka_unit_test(ranges_are_told_where_commits_are_missing),
        cmocka_unit_test(foreign_files_are_read_by_the_names_of_columns),
        cmocka_unit_test(foreign_files_that_are_none_are_refused),
        cmocka_unit_test(times_are_read_as_they_are_written),
        cmocka_unit_test(failed_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
