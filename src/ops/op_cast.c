/* cast: change the element type of fields. */
#include <string.h>

#include "base/mem.h"
#include "kernels/convert.h"
#include "ops/image_op.h"

typedef struct {
    int in, out;
    stk_dtype from, to;
} one_cast;

typedef struct {
    stk__image_op image; /* for a single field that may be an image */
    stk_args fields;
    one_cast *casts;
} cast_state;

static bool dtype_by_name(const char *name, stk_dtype *out)
{
    for (int i = 0; i < STK_DTYPE_COUNT; i++) {
        if (strcmp(stk_dtype_name((stk_dtype)i), name) == 0) {
            *out = (stk_dtype)i;
            return true;
        }
    }
    return false;
}

static stk_status bad_type(const stk_host *host, const stk_named_arg *arg, stk_error *err)
{
    host->fail(err, STK_INVALID, "field '%s' must be cast to a number type such as float32 or uint8, found %s%.60s",
               arg->name, arg->value.text ? "" : "no name of a type", arg->value.text ? arg->value.text : "");
    return stk__at_value(arg, STK_INVALID, err);
}

static stk_status image_draw(const stk_call *call, const stk_sample *sample, const stk__image_size *in, stk__act *out,
                             stk_error *err)
{
    out->kind = STK__ACT_CAST;
    return STK_OK;
}

/* What the chain of image ops wants to know, so that the cast can be part of it. */
static void plan_image(stk__image_op *image, const one_cast *c, const stk_field *from, const stk_field *to)
{
    *image = (stk__image_op){
        .kind = STK__ACT_CAST, .draw = image_draw, .in = c->in, .out = c->out, .from = *from, .to = *to};
}

/* A list of uint8 and a scalar of bytes are the same thing; nothing else is. */
static stk_status plan_bytes(const stk_host *host, const stk_named_arg *arg, const one_cast *c, stk_field *field,
                             stk_error *err)
{
    if (c->from == STK_UINT8 && c->to == STK_BYTES && field->ndim == 1) {
        field->ndim = 0;
        return STK_OK;
    }
    if (c->from == STK_BYTES && c->to == STK_UINT8 && field->ndim == 0) {
        field->ndim = 1;
        field->shape[0] = -1;
        return STK_OK;
    }
    host->fail(err, STK_INVALID,
               "field '%s' is %s, which cannot be cast to %s; lists of uint8 and bytes become each other", field->name,
               stk_dtype_name(c->from), stk_dtype_name(c->to));
    return stk__at_value(arg, STK_INVALID, err);
}

static stk_status plan_cast(stk_plan *plan, const stk_host *host, const stk_named_arg *arg, one_cast *c,
                            stk__image_op *image, stk_error *err)
{
    stk_field field, from;
    STK_TRY(host->plan_read(plan, arg->name, &c->in, &field, err));
    if (arg->value.kind != STK_ARG_NAME || !dtype_by_name(arg->value.text, &c->to))
        return bad_type(host, arg, err);
    c->from = field.dtype;
    from = field;
    if (c->from == STK_BYTES || c->to == STK_BYTES)
        STK_TRY(plan_bytes(host, arg, c, &field, err));
    field.dtype = c->to;
    STK_TRY(host->plan_write(plan, &field, &c->out, err));
    if (host->plan_has_classes(plan, c->in))
        host->plan_set_classes(plan, c->out);
    if (image && c->from != STK_BYTES && c->to != STK_BYTES)
        plan_image(image, c, &from, &field);
    return STK_OK;
}

static stk_status cast_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    cast_state *s = state;
    s->casts = stk__calloc(s->fields.count, sizeof *s->casts);
    if (!s->casts)
        return stk__nomem(s->fields.count * sizeof *s->casts, err);
    for (size_t i = 0; i < s->fields.count; i++)
        STK_TRY(plan_cast(plan, host, &s->fields.items[i], &s->casts[i], s->fields.count == 1 ? &s->image : NULL, err));
    return STK_OK;
}

static void cast_close(void *state)
{
    cast_state *s = state;
    stk__free(s->casts);
}

static stk_status cast_bytes(const stk_call *call, stk_sample *sample, const one_cast *c, stk_error *err)
{
    const stk_value *in = &sample->values[c->in];
    if (c->to == STK_BYTES) {
        if (c->from != STK_BYTES)
            stk_set_bytes(call, sample, c->out, in->data, in->elements, false);
        return STK_OK;
    }
    const stk_bytes *view = in->data;
    uint8_t *out = stk_out(call, sample, c->out, (int64_t[STK_MAX_DIMS]){view->size}, err);
    if (!out)
        return err->status;
    if (view->size)
        memcpy(out, view->data, (size_t)view->size);
    return STK_OK;
}

static stk_status cast_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    const cast_state *s = call->state;
    for (size_t i = 0; i < s->fields.count; i++) {
        const one_cast *c = &s->casts[i];
        if (!stk_needed(call, c->out))
            continue;
        const stk_value *in = &sample->values[c->in];
        if (c->to == STK_BYTES || c->from == STK_BYTES) {
            STK_TRY(cast_bytes(call, sample, c, err));
            continue;
        }
        void *out = stk_out(call, sample, c->out, in->shape, err);
        if (!out)
            return err->status;
        stk__convert(out, c->to, in->data, c->from, (size_t)in->elements);
    }
    return STK_OK;
}

static const stk_option cast_options[] = {
    STK_ARGS(
        cast_state, fields,
        "field=dtype for each field; out of range becomes the nearest value; lists of uint8 and bytes become each other"),
    STK_OPTION_END,
};

const stk_op stk__op_cast = {
    .abi = STK_OP_ABI,
    .name = "cast",
    .group = "fields",
    .since = "0.1",
    .summary = "Change the element type of fields: cast(x=float16).",
    .example = "range(10) | cast(value=float32) | batch(5)",
    .options = cast_options,
    .state_size = sizeof(cast_state),
    .flags = STK_OP_ELEMENTWISE,
    .schema = cast_schema,
    .close = cast_close,
    .process = cast_process,
    .fuse = &stk__image_fuse,
};
