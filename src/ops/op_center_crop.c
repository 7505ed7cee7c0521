/* center_crop: cut the middle out of images. */
#include "ops/image_op.h"

typedef struct {
    stk__image_op op;
    const char *field;
    int64_t height, width;
} center_crop_state;

static stk_status center_crop_draw(const stk_call *call, const stk_sample *sample, const stk__image_size *in, stk__act *out,
                                   stk_error *err)
{
    const center_crop_state *s = call->state;
    const int32_t width = (int32_t)s->op.to.shape[1], height = (int32_t)s->op.to.shape[0];
    out->kind = STK__ACT_VIEW;
    out->as.view.x = in->width >= width ? (in->width - width) / 2 : -((width - in->width) / 2);
    out->as.view.y = in->height >= height ? (in->height - height) / 2 : -((height - in->height) / 2);
    out->as.view.width = width;
    out->as.view.height = height;
    out->as.view.border = STK__BORDER_CONSTANT;
    out->as.view.fill = 0;
    return STK_OK;
}

static stk_status center_crop_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    center_crop_state *s = state;
    STK_TRY(stk__image_plan_read(plan, host, &s->op, s->field, STK__TAKES_ANY, err));
    s->op.kind = STK__ACT_VIEW;
    s->op.draw = center_crop_draw;
    s->op.to.shape[0] = s->height;
    s->op.to.shape[1] = s->width > 0 ? s->width : s->height;
    return stk__image_plan_write(plan, host, &s->op, err);
}

static const stk_option center_crop_options[] = {
    STK_FIELD(center_crop_state, field, "images"),
    STK_INT_REQUIRED(center_crop_state, height, 1, 65536, "rows of the result"),
    STK_INT(center_crop_state, width, 0, 0, 65536, "columns of the result; 0: as many as rows"),
    STK_OPTION_END,
};

const stk_op stk__op_center_crop = {
    .abi = STK_OP_ABI,
    .name = "center_crop",
    .group = "image",
    .since = "0.1",
    .summary = "Cut the middle out of images; what is too small gets a border of zeros.",
    .example = "image_folder(\"d/photos\") | decode_image(image) | center_crop(image, 24, 24) | batch(2)",
    .options = center_crop_options,
    .state_size = sizeof(center_crop_state),
    .schema = center_crop_schema,
    STK__IMAGE_CALLBACKS,
};
