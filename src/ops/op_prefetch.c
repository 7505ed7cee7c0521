/* prefetch: set how many finished batches may wait for the consumer. */
#include "engine/op.h"

static const stk_option prefetch_options[] = {
    STK_INT(stk__prefetch_state, batches, 0, 0, 253, "batches ready ahead of the consumer; 0: as the budget allows"),
    STK_OPTION_END,
};

const stk_op stk__op_prefetch = {
    .abi = STK_OP_ABI,
    .name = "prefetch",
    .group = "batch",
    .since = "0.1",
    .summary = "Set how many finished batches may wait for the consumer.",
    .example = "range(10) | batch(4) | prefetch(2)",
    .options = prefetch_options,
    .state_size = sizeof(stk__prefetch_state),
    .role = STK_ROLE_PREFETCH,
};
