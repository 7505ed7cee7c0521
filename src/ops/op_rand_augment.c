/* rand_augment: a few random changes of a given strength (RandAugment). */
#include "ops/auto_augment.h"

typedef struct {
    stk__augment_state shared;
    int64_t ops, magnitude;
} rand_augment_state;

static const stk__augment_space usual = {
    .shear = 0.3, .translate = 150.0 / 331, .translate_share = true, .degrees = 30, .factor = 0.9, .bits = 4};

static stk_status rand_augment_draw(const stk_call *call, const stk_sample *sample, const stk__image_size *in,
                                    stk__act *out, stk_error *err)
{
    const rand_augment_state *s = call->state;
    stk_random r = stk_random_begin(call, sample);
    STK_TRY(stk__augment_begin(call, in, out, err));
    for (int64_t i = 0; i < s->ops; i++)
        stk__augment_draw(&usual, &r, (int)s->magnitude, in, out);
    return STK_OK;
}

static stk_status rand_augment_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    rand_augment_state *s = state;
    return stk__augment_plan(plan, host, &s->shared, rand_augment_draw, err);
}

static const stk_option rand_augment_options[] = {
    {.name = "field",
     .kind = STK_OPTION_FIELD,
     .required = true,
     .offset = STK_FIELD_OFFSET(rand_augment_state, shared.field, const char *),
     .help = "uint8 images"},
    STK_INT(rand_augment_state, ops, 2, 1, STK__AUGMENT_MAX, "how many changes each image gets"),
    STK_INT(rand_augment_state, magnitude, 9, 0, STK__AUGMENT_BINS - 1, "how strong they are"),
    {.name = "filter",
     .kind = STK_OPTION_ENUM,
     .offset = STK_FIELD_OFFSET(rand_augment_state, shared.filter, int64_t),
     .choices = stk__augment_filters,
     .help = "how pixels are mixed by shears, shifts and turns"},
    {.name = "fill",
     .kind = STK_OPTION_FLOAT,
     .offset = STK_FIELD_OFFSET(rand_augment_state, shared.fill, double),
     .min_number = 0,
     .max_number = 255,
     .help = "value of pixels that come from outside"},
    STK_OPTION_END,
};

const stk_op stk__op_rand_augment = {
    .abi = STK_OP_ABI,
    .name = "rand_augment",
    .group = "image",
    .since = "0.1",
    .summary = "Make a few of 14 changes to each image, all of the same strength (RandAugment).",
    .example = "image_folder(\"d/photos\") | decode_image(image) | rand_augment(image, ops=2, magnitude=9)",
    .options = rand_augment_options,
    .state_size = sizeof(rand_augment_state),
    .flags = STK_OP_RANDOM,
    .schema = rand_augment_schema,
    STK__IMAGE_CALLBACKS,
};
