/* shuffle: permutations, seeds, epochs; and the buffer over a stream. */
#include "harness.h"

/* Each stretch of n values holds every number below n once. */
static void assert_permutations(const seen *s, int64_t n, int64_t epochs)
{
    assert_int_equal(s->value_count, n * epochs);
    for (int64_t e = 0; e < epochs; e++) {
        bool met[512] = {false};
        for (int64_t i = 0; i < n; i++) {
            const int64_t v = s->values[e * n + i];
            assert_true(v >= 0 && v < n && !met[v]);
            met[v] = true;
        }
    }
}

static bool same_epochs(const seen *s, int64_t n, int64_t a, int64_t b)
{
    return memcmp(s->values + a * n, s->values + b * n, (size_t)n * sizeof *s->values) == 0;
}

static void shuffle_permutes_each_epoch(void **state)
{
    static const int64_t sizes[] = {1, 2, 3, 7, 64, 100, 257};
    for (size_t i = 0; i < STK_COUNT(sizes); i++) {
        char text[96];
        seen s;
        snprintf(text, sizeof text, "range(%lld) | shuffle(seed=3) | batch(10) | repeat(3)", (long long)sizes[i]);
        run_all(text, NULL, &s);
        assert_permutations(&s, sizes[i], 3);
        if (sizes[i] >= 64) {
            assert_false(same_epochs(&s, sizes[i], 0, 1));
            assert_false(same_epochs(&s, sizes[i], 1, 2));
        }
        seen_clear(&s);
    }
}

static void shuffle_without_reshuffle_repeats_its_order(void **state)
{
    seen s;
    run_all("range(64) | shuffle(seed=3, reshuffle=false) | repeat(2) | batch(10)", NULL, &s);
    assert_permutations(&s, 64, 2);
    assert_true(same_epochs(&s, 64, 0, 1));
    seen_clear(&s);
}

static void shuffle_behind_repeat_mixes_epochs(void **state)
{
    seen s;
    int times[32] = {0};
    run_all("range(32) | repeat(3) | shuffle(seed=1)", NULL, &s);
    for (size_t i = 0; i < s.value_count; i++)
        times[s.values[i]]++;
    for (int i = 0; i < 32; i++)
        assert_int_equal(times[i], 3);
    seen_clear(&s);
}

static void values_of(const char *text, uint64_t seed, int64_t out[64])
{
    stk_config config = harness_config();
    config.seed = seed;
    seen s;
    run_all(text, &config, &s);
    assert_int_equal(s.value_count, 64);
    memcpy(out, s.values, sizeof(int64_t) * 64);
    seen_clear(&s);
}

static void shuffle_depends_on_its_seed_and_that_of_the_run(void **state)
{
    int64_t a[64], b[64], c[64], d[64];
    values_of("range(64) | shuffle(seed=3)", 0, a);
    values_of("range(64) | shuffle(seed=3) | batch(64)", 0, b);
    values_of("range(64) | shuffle(seed=4)", 0, c);
    values_of("range(64) | shuffle(seed=3)", 99, d);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
    assert_memory_not_equal(a, d, sizeof a);
    /* A split is made of an order that stays: it must not hang on the run. */
    values_of("range(64) | shuffle(seed=3, reshuffle=false)", 0, a);
    values_of("range(64) | shuffle(seed=3, reshuffle=false)", 99, b);
    assert_memory_equal(a, b, sizeof a);
}

static void shuffle_after_batch_shuffles_batches(void **state)
{
    seen s;
    run_all("range(40) | batch(4) | shuffle(seed=1) | repeat(2)", NULL, &s);
    assert_permutations(&s, 40, 2);
    bool moved = false;
    for (size_t i = 0; i < s.count; i++) {
        for (int k = 1; k < 4; k++)
            assert_int_equal(s.values[i * 4 + (size_t)k], s.values[i * 4] + k);
        moved = moved || s.values[i * 4] != (int64_t)(i % 10) * 4;
    }
    assert_true(moved);
    seen_clear(&s);
}

static void shuffle_before_a_filter_is_the_same_order_without_the_rest(void **state)
{
    seen all, some;
    run_all("range(60) | shuffle(seed=2)", NULL, &all);
    run_all("range(60) | filter(\"value % 3 != 0\") | shuffle(seed=2)", NULL, &some);
    size_t k = 0;
    for (size_t i = 0; i < all.value_count; i++)
        if (all.values[i] % 3 != 0)
            assert_int_equal(some.values[k++], all.values[i]);
    assert_int_equal(k, some.value_count);
    seen_clear(&all);
    seen_clear(&some);
}

static void shuffle_over_a_stream_permutes_through_its_buffer(void **state)
{
    static const int buffers[] = {1, 2, 7, 100, 1000};
    write_examples("s.gz", STK__GZIP, 0, 100);
    for (size_t i = 0; i < STK_COUNT(buffers); i++) {
        char text[160];
        seen s;
        snprintf(text, sizeof text,
                 "tfrecord(\"$D/s.gz\") | shuffle(seed=5, buffer=%d) | parse(value=int64) | batch(9) | repeat(2)",
                 buffers[i]);
        run_all(text, NULL, &s);
        assert_permutations(&s, 100, 2);
        /* Nothing can come before the buffer has seen it. */
        for (int64_t k = 0; k < 100; k++)
            assert_true(s.values[k] < k + buffers[i]);
        assert_int_equal(same_epochs(&s, 100, 0, 1), buffers[i] == 1);
        seen_clear(&s);
    }
}

static void shuffle_over_a_stream_without_reshuffle(void **state)
{
    seen s;
    write_examples("s.gz", STK__GZIP, 0, 40);
    run_all("tfrecord(\"$D/s.gz\") | shuffle(seed=5, buffer=10, reshuffle=false) | parse(value=int64) | repeat(2)",
            NULL, &s);
    assert_permutations(&s, 40, 2);
    assert_true(same_epochs(&s, 40, 0, 1));
    seen_clear(&s);
}

static void shuffle_refuses_bad_options_and_places(void **state)
{
    assert_refused("range(3) | shuffle(1000)", NULL, STK_INVALID, "write seed=...: a number alone", 1, 20);
    assert_refused("range(3) | shuffle(seed=-1)", NULL, STK_INVALID, "seed must be at least 0", 1, 25);
    assert_refused("range(3) | shuffle(buffer=0)", NULL, STK_INVALID, "buffer must be in 1..268435456", 1, 27);
    assert_refused("range(3) | shuffle(reshuffle=1)", NULL, STK_INVALID,
                   "reshuffle must be true or false, got an integer 1", 1, 30);
    assert_refused("range(9) | filter(\"value > 1\") | take(2) | shuffle", NULL, STK_UNSUPPORTED,
                   "put it before the filter", 1, 44);
    assert_refused("range(9) | filter(\"value > 1\") | batch(2) | shuffle", NULL, STK_UNSUPPORTED,
                   "shuffle samples instead", 1, 45);
    assert_refused("range(9) | repeat | shuffle", NULL, STK_INVALID, "cannot shuffle what has no end", 1, 21);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(shuffle_permutes_each_epoch),
        OP_TEST(shuffle_without_reshuffle_repeats_its_order),
        OP_TEST(shuffle_behind_repeat_mixes_epochs),
        OP_TEST(shuffle_depends_on_its_seed_and_that_of_the_run),
        OP_TEST(shuffle_after_batch_shuffles_batches),
        OP_TEST(shuffle_before_a_filter_is_the_same_order_without_the_rest),
        OP_TEST(shuffle_over_a_stream_permutes_through_its_buffer),
        OP_TEST(shuffle_over_a_stream_without_reshuffle),
        OP_TEST(shuffle_refuses_bad_options_and_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
