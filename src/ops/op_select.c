/* select: keep some fields. */
#include <string.h>

#include "engine/op.h"

typedef struct {
    stk_strings fields;
} select_state;

static bool is_selected(const select_state *s, const char *name)
{
    for (size_t i = 0; i < s->fields.count; i++)
        if (strcmp(s->fields.items[i], name) == 0)
            return true;
    return false;
}

static stk_status select_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    const select_state *s = state;
    for (size_t i = 0; i < s->fields.count; i++) {
        int id;
        STK_TRY(host->plan_read(plan, s->fields.items[i], &id, NULL, err)); /* must exist */
    }
    for (int i = host->plan_field_count(plan) - 1; i >= 0; i--) {
        stk_field field;
        host->plan_field(plan, i, &field);
        if (!is_selected(s, field.name))
            STK_TRY(host->plan_remove(plan, field.name, err));
    }
    return STK_OK;
}

static const stk_option select_options[] = {
    STK_FIELDS(select_state, fields, "fields to keep"),
    STK_OPTION_END,
};

const stk_op stk__op_select = {
    .abi = STK_OP_ABI,
    .name = "select",
    .group = "fields",
    .since = "0.1",
    .summary = "Keep the named fields, leave out all others.",
    .example = "tfrecord(\"d/*.tfrecord\") | parse(x=float32[8], y=int64) | select(y) | batch(32)",
    .options = select_options,
    .state_size = sizeof(select_state),
    .flags = STK_OP_ELEMENTWISE,
    .schema = select_schema,
};
