/* mixup: blend every image and label of a batch with the one before it. */
#include <math.h>

#include "kernels/convert.h"
#include "ops/batch_mix.h"

#define HALVES 256 /* that are converted at a time */

typedef struct {
    stk_dtype dtype;
    size_t count;
    uint32_t weight; /* of STK__MIX_ONE, so that images and labels have exactly the same */
} image_mix;

static void mix_halves(uint16_t *row, const uint16_t *partner, const image_mix *m)
{
    float a[HALVES], b[HALVES];
    for (size_t i = 0; i < m->count; i += HALVES) {
        const size_t n = STK_MIN(m->count - i, (size_t)HALVES);
        stk__convert(a, STK_FLOAT32, row + i, m->dtype, n);
        stk__convert(b, STK_FLOAT32, partner + i, m->dtype, n);
        stk__mix_floats(a, b, n, (float)m->weight / STK__MIX_ONE);
        stk__convert(row + i, m->dtype, a, STK_FLOAT32, n);
    }
}

static void mix_image(const void *arg, void *row, const void *partner)
{
    const image_mix *m = arg;
    if (m->dtype == STK_UINT8)
        stk__mix_bytes(row, partner, m->count, m->weight);
    else if (m->dtype == STK_FLOAT32)
        stk__mix_floats(row, partner, m->count, (float)m->weight / STK__MIX_ONE);
    else
        mix_halves(row, partner, m);
}

static stk_status mixup_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    stk__mix_state *s = state;
    STK_TRY(stk__mix_plan(plan, host, s, err));
    if (s->classes)
        return host->fail(err, STK_INVALID, "field '%s' has the numbers of classes, which this would mix; cutmix does not",
                          s->image);
    const stk_dtype dtype = s->image_field.dtype;
    if (dtype != STK_UINT8 && dtype != STK_FLOAT32 && dtype != STK_FLOAT16 && dtype != STK_BFLOAT16)
        return host->fail(err, STK_INVALID, "field '%s' is %s, wanted uint8, float32, float16 or bfloat16", s->image,
                          stk_dtype_name(dtype));
    return STK_OK;
}

static stk_status mixup_rows(const stk_call *call, const stk_batch *batch, const stk_sample *at, stk_error *err)
{
    const stk__mix_state *s = call->state;
    stk_random r = stk_random_begin(call, at);
    if (!((double)stk_random_float(&r) < s->p))
        return STK_OK;
    const stk_dtype dtype = s->image_field.dtype;
    const image_mix m = {dtype, s->image_bytes / stk_dtype_size(dtype),
                         (uint32_t)lround(stk__mix_beta(&r, s->alpha) * STK__MIX_ONE)};
    STK_TRY(stk__mix_images(call, batch, mix_image, &m, err));
    return stk__mix_labels(call, batch, (float)m.weight / STK__MIX_ONE, err);
}

static const stk_option mixup_options[] = {
    STK_FIELD(stk__mix_state, image, "uint8 or float images, all of one size"),
    STK_FIELD(stk__mix_state, label, "float32 labels, as one_hot makes them"),
    STK_NUMBER(stk__mix_state, alpha, 1, 0.001, 1000,
               "the weight is drawn from Beta(alpha, alpha), one for each batch"),
    STK_NUMBER(stk__mix_state, p, 1, 0, 1, "how probable it is for a batch"),
    STK_OPTION_END,
};

const stk_op stk__op_mixup = {
    .abi = STK_OP_ABI,
    .name = "mixup",
    .group = "batch",
    .since = "0.1",
    .summary = "Blend every image and label of a batch with the one before it, by a random weight.",
    .example =
        "image_folder(\"d/photos\") | shuffle | decode_image(image) | resize(image, 24, 24) | one_hot(label, 3) | "
        "batch(4) | mixup(image, label)",
    .options = mixup_options,
    .state_size = sizeof(stk__mix_state),
    .role = STK_ROLE_ROWS,
    .flags = STK_OP_RANDOM,
    .schema = mixup_schema,
    .worker_open = stk__mix_worker_open,
    .worker_close = stk__mix_worker_close,
    .process_rows = mixup_rows,
};
