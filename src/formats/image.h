/* Compressed images: what they are, and any part of them as uint8 or uint16 pixels. */
#ifndef STK_FORMATS_IMAGE_H
#define STK_FORMATS_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/types.h>

#include "kernels/image.h"

typedef enum stk__image_kind {
    STK__IMAGE_UNKNOWN,
    STK__IMAGE_JPEG,
    STK__IMAGE_PNG,
    STK__IMAGE_WEBP,
    STK__IMAGE_GIF,
    STK__IMAGE_BMP
} stk__image_kind;

const char *stk__image_kind_name(stk__image_kind kind);

typedef struct stk__image_info {
    stk__image_kind kind;
    int32_t width, height; /* as stored, before orientation; at least 1 */
    int32_t channels;      /* as stored: 1 gray, 2 gray and alpha, 3, 4 with alpha (or CMYK) */
    int32_t bits;          /* of one sample */
    int32_t orientation;   /* EXIF, 1 to 8; 1 where there is none */
    int32_t colors;        /* of the palette that pixels are places in; 0: there is none, or the format says too little */
    bool ramp;             /* entry i of that palette is the gray i: places and grays are the same numbers */
    bool numbers;          /* one number is stored for each pixel, a place in a palette or gray, which `stored` gives */
} stk__image_info;

/*
 * Reads the header only. CORRUPT when it is no image or its header is damaged: the message says what was found ("not an
 * image: starts with 3c 68 74 6d"). `want_orientation`: look for EXIF too (JPEG, PNG, WebP), else it is 1.
 */
stk_status stk__image_probe(const uint8_t *data, size_t size, bool want_orientation, stk__image_info *out, stk_error *err);

/* What to decode. */
typedef struct stk__image_want {
    int32_t x, y, width, height; /* rectangle of the stored image, inside of it and not empty */
    int32_t channels;            /* 1 gray (luma as stk__luma, or the Y of a JPEG), 3 RGB, 4 RGBA (255 where there is no alpha);
                                    alpha is dropped, not blended, where it is not wanted */
    int32_t cover_width, cover_height; /* what the rectangle will be resized to: a smaller decode is fine as long as the
                                          rectangle has at least this size; 0: full size */
    bool exact;                  /* the same pixels as the reference decoder gives: no scaled decode */
    bool wide;                   /* uint16 in place of uint8: all of 16 bits; what has fewer is spread over 0 to 65535 */
    bool stored;                 /* the numbers as the file has them, neither looked up nor spread: 1 channel, and `numbers` */
} stk__image_want;

/* What was decoded: a rectangle that holds the wanted one. */
typedef struct stk__image_got {
    stk__pixels pixels;        /* in memory of the decoder, until its next use */
    int32_t x, y;              /* of its first pixel, in the (scaled) picture */
    int32_t scaled_width, scaled_height; /* size of the whole (scaled) picture */
} stk__image_got;

/* Whether `stored` can be had of this picture; UNFIT, with what it is instead. */
stk_status stk__image_check_stored(const stk__image_info *info, stk_error *err);

/* Where a decoder's memory comes from: it must count towards the budget. NULL with err set when there is none. */
typedef struct stk__image_memory {
    void *(*alloc)(void *arg, size_t size, stk_error *err); /* aligned to 64 bytes */
    void (*free)(void *arg, void *p, size_t size);
    void *arg;
    /* What a library takes by itself is charged before and given back after; NULL: it is not counted. */
    stk_status (*charge)(void *arg, size_t size, stk_error *err);
    void (*give_back)(void *arg, size_t size);
} stk__image_memory;

/* Keeps codecs and buffers from image to image. One thread at a time. */
typedef struct stk__image_decoder stk__image_decoder;

stk_status stk__image_decoder_new(const stk__image_memory *memory, stk__image_decoder **out, stk_error *err);
void stk__image_decoder_free(stk__image_decoder *decoder);
/* Frees what is kept for the next image. */
void stk__image_decoder_trim(stk__image_decoder *decoder);
/* About what the decoder, its library and the pixels of a whole picture of this kind take together, at most. */
uint64_t stk__image_demand(const stk__image_info *info, int32_t channels);

/*
 * Decodes what is wanted. `info` is what probe gave for these bytes. CORRUPT when the data is damaged or cut off: nothing is
 * guessed, except that a JPEG which ends early after its last wanted row is fine. Messages name the library's complaint.
 */
stk_status stk__image_decode(stk__image_decoder *decoder, const uint8_t *data, size_t size, const stk__image_info *info,
                             const stk__image_want *want, stk__image_got *out, stk_error *err);

/* What stk__image_decode is going to be asked for. */
typedef struct stk__image_job {
    stk__image_decoder *decoder;
    const uint8_t *data;
    size_t size;
    const stk__image_info *info;
    const stk__image_want *want;
} stk__image_job;

/*
 * Does a part of two decodes ahead, in less time than one after the other: for two PNGs, with a decoder each. The next
 * stk__image_decode of each must be of the same bytes, and of no more rows, or it starts from the beginning. Nothing is done
 * for other formats, or where there is trouble: stk__image_decode tells about it.
 */
void stk__image_prepare_pair(const stk__image_job *a, const stk__image_job *b);

/* ---- writing ---- */

/* Upper bounds of what the encoders write; 0 on overflow. Pixels of PNG may have 1 or 2 bytes for each channel. */
size_t stk__png_bound(int32_t width, int32_t height, int32_t pixel_bytes);
size_t stk__jpeg_bound(int32_t width, int32_t height, int32_t channels);

/* 1, 3 or 4 channels (2: gray and alpha) of 1 or 2 bytes; level 0 (stored) to 12. `out` has stk__png_bound bytes. */
stk_status stk__png_encode(stk__image_decoder *decoder, const stk__pixels *in, int level, uint8_t *out, size_t *out_size,
                           stk_error *err);
/* 1 or 3 channels; quality 1 to 100; subsampling 444, 422 or 420. */
stk_status stk__jpeg_encode(stk__image_decoder *decoder, const stk__pixels *in, int quality, int subsampling, uint8_t *out,
                            size_t *out_size, stk_error *err);

#endif
