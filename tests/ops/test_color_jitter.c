/* color_jitter: what each change does to pixels, how often, and that fusing changes nothing. */
#include "pictures.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/color.h"

#define SIDE 16
#define PIXELS (SIDE * SIDE)

/* Pictures whose samples do not wrap, so that they are even ramps. */
static void take_changed(const char *op, int count, taken *out)
{
    char text[512];
    write_pictures("p", count, SIDE, SIDE);
    snprintf(text, sizeof text, PICTURES " | %s | batch(10)", op);
    take_column(text, 2, "image", out);
    assert_int_equal(out->rows, count);
    assert_int_equal(out->stride, PIXELS * 3);
}

static void original(int i, uint8_t *out)
{
    for (int k = 0; k < PIXELS * 3; k++)
        out[k] = picture_sample(i, k / 3 % SIDE, k / 3 / SIDE, k % 3);
}

static double mean_luma(const uint8_t *p)
{
    double sum = 0;
    for (int k = 0; k < PIXELS; k++)
        sum += stk__luma(p[3 * k], p[3 * k + 1], p[3 * k + 2]);
    return sum / PIXELS;
}

static void color_jitter_without_options_changes_nothing(void **state)
{
    write_pictures("p", 20, SIDE, SIDE);
    assert_same_batches(PICTURES " | batch(8)", PICTURES " | color_jitter(image) | batch(8)");
    assert_same_batches(PICTURES " | batch(8)", PICTURES " | color_jitter(image, 0.5, 0.5, 0.5, 0.5, p=0) | batch(8)");
}

static void brightness_multiplies(void **state)
{
    taken t;
    uint8_t in[PIXELS * 3];
    int64_t darker = 0;
    take_changed("color_jitter(image, brightness=0.5)", 300, &t);
    for (int i = 0; i < 300; i++) {
        const uint8_t *out = taken_row(&t, i);
        original(i, in);
        /* The sample that says most about the factor: the largest one that was not cut off. */
        int best = 0;
        for (int k = 0; k < PIXELS * 3; k++)
            if (out[k] < 255 && (in[k] > in[best] || out[best] == 255))
                best = k;
        const double factor = (out[best] + 0.5) / in[best];
        if (in[best] < 64 || out[best] == 255)
            continue;
        assert_true(factor > 0.48 && factor < 1.52);
        darker += factor < 1;
        for (int k = 0; k < PIXELS * 3; k++)
            assert_true(fabs(out[k] - fmin(255, in[k] * factor)) < 1 + in[k] / (double)in[best]);
    }
    assert_true(darker > 90 && darker < 210);
    taken_clear(&t);
}

/* Between brightness and contrast the order makes no difference where nothing is cut off: out = a * in + b. */
static void contrast_and_brightness_are_linear_together(void **state)
{
    taken t;
    uint8_t in[PIXELS * 3];
    take_changed("color_jitter(image, brightness=0.1, contrast=0.5)", 24, &t);
    for (int i = 4; i < 20; i++) {
        const uint8_t *out = taken_row(&t, i);
        original(i, in);
        const double slope = (out[(SIDE - 1) * 3] - out[0]) / (double)(SIDE - 1), base = out[0] - slope * in[0];
        assert_true(slope > 0.9 * 0.5 - 0.15 && slope < 1.1 * 1.5 + 0.15);
        for (int k = 0; k < PIXELS * 3; k++)
            if (k % 3 != 2) /* blue is far from the others */
                assert_true(fabs(out[k] - (slope * in[k] + base)) < 5);
    }
    taken_clear(&t);
}

static void contrast_keeps_the_mean(void **state)
{
    taken t;
    uint8_t in[PIXELS * 3];
    bool more = false, less = false;
    take_changed("color_jitter(image, contrast=0.4)", 24, &t);
    for (int i = 4; i < 20; i++) {
        const uint8_t *out = taken_row(&t, i);
        original(i, in);
        /* Blue may be cut off at 0, which adds a little. */
        assert_true(fabs(mean_luma(out) - mean_luma(in)) < 4);
        more = more || out[(SIDE - 1) * 3] - out[0] > in[(SIDE - 1) * 3] - in[0] + 1;
        less = less || out[(SIDE - 1) * 3] - out[0] < in[(SIDE - 1) * 3] - in[0] - 1;
    }
    assert_true(more && less);
    taken_clear(&t);
}

static void saturation_keeps_luma(void **state)
{
    taken t;
    uint8_t in[PIXELS * 3];
    bool more = false, less = false;
    take_changed("color_jitter(image, saturation=0.5)", 24, &t);
    for (int i = 6; i < 18; i++) {
        const uint8_t *out = taken_row(&t, i);
        original(i, in);
        for (int k = 0; k < PIXELS; k++) {
            const uint8_t *a = in + 3 * k, *b = out + 3 * k;
            if (b[2] > 0) /* else it was cut off */
                assert_true(abs(stk__luma(a[0], a[1], a[2]) - stk__luma(b[0], b[1], b[2])) <= 2);
        }
        const int was = in[0] - in[2], is = out[0] - out[2];
        more = more || is > was + 2;
        less = less || is < was - 2;
    }
    assert_true(more && less);
    taken_clear(&t);
}

static int largest(const uint8_t *p)
{
    return STK_MAX(p[0], STK_MAX(p[1], p[2]));
}

static int smallest(const uint8_t *p)
{
    return STK_MIN(p[0], STK_MIN(p[1], p[2]));
}

static void hue_keeps_value_and_saturation(void **state)
{
    taken t;
    uint8_t in[PIXELS * 3];
    int changed = 0;
    take_changed("color_jitter(image, hue=0.5)", 24, &t);
    for (int i = 0; i < 24; i++) {
        const uint8_t *out = taken_row(&t, i);
        original(i, in);
        for (int k = 0; k < PIXELS * 3; k += 3)
            assert_true(abs(largest(in + k) - largest(out + k)) <= 2 && abs(smallest(in + k) - smallest(out + k)) <= 2);
        changed += memcmp(in, out, sizeof in) != 0;
    }
    assert_true(changed >= 20);
    taken_clear(&t);
}

static void color_jitter_is_drawn_with_p(void **state)
{
    taken t;
    uint8_t in[PIXELS * 3];
    int64_t changed = 0;
    take_changed("color_jitter(image, 0.9, 0.9, p=0.3)", 400, &t);
    for (int i = 0; i < 400; i++) {
        original(i, in);
        changed += memcmp(taken_row(&t, i), in, sizeof in) != 0;
    }
    assert_about(changed, 400, 0.3);
    taken_clear(&t);
}

static void color_jitter_of_other_channels(void **state)
{
    taken t;
    write_pictures("p", 10, SIDE, SIDE);
    take_column("tfrecord(\"$D/p\") | parse(image=bytes) | decode_image(image, channels=4) | "
                "color_jitter(image, 0.5, 0.5, 0.5, 0.5) | batch(10)",
                2, "image", &t);
    for (size_t k = 3; k < t.size; k += 4)
        assert_int_equal(t.data[k], 255); /* alpha */
    taken_clear(&t);
    take_column("tfrecord(\"$D/p\") | parse(image=bytes) | decode_image(image, channels=1) | "
                "color_jitter(image, saturation=0.9, hue=0.5) | batch(10)",
                2, "image", &t);
    assert_int_equal(t.data[0],
                     stk__luma(picture_sample(0, 0, 0, 0), picture_sample(0, 0, 0, 1), picture_sample(0, 0, 0, 2)));
    assert_int_equal(t.size, 10 * PIXELS);
    taken_clear(&t);
}

static void color_jitter_fused_is_the_same(void **state)
{
    write_pictures("p", 40, 21, 13);
    assert_fused_is_the_same("color_jitter(image, 0.4, 0.4, 0.4, 0.2)");
    assert_fused_is_the_same("random_flip(image) | color_jitter(image, 0.4, 0.4, 0.4, 0.2) | pad(image, 2)");
}

static void color_jitter_refuses(void **state)
{
    write_pictures("p", 2, 4, 4);
    assert_refused(PICTURES " |\ncolor_jitter(image, hue=0.6)", NULL, STK_INVALID, "hue", 2, 25);
    assert_refused(PICTURES " |\ncolor_jitter(label)", NULL, STK_INVALID, "wanted an image", 2, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(color_jitter_without_options_changes_nothing),
        OP_TEST(brightness_multiplies),
        OP_TEST(contrast_and_brightness_are_linear_together),
        OP_TEST(contrast_keeps_the_mean),
        OP_TEST(saturation_keeps_luma),
        OP_TEST(hue_keeps_value_and_saturation),
        OP_TEST(color_jitter_is_drawn_with_p),
        OP_TEST(color_jitter_of_other_channels),
        OP_TEST(color_jitter_fused_is_the_same),
        OP_TEST(color_jitter_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
