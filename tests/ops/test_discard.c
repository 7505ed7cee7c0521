/* discard: takes everything and leaves nothing. */
#include "harness.h"

static void discard_takes_every_batch(void **state)
{
    seen s;
    run_all("range(10) | batch(4) | discard", NULL, &s);
    assert_int_equal(s.count, 3);
    assert_int_equal(s.value_count, 10);
    assert_int_equal(s.lines.length, 0);
    assert_int_equal(s.stats.samples, 10);
    seen_clear(&s);
}

static void discard_makes_a_pipeline_have_a_sink(void **state)
{
    stk_pipeline *p;
    assert_int_equal(try_open("range(3) | discard", NULL, &p, NULL), STK_OK);
    assert_true(stk_pipeline_has_sink(p));
    stk_pipeline_close(p);
    assert_int_equal(try_open("range(3)", NULL, &p, NULL), STK_OK);
    assert_false(stk_pipeline_has_sink(p));
    assert_int_equal(stk_pipeline_finish(p, NULL), STK_OK);
    stk_pipeline_close(p);
}

static void discard_refuses_options_and_places(void **state)
{
    assert_refused("range(3) | discard(3)", NULL, STK_INVALID, "too many arguments: number 1", 1, 20);
    assert_refused("range(3) | discard(quick=true)", NULL, STK_INVALID, "no option 'quick'; it takes none", 1, 20);
    assert_refused("range(3) | discard | batch(2)", NULL, STK_INVALID, "is a sink: it can only come last", 1, 12);
    assert_refused("range(3) | discard | discard", NULL, STK_INVALID, "is a sink: it can only come last", 1, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(discard_takes_every_batch),
        OP_TEST(discard_makes_a_pipeline_have_a_sink),
        OP_TEST(discard_refuses_options_and_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
