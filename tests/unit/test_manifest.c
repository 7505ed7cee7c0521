/* Manifests and names of shards: what is written reads back, bad files are refused, names fit their patterns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "formats/manifest.h"
#include "formats/set_state.h"
#include "formats/shard_names.h"

static void assert_set_name(const char *pattern, const char *wanted)
{
    stk__text t = STK__TEXT_INIT;
    stk__set_name(&t, pattern);
    assert_string_equal(t.data, wanted);
    stk__text_clear(&t);
}

/* Two formats under one name are two sets. */
static void set_is_called_by_its_pattern_without_numbers(void **state)
{
    assert_set_name("out/part-%05d", "out/part");
    assert_set_name("out/part-%05d-of-%05d", "out/part");
    assert_set_name("out/x_%d.tar", "out/x.tar");
    assert_set_name("out/x-%03d-of-%d.tfrecord.gz", "out/x.tfrecord.gz");
    assert_set_name("out/%05d", "out/data");
    assert_set_name("%d.tar", "data.tar");
    assert_set_name("a.tfrecord", "a.tfrecord");
    assert_set_name("100%%-%d", "100%");
}

static void name_fits_a_pattern_that_can_give_it(void **state)
{
    static const struct {
        const char *pattern, *name;
        int64_t number; /* -1: it does not fit */
    } cases[] = {
        {"part-%05d", "part-00012", 12},
        {"part-%05d", "part-123456", 123456},
        {"part-%05d", "part-0012", -1},
        {"part-%05d", "part-000012", -1},
        {"part-%05d", "part-00012.gz", -1},
        {"part-%05d", "part-", -1},
        {"part-%05d", "part-0001x", -1},
        {"%d.tar", "0.tar", 0},
        {"%d.tar", "00.tar", -1},
        {"%d.tar", "17.tar", 17},
        {"%d-of-%d", "3-of-8", 3},
        {"%d-of-%d", "3-of-", -1},
        {"a%%%d", "a%7", 7},
        {"a%%%d", "a7", -1},
        {"a.tfrecord", "a.tfrecord", 0},
        {"a.tfrecord", "a.tfrecord2", -1},
        {"%d5", "125", 12},
        {"part-%05d", "part.manifest.json", -1},
        {"%d", "99999999999999999999", -1},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        int64_t number = -2;
        const bool fits = stk__shard_fits(cases[i].pattern, cases[i].name, &number);
        if (fits != (cases[i].number >= 0) || (fits && number != cases[i].number))
            fail_msg("%s and %s: %d, %lld", cases[i].pattern, cases[i].name, fits, (long long)number);
    }
}

static void fill(stk__manifest *m)
{
    *m = (stk__manifest){.pattern = stk__strdup("p-%d"), .rows = 12};
    assert_int_equal(stk__manifest_add(m, "p-10", 5, 4, (stk__file_digest){1, 2}, NULL), STK_OK);
    assert_int_equal(stk__manifest_add(m, "p-2", 0, 0, (stk__file_digest){UINT64_MAX, 0}, NULL), STK_OK);
    assert_int_equal(stk__manifest_add(m, "\xff\"\n", INT64_MAX, 8, (stk__file_digest){0, 7}, NULL), STK_OK);
}

static void manifest_reads_back(void **state)
{
    stk__manifest m, back;
    stk__text t = STK__TEXT_INIT, again = STK__TEXT_INIT;
    fill(&m);
    assert_int_equal(stk__manifest_print(&m, &t, NULL), STK_OK);
    assert_int_equal(stk__manifest_parse(t.data, t.length, &back, NULL), STK_OK);
    assert_int_equal(back.rows, 12);
    assert_int_equal(back.count, 3);
    assert_string_equal(back.pattern, "p-%d");
    for (size_t i = 0; i < m.count; i++) {
        const stk__manifest_file *f = stk__manifest_find(&back, m.files[i].name);
        assert_non_null(f);
        assert_int_equal(f->bytes, m.files[i].bytes);
        assert_int_equal(f->rows, m.files[i].rows);
        assert_true(f->digest.high == m.files[i].digest.high && f->digest.low == m.files[i].digest.low);
    }
    assert_null(stk__manifest_find(&back, "p-1"));
    assert_int_equal(stk__manifest_print(&back, &again, NULL), STK_OK);
    assert_string_equal(t.data, again.data);
    stk__text_clear(&t);
    stk__text_clear(&again);
    stk__manifest_clear(&m);
    stk__manifest_clear(&back);
}

#define FILE_TEXT "{\"name\": \"a\", \"bytes\": 1, \"rows\": 1, \"xxh3_128\": \"0123456789abcdef0123456789abcdef\"}"
#define TEXT(pattern, files) "{\"stoker_manifest\": 1, \"pattern\": " pattern ", \"rows\": 1, \"files\": [" files "]}"

static void manifest_refuses_what_makes_no_sense(void **state)
{
    static const char *const texts[] = {
        "",
        "[]",
        "{}",
        "{\"stoker_manifest\": 2}",
        TEXT("\"\"", FILE_TEXT),
        TEXT("\"a/b\"", FILE_TEXT),
        TEXT("7", FILE_TEXT),
        TEXT("\"a\"", FILE_TEXT "," FILE_TEXT),
        TEXT("\"a\"", "1"),
        TEXT("\"a\"",
             "{\"name\": \"..\", \"bytes\": 1, \"rows\": 1, \"xxh3_128\": \"0123456789abcdef0123456789abcdef\"}"),
        TEXT(
            "\"a\"",
            "{\"name\": \"/etc/passwd\", \"bytes\": 1, \"rows\": 1, \"xxh3_128\": \"0123456789abcdef0123456789abcdef\"}"),
        TEXT("\"a\"",
             "{\"name\": \"a\", \"bytes\": -1, \"rows\": 1, \"xxh3_128\": \"0123456789abcdef0123456789abcdef\"}"),
        TEXT("\"a\"",
             "{\"name\": \"a\", \"bytes\": 1, \"rows\": 1.5, \"xxh3_128\": \"0123456789abcdef0123456789abcdef\"}"),
        TEXT("\"a\"",
             "{\"name\": \"a\", \"bytes\": 1, \"rows\": 1, \"xxh3_128\": \"0123456789ABCDEF0123456789abcdef\"}"),
        TEXT("\"a\"", "{\"name\": \"a\", \"bytes\": 1, \"rows\": 1}"),
    };
    stk__manifest m;
    stk_error err;
    assert_int_equal(stk__manifest_parse(TEXT("\"a\"", FILE_TEXT), strlen(TEXT("\"a\"", FILE_TEXT)), &m, NULL), STK_OK);
    stk__manifest_clear(&m);
    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        stk_error_clear(&err);
        if (stk__manifest_parse(texts[i], strlen(texts[i]), &m, &err) == STK_OK)
            fail_msg("taken: %s", texts[i]);
        assert_true(err.message[0] && m.count == 0);
    }
}

static void manifest_with_too_many_values_is_not_parsed(void **state)
{
    const size_t size = (size_t)3 << 20;
    char *text = stk__alloc(size);
    stk__manifest m;
    stk_error err;
    stk_error_clear(&err);
    memset(text, ',', size);
    assert_int_equal(stk__manifest_parse(text, size, &m, &err), STK_CORRUPT);
    assert_non_null(strstr(err.message, "more values"));
    stk__free(text);
}

static void state_reads_back(void **state)
{
    stk__set_state_file files[] = {{0, {1, 2}}, {INT64_MAX, {3, 4}}};
    stk__set_state s = {.pattern = (char *)(uintptr_t) "a-%d\n7 ",
                        .rows = 9,
                        .files = files,
                        .count = 2,
                        .extra = (char *)(uintptr_t) "x\0y",
                        .extra_size = 4},
                   back;
    stk__text t = STK__TEXT_INIT;
    stk__set_state_print(&s, &t);
    assert_int_equal(stk__set_state_parse(t.data, t.length, &back, NULL), STK_OK);
    assert_string_equal(back.pattern, s.pattern);
    assert_int_equal(back.rows, 9);
    assert_int_equal(back.count, 2);
    assert_int_equal(back.files[1].bytes, INT64_MAX);
    assert_int_equal(back.extra_size, 4);
    assert_memory_equal(back.extra, "x\0y", 4);
    stk__set_state_clear(&back);
    for (size_t n = 0; n < t.length; n++) /* cut off anywhere */
        assert_int_equal(stk__set_state_parse(t.data, n, &back, NULL), STK_MISMATCH);
    stk__text_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_is_called_by_its_pattern_without_numbers),
        cmocka_unit_test(name_fits_a_pattern_that_can_give_it),
        cmocka_unit_test(manifest_reads_back),
        cmocka_unit_test(manifest_refuses_what_makes_no_sense),
        cmocka_unit_test(manifest_with_too_many_values_is_not_parsed),
        cmocka_unit_test(state_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
