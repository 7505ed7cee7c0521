/* The TOML reader: values, tables, what may be defined twice, places of errors, hostile sizes. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/toml.h"
#include "base/mem.h"
#include "base/str.h"

static stk__toml *parse(const char *text)
{
    stk__toml *root = NULL;
    stk_error err = {0};
    if (stk__toml_parse(text, strlen(text), "x.toml", &root, &err) != STK_OK)
        fail_msg("%s: line %d, column %d: %s", text, err.line, err.column, err.message);
    return root;
}

static void refuses(const char *text, int line, int column, const char *part)
{
    stk__toml *root = NULL;
    stk_error err = {0};
    if (stk__toml_parse(text, strlen(text), "x.toml", &root, &err) != STK_INVALID)
        fail_msg("%s: taken", text);
    if (!strstr(err.message, part) || !strstr(err.message, "wanted") || err.line != line || err.column != column)
        fail_msg("%s: line %d, column %d: %s", text, err.line, err.column, err.message);
    assert_string_equal(err.file, "x.toml");
    assert_null(root);
    assert_int_equal(stk__toml_parse(text, strlen(text), NULL, &root, NULL), STK_INVALID);
}

/* "a.b": b in a. */
static const stk__toml *at(const stk__toml *node, const char *path)
{
    char part[64];
    for (; node && *path; path += strlen(part), path += *path == '.') {
        const size_t n = strcspn(path, ".");
        assert_true(n < sizeof part);
        memcpy(part, path, n);
        part[n] = 0;
        node = stk__toml_get(node, part);
    }
    if (!node)
        fail_msg("no %s", path);
    return node;
}

static void text_is(const char *document, const char *wanted, size_t size)
{
    stk__toml *root = parse(document);
    const stk__toml *node = at(root, "a");
    assert_int_equal(node->kind, STK__TOML_STRING);
    assert_int_equal(node->text_size, size);
    assert_memory_equal(node->text, wanted, size + 1);
    stk__toml_free(root);
}

static void toml_reads_the_four_kinds_of_strings(void **state)
{
    text_is("a = \"x\\t\\\"\\\\\\u00e9\\U0001F600\"", "x\t\"\\\xc3\xa9\xf0\x9f\x98\x80", 10);
    text_is("a = 'x\\n'", "x\\n", 3);
    text_is("a = \"\"\"\nx\r\n\\\n   y\"\"\"", "x\ny", 3);
    text_is("a = '''\n\nx''y'''''", "\nx''y''", 7);
    text_is("a = \"\\u0000x\"", "\0x", 2);
    text_is("a = ''", "", 0);
    text_is("a = \"\"\"\"\"\"", "", 0);
}

static void integer_is(const char *document, int64_t wanted)
{
    stk__toml *root = parse(document);
    assert_int_equal(at(root, "a")->kind, STK__TOML_INTEGER);
    assert_true(at(root, "a")->integer == wanted && at(root, "a")->number == (double)wanted);
    stk__toml_free(root);
}

static void toml_reads_integers_of_64_bits(void **state)
{
    integer_is("a = 1_000", 1000);
    integer_is("a = +0", 0);
    integer_is("a = 9223372036854775807", INT64_MAX);
    integer_is("a = -9223372036854775808", INT64_MIN);
    integer_is("a = 0x7fff_ffff_ffff_ffff", INT64_MAX);
    integer_is("a = 0o755", 493);
    integer_is("a = 0b1101", 13);
    refuses("a = 9223372036854775808", 1, 5, "64 bits");
    refuses("a = -9223372036854775809", 1, 5, "64 bits");
    refuses("a = 0x8000000000000000", 1, 5, "64 bits");
    refuses("a = 99999999999999999999999999999999999999999999999999", 1, 5, "64 bits");
    refuses("a = 1__0", 1, 7, "'_'");
    refuses("a = 012", 1, 5, "leading zero");
}

static void float_is(const char *document, double wanted)
{
    stk__toml *root = parse(document);
    const stk__toml *node = at(root, "a");
    assert_int_equal(node->kind, STK__TOML_FLOAT);
    assert_true(node->number == wanted || (isnan(node->number) && isnan(wanted)));
    assert_int_equal(!!signbit(node->number), !!signbit(wanted));
    stk__toml_free(root);
}

static void toml_reads_floats(void **state)
{
    float_is("a = 3.25", 3.25);
    float_is("a = -0.0", -0.0);
    float_is("a = 1_0.5_0e-0_1", 1.05);
    float_is("a = 5e+22", 5e22);
    float_is("a = inf", (double)INFINITY);
    float_is("a = -inf", (double)-INFINITY);
    float_is("a = nan", (double)NAN);
    float_is("a = -nan", copysign((double)NAN, -1));
}

static void toml_reads_dates_as_text(void **state)
{
    static const char *const dates[] = {"1979-05-27T07:32:00Z", "1979-05-27 07:32:00.5-07:00", "1979-05-27",
                                        "07:32:00.25"};
    for (size_t i = 0; i < STK_COUNT(dates); i++) {
        char document[80] = "a = ";
        memcpy(document + 4, dates[i], strlen(dates[i]) + 1);
        stk__toml *root = parse(document);
        assert_int_equal(at(root, "a")->kind, STK__TOML_DATE);
        assert_string_equal(at(root, "a")->text, dates[i]);
        stk__toml_free(root);
    }
    refuses("a = 2023-02-29", 1, 5, "date");
    refuses("a = 25:00:00", 1, 5, "date");
}

static void toml_keeps_tables_in_the_order_of_the_file(void **state)
{
    stk__toml *root =
        parse("z = 1\n\"k e\".y = true\n[b.c]\nx = [1, [2.5, 'q'], {d.e = 3}]\n[[b.t]]\nn = 1\n[[b.t]]\nn = 2\n");
    assert_int_equal(root->count, 3);
    assert_string_equal(root->items[0].key, "z");
    assert_string_equal(root->items[1].key, "k e");
    assert_true(at(root, "k e.y")->boolean);
    const stk__toml *x = at(root, "b.c.x");
    assert_int_equal(x->count, 3);
    assert_int_equal(x->items[1].items[0].kind, STK__TOML_FLOAT);
    assert_int_equal(at(&x->items[2], "d.e")->integer, 3);
    assert_int_equal(x->line, 4);
    assert_int_equal(x->items[2].line, 4);
    assert_int_equal(x->items[2].column, 21);
    const stk__toml *t = at(root, "b.t");
    assert_int_equal(t->kind, STK__TOML_ARRAY);
    assert_int_equal(t->count, 2);
    assert_int_equal(t->items[1].line, 7);
    assert_int_equal(at(&t->items[1], "n")->integer, 2);
    assert_null(stk__toml_get(root, "none"));
    assert_null(stk__toml_get(t, "n"));
    stk__toml_free(root);
    stk__toml_free(NULL);
}

static void toml_tells_where_something_is_defined_twice(void **state)
{
    refuses("a = 1\n\na = 2", 3, 1, "line 1");
    refuses("[a]\n[b]\n[a]", 3, 2, "line 1");
    refuses("a.b = 1\n[a]", 2, 2, "defined already");
    refuses("[a]\nb.c = 1\n[x]\n[a.b]", 4, 4, "defined already");
    refuses("[a.b]\n[a]\nb.c = 1", 3, 1, "defined already");
    refuses("a = {}\na.b = 1", 2, 1, "an inline table");
    refuses("a = {}\n[a.b]", 2, 2, "an inline table");
    refuses("a = [{}]\n[[a]]", 2, 3, "an array");
    refuses("a = 'x'\n[a.b]", 2, 2, "a string");
    refuses("[[a]]\n[a]", 2, 2, "an array of tables");
    refuses("[a]\n[[a]]", 2, 3, "a table");
    refuses("a = {b = 1, b = 2}", 1, 13, "'b'");
}

static void toml_tells_what_it_found(void **state)
{
    refuses("a = yes", 1, 5, "'yes'");
    refuses("a = ", 1, 5, "the end of the file");
    refuses("a =\nb = 1", 1, 4, "the end of the line");
    refuses("x = 'x'\n\xc3\xa9\xc3\xa9 = 1", 2, 1, "\xc3\xa9");
    refuses("a = '\xc3\xa9\xc3\xa9' y", 1, 10, "'y'");
    refuses("a = 'x", 1, 5, "end of the file");
    refuses("a = [1,\n2", 1, 5, "']'");
    refuses("a = [1 2]", 1, 8, "'2'");
    refuses("a = \"\\q\"", 1, 6, "'q'");
    refuses("a = \"\\ud800\"", 1, 6, "U+D800");
    refuses("a = 1 2", 1, 7, "'2'");
    refuses("[a", 1, 3, "']'");
    refuses("[[a]\n", 1, 5, "']' twice");
    refuses("a = {b = 1,\n}", 1, 12, "the end of the line");
    refuses("\"\"\"a\"\"\" = 1", 1, 1, "three quotes");
    refuses("\"\\u0000\" = 1", 1, 1, "NUL");
}

static void toml_refuses_bytes_that_are_no_text(void **state)
{
    refuses("a = '\xff'", 1, 6, "0xff");
    refuses("# x\x01", 1, 4, "0x01");
    refuses("# x\x7f", 1, 4, "0x7f");
    refuses("# x\ry", 1, 4, "carriage return");
    refuses("\xef\xbb\xbf"
            "a = 1",
            1, 1, "byte order mark");
    stk__toml *root;
    assert_int_equal(stk__toml_parse("a\0", 2, NULL, &root, NULL), STK_INVALID);
}

static void toml_stops_at_its_limits(void **state)
{
    stk__text t = STK__TEXT_INIT;
    stk__toml *root;
    for (int extra = 0; extra < 2; extra++) {
        for (int kind = 0; kind < 3; kind++) {
            stk__text_reset(&t);
            stk__text_puts(&t, kind == 0 ? "a = " : kind == 1 ? "a" : "[a");
            for (int i = 1; i < STK__TOML_DEPTH + extra; i++)
                stk__text_puts(&t, kind == 0 ? "[" : ".a");
            stk__text_puts(&t, kind == 0 ? "0" : kind == 1 ? " = 1" : "]");
            for (int i = 1; kind == 0 && i < STK__TOML_DEPTH + extra; i++)
                stk__text_puts(&t, "]");
            root = NULL;
            assert_int_equal(stk__toml_parse(t.data, t.length, NULL, &root, NULL), extra ? STK_INVALID : STK_OK);
            stk__toml_free(root);
        }
    }
    stk_error err = {0};
    stk__text_reset(&t);
    stk__text_puts(&t, "a = [");
    for (int i = 0; i < STK__TOML_VALUES; i++)
        stk__text_puts(&t, "1,");
    stk__text_puts(&t, "]");
    assert_int_equal(stk__toml_parse(t.data, t.length, NULL, &root, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "200000 values"));
    assert_int_equal(stk__toml_parse(t.data, (size_t)STK__TOML_BYTES + 1, NULL, &root, NULL), STK_INVALID);
    stk__text_clear(&t);
}

/* With a search through all keys for each new one this would be 10^10 steps: it would not end in the time of a test. */
static void toml_reads_very_large_tables_in_linear_time(void **state)
{
    enum { KEYS = STK__TOML_VALUES - 10 };
    stk__text t = STK__TEXT_INIT;
    for (int i = 0; i < KEYS; i++)
        stk__text_printf(&t, "key_with_a_common_start_%d=1\n", i);
    stk__toml *root;
    assert_false(t.failed);
    assert_int_equal(stk__toml_parse(t.data, t.length, NULL, &root, NULL), STK_OK);
    assert_int_equal(root->count, KEYS);
    assert_string_equal(root->items[KEYS - 1].key, "key_with_a_common_start_199989");
    stk__toml_free(root);
    /* Headers go through the table from its root each time. */
    stk__text_reset(&t);
    for (int i = 0; i < KEYS / 2; i++)
        stk__text_printf(&t, "[a.b.t%d]\n", i);
    assert_int_equal(stk__toml_parse(t.data, t.length, NULL, &root, NULL), STK_OK);
    assert_int_equal(at(root, "a.b")->count, KEYS / 2);
    stk__toml_free(root);
    /* One long line: the column of each value is counted on from the last one. */
    stk__text_reset(&t);
    stk__text_puts(&t, "a = [");
    for (int i = 0; i < KEYS; i++)
        stk__text_puts(&t, "'0123456789 0123456789',");
    stk__text_puts(&t, "]");
    assert_int_equal(stk__toml_parse(t.data, t.length, NULL, &root, NULL), STK_OK);
    assert_int_equal(root->items[0].items[KEYS - 1].column, 6 + (KEYS - 1) * 24);
    stk__toml_free(root);
    stk__text_clear(&t);
}

static void toml_with_any_allocation_failing_gives_nomem(void **state)
{
    static const char document[] =
        "t = 'x'\na.b.c = [1, {d = \"\"\"y\"\"\", e.f = 1979-05-27}]\n[x.'y']\nz = 0x1f\n[[q]]\n[[q]]\n";
    bool done = false;
    uint64_t n = 1;
    for (; !done; n++) {
        stk__toml *root = NULL;
        stk__alloc_fail_at(n, false);
        const stk_status status = stk__toml_parse(document, strlen(document), NULL, &root, NULL);
        stk__alloc_fail_at(0, false);
        done = status == STK_OK;
        if (!done) {
            assert_int_equal(status, STK_NOMEM);
            assert_null(root);
        }
        stk__toml_free(root);
    }
    assert_true(n > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(toml_reads_the_four_kinds_of_strings),
        cmocka_unit_test(toml_reads_integers_of_64_bits),
        cmocka_unit_test(toml_reads_floats),
        cmocka_unit_test(toml_reads_dates_as_text),
        cmocka_unit_test(toml_keeps_tables_in_the_order_of_the_file),
        cmocka_unit_test(toml_tells_where_something_is_defined_twice),
        cmocka_unit_test(toml_tells_what_it_found),
        cmocka_unit_test(toml_refuses_bytes_that_are_no_text),
        cmocka_unit_test(toml_stops_at_its_limits),
        cmocka_unit_test(toml_reads_very_large_tables_in_linear_time),
        cmocka_unit_test(toml_with_any_allocation_failing_gives_nomem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
