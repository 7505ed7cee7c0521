/* rand_augment: every result is a change of the table, or two of them one after the other. */
#include "augment_model.h"

/* The magnitude of a bin, from RandAugment's table. */
static double magnitude_of(stk__augment what, int bin)
{
    static const double last[STK__AUGMENT_COUNT] = {0,   0.3, 0.3, 150.0 / 331 * SIDE, 150.0 / 331 * SIDE, 30, 0.9,
                                                    0.9, 0.9, 0.9};
    if (what == STK__AUGMENT_POSTERIZE)
        return rint(8 - bin / 7.5);
    return what == STK__AUGMENT_SOLARIZE ? 1 - bin / 30.0 : last[what] * bin / 30;
}

/* The change that explains `out` best, or -1; `fewest` misses or more explain nothing. */
static int explain(const uint8_t *in, const uint8_t *out, int bin, int fewest)
{
    uint8_t model[BYTES];
    int best = -1;
    for (int what = 0; what < STK__AUGMENT_COUNT; what++) {
        for (int sign = -1; sign <= 1; sign += 2) {
            if (sign < 0 && what >= STK__AUGMENT_POSTERIZE)
                continue;
            model_change((stk__augment)what, sign * magnitude_of((stk__augment)what, bin), in, model);
            const int misses = model_misses(model, out, fewest);
            if (misses < fewest) {
                fewest = misses;
                best = what;
            }
        }
    }
    return best;
}

static void one_change_is_one_of_the_table(void **state)
{
    taken t;
    uint8_t in[BYTES];
    int64_t found[STK__AUGMENT_COUNT] = {0};
    write_pictures("p", 600, SIDE, SIDE);
    take_column(PICTURES " | rand_augment(image, ops=1, magnitude=20) | batch(32)", 3, "image", &t);
    for (int i = 0; i < 600; i++) {
        model_picture(i, in);
        const int what = explain(in, taken_row(&t, i), 20, BYTES / 32);
        if (what < 0)
            fail_msg("picture %d is none of the changes", i);
        found[what]++;
    }
    taken_clear(&t);
    for (int what = STK__AUGMENT_SHEAR_X; what <= STK__AUGMENT_BRIGHTNESS; what++)
        assert_about(found[what], 600, 1.0 / STK__AUGMENT_COUNT);
    for (int what = 0; what < STK__AUGMENT_COUNT; what++)
        assert_true(found[what] > 0);
}

static bool explain_two(const uint8_t *in, const uint8_t *out, int bin)
{
    uint8_t between[BYTES];
    for (int what = 0; what < STK__AUGMENT_COUNT; what++) {
        for (int sign = -1; sign <= 1; sign += 2) {
            if (sign < 0 && what >= STK__AUGMENT_POSTERIZE)
                continue;
            model_change((stk__augment)what, sign * magnitude_of((stk__augment)what, bin), in, between);
            /* Rounding in the first change may be made larger by the second, in equalize above all. */
            if (explain(between, out, bin, BYTES / 6) >= 0)
                return true;
        }
    }
    return false;
}

static void two_changes_come_one_after_the_other(void **state)
{
    taken t;
    uint8_t in[BYTES];
    int unexplained = 0;
    write_pictures("p", 120, SIDE, SIDE);
    take_column(PICTURES " | rand_augment(image) | batch(32)", 3, "image", &t);
    for (int i = 0; i < 120; i++) {
        model_picture(i, in);
        unexplained += !explain_two(in, taken_row(&t, i), 9);
    }
    assert_true(unexplained <= 3);
    taken_clear(&t);
}

static void magnitude_zero_changes_little(void **state)
{
    taken t;
    uint8_t in[BYTES];
    int64_t same = 0;
    write_pictures("p", 300, SIDE, SIDE);
    take_column(PICTURES " | rand_augment(image, ops=1, magnitude=0) | batch(32)", 1, "image", &t);
    for (int i = 0; i < 300; i++) {
        model_picture(i, in);
        same += memcmp(in, taken_row(&t, i), BYTES) == 0;
    }
    assert_about(same, 300, 12.0 / 14); /* all but autocontrast and equalize */
    taken_clear(&t);
}

static void rand_augment_fused_is_the_same(void **state)
{
    write_pictures("p", 60, 21, 13);
    assert_fused_is_the_same("rand_augment(image)");
    assert_fused_is_the_same(
        "rand_augment(image, ops=7, magnitude=30, filter=bilinear, fill=9) | normalize(image, 3, 4)");
}

static void rand_augment_refuses(void **state)
{
    write_pictures("p", 2, 4, 4);
    assert_refused(PICTURES " |\nrand_augment(image, ops=8)", NULL, STK_INVALID, "ops must be in 1..7", 2, 25);
    assert_refused(PICTURES " |\nrand_augment(image, magnitude=31)", NULL, STK_INVALID, "magnitude must be in 0..30", 2,
                   31);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(one_change_is_one_of_the_table), OP_TEST(two_changes_come_one_after_the_other),
        OP_TEST(magnitude_zero_changes_little),  OP_TEST(rand_augment_fused_is_the_same),
        OP_TEST(rand_augment_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
