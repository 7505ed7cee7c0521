/* shuffle: visit the samples of each epoch in a random order. */
#include "base/rng.h"
#include "engine/op.h"

typedef struct {
    int64_t seed;
    bool reshuffle;
    int64_t buffer;
} shuffle_state;

static int64_t shuffle_length(const void *state, int64_t n)
{
    return n;
}

static uint64_t shuffle_seed(const void *state, int64_t epoch)
{
    const shuffle_state *s = state;
    return stk__mix((uint64_t)s->seed, s->reshuffle ? (uint64_t)epoch : 0);
}

static void shuffle_map(const void *state, int64_t n, stk__position *position)
{
    stk__permutation permutation;
    if (n == STK__ENDLESS)
        return;
    stk__permutation_init(&permutation, (uint64_t)n, shuffle_seed(state, position->epoch));
    position->index = (int64_t)stk__permute(&permutation, (uint64_t)position->index);
}

static int64_t shuffle_buffer(const void *state)
{
    const shuffle_state *s = state;
    return s->buffer;
}

static const stk__order shuffle_order = {
    .kind = STK__ORDER_SHUFFLE,
    .length = shuffle_length,
    .map = shuffle_map,
    .buffer = shuffle_buffer,
    .seed = shuffle_seed,
};

static const stk_option shuffle_options[] = {
    STK_INT(shuffle_state, seed, 0, 0, INT64_MAX, "seed of the permutation"),
    STK_BOOL_OPTION(shuffle_state, reshuffle, true, "draw a new order each epoch"),
    STK_INT(shuffle_state, buffer, 10000, 1, 1 << 28, "samples held back when the source cannot be indexed (gzip, pipes)"),
    STK_OPTION_END,
};

const stk_op stk__op_shuffle = {
    .abi = STK_OP_ABI,
    .name = "shuffle",
    .group = "order",
    .since = "0.1",
    .summary = "Visit the samples of each epoch in a random order: a full permutation that takes no memory.",
    .example = "tfrecord(\"d/*.tfrecord\") | shuffle(seed=42) | batch(32)",
    .options = shuffle_options,
    .state_size = sizeof(shuffle_state),
    .role = STK_ROLE_ORDER,
    .order = &shuffle_order,
};
