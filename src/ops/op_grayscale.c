/* grayscale: take the colours out of images. */
#include "kernels/color.h"
#include "ops/image_op.h"

typedef struct {
    stk__image_op op;
    const char *field;
    int64_t channels;
    double p;
} grayscale_state;

static stk_status gray_channels(const stk__act *act, stk__image_work *work, stk_error *err)
{
    stk__color_gray(stk__work_image(work));
    return STK_OK;
}

static stk_status one_channel(const stk__act *act, stk__image_work *work, stk_error *err)
{
    stk__pixels *image = stk__work_image(work), gray;
    STK_TRY(stk__work_other(work, image->width, image->height, 1, &gray, err));
    const int32_t step = image->channels;
    for (int32_t y = 0; y < gray.height; y++) {
        const uint8_t *restrict in = stk__pixel_row(image, y);
        uint8_t *restrict out = stk__pixel_row(&gray, y);
        for (int32_t x = 0; x < gray.width; x++, in += step)
            out[x] = stk__luma(in[0], in[1], in[2]);
    }
    *image = gray;
    return STK_OK;
}

static stk_status grayscale_draw(const stk_call *call, const stk_sample *sample, const stk__image_size *in,
                                 stk__act *out, stk_error *err)
{
    const grayscale_state *s = call->state;
    stk_random r = stk_random_begin(call, sample);
    if (!stk__random_chance(&r, s->p))
        return STK_OK;
    out->kind = STK__ACT_PIXELS;
    out->as.pixels.apply = s->channels == 1 ? one_channel : gray_channels;
    return STK_OK;
}

static stk_status grayscale_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    grayscale_state *s = state;
    STK_TRY(stk__image_plan_read(plan, host, &s->op, s->field, STK__TAKES_COLORS, err));
    if (s->op.from.shape[2] < 3)
        return host->fail(err, STK_INVALID, "field '%s' has %lld channels, wanted 3 or 4", s->field,
                          (long long)s->op.from.shape[2]);
    if (s->channels == 2)
        return host->fail(err, STK_INVALID, "channels is 2, wanted 1 or 3");
    if (s->channels == 1 && s->p < 1)
        return host->fail(err, STK_INVALID,
                          "channels=1 with p=%g: all images must have as many channels; leave p at 1, or "
                          "channels at 3",
                          s->p);
    s->op.kind = STK__ACT_PIXELS;
    s->op.draw = grayscale_draw;
    if (s->channels == 1)
        s->op.to.shape[2] = 1;
    return stk__image_plan_write(plan, host, &s->op, err);
}

static const stk_option grayscale_options[] = {
    STK_FIELD(grayscale_state, field, "uint8 images of 3 or 4 channels"),
    STK_INT(grayscale_state, channels, 3, 1, 3,
            "3: red, green and blue become the same, alpha stays; 1: a single channel is left"),
    STK_NUMBER(grayscale_state, p, 1, 0, 1, "how probable it is"),
    STK_OPTION_END,
};

const stk_op stk__op_grayscale = {
    .abi = STK_OP_ABI,
    .name = "grayscale",
    .group = "image",
    .since = "0.1",
    .summary = "Take the colours out of images, always or at random.",
    .example = "image_folder(\"d/photos\") | decode_image(image) | grayscale(image, p=0.2)",
    .options = grayscale_options,
    .state_size = sizeof(grayscale_state),
    .flags = STK_OP_RANDOM,
    .schema = grayscale_schema,
    STK__IMAGE_CALLBACKS,
};
