/* Runs that begin with a later epoch give what a run from the start gives there, to the bit, and resume as exactly. */
#include "harness.h"

#include "base/mem.h"

enum { EPOCHS = 4 };

/* The pipelines of the harness without the repeat at their end, and some more. */
static const char *const more[] = {
    "range(23) | shuffle(seed=3) | shard(count=2, index=1, uneven=pad) | test_noise | batch(4)",
    "range(23) | shuffle(seed=3) | test_noise | batch(4) | take(3)",
    "range(23) | shuffle(seed=3) | repeat(2) | test_noise | batch(4) | skip(1) | repeat(2) | take(17)",
    "range(23) | shuffle(seed=3) | repeat(2) | filter(\"value % 5 != 2\") | test_noise | batch(4)",
    "range(40) | shuffle(seed=1) | filter(\"value % 3 != 0\") | take(11) | shard(count=2, index=1) | batch(2) | skip(1)",
    "tfrecord(\"$D/b-*.gz\") | shuffle(seed=1, buffer=6) | shard(count=2, index=1) | parse(value=int64) | test_noise | batch(3)",
    "tfrecord(\"$D/b-*.gz\") | repeat(2) | shuffle(seed=1, buffer=6) | parse(value=int64) | test_noise | batch(3) | skip(1)",
    "text(\"$D/lines.txt.gz\") | shuffle(seed=4, buffer=5) | test_noise | cache | batch(3)",
    "tfrecord(\"$D/pictures.tfrecord\") | parse(image=bytes, label=int64) | filter(\"label < 7\") | decode_image(image) | "
    "random_resized_crop(image, 8, 8) | random_flip(image) | one_hot(label, 10) | batch(4) | mixup(image, label)",
    "tfrecord(\"$D/pictures.tfrecord\") | shuffle(seed=1) | parse(image=bytes, label=int64) | decode_image(image) | "
    "random_resized_crop(image, 8, 8) | one_hot(label, 10) | batch(4) | cutmix(image, label) | take(4)",
};

/* Calls `check` with each of them. */
static void for_each_base(void (*check)(const char *base))
{
    write_data();
    for (size_t i = 0; i < STK_COUNT(more); i++)
        check(more[i]);
    for (size_t i = 0; harness_pipelines[i]; i++) {
        char base[1024];
        snprintf(base, sizeof base, "%s", harness_pipelines[i]);
        char *last = strrchr(base, '|');
        if (last && strncmp(last, "| repeat", 8) == 0)
            *last = 0;
        if (strstr(base, "batch("))
            check(base);
    }
}

static const char *repeated(const char *base, const char *rounds)
{
    static char text[1200];
    snprintf(text, sizeof text, "%s | repeat%s", base, rounds);
    return text;
}

static stk_config config_at(int64_t epoch, int threads)
{
    stk_config config = harness_config();
    config.first_epoch = epoch;
    config.threads = threads;
    return config;
}

/* Batches [from, to) of `all` are what `some` has to begin with; by number too when these count on. */
static void assert_same(const seen *all, size_t from, size_t to, const seen *some, const char *what, bool numbered)
{
    if (some->count < to - from)
        fail_msg("'%s' gave %zu batches, wanted %zu", what, some->count, to - from);
    for (size_t i = from; i < to; i++) {
        const seen_batch *a = &all->batches[i], *b = &some->batches[i - from];
        if (strcmp(a->digest, b->digest) != 0 || a->epoch != b->epoch)
            fail_msg("'%s': batch %zu of epoch %lld differs from that of a run from the start (epoch %lld)", what, i,
                     (long long)b->epoch, (long long)a->epoch);
        assert_int_equal(b->index, numbered ? i : i - from);
    }
}

/* Where each epoch begins in a run of all of them: what fewer rounds give is what more begin with. */
static void find_epochs(const char *base, seen *all, size_t *starts)
{
    for (int e = 0; e <= EPOCHS; e++) {
        char rounds[16];
        seen some = {0};
        snprintf(rounds, sizeof rounds, "(%d)", e);
        if (e > 0 && e < EPOCHS)
            run_all(repeated(base, rounds), NULL, &some);
        else if (e == EPOCHS)
            run_all(repeated(base, rounds), NULL, all);
        starts[e] = e < EPOCHS ? some.count : all->count;
        seen_clear(&some);
    }
}

static void check_begin(const char *base)
{
    seen all, s;
    size_t starts[EPOCHS + 1];
    find_epochs(base, &all, starts);
    for (int e = 0; e < EPOCHS; e++) {
        const size_t left = starts[EPOCHS] - starts[e], each = starts[e + 1] - starts[e];
        stk_config config = config_at(e, 1 + e % 3);
        run_all(repeated(base, "(4)"), &config, &s);
        const bool counted = s.stats.epoch_batches >= 0;
        assert_same(&all, starts[e], starts[EPOCHS], &s, base, counted);
        assert_int_equal(s.count, left);
        if (counted)
            assert_int_equal(s.stats.epoch_batches, each);
        seen_clear(&s);

        config.threads = 3 - e % 3;
        run_all(base, &config, &s);
        assert_same(&all, starts[e], starts[e + 1], &s, base, false);
        assert_int_equal(s.count, each);
        assert_int_equal(s.stats.epoch_batches, counted ? (int64_t)each : -1);
        seen_clear(&s);

        run_some(repeated(base, ""), &config, (int64_t)left, NULL, &s);
        assert_same(&all, starts[e], starts[EPOCHS], &s, base, counted);
        seen_clear(&s);
    }
    seen_clear(&all);
}

static void every_epoch_is_that_of_a_run_from_the_start(void **state)
{
    for_each_base(check_begin);
}

static void check_past_the_end(const char *base)
{
    for (int e = EPOCHS; e < EPOCHS + 2; e++) {
        const stk_config config = config_at(e, 2);
        seen s;
        run_all(repeated(base, "(4)"), &config, &s);
        assert_int_equal(s.count, 0);
        seen_clear(&s);
    }
}

static void epochs_past_the_end_give_nothing(void **state)
{
    for_each_base(check_past_the_end);
}

/* A run that began with epoch 2 goes on from every batch; what first_epoch says then does not count. */
static void check_resume(const char *base, const char *text, bool whole)
{
    seen all, head, tail;
    stk_config config = config_at(2, 2);
    run_all(text, &config, &all);
    for (size_t k = 0; k <= all.count; k += whole ? 1 : 2) {
        config = config_at(2, 1 + (int)k % 3);
        run_some(text, &config, (int64_t)k, in_dir("checkpoint"), &head);
        config = config_at((int64_t)k % 3, 3 - (int)k % 3);
        config.resume_path = in_dir("checkpoint");
        run_all(text, &config, &tail);
        assert_seen_equal(&all, k, &tail, base);
        seen_clear(&head);
        seen_clear(&tail);
    }
    seen_clear(&all);
}

static void check_resume_both(const char *base)
{
    check_resume(base, base, true);
    check_resume(base, repeated(base, "(4)"), false);
}

static void runs_that_began_later_resume_exactly(void **state)
{
    for_each_base(check_resume_both);
}

/* All ranks that began with epoch 2 go on there with another number of them: every sample comes once in an epoch. */
static void check_ranks(const char *text, int64_t first_batches, int epochs, const int64_t *counts)
{
    int times[48] = {0};
    for (int part = 0; part < 2; part++) {
        const int world = part ? 3 : 2;
        for (int rank = 0; rank < world; rank++) {
            stk_config config = config_at(2, 2);
            char name[16];
            seen s;
            config.world = world;
            config.rank = rank;
            config.resume_path = part ? in_dir("c0") : NULL;
            snprintf(name, sizeof name, "c%d", rank);
            run_some(text, &config, part ? -1 : first_batches, part ? NULL : in_dir(name), &s);
            if (s.error.status != STK_OK && s.status != STK_END)
                fail_msg("%s", s.error.message);
            for (size_t i = 0; i < s.value_count; i++)
                times[s.values[i]]++;
            for (size_t i = 0; i < s.count; i++)
                assert_true(s.batches[i].epoch >= counts[0] && s.batches[i].epoch <= counts[1]);
            seen_clear(&s);
        }
    }
    for (int i = 0; i < 48; i++)
        assert_int_equal(times[i], epochs);
}

static void ranks_change_in_a_run_that_began_later(void **state)
{
    for (int64_t batches = 0; batches < 12; batches++) {
        check_ranks("range(48) | shuffle(seed=1) | shard | batch(2) | repeat(4)", batches, 2, (int64_t[]){2, 3});
        check_ranks("range(48) | shuffle(seed=1) | shard | repeat(2) | batch(2)", batches, 2, (int64_t[]){4, 5});
        check_ranks("range(48) | shuffle(seed=1) | shard | batch(2)", batches, 1, (int64_t[]){2, 2});
    }
}

/* Ranks that differ in length are out of step only in epochs that the run has been through. */
static void uneven_ranks_change_in_the_first_epoch_of_the_run(void **state)
{
    static const char text[] = "range(50) | shuffle(seed=1) | shard | batch(4) | repeat(5)";
    seen s;
    stk_config config = config_at(2, 2);
    config.world = 3;
    run_some(text, &config, 2, in_dir("c"), &s);
    seen_clear(&s);
    run_some(text, &config, 7, in_dir("d"), &s);
    seen_clear(&s);
    config.world = 2;
    config.resume_path = in_dir("c");
    run_all(text, &config, &s);
    assert_int_equal(s.batches[0].epoch, 2);
    seen_clear(&s);
    config.resume_path = in_dir("d");
    assert_fails(text, &config, STK_MISMATCH, "epochs differ in length");
}

static void what_cannot_be_begun_is_refused(void **state)
{
    stk_config config = config_at(-1, 1);
    assert_fails("range(5) | batch(2)", &config, STK_INVALID, "first_epoch must be in 0..2147483648, got -1");
    config = config_at((int64_t)1 << 40, 1);
    assert_fails("range(5) | batch(2)", &config, STK_INVALID, "got 1099511627776");
    config = config_at(3, 1);
    assert_fails("range(5) | repeat | batch(2) | repeat", &config, STK_INVALID, "an epoch has no end");
    assert_fails("range(5) | filter(\"value > 1\") | repeat | batch(2) | repeat", &config, STK_INVALID, "has no end");
    assert_fails("range(5) | repeat(4)", &config, STK_INVALID, "put a batch before repeat");
    config = config_at((int64_t)1 << 31, 1);
    assert_fails("range(9000000000000000) | batch(2) | repeat", &config, STK_INVALID, "behind batch 2^62");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(every_epoch_is_that_of_a_run_from_the_start),
        OP_TEST(epochs_past_the_end_give_nothing),
        OP_TEST(runs_that_began_later_resume_exactly),
        OP_TEST(ranks_change_in_a_run_that_began_later),
        OP_TEST(uneven_ranks_change_in_the_first_epoch_of_the_run),
        OP_TEST(what_cannot_be_begun_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
