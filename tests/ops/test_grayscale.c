/* grayscale: luma, channels, chance. */
#include "pictures.h"

#include "kernels/color.h"

static uint8_t luma_at(int i, int x, int y)
{
    return stk__luma(picture_sample(i, x, y, 0), picture_sample(i, x, y, 1), picture_sample(i, x, y, 2));
}

static void grayscale_makes_all_channels_luma(void **state)
{
    taken t;
    write_pictures("p", 30, 11, 5);
    take_column(PICTURES " | grayscale(image) | batch(4)", 3, "image", &t);
    assert_int_equal(t.shape[2], 3);
    for (int i = 0; i < 30; i++)
        for (int k = 0; k < 11 * 5 * 3; k++)
            assert_int_equal(taken_row(&t, i)[k], luma_at(i, k / 3 % 11, k / 3 / 11));
    taken_clear(&t);
}

static void grayscale_leaves_one_channel(void **state)
{
    taken t;
    write_pictures("p", 30, 11, 5);
    take_column(PICTURES " | grayscale(image, channels=1) | batch(4)", 3, "image", &t);
    assert_int_equal(t.shape[2], 1);
    for (int i = 0; i < 30; i++)
        for (int k = 0; k < 11 * 5; k++)
            assert_int_equal(taken_row(&t, i)[k], luma_at(i, k % 11, k / 11));
    taken_clear(&t);
}

static void grayscale_keeps_alpha(void **state)
{
    taken t;
    write_pictures("p", 3, 11, 5);
    take_column(
        "tfrecord(\"$D/p\") | parse(image=bytes) | decode_image(image, channels=4) | grayscale(image) | batch(3)", 1,
        "image", &t);
    for (int k = 0; k < 11 * 5; k++) {
        assert_int_equal(taken_row(&t, 2)[4 * k + 1], luma_at(2, k % 11, k / 11));
        assert_int_equal(taken_row(&t, 2)[4 * k + 3], 255);
    }
    taken_clear(&t);
}

static void grayscale_is_drawn_with_p(void **state)
{
    taken t;
    int64_t gray = 0;
    write_pictures("p", 1000, 4, 4);
    take_column(PICTURES " | grayscale(image, p=0.2) | batch(64)", 2, "image", &t);
    for (int i = 0; i < 1000; i++) {
        const uint8_t *last = taken_row(&t, i) + 45; /* its channels differ in every picture but few */
        gray += last[0] == last[1] && last[1] == last[2];
        assert_true(last[0] == luma_at(i, 3, 3) || last[0] == picture_sample(i, 3, 3, 0));
    }
    assert_about(gray, 1000, 0.2);
    taken_clear(&t);
}

static void grayscale_fused_is_the_same(void **state)
{
    write_pictures("p", 30, 11, 5);
    assert_fused_is_the_same("grayscale(image, p=0.5)");
    assert_fused_is_the_same(
        "random_flip(image) | grayscale(image, channels=1) | random_flip(image, vertical) | normalize(image, 100, 50)");
}

static void grayscale_refuses(void **state)
{
    write_pictures("p", 2, 4, 4);
    assert_refused(PICTURES " |\ngrayscale(image, channels=1, p=0.5)", NULL, STK_INVALID, "channels=1 with p=0.5", 2,
                   1);
    assert_refused(PICTURES " |\ngrayscale(image, channels=2)", NULL, STK_INVALID, "channels is 2, wanted 1 or 3", 2,
                   1);
    assert_refused(PICTURES " | grayscale(image, channels=1) |\ngrayscale(image)", NULL, STK_INVALID,
                   "has 1 channels, wanted 3 or 4", 2, 1);
    assert_refused(PICTURES " | normalize(image) |\ngrayscale(image)", NULL, STK_INVALID, "float32, wanted uint8", 2,
                   1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(grayscale_makes_all_channels_luma),
        OP_TEST(grayscale_leaves_one_channel),
        OP_TEST(grayscale_keeps_alpha),
        OP_TEST(grayscale_is_drawn_with_p),
        OP_TEST(grayscale_fused_is_the_same),
        OP_TEST(grayscale_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
