/* write_sheet: write a contact sheet of images, to look at. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/image.h"
#include "kernels/convert.h"
#include "kernels/glyphs.h"
#include "ops/image_op.h"
#include "ops/sink_names.h"

#include "base/banned.h"

enum { GAP = 4, CAPTION_HEIGHT = STK__GLYPH_HEIGHT + 3, CAPTION_MAX = 256 };

/* One image as RGB, with its caption. */
typedef struct tile {
    stk__pixels pixels;
    size_t size;
    char caption[CAPTION_MAX];
} tile;

typedef struct {
    const char *path, *image, *caption;
    int64_t columns, count, zoom;
    stk_field image_field, caption_field;
    tile *tiles;
    int64_t tile_count;
    const stk_call *call; /* for giving memory back */
} sheet_state;

static stk_status sheet_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    sheet_state *s = state;
    stk__image_op op;
    int id;
    STK_TRY(stk__sink_path_check(host, s->path, err));
    STK_TRY(stk__image_plan_read(plan, host, &op, s->image, STK__TAKES_ANY, err));
    s->image_field = op.from;
    if (op.from.dtype != STK_UINT8 && op.from.dtype != STK_FLOAT32)
        return host->fail(err, STK_INVALID, "field '%s' is %s, wanted uint8 or float32; cast it to float32 before this", s->image,
                          stk_dtype_name(op.from.dtype));
    if (!s->caption)
        return STK_OK;
    STK_TRY(host->plan_read(plan, s->caption, &id, &s->caption_field, err));
    if (s->caption_field.ndim != 0)
        return host->fail(err, STK_INVALID, "caption '%s' has %d dimensions, wanted one value for each sample", s->caption,
                          s->caption_field.ndim);
    return STK_OK;
}

static stk_status sheet_open(const stk_call *call, stk_error *err)
{
    sheet_state *s = call->state;
    s->call = call;
    s->tiles = stk__calloc((size_t)s->count, sizeof *s->tiles);
    return s->tiles ? STK_OK : stk__nomem((size_t)s->count * sizeof *s->tiles, err);
}

static void sheet_close(void *state)
{
    sheet_state *s = state;
    for (int64_t i = 0; s->tiles && i < s->tile_count; i++)
        stk_budget_free(s->call, s->tiles[i].pixels.data, s->tiles[i].size);
    stk__free(s->tiles);
}

static const stk_column *find_column(const stk_batch *batch, const char *name)
{
    for (int32_t i = 0; i < batch->column_count; i++)
        if (strcmp(batch->columns[i].name, name) == 0)
            return &batch->columns[i];
    return NULL;
}

static void write_caption(const sheet_state *s, const stk_column *column, int64_t row, char out[CAPTION_MAX])
{
    if (s->caption_field.dtype == STK_BYTES) {
        const stk_bytes *view = (const stk_bytes *)column->data + row;
        snprintf(out, CAPTION_MAX, "%.*s", (int)STK_MIN(view->size, (int64_t)CAPTION_MAX - 1), (const char *)view->data);
        return;
    }
    double number;
    const char *at = (const char *)column->data + (size_t)row * stk_dtype_size(column->dtype);
    stk__convert(&number, STK_FLOAT64, at, column->dtype, 1);
    snprintf(out, CAPTION_MAX, "%.6g", number);
}

/* From the darkest to the brightest value of a float image that is a number, or 0 to 255. */
static void value_range(const stk_column *c, const float *values, int64_t n, double *out_low, double *out_scale)
{
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; c->dtype == STK_FLOAT32 && i < n; i++) {
        if (!isfinite(values[i]))
            continue;
        low = fmin(low, (double)values[i]);
        high = fmax(high, (double)values[i]);
    }
    *out_low = low;
    *out_scale = high > low ? 255 / (high - low) : 0;
}

/* What is no number is black; what is infinite is as dark or bright as can be. */
static uint8_t gray_of(float value, double low, double scale)
{
    const double gray = ((double)value - low) * scale + 0.5;
    return !(gray > 0) ? 0 : gray < 255 ? (uint8_t)gray : 255;
}

/* Images of 1 or 2 channels are gray; alpha is not shown. */
static void fill_tile(const stk_column *c, const char *in, int32_t channels, const stk__pixels *out)
{
    const int64_t pixels = (int64_t)out->width * out->height;
    const float *floats = (const float *)(const void *)in;
    double low, scale;
    value_range(c, floats, pixels * channels, &low, &scale);
    for (int64_t i = 0; i < pixels; i++) {
        for (int32_t k = 0; k < 3; k++) {
            const int64_t at = i * channels + (channels >= 3 ? k : 0);
            out->data[i * 3 + k] = c->dtype == STK_UINT8 ? (uint8_t)in[at] : gray_of(floats[at], low, scale);
        }
    }
}

static stk_status keep_tile(const stk_call *call, const stk_batch *batch, int64_t row, stk_error *err)
{
    sheet_state *s = call->state;
    const stk_column *c = find_column(batch, s->image);
    const int32_t channels = (int32_t)s->image_field.shape[2];
    const int64_t *shape = c->row_shapes ? c->row_shapes + row * 3 : c->shape + 1;
    const int64_t height = shape[0], width = shape[1];
    if (height < 1 || width < 1 || height > 16384 || width > 16384)
        return call->host->fail(err, STK_INVALID, "image of %lld x %lld pixels, wanted at most 16384 x 16384 on a sheet",
                                (long long)width, (long long)height);
    if (!c->offsets && (c->shape[1] != height || c->shape[2] != width))
        return call->host->fail(err, STK_INVALID, "field '%s' is padded: leave out pad=true for a sheet", s->image);
    tile *t = &s->tiles[s->tile_count];
    t->size = (size_t)(height * width * 3);
    uint8_t *data = stk_budget_alloc(call, t->size, err);
    if (!data)
        return err->status;
    t->pixels = (stk__pixels){data, (int32_t)width, (int32_t)height, 3, 1, (ptrdiff_t)width * 3};
    s->tile_count++;
    const int64_t first = c->offsets ? c->offsets[row] : row * height * width * channels;
    fill_tile(c, (const char *)c->data + (size_t)first * stk_dtype_size(c->dtype), channels, &t->pixels);
    if (s->caption)
        write_caption(s, find_column(batch, s->caption), row, t->caption);
    return STK_OK;
}

static stk_status sheet_consume(const stk_call *call, const stk_batch *batch, stk_error *err)
{
    const sheet_state *s = call->state;
    for (int64_t row = 0; row < batch->rows && s->tile_count < s->count; row++)
        STK_TRY(keep_tile(call, batch, row, err));
    return STK_OK;
}

/* The image, each pixel `zoom` times as large, with its top left at (x, y). */
static void draw_tile(const stk__pixels *sheet, const tile *t, int32_t x, int32_t y, int32_t zoom)
{
    for (int32_t row = 0; row < t->pixels.height; row++)
        for (int32_t column = 0; column < t->pixels.width; column++)
            stk__fill_rect(sheet, x + column * zoom, y + row * zoom, zoom, zoom, stk__pixel_row(&t->pixels, row) + 3 * column);
}

static void draw_sheet(const sheet_state *s, const stk__pixels *sheet, int32_t cell_width, int32_t cell_height)
{
    static const uint8_t paper[3] = {255, 255, 255}, ink[3] = {40, 40, 40};
    stk__fill_rect(sheet, 0, 0, sheet->width, sheet->height, paper);
    for (int64_t i = 0; i < s->tile_count; i++) {
        const tile *t = &s->tiles[i];
        const int32_t x = GAP + (int32_t)(i % s->columns) * (cell_width + GAP);
        const int32_t y = GAP + (int32_t)(i / s->columns) * (cell_height + GAP);
        draw_tile(sheet, t, x, y, (int32_t)s->zoom);
        const size_t room = (size_t)cell_width / STK__GLYPH_ADVANCE;
        stk__glyphs_draw(sheet, x, y + t->pixels.height * (int32_t)s->zoom + 2, t->caption, STK_MIN(strlen(t->caption), room), ink);
    }
}

static void *memory_alloc(void *arg, size_t size, stk_error *err)
{
    return stk_budget_alloc(arg, size, err);
}

static void memory_free(void *arg, void *p, size_t size)
{
    stk_budget_free(arg, p, size);
}

static stk_status memory_charge(void *arg, size_t size, stk_error *err)
{
    return stk_budget_charge(arg, size, err);
}

static void memory_give_back(void *arg, size_t size)
{
    stk_budget_return(arg, size);
}

/* Encodes the sheet and publishes the file. */
static stk_status publish(const stk_call *call, const stk__pixels *sheet, stk_error *err)
{
    const sheet_state *s = call->state;
    const stk__image_memory memory = {memory_alloc, memory_free, (void *)(uintptr_t)call, memory_charge, memory_give_back};
    stk__image_decoder *encoder;
    size_t size = stk__png_bound(sheet->width, sheet->height, 3);
    const size_t bound = size;
    STK_TRY(stk__image_decoder_new(&memory, &encoder, err));
    uint8_t *png = stk_budget_alloc(call, bound, err);
    stk_status status = png ? stk__png_encode(encoder, sheet, 9, png, &size, err) : err->status;
    if (status == STK_OK)
        status = stk__make_parents(s->path, err);
    if (status == STK_OK)
        status = stk__write_file(s->path, png, size, err);
    stk_budget_free(call, png, bound);
    stk__image_decoder_free(encoder);
    return status;
}

static stk_status sheet_finish(const stk_call *call, stk_error *err)
{
    const sheet_state *s = call->state;
    int64_t cell_width = 1, cell_height = 1;
    if (s->tile_count == 0)
        return call->host->fail(err, STK_INVALID, "no image came: there is nothing to write to '%s'", s->path);
    for (int64_t i = 0; i < s->tile_count; i++) {
        cell_width = STK_MAX(cell_width, s->tiles[i].pixels.width * s->zoom);
        cell_height = STK_MAX(cell_height, s->tiles[i].pixels.height * s->zoom);
    }
    cell_height += s->caption ? CAPTION_HEIGHT : 0;
    const int64_t columns = STK_MIN(s->columns, s->tile_count), rows = (s->tile_count + s->columns - 1) / s->columns;
    const int64_t width = GAP + columns * (cell_width + GAP), height = GAP + rows * (cell_height + GAP);
    if (width > 65535 || height > 65535)
        return call->host->fail(err, STK_INVALID, "the sheet would have %lld x %lld pixels, wanted at most 65535 x 65535",
                                (long long)width, (long long)height);
    if (stk__png_bound((int32_t)width, (int32_t)height, 3) == 0)
        return call->host->fail(err, STK_INVALID,
                                "the sheet would have %lld x %lld pixels of 3 bytes, %lld in all, wanted less than 2 GiB, which "
                                "is what one PNG can hold here",
                                (long long)width, (long long)height, (long long)(width * height * 3));
    const size_t size = (size_t)(width * height * 3);
    uint8_t *data = stk_budget_alloc(call, size, err);
    if (!data)
        return err->status;
    const stk__pixels sheet = {data, (int32_t)width, (int32_t)height, 3, 1, (ptrdiff_t)width * 3};
    draw_sheet(s, &sheet, (int32_t)cell_width, (int32_t)cell_height);
    const stk_status status = publish(call, &sheet, err);
    stk_budget_free(call, data, size);
    return status;
}

static const stk_option sheet_options[] = {
    STK_STRING_REQUIRED(sheet_state, path, "the PNG file to write"),
    STK_STRING(sheet_state, image, "image", "field with the images, uint8 or float32; floats are stretched from darkest to brightest"),
    STK_STRING(sheet_state, caption, NULL, "field that is written under each image"),
    STK_INT(sheet_state, columns, 8, 1, 1024, "images in a row"),
    STK_INT(sheet_state, count, 64, 1, 65536, "how many images; the rest is left out"),
    STK_INT(sheet_state, zoom, 1, 1, 64, "how large a pixel is drawn"),
    STK_OPTION_END,
};

const stk_op stk__op_write_sheet = {
    .abi = STK_OP_ABI,
    .name = "write_sheet",
    .group = "sink",
    .since = "0.1",
    .summary = "Write a contact sheet of images as one PNG, to see what a pipeline makes of them.",
    .example = "image_folder(\"d/photos\") | decode_image(image) | random_flip(image) | write_sheet(\"out/sheet.png\", caption=\"label\")",
    .options = sheet_options,
    .state_size = sizeof(sheet_state),
    .role = STK_ROLE_SINK,
    .schema = sheet_schema,
    .open = sheet_open,
    .close = sheet_close,
    .consume = sheet_consume,
    .finish = sheet_finish,
};
