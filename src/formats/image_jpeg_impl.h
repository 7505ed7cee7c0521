/* What the files of the JPEG codec share: markers, the decoder's state, the two ways to decode. */
#ifndef STK_FORMATS_IMAGE_JPEG_IMPL_H
#define STK_FORMATS_IMAGE_JPEG_IMPL_H

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include "formats/image_impl.h"
#include "formats/image_jpeg_huffman.h"

enum {
    STK__JPEG_SOF0 = 0xc0,
    STK__JPEG_SOF1 = 0xc1,
    STK__JPEG_DHT = 0xc4,
    STK__JPEG_RST0 = 0xd0,
    STK__JPEG_SOI = 0xd8,
    STK__JPEG_EOI = 0xd9,
    STK__JPEG_SOS = 0xda,
    STK__JPEG_DQT = 0xdb,
    STK__JPEG_DRI = 0xdd,
    STK__JPEG_APP0 = 0xe0,
    STK__JPEG_APP1 = 0xe1,
    STK__JPEG_APP14 = 0xee
};

/* One marker and what belongs to it, without its length. */
typedef struct stk__jpeg_segment {
    uint8_t marker;
    const uint8_t *data;
    size_t size;
} stk__jpeg_segment;

/*
 * The marker segment at *at or after it (bytes between segments are stepped over, as libjpeg does); *at moves behind
 * it. False when the data ends before it does.
 */
bool stk__jpeg_segment_next(const uint8_t *data, size_t size, size_t *at, stk__jpeg_segment *out);

/* True for every frame header, also of kinds that nobody decodes. */
bool stk__jpeg_is_frame(uint8_t marker);

static inline uint32_t stk__jpeg_u16(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

/* libjpeg's error handling, for either direction: the first member of what client_data points to. */
typedef struct stk__jpeg_trap {
    struct jpeg_error_mgr manager;
    jmp_buf jump;
    bool strict; /* damage that libjpeg would paint over is an error */
    char message[JMSG_LENGTH_MAX];
} stk__jpeg_trap;

void stk__jpeg_trap_init(stk__jpeg_trap *trap);
/* The status that a caught libjpeg error means. */
stk_status stk__jpeg_trap_status(const stk__jpeg_trap *trap, stk_error *err);

/* What libjpeg takes for one image, see image_jpeg_memory.c. */
typedef struct stk__jpeg_memory {
    struct jpeg_memory_mgr library; /* its own functions */
    const stk__image_memory *from;
    stk_error *err;
    size_t taken, charged; /* taken for this image; charged of that */
    size_t wanted;         /* arrays that it has asked for and will take together */
    bool refused;          /* err tells why */
} stk__jpeg_memory;

/* Made by the first JPEG, kept until the decoder goes. */
struct stk__jpeg {
    struct jpeg_decompress_struct codec; /* first */
    stk__jpeg_memory memory;
    stk__jpeg_trap trap;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    stk__jpeg_tables tables; /* of the last image that the fast way decoded */
};

/* From here on the codec, which was just made, takes its memory from the budget. Where that has none it jumps to the trap, with
   `refused` and *err set. */
void stk__jpeg_memory_begin(struct stk__jpeg *jpeg, const stk__image_memory *from, stk_error *err);
/* The codec is destroyed: gives back what was charged for it. */
void stk__jpeg_memory_end(struct stk__jpeg *jpeg);

/* The state, made when there is none yet. */
stk_status stk__jpeg_get(stk__image_decoder *decoder, struct stk__jpeg **out, stk_error *err);

/* With libjpeg: every image that it takes, the contract of stk__image_decode. */
stk_status stk__jpeg_decode_library(stk__image_decoder *decoder, const uint8_t *data, size_t size,
                                    const stk__image_info *info, const stk__image_want *want, stk__image_got *out,
                                    stk_error *err);

/*
 * With our own entropy decoder: Huffman-coded sequential images of 8 bits, gray or YCbCr in 4:4:4, 4:2:2 or 4:2:0,
 * in one scan. *out_done is false, with STK_OK, when the image is another or looks damaged: then the library has the
 * last word.
 */
stk_status stk__jpeg_decode_fast(stk__image_decoder *decoder, const uint8_t *data, size_t size,
                                 const stk__image_info *info, const stk__image_want *want, stk__image_got *out,
                                 bool *out_done, stk_error *err);

/*
 * The rectangle `want` of a picture scaled by scale/8: sets x, y, scaled_width, scaled_height; its size goes to
 * pixels.
 */
void stk__jpeg_scale_rect(const stk__image_info *info, const stk__image_want *want, int scale, stk__image_got *got);
/* True when the rectangle scaled by scale/8 is as large as what it will be resized to. */
bool stk__jpeg_scale_covers(const stk__image_want *want, int scale);

#endif
