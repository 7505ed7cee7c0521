/* The Chrome JSON reader: values in the model, files cut anywhere, events across windows, two parsers that agree. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <stoker/trace.h>

#include "base/mem.h"
#include "trace/read_chrome.h"
#include "trace/recorder.h"

static stk__trace *read_bytes(const char *json, size_t size)
{
    stk__builder *b;
    stk__input *in;
    stk__trace *t = NULL;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__builder_new(NULL, &b, &err), STK_OK);
    assert_int_equal(stk__input_open_memory(json, size, &in, &err), STK_OK);
    if (stk__trace_read(b, in, "chrome", &err) != STK_OK)
        fail_msg("%s", err.message);
    stk__input_close(in);
    if (stk__builder_finish(b, &t, &err) != STK_OK)
        fail_msg("%s", err.message);
    return t;
}

static stk__trace *read_text(const char *json)
{
    return read_bytes(json, strlen(json));
}

static uint64_t noted(const stk__trace *t, stk__trace_reason reason)
{
    for (size_t i = 0; i < t->note_count; i++) {
        if (t->notes[i].reason == reason)
            return t->notes[i].count;
    }
    return 0;
}

static size_t find_slice(const stk__trace *t, const char *name)
{
    for (size_t i = 0; i < t->slices.count; i++) {
        if (strcmp(stk__trace_str(t, t->slices.name[i]), name) == 0)
            return i;
    }
    fail_msg("no slice '%s'", name);
    return 0;
}

/* Row of an arg of a slice; 0: it has none of that name. */
static size_t find_arg(const stk__trace *t, size_t slice, const char *key)
{
    for (size_t row = t->slices.args[slice]; row; row = t->args.type[row] & STK__ARG_LAST ? 0 : row + 1) {
        if (strcmp(stk__trace_str(t, t->args.key[row]), key) == 0)
            return row;
    }
    return 0;
}

static void check_int(const stk__trace *t, const char *key, int64_t want)
{
    const size_t row = find_arg(t, 0, key);
    assert_int_equal(t->args.type[row] & STK__ARG_TYPE, STK__ARG_INT);
    assert_true(t->args.value[row].integer == want);
}

static void check_text(const stk__trace *t, const char *key, stk__arg_type type, const char *want)
{
    const size_t row = find_arg(t, 0, key);
    assert_int_equal(t->args.type[row] & STK__ARG_TYPE, type);
    assert_string_equal(stk__trace_str(t, (stk__string)t->args.value[row].string), want);
}

static void times_keep_every_nanosecond(void **state)
{
    (void)state;
    stk__trace *t = read_text("[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1711929600123456.789,\"dur\":0.001},"
                              "{\"ph\":\"X\",\"name\":\"b\",\"ts\":\"1711929600123457.5\",\"dur\":\"2\"}]");
    assert_true(t->slices.ts[0] == 1711929600123456789 && t->slices.dur[0] == 1);
    assert_true(t->slices.ts[1] == 1711929600123457500 && t->slices.dur[1] == 2000);
    assert_int_equal(t->files[0].resolution_ns, 1);
    stk__trace_free(t);
}

static void resolution_tells_how_times_were_written(void **state)
{
    (void)state;
    const struct {
        const char *json;
        int64_t resolution, ts;
    } cases[] = {
        {"[{\"ph\":\"X\",\"ts\":10,\"dur\":2.000}]", 1000, 10000},
        {"[{\"ph\":\"X\",\"ts\":10.5,\"dur\":2}]", 1, 10500},
        {"[{\"ph\":\"X\",\"ts\":10.0005,\"dur\":2}]", 1, 10001},
        {"[{\"ph\":\"X\",\"ts\":10.00049,\"dur\":2}]", 1, 10000},
        {"[{\"ph\":\"X\",\"ts\":10.0010000,\"dur\":2}]", 1, 10001},
        {"[]", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        stk__trace *t = read_text(cases[i].json);
        assert_int_equal(t->files[0].resolution_ns, cases[i].resolution);
        if (t->slices.count)
            assert_int_equal(t->slices.ts[0], cases[i].ts);
        stk__trace_free(t);
    }
}

static void args_keep_their_types(void **state)
{
    (void)state;
    stk__trace *t = read_text(
        "[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":1,\"tts\":7,\"cname\":\"good\",\"args\":{\"i\":-5,\"u\":18446744073709551615,"
        "\"big\":-123456789012345678901234567890,\"d\":12.0,\"t\":true,\"n\":null,\"s\":\"x\\u00e9\",\"nan\":NaN,\"na\":N/A,"
        "\"list\":[1, \"b\", {\"c\" : [ ]}]}}]");
    check_int(t, "i", -5);
    check_int(t, "tts", 7);
    check_text(t, "cname", STK__ARG_STRING, "good");
    check_text(t, "u", STK__ARG_JSON, "18446744073709551615");
    check_text(t, "big", STK__ARG_JSON, "-123456789012345678901234567890");
    check_text(t, "s", STK__ARG_STRING, "x\xc3\xa9");
    check_text(t, "na", STK__ARG_STRING, "N/A");
    check_text(t, "list", STK__ARG_JSON, "[1,\"b\",{\"c\":[]}]");
    size_t row = find_arg(t, 0, "d");
    assert_int_equal(t->args.type[row] & STK__ARG_TYPE, STK__ARG_DOUBLE);
    assert_true(t->args.value[row].real == 12.0);
    row = find_arg(t, 0, "nan");
    assert_int_equal(t->args.type[row] & STK__ARG_TYPE, STK__ARG_DOUBLE);
    assert_true(isnan(t->args.value[row].real));
    assert_int_equal(t->args.type[find_arg(t, 0, "n")] & STK__ARG_TYPE, STK__ARG_NULL);
    assert_int_equal(t->args.type[find_arg(t, 0, "t")] & STK__ARG_TYPE, STK__ARG_BOOL);
    assert_int_equal(noted(t, STK__REASON_NUMBER), 3);
    stk__trace_free(t);
}

static void last_of_two_keys_counts(void **state)
{
    (void)state;
    stk__trace *t = read_text(
        "[{\"ph\":\"B\",\"ph\":\"X\",\"name\":\"first\",\"name\":\"last\",\"ts\":1,\"dur\":1,\"args\":{\"a\":1,\"a\":2}}]");
    assert_string_equal(stk__trace_str(t, t->slices.name[0]), "last");
    check_int(t, "a", 2);
    assert_int_equal(noted(t, STK__REASON_DUPLICATE_KEY), 3);
    stk__trace_free(t);
}

static void processes_and_threads_get_their_names(void **state)
{
    (void)state;
    stk__trace *t = read_text(
        "[{\"ph\":\"X\",\"name\":\"a\",\"pid\":\"Spans\",\"tid\":\"stream 7\",\"ts\":1,\"dur\":1},"
        "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":\"Spans\",\"args\":{\"name\":\"python\"}},"
        "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":\"Spans\",\"args\":{\"labels\":\"GPU 0\"}},"
        "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":\"Spans\",\"args\":{\"sort_index\":5000}},"
        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":\"Spans\",\"tid\":\"stream 7\",\"args\":{\"name\":\"stream\"}},"
        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":4294967297,\"tid\":-3,\"args\":{\"name\":\"idle\"}}]");
    assert_int_equal(t->process_count, 2);
    assert_int_equal(t->thread_count, 2);
    assert_string_equal(stk__trace_str(t, t->processes[0].pid_text), "Spans");
    assert_string_equal(stk__trace_str(t, t->processes[0].name), "python");
    assert_string_equal(stk__trace_str(t, t->processes[0].labels), "GPU 0");
    assert_int_equal(t->processes[0].sort_index, 5000);
    assert_string_equal(stk__trace_str(t, t->threads[0].tid_text), "stream 7");
    assert_string_equal(stk__trace_str(t, t->threads[0].name), "stream");
    assert_true(t->processes[1].pid == 4294967297 && t->threads[1].tid == -3);
    assert_int_equal(t->threads[1].track, STK__NONE);
    assert_int_equal(noted(t, STK__REASON_TEXT_ID), 2);
    stk__trace_free(t);
}

static void instants_go_to_the_track_of_their_scope(void **state)
{
    (void)state;
    stk__trace *t = read_text("[{\"ph\":\"i\",\"name\":\"g\",\"s\":\"g\",\"ts\":1,\"pid\":1,\"tid\":2},"
                              "{\"ph\":\"i\",\"name\":\"p\",\"s\":\"p\",\"ts\":1,\"pid\":1,\"tid\":2},"
                              "{\"ph\":\"I\",\"name\":\"t\",\"ts\":1,\"pid\":1,\"tid\":2}]");
    const struct {
        const char *name;
        stk__track_kind kind;
    } cases[] = {{"g", STK__TRACK_GLOBAL}, {"p", STK__TRACK_PROCESS}, {"t", STK__TRACK_THREAD}};
    for (size_t i = 0; i < 3; i++) {
        const size_t slice = find_slice(t, cases[i].name);
        assert_int_equal(t->tracks[t->slices.track[slice]].kind, cases[i].kind);
        assert_true(t->slices.flags[slice] & STK__SLICE_INSTANT);
    }
    stk__trace_free(t);
}

static void counters_have_a_track_per_series(void **state)
{
    (void)state;
    stk__trace *t =
        read_text("[{\"ph\":\"C\",\"name\":\"mem\",\"pid\":1,\"ts\":1,\"args\":{\"used\":1.5,\"free\":\"2\"}},"
                  "{\"ph\":\"C\",\"name\":\"queue\",\"pid\":1,\"ts\":2,\"args\":{\"value\":3}},"
                  "{\"ph\":\"C\",\"name\":\"mem\",\"pid\":1,\"ts\":3,\"id\":\"0xa\",\"args\":{\"mem\":4}}]");
    static const char *const names[] = {"mem:used", "mem:free", "queue", "mem[10]"};
    static const double values[] = {1.5, 2, 3, 4};
    assert_int_equal(t->counters.count, 4);
    for (size_t i = 0; i < 4; i++) {
        size_t row = 0;
        while (row < 4 && strcmp(stk__trace_str(t, t->tracks[t->counters.track[row]].name), names[i]) != 0)
            row++;
        assert_true(row < 4 && t->counters.value[row] == values[i]);
    }
    stk__trace_free(t);
}

static void flows_join_slices(void **state)
{
    (void)state;
    stk__trace *t = read_text(
        "[{\"ph\":\"X\",\"name\":\"launch\",\"pid\":1,\"tid\":1,\"ts\":10,\"dur\":5},"
        "{\"ph\":\"X\",\"name\":\"kernel\",\"pid\":0,\"tid\":7,\"ts\":30,\"dur\":5},"
        "{\"ph\":\"s\",\"id\":\"0x10\",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"pid\":1,\"tid\":1,\"ts\":10},"
        "{\"ph\":\"f\",\"bp\":\"e\",\"id\":16,\"cat\":\"ac2g\",\"name\":\"ac2g\",\"pid\":0,\"tid\":7,\"ts\":30}]");
    assert_int_equal(t->flows.count, 1);
    assert_int_equal(t->flows.out[0], find_slice(t, "launch"));
    assert_int_equal(t->flows.in[0], find_slice(t, "kernel"));
    stk__trace_free(t);
}

static void samples_get_their_stacks(void **state)
{
    (void)state;
    stk__trace *t = read_text(
        "{\"traceEvents\":[{\"ph\":\"P\",\"name\":\"cycles\",\"pid\":1,\"tid\":2,\"ts\":1,\"sf\":2}],"
        "\"stackFrames\":{\"2\":{\"name\":\"run\",\"parent\":\"1\"},\"1\":{\"name\":\"main\",\"category\":\"libc\"}},"
        "\"samples\":[{\"tid\":2,\"ts\":5,\"name\":\"cycles\",\"sf\":1,\"weight\":3}]}");
    assert_int_equal(t->samples.count, 2);
    assert_int_equal(t->samples.track[0], t->samples.track[1]);
    assert_int_equal(t->tracks[t->samples.track[0]].unit, STK__UNIT_SAMPLES);
    const stk__trace_callsite *run = &t->callsites[t->samples.callsite[0]];
    assert_string_equal(stk__trace_str(t, t->frames[run->frame].name), "run");
    assert_int_equal(run->parent, t->samples.callsite[1]);
    assert_string_equal(stk__trace_str(t, t->frames[t->callsites[run->parent].frame].module), "libc");
    assert_int_equal(t->samples.weight[1], 3);
    stk__trace_free(t);
}

static void facts_stand_around_the_events(void **state)
{
    (void)state;
    stk__trace *t =
        read_text("{\"schemaVersion\":1,\"distributedInfo\":{\"rank\":3,\"backend\":\"nccl\"},\"traceEvents\":[],"
                  "\"baseTimeNanoseconds\":1711929600000000000,\"deviceProperties\":[{\"name\":\"A100\"}]}");
    static const char *const facts[][2] = {{"schemaVersion", "1"},
                                           {"distributedInfo.rank", "3"},
                                           {"distributedInfo.backend", "nccl"},
                                           {"baseTimeNanoseconds", "1711929600000000000"},
                                           {"deviceProperties.0.name", "A100"}};
    assert_int_equal(t->fact_count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(stk__trace_str(t, t->facts[i].key), facts[i][0]);
        assert_string_equal(stk__trace_str(t, t->facts[i].value), facts[i][1]);
    }
    assert_int_equal(t->files[0].rank, 3);
    assert_true(t->files[0].realtime_ns == 1711929600000000000);
    stk__trace_free(t);
}

static const char whole[] =
    "{\"schemaVersion\": 1, \"traceEvents\": [\n"
    "  {\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::add\", \"pid\": 1, \"tid\": 2,\n    \"ts\": 1.250, \"dur\": 3.5,\n"
    "    \"args\": {\n      \"External id\": 12, \"Input Dims\": [[1, 2], []], \"Concrete Inputs\": [\"\", \"[1]\"]\n    }\n  },\n"
    "  {\"ph\":\"X\",\"name\":\"gr\xc3\xbc\xc3\x9f\\u0065\",\"pid\":1,\"tid\":2,\"ts\":10,\"dur\":1e1,\"args\":{\"o\":{\"a\":[1,{\"b\":2}]}}},\n"
    "  {\"ph\":\"i\",\"s\":\"p\",\"name\":\"mark\",\"pid\":1,\"tid\":2,\"ts\":30},\n"
    "  {\"ph\":\"X\",\"name\":\"last\",\"pid\":1,\"tid\":2,\"ts\":40,\"dur\":1}\n"
    "], \"displayTimeUnit\": \"ms\"}\n";

/* Whatever the place of the cut: the events before it are all there, and that it is cut off is said. */
static void file_cut_anywhere_keeps_what_came_before(void **state)
{
    (void)state;
    size_t ends[8], count = 0;
    for (size_t i = 0, depth = 0; i < sizeof whole - 1; i++) {
        depth += whole[i] == '{';
        if (whole[i] == '}' && --depth == 1)
            ends[count++] = i + 1;
    }
    assert_int_equal(count, 4);
    for (size_t size = 1; size < sizeof whole - 2; size++) {
        stk__trace *t = read_bytes(whole, size);
        size_t want = 0;
        while (want < count && ends[want] <= size)
            want++;
        assert_int_equal(t->slices.count, want);
        if (noted(t, STK__REASON_TRUNCATED) != 1 || t->note_count != 1)
            fail_msg("cut at %zu: %zu notes", size, t->note_count);
        stk__trace_free(t);
    }
    stk__trace *t = read_bytes(whole, sizeof whole - 1);
    assert_int_equal(t->slices.count, 4);
    assert_int_equal(t->note_count, 0);
    stk__trace_free(t);
}

static bool same_value(const stk__chrome_value *a, const stk__chrome_value *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == STK__CHROME_NUMBER &&
        (a->integer != b->integer || a->number.digits != b->number.digits || a->number.exponent != b->number.exponent ||
         a->number.negative != b->number.negative || a->number.cut != b->number.cut))
        return false;
    return a->kind < STK__CHROME_NUMBER || (a->size == b->size && memcmp(a->text, b->text, a->size) == 0);
}

/* Both parsers on one object, in memory that ends with it and the 8 bytes that an input promises. */
static void check_parsers(const char *json, bool want_fast)
{
    stk__builder *b;
    const size_t size = strlen(json);
    uint8_t *window = malloc(size + 8);
    const uint8_t *stop;
    assert_non_null(window);
    memcpy(window, json, size);
    memset(window + size, '9', 8);
    assert_int_equal(stk__builder_new(NULL, &b, NULL), STK_OK);
    stk__chrome *fast = stk__chrome_new(b, NULL, NULL), *slow = stk__chrome_new(b, NULL, NULL);
    slow->window = slow->p = window;
    slow->end = window + size;
    slow->last = true;
    for (int pass = 0; pass < 2; pass++) { /* the second one with keys that are known */
        const uint8_t *end = stk__chrome_parse_fast(fast, window, window + size);
        assert_int_equal(end != NULL, want_fast);
        assert_int_equal(stk__chrome_parse(slow, window, false, &stop), STK__CHROME_OK);
        if (!end)
            continue;
        assert_ptr_equal(end, stop);
        assert_int_equal(fast->event.seen, slow->event.seen);
        assert_int_equal(fast->event.arg_count, slow->event.arg_count);
        for (int i = 0; i < STK__CHROME_FIELD_COUNT; i++) {
            if (fast->event.seen >> i & 1 && i != STK__CHROME_ARGS && i != STK__CHROME_ID2)
                assert_true(same_value(&fast->event.fields[i], &slow->event.fields[i]));
        }
        for (size_t i = 0; i < fast->event.arg_count; i++) {
            const stk__chrome_arg *x = &fast->event.args[i], *y = &slow->event.args[i];
            assert_int_equal(x->key_size, y->key_size);
            assert_memory_equal(x->key, y->key, x->key_size);
            assert_int_equal(x->outer, y->outer);
            assert_true(same_value(&x->value, &y->value));
        }
    }
    stk__chrome_free(fast);
    stk__chrome_free(slow);
    stk__builder_free(b);
    free(window);
}

static void both_parsers_read_alike(void **state)
{
    (void)state;
    check_parsers(
        "{\"ph\":\"X\",\"ts\":1.5,\"dur\":1234567890123456.789,\"pid\":-1,\"tid\":\"t\",\"name\":\"\",\"cat\":\"a\"}            ",
        true);
    check_parsers(
        "{\"ph\" : \"X\" , \"args\" : { \"a\" : [ 1 , 2.5 , \"x\" , [ ] , { \"k\" : null } ] , \"b\" : true } }         ",
        true);
    check_parsers("{\"ph\":\"b\",\"id2\":{\"local\":\"0x1\"},\"scope\":\"s\",\"cname\":\"good\",\"args\":{}}        ",
                  true);
    check_parsers(
        "{\"ph\":\"C\",\"args\":{\"a\":12345678,\"b\":123456789012345,\"c\":1234567890123456789,\"d\":1e5,\"e\":0.12345678}}         ",
        true);
    check_parsers(
        "{\"ph\":\"X\",\"name\":\"gr\xc3\xbc\xc3\x9f\xe4\xbd\xa0\",\"args\":{\"a long key, longer than a vector is\":\"\xc3\xa9\"}}        ",
        true);
    check_parsers("{\"ph\":\"X\",\"name\":\"a\\nb\"}                    ", false);
    check_parsers("{\"ph\":\"X\",\"args\":{\"a\":NaN}}                    ", false);
    check_parsers("{\"ph\":\"X\",\"ph\":\"X\"}                    ", false);
    check_parsers("{\"ph\":\"X\",\"args\":{\"a\":[01]}}                    ", false);
    check_parsers("{\"ph\":\"X\",\"more\":{\"a\":}}                    ", false);
    check_parsers("{\"ph\":\"X\",\"more\":[{\"a\":},{}]}                    ", false);
    check_parsers("{\"ph\":\"X\",\"more\":[{},[],{\"a\":{}}]}                    ", true);
}

/* Events lie across the windows of a file that is larger than they are, some of them longer than a window. */
static void events_across_windows_are_whole(void **state)
{
    (void)state;
    stk__text json = STK__TEXT_INIT;
    size_t events = 0;
    stk__text_puts(&json, "{\"traceEvents\":[\n");
    for (; json.length < 12u << 20; events++) {
        stk__text_printf(
            &json,
            "{\"ph\":\"X\",\"name\":\"e%zu\",\"pid\":1,\"tid\":1,\"ts\":%zu,\"dur\":1,\"args\":{\"n\":%zu,\"pad\":\"",
            events % 100, events * 10, events);
        const size_t pad = events % 50 == 49 ? 3u << 19 : events * 7919 % 3000;
        for (size_t i = 0; i < pad; i++)
            stk__text_putc(&json, "abcdefg"[i % 7]);
        stk__text_puts(&json, events % 3 ? "\"}},\n" : "\\n\"}},\n");
    }
    stk__text_puts(&json, "]}");
    stk__trace *t = read_bytes(json.data, json.length);
    assert_int_equal(t->slices.count, events);
    assert_int_equal(t->note_count, 0);
    for (size_t i = 0; i < t->slices.count; i++) {
        assert_true(t->slices.ts[i] == (int64_t)i * 10000);
        assert_true(t->args.value[find_arg(t, i, "n")].integer == (int64_t)i);
    }
    stk__trace_free(t);
    stk__text_clear(&json);
}

static void broken_events_do_not_take_others_along(void **state)
{
    (void)state;
    stk__text json = STK__TEXT_INIT;
    static const char *const broken[] = {
        "{\"ph\":\"X\",\"name\":\"x,\"ts\":1,\"dur\n",
        "{\"ph\":\"X\",\"args\":{\"a\":[1,2\n",
        "{\"ph\":\"X\"\n",
        "\"text\" 12 }}}\n",
    };
    stk__text_puts(&json, "[\n");
    for (size_t i = 0; i < 2000; i++) {
        stk__text_printf(&json, "{\"ph\":\"X\",\"name\":\"good\",\"pid\":1,\"tid\":1,\"ts\":%zu,\"dur\":1},\n", i * 10);
        stk__text_puts(&json, broken[i % 4]);
    }
    stk__text_puts(&json, "]");
    stk__trace *t = read_bytes(json.data, json.length);
    assert_int_equal(t->slices.count, 2000);
    assert_int_equal(noted(t, STK__REASON_SYNTAX), 2000);
    assert_int_equal(t->note_count, 1);
    stk__trace_free(t);
    stk__text_clear(&json);
}

static void file_of_the_recorder_reads_back(void **state)
{
    (void)state;
    char path[] = "/tmp/stoker-chrome-XXXXXX.json";
    const int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    close(fd);
    const stk_recorder_options options = {sizeof options, 0, "job"};
    stk_recorder *r;
    stk_recorder_stats stats;
    assert_int_equal(stk_recorder_open(path, &options, &r, NULL), STK_OK);
    stk__track *track = stk__recorder_track(r, "worker 0");
    const int32_t name = stk__recorder_name(r, "decode", "op");
    const stk__slice_args args = {{stk__recorder_name(r, "index", "arg"), 0}, {-7, 0}};
    stk__track_slice(track, name, 1000001, 1002003, &args);
    stk__track_counter(track, stk__recorder_name(r, "queue", "count"), 1500000, 2.5);
    assert_int_equal(stk_recorder_close(r, &stats, NULL), STK_OK);
    stk__input *in;
    stk__builder *b;
    stk__trace *t;
    assert_int_equal(stk__input_open(path, &in, NULL), STK_OK);
    assert_int_equal(stk__builder_new(NULL, &b, NULL), STK_OK);
    assert_int_equal(stk__trace_read(b, in, NULL, NULL), STK_OK);
    stk__input_close(in);
    assert_int_equal(stk__builder_finish(b, &t, NULL), STK_OK);
    const size_t slice = find_slice(t, "decode");
    assert_true(t->slices.ts[slice] == 1000001 && t->slices.dur[slice] == 2002);
    assert_true(t->args.value[find_arg(t, slice, "index")].integer == -7);
    assert_string_equal(stk__trace_str(t, t->threads[t->tracks[t->slices.track[slice]].thread].name), "worker 0");
    assert_string_equal(stk__trace_str(t, t->processes[0].name), "job");
    assert_true(t->counters.count == 1 && t->counters.value[0] == 2.5);
    assert_true(t->total_count >= 1 && t->totals[0].count == 1 && t->totals[0].total_ns == 2002);
    assert_int_equal(t->note_count, 0);
    stk__trace_free(t);
    unlink(path);
}

/* Every allocation made to fail in turn: out of memory is said, nothing leaks. */
static void reading_without_memory_fails_cleanly(void **state)
{
    (void)state;
    static const char json[] =
        "{\"a\":{\"b\":[1,\"\\u00e9\"]},\"traceEvents\":[{\"ph\":\"X\",\"name\":\"a\\n\",\"ts\":1,\"dur\":1,\"args\":{\"x\":[{\"y\" :1}],\"z\":N/A}},"
        "{\"ph\":\"b\",\"id\":1,\"ts\":1},{\"ph\":\"C\",\"name\":\"c\",\"ts\":1,\"args\":{\"q\":1}},{\"ph\":\"P\",\"sf\":1,\"ts\":1},"
        "{\"ph\":\"P\",\"stack\":[\"f\"],\"ts\":1},{\"ph\":\"M\",\"name\":\"other\",\"args\":{\"k\":1}}],\"stackFrames\":{\"1\":{\"name\":\"f\"}}}";
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        stk__builder *b = NULL;
        stk__input *in = NULL;
        stk_error err;
        stk_error_clear(&err);
        assert_int_equal(stk__input_open_memory(json, sizeof json - 1, &in, &err), STK_OK);
        assert_int_equal(stk__builder_new(NULL, &b, &err), STK_OK);
        stk__alloc_fail_at(n, true);
        const stk_status status = stk__trace_read(b, in, "chrome", &err);
        stk__alloc_fail_at(0, false);
        assert_true(status == STK_OK || status == STK_NOMEM);
        done = status == STK_OK;
        stk__input_close(in);
        stk__builder_free(b);
        assert_true(n < 1000);
    }
}

static int chrome_score(const char *text)
{
    return stk__reader_chrome.detect((const uint8_t *)text, strlen(text), true);
}

static void detect_knows_traces_from_other_json(void **state)
{
    (void)state;
    assert_true(chrome_score("{\"traceEvents\":[]}") > 50);
    assert_true(chrome_score("\n[\n{\"name\":\"a\",\"ph\":\"X\"}") > 50);
    assert_true(chrome_score("{\"traceE") > 0);
    assert_true(chrome_score("[") > 0);
    assert_int_equal(chrome_score("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"ph\":1}"), 0);
    assert_int_equal(chrome_score("{\"shared\":{\"frames\":[]},\"profiles\":[]}"), 0);
    assert_int_equal(chrome_score("{\"answer\":42}"), 0);
    assert_int_equal(chrome_score("[1,2,3]"), 0);
    assert_int_equal(chrome_score("main;run 5\n"), 0);
    assert_int_equal(chrome_score(""), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_keep_every_nanosecond),
        cmocka_unit_test(resolution_tells_how_times_were_written),
        cmocka_unit_test(args_keep_their_types),
        cmocka_unit_test(last_of_two_keys_counts),
        cmocka_unit_test(processes_and_threads_get_their_names),
        cmocka_unit_test(instants_go_to_the_track_of_their_scope),
        cmocka_unit_test(counters_have_a_track_per_series),
        cmocka_unit_test(flows_join_slices),
        cmocka_unit_test(samples_get_their_stacks),
        cmocka_unit_test(facts_stand_around_the_events),
        cmocka_unit_test(file_cut_anywhere_keeps_what_came_before),
        cmocka_unit_test(both_parsers_read_alike),
        cmocka_unit_test(events_across_windows_are_whole),
        cmocka_unit_test(broken_events_do_not_take_others_along),
        cmocka_unit_test(file_of_the_recorder_reads_back),
        cmocka_unit_test(reading_without_memory_fails_cleanly),
        cmocka_unit_test(detect_knows_traces_from_other_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
