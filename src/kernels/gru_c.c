/* GRU cells and dense layers in plain C: for CPUs without vectors, and the judge of the other levels. */
#include <math.h>
#include <string.h>

#include "kernels/gru_impl.h"
#include "kernels/gru_math.h"

const float stk__sigmoid_parabolas[3][32] = {
    {-1.2760106e-2F, -1.3995372e-2F, -9.590915e-3F,  2.0933135e-3F, 2.1396637e-2F,  4.7587976e-2F, 7.9179645e-2F,
     1.1435942e-1F,  1.6891551e-1F,  2.4095665e-1F,  3.042182e-1F,  3.5590535e-1F,  3.9607337e-1F, 4.2623594e-1F,
     4.4831556e-1F,  4.6416464e-1F,  4.7925022e-1F,  4.9047607e-1F, 4.9572366e-1F,  4.9811533e-1F, 4.9916455e-1F,
     4.9967444e-1F,  4.9986205e-1F,  4.999421e-1F,   0.0e+0F,       -1.2322837e-4F, -5.811153e-4F, -1.5269137e-3F,
     -3.0252854e-3F, -5.0233416e-3F, -7.3635997e-3F, -9.788993e-3F},
    {2.908878e-1F,   2.92988e-1F,   2.872091e-1F,  2.739175e-1F,  2.5464788e-1F, 2.3137775e-1F, 2.0610002e-1F,
     1.805012e-1F,   1.4462054e-1F, 1.0330085e-1F, 7.1549326e-2F, 4.8492752e-2F, 3.237019e-2F,  2.1366594e-2F,
     1.39845535e-2F, 9.09412e-3F,   4.8160874e-3F, 1.9832836e-3F, 8.0732483e-4F, 3.2533478e-4F, 1.3306174e-4F,
     4.7682654e-5F,  1.8832825e-5F, 7.4032405e-6F, 2.5013977e-1F, 2.5209844e-1F, 2.557505e-1F,  2.6079616e-1F,
     2.667985e-1F,   2.73205e-1F,   2.794613e-1F,  2.8502256e-1F},
    {-4.7070798e-2F, -4.796116e-2F,  -4.606502e-2F,  -4.2283524e-2F,  -3.7473015e-2F,  -3.230302e-2F,  -2.7245557e-2F,
     -2.2587966e-2F, -1.668718e-2F,  -1.0759933e-2F, -6.7745876e-3F,  -4.202688e-3F,   -2.5845568e-3F, -1.5808378e-3F,
     -9.637292e-4F,  -5.864345e-4F,  -2.8308114e-4F, -1.04321996e-4F, -3.842697e-5F,   -1.413938e-5F,  -5.329689e-6F,
     -1.7549111e-6F, -6.456016e-7F,  -2.3750434e-7F, -3.618547e-3F,   -1.15786595e-2F, -1.8898396e-2F, -2.5643235e-2F,
     -3.166213e-2F,  -3.6801714e-2F, -4.098535e-2F,  -4.417457e-2F},
};

/* One row of a hidden state; q is NULL in FP32. */
typedef struct state {
    float *f;
    uint8_t *q;
} state;

static state state_at(const stk__hidden *h, ptrdiff_t row, int padded)
{
    const ptrdiff_t offset = row * (ptrdiff_t)padded;
    return (state){h->f + offset, h->q ? h->q + offset : NULL};
}

/* Rows of W h without bias, as floats. */
typedef void group_function(const stk__packed *m, int group, const void *h, float sums[STK__GROUP_ROWS]);

static void sum_int8(const stk__packed *m, int group, const void *h, float sums[STK__GROUP_ROWS])
{
    const uint8_t *q = h;
    const int8_t *w = stk__int8_weights(m, group);
    int32_t total[STK__GROUP_ROWS] = {0};
    for (int k = 0; k < m->columns; k += 4, w += 4 * STK__GROUP_ROWS) {
        const int a = q[k] - 128, b = q[k + 1] - 128, c = q[k + 2] - 128, d = q[k + 3] - 128;
        for (int i = 0; i < STK__GROUP_ROWS; i++)
            total[i] += a * w[4 * i] + b * w[4 * i + 1] + c * w[4 * i + 2] + d * w[4 * i + 3];
    }
    for (int i = 0; i < STK__GROUP_ROWS; i++)
        sums[i] = (float)total[i] * m->group[group].scale[i];
}

static void sum_fp32(const stk__packed *m, int group, const void *h, float sums[STK__GROUP_ROWS])
{
    const float *f = h, *w = stk__fp32_weights(m, group);
    float total[STK__GROUP_ROWS] = {0}; /* no one else's memory: compilers make vectors of it */
    for (int k = 0; k < m->columns; k++, w += STK__GROUP_ROWS)
        for (int i = 0; i < STK__GROUP_ROWS; i++)
            total[i] += f[k] * w[i];
    memcpy(sums, total, sizeof total);
}

/* One step of one word: from `h` (q or f, not overlapping `to`) and the old floats to the new state. */
static inline void cell(const stk__gru *g, const float *x, const float *y, const void *h, const float *old, state to,
                        group_function *sum, float sigmoid(float), float tangent(float))
{
    for (int group = 0; group < g->m.groups; group++) {
        const float *cn = g->m.group[group].bias + 2 * STK__GRU_LANES;
        float sums[STK__GROUP_ROWS], in[STK__GROUP_ROWS];
        sum(&g->m, group, h, sums);
        for (int i = 0; i < STK__GROUP_ROWS; i++)
            in[i] =
                y ? x[group * STK__GROUP_ROWS + i] + y[group * STK__GROUP_ROWS + i] : x[group * STK__GROUP_ROWS + i];
        for (int i = 0; i < STK__GRU_LANES; i++) {
            const int at = group * STK__GRU_LANES + i;
            const float r = sigmoid(sums[i] + in[i]);
            const float z = sigmoid(sums[STK__GRU_LANES + i] + in[STK__GRU_LANES + i]);
            const float n = tangent(r * (sums[2 * STK__GRU_LANES + i] + cn[i]) + in[2 * STK__GRU_LANES + i]);
            to.f[at] = z * (old[at] - n) + n;
            if (to.q)
                to.q[at] = stk__quantised(to.f[at]);
        }
    }
}

static void cell_int8(const stk__gru *g, const float *x, const float *y, state from, state to)
{
    uint8_t copy[STK__GRU_UNITS_MAX];
    memcpy(copy, from.q, (size_t)g->m.columns);
    cell(g, x, y, copy, from.f, to, sum_int8, stk__table_sigmoid, stk__table_tanh);
}

static void cell_fp32(const stk__gru *g, const float *x, const float *y, state from, state to)
{
    float copy[STK__GRU_UNITS_MAX];
    memcpy(copy, from.f, (size_t)g->m.columns * sizeof *copy);
    to.q = NULL;
    cell(g, x, y, copy, copy, to, sum_fp32, stk__exp_sigmoid, stk__exp_tanh);
}

static void one_cell(const stk__gru *g, const float *x, const float *y, state from, state to)
{
    if (g->precision == STK__PRECISION_INT8)
        cell_int8(g, x, y, from, to);
    else
        cell_fp32(g, x, y, from, to);
}

static void step_c(const stk__gru *g, const float *const *x, const float *const *y, size_t count, const stk__hidden *h)
{
    for (size_t i = 0; i < count; i++) {
        const state s = state_at(h, (ptrdiff_t)i, g->m.columns);
        one_cell(g, x[i], y ? y[i] : NULL, s, s);
    }
}

static void run_c(const stk__gru *g, const float *const *x, size_t steps, const stk__hidden *h, ptrdiff_t at,
                  ptrdiff_t stride)
{
    for (size_t t = 0; t < steps; t++, at += stride)
        one_cell(g, x[t], NULL, state_at(h, at, g->m.columns), state_at(h, at + stride, g->m.columns));
}

static void sum_row(const stk__dense *d, int group, const stk__hidden *h, size_t row, float sums[STK__GROUP_ROWS])
{
    const size_t offset = row * (size_t)d->m.columns;
    if (d->precision == STK__PRECISION_INT8)
        sum_int8(&d->m, group, h->q + offset, sums);
    else
        sum_fp32(&d->m, group, h->f + offset, sums);
}

static void dense_c(const stk__dense *d, const stk__hidden *h, size_t count, float *out, size_t out_stride, int add)
{
    const int width = stk__dense_width(d);
    for (size_t i = 0; i < count; i++) {
        for (int group = 0; group < d->m.groups; group++) {
            float sums[STK__GROUP_ROWS];
            float *to = out + i * out_stride + group * STK__GROUP_ROWS;
            sum_row(d, group, h, i, sums);
            for (int j = 0; j < STK_MIN(STK__GROUP_ROWS, width - group * STK__GROUP_ROWS); j++) {
                const float value = sums[j] + d->m.group[group].bias[j];
                to[j] = add ? to[j] + value : value;
            }
        }
    }
}

static void argmax_c(const stk__dense *d, const stk__hidden *h, size_t count, int32_t *best)
{
    for (size_t i = 0; i < count; i++) {
        float largest = -INFINITY;
        int32_t at = 0;
        for (int group = 0; group < d->m.groups; group++) {
            float sums[STK__GROUP_ROWS];
            sum_row(d, group, h, i, sums);
            for (int j = 0; j < STK__GROUP_ROWS; j++) {
                const float value = sums[j] + d->m.group[group].rank[j];
                if (value > largest) {
                    largest = value;
                    at = group * STK__GROUP_ROWS + j;
                }
            }
        }
        best[i] = at;
    }
}

static size_t decode_c(const stk__gru *g, const stk__dense *d, const stk__feedback *in, const stk__hidden *h,
                       int32_t *best)
{
    const size_t width = 3 * (size_t)g->m.columns;
    const state s = state_at(h, 0, g->m.columns);
    int32_t last = in->first;
    for (size_t t = 0; t < in->steps; t++) {
        const float *fed = in->table + (size_t)last * width;
        one_cell(g, in->x ? in->x[t] : fed, in->x ? fed : NULL, s, s);
        argmax_c(d, h, 1, &best[t]);
        last = best[t];
        if (last == in->stop)
            return t + 1;
    }
    return in->steps;
}

const stk__gru_kernels stk__gru_c = {step_c, run_c, dense_c, argmax_c, decode_c};
