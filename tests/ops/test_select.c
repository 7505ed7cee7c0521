/* select: what stays, in which order, what is not even parsed. */
#include "harness.h"

#define SOURCE "tfrecord(\"$D/a-0*\") | take(2) | parse(value=int64, half=float32, name=bytes) | "

static void select_keeps_the_named_fields(void **state)
{
    write_data();
    assert_prints(SOURCE "select(half)", "{\"half\":0}\n{\"half\":0.5}\n");
    assert_prints(SOURCE "select(name, value)", "{\"value\":0, \"name\":\"n0\"}\n{\"value\":1, \"name\":\"n1\"}\n");
    assert_prints(SOURCE "select(fields=[name, half]) | select(name)", "{\"name\":\"n0\"}\n{\"name\":\"n1\"}\n");
    assert_prints(SOURCE "batch(2) | select(\"half\")", "{\"half\":0}\n{\"half\":0.5}\n");
    assert_prints("tfrecord(\"$D/b-0*\") | take(1) | parse(value=int64, name=bytes) | select(value)",
                  "{\"value\":0}\n");
}

/* Fields that nothing uses may even be missing from the records. */
static void select_spares_the_parse_of_the_rest(void **state)
{
    write_data();
    assert_prints("tfrecord(\"$D/a-0*\") | take(1) | parse(value=int64, nothing=int64) | select(value)",
                  "{\"value\":0}\n");
    assert_explains(SOURCE "select(half)", "parse does not make field 'name': nothing uses it");
}

static void select_refuses_unknown_fields(void **state)
{
    assert_refused("range(3) | select()", NULL, STK_INVALID, "fields is missing", 1, 12);
    assert_refused("range(3) | select(valu)", NULL, STK_INVALID, "no field 'valu' here; did you mean 'value'?", 1, 12);
    assert_refused("range(3) | select(completely)", NULL, STK_INVALID, "no field 'completely' here; there is value", 1,
                   12);
    assert_refused("range(3) | select(3)", NULL, STK_INVALID, "fields must be names of fields, got an integer 3", 1,
                   19);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(select_keeps_the_named_fields),
        OP_TEST(select_spares_the_parse_of_the_rest),
        OP_TEST(select_refuses_unknown_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
