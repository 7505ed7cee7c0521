/* encode_png: what is decoded again is the same. */
#include "pictures.h"

static void png_round_trip_is_exact(void **state)
{
    write_pictures("p", 30, 21, 13);
    assert_same_batches(PICTURES " | batch(4)", PICTURES " | encode_png(image) | decode_image(image) | batch(4)");
    assert_same_batches(PICTURES " | batch(4)",
                        PICTURES " | encode_png(image, level=0) | decode_image(image) | batch(4)");
    assert_same_batches(PICTURES " | grayscale(image, channels=1) | batch(4)",
                        PICTURES " | grayscale(image, channels=1) | encode_png(image) | "
                                 "decode_image(image, channels=1) | batch(4)");
    assert_same_batches("tfrecord(\"$D/p\") | parse(image=bytes) | decode_image(image, channels=4) | batch(4)",
                        "tfrecord(\"$D/p\") | parse(image=bytes) | decode_image(image, channels=4) | "
                        "encode_png(image, 9) | decode_image(image, channels=4) | batch(4)");
}

static void png_is_a_field_of_bytes(void **state)
{
    static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    taken stored, deflated;
    write_pictures("p", 1, 64, 64);
    take_column(PICTURES " | encode_png(image, level=0)", 1, "image", &stored);
    take_column(PICTURES " | encode_png(image)", 1, "image", &deflated);
    assert_int_equal(stored.dtype, STK_BYTES);
    assert_int_equal(stored.ndim, 0);
    assert_memory_equal(stored.data, signature, sizeof signature);
    assert_true(stored.size > 64 * 64 * 3 && deflated.size < 64 * 64);
    taken_clear(&stored);
    taken_clear(&deflated);
}

static void png_goes_into_a_file(void **state)
{
    seen s;
    write_pictures("p", 30, 21, 13);
    run_all(PICTURES " | encode_png(image) | batch(7) | write_tfrecord(\"$D/q\")", NULL, &s);
    seen_clear(&s);
    assert_same_batches(PICTURES " | batch(4)",
                        "tfrecord(\"$D/q\") | parse(image=bytes, label=int64) | decode_image(image) | batch(4)");
}

static void png_refuses(void **state)
{
    write_pictures("p", 2, 4, 4);
    assert_refused(PICTURES " |\nencode_png(image, level=13)", NULL, STK_INVALID, "level", 2, 25);
    assert_refused(PICTURES " |\nencode_png(label)", NULL, STK_INVALID, "wanted an image", 2, 1);
    assert_refused(PICTURES " | cast(image=float32) |\nencode_png(image)", NULL, STK_INVALID, "float32, wanted uint8",
                   2, 1);
    assert_refused(PICTURES " | encode_png(image) |\nencode_png(image)", NULL, STK_INVALID, "holds bytes", 2, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(png_round_trip_is_exact),
        OP_TEST(png_is_a_field_of_bytes),
        OP_TEST(png_goes_into_a_file),
        OP_TEST(png_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
