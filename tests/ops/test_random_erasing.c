/* random_erasing: rectangles of the right size, chance, types. */
#include "pictures.h"

#define SIDE 20

typedef struct {
    int x0, y0, x1, y1, pixels;
} painted;

/* Blue is below 200 in every picture, so a pixel of 255s was painted. */
static painted find_painted(const uint8_t *image)
{
    painted p = {SIDE, SIDE, 0, 0, 0};
    for (int k = 0; k < SIDE * SIDE; k++) {
        if (image[3 * k] != 255 || image[3 * k + 1] != 255 || image[3 * k + 2] != 255)
            continue;
        p.x0 = STK_MIN(p.x0, k % SIDE);
        p.y0 = STK_MIN(p.y0, k / SIDE);
        p.x1 = STK_MAX(p.x1, k % SIDE + 1);
        p.y1 = STK_MAX(p.y1, k / SIDE + 1);
        p.pixels++;
    }
    return p;
}

static void erasing_paints_rectangles(void **state)
{
    taken t;
    int64_t erased = 0, wide = 0, left = 0;
    double area = 0;
    write_pictures("p", 200, SIDE, SIDE);
    take_column(PICTURES " | random_erasing(image, fill=255) | batch(16) | repeat(5)", 3, "image", &t);
    assert_int_equal(t.rows, 1000);
    for (int i = 0; i < 1000; i++) {
        const uint8_t *image = taken_row(&t, i);
        const painted p = find_painted(image);
        for (int k = 0; k < SIDE * SIDE * 3; k++)
            if (image[k] != picture_sample(i % 200, k / 3 % SIDE, k / 3 / SIDE, k % 3))
                assert_true(k / 3 % SIDE >= p.x0 && k / 3 % SIDE < p.x1 && k / 3 / SIDE >= p.y0 && k / 3 / SIDE < p.y1);
        if (p.pixels == 0)
            continue;
        const int width = p.x1 - p.x0, height = p.y1 - p.y0;
        assert_int_equal(p.pixels, width * height);
        const double share = (double)p.pixels / (SIDE * SIDE), ratio = (double)height / width;
        assert_true(share > 0.01 && share < 0.37 && ratio > 0.2 && ratio < 5);
        erased++;
        wide += width > height;
        left += p.x0 + p.x1 < SIDE;
        area += share;
    }
    assert_about(erased, 1000, 0.5);
    assert_true(wide > erased / 3 && wide < erased * 2 / 3);
    assert_true(left > erased / 3 && left < erased * 2 / 3);
    assert_true(area / (double)erased > 0.14 && area / (double)erased < 0.21); /* the mean is 0.175 */
    taken_clear(&t);
}

static void erasing_is_drawn_with_p(void **state)
{
    write_pictures("p", 30, SIDE, SIDE);
    assert_same_batches(PICTURES " | batch(8)", PICTURES " | random_erasing(image, p=0) | batch(8)");
    taken t;
    take_column(PICTURES " | random_erasing(image, p=1, scale=[0.1, 0.2], fill=255) | batch(8)", 2, "image", &t);
    for (int i = 0; i < 30; i++)
        assert_true(find_painted(taken_row(&t, i)).pixels > 0);
    taken_clear(&t);
}

static void erasing_of_floats(void **state)
{
    taken t;
    write_pictures("p", 30, SIDE, SIDE);
    take_column(
        PICTURES
        " | normalize(image, 128, 64) | random_erasing(image, p=1, scale=[0.2, 0.3], fill=9) | layout(image) | batch(8)",
        2, "image", &t);
    assert_int_equal(t.shape[0], 3);
    for (int i = 0; i < 30; i++) {
        int count[3] = {0};
        for (int k = 0; k < SIDE * SIDE * 3; k++)
            count[k / (SIDE * SIDE)] += taken_floats(&t, i)[k] == 9;
        assert_true(count[0] > 0.15 * SIDE * SIDE && count[0] < 0.35 * SIDE * SIDE);
        assert_true(count[0] == count[1] && count[1] == count[2]);
    }
    taken_clear(&t);
}

static void erasing_fused_is_the_same(void **state)
{
    write_pictures("p", 40, 21, 13);
    assert_fused_is_the_same("random_erasing(image)");
    assert_fused_is_the_same(
        "random_erasing(image, fill=7) | random_flip(image) | random_erasing(image) | normalize(image, 1, 2)");
    assert_fused_is_the_same("normalize(image, 1, 2) | random_erasing(image, fill=0.5) | layout(image)");
}

static void erasing_of_a_single_pixel_does_nothing(void **state)
{
    write_pictures("p", 10, 1, 1);
    assert_same_batches(PICTURES " | batch(8)", PICTURES " | random_erasing(image, p=1, fill=255) | batch(8)");
}

static void erasing_refuses(void **state)
{
    write_pictures("p", 2, 4, 4);
    assert_refused(PICTURES " |\nrandom_erasing(image, scale=[0.5, 1.5])", NULL, STK_INVALID,
                   "scale has 2 numbers from 0.5 to 1.5", 2, 1);
    assert_refused(PICTURES " |\nrandom_erasing(image, ratio=0.5)", NULL, STK_INVALID, "ratio has 1 numbers", 2, 1);
    assert_refused(PICTURES " | layout(image) |\nrandom_erasing(image)", NULL, STK_INVALID, "channels", 2, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(erasing_paints_rectangles),
        OP_TEST(erasing_is_drawn_with_p),
        OP_TEST(erasing_of_floats),
        OP_TEST(erasing_fused_is_the_same),
        OP_TEST(erasing_of_a_single_pixel_does_nothing),
        OP_TEST(erasing_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
