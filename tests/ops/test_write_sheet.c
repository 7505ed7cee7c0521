/* write_sheet: the file, its size, captions, types, nothing on failure. */
#include "pictures.h"

#include "base/file.h"

static stk__image_info sheet_info(const char *name)
{
    char *data;
    size_t size;
    stk__image_info info;
    assert_int_equal(stk__read_file(in_dir(name), 1 << 24, &data, &size, NULL), STK_OK);
    assert_int_equal(stk__image_probe((const uint8_t *)data, size, false, &info, NULL), STK_OK);
    stk__free(data);
    return info;
}

static void run_sheet(const char *text)
{
    seen s;
    run_all(text, NULL, &s);
    seen_clear(&s);
}

static void write_sheet_lays_images_out_in_rows(void **state)
{
    write_pictures("p", 10, 20, 12);
    run_sheet(PICTURES " | write_sheet(\"$D/a.png\", columns=4)");
    stk__image_info info = sheet_info("a.png");
    assert_int_equal(info.width, 4 + 4 * 24);
    assert_int_equal(info.height, 4 + 3 * 16);
    run_sheet(PICTURES " | write_sheet(\"$D/b.png\", columns=4, count=3, zoom=2, caption=\"label\")");
    info = sheet_info("b.png");
    assert_int_equal(info.width, 4 + 3 * 44);
    assert_int_equal(info.height, 4 + 24 + 10 + 4);
}

/* The first pixels of the first image stand at (4, 4). */
static void write_sheet_shows_pixels(void **state)
{
    write_pictures("p", 2, 20, 12);
    run_sheet(PICTURES " | batch(2) | write_sheet(\"$D/a.png\")");
    char *data;
    size_t size;
    stk__image_info info;
    stk__image_got got;
    assert_int_equal(stk__read_file(in_dir("a.png"), 1 << 24, &data, &size, NULL), STK_OK);
    assert_int_equal(stk__image_probe((const uint8_t *)data, size, false, &info, NULL), STK_OK);
    const stk__image_want want = {.x = 28, .y = 4, .width = 20, .height = 12, .channels = 3, .exact = true};
    stk__image_decoder *codec = picture_codec();
    assert_int_equal(stk__image_decode(codec, (const uint8_t *)data, size, &info, &want, &got, NULL), STK_OK);
    for (int y = 0; y < 12; y++)
        for (int k = 0; k < 60; k++)
            assert_int_equal(stk__pixel_row(&got.pixels, 4 - got.y + y)[(28 - got.x) * 3 + k], picture_sample(1, k / 3, y, k % 3));
    stk__image_decoder_free(codec);
    stk__free(data);
}

static void write_sheet_takes_floats_and_varying_sizes(void **state)
{
    write_pictures("p", 3, 20, 12);
    run_sheet(PICTURES " | normalize(image, mean=100, std=50) | batch(3) | write_sheet(\"$D/a.png\")");
    assert_int_equal(sheet_info("a.png").height, 20);
    assert_fails(PICTURES " | cast(image=int32) | write_sheet(\"$D/b.png\")", NULL, STK_INVALID, "wanted uint8 or float32");
    assert_fails(PICTURES " | write_sheet(\"$D/b.png\", caption=\"image\")", NULL, STK_INVALID, "3 dimensions");
    assert_false(file_exists("b.png"));
}

/* 0 / 0, infinities and what lies between them have a place from black to white. */
static void write_sheet_takes_floats_that_are_no_numbers(void **state)
{
    write_pictures("p", 3, 20, 12);
    run_sheet(PICTURES " | normalize(image, mean=10, std=1e-38) | cutout(image, 4, fill=-1e30) | batch(3) | write_sheet(\"$D/a.png\")");
    assert_int_equal(sheet_info("a.png").height, 20);
    run_sheet(PICTURES " | cast(image=float32) | cutout(image, 4, fill=1e30) | normalize(image, mean=0, std=1e-38) | write_sheet(\"$D/b.png\")");
    assert_int_equal(sheet_info("b.png").height, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(write_sheet_lays_images_out_in_rows),
        OP_TEST(write_sheet_shows_pixels),
        OP_TEST(write_sheet_takes_floats_and_varying_sizes),
        OP_TEST(write_sheet_takes_floats_that_are_no_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
