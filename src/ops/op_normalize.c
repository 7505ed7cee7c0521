/* normalize: subtract the mean, divide by the deviation, channel by channel. */
#include "base/str.h"
#include "ops/image_op.h"

typedef struct {
    stk__image_op op;
    const char *field;
    stk_numbers mean, std;
    double scale;
    float factor[STK__CHANNELS_MAX], bias[STK__CHANNELS_MAX];
} normalize_state;

#define BRIGHTEST 255.0 /* of uint8 */

static stk_status normalize_draw(const stk_call *call, const stk_sample *sample, const stk__image_size *in, stk__act *out,
                                 stk_error *err)
{
    const normalize_state *s = call->state;
    out->kind = STK__ACT_NORMALIZE;
    out->as.normalize.scale = s->factor;
    out->as.normalize.bias = s->bias;
    return STK_OK;
}

/* The number of a channel: one stands for all of them. */
static double number_of(const stk_numbers *given, size_t channel, double fallback)
{
    return given->count ? given->items[given->count > 1 ? channel : 0] : fallback;
}

static void put_numbers(stk__text *out, const char *name, const stk_numbers *given, double fallback)
{
    stk__text_printf(out, "%s=%s", name, given->count > 1 ? "[" : "");
    for (size_t i = 0; i < STK_MAX(given->count, (size_t)1); i++)
        stk__text_printf(out, "%s%.7g", i ? ", " : "", number_of(given, i, fallback) * BRIGHTEST);
    stk__text_puts(out, given->count > 1 ? "]" : "");
}

/* Means and deviations of pixels of 0 to 1, as other libraries have them, would make hundreds of 0 to 255. */
static stk_status check_units(const normalize_state *s, const stk_host *host, size_t channels, stk_error *err)
{
    bool unit = true, identity = true;
    for (size_t c = 0; c < channels; c++) {
        const double mean = number_of(&s->mean, c, 0), std = number_of(&s->std, c, 1);
        unit = unit && mean >= 0 && mean <= 1 && std <= 1;
        identity = identity && mean == 0 && std == 1;
        if (s->scale != 1 && mean * s->scale > BRIGHTEST)
            return host->fail(err, STK_INVALID, "mean is %g with scale=%g, but pixels of uint8 go up to 255: leave scale out, "
                              "or give the mean for pixels of 0 to %g", mean, s->scale, BRIGHTEST / s->scale);
    }
    if (!unit || identity || s->scale != 1)
        return STK_OK;
    stk__text numbers = STK__TEXT_INIT;
    put_numbers(&numbers, "mean", &s->mean, 0);
    stk__text_puts(&numbers, ", ");
    put_numbers(&numbers, "std", &s->std, 1);
    host->fail(err, STK_INVALID, "mean and std are those of pixels of 0 to 1, but field '%s' is uint8, 0 to 255: add scale=255, "
               "or say %s", s->field, numbers.data ? numbers.data : "them times 255");
    stk__text_clear(&numbers);
    return STK_INVALID;
}

static stk_status read_numbers(normalize_state *s, const stk_host *host, size_t channels, stk_error *err)
{
    const stk_numbers *given[2] = {&s->mean, &s->std};
    for (int i = 0; i < 2; i++)
        if (given[i]->count > 1 && given[i]->count != channels)
            return host->fail(err, STK_INVALID, "%s has %zu numbers, wanted 1 or %zu, one for each channel of '%s'",
                              i ? "std" : "mean", given[i]->count, channels, s->field);
    for (size_t c = 0; c < channels; c++) {
        const double mean = number_of(&s->mean, c, 0) * s->scale, std = number_of(&s->std, c, 1) * s->scale;
        if (!(std > 0))
            return host->fail(err, STK_INVALID, "std is %g, wanted more than 0", std);
        s->factor[c] = (float)(1 / std);
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
    if (s->op.from.dtype == STK_UINT8)
        STK_TRY(check_units(s, host, (size_t)s->op.from.shape[2], err));
    s->op.kind = STK__ACT_NORMALIZE;
    s->op.draw = normalize_draw;
    s->op.to.dtype = STK_FLOAT32;
    return stk__image_plan_write(plan, host, &s->op, err);
}

static const stk_option normalize_options[] = {
    STK_FIELD(normalize_state, field, "uint8 or float32 images"),
    STK_NUMBERS(normalize_state, mean, "what is subtracted, in units of the pixels (0 to 255 for uint8): one number, or one for each channel"),
    STK_NUMBERS(normalize_state, std, "what the rest is divided by, likewise"),
    STK_NUMBER(normalize_state, scale, 1, 1e-30, 1e30, "mean and std are times this: 255 for those of pixels of 0 to 1"),
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
