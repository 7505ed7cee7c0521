/* The change log: rows are added and only added, every benchmark beside its own past. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "bench/quantity.h"
#include "bench_logs.h"

/* ---- adding ---- */

static void append_to_nothing_makes_both_files(void **state)
{
    (void)state;
    log_one(HASH_A, "", 1.0, "first");
    assert_holds(page, "# Performance log\n");
    assert_holds(page, STK__LOG_MARK "\n\n| date | commit | lazy | stored | stored/lazy | past | machine | description "
                                     "|\n|---|");
    stk__text row = STK__TEXT_INIT;
    stk__text_puts(&row, "| 2026-08-14 10:00 | 1111111 | ");
    stk__quantity_pair(&row, 1.0, 0.00894427190999917, "s");
    stk__text_puts(&row, ", n=6 | ");
    stk__quantity_pair(&row, 0.96, 0.008586501033599199, "s");
    stk__text_puts(&row, ", n=6 | 0.960 (0.941..0.979) faster | - | " MACHINE " | first |\n");
    assert_holds(page, row.data);
    stk__text_clear(&row);
    char *text = slurp(lines);
    assert_string_equal(text,
                        "time,commit,parent,dirty,machine,limits,description,confidence,"
                        "lazy,lazy_sd,lazy_n,lazy_metric,lazy_unit,lazy_direction,lazy_limits,"
                        "lazy_against,lazy_ratio,lazy_low,lazy_high,lazy_p,lazy_paired,lazy_verdict,"
                        "stored,stored_sd,stored_n,stored_metric,stored_unit,stored_direction,stored_limits,"
                        "stored_against,stored_ratio,stored_low,stored_high,stored_p,stored_paired,stored_verdict,"
                        "stored/lazy,stored/lazy_low,stored/lazy_high,stored/lazy_p,stored/lazy_paired,"
                        "stored/lazy_verdict\n"
                        "2026-08-14T10:00:00Z," HASH_A ",,0,\"" MACHINE "\",,first,0.95,"
                        "1,0.008944271909999173,6,wall,s,-1,,,,,,,,,"
                        "0.96,0.008586501033599252,6,wall,s,-1,,,,,,,,,"
                        "0.96,0.9408,0.9792,0.03125,1,faster\n");
    stk__free(text);
    assert_int_equal(entries(), 2);
}

static void append_again_only_adds(void **state)
{
    (void)state;
    log_one(HASH_A, "", 1.0, "first");
    char *page_before = slurp(page), *lines_before = slurp(lines);
    log_one(HASH_A, "", 1.1, "the same commit again");
    char *page_after = slurp(page), *lines_after = slurp(lines);
    assert_true(strlen(page_after) > strlen(page_before));
    assert_memory_equal(page_after, page_before, strlen(page_before));
    assert_true(strlen(lines_after) > strlen(lines_before));
    assert_memory_equal(lines_after, lines_before, strlen(lines_before));
    stk__free(page_before);
    stk__free(lines_before);
    stk__free(page_after);
    stk__free(lines_after);
    assert_int_equal(row_count(), 2);
}

static void read_gives_what_was_appended(void **state)
{
    (void)state;
    log_one(HASH_A, "", 1.0, "first");
    run r;
    run_make(&r, HASH_B, HASH_A, 0.5, "with, comma and \"quotes\"");
    r.commit.dirty = true;
    r.result.limits = stk__strdup("1 CPU (affinity)");
    assert_int_equal(run_log(&r, NULL), STK_OK);
    stk__log log = {0};
    assert_int_equal(stk__log_read(page, &log, NULL), STK_OK);
    assert_int_equal(log.benchmark_count, 2);
    assert_string_equal(log.benchmarks[1].name, "stored");
    assert_string_equal(log.benchmarks[1].unit, "s");
    assert_string_equal(log.benchmarks[1].metric, "wall");
    assert_false(log.benchmarks[1].higher_is_better);
    assert_int_equal(log.row_count, 2);
    const stk__log_row *row = &log.rows[1];
    assert_int_equal(row->time_s, 1786701600);
    assert_string_equal(row->commit, HASH_B);
    assert_string_equal(row->parent, HASH_A);
    assert_true(row->dirty);
    assert_string_equal(row->machine, MACHINE);
    assert_string_equal(row->limits, "1 CPU (affinity)");
    assert_string_equal(row->description, "with, comma and \"quotes\"");
    assert_true(row->cells[1].mean == 0.48);
    assert_int_equal(row->cells[1].n, ROUNDS);
    assert_int_equal(log.pair_count, 1);
    assert_string_equal(log.pairs[0], "stored/lazy");
    const stk__log_beside *x = &row->beside[0];
    assert_true(x->ratio == 0.96 && x->p == 0.03125 && x->paired);
    assert_string_equal(x->verdict, "faster");
    assert_null(row->cells[1].verdict);
    assert_int_equal(row->line, 3);
    stk__log_clear(&log);
    assert_holds(page, "| 2222222+ |");
    assert_holds(page, "; 1 CPU (affinity) |");
}

static void read_of_nothing_is_an_empty_log(void **state)
{
    (void)state;
    stk__log log = {0};
    assert_int_equal(stk__log_read(page, &log, NULL), STK_OK);
    assert_int_equal(log.row_count, 0);
    assert_int_equal(stk__log_read("/nowhere/at/all/PERF.md", &log, NULL), STK_OK);
    assert_int_equal(log.row_count, 0);
}

static void without_git_the_commit_is_a_dash(void **state)
{
    (void)state;
    run r;
    run_make(&r, "", "", 1.0, NULL);
    r.commit = (stk__commit){0};
    assert_int_equal(run_log(&r, NULL), STK_OK);
    run_make(&r, "", "", 1.0, "none at all");
    r.entry.commit = NULL;
    assert_int_equal(run_log(&r, NULL), STK_OK);
    assert_holds(page, "| 2026-08-14 10:00 | - |");
    assert_int_equal(row_count(), 2);
}

static void description_is_the_subject_by_default(void **state)
{
    (void)state;
    log_one(HASH_A, "", 1.0, NULL);
    assert_holds(page, "| the subject |");
    assert_holds(lines, ",the subject,");
}

static void texts_from_outside_are_escaped(void **state)
{
    (void)state;
    const char *hostile = "a|b\\|c\nd\r\"q\" \x1b[31m <script>alert(1)</script> `x` \xff\x7f";
    log_one(HASH_A, "", 1.0, hostile);
    log_one(HASH_A, "", 1.0, "=1+1");
    log_one(HASH_A, "", 1.0, " blanks around\\");
    assert_int_equal(row_count(), 3);
    assert_lacks(page, "\x1b");
    assert_lacks(page, "<script>");
    assert_lacks(lines, "\x1b");
    assert_lacks(lines, "\xff");
    stk__log log = {0};
    assert_int_equal(stk__log_read(page, &log, NULL), STK_OK);
    assert_string_equal(log.rows[0].description, "a|b\\|c d \"q\" \\x1b[31m <script>alert(1)</script> `x` \\xff\\x7f");
    assert_string_equal(log.rows[1].description, "=1+1");
    assert_string_equal(log.rows[2].description, " blanks around\\");
    stk__log_clear(&log);
}

static void names_of_any_kind_are_columns(void **state)
{
    (void)state;
    static const char *const names[] = {"a,b", "x|y \"z\"", "time", "x\ny", " blanks ", "a,b_sd"};
    for (int again = 0; again < 2; again++) {
        run r;
        run_start(&r, HASH_A, "", "names");
        for (size_t i = 0; i < STK_COUNT(names); i++)
            add_variant(&r, names[i], 1.0 + (double)i);
        stk_error err = {0};
        if (run_log(&r, &err) != STK_OK)
            fail_msg("line %d: %s", err.line, err.message);
    }
    stk__log log = {0};
    assert_int_equal(stk__log_read(page, &log, NULL), STK_OK);
    assert_int_equal(log.row_count, 2);
    assert_string_equal(log.benchmarks[1].name, "x|y \"z\"");
    assert_string_equal(log.benchmarks[3].name, "x y");
    assert_null(log.rows[1].cells[1].verdict);
    assert_true(isnan(log.rows[1].cells[1].ratio));
    stk__log_clear(&log);
}

static void other_order_of_the_same_benchmarks_is_sorted_out(void **state)
{
    (void)state;
    log_one(HASH_A, "", 1.0, "first");
    run r;
    run_start(&r, HASH_A, "", "turned around");
    add_variant(&r, "stored", 3.0);
    add_variant(&r, "lazy", 2.0);
    assert_int_equal(run_log(&r, NULL), STK_OK);
    stk__log log = {0};
    assert_int_equal(stk__log_read(page, &log, NULL), STK_OK);
    assert_true(log.rows[1].cells[0].mean == 2.0 && log.rows[1].cells[1].mean == 3.0);
    stk__log_clear(&log);
}

static void several_comparisons_stand_with_their_names(void **state)
{
    (void)state;
    run r;
    run_start(&r, HASH_A, "", "three");
    add_variant(&r, "a", 1.0);
    add_variant(&r, "b", 0.9);
    add_variant(&r, "c", 1.2);
    compare(&r, 0, 1, 0.9, STK__FASTER);
    compare(&r, 0, 2, 1.2, STK__INCONCLUSIVE);
    r.items[1].valid = false;
    assert_int_equal(run_log(&r, NULL), STK_OK);
    assert_holds(page, "| b/a | c/a | past |");
    assert_holds(page, "| 0.900 (0.882..0.918) faster | inconclusive | - |");
    assert_holds(lines, ",0.9,0.882,0.918,0.03125,1,faster,,,,,1,inconclusive\n");
}

static void another_confidence_is_told(void **state)
{
    (void)state;
    run r;
    run_make(&r, HASH_A, "", 1.0, "sure");
    r.entry.confidence = 0.99;
    assert_int_equal(run_log(&r, NULL), STK_OK);
    assert_holds(page, "| 0.960 (0.941..0.979 (99 %)) faster |");
}

static void one_run_has_no_spread(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        run r;
        run_start(&r, i ? HASH_B : HASH_A, i ? HASH_A : "", "once");
        const double value = 2.5;
        add_values(&r, add_column(&r, "only"), &value, 1);
        assert_int_equal(run_log(&r, NULL), STK_OK);
    }
    assert_holds(lines, ",2.5,,1,");
    assert_holds(page, "| 2.50 s, n=1 | - |");
    assert_holds(page, "| 2.50 s, n=1; ratio 1.000 | 1111111, unpaired |");
    stk__log log = {0};
    assert_int_equal(stk__log_read(page, &log, NULL), STK_OK);
    assert_true(isnan(log.rows[0].cells[0].sd));
    stk__log_clear(&log);
}

/* ---- the parent ---- */

static void ratio_to_the_parent_comes_from_its_newest_row(void **state)
{
    (void)state;
    log_one(HASH_A, "", 9.0, "old");
    log_one(HASH_A, "", 1.0, "newest");
    log_one(HASH_B, HASH_A, 0.5, "twice as fast");
    /* Welch on logs by hand: cv 0.894 % in all four, n = 6; se = cv * sqrt(2/6), df = 10, t = 2.228: 1.15 % */
    assert_holds(page, "n=6; ratio 0.500 (0.494..0.506) | ");
    assert_holds(page, "| 1111111, unpaired |");
    assert_lacks(page, "ratio 0.056");
}

static void ratio_of_changed_files_is_to_their_commit(void **state)
{
    (void)state;
    log_one(HASH_A, "", 1.0, "parent");
    log_one(HASH_B, HASH_A, 2.0, "commit");
    run r;
    run_make(&r, HASH_B, HASH_A, 3.0, "work on it");
    r.commit.dirty = true;
    assert_int_equal(run_log(&r, NULL), STK_OK);
    assert_holds(page, "ratio 1.500 (");
    assert_holds(page, "| 2222222, unpaired |");
}

static void rows_of_other_machines_limits_and_changed_files_are_no_parent(void **state)
{
    (void)state;
    run r;
    run_make(&r, HASH_A, "", 1.0, "another machine");
    stk__free(r.result.machine);
    r.result.machine = stk__strdup("Test CPU, 4 cores, 4.0 GiB, Linux 6.1");
    assert_int_equal(run_log(&r, NULL), STK_OK);
    run_make(&r, HASH_A, "", 1.0, "limits");
    r.result.limits = stk__strdup("1 CPU (affinity)");
    assert_int_equal(run_log(&r, NULL), STK_OK);
    run_make(&r, HASH_A, "", 1.0, "changed");
    r.commit.dirty = true;
    assert_int_equal(run_log(&r, NULL), STK_OK);
    log_one(HASH_B, HASH_A, 0.5, "alone");
    assert_lacks(page, ", unpaired |");
    run_make(&r, HASH_A, "", 1.0, "another kernel");
    stk__free(r.result.machine);
    r.result.machine = stk__strdup("Test CPU, 2 cores, 4.0 GiB, Linux 7.7");
    assert_int_equal(run_log(&r, NULL), STK_OK);
    log_one(HASH_B, HASH_A, 0.5, "not alone");
    assert_holds(page, ", unpaired |");
}

static void a_past_of_the_same_rounds_is_told_with_its_verdict(void **state)
{
    (void)state;
    run r;
    log_one(HASH_A, "", 5.0, "not what it is compared with");
    run_make(&r, HASH_B, HASH_A, 1.0, "against");
    const stk__comparison past[] = {comparison(0, 1, 0.9, STK__FASTER), comparison(2, 3, 1.1, STK__SLOWER)};
    for (size_t i = 0; i < 2; i++) {
        r.figures[i].past = &past[i];
        r.figures[i].against = "v1.2";
    }
    assert_int_equal(run_log(&r, NULL), STK_OK);
    stk__log log = {0};
    assert_int_equal(stk__log_read(page, &log, NULL), STK_OK);
    const stk__log_cell *cell = &log.rows[1].cells[1];
    assert_true(cell->paired && cell->ratio == 1.1 && cell->p == 0.03125);
    assert_string_equal(cell->verdict, "slower");
    assert_string_equal(cell->against, "v1.2");
    stk__log_clear(&log);
    assert_holds(page, "n=6; ratio 0.900 (0.882..0.918) faster | ");
    assert_holds(page, "n=6; ratio 1.100 (1.078..1.122) slower | ");
    assert_holds(page, "| v1.2, paired |");
}

/* ---- benchmarks of their own ---- */

/* A second result, whose metric is another one. */
static void add_other(run *r, stk__result *other, const char *name, const char *metric, const char *unit, bool higher,
                      double value)
{
    size_t index, v;
    *other = (stk__result){.time_s = r->result.time_s, .machine = stk__strdup(MACHINE)};
    assert_int_equal(stk__result_add_metric(other, metric, unit, higher, &index, NULL), STK_OK);
    assert_int_equal(stk__result_add_variant(other, name, name, 0, &v, NULL), STK_OK);
    assert_int_equal(stk__result_add_run(other, v, &value, 0, NULL), STK_OK);
    r->figures[r->entry.figure_count++] = (stk__log_figure){.name = name, .result = other, .variant = v};
}

static void each_benchmark_has_its_own_metric_and_limits(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        run r;
        stk__result memory, rate;
        run_start(&r, i ? HASH_B : HASH_A, i ? HASH_A : "", "unrelated");
        add_variant(&r, "decode", i ? 2.0 : 1.0);
        add_other(&r, &memory, "memory", "rss", "bytes", false, i ? 1048576 : 2097152);
        add_other(&r, &rate, "loop", "samples_per_s", "samples/s", true, i ? 300 : 200);
        memory.limits = stk__strdup("1 CPU (affinity)");
        assert_int_equal(run_log(&r, NULL), STK_OK);
        stk__result_clear(&memory);
        stk__result_clear(&rate);
    }
    stk__log log = {0};
    assert_int_equal(stk__log_read(page, &log, NULL), STK_OK);
    assert_int_equal(log.benchmark_count, 3);
    assert_string_equal(log.benchmarks[1].metric, "rss");
    assert_string_equal(log.benchmarks[2].unit, "samples/s");
    assert_true(log.benchmarks[2].higher_is_better && !log.benchmarks[1].higher_is_better);
    const stk__log_row *row = &log.rows[1];
    assert_string_equal(row->limits, "");
    assert_string_equal(stk__log_limits(row, 1), "1 CPU (affinity)");
    assert_string_equal(stk__log_limits(row, 0), "");
    /* Each against itself: no mean over unrelated things. */
    assert_true(fabs(row->cells[0].ratio - 2) < 1e-12 && row->cells[1].ratio == 0.5 && row->cells[2].ratio == 1.5);
    assert_true(isnan(row->cells[1].low) && isnan(row->cells[1].p) && isfinite(row->cells[0].low));
    assert_null(row->cells[0].verdict);
    stk__text t = STK__TEXT_INIT;
    stk__log_report(&log, &t);
    assert_string_equal(t.data,
                        "  decode  2.00 s +- 0.02  (n=6)  ratio 2.00 (1.977..2.02)  unpaired, to the row of 1111111\n"
                        "  memory  1.00 MiB  (n=1)        ratio 0.500               unpaired, to the row of 1111111; a "
                        "single run has no interval\n"
                        "  loop    300 samples/s  (n=1)   ratio 1.500               unpaired, to the row of 1111111; a "
                        "single run has no interval\n");
    stk__text_clear(&t);
    stk__log_clear(&log);
    assert_holds(
        page, "| 1.00 MiB, n=1, 1 CPU (affinity); ratio 0.500 | 300 samples/s, n=1; ratio 1.500 | 1111111, unpaired |");
}

static void log_two(const char *hash, const char *parent, const char *a, const char *b, const char *description)
{
    run r;
    stk_error err = {0};
    run_start(&r, hash, parent, description);
    add_variant(&r, a, 1.0);
    if (b) {
        add_variant(&r, b, 2.0);
        compare(&r, 0, 1, 2.0, STK__SLOWER);
    }
    if (run_log(&r, &err) != STK_OK)
        fail_msg("%s: line %d: %s", err.file, err.line, err.message);
}

static void benchmarks_come_and_go(void **state)
{
    (void)state;
    log_two(HASH_A, "", "lazy", "stored", "first");
    edit(page, "| first |", "| first, edited by hand |");
    log_two(HASH_B, HASH_A, "other", "lazy", "gained one");
    log_two(HASH_B, HASH_A, "stored", NULL, "lost two");
    assert_holds(page, "| date | commit | lazy | stored | other | stored/lazy | lazy/other | past | machine |");
    assert_holds(page, "| - | 2.00 (1.960..2.04) slower | - | - | " MACHINE " | first, edited by hand |\n");
    assert_holds(page,
                 "| 2222222 | - | (1.00, 0.01) s, n=6; ratio 0.500 (0.494..0.506) | - | - | - | 1111111, unpaired |");
    stk__log log = {0};
    assert_int_equal(stk__log_read(page, &log, NULL), STK_OK);
    assert_int_equal(log.row_count, 3);
    assert_false(log.stale);
    const stk__log_row *rows = log.rows;
    assert_true(!rows[0].cells[2].n && isnan(rows[0].cells[2].mean) && !rows[0].beside[1].verdict);
    assert_true(!rows[1].cells[1].n && rows[1].cells[2].n == ROUNDS && rows[1].cells[0].ratio == 2.0);
    assert_true(!rows[2].cells[0].n && rows[2].cells[1].n == ROUNDS);
    stk__log_clear(&log);
    assert_holds(lines, ",lost two,0.95,,,,,,,,,,,,,,,1,");
}

static void the_past_is_the_newest_row_that_has_the_benchmark(void **state)
{
    (void)state;
    log_two(HASH_A, "", "lazy", "stored", "both");
    log_two(HASH_A, "", "other", NULL, "another one of the same commit");
    log_two(HASH_B, HASH_A, "lazy", NULL, "looks past it");
    assert_holds(page, "ratio 1.000 (0.989..1.012) | - | - | - | 1111111, unpaired |");
}

static void names_that_cannot_be_told_apart_are_refused(void **state)
{
    (void)state;
    static const char *const names[][2] = {{"a", "a"}, {"x\ny", "x y"}};
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        run r;
        stk_error err = {0};
        run_start(&r, HASH_A, "", "twice");
        add_variant(&r, names[i][0], 1.0);
        add_variant(&r, "between", 1.0);
        r.figures[1].name = names[i][1];
        assert_int_equal(run_log(&r, &err), STK_INVALID);
        assert_non_null(strstr(err.message, "two benchmarks are called"));
    }
    assert_int_equal(entries(), 0);
}

static void too_few_rounds_leave_a_ratio_without_interval(void **state)
{
    (void)state;
    run r;
    run_make(&r, HASH_A, "", 1.0, "short");
    stk__comparison past = comparison(0, 1, 0.5, STK__INCONCLUSIVE);
    past.pair.covered = r.items[0].pair.covered = false;
    r.figures[0].past = &past;
    r.figures[0].against = "abc";
    assert_int_equal(run_log(&r, NULL), STK_OK);
    assert_holds(page, "; ratio 0.500 inconclusive |");
    assert_holds(page, "| 0.960 faster | abc, paired |");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(append_to_nothing_makes_both_files),
        TEST(append_again_only_adds),
        TEST(read_gives_what_was_appended),
        TEST(read_of_nothing_is_an_empty_log),
        TEST(without_git_the_commit_is_a_dash),
        TEST(description_is_the_subject_by_default),
        TEST(texts_from_outside_are_escaped),
        TEST(names_of_any_kind_are_columns),
        TEST(other_order_of_the_same_benchmarks_is_sorted_out),
        TEST(several_comparisons_stand_with_their_names),
        TEST(another_confidence_is_told),
        TEST(one_run_has_no_spread),
        TEST(ratio_to_the_parent_comes_from_its_newest_row),
        TEST(ratio_of_changed_files_is_to_their_commit),
        TEST(rows_of_other_machines_limits_and_changed_files_are_no_parent),
        TEST(a_past_of_the_same_rounds_is_told_with_its_verdict),
        TEST(each_benchmark_has_its_own_metric_and_limits),
        TEST(benchmarks_come_and_go),
        TEST(the_past_is_the_newest_row_that_has_the_benchmark),
        TEST(names_that_cannot_be_told_apart_are_refused),
        TEST(too_few_rounds_leave_a_ratio_without_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
