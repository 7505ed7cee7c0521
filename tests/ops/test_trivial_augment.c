/* trivial_augment: every result is one of the changes of the table, and all of them come. */
#include "augment_model.h"

#define PICTURE_COUNT 450

/* The magnitude of a bin, from TrivialAugmentWide's table. */
static double magnitude_of(stk__augment what, int bin)
{
    static const double last[STK__AUGMENT_COUNT] = {0, 0.99, 0.99, 32, 32, 135, 0.99, 0.99, 0.99, 0.99};
    if (what == STK__AUGMENT_POSTERIZE)
        return rint(8 - bin / 5.0);
    return what == STK__AUGMENT_SOLARIZE ? 1 - bin / 30.0 : last[what] * bin / 30;
}

/* The change that explains the result best, or -1. */
static int explain(const uint8_t *in, const uint8_t *out)
{
    uint8_t model[BYTES];
    int best = -1, fewest = BYTES / 32; /* at the edges of pixels a turn may fall to either side */
    for (int what = 0; what < STK__AUGMENT_COUNT && fewest; what++) {
        for (int bin = -30; bin <= 30 && fewest; bin++) {
            if (bin < 0 && (what == STK__AUGMENT_POSTERIZE || what == STK__AUGMENT_SOLARIZE))
                continue;
            model_change((stk__augment)what, magnitude_of((stk__augment)what, bin), in, model);
            const int misses = model_misses(model, out, fewest);
            if (misses < fewest) {
                fewest = misses;
                best = what;
            }
        }
    }
    return best;
}

static void every_result_is_a_change_of_the_table(void **state)
{
    taken t;
    uint8_t in[BYTES];
    int64_t found[STK__AUGMENT_COUNT] = {0};
    write_pictures("p", PICTURE_COUNT, SIDE, SIDE);
    take_column(PICTURES " | trivial_augment(image) | batch(32)", 3, "image", &t);
    for (int i = 0; i < PICTURE_COUNT; i++) {
        model_picture(i, in);
        const int what = explain(in, taken_row(&t, i));
        if (what < 0)
            fail_msg("picture %d is none of the changes", i);
        found[what]++;
    }
    taken_clear(&t);
    /* Weak changes look like none at all; the others have the same chance. */
    for (int what = STK__AUGMENT_SHEAR_X; what <= STK__AUGMENT_ROTATE; what++)
        assert_about(found[what], PICTURE_COUNT, 1.0 / STK__AUGMENT_COUNT);
    for (int what = 0; what < STK__AUGMENT_COUNT; what++)
        if (found[what] == 0 || found[what] > PICTURE_COUNT / 3)
            fail_msg("change %d came %lld times", what, (long long)found[what]);
}

static void trivial_augment_fused_is_the_same(void **state)
{
    write_pictures("p", 60, 21, 13);
    assert_fused_is_the_same("trivial_augment(image)");
    assert_fused_is_the_same(
        "random_flip(image) | trivial_augment(image, filter=bilinear, fill=128) | random_crop(image, 9, 9)");
}

static void trivial_augment_of_other_channels(void **state)
{
    write_pictures("p", 60, 21, 13);
    assert_same_with_any_threads(
        "tfrecord(\"$D/p\") | parse(image=bytes) | decode_image(image, channels=1) | trivial_augment(image) | batch(7)");
    assert_same_with_any_threads(
        "tfrecord(\"$D/p\") | parse(image=bytes) | decode_image(image, channels=4) | trivial_augment(image) | batch(7)");
    write_pictures("p", 60, 1, 2);
    assert_same_with_any_threads(PICTURES " | trivial_augment(image) | batch(7)");
}

static void trivial_augment_fills(void **state)
{
    taken t;
    int filled = 0;
    write_pictures("p", 200, SIDE, SIDE); /* blue is below 200 */
    take_column(PICTURES " | trivial_augment(image, fill=222) | batch(10)", 2, "image", &t);
    for (int i = 0; i < 200; i++)
        filled += taken_row(&t, i)[0] == 222 && taken_row(&t, i)[1] == 222 && taken_row(&t, i)[2] == 222;
    assert_true(filled > 5);
    taken_clear(&t);
}

static void trivial_augment_refuses(void **state)
{
    write_pictures("p", 2, 4, 4);
    assert_refused(PICTURES " |\ntrivial_augment(label)", NULL, STK_INVALID, "wanted an image", 2, 1);
    assert_refused(PICTURES " |\ntrivial_augment(image, filter=bicubic)", NULL, STK_INVALID, "filter", 2, 31);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(every_result_is_a_change_of_the_table),
        OP_TEST(trivial_augment_fused_is_the_same),
        OP_TEST(trivial_augment_of_other_channels),
        OP_TEST(trivial_augment_fills),
        OP_TEST(trivial_augment_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
