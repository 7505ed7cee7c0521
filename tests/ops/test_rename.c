/* rename: new names, swaps by a third, places, errors. */
#include "harness.h"

#define SOURCE "tfrecord(\"$D/a-0*\") | take(1) | parse(value=int64, name=bytes) | "

static void rename_gives_other_names(void **state)
{
    write_data();
    assert_prints("range(2) | rename(number=value)", "{\"number\":0}\n{\"number\":1}\n");
    assert_prints("range(2) | rename(number=\"value\") | batch(2)", "{\"number\":0}\n{\"number\":1}\n");
    assert_prints(SOURCE "rename(t=value) | rename(value=name, name=t)", "{\"name\":0, \"value\":\"n0\"}\n");
    assert_prints(SOURCE "batch(4) | rename(id=value)", "{\"id\":0, \"name\":\"n0\"}\n");
    assert_prints("range(2) | rename(value=value)", "{\"value\":0}\n{\"value\":1}\n");
}

static void rename_is_seen_by_what_follows(void **state)
{
    assert_prints("range(5) | rename(x=value) | filter(\"x > 3\") | cast(x=float32)", "{\"x\":4}\n");
    assert_prints("range(2) | cast(value=float32) | rename(x=value)", "{\"x\":0}\n{\"x\":1}\n");
}

static void rename_refuses_what_clashes(void **state)
{
    write_data();
    assert_refused("range(3) | rename()", NULL, STK_INVALID, "fields is missing", 1, 12);
    assert_refused("range(3) | rename(x=valu)", NULL, STK_INVALID, "no field 'valu' here; did you mean 'value'?", 1,
                   12);
    assert_refused("range(3) | rename(x=4)", NULL, STK_INVALID, "'x' must be the name of a field", 1, 12);
    assert_refused("tfrecord(\"$D/a-0*\") |\nparse(value=int64, name=bytes) |\nrename(value=name)", NULL, STK_INVALID,
                   "a field 'value' exists already", 3, 1);
    assert_refused("range(3) | rename(x=value) | filter(\"value > 2\")", NULL, STK_INVALID,
                   "no field 'value' here; there is x", 1, 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(rename_gives_other_names),
        OP_TEST(rename_is_seen_by_what_follows),
        OP_TEST(rename_refuses_what_clashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
