/* range: count, as a source without files. */
#include "engine/op.h"

typedef struct {
    int64_t stop, start, step;
    int value;
} range_state;

static stk_status range_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    range_state *s = state;
    if (s->step == 0)
        return host->fail(err, STK_INVALID, "step must not be 0");
    if ((s->step > 0 && s->stop < s->start) || (s->step < 0 && s->stop > s->start))
        return host->fail(err, STK_INVALID, "stop %lld cannot be reached from start %lld; write range(STOP, start=START)",
                          (long long)s->stop, (long long)s->start);
    const stk_field field = {.name = "value", .dtype = STK_INT64};
    return host->plan_write(plan, &field, &s->value, err);
}

static int64_t range_count(const stk_call *call)
{
    const range_state *s = call->state;
    const uint64_t distance = s->step > 0 ? (uint64_t)s->stop - (uint64_t)s->start : (uint64_t)s->start - (uint64_t)s->stop;
    const uint64_t step = s->step > 0 ? (uint64_t)s->step : 0 - (uint64_t)s->step;
    const uint64_t count = distance / step + (distance % step != 0);
    return (int64_t)STK_MIN(count, (uint64_t)1 << 61);
}

static stk_status range_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    const range_state *s = call->state;
    int64_t *out = stk_out(call, sample, s->value, NULL, err);
    if (!out)
        return err->status;
    *out = (int64_t)((uint64_t)s->start + (uint64_t)sample->index * (uint64_t)s->step);
    return STK_OK;
}

static const stk_option range_options[] = {
    STK_INT_REQUIRED(range_state, stop, INT64_MIN, INT64_MAX, "the first number that is not reached"),
    STK_INT(range_state, start, 0, INT64_MIN, INT64_MAX, "the first number"),
    STK_INT(range_state, step, 1, INT64_MIN, INT64_MAX, "from one number to the next"),
    STK_OPTION_END,
};

const stk_op stk__op_range = {
    .abi = STK_OP_ABI,
    .name = "range",
    .group = "source",
    .since = "0.1",
    .summary = "Count: samples with one int64 field `value`.",
    .example = "range(10, start=2, step=2) | print",
    .options = range_options,
    .state_size = sizeof(range_state),
    .role = STK_ROLE_SOURCE,
    .schema = range_schema,
    .process = range_process,
    .count = range_count,
};
