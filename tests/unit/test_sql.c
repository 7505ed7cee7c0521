/*
 * SQL over a small trace: what tables hold, that every way through the rows gives the same rows, and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "analyze/sql.h"
#include "base/mem.h"
#include "base/rng.h"
#include "trace/builder.h"

#include "base/banned.h"

typedef struct fixture {
    stk__trace *trace;
    sqlite3 *db;
} fixture;

enum { MANY = 6000 };

static stk__builder *builder_new(void)
{
    stk__builder *b = NULL;
    assert_int_equal(stk__builder_new(&(stk__trace_options){0}, &b, NULL), STK_OK);
    return b;
}

static fixture *finish(stk__builder *b)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_int_equal(stk__builder_finish(b, &f->trace, NULL), STK_OK);
    assert_int_equal(stk__sql_open(f->trace, &f->db, NULL), STK_OK);
    return f;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    if (f) {
        assert_int_equal(sqlite3_close(f->db), SQLITE_OK);
        stk__trace_free(f->trace);
        free(f);
    }
    return 0;
}

static void name_thread(stk__builder *b, uint32_t thread, const char *name)
{
    stk__builder_thread_at(b, thread)->name = stk__builder_str(b, name);
}

/* Two processes, three threads, a counter, a flow, args; names with quotes, NUL and none at all. */
static int set_up_small(void **state)
{
    stk__builder *b = builder_new();
    stk__builder_start_file(b, "a.json", "chrome");
    const uint32_t python = stk__builder_process(b, 10, 0),
                   gpu = stk__builder_process(b, 0, stk__builder_str(b, "GPU"));
    stk__builder_process_at(b, python)->name = stk__builder_str(b, "python");
    const uint32_t main_thread = stk__builder_thread(b, python, 10, 0), worker = stk__builder_thread(b, python, 11, 0);
    const uint32_t stream = stk__builder_thread(b, gpu, 7, 0);
    name_thread(b, main_thread, "main");
    name_thread(b, stream, "stream 7");
    const uint32_t on_main = stk__builder_thread_track(b, main_thread),
                   on_worker = stk__builder_thread_track(b, worker);
    const uint32_t on_stream = stk__builder_thread_track(b, stream);
    const stk__string op = stk__builder_str(b, "op"), cpu = stk__builder_str(b, "cpu"),
                      kernel = stk__builder_str(b, "kernel");
    stk__builder_arg_int(b, stk__builder_str(b, "bytes"), 42);
    stk__builder_arg_string(b, stk__builder_str(b, "device"), stk__builder_str(b, "cuda:0"));
    stk__builder_arg_double(b, stk__builder_str(b, "ratio"), 0.5);
    stk__builder_arg_bool(b, stk__builder_str(b, "ok"), true);
    stk__builder_slice(b, on_main, 100, 50, op, cpu, -1);
    stk__builder_slice(b, on_main, 110, 20, stk__builder_str(b, "inner"), cpu, -1);
    stk__builder_slice(b, on_main, 200, 10, op, cpu, -1);
    stk__builder_slice(b, on_worker, 90, 5, stk__builder_string(b, "a\0b", 3), 0, -1);
    stk__builder_slice(b, on_worker, 120, 7, 0, 0, -1);
    stk__builder_slice(b, on_stream, 130, 40, stk__builder_str(b, "it's"), kernel, -1);
    stk__builder_instant(b, on_main, 150, stk__builder_str(b, "mark"), 0);
    const stk__string flow = stk__builder_str(b, "launch"), id = stk__builder_str(b, "0x1");
    stk__builder_flow(b, on_main, 115, STK__FLOW_START | STK__FLOW_ENCLOSING, flow, cpu, id);
    stk__builder_flow(b, on_stream, 130, STK__FLOW_END | STK__FLOW_ENCLOSING, flow, cpu, id);
    const uint32_t memory = stk__builder_counter_track(b, python, STK__NONE, stk__builder_str(b, "memory"));
    stk__builder_counter(b, memory, 100, 1.5);
    stk__builder_counter(b, memory, 200, 2.5);
    stk__builder_note(b, STK__REASON_SYNTAX, 17);
    *state = finish(b);
    return 0;
}

/* Thousands of slices on several threads, with few and with many different names. */
static int set_up_many(void **state)
{
    stk__builder *b = builder_new();
    uint64_t seed = 1;
    for (int file = 0; file < 2; file++) {
        stk__builder_start_file(b, file ? "b.json" : "a.json", "chrome");
        for (int i = 0; i < MANY; i++) {
            seed = seed * 6364136223846793005U + 1442695040888963407U;
            const uint32_t r = (uint32_t)(seed >> 33);
            const uint32_t process = stk__builder_process(b, 1 + r % 3, 0);
            const uint32_t thread = stk__builder_thread(b, process, 100 + r / 3 % 4, 0);
            char name[32];
            snprintf(name, sizeof name, "n%u", r / 12 % 5 ? r / 60 % 13 : r / 60 % 4000);
            if (r / 12 % 4 == 0)
                name_thread(b, thread, r / 12 % 8 == 0 ? "reader" : "worker");
            if (r % 5 == 0)
                stk__builder_arg_int(b, stk__builder_str(b, "i"), i);
            stk__builder_slice(b, stk__builder_thread_track(b, thread), (int64_t)(r % 100000),
                               (int64_t)(r / 100000 % 50), r % 97 ? stk__builder_str(b, name) : 0,
                               r % 3 ? stk__builder_str(b, r % 3 == 1 ? "x" : "y") : 0, -1);
        }
    }
    *state = finish(b);
    return 0;
}

/* All rows as text: columns by '|', rows by newline. The caller frees it. */
static char *rows_left(sqlite3_stmt *statement, const char *query)
{
    stk__text text = STK__TEXT_INIT;
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(statement); i++) {
            const char *value = (const char *)sqlite3_column_text(statement, i);
            stk__text_puts(&text, i ? "|" : "");
            stk__text_puts(&text, value ? value : "NULL");
        }
        stk__text_putc(&text, '\n');
    }
    if (code != SQLITE_DONE)
        fail_msg("%s: %s", query, sqlite3_errmsg(sqlite3_db_handle(statement)));
    sqlite3_finalize(statement);
    stk__text_putc(&text, ' ');
    assert_false(text.failed);
    text.data[text.length - 1] = 0;
    return text.data;
}

static char *rows_of(sqlite3 *db, const char *query)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db, query, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", query, sqlite3_errmsg(db));
    return rows_left(statement, query);
}

static void expect(const fixture *f, const char *query, const char *wanted)
{
    char *found = rows_of(f->db, query);
    if (strcmp(found, wanted) != 0)
        fail_msg("%s\nfound:\n%s\nwanted:\n%s", query, found, wanted);
    stk__free(found);
}

/* Both queries must give the same rows. */
static void expect_same(const fixture *f, const char *one, const char *other)
{
    char *wanted = rows_of(f->db, other);
    assert_true(strlen(wanted) > 0);
    expect(f, one, wanted);
    stk__free(wanted);
}

static void expect_refused(const fixture *f, const char *query, const char *message)
{
    char *error = NULL;
    assert_int_not_equal(sqlite3_exec(f->db, query, NULL, NULL, &error), SQLITE_OK);
    if (!error || !strstr(error, message))
        fail_msg("%s: found '%s', wanted '%s'", query, error ? error : "", message);
    sqlite3_free(error);
}

/* ---- what is in the tables ---- */

static void sql_slice_shows_columns_of_thread_and_process(void **state)
{
    expect(*state,
           "SELECT ts, dur, name, category, depth, tid, pid, thread_name, process_name FROM slice "
           "WHERE utid = 0 ORDER BY ts",
           "100|50|op|cpu|0|10|10|main|python\n110|20|inner|cpu|1|10|10|main|python\n"
           "150|0|mark|NULL|0|10|10|main|python\n200|10|op|cpu|0|10|10|main|python\n");
    expect(*state, "SELECT pid, tid, thread_name FROM slice WHERE name = 'it''s'", "NULL|7|stream 7\n");
    expect(*state, "SELECT name, is_instant FROM slice WHERE is_instant", "mark|1\n");
    expect(*state, "SELECT a.name, b.name FROM slice a JOIN slice b ON b.parent_id = a.id", "op|inner\n");
}

static void sql_slice_without_name_is_null(void **state)
{
    expect(*state, "SELECT count(*), sum(dur) FROM slice WHERE name IS NULL", "1|7\n");
    expect(*state, "SELECT count(*) FROM slice WHERE name = ''", "0\n");
}

static void sql_names_with_nul_keep_their_size(void **state)
{
    expect(*state, "SELECT length(CAST(name AS BLOB)), hex(name) FROM slice WHERE ts = 90", "3|610062\n");
    expect(*state, "SELECT count(*) FROM slice WHERE name = CAST(x'610062' AS TEXT)", "1\n");
    expect(*state, "SELECT count(*) FROM slice WHERE name = 'a'", "0\n");
}

static void sql_thread_process_and_track_hold_the_model(void **state)
{
    expect(*state, "SELECT utid, tid, name, upid, is_main_thread FROM thread",
           "0|10|main|0|1\n1|11|NULL|0|0\n2|7|stream 7|1|NULL\n");
    expect(*state, "SELECT upid, pid, name, pid_text FROM process", "0|10|python|NULL\n1|NULL|NULL|GPU\n");
    expect(*state, "SELECT count(*), sum(type = 'thread_track') FROM track", "4|3\n");
    expect(*state, "SELECT utid FROM thread_track ORDER BY utid", "0\n1\n2\n");
    expect(*state, "SELECT name FROM counter_track", "memory\n");
}

static void sql_counter_flow_args_and_notes_hold_the_model(void **state)
{
    expect(*state, "SELECT ts, value, name FROM counter", "100|1.5|memory\n200|2.5|memory\n");
    expect(*state,
           "SELECT a.name, b.name, flow.name, flow.category FROM flow "
           "JOIN slice a ON a.id = slice_out JOIN slice b ON b.id = slice_in",
           "inner|it's|launch|cpu\n");
    expect(*state, "SELECT key, int_value, string_value, real_value, value_type FROM args ORDER BY key",
           "bytes|42|NULL|NULL|int\ndevice|NULL|cuda:0|NULL|string\nok|1|NULL|NULL|bool\nratio|NULL|NULL|0.5|real\n");
    expect(*state, "SELECT key FROM slice JOIN args USING (arg_set_id) WHERE ts = 100 AND key LIKE 'd%'", "device\n");
    expect(*state, "SELECT file_id, count, \"offset\", lost FROM note", "0|1|17|1\n");
    expect(*state, "SELECT path, format FROM file", "a.json|chrome\n");
}

static void sql_extract_arg_takes_keys_with_and_without_prefix(void **state)
{
    expect(*state,
           "SELECT extract_arg(arg_set_id, 'bytes'), extract_arg(arg_set_id, 'args.device'), "
           "extract_arg(arg_set_id, 'debug.ratio'), extract_arg(arg_set_id, 'nothing') FROM slice WHERE ts = 100",
           "42|cuda:0|0.5|NULL\n");
    expect(*state,
           "SELECT extract_arg(NULL, 'bytes'), extract_arg(-1, 'bytes'), extract_arg(9e18, 'x'), extract_arg(1, NULL)",
           "NULL|NULL|NULL|NULL\n");
    /* a key that is a constant is looked for by number from the second row on */
    expect(*state, "SELECT count(extract_arg(arg_set_id, 'bytes')) FROM slice, (SELECT 1 UNION ALL SELECT 2)", "2\n");
}

static void sql_regexp_matches_extended_expressions(void **state)
{
    expect(*state, "SELECT name FROM slice WHERE name REGEXP '^in+er$'", "inner\n");
    expect_refused(*state, "SELECT 'a' REGEXP '('", "");
}

/* ---- every way through the rows ---- */

/* unary + keeps a term from the table, so the right side is always a plain read of all rows. */
static void sql_terms_give_the_rows_that_a_scan_gives(void **state)
{
    static const char *const terms[][2] = {
        {"id = 17", "+id = 17"},
        {"id BETWEEN 100 AND 120", "+id BETWEEN 100 AND 120"},
        {"id < 5.5", "+id < 5.5"},
        {"id > 11990", "+id > 11990"},
        {"track_id = 3", "+track_id = 3"},
        {"track_id = '3'", "+track_id = 3"},
        {"track_id = 3.0", "+track_id = 3"},
        {"track_id IN (1, 4, 99)", "+track_id IN (1, 4, 99)"},
        {"track_id = 2 AND ts >= 5000 AND ts < 50000", "+track_id = 2 AND +ts >= 5000 AND +ts < 50000"},
        {"ts BETWEEN 40000 AND 41000", "+ts BETWEEN 40000 AND 41000"},
        {"ts > 99000.5", "+ts > 99000.5"},
        {"ts < 'text'", "+ts < 100001"},
        {"name = 'n3'", "+name = 'n3'"},
        {"name = 'n3' AND track_id = 5", "+name = 'n3' AND +track_id = 5"},
        {"name IN ('n1', 'n2', 'none')", "+name IN ('n1', 'n2', 'none')"},
        {"name LIKE 'N1%'", "+name LIKE 'N1%'"},
        {"name GLOB 'n1*'", "+name GLOB 'n1*'"},
        {"name = 'N3' COLLATE NOCASE", "+name = 'n3'"},
        {"category = 'x'", "+category = 'x'"},
        {"cat = 'y' AND name LIKE '%2'", "+cat = 'y' AND +name LIKE '%2'"},
        {"parent_id = (SELECT parent_id FROM slice WHERE parent_id IS NOT NULL LIMIT 1)",
         "+parent_id = (SELECT parent_id FROM slice WHERE parent_id IS NOT NULL LIMIT 1)"},
        {"arg_set_id = (SELECT max(arg_set_id) FROM slice)", "+arg_set_id = (SELECT max(arg_set_id) FROM slice)"},
        {"arg_set_id IN (SELECT arg_set_id FROM args WHERE int_value % 100 = 7)",
         "+arg_set_id IN (SELECT arg_set_id FROM args WHERE int_value % 100 = 7)"},
    };
    for (int round = 0; round < 3; round++) { /* later rounds find orders and indexes */
        for (size_t i = 0; i < STK_COUNT(terms); i++) {
            char one[512], other[512];
            snprintf(one, sizeof one, "SELECT * FROM slice WHERE %s ORDER BY +id", terms[i][0]);
            snprintf(other, sizeof other, "SELECT * FROM slice WHERE %s ORDER BY +id", terms[i][1]);
            expect_same(*state, one, other);
        }
    }
}

static void sql_terms_that_nothing_fulfils_give_no_rows(void **state)
{
    static const char *const terms[] = {
        "id = -1",
        "id = 1e300",
        "id = 'x'",
        "id = NULL",
        "track_id = -1",
        "track_id = 4294967295",
        "track_id = 1.5",
        "name = 'none'",
        "name = NULL",
        "name = x'6e33'",
        "name IN (NULL)",
        "name LIKE NULL",
        "parent_id = -5",
        "arg_set_id = 0",
        "arg_set_id = 123456789",
        "category = 'none'",
        "ts > 9223372036854775807",
        "ts < -1e300",
        "id > 1e19",
        "id BETWEEN 10 AND 9",
    };
    for (size_t i = 0; i < STK_COUNT(terms); i++) {
        char query[256];
        snprintf(query, sizeof query, "SELECT count(*) FROM slice WHERE %s", terms[i]);
        expect(*state, query, "0\n");
    }
}

/* `+` hides the column, so the right side is sorted by SQLite. */
static void sql_orders_of_the_table_are_those_of_sqlite(void **state)
{
    static const char *const orders[][2] = {
        {"name, id", "+name, +id"},
        {"name DESC, id DESC", "+name DESC, +id DESC"},
        {"category, name, id", "+category, +name, +id"},
        {"thread_name, name, id", "+thread_name, +name, +id"},
        {"name DESC, thread_name, id DESC", "+name DESC, +thread_name, +id DESC"},
        {"name, tid DESC, id", "+name, +tid DESC, +id"},
        {"process_name, pid, tid, name, id", "+process_name, +pid, +tid, +name, +id"},
        {"ts, id", "+ts, +id"},
        {"ts DESC, id DESC", "+ts DESC, +id DESC"},
        {"upid, ts, id", "+upid, +ts, +id"},
        {"upid, ts DESC, id", "+upid, +ts DESC, +id"},
        {"track_id, ts, id", "+track_id, +ts, +id"},
        {"track_id DESC, id DESC", "+track_id DESC, +id DESC"},
        {"file_id, utid, name, id", "+file_id, +utid, +name, +id"},
        {"id DESC", "+id DESC"},
        {"cat, id", "+cat, +id"},
    };
    for (size_t i = 0; i < STK_COUNT(orders); i++) {
        char one[256], other[256];
        snprintf(one, sizeof one, "SELECT * FROM slice ORDER BY %s", orders[i][0]);
        snprintf(other, sizeof other, "SELECT * FROM slice ORDER BY %s", orders[i][1]);
        expect_same(*state, one, other);
        snprintf(one, sizeof one, "SELECT name, dur FROM slice WHERE ts > 500 AND name LIKE 'n%%' ORDER BY %s",
                 orders[i][0]);
        snprintf(other, sizeof other, "SELECT name, dur FROM slice WHERE +ts > 500 AND +name LIKE 'n%%' ORDER BY %s",
                 orders[i][1]);
        expect_same(*state, one, other);
    }
}

static void sql_groups_of_the_table_are_those_of_sqlite(void **state)
{
    static const char *const keys[] = {
        "name",     "category",     "track_id", "tid",        "thread_name, name", "name, category",
        "pid, tid", "process_name", "file_id",  "name, upid", "upid, utid, name",  "cat",
    };
    static const char *const wheres[] = {"",
                                         "WHERE ts > 50000",
                                         "WHERE name LIKE '%1%'",
                                         "WHERE track_id = 4",
                                         "WHERE category = 'x'",
                                         "WHERE name IN ('n1', 'n4')"};
    for (size_t i = 0; i < STK_COUNT(keys); i++) {
        for (size_t j = 0; j < STK_COUNT(wheres); j++) {
            char one[512], other[512];
            snprintf(one, sizeof one,
                     "SELECT %s, count(*), sum(dur), min(ts), max(dur), count(parent_id) FROM slice %s GROUP BY %s",
                     keys[i], wheres[j], keys[i]);
            /* a copy of the table is grouped by SQLite alone */
            snprintf(other, sizeof other,
                     "SELECT %s, count(*), sum(dur), min(ts), max(dur), count(parent_id) FROM copy %s GROUP BY %s",
                     keys[i], wheres[j], keys[i]);
            assert_int_equal(sqlite3_exec(((fixture *)*state)->db,
                                          "CREATE TEMP TABLE IF NOT EXISTS copy AS SELECT *, cat FROM slice", NULL,
                                          NULL, NULL),
                             SQLITE_OK);
            expect_same(*state, one, other);
        }
    }
}

static void sql_distinct_skips_equal_rows(void **state)
{
    expect_same(*state, "SELECT DISTINCT name FROM slice ORDER BY name", "SELECT DISTINCT +name FROM slice ORDER BY 1");
    expect_same(*state, "SELECT DISTINCT name, tid FROM slice ORDER BY name DESC, tid DESC",
                "SELECT DISTINCT +name, +tid FROM slice ORDER BY 1 DESC, 2 DESC");
    expect_same(*state, "SELECT count(*) FROM (SELECT DISTINCT category FROM slice WHERE dur > 10)",
                "SELECT count(*) FROM (SELECT DISTINCT +category FROM slice WHERE +dur > 10)");
}

static void sql_group_by_name_needs_no_sorter(void **state)
{
    static const char *const queries[] = {
        "SELECT name, sum(dur), avg(dur), min(dur), max(dur) FROM slice GROUP BY name",
        "SELECT name, sum(dur), avg(dur), min(dur), max(dur) FROM slice GROUP BY name ORDER BY name",
        "SELECT category, count(*) FROM slice GROUP BY category",
        "SELECT track_id, sum(dur) FROM slice GROUP BY track_id",
        "SELECT thread_name, name, sum(dur) FROM slice GROUP BY thread_name, name",
        "SELECT name, lag(ts) OVER (PARTITION BY track_id ORDER BY ts) FROM slice",
        "SELECT * FROM slice ORDER BY id",
    };
    for (size_t i = 0; i < STK_COUNT(queries); i++) {
        char explain[512];
        snprintf(explain, sizeof explain, "EXPLAIN QUERY PLAN %s", queries[i]);
        char *plan = rows_of(((fixture *)*state)->db, explain);
        if (strstr(plan, "B-TREE"))
            fail_msg("%s: %s", queries[i], plan);
        stk__free(plan);
    }
}

static void sql_tables_find_rows_by_reference(void **state)
{
    expect_same(*state, "SELECT count(*), sum(int_value) FROM slice JOIN args USING (arg_set_id)",
                "SELECT count(*), sum(int_value) FROM args");
    expect_same(*state,
                "SELECT count(*) FROM args JOIN slice ON slice.arg_set_id = args.arg_set_id WHERE int_value > 5000",
                "SELECT count(*) FROM args WHERE int_value > 5000");
    expect_same(*state, "SELECT arg_set_id, id FROM args ORDER BY id DESC",
                "SELECT arg_set_id, id FROM args ORDER BY +id DESC");
    expect_same(*state, "SELECT id FROM args WHERE id BETWEEN 5 AND 9",
                "SELECT id FROM args WHERE +id BETWEEN 5 AND 9");
    expect_same(
        *state,
        "SELECT a.id, b.id FROM slice a JOIN slice b ON a.name = b.name WHERE a.id < 40 AND b.id < 400 ORDER BY 1, 2",
        "SELECT a.id, b.id FROM slice a JOIN slice b ON +a.name = +b.name "
        "WHERE +a.id < 40 AND +b.id < 400 ORDER BY 1, 2");
}

/* ---- totals per group, read group by group ---- */

static void sql_totals_are_those_of_single_rows(void **state)
{
    const fixture *f = *state;
    static const char *const queries[] = {
        "SELECT name, sum(dur), avg(dur), min(dur), max(dur) FROM slice GROUP BY name",
        "SELECT name, sum(dur), avg(dur), min(dur), max(dur) FROM slice GROUP BY name ORDER BY 2 DESC, name LIMIT 20",
        "select NAME, Count(*) from SLICE group by NAME order by name desc;",
        "SELECT name FROM slice GROUP BY name",
        "SELECT count(*), thread_name, name, total(dur), count(dur) FROM slice GROUP BY thread_name, name",
        "SELECT tid, pid, round(sum(dur) / 1e3, 1) AS ms FROM slice GROUP BY pid, tid "
        "ORDER BY ms DESC, tid, pid LIMIT 3 OFFSET 2",
        "SELECT category, (max(dur) - min(dur)) * 2 AS dur FROM slice GROUP BY category ORDER BY dur, category",
        "SELECT cat, sum(dur) / count(*) FROM slice GROUP BY cat",
        "SELECT track_id, utid, sum(dur) FROM slice GROUP BY track_id, utid",
        "SELECT file_id, upid, process_name, max(dur) FROM slice GROUP BY file_id, upid, process_name",
        "SELECT sum(dur) FROM slice GROUP BY tid, tid",
        "SELECT name, sum(dur) AS name FROM slice GROUP BY name ORDER BY name, 1",
    };
    for (size_t i = 0; i < STK_COUNT(queries); i++) {
        sqlite3_stmt *statement = NULL;
        assert_int_equal(stk__sql_prepare(f->db, queries[i], &statement, NULL), SQLITE_OK);
        if (sqlite3_db_handle(statement) == f->db)
            fail_msg("%s: not seen as totals", queries[i]);
        char *found = rows_left(statement, queries[i]);
        expect(f, queries[i], found);
        assert_true(strlen(found) > 0);
        stk__free(found);
    }
}

/* Everything that could read dur, or another column, of a single row. */
static void sql_totals_leave_other_statements_alone(void **state)
{
    const fixture *f = *state;
    static const char *const queries[] = {
        "SELECT name, sum(DISTINCT dur) FROM slice GROUP BY name",
        "SELECT name, dur, max(dur) FROM slice GROUP BY name",
        "SELECT name, ts, min(dur) FROM slice GROUP BY name",
        "SELECT name, tid, sum(dur) FROM slice GROUP BY name",
        "SELECT name, sum(dur + 1) FROM slice GROUP BY name",
        "SELECT name, sum(ts) FROM slice GROUP BY name",
        "SELECT name, sum(dur) FROM slice WHERE dur > 3 GROUP BY name",
        "SELECT name, sum(dur) FILTER (WHERE ts > 9) FROM slice GROUP BY name",
        "SELECT name, sum(dur) FROM slice GROUP BY name HAVING sum(dur) > 9",
        "SELECT name, sum(dur) OVER () FROM slice GROUP BY name",
        "SELECT name, group_concat(dur) FROM slice GROUP BY name",
        "SELECT name, max(dur, 5) FROM slice GROUP BY name",
        "SELECT name, sum(dur) FROM slice GROUP BY dur",
        "SELECT name, sum(dur) FROM slice GROUP BY name, ts",
        "SELECT name, sum(dur) FROM slice",
        "SELECT name, sum(dur) FROM slice s GROUP BY name",
        "SELECT name, sum(dur) AS dur FROM slice GROUP BY name ORDER BY dur + 1, name",
        "SELECT name, sum(dur) FROM slice GROUP BY name ORDER BY ts",
        "SELECT name, sum(dur) FROM slice, step GROUP BY name",
        "SELECT DISTINCT name, sum(dur) FROM slice GROUP BY name",
        "SELECT name, sum(dur) FROM slice GROUP BY name UNION ALL SELECT 1, 2",
        "SELECT name, sum(dur) FROM slice GROUP BY name COLLATE NOCASE",
        "SELECT name, sum(dur) /* dur */ FROM slice GROUP BY name",
        "SELECT \"name\", sum(dur) FROM slice GROUP BY name",
        "SELECT name, random(), sum(dur) FROM slice GROUP BY name LIMIT 0",
        "SELECT *, sum(dur) FROM slice GROUP BY name",
        "SELECT name, sum(dur) FROM slice GROUP BY 1",
    };
    for (size_t i = 0; i < STK_COUNT(queries); i++) {
        sqlite3_stmt *statement = NULL, *plain = NULL;
        const int code = stk__sql_prepare(f->db, queries[i], &statement, NULL);
        if (code == SQLITE_OK && sqlite3_db_handle(statement) != f->db)
            fail_msg("%s: seen as totals", queries[i]);
        assert_int_equal(code, sqlite3_prepare_v2(f->db, queries[i], -1, &plain, NULL));
        sqlite3_finalize(statement);
        sqlite3_finalize(plain);
    }
}

static void sql_totals_give_way_to_a_table_of_the_user(void **state)
{
    const fixture *f = *state;
    sqlite3_stmt *statement = NULL;
    assert_int_equal(
        sqlite3_exec(f->db, "CREATE TEMP TABLE slice AS SELECT 'mine' AS name, 5 AS dur", NULL, NULL, NULL), SQLITE_OK);
    const char *query = "SELECT name, sum(dur) FROM slice GROUP BY name";
    assert_int_equal(stk__sql_prepare(f->db, query, &statement, NULL), SQLITE_OK);
    char *found = rows_left(statement, query);
    assert_string_equal(found, "mine|5\n");
    stk__free(found);
}

/* A sum past 64 bits is an error in SQL. */
static void sql_totals_overflow_as_sums_do(void **state)
{
    stk__builder *b = builder_new();
    stk__builder_start_file(b, "a.json", "chrome");
    for (int i = 0; i < 3; i++)
        stk__builder_slice(b, stk__builder_thread_track(b, stk__builder_thread(b, stk__builder_process(b, 1, 0), i, 0)),
                           0, INT64_MAX - 5, stk__builder_str(b, "long"), 0, -1);
    fixture *f = finish(b);
    *state = f;
    sqlite3_stmt *statement = NULL;
    assert_int_equal(stk__sql_prepare(f->db, "SELECT sum(dur) FROM slice GROUP BY name", &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ERROR);
    assert_non_null(strstr(sqlite3_errmsg(sqlite3_db_handle(statement)), "integer overflow"));
    sqlite3_finalize(statement);
    assert_int_equal(stk__sql_prepare(f->db, "SELECT count(*), avg(dur) FROM slice GROUP BY name", &statement, NULL),
                     SQLITE_OK);
    char *found = rows_left(statement, "avg");
    expect(f, "SELECT count(*), avg(dur) FROM slice GROUP BY name", found);
    stk__free(found);
}

/* ---- functions ---- */

static void sql_functions_answer(void **state)
{
    expect_same(
        *state, "SELECT name, count, round(mean_ns * count), min_ns, max_ns FROM top() WHERE name <> '' ORDER BY name",
        "SELECT name, count(*), round(sum(dur)), min(dur), max(dur) FROM slice WHERE +name IS NOT NULL GROUP BY +name");
    /* In total, a slice inside one of its name counts once, also where it lies on a lane of that one's track. */
    expect_same(
        *state, "SELECT name, total_ns FROM top() WHERE name <> '' ORDER BY name",
        "WITH RECURSIVE up(id, name, at) AS (SELECT id, name, parent_id FROM slice WHERE name IS NOT NULL UNION ALL "
        "SELECT up.id, up.name, s.parent_id FROM up JOIN slice s ON s.id = up.at), "
        "inner_ones AS (SELECT up.id FROM up JOIN slice a ON a.id = up.at WHERE a.name = up.name UNION "
        "SELECT x.id FROM slice x JOIN track k ON k.id = x.track_id AND k.lane > 0 JOIN slice y ON "
        "y.track_id = k.parent_id AND y.name = x.name AND y.category IS x.category AND y.ts <= x.ts AND "
        "x.ts < y.ts + y.dur AND x.ts + x.dur <= y.ts + y.dur) "
        "SELECT name, sum(CASE WHEN id IN (SELECT id FROM inner_ones) THEN 0 ELSE dur END) FROM slice "
        "WHERE +name IS NOT NULL GROUP BY +name");
    expect_same(*state, "SELECT sum(count) FROM top('n1*')", "SELECT count(*) FROM slice WHERE +name GLOB 'n1*'");
    expect_same(*state, "SELECT sum(count) FROM top(NULL, 'thread')", "SELECT count(*) FROM slice");
    expect(*state, "SELECT count(*) > 0, min(dur) >= 2 FROM gaps(2)", "1|1\n");
    expect_same(*state, "SELECT sum(self) FROM stacks()", "SELECT sum(self_ns) FROM top()");
    expect_same(*state, "SELECT both_ns = a_ns FROM overlap('n1', 'n1')", "SELECT 1");
    expect_same(*state, "SELECT count(*) + 1 FROM steps()", "SELECT count(*) + 1 FROM step");
    expect_same(*state, "SELECT s.id, count(a.id), max(a.depth) FROM slice s JOIN ancestor_slice(s.id) a GROUP BY s.id",
                "SELECT id, depth, depth - 1 FROM slice WHERE depth > 0 ORDER BY id");
    expect_same(*state, "SELECT s.id, d.id FROM slice s JOIN descendant_slice(s.id) d ORDER BY 1, 2",
                "SELECT a.id, s.id FROM slice s JOIN ancestor_slice(s.id) a ORDER BY 1, 2");
    expect(*state, "SELECT count(*) FROM ancestor_slice(-1), descendant_slice(NULL)", "0\n");
    expect_same(*state, "SELECT trace_start(), trace_end(), trace_dur()",
                "SELECT min(ts), max(ts + dur), max(ts + dur) - min(ts) FROM slice");
}

static void sql_functions_say_what_is_wrong(void **state)
{
    expect_refused(*state, "SELECT * FROM overlap('a')", "overlap: found 1 arguments, wanted 2");
    expect_refused(*state, "SELECT * FROM ancestor_slice", "ancestor_slice: found 0 arguments, wanted 1");
    expect_refused(*state, "SELECT * FROM overlap('a', NULL)", "overlap: a pattern is NULL");
    expect_refused(*state, "SELECT * FROM top('*', 'colour')", "grouping is 'colour', wanted name, thread");
    expect_refused(*state, "SELECT * FROM gaps('soon')", "min_ns is 'soon', wanted a whole number");
}

static void sql_examples_run(void **state)
{
    for (size_t i = 0; stk__sql_examples[i].query; i++)
        stk__free(rows_of(((fixture *)*state)->db, stk__sql_examples[i].query));
}

static void sql_catalog_lists_what_there_is(void **state)
{
    const fixture *f = *state;
    for (size_t i = 0; stk__sql_tables[i].name; i++) {
        char query[128];
        snprintf(query, sizeof query, "SELECT count(*) FROM pragma_table_xinfo('%s')", stk__sql_tables[i].name);
        char *columns = rows_of(f->db, query);
        assert_true(atoll(columns) > 0);
        stk__free(columns);
        const char *usage = stk__sql_tables[i].usage;
        if (!usage || strchr("[)", strchr(usage, '(')[1])) { /* no argument must be given */
            snprintf(query, sizeof query, "SELECT * FROM %s", stk__sql_tables[i].name);
            stk__free(rows_of(f->db, query));
        }
    }
}

/* ---- what is refused ---- */

static void sql_cannot_touch_files(void **state)
{
    char path[] = "/tmp/stoker-sql-XXXXXX";
    assert_non_null(mkdtemp(path));
    char file[64], query[256];
    snprintf(file, sizeof file, "%s/x.db", path);
    static const char *const attempts[] = {"ATTACH '%s' AS x", "VACUUM INTO '%s'", "PRAGMA temp_store_directory = '%s'",
                                           "SELECT load_extension('%s')",
                                           "CREATE VIRTUAL TABLE v USING fts5(a, content='%s')"};
    for (size_t i = 0; i < STK_COUNT(attempts); i++) {
        sqlite3_snprintf(sizeof query, query, attempts[i], file);
        expect_refused(*state, query, "");
        assert_int_not_equal(access(file, F_OK), 0);
    }
    assert_int_equal(rmdir(path), 0);
    expect_refused(*state, "DELETE FROM slice", "");
    expect_refused(*state, "UPDATE slice SET dur = 0", "");
    expect_refused(*state, "PRAGMA writable_schema = 1", "not authorized");
    expect_refused(*state, "SELECT fts3_tokenizer('simple')", "");
}

static void sql_allows_views_and_tables_in_memory(void **state)
{
    fixture *f = *state;
    assert_int_equal(sqlite3_exec(f->db,
                                  "CREATE VIEW v AS SELECT name FROM slice; CREATE TEMP TABLE t AS SELECT * FROM slice;"
                                  "CREATE TABLE u(a); INSERT INTO u SELECT dur FROM slice",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    expect_same(f, "SELECT count(*) FROM v", "SELECT count(*) FROM u");
}

/* Whatever allocation fails, nothing leaks and nothing crashes. */
static void sql_survives_failing_allocations(void **state)
{
    fixture *f = *state;
    static const char *const queries[] = {
        "SELECT name, sum(dur), count(parent_id) FROM slice GROUP BY name ORDER BY 2 DESC",
        "SELECT upid, name, count(*) FROM slice GROUP BY upid, name",
        "SELECT count(*) FROM slice WHERE name LIKE 'n1%'",
        "SELECT id FROM slice ORDER BY ts LIMIT 3",
        "SELECT extract_arg(arg_set_id, 'i') FROM slice",
        "SELECT count(*) FROM args JOIN slice ON slice.arg_set_id = args.arg_set_id",
    };
    for (size_t q = 0; q < STK_COUNT(queries); q++) {
        int code = SQLITE_ERROR;
        uint64_t n = 0, made;
        do {
            sqlite3 *db = NULL;
            sqlite3_stmt *statement = NULL;
            const uint64_t before = stk__alloc_count();
            stk__alloc_fail_at(++n, false);
            if (stk__sql_open(f->trace, &db, NULL) == STK_OK) {
                code = stk__sql_prepare(db, queries[q], &statement, NULL);
                while (code == SQLITE_OK || code == SQLITE_ROW)
                    code = sqlite3_step(statement);
                sqlite3_finalize(statement);
            }
            stk__alloc_fail_at(0, false);
            sqlite3_close(db);
            made = stk__alloc_count() - before;
        } while (made >= n);
        assert_int_equal(code, SQLITE_DONE); /* the last round had no failure */
    }
}

int main(void)
{
#define SMALL(test) cmocka_unit_test_setup_teardown(test, set_up_small, tear_down)
#define LARGE(test) cmocka_unit_test_setup_teardown(test, set_up_many, tear_down)
    const struct CMUnitTest tests[] = {
        SMALL(sql_slice_shows_columns_of_thread_and_process),
        SMALL(sql_slice_without_name_is_null),
        SMALL(sql_names_with_nul_keep_their_size),
        SMALL(sql_thread_process_and_track_hold_the_model),
        SMALL(sql_counter_flow_args_and_notes_hold_the_model),
        SMALL(sql_extract_arg_takes_keys_with_and_without_prefix),
        SMALL(sql_regexp_matches_extended_expressions),
        LARGE(sql_terms_give_the_rows_that_a_scan_gives),
        LARGE(sql_terms_that_nothing_fulfils_give_no_rows),
        LARGE(sql_orders_of_the_table_are_those_of_sqlite),
        LARGE(sql_groups_of_the_table_are_those_of_sqlite),
        LARGE(sql_distinct_skips_equal_rows),
        LARGE(sql_group_by_name_needs_no_sorter),
        LARGE(sql_tables_find_rows_by_reference),
        LARGE(sql_totals_are_those_of_single_rows),
        LARGE(sql_totals_leave_other_statements_alone),
        SMALL(sql_totals_give_way_to_a_table_of_the_user),
        cmocka_unit_test_teardown(sql_totals_overflow_as_sums_do, tear_down),
        LARGE(sql_functions_answer),
        LARGE(sql_functions_say_what_is_wrong),
        SMALL(sql_examples_run),
        LARGE(sql_examples_run),
        SMALL(sql_catalog_lists_what_there_is),
        SMALL(sql_cannot_touch_files),
        SMALL(sql_allows_views_and_tables_in_memory),
        LARGE(sql_survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
