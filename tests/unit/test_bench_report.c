/* Reports word for word: verdicts, reasons, other metrics, interference, circumstances; hostile names; no memory. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "bench/report.h"
#include "bench/table.h"
#include "bench_results.h"

static const stk__rule rule = {.confidence = 0.95, .min_effect = 0.02, .margin = 0.02};

static void two_variants(stk__result *r)
{
    static const char *const names[] = {"lazy", "stored"};
    results_start(r, names, 2);
    results_fill(r, 0, 10, 15.9, 0.3);
    results_fill(r, 1, 10, 15.3, 0.3);
}

static void assert_report(const stk__result *r, const stk__comparisons *c, const char *want)
{
    stk__text t = STK__TEXT_INIT;
    stk__report_text(r, c, NULL, 0, &t);
    assert_false(t.failed);
    assert_string_equal(t.data, want);
    stk__text_clear(&t);
}

static void assert_line(const stk__result *r, const stk__comparison *items, size_t count, size_t index,
                        const char *want)
{
    stk__comparison copy[8];
    memcpy(copy, items, count * sizeof *items);
    const stk__comparisons c = {.items = copy, .count = count, .rule = rule};
    stk__text t = STK__TEXT_INIT;
    stk__report_line(r, &c, index, &t);
    assert_false(t.failed);
    assert_string_equal(t.data, want);
    stk__text_clear(&t);
}

static void report_of_two_variants_reads_as_documented(void **state)
{
    stk__result r;
    two_variants(&r);
    r.variants[0].values[STK__WALL][2] = 18.9;
    stk__comparison item = results_comparison(0, 1, 0.963, 0.0031, STK__FASTER);
    const stk__comparisons c = {.items = &item, .count = 1, .rule = rule};
    assert_report(&r, &c,
                  "  A  lazy    16.1 s +- 1.0  (n=10)  median 15.9, min 15.3, max 18.9, 1 outlier\n"
                  "  B  stored  15.3 s +- 0.4  (n=10)  median 15.3, min 14.7, max 15.9\n"
                  "  B/A 0.963  95 % CI 0.944..0.982   verdict: B is faster (Wilcoxon p=0.003, minimum effect 2 %)\n"
                  "  B is 1.038 times as fast as A (1.018 to 1.060)\n"
                  "\n"
                  "  order: random blocks, seed 42; warm-up 1 run each; 10 rounds\n");
    stk__result_clear(&r);
}

static void report_line_tells_each_verdict(void **state)
{
    stk__result r;
    two_variants(&r);
    stk__comparison x = results_comparison(0, 1, 1.002, 0.41, STK__EQUIVALENT);
    assert_line(&r, &x, 1, 0,
                "B/A 1.002  95 % CI 0.982..1.022   verdict: A and B are equivalent within 2 % (Wilcoxon p=0.41)");
    x = results_comparison(0, 1, 1.1, 0.0001, STK__SLOWER);
    assert_line(&r, &x, 1, 0,
                "B/A 1.100  95 % CI 1.078..1.122   verdict: B is slower (Wilcoxon p<0.001, minimum effect 2 %)");
    x = results_comparison(0, 1, 0.99, 0.21, STK__INCONCLUSIVE);
    x.more_rounds = 30;
    assert_line(
        &r, &x, 1, 0,
        "B/A 0.990  95 % CI 0.970..1.010   verdict: inconclusive (Wilcoxon p=0.21): about 30 more rounds would "
        "tell");
    x.more_rounds = 0;
    assert_line(&r, &x, 1, 0, "B/A 0.990  95 % CI 0.970..1.010   verdict: inconclusive (Wilcoxon p=0.21)");
    stk__result_clear(&r);
}

static void report_line_tells_why_there_is_no_verdict(void **state)
{
    stk__result r;
    two_variants(&r);
    stk__comparison x = results_comparison(0, 1, 0.99, 0.25, STK__INCONCLUSIVE);
    x.more_rounds = 30;
    x.pair.covered = false;
    assert_line(
        &r, &x, 1, 0,
        "B/A 0.990  least to greatest 0.970..1.010   verdict: inconclusive (Wilcoxon p=0.25): needs at least 6 rounds for "
        "95 %");
    char reason[] = "its output differs from A's\x1b[2J";
    x.withheld = reason;
    assert_line(
        &r, &x, 1, 0,
        "B/A 0.990  least to greatest 0.970..1.010   verdict: inconclusive (Wilcoxon p=0.25): its output differs from "
        "A's\\x1b[2J");
    x = (stk__comparison){.b = 1, .ratio = NAN, .low = NAN, .high = NAN, .p_holm = NAN};
    assert_line(&r, &x, 1, 0, "B/A -  95 % CI -   verdict: inconclusive: there are no figures to compare");
    stk__result_clear(&r);
}

static void report_line_says_unpaired_and_holm(void **state)
{
    stk__result r;
    two_variants(&r);
    r.paired = false;
    stk__comparison x = results_comparison(0, 1, 0.9, 0.012, STK__FASTER);
    x.paired = false;
    x.free.p_welch = 0.02;
    assert_line(&r, &x, 1, 0,
                "B/A 0.900  95 % CI 0.882..0.918   verdict: B is faster (unpaired: order not controlled; Mann-Whitney "
                "p=0.012, Welch p=0.020, minimum effect 2 %)");
    stk__comparison several[] = {results_comparison(0, 1, 0.9, 0.012, STK__FASTER),
                                 results_comparison(0, 1, 0.9, 0.012, STK__FASTER)};
    assert_line(
        &r, several, 2, 1,
        "B/A 0.900  95 % CI 0.882..0.918   verdict: B is faster (Wilcoxon p=0.012, Holm over 2, minimum effect "
        "2 %)");
    stk__result_clear(&r);
}

/* Words by unit and direction. */
static void report_line_fits_its_words_to_the_metric(void **state)
{
    static const struct {
        const char *unit;
        bool higher;
        stk__verdict verdict;
        double ratio;
        const char *word;
    } rows[] = {
        {"samples/s", true, STK__FASTER, 1.05, "B is faster"}, {"samples/s", true, STK__SLOWER, 0.9, "B is slower"},
        {"bytes", false, STK__FASTER, 0.9, "B is smaller"},    {"bytes", false, STK__SLOWER, 1.1, "B is larger"},
        {"bytes", true, STK__FASTER, 1.1, "B is larger"},      {"ns/op", false, STK__SLOWER, 1.1, "B is slower"},
        {"share", true, STK__FASTER, 1.1, "B is better"},      {"steps", false, STK__SLOWER, 1.1, "B is worse"}};
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        stk__result r = {0};
        assert_int_equal(stk__result_add_metric(&r, "m", rows[i].unit, rows[i].higher, NULL, NULL), STK_OK);
        stk__comparison x = results_comparison(0, 1, rows[i].ratio, 0.01, rows[i].verdict);
        const stk__comparisons c = {.items = &x, .count = 1, .rule = rule};
        stk__text t = STK__TEXT_INIT;
        stk__report_line(&r, &c, 0, &t);
        if (!strstr(t.data, rows[i].word))
            fail_msg("'%s' is not in: %s", rows[i].word, t.data);
        stk__text_clear(&t);
        stk__result_clear(&r);
    }
}

static void report_shows_other_metrics_interference_and_circumstances(void **state)
{
    stk__result r;
    two_variants(&r);
    for (size_t v = 0; v < 2; v++) {
        results_set(&r, v, STK__CPU, v ? 14.6 : 15.2);
        results_set(&r, v, STK__RSS, (v ? 280.0 : 312.0) * 1048576);
        results_set(&r, v, STK__MAJOR_FAULTS, 0);
        results_set(&r, v, STK__STEAL, v ? 0.031 : 0.002);
        results_set(&r, v, STK__PRESSURE_CPU, 0.12);
        results_set(&r, v, STK__PRESSURE_IO, 0.001);
    }
    r.dropped = 1;
    r.retaken = 2;
    r.interrupted = true;
    r.limits = stk__strdup("1 CPU (affinity)");
    r.machine = stk__strdup("AMD EPYC, 2 cores");
    assert_int_equal(stk__result_note(&r, NULL, "mind the %s", "gap\r"), STK_OK);
    stk__comparison cpu = results_comparison(0, 1, 0.961, 0.01, STK__INCONCLUSIVE);
    cpu.metric = STK__CPU;
    const stk__comparisons others = {.items = &cpu, .count = 1, .rule = rule};
    stk__text t = STK__TEXT_INIT;
    stk__report_text(&r, NULL, &others, 1, &t);
    assert_string_equal(t.data, "  A  lazy    15.9 s +- 0.4  (n=10)  median 15.9, min 15.3, max 16.5\n"
                                "  B  stored  15.3 s +- 0.4  (n=10)  median 15.3, min 14.7, max 15.9\n"
                                "\n"
                                "  cpu   15.2 s   14.6 s  B/A 0.961 (0.942..0.980)\n"
                                "  rss  312 MiB  280 MiB\n"
                                "\n"
                                "  interference: steal 1.7 %, CPU pressure 12 %\n"
                                "  B had more steal than A: 3.1 % against 0.2 %\n"
                                "\n"
                                "  order: random blocks, seed 42; warm-up 1 run each; 10 rounds (1 dropped, 2 taken "
                                "again); interrupted\n"
                                "  limits: 1 CPU (affinity)\n"
                                "  machine: AMD EPYC, 2 cores\n"
                                "  note: mind the gap\\x0d\n");
    stk__text_clear(&t);
    stk__result_clear(&r);
}

static void report_of_many_variants_is_a_table(void **state)
{
    static const char *const names[] = {"base", "one", "two", "three", "a name that is much longer than forty columns"};
    stk__result r;
    results_start(&r, names, STK_COUNT(names));
    stk__comparison items[4];
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        results_fill(&r, i, 10, i == 1 ? 1.52 : 0.976, 0);
        results_set(&r, i, STK__CPU, 0.5);
        if (i)
            items[i - 1] = results_comparison(0, i, 0.9, 0.02, STK__FASTER);
    }
    items[2].verdict = STK__INCONCLUSIVE;
    items[2].more_rounds = 1234;
    const stk__comparisons c = {.items = items, .count = 4, .rule = rule};
    assert_report(
        &r, &c,
        "  A  base                                      976 ms +- 0    (n=10)  median 976,   min 976,   max 976\n"
        "  B  one                                       1,520 ms +- 0  (n=10)  median 1,520, min 1,520, max "
        "1,520\n"
        "  C  two                                       976 ms +- 0    (n=10)  median 976,   min 976,   max 976\n"
        "  D  three                                     976 ms +- 0    (n=10)  median 976,   min 976,   max 976\n"
        "  E  a name that is much longer than forty...  976 ms +- 0    (n=10)  median 976,   min 976,   max 976\n"
        "\n"
        "       ratio  95 % CI       p        verdict\n"
        "  B/A  0.900  0.882..0.918  p=0.020  B is faster\n"
        "  C/A  0.900  0.882..0.918  p=0.020  C is faster\n"
        "  D/A  0.900  0.882..0.918  p=0.020  inconclusive: more rounds would hardly tell: a difference, if there is "
        "one, is lost in the noise\n"
        "  E/A  0.900  0.882..0.918  p=0.020  E is faster\n"
        "  p: Wilcoxon (Holm over 4); minimum effect 2 %; the intervals hold for all 4 together\n"
        "\n"
        "  medians\n"
        "        cpu\n"
        "  A  500 ms\n"
        "  B  500 ms\n"
        "  C  500 ms\n"
        "  D  500 ms\n"
        "  E  500 ms\n"
        "\n"
        "  order: random blocks, seed 42; warm-up 1 run each; 10 rounds\n");
    stk__result_clear(&r);
}

static void report_keeps_groups_apart(void **state)
{
    static const char *const names[] = {"old 1", "old 2", "new 1", "new 2"};
    stk__result r;
    results_start(&r, names, STK_COUNT(names));
    for (size_t i = 0; i < 4; i++) {
        r.variants[i].group = i % 2;
        results_fill(&r, i, 6, 1, 0.1);
    }
    stk__comparison items[] = {results_comparison(0, 2, 0.9, 0.02, STK__FASTER),
                               results_comparison(1, 3, 0.9, 0.02, STK__FASTER)};
    const stk__comparisons c = {.items = items, .count = 2, .rule = rule};
    stk__text t = STK__TEXT_INIT;
    stk__report_text(&r, &c, NULL, 0, &t);
    const char *places[] = {"  A  old 1", "  C  new 1", "  C/A 0.900", "\n\n  B  old 2", "  D  new 2", "  D/B 0.900"};
    const char *at = t.data;
    for (size_t i = 0; i < STK_COUNT(places); i++) {
        at = strstr(at, places[i]);
        if (!at)
            fail_msg("'%s' is missing or out of order in:\n%s", places[i], t.data);
    }
    stk__text_clear(&t);
    stk__result_clear(&r);
}

static void report_without_figures_says_so(void **state)
{
    static const char *const names[] = {"a", "\x1b[31mb\xff\n"};
    stk__result r;
    results_start(&r, names, 2);
    results_fill(&r, 0, 1, 1, 0);
    results_fill(&r, 1, 3, NAN, 0);
    r.paired = false;
    r.warmup = 0;
    assert_report(&r, NULL,
                  "  A  a                  1.00 s   (n=1)  median 1.00, min 1.00, max 1.00\n"
                  "  B  \\x1b[31mb\\xff\\x0a  no runs\n"
                  "\n"
                  "  order: not controlled; up to 3 runs\n");
    stk__result_clear(&r);
}

static void report_counts_exit_codes_that_were_allowed(void **state)
{
    static const char *const names[] = {"a"};
    stk__result r;
    results_start(&r, names, 1);
    results_fill(&r, 0, 6, 1, 0);
    r.variants[0].exit_codes[2] = 3;
    assert_report(&r, NULL,
                  "  A  a  1.00 s +- 0  (n=6)  median 1.00, min 1.00, max 1.00, exit code not 0 in 1 run\n"
                  "\n"
                  "  order: one variant; warm-up 1 run; 6 runs\n");
    stk__result_clear(&r);
}

static void report_markdown_escapes_names(void **state)
{
    static const char *const names[] = {"a|b", "<b>\n"};
    stk__result r;
    results_start(&r, names, 2);
    results_fill(&r, 0, 10, 15.9, 0.3);
    results_fill(&r, 1, 10, 15.3, 0.3);
    stk__comparison item = results_comparison(0, 1, 0.963, 0.0031, STK__FASTER);
    const stk__comparisons c = {.items = &item, .count = 1, .rule = rule};
    stk__text t = STK__TEXT_INIT;
    stk__report_markdown(&r, &c, &t);
    assert_false(t.failed);
    assert_non_null(strstr(t.data, "| | variant | wall | n | median | min | max | outliers |\n"));
    assert_non_null(strstr(t.data, " | 15.9 s +- 0.4 | 10 | 15.9 | 15.3 | 16.5 | 0 |\n"));
    assert_non_null(strstr(t.data, "| B/A | 0.963 | 0.944..0.982 | p=0.003 | B is faster |\n"));
    assert_null(strstr(t.data, "a|b"));
    assert_null(strstr(t.data, "<b>"));
    /* Each line of a table has as many cells as its head: bars that are not escaped. */
    size_t bars = 0, lines = 0;
    for (const char *p = t.data; *p && *p != '\n';) {
        for (bars = 0; *p != '\n'; p++)
            bars += *p == '|' && p[-(p > t.data)] != '\\';
        assert_int_equal(bars, 9);
        lines++;
        p++;
    }
    assert_int_equal(lines, 4);
    stk__text_clear(&t);
    stk__result_clear(&r);
}

static void report_out_of_memory_is_marked(void **state)
{
    stk__result r;
    two_variants(&r);
    results_set(&r, 0, STK__CPU, 1);
    stk__comparison item = results_comparison(0, 1, 0.963, 0.0031, STK__INCONCLUSIVE);
    item.more_rounds = 3;
    const stk__comparisons c = {.items = &item, .count = 1, .rule = rule};
    for (int markdown = 0; markdown < 2; markdown++) {
        bool done = false;
        for (uint64_t n = 1; !done && n < 1000; n++) {
            stk__text t = STK__TEXT_INIT;
            stk__alloc_fail_at(n, true);
            if (markdown)
                stk__report_markdown(&r, &c, &t);
            else
                stk__report_text(&r, &c, NULL, 0, &t);
            stk__alloc_fail_at(0, false);
            done = !t.failed;
            stk__text_clear(&t);
        }
        assert_true(done);
    }
    stk__result_clear(&r);
}

static void table_measures_columns_as_a_terminal_does(void **state)
{
    assert_int_equal(stk__columns("abc"), 3);
    assert_int_equal(stk__columns("\xc3\xa9"), 1);         /* e with an accent */
    assert_int_equal(stk__columns("e\xcc\x81"), 1);        /* e and an accent that combines */
    assert_int_equal(stk__columns("\xe6\xbc\xa2"), 2);     /* a wide character */
    assert_int_equal(stk__columns("\xf0\x9f\x98\x80"), 2); /* and another one */
    stk__text t = STK__TEXT_INIT;
    stk__put_safe(&t, "\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2", 5);
    assert_string_equal(t.data, "\xe6\xbc\xa2...");
    stk__text_reset(&t);
    char text[5001];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    stk__put_safe(&t, text, 0);
    assert_true(t.length <= 2000);
    assert_string_equal(t.data + t.length - 4, "x...");
    stk__text_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report_of_two_variants_reads_as_documented),
        cmocka_unit_test(report_line_tells_each_verdict),
        cmocka_unit_test(report_line_tells_why_there_is_no_verdict),
        cmocka_unit_test(report_line_says_unpaired_and_holm),
        cmocka_unit_test(report_line_fits_its_words_to_the_metric),
        cmocka_unit_test(report_shows_other_metrics_interference_and_circumstances),
        cmocka_unit_test(report_of_many_variants_is_a_table),
        cmocka_unit_test(report_keeps_groups_apart),
        cmocka_unit_test(report_without_figures_says_so),
        cmocka_unit_test(report_counts_exit_codes_that_were_allowed),
        cmocka_unit_test(report_markdown_escapes_names),
        cmocka_unit_test(report_out_of_memory_is_marked),
        cmocka_unit_test(table_measures_columns_as_a_terminal_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
