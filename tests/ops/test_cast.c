/* cast: types, saturation, places, errors. */
#include "harness.h"

static void cast_changes_types(void **state)
{
    assert_prints("range(3) | cast(value=float32)", "{\"value\":0}\n{\"value\":1}\n{\"value\":2}\n");
    assert_prints("range(2) | cast(value=bool)", "{\"value\":false}\n{\"value\":true}\n");
    assert_prints("range(2) | cast(value=float32) | cast(value=float16) | cast(value=int8)",
                  "{\"value\":0}\n{\"value\":1}\n");
    write_data();
    assert_prints(
        "tfrecord(\"$D/a-0*\") | take(4) | parse(half=float32, pair=float32[2]) | cast(half=int64, pair=int32) | skip(3)",
        "{\"half\":1, \"pair\":[3, -3]}\n");
}

static void cast_takes_the_nearest_value(void **state)
{
    assert_prints("range(600, start=254) | take(3) | cast(value=uint8)",
                  "{\"value\":254}\n{\"value\":255}\n{\"value\":255}\n");
    assert_prints("range(-300, start=-128, step=-2) | take(2) | cast(value=int8)",
                  "{\"value\":-128}\n{\"value\":-128}\n");
    assert_prints("range(0, start=-1) | cast(value=uint64)", "{\"value\":0}\n");
}

static void cast_of_a_float16_keeps_what_fits(void **state)
{
    assert_prints("range(2050, start=2048) | cast(value=float16)", "{\"value\":2048}\n{\"value\":2048}\n");
    assert_prints("range(70001, start=70000) | cast(value=float16)", "{\"value\":\"Infinity\"}\n");
    assert_prints("range(258, start=257) | cast(value=bfloat16)", "{\"value\":256}\n");
}

static void assert_same(const char *a, const char *b)
{
    seen x, y;
    run_all(a, NULL, &x);
    run_all(b, NULL, &y);
    assert_seen_equal(&x, 0, &y, b);
    seen_clear(&x);
    seen_clear(&y);
}

static void cast_after_batch_is_the_same(void **state)
{
    write_data();
    assert_same("range(9) | cast(value=float32) | batch(4)", "range(9) | batch(4) | cast(value=float32)");
    assert_same("tfrecord(\"$D/a-*\") | parse(many=int64[]) | cast(many=int16) | batch(4)",
                "tfrecord(\"$D/a-*\") | parse(many=int64[]) | batch(4) | cast(many=int16)");
    assert_explains("range(9) | batch(4) | cast(value=float32)", "exact        cast moved before batch");
}

static void cast_of_a_ragged_field_in_a_stream(void **state)
{
    write_data();
    assert_prints("tfrecord(\"$D/b-0*\") | skip(4) | take(2) | parse(many=int64[]) | cast(many=uint8)",
                  "{\"many\":[4]}\n{\"many\":[5, 6]}\n");
}

static void cast_of_a_field_nobody_uses_is_left_out(void **state)
{
    write_data();
    assert_explains("tfrecord(\"$D/a-*\") | parse(value=int64, half=float32) | cast(half=float16) | drop(half)",
                    "cast is left out");
}

static void cast_refuses_bad_types(void **state)
{
    write_data();
    assert_refused("range(9) | cast()", NULL, STK_INVALID, "fields is missing", 1, 12);
    assert_refused("range(9) | cast(value=float33)", NULL, STK_INVALID, "field 'value' must be cast to a number type",
                   1, 23);
    assert_refused("range(9) | cast(value=bytes)", NULL, STK_INVALID, "cannot be cast to bytes", 1, 23);
    assert_refused("range(9) | cast(valve=int8)", NULL, STK_INVALID, "no field 'valve' here; did you mean 'value'?", 1,
                   12);
    assert_refused("range(9) | cast(value=int8, value=int16)", NULL, STK_INVALID, "'value' is given twice", 1, 29);
    assert_refused("text(\"$D/lines.txt\") |\ncast(text=int8)", NULL, STK_INVALID,
                   "field 'text' is bytes, which cannot be cast to int8", 2, 11);
}

static void cast_turns_lists_of_uint8_into_bytes_and_back(void **state)
{
    write_data();
    assert_prints("tfrecord(\"$D/a-0*\") | parse(name=bytes) | take(1) | cast(name=uint8)", "{\"name\":[110, 48]}\n");
    assert_prints("tfrecord(\"$D/a-0*\") | parse(name=bytes) | take(2) | cast(name=uint8) | cast(name=bytes)",
                  "{\"name\":\"n0\"}\n{\"name\":\"n1\"}\n");
    assert_fails("tfrecord(\"$D/a-0*\") | parse(words=bytes[]) | cast(words=uint8)", NULL, STK_INVALID, "lists of uint8");
    assert_fails("range(3) | cast(value=bytes)", NULL, STK_INVALID, "cannot be cast to bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(cast_changes_types),
        OP_TEST(cast_takes_the_nearest_value),
        OP_TEST(cast_turns_lists_of_uint8_into_bytes_and_back),
        OP_TEST(cast_of_a_float16_keeps_what_fits),
        OP_TEST(cast_after_batch_is_the_same),
        OP_TEST(cast_of_a_ragged_field_in_a_stream),
        OP_TEST(cast_of_a_field_nobody_uses_is_left_out),
        OP_TEST(cast_refuses_bad_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
