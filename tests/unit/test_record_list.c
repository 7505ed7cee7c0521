/* Lists of records in whatever JSON people's tools write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "formats/record_list.h"

static const char *const names[] = {"d/a.tfrecord", "d/\xc3\xa9 \"x\".txt", "d/\xff.txt", "d/a.tfrecord"};
static const stk__paths paths = {.items = (char **)(uintptr_t)names, .count = 4};

static stk_status parse(const char *text, stk__record_list *list, stk_error *err)
{
    *list = (stk__record_list){0};
    stk_error_clear(err);
    return stk__record_list_parse(text, strlen(text), "bad.jsonl", &paths, list, err);
}

static void assert_lists(const char *text, const stk__listed_record *wanted, size_t count)
{
    stk__record_list list;
    stk_error err;
    if (parse(text, &list, &err) != STK_OK)
        fail_msg("%s: %s", text, err.message);
    assert_int_equal(list.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(list.items[i].file, wanted[i].file);
        assert_int_equal(list.items[i].record, wanted[i].record);
    }
    assert_true(list.known || count == 0);
    stk__record_list_clear(&list);
}

static void assert_refuses(const char *text, const char *part)
{
    stk__record_list list;
    stk_error err;
    assert_int_equal(parse(text, &list, &err), STK_INVALID);
    if (!strstr(err.message, part))
        fail_msg("%s: '%s' is not in '%s'", text, part, err.message);
    stk__record_list_clear(&list);
}

#define LISTS(text, ...)                                               \
    do {                                                               \
        const stk__listed_record wanted_[] = {__VA_ARGS__};            \
        assert_lists(text, wanted_, sizeof wanted_ / sizeof *wanted_); \
    } while (0)

static void lists_are_read_as_others_write_them(void **state)
{
    /* our own */
    LISTS("{\"file\":\"d/a.tfrecord\",\"offset\":210,\"record\":7,\"bytes\":15,\"op\":\"parse\",\"error\":\"e\"}\n",
          {0, 7});
    /* Python's json, keys sorted, CRLF, blank lines, no line end after the last */
    LISTS(
        "{\"bytes\": 15, \"file\": \"d/a.tfrecord\", \"record\": 7}\r\n\r\n \n{\"file\": \"d/a.tfrecord\", \"record\": 3}",
        {0, 7}, {0, 3});
    /* jq . */
    LISTS(
        "{\n  \"file\": \"d/a.tfrecord\",\n  \"record\": 1\n}\n{\n  \"file\": \"d/a.tfrecord\",\n  \"record\": 2\n}\n",
        {0, 1}, {0, 2});
    /* json.dump of a list, jq -s */
    LISTS("[{\"file\": \"d/a.tfrecord\", \"record\": 1}, {\"file\": \"d/a.tfrecord\", \"record\": 2}]", {0, 1}, {0, 2});
    LISTS("[\n]\n{\"file\": \"d/a.tfrecord\", \"record\": 1}", {0, 1});
    /* escapes, raw UTF-8, marks for bytes that are none, slashes as PHP writes them */
    LISTS("{\"file\":\"d/\\u00e9 \\u0022x\\\".txt\",\"record\":4}", {1, 4});
    LISTS("{\"file\":\"d/\xc3\xa9 \\\"x\\\".txt\",\"record\":4}", {1, 4});
    LISTS("{\"file\":\"d\\/a.tfrecord\",\"record\":4}", {0, 4});
    LISTS("{\"file\":\"d/\xef\xbf\xbd.txt\",\"record\":5}{\"file\":\"d/\\ufffd.txt\",\"record\":6}", {2, 5}, {2, 6});
    /* pandas, where a column has gaps; a mark at the start, as Windows has it */
    LISTS("\xef\xbb\xbf{\"file\":\"d/a.tfrecord\",\"record\":7.0,\"bytes\":null}", {0, 7});
    /* a message that looks like the rest of a line */
    LISTS("{\"error\":\"x\\\",\\\"record\\\":9\",\"file\":\"d/a.tfrecord\",\"record\":1}", {0, 1});
}

static void other_files_and_stretches_are_passed_over(void **state)
{
    stk__record_list list;
    stk_error err;
    assert_lists("", NULL, 0);
    assert_lists(" \n\r\n", NULL, 0);
    assert_int_equal(parse("{\"file\":\"d/b\",\"record\":1}", &list, &err), STK_OK);
    assert_true(list.count == 0 && !list.known);
    assert_int_equal(parse("{\"file\":\"d/a.tfrecord\",\"record\":1,\"bytes\":-1}", &list, &err), STK_OK);
    assert_true(list.count == 0 && list.known);
}

static void what_is_no_list_is_refused_with_its_line(void **state)
{
    assert_refuses("record 7\n", "'bad.jsonl' is no quarantine list: line 1: is no JSON object");
    assert_refuses("{\"file\":\"d/a.tfrecord\",\"record\":1}\n{\"file\":\n\"d\",}", "line 3: is no JSON: ");
    assert_refuses("{\"file\":\"d/a.tfrecord\",\"record\":1}\n\n{\"record\":1}",
                   "line 3: found an object whose \"file\"");
    assert_refuses("{\"file\":7,\"record\":1}", "line 1: found an object whose \"file\"");
    assert_refuses("{\"file\":\"x\"}", "\"record\" is not there or no whole number");
    assert_refuses("{\"file\":\"x\",\"record\":\"7\"}", "\"record\"");
    assert_refuses("{\"file\":\"x\",\"record\":7.5}", "\"record\"");
    assert_refuses("{\"file\":\"x\",\"record\":1e300}", "\"record\"");
    assert_refuses("{\"file\":\"x\",\"record\":7,\"record\":8}", "duplicate");
    assert_refuses("{\"file\":\"x\",\"record\":7,\"bytes\":\"?\"}", "\"bytes\"");
    assert_refuses("{\"file\":\"x\\u0000y\",\"record\":7}", "line 1: is no JSON");
    assert_refuses("{\"file\":\"x\",\"record\":7", "is no JSON");
    assert_refuses("[{\"file\":\"x\",\"record\":7}", "',' or ']' is missing");
    assert_refuses("[{\"file\":\"x\",\"record\":7},]", "without an object");
    assert_refuses("[[]]", "without an object");
    assert_refuses("{\"file\":\"x\",\"record\":7},\n", "is no JSON object");
    assert_refuses("7", "is no JSON object");
    assert_refuses("{\"file\":\"\xff\",\"record\":7}", "is no JSON");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_read_as_others_write_them),
        cmocka_unit_test(other_files_and_stretches_are_passed_over),
        cmocka_unit_test(what_is_no_list_is_refused_with_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
