/* Two samples without pairing: Mann-Whitney and Welch, the Hodges-Lehmann ratio and Moses' interval. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "stats/unpaired.h"
#include "stats/describe.h"
#include "stats/distributions.h"
#include "stats/power.h"
#include "stats/ranks.h"
#include "base/mem.h"

/* Pairs are counted, not listed, and doubles count so far. A quick function has thousands of runs on each side. */
#define MAX_PAIRS ((size_t)1 << 52)

/* A copy of a sample: sorted, its logarithms, and its values as whole numbers in the same order. */
typedef struct sample {
    double *logs;
    int64_t *keys;
    size_t n;
    stk__summary values, of_logs;
} sample;

static void sample_clear(sample *s)
{
    stk__free(s->logs);
    stk__free(s->keys);
}

static stk_status sample_init(sample *s, const double *values, size_t n, const char *side, stk_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!(isfinite(values[i]) && values[i] > 0))
            return stk_error_set(err, STK_INVALID, "value %zu of %s is %g, wanted a finite one above 0", i + 1, side,
                                 values[i]);
    }
    s->n = n;
    s->logs = stk__calloc(n, sizeof *s->logs);
    s->keys = stk__calloc(n, sizeof *s->keys);
    if (!s->logs || !s->keys)
        return stk__nomem(n * sizeof *s->logs, err);
    memcpy(s->keys, values, n * sizeof *s->keys); /* the bits of doubles above 0 are ordered as they are */
    stk__sort_int64(s->keys, n);
    memcpy(s->logs, s->keys, n * sizeof *s->logs);
    for (size_t i = 0; i < n; i++)
        s->logs[i] = log(s->logs[i]);
    STK_TRY(stk__describe(values, n, &s->values, err));
    return stk__describe(s->logs, n, &s->of_logs, err);
}

static void welch(const stk__summary *a, const stk__summary *b, stk__unpaired *out)
{
    out->welch_t = out->welch_df = out->p_welch = NAN;
    /* By the larger spread, so that no square overflows or vanishes. */
    const double unit = fmax(a->sd, b->sd);
    if (a->n < 2 || b->n < 2 || !(unit > 0))
        return;
    const double va = a->sd / unit * (a->sd / unit) / (double)a->n, vb = b->sd / unit * (b->sd / unit) / (double)b->n;
    out->welch_t = (b->mean - a->mean) / unit / sqrt(va + vb);
    out->welch_df = (va + vb) * (va + vb) / (va * va / (double)(a->n - 1) + vb * vb / (double)(b->n - 1));
    out->p_welch = stk__student_p(out->welch_t, out->welch_df);
}

static double pooled(const stk__summary *a, const stk__summary *b)
{
    const double squares_a = a->n > 1 ? a->sd * a->sd * (double)(a->n - 1) : 0;
    const double squares_b = b->n > 1 ? b->sd * b->sd * (double)(b->n - 1) : 0;
    return a->n + b->n > 2 ? sqrt((squares_a + squares_b) / (double)(a->n + b->n - 2)) : NAN;
}

static void fill(const sample *a, const sample *b, double confidence, stk__unpaired *out)
{
    *out = (stk__unpaired){.na = a->n, .nb = b->n, .sd_log = pooled(&a->of_logs, &b->of_logs)};
    stk__mwu u;
    stk__mwu_test(a->keys, a->n, b->keys, b->n, &u);
    out->p_mann_whitney = u.p;
    out->exact = u.exact;
    const uint64_t pairs = (uint64_t)a->n * b->n;
    const size_t rank = stk__mwu_interval_rank(a->n, b->n, confidence), from = rank ? rank : 1;
    out->covered = rank > 0;
    out->ratio = exp(stk__shift_median(a->logs, a->n, b->logs, b->n));
    out->low = exp(stk__shift_select(a->logs, a->n, b->logs, b->n, from));
    out->high = exp(stk__shift_select(a->logs, a->n, b->logs, b->n, pairs + 1 - from));
    welch(&a->values, &b->values, out);
    stk__means_unpaired(&a->values, &b->values, confidence, &out->means);
    out->means.p = out->p_welch;
    out->median = exp(b->of_logs.median - a->of_logs.median);
    out->noise = sqrt(2) * out->sd_log;
    if (out->covered)
        out->noise = stk__noise_of(log(out->high) - log(out->low), STK_MIN(a->n, b->n), 1 - confidence);
}

stk_status stk__unpaired_test(const double *a, size_t na, const double *b, size_t nb, double confidence,
                              stk__unpaired *out, stk_error *err)
{
    if (!na || !nb)
        return stk_error_set(err, STK_INVALID, "%zu and %zu values to compare, wanted at least 1 each", na, nb);
    if (na > MAX_PAIRS / nb)
        return stk_error_set(err, STK_LIMIT, "%zu and %zu values to compare, wanted at most 2^52 pairs of them", na,
                             nb);
    sample sa = {0}, sb = {0};
    stk_status status = sample_init(&sa, a, na, "a", err);
    if (status == STK_OK)
        status = sample_init(&sb, b, nb, "b", err);
    if (status == STK_OK)
        fill(&sa, &sb, confidence, out);
    sample_clear(&sa);
    sample_clear(&sb);
    return status;
}
