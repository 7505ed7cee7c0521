/*
 * JPEG: the pixels of libjpeg for every rectangle, damage of every kind, and the same bytes at every level of the
 * CPU.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jpeglib.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "base/rng.h"
#include "formats/image_impl.h"
#include "formats/image_jpeg_impl.h"
#include "formats/image_jpeg_kernels.h"
#include "kernels/color.h"

/* ---- helpers ---- */

static uint64_t seed = 1;

static uint32_t draw(uint32_t below)
{
    return (uint32_t)(stk__mix(seed++, 77) % below);
}

static void *memory_alloc(void *arg, size_t size, stk_error *err)
{
    void *p = stk__alloc_aligned(size);
    if (!p)
        stk__nomem(size, err);
    return p;
}

static void memory_free(void *arg, void *p, size_t size)
{
    stk__free(p);
}

static stk__image_decoder *new_decoder(void)
{
    static const stk__image_memory memory = {memory_alloc, memory_free, NULL};
    stk__image_decoder *decoder;
    assert_int_equal(stk__image_decoder_new(&memory, &decoder, NULL), STK_OK);
    return decoder;
}

/* Waves, an edge and noise: something in all frequencies. */
static uint8_t *make_picture(int width, int height, int channels)
{
    uint8_t *out = test_malloc((size_t)width * (size_t)height * (size_t)channels);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < channels; c++) {
                const double wave =
                    127 + 70 * sin(x * (0.02 + 0.05 * c)) + 50 * cos(y * 0.07 + c) + (x + 2 * y > 90 ? 20 : -20);
                const int value = (int)wave + (int)draw(25) - 12;
                out[((size_t)y * (size_t)width + (size_t)x) * (size_t)channels + (size_t)c] =
                    (uint8_t)(value < 0     ? 0
                              : value > 255 ? 255
                                            : value);
            }
    return out;
}

typedef struct jpeg_kind {
    J_COLOR_SPACE from, stored;
    int across, down; /* sampling of the first component */
    int quality;
    bool progressive, arithmetic, optimized, no_tables, no_jfif;
    int restart; /* in MCUs */
} jpeg_kind;

typedef struct jpeg_file {
    uint8_t *data;
    unsigned long size;
} jpeg_file;

static jpeg_file encode(const uint8_t *pixels, int width, int height, int channels, const jpeg_kind *kind)
{
    jpeg_file file = {0};
    struct jpeg_compress_struct codec;
    struct jpeg_error_mgr errors;
    codec.err = jpeg_std_error(&errors);
    jpeg_create_compress(&codec);
    jpeg_mem_dest(&codec, &file.data, &file.size);
    codec.image_width = (JDIMENSION)width;
    codec.image_height = (JDIMENSION)height;
    codec.input_components = channels;
    codec.in_color_space = kind->from;
    jpeg_set_defaults(&codec);
    jpeg_set_colorspace(&codec, kind->stored);
    jpeg_set_quality(&codec, kind->quality ? kind->quality : 90, TRUE);
    for (int i = 0; i < codec.num_components; i++)
        codec.comp_info[i].h_samp_factor = codec.comp_info[i].v_samp_factor = 1;
    codec.comp_info[0].h_samp_factor = kind->across ? kind->across : 1;
    codec.comp_info[0].v_samp_factor = kind->down ? kind->down : 1;
    codec.restart_interval = (unsigned)kind->restart;
    codec.arith_code = kind->arithmetic;
    codec.optimize_coding = kind->optimized;
    if (kind->no_jfif)
        codec.write_JFIF_header = FALSE;
    if (kind->progressive)
        jpeg_simple_progression(&codec);
    if (kind->no_tables)
        for (int i = 0; i < 2; i++)
            codec.dc_huff_tbl_ptrs[i]->sent_table = codec.ac_huff_tbl_ptrs[i]->sent_table = TRUE;
    jpeg_start_compress(&codec, kind->no_tables ? FALSE : TRUE);
    while (codec.next_scanline < codec.image_height) {
        JSAMPROW row = (JSAMPROW)(pixels + (size_t)codec.next_scanline * (size_t)width * (size_t)channels);
        jpeg_write_scanlines(&codec, &row, 1);
    }
    jpeg_finish_compress(&codec);
    jpeg_destroy_compress(&codec);
    return file;
}

static jpeg_file make_file(int width, int height, const jpeg_kind *kind)
{
    const int channels = kind->from == JCS_GRAYSCALE ? 1 : kind->from == JCS_CMYK ? 4 : 3;
    uint8_t *pixels = make_picture(width, height, channels);
    const jpeg_file file = encode(pixels, width, height, channels, kind);
    test_free(pixels);
    return file;
}

/* A plain decode of everything. */
static uint8_t *decode_plain(const jpeg_file *file, J_COLOR_SPACE space, int scale, int *width, int *height)
{
    struct jpeg_decompress_struct codec;
    struct jpeg_error_mgr errors;
    codec.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&codec);
    jpeg_mem_src(&codec, file->data, file->size);
    jpeg_read_header(&codec, TRUE);
    codec.out_color_space = space;
    codec.scale_num = (unsigned)scale;
    codec.scale_denom = 8;
    jpeg_start_decompress(&codec);
    const size_t row = (size_t)codec.output_width * (size_t)codec.output_components;
    uint8_t *out = test_malloc(row * codec.output_height);
    while (codec.output_scanline < codec.output_height) {
        JSAMPROW at = out + row * codec.output_scanline;
        jpeg_read_scanlines(&codec, &at, 1);
    }
    *width = (int)codec.output_width;
    *height = (int)codec.output_height;
    jpeg_finish_decompress(&codec);
    jpeg_destroy_decompress(&codec);
    return out;
}

static stk__image_want whole(const stk__image_info *info, int channels)
{
    return (stk__image_want){.width = info->width, .height = info->height, .channels = channels};
}

static stk__image_info probe(const jpeg_file *file)
{
    stk__image_info info;
    stk_error err;
    if (stk__jpeg_probe(file->data, file->size, false, &info, &err) != STK_OK)
        fail_msg("%s", err.message);
    return info;
}

static stk__image_got decode_ok(stk__image_decoder *decoder, const jpeg_file *file, const stk__image_want *want)
{
    const stk__image_info info = probe(file);
    stk__image_got got;
    stk_error err;
    if (stk__jpeg_decode(decoder, file->data, file->size, &info, want, &got, &err) != STK_OK)
        fail_msg("%s", err.message);
    return got;
}

/* The pixels of `got` are those of the whole picture at the same place. */
static void assert_part_of(const stk__image_got *got, const uint8_t *all, int width, int height)
{
    const int channels = got->pixels.channels;
    assert_int_equal(got->scaled_width, width);
    assert_int_equal(got->scaled_height, height);
    assert_true(got->x >= 0 && got->y >= 0 && got->pixels.width > 0 && got->pixels.height > 0);
    assert_true(got->x + got->pixels.width <= width && got->y + got->pixels.height <= height);
    for (int y = 0; y < got->pixels.height; y++) {
        const uint8_t *wanted = all + ((size_t)(got->y + y) * (size_t)width + (size_t)got->x) * (size_t)channels;
        if (memcmp(stk__pixel_row(&got->pixels, y), wanted, (size_t)(got->pixels.width * channels)) != 0)
            fail_msg("row %d of %d x %d at (%d, %d) of %d x %d differs", y, got->pixels.width, got->pixels.height,
                     got->x, got->y, width, height);
    }
}

static void draw_rectangle(stk__image_want *want, int width, int height)
{
    want->width = 1 + (int32_t)draw((uint32_t)width);
    want->height = 1 + (int32_t)draw((uint32_t)height);
    want->x = (int32_t)draw((uint32_t)(width - want->width + 1));
    want->y = (int32_t)draw((uint32_t)(height - want->height + 1));
}

/* Everything that has rectangles tested. */
static const jpeg_kind kinds[] = {
    {JCS_RGB, JCS_YCbCr, 1, 1},
    {JCS_RGB, JCS_YCbCr, 2, 1},
    {JCS_RGB, JCS_YCbCr, 2, 2},
    {JCS_RGB, JCS_YCbCr, 1, 2},
    {JCS_RGB, JCS_YCbCr, 4, 1},
    {JCS_GRAYSCALE, JCS_GRAYSCALE, 1, 1},
    {JCS_GRAYSCALE, JCS_GRAYSCALE, 2, 2},
    {JCS_RGB, JCS_YCbCr, 2, 2, .progressive = true},
    {JCS_RGB, JCS_YCbCr, 1, 1, .progressive = true},
    {JCS_RGB, JCS_YCbCr, 2, 2, .optimized = true, .quality = 98},
    {JCS_RGB, JCS_YCbCr, 2, 2, .restart = 3},
    {JCS_RGB, JCS_YCbCr, 2, 1, .restart = 11, .quality = 70},
    {JCS_RGB, JCS_YCbCr, 1, 1, .restart = 64},
    {JCS_RGB, JCS_YCbCr, 2, 2, .arithmetic = true},
    {JCS_RGB, JCS_YCbCr, 2, 2, .no_jfif = true},
    {JCS_RGB, JCS_RGB, 1, 1},
    {JCS_RGB, JCS_YCbCr, 2, 2, .quality = 100},
    {JCS_RGB, JCS_YCbCr, 2, 2, .quality = 20},
};

static const struct {
    int width, height;
} sizes[] = {{1, 1}, {7, 5}, {8, 8}, {9, 17}, {16, 16}, {17, 33}, {64, 48}, {131, 77}, {250, 63}};

/* Calls `check` for every kind and size. */
static void for_all_kinds(void (*check)(stk__image_decoder *decoder, const jpeg_file *file))
{
    stk__image_decoder *decoder = new_decoder();
    for (size_t i = 0; i < STK_COUNT(kinds); i++)
        for (size_t j = 0; j < STK_COUNT(sizes); j++) {
            const jpeg_file file = make_file(sizes[j].width, sizes[j].height, &kinds[i]);
            check(decoder, &file);
            free(file.data);
        }
    stk__image_decoder_free(decoder);
}

/* ---- header ---- */

static void jpeg_probe_tells_size_and_channels(void **state)
{
    static const struct {
        jpeg_kind kind;
        int channels;
    } cases[] = {{{JCS_GRAYSCALE, JCS_GRAYSCALE}, 1},
                 {{JCS_RGB, JCS_YCbCr, 2, 2, .progressive = true}, 3},
                 {{JCS_CMYK, JCS_YCCK}, 4}};
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const jpeg_file file = make_file(123, 45, &cases[i].kind);
        const stk__image_info info = probe(&file);
        assert_int_equal(info.kind, STK__IMAGE_JPEG);
        assert_int_equal(info.width, 123);
        assert_int_equal(info.height, 45);
        assert_int_equal(info.channels, cases[i].channels);
        assert_int_equal(info.bits, 8);
        assert_int_equal(info.orientation, 1);
        free(file.data);
    }
}

static size_t find_marker(const jpeg_file *file, uint8_t marker)
{
    for (size_t i = 2; i + 1 < file->size; i++)
        if (file->data[i] == 0xff && file->data[i + 1] == marker)
            return i;
    fail_msg("no marker %02x", marker);
    return 0;
}

/* With `count` bytes put in at `at`. */
static jpeg_file insert(const jpeg_file *file, size_t at, const uint8_t *bytes, size_t count)
{
    jpeg_file out = {malloc(file->size + count), file->size + count};
    assert_non_null(out.data);
    memcpy(out.data, file->data, at);
    if (count)
        memcpy(out.data + at, bytes, count);
    memcpy(out.data + at + count, file->data + at, file->size - at);
    return out;
}

static void jpeg_probe_finds_orientation_when_wanted(void **state)
{
    static const uint8_t app1[] = {0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8,
                                   0,    1,    1, 18, 0,   3,   0,   0,   0, 1, 0,   6,   0, 0,  0, 0, 0, 0};
    const jpeg_file plain = make_file(20, 10, &kinds[0]);
    const size_t places[] = {2, find_marker(&plain, 0xdb), find_marker(&plain, 0xda)};
    for (size_t i = 0; i < STK_COUNT(places); i++) {
        const jpeg_file file = insert(&plain, places[i], app1, sizeof app1);
        stk__image_info info;
        assert_int_equal(stk__jpeg_probe(file.data, file.size, true, &info, NULL), STK_OK);
        assert_int_equal(info.orientation, 6);
        assert_int_equal(info.width, 20);
        assert_int_equal(stk__jpeg_probe(file.data, file.size, false, &info, NULL), STK_OK);
        assert_int_equal(info.orientation, 1);
        free(file.data);
    }
    free(plain.data);
}

static void jpeg_probe_of_a_cut_header_is_corrupt(void **state)
{
    const jpeg_file file = make_file(40, 30, &kinds[0]);
    const size_t end = find_marker(&file, 0xc0) + 2 + 17;
    for (size_t size = 0; size < end; size++) {
        uint8_t *cut = test_malloc(size + 1);
        memcpy(cut, file.data, size);
        stk__image_info info;
        stk_error err;
        assert_int_equal(stk__jpeg_probe(cut, size, false, &info, &err), STK_CORRUPT);
        assert_int_not_equal(strlen(err.message), 0);
        test_free(cut);
    }
    stk__image_info info;
    assert_int_equal(stk__jpeg_probe(file.data, end, false, &info, NULL), STK_OK);
    free(file.data);
}

static void jpeg_probe_refuses_what_cannot_be(void **state)
{
    static const struct {
        int at; /* from the frame's marker on */
        uint8_t value;
        stk_status status;
    } damage[] = {
        {6, 0, STK_CORRUPT}, {8, 0, STK_CORRUPT}, {9, 2, STK_UNSUPPORTED}, {9, 4, STK_CORRUPT}, {3, 5, STK_CORRUPT}};
    for (size_t i = 0; i < STK_COUNT(damage); i++) {
        const jpeg_file file = make_file(40, 30, &kinds[0]);
        stk__image_info info;
        file.data[find_marker(&file, 0xc0) + (size_t)damage[i].at] = damage[i].value;
        assert_int_equal(stk__jpeg_probe(file.data, file.size, false, &info, NULL), damage[i].status);
        free(file.data);
    }
}

static void jpeg_of_12_bits_is_unsupported(void **state)
{
    const jpeg_file file = make_file(40, 30, &kinds[0]);
    file.data[find_marker(&file, 0xc0) + 4] = 12;
    const stk__image_info info = probe(&file);
    const stk__image_want want = whole(&info, 3);
    stk__image_decoder *decoder = new_decoder();
    stk__image_got got;
    stk_error err;
    assert_int_equal(stk__jpeg_decode(decoder, file.data, file.size, &info, &want, &got, &err), STK_UNSUPPORTED);
    assert_non_null(strstr(err.message, "12"));
    stk__image_decoder_free(decoder);
    free(file.data);
}

/* ---- pixels ---- */

static void check_rectangles(stk__image_decoder *decoder, const jpeg_file *file, bool exact)
{
    static const J_COLOR_SPACE spaces[5] = {[1] = JCS_GRAYSCALE, [3] = JCS_RGB, [4] = JCS_EXT_RGBA};
    static const int channels[] = {3, 1, 4};
    for (int i = 0; i < 3; i++) {
        int width, height;
        uint8_t *all = decode_plain(file, spaces[channels[i]], 8, &width, &height);
        for (int j = 0; j < (channels[i] == 3 ? 10 : 2); j++) {
            stk__image_want want = {.channels = channels[i], .width = width, .height = height, .exact = exact};
            if (j > 0)
                draw_rectangle(&want, width, height);
            const stk__image_got got = decode_ok(decoder, file, &want);
            assert_int_equal(got.x, want.x);
            assert_int_equal(got.y, want.y);
            assert_int_equal(got.pixels.width, want.width);
            assert_int_equal(got.pixels.height, want.height);
            assert_part_of(&got, all, width, height);
        }
        test_free(all);
    }
}

static void check_exact(stk__image_decoder *decoder, const jpeg_file *file)
{
    check_rectangles(decoder, file, true);
}

/* Full size is the same as exact, at every level. */
static void check_full_size(stk__image_decoder *decoder, const jpeg_file *file)
{
    for (int level = 0; level <= (int)stk__simd_highest(); level++) {
        stk__simd_limit((stk__simd)level);
        check_rectangles(decoder, file, false);
    }
    stk__simd_limit(STK__SIMD_COUNT);
}

static void jpeg_exact_rectangles_are_those_of_libjpeg(void **state)
{
    for_all_kinds(check_exact);
}

static void jpeg_full_size_rectangles_are_those_of_libjpeg(void **state)
{
    for_all_kinds(check_full_size);
}

/* Every offset against the grid of blocks, in small steps. */
static void jpeg_rectangles_at_every_offset(void **state)
{
    stk__image_decoder *decoder = new_decoder();
    for (int kind = 1; kind < 4; kind++) {
        const jpeg_file file = make_file(75, 69, &kinds[kind]);
        int width, height;
        uint8_t *all = decode_plain(&file, JCS_RGB, 8, &width, &height);
        for (int exact = 0; exact < 2; exact++)
            for (int i = 0; i < 36; i++) {
                const stk__image_want want = {
                    .x = i, .y = 35 - i, .width = 36 - i, .height = 1 + i, .channels = 3, .exact = exact};
                const stk__image_got got = decode_ok(decoder, &file, &want);
                assert_part_of(&got, all, width, height);
            }
        test_free(all);
        free(file.data);
    }
    stk__image_decoder_free(decoder);
}

static double mean_square(const stk__image_got *got, const uint8_t *all)
{
    double sum = 0;
    const int row = got->pixels.width * got->pixels.channels;
    for (int y = 0; y < got->pixels.height; y++)
        for (int x = 0; x < row; x++) {
            const double d = stk__pixel_row(&got->pixels, y)[x] - all[(size_t)y * (size_t)row + (size_t)x];
            sum += d * d;
        }
    return sum / ((double)row * got->pixels.height);
}

/*
 * At a scale: about what libjpeg gives (with this much noise in the colours), the same at every
 * level, and rectangles are parts of the whole.
 */
static void check_scaled(stk__image_decoder *decoder, const jpeg_file *file)
{
    const stk__image_info info = probe(file);
    for (int scale = 1; scale < 8; scale *= 2) {
        stk__image_want want = whole(&info, 3);
        want.cover_width = info.width * scale / 8;
        want.cover_height = info.height * scale / 8;
        if (want.cover_width < 1 || want.cover_height < 1)
            continue;
        int width, height;
        uint8_t *theirs = decode_plain(file, JCS_RGB, scale, &width, &height), *ours = NULL;
        const size_t bytes = (size_t)width * (size_t)height * 3;
        for (int level = 0; level <= (int)stk__simd_highest(); level++) {
            stk__simd_limit((stk__simd)level);
            const stk__image_got got = decode_ok(decoder, file, &want);
            assert_int_equal(got.pixels.width, width);
            assert_int_equal(got.pixels.height, height);
            if (!ours) {
                ours = test_malloc(bytes);
                memcpy(ours, got.pixels.data, bytes);
                assert_true(mean_square(&got, theirs) < 150);
            }
            assert_part_of(&got, ours, width, height);
        }
        stk__simd_limit(STK__SIMD_COUNT);
        for (int i = 0; i < 6; i++) {
            stk__image_want part = {.channels = 3};
            draw_rectangle(&part, info.width, info.height);
            part.cover_width = STK_MAX(1, part.width * scale / 8);
            part.cover_height = STK_MAX(1, part.height * scale / 8);
            const stk__image_got got = decode_ok(decoder, file, &part);
            if (got.scaled_width == width && got.scaled_height == height)
                assert_part_of(&got, ours, width, height);
            assert_true(got.pixels.width >= part.cover_width && got.pixels.height >= part.cover_height);
        }
        test_free(theirs);
        test_free(ours);
    }
}

static void jpeg_scaled_is_near_libjpeg_and_the_same_at_every_level(void **state)
{
    stk__image_decoder *decoder = new_decoder();
    for (size_t i = 0; i < STK_COUNT(kinds); i++) {
        const jpeg_file file = make_file(131, 93, &kinds[i]);
        check_scaled(decoder, &file);
        free(file.data);
    }
    stk__image_decoder_free(decoder);
}

static void jpeg_scale_is_the_smallest_that_covers(void **state)
{
    static const struct {
        int width, height, cover_width, cover_height, scale;
    } cases[] = {
        {200, 100, 0, 0, 8},     {200, 100, 100, 50, 4}, {200, 100, 101, 50, 8}, {200, 100, 100, 51, 8},
        {200, 100, 50, 25, 2},   {200, 100, 26, 12, 2},  {200, 100, 25, 12, 1},  {200, 100, 1, 1, 1},
        {200, 100, 400, 400, 8}, {160, 80, 41, 10, 4},
    };
    stk__image_decoder *decoder = new_decoder();
    for (int progressive = 0; progressive < 2; progressive++) {
        const jpeg_file file = make_file(240, 120, &(jpeg_kind){JCS_RGB, JCS_YCbCr, 2, 2, .progressive = progressive});
        for (size_t i = 0; i < STK_COUNT(cases); i++) {
            stk__image_want want = {
                8, 8, cases[i].width, cases[i].height, 3, cases[i].cover_width, cases[i].cover_height, false};
            assert_int_equal(decode_ok(decoder, &file, &want).scaled_width, 240 * cases[i].scale / 8);
            want.exact = true;
            assert_int_equal(decode_ok(decoder, &file, &want).scaled_width, 240);
        }
        free(file.data);
    }
    stk__image_decoder_free(decoder);
}

/* Inverted ink, as Pillow takes it. */
static void ink_to_rgb(const uint8_t in[4], uint8_t out[3])
{
    for (int c = 0; c < 3; c++) {
        const unsigned product = (255u - in[c]) * in[3] + 128;
        out[c] = (uint8_t)(in[3] - ((product + (product >> 8)) >> 8));
    }
}

static void jpeg_of_cmyk_and_ycck_becomes_rgb(void **state)
{
    stk__image_decoder *decoder = new_decoder();
    for (int i = 0; i < 2; i++) {
        const jpeg_file file = make_file(53, 41, &(jpeg_kind){JCS_CMYK, i ? JCS_YCCK : JCS_CMYK, 1, 1});
        int width, height;
        uint8_t *ink = decode_plain(&file, JCS_CMYK, 8, &width, &height);
        static const int channels[] = {1, 3, 4};
        for (int j = 0; j < 3; j++) {
            const stk__image_want want = {
                .x = 5, .y = 9, .width = 30, .height = 20, .channels = channels[j], .exact = i};
            const stk__image_got got = decode_ok(decoder, &file, &want);
            for (int y = 0; y < 20; y++)
                for (int x = 0; x < 30; x++) {
                    uint8_t rgb[4] = {0, 0, 0, 255};
                    ink_to_rgb(ink + ((size_t)(9 + y) * 53 + 5 + (size_t)x) * 4, rgb);
                    if (channels[j] == 1)
                        rgb[0] = stk__luma(rgb[0], rgb[1], rgb[2]);
                    assert_memory_equal(stk__pixel_row(&got.pixels, y) + x * channels[j], rgb, (size_t)channels[j]);
                }
        }
        test_free(ink);
        free(file.data);
    }
    stk__image_decoder_free(decoder);
}

/* Images without Huffman tables have the standard ones, never those of the image before. */
static void jpeg_without_tables_does_not_borrow_any(void **state)
{
    uint8_t *pixels = make_picture(90, 70, 3);
    const jpeg_file bare = encode(pixels, 90, 70, 3, &(jpeg_kind){JCS_RGB, JCS_YCbCr, 2, 2, .no_tables = true});
    const jpeg_file full = encode(pixels, 90, 70, 3, &(jpeg_kind){JCS_RGB, JCS_YCbCr, 2, 2});
    const jpeg_file other = make_file(90, 70, &(jpeg_kind){JCS_RGB, JCS_YCbCr, 2, 2, .optimized = true, .quality = 40});
    /* No tables at all are written: those of quantization are put back. */
    const size_t from = find_marker(&full, 0xdb), to = find_marker(&full, 0xc0);
    const jpeg_file file = insert(&bare, find_marker(&bare, 0xc0), full.data + from, to - from);
    int width, height;
    uint8_t *all = decode_plain(&full, JCS_RGB, 8, &width, &height);
    stk__image_decoder *decoder = new_decoder();
    for (int exact = 0; exact < 2; exact++) {
        const stk__image_want want = {.width = 90, .height = 70, .channels = 3, .exact = exact};
        decode_ok(decoder, &other, &want);
        const stk__image_got got = decode_ok(decoder, &file, &want);
        assert_part_of(&got, all, width, height);
    }
    stk__image_decoder_free(decoder);
    test_free(all);
    test_free(pixels);
    free(bare.data);
    free(full.data);
    free(other.data);
    free(file.data);
}

static void jpeg_decodes_without_allocations_after_the_first(void **state)
{
    stk__image_decoder *decoder = new_decoder();
    const jpeg_file file = make_file(131, 77, &kinds[2]);
    stk__image_want want = {.width = 131, .height = 77, .channels = 3};
    decode_ok(decoder, &file, &want);
    const uint64_t before = stk__alloc_count();
    for (int i = 0; i < 20; i++) {
        draw_rectangle(&want, 131, 77);
        decode_ok(decoder, &file, &want);
    }
    assert_int_equal(stk__alloc_count(), before);
    stk__image_decoder_free(decoder);
    free(file.data);
}

static void jpeg_without_memory_says_so(void **state)
{
    for (size_t kind = 2; kind < 8; kind += 5) {
        const jpeg_file file = make_file(131, 77, &kinds[kind]);
        const stk__image_info info = probe(&file);
        const stk__image_want want = whole(&info, 3);
        int failures = 0;
        for (uint64_t n = 1;; n++) {
            stk__image_decoder *decoder = new_decoder();
            stk__image_got got;
            stk_error err;
            stk__alloc_fail_at(n, false);
            const stk_status status = stk__jpeg_decode(decoder, file.data, file.size, &info, &want, &got, &err);
            stk__alloc_fail_at(0, false);
            stk__image_decoder_free(decoder);
            if (status == STK_OK)
                break;
            assert_int_equal(status, STK_NOMEM);
            failures++;
        }
        assert_true(failures >= 2);
        free(file.data);
    }
}

/* ---- damage ---- */

/* A decode of the first `size` bytes, in memory that ends there. */
static stk_status decode_cut(stk__image_decoder *decoder, const jpeg_file *file, size_t size,
                             const stk__image_want *want, stk__image_got *got, stk_error *err)
{
    const stk__image_info info = probe(file);
    uint8_t *cut = test_malloc(size);
    memcpy(cut, file->data, size);
    const stk_status status = stk__jpeg_decode(decoder, cut, size, &info, want, got, err);
    test_free(cut);
    return status;
}

/* Either it is said to be corrupt, or every pixel is right. */
static void jpeg_cut_anywhere_is_corrupt_or_right(void **state)
{
    static const int tested[] = {0, 1, 2, 5, 7, 9, 10, 13};
    stk__image_decoder *decoder = new_decoder();
    for (size_t i = 0; i < STK_COUNT(tested); i++) {
        const jpeg_file file = make_file(61, 90, &kinds[tested[i]]);
        int width, height;
        uint8_t *all = decode_plain(&file, JCS_RGB, 8, &width, &height);
        const size_t start = find_marker(&file, 0xda);
        for (int exact = 0; exact < 2; exact++) {
            int cut_early = 0;
            for (size_t size = start; size < file.size; size += 1 + draw(9)) {
                const stk__image_want top = {.width = 61, .height = 20, .channels = 3, .exact = exact};
                stk__image_want bottom = top;
                bottom.y = 70;
                stk__image_got got;
                stk_error err;
                stk_status status = decode_cut(decoder, &file, size, &top, &got, &err);
                if (status == STK_OK) {
                    assert_part_of(&got, all, width, height);
                    cut_early += size < file.size * 3 / 4;
                } else {
                    assert_int_equal(status, STK_CORRUPT);
                }
                status = decode_cut(decoder, &file, size, &bottom, &got, &err);
                if (status == STK_OK)
                    assert_part_of(&got, all, width, height);
                else
                    assert_int_equal(status, STK_CORRUPT);
                /* Of the last 3 bytes, one may be all padding; then comes the end marker. */
                if (size + 3 < file.size)
                    assert_int_equal(status, STK_CORRUPT);
            }
            /* What ends after its last wanted row is fine; but all scans of a progressive one are needed. */
            if (!kinds[tested[i]].progressive && !kinds[tested[i]].arithmetic)
                assert_true(cut_early > 0);
        }
        test_free(all);
        free(file.data);
    }
    stk__image_decoder_free(decoder);
}

static void jpeg_damage_is_told_with_the_words_of_libjpeg(void **state)
{
    const jpeg_file file = make_file(61, 90, &kinds[2]);
    stk__image_decoder *decoder = new_decoder();
    const stk__image_want want = {.width = 61, .height = 90, .channels = 3};
    stk__image_got got;
    stk_error err;
    assert_int_equal(decode_cut(decoder, &file, file.size / 2, &want, &got, &err), STK_CORRUPT);
    assert_string_equal(err.message, "JPEG: Corrupt JPEG data: premature end of data segment");
    assert_int_equal(decode_cut(decoder, &file, file.size / 2, &want, &got, NULL), STK_CORRUPT);
    stk__image_decoder_free(decoder);
    free(file.data);
}

/* A marker in the middle of the data, and one restart segment that is gone. */
static void jpeg_with_lost_segments_is_corrupt(void **state)
{
    const jpeg_file file = make_file(120, 90, &(jpeg_kind){JCS_RGB, JCS_YCbCr, 2, 2, .restart = 5});
    const size_t from = find_marker(&file, 0xd2), to = find_marker(&file, 0xd3);
    stk__image_decoder *decoder = new_decoder();
    const stk__image_want want = {.width = 120, .height = 90, .channels = 3};
    stk__image_got got;
    jpeg_file lost = insert(&file, from, NULL, 0);
    memmove(lost.data + from, lost.data + to, lost.size - to);
    lost.size -= to - from;
    assert_int_equal(decode_cut(decoder, &lost, lost.size, &want, &got, NULL), STK_CORRUPT);
    free(lost.data);
    static const uint8_t end[] = {0xff, 0xd9};
    lost = insert(&file, (from + to) / 2, end, sizeof end);
    assert_int_equal(decode_cut(decoder, &lost, lost.size, &want, &got, NULL), STK_CORRUPT);
    free(lost.data);
    stk__image_decoder_free(decoder);
    free(file.data);
}

/* Whatever the bytes are: an answer, and no byte outside of the rectangle's memory. */
static void jpeg_with_wrong_bytes_gets_an_answer(void **state)
{
    stk__image_decoder *decoder = new_decoder();
    int accepted = 0, refused = 0;
    for (size_t i = 0; i < STK_COUNT(kinds); i++) {
        const jpeg_file file = make_file(61, 50, &kinds[i]);
        for (int round = 0; round < 120; round++) {
            jpeg_file bad = insert(&file, 0, NULL, 0);
            for (uint32_t n = 1 + draw(4); n > 0; n--)
                bad.data[2 + draw((uint32_t)bad.size - 2)] = (uint8_t)(draw(4) ? draw(256) : 0xff);
            stk__image_info info;
            stk__image_got got;
            stk_status status = stk__jpeg_probe(bad.data, bad.size, true, &info, NULL);
            if (status == STK_OK && (int64_t)info.width * info.height < 1000000) {
                stk__image_want want = {
                    .channels = draw(2) ? 3 : 1, .exact = draw(3) == 0, .cover_width = 20, .cover_height = 20};
                draw_rectangle(&want, info.width, info.height);
                status = stk__jpeg_decode(decoder, bad.data, bad.size, &info, &want, &got, NULL);
            }
            *(status == STK_OK ? &accepted : &refused) += 1;
            free(bad.data);
        }
        free(file.data);
    }
    assert_true(accepted > 0 && refused > 0);
    stk__image_decoder_free(decoder);
}

/* One scan for each coefficient and bit: allowed, but only an attack writes that. */
static void jpeg_with_too_many_scans_is_corrupt(void **state)
{
    jpeg_scan_info scans[130];
    int count = 0;
    scans[count++] = (jpeg_scan_info){.comps_in_scan = 1};
    for (int refine = 0; refine < 2; refine++)
        for (int k = 1; k < 64; k++)
            scans[count++] = (jpeg_scan_info){1, {0}, k, k, refine, 1 - refine};
    uint8_t *pixels = make_picture(32, 32, 1);
    jpeg_file file = {0};
    struct jpeg_compress_struct codec;
    struct jpeg_error_mgr errors;
    codec.err = jpeg_std_error(&errors);
    jpeg_create_compress(&codec);
    jpeg_mem_dest(&codec, &file.data, &file.size);
    codec.image_width = codec.image_height = 32;
    codec.input_components = 1;
    codec.in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults(&codec);
    codec.scan_info = scans;
    codec.num_scans = count;
    jpeg_start_compress(&codec, TRUE);
    for (int y = 0; y < 32; y++) {
        JSAMPROW row = pixels + 32 * y;
        jpeg_write_scanlines(&codec, &row, 1);
    }
    jpeg_finish_compress(&codec);
    jpeg_destroy_compress(&codec);
    stk__image_decoder *decoder = new_decoder();
    const stk__image_want want = {.width = 32, .height = 32, .channels = 1};
    stk__image_got got;
    stk_error err;
    assert_int_equal(decode_cut(decoder, &file, file.size, &want, &got, &err), STK_CORRUPT);
    assert_string_equal(err.message, "JPEG: more than 100 scans");
    stk__image_decoder_free(decoder);
    test_free(pixels);
    free(file.data);
}

/* ---- kernels ---- */

/* Coefficients as in pictures, and as in no picture: every level wraps and saturates in the same way. */
static void jpeg_kernels_give_the_same_at_every_level(void **state)
{
    _Alignas(64) static int16_t coefficients[5][64], factors[5][64];
    static uint8_t out[STK__SIMD_COUNT][5 * 64];
    for (int round = 0; round < 2000; round++) {
        const int count = 1 + round % 5;
        for (int i = 0; i < 5 * 64; i++) {
            const int range = round % 4 == 0 ? 32768 : round % 4 == 1 ? 1024 : 64;
            coefficients[i / 64][i % 64] = (int16_t)(draw(3) ? 0 : (int)draw((uint32_t)(2 * range)) - range);
            factors[i / 64][i % 64] = (int16_t)(1 + draw(round % 2 ? 255 : 20));
        }
        for (int level = 0; level <= (int)stk__simd_highest(); level++) {
            stk__simd_limit((stk__simd)level);
            memset(out[level], 7, sizeof out[level]);
            stk__jpeg_block blocks[5];
            for (int i = 0; i < 5; i++)
                blocks[i] = (stk__jpeg_block){coefficients[i], factors[i], out[level] + 64 * i, 8};
            if (round & 1)
                stk__jpeg_kernels_get()->idct8(blocks, count);
            else
                stk__jpeg_kernels_get()->idct4(blocks, count);
            assert_memory_equal(out[level], out[0], sizeof out[0]);
        }
    }
    stk__simd_limit(STK__SIMD_COUNT);
}

/* All of one luma with every pair of colours, and every length of a row. */
static void jpeg_rows_are_the_same_at_every_level(void **state)
{
    enum { SIZE = 300, ROOM = SIZE + 2 * STK__JPEG_SLACK };
    static uint8_t rows[3][ROOM], wide[STK__SIMD_COUNT][2][2 * ROOM];
    for (int round = 0; round < 600; round++) {
        const int32_t count = round < SIZE ? round + 1 : 256;
        const int channels = 3 + round % 2;
        for (int i = 0; i < 3 * ROOM; i++)
            rows[i / ROOM][i % ROOM] = (uint8_t)draw(256);
        if (round >= SIZE)
            for (int i = 0; i < 256; i++) {
                rows[1][STK__JPEG_SLACK + i] = (uint8_t)(round - SIZE);
                rows[2][STK__JPEG_SLACK + i] = (uint8_t)i;
            }
        uint8_t *rgb[STK__SIMD_COUNT] = {NULL};
        for (int level = 0; level <= (int)stk__simd_highest(); level++) {
            stk__simd_limit((stk__simd)level);
            const stk__jpeg_kernels *kernels = stk__jpeg_kernels_get();
            const uint8_t *a = rows[0] + STK__JPEG_SLACK, *b = rows[1] + STK__JPEG_SLACK,
                          *c = rows[2] + STK__JPEG_SLACK;
            rgb[level] = test_malloc((size_t)(count * channels)); /* to be checked by sanitizers at its very end */
            kernels->rgb(rgb[level], a, b, c, count, channels);
            kernels->widen(wide[level][0], a, count);
            kernels->widen_between(wide[level][1], a, b, count);
            assert_memory_equal(rgb[level], rgb[0], (size_t)(count * channels));
            assert_memory_equal(wide[level][0], wide[0][0], (size_t)(2 * count));
            assert_memory_equal(wide[level][1], wide[0][1], (size_t)(2 * count));
        }
        for (int level = 0; level <= (int)stk__simd_highest(); level++)
            test_free(rgb[level]);
    }
    stk__simd_limit(STK__SIMD_COUNT);
}

/* ---- writing ---- */

static void jpeg_encode_writes_what_decoders_read(void **state)
{
    static const int subsamplings[] = {444, 422, 420};
    stk__image_decoder *decoder = new_decoder();
    for (int i = 0; i < 6; i++) {
        const int channels = i % 2 ? 3 : 1;
        uint8_t *pixels = make_picture(77, 53, channels);
        /* Rows with a gap after each. */
        const ptrdiff_t stride = 77 * channels + 13;
        uint8_t *gaps = test_malloc((size_t)stride * 53);
        for (int y = 0; y < 53; y++)
            memcpy(gaps + y * stride, pixels + y * 77 * channels, (size_t)(77 * channels));
        const stk__pixels in = {gaps, 77, 53, channels, 1, stride};
        const size_t room = stk__jpeg_bound(77, 53, channels);
        jpeg_file file = {test_malloc(room), 0};
        size_t size;
        assert_int_equal(stk__jpeg_encode(decoder, &in, 97, subsamplings[i / 2], file.data, &size, NULL), STK_OK);
        assert_true(size > 0 && size <= room);
        file.size = size;
        const stk__image_info info = probe(&file);
        assert_int_equal(info.channels, channels);
        const stk__image_want want = whole(&info, channels);
        const stk__image_got got = decode_ok(decoder, &file, &want);
        assert_true(mean_square(&got, pixels) < (channels == 1 ? 3 : subsamplings[i / 2] == 444 ? 10 : 60));
        test_free(file.data);
        test_free(gaps);
        test_free(pixels);
    }
    stk__image_decoder_free(decoder);
}

static void jpeg_encode_of_noise_stays_within_its_bound(void **state)
{
    static const int sizes_tested[] = {1, 8, 15, 16, 17, 100};
    stk__image_decoder *decoder = new_decoder();
    for (size_t i = 0; i < STK_COUNT(sizes_tested); i++)
        for (int channels = 1; channels <= 3; channels += 2) {
            const int n = sizes_tested[i];
            uint8_t *pixels = test_malloc((size_t)(n * n * channels));
            for (int j = 0; j < n * n * channels; j++)
                pixels[j] = draw(2) ? 255 : 0;
            const stk__pixels in = {pixels, n, n, channels, 1, n * channels};
            const size_t room = stk__jpeg_bound(n, n, channels);
            uint8_t *out = test_malloc(room);
            size_t size;
            assert_int_equal(stk__jpeg_encode(decoder, &in, 100, 444, out, &size, NULL), STK_OK);
            assert_true(size <= room);
            test_free(out);
            test_free(pixels);
        }
    stk__image_decoder_free(decoder);
}

static void jpeg_encode_refuses_what_it_cannot_write(void **state)
{
    uint8_t pixel[4] = {0}, out[4096];
    size_t size = 5;
    stk_error err;
    const stk__pixels good = {pixel, 1, 1, 3, 1, 3};
    stk__pixels two = good, wide = good;
    two.channels = 2;
    wide.width = 70000;
    assert_int_equal(stk__jpeg_encode(NULL, &two, 90, 444, out, &size, &err), STK_INVALID);
    assert_int_equal(stk__jpeg_encode(NULL, &wide, 90, 444, out, &size, &err), STK_INVALID);
    assert_int_equal(stk__jpeg_encode(NULL, &good, 0, 444, out, &size, &err), STK_INVALID);
    assert_int_equal(stk__jpeg_encode(NULL, &good, 101, 444, out, &size, &err), STK_INVALID);
    assert_int_equal(stk__jpeg_encode(NULL, &good, 90, 411, out, &size, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "411"));
    assert_int_equal(size, 5);
    assert_int_equal(stk__jpeg_bound(0, 1, 3), 0);
    assert_int_equal(stk__jpeg_bound(1, 70000, 3), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jpeg_probe_tells_size_and_channels),
        cmocka_unit_test(jpeg_probe_finds_orientation_when_wanted),
        cmocka_unit_test(jpeg_probe_of_a_cut_header_is_corrupt),
        cmocka_unit_test(jpeg_probe_refuses_what_cannot_be),
        cmocka_unit_test(jpeg_of_12_bits_is_unsupported),
        cmocka_unit_test(jpeg_exact_rectangles_are_those_of_libjpeg),
        cmocka_unit_test(jpeg_full_size_rectangles_are_those_of_libjpeg),
        cmocka_unit_test(jpeg_rectangles_at_every_offset),
        cmocka_unit_test(jpeg_scaled_is_near_libjpeg_and_the_same_at_every_level),
        cmocka_unit_test(jpeg_scale_is_the_smallest_that_covers),
        cmocka_unit_test(jpeg_of_cmyk_and_ycck_becomes_rgb),
        cmocka_unit_test(jpeg_without_tables_does_not_borrow_any),
        cmocka_unit_test(jpeg_decodes_without_allocations_after_the_first),
        cmocka_unit_test(jpeg_without_memory_says_so),
        cmocka_unit_test(jpeg_cut_anywhere_is_corrupt_or_right),
        cmocka_unit_test(jpeg_damage_is_told_with_the_words_of_libjpeg),
        cmocka_unit_test(jpeg_with_lost_segments_is_corrupt),
        cmocka_unit_test(jpeg_with_wrong_bytes_gets_an_answer),
        cmocka_unit_test(jpeg_with_too_many_scans_is_corrupt),
        cmocka_unit_test(jpeg_kernels_give_the_same_at_every_level),
        cmocka_unit_test(jpeg_rows_are_the_same_at_every_level),
        cmocka_unit_test(jpeg_encode_writes_what_decoders_read),
        cmocka_unit_test(jpeg_encode_of_noise_stays_within_its_bound),
        cmocka_unit_test(jpeg_encode_refuses_what_it_cannot_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
