/* Rows for change logs, and what became of the files: for the tests of the log. */
#ifndef STK_TESTS_BENCH_LOGS_H
#define STK_TESTS_BENCH_LOGS_H

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "bench/log_impl.h"

#define HASH_A "1111111111111111111111111111111111111111"
#define HASH_B "2222222222222222222222222222222222222222"
#define MACHINE "Test CPU, 2 cores, 4.0 GiB, Linux 6.1"

enum { ROUNDS = 6 };

static char dir[64], page[128], lines[128];

static inline int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/stoker-test-log-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(page, sizeof page, "%s/PERF.md", dir);
    snprintf(lines, sizeof lines, "%s/PERF.csv", dir);
    return 0;
}

static inline int teardown(void **state)
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
    stk__log_figure figures[8];
    stk__log_pair pairs[4];
    char names[4][64];
    stk__commit commit;
    stk__log_entry entry;
} run;

/* A column of its own, without runs. */
static inline size_t add_column(run *r, const char *name)
{
    size_t v;
    assert_int_equal(stk__result_add_variant(&r->result, name, name, 0, &v, NULL), STK_OK);
    r->figures[r->entry.figure_count++] = (stk__log_figure){.name = name, .result = &r->result, .variant = v};
    return v;
}

static inline void add_values(run *r, size_t variant, const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(stk__result_add_run(&r->result, variant, &values[i], 0, NULL), STK_OK);
}

/* Times around `base`, with a spread of about 1 %. */
static inline size_t add_variant(run *r, const char *name, double base)
{
    const size_t v = add_column(r, name);
    for (int i = 0; i < ROUNDS; i++) {
        const double value = base * (1 + 0.01 * (i % 3 - 1));
        add_values(r, v, &value, 1);
    }
    return v;
}

static inline stk__comparison comparison(size_t a, size_t b, double ratio, stk__verdict verdict)
{
    return (stk__comparison){.a = a,
                             .b = b,
                             .valid = true,
                             .paired = true,
                             .pair = {.covered = true},
                             .ratio = ratio,
                             .low = ratio * 0.98,
                             .high = ratio * 1.02,
                             .p = 0.03125,
                             .p_holm = 0.03125,
                             .verdict = verdict};
}

/* b/a, which the run was about. */
static inline void compare(run *r, size_t a, size_t b, double ratio, stk__verdict verdict)
{
    const size_t i = r->entry.pair_count++;
    r->items[i] = comparison(a, b, ratio, verdict);
    snprintf(r->names[i], sizeof r->names[i], "%s/%s", r->figures[b].name, r->figures[a].name);
    r->pairs[i] = (stk__log_pair){r->names[i], &r->items[i]};
}

static inline void run_start(run *r, const char *hash, const char *parent, const char *description)
{
    memset(r, 0, sizeof *r);
    size_t metric;
    assert_int_equal(stk__result_add_metric(&r->result, "wall", "s", false, &metric, NULL), STK_OK);
    r->result.time_s = 1786701600; /* 2026-08-14 10:00 */
    r->result.machine = stk__strdup(MACHINE);
    snprintf(r->commit.hash, sizeof r->commit.hash, "%s", hash);
    snprintf(r->commit.brief, sizeof r->commit.brief, "%.7s", hash);
    snprintf(r->commit.parent, sizeof r->commit.parent, "%s", parent);
    snprintf(r->commit.subject, sizeof r->commit.subject, "the subject");
    r->entry =
        (stk__log_entry){.figures = r->figures, .pairs = r->pairs, .commit = &r->commit, .description = description};
}

/* lazy takes `lazy` seconds, stored 4 % less. */
static inline void run_make(run *r, const char *hash, const char *parent, double lazy, const char *description)
{
    run_start(r, hash, parent, description);
    add_variant(r, "lazy", lazy);
    add_variant(r, "stored", lazy * 0.96);
    compare(r, 0, 1, 0.96, STK__FASTER);
}

static inline stk_status run_log(run *r, stk_error *err)
{
    const stk_status status = stk__log_append(page, &r->entry, NULL, NULL, err);
    stk__result_clear(&r->result);
    return status;
}

static inline void log_one(const char *hash, const char *parent, double lazy, const char *description)
{
    run r;
    stk_error err = {0};
    run_make(&r, hash, parent, lazy, description);
    if (run_log(&r, &err) != STK_OK)
        fail_msg("%s: %s", err.file, err.message);
}

/* ---- files ---- */

static inline char *slurp(const char *path)
{
    char *data = NULL;
    size_t size = 0;
    assert_int_equal(stk__read_file(path, 1 << 24, &data, &size, NULL), STK_OK);
    return data;
}

static inline void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* Puts `to` in the place of the first `from`. */
static inline void edit(const char *path, const char *from, const char *to)
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

static inline void assert_holds(const char *path, const char *part)
{
    char *text = slurp(path);
    if (!strstr(text, part))
        fail_msg("no '%s' in: %s", part, text);
    stk__free(text);
}

static inline void assert_lacks(const char *path, const char *part)
{
    char *text = slurp(path);
    if (strstr(text, part))
        fail_msg("'%s' is in: %s", part, text);
    stk__free(text);
}

static inline size_t row_count(void)
{
    stk__log log = {0};
    stk_error err = {0};
    if (stk__log_read(page, &log, &err) != STK_OK)
        fail_msg("%s: line %d: %s", err.file, err.line, err.message);
    const size_t n = log.row_count;
    stk__log_clear(&log);
    return n;
}

static inline int entries(void)
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
static inline void assert_refused(const char *file, int line, const char *words)
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

#endif
