/* center_crop: the middle, images that are too small, decoding of the part alone. */
#include "pictures.h"

static void center_crop_takes_the_middle(void **state)
{
    write_pictures("p", 3, 9, 7);
    taken t;
    take_column(PICTURES " | center_crop(image, 3, 5) | batch(3)", 2, "image", &t);
    assert_int_equal(t.ndim, 3);
    assert_int_equal(t.shape[0], 3);
    assert_int_equal(t.shape[1], 5);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3 * 5 * 3; k++)
            assert_int_equal(taken_row(&t, i)[k], picture_sample(i, 2 + k / 3 % 5, 2 + k / 15, k % 3));
    taken_clear(&t);
}

static void center_crop_of_a_small_image_adds_zeros(void **state)
{
    write_pictures("p", 1, 3, 3);
    taken t;
    take_column(PICTURES " | center_crop(image, 7)", 1, "image", &t);
    for (int k = 0; k < 7 * 7 * 3; k++) {
        const int x = k / 3 % 7 - 2, y = k / 21 - 2;
        const bool inside = x >= 0 && y >= 0 && x < 3 && y < 3;
        assert_int_equal(taken_row(&t, 0)[k], inside ? picture_sample(0, x, y, k % 3) : 0);
    }
    taken_clear(&t);
}

static void center_crop_of_crops_and_flips_is_exact(void **state)
{
    write_pictures("p", 20, 40, 30);
    assert_same_batches(PICTURES " | center_crop(image, 21, 33) | random_flip(image, both) | center_crop(image, 10, 9) | batch(7)",
                        PICTURES " | center_crop(image, 21, 33) | random_flip(image, both) | cache | center_crop(image, 10, 9) | batch(7)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(center_crop_takes_the_middle),
        OP_TEST(center_crop_of_a_small_image_adds_zeros),
        OP_TEST(center_crop_of_crops_and_flips_is_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
