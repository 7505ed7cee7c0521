/* Change points: simulated logs with and without steps, and series that are none. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stats/change_points.h"
#include "stats/distributions.h"
#include "stats/stretch.h"
#include "base/mem.h"
#include "base/rng.h"

enum { MOST_ROWS = 200, SERIES = 400 };

static const stk__change_rule *const rule = &stk__change_rule_default;

/* Random numbers of one series; the same on every machine. */
typedef struct source {
    uint64_t seed;
    uint32_t used;
} source;

static double uniform(source *s)
{
    const uint32_t key[2] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32)}, counter[4] = {s->used++, 4, 5, 6};
    uint32_t out[4];
    stk__philox(key, counter, out);
    return (out[0] + 0.5) / 4294967296.0;
}

static double normal(source *s)
{
    return stk__normal_quantile(uniform(s));
}

/* Student's t with 3 degrees of freedom, at a standard deviation of 1. */
static double heavy(source *s)
{
    double squares = 0;
    for (int i = 0; i < 3; i++) {
        const double x = normal(s);
        squares += x * x;
    }
    return normal(s) / sqrt(squares);
}

typedef enum noise { INDEPENDENT, ALIKE, HEAVY, ONE_WILD, DRIFT } noise;

/* Rows about 100 with a standard deviation of 1. */
static void make(noise kind, uint64_t seed, size_t n, double *out)
{
    source s = {.seed = stk__mix(seed, 0x6368616e6765 + (uint64_t)kind)};
    double x = normal(&s);
    for (size_t i = 0; i < n; i++) {
        x = kind == ALIKE ? 0.6 * x + 0.8 * normal(&s) : kind == HEAVY ? heavy(&s) : normal(&s);
        out[i] = 100 + x + (kind == DRIFT ? 4 * (double)i / (double)n : 0);
    }
    if (kind == ONE_WILD)
        out[(size_t)(uniform(&s) * (double)n)] += uniform(&s) < 0.5 ? -20 : 20;
}

static size_t find(const double *values, size_t n, const stk__change_rule *by, stk__change **out)
{
    size_t count = 0;
    *out = NULL;
    assert_int_equal(stk__change_points(values, NULL, n, by, out, &count, NULL), STK_OK);
    return count;
}

/* The share of series without a step in which one is told. */
static double false_share(noise kind, size_t n)
{
    size_t told = 0;
    for (uint64_t seed = 0; seed < SERIES; seed++) {
        double values[MOST_ROWS];
        stk__change *changes;
        make(kind, seed, n, values);
        told += find(values, n, rule, &changes) > 0;
        stk__free(changes);
    }
    return (double)told / SERIES;
}

static void series_without_a_step_rarely_get_one(void **state)
{
    (void)state;
    static const size_t lengths[] = {8, 20, 50, 200};
    static const struct {
        noise kind;
        const char *name;
        double most;
    } kinds[] = {{INDEPENDENT, "independent", 0.03},
                 {HEAVY, "heavy tails", 0.03},
                 {ONE_WILD, "one wild row", 0.05},
                 {ALIKE, "neighbours alike", 0.18},
                 {DRIFT, "drift", 0.20}};
    for (size_t k = 0; k < STK_COUNT(kinds); k++) {
        for (size_t i = 0; i < STK_COUNT(lengths); i++) {
            const double share = false_share(kinds[k].kind, lengths[i]);
            print_message("%-18s %3zu rows: %.1f %% with a false step\n", kinds[k].name, lengths[i], 100 * share);
            assert_true(share <= kinds[k].most);
        }
    }
}

typedef struct tally {
    double found, exact, more;    /* shares of all series */
    double in_range, in_interval; /* shares of those found */
} tally;

/* Steps of `size` standard deviations in the middle; found: within two rows. */
static tally find_steps(noise kind, size_t n, double size)
{
    tally t = {0};
    for (uint64_t seed = 0; seed < SERIES; seed++) {
        double values[MOST_ROWS];
        stk__change *changes;
        const size_t place = n / 2;
        make(kind, seed + 1000000, n, values);
        for (size_t i = place; i < n; i++)
            values[i] += size;
        const size_t count = find(values, n, rule, &changes);
        t.more += count > 1;
        for (size_t i = 0; i < count; i++) {
            const stk__change *c = &changes[i];
            if (c->at + 2 < place || c->at > place + 2)
                continue;
            t.found++;
            t.exact += c->at == place;
            t.in_range += c->earliest <= place && place <= c->latest;
            t.in_interval += c->low <= 1 + size / 100 && 1 + size / 100 <= c->high;
            break;
        }
        stk__free(changes);
    }
    t.in_range /= fmax(1, t.found);
    t.in_interval /= fmax(1, t.found);
    t.found /= SERIES;
    t.exact /= SERIES;
    t.more /= SERIES;
    return t;
}

static void steps_are_found_where_they_are(void **state)
{
    (void)state;
    static const struct {
        size_t n;
        double size, found, exact;
    } cases[] = {{8, 5, 0.65, 0.6},    {20, 2, 0.5, 0.35},  {20, 3, 0.8, 0.65},  {20, 5, 0.95, 0.92},
                 {50, 2, 0.8, 0.5},    {50, 3, 0.95, 0.75}, {50, 5, 0.99, 0.95}, {200, 2, 0.85, 0.55},
                 {200, 3, 0.95, 0.75}, {200, 5, 0.99, 0.95}};
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const tally t = find_steps(INDEPENDENT, cases[i].n, cases[i].size);
        print_message(
            "%3zu rows, step of %g sd: found %.1f %%, at the very row %.1f %%, more than one %.1f %%; the row in "
            "its range %.1f %%, the size in its interval %.1f %%\n",
            cases[i].n, cases[i].size, 100 * t.found, 100 * t.exact, 100 * t.more, 100 * t.in_range,
            100 * t.in_interval);
        assert_true(t.found >= cases[i].found && t.exact >= cases[i].exact && t.more <= 0.05);
        assert_true(t.in_range >= 0.93 && t.in_interval >= 0.9);
    }
}

static void a_wild_row_neither_is_a_step_nor_hides_one(void **state)
{
    (void)state;
    size_t found = 0, at_wild = 0, hunter = 0;
    for (uint64_t seed = 0; seed < SERIES; seed++) {
        double values[40];
        stk__change *changes;
        make(INDEPENDENT, seed, 40, values);
        const size_t wild = (size_t)(seed * 7 % 40);
        for (size_t i = 20; i < 40; i++)
            values[i] += 5;
        values[wild] *= seed % 2 ? 3 : 1000;
        const size_t count = find(values, 40, rule, &changes);
        for (size_t i = 0; i < count; i++) {
            found += changes[i].at == 20;
            /* Beside the step itself, the wild row leaves open which side it is of. */
            at_wild +=
                (changes[i].at < 18 || changes[i].at > 22) && (changes[i].at == wild || changes[i].at == wild + 1);
        }
        stk__free(changes);
        const size_t theirs = find(values, 40, &stk__change_rule_hunter, &changes);
        for (size_t i = 0; i < theirs; i++)
            hunter += changes[i].at == 20;
        stk__free(changes);
    }
    print_message("beside a wild row a step of 5 sd is found in %.1f %%, by Hunter's rule in %.1f %%\n",
                  100.0 * (double)found / SERIES, 100.0 * (double)hunter / SERIES);
    assert_true(found > 0.9 * SERIES && at_wild <= SERIES / 50 && hunter < found / 2);
}

/* Whatever its size and place, also the newest or the first. */
static void one_row_is_never_a_step(void **state)
{
    (void)state;
    static const double sizes[] = {1e-3, 1, 1e3, 1e12, DBL_MAX};
    for (size_t n = 1; n <= 30; n++) {
        for (size_t place = 0; place < n; place++) {
            for (size_t k = 0; k < STK_COUNT(sizes); k++) {
                double values[30];
                stk__change *changes;
                for (size_t i = 0; i < n; i++)
                    values[i] = i == place ? sizes[k] : 7;
                assert_int_equal(find(values, n, rule, &changes), 0);
            }
        }
    }
}

static void counts_that_do_not_vary_step_at_once(void **state)
{
    (void)state;
    const double values[] = {1000, 1000, 1000, 1000, 1001, 1001, 1001};
    stk__change *c;
    assert_int_equal(find(values, 7, rule, &c), 1);
    assert_true(c->at == 4 && c->earliest == 4 && c->latest == 4 && c->p == 0);
    assert_true(c->begin == 0 && c->end == 7 && c->before == 1000 && c->after == 1001);
    assert_true(c->ratio == 1.001 && c->low == 1.001 && c->high == 1.001);
    stk__free(c);
    stk__change_rule large = *rule;
    large.min_effect = 0.01;
    assert_int_equal(find(values, 7, &large, &c), 0);
}

/* Rows whose own runs scatter more than the rows do from each other agree by luck. */
static void errors_of_rows_are_heeded(void **state)
{
    (void)state;
    const double values[] = {10.0, 10.1, 10.0, 10.1, 10.0, 11.0, 11.1, 11.0, 11.1, 11.0};
    double errors[10];
    for (size_t i = 0; i < 10; i++)
        errors[i] = 1;
    stk__change *changes = NULL;
    size_t count = 0;
    assert_int_equal(stk__change_points(values, errors, 10, rule, &changes, &count, NULL), STK_OK);
    assert_int_equal(count, 0);
    assert_int_equal(find(values, 10, rule, &changes), 1);
    stk__free(changes);
}

static void any_scale_gives_the_same(void **state)
{
    (void)state;
    static const double units[] = {1, 1e-300, 1e290, -1};
    for (size_t k = 0; k < STK_COUNT(units); k++) {
        double values[30];
        stk__change *c;
        for (size_t i = 0; i < 30; i++)
            values[i] = units[k] * ((i < 12 ? 100 : 120) + (double)(i * 7 % 5));
        assert_int_equal(find(values, 30, rule, &c), 1);
        assert_int_equal(c->at, 12);
        if (units[k] > 0)
            assert_true(c->ratio > 1.18 && c->ratio < 1.22 && c->low < c->ratio && c->high > c->ratio);
        else
            assert_true(isnan(c->ratio) && isnan(c->low) && isnan(c->high));
        assert_true(fabs(c->before / units[k] - 102) < 0.5 && fabs(c->after / units[k] - 122) < 0.5);
        stk__free(c);
    }
}

static void what_is_no_series_is_refused_or_empty(void **state)
{
    (void)state;
    stk__change *changes = NULL;
    size_t count = 9;
    stk_error err = {0};
    const double bad[][3] = {{1, NAN, 2}, {INFINITY, 1, 2}, {1, 2, -INFINITY}};
    for (size_t i = 0; i < STK_COUNT(bad); i++)
        assert_int_equal(stk__change_points(bad[i], NULL, 3, rule, &changes, &count, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "value 3 of 3"));
    assert_int_equal(stk__change_points(bad[0], NULL, 0, rule, &changes, &count, NULL), STK_OK);
    assert_true(count == 0 && changes == NULL);
    assert_int_equal(stk__change_points(bad[0], NULL, 1, rule, &changes, &count, NULL), STK_OK);
    assert_true(count == 0 && changes == NULL);
    stk__change_rule narrow = *rule;
    narrow.window = 1;
    const double two[] = {1, 2};
    assert_int_equal(stk__change_points(two, NULL, 2, &narrow, &changes, &count, &err), STK_INVALID);
}

/* Stairs of three rows: with as many borders as there can be, all of them steps; then with noise, nearly all taken away. */
static void long_series_take_no_square_of_time(void **state)
{
    (void)state;
    enum { ROWS = 99999 };
    double *values = malloc(ROWS * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < ROWS; i++)
        values[i] = (double)(i / 3) + 1;
    stk__change *changes;
    assert_int_equal(find(values, ROWS, rule, &changes), (ROWS - 1) / 3);
    stk__free(changes);
    source s = {.seed = 9};
    for (size_t i = 0; i < ROWS; i++)
        values[i] += 30 * uniform(&s);
    const size_t count = find(values, ROWS, rule, &changes);
    print_message("%d rows of drift: %zu steps\n", ROWS, count);
    assert_true(count < ROWS / 100);
    stk__free(changes);
    for (size_t i = 0; i < ROWS; i++)
        values[i] = 5;
    assert_int_equal(find(values, ROWS, rule, &changes), 0);
    free(values);
}

static void stretches_join_to_what_they_are_together(void **state)
{
    (void)state;
    double values[40];
    make(DRIFT, 5, 40, values);
    values[11] = 90;
    values[30] = 120;
    stk__stretch a, b, whole, joined;
    stk__stretch_of(values, NULL, 0, 17, &a);
    stk__stretch_of(values, NULL, 17, 40, &b);
    stk__stretch_join(&a, &b, &joined);
    double mean = 0, squares = 0, slope = 0, neighbours = 0, without = 0;
    for (size_t i = 0; i < 40; i++) {
        mean += values[i] / 40;
        without += i == 30 ? 0 : values[i] / 39;
    }
    for (size_t i = 0; i < 40; i++) {
        squares += (values[i] - mean) * (values[i] - mean);
        slope += ((double)i - 19.5) * (values[i] - mean);
        neighbours += i ? (values[i] - mean) * (values[i - 1] - mean) : 0;
    }
    stk__stretch_of(values, NULL, 0, 40, &whole);
    const stk__stretch *both[] = {&whole, &joined};
    for (size_t k = 0; k < 2; k++) {
        assert_true(fabs(both[k]->mean - mean) < 1e-10 && fabs(both[k]->squares - squares) < 1e-8);
        assert_true(fabs(both[k]->slope - slope) < 1e-8 && fabs(both[k]->neighbours - neighbours) < 1e-8);
        assert_true(both[k]->without_most.n == 39 && fabs(both[k]->without_most.mean - without) < 1e-10);
        assert_true(both[k]->least == 90 && both[k]->most == 120);
    }
    /* A line is fitted as least squares do it. */
    const double places = 40 * (40 * 40 - 1) / 12.0;
    assert_true(fabs(stk__stretch_off_line(&whole) - (squares - slope * slope / places)) < 1e-8);
}

static void failed_allocations_leave_nothing(void **state)
{
    (void)state;
    double values[120];
    make(INDEPENDENT, 3, 120, values);
    for (size_t i = 40; i < 120; i++)
        values[i] += i < 80 ? 8 : 16;
    size_t tries = 0;
    for (uint64_t n = 1;; n++) {
        stk__change *changes = NULL;
        size_t count = 0;
        stk__alloc_fail_at(n, true);
        const stk_status status = stk__change_points(values, NULL, 120, rule, &changes, &count, NULL);
        stk__alloc_fail_at(0, false);
        if (status == STK_OK) {
            assert_int_equal(count, 2);
            stk__free(changes);
            break;
        }
        assert_int_equal(status, STK_NOMEM);
        assert_null(changes);
        tries++;
    }
    assert_true(tries >= 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(series_without_a_step_rarely_get_one),
        cmocka_unit_test(steps_are_found_where_they_are),
        cmocka_unit_test(a_wild_row_neither_is_a_step_nor_hides_one),
        cmocka_unit_test(one_row_is_never_a_step),
        cmocka_unit_test(counts_that_do_not_vary_step_at_once),
        cmocka_unit_test(errors_of_rows_are_heeded),
        cmocka_unit_test(any_scale_gives_the_same),
        cmocka_unit_test(what_is_no_series_is_refused_or_empty),
        cmocka_unit_test(long_series_take_no_square_of_time),
        cmocka_unit_test(stretches_join_to_what_they_are_together),
        cmocka_unit_test(failed_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
