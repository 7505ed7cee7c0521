/* Reads WebP with libwebp: the wanted rectangle, of a still picture or of the first frame of an animation. */
#include "formats/image_impl.h"

#include <string.h>

#include <webp/decode.h>

#include "base/compiler.h"
#include "kernels/color.h"

#include "base/banned.h"

#define RIFF_BYTES 12
#define CHUNK_HEADER 8
#define FRAME_HEADER 16
/* Of what libwebp takes, not charged: part of what each thread has outside of the budget. */
#define FREE_BYTES ((size_t)512 * 1024)
#define LOSSLESS_HEADER 5

/* A picture for libwebp and where it lies on the canvas. */
typedef struct webp_frame {
    const uint8_t *data;
    size_t size;
    int32_t x, y, width, height;
    bool lossy_alpha; /* colours in VP8, alpha in a chunk of its own */
    bool lossless;
} webp_frame;

static uint32_t read_le24(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
}

static uint32_t read_le32(const uint8_t *p)
{
    return read_le24(p) | (uint32_t)p[3] << 24;
}

static stk_status refuse(VP8StatusCode code, size_t size, stk_error *err)
{
    static const char *const texts[] = {"no error",        "no memory",           "invalid parameter",
                                        "bitstream error", "unsupported feature", "suspended",
                                        "user abort",      "not enough data"};
    const char *text = (unsigned)code < STK_COUNT(texts) ? texts[code] : "unknown error";
    if (code == VP8_STATUS_OUT_OF_MEMORY)
        return stk_error_set(err, STK_NOMEM, "no memory for libwebp");
    if (code == VP8_STATUS_NOT_ENOUGH_DATA || code == VP8_STATUS_SUSPENDED)
        return stk_error_set(err, STK_CORRUPT, "WebP is cut off: it ends after %zu bytes, libwebp says: %s", size,
                             text);
    return stk_error_set(err, STK_CORRUPT, "WebP is damaged: libwebp says: %s", text);
}

/* The data of the first chunk with this name from `at` on, or NULL. One that is cut off does not count. */
static const uint8_t *find_chunk_from(const uint8_t *data, size_t size, size_t at, const char *name, size_t *out_size)
{
    while (size >= at && size - at >= CHUNK_HEADER) {
        const size_t length = read_le32(data + at + 4), left = size - at - CHUNK_HEADER;
        if (length > left)
            return NULL;
        if (memcmp(data + at, name, 4) == 0) {
            *out_size = length;
            return data + at + CHUNK_HEADER;
        }
        at += CHUNK_HEADER + STK_MIN(length + length % 2, left);
    }
    return NULL;
}

/* After the RIFF header. */
static const uint8_t *find_chunk(const uint8_t *data, size_t size, const char *name, size_t *out_size)
{
    return find_chunk_from(data, size, RIFF_BYTES, name, out_size);
}

static int32_t find_orientation(const uint8_t *data, size_t size)
{
    size_t exif_size;
    const uint8_t *exif = find_chunk(data, size, "EXIF", &exif_size);
    if (!exif)
        return 1;
    /* Some writers keep the prefix that it has in JPEG. */
    if (exif_size >= 6 && memcmp(exif, "Exif\0\0", 6) == 0)
        return stk__exif_orientation(exif + 6, exif_size - 6);
    return stk__exif_orientation(exif, exif_size);
}

stk_status stk__webp_probe(const uint8_t *data, size_t size, bool want_orientation, stk__image_info *out,
                           stk_error *err)
{
    WebPBitstreamFeatures features;
    const VP8StatusCode code = WebPGetFeatures(data, size, &features);
    if (code != VP8_STATUS_OK)
        return refuse(code, size, err);
    if (features.width < 1 || features.height < 1)
        return stk_error_set(err, STK_CORRUPT, "WebP is damaged: its header says %d x %d pixels", features.width,
                             features.height);
    *out = (stk__image_info){
        .kind = STK__IMAGE_WEBP,
        .width = features.width,
        .height = features.height,
        .channels = features.has_alpha ? 4 : 3,
        .bits = 8,
        .orientation = want_orientation ? find_orientation(data, size) : 1,
    };
    return STK_OK;
}

static bool is_lossy_alpha(const WebPBitstreamFeatures *features)
{
    return features->has_alpha && features->format != 2;
}

/* The first frame of an animation: libwebp reads its chunks as they are, without a file around them. */
static stk_status find_frame(const uint8_t *data, size_t size, webp_frame *out, stk_error *err)
{
    size_t length;
    const uint8_t *p = find_chunk(data, size, "ANMF", &length);
    if (!p || length <= FRAME_HEADER)
        return stk_error_set(err, STK_CORRUPT,
                             "WebP is damaged or cut off: no whole frame in an animation of %zu bytes", size);
    *out = (webp_frame){
        .data = p + FRAME_HEADER,
        .size = length - FRAME_HEADER,
        .x = (int32_t)read_le24(p) * 2,
        .y = (int32_t)read_le24(p + 3) * 2,
    };
    WebPBitstreamFeatures features;
    const VP8StatusCode code = WebPGetFeatures(out->data, out->size, &features);
    if (code != VP8_STATUS_OK)
        return refuse(code, size, err);
    out->width = features.width;
    out->height = features.height;
    out->lossy_alpha = is_lossy_alpha(&features);
    out->lossless = features.format == 2;
    const int32_t width = (int32_t)read_le24(p + 6) + 1, height = (int32_t)read_le24(p + 9) + 1;
    if (features.has_animation || width != out->width || height != out->height)
        return stk_error_set(err, STK_CORRUPT,
                             "WebP is damaged: its first frame should have %d x %d pixels, but has %d x %d", (int)width,
                             (int)height, (int)out->width, (int)out->height);
    return STK_OK;
}

static stk_status open_frame(const uint8_t *data, size_t size, const stk__image_info *info, webp_frame *out,
                             stk_error *err)
{
    WebPBitstreamFeatures features;
    const VP8StatusCode code = WebPGetFeatures(data, size, &features);
    if (code != VP8_STATUS_OK)
        return refuse(code, size, err);
    if (features.width != info->width || features.height != info->height)
        return stk_error_set(err, STK_INVALID, "WebP has %d x %d pixels, but was probed as %d x %d", features.width,
                             features.height, (int)info->width, (int)info->height);
    if (features.has_animation)
        return find_frame(data, size, out, err);
    *out = (webp_frame){.data = data,
                        .size = size,
                        .width = features.width,
                        .height = features.height,
                        .lossy_alpha = is_lossy_alpha(&features),
                        .lossless = features.format == 2};
    return STK_OK;
}

/*
 * What libwebp (1.2.4 to 1.6) takes inside. Lossy: a few rows of macroblocks; an alpha plane of its own is a byte for each
 * pixel, and four while it is unpacked. Lossless: four bytes for each pixel, a quarter of a byte for each of two
 * transforms and for the map of Huffman codes, 16 rows, and the tables of these codes.
 */
static size_t library_bytes(const webp_frame *frame)
{
    const size_t start = memcmp(frame->data, "RIFF", 4) == 0 ? RIFF_BYTES : 0;
    const char *name = frame->lossless ? "VP8L" : "ALPH";
    const size_t header = frame->lossless ? LOSSLESS_HEADER : 1;
    size_t length = 0, codes = 0;
    const uint8_t *chunk = frame->size > RIFF_BYTES ? find_chunk_from(frame->data, frame->size, start, name, &length) : NULL;
    if (chunk && length > header)
        codes = stk__webp_code_bytes(chunk + header, length - header, (uint32_t)frame->width, (uint32_t)frame->height);
    const size_t pixels = (size_t)frame->width * (size_t)frame->height, rows = (size_t)frame->width * 256 + 256 * 1024;
    size_t bytes = rows;
    if (frame->lossless)
        bytes += 5 * pixels + codes;
    else if (frame->lossy_alpha)
        bytes += 6 * pixels + codes;
    return bytes > FREE_BYTES ? bytes - FREE_BYTES : 0;
}

/*
 * Decodes a rectangle of the frame (x, y, width and height count in the frame) into the work room. Chroma is
 * interpolated between neighbours and libwebp wants even corners, so a margin is decoded too: then pixels are those of
 * a full decode. An alpha plane of its own must be read from the top: its first column is predicted from the row above,
 * and libwebp (1.2.4) takes 0 for that where the crop starts.
 */
static stk_status decode_part(stk__image_decoder *decoder, const webp_frame *frame, const stk__image_want *part,
                              stk__pixels *out, stk_error *err)
{
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
        return stk_error_set(err, STK_UNSUPPORTED, "libwebp is of another version than the one this was built with");
    const bool from_top = frame->lossy_alpha && part->channels == 4;
    const int32_t left = STK_MAX(part->x - 2, 0) & ~1, top = from_top ? 0 : STK_MAX(part->y - 2, 0) & ~1;
    const int32_t right = STK_MIN(part->x + part->width + 2, frame->width);
    const int32_t bottom = STK_MIN(part->y + part->height + 2, frame->height);
    const size_t stride = (size_t)(right - left) * (size_t)part->channels, total = stride * (size_t)(bottom - top);
    if (stride > INT32_MAX)
        return stk_error_set(err, STK_CORRUPT, "WebP is damaged: a row of %zu bytes", stride);
    uint8_t *room = stk__image_room_get(decoder, &decoder->work, total, err);
    if (!room)
        return err ? err->status : STK_NOMEM;
    config.options.use_cropping = 1;
    config.options.crop_left = left;
    config.options.crop_top = top;
    config.options.crop_width = right - left;
    config.options.crop_height = bottom - top;
    config.output.colorspace = part->channels == 4 ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = room;
    config.output.u.RGBA.stride = (int)stride;
    config.output.u.RGBA.size = total;
    const size_t inside = library_bytes(frame);
    STK_TRY(stk__image_charge(decoder, inside, err));
    const VP8StatusCode code = WebPDecode(frame->data, frame->size, &config);
    WebPFreeDecBuffer(&config.output);
    stk__image_give_back(decoder, inside);
    if (code != VP8_STATUS_OK)
        return refuse(code, frame->size, err);
    uint8_t *first = room + (size_t)(part->y - top) * stride + (size_t)(part->x - left) * (size_t)part->channels;
    *out = (stk__pixels){first, part->width, part->height, part->channels, 1, (ptrdiff_t)stride};
    return STK_OK;
}

static void copy_row(uint8_t *out, int32_t channels, const uint8_t *in, const stk__pixels *part)
{
    if (channels == part->channels) {
        memcpy(out, in, (size_t)part->width * (size_t)channels);
        return;
    }
    for (int32_t x = 0; x < part->width; x++, in += part->channels)
        out[x] = stk__luma(in[0], in[1], in[2]);
}

/* Puts the part that the frame covers onto an empty canvas. */
static stk_status compose(stk__image_decoder *decoder, const stk__pixels *part, int32_t x, int32_t y,
                          const stk__image_want *want, stk__image_got *out, stk_error *err)
{
    STK_TRY(stk__image_pixels_get(decoder, want->width, want->height, want->channels, out, err));
    if (!part->data || part->width < want->width || part->height < want->height)
        memset(out->pixels.data, 0, (size_t)out->pixels.stride * (size_t)want->height);
    for (int32_t i = 0; part->data && i < part->height; i++) {
        uint8_t *to = stk__pixel_row(&out->pixels, y + i) + (size_t)x * (size_t)want->channels;
        copy_row(to, want->channels, stk__pixel_row(part, i), part);
    }
    return STK_OK;
}

stk_status stk__webp_decode(stk__image_decoder *decoder, const uint8_t *data, size_t size, const stk__image_info *info,
                            const stk__image_want *want, stk__image_got *out, stk_error *err)
{
    webp_frame frame = {0};
    STK_TRY(open_frame(data, size, info, &frame, err));
    out->x = want->x;
    out->y = want->y;
    out->scaled_width = info->width;
    out->scaled_height = info->height;
    const int32_t left = STK_MAX(want->x, frame.x), right = STK_MIN(want->x + want->width, frame.x + frame.width);
    const int32_t top = STK_MAX(want->y, frame.y), bottom = STK_MIN(want->y + want->height, frame.y + frame.height);
    stk__pixels pixels = {0};
    if (left >= right || top >= bottom)
        return compose(decoder, &pixels, 0, 0, want, out, err);
    const stk__image_want part = {.x = left - frame.x,
                                  .y = top - frame.y,
                                  .width = right - left,
                                  .height = bottom - top,
                                  .channels = want->channels == 4 ? 4 : 3};
    STK_TRY(decode_part(decoder, &frame, &part, &pixels, err));
    if (part.channels != want->channels || part.width != want->width || part.height != want->height)
        return compose(decoder, &pixels, left - want->x, top - want->y, want, out, err);
    out->pixels = pixels;
    return STK_OK;
}
