/* Calibration on made-up noise, where the truth is known, and its file. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/calibrate.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "stats/distributions.h"
#include "stats/verdict.h"

enum { ROUNDS = 1200 };

typedef struct {
    double a[ROUNDS], b[ROUNDS];
    uint8_t b_first[ROUNDS];
} noise;

/* Runs of about 1 s that take turns; each remembers `memory` of the deviation of the one before it. */
static void make_noise(noise *x, uint64_t seed, double memory, double drift)
{
    double deviation = 0;
    for (size_t i = 0; i < 2 * (size_t)ROUNDS; i++) {
        const uint64_t bits = stk__mix(seed, i);
        const double fresh = stk__normal_quantile(((double)(bits >> 12) + 0.5) / 4503599627370496.0);
        deviation = memory * deviation + sqrt(1 - memory * memory) * fresh;
        const double time = exp(0.03 * deviation + drift * sin((double)i / 150));
        const size_t round = i / 2;
        x->b_first[round] = round % 2;
        if ((i % 2 == 1) != (round % 2 == 1))
            x->b[round] = time;
        else
            x->a[round] = time;
    }
}

/* The rounds as one series of one command, judged. */
static stk_status calibrate_rounds(const double *a, const double *b, const uint8_t *b_first, size_t rounds,
                                   double confidence, stk__calibration *out, stk_error *err)
{
    stk__luck l = {0};
    stk_status status = stk__luck_add_effect(&l, 0, false, err);
    if (status == STK_OK)
        status = stk__luck_begin(&l, STK__LUCK_SAME, 0, err);
    for (size_t i = 0; status == STK_OK && i < 2 * rounds; i++) {
        const bool is_b = (i % 2 == 1) != (b_first && b_first[i / 2]);
        status = stk__luck_add(&l, is_b, is_b ? b[i / 2] : a[i / 2], err);
    }
    if (status == STK_OK)
        status = stk__luck_judge(&l, confidence, 7, err);
    if (status == STK_OK)
        status = stk__calibration_from(&l, confidence, out, err);
    stk__luck_clear(&l);
    return status;
}

static stk__calibration calibrate(const noise *x)
{
    stk__calibration c;
    stk_error err = {0};
    if (calibrate_rounds(x->a, x->b, x->b_first, ROUNDS, 0.95, &c, &err) != STK_OK)
        fail_msg("%s", err.message);
    return c;
}

/* Shares of false alarms in all windows of several calibrations. */
typedef struct {
    double paired, sequential, windows;
} shares;

static shares shares_of(uint64_t seed, double memory, double drift)
{
    shares sum = {0};
    for (uint64_t k = 0; k < 4; k++) {
        noise x;
        make_noise(&x, seed + k, memory, drift);
        const stk__calibration c = calibrate(&x);
        assert_int_equal(c.runs, 2 * ROUNDS);
        assert_true(fabs(c.median_s - 1) < 0.05);
        assert_true(drift > 0 ? c.autocorrelation > 0.6 : fabs(c.autocorrelation) < 0.1);
        if (memory == 0 && drift == 0)
            assert_true(fabs(c.cv - 0.03) < 0.003 && fabs(c.sd_log - 0.03 * sqrt(2)) < 0.004 &&
                        fabs(c.noise / c.sd_log - 1) < 0.35);
        for (size_t i = 0; i < STK__CALIBRATE_SIZES; i++) {
            const double windows = (double)c.sizes[i].windows;
            sum.paired += c.sizes[i].paired * windows;
            sum.sequential += c.sizes[i].sequential * windows;
            sum.windows += windows;
        }
    }
    sum.paired /= sum.windows;
    sum.sequential /= sum.windows;
    return sum;
}

static void calibration_on_drifting_noise_blames_the_sequential_design(void **state)
{
    const shares s = shares_of(1, 0.6, 0.05);
    assert_true(s.windows == 896);
    assert_true(s.paired > 0.005 && s.paired < 0.06);
    assert_true(s.sequential > 0.2 && s.sequential > 4 * s.paired);
}

/* The interval of the median is the stricter of the two conditions, so the verdict stays below the nominal 5 %. */
static void calibration_on_white_noise_finds_both_designs_near_the_level(void **state)
{
    const shares s = shares_of(100, 0, 0);
    assert_true(s.windows == 896);
    assert_true(s.paired > 0.005 && s.paired < 0.06);
    assert_true(s.sequential > 0.02 && s.sequential < 0.08);
}

static void calibration_uses_windows_that_follow_each_other_when_there_are_enough(void **state)
{
    noise x;
    make_noise(&x, 3, 0, 0);
    const stk__calibration c = calibrate(&x);
    static const size_t sizes[] = {12, 20, 30, 50}, windows[] = {100, 60, 40, 24};
    for (size_t i = 0; i < STK__CALIBRATE_SIZES; i++) {
        assert_int_equal(c.sizes[i].n, sizes[i]);
        assert_int_equal(c.sizes[i].stride, sizes[i]);
        assert_int_equal(c.sizes[i].windows, windows[i]);
        /* The runs are normal, so the formula holds, as far as so few windows tell. */
        const double wanted = expm1(stk__detectable(0.03 * sqrt(2), sizes[i], 0.96, 0.8));
        assert_true(fabs(c.sizes[i].detectable / wanted - 1) < 0.25);
        assert_true(c.sizes[i].detectable > 0 && (i == 0 || c.sizes[i].detectable < c.sizes[i - 1].detectable));
    }
}

static void calibration_of_few_rounds_says_how_many_windows_overlap(void **state)
{
    noise x;
    make_noise(&x, 4, 0, 0);
    static const struct {
        size_t rounds, n[4], windows[4], stride[4];
    } cases[] = {{480, {12, 20, 30, 50}, {40, 24, 20, 20}, {12, 20, 23, 22}},
                 {240, {8, 12, 20, 30}, {30, 20, 21, 20}, {8, 12, 11, 11}},
                 {120, {6, 8, 12, 20}, {20, 23, 22, 21}, {6, 5, 5, 5}},
                 {7, {6, 0, 0, 0}, {1, 0, 0, 0}, {2, 0, 0, 0}}};
    for (size_t k = 0; k < STK_COUNT(cases); k++) {
        stk__calibration c;
        assert_int_equal(calibrate_rounds(x.a, x.b, x.b_first, cases[k].rounds, 0.95, &c, NULL), STK_OK);
        for (size_t i = 0; i < STK__CALIBRATE_SIZES; i++) {
            assert_int_equal(c.sizes[i].n, cases[k].n[i]);
            assert_int_equal(c.sizes[i].windows, cases[k].windows[i]);
            assert_int_equal(c.sizes[i].stride, cases[k].stride[i]);
        }
    }
}

/* A slow second half is one side's under the sequential design, and shared by both sides in turns. */
static void calibration_puts_the_runs_in_the_order_of_their_running(void **state)
{
    double a[6], b[6];
    static const uint8_t b_first[6] = {0, 1, 0, 1, 0, 1};
    for (size_t i = 0; i < 6; i++) {
        a[i] = (i < 3 ? 1 : 2) + 0.001 * (double)(2 * i + b_first[i]);
        b[i] = (i < 3 ? 1 : 2) + 0.001 * (double)(2 * i + !b_first[i]);
    }
    stk__calibration c;
    assert_int_equal(calibrate_rounds(a, b, b_first, 6, 0.95, &c, NULL), STK_OK);
    assert_true(c.sizes[0].n == 6 && c.sizes[0].windows == 1);
    assert_true(c.sizes[0].sequential == 1 && c.sizes[0].paired == 0);
    assert_true(fabs(c.median_s - (1.005 + 2.006) / 2) < 1e-12);
}

static void calibration_refuses_too_few_rounds_and_times_that_are_none(void **state)
{
    double a[6] = {1, 1, 1, 1, 1, 1}, b[6] = {1, 1, 1, 1, 1, 1};
    stk__calibration c = {.runs = 77};
    stk_error err = {0};
    assert_int_equal(calibrate_rounds(a, b, NULL, 5, 0.95, &c, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "5 rounds"));
    assert_int_equal(calibrate_rounds(a, b, NULL, 6, 1, &c, &err), STK_INVALID);
    static const double bad[] = {0, -1, NAN, INFINITY};
    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        b[3] = bad[i];
        assert_int_equal(calibrate_rounds(a, b, NULL, 6, 0.95, &c, &err), STK_INVALID);
        assert_non_null(strstr(err.message, "run 8: B"));
    }
    assert_int_equal(c.runs, 77);
    /* No spread at all is no error: then everything can be told apart. */
    b[3] = 1;
    assert_int_equal(calibrate_rounds(a, b, NULL, 6, 0.95, &c, &err), STK_OK);
    assert_true(c.cv == 0 && c.sd_log == 0 && c.autocorrelation == 0);
    assert_true(c.sizes[0].paired == 0 && c.sizes[0].sequential == 0 && c.sizes[0].detectable < 0.001);
}

static void calibration_with_any_allocation_failing_gives_nomem(void **state)
{
    noise x;
    make_noise(&x, 5, 0, 0);
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        stk__calibration c;
        stk__alloc_fail_at(n, false);
        const stk_status status = calibrate_rounds(x.a, x.b, x.b_first, 12, 0.95, &c, NULL);
        stk__alloc_fail_at(0, false);
        done = status == STK_OK;
        if (!done)
            assert_int_equal(status, STK_NOMEM);
    }
}

/* ---- the file ---- */

static char directory[64], path[96];

static int make_directory(void **state)
{
    snprintf(directory, sizeof directory, "/tmp/stoker-calibrate-XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/machine.json", directory);
    return 0;
}

static int remove_directory(void **state)
{
    unlink(path);
    return rmdir(directory);
}

static void calibration_file_gives_back_what_was_saved(void **state)
{
    noise x;
    make_noise(&x, 6, 0.6, 0.05);
    stk__calibration c = calibrate(&x), back;
    assert_true(isnan(c.floor_s) && c.time_s == 0 && c.machine[0] == 0);
    for (int known = 0; known < 2; known++) {
        if (known) {
            c.floor_s = 0.00123;
            c.time_s = 1767225600;
            memcpy(c.machine, "0123abcd", 9);
        }
        assert_int_equal(stk__calibration_save(&c, path, NULL), STK_OK);
        memset(&back, 0x5a, sizeof back);
        assert_int_equal(stk__calibration_load(path, &back, NULL), STK_OK);
        assert_true(back.runs == c.runs && back.median_s == c.median_s && back.cv == c.cv && back.sd_log == c.sd_log);
        assert_true(back.noise == c.noise && c.noise > 0);
        assert_true(back.autocorrelation == c.autocorrelation && back.time_s == c.time_s);
        assert_true(known ? back.floor_s == c.floor_s : isnan(back.floor_s));
        assert_string_equal(back.machine, c.machine);
        for (size_t i = 0; i < STK__CALIBRATE_SIZES; i++) {
            assert_true(back.sizes[i].n == c.sizes[i].n && back.sizes[i].windows == c.sizes[i].windows);
            assert_true(back.sizes[i].stride == c.sizes[i].stride && back.sizes[i].paired == c.sizes[i].paired);
            assert_true(back.sizes[i].sequential == c.sizes[i].sequential);
            assert_true(back.sizes[i].detectable == c.sizes[i].detectable);
        }
    }
}

static void calibration_file_that_is_missing_gives_end(void **state)
{
    stk__calibration c = {.runs = 77};
    unlink(path);
    assert_int_equal(stk__calibration_load(path, &c, NULL), STK_END);
    assert_int_equal(c.runs, 77);
}

/* The good file, as versions before this one wrote it, with one part of it replaced. */
static void load_after(const char *old, const char *new, stk_status wanted)
{
    static const char good[] =
        "{\"stoker_calibration\":1,\"machine\":\"0123abcd\",\"time_s\":5,\"runs\":24,\"median_s\":1.5,\"cv\":0.1,"
        "\"autocorrelation\":0.5,\"sd_log\":0.1,\"floor_s\":null,\"sizes\":[{\"n\":6,\"windows\":2,\"stride\":6,"
        "\"paired\":0,\"sequential\":0.5,\"detectable\":0.2}]}";
    const char *where = strstr(good, old);
    assert_non_null(where);
    stk__text t = STK__TEXT_INIT;
    stk__text_write(&t, good, (size_t)(where - good));
    stk__text_puts(&t, new);
    stk__text_puts(&t, where + strlen(old));
    assert_int_equal(stk__write_file(path, t.data, t.length, NULL), STK_OK);
    stk__calibration c = {.runs = 77};
    stk_error err = {0};
    const stk_status status = stk__calibration_load(path, &c, &err);
    if (status != wanted)
        fail_msg("%s: %s %s", t.data, stk_status_name(status), err.message);
    if (wanted != STK_OK) {
        assert_string_equal(err.file, path);
        assert_non_null(strstr(err.message, "wanted"));
        assert_int_equal(c.runs, 77);
    }
    stk__text_clear(&t);
}

static void calibration_file_that_is_damaged_is_refused(void **state)
{
    load_after("{", "{", STK_OK);
    load_after("\"0123abcd\"", "\"\"", STK_OK);
    static const struct {
        const char *old, *new;
    } damages[] = {
        {"}]}", "}]"},
        {"{\"stoker", "[\"stoker"},
        {"calibration\":1", "calibration\":2"},
        {"0123abcd", "0123abcde"},
        {"0123abcd", "0123abc\\u001b"},
        {"0123abcd", "0123ABCD"},
        {"\"time_s\":5", "\"time_s\":-5"},
        {"\"time_s\":5", "\"time_s\":5.5"},
        {"\"runs\":24", "\"runs\":11"},
        {"\"runs\":24", "\"runs\":1e99"},
        {"\"runs\":24", "\"runs\":99999999999999999999"},
        {"1.5", "\"1.5\""},
        {"1.5", "-1.5"},
        {"\"cv\":0.1", "\"cv\":null"},
        {"\"cv\":0.1", "\"cv\":0.1,\"cv\":0.1"},
        {"\"sd_log\":0.1", "\"sd_log\":0.1,\"noise\":-1"},
        {"\"autocorrelation\":0.5", "\"autocorrelation\":1.5"},
        {"\"floor_s\":null", "\"floor_s\":true"},
        {"\"floor_s\":null,", ""},
        {"[{", "[1,{"},
        {"\"n\":6", "\"n\":5"},
        {"\"windows\":2", "\"windows\":0"},
        {"\"stride\":6", "\"stride\":0"},
        {"\"sequential\":0.5", "\"sequential\":1.5"},
        {"\"detectable\":0.2", "\"detectable\":-1"},
        {"[{\"n\":6", "[{},{},{},{},{\"n\":6"},
        {"{\"stoker_calibration\":1", ""},
    };
    for (size_t i = 0; i < STK_COUNT(damages); i++)
        load_after(damages[i].old, damages[i].new, STK_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calibration_on_drifting_noise_blames_the_sequential_design),
        cmocka_unit_test(calibration_on_white_noise_finds_both_designs_near_the_level),
        cmocka_unit_test(calibration_uses_windows_that_follow_each_other_when_there_are_enough),
        cmocka_unit_test(calibration_of_few_rounds_says_how_many_windows_overlap),
        cmocka_unit_test(calibration_puts_the_runs_in_the_order_of_their_running),
        cmocka_unit_test(calibration_refuses_too_few_rounds_and_times_that_are_none),
        cmocka_unit_test(calibration_with_any_allocation_failing_gives_nomem),
        cmocka_unit_test(calibration_file_gives_back_what_was_saved),
        cmocka_unit_test(calibration_file_that_is_missing_gives_end),
        cmocka_unit_test(calibration_file_that_is_damaged_is_refused),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
