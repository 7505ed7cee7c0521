/* Filter expressions: values, precedence, types, exact comparison, errors, bounds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/expr.h"
#include "repeated.h"

enum { SLOT_LABEL, SLOT_BIG, SLOT_SCORE, SLOT_NAN, SLOT_FLAG, SLOT_NAME, SLOT_EMPTY, SLOT_HEIGHT, SLOT_MIN };

static const struct {
    const char *name;
    stk__expr_value value;
} fields[] = {
    [SLOT_LABEL] = {"label", {.type = STK__EXPR_INT, .integer = 7}},
    [SLOT_BIG] = {"big", {.type = STK__EXPR_INT, .integer = 9007199254740993}}, /* 2^53 + 1 */
    [SLOT_SCORE] = {"score", {.type = STK__EXPR_FLOAT, .number = 0.5}},
    [SLOT_NAN] = {"nan", {.type = STK__EXPR_FLOAT, .number = NAN}},
    [SLOT_FLAG] = {"flag", {.type = STK__EXPR_BOOL, .integer = 1}},
    [SLOT_NAME] = {"name", {.type = STK__EXPR_BYTES, .bytes = {(const uint8_t *)"cat", 3}}},
    [SLOT_EMPTY] = {"empty", {.type = STK__EXPR_BYTES, .bytes = {NULL, 0}}},
    [SLOT_HEIGHT] = {"image/height", {.type = STK__EXPR_INT, .integer = 32}},
    [SLOT_MIN] = {"min", {.type = STK__EXPR_INT, .integer = INT64_MIN}},
};

static int fetched; /* how many values an evaluation asked for */

static stk_status lookup(void *arg, const char *name, stk__expr_type *out_type, int *out_slot, stk_error *err)
{
    (void)arg;
    for (size_t i = 0; i < STK_COUNT(fields); i++) {
        if (strcmp(name, fields[i].name) == 0) {
            *out_type = fields[i].value.type;
            *out_slot = (int)i;
            return STK_OK;
        }
    }
    return stk_error_set(err, STK_INVALID, "no field '%s'", name);
}

static void fetch(void *arg, int slot, stk__expr_value *out)
{
    (void)arg;
    fetched++;
    *out = fields[slot].value;
}

static stk__expr *compile(const char *text)
{
    stk_error err;
    stk_error_clear(&err);
    stk__expr *e = NULL;
    const stk_status status = stk__expr_compile(text, lookup, NULL, &e, &err);
    if (status != STK_OK)
        print_error("%s: column %d: %s\n", text, err.column, err.message);
    assert_int_equal(status, STK_OK);
    return e;
}

static bool eval(const char *text)
{
    stk__expr *e = compile(text);
    bool out = false;
    fetched = 0;
    assert_int_equal(stk__expr_eval(e, fetch, NULL, &out, NULL), STK_OK);
    stk__expr_free(e);
    return out;
}

static void assert_eval(const char *text, bool want)
{
    const bool found = eval(text);
    if (found != want)
        print_error("%s gave %d\n", text, found);
    assert_int_equal(found, want);
}

static stk_error refused(const char *text)
{
    stk_error err;
    stk_error_clear(&err);
    stk__expr *e = NULL;
    assert_int_equal(stk__expr_compile(text, lookup, NULL, &e, &err), STK_INVALID);
    assert_null(e);
    return err;
}

static void assert_refused(const char *text, int column, const char *part)
{
    const stk_error err = refused(text);
    if (err.column != column || !strstr(err.message, part))
        print_error("%s: column %d: %s\n", text, err.column, err.message);
    assert_int_equal(err.column, column);
    assert_non_null(strstr(err.message, part));
}

static stk_error fails(const char *text)
{
    stk_error err;
    stk_error_clear(&err);
    stk__expr *e = compile(text);
    bool out = true;
    assert_int_equal(stk__expr_eval(e, fetch, NULL, &out, &err), STK_CORRUPT);
    assert_int_equal(stk__expr_eval(e, fetch, NULL, &out, NULL), STK_CORRUPT);
    stk__expr_free(e);
    return err;
}

static void expr_compares(void **state)
{
    (void)state;
    assert_eval("label == 7", true);
    assert_eval("label != 7", false);
    assert_eval("label < 7", false);
    assert_eval("label <= 7", true);
    assert_eval("label > 6.5", true);
    assert_eval("7 >= label", true);
    assert_eval("score < 1", true);
    assert_eval("score == 0.5", true);
    assert_eval("flag", true);
    assert_eval("flag == false", false);
    assert_eval("flag != false", true);
    assert_eval("true", true);
    assert_eval("`image/height` > 31", true);
    assert_eval("0x1f == 31 and 1_000 == 1000", true);
}

static void expr_compares_bytes_in_byte_order(void **state)
{
    (void)state;
    assert_eval("name == \"cat\"", true);
    assert_eval("name == 'cat'", true);
    assert_eval("name != 'dog'", true);
    assert_eval("name < 'cats'", true);
    assert_eval("name > 'ca'", true);
    assert_eval("name < '\\xff'", true);
    assert_eval("empty == ''", true);
    assert_eval("empty < name", true);
    assert_eval("'a\\x00b' > 'a\\x00a'", true);
}

static void expr_compares_int_with_float_by_value(void **state)
{
    (void)state;
    assert_eval("big == 9007199254740992.0", false);
    assert_eval("big > 9007199254740992.0", true);
    assert_eval("9007199254740992.0 < big", true);
    assert_eval("big < 1e300", true);
    assert_eval("big > -1e300", true);
    assert_eval("min == -9223372036854775808.0", true);
    assert_eval("9223372036854775807 < 9223372036854775808.0", true);
    assert_eval("-1 > -1.5", true);
    assert_eval("-2 < -1.5", true);
    assert_eval("1 < 1.5", true);
}

static void expr_nan_is_unequal_to_all(void **state)
{
    (void)state;
    assert_eval("nan == nan", false);
    assert_eval("nan != nan", true);
    assert_eval("nan < 1 or nan > 1 or nan <= 1 or nan >= 1 or nan == 1", false);
    assert_eval("label < nan or label >= nan", false);
    assert_eval("label != nan", true);
    assert_eval("nan in [1, nan]", false);
}

static void expr_precedence_rises_from_or_to_minus(void **state)
{
    (void)state;
    assert_eval("true or false and false", true);
    assert_eval("(true or false) and false", false);
    assert_eval("not false and false", false);
    assert_eval("not (false and false)", true);
    assert_eval("not label == 8", true);
    assert_eval("1 + 2 * 3 == 7", true);
    assert_eval("(1 + 2) * 3 == 9", true);
    assert_eval("10 - 3 - 2 == 5", true);
    assert_eval("100 / 10 / 2 == 5", true);
    assert_eval("-label + 8 == 1", true);
    assert_eval("2 -1 == 1", true);
    assert_eval("- -label == 7", true);
    assert_eval("2 * -3 == -6", true);
    assert_eval("not not true", true);
}

static void expr_arithmetic_follows_types(void **state)
{
    (void)state;
    assert_eval("7 / 2 == 3.5", true);
    assert_eval("label % 4 == 3", true);
    assert_eval("-7 % 4 == 1", true);
    assert_eval("7 % -4 == -1", true);
    assert_eval("-8 % 4 == 0", true);
    assert_eval("min % -1 == 0", true);
    assert_eval("score * 2 == 1", true);
    assert_eval("label - score == 6.5", true);
    assert_eval("1 / 0 > 1e300", true);
    assert_eval("-score == -0.5", true);
    assert_eval("-9223372036854775808 == min", true);
    assert_eval("big + 1 == 9007199254740994", true);
}

static void expr_in_finds_items(void **state)
{
    (void)state;
    assert_eval("label in [1, 7, 9]", true);
    assert_eval("label in [1, 2]", false);
    assert_eval("label in [7.0]", true);
    assert_eval("label not in [1, 2,]", true);
    assert_eval("name in ['dog', 'cat']", true);
    assert_eval("name in [\"x\"]", false);
    assert_eval("label + 1 in [4 * 2]", true);
    assert_eval("label in [1] or label in [2] or label in [7]", true);
    assert_eval("flag in [(label in [1, 2]), (label in [7, 8])]", true);
    assert_eval("not label in [1]", true);
}

static void expr_and_or_skip_what_cannot_matter(void **state)
{
    (void)state;
    assert_eval("label == 8 and 1 % 0 == 0", false);
    assert_int_equal(fetched, 1);
    assert_eval("label == 7 or big % 0 == 0", true);
    assert_int_equal(fetched, 1);
    assert_eval("false and label == 1 or flag", true);
    assert_int_equal(fetched, 1);
    assert_eval("label in [7, 1 % 0]", true);
}

static void expr_eval_reports_overflow_and_zero_division(void **state)
{
    (void)state;
    assert_int_equal(fails("label % 0 == 1").column, 7);
    assert_string_equal(fails("label % 0 == 1").message, "7 % 0: division by zero");
    assert_string_equal(fails("9223372036854775807 + label == 1").message,
                        "9223372036854775807 + 7 is outside of 64 bits");
    fails("min - 1 == 0");
    fails("min * -1 == 0");
    fails("-min == 0");
    fails("label == 7 and big * big == 0");
    assert_int_equal(fails("'\xc3\xa4' == '' or -min == 0").column, 14);
}

static void expr_errors_have_column_found_and_wanted(void **state)
{
    (void)state;
    assert_refused("", 1, "end of the expression");
    assert_refused("label <", 8, "wanted a value");
    assert_refused("label = 7", 7, "wanted ==");
    assert_refused("flag && flag", 6, "wanted and");
    assert_refused("flag || flag", 6, "wanted or");
    assert_refused("!flag", 1, "wanted not");
    assert_refused("(label > 1", 11, "')'");
    assert_refused("label > 1)", 10, "found ')'");
    assert_refused("label in 7", 10, "'['");
    assert_refused("label in []", 11, "a value");
    assert_refused("label in [1", 12, "']'");
    assert_refused("label not [1]", 11, "in after not");
    assert_refused("label 7", 7, "found '7'");
    assert_refused("1 < label < 9", 11, "do not chain");
    assert_refused("lable > 1", 1, "no field 'lable'");
    assert_refused("flag and nope", 10, "no field 'nope'");
    assert_refused("\"abc", 1, "closing quote");
    assert_refused("`abc", 1, "closing quote");
    assert_refused("name == 'a\\q'", 11, "escape");
    assert_refused("12ab == 1", 1, "12ab");
    assert_refused("label < 99999999999999999999", 9, "too large");
    assert_refused("and", 1, "found 'and'");
    assert_refused("'\xc3\xa4' == $", 8, "found '$'");
}

static void expr_types_are_checked_when_compiling(void **state)
{
    (void)state;
    assert_refused("label", 1, "gives int");
    assert_refused("name", 1, "gives bytes");
    assert_refused("label + 1", 1, "gives int");
    assert_refused("label == name", 7, "int with bytes");
    assert_refused("flag == 1", 6, "bool with int");
    assert_refused("flag < true", 6, "no order");
    assert_refused("name + 'x' == ''", 6, "bytes + bytes");
    assert_refused("score % 2 == 0", 7, "float % int");
    assert_refused("-name == ''", 1, "before bytes");
    assert_refused("not label", 1, "before int");
    assert_refused("label and flag", 7, "after int");
    assert_refused("flag or label", 6, "before int");
    assert_refused("label in [1, 'x']", 14, "int with bytes");
}

static void expr_depth_and_size_are_bounded(void **state)
{
    (void)state;
    static const struct {
        const char *head, *piece, *tail;
    } nests[] = {{"", "(", "true"}, {"", "not ", "true"}, {"1 == ", "-", "label"}};
    for (size_t i = 0; i < STK_COUNT(nests); i++) {
        char *text = repeated(nests[i].head, nests[i].piece, 65, nests[i].tail);
        assert_non_null(strstr(refused(text).message, "64 levels"));
        stk__free(text);
    }
    char *open = repeated("", "(", 64, "true");
    char *text = repeated(open, ")", 64, "");
    assert_eval(text, true);
    stk__free(open);
    stk__free(text);
    text = repeated("true", " ", 65533, "");
    assert_non_null(strstr(refused(text).message, "65537"));
    text[65536] = 0;
    assert_eval(text, true);
    stk__free(text);
}

static void expr_long_chains_need_no_depth(void **state)
{
    (void)state;
    char *text = repeated("0", "+1", 30000, " == 30000");
    assert_eval(text, true);
    stk__free(text);
    text = repeated("false", " or false", 7000, " or true");
    assert_eval(text, true);
    stk__free(text);
    text = repeated("label in [0", ",1", 30000, ",7]");
    assert_eval(text, true);
    stk__free(text);
}

static void expr_widest_stack_fits(void **state)
{
    (void)state;
    /* The left sides of + and * wait at each of 64 levels. */
    char *open = repeated("1 == 1 * (", "0 + 1 * (", 63, "1");
    char *text = repeated(open, ")", 64, "");
    assert_eval(text, true);
    stk__free(open);
    stk__free(text);
}

static void expr_eval_does_not_allocate(void **state)
{
    (void)state;
    stk__expr *e = compile("label in [1, 2, 7] and name == 'cat' and score * 2 + 1 < label");
    const uint64_t before = stk__alloc_count();
    bool out = false;
    assert_int_equal(stk__expr_eval(e, fetch, NULL, &out, NULL), STK_OK);
    assert_true(out);
    assert_true(stk__alloc_count() == before);
    stk__expr_free(e);
    stk__expr_free(NULL);
}

static void expr_survives_every_failed_allocation(void **state)
{
    (void)state;
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        stk__expr *e = NULL;
        stk_error err;
        stk_error_clear(&err);
        stk__alloc_fail_at(n, false);
        const stk_status status =
            stk__expr_compile("label in [1, 2, 3, 4, 5, 6, 7, 8, 9] and name == 'x'", lookup, NULL, &e, &err);
        stk__alloc_fail_at(0, false);
        done = status == STK_OK;
        if (!done) {
            assert_int_equal(status, STK_NOMEM);
            assert_null(e);
        }
        stk__expr_free(e);
        assert_true(n < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expr_compares),
        cmocka_unit_test(expr_compares_bytes_in_byte_order),
        cmocka_unit_test(expr_compares_int_with_float_by_value),
        cmocka_unit_test(expr_nan_is_unequal_to_all),
        cmocka_unit_test(expr_precedence_rises_from_or_to_minus),
        cmocka_unit_test(expr_arithmetic_follows_types),
        cmocka_unit_test(expr_in_finds_items),
        cmocka_unit_test(expr_and_or_skip_what_cannot_matter),
        cmocka_unit_test(expr_eval_reports_overflow_and_zero_division),
        cmocka_unit_test(expr_errors_have_column_found_and_wanted),
        cmocka_unit_test(expr_types_are_checked_when_compiling),
        cmocka_unit_test(expr_depth_and_size_are_bounded),
        cmocka_unit_test(expr_long_chains_need_no_depth),
        cmocka_unit_test(expr_widest_stack_fits),
        cmocka_unit_test(expr_eval_does_not_allocate),
        cmocka_unit_test(expr_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
