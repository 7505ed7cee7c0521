/* decode_image: formats, channels, orientation, limits, damage, what runs as one. */
#include <stdlib.h>

#include "pictures.h"

/* One Example for each of the given contents. */
static void write_contents(const char *name, const stk_bytes *items, int count)
{
    stk__tfrecord_writer *file;
    stk__example_writer writer = {0};
    stk__text record = STK__TEXT_INIT;
    assert_int_equal(stk__tfrecord_writer_open(in_dir(name), STK__PLAIN, 6, &file, NULL), STK_OK);
    for (int i = 0; i < count; i++) {
        const int64_t label = i;
        stk__example_begin(&writer);
        stk__example_add_bytes(&writer, "image", &items[i], 1);
        stk__example_add_ints(&writer, "label", &label, 1);
        stk__text_reset(&record);
        assert_int_equal(stk__example_end(&writer, &record, NULL), STK_OK);
        assert_int_equal(stk__tfrecord_writer_add(file, record.data, record.length, NULL), STK_OK);
    }
    assert_int_equal(stk__tfrecord_writer_commit(file, NULL), STK_OK);
    stk__example_writer_clear(&writer);
    stk__text_clear(&record);
}

/* A smooth picture, so that JPEG keeps it well. */
static void smooth(uint8_t *pixels, int width, int height)
{
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            uint8_t *p = pixels + (y * width + x) * 3;
            p[0] = (uint8_t)(x * 200 / width + 20);
            p[1] = (uint8_t)(y * 200 / height + 20);
            p[2] = (uint8_t)(120 + (x + y) % 16);
        }
}

static stk_bytes encode(bool jpeg, int width, int height, uint8_t **out)
{
    stk__image_decoder *codec = picture_codec();
    uint8_t *pixels = stk__alloc((size_t)(width * height * 3));
    size_t size = jpeg ? stk__jpeg_bound(width, height, 3) : stk__png_bound(width, height, 3);
    *out = stk__alloc(size);
    smooth(pixels, width, height);
    const stk__pixels image = {pixels, width, height, 3, 1, (ptrdiff_t)width * 3};
    const stk_status status = jpeg ? stk__jpeg_encode(codec, &image, 95, 420, *out, &size, NULL)
                                   : stk__png_encode(codec, &image, 6, *out, &size, NULL);
    assert_int_equal(status, STK_OK);
    stk__image_decoder_free(codec);
    stk__free(pixels);
    return (stk_bytes){*out, (int64_t)size};
}

static void decode_image_gives_pixels_of_every_kind(void **state)
{
    uint8_t *a, *b;
    const stk_bytes items[2] = {encode(false, 40, 30, &a), encode(true, 40, 30, &b)};
    write_contents("p", items, 2);
    taken t;
    take_column(PICTURES " | batch(2, pad=true)", 1, "image", &t);
    assert_int_equal(t.shape[0], 30);
    assert_int_equal(t.shape[1], 40);
    for (int k = 0; k < 40 * 30 * 3; k++)
        assert_true(abs(taken_row(&t, 0)[k] - taken_row(&t, 1)[k]) < 24);
    taken_clear(&t);
    stk__free(a);
    stk__free(b);
}

static void decode_image_to_gray_and_with_alpha(void **state)
{
    write_pictures("p", 2, 6, 5);
    taken t;
    take_column("tfrecord(\"$D/p\") | parse(image=bytes, label=int64) | decode_image(image, channels=4) | batch(2, pad=true)", 1, "image", &t);
    assert_int_equal(t.shape[2], 4);
    assert_int_equal(taken_row(&t, 1)[3], 255);
    assert_int_equal(taken_row(&t, 1)[0], picture_sample(1, 0, 0, 0));
    taken_clear(&t);
    take_column("tfrecord(\"$D/p\") | parse(image=bytes, label=int64) | decode_image(image, channels=1) | batch(2, pad=true)", 1, "image", &t);
    assert_int_equal(t.shape[2], 1);
    assert_int_equal(t.size, 60);
    taken_clear(&t);
    assert_fails("tfrecord(\"$D/p\") | parse(image=bytes, label=int64) | decode_image(image, channels=2)", NULL, STK_INVALID, "channels is 2");
    assert_fails("tfrecord(\"$D/p\") | parse(image=bytes, label=int64) | decode_image(label)", NULL, STK_INVALID, "wanted bytes");
}

static void decode_image_refuses_bombs(void **state)
{
    /* A sound header that promises 60000 x 60000 pixels. */
    static const uint8_t bomb[] = {0x89, 'P', 'N', 'G', 13, 10, 26, 10, 0, 0, 0, 13, 'I', 'H', 'D', 'R', 0, 0, 0xea, 0x60,
                                   0, 0, 0xea, 0x60, 8, 2, 0, 0, 0, 0x23, 0xcc, 0xb2, 0x2b, 0, 0, 0, 0};
    const stk_bytes item = {bomb, sizeof bomb};
    write_contents("p", &item, 1);
    stk_error error;
    stk_pipeline *p;
    const stk_batch *batch;
    stk_config config = harness_config();
    assert_int_equal(try_open(PICTURES " | batch(1)", &config, &p, &error), STK_OK);
    assert_int_equal(stk_pipeline_next(p, &batch, &error), STK_CORRUPT);
    if (!strstr(error.message, "60000 x 60000") && !strstr(error.message, "IHDR"))
        fail_msg("'%s' tells neither size nor chunk", error.message);
    assert_string_equal(error.file, in_dir("p"));
    assert_int_equal(error.record, 0);
    stk_pipeline_close(p);
    write_pictures("q", 2, 30, 30);
    assert_fails("tfrecord(\"$D/q\") | parse(image=bytes) | decode_image(image, max_pixels=899)", NULL, STK_CORRUPT,
                 "PNG image of 30 x 30 pixels, wanted at most max_pixels=899");
}

static void decode_image_follows_the_error_policy(void **state)
{
    uint8_t *a, *b;
    stk_bytes items[5] = {encode(false, 40, 30, &a), {(const uint8_t *)"<html>", 6}, {NULL, 0}, encode(true, 40, 30, &b)};
    items[4] = items[0];
    items[4].size /= 2; /* cut off */
    write_contents("p", items, 5);
    assert_fails(PICTURES, NULL, STK_CORRUPT, "not an image");
    /* Ops that run as one tell which of them it was. */
    seen stopped;
    run_some(PICTURES " | random_crop(image, 4) | normalize(image)", NULL, -1, NULL, &stopped);
    assert_int_equal(stopped.status, STK_CORRUPT);
    assert_string_equal(stopped.error.op, "decode_image");
    assert_string_equal(stopped.error.field, "image");
    assert_int_equal(stopped.error.record, 1);
    seen_clear(&stopped);
    run_some(PICTURES " | take(1) | random_crop(image, 60) | batch(1)", NULL, -1, NULL, &stopped);
    assert_string_equal(stopped.error.op, "random_crop");
    seen_clear(&stopped);
    stk_config config = harness_config();
    config.on_error = STK_ON_ERROR_SKIP;
    seen s;
    run_all(PICTURES " | batch(8)", &config, &s);
    assert_int_equal(s.stats.skipped, 3);
    assert_int_equal(s.batches[0].rows, 2);
    seen_clear(&s);
    /* Pictures that run as one with other ops are decoded in pairs; a bad one does not harm its neighbour. */
    for (int64_t keep = 1; keep <= 5; keep++) {
        char text[300];
        snprintf(text, sizeof text, PICTURES " | skip(%d) | center_crop(image, 8) | batch(8)", (int)(5 - keep));
        run_all(text, &config, &s);
        static const int64_t bad[5] = {1, 1, 2, 3, 3}, good[5] = {0, 1, 1, 1, 2};
        assert_int_equal(s.stats.skipped, bad[keep - 1]);
        assert_int_equal(s.stats.samples, good[keep - 1]);
        seen_clear(&s);
    }
    stk__free(a);
    stk__free(b);
}

/* A sound JPEG whose frame is of a kind that is not read: it is a bad record as any other. */
static void decode_image_skips_what_it_does_not_support(void **state)
{
    uint8_t *a, *b;
    const stk_bytes items[2] = {encode(false, 40, 30, &a), encode(true, 40, 30, &b)};
    size_t at = 0;
    while (at + 1 < (size_t)items[1].size && !(b[at] == 0xff && b[at + 1] == 0xc0))
        at++;
    assert_true(at + 1 < (size_t)items[1].size);
    b[at + 1] = 0xc6; /* from baseline to differential progressive */
    write_contents("p", items, 2);
    stk_config config = harness_config();
    config.on_error = STK_ON_ERROR_SKIP;
    seen s;
    run_all(PICTURES " | resize(image, 8, 8) | batch(8)", &config, &s);
    assert_int_equal(s.stats.skipped, 1);
    assert_int_equal(s.batches[0].rows, 1);
    seen_clear(&s);
    assert_fails(PICTURES " | resize(image, 8, 8)", NULL, STK_UNSUPPORTED, "JPEG");
    stk__free(a);
    stk__free(b);
}

/* A sound header of one row that is as long as can be said: with pads around it its width would not fit 32 bits. */
static void decode_image_refuses_sides_that_sums_would_overflow(void **state)
{
    static const uint8_t head[] = {
        0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x7f, 0xff,
        0xff, 0xff, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0x88, 0x4d, 0x0e, 0x70, 0, 0, 0, 1, 0x49, 0x44, 0x41, 0x54,
        0x78, 0x76, 0xe6, 0x84, 0xe6, 0, 0, 0, 0, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};
    const stk_bytes item = {head, sizeof head};
    stk__image_info info;
    write_contents("p", &item, 1);
    assert_int_equal(stk__image_probe(head, sizeof head, false, &info, NULL), STK_OK);
    assert_int_equal(info.width, INT32_MAX);
    stk_config config = harness_config();
    config.on_error = STK_ON_ERROR_SKIP;
    config.memory_bytes = (int64_t)1 << 40;
    seen s;
    static const char text[] =
        "tfrecord(\"$D/p\") | parse(image=bytes) | decode_image(image, max_pixels=1000000000000) | pad(image, 65536)";
    run_all(text, &config, &s);
    assert_int_equal(s.stats.skipped, 1);
    seen_clear(&s);
    config.on_error = STK_ON_ERROR_STOP;
    assert_fails(text, &config, STK_CORRUPT, "PNG image of 2147483647 x 1 pixels, wanted at most");
}

static void decode_image_tells_what_it_approximates(void **state)
{
    write_pictures("p", 1, 6, 5);
    assert_explains(PICTURES " | random_resized_crop(image, 4, 4) | batch(1)", "approximate  decode_image");
    stk_pipeline *p;
    stk_error error;
    assert_int_equal(try_open("tfrecord(\"$D/p\") | parse(image=bytes) | decode_image(image, exact=true) | resize(image, 4, 4) | batch(1)", NULL, &p, &error), STK_OK);
    assert_null(strstr(stk_pipeline_explain(p), "approximate"));
    stk_pipeline_close(p);
}

static void decode_image_exactly_is_the_same_fused_or_not(void **state)
{
    uint8_t *bytes[8];
    stk_bytes items[8];
    for (int i = 0; i < 8; i++)
        items[i] = encode(true, 90 + 7 * i, 70 + 3 * i, &bytes[i]);
    write_contents("p", items, 8);
    assert_same_batches(PICTURES " | random_resized_crop(image, 24, 24) | random_flip(image) | normalize(image, mean=5) | layout(image) | batch(3)",
                        PICTURES " | cache | random_resized_crop(image, 24, 24) | random_flip(image) | normalize(image, mean=5) | layout(image) | batch(3)");
    assert_same_batches(PICTURES " | random_crop(image, 33, 21) | batch(3)", PICTURES " | cache | random_crop(image, 33, 21) | batch(3)");
    /* What is approximated is near. */
    taken fast, exact;
    take_column(PICTURES " | random_resized_crop(image, 24, 24) | batch(3)", 2, "image", &fast);
    take_column("tfrecord(\"$D/p\") | parse(image=bytes, label=int64) | decode_image(image, exact=true) | random_resized_crop(image, 24, 24) | batch(3)", 2,
                "image", &exact);
    assert_int_equal(fast.size, exact.size);
    for (size_t k = 0; k < fast.size; k++)
        assert_true(abs(fast.data[k] - exact.data[k]) <= 24);
    taken_clear(&fast);
    taken_clear(&exact);
    for (int i = 0; i < 8; i++)
        stk__free(bytes[i]);
}

/* A JPEG with an EXIF orientation put in behind its first marker. */
static stk_bytes oriented(stk_bytes jpeg, int orientation, uint8_t **out)
{
    const uint8_t exif[36] = {0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1,
                              0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, (uint8_t)orientation, 0, 0, 0, 0, 0, 0};
    *out = stk__alloc((size_t)jpeg.size + sizeof exif);
    memcpy(*out, jpeg.data, 2);
    memcpy(*out + 2, exif, sizeof exif);
    memcpy(*out + 2 + sizeof exif, jpeg.data + 2, (size_t)jpeg.size - 2);
    return (stk_bytes){*out, jpeg.size + (int64_t)sizeof exif};
}

/* Where a pixel of the picture as it is seen comes from. */
static void stored_place(int orientation, int x, int y, int *sx, int *sy)
{
    enum { W = 64, H = 48 };
    const int table[8][2] = {{x, y}, {W - 1 - x, y}, {W - 1 - x, H - 1 - y}, {x, H - 1 - y},
                             {y, x}, {y, H - 1 - x}, {W - 1 - y, H - 1 - x}, {W - 1 - y, x}};
    *sx = table[orientation - 1][0];
    *sy = table[orientation - 1][1];
}

static void decode_image_turns_pictures_when_asked(void **state)
{
    uint8_t *plain, *bytes;
    const stk_bytes jpeg = encode(true, 64, 48, &plain);
    taken want;
    write_contents("q", &jpeg, 1);
    take_column("tfrecord(\"$D/q\") | parse(image=bytes) | decode_image(image)", 1, "image", &want);
    for (int o = 1; o <= 8; o++) {
        const stk_bytes item = oriented(jpeg, o, &bytes);
        write_contents("p", &item, 1);
        taken t, part;
        take_column("tfrecord(\"$D/p\") | parse(image=bytes) | decode_image(image, orient=true) | batch(1, pad=true)", 1, "image", &t);
        take_column("tfrecord(\"$D/p\") | parse(image=bytes) | decode_image(image, orient=true) | center_crop(image, 20, 30)", 1, "image", &part);
        const int width = o >= 5 ? 48 : 64, height = o >= 5 ? 64 : 48;
        assert_int_equal(t.shape[0], height);
        assert_int_equal(t.shape[1], width);
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++) {
                int sx, sy;
                stored_place(o, x, y, &sx, &sy);
                assert_memory_equal(taken_row(&t, 0) + (y * width + x) * 3, taken_row(&want, 0) + (sy * 64 + sx) * 3, 3);
            }
        for (int y = 0; y < 20; y++)
            assert_memory_equal(taken_row(&part, 0) + y * 90,
                                taken_row(&t, 0) + (((height - 20) / 2 + y) * width + (width - 30) / 2) * 3, 90);
        taken_clear(&t);
        taken_clear(&part);
        stk__free(bytes);
    }
    taken_clear(&want);
    stk__free(plain);
}

/* ---- numbers and depth ---- */

/* 4 x 2 pixels, numbers 0 to 7 of a palette of 8 colours (10 i, 255 - 10 i, i), 4 bits each. */
static const uint8_t palette_png[] = {
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00, 0x00, 0x00, 0x04,
    0x00, 0x00, 0x00, 0x02, 0x04, 0x03, 0x00, 0x00, 0x00, 0x8d, 0x86, 0x60, 0x50, 0x00, 0x00, 0x00, 0x18, 0x50, 0x4c, 0x54,
    0x45, 0x00, 0xff, 0x00, 0x0a, 0xf5, 0x01, 0x14, 0xeb, 0x02, 0x1e, 0xe1, 0x03, 0x28, 0xd7, 0x04, 0x32, 0xcd, 0x05, 0x3c,
    0xc3, 0x06, 0x46, 0xb9, 0x07, 0x49, 0x5d, 0x77, 0xc6, 0x00, 0x00, 0x00, 0x0e, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63,
    0x64, 0x54, 0x62, 0x71, 0x51, 0x02, 0x00, 0x01, 0x4f, 0x00, 0x8f, 0xb3, 0x8f, 0xa1, 0xf9, 0x00, 0x00, 0x00, 0x00, 0x49,
    0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};

#define ENCODED(options) "tfrecord(\"$D/p\") | parse(image=bytes, label=int64) | decode_image(image, " options ")"

/* `count` PNGs of 16 bits; sample k of picture i is 1000 k + i. */
static void write_deep(const char *name, int count, int width, int height, int channels)
{
    stk_bytes items[8];
    uint8_t *files[8];
    stk__image_decoder *codec = picture_codec();
    uint16_t *samples = stk__alloc((size_t)(width * height * channels) * 2);
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < width * height * channels; k++)
            samples[k] = (uint16_t)(1000 * k + i);
        const stk__pixels image = {(uint8_t *)samples, width, height, channels, 2, (ptrdiff_t)width * channels * 2};
        size_t size = 0;
        files[i] = stk__alloc(stk__png_bound(width, height, 2 * channels));
        assert_int_equal(stk__png_encode(codec, &image, 6, files[i], &size, NULL), STK_OK);
        items[i] = (stk_bytes){files[i], (int64_t)size};
    }
    write_contents(name, items, count);
    for (int i = 0; i < count; i++)
        stk__free(files[i]);
    stk__free(samples);
    stk__image_decoder_free(codec);
}

static void assert_bytes(const char *text, const void *wanted, size_t size)
{
    taken t;
    take_column(text, 1, "image", &t);
    assert_int_equal(t.size, size);
    assert_memory_equal(t.data, wanted, size);
    taken_clear(&t);
}

static void decode_image_gives_the_numbers_of_a_palette(void **state)
{
    const stk_bytes items[2] = {{palette_png, sizeof palette_png}, {palette_png, sizeof palette_png}};
    static const uint8_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const uint16_t wide[] = {0, 1, 2, 3, 4, 5, 6, 7};
    write_contents("p", items, 1);
    assert_bytes(ENCODED("mode=index") " | batch(1)", numbers, 8);
    assert_bytes(ENCODED("mode=index, dtype=uint16") " | batch(1)", wide, 16);
    assert_bytes(ENCODED("mode=index") " | center_crop(image, 1, 2) | batch(1)", (const uint8_t[]){1, 2}, 2);
    assert_bytes(ENCODED("mode=index") " | resize(image, 4, 2, filter=nearest) | batch(1)",
                 (const uint8_t[]){1, 3, 1, 3, 5, 7, 5, 7}, 8);
    /* As a picture it needs no word, and gray of its colours one. */
    assert_bytes(ENCODED("") " | center_crop(image, 1, 1) | batch(1)", (const uint8_t[]){10, 245, 1}, 3);
    assert_fails(ENCODED("channels=1"), NULL, STK_INVALID,
                 "PNG with a palette of 8 colours: mode=index gives the numbers of its pixels, as for a mask of classes, "
                 "mode=color the gray of their colours");
    assert_bytes(ENCODED("channels=1, mode=color") " | center_crop(image, 1, 1) | batch(1)", (const uint8_t[]){147}, 1);
    /* In pairs as well. */
    write_contents("p", items, 2);
    assert_bytes(ENCODED("mode=index") " | center_crop(image, 1, 2) | batch(2)", (const uint8_t[]){1, 2, 1, 2}, 4);
    assert_fails(ENCODED("mode=index, channels=3"), NULL, STK_INVALID, "channels is 3 with mode=index");
}

static void decode_image_refuses_numbers_where_there_are_none(void **state)
{
    uint8_t *a, *b;
    const stk_bytes items[3] = {{palette_png, sizeof palette_png}, encode(true, 8, 8, &a), encode(false, 8, 8, &b)};
    write_contents("p", items, 3);
    assert_fails(ENCODED("mode=index"), NULL, STK_UNFIT,
                 "JPEG of 8 bits of colour, wanted one whole number for each pixel: a PNG or GIF with a palette, or a gray PNG");
    /* They are records that do not fit, as any other. */
    stk_config config = harness_config();
    config.on_error = STK_ON_ERROR_SKIP;
    seen s;
    run_all(ENCODED("mode=index") " | batch(8)", &config, &s);
    assert_int_equal(s.stats.skipped, 2);
    seen_clear(&s);
    /* What was not said is no damage: nothing is skipped for it. */
    write_contents("p", items, 1);
    run_some(ENCODED("channels=1") " | batch(8)", &config, -1, NULL, &s);
    assert_int_equal(s.status, STK_INVALID);
    seen_clear(&s);
    stk__free(a);
    stk__free(b);
}

static void classes_are_not_mixed(void **state)
{
    const stk_bytes item = {palette_png, sizeof palette_png};
    write_contents("p", &item, 1);
    static const char *const ops[] = {
        "resize(image, 8)", "random_resized_crop(image, 8)", "random_rotate(image)", "gaussian_blur(image, 3)",
        "color_jitter(image, brightness=0.5)", "trivial_augment(image)", "encode_jpeg(image)",
        "center_crop(image, 2) | random_flip(image) | resize(image, 8)",
        "layout(image, CHW) | layout(image, HWC) | resize(image, 8)",
        "resize(image, 4, 4, filter=nearest) | one_hot(label, 2) | batch(1) | mixup(image, label)"};
    for (size_t i = 0; i < STK_COUNT(ops); i++) {
        char text[400];
        snprintf(text, sizeof text, ENCODED("mode=index") " | %s", ops[i]);
        assert_fails(text, NULL, STK_INVALID, "has the numbers of classes");
    }
    static const char *const good[] = {"resize(image, 8, filter=nearest)", "random_resized_crop(image, 8, filter=nearest)",
                                       "random_rotate(image, filter=nearest)", "pad(image, 2)", "encode_png(image)",
                                       "cast(image=int64)", "random_flip(image)", "random_crop(image, 1)"};
    for (size_t i = 0; i < STK_COUNT(good); i++) {
        char text[400];
        taken t;
        snprintf(text, sizeof text, ENCODED("mode=index") " | %s | batch(1)", good[i]);
        take_column(text, 1, "image", &t);
        taken_clear(&t);
    }
}

static void decode_image_keeps_16_bits(void **state)
{
    uint16_t all[4 * 3 * 3];
    for (int k = 0; k < 36; k++)
        all[k] = (uint16_t)(1000 * k);
    write_deep("p", 1, 4, 3, 1);
    assert_bytes(ENCODED("channels=1, dtype=uint16") " | batch(1)", all, 24);
    assert_bytes(ENCODED("mode=index, dtype=uint16") " | batch(1)", all, 24);
    assert_bytes(ENCODED("channels=4, dtype=uint16") " | center_crop(image, 1) | batch(1)",
                 (const uint16_t[]){5000, 5000, 5000, 65535}, 8);
    write_deep("p", 1, 4, 3, 3);
    assert_bytes(ENCODED("dtype=uint16") " | batch(1)", all, 72);
    /* A gray one that nobody said anything about is no picture of 8 bits; a coloured one is. */
    uint8_t high[36];
    for (int k = 0; k < 36; k++)
        high[k] = (uint8_t)(all[k] >> 8);
    assert_bytes(ENCODED("dtype=uint8") " | batch(1)", high, 36);
    assert_bytes(ENCODED("") " | batch(1)", high, 36);
    write_deep("p", 1, 4, 3, 1);
    assert_fails(ENCODED("channels=1"), NULL, STK_INVALID,
                 "PNG of 16 bits of gray, as depth maps and scans are: dtype=uint16 keeps all of them, dtype=uint8 the high 8");
    assert_fails(ENCODED(""), NULL, STK_INVALID, "dtype=uint16 keeps all of them");
    assert_fails(ENCODED("mode=index"), NULL, STK_INVALID, "mode=index wants dtype=uint16");
    assert_bytes(ENCODED("channels=1, dtype=uint8") " | batch(1)", high, 12);
}

static void keep_log(void *arg, stk_log_level level, const char *text)
{
    assert_int_equal(level, STK_LOG_WARNING);
    stk__text_printf(arg, "%s\n", text);
}

static void decode_image_tells_once_that_colours_of_16_bits_are_cut(void **state)
{
    write_deep("p", 8, 4, 3, 3);
    stk_config config = harness_config();
    stk__text log = STK__TEXT_INIT;
    config.log = keep_log;
    config.log_arg = &log;
    config.threads = 1;
    seen s;
    run_all(ENCODED("") " | batch(2)", &config, &s);
    seen_clear(&s);
    assert_string_equal(log.data, "decode_image: field 'image' has a PNG of 16 bits of colour, of which the high 8 are kept; "
                                  "dtype=uint16 keeps all, dtype=uint8 says that 8 are meant\n");
    stk__text_reset(&log);
    run_all(ENCODED("dtype=uint8") " | batch(2)", &config, &s);
    seen_clear(&s);
    run_all(ENCODED("dtype=uint16") " | batch(2)", &config, &s);
    seen_clear(&s);
    assert_int_equal(log.length, 0);
    stk__text_clear(&log);
}

static void eight_bits_of_gray_as_uint16_need_a_word(void **state)
{
    uint8_t png[200];
    size_t size;
    stk__image_decoder *codec = picture_codec();
    const stk__pixels gray = {(uint8_t[]){3, 200}, 2, 1, 1, 1, 2};
    assert_true(stk__png_bound(2, 1, 1) <= sizeof png);
    assert_int_equal(stk__png_encode(codec, &gray, 6, png, &size, NULL), STK_OK);
    const stk_bytes item = {png, (int64_t)size};
    write_contents("p", &item, 1);
    assert_fails(ENCODED("channels=1, dtype=uint16"), NULL, STK_INVALID,
                 "PNG of 8 bits of gray, and dtype=uint16: mode=index keeps its numbers as they are, mode=color spreads them "
                 "over 0 to 65535");
    assert_bytes(ENCODED("mode=index, dtype=uint16") " | batch(1)", (const uint16_t[]){3, 200}, 4);
    assert_bytes(ENCODED("mode=color, channels=1, dtype=uint16") " | batch(1)", (const uint16_t[]){3 * 257, 200 * 257}, 4);
    assert_bytes(ENCODED("mode=index") " | batch(1)", (const uint8_t[]){3, 200}, 2);
    stk__image_decoder_free(codec);
}

static void ops_on_uint16_work_or_say_that_they_do_not(void **state)
{
    write_deep("p", 6, 5, 4, 3);
    static const char *const ops[] = {"center_crop(image, 3, 2)", "random_crop(image, 2)", "random_flip(image)",
                                      "pad(image, 2, mode=reflect)", "resize(image, 7, 3, filter=nearest)",
                                      "random_resized_crop(image, 4, filter=nearest)", "cutout(image, 2, 2)",
                                      "random_erasing(image)", "layout(image, CHW)", "cast(image=float32)",
                                      "encode_png(image)", "center_crop(image, 3) | random_flip(image) | resize(image, 6, filter=nearest) "
                                      "| random_crop(image, 4) | layout(image, CHW) | cast(image=float32)"};
    for (size_t i = 0; i < STK_COUNT(ops); i++) {
        char fused[500], alone[500];
        snprintf(fused, sizeof fused, ENCODED("dtype=uint16") " | take(100000) | %s | batch(4)", ops[i]);
        snprintf(alone, sizeof alone, ENCODED("dtype=uint16") " | cache | %s | batch(4)", ops[i]);
        assert_same_batches(fused, alone);
    }
    assert_explains(ENCODED("dtype=uint16") " | center_crop(image, 3) | resize(image, 2, filter=nearest) | batch(2)", "run as one");
    assert_fails(ENCODED("dtype=uint16") " | resize(image, 8)", NULL, STK_INVALID,
                 "field 'image' is uint16, which filter=nearest alone can work on");
    static const char *const bad[] = {"random_rotate(image, filter=nearest)", "gaussian_blur(image, 3)", "grayscale(image)",
                                      "color_jitter(image, brightness=0.5)", "rand_augment(image)", "encode_jpeg(image)"};
    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        char text[400];
        snprintf(text, sizeof text, ENCODED("dtype=uint16") " | %s", bad[i]);
        assert_fails(text, NULL, STK_INVALID, "is uint16, wanted uint8: this op has no way for 16 bits");
    }
    assert_fails(ENCODED("dtype=uint16") " | normalize(image)", NULL, STK_INVALID, "cast it to float32 before this");
    uint16_t nearest[2 * 2 * 3];
    for (int k = 0; k < 12; k++)
        nearest[k] = (uint16_t)(1000 * ((k / 6 * 2 + 1) * 15 + (k / 3 % 2 ? 3 : 1) * 3 + k % 3));
    assert_bytes(ENCODED("dtype=uint16") " | take(1) | resize(image, 2, 2, filter=nearest) | batch(1)", nearest, 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(decode_image_gives_pixels_of_every_kind),
        OP_TEST(decode_image_to_gray_and_with_alpha),
        OP_TEST(decode_image_refuses_bombs),
        OP_TEST(decode_image_follows_the_error_policy),
        OP_TEST(decode_image_skips_what_it_does_not_support),
        OP_TEST(decode_image_refuses_sides_that_sums_would_overflow),
        OP_TEST(decode_image_tells_what_it_approximates),
        OP_TEST(decode_image_exactly_is_the_same_fused_or_not),
        OP_TEST(decode_image_turns_pictures_when_asked),
        OP_TEST(decode_image_gives_the_numbers_of_a_palette),
        OP_TEST(decode_image_refuses_numbers_where_there_are_none),
        OP_TEST(classes_are_not_mixed),
        OP_TEST(decode_image_keeps_16_bits),
        OP_TEST(decode_image_tells_once_that_colours_of_16_bits_are_cut),
        OP_TEST(eight_bits_of_gray_as_uint16_need_a_word),
        OP_TEST(ops_on_uint16_work_or_say_that_they_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
