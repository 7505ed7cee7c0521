/* Benchmark files: what is written reads back, what other tools write is read, joins, bad files with their places. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/mem.h"
#include "bench/import.h"
#include "bench/interchange.h"
#include "repeated.h"
#include "bench_files.h"

static stk__result read_text(const char *text)
{
    stk__result r = {0};
    stk_error err;
    stk_error_clear(&err);
    const stk_status status = stk__bench_read(text, strlen(text), "f", STK__BENCH_UNKNOWN, &r, &err);
    if (status != STK_OK)
        fail_msg("%s", err.message);
    return r;
}

static const stk__variant *variant_of(const stk__result *r, const char *name)
{
    const size_t i = stk__result_variant(r, name);
    if (i == SIZE_MAX)
        fail_msg("no variant '%s'", name);
    return &r->variants[i];
}

static double value_of(const stk__result *r, const char *variant, const char *metric, size_t run)
{
    const size_t m = stk__result_metric(r, metric);
    if (m == SIZE_MAX)
        fail_msg("no metric '%s'", metric);
    assert_true(run < variant_of(r, variant)->runs);
    return variant_of(r, variant)->values[m][run];
}

static void assert_close(double a, double b)
{
    if (!(fabs(a - b) <= 1e-12 * fabs(b)))
        fail_msg("%.17g is not %.17g", a, b);
}

static void assert_same_text(const char *a, const char *b)
{
    assert_int_equal(!a, !b);
    if (a)
        assert_string_equal(a, b);
}

static void assert_variants_equal(const stk__variant *a, const stk__variant *b, size_t metric_count)
{
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->command, b->command);
    assert_same_text(a->withheld, b->withheld);
    assert_int_equal(a->group, b->group);
    assert_int_equal(a->runs, b->runs);
    assert_int_equal(a->parameter_count, b->parameter_count);
    for (size_t i = 0; i < a->parameter_count; i++) {
        assert_string_equal(a->parameters[i].name, b->parameters[i].name);
        assert_string_equal(a->parameters[i].value, b->parameters[i].value);
    }
    for (size_t i = 0; i < a->runs; i++) {
        assert_int_equal(a->exit_codes ? a->exit_codes[i] : 0, b->exit_codes ? b->exit_codes[i] : 0);
        for (size_t m = 0; m < metric_count; m++)
            assert_true(a->values[m][i] == b->values[m][i] || (isnan(a->values[m][i]) && isnan(b->values[m][i])));
    }
}

static void assert_results_equal(const stk__result *a, const stk__result *b)
{
    assert_int_equal(a->metric_count, b->metric_count);
    for (size_t i = 0; i < a->metric_count; i++) {
        assert_string_equal(a->metrics[i].name, b->metrics[i].name);
        assert_string_equal(a->metrics[i].unit, b->metrics[i].unit);
        assert_int_equal(a->metrics[i].higher_is_better, b->metrics[i].higher_is_better);
    }
    assert_int_equal(a->variant_count, b->variant_count);
    for (size_t i = 0; i < a->variant_count; i++)
        assert_variants_equal(&a->variants[i], &b->variants[i], a->metric_count);
    assert_int_equal(a->primary, b->primary);
    assert_int_equal(a->paired, b->paired);
    assert_int_equal(a->interrupted, b->interrupted);
    assert_true(a->seed == b->seed);
    assert_int_equal(a->dropped, b->dropped);
    assert_int_equal(a->retaken, b->retaken);
    assert_int_equal(a->warmup, b->warmup);
    assert_true(a->floor_s == b->floor_s || (isnan(a->floor_s) && isnan(b->floor_s)));
    assert_true(a->time_s == b->time_s);
    assert_same_text(a->machine, b->machine);
    assert_same_text(a->limits, b->limits);
    assert_int_equal(a->note_count, b->note_count);
    for (size_t i = 0; i < a->note_count; i++)
        assert_string_equal(a->notes[i], b->notes[i]);
}

/* Two variants with all measures and one metric more, values without short forms, one of them not known. */
static stk__result make_result(size_t runs)
{
    stk__result r = {.paired = true, .seed = UINT64_MAX - 1, .dropped = 1, .retaken = 2, .warmup = 3};
    r.floor_s = 0.00123;
    r.time_s = 1794758400; /* 2026-11-15T16:00:00Z */
    r.machine = stk__strdup("AMD \"EPYC\", 2 cores, Linux 6.18");
    r.limits = stk__strdup("1 CPU");
    assert_int_equal(stk__result_add_measures(&r, NULL), STK_OK);
    assert_int_equal(stk__result_add_metric(&r, "rate", "samples/s", true, NULL, NULL), STK_OK);
    assert_int_equal(stk__result_add_variant(&r, "lazy", "python t.py --lazy", 0, NULL, NULL), STK_OK);
    assert_int_equal(stk__result_add_variant(&r, "stored x-2", "python t.py\t'\xc3\xa9'\n", 0, NULL, NULL), STK_OK);
    assert_int_equal(stk__result_add_parameter(&r, 1, "threads", "2", NULL), STK_OK);
    r.variants[1].withheld = stk__strdup("its output differs");
    for (size_t i = 0; i < runs; i++) {
        for (size_t v = 0; v < 2; v++) {
            double values[STK__MEASURES + 1];
            for (size_t m = 0; m <= STK__MEASURES; m++)
                values[m] = (1 + (double)m) / 3 + (double)(i * i) / 700 + (double)v / 9;
            values[STK__RSS] = 1e6 + (double)(i * 4096);
            values[STK__STEAL] = i == 1 ? NAN : 0.0625;
            assert_int_equal(stk__result_add_run(&r, v, values, v == 1 && i == 2 ? 7 : 0, NULL), STK_OK);
        }
    }
    assert_int_equal(stk__result_note(&r, NULL, "a note with \"quotes\""), STK_OK);
    assert_int_equal(stk__result_note(&r, NULL, "another"), STK_OK);
    return r;
}

/* ---- stoker ---- */

static void stoker_result_reads_back_equal(void **state)
{
    stk__result r = make_result(8);
    stk__text text = write_as(&r, NULL, STK__BENCH_STOKER, NULL);
    assert_non_null(strstr(text.data, "\"time\":\"2026-11-15T16:00:00Z\""));
    assert_ptr_equal(strchr(text.data, '\n'), text.data + text.length - 1);
    stk__result back = read_text(text.data);
    assert_results_equal(&r, &back);
    stk__text again = write_as(&back, NULL, STK__BENCH_STOKER, NULL);
    assert_string_equal(text.data, again.data);
    stk__text_clear(&text);
    stk__text_clear(&again);
    stk__result_clear(&r);
    stk__result_clear(&back);
}

static json_t *written_json(const stk__result *r, const stk__comparisons *c, stk__bench_format format)
{
    stk__text text = write_as(r, c, format, NULL);
    json_t *root = json_loadb(text.data, text.length, 0, NULL);
    assert_non_null(root);
    stk__text_clear(&text);
    return root;
}

static void stoker_comparisons_have_their_figures(void **state)
{
    stk__result r = make_result(8);
    const stk__rule rule = {.confidence = 0.95, .min_effect = 0.02, .margin = 0.02};
    const stk__compare_pair pair = {0, 1};
    stk__comparisons c;
    stk__free(r.variants[1].withheld);
    r.variants[1].withheld = NULL;
    assert_int_equal(stk__compare(&r, &rule, &pair, 1, STK__WALL, &c, NULL), STK_OK);
    json_t *root = written_json(&r, &c, STK__BENCH_STOKER);
    const json_t *x = json_array_get(json_object_get(root, "comparisons"), 0);
    assert_string_equal(json_string_value(json_object_get(x, "a")), "lazy");
    assert_string_equal(json_string_value(json_object_get(x, "b")), "stored x-2");
    assert_string_equal(json_string_value(json_object_get(x, "metric")), "wall");
    assert_string_equal(json_string_value(json_object_get(x, "verdict")), "slower");
    assert_string_equal(json_string_value(json_object_get(x, "test")), "Wilcoxon (exact)");
    assert_true(json_number_value(json_object_get(x, "ratio")) == c.items[0].ratio);
    assert_true(json_number_value(json_object_get(x, "ci_low")) == c.items[0].low);
    assert_true(json_number_value(json_object_get(x, "ci_high")) == c.items[0].high);
    assert_true(json_number_value(json_object_get(x, "p")) == c.items[0].p_holm);
    assert_true(json_number_value(json_object_get(x, "p_raw")) == c.items[0].p);
    assert_true(json_number_value(json_object_get(x, "median_ratio")) == c.items[0].median);
    assert_true(json_number_value(json_object_get(x, "mean_ratio")) == c.items[0].means.ratio);
    assert_true(json_number_value(json_object_get(x, "p_mean")) == c.items[0].means.p);
    assert_true(json_is_null(json_object_get(x, "by_cpu"))); /* wall time tells */
    assert_true(json_is_null(json_object_get(x, "more_rounds")));
    assert_true(json_number_value(json_object_get(root, "confidence")) == 0.95);
    const json_t *a = json_array_get(json_object_get(root, "variants"), 0);
    assert_int_equal(json_integer_value(json_object_get(a, "n")), 8);
    assert_string_equal(json_string_value(json_object_get(a, "label")), "A");
    assert_int_equal(json_array_size(json_object_get(a, "times")), 8);
    json_decref(root);
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
}

static void stoker_comparison_without_figures_is_null(void **state)
{
    stk__result r = make_result(8);
    stk__comparison item = {.b = 1, .paired = false, .ratio = 3, .p = 0.5, .withheld = stk__strdup("zero")};
    const stk__comparisons c = {.items = &item, .count = 1, .rule = {.confidence = 0.9}};
    json_t *root = written_json(&r, &c, STK__BENCH_STOKER);
    const json_t *x = json_array_get(json_object_get(root, "comparisons"), 0);
    const char *const keys[] = {"ratio", "ci_low", "ci_high", "p", "p_raw", "mean_ratio", "p_mean", "far_above"};
    for (size_t i = 0; i < STK_COUNT(keys); i++)
        assert_true(json_is_null(json_object_get(x, keys[i])));
    assert_string_equal(json_string_value(json_object_get(x, "verdict")), "inconclusive");
    assert_string_equal(json_string_value(json_object_get(x, "withheld")), "zero");
    json_decref(root);
    stk__free(item.withheld);
    stk__result_clear(&r);
}

/* ---- hyperfine ---- */

static const char hyperfine_text[] =
    "{\"results\":[{\"command\":\"sleep 1\",\"mean\":1.5,\"stddev\":0.7,\"median\":1.5,\"user\":0.1,\"system\":0.2,"
    "\"min\":1,\"max\":2,\"times\":[1,2],\"memory_usage_byte\":[4096,null],\"exit_codes\":[0,null],"
    "\"parameters\":{\"n\":\"1\",\"m\":0.5}},"
    "{\"command\":\"sleep 1\",\"times\":[3.5]},{\"command\":\"old\",\"mean\":3}]}";

static void hyperfine_file_is_read(void **state)
{
    stk__result r = read_text(hyperfine_text);
    assert_int_equal(r.variant_count, 2);
    assert_false(r.paired);
    assert_true(value_of(&r, "sleep 1", "wall", 1) == 2);
    assert_true(value_of(&r, "sleep 1", "rss", 0) == 4096);
    assert_true(isnan(value_of(&r, "sleep 1", "rss", 1)));
    assert_true(value_of(&r, "sleep 1 #2", "wall", 0) == 3.5);
    assert_int_equal(variant_of(&r, "sleep 1")->exit_codes[1], -1);
    assert_string_equal(variant_of(&r, "sleep 1")->parameters[0].value, "1");
    assert_string_equal(variant_of(&r, "sleep 1")->parameters[1].value, "0.5");
    assert_string_equal(variant_of(&r, "sleep 1 #2")->command, "sleep 1");
    assert_true(has_note(&r, "1 of 3 results have no times"));
    assert_true(has_note(&r, "user and system times were left out"));
    assert_true(has_note(&r, "1 runs ended with an exit code"));
    stk__result_clear(&r);
}

static void hyperfine_text_reads_back(void **state)
{
    stk__result r = make_result(4);
    stk__text notes = STK__TEXT_INIT, text = write_as(&r, NULL, STK__BENCH_HYPERFINE, &notes);
    assert_non_null(strstr(notes.data, "of 2 the name was written"));
    assert_non_null(strstr(notes.data, "means only"));
    stk__result back = read_text(text.data);
    assert_int_equal(back.variant_count, 2);
    for (size_t i = 0; i < 4; i++) {
        assert_true(value_of(&back, "stored x-2", "wall", i) == value_of(&r, "stored x-2", "wall", i));
        assert_true(value_of(&back, "stored x-2", "rss", i) == value_of(&r, "stored x-2", "rss", i));
    }
    assert_int_equal(back.variants[1].exit_codes[2], 7);
    assert_string_equal(back.variants[1].parameters[0].name, "threads");
    stk__text_clear(&notes);
    stk__text_clear(&text);
    stk__result_clear(&r);
    stk__result_clear(&back);
}

static void rate_is_written_as_wall_time_or_refused(void **state)
{
    stk__result r = make_result(3), rates = {0};
    const double one = 5;
    stk_error err;
    stk_error_clear(&err);
    r.primary = STK__MEASURES;
    stk__text notes = STK__TEXT_INIT, text = write_as(&r, NULL, STK__BENCH_GOOGLE, &notes);
    assert_non_null(strstr(notes.data, "wall was written in place of 'rate' (samples/s)"));
    assert_int_equal(stk__result_add_metric(&rates, "rate", "samples/s", true, NULL, NULL), STK_OK);
    assert_int_equal(stk__result_add_variant(&rates, "a", "a", 0, NULL, NULL), STK_OK);
    assert_int_equal(stk__result_add_run(&rates, 0, &one, 0, NULL), STK_OK);
    assert_int_equal(stk__bench_write(&rates, NULL, STK__BENCH_HYPERFINE, &text, NULL, &err), STK_UNSUPPORTED);
    assert_non_null(strstr(err.message, "'rate' in 'samples/s'"));
    stk__text_reset(&notes);
    stk__text_reset(&text);
    assert_int_equal(stk__bench_write(&rates, NULL, STK__BENCH_PYPERF, &text, &notes, &err), STK_OK);
    assert_non_null(strstr(notes.data, "wrong way round"));
    stk__text_clear(&notes);
    stk__text_clear(&text);
    stk__result_clear(&r);
    stk__result_clear(&rates);
}

/* ---- pyperf ---- */

static const char pyperf_text[] =
    "{\"benchmarks\":[{\"runs\":[{\"metadata\":{\"calibrate_loops\":8},\"warmups\":[[1,0.5],[2,0.4]]},"
    "{\"metadata\":{\"mem_max_rss\":100},\"warmups\":[[8,0.3]],\"values\":[1,2,3]},{\"values\":[5]}]},"
    "{\"metadata\":{\"name\":\"mem\",\"unit\":\"byte\"},\"runs\":[{\"values\":[77]}]}],"
    "\"metadata\":{\"name\":\"telco\",\"unit\":\"second\",\"cpu_count\":2,\"cpu_model_name\":\"X\",\"command\":\"c d\"},"
    "\"version\":\"1.0\"}";

static void pyperf_values_of_a_process_become_one(void **state)
{
    stk__result r = read_text(pyperf_text);
    assert_int_equal(r.variant_count, 2);
    assert_int_equal(variant_of(&r, "telco")->runs, 2);
    assert_true(value_of(&r, "telco", "wall", 0) == 2);
    assert_true(value_of(&r, "telco", "wall", 1) == 5);
    assert_true(value_of(&r, "telco", "rss", 0) == 100);
    assert_true(isnan(value_of(&r, "telco", "rss", 1)));
    assert_true(value_of(&r, "mem", "memory", 0) == 77);
    assert_int_not_equal(variant_of(&r, "telco")->group, variant_of(&r, "mem")->group);
    assert_string_equal(variant_of(&r, "telco")->command, "c d");
    assert_string_equal(r.machine, "X, 2 cores");
    assert_true(has_note(&r, "5 values of 3 processes became one mean for each process"));
    assert_true(has_note(&r, "3 warm-up values"));
    assert_true(has_note(&r, "1 runs without values (calibration)"));
    stk__result_clear(&r);
}

static void pyperf_memory_that_all_runs_share_is_read(void **state)
{
    (void)state;
    stk__result r =
        read_text("{\"version\":\"1.0\",\"metadata\":{\"mem_max_rss\":4096},\"benchmarks\":[{\"metadata\":{\"name\":"
                  "\"x\"},\"runs\":[{\"values\":[1.0]},{\"values\":[2.0]}]}]}");
    const size_t memory = stk__result_metric(&r, "rss");
    assert_true(memory < r.metric_count);
    assert_int_equal(r.variants[0].runs, 2);
    assert_true(r.variants[0].values[memory][0] == 4096 && r.variants[0].values[memory][1] == 4096);
    stk__result_clear(&r);
}

static void pyperf_text_reads_back_without_zeros(void **state)
{
    stk__result r = make_result(4);
    r.variants[0].values[STK__WALL][1] = 0;
    stk__text notes = STK__TEXT_INIT, text = write_as(&r, NULL, STK__BENCH_PYPERF, &notes);
    assert_non_null(strstr(notes.data, "1 values that are not above 0 were left out"));
    stk__result back = read_text(text.data);
    assert_int_equal(variant_of(&back, "lazy")->runs, 3);
    assert_int_equal(variant_of(&back, "stored x-2")->runs, 4);
    assert_true(value_of(&back, "lazy", "wall", 1) == value_of(&r, "lazy", "wall", 2));
    assert_true(value_of(&back, "lazy", "rss", 1) == value_of(&r, "lazy", "rss", 2));
    assert_string_equal(variant_of(&back, "stored x-2")->command, "python t.py '\xc3\xa9'");
    stk__text_clear(&notes);
    stk__text_clear(&text);
    stk__result_clear(&r);
    stk__result_clear(&back);
}

/* ---- Google Benchmark ---- */

static const char google_text[] =
    "{\"context\":{\"date\":\"2026-11-15T18:00:00+02:00\"},\"benchmarks\":["
    "{\"name\":\"BM\",\"run_type\":\"iteration\",\"real_time\":1.5e3,\"cpu_time\":1,\"time_unit\":\"us\",\"iterations\":9,"
    "\"items_per_second\":4,\"mine\":NaN,\"label\":\"NaN \\\" Infinity\"},"
    "{\"name\":\"other\",\"real_time\":2,\"cpu_time\":3,\"time_unit\":\"s\"},"
    "{\"name\":\"BM\",\"run_type\":\"iteration\",\"real_time\":7,\"cpu_time\":2,\"time_unit\":\"ns\",\"mine\":-Infinity},"
    "{\"name\":\"BM_mean\",\"run_type\":\"aggregate\",\"real_time\":7,\"cpu_time\":2,\"time_unit\":\"ns\"},"
    "{\"name\":\"other_stddev\",\"real_time\":NaN,\"cpu_time\":NaN,\"time_unit\":\"ns\"},"
    "{\"name\":\"bad\",\"run_type\":\"iteration\",\"error_occurred\":true,\"error_message\":\"no\"}]}";

static void google_file_is_read(void **state)
{
    stk__result r = read_text(google_text);
    assert_int_equal(r.variant_count, 2);
    assert_int_equal(variant_of(&r, "BM")->runs, 2);
    assert_close(value_of(&r, "BM", "wall", 0), 1.5e-3);
    assert_close(value_of(&r, "BM", "wall", 1), 7e-9);
    assert_close(value_of(&r, "BM", "cpu", 0), 1e-6);
    assert_close(value_of(&r, "other", "cpu", 0), 3);
    assert_true(value_of(&r, "BM", "items_per_second", 0) == 4);
    assert_true(r.metrics[stk__result_metric(&r, "items_per_second")].higher_is_better);
    assert_string_equal(r.metrics[stk__result_metric(&r, "items_per_second")].unit, "items/s");
    assert_true(isnan(value_of(&r, "BM", "mine", 1)));
    assert_true(r.time_s == 1794758400);
    assert_true(has_note(&r, "2 rows of aggregates"));
    assert_true(has_note(&r, "1 rows that failed"));
    assert_true(has_note(&r, "2 values of counters are not finite"));
    stk__result_clear(&r);
}

static void google_text_reads_back(void **state)
{
    stk__result r = make_result(4);
    stk__text text = write_as(&r, NULL, STK__BENCH_GOOGLE, NULL);
    stk__result back = read_text(text.data);
    for (size_t i = 0; i < 4; i++) {
        assert_close(value_of(&back, "lazy", "wall", i), value_of(&r, "lazy", "wall", i));
        assert_close(value_of(&back, "lazy", "cpu", i), value_of(&r, "lazy", "cpu", i));
        assert_true(value_of(&back, "lazy", "rss", i) == value_of(&r, "lazy", "rss", i));
        assert_true(value_of(&back, "lazy", "user", i) == value_of(&r, "lazy", "user", i));
    }
    assert_string_equal(back.metrics[stk__result_metric(&back, "user")].unit, "s");
    assert_true(isnan(value_of(&back, "lazy", "steal", 1)));
    stk__text_clear(&text);
    stk__result_clear(&r);
    stk__result_clear(&back);
}

static void google_cpu_time_that_is_not_known_stays_so(void **state)
{
    stk__result r = read_text("{\"results\":[{\"command\":\"a\",\"times\":[1,2]}]}");
    stk__text notes = STK__TEXT_INIT, text = write_as(&r, NULL, STK__BENCH_GOOGLE, &notes);
    assert_non_null(strstr(notes.data, "CPU time of 2 runs is not known"));
    stk__result back = read_text(text.data);
    assert_true(isnan(value_of(&back, "a", "cpu", 0)));
    stk__text_clear(&notes);
    stk__text_clear(&text);
    stk__result_clear(&r);
    stk__result_clear(&back);
}

/* ---- Go ---- */

static const char go_text[] =
    "goos: linux\r\ncpu: Xeon \ncommit: a\n"
    "Unit score better=higher\nUnit odd/s better=lower\n"
    "BenchmarkDecode/format=json-48   \t 100  1500 ns/op\t 32 B/op  2.5 score 7 odd/s 3 rss-bytes\n"
    "commit: b\nBenchmarkDecode/format=json-48 1 2e3 ns/op 8 MB/s 40 user-ns\n"
    "BenchmarkVerbose\nBenchmarking is fun 1 2 x\nPASS\nok  \tpkg\t1.2s\n";

static void go_text_is_read(void **state)
{
    stk__result r = read_text(go_text);
    const char *name = "Decode/format=json-48";
    assert_int_equal(r.variant_count, 1);
    assert_close(value_of(&r, name, "wall", 0), 1500e-9);
    assert_close(value_of(&r, name, "wall", 1), 2e-6);
    assert_true(value_of(&r, name, "B/op", 0) == 32);
    assert_true(isnan(value_of(&r, name, "B/op", 1)));
    assert_true(value_of(&r, name, "rss", 0) == 3);
    assert_close(value_of(&r, name, "user", 1), 40e-9);
    assert_string_equal(r.metrics[stk__result_metric(&r, "B/op")].unit, "bytes");
    assert_true(r.metrics[stk__result_metric(&r, "score")].higher_is_better);
    assert_true(r.metrics[stk__result_metric(&r, "MB/s")].higher_is_better);
    assert_false(r.metrics[stk__result_metric(&r, "odd/s")].higher_is_better);
    assert_string_equal(r.variants[0].command, "BenchmarkDecode/format=json-48");
    assert_string_equal(r.metrics[r.primary].name, "wall");
    assert_string_equal(r.machine, "Xeon ");
    assert_true(has_note(&r, "the key 'commit' has several values"));
    assert_true(has_note(&r, "2 lines begin with Benchmark but hold no result and were left out (the first: line 9)"));
    stk__result_clear(&r);
}

static void go_packages_and_variants_make_groups(void **state)
{
    stk__result r = read_text("pkg: a\nBenchmarkX/variant=old/n=1 1 5 ns/op\nBenchmarkX/variant=new/n=1 1 4 ns/op\n"
                              "BenchmarkX/variant=new/n=2 1 4 ns/op\npkg: b\nBenchmarkX/variant=old/n=1 1 7 ns/op\n");
    assert_int_equal(r.variant_count, 4);
    assert_true(value_of(&r, "X/variant=old/n=1 (b)", "wall", 0) == 7 / 1e9);
    assert_int_equal(r.variants[0].group, r.variants[1].group);
    assert_int_not_equal(r.variants[0].group, r.variants[2].group);
    assert_int_not_equal(r.variants[0].group, r.variants[3].group);
    stk__result_clear(&r);
}

static void go_text_reads_back(void **state)
{
    stk__result r = make_result(4);
    stk__text notes = STK__TEXT_INIT, text = write_as(&r, NULL, STK__BENCH_GO, &notes);
    assert_non_null(strstr(text.data, "\nBenchmarkStoker/variant=lazy 1 "));
    assert_non_null(strstr(text.data, "\nBenchmarkStoker/threads=2/variant=stored_x_2 1 "));
    assert_non_null(strstr(text.data, "Unit rate-samples/s better=higher\n"));
    assert_non_null(strstr(notes.data, "1 names hold blanks"));
    stk__result back = read_text(text.data);
    for (size_t m = 0; m < STK__MEASURES; m++) {
        const char *name = stk__measure_metric((stk__measure)m).name;
        assert_close(value_of(&back, "lazy", name, 0), value_of(&r, "lazy", name, 0));
        assert_string_equal(back.metrics[stk__result_metric(&back, name)].unit, r.metrics[m].unit);
    }
    assert_true(isnan(value_of(&back, "lazy", "steal", 1)));
    assert_int_equal(variant_of(&back, "Stoker/threads=2/variant=stored_x_2")->runs, 4);
    stk__text_clear(&notes);
    stk__text_clear(&text);
    stk__result_clear(&r);
    stk__result_clear(&back);
}

static void go_names_are_kept_or_made_safe_and_unique(void **state)
{
    stk__result r = {0};
    const double one = 1;
    const char *const names[][2] = {{"X-8", "BenchmarkX-8"},
                                    {"X-8 @b", "BenchmarkX-8"},
                                    {"a b", "c"},
                                    {"a/b", "c"},
                                    {"\xe3\x80\x80\xff\n", "Benchmarks are fun"}};
    assert_int_equal(stk__result_add_metric(&r, "wall", "s", false, NULL, NULL), STK_OK);
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        assert_int_equal(stk__result_add_variant(&r, names[i][0], names[i][1], 0, NULL, NULL), STK_OK);
        assert_int_equal(stk__result_add_run(&r, i, &one, 0, NULL), STK_OK);
    }
    stk__text text = write_as(&r, NULL, STK__BENCH_GO, NULL);
    assert_string_equal(text.data, "BenchmarkX-8 1 1e+09 ns/op\nBenchmarkStoker/variant=X-8_@b 1 1e+09 ns/op\n"
                                   "BenchmarkStoker/variant=a_b 1 1e+09 ns/op\n"
                                   "BenchmarkStoker/variant=a_b#02 1 1e+09 ns/op\n"
                                   "BenchmarkStoker/variant=___ 1 1e+09 ns/op\n");
    stk__text_clear(&text);
    stk__result_clear(&r);
}

/* ---- GitHub ---- */

static void github_file_holds_medians_and_verdicts(void **state)
{
    stk__result r = make_result(5);
    stk__comparison item = {.b = 1, .valid = true, .ratio = 1.25, .verdict = STK__SLOWER};
    const stk__comparisons c = {.items = &item, .count = 1};
    r.primary = STK__MEASURES;
    item.metric = r.primary;
    stk__text notes = STK__TEXT_INIT, text = write_as(&r, &c, STK__BENCH_GITHUB, &notes);
    json_t *root = json_loadb(text.data, text.length, 0, NULL);
    const json_t *x = json_array_get(root, 1);
    assert_string_equal(json_string_value(json_object_get(x, "name")), "stored x-2");
    assert_string_equal(json_string_value(json_object_get(x, "unit")), "samples/s");
    assert_true(json_number_value(json_object_get(x, "value")) == r.variants[1].values[r.primary][2]);
    assert_non_null(strstr(json_string_value(json_object_get(x, "range")), "\xc2\xb1 0.0"));
    assert_non_null(strstr(json_string_value(json_object_get(x, "extra")), "n=5\n"));
    assert_non_null(strstr(json_string_value(json_object_get(x, "extra")), "verdict: slower against lazy"));
    assert_non_null(strstr(notes.data, "customBiggerIsBetter"));
    json_decref(root);
    stk__text_clear(&notes);
    stk__text_clear(&text);
    stk__result_clear(&r);
}

/* ---- any file ---- */

static void format_names_are_found(void **state)
{
    for (int f = STK__BENCH_STOKER; f < STK__BENCH_FORMAT_COUNT; f++)
        assert_int_equal(stk__bench_format_find(stk__bench_format_name((stk__bench_format)f)), f);
    assert_int_equal(stk__bench_format_find("unknown"), STK__BENCH_UNKNOWN);
    assert_int_equal(stk__bench_format_find("Go"), STK__BENCH_UNKNOWN);
}

static void byte_order_mark_and_blanks_are_passed_over(void **state)
{
    stk__result r = read_text("\xef\xbb\xbf \n{\"results\":[{\"command\":\"a\",\"times\":[1]}]}\n");
    assert_int_equal(r.variant_count, 1);
    stk__result_clear(&r);
}

/* The status, with the whole line of the error in `line`. */
static stk_status refuse(const char *text, stk__bench_format format, char line[600])
{
    stk__result r = {.dropped = 77};
    stk_error err;
    stk_error_clear(&err);
    const stk_status status = stk__bench_read(text, strlen(text), "some.json", format, &r, &err);
    assert_int_equal(r.dropped, 77); /* untouched */
    assert_int_equal(err.status, status);
    assert_string_equal(err.file, "some.json");
    stk_error_format(&err, line, 600);
    return status;
}

#define STOKER_HEAD \
    "{\"stoker\":\"bench\",\"version\":1,\"metric\":{\"name\":\"wall\",\"unit\":\"s\",\"higher_is_better\":false}"

static void bad_files_are_refused_with_the_place(void **state)
{
    static const struct {
        const char *text;
        stk_status status;
        const char *told;
    } cases[] = {
        {"", STK_INVALID, "the file is empty"},
        {"hello", STK_INVALID, "no benchmark file"},
        {"{}", STK_INVALID, "no benchmark file"},
        {"[{\"name\":\"a\",\"unit\":\"s\",\"value\":1}]", STK_INVALID, "no benchmark file"},
        {"{\n\"results\":[1,}", STK_CORRUPT, "line 2, column 14"},
        {"{\"results\":[]}", STK_INVALID, "no values of single runs"},
        {"{\"results\":[{\"command\":3}]}", STK_CORRUPT, "results[0].command is 3, wanted a string"},
        {"{\"results\":[{\"command\":\"a\",\"times\":[1,-2]}]}", STK_CORRUPT,
         "results[0].times[1] is -2, wanted a time"},
        {"{\"results\":[{\"command\":\"a\",\"times\":[NaN]}]}", STK_CORRUPT, "results[0].times[0] is null"},
        {"{\"results\":[{\"command\":\"a\",\"times\":[1e999]}]}", STK_CORRUPT, "real number overflow"},
        {"{\"results\":[{\"command\":\"a\",\"times\":[\"1\"]}]}", STK_CORRUPT, "results[0].times[0] is \"1\""},
        {"{\"results\":[{\"command\":\"a\",\"times\":[1],\"exit_codes\":[]}]}", STK_CORRUPT,
         "results[0].exit_codes is a list of 0, wanted a list as long"},
        {"{\"results\":[{\"command\":\"a\",\"times\":[1],\"exit_codes\":[0.5]}]}", STK_CORRUPT, "exit_codes[0] is 0.5"},
        {"{\"version\":\"1.0\",\"benchmarks\":[{\"runs\":3}]}", STK_CORRUPT, "benchmarks[0].runs is 3"},
        {"{\"version\":\"1.0\",\"benchmarks\":[{\"metadata\":{\"unit\":\"hour\"},\"runs\":[]}]}", STK_CORRUPT,
         "benchmarks[0].metadata.unit is \"hour\", wanted second, byte or integer"},
        {"{\"version\":\"1.0\",\"benchmarks\":[{\"runs\":[{\"values\":[1]},{\"values\":[1,null]}]}]}", STK_CORRUPT,
         "benchmarks[0].runs[1].values[1] is null"},
        {"{\"version\":\"1.0\",\"benchmarks\":[{\"runs\":[7]}]}", STK_CORRUPT, "benchmarks[0].runs[0] is 7"},
        {"{\"context\":{},\"benchmarks\":[3]}", STK_CORRUPT, "benchmarks[0] is 3, wanted an object"},
        {"{\"context\":{},\"benchmarks\":[{\"real_time\":1}]}", STK_CORRUPT, "benchmarks[0].name is not there"},
        {"{\"context\":{},\"benchmarks\":[{\"name\":\"a\",\"real_time\":-1}]}", STK_CORRUPT,
         "benchmarks[0].real_time is -1"},
        {"{\"context\":{},\"benchmarks\":[{\"name\":\"a\",\"real_time\":1,\"time_unit\":\"h\"}]}", STK_CORRUPT,
         "benchmarks[0].time_unit is \"h\", wanted ns, us, ms or s"},
        {"{\"context\":{},\"benchmarks\":[{\"name\":\"a\",\"run_type\":\"aggregate\"}]}", STK_INVALID,
         "no values of single runs: 1 rows of aggregates"},
        {"\nBenchmarkA 1 5 ns/op\nBenchmarkA 1 -5 ns/op\n", STK_CORRUPT, "line 3, column 14"},
        {"BenchmarkA 1 NaN ns/op\n", STK_CORRUPT, "found 'NaN'"},
        {"BenchmarkA 1 1e999 ns/op\n", STK_CORRUPT, "found '1e999'"},
        {"BenchmarkA 1 5 ns/op 6", STK_CORRUPT, "a value without its unit, found '6'"},
        {"BenchmarkA 1 5 wall-ns 5 ns/op", STK_INVALID, "two units of the file stand for the metric 'wall'"},
        {"{\"stoker\":\"trace\"}", STK_CORRUPT, "stoker is \"trace\""},
        {"{\"stoker\":\"bench\",\"version\":2}", STK_UNSUPPORTED, "the result has version 2, wanted 1"},
        {STOKER_HEAD "}", STK_CORRUPT, "variants is not there"},
        {STOKER_HEAD ",\"seed\":\"18446744073709551616\",\"variants\":[]}", STK_CORRUPT, "seed is"},
        {STOKER_HEAD ",\"variants\":[{\"name\":\"a\",\"times\":[1]},{\"name\":\"a\",\"times\":[1]}]}", STK_CORRUPT,
         "variants[1].name is \"a\", wanted a name that no other has"},
        {STOKER_HEAD ",\"variants\":[{\"name\":\"a\",\"times\":[-1]}]}", STK_CORRUPT,
         "variants[0].measures.wall[0] is -1"},
        {STOKER_HEAD ",\"paired\":true,\"variants\":[{\"name\":\"a\",\"times\":[1]},{\"name\":\"b\",\"times\":[]}]}",
         STK_CORRUPT, "paired, but 'a' has 1 runs and 'b' has 0"},
        {STOKER_HEAD
         ",\"paired\":true,\"variants\":[{\"name\":\"a\",\"times\":[1]},{\"name\":\"b\",\"group\":1,\"times\":"
         "[1,2]},{\"name\":\"c\",\"times\":[1]},{\"name\":\"d\",\"group\":1,\"times\":[1]}]}",
         STK_CORRUPT, "paired, but 'b' has 2 runs and 'd' has 1"},
        {STOKER_HEAD ",\"metrics\":[{\"name\":\"wall\",\"unit\":\"h\",\"higher_is_better\":false}],\"variants\":[]}",
         STK_INVALID, "the metric 'wall' is there in 'h'"},
        {STOKER_HEAD ",\"variants\":[{\"name\":\"a\",\"times\":[1],\"measures\":{\"wall\":[1,2]},\"exit_codes\":[0]}]}",
         STK_CORRUPT, "variants[0].exit_codes is a list of 1"},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        char line[600];
        const stk_status status = refuse(cases[i].text, STK__BENCH_UNKNOWN, line);
        if (status != cases[i].status || !strstr(line, cases[i].told))
            fail_msg("case %zu: status %d, '%s', wanted %d, '%s'", i, (int)status, line, (int)cases[i].status,
                     cases[i].told);
    }
}

static void format_that_was_named_is_held_to(void **state)
{
    char line[600];
    assert_int_equal(refuse(hyperfine_text, STK__BENCH_PYPERF, line), STK_CORRUPT);
    assert_non_null(strstr(line, "benchmarks is not there, wanted pyperf's list"));
    assert_int_equal(refuse(hyperfine_text, STK__BENCH_GO, line), STK_INVALID);
    assert_int_equal(refuse(go_text, STK__BENCH_GOOGLE, line), STK_CORRUPT);
    assert_int_equal(refuse("[]", STK__BENCH_GITHUB, line), STK_UNSUPPORTED);
    assert_non_null(strstr(line, "only written"));
}

static void too_much_of_anything_is_refused(void **state)
{
    char line[600];
    const struct {
        const char *head, *piece, *tail, *told;
        size_t times;
        stk_status status;
    } cases[] = {
        {"", "[", "", "no JSON", 100000, STK_CORRUPT},
        {"{\"results\":[", "{},", "{}]}", "lists and objects", 2000001, STK_LIMIT},
        {"{\"results\":[{\"command\":\"a\",\"times\":[1]}", ",{\"command\":\"a\",\"times\":[1]}", "]}",
         "more than 10000 benchmarks", 10000, STK_LIMIT},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        char *text = repeated(cases[i].head, cases[i].piece, cases[i].times, cases[i].tail);
        assert_int_equal(refuse(text, STK__BENCH_UNKNOWN, line), cases[i].status);
        assert_non_null(strstr(line, cases[i].told));
        stk__free(text);
    }
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, "BenchmarkA 1");
    for (int i = 0; i <= STK__IMPORT_METRICS; i++)
        stk__text_printf(&t, " 1 u%d", i);
    assert_int_equal(refuse(t.data, STK__BENCH_UNKNOWN, line), STK_LIMIT);
    assert_non_null(strstr(line, "more than 64 units, found 'u64'"));
    stk__text_clear(&t);
}

/* ---- joining ---- */

static size_t group_of(const stk__result *r, const char *name)
{
    return variant_of(r, name)->group;
}

static void join_groups_benchmarks_of_the_same_name(void **state)
{
    stk__result to = read_text("{\"results\":[{\"command\":\"x\",\"times\":[1]},{\"command\":\"y\",\"times\":[2]}]}");
    stk__result from = read_text("{\"results\":[{\"command\":\"y\",\"times\":[3],\"memory_usage_byte\":[9]},"
                                 "{\"command\":\"z\",\"times\":[4]},{\"command\":\"x\",\"times\":[5]}]}");
    assert_int_equal(stk__bench_join(&to, &from, "b.json", NULL), STK_OK);
    assert_int_equal(stk__bench_join(&to, &from, "c.json", NULL), STK_OK);
    assert_int_equal(to.variant_count, 8);
    assert_false(to.paired);
    assert_int_equal(group_of(&to, "x"), group_of(&to, "x @b.json"));
    assert_int_equal(group_of(&to, "x"), group_of(&to, "x @c.json"));
    assert_int_equal(group_of(&to, "y"), group_of(&to, "y @b.json"));
    assert_int_equal(group_of(&to, "y"), group_of(&to, "y @c.json"));
    assert_int_equal(group_of(&to, "z"), group_of(&to, "z @c.json"));
    assert_int_not_equal(group_of(&to, "x"), group_of(&to, "y"));
    assert_int_not_equal(group_of(&to, "z"), group_of(&to, "y"));
    assert_true(isnan(value_of(&to, "x", "rss", 0)));
    assert_true(value_of(&to, "y @c.json", "rss", 0) == 9);
    assert_true(value_of(&to, "x @b.json", "wall", 0) == 5);
    assert_true(has_note(&to, "1 of the 3 benchmarks of b.json have no counterpart"));
    stk__result_clear(&to);
    stk__result_clear(&from);
}

static void join_compares_single_benchmarks_of_any_name(void **state)
{
    stk__result to = read_text("{\"results\":[{\"command\":\"x\",\"times\":[1]}]}");
    stk__result from = read_text("BenchmarkFast 1 1e9 ns/op\n");
    assert_int_equal(stk__bench_join(&to, &from, "b", NULL), STK_OK);
    assert_int_equal(group_of(&to, "x"), group_of(&to, "Fast"));
    assert_true(value_of(&to, "Fast", "wall", 0) == 1);
    stk__result other =
        read_text("{\"results\":[{\"command\":\"p\",\"times\":[1]},{\"command\":\"q\",\"times\":[1]}]}");
    assert_int_equal(stk__bench_join(&to, &other, "c", NULL), STK_OK);
    assert_int_not_equal(group_of(&to, "x"), group_of(&to, "p"));
    assert_int_equal(group_of(&to, "q"), group_of(&to, "p"));
    assert_true(has_note(&to, "no benchmark of c has the name"));
    stk__result_clear(&to);
    stk__result_clear(&from);
    stk__result_clear(&other);
}

static void join_keeps_what_results_say_about_themselves(void **state)
{
    stk__result to = make_result(3), from = make_result(2);
    stk__free(from.machine);
    from.machine = stk__strdup("another");
    assert_int_equal(stk__bench_join(&to, &from, "b", NULL), STK_OK);
    assert_false(to.paired);
    assert_int_equal(to.dropped, 2);
    assert_string_equal(variant_of(&to, "stored x-2 @b")->withheld, "its output differs");
    assert_string_equal(variant_of(&to, "stored x-2 @b")->parameters[0].value, "2");
    assert_int_equal(variant_of(&to, "stored x-2")->exit_codes[2], 7);
    assert_true(has_note(&to, "b: a note"));
    assert_true(has_note(&to, "another machine in b: 'another'"));
    stk__result_clear(&to);
    stk__result_clear(&from);
}

static void join_of_metrics_that_differ_is_refused(void **state)
{
    stk__result to = read_text("BenchmarkA 1 5 ns/op 3 score\n");
    stk__result higher = read_text("Unit score better=higher\nBenchmarkA 1 5 ns/op 3 score\n");
    stk__result without = read_text("BenchmarkA 1 3 score\n");
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__bench_join(&to, &higher, "b", &err), STK_INVALID);
    assert_non_null(strstr(err.message, "'score' is in 'score' (lower is better) in one file"));
    assert_int_equal(stk__bench_join(&to, &without, "b", &err), STK_INVALID);
    assert_non_null(strstr(err.message, "b has no 'wall', by which the file before is compared, but 'score'"));
    assert_int_equal(to.variant_count, 1);
    stk__result_clear(&to);
    stk__result_clear(&higher);
    stk__result_clear(&without);
}

/* ---- memory ---- */

static stk_status work(const char *text, stk__bench_format format, stk_error *err)
{
    stk__result r = {0}, other = {0};
    stk__text out = STK__TEXT_INIT, notes = STK__TEXT_INIT;
    stk_status status = stk__bench_read(text, strlen(text), "f", STK__BENCH_UNKNOWN, &r, err);
    if (status == STK_OK)
        status = stk__bench_read(text, strlen(text), "g", STK__BENCH_UNKNOWN, &other, err);
    if (status == STK_OK)
        status = stk__bench_join(&r, &other, "g", err);
    if (status == STK_OK)
        status = stk__bench_write(&r, NULL, format, &out, &notes, err);
    stk__text_clear(&out);
    stk__text_clear(&notes);
    stk__result_clear(&r);
    stk__result_clear(&other);
    return status;
}

static void every_failed_allocation_is_reported(void **state)
{
    static const char stoker[] = STOKER_HEAD
        ",\"machine\":\"m\",\"limits\":\"l\",\"notes\":[\"n\"],\"variants\":[{\"name\":\"a\",\"times\":[1,2],"
        "\"withheld\":\"w\",\"parameters\":{\"p\":\"1\"}},{\"name\":\"b c\",\"times\":[1,2]}]}";
    const char *const texts[] = {stoker, hyperfine_text, pyperf_text, google_text, go_text};
    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        for (int format = STK__BENCH_STOKER; format < STK__BENCH_FORMAT_COUNT; format++) {
            stk_status status = stk__bench_format_is_written((stk__bench_format)format) ? STK_NOMEM : STK_OK;
            for (uint64_t n = 1; status != STK_OK; n++) {
                stk_error err;
                stk_error_clear(&err);
                assert_true(n < 10000);
                stk__alloc_fail_at(n, false);
                status = work(texts[i], (stk__bench_format)format, &err);
                stk__alloc_fail_at(0, false);
                if (status != STK_OK)
                    assert_int_equal(status, STK_NOMEM);
                assert_int_equal(err.status, status);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stoker_result_reads_back_equal),
        cmocka_unit_test(stoker_comparisons_have_their_figures),
        cmocka_unit_test(stoker_comparison_without_figures_is_null),
        cmocka_unit_test(hyperfine_file_is_read),
        cmocka_unit_test(hyperfine_text_reads_back),
        cmocka_unit_test(rate_is_written_as_wall_time_or_refused),
        cmocka_unit_test(pyperf_values_of_a_process_become_one),
        cmocka_unit_test(pyperf_memory_that_all_runs_share_is_read),
        cmocka_unit_test(pyperf_text_reads_back_without_zeros),
        cmocka_unit_test(google_file_is_read),
        cmocka_unit_test(google_text_reads_back),
        cmocka_unit_test(google_cpu_time_that_is_not_known_stays_so),
        cmocka_unit_test(go_text_is_read),
        cmocka_unit_test(go_packages_and_variants_make_groups),
        cmocka_unit_test(go_text_reads_back),
        cmocka_unit_test(go_names_are_kept_or_made_safe_and_unique),
        cmocka_unit_test(github_file_holds_medians_and_verdicts),
        cmocka_unit_test(format_names_are_found),
        cmocka_unit_test(byte_order_mark_and_blanks_are_passed_over),
        cmocka_unit_test(bad_files_are_refused_with_the_place),
        cmocka_unit_test(format_that_was_named_is_held_to),
        cmocka_unit_test(too_much_of_anything_is_refused),
        cmocka_unit_test(join_groups_benchmarks_of_the_same_name),
        cmocka_unit_test(join_compares_single_benchmarks_of_any_name),
        cmocka_unit_test(join_keeps_what_results_say_about_themselves),
        cmocka_unit_test(join_of_metrics_that_differ_is_refused),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
