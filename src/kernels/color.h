/* Colours of uint8 images: tables, blends, hue, and the statistics that they need. In place, each on 1 or 3 channels (a
   fourth, alpha, is left alone). */
#ifndef STK_KERNELS_COLOR_H
#define STK_KERNELS_COLOR_H

#include "kernels/image.h"

/* Every sample of channel c becomes table[c][sample]. */
typedef uint8_t stk__color_table[3][256];
void stk__color_map(const stk__pixels *image, stk__color_table table);

/* Luma as Pillow's "L": (19595 r + 38470 g + 7471 b + 0x8000) >> 16. */
static inline uint8_t stk__luma(uint8_t r, uint8_t g, uint8_t b)
{
    return (uint8_t)((19595u * r + 38470u * g + 7471u * b + 0x8000u) >> 16);
}

static inline uint16_t stk__luma16(uint16_t r, uint16_t g, uint16_t b)
{
    return (uint16_t)((19595ull * r + 38470ull * g + 7471ull * b + 0x8000u) >> 16);
}

/* All three channels become luma. */
void stk__color_gray(const stk__pixels *image);
/* Mean luma, rounded to nearest as Pillow's contrast does. */
uint8_t stk__color_mean_luma(const stk__pixels *image);
/* Counts of each channel's samples. */
void stk__color_histogram(const stk__pixels *image, uint32_t counts[3][256]);
/* out = clamp(gray + factor * (in - gray)): 0 is gray, 1 leaves it as it is. */
void stk__color_saturate(const stk__pixels *image, float factor);
/* Turns the hue by `turn` of a circle, -0.5 to 0.5, in HSV as torchvision does. */
void stk__color_hue(const stk__pixels *image, float turn);
/* out = clamp(a + factor * (b - a)); `image` is b, `other` is a, of the same size. */
void stk__color_blend(const stk__pixels *image, const stk__pixels *other, float factor);

/* Tables. Factor 1 leaves things as they are. */
void stk__table_brightness(stk__color_table table, float factor);
void stk__table_contrast(stk__color_table table, float factor, uint8_t mean_luma);
void stk__table_solarize(stk__color_table table, int threshold);
void stk__table_posterize(stk__color_table table, int bits);
void stk__table_invert(stk__color_table table);
void stk__table_autocontrast(stk__color_table table, const uint32_t counts[3][256], int channels);
/* As Pillow's ImageOps.equalize. */
void stk__table_equalize(stk__color_table table, const uint32_t counts[3][256], int channels);

#endif
