/* resize: bring images to a size. */
#include <math.h>

#include "ops/image_op.h"

typedef struct {
    stk__image_op op;
    const char *field;
    int64_t height, width;
    int64_t filter; /* in the order of stk__filter */
    bool antialias;
} resize_state;

/* The longer side when the shorter one becomes `size`; cut down, as torchvision does. */
static int32_t longer_side(int32_t longer, int32_t shorter, int64_t size)
{
    const int64_t side = size * longer / shorter;
    return (int32_t)STK_MAX((int64_t)1, STK_MIN(side, (int64_t)65536));
}

static stk_status resize_draw(const stk_call *call, const stk_sample *sample, const stk__image_size *in, stk__act *out,
                              stk_error *err)
{
    const resize_state *s = call->state;
    out->kind = STK__ACT_RESIZE;
    out->as.resize.x = out->as.resize.y = 0;
    out->as.resize.from_width = in->width;
    out->as.resize.from_height = in->height;
    out->as.resize.height = (int32_t)s->height;
    out->as.resize.width = (int32_t)s->width;
    if (s->width == 0) {
        const bool wide = in->width > in->height;
        out->as.resize.width = wide ? longer_side(in->width, in->height, s->height) : (int32_t)s->height;
        out->as.resize.height = wide ? (int32_t)s->height : longer_side(in->height, in->width, s->height);
    }
    out->as.resize.filter = (stk__filter)s->filter;
    out->as.resize.antialias = s->antialias;
    return STK_OK;
}

static stk_status resize_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    resize_state *s = state;
    STK_TRY(stk__image_plan_read(plan, host, &s->op, s->field, STK__TAKES_UINT16, err));
    STK_TRY(stk__image_check_filter(host, &s->op, (stk__filter)s->filter, err));
    s->op.kind = STK__ACT_RESIZE;
    s->op.draw = resize_draw;
    s->op.to.shape[0] = s->width > 0 ? s->height : -1;
    s->op.to.shape[1] = s->width > 0 ? s->width : -1;
    return stk__image_plan_write(plan, host, &s->op, err);
}

static const char *const resize_filters[] = {"nearest", "bilinear", "bicubic", "area", NULL};

static const stk_option resize_options[] = {
    STK_FIELD(resize_state, field, "uint8 images; uint16 with filter=nearest"),
    STK_INT_REQUIRED(resize_state, height, 1, 16384, "rows of the result; without width, its shorter side"),
    STK_INT(resize_state, width, 0, 0, 16384, "columns of the result; 0: keep the proportions"),
    STK_ENUM(resize_state, filter, STK__FILTER_BILINEAR, resize_filters, "how pixels are mixed; nearest mixes none, for masks and depth"),
    STK_BOOL_OPTION(resize_state, antialias, true, "widen the filter where the result is smaller"),
    STK_OPTION_END,
};

const stk_op stk__op_resize = {
    .abi = STK_OP_ABI,
    .name = "resize",
    .group = "image",
    .since = "0.1",
    .summary = "Bring images to a size.",
    .example = "image_folder(\"d/photos\") | decode_image(image) | resize(image, 256) | center_crop(image, 224, 224) | batch(2)",
    .options = resize_options,
    .state_size = sizeof(resize_state),
    .schema = resize_schema,
    STK__IMAGE_CALLBACKS,
};
