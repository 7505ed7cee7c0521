/* Tests of reading and writing PNG; libpng is the judge. */
#include "image_decoder.h"

#include <libdeflate.h>
#include <png.h>

#include "kernels/simd.h"

static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

/* ---- files made chunk by chunk ---- */

typedef struct bytes {
    uint8_t data[1 << 19];
    size_t size;
} bytes;

static void put(bytes *b, const void *data, size_t size)
{
    assert_true(size <= sizeof b->data - b->size);
    if (size)
        memcpy(b->data + b->size, data, size);
    b->size += size;
}

static void put32(bytes *b, uint32_t x)
{
    put(b, (uint8_t[]){(uint8_t)(x >> 24), (uint8_t)(x >> 16), (uint8_t)(x >> 8), (uint8_t)x}, 4);
}

static void put_chunk(bytes *b, const char *name, const void *data, size_t size)
{
    put32(b, (uint32_t)size);
    const size_t at = b->size;
    put(b, name, 4);
    put(b, data, size);
    put32(b, libdeflate_crc32(0, b->data + at, size + 4));
}

static void put_head(bytes *b, uint32_t width, uint32_t height, int bits, int color, int interlace)
{
    b->size = 0;
    put(b, signature, 8);
    uint8_t head[13] = {(uint8_t)(width >> 24),
                        (uint8_t)(width >> 16),
                        (uint8_t)(width >> 8),
                        (uint8_t)width,
                        (uint8_t)(height >> 24),
                        (uint8_t)(height >> 16),
                        (uint8_t)(height >> 8),
                        (uint8_t)height,
                        (uint8_t)bits,
                        (uint8_t)color,
                        0,
                        0,
                        (uint8_t)interlace};
    put_chunk(b, "IHDR", head, 13);
}

/* Deflates rows into one IDAT. */
static void put_rows(bytes *b, const uint8_t *rows, size_t size, int level)
{
    struct libdeflate_compressor *deflate = libdeflate_alloc_compressor(level);
    assert_non_null(deflate);
    const size_t bound = libdeflate_zlib_compress_bound(deflate, size);
    uint8_t *out = malloc(bound);
    assert_non_null(out);
    put_chunk(b, "IDAT", out, libdeflate_zlib_compress(deflate, rows, size, out, bound));
    libdeflate_free_compressor(deflate);
    free(out);
}

static void put_end(bytes *b)
{
    put_chunk(b, "IEND", NULL, 0);
}

/* A gray picture of 4 x 2. */
static void make_small(bytes *b)
{
    static const uint8_t rows[] = {0, 10, 20, 30, 40, 2, 1, 1, 1, 1};
    put_head(b, 4, 2, 8, 0, 0);
    put_rows(b, rows, sizeof rows, 6);
    put_end(b);
}

static void expect_refused(const bytes *b, const char *part)
{
    memory_use use;
    stk__image_decoder *decoder = decoder_new(&use);
    stk__image_got got;
    stk_error err;
    const stk_status status = decode(decoder, b->data, b->size, &(stk__image_want){.channels = 4}, &got, &err);
    if (status != STK_CORRUPT || !strstr(err.message, part))
        fail_msg("status %d, message \"%s\", wanted \"%s\"", (int)status, err.message, part);
    assert_int_equal(stk__image_probe(b->data, 20, false, &(stk__image_info){0}, NULL), STK_CORRUPT);
    decoder_free(decoder, &use);
}

/* ---- files made and read by libpng ---- */

typedef struct made {
    bytes *out;
    int32_t width, height;
    int bits, color, interlace;
    bool transparent;
} made;

static void libpng_write(png_structp png, png_bytep data, size_t size)
{
    put(png_get_io_ptr(png), data, size);
}

static void libpng_flush(png_structp png)
{
    (void)png;
}

static void set_transparency(png_structp png, png_infop info, const made *m, const uint8_t *first_pixel, dice *d)
{
    if (m->color == PNG_COLOR_TYPE_PALETTE) {
        uint8_t alpha[2] = {(uint8_t)roll(d, 256), 77};
        png_set_tRNS(png, info, alpha, 2, NULL);
        return;
    }
    png_color_16 key = {0};
    if (m->bits == 16) {
        key.gray = key.red = (uint16_t)(first_pixel[0] << 8 | first_pixel[1]);
        key.green = (uint16_t)(first_pixel[2] << 8 | first_pixel[3]);
        key.blue = (uint16_t)(first_pixel[4] << 8 | first_pixel[5]);
    } else {
        key.gray = m->bits < 8 ? 1 : first_pixel[0];
        key.red = first_pixel[0];
        key.green = first_pixel[1];
        key.blue = first_pixel[2];
    }
    png_set_tRNS(png, info, NULL, 0, &key);
}

/* Random content: half of the rows repeat, so that there is something to compress. */
static void libpng_make(const made *m, dice *d)
{
    m->out->size = 0;
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    assert_non_null(info);
    png_set_write_fn(png, m->out, libpng_write, libpng_flush);
    png_set_IHDR(png, info, (png_uint_32)m->width, (png_uint_32)m->height, m->bits, m->color, m->interlace, 0, 0);
    png_set_compression_level(png, (int)roll(d, 10));
    png_set_compression_buffer_size(png, 100 + roll(d, 20000));
    static const int filters[] = {PNG_FILTER_NONE, PNG_FILTER_SUB,   PNG_FILTER_UP,
                                  PNG_FILTER_AVG,  PNG_FILTER_PAETH, PNG_ALL_FILTERS};
    png_set_filter(png, 0, filters[roll(d, 6)]);
    if (m->color == PNG_COLOR_TYPE_PALETTE) {
        png_color palette[256];
        for (int i = 0; i < 1 << m->bits; i++)
            palette[i] = (png_color){(uint8_t)roll(d, 256), (uint8_t)roll(d, 256), (uint8_t)roll(d, 256)};
        png_set_PLTE(png, info, palette, 1 << m->bits);
    }
    const size_t row = png_get_rowbytes(png, info), total = row * (size_t)m->height;
    uint8_t *data = malloc(total);
    uint8_t **rows = malloc((size_t)m->height * sizeof *rows);
    assert_true(data && rows);
    const uint32_t noise = roll(d, 2) ? 256 : 3;
    for (size_t i = 0; i < total; i++)
        data[i] = i >= row && roll(d, 2) ? data[i - row] : (uint8_t)roll(d, noise);
    for (int32_t y = 0; y < m->height; y++)
        rows[y] = data + (size_t)y * row;
    uint8_t first[8] = {0};
    memcpy(first, data, STK_MIN(row, sizeof first));
    if (m->transparent)
        set_transparency(png, info, m, first, d);
    png_write_info(png, info);
    png_write_image(png, rows);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(data);
    free(rows);
}

typedef struct source {
    const bytes *b;
    size_t at;
} source;

static void libpng_read(png_structp png, png_bytep out, size_t size)
{
    source *s = png_get_io_ptr(png);
    if (size > s->b->size - s->at)
        png_error(png, "cut off");
    memcpy(out, s->b->data + s->at, size);
    s->at += size;
}

typedef enum form { RGBA, WIDE_RGBA, STORED } form;

static void set_transforms(png_structp png, form as)
{
    png_set_interlace_handling(png);
    if (as == STORED) {
        png_set_packing(png); /* a byte for each pixel of 1, 2 or 4 bits */
        png_set_swap(png);
        return;
    }
    png_set_expand(png);
    png_set_gray_to_rgb(png);
    if (as == WIDE_RGBA) {
        png_set_expand_16(png);
        png_set_swap(png);
        png_set_add_alpha(png, 65535, PNG_FILLER_AFTER);
    } else {
        png_set_strip_16(png);
        png_set_add_alpha(png, 255, PNG_FILLER_AFTER);
    }
}

/* Pixels of `pixel` bytes as libpng sees them. To be freed. */
static uint8_t *libpng_decode_as(const bytes *b, form as, int32_t width, int32_t height, size_t pixel)
{
    source s = {b, 0};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    assert_non_null(info);
    png_set_read_fn(png, &s, libpng_read);
    png_read_info(png, info);
    set_transforms(png, as);
    png_read_update_info(png, info);
    assert_int_equal(png_get_rowbytes(png, info), pixel * (size_t)width);
    uint8_t *out = malloc((size_t)width * (size_t)height * pixel);
    uint8_t **rows = malloc((size_t)height * sizeof *rows);
    assert_true(out && rows);
    for (int32_t y = 0; y < height; y++)
        rows[y] = out + (size_t)y * (size_t)width * pixel;
    png_read_image(png, rows);
    png_destroy_read_struct(&png, &info, NULL);
    free(rows);
    return out;
}

static uint8_t *libpng_decode(const bytes *b, int32_t width, int32_t height)
{
    return libpng_decode_as(b, RGBA, width, height, 4);
}

static void check_channels(stk__image_decoder *decoder, const bytes *b, const uint8_t *rgba, int32_t width,
                           int32_t height)
{
    const size_t pixels = (size_t)width * (size_t)height;
    uint8_t *gray = decode_tight(decoder, b->data, b->size, (stk__image_want){.channels = 1});
    uint8_t *rgb = decode_tight(decoder, b->data, b->size, (stk__image_want){.channels = 3});
    for (size_t i = 0; i < pixels; i++) {
        const uint8_t *p = rgba + 4 * i;
        assert_memory_equal(rgb + 3 * i, p, 3);
        assert_int_equal(gray[i], (19595u * p[0] + 38470u * p[1] + 7471u * p[2] + 0x8000u) >> 16);
    }
    free(gray);
    free(rgb);
}

/* All 16 bits, in every number of channels; fewer bits are spread over the range. */
static void check_wide(stk__image_decoder *decoder, const bytes *b, int bits, int32_t width, int32_t height, dice *d)
{
    const size_t pixels = (size_t)width * (size_t)height;
    uint8_t *wanted = libpng_decode_as(b, WIDE_RGBA, width, height, 8);
    uint8_t *found = decode_tight(decoder, b->data, b->size, (stk__image_want){.channels = 4, .wide = true});
    uint8_t *rgb = decode_tight(decoder, b->data, b->size, (stk__image_want){.channels = 3, .wide = true});
    uint8_t *gray = decode_tight(decoder, b->data, b->size, (stk__image_want){.channels = 1, .wide = true});
    assert_memory_equal(found, wanted, 8 * pixels);
    for (size_t i = 0; i < pixels; i++) {
        uint16_t p[3], luma;
        memcpy(p, wanted + 8 * i, 6);
        memcpy(&luma, gray + 2 * i, 2);
        assert_memory_equal(rgb + 6 * i, p, 6);
        /* What has 8 bits is made gray before it is spread. */
        const double exact = (19595.0 * p[0] + 38470.0 * p[1] + 7471.0 * p[2]) / 65536, off = bits == 16 ? 0.5 : 128.5;
        assert_true(exact - luma <= off && luma - exact <= off);
    }
    stk__image_want part = random_part(d, width, height, 4);
    part.wide = true;
    check_part(decoder, b->data, b->size, wanted, width, part);
    free(wanted);
    free(found);
    free(rgb);
    free(gray);
}

/* The numbers that the file has, for gray and palettes; others have none. */
static void check_stored(stk__image_decoder *decoder, const bytes *b, const made *m, dice *d)
{
    stk__image_want want = {.channels = 1, .wide = m->bits == 16, .stored = true};
    stk__image_info info;
    stk_error err;
    assert_int_equal(stk__image_probe(b->data, b->size, false, &info, NULL), STK_OK);
    assert_int_equal(info.colors, m->color == PNG_COLOR_TYPE_PALETTE ? 1 << m->bits : 0);
    assert_int_equal(info.numbers, m->color == PNG_COLOR_TYPE_PALETTE || m->color == PNG_COLOR_TYPE_GRAY);
    if (!info.numbers) {
        stk__image_got got;
        assert_int_equal(decode(decoder, b->data, b->size, &want, &got, &err), STK_UNFIT);
        assert_non_null(strstr(err.message, "wanted one whole number for each pixel"));
        return;
    }
    const size_t element = m->bits == 16 ? 2 : 1, pixels = (size_t)m->width * (size_t)m->height;
    uint8_t *wanted = libpng_decode_as(b, STORED, m->width, m->height, element);
    uint8_t *found = decode_tight(decoder, b->data, b->size, want);
    assert_memory_equal(found, wanted, pixels * element);
    stk__image_want part = random_part(d, m->width, m->height, 1);
    part.wide = want.wide;
    part.stored = true;
    check_part(decoder, b->data, b->size, wanted, m->width, part);
    if (m->bits < 16) {
        want.wide = true;
        uint8_t *wide = decode_tight(decoder, b->data, b->size, want);
        for (size_t i = 0; i < pixels; i++)
            assert_memory_equal(wide + 2 * i, &(uint16_t){wanted[i]}, 2);
        free(wide);
    }
    free(wanted);
    free(found);
}

static void check_kind(stk__image_decoder *decoder, bytes *b, int bits, int color, dice *d)
{
    for (int i = 0; i < 12; i++) {
        const bool large = i == 0;
        const made m = {b,
                        1 + (int32_t)roll(d, large ? 400 : 40),
                        1 + (int32_t)roll(d, large ? 100 : 40),
                        bits,
                        color,
                        (int)roll(d, 2),
                        color < 4 && roll(d, 2)};
        libpng_make(&m, d);
        uint8_t *wanted = libpng_decode(b, m.width, m.height);
        uint8_t *found = decode_tight(decoder, b->data, b->size, (stk__image_want){.channels = 4});
        assert_memory_equal(found, wanted, (size_t)m.width * (size_t)m.height * 4);
        check_channels(decoder, b, wanted, m.width, m.height);
        check_part(decoder, b->data, b->size, wanted, m.width, random_part(d, m.width, m.height, 4));
        check_wide(decoder, b, bits, m.width, m.height, d);
        check_stored(decoder, b, &m, d);
        stk__image_info info;
        assert_int_equal(stk__image_probe(b->data, b->size, false, &info, NULL), STK_OK);
        const int samples = color == 3 ? 3 : (const int[]){1, 0, 3, 3, 2, 0, 4}[color];
        assert_int_equal(info.channels, samples + m.transparent);
        assert_int_equal(info.bits, color == 3 ? 8 : bits);
        free(found);
        free(wanted);
    }
}

static void every_kind_of_png_decodes_as_libpng_does(void **state)
{
    (void)state;
    static const uint8_t kinds[][2] = {{1, 0}, {2, 0}, {4, 0},  {8, 0}, {16, 0}, {1, 3}, {2, 3}, {4, 3},
                                       {8, 3}, {8, 2}, {16, 2}, {8, 4}, {16, 4}, {8, 6}, {16, 6}};
    memory_use use;
    stk__image_decoder *decoder = decoder_new(&use);
    bytes *b = malloc(sizeof *b);
    assert_non_null(b);
    dice d = {0};
    for (size_t i = 0; i < STK_COUNT(kinds); i++)
        check_kind(decoder, b, kinds[i][0], kinds[i][1], &d);
    free(b);
    decoder_free(decoder, &use);
}

/* ---- writing ---- */

static uint8_t *encode(stk__image_decoder *decoder, const uint8_t *data, int32_t width, int32_t height,
                       int32_t channels, int level, size_t *size)
{
    const stk__pixels in = {(uint8_t *)data, width, height, channels, 1, (ptrdiff_t)width * channels};
    const size_t bound = stk__png_bound(width, height, channels);
    assert_true(bound > 0);
    uint8_t *out = malloc(bound);
    assert_non_null(out);
    stk_error err;
    stk_error_clear(&err);
    if (stk__png_encode(decoder, &in, level, out, size, &err) != STK_OK)
        fail_msg("%s", err.message);
    assert_true(*size <= bound);
    return out;
}

static void encoded_picture_reads_back(void **state)
{
    (void)state;
    memory_use use;
    stk__image_decoder *decoder = decoder_new(&use);
    bytes *b = malloc(sizeof *b);
    assert_non_null(b);
    dice d = {1000};
    for (int i = 0; i < 60; i++) {
        const int32_t width = 1 + (int32_t)roll(&d, 50), height = 1 + (int32_t)roll(&d, 50), channels = 1 + i % 4;
        uint8_t *data = picture(&d, width, height, channels, (uint32_t[]){0, 5, 256}[roll(&d, 3)]);
        uint8_t *png = encode(decoder, data, width, height, channels, i % 13, &b->size);
        memcpy(b->data, png, b->size);
        uint8_t *judge = libpng_decode(b, width, height);
        uint8_t *back =
            decode_tight(decoder, png, b->size, (stk__image_want){.channels = channels == 2 ? 4 : channels});
        for (size_t p = 0; p < (size_t)width * (size_t)height; p++) {
            const uint8_t *in = data + p * (size_t)channels;
            const uint8_t rgba[4] = {in[0], in[channels > 2 ? 1 : 0], in[channels > 2 ? 2 : 0],
                                     channels % 2 ? 255 : in[channels - 1]};
            assert_memory_equal(judge + 4 * p, rgba, 4);
            if (channels == 2)
                assert_memory_equal(back + 4 * p, rgba, 4);
            else
                assert_memory_equal(back + p * (size_t)channels, in, (size_t)channels);
        }
        free(back);
        free(judge);
        free(png);
        free(data);
    }
    free(b);
    decoder_free(decoder, &use);
}

static void encoded_picture_of_16_bits_reads_back(void **state)
{
    (void)state;
    memory_use use;
    stk__image_decoder *decoder = decoder_new(&use);
    bytes *b = malloc(sizeof *b);
    assert_non_null(b);
    dice d = {2000};
    for (int i = 0; i < 30; i++) {
        const int32_t width = 1 + (int32_t)roll(&d, 50), height = 1 + (int32_t)roll(&d, 50), channels = 1 + i % 4;
        uint8_t *data = picture(&d, width, height, 2 * channels, (uint32_t[]){0, 5, 256}[roll(&d, 3)]);
        const stk__pixels in = {data, width, height, channels, 2, (ptrdiff_t)width * channels * 2};
        assert_true(stk__png_bound(width, height, 2 * channels) <= sizeof b->data);
        assert_int_equal(stk__png_encode(decoder, &in, i % 13, b->data, &b->size, NULL), STK_OK);
        uint8_t *judge = libpng_decode_as(b, WIDE_RGBA, width, height, 8);
        for (size_t p = 0; p < (size_t)width * (size_t)height; p++) {
            uint16_t from[4];
            memcpy(from, data + p * (size_t)channels * 2, (size_t)channels * 2);
            const uint16_t rgba[4] = {from[0], from[channels > 2 ? 1 : 0], from[channels > 2 ? 2 : 0],
                                      channels % 2 ? 65535 : from[channels - 1]};
            assert_memory_equal(judge + 8 * p, rgba, 8);
        }
        free(judge);
        free(data);
    }
    free(b);
    decoder_free(decoder, &use);
}

static void encode_takes_rows_of_any_stride(void **state)
{
    (void)state;
    memory_use use;
    stk__image_decoder *decoder = decoder_new(&use);
    static const uint8_t data[] = {1, 2, 99, 3, 4, 99, 5, 6, 99};
    const stk__pixels upside_down = {(uint8_t *)data + 6, 2, 3, 1, 1, -3};
    uint8_t png[200];
    size_t size;
    assert_true(stk__png_bound(2, 3, 1) <= sizeof png);
    assert_int_equal(stk__png_encode(decoder, &upside_down, 6, png, &size, NULL), STK_OK);
    uint8_t *back = decode_tight(decoder, png, size, (stk__image_want){.channels = 1});
    assert_memory_equal(back, ((uint8_t[]){5, 6, 3, 4, 1, 2}), 6);
    free(back);
    decoder_free(decoder, &use);
}

static void encode_refuses_what_png_cannot_hold(void **state)
{
    (void)state;
    memory_use use;
    stk__image_decoder *decoder = decoder_new(&use);
    uint8_t pixel[8] = {0}, out[200];
    size_t size;
    stk_error err;
    stk_error_clear(&err);
    const stk__pixels wide = {pixel, 1, 1, 2, 4, 8}, good = {pixel, 1, 1, 3, 1, 3}, many = {pixel, 1, 1, 5, 1, 5};
    assert_int_equal(stk__png_encode(decoder, &wide, 6, out, &size, &err), STK_INVALID);
    assert_int_equal(stk__png_encode(decoder, &many, 6, out, &size, &err), STK_INVALID);
    assert_int_equal(stk__png_encode(decoder, &good, 13, out, &size, &err), STK_INVALID);
    assert_int_equal(stk__png_encode(decoder, &good, -1, out, &size, &err), STK_INVALID);
    assert_int_equal(stk__png_encode(decoder, &good, 12, out, &size, &err), STK_OK);
    assert_int_equal(stk__png_bound(INT32_MAX, INT32_MAX, 4), 0);
    assert_int_equal(stk__png_bound(0, 5, 3), 0);
    decoder_free(decoder, &use);
}

/* ---- parts ---- */

/* Large enough for the early stop, whose slack is one stored block; level 0 and noise make such blocks. */
static void part_of_a_large_picture_is_that_of_the_whole(void **state)
{
    (void)state;
    memory_use use;
    stk__image_decoder *decoder = decoder_new(&use);
    dice d = {5000};
    static const uint32_t noises[] = {0, 1, 4, 30, 256};
    for (int i = 0; i < 40; i++) {
        const int32_t width = 60 + (int32_t)roll(&d, 300), height = 250 + (int32_t)roll(&d, 150);
        const int32_t channels = (const int32_t[]){1, 3, 4}[i % 3];
        uint8_t *data = picture(&d, width, height, channels, noises[i % 5]);
        size_t size;
        uint8_t *png = encode(decoder, data, width, height, channels, (int)roll(&d, 9), &size);
        for (int k = 0; k < 6; k++) {
            stk__image_want want = random_part(&d, width, height, channels);
            want.height = k < 3 ? STK_MIN(want.height, 1 + height / 4) : want.height;
            want.y = k < 3 ? STK_MIN(want.y, height / 4) : want.y;
            check_part(decoder, png, size, data, width, want);
        }
        free(png);
        free(data);
    }
    decoder_free(decoder, &use);
}

/* Rows are stored in blocks of 65535 bytes, and the wanted ones end just before, at and after the end of one. */
static void part_that_ends_at_a_stored_block_is_whole(void **state)
{
    (void)state;
    memory_use use;
    stk__image_decoder *decoder = decoder_new(&use);
    dice d = {9000};
    const int32_t width = 254, height = 1000; /* 257 rows in a block */
    uint8_t *data = picture(&d, width, height, 1, 256);
    size_t size;
    uint8_t *png = encode(decoder, data, width, height, 1, 0, &size);
    for (int32_t y = 248; y < 262; y++) {
        check_part(decoder, png, size, data, width, (stk__image_want){0, 0, width, y, 1, 0, 0, false});
        check_part(decoder, png, size, data, width, (stk__image_want){3, y - 5, 100, 2, 1, 0, 0, false});
    }
    free(png);
    free(data);
    decoder_free(decoder, &use);
}

static void pixels_wanted_as_stored_are_not_copied(void **state)
{
    (void)state;
    memory_use use;
    stk__image_decoder *decoder = decoder_new(&use);
    dice d = {1};
    uint8_t *data = picture(&d, 32, 32, 3, 20);
    size_t size;
    uint8_t *png = encode(decoder, data, 32, 32, 3, 6, &size);
    stk__image_got got;
    stk_error err;
    assert_int_equal(decode(decoder, png, size, &(stk__image_want){4, 5, 20, 21, 3, 0, 0, false}, &got, &err), STK_OK);
    assert_int_equal(got.pixels.stride, 32 * 3 + 1);
    assert_int_equal(got.x, 4);
    assert_int_equal(got.y, 5);
    assert_int_equal(got.scaled_width, 32);
    const long calls = use.calls;
    for (int i = 0; i < 20; i++)
        assert_int_equal(decode(decoder, png, size, &(stk__image_want){.channels = 3}, &got, &err), STK_OK);
    assert_int_equal(use.calls, calls);
    free(png);
    free(data);
    decoder_free(decoder, &use);
}

/* ---- damage ---- */

static void every_flipped_byte_is_noticed(void **state)
{
    (void)state;
    memory_use use;
    stk__image_decoder *decoder = decoder_new(&use);
    bytes *b = malloc(sizeof *b);
    assert_non_null(b);
    make_small(b);
    stk__image_got got;
    stk_error err;
    const stk__image_want want = {.channels = 3};
    assert_int_equal(decode(decoder, b->data, b->size, &want, &got, &err), STK_OK);
    for (size_t i = 0; i < b->size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            b->data[i] ^= (uint8_t)(1 << bit);
            assert_int_equal(decode(decoder, b->data, b->size, &want, &got, &err), STK_CORRUPT);
            b->data[i] ^= (uint8_t)(1 << bit);
        }
    }
    for (size_t size = 0; size < b->size; size++)
        assert_int_equal(decode(decoder, b->data, size, &want, &got, &err), STK_CORRUPT);
    free(b);
    decoder_free(decoder, &use);
}

/* Checksums of chunks are right, so it is the inflated data that must be checked. */
static void deflated_data_that_is_damaged_is_refused(void **state)
{
    (void)state;
    memory_use use;
    stk__image_decoder *decoder = decoder_new(&use);
    bytes *good = malloc(sizeof *good), *b = malloc(sizeof *b);
    assert_true(good && b);
    make_small(good);
    const size_t at = 33 + 8, size = good->size - 33 - 24;
    stk__image_got got;
    stk_error err;
    for (size_t i = 0; i < size; i++) {
        put_head(b, 4, 2, 8, 0, 0);
        uint8_t data[64];
        assert_true(size <= sizeof data);
        memcpy(data, good->data + at, size);
        data[i] ^= 0x55;
        put_chunk(b, "IDAT", data, size);
        put_end(b);
        assert_int_equal(decode(decoder, b->data, b->size, &(stk__image_want){.channels = 1}, &got, &err), STK_CORRUPT);
        put_head(b, 4, 2, 8, 0, 0);
        put_chunk(b, "IDAT", good->data + at, i);
        put_end(b);
        assert_int_equal(decode(decoder, b->data, b->size, &(stk__image_want){.channels = 1}, &got, &err), STK_CORRUPT);
    }
    free(good);
    free(b);
    decoder_free(decoder, &use);
}

static void damage_is_named(void **state)
{
    (void)state;
    bytes *b = malloc(sizeof *b);
    assert_non_null(b);
    static const uint8_t rows[] = {0, 1, 2, 0, 3, 4}, bad_filter[] = {0, 1, 2, 7, 3, 4}, palette[] = {1, 2, 3, 4, 5, 6};
    make_small(b);
    b->data[b->size - 30] ^= 1;
    expect_refused(b, "CRC of chunk IDAT at byte 33 of the image");
    make_small(b);
    b->size -= 12;
    expect_refused(b, "without an IEND chunk");
    make_small(b);
    b->size -= 15;
    expect_refused(b, "chunk IDAT at byte 33 of the image is");
    put_head(b, 2, 2, 8, 0, 0);
    put_end(b);
    expect_refused(b, "no IDAT chunk before IEND");
    put_head(b, 2, 2, 8, 3, 0);
    put_rows(b, rows, sizeof rows, 6);
    put_end(b);
    expect_refused(b, "no PLTE chunk");
    put_head(b, 2, 2, 8, 3, 0);
    put_chunk(b, "PLTE", palette, 6);
    put_rows(b, rows, sizeof rows, 6);
    put_end(b);
    expect_refused(b, "pixel with colour 2, but its palette has 2");
    put_head(b, 2, 2, 8, 0, 0);
    put_rows(b, bad_filter, sizeof rows, 6);
    put_end(b);
    expect_refused(b, "filter 7 in row 1");
    put_head(b, 2, 2, 8, 0, 0);
    put_rows(b, rows, sizeof rows - 1, 6);
    put_end(b);
    expect_refused(b, "inflate to 5 bytes, wanted 6");
    put_head(b, 2, 2, 8, 0, 0);
    put_chunk(b, "ABcd", rows, 3);
    put_rows(b, rows, sizeof rows, 6);
    put_end(b);
    expect_refused(b, "critical chunk ABcd at byte 33 of the image is unknown");
    free(b);
}

static void damaged_headers_are_named(void **state)
{
    (void)state;
    bytes *b = malloc(sizeof *b);
    assert_non_null(b);
    static const uint8_t rows[] = {0, 1, 2, 0, 3, 4};
    put_head(b, 2, 0, 8, 0, 0);
    put_end(b);
    expect_refused(b, "IHDR says 2 x 0 pixels");
    put_head(b, 2, 2, 4, 2, 0);
    put_end(b);
    expect_refused(b, "colour type 2 with 4 bits");
    put_head(b, 2, 2, 8, 5, 0);
    put_end(b);
    expect_refused(b, "colour type 5 with 8 bits");
    put_head(b, 2, 2, 8, 0, 2);
    put_end(b);
    expect_refused(b, "interlace 2");
    b->size = 0;
    put(b, signature, 8);
    put_chunk(b, "CgBI", rows, 4);
    expect_refused(b, "first chunk is CgBI of 4 bytes");
    put_head(b, 2, 2, 8, 0, 0);
    put_rows(b, rows, sizeof rows, 6);
    put_chunk(b, "tEXt", rows, 3);
    put_chunk(b, "IDAT", rows, 3);
    put_end(b);
    expect_refused(b, "is apart from the others");
    free(b);
}

static void picture_larger_than_its_data_can_hold_is_refused_before_memory_is_taken(void **state)
{
    (void)state;
    memory_use use;
    stk__image_decoder *decoder = decoder_new(&use);
    bytes *b = malloc(sizeof *b);
    assert_non_null(b);
    static const uint8_t rows[100];
    stk__image_got got;
    stk_error err;
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        put_head(b, INT32_MAX, INT32_MAX, 16, 6, interlaced);
        put_rows(b, rows, sizeof rows, 6);
        put_end(b);
        assert_int_equal(decode(decoder, b->data, b->size, &(stk__image_want){1, 1, 2, 2, 3, 0, 0, false}, &got, &err),
                         STK_CORRUPT);
        assert_non_null(strstr(err.message, "cannot hold 2147483647 x 2147483647 pixels"));
    }
    assert_int_equal(use.calls, 0);
    free(b);
    decoder_free(decoder, &use);
}

/* ---- what is odd but read ---- */

static void data_after_the_last_row_is_left_aside(void **state)
{
    (void)state;
    memory_use use;
    stk__image_decoder *decoder = decoder_new(&use);
    bytes *b = malloc(sizeof *b);
    uint8_t *rows = calloc(1, 200000);
    assert_true(b && rows);
    memcpy(rows, (uint8_t[]){0, 1, 2, 0, 3, 4}, 6);
    static const size_t sizes[] = {7, 300, 70000, 200000};
    for (size_t i = 0; i < STK_COUNT(sizes); i++) {
        for (int level = 0; level < 7; level += 6) {
            put_head(b, 2, 2, 8, 0, 0);
            put_rows(b, rows, sizes[i], level);
            put_end(b);
            put(b, "trailing", 8);
            uint8_t *found = decode_tight(decoder, b->data, b->size, (stk__image_want){.channels = 1});
            assert_memory_equal(found, ((uint8_t[]){1, 2, 3, 4}), 4);
            free(found);
        }
    }
    free(rows);
    free(b);
    decoder_free(decoder, &use);
}

static void probe_finds_the_orientation_only_when_asked(void **state)
{
    (void)state;
    bytes *b = malloc(sizeof *b);
    assert_non_null(b);
    static const uint8_t rows[] = {0, 1, 2, 0, 3, 4};
    static const uint8_t exif[] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0,
                                   3,   0,   0, 0,  1, 0, 6, 0, 0, 0, 0,    0,    0};
    for (int after = 0; after < 2; after++) {
        put_head(b, 2, 2, 8, 0, 0);
        if (!after)
            put_chunk(b, "eXIf", exif, sizeof exif);
        put_rows(b, rows, sizeof rows, 6);
        if (after)
            put_chunk(b, "eXIf", exif, sizeof exif);
        put_end(b);
        stk__image_info info;
        assert_int_equal(stk__image_probe(b->data, b->size, true, &info, NULL), STK_OK);
        assert_int_equal(info.orientation, 6);
        assert_int_equal(info.kind, STK__IMAGE_PNG);
        assert_int_equal(stk__image_probe(b->data, b->size, false, &info, NULL), STK_OK);
        assert_int_equal(info.orientation, 1);
    }
    free(b);
}

static void refused_memory_is_no_corruption(void **state)
{
    (void)state;
    memory_use use;
    stk__image_decoder *decoder = decoder_new(&use);
    bytes *b = malloc(sizeof *b);
    assert_non_null(b);
    make_small(b);
    stk__image_got got;
    stk_error err;
    use.refuse = true;
    assert_int_equal(decode(decoder, b->data, b->size, &(stk__image_want){.channels = 3}, &got, &err), STK_BUDGET);
    use.refuse = false;
    assert_int_equal(decode(decoder, b->data, b->size, &(stk__image_want){.channels = 1}, &got, &err), STK_OK);
    use.refuse = true;
    assert_int_equal(decode(decoder, b->data, b->size, &(stk__image_want){.channels = 3}, &got, &err), STK_BUDGET);
    use.refuse = false;
    assert_int_equal(decode(decoder, b->data, b->size, &(stk__image_want){.channels = 3}, &got, &err), STK_OK);
    free(b);
    decoder_free(decoder, &use);
}

/* ---- two at once ---- */

/* A PNG in memory of its own, and what decoding it alone gives. */
typedef struct single {
    uint8_t *data;
    size_t size;
    stk__image_info info;
    stk__image_want want;
    stk_status status;
    char message[sizeof((stk_error *)0)->message];
    uint8_t *pixels; /* NULL: it is damaged */
} single;

static uint8_t *tight_copy(const stk__image_got *got)
{
    const stk__pixels *p = &got->pixels;
    const size_t row = (size_t)p->width * (size_t)p->channels;
    uint8_t *out = malloc(row * (size_t)p->height);
    assert_non_null(out);
    for (int32_t y = 0; y < p->height; y++)
        memcpy(out + (size_t)y * row, stk__pixel_row(p, y), row);
    return out;
}

static void expect_single(stk__image_decoder *decoder, const single *s)
{
    stk__image_got got;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__image_decode(decoder, s->data, s->size, &s->info, &s->want, &got, &err), s->status);
    assert_string_equal(err.message, s->message);
    if (s->status != STK_OK)
        return;
    uint8_t *found = tight_copy(&got);
    assert_int_equal(got.x, s->want.x);
    assert_int_equal(got.y, s->want.y);
    assert_memory_equal(found, s->pixels, (size_t)s->want.width * (size_t)s->want.height * (size_t)s->want.channels);
    free(found);
}

/* Any kind, any part of it; some are damaged behind the header. */
static single single_make(stk__image_decoder *decoder, bytes *b, dice *d, bool may_be_damaged)
{
    static const uint8_t kinds[][2] = {{1, 0}, {8, 0}, {16, 0}, {4, 3}, {8, 3},
                                       {8, 2}, {8, 2}, {16, 2}, {8, 4}, {8, 6}};
    const uint32_t kind = roll(d, STK_COUNT(kinds));
    const made m = {b,
                    1 + (int32_t)roll(d, 60),
                    1 + (int32_t)roll(d, 60),
                    kinds[kind][0],
                    kinds[kind][1],
                    roll(d, 4) == 0,
                    kinds[kind][1] < 4 && roll(d, 2)};
    libpng_make(&m, d);
    single s = {.size = b->size, .data = malloc(b->size)};
    assert_non_null(s.data);
    memcpy(s.data, b->data, b->size);
    assert_int_equal(stk__image_probe(s.data, s.size, false, &s.info, NULL), STK_OK);
    s.want = (stk__image_want){0, 0, m.width, m.height, (const int32_t[]){1, 3, 4}[roll(d, 3)], 0, 0, false};
    if (roll(d, 2))
        s.want = random_part(d, m.width, m.height, s.want.channels);
    if (may_be_damaged && roll(d, 4) == 0)
        s.data[33 + roll(d, (uint32_t)s.size - 33)] ^= (uint8_t)(1u << roll(d, 8));
    stk__image_got got;
    stk_error err;
    stk_error_clear(&err);
    s.status = stk__image_decode(decoder, s.data, s.size, &s.info, &s.want, &got, &err);
    memcpy(s.message, err.message, sizeof s.message);
    s.pixels = s.status == STK_OK ? tight_copy(&got) : NULL;
    return s;
}

static void single_clear(single *s)
{
    free(s->data);
    free(s->pixels);
}

static void prepare(stk__image_decoder *decoder_a, const single *a, stk__image_decoder *decoder_b, const single *b)
{
    stk__image_prepare_pair(&(stk__image_job){decoder_a, a->data, a->size, &a->info, &a->want},
                            &(stk__image_job){decoder_b, b->data, b->size, &b->info, &b->want});
}

static void prepared_pair_decodes_as_each_by_itself(void **state)
{
    (void)state;
    memory_use use_a, use_b;
    stk__image_decoder *decoder_a = decoder_new(&use_a), *decoder_b = decoder_new(&use_b);
    bytes *room = malloc(sizeof *room);
    assert_non_null(room);
    dice d = {20000};
    for (int i = 0; i < 300; i++) {
        stk__simd_limit((stk__simd)(i % STK__SIMD_COUNT));
        single a = single_make(decoder_b, room, &d, true), b = single_make(decoder_a, room, &d, true);
        prepare(decoder_a, &a, decoder_b, &b);
        const uint32_t between = roll(&d, 6);
        if (between == 0) /* another picture */
            expect_single(decoder_a, &b);
        if (between == 1) /* not at all, then another pair */
            prepare(decoder_a, &b, decoder_b, &a);
        if (between == 2) { /* more of it than was said before */
            const stk__image_want want = a.want;
            a.want = (stk__image_want){0, 0, a.want.width, 1, a.want.channels, 0, 0, false};
            prepare(decoder_a, &a, decoder_b, &b);
            a.want = want;
        }
        for (int again = 0; again < 2; again++) {
            expect_single(decoder_a, &a);
            expect_single(decoder_b, &b);
        }
        single_clear(&a);
        single_clear(&b);
    }
    stk__simd_limit(STK__SIMD_AVX512);
    free(room);
    decoder_free(decoder_a, &use_a);
    decoder_free(decoder_b, &use_b);
}

/* A byte of its pixels is changed after the preparation, and nobody looks there again; with its last bytes changed too,
   it is another picture. */
static void prepared_pair_is_not_inflated_again(void **state)
{
    (void)state;
    memory_use use_a, use_b;
    stk__image_decoder *decoder_a = decoder_new(&use_a), *decoder_b = decoder_new(&use_b);
    bytes *room = malloc(sizeof *room);
    assert_non_null(room);
    dice d = {30000};
    single a = single_make(decoder_a, room, &d, false), b = single_make(decoder_b, room, &d, false);
    stk__image_got got;
    prepare(decoder_a, &a, decoder_b, &b);
    a.data[a.size - 20] ^= 1;
    expect_single(decoder_a, &a);
    assert_int_equal(stk__image_decode(decoder_a, a.data, a.size, &a.info, &a.want, &got, NULL), STK_CORRUPT);
    a.data[a.size - 20] ^= 1;
    prepare(decoder_a, &a, decoder_b, &b);
    a.data[a.size - 20] ^= 1;
    a.data[a.size - 16] ^= 1;
    assert_int_equal(stk__image_decode(decoder_a, a.data, a.size, &a.info, &a.want, &got, NULL), STK_CORRUPT);
    expect_single(decoder_b, &b);
    single_clear(&a);
    single_clear(&b);
    free(room);
    decoder_free(decoder_a, &use_a);
    decoder_free(decoder_b, &use_b);
}

static void preparation_without_memory_leaves_all_to_the_decode(void **state)
{
    (void)state;
    memory_use use, use_a, use_b;
    stk__image_decoder *decoder = decoder_new(&use), *decoder_a = decoder_new(&use_a), *decoder_b = decoder_new(&use_b);
    bytes *room = malloc(sizeof *room);
    assert_non_null(room);
    dice d = {40000};
    single a = single_make(decoder, room, &d, false), b = single_make(decoder, room, &d, false);
    use_b.refuse = true;
    prepare(decoder_a, &a, decoder_b, &b);
    prepare(decoder_a, &a, decoder_a, &b);
    use_b.refuse = false;
    expect_single(decoder_a, &a);
    expect_single(decoder_b, &b);
    single_clear(&a);
    single_clear(&b);
    free(room);
    decoder_free(decoder, &use);
    decoder_free(decoder_a, &use_a);
    decoder_free(decoder_b, &use_b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_png_decodes_as_libpng_does),
        cmocka_unit_test(encoded_picture_reads_back),
        cmocka_unit_test(encoded_picture_of_16_bits_reads_back),
        cmocka_unit_test(encode_takes_rows_of_any_stride),
        cmocka_unit_test(encode_refuses_what_png_cannot_hold),
        cmocka_unit_test(part_of_a_large_picture_is_that_of_the_whole),
        cmocka_unit_test(part_that_ends_at_a_stored_block_is_whole),
        cmocka_unit_test(pixels_wanted_as_stored_are_not_copied),
        cmocka_unit_test(every_flipped_byte_is_noticed),
        cmocka_unit_test(deflated_data_that_is_damaged_is_refused),
        cmocka_unit_test(damage_is_named),
        cmocka_unit_test(damaged_headers_are_named),
        cmocka_unit_test(picture_larger_than_its_data_can_hold_is_refused_before_memory_is_taken),
        cmocka_unit_test(data_after_the_last_row_is_left_aside),
        cmocka_unit_test(probe_finds_the_orientation_only_when_asked),
        cmocka_unit_test(refused_memory_is_no_corruption),
        cmocka_unit_test(prepared_pair_decodes_as_each_by_itself),
        cmocka_unit_test(prepared_pair_is_not_inflated_again),
        cmocka_unit_test(preparation_without_memory_leaves_all_to_the_decode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
