/* decode_image: turn encoded pictures into pixels. */
#include "ops/image_op.h"

static stk_status decode_image_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    stk__decode_state *s = state;
    stk__image_op *op = &s->op;
    STK_TRY(host->plan_read(plan, s->field, &op->in, &op->from, err));
    if (op->from.dtype != STK_BYTES || op->from.ndim != 0)
        return host->fail(err, STK_INVALID, "field '%s' is %s with %d dimensions, wanted bytes", s->field,
                          stk_dtype_name(op->from.dtype), op->from.ndim);
    if (s->channels == 2)
        return host->fail(err, STK_INVALID, "channels is 2, wanted 1 (gray), 3 (RGB) or 4 (RGBA)");
    op->classes = s->mode == STK__DECODE_INDEX;
    if (s->channels == 0)
        s->channels = op->classes ? 1 : 3;
    if (op->classes && s->channels != 1)
        return host->fail(err, STK_INVALID, "channels is %lld with mode=index, which gives 1: the number of each pixel",
                          (long long)s->channels);
    const stk_dtype dtype = s->dtype == STK__DECODE_UINT16 ? STK_UINT16 : STK_UINT8;
    op->decodes = true;
    op->to = (stk_field){.name = s->field, .dtype = dtype, .ndim = 3, .shape = {-1, -1, s->channels}};
    return stk__image_plan_write(plan, host, op, err);
}

static stk_status decode_image_open(const stk_call *call, stk_error *err)
{
    stk__decode_state *s = call->state;
    const stk_open_info *info = call->host->open_info(call);
    s->exact = s->exact || info->exact;
    return STK_OK;
}

static const char *const modes[] = {"auto", "color", "index", NULL};
static const char *const dtypes[] = {"auto", "uint8", "uint16", NULL};

static const stk_option decode_image_options[] = {
    STK_FIELD(stk__decode_state, field, "encoded pictures: JPEG, PNG, WebP, GIF (first frame), BMP, found by content"),
    STK_INT(stk__decode_state, channels, 0, 0, 4, "1 gray, 3 RGB, 4 RGBA; 0: 3, or 1 with mode=index"),
    STK_BOOL_OPTION(stk__decode_state, exact, false, "decode JPEGs fully, even where a resize follows"),
    STK_BOOL_OPTION(stk__decode_state, orient, false, "turn pictures as their EXIF orientation says"),
    STK_INT(stk__decode_state, max_pixels, 100000000, 1, (int64_t)1 << 40,
            "larger pictures are bad records, whatever the memory budget"),
    STK_ENUM(stk__decode_state, mode, STK__DECODE_AUTO, modes,
             "index: the numbers of palette and gray PNGs and of GIFs as stored, for masks of classes; color: what is seen; "
             "auto: color, but gray of a palette PNG is an error"),
    STK_ENUM(stk__decode_state, dtype, STK__DECODE_UINT8_IF_PLAIN, dtypes,
             "uint16: all of 16 bits, 8 bits spread over 0 to 65535; uint8: the high 8; auto: uint8, but a gray PNG of 16 bits "
             "is an error"),
    STK_OPTION_END,
};

const stk_op stk__op_decode_image = {
    .abi = STK_OP_ABI,
    .name = "decode_image",
    .group = "image",
    .since = "0.1",
    .summary = "Decode pictures to pixels (height, width, channels).",
    .example = "image_folder(\"d/photos\") | decode_image(image) | resize(image, 64, 64) | batch(2)",
    .options = decode_image_options,
    .state_size = sizeof(stk__decode_state),
    .schema = decode_image_schema,
    .open = decode_image_open,
    STK__IMAGE_CALLBACKS,
};
