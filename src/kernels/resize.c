/* Resizing: plans the weights, then filters rows along x into a small ring from which the pass along y reads. */
#include "kernels/resize.h"

#include <string.h>

#include "base/compiler.h"
#include "kernels/resize_impl.h"

/* Takes room out of the scratch memory; with no memory it only counts. */
typedef struct carver {
    uint8_t *memory;
    uint64_t used;
} carver;

static void *carve(carver *c, uint64_t count, size_t size)
{
    void *const at = c->memory ? c->memory + c->used : NULL;
    c->used += (count * size + 63) / 64 * 64;
    return at;
}

static void carve_axis(carver *c, stk__resize_axis *axis, int32_t taps)
{
    const uint64_t whole = (uint64_t)axis->whole;
    axis->stride = taps + taps % 2;
    axis->start = carve(c, whole, sizeof *axis->start);
    axis->count = carve(c, whole, sizeof *axis->count);
    axis->weights = carve(c, whole * (uint64_t)axis->stride, sizeof *axis->weights);
}

/* The tables have room for the layout that needs most: four lanes for each pixel. */
static void carve_passes(carver *c, stk__resize_plan *p)
{
    const uint64_t lanes = ((uint64_t)p->x.size * 4 + 15) / 16 * 16, pairs = ((uint64_t)p->x.stride + 1) / 2;
    const uint64_t row_pairs = (uint64_t)p->y.stride / 2 + 1;
    const uint64_t row_bytes = (uint64_t)p->x.in_size * (uint64_t)p->channels + STK__ROW_MARGIN;
    p->ring_stride = ((size_t)p->elements + 16 + 63) / 64 * 64;
    p->base = carve(c, lanes / 4, sizeof *p->base);
    p->index = carve(c, lanes, sizeof *p->index);
    p->lane_weights = carve(c, lanes * pairs, sizeof *p->lane_weights);
    p->row_weights = carve(c, (uint64_t)p->y.size * row_pairs, sizeof *p->row_weights);
    p->ring_rows = carve(c, row_pairs, sizeof *p->ring_rows);
    p->ring_holds = carve(c, row_pairs, sizeof *p->ring_holds);
    p->ring = carve(c, row_pairs * p->ring_stride, sizeof *p->ring);
    p->margin[0] = carve(c, row_bytes, 1);
    p->margin[1] = carve(c, row_bytes, 1);
}

static int32_t whole_width(const stk__resize *r)
{
    return r->whole_width ? r->whole_width : r->width;
}

static int32_t whole_height(const stk__resize *r)
{
    return r->whole_height ? r->whole_height : r->height;
}

static void carve_plan(carver *c, stk__resize_plan *p, const stk__resize *r, int32_t in_width, int32_t in_height,
                       int32_t channels)
{
    const stk__box *b = &r->box;
    p->channels = channels;
    p->elements = r->width * channels;
    p->x =
        (stk__resize_axis){.in_size = in_width, .size = r->width, .whole = whole_width(r), .bits_max = STK__X_BITS_MAX};
    p->y = (stk__resize_axis){
        .in_size = in_height, .size = r->height, .whole = whole_height(r), .bits_max = STK__Y_BITS_MAX};
    carve_axis(c, &p->x, stk__resize_taps(r->filter, r->antialias, b->x1 - b->x0, in_width, p->x.whole));
    carve_axis(c, &p->y, stk__resize_taps(r->filter, r->antialias, b->y1 - b->y0, in_height, p->y.whole));
    const uint64_t x_weights = (uint64_t)p->x.whole * (uint64_t)p->x.stride;
    const uint64_t y_weights = (uint64_t)p->y.whole * (uint64_t)p->y.stride;
    p->row = carve(c, ((uint64_t)p->elements + 63) / 64 * 64, 1);
    if (r->filter == STK__FILTER_NEAREST)
        return;
    p->real_weights = carve(c, STK_MAX(x_weights, y_weights), sizeof *p->real_weights);
    carve_passes(c, p);
}

static bool is_part(int32_t start, int32_t size, int32_t whole, int32_t limit)
{
    return size >= 1 && whole <= limit && start >= 0 && start <= whole - size;
}

static bool is_sound(const stk__resize *r, int32_t in_width, int32_t in_height, int32_t channels)
{
    /* Offsets of bytes and lanes in a row are kept in 32 bits. */
    const int32_t most = r->filter == STK__FILTER_NEAREST ? 8 : STK__CHANNELS_MAX;
    const int32_t limit = (INT32_MAX - 256) / most;
    const stk__box *b = &r->box;
    return channels >= 1 && channels <= most && in_width >= 1 && in_height >= 1 && in_width <= limit &&
           in_height <= limit && is_part(r->crop_x, r->width, whole_width(r), limit) &&
           is_part(r->crop_y, r->height, whole_height(r), limit) && b->x0 >= 0 && b->y0 >= 0 && b->x0 < b->x1 &&
           b->y0 < b->y1 && b->x1 <= in_width && b->y1 <= in_height;
}

size_t stk__resize_scratch(const stk__resize *r, int32_t in_width, int32_t in_height, int32_t channels)
{
    if (!is_sound(r, in_width, in_height, channels))
        return 0;
    carver c = {0};
    stk__resize_plan p = {0};
    carve_plan(&c, &p, r, in_width, in_height, channels);
    return c.used > SIZE_MAX / 2 ? 0 : (size_t)c.used;
}

static inline void pick_row(uint8_t *restrict out, const uint8_t *restrict in, const int32_t *start, int32_t width,
                            size_t channels)
{
    for (int32_t x = 0; x < width; x++)
        memcpy(out + (size_t)x * channels, in + (size_t)start[x] * channels, channels);
}

static bool is_consecutive(const stk__resize_axis *axis)
{
    for (int32_t i = 1; i < axis->size; i++)
        if (axis->start[i] != axis->start[0] + i)
            return false;
    return true;
}

/* Each pixel of the result is one of the input: nearest, and anything that leaves the size as it is. */
static void run_pick(const stk__resize *r, const stk__resize_plan *p, const stk__pixels *in, stk__row_sink sink,
                     void *arg)
{
    const bool as_is = is_consecutive(&p->x);
    int32_t held = -1;
    for (int32_t y = 0; y < r->height; y++) {
        const int32_t from = p->y.start[y], to = r->flip_y ? r->height - 1 - y : y;
        const uint8_t *row = stk__pixel_row(in, from);
        if (as_is) {
            sink(arg, to, row + (size_t)p->x.start[0] * (size_t)p->channels);
            continue;
        }
        if (held != from) {
            switch (p->channels) {
            case 1:
                pick_row(p->row, row, p->x.start, r->width, 1);
                break;
            case 2:
                pick_row(p->row, row, p->x.start, r->width, 2);
                break;
            case 3:
                pick_row(p->row, row, p->x.start, r->width, 3);
                break;
            case 4:
                pick_row(p->row, row, p->x.start, r->width, 4);
                break;
            default:
                pick_row(p->row, row, p->x.start, r->width, (size_t)p->channels);
            }
            held = from;
        }
        sink(arg, to, p->row);
    }
}

/* A row that may be read beyond its end: itself where more of the image follows in memory, else a copy. */
static const uint8_t *row_with_margin(const stk__resize_plan *p, const stk__pixels *in, int32_t y, uint8_t *copy)
{
    const size_t size = (size_t)p->x.in_size * (size_t)p->channels;
    const ptrdiff_t rows_after = in->stride < 0 ? y : in->height - 1 - y;
    const size_t step = (size_t)(in->stride < 0 ? -in->stride : in->stride);
    const uint8_t *row = stk__pixel_row(in, y);
    if ((size_t)rows_after * step >= STK__ROW_MARGIN)
        return row;
    memcpy(copy, row, size);
    memset(copy + size, 0, STK__ROW_MARGIN);
    return copy;
}

static const uint32_t *filtered_pair(const stk__resize_plan *p, const stk__pixels *in, int32_t pair)
{
    const int32_t place = pair % p->row_pairs;
    uint32_t *const out = p->ring + (size_t)place * p->ring_stride;
    if (p->ring_holds[place] == pair)
        return out;
    const int32_t second = STK_MIN(2 * pair + 1, in->height - 1);
    const uint8_t *a = row_with_margin(p, in, 2 * pair, p->margin[0]);
    const uint8_t *b = row_with_margin(p, in, second, p->margin[1]);
    p->across(p, a, b, out);
    p->ring_holds[place] = pair;
    return out;
}

static void run_filter(const stk__resize *r, const stk__resize_plan *p, const stk__pixels *in, stk__row_sink sink,
                       void *arg)
{
    for (int32_t i = 0; i < p->row_pairs; i++) {
        p->ring_holds[i] = -1;
        uint32_t *const row = p->ring + (size_t)i * p->ring_stride;
        memset(row + p->elements, 0, (p->ring_stride - (size_t)p->elements) * sizeof *row);
    }
    for (int32_t y = 0; y < r->height; y++) {
        const int32_t first = p->y.start[y] / 2, last = (p->y.start[y] + p->y.count[y] - 1) / 2;
        for (int32_t pair = first; pair <= last; pair++)
            p->ring_rows[pair - first] = filtered_pair(p, in, pair);
        p->down(p, p->ring_rows, p->row_weights + (size_t)y * (size_t)p->row_pairs, last - first + 1, p->row);
        sink(arg, r->flip_y ? r->height - 1 - y : y, p->row);
    }
}

void stk__resize_run(const stk__resize *r, const stk__pixels *in, void *scratch, stk__row_sink sink, void *arg)
{
    carver c = {.memory = scratch};
    stk__resize_plan p = {0};
    carve_plan(&c, &p, r, in->width, in->height, in->channels);
    const stk__resize_span across = {r->box.x0, r->box.x1, r->flip_x, r->mirror_x, r->crop_x};
    const stk__resize_span down = {r->box.y0, r->box.y1, false, r->mirror_y, r->crop_y};
    stk__resize_weigh(&p.x, r, &across, p.real_weights);
    stk__resize_weigh(&p.y, r, &down, p.real_weights);
    if (p.x.taps == 1 && p.y.taps == 1) {
        run_pick(r, &p, in, sink, arg);
        return;
    }
    stk__resize_choose(&p);
    run_filter(r, &p, in, sink, arg);
}
