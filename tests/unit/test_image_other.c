/* Tests of BMP, GIF and WebP, and of telling formats apart. */
#include "image_decoder.h"

#include <gif_lib.h>
#include <webp/encode.h>

typedef struct bytes {
    uint8_t data[1 << 16];
    size_t size;
} bytes;

static void put(bytes *b, const void *data, size_t size)
{
    assert_true(size <= sizeof b->data - b->size);
    if (size)
        memcpy(b->data + b->size, data, size);
    b->size += size;
}

static void put16(bytes *b, uint32_t x)
{
    put(b, (uint8_t[]){(uint8_t)x, (uint8_t)(x >> 8)}, 2);
}

static void put32(bytes *b, uint32_t x)
{
    put16(b, x & 0xffff);
    put16(b, x >> 16);
}

static void expect_pixels(const bytes *b, int32_t channels, const uint8_t *wanted, size_t size)
{
    memory_use use;
    stk__image_decoder *decoder = decoder_new(&use);
    uint8_t *found = decode_tight(decoder, b->data, b->size, (stk__image_want){.channels = channels});
    assert_memory_equal(found, wanted, size);
    free(found);
    decoder_free(decoder, &use);
}

static void expect_refused(const uint8_t *data, size_t size, const char *part)
{
    memory_use use;
    stk__image_decoder *decoder = decoder_new(&use);
    stk__image_got got;
    stk_error err;
    const stk_status status = decode(decoder, data, size, &(stk__image_want){.channels = 3}, &got, &err);
    if (status != STK_CORRUPT || !strstr(err.message, part))
        fail_msg("status %d, message \"%s\", wanted \"%s\"", (int)status, err.message, part);
    decoder_free(decoder, &use);
}

/* Every shorter file is refused; `last` bytes at the end may be missing. */
static void expect_cuts_refused(const bytes *b, size_t last)
{
    memory_use use;
    stk__image_decoder *decoder = decoder_new(&use);
    for (size_t size = 0; size + last < b->size; size++) {
        stk__image_got got;
        stk_error err;
        if (decode(decoder, b->data, size, &(stk__image_want){.channels = 3}, &got, &err) != STK_CORRUPT)
            fail_msg("%zu of %zu bytes were read", size, b->size);
    }
    decoder_free(decoder, &use);
}

/* ---- any format ---- */

static void what_is_no_image_is_named_by_its_first_bytes(void **state)
{
    (void)state;
    expect_refused((const uint8_t *)"<html>", 6, "not an image: starts with 3c 68 74 6d 6c 3e");
    expect_refused((const uint8_t *)"RIFF\4\0\0\0WAVE", 12, "not an image: starts with 52 49 46 46 04 00 00 00,");
    expect_refused((const uint8_t *)"", 0, "it is empty");
    assert_string_equal(stk__image_kind_name(STK__IMAGE_WEBP), "WebP");
    assert_string_equal(stk__image_kind_name(STK__IMAGE_UNKNOWN), "unknown");
}

/* ---- BMP ---- */

static void bmp_head(bytes *b, int32_t width, int32_t height, int bits, uint32_t compression, uint32_t before_pixels)
{
    b->size = 0;
    put(b, "BM", 2);
    put32(b, 0);
    put32(b, 0);
    put32(b, 54 + before_pixels);
    put32(b, 40);
    put32(b, (uint32_t)width);
    put32(b, (uint32_t)height);
    put16(b, 1);
    put16(b, (uint32_t)bits);
    put32(b, compression);
    for (int i = 0; i < 5; i++)
        put32(b, 0);
}

static const uint8_t four_colors[16] = {0, 0, 0, 0, 30, 20, 10, 0, 60, 50, 40, 0, 255, 255, 255, 0}; /* BGR0 */

/* A palette of 16 of which four are not black. */
static void put_palette(bytes *b, size_t count)
{
    static const uint8_t none[4];
    put(b, four_colors, sizeof four_colors);
    for (size_t i = 4; i < count; i++)
        put(b, none, 4);
}

static void bmp_of_24_bits_reads_from_the_bottom_or_the_top(void **state)
{
    (void)state;
    bytes *b = malloc(sizeof *b);
    assert_non_null(b);
    static const uint8_t pixels[] = {3, 2, 1, 6, 5, 4, 0, 0, 9, 8, 7, 12, 11, 10, 0, 0};
    bmp_head(b, 2, 2, 24, 0, 0);
    put(b, pixels, sizeof pixels);
    expect_pixels(b, 3, (uint8_t[]){7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6}, 12);
    expect_pixels(b, 4, (uint8_t[]){7, 8, 9, 255, 10, 11, 12, 255, 1, 2, 3, 255, 4, 5, 6, 255}, 16);
    expect_cuts_refused(b, 2);
    bmp_head(b, 2, -2, 24, 0, 0);
    put(b, pixels, sizeof pixels);
    expect_pixels(b, 3, (uint8_t[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 12);
    free(b);
}

static void bmp_with_palette_of_every_width_reads(void **state)
{
    (void)state;
    bytes *b = malloc(sizeof *b);
    assert_non_null(b);
    static const uint8_t wanted[] = {10, 20, 30, 0, 0, 0, 10, 20, 30};
    static const struct {
        int bits;
        uint8_t row[4];
    } kinds[] = {{1, {0xa0}}, {2, {0x44}}, {4, {0x10, 0x10}}, {8, {1, 0, 1}}};
    for (size_t i = 0; i < STK_COUNT(kinds); i++) {
        const uint32_t colors = 1u << kinds[i].bits;
        bmp_head(b, 3, 1, kinds[i].bits, 0, 4 * colors);
        if (colors < 4)
            put(b, four_colors, 8);
        else
            put_palette(b, colors);
        put(b, kinds[i].row, 4);
        expect_pixels(b, 3, wanted, sizeof wanted);
        expect_pixels(b, 1, (uint8_t[]){18, 0, 18}, 3);
    }
    free(b);
}

static void bmp_with_run_lengths_reads(void **state)
{
    (void)state;
    bytes *b = malloc(sizeof *b);
    assert_non_null(b);
    /* Bottom row: 3 times colour 2, one of 1; top row: three as they are (1 3 2), padded, and one that is left out. */
    static const uint8_t rle8[] = {3, 2, 1, 1, 0, 0, 0, 3, 1, 3, 2, 0, 0, 1};
    static const uint8_t rle4[] = {4, 0x22, 0, 2, 3, 0, 0, 0, 0, 3, 0x13, 0x20, 0, 1};
    bmp_head(b, 4, 2, 8, 1, 1024);
    put_palette(b, 256);
    put(b, rle8, sizeof rle8);
    expect_pixels(b, 3, (uint8_t[]){10, 20, 30, 255, 255, 255, 40, 50, 60, 0,  0,  0,
                                    40, 50, 60, 40,  50,  60,  40, 50, 60, 10, 20, 30},
                  24);
    expect_cuts_refused(b, 0);
    bmp_head(b, 4, 2, 4, 2, 64);
    put_palette(b, 16);
    put(b, rle4, sizeof rle4);
    /* The jump of three pixels goes past the row: what follows starts on the next line. */
    expect_pixels(b, 3, (uint8_t[]){10, 20, 30, 255, 255, 255, 40, 50, 60, 0,  0,  0,
                                    40, 50, 60, 40,  50,  60,  40, 50, 60, 40, 50, 60},
                  24);
    free(b);
}

static void bmp_with_masks_reads(void **state)
{
    (void)state;
    bytes *b = malloc(sizeof *b);
    assert_non_null(b);
    bmp_head(b, 2, 1, 16, 0, 0);
    put16(b, 0x7c00 | 0x1f);
    put16(b, 16 << 5);
    expect_pixels(b, 3, (uint8_t[]){255, 0, 255, 0, 132, 0}, 6);
    bmp_head(b, 2, 1, 16, 3, 12);
    put32(b, 0xf800);
    put32(b, 0x07e0);
    put32(b, 0x001f);
    put16(b, 0xf800);
    put16(b, 32 << 5);
    expect_pixels(b, 3, (uint8_t[]){255, 0, 0, 0, 130, 0}, 6);
    bmp_head(b, 1, 1, 32, 6, 16);
    put32(b, 0xff);
    put32(b, 0xff00);
    put32(b, 0xff0000);
    put32(b, 0xff000000);
    put32(b, 0x04030201);
    expect_pixels(b, 4, (uint8_t[]){1, 2, 3, 4}, 4);
    stk__image_info info;
    assert_int_equal(stk__image_probe(b->data, b->size, true, &info, NULL), STK_OK);
    assert_int_equal(info.channels, 4);
    free(b);
}

static void bmp_damage_is_named(void **state)
{
    (void)state;
    bytes *b = malloc(sizeof *b);
    assert_non_null(b);
    bmp_head(b, 0, 2, 24, 0, 0);
    expect_refused(b->data, b->size, "0 x 2 pixels");
    bmp_head(b, 2, 2, 24, 4, 0);
    expect_refused(b->data, b->size, "24 bits with compression 4");
    bmp_head(b, 2, 2, 8, 0, 0);
    put32(b, 0);
    expect_refused(b->data, b->size, "no room for a palette");
    bmp_head(b, 1, 1, 8, 0, 16);
    put_palette(b, 4);
    put32(b, 4);
    expect_refused(b->data, b->size, "pixel with colour 4, but its palette has 4");
    bmp_head(b, INT32_MAX, INT32_MIN, 32, 0, 0);
    expect_refused(b->data, b->size, "BMP is damaged");
    bmp_head(b, INT32_MAX, INT32_MAX, 8, 0, 16);
    put_palette(b, 4);
    memory_use use;
    stk__image_decoder *decoder = decoder_new(&use);
    stk__image_got got;
    stk_error err;
    assert_int_equal(decode(decoder, b->data, b->size, &(stk__image_want){5, 5, 2, 2, 3, 0, 0, false}, &got, &err),
                     STK_CORRUPT);
    assert_non_null(strstr(err.message, "is cut off"));
    decoder_free(decoder, &use);
    free(b);
}

/* ---- GIF ---- */

static int gif_write(GifFileType *gif, const GifByteType *data, int size)
{
    put(gif->UserData, data, (size_t)size);
    return size;
}

typedef struct gif_kind {
    int width, height; /* of the screen */
    GifImageDesc frame;
    int transparent; /* -1: none */
    int background;
} gif_kind;

/* Pixels of the frame are their position modulo 4, counted along rows. */
static void gif_make(bytes *b, const gif_kind *kind)
{
    static GifColorType colors[4] = {{1, 2, 3}, {10, 20, 30}, {40, 50, 60}, {255, 255, 255}};
    b->size = 0;
    int code;
    GifFileType *gif = EGifOpen(b, gif_write, &code);
    ColorMapObject *map = GifMakeMapObject(4, colors);
    assert_true(gif && map);
    EGifSetGifVersion(gif, true);
    assert_int_equal(EGifPutScreenDesc(gif, kind->width, kind->height, 2, kind->background, map), GIF_OK);
    if (kind->transparent >= 0) {
        const GraphicsControlBlock control = {0, false, 0, kind->transparent};
        GifByteType block[4];
        assert_int_equal(EGifPutExtension(gif, GRAPHICS_EXT_FUNC_CODE, (int)EGifGCBToExtension(&control, block), block),
                         GIF_OK);
    }
    const GifImageDesc *f = &kind->frame;
    assert_int_equal(EGifPutImageDesc(gif, f->Left, f->Top, f->Width, f->Height, f->Interlace, NULL), GIF_OK);
    static const struct {
        int start, step;
    } passes[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}}, plain = {0, 1};
    for (int p = 0; p < (f->Interlace ? 4 : 1); p++) {
        const int step = f->Interlace ? passes[p].step : plain.step;
        for (int y = f->Interlace ? passes[p].start : plain.start; y < f->Height; y += step) {
            GifPixelType line[256];
            for (int x = 0; x < f->Width; x++)
                line[x] = (GifPixelType)((y * f->Width + x) % 4);
            assert_int_equal(EGifPutLine(gif, line, f->Width), GIF_OK);
        }
    }
    GifFreeMapObject(map);
    assert_int_equal(EGifCloseFile(gif, &code), GIF_OK);
}

/* RGBA of the whole screen, by the plain rule. To be freed. */
static uint8_t *gif_wanted(const gif_kind *kind)
{
    static const uint8_t colors[4][3] = {{1, 2, 3}, {10, 20, 30}, {40, 50, 60}, {255, 255, 255}};
    uint8_t *out = malloc((size_t)(kind->width * kind->height * 4));
    assert_non_null(out);
    for (int y = 0; y < kind->height; y++) {
        for (int x = 0; x < kind->width; x++) {
            const int fx = x - kind->frame.Left, fy = y - kind->frame.Top;
            const bool inside = fx >= 0 && fy >= 0 && fx < kind->frame.Width && fy < kind->frame.Height;
            const int index = inside ? (fy * kind->frame.Width + fx) % 4 : kind->background;
            const bool seen = inside && index != kind->transparent;
            uint8_t *p = out + 4 * (y * kind->width + x);
            memcpy(p, colors[seen ? index : kind->background], 3);
            p[3] = seen ? 255 : 0;
        }
    }
    return out;
}

static void gif_frame_is_composed_on_its_screen(void **state)
{
    (void)state;
    memory_use use;
    stk__image_decoder *decoder = decoder_new(&use);
    bytes *b = malloc(sizeof *b);
    assert_non_null(b);
    static const gif_kind kinds[] = {
        {13, 17, {0, 0, 13, 17, false, NULL}, -1, 0}, {13, 17, {0, 0, 13, 17, true, NULL}, 2, 3},
        {13, 17, {3, 5, 6, 7, false, NULL}, 1, 2},    {13, 17, {3, 5, 20, 30, true, NULL}, -1, 1},
        {1, 1, {0, 0, 1, 1, false, NULL}, -1, 0},     {13, 17, {20, 0, 3, 3, false, NULL}, -1, 1},
    };
    dice d = {1};
    for (size_t i = 0; i < STK_COUNT(kinds); i++) {
        const gif_kind *kind = &kinds[i];
        gif_make(b, kind);
        uint8_t *wanted = gif_wanted(kind);
        expect_pixels(b, 4, wanted, (size_t)(kind->width * kind->height * 4));
        for (int k = 0; k < 5; k++)
            check_part(decoder, b->data, b->size, wanted, kind->width, random_part(&d, kind->width, kind->height, 4));
        stk__image_info info;
        assert_int_equal(stk__image_probe(b->data, b->size, false, &info, NULL), STK_OK);
        assert_int_equal(info.channels, i == 0 || i == 4 ? 3 : 4);
        free(wanted);
    }
    free(b);
    decoder_free(decoder, &use);
}

static void gif_damage_is_named(void **state)
{
    (void)state;
    bytes *b = malloc(sizeof *b);
    assert_non_null(b);
    const gif_kind kind = {13, 17, {0, 0, 13, 17, false, NULL}, 2, 3};
    gif_make(b, &kind);
    expect_cuts_refused(b, 4);
    b->data[6] = b->data[7] = 0;
    expect_refused(b->data, b->size, "its screen has 0 x 17 pixels");
    gif_make(b, &kind);
    b->data[13 + 12] = 0x77;
    expect_refused(b->data, b->size, "block 77 at byte 25 of the image");
    gif_make(b, &kind);
    b->data[13 + 12] = 0x3b;
    expect_refused(b->data, b->size, "no frame");
    gif_make(b, &kind);
    b->data[10] &= 0x7f; /* the table is taken for blocks */
    expect_refused(b->data, b->size, "GIF is damaged: block 01");
    free(b);
}

/* ---- WebP ---- */

static void webp_make(bytes *b, const uint8_t *data, int width, int height, int channels, bool lossless, float quality)
{
    uint8_t *out = NULL;
    size_t size;
    if (channels == 4)
        size = lossless ? WebPEncodeLosslessRGBA(data, width, height, width * 4, &out)
                        : WebPEncodeRGBA(data, width, height, width * 4, quality, &out);
    else
        size = lossless ? WebPEncodeLosslessRGB(data, width, height, width * 3, &out)
                        : WebPEncodeRGB(data, width, height, width * 3, quality, &out);
    b->size = 0;
    put(b, out, size);
    assert_true(size > 0);
    WebPFree(out);
}

static void webp_part_is_that_of_the_whole(void **state)
{
    (void)state;
    memory_use use;
    stk__image_decoder *decoder = decoder_new(&use);
    bytes *b = malloc(sizeof *b);
    assert_non_null(b);
    dice d = {1};
    for (int i = 0; i < 24; i++) {
        const int32_t width = 1 + (int32_t)roll(&d, 90), height = 1 + (int32_t)roll(&d, 90), stored = i % 2 ? 4 : 3;
        uint8_t *data = picture(&d, width, height, stored, 1 + roll(&d, 30));
        webp_make(b, data, width, height, stored, i % 4 < 2, 75);
        stk__image_info info;
        assert_int_equal(stk__image_probe(b->data, b->size, true, &info, NULL), STK_OK);
        assert_int_equal(info.width, width);
        assert_int_equal(info.height, height);
        for (int32_t channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1) {
            uint8_t *whole = decode_tight(decoder, b->data, b->size, (stk__image_want){.channels = channels});
            if (i % 4 < 2 && channels == stored && channels == 3)
                assert_memory_equal(whole, data, (size_t)(width * height * channels));
            for (int k = 0; k < 4; k++)
                check_part(decoder, b->data, b->size, whole, width, random_part(&d, width, height, channels));
            free(whole);
        }
        free(data);
    }
    free(b);
    decoder_free(decoder, &use);
}

/* A chunk with its padding. */
static void put_chunk(bytes *b, const char *name, const void *data, size_t size)
{
    put(b, name, 4);
    put32(b, (uint32_t)size);
    put(b, data, size);
    if (size % 2)
        put(b, "", 1);
}

static void put24(uint8_t *p, uint32_t x)
{
    p[0] = (uint8_t)x;
    p[1] = (uint8_t)(x >> 8);
    p[2] = (uint8_t)(x >> 16);
}

/* An animation whose first frame lies at (x, y), from a file with one picture. */
static void webp_animate(bytes *out, const bytes *still, uint32_t canvas_width, uint32_t canvas_height, uint32_t x,
                         uint32_t y, uint32_t width, uint32_t height)
{
    uint8_t head[10] = {0x12}, frame[1 << 14] = {0};
    put24(head + 4, canvas_width - 1);
    put24(head + 7, canvas_height - 1);
    put24(frame, x / 2);
    put24(frame + 3, y / 2);
    put24(frame + 6, width - 1);
    put24(frame + 9, height - 1);
    const size_t size = still->size - 12;
    assert_true(size <= sizeof frame - 16);
    memcpy(frame + 16, still->data + 12, size);
    out->size = 0;
    put(out, "RIFF\0\0\0\0WEBP", 12);
    put_chunk(out, "VP8X", head, 10);
    put_chunk(out, "ANIM", "\0\0\0\0\0\0", 6);
    put_chunk(out, "ANMF", frame, 16 + size);
    put_chunk(out, "ANMF", frame, 16 + size);
    const uint32_t riff = (uint32_t)out->size - 8;
    put24(out->data + 4, riff);
}

static void webp_first_frame_of_an_animation_is_composed(void **state)
{
    (void)state;
    memory_use use;
    stk__image_decoder *decoder = decoder_new(&use);
    bytes *still = malloc(sizeof *still), *b = malloc(sizeof *b);
    assert_true(still && b);
    dice d = {3};
    uint8_t *data = picture(&d, 11, 9, 3, 20);
    webp_make(still, data, 11, 9, 3, true, 0);
    static const struct {
        uint32_t width, height, x, y;
    } kinds[] = {{11, 9, 0, 0}, {20, 30, 4, 6}};
    for (size_t i = 0; i < STK_COUNT(kinds); i++) {
        const int32_t width = (int32_t)kinds[i].width, height = (int32_t)kinds[i].height;
        webp_animate(b, still, kinds[i].width, kinds[i].height, kinds[i].x, kinds[i].y, 11, 9);
        uint8_t *wanted = calloc((size_t)width * (size_t)height, 3);
        assert_non_null(wanted);
        for (size_t y = 0; y < 9; y++)
            memcpy(wanted + ((y + kinds[i].y) * kinds[i].width + kinds[i].x) * 3, data + y * 33, 33);
        expect_pixels(b, 3, wanted, (size_t)width * (size_t)height * 3);
        for (int k = 0; k < 12; k++)
            check_part(decoder, b->data, b->size, wanted, width, random_part(&d, width, height, 3));
        free(wanted);
    }
    webp_animate(b, still, 11, 9, 0, 0, 12, 9);
    expect_refused(b->data, b->size, "should have 12 x 9 pixels, but has 11 x 9");
    webp_animate(b, still, 11, 9, 0, 0, 11, 9);
    expect_refused(b->data, 60, "no whole frame");
    free(data);
    free(still);
    free(b);
    decoder_free(decoder, &use);
}

static void webp_that_is_cut_off_is_refused(void **state)
{
    (void)state;
    bytes *b = malloc(sizeof *b);
    assert_non_null(b);
    dice d = {3};
    uint8_t *data = picture(&d, 40, 30, 4, 20);
    for (int lossless = 0; lossless < 2; lossless++) {
        webp_make(b, data, 40, 30, 4, lossless, 80);
        expect_cuts_refused(b, 1);
    }
    expect_refused(b->data, 40, "WebP is cut off");
    free(data);
    free(b);
}

static void webp_orientation_is_found_when_asked_for(void **state)
{
    (void)state;
    static const uint8_t exif[] = {'E',  'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0,
                                   0x12, 1,   3,   0,   1, 0, 0,   0,   8,  0, 0, 0, 0, 0, 0, 0};
    bytes *b = malloc(sizeof *b), *still = malloc(sizeof *still);
    assert_true(b && still);
    webp_make(still, (const uint8_t[12]){1, 2, 3}, 2, 2, 3, true, 0);
    for (size_t prefix = 0; prefix <= 6; prefix += 6) {
        b->size = 0;
        put(b, "RIFF\0\0\0\0WEBP", 12);
        put_chunk(b, "VP8X", "\x08\0\0\0\1\0\0\1\0\0", 10);
        put(b, still->data + 12, still->size - 12);
        put_chunk(b, "EXIF", exif + prefix, sizeof exif - prefix);
        put24(b->data + 4, (uint32_t)b->size - 8);
        stk__image_info info;
        assert_int_equal(stk__image_probe(b->data, b->size, true, &info, NULL), STK_OK);
        assert_int_equal(info.orientation, 8);
        assert_int_equal(stk__image_probe(b->data, b->size, false, &info, NULL), STK_OK);
        assert_int_equal(info.orientation, 1);
    }
    free(still);
    free(b);
}

static void want_outside_of_the_picture_is_invalid(void **state)
{
    (void)state;
    memory_use use;
    stk__image_decoder *decoder = decoder_new(&use);
    bytes *b = malloc(sizeof *b);
    assert_non_null(b);
    bmp_head(b, 2, 1, 24, 0, 0);
    put(b, "12345678", 8);
    static const stk__image_want wants[] = {
        {0, 0, 3, 1, 3, 0, 0, false}, {2, 0, 1, 1, 3, 0, 0, false}, {-1, 0, 1, 1, 3, 0, 0, false},
        {0, 0, 1, 2, 3, 0, 0, false}, {0, 1, 1, 1, 3, 0, 0, false}, {0, 0, 1, 0, 3, 0, 0, false},
        {0, 0, 2, 1, 2, 0, 0, false}, {0, 0, 2, 1, 0, 0, 0, false},
    };
    for (size_t i = 0; i < STK_COUNT(wants); i++) {
        stk__image_got got;
        stk_error err;
        assert_int_equal(decode(decoder, b->data, b->size, &wants[i], &got, &err), STK_INVALID);
    }
    free(b);
    decoder_free(decoder, &use);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_image_is_named_by_its_first_bytes),
        cmocka_unit_test(want_outside_of_the_picture_is_invalid),
        cmocka_unit_test(bmp_of_24_bits_reads_from_the_bottom_or_the_top),
        cmocka_unit_test(bmp_with_palette_of_every_width_reads),
        cmocka_unit_test(bmp_with_run_lengths_reads),
        cmocka_unit_test(bmp_with_masks_reads),
        cmocka_unit_test(bmp_damage_is_named),
        cmocka_unit_test(gif_frame_is_composed_on_its_screen),
        cmocka_unit_test(gif_damage_is_named),
        cmocka_unit_test(webp_part_is_that_of_the_whole),
        cmocka_unit_test(webp_first_frame_of_an_animation_is_composed),
        cmocka_unit_test(webp_that_is_cut_off_is_refused),
        cmocka_unit_test(webp_orientation_is_found_when_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
