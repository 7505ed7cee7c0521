/* What mixup and cutmix share: checks, random weights, and the walk over the rows of a batch. */
#include "ops/batch_mix.h"

#include <math.h>
#include <string.h>

#include "kernels/simd.h"

#include "base/banned.h"

/* ---- planning ---- */

/* Reads a field and sets the bytes of a row. */
static stk_status plan_field(stk_plan *plan, const stk_host *host, const char *name, int *out_id, stk_field *field,
                             size_t *out_bytes, stk_error *err)
{
    STK_TRY(host->plan_read(plan, name, out_id, field, err));
    size_t bytes = stk_dtype_size(field->dtype);
    for (int32_t i = 0; i < field->ndim; i++) {
        if (field->shape[i] < 0)
            return host->fail(err, STK_INVALID, "field '%s' varies in size; put resize or a crop before batch", name);
        if (__builtin_mul_overflow(bytes, (size_t)field->shape[i], &bytes))
            return host->fail(err, STK_INVALID, "field '%s' is too large", name);
    }
    *out_bytes = bytes;
    return STK_OK;
}

stk_status stk__mix_plan(stk_plan *plan, const stk_host *host, stk__mix_state *s, stk_error *err)
{
    stk_field *image = &s->image_field, *label = &s->label_field;
    if (strcmp(s->image, s->label) == 0)
        return host->fail(err, STK_INVALID, "image and label are both '%s'", s->image);
    int id;
    STK_TRY(plan_field(plan, host, s->image, &id, image, &s->image_bytes, err));
    s->classes = host->plan_has_classes(plan, id);
    if (image->dtype == STK_BYTES)
        return host->fail(err, STK_INVALID, "field '%s' holds bytes; put decode_image before batch", s->image);
    STK_TRY(plan_field(plan, host, s->label, &id, label, &s->label_bytes, err));
    if (label->dtype != STK_FLOAT32 || label->ndim < 1)
        return host->fail(err, STK_INVALID,
                          "field '%s' is %s with %d dimensions, wanted float32 rows; put one_hot before batch",
                          s->label, stk_dtype_name(label->dtype), label->ndim);
    return STK_OK;
}

/* ---- memory ---- */

static size_t saved_bytes(const stk__mix_state *s)
{
    return STK_MAX(STK_MAX(s->image_bytes, s->label_bytes), (size_t)1);
}

stk_status stk__mix_worker_open(const stk_call *call, void **out_worker, stk_error *err)
{
    void *saved = stk_budget_alloc(call, saved_bytes(call->state), err);
    if (!saved)
        return err->status;
    *out_worker = saved;
    return STK_OK;
}

void stk__mix_worker_close(const stk_call *call)
{
    stk_budget_free(call, call->worker, saved_bytes(call->state));
}

/* ---- random weights ---- */

/* In (0, 1). */
static double uniform(stk_random *r)
{
    return ((double)stk_random_u32(r) + 0.5) * (1.0 / 4294967296.0);
}

static double normal(stk_random *r)
{
    const double radius = sqrt(-2 * log(uniform(r)));
    return radius * cos(2 * 3.14159265358979323846 * uniform(r));
}

/* The logarithm of a draw from Gamma(shape, 1), after Marsaglia and Tsang: itself, it would underflow for small shapes. */
static double log_gamma_draw(stk_random *r, double shape)
{
    const double boost = shape < 1 ? log(uniform(r)) / shape : 0;
    const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = normal(r), t = 1 + c * x, v = t * t * t;
        if (t > 0 && log(uniform(r)) < x * x / 2 + d - d * v + d * log(v))
            return log(d * v) + boost;
    }
}

double stk__mix_beta(stk_random *r, double alpha)
{
    const double a = log_gamma_draw(r, alpha), b = log_gamma_draw(r, alpha);
    return 1 / (1 + exp(b - a));
}

/* ---- rows ---- */

static const stk_column *find_column(const stk_batch *batch, const char *name)
{
    for (int32_t i = 0; i < batch->column_count; i++)
        if (strcmp(batch->columns[i].name, name) == 0)
            return &batch->columns[i];
    return NULL;
}

/* Readers of a batch get it const; ops of this role work on it before any of them sees it. */
static char *writable(const stk_column *column)
{
    return (char *)(uintptr_t)column->data;
}

/* From the last row up, so that the row before is still as it was; the last one is saved for the first. */
static stk_status mix_column(const stk_call *call, const stk_batch *batch, const char *name, size_t row_bytes,
                             stk__mix_row mix, const void *arg, stk_error *err)
{
    const stk_column *column = find_column(batch, name);
    if (!column || column->offsets || (uint64_t)column->size_bytes != (uint64_t)batch->rows * row_bytes)
        return call->host->fail(err, STK_INVALID, "field '%s' is not in the batch as it was planned", name);
    if (row_bytes == 0 || batch->rows < 2)
        return STK_OK;
    char *rows = writable(column), *last = rows + (size_t)(batch->rows - 1) * row_bytes;
    memcpy(call->worker, last, row_bytes);
    for (char *row = last; row > rows; row -= row_bytes)
        mix(arg, row, row - row_bytes);
    mix(arg, rows, call->worker);
    return STK_OK;
}

stk_status stk__mix_images(const stk_call *call, const stk_batch *batch, stk__mix_row mix, const void *arg,
                           stk_error *err)
{
    const stk__mix_state *s = call->state;
    return mix_column(call, batch, s->image, s->image_bytes, mix, arg, err);
}

/* ---- numbers: compilers make vector code of these loops, as their inner counts are known ---- */

#define BLOCK 64

static inline __attribute__((always_inline)) void mix_floats(float *restrict row, const float *restrict partner,
                                                             size_t count, float weight)
{
    const float rest = 1 - weight;
    size_t i = 0;
    for (; i + BLOCK <= count; i += BLOCK)
        for (size_t k = i; k < i + BLOCK; k++)
            row[k] = weight * row[k] + rest * partner[k];
    for (; i < count; i++)
        row[i] = weight * row[i] + rest * partner[i];
}

static inline uint8_t mix_byte(uint32_t a, uint32_t b, uint32_t weight)
{
    return (uint8_t)((a * weight + b * (STK__MIX_ONE - weight) + STK__MIX_ONE / 2) / STK__MIX_ONE);
}

static inline __attribute__((always_inline)) void mix_bytes(uint8_t *restrict row, const uint8_t *restrict partner,
                                                            size_t count, uint32_t weight)
{
    size_t i = 0;
    for (; i + BLOCK <= count; i += BLOCK)
        for (size_t k = i; k < i + BLOCK; k++)
            row[k] = mix_byte(row[k], partner[k], weight);
    for (; i < count; i++)
        row[i] = mix_byte(row[i], partner[i], weight);
}

#if defined(__x86_64__)
STK__AVX2 static void mix_floats_avx2(float *row, const float *partner, size_t count, float weight)
{
    mix_floats(row, partner, count, weight);
}

STK__AVX2 static void mix_bytes_avx2(uint8_t *row, const uint8_t *partner, size_t count, uint32_t weight)
{
    mix_bytes(row, partner, count, weight);
}
#endif

void stk__mix_floats(float *restrict row, const float *restrict partner, size_t count, float weight)
{
#if defined(__x86_64__)
    if (stk__simd_level() >= STK__SIMD_AVX2) {
        mix_floats_avx2(row, partner, count, weight);
        return;
    }
#endif
    mix_floats(row, partner, count, weight);
}

void stk__mix_bytes(uint8_t *restrict row, const uint8_t *restrict partner, size_t count, uint32_t weight)
{
#if defined(__x86_64__)
    if (stk__simd_level() >= STK__SIMD_AVX2) {
        mix_bytes_avx2(row, partner, count, weight);
        return;
    }
#endif
    mix_bytes(row, partner, count, weight);
}

/* ---- labels ---- */

typedef struct {
    size_t count;
    float weight;
} label_mix;

static void mix_label(const void *arg, void *row, const void *partner)
{
    const label_mix *m = arg;
    stk__mix_floats(row, partner, m->count, m->weight);
}

stk_status stk__mix_labels(const stk_call *call, const stk_batch *batch, float weight, stk_error *err)
{
    const stk__mix_state *s = call->state;
    const label_mix m = {s->label_bytes / sizeof(float), weight};
    return mix_column(call, batch, s->label, s->label_bytes, mix_label, &m, err);
}
