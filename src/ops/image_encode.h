/* What encode_png and encode_jpeg share. */
#ifndef STK_OPS_IMAGE_ENCODE_H
#define STK_OPS_IMAGE_ENCODE_H

#include "ops/image_op.h"

/* Reads field `name`, which must hold uint8 images, and makes it bytes. `op->from` has the channels. */
stk_status stk__encode_plan(stk_plan *plan, const stk_host *host, stk__image_op *op, const char *name,
                            stk__image_takes takes, stk_error *err);

typedef size_t (*stk__encode_bound)(int32_t width, int32_t height, int32_t pixel_bytes);
/* Encodes `in` as the op's state says; `out` has the bytes of the bound. */
typedef stk_status (*stk__encode_image)(const void *state, stk__image_decoder *codec, const stk__pixels *in,
                                        uint8_t *out, size_t *out_size, stk_error *err);

/* For process of an op whose state starts with a stk__image_op, and whose workers are stk__image_worker_open's. */
stk_status stk__encode_sample(const stk_call *call, stk_sample *sample, stk__encode_bound bound,
                              stk__encode_image encode, stk_error *err);

#endif
