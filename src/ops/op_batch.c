/* batch: stack samples into batches. */
#include "engine/op.h"

static stk_status batch_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    const stk__batch_state *s = state;
    if (s->pad_value != 0 && !s->pad)
        return host->fail(err, STK_INVALID, "pad_value is %g, but pad is false", s->pad_value);
    return STK_OK;
}

static const stk_option batch_options[] = {
    STK_INT_REQUIRED(stk__batch_state, size, 1, (int64_t)1 << 24, "samples in a batch"),
    STK_BOOL_OPTION(stk__batch_state, drop_last, false, "leave out a last batch that is not full"),
    STK_BOOL_OPTION(stk__batch_state, pad, false, "pad fields of varying shape to the largest in the batch; else they are ragged"),
    STK_NUMBER(stk__batch_state, pad_value, 0, -1e300, 1e300, "what to pad numbers with"),
    STK_OPTION_END,
};

const stk_op stk__op_batch = {
    .abi = STK_OP_ABI,
    .name = "batch",
    .group = "batch",
    .since = "0.1",
    .summary = "Stack samples into batches, in order.",
    .example = "range(10) | batch(4)",
    .options = batch_options,
    .state_size = sizeof(stk__batch_state),
    .role = STK_ROLE_BATCH,
    .schema = batch_schema,
};
