/* Results with known figures, for tests of reports and charts. */
#ifndef STK_TESTS_BENCH_RESULTS_H
#define STK_TESTS_BENCH_RESULTS_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "bench/compare.h"
#include "bench/history.h"
#include "bench/log_impl.h"
#include "bench/result.h"

/* A result with the usual metrics and these variants, without runs. */
static inline void results_start(stk__result *r, const char *const *names, size_t count)
{
    *r = (stk__result){.paired = true, .seed = 42, .warmup = 1, .floor_s = NAN};
    assert_int_equal(stk__result_add_measures(r, NULL), STK_OK);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(stk__result_add_variant(r, names[i], "true", 0, NULL, NULL), STK_OK);
}

/* Runs around `mean`: -2, -1, 0, 1, 2 steps, in a mixed order. */
static inline void results_fill(stk__result *r, size_t variant, size_t runs, double mean, double step)
{
    for (size_t i = 0; i < runs; i++) {
        double values[STK__MEASURES];
        for (size_t m = 0; m < STK__MEASURES; m++)
            values[m] = NAN;
        values[STK__WALL] = mean + ((double)(i * 7 % 5) - 2) * step;
        assert_int_equal(stk__result_add_run(r, variant, values, 0, NULL), STK_OK);
    }
}

static inline void results_set(stk__result *r, size_t variant, size_t metric, double value)
{
    for (size_t i = 0; i < r->variants[variant].runs; i++)
        r->variants[variant].values[metric][i] = value;
}

/* A comparison as stk__compare would leave it. */
static inline stk__comparison results_comparison(size_t a, size_t b, double ratio, double p, stk__verdict verdict)
{
    stk__comparison c = {.a = a, .b = b, .valid = true, .paired = true, .ratio = ratio, .low = ratio * 0.98};
    c.high = ratio * 1.02;
    c.p = c.p_holm = p;
    c.n = 12;
    c.verdict = verdict;
    c.pair.covered = c.free.covered = true;
    return c;
}

/* Three steps: 16, 8 and 2 s. */
static inline void results_ladder(stk__result *r, stk__comparison steps[2], stk__comparison whole[2])
{
    static const char *const names[] = {"baseline", "read ahead", "decode <in> C"};
    static const double means[] = {16, 8, 2};
    results_start(r, names, 3);
    for (size_t i = 0; i < 3; i++) {
        results_fill(r, i, 10, means[i], 0.01 * means[i]);
        if (i) {
            steps[i - 1] = results_comparison(i - 1, i, means[i] / means[i - 1], 0.01, STK__FASTER);
            whole[i - 1] = results_comparison(0, i, means[i] / means[0], 0.01, STK__FASTER);
        }
    }
    steps[0].verdict = STK__INCONCLUSIVE;
}

/* A log with figures of every kind: gaps, a change of machine, verdicts, names that need escaping. */
static inline void results_history(stk__log *log, size_t rows, size_t benchmarks)
{
    *log = (stk__log){.version = 2};
    for (size_t b = 0; b < benchmarks; b++) {
        char name[32];
        size_t index;
        snprintf(name, sizeof name, b > 1 ? "decode %zu" : b ? "<b>\x1b" : "decode", b);
        assert_int_equal(stk__log_add_benchmark(log, name, &index, NULL), STK_OK);
        log->benchmarks[b].metric = stk__strdup("wall");
        log->benchmarks[b].unit = stk__strdup(b == 1 ? "bytes" : "s");
    }
    for (size_t i = 0; i < rows; i++) {
        stk__log_row *row;
        char hash[41];
        assert_int_equal(stk__log_add_row(log, &row, NULL), STK_OK);
        snprintf(hash, sizeof hash, "%040zx", i * 0x1234567);
        row->time_s = 1760000000 + (int64_t)i * 86400;
        row->commit = stk__strdup(hash + 32);
        row->parent = stk__strdup("");
        row->machine = stk__strdup(i + 2 < rows ? "one, Linux 6.1" : "two, Linux 6.1");
        row->limits = stk__strdup("");
        row->description = stk__strdup("a <change>\x01");
        row->dirty = i == 1;
        for (size_t b = 0; b < benchmarks; b++) {
            row->cells[b].mean = 0.01 + 0.001 * (double)(i * 7 % 8);
            row->cells[b].sd = 0.0002;
            row->cells[b].n = 12;
        }
        if ((i == 2 || i == 3) && benchmarks) {
            row->cells[0].verdict = stk__strdup(i == 2 ? "faster" : "slower");
            row->cells[0].against = stk__strdup("1234567");
            row->cells[0].paired = true;
        }
        if (i == 2 && benchmarks)
            row->cells[0].ratio = 0.9, row->cells[0].low = 0.88, row->cells[0].high = 0.92;
    }
    if (rows > 4 && benchmarks) {
        log->rows[4].cells[0].mean = log->rows[4].cells[0].sd = NAN;
        log->rows[4].cells[0].n = 0;
    }
}

static inline void results_history_clear(stk__log *log)
{
    stk__log_clear(log);
}

/* All of a log as it is shown; cleared by stk__history_clear. */
static inline stk__history results_shown(const stk__log *log)
{
    stk__history h;
    assert_int_equal(stk__history_init(&h, log, &(stk__history_options){0}, NULL), STK_OK);
    return h;
}

#endif
