/* The slow stage: idle words, paths of iterators, ids that lie, and memory that runs out on each of the ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/diagnose_stage.h"
#include "base/mem.h"
#include "trace/builder.h"

enum { STEPS = 10 };

static const int64_t MS = 1000000;
static const char NEXT[] = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";

static stk__builder *new_builder(void)
{
    stk__builder *b = NULL;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__builder_new(&(stk__trace_options){0}, &b, &err), STK_OK);
    stk__builder_start_file(b, "made.json", "chrome");
    return b;
}

static uint32_t track(stk__builder *b, int64_t pid, int64_t tid)
{
    return stk__builder_thread_track(b, stk__builder_thread(b, stk__builder_process(b, pid, 0), tid, 0));
}

static void add(stk__builder *b, uint32_t on, int64_t ts, int64_t dur, const char *name, const char *category)
{
    stk__builder_slice(b, on, ts, dur, stk__builder_str(b, name), stk__builder_str(b, category), -1);
}

/* Steps of 10 ms, the first half of each a wait. */
static stk__builder *start(const char *wait)
{
    stk__builder *b = new_builder();
    const uint32_t main = track(b, 1, 1);
    for (int i = 0; i < STEPS; i++) {
        char name[32];
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        add(b, main, i * 10 * MS, 10 * MS, name, "user_annotation");
        add(b, main, i * 10 * MS, 5 * MS, wait, "user_annotation");
    }
    return b;
}

static void iterator(stk__builder *b, int64_t tid, int64_t ts, int64_t dur, const char *name, int64_t id,
                     int64_t parent)
{
    const uint32_t on = track(b, 1, tid);
    stk__builder_arg_int(b, stk__builder_str(b, "id"), id);
    if (parent)
        stk__builder_arg_int(b, stk__builder_str(b, "parent_id"), parent);
    add(b, on, ts, dur, name, "");
}

static stk__trace *finish(stk__builder *b)
{
    stk__trace *t = NULL;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__builder_finish(b, &t, &err), STK_OK);
    return t;
}

static stk__diagnosis *diagnose(const stk__trace *t)
{
    stk__diagnosis *d = NULL;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__diagnose(t, NULL, &d, &err), STK_OK);
    return d;
}

static void assert_first(const stk__diagnosis *d, stk__stage_kind kind, const char *label)
{
    char bytes[STK__LABEL_SIZE];
    stk__text text;
    stk__text_fixed(&text, bytes, sizeof bytes);
    assert_int_equal(d->stage.kind, kind);
    assert_true(d->stage.count > 0);
    stk__stage_row_label(d, &d->stage.rows[0], &text);
    assert_string_equal(bytes, label);
}

static void whole_words_sound_idle(void **state)
{
    static const char *const idle[] = {"wait",        "_wait",          "Condition.wait",   "wait_for_order",
                                       "waitForJob",  "worker idle",    "Connection._recv", "socket.accept",
                                       "select.poll", "wait for batch", "process 12:\"x\"", "std::queue::wait",
                                       "lock",        "epoll_wait",     "queueWait",        "sleep"};
    static const char *const busy[] = {"select_model", "Waiter", "joined", "unlock_pages", "decode",          "",
                                       "awaited",      ".",      "_",      "process",      "process x:\"y\"", "read"};
    for (size_t i = 0; i < STK_COUNT(idle); i++)
        if (!stk__sounds_idle(idle[i], strlen(idle[i])))
            fail_msg("not idle: '%s'", idle[i]);
    for (size_t i = 0; i < STK_COUNT(busy); i++)
        if (stk__sounds_idle(busy[i], strlen(busy[i])))
            fail_msg("idle: '%s'", busy[i]);
}

static bool same(const char *a, const char *b)
{
    return stk__stage_same_iterator(a, strlen(a), b, strlen(b));
}

static void elements_are_one_stage_and_inputs_are_not(void **state)
{
    assert_true(same("Iterator::Root::Interleave[0]::Map", "Iterator::Root::Interleave[12]::Map"));
    assert_true(
        same("Iterator::Root::ForeverRepeat[3]::FlatMap[1]::A", "Iterator::Root::ForeverRepeat::FlatMap[0]::A"));
    assert_false(same("Iterator::Root::Zip[0]::Map", "Iterator::Root::Zip[1]::Map"));
    assert_false(same("Iterator::Root::DirectedInterleave[0]::Map", "Iterator::Root::DirectedInterleave[1]::Map"));
    assert_false(same("Iterator::Root::Map", "Iterator::Root"));
    assert_false(same("Iterator::Root", "Iterator::Root::Map"));
}

/* Short names and ids alone: the tree is that of the ids, and pipelines with stages of one name are two. */
static stk__trace *pipelines(void)
{
    stk__builder *b = start("IteratorGetNext");
    for (int64_t i = 0; i < STEPS; i++) {
        iterator(b, 1, i * 10 * MS, 5 * MS, "Iterator::Root", 1, 0);
        iterator(b, 1, i * 10 * MS, 5 * MS, "Iterator::Prefetch", 2, 1);
        iterator(b, 2, i * 10 * MS, 4 * MS, "Iterator::Map", 3, 2);
        iterator(b, 3, i * 10 * MS, 9 * MS, "Iterator::Root", 4, 0);
        iterator(b, 3, i * 10 * MS, 9 * MS, "Iterator::Shuffle", 5, 4);
    }
    return finish(b);
}

static void ids_alone_make_the_tree(void **state)
{
    stk__trace *t = pipelines();
    stk__diagnosis *d = diagnose(t);
    assert_first(d, STK__STAGE_TF_DATA, "Map");
    assert_int_equal(d->stage.count, 2); /* Prefetch has the rest; the other pipeline is called by no loop */
    assert_true(d->stage.rows[0].share > 0.79 && d->stage.rows[0].share < 0.81);
    assert_int_equal(d->stage.rows[0].calls, STEPS);
    stk__diagnosis_free(d);
    stk__trace_free(t);
}

static void ids_may_lie(void **state)
{
    stk__builder *b = start("IteratorGetNext");
    for (int64_t i = 0; i < 5000; i++) { /* one long chain that bites its tail, and its own parents */
        iterator(b, 1 + i % 7, i * 10000, 9000, i % 2 ? "Iterator::A" : "Iterator::B", i, (i + 1) % 5000);
        iterator(b, 1 + i % 7, i * 10000, 9000, "Iterator::::", i, i);
    }
    stk__trace *t = finish(b);
    stk__diagnosis_free(diagnose(t));
    stk__trace_free(t);
}

/* A worker process in Python, with file and line in args. */
static stk__trace *workers(void)
{
    static const struct {
        const char *name, *file;
        int64_t ts, dur;
    } frames[] = {
        {"<module>", "/home/u/train.py", 0, 10},
        {"_worker_loop", "/v/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", 0, 10},
        {"DS.__getitem__", "/home/u/train.py", 0, 6},
        {"decode", "/v/lib/python3.11/site-packages/PIL/Image.py", 1, 4},
        {"Queue.get", "/usr/lib/python3.11/multiprocessing/queues.py", 6, 4},
    };
    stk__builder *b = start(NEXT);
    for (int64_t i = 0; i < STEPS; i++)
        for (size_t k = 0; k < STK_COUNT(frames); k++) {
            const uint32_t on = track(b, 2, 1);
            stk__builder_arg_string(b, stk__builder_str(b, "filename"), stk__builder_str(b, frames[k].file));
            stk__builder_arg_int(b, stk__builder_str(b, "line"), (int64_t)k + 1);
            add(b, on, (10 * i + frames[k].ts) * MS, frames[k].dur * MS, frames[k].name, "py");
        }
    return finish(b);
}

static void time_counts_for_the_innermost_own_function(void **state)
{
    stk__trace *t = workers();
    stk__diagnosis *d = diagnose(t);
    assert_first(d, STK__STAGE_WORKERS, "DS.__getitem__ (train.py:3)");
    assert_int_equal(d->stage.count, 1); /* the rest waits in the queue */
    assert_int_equal(d->stage.workers, 1);
    assert_true(d->stage.utilisation > 0.59 && d->stage.utilisation < 0.61);
    stk__diagnosis_free(d);
    stk__trace_free(t);
}

static stk__trace *inside(void)
{
    stk__builder *b = start(NEXT);
    for (int64_t i = 0; i < STEPS; i++) {
        const uint32_t on = track(b, 1, 1);
        add(b, on, i * 10 * MS + MS, 4 * MS, "data/load.py(7): read", "python_function");
        add(b, on, i * 10 * MS + MS, 3 * MS, "<built-in function sleep>", "python_function");
    }
    return finish(b);
}

static void sleep_of_an_own_function_is_its_own(void **state)
{
    stk__trace *t = inside();
    stk__diagnosis *d = diagnose(t);
    assert_first(d, STK__STAGE_INSIDE, "read (load.py:7)");
    assert_true(d->stage.rows[0].share > 0.79 && d->stage.rows[0].share < 0.81 && !d->stage.rows[0].is_wait);
    assert_true(d->stage.count == 2 && d->stage.rows[1].is_wait);
    stk__diagnosis_free(d);
    stk__trace_free(t);
}

static void allocations_fail(stk__trace *t)
{
    stk_status status = STK_NOMEM;
    uint64_t n = 0;
    while (status != STK_OK) {
        stk__diagnosis *d = NULL;
        stk_error err;
        stk_error_clear(&err);
        stk__alloc_fail_at(++n, false);
        status = stk__diagnose(t, NULL, &d, &err);
        stk__alloc_fail_at(0, false);
        assert_true(status == STK_OK || status == STK_NOMEM);
        assert_true((d != NULL) == (status == STK_OK));
        stk__diagnosis_free(d);
    }
    assert_true(n > 20);
    stk__trace_free(t);
}

static void every_allocation_may_fail(void **state)
{
    allocations_fail(pipelines());
    allocations_fail(workers());
    allocations_fail(inside());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_words_sound_idle),
        cmocka_unit_test(elements_are_one_stage_and_inputs_are_not),
        cmocka_unit_test(ids_alone_make_the_tree),
        cmocka_unit_test(ids_may_lie),
        cmocka_unit_test(time_counts_for_the_innermost_own_function),
        cmocka_unit_test(sleep_of_an_own_function_is_its_own),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
