/* What image ops ask of their field while planning. */
#include "ops/image_op.h"

#include <string.h>

#include "base/banned.h"

static stk_status refuse(const stk_host *host, const stk_field *f, const char *why, stk_error *err)
{
    return host->fail(err, STK_INVALID, "field '%s' %s", f->name, why);
}

stk_status stk__image_check(const stk_host *host, const stk_field *f, stk__image_takes takes, stk_error *err)
{
    if (f->dtype == STK_BYTES)
        return refuse(host, f, "holds bytes; put decode_image before this", err);
    if (f->ndim != 3)
        return host->fail(err, STK_INVALID, "field '%s' has %d dimensions, wanted an image (height, width, channels)", f->name,
                          f->ndim);
    if (f->shape[2] < 1 || f->shape[2] > STK__CHANNELS_MAX) {
        if (f->shape[0] >= 1 && f->shape[0] <= STK__CHANNELS_MAX)
            return refuse(host, f, "has its channels first; put layout after this, or a layout to HWC before it", err);
        return host->fail(err, STK_INVALID, "field '%s' has %lld channels, wanted 1 to %d", f->name, (long long)f->shape[2],
                          STK__CHANNELS_MAX);
    }
    if (takes == STK__TAKES_ANY || f->dtype == STK_UINT8 || (takes == STK__TAKES_UINT16 && f->dtype == STK_UINT16))
        return STK_OK;
    if (f->dtype == STK_UINT16)
        return refuse(host, f, "is uint16, wanted uint8: this op has no way for 16 bits", err);
    return host->fail(err, STK_INVALID, "field '%s' is %s, wanted uint8%s; put normalize and cast after this", f->name,
                      stk_dtype_name(f->dtype), takes == STK__TAKES_UINT16 ? " or uint16" : "");
}

stk_status stk__image_check_filter(const stk_host *host, const stk__image_op *op, stk__filter filter, stk_error *err)
{
    if (filter == STK__FILTER_NEAREST)
        return STK_OK;
    if (op->classes)
        return refuse(host, &op->from, "has the numbers of classes, which this filter would mix; say filter=nearest", err);
    if (op->from.dtype == STK_UINT16)
        return refuse(host, &op->from, "is uint16, which filter=nearest alone can work on", err);
    return STK_OK;
}

stk_status stk__image_plan_read(stk_plan *plan, const stk_host *host, stk__image_op *op, const char *name,
                                stk__image_takes takes, stk_error *err)
{
    STK_TRY(host->plan_read(plan, name, &op->in, &op->from, err));
    STK_TRY(stk__image_check(host, &op->from, takes, err));
    op->classes = host->plan_has_classes(plan, op->in);
    if (op->classes && takes == STK__TAKES_COLORS)
        return refuse(host, &op->from, "has the numbers of classes, not colours: this op would make others of them", err);
    op->to = op->from;
    return STK_OK;
}

stk_status stk__image_plan_write(stk_plan *plan, const stk_host *host, stk__image_op *op, stk_error *err)
{
    STK_TRY(host->plan_write(plan, &op->to, &op->out, err));
    if (op->classes)
        host->plan_set_classes(plan, op->out);
    return STK_OK;
}
