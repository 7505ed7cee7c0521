/* Files of benchmarks: ladders, suites, options, and messages about what is wrong in them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/suite.h"
#include "base/mem.h"

static stk__suite parse(const char *text)
{
    stk__suite s;
    stk_error err = {0};
    if (stk__suite_parse(text, strlen(text), "x.toml", &s, &err) != STK_OK)
        fail_msg("%s: line %d, column %d: %s", text, err.line, err.column, err.message);
    return s;
}

static void refuses(const char *text, int line, const char *part)
{
    stk__suite s;
    stk_error err = {0};
    memset(&s, 0x5a, sizeof s);
    const stk__suite before = s;
    if (stk__suite_parse(text, strlen(text), "x.toml", &s, &err) != STK_INVALID)
        fail_msg("%s: taken", text);
    if (!strstr(err.message, part) || !strstr(err.message, "wanted") || err.line != line)
        fail_msg("%s: line %d, column %d: %s", text, err.line, err.column, err.message);
    assert_string_equal(err.file, "x.toml");
    assert_memory_equal(&s, &before, sizeof s);
    assert_int_equal(stk__suite_parse(text, strlen(text), NULL, &s, NULL), STK_INVALID);
}

#define STEPS "[[step]]\nname = 'a'\ncommand = 'x'\n[[step]]\nname = 'b'\ncommand = 'y'\n"
#define MEASURE "[[measure]]\nname = 'm'\ncommand = 'x'\n"

static void suite_reads_a_ladder(void **state)
{
    stk__suite s =
        parse("title = 'Speed'\nrounds = 12\n\n[[step]]\nname = 'base'\ncommand = './a'\n"
              "[[step]]\nname = 'fast'\ncommand = './b'\nnote = 'tables'\nprepare = 'sync'\ndirectory = '/tmp'\n");
    assert_string_equal(s.title, "Speed");
    assert_int_equal(s.options.rounds, 12);
    assert_int_equal(s.step_count, 2);
    assert_int_equal(s.entry_count, 0);
    assert_string_equal(s.steps[0].name, "base");
    assert_string_equal(s.steps[0].command, "./a");
    assert_null(s.steps[0].note);
    assert_null(s.steps[0].options.prepare);
    assert_int_equal(s.steps[0].line, 4);
    assert_int_equal(s.steps[1].line, 7);
    assert_string_equal(s.steps[1].note, "tables");
    assert_string_equal(s.steps[1].options.prepare, "sync");
    assert_string_equal(s.steps[1].options.directory, "/tmp");
    stk__suite_clear(&s);
    assert_null(s.steps);
    stk__suite_clear(&s);
}

static void suite_reads_comparisons_and_measures_in_the_order_of_the_file(void **state)
{
    stk__suite s =
        parse("notes = ['one', 'two']\n"
              "[[measure]]\nname = 'start'\ncommand = 'x'\nat_most = '20ms'\n"
              "[[compare]]\nname = 'read'\na = 'us'\nb = 'them'\na_name = 'A'\nb_name = 'B'\nat_least = 1.5\n"
              "[[measure]]\nname = 'memory'\ncommand = 'x'\nmetric = 'rss'\nat_most = '256M'\nat_least = 1\n");
    assert_int_equal(s.note_count, 2);
    assert_string_equal(s.notes[1], "two");
    assert_int_equal(s.entry_count, 3);
    const stk__suite_entry *e = s.entries;
    assert_string_equal(e[0].name, "start");
    assert_string_equal(e[0].a, "x");
    assert_null(e[0].b);
    assert_true(isnan(e[0].at_least) && e[0].at_most == 0.02);
    assert_string_equal(e[1].name, "read");
    assert_string_equal(e[1].a, "us");
    assert_string_equal(e[1].b, "them");
    assert_string_equal(e[1].a_name, "A");
    assert_string_equal(e[1].b_name, "B");
    assert_true(e[1].at_least == 1.5 && isnan(e[1].at_most));
    assert_int_equal(e[1].line, 6);
    assert_true(e[2].at_most == 256.0 * 1024 * 1024 && e[2].at_least == 1);
    assert_string_equal(e[2].options.metric, "rss");
    stk__suite_clear(&s);
}

static void suite_reads_all_options(void **state)
{
    stk__suite s = parse("setup='a'\nprepare='b'\nconclude='c'\ncleanup='d'\ninput='e'\ndirectory='f'\nmetric='g'\n"
                         "unit='h'\nhigher_is_better=true\nrounds=20\nwarmup=0\nmax_rounds=99\nwidth='3%'\n"
                         "min_effect=0.05\nmargin='2.5 %'\nquiet=0\ntimeout='1.5s'\ncpus=1.5\nmemory='4G'\n" STEPS);
    const stk__suite_options *o = &s.options;
    assert_string_equal(o->setup, "a");
    assert_string_equal(o->prepare, "b");
    assert_string_equal(o->conclude, "c");
    assert_string_equal(o->cleanup, "d");
    assert_string_equal(o->input, "e");
    assert_string_equal(o->directory, "f");
    assert_string_equal(o->metric, "g");
    assert_string_equal(o->unit, "h");
    assert_int_equal(o->higher_is_better, 1);
    assert_int_equal(o->rounds, 20);
    assert_int_equal(o->warmup, 0);
    assert_int_equal(o->max_rounds, 99);
    assert_true(o->width == 0.03 && o->min_effect == 0.05 && o->margin == 0.025 && o->quiet == 0);
    assert_int_equal(o->timeout_ns, 1500000000);
    assert_true(o->limits.cpus == 1.5 && o->limits.memory_bytes == UINT64_C(4) << 30);
    stk__suite_clear(&s);
}

static void suite_without_options_leaves_them_unset(void **state)
{
    stk__suite s = parse("timeout = 2\nmemory = 1048576\n" STEPS);
    assert_int_equal(s.options.timeout_ns, 2000000000);
    assert_int_equal(s.options.limits.memory_bytes, 1048576);
    const stk__suite_options *o = &s.steps[0].options;
    assert_true(!o->setup && !o->metric && !o->unit && !o->rounds && !o->max_rounds && !o->timeout_ns);
    assert_true(o->higher_is_better == -1 && o->warmup == -1);
    assert_true(isnan(o->width) && isnan(o->min_effect) && isnan(o->margin) && isnan(o->quiet));
    assert_true(o->limits.cpus == 0 && o->limits.memory_bytes == 0);
    stk__suite_clear(&s);
}

static void suite_names_the_key_that_was_meant(void **state)
{
    refuses("roundz = 3\n" STEPS, 1, "'rounds'");
    refuses(STEPS "notee = 'x'\n", 7, "'note'");
    refuses(MEASURE "at_mots = 1\n", 4, "'at_most'");
    refuses(MEASURE "b = 'y'\n", 4, "'b'");
    refuses("[[compare]]\nname='c'\na='x'\nb='y'\ncommand='z'\n", 5, "in [[compare]]");
    refuses("[[steps]]\n", 1, "'step'");
    refuses("colour = 'red'\n" STEPS, 1, "one of title, notes");
}

static void suite_refuses_wrong_types_and_ranges(void **state)
{
    refuses("rounds = '12'\n" STEPS, 1, "\"12\"");
    refuses("rounds = 0\n" STEPS, 1, "from 1");
    refuses("rounds = 1e3\n" STEPS, 1, "whole number");
    refuses("max_rounds = 3\n" STEPS, 1, "from 6");
    refuses("warmup = -1\n" STEPS, 1, "-1");
    refuses("width = 5\n" STEPS, 1, "\"5%\"");
    refuses("width = '5'\n" STEPS, 1, "\"5%\"");
    refuses("width = '0%'\n" STEPS, 1, "share");
    refuses("quiet = '101%'\n" STEPS, 1, "from 0 to 100%");
    refuses("margin = nan\n" STEPS, 1, "share");
    refuses("margin = '1.2.3%'\n" STEPS, 1, "share");
    refuses("min_effect = '-1%'\n" STEPS, 1, "share");
    refuses("timeout = 0\n" STEPS, 1, "time above 0");
    refuses("timeout = '5 parsecs'\n" STEPS, 1, "time above 0");
    refuses("timeout = inf\n" STEPS, 1, "time above 0");
    refuses("memory = '4 apples'\n" STEPS, 1, "size above 0");
    refuses("memory = -1\n" STEPS, 1, "size above 0");
    refuses("cpus = 0\n" STEPS, 1, "number from");
    refuses("cpus = '1'\n" STEPS, 1, "number from");
    refuses("higher_is_better = 1\n" STEPS, 1, "true or false");
    refuses("setup = ['x']\n" STEPS, 1, "an array");
    refuses("setup = 2026-01-01\n" STEPS, 1, "text in quotes");
    refuses("setup = \"a\\u0000b\"\n" STEPS, 1, "NUL");
    refuses("metric = ''\n" STEPS, 1, "not empty");
    refuses("notes = 'x'\n" STEPS, 1, "array of texts");
    refuses("notes = ['x', 1]\n" STEPS, 1, "a note is 1");
    refuses("title.x = 1\n" STEPS, 1, "a table");
    refuses("a = \n", 1, "wanted a value");
}

static void suite_refuses_files_that_measure_nothing_whole(void **state)
{
    refuses("", 0, "neither");
    refuses("title = 'x'\n", 0, "neither");
    refuses("step = []\n", 0, "neither");
    refuses("[[step]]\nname = 'a'\ncommand = 'x'\n", 1, "1 step");
    refuses("[step]\nname = 'a'\n", 1, "[[step]]");
    refuses("compare = [1]\n", 1, "[[compare]]");
    refuses(STEPS "[[compare]]\nname='c'\na='x'\nb='y'\n", 7, "beside [[step]]");
    refuses(STEPS MEASURE, 7, "[[measure]] beside");
    refuses("[[step]]\ncommand = 'x'\n[[step]]\n", 1, "without 'name'");
    refuses(STEPS "[[step]]\nname = 'c'\n", 7, "without 'command'");
    refuses(STEPS "[[step]]\nname = 'a'\ncommand = 'z'\n", 8, "line 1");
    refuses("[[compare]]\nname='c'\na='x'\n", 1, "without 'b'");
    refuses(MEASURE "[[compare]]\nname='m'\na='x'\nb='y'\n", 5, "\"m\"");
    refuses("[[compare]]\nname='c'\na='x'\nb='y'\na_name='n'\nb_name='n'\n", 6, "both");
    refuses("[[measure]]\nname=''\ncommand='x'\n", 2, "not empty");
}

static void suite_refuses_options_that_steps_share(void **state)
{
    refuses(STEPS "rounds = 9\n", 7, "top of the file");
    refuses(STEPS "metric = 'rss'\n", 7, "top of the file");
    refuses(STEPS "memory = '1G'\n", 7, "top of the file");
}

static void suite_reads_bounds_in_the_unit_of_the_metric(void **state)
{
    stk__suite s = parse("metric = 'seconds'\nunit = 's'\n" MEASURE "at_most = '1m'\n"
                         "[[measure]]\nname='n'\ncommand='x'\nmetric='steal'\nat_most='5%'\n");
    assert_true(s.entries[0].at_most == 60 && s.entries[1].at_most == 0.05);
    stk__suite_clear(&s);
    refuses(MEASURE "at_most = '20'\nat_least = '5%'\n", 5, "20ms");
    refuses(MEASURE "metric = 'rss'\nat_most = '20ms'\n", 5, "256M");
    refuses(MEASURE "metric = 'loss'\nat_most = '20ms'\n", 5, "unit of the metric");
    refuses(MEASURE "metric = 'switches'\nat_most = '20'\n", 5, "in count");
    refuses(MEASURE "at_most = inf\n", 4, "inf");
    refuses(MEASURE "at_most = 1\nat_least = 2\n", 4, "no less");
    refuses("[[compare]]\nname='c'\na='x'\nb='y'\nat_least='2s'\n", 5, "ratio");
    refuses("[[compare]]\nname='c'\na='x'\nb='y'\nat_least=0\n", 5, "ratio");
}

static void suite_merge_takes_the_options_of_the_entry_first(void **state)
{
    stk__suite s =
        parse("setup='a'\nprepare='b'\nmetric='rate'\nunit='x/s'\nhigher_is_better=true\nrounds=20\nwarmup=3\n"
              "margin='2%'\ntimeout='9s'\ncpus=1\nmemory='1G'\nquiet='3%'\n" MEASURE
              "prepare=''\nwarmup=0\nwidth='1%'\ncpus=2\nquiet=0\nmin_effect='4%'\n"
              "[[measure]]\nname='n'\ncommand='x'\nmetric='rss'\nrounds=7\n");
    stk__suite_options o = stk__suite_merge(&s.options, &s.entries[0].options);
    assert_ptr_equal(o.setup, s.options.setup);
    assert_null(o.prepare);
    assert_string_equal(o.metric, "rate");
    assert_string_equal(o.unit, "x/s");
    assert_int_equal(o.higher_is_better, 1);
    assert_int_equal(o.warmup, 0);
    assert_true(o.rounds == 0 && o.width == 0.01); /* the entry stops by width, not by the file's rounds */
    assert_true(o.margin == 0.02 && o.min_effect == 0.04 && o.quiet == 0);
    assert_true(o.timeout_ns == 9000000000 && o.limits.cpus == 2 && o.limits.memory_bytes == UINT64_C(1) << 30);
    o = stk__suite_merge(&s.options, &s.entries[1].options);
    assert_string_equal(o.metric, "rss");
    assert_null(o.unit);
    assert_int_equal(o.higher_is_better, -1);
    assert_true(o.rounds == 7 && isnan(o.width) && o.warmup == 3 && o.quiet == 0.03);
    assert_string_equal(o.prepare, "b");
    stk__suite_clear(&s);
}

static void suite_refuses_unit_and_direction_of_what_is_measured(void **state)
{
    refuses("unit = 'points'\n" STEPS, 1, "'unit' with the metric 'wall', which is measured in 's'");
    refuses("metric = 'rss'\nhigher_is_better = true\n" STEPS, 2, "'higher_is_better' with the metric 'rss'");
    refuses("metric = 'rss'\n" MEASURE "higher_is_better = false\n", 5, "'higher_is_better' with the metric 'rss'");
    refuses(MEASURE "metric = 'cpu'\nunit = 's'\n", 5, "'unit' with the metric 'cpu'");
    stk__suite s = parse("metric = 'rss'\n" MEASURE "metric = 'loss'\nunit = 'points'\nhigher_is_better = true\n");
    stk__suite_clear(&s);
}

static void suite_refuses_more_entries_than_anybody_writes(void **state)
{
    stk__text t = STK__TEXT_INIT;
    for (int i = 0; i <= STK__SUITE_ENTRIES; i++)
        stk__text_printf(&t, "[[step]]\nname = 's%d'\ncommand = 'x'\n", i);
    refuses(t.data, 1, "1001 times");
    stk__text_clear(&t);
}

static void suite_with_any_allocation_failing_gives_nomem(void **state)
{
    static const char *const texts[] = {"title='t'\nnotes=['x']\nmetric='loss'\n" MEASURE "note='n'\nunit='s'\n"
                                        "[[compare]]\nname='c'\na='x'\nb='y'\na_name='p'\n",
                                        STEPS "setup='x'\n"};
    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        bool done = false;
        for (uint64_t n = 1; !done; n++) {
            stk__suite s = {0};
            stk__alloc_fail_at(n, false);
            const stk_status status = stk__suite_parse(texts[i], strlen(texts[i]), NULL, &s, NULL);
            stk__alloc_fail_at(0, false);
            done = status == STK_OK;
            if (!done)
                assert_int_equal(status, STK_NOMEM);
            stk__suite_clear(&s);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suite_reads_a_ladder),
        cmocka_unit_test(suite_reads_comparisons_and_measures_in_the_order_of_the_file),
        cmocka_unit_test(suite_reads_all_options),
        cmocka_unit_test(suite_without_options_leaves_them_unset),
        cmocka_unit_test(suite_names_the_key_that_was_meant),
        cmocka_unit_test(suite_refuses_wrong_types_and_ranges),
        cmocka_unit_test(suite_refuses_files_that_measure_nothing_whole),
        cmocka_unit_test(suite_refuses_options_that_steps_share),
        cmocka_unit_test(suite_reads_bounds_in_the_unit_of_the_metric),
        cmocka_unit_test(suite_merge_takes_the_options_of_the_entry_first),
        cmocka_unit_test(suite_refuses_unit_and_direction_of_what_is_measured),
        cmocka_unit_test(suite_refuses_more_entries_than_anybody_writes),
        cmocka_unit_test(suite_with_any_allocation_failing_gives_nomem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
