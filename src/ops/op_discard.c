/* discard: take batches and do nothing with them. */
#include "engine/op.h"

static stk_status discard_consume(const stk_call *call, const stk_batch *batch, stk_error *err)
{
    return STK_OK;
}

static const stk_option discard_options[] = {STK_OPTION_END};

const stk_op stk__op_discard = {
    .abi = STK_OP_ABI,
    .name = "discard",
    .group = "sink",
    .since = "0.1",
    .summary = "Take batches and do nothing with them: for timing what comes before.",
    .example = "range(10) | discard",
    .options = discard_options,
    .role = STK_ROLE_SINK,
    .consume = discard_consume,
};
