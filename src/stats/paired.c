/* The sign-flip and signed-rank tests on differences of pairs, and all figures of a paired comparison. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stats/paired.h"
#include "stats/describe.h"
#include "stats/ranks.h"
#include "base/mem.h"
#include "base/rng.h"

/* Sums that differ by their rounding only count as equal: this share of the sum of all |d|. */
#define SUM_SLACK 1e-12

/*
 * All sums of +-d[i], ascending. The sums with one more value are the former ones less |d| and plus |d|, both in order:
 * merging them needs no sort. Returns how many; `spare` is as large as `sums`.
 */
static size_t signed_sums(const double *d, size_t n, double *sums, double *spare)
{
    size_t count = 1;
    sums[0] = 0;
    for (size_t i = 0; i < n; i++) {
        const double step = fabs(d[i]);
        memcpy(spare, sums, count * sizeof *sums);
        for (size_t less = 0, more = 0; more < count;) {
            const bool take = less < count && spare[less] - step <= spare[more] + step;
            sums[less + more] = take ? spare[less] - step : spare[more] + step;
            less += take;
            more += !take;
        }
        count *= 2;
    }
    return count;
}

/* Share of the 2^n flips whose sum is at least `limit`, from the sums of both halves: 2^(n/2) steps in place of 2^n. */
static double flip_share(const double *d, size_t n, double limit)
{
    enum { HALF = 1 << ((STK__FLIP_EXACT + 1) / 2) };
    double first[HALF], second[HALF], spare[HALF];
    const size_t firsts = signed_sums(d, n / 2, first, spare);
    const size_t seconds = signed_sums(d + n / 2, n - n / 2, second, spare);
    uint64_t found = 0;
    size_t from = seconds; /* sums of the second half from here on reach the limit; moves down as the first grows */
    for (size_t i = 0; i < firsts; i++) {
        while (from > 0 && first[i] + second[from - 1] >= limit)
            from--;
        found += seconds - from;
    }
    return (double)found / ((double)firsts * (double)seconds);
}

enum { FLIP_BLOCK = 4000 };

/* Up to 32 values, the first of them being number 32 * word: sums of eight by their eight signs. */
typedef struct flip_word {
    double table[4][256];
    uint32_t word;
} flip_word;

static void flip_word_init(flip_word *f, const double *d, size_t n, size_t word)
{
    f->word = (uint32_t)word;
    for (size_t part = 0; part < 4; part++) {
        double value[8] = {0}, *sums = f->table[part];
        sums[0] = 0;
        for (size_t i = 0; i < 8; i++) {
            const size_t at = 32 * word + 8 * part + i;
            value[i] = at < n ? d[at] : 0;
            sums[0] += value[i];
        }
        for (size_t i = 0; i < 8; i++) {
            for (size_t signs = 0; signs < (size_t)1 << i; signs++)
                sums[((size_t)1 << i) + signs] = sums[signs] - 2 * value[i];
        }
    }
}

/* Adds the sum of these values with random signs to sums[k], which belongs to flip first + k. */
static void flip_word_add(const flip_word *f, uint64_t key, size_t first, size_t flips, double *sums)
{
    const uint32_t keys[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    for (size_t k = 0; k < flips; k += 4) {
        const uint32_t counter[4] = {(uint32_t)((first + k) / 4), f->word, 0, 0};
        uint32_t bits[4];
        stk__philox(keys, counter, bits);
        for (size_t lane = 0; lane < 4 && k + lane < flips; lane++) {
            const uint32_t b = bits[lane];
            const double low = f->table[0][b & 255] + f->table[1][b >> 8 & 255];
            sums[k + lane] += low + (f->table[2][b >> 16 & 255] + f->table[3][b >> 24]);
        }
    }
}

/* Fewer past 40,000 values, so that the time stays near a second; (1 + found) / (1 + flips) is valid for any number. */
static size_t flips_of(size_t n)
{
    const size_t affordable = (size_t)(UINT64_C(4000000000) / n);
    return STK_MAX((size_t)1000, STK_MIN((size_t)STK__FLIPS, affordable));
}

/* In blocks of flips, and within each in words of 32 values, so that sums and tables stay in the cache. */
static double random_flips(const double *d, size_t n, double limit, uint64_t seed)
{
    /* The order of the runs may be drawn from the same seed, and the flips must not repeat it. */
    const uint64_t key = stk__mix(seed, 0x7369676e666c6970);
    const size_t flips = flips_of(n);
    size_t found = 0;
    for (size_t first = 0; first < flips; first += FLIP_BLOCK) {
        const size_t block = STK_MIN((size_t)FLIP_BLOCK, flips - first);
        double sums[FLIP_BLOCK] = {0};
        for (size_t word = 0; word <= (n - 1) / 32; word++) {
            flip_word f;
            flip_word_init(&f, d, n, word);
            flip_word_add(&f, key, first, block, sums);
        }
        for (size_t k = 0; k < block; k++)
            found += fabs(sums[k]) >= limit;
    }
    return (1 + (double)found) / (1 + (double)flips);
}

stk_status stk__sign_flip_test(const double *d, size_t n, uint64_t seed, double *out_p, bool *out_exact, stk_error *err)
{
    double sum = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        sum += d[i];
        all += fabs(d[i]);
    }
    const double limit = fabs(sum) - SUM_SLACK * all;
    double p = 1;
    if (!(limit > 0)) {
        /* Every flip is as extreme as what was seen. */
    } else if (n <= STK__FLIP_EXACT) {
        p = fmin(1, 2 * flip_share(d, n, limit)); /* the flips come in pairs of opposite sums */
    } else {
        p = random_flips(d, n, limit, seed);
    }
    *out_p = p;
    *out_exact = n <= STK__FLIP_EXACT;
    return STK_OK;
}

enum { WILCOXON_EXACT = 50 };

/* P(W <= w) for the rank sum of one sign among ranks 1 .. n, all 2^n signs alike. */
static double signed_rank_cdf(size_t n, size_t w)
{
    enum { SUMS = WILCOXON_EXACT * (WILCOXON_EXACT + 1) / 2 + 1 };
    double ways[SUMS] = {1}; /* whole numbers up to 2^50 */
    for (size_t rank = 1; rank <= n; rank++) {
        for (size_t s = rank * (rank + 1) / 2; s >= rank; s--)
            ways[s] += ways[s - rank];
    }
    double sum = 0;
    for (size_t s = 0; s <= w; s++)
        sum += ways[s];
    return ldexp(sum, -(int)n);
}

static int compare_size(const void *a, const void *b)
{
    const double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
    return (x > y) - (x < y);
}

/* Rank sums of both signs over differences sorted by size, and the sum of t^3 - t over ties of t values. */
typedef struct signed_ranks {
    double positive, negative, tied;
} signed_ranks;

static signed_ranks sum_ranks(const double *sorted, size_t n)
{
    signed_ranks r = {0};
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && fabs(sorted[end]) == fabs(sorted[i]);)
            end++;
        const double rank = ((double)i + (double)end + 1) / 2, ties = (double)(end - i);
        for (size_t k = i; k < end; k++)
            *(sorted[k] > 0 ? &r.positive : &r.negative) += rank;
        r.tied += ties * ties * ties - ties;
    }
    return r;
}

stk_status stk__wilcoxon_test(const double *d, size_t n, double *out_p, bool *out_exact, stk_error *err)
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
    const signed_ranks r = sum_ranks(sorted, count);
    stk__free(sorted);
    const double smaller = fmin(r.positive, r.negative), c = (double)count;
    const bool exact = count == n && n <= WILCOXON_EXACT && r.tied == 0;
    double p = 1;
    if (exact) {
        p = fmin(1, 2 * signed_rank_cdf(n, (size_t)smaller));
    } else if (count) {
        const double variance = (c * (c + 1) * (2 * c + 1) - r.tied / 2) / 24;
        const double distance = c * (c + 1) / 4 - smaller - 0.5; /* half a rank for continuity */
        p = distance > 0 ? erfc(distance / sqrt(2 * variance)) : 1;
    }
    *out_p = p;
    *out_exact = exact;
    return STK_OK;
}

/*
 * ln(b/a), to the last digit the opposite of ln(a/b), and the same for equal ratios: both matter to ties. The quotient
 * overflows only for values that no clock gives.
 */
static double log_ratio(double a, double b)
{
    const double ratio = b >= a ? b / a : a / b;
    const double size = isfinite(ratio) ? log(ratio) : fabs(log(b) - log(a));
    return b >= a ? size : -size;
}

/* d and sorted have room for n values each. */
static stk_status fill(const double *a, const double *b, size_t n, double confidence, uint64_t seed, double *d,
                       double *sorted, stk__paired *out, stk_error *err)
{
    stk__paired r = {.n = n};
    for (size_t i = 0; i < n; i++) {
        sorted[i] = d[i] = log_ratio(a[i], b[i]);
        r.smaller += b[i] < a[i];
        r.equal += b[i] == a[i];
    }
    stk__summary s;
    STK_TRY(stk__describe(d, n, &s, err));
    STK_TRY(stk__sign_flip_test(d, n, seed, &r.p_flip, &r.flip_exact, err));
    STK_TRY(stk__wilcoxon_test(d, n, &r.p_wilcoxon, &r.wilcoxon_exact, err));
    stk__sort_double(sorted, n);
    double low, high, reached;
    r.covered = stk__median_interval(sorted, n, confidence, &low, &high, &reached);
    r.ratio = exp(s.median);
    r.low = exp(low);
    r.high = exp(high);
    r.hodges_lehmann = exp(stk__walsh_median(sorted, n));
    r.mean_log = s.mean;
    r.sd_log = s.sd;
    *out = r;
    return STK_OK;
}

stk_status stk__paired_test(const double *a, const double *b, size_t n, double confidence, uint64_t seed,
                            stk__paired *out, stk_error *err)
{
    if (!n)
        return stk_error_set(err, STK_INVALID, "no rounds to compare, wanted at least 1");
    for (size_t i = 0; i < n; i++) {
        const double bad = isfinite(a[i]) && a[i] > 0 ? b[i] : a[i];
        if (!(isfinite(bad) && bad > 0))
            return stk_error_set(err, STK_INVALID, "round %zu has a value of %g, wanted finite ones above 0", i + 1,
                                 bad);
    }
    double *d = stk__calloc(n, 2 * sizeof *d);
    if (!d)
        return stk__nomem(n * 2 * sizeof *d, err);
    const stk_status status = fill(a, b, n, confidence, seed, d, d + n, out, err);
    stk__free(d);
    return status;
}
