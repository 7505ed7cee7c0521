/* A plug-in with two ops: `negate` changes the sign of a field, `add_noise` adds random numbers to one. */
#include <stoker/op.h>

/*
 * A plug-in is one shared object. It links against nothing: what it needs from the engine comes through `host` and the
 * stk_... wrappers of <stoker/op.h>. Both ops here read a field and write a new version of it under the same name.
 */

/* ---- negate(FIELD) ---- */

/* Options first, then what `schema` finds out. The engine zeroes it and fills in the options before it calls us. */
typedef struct {
    const char *field;
    int in, out; /* numbers of the field as we read it and as we write it */
    stk_dtype dtype;
} negate_state;

/* Runs while planning, before any data is read: so a wrong name or type is told at once, with its place in the text. */
static stk_status negate_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    negate_state *s = state;
    stk_field field;
    const stk_status status = host->plan_read(plan, s->field, &s->in, &field, err);
    if (status != STK_OK)
        return status;
    if (field.dtype != STK_INT64 && field.dtype != STK_FLOAT32)
        return host->fail(err, STK_INVALID, "field '%s' is neither int64 nor float32; cast it first", s->field);
    s->dtype = field.dtype;
    /* Same name, type and shape: from here on, later ops see our version. */
    return host->plan_write(plan, &field, &s->out, err);
}

/* Runs for each sample, in many threads at once; the state is const now. */
static stk_status negate_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    const negate_state *s = call->state;
    const stk_value *in = &sample->values[s->in];
    /* Often this is the row of the batch itself, so that nothing is copied later. */
    void *out = stk_out(call, sample, s->out, in->shape, err);
    if (!out)
        return err->status;
    for (int64_t i = 0; i < in->elements; i++) {
        if (s->dtype == STK_FLOAT32)
            ((float *)out)[i] = -((const float *)in->data)[i];
        else /* unsigned, because the least int64 has no opposite and signed overflow is undefined */
            ((uint64_t *)out)[i] = 0 - ((const uint64_t *)in->data)[i];
    }
    return STK_OK;
}

/* In the order of positions: negate(x) is negate(field=x). Help and completion come from this table too. */
static const stk_option negate_options[] = {
    STK_FIELD(negate_state, field, "int64 or float32 field to negate"),
    STK_OPTION_END,
};

static const stk_op negate = {
    .abi = STK_OP_ABI,
    .name = "negate",
    .group = "numbers",
    .since = "0.1",
    .summary = "Change the sign of a field.",
    .example = "range(5) | negate(value) | print",
    .options = negate_options,
    .state_size = sizeof(negate_state),
    .flags = STK_OP_ELEMENTWISE, /* the same on a whole batch, so users may write it behind `batch` too */
    .schema = negate_schema,
    .process = negate_process,
};

/* ---- add_noise(FIELD, amount=0.1) ---- */

typedef struct {
    const char *field;
    double amount;
    int in, out;
} add_noise_state;

static stk_status add_noise_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    add_noise_state *s = state;
    stk_field field;
    const stk_status status = host->plan_read(plan, s->field, &s->in, &field, err);
    if (status != STK_OK)
        return status;
    if (field.dtype != STK_FLOAT32)
        return host->fail(err, STK_INVALID, "field '%s' is no float32; cast it first", s->field);
    return host->plan_write(plan, &field, &s->out, err);
}

static stk_status add_noise_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    const add_noise_state *s = call->state;
    const stk_value *in = &sample->values[s->in];
    const float *from = in->data;
    float *out = stk_out(call, sample, s->out, in->shape, err);
    if (!out)
        return err->status;
    /* Depends on seed, epoch, sample and op alone: the same for any number of threads, and after a resume. */
    stk_random random = stk_random_begin(call, sample);
    for (int64_t i = 0; i < in->elements; i++)
        out[i] = from[i] + (float)s->amount * (2 * stk_random_float(&random) - 1);
    return STK_OK;
}

static const stk_option add_noise_options[] = {
    STK_FIELD(add_noise_state, field, "float32 field to change"),
    STK_NUMBER(add_noise_state, amount, 0.1, 0, 1e30, "numbers between -amount and amount are added"),
    STK_OPTION_END,
};

static const stk_op add_noise = {
    .abi = STK_OP_ABI,
    .name = "add_noise",
    .group = "numbers",
    .since = "0.1",
    .summary = "Add random numbers to a field.",
    .example = "range(5) | cast(value=float32) | add_noise(value, amount=0.5) | print",
    .options = add_noise_options,
    .state_size = sizeof(add_noise_state),
    .flags = STK_OP_RANDOM,
    .schema = add_noise_schema,
    .process = add_noise_process,
};

/* ---- what the loader looks for ---- */

const stk_op *const *stk_plugin_ops(uint32_t abi)
{
    static const stk_op *const ops[] = {&negate, &add_noise, NULL};
    return abi == STK_OP_ABI ? ops : NULL;
}
