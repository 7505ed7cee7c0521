/* The filter weights of one axis, as Pillow defines them, in fixed point. */
#include "kernels/resize_impl.h"

#include <math.h>
#include <string.h>

#include "base/compiler.h"

static double support_of(stk__filter filter)
{
    return filter == STK__FILTER_BICUBIC ? 2.0 : filter == STK__FILTER_AREA ? 0.5 : 1.0;
}

/* How much wider than between neighbouring pixels the filter is. An area is always that of the whole result pixel. */
static double spread_of(stk__filter filter, bool antialias, double scale)
{
    return scale > 1 && (antialias || filter == STK__FILTER_AREA) ? scale : 1;
}

int32_t stk__resize_taps(stk__filter filter, bool antialias, double length, int32_t in_size, int32_t size)
{
    if (filter == STK__FILTER_NEAREST)
        return 1;
    const double taps = ceil(support_of(filter) * spread_of(filter, antialias, length / size)) * 2 + 1;
    return taps < in_size ? (int32_t)taps : in_size;
}

static inline double weight_at(stk__filter filter, double x)
{
    if (filter == STK__FILTER_AREA)
        return x > -0.5 && x <= 0.5;
    x = fabs(x);
    if (filter == STK__FILTER_BILINEAR)
        return x < 1 ? 1 - x : 0;
    const double a = -0.5;
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static inline double weigh_window(stk__filter filter, double *weights, int32_t count, double first, double step)
{
    double sum = 0;
    for (int32_t k = 0; k < count; k++)
        sum += weights[k] = weight_at(filter, (first + k) * step);
    return sum;
}

/* The window and the real weights of one result. Returns the largest weight. */
static double weigh_one(stk__resize_axis *axis, int32_t i, stk__filter filter, double center, double spread, double *w)
{
    const double support = support_of(filter) * spread;
    const double low = center - support + 0.5, high = center + support + 0.5;
    int32_t start = low < 0 ? 0 : (int32_t)low;
    const int32_t end = high > axis->in_size ? axis->in_size : (int32_t)high;
    start = STK_MIN(start, axis->in_size - 1);
    const int32_t count = STK_MAX(STK_MIN(end - start, axis->stride), 1);
    const double first = start - center + 0.5, step = 1 / spread;
    double sum;
    if (filter == STK__FILTER_BILINEAR)
        sum = weigh_window(STK__FILTER_BILINEAR, w, count, first, step);
    else if (filter == STK__FILTER_BICUBIC)
        sum = weigh_window(STK__FILTER_BICUBIC, w, count, first, step);
    else
        sum = weigh_window(STK__FILTER_AREA, w, count, first, step);
    if (sum == 0)
        sum = w[0] = 1;
    double most = 0;
    const double share = 1 / sum;
    for (int32_t k = 0; k < count; k++) {
        w[k] *= share;
        most = STK_MAX(most, fabs(w[k]));
    }
    axis->start[i] = start;
    axis->count[i] = count;
    return most;
}

/* The error of each rounding goes into the next one, so that the sum is exact: a constant image stays constant. */
static void round_one(stk__resize_axis *axis, int32_t i, const double *real)
{
    const double one = (double)(1 << axis->bits), up = 4 * one; /* casts round down where the number is positive */
    int16_t *w = axis->weights + (size_t)i * (size_t)axis->stride;
    double sum = up + 0.5;
    int32_t before = 4 << axis->bits, from = 0, end = 0;
    for (int32_t k = 0; k < axis->count[i]; k++) {
        sum += real[k] * one;
        const int32_t now = (int32_t)sum;
        w[k] = (int16_t)(now - before);
        before = now;
        if (w[k])
            end = k + 1;
        else if (end == 0)
            from = k + 1;
    }
    if (from)
        memmove(w, w + from, (size_t)(end - from) * sizeof *w);
    memset(w + (end - from), 0, (size_t)(axis->stride - (end - from)) * sizeof *w);
    axis->start[i] += from;
    axis->count[i] = end - from;
    axis->taps = STK_MAX(axis->taps, end - from);
}

/* Pillow's nearest adds up the steps; so does this, to be equal to it in every last bit. */
static void choose_nearest(stk__resize_axis *axis, double from, double scale, bool flip)
{
    double at = from + scale * 0.5;
    axis->taps = 1;
    axis->bits = 14;
    for (int32_t i = 0; i < axis->whole; i++, at += scale) {
        const int32_t to = flip ? axis->whole - 1 - i : i;
        axis->start[to] = at < axis->in_size ? (int32_t)at : axis->in_size - 1;
        axis->count[to] = 1;
        axis->weights[(size_t)to * (size_t)axis->stride] = 1 << 14;
    }
}

static void weigh_all(stk__resize_axis *axis, const stk__resize *r, double from, double scale, bool flip, double *real)
{
    const double spread = spread_of(r->filter, r->antialias, scale);
    double most = 0;
    for (int32_t i = 0; i < axis->whole; i++) {
        const int32_t at = flip ? axis->whole - 1 - i : i;
        const double one =
            weigh_one(axis, at, r->filter, from + (i + 0.5) * scale, spread, real + (size_t)at * (size_t)axis->stride);
        most = STK_MAX(most, one);
    }
    axis->bits = 14;
    while (axis->bits < axis->bits_max && most * (double)(2 << axis->bits) < 32766)
        axis->bits++;
    axis->taps = 1;
    for (int32_t i = 0; i < axis->whole; i++)
        round_one(axis, i, real + (size_t)i * (size_t)axis->stride);
}

/* From the input as it is seen to the input as it is. */
static void mirror_axis(stk__resize_axis *axis)
{
    for (int32_t i = 0; i < axis->size; i++) {
        int16_t *w = axis->weights + (size_t)i * (size_t)axis->stride;
        axis->start[i] = axis->in_size - (axis->start[i] + axis->count[i]);
        for (int32_t a = 0, b = axis->count[i] - 1; a < b; a++, b--) {
            const int16_t kept = w[a];
            w[a] = w[b];
            w[b] = kept;
        }
    }
}

void stk__resize_weigh(stk__resize_axis *axis, const stk__resize *r, const stk__resize_span *span, double *real)
{
    const double scale = (span->to - span->from) / axis->whole;
    const double from = span->mirror ? axis->in_size - span->to : span->from;
    if (r->filter == STK__FILTER_NEAREST)
        choose_nearest(axis, from, scale, span->flip);
    else
        weigh_all(axis, r, from, scale, span->flip, real);
    const int32_t first = span->flip ? axis->whole - span->crop - axis->size : span->crop;
    axis->start += first;
    axis->count += first;
    axis->weights += (size_t)first * (size_t)axis->stride;
    if (span->mirror)
        mirror_axis(axis);
}
