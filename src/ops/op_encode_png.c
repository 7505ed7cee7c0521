/* encode_png: turn pixels into PNG files. */
#include "ops/image_encode.h"

typedef struct {
    stk__image_op op;
    const char *field;
    int64_t level;
} encode_png_state;

static stk_status encode_png_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    encode_png_state *s = state;
    return stk__encode_plan(plan, host, &s->op, s->field, STK__TAKES_UINT16, err);
}

static stk_status encode(const void *state, stk__image_decoder *codec, const stk__pixels *in, uint8_t *out,
                         size_t *out_size, stk_error *err)
{
    const encode_png_state *s = state;
    return stk__png_encode(codec, in, (int)s->level, out, out_size, err);
}

static stk_status encode_png_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    return stk__encode_sample(call, sample, stk__png_bound, encode, err);
}

static const stk_option encode_png_options[] = {
    STK_FIELD(encode_png_state, field, "uint8 or uint16 images"),
    STK_INT(encode_png_state, level, 6, 0, 12, "0 is fastest and stores only, 12 is smallest"),
    STK_OPTION_END,
};

const stk_op stk__op_encode_png = {
    .abi = STK_OP_ABI,
    .name = "encode_png",
    .group = "image",
    .since = "0.1",
    .summary = "Encode images as PNG; the field becomes bytes.",
    .example =
        "image_folder(\"d/photos\") | decode_image(image) | resize(image, 32, 32) | encode_png(image) | batch(2)",
    .options = encode_png_options,
    .state_size = sizeof(encode_png_state),
    .schema = encode_png_schema,
    .worker_open = stk__image_worker_open,
    .worker_close = stk__image_worker_close,
    .trim = stk__image_worker_trim,
    .process = encode_png_process,
};
