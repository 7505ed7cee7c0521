/* What the parts of PNG share. */
#ifndef STK_FORMATS_IMAGE_PNG_H
#define STK_FORMATS_IMAGE_PNG_H

#include "formats/image_impl.h"
#include "formats/image_png_inflate.h"

#define STK__PNG_LEVEL_MAX 12

struct libdeflate_compressor;

enum { STK__PNG_GRAY = 0, STK__PNG_RGB = 2, STK__PNG_PALETTE = 3, STK__PNG_GRAY_ALPHA = 4, STK__PNG_RGB_ALPHA = 6 };

/* What the chunks say. */
typedef struct stk__png_file {
    int32_t width, height;
    int bits, color;
    bool interlaced;
    const uint8_t *palette; /* NULL: none */
    uint32_t palette_count;
    const uint8_t *transparency; /* tRNS; NULL: none */
    uint32_t transparency_size;
    size_t data_at;   /* of the first IDAT chunk */
    size_t data_size; /* of all of them */
    uint32_t data_chunks;
    int32_t orientation;
} stk__png_file;

/* Rows on their way into the work room. */
typedef struct stk__png_rows {
    stk__png_file file;
    size_t total, needed; /* bytes of rows */
    stk__inflate_job job;
    uint8_t *scratch; /* behind them, see stk__png_take */
} stk__png_rows;

#define STK__PNG_TAIL 16

/* What was inflated ahead of its decode. */
typedef struct stk__png_ready {
    const uint8_t *data;
    size_t size;
    uint8_t tail
        [STK__PNG_TAIL]; /* the last bytes, with the CRC of the pixels: other data may come to lie in the same place */
    stk__png_rows rows;
} stk__png_ready;

struct stk__png {
    struct libdeflate_compressor *deflate[STK__PNG_LEVEL_MAX + 1]; /* for each level, made by the first image written */
    size_t deflate_bytes; /* charged for them */
    stk__inflate inflate;
    stk__png_ready ready;
    uint8_t colors[256][4]; /* palette of the image at hand */
    uint8_t luma[256];
};

/* Samples of one stored pixel. */
static inline int stk__png_samples(int color)
{
    switch (color) {
    case STK__PNG_RGB:
        return 3;
    case STK__PNG_GRAY_ALPHA:
        return 2;
    case STK__PNG_RGB_ALPHA:
        return 4;
    default:
        return 1;
    }
}

/* The decoder's own, made when there is none yet. */
stk_status stk__png_get(stk__image_decoder *decoder, struct stk__png **out, stk_error *err);

/* Bytes of a row of so many pixels, without its filter byte. */
size_t stk__png_row_bytes(const stk__png_file *file, int32_t width);
/* Bytes of all rows, with filter bytes. False when they overflow. */
bool stk__png_rows_total(const stk__png_file *file, size_t *out);
/* Bytes of scratch that stk__png_take needs. */
size_t stk__png_scratch(const stk__png_file *file);
/* The wanted pixels of inflated rows, which are changed, and which `out` may point into. */
stk_status stk__png_take(stk__image_decoder *decoder, const stk__png_file *file, uint8_t *rows, uint8_t *scratch,
                         const stk__image_want *want, stk__image_got *out, stk_error *err);

#endif
