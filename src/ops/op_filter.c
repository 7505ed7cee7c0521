/* filter: keep the samples for which an expression is true. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/expr.h"
#include "engine/op.h"

#define MAX_SLOTS 64

typedef struct {
    int id;
    stk_dtype dtype;
} slot;

typedef struct {
    const char *where;
    stk__expr *expr;
    slot slots[MAX_SLOTS];
    int slot_count;
} filter_state;

typedef struct lookup_arg {
    stk_plan *plan;
    const stk_host *host;
    filter_state *state;
} lookup_arg;

static bool type_of(stk_dtype dtype, stk__expr_type *out)
{
    switch (dtype) {
    case STK_BOOL:
        *out = STK__EXPR_BOOL;
        return true;
    case STK_FLOAT32:
    case STK_FLOAT64:
        *out = STK__EXPR_FLOAT;
        return true;
    case STK_BYTES:
        *out = STK__EXPR_BYTES;
        return true;
    case STK_FLOAT16:
    case STK_BFLOAT16:
    case STK_UINT64: /* half of its values are no int64 */
        return false;
    default:
        *out = STK__EXPR_INT;
        return true;
    }
}

static stk_status lookup(void *arg, const char *name, stk__expr_type *out_type, int *out_slot, stk_error *err)
{
    lookup_arg *l = arg;
    stk_field field;
    int id;
    STK_TRY(l->host->plan_read(l->plan, name, &id, &field, err));
    if (field.ndim != 0)
        return stk_error_set(err, STK_INVALID, "field '%s' has %d dimensions, wanted a scalar", name, field.ndim);
    if (!type_of(field.dtype, out_type))
        return stk_error_set(err, STK_INVALID, "field '%s' is %s; cast it to float32 or int64 first", name,
                             stk_dtype_name(field.dtype));
    if (l->state->slot_count == MAX_SLOTS)
        return stk_error_set(err, STK_INVALID, "an expression has at most %d names", MAX_SLOTS);
    *out_slot = l->state->slot_count;
    l->state->slots[l->state->slot_count++] = (slot){id, field.dtype};
    return STK_OK;
}

static stk_status filter_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    filter_state *s = state;
    lookup_arg arg = {plan, host, s};
    const stk_status status = stk__expr_compile(s->where, lookup, &arg, &s->expr, err);
    if (status != STK_OK && err && err->column > 0) {
        /* The column is one of the expression; the engine adds the op's place in the text. */
        stk__error_prefix(err, "at %d of the expression: ", err->column);
        err->line = err->column = 0;
    }
    return status;
}

static void filter_close(void *state)
{
    filter_state *s = state;
    stk__expr_free(s->expr);
}

typedef struct fetch_arg {
    const filter_state *state;
    const stk_sample *sample;
} fetch_arg;

#define FETCH_INT(dtype_name, T)                      \
    case dtype_name: {                                \
        T x;                                          \
        memcpy(&x, data, sizeof x);                   \
        *out = (stk__expr_value){.type = STK__EXPR_INT, .integer = (int64_t)x}; \
        return;                                       \
    }

static void fetch(void *arg, int slot_number, stk__expr_value *out)
{
    const fetch_arg *f = arg;
    const slot *s = &f->state->slots[slot_number];
    const void *data = f->sample->values[s->id].data;
    float single;
    double number;
    switch (s->dtype) {
        FETCH_INT(STK_UINT8, uint8_t)
        FETCH_INT(STK_INT8, int8_t)
        FETCH_INT(STK_UINT16, uint16_t)
        FETCH_INT(STK_INT16, int16_t)
        FETCH_INT(STK_UINT32, uint32_t)
        FETCH_INT(STK_INT32, int32_t)
        FETCH_INT(STK_INT64, int64_t)
    case STK_BOOL:
        *out = (stk__expr_value){.type = STK__EXPR_BOOL, .integer = *(const uint8_t *)data != 0};
        return;
    case STK_FLOAT32:
        memcpy(&single, data, sizeof single);
        *out = (stk__expr_value){.type = STK__EXPR_FLOAT, .number = single};
        return;
    case STK_FLOAT64:
        memcpy(&number, data, sizeof number);
        *out = (stk__expr_value){.type = STK__EXPR_FLOAT, .number = number};
        return;
    default:
        *out = (stk__expr_value){.type = STK__EXPR_BYTES};
        memcpy(&out->bytes, data, sizeof out->bytes);
    }
}

static stk_status filter_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    const filter_state *s = call->state;
    fetch_arg arg = {s, sample};
    bool keep;
    STK_TRY(stk__expr_eval(s->expr, fetch, &arg, &keep, err));
    return keep ? STK_OK : STK_DROP;
}

static const stk_option filter_options[] = {
    STK_STRING_REQUIRED(filter_state, where, "expression on scalar fields, such as \"label < 5 and weight > 0.5\""),
    STK_OPTION_END,
};

const stk_op stk__op_filter = {
    .abi = STK_OP_ABI,
    .name = "filter",
    .group = "samples",
    .since = "0.1",
    .summary = "Keep the samples for which an expression on scalar fields is true.",
    .example = "range(10) | filter(\"value % 2 == 0\") | batch(5)",
    .options = filter_options,
    .state_size = sizeof(filter_state),
    .flags = STK_OP_DROPS,
    .schema = filter_schema,
    .close = filter_close,
    .process = filter_process,
};
