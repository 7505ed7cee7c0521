/* Writes JPEG with libjpeg-turbo. */
#include <string.h>

#include "base/compiler.h"
#include "formats/image_jpeg_impl.h"
/* After jpeglib.h: its codes depend on how the library was built. */
#include <jerror.h>

#include "base/banned.h"

/*
 * As TurboJPEG's tjBufSize: blocks are whole and take at most two bytes for each of their samples, before the tables
 * and markers. Colour is taken as 4:4:4 of 16 x 16 units, the largest that there is.
 */
size_t stk__jpeg_bound(int32_t width, int32_t height, int32_t channels)
{
    if (width < 1 || height < 1 || width > JPEG_MAX_DIMENSION || height > JPEG_MAX_DIMENSION)
        return 0;
    const uint64_t w = ((uint64_t)width + 15) / 16 * 16, h = ((uint64_t)height + 15) / 16 * 16;
    return (size_t)(w * h * (channels == 1 ? 2 : 6) + 2048);
}

/* One image on its way out; the destination is the first thing that libjpeg's pointer to it shows. */
typedef struct jpeg_writer {
    struct jpeg_compress_struct codec;
    stk__jpeg_trap trap;
    struct jpeg_destination_mgr target;
} jpeg_writer;

static void target_nothing(j_compress_ptr codec)
{
}

/* The bound was wrong, or the caller's buffer smaller than that. */
static boolean target_full(j_compress_ptr codec)
{
    ERREXIT(codec, JERR_BUFFER_SIZE);
    return FALSE;
}

static void set_sampling(struct jpeg_compress_struct *codec, int subsampling)
{
    if (codec->num_components < 3)
        return;
    codec->comp_info[0].h_samp_factor = subsampling == 444 ? 1 : 2;
    codec->comp_info[0].v_samp_factor = subsampling == 420 ? 2 : 1;
    for (int i = 1; i < 3; i++)
        codec->comp_info[i].h_samp_factor = codec->comp_info[i].v_samp_factor = 1;
}

static void write_image(jpeg_writer *writer, const stk__pixels *in, int quality, int subsampling, uint8_t *out,
                        size_t room)
{
    struct jpeg_compress_struct *codec = &writer->codec;
    jpeg_create_compress(codec);
    codec->mem->max_memory_to_use = 0; /* whatever the environment says */
    writer->target = (struct jpeg_destination_mgr){
        .next_output_byte = out,
        .free_in_buffer = room,
        .init_destination = target_nothing,
        .empty_output_buffer = target_full,
        .term_destination = target_nothing,
    };
    codec->dest = &writer->target;
    codec->image_width = (JDIMENSION)in->width;
    codec->image_height = (JDIMENSION)in->height;
    codec->input_components = in->channels;
    codec->in_color_space = in->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(codec);
    jpeg_set_quality(codec, quality, TRUE);
    set_sampling(codec, subsampling);
    jpeg_start_compress(codec, TRUE);
    for (int32_t y = 0; y < in->height; y++) {
        JSAMPROW rows[1] = {stk__pixel_row(in, y)};
        jpeg_write_scanlines(codec, rows, 1);
    }
    jpeg_finish_compress(codec);
}

stk_status stk__jpeg_encode(stk__image_decoder *decoder, const stk__pixels *in, int quality, int subsampling,
                            uint8_t *out, size_t *out_size, stk_error *err)
{
    if ((in->channels != 1 && in->channels != 3) || in->element_bytes != 1)
        return stk_error_set(err, STK_INVALID, "JPEG of %d channels of %d bytes: 1 or 3 channels of 1 byte wanted",
                             in->channels, in->element_bytes);
    if (quality < 1 || quality > 100 || (subsampling != 444 && subsampling != 422 && subsampling != 420))
        return stk_error_set(err, STK_INVALID, "JPEG quality %d, subsampling %d: 1 to 100 and 444, 422 or 420 wanted",
                             quality, subsampling);
    const size_t room = stk__jpeg_bound(in->width, in->height, in->channels);
    if (room == 0)
        return stk_error_set(err, STK_INVALID, "JPEG of %d x %d pixels: 1 x 1 to %ld x %ld wanted", in->width,
                             in->height, JPEG_MAX_DIMENSION, JPEG_MAX_DIMENSION);
    jpeg_writer writer;
    memset(&writer, 0, sizeof writer);
    stk__jpeg_trap_init(&writer.trap);
    writer.codec.err = &writer.trap.manager;
    writer.codec.client_data = &writer.trap;
    if (setjmp(writer.trap.jump)) {
        jpeg_destroy_compress(&writer.codec);
        return stk__jpeg_trap_status(&writer.trap, err);
    }
    write_image(&writer, in, quality, subsampling, out, room);
    *out_size = room - writer.target.free_in_buffer;
    jpeg_destroy_compress(&writer.codec);
    return STK_OK;
}
