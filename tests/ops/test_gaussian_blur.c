/* gaussian_blur: even areas, ramps, edges, chance. */
#include "pictures.h"

#include <math.h>
#include <stdlib.h>

#define SIDE 16

static void blur_of_size_one_changes_nothing(void **state)
{
    write_pictures("p", 10, SIDE, SIDE);
    assert_same_batches(PICTURES " | batch(4)", PICTURES " | gaussian_blur(image, 1) | batch(4)");
    assert_same_batches(PICTURES " | batch(4)", PICTURES " | gaussian_blur(image, 5, p=0) | batch(4)");
}

/* What is even or a ramp stays, but for the edges, where the ramp is folded back. */
static void blur_keeps_ramps_and_bends_edges(void **state)
{
    taken t;
    write_pictures("p", 20, SIDE, SIDE);
    take_column(PICTURES " | gaussian_blur(image, 5, sigma=2) | batch(4)", 3, "image", &t);
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < SIDE * SIDE * 3; k++) {
            const int x = k / 3 % SIDE, y = k / 3 / SIDE, c = k % 3;
            const int along = c == 0 ? x : y;
            if (c == 2 || (along >= 2 && along < SIDE - 2))
                assert_true(abs(taken_row(&t, i)[k] - picture_sample(i, x, y, c)) <= 1);
        }
        /* Green climbs by 2: the mean of what lies 1 and 2 rows away is about 2 above the edge. */
        assert_true(taken_row(&t, i)[1] >= picture_sample(i, 0, 0, 1) + 1);
        assert_true(taken_row(&t, i)[1] <= picture_sample(i, 0, 0, 1) + 3);
    }
    taken_clear(&t);
}

static void blur_draws_sigma(void **state)
{
    taken wide, narrow, drawn;
    write_pictures("p", 60, SIDE, SIDE);
    take_column(PICTURES " | gaussian_blur(image, 15, sigma=5) | batch(10)", 1, "image", &wide);
    take_column(PICTURES " | gaussian_blur(image, 15, sigma=0.1) | batch(10)", 1, "image", &narrow);
    take_column(PICTURES " | gaussian_blur(image, 15, sigma=[0.1, 5]) | batch(10)", 1, "image", &drawn);
    int most = 0, least = 255;
    for (int i = 0; i < 24; i++) { /* those without a jump from 255 to 0 */
        const int in = picture_sample(i, 0, 0, 1);
        const int up = taken_row(&drawn, i)[1] - in;
        assert_true(taken_row(&narrow, i)[1] == in);
        assert_true(taken_row(&wide, i)[1] >= in + 5);
        assert_true(up >= 0 && up <= taken_row(&wide, i)[1] - in + 1);
        most = STK_MAX(most, up);
        least = STK_MIN(least, up);
    }
    assert_true(most > least + 3);
    taken_clear(&wide);
    taken_clear(&narrow);
    taken_clear(&drawn);
}

static void blur_is_drawn_with_p(void **state)
{
    taken t;
    int64_t changed = 0;
    write_pictures("p", 600, 8, 8);
    take_column(PICTURES " | gaussian_blur(image, 7, sigma=3, p=0.4) | batch(50)", 2, "image", &t);
    for (int i = 0; i < 600; i++)
        changed += taken_row(&t, i)[1] != picture_sample(i, 0, 0, 1);
    assert_about(changed, 600, 0.4);
    taken_clear(&t);
}

static void blur_fused_is_the_same(void **state)
{
    write_pictures("p", 40, 21, 13);
    assert_fused_is_the_same("gaussian_blur(image, 9)");
    assert_fused_is_the_same(
        "pad(image, 2) | random_crop(image, 10, 10) | gaussian_blur(image, 3) | random_flip(image)");
}

static void blur_refuses(void **state)
{
    write_pictures("p", 2, 4, 4);
    assert_refused(PICTURES " |\ngaussian_blur(image, 4)", NULL, STK_INVALID, "size is 4, wanted an odd number", 2, 1);
    assert_refused(PICTURES " |\ngaussian_blur(image, 3, sigma=[2, 1])", NULL, STK_INVALID,
                   "sigma has 2 numbers from 2 to 1", 2, 1);
    assert_refused(PICTURES " |\ngaussian_blur(image, 3, sigma=0)", NULL, STK_INVALID, "0 < low", 2, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(blur_of_size_one_changes_nothing),
        OP_TEST(blur_keeps_ramps_and_bends_edges),
        OP_TEST(blur_draws_sigma),
        OP_TEST(blur_is_drawn_with_p),
        OP_TEST(blur_fused_is_the_same),
        OP_TEST(blur_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
