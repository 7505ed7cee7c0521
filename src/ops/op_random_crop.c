/* random_crop: cut a rectangle out of images, anywhere. */
#include "ops/image_op.h"

typedef struct {
    stk__image_op op;
    const char *field;
    int64_t height, width;
    bool pad_if_needed;
} random_crop_state;

/* Where a stretch of `want` pixels starts among `have`. */
static int32_t draw_start(stk_random *r, int32_t have, int32_t want)
{
    return have >= want ? stk__random_below(r, have - want + 1) : -stk__random_below(r, want - have + 1);
}

static stk_status random_crop_draw(const stk_call *call, const stk_sample *sample, const stk__image_size *in, stk__act *out,
                                   stk_error *err)
{
    const random_crop_state *s = call->state;
    const int32_t width = (int32_t)s->op.to.shape[1], height = (int32_t)s->op.to.shape[0];
    if ((in->width < width || in->height < height) && !s->pad_if_needed)
        return call->host->fail(err, STK_CORRUPT, "image of %d x %d pixels, wanted at least %d x %d; resize or pad it first",
                                in->width, in->height, width, height);
    stk_random r = stk_random_begin(call, sample);
    out->kind = STK__ACT_VIEW;
    out->as.view.y = draw_start(&r, in->height, height);
    out->as.view.x = draw_start(&r, in->width, width);
    out->as.view.width = width;
    out->as.view.height = height;
    out->as.view.border = STK__BORDER_CONSTANT;
    out->as.view.fill = 0;
    return STK_OK;
}

static stk_status random_crop_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    random_crop_state *s = state;
    stk__image_op *op = &s->op;
    STK_TRY(stk__image_plan_read(plan, host, op, s->field, STK__TAKES_ANY, err));
    const int64_t width = s->width > 0 ? s->width : s->height;
    const bool small = (op->from.shape[0] >= 0 && op->from.shape[0] < s->height) ||
                       (op->from.shape[1] >= 0 && op->from.shape[1] < width);
    if (small && !s->pad_if_needed)
        return host->fail(err, STK_INVALID, "images of '%s' have %lld x %lld pixels, too few for a crop of %lld x %lld",
                          s->field, (long long)op->from.shape[1], (long long)op->from.shape[0], (long long)width,
                          (long long)s->height);
    op->kind = STK__ACT_VIEW;
    op->draw = random_crop_draw;
    op->to.shape[0] = s->height;
    op->to.shape[1] = width;
    return stk__image_plan_write(plan, host, op, err);
}

static const stk_option random_crop_options[] = {
    STK_FIELD(random_crop_state, field, "images"),
    STK_INT_REQUIRED(random_crop_state, height, 1, 65536, "rows of the result"),
    STK_INT(random_crop_state, width, 0, 0, 65536, "columns of the result; 0: as many as rows"),
    STK_BOOL_OPTION(random_crop_state, pad_if_needed, false, "smaller images get a border of zeros; else they are bad records"),
    STK_OPTION_END,
};

const stk_op stk__op_random_crop = {
    .abi = STK_OP_ABI,
    .name = "random_crop",
    .group = "image",
    .since = "0.1",
    .summary = "Cut a rectangle out of each image, anywhere.",
    .example = "image_folder(\"d/photos\") | decode_image(image) | random_crop(image, 24, 24) | batch(2)",
    .options = random_crop_options,
    .state_size = sizeof(random_crop_state),
    .flags = STK_OP_RANDOM,
    .schema = random_crop_schema,
    STK__IMAGE_CALLBACKS,
};
