/* pad: borders of every kind, sides, types, shapes, errors. */
#include "pictures.h"

/* The whole run as one image of w x h pixels, for picture 0. */
static void assert_pixel(const taken *t, int width, int x, int y, int c, int wanted)
{
    const int found = taken_row(t, 0)[(y * width + x) * 3 + c];
    if (found != wanted)
        fail_msg("pixel (%d, %d), channel %d is %d, wanted %d", x, y, c, found, wanted);
}

static void pad_reflects_the_inside_without_its_edge(void **state)
{
    write_pictures("p", 1, 6, 5);
    taken t;
    take_column(PICTURES " | pad(image, 2, mode=reflect)", 1, "image", &t);
    assert_int_equal(t.size, 10 * 9 * 3);
    assert_pixel(&t, 10, 0, 0, 0, picture_sample(0, 2, 2, 0));
    assert_pixel(&t, 10, 1, 0, 1, picture_sample(0, 1, 2, 1));
    assert_pixel(&t, 10, 2, 2, 0, picture_sample(0, 0, 0, 0));
    assert_pixel(&t, 10, 9, 8, 0, picture_sample(0, 3, 2, 0));
    assert_pixel(&t, 10, 9, 8, 1, picture_sample(0, 3, 2, 1));
    taken_clear(&t);
}

static void pad_reflects_to_and_fro_over_small_images(void **state)
{
    write_pictures("p", 1, 2, 1);
    taken t;
    take_column(PICTURES " | pad(image, [5, 0], mode=reflect)", 1, "image", &t);
    static const int columns[12] = {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0};
    for (int x = 0; x < 12; x++)
        assert_pixel(&t, 12, x, 0, 0, columns[x]);
    taken_clear(&t);
}

static void pad_repeats_the_edge_and_fills_a_constant(void **state)
{
    write_pictures("p", 1, 6, 5);
    taken t;
    take_column(PICTURES " | pad(image, [1, 2, 3, 4], mode=edge)", 1, "image", &t);
    assert_int_equal(t.size, 10 * 11 * 3);
    assert_pixel(&t, 10, 0, 0, 0, picture_sample(0, 0, 0, 0));
    assert_pixel(&t, 10, 9, 10, 0, picture_sample(0, 5, 4, 0));
    assert_pixel(&t, 10, 9, 10, 1, picture_sample(0, 5, 4, 1));
    taken_clear(&t);
    take_column(PICTURES " | pad(image, 1, fill=77)", 1, "image", &t);
    assert_pixel(&t, 8, 0, 3, 2, 77);
    assert_pixel(&t, 8, 1, 1, 0, 0);
    assert_pixel(&t, 8, 7, 6, 0, 77);
    taken_clear(&t);
}

static void pad_of_a_crop_shows_the_border_not_what_was_cut_off(void **state)
{
    write_pictures("p", 1, 8, 8);
    taken t;
    take_column(PICTURES " | center_crop(image, 4, 4) | pad(image, 1, fill=9)", 1, "image", &t);
    assert_pixel(&t, 6, 0, 0, 0, 9);
    assert_pixel(&t, 6, 1, 1, 0, picture_sample(0, 2, 2, 0));
    assert_pixel(&t, 6, 5, 5, 0, 9);
    taken_clear(&t);
}

static void pad_works_on_floats(void **state)
{
    write_pictures("p", 1, 2, 2);
    taken t;
    take_column(PICTURES " | resize(image, 2, 2) | normalize(image) | pad(image, 1, fill=-1.5)", 1, "image", &t);
    const float *f = taken_floats(&t, 0);
    assert_true(f[0] == -1.5f && f[(1 * 4 + 1) * 3] == 0 && f[(1 * 4 + 2) * 3] == 1 && f[(3 * 4 + 3) * 3] == -1.5f);
    taken_clear(&t);
}

static void pad_refuses_bad_sizes(void **state)
{
    write_pictures("p", 1, 4, 4);
    assert_fails(PICTURES " | pad(image)", NULL, STK_INVALID, "size has 0 numbers");
    assert_fails(PICTURES " | pad(image, [1, 2, 3])", NULL, STK_INVALID, "size has 3 numbers");
    assert_fails(PICTURES " | pad(image, -1)", NULL, STK_INVALID, "size is -1");
    assert_fails(PICTURES " | pad(image, 4.5)", NULL, STK_INVALID, "a whole number of pixels");
    assert_fails(PICTURES " | pad(label, 1)", NULL, STK_INVALID, "0 dimensions, wanted an image");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(pad_reflects_the_inside_without_its_edge),
        OP_TEST(pad_reflects_to_and_fro_over_small_images),
        OP_TEST(pad_repeats_the_edge_and_fills_a_constant),
        OP_TEST(pad_of_a_crop_shows_the_border_not_what_was_cut_off),
        OP_TEST(pad_works_on_floats),
        OP_TEST(pad_refuses_bad_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
