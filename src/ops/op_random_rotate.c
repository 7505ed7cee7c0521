/* random_rotate: turn images by a random angle. */
#include <math.h>

#include "kernels/warp.h"
#include "ops/image_op.h"

typedef struct {
    stk__image_op op;
    const char *field;
    double degrees;
    int64_t filter;
    double fill;
} random_rotate_state;

/* Turns counter-clockwise around the middle; the size stays. */
static stk_status rotate(const stk__act *act, stk__image_work *work, stk_error *err)
{
    const random_rotate_state *s = act->state;
    stk__pixels *image = stk__work_image(work), out;
    STK_TRY(stk__work_other(work, image->width, image->height, image->channels, &out, err));
    const double angle = act->as.pixels.numbers[0], cx = image->width / 2.0, cy = image->height / 2.0;
    const double c = cos(angle), n = sin(angle);
    const double m[6] = {c, -n, cx - c * cx + n * cy, n, c, cy - n * cx - c * cy};
    const uint8_t v = (uint8_t)s->fill, fill[STK__CHANNELS_MAX] = {v, v, v, v};
    stk__warp_affine(&out, image, m, s->filter == STK__FILTER_BILINEAR, fill);
    *image = out;
    return STK_OK;
}

static stk_status random_rotate_draw(const stk_call *call, const stk_sample *sample, const stk__image_size *in, stk__act *out,
                                     stk_error *err)
{
    const random_rotate_state *s = call->state;
    if (in->width > 32767 || in->height > 32767)
        return call->host->fail(err, STK_CORRUPT, "image of %d x %d pixels, wanted at most 32767 x 32767", in->width, in->height);
    stk_random r = stk_random_begin(call, sample);
    out->kind = STK__ACT_PIXELS;
    out->as.pixels.apply = rotate;
    out->as.pixels.numbers[0] = stk__random_between(&r, -s->degrees, s->degrees) * (3.14159265358979323846 / 180);
    return STK_OK;
}

static stk_status random_rotate_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    random_rotate_state *s = state;
    STK_TRY(stk__image_plan_read(plan, host, &s->op, s->field, STK__TAKES_UINT8, err));
    STK_TRY(stk__image_check_filter(host, &s->op, (stk__filter)s->filter, err));
    if (s->op.from.shape[2] == 2)
        return host->fail(err, STK_INVALID, "field '%s' has 2 channels, wanted 1, 3 or 4", s->field);
    s->op.kind = STK__ACT_PIXELS;
    s->op.draw = random_rotate_draw;
    return stk__image_plan_write(plan, host, &s->op, err);
}

static const char *const rotate_filters[] = {"nearest", "bilinear", NULL};

static const stk_option random_rotate_options[] = {
    STK_FIELD(random_rotate_state, field, "uint8 images"),
    STK_NUMBER(random_rotate_state, degrees, 10, 0, 180, "the angle is drawn from -degrees to degrees"),
    STK_ENUM(random_rotate_state, filter, STK__FILTER_BILINEAR, rotate_filters, "how pixels are mixed; nearest mixes none, for masks"),
    STK_NUMBER(random_rotate_state, fill, 0, 0, 255, "value of pixels that come from outside"),
    STK_OPTION_END,
};

const stk_op stk__op_random_rotate = {
    .abi = STK_OP_ABI,
    .name = "random_rotate",
    .group = "image",
    .since = "0.1",
    .summary = "Turn images around their middle by a random angle.",
    .example = "image_folder(\"d/photos\") | decode_image(image) | random_rotate(image, degrees=10)",
    .options = random_rotate_options,
    .state_size = sizeof(random_rotate_state),
    .flags = STK_OP_RANDOM,
    .schema = random_rotate_schema,
    STK__IMAGE_CALLBACKS,
};
