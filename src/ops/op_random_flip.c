/* random_flip: mirror images at random. */
#include "ops/image_op.h"

enum { HORIZONTAL, VERTICAL, BOTH };

typedef struct {
    stk__image_op op;
    const char *field;
    int64_t direction;
    double p;
} random_flip_state;

static stk_status random_flip_draw(const stk_call *call, const stk_sample *sample, const stk__image_size *in, stk__act *out,
                                   stk_error *err)
{
    const random_flip_state *s = call->state;
    stk_random r = stk_random_begin(call, sample);
    const bool first = stk__random_chance(&r, s->p), second = stk__random_chance(&r, s->p);
    out->kind = STK__ACT_FLIP;
    out->as.flip.x = s->direction != VERTICAL && first;
    out->as.flip.y = (s->direction == VERTICAL && first) || (s->direction == BOTH && second);
    return STK_OK;
}

static stk_status random_flip_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    random_flip_state *s = state;
    STK_TRY(stk__image_plan_read(plan, host, &s->op, s->field, STK__TAKES_ANY, err));
    s->op.kind = STK__ACT_FLIP;
    s->op.draw = random_flip_draw;
    return stk__image_plan_write(plan, host, &s->op, err);
}

static const char *const directions[] = {"horizontal", "vertical", "both", NULL};

static const stk_option random_flip_options[] = {
    STK_FIELD(random_flip_state, field, "images"),
    STK_ENUM(random_flip_state, direction, HORIZONTAL, directions, "left-right, up-down, or each of them on its own"),
    STK_NUMBER(random_flip_state, p, 0.5, 0, 1, "how probable it is"),
    STK_OPTION_END,
};

const stk_op stk__op_random_flip = {
    .abi = STK_OP_ABI,
    .name = "random_flip",
    .group = "image",
    .since = "0.1",
    .summary = "Mirror images at random.",
    .example = "image_folder(\"d/photos\") | decode_image(image) | random_flip(image)",
    .options = random_flip_options,
    .state_size = sizeof(random_flip_state),
    .flags = STK_OP_RANDOM,
    .schema = random_flip_schema,
    STK__IMAGE_CALLBACKS,
};
