/* Comparing functions by the public call: rounds, order, stopping, errors, what is written and read back. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <stoker/bench.h>

#include "base/mem.h"
#include "base/rng.h"
#include "bench/interchange.h"

enum { MOST_CALLS = 4096 };

static const char *const names[] = {"old", "new", "other"};

/* Functions that take as long as they are told, and what was asked of them. */
typedef struct bed {
    double seconds[3];
    size_t calls, variants[MOST_CALLS];
    size_t fail_at; /* call that fails ... */
    stk_status failure;
    const char *message; /* ... and what it says; NULL: nothing */
    size_t rounds_told, told;
    size_t stop_round; /* progress ends it when this round begins */
    bool stop_at_once;
} bed;

static bed bed_make(double a, double b, double c)
{
    return (bed){.seconds = {a, b, c}, .fail_at = SIZE_MAX, .stop_round = SIZE_MAX};
}

static stk_status run(void *arg, size_t variant, double *out_seconds, stk_error *err)
{
    bed *b = arg;
    const size_t call = b->calls++;
    assert_true(call < MOST_CALLS);
    b->variants[call] = variant;
    if (call == b->fail_at)
        return b->message ? stk_error_set(err, b->failure, "%s", b->message) : b->failure;
    *out_seconds = b->seconds[variant] * (1 + 0.002 * ((double)(stk__mix(7, call) % 1001) / 500 - 1));
    return STK_OK;
}

static bool progress(void *arg, size_t round, size_t rounds, double left_s)
{
    bed *b = arg;
    b->told++;
    b->rounds_told = rounds;
    assert_true(rounds == 0 || round < rounds);
    assert_false(left_s < 0);
    return !b->stop_at_once && round < b->stop_round;
}

static stk_bench_options options_of(bed *b, size_t rounds)
{
    return (stk_bench_options){
        .struct_size = sizeof(stk_bench_options), .rounds = rounds, .seed = 5, .progress = progress, .progress_arg = b};
}

static void read_back(const char *json, stk__result *out)
{
    stk_error err = {0};
    *out = (stk__result){0};
    assert_int_equal(stk__bench_read(json, strlen(json), "json", STK__BENCH_UNKNOWN, out, &err), STK_OK);
}

static void the_faster_function_is_named(void **state)
{
    bed b = bed_make(2e-3, 1e-3, 0);
    const stk_bench_options o = options_of(&b, 8);
    char *text = NULL, *json = NULL;
    stk_error err = {0};
    assert_int_equal(stk_bench_compare(names, 2, run, &b, &o, &text, &json, &err), STK_OK);
    assert_non_null(strstr(text, "B is faster"));
    assert_non_null(strstr(text, "new"));
    assert_non_null(strstr(text, "order: random blocks, seed 5; warm-up 1 run each; 8 rounds"));
    assert_non_null(strstr(json, "\"verdict\":\"faster\""));
    stk__free(text);
    stk__free(json);
}

static void equal_functions_are_equivalent(void **state)
{
    bed b = bed_make(1e-3, 1e-3, 0);
    const stk_bench_options o = options_of(&b, 20);
    char *json = NULL;
    assert_int_equal(stk_bench_compare(names, 2, run, &b, &o, NULL, &json, NULL), STK_OK);
    assert_non_null(strstr(json, "\"verdict\":\"equivalent\""));
    stk__free(json);
}

static void the_minimum_effect_decides(void **state)
{
    bed b = bed_make(1e-3, 0.9e-3, 0);
    stk_bench_options o = options_of(&b, 12);
    char *json = NULL;
    o.min_effect = 0.2;
    assert_int_equal(stk_bench_compare(names, 2, run, &b, &o, NULL, &json, NULL), STK_OK);
    assert_non_null(strstr(json, "\"verdict\":\"equivalent\""));
    assert_non_null(strstr(json, "\"min_effect\":0.2,\"margin\":0.2"));
    stk__free(json);
}

static void json_reads_back_with_its_pairs(void **state)
{
    bed b = bed_make(2e-3, 1e-3, 3e-3);
    const stk_bench_options o = options_of(&b, 6);
    char *json = NULL;
    assert_int_equal(stk_bench_compare(names, 3, run, &b, &o, NULL, &json, NULL), STK_OK);
    stk__result r;
    read_back(json, &r);
    assert_true(r.paired);
    assert_false(r.interrupted);
    assert_int_equal(r.seed, 5);
    assert_int_equal(r.variant_count, 3);
    assert_non_null(r.machine);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(r.variants[i].name, names[i]);
        assert_int_equal(r.variants[i].runs, 6);
        assert_true(fabs(r.variants[i].values[0][5] / b.seconds[i] - 1) < 0.01);
    }
    assert_string_equal(r.metrics[0].name, "wall");
    stk__result_clear(&r);
    stk__free(json);
}

static void every_function_runs_once_in_each_round(void **state)
{
    bed b = bed_make(1, 2, 3);
    stk_bench_options o = options_of(&b, 10);
    o.warmup = 4;
    assert_int_equal(stk_bench_compare(names, 3, run, &b, &o, NULL, NULL, NULL), STK_OK);
    assert_int_equal(b.calls, 3 * 4 + 3 * 10);
    bool mixed = false;
    for (size_t at = 12; at < b.calls; at += 3) {
        unsigned seen = 0;
        for (size_t k = 0; k < 3; k++) {
            seen |= 1u << b.variants[at + k];
            mixed |= b.variants[at + k] != k;
        }
        assert_int_equal(seen, 7);
    }
    assert_true(mixed);
    /* The same seed gives the same order. */
    bed again = bed_make(1, 2, 3);
    o.progress_arg = &again;
    assert_int_equal(stk_bench_compare(names, 3, run, &again, &o, NULL, NULL, NULL), STK_OK);
    assert_memory_equal(b.variants, again.variants, sizeof b.variants);
}

static void the_number_of_rounds_is_chosen(void **state)
{
    bed b = bed_make(1, 2, 0);
    const stk_bench_options o = options_of(&b, 0);
    assert_int_equal(stk_bench_compare(names, 2, run, &b, &o, NULL, NULL, NULL), STK_OK);
    assert_int_equal(b.rounds_told, 50); /* nothing takes time here */
    assert_int_equal(b.calls, 2 + 2 * 50);
    assert_int_equal(b.told, b.calls);
}

static void options_may_be_left_out(void **state)
{
    bed b = bed_make(1, 2, 0);
    char *json = NULL;
    assert_int_equal(stk_bench_compare(names, 2, run, &b, NULL, NULL, &json, NULL), STK_OK);
    assert_null(strstr(json, "\"seed\":0,"));
    stk__free(json);
    /* A caller that was compiled with fewer fields. */
    stk_bench_options o = options_of(&b, 6);
    o.struct_size = offsetof(stk_bench_options, progress);
    b.told = b.calls = 0;
    assert_int_equal(stk_bench_compare(names, 2, run, &b, &o, NULL, NULL, NULL), STK_OK);
    assert_int_equal(b.told, 0);
    assert_int_equal(b.calls, 14);
}

static void one_function_alone_is_measured(void **state)
{
    bed b = bed_make(1, 0, 0);
    const stk_bench_options o = options_of(&b, 6);
    char *text = NULL, *json = NULL;
    assert_int_equal(stk_bench_compare(names, 1, run, &b, &o, &text, &json, NULL), STK_OK);
    assert_non_null(strstr(json, "\"comparisons\":[]"));
    assert_non_null(strstr(text, "one variant"));
    stk__free(text);
    stk__free(json);
}

static void other_units_are_no_times(void **state)
{
    bed b = bed_make(4096, 1024, 0);
    stk_bench_options o = options_of(&b, 8);
    char *text = NULL, *json = NULL;
    o.unit = "bytes";
    assert_int_equal(stk_bench_compare(names, 2, run, &b, &o, &text, &json, NULL), STK_OK);
    assert_non_null(strstr(text, "B is smaller"));
    assert_non_null(strstr(json, "{\"name\":\"value\",\"unit\":\"bytes\""));
    stk__free(text);
    stk__free(json);
}

static void progress_ends_it_with_whole_rounds(void **state)
{
    bed b = bed_make(2, 1, 0);
    b.stop_round = 7;
    const stk_bench_options o = options_of(&b, 100);
    char *text = NULL, *json = NULL;
    assert_int_equal(stk_bench_compare(names, 2, run, &b, &o, &text, &json, NULL), STK_OK);
    assert_non_null(strstr(json, "\"interrupted\":true"));
    assert_non_null(strstr(text, "7 rounds; interrupted"));
    stk__result r;
    read_back(json, &r);
    assert_int_equal(r.variants[0].runs, 7);
    assert_int_equal(r.variants[1].runs, 7);
    stk__result_clear(&r);
    stk__free(text);
    stk__free(json);
}

static void ended_before_the_first_round_is_cancelled(void **state)
{
    char *text = (char *)state, *json = (char *)state; /* untouched on failure */
    stk_error err = {0};
    bed b = bed_make(2, 1, 0);
    b.stop_at_once = true;
    stk_bench_options o = options_of(&b, 10);
    assert_int_equal(stk_bench_compare(names, 2, run, &b, &o, &text, &json, &err), STK_CANCELLED);
    assert_int_equal(b.calls, 0);
    assert_int_equal(err.status, STK_CANCELLED);
    assert_ptr_equal(text, state);
    assert_ptr_equal(json, state);
    /* In the middle of the first round. */
    b = bed_make(2, 1, 0);
    b.stop_round = 0;
    assert_int_equal(stk_bench_compare(names, 2, run, &b, &o, &text, &json, NULL), STK_CANCELLED);
    assert_ptr_equal(json, state);
}

static void an_error_of_a_function_ends_it(void **state)
{
    static const stk_status failures[] = {STK_IO, STK_CANCELLED, STK_END};
    for (size_t i = 0; i < 3; i++) {
        for (size_t at = 0; at < 30; at += 13) { /* in the warm-up, and later */
            char *json = (char *)state;
            stk_error err = {0};
            bed b = bed_make(2, 1, 0);
            b.fail_at = at;
            b.failure = failures[i];
            b.message = "the disk is gone";
            const stk_bench_options o = options_of(&b, 20);
            assert_int_equal(stk_bench_compare(names, 2, run, &b, &o, NULL, &json, &err), failures[i]);
            assert_string_equal(err.message, "the disk is gone");
            assert_int_equal(b.calls, at + 1);
            assert_ptr_equal(json, state);
        }
    }
    /* One that says nothing. */
    stk_error err = {0};
    bed b = bed_make(2, 1, 0);
    b.fail_at = 1;
    b.failure = STK_CORRUPT;
    assert_int_equal(stk_bench_compare(names, 2, run, &b, NULL, NULL, NULL, &err), STK_CORRUPT);
    assert_string_equal(err.message, "a run of 'new' failed: corrupt data");
}

static void times_that_are_none_are_refused(void **state)
{
    static const double wrong[] = {-1, NAN, INFINITY};
    for (size_t i = 0; i < 3; i++) {
        stk_error err = {0};
        bed b = bed_make(1, wrong[i], 0);
        assert_int_equal(stk_bench_compare(names, 2, run, &b, NULL, NULL, NULL, &err), STK_INVALID);
        assert_non_null(strstr(err.message, "'new'"));
    }
    /* 0 is a time, but has no ratio. */
    bed b = bed_make(1, 0, 0);
    const stk_bench_options o = options_of(&b, 6);
    char *text = NULL;
    assert_int_equal(stk_bench_compare(names, 2, run, &b, &o, &text, NULL, NULL), STK_OK);
    assert_non_null(strstr(text, "some values are 0"));
    stk__free(text);
}

static void refuse(const char *const *list, size_t count, stk_bench_options o, const char *words)
{
    stk_error err = {0};
    bed b = bed_make(1, 2, 3);
    assert_int_equal(stk_bench_compare(list, count, run, &b, &o, NULL, NULL, &err), STK_INVALID);
    if (!strstr(err.message, words))
        fail_msg("'%s' does not say '%s'", err.message, words);
    assert_int_equal(b.calls, 0);
    assert_int_equal(stk_bench_compare(list, count, run, &b, &o, NULL, NULL, NULL), STK_INVALID);
}

static void what_cannot_be_is_refused(void **state)
{
    const stk_bench_options good = {.struct_size = sizeof good};
    stk_bench_options o = good;
    const char *const twice[] = {"a", "b", "a"}, *const empty[] = {"a", ""}, *const missing[] = {"a", NULL};
    char *lengthy = calloc(1, 5001);
    assert_non_null(lengthy);
    memset(lengthy, 'x', 5000);
    const char *const longer[] = {"a", lengthy};
    refuse(NULL, 2, good, "0 functions");
    refuse(names, 0, good, "0 functions");
    refuse(twice, 3, good, "two functions are called 'a'");
    refuse(empty, 2, good, "function 1 has no name");
    refuse(missing, 2, good, "function 1 has no name");
    refuse(longer, 2, good, "longer than 4096");
    free(lengthy);
    o.struct_size = 3;
    refuse(names, 2, o, "struct_size of the bench options is 3");
    o = good;
    o.rounds = 1 << 30;
    refuse(names, 2, o, "rounds is 1073741824, wanted at most");
    o = good;
    o.warmup = 1 << 30;
    refuse(names, 2, o, "warmup is");
    o = good;
    o.min_effect = -0.1;
    refuse(names, 2, o, "min_effect is -0.1");
    o.min_effect = NAN;
    refuse(names, 2, o, "min_effect is");
    o = good;
    o.unit = "";
    refuse(names, 2, o, "the unit has no bytes");
    o.unit = "\x1b[31m";
    refuse(names, 2, o, "control byte 0x1b");
    assert_int_equal(stk_bench_compare(names, 2, NULL, NULL, NULL, NULL, NULL, NULL), STK_INVALID);
}

static void strange_names_stay_harmless(void **state)
{
    const char *const list[] = {"\x1b[31mred", "<b>\"x\"</b>\n"};
    bed b = bed_make(2, 1, 0);
    const stk_bench_options o = options_of(&b, 6);
    char *text = NULL, *json = NULL;
    assert_int_equal(stk_bench_compare(list, 2, run, &b, &o, &text, &json, NULL), STK_OK);
    assert_null(strchr(text, 0x1b));
    assert_null(strchr(json, 0x1b));
    stk__result r;
    read_back(json, &r);
    assert_string_equal(r.variants[1].name, list[1]);
    stk__result_clear(&r);
    stk__free(text);
    stk__free(json);
}

/* Each allocation fails in turn: NOMEM, or the end without it, and nothing leaks. */
static void out_of_memory_is_told(void **state)
{
    for (uint64_t n = 1;; n++) {
        char *text = NULL, *json = NULL;
        stk_error err = {0};
        bed b = bed_make(2, 1, 0);
        const stk_bench_options o = options_of(&b, 6);
        stk__alloc_fail_at(n, true);
        const stk_status status = stk_bench_compare(names, 2, run, &b, &o, &text, &json, &err);
        stk__alloc_fail_at(0, false);
        if (status == STK_OK) {
            assert_true(n > 20);
            stk__free(text);
            stk__free(json);
            return;
        }
        assert_int_equal(status, STK_NOMEM);
        assert_null(text);
        assert_null(json);
        assert_true(n < 10000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_faster_function_is_named),
        cmocka_unit_test(equal_functions_are_equivalent),
        cmocka_unit_test(the_minimum_effect_decides),
        cmocka_unit_test(json_reads_back_with_its_pairs),
        cmocka_unit_test(every_function_runs_once_in_each_round),
        cmocka_unit_test(the_number_of_rounds_is_chosen),
        cmocka_unit_test(options_may_be_left_out),
        cmocka_unit_test(one_function_alone_is_measured),
        cmocka_unit_test(other_units_are_no_times),
        cmocka_unit_test(progress_ends_it_with_whole_rounds),
        cmocka_unit_test(ended_before_the_first_round_is_cancelled),
        cmocka_unit_test(an_error_of_a_function_ends_it),
        cmocka_unit_test(times_that_are_none_are_refused),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(strange_names_stay_harmless),
        cmocka_unit_test(out_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
