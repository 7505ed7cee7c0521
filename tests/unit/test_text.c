/* Pipeline text: values, types, places, errors, bounds, printing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <stoker/pipeline.h>

#include "base/mem.h"
#include "engine/text.h"
#include "repeated.h"

static stk__pipeline_text parsed;

static const stk__op_text *parse(const char *text)
{
    stk_error err;
    stk_error_clear(&err);
    stk__pipeline_text_clear(&parsed);
    const stk_status status = stk__pipeline_parse(text, strlen(text), &parsed, &err);
    if (status != STK_OK)
        print_error("%s\n%d:%d: %s\n", text, err.line, err.column, err.message);
    assert_int_equal(status, STK_OK);
    return parsed.ops;
}

/* The first argument of op(TEXT). */
static const stk_arg *value(const char *text)
{
    char line[512];
    snprintf(line, sizeof line, "op(%s)", text);
    const stk__op_text *op = parse(line);
    assert_int_equal(op->arg_count, 1);
    return &op->args[0].value;
}

static stk_error refused(const char *text)
{
    stk_error err;
    stk_error_clear(&err);
    stk__pipeline_text out = {0};
    assert_int_equal(stk__pipeline_parse(text, strlen(text), &out, &err), STK_INVALID);
    assert_null(out.memory);
    assert_int_equal(err.status, STK_INVALID);
    assert_true(err.message[0]);
    return err;
}

static void assert_refused_at(const char *text, int line, int column)
{
    const stk_error err = refused(text);
    if (err.line != line || err.column != column)
        print_error("%s: %d:%d %s\n", text, err.line, err.column, err.message);
    assert_int_equal(err.line, line);
    assert_int_equal(err.column, column);
}

static int teardown(void **state)
{
    (void)state;
    stk__pipeline_text_clear(&parsed);
    return 0;
}

static void text_reads_the_example_of_the_design(void **state)
{
    (void)state;
    const stk__op_text *ops = parse("# cifar.stoker\n"
                                    "tfrecord(\"data/train-*.tfrecord\")\n"
                                    "| shuffle(seed=42)\n"
                                    "| parse(image=bytes, label=int64)\n"
                                    "| decode_image(image)\n"
                                    "| pad(image, 4, mode=reflect)\n"
                                    "| normalize(image, mean=[125.3, 123.0, 113.9], std=[63.0, 62.1, 66.7])\n"
                                    "| batch(512, drop_last=true)\n"
                                    "| repeat(10)\n");
    assert_int_equal(parsed.op_count, 8);
    assert_string_equal(ops[0].name, "tfrecord");
    assert_int_equal(ops[0].line, 2);
    assert_int_equal(ops[0].args[0].value.kind, STK_ARG_STRING);
    assert_string_equal(ops[0].args[0].value.text, "data/train-*.tfrecord");
    assert_null(ops[0].args[0].name);
    assert_string_equal(ops[1].args[0].name, "seed");
    assert_int_equal(ops[1].args[0].value.integer, 42);
    assert_int_equal(ops[1].line, 3);
    assert_int_equal(ops[1].column, 3);
    assert_int_equal(ops[2].args[1].value.kind, STK_ARG_NAME);
    assert_string_equal(ops[2].args[1].value.text, "int64");
    assert_int_equal(ops[4].arg_count, 3);
    assert_string_equal(ops[4].args[2].value.text, "reflect");
    assert_int_equal(ops[5].args[1].value.kind, STK_ARG_LIST);
    assert_int_equal(ops[5].args[1].value.item_count, 3);
    assert_true(ops[5].args[1].value.items[2].number == 113.9);
    assert_true(ops[6].args[1].value.boolean);
}

static void text_takes_ops_without_parentheses_and_bars_at_line_ends(void **state)
{
    (void)state;
    const stk__op_text *ops = parse("range(3) |\n discard # last\n");
    assert_int_equal(parsed.op_count, 2);
    assert_int_equal(ops[1].arg_count, 0);
    assert_int_equal(ops[1].line, 2);
    assert_int_equal(ops[1].column, 2);
    assert_int_equal(parse("a()|b(1,)")[1].arg_count, 1);
}

static void text_reads_integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t want;
    } cases[] = {{"0", 0},
                 {"12", 12},
                 {"-7", -7},
                 {"1_000_000", 1000000},
                 {"0x1f", 31},
                 {"-0xFF", -255},
                 {"0x7fff_ffff_ffff_ffff", INT64_MAX},
                 {"9223372036854775807", INT64_MAX},
                 {"-9223372036854775808", INT64_MIN}};
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const stk_arg *v = value(cases[i].text);
        assert_int_equal(v->kind, STK_ARG_INT);
        assert_true(v->integer == cases[i].want);
        assert_true(v->number == (double)cases[i].want);
    }
}

static void text_reads_floats(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double want;
    } cases[] = {{"1.5", 1.5}, {"1e-3", 1e-3}, {"-2.5E+2", -250}, {".5", .5}, {"3.", 3}, {"-0.0", 0}, {"1e300", 1e300}};
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const stk_arg *v = value(cases[i].text);
        assert_int_equal(v->kind, STK_ARG_FLOAT);
        assert_true(v->number == cases[i].want);
    }
}

static void text_reads_sizes_and_times_as_strings(void **state)
{
    (void)state;
    static const char *const cases[] = {"256M", "1.5GiB", "4KB", "12B", "2T", "5ms", "200us", "1.5s", "10ns", "64Ki"};
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const stk_arg *v = value(cases[i]);
        assert_int_equal(v->kind, STK_ARG_STRING);
        assert_string_equal(v->text, cases[i]);
    }
}

static void text_reads_strings_with_escapes(void **state)
{
    (void)state;
    assert_string_equal(value("\"a b\"")->text, "a b");
    assert_string_equal(value("'it\"s'")->text, "it\"s");
    assert_string_equal(value("\"\\n\\t\\\\\\\"\\'\\x41\\xe4\"")->text, "\n\t\\\"'A\xe4");
    assert_string_equal(value("''")->text, "");
    assert_string_equal(value("'# | ( no comment'")->text, "# | ( no comment");
}

static void text_reads_types(void **state)
{
    (void)state;
    const stk_arg *v = value("float32[8]");
    assert_int_equal(v->kind, STK_ARG_TYPE);
    assert_string_equal(v->text, "float32");
    assert_true(v->has_dims);
    assert_int_equal(v->item_count, 1);
    assert_int_equal(v->items[0].integer, 8);
    v = value("int64[]");
    assert_int_equal(v->item_count, 1);
    assert_true(v->items[0].integer == -1);
    v = value("float32[?, 8, *, 0]");
    assert_int_equal(v->item_count, 4);
    assert_true(v->items[0].integer == -1);
    assert_true(v->items[1].integer == 8);
    assert_true(v->items[2].integer == -1);
    assert_true(v->items[3].integer == 0);
    v = value("float32[,3]");
    assert_int_equal(v->item_count, 2);
    assert_true(v->items[0].integer == -1);
    v = value("bytes(from=\"image/encoded\")");
    assert_int_equal(v->kind, STK_ARG_TYPE);
    assert_false(v->has_dims);
    assert_int_equal(v->mod_count, 1);
    assert_string_equal(v->mods[0].name, "from");
    assert_string_equal(v->mods[0].value.text, "image/encoded");
    v = value("int64[2](default=[1, 2], from='y',)");
    assert_int_equal(v->item_count, 1);
    assert_int_equal(v->mod_count, 2);
    assert_int_equal(v->mods[0].value.kind, STK_ARG_LIST);
    assert_int_equal(v->mods[0].value.items[1].integer, 2);
}

static void text_reads_quoted_argument_names(void **state)
{
    (void)state;
    const stk__op_text *op = parse("parse(\"image/encoded\"=bytes, 'x' = int64[])");
    assert_string_equal(op->args[0].name, "image/encoded");
    assert_string_equal(op->args[1].name, "x");
    assert_int_equal(op->args[1].value.kind, STK_ARG_TYPE);
}

static void text_reads_lists_of_lists_and_empty_lists(void **state)
{
    (void)state;
    const stk_arg *v = value("[[1, 2], [], [int64[3], true, 'x',],]");
    assert_int_equal(v->item_count, 3);
    assert_int_equal(v->items[0].item_count, 2);
    assert_int_equal(v->items[1].item_count, 0);
    assert_int_equal(v->items[2].items[0].kind, STK_ARG_TYPE);
    assert_int_equal(v->items[2].items[1].kind, STK_ARG_BOOL);
}

static void text_errors_name_line_and_column(void **state)
{
    (void)state;
    assert_refused_at("", 1, 1);
    assert_refused_at("  # only a comment\n", 2, 1);
    assert_refused_at("| range(3)", 1, 1);
    assert_refused_at("range(3) |", 1, 11);
    assert_refused_at("range(3)\n| | discard", 2, 3);
    assert_refused_at("range(3) || discard", 1, 11);
    assert_refused_at("range(3) discard", 1, 10);
    assert_refused_at("range(3", 1, 8);
    assert_refused_at("range(3))", 1, 9);
    assert_refused_at("range(3 4)", 1, 9);
    assert_refused_at("range(,)", 1, 7);
    assert_refused_at("range(n=)", 1, 9);
    assert_refused_at("range(3)\n| take(12ab)", 2, 8);
    assert_refused_at("f(1__0)", 1, 3);
    assert_refused_at("f(1_)", 1, 3);
    assert_refused_at("f(0x)", 1, 3);
    assert_refused_at("f(0x1p3)", 1, 3);
    assert_refused_at("f(1.2.3)", 1, 3);
    assert_refused_at("f(1e)", 1, 3);
    assert_refused_at("f(-5ms)", 1, 3);
    assert_refused_at("f(- 5)", 1, 3);
    assert_refused_at("f(9223372036854775808)", 1, 3);
    assert_refused_at("f(-9223372036854775809)", 1, 3);
    assert_refused_at("f(1e999)", 1, 3);
    assert_refused_at("f(inf[)", 1, 7);
    assert_refused_at("f(\"abc)", 1, 3);
    assert_refused_at("f('a\nb')", 1, 3);
    assert_refused_at("f('ab\\qc')", 1, 6);
    assert_refused_at("f('\\x4')", 1, 4);
    assert_refused_at("f('a\\x00b')", 1, 3);
    assert_refused_at("f('\xc3\xa4\xc3\xb6', $)", 1, 9);
    assert_refused_at("f(x[-1])", 1, 5);
    assert_refused_at("f(x[1.5])", 1, 5);
    assert_refused_at("f(x(3))", 1, 5);
    assert_refused_at("f(x(a))", 1, 6);
    assert_refused_at("f([1, 2)", 1, 8);
    assert_refused_at("f(image/encoded=bytes)", 1, 8);
    assert_refused_at("(3)", 1, 1);
}

static void text_errors_say_found_and_wanted(void **state)
{
    (void)state;
    assert_string_equal(refused("range(3) discard").message, "found 'discard', wanted '|' before the next op");
    assert_string_equal(refused("range(3").message, "found the end of the text, wanted ',' or ')'");
    assert_non_null(strstr(refused("f(image/encoded=bytes)").message, "put quotes"));
    assert_non_null(strstr(refused("f(\x01)").message, "byte 0x01"));
    assert_non_null(strstr(refused("f(12ab)").message, "'12ab'"));
}

static void text_with_a_zero_byte_is_refused(void **state)
{
    (void)state;
    stk__pipeline_text out;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__pipeline_parse("a\0|b", 4, &out, &err), STK_INVALID);
    assert_int_equal(err.column, 2);
    assert_int_equal(stk__pipeline_parse("f('a\0')", 7, &out, NULL), STK_INVALID);
}

static void text_depth_is_bounded(void **state)
{
    (void)state;
    char text[256];
    for (int depth = 16; depth <= 17; depth++) {
        int n = snprintf(text, sizeof text, "f(");
        for (int i = 0; i < depth; i++)
            text[n++] = '[';
        for (int i = 0; i < depth; i++)
            text[n++] = ']';
        text[n++] = ')';
        text[n] = 0;
        if (depth == 16)
            parse(text);
        else
            assert_non_null(strstr(refused(text).message, "16"));
    }
    assert_non_null(
        strstr(refused("f(a(x=a(x=a(x=a(x=a(x=a(x=a(x=a(x=a(x=a(x=a(x=a(x=a(x=a(x=a(x=a(x=a(x=1)))").message, "16"));
}

static void text_counts_of_ops_and_arguments_are_bounded(void **state)
{
    (void)state;
    char *text = repeated("a", "|a", 1023, "");
    parse(text);
    assert_int_equal(parsed.op_count, 1024);
    stk__free(text);
    text = repeated("a", "|a", 1024, "");
    assert_non_null(strstr(refused(text).message, "1024"));
    stk__free(text);
    text = repeated("a(", "1,", 65536, ")");
    assert_int_equal(parse(text)->arg_count, 65536);
    stk__free(text);
    text = repeated("a(", "1,", 65537, ")");
    assert_non_null(strstr(refused(text).message, "65536"));
    stk__free(text);
    text = repeated("a([", "1,", 65536, "])"); /* the list itself counts */
    refused(text);
    stk__free(text);
}

static void assert_same(const stk_arg *a, const stk_arg *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->boolean, b->boolean);
    assert_true(a->integer == b->integer);
    assert_true(a->number == b->number);
    assert_int_equal(a->text != NULL, b->text != NULL);
    if (a->text)
        assert_string_equal(a->text, b->text);
    assert_int_equal(a->has_dims, b->has_dims);
    assert_int_equal(a->item_count, b->item_count);
    for (size_t i = 0; i < a->item_count; i++)
        assert_same(&a->items[i], &b->items[i]);
    assert_int_equal(a->mod_count, b->mod_count);
    for (size_t i = 0; i < a->mod_count; i++) {
        assert_string_equal(a->mods[i].name, b->mods[i].name);
        assert_same(&a->mods[i].value, &b->mods[i].value);
    }
}

static void arg_print_reads_back_as_the_same(void **state)
{
    (void)state;
    const stk__op_text *op =
        parse("f(12, -5, 1.0, 0.1, 1e22, -0.0, true, false, 'a\"b\\\\\\n\\x01\\x7f\xc3\xa4', name, "
              "float32[8], int64[], x[?,3,], bytes(from=\"a/b\", 'q r'=[1, [2.5]]), bytes(), [], 256M)");
    for (size_t i = 0; i < op->arg_count; i++) {
        stk__text t = STK__TEXT_INIT;
        stk__text_puts(&t, "g(");
        stk__arg_print(&t, &op->args[i].value);
        stk__text_puts(&t, ")");
        assert_false(t.failed);
        stk__pipeline_text again;
        assert_int_equal(stk__pipeline_parse(t.data, t.length, &again, NULL), STK_OK);
        assert_same(&op->args[i].value, &again.ops[0].args[0].value);
        stk__pipeline_text_clear(&again);
        stk__text_clear(&t);
    }
}

static void arg_print_is_short(void **state)
{
    (void)state;
    stk__text t = STK__TEXT_INIT;
    stk__arg_print(&t, value("[ 1 ,2.50, int64 [ ] , x[*,3], 'a' ]"));
    assert_string_equal(t.data, "[1, 2.5, int64[], x[?, 3], \"a\"]");
    stk__text_clear(&t);
}

/* The bytes that an op takes in a text, as a string; valid until the next call. */
static const char *slice(const char *text, size_t begin, size_t end)
{
    static char out[64];
    assert_true(begin < end && end <= strlen(text) && end - begin < sizeof out);
    memcpy(out, text + begin, end - begin);
    out[end - begin] = 0;
    return out;
}

static void text_tells_the_bytes_of_each_op(void **state)
{
    (void)state;
    const char text[] = "# head | of it\n  range( 3 ,\n step = [1] )# foot\n|cache | print ( ) \n# end";
    const stk__op_text *ops = parse(text);
    assert_int_equal(parsed.op_count, 3);
    assert_string_equal(slice(text, ops[0].begin, ops[0].end), "range( 3 ,\n step = [1] )");
    assert_string_equal(slice(text, ops[1].begin, ops[1].end), "cache");
    assert_string_equal(slice(text, ops[2].begin, ops[2].end), "print ( )");
}

static void text_ops_have_roles_and_flags_of_the_registry(void **state)
{
    (void)state;
    const char text[] = "range(3) | shuffle | nonsense(1) | batch(2)";
    stk_registry *registry;
    stk_text_op *ops;
    size_t count;
    assert_int_equal(stk_registry_new(&registry, NULL), STK_OK);
    assert_int_equal(stk_text_ops(text, registry, &ops, &count, NULL), STK_OK);
    assert_int_equal(count, 4);
    assert_int_equal(ops[0].op->role, STK_ROLE_SOURCE);
    assert_int_equal(ops[1].op->role, STK_ROLE_ORDER);
    assert_null(ops[2].op);
    assert_ptr_equal(ops[3].op, stk_registry_find(registry, "batch"));
    assert_string_equal(slice(text, ops[2].begin, ops[2].end), "nonsense(1)");
    stk_text_ops_free(ops);
    stk_registry_free(registry);
}

static void text_ops_of_a_broken_text_are_refused_at_their_place(void **state)
{
    (void)state;
    stk_registry *registry;
    stk_text_op *ops = NULL;
    size_t count = 7;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk_registry_new(&registry, NULL), STK_OK);
    assert_int_equal(stk_text_ops("range(3) |\n| batch(2)", registry, &ops, &count, &err), STK_INVALID);
    assert_int_equal(err.line, 2);
    assert_int_equal(err.column, 1);
    assert_null(ops);
    assert_int_equal(count, 7);
    stk_registry_free(registry);
}

static void text_survives_every_failed_allocation(void **state)
{
    (void)state;
    const char text[] = "f(1, 'two', [3, x[4](y=5)], 6M) | g | h(a=b)";
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        stk__pipeline_text out = {0};
        stk_error err;
        stk_error_clear(&err);
        stk__alloc_fail_at(n, false);
        const stk_status status = stk__pipeline_parse(text, strlen(text), &out, &err);
        stk__alloc_fail_at(0, false);
        done = status == STK_OK;
        if (!done) {
            assert_int_equal(status, STK_NOMEM);
            assert_int_equal(err.status, STK_NOMEM);
            assert_null(out.memory);
        }
        stk__pipeline_text_clear(&out);
        assert_true(n < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_reads_the_example_of_the_design),
        cmocka_unit_test(text_takes_ops_without_parentheses_and_bars_at_line_ends),
        cmocka_unit_test(text_reads_integers),
        cmocka_unit_test(text_reads_floats),
        cmocka_unit_test(text_reads_sizes_and_times_as_strings),
        cmocka_unit_test(text_reads_strings_with_escapes),
        cmocka_unit_test(text_reads_types),
        cmocka_unit_test(text_reads_quoted_argument_names),
        cmocka_unit_test(text_reads_lists_of_lists_and_empty_lists),
        cmocka_unit_test(text_errors_name_line_and_column),
        cmocka_unit_test(text_errors_say_found_and_wanted),
        cmocka_unit_test(text_with_a_zero_byte_is_refused),
        cmocka_unit_test(text_depth_is_bounded),
        cmocka_unit_test(text_counts_of_ops_and_arguments_are_bounded),
        cmocka_unit_test(arg_print_reads_back_as_the_same),
        cmocka_unit_test(arg_print_is_short),
        cmocka_unit_test(text_tells_the_bytes_of_each_op),
        cmocka_unit_test(text_ops_have_roles_and_flags_of_the_registry),
        cmocka_unit_test(text_ops_of_a_broken_text_are_refused_at_their_place),
        cmocka_unit_test(text_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
