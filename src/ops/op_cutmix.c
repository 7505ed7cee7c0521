/* cutmix: paste a rectangle of the image before into every image of a batch, and mix labels by its area. */
#include <math.h>
#include <string.h>

#include "ops/batch_mix.h"

#include "base/banned.h"

typedef struct {
    stk__mix_state shared;
    int64_t height, width;
    int64_t planes;     /* 1 where channels are last */
    size_t pixel_bytes; /* within a plane */
} cutmix_state;

typedef struct {
    const cutmix_state *s;
    int64_t x, y, width, height;
} box;

static void paste(const void *arg, void *row, const void *partner)
{
    const box *b = arg;
    const cutmix_state *s = b->s;
    const size_t line = (size_t)s->width * s->pixel_bytes, size = (size_t)b->width * s->pixel_bytes;
    for (int64_t plane = 0; plane < s->planes; plane++) {
        size_t at = (size_t)(plane * s->height + b->y) * line + (size_t)b->x * s->pixel_bytes;
        for (int64_t y = 0; y < b->height; y++, at += line)
            memcpy((char *)row + at, (const char *)partner + at, size);
    }
}

static int64_t below(stk_random *r, int64_t n)
{
    return (int64_t)(((uint64_t)stk_random_u32(r) * (uint64_t)n) >> 32);
}

/* Around a point anywhere in the image, of the area that `weight` leaves; what reaches outside is cut off. */
static void draw_box(stk_random *r, double weight, box *b)
{
    const cutmix_state *s = b->s;
    const int64_t x = below(r, s->width), y = below(r, s->height);
    const double half = 0.5 * sqrt(1 - weight);
    const int64_t dx = (int64_t)(half * (double)s->width), dy = (int64_t)(half * (double)s->height);
    b->x = STK_MAX(x - dx, (int64_t)0);
    b->y = STK_MAX(y - dy, (int64_t)0);
    b->width = STK_MIN(x + dx, s->width) - b->x;
    b->height = STK_MIN(y + dy, s->height) - b->y;
}

static stk_status cutmix_schema(stk_plan *plan, const stk_host *host, void *state, stk_error *err)
{
    cutmix_state *s = state;
    STK_TRY(stk__mix_plan(plan, host, &s->shared, err));
    const stk_field *f = &s->shared.image_field;
    if (f->ndim != 2 && f->ndim != 3)
        return host->fail(err, STK_INVALID, "field '%s' has %d dimensions, wanted images of 2 or 3", s->shared.image,
                          f->ndim);
    const bool first =
        f->ndim == 3 && !(f->shape[2] >= 1 && f->shape[2] <= 4); /* layout made the channels come first */
    s->planes = first ? f->shape[0] : 1;
    s->height = f->shape[first ? 1 : 0];
    s->width = f->shape[first ? 2 : 1];
    s->pixel_bytes = stk_dtype_size(f->dtype) * (f->ndim == 3 && !first ? (size_t)f->shape[2] : 1);
    if (s->height < 1 || s->width < 1 || s->height > INT32_MAX || s->width > INT32_MAX)
        return host->fail(err, STK_INVALID, "field '%s' has images of %lld x %lld pixels", s->shared.image,
                          (long long)s->width, (long long)s->height);
    return STK_OK;
}

static stk_status cutmix_rows(const stk_call *call, const stk_batch *batch, const stk_sample *at, stk_error *err)
{
    const cutmix_state *s = call->state;
    stk_random r = stk_random_begin(call, at);
    if (!((double)stk_random_float(&r) < s->shared.p))
        return STK_OK;
    box b = {.s = s};
    draw_box(&r, stk__mix_beta(&r, s->shared.alpha), &b);
    const double share = (double)(b.width * b.height) / (double)(s->width * s->height);
    STK_TRY(stk__mix_images(call, batch, paste, &b, err));
    return stk__mix_labels(call, batch, (float)(1 - share), err);
}

static const stk_option cutmix_options[] = {
    {.name = "image",
     .kind = STK_OPTION_FIELD,
     .required = true,
     .offset = STK_FIELD_OFFSET(cutmix_state, shared.image, const char *),
     .help = "images, all of one size"},
    {.name = "label",
     .kind = STK_OPTION_FIELD,
     .required = true,
     .offset = STK_FIELD_OFFSET(cutmix_state, shared.label, const char *),
     .help = "float32 labels, as one_hot makes them"},
    {.name = "alpha",
     .kind = STK_OPTION_FLOAT,
     .offset = STK_FIELD_OFFSET(cutmix_state, shared.alpha, double),
     .fallback = {.number = 1},
     .min_number = 0.001,
     .max_number = 1000,
     .help = "the area that stays is drawn from Beta(alpha, alpha), one for each batch"},
    {.name = "p",
     .kind = STK_OPTION_FLOAT,
     .offset = STK_FIELD_OFFSET(cutmix_state, shared.p, double),
     .fallback = {.number = 1},
     .min_number = 0,
     .max_number = 1,
     .help = "how probable it is for a batch"},
    STK_OPTION_END,
};

const stk_op stk__op_cutmix = {
    .abi = STK_OP_ABI,
    .name = "cutmix",
    .group = "batch",
    .since = "0.1",
    .summary = "Paste a random rectangle of the image before into every image of a batch, and mix labels by its area.",
    .example =
        "image_folder(\"d/photos\") | shuffle | decode_image(image) | resize(image, 24, 24) | one_hot(label, 3) | "
        "batch(4) | cutmix(image, label)",
    .options = cutmix_options,
    .state_size = sizeof(cutmix_state),
    .role = STK_ROLE_ROWS,
    .flags = STK_OP_RANDOM,
    .schema = cutmix_schema,
    .worker_open = stk__mix_worker_open,
    .worker_close = stk__mix_worker_close,
    .process_rows = cutmix_rows,
};
