/* The sign-flip permutation test: all flips of few values, random ones of many. */
#include <math.h>
#include <string.h>

#include "stats/flips.h"
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

double stk__sign_flip_p(const double *d, size_t n, uint64_t seed, bool *out_exact)
{
    double sum = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        sum += d[i];
        all += fabs(d[i]);
    }
    const double limit = fabs(sum) - SUM_SLACK * all;
    *out_exact = n <= STK__FLIP_EXACT;
    if (!(limit > 0))
        return 1; /* every flip is as extreme as what was seen */
    /* The flips come in pairs of opposite sums. */
    return *out_exact ? fmin(1, 2 * flip_share(d, n, limit)) : random_flips(d, n, limit, seed);
}
