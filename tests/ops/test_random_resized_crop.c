/* random_resized_crop: areas and shapes as asked for, ends of the ranges, errors. */
#include <math.h>

#include "pictures.h"

/* Red is x and green 2 y: from the corners of the result follows which part it shows. */
static void part_of(const uint8_t *p, int size, double *width, double *height)
{
    const int last = size - 1;
    *width = (double)(p[last * 3] - p[0]) * size / (size - 1);
    *height = (double)(p[last * size * 3 + 1] - p[1]) / 2 * size / (size - 1);
}

static void random_resized_crop_draws_areas_and_ratios(void **state)
{
    enum { N = 2000, SIZE = 40 };
    write_pictures("p", 1, 120, 90);
    taken t;
    take_column(PICTURES " | repeat(2000) | random_resized_crop(image, 40, 40, scale=[0.2, 0.6]) | batch(50)", 2, "image", &t);
    int64_t small = 0, wide = 0;
    for (int i = 0; i < N; i++) {
        double width, height;
        part_of(taken_row(&t, i), SIZE, &width, &height);
        const double area = width * height / (120 * 90), ratio = width / height;
        if (area < 0.15 || area > 0.66 || ratio < 0.68 || ratio > 1.48)
            fail_msg("a part of %g x %g pixels", width, height);
        small += area < 0.4;
        wide += ratio > 1;
    }
    /* Parts that do not fit are drawn again, which happens to large ones alone; so a few more are small. */
    assert_true(small > 900 && small < 1150);
    assert_true(wide > 850 && wide < 1150);
    taken_clear(&t);
}

static void random_resized_crop_of_the_whole_is_a_resize(void **state)
{
    write_pictures("p", 8, 24, 24);
    assert_same_batches(PICTURES " | random_resized_crop(image, 12, 12, scale=[1, 1], ratio=[1, 1]) | batch(4)",
                        PICTURES " | resize(image, 12, 12) | batch(4)");
}

static void random_resized_crop_takes_the_middle_when_nothing_fits(void **state)
{
    write_pictures("p", 3, 60, 2);
    assert_same_batches(PICTURES " | random_resized_crop(image, 6, 6, scale=[0.9, 1], ratio=[1, 1]) | batch(4)",
                        PICTURES " | center_crop(image, 2, 2) | resize(image, 6, 6) | batch(4)");
}

static void random_resized_crop_refuses_bad_ranges(void **state)
{
    write_pictures("p", 1, 8, 8);
    assert_fails(PICTURES " | random_resized_crop(image, 4, 4, scale=[0.5])", NULL, STK_INVALID, "scale has 1 numbers");
    assert_fails(PICTURES " | random_resized_crop(image, 4, 4, scale=[0.5, 1.1])", NULL, STK_INVALID, "<= 1");
    assert_fails(PICTURES " | random_resized_crop(image, 4, 4, ratio=[2, 1])", NULL, STK_INVALID, "low <= high");
}

static void random_resized_crop_is_the_same_with_any_threads_and_when_split(void **state)
{
    write_pictures("p", 30, 50, 40);
    assert_same_with_any_threads(PICTURES " | random_resized_crop(image, 16, 12) | repeat(2) | batch(7)");
    assert_same_batches(PICTURES " | random_resized_crop(image, 16, 12) | random_flip(image) | normalize(image, mean=2) | batch(7)",
                        PICTURES " | cache | random_resized_crop(image, 16, 12) | random_flip(image) | normalize(image, mean=2) | batch(7)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(random_resized_crop_draws_areas_and_ratios),
        OP_TEST(random_resized_crop_of_the_whole_is_a_resize),
        OP_TEST(random_resized_crop_takes_the_middle_when_nothing_fits),
        OP_TEST(random_resized_crop_refuses_bad_ranges),
        OP_TEST(random_resized_crop_is_the_same_with_any_threads_and_when_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
