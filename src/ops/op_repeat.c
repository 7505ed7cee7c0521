/* repeat: go over the samples again and again. */
#include "engine/op.h"

typedef struct {
    int64_t count;
} repeat_state;

static int64_t repeat_times(const void *state)
{
    const repeat_state *s = state;
    return s->count ? s->count : STK__ENDLESS;
}

static int64_t repeat_length(const void *state, int64_t n)
{
    int64_t length;
    if (n == 0)
        return 0;
    return __builtin_mul_overflow(n, repeat_times(state), &length) ? STK__ENDLESS : length;
}

static void repeat_map(const void *state, int64_t n, stk__position *position)
{
    if (n == STK__ENDLESS || n == 0)
        return;
    position->epoch = stk__epoch_join(position->epoch, repeat_times(state), position->index / n);
    position->index %= n;
}

static const stk__order repeat_order = {
    .kind = STK__ORDER_REPEAT,
    .length = repeat_length,
    .map = repeat_map,
    .times = repeat_times,
};

static const stk_option repeat_options[] = {
    STK_INT(repeat_state, count, 0, 0, (int64_t)1 << 31, "epochs; 0: without end"),
    STK_OPTION_END,
};

const stk_op stk__op_repeat = {
    .abi = STK_OP_ABI,
    .name = "repeat",
    .group = "order",
    .since = "0.1",
    .summary = "Go over the samples several times: each time is an epoch.",
    .example = "range(10) | shuffle(seed=1) | batch(5) | repeat(3)",
    .options = repeat_options,
    .state_size = sizeof(repeat_state),
    .role = STK_ROLE_ORDER,
    .order = &repeat_order,
};
