/* The order of runs: blocks that hold every variant once, drawn from a seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/design.h"
#include "base/compiler.h"

enum { MOST = 40 };

static void every_round_holds_every_variant_once(void **state)
{
    for (size_t count = 0; count <= MOST; count++) {
        for (size_t round = 0; round < 50; round++) {
            size_t order[MOST];
            bool seen[MOST] = {false};
            stk__design_order(count * 7919, round, count, order);
            for (size_t i = 0; i < count; i++) {
                assert_true(order[i] < count);
                assert_false(seen[order[i]]);
                seen[order[i]] = true;
            }
        }
    }
}

/* Each round has its own coin: no round can be told from the one before. */
static void two_variants_toss_a_coin_in_each_round(void **state)
{
    enum { ROUNDS = 2000 };
    size_t first = 0, again = 0, last = 0;
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t order[2];
        stk__design_order(42, round, 2, order);
        assert_int_equal(order[0] + order[1], 1);
        first += order[0] == 0;
        again += order[0] == last;
        last = order[0];
    }
    /* A fair coin gives 1000 with a standard deviation of 22; the seed is fixed, so this is no matter of luck. */
    assert_in_range(first, 920, 1080);
    assert_in_range(again, 920, 1080);
}

/* With few rounds, too, either may come first: over seeds, not only over rounds. */
static void first_run_of_two_is_either_over_seeds(void **state)
{
    size_t zero = 0;
    for (uint64_t seed = 0; seed < 1000; seed++) {
        size_t order[2];
        stk__design_order(seed, 0, 2, order);
        zero += order[0] == 0;
    }
    assert_in_range(zero, 440, 560);
}

static void same_seed_gives_the_same_order(void **state)
{
    for (size_t round = 0; round < 100; round++) {
        size_t a[5], b[5];
        stk__design_order(123456789, round, 5, a);
        stk__design_order(123456789, round, 5, b);
        assert_memory_equal(a, b, sizeof a);
    }
}

/* Seeds that differ in their upper half only are other seeds as well. */
static void other_seeds_give_other_orders(void **state)
{
    const uint64_t seeds[] = {1, 2, (uint64_t)1 << 32 | 1, UINT64_MAX};
    for (size_t s = 1; s < STK_COUNT(seeds); s++) {
        for (size_t count = 2; count <= 3; count++) {
            size_t same = 0;
            for (size_t round = 0; round < 200; round++) {
                size_t a[3], b[3];
                stk__design_order(seeds[0], round, count, a);
                stk__design_order(seeds[s], round, count, b);
                same += memcmp(a, b, count * sizeof *a) == 0;
            }
            assert_true(same < (count == 2 ? 140 : 70)); /* by chance 100, and 33 */
        }
    }
}

static size_t permutation_number(const size_t *order, size_t count)
{
    size_t number = 0;
    for (size_t i = 0; i < count; i++) {
        size_t smaller = 0;
        for (size_t j = i + 1; j < count; j++)
            smaller += order[j] < order[i];
        number = number * (count - i) + smaller;
    }
    return number;
}

/* Chi-square over all permutations; the limits are the 0.999 quantiles for 5 and 23 degrees of freedom. */
static void more_variants_run_in_every_order_alike(void **state)
{
    static const struct {
        size_t count, permutations;
        double limit;
    } table[] = {{3, 6, 20.52}, {4, 24, 49.73}};
    enum { ROUNDS = 6000 };
    for (size_t k = 0; k < STK_COUNT(table); k++) {
        for (uint64_t seed = 1; seed <= 3; seed++) {
            size_t seen[24] = {0};
            for (size_t round = 0; round < ROUNDS; round++) {
                size_t order[4];
                stk__design_order(seed, round, table[k].count, order);
                seen[permutation_number(order, table[k].count)]++;
            }
            const double expected = (double)ROUNDS / (double)table[k].permutations;
            double chi = 0;
            for (size_t i = 0; i < table[k].permutations; i++)
                chi += ((double)seen[i] - expected) * ((double)seen[i] - expected) / expected;
            assert_true(chi < table[k].limit);
        }
    }
}

/* Every place of a long round is taken by every variant about equally often. */
static void places_of_a_long_round_are_shared(void **state)
{
    enum { COUNT = 10, ROUNDS = 10000 };
    size_t seen[COUNT][COUNT] = {{0}};
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t order[COUNT];
        stk__design_order(5, round, COUNT, order);
        for (size_t i = 0; i < COUNT; i++)
            seen[i][order[i]]++;
    }
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t v = 0; v < COUNT; v++)
            assert_in_range(seen[i][v], 850, 1150); /* 1000 +- 30 */
    }
}

static void far_rounds_have_orders_too(void **state)
{
    size_t a[3], b[3], same = 0;
    for (size_t i = 0; i < 100; i++) {
        stk__design_order(9, i, 3, a);
        stk__design_order(9, ((size_t)1 << 32) + i, 3, b);
        same += memcmp(a, b, sizeof a) == 0;
    }
    assert_true(same < 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_round_holds_every_variant_once),
        cmocka_unit_test(two_variants_toss_a_coin_in_each_round),
        cmocka_unit_test(first_run_of_two_is_either_over_seeds),
        cmocka_unit_test(same_seed_gives_the_same_order),
        cmocka_unit_test(other_seeds_give_other_orders),
        cmocka_unit_test(more_variants_run_in_every_order_alike),
        cmocka_unit_test(places_of_a_long_round_are_shared),
        cmocka_unit_test(far_rounds_have_orders_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
