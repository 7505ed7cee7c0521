/* Values of parameters: lists, ranges up and down, exact decimals, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "bench/scan.h"

/* `wanted` has the values with a blank behind each. */
static void gives(const char *text, const char *wanted)
{
    stk__scan s = {0};
    stk_error err;
    stk_error_clear(&err);
    if (stk__scan_read(text, &s, &err) != STK_OK)
        fail_msg("%s: %s", text, err.message);
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, "");
    for (size_t i = 0; i < s.count; i++)
        stk__text_printf(&t, "%s ", s.values[i]);
    assert_string_equal(t.data, wanted);
    stk__text_clear(&t);
    stk__scan_clear(&s);
}

static void refuses(const char *text, const char *part)
{
    stk__scan s = {0};
    stk_error err;
    stk_error_clear(&err);
    assert_int_not_equal(stk__scan_read(text, &s, &err), STK_OK);
    if (!strstr(err.message, part))
        fail_msg("'%s' is not in '%s'", part, err.message);
    assert_null(s.values);
}

static void list_is_split_at_commas(void **state)
{
    gives("1,2,4", "1 2 4 ");
    gives("lazy", "lazy ");
    gives("a b,c", "a b c ");
    gives("a\\,b,c", "a,b c ");
    gives("C:\\x,\\d+", "C:\\x \\d+ ");
    gives("'',-O2", " -O2 ");
    gives("-O2,\"\"", "-O2  ");
}

static void range_counts_up_and_down_with_its_end(void **state)
{
    gives("1..3", "1 2 3 ");
    gives("3..1", "3 2 1 ");
    gives("-1..1", "-1 0 1 ");
    gives("5..5", "5 ");
    gives("1..10..3", "1 4 7 10 ");
    gives("1..9..3", "1 4 7 ");
    gives("10..1..3", "10 7 4 1 ");
    gives("10..1..-3", "10 7 4 1 ");
    gives("1000:3000:1000", "1000 2000 3000 ");
    gives("3000:1000:1000", "3000 2000 1000 ");
    gives("1..3,8,16..18", "1 2 3 8 16 17 18 ");
    gives("08..11", "08 09 10 11 ");
}

static void decimals_have_no_rounding_dirt(void **state)
{
    gives("0.1:0.5:0.1", "0.1 0.2 0.3 0.4 0.5 ");
    gives("0:1:0.25", "0 0.25 0.5 0.75 1 ");
    gives("0.5..-0.5..0.5", "0.5 0 -0.5 ");
    gives("-0.2..0.1..0.1", "-0.2 -0.1 0 0.1 ");
    gives("1.05:1.15:0.05", "1.05 1.1 1.15 ");
    gives("0.000001:0.000003:0.000001", "0.000001 0.000002 0.000003 ");
    gives("999999999999..999999999998", "999999999999 999999999998 ");
}

static void what_is_no_range_stays_text(void **state)
{
    gives("v1..v2", "v1..v2 ");
    gives("main..dev", "main..dev ");
    gives("../a", "../a ");
    gives("1..", "1.. ");
    gives("..3", "..3 ");
    gives("1...3", "1...3 ");
    gives("host:80", "host:80 ");
    gives("1.2.3", "1.2.3 ");
    gives("1:2:3:4", "1:2:3:4 ");
    gives("\\1..3", "1..3 ");
    gives("\\00:01:30,x", "00:01:30 x ");
    gives("1e3..2e3", "1e3..2e3 ");
}

static void text_that_looks_like_a_range_is_doubtful(void **state)
{
    stk__scan s = {0};
    assert_int_equal(stk__scan_read("x,1:3", &s, NULL), STK_OK);
    assert_int_equal(s.count, 2);
    assert_int_equal(s.doubtful, 2);
    stk__scan_clear(&s);
    assert_int_equal(stk__scan_read("a:3", &s, NULL), STK_OK);
    assert_int_equal(s.doubtful, 0);
    stk__scan_clear(&s);
}

static void typos_are_told(void **state)
{
    refuses("", "value 1 is empty");
    refuses("1,,2", "value 2 is empty; write ''");
    refuses("1,2,", "value 3 is empty");
    refuses("1,2,1", "the value '1' is there twice");
    refuses("1..3,2", "the value '2' is there twice");
    refuses("'',\"\"", "twice");
    refuses("1..3..0", "a step of 0");
    refuses("1..3..-1", "goes up, and its step down");
    refuses("1:2:10", "wider than itself; wanted START:STOP:STEP");
    refuses("0.1..0.5", "wider than itself");
    refuses("1..1234567890123", "more than 12 digits");
    refuses("0..1..0.0000001", "6 behind the point");
    refuses("1..1001", "'1..1001' has 1001 values, wanted at most 1000");
    refuses("0..999999999999..0.000001", "has 999999999999000001 values");
    refuses("1..1000,x", "more than 1000 values");
}

static void every_failed_allocation_is_told(void **state)
{
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        stk__scan s = {0};
        stk__alloc_fail_at(n, false);
        const stk_status status = stk__scan_read("1..3,x,''", &s, NULL);
        stk__alloc_fail_at(0, false);
        done = status == STK_OK;
        assert_true(done || (status == STK_NOMEM && !s.values));
        assert_true(!done || n > 5);
        stk__scan_clear(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list_is_split_at_commas),
        cmocka_unit_test(range_counts_up_and_down_with_its_end),
        cmocka_unit_test(decimals_have_no_rounding_dirt),
        cmocka_unit_test(what_is_no_range_stays_text),
        cmocka_unit_test(text_that_looks_like_a_range_is_doubtful),
        cmocka_unit_test(typos_are_told),
        cmocka_unit_test(every_failed_allocation_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
