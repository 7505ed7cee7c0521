/* cutout: paint over a rectangle of each image. */
#include "ops/image_op.h"

typedef struct {
    stk__image_op op;
    const char *field;
    int64_t height, width;
    double fill, p;
} cutout_state;

/* The middle lies anywhere in the image, so a part of the rectangle may fall outside, as in the paper. */
static stk_status cutout_draw(const stk_call *call, const stk_sample *sample, const stk__image_size *in, stk__act *out,
                              stk_error *err)
{
    const cutout_state *s = call->state;
    stk_random r = stk_random_begin(call, sample);
    if (!stk__random_chance(&r, s->p))
        return STK_OK;
    out->kind = STK__ACT_ERASE;
    out->as.erase.height = (int32_t)s->height;
    out->as.erase.width = (int32_t)(s->width > 0 ? s->width : s->height);
    out->as.erase.y = stk__random_below(&r, in->height) - out->as.erase.height / 2;
    out->as.erase.x = stk__random_below(&r, in->width) - out->as.erase.width / 2;
    out->as.erase.fill = s->fill;
    return STK_OK;
}

static stk_status cutout_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    cutout_state *s = state;
    STK_TRY(stk__image_plan_read(plan, host, &s->op, s->field, STK__TAKES_ANY, err));
    s->op.kind = STK__ACT_ERASE;
    s->op.draw = cutout_draw;
    return stk__image_plan_write(plan, host, &s->op, err);
}

static const stk_option cutout_options[] = {
    STK_FIELD(cutout_state, field, "images"),
    STK_INT_REQUIRED(cutout_state, height, 1, 65536, "rows of the rectangle"),
    STK_INT(cutout_state, width, 0, 0, 65536, "columns of the rectangle; 0: as many as rows"),
    STK_NUMBER(cutout_state, fill, 0, -1e30, 1e30, "what it is painted with; 0 after normalize is the mean"),
    STK_NUMBER(cutout_state, p, 1, 0, 1, "how probable it is"),
    STK_OPTION_END,
};

const stk_op stk__op_cutout = {
    .abi = STK_OP_ABI,
    .name = "cutout",
    .group = "image",
    .since = "0.1",
    .summary = "Paint over a rectangle of each image whose middle lies anywhere in it.",
    .example = "image_folder(\"d/photos\") | decode_image(image) | cutout(image, 8, 8)",
    .options = cutout_options,
    .state_size = sizeof(cutout_state),
    .flags = STK_OP_RANDOM,
    .schema = cutout_schema,
    STK__IMAGE_CALLBACKS,
};
