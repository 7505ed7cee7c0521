/* What the decoders of single formats share. */
#ifndef STK_FORMATS_IMAGE_IMPL_H
#define STK_FORMATS_IMAGE_IMPL_H

#include "formats/image.h"

/* Memory that grows and stays, for the next image. */
typedef struct stk__image_room {
    void *data;
    size_t size;
} stk__image_room;

struct stk__image_decoder {
    stk__image_memory memory;
    stk__image_room pixels; /* what `got` points to */
    stk__image_room work;   /* inflated rows, palettes, ... */
    stk__image_room wide;   /* what `got` points to where uint16 is wanted */
    struct stk__jpeg *jpeg; /* made by the first JPEG, see image_jpeg.c */
    struct stk__png *png;   /* made by the first PNG, see image_png.c */
    bool ready;             /* `work` has rows that png->ready tells about */
};

/* At least `size` bytes, contents undefined, those of before are lost; NULL with err set. */
void *stk__image_room_get(stk__image_decoder *decoder, stk__image_room *room, size_t size, stk_error *err);

/* For what a library takes by itself. */
stk_status stk__image_charge(const stk__image_decoder *decoder, size_t size, stk_error *err);
void stk__image_give_back(const stk__image_decoder *decoder, size_t size);

/* Sets got->pixels to a room of width x height x channels with tight rows. */
stk_status stk__image_pixels_get(stk__image_decoder *decoder, int32_t width, int32_t height, int32_t channels,
                                 stk__image_got *got, stk_error *err);
/* The same for uint16, in a room of its own. */
stk_status stk__image_wide_get(stk__image_decoder *decoder, int32_t width, int32_t height, int32_t channels,
                               stk__image_got *got, stk_error *err);

/* One probe and one decode for each format; same contracts as stk__image_probe and stk__image_decode. */
stk_status stk__jpeg_probe(const uint8_t *data, size_t size, bool want_orientation, stk__image_info *out, stk_error *err);
stk_status stk__png_probe(const uint8_t *data, size_t size, bool want_orientation, stk__image_info *out, stk_error *err);
stk_status stk__webp_probe(const uint8_t *data, size_t size, bool want_orientation, stk__image_info *out, stk_error *err);
stk_status stk__gif_probe(const uint8_t *data, size_t size, stk__image_info *out, stk_error *err);
stk_status stk__bmp_probe(const uint8_t *data, size_t size, stk__image_info *out, stk_error *err);

stk_status stk__jpeg_decode(stk__image_decoder *decoder, const uint8_t *data, size_t size, const stk__image_info *info,
                            const stk__image_want *want, stk__image_got *out, stk_error *err);
stk_status stk__png_decode(stk__image_decoder *decoder, const uint8_t *data, size_t size, const stk__image_info *info,
                           const stk__image_want *want, stk__image_got *out, stk_error *err);
/* stk__image_prepare_pair for two PNGs. */
void stk__png_prepare_pair(const stk__image_job *a, const stk__image_job *b);
stk_status stk__webp_decode(stk__image_decoder *decoder, const uint8_t *data, size_t size, const stk__image_info *info,
                            const stk__image_want *want, stk__image_got *out, stk_error *err);
stk_status stk__gif_decode(stk__image_decoder *decoder, const uint8_t *data, size_t size, const stk__image_info *info,
                           const stk__image_want *want, stk__image_got *out, stk_error *err);
stk_status stk__bmp_decode(stk__image_decoder *decoder, const uint8_t *data, size_t size, const stk__image_info *info,
                           const stk__image_want *want, stk__image_got *out, stk_error *err);
/*
 * What the tables of the Huffman codes take that a VP8L stream asks for, at most; from behind its five bytes of size, or as it
 * stands in ALPH. 0 for one that is damaged before its pixels. Takes time by the size of what stands before these.
 */
size_t stk__webp_code_bytes(const uint8_t *data, size_t size, uint32_t width, uint32_t height);
void stk__jpeg_free(struct stk__jpeg *jpeg, const stk__image_memory *memory);
void stk__png_free(struct stk__png *png, const stk__image_memory *memory);

/* The orientation in a TIFF header and its first directory (as EXIF carries it); 1 when there is none or it is damaged. */
int32_t stk__exif_orientation(const uint8_t *tiff, size_t size);

#endif
