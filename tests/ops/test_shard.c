/* shard: parts by options and by rank, uneven ones, batches, filters, streams. */
#include "harness.h"

#include "base/mem.h"

static void shard_keeps_every_nth_sample(void **state)
{
    ASSERT_VALUES("range(10) | shard(count=3, index=0)", 0, 3, 6, 9);
    ASSERT_VALUES("range(10) | shard(3, 2)", 2, 5, 8);
    ASSERT_VALUES("range(4) | shard(count=1, index=0)", 0, 1, 2, 3);
    ASSERT_VALUES("range(4) | repeat | shard(count=3, index=1) | take(4)", 1, 0, 3, 2);
    assert_prints("range(2) | shard(count=3, index=2)", "");
}

static void shard_of_uneven_parts_keeps_pads_or_drops(void **state)
{
    ASSERT_VALUES("range(7) | shard(count=3, index=0, uneven=keep)", 0, 3, 6);
    ASSERT_VALUES("range(7) | shard(count=3, index=2, uneven=keep)", 2, 5);
    ASSERT_VALUES("range(7) | shard(count=3, index=2, uneven=pad)", 2, 5, 1);
    ASSERT_VALUES("range(7) | shard(count=3, index=1, uneven=pad)", 1, 4, 0);
    ASSERT_VALUES("range(7) | shard(count=3, index=0, uneven=drop)", 0, 3);
    ASSERT_VALUES("range(2) | shard(count=5, index=4, uneven=pad)", 0);
    assert_prints("range(2) | shard(count=5, index=0, uneven=drop)", "");
    assert_prints("range(0) | shard(count=5, index=0, uneven=pad)", "");
}

static void contiguous_shard_is_one_stretch(void **state)
{
    ASSERT_VALUES("range(7) | shard(count=3, index=0, contiguous=true)", 0, 1, 2);
    ASSERT_VALUES("range(7) | shard(count=3, index=1, contiguous=true)", 3, 4);
    ASSERT_VALUES("range(7) | shard(count=3, index=2, contiguous=true)", 5, 6);
    ASSERT_VALUES("range(7) | shard(count=3, index=2, uneven=pad, contiguous=true)", 6, 0, 1);
    ASSERT_VALUES("range(7) | shard(count=3, index=1, uneven=drop, contiguous=true)", 2, 3);
    ASSERT_VALUES("range(8) | batch(2) | shard(count=2, index=1, contiguous=true)", 4, 5, 6, 7);
}

static void contiguous_shard_needs_a_count(void **state)
{
    assert_refused("range(7) | repeat | shard(count=3, index=1, contiguous=true)", NULL, STK_UNSUPPORTED, "one stretch", 1, 21);
    assert_refused("range(7) | filter(\"value > 1\") | batch(2) | shard(count=3, index=1, contiguous=true)", NULL,
                   STK_UNSUPPORTED, "one stretch", 1, 45);
}

static void shard_takes_the_rank_from_the_configuration(void **state)
{
    stk_config config = harness_config();
    config.world = 3;
    config.rank = 1;
    seen s;
    run_all("range(7) | shard", &config, &s);
    assert_int_equal(s.value_count, 2);
    assert_int_equal(s.values[1], 4);
    seen_clear(&s);
    ASSERT_VALUES("range(3) | shard", 0, 1, 2); /* alone */
}

static void shards_together_are_all_samples_of_a_shuffle(void **state)
{
    int times[50] = {0};
    for (int rank = 0; rank < 4; rank++) {
        char text[96];
        seen s;
        snprintf(text, sizeof text, "range(50) | shuffle(seed=7) | shard(count=4, index=%d) | batch(3)", rank);
        run_all(text, NULL, &s);
        for (size_t i = 0; i < s.value_count; i++)
            times[s.values[i]]++;
        seen_clear(&s);
    }
    for (int i = 0; i < 50; i++)
        assert_int_equal(times[i], 1);
}

static void shard_after_batch_counts_batches(void **state)
{
    ASSERT_VALUES("range(10) | batch(2) | shard(count=2, index=1)", 2, 3, 6, 7);
    ASSERT_VALUES("range(20) | filter(\"value % 2 == 0\") | batch(2) | shard(count=2, index=1)", 4, 6, 12, 14);
}

/* Moved before the filter unless only exact rewrites are allowed: then it counts what passes. */
static void shard_behind_a_filter_is_approximate_or_exact(void **state)
{
    static const char text[] = "range(12) | filter(\"value % 3 != 0\") | shard(count=2, index=0)";
    ASSERT_VALUES(text, 1, 4, 7, 10);
    assert_explains(text, "approximate  shard moved before the filter");
    seen s;
    run_all(text, NULL, &s);
    assert_int_equal(s.value_count, 4);
    assert_int_equal(s.values[0], 2);
    assert_int_equal(s.values[3], 10);
    seen_clear(&s);
}

static void shard_over_a_stream(void **state)
{
    write_data();
    ASSERT_VALUES("tfrecord(\"$D/b-*.gz\") | shard(count=8, index=5) | parse(value=int64)", 5, 13, 21);
    ASSERT_VALUES("tfrecord(\"$D/b-*.gz\") | parse(value=int64) | shard(count=20, index=2) | repeat(2)", 2, 22, 2, 22);
}

static void shard_refuses_bad_options(void **state)
{
    assert_refused("range(9) | shard(count=2, index=2)", NULL, STK_INVALID, "index must be below count 2, got 2", 1,
                   12);
    assert_refused("range(9) | shard(index=1)", NULL, STK_INVALID, "index is 1, but count is not given", 1, 12);
    assert_refused("range(9) | shard(count=-2)", NULL, STK_INVALID, "count must be in 0..16777216, got an integer -2",
                   1, 24);
    assert_refused("range(9) | shard(uneven=some)", NULL, STK_INVALID,
                   "uneven must be one of keep, pad, drop, got a name some", 1, 25);
    stk_config config = harness_config();
    config.world = 2;
    config.rank = 2;
    assert_refused("range(9) | shard", &config, STK_INVALID, "rank", 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(shard_keeps_every_nth_sample),
        OP_TEST(shard_of_uneven_parts_keeps_pads_or_drops),
        OP_TEST(contiguous_shard_is_one_stretch),
        OP_TEST(contiguous_shard_needs_a_count),
        OP_TEST(shard_takes_the_rank_from_the_configuration),
        OP_TEST(shards_together_are_all_samples_of_a_shuffle),
        OP_TEST(shard_after_batch_counts_batches),
        OP_TEST(shard_behind_a_filter_is_approximate_or_exact),
        OP_TEST(shard_over_a_stream),
        OP_TEST(shard_refuses_bad_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
