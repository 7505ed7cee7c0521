/* normalize: subtract the mean, divide by the deviation, channel by channel. */
#include "ops/image_op.h"

typedef struct {
    stk__image_op op;
    const char *field;
    stk_numbers mean, std;
    float scale[STK__CHANNELS_MAX], bias[STK__CHANNELS_MAX];
} normalize_state;

static stk_status normalize_draw(const stk_call *call, const stk_sample *sample, const stk__image_size *in, stk__act *out,
                                 stk_error *err)
{
    const normalize_state *s = call->state;
    out->kind = STK__ACT_NORMALIZE;
    out->as.normalize.scale = s->scale;
    out->as.normalize.bias = s->bias;
    return STK_OK;
}

static stk_status read_numbers(normalize_state *s, const stk_host *host, size_t channels, stk_error *err)
{
    const stk_numbers *given[2] = {&s->mean, &s->std};
    for (int i = 0; i < 2; i++)
        if (given[i]->count > 1 && given[i]->count != channels)
            return host->fail(err, STK_INVALID, "%s has %zu numbers, wanted 1 or %zu, one for each channel of '%s'",
                              i ? "std" : "mean", given[i]->count, channels, s->field);
    for (size_t c = 0; c < channels; c++) {
        const double mean = s->mean.count ? s->mean.items[s->mean.count > 1 ? c : 0] : 0;
        const double std = s->std.count ? s->std.items[s->std.count > 1 ? c : 0] : 1;
        if (!(std > 0))
            return host->fail(err, STK_INVALID, "std is %g, wanted more than 0", std);
        s->scale[c] = (float)(1 / std);
        s->bias[c] = (float)(-mean / std);
    }
    return STK_OK;
}

static stk_status normalize_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    normalize_state *s = state;
    STK_TRY(stk__image_plan_read(plan, host, &s->op, s->field, STK__TAKES_ANY, err));
    STK_TRY(read_numbers(s, host, (size_t)s->op.from.shape[2], err));
    if (s->op.from.dtype != STK_UINT8 && s->op.from.dtype != STK_FLOAT32)
        return host->fail(err, STK_INVALID, "field '%s' is %s, wanted uint8 or float32; cast it to float32 before this", s->field,
                          stk_dtype_name(s->op.from.dtype));
    s->op.kind = STK__ACT_NORMALIZE;
    s->op.draw = normalize_draw;
    s->op.to.dtype = STK_FLOAT32;
    return stk__image_plan_write(plan, host, &s->op, err);
}

static const stk_option normalize_options[] = {
    STK_FIELD(normalize_state, field, "uint8 or float32 images"),
    STK_NUMBERS(normalize_state, mean, "what is subtracted, in units of the pixels (0 to 255 for uint8): one number, or one for each channel"),
    STK_NUMBERS(normalize_state, std, "what the rest is divided by, likewise"),
    STK_OPTION_END,
};

const stk_op stk__op_normalize = {
    .abi = STK_OP_ABI,
    .name = "normalize",
    .group = "image",
    .since = "0.1",
    .summary = "Make float32 of images: (pixel - mean) / std, channel by channel.",
    .example = "image_folder(\"d/photos\") | decode_image(image) | normalize(image, mean=[125.3, 123.0, 113.9], std=[63.0, 62.1, 66.7])",
    .options = normalize_options,
    .state_size = sizeof(normalize_state),
    .schema = normalize_schema,
    STK__IMAGE_CALLBACKS,
};
