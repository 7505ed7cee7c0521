/* GRU cells and dense layers: packs the weights, and picks the kernels for this CPU. */
#include "kernels/gru.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "kernels/gru_impl.h"
#include "kernels/gru_math.h"

/* Which row of the matrix stands at row `at` of the packed one; -1: none. `size`: units, or rows of a dense layer. */
typedef int row_function(int at, int size);

static int gru_row(int at, int units)
{
    const int gate = at % STK__GROUP_ROWS / STK__GRU_LANES;
    const int unit = at / STK__GROUP_ROWS * STK__GRU_LANES + at % STK__GRU_LANES;
    return unit < units ? gate * units + unit : -1;
}

static int dense_row(int at, int rows)
{
    return at < rows ? at : -1;
}

/* The row's weights as integers, every 4 of them side by side; then 4 of the next row of the group. */
static void pack_int8(stk__group *group, int lane, int8_t *out, const float *row, int columns)
{
    float largest = 0;
    for (int k = 0; k < columns; k++)
        largest = fmaxf(largest, fabsf(row[k]));
    if (largest == 0)
        return;
    int32_t sum = 0;
    for (int k = 0; k < columns; k++) {
        const int8_t weight = (int8_t)lrint(127.0 * row[k] / largest);
        out[(k / 4 * STK__GROUP_ROWS + lane) * 4 + k % 4] = weight;
        sum += weight;
    }
    group->scale[lane] = (float)(largest / 127.0 / 127.0);
    group->offset[lane] = -128 * sum;
}

static void pack_rows(stk__packed *m, row_function *row_at, const float *w, int size, int columns,
                      stk__precision precision)
{
    for (int at = 0; at < m->groups * STK__GROUP_ROWS; at++) {
        const int group = at / STK__GROUP_ROWS, lane = at % STK__GROUP_ROWS, row = row_at(at, size);
        const size_t start = (size_t)group * (size_t)m->columns * STK__GROUP_ROWS;
        m->group[group].rank[lane] = row < 0 ? -INFINITY : 0;
        if (row < 0)
            continue;
        const float *from = w + (size_t)row * (size_t)columns;
        if (precision == STK__PRECISION_INT8)
            pack_int8(&m->group[group], lane, (int8_t *)m->weights + start, from, columns);
        else
            for (int k = 0; k < columns; k++)
                ((float *)m->weights)[start + (size_t)(k * STK__GROUP_ROWS + lane)] = from[k];
    }
}

static void set_bias(stk__packed *m, int at, float bias)
{
    stk__group *group = &m->group[at / STK__GROUP_ROWS];
    group->bias[at % STK__GROUP_ROWS] = group->rank[at % STK__GROUP_ROWS] = bias;
}

static stk_status check_finite(const float *values, size_t count, const char *what, stk_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return stk_error_set(err, STK_INVALID, "number %zu of the %s is %f, wanted finite numbers", i, what,
                                 (double)values[i]);
    return STK_OK;
}

static stk_status check_size(int size, const char *what, stk_error *err)
{
    if (size < 1 || size > STK__GRU_UNITS_MAX)
        return stk_error_set(err, STK_INVALID, "%d %s, wanted 1 to %d", size, what, STK__GRU_UNITS_MAX);
    return STK_OK;
}

static void packed_clear(stk__packed *m)
{
    stk__free(m->weights);
    stk__free(m->group);
}

static stk_status packed_init(stk__packed *m, int groups, int columns, stk__precision precision, stk_error *err)
{
    *m = (stk__packed){.columns = stk__gru_padded(columns), .groups = groups};
    const size_t weights = (size_t)groups * STK__GROUP_ROWS * (size_t)m->columns *
                           (precision == STK__PRECISION_INT8 ? sizeof(int8_t) : sizeof(float));
    const size_t around = (size_t)groups * sizeof *m->group;
    m->bytes = weights + around;
    m->weights = stk__alloc_aligned(weights);
    m->group = stk__alloc_aligned(around);
    if (!m->weights || !m->group) {
        packed_clear(m);
        return stk__nomem(m->bytes, err);
    }
    memset(m->weights, 0, weights);
    memset(m->group, 0, around);
    return STK_OK;
}

static const stk__gru_kernels *choose(stk__precision precision)
{
#if defined(__x86_64__)
    const stk__simd level = stk__simd_level();
    const bool int8 = precision == STK__PRECISION_INT8;
    if (level >= STK__SIMD_VNNI && int8)
        return &stk__gru_int8_vnni;
    if (level >= STK__SIMD_AVX512)
        return int8 ? &stk__gru_int8_avx512 : &stk__gru_fp32_avx512;
    if (level >= STK__SIMD_AVX2)
        return int8 ? &stk__gru_int8_avx2 : &stk__gru_fp32_avx2;
#endif
    return &stk__gru_c;
}

stk_status stk__gru_new(const float *w_hh, const float *b_hn, int units, stk__precision precision, stk__gru **out,
                        stk_error *err)
{
    STK_TRY(check_size(units, "units of a GRU", err));
    STK_TRY(check_finite(w_hh, 3 * (size_t)units * (size_t)units, "weights of a GRU", err));
    STK_TRY(check_finite(b_hn, (size_t)units, "biases of a GRU", err));
    stk__gru *g = stk__alloc(sizeof *g);
    if (!g)
        return stk__nomem(sizeof *g, err);
    *g = (stk__gru){.units = units, .precision = precision, .kernels = choose(precision)};
    const stk_status status = packed_init(&g->m, stk__gru_padded(units) / STK__GRU_LANES, units, precision, err);
    if (status != STK_OK) {
        stk__free(g);
        return status;
    }
    pack_rows(&g->m, gru_row, w_hh, units, units, precision);
    for (int i = 0; i < units; i++)
        set_bias(&g->m, stk__gru_input_at(2, i), b_hn[i]);
    *out = g;
    return STK_OK;
}

void stk__gru_free(stk__gru *g)
{
    if (g)
        packed_clear(&g->m);
    stk__free(g);
}

size_t stk__gru_bytes(const stk__gru *g)
{
    return sizeof *g + g->m.bytes;
}

void stk__hidden_zero(const stk__gru *g, const stk__hidden *h, size_t first, size_t count)
{
    const size_t padded = (size_t)g->m.columns;
    memset(h->f + first * padded, 0, count * padded * sizeof *h->f);
    if (g->precision == STK__PRECISION_INT8)
        memset(h->q + first * padded, stk__quantised(0), count * padded);
}

void stk__hidden_move(const stk__gru *g, const stk__hidden *h, size_t from, size_t to)
{
    const size_t padded = (size_t)g->m.columns;
    if (from == to)
        return;
    memcpy(h->f + to * padded, h->f + from * padded, padded * sizeof *h->f);
    if (g->precision == STK__PRECISION_INT8)
        memcpy(h->q + to * padded, h->q + from * padded, padded);
}

void stk__gru_step(const stk__gru *g, const float *const *x, const float *const *y, size_t count, const stk__hidden *h)
{
    g->kernels->step(g, x, y, count, h);
}

void stk__gru_run(const stk__gru *g, const float *const *x, size_t steps, const stk__hidden *h, ptrdiff_t at,
                  ptrdiff_t stride)
{
    g->kernels->run(g, x, steps, h, at, stride);
}

stk_status stk__dense_new(const float *w, const float *b, int rows, int columns, stk__precision precision,
                          stk__dense **out, stk_error *err)
{
    /* Rows may be those of the three gates of the largest GRU. */
    if (rows < 1 || rows > 3 * STK__GRU_UNITS_MAX)
        return stk_error_set(err, STK_INVALID, "%d rows of a dense layer, wanted 1 to %d", rows,
                             3 * STK__GRU_UNITS_MAX);
    STK_TRY(check_size(columns, "columns of a dense layer", err));
    STK_TRY(check_finite(w, (size_t)rows * (size_t)columns, "weights of a dense layer", err));
    STK_TRY(check_finite(b, b ? (size_t)rows : 0, "biases of a dense layer", err));
    stk__dense *d = stk__alloc(sizeof *d);
    if (!d)
        return stk__nomem(sizeof *d, err);
    *d = (stk__dense){.rows = rows, .precision = precision, .kernels = choose(precision)};
    const int groups = (rows + STK__GROUP_ROWS - 1) / STK__GROUP_ROWS;
    const stk_status status = packed_init(&d->m, groups, columns, precision, err);
    if (status != STK_OK) {
        stk__free(d);
        return status;
    }
    pack_rows(&d->m, dense_row, w, rows, columns, precision);
    for (int i = 0; b && i < rows; i++)
        set_bias(&d->m, i, b[i]);
    *out = d;
    return STK_OK;
}

void stk__dense_free(stk__dense *d)
{
    if (d)
        packed_clear(&d->m);
    stk__free(d);
}

size_t stk__dense_bytes(const stk__dense *d)
{
    return sizeof *d + d->m.bytes;
}

void stk__dense_run(const stk__dense *d, const stk__hidden *h, size_t count, float *out, size_t out_stride, int add)
{
    d->kernels->dense(d, h, count, out, out_stride, add);
}

void stk__dense_argmax(const stk__dense *d, const stk__hidden *h, size_t count, int32_t *best)
{
    d->kernels->argmax(d, h, count, best);
}

size_t stk__gru_decode(const stk__gru *g, const stk__dense *d, const stk__feedback *in, const stk__hidden *h,
                       int32_t *best)
{
    return g->kernels->decode(g, d, in, h, best);
}
