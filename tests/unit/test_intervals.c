/* Gaps, unions and overlaps: by hand, and against counting every nanosecond. */
#include "trace_models.h"

#include "analyze/intervals.h"

enum { TIME = 600 };

static void gaps_lie_between_slices_and_name_both_sides(void **state)
{
    stk__builder *b = model_start();
    const uint32_t track = model_track(b, 1, 1);
    model_slice(b, track, 0, 10, "a");
    model_slice(b, track, 2, 3, "inside");
    model_slice(b, track, 15, 5, "b");
    stk__builder_instant(b, track, 22, stk__builder_str(b, "blink"), 0);
    model_slice(b, track, 40, 1, "c");
    stk__trace *t = model_finish(b);
    stk__gaps gaps;
    assert_int_equal(stk__gaps_find(t, NULL, 0, 0, &gaps, NULL), STK_OK);
    assert_int_equal(gaps.count, 2);
    assert_int_equal(gaps.rows[0].ts, 10);
    assert_int_equal(gaps.rows[0].dur, 5);
    assert_string_equal(stk__trace_str(t, t->slices.name[gaps.rows[0].before]), "a");
    assert_string_equal(stk__trace_str(t, t->slices.name[gaps.rows[0].after]), "b");
    assert_int_equal(gaps.rows[1].ts, 20);
    assert_int_equal(gaps.rows[1].dur, 20);
    assert_string_equal(stk__trace_str(t, t->slices.name[gaps.rows[1].before]), "b");
    stk__gaps_clear(&gaps);
    assert_int_equal(stk__gaps_find(t, NULL, 6, 0, &gaps, NULL), STK_OK);
    assert_int_equal(gaps.count, 1);
    assert_int_equal(gaps.rows[0].ts, 20);
    stk__gaps_clear(&gaps);
    stk__trace_free(t);
}

static void gaps_of_a_selection_see_only_what_is_selected(void **state)
{
    stk__builder *b = model_start();
    const uint32_t track = model_track(b, 1, 1);
    model_slice(b, track, 0, 10, "step");
    model_slice(b, track, 10, 10, "wait");
    model_slice(b, track, 20, 10, "step");
    stk__trace *t = model_finish(b);
    static const char *const like[] = {"st*"};
    const stk__selection select = {.like = like, .like_count = 1};
    stk__gaps gaps;
    assert_int_equal(stk__gaps_find(t, &select, 0, 0, &gaps, NULL), STK_OK);
    assert_int_equal(gaps.count, 1);
    assert_int_equal(gaps.rows[0].ts, 10);
    assert_int_equal(gaps.rows[0].dur, 10);
    stk__gaps_clear(&gaps);
    stk__trace_free(t);
}

/* Counts, per root track, the moments in [0, TIME) that a slice covers. */
static void paint(const stk__trace *t, uint32_t root, bool *busy, bool *starts)
{
    memset(busy, 0, TIME * 2);
    memset(starts, 0, TIME * 2);
    for (size_t i = 0; i < t->slices.count; i++) {
        if (t->slices.flags[i] & STK__SLICE_INSTANT)
            continue;
        if (root != STK__NONE && stk__track_root(t, t->slices.track[i]) != root)
            continue;
        starts[t->slices.ts[i]] = true;
        for (int64_t at = t->slices.ts[i]; at < t->slices.ts[i] + t->slices.dur[i]; at++)
            busy[at] = true;
    }
}

/* The gaps of one track: idle moments between the first and the last slice, parted also by slices without duration. */
static size_t slow_gaps(const stk__trace *t, uint32_t root, stk__gap *out)
{
    bool busy[TIME * 2], starts[TIME * 2];
    paint(t, root, busy, starts);
    size_t count = 0;
    int64_t idle_from = -1;
    for (int64_t at = 0; at < TIME * 2; at++) {
        if ((starts[at] || busy[at]) && idle_from >= 0 && at > idle_from)
            out[count++] = (stk__gap){.track = root, .ts = idle_from, .dur = at - idle_from};
        if (busy[at])
            idle_from = at + 1;
        else if (starts[at])
            idle_from = at;
    }
    return count;
}

static void gaps_of_random_tracks_equal_counting(void **state)
{
    for (uint64_t seed = 0; seed < 60; seed++) {
        stk__trace *t = model_random_slices(seed, 5 + seed * 2, 4, TIME);
        stk__gap expected[TIME * 2];
        size_t at = 0;
        stk__gaps gaps;
        assert_int_equal(stk__gaps_find(t, NULL, 0, 0, &gaps, NULL), STK_OK);
        for (uint32_t track = 0; track < t->track_count; track++) {
            if (stk__track_root(t, track) != track)
                continue;
            const size_t count = slow_gaps(t, track, expected);
            for (size_t i = 0; i < count; i++, at++) {
                assert_true(at < gaps.count);
                assert_int_equal(gaps.rows[at].track, track);
                assert_int_equal(gaps.rows[at].ts, expected[i].ts);
                assert_int_equal(gaps.rows[at].dur, expected[i].dur);
                const uint32_t before = gaps.rows[at].before, after = gaps.rows[at].after;
                assert_int_equal(t->slices.ts[before] + t->slices.dur[before], expected[i].ts);
                assert_int_equal(t->slices.ts[after], expected[i].ts + expected[i].dur);
            }
        }
        assert_int_equal(at, gaps.count);
        stk__gaps_clear(&gaps);
        stk__trace_free(t);
    }
}

static void gaps_with_a_limit_are_the_longest_in_order(void **state)
{
    for (uint64_t seed = 0; seed < 30; seed++) {
        stk__trace *t = model_random_slices(seed, 60, 4, TIME);
        stk__gaps all, some;
        assert_int_equal(stk__gaps_find(t, NULL, 0, 0, &all, NULL), STK_OK);
        const size_t limit = 1 + seed % 12;
        assert_int_equal(stk__gaps_find(t, NULL, 0, limit, &some, NULL), STK_OK);
        assert_int_equal(some.count, STK_MIN(limit, all.count));
        for (size_t i = 0; i < some.count; i++) {
            /* Its place is the number of gaps that go before it. */
            size_t before = 0;
            for (size_t k = 0; k < all.count; k++) {
                const stk__gap *x = &all.rows[k], *y = &some.rows[i];
                before += x->dur > y->dur ||
                          (x->dur == y->dur && (x->track < y->track || (x->track == y->track && x->ts < y->ts)));
            }
            assert_int_equal(before, i);
        }
        stk__gaps_clear(&all);
        stk__gaps_clear(&some);
        stk__trace_free(t);
    }
}

static void union_of_random_tracks_equals_counting(void **state)
{
    for (uint64_t seed = 100; seed < 140; seed++) {
        stk__trace *t = model_random_slices(seed, seed - 80, 4, TIME);
        bool busy[TIME * 2], starts[TIME * 2];
        paint(t, STK__NONE, busy, starts);
        stk__spans spans;
        assert_int_equal(stk__spans_union(t, NULL, &spans, NULL), STK_OK);
        bool covered[TIME * 2] = {false};
        int64_t total = 0;
        for (size_t i = 0; i < spans.count; i++) {
            assert_true(spans.rows[i].start < spans.rows[i].end);
            assert_true(i == 0 || spans.rows[i - 1].end < spans.rows[i].start);
            for (int64_t at = spans.rows[i].start; at < spans.rows[i].end; at++, total++)
                covered[at] = true;
        }
        assert_memory_equal(busy, covered, sizeof busy);
        assert_int_equal(stk__spans_total(&spans), total);
        for (int64_t from = 0; from < TIME; from += 37) {
            int64_t within = 0;
            for (int64_t at = from; at < from + 90; at++)
                within += covered[at];
            assert_int_equal(stk__spans_within(&spans, from, from + 90), within);
        }
        stk__spans_clear(&spans);
        stk__trace_free(t);
    }
}

static void overlap_of_two_names_equals_counting(void **state)
{
    static const char *const one[] = {"name0"}, *const two[] = {"name1", "name2"};
    const stk__selection a = {.like = one, .like_count = 1}, b = {.like = two, .like_count = 2};
    for (uint64_t seed = 0; seed < 30; seed++) {
        stk__trace *t = model_random_slices(seed, 50, 5, TIME);
        uint8_t seen[TIME * 2] = {0};
        for (size_t i = 0; i < t->slices.count; i++) {
            const char *name = stk__trace_str(t, t->slices.name[i]);
            const int bit = strcmp(name, "name0") == 0                                 ? 1
                            : strcmp(name, "name1") == 0 || strcmp(name, "name2") == 0 ? 2
                                                                                       : 0;
            for (int64_t at = t->slices.ts[i]; at < t->slices.ts[i] + t->slices.dur[i]; at++)
                seen[at] |= (uint8_t)bit;
        }
        int64_t counts[4] = {0};
        for (size_t i = 0; i < STK_COUNT(seen); i++)
            counts[seen[i]]++;
        stk__overlap overlap;
        assert_int_equal(stk__overlap_of(t, &a, &b, &overlap, NULL), STK_OK);
        assert_int_equal(overlap.a_ns, counts[1] + counts[3]);
        assert_int_equal(overlap.b_ns, counts[2] + counts[3]);
        assert_int_equal(overlap.both_ns, counts[3]);
        stk__trace_free(t);
    }
}

static void spans_that_touch_become_one_and_empty_ones_vanish(void **state)
{
    stk__spans s = {0};
    assert_true(stk__spans_add(&s, 30, 40));
    assert_true(stk__spans_add(&s, 10, 20));
    assert_true(stk__spans_add(&s, 20, 30));
    assert_true(stk__spans_add(&s, 5, 5));
    assert_true(stk__spans_add(&s, 60, 50));
    assert_true(stk__spans_add(&s, 12, 13));
    stk__spans_normalize(&s);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.rows[0].start, 10);
    assert_int_equal(s.rows[0].end, 40);
    stk__spans_clear(&s);
    stk__spans_normalize(&s);
    assert_int_equal(stk__spans_total(&s), 0);
}

static void spans_without_memory_to_spare_are_sorted_in_place(void **state)
{
    stk__spans s = {0};
    model_random r = {.seed = 7};
    for (int i = 0; i < 500; i++) {
        const int64_t start = (int64_t)model_draw(&r, 10000);
        assert_true(stk__spans_add(&s, start, start + 1 + (int64_t)model_draw(&r, 9)));
    }
    stk__spans copy = {0};
    for (size_t i = 0; i < s.count; i++)
        assert_true(stk__spans_add(&copy, s.rows[i].start, s.rows[i].end));
    stk__spans_normalize(&s);
    stk__alloc_fail_at(1, true);
    stk__spans_normalize(&copy);
    stk__alloc_fail_at(0, false);
    assert_int_equal(s.count, copy.count);
    assert_memory_equal(s.rows, copy.rows, s.count * sizeof *s.rows);
    stk__spans_clear(&s);
    stk__spans_clear(&copy);
}

static void hostile_times_stop_at_the_end_of_the_range(void **state)
{
    stk__builder *b = model_start();
    const uint32_t one = model_track(b, 1, 1), two = model_track(b, 1, 2);
    model_slice(b, one, 0, 10, "early");
    model_slice(b, one, 20, 10, "late");
    model_slice(b, two, 0, 10, "long");
    model_slice(b, two, 20, 10, "long");
    stk__trace *t = model_finish(b);
    /* Wider than what a builder takes, but within what the model allows. */
    assert_int_equal(t->slices.count, 4);
    static const int64_t ts[] = {-9000000000000000000, 9000000000000000000, -9000000000000000000, 300000000000000000};
    static const int64_t dur[] = {10, 10, 9200000000000000000, 8800000000000000000};
    memcpy(t->slices.ts, ts, sizeof ts);
    memcpy(t->slices.dur, dur, sizeof dur);
    stk__gaps gaps;
    assert_int_equal(stk__gaps_find(t, NULL, 0, 5, &gaps, NULL), STK_OK);
    assert_true(gaps.count >= 1);
    assert_true(gaps.rows[0].dur == INT64_MAX);
    stk__gaps_clear(&gaps);
    stk__spans spans;
    assert_int_equal(stk__spans_union(t, NULL, &spans, NULL), STK_OK);
    assert_true(stk__spans_total(&spans) == INT64_MAX);
    assert_true(stk__spans_within(&spans, INT64_MIN, INT64_MAX) == INT64_MAX);
    assert_true(stk__spans_overlap(&spans, &spans) == INT64_MAX);
    stk__spans_clear(&spans);
    stk__trace_free(t);
}

static void empty_trace_has_no_gaps_and_no_spans(void **state)
{
    stk__trace *t = model_finish(model_start());
    stk__gaps gaps;
    stk__spans spans;
    stk__overlap overlap;
    assert_int_equal(stk__gaps_find(t, NULL, 0, 3, &gaps, NULL), STK_OK);
    assert_int_equal(gaps.count, 0);
    assert_int_equal(stk__spans_union(t, NULL, &spans, NULL), STK_OK);
    assert_int_equal(spans.count, 0);
    assert_int_equal(stk__overlap_of(t, NULL, NULL, &overlap, NULL), STK_OK);
    assert_int_equal(overlap.both_ns, 0);
    stk__gaps_clear(&gaps);
    stk__spans_clear(&spans);
    stk__trace_free(t);
}

static void every_failed_allocation_is_reported(void **state)
{
    stk__trace *t = model_random_slices(3, 40, 4, TIME);
    static const char *const like[] = {"name*"}, *const track[] = {"*"};
    const stk__selection select = {.like = like, .like_count = 1, .track = track, .track_count = 1};
    for (uint64_t n = 1;; n++) {
        stk__gaps gaps;
        stk__overlap overlap;
        stk__alloc_fail_at(n, true);
        stk_status status = stk__gaps_find(t, &select, 0, 0, &gaps, NULL);
        if (status == STK_OK) {
            stk__gaps_clear(&gaps);
            status = stk__overlap_of(t, &select, &select, &overlap, NULL);
        }
        stk__alloc_fail_at(0, false);
        if (status == STK_OK) {
            assert_true(n > 5);
            break;
        }
        assert_int_equal(status, STK_NOMEM);
    }
    stk__trace_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_lie_between_slices_and_name_both_sides),
        cmocka_unit_test(gaps_of_a_selection_see_only_what_is_selected),
        cmocka_unit_test(gaps_of_random_tracks_equal_counting),
        cmocka_unit_test(gaps_with_a_limit_are_the_longest_in_order),
        cmocka_unit_test(union_of_random_tracks_equals_counting),
        cmocka_unit_test(overlap_of_two_names_equals_counting),
        cmocka_unit_test(spans_that_touch_become_one_and_empty_ones_vanish),
        cmocka_unit_test(spans_without_memory_to_spare_are_sorted_in_place),
        cmocka_unit_test(hostile_times_stop_at_the_end_of_the_range),
        cmocka_unit_test(empty_trace_has_no_gaps_and_no_spans),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
