/* take: keep the first samples only. */
#include "engine/op.h"

typedef struct {
    int64_t count;
} take_state;

static int64_t take_length(const void *state, int64_t n)
{
    const take_state *s = state;
    return STK_MIN(n, s->count);
}

static void take_map(const void *state, int64_t n, stk__position *position)
{
}

static stk__pass take_pass(const void *state, int64_t seen)
{
    const take_state *s = state;
    return seen < s->count ? STK__PASS_KEEP : STK__PASS_END;
}

static const stk__order take_order = {
    .kind = STK__ORDER_SELECT,
    .length = take_length,
    .map = take_map,
    .pass = take_pass,
};

static const stk_option take_options[] = {
    STK_INT_REQUIRED(take_state, count, 0, INT64_MAX, "how many to keep; of batches when it follows batch"),
    STK_OPTION_END,
};

const stk_op stk__op_take = {
    .abi = STK_OP_ABI,
    .name = "take",
    .group = "order",
    .since = "0.1",
    .summary = "Keep the first samples only, or batches when it follows batch.",
    .example = "range(100) | take(10) | batch(5)",
    .options = take_options,
    .state_size = sizeof(take_state),
    .role = STK_ROLE_ORDER,
    .order = &take_order,
};
