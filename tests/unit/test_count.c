/* What is said of instruction counts, and how they decide. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/count.h"
#include "bench/interchange.h"
#include "bench/report.h"
#include "bench_results.h"

/* Variants with these counts, `off` apart from run to run, in the first three of five runs. */
static void counted(stk__result *r, const double *counts, size_t variants, double off)
{
    static const char *const names[] = {"old", "new", "newer"};
    const stk__metric row = stk__measure_metric(STK__INSTRUCTIONS);
    *r = (stk__result){.paired = true, .seed = 1, .floor_s = NAN, .counted = stk__strdup("cachegrind 3.19.0")};
    assert_int_equal(stk__result_add_measures(r, NULL), STK_OK);
    assert_int_equal(stk__result_add_metric(r, row.name, row.unit, false, NULL, NULL), STK_OK);
    for (size_t v = 0; v < variants; v++) {
        assert_int_equal(stk__result_add_variant(r, names[v], "true", 0, NULL, NULL), STK_OK);
        for (size_t i = 0; i < 5; i++) {
            double values[STK__NAMED_MEASURES];
            for (size_t m = 0; m < STK__NAMED_MEASURES; m++)
                values[m] = NAN;
            values[STK__WALL] = 1 + 0.01 * (double)i;
            if (i < 3)
                values[STK__INSTRUCTIONS] = counts[v] * (1 + off * (double)i);
            assert_int_equal(stk__result_add_run(r, v, values, 0, NULL), STK_OK);
        }
    }
}

static stk__comparisons compare(const stk__result *r, size_t metric, double min_effect)
{
    const stk__rule rule = {.confidence = 0.95, .min_effect = min_effect, .margin = min_effect};
    const stk__compare_pair pairs[] = {{0, 1}, {1, 2}};
    stk__comparisons c;
    assert_int_equal(stk__compare(r, &rule, pairs, r->variant_count - 1, metric, &c, NULL), STK_OK);
    return c;
}

static void assert_lines(const stk__result *r, const stk__comparisons *c, const char *wanted)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, "");
    stk__count_lines(r, c, "  ", &t);
    const char *rest = "  waiting, memory and I/O are not in these counts: fewer of them need not take less time\n";
    assert_true(t.length >= strlen(wanted));
    assert_memory_equal(t.data, wanted, strlen(wanted));
    assert_string_equal(t.data + strlen(wanted), *wanted ? rest : "");
    stk__text_clear(&t);
}

static void two_variants_are_one_line(void **state)
{
    (void)state;
    stk__result r;
    counted(&r, (const double[]){1234e6, 1111e6}, 2, 0);
    assert_lines(&r, NULL,
                 "  instructions (cachegrind 3.19.0, 3 runs each): A 1.234 G -> B 1.111 G, B/A 0.9003; the same in "
                 "every run\n");
    stk__result_clear(&r);
    counted(&r, (const double[]){1234e6, 1111e6}, 2, 3e-5);
    assert_lines(&r, NULL,
                 "  instructions (cachegrind 3.19.0, 3 runs each): A 1.234 G -> B 1.111 G, B/A 0.9003; repeatable to "
                 "0.01 %\n");
    stk__result_clear(&r);
    counted(&r, (const double[]){54321, 200e9}, 2, 1e-2);
    assert_lines(
        &r, NULL,
        "  instructions (cachegrind 3.19.0, 3 runs each): A 54864 -> B 202.0 G, B/A 3.682e+06; they differ by 2 % "
        "from run to run\n");
    stk__result_clear(&r);
}

static void many_variants_have_a_line_each(void **state)
{
    (void)state;
    stk__result r;
    counted(&r, (const double[]){1e9, 5e8, 250e6}, 3, 0);
    assert_lines(&r, NULL,
                 "  instructions (cachegrind 3.19.0, 3 runs each; the same in every run)\n    A  1.000 G\n"
                 "    B  500.0 M  B/A 0.5000\n    C  250.0 M  C/A 0.2500\n");
    stk__comparisons c = compare(&r, STK__INSTRUCTIONS, 0.001);
    assert_lines(&r, &c,
                 "  instructions (cachegrind 3.19.0, 3 runs each; the same in every run)\n    A  1.000 G\n"
                 "    B  500.0 M  B/A 0.5000\n    C  250.0 M  C/B 0.5000\n");
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
}

static void what_was_not_counted_is_not_told(void **state)
{
    (void)state;
    stk__result r;
    counted(&r, (const double[]){NAN, NAN}, 2, 0);
    assert_lines(&r, NULL, "");
    stk__result_clear(&r);
    static const char *const names[] = {"a"};
    results_start(&r, names, 1);
    assert_lines(&r, NULL, "");
    assert_int_equal(stk__count_metric(&r), SIZE_MAX);
    stk__result_clear(&r);
}

static void counts_that_repeat_decide_without_a_test(void **state)
{
    (void)state;
    static const struct {
        double ratio, off, min_effect;
        bool exact;
        stk__verdict verdict;
    } rows[] = {
        {1.01, 0, 0.001, true, STK__SLOWER},           {0.99, 4e-5, 0.001, true, STK__FASTER},
        {1.0005, 0, 0.001, true, STK__EQUIVALENT},     {1.00005, 4e-5, 0, true, STK__INCONCLUSIVE},
        {1.01, 1e-3, 0.001, false, STK__INCONCLUSIVE},
    };
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        stk__result r;
        counted(&r, (const double[]){1e8, 1e8 * rows[i].ratio}, 2, rows[i].off);
        stk__comparisons c = compare(&r, STK__INSTRUCTIONS, rows[i].min_effect);
        const stk__comparison *x = &c.items[0];
        assert_int_equal(x->exact, rows[i].exact);
        assert_int_equal(x->verdict, rows[i].verdict);
        assert_int_equal(x->n, 3);
        if (x->exact) {
            assert_true(isnan(x->p_holm));
            assert_true(fabs(x->ratio / rows[i].ratio - 1) < 1e-9 && x->low <= x->ratio && x->ratio <= x->high);
        }
        stk__comparisons_clear(&c);
        stk__result_clear(&r);
    }
}

/* Times that happen to agree are still times. */
static void only_counts_are_exact(void **state)
{
    (void)state;
    stk__result r;
    counted(&r, (const double[]){1, 1}, 2, 0);
    results_set(&r, 0, STK__WALL, 1);
    results_set(&r, 1, STK__WALL, 2);
    stk__comparisons c = compare(&r, STK__WALL, 0.02);
    assert_false(c.items[0].exact);
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
}

static void one_run_does_not_show_whether_counts_repeat(void **state)
{
    (void)state;
    stk__result r;
    counted(&r, (const double[]){1e8, 1.5e8}, 2, 0);
    for (size_t v = 0; v < 2; v++)
        r.variants[v].values[STK__INSTRUCTIONS][1] = r.variants[v].values[STK__INSTRUCTIONS][2] = NAN;
    stk__comparisons c = compare(&r, STK__INSTRUCTIONS, 0.001);
    assert_false(c.items[0].exact);
    assert_int_equal(c.items[0].verdict, STK__INCONCLUSIVE);
    assert_lines(&r, &c,
                 "  instructions (cachegrind 3.19.0, 1 run each): A 100.0 M -> B 150.0 M, B/A 1.500; one run does not "
                 "show whether they repeat\n");
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
}

static void reports_never_call_counts_fast(void **state)
{
    (void)state;
    stk__result r;
    counted(&r, (const double[]){2e6, 1e6}, 2, 0);
    r.primary = STK__INSTRUCTIONS;
    stk__comparisons c = compare(&r, STK__INSTRUCTIONS, 0.001);
    stk__text texts[2] = {STK__TEXT_INIT, STK__TEXT_INIT};
    stk__report_text(&r, &c, NULL, 0, &texts[0]);
    stk__report_markdown(&r, &c, &texts[1]);
    for (size_t i = 0; i < 2; i++) {
        assert_false(texts[i].failed);
        assert_non_null(strstr(texts[i].data, "B takes fewer instructions"));
        assert_non_null(strstr(texts[i].data, "M instructions"));
        assert_non_null(strstr(texts[i].data, "waiting, memory and I/O are not in these counts"));
        assert_null(strstr(texts[i].data, "faster"));
        assert_null(strstr(texts[i].data, "as fast"));
        assert_null(strstr(texts[i].data, "p unknown"));
        assert_null(strstr(texts[i].data, "nan"));
        stk__text_clear(&texts[i]);
    }
    stk__comparisons_clear(&c);
    stk__result_clear(&r);
}

/* ---- files ---- */

static void round_trip(const stk__result *r, stk__bench_format format, stk__result *out)
{
    stk__comparisons c = compare(r, r->primary, 0.001);
    stk__text text = STK__TEXT_INIT;
    stk_error err = {0};
    if (stk__bench_write(r, &c, format, &text, NULL, &err) != STK_OK ||
        stk__bench_read(text.data, text.length, "x", format, out, &err) != STK_OK)
        fail_msg("%s", err.message);
    stk__comparisons_clear(&c);
    stk__text_clear(&text);
}

static void formats_that_can_carry_counts_do(void **state)
{
    (void)state;
    static const stk__bench_format formats[] = {STK__BENCH_STOKER, STK__BENCH_GOOGLE, STK__BENCH_GO};
    for (size_t i = 0; i < STK_COUNT(formats); i++) {
        stk__result r, back = {0};
        counted(&r, (const double[]){1234567890123, 7}, 2, 0);
        round_trip(&r, formats[i], &back);
        const size_t m = stk__count_metric(&back);
        assert_int_not_equal(m, SIZE_MAX);
        for (size_t v = 0; v < 2; v++) {
            assert_int_equal(stk__counts_of(&back.variants[v], m).n, 3);
            assert_true(stk__counts_of(&back.variants[v], m).median == (v ? 7 : 1234567890123));
        }
        if (formats[i] == STK__BENCH_STOKER)
            assert_string_equal(back.counted, "cachegrind 3.19.0");
        stk__result_clear(&back);
        stk__result_clear(&r);
    }
}

static void counts_of_two_tools_are_not_compared(void **state)
{
    (void)state;
    static const struct {
        const char *other;
        size_t kept;
    } rows[] = {{"callgrind 3.19.0", 0}, {"cachegrind 3.22.0", 3}, {"hardware counter", 0}};
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        stk__result a, b;
        counted(&a, (const double[]){100}, 1, 0);
        counted(&b, (const double[]){50}, 1, 0);
        stk__free(b.counted);
        b.counted = stk__strdup(rows[i].other);
        assert_int_equal(stk__bench_join(&a, &b, "b.json", NULL), STK_OK);
        assert_int_equal(stk__counts_of(&a.variants[0], STK__INSTRUCTIONS).n, 3);
        assert_int_equal(stk__counts_of(&a.variants[1], STK__INSTRUCTIONS).n, rows[i].kept);
        bool told = false;
        for (size_t k = 0; k < a.note_count; k++)
            told = told || strstr(a.notes[k], "another way of counting instructions in b.json");
        assert_true(told);
        stk__result_clear(&a);
        stk__result_clear(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_variants_are_one_line),
        cmocka_unit_test(many_variants_have_a_line_each),
        cmocka_unit_test(what_was_not_counted_is_not_told),
        cmocka_unit_test(counts_that_repeat_decide_without_a_test),
        cmocka_unit_test(only_counts_are_exact),
        cmocka_unit_test(one_run_does_not_show_whether_counts_repeat),
        cmocka_unit_test(reports_never_call_counts_fast),
        cmocka_unit_test(formats_that_can_carry_counts_do),
        cmocka_unit_test(counts_of_two_tools_are_not_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
