/* The verdict: XProf's priorities and thresholds to the nanosecond, stages, gaps, what-ifs, and hostile traces. */
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

#define NEXT "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"

typedef struct made {
    stk__builder *b;
    uint32_t main, stream, other; /* tracks */
} made;

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

static stk__builder *new_builder(void)
{
    stk__builder *b = NULL;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__builder_new(&(stk__trace_options){0}, &b, &err), STK_OK);
    stk__builder_start_file(b, "made.json", "chrome");
    return b;
}

/* Steps of 10 ms of PyTorch, with nothing in them. */
static made start(void)
{
    made m = {.b = new_builder()};
    m.main = track(m.b, 1, "python", 1, "main");
    m.other = track(m.b, 1, "python", 2, "autograd");
    m.stream = track(m.b, 0, "python", 7, "stream 7");
    for (int i = 0; i < STEPS; i++) {
        char name[32];
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        add(m.b, m.main, i * 10 * MS, 10 * MS, name, "user_annotation");
    }
    return m;
}

/* The same slice in each step. */
static void in_steps(made *m, uint32_t on, int64_t ts, int64_t dur, const char *name, const char *category)
{
    for (int i = 0; i < STEPS; i++)
        add(m->b, on, i * 10 * MS + ts, dur, name, category);
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

static double part(const stk__diagnosis *d, stk__event_type type)
{
    return stk__percent_of(d->type_ns[type], d->step_ns);
}

static bool near(double x, double y)
{
    return fabs(x - y) < 1e-6;
}

static void end(stk__trace *t, stk__diagnosis *d)
{
    stk__diagnosis_free(d);
    stk__trace_free(t);
}

/* ---- thresholds ---- */

static void verdict_for(int64_t wait_ns, stk__verdict wanted)
{
    made m = start();
    in_steps(&m, m.main, 0, wait_ns, NEXT, "user_annotation");
    in_steps(&m, m.stream, wait_ns, 10 * MS - wait_ns, "gemm", "kernel");
    stk__trace *t = finish(m.b);
    stk__diagnosis *d = diagnose(t);
    assert_int_equal(stk__diagnosis_verdict(d), wanted);
    assert_true(near(d->input_percent, 100.0 * (double)wait_ns / (10.0 * MS)));
    end(t, d);
}

static void thresholds_are_5_and_20_percent(void **state)
{
    verdict_for(500 * US - 1, STK__VERDICT_NOT);
    verdict_for(500 * US, STK__VERDICT_MODERATELY);
    verdict_for(2000 * US - 1, STK__VERDICT_MODERATELY);
    verdict_for(2000 * US, STK__VERDICT_HIGHLY);
    verdict_for(10 * MS, STK__VERDICT_HIGHLY);
}

static void a_share_just_under_a_threshold_is_not_printed_as_it(void **state)
{
    made m = start();
    in_steps(&m, m.main, 0, 1999 * US, NEXT, "user_annotation");
    in_steps(&m, m.stream, 1999 * US, 8001 * US, "gemm", "kernel");
    stk__trace *t = finish(m.b);
    stk__diagnosis *d = diagnose(t);
    stk__text text = STK__TEXT_INIT;
    stk__diagnosis_text(d, &text);
    assert_non_null(
        strstr(text.data, "Input-bound: 19.990 % of step time waits for data (MODERATELY, threshold 5 %)."));
    stk__text_clear(&text);
    end(t, d);
}

static void time_without_events_makes_it_potentially_input_bound(void **state)
{
    made m = start();
    in_steps(&m, m.main, 0, 100 * US, NEXT, "user_annotation");
    in_steps(&m, m.stream, 100 * US, 9600 * US, "gemm", "kernel"); /* 3 % are left */
    stk__trace *t = finish(m.b);
    stk__diagnosis *d = diagnose(t);
    stk__text text = STK__TEXT_INIT;
    assert_int_equal(stk__diagnosis_verdict(d), STK__VERDICT_NOT);
    assert_true(near(d->other_percent, 3));
    stk__diagnosis_json(d, &text);
    assert_non_null(strstr(text.data, "\"potentially_input_bound\":true"));
    stk__text_clear(&text);
    end(t, d);
}

/* ---- priorities ---- */

static void the_highest_priority_counts(void **state)
{
    made m = start();
    /* Layers over each other, each from its own start to the step's end: the later ones have the higher priority. */
    in_steps(&m, m.other, 0, 10 * MS, "aten::conv2d", "cpu_op");
    in_steps(&m, m.main, 1 * MS, 9 * MS, "cudaLaunchKernel", "cuda_runtime");
    in_steps(&m, track(m.b, 0, "python", 8, "stream 8"), 2 * MS, 8 * MS, "ncclDevKernel_AllReduce", "kernel");
    in_steps(&m, m.main, 3 * MS, 7 * MS, NEXT, "user_annotation");
    in_steps(&m, track(m.b, 0, "python", 9, "stream 9"), 4 * MS, 6 * MS, "Memcpy DtoD (Device -> Device)",
             "gpu_memcpy");
    in_steps(&m, track(m.b, 0, "python", 10, "stream 10"), 5 * MS, 5 * MS, "Memcpy DtoH (Device -> Pinned)",
             "gpu_memcpy");
    in_steps(&m, m.stream, 6 * MS, 4 * MS, "sgemm", "kernel");
    in_steps(&m, track(m.b, 0, "python", 11, "stream 11"), 7 * MS, 3 * MS, "half_gemm", "kernel");
    /* The lowest but one of these: only seen where nothing else is, which is nowhere. */
    in_steps(&m, track(m.b, 0, "python", 12, "stream 12"), 0, 10 * MS, "Memcpy HtoD (Pageable -> Device)",
             "gpu_memcpy");
    stk__trace *t = finish(m.b);
    stk__diagnosis *d = diagnose(t);
    assert_true(near(part(d, STK__HOST_TO_DEVICE), 10)); /* over host compute, under launches */
    assert_true(near(part(d, STK__HOST_COMPUTE), 0));
    assert_true(near(part(d, STK__HOST_PREPARE), 10));
    assert_true(near(part(d, STK__DEVICE_COLLECTIVES), 10));
    assert_true(near(part(d, STK__HOST_WAIT_INPUT), 10));
    assert_true(near(part(d, STK__DEVICE_TO_DEVICE), 10));
    assert_true(near(part(d, STK__DEVICE_TO_HOST), 10));
    assert_true(near(part(d, STK__DEVICE_COMPUTE_32), 10));
    assert_true(near(part(d, STK__DEVICE_COMPUTE_16), 30));
    assert_true(near(d->input_percent, 20));
    end(t, d);
}

static void waits_of_a_prefetching_thread_do_not_count(void **state)
{
    made m = start();
    in_steps(&m, m.main, 0, MS, NEXT, "user_annotation");
    in_steps(&m, m.other, 2 * MS, 5 * MS, NEXT, "user_annotation");
    stk__trace *t = finish(m.b);
    stk__diagnosis *d = diagnose(t);
    assert_true(near(d->input_percent, 10));
    end(t, d);
}

static void python_frames_and_annotations_are_no_work(void **state)
{
    made m = start();
    in_steps(&m, m.main, 0, 10 * MS, "train.py(3): main", "python_function");
    in_steps(&m, m.main, 0, 5 * MS, "forward", "user_annotation");
    in_steps(&m, m.main, 0, MS, "torch/utils/data/dataloader.py(630): __next__", "python_function");
    in_steps(&m, m.stream, MS, 4 * MS, "gemm", "kernel");
    stk__trace *t = finish(m.b);
    stk__diagnosis *d = diagnose(t);
    assert_true(near(d->input_percent, 10));
    assert_true(near(stk__percent_of(d->type_ns[STK__HOST_BETWEEN], d->step_ns), 50)); /* lines of main() */
    end(t, d);
}

static void root_iterators_count_only_without_the_op_around_them(void **state)
{
    for (int with_op = 0; with_op < 2; with_op++) {
        made m = start();
        in_steps(&m, m.other, 0, 3 * MS, "Iterator::Root", "");
        in_steps(&m, m.other, 0, 3 * MS, "Iterator::Root::Map", "");
        if (with_op)
            in_steps(&m, m.main, 0, MS, "IteratorGetNext", "");
        stk__trace *t = finish(m.b);
        stk__diagnosis *d = diagnose(t);
        assert_true(near(d->input_percent, with_op ? 10 : 30));
        end(t, d);
    }
}

/* TensorFlow's steps of 10 ms: 1 ms waits for data where the device works, which is the last `work` of them; else 9. */
static stk__trace *starved(int64_t work)
{
    made m = {.b = new_builder()};
    m.main = track(m.b, 1, "/host:CPU", 1, "python");
    m.stream = track(m.b, 2, "/device:GPU:0", 14, "Stream #14(Compute)");
    for (int64_t i = 0; i < STEPS; i++) {
        const bool works = i >= STEPS - work;
        stk__builder_arg_int(m.b, stk__builder_str(m.b, "step_num"), i);
        add(m.b, m.main, i * 10 * MS, 10 * MS, "train", "");
        add(m.b, m.main, i * 10 * MS, works ? MS : 9 * MS, "IteratorGetNext", "");
        add(m.b, m.stream, i * 10 * MS + MS, works ? 9 * MS : 0, "gemm", "");
    }
    return finish(m.b);
}

static void assert_told(const stk__diagnosis *d, const char *wanted)
{
    stk__text text = STK__TEXT_INIT;
    stk__diagnosis_text(d, &text);
    assert_non_null(text.data);
    assert_non_null(strstr(text.data, wanted));
    stk__text_clear(&text);
}

static void steps_of_a_starved_device_count(void **state)
{
    char told[64];
    stk__trace *t = starved(0); /* the device only shows up */
    stk__diagnosis *d = diagnose(t);
    assert_int_equal(d->figure_count, STEPS);
    assert_true(near(d->input_percent, 90));
    assert_int_equal(stk__diagnosis_verdict(d), STK__VERDICT_HIGHLY);
    end(t, d);
    t = starved(STEPS / 2 - 1);
    d = diagnose(t);
    assert_int_equal(d->figure_count, STEPS);
    assert_true(near(d->input_percent, (90.0 * (STEPS / 2 + 1) + 10.0 * (STEPS / 2 - 1)) / STEPS));
    snprintf(told, sizeof told, "In %d of the steps the device computes nothing", STEPS / 2 + 1);
    assert_told(d, told);
    end(t, d);
    t = starved(STEPS / 2); /* half of them is enough */
    d = diagnose(t);
    assert_int_equal(d->figure_count, STEPS / 2);
    assert_int_equal(d->figures[0].number, STEPS / 2);
    assert_true(near(d->input_percent, 10));
    snprintf(told, sizeof told, "%d steps left out", STEPS / 2);
    assert_told(d, told);
    end(t, d);
}

static void steps_without_device_work_are_left_out_as_in_xprof(void **state)
{
    made m = {.b = new_builder()};
    m.main = track(m.b, 1, "/host:CPU", 1, "python");
    m.stream = track(m.b, 2, "/device:GPU:0", 14, "Stream #14(Compute)");
    for (int64_t i = 0; i < STEPS; i++) {
        stk__builder_arg_int(m.b, stk__builder_str(m.b, "step_num"), i);
        add(m.b, m.main, i * 10 * MS, 10 * MS, "train", "");
        add(m.b, m.main, i * 10 * MS, i ? MS : 9 * MS, "IteratorGetNext", "");
        if (i)
            add(m.b, m.stream, i * 10 * MS + MS, 9 * MS, "gemm", "");
    }
    stk__trace *t = finish(m.b);
    stk__diagnosis *d = diagnose(t);
    assert_int_equal(d->figure_count, STEPS - 1);
    assert_true(near(d->input_percent, 10));
    end(t, d);
}

static void hints_lower_the_confidence(void **state)
{
    made m = start();
    in_steps(&m, m.main, 0, 3 * MS, "get_batch", "span");
    in_steps(&m, m.main, 3 * MS, 7 * MS, "forward", "span");
    stk__trace *t = finish(m.b);
    stk__diagnosis *d = diagnose(t);
    assert_true(near(d->input_percent, 30));
    assert_true(d->hints_only && d->confidence < 0.7);
    end(t, d);

    m = start();
    in_steps(&m, m.main, 0, 3 * MS, "get_batch", "span"); /* with a certain wait, the hint means nothing */
    in_steps(&m, m.main, 4 * MS, MS, NEXT, "user_annotation");
    t = finish(m.b);
    d = diagnose(t);
    assert_true(near(d->input_percent, 10));
    assert_false(d->hints_only);
    end(t, d);
}

/* ---- stages ---- */

static void blocking_time_goes_to_the_iterator_that_explains_it(void **state)
{
    made m = start();
    const uint32_t pool = track(m.b, 1, "python", 3, "pool"), second = track(m.b, 1, "python", 4, "pool");
    in_steps(&m, m.main, 0, 5 * MS, "IteratorGetNext", "");
    in_steps(&m, m.main, 0, 5 * MS, "Iterator::Root", "");
    in_steps(&m, m.main, 0, 5 * MS, "Iterator::Root::Prefetch", "");
    /* Two calls of the map at once explain [1, 4) once; a third one blocks nobody. */
    in_steps(&m, pool, 1 * MS, 2 * MS, "Iterator::Root::Prefetch::Map", "");
    in_steps(&m, second, 2 * MS, 2 * MS, "Iterator::Root::Prefetch::Map", "");
    in_steps(&m, pool, 6 * MS, 3 * MS, "Iterator::Root::Prefetch::Map", "");
    /* The level between has no slices. */
    in_steps(&m, second, 2 * MS, MS, "Iterator::Root::Prefetch::Map::Shard::TFRecord[0]", "");
    stk__trace *t = finish(m.b);
    stk__diagnosis *d = diagnose(t);
    assert_int_equal(d->stage.kind, STK__STAGE_TF_DATA);
    assert_true(near(d->stage.total_ns, 50.0 * MS));
    size_t size;
    static const struct {
        const char *label;
        double share;
    } wanted[] = {{"Map", 0.4}, {"Prefetch", 0.4}, {"TFRecord", 0.2}};
    assert_int_equal(d->stage.count, 3);
    for (size_t i = 0; i < 3; i++) {
        bool found = false;
        for (size_t k = 0; k < 3; k++) {
            const char *label = stk__stage_label(d, d->stage.rows[k].name, &size);
            if (size == strlen(wanted[i].label) && memcmp(label, wanted[i].label, size) == 0)
                found = near(d->stage.rows[k].share, wanted[i].share);
        }
        assert_true(found);
    }
    end(t, d);
}

static void recorder_trace(stk__builder *b, int64_t wait)
{
    const uint32_t main = track(b, 1, "stoker", 1, "consumer"), marks = track(b, 1, "stoker", 9, "steps"),
                   worker = track(b, 1, "stoker", 2, "worker 0");
    for (int64_t i = 0; i < STEPS; i++) {
        const int64_t ts = i * 10 * MS;
        add(b, marks, ts, 10 * MS, "step", "step");
        if (wait)
            add(b, main, ts, wait, "wait for batch", "wait");
        add(b, worker, ts, 10 * MS, "unit", "work");
        add(b, worker, ts, 2 * MS, "parse", "op");
        add(b, worker, ts + 2 * MS, 8 * MS, "decode_image", "op");
        add(b, worker, ts + 3 * MS, 1 * MS, "wait: block is being decoded", "wait");
    }
}

static void workers_that_are_always_busy_set_the_pace(void **state)
{
    stk__builder *b = new_builder();
    recorder_trace(b, 3 * MS);
    stk__trace *t = finish(b);
    stk__diagnosis *d = diagnose(t);
    assert_int_equal(d->stage.kind, STK__STAGE_OPS);
    assert_string_equal(stk__trace_str(t, d->stage.rows[0].name), "decode_image");
    assert_true(near(d->stage.rows[0].share, 7.0 / 9)); /* its wait is no work */
    assert_true(near(d->stage.utilisation, 0.9));
    /* Half of 7/9 is more than the wait: the step shrinks by the wait, and no more. */
    assert_true(near(d->what_ifs[0].step_percent, -30));
    assert_true(near(d->what_ifs[0].input_percent, 0));
    /* 2/9 of the work, half of it gone: 1/9 of the step. */
    assert_true(near(d->what_ifs[1].step_percent, -100.0 / 9));
    assert_true(near(part(d, STK__HOST_COMPUTE), 70));
    end(t, d);
}

/* ---- gaps ---- */

/* What the recorder lost, kept too short to show, or did before the first step is in its totals. */
static void totals_of_the_recorder_count_in_place_of_slices(void **state)
{
    stk__builder *b = new_builder();
    recorder_trace(b, 3 * MS);
    const stk__string row = stk__builder_str(b, "worker 0"), op = stk__builder_str(b, "decode_image");
    stk__builder_total(b, row, stk__builder_str(b, "parse"), 500, 30 * MS, 0); /* all of them brief */
    stk__builder_total(b, row, op, 40, 90 * MS, 3);
    stk__builder_total(b, row, stk__builder_str(b, "wait: batches ahead are full"), 9, 1000 * MS, 0);
    stk__builder_total(b, stk__builder_str(b, "consumer"), op, 1, 1000 * MS, 0);
    stk__trace *t = finish(b);
    stk__diagnosis *d = diagnose(t);
    assert_string_equal(stk__trace_str(t, d->stage.rows[0].name), "decode_image");
    assert_true(near(d->stage.rows[0].ns, 80.0 * MS)); /* without the wait inside */
    assert_int_equal(d->stage.rows[0].calls, 40);
    bool found = false;
    for (size_t i = 1; i < d->stage.count; i++) {
        if (strcmp(stk__trace_str(t, d->stage.rows[i].name), "parse") == 0) {
            found = true;
            assert_true(near(d->stage.rows[i].ns, 30.0 * MS));
            assert_int_equal(d->stage.rows[i].calls, 500);
        }
    }
    assert_true(found);
    assert_true(d->stage.utilisation <= 1);
    end(t, d);
}

static void one_worker_is_told_as_one_and_the_fetch_stays_where_it_is(void **state)
{
    stk__builder *b = new_builder();
    const uint32_t main = track(b, 1, "stoker", 1, "consumer"), marks = track(b, 1, "stoker", 9, "steps"),
                   worker = track(b, 1, "stoker", 2, "worker 0");
    for (int64_t i = 0; i < STEPS; i++) {
        add(b, main, (10 * i + 2) * MS, 3 * MS, "wait for batch", "wait");
        add(b, marks, (10 * i + 5) * MS, 5 * MS, "step", "step");
        add(b, worker, 10 * i * MS, 9 * MS, "parse", "op");
    }
    stk__trace *t = finish(b);
    stk__diagnosis *d = diagnose(t);
    stk__text text = STK__TEXT_INIT;
    stk__diagnosis_text(d, &text);
    assert_true(d->input_percent > 30); /* 3 of 8 ms, but for the first step, whose wait is not known to be its own */
    assert_non_null(strstr(text.data, "lies between the steps and is not counted; waits for batches are counted"));
    assert_non_null(strstr(text.data, "; 1 worker, busy"));
    assert_null(strstr(text.data, "1 workers"));
    assert_null(strstr(text.data, "inside the marker"));
    stk__text_clear(&text);
    end(t, d);
}

static void median_of_an_even_count_lies_between_the_two(void **state)
{
    stk__builder *b = new_builder();
    const uint32_t main = track(b, 1, "python", 1, "main");
    const int64_t durs[] = {10 * MS, 20 * MS, 30 * MS, 40 * MS};
    int64_t ts = 0;
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        add(b, main, ts, durs[i], name, "user_annotation");
        ts += durs[i];
    }
    stk__trace *t = finish(b);
    stk__diagnosis *d = diagnose(t);
    assert_int_equal(d->median_ns, 25 * MS);
    end(t, d);
}

static void whole_numbers_are_written_as_such(void **state)
{
    made m = start();
    in_steps(&m, m.main, 0, 2 * MS, NEXT, "user_annotation");
    stk__trace *t = finish(m.b);
    stk__diagnosis *d = diagnose(t);
    stk__text text = STK__TEXT_INIT;
    stk__diagnosis_json(d, &text);
    assert_non_null(strstr(text.data, "\"ns\":20000000}"));
    assert_null(strstr(text.data, "e+"));
    stk__text_clear(&text);
    end(t, d);
}

/* A file per rank; the second one waits more. */
static void ranks_are_named_and_the_what_if_is_of_the_worst(void **state)
{
    made m = {.b = new_builder()};
    for (int r = 0; r < 2; r++) {
        if (r)
            stk__builder_start_file(m.b, "rank1.json", "chrome");
        stk__builder_file(m.b)->rank = r;
        m.main = track(m.b, 1, "python", 1, "main");
        m.stream = track(m.b, 0, "python", 7, "stream 7");
        for (int i = 0; i < STEPS; i++) {
            char name[32];
            snprintf(name, sizeof name, "ProfilerStep#%d", i);
            add(m.b, m.main, i * 10 * MS, 10 * MS, name, "user_annotation");
        }
        in_steps(&m, m.main, 0, (1 + 5 * r) * MS, NEXT, "user_annotation");
        in_steps(&m, m.stream, (1 + 5 * r) * MS, (9 - 5 * r) * MS, "gemm", "kernel");
    }
    stk__trace *t = finish(m.b);
    stk__diagnosis *d = diagnose(t);
    stk__text text = STK__TEXT_INIT;
    stk__diagnosis_text(d, &text);
    assert_non_null(strstr(text.data, "What if, for rank 1, which waits the most\n"));
    assert_non_null(strstr(text.data, "  step 0 of rank "));
    const stk__what_if *all = &d->what_ifs[d->what_if_count - 1];
    assert_true(near(all->step_percent, -60) && near(all->input_percent, 0));
    stk__text_clear(&text);
    end(t, d);
}

static void longest_gaps_come_first_and_say_what_ran(void **state)
{
    made m = start();
    for (int i = 0; i < STEPS; i++) {
        const int64_t ts = i * 10 * MS, idle = MS + i * 100 * US;
        add(m.b, m.main, ts, idle - 200 * US, NEXT, "user_annotation");
        add(m.b, m.main, ts, idle - 500 * US, "aten::stack", "cpu_op");
        add(m.b, m.other, ts, 300 * US, "aten::copy_", "cpu_op");
        add(m.b, m.stream, ts + idle, 10 * MS - idle, "gemm", "kernel");
    }
    stk__trace *t = finish(m.b);
    stk__diagnosis *d = diagnose(t);
    assert_int_equal(d->gap_count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(d->gaps[i].dur, MS + (STEPS - 1 - (int64_t)i) * 100 * US);
        assert_int_equal(d->gaps[i].step, STEPS - 1 - (int64_t)i);
        assert_string_equal(stk__trace_str(t, d->gaps[i].main), "aten::stack");
        assert_string_equal(stk__trace_str(t, d->gaps[i].other), "aten::copy_");
        assert_true(near(d->gaps[i].wait_share, (double)(d->gaps[i].dur - 200 * US) / (double)d->gaps[i].dur));
    }
    end(t, d);
}

/* The device is idle from shortly before a step's end into the next one: the gap is of the step that it delays. */
static void gaps_belong_to_the_step_that_holds_most_of_them(void **state)
{
    made m = start();
    for (int i = 0; i < STEPS; i++) {
        const int64_t ts = i * 10 * MS;
        add(m.b, m.main, ts, 2 * MS, NEXT, "user_annotation");
        if (i == 7) /* from 200 us before its step to 4 ms into it */
            add(m.b, m.stream, ts + 4 * MS, 6 * MS - 200 * US, "gemm", "kernel");
        else
            add(m.b, m.stream, ts, 10 * MS - 200 * US, "gemm", "kernel");
    }
    stk__trace *t = finish(m.b);
    stk__diagnosis *d = diagnose(t);
    assert_true(d->gap_count >= 1);
    assert_int_equal(d->gaps[0].dur, 4 * MS + 200 * US);
    assert_int_equal(d->gaps[0].step, 7);
    end(t, d);
}

/* ---- the world's worst ---- */

static void no_slices_give_unknown_and_a_reason(void **state)
{
    stk__trace *t = finish(new_builder());
    stk__diagnosis *d = diagnose(t);
    stk__text text = STK__TEXT_INIT;
    assert_int_equal(stk__diagnosis_verdict(d), STK__VERDICT_UNKNOWN);
    stk__diagnosis_text(d, &text);
    assert_non_null(strstr(text.data, "Unknown: there are no slices"));
    assert_non_null(strstr(text.data, "prof.step()"));
    stk__text_reset(&text);
    stk__diagnosis_json(d, &text);
    assert_non_null(strstr(text.data, "\"input_percent\":null"));
    stk__text_clear(&text);
    end(t, d);
}

static void hostile_times_and_names_are_survived(void **state)
{
    static const int64_t times[] = {INT64_MIN + 1, -9000000000000000000, -1, 0, 1, 9000000000000000000, INT64_MAX - 1};
    static const char *const names[] = {
        "train",          "ProfilerStep#1", "step",      "Iterator::", "Iterator::::::", "::", "", NEXT,
        "wait for batch", "data",           "\x1b[2J\n", "unit",       "IteratorGetNext"};
    static const char *const tracks[] = {"steps", "worker 0", "stream 7", "Steps", "main"};
    static const char *const processes[] = {"/device:GPU:0", "python", "/host:CPU"};
    static const char *const categories[] = {"step", "work", "kernel", "", "wait", "op"};
    made m = {.b = new_builder()};
    for (size_t p = 0; p < 3; p++)
        for (size_t k = 0; k < 5; k++)
            for (size_t i = 0; i < 7; i++)
                for (size_t n = 0; n < 13; n++)
                    add(m.b, track(m.b, (int64_t)p, processes[p], (int64_t)k, tracks[k]), times[i],
                        n % 2 ? INT64_MAX : (int64_t)n, names[n], categories[(n + k + i) % 6]);
    stk__trace *t = finish(m.b);
    stk__diagnosis *d = diagnose(t);
    stk__text text = STK__TEXT_INIT;
    stk__diagnosis_text(d, &text);
    assert_false(text.failed);
    assert_null(strchr(text.data, '\x1b'));
    stk__text_reset(&text);
    stk__diagnosis_json(d, &text);
    assert_false(text.failed);
    assert_null(strstr(text.data, "nan"));
    stk__text_clear(&text);
    end(t, d);
}

static void allocations_fail(const stk__trace *t)
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
}

static void every_allocation_may_fail(void **state)
{
    made m = start();
    in_steps(&m, m.main, 0, 5 * MS, "IteratorGetNext", "");
    in_steps(&m, m.main, 0, 5 * MS, "Iterator::Root", "");
    in_steps(&m, m.other, 0, 4 * MS, "Iterator::Root::Map", "");
    in_steps(&m, m.stream, 5 * MS, 5 * MS, "gemm", "kernel");
    stk__trace *t = finish(m.b);
    allocations_fail(t);
    stk__trace_free(t);
    stk__builder *b = new_builder();
    recorder_trace(b, 3 * MS);
    stk__builder_total(b, stk__builder_str(b, "worker 0"), stk__builder_str(b, "parse"), 500, 30 * MS, 0);
    t = finish(b);
    allocations_fail(t);
    stk__trace_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thresholds_are_5_and_20_percent),
        cmocka_unit_test(a_share_just_under_a_threshold_is_not_printed_as_it),
        cmocka_unit_test(time_without_events_makes_it_potentially_input_bound),
        cmocka_unit_test(the_highest_priority_counts),
        cmocka_unit_test(waits_of_a_prefetching_thread_do_not_count),
        cmocka_unit_test(python_frames_and_annotations_are_no_work),
        cmocka_unit_test(root_iterators_count_only_without_the_op_around_them),
        cmocka_unit_test(steps_of_a_starved_device_count),
        cmocka_unit_test(steps_without_device_work_are_left_out_as_in_xprof),
        cmocka_unit_test(hints_lower_the_confidence),
        cmocka_unit_test(blocking_time_goes_to_the_iterator_that_explains_it),
        cmocka_unit_test(workers_that_are_always_busy_set_the_pace),
        cmocka_unit_test(totals_of_the_recorder_count_in_place_of_slices),
        cmocka_unit_test(one_worker_is_told_as_one_and_the_fetch_stays_where_it_is),
        cmocka_unit_test(median_of_an_even_count_lies_between_the_two),
        cmocka_unit_test(whole_numbers_are_written_as_such),
        cmocka_unit_test(ranks_are_named_and_the_what_if_is_of_the_worst),
        cmocka_unit_test(longest_gaps_come_first_and_say_what_ran),
        cmocka_unit_test(gaps_belong_to_the_step_that_holds_most_of_them),
        cmocka_unit_test(no_slices_give_unknown_and_a_reason),
        cmocka_unit_test(hostile_times_and_names_are_survived),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
