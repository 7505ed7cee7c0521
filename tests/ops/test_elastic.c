/* Another number of ranks after resume: together, all ranks of all runs visit every sample of every epoch once. */
#include "harness.h"

#include "base/mem.h"

enum { EPOCHS = 3, SAMPLES_MAX = 256 };

/* How often each sample was handed over. The epoch is told by how often it came before. */
typedef struct visits {
    int times[SAMPLES_MAX];
} visits;

static void note(visits *v, const seen *s)
{
    for (size_t i = 0; i < s->value_count; i++)
        v->times[s->values[i]]++;
}

/* Every rank of `world` goes `batches` on (-1: to the end) from the checkpoint, if there is one; rank 0 leaves another. */
static size_t run_ranks(const char *text, int64_t world, int64_t batches, const char *from, const char *to, visits *v)
{
    size_t most = 0;
    for (int64_t rank = world - 1; rank >= 0; rank--) {
        stk_config config = harness_config();
        config.world = world;
        config.rank = rank;
        config.resume_path = from;
        seen s;
        run_some(text, &config, batches, rank == 0 ? to : NULL, &s);
        if (s.status != STK_OK && s.status != STK_END)
            fail_msg("'%s', rank %lld of %lld: %s", text, (long long)rank, (long long)world, s.error.message);
        note(v, &s);
        most = STK_MAX(most, s.count);
        seen_clear(&s);
    }
    return most;
}

static void assert_complete(const char *text, const visits *v, int64_t n, const char *how)
{
    for (int64_t i = 0; i < n; i++)
        if (v->times[i] != EPOCHS)
            fail_msg("'%s' %s: sample %lld came %d times, wanted %d", text, how, (long long)i, v->times[i], EPOCHS);
}

static void change_once(const char *text, int64_t n, int64_t world, int64_t batches, int64_t other)
{
    visits v = {{0}};
    char how[96];
    snprintf(how, sizeof how, "with %lld ranks for %lld batches, then with %lld", (long long)world, (long long)batches,
             (long long)other);
    run_ranks(text, world, batches, NULL, in_dir("c"), &v);
    run_ranks(text, other, -1, in_dir("c"), NULL, &v);
    assert_complete(text, &v, n, how);
}

static void change_twice(const char *text, int64_t n, const int64_t worlds[3], const int64_t batches[2])
{
    visits v = {{0}};
    char how[96];
    snprintf(how, sizeof how, "with %lld, %lld and %lld ranks after %lld and %lld batches", (long long)worlds[0],
             (long long)worlds[1], (long long)worlds[2], (long long)batches[0], (long long)batches[1]);
    run_ranks(text, worlds[0], batches[0], NULL, in_dir("c"), &v);
    run_ranks(text, worlds[1], batches[1], in_dir("c"), in_dir("d"), &v);
    run_ranks(text, worlds[2], -1, in_dir("d"), NULL, &v);
    assert_complete(text, &v, n, how);
}

/* 48 samples divide evenly among all these ranks and batches. */
static void ranks_change_at_any_batch_when_all_divides(void **state)
{
    static const int64_t worlds[] = {1, 2, 4};
    static const char text[] = "range(48) | shuffle(seed=1) | shard | batch(3) | repeat(3)";
    for (size_t a = 0; a < STK_COUNT(worlds); a++)
        for (size_t b = 0; b < STK_COUNT(worlds); b++)
            for (int64_t batches = 0; batches <= 3 * 16 / worlds[a]; batches += 3)
                change_once(text, 48, worlds[a], batches, worlds[b]);
}

/* 50 samples do not divide: ranks have a sample more or less, and the last batches of an epoch differ in size. */
static void ranks_change_within_an_epoch_when_nothing_divides(void **state)
{
    static const char by_4[] = "range(50) | shuffle(seed=1) | shard | batch(4) | repeat(3)";
    change_once(by_4, 50, 3, 0, 2); /* first epoch; 17, 17 and 16 samples in 5, 5 and 4 batches */
    change_once(by_4, 50, 3, 2, 2);
    change_once(by_4, 50, 3, 3, 5);
    change_once(by_4, 50, 2, 1, 7);
    change_once(by_4, 50, 1, 3, 3);
    /* Later epochs: ranks stay in step only where their epochs have as many batches, though not of one size. */
    static const char by_5[] = "range(50) | shuffle(seed=1) | shard | batch(5) | repeat(3)";
    for (int64_t batches = 0; batches <= 12; batches++) {
        change_once(by_5, 50, 3, batches, 2);
        change_once(by_5, 50, 3, batches, 4);
        change_once(by_5, 50, 3, batches, 1);
    }
    change_twice(by_5, 50, (int64_t[]){3, 4, 2}, (int64_t[]){4, 4}); /* after an epoch, in the next but one */
}

static void ranks_change_with_repeat_before_batch(void **state)
{
    static const char even[] = "range(48) | shuffle(seed=1) | shard | repeat(3) | batch(3)";
    for (int64_t batches = 0; batches <= 24; batches++) {
        change_once(even, 48, 2, batches, 4);
        change_once(even, 48, 2, batches, 1);
    }
}

static void ranks_change_twice(void **state)
{
    static const char text[] = "range(48) | shuffle(seed=1) | shard | batch(2) | repeat(3)";
    change_twice(text, 48, (int64_t[]){2, 4, 1}, (int64_t[]){5, 2}); /* both in the first epoch */
    change_twice(text, 48, (int64_t[]){2, 4, 3}, (int64_t[]){5, 4});
    change_twice(text, 48, (int64_t[]){4, 2, 4}, (int64_t[]){3, 14}); /* the second change in the second epoch */
    change_twice(text, 48, (int64_t[]){2, 3, 2}, (int64_t[]){12, 8});
    change_twice(text, 48, (int64_t[]){1, 2, 1}, (int64_t[]){30, 20}); /* second, then third */
}

/* The same number of ranks again, after a change: goes on exactly, batch by batch. */
static void the_same_ranks_resume_exactly_after_a_change(void **state)
{
    static const char text[] = "range(50) | shuffle(seed=1) | shard | batch(5) | repeat(3)";
    visits ignored = {{0}};
    run_ranks(text, 3, 7, NULL, in_dir("c"), &ignored);
    for (int64_t rank = 0; rank < 2; rank++) {
        stk_config config = harness_config();
        config.world = 2;
        config.rank = rank;
        config.resume_path = in_dir("c");
        seen all, head, tail;
        run_all(text, &config, &all);
        for (size_t k = 0; k <= all.count; k += 3) {
            config.resume_path = in_dir("c");
            run_some(text, &config, (int64_t)k, in_dir("d"), &head);
            config.resume_path = in_dir("d");
            run_all(text, &config, &tail);
            assert_seen_equal(&all, k, &tail, text);
            seen_clear(&head);
            seen_clear(&tail);
        }
        assert_int_equal(all.batches[0].index, 7);
        seen_clear(&all);
    }
}

static void shard_without_a_repeat_changes_ranks(void **state)
{
    static const char text[] = "range(30) | shuffle(seed=1) | shard | batch(2)";
    visits v = {{0}};
    run_ranks(text, 3, 2, NULL, in_dir("c"), &v);
    run_ranks(text, 2, -1, in_dir("c"), NULL, &v);
    for (int i = 0; i < 30; i++)
        assert_int_equal(v.times[i], 1);
}

static void shards_of_batches_change_ranks(void **state)
{
    static const char text[] = "range(48) | shuffle(seed=1) | batch(2) | shard | repeat(3)";
    for (int64_t batches = 0; batches <= 24; batches += 2) {
        change_once(text, 48, 3, batches, 2);
        change_once(text, 48, 2, batches, 4);
    }
}

static void refused(const char *text, const char *reason)
{
    visits ignored = {{0}};
    run_ranks(text, 2, 2, NULL, in_dir("c"), &ignored);
    stk_config config = harness_config();
    config.world = 3;
    config.resume_path = in_dir("c");
    assert_fails(text, &config, STK_MISMATCH, reason);
    config.world = 2; /* but the same world goes on */
    seen s;
    run_all(text, &config, &s);
    seen_clear(&s);
}

static void ranks_that_cannot_change_are_refused(void **state)
{
    refused("range(40) | shard | shuffle(seed=1) | batch(2)", "shard must come after shuffle");
    refused("range(40) | shard | take(15) | batch(2)", "shard must come after shuffle, take and skip");
    refused("range(40) | shuffle | shard | repeat(2) | batch(2) | repeat(2)", "more than one repeat behind shard");
    refused("range(40) | filter(\"value % 3 != 0\") | shard | batch(2)", "at different paces");
}

/* 17, 17 and 16 samples give 5, 5 and 4 batches: in the second epoch the ranks no longer stand at the same place. */
static void ranks_out_of_step_are_refused(void **state)
{
    static const char keep[] = "range(50) | shuffle(seed=1) | shard | batch(4) | repeat(3)";
    static const char drop[] = "range(50) | shuffle(seed=1) | shard(uneven=drop) | batch(4) | repeat(3)";
    visits ignored = {{0}};
    stk_config config = harness_config();
    run_ranks(keep, 3, 6, NULL, in_dir("c"), &ignored);
    config.world = 2;
    config.resume_path = in_dir("c");
    assert_fails(keep, &config, STK_MISMATCH, "epochs differ in length");
    run_ranks(drop, 3, 6, NULL, in_dir("d"), &ignored);
    run_ranks(drop, 2, -1, in_dir("d"), NULL, &ignored);
    config.resume_path = in_dir("d"); /* which samples fall out is part of the pipeline */
    assert_fails(keep, &config, STK_MISMATCH, "another pipeline");
}

/* Whether ranks pad or keep is no part of the text where nobody wrote a shard. */
static void ranks_that_share_in_another_way_are_refused(void **state)
{
    static const char text[] = "range(41) | shuffle | batch(4) | repeat(2)";
    stk_config config = harness_config();
    seen s;
    config.world = 2;
    config.auto_shard = STK_SHARD_AUTO;
    run_some(text, &config, 2, in_dir("c"), &s);
    seen_clear(&s);
    config.resume_path = in_dir("c");
    for (int64_t world = 1; world <= 3; world++) {
        config.world = world;
        config.auto_shard = STK_SHARD_KEEP;
        assert_fails(text, &config, STK_MISMATCH, "shared the samples in another way");
        config.auto_shard = STK_SHARD_WRITTEN;
        assert_fails(text, &config, STK_MISMATCH, "shared the samples in another way");
    }
}

/* What is left of an epoch that other ranks began is counted; a flow cannot take it on. */
static void policy_after_a_change_of_ranks_is_refused(void **state)
{
    static const char text[] = "range(48) | shuffle(seed=1) | shard | batch(2) | repeat(3)";
    visits ignored = {{0}};
    stk_config config = harness_config();
    run_ranks(text, 3, 2, NULL, in_dir("c"), &ignored);
    run_ranks(text, 2, 2, in_dir("c"), in_dir("d"), &ignored);
    config.world = 2;
    config.on_error = STK_ON_ERROR_SKIP;
    config.resume_path = in_dir("d");
    assert_fails(text, &config, STK_MISMATCH, "has changed its number of ranks before");
    config.resume_path = in_dir("c"); /* nor both at once */
    assert_fails(text, &config, STK_MISMATCH, "at different paces");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(ranks_change_at_any_batch_when_all_divides),
        OP_TEST(ranks_change_within_an_epoch_when_nothing_divides),
        OP_TEST(ranks_change_with_repeat_before_batch),
        OP_TEST(ranks_change_twice),
        OP_TEST(the_same_ranks_resume_exactly_after_a_change),
        OP_TEST(shard_without_a_repeat_changes_ranks),
        OP_TEST(shards_of_batches_change_ranks),
        OP_TEST(ranks_that_cannot_change_are_refused),
        OP_TEST(ranks_out_of_step_are_refused),
        OP_TEST(ranks_that_share_in_another_way_are_refused),
        OP_TEST(policy_after_a_change_of_ranks_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
