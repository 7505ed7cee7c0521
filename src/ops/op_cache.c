/* cache: keep samples as they are here, so that later epochs need not make them again. */
#include "engine/op.h"

static const stk_option cache_options[] = {
    STK_STRING(stk__cache_state, path, NULL, "file to keep them in, also for later runs; without it, memory"),
    STK_SIZE(stk__cache_state, memory, 0, 0, INT64_MAX, "bytes in memory at most; 0: half the budget"),
    STK_OPTION_END,
};

const stk_op stk__op_cache = {
    .abi = STK_OP_ABI,
    .name = "cache",
    .group = "cache",
    .since = "0.1",
    .summary = "Keep samples as they are at this place; the output stays the same, later epochs get faster.",
    .example = "tfrecord(\"d/*.tfrecord\") | parse(x=float32[8]) | cache | shuffle(seed=1) | batch(32) | repeat(10)",
    .options = cache_options,
    .state_size = sizeof(stk__cache_state),
    .role = STK_ROLE_CACHE,
};
