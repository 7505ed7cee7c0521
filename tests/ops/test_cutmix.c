/* cutmix: a rectangle of the row before is pasted, and labels are mixed by exactly its area. */
#include "pictures.h"

#include <math.h>

#define WIDTH 10
#define HEIGHT 8
#define ROWS PICTURES " | center_crop(image, 8, 10) | one_hot(label, 10)"

typedef struct {
    int x0, y0, x1, y1, pixels;
} box;

/* Where picture i, whose partner is j, has the partner's pixels; blue tells them apart. */
static box find_box(const uint8_t *image, int i, int j)
{
    box b = {WIDTH, HEIGHT, 0, 0, 0};
    for (int k = 0; k < WIDTH * HEIGHT; k++) {
        const int x = k % WIDTH, y = k / WIDTH;
        const bool pasted = image[3 * k + 2] == (uint8_t)j;
        for (int c = 0; c < 3; c++)
            assert_int_equal(image[3 * k + c], picture_sample(pasted ? j : i, x, y, c));
        if (!pasted)
            continue;
        b = (box){STK_MIN(b.x0, x), STK_MIN(b.y0, y), STK_MAX(b.x1, x + 1), STK_MAX(b.y1, y + 1), b.pixels + 1};
    }
    if (b.pixels)
        assert_int_equal(b.pixels, (b.x1 - b.x0) * (b.y1 - b.y0));
    return b;
}

static void cutmix_pastes_from_the_row_before(void **state)
{
    taken images, labels;
    int empty = 0, large = 0;
    write_pictures("p", 203, WIDTH, HEIGHT);
    take_column(ROWS " | batch(5) | cutmix(image, label)", 3, "image", &images);
    take_column(ROWS " | batch(5) | cutmix(image, label)", 1, "label", &labels);
    box before = {0};
    for (int i = 0; i < 203; i++) {
        const int first = i / 5 * 5, rows = STK_MIN(5, 203 - first), j = i == first ? first + rows - 1 : i - 1;
        const box b = find_box(taken_row(&images, i), i, j);
        const float stays = 1 - (float)b.pixels / (WIDTH * HEIGHT);
        assert_true(fabsf(taken_floats(&labels, i)[i % 10] - stays) < 1e-6f);
        assert_true(fabsf(taken_floats(&labels, i)[j % 10] - (1 - stays)) < 1e-6f);
        if (i != first)
            assert_memory_equal(&b, &before, sizeof b);
        before = b;
        empty += b.pixels == 0;
        large += b.pixels > WIDTH * HEIGHT / 2;
    }
    assert_true(empty > 0 && empty < 100 && large > 0 && large < 100);
    taken_clear(&images);
    taken_clear(&labels);
}

/* The mean area of a box that is not cut off is 1/2 for alpha 1; cutting takes some. */
static void boxes_are_as_large_as_alpha_says(void **state)
{
    taken t;
    double sum[2] = {0};
    write_pictures("p", 600, WIDTH, HEIGHT);
    for (int n = 0; n < 2; n++) {
        take_column(n ? ROWS " | batch(2) | cutmix(image, label, alpha=0.05)"
                      : ROWS " | batch(2) | cutmix(image, label)",
                    2, "label", &t);
        int64_t extreme = 0;
        for (int i = 0; i < 600; i += 2) {
            const float w = taken_floats(&t, i)[i % 10];
            sum[n] += w;
            extreme += w > 0.98f;
        }
        if (n)
            assert_true(extreme > 100); /* about half of the boxes are nearly empty */
        else
            assert_true(extreme < 60);
        taken_clear(&t);
    }
    assert_true(sum[0] / 300 > 0.55 && sum[0] / 300 < 0.8);
}

static void cutmix_of_other_layouts_is_the_same(void **state)
{
    taken last, first, floats;
    write_pictures("p", 40, WIDTH, HEIGHT);
    take_column(ROWS " | take(1000) | batch(5) | cutmix(image, label)", 2, "image", &last);
    take_column(ROWS " | layout(image) | batch(5) | cutmix(image, label)", 2, "image", &first);
    take_column(ROWS " | normalize(image) | batch(5) | cutmix(image, label)", 2, "image", &floats);
    assert_int_equal(first.shape[0], 3);
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < WIDTH * HEIGHT * 3; k++) {
            assert_int_equal(taken_row(&last, i)[k], taken_row(&first, i)[k % 3 * WIDTH * HEIGHT + k / 3]);
            assert_true(taken_row(&last, i)[k] == taken_floats(&floats, i)[k]);
        }
    }
    taken_clear(&last);
    taken_clear(&first);
    taken_clear(&floats);
}

static void cutmix_is_drawn_with_p(void **state)
{
    taken t;
    int64_t same = 0;
    write_pictures("p", 600, WIDTH, HEIGHT);
    assert_same_batches(ROWS " | batch(4)", ROWS " | batch(4) | cutmix(image, label, p=0)");
    assert_same_batches(ROWS " | batch(1)", ROWS " | batch(1) | cutmix(image, label)");
    take_column(ROWS " | batch(2) | cutmix(image, label, alpha=100, p=0.4)", 2, "label", &t);
    for (int i = 0; i < 600; i += 2)
        same += taken_floats(&t, i)[i % 10] == 1; /* with this alpha no box is empty */
    assert_about(same, 300, 0.6);
    taken_clear(&t);
}

static void cutmix_is_the_same_with_any_threads(void **state)
{
    write_pictures("p", 100, WIDTH, HEIGHT);
    assert_same_with_any_threads(
        ROWS " | shuffle(seed=3) | batch(7) | cutmix(image, label) | mixup(image, label, p=0.5) | repeat(2)");
    assert_same_with_any_threads(
        PICTURES
        " | filter(\"label != 3\") | center_crop(image, 6, 6) | one_hot(label, 10) | batch(7) | cutmix(image, label)");
}

static void cutmix_refuses(void **state)
{
    write_pictures("p", 2, WIDTH, HEIGHT);
    assert_refused(ROWS " |\ncutmix(image, label)", NULL, STK_INVALID, "put it after batch", 2, 1);
    assert_refused(PICTURES " | one_hot(label, 10) | batch(2) |\ncutmix(image, label)", NULL, STK_INVALID,
                   "field 'image' varies in size", 2, 1);
    assert_refused(ROWS " | batch(2) |\ncutmix(label, image)", NULL, STK_INVALID, "put one_hot before batch", 2, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(cutmix_pastes_from_the_row_before),   OP_TEST(boxes_are_as_large_as_alpha_says),
        OP_TEST(cutmix_of_other_layouts_is_the_same), OP_TEST(cutmix_is_drawn_with_p),
        OP_TEST(cutmix_is_the_same_with_any_threads), OP_TEST(cutmix_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
