/* drop: leave out some fields. */
#include "engine/op.h"

typedef struct {
    stk_strings fields;
} drop_state;

static stk_status drop_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    const drop_state *s = state;
    for (size_t i = 0; i < s->fields.count; i++)
        STK_TRY(host->plan_remove(plan, s->fields.items[i], err));
    return STK_OK;
}

static const stk_option drop_options[] = {
    STK_FIELDS(drop_state, fields, "fields to leave out"),
    STK_OPTION_END,
};

const stk_op stk__op_drop = {
    .abi = STK_OP_ABI,
    .name = "drop",
    .group = "fields",
    .since = "0.1",
    .summary = "Leave out the named fields; what nothing uses is not even parsed.",
    .example = "tfrecord(\"d/*.tfrecord\") | parse(x=float32[8], y=int64) | drop(y) | batch(32)",
    .options = drop_options,
    .state_size = sizeof(drop_state),
    .flags = STK_OP_ELEMENTWISE,
    .schema = drop_schema,
};
