/* mixup: images and labels are mixed by the same weight, which is drawn as it should be. */
#include "pictures.h"

#include <math.h>

#include "kernels/convert.h"

#define SIDE 6
#define BYTES (SIDE * SIDE * 3)
#define ROWS PICTURES " | center_crop(image, 6, 6) | one_hot(label, 10)"

/* The weight that the label of row i says, whose partner is row j. */
static float weight_of(const float *label, int i, int j)
{
    float sum = 0;
    for (int k = 0; k < 10; k++) {
        assert_true(label[k] >= 0 && (label[k] == 0 || k == i % 10 || k == j % 10));
        sum += label[k];
    }
    assert_true(fabsf(sum - 1) < 1e-6f);
    return label[i % 10];
}

static void mixup_blends_with_the_row_before(void **state)
{
    taken images, labels;
    write_pictures("p", 23, SIDE, SIDE);
    take_column(ROWS " | batch(5) | mixup(image, label)", 3, "image", &images);
    take_column(ROWS " | batch(5) | mixup(image, label)", 1, "label", &labels);
    float weight = -1;
    for (int i = 0; i < 23; i++) {
        const int first = i / 5 * 5, rows = STK_MIN(5, 23 - first), j = i == first ? first + rows - 1 : i - 1;
        const float w = weight_of(taken_floats(&labels, i), i, j);
        assert_true(i == first || fabsf(w - weight) < 1e-6f);
        weight = w;
        for (int k = 0; k < BYTES; k++) {
            const int x = k / 3 % SIDE, y = k / 3 / SIDE, c = k % 3;
            const double wanted = w * (double)picture_sample(i, x, y, c) + (1 - (double)w) * picture_sample(j, x, y, c);
            assert_true(fabs(taken_row(&images, i)[k] - wanted) < 0.501);
        }
    }
    taken_clear(&images);
    taken_clear(&labels);
}

static void mixup_of_a_single_row_changes_nothing(void **state)
{
    write_pictures("p", 5, SIDE, SIDE);
    assert_same_batches(ROWS " | batch(1)", ROWS " | batch(1) | mixup(image, label)");
}

static void mixup_of_floats(void **state)
{
    static const char *const types[] = {"float32", "float16", "bfloat16"};
    static const double close[] = {1e-5, 5e-3, 5e-2};
    write_pictures("p", 12, SIDE, SIDE);
    for (int n = 0; n < 3; n++) {
        taken images, labels;
        char text[512];
        snprintf(text, sizeof text,
                 ROWS " | normalize(image, 128, 64) | cast(image=%s) | batch(4) | mixup(image, label)", types[n]);
        take_column(text, 2, "label", &labels);
        take_column(text, 2, "image", &images);
        for (int i = 0; i < 12; i++) {
            const int j = i % 4 ? i - 1 : i + 3;
            const double w = weight_of(taken_floats(&labels, i), i, j);
            const double a = (picture_sample(i, 1, 0, 0) - 128) / 64.0, b = (picture_sample(j, 1, 0, 0) - 128) / 64.0;
            float found;
            stk__convert(&found, STK_FLOAT32, taken_row(&images, i) + 3 * stk_dtype_size(images.dtype), images.dtype,
                         1);
            assert_true(fabs(found - (w * a + (1 - w) * b)) < close[n]);
        }
        taken_clear(&images);
        taken_clear(&labels);
    }
}

/* One weight of each batch of two. */
static void draw_weights(const char *options, int batches, float *out)
{
    taken t;
    char text[512];
    snprintf(text, sizeof text, ROWS " | batch(2) | mixup(image, label%s)", options);
    take_column(text, 2, "label", &t);
    assert_int_equal(t.batches, batches);
    for (int i = 0; i < batches; i++)
        out[i] = weight_of(taken_floats(&t, 2 * i), 2 * i, 2 * i + 1);
    taken_clear(&t);
}

static int64_t count_between(const float *w, int n, float low, float high)
{
    int64_t count = 0;
    for (int i = 0; i < n; i++)
        count += w[i] >= low && w[i] < high;
    return count;
}

static void weights_are_drawn_from_beta(void **state)
{
    float w[400];
    write_pictures("p", 800, SIDE, SIDE);
    draw_weights("", 400, w); /* alpha 1: all weights have the same chance */
    assert_about(count_between(w, 400, 0, 0.25f), 400, 0.25);
    assert_about(count_between(w, 400, 0.25f, 0.5f), 400, 0.25);
    assert_about(count_between(w, 400, 0.5f, 0.75f), 400, 0.25);
    draw_weights(", alpha=0.2", 400, w);
    assert_about(count_between(w, 400, 0, 0.1f), 400, 0.3367);
    assert_about(count_between(w, 400, 0.9f, 2), 400, 0.3367);
    draw_weights(", alpha=4", 400, w);
    assert_about(count_between(w, 400, 0, 0.3f), 400, 0.1260);
    assert_about(count_between(w, 400, 0, 0.5f), 400, 0.5);
    draw_weights(", alpha=0.001", 400, w); /* nearly always 0 or 1 */
    assert_true(count_between(w, 400, 0.01f, 0.99f) < 20);
    assert_about(count_between(w, 400, 0, 0.5f), 400, 0.5);
}

static void mixup_is_drawn_with_p(void **state)
{
    float w[400];
    write_pictures("p", 800, SIDE, SIDE);
    draw_weights(", p=0.3", 400, w);
    assert_about(400 - count_between(w, 400, 1, 2), 400, 0.3);
    assert_same_batches(ROWS " | batch(4)", ROWS " | batch(4) | mixup(image, label, p=0)");
}

static void mixup_is_the_same_with_any_threads(void **state)
{
    write_pictures("p", 100, SIDE, SIDE);
    assert_same_with_any_threads(ROWS " | shuffle(seed=3) | batch(7) | mixup(image, label) | repeat(2)");
    assert_same_with_any_threads(
        PICTURES
        " | filter(\"label != 3\") | center_crop(image, 6, 6) | one_hot(label, 10) | batch(7) | mixup(image, label) | repeat(2)");
}

static void mixup_draws_anew_each_epoch(void **state)
{
    taken t;
    write_pictures("p", 4, SIDE, SIDE);
    take_column(ROWS " | batch(4) | mixup(image, label) | repeat(2)", 1, "label", &t);
    assert_true(weight_of(taken_floats(&t, 1), 1, 0) != weight_of(taken_floats(&t, 5), 1, 0));
    taken_clear(&t);
}

static void mixup_goes_on_after_resume(void **state)
{
    static const char text[] = ROWS " | shuffle(seed=3) | batch(7) | mixup(image, label) | repeat(2)";
    stk_config config = harness_config();
    seen all, some, rest;
    write_pictures("p", 40, SIDE, SIDE);
    run_all(text, NULL, &all);
    run_some(text, NULL, 8, in_dir("point"), &some);
    config.resume_path = in_dir("point");
    run_all(text, &config, &rest);
    assert_seen_equal(&all, 8, &rest, text);
    seen_clear(&all);
    seen_clear(&some);
    seen_clear(&rest);
}

static void mixup_refuses(void **state)
{
    write_pictures("p", 2, SIDE, SIDE);
    assert_refused(ROWS " |\nmixup(image, label)", NULL, STK_INVALID, "put it after batch", 2, 1);
    assert_refused(PICTURES " | center_crop(image, 6, 6) | batch(2) |\nmixup(image, label)", NULL, STK_INVALID,
                   "put one_hot before batch", 2, 1);
    assert_refused(PICTURES " | one_hot(label, 10) | batch(2) |\nmixup(image, label)", NULL, STK_INVALID,
                   "field 'image' varies in size", 2, 1);
    assert_refused(ROWS " | encode_png(image) | batch(2) |\nmixup(image, label)", NULL, STK_INVALID, "holds bytes", 2,
                   1);
    assert_refused(ROWS " | cast(image=int32) | batch(2) |\nmixup(image, label)", NULL, STK_INVALID,
                   "is int32, wanted uint8", 2, 1);
    assert_refused(ROWS " | batch(2) |\nmixup(label, label)", NULL, STK_INVALID, "both 'label'", 2, 1);
    assert_refused(ROWS " | batch(2) |\nmixup(image, label, alpha=0)", NULL, STK_INVALID, "alpha", 2, 27);
    assert_refused(ROWS " | batch(2) | mixup(image, label) |\ncast(image=float32)", NULL, STK_INVALID,
                   "put it before mixup", 2, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(mixup_blends_with_the_row_before),
        OP_TEST(mixup_of_a_single_row_changes_nothing),
        OP_TEST(mixup_of_floats),
        OP_TEST(weights_are_drawn_from_beta),
        OP_TEST(mixup_is_drawn_with_p),
        OP_TEST(mixup_is_the_same_with_any_threads),
        OP_TEST(mixup_draws_anew_each_epoch),
        OP_TEST(mixup_goes_on_after_resume),
        OP_TEST(mixup_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
