/* What people paste: queries of BigQuery and Perfetto, any arg as a column, strings in the wrong quotes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "analyze/sql.h"
#include "analyze/sql_tokens.h"
#include "base/mem.h"
#include "trace/builder.h"

#include "base/banned.h"

typedef struct fixture {
    stk__trace *trace;
    sqlite3 *db;
} fixture;

/* Two slices with args, one of whole and one of broken microseconds; an instant; a counter; an async track. */
static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    stk__builder *b = NULL;
    assert_non_null(f);
    assert_int_equal(stk__builder_new(&(stk__trace_options){0}, &b, NULL), STK_OK);
    stk__builder_start_file(b, "a.json", "chrome");
    const uint32_t process = stk__builder_process(b, 10, 0);
    const uint32_t track = stk__builder_thread_track(b, stk__builder_thread(b, process, 11, 0));
    const stk__string name = stk__builder_str(b, "unknown"), op = stk__builder_str(b, "Op");
    stk__builder_arg_string(b, stk__builder_str(b, "name"), stk__builder_str(b, "MatMul"));
    stk__builder_arg_int(b, stk__builder_str(b, "Input Dims"), 64);
    stk__builder_arg_int(b, stk__builder_str(b, "size"), 1);
    stk__builder_arg_int(b, stk__builder_str(b, "Size"), 2);
    stk__builder_arg_double(b, stk__builder_str(b, "tts"), 1.5);
    stk__builder_arg_int(b, stk__builder_str(b, "tdur"), 7);
    stk__builder_slice(b, track, 1000, 5000, name, op, -1);
    stk__builder_arg_string(b, stk__builder_str(b, "name"), stk__builder_str(b, "Relu"));
    stk__builder_slice(b, track, 7000, 1500, name, op, -1);
    stk__builder_instant(b, track, 9000, stk__builder_str(b, "mark"), 0);
    const uint32_t memory = stk__builder_counter_track(b, process, STK__NONE, stk__builder_str(b, "memory"));
    stk__builder_counter(b, memory, 3000, 2.5);
    const uint32_t async = stk__builder_async_track(b, process, 0, stk__builder_str(b, "0x1"), 0);
    stk__builder_slice(b, async, 20000, 1000, stk__builder_str(b, "request"), 0, -1);
    assert_int_equal(stk__builder_finish(b, &f->trace, NULL), STK_OK);
    assert_int_equal(stk__sql_open(f->trace, &f->db, NULL), STK_OK);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    assert_int_equal(sqlite3_close(f->db), SQLITE_OK);
    stk__trace_free(f->trace);
    free(f);
    return 0;
}

static void put_rows(sqlite3_stmt *statement, stk__text *out)
{
    while (statement && sqlite3_step(statement) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(statement); i++) {
            const char *value = (const char *)sqlite3_column_text(statement, i);
            stk__text_printf(out, "%s%s", i ? "|" : "", value ? value : "NULL");
        }
        stk__text_putc(out, '\n');
    }
}

/* All rows of all statements: columns by '|', rows by newline. */
static void expect(const fixture *f, const char *text, const char *wanted)
{
    stk__text found = STK__TEXT_INIT;
    stk__text_puts(&found, "");
    for (const char *rest = text; *rest;) {
        sqlite3_stmt *statement = NULL;
        const char *start = rest;
        int offset;
        if (stk__sql_prepare(f->db, start, &statement, &rest) != SQLITE_OK)
            fail_msg("%s: %s", start, stk__sql_message(f->db, start, &offset));
        put_rows(statement, &found);
        assert_int_equal(sqlite3_finalize(statement), SQLITE_OK);
    }
    if (strcmp(found.data ? found.data : "", wanted) != 0)
        fail_msg("%s\nfound:\n%swanted:\n%s", text, found.data, wanted);
    stk__text_clear(&found);
}

/* The message has `wanted` in it, and the place is that of `at` in the text; NULL: not known. */
static void expect_refused(const fixture *f, const char *text, const char *wanted, const char *at)
{
    sqlite3_stmt *statement = NULL;
    int offset;
    assert_int_not_equal(stk__sql_prepare(f->db, text, &statement, NULL), SQLITE_OK);
    assert_null(statement);
    const char *message = stk__sql_message(f->db, text, &offset);
    if (!strstr(message, wanted))
        fail_msg("%s\nfound:  %s\nwanted: %s", text, message, wanted);
    if (at) {
        assert_true(offset >= 0);
        assert_ptr_equal(text + offset, strstr(text, at));
    } else {
        assert_int_equal(offset, -1);
    }
}

/* ---- tokens ---- */

static void tokens_are_those_of_sqlite(void **state)
{
    static const char text[] = "a1 'it''s' \"q\"\"\" `b.c` [d ] 1.5e-3 x'00' ?1 :n -- c\n/* ; */ é;";
    static const char kinds[] = "wsqqqns??w;";
    size_t at = 0;
    for (size_t i = 0; i < sizeof kinds; i++) {
        const stk__sql_token token = stk__sql_token_at(text, at);
        assert_int_equal(token.kind, kinds[i]);
        at = token.at + token.size;
    }
    assert_int_equal(at, sizeof text - 1);
}

static void tokens_without_a_closing_quote_reach_to_the_end(void **state)
{
    static const char *const texts[] = {"'a", "\"a", "`a", "[a", "x'a", "'a''"};
    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        const stk__sql_token token = stk__sql_token_at(texts[i], 0);
        assert_int_equal(token.size, strlen(texts[i]));
        assert_int_equal(stk__sql_token_after(texts[i], token).kind, 0);
    }
    assert_int_equal(stk__sql_token_at("/* open", 0).kind, 0);
}

static void names_lose_their_quotes(void **state)
{
    static const char *const names[][2] = {{"a", "a"},       {"\"a\"\"b\"", "a\"b"}, {"`a.b`", "a.b"},
                                           {"[a b]", "a b"}, {"\"\"", ""},           {"\"a", "a"}};
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        stk__text name = STK__TEXT_INIT;
        stk__text_puts(&name, "");
        stk__sql_token_name(names[i][0], stk__sql_token_at(names[i][0], 0), &name);
        assert_string_equal(name.data ? name.data : "", names[i][1]);
        stk__text_clear(&name);
    }
}

/* ---- BigQuery ---- */

static void tables_in_backquotes_are_the_events(void **state)
{
    const fixture *f = *state;
    static const char rows[] = "X|Op|unknown|10|11|1|5|NULL|MatMul\nX|Op|unknown|10|11|7|1.5|NULL|Relu\n"
                               "i|NULL|mark|10|11|9|NULL|NULL|NULL\nX|NULL|request|10|NULL|20|1|NULL|NULL\n"
                               "C|NULL|memory|10|NULL|3|NULL|2.5|NULL\n";
    expect(f, "SELECT ph, cat, name, pid, tid, ts, dur, value, arg_name FROM `my-proj.traces.tf115` ORDER BY index",
           rows);
    expect(f, "SELECT ph, cat, name, pid, tid, ts, dur, value, arg_name FROM trace_events ORDER BY \"index\"", rows);
    expect(f, "SELECT count(*) FROM `a.b`; SELECT count(*) FROM `a`.`b`.`c` x; SELECT count(*) FROM `a`.b",
           "5\n5\n5\n");
    expect(f, "SELECT c.arg_name FROM `a.b.c` WHERE c.dur = 5", "MatMul\n");
    expect(f, "SELECT x.arg_name, y.arg_name FROM `a.b` x JOIN `a.b` AS y ON x.dur > y.dur WHERE y.arg_name = 'Relu'",
           "MatMul|Relu\n");
    expect(f, "WITH slice AS (SELECT 1 AS dur) SELECT sum(b.dur), sum(slice.dur) FROM `a.b`, slice", "7.5|5\n");
}

/* The type of whole microseconds is that of the file. */
static void times_of_events_are_integers_where_whole(void **state)
{
    expect(*state, "SELECT typeof(ts), typeof(dur) FROM `a.b` WHERE ph = 'X' ORDER BY ts",
           "integer|integer\ninteger|real\ninteger|integer\n");
}

static void tables_of_an_export_keep_their_names(void **state)
{
    expect(*state, "SELECT sum(dur) FROM `p.d.slice`; SELECT count(*) FROM `p.d.counter` c", "7500\n1\n");
    expect(*state, "SELECT 1 FROM `main`.slice LIMIT 1", "1\n");
    expect(*state, "SELECT max(dur), arg_name FROM `p.d.trace_events`", "5|MatMul\n");
}

static void unnest_of_events_is_taken_away(void **state)
{
    const fixture *f = *state;
    static const char *const forms[] = {
        "SELECT index, e.ph, e.args.name AS arg_name FROM `a.b` AS t, UNNEST(t.traceEvents) AS e WITH OFFSET AS index "
        "ORDER BY index LIMIT 1",
        "SELECT index, ph, args.name FROM tf115, unnest(traceEvents) WITH OFFSET index ORDER BY 1 LIMIT 1",
        "SELECT offset, e.ph, e.args.`name` FROM `a.b` CROSS JOIN UNNEST(b.traceEvents) e WITH OFFSET LIMIT 1",
        "SELECT n, e.ph, e.args.name FROM (SELECT * FROM x.y t, t.traceEvents AS e WITH OFFSET n) e LIMIT 1",
        "SELECT n, e.ph, arg_name FROM x t LEFT JOIN UNNEST(t.traceEvents) e WITH OFFSET AS n WHERE n = 0",
    };
    for (size_t i = 0; i < STK_COUNT(forms); i++)
        expect(f, forms[i], "0|X|MatMul\n");
    expect(f, "SELECT 'UNNEST(x) `a.b` arg_none' /* UNNEST(y) */", "UNNEST(x) `a.b` arg_none\n");
}

static void casts_and_comments_of_bigquery_are_known(void **state)
{
    const fixture *f = *state;
    expect(f, "#standardSQL\nSELECT CAST('abc' AS STRING) || CAST((1 + 2) AS STRING), typeof(CAST(1 AS string))",
           "abc3|text\n");
    expect(f, "#a\n  # b\nINCLUDE PERFETTO MODULE a;\n#c\nSELECT 1", "1\n");
    expect(f, "SELECT string FROM (SELECT 5 AS string)", "5\n");
}

static void other_forms_of_unnest_say_what_to_write(void **state)
{
    const fixture *f = *state;
    expect_refused(f, "SELECT x FROM UNNEST([1, 2]) x", "the events are already flat; write SELECT", "UNNEST");
    expect_refused(f, "SELECT 1 FROM a t, b u, UNNEST(t.traceEvents) e", "already flat", "UNNEST");
    expect_refused(f, "SELECT 1 FROM slice, UNNEST(args) AS arg", "JOIN args USING (arg_set_id)", "UNNEST");
    expect_refused(f, "SELECT name IN UNNEST(['a']) FROM slice", "already flat", "UNNEST");
    expect_refused(f, "SELECT * FROM traces.tf115", "`traces.tf115`", NULL);
}

/* ---- args ---- */

static void any_arg_is_a_column(void **state)
{
    const fixture *f = *state;
    expect(f, "SELECT arg_name, sum(dur) FROM slice GROUP BY arg_name ORDER BY 2",
           "NULL|1000\nRelu|1500\nMatMul|5000\n");
    expect(f, "SELECT s.arg_NAME, arg_Input_Dims, \"arg_Input Dims\" FROM slices s WHERE arg_name = 'MatMul'",
           "MatMul|64|64\n");
    expect(f, "SELECT slices.arg_name FROM slices WHERE id = 0; SELECT name FROM slice WHERE id = 0",
           "MatMul\nunknown\n");
    expect(f, "SELECT arg_size FROM slice WHERE id = 0; SELECT arg_Size FROM slice WHERE id = 0", "1\n2\n");
    expect(f, "SELECT name, arg_name FROM slice WHERE name = 'unknown' ORDER BY name, ts DESC",
           "unknown|Relu\nunknown|MatMul\n");
    expect_refused(f, "SELECT arg_size, arg_Size FROM slice",
                   "one column in SQL; write extract_arg(arg_set_id, 'Size')", "arg_Size");
    expect_refused(f, "SELECT JSON_VALUE(args, '$.name') FROM `a.b`", "write arg_KEY for the arg of one key", "args");
    expect_refused(f, "SELECT arg_nam FROM slice", "no slice has an arg 'nam'", "arg_nam");
    expect_refused(f, "SELECT arg_SIZE FROM slice", "no slice has an arg 'SIZE'", "arg_SIZE"); /* size or Size? */
    expect_refused(f, "SELECT arg_name FROM thread_slice", "slice and trace_events have it", "arg_name");
}

static void names_that_a_query_makes_itself_are_its_own(void **state)
{
    const fixture *f = *state;
    static const char rows[] = "MatMul!|1\nRelu!|1\nx|2\n";
    expect(f,
           "SELECT coalesce(extract_arg(arg_set_id, 'name') || '!', 'x') AS arg_name, count(*) FROM slice "
           "GROUP BY arg_name",
           rows);
    expect(
        f,
        "SELECT coalesce(extract_arg(arg_set_id, 'name') || '!', 'x') arg_name, count(*) FROM slice GROUP BY arg_name",
        rows);
    expect(f, "WITH t AS (SELECT 'mine' AS arg_name FROM slice) SELECT DISTINCT arg_name FROM t", "mine\n");
    expect(f,
           "WITH trace_events AS (SELECT 1 AS arg_name), slices(arg_name) AS (SELECT 2) "
           "SELECT trace_events.arg_name, slices.arg_name FROM trace_events, slices",
           "1|2\n");
    expect(f, "CREATE TEMP TABLE slices AS SELECT 3 AS arg_name; SELECT slices.arg_name FROM slices", "3\n");
    /* ... and not those of the statement before. */
    expect(f, "SELECT arg_name FROM slice WHERE id = 1; SELECT 'y' AS arg_name, count(*) FROM slice GROUP BY arg_name",
           "Relu\ny|4\n");
}

static void views_keep_the_columns_that_they_use(void **state)
{
    const fixture *f = *state;
    expect(f,
           "CREATE VIEW v AS SELECT arg_name AS n FROM slice WHERE id = 0; "
           "CREATE VIEW w AS SELECT arg_Input_Dims FROM `a.b`;"
           "SELECT arg_size FROM slice WHERE id = 0; SELECT n FROM v; SELECT max(arg_Input_Dims) FROM w; "
           "SELECT arg_name FROM `x.y` WHERE dur = 5",
           "1\nMatMul\n64\nMatMul\n");
    expect_refused(f, "SELECT arg_size FROM v", "no such column: arg_size; slice and trace_events have it", "arg_size");
}

/* ---- quotes ---- */

static void strings_in_double_quotes_are_refused(void **state)
{
    const fixture *f = *state;
    expect_refused(f, "SELECT extract_arg(arg_set_id, \"name\") FROM slice", "strings are in single quotes: 'name'",
                   "\"name\"");
    expect_refused(f, "SELECT name FROM slice WHERE name = \"foo\"", "strings are in single quotes: 'foo'", "\"foo\"");
    expect_refused(f, "SELECT name FROM slice WHERE name LIKE \"foo%\"", "strings are in single quotes: 'foo%'",
                   "\"foo");
    expect_refused(f, "SELECT arg_name FROM `a.b` WHERE ph IN ('X', \"i\")", "strings are in single quotes: 'i'",
                   "\"i\"");
    expect_refused(f, "SELECT * FROM overlap('a', \"b\")", "strings are in single quotes: 'b'", "\"b\"");
    expect_refused(f, "SELECT * FROM top(\"a*\")", "strings are in single quotes: 'a*'", "\"a*\"");
    expect(f, "SELECT \"name\" FROM slice WHERE \"dur\" = 5000 AND extract_arg(\"arg_set_id\", 'size') = 1",
           "unknown\n");
    expect(f, "SELECT extract_arg(arg_set_id, replace('n-ame', '-', '')) FROM slice WHERE id = 0", "MatMul\n");
}

/* ---- Perfetto ---- */

static void modules_of_perfetto_are_named_when_their_tables_lack(void **state)
{
    const fixture *f = *state;
    expect(f,
           "INCLUDE PERFETTO MODULE slices.with_context;\ninclude perfetto module slices.with_context; "
           "SELECT count(*) FROM thread_or_process_slice; INCLUDE PERFETTO MODULE prelude.a",
           "4\n");
    expect_refused(f, "SELECT * FROM android_startups", "no such table: android_startups", NULL);
    expect_refused(f, "INCLUDE PERFETTO MODULE android.startup.startups; SELECT * FROM android_startups",
                   "no such table: android_startups (stoker does not have Perfetto's module android.startup.startups)",
                   NULL);
    expect_refused(f, "INCLUDE PERFETTO MODULE a; SELECT nme FROM slice", "no such column: nme", "nme");
    expect_refused(f, "INCLUDE PERFETTO MODULE; SELECT 1", "syntax error", "INCLUDE");
}

static void statements_of_perfetto_become_those_of_sqlite(void **state)
{
    const fixture *f = *state;
    expect(f,
           "CREATE PERFETTO TABLE t AS SELECT arg_name AS n FROM slice; CREATE OR REPLACE PERFETTO VIEW v(n STRING) AS "
           "SELECT n FROM t; SELECT count(*) FROM v",
           "4\n");
    expect_refused(f, "CREATE VIRTUAL TABLE x USING SPAN_JOIN(a, b)", "overlap(a, b) gives", "SPAN_JOIN");
    expect_refused(f, "SELECT * FROM macro!(a)", "stoker does not have Perfetto's macros", "!");
    expect_refused(f, "CREATE PERFETTO FUNCTION f(x LONG) RETURNS LONG AS SELECT 1", "CREATE PERFETTO TABLE and VIEW",
                   "PERFETTO");
}

static void keys_of_args_match_with_and_without_prefix(void **state)
{
    const fixture *f = *state;
    static const char *const terms[] = {"key = 'name'",          "key = 'args.name'",   "flat_key = 'debug.name'",
                                        "key IN ('args.name')",  "key LIKE 'args.na%'", "args.key GLOB 'args.na*'",
                                        "'args.name' = flat_key"};
    for (size_t i = 0; i < STK_COUNT(terms); i++) {
        char *query = sqlite3_mprintf("SELECT count(*) FROM args WHERE %s", terms[i]);
        expect(f, query, "2\n");
        sqlite3_free(query);
    }
    expect(f, "SELECT sum(CASE key WHEN 'args.name' THEN 1 END) FROM args", "2\n");
    expect(f, "SELECT count(*) FROM args WHERE string_value LIKE 'args.%'; SELECT count(DISTINCT key) FROM args",
           "0\n6\n");
}

static void columns_of_perfetto_are_there(void **state)
{
    const fixture *f = *state;
    expect(f, "SELECT thread_ts, thread_dur, slice_id FROM slice WHERE dur > 1000 ORDER BY id",
           "1500|7000|0\nNULL|NULL|1\n");
    expect(f, "SELECT name FROM track WHERE type = 'async_track'; SELECT track_name FROM process_slice",
           "request\nrequest\n");
    expect(f, "SELECT start_ts, end_ts FROM trace_bounds", "1000|21000\n");
    expect(f, "SELECT count(*), max(ts) FROM thread_state; SELECT utid, cpu FROM sched_slice", "0|NULL\n");
    expect(f, "SELECT display_value, value_type FROM args ORDER BY id LIMIT 2", "MatMul|string\n64|int\n");
    expect(f, "SELECT name, unit, value FROM counters; SELECT count(*) FROM process_counter_track",
           "memory|NULL|2.5\n1\n");
}

/* slice has more columns here than in Perfetto. */
static void names_are_not_ambiguous_that_are_not_in_perfetto(void **state)
{
    const fixture *f = *state;
    expect(f,
           "SELECT utid, slice.name FROM slice JOIN thread_track ON thread_track.id = slice.track_id WHERE depth = 0",
           "0|unknown\n0|unknown\n0|mark\n");
    expect(f,
           "SELECT upid FROM counter JOIN process_counter_track t ON t.id = counter.track_id WHERE t.name = 'memory'",
           "0\n");
    expect(f,
           "SELECT tid, pid, arg_name FROM slices s JOIN thread_track t ON t.id = track_id JOIN thread USING (utid) "
           "JOIN process USING (upid) WHERE s.id = 0",
           "11|10|MatMul\n");
    expect_refused(f, "SELECT name FROM slice JOIN track ON track.id = track_id", "ambiguous column name: name",
                   "name");
    expect_refused(f, "SELECT slice.utid, upid FROM slice JOIN thread USING (utid)", "ambiguous column name: upid",
                   "upid");
}

/* Whatever allocation fails, nothing leaks and nothing crashes. */
static void pasted_queries_survive_failing_allocations(void **state)
{
    fixture *f = *state;
    static const char text[] = "INCLUDE PERFETTO MODULE a.b; SELECT index, e.args.name, arg_size FROM `a.b` AS t, "
                               "UNNEST(t.traceEvents) AS e WITH OFFSET AS index WHERE 'x' NOT LIKE 'args.x'";
    int code = SQLITE_ERROR;
    uint64_t n = 0, made;
    do {
        sqlite3 *db = NULL;
        sqlite3_stmt *statement = NULL;
        int offset;
        const uint64_t before = stk__alloc_count();
        stk__alloc_fail_at(++n, false);
        if (stk__sql_open(f->trace, &db, NULL) == STK_OK) {
            code = stk__sql_prepare(db, text, &statement, NULL);
            if (code != SQLITE_OK)
                assert_non_null(stk__sql_message(db, text, &offset));
            while (statement && (code == SQLITE_OK || code == SQLITE_ROW))
                code = sqlite3_step(statement);
            sqlite3_finalize(statement);
        }
        stk__alloc_fail_at(0, false);
        sqlite3_close(db);
        made = stk__alloc_count() - before;
    } while (made >= n);
    assert_int_equal(code, SQLITE_DONE); /* the last round had no failure */
}

int main(void)
{
#define WITH_TRACE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_those_of_sqlite),
        cmocka_unit_test(tokens_without_a_closing_quote_reach_to_the_end),
        cmocka_unit_test(names_lose_their_quotes),
        WITH_TRACE(tables_in_backquotes_are_the_events),
        WITH_TRACE(times_of_events_are_integers_where_whole),
        WITH_TRACE(tables_of_an_export_keep_their_names),
        WITH_TRACE(unnest_of_events_is_taken_away),
        WITH_TRACE(casts_and_comments_of_bigquery_are_known),
        WITH_TRACE(other_forms_of_unnest_say_what_to_write),
        WITH_TRACE(any_arg_is_a_column),
        WITH_TRACE(names_that_a_query_makes_itself_are_its_own),
        WITH_TRACE(views_keep_the_columns_that_they_use),
        WITH_TRACE(strings_in_double_quotes_are_refused),
        WITH_TRACE(modules_of_perfetto_are_named_when_their_tables_lack),
        WITH_TRACE(statements_of_perfetto_become_those_of_sqlite),
        WITH_TRACE(keys_of_args_match_with_and_without_prefix),
        WITH_TRACE(columns_of_perfetto_are_there),
        WITH_TRACE(names_are_not_ambiguous_that_are_not_in_perfetto),
        WITH_TRACE(pasted_queries_survive_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
