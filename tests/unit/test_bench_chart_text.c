/* Charts for the terminal: word for word, and within the width that was asked for. */
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
#include "bench/table.h"
#include "bench_results.h"

static const stk__rule rule = {.confidence = 0.95, .min_effect = 0.02, .margin = 0.02};

static void assert_within(const char *text, size_t width)
{
    while (*text) {
        char line[2000];
        const size_t n = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)n, text);
        if (stk__columns(line) > width)
            fail_msg("wider than %zu: %s", width, line);
        text += n + (text[n] == '\n');
    }
}

static void text_comparison_draws_strips_on_a_common_scale(void **state)
{
    static const char *const names[] = {"lazy", "st\x1bored"};
    stk__result r;
    results_start(&r, names, 2);
    results_fill(&r, 0, 5, 15.9, 0.3);
    results_fill(&r, 1, 5, 15.3, 0.3);
    stk__comparison item = results_comparison(0, 1, 0.963, 0.0031, STK__FASTER);
    const stk__comparisons c = {.items = &item, .count = 1, .rule = rule};
    stk__text t = STK__TEXT_INIT;
    stk__text_comparison(&r, &c, 60, false, &t);
    assert_string_equal(t.data, "  A  lazy                      |------[======#======]------|\n"
                                "  B  st\\x1bored  |------[======#======]------|\n"
                                "                 14.7 s                               16.5 s\n"
                                "  B/A 0.963      |----------#----------|        :\n"
                                "                 0.944 (logarithmic)                   1.020\n");
    stk__text_reset(&t);
    stk__text_comparison(&r, NULL, 40, true, &t);
    assert_string_equal(t.data, "  A  lazy               ├───▒▒▒▒█▒▒▒───┤\n"
                                "  B  st\\x1bored  ├───▒▒▒█▒▒▒▒───┤\n"
                                "                 14.7 s           16.5 s\n");
    stk__text_clear(&t);
    stk__result_clear(&r);
}

static void text_ladder_draws_bars(void **state)
{
    stk__result r;
    stk__comparison steps[2], whole[2];
    results_ladder(&r, steps, whole);
    const stk__comparisons a = {.items = steps, .count = 2, .rule = rule},
                           b = {.items = whole, .count = 2, .rule = rule};
    stk__text t = STK__TEXT_INIT;
    stk__text_ladder(&r, &a, &b, 70, false, &t);
    assert_string_equal(t.data, "  A  baseline       #################  16.0 s\n"
                                "  B  read ahead     #########          8.00 s  x2.00  x2.00 in all (?)\n"
                                "  C  decode <in> C  ##                 2.00 s  x4.00  x8.00 in all\n");
    stk__text_clear(&t);
    stk__result_clear(&r);
}

static void text_history_draws_a_sparkline_and_the_newest_rows(void **state)
{
    stk__log log;
    results_history(&log, 6, 2);
    stk__history h = results_shown(&log);
    stk__text t = STK__TEXT_INIT;
    stk__text_history(&h, 100, false, &t);
    assert_string_equal(t.data,
                        "  decode   _^^-| .   10.0 ms ->  13.0 ms  other machine\n"
                        "  <b>\\x1b  _^^-|-.  0.0100 B -> 0.0130 B  other machine\n"
                        "\n"
                        "  date        commit    decode                       <b>\\x1b             description\n"
                        "  2025-10-14  05b05b0   (13.0, 0.2) ms               (0.0130, 0.0002) B  a <change>\\x01\n"
                        "  2025-10-13  048d159   -                            (0.0140, 0.0002) B  a <change>\\x01\n"
                        "  2025-10-12  0369d03   (15.0, 0.2) ms slower        (0.0150, 0.0002) B  a <change>\\x01\n"
                        "  2025-10-11  02468ac   (16.0, 0.2) ms 0.900 faster  (0.0160, 0.0002) B  a <change>\\x01\n"
                        "  2025-10-10  0123456+  (17.0, 0.2) ms               (0.0170, 0.0002) B  a <change>\\x01\n"
                        "  2025-10-09  0000000   (10.0, 0.2) ms               (0.0100, 0.0002) B  a <change>\\x01\n");
    stk__text_clear(&t);
    stk__history_clear(&h);
    results_history_clear(&log);
}

static void text_charts_bear_odd_figures(void **state)
{
    static const char *const names[] = {"a", "a name that is rather long, so that it has to be cut"};
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
        for (size_t width = 0; width <= 300; width += 30) {
            stk__text_reset(&t);
            stk__text_comparison(&r, &c, width, width & 4, &t);
            stk__text_ladder(&r, &c, &c, width, width & 4, &t);
            assert_false(t.failed);
            if (width >= 80)
                assert_within(t.data, width);
        }
        stk__text_clear(&t);
        stk__result_clear(&r);
    }
}

static void text_history_bears_any_size(void **state)
{
    static const size_t sizes[][2] = {{0, 0}, {0, 2}, {1, 1}, {2, 1}, {500, 4}, {100, 30}};
    for (size_t i = 0; i < STK_COUNT(sizes); i++) {
        stk__log log;
        results_history(&log, sizes[i][0], sizes[i][1]);
        stk__history h = results_shown(&log);
        stk__text t = STK__TEXT_INIT;
        for (size_t width = 0; width <= 240; width += 20) {
            stk__text_reset(&t);
            stk__text_history(&h, width, i % 2, &t);
            assert_false(t.failed);
            if (width >= 80)
                assert_within(t.data, width);
        }
        stk__text_clear(&t);
        stk__history_clear(&h);
        results_history_clear(&log);
    }
}

static void text_charts_out_of_memory_are_marked(void **state)
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
            stk__alloc_fail_at(n, true);
            if (kind == 0)
                stk__text_comparison(&r, &a, 80, true, &t);
            else if (kind == 1)
                stk__text_ladder(&r, &a, &b, 80, true, &t);
            else
                stk__text_history(&h, 80, true, &t);
            stk__alloc_fail_at(0, false);
            done = !t.failed;
            stk__text_clear(&t);
        }
        assert_true(done);
    }
    stk__history_clear(&h);
    results_history_clear(&log);
    stk__result_clear(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_comparison_draws_strips_on_a_common_scale),
        cmocka_unit_test(text_ladder_draws_bars),
        cmocka_unit_test(text_history_draws_a_sparkline_and_the_newest_rows),
        cmocka_unit_test(text_charts_bear_odd_figures),
        cmocka_unit_test(text_history_bears_any_size),
        cmocka_unit_test(text_charts_out_of_memory_are_marked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
