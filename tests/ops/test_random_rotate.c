/* random_rotate: angles, direction, what comes from outside. */
#include <math.h>

#include "pictures.h"

static void random_rotate_by_nothing_changes_nothing(void **state)
{
    write_pictures("p", 12, 16, 16);
    assert_same_batches(PICTURES " | center_crop(image, 16) | random_rotate(image, degrees=0) | batch(5)",
                        PICTURES " | center_crop(image, 16) | batch(5)");
}

/* The angle from how red (which grows by 1 from left to right) changes around the middle. */
static double angle_of(const uint8_t *p)
{
    enum { W = 101, M = 50, D = 32 };
    const double across = (double)p[(M * W + M + D) * 3] - (double)p[(M * W + M - D) * 3];
    const double down = (double)p[((M + D) * W + M) * 3] - (double)p[((M - D) * W + M) * 3];
    return atan2(-down, across) * 180 / 3.14159265358979;
}

static void random_rotate_draws_angles_evenly(void **state)
{
    enum { N = 1000 };
    write_pictures("p", 1, 101, 101);
    taken t;
    take_column(PICTURES " | center_crop(image, 101) | repeat(1000) | random_rotate(image, degrees=40) | batch(50)", 2, "image", &t);
    int64_t quarters[4] = {0};
    for (int i = 0; i < N; i++) {
        const double a = angle_of(taken_row(&t, i));
        if (fabs(a) > 43)
            fail_msg("turned by %g degrees, wanted at most 40", a);
        const int q = (int)((a + 40) / 20);
        quarters[q < 0 ? 0 : q > 3 ? 3 : q]++;
    }
    for (int q = 0; q < 4; q++)
        if (quarters[q] < 180 || quarters[q] > 320) /* measured angles are a little off */
            fail_msg("%lld of %d angles lie in quarter %d", (long long)quarters[q], N, q);
    taken_clear(&t);
}

static void random_rotate_fills_the_corners(void **state)
{
    write_pictures("p", 1, 33, 33);
    taken t;
    take_column(PICTURES " | center_crop(image, 33) | repeat(200) | random_rotate(image, degrees=40, fill=200) | batch(50)", 2, "image", &t);
    int64_t filled = 0;
    for (int i = 0; i < 200; i++)
        filled += taken_row(&t, i)[2] == 200;
    assert_true(filled > 150);
    taken_clear(&t);
}

static void random_rotate_is_the_same_with_any_threads_and_when_split(void **state)
{
    write_pictures("p", 40, 20, 17);
    assert_same_with_any_threads(PICTURES " | random_rotate(image, degrees=180, filter=nearest) | repeat(2) | batch(7)");
    assert_same_batches(PICTURES " | random_flip(image) | random_rotate(image, degrees=20) | random_crop(image, 9) | batch(7)",
                        PICTURES " | cache | random_flip(image) | random_rotate(image, degrees=20) | random_crop(image, 9) | batch(7)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(random_rotate_by_nothing_changes_nothing),
        OP_TEST(random_rotate_draws_angles_evenly),
        OP_TEST(random_rotate_fills_the_corners),
        OP_TEST(random_rotate_is_the_same_with_any_threads_and_when_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
