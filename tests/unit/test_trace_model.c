/* The trace model: what the builder makes of events in any order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "trace/builder.h"
#include "trace/store.h"

static stk__builder *builder(const stk__trace_options *options)
{
    stk__builder *b = NULL;
    assert_int_equal(stk__builder_new(options, &b, NULL), STK_OK);
    stk__builder_start_file(b, "run.json", "chrome");
    return b;
}

static uint32_t thread_track(stk__builder *b, int64_t pid, int64_t tid)
{
    return stk__builder_thread_track(b, stk__builder_thread(b, stk__builder_process(b, pid, 0), tid, 0));
}

static stk__trace *finish(stk__builder *b)
{
    stk__trace *t = NULL;
    assert_int_equal(stk__builder_finish(b, &t, NULL), STK_OK);
    assert_true(stk__trace_is_sound(t));
    return t;
}

static uint64_t noted(const stk__trace *t, stk__trace_reason reason)
{
    uint64_t count = 0;
    for (size_t i = 0; i < t->note_count; i++)
        count += t->notes[i].reason == (uint32_t)reason ? t->notes[i].count : 0;
    return count;
}

static const char *name_of(const stk__trace *t, uint32_t slice)
{
    return stk__trace_str(t, t->slices.name[slice]);
}

static uint32_t find(const stk__trace *t, const char *name)
{
    for (uint32_t i = 0; i < t->slices.count; i++) {
        if (strcmp(name_of(t, i), name) == 0)
            return i;
    }
    return STK__NONE;
}

static void slices_are_sorted_by_track_and_time_with_parents_and_depth(void **state)
{
    (void)state;
    stk__builder *b = builder(NULL);
    const uint32_t main_track = thread_track(b, 1, 1), other = thread_track(b, 1, 2);
    const stk__string inner = stk__builder_str(b, "inner"), outer = stk__builder_str(b, "outer");
    stk__builder_slice(b, main_track, 20, 10, inner, 0, 0);
    stk__builder_slice(b, other, 0, 5, inner, 0, 0);
    stk__builder_slice(b, main_track, 10, 30, outer, 0, 0);
    stk__builder_slice(b, main_track, 10, 5, inner, 0, 0);
    stk__trace *t = finish(b);
    assert_int_equal(t->slices.count, 4);
    const uint32_t first = t->tracks[main_track].first_slice;
    assert_int_equal(t->tracks[main_track].slice_count, 3);
    assert_string_equal(name_of(t, first), "outer");
    assert_int_equal(t->slices.parent[first], STK__NONE);
    assert_int_equal(t->slices.ts[first + 1], 10);
    assert_int_equal(t->slices.parent[first + 1], first);
    assert_int_equal(t->slices.parent[first + 2], first);
    assert_int_equal(t->slices.depth[first + 2], 1);
    assert_int_equal(t->start_ns, 0);
    assert_int_equal(t->end_ns, 40);
    assert_int_equal(t->note_count, 0);
    stk__trace_free(t);
}

static void overlapping_slices_go_to_lanes_and_are_counted(void **state)
{
    (void)state;
    stk__builder *b = builder(NULL);
    const uint32_t track = thread_track(b, 1, 7);
    const stk__string name = stk__builder_str(b, "kernel");
    stk__builder_slice(b, track, 0, 10, name, 0, 0);
    stk__builder_slice(b, track, 5, 10, name, 0, 0);
    stk__builder_slice(b, track, 7, 10, name, 0, 0);
    stk__builder_slice(b, track, 15, 5, name, 0, 0);
    stk__trace *t = finish(b);
    assert_int_equal(t->slices.count, 4);
    assert_int_equal(t->track_count, 3);
    assert_int_equal(noted(t, STK__REASON_OVERLAP), 2);
    assert_int_equal(t->tracks[track].slice_count, 2);
    assert_int_equal(t->tracks[1].parent, track);
    assert_int_equal(t->tracks[1].lane, 1);
    assert_int_equal(t->tracks[2].lane, 2);
    stk__trace_free(t);
}

static void any_number_of_overlaps_finds_lanes(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    stk__builder *b = builder(NULL);
    const uint32_t track = thread_track(b, 1, 7);
    for (int i = 0; i < COUNT; i++)
        stk__builder_slice(b, track, i, COUNT, stk__builder_str(b, "x"), 0, 0);
    stk__trace *t = finish(b);
    assert_int_equal(t->slices.count, COUNT);
    assert_int_equal(noted(t, STK__REASON_OVERLAP), COUNT - 1);
    for (size_t i = 0; i < t->slices.count; i++)
        assert_int_equal(t->slices.parent[i], STK__NONE);
    stk__trace_free(t);
}

static void overlaps_within_the_rounding_of_times_nest(void **state)
{
    (void)state;
    stk__builder *b = builder(NULL);
    stk__builder_file(b)->resolution_ns = 1000;
    const uint32_t track = thread_track(b, 1, 1);
    const stk__string outer = stk__builder_str(b, "outer"), inner = stk__builder_str(b, "inner");
    stk__builder_slice(b, track, 100000, 6000, outer, 0, 0);
    stk__builder_slice(b, track, 101000, 6000, inner, 0, 0); /* ends 1 us late */
    stk__trace *t = finish(b);
    assert_int_equal(noted(t, STK__REASON_OVERLAP), 0);
    assert_int_equal(noted(t, STK__REASON_ROUNDED), 1);
    assert_int_equal(t->slices.parent[find(t, "inner")], find(t, "outer"));
    assert_int_equal(t->slices.dur[find(t, "inner")], 6000);
    stk__trace_free(t);
}

static void rounded_overlaps_do_not_chain(void **state)
{
    (void)state;
    stk__builder *b = builder(NULL);
    stk__builder_file(b)->resolution_ns = 1000;
    const uint32_t track = thread_track(b, 1, 1);
    for (int i = 0; i < 30; i++) /* each sticks out of the one before by 1 us */
        stk__builder_slice(b, track, i * 1000, 10000, 0, 0, 0);
    stk__trace *t = finish(b);
    for (size_t i = 0; i < t->slices.count; i++) {
        const uint32_t parent = t->slices.parent[i];
        if (parent != STK__NONE)
            assert_true(t->slices.ts[parent] + t->slices.dur[parent] + 1000 >= t->slices.ts[i] + t->slices.dur[i]);
        assert_true(t->slices.depth[i] < 3);
    }
    stk__trace_free(t);
}

static void flows_behind_deep_nesting_are_bound(void **state)
{
    (void)state;
    enum { DEPTH = 200000 };
    stk__builder *b = builder(NULL);
    const uint32_t track = thread_track(b, 1, 1);
    for (int i = 0; i < DEPTH; i++)
        stk__builder_slice(b, track, i, 2 * DEPTH - 2 * i, 0, 0, 0);
    for (int i = 0; i < DEPTH; i++)
        stk__builder_flow(b, track, 3 * DEPTH - i, STK__FLOW_START, 0, 0, 0);
    stk__builder_flow(b, track, DEPTH + 10, STK__FLOW_STEP, 0, 0, 0);
    stk__trace *t = finish(b);
    assert_int_equal(noted(t, STK__REASON_NO_FLOW_SLICE), DEPTH);
    assert_int_equal(t->slices.depth[DEPTH - 1], UINT16_MAX);
    stk__trace_free(t);
}

static void begins_and_ends_pair_by_name_and_by_nesting(void **state)
{
    (void)state;
    stk__builder *b = builder(NULL);
    const uint32_t track = thread_track(b, 1, 1);
    const stk__string a = stk__builder_str(b, "a"), c = stk__builder_str(b, "c");
    stk__builder_begin(b, track, 0, a, 0);
    stk__builder_begin(b, track, 2, c, 0);
    stk__builder_end(b, track, 5, 0); /* the innermost: c */
    stk__builder_end(b, track, 9, a);
    stk__builder_begin(b, track, 10, a, 0);
    stk__builder_begin(b, track, 12, c, 0);
    stk__builder_end(b, track, 15, a); /* not nested: a ends before c */
    stk__builder_end(b, track, 18, c);
    stk__trace *t = finish(b);
    assert_int_equal(t->slices.count, 4);
    assert_int_equal(t->slices.dur[0], 9);
    assert_int_equal(t->slices.dur[1], 3);
    assert_int_equal(t->slices.dur[2], 5);
    assert_int_equal(noted(t, STK__REASON_OVERLAP), 1);
    assert_int_equal(t->slices.dur[3], 6);
    assert_int_equal(t->slices.track[3], 1);
    stk__trace_free(t);
}

static void unpaired_begins_and_ends_are_counted_with_their_place(void **state)
{
    (void)state;
    stk__builder *b = builder(NULL);
    const uint32_t track = thread_track(b, 1, 1);
    const stk__string a = stk__builder_str(b, "a"), x = stk__builder_str(b, "x");
    stk__builder_at(b, 11);
    stk__builder_end(b, track, 1, 0);
    stk__builder_at(b, 22);
    stk__builder_begin(b, track, 5, a, 0);
    stk__builder_at(b, 33);
    stk__builder_end(b, track, 8, x);
    stk__builder_slice(b, track, 6, 94, x, 0, 44);
    stk__trace *t = finish(b);
    assert_int_equal(t->slices.count, 2);
    assert_int_equal(noted(t, STK__REASON_END_WITHOUT_BEGIN), 2);
    assert_int_equal(noted(t, STK__REASON_NO_END), 1);
    for (size_t i = 0; i < t->note_count; i++) {
        if (t->notes[i].reason == STK__REASON_END_WITHOUT_BEGIN)
            assert_int_equal(t->notes[i].offset, 11);
        if (t->notes[i].reason == STK__REASON_NO_END)
            assert_int_equal(t->notes[i].offset, 22);
    }
    const uint32_t open = find(t, "a");
    assert_int_equal(t->slices.dur[open], 95);
    assert_true(t->slices.flags[open] & STK__SLICE_UNFINISHED);
    stk__trace_free(t);
}

static void args_of_begin_and_end_are_joined(void **state)
{
    (void)state;
    stk__builder *b = builder(NULL);
    const uint32_t track = thread_track(b, 1, 1);
    const stk__string a = stk__builder_str(b, "a"), k = stk__builder_str(b, "k"), m = stk__builder_str(b, "m");
    stk__builder_arg_int(b, k, 1);
    stk__builder_arg_int(b, k, 2); /* the last counts */
    stk__builder_begin(b, track, 0, a, 0);
    stk__builder_arg_string(b, m, a);
    stk__builder_arg_uint(b, stk__builder_str(b, "big"), UINT64_MAX);
    stk__builder_arg_int(b, k, 3); /* of both, the end's */
    stk__builder_end(b, track, 4, a);
    stk__builder_slice(b, track, 10, 1, a, 0, 0);
    stk__trace *t = finish(b);
    const uint32_t row = t->slices.args[0];
    assert_int_not_equal(row, 0);
    assert_int_equal(t->args.key[row], k);
    assert_int_equal(t->args.value[row].integer, 3);
    assert_int_equal(t->args.key[row + 1], m);
    assert_int_equal(t->args.type[row + 2], STK__ARG_JSON | STK__ARG_LAST);
    assert_string_equal(stk__trace_str(t, (stk__string)t->args.value[row + 2].string), "18446744073709551615");
    assert_int_equal(t->slices.args[1], 0);
    assert_int_equal(noted(t, STK__REASON_DUPLICATE_KEY), 2);
    assert_int_equal(t->args.count, 4); /* and the unused row 0: no sets are left that no slice has */
    stk__trace_free(t);
}

static void times_out_of_range_are_left_out_and_durations_cut(void **state)
{
    (void)state;
    stk__builder *b = builder(NULL);
    const uint32_t track = thread_track(b, 1, 1);
    const stk__string a = stk__builder_str(b, "a");
    stk__builder_slice(b, track, INT64_MIN, 5, a, 0, 0);
    stk__builder_slice(b, track, INT64_MAX, INT64_MAX, a, 0, 0);
    stk__builder_slice(b, track, STK__TIME_MAX, INT64_MAX, a, 0, 0);
    stk__builder_slice(b, track, -STK__TIME_MAX, INT64_MAX, a, 0, 0);
    stk__builder_slice(b, track, 5, -3, a, 0, 0);
    stk__builder_begin(b, track, -STK__TIME_MAX, a, 0);
    stk__builder_end(b, track, STK__TIME_MAX, a);
    stk__builder_slice(b, 99, 5, 3, a, 0, 0);
    stk__trace *t = finish(b);
    assert_int_equal(t->slices.count, 4);
    assert_int_equal(noted(t, STK__REASON_NO_TIME), 2);
    assert_int_equal(noted(t, STK__REASON_LONG_DURATION), 2);
    assert_int_equal(noted(t, STK__REASON_NEGATIVE_DURATION), 1);
    assert_int_equal(noted(t, STK__REASON_BAD_REFERENCE), 1);
    stk__trace_free(t);
}

static void flows_bind_to_slices_around_or_behind(void **state)
{
    (void)state;
    stk__builder *b = builder(NULL);
    const uint32_t host = thread_track(b, 1, 1), gpu = thread_track(b, 0, 7);
    const stk__string launch = stk__builder_str(b, "launch"), kernel = stk__builder_str(b, "kernel"),
                      id = stk__builder_str(b, "17"), cat = stk__builder_str(b, "ac2g");
    stk__builder_slice(b, host, 10, 5, launch, 0, 0);
    stk__builder_slice(b, gpu, 30, 8, kernel, 0, 0);
    stk__builder_flow(b, gpu, 30, STK__FLOW_END | STK__FLOW_ENCLOSING, cat, cat, id);
    stk__builder_flow(b, host, 12, STK__FLOW_START, cat, cat, id);
    stk__builder_flow(b, gpu, 25, STK__FLOW_END, cat, cat, stk__builder_str(b, "18")); /* no start; binds to the next */
    stk__builder_flow(b, gpu, 99, STK__FLOW_END, cat, cat, stk__builder_str(b, "19")); /* nothing behind it */
    stk__trace *t = finish(b);
    assert_int_equal(t->points.count, 4);
    assert_int_equal(t->flows.count, 1);
    assert_string_equal(name_of(t, t->flows.out[0]), "launch");
    assert_string_equal(name_of(t, t->flows.in[0]), "kernel");
    assert_int_equal(noted(t, STK__REASON_NO_FLOW_START), 1);
    assert_int_equal(noted(t, STK__REASON_NO_FLOW_SLICE), 1);
    stk__trace_free(t);
}

/*
 * Slices "0", "1", ... of 5 ns every 10 ns, each on a thread of its own. `points` are letters and digits: s2 is a start
 * in slice 2, t a step, f an end, in the order of the file. The arrows come out as "0>1 0>2 ".
 */
static stk__trace *flow_of(const char *points, char *arrows, size_t size)
{
    stk__builder *b = builder(NULL);
    uint32_t tracks[10];
    for (int i = 0; i < 10; i++) {
        const char name[2] = {(char)('0' + i), 0};
        tracks[i] = thread_track(b, 1, i + 1);
        stk__builder_slice(b, tracks[i], 10 * i, 5, stk__builder_str(b, name), 0, 0);
    }
    for (const char *p = points; *p; p += 2) {
        const unsigned phase = *p == 's' ? STK__FLOW_START : *p == 't' ? STK__FLOW_STEP : STK__FLOW_END;
        stk__builder_flow(b, tracks[p[1] - '0'], 10 * (p[1] - '0'), phase | STK__FLOW_ENCLOSING, 0, 0,
                          stk__builder_str(b, "1"));
    }
    stk__trace *t = finish(b);
    stk__text text;
    stk__text_fixed(&text, arrows, size);
    for (size_t i = 0; i < t->flows.count; i++)
        stk__text_printf(&text, "%s>%s ", name_of(t, t->flows.out[i]), name_of(t, t->flows.in[i]));
    return t;
}

static void flows_go_from_the_start_to_each_end_and_along_steps(void **state)
{
    static const struct {
        const char *points, *arrows;
        unsigned no_start, again;
    } rows[] = {
        {"s0f2f3f4", "0>2 0>3 0>4 ", 0, 0},       /* a launch of a graph: not a chain */
        {"f4f3f2s0", "0>2 0>3 0>4 ", 0, 0},       /* whatever the order in the file */
        {"s0t1t2f3f4", "0>1 1>2 2>3 2>4 ", 0, 0}, /* steps take it along */
        {"f1f2", "", 2, 0},                       /* ends without a start are not joined to each other */
        {"t1t2f3", "", 3, 0},
        {"f1s2f3", "2>3 ", 1, 0},
        {"s0f1s2f3", "0>1 2>3 ", 0, 0}, /* an id that is used again */
        {"s0s2f3f4", "0>3 0>4 ", 0, 1}, /* the first start counts, as in Perfetto */
        {"s0t1s2f3", "0>1 1>3 ", 0, 1},
        {"s0", "", 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        char arrows[128] = "";
        stk__trace *t = flow_of(rows[i].points, arrows, sizeof arrows);
        assert_string_equal(arrows, rows[i].arrows);
        assert_int_equal(noted(t, STK__REASON_NO_FLOW_START), rows[i].no_start);
        assert_int_equal(noted(t, STK__REASON_FLOW_AGAIN), rows[i].again);
        stk__trace_free(t);
    }
}

static void flow_ends_may_stand_before_a_start_of_the_same_time(void **state)
{
    (void)state;
    stk__builder *b = builder(NULL);
    const uint32_t host = thread_track(b, 1, 1), gpu = thread_track(b, 0, 7);
    const stk__string id = stk__builder_str(b, "1");
    stk__builder_slice(b, gpu, 10, 5, stk__builder_str(b, "kernel"), 0, 0);
    stk__builder_flow(b, gpu, 10, STK__FLOW_END | STK__FLOW_ENCLOSING, 0, 0, id);
    stk__builder_slice(b, host, 10, 5, stk__builder_str(b, "launch"), 0, 0);
    stk__builder_flow(b, host, 10, STK__FLOW_START, 0, 0, id);
    stk__trace *t = finish(b);
    assert_int_equal(t->flows.count, 1);
    assert_string_equal(name_of(t, t->flows.out[0]), "launch");
    assert_string_equal(name_of(t, t->flows.in[0]), "kernel");
    assert_int_equal(noted(t, STK__REASON_NO_FLOW_START), 0);
    assert_int_equal(noted(t, STK__REASON_FLOW_AGAIN), 0);
    stk__trace_free(t);
}

/* The slice of the end began first: the arrow leaves what is earlier, as in Perfetto. */
static void flow_arrows_point_to_the_later_slice(void **state)
{
    (void)state;
    stk__builder *b = builder(NULL);
    const uint32_t x = thread_track(b, 1, 1), y = thread_track(b, 1, 2);
    stk__builder_slice(b, x, 0, 100, stk__builder_str(b, "early"), 0, 0);
    stk__builder_slice(b, y, 10, 100, stk__builder_str(b, "late"), 0, 0);
    stk__builder_flow(b, y, 20, STK__FLOW_START | STK__FLOW_ENCLOSING, 0, 0, stk__builder_str(b, "1"));
    stk__builder_flow(b, x, 30, STK__FLOW_END | STK__FLOW_ENCLOSING, 0, 0, stk__builder_str(b, "1"));
    stk__trace *t = finish(b);
    assert_int_equal(t->flows.count, 1);
    assert_string_equal(name_of(t, t->flows.out[0]), "early");
    assert_string_equal(name_of(t, t->flows.in[0]), "late");
    stk__trace_free(t);
}

static void counters_and_samples_are_sorted_by_track_and_time(void **state)
{
    (void)state;
    stk__builder *b = builder(NULL);
    const uint32_t process = stk__builder_process(b, 1, 0);
    const uint32_t x = stk__builder_counter_track(b, process, STK__NONE, stk__builder_str(b, "x"));
    const uint32_t y = stk__builder_counter_track(b, process, STK__NONE, stk__builder_str(b, "y"));
    assert_int_equal(stk__builder_counter_track(b, process, STK__NONE, stk__builder_str(b, "x")), x);
    stk__builder_counter(b, y, 5, 1.5);
    stk__builder_counter(b, x, 9, 2.5);
    stk__builder_counter(b, x, 3, 3.5);
    const uint32_t frame = stk__builder_frame(b, &(stk__trace_frame){.name = stk__builder_str(b, "main"), .line = 3});
    assert_int_equal(stk__builder_frame(b, &(stk__trace_frame){.name = stk__builder_str(b, "main"), .line = 3}), frame);
    const uint32_t site = stk__builder_callsite(b, STK__NONE, frame), deeper = stk__builder_callsite(b, site, frame);
    assert_int_equal(stk__builder_callsite(b, site, frame), deeper);
    const uint32_t track = thread_track(b, 1, 1);
    stk__builder_sample(b, track, 8, deeper, 2, 0);
    stk__builder_sample(b, track, STK__NO_TIME, site, 1, 0);
    stk__trace *t = finish(b);
    assert_int_equal(t->tracks[x].counter_count, 2);
    assert_true(t->counters.value[t->tracks[x].first_counter] == 3.5);
    assert_int_equal(t->samples.ts[0], STK__NO_TIME);
    assert_int_equal(t->samples.callsite[1], deeper);
    assert_int_equal(t->start_ns, 3);
    assert_int_equal(t->end_ns, 9);
    stk__trace_free(t);
}

static void files_keep_their_processes_apart(void **state)
{
    (void)state;
    stk__builder *b = builder(NULL);
    const uint32_t first = stk__builder_process(b, 1, 0);
    assert_int_equal(stk__builder_process(b, 1, 0), first);
    assert_int_not_equal(stk__builder_process(b, 0, stk__builder_str(b, "Spans")), first);
    stk__builder_start_file(b, "other.json", "chrome");
    assert_int_not_equal(stk__builder_process(b, 1, 0), first);
    stk__trace *t = finish(b);
    assert_int_equal(t->process_count, 3);
    assert_int_equal(t->processes[2].file, 1);
    stk__trace_free(t);
}

static void bad_utf8_is_replaced_and_noted(void **state)
{
    (void)state;
    stk__builder *b = builder(NULL);
    const stk__string s = stk__builder_text(b, "a\xff\xc3\xa4", 4, 7);
    size_t size;
    assert_string_equal(stk__builder_get(b, s, &size), "a\xef\xbf\xbd\xc3\xa4");
    assert_int_equal(size, 6);
    stk__trace *t = finish(b);
    assert_int_equal(noted(t, STK__REASON_TEXT), 1);
    assert_string_equal(stk__trace_str(t, 123456), "");
    stk__trace_free(t);
}

/* ---- against a plain judge, with and without a cap, and through the cache ---- */

enum { RANDOM_ROWS = 60000, RANDOM_TRACKS = 7 };

static stk__trace *random_trace(uint32_t seed, const stk__trace_options *options)
{
    stk__builder *b = builder(options);
    stk__string names[20];
    uint32_t tracks[RANDOM_TRACKS];
    for (int i = 0; i < 20; i++) {
        const char text[3] = {'n', (char)('a' + i), 0};
        names[i] = stk__builder_str(b, text);
    }
    for (int i = 0; i < RANDOM_TRACKS; i++)
        tracks[i] = thread_track(b, 1, i);
    for (uint64_t i = 0; i < RANDOM_ROWS; i++) {
        uint32_t r[4];
        stk__philox((uint32_t[2]){seed, 0}, (uint32_t[4]){(uint32_t)i, 0, 0, 0}, r);
        const uint32_t track = tracks[r[0] % RANDOM_TRACKS];
        stk__builder_arg_int(b, names[r[1] % 20], (int64_t)i);
        stk__builder_slice(b, track, r[2] % 1000000, r[3] % (r[1] % 5 ? 50 : 5000), names[r[1] % 20], 0, 0);
    }
    return finish(b);
}

static void check_nesting(const stk__trace *t)
{
    const stk__slices *s = &t->slices;
    for (uint32_t i = 0; i < s->count; i++) {
        /* the parent is the nearest earlier slice of the track that lasts as long */
        uint32_t parent = STK__NONE;
        for (uint32_t j = i; j-- > 0 && s->track[j] == s->track[i] && i - j < 2000;) {
            if (s->ts[j] + s->dur[j] > s->ts[i]) {
                assert_true(s->ts[j] + s->dur[j] >= s->ts[i] + s->dur[i]);
                parent = j;
                break;
            }
        }
        assert_int_equal(s->parent[i], parent);
        assert_int_equal(s->depth[i], parent == STK__NONE ? 0 : s->depth[parent] + 1);
    }
}

static void check_same(const stk__trace *a, const stk__trace *b)
{
    for (int i = 0; i < STK__STORE_COLUMNS; i++) {
        const size_t bytes = stk__column_rows(a, i) * stk__column_infos[i].item_bytes;
        assert_int_equal(stk__column_rows(a, i), stk__column_rows(b, i));
        if (bytes)
            assert_memory_equal(*stk__column_pointer((stk__trace *)(uintptr_t)a, i),
                                *stk__column_pointer((stk__trace *)(uintptr_t)b, i), bytes);
    }
}

static void random_slices_nest_on_every_lane(void **state)
{
    (void)state;
    stk__trace *t = random_trace(1, NULL);
    assert_int_equal(t->slices.count, RANDOM_ROWS);
    check_nesting(t);
    int64_t sum = 0;
    for (size_t i = 0; i < t->slices.count; i++)
        sum += t->args.value[t->slices.args[i]].integer;
    assert_int_equal(sum, (int64_t)RANDOM_ROWS * (RANDOM_ROWS - 1) / 2);
    stk__trace_free(t);
}

static void a_cap_changes_nothing_but_where_columns_lie(void **state)
{
    (void)state;
    const stk__trace_options capped = {.memory_bytes = 1 << 20, .temp_dir = "/tmp"};
    stk__trace *a = random_trace(2, NULL), *b = random_trace(2, &capped);
    assert_false(stk__trace_spilled(a));
    assert_true(stk__trace_spilled(b));
    stk__trace_trim(b);
    check_same(a, b);
    stk__trace_free(a);
    stk__trace_free(b);
}

static void a_directory_that_is_not_there_fails_with_its_name(void **state)
{
    (void)state;
    const stk__trace_options capped = {.memory_bytes = 1 << 20, .temp_dir = "/nowhere/at/all"};
    stk__builder *b = builder(&capped);
    const uint32_t track = thread_track(b, 1, 1);
    for (int i = 0; i < RANDOM_ROWS * 4; i++)
        stk__builder_slice(b, track, i, 1, 0, 0, 0);
    stk__trace *t = NULL;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__builder_finish(b, &t, &err), STK_IO);
    assert_string_equal(err.file, "/nowhere/at/all");
}

static void the_cache_gives_the_same_columns_and_refuses_damage(void **state)
{
    (void)state;
    char directory[] = "/tmp/stoker-test-XXXXXX";
    assert_non_null(mkdtemp(directory));
    stk__text path = STK__TEXT_INIT;
    stk__text_printf(&path, "%s/traces/%032d.columns", directory, 1);
    stk__trace *a = random_trace(3, NULL);
    stk__trace_cache_save(a, path.data, 0);
    stk__trace *b = stk__trace_cache_load(path.data, 0);
    assert_non_null(b);
    check_same(a, b);
    assert_int_equal(a->start_ns, b->start_ns);
    stk__trace_free(b);
    struct stat info;
    assert_int_equal(stat(path.data, &info), 0);
    for (int i = 0; i < 60; i++) { /* one byte changed anywhere that counts */
        FILE *f = fopen(path.data, "r+b");
        const long at = i < 30 ? i * 13 : (long)((double)info.st_size / 31 * (i - 30));
        assert_int_equal(fseek(f, at, SEEK_SET), 0);
        const int byte = fgetc(f);
        assert_int_equal(fseek(f, at, SEEK_SET), 0);
        fputc(byte ^ 0x55, f);
        fclose(f);
        stk__trace *damaged = stk__trace_cache_load(path.data, 0);
        if (damaged) /* between two columns */
            check_same(a, damaged);
        stk__trace_free(damaged);
        f = fopen(path.data, "r+b");
        assert_int_equal(fseek(f, at, SEEK_SET), 0);
        fputc(byte, f);
        fclose(f);
    }
    assert_int_equal(truncate(path.data, info.st_size / 2), 0);
    assert_null(stk__trace_cache_load(path.data, 0));
    /* a second one does not fit beside the first */
    stk__text second = STK__TEXT_INIT;
    stk__text_printf(&second, "%s/traces/%032d.columns", directory, 2);
    stk__trace_cache_save(a, second.data, (uint64_t)info.st_size + 100);
    assert_int_equal(access(path.data, F_OK), -1);
    assert_int_equal(access(second.data, F_OK), 0);
    unlink(second.data);
    stk__text_reset(&path);
    stk__text_printf(&path, "%s/traces", directory);
    rmdir(path.data);
    rmdir(directory);
    stk__trace_free(a);
    stk__text_clear(&path);
    stk__text_clear(&second);
}

static void every_failed_allocation_ends_cleanly(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 200; n++) {
        stk__builder *b = NULL;
        stk__trace *t = NULL;
        stk__alloc_fail_at(n, true);
        stk_status status = stk__builder_new(NULL, &b, NULL);
        if (status == STK_OK) {
            stk__builder_start_file(b, "x", "chrome");
            const uint32_t track = thread_track(b, 1, 1);
            for (int i = 0; i < 50; i++) {
                const char name[2] = {(char)('A' + i), 0};
                stk__builder_arg_int(b, stk__builder_str(b, name), i);
                stk__builder_begin(b, track, i, stk__builder_str(b, name), 0);
                stk__builder_slice(b, track, i, 100, 0, 0, 0);
                stk__builder_flow(b, track, i, STK__FLOW_START, 0, 0, stk__builder_str(b, name));
                stk__builder_counter(b, stk__builder_counter_track(b, 0, STK__NONE, stk__builder_str(b, name)), i, i);
            }
            status = stk__builder_finish(b, &t, NULL);
        }
        stk__alloc_fail_at(0, false);
        assert_true(status == STK_OK || status == STK_NOMEM);
        stk__trace_free(t);
        if (status == STK_OK)
            return;
    }
    fail_msg("it never had enough memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_are_sorted_by_track_and_time_with_parents_and_depth),
        cmocka_unit_test(overlapping_slices_go_to_lanes_and_are_counted),
        cmocka_unit_test(any_number_of_overlaps_finds_lanes),
        cmocka_unit_test(overlaps_within_the_rounding_of_times_nest),
        cmocka_unit_test(rounded_overlaps_do_not_chain),
        cmocka_unit_test(flows_behind_deep_nesting_are_bound),
        cmocka_unit_test(begins_and_ends_pair_by_name_and_by_nesting),
        cmocka_unit_test(unpaired_begins_and_ends_are_counted_with_their_place),
        cmocka_unit_test(args_of_begin_and_end_are_joined),
        cmocka_unit_test(times_out_of_range_are_left_out_and_durations_cut),
        cmocka_unit_test(flows_bind_to_slices_around_or_behind),
        cmocka_unit_test(flows_go_from_the_start_to_each_end_and_along_steps),
        cmocka_unit_test(flow_ends_may_stand_before_a_start_of_the_same_time),
        cmocka_unit_test(flow_arrows_point_to_the_later_slice),
        cmocka_unit_test(counters_and_samples_are_sorted_by_track_and_time),
        cmocka_unit_test(files_keep_their_processes_apart),
        cmocka_unit_test(bad_utf8_is_replaced_and_noted),
        cmocka_unit_test(random_slices_nest_on_every_lane),
        cmocka_unit_test(a_cap_changes_nothing_but_where_columns_lie),
        cmocka_unit_test(a_directory_that_is_not_there_fails_with_its_name),
        cmocka_unit_test(the_cache_gives_the_same_columns_and_refuses_damage),
        cmocka_unit_test(every_failed_allocation_ends_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
