/* random_resized_crop: cut a random part out of images and resize it. */
#include <math.h>

#include "ops/image_op.h"

typedef struct {
    stk__image_op op;
    const char *field;
    int64_t height, width;
    stk_numbers scale, ratio;
    int64_t filter; /* in the order of stk__filter */
    bool antialias;
    double scale_low, scale_high, log_low, log_high;
} rrc_state;

/* Where no part of the wanted shape was found: the middle, with the nearest ratio. */
static void central_part(const rrc_state *s, const stk__image_size *in, stk__act *out)
{
    const double ratio = (double)in->width / in->height, low = exp(s->log_low), high = exp(s->log_high);
    int32_t width = in->width, height = in->height;
    if (ratio < low)
        height = (int32_t)lround(width / low);
    else if (ratio > high)
        width = (int32_t)lround(height * high);
    out->as.resize.from_width = STK_MAX(1, STK_MIN(width, in->width));
    out->as.resize.from_height = STK_MAX(1, STK_MIN(height, in->height));
    out->as.resize.x = (in->width - out->as.resize.from_width) / 2;
    out->as.resize.y = (in->height - out->as.resize.from_height) / 2;
}

/* Area and ratio at random, up to ten times, as torchvision and the Inception papers do. */
static void draw_part(const rrc_state *s, stk_random *r, const stk__image_size *in, stk__act *out)
{
    const double area = (double)in->width * in->height;
    for (int attempt = 0; attempt < 10; attempt++) {
        const double target = area * stk__random_between(r, s->scale_low, s->scale_high);
        const double ratio = exp(stk__random_between(r, s->log_low, s->log_high));
        const double width = round(sqrt(target * ratio)), height = round(sqrt(target / ratio));
        if (!(width >= 1 && height >= 1 && width <= in->width && height <= in->height))
            continue;
        out->as.resize.from_width = (int32_t)width;
        out->as.resize.from_height = (int32_t)height;
        out->as.resize.y = stk__random_below(r, in->height - (int32_t)height + 1);
        out->as.resize.x = stk__random_below(r, in->width - (int32_t)width + 1);
        return;
    }
    central_part(s, in, out);
}

static stk_status rrc_draw(const stk_call *call, const stk_sample *sample, const stk__image_size *in, stk__act *out,
                           stk_error *err)
{
    const rrc_state *s = call->state;
    stk_random r = stk_random_begin(call, sample);
    out->kind = STK__ACT_RESIZE;
    draw_part(s, &r, in, out);
    out->as.resize.width = (int32_t)s->op.to.shape[1];
    out->as.resize.height = (int32_t)s->op.to.shape[0];
    out->as.resize.filter = (stk__filter)s->filter;
    out->as.resize.antialias = s->antialias;
    return STK_OK;
}

/* A pair "low, high" of numbers above 0. */
static stk_status read_range(const stk_host *host, const char *name, const stk_numbers *given, double most, double *low,
                             double *high, stk_error *err)
{
    if (given->count == 0)
        return STK_OK;
    if (given->count != 2 || !(given->items[0] > 0) || !(given->items[0] <= given->items[1]) || !(given->items[1] <= most))
        return host->fail(err, STK_INVALID, "%s has %zu numbers, wanted [low, high] with 0 < low <= high <= %g", name,
                          given->count, most);
    *low = given->items[0];
    *high = given->items[1];
    return STK_OK;
}

static stk_status rrc_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    rrc_state *s = state;
    double ratio_low = 3.0 / 4, ratio_high = 4.0 / 3;
    s->scale_low = 0.08;
    s->scale_high = 1;
    STK_TRY(read_range(host, "scale", &s->scale, 1, &s->scale_low, &s->scale_high, err));
    STK_TRY(read_range(host, "ratio", &s->ratio, 1000, &ratio_low, &ratio_high, err));
    s->log_low = log(ratio_low);
    s->log_high = log(ratio_high);
    STK_TRY(stk__image_plan_read(plan, host, &s->op, s->field, STK__TAKES_UINT16, err));
    STK_TRY(stk__image_check_filter(host, &s->op, (stk__filter)s->filter, err));
    s->op.kind = STK__ACT_RESIZE;
    s->op.draw = rrc_draw;
    s->op.to.shape[0] = s->height;
    s->op.to.shape[1] = s->width > 0 ? s->width : s->height;
    return stk__image_plan_write(plan, host, &s->op, err);
}

static const char *const rrc_filters[] = {"nearest", "bilinear", "bicubic", "area", NULL};

static const stk_option rrc_options[] = {
    STK_FIELD(rrc_state, field, "uint8 images; uint16 with filter=nearest"),
    STK_INT_REQUIRED(rrc_state, height, 1, 16384, "rows of the result"),
    STK_INT(rrc_state, width, 0, 0, 16384, "columns of the result; 0: as many as rows"),
    STK_NUMBERS(rrc_state, scale, "[low, high] of the part's share of the area; default [0.08, 1]"),
    STK_NUMBERS(rrc_state, ratio, "[low, high] of the part's width by height; default [0.75, 1.3333]"),
    STK_ENUM(rrc_state, filter, STK__FILTER_BILINEAR, rrc_filters, "how pixels are mixed; nearest mixes none, for masks and depth"),
    STK_BOOL_OPTION(rrc_state, antialias, true, "widen the filter where the result is smaller"),
    STK_OPTION_END,
};

const stk_op stk__op_random_resized_crop = {
    .abi = STK_OP_ABI,
    .name = "random_resized_crop",
    .group = "image",
    .since = "0.1",
    .summary = "Cut a part of random area, shape and place out of each image, and resize it.",
    .example = "image_folder(\"d/photos\") | decode_image(image) | random_resized_crop(image, 24, 24) | batch(2)",
    .options = rrc_options,
    .state_size = sizeof(rrc_state),
    .flags = STK_OP_RANDOM,
    .schema = rrc_schema,
    STK__IMAGE_CALLBACKS,
};
