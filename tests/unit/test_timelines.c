/* What the Chrome JSON reader makes of odd but common files: timelines of TensorFlow 1, times of day, missing ids and durations; and joining. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "trace/reader.h"

/* Reads texts as the files of one trace. */
static stk__trace *read_files(stk__join_processes join, const char *const *texts, size_t count)
{
    const stk__trace_options options = {.join = join};
    stk__builder *b;
    stk__input *in;
    stk__trace *t = NULL;
    assert_int_equal(stk__builder_new(&options, &b, NULL), STK_OK);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(stk__input_open_memory(texts[i], strlen(texts[i]), &in, NULL), STK_OK);
        assert_int_equal(stk__trace_read(b, in, "chrome", NULL), STK_OK);
        stk__input_close(in);
    }
    assert_int_equal(stk__builder_finish(b, &t, NULL), STK_OK);
    return t;
}

static stk__trace *read_text(const char *text)
{
    return read_files(STK__JOIN_AUTO, &text, 1);
}

static uint64_t noted(const stk__trace *t, stk__trace_reason reason)
{
    uint64_t count = 0;
    for (size_t i = 0; i < t->note_count; i++)
        count += t->notes[i].reason == reason ? t->notes[i].count : 0;
    return count;
}

static const char *fact(const stk__trace *t, uint32_t file, const char *key)
{
    for (size_t i = 0; i < t->fact_count; i++) {
        if (t->facts[i].file == file && strcmp(stk__trace_str(t, t->facts[i].key), key) == 0)
            return stk__trace_str(t, t->facts[i].value);
    }
    return "";
}

#define DEVICE "/job:localhost/replica:0/task:0/device:CPU:0"
#define NAME(pid, name) "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":" #pid ",\"args\":{\"name\":\"" name "\"}},"
#define NAMES NAME(1, DEVICE " Compute") NAME(2, DEVICE " Tensors")
#define OP(name, tid, ts, args)                                                                 \
    "{\"ph\":\"X\",\"cat\":\"Op\",\"name\":\"" name "\",\"pid\":1,\"tid\":" #tid ",\"ts\":" #ts \
    ",\"dur\":5,\"args\":{" args "}}"
#define TIMELINE(ts) "{\"traceEvents\":[" NAMES OP("unknown", 0, ts, "\"name\":\"get:Next\",\"op\":\"unknown\"") "]}"

/* ---- timelines ---- */

static void unknown_op_is_called_by_its_args(void **state)
{
    static const struct {
        const char *event, *name;
    } cases[] = {
        {OP("unknown", 0, 1, "\"name\":\"get:Next\",\"op\":\"unknown\""), "get:Next"},
        {OP("unknown", 0, 1, "\"op\":\"unknown\""), "unknown"},
        {OP("unknown", 0, 1, "\"name\":\"\""), "unknown"},
        {OP("unknown", 0, 1, "\"name\":7"), "unknown"},
        {OP("MatMul", 0, 1, "\"name\":\"m\",\"op\":\"MatMul\""), "MatMul"},
        {"{\"ph\":\"X\",\"cat\":\"x\",\"name\":\"unknown\",\"ts\":1,\"dur\":5,\"args\":{\"name\":\"a\"}}", "unknown"},
        {"{\"ph\":\"X\",\"cat\":\"Op\",\"name\":\"unknown\",\"ts\":1,\"dur\":5,\"args\":null}", "unknown"},
    };
    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__trace *t = read_text(cases[i].event);
        assert_int_equal(t->slices.count, 1);
        assert_string_equal(stk__trace_str(t, t->slices.name[0]), cases[i].name);
        stk__trace_free(t);
    }
    stk__trace *t = read_text(cases[0].event);
    assert_string_equal(stk__trace_str(t, (stk__string)t->args.value[t->slices.args[0]].string), "get:Next");
    stk__trace_free(t);
}

static void timeline_is_told_by_its_processes(void **state)
{
    static const struct {
        const char *text, *value;
    } cases[] = {
        {TIMELINE(10), STK__TIMELINE_TF1},
        {"[" NAMES NAMES OP("a", 0, 1, "") "]", STK__TIMELINE_TF1_JOINED},
        {"[" NAME(1, DEVICE " Compute") OP("a", 0, 1, "") "]", ""},
        {"[" NAME(1, "x Compute") NAME(2, "x Tensors") OP("a", 0, 1, "") "]", ""},
        {"[" NAME(1, DEVICE " Compute") NAME(2, "/gpu:0 Tensors") OP("a", 0, 1, "") "]", ""},
        {"{\"timeline\":\"tensorflow1\",\"traceEvents\":[" NAMES OP("a", 0, 1, "") "]}", STK__TIMELINE_TF1},
        {"{\"timeline\":\"tensorflow1_joined\",\"traceEvents\":[" NAMES OP("a", 0, 1, "") "]}",
         STK__TIMELINE_TF1_JOINED},
        {"{\"timeline\":\"other\",\"traceEvents\":[" OP("a", 0, 1, "") "]}", "other"},
    };
    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__trace *t = read_text(cases[i].text);
        assert_string_equal(fact(t, 0, STK__FACT_TIMELINE), cases[i].value);
        assert_true(t->fact_count <= 1);
        stk__trace_free(t);
    }
}

static void timelines_of_one_process_are_joined_and_keep_their_files(void **state)
{
    (void)state;
    const char *texts[] = {TIMELINE(10), TIMELINE(30), TIMELINE(20)};
    stk__trace *t = read_files(STK__JOIN_AUTO, texts, 3);
    assert_int_equal(t->process_count, 2);
    assert_int_equal(t->thread_count, 1);
    assert_int_equal(t->track_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(t->tracks[i].file, i);
        assert_int_equal(t->tracks[i].process, 0);
        assert_int_equal(t->tracks[i].thread, 0);
        assert_int_equal(t->tracks[i].slice_count, 1);
        assert_string_equal(fact(t, i, STK__FACT_TIMELINE), STK__TIMELINE_TF1);
    }
    assert_int_equal(t->threads[0].track, 0);
    stk__trace_free(t);
    t = read_files(STK__JOIN_NEVER, texts, 3);
    assert_int_equal(t->process_count, 6);
    stk__trace_free(t);
}

static void other_files_are_joined_when_asked_by_id_and_name(void **state)
{
    (void)state;
    const char *texts[] = {"[" NAME(1, "a") NAME(2, "b") OP("x", 7, 1, "") "]",
                           "[" NAME(1, "a") NAME(2, "c") OP("x", 7, 2, "") "]", TIMELINE(10)};
    stk__trace *t = read_files(STK__JOIN_AUTO, texts, 3);
    assert_int_equal(t->process_count, 6);
    stk__trace_free(t);
    t = read_files(STK__JOIN_ALWAYS, texts, 3);
    assert_int_equal(t->process_count, 5); /* a, b, c, and those of the timeline */
    assert_int_equal(t->thread_count, 2);
    assert_int_equal(t->tracks[0].process, t->tracks[1].process);
    assert_int_equal(t->tracks[0].thread, t->tracks[1].thread);
    assert_true(t->tracks[2].process != t->tracks[0].process);
    stk__trace_free(t);
}

static void joining_without_memory_fails_cleanly(void **state)
{
    (void)state;
    const char *texts[] = {TIMELINE(10), TIMELINE(30)};
    bool done = false;
    for (uint64_t at = 1; !done; at++) {
        const stk__trace_options options = {.join = STK__JOIN_AUTO};
        stk__builder *b = NULL;
        stk__input *in;
        stk__trace *t = NULL;
        assert_int_equal(stk__builder_new(&options, &b, NULL), STK_OK);
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(stk__input_open_memory(texts[i], strlen(texts[i]), &in, NULL), STK_OK);
            assert_int_equal(stk__trace_read(b, in, "chrome", NULL), STK_OK);
            stk__input_close(in);
        }
        stk__alloc_fail_at(at, true);
        const stk_status status = stk__builder_finish(b, &t, NULL);
        stk__alloc_fail_at(0, false);
        assert_true(status == STK_OK || status == STK_NOMEM);
        done = status == STK_OK;
        stk__trace_free(t);
        assert_true(at < 1000);
    }
}

/* ---- odd events ---- */

static void cpu_time_stands_for_a_missing_duration(void **state)
{
    (void)state;
    stk__trace *t = read_text(
        "[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"tdur\":3},{\"ph\":\"X\",\"name\":\"b\",\"ts\":9,\"dur\":1,\"tdur\":3},"
        "{\"ph\":\"X\",\"name\":\"c\",\"ts\":20}]");
    assert_int_equal(t->slices.dur[0], 3000);
    assert_int_equal(t->slices.dur[1], 1000);
    assert_int_equal(t->slices.dur[2], 0);
    assert_int_equal(noted(t, STK__REASON_CPU_DURATION), 1);
    assert_int_equal(noted(t, STK__REASON_NO_DURATION), 1);
    stk__trace_free(t);
}

static void event_without_a_tid_is_of_the_first_thread(void **state)
{
    (void)state;
    stk__trace *t = read_text(
        "[{\"ph\":\"X\",\"name\":\"a\",\"pid\":7,\"ts\":1,\"dur\":1},{\"ph\":\"X\",\"name\":\"b\",\"pid\":7,\"tid\":7,\"ts\":5,\"dur\":1},"
        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":7,\"args\":{\"name\":\"main\"}}]");
    assert_int_equal(t->thread_count, 1);
    assert_int_equal(t->threads[0].tid, 7);
    assert_string_equal(stk__trace_str(t, t->threads[0].name), "main");
    stk__trace_free(t);
}

static void id2_of_another_kind_holds_in_the_file(void **state)
{
    (void)state;
    stk__trace *t = read_text("[{\"ph\":\"b\",\"cat\":\"c\",\"name\":\"a\",\"pid\":1,\"ts\":1,\"id2\":{\"\":\"0x1\"}},"
                              "{\"ph\":\"e\",\"cat\":\"c\",\"name\":\"a\",\"pid\":2,\"ts\":5,\"id2\":{\"\":\"0x1\"}}]");
    assert_int_equal(t->slices.count, 1);
    assert_int_equal(t->slices.dur[0], 4000);
    assert_int_equal(t->note_count, 0);
    stk__trace_free(t);
}

#define BE(phase, name, ts) "{\"ph\":\"" phase "\",\"name\":\"" name "\",\"ts\":" #ts "}"

static void end_before_its_begin_at_one_time_is_a_slice_without_length(void **state)
{
    (void)state;
    stk__trace *t = read_text("[" BE("B", "out", 1) "," BE("E", "a", 5) "," BE("B", "a", 5) "," BE("E", "out", 9) "]");
    assert_int_equal(t->slices.count, 2);
    assert_int_equal(t->slices.dur[0], 8000);
    assert_int_equal(t->slices.dur[1], 0);
    assert_int_equal(t->slices.flags[1], 0);
    assert_int_equal(t->note_count, 0);
    stk__trace_free(t);
    /* one that has a later end keeps it: the first end is of a slice that began before the file */
    t = read_text("[" BE("E", "a", 5) "," BE("B", "a", 5) "," BE("E", "a", 9) "]");
    assert_int_equal(t->slices.count, 1);
    assert_int_equal(t->slices.dur[0], 4000);
    assert_int_equal(noted(t, STK__REASON_END_WITHOUT_BEGIN), 1);
    stk__trace_free(t);
    /* of another name, or at another time, it is none of its own */
    t = read_text(
        "[" BE("E", "b", 5) "," BE("E", "a", 4) "," BE("B", "a", 5) "," BE("B", "c", 9) "," BE("E", "c", 10) "]");
    assert_int_equal(noted(t, STK__REASON_END_WITHOUT_BEGIN), 2);
    assert_int_equal(noted(t, STK__REASON_NO_END), 1);
    stk__trace_free(t);
}

static void args_of_flows_are_no_loss(void **state)
{
    (void)state;
    stk__trace *t = read_text(
        "[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":5},{\"ph\":\"s\",\"id\":1,\"name\":\"f\",\"ts\":2,\"args\":{\"x\":1}}]");
    assert_int_equal(noted(t, STK__REASON_UNKNOWN_KIND), 0);
    assert_int_equal(noted(t, STK__REASON_NO_PLACE), 1);
    assert_false(stk__trace_reason_matters(STK__REASON_NO_PLACE) || stk__trace_reason_loses(STK__REASON_NO_PLACE));
    assert_false(stk__trace_reason_matters(STK__REASON_TEXT_ID) ||
                 stk__trace_reason_matters(STK__REASON_NO_FLOW_START));
    assert_true(stk__trace_reason_matters(STK__REASON_NO_END) && !stk__trace_reason_loses(STK__REASON_NO_END));
    assert_true(stk__trace_reason_matters(STK__REASON_SYNTAX) && stk__trace_reason_loses(STK__REASON_SYNTAX));
    stk__trace_free(t);
}

/* ---- clocks ---- */

static void times_since_1970_are_real_time(void **state)
{
    static const struct {
        const char *text;
        uint32_t clock;
        int64_t realtime_ns;
    } cases[] = {
        {"[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1711929600123456,\"dur\":1}]", STK__CLOCK_REALTIME, 0},
        {"[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1711929600,\"dur\":1}]", STK__CLOCK_UNKNOWN, STK__NO_NUMBER},
        {"[{\"ph\":\"X\",\"tid\":1,\"name\":\"a\",\"ts\":1711929600123456,\"dur\":1},{\"ph\":\"X\",\"tid\":2,\"name\":\"a\",\"ts\":5,\"dur\":1}]",
         STK__CLOCK_UNKNOWN, STK__NO_NUMBER},
        {"{\"baseTimeNanoseconds\":12,\"traceEvents\":[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1711929600123456,\"dur\":1}]}",
         STK__CLOCK_UNKNOWN, 12},
        {"[{\"ph\":\"C\",\"name\":\"a\",\"ts\":1711929600123456,\"args\":{\"v\":1}}]", STK__CLOCK_UNKNOWN,
         STK__NO_NUMBER},
    };
    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__trace *t = read_text(cases[i].text);
        assert_int_equal(t->files[0].clock, cases[i].clock);
        assert_true(t->files[0].realtime_ns == cases[i].realtime_ns);
        stk__trace_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_op_is_called_by_its_args),
        cmocka_unit_test(timeline_is_told_by_its_processes),
        cmocka_unit_test(timelines_of_one_process_are_joined_and_keep_their_files),
        cmocka_unit_test(other_files_are_joined_when_asked_by_id_and_name),
        cmocka_unit_test(joining_without_memory_fails_cleanly),
        cmocka_unit_test(cpu_time_stands_for_a_missing_duration),
        cmocka_unit_test(event_without_a_tid_is_of_the_first_thread),
        cmocka_unit_test(id2_of_another_kind_holds_in_the_file),
        cmocka_unit_test(end_before_its_begin_at_one_time_is_a_slice_without_length),
        cmocka_unit_test(args_of_flows_are_no_loss),
        cmocka_unit_test(times_since_1970_are_real_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
