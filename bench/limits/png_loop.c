/* The limit of PNG: a plain decode to RGB with libpng and zlib as they are set up by default, from memory to memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "pictures.h"

typedef struct decoder {
    uint8_t *pixels;
    size_t room;
    png_bytep *rows;
    size_t rows_room;
    picture left; /* what libpng has not read yet */
} decoder;

static void *decoder_open(void)
{
    decoder *d = calloc(1, sizeof *d);
    if (!d)
        abort();
    return d;
}

static void read_bytes(png_structp png, png_bytep out, size_t size)
{
    decoder *d = png_get_io_ptr(png);
    if (size > d->left.size)
        png_error(png, "cut off");
    memcpy(out, d->left.data, size);
    d->left.data += size;
    d->left.size -= size;
}

/* Rows of one picture, in memory that is kept. */
static void make_room(decoder *d, size_t stride, size_t height)
{
    if (stride * height > d->room) {
        free(d->pixels);
        d->pixels = malloc(stride * height);
        d->room = stride * height;
    }
    if (height > d->rows_room) {
        free(d->rows);
        d->rows = malloc(height * sizeof *d->rows);
        d->rows_room = height;
    }
    if (!d->pixels || !d->rows)
        abort();
    for (size_t y = 0; y < height; y++)
        d->rows[y] = d->pixels + y * stride;
}

static void decode(void *state, picture p)
{
    decoder *d = state;
    d->left = p;
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info || setjmp(png_jmpbuf(png)))
        abort();
    png_set_read_fn(png, d, read_bytes);
    png_read_info(png, info);
    if (png_get_color_type(png, info) != PNG_COLOR_TYPE_RGB || png_get_bit_depth(png, info) != 8)
        abort();
    make_room(d, png_get_rowbytes(png, info), png_get_image_height(png, info));
    png_read_image(png, d->rows);
    png_read_end(png, NULL);
    png_destroy_read_struct(&png, &info, NULL);
}

static void decoder_close(void *state)
{
    decoder *d = state;
    free(d->pixels);
    free(d->rows);
    free(d);
}

int main(int argc, char **argv)
{
    static const work png_work = {decoder_open, decode, decoder_close};
    return work_main(&png_work, argc, argv);
}
