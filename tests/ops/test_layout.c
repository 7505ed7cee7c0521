/* layout: channels first, for bytes and floats, fixed and varying sizes. */
#include "pictures.h"

static void layout_puts_channels_first(void **state)
{
    write_pictures("p", 4, 5, 3);
    taken t;
    take_column(PICTURES " | center_crop(image, 3, 5) | layout(image, CHW) | batch(2)", 2, "image", &t);
    assert_int_equal(t.shape[0], 3);
    assert_int_equal(t.shape[1], 3);
    assert_int_equal(t.shape[2], 5);
    for (int i = 0; i < 4; i++)
        for (int c = 0; c < 3; c++)
            for (int k = 0; k < 15; k++)
                assert_int_equal(taken_row(&t, i)[c * 15 + k], picture_sample(i, k % 5, k / 5, c));
    taken_clear(&t);
}

static void layout_of_other_types_and_sizes(void **state)
{
    write_pictures("p", 9, 7, 4);
    assert_same_batches(PICTURES " | center_crop(image, 4, 7) | cast(image=int16) | layout(image) | batch(2)",
                        PICTURES " | center_crop(image, 4, 7) | layout(image) | cast(image=int16) | batch(2)");
    assert_same_batches(PICTURES " | layout(image) | batch(2)", PICTURES " | cache | layout(image) | batch(2)");
    assert_same_batches(PICTURES " | layout(image, HWC) | batch(2)", PICTURES " | batch(2)");
}

static void layout_puts_channels_last_again(void **state)
{
    write_pictures("p", 9, 7, 6);
    static const char *const types[] = {"uint8", "float32", "float16", "float64"};
    for (size_t i = 0; i < STK_COUNT(types); i++) {
        char there[300], plain[300];
        snprintf(there, sizeof there, PICTURES " | center_crop(image, 6, 7) | cast(image=%s) | layout(image, CHW) | layout(image, HWC) | batch(2)", types[i]);
        snprintf(plain, sizeof plain, PICTURES " | center_crop(image, 6, 7) | cast(image=%s) | batch(2)", types[i]);
        assert_same_batches(there, plain);
    }
    assert_same_batches(PICTURES " | layout(image, CHW) | layout(image, HWC) | random_flip(image) | batch(2)", PICTURES " | random_flip(image) | batch(2)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(layout_puts_channels_first),
        OP_TEST(layout_of_other_types_and_sizes),
        OP_TEST(layout_puts_channels_last_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
