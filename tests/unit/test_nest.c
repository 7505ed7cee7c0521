/* Nesting: begins and ends, read back as a viewer does (stable sort by time), must give the slices that went in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "trace/nest.h"

enum { MAX_EVENTS = 4096, MAX_LANES = 3 };

typedef struct mark {
    int64_t at;
    int32_t name; /* 0: an end */
    int order;
} mark;

/* One row of a file, and what a viewer makes of it. */
typedef struct row {
    mark marks[2 * MAX_EVENTS];
    int count;
} row;

typedef struct seen {
    int64_t start, end;
    int depth, times;
} seen;

static void row_begin(void *context, const stk__event *slice, int64_t start_ns)
{
    row *r = context;
    r->marks[r->count] = (mark){start_ns, slice->name, r->count};
    r->count++;
}

static void row_end(void *context, int64_t end_ns)
{
    row *r = context;
    r->marks[r->count] = (mark){end_ns, 0, r->count};
    r->count++;
}

static int by_time(const void *a, const void *b)
{
    const mark *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->order - y->order;
}

/* Reads the row as trace_processor does: an end closes what was begun last. */
static void row_read(row *r, seen *by_name)
{
    int32_t stack[MAX_EVENTS];
    int depth = 0;
    qsort(r->marks, (size_t)r->count, sizeof *r->marks, by_time);
    for (int i = 0; i < r->count; i++) {
        const mark *m = &r->marks[i];
        if (m->name) {
            by_name[m->name].start = m->at;
            by_name[m->name].depth = depth;
            by_name[m->name].times++;
            stack[depth++] = m->name;
        } else {
            assert_true(depth > 0);
            by_name[stack[--depth]].end = m->at;
        }
    }
    assert_int_equal(depth, 0);
}

typedef struct fixture {
    stk__nest nests[MAX_LANES];
    row rows[MAX_LANES];
    stk__event events[MAX_EVENTS];
    seen seen[MAX_EVENTS + 1];
    int count;
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    for (int i = 0; i < MAX_LANES; i++)
        stk__nest_init(&f->nests[i]);
    *state = f;
    return f ? 0 : -1;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

/* Records a slice; names count from 1. */
static int32_t slice(fixture *f, int64_t start, int64_t end)
{
    f->events[f->count] = (stk__event){.start_ns = start, .end_ns = end, .name = f->count + 1};
    return ++f->count;
}

/* Writes the events [from, to) as one batch; returns how many fit nowhere. */
static size_t batch(fixture *f, int from, int to)
{
    const stk__event *sorted[MAX_EVENTS];
    size_t count = 0;
    for (int i = from; i < to; i++)
        stk__nest_insert(sorted, count++, &f->events[i]);
    for (int lane = 0; lane < MAX_LANES && count; lane++)
        count = stk__nest_place(&f->nests[lane], sorted, count, &(stk__nest_sink){row_begin, row_end, &f->rows[lane]});
    return count;
}

static void read_all(fixture *f)
{
    for (int lane = 0; lane < MAX_LANES; lane++)
        row_read(&f->rows[lane], f->seen);
}

static void check(const fixture *f, int32_t name, int64_t start, int64_t end, int depth)
{
    assert_int_equal(f->seen[name].times, 1);
    assert_int_equal(f->seen[name].start, start);
    assert_int_equal(f->seen[name].end, end);
    assert_int_equal(f->seen[name].depth, depth);
}

static void nest_inner_slice_recorded_first_is_inside(void **state)
{
    fixture *f = *state;
    const int32_t inner = slice(f, 10, 20), outer = slice(f, 5, 30);
    assert_int_equal(batch(f, 0, 2), 0);
    read_all(f);
    check(f, outer, 5, 30, 0);
    check(f, inner, 10, 20, 1);
}

static void nest_ties_in_one_batch_are_exact(void **state)
{
    fixture *f = *state;
    const int32_t before = slice(f, 0, 10), a = slice(f, 10, 20), b = slice(f, 20, 30), unit = slice(f, 10, 30),
                  around = slice(f, 10, 30), zero = slice(f, 30, 30), next = slice(f, 30, 40);
    assert_int_equal(batch(f, 0, f->count), 0);
    read_all(f);
    check(f, before, 0, 10, 0);
    check(f, around, 10, 30, 0);
    check(f, unit, 10, 30, 1);
    check(f, a, 10, 20, 2);
    check(f, b, 20, 30, 2);
    check(f, next, 30, 40, 0);
    check(f, zero, 30, 30, 1);
}

static void nest_outer_slice_of_a_later_batch_is_outside(void **state)
{
    fixture *f = *state;
    const int32_t a = slice(f, 10, 20), b = slice(f, 20, 30), outer = slice(f, 9, 30), next = slice(f, 30, 31);
    batch(f, 0, 2);
    assert_int_equal(batch(f, 2, 4), 0);
    read_all(f);
    check(f, outer, 9, 30, 0);
    check(f, a, 10, 20, 1);
    check(f, b, 20, 30, 1);
    check(f, next, 30, 31, 0);
}

static void nest_late_outer_slice_with_the_same_start_is_shown_one_ns_early(void **state)
{
    fixture *f = *state;
    const int32_t before = slice(f, 0, 9), inner = slice(f, 10, 20), outer = slice(f, 10, 30), most = slice(f, 10, 40);
    batch(f, 0, 2);
    assert_int_equal(batch(f, 2, 4), 0);
    read_all(f);
    check(f, before, 0, 9, 0);
    check(f, most, 9, 40, 0);
    check(f, outer, 9, 30, 1);
    check(f, inner, 10, 20, 2);
}

static void nest_late_outer_slice_without_room_goes_to_another_row(void **state)
{
    fixture *f = *state;
    const int32_t before = slice(f, 0, 10), inner = slice(f, 10, 20), outer = slice(f, 10, 30);
    batch(f, 0, 2);
    assert_int_equal(batch(f, 2, 3), 0);
    read_all(f);
    check(f, before, 0, 10, 0);
    check(f, inner, 10, 20, 0);
    check(f, outer, 10, 30, 0);
    assert_int_equal(f->rows[1].count, 2);
}

static void nest_overlapping_slices_go_to_other_rows_until_these_run_out(void **state)
{
    fixture *f = *state;
    const int32_t a = slice(f, 0, 10), b = slice(f, 1, 11), c = slice(f, 2, 12);
    slice(f, 3, 13);
    assert_int_equal(batch(f, 0, 4), 1);
    read_all(f);
    check(f, a, 0, 10, 0);
    check(f, b, 1, 11, 0);
    check(f, c, 2, 12, 0);
}

static void nest_deeper_than_the_limit_goes_to_another_row(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < STK__NEST_DEPTH + 1; i++)
        slice(f, 1000 - i, 1000 + i);
    assert_int_equal(batch(f, 0, f->count), 0);
    read_all(f);
    assert_int_equal(f->rows[0].count, 2 * STK__NEST_DEPTH);
    assert_int_equal(f->rows[1].count, 2);
}

typedef struct dice {
    uint64_t seed, rolls;
} dice;

static int roll(dice *d, int sides)
{
    return (int)(stk__mix(d->seed, d->rolls++) % (uint64_t)sides);
}

/* Records a random tree of slices as a thread would: inner ones first, times chained and shared. */
static void record_tree(fixture *f, dice *d, int64_t *now, int depth)
{
    const int64_t start = *now;
    const int children = depth ? roll(d, 4) : 0;
    for (int i = 0; i < children && f->count < MAX_EVENTS - 16; i++) {
        *now += roll(d, 3);
        record_tree(f, d, now, depth - 1);
    }
    *now += roll(d, 3);
    slice(f, start, *now);
}

/* Whatever the cuts, a viewer sees each slice once, with its end and its start (or 1 ns before). */
static void nest_random_trees_in_random_batches_read_back(void **state)
{
    for (uint64_t seed = 0; seed < 2000; seed++) {
        fixture *f;
        assert_int_equal(set_up((void **)&f), 0);
        dice d = {.seed = seed};
        int64_t now = 1000;
        while (f->count < 300) {
            record_tree(f, &d, &now, 5);
            now += roll(&d, 3);
        }
        size_t unplaced = 0;
        for (int from = 0, to; from < f->count; from = to) {
            to = from + 1 + roll(&d, 40);
            to = to < f->count ? to : f->count;
            unplaced += batch(f, from, to);
        }
        read_all(f);
        size_t shown = 0;
        for (int i = 0; i < f->count; i++) {
            const seen *s = &f->seen[i + 1];
            if (!s->times)
                continue;
            shown++;
            assert_int_equal(s->times, 1);
            assert_in_range(f->events[i].start_ns - s->start, 0, 1);
            assert_int_equal(s->end, f->events[i].end_ns);
        }
        assert_int_equal(shown + unplaced, f->count);
        free(f);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nest_inner_slice_recorded_first_is_inside),
        TEST(nest_ties_in_one_batch_are_exact),
        TEST(nest_outer_slice_of_a_later_batch_is_outside),
        TEST(nest_late_outer_slice_with_the_same_start_is_shown_one_ns_early),
        TEST(nest_late_outer_slice_without_room_goes_to_another_row),
        TEST(nest_overlapping_slices_go_to_other_rows_until_these_run_out),
        TEST(nest_deeper_than_the_limit_goes_to_another_row),
        cmocka_unit_test(nest_random_trees_in_random_batches_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
