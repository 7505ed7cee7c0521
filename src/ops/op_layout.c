/* layout: put the channels of images first, or last again. */
#include "ops/image_op.h"

enum { HWC, CHW };

typedef struct {
    stk__image_op op;
    const char *field;
    int64_t order;
    bool back; /* channels stand first, and go last */
} layout_state;

static bool has_channels_first(const stk_field *f)
{
    return f->ndim == 3 && f->dtype != STK_BYTES && (f->shape[2] < 1 || f->shape[2] > STK__CHANNELS_MAX) &&
           f->shape[0] >= 1 && f->shape[0] <= STK__CHANNELS_MAX;
}

/* Image ops work on channels that stand last, so this is none of them: it only copies. */
static stk_status plan_back(stk_plan *plan, const stk_host *host, stk__image_op *op, stk_error *err)
{
    op->to = op->from;
    op->to.shape[0] = op->from.shape[1];
    op->to.shape[1] = op->from.shape[2];
    op->to.shape[2] = op->from.shape[0];
    return stk__image_plan_write(plan, host, op, err);
}

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
    stk__image_op *op = &s->op;
    STK_TRY(host->plan_read(plan, s->field, &op->in, &op->from, err));
    op->classes = host->plan_has_classes(plan, op->in);
    s->back = s->order == HWC && has_channels_first(&op->from);
    if (s->back)
        return plan_back(plan, host, op, err);
    STK_TRY(stk__image_check(host, &op->from, STK__TAKES_ANY, err));
    op->to = op->from;
    op->kind = s->order == CHW ? STK__ACT_LAYOUT : STK__ACT_NOTHING;
    op->draw = layout_draw;
    if (s->order == CHW) {
        op->to.shape[0] = op->from.shape[2];
        op->to.shape[1] = op->from.shape[0];
        op->to.shape[2] = op->from.shape[1];
    }
    return stk__image_plan_write(plan, host, op, err);
}

static stk_status layout_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    const layout_state *s = call->state;
    if (!s->back)
        return stk__image_process(call, sample, err);
    const stk_value *in = &sample->values[s->op.in];
    const int64_t shape[3] = {in->shape[1], in->shape[2], in->shape[0]};
    void *out = stk_out(call, sample, s->op.out, shape, err);
    if (!out)
        return err->status;
    stk__to_interleaved(out, in->data, shape[0] * shape[1], (int32_t)shape[2], stk_dtype_size(s->op.from.dtype));
    return STK_OK;
}

static const char *const orders[] = {"HWC", "CHW", NULL};

static const stk_option layout_options[] = {
    STK_FIELD(layout_state, field, "images"),
    STK_ENUM(layout_state, order, CHW, orders, "CHW puts channels first, as PyTorch wants them; HWC puts them last, as image ops do"),
    STK_OPTION_END,
};

const stk_op stk__op_layout = {
    .abi = STK_OP_ABI,
    .name = "layout",
    .group = "image",
    .since = "0.1",
    .summary = "Put the channels of images first (channels, height, width), or last again.",
    .example = "image_folder(\"d/photos\") | decode_image(image) | resize(image, 24, 24) | layout(image, CHW) | batch(2)",
    .options = layout_options,
    .state_size = sizeof(layout_state),
    .schema = layout_schema,
    .worker_open = stk__image_worker_open,
    .worker_close = stk__image_worker_close,
    .trim = stk__image_worker_trim,
    .process = layout_process,
    .fuse = &stk__image_fuse,
};
