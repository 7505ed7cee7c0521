/* encode_jpeg: turn pixels into JPEG files. */
#include "ops/image_encode.h"

typedef struct {
    stk__image_op op;
    const char *field;
    int64_t quality, subsampling;
} encode_jpeg_state;

static stk_status encode_jpeg_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    encode_jpeg_state *s = state;
    if (s->subsampling != 420 && s->subsampling != 422 && s->subsampling != 444)
        return host->fail(err, STK_INVALID, "subsampling is %lld, wanted 420, 422 or 444", (long long)s->subsampling);
    STK_TRY(stk__encode_plan(plan, host, &s->op, s->field, STK__TAKES_COLORS, err));
    const int64_t channels = s->op.from.shape[2];
    if (channels != 1 && channels != 3)
        return host->fail(err, STK_INVALID, "field '%s' has %lld channels, wanted 1 or 3: JPEG has no alpha", s->field,
                          (long long)channels);
    return STK_OK;
}

static stk_status encode(const void *state, stk__image_decoder *codec, const stk__pixels *in, uint8_t *out,
                         size_t *out_size, stk_error *err)
{
    const encode_jpeg_state *s = state;
    return stk__jpeg_encode(codec, in, (int)s->quality, (int)s->subsampling, out, out_size, err);
}

static stk_status encode_jpeg_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    return stk__encode_sample(call, sample, stk__jpeg_bound, encode, err);
}

static const stk_option encode_jpeg_options[] = {
    STK_FIELD(encode_jpeg_state, field, "uint8 images of 1 or 3 channels"),
    STK_INT(encode_jpeg_state, quality, 90, 1, 100, "as libjpeg counts it"),
    STK_INT(encode_jpeg_state, subsampling, 420, 420, 444,
            "how colours are kept: 420 at half width and height, 422 at half width, 444 in full"),
    STK_OPTION_END,
};

const stk_op stk__op_encode_jpeg = {
    .abi = STK_OP_ABI,
    .name = "encode_jpeg",
    .group = "image",
    .since = "0.1",
    .summary = "Encode uint8 images as JPEG; the field becomes bytes.",
    .example =
        "image_folder(\"d/photos\") | decode_image(image) | resize(image, 32, 32) | encode_jpeg(image, quality=85) | batch(2)",
    .options = encode_jpeg_options,
    .state_size = sizeof(encode_jpeg_state),
    .schema = encode_jpeg_schema,
    .worker_open = stk__image_worker_open,
    .worker_close = stk__image_worker_close,
    .trim = stk__image_worker_trim,
    .process = encode_jpeg_process,
};
