/* The files of the change log: what stands around, what is missing, what is damaged, and two runs at once. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "bench/quantity.h"
#include "bench_logs.h"

/* ---- what people write around the table ---- */

static void text_around_the_table_stays(void **state)
{
    (void)state;
    log_one(HASH_A, "", 1.0, "first");
    char *text = slurp(page);
    stk__text t = STK__TEXT_INIT;
    stk__text_printf(&t, "Mine before.\n\n%s\n\n| my | table |\n|---|---|\n| 1 | 2 |\nend", text);
    put(page, t.data);
    log_one(HASH_B, HASH_A, 1.0, "second");
    char *after = slurp(page);
    assert_memory_equal(after, t.data, strlen("Mine before.\n\n") + strlen(text));
    assert_non_null(strstr(after, "| second |\n\n\n| my | table |\n|---|---|\n| 1 | 2 |\nend"));
    assert_int_equal(row_count(), 2);
    stk__text_clear(&t);
    stk__free(text);
    stk__free(after);
}

static void a_page_with_the_mark_alone_gets_its_table_there(void **state)
{
    (void)state;
    put(page, "# Mine\n\n" STK__LOG_MARK "\nText below.\n");
    log_one(HASH_A, "", 1.0, "first");
    log_one(HASH_A, "", 1.0, "second");
    assert_holds(page, "# Mine\n\n" STK__LOG_MARK "\n\n| date |");
    assert_holds(page, "| second |\n\nText below.\n");
    assert_int_equal(row_count(), 2);
}

static void an_empty_page_is_written_anew(void **state)
{
    (void)state;
    put(page, "");
    put(lines, "");
    log_one(HASH_A, "", 1.0, "first");
    assert_holds(page, "# Performance log\n");
    assert_int_equal(row_count(), 1);
}

static void a_missing_last_line_end_is_fine(void **state)
{
    (void)state;
    log_one(HASH_A, "", 1.0, "first");
    edit(page, "| first |\n", "| first |");
    edit(lines, ",1,faster\n", ",1,faster");
    log_one(HASH_A, "", 1.0, "second");
    assert_int_equal(row_count(), 2);
    assert_holds(page, "| first |\n| 2026");
    assert_holds(lines, ",1,faster\n2026");
}

static void carriage_returns_are_kept_and_written(void **state)
{
    (void)state;
    log_one(HASH_A, "", 1.0, "first");
    const char *const files[] = {page, lines};
    for (size_t i = 0; i < 2; i++) {
        char *text = slurp(files[i]);
        stk__text t = STK__TEXT_INIT;
        for (const char *c = text; *c; c++) {
            if (*c == '\n')
                stk__text_putc(&t, '\r');
            stk__text_putc(&t, *c);
        }
        put(files[i], t.data);
        stk__text_clear(&t);
        stk__free(text);
    }
    log_one(HASH_A, "", 1.0, "second");
    assert_int_equal(row_count(), 2);
    assert_holds(page, "| second |\r\n");
    assert_holds(lines, ",second,");
    for (size_t i = 0; i < 2; i++) {
        char *text = slurp(files[i]);
        for (const char *c = text; (c = strchr(c, '\n')); c++)
            assert_int_equal(c[-1], '\r');
        stk__free(text);
    }
}

static void a_table_that_was_lined_up_by_an_editor_is_fine(void **state)
{
    (void)state;
    log_one(HASH_A, "", 1.0, "first");
    edit(page, "| date | commit |", "|   date | commit   |");
    edit(page, "|---|---|", "| :--- | ---: |");
    edit(page, "| 1111111 |", "|   1111111|");
    log_one(HASH_A, "", 1.0, "second");
    assert_int_equal(row_count(), 2);
}

/* ---- refusals ---- */

static void a_path_without_md_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"PERF.txt", "PERF", ".md", "dir/.md", "", "x.md.csv"};
    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        stk_error err = {0};
        stk__log log;
        assert_int_equal(stk__log_read(bad[i], &log, &err), STK_INVALID);
        assert_non_null(strstr(err.message, ".md"));
    }
}

static void a_missing_directory_is_an_error(void **state)
{
    (void)state;
    run r;
    stk_error err = {0};
    run_make(&r, HASH_A, "", 1.0, "nowhere");
    assert_int_equal(stk__log_append("/nowhere/at/all/PERF.md", &r.entry, NULL, NULL, &err), STK_IO);
    assert_non_null(strstr(err.message, "No such file"));
    stk__result_clear(&r.result);
}

static void another_metric_is_refused(void **state)
{
    (void)state;
    log_one(HASH_A, "", 1.0, "first");
    run r;
    stk_error err = {0};
    run_make(&r, HASH_A, "", 1.0, "cpu");
    stk__free(r.result.metrics[0].name);
    r.result.metrics[0].name = stk__strdup("cpu");
    assert_int_equal(run_log(&r, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "'wall'"));
    assert_non_null(strstr(err.message, "'cpu'"));
}

static void a_run_without_values_is_refused(void **state)
{
    (void)state;
    run r;
    stk_error err = {0};
    run_start(&r, HASH_A, "", "empty");
    assert_int_equal(run_log(&r, &err), STK_INVALID);
    run_start(&r, HASH_A, "", "empty");
    const double unknown = NAN;
    add_values(&r, add_column(&r, "none"), &unknown, 1);
    assert_int_equal(run_log(&r, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "'none' has no value of 'wall'"));
    assert_int_equal(entries(), 0);
}

static void a_page_of_something_else_is_refused(void **state)
{
    (void)state;
    put(page, "# Performance log\n\n| a |\n|---|\n");
    put(lines, "");
    assert_refused(page, 0, "written by something else");
    put(page, "<!-- stoker bench log 3 -->\n");
    assert_refused(page, 1, "the mark is '<!-- stoker bench log 3 -->'");
    put(page, STK__LOG_MARK "\n\n\n" STK__LOG_MARK "\n");
    assert_refused(page, 4, "a second mark");
    put(page, STK__LOG_MARK "\n");
    put(lines, "date,commit\n");
    assert_refused(lines, 1, "written by something else: column 1 is 'date', wanted 'time'");
}

/* The page has 10 lines: the rows are in 9 and 10; those of the CSV file in 2 and 3. */
typedef struct damage {
    bool in_page;
    const char *from, *to;
    bool told_of_page;
    int line;
    const char *words;
} damage;

static void each_kind_of_damage_is_told(void **state)
{
    (void)state;
    static const damage all[] = {
        {true, "| date |", "| day |", true, 7, "column 1 is 'day', wanted 'date'"},
        {true, "| lazy |", "| eager |", true, 7, "column 3 is 'eager', wanted 'lazy'"},
        {true, "| stored/lazy |", "| lazy/stored |", true, 7, "column 5 is 'lazy/stored', wanted 'stored/lazy'"},
        {true, "| past |", "| future |", true, 7, "column 6 is 'future', wanted 'past'"},
        {true, "| description |\n", "|\n", true, 7, "7 cells, wanted a column 'description'"},
        {true, "| description |\n", "| description | more |\n", true, 7, "9 cells, wanted 8"},
        {true, "|---|---|", "|---|-x-|", true, 8, "wanted a line of |---|"},
        {true, "|---|---|", "|---|", true, 8, "7 cells, wanted 8"},
        {true, "| one |", "| one | more |", true, 9, "9 cells, wanted 8"},
        {true, "| one |", "", true, 9, "does not end with '|'"},
        {true, "| 0.960 (", "\\| 0.960 (", true, 9, "7 cells, wanted 8"},
        {true, "| 2026-08-14 10:00 | 1111111", "2026-08-14 10:00 | 1111111", true, 9, "does not begin with '|'"},
        {true, "| 2026-08-14 10:00 |", "| 2026-08-15 10:00 |", true, 9, "line 2 of"},
        {true, "| 1111111 |", "| 1111112 |", true, 9, "the commit is '1111112'"},
        {true, "| 1111111 |", "| 1111111+ |", true, 9, "the commit is '1111111+'"},
        {true, "| 1111111 |", "|  |", true, 9, "the commit is ''"},
        {true, "| one |\n", "| one |\n\n", true, 10, "an empty line within the table"},
        {true, "|---|---|", "\n|---|---|", true, 8, "does not begin with '|'"},
        {true, STK__LOG_MARK, STK__LOG_MARK "\ntext", true, 6, "no table below the mark"},
        {true, STK__LOG_MARK, "", true, 0, "written by something else"},
        {true, STK__LOG_MARK, STK__LOG_MARK_OLD, true, 7, "column 5 is 'stored/lazy', wanted 'ratio'"},
        {false, "time,commit", "time,revision", false, 1, "column 2 is 'revision', wanted 'commit'"},
        {false, ",confidence,", ",trust,", false, 1, "column 8 is 'trust', wanted 'confidence'"},
        {false, ",lazy_sd", ",lazy_SD", false, 1, "of column 9 ('lazy') wanted the same with _sd"},
        {false, ",stored_metric", ",stored_metrics", false, 1, "of column 23 ('stored') wanted the same with _metric"},
        {false, ",stored/lazy_verdict\n", "\n", false, 1, "of column 37 ('stored/lazy')"},
        {false, ",stored,stored_sd", ",lazy,lazy_sd", false, 1, "of column 23 ('lazy')"},
        {false, "T10:00:00Z", "T10:00:00", false, 2, "time is '2026-08-14T10:00:00', wanted"},
        {false, "T10:00:00Z", "T24:00:00Z", false, 2, "time is"},
        {false, "2026-08-14T", "2026-02-30T", false, 2, "time is"},
        {false, "2026-08-14T", "2026-08-15T", true, 9, "the date is '2026-08-14 10:00'"},
        {false, HASH_A, HASH_B, true, 9, "the commit is '1111111'"},
        {false, HASH_A, "not-a-hash", false, 2, "commit is 'not-a-hash'"},
        {false, ",,0,", ",,2,", false, 2, "dirty is '2'"},
        {false, ",,0,", ",,1,", true, 9, "the commit is '1111111'"},
        {false, ",0.00894", ",-0.00894", false, 2, "sd of 'lazy' is"},
        {false, ",1,0.0", ",x,0.0", false, 2, "mean of 'lazy' is 'x'"},
        {false, ",1,0.0", ",,0.0", false, 2, "n of 'lazy' is '6', wanted nothing, as there is no mean"},
        {false, ",1,0.0", ",1e999,0.0", false, 2, "mean of 'lazy' is '1e999'"},
        {false, ",1,0.0", ",nan,0.0", false, 2, "mean of 'lazy' is 'nan'"},
        {false, ",6,", ",0,", false, 2, "n of 'lazy' is '0'"},
        {false, ",6,", ",6.5,", false, 2, "n of 'lazy' is '6.5'"},
        {false, ",6,wall", ",,wall", false, 2, "n of 'lazy' is ''"},
        {false, ",1,0.008944271909999173,6,", ",,,,", false, 2, "metric of 'lazy' is 'wall', wanted nothing"},
        {false, ",s,-1,", ",s,0,", false, 2, "direction of 'lazy' is '0', wanted -1"},
        {false, ",s,-1,", ",s,1,", false, 3, "direction of 'lazy' is '-1', wanted the same"},
        {false, ",wall,s", ",cpu,s", false, 3, "metric of 'lazy' is 'wall', wanted the same"},
        {false, ",wall,s", ",wall,ms", false, 3, "unit of 'lazy' is 's', wanted the same"},
        {false, ",0.03125,", ",1.5,", false, 2, "p of 'stored/lazy' is '1.5'"},
        {false, ",faster\n", ",best\n", false, 2, "verdict of 'stored/lazy' is 'best'"},
        {false, ",faster\n", ",\n", false, 2, "verdict of 'stored/lazy' is '', wanted a verdict"},
        {false, ",1,faster", ",yes,faster", false, 2, "paired of 'stored/lazy' is 'yes'"},
        {false, ",one,", ",one,two,", false, 2, "confidence is 'two'"},
        {false, ",0.95,", ",95,", false, 2, "confidence is '95'"},
        {false, ",faster\n", ",faster,\n", false, 2, "more than 42 fields"},
        {false, ",1,faster\n", ",1\n", false, 2, "fewer than 42 fields"},
        {false, ",faster\n", ",faster\n\n", false, 3, "fewer than 42 fields"},
        {false, ",one,", ",\"one,", false, 2, "not closed in the line"},
        {false, ",one,", ",o\"ne,", false, 2, "a quote within a field"},
        {false, ",one,", ",\"one\"x,", false, 2, "behind a closing quote"},
        {false, ",one,", ",o\x01ne,", false, 2, "0x01, wanted text"},
    };
    for (size_t i = 0; i < STK_COUNT(all); i++) {
        const damage *d = &all[i];
        log_one(HASH_A, "", 1.0, "one");
        log_one(HASH_A, "", 1.0, "two");
        edit(d->in_page ? page : lines, d->from, d->to);
        assert_refused(d->told_of_page ? page : lines, d->line, d->words);
        unlink(page);
        unlink(lines);
    }
}

static void rows_that_the_lines_lack_are_told(void **state)
{
    (void)state;
    log_one(HASH_A, "", 1.0, "one");
    char *lines_one = slurp(lines);
    log_one(HASH_A, "", 1.0, "two");
    put(lines, lines_one);
    assert_refused(page, 10, "row 2 of the table is not in");
    put(lines, "");
    assert_refused(page, 7, "here is a table, but");
    stk__free(lines_one);
}

static void a_page_that_cannot_be_written_leaves_the_lines_as_they_were(void **state)
{
    (void)state;
    /* Reads as empty, but no file may take the place of what is no regular file. */
    assert_int_equal(symlink("/dev/null", page), 0);
    run r;
    stk_error err = {0};
    run_make(&r, HASH_A, "", 1.0, "one");
    assert_int_equal(run_log(&r, &err), STK_IO);
    assert_non_null(strstr(err.message, "not a regular file"));
    assert_int_equal(access(lines, F_OK), -1);
    put(lines, "");
    run_make(&r, HASH_A, "", 1.0, "one");
    assert_int_equal(run_log(&r, &err), STK_IO);
    char *after = slurp(lines);
    assert_string_equal(after, "");
    stk__free(after);
    assert_int_equal(entries(), 2);
}

/* ---- a run that was ended between both files ---- */

static void log_wide(const char *description)
{
    run r;
    run_make(&r, HASH_B, HASH_A, 1.0, description);
    add_variant(&r, "new | one", 3.0);
    compare(&r, 0, 2, 3.0, STK__SLOWER);
    assert_int_equal(run_log(&r, NULL), STK_OK);
}

/* Puts the page back as it was: the CSV file has more. Reading tells, mending makes the page that would have been. */
static void assert_mended(const char *before, const char *note)
{
    char *wanted = slurp(page);
    stk__log log = {0};
    stk__text notes = STK__TEXT_INIT;
    if (before)
        put(page, before);
    else
        unlink(page);
    assert_int_equal(stk__log_read(page, &log, NULL), STK_OK);
    assert_true(log.stale);
    stk__log_clear(&log);
    assert_int_equal(stk__log_mend(page, &notes, NULL), STK_OK);
    if (!strstr(notes.data, note))
        fail_msg("no '%s' in: %s", note, notes.data);
    char *found = slurp(page);
    assert_string_equal(found, wanted);
    stk__text_reset(&notes);
    assert_int_equal(stk__log_mend(page, &notes, NULL), STK_OK);
    assert_int_equal(notes.length, 0);
    stk__text_clear(&notes);
    stk__free(found);
    stk__free(wanted);
}

static void a_page_that_lacks_rows_gets_them(void **state)
{
    (void)state;
    log_one(HASH_A, "", 1.0, "one");
    assert_mended(NULL, "lacked 1 row of");
    assert_mended("", "lacked 1 row of");
    char *one = slurp(page);
    log_one(HASH_B, HASH_A, 1.1, "two");
    assert_mended(one, "lacked 1 row of");
    log_one(HASH_B, HASH_A, 1.2, "three");
    assert_mended(one, "lacked 2 rows of");
    char *three = slurp(page);
    log_wide("four");
    assert_mended(three, "lacked 1 row of");
    assert_mended(one, "lacked 3 rows of");
    assert_mended(NULL, "lacked 4 rows of");
    stk__free(one);
    stk__free(three);
}

static void a_page_that_lacks_rows_keeps_its_text(void **state)
{
    (void)state;
    put(page, "Mine.\n\n" STK__LOG_MARK "\nText below.\n");
    char *mine = slurp(page);
    log_one(HASH_A, "", 1.0, "one");
    assert_mended(mine, "lacked 1 row of");
    char *one = slurp(page);
    log_wide("two");
    assert_mended(one, "lacked 1 row of");
    assert_holds(page, "| two |\n\nText below.\n");
    stk__free(mine);
    stk__free(one);
}

static void adding_a_row_mends_the_page_on_the_way(void **state)
{
    (void)state;
    log_one(HASH_A, "", 1.0, "one");
    char *one = slurp(page);
    log_one(HASH_B, HASH_A, 1.0, "two");
    put(page, one);
    run r;
    stk__text notes = STK__TEXT_INIT;
    stk__log log = {0};
    run_make(&r, HASH_B, HASH_A, 1.0, "three");
    assert_int_equal(stk__log_append(page, &r.entry, &log, &notes, NULL), STK_OK);
    stk__result_clear(&r.result);
    assert_non_null(strstr(notes.data, "lacked 1 row of"));
    assert_int_equal(log.row_count, 3);
    assert_false(log.stale);
    stk__log_clear(&log);
    assert_holds(page, "| two |\n| 2026");
    assert_int_equal(row_count(), 3);
    put(page, one);
    stk__text_reset(&notes);
    run_make(&r, HASH_B, HASH_A, 1.0, "four");
    assert_int_equal(stk__log_fits(page, &r.entry, &notes, NULL), STK_OK);
    stk__result_clear(&r.result);
    assert_non_null(strstr(notes.data, "lacked 2 rows of"));
    assert_int_equal(row_count(), 3);
    stk__text_clear(&notes);
    stk__free(one);
}

/* ---- version 1 ---- */

#define OLD_HEAD "time,commit,parent,dirty,machine,limits,description,lazy,lazy_sd,lazy_n,stored,stored_sd,stored_n,"
#define OLD_LINES                                                                                                      \
    OLD_HEAD "compared,ratio,ci_low,ci_high,p,paired,verdict,metric,unit\n"                                            \
             "2026-08-14T10:00:00Z," HASH_A ",,0,\"" MACHINE "\",,one,1,0.01,6,0.9,0.01,6,stored/lazy,0.9,0.88,0.92,"  \
             "0.03125,1,faster,wall,s\n"                                                                               \
             "2026-08-14T10:00:00Z," HASH_B "," HASH_A ",0,\"" MACHINE "\",,two,2,0.01,6,0.9,0.01,6,HEAD~1,2,1.9,2.1," \
             "0.03125,1,slower,wall,s\n"
#define OLD_TABLE                                                                                         \
    "| date | commit | lazy | stored | ratio | 95 % CI | verdict | to parent | machine | description |\n" \
    "|---|---|---|---|---|---|---|---|---|---|\n"
#define OLD_ROW(hash, text) "| 2026-08-14 10:00 | " hash " | a | b | c | d | e | f | g | " text " |\n"
#define OLD_PAGE \
    "# Mine\n\n" STK__LOG_MARK_OLD "\n\n" OLD_TABLE OLD_ROW("1111111", "one") OLD_ROW("2222222", "two") "\nbelow\n"

static void put_old(const char *page_text)
{
    put(lines, OLD_LINES);
    if (page_text)
        put(page, page_text);
}

static void assert_same(const char *path, const char *wanted)
{
    char *found = slurp(path);
    assert_string_equal(found, wanted);
    stk__free(found);
}

static void an_old_log_is_read(void **state)
{
    (void)state;
    put_old(OLD_PAGE);
    stk__log log = {0};
    stk_error err = {0};
    if (stk__log_read(page, &log, &err) != STK_OK)
        fail_msg("%s: line %d: %s", err.file, err.line, err.message);
    assert_int_equal(log.version, 1);
    assert_false(log.stale);
    assert_int_equal(log.row_count, 2);
    assert_string_equal(log.benchmarks[1].metric, "wall");
    assert_string_equal(log.benchmarks[1].unit, "s");
    assert_int_equal(log.pair_count, 1);
    assert_string_equal(log.pairs[0], "stored/lazy");
    assert_string_equal(log.rows[0].beside[0].verdict, "faster");
    assert_null(log.rows[1].beside[0].verdict);
    const stk__log_cell *cell = &log.rows[1].cells[0];
    assert_true(cell->ratio == 2 && cell->low == 1.9 && cell->paired);
    assert_string_equal(cell->verdict, "slower");
    assert_string_equal(cell->against, "HEAD~1");
    stk__log_clear(&log);
    assert_same(page, OLD_PAGE);
    assert_same(lines, OLD_LINES);
}

static void an_old_log_is_upgraded_when_a_row_is_added(void **state)
{
    (void)state;
    put_old(OLD_PAGE);
    log_wide("three");
    char kept[160];
    snprintf(kept, sizeof kept, "%s/PERF.v1.md", dir);
    assert_same(kept, OLD_PAGE);
    snprintf(kept, sizeof kept, "%s/PERF.v1.csv", dir);
    assert_same(kept, OLD_LINES);
    assert_int_equal(entries(), 4);
    assert_holds(page, "# Mine\n\n" STK__LOG_MARK "\n\n| date | commit | lazy | stored | new \\| one | stored/lazy |");
    assert_holds(page, "| 0.900 (0.880..0.920) faster | - | - | " MACHINE " | one |\n");
    assert_holds(page, "; ratio 2.00 (1.900..2.10) slower | ");
    assert_holds(page, "| three |\n\nbelow\n");
    stk__log log = {0};
    assert_int_equal(stk__log_read(page, &log, NULL), STK_OK);
    assert_int_equal(log.version, 2);
    assert_int_equal(log.row_count, 3);
    assert_int_equal(log.benchmark_count, 3);
    /* Welch against the old row: the parent's. */
    assert_true(fabs(log.rows[2].cells[0].ratio - 1) < 1e-9);
    assert_string_equal(log.rows[2].cells[0].against, "1111111");
    stk__log_clear(&log);
    log_one(HASH_B, HASH_A, 1.0, "four");
    assert_int_equal(entries(), 4);
}

static void an_upgrade_that_was_ended_half_way_goes_on(void **state)
{
    (void)state;
    put_old(OLD_PAGE);
    log_wide("three");
    assert_mended(OLD_PAGE, "lacked 1 row of");
    assert_int_equal(row_count(), 3);
}

static void an_old_log_whose_page_lacks_a_row_is_mended(void **state)
{
    (void)state;
    put_old("# Mine\n\n" STK__LOG_MARK_OLD "\n\n" OLD_TABLE OLD_ROW("1111111", "one"));
    stk__log log = {0};
    assert_int_equal(stk__log_read(page, &log, NULL), STK_OK);
    assert_true(log.stale);
    stk__log_clear(&log);
    stk__text notes = STK__TEXT_INIT;
    assert_int_equal(stk__log_mend(page, &notes, NULL), STK_OK);
    assert_non_null(strstr(notes.data, "lacked 1 row of"));
    assert_non_null(strstr(notes.data, "version 2"));
    stk__text_clear(&notes);
    assert_int_equal(row_count(), 2);
    assert_holds(page, "| two |\n");
    assert_int_equal(entries(), 4);
}

static void damage_of_an_old_log_is_told(void **state)
{
    (void)state;
    static const damage all[] = {
        {true, "| ratio |", "| ratios |", true, 5, "column 5 is 'ratios', wanted 'ratio'"},
        {true, "| one |", "| one | more |", true, 7, "11 cells, wanted 10"},
        {true, STK__LOG_MARK_OLD, STK__LOG_MARK, true, 5, "the table is of version 2"},
        {false, ",unit\n", ",units\n", false, 1, "column 8 is 'lazy', wanted 'confidence'"},
        {false, ",lazy_sd", ",lazy_SD", false, 1, "of column 8 ('lazy') wanted the same with _sd"},
        {false, "compared,", "compare,", false, 1, "column 14 is 'compare', wanted 'compared'"},
        {false, ",1,0.01,6", ",,0.01,6", false, 2, "mean of 'lazy' is ''"},
        {false, ",1,0.01,6", ",1,0.01,0", false, 2, "n of 'lazy' is '0'"},
        {false, ",wall,s\n", ",cpu,s\n", false, 3, "metric is 'wall'"},
        {false, ",faster,", ",best,", false, 2, "verdict is 'best'"},
        {false, ",1,faster", ",yes,faster", false, 2, "paired is 'yes'"},
        {false, ",wall,s\n", ",wall,s,\n", false, 2, "more than 22 fields"},
    };
    for (size_t i = 0; i < STK_COUNT(all); i++) {
        const damage *d = &all[i];
        put_old(OLD_PAGE);
        edit(d->in_page ? page : lines, d->from, d->to);
        assert_refused(d->told_of_page ? page : lines, d->line, d->words);
    }
}

/* ---- several at once ---- */

static void rows_of_processes_at_once_all_end_up_in_it(void **state)
{
    (void)state;
    enum { CHILDREN = 8, EACH = 5 };
    pid_t pids[CHILDREN];
    for (int child = 0; child < CHILDREN; child++) {
        pids[child] = fork();
        assert_true(pids[child] >= 0);
        if (pids[child] != 0)
            continue;
        int failed = 0;
        for (int i = 0; i < EACH; i++) {
            run r;
            char description[64];
            snprintf(description, sizeof description, "child %d row %d", child, i);
            run_make(&r, HASH_A, "", 1.0, description);
            failed |= run_log(&r, NULL) != STK_OK;
        }
        _exit(failed);
    }
    for (int child = 0; child < CHILDREN; child++) {
        int status = 0;
        assert_int_equal(waitpid(pids[child], &status, 0), pids[child]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(row_count(), CHILDREN * EACH);
    for (int child = 0; child < CHILDREN; child++) {
        for (int i = 0; i < EACH; i++) {
            char description[64];
            snprintf(description, sizeof description, "| child %d row %d |\n", child, i);
            assert_holds(page, description);
        }
    }
    assert_int_equal(entries(), 2);
}

/* Adds a row with a new column, with every allocation failing in turn. */
static void assert_all_or_nothing(size_t rows)
{
    char *page_before = slurp(page), *lines_before = slurp(lines);
    stk_status status = STK_NOMEM;
    for (uint64_t n = 1; status != STK_OK; n++) {
        assert_true(n < 2000);
        run r;
        run_make(&r, HASH_B, HASH_A, 1.0, "two");
        add_variant(&r, "new", 1.0);
        compare(&r, 0, 2, 3.0, STK__SLOWER);
        stk__alloc_fail_at(n, false);
        status = stk__log_append(page, &r.entry, NULL, NULL, NULL);
        stk__alloc_fail_at(0, false);
        stk__result_clear(&r.result);
        if (status == STK_OK)
            break;
        assert_int_equal(status, STK_NOMEM);
        assert_same(page, page_before);
        assert_same(lines, lines_before);
    }
    stk__free(page_before);
    stk__free(lines_before);
    assert_int_equal(row_count(), rows);
}

static void every_failed_allocation_leaves_the_log_as_it_was(void **state)
{
    (void)state;
    log_one(HASH_A, "", 1.0, "one");
    assert_all_or_nothing(2);
    put_old(OLD_PAGE);
    assert_all_or_nothing(3);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(text_around_the_table_stays),
        TEST(a_page_with_the_mark_alone_gets_its_table_there),
        TEST(an_empty_page_is_written_anew),
        TEST(a_missing_last_line_end_is_fine),
        TEST(carriage_returns_are_kept_and_written),
        TEST(a_table_that_was_lined_up_by_an_editor_is_fine),
        TEST(a_path_without_md_is_refused),
        TEST(a_missing_directory_is_an_error),
        TEST(another_metric_is_refused),
        TEST(a_run_without_values_is_refused),
        TEST(a_page_of_something_else_is_refused),
        TEST(each_kind_of_damage_is_told),
        TEST(rows_that_the_lines_lack_are_told),
        TEST(a_page_that_cannot_be_written_leaves_the_lines_as_they_were),
        TEST(a_page_that_lacks_rows_gets_them),
        TEST(a_page_that_lacks_rows_keeps_its_text),
        TEST(adding_a_row_mends_the_page_on_the_way),
        TEST(an_old_log_is_read),
        TEST(an_old_log_is_upgraded_when_a_row_is_added),
        TEST(an_upgrade_that_was_ended_half_way_goes_on),
        TEST(an_old_log_whose_page_lacks_a_row_is_mended),
        TEST(damage_of_an_old_log_is_told),
        TEST(rows_of_processes_at_once_all_end_up_in_it),
        TEST(every_failed_allocation_leaves_the_log_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
