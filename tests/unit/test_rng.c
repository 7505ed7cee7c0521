/* Philox known answers, and the permutation as a bijection. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"

static void assert_philox(const uint32_t key[2], const uint32_t counter[4], const uint32_t want[4])
{
    uint32_t out[4];
    stk__philox(key, counter, out);
    for (int i = 0; i < 4; i++)
        assert_int_equal(out[i], want[i]);
}

/* From the kat_vectors of Random123. */
static void philox_gives_the_known_answers(void **state)
{
    (void)state;
    assert_philox((const uint32_t[2]){0, 0}, (const uint32_t[4]){0, 0, 0, 0},
                  (const uint32_t[4]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    assert_philox((const uint32_t[2]){UINT32_MAX, UINT32_MAX},
                  (const uint32_t[4]){UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
                  (const uint32_t[4]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    assert_philox((const uint32_t[2]){0xa4093822, 0x299f31d0},
                  (const uint32_t[4]){0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                  (const uint32_t[4]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

static void mix_depends_on_both_sides_and_their_order(void **state)
{
    (void)state;
    assert_true(stk__mix(1, 2) != stk__mix(2, 1));
    assert_true(stk__mix(1, 2) != stk__mix(1, 3));
    assert_true(stk__mix(0, 0) != 0);
    assert_true(stk__mix(1, 2) == stk__mix(1, 2));
}

static void permutation_is_a_bijection_for_every_small_n(void **state)
{
    (void)state;
    static unsigned char seen[2000];
    for (uint64_t n = 1; n <= 2000; n++) {
        stk__permutation p;
        stk__permutation_init(&p, n, n * 7);
        memset(seen, 0, sizeof seen);
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t at = stk__permute(&p, i);
            assert_true(at < n);
            assert_int_equal(seen[at], 0);
            seen[at] = 1;
        }
    }
}

static void permutation_of_a_million_is_a_bijection(void **state)
{
    (void)state;
    const uint64_t n = 1000003;
    unsigned char *seen = calloc(n, 1);
    assert_non_null(seen);
    stk__permutation p;
    stk__permutation_init(&p, n, 42);
    uint64_t hits = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t at = stk__permute(&p, i);
        if (at < n && !seen[at])
            hits++;
        seen[at < n ? at : 0] = 1;
    }
    free(seen);
    assert_int_equal(hits, n);
}

static int compare_u64(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void permutation_of_a_huge_range_has_no_repeats(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {(uint64_t)1 << 32, ((uint64_t)1 << 40) + 1, ((uint64_t)1 << 62) - 1,
                                     (uint64_t)1 << 62};
    enum { SAMPLES = 20000 };
    static uint64_t out[SAMPLES];
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        stk__permutation p;
        stk__permutation_init(&p, sizes[s], 3);
        for (uint64_t i = 0; i < SAMPLES; i++) {
            out[i] = stk__permute(&p, i % 2 ? sizes[s] - 1 - i : i); /* both ends of the range */
            assert_true(out[i] < sizes[s]);
        }
        qsort(out, SAMPLES, sizeof *out, compare_u64);
        for (size_t i = 1; i < SAMPLES; i++)
            assert_true(out[i] != out[i - 1]);
    }
}

static void permutation_changes_with_the_seed(void **state)
{
    (void)state;
    stk__permutation a, b, again;
    stk__permutation_init(&a, 1000, 1);
    stk__permutation_init(&b, 1000, 2);
    stk__permutation_init(&again, 1000, 1);
    int equal = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        equal += stk__permute(&a, i) == stk__permute(&b, i);
        assert_true(stk__permute(&a, i) == stk__permute(&again, i));
    }
    assert_true(equal < 20); /* one is expected */
}

/* First and last halves of the input must spread over the whole output: a shuffle that stays near is none. */
static void permutation_spreads_neighbours(void **state)
{
    (void)state;
    const uint64_t n = 100000;
    stk__permutation p;
    stk__permutation_init(&p, n, 9);
    uint64_t low = 0, rising = 0;
    for (uint64_t i = 0; i < n / 2; i++) {
        low += stk__permute(&p, i) < n / 2;
        rising += stk__permute(&p, i) < stk__permute(&p, i + 1);
    }
    /* 25000 are expected of 50000; ten standard deviations are about 1100. */
    assert_in_range(low, 23900, 26100);
    assert_in_range(rising, 23900, 26100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_known_answers),
        cmocka_unit_test(mix_depends_on_both_sides_and_their_order),
        cmocka_unit_test(permutation_is_a_bijection_for_every_small_n),
        cmocka_unit_test(permutation_of_a_million_is_a_bijection),
        cmocka_unit_test(permutation_of_a_huge_range_has_no_repeats),
        cmocka_unit_test(permutation_changes_with_the_seed),
        cmocka_unit_test(permutation_spreads_neighbours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
