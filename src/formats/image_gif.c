/*
 * Reads the first frame of a GIF, composed on its screen; giflib unpacks it. Where there is no frame or it is
 * transparent, the screen shows: the background colour of the global table (black without one), with alpha 0.
 */
#include "formats/image_impl.h"

#include <string.h>

#include <gif_lib.h>

#include "base/compiler.h"
#include "kernels/color.h"

#include "base/banned.h"

#define SCREEN_BYTES 13
#define HAS_TABLE 0x80
#define NO_INDEX (-1)

typedef struct gif_file {
    int32_t width, height;
    const uint8_t *global; /* colour table, NULL: none */
    int32_t global_count;
    int32_t background;  /* index in the global table */
    int32_t transparent; /* index, or NO_INDEX */
    int32_t frame_x, frame_y, frame_width, frame_height;
    bool interlaced;
    const uint8_t *colors; /* table of the frame */
    int32_t color_count;
} gif_file;

static int32_t read_le16(const uint8_t *p)
{
    return p[0] | p[1] << 8;
}

static stk_status cut_off(size_t size, const char *what, size_t at, stk_error *err)
{
    return stk_error_set(err, STK_CORRUPT, "GIF is cut off: %s at byte %zu of the image goes past its end at %zu", what,
                         at, size);
}

static stk_status read_table(const uint8_t *data, size_t size, int flags, size_t *at, const uint8_t **table,
                             int32_t *count, stk_error *err)
{
    if (!(flags & HAS_TABLE))
        return STK_OK;
    const int32_t colors = 2 << (flags & 7);
    if (size - *at < 3 * (size_t)colors)
        return cut_off(size, "a colour table", *at, err);
    *table = data + *at;
    *count = colors;
    *at += 3 * (size_t)colors;
    return STK_OK;
}

/* An extension and its blocks; a graphic control tells which colour is transparent. */
static stk_status read_extension(const uint8_t *data, size_t size, size_t *at, gif_file *file, stk_error *err)
{
    const size_t start = *at;
    if (size - start < 2)
        return cut_off(size, "an extension", start, err);
    const bool control = data[start + 1] == 0xf9;
    for (size_t p = start + 2;; p += (size_t)data[p] + 1) {
        if (p >= size || size - p - 1 < data[p])
            return cut_off(size, "an extension", start, err);
        if (data[p] == 0) {
            *at = p + 1;
            return STK_OK;
        }
        if (control && p == start + 2 && data[p] >= 4)
            file->transparent = data[p + 1] & 1 ? data[p + 4] : NO_INDEX;
    }
}

static stk_status read_frame(const uint8_t *data, size_t size, size_t at, gif_file *file, stk_error *err)
{
    if (size - at < 10)
        return cut_off(size, "the first frame", at, err);
    file->frame_x = read_le16(data + at + 1);
    file->frame_y = read_le16(data + at + 3);
    file->frame_width = read_le16(data + at + 5);
    file->frame_height = read_le16(data + at + 7);
    file->interlaced = data[at + 9] & 0x40;
    if (file->frame_width == 0 || file->frame_height == 0)
        return stk_error_set(err, STK_CORRUPT,
                             "GIF is damaged: its first frame at byte %zu of the image has %d x %d pixels", at,
                             (int)file->frame_width, (int)file->frame_height);
    file->colors = file->global;
    file->color_count = file->global_count;
    const int flags = data[at + 9];
    at += 10;
    STK_TRY(read_table(data, size, flags, &at, &file->colors, &file->color_count, err));
    if (!file->colors)
        return stk_error_set(err, STK_CORRUPT, "GIF is damaged: its first frame has no colour table");
    return STK_OK;
}

static stk_status read_header(const uint8_t *data, size_t size, gif_file *file, stk_error *err)
{
    if (size < SCREEN_BYTES)
        return cut_off(size, "the header", 0, err);
    *file = (gif_file){.width = read_le16(data + 6), .height = read_le16(data + 8), .background = data[11]};
    file->transparent = NO_INDEX;
    if (file->width == 0 || file->height == 0)
        return stk_error_set(err, STK_CORRUPT, "GIF is damaged: its screen has %d x %d pixels", (int)file->width,
                             (int)file->height);
    size_t at = SCREEN_BYTES;
    STK_TRY(read_table(data, size, data[10], &at, &file->global, &file->global_count, err));
    for (;;) {
        if (at >= size)
            return cut_off(size, "the next block", at, err);
        if (data[at] == 0x2c)
            return read_frame(data, size, at, file, err);
        if (data[at] == 0x3b)
            return stk_error_set(err, STK_CORRUPT, "GIF has no frame: it ends at byte %zu of the image", at);
        if (data[at] != 0x21)
            return stk_error_set(err, STK_CORRUPT,
                                 "GIF is damaged: block %02x at byte %zu of the image, wanted 21, 2c or 3b", data[at],
                                 at);
        STK_TRY(read_extension(data, size, &at, file, err));
    }
}

static bool fills_screen(const gif_file *file)
{
    return file->frame_x == 0 && file->frame_y == 0 && file->frame_width >= file->width &&
           file->frame_height >= file->height;
}

stk_status stk__gif_probe(const uint8_t *data, size_t size, stk__image_info *out, stk_error *err)
{
    gif_file file;
    STK_TRY(read_header(data, size, &file, err));
    *out = (stk__image_info){
        .kind = STK__IMAGE_GIF,
        .width = file.width,
        .height = file.height,
        .channels = file.transparent != NO_INDEX || !fills_screen(&file) ? 4 : 3,
        .bits = 8,
        .orientation = 1,
        .colors = file.color_count,
        .numbers = fills_screen(&file),
    };
    return STK_OK;
}

static void put_pixel(uint8_t *out, int32_t channels, const uint8_t *rgb, uint8_t alpha)
{
    if (channels == 1) {
        out[0] = stk__luma(rgb[0], rgb[1], rgb[2]);
        return;
    }
    memcpy(out, rgb, 3);
    if (channels == 4)
        out[3] = alpha;
}

static void fill_screen(const gif_file *file, const stk__pixels *out)
{
    static const uint8_t black[3];
    const uint8_t *rgb = file->background < file->global_count ? file->global + 3 * (size_t)file->background : black;
    for (int32_t y = 0; y < out->height; y++) {
        uint8_t *p = stk__pixel_row(out, y);
        for (int32_t x = 0; x < out->width; x++, p += out->channels)
            put_pixel(p, out->channels, rgb, 0);
    }
}

/* One row of the frame onto the screen; y counts in the frame. */
static stk_status put_row(const gif_file *file, const uint8_t *line, int32_t y, const stk__image_want *want,
                          const stk__pixels *out, stk_error *err)
{
    const int32_t to_y = file->frame_y + y - want->y;
    if (to_y < 0 || to_y >= out->height)
        return STK_OK;
    const int32_t from = STK_MAX(want->x, file->frame_x);
    const int32_t end = STK_MIN(want->x + want->width, file->frame_x + file->frame_width);
    for (int32_t x = from; x < end; x++) {
        const int32_t index = line[x - file->frame_x];
        uint8_t *to = stk__pixel_row(out, to_y) + (size_t)(x - want->x) * (size_t)out->channels;
        if (want->stored) {
            to[0] = (uint8_t)index;
            continue;
        }
        if (index == file->transparent)
            continue;
        if (index >= file->color_count)
            return stk_error_set(err, STK_CORRUPT, "GIF is damaged: pixel with colour %d, but its table has %d",
                                 (int)index, (int)file->color_count);
        put_pixel(to, out->channels, file->colors + 3 * (size_t)index, 255);
    }
    return STK_OK;
}

typedef struct gif_input {
    const uint8_t *data;
    size_t left;
} gif_input;

static int read_input(GifFileType *gif, GifByteType *out, int wanted)
{
    gif_input *input = gif->UserData;
    const size_t n = wanted < 0 ? 0 : STK_MIN((size_t)wanted, input->left);
    memcpy(out, input->data, n);
    input->data += n;
    input->left -= n;
    return (int)n;
}

static stk_status refuse(int code, const char *doing, stk_error *err)
{
    const char *text = GifErrorString(code);
    if (code == D_GIF_ERR_NOT_ENOUGH_MEM)
        return stk_error_set(err, STK_NOMEM, "no memory for giflib");
    return stk_error_set(err, STK_CORRUPT, "GIF is damaged: %s: %s", doing, text ? text : "giflib did not say why");
}

/* Moves giflib to the pixels of the first frame. */
static stk_status seek_frame(GifFileType *gif, stk_error *err)
{
    for (;;) {
        GifRecordType type;
        GifByteType *block;
        int code;
        if (DGifGetRecordType(gif, &type) == GIF_ERROR)
            return refuse(gif->Error, "before the first frame", err);
        if (type == IMAGE_DESC_RECORD_TYPE)
            return DGifGetImageDesc(gif) == GIF_ERROR ? refuse(gif->Error, "at the first frame", err) : STK_OK;
        if (type != EXTENSION_RECORD_TYPE)
            return stk_error_set(err, STK_CORRUPT, "GIF has no frame");
        if (DGifGetExtension(gif, &code, &block) == GIF_ERROR)
            return refuse(gif->Error, "in an extension", err);
        while (block) {
            if (DGifGetExtensionNext(gif, &block) == GIF_ERROR)
                return refuse(gif->Error, "in an extension", err);
        }
    }
}

static stk_status unpack_row(GifFileType *gif, uint8_t *line, int32_t y, const gif_file *file,
                             const stk__image_want *want, const stk__pixels *out, stk_error *err)
{
    if (DGifGetLine(gif, line, file->frame_width) == GIF_ERROR) {
        stk_error why = {0};
        const stk_status status = refuse(gif->Error, "in the pixels of its first frame", &why);
        return stk_error_set(err, status, "%s (row %d of %d)", why.message, (int)y, (int)file->frame_height);
    }
    return put_row(file, line, y, want, out, err);
}

static stk_status unpack_frame(GifFileType *gif, uint8_t *line, const gif_file *file, const stk__image_want *want,
                               const stk__pixels *out, stk_error *err)
{
    static const struct {
        int32_t start, step;
    } passes[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}}, plain = {0, 1};
    STK_TRY(seek_frame(gif, err));
    if (!file->interlaced) {
        /* Rows below the wanted ones are left packed. */
        const int32_t end = STK_MIN(file->frame_height, want->y + want->height - file->frame_y);
        for (int32_t y = plain.start; y < end; y += plain.step)
            STK_TRY(unpack_row(gif, line, y, file, want, out, err));
        return STK_OK;
    }
    for (size_t i = 0; i < STK_COUNT(passes); i++) {
        for (int32_t y = passes[i].start; y < file->frame_height; y += passes[i].step)
            STK_TRY(unpack_row(gif, line, y, file, want, out, err));
    }
    return STK_OK;
}

stk_status stk__gif_decode(stk__image_decoder *decoder, const uint8_t *data, size_t size, const stk__image_info *info,
                           const stk__image_want *want, stk__image_got *out, stk_error *err)
{
    gif_file file;
    STK_TRY(read_header(data, size, &file, err));
    if (file.width != info->width || file.height != info->height)
        return stk_error_set(err, STK_INVALID, "GIF has %d x %d pixels, but was probed as %d x %d", (int)file.width,
                             (int)file.height, (int)info->width, (int)info->height);
    uint8_t *line = stk__image_room_get(decoder, &decoder->work, (size_t)file.frame_width, err);
    if (!line)
        return err ? err->status : STK_NOMEM;
    STK_TRY(stk__image_pixels_get(decoder, want->width, want->height, want->channels, out, err));
    out->x = want->x;
    out->y = want->y;
    out->scaled_width = file.width;
    out->scaled_height = file.height;
    fill_screen(&file, &out->pixels);
    gif_input input = {data, size};
    int code = 0;
    GifFileType *gif = DGifOpen(&input, read_input, &code);
    if (!gif)
        return refuse(code, "in its header", err);
    const stk_status status = unpack_frame(gif, line, &file, want, &out->pixels, err);
    DGifCloseFile(gif, &code);
    return status;
}
