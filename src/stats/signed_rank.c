/* Rank sums of both signs: their distribution counted for few values, normal for many. */
#include <math.h>
#include <stdlib.h>

#include "stats/signed_rank.h"
#include "stats/distributions.h"
#include "base/mem.h"

enum { SUMS = STK__SIGNED_RANK_EXACT * (STK__SIGNED_RANK_EXACT + 1) + 1 };

/*
 * Chances of each sum of `ranks` that have one sign, all 2^n signs alike. Ranks are doubled, so that those of ties are
 * whole; the chances are whole numbers over 2^n, exact in a double.
 */
static void count_sums(const uint32_t *ranks, size_t n, double *chances)
{
    size_t most = 0;
    chances[0] = 1;
    for (size_t i = 0; i < n; i++) {
        const size_t rank = ranks[i];
        for (size_t s = most + 1; s <= most + rank; s++)
            chances[s] = 0;
        most += rank;
        for (size_t s = most; s >= rank; s--)
            chances[s] = (chances[s] + chances[s - rank]) / 2;
        for (size_t s = 0; s < rank && s <= most; s++)
            chances[s] /= 2;
    }
}

static int compare_size(const void *a, const void *b)
{
    const double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
    return (x > y) - (x < y);
}

/* Rank sums of both signs over differences sorted by size, and the sum of t^3 - t over ties of t values. */
typedef struct signed_ranks {
    double positive, negative, tied;
    uint32_t doubled[STK__SIGNED_RANK_EXACT]; /* of each difference; of the first ones when there are more */
} signed_ranks;

static void sum_ranks(const double *sorted, size_t n, signed_ranks *r)
{
    *r = (signed_ranks){0};
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && fabs(sorted[end]) == fabs(sorted[i]);)
            end++;
        const double rank = ((double)i + (double)end + 1) / 2, ties = (double)(end - i);
        for (size_t k = i; k < end; k++) {
            *(sorted[k] > 0 ? &r->positive : &r->negative) += rank;
            if (k < STK__SIGNED_RANK_EXACT)
                r->doubled[k] = (uint32_t)(i + end + 1);
        }
        r->tied += ties * ties * ties - ties;
    }
}

static double exact_p(const signed_ranks *r, size_t n)
{
    double chances[SUMS], sum = 0;
    const size_t limit = (size_t)(2 * fmin(r->positive, r->negative));
    count_sums(r->doubled, n, chances);
    for (size_t s = 0; s <= limit; s++)
        sum += chances[s];
    return fmin(1, 2 * sum);
}

static double normal_p(const signed_ranks *r, size_t n)
{
    const double c = (double)n, variance = (c * (c + 1) * (2 * c + 1) - r->tied / 2) / 24;
    const double distance = c * (c + 1) / 4 - fmin(r->positive, r->negative) - 0.5; /* half a rank for continuity */
    return distance > 0 ? erfc(distance / sqrt(2 * variance)) : 1;
}

stk_status stk__signed_rank_test(const double *d, size_t n, double *out_p, bool *out_exact, stk_error *err)
{
    double *sorted = stk__calloc(n, sizeof *sorted);
    if (!sorted)
        return stk__nomem(n * sizeof *sorted, err);
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (d[i] != 0)
            sorted[count++] = d[i];
    }
    if (count > 1)
        qsort(sorted, count, sizeof *sorted, compare_size);
    signed_ranks r;
    sum_ranks(sorted, count, &r);
    stk__free(sorted);
    *out_exact = count <= STK__SIGNED_RANK_EXACT;
    *out_p = !count ? 1 : *out_exact ? exact_p(&r, count) : normal_p(&r, count);
    return STK_OK;
}

static uint64_t exact_interval(size_t n, double tail, double *out_level)
{
    uint32_t ranks[STK__SIGNED_RANK_EXACT] = {0};
    double chances[SUMS], below = 0;
    for (size_t i = 0; i < n; i++)
        ranks[i] = (uint32_t)(2 * (i + 1));
    count_sums(ranks, n, chances);
    const size_t means = n * (n + 1) / 2;
    size_t k = 0;
    while (k < means / 2 && below + chances[2 * k] <= tail)
        below += chances[2 * k++];
    *out_level = k ? 2 * below : 1;
    return k;
}

uint64_t stk__signed_rank_interval(size_t n, double confidence, double *out_level)
{
    const double tail = (1 - confidence) / 2;
    double level = 1;
    uint64_t rank = 0;
    if (n <= STK__SIGNED_RANK_EXACT) {
        rank = exact_interval(n, tail, &level);
    } else if (tail > 0) {
        const double c = (double)n, middle = c * (c + 1) / 4, sd = sqrt(c * (c + 1) * (2 * c + 1) / 24);
        const double k = floor(middle + 0.5 + stk__normal_quantile(tail) * sd);
        rank = k >= 1 ? (uint64_t)k : 0;
        level = rank ? 2 * stk__normal_cdf((k - 0.5 - middle) / sd) : 1;
    }
    if (out_level)
        *out_level = level;
    return rank;
}
