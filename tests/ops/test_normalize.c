/* normalize: values, channels, types, together with cast and layout. */
#include "pictures.h"

static void normalize_subtracts_and_divides(void **state)
{
    write_pictures("p", 3, 4, 3);
    taken t;
    take_column(PICTURES " | center_crop(image, 3, 4) | normalize(image, mean=[1, 2, 3], std=[2, 4, 0.5]) | batch(3)", 2, "image", &t);
    static const float mean[3] = {1, 2, 3}, std[3] = {2, 4, 0.5f};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 36; k++)
            assert_true(taken_floats(&t, i)[k] == ((float)picture_sample(i, k / 3 % 4, k / 12, k % 3) - mean[k % 3]) / std[k % 3]);
    taken_clear(&t);
}

static void normalize_of_floats_is_the_same(void **state)
{
    write_pictures("p", 20, 6, 5);
    assert_same_batches(PICTURES " | center_crop(image, 5, 6) | normalize(image, mean=[125.3, 123, 113.9], std=[63, 62.1, 66.7]) | batch(6)",
                        PICTURES " | center_crop(image, 5, 6) | cast(image=float32) | cache | "
                                 "normalize(image, mean=[125.3, 123, 113.9], std=[63, 62.1, 66.7]) | batch(6)");
}

static void normalize_cast_and_layout_run_as_one(void **state)
{
    write_pictures("p", 20, 6, 5);
    static const char *const types[] = {"float16", "bfloat16"};
    for (size_t i = 0; i < STK_COUNT(types); i++) {
        char one[400], split[400];
        snprintf(one, sizeof one, PICTURES " | center_crop(image, 5, 6) | normalize(image, mean=9, std=7) | cast(image=%s) | layout(image, CHW) | batch(6)",
                 types[i]);
        snprintf(split, sizeof split, PICTURES " | center_crop(image, 5, 6) | normalize(image, mean=9, std=7) | cache | cast(image=%s) | layout(image, CHW) | batch(6)",
                 types[i]);
        assert_same_batches(one, split);
    }
    assert_explains(PICTURES " | normalize(image, mean=9) | cast(image=float16) | layout(image) | batch(2)",
                    "decode_image+normalize+cast+layout run as one");
}

static void normalize_refuses_what_does_not_fit(void **state)
{
    write_pictures("p", 1, 4, 4);
    assert_fails(PICTURES " | normalize(image, mean=[1, 2])", NULL, STK_INVALID, "mean has 2 numbers, wanted 1 or 3");
    assert_fails(PICTURES " | normalize(image, std=0)", NULL, STK_INVALID, "std is 0, wanted more than 0");
    assert_fails(PICTURES " | cast(image=int32) | normalize(image)", NULL, STK_INVALID, "is int32, wanted uint8 or float32");
    assert_fails(PICTURES " | center_crop(image, 6, 6) | layout(image) | normalize(image)", NULL, STK_INVALID, "put layout after this");
    assert_fails(PICTURES " | normalize(image) | resize(image, 2, 2)", NULL, STK_INVALID, "put normalize and cast after this");
}

static void normalize_takes_the_usual_numbers_with_a_scale(void **state)
{
    write_pictures("p", 6, 9, 8);
    assert_same_batches(
        PICTURES " | normalize(image, mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375]) | batch(6)",
        PICTURES " | normalize(image, mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225], scale=255) | batch(6)");
    assert_same_batches(PICTURES " | normalize(image, std=255) | batch(6)", PICTURES " | normalize(image, scale=255) | batch(6)");
    assert_fails(PICTURES " | normalize(image, mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])", NULL, STK_INVALID,
                 "mean and std are those of pixels of 0 to 1, but field 'image' is uint8, 0 to 255: add scale=255, or say "
                 "mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375]");
    assert_fails(PICTURES " | normalize(image, mean=0.5, std=0.5)", NULL, STK_INVALID, "or say mean=127.5, std=127.5");
    assert_fails(PICTURES " | normalize(image, mean=0.5)", NULL, STK_INVALID, "or say mean=127.5, std=255");
    assert_fails(PICTURES " | normalize(image, mean=123.7, std=58, scale=255)", NULL, STK_INVALID,
                 "mean is 123.7 with scale=255, but pixels of uint8 go up to 255");
    /* No change but the type, and pixels that are 0 to 1 already. */
    assert_same_batches(PICTURES " | cast(image=float32) | batch(6)", PICTURES " | normalize(image, mean=0, std=1) | batch(6)");
    assert_same_batches(PICTURES " | cast(image=float32) | batch(6)",
                        PICTURES " | normalize(image, mean=[0, 0, 0], std=[1, 1, 1]) | batch(6)");
    taken t;
    take_column(PICTURES " | normalize(image, scale=255) | cache | normalize(image, mean=0.5, std=0.5) | batch(6)", 1, "image", &t);
    for (int64_t i = 0; i < (int64_t)(t.size / 4); i++)
        assert_true(((const float *)(const void *)t.data)[i] >= -1 && ((const float *)(const void *)t.data)[i] <= 1);
    taken_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(normalize_subtracts_and_divides),
        OP_TEST(normalize_of_floats_is_the_same),
        OP_TEST(normalize_cast_and_layout_run_as_one),
        OP_TEST(normalize_refuses_what_does_not_fit),
        OP_TEST(normalize_takes_the_usual_numbers_with_a_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
