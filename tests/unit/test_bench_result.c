/* Results of benchmarks: variants, metrics, runs and notes; names that tell commands apart. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bench/result.h"
#include "base/mem.h"

/* ---- metrics, variants, runs ---- */

static void measures_are_the_first_metrics_in_their_order(void **state)
{
    stk__result r = {0};
    assert_int_equal(stk__result_add_measures(&r, NULL), STK_OK);
    assert_int_equal(r.metric_count, STK__MEASURES);
    for (int m = 0; m < STK__MEASURES; m++) {
        const stk__metric row = stk__measure_metric((stk__measure)m);
        assert_int_equal(stk__result_metric(&r, row.name), m);
        assert_string_equal(r.metrics[m].unit, row.unit);
        assert_false(r.metrics[m].higher_is_better);
    }
    assert_int_equal(stk__result_metric(&r, "wall"), STK__WALL);
    assert_string_equal(r.metrics[STK__RSS].unit, "bytes");
    assert_int_equal(stk__result_metric(&r, "walls"), SIZE_MAX);
    stk__result_clear(&r);
    assert_int_equal(r.metric_count, 0);
}

static void metric_that_is_there_already_is_refused(void **state)
{
    stk__result r = {0};
    stk_error err = {0};
    size_t index = 77;
    assert_int_equal(stk__result_add_metric(&r, "samples_per_s", "samples/s", true, &index, NULL), STK_OK);
    assert_int_equal(index, 0);
    assert_true(r.metrics[0].higher_is_better);
    assert_int_equal(stk__result_add_metric(&r, "samples_per_s", "s", false, &index, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "samples_per_s"));
    assert_int_equal(index, 0);
    assert_int_equal(r.metric_count, 1);
    stk__result_clear(&r);
}

static void metric_after_a_variant_is_refused(void **state)
{
    stk__result r = {0};
    stk_error err = {0};
    assert_int_equal(stk__result_add_metric(&r, "wall", "s", false, NULL, NULL), STK_OK);
    assert_int_equal(stk__result_add_variant(&r, "a", "true", 0, NULL, NULL), STK_OK);
    assert_int_equal(stk__result_add_metric(&r, "late", "s", false, NULL, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "late"));
    stk__result_clear(&r);
}

static void thirty_variants_keep_their_runs(void **state)
{
    stk__result r = {0};
    char name[16];
    assert_int_equal(stk__result_add_metric(&r, "wall", "s", false, NULL, NULL), STK_OK);
    assert_int_equal(stk__result_add_metric(&r, "rss", "bytes", false, NULL, NULL), STK_OK);
    for (size_t v = 0; v < 30; v++) {
        size_t index = 77;
        snprintf(name, sizeof name, "v%zu", v);
        assert_int_equal(stk__result_add_variant(&r, name, "true", v % 3, &index, NULL), STK_OK);
        assert_int_equal(index, v);
        for (size_t run = 0; run < 40; run++) {
            const double values[2] = {(double)(100 * v + run), NAN};
            assert_int_equal(stk__result_add_run(&r, v, values, (int)run, NULL), STK_OK);
        }
    }
    for (size_t v = 0; v < 30; v++) {
        snprintf(name, sizeof name, "v%zu", v);
        assert_int_equal(stk__result_variant(&r, name), v);
        assert_int_equal(r.variants[v].group, v % 3);
        assert_int_equal(r.variants[v].runs, 40);
        for (size_t run = 0; run < 40; run++) {
            assert_true(r.variants[v].values[0][run] == (double)(100 * v + run));
            assert_true(isnan(r.variants[v].values[1][run]));
            assert_int_equal(r.variants[v].exit_codes[run], run);
        }
    }
    assert_int_equal(stk__result_variant(&r, "v30"), SIZE_MAX);
    stk__result_clear(&r);
}

static void variant_of_the_same_name_is_refused(void **state)
{
    stk__result r = {0};
    stk_error err = {0};
    size_t index = 77;
    assert_int_equal(stk__result_add_variant(&r, "lazy", "x", 0, NULL, NULL), STK_OK);
    assert_int_equal(stk__result_add_variant(&r, "lazy", "y", 0, &index, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "'lazy'"));
    assert_int_equal(index, 77);
    assert_int_equal(r.variant_count, 1);
    stk__result_clear(&r);
}

static void parameters_and_notes_are_copies_in_order(void **state)
{
    stk__result r = {0};
    char word[] = "threads";
    assert_int_equal(stk__result_add_variant(&r, "a", "x", 0, NULL, NULL), STK_OK);
    assert_int_equal(stk__result_add_parameter(&r, 0, word, "1", NULL), STK_OK);
    assert_int_equal(stk__result_add_parameter(&r, 0, "size", "", NULL), STK_OK);
    word[0] = 'X';
    assert_int_equal(r.variants[0].parameter_count, 2);
    assert_string_equal(r.variants[0].parameters[0].name, "threads");
    assert_string_equal(r.variants[0].parameters[1].value, "");
    for (int i = 0; i < 20; i++)
        assert_int_equal(stk__result_note(&r, NULL, "note %d of %s", i, word), STK_OK);
    assert_int_equal(r.note_count, 20);
    assert_string_equal(r.notes[0], "note 0 of Xhreads");
    assert_string_equal(r.notes[19], "note 19 of Xhreads");
    stk__result_clear(&r);
}

/* Names may be whole commands; what a note says about them must not be lost. */
static void long_note_is_kept_whole(void **state)
{
    stk__result r = {0};
    char name[3001];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_int_equal(stk__result_note(&r, NULL, "%s is too fast", name), STK_OK);
    assert_int_equal(strlen(r.notes[0]), 3000 + strlen(" is too fast"));
    assert_string_equal(r.notes[0] + 3000, " is too fast");
    stk__result_clear(&r);
}

static stk_status fill(stk__result *r, stk_error *err)
{
    double values[STK__MEASURES] = {1};
    STK_TRY(stk__result_add_measures(r, err));
    for (size_t v = 0; v < 3; v++) {
        const char *const names[] = {"a", "b", "c"};
        STK_TRY(stk__result_add_variant(r, names[v], "command", 0, NULL, err));
        STK_TRY(stk__result_add_parameter(r, v, "n", "1", err));
        for (int run = 0; run < 20; run++)
            STK_TRY(stk__result_add_run(r, v, values, 0, err));
    }
    return stk__result_note(r, err, "a note");
}

/* Every allocation fails in turn; what was added before stays, and a further try goes on from there. */
static void result_without_memory_fails_and_stays_whole(void **state)
{
    stk_status status = STK_NOMEM;
    for (uint64_t n = 1; status == STK_NOMEM; n++) {
        stk__result r = {0};
        stk_error err = {0};
        stk__alloc_fail_at(n, true);
        status = fill(&r, &err);
        stk__alloc_fail_at(0, false);
        assert_int_equal(status, err.status);
        if (status == STK_NOMEM && r.variant_count) {
            const double values[STK__MEASURES] = {2};
            const size_t runs = r.variants[0].runs;
            assert_int_equal(stk__result_add_run(&r, 0, values, 0, NULL), STK_OK);
            assert_int_equal(r.variants[0].runs, runs + 1);
        }
        stk__result_clear(&r);
        assert_true(n < 500);
    }
    assert_int_equal(status, STK_OK);
}

/* ---- letters ---- */

static void letters_count_like_columns_of_a_table(void **state)
{
    static const struct {
        size_t index;
        const char *letters;
    } table[] = {{0, "A"},   {1, "B"},   {25, "Z"},   {26, "AA"},  {27, "AB"},
                 {51, "AZ"}, {52, "BA"}, {701, "ZZ"}, {702, "AAA"}};
    char out[8];
    for (size_t i = 0; i < STK_COUNT(table); i++) {
        stk__variant_letters(table[i].index, out);
        assert_string_equal(out, table[i].letters);
    }
    stk__variant_letters(SIZE_MAX - 1, out); /* fits, whatever it says */
    assert_int_equal(strlen(out), 7);
}

/* ---- names ---- */

enum { MOST = 32 };

static void assert_names(const char *const *commands, const char *const *wanted, size_t count)
{
    char *names[MOST];
    assert_int_equal(stk__variant_names(commands, count, names, NULL), STK_OK);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(names[i], wanted[i]);
    for (size_t i = 0; i < count; i++)
        stk__free(names[i]);
}

#define ASSERT_NAMES(commands, wanted)                            \
    do {                                                          \
        assert_int_equal(STK_COUNT(commands), STK_COUNT(wanted)); \
        assert_names(commands, wanted, STK_COUNT(commands));      \
    } while (0)

static void names_are_the_words_that_differ(void **state)
{
    {
        const char *const commands[] = {"python train.py --lazy", "python train.py --stored"};
        const char *const wanted[] = {"lazy", "stored"};
        ASSERT_NAMES(commands, wanted);
    }
    {
        /* In the middle, and several words long. */
        const char *const commands[] = {"run -j 1 --fast x.c", "run -j 16 --slow --safe x.c"};
        const char *const wanted[] = {"j 1 --fast", "j 16 --slow --safe"};
        ASSERT_NAMES(commands, wanted);
    }
    {
        /* The value of an option takes its name along. */
        const char *const commands[] = {"a.stoker --threads 1", "a.stoker --threads 2"};
        const char *const wanted[] = {"threads 1", "threads 2"};
        ASSERT_NAMES(commands, wanted);
    }
    {
        /* Prefixes count by words, not by letters. */
        const char *const commands[] = {"./bench-old", "./bench-new"};
        const char *const wanted[] = {"./bench-old", "./bench-new"};
        ASSERT_NAMES(commands, wanted);
    }
    {
        /* At the front; what follows is the same. */
        const char *const commands[] = {"old/app  in.txt", "new/app in.txt"};
        const char *const wanted[] = {"old/app", "new/app"};
        ASSERT_NAMES(commands, wanted);
    }
    {
        const char *const commands[] = {"a x", "b x", "c y"};
        const char *const wanted[] = {"a x", "b x", "c y"};
        ASSERT_NAMES(commands, wanted);
    }
}

static void command_with_nothing_of_its_own_keeps_all_words(void **state)
{
    {
        const char *const commands[] = {"app", "app --fast"};
        const char *const wanted[] = {"app", "app --fast"};
        ASSERT_NAMES(commands, wanted);
    }
    {
        /* The common front and back may not overlap: "x x" has a word more than "x". */
        const char *const commands[] = {"x x", "x"};
        const char *const wanted[] = {"x x", "x"};
        ASSERT_NAMES(commands, wanted);
    }
    {
        const char *const commands[] = {"x -", "x --"};
        const char *const wanted[] = {"x -", "x --"};
        ASSERT_NAMES(commands, wanted);
    }
    {
        /* Without their dashes they would be the same. */
        const char *const commands[] = {"x -fast", "x --fast"};
        const char *const wanted[] = {"x -fast", "x --fast"};
        ASSERT_NAMES(commands, wanted);
    }
}

static void one_command_is_its_own_name(void **state)
{
    const char *const commands[] = {"make -j2 test"};
    ASSERT_NAMES(commands, commands);
    char *none[1] = {NULL};
    assert_int_equal(stk__variant_names(NULL, 0, none, NULL), STK_OK);
}

static void same_commands_are_numbered(void **state)
{
    {
        const char *const commands[] = {"true", "true", "true"};
        const char *const wanted[] = {"true", "true (2)", "true (3)"};
        ASSERT_NAMES(commands, wanted);
    }
    {
        const char *const commands[] = {"a b", "a c", "a b"};
        const char *const wanted[] = {"a b", "a c", "a b (2)"};
        ASSERT_NAMES(commands, wanted);
    }
}

/* A result refuses names that are there twice, so a number must not make one. */
static void numbered_name_differs_from_a_command_of_that_name(void **state)
{
    const char *const commands[] = {"true", "true", "true (2)", "true (2)"};
    char *names[4];
    assert_int_equal(stk__variant_names(commands, 4, names, NULL), STK_OK);
    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(names[i], names[j]);
    }
    for (size_t i = 0; i < 4; i++)
        stk__free(names[i]);
}

static void empty_and_blank_commands_are_named_as_they_are(void **state)
{
    const char *const commands[] = {"", "  \t\n", "x"};
    ASSERT_NAMES(commands, commands);
}

static void thirty_commands_get_thirty_names(void **state)
{
    char texts[30][32], numbers[30][32];
    const char *commands[30], *wanted[30];
    for (int i = 0; i < 30; i++) {
        snprintf(texts[i], sizeof texts[i], "sort -n --rows=%d data", i);
        snprintf(numbers[i], sizeof numbers[i], "rows=%d", i);
        commands[i] = texts[i];
        wanted[i] = numbers[i];
    }
    ASSERT_NAMES(commands, wanted);
}

static void names_without_memory_fail_and_leave_nothing(void **state)
{
    const char *const commands[] = {"a same", "b same", "a same"};
    stk_status status = STK_NOMEM;
    for (uint64_t n = 1; status == STK_NOMEM; n++) {
        char *names[3];
        stk__alloc_fail_at(n, true);
        status = stk__variant_names(commands, 3, names, NULL);
        stk__alloc_fail_at(0, false);
        for (size_t i = 0; i < 3; i++) {
            if (status == STK_OK)
                stk__free(names[i]);
            else
                assert_null(names[i]);
        }
        assert_true(n < 100);
    }
    assert_int_equal(status, STK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measures_are_the_first_metrics_in_their_order),
        cmocka_unit_test(metric_that_is_there_already_is_refused),
        cmocka_unit_test(metric_after_a_variant_is_refused),
        cmocka_unit_test(thirty_variants_keep_their_runs),
        cmocka_unit_test(variant_of_the_same_name_is_refused),
        cmocka_unit_test(parameters_and_notes_are_copies_in_order),
        cmocka_unit_test(long_note_is_kept_whole),
        cmocka_unit_test(result_without_memory_fails_and_stays_whole),
        cmocka_unit_test(letters_count_like_columns_of_a_table),
        cmocka_unit_test(names_are_the_words_that_differ),
        cmocka_unit_test(command_with_nothing_of_its_own_keeps_all_words),
        cmocka_unit_test(one_command_is_its_own_name),
        cmocka_unit_test(same_commands_are_numbered),
        cmocka_unit_test(numbered_name_differs_from_a_command_of_that_name),
        cmocka_unit_test(empty_and_blank_commands_are_named_as_they_are),
        cmocka_unit_test(thirty_commands_get_thirty_names),
        cmocka_unit_test(names_without_memory_fail_and_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
