/* Which commands need a shell, and the words of those that do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "bench/command.h"

/* The words, joined by bars; "SHELL" when a shell is needed. */
static void assert_split(const char *command, const char *wanted)
{
    stk__command c = {0};
    stk_error err = {0};
    assert_int_equal(stk__command_split(command, &c, &err), STK_OK);
    stk__text got = STK__TEXT_INIT;
    if (c.shell) {
        stk__text_puts(&got, "SHELL");
    } else {
        const char *p = c.words.data;
        for (size_t i = 0; i < c.count; i++, p += strlen(p) + 1)
            stk__text_printf(&got, "%s%s", i ? "|" : "", p);
        assert_ptr_equal(p, c.words.data + c.words.length);
    }
    assert_string_equal(got.data, wanted);
    stk__text_clear(&got);
    stk__command_clear(&c);
}

static void command_of_plain_words_is_split_at_blanks(void **state)
{
    (void)state;
    assert_split("true", "true");
    assert_split("  python3\ttrain.py  --lazy ", "python3|train.py|--lazy");
    assert_split("sort -k1,1 -t% a+b:c@d^e", "sort|-k1,1|-t%|a+b:c@d^e");
    assert_split("t\xc3\xa9st \xff", "t\xc3\xa9st|\xff");
}

static void command_quotes_are_taken_off(void **state)
{
    (void)state;
    assert_split("a 'b c' \"d  e\"", "a|b c|d  e");
    assert_split("a '' \"\" b", "a|||b");
    assert_split("a x'y z'\"w\"v", "a|xy zwv");
    assert_split("a '$x | `y` \\n *'", "a|$x | `y` \\n *");
    assert_split("a \"it's * ? [x] ~ # ;\"", "a|it's * ? [x] ~ # ;");
    assert_split("a 'one\ntwo'", "a|one\ntwo");
    assert_split("'my program' x", "my program|x");
}

static void command_with_a_meaning_for_the_shell_is_left_to_it(void **state)
{
    (void)state;
    static const char *const commands[] = {
        "a | b", "a && b", "a; b",   "a < b",    "a > b",     "(a)",       "a $x",    "a `b`",    "a \\b",
        "a *.c", "a ?",    "a [x]",  "a {b,c}",  "a &",       "a\nb",      "a ~/x",   "# a",      "a #b",
        "A=1 b", "! a",    "{ a; }", "a \"$x\"", "a \"\\n\"", "a \"`b`\"", "a 'open", "a \"open", "a b'c",
    };
    for (size_t i = 0; i < STK_COUNT(commands); i++)
        assert_split(commands[i], "SHELL");
}

static void command_characters_without_meaning_in_their_place_are_plain(void **state)
{
    (void)state;
    assert_split("git show HEAD~1", "git|show|HEAD~1");
    assert_split("a b#c", "a|b#c");
    assert_split("dd if=/dev/zero of=x", "dd|if=/dev/zero|of=x");
    assert_split("a !b", "a|!b");
    assert_split("a x] %1", "a|x]|%1");
}

static void command_that_only_a_shell_knows_is_left_to_it(void **state)
{
    (void)state;
    static const char *const commands[] = {"exit 3", "cd /tmp", "export", "exec ls", ":", ". x", "ulimit -n", "'cd' x"};
    for (size_t i = 0; i < STK_COUNT(commands); i++)
        assert_split(commands[i], "SHELL");
    assert_split("cdx exit", "cdx|exit");
    assert_split("/bin/echo x", "/bin/echo|x");
}

static void command_without_a_word_is_invalid(void **state)
{
    (void)state;
    static const char *const commands[] = {"", "   ", "\t \n"};
    for (size_t i = 0; i < STK_COUNT(commands); i++) {
        stk__command c = {.count = 77};
        stk_error err = {0};
        assert_int_equal(stk__command_split(commands[i], &c, &err), STK_INVALID);
        assert_int_equal(c.count, 77);
        assert_non_null(strstr(err.message, "empty"));
    }
}

static void command_past_the_longest_is_invalid(void **state)
{
    (void)state;
    const size_t most = STK__COMMAND_MAX;
    char *text = stk__alloc(most + 2);
    assert_non_null(text);
    memset(text, 'x', most + 1);
    text[most] = 0;
    stk__command c = {0};
    stk_error err = {0};
    assert_int_equal(stk__command_split(text, &c, &err), STK_OK);
    assert_int_equal(c.count, 1);
    stk__command_clear(&c);
    text[most] = 'x';
    text[most + 1] = 0;
    assert_int_equal(stk__command_split(text, &c, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "1048576"));
    stk__free(text);
}

static void command_reports_every_failed_allocation(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        stk__command c = {0};
        stk_error err = {0};
        stk__alloc_fail_at(n, true);
        const stk_status status = stk__command_split("some words 'and more'", &c, &err);
        stk__alloc_fail_at(0, false);
        stk__command_clear(&c);
        if (status == STK_OK) {
            assert_true(n > 1);
            return;
        }
        assert_int_equal(status, STK_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(command_of_plain_words_is_split_at_blanks),
        cmocka_unit_test(command_quotes_are_taken_off),
        cmocka_unit_test(command_with_a_meaning_for_the_shell_is_left_to_it),
        cmocka_unit_test(command_characters_without_meaning_in_their_place_are_plain),
        cmocka_unit_test(command_that_only_a_shell_knows_is_left_to_it),
        cmocka_unit_test(command_without_a_word_is_invalid),
        cmocka_unit_test(command_past_the_longest_is_invalid),
        cmocka_unit_test(command_reports_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
