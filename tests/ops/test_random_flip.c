/* random_flip: how often, in which direction, exactly mirrored. */
#include "pictures.h"

/* What picture 0 of 4 x 3 pixels was turned into: bit 0 mirrored left-right, bit 1 up-down. */
static int kind_of(const uint8_t *p)
{
    const int kind = (p[0] == 3) | (p[1] == 4) << 1;
    for (int k = 0; k < 36; k++) {
        const int x = k / 3 % 4, y = k / 12;
        assert_int_equal(p[k], picture_sample(0, kind & 1 ? 3 - x : x, kind & 2 ? 2 - y : y, k % 3));
    }
    return kind;
}

static void count_kinds(const char *flip, int64_t counts[4])
{
    char text[300];
    snprintf(text, sizeof text, PICTURES " | center_crop(image, 3, 4) | repeat(2000) | %s | batch(64)", flip);
    taken t;
    take_column(text, 2, "image", &t);
    assert_int_equal(t.rows, 2000);
    for (int i = 0; i < 4; i++)
        counts[i] = 0;
    for (int64_t i = 0; i < t.rows; i++)
        counts[kind_of(taken_row(&t, i))]++;
    taken_clear(&t);
}

static void random_flip_mirrors_half_of_them(void **state)
{
    int64_t n[4];
    write_pictures("p", 1, 4, 3);
    count_kinds("random_flip(image)", n);
    assert_about(n[1], 2000, 0.5);
    assert_int_equal(n[2] + n[3], 0);
    count_kinds("random_flip(image, vertical, p=0.25)", n);
    assert_about(n[2], 2000, 0.25);
    assert_int_equal(n[1] + n[3], 0);
    count_kinds("random_flip(image, both)", n);
    for (int i = 0; i < 4; i++)
        assert_about(n[i], 2000, 0.25);
    count_kinds("random_flip(image, p=1) | random_flip(image, p=1)", n);
    assert_int_equal(n[0], 2000);
}

static void random_flip_of_floats_mirrors_the_same_ones(void **state)
{
    write_pictures("p", 40, 5, 4);
    assert_same_batches(PICTURES " | center_crop(image, 4, 5) | cast(image=float32) | random_flip(image, both) | batch(9)",
                        PICTURES " | cache | center_crop(image, 4, 5) | cast(image=float32) | random_flip(image, both) | batch(9)");
}

static void random_flip_is_the_same_with_any_threads(void **state)
{
    write_pictures("p", 40, 5, 4);
    assert_same_with_any_threads(PICTURES " | random_flip(image, both) | repeat(3) | batch(7)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(random_flip_mirrors_half_of_them),
        OP_TEST(random_flip_of_floats_mirrors_the_same_ones),
        OP_TEST(random_flip_is_the_same_with_any_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
