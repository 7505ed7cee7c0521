/* Options: arguments as written become fields of the state, or an error with its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/plan.h"

typedef struct all_state {
    int64_t count;
    double ratio;
    bool flag;
    const char *path;
    int64_t mode;
    int64_t size;
    stk_numbers mean;
    const char *field;
    stk_args rest;
} all_state;

static const char *const modes[] = {"slow", "fast", NULL};

static const stk_option all_options[] = {
    STK_INT(all_state, count, 7, -10, 10, "a count"),
    STK_NUMBER(all_state, ratio, 0.5, 0, 1, "a ratio"),
    STK_BOOL_OPTION(all_state, flag, true, "a flag"),
    STK_STRING(all_state, path, "here", "a path"),
    STK_ENUM(all_state, mode, 1, modes, "a mode"),
    STK_SIZE(all_state, size, 4096, 1, INT64_MAX, "a size"),
    STK_NUMBERS(all_state, mean, "some numbers"),
    STK_STRING(all_state, field, NULL, "a name"),
    STK_OPTION_END,
};

static const stk_op all_op = {
    .abi = STK_OP_ABI, .name = "all", .options = all_options, .state_size = sizeof(all_state)};

typedef struct rest_state {
    int64_t count;
    stk_args rest;
} rest_state;

static const stk_option rest_options[] = {
    STK_INT(rest_state, count, 7, 0, 10, "a count"),
    STK_ARGS(rest_state, rest, "the rest"),
    STK_OPTION_END,
};

static const stk_op rest_op = {
    .abi = STK_OP_ABI, .name = "rest", .options = rest_options, .state_size = sizeof(rest_state)};

typedef struct list_state {
    stk_strings paths;
    int64_t count;
} list_state;

static const stk_option list_options[] = {
    STK_STRINGS_REQUIRED(list_state, paths, "paths"),
    STK_INT(list_state, count, 7, 0, 10, "a count"),
    STK_OPTION_END,
};

static const stk_op list_op = {
    .abi = STK_OP_ABI, .name = "list", .options = list_options, .state_size = sizeof(list_state)};

/* One op of text, bound. */
typedef struct bound {
    stk__pipeline_text text;
    stk__step step;
    stk_status status;
    stk_error error;
} bound;

static void bind(const stk_op *op, const char *text, bound *b)
{
    memset(b, 0, sizeof *b);
    stk_error_clear(&b->error);
    if (stk__pipeline_parse(text, strlen(text), &b->text, &b->error) != STK_OK)
        fail_msg("%s: %s", text, b->error.message);
    const stk__op_text *one = &b->text.ops[0];
    b->step =
        (stk__step){.op = op, .line = one->line, .column = one->column, .args = one->args, .arg_count = one->arg_count};
    b->status = stk__options_bind(&b->step, &b->error);
}

static void release(bound *b)
{
    stk__options_clear(&b->step);
    stk__pipeline_text_clear(&b->text);
}

static void options_have_defaults(void **state)
{
    bound b;
    bind(&all_op, "all", &b);
    assert_int_equal(b.status, STK_OK);
    const all_state *s = b.step.state;
    assert_int_equal(s->count, 7);
    assert_true(s->ratio == 0.5);
    assert_true(s->flag);
    assert_string_equal(s->path, "here");
    assert_int_equal(s->mode, 1);
    assert_int_equal(s->size, 4096);
    assert_int_equal(s->mean.count, 0);
    assert_null(s->field);
    release(&b);
}

static void options_are_taken_by_position_and_by_name(void **state)
{
    bound b;
    bind(&all_op, "all(-3, 1, false, \"there\", slow, \"2K\", [1, 2.5])", &b);
    assert_int_equal(b.status, STK_OK);
    const all_state *s = b.step.state;
    assert_int_equal(s->count, -3);
    assert_true(s->ratio == 1);
    assert_false(s->flag);
    assert_string_equal(s->path, "there");
    assert_int_equal(s->mode, 0);
    assert_int_equal(s->size, 2048);
    assert_int_equal(s->mean.count, 2);
    assert_true(s->mean.items[1] == 2.5);
    release(&b);
    bind(&all_op, "all(mode=\"slow\", size=17, mean=3, count=10)", &b);
    assert_int_equal(b.status, STK_OK);
    s = b.step.state;
    assert_int_equal(s->count, 10);
    assert_int_equal(s->mode, 0);
    assert_int_equal(s->size, 17);
    assert_true(s->mean.count == 1 && s->mean.items[0] == 3);
    release(&b);
}

static void options_take_lists_from_all_positions(void **state)
{
    bound b;
    bind(&list_op, "list(\"a\", [\"b\", \"c\"], \"d\", count=3)", &b);
    assert_int_equal(b.status, STK_OK);
    const list_state *s = b.step.state;
    assert_int_equal(s->paths.count, 4);
    assert_string_equal(s->paths.items[0], "a");
    assert_string_equal(s->paths.items[3], "d");
    assert_int_equal(s->count, 3);
    release(&b);
}

static void options_leave_the_rest_to_the_op(void **state)
{
    bound b;
    bind(&rest_op, "rest(x=int64[3], count=2, y=name)", &b);
    assert_int_equal(b.status, STK_OK);
    const rest_state *s = b.step.state;
    assert_int_equal(s->count, 2);
    assert_int_equal(s->rest.count, 2);
    assert_string_equal(s->rest.items[0].name, "x");
    assert_int_equal(s->rest.items[0].value.kind, STK_ARG_TYPE);
    assert_string_equal(s->rest.items[1].value.text, "name");
    release(&b);
}

static void refuses(const stk_op *op, const char *text, const char *message, int line, int column)
{
    bound b;
    bind(op, text, &b);
    if (b.status != STK_INVALID || !strstr(b.error.message, message))
        fail_msg("'%s' gave %s (%s), wanted '%s'", text, stk_status_name(b.status), b.error.message, message);
    if (b.error.line != line || b.error.column != column)
        fail_msg("'%s' was refused at %d:%d, wanted %d:%d", text, b.error.line, b.error.column, line, column);
    release(&b);
}

static void options_refuse_with_found_wanted_and_place(void **state)
{
    refuses(&all_op, "all(11)", "count must be in -10..10, got an integer 11", 1, 5);
    refuses(&all_op, "all(\n  count=true)", "count must be an integer, got true or false true", 2, 9);
    refuses(&all_op, "all(1, 1.5)", "ratio must be in 0..1, got a number 1.5", 1, 8);
    refuses(&all_op, "all(ratio=x)", "ratio must be a number, got a name x", 1, 11);
    refuses(&all_op, "all(flag=yes)", "flag must be true or false, got a name yes", 1, 10);
    refuses(&all_op, "all(path=x)", "path must be a string, got a name x", 1, 10);
    refuses(&all_op, "all(mode=medium)", "mode must be one of slow, fast, got a name medium", 1, 10);
    refuses(&all_op, "all(size=\"2 parsecs\")", "size must be a size like 256M", 1, 10);
    refuses(&all_op, "all(size=0)", "size must be a size in range", 1, 10);
    refuses(&all_op, "all(mean=[1, x])", "mean must be numbers, got a name x", 1, 14);
    refuses(&all_op, "all(cuont=3)", "no option 'cuont'; did you mean 'count'?", 1, 5);
    refuses(&all_op, "all(zzz=3)", "no option 'zzz'; it takes count, ratio, flag, path, mode, size, mean, field", 1, 5);
    refuses(&all_op, "all(1, count=2)", "count is given twice", 1, 8);
    refuses(&all_op, "all(1, 0, true, \"\", slow, 1, 1, \"\", 9)", "too many arguments: number 9 is not expected", 1,
            37);
    refuses(&list_op, "list", "paths is missing: paths", 1, 1);
    refuses(&list_op, "list([\"a\", 3])", "paths must be strings, got an integer 3", 1, 12);
    refuses(&rest_op, "rest(x=1, x=2)", "'x' is given twice", 1, 11);
    refuses(&rest_op, "rest(count=1)", "rest is missing: the rest", 1, 1);
}

static void options_print_as_they_were_written(void **state)
{
    bound b;
    stk__text t = STK__TEXT_INIT;
    bind(&all_op, "all( 3 ,mode = fast, mean=[1,2.5] , path='a\"b')", &b);
    stk__step_print(&t, &b.step, 0);
    assert_string_equal(t.data, "all(3, mode=fast, mean=[1, 2.5], path=\"a\\\"b\")");
    stk__text_clear(&t);
    release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_have_defaults),
        cmocka_unit_test(options_are_taken_by_position_and_by_name),
        cmocka_unit_test(options_take_lists_from_all_positions),
        cmocka_unit_test(options_leave_the_rest_to_the_op),
        cmocka_unit_test(options_refuse_with_found_wanted_and_place),
        cmocka_unit_test(options_print_as_they_were_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
