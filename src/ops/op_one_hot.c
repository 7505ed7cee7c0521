/* one_hot: turn class numbers into rows with a 1 at their place. */
#include "engine/op.h"
#include "kernels/convert.h"

typedef struct {
    const char *field;
    int64_t classes;
    double smoothing;
    int in, out;
    stk_dtype dtype;
    int32_t ndim; /* of the labels */
    float off, on;
} one_hot_state;

static bool is_integer(stk_dtype dtype)
{
    return dtype >= STK_UINT8 && dtype <= STK_INT64;
}

static stk_status one_hot_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    one_hot_state *s = state;
    stk_field field;
    STK_TRY(host->plan_read(plan, s->field, &s->in, &field, err));
    if (!is_integer(field.dtype) || field.ndim > 1)
        return host->fail(err, STK_INVALID, "field '%s' is %s with %d dimensions, wanted integers with 0 or 1",
                          s->field, stk_dtype_name(field.dtype), field.ndim);
    s->dtype = field.dtype;
    s->ndim = field.ndim;
    s->off = (float)(s->smoothing / (double)s->classes);
    s->on = (float)(1 - s->smoothing + s->smoothing / (double)s->classes);
    field.dtype = STK_FLOAT32;
    field.shape[field.ndim++] = s->classes;
    return host->plan_write(plan, &field, &s->out, err);
}

static stk_status one_hot_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    const one_hot_state *s = call->state;
    const stk_value *in = &sample->values[s->in];
    const int64_t shape[2] = {s->ndim ? in->shape[0] : s->classes, s->classes};
    float *out = stk_out(call, sample, s->out, shape, err);
    if (!out)
        return err->status;
    for (int64_t i = 0; i < in->elements; i++, out += s->classes) {
        int64_t label;
        stk__convert(&label, STK_INT64, (const char *)in->data + (size_t)i * stk_dtype_size(s->dtype), s->dtype, 1);
        if (label < 0 || label >= s->classes)
            return call->host->fail(err, STK_CORRUPT, "field '%s' is %lld, wanted 0 to %lld", s->field,
                                    (long long)label, (long long)s->classes - 1);
        for (int64_t k = 0; k < s->classes; k++)
            out[k] = s->off;
        out[label] = s->on;
    }
    return STK_OK;
}

static const stk_option one_hot_options[] = {
    STK_FIELD(one_hot_state, field, "class numbers, from 0: integers, one or a list"),
    STK_INT_REQUIRED(one_hot_state, classes, 1, 1 << 24, "how many classes there are"),
    STK_NUMBER(one_hot_state, smoothing, 0, 0, 1, "share of the 1 that is spread evenly over all classes"),
    STK_OPTION_END,
};

const stk_op stk__op_one_hot = {
    .abi = STK_OP_ABI,
    .name = "one_hot",
    .group = "fields",
    .since = "0.1",
    .summary = "Make float32 rows of class numbers: 1 at the place of the class, 0 elsewhere.",
    .example = "range(6) | one_hot(value, 6) | batch(3)",
    .options = one_hot_options,
    .state_size = sizeof(one_hot_state),
    .schema = one_hot_schema,
    .process = one_hot_process,
};
