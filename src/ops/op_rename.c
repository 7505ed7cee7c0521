/* rename: give fields other names. */
#include "engine/op.h"

typedef struct {
    stk_args fields;
} rename_state;

static stk_status rename_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    const rename_state *s = state;
    for (size_t i = 0; i < s->fields.count; i++) {
        const stk_named_arg *arg = &s->fields.items[i];
        if (arg->value.kind != STK_ARG_NAME && arg->value.kind != STK_ARG_STRING)
            return host->fail(err, STK_INVALID, "'%s' must be the name of a field, as in rename(new=old)", arg->name);
        STK_TRY(host->plan_rename(plan, arg->value.text, arg->name, err));
    }
    return STK_OK;
}

static const stk_option rename_options[] = {
    STK_ARGS(rename_state, fields, "new=old for each field"),
    STK_OPTION_END,
};

const stk_op stk__op_rename = {
    .abi = STK_OP_ABI,
    .name = "rename",
    .group = "fields",
    .since = "0.1",
    .summary = "Give fields other names: rename(new=old).",
    .example = "range(10) | rename(number=value) | batch(5)",
    .options = rename_options,
    .state_size = sizeof(rename_state),
    .flags = STK_OP_ELEMENTWISE,
    .schema = rename_schema,
};
