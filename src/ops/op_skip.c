/* skip: leave out the first samples. */
#include "engine/op.h"

typedef struct {
    int64_t count;
} skip_state;

static int64_t skip_length(const void *state, int64_t n)
{
    const skip_state *s = state;
    return n == STK__ENDLESS ? n : STK_MAX(n - s->count, 0);
}

static void skip_map(const void *state, int64_t n, stk__position *position)
{
    const skip_state *s = state;
    position->index = stk__position_scale(position->index, 1, s->count);
}

static stk__pass skip_pass(const void *state, int64_t seen)
{
    const skip_state *s = state;
    return seen < s->count ? STK__PASS_DROP : STK__PASS_KEEP;
}

static const stk__order skip_order = {
    .kind = STK__ORDER_SELECT,
    .length = skip_length,
    .map = skip_map,
    .pass = skip_pass,
};

static const stk_option skip_options[] = {
    STK_INT_REQUIRED(skip_state, count, 0, (int64_t)1 << 60, "how many to leave out; of batches when it follows batch"),
    STK_OPTION_END,
};

const stk_op stk__op_skip = {
    .abi = STK_OP_ABI,
    .name = "skip",
    .group = "order",
    .since = "0.1",
    .summary = "Leave out the first samples, or batches when it follows batch.",
    .example = "range(100) | skip(90) | batch(5)",
    .options = skip_options,
    .state_size = sizeof(skip_state),
    .role = STK_ROLE_ORDER,
    .order = &skip_order,
};
