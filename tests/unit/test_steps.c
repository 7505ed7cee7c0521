/* Steps: markers of each framework, what becomes of nested and overlapping ones, and inference from what repeats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/steps.h"
#include "base/mem.h"
#include "base/rng.h"
#include "trace/builder.h"

enum { US = 1000, MS = 1000 * US };

/* ---- making traces ---- */

static stk__builder *start(void)
{
    stk__builder *b = NULL;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__builder_new(&(stk__trace_options){0}, &b, &err), STK_OK);
    stk__builder_start_file(b, "made.json", "chrome");
    return b;
}

static stk__trace *finish(stk__builder *b)
{
    stk__trace *t = NULL;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__builder_finish(b, &t, &err), STK_OK);
    return t;
}

static uint32_t track(stk__builder *b, int64_t pid, const char *process, int64_t tid, const char *thread)
{
    const uint32_t p = stk__builder_process(b, pid, 0);
    stk__builder_process_at(b, p)->name = stk__builder_str(b, process);
    const uint32_t t = stk__builder_thread(b, p, tid, 0);
    stk__builder_thread_at(b, t)->name = stk__builder_str(b, thread);
    return stk__builder_thread_track(b, t);
}

static void add(stk__builder *b, uint32_t on, int64_t ts, int64_t dur, const char *name, const char *category)
{
    stk__builder_slice(b, on, ts, dur, stk__builder_str(b, name), stk__builder_str(b, category), -1);
}

static void add_numbered(stk__builder *b, uint32_t on, int64_t ts, int64_t dur, const char *name, int64_t number)
{
    char text[64];
    snprintf(text, sizeof text, "%s%lld", name, (long long)number);
    add(b, on, ts, dur, text, "user_annotation");
}

static void add_step_num(stk__builder *b, uint32_t on, int64_t ts, int64_t dur, const char *name, int64_t number)
{
    stk__builder_arg_int(b, stk__builder_str(b, "step_num"), number);
    add(b, on, ts, dur, name, "");
}

static stk__steps find(const stk__trace *t)
{
    stk__steps steps;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__steps_find(t, &steps, &err), STK_OK);
    for (size_t i = 1; i < steps.count; i++) {
        const stk__step *x = &steps.rows[i - 1], *y = &steps.rows[i];
        assert_true(x->file <= y->file);
        if (x->file == y->file && x->process == y->process)
            assert_true(x->ts + x->dur <= y->ts);
    }
    return steps;
}

static void done(stk__trace *t, stk__steps *steps)
{
    stk__steps_clear(steps);
    stk__trace_free(t);
}

/* ---- markers ---- */

static void profiler_steps_carry_their_numbers(void **state)
{
    stk__builder *b = start();
    const uint32_t main = track(b, 1, "python", 1, "main"), stream = track(b, 0, "python", 7, "stream 7 ");
    for (int64_t i = 0; i < 5; i++) {
        add_numbered(b, main, i * 10 * MS, 10 * MS, "ProfilerStep#", i + 3);
        stk__builder_slice(b, stream, i * 10 * MS, 5 * MS, stk__builder_str(b, "ProfilerStep#9"),
                           stk__builder_str(b, "gpu_user_annotation"), -1);
    }
    stk__trace *t = finish(b);
    stk__steps steps = find(t);
    assert_int_equal(steps.from, STK__STEPS_MARKERS);
    assert_int_equal(steps.count, 5);
    assert_string_equal(steps.marker, "ProfilerStep#");
    assert_true(steps.confidence == 1);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(steps.rows[i].number, (int64_t)i + 3);
        assert_int_equal(steps.rows[i].dur, 10 * MS);
        assert_int_equal(t->slices.ts[steps.rows[i].slice], steps.rows[i].ts);
    }
    done(t, &steps);
}

static void step_num_makes_a_marker_of_any_name(void **state)
{
    stk__builder *b = start();
    const uint32_t main = track(b, 1, "/host:CPU", 1, "python");
    for (int64_t i = 0; i < 4; i++)
        add_step_num(b, main, i * 10 * MS, 8 * MS, "update", 100 + i);
    stk__trace *t = finish(b);
    stk__steps steps = find(t);
    assert_int_equal(steps.count, 4);
    assert_int_equal(steps.rows[2].number, 102);
    assert_int_equal(steps.rows[2].dur, 8 * MS);
    done(t, &steps);
}

static void names_with_a_slash_or_of_a_file_are_no_markers(void **state)
{
    stk__builder *b = start();
    const uint32_t main = track(b, 1, "/host:CPU", 1, "python");
    add(b, main, 0, MS, "train/matmul", "");
    add(b, main, 2 * MS, MS, "train.py(10): main", "python_function");
    add(b, main, 4 * MS, MS, "train 7", "");
    stk__trace *t = finish(b);
    stk__steps steps = find(t);
    assert_int_equal(steps.count, 1);
    assert_int_equal(steps.rows[0].number, 7);
    assert_int_equal(steps.rows[0].ts, 4 * MS);
    assert_string_equal(steps.marker, "train");
    done(t, &steps);
}

static void a_marker_that_holds_several_is_a_loop(void **state)
{
    stk__builder *b = start();
    const uint32_t main = track(b, 1, "python", 1, "main");
    add(b, main, 0, 100 * MS, "train_epoch", "");
    for (int64_t i = 0; i < 10; i++) {
        add(b, main, i * 10 * MS, 9 * MS, "train_step", "");
        add(b, main, i * 10 * MS + MS, MS, "train_metrics", ""); /* one inside: the outer is the step */
    }
    stk__trace *t = finish(b);
    stk__steps steps = find(t);
    assert_int_equal(steps.count, 10);
    assert_int_equal(steps.rows[0].dur, 9 * MS);
    done(t, &steps);
}

static void the_profilers_steps_win_over_names_like_train(void **state)
{
    stk__builder *b = start();
    const uint32_t main = track(b, 1, "python", 1, "main");
    for (int64_t i = 0; i < 4; i++) {
        add_numbered(b, main, i * 10 * MS, 10 * MS, "ProfilerStep#", i);
        add(b, main, i * 10 * MS + MS, MS, "train_loss", "");
    }
    stk__trace *t = finish(b);
    stk__steps steps = find(t);
    assert_int_equal(steps.count, 4);
    assert_string_equal(steps.marker, "ProfilerStep#");
    done(t, &steps);
}

static void recorder_step_starts_at_the_wait_before_it(void **state)
{
    stk__builder *b = start();
    const uint32_t main = track(b, 1, "stoker", 1, "consumer"), marks = track(b, 1, "stoker", 8388612, "steps");
    for (int64_t i = 0; i < 4; i++) {
        add(b, main, i * 10 * MS, 3 * MS, "wait for batch", "wait");
        stk__builder_arg_int(b, stk__builder_str(b, "step"), i);
        add(b, marks, i * 10 * MS + 4 * MS, 6 * MS, "step", "step");
    }
    stk__trace *t = finish(b);
    stk__steps steps = find(t);
    assert_int_equal(steps.count, 4);
    assert_int_equal(steps.rows[0].ts, 4 * MS); /* the first wait is the pipeline's start */
    assert_int_equal(steps.rows[1].ts, 10 * MS);
    assert_int_equal(steps.rows[1].dur, 10 * MS);
    assert_int_equal(steps.rows[3].number, 3);
    done(t, &steps);
}

static void neighbours_that_overlap_by_rounding_both_stay(void **state)
{
    stk__builder *b = start();
    const uint32_t main = track(b, 1, "python", 1, "main");
    for (int64_t i = 0; i < 6; i++)
        add_numbered(b, main, i * 10 * MS, 10 * MS + 2 * US, "ProfilerStep#", i);
    stk__trace *t = finish(b);
    stk__steps steps = find(t);
    assert_int_equal(steps.count, 6);
    assert_int_equal(steps.rows[5].number, 5);
    done(t, &steps);
}

/* The same step on two threads, the second one late by nearly all of it; and once more by the device. */
static void one_number_on_two_threads_is_one_step(void **state)
{
    static const int64_t late[] = {0, MS, 9 * MS + 900 * US};
    for (size_t n = 0; n < sizeof late / sizeof late[0]; n++) {
        stk__builder *b = start();
        const uint32_t main = track(b, 1, "python", 1, "main"), other = track(b, 1, "python", 2, "other");
        const uint32_t device = track(b, 0, "python", 3, "");
        for (int64_t i = 0; i < 6; i++) {
            char name[32];
            snprintf(name, sizeof name, "ProfilerStep#%lld", (long long)i);
            add_numbered(b, main, i * 10 * MS, 10 * MS, "ProfilerStep#", i);
            add_numbered(b, other, i * 10 * MS + late[n], 10 * MS, "ProfilerStep#", i);
            add(b, device, i * 10 * MS + MS, 9 * MS, name, "gpu_user_annotation");
        }
        stk__trace *t = finish(b);
        stk__steps steps = find(t);
        assert_int_equal(steps.count, 6);
        for (int64_t i = 0; i < 6; i++) {
            assert_int_equal(steps.rows[i].number, i);
            assert_int_equal(steps.rows[i].dur, 10 * MS);
        }
        done(t, &steps);
    }
}

static void processes_have_steps_of_their_own(void **state)
{
    stk__builder *b = start();
    for (int64_t pid = 1; pid <= 3; pid++)
        for (int64_t i = 0; i < 4; i++)
            add_numbered(b, track(b, pid, "python", pid, "main"), i * 10 * MS + pid, 10 * MS, "ProfilerStep#", i);
    stk__trace *t = finish(b);
    stk__steps steps = find(t);
    assert_int_equal(steps.count, 12);
    assert_int_equal(steps.rows[4].number, 0);
    assert_int_not_equal(steps.rows[3].process, steps.rows[4].process);
    done(t, &steps);
}

static void device_steps_count_where_the_host_does_not_hold_them(void **state)
{
    for (int held = 0; held < 2; held++) {
        stk__builder *b = start();
        const uint32_t main = track(b, 1, "/host:CPU", 1, "python"), row = track(b, 2, "/device:TPU:0", 1, "Steps");
        for (int64_t i = 0; i < 5; i++) {
            add_step_num(b, main, i * 10 * MS, held ? 9 * MS : MS, "train", i);
            add_numbered(b, row, i * 10 * MS + MS / 2, 8 * MS, "", i);
        }
        stk__trace *t = finish(b);
        stk__steps steps = find(t);
        assert_int_equal(steps.count, 5);
        assert_int_equal(steps.rows[1].dur, held ? 9 * MS : 8 * MS);
        done(t, &steps);
    }
}

/* ---- inference ---- */

static void a_name_that_comes_back_regularly_is_a_step(void **state)
{
    stk__builder *b = start();
    const uint32_t main = track(b, 1, "python", 1, "main");
    int64_t ts = 0;
    for (int i = 0; i < 50; i++) {
        /* A slow first step, then jitter of a few percent; inside, ops that come many times a step. */
        const int64_t dur = i == 0 ? 400 * MS : 10 * MS + (int64_t)(stk__mix(7, (uint64_t)i) % (MS / 2));
        add(b, main, ts, dur - MS / 10, "update_model", "");
        for (int op = 0; op < 20; op++)
            add(b, main, ts + op * (dur / 25) + 1, dur / 50, op % 2 ? "matmul" : "relu", "");
        ts += dur;
    }
    stk__trace *t = finish(b);
    stk__steps steps = find(t);
    assert_int_equal(steps.from, STK__STEPS_INFERRED);
    assert_string_equal(steps.marker, "update_model");
    assert_in_range(steps.count, 48, 49); /* without the slow one */
    assert_int_equal(steps.rows[0].slice, STK__NONE);
    assert_true(steps.confidence > 0.4 && steps.confidence < 1);
    for (size_t i = 0; i < steps.count; i++)
        assert_in_range(steps.rows[i].dur, 9 * MS, 11 * MS);
    done(t, &steps);
}

static void of_two_periods_the_one_that_covers_more_wins(void **state)
{
    stk__builder *b = start();
    const uint32_t main = track(b, 1, "app", 1, "main"), other = track(b, 1, "app", 2, "saver");
    for (int64_t i = 0; i < 100; i++)
        add(b, main, i * 10 * MS, 8 * MS, "fit_batch", "");
    for (int64_t i = 0; i < 28; i++)
        add(b, other, i * 35 * MS, 10 * MS, "save", "");
    stk__trace *t = finish(b);
    stk__steps steps = find(t);
    assert_string_equal(steps.marker, "fit_batch");
    assert_in_range(steps.count, 99, 100);
    done(t, &steps);
}

static void ranges_that_count_are_steps(void **state)
{
    static const char *const names[] = {"step ", "Iteration", "train_step#", "batch: ", "my/iter_"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        stk__builder *b = start();
        const uint32_t main = track(b, 1, "app", 1, "main");
        for (int64_t i = 0; i < 5; i++) {
            add_numbered(b, main, i * 10 * MS, 9 * MS, names[n], i + 7);
            add(b, main, i * 10 * MS + MS, 2 * MS, "train", "user_annotation");
            add_numbered(b, main, i * 10 * MS + 4 * MS, MS, "overstep ", i); /* no word of its own */
        }
        stk__trace *t = finish(b);
        stk__steps steps = find(t);
        assert_int_equal(steps.from, STK__STEPS_MARKERS);
        assert_int_equal(steps.count, 5);
        assert_int_equal(steps.rows[0].number, 7);
        assert_int_equal(steps.rows[0].dur, 9 * MS);
        done(t, &steps);
    }
}

static void names_that_differ_in_a_number_repeat(void **state)
{
    stk__builder *b = start();
    const uint32_t main = track(b, 1, "app", 1, "main");
    for (int64_t i = 0; i < 30; i++)
        add_numbered(b, main, i * 10 * MS, 9 * MS, "chunk ", i);
    stk__trace *t = finish(b);
    stk__steps steps = find(t);
    assert_int_equal(steps.from, STK__STEPS_INFERRED);
    assert_in_range(steps.count, 29, 30);
    done(t, &steps);
}

static void an_input_wait_once_a_step_is_a_step(void **state)
{
    stk__builder *b = start();
    const uint32_t main = track(b, 1, "python", 1, "main");
    for (int64_t i = 0; i < 20; i++) {
        add(b, main, i * 10 * MS, MS / 100, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "cpu_op");
        for (int64_t op = 0; op < 8; op++)
            add(b, main, i * 10 * MS + MS + op * MS, MS / 2, "aten::conv2d", "cpu_op");
    }
    stk__trace *t = finish(b);
    stk__steps steps = find(t);
    assert_int_equal(steps.from, STK__STEPS_INFERRED);
    assert_int_equal(strncmp(steps.marker, "enumerate(DataLoader)", 21), 0);
    assert_int_equal(steps.rows[1].ts, 10 * MS);
    done(t, &steps);
}

static void a_heartbeat_is_no_step(void **state)
{
    stk__builder *b = start();
    const uint32_t main = track(b, 1, "app", 1, "main");
    for (int64_t i = 0; i < 50; i++)
        add(b, main, i * 10 * MS, 10 * US, "tick", "");
    stk__trace *t = finish(b);
    stk__steps steps = find(t);
    assert_int_equal(steps.from, STK__STEPS_NONE);
    assert_int_equal(steps.count, 0);
    done(t, &steps);
}

static void noise_has_no_steps(void **state)
{
    stk__builder *b = start();
    const uint32_t main = track(b, 1, "app", 1, "main");
    static const char *const names[] = {"get", "put", "scan"};
    int64_t ts = 0;
    for (uint64_t i = 0; i < 600; i++) {
        const int64_t dur = 1 + (int64_t)(stk__mix(1, i) % MS);
        add(b, main, ts, dur, names[stk__mix(2, i) % 3], "");
        /* Cubes of uniform numbers spread over orders of magnitude. */
        const int64_t u = (int64_t)(stk__mix(3, i) % 1000);
        ts += dur + u * u * u / 100;
    }
    stk__trace *t = finish(b);
    stk__steps steps = find(t);
    assert_int_equal(steps.from, STK__STEPS_NONE);
    done(t, &steps);
}

/* ---- the world's worst ---- */

static void hostile(stk__builder *b, const char *name)
{
    static const int64_t times[] = {INT64_MIN + 1, -9000000000000000000, -1, 0, 1, 9000000000000000000, INT64_MAX - 1};
    const uint32_t main = track(b, 1, "python", 1, "main"), stream = track(b, 0, "python", 7, "stream 7");
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        add(b, main, times[i], INT64_MAX, name, "");
        add(b, main, times[i], 0, name, "");
        add(b, stream, times[i], 5, name, "kernel");
    }
}

static void hostile_times_do_not_overflow(void **state)
{
    static const char *const names[] = {"train", "ProfilerStep#99999999999999999999", "x", ""};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        stk__builder *b = start();
        hostile(b, names[i]);
        stk__trace *t = finish(b);
        stk__steps steps = find(t);
        for (size_t k = 0; k < steps.count; k++)
            assert_true(steps.rows[k].dur >= 0);
        done(t, &steps);
    }
}

static void an_empty_trace_has_no_steps(void **state)
{
    stk__trace *t = finish(start());
    stk__steps steps = find(t);
    assert_int_equal(steps.from, STK__STEPS_NONE);
    done(t, &steps);
}

static void every_allocation_may_fail(void **state)
{
    for (int marked = 0; marked < 2; marked++) {
        stk__builder *b = start();
        const uint32_t main = track(b, 1, "stoker", 1, "consumer"), marks = track(b, 1, "stoker", 2, "steps");
        for (int64_t i = 0; i < 12; i++) {
            add(b, main, i * 10 * MS, 3 * MS, "wait for batch", "wait");
            if (marked)
                add(b, marks, i * 10 * MS + 4 * MS, 6 * MS, "step", "step");
        }
        stk__trace *t = finish(b);
        stk_status status = STK_NOMEM;
        uint64_t n = 0;
        while (status != STK_OK) {
            stk__steps steps = {0};
            stk_error err;
            stk_error_clear(&err);
            stk__alloc_fail_at(++n, false);
            status = stk__steps_find(t, &steps, &err);
            stk__alloc_fail_at(0, false);
            assert_true(status == STK_OK || status == STK_NOMEM);
            if (status != STK_OK)
                assert_null(steps.rows);
            stk__steps_clear(&steps);
        }
        assert_true(n > 5);
        stk__trace_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profiler_steps_carry_their_numbers),
        cmocka_unit_test(step_num_makes_a_marker_of_any_name),
        cmocka_unit_test(names_with_a_slash_or_of_a_file_are_no_markers),
        cmocka_unit_test(a_marker_that_holds_several_is_a_loop),
        cmocka_unit_test(the_profilers_steps_win_over_names_like_train),
        cmocka_unit_test(recorder_step_starts_at_the_wait_before_it),
        cmocka_unit_test(neighbours_that_overlap_by_rounding_both_stay),
        cmocka_unit_test(one_number_on_two_threads_is_one_step),
        cmocka_unit_test(processes_have_steps_of_their_own),
        cmocka_unit_test(device_steps_count_where_the_host_does_not_hold_them),
        cmocka_unit_test(a_name_that_comes_back_regularly_is_a_step),
        cmocka_unit_test(of_two_periods_the_one_that_covers_more_wins),
        cmocka_unit_test(ranges_that_count_are_steps),
        cmocka_unit_test(names_that_differ_in_a_number_repeat),
        cmocka_unit_test(an_input_wait_once_a_step_is_a_step),
        cmocka_unit_test(a_heartbeat_is_no_step),
        cmocka_unit_test(noise_has_no_steps),
        cmocka_unit_test(hostile_times_do_not_overflow),
        cmocka_unit_test(an_empty_trace_has_no_steps),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
