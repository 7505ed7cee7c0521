/* resize: sizes, proportions, filters, crops and flips behind it. */
#include "pictures.h"

static void resize_to_the_same_size_changes_nothing(void **state)
{
    write_pictures("p", 9, 13, 11);
    assert_same_batches(PICTURES " | resize(image, 11, 13) | batch(4)", PICTURES " | center_crop(image, 11, 13) | batch(4)");
}

/* Red grows by 1 for each pixel: half the size takes the mean of neighbours. */
static void resize_to_half_averages(void **state)
{
    write_pictures("p", 1, 16, 12);
    taken t;
    take_column(PICTURES " | resize(image, 6, 8, filter=area)", 1, "image", &t);
    assert_int_equal(t.size, 6 * 8 * 3);
    for (int k = 0; k < 48; k++) {
        const int red = taken_row(&t, 0)[3 * k], green = taken_row(&t, 0)[3 * k + 1];
        assert_true(red == 2 * (k % 8) || red == 2 * (k % 8) + 1);
        assert_int_equal(green, 4 * (k / 8) + 1);
    }
    taken_clear(&t);
}

static void resize_by_one_number_keeps_the_proportions(void **state)
{
    write_pictures("p", 1, 30, 20);
    taken t;
    take_column(PICTURES " | resize(image, 8) | batch(1, pad=true)", 1, "image", &t);
    assert_int_equal(t.shape[0], 8);
    assert_int_equal(t.shape[1], 12);
    taken_clear(&t);
    write_pictures("p", 1, 20, 31);
    take_column(PICTURES " | resize(image, 10) | batch(1, pad=true)", 1, "image", &t);
    assert_int_equal(t.shape[0], 15);
    assert_int_equal(t.shape[1], 10);
    taken_clear(&t);
}

/* The ops around the resize run as one with it, or apart from it. */
static void check_around(const char *filter, const char *antialias, int width, int height)
{
    static const char *const before = "random_crop(image, 25, 31) | random_flip(image, both)";
    static const char *const after = "random_flip(image, both) | random_crop(image, 9, 9) | normalize(image, mean=3) | layout(image)";
    char one[700], early[700], late[700], resize[100];
    snprintf(resize, sizeof resize, "resize(image, %d, %d, filter=%s, antialias=%s)", height, width, filter, antialias);
    snprintf(one, sizeof one, PICTURES " | %s | %s | %s | batch(5)", before, resize, after);
    snprintf(early, sizeof early, PICTURES " | %s | cache | %s | %s | batch(5)", before, resize, after);
    snprintf(late, sizeof late, PICTURES " | %s | %s | cache | %s | batch(5)", before, resize, after);
    assert_same_batches(one, early);
    assert_same_batches(one, late);
}

static void resize_with_crops_and_flips_around_it_is_exact(void **state)
{
    static const char *const filters[] = {"nearest", "bilinear", "bicubic", "area"};
    static const int sizes[][2] = {{14, 17}, {15, 25}, {37, 45}, {62, 50}};
    write_pictures("p", 12, 37, 29);
    for (size_t i = 0; i < STK_COUNT(filters); i++) {
        for (size_t k = 0; k < STK_COUNT(sizes); k++) {
            check_around(filters[i], "true", sizes[k][0], sizes[k][1]);
            check_around(filters[i], "false", sizes[k][0], sizes[k][1]);
        }
    }
}

static void resize_of_a_padded_image_sees_the_border(void **state)
{
    write_pictures("p", 5, 10, 10);
    assert_same_batches(PICTURES " | pad(image, 3, mode=edge) | resize(image, 20, 20) | batch(5)",
                        PICTURES " | pad(image, 3, mode=edge) | cache | resize(image, 20, 20) | batch(5)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(resize_to_the_same_size_changes_nothing),
        OP_TEST(resize_to_half_averages),
        OP_TEST(resize_by_one_number_keeps_the_proportions),
        OP_TEST(resize_with_crops_and_flips_around_it_is_exact),
        OP_TEST(resize_of_a_padded_image_sees_the_border),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
