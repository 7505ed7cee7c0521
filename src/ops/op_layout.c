/* layout: put the channels of images first. */
#include "ops/image_op.h"

enum { HWC, CHW };

typedef struct {
    stk__image_op op;
    const char *field;
    int64_t order;
} layout_state;

static stk_status layout_draw(const stk_call *call, const stk_sample *sample, const stk__image_size *in, stk__act *out,
                              stk_error *err)
{
    const layout_state *s = call->state;
    if (s->order == CHW)
        out->kind = STK__ACT_LAYOUT;
    return STK_OK;
}

static stk_status layout_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    layout_state *s = state;
    STK_TRY(stk__image_plan_read(plan, host, &s->op, s->field, STK__TAKES_ANY, err));
    s->op.kind = s->order == CHW ? STK__ACT_LAYOUT : STK__ACT_NOTHING;
    s->op.draw = layout_draw;
    if (s->order == CHW) {
        s->op.to.shape[0] = s->op.from.shape[2];
        s->op.to.shape[1] = s->op.from.shape[0];
        s->op.to.shape[2] = s->op.from.shape[1];
    }
    return stk__image_plan_write(plan, host, &s->op, err);
}

static const char *const orders[] = {"HWC", "CHW", NULL};

static const stk_option layout_options[] = {
    STK_FIELD(layout_state, field, "images (height, width, channels)"),
    STK_ENUM(layout_state, order, CHW, orders, "CHW puts channels first, as PyTorch wants them; HWC leaves them last"),
    STK_OPTION_END,
};

const stk_op stk__op_layout = {
    .abi = STK_OP_ABI,
    .name = "layout",
    .group = "image",
    .since = "0.1",
    .summary = "Put the channels of images first: (channels, height, width).",
    .example = "image_folder(\"d/photos\") | decode_image(image) | resize(image, 24, 24) | layout(image, CHW) | batch(2)",
    .options = layout_options,
    .state_size = sizeof(layout_state),
    .schema = layout_schema,
    STK__IMAGE_CALLBACKS,
};
