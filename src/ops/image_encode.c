/* What encode_png and encode_jpeg share: from the pixels of a sample to the bytes of a file. */
#include "ops/image_encode.h"

stk_status stk__encode_plan(stk_plan *plan, const stk_host *host, stk__image_op *op, const char *name,
                            stk__image_takes takes, stk_error *err)
{
    STK_TRY(stk__image_plan_read(plan, host, op, name, takes, err));
    op->classes = false; /* of pictures no more */
    op->to = (stk_field){.name = name, .dtype = STK_BYTES};
    return stk__image_plan_write(plan, host, op, err);
}

stk_status stk__encode_sample(const stk_call *call, stk_sample *sample, stk__encode_bound bound,
                              stk__encode_image encode, stk_error *err)
{
    const stk__image_op *op = call->state;
    const stk_value *value = &sample->values[op->in];
    const int64_t height = value->shape[0], width = value->shape[1], channels = op->from.shape[2];
    const int64_t element = (int64_t)stk_dtype_size(op->from.dtype);
    const bool fits = height >= 1 && width >= 1 && height <= INT32_MAX / 16 && width <= INT32_MAX / 16;
    const size_t most = fits ? bound((int32_t)width, (int32_t)height, (int32_t)(channels * element)) : 0;
    if (most == 0)
        return call->host->fail(err, STK_CORRUPT, "image of %lld x %lld pixels, which is empty or too large to encode",
                                (long long)width, (long long)height);
    const stk__pixels in = {value->data, (int32_t)width, (int32_t)height, (int32_t)channels, (int32_t)element,
                            (ptrdiff_t)(width * channels * element)};
    stk__image_decoder *codec;
    STK_TRY(stk__image_worker_decoder(call, &codec, err));
    /* The bound is far too large for the batch, so the bytes go there as a copy. */
    uint8_t *out = stk_scratch(call, most, err);
    size_t size = 0;
    if (!out)
        return err->status;
    STK_TRY(encode(call->state, codec, &in, out, &size, err));
    stk_set_bytes(call, sample, op->out, out, (int64_t)size, false);
    return STK_OK;
}
