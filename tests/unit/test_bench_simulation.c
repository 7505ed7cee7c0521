/* Simulated sessions on a noisy machine: how often does a comparison of equals, or of a known effect, get a verdict? */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench/design.h"
#include "stats/describe.h"
#include "stats/flips.h"
#include "stats/paired.h"
#include "stats/power.h"
#include "stats/signed_rank.h"
#include "stats/unpaired.h"
#include "base/rng.h"

enum { MOST_ROUNDS = 60 };

#define SD 0.1 /* of the logarithm of a time */
#define TWO_PI 6.28318530717958647693

/* Without a minimum effect: that alone would keep most false alarms away. */
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
    double sd;          /* of the logarithm of a time */
    double rho;         /* its correlation with the next one */
    double drift;       /* growth over the session */
    double wave;        /* and a slow sine */
    double share, slow; /* this share of runs takes so many times as long */
    double stay;        /* chance that a run is as slow or quick as the last one was, without a draw */
    bool heavy;         /* Student's t with 1.5 degrees of freedom in place of the normal distribution */
} noise;

static const noise white = {"independent", SD}, correlated = {"autocorrelated", SD, 0.6},
                   drifting = {"drifting", SD, 0.6, 0.3, 0.1}, steady = {"steady drift", 0.01, 0, 0.3},
                   heavy = {"heavy-tailed", SD, .heavy = true}, bimodal = {"bimodal", 0.02, .share = 0.3, .slow = 2},
                   spiked = {"spiked", 0.03, .share = 0.1, .slow = 3},
                   sticky = {"slow for a while", 0.02, .share = 0.3, .slow = 1.5, .stay = 0.9};

/* t with 1.5 degrees of freedom: a normal over the root of a gamma (0.75), by Johnk. */
static double heavy_normal(source *s)
{
    for (;;) {
        const double x = pow(uniform(s), 1 / 0.75), y = pow(uniform(s), 1 / 0.25);
        if (x + y > 1 || !(x + y > 0))
            continue;
        const double gamma = -log(uniform(s)) * x / (x + y);
        return normal(s) / sqrt(2 * gamma / 1.5);
    }
}

/* The times of `runs` runs of one and the same program, in the order in which they ran. */
static void run_session(const noise *kind, uint64_t seed, size_t runs, double *out)
{
    source s = {.seed = stk__mix(seed, 0x6e6f697365)};
    const double phase = TWO_PI * uniform(&s);
    double x = kind->sd * (kind->heavy ? heavy_normal(&s) : normal(&s));
    bool slow = uniform(&s) < kind->share;
    for (size_t i = 0; i < runs; i++) {
        const double at = (double)i / (double)runs;
        out[i] =
            exp(x + log1p(kind->drift * at) + kind->wave * sin(phase + 1.5 * TWO_PI * at)) * (slow ? kind->slow : 1);
        const double next = kind->sd * (kind->heavy ? heavy_normal(&s) : normal(&s));
        x = kind->rho * x + sqrt(1 - kind->rho * kind->rho) * next;
        slow = uniform(&s) < kind->stay ? slow : uniform(&s) < kind->share;
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
    return stk__verdict_better(verdict) || stk__verdict_worse(verdict);
}

static stk__verdict judge_by(const stk__rule *by, const double *a, const double *b, size_t n, uint64_t seed,
                             stk__paired *out)
{
    assert_int_equal(stk__paired_test(a, b, n, stk__rule_confidence(by, 1), seed, out, NULL), STK_OK);
    const stk__evidence e = {out->ratio,  out->low,  out->high, out->covered, out->p / STK__RANK_SHARE,
                             out->rest, out->means};
    return stk__decide(by, &e);
}

static stk__verdict judge(const double *a, const double *b, size_t n, uint64_t seed, stk__paired *out)
{
    return judge_by(&rule, a, b, n, seed, out);
}

/* What decided before: the median with the interval of the sign test, and sign flips of the mean log-ratio. */
static bool old_rule_finds(const double *a, const double *b, size_t n, uint64_t seed)
{
    double d[MOST_ROUNDS], low, high, reached;
    for (size_t i = 0; i < n; i++)
        d[i] = log(b[i] / a[i]);
    bool exact;
    const double p = stk__sign_flip_p(d, n, seed, &exact);
    stk__sort_double(d, n);
    return stk__median_interval(d, n, 0.95, &low, &high, &reached) && (low > 0 || high < 0) && p < 0.05;
}

/* Shares of sessions in which something was found. */
typedef struct rates {
    double verdict, tail;        /* any, and of a tail */
    double old;                  /* by the old rule */
    double naive_u, naive_welch; /* all runs of a first, then all of b */
    double covered;              /* the interval held 1 */
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
        r.tail += verdict == STK__TAIL_FASTER || verdict == STK__TAIL_SLOWER ? share : 0;
        r.old += old_rule_finds(a, b, n, seed) ? share : 0;
        r.naive_u += naive.p_mann_whitney < 0.05 ? share : 0;
        r.naive_welch += naive.p_welch < 0.05 ? share : 0;
        r.covered += pair.low <= 1 && pair.high >= 1 ? share : 0;
    }
    print_message(
        "%-16s n=%zu: verdict %.1f %% (tail %.1f %%), old rule %.1f %%, interval holds 1 in %.1f %%; one after "
        "the other: Mann-Whitney %.1f %%, Welch %.1f %%\n",
        kind->name, n, 100 * r.verdict, 100 * r.tail, 100 * r.old, 100 * r.covered, 100 * r.naive_u,
        100 * r.naive_welch);
    return r;
}

/* Past 20 rounds the flips are drawn, which takes longer. */
static const struct {
    size_t n, sessions;
} sizes[] = {{8, 3000}, {12, 3000}, {20, 3000}, {50, 400}};

static double chance_error(double share, size_t sessions)
{
    return sqrt(share * (1 - share) / (double)sessions);
}

static void check_equals(const noise *kind, bool naive_fails)
{
    for (size_t i = 0; i < STK_COUNT(sizes); i++) {
        const size_t sessions = sizes[i].sessions;
        const rates r = simulate_equals(kind, sizes[i].n, sessions);
        const double slack = 3 * chance_error(0.05, sessions);
        assert_true(r.verdict <= 0.05 + slack);
        assert_true(r.verdict > 0.01); /* a rule that never finds anything would pass all the rest */
        assert_true(r.covered >= 0.95 - slack);
        const double naive = fmin(r.naive_u, r.naive_welch);
        assert_true(!naive_fails || (naive >= 2 * r.verdict && naive >= 0.12));
    }
}

/* The order makes the naive way fail, not its tests: they fail where runs resemble their neighbours, and only there. */
static void equals_rarely_get_a_verdict(void **state)
{
    const noise *const harmless[] = {&white, &heavy, &bimodal, &spiked};
    const noise *const harmful[] = {&correlated, &drifting, &steady, &sticky};
    for (size_t i = 0; i < STK_COUNT(harmless); i++)
        check_equals(harmless[i], false);
    for (size_t i = 0; i < STK_COUNT(harmful); i++)
        check_equals(harmful[i], true);
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

/* ---- power ---- */

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
    } cases[] = {{6, 2000, 0.05, 0.5},  {8, 2000, 0.05, 0.8}, {12, 2000, 0.05, 0.5}, {20, 2000, 0.05, 0.8},
                 {30, 500, 0.05, 0.8},  {50, 300, 0.05, 0.6}, {12, 2000, 0.02, 0.8}, {20, 2000, 0.02, 0.3},
                 {12, 2000, 0.1, 0.95}, {20, 2000, 0.1, 0.9}};
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const size_t n = cases[i].n, sessions = cases[i].sessions;
        const double size = log1p(cases[i].effect), confidence = stk__rule_confidence(&rule, 1);
        const double sd = size / stk__detectable(1, n, confidence, cases[i].power);
        const double wanted = stk__power(sd, n, confidence, size);
        assert_true(fabs(wanted - cases[i].power) < 1e-6); /* each is the inverse of the other */
        const double found = simulate_effect(n, sd, cases[i].effect, sessions);
        print_message("+%.0f %%, sd %.3f, n=%zu: predicted %.1f %%, found %.1f %%\n", 100 * cases[i].effect, sd, n,
                      100 * wanted, 100 * found);
        assert_true(fabs(found - wanted) <= 0.02 + 4 * chance_error(wanted, sessions));
    }
}

/* Outliers on both sides do not hide an effect that the rest shows; the old rule they could switch off. */
static void outliers_cannot_switch_a_verdict_off(void **state)
{
    static const struct {
        const noise *kind;
        size_t n, sessions;
        double effect, wanted; /* share that must be found */
    } cases[] = {{&spiked, 12, 1000, 0.1, 0.65}, {&spiked, 20, 1000, 0.1, 0.7}, {&spiked, 50, 300, 0.1, 0.98},
                 {&heavy, 20, 1000, 0.15, 0.45}, {&heavy, 50, 300, 0.15, 0.82}, {&bimodal, 50, 300, 0.1, 0.65},
                 {&white, 12, 1000, 0.1, 0.45},  {&white, 20, 1000, 0.1, 0.72}, {&correlated, 12, 1000, 0.1, 0.7}};
    static const stk__rule usual = {.confidence = 0.95, .min_effect = 0.02, .margin = 0.02};
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const size_t n = cases[i].n, sessions = cases[i].sessions;
        size_t found = 0, wrong = 0, before = 0, equivalent = 0;
        for (size_t k = 0; k < sessions; k++) {
            const uint64_t seed = stk__mix(2000 + i, k);
            double times[2 * MOST_ROUNDS], a[MOST_ROUNDS], b[MOST_ROUNDS];
            run_session(cases[i].kind, seed, 2 * n, times);
            take_turns(seed, times, n, cases[i].effect, a, b);
            stk__paired pair;
            const stk__verdict verdict = judge_by(&usual, a, b, n, seed, &pair);
            found += stk__verdict_worse(verdict);
            wrong += stk__verdict_better(verdict);
            equivalent += verdict == STK__EQUIVALENT;
            before += old_rule_finds(a, b, n, seed);
        }
        print_message("%-14s +%.0f %%, n=%zu: found %.1f %%, old rule %.1f %%; called faster %zu times\n",
                      cases[i].kind->name, 100 * cases[i].effect, n, 100.0 * (double)found / (double)sessions,
                      100.0 * (double)before / (double)sessions, wrong);
        assert_true((double)found >= cases[i].wanted * (double)sessions);
        assert_true(found > before);
        assert_true(wrong * 100 <= sessions && equivalent == 0);
    }
}

/* ---- tails ---- */

/* B is as A, but takes twice as long in a share of its runs: never equivalent, and found where rounds allow it. */
static void slow_runs_of_one_side_are_a_verdict_of_their_own(void **state)
{
    static const struct {
        size_t n, sessions;
        double share, found; /* at least */
    } cases[] = {
        {12, 1000, 0.3, 0}, {20, 1000, 0.3, 0.3}, {30, 300, 0.3, 0.7}, {50, 300, 0.3, 0.97}, {50, 300, 0.1, 0}};
    static const stk__rule usual = {.confidence = 0.95, .min_effect = 0.02, .margin = 0.02};
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const size_t n = cases[i].n, sessions = cases[i].sessions;
        size_t tails = 0, slower = 0, better = 0, equivalent = 0, held = 0, without = 0;
        for (size_t k = 0; k < sessions; k++) {
            source s = {.seed = stk__mix(3000 + i, k)};
            double a[MOST_ROUNDS], b[MOST_ROUNDS];
            bool any = false;
            for (size_t j = 0; j < n; j++) {
                const bool slow = uniform(&s) < cases[i].share;
                a[j] = exp(0.01 * normal(&s));
                b[j] = exp(0.01 * normal(&s)) * (slow ? 2 : 1);
                any = any || slow;
            }
            stk__paired pair;
            const stk__verdict verdict = judge_by(&usual, a, b, n, k, &pair);
            tails += verdict == STK__TAIL_SLOWER;
            slower += verdict == STK__SLOWER;
            better += stk__verdict_better(verdict);
            equivalent += any && verdict == STK__EQUIVALENT;
            without += !any;
            held += pair.means.low <= 1 + cases[i].share && pair.means.high >= 1 + cases[i].share;
        }
        print_message(
            "twice as long in %.0f %%, n=%zu: tail %.1f %%, slower %.1f %%, equivalent %.1f %% (no slow run at all "
            "in %.1f %%); the interval of the means holds the truth in %.1f %%\n",
            100 * cases[i].share, n, 100.0 * (double)tails / (double)sessions,
            100.0 * (double)slower / (double)sessions, 100.0 * (double)equivalent / (double)sessions,
            100.0 * (double)without / (double)sessions, 100.0 * (double)held / (double)sessions);
        assert_true((double)(tails + slower) >= cases[i].found * (double)sessions);
        assert_true(equivalent == 0 && better == 0);
        assert_true((double)held >= 0.88 * (double)sessions);
    }
}

/* ---- stopping ---- */

/* Rounds until the interval is narrow enough, looked at from 6 rounds on after every second. */
static size_t stop_on_width(const double *a, const double *b, double width)
{
    for (size_t n = 6; n < MOST_ROUNDS; n += 2) {
        stk__paired pair;
        assert_int_equal(stk__paired_test(a, b, n, stk__rule_confidence(&rule, 1), 1, &pair, NULL), STK_OK);
        if (pair.covered && pair.high / pair.low - 1 <= width)
            return n;
    }
    return MOST_ROUNDS;
}

static void stopping_on_the_width_keeps_false_positives_down(void **state)
{
    static const struct {
        const noise *kind;
        double width;
    } cases[] = {{&white, 0.2}, {&white, 0.12}, {&correlated, 0.15}, {&drifting, 0.15}, {&spiked, 0.1}};
    enum { SESSIONS = 400 };
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
        assert_true(share <= 0.05 + 3 * chance_error(0.05, SESSIONS));
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
            assert_int_equal(stk__signed_rank_test(d, n, &p, &exact, NULL), STK_OK);
            stopped = p < 0.05;
        }
        found += stopped;
    }
    assert_true(found > SESSIONS / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_rarely_get_a_verdict),
        cmocka_unit_test(pairing_without_turns_does_not_help),
        cmocka_unit_test(known_effects_are_found_with_the_predicted_power),
        cmocka_unit_test(outliers_cannot_switch_a_verdict_off),
        cmocka_unit_test(slow_runs_of_one_side_are_a_verdict_of_their_own),
        cmocka_unit_test(stopping_on_the_width_keeps_false_positives_down),
        cmocka_unit_test(stopping_on_p_would_raise_false_positives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
