/* random_erasing: paint over a rectangle of random size and shape. */
#include <math.h>

#include "ops/image_op.h"

typedef struct {
    stk__image_op op;
    const char *field;
    double p;
    stk_numbers scale, ratio;
    double fill;
    double scale_low, scale_high, log_low, log_high;
} random_erasing_state;

/* Area and ratio (height by width) at random, up to ten times, as torchvision does; where none fits, nothing is painted. */
static stk_status random_erasing_draw(const stk_call *call, const stk_sample *sample, const stk__image_size *in,
                                      stk__act *out, stk_error *err)
{
    const random_erasing_state *s = call->state;
    const double area = (double)in->width * in->height;
    stk_random r = stk_random_begin(call, sample);
    if (!stk__random_chance(&r, s->p))
        return STK_OK;
    for (int attempt = 0; attempt < 10; attempt++) {
        const double target = area * stk__random_between(&r, s->scale_low, s->scale_high);
        const double ratio = exp(stk__random_between(&r, s->log_low, s->log_high));
        const double height = rint(sqrt(target * ratio)), width = rint(sqrt(target / ratio));
        if (!(height < in->height && width < in->width))
            continue;
        out->kind = STK__ACT_ERASE;
        out->as.erase.height = (int32_t)height;
        out->as.erase.width = (int32_t)width;
        out->as.erase.y = stk__random_below(&r, in->height - (int32_t)height + 1);
        out->as.erase.x = stk__random_below(&r, in->width - (int32_t)width + 1);
        out->as.erase.fill = s->fill;
        return STK_OK;
    }
    return STK_OK;
}

/* A pair "low, high" of numbers, from `least` up to `most`. */
static stk_status read_range(const stk_host *host, const char *name, const stk_numbers *given, double least,
                             double most, double *low, double *high, stk_error *err)
{
    if (given->count == 0)
        return STK_OK;
    if (given->count != 2 || !(given->items[0] >= least) || !(given->items[0] <= given->items[1]) ||
        !(given->items[1] <= most))
        return host->fail(err, STK_INVALID,
                          "%s has %zu numbers from %g to %g, wanted [low, high] with %g <= low <= high <= %g", name,
                          given->count, given->items[0], given->items[given->count - 1], least, most);
    *low = given->items[0];
    *high = given->items[1];
    return STK_OK;
}

static stk_status random_erasing_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    random_erasing_state *s = state;
    double ratio_low = 0.3, ratio_high = 3.3;
    s->scale_low = 0.02;
    s->scale_high = 0.33;
    STK_TRY(read_range(host, "scale", &s->scale, 0, 1, &s->scale_low, &s->scale_high, err));
    STK_TRY(read_range(host, "ratio", &s->ratio, 0.001, 1000, &ratio_low, &ratio_high, err));
    s->log_low = log(ratio_low);
    s->log_high = log(ratio_high);
    STK_TRY(stk__image_plan_read(plan, host, &s->op, s->field, STK__TAKES_ANY, err));
    s->op.kind = STK__ACT_ERASE;
    s->op.draw = random_erasing_draw;
    return stk__image_plan_write(plan, host, &s->op, err);
}

static const stk_option random_erasing_options[] = {
    STK_FIELD(random_erasing_state, field, "images"),
    STK_NUMBER(random_erasing_state, p, 0.5, 0, 1, "how probable it is"),
    STK_NUMBERS(random_erasing_state, scale, "[low, high] of the rectangle's share of the area; default [0.02, 0.33]"),
    STK_NUMBERS(random_erasing_state, ratio, "[low, high] of its height by width; default [0.3, 3.3]"),
    STK_NUMBER(random_erasing_state, fill, 0, -1e30, 1e30, "what it is painted with; 0 after normalize is the mean"),
    STK_OPTION_END,
};

const stk_op stk__op_random_erasing = {
    .abi = STK_OP_ABI,
    .name = "random_erasing",
    .group = "image",
    .since = "0.1",
    .summary = "Paint over a rectangle of random size, shape and place, at random.",
    .example =
        "image_folder(\"d/photos\") | decode_image(image) | normalize(image, 128, 64) | random_erasing(image, p=0.25)",
    .options = random_erasing_options,
    .state_size = sizeof(random_erasing_state),
    .flags = STK_OP_RANDOM,
    .schema = random_erasing_schema,
    STK__IMAGE_CALLBACKS,
};
