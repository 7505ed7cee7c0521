/* Carries out what image ops drew for a sample: lazily, from encoded bytes or pixels to a slot of the batch. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "kernels/convert.h"
#include "ops/image_op.h"

#define ACTS_MAX 32
#define SIDE_MAX (INT32_MAX / 16) /* so that no sum of sides and pads overflows */

typedef struct room {
    uint8_t *data;
    size_t size;
} room;

typedef struct image_worker {
    const stk_call *call;
    stk__image_decoder *decoders[2]; /* made by the first image; the second is for pairs */
    const uint8_t *ahead;            /* encoded bytes that the second has begun with */
    room rooms[2];               /* images take turns */
    int turn;                    /* the room that is given out next */
    room scratch;
} image_worker;

/* A rectangle of the picture, mirrored, that may reach outside. */
typedef struct view {
    int32_t x, y, width, height;
    bool flip_x, flip_y;
    stk__border border;
    double fill;
} view;

struct stk__image_work {
    image_worker *worker;
    stk_dtype dtype;

    const stk__decode_state *decode; /* set as long as nothing is decoded */
    stk_bytes bytes;
    stk__image_info info;

    stk__image_size whole; /* the picture that the view is about */
    stk__pixels image;     /* what there is of it */
    int32_t image_x, image_y; /* its first pixel in the (scaled) picture */
    double scale;             /* 1, unless it was decoded at a smaller size: 1/2, 1/4, 1/8 */
    double extra_x, extra_y;  /* of a smaller size, which is rounded up: what lies before the picture's first pixel */
    bool owned;               /* it may be changed */
    view view;
};

/* How the result is to be stored, and what is painted over it afterwards. */
typedef struct ending {
    stk__store store;
    bool convert; /* else pixels are copied as they are */
    const stk__act *erases[ACTS_MAX];
    size_t erase_count;
    void *out;
} ending;

/* ---- memory ---- */

static void *room_get(image_worker *w, room *r, size_t size, stk_error *err)
{
    if (STK_LIKELY(size <= r->size))
        return r->data;
    stk_budget_free(w->call, r->data, r->size);
    *r = (room){0};
    const size_t rounded = (size + size / 8 + 4095) & ~(size_t)4095;
    r->data = stk_budget_alloc(w->call, rounded, err);
    r->size = r->data ? rounded : 0;
    return r->data;
}

stk_status stk__image_worker_open(const stk_call *call, void **out_worker, stk_error *err)
{
    image_worker *w = stk__calloc(1, sizeof *w);
    if (!w)
        return stk__nomem(sizeof *w, err);
    w->call = call;
    *out_worker = w;
    return STK_OK;
}

static void room_clear(const stk_call *call, room *r)
{
    stk_budget_free(call, r->data, r->size);
    *r = (room){0};
}

void stk__image_worker_trim(const stk_call *call)
{
    image_worker *w = call->worker;
    w->ahead = NULL;
    for (size_t i = 0; i < STK_COUNT(w->decoders); i++)
        stk__image_decoder_trim(w->decoders[i]);
    for (size_t i = 0; i < STK_COUNT(w->rooms); i++)
        room_clear(call, &w->rooms[i]);
    room_clear(call, &w->scratch);
}

void stk__image_worker_close(const stk_call *call)
{
    image_worker *w = call->worker;
    stk__image_worker_trim(call);
    for (size_t i = 0; i < STK_COUNT(w->decoders); i++)
        stk__image_decoder_free(w->decoders[i]);
    stk__free(w);
}

static void *decoder_alloc(void *arg, size_t size, stk_error *err)
{
    const image_worker *w = arg;
    return stk_budget_alloc(w->call, size, err);
}

static void decoder_free(void *arg, void *p, size_t size)
{
    const image_worker *w = arg;
    stk_budget_free(w->call, p, size);
}

static stk_status decoder_charge(void *arg, size_t size, stk_error *err)
{
    const image_worker *w = arg;
    return stk_budget_charge(w->call, size, err);
}

static void decoder_give_back(void *arg, size_t size)
{
    const image_worker *w = arg;
    stk_budget_return(w->call, size);
}

static stk_status get_decoder(image_worker *w, int which, stk__image_decoder **out, stk_error *err)
{
    if (STK_UNLIKELY(!w->decoders[which])) {
        const stk__image_memory memory = {decoder_alloc, decoder_free, w, decoder_charge, decoder_give_back};
        STK_TRY(stk__image_decoder_new(&memory, &w->decoders[which], err));
    }
    *out = w->decoders[which];
    return STK_OK;
}

stk_status stk__image_worker_decoder(const stk_call *call, stk__image_decoder **out, stk_error *err)
{
    return get_decoder(call->worker, 0, out, err);
}

stk_status stk__work_other(stk__image_work *work, int32_t width, int32_t height, int32_t channels, stk__pixels *out,
                           stk_error *err)
{
    image_worker *w = work->worker;
    const int32_t element = (int32_t)stk_dtype_size(work->dtype);
    const size_t stride = (size_t)width * (size_t)channels * (size_t)element;
    uint8_t *data = room_get(w, &w->rooms[w->turn], stride * (size_t)height, err);
    if (!data)
        return err->status;
    w->turn ^= 1;
    *out = (stk__pixels){data, width, height, channels, element, (ptrdiff_t)stride};
    return STK_OK;
}

void *stk__work_scratch(stk__image_work *work, size_t size, stk_error *err)
{
    return room_get(work->worker, &work->worker->scratch, size, err);
}

stk__pixels *stk__work_image(stk__image_work *work)
{
    return &work->image;
}

/* ---- decoding ---- */

typedef struct rect {
    int32_t x, y, width, height;
} rect;

static bool mirrors_x(int o)
{
    return o == 2 || o == 3 || o == 7 || o == 8;
}

static bool mirrors_y(int o)
{
    return o == 3 || o == 4 || o == 6 || o == 7;
}

static rect swapped(rect r)
{
    return (rect){r.y, r.x, r.height, r.width};
}

static rect mirrored(rect r, int orientation, int32_t width, int32_t height)
{
    if (mirrors_x(orientation))
        r.x = width - (r.x + r.width);
    if (mirrors_y(orientation))
        r.y = height - (r.y + r.height);
    return r;
}

/* From the picture as it is seen to the picture as it is stored, of the given size. */
static rect to_stored(rect r, int orientation, int32_t width, int32_t height)
{
    return mirrored(orientation >= 5 ? swapped(r) : r, orientation, width, height);
}

static rect to_seen(rect r, int orientation, int32_t width, int32_t height)
{
    r = mirrored(r, orientation, width, height);
    return orientation >= 5 ? swapped(r) : r;
}

static stk_status turn(stk__image_work *work, const stk__image_got *got, stk_error *err)
{
    const int o = work->info.orientation;
    stk__pixels seen;
    const bool swap = o >= 5;
    STK_TRY(stk__work_other(work, swap ? got->pixels.height : got->pixels.width,
                            swap ? got->pixels.width : got->pixels.height, got->pixels.channels, &seen, err));
    stk__orient(&seen, &got->pixels, o);
    const rect at = to_seen((rect){got->x, got->y, got->pixels.width, got->pixels.height}, o, got->scaled_width,
                            got->scaled_height);
    work->image = seen;
    work->image_x = at.x;
    work->image_y = at.y;
    return STK_OK;
}

/*
 * A scaled picture is rounded up to whole pixels, so its last ones reach beyond the picture: the scale is not the ratio of
 * the sizes but the power of two below. Where the picture is turned or mirrored those pixels may come first.
 */
static void set_scale(stk__image_work *work, const stk__image_got *got)
{
    const int32_t width = work->info.width, height = work->info.height;
    const int o = work->info.orientation;
    double scale = 1;
    while (scale * width > got->scaled_width || scale * height > got->scaled_height)
        scale /= 2;
    const double extra_x = mirrors_x(o) ? got->scaled_width - scale * width : 0;
    const double extra_y = mirrors_y(o) ? got->scaled_height - scale * height : 0;
    work->scale = scale;
    work->extra_x = o >= 5 ? extra_y : extra_x;
    work->extra_y = o >= 5 ? extra_x : extra_y;
}

/* Decodes at least the rectangle `r`; for a resize to cover_width x cover_height it may come out smaller. */
static stk_status decode(stk__image_work *work, rect r, int32_t cover_width, int32_t cover_height, stk_error *err)
{
    const stk__decode_state *d = work->decode;
    const stk__image_info *info = &work->info;
    const bool swap = info->orientation >= 5;
    const rect stored = to_stored(r, info->orientation, info->width, info->height);
    const stk__image_want want = {stored.x, stored.y, stored.width, stored.height, (int32_t)d->channels,
                                  swap ? cover_height : cover_width, swap ? cover_width : cover_height,
                                  d->exact || cover_width == 0, d->dtype == STK__DECODE_UINT16,
                                  d->mode == STK__DECODE_INDEX};
    stk__image_decoder *decoder;
    stk__image_got got;
    STK_TRY(get_decoder(work->worker, work->worker->ahead == work->bytes.data, &decoder, err));
    STK_TRY(stk__image_decode(decoder, work->bytes.data, (size_t)work->bytes.size, info, &want, &got, err));
    work->decode = NULL;
    work->image = got.pixels;
    work->image_x = got.x;
    work->image_y = got.y;
    work->owned = true;
    if (info->orientation != 1)
        STK_TRY(turn(work, &got, err));
    set_scale(work, &got);
    return STK_OK;
}

/* ---- the view ---- */

static void view_reset(stk__image_work *work)
{
    work->image_x = work->image_y = 0;
    work->scale = 1;
    work->extra_x = work->extra_y = 0;
    work->whole = (stk__image_size){work->image.width, work->image.height, work->image.channels};
    work->view = (view){.width = work->image.width, .height = work->image.height};
}

static bool view_is_whole(const stk__image_work *work)
{
    const view *v = &work->view;
    return v->x == 0 && v->y == 0 && v->width == work->whole.width && v->height == work->whole.height;
}

static bool view_is_inside(const stk__image_work *work)
{
    const view *v = &work->view;
    return v->x >= 0 && v->y >= 0 && v->width <= work->whole.width - v->x && v->height <= work->whole.height - v->y;
}

static stk_status decode_view(stk__image_work *work, stk_error *err)
{
    const view *v = &work->view;
    if (!work->decode)
        return STK_OK;
    if (view_is_inside(work))
        return decode(work, (rect){v->x, v->y, v->width, v->height}, 0, 0, err);
    return decode(work, (rect){0, 0, work->whole.width, work->whole.height}, 0, 0, err);
}

/* The part of the image that the view shows; for a view that lies inside. */
static stk__pixels view_pixels(const stk__image_work *work)
{
    stk__pixels p = work->image;
    p.data = stk__pixel_row(&p, work->view.y - work->image_y) +
             (ptrdiff_t)(work->view.x - work->image_x) * (ptrdiff_t)stk__pixel_bytes(&p);
    p.width = work->view.width;
    p.height = work->view.height;
    return p;
}

static void copy_view(const stk__image_work *work, const stk__pixels *out)
{
    const view *v = &work->view;
    double fill[STK__CHANNELS_MAX];
    uint8_t pixel[STK__CHANNELS_MAX * 8];
    for (int c = 0; c < work->image.channels; c++)
        fill[c] = v->fill;
    stk__convert(pixel, work->dtype, fill, STK_FLOAT64, (size_t)work->image.channels);
    stk__copy_view(out, &work->image, v->x - work->image_x, v->y - work->image_y, v->flip_x, v->flip_y, v->border, pixel);
}

/* Makes the image what the view shows. */
static stk_status settle(stk__image_work *work, stk_error *err)
{
    STK_TRY(decode_view(work, err));
    const view *v = &work->view;
    if (view_is_inside(work) && !v->flip_x && !v->flip_y) {
        work->image = view_pixels(work);
    } else {
        stk__pixels out;
        STK_TRY(stk__work_other(work, v->width, v->height, work->image.channels, &out, err));
        copy_view(work, &out);
        work->image = out;
        work->owned = true;
    }
    view_reset(work);
    return STK_OK;
}

/* The same, in memory that may be changed. */
static stk_status settle_owned(stk__image_work *work, stk_error *err)
{
    STK_TRY(settle(work, err));
    if (work->owned)
        return STK_OK;
    stk__pixels out;
    STK_TRY(stk__work_other(work, work->image.width, work->image.height, work->image.channels, &out, err));
    copy_view(work, &out);
    work->image = out;
    work->owned = true;
    return STK_OK;
}

/* A rectangle of what the view shows, in the coordinates of the picture. */
static rect through_view(const view *v, rect r)
{
    r.x = v->x + (v->flip_x ? v->width - (r.x + r.width) : r.x);
    r.y = v->y + (v->flip_y ? v->height - (r.y + r.height) : r.y);
    return r;
}

static stk_status act_view(stk__image_work *work, const stk__act *act, stk_error *err)
{
    view *v = &work->view;
    const rect r = {act->as.view.x, act->as.view.y, act->as.view.width, act->as.view.height};
    const bool inside = r.x >= 0 && r.y >= 0 && r.width <= v->width - r.x && r.height <= v->height - r.y;
    if (!inside && !view_is_whole(work))
        STK_TRY(settle(work, err)); /* what lies around a part of a picture is not its border */
    const rect at = through_view(v, r);
    v->x = at.x;
    v->y = at.y;
    v->width = r.width;
    v->height = r.height;
    if (!inside) {
        v->border = act->as.view.border;
        v->fill = act->as.view.fill;
    }
    return STK_OK;
}

static void act_flip(stk__image_work *work, const stk__act *act)
{
    work->view.flip_x ^= act->as.flip.x;
    work->view.flip_y ^= act->as.flip.y;
}

/* ---- the end ---- */

/* Whether nothing but storing is left. */
static bool only_storing(const stk__act *acts, size_t count, stk_dtype dtype)
{
    for (size_t i = 0; i < count; i++) {
        const stk__act_kind kind = acts[i].kind;
        if (kind == STK__ACT_NORMALIZE || kind == STK__ACT_CAST)
            dtype = STK_FLOAT32; /* or another that is not painted before it is stored */
        else if (kind != STK__ACT_LAYOUT && (kind != STK__ACT_ERASE || dtype == STK_UINT8))
            return false;
    }
    return true;
}

static stk_status plan_ending(stk__image_work *work, const stk__act *acts, size_t count, stk__image_size size,
                              const stk_call *last, stk_sample *sample, ending *e, stk_error *err)
{
    const stk__image_op *op = last->state;
    e->store = (stk__store){.dtype = op->to.dtype, .plain = true, .width = size.width, .height = size.height,
                            .channels = size.channels};
    e->erase_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (acts[i].kind == STK__ACT_NORMALIZE) {
            e->store.plain = false;
            memcpy(e->store.scale, acts[i].as.normalize.scale, sizeof(float) * (size_t)size.channels);
            memcpy(e->store.bias, acts[i].as.normalize.bias, sizeof(float) * (size_t)size.channels);
        } else if (acts[i].kind == STK__ACT_LAYOUT) {
            e->store.planar = true;
        } else if (acts[i].kind == STK__ACT_ERASE) {
            e->erases[e->erase_count++] = &acts[i];
        }
    }
    e->convert = !e->store.plain || e->store.planar || op->to.dtype != work->dtype;
    const int64_t interleaved[3] = {size.height, size.width, size.channels};
    const int64_t planar[3] = {size.channels, size.height, size.width};
    const bool fixed = op->to.shape[0] >= 0 && op->to.shape[1] >= 0 && op->to.shape[2] >= 0;
    e->out = stk_out(last, sample, op->out, fixed ? NULL : e->store.planar ? planar : interleaved, err);
    return e->out ? STK_OK : err->status;
}

/* Paints the rectangles of erasing ops over what was stored. */
static void paint(const ending *e)
{
    const stk__store *s = &e->store;
    const size_t element = stk_dtype_size(s->dtype);
    for (size_t i = 0; i < e->erase_count; i++) {
        const stk__act *a = e->erases[i];
        double fill[STK__CHANNELS_MAX] = {a->as.erase.fill, a->as.erase.fill, a->as.erase.fill, a->as.erase.fill};
        uint8_t pixel[STK__CHANNELS_MAX * 8];
        stk__convert(pixel, s->dtype, fill, STK_FLOAT64, STK__CHANNELS_MAX);
        const int32_t planes = s->planar ? s->channels : 1, channels = s->planar ? 1 : s->channels;
        for (int32_t c = 0; c < planes; c++) {
            const size_t stride = (size_t)s->width * (size_t)channels * element;
            const stk__pixels plane = {(uint8_t *)e->out + (size_t)c * stride * (size_t)s->height, s->width, s->height,
                                       channels, (int32_t)element, (ptrdiff_t)stride};
            stk__fill_rect(&plane, a->as.erase.x, a->as.erase.y, a->as.erase.width, a->as.erase.height, pixel);
        }
    }
}

/* Images of other types than uint8 are only copied, normalized (float32) or laid out anew, one at a time. */
static void store_other(const stk__image_work *work, const ending *e)
{
    const stk__pixels *in = &work->image;
    if (!e->store.plain)
        stk__store_floats(&e->store, e->out, (const float *)(const void *)in->data);
    else
        stk__to_planar(e->out, in->data, (int64_t)in->width * in->height, in->channels, (size_t)in->element_bytes);
}

static stk_status store_view(stk__image_work *work, const ending *e, stk_error *err)
{
    STK_TRY(decode_view(work, err));
    if (!e->convert) {
        const size_t stride = (size_t)e->store.width * stk__pixel_bytes(&work->image);
        const stk__pixels out = {e->out, e->store.width, e->store.height, e->store.channels, work->image.element_bytes,
                                 (ptrdiff_t)stride};
        copy_view(work, &out);
        return STK_OK;
    }
    if (!view_is_inside(work) || work->dtype != STK_UINT8)
        STK_TRY(settle(work, err));
    if (work->dtype != STK_UINT8) {
        store_other(work, e);
        return STK_OK;
    }
    const stk__pixels in = view_pixels(work);
    stk__store_image(&e->store, e->out, &in, work->view.flip_x, work->view.flip_y);
    return STK_OK;
}

/* ---- resizing ---- */

static void sink_store(void *arg, int32_t y, const uint8_t *row)
{
    const ending *e = arg;
    stk__store_row(&e->store, e->out, y, row);
}

static void sink_copy(void *arg, int32_t y, const uint8_t *row)
{
    const stk__pixels *out = arg;
    memcpy(stk__pixel_row(out, y), row, (size_t)out->stride);
}

/* A crop of the result: only that part is made. */
static bool fold_crop(stk__resize *r, const stk__act *act)
{
    const int32_t x = act->as.view.x, y = act->as.view.y, width = act->as.view.width, height = act->as.view.height;
    if (x < 0 || y < 0 || width > r->width - x || height > r->height - y)
        return false;
    r->crop_x += r->flip_x ? r->width - (x + width) : x;
    r->crop_y += r->flip_y ? r->height - (y + height) : y;
    r->width = width;
    r->height = height;
    return true;
}

/* Takes the crops and flips that follow into the resize. Returns how many. */
static size_t fold_after(stk__resize *r, const stk__act *acts, size_t count)
{
    size_t n = 0;
    for (; n < count; n++) {
        if (acts[n].kind == STK__ACT_FLIP) {
            r->flip_x ^= acts[n].as.flip.x;
            r->flip_y ^= acts[n].as.flip.y;
        } else if (acts[n].kind != STK__ACT_VIEW || !fold_crop(r, &acts[n])) {
            break;
        }
    }
    return n;
}

/* Decodes for the resize, and moves its box to where it lies in what was decoded. */
static stk_status resize_input(stk__image_work *work, rect from, stk__resize *r, stk__pixels *out, stk_error *err)
{
    if (work->decode) {
        /* As large as the whole result is; a filter that looks at few pixels gets them as they are. */
        const bool smooth = r->antialias && r->filter != STK__FILTER_NEAREST;
        STK_TRY(decode(work, from, smooth ? r->whole_width : 0, smooth ? r->whole_height : 0, err));
    }
    *out = work->image;
    if (work->scale == 1) {
        work->view = (view){.x = from.x, .y = from.y, .width = from.width, .height = from.height};
        *out = view_pixels(work);
        return STK_OK;
    }
    stk__box *b = &r->box;
    b->x0 = fmax(0, (from.x + b->x0) * work->scale + work->extra_x - work->image_x);
    b->y0 = fmax(0, (from.y + b->y0) * work->scale + work->extra_y - work->image_y);
    b->x1 = fmin(out->width, (from.x + b->x1) * work->scale + work->extra_x - work->image_x);
    b->y1 = fmin(out->height, (from.y + b->y1) * work->scale + work->extra_y - work->image_y);
    return STK_OK;
}

static stk_status resize(stk__image_work *work, stk__resize *r, const stk__pixels *pixels, stk__row_sink sink, void *arg,
                         stk_error *err)
{
    /* What is not uint8 is only picked, whole pixels at a time, so its bytes can be the channels. */
    stk__pixels bytes = *pixels;
    bytes.channels *= bytes.element_bytes;
    bytes.element_bytes = 1;
    const stk__pixels *in = &bytes;
    const size_t size = stk__resize_scratch(r, in->width, in->height, in->channels);
    if (size == 0)
        return stk_error_set(err, STK_CORRUPT, "cannot resize %d x %d pixels to %d x %d", in->width, in->height, r->width,
                             r->height);
    void *scratch = stk__work_scratch(work, size, err);
    if (!scratch)
        return err->status;
    stk__resize_run(r, in, scratch, sink, arg);
    return STK_OK;
}

/* ---- all of it ---- */

typedef struct chain {
    const stk_call *const *calls;
    size_t call_count;
    stk_sample *sample;
    stk__act acts[ACTS_MAX];
    size_t ops[ACTS_MAX]; /* the op that each act is of */
    size_t count;
    size_t at; /* the op at work */
    stk__image_work work;
} chain;

static stk_status finish(chain *c, size_t from, stk_error *err)
{
    ending e;
    const stk__image_size size = {c->work.view.width, c->work.view.height, c->work.whole.channels};
    STK_TRY(plan_ending(&c->work, c->acts + from, c->count - from, size, c->calls[c->call_count - 1], c->sample, &e, err));
    STK_TRY(store_view(&c->work, &e, err));
    paint(&e);
    return STK_OK;
}

/* One resize, straight into the batch where nothing but storing is left. */
static stk_status act_resize(chain *c, size_t *i, bool *out_done, stk_error *err)
{
    stk__image_work *work = &c->work;
    const stk__act *act = &c->acts[*i];
    if (!view_is_inside(work))
        STK_TRY(settle(work, err));
    const rect from = through_view(&work->view, (rect){act->as.resize.x, act->as.resize.y, act->as.resize.from_width,
                                                       act->as.resize.from_height});
    const int32_t width = act->as.resize.width, height = act->as.resize.height;
    stk__resize r = {.filter = act->as.resize.filter, .antialias = act->as.resize.antialias, .mirror_x = work->view.flip_x,
                     .mirror_y = work->view.flip_y, .width = width, .height = height, .whole_width = width,
                     .whole_height = height, .box = {0, 0, from.width, from.height}};
    *i += 1 + fold_after(&r, act + 1, c->count - *i - 1);
    stk__pixels in;
    STK_TRY(resize_input(work, from, &r, &in, err));
    *out_done = work->dtype == STK_UINT8 && only_storing(c->acts + *i, c->count - *i, STK_UINT8);
    if (*out_done) {
        ending e;
        const stk__image_size size = {r.width, r.height, work->whole.channels};
        STK_TRY(plan_ending(work, c->acts + *i, c->count - *i, size, c->calls[c->call_count - 1], c->sample, &e, err));
        STK_TRY(resize(work, &r, &in, sink_store, &e, err));
        paint(&e);
        return STK_OK;
    }
    stk__pixels out;
    STK_TRY(stk__work_other(work, r.width, r.height, in.channels, &out, err));
    STK_TRY(resize(work, &r, &in, sink_copy, &out, err));
    work->image = out;
    work->owned = true;
    view_reset(work);
    return STK_OK;
}

static stk_status act_erase(stk__image_work *work, const stk__act *act, stk_error *err)
{
    const double fill[STK__CHANNELS_MAX] = {act->as.erase.fill, act->as.erase.fill, act->as.erase.fill, act->as.erase.fill};
    uint8_t pixel[STK__CHANNELS_MAX * 8];
    STK_TRY(settle_owned(work, err));
    stk__convert(pixel, work->dtype, fill, STK_FLOAT64, STK__CHANNELS_MAX);
    stk__fill_rect(&work->image, act->as.erase.x, act->as.erase.y, act->as.erase.width, act->as.erase.height, pixel);
    return STK_OK;
}

static stk_status act_pixels(stk__image_work *work, const stk__act *act, stk_error *err)
{
    STK_TRY(settle_owned(work, err));
    STK_TRY(act->as.pixels.apply(act, work, err));
    view_reset(work);
    return STK_OK;
}

static stk_status carry_out(chain *c, stk_error *err)
{
    for (size_t i = 0; i < c->count;) {
        const stk__act *act = &c->acts[i];
        if (only_storing(act, c->count - i, c->work.dtype))
            return finish(c, i, err);
        c->at = c->work.decode ? 0 : c->ops[i]; /* what fails while nothing is decoded is decoding */
        if (act->kind == STK__ACT_RESIZE) {
            bool done = false;
            STK_TRY(act_resize(c, &i, &done, err));
            if (done)
                return STK_OK;
            continue;
        }
        if (act->kind == STK__ACT_VIEW)
            STK_TRY(act_view(&c->work, act, err));
        else if (act->kind == STK__ACT_FLIP)
            act_flip(&c->work, act);
        else if (act->kind == STK__ACT_PIXELS)
            STK_TRY(act_pixels(&c->work, act, err));
        else
            STK_TRY(act_erase(&c->work, act, err));
        i++;
    }
    return finish(c, c->count, err);
}

/* The size of an image after an act. */
static void size_after(const stk__act *act, const stk__image_op *op, stk__image_size *size)
{
    if (act->kind == STK__ACT_VIEW) {
        size->width = act->as.view.width;
        size->height = act->as.view.height;
    } else if (act->kind == STK__ACT_RESIZE) {
        size->width = act->as.resize.width;
        size->height = act->as.resize.height;
    } else if (act->kind == STK__ACT_PIXELS) {
        size->channels = (int32_t)op->to.shape[2];
    }
}

/* Asks every op what it does to this sample. Nothing is decoded yet. */
static stk_status draw_all(chain *c, size_t from, stk_error *err)
{
    stk__image_size size = c->work.whole;
    for (size_t i = from; i < c->call_count; i++) {
        const stk__image_op *op = c->calls[i]->state;
        stk__act *act = &c->acts[c->count];
        act->kind = STK__ACT_NOTHING;
        act->state = op;
        c->at = c->ops[c->count] = i;
        STK_TRY(op->draw(c->calls[i], c->sample, &size, act, err));
        if (act->kind == STK__ACT_NOTHING)
            continue;
        size_after(act, op, &size);
        c->count++;
    }
    return STK_OK;
}

/* 16 bits where nothing was said: of gray they are measurements, so nobody may cut them; of a photograph, 8 do. */
static stk_status check_depth(const stk_call *call, const stk__image_info *info, stk_error *err)
{
    stk__decode_state *d = call->state;
    const char *kind = stk__image_kind_name(info->kind);
    if (info->channels <= 2)
        return stk_error_set(err, STK_INVALID, "%s of 16 bits of gray, as depth maps and scans are: dtype=uint16 keeps "
                             "all of them, dtype=uint8 the high 8", kind);
    if (!atomic_exchange(&d->told, true)) {
        char text[256];
        snprintf(text, sizeof text, "decode_image: field '%.60s' has a %s of 16 bits of colour, of which the high 8 are kept; "
                 "dtype=uint16 keeps all, dtype=uint8 says that 8 are meant", d->field, kind);
        call->host->warn(call, text);
    }
    return STK_OK;
}

/* What a picture holds, against what the op was told; where that can mean two things, it is an error that names both. */
static stk_status check_meaning(const stk_call *call, const stk__image_info *info, stk_error *err)
{
    const stk__decode_state *d = call->state;
    const char *kind = stk__image_kind_name(info->kind);
    if (d->mode == STK__DECODE_INDEX) {
        STK_TRY(stk__image_check_stored(info, err));
        if (info->bits > 8 && d->dtype != STK__DECODE_UINT16)
            return stk_error_set(err, STK_INVALID, "%s of %d bits: mode=index wants dtype=uint16 for its numbers", kind,
                                 (int)info->bits);
        return STK_OK;
    }
    if (d->mode == STK__DECODE_AUTO && d->channels == 1 && info->kind == STK__IMAGE_PNG && info->colors && !info->ramp)
        return stk_error_set(err, STK_INVALID, "%s with a palette of %d colours: mode=index gives the numbers of its pixels, "
                             "as for a mask of classes, mode=color the gray of their colours", kind, (int)info->colors);
    if (d->mode == STK__DECODE_AUTO && d->channels == 1 && d->dtype == STK__DECODE_UINT16 && info->bits <= 8 &&
        info->channels <= 2)
        return stk_error_set(err, STK_INVALID, "%s of %d bits of gray, and dtype=uint16: mode=index keeps its numbers as they "
                             "are, mode=color spreads them over 0 to 65535", kind, (int)info->bits);
    if (info->bits == 16 && d->dtype == STK__DECODE_UINT8_IF_PLAIN)
        return check_depth(call, info, err);
    return STK_OK;
}

static stk_status start_encoded(chain *c, const stk__decode_state *d, const stk_value *value, stk_error *err)
{
    stk__image_work *work = &c->work;
    memcpy(&work->bytes, value->data, sizeof work->bytes);
    STK_TRY(stk__image_probe(work->bytes.data, (size_t)work->bytes.size, d->orient, &work->info, err));
    const stk__image_info *info = &work->info;
    if (info->width > SIDE_MAX || info->height > SIDE_MAX)
        return stk_error_set(err, STK_CORRUPT, "%s image of %d x %d pixels, wanted at most %d on a side",
                             stk__image_kind_name(info->kind), info->width, info->height, SIDE_MAX);
    if ((int64_t)info->width * info->height > d->max_pixels)
        return stk_error_set(err, STK_CORRUPT, "%s image of %d x %d pixels, wanted at most max_pixels=%lld",
                             stk__image_kind_name(info->kind), info->width, info->height, (long long)d->max_pixels);
    STK_TRY(check_meaning(c->calls[0], info, err));
    const bool swap = info->orientation >= 5;
    work->decode = d;
    work->whole = (stk__image_size){swap ? info->height : info->width, swap ? info->width : info->height,
                                    (int32_t)d->channels};
    work->image.channels = (int32_t)d->channels;
    work->image.element_bytes = (int32_t)stk_dtype_size(work->dtype);
    return STK_OK;
}

static stk_status start_pixels(chain *c, const stk__image_op *op, const stk_value *value, stk_error *err)
{
    stk__image_work *work = &c->work;
    const int64_t height = value->shape[0], width = value->shape[1];
    if (height <= 0 || width <= 0 || height > SIDE_MAX || width > SIDE_MAX)
        return stk_error_set(err, STK_CORRUPT, "image of %lld x %lld pixels", (long long)width, (long long)height);
    const int32_t element = (int32_t)stk_dtype_size(op->from.dtype), channels = (int32_t)op->from.shape[2];
    work->image = (stk__pixels){value->data, (int32_t)width, (int32_t)height, channels, element,
                                (ptrdiff_t)width * channels * element};
    work->whole = (stk__image_size){(int32_t)width, (int32_t)height, channels};
    return STK_OK;
}

static stk_status run_chain(chain *c, stk_error *err)
{
    const stk__image_op *first = c->calls[0]->state;
    const stk_value *value = &c->sample->values[first->in];
    c->count = c->at = 0;
    c->work = (stk__image_work){.worker = c->calls[0]->worker, .dtype = first->decodes ? first->to.dtype : first->from.dtype,
                                .scale = 1};
    if (first->decodes)
        STK_TRY(start_encoded(c, (const stk__decode_state *)(const void *)first, value, err));
    else
        STK_TRY(start_pixels(c, first, value, err));
    c->work.view = (view){.width = c->work.whole.width, .height = c->work.whole.height};
    STK_TRY(draw_all(c, first->decodes ? 1 : 0, err));
    c->at = 0;
    return carry_out(c, err);
}

/* Whoever raises the budget wants to know for what, and how far. */
static stk_status tell_demand(const chain *c, stk_error *err)
{
    const stk__image_info *info = &c->work.info;
    const stk__image_op *last = c->calls[c->call_count - 1]->state;
    const stk_call *call = c->calls[0];
    const uint64_t pixels = (uint64_t)info->width * (uint64_t)info->height * (uint64_t)c->work.whole.channels;
    const uint64_t element = stk_dtype_size(last->to.dtype == STK_BYTES ? c->work.dtype : last->to.dtype);
    const bool varies = last->to.ndim == 3 && (last->to.shape[0] < 0 || last->to.shape[1] < 0 || last->to.shape[2] < 0);
    char what[64];
    snprintf(what, sizeof what, "%s of %d x %d pixels", stk__image_kind_name(info->kind), info->width, info->height);
    /* Two more pictures: what ops make of one lies beside it. */
    return call->host->no_room(call, what, stk__image_demand(info, c->work.whole.channels) + 2 * pixels * element,
                               varies ? pixels * element : 0, err);
}

static stk_status process_chain(const stk_call *const *calls, size_t count, stk_sample *sample, size_t *out_at, stk_error *err)
{
    chain c;
    c.calls = calls;
    c.call_count = count;
    c.sample = sample;
    const stk_status status = run_chain(&c, err);
    *out_at = c.at;
    if (STK_UNLIKELY(status == STK_BUDGET) && c.work.info.kind != STK__IMAGE_UNKNOWN)
        tell_demand(&c, err);
    if (STK_UNLIKELY(status != STK_OK) && !err->field[0])
        snprintf(err->field, sizeof err->field, "%s", ((const stk__image_op *)calls[c.at]->state)->from.name);
    return status;
}

/* Small pictures are decoded in pairs: while one waits for its next code, the other goes on. */
#define PAIR_PIXELS (128 * 128)

static bool plan_pair(const stk__decode_state *d, const stk_value *value, stk__image_info *info, stk__image_want *want,
                      stk__image_job *job)
{
    stk_bytes bytes;
    memcpy(&bytes, value->data, sizeof bytes);
    if (stk__image_probe(bytes.data, (size_t)bytes.size, false, info, NULL) != STK_OK || info->kind != STK__IMAGE_PNG ||
        (int64_t)info->width * info->height > STK_MIN((int64_t)PAIR_PIXELS, d->max_pixels))
        return false;
    *want = (stk__image_want){.width = info->width, .height = info->height, .channels = (int32_t)d->channels, .exact = true,
                              .wide = d->dtype == STK__DECODE_UINT16, .stored = d->mode == STK__DECODE_INDEX};
    *job = (stk__image_job){.data = bytes.data, .size = (size_t)bytes.size, .info = info, .want = want};
    return true;
}

static void pair_chain(const stk_call *const *calls, size_t count, const stk_sample *a, const stk_sample *b)
{
    const stk__image_op *first = calls[0]->state;
    const stk__decode_state *d = (const stk__decode_state *)(const void *)first;
    image_worker *w = calls[0]->worker;
    stk__image_info info[2];
    stk__image_want want[2];
    stk__image_job job[2];
    w->ahead = NULL;
    if (!first->decodes || !plan_pair(d, &a->values[first->in], &info[0], &want[0], &job[0]) ||
        !plan_pair(d, &b->values[first->in], &info[1], &want[1], &job[1]) ||
        get_decoder(w, 0, &job[0].decoder, NULL) != STK_OK || get_decoder(w, 1, &job[1].decoder, NULL) != STK_OK)
        return;
    stk__image_prepare_pair(&job[0], &job[1]);
    w->ahead = job[1].data;
}

/* ---- planning ---- */

/* What the ops so far have made of the pixels. */
typedef struct progress {
    bool other;      /* the image is no uint8 to begin with */
    bool normalized, stored, erased, planar;
    stk_dtype dtype;
} progress;

static bool may_follow(const progress *p, const stk__image_op *op)
{
    const stk_dtype to = op->to.dtype;
    const bool half = to == STK_FLOAT16 || to == STK_BFLOAT16;
    switch (op->kind) {
    case STK__ACT_VIEW:
    case STK__ACT_FLIP:
        return !p->stored;
    case STK__ACT_RESIZE:
        return !p->stored && (!p->other || op->from.dtype == STK_UINT16);
    case STK__ACT_PIXELS:
        return !p->stored && !p->other;
    case STK__ACT_ERASE:
        return !p->planar;
    case STK__ACT_NORMALIZE:
        return !p->other && !p->normalized && !p->erased && !p->planar && (p->dtype == STK_UINT8 || p->dtype == STK_FLOAT32);
    case STK__ACT_CAST:
        /* Through a narrower type first would round twice. */
        return !p->other && !p->erased && ((to == STK_FLOAT32 && p->dtype == STK_UINT8) ||
                                           (half && (p->dtype == STK_UINT8 || p->dtype == STK_FLOAT32)));
    case STK__ACT_LAYOUT:
        return !p->other && !p->planar;
    case STK__ACT_NOTHING:
        break;
    }
    return false;
}

static void note_progress(progress *p, const stk__image_op *op)
{
    p->normalized = p->normalized || op->kind == STK__ACT_NORMALIZE;
    p->stored = p->stored || op->kind == STK__ACT_NORMALIZE || op->kind == STK__ACT_CAST || op->kind == STK__ACT_LAYOUT;
    p->erased = p->erased || (op->kind == STK__ACT_ERASE && p->stored);
    p->planar = p->planar || op->kind == STK__ACT_LAYOUT;
    p->dtype = op->to.dtype;
}

static bool chain_joins(const void *const *states, size_t count, const void *next)
{
    const stk__image_op *first = states[0];
    const stk_dtype dtype = first->decodes ? first->to.dtype : first->from.dtype;
    progress p = {.other = dtype != STK_UINT8, .dtype = first->to.dtype};
    if (first->kind == STK__ACT_NOTHING && !first->decodes)
        return false; /* a layout that is no act of the chain */
    const bool stores = first->kind == STK__ACT_NORMALIZE || first->kind == STK__ACT_CAST ||
                        first->kind == STK__ACT_LAYOUT || first->kind == STK__ACT_ERASE;
    if (count >= ACTS_MAX - 1 || (p.other && stores))
        return false;
    for (size_t i = 0; i < count; i++)
        note_progress(&p, states[i]);
    return may_follow(&p, next);
}

static const char *chain_approximates(const void *const *states, size_t count, bool exact)
{
    const stk__image_op *first = states[0];
    if (!first->decodes || exact || ((const stk__decode_state *)(const void *)first)->exact)
        return NULL;
    for (size_t i = 1; i < count; i++) {
        const stk__image_op *op = states[i];
        if (op->kind == STK__ACT_RESIZE)
            return "decode_image: a JPEG is decoded at a smaller size where the resize behind it allows; exact=true turns this off";
        if (op->kind != STK__ACT_VIEW && op->kind != STK__ACT_FLIP)
            return NULL;
    }
    return NULL;
}

const stk__fuse stk__image_fuse = {
    .joins = chain_joins,
    .process = process_chain,
    .pair = pair_chain,
    .approximates = chain_approximates,
};

stk_status stk__image_process(const stk_call *call, stk_sample *sample, stk_error *err)
{
    size_t at;
    return process_chain(&call, 1, sample, &at, err);
}
