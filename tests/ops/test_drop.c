/* drop: what goes, what is not even parsed, and that something must stay. */
#include "harness.h"

#define SOURCE "tfrecord(\"$D/a-0*\") | take(2) | parse(value=int64, half=float32, name=bytes) | "

static void drop_leaves_out_the_named_fields(void **state)
{
    write_data();
    assert_prints(SOURCE "drop(half, name)", "{\"value\":0}\n{\"value\":1}\n");
    assert_prints(SOURCE "drop([half]) | drop(value)", "{\"name\":\"n0\"}\n{\"name\":\"n1\"}\n");
    assert_prints(SOURCE "batch(2) | drop(\"value\", \"name\")", "{\"half\":0}\n{\"half\":0.5}\n");
    assert_explains(SOURCE "batch(2) | drop(half)", "drop moved before batch");
    assert_explains(SOURCE "drop(half)", "parse does not make field 'half': nothing uses it");
}

static void drop_refuses_unknown_fields_and_dropping_all(void **state)
{
    assert_refused("range(3) | drop()", NULL, STK_INVALID, "fields is missing", 1, 12);
    assert_refused("range(3) | drop(vlaue)", NULL, STK_INVALID, "no field 'vlaue' here; did you mean 'value'?", 1, 12);
    assert_refused("range(3) | drop(value, value)", NULL, STK_INVALID, "no field 'value' here; there is none", 1, 12);
    assert_refused("range(3) | drop(value)", NULL, STK_INVALID, "the pipeline ends with no field", 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(drop_leaves_out_the_named_fields),
        OP_TEST(drop_refuses_unknown_fields_and_dropping_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
