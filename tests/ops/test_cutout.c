/* cutout: one rectangle, cut at the edges, before and behind normalize, evenly spread. */
#include "pictures.h"

/* Where the zeros of an 8 x 8 float image of ones are; checks that they fill a rectangle. */
static void find_hole(const float *p, int *x0, int *y0, int *x1, int *y1)
{
    *x0 = *y0 = 8;
    *x1 = *y1 = 0;
    int zeros = 0;
    for (int y = 0; y < 8; y++) {
        for (int x = 0; x < 8; x++) {
            if (p[(y * 8 + x) * 3] != 0)
                continue;
            zeros++;
            *x0 = STK_MIN(*x0, x);
            *x1 = STK_MAX(*x1, x + 1);
            *y0 = STK_MIN(*y0, y);
            *y1 = STK_MAX(*y1, y + 1);
        }
    }
    assert_int_equal(zeros, (*x1 - *x0) * (*y1 - *y0));
}

static void cutout_has_its_middle_anywhere(void **state)
{
    enum { N = 2000 };
    write_pictures("p", 1, 8, 8);
    int columns[8] = {0};
    taken t;
    take_column(PICTURES " | center_crop(image, 8) | repeat(2000) | normalize(image, mean=-1) | cutout(image, 4, 2) | batch(64)", 2,
                "image", &t);
    for (int i = 0; i < N; i++) {
        int x0, y0, x1, y1;
        find_hole(taken_floats(&t, i), &x0, &y0, &x1, &y1);
        assert_true(x1 - x0 <= 2 && y1 - y0 <= 4 && x1 > x0 && y1 > y0);
        columns[x0 == 0 && x1 == 1 ? 0 : x0 + 1]++;
    }
    for (int x = 0; x < 8; x++)
        assert_about(columns[x], N, 1.0 / 8);
    taken_clear(&t);
}

static void cutout_paints_pixels_before_they_are_normalized(void **state)
{
    write_pictures("p", 30, 9, 9);
    assert_same_batches(
        PICTURES " | center_crop(image, 9) | cutout(image, 4, fill=10) | normalize(image, mean=10) | layout(image, CHW) | batch(7)",
        PICTURES " | center_crop(image, 9) | cache | cutout(image, 4, fill=10) | normalize(image, mean=10) | layout(image, CHW) | batch(7)");
    taken t;
    take_column(PICTURES " | center_crop(image, 9) | cutout(image, 18, fill=10) | normalize(image, mean=10) | batch(7)", 1, "image", &t);
    assert_true(taken_floats(&t, 0)[(4 * 9 + 4) * 3] == 0);
    taken_clear(&t);
}

static void cutout_behind_normalize_and_layout_is_the_same(void **state)
{
    write_pictures("p", 30, 9, 9);
    assert_same_batches(
        PICTURES " | center_crop(image, 9) | normalize(image, mean=10, std=3) | cutout(image, 4, fill=-2) | layout(image, CHW) | batch(7)",
        PICTURES " | center_crop(image, 9) | normalize(image, mean=10, std=3) | cache | cutout(image, 4, fill=-2) | layout(image, CHW) | batch(7)");
}

static void cutout_happens_with_probability_p(void **state)
{
    write_pictures("p", 1, 8, 8);
    taken t;
    take_column(PICTURES " | center_crop(image, 8) | repeat(2000) | normalize(image, mean=-1) | cutout(image, 16, p=0.3) | batch(64)", 2,
                "image", &t);
    int64_t holes = 0;
    for (int64_t i = 0; i < t.rows; i++)
        holes += taken_floats(&t, i)[(4 * 8 + 4) * 3] == 0;
    assert_about(holes, t.rows, 0.3);
    taken_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(cutout_has_its_middle_anywhere),
        OP_TEST(cutout_paints_pixels_before_they_are_normalized),
        OP_TEST(cutout_behind_normalize_and_layout_is_the_same),
        OP_TEST(cutout_happens_with_probability_p),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
