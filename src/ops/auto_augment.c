/* The changes that trivial_augment and rand_augment choose from, with the magnitudes that torchvision has for them. */
#include "ops/auto_augment.h"

#include <assert.h>
#include <math.h>

#include "kernels/blur.h"
#include "kernels/color.h"
#include "kernels/warp.h"

#define SIDE_MAX 32767

const char *const stk__augment_filters[] = {"nearest", "bilinear", NULL};

/* ---- carrying out ---- */

/* Where a pixel of the result comes from. Shears keep the upper left corner in place, turns the middle. */
static void set_matrix(double m[6], stk__augment what, double magnitude, const stk__pixels *image)
{
    const double cx = image->width / 2.0, cy = image->height / 2.0;
    m[0] = m[4] = 1;
    m[1] = m[2] = m[3] = m[5] = 0;
    if (what == STK__AUGMENT_SHEAR_X) {
        m[1] = magnitude;
    } else if (what == STK__AUGMENT_SHEAR_Y) {
        m[3] = magnitude;
    } else if (what == STK__AUGMENT_TRANSLATE_X) {
        m[2] = -trunc(magnitude);
    } else if (what == STK__AUGMENT_TRANSLATE_Y) {
        m[5] = -trunc(magnitude);
    } else {
        const double angle = magnitude * (3.14159265358979323846 / 180), c = cos(angle), n = sin(angle);
        m[0] = m[4] = c;
        m[1] = -n;
        m[3] = n;
        m[2] = cx - c * cx + n * cy;
        m[5] = cy - n * cx - c * cy;
    }
}

static stk_status warp(const stk__augment_state *s, stk__augment what, double magnitude, stk__image_work *work,
                       stk_error *err)
{
    stk__pixels *image = stk__work_image(work), out;
    const uint8_t v = (uint8_t)s->fill, fill[STK__CHANNELS_MAX] = {v, v, v, v};
    double m[6];
    STK_TRY(stk__work_other(work, image->width, image->height, image->channels, &out, err));
    set_matrix(m, what, magnitude, image);
    stk__warp_affine(&out, image, m, s->filter != 0, fill);
    *image = out;
    return STK_OK;
}

/* Blends with what a 3 x 3 smoothing makes of the image. */
static stk_status sharpen(stk__image_work *work, double magnitude, stk_error *err)
{
    const stk__pixels *image = stk__work_image(work);
    if (image->width <= 2 || image->height <= 2)
        return STK_OK;
    const size_t stride = (size_t)image->width * (size_t)image->channels;
    stk__pixels smooth = *image;
    smooth.stride = (ptrdiff_t)stride;
    smooth.data = stk__work_scratch(work, stride * (size_t)image->height, err);
    if (!smooth.data)
        return err->status;
    stk__blur_smooth(&smooth, image);
    stk__color_blend(image, &smooth, (float)(1 + magnitude));
    return STK_OK;
}

/* Changes that look at single samples, some of them after having looked at all. */
static void map(const stk__pixels *image, stk__augment what, double magnitude)
{
    const int channels = STK_MIN(image->channels, 3);
    stk__color_table table;
    uint32_t counts[3][256];
    if (what == STK__AUGMENT_AUTOCONTRAST || what == STK__AUGMENT_EQUALIZE)
        stk__color_histogram(image, counts);
    if (what == STK__AUGMENT_BRIGHTNESS)
        stk__table_brightness(table, (float)(1 + magnitude));
    else if (what == STK__AUGMENT_CONTRAST)
        stk__table_contrast(table, (float)(1 + magnitude), stk__color_mean_luma(image));
    else if (what == STK__AUGMENT_POSTERIZE)
        stk__table_posterize(table, (int)magnitude);
    else if (what == STK__AUGMENT_SOLARIZE)
        stk__table_solarize(table, (int)ceilf((float)(255 * magnitude)));
    else if (what == STK__AUGMENT_AUTOCONTRAST)
        stk__table_autocontrast(table, (const uint32_t(*)[256])counts, channels);
    else
        stk__table_equalize(table, (const uint32_t(*)[256])counts, channels);
    stk__color_map(image, table);
}

static stk_status change(const stk__augment_state *s, stk__augment what, double magnitude, stk__image_work *work,
                         stk_error *err)
{
    switch (what) {
    case STK__AUGMENT_IDENTITY:
    case STK__AUGMENT_COUNT:
        return STK_OK;
    case STK__AUGMENT_SHEAR_X:
    case STK__AUGMENT_SHEAR_Y:
    case STK__AUGMENT_TRANSLATE_X:
    case STK__AUGMENT_TRANSLATE_Y:
    case STK__AUGMENT_ROTATE:
        return warp(s, what, magnitude, work, err);
    case STK__AUGMENT_SHARPNESS:
        return sharpen(work, magnitude, err);
    case STK__AUGMENT_COLOR:
        if (stk__work_image(work)->channels >= 3)
            stk__color_saturate(stk__work_image(work), (float)(1 + magnitude));
        return STK_OK;
    case STK__AUGMENT_BRIGHTNESS:
    case STK__AUGMENT_CONTRAST:
    case STK__AUGMENT_POSTERIZE:
    case STK__AUGMENT_SOLARIZE:
    case STK__AUGMENT_AUTOCONTRAST:
    case STK__AUGMENT_EQUALIZE:
        map(stk__work_image(work), what, magnitude);
        return STK_OK;
    }
    return STK_OK;
}

/* numbers: how many changes there are, then two for each: which, and its magnitude. */
static stk_status apply(const stk__act *act, stk__image_work *work, stk_error *err)
{
    const double *numbers = act->as.pixels.numbers;
    for (int i = 0; i < (int)numbers[0]; i++)
        STK_TRY(change(act->state, (stk__augment)numbers[1 + 2 * i], numbers[2 + 2 * i], work, err));
    return STK_OK;
}

/* ---- drawing ---- */

stk_status stk__augment_begin(const stk_call *call, const stk__image_size *in, stk__act *out, stk_error *err)
{
    if (in->width > SIDE_MAX || in->height > SIDE_MAX)
        return call->host->fail(err, STK_CORRUPT, "image of %d x %d pixels, wanted at most %d x %d", in->width,
                                in->height, SIDE_MAX, SIDE_MAX);
    out->kind = STK__ACT_PIXELS;
    out->as.pixels.apply = apply;
    out->as.pixels.numbers[0] = 0;
    return STK_OK;
}

void stk__augment_add(stk__act *out, stk__augment what, double magnitude)
{
    double *numbers = out->as.pixels.numbers;
    const int n = (int)numbers[0]++;
    assert(n < STK__AUGMENT_MAX);
    numbers[1 + 2 * n] = what;
    numbers[2 + 2 * n] = magnitude;
}

static bool has_magnitude(stk__augment what)
{
    return what != STK__AUGMENT_IDENTITY && what != STK__AUGMENT_AUTOCONTRAST && what != STK__AUGMENT_EQUALIZE;
}

static bool has_sign(stk__augment what)
{
    return what >= STK__AUGMENT_SHEAR_X && what <= STK__AUGMENT_SHARPNESS;
}

/* `part` of the way from the first bin to the last. */
static double magnitude_of(const stk__augment_space *space, stk__augment what, double part, const stk__image_size *in)
{
    switch (what) {
    case STK__AUGMENT_SHEAR_X:
    case STK__AUGMENT_SHEAR_Y:
        return part * space->shear;
    case STK__AUGMENT_TRANSLATE_X:
        return part * space->translate * (space->translate_share ? in->width : 1);
    case STK__AUGMENT_TRANSLATE_Y:
        return part * space->translate * (space->translate_share ? in->height : 1);
    case STK__AUGMENT_ROTATE:
        return part * space->degrees;
    case STK__AUGMENT_POSTERIZE:
        return rint(8 - part * space->bits);
    case STK__AUGMENT_SOLARIZE:
        return 1 - part;
    default:
        return part * space->factor;
    }
}

void stk__augment_draw(const stk__augment_space *space, stk_random *r, int bin, const stk__image_size *in,
                       stk__act *out)
{
    const stk__augment what = (stk__augment)stk__random_below(r, STK__AUGMENT_COUNT);
    double magnitude = 0;
    if (has_magnitude(what)) {
        const int at = bin < 0 ? stk__random_below(r, STK__AUGMENT_BINS) : bin;
        magnitude = magnitude_of(space, what, (double)at / (STK__AUGMENT_BINS - 1), in);
    }
    if (has_sign(what) && stk__random_chance(r, 0.5))
        magnitude = -magnitude;
    stk__augment_add(out, what, magnitude);
}

/* ---- planning ---- */

stk_status stk__augment_plan(stk_plan *plan, const stk_host *host, stk__augment_state *s, stk__image_draw draw,
                             stk_error *err)
{
    STK_TRY(stk__image_plan_read(plan, host, &s->op, s->field, STK__TAKES_COLORS, err));
    if (s->op.from.shape[2] == 2)
        return host->fail(err, STK_INVALID, "field '%s' has 2 channels, wanted 1, 3 or 4", s->field);
    s->op.kind = STK__ACT_PIXELS;
    s->op.draw = draw;
    return stk__image_plan_write(plan, host, &s->op, err);
}
