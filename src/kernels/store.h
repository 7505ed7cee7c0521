/* The last step of an image: cast, normalize and layout in one pass from uint8 pixels into a slot of the batch. */
#ifndef STK_KERNELS_STORE_H
#define STK_KERNELS_STORE_H

#include "kernels/image.h"

/*
 * What the result looks like. Value = pixel * scale + bias, each rounded to float32 once (no fused multiply-add), then
 * converted to `dtype`: to half floats to nearest even, to integers as stk__convert does. With `plain` the value is the
 * pixel itself.
 */
typedef struct stk__store {
    stk_dtype dtype; /* UINT8, FLOAT16, BFLOAT16 or FLOAT32 */
    bool plain;      /* scale 1, bias 0 */
    bool planar;     /* channels, height, width */
    int32_t width, height, channels;
    float scale[STK__CHANNELS_MAX], bias[STK__CHANNELS_MAX];
} stk__store;

/* Stores row y (width uint8 pixels). */
void stk__store_row(const stk__store *store, void *out, int32_t y, const uint8_t *row);
/* Stores all rows of an image of the store's size, mirrored where wished. */
void stk__store_image(const stk__store *store, void *out, const stk__pixels *in, bool flip_x, bool flip_y);

/* The same for images that are float32 already (interleaved): out = in * scale + bias in FLOAT32, with layout. */
void stk__store_floats(const stk__store *store, void *out, const float *in);

/* Interleaved to planar and back, for any element size of 1, 2, 4 or 8 bytes. */
void stk__to_planar(void *out, const void *in, int64_t pixels, int32_t channels, size_t element_bytes);
void stk__to_interleaved(void *out, const void *in, int64_t pixels, int32_t channels, size_t element_bytes);

#endif
