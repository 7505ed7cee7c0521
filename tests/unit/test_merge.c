/* Clocks of made-up ranks: what was put between them must come out again, within the error that is told. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/merge.h"
#include "base/mem.h"
#include "base/rng.h"
#include "trace/builder.h"

#define SECOND 1000000000

/* One rank, as its own clock sees it: at true time t it reads t + offset + drift * (t - start). */
typedef struct rank {
    int64_t offset;
    double drift;
    int64_t jitter;    /* of the ends of collectives */
    int missing_first; /* rounds whose collectives are not in the file */
    int missing_every; /* one collective in so many is missing; 0: none */
    bool no_collectives, no_steps, launches;
    int64_t realtime; /* 0: not known */
    uint32_t clock;
    const char *host;
    int64_t step_jitter;
} rank;

static const int64_t truth_start = 1000 * (int64_t)SECOND;

static double uniform(uint64_t seed, uint64_t n)
{
    return (double)(stk__mix(seed, n) >> 11) * 0x1p-53;
}

static int64_t clock_of(const rank *r, int64_t true_time)
{
    return true_time + r->offset + (int64_t)llround(r->drift * (double)(true_time - truth_start));
}

static void add_between(stk__builder *b, uint32_t track, const rank *r, int64_t start, int64_t end, const char *name,
                        const char *category)
{
    const int64_t from = clock_of(r, start), to = clock_of(r, end);
    stk__builder_slice(b, track, from, to - from, stk__builder_str(b, name), stk__builder_str(b, category), -1);
}

static void add_collectives(stk__builder *b, uint32_t cpu, uint32_t gpu, const rank *r, uint64_t seed, int round,
                            int64_t at)
{
    static const char *const names[] = {"ncclDevKernel_AllReduce_Sum_f32", "ncclDevKernel_AllGather", "barrier"};
    for (int k = 0; k < 3; k++) {
        const uint64_t n = (uint64_t)round * 3 + (uint64_t)k;
        const int64_t end =
            at + 20000000 + k * 9000000 + (int64_t)(3000000 * uniform(7, n)); /* the same on all ranks */
        const int64_t late = (int64_t)((double)r->jitter * (uniform(seed, 2 * n) - 0.5));
        const int64_t begin =
            end - 1000000 - (int64_t)(2000000 * uniform(seed, 2 * n + 1)); /* ranks wait for the last */
        if (round < r->missing_first || (r->missing_every && stk__mix(seed, n + 99) % (uint64_t)r->missing_every == 0))
            continue;
        add_between(b, gpu, r, begin, end + late, names[k], "kernel");
        if (r->launches) /* has the name of a collective, but ends when it likes */
            add_between(b, cpu, r, begin - 4000000, begin - 4000000 + (int64_t)(3000000 * uniform(seed, n + 500)),
                        "nccl:all_reduce", "cpu_op");
    }
}

static void add_rank(stk__builder *b, const rank *r, uint64_t seed, int rounds)
{
    char path[32];
    snprintf(path, sizeof path, "rank%d.json", (int)seed);
    stk__builder_start_file(b, path, "chrome");
    stk__trace_file *f = stk__builder_file(b);
    f->realtime_ns = r->realtime ? r->realtime : STK__NO_NUMBER;
    f->clock = r->clock;
    if (r->host)
        stk__builder_fact(b, stk__builder_str(b, "hostname"), stk__builder_str(b, r->host));
    const uint32_t process = stk__builder_process(b, 100, 0);
    const uint32_t cpu = stk__builder_thread_track(b, stk__builder_thread(b, process, 1, 0));
    const uint32_t gpu = stk__builder_thread_track(b, stk__builder_thread(b, process, 2, 0));
    int64_t now = truth_start;
    for (int round = 0; round < rounds; round++) {
        const int64_t length = 50000000 + (int64_t)(10000000 * uniform(3, (uint64_t)round));
        const int64_t late = (int64_t)((double)r->step_jitter * uniform(seed + 50, (uint64_t)round));
        char name[40];
        snprintf(name, sizeof name, "ProfilerStep#%d", round);
        if (!r->no_steps)
            add_between(b, cpu, r, now + late, now + length, name, "user_annotation");
        else
            add_between(b, cpu, r, now + late, now + length / 3, "work", "cpu_op");
        if (!r->no_collectives)
            add_collectives(b, cpu, gpu, r, seed, round, now);
        now += length;
    }
}

static stk__trace *make(const rank *ranks, size_t count, int rounds)
{
    stk__builder *b = NULL;
    stk__trace *t = NULL;
    const stk__trace_options options = {0};
    assert_int_equal(stk__builder_new(&options, &b, NULL), STK_OK);
    for (size_t i = 0; i < count; i++)
        add_rank(b, &ranks[i], i, rounds);
    assert_int_equal(stk__builder_finish(b, &t, NULL), STK_OK);
    return t;
}

static stk__merge find(const stk__trace *t, stk__align align)
{
    stk__merge m = {0};
    const stk__merge_options options = {.align = align};
    assert_int_equal(stk__merge_find(t, &options, &m, NULL), STK_OK);
    return m;
}

/* By how much the file's clock, moved, misses the reference's at a true time. */
static double miss(const rank *reference, const rank *r, const stk__merge_file *f, int64_t true_time)
{
    const int64_t seen = clock_of(r, true_time);
    const double moved = (double)(seen + f->retime.shift_ns - clock_of(reference, true_time));
    return moved + f->retime.drift * (double)(seen - f->retime.origin_ns);
}

static void assert_within(const rank *reference, const rank *r, const stk__merge_file *f, double most)
{
    static const int64_t times[] = {0, 5, 10};
    for (size_t i = 0; i < STK_COUNT(times); i++) {
        const double off = miss(reference, r, f, truth_start + times[i] * SECOND);
        if (!(fabs(off) <= most))
            fail_msg("%.0f ns off after %d s, wanted at most %.0f", off, (int)times[i], most);
    }
}

/* The case of the field: 11.56 s between the raw clocks, of which 1.6 ms are real. */
static void merge_finds_a_large_offset_from_collectives(void **state)
{
    const rank ranks[] = {
        {.jitter = 10000}, {.jitter = 10000, .offset = 11560000000 + 1600000}, {.jitter = 10000, .offset = -77}};
    stk__trace *t = make(ranks, 3, 200);
    stk__merge m = find(t, STK__ALIGN_AUTO);
    assert_int_equal(m.files[0].by, STK__ALIGNED_REFERENCE);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(m.files[i].by, STK__ALIGNED_COLLECTIVES);
        assert_true(m.files[i].matched > 550 && m.files[i].shared == 600);
        assert_true(m.files[i].error_ns > 0 && m.files[i].error_ns < 30000);
        assert_within(&ranks[0], &ranks[i], &m.files[i], (double)m.files[i].error_ns);
        assert_within(&ranks[0], &ranks[i], &m.files[i], 2000);
        assert_true(m.files[i].retime.drift == 0);
        assert_false(m.files[i].ambiguous);
    }
    stk__merge_clear(&m);
    stk__trace_free(t);
}

static void merge_takes_out_a_drift(void **state)
{
    const rank ranks[] = {{.jitter = 10000}, {.jitter = 10000, .offset = -5 * (int64_t)SECOND, .drift = 20e-6}};
    stk__trace *t = make(ranks, 2, 200);
    stk__merge m = find(t, STK__ALIGN_AUTO);
    assert_true(fabs(m.files[1].retime.drift + 20e-6) < 1e-6);
    assert_within(&ranks[0], &ranks[1], &m.files[1], 5000);
    assert_true(m.files[1].error_ns < 30000);
    assert_int_equal(stk__merge_apply(t, &m, NULL), STK_OK);
    /* Rows stay in order, and what was nested stays nested. */
    const stk__slices *s = &t->slices;
    for (size_t i = 0; i < s->count; i++) {
        assert_true(s->dur[i] >= 0);
        if (i && s->track[i] == s->track[i - 1])
            assert_true(s->ts[i] > s->ts[i - 1] || (s->ts[i] == s->ts[i - 1] && s->dur[i] <= s->dur[i - 1]));
        const uint32_t p = s->parent[i];
        if (p != STK__NONE)
            assert_true(s->ts[p] <= s->ts[i] && s->ts[p] + s->dur[p] >= s->ts[i] + s->dur[i]);
    }
    stk__merge_clear(&m);
    stk__trace_free(t);
}

static void merge_bears_missing_events(void **state)
{
    const rank ranks[] = {{.jitter = 10000, .missing_every = 13},
                          {.jitter = 10000, .offset = 3 * (int64_t)SECOND, .missing_every = 7},
                          {.jitter = 10000, .offset = -2 * (int64_t)SECOND, .missing_first = 6, .no_steps = true},
                          {.jitter = 10000, .offset = 123456789, .missing_every = 5, .launches = true, .drift = -8e-6}};
    stk__trace *t = make(ranks, 4, 200);
    stk__merge m = find(t, STK__ALIGN_COLLECTIVES);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(m.files[i].by, STK__ALIGNED_COLLECTIVES);
        assert_within(&ranks[0], &ranks[i], &m.files[i], 6000);
    }
    stk__merge_clear(&m);
    stk__trace_free(t);
}

/* Without steps to help, only what the collectives themselves tell. */
static void merge_without_steps_finds_the_lag(void **state)
{
    const rank ranks[] = {
        {.jitter = 10000, .no_steps = true},
        {.jitter = 10000, .no_steps = true, .offset = 40 * (int64_t)SECOND, .missing_first = 5, .launches = true}};
    stk__trace *t = make(ranks, 2, 150);
    stk__merge m = find(t, STK__ALIGN_AUTO);
    assert_int_equal(m.files[1].by, STK__ALIGNED_COLLECTIVES);
    assert_within(&ranks[0], &ranks[1], &m.files[1], 5000);
    stk__merge_clear(&m);
    stk__trace_free(t);
}

static void merge_of_a_rank_without_collectives_uses_steps(void **state)
{
    const rank ranks[] = {{.jitter = 10000}, {.no_collectives = true, .offset = 11561600000, .step_jitter = 400000}};
    stk__trace *t = make(ranks, 2, 100);
    stk__merge m = find(t, STK__ALIGN_AUTO);
    assert_int_equal(m.files[1].by, STK__ALIGNED_STEPS);
    assert_int_equal(m.files[1].matched, 100);
    assert_true(m.files[1].error_ns >= 200000);
    assert_within(&ranks[0], &ranks[1], &m.files[1], (double)m.files[1].error_ns);
    stk__merge_clear(&m);
    stk__trace_free(t);
}

static void merge_prefers_a_clock_that_is_the_same(void **state)
{
    const rank ranks[] = {{.jitter = 10000, .clock = STK__CLOCK_MONOTONIC, .host = "a"},
                          {.jitter = 900000, .clock = STK__CLOCK_MONOTONIC, .host = "a", .offset = 0},
                          {.jitter = 10000, .clock = STK__CLOCK_MONOTONIC, .host = "b", .offset = 555555555}};
    stk__trace *t = make(ranks, 3, 100);
    stk__merge m = find(t, STK__ALIGN_AUTO);
    assert_int_equal(m.files[1].by, STK__ALIGNED_SAME_CLOCK);
    assert_int_equal(m.files[1].retime.shift_ns, 0); /* exactly */
    assert_int_equal(m.files[1].error_ns, 0);
    assert_int_equal(m.files[2].by, STK__ALIGNED_COLLECTIVES);
    assert_within(&ranks[0], &ranks[2], &m.files[2], 5000);
    stk__merge_clear(&m);
    stk__trace_free(t);
}

/* Workers of a DataLoader: no events in common, the same clock by its boot time. */
static void merge_knows_a_host_by_its_boot_time(void **state)
{
    const rank ranks[] = {
        {.clock = STK__CLOCK_MONOTONIC, .realtime = 1700000000000000000},
        {.clock = STK__CLOCK_MONOTONIC, .realtime = 1700000000000004000, .no_collectives = true, .no_steps = true},
        {.clock = STK__CLOCK_MONOTONIC, .realtime = 1700000500000000000, .no_collectives = true, .no_steps = true}};
    stk__trace *t = make(ranks, 3, 20);
    stk__merge m = find(t, STK__ALIGN_AUTO);
    assert_int_equal(m.files[1].by, STK__ALIGNED_SAME_CLOCK);
    assert_int_equal(m.files[1].retime.shift_ns, 0);
    assert_int_equal(m.files[2].by, STK__ALIGNED_REALTIME);
    assert_true(m.files[2].retime.shift_ns == 500 * (int64_t)SECOND);
    assert_int_equal(m.files[2].error_ns, -1);
    stk__merge_clear(&m);
    stk__trace_free(t);
}

static void merge_does_not_guess(void **state)
{
    const rank ranks[] = {{.jitter = 10000}, {.no_collectives = true, .no_steps = true, .offset = 1234}};
    stk__trace *t = make(ranks, 2, 30);
    stk__merge m = find(t, STK__ALIGN_AUTO);
    assert_int_equal(m.files[1].by, STK__ALIGNED_NOT);
    assert_int_equal(m.files[1].retime.shift_ns, 0);
    assert_non_null(m.files[1].why);
    stk__merge_clear(&m);
    m = find(t, STK__ALIGN_NONE);
    assert_int_equal(m.files[0].by, STK__ALIGNED_KEPT);
    stk__merge_clear(&m);
    stk__trace_free(t);
}

/* Two files whose collectives have nothing to do with each other. */
static void merge_refuses_times_that_do_not_line_up(void **state)
{
    stk__builder *b = NULL;
    stk__trace *t = NULL;
    const stk__trace_options options = {0};
    assert_int_equal(stk__builder_new(&options, &b, NULL), STK_OK);
    for (uint64_t file = 0; file < 2; file++) {
        stk__builder_start_file(b, file ? "b.json" : "a.json", "chrome");
        stk__builder_file(b)->realtime_ns = STK__NO_NUMBER;
        const uint32_t track =
            stk__builder_thread_track(b, stk__builder_thread(b, stk__builder_process(b, 1, 0), 1, 0));
        int64_t now = 0;
        for (uint64_t i = 0; i < 300; i++) {
            now += 1000000 + (int64_t)(20000000 * uniform(file + 1, i));
            stk__builder_slice(b, track, now, 1000, stk__builder_str(b, "all_reduce"), 0, -1);
        }
    }
    assert_int_equal(stk__builder_finish(b, &t, NULL), STK_OK);
    stk__merge m = find(t, STK__ALIGN_COLLECTIVES);
    assert_int_equal(m.files[1].by, STK__ALIGNED_NOT);
    assert_non_null(strstr(m.files[1].why, "do not line up"));
    stk__merge_clear(&m);
    stk__trace_free(t);
}

/* Evenly spaced events fit themselves one further as well: that must be said. */
static void merge_says_when_it_is_ambiguous(void **state)
{
    stk__builder *b = NULL;
    stk__trace *t = NULL;
    const stk__trace_options options = {0};
    assert_int_equal(stk__builder_new(&options, &b, NULL), STK_OK);
    for (int file = 0; file < 2; file++) {
        stk__builder_start_file(b, file ? "b.json" : "a.json", "chrome");
        stk__builder_file(b)->realtime_ns = STK__NO_NUMBER;
        const uint32_t track =
            stk__builder_thread_track(b, stk__builder_thread(b, stk__builder_process(b, 1, 0), 1, 0));
        for (int64_t i = file; i < 300; i++)
            stk__builder_slice(b, track,
                               i * 10000000 + file * 77 + (int64_t)(stk__mix((uint64_t)file, (uint64_t)i) % 3000), 1000,
                               stk__builder_str(b, "all_reduce"), 0, -1);
    }
    assert_int_equal(stk__builder_finish(b, &t, NULL), STK_OK);
    stk__merge m = find(t, STK__ALIGN_AUTO);
    assert_int_equal(m.files[1].by, STK__ALIGNED_COLLECTIVES);
    assert_true(m.files[1].ambiguous);
    const double rival = fabs((double)(m.files[1].other_shift_ns - m.files[1].retime.shift_ns));
    assert_true(rival > 9000000 && rival < 100000000);
    stk__merge_clear(&m);
    stk__trace_free(t);
}

static void merge_takes_given_offsets(void **state)
{
    const rank ranks[] = {{.jitter = 10000}, {.jitter = 10000, .offset = 5000}, {.jitter = 10000, .offset = 7000}};
    stk__trace *t = make(ranks, 3, 50);
    const stk__given_offset offsets[] = {{1, -4000}, {0, 1000000}};
    const stk__merge_options options = {.offsets = offsets, .offset_count = 2};
    stk__merge m = {0};
    assert_int_equal(stk__merge_find(t, &options, &m, NULL), STK_OK);
    assert_int_equal(m.files[0].by, STK__ALIGNED_GIVEN);
    assert_int_equal(m.files[1].by, STK__ALIGNED_GIVEN);
    assert_int_equal(m.files[1].retime.shift_ns, -4000);
    assert_int_equal(m.files[2].by, STK__ALIGNED_COLLECTIVES);
    assert_true(labs((long)(m.files[2].retime.shift_ns - (1000000 - 7000))) < 3000); /* the reference moves as well */
    stk__merge_clear(&m);
    const stk__given_offset wrong = {9, 1};
    const stk__merge_options bad = {.offsets = &wrong, .offset_count = 1};
    assert_int_equal(stk__merge_find(t, &bad, &m, NULL), STK_INVALID);
    stk__trace_free(t);
}

/* A file that shares nothing with the reference, but does with another. */
static void merge_goes_through_other_files(void **state)
{
    const rank ranks[] = {{.no_collectives = true, .step_jitter = 1000},
                          {.jitter = 10000, .offset = 1000000000, .step_jitter = 1000},
                          {.jitter = 10000, .offset = 4000000000, .no_steps = true}};
    stk__trace *t = make(ranks, 3, 100);
    stk__merge m = find(t, STK__ALIGN_AUTO);
    assert_int_equal(m.files[1].by, STK__ALIGNED_STEPS);
    assert_int_equal(m.files[2].by, STK__ALIGNED_COLLECTIVES);
    assert_int_equal(m.files[2].to, 1);
    assert_within(&ranks[0], &ranks[2], &m.files[2], 5000);
    assert_true(m.files[2].error_ns > m.files[1].error_ns);
    stk__merge_clear(&m);
    stk__trace_free(t);
}

static void shift_moves_all_times_of_one_file(void **state)
{
    const rank ranks[] = {{.jitter = 10000, .realtime = 5000}, {.jitter = 10000, .realtime = 6000}};
    stk__trace *t = make(ranks, 2, 5);
    const int64_t start = t->start_ns, end = t->end_ns;
    assert_int_equal(stk__trace_shift(t, 1, 100000 * (int64_t)SECOND, NULL), STK_OK);
    assert_int_equal(t->start_ns, start);
    assert_int_equal(t->end_ns, end + 100000 * (int64_t)SECOND);
    assert_int_equal(t->files[0].shift_ns, 0);
    assert_int_equal(t->files[1].shift_ns, 100000 * (int64_t)SECOND);
    assert_int_equal(t->files[1].realtime_ns, 6000 - 100000 * (int64_t)SECOND);
    for (size_t i = 0; i < t->slices.count; i++) {
        const bool moved = t->tracks[t->slices.track[i]].file == 1;
        assert_int_equal(t->slices.ts[i] > 90000 * (int64_t)SECOND, moved);
    }
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__trace_shift(t, 0, INT64_MAX - 5, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "rank0.json"));
    assert_int_equal(t->start_ns, start); /* nothing was changed */
    assert_int_equal(stk__trace_shift(t, 2, 0, NULL), STK_INVALID);
    assert_int_equal(stk__trace_shift(t, 1, -100000 * (int64_t)SECOND, NULL), STK_OK);
    assert_int_equal(t->end_ns, end);
    assert_int_equal(t->files[1].shift_ns, 0);
    stk__trace_free(t);
}

static void shift_leaves_samples_without_time_alone(void **state)
{
    stk__builder *b = NULL;
    stk__trace *t = NULL;
    const stk__trace_options options = {0};
    assert_int_equal(stk__builder_new(&options, &b, NULL), STK_OK);
    stk__builder_start_file(b, "p", "collapsed");
    const uint32_t track = stk__builder_thread_track(b, stk__builder_thread(b, stk__builder_process(b, 1, 0), 1, 0));
    stk__builder_sample(b, track, STK__NO_TIME, STK__NONE, 1, 0);
    stk__builder_sample(b, track, 50, STK__NONE, 1, 0);
    const uint32_t counter = stk__builder_counter_track(b, STK__NONE, STK__NONE, stk__builder_str(b, "c"));
    stk__builder_counter(b, counter, 70, 1);
    assert_int_equal(stk__builder_finish(b, &t, NULL), STK_OK);
    assert_int_equal(stk__trace_shift(t, 0, 1000, NULL), STK_OK);
    int without = 0;
    for (size_t i = 0; i < t->samples.count; i++) {
        without += t->samples.ts[i] == STK__NO_TIME;
        assert_true(t->samples.ts[i] == STK__NO_TIME || t->samples.ts[i] == 1050);
    }
    assert_int_equal(without, 1);
    assert_int_equal(t->counters.ts[0], 1070);
    assert_int_equal(t->start_ns, 1050);
    assert_int_equal(t->end_ns, 1070);
    stk__trace_free(t);
}

static void merge_of_hostile_times_stays_defined(void **state)
{
    static const int64_t values[] = {INT64_MIN + 1, -9000000000000000000, -1, 0, 1, 9000000000000000000, INT64_MAX - 1};
    stk__builder *b = NULL;
    stk__trace *t = NULL;
    const stk__trace_options options = {0};
    assert_int_equal(stk__builder_new(&options, &b, NULL), STK_OK);
    for (size_t file = 0; file < STK_COUNT(values); file++) {
        char path[8] = {(char)('a' + file)};
        stk__builder_start_file(b, path, "chrome");
        stk__builder_file(b)->realtime_ns = file % 2 ? values[file] : STK__NO_NUMBER;
        const uint32_t track =
            stk__builder_thread_track(b, stk__builder_thread(b, stk__builder_process(b, 1, 0), 1, 0));
        for (size_t i = 0; i < STK_COUNT(values); i++) {
            for (size_t k = 0; k < 3; k++) {
                stk__builder_slice(b, track, values[(i * k + file) % STK_COUNT(values)], (int64_t)i,
                                   stk__builder_str(b, "barrier"), 0, -1);
                stk__builder_slice(b, track, values[i], 1, stk__builder_str(b, "ProfilerStep#1"), 0, -1);
            }
        }
    }
    assert_int_equal(stk__builder_finish(b, &t, NULL), STK_OK);
    for (int align = STK__ALIGN_AUTO; align <= STK__ALIGN_NONE; align++) {
        stk__merge m = find(t, (stk__align)align);
        const int64_t start = t->start_ns;
        const stk_status status = stk__merge_apply(t, &m, NULL);
        assert_true(status == STK_OK || (status == STK_INVALID && t->start_ns == start));
        stk__merge_clear(&m);
    }
    stk__trace_free(t);
}

static void merge_without_memory_fails_cleanly(void **state)
{
    const rank ranks[] = {{.jitter = 10000}, {.jitter = 10000, .offset = 5000, .launches = true}};
    stk__trace *t = make(ranks, 2, 12);
    const stk__merge_options options = {.align = STK__ALIGN_AUTO};
    stk_status status = STK_NOMEM;
    int failures = 0;
    for (uint64_t n = 1; status != STK_OK && n < 10000; n++) {
        stk__merge m = {0};
        stk__alloc_fail_at(n, false);
        status = stk__merge_find(t, &options, &m, NULL);
        stk__alloc_fail_at(0, false);
        if (status == STK_OK)
            stk__merge_clear(&m);
        else
            assert_int_equal(status, STK_NOMEM);
        failures += status != STK_OK;
    }
    assert_int_equal(status, STK_OK);
    assert_true(failures > 10);
    stk__trace_free(t);
}

static void collectives_are_known_by_their_names(void **state)
{
    static const char *const yes[] = {"ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                                      "c10d::allreduce_",
                                      "nccl:all_gather",
                                      "all-reduce.12",
                                      "torch.distributed.barrier",
                                      "reduce_scatter_tensor",
                                      "ncclKernel_SendRecv"};
    static const char *const no[] = {"aten::mm", "reduce", "", "gather", "Memcpy HtoD", "broadcast_to"};
    for (size_t i = 0; i < STK_COUNT(yes); i++)
        assert_true(stk__is_collective(yes[i]));
    for (size_t i = 0; i < STK_COUNT(no); i++)
        assert_false(stk__is_collective(no[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merge_finds_a_large_offset_from_collectives),
        cmocka_unit_test(merge_takes_out_a_drift),
        cmocka_unit_test(merge_bears_missing_events),
        cmocka_unit_test(merge_without_steps_finds_the_lag),
        cmocka_unit_test(merge_of_a_rank_without_collectives_uses_steps),
        cmocka_unit_test(merge_prefers_a_clock_that_is_the_same),
        cmocka_unit_test(merge_knows_a_host_by_its_boot_time),
        cmocka_unit_test(merge_does_not_guess),
        cmocka_unit_test(merge_refuses_times_that_do_not_line_up),
        cmocka_unit_test(merge_says_when_it_is_ambiguous),
        cmocka_unit_test(merge_takes_given_offsets),
        cmocka_unit_test(merge_goes_through_other_files),
        cmocka_unit_test(shift_moves_all_times_of_one_file),
        cmocka_unit_test(shift_leaves_samples_without_time_alone),
        cmocka_unit_test(merge_of_hostile_times_stays_defined),
        cmocka_unit_test(merge_without_memory_fails_cleanly),
        cmocka_unit_test(collectives_are_known_by_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
