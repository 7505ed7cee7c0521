/* Simulated sessions on a noisy machine: how often does a comparison of equals, or of a known effect, get a verdict? */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench/design.h"
#include "stats/describe.h"
#include "stats/paired.h"
#include "stats/unpaired.h"
#include "stats/verdict.h"
#include "base/rng.h"

enum { MOST_ROUNDS = 60 };

#define SD 0.1 /* of the logarithm of a time */
#define TWO_PI 6.28318530717958647693

static const stk__rule rule = {.confidence = 0.95, .min_effect = 0, .margin = 0.02};

/* Random numbers of one session; the same on every machine. */
typedef struct source {
    uint64_t seed;
    uint32_t used;
} source;

static double uniform(source *s)
{
    const uint32_t key[2] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32)}, counter[4] = {s->used++, 1, 2, 3};
    uint32_t out[4];
    stk__philox(key, counter, out);
    return (out[0] + 0.5) / 4294967296.0;
}

static double normal(source *s)
{
    const double radius = sqrt(-2 * log(uniform(s)));
    return radius * cos(TWO_PI * uniform(s));
}

typedef struct noise {
    const char *name;
    double rho;   /* correlation of the logarithm of a time with the next one */
    double drift; /* growth over the session */
    double wave;  /* and a slow sine */
} noise;

static const noise white = {"white", 0, 0, 0}, correlated = {"rho 0.6", 0.6, 0, 0},
                   drifting = {"rho 0.6, drift", 0.6, 0.3, 0.1};

/* The times of `runs` runs of one and the same program, in the order in which they ran. */
static void run_session(const noise *kind, uint64_t seed, size_t runs, double *out)
{
    source s = {.seed = stk__mix(seed, 0x6e6f697365)};
    const double phase = TWO_PI * uniform(&s);
    double x = SD * normal(&s);
    for (size_t i = 0; i < runs; i++) {
        const double at = (double)i / (double)runs;
        out[i] = exp(x + log1p(kind->drift * at) + kind->wave * sin(phase + 1.5 * TWO_PI * at));
        x = kind->rho * x + SD * sqrt(1 - kind->rho * kind->rho) * normal(&s);
    }
}

/* The same runs as our design assigns them: variant 1 takes 1 + effect times as long. */
static void take_turns(uint64_t seed, const double *times, size_t rounds, double effect, double *a, double *b)
{
    for (size_t round = 0; round < rounds; round++) {
        size_t order[2];
        stk__design_order(seed, round, 2, order);
        for (size_t k = 0; k < 2; k++)
            *(order[k] ? &b[round] : &a[round]) = times[2 * round + k] * (order[k] ? 1 + effect : 1);
    }
}

static bool is_change(stk__verdict verdict)
{
    return verdict == STK__FASTER || verdict == STK__SLOWER;
}

static stk__verdict judge(const double *a, const double *b, size_t n, uint64_t seed, stk__paired *out)
{
    assert_int_equal(stk__paired_test(a, b, n, rule.confidence, seed, out, NULL), STK_OK);
    return stk__decide(&rule, out->ratio, out->low, out->high, out->covered, out->p_flip);
}

/* Shares of sessions in which something was found. */
typedef struct rates {
    double verdict, flip, equivalent;
    double naive_u, naive_welch; /* all runs of a first, then all of b */
} rates;

static rates simulate_equals(const noise *kind, size_t n, size_t sessions)
{
    rates r = {0};
    const double share = 1 / (double)sessions;
    for (size_t k = 0; k < sessions; k++) {
        const uint64_t seed = stk__mix(n, k);
        double times[2 * MOST_ROUNDS], a[MOST_ROUNDS], b[MOST_ROUNDS];
        run_session(kind, seed, 2 * n, times);
        take_turns(seed, times, n, 0, a, b);
        stk__paired pair;
        const stk__verdict verdict = judge(a, b, n, seed, &pair);
        stk__unpaired naive;
        assert_int_equal(stk__unpaired_test(times, n, times + n, n, rule.confidence, &naive, NULL), STK_OK);
        r.verdict += is_change(verdict) ? share : 0;
        r.equivalent += verdict == STK__EQUIVALENT ? share : 0;
        r.flip += pair.p_flip < 0.05 ? share : 0;
        r.naive_u += naive.p_mann_whitney < 0.05 ? share : 0;
        r.naive_welch += naive.p_welch < 0.05 ? share : 0;
    }
    print_message(
        "%-14s n=%zu: verdict %.1f %%, sign-flip alone %.1f %%; one after the other: Mann-Whitney %.1f %%, Welch "
        "%.1f %%\n",
        kind->name, n, 100 * r.verdict, 100 * r.flip, 100 * r.naive_u, 100 * r.naive_welch);
    return r;
}

/* Past 20 rounds the flips are drawn, which takes longer. */
static const struct {
    size_t n, sessions;
} sizes[] = {{12, 3000}, {20, 3000}, {30, 800}};

static void check_equals(const noise *kind, bool naive_fails)
{
    for (size_t i = 0; i < STK_COUNT(sizes); i++) {
        const rates r = simulate_equals(kind, sizes[i].n, sizes[i].sessions);
        assert_true(r.verdict <= 0.06);
        assert_true(r.verdict > 0.005); /* a rule that never finds anything would pass all the rest */
        assert_true(r.flip <= 0.085);
        const double naive = fmin(r.naive_u, r.naive_welch);
        if (naive_fails)
            assert_true(naive >= 2 * r.verdict && naive >= 0.12);
        else
            assert_true(naive <= 0.07);
    }
}

static void equals_under_drift_and_correlation_rarely_get_a_verdict(void **state)
{
    check_equals(&drifting, true);
}

static void equals_under_correlation_rarely_get_a_verdict(void **state)
{
    check_equals(&correlated, true);
}

/* Without either the naive way is as good: the noise is what makes it fail, not the test. */
static void equals_under_white_noise_rarely_get_a_verdict(void **state)
{
    check_equals(&white, false);
}

/* Times one after the other, judged as if they had been paired: the failure of the order, not of the unpaired tests. */
static void pairing_without_turns_does_not_help(void **state)
{
    enum { N = 20, SESSIONS = 1000 };
    size_t found = 0;
    for (size_t k = 0; k < SESSIONS; k++) {
        double times[2 * N];
        run_session(&drifting, k, 2 * N, times);
        stk__paired pair;
        found += is_change(judge(times, times + N, N, k, &pair));
    }
    assert_true(found > SESSIONS / 5);
}

/* Share of sessions with an effect of +5 % in which it is found, with the right sign. */
static double simulate_effect(size_t n, double sd, double effect, size_t sessions)
{
    size_t found = 0;
    for (size_t k = 0; k < sessions; k++) {
        const uint64_t seed = stk__mix(1000 + n, k);
        double times[2 * MOST_ROUNDS], a[MOST_ROUNDS], b[MOST_ROUNDS];
        run_session(&white, seed, 2 * n, times);
        for (size_t i = 0; i < 2 * n; i++)
            times[i] = pow(times[i], sd / (SD * sqrt(2))); /* the log-ratio of two then has this spread */
        take_turns(seed, times, n, effect, a, b);
        stk__paired pair;
        found += judge(a, b, n, seed, &pair) == STK__SLOWER;
    }
    return (double)found / (double)sessions;
}

static void known_effects_are_found_with_the_predicted_power(void **state)
{
    static const struct {
        size_t n, sessions;
        double effect, power;
    } cases[] = {{12, 2000, 0.05, 0.5}, {20, 2000, 0.05, 0.8}, {30, 500, 0.05, 0.8},  {50, 300, 0.05, 0.6},
                 {12, 2000, 0.02, 0.8}, {20, 2000, 0.02, 0.3}, {12, 2000, 0.1, 0.95}, {20, 2000, 0.1, 0.9}};
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const size_t n = cases[i].n, sessions = cases[i].sessions;
        const double size = log1p(cases[i].effect);
        const double sd = size / stk__detectable(1, n, rule.confidence, cases[i].power);
        const double wanted = stk__power(sd, n, rule.confidence, size);
        assert_true(fabs(wanted - cases[i].power) < 1e-6); /* each is the inverse of the other */
        const double found = simulate_effect(n, sd, cases[i].effect, sessions);
        print_message("+%.0f %%, sd %.3f, n=%zu: predicted %.1f %%, found %.1f %%\n", 100 * cases[i].effect, sd, n,
                      100 * wanted, 100 * found);
        assert_true(fabs(found - wanted) <= 0.03 + 4 * sqrt(wanted * (1 - wanted) / (double)sessions));
    }
}

/* Rounds until the interval is narrow enough, looked at from 6 rounds on after every second. */
static size_t stop_on_width(const double *a, const double *b, double width)
{
    double sorted[MOST_ROUNDS];
    for (size_t n = 6; n < MOST_ROUNDS; n += 2) {
        for (size_t i = 0; i < n; i++)
            sorted[i] = log(b[i] / a[i]);
        stk__sort_double(sorted, n);
        double low, high, reached;
        if (stk__median_interval(sorted, n, rule.confidence, &low, &high, &reached) && expm1(high - low) <= width)
            return n;
    }
    return MOST_ROUNDS;
}

static void stopping_on_the_width_keeps_false_positives_down(void **state)
{
    static const struct {
        const noise *kind;
        double width;
    } cases[] = {{&white, 0.2}, {&white, 0.12}, {&correlated, 0.15}, {&drifting, 0.15}, {&drifting, 0.1}};
    enum { SESSIONS = 600 };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        size_t found = 0, rounds = 0;
        for (size_t k = 0; k < SESSIONS; k++) {
            const uint64_t seed = stk__mix(77 + i, k);
            double times[2 * MOST_ROUNDS], a[MOST_ROUNDS], b[MOST_ROUNDS];
            run_session(cases[i].kind, seed, 2 * MOST_ROUNDS, times);
            take_turns(seed, times, MOST_ROUNDS, 0, a, b);
            const size_t n = stop_on_width(a, b, cases[i].width);
            stk__paired pair;
            found += is_change(judge(a, b, n, seed, &pair));
            rounds += n;
        }
        const double share = (double)found / SESSIONS;
        print_message("%-14s stopped at a width of %.0f %% after %.1f rounds: verdict %.1f %%\n", cases[i].kind->name,
                      100 * cases[i].width, (double)rounds / SESSIONS, 100 * share);
        assert_true(share <= 0.06);
    }
}

/* Stopping on p is what the program refuses to do; this is why. */
static void stopping_on_p_would_raise_false_positives(void **state)
{
    enum { SESSIONS = 1000, MOST = 20 };
    size_t found = 0;
    for (size_t k = 0; k < SESSIONS; k++) {
        double times[2 * MOST], a[MOST], b[MOST], d[MOST];
        run_session(&white, k, 2 * MOST, times);
        take_turns(k, times, MOST, 0, a, b);
        bool stopped = false;
        for (size_t n = 6; n <= MOST && !stopped; n += 2) {
            for (size_t i = 0; i < n; i++)
                d[i] = log(b[i] / a[i]);
            double p;
            bool exact;
            assert_int_equal(stk__sign_flip_test(d, n, k, &p, &exact, NULL), STK_OK);
            stopped = p < 0.05;
        }
        found += stopped;
    }
    assert_true(found > SESSIONS / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_under_drift_and_correlation_rarely_get_a_verdict),
        cmocka_unit_test(equals_under_correlation_rarely_get_a_verdict),
        cmocka_unit_test(equals_under_white_noise_rarely_get_a_verdict),
        cmocka_unit_test(pairing_without_turns_does_not_help),
        cmocka_unit_test(known_effects_are_found_with_the_predicted_power),
        cmocka_unit_test(stopping_on_the_width_keeps_false_positives_down),
        cmocka_unit_test(stopping_on_p_would_raise_false_positives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
