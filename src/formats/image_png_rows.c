/*
 * Turns inflated rows of a PNG into pixels: they are unfiltered where they lie, then converted, and spread where they
 * are interlaced. Of 16 bits the high byte is kept, as libpng's strip_16 does, unless uint16 is wanted.
 */
#include "formats/image_png.h"

#include <string.h>

#include "base/compiler.h"
#include "kernels/color.h"
#include "kernels/unfilter.h"

/* What it takes to turn unfiltered rows of one picture into wanted pixels. */
typedef struct png_convert {
    const stk__png_file *file;
    const struct stk__png *png;
    int samples;        /* of a stored pixel */
    size_t pixel;       /* whole bytes of a stored pixel, at least 1 */
    int32_t channels;   /* wanted */
    size_t out_pixel;   /* bytes of a wanted pixel */
    bool wide;          /* of 16 bits, and wanted so */
    bool lookup;        /* samples are indices of png->colors */
    uint32_t colors;    /* how many of those there are */
    const uint8_t *key; /* the stored pixel that is transparent, or NULL */
    uint8_t key_data[8];
    uint8_t *unpacked; /* room for a row of samples of 8 bits, where they do not lie in the row as such */
} png_convert;

static void fill_colors(struct stk__png *png, const stk__png_file *file)
{
    if (file->color == STK__PNG_PALETTE) {
        for (uint32_t i = 0; i < file->palette_count; i++) {
            const uint8_t *rgb = file->palette + 3 * (size_t)i;
            const uint8_t alpha = i < file->transparency_size ? file->transparency[i] : 255;
            memcpy(png->colors[i], (uint8_t[]){rgb[0], rgb[1], rgb[2], alpha}, 4);
            png->luma[i] = stk__luma(rgb[0], rgb[1], rgb[2]);
        }
        return;
    }
    const unsigned top = (1u << file->bits) - 1;
    const unsigned key = file->transparency ? (unsigned)file->transparency[0] << 8 | file->transparency[1] : 65536;
    for (unsigned i = 0; i <= top; i++) {
        const uint8_t v = (uint8_t)(i * 255 / top);
        memcpy(png->colors[i], (uint8_t[]){v, v, v, i == key ? 0 : 255}, 4);
        png->luma[i] = v;
    }
}

static void convert_init(png_convert *c, struct stk__png *png, const stk__png_file *file, const stk__image_want *want)
{
    const int32_t channels = want->channels;
    *c = (png_convert){.file = file, .png = png, .samples = stk__png_samples(file->color), .channels = channels};
    c->wide = want->wide && file->bits == 16;
    c->out_pixel = (size_t)channels * (c->wide ? 2 : 1);
    c->pixel = file->bits < 8 ? 1 : (size_t)c->samples * (size_t)(file->bits / 8);
    c->lookup = !want->stored && (file->color == STK__PNG_PALETTE || file->bits < 8);
    if (c->lookup) {
        fill_colors(png, file);
        c->colors = file->color == STK__PNG_PALETTE ? file->palette_count : 1u << file->bits;
    } else if (file->transparency && channels == 4) {
        /* tRNS always has 16 bits for a sample. */
        for (int i = 0; i < c->samples; i++) {
            const uint8_t *sample = file->transparency + 2 * i;
            if (file->bits == 16)
                memcpy(c->key_data + 2 * i, sample, 2);
            else
                c->key_data[i] = sample[1];
        }
        c->key = c->key_data;
    }
}

/* `count` samples of 1, 2 or 4 bits each as bytes. */
static void unpack_bits(uint8_t *out, const uint8_t *row, size_t first, size_t count, unsigned bits)
{
    const unsigned top = (1u << bits) - 1, in_byte = 8 / bits;
    for (size_t i = 0; i < count; i++) {
        const size_t at = first + i;
        out[i] = (uint8_t)(row[at / in_byte] >> (8 - bits - bits * (at % in_byte)) & top);
    }
}

static const uint8_t *samples_of(const png_convert *c, const uint8_t *row, size_t first, size_t count)
{
    if (c->file->bits == 8)
        return row + first * c->pixel;
    if (c->file->bits < 8) {
        unpack_bits(c->unpacked, row, first, count, (unsigned)c->file->bits);
    } else {
        const uint8_t *high = row + first * c->pixel;
        for (size_t i = 0; i < count * (size_t)c->samples; i++)
            c->unpacked[i] = high[2 * i];
    }
    return c->unpacked;
}

static stk_status look_up(const png_convert *c, const uint8_t *in, size_t count, uint8_t *out, stk_error *err)
{
    uint8_t highest = 0;
    for (size_t i = 0; i < count; i++)
        highest = STK_MAX(highest, in[i]);
    if (highest >= c->colors)
        return stk_error_set(err, STK_CORRUPT, "PNG is damaged: pixel with colour %d, but its palette has %lu", highest,
                             (unsigned long)c->colors);
    const struct stk__png *png = c->png;
    if (c->channels == 1) {
        for (size_t i = 0; i < count; i++)
            out[i] = png->luma[in[i]];
    } else if (c->channels == 4) {
        for (size_t i = 0; i < count; i++)
            memcpy(out + 4 * i, png->colors[in[i]], 4);
    } else {
        for (size_t i = 0; i < count; i++)
            memcpy(out + 3 * i, png->colors[in[i]], 3);
    }
    return STK_OK;
}

static void from_gray(const uint8_t *in, size_t step, size_t count, uint8_t *out, int32_t channels)
{
    for (size_t i = 0; i < count; i++, in += step, out += channels) {
        out[0] = in[0];
        if (channels == 1)
            continue;
        out[1] = out[2] = in[0];
        if (channels == 4)
            out[3] = step == 2 ? in[1] : 255;
    }
}

static void from_rgb(const uint8_t *in, size_t step, size_t count, uint8_t *out, int32_t channels)
{
    if (channels == 1) {
        for (size_t i = 0; i < count; i++, in += step)
            out[i] = stk__luma(in[0], in[1], in[2]);
        return;
    }
    for (size_t i = 0; i < count; i++, in += step, out += channels) {
        out[0] = in[0];
        out[1] = in[1];
        out[2] = in[2];
        if (channels == 4)
            out[3] = step == 4 ? in[3] : 255;
    }
}

/* Each kind by itself, so that the compiler sees steps that are constant. */
static void convert_samples(const uint8_t *in, int samples, size_t count, uint8_t *out, int32_t channels)
{
    if (samples == channels) {
        memcpy(out, in, count * (size_t)samples);
        return;
    }
    switch (samples * 8 + channels) {
    case 1 * 8 + 3:
        from_gray(in, 1, count, out, 3);
        break;
    case 1 * 8 + 4:
        from_gray(in, 1, count, out, 4);
        break;
    case 2 * 8 + 1:
        from_gray(in, 2, count, out, 1);
        break;
    case 2 * 8 + 3:
        from_gray(in, 2, count, out, 3);
        break;
    case 2 * 8 + 4:
        from_gray(in, 2, count, out, 4);
        break;
    case 3 * 8 + 1:
        from_rgb(in, 3, count, out, 1);
        break;
    case 3 * 8 + 4:
        from_rgb(in, 3, count, out, 4);
        break;
    case 4 * 8 + 1:
        from_rgb(in, 4, count, out, 1);
        break;
    default:
        from_rgb(in, 4, count, out, 3);
        break;
    }
}

static uint16_t read_be16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

/* Samples of 16 bits, all of them; `out` may lie anywhere. */
static void convert_wide(const uint8_t *in, int samples, size_t count, uint8_t *out, int32_t channels)
{
    const int color = samples >= 3 ? 3 : 1;
    for (size_t i = 0; i < count; i++, in += 2 * samples, out += 2 * channels) {
        uint16_t pixel[4];
        for (int k = 0; k < 3; k++)
            pixel[k] = read_be16(in + (color == 3 ? 2 * k : 0));
        pixel[3] = samples > color ? read_be16(in + 2 * color) : UINT16_MAX;
        if (channels == 1 && color == 3)
            pixel[0] = stk__luma16(pixel[0], pixel[1], pixel[2]);
        memcpy(out, pixel, 2 * (size_t)channels);
    }
}

/* Pixels of the one colour that is transparent lose their alpha. */
static void clear_key(const png_convert *c, const uint8_t *stored, size_t count, uint8_t *out)
{
    const size_t alpha = c->out_pixel / 4;
    for (size_t i = 0; i < count; i++) {
        if (memcmp(stored + i * c->pixel, c->key, c->pixel) == 0)
            memset(out + i * c->out_pixel + 3 * alpha, 0, alpha);
    }
}

static stk_status out_get(stk__image_decoder *decoder, const png_convert *c, const stk__image_want *want,
                          stk__image_got *out, stk_error *err)
{
    return c->wide ? stk__image_wide_get(decoder, want->width, want->height, want->channels, out, err)
                   : stk__image_pixels_get(decoder, want->width, want->height, want->channels, out, err);
}

/* `count` pixels from column `first` of an unfiltered row, to `out`. */
static stk_status convert_row(const png_convert *c, const uint8_t *row, size_t first, size_t count, uint8_t *out,
                              stk_error *err)
{
    if (c->wide) {
        convert_wide(row + first * c->pixel, c->samples, count, out, c->channels);
    } else {
        const uint8_t *in = samples_of(c, row, first, count);
        if (c->lookup)
            return look_up(c, in, count, out, err);
        convert_samples(in, c->samples, count, out, c->channels);
    }
    if (c->key)
        clear_key(c, row + first * c->pixel, count, out);
    return STK_OK;
}

size_t stk__png_row_bytes(const stk__png_file *file, int32_t width)
{
    return ((size_t)width * (size_t)(stk__png_samples(file->color) * file->bits) + 7) / 8;
}

static stk_status refuse_filter(int kind, int32_t y, stk_error *err)
{
    return stk_error_set(err, STK_CORRUPT, "PNG is damaged: filter %d in row %d, wanted 0 to 4", kind, (int)y);
}

/* Unfilters what the wanted rectangle depends on: from the last row that does not look above, up to the right edge. */
static stk_status unfilter_rows(uint8_t *rows, size_t stride, size_t size, size_t pixel, int32_t y, int32_t height,
                                stk_error *err)
{
    int32_t from = y;
    while (from > 0 && rows[(size_t)from * stride] > 1)
        from--;
    for (int32_t i = 0; i < from; i++) {
        if (rows[(size_t)i * stride] > 4)
            return refuse_filter(rows[(size_t)i * stride], i, err);
    }
    const size_t count = (size_t)(y + height - from);
    const size_t done = stk__unfilter_rows(rows + (size_t)from * stride, stride, size, pixel, count);
    if (done < count)
        return refuse_filter(rows[((size_t)from + done) * stride], from + (int32_t)done, err);
    return STK_OK;
}

/* Rows in the order of the picture. Where stored pixels are wanted as they are, they are handed out where they lie. */
static stk_status take_rows(stk__image_decoder *decoder, const png_convert *c, uint8_t *rows,
                            const stk__image_want *want, stk__image_got *out, stk_error *err)
{
    const stk__png_file *file = c->file;
    const size_t stride = stk__png_row_bytes(file, file->width) + 1,
                 size = stk__png_row_bytes(file, want->x + want->width);
    STK_TRY(unfilter_rows(rows, stride, size, c->pixel, want->y, want->height, err));
    uint8_t *first = rows + (size_t)want->y * stride + 1;
    if (file->bits == 8 && !c->lookup && c->samples == want->channels) {
        out->pixels = (stk__pixels){
            first + (size_t)want->x * c->pixel, want->width, want->height, want->channels, 1, (ptrdiff_t)stride};
        return STK_OK;
    }
    STK_TRY(out_get(decoder, c, want, out, err));
    for (int32_t i = 0; i < want->height; i++)
        STK_TRY(convert_row(c, first + (size_t)i * stride, (size_t)want->x, (size_t)want->width,
                            stk__pixel_row(&out->pixels, i), err));
    return STK_OK;
}

/* The seven pictures that an interlaced one is stored as. */
typedef struct png_pass {
    uint8_t x, y, step_x, step_y;
} png_pass;

static const png_pass passes[7] = {
    {0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2},
};

static int32_t pass_extent(int32_t size, int32_t start, int32_t step)
{
    return size > start ? (int32_t)(((int64_t)size - start + step - 1) / step) : 0;
}

bool stk__png_rows_total(const stk__png_file *file, size_t *out)
{
    if (!file->interlaced)
        return !__builtin_mul_overflow(stk__png_row_bytes(file, file->width) + 1, (size_t)file->height, out);
    size_t total = 0;
    for (size_t i = 0; i < STK_COUNT(passes); i++) {
        const int32_t width = pass_extent(file->width, passes[i].x, passes[i].step_x);
        const int32_t height = pass_extent(file->height, passes[i].y, passes[i].step_y);
        size_t pass;
        if (width && (__builtin_mul_overflow(stk__png_row_bytes(file, width) + 1, (size_t)height, &pass) ||
                      __builtin_add_overflow(total, pass, &total)))
            return false;
    }
    *out = total;
    return true;
}

/* Spreads the wanted part of a converted row of a pass over its row of the picture. */
static void spread_row(const png_pass *pass, const uint8_t *in, int32_t count, size_t pixel,
                       const stk__image_want *want, uint8_t *out)
{
    for (int32_t i = pass_extent(want->x, pass->x, pass->step_x); i < count; i++) {
        const int64_t x = pass->x + (int64_t)i * pass->step_x - want->x;
        if (x >= want->width)
            break;
        memcpy(out + (size_t)x * pixel, in + (size_t)i * pixel, pixel);
    }
}

static stk_status take_interlaced(stk__image_decoder *decoder, const png_convert *c, uint8_t *rows, uint8_t *converted,
                                  const stk__image_want *want, stk__image_got *out, stk_error *err)
{
    const stk__png_file *file = c->file;
    STK_TRY(out_get(decoder, c, want, out, err));
    for (size_t p = 0; p < STK_COUNT(passes); p++) {
        const png_pass *pass = &passes[p];
        const int32_t width = pass_extent(file->width, pass->x, pass->step_x);
        const int32_t height = width ? pass_extent(file->height, pass->y, pass->step_y) : 0;
        const size_t size = stk__png_row_bytes(file, width);
        STK_TRY(unfilter_rows(rows, size + 1, size, c->pixel, 0, height, err));
        for (int32_t i = 0; i < height; i++, rows += size + 1) {
            const int64_t y = pass->y + (int64_t)i * pass->step_y - want->y;
            if (y < 0 || y >= want->height)
                continue;
            STK_TRY(convert_row(c, rows + 1, 0, (size_t)width, converted, err));
            spread_row(pass, converted, width, c->out_pixel, want, stk__pixel_row(&out->pixels, (int32_t)y));
        }
    }
    return STK_OK;
}

size_t stk__png_scratch(const stk__png_file *file)
{
    return (size_t)file->width * (4 * (size_t)(file->bits != 8) + 8 * (size_t)file->interlaced);
}

stk_status stk__png_take(stk__image_decoder *decoder, const stk__png_file *file, uint8_t *rows, uint8_t *scratch,
                         const stk__image_want *want, stk__image_got *out, stk_error *err)
{
    png_convert convert;
    convert_init(&convert, decoder->png, file, want);
    convert.unpacked = scratch;
    if (!file->interlaced)
        return take_rows(decoder, &convert, rows, want, out, err);
    uint8_t *converted = scratch + (file->bits != 8 ? (size_t)file->width * 4 : 0);
    return take_interlaced(decoder, &convert, rows, converted, want, out, err);
}
