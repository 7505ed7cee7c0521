/* The error record: setting, places, one safe line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <stoker/types.h>

static void error_set_fills_status_and_message(void **state)
{
    (void)state;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(err.status, STK_OK);
    assert_true(err.offset == -1 && err.record == -1);
    assert_int_equal(stk_error_set(&err, STK_CORRUPT, "found %d, wanted %d", 1, 2), STK_CORRUPT);
    assert_int_equal(err.status, STK_CORRUPT);
    assert_string_equal(err.message, "found 1, wanted 2");
    assert_int_equal(stk_error_set(NULL, STK_IO, "x"), STK_IO);
    stk_error_clear(NULL);
}

static void error_set_keeps_places_of_an_error_under_way(void **state)
{
    (void)state;
    stk_error err;
    stk_error_clear(&err);
    stk_error_set(&err, STK_IO, "first");
    err.record = 7;
    stk_error_set(&err, STK_CORRUPT, "second");
    assert_true(err.record == 7);
    assert_string_equal(err.message, "second");
}

static void error_message_that_is_too_long_is_cut(void **state)
{
    (void)state;
    stk_error err;
    stk_error_clear(&err);
    stk_error_set(&err, STK_IO, "%2000d", 1);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
}

static void error_format_names_every_known_place(void **state)
{
    (void)state;
    stk_error err;
    char line[512];
    stk_error_clear(&err);
    stk_error_set(&err, STK_CORRUPT, "bad CRC");
    stk_error_format(&err, line, sizeof line);
    assert_string_equal(line, "bad CRC");
    snprintf(err.file, sizeof err.file, "a.tfrecord");
    err.record = 3;
    err.offset = 99;
    snprintf(err.op, sizeof err.op, "parse");
    snprintf(err.field, sizeof err.field, "label");
    const size_t n = stk_error_format(&err, line, sizeof line);
    assert_string_equal(line, "a.tfrecord: record 3 at offset 99: parse: field 'label': bad CRC");
    assert_int_equal(n, strlen(line));
    err.record = -1;
    stk_error_format(&err, line, sizeof line);
    assert_non_null(strstr(line, "a.tfrecord: offset 99: "));
    stk_error_clear(&err);
    stk_error_set(&err, STK_INVALID, "unknown op");
    err.line = 2, err.column = 5;
    stk_error_format(&err, line, sizeof line);
    assert_string_equal(line, "line 2, column 5: unknown op");
}

static void error_format_without_message_uses_the_text_of_the_status(void **state)
{
    (void)state;
    stk_error err;
    char line[64];
    stk_error_clear(&err);
    err.status = STK_CANCELLED;
    stk_error_format(&err, line, sizeof line);
    assert_string_equal(line, "cancelled");
}

static void error_format_is_safe_on_a_terminal_and_cut(void **state)
{
    (void)state;
    stk_error err;
    char line[12];
    stk_error_clear(&err);
    stk_error_set(&err, STK_IO, "\x1b[31mred");
    assert_int_equal(stk_error_format(&err, line, sizeof line), 11);
    assert_string_equal(line, "\\x1b[31mred");
    assert_int_equal(stk_error_format(&err, line, 6), 11);
    assert_string_equal(line, "\\x1b[");
}

static void error_format_holds_the_longest_places(void **state)
{
    (void)state;
    stk_error err;
    static char line[8192];
    stk_error_clear(&err);
    stk_error_set(&err, STK_IO, "%511d", 7);
    memset(err.file, 'f', sizeof err.file - 1);
    memset(err.field, 'd', sizeof err.field - 1);
    memset(err.op, 'o', sizeof err.op - 1);
    err.record = INT64_MAX;
    err.offset = INT64_MAX;
    const size_t n = stk_error_format(&err, line, sizeof line);
    assert_int_equal(n, strlen(line));
    assert_int_equal(line[n - 1], '7');
}

static void status_names_and_texts_are_known(void **state)
{
    (void)state;
    assert_string_equal(stk_status_name(STK_OK), "OK");
    assert_string_equal(stk_status_name(STK_LIMIT), "LIMIT");
    assert_string_equal(stk_status_text(STK_CORRUPT), "corrupt data");
    assert_string_equal(stk_status_name((stk_status)99), "UNKNOWN");
    assert_string_equal(stk_status_text((stk_status)99), "unknown status");
}

static void dtypes_have_names_and_sizes(void **state)
{
    (void)state;
    assert_string_equal(stk_dtype_name(STK_FLOAT32), "float32");
    assert_int_equal(stk_dtype_size(STK_FLOAT32), 4);
    assert_int_equal(stk_dtype_size(STK_BYTES), sizeof(stk_bytes));
    assert_null(stk_dtype_name(STK_DTYPE_COUNT));
    assert_int_equal(stk_dtype_size(STK_DTYPE_COUNT), 0);
    for (int i = 0; i < STK_DTYPE_COUNT; i++)
        assert_true(stk_dtype_name((stk_dtype)i) && stk_dtype_size((stk_dtype)i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_set_fills_status_and_message),
        cmocka_unit_test(error_set_keeps_places_of_an_error_under_way),
        cmocka_unit_test(error_message_that_is_too_long_is_cut),
        cmocka_unit_test(error_format_names_every_known_place),
        cmocka_unit_test(error_format_without_message_uses_the_text_of_the_status),
        cmocka_unit_test(error_format_is_safe_on_a_terminal_and_cut),
        cmocka_unit_test(error_format_holds_the_longest_places),
        cmocka_unit_test(status_names_and_texts_are_known),
        cmocka_unit_test(dtypes_have_names_and_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
