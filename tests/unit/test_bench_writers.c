/* The list of formats, and those that newer tools brought: hyperfine 2, pytest-benchmark, CSV, Markdown, Bencher. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/mem.h"
#include "bench/interchange.h"
#include "bench_results.h"
#include "bench_files.h"

static stk__result read_as(const char *text, stk__bench_format format)
{
    stk__result r = {0};
    stk_error err;
    stk_error_clear(&err);
    if (stk__bench_read(text, strlen(text), "f", format, &r, &err) != STK_OK)
        fail_msg("%s", err.message);
    return r;
}

static void refuses(const char *text, const char *part)
{
    stk__result r = {0};
    stk_error err;
    stk_error_clear(&err);
    assert_int_not_equal(stk__bench_read(text, strlen(text), "f", STK__BENCH_UNKNOWN, &r, &err), STK_OK);
    if (!strstr(err.message, part))
        fail_msg("'%s' is not in '%s'", part, err.message);
}

/* Two variants of seven runs, with a parameter; wall is known, and rss of the second. */
static stk__result make_result(const char *first, const char *command)
{
    stk__result r;
    results_start(&r, (const char *const[]){first, "stored"}, 2);
    stk__free(r.variants[0].command);
    r.variants[0].command = stk__strdup(command);
    assert_int_equal(stk__result_add_parameter(&r, 0, "n", "-1", NULL), STK_OK);
    assert_int_equal(stk__result_add_parameter(&r, 1, "n", "=2", NULL), STK_OK);
    results_fill(&r, 0, 7, 0.5, 0.0625);
    results_fill(&r, 1, 7, 0.25, 0.03125);
    results_set(&r, 1, STK__RSS, 4096);
    return r;
}

/* ---- the list ---- */

static size_t count_words(const char *words, bool (*has)(stk__bench_format))
{
    size_t count = 0;
    for (const char *at = words; *at; count++) {
        const size_t size = strcspn(at, " ");
        char *word = stk__strndup(at, size);
        const stk__bench_format format = stk__bench_format_find(word);
        assert_int_not_equal(format, STK__BENCH_UNKNOWN);
        assert_string_equal(stk__bench_format_name(format), word);
        assert_true(has(format));
        stk__free(word);
        at += size + (at[size] == ' ');
    }
    return count;
}

static void words_name_every_format_that_is_read_or_written(void **state)
{
    size_t read = 0, written = 0;
    for (int f = STK__BENCH_UNKNOWN + 1; f < STK__BENCH_FORMAT_COUNT; f++) {
        read += stk__bench_format_is_read((stk__bench_format)f);
        written += stk__bench_format_is_written((stk__bench_format)f);
    }
    assert_int_equal(count_words(STK__BENCH_READ_WORDS, stk__bench_format_is_read), read);
    assert_int_equal(count_words(STK__BENCH_WRITTEN_WORDS, stk__bench_format_is_written), written);
    assert_false(stk__bench_format_is_read(STK__BENCH_UNKNOWN) || stk__bench_format_is_written(STK__BENCH_UNKNOWN));
    assert_string_equal(STK__BENCH_READ_LIST, "stoker, hyperfine, hyperfine2, pyperf, google, go, pytest");
}

static void what_is_only_written_is_not_read(void **state)
{
    stk__result r = {0};
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__bench_read("{}", 2, NULL, STK__BENCH_BENCHER, &r, &err), STK_UNSUPPORTED);
    assert_non_null(strstr(err.message, "Bencher are only written"));
    refuses("{}", "hyperfine 2, pyperf, Google Benchmark, Go, pytest-benchmark");
}

/* ---- hyperfine 2 ---- */

#define RUN(wall, code) \
    "{\"time_wall_clock\":{\"value\":" wall ",\"unit\":\"second\"},\"instructions\":{\"value\":7}," code "}"
#define HYPERFINE2(primary, runs)                                                                                \
    "{\"schema_version\":2,\"metadata\":{\"start_time\":\"2026-11-15T16:00:00Z\"},\"primary_metric\":\"" primary \
    "\",\"results\":[{\"command\":\"sleep 1\",\"name\":\"short\",\"parameters\":{\"n\":{\"value\":\"1\"}},"      \
    "\"measurements\":[" runs "]}]}"

static void hyperfine2_is_read_with_every_metric(void **state)
{
    stk__result r =
        read_as(HYPERFINE2("instructions", RUN("0.5", "\"exit_code\":0") "," RUN("0.25", "\"exit_code\":3")),
                STK__BENCH_UNKNOWN);
    const stk__variant *v = &r.variants[0];
    assert_string_equal(v->name, "short");
    assert_string_equal(v->command, "sleep 1");
    assert_string_equal(v->parameters[0].value, "1");
    assert_int_equal(v->runs, 2);
    assert_true(v->values[stk__result_metric(&r, "wall")][1] == 0.25);
    assert_string_equal(r.metrics[r.primary].name, "instructions");
    assert_string_equal(r.metrics[r.primary].unit, "instructions"); /* as our own are */
    assert_int_equal(v->exit_codes[1], 3);
    assert_true(has_note(&r, "1 runs ended with an exit code"));
    assert_int_equal(r.time_s, 1794758400);
    stk__result_clear(&r);
}

static void hyperfine2_tells_the_place_of_what_is_wrong(void **state)
{
    refuses(HYPERFINE2("x", RUN("-1", "\"exit_code\":0")), "results[0].measurements[0].time_wall_clock.value is -1");
    refuses(HYPERFINE2("x", RUN("1", "\"exit_code\":0.5")), "results[0].measurements[0].exit_code is 0.5");
    refuses(HYPERFINE2("x", "7"), "results[0].measurements[0] is 7, wanted an object");
    refuses(HYPERFINE2("x", ""), "no values of single runs");
    refuses("{\"schema_version\":2,\"results\":[{\"command\":\"x\"}]}", "results[0].measurements is not there");
}

static void hyperfine2_comes_back(void **state)
{
    stk__result r = make_result("lazy", "sleep 1");
    stk__text text = write_as(&r, NULL, STK__BENCH_HYPERFINE2, NULL);
    stk__result back = read_as(text.data, STK__BENCH_UNKNOWN);
    for (size_t v = 0; v < 2; v++) {
        assert_string_equal(back.variants[v].name, r.variants[v].name);
        assert_string_equal(back.variants[v].command, r.variants[v].command);
        assert_string_equal(back.variants[v].parameters[0].value, r.variants[v].parameters[0].value);
        for (size_t i = 0; i < 7; i++)
            assert_true(back.variants[v].values[0][i] == r.variants[v].values[STK__WALL][i]);
    }
    assert_true(back.variants[1].values[stk__result_metric(&back, "rss")][6] == 4096);
    assert_true(isnan(back.variants[0].values[stk__result_metric(&back, "rss")][6]));
    stk__text_clear(&text);
    stk__result_clear(&back);
    stk__result_clear(&r);
}

/* ---- pytest-benchmark ---- */

#define PYTEST(benchmarks)                                                                                          \
    "{\"machine_info\":{\"system\":\"Linux\",\"release\":\"6.18\",\"python_implementation\":\"CPython\","           \
    "\"python_version\":\"3.11\",\"cpu\":{\"brand_raw\":\"Xeon\",\"count\":2}},\"version\":\"5.3.1\",\"datetime\":" \
    "\"2026-11-15T16:00:00.5+00:00\",\"benchmarks\":[" benchmarks "]}"

static void pytest_rounds_are_read_in_their_groups(void **state)
{
    stk__result r = read_as(
        PYTEST("{\"name\":\"a\",\"fullname\":\"t.py::a\",\"group\":null,\"stats\":{\"data\":[1,2]}},"
               "{\"name\":\"b\",\"fullname\":\"t.py::b\",\"group\":\"g\",\"params\":{\"t\":[1,null],\"s\":\"x\"},"
               "\"extra_info\":{\"k\":1},\"options\":{\"timer\":\"process_time\"},\"stats\":{\"data\":[3]}},"
               "{\"name\":\"c\",\"fullname\":\"t.py::c\",\"group\":null,\"stats\":{\"data\":[5]}},"
               "{\"name\":\"d\",\"fullname\":\"t.py::d\",\"stats\":{\"mean\":5}}"),
        STK__BENCH_UNKNOWN);
    assert_int_equal(r.variant_count, 3);
    assert_string_equal(r.variants[0].name, "t.py::a");
    assert_int_equal(r.variants[0].runs, 2);
    assert_true(r.variants[0].values[0][1] == 2);
    assert_int_equal(r.variants[0].group, r.variants[2].group);
    assert_int_not_equal(r.variants[0].group, r.variants[1].group);
    assert_string_equal(r.variants[1].parameters[0].value, "[1.0,null]");
    assert_string_equal(r.machine, "Xeon, 2 cores, Linux 6.18, CPython 3.11");
    assert_int_equal(r.time_s, 1794758400);
    assert_true(has_note(&r, "1 of 4 benchmarks have statistics only"));
    assert_true(has_note(&r, "not independent"));
    assert_true(has_note(&r, "timer of 1 benchmarks counts CPU time"));
    assert_true(has_note(&r, "extra_info of 1"));
    stk__result_clear(&r);
}

static void pytest_without_rounds_says_how_to_get_them(void **state)
{
    refuses(PYTEST("{\"fullname\":\"a\",\"stats\":{\"mean\":5}}"), "--benchmark-save-data");
    refuses(PYTEST("{\"fullname\":\"a\",\"stats\":{\"data\":[1,\"x\"]}}"), "benchmarks[0].stats.data[1] is \"x\"");
    refuses(PYTEST("{\"fullname\":\"a\",\"stats\":{\"data\":7}}"), "benchmarks[0].stats.data is 7, wanted a list");
    refuses(PYTEST("{\"stats\":{\"data\":[1]}}"), "benchmarks[0].fullname is not there");
    refuses(PYTEST(""), "no values of single runs");
}

/* ---- CSV, Markdown ---- */

static void csv_has_a_line_for_each_run(void **state)
{
    stk__result r = make_result("lazy", "cat a,b \"c\"");
    stk__text notes = STK__TEXT_INIT, text = write_as(&r, NULL, STK__BENCH_CSV, &notes);
    assert_ptr_equal(strstr(text.data, "variant,command,round,exit_code,parameter_n,wall,rss\n"
                                       "lazy,\"cat a,b \"\"c\"\"\",1,0,-1,0.375,\n"),
                     text.data);
    assert_non_null(strstr(text.data, "\nstored,true,7,0,'=2,0.25,4096\n"));
    assert_non_null(strstr(notes.data, "7 fields of the CSV file got an apostrophe"));
    size_t lines = 0;
    for (const char *at = text.data; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, 15);
    stk__text_clear(&text);
    stk__text_clear(&notes);
    stk__result_clear(&r);
}

static void csv_disarms_formulas(void **state)
{
    static const char *const names[] = {"=1+1", "+x", "-x", "@x", "\tx"};
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        stk__result r = make_result(names[i], "=cmd|' /C calc'!A0");
        stk__text text = write_as(&r, NULL, STK__BENCH_CSV, NULL);
        const char *line = strchr(text.data, '\n') + 1;
        assert_int_equal(line[0], '\'');
        assert_non_null(strstr(line, ",'=cmd|"));
        assert_null(strstr(text.data, ",="));
        stk__text_clear(&text);
        stk__result_clear(&r);
    }
}

static void markdown_is_the_report_without_marks(void **state)
{
    stk__result r = make_result("a|b", "x");
    const stk__rule rule = {.confidence = 0.95, .min_effect = 0.02, .margin = 0.02};
    stk__comparisons c;
    assert_int_equal(stk__compare(&r, &rule, &(stk__compare_pair){0, 1}, 1, STK__WALL, &c, NULL), STK_OK);
    stk__text text = write_as(&r, &c, STK__BENCH_MARKDOWN, NULL);
    assert_ptr_equal(strstr(text.data, "| | variant | wall | n |"), text.data);
    assert_non_null(strstr(text.data, "| A | a\\|b |"));
    assert_non_null(strstr(text.data, "| B/A | 0.500 |"));
    assert_null(strstr(text.data, "<!--"));
    stk__text_clear(&text);
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
}

/* ---- Bencher ---- */

static double number_at(const json_t *root, const char *benchmark, const char *measure, const char *key)
{
    return json_number_value(json_object_get(json_object_get(json_object_get(root, benchmark), measure), key));
}

static void bencher_has_medians_in_nanoseconds(void **state)
{
    stk__result r = make_result("lazy", "x");
    stk__text text = write_as(&r, NULL, STK__BENCH_BENCHER, NULL);
    json_t *root = json_loads(text.data, 0, NULL);
    assert_int_equal(json_object_size(root), 2);
    assert_true(number_at(root, "lazy", "latency", "value") == 0.5e9);
    assert_true(number_at(root, "lazy", "latency", "lower_value") == 0.375e9);
    assert_true(number_at(root, "lazy", "latency", "upper_value") == 0.625e9);
    assert_true(number_at(root, "stored", "rss", "value") == 4096);
    assert_null(json_object_get(json_object_get(root, "lazy"), "rss"));
    json_decref(root);
    stk__text_clear(&text);
    stk__result_clear(&r);
}

static void bencher_names_fit_and_differ(void **state)
{
    char names[2][1201];
    for (size_t i = 0; i < 2; i++) {
        memset(names[i], 'x', 1200);
        names[i][1199] = (char)('0' + i);
        names[i][1200] = 0;
    }
    stk__result r = {.floor_s = NAN};
    assert_int_equal(stk__result_add_metric(&r, "done_per_s", "done/s", true, NULL, NULL), STK_OK);
    for (size_t v = 0; v < 2; v++) {
        assert_int_equal(stk__result_add_variant(&r, names[v], "x", 0, NULL, NULL), STK_OK);
        assert_int_equal(stk__result_add_run(&r, v, &(double){7}, 0, NULL), STK_OK);
    }
    stk__text text = write_as(&r, NULL, STK__BENCH_BENCHER, NULL);
    json_t *root = json_loads(text.data, 0, NULL);
    assert_int_equal(json_object_size(root), 2);
    for (void *at = json_object_iter(root); at; at = json_object_iter_next(root, at)) {
        assert_true(strlen(json_object_iter_key(at)) <= 1024);
        assert_true(number_at(root, json_object_iter_key(at), "throughput", "value") == 7);
    }
    json_decref(root);
    stk__text_clear(&text);
    stk__result_clear(&r);
}

/* Bencher refuses a whole file for one blank at the end of a name. */
static void bencher_names_have_no_blanks_at_their_ends(void **state)
{
    char metric[81];
    memset(metric, 'm', 80);
    metric[59] = ' ';
    metric[80] = 0;
    stk__result r = {.floor_s = NAN};
    assert_int_equal(stk__result_add_metric(&r, metric, "points", false, NULL, NULL), STK_OK);
    const char *const names[] = {" \ta b\n", "a b", " "};
    for (size_t v = 0; v < STK_COUNT(names); v++) {
        assert_int_equal(stk__result_add_variant(&r, names[v], "x", 0, NULL, NULL), STK_OK);
        assert_int_equal(stk__result_add_run(&r, v, &(double){7}, 0, NULL), STK_OK);
    }
    metric[59] = 0;
    stk__text text = write_as(&r, NULL, STK__BENCH_BENCHER, NULL);
    json_t *root = json_loads(text.data, 0, NULL);
    assert_true(number_at(root, "a b", metric, "value") == 7);
    assert_true(number_at(root, "a b #2", metric, "value") == 7);
    assert_true(number_at(root, "(no name)", metric, "value") == 7);
    json_decref(root);
    stk__text_clear(&text);
    stk__result_clear(&r);
}

static void writers_tell_when_memory_is_out(void **state)
{
    stk__result r = make_result("=lazy", "x");
    const stk__bench_format formats[] = {STK__BENCH_CSV, STK__BENCH_BENCHER, STK__BENCH_HYPERFINE2,
                                         STK__BENCH_MARKDOWN};
    for (size_t f = 0; f < STK_COUNT(formats); f++) {
        bool done = false;
        for (uint64_t n = 1; !done; n++) {
            stk__text text = STK__TEXT_INIT;
            stk__alloc_fail_at(n, false);
            const stk_status status = stk__bench_write(&r, NULL, formats[f], &text, NULL, NULL);
            stk__alloc_fail_at(0, false);
            done = status == STK_OK;
            assert_true(done || status == STK_NOMEM);
            stk__text_clear(&text);
        }
    }
    stk__result_clear(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_name_every_format_that_is_read_or_written),
        cmocka_unit_test(what_is_only_written_is_not_read),
        cmocka_unit_test(hyperfine2_is_read_with_every_metric),
        cmocka_unit_test(hyperfine2_tells_the_place_of_what_is_wrong),
        cmocka_unit_test(hyperfine2_comes_back),
        cmocka_unit_test(pytest_rounds_are_read_in_their_groups),
        cmocka_unit_test(pytest_without_rounds_says_how_to_get_them),
        cmocka_unit_test(csv_has_a_line_for_each_run),
        cmocka_unit_test(csv_disarms_formulas),
        cmocka_unit_test(markdown_is_the_report_without_marks),
        cmocka_unit_test(bencher_has_medians_in_nanoseconds),
        cmocka_unit_test(bencher_names_fit_and_differ),
        cmocka_unit_test(bencher_names_have_no_blanks_at_their_ends),
        cmocka_unit_test(writers_tell_when_memory_is_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
