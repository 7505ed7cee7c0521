/* Rank tests and robust figures. Nothing here assumes that times are normally distributed: they are not. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stats/ranks.h"
#include "stats/distributions.h"
#include "base/mem.h"

static int compare_int64(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int compare_double(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void stk__sort_int64(int64_t *values, size_t count)
{
    if (count > 1)
        qsort(values, count, sizeof *values, compare_int64);
}

/* Walks the groups of equal values over both samples, in order. */
typedef struct ties {
    const int64_t *a, *b;
    size_t na, nb, i, j; /* consumed of a and b */
} ties;

static bool ties_next(ties *t, size_t *out_a, size_t *out_b)
{
    if (t->i >= t->na && t->j >= t->nb)
        return false;
    const int64_t value = t->j >= t->nb || (t->i < t->na && t->a[t->i] <= t->b[t->j]) ? t->a[t->i] : t->b[t->j];
    const size_t i = t->i, j = t->j;
    while (t->i < t->na && t->a[t->i] == value)
        t->i++;
    while (t->j < t->nb && t->b[t->j] == value)
        t->j++;
    *out_a = t->i - i;
    *out_b = t->j - j;
    return true;
}

/*
 * The distribution of the rank sum over all ways to pick `picked` of the values, given their ties. Ranks are doubled,
 * so that the middle rank of a tie is whole. ways[k][s]: subsets of k values with sum s.
 */
enum { MAX_SUM = STK__MWU_EXACT * (STK__MWU_EXACT + 1), MAX_PICKED = STK__MWU_EXACT / 2 };

typedef struct rank_sums {
    double ways[MAX_PICKED + 1][MAX_SUM + 1];
} rank_sums;

static void count_sums(const uint16_t *ranks, size_t count, size_t picked, rank_sums *out)
{
    memset(out, 0, sizeof *out);
    out->ways[0][0] = 1;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = STK_MIN(picked, i + 1); k > 0; k--) {
            for (unsigned s = MAX_SUM; s >= ranks[i]; s--)
                out->ways[k][s] += out->ways[k - 1][s - ranks[i]];
        }
    }
}

static double exact_p(const uint16_t *ranks, size_t count, size_t picked, unsigned sum)
{
    rank_sums sums;
    count_sums(ranks, count, picked, &sums);
    const double *ways = sums.ways[picked];
    double below = 0, above = 0, all = 0;
    for (unsigned s = 0; s <= MAX_SUM; s++) {
        all += ways[s];
        below += s <= sum ? ways[s] : 0;
        above += s >= sum ? ways[s] : 0;
    }
    return fmin(1, 2 * fmin(below, above) / all);
}

size_t stk__mwu_interval_rank(size_t na, size_t nb, double confidence)
{
    const double tail = (1 - confidence) / 2, pairs = (double)na * (double)nb;
    if (!na || !nb || !(stk__mwu_smallest_p(na, nb) / 2 <= tail))
        return 0;
    if (na + nb > STK__MWU_EXACT) {
        const double sd = sqrt(pairs / 12 * ((double)na + (double)nb + 1));
        const double rank = floor(pairs / 2 + 0.5 + stk__normal_quantile(tail) * sd);
        return rank >= 1 ? (size_t)fmin(rank, ceil(pairs / 2)) : 0;
    }
    uint16_t ranks[STK__MWU_EXACT];
    for (size_t i = 0; i < na + nb; i++)
        ranks[i] = (uint16_t)(2 * (i + 1));
    const size_t picked = STK_MIN(na, nb);
    rank_sums sums;
    count_sums(ranks, na + nb, picked, &sums);
    double all = 0, below = 0;
    for (unsigned s = 0; s <= MAX_SUM; s++)
        all += sums.ways[picked][s];
    const size_t least = picked * (picked + 1); /* doubled rank sum at U = 0 */
    size_t rank = 0;
    for (; rank < na * nb / 2; rank++) {
        below += sums.ways[picked][least + 2 * rank];
        if (below > tail * all)
            break;
    }
    return rank;
}

static double exact_test(const int64_t *a, size_t na, const int64_t *b, size_t nb)
{
    uint16_t ranks[STK__MWU_EXACT];
    const bool pick_a = na <= nb;
    unsigned sum = 0;
    size_t seen = 0, ta, tb;
    ties t = {.a = a, .b = b, .na = na, .nb = nb};
    while (ties_next(&t, &ta, &tb)) {
        const unsigned rank = (unsigned)(2 * seen + ta + tb + 1);
        for (size_t k = 0; k < ta + tb; k++)
            ranks[seen++] = (uint16_t)rank;
        sum += rank * (unsigned)(pick_a ? ta : tb);
    }
    return exact_p(ranks, seen, pick_a ? na : nb, sum);
}

void stk__mwu_test(const int64_t *a, size_t na, const int64_t *b, size_t nb, stk__mwu *out)
{
    const double pairs = (double)na * (double)nb, n = (double)na + (double)nb;
    double u = 0, tied = 0, below = 0; /* below: values of a smaller than the group at hand */
    size_t ta, tb;
    ties t = {.a = a, .b = b, .na = na, .nb = nb};
    while (ties_next(&t, &ta, &tb)) {
        const double group = (double)ta + (double)tb;
        u += (double)tb * (below + (double)ta / 2);
        tied += group * group * group - group;
        below += (double)ta;
    }
    *out = (stk__mwu){.u = u, .superiority = u / pairs, .p = 1};
    if (na + nb <= STK__MWU_EXACT) {
        out->exact = true;
        out->p = exact_test(a, na, b, nb);
        return;
    }
    const double variance = pairs / 12 * (n + 1 - tied / (n * (n - 1)));
    if (!(variance > 0))
        return; /* all values are equal */
    const double distance = fabs(u - pairs / 2) - 0.5;
    out->z = distance > 0 ? copysign(distance / sqrt(variance), u - pairs / 2) : 0;
    out->p = fmin(1, erfc(fabs(out->z) * 0.70710678118654752440));
}

double stk__mwu_smallest_p(size_t na, size_t nb)
{
    const size_t small = STK_MIN(na, nb), large = STK_MAX(na, nb);
    if (!small)
        return 1;
    double ways = 1; /* to pick the small side of all values */
    for (size_t k = 1; k <= small && ways < 1e12; k++)
        ways *= (double)(large + k) / (double)k;
    return fmin(1, 2 / ways);
}

typedef struct ranked {
    double p;
    size_t at;
} ranked;

static int compare_ranked(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return x->p < y->p ? -1 : x->p > y->p ? 1 : (x->at > y->at) - (x->at < y->at);
}

stk_status stk__holm(const double *p, size_t count, double *out, stk_error *err)
{
    ranked *order = stk__calloc(count, sizeof *order);
    if (!order)
        return stk__nomem(count * sizeof *order, err);
    for (size_t i = 0; i < count; i++)
        order[i] = (ranked){p[i], i};
    if (count > 1)
        qsort(order, count, sizeof *order, compare_ranked);
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fmin(1, (double)(count - i) * order[i].p));
        out[order[i].at] = largest;
    }
    stk__free(order);
    return STK_OK;
}

/*
 * The largest k with P(X < k) <= 0.025 for X binomial (count, 1/2): the interval runs from value k to value count + 1 -
 * k.
 */
static size_t median_rank(size_t count)
{
    if (count > 1000) {
        const double k = floor(((double)count - 1.9599639845400545 * sqrt((double)count)) / 2);
        return (size_t)k;
    }
    double ways = pow(0.5, (double)count), sum = 0;
    if (ways == 0)
        return count / 2;
    size_t k = 0;
    for (; k < count; k++) {
        sum += ways;
        if (sum > 0.025)
            break;
        ways *= (double)(count - k) / (double)(k + 1);
    }
    return k;
}

stk__median stk__median_of(const int64_t *sorted, size_t count)
{
    size_t rank = median_rank(count);
    rank = rank ? rank : 1; /* under 6 values all of them give less than 95 %, and there are no more */
    const size_t middle = count / 2;
    const double upper = (double)sorted[middle];
    const double value = count % 2 ? upper : (double)sorted[middle - 1] + (upper - (double)sorted[middle - 1]) / 2;
    return (stk__median){value, sorted[rank - 1], sorted[count - rank]};
}

double stk__median_double(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_double);
    const size_t middle = count / 2;
    return count % 2 ? values[middle] : values[middle - 1] + (values[middle] - values[middle - 1]) / 2;
}

double stk__spread_of(double *values, size_t count)
{
    const double median = stk__median_double(values, count);
    for (size_t i = 0; i < count; i++)
        values[i] = fabs(values[i] - median);
    return 1.4826022185056018 * stk__median_double(values, count);
}

/* Doubles as whole numbers in the same order, so that the middle between two of them is an addition. */
static int64_t order_of(double value)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits >= 0 ? bits : INT64_MIN - bits;
}

static double value_at(int64_t order)
{
    const int64_t bits = order >= 0 ? order : INT64_MIN - order;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Differences b - a of two sorted samples; or the means of the values of one with each other and with themselves. */
typedef struct pairs {
    const double *a, *b;
    size_t na, nb;
    bool means; /* a and b are the same sample */
} pairs;

static double pair_value(const pairs *p, size_t i, size_t j)
{
    return p->means ? (p->a[i] + p->b[j]) / 2 : p->b[j] - p->a[i];
}

/*
 * How many pairs are at most `value`. Rounded sums and differences still grow with each side, so the limit for j moves
 * one way only.
 */
static uint64_t pairs_up_to(const pairs *p, double value)
{
    uint64_t count = 0;
    size_t j = p->means ? p->nb : 0; /* values of b in question are those before j */
    for (size_t i = 0; i < p->na; i++) {
        while (p->means && j > i && pair_value(p, i, j - 1) > value)
            j--;
        while (!p->means && j < p->nb && pair_value(p, i, j) <= value)
            j++;
        if (p->means && j <= i)
            break;
        count += p->means ? j - i : j;
    }
    return count;
}

/* The value of rank `rank` (from 1), by halving the doubles between the least and the greatest: at most 64 counts. */
static double pairs_select(const pairs *p, uint64_t rank)
{
    int64_t low = order_of(p->means ? p->a[0] : pair_value(p, p->na - 1, 0));
    int64_t high = order_of(p->means ? p->a[p->na - 1] : pair_value(p, 0, p->nb - 1));
    while (low < high) {
        const int64_t middle = (low & high) + ((low ^ high) >> 1); /* rounded down, without overflow */
        if (pairs_up_to(p, value_at(middle)) >= rank)
            high = middle;
        else
            low = middle + 1;
    }
    return value_at(low);
}

static double pairs_median(const pairs *p, uint64_t count)
{
    const double low = pairs_select(p, (count + 1) / 2);
    return count % 2 ? low : low + (pairs_select(p, count / 2 + 1) - low) / 2;
}

double stk__walsh_median(const double *sorted, size_t n)
{
    const pairs p = {.a = sorted, .b = sorted, .na = n, .nb = n, .means = true};
    return pairs_median(&p, n % 2 ? (uint64_t)n * ((n + 1) / 2) : (uint64_t)(n / 2) * (n + 1));
}

double stk__walsh_select(const double *sorted, size_t n, uint64_t rank)
{
    const pairs p = {.a = sorted, .b = sorted, .na = n, .nb = n, .means = true};
    return pairs_select(&p, rank);
}

double stk__shift_median(const double *a, size_t na, const double *b, size_t nb)
{
    const pairs p = {.a = a, .b = b, .na = na, .nb = nb};
    return pairs_median(&p, (uint64_t)na * nb);
}

double stk__shift_select(const double *a, size_t na, const double *b, size_t nb, uint64_t rank)
{
    const pairs p = {.a = a, .b = b, .na = na, .nb = nb};
    return pairs_select(&p, rank);
}
