/* Text builder, escapes, sizes, durations, nearest names. */
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"

static void assert_text(stk__text *t, const char *want)
{
    assert_false(t->failed);
    assert_string_equal(t->data, want);
    assert_int_equal(t->length, strlen(want));
    stk__text_clear(t);
}

static void text_grows(void **state)
{
    (void)state;
    stk__text t = STK__TEXT_INIT;
    for (int i = 0; i < 1000; i++)
        stk__text_printf(&t, "%d,", i);
    assert_int_equal(t.length, 10 * 2 + 90 * 3 + 900 * 4);
    assert_int_equal(t.data[t.length], 0);
    stk__text_reset(&t);
    stk__text_puts(&t, "again");
    assert_text(&t, "again");
}

static void text_printf_longer_than_its_buffer_is_whole(void **state)
{
    (void)state;
    char long_text[1000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    stk__text t = STK__TEXT_INIT;
    stk__text_printf(&t, "%s", long_text);
    assert_text(&t, long_text);
}

static void text_fixed_is_cut_and_terminated(void **state)
{
    (void)state;
    char buffer[6];
    stk__text t;
    stk__text_fixed(&t, buffer, sizeof buffer);
    stk__text_puts(&t, "abc");
    assert_false(t.failed);
    stk__text_puts(&t, "defgh");
    assert_true(t.failed);
    assert_string_equal(buffer, "abcde");
    stk__text_puts(&t, "x");
    assert_string_equal(buffer, "abcde");
    stk__text_clear(&t);
}

static void text_marks_failed_allocation(void **state)
{
    (void)state;
    stk__text t = STK__TEXT_INIT;
    stk__alloc_fail_at(1, false);
    stk__text_puts(&t, "lost");
    stk__alloc_fail_at(0, false);
    assert_true(t.failed);
    stk__text_puts(&t, "ignored");
    assert_int_equal(t.length, 0);
    stk__text_clear(&t);
}

static void json_escapes_and_repairs(void **state)
{
    (void)state;
    stk__text t = STK__TEXT_INIT;
    stk__text_json(&t, "a\"\\\n\t\x01\x7f\xc3\xa4\xff\0z", 12);
    assert_text(&t, "\"a\\\"\\\\\\n\\t\\u0001\\u007f\xc3\xa4\\ufffd\\u0000z\"");
    stk__text_json_str(&t, "\xc0\x80"); /* an overlong form is two bad bytes */
    assert_text(&t, "\"\\ufffd\\ufffd\"");
    stk__text_json_str(&t, "\xed\xa0\x80"); /* a surrogate */
    assert_text(&t, "\"\\ufffd\\ufffd\\ufffd\"");
    stk__text_json(&t, "\xe2\x82\xac", 2); /* cut off */
    assert_text(&t, "\"\\ufffd\\ufffd\"");
}

static void json_double_reads_back(void **state)
{
    (void)state;
    static const double numbers[] = {0, 1, -1, 0.1, 1.0 / 3, 1e22, 5e-324, 1.7976931348623157e308, 123456789.125};
    for (size_t i = 0; i < STK_COUNT(numbers); i++) {
        stk__text t = STK__TEXT_INIT;
        stk__text_json_double(&t, numbers[i]);
        assert_true(strtod(t.data, NULL) == numbers[i]);
        stk__text_clear(&t);
    }
    stk__text t = STK__TEXT_INIT;
    stk__text_json_double(&t, 0.1);
    assert_text(&t, "0.1");
    stk__text_json_double(&t, NAN);
    assert_text(&t, "null");
    stk__text_json_double(&t, -INFINITY);
    assert_text(&t, "null");
}

static void numbers_ignore_the_locale(void **state)
{
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "sv_SE.UTF-8"};
    const char *set = NULL;
    for (size_t i = 0; i < STK_COUNT(names) && !set; i++)
        set = setlocale(LC_NUMERIC, names[i]);
    if (!set)
        skip();
    stk__text t = STK__TEXT_INIT;
    uint64_t bytes = 0;
    stk__text_json_double(&t, 1.5);
    stk__text_printf(&t, " %.1f", 2.5);
    const bool parsed = stk__parse_size("1.5K", &bytes);
    setlocale(LC_NUMERIC, "C");
    assert_text(&t, "1.5 2.5");
    assert_true(parsed);
    assert_int_equal(bytes, 1536);
}

static void quote_escapes_what_text_cannot_hold(void **state)
{
    (void)state;
    stk__text t = STK__TEXT_INIT;
    stk__text_quote(&t, "a\"b\\c\n\t\x01\x7f\xc3\xa4");
    assert_text(&t, "\"a\\\"b\\\\c\\n\\t\\x01\\x7f\xc3\xa4\"");
}

static void bytes_are_short(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *want;
    } cases[] = {{0, "0 B"},           {1023, "1023 B"},        {1024, "1.0 KiB"},       {1536, "1.5 KiB"},
                 {1048575, "1.0 MiB"}, {312u << 20, "312 MiB"}, {UINT64_MAX, "16.0 EiB"}};
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__text t = STK__TEXT_INIT;
        stk__text_bytes(&t, cases[i].bytes);
        assert_text(&t, cases[i].want);
    }
}

static void escape_terminal_leaves_no_control_byte(void **state)
{
    (void)state;
    char out[64];
    static const char in[] = "a\x1b[31m\n\x7f\xc3\xa4\xc2\x9b\xff";
    static const char want[] = "a\\x1b[31m\\x0a\\x7f\xc3\xa4\\xc2\\x9b\\xff";
    assert_int_equal(stk__escape_terminal(in, out, sizeof out), strlen(want));
    assert_string_equal(out, want);
}

static void escape_terminal_leaves_no_mark_that_turns_text(void **state)
{
    (void)state;
    char out[128];
    stk__escape_terminal("a\xe2\x80\xae"
                         "b\xe2\x81\xa6\xd8\x9c\xe2\x80\xa8",
                         out, sizeof out);
    assert_string_equal(out, "a\\xe2\\x80\\xaeb\\xe2\\x81\\xa6\\xd8\\x9c\\xe2\\x80\\xa8");
    stk__escape_terminal("\xe2\x80\x94 \xd8\xa7", out, sizeof out); /* a dash and a letter stay */
    assert_string_equal(out, "\xe2\x80\x94 \xd8\xa7");
}

static void escape_terminal_is_cut_at_a_whole_character(void **state)
{
    (void)state;
    static const char in[] = "ab\x01\xc3\xa4z", want[] = "ab\\x01\xc3\xa4z";
    for (size_t size = 0; size <= strlen(want) + 1; size++) {
        char out[16];
        memset(out, '!', sizeof out);
        assert_int_equal(stk__escape_terminal(in, out, size), strlen(want));
        if (size == 0) {
            assert_int_equal(out[0], '!');
            continue;
        }
        assert_true(strlen(out) < size);
        assert_memory_equal(out, want, strlen(out));
        const size_t n = strlen(out);
        assert_true(n <= 2 || n == 6 || n == 8 || n == 9);
    }
}

static void parse_size_takes_units_of_1024(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t want;
    } cases[] = {{"0", 0},
                 {"4096", 4096},
                 {"1K", 1024},
                 {"1k", 1024},
                 {"256M", 256 << 20},
                 {"256MB", 256 << 20},
                 {"1.5GiB", 1610612736},
                 {"2T", (uint64_t)2 << 40},
                 {"17B", 17}};
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        uint64_t found = 1;
        assert_true(stk__parse_size(cases[i].text, &found));
        assert_true(found == cases[i].want);
    }
    static const char *const bad[] = {"",   "-1",  "M",   "1X",   "1MM",      "1Mi B", " 1",
                                      "1 ", "nan", "inf", "1e30", "9000000T", "1e999"};
    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        uint64_t found = 77;
        assert_false(stk__parse_size(bad[i], &found));
        assert_true(found == 77);
    }
}

static void parse_duration_takes_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t want;
    } cases[] = {{"5ms", 5000000},      {"1.5s", 1500000000}, {"200us", 200000},  {"10ns", 10}, {"2m", 120000000000},
                 {"1h", 3600000000000}, {"3", 3000000000},    {".5s", 500000000}, {"0", 0}};
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        int64_t found = -1;
        assert_true(stk__parse_duration(cases[i].text, &found));
        assert_true(found == cases[i].want);
    }
    static const char *const bad[] = {"", "-1s", ".", "5 ms", "5min", "s", "1e300h", "nan"};
    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        int64_t found = 77;
        assert_false(stk__parse_duration(bad[i], &found));
        assert_true(found == 77);
    }
}

static void parse_int64_takes_the_whole_range(void **state)
{
    (void)state;
    int64_t x = 0;
    assert_true(stk__parse_int64("-9223372036854775808", &x));
    assert_true(x == INT64_MIN);
    assert_true(stk__parse_int64("9223372036854775807", &x));
    assert_true(x == INT64_MAX);
    static const char *const bad[] = {"", " 1", "1 ", "1x", "9223372036854775808", "1.0", "x"};
    for (size_t i = 0; i < STK_COUNT(bad); i++)
        assert_false(stk__parse_int64(bad[i], &x));
    assert_true(x == INT64_MAX);
}

static void nearest_finds_typos_only(void **state)
{
    (void)state;
    static const char *const names[] = {"shuffle", "batch", "repeat", "take"};
    assert_string_equal(stk__nearest("shufle", names, 4), "shuffle");
    assert_string_equal(stk__nearest("bacth", names, 4), "batch");
    assert_string_equal(stk__nearest("take", names, 4), "take");
    assert_null(stk__nearest("decode_image", names, 4));
    assert_null(stk__nearest("x", names, 0));
    char huge[200];
    memset(huge, 'a', sizeof huge - 1);
    huge[sizeof huge - 1] = 0;
    assert_null(stk__nearest(huge, names, 4));
}

static void error_prefix_goes_before_the_message_and_cuts_its_end(void **state)
{
    stk_error err;
    stk_error_clear(&err);
    stk_error_set(&err, STK_CORRUPT, "bad");
    stk__error_prefix(&err, "chunk %d: ", 3);
    assert_string_equal(err.message, "chunk 3: bad");
    assert_int_equal(err.status, STK_CORRUPT);
    memset(err.message, 'x', sizeof err.message - 1);
    err.message[sizeof err.message - 1] = 0;
    stk__error_prefix(&err, "%s", "ab: ");
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    assert_memory_equal(err.message, "ab: xx", 6);
    stk__error_prefix(NULL, "nothing");
}

static void csv_is(const char *in, const char *plain, const char *safe)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_csv(&t, in, strlen(in));
    assert_string_equal(t.data, plain);
    stk__text_reset(&t);
    assert_int_equal(stk__text_csv_safe(&t, in, strlen(in)), strcmp(plain, safe) != 0);
    assert_string_equal(t.data, safe);
    stk__text_clear(&t);
}

static void csv_marks_what_a_spreadsheet_would_run(void **state)
{
    csv_is("plain", "plain", "plain");
    csv_is("a,b", "\"a,b\"", "\"a,b\"");
    csv_is(" a", "\" a\"", "\" a\"");
    csv_is("say \"x\"", "\"say \"\"x\"\"\"", "\"say \"\"x\"\"\"");
    csv_is("-1.5", "-1.5", "-1.5");
    csv_is("+2e3", "+2e3", "+2e3");
    csv_is("=1+1", "=1+1", "'=1+1");
    csv_is("-1+cmd|' /C calc'!A0", "-1+cmd|' /C calc'!A0", "'-1+cmd|' /C calc'!A0");
    csv_is("@sum(a,b)", "\"@sum(a,b)\"", "\"'@sum(a,b)\"");
    csv_is("+", "+", "'+");
    csv_is("-inf", "-inf", "'-inf");
    csv_is("\t=1", "\t=1", "'\t=1");
    csv_is("\r=1", "\"\r=1\"", "\"'\r=1\"");
    csv_is("it's = fine", "it's = fine", "it's = fine");
}

static void hidden_characters_are_escaped_everywhere(void **state)
{
    static const char evil[] = "a\xc2\x9b" "b\xe2\x80\xae" "c\xe2\x80\x8b" "d\xf3\xa0\x81\x81" "e\xe2\x80\x8d" "f";
    char shown[128];
    stk__text t = STK__TEXT_INIT;
    stk__escape_terminal(evil, shown, sizeof shown);
    assert_string_equal(shown, "a\\xc2\\x9bb\\xe2\\x80\\xaec\\xe2\\x80\\x8bd\\xf3\\xa0\\x81\\x81e\xe2\x80\x8d" "f");
    stk__text_quote(&t, evil);
    assert_string_equal(t.data, "\"a\\xc2\\x9bb\\xe2\\x80\\xaec\\xe2\\x80\\x8bd\\xf3\\xa0\\x81\\x81e\xe2\x80\x8d" "f\"");
    stk__text_reset(&t);
    stk__text_json_str(&t, evil);
    assert_string_equal(t.data, "\"a\\u009bb\\u202ec\\u200bd\\udb40\\udc41e\xe2\x80\x8d" "f\"");
    stk__text_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_prefix_goes_before_the_message_and_cuts_its_end),
        cmocka_unit_test(text_grows),
        cmocka_unit_test(text_printf_longer_than_its_buffer_is_whole),
        cmocka_unit_test(text_fixed_is_cut_and_terminated),
        cmocka_unit_test(text_marks_failed_allocation),
        cmocka_unit_test(json_escapes_and_repairs),
        cmocka_unit_test(json_double_reads_back),
        cmocka_unit_test(numbers_ignore_the_locale),
        cmocka_unit_test(quote_escapes_what_text_cannot_hold),
        cmocka_unit_test(bytes_are_short),
        cmocka_unit_test(escape_terminal_leaves_no_control_byte),
        cmocka_unit_test(escape_terminal_leaves_no_mark_that_turns_text),
        cmocka_unit_test(escape_terminal_is_cut_at_a_whole_character),
        cmocka_unit_test(parse_size_takes_units_of_1024),
        cmocka_unit_test(parse_duration_takes_units),
        cmocka_unit_test(parse_int64_takes_the_whole_range),
        cmocka_unit_test(nearest_finds_typos_only),
        cmocka_unit_test(csv_marks_what_a_spreadsheet_would_run),
        cmocka_unit_test(hidden_characters_are_escaped_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
