/* trivial_augment: one random change of random strength (TrivialAugment Wide). */
#include "ops/auto_augment.h"

static const stk__augment_space wide = {.shear = 0.99, .translate = 32, .degrees = 135, .factor = 0.99, .bits = 6};

static stk_status trivial_augment_draw(const stk_call *call, const stk_sample *sample, const stk__image_size *in,
                                       stk__act *out, stk_error *err)
{
    stk_random r = stk_random_begin(call, sample);
    STK_TRY(stk__augment_begin(call, in, out, err));
    stk__augment_draw(&wide, &r, -1, in, out);
    return STK_OK;
}

static stk_status trivial_augment_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    return stk__augment_plan(plan, host, state, trivial_augment_draw, err);
}

static const stk_option trivial_augment_options[] = {
    STK_FIELD(stk__augment_state, field, "uint8 images"),
    STK_ENUM(stk__augment_state, filter, 0, stk__augment_filters, "how pixels are mixed by shears, shifts and turns"),
    STK_NUMBER(stk__augment_state, fill, 0, 0, 255, "value of pixels that come from outside"),
    STK_OPTION_END,
};

const stk_op stk__op_trivial_augment = {
    .abi = STK_OP_ABI,
    .name = "trivial_augment",
    .group = "image",
    .since = "0.1",
    .summary = "Make one of 14 changes to each image, of random strength (TrivialAugment Wide).",
    .example = "image_folder(\"d/photos\") | decode_image(image) | trivial_augment(image)",
    .options = trivial_augment_options,
    .state_size = sizeof(stk__augment_state),
    .flags = STK_OP_RANDOM,
    .schema = trivial_augment_schema,
    STK__IMAGE_CALLBACKS,
};
