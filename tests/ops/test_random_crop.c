/* random_crop: places are spread evenly, small images, epochs, threads. */
#include "pictures.h"

/* Red is 8 i + x and green 8 i + 2 y, so the first pixel tells where the crop was. */
static void random_crop_reaches_every_place_equally(void **state)
{
    enum { N = 3000 };
    write_pictures("p", 1, 8, 6);
    int places[5][3] = {{0}};
    taken t;
    take_column(PICTURES " | repeat(3000) | random_crop(image, 4, 4) | batch(100)", 2, "image", &t);
    assert_int_equal(t.rows, N);
    for (int i = 0; i < N; i++) {
        const uint8_t *p = taken_row(&t, i);
        assert_true(p[0] <= 4 && p[1] <= 4 && p[1] % 2 == 0);
        places[p[0]][p[1] / 2]++;
        for (int k = 0; k < 48; k++)
            assert_int_equal(p[k], picture_sample(0, p[0] + k / 3 % 4, p[1] / 2 + k / 12, k % 3));
    }
    for (int x = 0; x < 5; x++)
        for (int y = 0; y < 3; y++)
            assert_about(places[x][y], N, 1.0 / 15);
    taken_clear(&t);
}

static void random_crop_is_the_same_with_any_threads_and_when_split(void **state)
{
    write_pictures("p", 50, 12, 12);
    assert_same_with_any_threads(PICTURES " | random_crop(image, 5, 7) | repeat(2) | batch(8)");
    assert_same_batches(PICTURES " | pad(image, 3, mode=reflect) | random_crop(image, 12) | batch(8)",
                        PICTURES " | cache | pad(image, 3, mode=reflect) | random_crop(image, 12) | batch(8)");
}

static void random_crop_of_a_small_image_is_a_bad_record(void **state)
{
    write_pictures("p", 4, 8, 6);
    assert_fails(PICTURES " | random_crop(image, 7, 7)", NULL, STK_CORRUPT,
                 "image of 8 x 6 pixels, wanted at least 7 x 7; resize or pad it first");
    assert_fails(PICTURES " | center_crop(image, 6, 6) | random_crop(image, 7, 7)", NULL, STK_INVALID, "too few for a crop");
    stk_config config = harness_config();
    config.on_error = STK_ON_ERROR_SKIP;
    seen s;
    run_all(PICTURES " | random_crop(image, 7, 7) | batch(2)", &config, &s);
    assert_int_equal(s.stats.skipped, 4);
    seen_clear(&s);
}

static void random_crop_pads_when_asked(void **state)
{
    write_pictures("p", 200, 2, 9);
    taken t;
    take_column(PICTURES " | random_crop(image, 4, 4, pad_if_needed=true) | batch(50)", 2, "image", &t);
    int seen_at[3] = {0};
    for (int i = 0; i < 200; i++) {
        const uint8_t *p = taken_row(&t, i);
        int x = 0;
        while (x < 2 && p[3 * x + 2] == 0 && i % 256 != 0)
            x++;
        seen_at[x]++;
    }
    assert_true(seen_at[0] > 30 && seen_at[1] > 30 && seen_at[2] > 30);
    taken_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(random_crop_reaches_every_place_equally),
        OP_TEST(random_crop_is_the_same_with_any_threads_and_when_split),
        OP_TEST(random_crop_of_a_small_image_is_a_bad_record),
        OP_TEST(random_crop_pads_when_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
