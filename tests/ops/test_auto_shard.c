/* The shard that the planner puts in: every pipeline of order ops, on 1, 2, 3 and 8 ranks, against one process. */
#include "harness.h"

#include "base/mem.h"
#include "base/str.h"

#define VALUES 64

/* Order ops, and a filter, which makes the ops behind it count data. */
static const char *const parts[] = {
    "take(11)", "skip(4)", "repeat(2)", "shuffle(seed=5)", "shuffle(seed=7, reshuffle=false)", "filter(\"value % 5 != 1\")",
};
static const int64_t worlds[] = {1, 2, 3, 8};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LENGTH 2 /* sanitizers take ten times as long, and the arithmetic is the same */
#else
#define LENGTH 4
#endif

/* How often each value came, in a whole run of all ranks. */
typedef struct tally {
    int times[VALUES];
    size_t batches[8]; /* of each rank */
    bool opened;
    stk_status status;
    char message[512];
} tally;

static stk_config rank_config(int64_t rank, int64_t world)
{
    stk_config config = harness_config();
    config.threads = 1;
    config.on_demand = true;
    config.auto_shard = STK_SHARD_AUTO;
    config.rank = rank;
    config.world = world;
    return config;
}

static void add_column(tally *t, const stk_batch *batch)
{
    const stk_column *value = NULL;
    for (int i = 0; i < batch->column_count; i++)
        value = strcmp(batch->columns[i].name, "value") == 0 ? &batch->columns[i] : value;
    assert_non_null(value);
    for (int64_t i = 0; i < batch->rows; i++) {
        const int64_t v = ((const int64_t *)value->data)[i];
        assert_in_range(v, 0, VALUES - 1);
        t->times[v]++;
    }
}

static void run_rank(const char *text, int64_t rank, int64_t world, tally *t)
{
    const stk_config config = rank_config(rank, world);
    stk_pipeline *p = NULL;
    stk_error err;
    t->status = try_open(text, &config, &p, &err);
    t->opened = t->status == STK_OK;
    if (!t->opened) {
        snprintf(t->message, sizeof t->message, "%s", err.message);
        return;
    }
    const stk_batch *batch;
    stk_status status;
    while ((status = stk_pipeline_next(p, &batch, &err)) == STK_OK) {
        add_column(t, batch);
        t->batches[rank]++;
        stk_batch_release(p, batch);
    }
    assert_int_equal(status, STK_END);
    stk_pipeline_close(p);
}

static tally run_world(const char *text, int64_t world)
{
    tally t = {.opened = true};
    for (int64_t rank = 0; rank < world && t.opened; rank++)
        run_rank(text, rank, world, &t);
    return t;
}

static int total(const tally *t)
{
    int sum = 0;
    for (int i = 0; i < VALUES; i++)
        sum += t->times[i];
    return sum;
}

/* Ranks that have another number of batches than rank 0. */
static int out_of_step(const tally *t, int64_t world)
{
    int count = 0;
    for (int64_t r = 1; r < world; r++)
        count += t->batches[r] != t->batches[0];
    return count;
}

static void fail_at(const char *text, int64_t world, const char *what, int64_t found, int64_t wanted)
{
    fail_msg("'%s' on %lld ranks: %s: found %lld, wanted %lld", text, (long long)world, what, (long long)found,
             (long long)wanted);
}

/* Together ranks get what one process gets: the same samples as often, but for those that come again to fill the last round. */
static void compare(const char *text, const tally *one, const tally *all, int64_t world, bool pads)
{
    int more = 0;
    for (int v = 0; v < VALUES; v++) {
        if ((one->times[v] > 0) != (all->times[v] > 0))
            fail_at(text, world, "a value that only one of them has", v, one->times[v]);
        if (all->times[v] < one->times[v] || (!pads && all->times[v] != one->times[v]))
            fail_at(text, world, "how often a value came", all->times[v], one->times[v]);
        more += all->times[v] - one->times[v];
    }
    if (more > 0 && !pads)
        fail_at(text, world, "samples in all", total(all), total(one));
    /* Where nothing can fall out, ranks make as many batches; a filter cannot promise it. */
    const bool by_batches = strstr(text, "batch(3) | ") != NULL; /* whole batches are dealt out: uneven without padding */
    const bool stream = strstr(text, ".gz") != NULL;
    const bool fits = !stream || total(one) % (3 * world) == 0 || total(one) % (3 * world) >= world;
    const bool promised = by_batches ? pads && !stream : pads || (total(one) >= 3 * world && fits);
    if (strstr(text, "batch(3)") && !strstr(text, "filter") && promised && out_of_step(all, world) > 0)
        fail_at(text, world, "batches of the ranks", (int64_t)all->batches[world - 1], (int64_t)all->batches[0]);
}

/* Whether the planner pads: there is a shuffle that draws anew. */
static bool pads(const char *text)
{
    return strstr(text, "shuffle(seed=5)") != NULL;
}

static int compare_worlds(const char *text)
{
    const tally one = run_world(text, 0 + 1);
    for (size_t w = 1; w < STK_COUNT(worlds); w++) {
        const tally all = run_world(text, worlds[w]);
        if (one.opened != all.opened && !strstr(all.message, "more than 4 takes"))
            fail_msg("'%s' on %lld ranks: %s%s", text, (long long)worlds[w], one.message, all.message);
        if (one.opened && all.opened)
            compare(text, &one, &all, worlds[w], pads(text));
    }
    return one.opened;
}

/* All texts of `length` parts with the batch at each place; returns how many ran. */
static int compare_all(const char *source, int length)
{
    int64_t texts = 1;
    int ran = 0;
    for (int i = 0; i < length; i++)
        texts *= (int64_t)STK_COUNT(parts);
    for (int64_t n = 0; n < texts; n++) {
        for (int batch_at = 0; batch_at <= length; batch_at++) {
            stk__text t = STK__TEXT_INIT;
            stk__text_puts(&t, source);
            int64_t rest = n;
            for (int i = 0; i <= length; i++) {
                if (i == batch_at)
                    stk__text_puts(&t, " | batch(3)");
                if (i < length)
                    stk__text_printf(&t, " | %s", parts[rest % (int64_t)STK_COUNT(parts)]);
                rest /= (int64_t)STK_COUNT(parts);
            }
            ran += compare_worlds(t.data);
            stk__text_clear(&t);
        }
    }
    return ran;
}

static void ranks_share_what_one_process_gets(void **state)
{
    int ran = 0;
    for (int length = 0; length <= LENGTH; length++)
        ran += compare_all("range(23)", length);
    assert_in_range(ran, LENGTH == 4 ? 1000 : 20, 1 << 20);
}

static void ranks_share_files_and_streams(void **state)
{
    write_data();
    const int longest = LENGTH == 4 ? 2 : 1;
    for (int length = 0; length <= longest; length++) {
        compare_all("tfrecord(\"$D/a-*.tfrecord\") | interleave(cycle=2) | parse(value=int64)", length);
        compare_all("tfrecord(\"$D/b-*.tfrecord.gz\") | parse(value=int64)", length);
    }
}

static void lengths_of_any_remainder_come_out_even(void **state)
{
    for (int n = 0; n < 40; n++)
        for (int size = 1; size <= 5; size++) {
            char text[128];
            snprintf(text, sizeof text, "range(%d) | batch(%d)", n, size);
            const tally one = run_world(text, 1);
            for (size_t w = 1; w < STK_COUNT(worlds); w++) {
                const tally all = run_world(text, worlds[w]);
                compare(text, &one, &all, worlds[w], false);
                if (size > 1 && n >= worlds[w] * 2 && out_of_step(&all, worlds[w]))
                    fail_at(text, worlds[w], "ranks with another number of batches", out_of_step(&all, worlds[w]), 0);
            }
        }
}

static void a_split_is_the_same_on_any_number_of_ranks(void **state)
{
    for (size_t w = 0; w < STK_COUNT(worlds); w++) {
        const tally train = run_world("range(60) | shuffle(seed=7, reshuffle=false) | take(40) | batch(3)", worlds[w]);
        const tally valid = run_world("range(60) | shuffle(seed=7, reshuffle=false) | skip(40) | batch(3)", worlds[w]);
        assert_int_equal(total(&train), 40);
        assert_int_equal(total(&valid), 20);
        for (int v = 0; v < 60; v++)
            assert_int_equal(train.times[v] + valid.times[v], 1);
    }
}

static void a_stream_is_dealt_out_by_whole_batches(void **state)
{
    write_data();
    stk_config config = rank_config(1, 2);
    seen s;
    run_all("tfrecord(\"$D/b-0.tfrecord.gz\") | parse(value=int64) | batch(3)", &config, &s);
    assert_int_equal(s.value_count, 3); /* of 7: the last one is the other rank's */
    for (int i = 0; i < 3; i++)
        assert_int_equal(s.values[i], 3 + i);
    seen_clear(&s);
    run_all("tfrecord(\"$D/b-3.tfrecord.gz\") | parse(value=int64) | batch(4)", &config, &s);
    assert_int_equal(s.value_count, 5); /* of 11: a round of eight, then what is left, one by one */
    const int64_t wanted[] = {16, 17, 18, 19, 21};
    assert_memory_equal(s.values, wanted, sizeof wanted);
    seen_clear(&s);
}

static void what_stands_in_the_text_wins(void **state)
{
    stk_config config = rank_config(1, 2);
    seen s;
    run_all("range(6) | shard(count=3, index=2) | batch(2)", &config, &s);
    assert_int_equal(s.value_count, 2);
    assert_int_equal(s.values[0], 2);
    seen_clear(&s);
    config.auto_shard = STK_SHARD_WRITTEN;
    run_all("range(6) | batch(2)", &config, &s);
    assert_int_equal(s.value_count, 6);
    seen_clear(&s);
}

static void files_are_written_whole_by_every_rank_that_is_asked(void **state)
{
    stk_config config = rank_config(1, 2);
    seen s;
    run_all("range(6) | write_tfrecord(\"$D/out.tfrecord\")", &config, &s);
    assert_int_equal(s.stats.samples, 6);
    seen_clear(&s);
}

static void note_log(void *arg, stk_log_level level, const char *text)
{
    if (level == STK_LOG_WARNING)
        stk__text_puts(arg, text);
}

static void ranks_that_differ_are_told(void **state)
{
    static const struct {
        const char *text, *said;
    } rows[] = {
        {"range(7) | batch(1)", "ranks get different numbers of batches"},
        {"range(9) | filter(\"value > 1\") | batch(2)", "each filters its own samples"},
        {"range(7) | batch(2)", NULL},
        {"range(7) | shuffle(seed=1) | batch(1)", NULL},
    };
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        stk__text said = STK__TEXT_INIT;
        stk_config config = rank_config(1, 2);
        config.log = note_log;
        config.log_arg = &said;
        seen s;
        run_all(rows[i].text, &config, &s);
        if (rows[i].said)
            assert_non_null(strstr(said.data ? said.data : "", rows[i].said));
        else
            assert_int_equal(said.length, 0);
        seen_clear(&s);
        stk__text_clear(&said);
    }
}

/* Any batch of a world of `from` ranks, then on with `to` ranks: each sample of the epoch once, or a refusal. */
static void go_on(const char *text, int64_t from, int64_t to, int64_t after, int n)
{
    tally t = {0};
    for (int64_t r = 0; r < from; r++) {
        const stk_config config = rank_config(r, from);
        seen s;
        run_some(text, &config, after, r == 0 ? in_dir("place") : NULL, &s);
        for (size_t i = 0; i < s.value_count; i++)
            t.times[s.values[i]]++;
        seen_clear(&s);
    }
    for (int64_t r = 0; r < to; r++) {
        stk_config config = rank_config(r, to);
        config.resume_path = in_dir("place");
        seen s;
        run_some(text, &config, -1, NULL, &s);
        if (s.status == STK_MISMATCH) {
            assert_non_null(strstr(s.error.message, "before the last batch"));
            seen_clear(&s);
            return;
        }
        assert_int_equal(s.status, STK_END);
        for (size_t i = 0; i < s.value_count; i++)
            t.times[s.values[i]]++;
        seen_clear(&s);
    }
    for (int v = 0; v < n; v++)
        if (t.times[v] != 1)
            fail_msg("'%s' from %d to %d ranks after %d batches: value %d came %d times", text, (int)from, (int)to,
                     (int)after, v, t.times[v]);
}

static void another_number_of_ranks_goes_on_exactly(void **state)
{
    static const int64_t pairs[][2] = {{1, 2}, {2, 1}, {2, 3}, {3, 2}, {8, 1}, {1, 8}};
    for (int n = 12; n <= 31; n++)
        for (size_t i = 0; i < STK_COUNT(pairs); i++)
            for (int64_t after = 1; after <= 3; after++) {
                char text[128];
                if (n / pairs[i][0] < 3 * after)
                    continue;
                snprintf(text, sizeof text, "range(40) | skip(%d) | take(%d) | batch(3)", 0, n);
                go_on(text, pairs[i][0], pairs[i][1], after, n);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(ranks_share_what_one_process_gets),
        OP_TEST(ranks_share_files_and_streams),
        OP_TEST(lengths_of_any_remainder_come_out_even),
        OP_TEST(a_split_is_the_same_on_any_number_of_ranks),
        OP_TEST(a_stream_is_dealt_out_by_whole_batches),
        OP_TEST(what_stands_in_the_text_wins),
        OP_TEST(files_are_written_whole_by_every_rank_that_is_asked),
        OP_TEST(ranks_that_differ_are_told),
        OP_TEST(another_number_of_ranks_goes_on_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
