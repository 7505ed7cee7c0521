/* speedscope's JSON read and written, and collapsed stacks of slices, samples and functions. */
#include "profile_files.h"

#define SCHEMA "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
#define FRAMES \
    "\"shared\":{\"frames\":[{\"name\":\"a\",\"file\":\"a.py\",\"line\":3},{\"name\":\"b\"},{\"name\":\"c\"}]}"
#define O(frame, at) "{\"type\":\"O\",\"frame\":" frame ",\"at\":" at "}"
#define C(frame, at) "{\"type\":\"C\",\"frame\":" frame ",\"at\":" at "}"

/* ---- reading ---- */

static void evented_profiles_become_slices_in_every_unit_of_time(void **state)
{
    static const struct {
        const char *unit;
        int64_t ns;
    } units[] = {{"nanoseconds", 1}, {"microseconds", 1000}, {"milliseconds", 1000000}, {"seconds", 1000000000}};
    for (size_t i = 0; i < STK_COUNT(units); i++) {
        char text[1024];
        snprintf(
            text, sizeof text,
            SCHEMA
            "\"profiles\":[{\"type\":\"evented\",\"name\":\"main\",\"events\":[" O("0", "10") "," O("1", "12") "," C(
                "1", "15") "," C("0", "20") "],\"unit\":\"%s\",\"startValue\":0,\"endValue\":20}]," FRAMES "}",
            units[i].unit);
        stk__trace *t = read_text(text, NULL);
        assert_string_equal(stk__trace_str(t, t->files[0].format), "speedscope");
        assert_int_equal(all_notes(t), 0);
        assert_int_equal(t->slices.count, 2);
        assert_int_equal(t->slices.ts[0], 10 * units[i].ns);
        assert_int_equal(t->slices.dur[0], 10 * units[i].ns);
        assert_int_equal(t->slices.ts[1], 12 * units[i].ns);
        assert_int_equal(t->slices.parent[1], 0);
        assert_string_equal(stk__trace_str(t, t->slices.name[1]), "b");
        assert_string_equal(stk__trace_str(t, t->threads[t->tracks[t->slices.track[0]].thread].name), "main");
        assert_true(t->slices.args[0] != 0); /* file and line */
        stk__trace_free(t);
    }
}

static void sampled_profiles_follow_each_other_in_time(void **state)
{
    stk__trace *t = read_text(
        SCHEMA FRAMES ",\"profiles\":[{\"type\":\"sampled\",\"name\":\"t\",\"unit\":\"milliseconds\",\"startValue\":5,"
                      "\"samples\":[[0,1],[],[0,2,1]],\"weights\":[1.5,2,0.25]}]}",
        NULL);
    char stack[64];
    const int64_t ts[] = {5000000, 6500000, 8500000}, weight[] = {1500000, 2000000, 250000};
    assert_int_equal(t->samples.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(t->samples.ts[i], ts[i]);
        assert_int_equal(t->samples.weight[i], weight[i]);
    }
    stack_text(t, 2, stack, sizeof stack);
    assert_string_equal(stack, "a;c;b");
    assert_int_equal(leaf_of(t, 0)->line, 0);
    assert_int_equal(t->samples.callsite[1], STK__NONE);
    assert_int_equal(t->tracks[t->samples.track[0]].unit, STK__UNIT_NS);
    stk__trace_free(t);
}

static void amounts_become_samples_without_a_time(void **state)
{
    stk__trace *t = read_text(
        SCHEMA FRAMES ",\"profiles\":[{\"type\":\"evented\",\"name\":\"heap\",\"unit\":\"bytes\",\"startValue\":0,"
                      "\"events\":[" O("0", "0") "," O("1", "4") "," C("1", "9") "," C("0", "10") "]}]}",
        NULL);
    const int64_t weight[] = {4, 5, 1};
    assert_int_equal(t->slices.count, 0);
    assert_int_equal(t->samples.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(t->samples.ts[i], STK__NO_TIME);
        assert_int_equal(t->samples.weight[i], weight[i]);
    }
    assert_int_equal(t->tracks[t->samples.track[0]].unit, STK__UNIT_BYTES);
    stk__trace_free(t);
}

static void damage_is_noted_and_the_rest_kept(void **state)
{
    static const char text[] =
        SCHEMA FRAMES ",\"profiles\":["
                      "{\"name\":\"x\",\"unit\":\"nanoseconds\",\"events\":["
                      "{\"type\":\"O\",\"frame\":0,\"at\":0},{\"type\":\"C\",\"frame\":1,\"at\":5},"
                      "{\"type\":\"O\",\"frame\":99,\"at\":6},{\"type\":\"Q\",\"frame\":1,\"at\":7},"
                      "{\"type\":\"O\",\"frame\":1,\"at\":8},{\"type\":\"O\",\"frame\":1},"
                      "{\"type\":\"C\",\"frame\":0,\"at\":20},7]},"
                      "{\"name\":\"y\",\"unit\":\"none\",\"samples\":[[0,1],[0,77],\"x\",[1]],\"weights\":[1,2,3]},17";
    stk__trace *t = read_text(text, NULL);
    assert_int_equal(t->slices.count, 2);
    assert_int_equal(t->samples.count, 3);
    assert_int_equal(notes_of(t, STK__REASON_END_WITHOUT_BEGIN), 1);
    assert_int_equal(notes_of(t, STK__REASON_BAD_REFERENCE), 2);
    assert_int_equal(notes_of(t, STK__REASON_NO_PHASE), 1);
    assert_int_equal(notes_of(t, STK__REASON_NO_TIME), 1);
    assert_int_equal(notes_of(t, STK__REASON_NO_END), 1);
    assert_int_equal(notes_of(t, STK__REASON_BAD_VALUE), 4);
    assert_true(notes_of(t, STK__REASON_TRUNCATED) >= 1);
    stk__trace_free(t);
}

static void json_without_profiles_is_refused(void **state)
{
    stk__input *in;
    stk__builder *b;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__input_open_memory("{\"a\":1}", 7, &in, NULL), STK_OK);
    assert_int_equal(stk__builder_new(NULL, &b, NULL), STK_OK);
    assert_int_equal(stk__trace_read(b, in, "speedscope", &err), STK_CORRUPT);
    stk__input_close(in);
    stk__builder_free(b);
    assert_string_not_equal(format_of("{\"traceEvents\":[]}", 18), "speedscope");
}

/* ---- writing ---- */

static uint32_t thread_track(stk__builder *b, int64_t pid, int64_t tid, const char *name)
{
    const uint32_t thread = stk__builder_thread(b, stk__builder_process(b, pid, 0), tid, 0);
    stk__builder_thread_at(b, thread)->name = stk__builder_str(b, name);
    return stk__builder_thread_track(b, thread);
}

static stk__builder *new_builder(void)
{
    stk__builder *b;
    assert_int_equal(stk__builder_new(NULL, &b, NULL), STK_OK);
    stk__builder_start_file(b, "made", "chrome");
    return b;
}

static stk__trace *finish(stk__builder *b)
{
    stk__trace *t;
    assert_int_equal(stk__builder_finish(b, &t, NULL), STK_OK);
    return t;
}

static void add_slice(stk__builder *b, uint32_t track, int64_t ts, int64_t dur, const char *name)
{
    stk__builder_slice(b, track, ts, dur, stk__builder_str(b, name), 0, -1);
}

static void slices_fold_to_paths_with_their_own_time(void **state)
{
    stk__builder *b = new_builder();
    const uint32_t track = thread_track(b, 1, 1, "main");
    stk__write_report report;
    add_slice(b, track, 0, 100, "step");
    add_slice(b, track, 10, 30, "load;file\n");
    add_slice(b, track, 40, 20, "decode");
    add_slice(b, track, 45, 5, "idct");
    add_slice(b, track, 200, 50, "step");
    stk__builder_instant(b, track, 5, stk__builder_str(b, "mark"), 0);
    stk__builder_counter(b, stk__builder_counter_track(b, STK__NONE, STK__NONE, stk__builder_str(b, "n")), 1, 2);
    stk__trace *t = finish(b);
    char *found = written(t, &stk__writer_collapsed, &report);
    assert_string_equal(found, "step 100\nstep;decode 15\nstep;decode;idct 5\nstep;load:file  30\n");
    assert_int_equal(report.slices, 5);
    assert_int_equal(report.lost_slices, 1);
    assert_int_equal(report.lost_counters, 1);
    stk__free(found);
    stk__trace_free(t);
}

static void slices_of_several_threads_start_with_their_names(void **state)
{
    stk__builder *b = new_builder();
    stk__write_report report;
    add_slice(b, thread_track(b, 1, 1, "main"), 0, 100, "step");
    const uint32_t worker = thread_track(b, 1, 2, "worker 1");
    add_slice(b, worker, 0, 40, "load");
    add_slice(b, worker, 20, 40, "load"); /* overlaps: goes to a lane, which is part of its track */
    stk__trace *t = finish(b);
    char *found = written(t, &stk__writer_collapsed, &report);
    assert_non_null(strstr(found, "main;step 100\n"));
    assert_non_null(strstr(found, "worker 1;load 80\n"));
    assert_int_equal(report.slices, 3);
    stk__free(found);
    stk__trace_free(t);
}

static void deep_slices_are_cut_and_counted(void **state)
{
    enum { DEPTH = 5000 };
    stk__builder *b = new_builder();
    const uint32_t track = thread_track(b, 1, 1, "main");
    stk__write_report report;
    for (int i = 0; i < DEPTH; i++)
        add_slice(b, track, i, 2 * DEPTH - 2 * i, "f");
    stk__trace *t = finish(b);
    char *found = written(t, &stk__writer_collapsed, &report);
    int64_t sum = 0;
    for (char *line = found, *end; (end = strchr(line, '\n')); line = end + 1) {
        char *space = memchr(line, ' ', (size_t)(end - line));
        sum += strtoll(space, NULL, 10);
    }
    assert_int_equal(sum, 2 * DEPTH);
    assert_int_equal(report.slices + report.lost_slices, DEPTH);
    assert_true(report.lost_slices > 0);
    stk__free(found);
    stk__trace_free(t);
}

/* A trace of slices on two tracks, one with a lane, and samples. */
static stk__trace *mixed_trace(void)
{
    stk__builder *b = new_builder();
    const uint32_t main_track = thread_track(b, 1, 1, "main"), worker = thread_track(b, 1, 2, "\"worker\"\t1");
    add_slice(b, main_track, 100, 100, "step");
    add_slice(b, main_track, 100, 100, "same");
    add_slice(b, main_track, 150, 0, "zero");
    add_slice(b, main_track, 150, 50, "late");
    add_slice(b, main_track, 200, 10, "step");
    add_slice(b, worker, 0, 40, "load");
    add_slice(b, worker, 20, 40, "load");
    stk__trace_track heap = {
        .kind = STK__TRACK_THREAD, .process = 0, .thread = STK__NONE, .parent = STK__NONE, .unit = STK__UNIT_BYTES};
    heap.name = stk__builder_str(b, "heap");
    const uint32_t track = stk__builder_new_track(b, &heap);
    const stk__trace_frame frame = {
        .name = stk__builder_str(b, "alloc"), .file = stk__builder_str(b, "a.c"), .line = 7};
    const uint32_t outer = stk__builder_callsite(b, STK__NONE, stk__builder_frame(b, &frame));
    stk__builder_sample(b, track, STK__NO_TIME, stk__builder_callsite(b, outer, 0), 64, stk__builder_str(b, "malloc"));
    stk__builder_sample(b, track, STK__NO_TIME, outer, 32, stk__builder_str(b, "mmap"));
    stk__builder_sample(b, track, STK__NO_TIME, outer, 16, stk__builder_str(b, "malloc"));
    return finish(b);
}

static void speedscope_comes_back_as_it_was(void **state)
{
    stk__trace *t = mixed_trace();
    stk__write_report report;
    char *found = written(t, &stk__writer_speedscope, &report);
    assert_int_equal(report.slices, 7);
    assert_int_equal(report.samples, 3);
    assert_int_equal(report.lost_slices + report.lost_samples, 0);
    stk__trace *again = read_text(found, NULL);
    assert_int_equal(all_notes(again), 0);
    assert_int_equal(again->slices.count, 7);
    assert_int_equal(again->samples.count, 3);
    int64_t sum = 0, sum_again = 0, weight = 0;
    for (size_t i = 0; i < 7; i++) {
        sum += t->slices.ts[i] * 3 + t->slices.dur[i];
        sum_again += again->slices.ts[i] * 3 + again->slices.dur[i];
    }
    for (size_t i = 0; i < 3; i++)
        weight += again->samples.weight[i];
    assert_int_equal(sum, sum_again);
    assert_int_equal(weight, 112);
    assert_int_equal(again->tracks[again->samples.track[0]].unit, STK__UNIT_BYTES);
    assert_non_null(strstr(found, "(malloc)"));
    assert_non_null(strstr(found, "(mmap)"));
    stk__free(found);
    stk__trace_free(again);
    stk__trace_free(t);
}

/* "at" never goes back, and each C closes the frame that was opened last. */
static void speedscope_events_nest_and_are_in_order(void **state)
{
    stk__trace *t = mixed_trace();
    stk__write_report report;
    char *found = written(t, &stk__writer_speedscope, &report);
    long stack[16], last = LONG_MIN, checked = 0;
    size_t depth = 0;
    for (char *p = found; (p = strstr(p, "{\"type\":\"")); p++) {
        char type;
        long frame, at;
        if (sscanf(p, "{\"type\":\"%c\",\"frame\":%ld,\"at\":%ld}", &type, &frame, &at) != 3) {
            assert_int_equal(depth, 0); /* a profile starts */
            last = LONG_MIN;
            continue;
        }
        assert_true(at >= last);
        last = at;
        if (type == 'O') {
            assert_true(depth < 16);
            stack[depth++] = frame;
        } else {
            assert_true(depth > 0);
            assert_int_equal(stack[--depth], frame);
        }
        checked++;
    }
    assert_int_equal(depth, 0);
    assert_int_equal(checked, 14);
    stk__free(found);
    stk__trace_free(t);
}

static void speedscope_times_past_2_53_count_from_the_start(void **state)
{
    stk__builder *b = new_builder();
    stk__write_report report;
    const int64_t start = INT64_C(1700000000123456789);
    add_slice(b, thread_track(b, 1, 1, "main"), start, 7, "a");
    stk__trace *t = finish(b);
    char *found = written(t, &stk__writer_speedscope, &report);
    assert_non_null(strstr(found, "\"startValue\":0,\"endValue\":7,"));
    stk__free(found);
    stk__trace_free(t);
}

static void functions_are_written_with_their_own_time(void **state)
{
    stk__builder *b = new_builder();
    stk__write_report report;
    const stk__trace_frame frame = {.name = stk__builder_str(b, "f"), .file = stk__builder_str(b, "a.py"), .line = 3};
    const stk__trace_function f = {
        .frame = stk__builder_frame(b, &frame), .calls = 2, .primitive_calls = 1, .self_ns = 70, .total_ns = 90};
    stk__builder_function(b, &f);
    stk__trace *t = finish(b);
    char *found = written(t, &stk__writer_collapsed, &report);
    assert_string_equal(found, "f (a.py:3) 70\n");
    assert_int_equal(report.functions, 1);
    stk__free(found);
    found = written(t, &stk__writer_speedscope, &report);
    stk__trace *again = read_text(found, NULL);
    assert_int_equal(again->samples.count, 1);
    assert_int_equal(again->samples.weight[0], 70);
    assert_int_equal(report.functions, 1);
    stk__free(found);
    stk__trace_free(again);
    stk__trace_free(t);
}

static void empty_trace_gives_empty_files(void **state)
{
    stk__trace *t = finish(new_builder());
    stk__write_report report;
    char *found = written(t, &stk__writer_collapsed, &report);
    assert_string_equal(found, "");
    stk__free(found);
    found = written(t, &stk__writer_speedscope, &report);
    stk__trace *again = read_text(found, NULL);
    assert_int_equal(all_notes(again), 0);
    stk__free(found);
    stk__trace_free(again);
    stk__trace_free(t);
}

static void failed_allocations_of_writers_are_told(void **state)
{
    const stk__trace_writer *const writers[] = {&stk__writer_collapsed, &stk__writer_speedscope};
    for (size_t i = 0; i < STK_COUNT(writers); i++) {
        stk__trace *t = mixed_trace();
        for (uint64_t n = 1; n < 300; n++) {
            char path[] = "/tmp/stoker-test-XXXXXX";
            const int fd = mkstemp(path);
            stk__write_report report = {0};
            assert_true(fd >= 0);
            close(fd);
            const uint64_t before = stk__alloc_count();
            stk__alloc_fail_at(n, true);
            const stk_status status = stk__trace_write(t, path, writers[i], &report, NULL);
            stk__alloc_fail_at(0, false);
            const bool failed = stk__alloc_count() - before >= n;
            unlink(path);
            if (!failed) {
                assert_int_equal(status, STK_OK);
                break;
            }
            assert_int_equal(status, STK_NOMEM);
        }
        stk__trace_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evented_profiles_become_slices_in_every_unit_of_time),
        cmocka_unit_test(sampled_profiles_follow_each_other_in_time),
        cmocka_unit_test(amounts_become_samples_without_a_time),
        cmocka_unit_test(damage_is_noted_and_the_rest_kept),
        cmocka_unit_test(json_without_profiles_is_refused),
        cmocka_unit_test(slices_fold_to_paths_with_their_own_time),
        cmocka_unit_test(slices_of_several_threads_start_with_their_names),
        cmocka_unit_test(deep_slices_are_cut_and_counted),
        cmocka_unit_test(speedscope_comes_back_as_it_was),
        cmocka_unit_test(speedscope_events_nest_and_are_in_order),
        cmocka_unit_test(speedscope_times_past_2_53_count_from_the_start),
        cmocka_unit_test(functions_are_written_with_their_own_time),
        cmocka_unit_test(empty_trace_gives_empty_files),
        cmocka_unit_test(failed_allocations_of_writers_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
