/* encode_jpeg: what is decoded again is nearly the same; quality and subsampling have their effect. */
#include "pictures.h"

#include <stdlib.h>

static void jpeg_round_trip_is_close(void **state)
{
    taken t;
    write_pictures("p", 20, 32, 24);
    take_column(PICTURES " | encode_jpeg(image, quality=98, subsampling=444) | "
                         "decode_image(image, exact=true) | center_crop(image, 24, 32) | batch(4)",
                3, "image", &t);
    assert_int_equal(t.shape[0], 24);
    assert_int_equal(t.shape[1], 32);
    for (int i = 0; i < 20; i++)
        for (int k = 0; k < 32 * 24 * 3; k++)
            assert_true(abs(taken_row(&t, i)[k] - picture_sample(i, k / 3 % 32, k / 3 / 32, k % 3)) <= 8);
    taken_clear(&t);
}

static void jpeg_of_gray_is_close(void **state)
{
    taken in, out;
    write_pictures("p", 5, 32, 24);
    take_column(PICTURES " | grayscale(image, channels=1) | batch(5)", 1, "image", &in);
    take_column(PICTURES " | grayscale(image, channels=1) | encode_jpeg(image, 98) | "
                         "decode_image(image, channels=1) | batch(5)",
                1, "image", &out);
    assert_int_equal(in.size, out.size);
    for (size_t k = 0; k < in.size; k++)
        assert_true(abs(in.data[k] - out.data[k]) <= 4);
    taken_clear(&in);
    taken_clear(&out);
}

static size_t size_of(const char *options)
{
    taken t;
    char text[256];
    snprintf(text, sizeof text, PICTURES " | gaussian_blur(image, 3) | encode_jpeg(image, %s)", options);
    take_column(text, 1, "image", &t);
    assert_true(t.data[0] == 0xff && t.data[1] == 0xd8);
    assert_int_equal(t.dtype, STK_BYTES);
    const size_t size = t.size;
    taken_clear(&t);
    return size;
}

static void jpeg_quality_and_subsampling_change_the_size(void **state)
{
    write_pictures("p", 30, 200, 160); /* samples wrap, so there are edges in it */
    const size_t usual = size_of("quality=90");
    assert_true(size_of("quality=30") < usual);
    assert_true(size_of("quality=90, subsampling=444") > size_of("quality=90, subsampling=422"));
    assert_true(size_of("quality=90, subsampling=422") > usual);
}

static void jpeg_is_the_same_with_any_threads(void **state)
{
    write_pictures("p", 30, 21, 13);
    assert_same_with_any_threads(PICTURES " | encode_jpeg(image) | batch(4)");
}

static void jpeg_refuses(void **state)
{
    write_pictures("p", 2, 4, 4);
    assert_refused(PICTURES " |\nencode_jpeg(image, subsampling=421)", NULL, STK_INVALID,
                   "subsampling is 421, wanted 420, 422 or 444", 2, 1);
    assert_refused(PICTURES " |\nencode_jpeg(image, 101)", NULL, STK_INVALID, "quality", 2, 20);
    assert_refused("tfrecord(\"$D/p\") | parse(image=bytes) | decode_image(image, channels=4) |\nencode_jpeg(image)",
                   NULL, STK_INVALID, "has 4 channels, wanted 1 or 3", 2, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(jpeg_round_trip_is_close),
        OP_TEST(jpeg_of_gray_is_close),
        OP_TEST(jpeg_quality_and_subsampling_change_the_size),
        OP_TEST(jpeg_is_the_same_with_any_threads),
        OP_TEST(jpeg_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
