/* Trees of stacks: equal paths are one row, of slices and of samples. */
#include "trace_models.h"

#include "analyze/stacks.h"

static const stk__stack *find_path(const stk__trace *t, const stk__stacks *s, const char *path)
{
    const stk__stack *found = NULL;
    for (uint32_t i = 0; i < s->count; i++) {
        stk__text text = STK__TEXT_INIT;
        stk__stacks_path(t, s, i, &text);
        if (strcmp(text.data, path) == 0) {
            assert_null(found);
            found = &s->rows[i];
        }
        stk__text_clear(&text);
    }
    if (!found)
        fail_msg("no stack '%s'", path);
    return found;
}

static void check_path(const stk__trace *t, const stk__stacks *s, const char *path, int64_t count, int64_t total,
                       int64_t self)
{
    const stk__stack *row = find_path(t, s, path);
    assert_int_equal(row->count, count);
    assert_int_equal(row->total, total);
    assert_int_equal(row->self, self);
}

static void equal_paths_of_slices_are_one_row(void **state)
{
    stk__builder *b = model_start();
    const uint32_t one = model_track(b, 1, 1), two = model_track(b, 2, 2);
    model_slice(b, one, 0, 100, "main");
    model_slice(b, one, 10, 20, "read;all");
    model_slice(b, one, 40, 30, "read;all");
    model_slice(b, one, 45, 5, "main");
    model_slice(b, two, 0, 50, "main");
    model_slice(b, two, 10, 10, "read;all");
    stk__trace *t = model_finish(b);
    stk__stacks s;
    assert_int_equal(stk__stacks_make(t, NULL, false, &s, NULL), STK_OK);
    assert_int_equal(s.count, 3);
    check_path(t, &s, "main", 2, 150, 90);
    check_path(t, &s, "main;read:all", 3, 60, 55);
    check_path(t, &s, "main;read:all;main", 1, 5, 5);
    for (size_t i = 0; i < s.count; i++) {
        assert_true(s.rows[i].parent == STK__NONE || s.rows[i].parent < i);
        assert_int_equal(s.rows[i].group, STK__NONE);
        assert_int_equal(s.rows[i].unit, STK__UNIT_NS);
    }
    stk__stacks_clear(&s);
    assert_int_equal(stk__stacks_make(t, NULL, true, &s, NULL), STK_OK);
    assert_int_equal(s.count, 5);
    for (size_t i = 0; i < s.count; i++)
        assert_true(s.rows[i].group < t->process_count);
    stk__stacks_clear(&s);
    stk__trace_free(t);
}

static void slices_that_are_not_chosen_are_passed_over(void **state)
{
    stk__builder *b = model_start();
    const uint32_t track = model_track(b, 1, 1);
    model_slice(b, track, 0, 100, "main");
    model_slice(b, track, 10, 50, "glue");
    model_slice(b, track, 20, 30, "read");
    stk__trace *t = model_finish(b);
    static const char *const like[] = {"main", "r[!a]*"};
    const stk__selection select = {.like = like, .like_count = 2};
    stk__stacks s;
    assert_int_equal(stk__stacks_make(t, &select, false, &s, NULL), STK_OK);
    assert_int_equal(s.count, 2);
    check_path(t, &s, "main", 1, 100, 70);
    check_path(t, &s, "main;read", 1, 30, 30);
    stk__stacks_clear(&s);
    stk__trace_free(t);
}

/* The path of a slice by its parents. */
static void slow_path(const stk__trace *t, uint32_t slice, stk__text *out)
{
    if (t->slices.parent[slice] != STK__NONE) {
        slow_path(t, t->slices.parent[slice], out);
        stk__text_putc(out, ';');
    }
    stk__text_puts(out, stk__trace_str(t, t->slices.name[slice]));
}

static void random_slices_equal_adding_up_by_path(void **state)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        stk__trace *t = model_random_slices(seed, 120, 3, 900);
        stk__stacks s;
        assert_int_equal(stk__stacks_make(t, NULL, false, &s, NULL), STK_OK);
        int64_t slices = 0;
        for (uint32_t row = 0; row < s.count; row++) {
            stk__text path = STK__TEXT_INIT;
            stk__stacks_path(t, &s, row, &path);
            int64_t count = 0, total = 0;
            for (uint32_t i = 0; i < t->slices.count; i++) {
                stk__text other = STK__TEXT_INIT;
                slow_path(t, i, &other);
                if (strcmp(other.data, path.data) == 0) {
                    count++;
                    total += t->slices.dur[i];
                }
                stk__text_clear(&other);
            }
            assert_int_equal(s.rows[row].count, count);
            assert_int_equal(s.rows[row].total, total);
            slices += count;
            stk__text_clear(&path);
        }
        assert_int_equal(slices, t->slices.count);
        stk__stacks_clear(&s);
        stk__trace_free(t);
    }
}

static uint32_t site(stk__builder *b, uint32_t parent, const char *name, int line)
{
    const stk__trace_frame frame = {.name = stk__builder_str(b, name), .line = line};
    return stk__builder_callsite(b, parent, stk__builder_frame(b, &frame));
}

static void samples_add_up_along_their_stacks(void **state)
{
    stk__builder *b = model_start();
    const uint32_t one = model_track(b, 1, 1), two = model_track(b, 2, 2);
    stk__builder_track_at(b, one)->unit = STK__UNIT_SAMPLES;
    stk__builder_track_at(b, two)->unit = STK__UNIT_SAMPLES;
    const uint32_t main_site = site(b, STK__NONE, "main", 0), work = site(b, main_site, "work", 0);
    const uint32_t again = site(b, work, "work", 0);
    stk__builder_sample(b, one, 1, again, 3, 0);
    stk__builder_sample(b, one, 2, main_site, 1, 0);
    stk__builder_sample(b, two, STK__NO_TIME, work, 5, 0);
    stk__builder_sample(b, two, STK__NO_TIME, STK__NONE, 7, 0);
    stk__trace *t = model_finish(b);
    stk__stacks s;
    assert_int_equal(stk__stacks_make(t, NULL, false, &s, NULL), STK_OK);
    assert_int_equal(s.count, 4);
    check_path(t, &s, "main", 3, 9, 1);
    check_path(t, &s, "main;work", 2, 8, 5);
    check_path(t, &s, "main;work;work", 1, 3, 3);
    check_path(t, &s, "[unknown]", 1, 7, 7);
    assert_int_equal(s.rows[0].unit, STK__UNIT_SAMPLES);
    stk__stacks_clear(&s);

    assert_int_equal(stk__stacks_make(t, NULL, true, &s, NULL), STK_OK);
    assert_int_equal(s.count, 6);
    stk__stacks_clear(&s);

    static const char *const like[] = {"work"};
    const stk__selection select = {.like = like, .like_count = 1};
    assert_int_equal(stk__stacks_make(t, &select, false, &s, NULL), STK_OK);
    assert_int_equal(s.count, 2);
    check_path(t, &s, "work", 2, 8, 5);
    check_path(t, &s, "work;work", 1, 3, 3);
    stk__stacks_clear(&s);

    const stk__selection timed = {.from_ns = 2, .to_ns = 3};
    assert_int_equal(stk__stacks_make(t, &timed, false, &s, NULL), STK_OK);
    assert_int_equal(s.count, 1);
    check_path(t, &s, "main", 1, 1, 1);
    stk__stacks_clear(&s);
    stk__trace_free(t);
}

static void hostile_durations_stop_at_the_end_of_the_range(void **state)
{
    stk__builder *b = model_start();
    for (int i = 0; i < 3; i++)
        model_slice(b, model_track(b, 1, i), 0, INT64_MAX, "long");
    stk__trace *t = model_finish(b);
    stk__stacks s;
    assert_int_equal(stk__stacks_make(t, NULL, false, &s, NULL), STK_OK);
    assert_int_equal(s.count, 1);
    assert_true(s.rows[0].total == INT64_MAX && s.rows[0].self == INT64_MAX);
    stk__stacks_clear(&s);
    stk__trace_free(t);
}

static void line_ends_in_names_do_not_part_stacks(void **state)
{
    stk__builder *b = model_start();
    model_slice(b, model_track(b, 1, 1), 0, 5, "a\nb\r;");
    stk__trace *t = model_finish(b);
    stk__stacks s;
    assert_int_equal(stk__stacks_make(t, NULL, false, &s, NULL), STK_OK);
    check_path(t, &s, "a b :", 1, 5, 5);
    stk__stacks_clear(&s);
    stk__trace_free(t);
}

static void empty_trace_has_no_stacks(void **state)
{
    stk__trace *t = model_finish(model_start());
    stk__stacks s;
    assert_int_equal(stk__stacks_make(t, NULL, false, &s, NULL), STK_OK);
    assert_int_equal(s.count, 0);
    stk__text text = STK__TEXT_INIT;
    stk__stacks_path(t, &s, 0, &text);
    assert_int_equal(text.length, 0);
    stk__stacks_clear(&s);
    stk__trace_free(t);
}

static void every_failed_allocation_is_reported(void **state)
{
    stk__builder *b = model_start();
    const uint32_t track = model_track(b, 1, 1);
    uint32_t at = STK__NONE;
    for (int i = 0; i < 100; i++) {
        at = site(b, at, "deep", i);
        stk__builder_sample(b, track, i, at, 1, 0);
    }
    stk__trace *traces[] = {model_finish(b), model_random_slices(1, 80, 5, 300)};
    for (size_t k = 0; k < STK_COUNT(traces); k++) {
        for (uint64_t n = 1;; n++) {
            stk__stacks s;
            stk__alloc_fail_at(n, true);
            const stk_status status = stk__stacks_make(traces[k], NULL, true, &s, NULL);
            stk__alloc_fail_at(0, false);
            if (status == STK_OK) {
                assert_true(n > 3);
                stk__stacks_clear(&s);
                break;
            }
            assert_int_equal(status, STK_NOMEM);
        }
        stk__trace_free(traces[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_paths_of_slices_are_one_row),
        cmocka_unit_test(slices_that_are_not_chosen_are_passed_over),
        cmocka_unit_test(random_slices_equal_adding_up_by_path),
        cmocka_unit_test(samples_add_up_along_their_stacks),
        cmocka_unit_test(hostile_durations_stop_at_the_end_of_the_range),
        cmocka_unit_test(line_ends_in_names_do_not_part_stacks),
        cmocka_unit_test(empty_trace_has_no_stacks),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
