/* What the training thread does on its own: functions by name and by what they call, and what the user says. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/diagnose_impl.h"
#include "base/mem.h"
#include "trace/builder.h"

enum { US = 1000, MS = 1000 * US, STEPS = 10 };

typedef struct made {
    stk__builder *b;
    uint32_t main, other, stream;
} made;

static uint32_t track(stk__builder *b, int64_t pid, int64_t tid, const char *thread)
{
    const uint32_t p = stk__builder_process(b, pid, 0);
    stk__builder_process_at(b, p)->name = stk__builder_str(b, "python");
    const uint32_t t = stk__builder_thread(b, p, tid, 0);
    stk__builder_thread_at(b, t)->name = stk__builder_str(b, thread);
    return stk__builder_thread_track(b, t);
}

static void add(stk__builder *b, uint32_t on, int64_t ts, int64_t dur, const char *name, const char *category)
{
    stk__builder_slice(b, on, ts, dur, stk__builder_str(b, name), stk__builder_str(b, category), -1);
}

static made start(const char *marker)
{
    made m = {0};
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__builder_new(&(stk__trace_options){0}, &m.b, &err), STK_OK);
    stk__builder_start_file(m.b, "made.json", "chrome");
    m.main = track(m.b, 1, 1, "main");
    m.other = track(m.b, 1, 2, "prefetch");
    m.stream = track(m.b, 0, 7, "stream 7");
    for (int i = 0; marker && i < STEPS; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s%d", marker, i);
        add(m.b, m.main, i * 10 * MS, 10 * MS, name, "user_annotation");
    }
    return m;
}

static void in_steps(made *m, uint32_t on, int64_t ts, int64_t dur, const char *name, const char *category)
{
    for (int i = 0; i < STEPS; i++)
        add(m->b, on, i * 10 * MS + ts, dur, name, category);
}

#define PYTHON "python_function"

static void backward(made *m, int64_t ts, int64_t dur)
{
    in_steps(m, m->main, ts, dur, "torch/autograd/graph.py(3): run", PYTHON);
    in_steps(m, m->main, ts, dur, "autograd::engine::evaluate_function: MmBackward0", "cpu_op");
}

typedef struct answer {
    stk__trace *t;
    stk__diagnosis *d;
} answer;

static answer ask(made *m, const stk__diagnose_options *options)
{
    answer a = {0};
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__builder_finish(m->b, &a.t, &err), STK_OK);
    assert_int_equal(stk__diagnose(a.t, options, &a.d, &err), STK_OK);
    return a;
}

static void done(answer *a)
{
    stk__diagnosis_free(a->d);
    stk__trace_free(a->t);
}

static bool near(double x, double y)
{
    return fabs(x - y) < 1e-6;
}

static bool named(const answer *a, const char *name)
{
    return a->d->host.at.name && strcmp(stk__trace_str(a->t, a->d->host.at.name), name) == 0;
}

/* ---- what is not known is not denied ---- */

static void time_without_events_is_unknown(void **state)
{
    (void)state;
    made m = start("ProfilerStep#");
    in_steps(&m, m.main, 0, 9 * MS, "aten::mm", "cpu_op");
    answer a = ask(&m, NULL);
    assert_int_equal(a.d->verdict, STK__VERDICT_UNKNOWN);
    assert_true(near(a.d->open_percent, 10));
    assert_non_null(a.d->reason);
    done(&a);
    m = start("ProfilerStep#");
    in_steps(&m, m.main, 0, 9600 * US, "aten::mm", "cpu_op"); /* 4 % are too few to change the verdict */
    a = ask(&m, NULL);
    assert_int_equal(a.d->verdict, STK__VERDICT_NOT);
    done(&a);
}

static void a_wait_that_is_seen_leaves_no_question(void **state)
{
    (void)state;
    made m = start("ProfilerStep#");
    in_steps(&m, m.main, 0, MS / 10, "data", "user_annotation");
    in_steps(&m, m.main, MS, 7 * MS, "aten::mm", "cpu_op");
    answer a = ask(&m, NULL);
    assert_int_equal(a.d->verdict, STK__VERDICT_NOT);
    done(&a);
}

/* A loader that only the evaluation uses says nothing about training. */
static void a_wait_in_few_steps_leaves_the_question(void **state)
{
    (void)state;
    made m = start("ProfilerStep#");
    add(m.b, m.main, 0, MS / 10, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "user_annotation");
    in_steps(&m, m.main, 5 * MS, 5 * MS, "aten::mm", "cpu_op");
    answer a = ask(&m, NULL);
    assert_int_equal(a.d->verdict, STK__VERDICT_UNKNOWN);
    done(&a);
}

/* ---- functions ---- */

static void a_function_is_input_by_its_name(void **state)
{
    (void)state;
    made m = start("ProfilerStep#");
    add(m.b, m.main, 0, 100 * MS, "train.py(1): <module>", PYTHON);
    in_steps(&m, m.main, 0, 6 * MS, "train.py(9): get_batch", PYTHON);
    in_steps(&m, m.main, MS, 4 * MS, "aten::stack", "cpu_op"); /* part of the fetch */
    backward(&m, 6 * MS, 4 * MS);
    answer a = ask(&m, NULL);
    assert_int_equal(a.d->verdict, STK__VERDICT_HIGHLY);
    assert_true(near(a.d->input_percent, 60));
    assert_true(named(&a, "train.py(9): get_batch"));
    assert_int_equal(a.d->stage.kind, STK__STAGE_HOST);
    done(&a);
}

static void a_function_is_input_by_what_it_calls(void **state)
{
    (void)state;
    made m = start("ProfilerStep#");
    add(m.b, m.main, 0, 100 * MS, "train.py(1): <module>", PYTHON);
    in_steps(&m, m.main, 0, 5 * MS, "train.py(9): step_a", PYTHON);
    in_steps(&m, m.main, 0, 4 * MS, "<built-in function decompress>", PYTHON);
    backward(&m, 5 * MS, 5 * MS);
    answer a = ask(&m, NULL);
    assert_true(near(a.d->input_percent, 50) && a.d->host.because.name);
    done(&a);
}

static void a_function_that_says_nothing_is_a_question(void **state)
{
    (void)state;
    made m = start("ProfilerStep#");
    add(m.b, m.main, 0, 100 * MS, "train.py(1): <module>", PYTHON);
    in_steps(&m, m.main, 0, 3 * MS, "train.py(9): step_b", PYTHON);
    in_steps(&m, m.main, 0, 2 * MS, "aten::sum", "cpu_op");
    backward(&m, 3 * MS, 7 * MS);
    answer a = ask(&m, NULL);
    assert_int_equal(a.d->verdict, STK__VERDICT_UNKNOWN);
    assert_true(near(a.d->open_percent, 30) && named(&a, "train.py(9): step_b"));
    done(&a);
}

static void writing_and_metrics_are_no_input(void **state)
{
    (void)state;
    static const char *const functions[] = {"train.py(9): save_checkpoint", "train.py(9): metrics"};
    for (size_t i = 0; i < STK_COUNT(functions); i++) {
        made m = start("ProfilerStep#");
        add(m.b, m.main, 0, 100 * MS, "train.py(1): <module>", PYTHON);
        in_steps(&m, m.main, 0, 3 * MS, functions[i], PYTHON);
        backward(&m, 3 * MS, 7 * MS);
        answer a = ask(&m, NULL);
        assert_int_equal(a.d->verdict, STK__VERDICT_NOT);
        done(&a);
    }
}

/* Lambdas have no names; what they call has. */
static void nameless_functions_are_looked_into(void **state)
{
    (void)state;
    made m = start("ProfilerStep#");
    add(m.b, m.main, 0, 100 * MS, "train.py(1): <module>", PYTHON);
    in_steps(&m, m.main, 0, 5 * MS, "train.py(9): <lambda>", PYTHON);
    in_steps(&m, m.main, 0, 5 * MS, "<built-in function next>", PYTHON);
    in_steps(&m, m.main, 0, 5 * MS, "train.py(12): batches", PYTHON);
    backward(&m, 5 * MS, 5 * MS);
    answer a = ask(&m, NULL);
    assert_true(near(a.d->input_percent, 50) && named(&a, "train.py(12): batches"));
    done(&a);
}

/* A function around whole steps is the loop, whatever it is called. */
static void the_loop_is_no_fetch(void **state)
{
    (void)state;
    made m = start("ProfilerStep#");
    add(m.b, m.main, 0, 100 * MS, "train.py(1): read_and_run", PYTHON);
    in_steps(&m, m.main, 0, 2 * MS, "train.py(9): load", PYTHON);
    in_steps(&m, m.main, 2 * MS, 8 * MS, "other/lib.py(3): compute_loss", PYTHON);
    answer a = ask(&m, NULL);
    assert_true(near(a.d->input_percent, 20));
    done(&a);
}

static void what_another_thread_loads_is_nobodys_wait(void **state)
{
    (void)state;
    made m = start("ProfilerStep#");
    in_steps(&m, m.other, 0, 10 * MS, "train.py(9): load", PYTHON);
    in_steps(&m, m.other, 0, 10 * MS, "data", "user_annotation");
    in_steps(&m, m.main, 0, 10 * MS, "aten::mm", "cpu_op");
    answer a = ask(&m, NULL);
    assert_int_equal(a.d->verdict, STK__VERDICT_NOT);
    assert_true(near(a.d->input_percent, 0));
    done(&a);
}

/* With a device: its work counts first, and ops of the host that launch nothing are a question. */
static void host_ops_without_launches_are_a_question(void **state)
{
    (void)state;
    made m = start("ProfilerStep#");
    in_steps(&m, m.main, 0, 4 * MS, "aten::stack", "cpu_op");
    in_steps(&m, m.main, 4 * MS, MS, "aten::mm", "cpu_op");
    in_steps(&m, m.main, 4 * MS, MS, "cudaLaunchKernel", "cuda_runtime");
    in_steps(&m, m.stream, 4 * MS, 6 * MS, "gemm", "kernel");
    answer a = ask(&m, NULL);
    assert_int_equal(a.d->verdict, STK__VERDICT_UNKNOWN);
    assert_true(near(a.d->open_percent, 40) && named(&a, "aten::stack"));
    done(&a);
    m = start("ProfilerStep#");
    in_steps(&m, m.main, 0, 4 * MS, "aten::stack", "cpu_op");
    in_steps(&m, m.stream, 0, 10 * MS, "gemm", "kernel");
    a = ask(&m, NULL);
    assert_int_equal(a.d->verdict, STK__VERDICT_NOT);
    done(&a);
}

/* A span called "batch" that holds the optimizer is the step. */
static void spans_around_the_training_are_no_waits(void **state)
{
    (void)state;
    made m = start("ProfilerStep#");
    in_steps(&m, m.main, 0, 10 * MS, "batch", "user_annotation");
    in_steps(&m, m.main, MS, 8 * MS, "Optimizer.step#SGD.step", "user_annotation");
    in_steps(&m, m.main, 0, 10 * MS, "aten::mm", "cpu_op");
    answer a = ask(&m, NULL);
    assert_true(near(a.d->input_percent, 0));
    done(&a);
}

/* ---- what the user says ---- */

static void told_waits_and_steps_count(void **state)
{
    (void)state;
    static const char *const waits[] = {"prep*"}, *const steps[] = {"go"};
    made m = start(NULL);
    in_steps(&m, m.main, 0, 3 * MS, "prepare", "");
    in_steps(&m, m.main, 3 * MS, 7 * MS, "go", "");
    in_steps(&m, m.main, 4 * MS, MS, "data", ""); /* not what the user said */
    const stk__diagnose_options options = {.told = {.waits = waits, .wait_count = 1, .steps = steps, .step_count = 1}};
    answer a = ask(&m, &options);
    assert_int_equal(a.d->figure_count, STEPS - 1); /* the last has no next */
    assert_true(near(a.d->input_percent, 30));
    done(&a);
}

static void a_pattern_that_matches_nothing_is_told(void **state)
{
    (void)state;
    static const char *const waits[] = {"nothing*"};
    made m = start("ProfilerStep#");
    in_steps(&m, m.main, 0, 5 * MS, "data", "user_annotation");
    const stk__diagnose_options options = {.told = {.waits = waits, .wait_count = 1}};
    answer a = ask(&m, &options);
    bool told = false;
    for (size_t i = 0; i < a.d->evidence_count; i++)
        told = told || strstr(a.d->evidence[i], "matches --wait");
    assert_true(told && near(a.d->input_percent, 50));
    done(&a);
}

static void ranks_can_be_chosen(void **state)
{
    (void)state;
    made m = start("ProfilerStep#");
    in_steps(&m, m.main, 0, 10 * MS, "aten::mm", "cpu_op");
    const uint32_t second = track(m.b, 2, 9, "main");
    in_steps(&m, second, 0, 10 * MS, "ProfilerStep#1", "user_annotation");
    in_steps(&m, second, 0, 5 * MS, "data", "user_annotation");
    stk__trace *t = NULL;
    stk__diagnosis *d = NULL;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__builder_finish(m.b, &t, &err), STK_OK);
    for (int64_t rank = 0; rank < 2; rank++) {
        const stk__diagnose_options options = {.one_rank = true, .rank = rank};
        assert_int_equal(stk__diagnose(t, &options, &d, &err), STK_OK);
        assert_true(near(d->input_percent, rank ? 50 : 0) && d->rank_count == 1);
        stk__diagnosis_free(d);
    }
    const stk__diagnose_options third = {.one_rank = true, .rank = 2};
    assert_int_equal(stk__diagnose(t, &third, &d, &err), STK_INVALID);
    stk__trace_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_without_events_is_unknown),
        cmocka_unit_test(a_wait_that_is_seen_leaves_no_question),
        cmocka_unit_test(a_wait_in_few_steps_leaves_the_question),
        cmocka_unit_test(a_function_is_input_by_its_name),
        cmocka_unit_test(a_function_is_input_by_what_it_calls),
        cmocka_unit_test(a_function_that_says_nothing_is_a_question),
        cmocka_unit_test(writing_and_metrics_are_no_input),
        cmocka_unit_test(nameless_functions_are_looked_into),
        cmocka_unit_test(the_loop_is_no_fetch),
        cmocka_unit_test(what_another_thread_loads_is_nobodys_wait),
        cmocka_unit_test(host_ops_without_launches_are_a_question),
        cmocka_unit_test(spans_around_the_training_are_no_waits),
        cmocka_unit_test(told_waits_and_steps_count),
        cmocka_unit_test(a_pattern_that_matches_nothing_is_told),
        cmocka_unit_test(ranks_can_be_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
