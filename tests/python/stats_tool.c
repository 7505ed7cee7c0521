/* stats_tool: reads a test and its values per line, prints its figures on a line, for test_bench_stats.py. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "stats/change_points.h"
#include "stats/describe.h"
#include "stats/distributions.h"
#include "stats/flips.h"
#include "stats/paired.h"
#include "stats/signed_rank.h"
#include "stats/unpaired.h"

enum { MAX_VALUES = 100000, MAX_WORD = 32 };

/* "NAME values": as many values as the line says or has. */
static bool read_values(double *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (scanf("%lf", &out[i]) != 1)
            return false;
    }
    return true;
}

static bool read_count(size_t *out)
{
    return scanf("%zu", out) == 1 && *out <= MAX_VALUES;
}

/* paired CONFIDENCE SEED N a... b... */
static bool do_paired(double *a, double *b)
{
    double confidence;
    uint64_t seed;
    size_t n;
    stk__paired r;
    stk_error err = {0};
    if (scanf("%lf %" SCNu64, &confidence, &seed) != 2 || !read_count(&n) || !read_values(a, n) || !read_values(b, n))
        return false;
    if (stk__paired_test(a, b, n, confidence, seed, &r, &err) != STK_OK) {
        printf("error %s\n", err.message);
        return true;
    }
    printf("%.17g %.17g %.17g %d %.17g %.17g %zu %zu %.17g %d %.17g %.17g %.17g %.17g\n", r.ratio, r.low, r.high,
           r.covered, r.median, r.sd_log, r.smaller, r.equal, r.p, r.exact, r.means.ratio, r.means.low, r.means.high,
           r.means.p);
    return true;
}

/* differences SEED N d... */
static bool do_differences(double *d)
{
    uint64_t seed;
    size_t n;
    double wilcoxon;
    bool flip_exact, wilcoxon_exact;
    if (scanf("%" SCNu64, &seed) != 1 || !read_count(&n) || !read_values(d, n))
        return false;
    const double flip = stk__sign_flip_p(d, n, seed, &flip_exact);
    if (stk__signed_rank_test(d, n, &wilcoxon, &wilcoxon_exact, NULL) != STK_OK)
        return false;
    printf("%.17g %d %.17g %d\n", flip, flip_exact, wilcoxon, wilcoxon_exact);
    return true;
}

/* unpaired CONFIDENCE NA NB a... b... */
static bool do_unpaired(double *a, double *b)
{
    double confidence;
    size_t na, nb;
    stk__unpaired r;
    stk_error err = {0};
    if (scanf("%lf", &confidence) != 1 || !read_count(&na) || !read_count(&nb) || !read_values(a, na) ||
        !read_values(b, nb))
        return false;
    if (stk__unpaired_test(a, na, b, nb, confidence, &r, &err) != STK_OK) {
        printf("error %s\n", err.message);
        return true;
    }
    printf("%.17g %.17g %.17g %d %.17g %d %.17g %.17g %.17g %.17g\n", r.ratio, r.low, r.high, r.covered,
           r.p_mann_whitney, r.exact, r.welch_t, r.welch_df, r.p_welch, r.sd_log);
    return true;
}

/* describe CONFIDENCE N values... */
static bool do_describe(double *values)
{
    double confidence, low, high, reached;
    size_t n;
    stk__summary s;
    if (scanf("%lf", &confidence) != 1 || !read_count(&n) || !read_values(values, n) ||
        stk__describe(values, n, &s, NULL) != STK_OK)
        return false;
    const double correlation = stk__autocorrelation(values, n);
    stk__sort_double(values, n);
    const bool covered = stk__median_interval(values, n, confidence, &low, &high, &reached);
    printf("%.17g %.17g %.17g %.17g %.17g %.17g %.17g %zu %.17g %.17g %.17g %d %.17g\n", s.mean, s.sd, s.median, s.min,
           s.max, s.q1, s.q3, s.outliers, low, high, reached, covered, correlation);
    return true;
}

/* normal Z P; student T DF P; binomial K N P: the distribution, then its quantile. */
static bool do_distribution(const char *word)
{
    double x[2], p;
    size_t k, n;
    if (!strcmp(word, "normal") && scanf("%lf %lf", &x[0], &p) == 2)
        return printf("%.17g %.17g\n", stk__normal_cdf(x[0]), stk__normal_quantile(p)) > 0;
    if (!strcmp(word, "student") && scanf("%lf %lf %lf", &x[0], &x[1], &p) == 3)
        return printf("%.17g %.17g\n", stk__student_p(x[0], x[1]), stk__student_quantile(p, x[1])) > 0;
    if (!strcmp(word, "binomial") && scanf("%zu %zu %lf", &k, &n, &p) == 3)
        return printf("%.17g %.17g\n", stk__binomial_cdf(k, n), stk__binomial_below(k, n, p)) > 0;
    return false;
}

/* changes DEFAULT|HUNTER WINDOW MAX_P MIN_EFFECT N values...: seven figures of each */
static bool do_changes(double *values)
{
    char word[MAX_WORD + 1];
    size_t n, count = 0;
    stk__change *changes = NULL;
    stk_error err = {0};
    if (scanf("%32s", word) != 1)
        return false;
    stk__change_rule rule = strcmp(word, "hunter") ? stk__change_rule_default : stk__change_rule_hunter;
    if (scanf("%zu %lf %lf", &rule.window, &rule.max_p, &rule.min_effect) != 3 || !read_count(&n) ||
        !read_values(values, n))
        return false;
    if (rule.as_hunter)
        rule.weak_p = 10 * rule.max_p;
    if (stk__change_points(values, NULL, n, &rule, &changes, &count, &err) != STK_OK) {
        printf("error %s\n", err.message);
        return true;
    }
    for (size_t i = 0; i < count; i++)
        printf("%zu %.17g %.17g %.17g %.17g %.17g %.17g ", changes[i].at, changes[i].p, changes[i].before,
               changes[i].after, changes[i].ratio, changes[i].low, changes[i].high);
    printf("\n");
    stk__free(changes);
    return true;
}

int main(void)
{
    static double a[MAX_VALUES], b[MAX_VALUES];
    char word[MAX_WORD + 1];
    while (scanf("%32s", word) == 1) {
        const bool done = !strcmp(word, "paired")        ? do_paired(a, b)
                          : !strcmp(word, "differences") ? do_differences(a)
                          : !strcmp(word, "unpaired")    ? do_unpaired(a, b)
                          : !strcmp(word, "describe")    ? do_describe(a)
                          : !strcmp(word, "changes")     ? do_changes(a)
                                                         : do_distribution(word);
        if (!done) {
            fprintf(stderr, "stats_tool: cannot read what follows '%s'\n", word);
            return 2;
        }
    }
    return 0;
}
