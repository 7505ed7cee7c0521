/*
 * Every pair of runs: one writes a checkpoint, the other goes on from it. What comes then is the rest of one whole run, each
 * sample once, or nothing but a refusal. Pairs differ in policy, --exact, rank, world, threads and memory.
 *
 * A part of the pairs, chosen by number, is tried here; with STOKER_TORTURE=1 in the environment all of them, from all places.
 */
#include "harness.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/mem.h"

enum {
    FLOW = 1,          /* samples fall out by what the ops are */
    EXACT_MATTERS = 2, /* --exact makes another plan */
    OTHER_BATCHES = 4, /* counted and as a flow, the same samples come in other batches */
    PADS_BATCHES = 8,  /* a counted run gives batches that a flow cannot */
    SOME_TWICE = 16,   /* ranks have as many samples: some come twice */
    SOME_NEVER = 32,   /* or some do not come */
    OWN_RANK = 64,     /* two shards: which rank is which is not looked into */
};

typedef struct subject {
    const char *text;
    const char *sound; /* the same over samples that are all good; NULL: there is no bad one in `text` */
    bool (*is_bad)(int64_t value);
    int flags;
} subject;

static bool is_odd(int64_t value)
{
    return value % 2 != 0;
}

static bool is_damaged(int64_t value)
{
    return value % 7 == 3 || value == 11;
}

#define RECORDS(name) "tfrecord(\"$D/" name "\") | parse(value=int64) | "

static const subject subjects[] = {
    {"range(25) | batch(4)", NULL, NULL, OTHER_BATCHES},
    {"range(23) | shuffle | batch(4) | repeat(3)", NULL, NULL, SOME_TWICE},
    {"range(26) | shuffle(seed=1) | shard | batch(4) | repeat(3)", NULL, NULL, 0},
    {"range(41) | shard(uneven=drop) | batch(4, drop_last=true) | repeat(2)", NULL, NULL, SOME_NEVER},
    {"range(17) | shard(uneven=pad) | repeat(3) | batch(3)", NULL, NULL, SOME_TWICE},
    {"range(60) | shard | filter(\"value % 3 == 0 or value < 20\") | batch(4)", NULL, NULL, FLOW},
    {"range(60) | filter(\"value % 3 == 0 or value < 20\") | shard | batch(4) | repeat(2)", NULL, NULL,
     FLOW | EXACT_MATTERS},
    {"range(60) | filter(\"value % 3 != 0\") | take(19) | shard(contiguous=false) | batch(3) | repeat(2)", NULL, NULL,
     FLOW},
    {"range(30) | shard | repeat(3) | batch(4) | skip(2) | take(9)", NULL, NULL, 0},
    {"range(40) | shard | batch(3) | skip(1) | take(4) | repeat(3)", NULL, NULL, 0},
    {"range(26) | batch(2) | shard | repeat(2) | take(7)", NULL, NULL, 0},
    {"range(26) | batch(2) | shard(uneven=pad) | repeat(2)", NULL, NULL, PADS_BATCHES | SOME_TWICE},
    {"range(30) | shard(2, 1) | shuffle(seed=2) | shard | batch(3)", NULL, NULL, OWN_RANK},
    {"tfrecord(\"$D/pictures.tfrecord\") | parse(image=bytes, label=int64) | decode_image(image) | random_crop(image, 8, 8) | one_hot(label, 10) | shard | batch(4) | mixup(image, label) | repeat(3)",
     NULL, NULL, 0},
    {RECORDS("d-*") "shuffle(seed=2) | shard | batch(3) | repeat(2)",
     RECORDS("s-*") "shuffle(seed=2) | shard | batch(3) | repeat(2)", is_damaged, 0},
    {RECORDS("d-*") "shuffle | batch(3)", RECORDS("s-*") "shuffle | batch(3)", is_damaged, 0},
    {RECORDS("d-*") "cache | shard | batch(4) | repeat(2)", RECORDS("s-*") "cache | shard | batch(4) | repeat(2)",
     is_damaged, 0},
    {RECORDS("d-*") "interleave(cycle=2) | shard | repeat(2) | batch(5)",
     RECORDS("s-*") "interleave(cycle=2) | shard | repeat(2) | batch(5)", is_damaged, 0},
    {"tfrecord(\"$D/d-*\") | parse(value=int64, many=int64[]) | shard | batch(4, pad=true)",
     "tfrecord(\"$D/s-*\") | parse(value=int64, many=int64[]) | shard | batch(4, pad=true)", is_damaged, 0},
    {"tfrecord(\"$D/b-*.gz\") | parse(value=int64, rare=int64) | shuffle(buffer=5, seed=1) | shard | batch(3)",
     "tfrecord(\"$D/b-*.gz\") | parse(value=int64) | shuffle(buffer=5, seed=1) | shard | batch(3)", is_odd, FLOW},
    {"tfrecord(\"$D/b-*.gz\") | parse(value=int64) | filter(\"value % 5 != 0\") | shard | batch(2) | repeat(2)", NULL,
     NULL, FLOW | EXACT_MATTERS},
};

/* ---- who runs ---- */

enum { POLICIES = 3, PLACES = 6, WHO_COUNT = POLICIES * 2 * PLACES };

typedef struct who {
    stk_on_error policy;
    bool exact;
    int64_t world, rank;
} who;

static who who_of(int i)
{
    static const int64_t places[PLACES][2] = {{1, 0}, {2, 0}, {2, 1}, {3, 0}, {3, 1}, {3, 2}};
    return (who){(stk_on_error)(i / (2 * PLACES)), i / PLACES % 2 == 1, places[i % PLACES][0], places[i % PLACES][1]};
}

static int number_of(who w)
{
    return (int)w.policy * 2 * PLACES + w.exact * PLACES + (int)(w.world * (w.world - 1) / 2 + w.rank);
}

static bool torture(void)
{
    const char *value = getenv("STOKER_TORTURE");
    return value && value[0] == '1';
}

static unsigned next_random(void)
{
    static unsigned state = 1;
    state = state * 1664525 + 1013904223;
    return state >> 16;
}

/* How many threads and how much memory there is must not matter. */
static stk_config config_of(who w)
{
    stk_config config = harness_config();
    const unsigned draw = next_random(), several = torture() ? 1 : 5; /* threads take time to start on a busy machine */
    config.threads = (draw & several) == several ? 4 : 1;
    config.memory_bytes = (uint64_t)(draw & 2 ? 64 : 4) << 20;
    config.on_error = w.policy;
    config.quarantine_path = w.policy == STK_ON_ERROR_QUARANTINE ? in_dir("list") : NULL;
    config.no_approximate = w.exact;
    config.world = w.world;
    config.rank = w.rank;
    config.auto_shard = STK_SHARD_AUTO;
    return config;
}

/* What a run handed over; where it stood then, and its list of bad records. */
typedef struct outcome {
    seen seen;
    char *state, *list;
    size_t list_size;
} outcome;

static void outcome_clear(outcome *o)
{
    seen_clear(&o->seen);
    stk_free(o->state);
    stk__free(o->list);
    *o = (outcome){0};
}

/* Up to `limit` batches, -1: all. The list is that which was there at the end. */
static void go(const char *text, who w, int64_t limit, const char *resume, outcome *out)
{
    stk_config config = config_of(w);
    stk_pipeline *p = NULL;
    seen *s = &out->seen;
    *out = (outcome){0};
    config.resume_state = resume;
    s->status = try_open(text, &config, &p, &s->error);
    while (s->status == STK_OK && (limit < 0 || (int64_t)s->count < limit)) {
        const stk_batch *batch;
        s->status = stk_pipeline_next(p, &batch, &s->error);
        if (s->status != STK_OK)
            break;
        seen_add(s, batch);
        stk_batch_release(p, batch);
    }
    if (p)
        assert_int_equal(stk_pipeline_state(p, &out->state, NULL), STK_OK);
    if (p)
        stk_pipeline_stats(p, &s->stats);
    stk_pipeline_close(p);
    if (w.policy == STK_ON_ERROR_QUARANTINE && p)
        assert_int_equal(stk__read_file(in_dir("list"), 1 << 20, &out->list, &out->list_size, NULL), STK_OK);
}

/* ---- what is wanted ---- */

typedef struct bench {
    const subject *subject;
    outcome whole[WHO_COUNT], sound[WHO_COUNT]; /* `sound`: of the sound twin, policy stop; else of `text` itself */
    int tried, went_on;
} bench;

typedef struct pair {
    who writer, reader;
    size_t batches; /* before the checkpoint */
} pair;

static void fail_pair(const bench *b, const pair *p, const char *what)
{
    fail_msg(
        "'%s'\nwriter: policy %d exact %d rank %lld of %lld, %zu batches\nreader: policy %d exact %d rank %lld of %lld\n%s",
        b->subject->text, (int)p->writer.policy, p->writer.exact, (long long)p->writer.rank, (long long)p->writer.world,
        p->batches, (int)p->reader.policy, p->reader.exact, (long long)p->reader.rank, (long long)p->reader.world,
        what);
}

static size_t values_of(const seen *s, size_t batches)
{
    size_t n = 0;
    for (size_t i = 0; i < batches && i < s->count; i++)
        n += (size_t)s->batches[i].rows;
    return n;
}

/* A counted run of this rank over samples that are all good. */
static const seen *sound_run(const bench *b, who w)
{
    w.policy = STK_ON_ERROR_STOP;
    return &b->sound[number_of(w)].seen;
}

static bool same_epochs(const seen *a, const seen *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = a->batches[i].epoch == b->batches[i].epoch;
    return same;
}

/* Whether after so many batches both stand in their first epoch, before its end. */
static bool both_in_first_epoch(const seen *a, const seen *b, size_t batches)
{
    return batches < a->count && batches < b->count && a->batches[batches].epoch == a->batches[0].epoch &&
           b->batches[batches].epoch == b->batches[0].epoch;
}

typedef enum wanted { REFUSAL, GOING_ON, EITHER } wanted;

static wanted wanted_of(const bench *b, const pair *p)
{
    const int flags = b->subject->flags;
    const who w = p->writer, r = p->reader;
    const bool flow = flags & FLOW || w.policy != STK_ON_ERROR_STOP;
    if (w.exact != r.exact && flags & EXACT_MATTERS)
        return REFUSAL;
    if (w.world != r.world)
        return flow || r.policy != STK_ON_ERROR_STOP ? REFUSAL : EITHER;
    if (w.rank != r.rank && (flow || flags & OWN_RANK))
        return REFUSAL;
    if (flags & PADS_BATCHES && w.world > 1 && w.policy == STK_ON_ERROR_STOP && r.policy != STK_ON_ERROR_STOP)
        return EITHER;
    if (w.rank == r.rank)
        return GOING_ON;
    const seen *own = sound_run(b, r), *other = sound_run(b, w);
    if (p->batches > own->count)
        return REFUSAL;
    return same_epochs(own, other) ? GOING_ON : both_in_first_epoch(own, other, p->batches) ? EITHER : REFUSAL;
}

/* The place behind what was handed over in the samples that there are, bad ones included. */
static size_t place_behind(const bench *b, const pair *p, const seen *all, const int64_t *before, size_t count)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++, at++) {
        while (at < all->value_count && b->subject->is_bad(all->values[at]))
            at++;
        if (at >= all->value_count || all->values[at] != before[i])
            fail_pair(b, p, "the run before the checkpoint gave something else");
    }
    return at;
}

/* With bad samples: the good ones behind the place, up to the next bad one where the policy is to stop there. */
static void check_among_bad(const bench *b, const pair *p, const seen *head, size_t count, const outcome *rest)
{
    const int64_t *before = head->values, last_rows = p->batches ? head->batches[p->batches - 1].rows : 0;
    const seen *all = sound_run(b, p->reader), *got = &rest->seen;
    const bool stops = p->reader.policy == STK_ON_ERROR_STOP;
    size_t at = place_behind(b, p, all, before, count), given = 0;
    /* A batch that is not full was handed over because its epoch was over: what is bad up to there was met before. */
    while (last_rows < all->batches[0].rows && p->batches > 0 && at < all->value_count &&
           b->subject->is_bad(all->values[at]))
        at++;
    for (; at < all->value_count; at++) {
        const bool bad = b->subject->is_bad(all->values[at]);
        if (bad && stops)
            break;
        if (bad)
            continue;
        if (given < got->value_count && got->values[given] != all->values[at])
            fail_pair(b, p, "another sample came");
        given++;
    }
    const bool ends = at == all->value_count;
    if ((got->status == STK_END) != ends)
        fail_pair(b, p, "it did not end as it should");
    if (got->value_count > given || (ends && got->value_count != given) || given - got->value_count >= 5)
        fail_pair(b, p, "too many samples came, or too few");
}

static void check_values(const bench *b, const pair *p, const int64_t *before, size_t count, const outcome *rest)
{
    const seen *all = &b->whole[number_of(p->reader)].seen, *got = &rest->seen;
    if (got->status != all->status || count + got->value_count != all->value_count)
        fail_pair(b, p, "too many samples came, or too few");
    if ((count && memcmp(all->values, before, count * sizeof *before) != 0) ||
        (got->value_count && memcmp(all->values + count, got->values, got->value_count * sizeof *before) != 0))
        fail_pair(b, p, "another sample came");
}

static void check_batches(const bench *b, const pair *p, const outcome *rest)
{
    who w = p->reader;
    if (p->writer.policy != STK_ON_ERROR_STOP && !b->subject->is_bad)
        w.policy = p->writer.policy; /* what was a flow stays one */
    const seen *all = &b->whole[number_of(w)].seen, *got = &rest->seen;
    if (got->status != all->status || got->count + p->batches != all->count)
        fail_pair(b, p, "too many batches came, or too few");
    for (size_t i = 0; i < got->count; i++) {
        const seen_batch *x = &all->batches[p->batches + i], *y = &got->batches[i];
        if (x->index != y->index || x->epoch != y->epoch || x->rows != y->rows || strcmp(x->digest, y->digest) != 0)
            fail_pair(b, p, "another batch came");
    }
}

static int64_t lines_of(const outcome *o)
{
    int64_t lines = 0;
    for (size_t i = 0; i < o->list_size; i++)
        lines += o->list[i] == '\n';
    return lines;
}

static void check_list(const bench *b, const pair *p, const outcome *rest)
{
    const outcome *whole = &b->whole[number_of(p->reader)];
    if (lines_of(rest) != rest->seen.stats.quarantined)
        fail_pair(b, p, "the list has other lines than were counted");
    if (p->writer.policy == STK_ON_ERROR_SKIP)
        return; /* what was skipped then is in no list */
    if (rest->list_size != whole->list_size || memcmp(rest->list, whole->list, whole->list_size) != 0)
        fail_pair(b, p, "the list is not that of a whole run");
}

static void check_rest(const bench *b, const pair *p, const seen *head, const outcome *rest)
{
    const who w = p->writer, r = p->reader;
    const bool same_way = (w.policy == STK_ON_ERROR_STOP) == (r.policy == STK_ON_ERROR_STOP);
    /* Another rank's checkpoint stands for what this one has handed over meanwhile. */
    const seen *before = w.rank == r.rank ? head : &b->whole[number_of((who){w.policy, w.exact, r.world, r.rank})].seen;
    const size_t count = values_of(before, p->batches);
    if (before->count < p->batches && b->subject->is_bad)
        return; /* a bad record had ended this rank before: one checkpoint for all is for ranks that came as far */
    if (before->count < p->batches)
        fail_pair(b, p, "this rank never came so far");
    if (b->subject->is_bad)
        check_among_bad(b, p, before, count, rest);
    else if (b->subject->flags & OTHER_BATCHES && w.policy == STK_ON_ERROR_STOP && !same_way)
        check_values(b, p, before->values, count, rest);
    else
        check_batches(b, p, rest);
    if (b->subject->is_bad && same_way)
        check_batches(b, p, rest);
    if (r.policy == STK_ON_ERROR_QUARANTINE)
        check_list(b, p, rest);
    if (rest->seen.status == STK_END && r.policy != STK_ON_ERROR_STOP &&
        rest->seen.stats.skipped != b->whole[number_of(r)].seen.stats.skipped)
        fail_pair(b, p, "bad records were counted twice, or not at all");
}

/* ---- pairs ---- */

/* Without a word to the disk, which thousands of these would wait for. */
static void write_list(const char *data, size_t size)
{
    FILE *file = fopen(in_dir("list"), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void try_pair(bench *b, const pair *p, const outcome *head)
{
    const wanted want = wanted_of(b, p);
    outcome rest;
    const bool listed = p->writer.policy == STK_ON_ERROR_QUARANTINE;
    write_list(listed ? head->list : "of another run\n", listed ? head->list_size : 15);
    go(b->subject->text, p->reader, -1, head->state, &rest);
    const bool refused = rest.seen.status == STK_MISMATCH;
    b->tried++;
    b->went_on += !refused;
    if (refused && want == GOING_ON)
        fail_pair(b, p, rest.seen.error.message);
    if (!refused && want == REFUSAL)
        fail_pair(b, p, rest.seen.status == STK_END ? "it was not refused" : rest.seen.error.message);
    if (refused && (!rest.seen.error.message[0] || rest.seen.count > 0))
        fail_pair(b, p, "it was refused without a reason, or late");
    if (!refused && p->writer.world == p->reader.world)
        check_rest(b, p, &head->seen, &rest);
    outcome_clear(&rest);
}

static void try_readers(bench *b, who writer, size_t batches)
{
    outcome head;
    go(b->subject->text, writer, (int64_t)batches, NULL, &head);
    assert_int_equal(head.seen.count, batches);
    for (int i = 0; i < WHO_COUNT; i++)
        if (torture() || next_random() % 9 == 0)
            try_pair(b, &(pair){writer, who_of(i), batches}, &head);
    outcome_clear(&head);
}

/* Whole runs, with the first `policies` policies. */
static void prepare(bench *b, int policies)
{
    for (int i = 0; i < policies * 2 * PLACES; i++) {
        const who w = who_of(i);
        go(b->subject->text, w, -1, NULL, &b->whole[i]);
        if (w.policy == STK_ON_ERROR_STOP)
            go(b->subject->sound ? b->subject->sound : b->subject->text, w, -1, NULL, &b->sound[i]);
        const bool may_fail = b->subject->is_bad && w.policy == STK_ON_ERROR_STOP;
        if ((b->whole[i].seen.status != STK_END && !may_fail) ||
            (b->sound[i].seen.status && b->sound[i].seen.status != STK_END))
            fail_msg("'%s' ended with %s %s", b->subject->text, b->whole[i].seen.error.message,
                     b->sound[i].seen.error.message);
    }
}

static void bench_clear(bench *b)
{
    for (int i = 0; i < WHO_COUNT; i++) {
        outcome_clear(&b->whole[i]);
        outcome_clear(&b->sound[i]);
    }
}

/* The same records twice, sound and with some damaged. */
static void write_records(void)
{
    static const char *const names[] = {"s-0.tfrecord", "s-1.tfrecord", "s-2.tfrecord"};
    static const int64_t counts[] = {9, 4, 14};
    int64_t value = 0;
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        char *data, other[16];
        size_t size, at = 0;
        write_examples(names[i], STK__PLAIN, value, counts[i]);
        assert_int_equal(stk__read_file(in_dir(names[i]), 1 << 20, &data, &size, NULL), STK_OK);
        for (; at < size; value++) {
            uint64_t length;
            memcpy(&length, data + at, sizeof length);
            if (is_damaged(value))
                data[at + 12 + length / 2] ^= 0x55;
            at += 12 + (size_t)length + 4;
        }
        snprintf(other, sizeof other, "d%s", names[i] + 1);
        write_file(other, data, size);
        stk__free(data);
    }
}

static void every_pair_goes_on_exactly_or_is_refused(void **state)
{
    bench *b = stk__calloc(1, sizeof *b);
    write_data();
    write_records();
    for (size_t i = 0; i < STK_COUNT(subjects); i++) {
        b->subject = &subjects[i];
        b->tried = b->went_on = 0;
        prepare(b, POLICIES);
        for (int w = 0; w < WHO_COUNT; w++) {
            const size_t count = b->whole[w].seen.count;
            for (size_t k = 0; k <= count; k++)
                if (torture() || next_random() % (count + 1) < 1)
                    try_readers(b, who_of(w), k);
        }
        if (torture())
            print_message("%5d pairs, %5d went on: %s\n", b->tried, b->went_on, b->subject->text);
        assert_true(b->went_on > 0 && b->went_on < b->tried);
        bench_clear(b);
    }
    stk__free(b);
}

/* ---- another number of ranks ---- */

enum { VALUES = 64 };

static void add(int *times, const seen *s, size_t batches)
{
    const size_t n = values_of(s, batches);
    for (size_t i = 0; i < n; i++)
        times[s->values[i]]++;
}

/* All ranks of one world go `batches` on, then all of another go on from the checkpoint of one of them. */
static void change_world(bench *b, who writer, size_t batches, int64_t world)
{
    const pair p = {writer, {STK_ON_ERROR_STOP, writer.exact, world, 0}, batches};
    const seen *one = sound_run(b, (who){.world = 1, .exact = writer.exact});
    int times[VALUES] = {0}, all[VALUES] = {0}, refused = 0;
    outcome head, rest;
    go(b->subject->text, writer, (int64_t)batches, NULL, &head);
    for (int64_t rank = 0; rank < writer.world; rank++)
        add(times, sound_run(b, (who){writer.policy, writer.exact, writer.world, rank}), batches);
    add(all, one, one->count);
    for (int64_t rank = 0; rank < world; rank++) {
        go(b->subject->text, (who){STK_ON_ERROR_STOP, writer.exact, world, rank}, -1, head.state, &rest);
        refused += rest.seen.status == STK_MISMATCH;
        add(times, &rest.seen, rest.seen.count);
        outcome_clear(&rest);
    }
    outcome_clear(&head);
    b->tried++;
    b->went_on += refused == 0;
    if (refused != 0 && refused != world)
        fail_pair(b, &p, "some ranks went on and others did not");
    for (int i = 0; refused == 0 && i < VALUES; i++) {
        if (times[i] < all[i] && !(b->subject->flags & SOME_NEVER))
            fail_pair(b, &p, "a sample is missing");
        if (times[i] > all[i] && !(b->subject->flags & SOME_TWICE))
            fail_pair(b, &p, "a sample came twice");
    }
}

static void every_change_of_world_is_exact_or_refused(void **state)
{
    bench *b = stk__calloc(1, sizeof *b);
    write_data();
    int went_on = 0;
    for (size_t i = 0; i < STK_COUNT(subjects); i++) {
        b->subject = &subjects[i];
        if (b->subject->flags & (FLOW | OWN_RANK) || b->subject->is_bad)
            continue;
        prepare(b, 1);
        for (int w = 0; w < PLACES && b->whole[0].seen.value_count > 0; w++)
            for (size_t k = 0; k <= b->whole[w].seen.count; k++)
                for (int64_t world = 1; world <= 3; world++)
                    if (world != who_of(w).world && (torture() || next_random() % 4 == 0))
                        change_world(b, who_of(w), k, world);
        bench_clear(b);
    }
    went_on = b->went_on;
    stk__free(b);
    assert_true(went_on > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(every_pair_goes_on_exactly_or_is_refused),
        OP_TEST(every_change_of_world_is_exact_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
