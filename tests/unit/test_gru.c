/* GRU cells and dense layers: near double precision, the same bits at every CPU level. STK_TEST_SIMD lowers it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "base/rng.h"
#include "kernels/gru.h"
#include "kernels/simd.h"

/* The highest level that tests use. */
static stk__simd highest;

static float noise(uint64_t key, uint64_t i)
{
    return (float)((double)(stk__mix(key, i) >> 11) / (double)(UINT64_C(1) << 52) - 1);
}

/* Weights as in a trained net; with every third key all of the largest size, with another many zeros. */
static float *new_weights(size_t count, float size, uint64_t key)
{
    float *w = malloc(count * sizeof *w);
    assert_non_null(w);
    for (size_t i = 0; i < count; i++) {
        w[i] = size * noise(key, i);
        if (key % 3 == 1)
            w[i] = copysignf(size, w[i]);
        else if (key % 3 == 2 && stk__mix(key, i) % 5 == 0)
            w[i] = 0;
    }
    return w;
}

/* Exactly the memory that is needed, so that the address sanitizer sees a byte too far. */
static stk__hidden new_hidden(int padded, size_t rows)
{
    const size_t units = (size_t)padded * rows;
    stk__hidden h = {aligned_alloc(16, units * sizeof(float)), aligned_alloc(16, units)};
    assert_non_null(h.f);
    assert_non_null(h.q);
    return h;
}

static void free_hidden(const stk__hidden *h)
{
    free(h->f);
    free(h->q);
}

/* Inputs of many words: rows of 3 * padded floats, 0 for padded units. */
typedef struct inputs {
    float *data;
    const float **row;
} inputs;

static inputs new_inputs(int units, size_t rows, float size, uint64_t key)
{
    const size_t width = 3 * (size_t)stk__gru_padded(units);
    inputs in = {calloc(rows * width, sizeof(float)), malloc(rows * sizeof(float *))};
    assert_non_null(in.data);
    assert_non_null(in.row);
    for (size_t i = 0; i < rows; i++) {
        in.row[i] = in.data + i * width;
        for (int gate = 0; gate < 3; gate++)
            for (int u = 0; u < units; u++)
                in.data[i * width + (size_t)stk__gru_input_at(gate, u)] =
                    size * noise(key, (i * 3 + (size_t)gate) * 4096 + (size_t)u);
    }
    return in;
}

static void free_inputs(const inputs *in)
{
    free(in->data);
    free(in->row);
}

/* At this level, or at the highest allowed one below it. */
static stk__gru *new_gru(const float *w, const float *b, int units, stk__precision precision, stk__simd level)
{
    stk__gru *g = NULL;
    stk_error err;
    stk__simd_limit(STK_MIN(level, highest));
    assert_int_equal(stk__gru_new(w, b, units, precision, &g, &err), STK_OK);
    stk__simd_limit(highest);
    return g;
}

static stk__dense *new_dense(const float *w, const float *b, int rows, int columns, stk__precision precision,
                             stk__simd level)
{
    stk__dense *d = NULL;
    stk_error err;
    stk__simd_limit(STK_MIN(level, highest));
    assert_int_equal(stk__dense_new(w, b, rows, columns, precision, &d, &err), STK_OK);
    stk__simd_limit(highest);
    return d;
}

static const int sizes[] = {1, 5, 16, 17, 40, 96, 112, 128, 256};

/* Sizes of weights, up to those that drive every gate to its end. */
static float weight_size(uint64_t key)
{
    static const float of[] = {0.1F, 0.5F, 3.0F, 0.02F};
    return of[key % STK_COUNT(of)];
}

/* ---- against double precision ---- */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* One step as the header has it. */
static void reference_step(const float *w, const float *b, int units, const float *x, const float *y, double *h)
{
    double *u = calloc(3 * (size_t)units, sizeof *u);
    assert_non_null(u);
    for (int i = 0; i < 3 * units; i++)
        for (int k = 0; k < units; k++)
            u[i] += (double)w[i * units + k] * h[k];
    for (int i = 0; i < units; i++) {
        double in[3];
        for (int gate = 0; gate < 3; gate++) {
            const int at = stk__gru_input_at(gate, i);
            in[gate] = (double)x[at] + (y ? (double)y[at] : 0);
        }
        const double r = sigmoid(in[0] + u[i]), z = sigmoid(in[1] + u[units + i]);
        const double n = tanh(in[2] + r * (u[2 * units + i] + (double)b[i]));
        h[i] = (1 - z) * n + z * h[i];
    }
    free(u);
}

/* The largest difference from the reference after some steps of `count` words. */
static double step_error(int units, size_t count, stk__precision precision, stk__simd level, uint64_t key)
{
    enum { STEPS = 4 };
    const size_t n = (size_t)units, padded = (size_t)stk__gru_padded(units);
    float *w = new_weights(3 * n * n, 1.0F / sqrtf((float)units), key), *b = new_weights(n, 0.3F, 3 * key);
    stk__gru *g = new_gru(w, b, units, precision, level);
    stk__hidden h = new_hidden((int)padded, count);
    if (precision == STK__PRECISION_FP32) {
        free(h.q);
        h.q = NULL; /* which FP32 does without */
    }
    inputs x = new_inputs(units, count, 2, key + 50), y = new_inputs(units, count, 1, key + 51);
    double *want = calloc(count * n, sizeof *want), worst = 0;
    assert_non_null(want);
    stk__hidden_zero(g, &h, 0, count);
    for (int t = 0; t < STEPS; t++) {
        const bool both = t % 2;
        stk__gru_step(g, x.row, both ? y.row : NULL, count, &h);
        for (size_t i = 0; i < count; i++) {
            reference_step(w, b, units, x.row[i], both ? y.row[i] : NULL, want + i * n);
            for (size_t k = 0; k < n; k++)
                worst = fmax(worst, fabs(want[i * n + k] - (double)h.f[i * padded + k]));
            for (size_t k = n; k < padded; k++)
                assert_true(h.f[i * padded + k] == 0);
        }
    }
    free(want);
    free_inputs(&x);
    free_inputs(&y);
    free_hidden(&h);
    stk__gru_free(g);
    free(w);
    free(b);
    return worst;
}

static void gru_step_in_fp32_is_near_double_precision(void **state)
{
    for (int level = 0; level <= (int)highest; level++)
        for (size_t i = 0; i < STK_COUNT(sizes); i++) {
            const double error = step_error(sizes[i], 13, STK__PRECISION_FP32, (stk__simd)level, 3 * i);
            if (!(error <= 1e-5))
                fail_msg("%s, %d units: error %g, wanted at most 1e-5", stk__simd_name((stk__simd)level), sizes[i],
                         error);
        }
}

static void gru_step_in_int8_is_near_double_precision(void **state)
{
    for (size_t i = 0; i < STK_COUNT(sizes); i++) {
        const double error = step_error(sizes[i], 13, STK__PRECISION_INT8, highest, 3 * i);
        if (!(error <= 0.03))
            fail_msg("%d units: error %g, wanted at most 0.03", sizes[i], error);
    }
}

/* Inputs far beyond both ends, and such as no table of a model has. */
static void gru_step_saturates_at_any_input(void **state)
{
    static const float wild[] = {1e30F, -1e30F, INFINITY, -INFINITY, 100, -100, NAN, 0};
    enum { UNITS = 16 };
    float *w = new_weights(3 * UNITS * UNITS, 0.5F, 3), *b = new_weights(UNITS, 0.5F, 6);
    for (int i = 0; i < 2 * (int)STK__SIMD_COUNT; i++) {
        stk__gru *g = new_gru(w, b, UNITS, (stk__precision)(i % 2), (stk__simd)(i / 2));
        stk__hidden h = new_hidden(UNITS, 1);
        inputs x = new_inputs(UNITS, 1, 1, 1);
        stk__hidden_zero(g, &h, 0, 1);
        for (int k = 0; k < 3 * UNITS; k++)
            x.data[k] = wild[(k + k / UNITS) % (int)STK_COUNT(wild)];
        for (int t = 0; t < 3; t++)
            stk__gru_step(g, x.row, NULL, 1, &h);
        for (int k = 0; k < UNITS; k++)
            assert_true(fabsf(h.f[k]) <= 1.0001F);
        free_inputs(&x);
        free_hidden(&h);
        stk__gru_free(g);
    }
    free(w);
    free(b);
}

/* ---- the same at every level ---- */

/* Steps of 1 to 70 words with all kinds of weights; plain C is the judge. */
static void same_steps(int units, size_t count, stk__simd level, uint64_t key)
{
    const size_t n = (size_t)units;
    const int padded = stk__gru_padded(units);
    float *w = new_weights(3 * n * n, weight_size(key), key), *b = new_weights(n, 1, key + 1);
    stk__gru *plain = new_gru(w, b, units, STK__PRECISION_INT8, STK__SIMD_C);
    stk__gru *g = new_gru(w, b, units, STK__PRECISION_INT8, level);
    stk__hidden want = new_hidden(padded, count), got = new_hidden(padded, count);
    inputs x = new_inputs(units, count, 4, key + 2), y = new_inputs(units, count, 4, key + 3);
    stk__hidden_zero(plain, &want, 0, count);
    stk__hidden_zero(g, &got, 0, count);
    for (int t = 0; t < 3; t++) {
        stk__gru_step(plain, x.row, t % 2 ? y.row : NULL, count, &want);
        stk__gru_step(g, x.row, t % 2 ? y.row : NULL, count, &got);
        if (memcmp(got.f, want.f, count * (size_t)padded * sizeof(float)) != 0 ||
            memcmp(got.q, want.q, count * (size_t)padded) != 0)
            fail_msg("%d units, %zu words, step %d: %s differs from c", units, count, t, stk__simd_name(level));
    }
    free_inputs(&x);
    free_inputs(&y);
    free_hidden(&want);
    free_hidden(&got);
    stk__gru_free(plain);
    stk__gru_free(g);
    free(w);
    free(b);
}

static void gru_step_in_int8_gives_the_same_bits_at_every_level(void **state)
{
    for (int level = 1; level <= (int)highest; level++) {
        for (size_t count = 1; count <= 70; count++)
            same_steps(sizes[count % 6], count, (stk__simd)level, count);
        for (size_t i = 0; i < STK_COUNT(sizes); i++)
            same_steps(sizes[i], 13, (stk__simd)level, 100 + i);
    }
}

/* More words than the kernels copy at a time. */
static void gru_step_takes_many_words(void **state)
{
    for (int level = 1; level <= (int)highest; level++)
        same_steps(96, 403, (stk__simd)level, 9);
}

static void same_run(int units, stk__precision precision, stk__simd level, ptrdiff_t stride, uint64_t key)
{
    enum { STEPS = 7 };
    const size_t n = (size_t)units, padded = (size_t)stk__gru_padded(units);
    float *w = new_weights(3 * n * n, precision ? 0.2F : weight_size(key), key), *b = new_weights(n, 1, key + 1);
    stk__gru *g = new_gru(w, b, units, precision, level);
    stk__gru *judge = new_gru(w, b, units, precision, precision == STK__PRECISION_INT8 ? STK__SIMD_C : level);
    stk__hidden got = new_hidden((int)padded, STEPS + 1), one = new_hidden((int)padded, 1);
    inputs x = new_inputs(units, STEPS, 3, key + 2);
    const ptrdiff_t at = stride < 0 ? STEPS : 0;
    for (size_t steps = 0; steps <= STEPS; steps++) {
        stk__hidden_zero(g, &got, 0, STEPS + 1);
        stk__hidden_zero(g, &one, 0, 1);
        stk__gru_run(g, x.row, steps, &got, at, stride);
        for (size_t t = 0; t < steps; t++) {
            stk__gru_step(judge, x.row + t, NULL, 1, &one);
            if (stride == 0 && t + 1 < steps)
                continue;
            const size_t row = (size_t)(at + ((ptrdiff_t)t + 1) * stride) * padded;
            assert_memory_equal(got.f + row, one.f, padded * sizeof(float));
            if (precision == STK__PRECISION_INT8)
                assert_memory_equal(got.q + row, one.q, padded);
        }
    }
    free_inputs(&x);
    free_hidden(&got);
    free_hidden(&one);
    stk__gru_free(g);
    stk__gru_free(judge);
    free(w);
    free(b);
}

static void gru_run_equals_repeated_steps(void **state)
{
    for (int level = 0; level <= (int)highest; level++)
        for (size_t i = 0; i < STK_COUNT(sizes) * 6; i++)
            same_run(sizes[i / 6], (stk__precision)(i % 2), (stk__simd)level, (ptrdiff_t)(i / 2 % 3) - 1, i);
}

/* In both precisions, and for every remainder of the tiles. */
static void gru_step_of_many_words_equals_that_of_each(void **state)
{
    enum { UNITS = 40, COUNT = 31 };
    const size_t padded = (size_t)stk__gru_padded(UNITS);
    float *w = new_weights(3 * UNITS * UNITS, 0.3F, 3), *b = new_weights(UNITS, 1, 6);
    inputs x = new_inputs(UNITS, COUNT, 3, 5), y = new_inputs(UNITS, COUNT, 3, 6);
    for (size_t i = 0; i < 2 * COUNT * ((size_t)highest + 1); i++) {
        const size_t count = i / 2 % COUNT + 1;
        stk__gru *g = new_gru(w, b, UNITS, (stk__precision)(i % 2), (stk__simd)(i / 2 / COUNT));
        stk__hidden many = new_hidden((int)padded, count), one = new_hidden((int)padded, 1);
        stk__hidden_zero(g, &many, 0, count);
        stk__gru_step(g, x.row, NULL, count, &many);
        stk__gru_step(g, y.row, x.row, count, &many);
        for (size_t j = 0; j < count; j++) {
            stk__hidden_zero(g, &one, 0, 1);
            stk__gru_step(g, x.row + j, NULL, 1, &one);
            stk__gru_step(g, y.row + j, x.row + j, 1, &one);
            assert_memory_equal(many.f + j * padded, one.f, padded * sizeof(float));
        }
        free_hidden(&many);
        free_hidden(&one);
        stk__gru_free(g);
    }
    free_inputs(&x);
    free_inputs(&y);
    free(w);
    free(b);
}

static void hidden_rows_are_set_and_moved_whole(void **state)
{
    enum { UNITS = 20, ROWS = 3 };
    const size_t padded = (size_t)stk__gru_padded(UNITS);
    float *w = new_weights(3 * UNITS * UNITS, 1, 0), *b = new_weights(UNITS, 1, 3);
    stk__gru *g = new_gru(w, b, UNITS, STK__PRECISION_INT8, highest);
    stk__hidden h = new_hidden((int)padded, ROWS);
    inputs x = new_inputs(UNITS, ROWS, 2, 5);
    stk__hidden_zero(g, &h, 0, ROWS);
    stk__gru_step(g, x.row, NULL, ROWS, &h);
    float f[2 * 32];
    uint8_t q[2 * 32];
    assert_true(padded == 32);
    memcpy(f, h.f + 32, sizeof f);
    memcpy(q, h.q + 32, sizeof q);
    stk__hidden_move(g, &h, 2, 0);
    stk__hidden_move(g, &h, 1, 1);
    assert_memory_equal(h.f, f + 32, 32 * sizeof(float));
    assert_memory_equal(h.q, q + 32, 32);
    assert_memory_equal(h.f + 32, f, sizeof f);
    assert_memory_equal(h.q + 32, q, sizeof q);
    stk__hidden_zero(g, &h, 1, 1);
    for (int i = 0; i < 32; i++) {
        assert_true(h.f[32 + i] == 0);
        assert_int_equal(h.q[32 + i], h.q[63]);
    }
    assert_memory_equal(h.q + 64, q + 32, 32);
    free_inputs(&x);
    free_hidden(&h);
    stk__gru_free(g);
    free(w);
    free(b);
}

/* ---- dense layers ---- */

/* States as a GRU leaves them: made by one. */
static stk__hidden new_states(int units, size_t count, stk__precision precision)
{
    float *w = new_weights(3 * (size_t)units * (size_t)units, 0.3F, 9), *b = new_weights((size_t)units, 1, 6);
    stk__gru *g = new_gru(w, b, units, precision, STK__SIMD_C);
    stk__hidden h = new_hidden(stk__gru_padded(units), count);
    inputs x = new_inputs(units, count, 4, 8);
    stk__hidden_zero(g, &h, 0, count);
    for (int t = 0; t < 2; t++)
        stk__gru_step(g, x.row, NULL, count, &h);
    free_inputs(&x);
    stk__gru_free(g);
    free(w);
    free(b);
    return h;
}

static void check_value(float got, float was, const float *row, const float *b, int i, const float *f, int columns,
                        double tolerance)
{
    double sum = b ? (double)b[i] : 0, size = 1;
    for (int k = 0; k < columns; k++) {
        sum += (double)row[k] * (double)f[k];
        size += fabs((double)row[k] * (double)f[k]);
    }
    assert_true(fabs((double)got - sum - (double)was) <= tolerance * size);
}

/* Values near the exact ones, INT8 the same bits as plain C's; nothing written outside of the padded row. */
static void same_dense(int rows, int columns, size_t count, stk__precision precision, stk__simd level, int add)
{
    const uint64_t key = (uint64_t)(rows * 7 + columns);
    const size_t padded = (size_t)stk__gru_padded(columns), width = (size_t)stk__gru_padded(rows), stride = width + 16;
    float *w = new_weights((size_t)rows * (size_t)columns, 0.3F, key);
    float *b = key % 2 ? new_weights((size_t)rows, 1, key + 1) : NULL;
    stk__dense *d = new_dense(w, b, rows, columns, precision, level);
    stk__dense *plain = new_dense(w, b, rows, columns, precision, STK__SIMD_C);
    stk__hidden h = new_states(columns, count, precision);
    float *got = malloc(((count - 1) * stride + width) * sizeof *got), *want = malloc(count * stride * sizeof *want);
    assert_non_null(got);
    assert_non_null(want);
    for (size_t i = 0; i < count * stride; i++) {
        want[i] = 7;
        if (i < (count - 1) * stride + width)
            got[i] = 7;
    }
    stk__dense_run(d, &h, count, got, stride, add);
    stk__dense_run(plain, &h, count, want, stride, add);
    for (size_t i = 0; i < count; i++) {
        for (int j = 0; j < rows; j++)
            check_value(got[i * stride + (size_t)j], add ? 7 : 0, w + j * columns, b, j, h.f + i * padded, columns,
                        precision == STK__PRECISION_INT8 ? 0.02 : 1e-5);
        for (size_t j = (size_t)rows; j < (i + 1 < count ? stride : width); j++)
            assert_true(got[i * stride + j] == (j < width && !add ? 0.0F : 7.0F));
    }
    if (precision == STK__PRECISION_INT8)
        assert_memory_equal(got, want, ((count - 1) * stride + width) * sizeof *got);
    free(got);
    free(want);
    free_hidden(&h);
    stk__dense_free(d);
    stk__dense_free(plain);
    free(w);
    free(b);
}

static void dense_run_is_right_at_every_level(void **state)
{
    static const int rows[] = {1, 16, 33, 48, 74, 128, 288};
    for (int level = 0; level <= (int)highest; level++)
        for (size_t i = 0; i < STK_COUNT(rows) * 4; i++)
            same_dense(rows[i / 4], sizes[(i + (size_t)level) % STK_COUNT(sizes)], 1 + i * 5 % 23,
                       (stk__precision)(i % 2), (stk__simd)level, i / 2 % 2);
}

/* The judge of INT8 is plain C's list of values, that of FP32 the level's own. */
static void same_argmax(int rows, int columns, size_t count, stk__precision precision, stk__simd level)
{
    const size_t width = (size_t)stk__gru_padded(rows);
    float *w = new_weights((size_t)rows * (size_t)columns, 0.3F, (uint64_t)rows);
    stk__dense *d = new_dense(w, NULL, rows, columns, precision, level);
    stk__hidden h = new_states(columns, count, precision);
    float *values = malloc(count * width * sizeof *values);
    int32_t *best = malloc(count * sizeof *best);
    assert_non_null(values);
    assert_non_null(best);
    stk__dense_run(d, &h, count, values, width, 0);
    stk__dense_argmax(d, &h, count, best);
    for (size_t i = 0; i < count; i++) {
        int want = 0;
        for (int j = 1; j < rows; j++)
            if (values[i * width + (size_t)j] > values[i * width + (size_t)want])
                want = j;
        assert_int_equal(best[i], want);
    }
    free(values);
    free(best);
    free_hidden(&h);
    stk__dense_free(d);
    free(w);
}

static void dense_argmax_finds_the_largest(void **state)
{
    static const int rows[] = {1, 2, 15, 49, 74, 128, 257};
    for (int level = 0; level <= (int)highest; level++)
        for (size_t i = 0; i < STK_COUNT(rows) * 2; i++)
            same_argmax(rows[i / 2], sizes[(i + 3) % STK_COUNT(sizes)], 19, (stk__precision)(i % 2), (stk__simd)level);
}

/* Equal rows at every distance; all values negative, so that rows that are not there would win. */
static void dense_argmax_takes_the_lowest_of_equals(void **state)
{
    enum { COLUMNS = 16, ROWS = 100 };
    for (int level = 0; level <= (int)highest; level++) {
        for (int first = 0; first < ROWS - 1; first++) {
            const int second = first + 1 + (first * 37) % (ROWS - 1 - first);
            float w[ROWS * COLUMNS] = {0}, b[ROWS];
            for (int i = 0; i < ROWS; i++)
                b[i] = i == first || i == second ? -1.0F : -2.0F;
            stk__dense *d = new_dense(w, b, ROWS, COLUMNS, (stk__precision)(first % 2), (stk__simd)level);
            stk__hidden h = new_states(COLUMNS, 9, STK__PRECISION_INT8);
            int32_t best[9];
            stk__dense_argmax(d, &h, 9, best);
            for (int i = 0; i < 9; i++)
                assert_int_equal(best[i], first);
            free_hidden(&h);
            stk__dense_free(d);
        }
    }
}

/* ---- decoding ---- */

/* As steps and argmax by hand, with and without inputs besides the answers, to the end or to a stop. */
static void same_decode(int units, int rows, stk__precision precision, stk__simd level, uint64_t key)
{
    enum { STEPS = 11 };
    const size_t n = (size_t)units, padded = (size_t)stk__gru_padded(units);
    float *w = new_weights(3 * n * n, 0.2F, key), *b = new_weights(n, 1, key + 1);
    float *out = new_weights((size_t)rows * n, 1, 3 * key);
    stk__gru *g = new_gru(w, b, units, precision, level);
    stk__dense *d = new_dense(out, NULL, rows, units, precision, level);
    inputs table = new_inputs(units, (size_t)rows + 1, 4, key + 2), x = new_inputs(units, STEPS, 2, key + 3);
    stk__hidden h = new_hidden((int)padded, 1), one = new_hidden((int)padded, 1);
    int32_t got[STEPS], want[STEPS], last = rows;
    const bool both = key % 2;
    stk__hidden_zero(g, &one, 0, 1);
    for (int t = 0; t < STEPS; t++) {
        const float *fed = table.row[last];
        stk__gru_step(g, both ? x.row + t : &fed, both ? &fed : NULL, 1, &one);
        stk__dense_argmax(d, &one, 1, &want[t]);
        last = want[t];
    }
    stk__hidden_zero(g, &h, 0, 1);
    stk__feedback in = {both ? x.row : NULL, table.data, rows, -1, STEPS};
    assert_true(stk__gru_decode(g, d, &in, &h, got) == STEPS);
    assert_memory_equal(got, want, sizeof got);
    assert_memory_equal(h.f, one.f, padded * sizeof(float));
    if (precision == STK__PRECISION_INT8)
        assert_memory_equal(h.q, one.q, padded);
    size_t first = 0;
    for (in.stop = want[STEPS / 2]; want[first] != in.stop;)
        first++;
    stk__hidden_zero(g, &h, 0, 1);
    assert_true(stk__gru_decode(g, d, &in, &h, got) == first + 1);
    assert_memory_equal(got, want, (first + 1) * sizeof *got);
    in.steps = 0;
    assert_true(stk__gru_decode(g, d, &in, &h, got) == 0);
    free_hidden(&h);
    free_hidden(&one);
    free_inputs(&table);
    free_inputs(&x);
    stk__gru_free(g);
    stk__dense_free(d);
    free(w);
    free(b);
    free(out);
}

static void gru_decode_equals_steps_and_argmax(void **state)
{
    for (int level = 0; level <= (int)highest; level++)
        for (size_t i = 0; i < STK_COUNT(sizes) * 4; i++)
            same_decode(sizes[i / 4], 20 + (int)i * 3, (stk__precision)(i / 2 % 2), (stk__simd)level, i);
}

/* ---- what fails ---- */

static void gru_new_refuses_bad_sizes_and_numbers(void **state)
{
    float w[12] = {0}, b[2] = {0};
    stk__gru *g = NULL;
    stk__dense *d = NULL;
    stk_error err;
    assert_int_equal(stk__gru_new(w, b, 0, STK__PRECISION_INT8, &g, &err), STK_INVALID);
    assert_string_equal(err.message, "0 units of a GRU, wanted 1 to 2048");
    assert_int_equal(stk__gru_new(w, b, 100000, STK__PRECISION_FP32, &g, NULL), STK_INVALID);
    assert_int_equal(stk__dense_new(w, NULL, 0, 2, STK__PRECISION_INT8, &d, &err), STK_INVALID);
    assert_int_equal(stk__dense_new(w, NULL, 2, 4000, STK__PRECISION_INT8, &d, &err), STK_INVALID);
    assert_int_equal(stk__dense_new(w, NULL, 100000, 2, STK__PRECISION_INT8, &d, &err), STK_INVALID);
    w[7] = NAN;
    assert_int_equal(stk__gru_new(w, b, 2, STK__PRECISION_INT8, &g, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "number 7 of the weights"));
    assert_int_equal(stk__dense_new(w, b, 2, 4, STK__PRECISION_FP32, &d, &err), STK_INVALID);
    w[7] = 0;
    b[1] = INFINITY;
    assert_int_equal(stk__gru_new(w, b, 2, STK__PRECISION_FP32, &g, &err), STK_INVALID);
    assert_int_equal(stk__dense_new(w, b, 2, 4, STK__PRECISION_FP32, &d, &err), STK_INVALID);
    assert_null(g);
    assert_null(d);
}

/* Weights so small or large that their ratios leave the range of floats. */
static void gru_new_takes_weights_of_any_size(void **state)
{
    static const float of[] = {1e-45F, 1e-38F, 3e38F};
    for (size_t i = 0; i < STK_COUNT(of); i++) {
        float w[12], b[2] = {of[i], -of[i]}, x[48] = {0};
        const float *row = x;
        for (int k = 0; k < 12; k++)
            w[k] = k % 3 ? of[i] : -of[i] / 2;
        stk__gru *g = new_gru(w, b, 2, STK__PRECISION_INT8, highest);
        stk__hidden h = new_hidden(16, 1);
        stk__hidden_zero(g, &h, 0, 1);
        for (int t = 0; t < 3; t++)
            stk__gru_step(g, &row, NULL, 1, &h);
        assert_true(fabsf(h.f[0]) <= 1.0001F && fabsf(h.f[1]) <= 1.0001F);
        free_hidden(&h);
        stk__gru_free(g);
    }
}

static void gru_new_survives_failed_allocations(void **state)
{
    float w[3 * 64] = {0}, b[8] = {0};
    for (int precision = 0; precision < 2; precision++) {
        int failed = 0;
        for (uint64_t n = 1;; n++) {
            stk__gru *g = NULL;
            stk__dense *d = NULL;
            stk_error err;
            stk__alloc_fail_at(n, false);
            stk_status status = stk__gru_new(w, b, 8, (stk__precision)precision, &g, &err);
            if (status == STK_OK)
                status = stk__dense_new(w, b, 8, 8, (stk__precision)precision, &d, &err);
            stk__alloc_fail_at(0, false);
            assert_true((status == STK_OK) == (d != NULL));
            stk__gru_free(g);
            stk__dense_free(d);
            if (status == STK_OK)
                break;
            assert_int_equal(status, STK_NOMEM);
            failed++;
        }
        assert_true(failed >= 4);
    }
}

static void gru_bytes_are_those_of_the_packed_weights(void **state)
{
    float *w = new_weights(3 * 256 * 256, 1, 0), *b = new_weights(256, 1, 0);
    stk__gru *small = new_gru(w, b, 256, STK__PRECISION_INT8, highest),
             *large = new_gru(w, b, 256, STK__PRECISION_FP32, highest);
    stk__dense *d = new_dense(w, b, 74, 256, STK__PRECISION_INT8, highest);
    assert_in_range(stk__gru_bytes(small), 3 * 256 * 256, 3 * 256 * 256 + 16384);
    assert_in_range(stk__gru_bytes(large), 4 * 3 * 256 * 256, 4 * 3 * 256 * 256 + 16384);
    assert_in_range(stk__dense_bytes(d), 74 * 256, 96 * 256 + 4096);
    stk__gru_free(small);
    stk__gru_free(large);
    stk__dense_free(d);
    stk__gru_free(NULL);
    stk__dense_free(NULL);
    free(w);
    free(b);
}

/* The level of STK_TEST_SIMD, or the CPU's highest. */
static stk__simd wanted_level(void)
{
    const char *wanted = getenv("STK_TEST_SIMD");
    if (!wanted)
        return stk__simd_highest();
    for (int level = 0; level < STK__SIMD_COUNT; level++)
        if (strcmp(wanted, stk__simd_name((stk__simd)level)) == 0)
            return STK_MIN((stk__simd)level, stk__simd_highest());
    fprintf(stderr, "STK_TEST_SIMD is none of c, sse4, avx2, avx512, vnni\n");
    exit(1);
}

int main(void)
{
    highest = wanted_level();
    stk__simd_limit(highest);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gru_step_in_fp32_is_near_double_precision),
        cmocka_unit_test(gru_step_in_int8_is_near_double_precision),
        cmocka_unit_test(gru_step_saturates_at_any_input),
        cmocka_unit_test(gru_step_in_int8_gives_the_same_bits_at_every_level),
        cmocka_unit_test(gru_step_takes_many_words),
        cmocka_unit_test(gru_run_equals_repeated_steps),
        cmocka_unit_test(gru_step_of_many_words_equals_that_of_each),
        cmocka_unit_test(hidden_rows_are_set_and_moved_whole),
        cmocka_unit_test(dense_run_is_right_at_every_level),
        cmocka_unit_test(dense_argmax_finds_the_largest),
        cmocka_unit_test(dense_argmax_takes_the_lowest_of_equals),
        cmocka_unit_test(gru_decode_equals_steps_and_argmax),
        cmocka_unit_test(gru_new_refuses_bad_sizes_and_numbers),
        cmocka_unit_test(gru_new_takes_weights_of_any_size),
        cmocka_unit_test(gru_new_survives_failed_allocations),
        cmocka_unit_test(gru_bytes_are_those_of_the_packed_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
