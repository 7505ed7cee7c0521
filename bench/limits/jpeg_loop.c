/* The limit of JPEG: a plain full decode to RGB with libjpeg-turbo and its defaults, from memory to memory. */
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include "pictures.h"

/* One decompressor for all pictures of a thread. Errors end the program, as libjpeg does by default. */
typedef struct decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    uint8_t *pixels;
    size_t room;
} decoder;

static void *decoder_open(void)
{
    decoder *d = calloc(1, sizeof *d);
    if (!d)
        abort();
    d->jpeg.err = jpeg_std_error(&d->errors);
    jpeg_create_decompress(&d->jpeg);
    return d;
}

static void decode(void *state, picture p)
{
    decoder *d = state;
    struct jpeg_decompress_struct *jpeg = &d->jpeg;
    jpeg_mem_src(jpeg, p.data, p.size);
    jpeg_read_header(jpeg, TRUE);
    jpeg->out_color_space = JCS_RGB;
    jpeg_start_decompress(jpeg);
    const size_t stride = (size_t)jpeg->output_width * 3, size = stride * jpeg->output_height;
    if (size > d->room) {
        free(d->pixels);
        d->pixels = malloc(size);
        d->room = size;
        if (!d->pixels)
            abort();
    }
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW rows[8];
        for (size_t i = 0; i < 8; i++)
            rows[i] = d->pixels + (jpeg->output_scanline + i) * stride;
        const JDIMENSION left = jpeg->output_height - jpeg->output_scanline;
        jpeg_read_scanlines(jpeg, rows, left < 8 ? left : 8);
    }
    jpeg_finish_decompress(jpeg);
}

static void decoder_close(void *state)
{
    decoder *d = state;
    jpeg_destroy_decompress(&d->jpeg);
    free(d->pixels);
    free(d);
}

int main(int argc, char **argv)
{
    static const work jpeg_work = {decoder_open, decode, decoder_close};
    return work_main(&jpeg_work, argc, argv);
}
