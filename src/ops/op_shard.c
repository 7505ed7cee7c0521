/* shard: keep every n-th sample, so that ranks share the work. */
#include "engine/op.h"

enum { UNEVEN_KEEP, UNEVEN_PAD, UNEVEN_DROP };

typedef struct {
    int64_t count, index;
    int64_t uneven;
    bool contiguous;
    int64_t block;
} shard_state;

static stk_status shard_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    const shard_state *s = state;
    if (s->count > 0 && s->index >= s->count)
        return host->fail(err, STK_INVALID, "index must be below count %lld, got %lld", (long long)s->count,
                          (long long)s->index);
    if (s->count == 0 && s->index > 0)
        return host->fail(err, STK_INVALID, "index is %lld, but count is not given", (long long)s->index);
    if (s->contiguous && s->block > 1)
        return host->fail(err, STK_INVALID, "block is %lld, but a part is one stretch with contiguous=true",
                          (long long)s->block);
    return STK_OK;
}

static int64_t shard_length(const void *state, int64_t n)
{
    const shard_state *s = state;
    if (n == STK__ENDLESS)
        return n;
    const int64_t round = s->count * s->block;
    const int64_t whole = n / round * s->block, rest = n % round;
    if (s->uneven == UNEVEN_DROP)
        return whole;
    if (s->uneven == UNEVEN_PAD)
        return whole + (rest > 0 ? s->block : 0);
    return whole + STK_MAX((int64_t)0, STK_MIN(rest - s->index * s->block, s->block));
}

/* Where a part begins that is one stretch. */
static int64_t stretch_start(const shard_state *s, int64_t n)
{
    const int64_t whole = n / s->count, rest = n % s->count;
    if (s->uneven == UNEVEN_DROP)
        return s->index * whole;
    if (s->uneven == UNEVEN_PAD)
        return s->index * (whole + (rest > 0));
    return s->index * whole + STK_MIN(s->index, rest);
}

static void shard_map(const void *state, int64_t n, stk__position *position)
{
    const shard_state *s = state;
    if (s->contiguous)
        position->index = stk__position_scale(stretch_start(s, n), 1, position->index);
    else
        position->index = stk__position_scale(position->index / s->block, s->count * s->block,
                                              s->index * s->block + position->index % s->block);
    if (s->uneven == UNEVEN_PAD && n != STK__ENDLESS && position->index >= n)
        position->index %= n; /* the first ones once more, so that all ranks have as many */
}

static stk__pass shard_pass(const void *state, int64_t seen)
{
    const shard_state *s = state;
    return seen / s->block % s->count == s->index ? STK__PASS_KEEP : STK__PASS_DROP;
}

static bool shard_needs_count(const void *state)
{
    const shard_state *s = state;
    return s->contiguous;
}

static const char *shard_inelastic(const void *state)
{
    const shard_state *s = state;
    if (s->contiguous)
        return "parts of shard that are one stretch each cannot be changed in the middle of an epoch";
    return s->block > 1 ? "parts of shard that are made of blocks cannot be changed in the middle of an epoch" : NULL;
}

static void shard_set_block(void *state, int64_t block)
{
    shard_state *s = state;
    s->block = block;
}

static int64_t shard_get_block(const void *state)
{
    const shard_state *s = state;
    return s->block;
}

static void shard_set(void *state, int64_t count, int64_t index)
{
    shard_state *s = state;
    s->count = count;
    s->index = index;
}

static void shard_get(const void *state, int64_t *out_count, int64_t *out_index)
{
    const shard_state *s = state;
    *out_count = s->count;
    *out_index = s->index;
}

static const stk__order shard_order = {
    .kind = STK__ORDER_SELECT,
    .length = shard_length,
    .map = shard_map,
    .pass = shard_pass,
    .set_shard = shard_set,
    .get_shard = shard_get,
    .set_block = shard_set_block,
    .get_block = shard_get_block,
    .inelastic = shard_inelastic,
    .needs_count = shard_needs_count,
};

static const char *const uneven_choices[] = {"keep", "pad", "drop", NULL};

static const stk_option shard_options[] = {
    STK_INT(shard_state, count, 0, 0, 1 << 24, "number of parts; 0: as many as there are ranks"),
    STK_INT(shard_state, index, 0, 0, 1 << 24, "which part; without count: this process's rank"),
    STK_ENUM(shard_state, uneven, UNEVEN_KEEP, uneven_choices,
             "when parts differ by one: keep them so, pad with the first samples, or drop the rest"),
    STK_BOOL_OPTION(
        shard_state, contiguous, false,
        "one stretch in place of every n-th sample, so that ranks read different chunks; put it before shuffle then"),
    STK_INT(shard_state, block, 1, 1, 1 << 24,
            "deal out runs of this many samples, so that groups which follow each other stay together"),
    STK_OPTION_END,
};

const stk_op stk__op_shard = {
    .abi = STK_OP_ABI,
    .name = "shard",
    .group = "order",
    .since = "0.1",
    .summary = "Keep every n-th sample, or one stretch, so that ranks share the work; put it after shuffle, take and skip.",
    .example = "range(100) | shuffle(seed=1) | shard(count=4, index=0) | batch(5)",
    .options = shard_options,
    .state_size = sizeof(shard_state),
    .role = STK_ROLE_ORDER,
    .schema = shard_schema,
    .order = &shard_order,
};
