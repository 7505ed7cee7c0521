/* The JSON scanner: tokens, what is put right, numbers, and windows that end anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "trace/json_lex.h"

/* Scans a text and writes its tokens down: "{ key:a 1 } END". Notes follow as "SYNTAX=1". */
static void scan(const char *json, size_t size, stk__text *out)
{
    static const char *const signs[STK__JSON_WORD + 1] = {
        [STK__JSON_OBJECT] = "{",  [STK__JSON_OBJECT_END] = "}", [STK__JSON_ARRAY] = "[",  [STK__JSON_ARRAY_END] = "]",
        [STK__JSON_TRUE] = "true", [STK__JSON_FALSE] = "false",  [STK__JSON_NULL] = "null"};
    stk__builder *b;
    stk__input *in;
    stk__trace *t;
    stk__json j;
    stk__json_kind kind;
    assert_int_equal(stk__builder_new(NULL, &b, NULL), STK_OK);
    stk__builder_start_file(b, "test", "json");
    assert_int_equal(stk__input_open_memory(json, size, &in, NULL), STK_OK);
    stk__json_init(&j, b, in);
    while ((kind = stk__json_next(&j)) != STK__JSON_END) {
        if (kind == STK__JSON_KEY)
            stk__text_puts(out, "key:");
        else if (kind == STK__JSON_WORD)
            stk__text_puts(out, "word:");
        if (signs[kind])
            stk__text_puts(out, signs[kind]);
        else if (kind == STK__JSON_STRING)
            stk__text_json(out, j.text, j.size);
        else
            stk__text_write(out, j.text, j.size);
        stk__text_putc(out, ' ');
    }
    assert_int_equal(stk__json_status(&j, NULL), STK_OK);
    stk__json_clear(&j);
    stk__input_close(in);
    assert_int_equal(stk__builder_finish(b, &t, NULL), STK_OK);
    for (size_t i = 0; i < t->note_count; i++)
        stk__text_printf(out, "note:%d@%lld ", (int)t->notes[i].reason, (long long)t->notes[i].offset);
    stk__trace_free(t);
}

static void check_scan(const char *json, const char *want)
{
    stk__text got = STK__TEXT_INIT;
    scan(json, strlen(json), &got);
    assert_string_equal(got.data ? got.data : "", want);
    stk__text_clear(&got);
}

static void scan_gives_tokens_in_order(void **state)
{
    (void)state;
    check_scan("", "");
    check_scan("{\"a\": [1, -2.5e3, \"x\", true, false, null, {}], \"b\": \"\"}",
               "{ key:a [ 1 -2.5e3 \"x\" true false null { } ] key:b \"\" } ");
    check_scan("\xef\xbb\xbf[1][2] 3 ", "[ 1 ] [ 2 ] 3 ");
}

static void scan_forgives_commas(void **state)
{
    (void)state;
    check_scan("[1 2,,3,]", "[ 1 2 3 ] ");
    check_scan("{\"a\":1 \"b\":2,}", "{ key:a 1 key:b 2 } ");
}

static void scan_closes_what_is_cut_off(void **state)
{
    (void)state;
    char want[64];
    const struct {
        const char *json, *tokens;
    } cases[] = {
        {"{\"a\":[1,{\"b\":", "{ key:a [ 1 { key:b null } ] } "},
        {"{\"a", "{ } "},
        {"{\"a\":\"xy", "{ key:a null } "},
        {"[tru", "[ null ] "},
        {"[12", "[ 12 ] "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        stk__text text;
        stk__text_fixed(&text, want, sizeof want);
        const size_t at = i == 1 ? 1 : i == 2 ? 5 : i == 3 ? 1 : strlen(cases[i].json);
        stk__text_printf(&text, "%snote:%d@%zu ", cases[i].tokens, (int)STK__REASON_TRUNCATED, at);
        check_scan(cases[i].json, want);
    }
}

static void scan_puts_closers_right(void **state)
{
    (void)state;
    char want[64];
    stk__text text;
    stk__text_fixed(&text, want, sizeof want);
    stk__text_printf(&text, "{ key:a [ 1 ] } note:%d@7 ", (int)STK__REASON_SYNTAX);
    check_scan("{\"a\":[1}", want);
    stk__text_fixed(&text, want, sizeof want);
    stk__text_printf(&text, "[ 1 ] 2 note:%d@3 ", (int)STK__REASON_SYNTAX);
    check_scan("[1]}2 ", want);
}

static void scan_keeps_keys_and_values_apart(void **state)
{
    (void)state;
    char want[64];
    stk__text text;
    check_scan("{\"a\":,\"b\":}", "{ key:a null key:b null } ");
    stk__text_fixed(&text, want, sizeof want);
    stk__text_printf(&text, "{ key:a 1 } note:%d@1 ", (int)STK__REASON_SYNTAX);
    check_scan("{[7,[8]] 5 \"a\":1}", want);
}

static void scan_gives_words_that_are_no_json(void **state)
{
    (void)state;
    char want[96];
    stk__text text;
    stk__text_fixed(&text, want, sizeof want);
    stk__text_printf(&text, "[ word:NaN word:-inf word:N/A word:Infinity ] note:%d@1 ", (int)STK__REASON_NUMBER);
    check_scan("[NaN,-inf, N/A,Infinity]", want);
}

static void scan_skips_values_of_any_size(void **state)
{
    (void)state;
    const size_t size = 3 << 20;
    stk__text json = STK__TEXT_INIT;
    stk__text_puts(&json, "{\"a\":[\"");
    for (size_t i = 0; i < size; i++)
        stk__text_putc(&json, i % 7 ? 'x' : '}');
    stk__text_puts(&json, "\",{\"b\":[]}],\"c\":\"\\\"]\",\"d\":7}");
    stk__builder *b;
    stk__input *in;
    stk__json j;
    assert_int_equal(stk__builder_new(NULL, &b, NULL), STK_OK);
    stk__builder_start_file(b, "test", "json");
    assert_int_equal(stk__input_open_memory(json.data, json.length, &in, NULL), STK_OK);
    stk__json_init(&j, b, in);
    assert_int_equal(stk__json_next(&j), STK__JSON_OBJECT);
    assert_int_equal(stk__json_next(&j), STK__JSON_KEY);
    stk__json_skip(&j);
    assert_int_equal(stk__json_next(&j), STK__JSON_KEY);
    assert_true(stk__json_is(&j, "c"));
    stk__json_skip(&j);
    assert_int_equal(stk__json_next(&j), STK__JSON_KEY);
    assert_true(stk__json_is(&j, "d"));
    assert_int_equal(stk__json_next(&j), STK__JSON_NUMBER);
    assert_int_equal(j.number.digits, 7);
    assert_int_equal(stk__json_next(&j), STK__JSON_OBJECT_END);
    assert_int_equal(stk__json_next(&j), STK__JSON_END);
    stk__json_clear(&j);
    stk__input_close(in);
    stk__builder_free(b);
    stk__text_clear(&json);
}

static void scan_of_a_depth_bomb_stays_balanced(void **state)
{
    (void)state;
    enum { LEVELS = 100000 };
    char *json = malloc(LEVELS);
    assert_non_null(json);
    memset(json, '[', LEVELS);
    stk__text got = STK__TEXT_INIT;
    scan(json, LEVELS, &got);
    size_t open = 0, closed = 0;
    for (size_t i = 0; i < got.length; i++) {
        open += got.data[i] == '[';
        closed += got.data[i] == ']';
    }
    assert_int_equal(open, STK__JSON_DEPTH);
    assert_int_equal(closed, STK__JSON_DEPTH);
    stk__text_clear(&got);
    free(json);
}

/* ---- lexemes ---- */

/* Reads a string in a window that ends at `size`; the text or NULL. */
static bool lex_text(const char *json, size_t size, bool last, stk__json_lex_place place, const char *want, stk__lex result)
{
    stk__lexer x;
    const char *text = NULL;
    size_t length = 0;
    char *window = calloc(1, size + 8);
    memcpy(window, json, size);
    stk__lexer_init(&x);
    x.start = x.p = (const uint8_t *)window;
    x.end = x.p + size;
    x.last = last;
    const stk__lex got = stk__json_lex_string(&x, place, &text, &length);
    const bool good = got == result && (!want || (length == strlen(want) && memcmp(text, want, length) == 0));
    stk__lexer_clear(&x);
    free(window);
    return good;
}

static void string_escapes_are_decoded(void **state)
{
    (void)state;
    const struct {
        const char *json, *text;
    } cases[] = {
        {"\"a\\n\\t\\\"\\\\\\/\\b\\f\\r\",", "a\n\t\"\\/\b\f\r"},
        {"\"\\u0041\\u00e9\\u4f60\\ud83d\\ude00\",", "A\xc3\xa9\xe4\xbd\xa0\xf0\x9f\x98\x80"},
        {"\"\\ud83dx\",", "\xef\xbf\xbdx"},
        {"\"\\ude00\",", "\xef\xbf\xbd"},
        {"\"\\u12\\q\",", "\\u12\\q"},
        {"\"\xff\xc3(\",", "\xef\xbf\xbd\xef\xbf\xbd("},
        {"\"say \"hi\" there\",", "say \"hi\" there"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_true(
            lex_text(cases[i].json, strlen(cases[i].json), true, STK__LEX_IN_ARRAY, cases[i].text, STK__LEX_OK));
}

/* Cut anywhere, a string asks for more or, at the end of the file, is broken; never another text. */
static void string_cut_anywhere_asks_for_more(void **state)
{
    (void)state;
    const char *json = "\"a long \\u00e9 text with \xc3\xa9 and \\\" more of it\"  ,";
    for (size_t size = 1; size < strlen(json); size++)
        assert_true(lex_text(json, size, false, STK__LEX_IN_ARRAY, NULL, STK__LEX_MORE));
    for (size_t size = 1; size + 4 < strlen(json); size++)
        assert_true(lex_text(json, size, true, STK__LEX_IN_ARRAY, NULL, STK__LEX_BAD));
}

static void quote_inside_a_string_is_told_by_what_follows(void **state)
{
    (void)state;
    const char *json = "\"f(\"a\",\"b\")\", \"pid\": 1}";
    assert_true(lex_text(json, strlen(json), true, STK__LEX_IN_OBJECT, "f(\"a\",\"b\")", STK__LEX_OK));
    json = "\"plain\", \"k\\\"ey\": 1}";
    assert_true(lex_text(json, strlen(json), true, STK__LEX_IN_OBJECT, "plain", STK__LEX_OK));
    json = "\"cut\n  {\"ph\":\"X\"";
    assert_true(lex_text(json, strlen(json), true, STK__LEX_IN_OBJECT, NULL, STK__LEX_BAD));
}

/* The plain scan gives the same with and without vectors, at every place and length. */
static void plain_bytes_end_at_the_first_odd_one(void **state)
{
    (void)state;
    static const uint8_t odd[] = {'"', '\\', 0, 0x1f, 0x80, 0xff};
    uint8_t text[80];
    for (size_t length = 0; length < sizeof text; length++) {
        for (size_t at = 0; at <= length; at++) {
            memset(text, '~', sizeof text);
            if (at < length)
                text[at] = odd[(at + length) % sizeof odd];
            assert_ptr_equal(stk__json_plain(text, text + length), text + at);
        }
    }
}

static void nested_value_becomes_valid_json(void **state)
{
    (void)state;
    const struct {
        const char *json, *want;
    } cases[] = {
        {"[ 1 , [2 ,3],{ } ] ", "[1,[2,3],{}]"},
        {"{\"a\" : {\"b\":[true,null]} ,} ", "{\"a\":{\"b\":[true,null]}}"},
        {"[NaN, N/A 007 +5 .5, 1.] ", "[null,\"N/A\",7e0,5e0,5e-1,1e0]"},
        {"[\"a\x01\\ud800\"] ", "[\"a\\u0001\xef\xbf\xbd\"]"},
        {"{\"a\":} ", "{\"a\":null}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        stk__lexer x;
        stk__lexer_init(&x);
        x.start = x.p = (const uint8_t *)cases[i].json;
        x.end = x.p + strlen(cases[i].json);
        x.last = true;
        assert_int_equal(stk__json_lex_nested(&x), STK__LEX_OK);
        assert_string_equal(x.json.data, cases[i].want);
        stk__lexer_clear(&x);
    }
}

static void nested_event_in_an_array_is_refused(void **state)
{
    (void)state;
    const char *json = "[1,2,{\"name\":\"x\",\"ph\":\"X\"}] ";
    stk__lexer x;
    stk__lexer_init(&x);
    x.start = x.p = (const uint8_t *)json;
    x.end = x.p + strlen(json);
    x.last = true;
    assert_int_equal(stk__json_lex_nested(&x), STK__LEX_BAD);
    assert_false(x.cut);
    stk__lexer_clear(&x);
}

/* ---- numbers ---- */

static void check_scaled(const char *text, int power, bool good, int64_t want, bool rounded)
{
    stk__json_number n;
    int64_t got = -77;
    bool was_rounded = false;
    assert_true(stk__json_parse_number(text, strlen(text), &n));
    assert_int_equal(stk__json_scaled(&n, power, &got, &was_rounded), good);
    if (good) {
        assert_true(got == want);
        assert_int_equal(was_rounded, rounded);
    }
}

static void number_scales_without_a_double(void **state)
{
    (void)state;
    check_scaled("1711929600123456.789", 3, true, 1711929600123456789, false);
    check_scaled("0.001", 3, true, 1, false);
    check_scaled("12", 3, true, 12000, false);
    check_scaled("-0.5", 3, true, -500, false);
    check_scaled("1.7e3", 3, true, 1700000, false);
    check_scaled("0.0005", 3, true, 1, true);
    check_scaled("-0.0005", 3, true, 0, true);
    check_scaled("0.00049999", 3, true, 0, true);
    check_scaled("-0.0006", 3, true, -1, true);
    check_scaled("1.00000000000000000000000", 3, true, 1000, false);
    check_scaled("0.30000000000000004", 3, true, 300, true);
    check_scaled("1e-400", 3, true, 0, true);
    check_scaled("0e99999999", 3, true, 0, false);
    check_scaled("9223372036854775.807", 3, true, INT64_MAX, false);
    check_scaled("-9223372036854775.808", 3, true, INT64_MIN, false);
    check_scaled("9223372036854775.808", 3, false, 0, false);
    check_scaled("1e400", 3, false, 0, false);
    check_scaled("123456789012345678901234567890", 0, false, 0, false);
}

static void number_is_an_integer_only_when_it_is_one(void **state)
{
    (void)state;
    const struct {
        const char *text;
        bool good;
        int64_t value;
    } cases[] = {{"12", true, 12},
                 {"12.0", true, 12},
                 {"1e3", true, 1000},
                 {"12.5", false, 0},
                 {"-0", true, 0},
                 {"1e-1", false, 0},
                 {"9223372036854775808", false, 0},
                 {"-9223372036854775808", true, INT64_MIN}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        stk__json_number n;
        int64_t value = 0;
        assert_true(stk__json_parse_number(cases[i].text, strlen(cases[i].text), &n));
        assert_int_equal(stk__json_int64(&n, &value), cases[i].good);
        if (cases[i].good)
            assert_true(value == cases[i].value);
    }
    stk__json_number n;
    assert_false(stk__json_parse_number("10us", 4, &n));
    assert_false(stk__json_parse_number("", 0, &n));
    assert_false(stk__json_parse_number("-", 1, &n));
    assert_true(stk__json_parse_number(" 5 ", 3, &n));
}

static void number_as_a_double_is_the_nearest(void **state)
{
    (void)state;
    static const char *const texts[] = {"0.1",
                                        "1e22",
                                        "1e23",
                                        "123456789.123456789",
                                        "9007199254740993",
                                        "5e-324",
                                        "1.7976931348623157e308",
                                        "-2.5",
                                        "184467440737095516150",
                                        "1e-23"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        stk__json_number n;
        assert_true(stk__json_parse_number(texts[i], strlen(texts[i]), &n));
        const double got = stk__json_double(&n, texts[i], strlen(texts[i])), want = strtod(texts[i], NULL);
        assert_memory_equal(&got, &want, sizeof got);
    }
}

/* Every allocation made to fail in turn: an error or a result, no leak. */
static void scan_without_memory_says_so(void **state)
{
    (void)state;
    const char *json = "{\"a\\n\":[\"\\u00e9\",1,{\"b\":\"\\t\"}]}";
    stk__builder *b;
    assert_int_equal(stk__builder_new(NULL, &b, NULL), STK_OK);
    stk__builder_start_file(b, "test", "json");
    for (uint64_t n = 1; n < 20; n++) {
        stk__input *in;
        stk__json j;
        stk_error err;
        stk_error_clear(&err);
        assert_int_equal(stk__input_open_memory(json, strlen(json), &in, NULL), STK_OK);
        stk__alloc_fail_at(n, true);
        stk__json_init(&j, b, in);
        while (stk__json_next(&j) != STK__JSON_END)
            ;
        stk__alloc_fail_at(0, false);
        if (n == 1)
            assert_int_equal(stk__json_status(&j, &err), STK_NOMEM);
        stk__json_clear(&j);
        stk__input_close(in);
    }
    stk__builder_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scan_gives_tokens_in_order),
        cmocka_unit_test(scan_forgives_commas),
        cmocka_unit_test(scan_closes_what_is_cut_off),
        cmocka_unit_test(scan_puts_closers_right),
        cmocka_unit_test(scan_keeps_keys_and_values_apart),
        cmocka_unit_test(scan_gives_words_that_are_no_json),
        cmocka_unit_test(scan_skips_values_of_any_size),
        cmocka_unit_test(scan_of_a_depth_bomb_stays_balanced),
        cmocka_unit_test(string_escapes_are_decoded),
        cmocka_unit_test(string_cut_anywhere_asks_for_more),
        cmocka_unit_test(quote_inside_a_string_is_told_by_what_follows),
        cmocka_unit_test(plain_bytes_end_at_the_first_odd_one),
        cmocka_unit_test(nested_value_becomes_valid_json),
        cmocka_unit_test(nested_event_in_an_array_is_refused),
        cmocka_unit_test(number_scales_without_a_double),
        cmocka_unit_test(number_is_an_integer_only_when_it_is_one),
        cmocka_unit_test(number_as_a_double_is_the_nearest),
        cmocka_unit_test(scan_without_memory_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
