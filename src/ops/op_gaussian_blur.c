/* gaussian_blur: blur images by a random amount. */
#include "kernels/blur.h"
#include "ops/image_op.h"

typedef struct {
    stk__image_op op;
    const char *field;
    int64_t size;
    stk_numbers sigma;
    double p;
    double low, high;
} gaussian_blur_state;

static stk_status blur(const stk__act *act, stk__image_work *work, stk_error *err)
{
    const gaussian_blur_state *s = act->state;
    const stk__pixels *image = stk__work_image(work);
    const int32_t size = (int32_t)s->size;
    void *scratch = stk__work_scratch(work, stk__blur_scratch(image->width, image->height, image->channels, size), err);
    if (!scratch)
        return err->status;
    stk__blur_gauss(image, image, size, act->as.pixels.numbers[0], scratch);
    return STK_OK;
}

static stk_status gaussian_blur_draw(const stk_call *call, const stk_sample *sample, const stk__image_size *in,
                                     stk__act *out, stk_error *err)
{
    const gaussian_blur_state *s = call->state;
    stk_random r = stk_random_begin(call, sample);
    if (!stk__random_chance(&r, s->p))
        return STK_OK;
    out->kind = STK__ACT_PIXELS;
    out->as.pixels.apply = blur;
    out->as.pixels.numbers[0] = stk__random_between(&r, s->low, s->high);
    return STK_OK;
}

static stk_status read_sigma(gaussian_blur_state *s, const stk_host *host, stk_error *err)
{
    const stk_numbers *given = &s->sigma;
    s->low = given->count ? given->items[0] : 0.1;
    s->high = given->count ? given->items[given->count - 1] : 2;
    if (given->count > 2 || !(s->low > 0) || !(s->low <= s->high) || !(s->high <= 1000))
        return host->fail(err, STK_INVALID,
                          "sigma has %zu numbers from %g to %g, wanted [low, high] with 0 < low <= high <= 1000",
                          given->count, s->low, s->high);
    return STK_OK;
}

static stk_status gaussian_blur_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    gaussian_blur_state *s = state;
    STK_TRY(read_sigma(s, host, err));
    if (s->size % 2 == 0)
        return host->fail(err, STK_INVALID, "size is %lld, wanted an odd number", (long long)s->size);
    STK_TRY(stk__image_plan_read(plan, host, &s->op, s->field, STK__TAKES_COLORS, err));
    s->op.kind = STK__ACT_PIXELS;
    s->op.draw = gaussian_blur_draw;
    return stk__image_plan_write(plan, host, &s->op, err);
}

static const stk_option gaussian_blur_options[] = {
    STK_FIELD(gaussian_blur_state, field, "uint8 images"),
    STK_INT_REQUIRED(gaussian_blur_state, size, 1, STK__BLUR_SIZE_MAX, "pixels across that are mixed, an odd number"),
    STK_NUMBERS(gaussian_blur_state, sigma, "[low, high] of the deviation in pixels, or one number; default [0.1, 2]"),
    STK_NUMBER(gaussian_blur_state, p, 1, 0, 1, "how probable it is"),
    STK_OPTION_END,
};

const stk_op stk__op_gaussian_blur = {
    .abi = STK_OP_ABI,
    .name = "gaussian_blur",
    .group = "image",
    .since = "0.1",
    .summary = "Blur images by a random amount.",
    .example = "image_folder(\"d/photos\") | decode_image(image) | gaussian_blur(image, 5, sigma=[0.1, 2.0])",
    .options = gaussian_blur_options,
    .state_size = sizeof(gaussian_blur_state),
    .flags = STK_OP_RANDOM,
    .schema = gaussian_blur_schema,
    STK__IMAGE_CALLBACKS,
};
