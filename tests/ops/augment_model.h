/* A plain model of the changes of trivial_augment and rand_augment, as torchvision describes them, for 24 x 24 pictures. */
#ifndef STK_TESTS_AUGMENT_MODEL_H
#define STK_TESTS_AUGMENT_MODEL_H

#include "pictures.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/color.h"
#include "ops/auto_augment.h"

#define SIDE 24
#define BYTES (SIDE * SIDE * 3)

static inline double model_clamp(double x)
{
    return x < 0 ? 0 : x > 255 ? 255 : x;
}

static inline void model_warp(const double m[6], const uint8_t *in, uint8_t *out)
{
    for (int k = 0; k < SIDE * SIDE; k++) {
        const double u = k % SIDE + 0.5, v = k / SIDE + 0.5;
        const int x = (int)floor(m[0] * u + m[1] * v + m[2]), y = (int)floor(m[3] * u + m[4] * v + m[5]);
        const bool inside = x >= 0 && y >= 0 && x < SIDE && y < SIDE;
        for (int c = 0; c < 3; c++)
            out[3 * k + c] = inside ? in[3 * (y * SIDE + x) + c] : 0;
    }
}

/* Shears, shifts, turns. */
static inline void model_move(stk__augment what, double magnitude, const uint8_t *in, uint8_t *out)
{
    const double a = magnitude * acos(-1) / 180, middle = SIDE / 2.0;
    const double shift = trunc(magnitude);
    const double x[6] = {1, magnitude, 0, 0, 1, 0}, y[6] = {1, 0, 0, magnitude, 1, 0};
    const double right[6] = {1, 0, -shift, 0, 1, 0}, down[6] = {1, 0, 0, 0, 1, -shift};
    const double turn[6] = {cos(a), -sin(a), middle - cos(a) * middle + sin(a) * middle,
                            sin(a), cos(a),  middle - sin(a) * middle - cos(a) * middle};
    model_warp(what == STK__AUGMENT_SHEAR_X       ? x
               : what == STK__AUGMENT_SHEAR_Y     ? y
               : what == STK__AUGMENT_TRANSLATE_X ? right
               : what == STK__AUGMENT_TRANSLATE_Y ? down
                                                  : turn,
               in, out);
}

static inline double model_smooth(const uint8_t *in, int x, int y, int c)
{
    double sum = 4 * in[3 * (y * SIDE + x) + c];
    if (x == 0 || y == 0 || x == SIDE - 1 || y == SIDE - 1)
        return in[3 * (y * SIDE + x) + c];
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            sum += in[3 * ((y + dy) * SIDE + x + dx) + c];
    return sum / 13;
}

/* Brightness, colour, contrast, sharpness: all are blends with another picture. */
static inline void model_blend(stk__augment what, double magnitude, const uint8_t *in, uint8_t *out)
{
    double mean = 0;
    for (int k = 0; k < BYTES; k += 3)
        mean += stk__luma(in[k], in[k + 1], in[k + 2]) / (double)(SIDE * SIDE);
    for (int k = 0; k < BYTES; k++) {
        const uint8_t *p = in + k / 3 * 3;
        const double other = what == STK__AUGMENT_BRIGHTNESS ? 0
                             : what == STK__AUGMENT_CONTRAST ? mean
                             : what == STK__AUGMENT_COLOR    ? stk__luma(p[0], p[1], p[2])
                                                             : model_smooth(in, k / 3 % SIDE, k / 3 / SIDE, k % 3);
        out[k] = (uint8_t)model_clamp(other + (1 + magnitude) * (in[k] - other) + 0.5);
    }
}

static inline void model_autocontrast(const uint8_t *in, uint8_t *out)
{
    for (int c = 0; c < 3; c++) {
        int low = 255, high = 0;
        for (int k = c; k < BYTES; k += 3) {
            low = STK_MIN(low, in[k]);
            high = STK_MAX(high, in[k]);
        }
        for (int k = c; k < BYTES; k += 3)
            out[k] = high > low ? (uint8_t)((in[k] - low) * 255.0 / (high - low) + 0.5) : in[k];
    }
}

static inline void model_equalize(const uint8_t *in, uint8_t *out)
{
    for (int c = 0; c < 3; c++) {
        int counts[256] = {0}, last = 0, lut[256], kinds = 0;
        for (int k = c; k < BYTES; k += 3)
            counts[in[k]]++;
        for (int i = 0; i < 256; i++) {
            last = counts[i] ? counts[i] : last;
            kinds += counts[i] > 0;
        }
        const int step = (SIDE * SIDE - last) / 255;
        for (int i = 0, n = step / 2; i < 256; n += counts[i], i++)
            lut[i] = step == 0 || kinds <= 1 ? i : STK_MIN(n / step, 255);
        for (int k = c; k < BYTES; k += 3)
            out[k] = (uint8_t)lut[in[k]];
    }
}

static inline void model_change(stk__augment what, double magnitude, const uint8_t *in, uint8_t *out)
{
    const int mask = what == STK__AUGMENT_POSTERIZE ? 0xff00 >> (int)magnitude & 0xff : 0;
    if (what == STK__AUGMENT_IDENTITY)
        memcpy(out, in, BYTES);
    else if (what <= STK__AUGMENT_ROTATE)
        model_move(what, magnitude, in, out);
    else if (what <= STK__AUGMENT_SHARPNESS)
        model_blend(what, magnitude, in, out);
    else if (what == STK__AUGMENT_AUTOCONTRAST)
        model_autocontrast(in, out);
    else if (what == STK__AUGMENT_EQUALIZE)
        model_equalize(in, out);
    else
        for (int k = 0; k < BYTES; k++)
            out[k] = (uint8_t)(what == STK__AUGMENT_POSTERIZE    ? in[k] & mask
                               : in[k] >= 255 * magnitude - 1e-4 ? 255 - in[k]
                                                                 : in[k]);
}

/* How many samples are off by more than rounding; stops counting at `limit`. */
static inline int model_misses(const uint8_t *a, const uint8_t *b, int limit)
{
    int misses = 0;
    for (int k = 0; k < BYTES && misses < limit; k++)
        misses += abs(a[k] - b[k]) > 2;
    return misses;
}

static inline void model_picture(int i, uint8_t *out)
{
    for (int k = 0; k < BYTES; k++)
        out[k] = picture_sample(i, k / 3 % SIDE, k / 3 / SIDE, k % 3);
}

#endif
