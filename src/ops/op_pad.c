/* pad: add pixels around images. */
#include "ops/image_op.h"

typedef struct {
    stk__image_op op;
    const char *field;
    stk_numbers size;
    int64_t mode; /* in the order of stk__border */
    double fill;
    int32_t left, top, right, bottom;
} pad_state;

static stk_status pad_draw(const stk_call *call, const stk_sample *sample, const stk__image_size *in, stk__act *out,
                           stk_error *err)
{
    const pad_state *s = call->state;
    out->kind = STK__ACT_VIEW;
    out->as.view.x = -s->left;
    out->as.view.y = -s->top;
    out->as.view.width = in->width + s->left + s->right;
    out->as.view.height = in->height + s->top + s->bottom;
    out->as.view.border = (stk__border)s->mode;
    out->as.view.fill = s->fill;
    return STK_OK;
}

static stk_status read_sizes(pad_state *s, const stk_host *host, stk_error *err)
{
    int32_t sides[4] = {0, 0, 0, 0};
    const size_t n = s->size.count;
    if (n != 1 && n != 2 && n != 4)
        return host->fail(err, STK_INVALID, "size has %zu numbers, wanted 1, 2 (x, y) or 4 (left, top, right, bottom)", n);
    for (size_t i = 0; i < 4; i++) {
        const double side = s->size.items[i % n];
        if (!(side >= 0 && side <= 65536))
            return host->fail(err, STK_INVALID, "size is %g, wanted 0 to 65536", side);
        if (side != (int32_t)side)
            return host->fail(err, STK_INVALID, "size is %g, wanted a whole number of pixels", side);
        sides[i] = (int32_t)side;
    }
    s->left = sides[0];
    s->top = sides[1];
    s->right = sides[2];
    s->bottom = sides[3];
    return STK_OK;
}

static stk_status pad_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    pad_state *s = state;
    STK_TRY(read_sizes(s, host, err));
    STK_TRY(stk__image_plan_read(plan, host, &s->op, s->field, STK__TAKES_ANY, err));
    s->op.kind = STK__ACT_VIEW;
    s->op.draw = pad_draw;
    if (s->op.to.shape[0] >= 0)
        s->op.to.shape[0] += s->top + s->bottom;
    if (s->op.to.shape[1] >= 0)
        s->op.to.shape[1] += s->left + s->right;
    return stk__image_plan_write(plan, host, &s->op, err);
}

static const char *const pad_modes[] = {"constant", "edge", "reflect", NULL};

static const stk_option pad_options[] = {
    STK_FIELD(pad_state, field, "images"),
    STK_NUMBERS(pad_state, size, "pixels on each side, or [x, y], or [left, top, right, bottom]"),
    STK_ENUM(pad_state, mode, STK__BORDER_CONSTANT, pad_modes, "what the new pixels are"),
    STK_NUMBER(pad_state, fill, 0, -1e30, 1e30, "value of constant pixels"),
    STK_OPTION_END,
};

const stk_op stk__op_pad = {
    .abi = STK_OP_ABI,
    .name = "pad",
    .group = "image",
    .since = "0.1",
    .summary = "Add pixels around images: constant, edge or reflect.",
    .example = "image_folder(\"d/photos\") | decode_image(image) | pad(image, 4, mode=reflect)",
    .options = pad_options,
    .state_size = sizeof(pad_state),
    .schema = pad_schema,
    STK__IMAGE_CALLBACKS,
};
