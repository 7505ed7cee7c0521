/* The public workbench: tables with SQL's values, arrays that outlive everything, one SELECT, and cancelling. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <stoker/arrow.h>
#include <stoker/workbench.h>

#include "analyze/workbench_impl.h"
#include "base/mem.h"

#include "base/banned.h"

/* Nested and unfinished slices, an instant, no name, broken UTF-8, ids that are text, counters, a flow, steps. */
static const char events[] =
    "{\"traceEvents\": [\n"
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":10,\"tid\":0,\"args\":{\"name\":\"python\"}},\n"
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":10,\"tid\":10,\"args\":{\"name\":\"main\"}},\n"
    "{\"ph\":\"X\",\"name\":\"ProfilerStep#1\",\"ts\":0,\"dur\":100,\"pid\":10,\"tid\":10,\"cat\":\"user_annotation\"},\n"
    "{\"ph\":\"X\",\"name\":\"enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__\",\"ts\":0,\"dur\":60,"
    "\"pid\":10,\"tid\":10,\"cat\":\"user_annotation\"},\n"
    "{\"ph\":\"X\",\"name\":\"op\",\"ts\":60,\"dur\":30,\"pid\":10,\"tid\":10,\"cat\":\"cpu_op\",\"args\":{\"n\":1}},\n"
    "{\"ph\":\"X\",\"name\":\"ProfilerStep#2\",\"ts\":100,\"dur\":100,\"pid\":10,\"tid\":10,\"cat\":\"user_annotation\"},\n"
    "{\"ph\":\"X\",\"name\":\"ProfilerStep#3\",\"ts\":200,\"dur\":100,\"pid\":10,\"tid\":10,\"cat\":\"user_annotation\"},\n"
    "{\"ph\":\"X\",\"name\":\"\",\"ts\":5,\"dur\":1.5,\"pid\":10,\"tid\":11},\n"
    "{\"ph\":\"X\",\"name\":\"a\xff"
    "b\",\"ts\":7,\"dur\":1,\"pid\":10,\"tid\":11},\n"
    "{\"ph\":\"i\",\"name\":\"mark\",\"ts\":50,\"pid\":10,\"tid\":10,\"s\":\"t\"},\n"
    "{\"ph\":\"X\",\"name\":\"kernel\",\"ts\":70,\"dur\":20,\"pid\":\"GPU\",\"tid\":\"stream 7\",\"cat\":\"kernel\"},\n"
    "{\"ph\":\"s\",\"name\":\"launch\",\"id\":1,\"ts\":61,\"pid\":10,\"tid\":10,\"cat\":\"ac2g\"},\n"
    "{\"ph\":\"f\",\"name\":\"launch\",\"id\":1,\"ts\":70,\"pid\":\"GPU\",\"tid\":\"stream 7\",\"cat\":\"ac2g\",\"bp\":\"e\"},\n"
    "{\"ph\":\"C\",\"name\":\"memory\",\"ts\":10,\"pid\":10,\"args\":{\"MB\":1.5}},\n"
    "{\"ph\":\"C\",\"name\":\"memory\",\"ts\":20,\"pid\":10,\"args\":{\"MB\":2}},\n"
    "{\"ph\":\"B\",\"name\":\"open\",\"ts\":250,\"pid\":10,\"tid\":11},\n"
    "{\"ph\":\"E\",\"ts\":1,\"pid\":10,\"tid\":12},\n"
    "{\"ph\":\"X\",\"name\":\"last\",\"ts\":290,\"dur\":5,\"pid\":10,\"tid\":11}\n"
    "]}\n";

static const char stacks[] = "main;load;read 7\nmain;train 3\nmain 1\n";

static char directory[64];

static const char *path_of(const char *name)
{
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static void write_text(const char *name, const char *text, size_t size)
{
    FILE *f = fopen(path_of(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static int set_up(void **state)
{
    snprintf(directory, sizeof directory, "/tmp/stoker-workbench-XXXXXX");
    assert_non_null(mkdtemp(directory));
    write_text("a.json", events, sizeof events - 1);
    write_text("b.collapsed", stacks, sizeof stacks - 1);
    return 0;
}

static int tear_down(void **state)
{
    unlink(path_of("a.json"));
    unlink(path_of("b.collapsed"));
    unlink(path_of("many.json"));
    return rmdir(directory);
}

static stk_trace *open_both(void)
{
    const char *paths[] = {path_of("a.json"), path_of("b.*")};
    stk_trace *trace = NULL;
    stk_error err;
    stk_error_clear(&err);
    if (stk_trace_open(paths, 2, NULL, &trace, &err) != STK_OK)
        fail_msg("open: %s", err.message);
    return trace;
}

static stk_table *query(stk_trace *trace, const char *sql)
{
    stk_table *table = NULL;
    stk_error err;
    stk_error_clear(&err);
    if (stk_trace_query(trace, sql, &table, &err) != STK_OK)
        fail_msg("%s: %s", sql, err.message);
    return table;
}

static stk_table *table_of(stk_trace *trace, const char *name)
{
    stk_table *table = NULL;
    assert_int_equal(stk_trace_table(trace, name, &table, NULL), STK_OK);
    return table;
}

static size_t column_of(const stk_table *table, const char *name)
{
    for (size_t i = 0; i < stk_table_columns(table); i++) {
        if (strcmp(stk_table_name(table, i), name) == 0)
            return i;
    }
    fail_msg("no column %s", name);
    return 0;
}

/* A cell as text, whatever kind its column is. */
static void show(const stk_table *table, size_t column, int64_t row, char *out, size_t size)
{
    size_t length;
    if (stk_table_is_null(table, column, row)) {
        snprintf(out, size, "NULL");
        return;
    }
    switch (stk_table_kind(table, column)) {
    case STK_KIND_INT64:
        snprintf(out, size, "%lld", (long long)stk_table_int64(table, column, row));
        break;
    case STK_KIND_DOUBLE:
        snprintf(out, size, "%.17g", stk_table_double(table, column, row));
        break;
    default: {
        const char *text = stk_table_text(table, column, row, &length);
        snprintf(out, size, "'%.*s'", (int)length, text);
        break;
    }
    }
}

static void assert_cell(const stk_table *table, size_t column, int64_t row, const char *expected)
{
    char found[256];
    show(table, column, row, found, sizeof found);
    assert_string_equal(found, expected);
}

static void assert_tables_equal(const stk_table *a, const stk_table *b)
{
    assert_int_equal(stk_table_columns(a), stk_table_columns(b));
    assert_int_equal(stk_table_rows(a), stk_table_rows(b));
    for (size_t i = 0; i < stk_table_columns(a); i++) {
        assert_string_equal(stk_table_name(a, i), stk_table_name(b, i));
        for (int64_t row = 0; row < stk_table_rows(a); row++) {
            char expected[256];
            show(b, i, row, expected, sizeof expected);
            assert_cell(a, i, row, expected);
        }
    }
}

/* ---- opening ---- */

static void open_reads_a_file_given_twice_once(void **state)
{
    const char *paths[] = {path_of("a.json"), path_of("*.json")};
    stk_trace *trace = NULL;
    assert_int_equal(stk_trace_open(paths, 2, NULL, &trace, NULL), STK_OK);
    stk_table *files = table_of(trace, "file");
    assert_int_equal(stk_table_rows(files), 1);
    stk_table_free(files);
    stk_trace_close(trace);
}

static void open_refuses_what_is_no_trace(void **state)
{
    stk_trace *trace = (stk_trace *)&directory;
    stk_error err;
    const char *empty[] = {""}, *missing[] = {path_of("nothing.json")}, *pipes[] = {"-", "-"};
    const struct {
        const char *const *paths;
        size_t count;
        stk_status status;
    } cases[] = {{NULL, 0, STK_INVALID}, {empty, 1, STK_INVALID}, {missing, 1, STK_IO}, {pipes, 2, STK_INVALID}};
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk_error_clear(&err);
        assert_int_equal(stk_trace_open(cases[i].paths, cases[i].count, NULL, &trace, &err), cases[i].status);
        assert_true(err.message[0]);
        assert_ptr_equal(trace, &directory);
    }
    const char *good[] = {path_of("a.json")};
    stk_error_clear(&err);
    assert_int_equal(stk_trace_open(good, 1, &(stk_trace_options){.struct_size = 1}, &trace, &err), STK_INVALID);
    stk_error_clear(&err);
    assert_int_equal(stk_trace_open(good, 1,
                                    &(stk_trace_options){.struct_size = sizeof(stk_trace_options), .format = "no"},
                                    &trace, &err),
                     STK_INVALID);
    assert_non_null(strstr(err.message, "chrome"));
    stk_trace_close(NULL);
    stk_table_free(NULL);
}

static bool refuse(void *arg, const char *path, uint64_t done_bytes, uint64_t total_bytes)
{
    *(int *)arg += 1;
    return false;
}

static void open_stops_when_progress_says_so(void **state)
{
    FILE *f = fopen(path_of("many.json"), "w");
    assert_non_null(f);
    fprintf(f, "[");
    for (int i = 0; i < 200000; i++)
        fprintf(f, "%s{\"ph\":\"X\",\"name\":\"n%d\",\"ts\":%d,\"dur\":5,\"pid\":1,\"tid\":%d}", i ? ",\n" : "", i % 7,
                i * 10, i % 3);
    fprintf(f, "]");
    assert_int_equal(fclose(f), 0);
    int calls = 0;
    stk_trace *trace = NULL;
    const char *paths[] = {path_of("many.json")};
    const stk_trace_options options = {.struct_size = sizeof options, .progress = refuse, .progress_arg = &calls};
    assert_int_equal(stk_trace_open(paths, 1, &options, &trace, NULL), STK_CANCELLED);
    assert_int_equal(calls, 1);
    assert_null(trace);
}

/* ---- tables ---- */

static void own_tables_have_the_values_of_sql(void **state)
{
    static const char *const names[] = {"slice", "counter", "sample", "flow"};
    stk_trace *trace = open_both();
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        char sql[64];
        snprintf(sql, sizeof sql, "SELECT * FROM %s", names[i]);
        stk_table *own = table_of(trace, names[i]), *asked = query(trace, sql);
        assert_true(stk_table_rows(own) > 0);
        assert_tables_equal(own, asked);
        stk_table_free(own);
        stk_table_free(asked);
    }
    stk_trace_close(trace);
}

static void every_table_and_view_can_be_had(void **state)
{
    stk_trace *trace = open_both();
    stk_table *tables = table_of(trace, "tables");
    assert_true(stk_table_rows(tables) > 20);
    for (int64_t i = 0; i < stk_table_rows(tables); i++) {
        size_t size;
        char name[64];
        const char *text = stk_table_text(tables, 0, i, &size);
        snprintf(name, sizeof name, "%.*s", (int)size, text);
        text = stk_table_text(tables, 1, i, &size);
        stk_table *one = NULL;
        const bool function = size == 8 && memcmp(text, "function", 8) == 0;
        assert_int_equal(stk_trace_table(trace, name, &one, NULL), function ? STK_INVALID : STK_OK);
        stk_table_free(one);
    }
    stk_table_free(tables);
    stk_trace_close(trace);
}

static void a_name_that_is_no_table_is_told_with_those_that_are(void **state)
{
    stk_trace *trace = open_both();
    stk_table *table = NULL;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk_trace_table(trace, "slicee", &table, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "did you mean 'slice'"));
    assert_non_null(strstr(err.message, "recorded_total"));
    assert_null(table);
    stk_trace_close(trace);
}

static void the_trace_itself_is_a_row_of_counts(void **state)
{
    stk_trace *trace = open_both();
    stk_table *table = table_of(trace, "trace");
    assert_int_equal(stk_table_rows(table), 1);
    assert_cell(table, column_of(table, "start_ns"), 0, "0");
    assert_cell(table, column_of(table, "end_ns"), 0, "300000");
    assert_cell(table, column_of(table, "files"), 0, "2");
    assert_cell(table, column_of(table, "counters"), 0, "2");
    assert_cell(table, column_of(table, "samples"), 0, "3");
    stk_table_free(table);
    stk_trace_close(trace);
}

/* ---- Arrow ---- */

static const struct ArrowArray *child(const struct ArrowSchema *schema, const struct ArrowArray *array,
                                      const char *name, const char *format)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (strcmp(schema->children[i]->name, name) == 0) {
            assert_string_equal(schema->children[i]->format, format);
            return array->children[i];
        }
    }
    fail_msg("no child %s", name);
    return NULL;
}

static bool is_valid(const struct ArrowArray *a, int64_t row)
{
    const uint8_t *bits = a->buffers[0];
    return !bits || (bits[row / 8] >> (row % 8) & 1);
}

static void an_export_of_slices_copies_neither_numbers_nor_names(void **state)
{
    stk_trace *trace = open_both();
    stk_table *table = table_of(trace, "slice");
    struct ArrowSchema schema;
    struct ArrowArray array;
    assert_int_equal(stk_table_export(table, &schema, &array, NULL), STK_OK);
    const stk__slices *s = &trace->model->slices;
    assert_string_equal(schema.format, "+s");
    assert_int_equal(array.length, s->count);
    assert_ptr_equal(child(&schema, &array, "ts", "l")->buffers[1], s->ts);
    assert_ptr_equal(child(&schema, &array, "dur", "l")->buffers[1], s->dur);
    assert_ptr_equal(child(&schema, &array, "track_id", "I")->buffers[1], s->track);
    assert_ptr_equal(child(&schema, &array, "depth", "S")->buffers[1], s->depth);
    assert_ptr_equal(child(&schema, &array, "parent_id", "I")->buffers[1], s->parent);
    assert_ptr_equal(child(&schema, &array, "name", "i")->buffers[1], s->name);
    const struct ArrowArray *name = child(&schema, &array, "name", "i"),
                            *category = child(&schema, &array, "category", "i");
    assert_ptr_equal(name->dictionary->buffers[1], category->dictionary->buffers[1]); /* one dictionary for all */
    assert_int_equal(name->dictionary->length, trace->model->string_count);
    array.release(&array);
    schema.release(&schema);
    assert_null(array.release);
    stk_table_free(table);
    stk_trace_close(trace);
}

static void arrays_hold_what_the_cells_say(void **state)
{
    stk_trace *trace = open_both();
    stk_table *table = table_of(trace, "slice");
    struct ArrowSchema schema;
    struct ArrowArray array;
    assert_int_equal(stk_table_export(table, &schema, &array, NULL), STK_OK);
    for (int64_t i = 0; i < array.n_children; i++) {
        const struct ArrowArray *a = array.children[i];
        const char *format = schema.children[i]->format;
        int64_t nulls = 0;
        for (int64_t row = 0; row < array.length; row++) {
            const bool missing = stk_table_is_null(table, (size_t)i, row);
            assert_int_equal(is_valid(a, row), !missing);
            nulls += missing;
            if (missing)
                continue;
            if (a->dictionary) {
                const int32_t number = ((const int32_t *)a->buffers[1])[row];
                const int32_t *offsets = a->dictionary->buffers[1];
                size_t size;
                const char *text = stk_table_text(table, (size_t)i, row, &size);
                assert_int_equal(size, offsets[number + 1] - offsets[number]);
                assert_memory_equal(text, (const char *)a->dictionary->buffers[2] + offsets[number], size);
                continue;
            }
            const int64_t x = *format == 'l'   ? ((const int64_t *)a->buffers[1])[row]
                              : *format == 'I' ? ((const uint32_t *)a->buffers[1])[row]
                              : *format == 'S' ? ((const uint16_t *)a->buffers[1])[row]
                                               : ((const uint8_t *)a->buffers[1])[row];
            assert_int_equal(x, stk_table_int64(table, (size_t)i, row));
        }
        assert_int_equal(a->null_count, nulls);
        assert_true((a->buffers[0] != NULL) == (nulls > 0));
    }
    array.release(&array);
    schema.release(&schema);
    stk_table_free(table);
    stk_trace_close(trace);
}

static void *release_array(void *arg)
{
    struct ArrowArray *array = arg;
    array->release(array);
    return NULL;
}

static void an_array_outlives_table_and_trace_and_its_parent(void **state)
{
    stk_trace *trace = open_both();
    stk_table *table = table_of(trace, "slice");
    struct ArrowArray array, names, times;
    const size_t ts = column_of(table, "ts"), name = column_of(table, "name");
    assert_int_equal(stk_table_export(table, NULL, &array, NULL), STK_OK);
    assert_int_equal(stk_table_export(table, NULL, &times, NULL), STK_OK);
    stk_table_free(table);
    stk_trace_close(trace);
    times.release(&times);
    /* Children are moved out, as consumers may; then the parent goes. */
    times = *array.children[ts];
    array.children[ts]->release = NULL;
    names = *array.children[name];
    array.children[name]->release = NULL;
    array.release(&array);
    int64_t sum = 0;
    for (int64_t i = 0; i < times.length; i++)
        sum += ((const int64_t *)times.buffers[1])[i];
    assert_true(sum > 0);
    assert_int_equal(names.dictionary->n_buffers, 3);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, release_array, &names), 0);
    times.release(&times);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_null(names.release);
}

static void a_stream_gives_one_array_and_its_end(void **state)
{
    stk_trace *trace = open_both();
    stk_table *table = query(trace, "SELECT 1 AS a, NULL AS b, 'x' AS c, x'00ff' AS d, 1.5 AS e");
    struct ArrowArrayStream stream;
    assert_int_equal(stk_table_export_stream(table, &stream, NULL), STK_OK);
    stk_table_free(table);
    stk_trace_close(trace);
    static const char *const formats[] = {"l", "n", "u", "z", "g"};
    for (int again = 0; again < 2; again++) {
        struct ArrowSchema schema;
        assert_int_equal(stream.get_schema(&stream, &schema), 0);
        for (int64_t i = 0; i < schema.n_children; i++)
            assert_string_equal(schema.children[i]->format, formats[i]);
        schema.release(&schema);
    }
    struct ArrowArray array;
    assert_int_equal(stream.get_next(&stream, &array), 0);
    assert_non_null(array.release);
    assert_int_equal(array.children[1]->n_buffers, 0);
    assert_int_equal(array.children[1]->null_count, 1);
    assert_memory_equal(array.children[3]->buffers[2], "\0\xff", 2);
    struct ArrowArray end;
    assert_int_equal(stream.get_next(&stream, &end), 0);
    assert_null(end.release);
    assert_null(stream.get_last_error(&stream));
    stream.release(&stream);
    assert_int_equal(((const int64_t *)array.children[0]->buffers[1])[0], 1);
    array.release(&array);
}

static void a_result_without_rows_keeps_the_types_of_its_tables(void **state)
{
    stk_trace *trace = open_both();
    stk_table *table = query(trace, "SELECT ts, name, parent_id, 1 FROM slice WHERE dur < 0");
    assert_int_equal(stk_table_rows(table), 0);
    assert_int_equal(stk_table_kind(table, 0), STK_KIND_INT64);
    assert_int_equal(stk_table_kind(table, 1), STK_KIND_TEXT);
    assert_int_equal(stk_table_kind(table, 2), STK_KIND_INT64);
    assert_int_equal(stk_table_kind(table, 3), STK_KIND_NULL);
    struct ArrowSchema schema;
    struct ArrowArray array;
    assert_int_equal(stk_table_export(table, &schema, &array, NULL), STK_OK);
    assert_int_equal(*(const int32_t *)child(&schema, &array, "name", "u")->buffers[1], 0);
    array.release(&array);
    schema.release(&schema);
    stk_table_free(table);
    stk_trace_close(trace);
}

/* ---- SQL ---- */

static void columns_take_the_type_that_fits_all_values(void **state)
{
    static const struct {
        const char *sql;
        stk_column_kind kind;
        const char *cells[4];
    } cases[] = {
        {"VALUES (1), (NULL), (-3)", STK_KIND_INT64, {"1", "NULL", "-3"}},
        {"VALUES (1), (2.5), (NULL)", STK_KIND_DOUBLE, {"1", "2.5", "NULL"}},
        {"VALUES (1), (2.5), ('x'), (4)", STK_KIND_TEXT, {"'1'", "'2.5'", "'x'", "'4'"}},
        {"VALUES (NULL), (1.0), ('')", STK_KIND_TEXT, {"NULL", "'1.0'", "''"}},
        {"VALUES ('a'), (NULL), (9223372036854775807)", STK_KIND_TEXT, {"'a'", "NULL", "'9223372036854775807'"}},
        {"VALUES (1), (x'414243'), ('d')", STK_KIND_BYTES, {"'1'", "'ABC'", "'d'"}},
        {"VALUES (NULL), (NULL)", STK_KIND_NULL, {"NULL", "NULL"}},
        {"SELECT CAST(x'61ff62' AS TEXT)",
         STK_KIND_TEXT,
         {"'a\xef\xbf\xbd"
          "b'"}},
    };
    stk_trace *trace = open_both();
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk_table *table = query(trace, cases[i].sql);
        assert_int_equal(stk_table_kind(table, 0), cases[i].kind);
        for (int64_t row = 0; row < stk_table_rows(table); row++)
            assert_cell(table, 0, row, cases[i].cells[row]);
        stk_table_free(table);
    }
    stk_trace_close(trace);
}

static void names_of_columns_differ(void **state)
{
    stk_trace *trace = open_both();
    stk_table *table = query(trace, "SELECT 1 AS id, 2 AS id, 3 AS \"\", 4 AS id, 5 AS \"id:1\"");
    assert_string_equal(stk_table_name(table, 0), "id");
    assert_string_equal(stk_table_name(table, 1), "id:1");
    assert_string_equal(stk_table_name(table, 2), "");
    assert_string_equal(stk_table_name(table, 3), "id:2");
    assert_string_equal(stk_table_name(table, 4), "id:1:1");
    stk_table_free(table);
    stk_trace_close(trace);
}

static void a_query_is_one_select(void **state)
{
    static const struct {
        const char *sql, *message;
        int line, column;
    } cases[] = {
        {"", "found no statement", 0, 0},
        {"-- nothing\n ;", "found no statement", 0, 0},
        {"SELECT 1; SELECT 2", "another statement", 1, 11},
        {"SELECT 1;\n  SELEC", "another statement", 2, 3},
        {"CREATE TABLE x(a)", "wanted one SELECT", 0, 0},
        {"PRAGMA case_sensitive_like=1", "wanted one SELECT", 0, 0},
        {"SELECT 1; PRAGMA case_sensitive_like=1", "another statement", 1, 11},
        {"SELECT nme\nFROM slice", "no such column: nme", 1, 8},
        {"SELECT '\xc3\xa4', 1 FORM slice", "syntax error", 1, 20},
        {"ATTACH 'x.db' AS x", "not authorized", 0, 0},
    };
    stk_trace *trace = open_both();
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk_table *table = NULL;
        stk_error err;
        stk_error_clear(&err);
        assert_int_equal(stk_trace_query(trace, cases[i].sql, &table, &err), STK_INVALID);
        if (!strstr(err.message, cases[i].message))
            fail_msg("%s: %s", cases[i].sql, err.message);
        assert_int_equal(err.line, cases[i].line);
        assert_int_equal(err.column, cases[i].column);
        assert_null(table);
        assert_int_equal(stk_trace_query(trace, cases[i].sql, &table, NULL), STK_INVALID);
    }
    /* None of them left a trace in the connections that are kept. */
    stk_table *table = query(trace, " /* fine */ SELECT 'A' LIKE 'a' ; -- the end\n;");
    assert_cell(table, 0, 0, "1");
    stk_table_free(table);
    stk_trace_close(trace);
}

static void totals_by_group_are_the_same_as_the_plain_way(void **state)
{
    stk_trace *trace = open_both();
    stk_table *fast = query(trace, "SELECT name, sum(dur), count(*) FROM slice GROUP BY name");
    stk_table *plain = query(trace, "SELECT name, sum(dur), count(*) FROM slice WHERE 1 GROUP BY name");
    for (int64_t row = 0; row < stk_table_rows(fast); row++) {
        char expected[256];
        show(plain, 1, row, expected, sizeof expected);
        assert_cell(fast, 1, row, expected);
    }
    assert_int_equal(stk_table_rows(fast), stk_table_rows(plain));
    stk_table_free(fast);
    stk_table_free(plain);
    stk_trace_close(trace);
}

/* ---- cancelling and threads ---- */

typedef struct asking {
    stk_trace *trace;
    stk_status status;
    atomic_bool started;
} asking;

static const char endless[] = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

static void *ask_endless(void *arg)
{
    asking *a = arg;
    stk_table *table = NULL;
    a->started = true;
    a->status = stk_trace_query(a->trace, endless, &table, NULL);
    stk_table_free(table);
    return NULL;
}

static void cancel_ends_questions_in_all_threads_until_it_is_lifted(void **state)
{
    asking asked[2] = {{.trace = open_both()}};
    asked[1].trace = asked[0].trace;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_endless, &asked[i]), 0);
    while (!asked[0].started || !asked[1].started)
        sched_yield();
    stk_trace_cancel(asked[0].trace, true);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(asked[i].status, STK_CANCELLED);
    }
    stk_table *table = NULL;
    char *text = NULL;
    assert_int_equal(stk_trace_query(asked[0].trace, "SELECT 1", &table, NULL), STK_CANCELLED);
    assert_int_equal(stk_trace_top(asked[0].trace, NULL, &table, NULL), STK_CANCELLED);
    assert_int_equal(stk_trace_diagnose(asked[0].trace, NULL, &text, NULL, NULL), STK_CANCELLED);
    assert_int_equal(stk_trace_table(asked[0].trace, "slice", &table, NULL), STK_CANCELLED);
    assert_null(table);
    assert_null(text);
    stk_trace_cancel(asked[0].trace, false);
    table = query(asked[0].trace, "SELECT count(*) FROM slice");
    stk_table_free(table);
    stk_trace_close(asked[0].trace);
}

static void *ask_much(void *arg)
{
    asking *a = arg;
    for (int i = 0; i < 30 && a->status == STK_OK; i++) {
        stk_table *tables[3] = {NULL};
        struct ArrowArray array;
        a->status = stk_trace_query(a->trace, "SELECT name, sum(dur) FROM slice GROUP BY name", &tables[0], NULL);
        if (a->status == STK_OK)
            a->status = stk_trace_table(a->trace, "slice", &tables[1], NULL);
        if (a->status == STK_OK)
            a->status = stk_trace_top(a->trace, NULL, &tables[2], NULL);
        if (a->status == STK_OK && (a->status = stk_table_export(tables[1], NULL, &array, NULL)) == STK_OK)
            array.release(&array);
        for (int k = 0; k < 3; k++)
            stk_table_free(tables[k]);
    }
    return NULL;
}

static void several_threads_ask_at_once(void **state)
{
    enum { THREADS = 4 };
    asking asked[THREADS] = {{.trace = open_both()}};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        asked[i].trace = asked[0].trace;
        assert_int_equal(pthread_create(&threads[i], NULL, ask_much, &asked[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(asked[i].status, STK_OK);
    }
    stk_trace_close(asked[0].trace);
}

/* ---- totals and the verdict ---- */

static void top_takes_words_patterns_and_a_limit(void **state)
{
    stk_trace *trace = open_both();
    stk_table *table = NULL;
    stk_top_options o = {.struct_size = sizeof o, .pattern = "ProfilerStep*", .sort = "name", .limit = 2};
    assert_int_equal(stk_trace_top(trace, &o, &table, NULL), STK_OK);
    assert_int_equal(stk_table_rows(table), 1);
    assert_cell(table, column_of(table, "name"), 0, "'ProfilerStep#*'");
    assert_cell(table, column_of(table, "count"), 0, "3");
    assert_cell(table, column_of(table, "total_ns"), 0, "300000");
    assert_cell(table, column_of(table, "self_ns"), 0, "210000");
    assert_cell(table, column_of(table, "source"), 0, "'slices'");
    stk_table_free(table);
    o = (stk_top_options){.struct_size = sizeof o, .limit = 2};
    assert_int_equal(stk_trace_top(trace, &o, &table, NULL), STK_OK);
    assert_int_equal(stk_table_rows(table), 4); /* two of each source */
    stk_table_free(table);
    o = (stk_top_options){.struct_size = sizeof o, .pattern = "main*"};
    assert_int_equal(stk_trace_top(trace, &o, &table, NULL), STK_OK);
    assert_cell(table, column_of(table, "source"), 0, "'samples'");
    assert_cell(table, column_of(table, "total"), 0, "11");
    assert_cell(table, column_of(table, "total_ns"), 0, "NULL"); /* they are no times */
    stk_table_free(table);
    stk_trace_close(trace);
}

static void top_refuses_words_it_does_not_know(void **state)
{
    stk_trace *trace = open_both();
    stk_table *table = NULL;
    const stk_top_options cases[] = {
        {.struct_size = sizeof cases[0], .by = "thred"},
        {.struct_size = sizeof cases[0], .sort = "totl"},
        {.struct_size = sizeof cases[0], .limit = -1},
        {.struct_size = 3},
    };
    static const char *const messages[] = {"did you mean 'thread'", "did you mean 'total'", "limit is -1",
                                           "struct_size"};
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk_error err;
        stk_error_clear(&err);
        assert_int_equal(stk_trace_top(trace, &cases[i], &table, &err), STK_INVALID);
        assert_non_null(strstr(err.message, messages[i]));
    }
    assert_null(table);
    stk_trace_close(trace);
}

static void the_verdict_comes_as_text_and_as_json(void **state)
{
    stk_trace *trace = open_both();
    char *text = NULL, *json = NULL;
    assert_int_equal(stk_trace_diagnose(trace, NULL, &text, &json, NULL), STK_OK);
    assert_non_null(strstr(text, "nput-bound"));
    assert_int_equal(json[0], '{');
    assert_non_null(strstr(json, "\"verdict\":"));
    stk__free(text);
    stk__free(json);
    const stk_diagnose_options four = {.struct_size = sizeof four, .what_if = 4};
    assert_int_equal(stk_trace_diagnose(trace, &four, NULL, NULL, NULL), STK_OK);
    stk_error err;
    stk_error_clear(&err);
    text = NULL;
    const stk_diagnose_options half = {.struct_size = sizeof half, .what_if = 0.5};
    assert_int_equal(stk_trace_diagnose(trace, &half, &text, NULL, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "0.5"));
    assert_null(text);
    stk_trace_close(trace);
}

/* ---- memory that runs out ---- */

static stk_status everything(stk_trace **trace, stk_table **table, stk_error *err)
{
    const char *paths[] = {path_of("a.json"), path_of("b.*")};
    struct ArrowSchema schema;
    struct ArrowArray array;
    struct ArrowArrayStream stream;
    char *text = NULL, *json = NULL;
    STK_TRY(stk_trace_open(paths, 2, NULL, trace, err));
    STK_TRY(stk_trace_table(*trace, "slice", table, err));
    STK_TRY(stk_table_export(*table, &schema, &array, err));
    schema.release(&schema);
    array.release(&array);
    STK_TRY(stk_table_export_stream(*table, &stream, err));
    stream.release(&stream);
    stk_table_free(*table);
    *table = NULL;
    STK_TRY(stk_trace_query(
        *trace, "SELECT name, 1, 2.5, NULL AS \"1\", ts FROM slice UNION ALL VALUES (1, 'a', x'00', 3, NULL)", table,
        err));
    STK_TRY(stk_table_export(*table, NULL, &array, err));
    array.release(&array);
    stk_table_free(*table);
    *table = NULL;
    STK_TRY(stk_trace_top(*trace, NULL, table, err));
    STK_TRY(stk_trace_diagnose(*trace, NULL, &text, &json, err));
    stk__free(text);
    stk__free(json);
    return STK_OK;
}

static void memory_that_runs_out_is_an_error_and_nothing_is_lost(void **state)
{
    stk_status status = STK_NOMEM;
    for (uint64_t n = 1; status != STK_OK; n++) {
        stk_trace *trace = NULL;
        stk_table *table = NULL;
        stk_error err;
        stk_error_clear(&err);
        stk__alloc_fail_at(n, false);
        status = everything(&trace, &table, &err);
        stk__alloc_fail_at(0, false);
        if (status != STK_OK)
            assert_true(err.message[0]);
        stk_table_free(table);
        stk_trace_close(trace);
        assert_true(n < 100000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_reads_a_file_given_twice_once),
        cmocka_unit_test(open_refuses_what_is_no_trace),
        cmocka_unit_test(open_stops_when_progress_says_so),
        cmocka_unit_test(own_tables_have_the_values_of_sql),
        cmocka_unit_test(every_table_and_view_can_be_had),
        cmocka_unit_test(a_name_that_is_no_table_is_told_with_those_that_are),
        cmocka_unit_test(the_trace_itself_is_a_row_of_counts),
        cmocka_unit_test(an_export_of_slices_copies_neither_numbers_nor_names),
        cmocka_unit_test(arrays_hold_what_the_cells_say),
        cmocka_unit_test(an_array_outlives_table_and_trace_and_its_parent),
        cmocka_unit_test(a_stream_gives_one_array_and_its_end),
        cmocka_unit_test(a_result_without_rows_keeps_the_types_of_its_tables),
        cmocka_unit_test(columns_take_the_type_that_fits_all_values),
        cmocka_unit_test(names_of_columns_differ),
        cmocka_unit_test(a_query_is_one_select),
        cmocka_unit_test(totals_by_group_are_the_same_as_the_plain_way),
        cmocka_unit_test(cancel_ends_questions_in_all_threads_until_it_is_lifted),
        cmocka_unit_test(several_threads_ask_at_once),
        cmocka_unit_test(top_takes_words_patterns_and_a_limit),
        cmocka_unit_test(top_refuses_words_it_does_not_know),
        cmocka_unit_test(the_verdict_comes_as_text_and_as_json),
        cmocka_unit_test(memory_that_runs_out_is_an_error_and_nothing_is_lost),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
