/* The change log: rows are added and only added, both files agree, and damage is refused with its place. */
#define _GNU_SOURCE
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "bench/log_impl.h"
#include "bench/quantity.h"

#define HASH_A "1111111111111111111111111111111111111111"
#define HASH_B "2222222222222222222222222222222222222222"
#define MACHINE "Test CPU, 2 cores, 4.0 GiB, Linux 6.1"

enum { ROUNDS = 6 };

static char dir[64], page[128], lines[128];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/stoker-test-log-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(page, sizeof page, "%s/PERF.md", dir);
    snprintf(lines, sizeof lines, "%s/PERF.csv", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

/* ---- runs to log ---- */

typedef struct run {
    stk__result result;
    stk__comparison items[4];
    stk__comparisons comparisons;
    stk__commit commit;
    stk__log_entry entry;
} run;

/* Times around `base`, with a spread of about 1 %. */
static void add_variant(stk__result *r, const char *name, size_t group, double base)
{
    size_t v;
    assert_int_equal(stk__result_add_variant(r, name, name, group, &v, NULL), STK_OK);
    for (int i = 0; i < ROUNDS; i++) {
        const double value = base * (1 + 0.01 * (i % 3 - 1));
        assert_int_equal(stk__result_add_run(r, v, &value, 0, NULL), STK_OK);
    }
}

static void compare(run *r, size_t a, size_t b, double ratio, stk__verdict verdict)
{
    r->items[r->comparisons.count++] = (stk__comparison){.a = a,
                                                         .b = b,
                                                         .valid = true,
                                                         .paired = true,
                                                         .ratio = ratio,
                                                         .low = ratio * 0.98,
                                                         .high = ratio * 1.02,
                                                         .p = 0.03125,
                                                         .p_holm = 0.03125,
                                                         .verdict = verdict};
}

static void run_start(run *r, const char *hash, const char *parent, const char *description)
{
    memset(r, 0, sizeof *r);
    size_t metric;
    assert_int_equal(stk__result_add_metric(&r->result, "wall", "s", false, &metric, NULL), STK_OK);
    r->result.time_s = 1786701600; /* 2026-08-14 10:00 */
    r->result.machine = stk__strdup(MACHINE);
    r->comparisons = (stk__comparisons){.items = r->items, .rule = {.confidence = 0.95}};
    snprintf(r->commit.hash, sizeof r->commit.hash, "%s", hash);
    snprintf(r->commit.brief, sizeof r->commit.brief, "%.7s", hash);
    snprintf(r->commit.parent, sizeof r->commit.parent, "%s", parent);
    snprintf(r->commit.subject, sizeof r->commit.subject, "the subject");
    r->entry = (stk__log_entry){&r->result, &r->comparisons, &r->commit, description, NULL};
}

/* lazy takes `lazy` seconds, stored 4 % less. */
static void run_make(run *r, const char *hash, const char *parent, double lazy, const char *description)
{
    run_start(r, hash, parent, description);
    add_variant(&r->result, "lazy", 0, lazy);
    add_variant(&r->result, "stored", 0, lazy * 0.96);
    compare(r, 0, 1, 0.96, STK__FASTER);
}

static stk_status run_log(run *r, stk_error *err)
{
    const stk_status status = stk__log_append(page, &r->entry, err);
    stk__result_clear(&r->result);
    return status;
}

static void log_one(const char *hash, const char *parent, double lazy, const char *description)
{
    run r;
    stk_error err = {0};
    run_make(&r, hash, parent, lazy, description);
    if (run_log(&r, &err) != STK_OK)
        fail_msg("%s: %s", err.file, err.message);
}

/* ---- files ---- */

static char *slurp(const char *path)
{
    char *data = NULL;
    size_t size = 0;
    assert_int_equal(stk__read_file(path, 1 << 24, &data, &size, NULL), STK_OK);
    return data;
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* Puts `to` in the place of the first `from`. */
static void edit(const char *path, const char *from, const char *to)
{
    char *text = NULL;
    size_t size = 0;
    assert_int_equal(stk__read_file(path, 1 << 24, &text, &size, NULL), STK_OK);
    char *at = strstr(text, from);
    if (!at)
        fail_msg("no '%s' in: %s", from, text);
    stk__text t = STK__TEXT_INIT;
    stk__text_write(&t, text, (size_t)(at - text));
    stk__text_puts(&t, to);
    stk__text_puts(&t, at + strlen(from));
    put(path, t.data);
    stk__text_clear(&t);
    stk__free(text);
}

static void assert_holds(const char *path, const char *part)
{
    char *text = slurp(path);
    if (!strstr(text, part))
        fail_msg("no '%s' in: %s", part, text);
    stk__free(text);
}

static void assert_lacks(const char *path, const char *part)
{
    char *text = slurp(path);
    if (strstr(text, part))
        fail_msg("'%s' is in: %s", part, text);
    stk__free(text);
}

static size_t row_count(void)
{
    stk__log log = {0};
    stk_error err = {0};
    if (stk__log_read(page, &log, &err) != STK_OK)
        fail_msg("%s: line %d: %s", err.file, err.line, err.message);
    const size_t n = log.row_count;
    stk__log_clear(&log);
    return n;
}

static int entries(void)
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* Readers and writers refuse the log for this line (0: none) with these words, and nothing changes. */
static void assert_refused(const char *file, int line, const char *words)
{
    char *page_before = slurp(page), *lines_before = slurp(lines);
    for (int writing = 0; writing < 2; writing++) {
        stk_error err = {0};
        stk__log log = {0};
        run r;
        run_make(&r, HASH_B, HASH_A, 1.0, "more");
        const stk_status status = writing ? run_log(&r, &err) : stk__log_read(page, &log, &err);
        if (!writing)
            stk__result_clear(&r.result);
        if (status != STK_CORRUPT || !strstr(err.message, words) || err.line != line || strcmp(err.file, file) != 0)
            fail_msg("status %d, %s line %d: %s", status, err.file, err.line, err.message);
        assert_null(log.rows);
    }
    char *page_after = slurp(page), *lines_after = slurp(lines);
    assert_string_equal(page_before, page_after);
    assert_string_equal(lines_before, lines_after);
    stk__free(page_before);
    stk__free(lines_before);
    stk__free(page_after);
    stk__free(lines_after);
}

/* ---- adding ---- */

static void append_to_nothing_makes_both_files(void **state)
{
    (void)state;
    log_one(HASH_A, "", 1.0, "first");
    assert_holds(page, "# Performance log\n");
    assert_holds(page, STK__LOG_MARK "\n\n| date | commit | lazy | stored | ratio | 95 % CI | verdict | to parent | "
                                     "machine | description |\n|---|");
    stk__text row = STK__TEXT_INIT;
    stk__text_puts(&row, "| 2026-08-14 10:00 | 1111111 | ");
    stk__quantity_pair(&row, 1.0, 0.00894427190999917, "s");
    stk__text_puts(&row, ", n=6 | ");
    stk__quantity_pair(&row, 0.96, 0.008586501033599199, "s");
    stk__text_puts(&row, ", n=6 | 0.960 | 0.941..0.979 | faster | - | " MACHINE " | first |\n");
    assert_holds(page, row.data);
    stk__text_clear(&row);
    char *text = slurp(lines);
    assert_string_equal(text,
                        "time,commit,parent,dirty,machine,limits,description,lazy,lazy_sd,lazy_n,stored,stored_sd,"
                        "stored_n,compared,ratio,ci_low,ci_high,p,paired,verdict,metric,unit\n"
                        "2026-08-14T10:00:00Z," HASH_A ",,0,\"" MACHINE "\",,first,1,0.008944271909999173,6,0.96,"
                        "0.008586501033599252,6,stored/lazy,0.96,0.9408,0.9792,0.03125,1,faster,wall,s\n");
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
    assert_string_equal(log.benchmarks[1], "stored");
    assert_string_equal(log.units[1], "s");
    assert_string_equal(log.metric, "wall");
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
    assert_string_equal(row->compared, "stored/lazy");
    assert_true(row->ratio == 0.96 && row->p == 0.03125 && row->paired);
    assert_string_equal(row->verdict, "faster");
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
            add_variant(&r.result, names[i], 0, 1.0 + (double)i);
        stk_error err = {0};
        if (run_log(&r, &err) != STK_OK)
            fail_msg("line %d: %s", err.line, err.message);
    }
    stk__log log = {0};
    assert_int_equal(stk__log_read(page, &log, NULL), STK_OK);
    assert_int_equal(log.row_count, 2);
    assert_string_equal(log.benchmarks[1], "x|y \"z\"");
    assert_string_equal(log.benchmarks[3], "x y");
    assert_string_equal(log.rows[1].verdict, "");
    assert_true(isnan(log.rows[1].ratio));
    stk__log_clear(&log);
}

static void other_order_of_the_same_benchmarks_is_sorted_out(void **state)
{
    (void)state;
    log_one(HASH_A, "", 1.0, "first");
    run r;
    run_start(&r, HASH_A, "", "turned around");
    add_variant(&r.result, "stored", 0, 3.0);
    add_variant(&r.result, "lazy", 0, 2.0);
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
    add_variant(&r.result, "a", 0, 1.0);
    add_variant(&r.result, "b", 0, 0.9);
    add_variant(&r.result, "c", 0, 1.2);
    compare(&r, 0, 1, 0.9, STK__FASTER);
    compare(&r, 0, 2, 1.2, STK__INCONCLUSIVE);
    r.items[1].withheld = (char *)(uintptr_t) "its output differs";
    assert_int_equal(run_log(&r, NULL), STK_OK);
    assert_holds(page, "| b/a 0.900; c/a 1.200 | b/a 0.882..0.918; c/a 1.176..1.224 | "
                       "b/a faster; c/a inconclusive: its output differs |");
    assert_holds(lines, ",b/a,0.9,");
}

static void another_confidence_is_told(void **state)
{
    (void)state;
    run r;
    run_make(&r, HASH_A, "", 1.0, "sure");
    r.comparisons.rule.confidence = 0.99;
    assert_int_equal(run_log(&r, NULL), STK_OK);
    assert_holds(page, "| 0.941..0.979 (99 %) |");
}

static void one_run_has_no_spread(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        run r;
        run_start(&r, i ? HASH_B : HASH_A, i ? HASH_A : "", "once");
        size_t v;
        const double value = 2.5;
        assert_int_equal(stk__result_add_variant(&r.result, "only", "only", 0, &v, NULL), STK_OK);
        assert_int_equal(stk__result_add_run(&r.result, v, &value, 0, NULL), STK_OK);
        assert_int_equal(run_log(&r, NULL), STK_OK);
    }
    assert_holds(lines, ",2.5,,1,");
    assert_holds(page, "| 1.000 unpaired |");
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
    assert_holds(page, "| 0.500 (0.494..0.506) unpaired |");
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
    assert_holds(page, "| 1.500 (");
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
    assert_lacks(page, "unpaired");
    run_make(&r, HASH_A, "", 1.0, "another kernel");
    stk__free(r.result.machine);
    r.result.machine = stk__strdup("Test CPU, 2 cores, 4.0 GiB, Linux 7.7");
    assert_int_equal(run_log(&r, NULL), STK_OK);
    log_one(HASH_B, HASH_A, 0.5, "not alone");
    assert_holds(page, "unpaired");
}

static void against_takes_the_second_of_each_group(void **state)
{
    (void)state;
    run r;
    run_start(&r, HASH_B, HASH_A, "against");
    add_variant(&r.result, "lazy @ HEAD~1", 0, 1.0);
    add_variant(&r.result, "lazy @ HEAD", 0, 0.9);
    add_variant(&r.result, "a @ b @ HEAD~1", 1, 2.0);
    add_variant(&r.result, "a @ b @ HEAD", 1, 2.2);
    compare(&r, 0, 1, 0.9, STK__FASTER);
    compare(&r, 2, 3, 1.1, STK__SLOWER);
    r.entry.against = "HEAD~1";
    assert_int_equal(run_log(&r, NULL), STK_OK);
    stk__log log = {0};
    assert_int_equal(stk__log_read(page, &log, NULL), STK_OK);
    assert_int_equal(log.benchmark_count, 2);
    assert_string_equal(log.benchmarks[0], "lazy");
    assert_string_equal(log.benchmarks[1], "a @ b");
    assert_true(log.rows[0].cells[0].mean == 0.9 && fabs(log.rows[0].cells[1].mean - 2.2) < 1e-9);
    assert_string_equal(log.rows[0].compared, "HEAD~1");
    stk__log_clear(&log);
    assert_holds(page, "| lazy 0.900 (0.882..0.918); a @ b 1.100 (1.078..1.122) paired, HEAD~1 |");
    /* The same benchmarks without `against` fit into the same log. */
    run_start(&r, HASH_B, HASH_A, "alone");
    add_variant(&r.result, "lazy", 0, 1.0);
    add_variant(&r.result, "a @ b", 1, 1.0);
    assert_int_equal(run_log(&r, NULL), STK_OK);
}

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
    edit(lines, ",wall,s\n", ",wall,s");
    log_one(HASH_A, "", 1.0, "second");
    assert_int_equal(row_count(), 2);
    assert_holds(page, "| first |\n| 2026");
    assert_holds(lines, ",wall,s\n2026");
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
    assert_int_equal(stk__log_append("/nowhere/at/all/PERF.md", &r.entry, &err), STK_IO);
    assert_non_null(strstr(err.message, "No such file"));
    stk__result_clear(&r.result);
}

static void other_benchmarks_are_refused(void **state)
{
    (void)state;
    log_one(HASH_A, "", 1.0, "first");
    run r;
    stk_error err = {0};
    run_start(&r, HASH_A, "", "others");
    add_variant(&r.result, "lazy", 0, 1.0);
    add_variant(&r.result, "other", 0, 1.0);
    assert_int_equal(run_log(&r, &err), STK_INVALID);
    assert_non_null(strstr(err.message,
                           "PERF.md has the benchmarks lazy, stored; this run has lazy, other: use another "
                           "file with --log"));
    run_start(&r, HASH_A, "", "fewer");
    add_variant(&r.result, "lazy", 0, 1.0);
    assert_int_equal(run_log(&r, &err), STK_INVALID);
    assert_int_equal(row_count(), 1);
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
    size_t v;
    const double unknown = NAN;
    assert_int_equal(stk__result_add_variant(&r.result, "none", "none", 0, &v, NULL), STK_OK);
    assert_int_equal(stk__result_add_run(&r.result, v, &unknown, 0, NULL), STK_OK);
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
    put(page, "<!-- stoker bench log 2 -->\n");
    assert_refused(page, 1, "the mark is '<!-- stoker bench log 2 -->'");
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
        {true, "| lazy |", "|", true, 7, "9 cells, wanted 10"},
        {true, "|---|---|", "|---|-x-|", true, 8, "wanted a line of |---|"},
        {true, "|---|---|", "|---|", true, 8, "9 cells, wanted 10"},
        {true, "| one |", "| one | more |", true, 9, "11 cells, wanted 10"},
        {true, "| one |", "", true, 9, "does not end with '|'"},
        {true, "| faster |", "\\| faster |", true, 9, "9 cells, wanted 10"},
        {true, "| 2026-08-14 10:00 | 1111111", "2026-08-14 10:00 | 1111111", true, 9, "does not begin with '|'"},
        {true, "| 2026-08-14 10:00 |", "| 2026-08-15 10:00 |", true, 9, "line 2 of"},
        {true, "| 1111111 |", "| 1111112 |", true, 9, "the commit is '1111112'"},
        {true, "| 1111111 |", "| 1111111+ |", true, 9, "the commit is '1111111+'"},
        {true, "| 1111111 |", "|  |", true, 9, "the commit is ''"},
        {true, "| one |\n", "| one |\n\n", true, 10, "the table has 1 rows"},
        {true, "|---|---|", "\n|---|---|", true, 8, "does not begin with '|'"},
        {true, STK__LOG_MARK, STK__LOG_MARK "\ntext", true, 6, "no table below the mark"},
        {true, STK__LOG_MARK, "", true, 0, "written by something else"},
        {false, "time,commit", "time,revision", false, 1, "column 2 is 'revision', wanted 'commit'"},
        {false, ",lazy_sd", ",lazy_SD", false, 1, "behind column 8 ('lazy')"},
        {false, ",unit\n", ",units\n", false, 1, "column 22 is 'units'"},
        {false, ",unit\n", "\n", false, 1, "21 columns"},
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
        {false, ",1,0.0", ",,0.0", false, 2, "mean of 'lazy' is ''"},
        {false, ",1,0.0", ",1e999,0.0", false, 2, "mean of 'lazy' is '1e999'"},
        {false, ",1,0.0", ",nan,0.0", false, 2, "mean of 'lazy' is 'nan'"},
        {false, ",6,", ",0,", false, 2, "n of 'lazy' is '0'"},
        {false, ",6,", ",6.5,", false, 2, "n of 'lazy' is '6.5'"},
        {false, ",0.03125,", ",1.5,", false, 2, "p is '1.5'"},
        {false, ",faster,", ",best,", false, 2, "verdict is 'best'"},
        {false, ",1,faster", ",yes,faster", false, 2, "paired is 'yes'"},
        {false, ",one,", ",one,two,", false, 2, "mean of 'lazy' is 'two'"},
        {false, ",wall,s\n", ",wall,s,\n", false, 2, "more than 22 fields"},
        {false, ",wall,s\n", ",wall\n", false, 2, "fewer than 22 fields"},
        {false, ",wall,s\n", ",cpu,s\n", false, 3, "metric is 'wall'"},
        {false, ",wall,s\n", ",wall,s\n\n", false, 3, "fewer than 22 fields"},
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

static void rows_that_one_file_lacks_are_told(void **state)
{
    (void)state;
    log_one(HASH_A, "", 1.0, "one");
    char *page_one = slurp(page), *lines_one = slurp(lines);
    log_one(HASH_A, "", 1.0, "two");
    char *page_two = slurp(page);
    put(page, page_one);
    assert_refused(page, 9, "the table has 1 rows");
    put(page, page_two);
    put(lines, lines_one);
    assert_refused(page, 10, "row 2 of the table is not in");
    put(lines, "");
    assert_refused(page, 7, "here is a table, but");
    put(page, "");
    put(lines, lines_one);
    assert_refused(page, 0, "the file is empty or not there, but");
    stk__free(page_one);
    stk__free(lines_one);
    stk__free(page_two);
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

static void every_failed_allocation_leaves_the_log_as_it_was(void **state)
{
    (void)state;
    log_one(HASH_A, "", 1.0, "one");
    char *page_before = slurp(page), *lines_before = slurp(lines);
    stk_status status = STK_NOMEM;
    for (uint64_t n = 1; status != STK_OK; n++) {
        assert_true(n < 1000);
        run r;
        run_make(&r, HASH_B, HASH_A, 1.0, "two");
        stk__alloc_fail_at(n, false);
        status = stk__log_append(page, &r.entry, NULL);
        stk__alloc_fail_at(0, false);
        stk__result_clear(&r.result);
        if (status == STK_OK)
            break;
        assert_int_equal(status, STK_NOMEM);
        char *page_after = slurp(page), *lines_after = slurp(lines);
        assert_string_equal(page_before, page_after);
        assert_string_equal(lines_before, lines_after);
        stk__free(page_after);
        stk__free(lines_after);
    }
    stk__free(page_before);
    stk__free(lines_before);
    assert_int_equal(row_count(), 2);
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
        TEST(against_takes_the_second_of_each_group),
        TEST(text_around_the_table_stays),
        TEST(a_page_with_the_mark_alone_gets_its_table_there),
        TEST(an_empty_page_is_written_anew),
        TEST(a_missing_last_line_end_is_fine),
        TEST(carriage_returns_are_kept_and_written),
        TEST(a_table_that_was_lined_up_by_an_editor_is_fine),
        TEST(a_path_without_md_is_refused),
        TEST(a_missing_directory_is_an_error),
        TEST(other_benchmarks_are_refused),
        TEST(another_metric_is_refused),
        TEST(a_run_without_values_is_refused),
        TEST(a_page_of_something_else_is_refused),
        TEST(each_kind_of_damage_is_told),
        TEST(rows_that_one_file_lacks_are_told),
        TEST(a_page_that_cannot_be_written_leaves_the_lines_as_they_were),
        TEST(rows_of_processes_at_once_all_end_up_in_it),
        TEST(every_failed_allocation_leaves_the_log_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
