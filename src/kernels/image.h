/* Pixels in memory, and copies of them: crop, pad, mirror, turn. */
#ifndef STK_KERNELS_IMAGE_H
#define STK_KERNELS_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/types.h>

#define STK__CHANNELS_MAX 4

/* Rows of interleaved pixels (height, width, channels). Somebody else owns the memory. */
typedef struct stk__pixels {
    uint8_t *data;
    int32_t width, height;
    int32_t channels;      /* 1 to STK__CHANNELS_MAX, where a kernel does not say else */
    int32_t element_bytes; /* 1 for uint8 */
    ptrdiff_t stride;      /* bytes from one row to the next */
} stk__pixels;

static inline size_t stk__pixel_bytes(const stk__pixels *p)
{
    return (size_t)p->channels * (size_t)p->element_bytes;
}

static inline uint8_t *stk__pixel_row(const stk__pixels *p, int32_t y)
{
    return p->data + (ptrdiff_t)y * p->stride;
}

typedef enum stk__border {
    STK__BORDER_CONSTANT,
    STK__BORDER_EDGE,   /* aaa abc ccc */
    STK__BORDER_REFLECT /* cb abc ba: the edge is not repeated; any distance, to and fro */
} stk__border;

/* Which pixel of a line of `size` pixels stands at `at`, which may lie outside. Not for CONSTANT. */
int32_t stk__border_at(stk__border border, int32_t at, int32_t size);

/*
 * Fills `out` with the rectangle of `in` that starts at (x, y) and is as large as `out`; it may reach outside of `in`, whose
 * border then tells what is there (`fill` is one pixel, for CONSTANT). `flip_x` and `flip_y` mirror the result. Any pixel
 * size. `out` and `in` do not overlap. `in` has at least one pixel.
 */
void stk__copy_view(const stk__pixels *out, const stk__pixels *in, int32_t x, int32_t y, bool flip_x, bool flip_y,
                    stk__border border, const uint8_t *fill);

/* Turns by an EXIF orientation, 1 to 8, into how the picture is meant to be seen. 5 to 8 change width and height. */
void stk__orient(const stk__pixels *out, const stk__pixels *in, int orientation);

/* Sets the rectangle (x, y, width, height), cut to the image, to one pixel. */
void stk__fill_rect(const stk__pixels *image, int32_t x, int32_t y, int32_t width, int32_t height, const uint8_t *pixel);

#endif
