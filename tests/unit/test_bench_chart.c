/* Charts as SVG: well-formed whatever the names and figures are, the same each time, small. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "bench/chart.h"
#include "bench/svg.h"
#include "bench_results.h"
#include "svg_check.h"

static const stk__rule rule = {.confidence = 0.95, .min_effect = 0.02, .margin = 0.02};

static const char *const hostile_names[] = {
    "<script>alert('x')</script> ]]> \"q\" & &amp;",
    "\x1b[31mred\x01\x7f \xff\xfe \xc0\x80 \xed\xa0\x80 \xef\xbf\xbf \xe2\x80\xae turned \xc2\x85 line\n",
    "a name of eighty characters that goes on and on and on until it is far too long to show",
};

static void variants(stk__result *r, const char *const *names, size_t count, size_t runs)
{
    results_start(r, names, count);
    for (size_t i = 0; i < count; i++)
        results_fill(r, i, runs, 1 + 0.1 * (double)i, 0.01);
}

static void comparison_svg(const stk__result *r, const stk__comparisons *c, const char *title, stk__text *out)
{
    stk_error err;
    assert_int_equal(stk__chart_comparison(r, c, title, out, &err), STK_OK);
    assert_false(out->failed);
    assert_svg(out->data);
}

static void chart_comparison_shows_runs_ratios_and_verdicts(void **state)
{
    static const char *const names[] = {"lazy", "stored", "third"};
    stk__result r;
    variants(&r, names, 3, 10);
    stk__comparison items[] = {results_comparison(0, 1, 1.1, 0.01, STK__SLOWER),
                               results_comparison(0, 2, 1.2, 0.01, STK__EQUIVALENT)};
    const stk__comparisons c = {.items = items, .count = 2, .rule = rule};
    stk__text svg = STK__TEXT_INIT, again = STK__TEXT_INIT;
    comparison_svg(&r, &c, "loading", &svg);
    static const char *const wanted[] = {">loading<",
                                         ">lazy<",
                                         ">stored<",
                                         "1.00 s +- 0.01",
                                         "(n=10)",
                                         ">B is slower<",
                                         "1.100  (1.078..1.122)",
                                         ">A and C are equivalent within 2 %<",
                                         "url(#hatch)",
                                         "<polygon",
                                         "wall (s)"};
    for (size_t i = 0; i < STK_COUNT(wanted); i++) {
        if (!strstr(svg.data, wanted[i]))
            fail_msg("'%s' is missing", wanted[i]);
    }
    /* Each run is a point of a path. */
    size_t dots = 0;
    for (const char *p = svg.data; (p = strstr(p, "h0")); p += 2)
        dots++;
    assert_int_equal(dots, 30);
    assert_null(strstr(svg.data, "not drawn"));
    comparison_svg(&r, &c, "loading", &again);
    assert_string_equal(svg.data, again.data);
    stk__text_clear(&svg);
    stk__text_clear(&again);
    stk__result_clear(&r);
}

static void chart_comparison_escapes_hostile_names(void **state)
{
    stk__result r;
    variants(&r, hostile_names, STK_COUNT(hostile_names), 6);
    stk__free(r.metrics[0].unit);
    stk__free(r.metrics[0].name);
    r.metrics[0].unit = stk__strdup("<u>\x02\xff");
    r.metrics[0].name = stk__strdup("\"><g onload=\"");
    stk__comparison items[] = {results_comparison(0, 1, 1.1, 0.01, STK__SLOWER),
                               results_comparison(1, 2, 0.9, 0.01, STK__FASTER)};
    const stk__comparisons c = {.items = items, .count = 2, .rule = rule};
    stk__text svg = STK__TEXT_INIT;
    comparison_svg(&r, &c, hostile_names[0], &svg);
    assert_non_null(strstr(svg.data, "&lt;script&gt;alert(&#39;x&#39;)"));
    assert_non_null(strstr(svg.data, "\xef\xbf\xbd")); /* bytes that are not UTF-8 */
    assert_non_null(strstr(svg.data, "\xe2\x80\xa6")); /* what was cut */
    assert_null(strstr(svg.data, "\xe2\x80\xae"));     /* nothing turns the text around */
    stk__text_clear(&svg);
    stk__result_clear(&r);
}

static void chart_comparison_bears_odd_figures(void **state)
{
    static const char *const names[] = {"a", "b"};
    static const double figures[][2] = {
        {1, 1},     {0, 0},           {1, 1000},       {1e-9, 1e9},    {NAN, 1},        {NAN, NAN},       {-5, 5},
        {0, 1e308}, {1e-320, 1e-320}, {-1e308, 1e308}, {1e308, 1e308}, {1e-320, 1e308}, {7, 7.0000000001}};
    for (size_t i = 0; i < STK_COUNT(figures); i++) {
        stk__result r;
        results_start(&r, names, 2);
        results_fill(&r, 0, 3, figures[i][0], 0);
        results_fill(&r, 1, 3, figures[i][1], 0);
        stk__comparison item = results_comparison(0, 1, figures[i][1] / figures[i][0], 0.5, STK__INCONCLUSIVE);
        item.valid = item.ratio > 0 && isfinite(item.high) && item.low > 0;
        const stk__comparisons c = {.items = &item, .count = 1, .rule = rule};
        stk__text t = STK__TEXT_INIT;
        comparison_svg(&r, &c, "", &t);
        stk__text_reset(&t);
        stk_error err;
        assert_int_equal(stk__chart_ladder(&r, &c, &c, "", &t, &err), STK_OK);
        assert_svg(t.data);
        stk__text_clear(&t);
        stk__result_clear(&r);
    }
}

static void chart_comparison_of_very_many_runs_is_thinned_and_says_so(void **state)
{
    static const char *const names[] = {"a", "b"};
    stk__result r;
    variants(&r, names, 2, 5000);
    stk__text svg = STK__TEXT_INIT;
    comparison_svg(&r, NULL, "many", &svg);
    assert_non_null(strstr(svg.data, "Not all runs are drawn: 1000 of each"));
    assert_true(svg.length < 100000);
    stk__text_clear(&svg);
    stk__result_clear(&r);
}

static void chart_comparison_of_very_many_variants_stays_small(void **state)
{
    enum { COUNT = 400 };
    stk__result r = {.paired = true};
    stk__comparison items[COUNT - 1];
    assert_int_equal(stk__result_add_measures(&r, NULL), STK_OK);
    for (size_t i = 0; i < COUNT; i++) {
        char name[100];
        snprintf(name, sizeof name, "%0*zu", 90, i);
        assert_int_equal(stk__result_add_variant(&r, name, "", 0, NULL, NULL), STK_OK);
        results_fill(&r, i, 100, 1, 0.01);
        if (i)
            items[i - 1] = results_comparison(0, i, 1, 0.5, STK__EQUIVALENT);
    }
    const stk__comparisons c = {.items = items, .count = COUNT - 1, .rule = rule};
    stk__text svg = STK__TEXT_INIT;
    comparison_svg(&r, &c, "many", &svg);
    assert_non_null(strstr(svg.data, ">100 more variants are not drawn.<"));
    assert_true(svg.length < 1000000);
    stk__text_clear(&svg);
    stk__result_clear(&r);
}

static void chart_ladder_tells_step_and_total_gain(void **state)
{
    stk__result r;
    stk__comparison steps[2], whole[2];
    results_ladder(&r, steps, whole);
    const stk__comparisons a = {.items = steps, .count = 2, .rule = rule},
                           b = {.items = whole, .count = 2, .rule = rule};
    stk__text svg = STK__TEXT_INIT;
    stk_error err;
    assert_int_equal(stk__chart_ladder(&r, &a, &b, "steps", &svg, &err), STK_OK);
    assert_svg(svg.data);
    static const char *const wanted[] = {"x2.00 (1.96..2.04) over the step before (?), x2.00 in all",
                                         "x4.00 (3.92..4.08) over the step before, x8.00 in all",
                                         "16.0 s +- 0.2  (n=10)", "decode &lt;in&gt; C", "wall (s)"};
    for (size_t i = 0; i < STK_COUNT(wanted); i++) {
        if (!strstr(svg.data, wanted[i]))
            fail_msg("'%s' is missing in\n%s", wanted[i], svg.data);
    }
    assert_null(strstr(svg.data, "logarithmic"));
    stk__text_reset(&svg);
    results_set(&r, 2, STK__WALL, 0.5);
    assert_int_equal(stk__chart_ladder(&r, &a, &b, "steps", &svg, &err), STK_OK);
    assert_svg(svg.data);
    assert_non_null(strstr(svg.data, ", logarithmic)"));
    stk__text_clear(&svg);
    stk__result_clear(&r);
}

static size_t count_of(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
        n++;
    return n;
}

static void chart_history_marks_verdicts_and_machines(void **state)
{
    stk__log log;
    results_history(&log, 8, 2);
    stk__history h = results_shown(&log);
    stk__text svg = STK__TEXT_INIT;
    stk_error err;
    assert_int_equal(stk__chart_history(&h, "log", &svg, &err), STK_OK);
    assert_svg(svg.data);
    /* The verdicts belong to the first benchmark: one up, one down. The machine changes once, in both pictures. */
    assert_int_equal(count_of(svg.data, "<polygon"), 2);
    assert_int_equal(count_of(svg.data, "stroke-dasharray=\"3 3\""), 2);
    assert_non_null(strstr(svg.data, ">0123456+<"));
    assert_non_null(strstr(svg.data, ">decode (ms)<"));
    assert_non_null(strstr(svg.data, ">&lt;b&gt; (B)<"));
    stk__text_clear(&svg);
    stk__history_clear(&h);
    results_history_clear(&log);
}

static void chart_history_bears_any_size(void **state)
{
    static const size_t sizes[][2] = {{0, 0}, {0, 2}, {1, 1}, {2, 1}, {500, 4}, {500, 30}, {4000, 2}};
    for (size_t i = 0; i < STK_COUNT(sizes); i++) {
        stk__log log;
        results_history(&log, sizes[i][0], sizes[i][1]);
        stk__history h = results_shown(&log);
        stk__text t = STK__TEXT_INIT;
        stk_error err;
        assert_int_equal(stk__chart_history(&h, "log", &t, &err), STK_OK);
        assert_svg(t.data);
        assert_true(t.length < 1000000);
        const bool all = sizes[i][0] * sizes[i][1] <= 6000;
        assert_int_equal(strstr(t.data, "oldest rows are not drawn") == NULL, all);
        stk__text_clear(&t);
        stk__history_clear(&h);
        results_history_clear(&log);
    }
}

static void charts_out_of_memory_are_refused(void **state)
{
    stk__result r;
    stk__comparison steps[2], whole[2];
    results_ladder(&r, steps, whole);
    const stk__comparisons a = {.items = steps, .count = 2, .rule = rule},
                           b = {.items = whole, .count = 2, .rule = rule};
    stk__log log;
    results_history(&log, 6, 2);
    stk__history h = results_shown(&log);
    for (int kind = 0; kind < 3; kind++) {
        bool done = false;
        for (uint64_t n = 1; !done && n < 1000; n++) {
            stk__text t = STK__TEXT_INIT;
            stk_error err = {0};
            stk_status status;
            stk__alloc_fail_at(n, true);
            if (kind == 0)
                status = stk__chart_comparison(&r, &a, "t", &t, &err);
            else if (kind == 1)
                status = stk__chart_ladder(&r, &a, &b, "t", &t, &err);
            else
                status = stk__chart_history(&h, "t", &t, &err);
            stk__alloc_fail_at(0, false);
            assert_int_equal(status, err.status);
            done = status == STK_OK;
            stk__text_clear(&t);
        }
        assert_true(done);
    }
    stk__history_clear(&h);
    results_history_clear(&log);
    stk__result_clear(&r);
}

static void axis_has_round_ticks_within_its_ends(void **state)
{
    static const struct {
        double low, high;
        bool log;
    } rows[] = {{15.1, 17.7, false}, {0, 1, false},     {0.94, 1.03, true},
                {0.3, 900, true},    {1e-9, 1e9, true}, {3, 3, false}};
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        stk__axis a;
        stk__axis_fit(&a, rows[i].low, rows[i].high, rows[i].log, 100, 500, 6);
        assert_true(a.tick_count >= 2 && a.tick_count <= 14);
        assert_true(a.low <= rows[i].low && a.high >= rows[i].high);
        for (size_t k = 0; k < a.tick_count; k++) {
            const double x = stk__axis_at(&a, a.ticks[k]);
            assert_true(x >= 99.99 && x <= 500.01);
            assert_true(k == 0 || x > stk__axis_at(&a, a.ticks[k - 1]));
        }
    }
    stk__axis a;
    stk__axis_fit(&a, 15.1, 17.7, false, 0, 100, 6);
    stk__text t = STK__TEXT_INIT;
    for (size_t k = 0; k < a.tick_count; k++) {
        stk__axis_label(&a, k, &t);
        stk__text_putc(&t, ' ');
    }
    assert_string_equal(t.data, "15.0 15.5 16.0 16.5 17.0 17.5 18.0 ");
    stk__text_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chart_comparison_shows_runs_ratios_and_verdicts),
        cmocka_unit_test(chart_comparison_escapes_hostile_names),
        cmocka_unit_test(chart_comparison_bears_odd_figures),
        cmocka_unit_test(chart_comparison_of_very_many_runs_is_thinned_and_says_so),
        cmocka_unit_test(chart_comparison_of_very_many_variants_stays_small),
        cmocka_unit_test(chart_ladder_tells_step_and_total_gain),
        cmocka_unit_test(chart_history_marks_verdicts_and_machines),
        cmocka_unit_test(chart_history_bears_any_size),
        cmocka_unit_test(charts_out_of_memory_are_refused),
        cmocka_unit_test(axis_has_round_ticks_within_its_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
