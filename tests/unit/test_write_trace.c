/* Writers of traces: numbers and escapes, Chrome JSON, CSV, NDJSON, exports. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../remove_tree.h"
#include "analyze/export.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "trace/builder.h"
#include "trace/emit.h"
#include "trace/writer.h"

static char dir[64];

static const char *in_dir(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static int setup(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/stoker-test-write-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    remove_tree(dir);
    return 0;
}

/* ---- numbers and escapes ---- */

static void emit_int_prints_as_printf_does(void **state)
{
    static const int64_t fixed[] = {0, 1, -1, 9, 10, 99, 100, 101, 999, 1000, INT64_MAX, INT64_MIN, INT64_MIN + 1};
    for (int i = 0; i < 2000; i++) {
        const uint64_t bits = stk__mix((uint64_t)i, 1);
        const int64_t n = i < (int)STK_COUNT(fixed) ? fixed[i] : (int64_t)(bits >> (bits & 63));
        char want[32];
        stk__text text = STK__TEXT_INIT;
        snprintf(want, sizeof want, "%" PRId64, n);
        stk__emit_int(&text, n);
        assert_int_equal(text.length, strlen(want));
        assert_memory_equal(text.data, want, text.length);
        stk__text_clear(&text);
    }
}

static void assert_us(int64_t ns, const char *want)
{
    stk__text text = STK__TEXT_INIT;
    stk__emit_us(&text, ns);
    stk__text_putc(&text, 0);
    assert_string_equal(text.data, want);
    stk__text_clear(&text);
}

static void emit_us_keeps_every_nanosecond(void **state)
{
    assert_us(0, "0");
    assert_us(1, "0.001");
    assert_us(-1, "-0.001");
    assert_us(1000, "1");
    assert_us(1500, "1.500");
    assert_us(-1999, "-1.999");
    assert_us(INT64_MAX, "9223372036854775.807");
    assert_us(INT64_MIN, "-9223372036854775.808");
}

static void assert_double_reads_back(double x)
{
    stk__text text = STK__TEXT_INIT;
    stk__emit_double(&text, x);
    stk__text_putc(&text, 0);
    char *end;
    const double back = stk__strtod(text.data, &end);
    assert_int_equal(*end, 0);
    assert_memory_equal(&back, &x, sizeof x);
    stk__text_clear(&text);
}

static void emit_double_reads_back_as_the_same_bits(void **state)
{
    static const double fixed[] = {0,    -0.0,    0.1,     1.0 / 3, 1e9,   123456.789, 9e15,
                                   1e16, DBL_MAX, DBL_MIN, 5e-324,  -1.25, 7e20};
    for (size_t i = 0; i < STK_COUNT(fixed); i++)
        assert_double_reads_back(fixed[i]);
    for (uint64_t i = 0; i < 3000; i++) {
        const uint64_t bits = stk__mix(i, 1);
        double x;
        memcpy(&x, &bits, sizeof x);
        if (isfinite(x))
            assert_double_reads_back(x);
        assert_double_reads_back((double)(bits % 100000000) / 1000);
    }
}

static void emit_json_equals_the_slow_escape(void **state)
{
    for (uint64_t i = 0; i < 4000; i++) {
        char bytes[40];
        const size_t size = stk__mix(i, 1) % sizeof bytes;
        for (size_t k = 0; k < size; k++) {
            const uint64_t r = stk__mix(i * 64 + k + 1000000, 1);
            bytes[k] = (char)(i % 3 == 0 ? r : i % 3 == 1 ? 'a' + r % 26 : r % 20 ? 'a' + r % 26 : r >> 8);
        }
        stk__text fast = STK__TEXT_INIT, slow = STK__TEXT_INIT;
        stk__emit_json(&fast, bytes, size);
        stk__text_json(&slow, bytes, size);
        assert_int_equal(fast.length, slow.length);
        assert_memory_equal(fast.data, slow.data, slow.length);
        stk__text_clear(&fast);
        stk__text_clear(&slow);
    }
}

/* ---- traces ---- */

typedef struct maker {
    stk__builder *b;
    uint32_t process, thread, track;
} maker;

static stk__string str(maker *m, const char *text)
{
    return stk__builder_str(m->b, text);
}

static maker start(const char *path, int64_t pid)
{
    maker m = {0};
    assert_int_equal(stk__builder_new(NULL, &m.b, NULL), STK_OK);
    stk__builder_start_file(m.b, path, "chrome");
    m.process = stk__builder_process(m.b, pid, 0);
    m.thread = stk__builder_thread(m.b, m.process, 7, 0);
    m.track = stk__builder_thread_track(m.b, m.thread);
    return m;
}

static stk__trace *finish(maker *m)
{
    stk__trace *t = NULL;
    assert_int_equal(stk__builder_finish(m->b, &t, NULL), STK_OK);
    return t;
}

/* What a writer makes of a trace, which is freed. */
static char *written(stk__trace *t, const stk__trace_writer *writer, stk__write_report *report)
{
    char *data;
    size_t size;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__trace_write(t, in_dir("out"), writer, report, &err), STK_OK);
    assert_int_equal(stk__read_file(in_dir("out"), SIZE_MAX / 2, &data, &size, NULL), STK_OK);
    assert_int_equal(strlen(data), size);
    stk__trace_free(t);
    return data;
}

static void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in: %s", part, text);
}

static size_t count_of(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *p = strstr(text, part); p; p = strstr(p + 1, part))
        n++;
    return n;
}

static void put_all_args(maker *m)
{
    stk__builder_arg_int(m->b, str(m, "i"), INT64_MIN);
    stk__builder_arg_uint(m->b, str(m, "u"), UINT64_MAX);
    stk__builder_arg_double(m->b, str(m, "d"), 5);
    stk__builder_arg_double(m->b, str(m, "nan"), NAN);
    stk__builder_arg_double(m->b, str(m, "inf"), -INFINITY);
    stk__builder_arg_bool(m->b, str(m, "b"), true);
    stk__builder_arg_null(m->b, str(m, "n"));
    stk__builder_arg_string(m->b, str(m, "s\""), str(m, "x\ny"));
    stk__builder_arg_json(m->b, str(m, "j"), str(m, "{\"a\":\n[1]}"));
}

static const char args_json[] = "{\"i\":-9223372036854775808,\"u\":18446744073709551615,\"d\":5.0,\"nan\":\"NaN\","
                                "\"inf\":\"-Infinity\",\"b\":true,\"n\":null,\"s\\\"\":\"x\\ny\",\"j\":{\"a\": [1]}}";

static void chrome_writes_all_kinds_of_events(void **state)
{
    maker m = start("a.json", 12);
    stk__builder_process_at(m.b, m.process)->name = str(&m, "python");
    stk__builder_process_at(m.b, m.process)->sort_index = -3;
    stk__builder_thread_at(m.b, m.thread)->name = str(&m, "main \"x\"");
    put_all_args(&m);
    stk__builder_slice(m.b, m.track, 1500, 2001, str(&m, "a"), str(&m, "op"), 0);
    stk__builder_instant(m.b, m.track, 2000, str(&m, "now"), 0);
    stk__builder_instant(m.b, stk__builder_process_track(m.b, m.process), 2000, str(&m, "here"), 0);
    stk__builder_instant(m.b, stk__builder_global_track(m.b), 2000, str(&m, "all"), 0);
    stk__builder_counter(m.b, stk__builder_counter_track(m.b, m.process, STK__NONE, str(&m, "mem")), 1000, 0.25);
    stk__builder_flow(m.b, m.track, 1600, STK__FLOW_START | STK__FLOW_ENCLOSING, str(&m, "f"), 0, str(&m, "9"));
    stk__builder_flow(m.b, m.track, 1700, STK__FLOW_END | STK__FLOW_ENCLOSING, str(&m, "f"), 0, str(&m, "9"));
    stk__builder_total(m.b, str(&m, "t"), str(&m, "n"), 3, 4, 5);
    stk__write_report report;
    char *text = written(finish(&m), &stk__writer_chrome, &report);
    char line[512];
    snprintf(
        line, sizeof line,
        "{\"ph\":\"X\",\"name\":\"a\",\"cat\":\"op\",\"ts\":1.500,\"dur\":2.001,\"pid\":12,\"tid\":7,\"args\":%s},\n",
        args_json);
    assert_has(text, line);
    assert_has(text, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":12,\"args\":{\"name\":\"python\"}},\n");
    assert_has(text, "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":12,\"args\":{\"sort_index\":-3}},\n");
    assert_has(text, "\"thread_name\",\"pid\":12,\"tid\":7,\"args\":{\"name\":\"main \\\"x\\\"\"}},\n");
    assert_has(text, "{\"ph\":\"i\",\"name\":\"now\",\"ts\":2,\"pid\":12,\"tid\":7,\"s\":\"t\"},\n");
    assert_has(text, "{\"ph\":\"i\",\"name\":\"here\",\"ts\":2,\"pid\":12,\"s\":\"p\"},\n");
    assert_has(text, "{\"ph\":\"i\",\"name\":\"all\",\"ts\":2,\"s\":\"g\"},\n");
    assert_has(text, "{\"ph\":\"C\",\"name\":\"mem\",\"ts\":1,\"pid\":12,\"args\":{\"value\":0.25}},\n");
    assert_has(text, "{\"ph\":\"s\",\"name\":\"f\",\"id\":\"9\",\"ts\":1.600,\"pid\":12,\"tid\":7},\n");
    assert_has(text, "{\"ph\":\"f\",\"name\":\"f\",\"id\":\"9\",\"ts\":1.700,\"pid\":12,\"tid\":7,\"bp\":\"e\"}\n]}\n");
    assert_has(text, "{\"track\":\"t\",\"name\":\"n\",\"count\":3,\"total_ns\":4,\"lost\":5}},\n");
    assert_int_equal(report.slices, 4);
    assert_int_equal(report.counters, 1);
    assert_int_equal(report.flows, 2);
    stk__free(text);
}

static void chrome_keeps_processes_of_two_files_apart(void **state)
{
    maker m = start("a.json", 12);
    stk__builder_slice(m.b, m.track, 0, 1000, str(&m, "first"), 0, 0);
    stk__builder_start_file(m.b, "b\"c.json", "chrome");
    const uint32_t process = stk__builder_process(m.b, 12, 0);
    const uint32_t thread = stk__builder_thread(m.b, process, 7, 0);
    stk__builder_slice(m.b, stk__builder_thread_track(m.b, thread), 0, 1000, str(&m, "second"), 0, 0);
    char *text = written(finish(&m), &stk__writer_chrome, NULL);
    assert_has(text, "\"name\":\"first\",\"ts\":0,\"dur\":1,\"pid\":12,\"tid\":7}");
    assert_int_equal(count_of(text, "\"pid\":12"), 1);
    assert_has(text, "\"args\":{\"labels\":\"pid 12 of b\\\"c.json\"}");
    assert_has(text, "{\"path\":\"b\\\"c.json\"}");
    stk__free(text);
}

static void chrome_writes_lanes_on_the_thread_they_came_from(void **state)
{
    maker m = start("a.json", 1);
    stk__builder_slice(m.b, m.track, 0, 10000, str(&m, "x"), 0, 0);
    stk__builder_slice(m.b, m.track, 5000, 10000, str(&m, "y"), 0, 0);
    stk__trace *t = finish(&m);
    assert_true(t->track_count > 1);
    char *text = written(t, &stk__writer_chrome, NULL);
    assert_has(text, "\"name\":\"y\",\"ts\":5,\"dur\":10,\"pid\":1,\"tid\":7}");
    stk__free(text);
}

static void chrome_async_slices_nest_and_overlapping_ones_get_an_id(void **state)
{
    maker m = start("a.json", 1);
    const uint32_t track = stk__builder_async_track(m.b, m.process, str(&m, "net"), str(&m, "16"), 0);
    stk__builder_slice(m.b, track, 0, 10000, str(&m, "outer"), str(&m, "net"), 0);
    stk__builder_slice(m.b, track, 1000, 1000, str(&m, "inner"), str(&m, "net"), 0);
    stk__builder_slice(m.b, track, 9000, 9000, str(&m, "late"), str(&m, "net"), 0);
    char *text = written(finish(&m), &stk__writer_chrome, NULL);
    const char *order[] = {
        "{\"ph\":\"b\",\"name\":\"outer\"",
        "{\"ph\":\"b\",\"name\":\"inner\"",
        "{\"ph\":\"e\",\"name\":\"inner\",\"cat\":\"net\",\"ts\":2,\"pid\":1,\"id2\":{\"local\":\"16\"}}",
        "{\"ph\":\"e\",\"name\":\"outer\",\"cat\":\"net\",\"ts\":10,",
        "{\"ph\":\"b\",\"name\":\"late\",\"cat\":\"net\",\"ts\":9,\"pid\":1,\"id2\":{\"local\":\"16/1\"}}",
        "{\"ph\":\"e\",\"name\":\"late\",\"cat\":\"net\",\"ts\":18,"};
    const char *p = text;
    for (size_t i = 0; i < STK_COUNT(order); i++) {
        p = strstr(p, order[i]);
        assert_non_null(p);
    }
    stk__free(text);
}

static void chrome_process_slices_get_a_row_of_their_own(void **state)
{
    maker m = start("p.pftrace", 1);
    stk__builder_slice(m.b, stk__builder_process_track(m.b, m.process), 0, 1000, str(&m, "whole"), 0, 0);
    char *text = written(finish(&m), &stk__writer_chrome, NULL);
    assert_has(text, "\"tid\":8388609,\"args\":{\"name\":\"(process)\"}}");
    assert_has(text, "\"name\":\"whole\",\"ts\":0,\"dur\":1,\"pid\":1,\"tid\":8388609}");
    stk__free(text);
}

static void put_fact(maker *m, const char *key, const char *value)
{
    stk__builder_fact(m->b, str(m, key), str(m, value));
}

static void chrome_facts_nest_again(void **state)
{
    maker m = start("a.json", 1);
    put_fact(&m, "distributedInfo.rank", "3");
    put_fact(&m, "traceName", "a\"b");
    put_fact(&m, "deviceProperties.0.name", "H");
    put_fact(&m, "deviceProperties.1.name", "01");
    put_fact(&m, "distributedInfo.backend", "nccl");
    put_fact(&m, "list.0", "true");
    put_fact(&m, "list.1", "1e5");
    put_fact(&m, "both", "1");
    put_fact(&m, "both.x", "2");
    put_fact(&m, "mix.0", "1");
    put_fact(&m, "mix.0.y", "2");
    put_fact(&m, "twice", "1");
    put_fact(&m, "twice", "2");
    put_fact(&m, "traceEvents.hostile", "1");
    char *text = written(finish(&m), &stk__writer_chrome, NULL);
    assert_has(text, "\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":3}");
    assert_has(text, "\"deviceProperties\":[{\"name\":\"H\"},{\"name\":\"01\"}]");
    assert_has(text, "\"list\":[true,1e5]");
    assert_has(text, "\"traceName\":\"a\\\"b\"");
    assert_has(text, "\"both\":1,\"both.x\":2,");
    assert_has(text, "\"mix\":{\"0\":1,\"0.y\":2}");
    assert_has(text, "\"twice\":1,\"twice (2)\":2");
    assert_int_equal(count_of(text, "hostile"), 0);
    stk__free(text);
}

static void chrome_samples_refer_to_the_tree_of_frames(void **state)
{
    maker m = start("perf.txt", 1);
    const uint32_t outer =
        stk__builder_frame(m.b, &(stk__trace_frame){.name = str(&m, "main"), .module = str(&m, "app")});
    const uint32_t inner =
        stk__builder_frame(m.b, &(stk__trace_frame){.name = str(&m, "run"), .file = str(&m, "r.py"), .line = 4});
    const uint32_t site = stk__builder_callsite(m.b, stk__builder_callsite(m.b, STK__NONE, outer), inner);
    stk__builder_sample(m.b, m.track, 3000, site, 2, str(&m, "cycles"));
    stk__builder_sample(m.b, m.track, STK__NO_TIME, site, 5, 0);
    stk__write_report report;
    char *text = written(finish(&m), &stk__writer_chrome, &report);
    assert_has(text, "\"0\":{\"name\":\"main\",\"category\":\"app\"},\n");
    assert_has(text, "\"1\":{\"name\":\"run\",\"file\":\"r.py\",\"line\":4,\"parent\":\"0\"}\n}");
    assert_has(text, "{\"ph\":\"P\",\"name\":\"cycles\",\"ts\":3,\"pid\":1,\"tid\":7,\"weight\":2,\"unit\":\"ns\",\"sf\":\"1\"}");
    assert_has(text, "\"samples\":[\n{\"cpu\":0,\"name\":\"\",\"pid\":1,\"tid\":7,\"weight\":5,\"unit\":\"ns\",\"sf\":\"1\"}\n]");
    assert_int_equal(report.samples, 2);
    stk__free(text);
}

/* ---- tables ---- */

static void csv_quotes_what_needs_it(void **state)
{
    maker m = start("a,b.json", 1);
    put_all_args(&m);
    stk__builder_slice(m.b, m.track, -5, 7, str(&m, "say \"hi\", now\r\n"), str(&m, " c"), 0);
    stk__builder_counter(m.b, stk__builder_counter_track(m.b, m.process, STK__NONE, str(&m, "mem")), 1000, 0.25);
    stk__write_report report;
    char *text = written(finish(&m), &stk__writer_csv, &report);
    assert_has(
        text,
        "ts,dur,name,category,pid,tid,process,thread,track,depth,id,parent_id,is_instant,is_unfinished,file,args\r\n"
        "-5,7,\"say \"\"hi\"\", now\r\n\",\" c\",1,7,,,");
    assert_has(text, ",0,0,,0,0,\"a,b.json\",\"{\"\"i\"\":-9223372036854775808,");
    assert_int_equal(report.slices, 1);
    assert_int_equal(report.lost_counters, 1);
    stk__free(text);
}

static void csv_of_a_profile_has_its_functions(void **state)
{
    maker m = start("x.pstats", 1);
    const uint32_t frame =
        stk__builder_frame(m.b, &(stk__trace_frame){.name = str(&m, "f"), .file = str(&m, "a.py"), .line = 3});
    stk__builder_function(
        m.b, &(stk__trace_function){.frame = frame, .calls = 5, .primitive_calls = 4, .self_ns = 6, .total_ns = 7});
    stk__write_report report;
    char *text = written(finish(&m), &stk__writer_csv, &report);
    assert_string_equal(
        text, "name,source,line,module,calls,primitive_calls,self_ns,total_ns,file\r\nf,a.py,3,,5,4,6,7,x.pstats\r\n");
    assert_int_equal(report.functions, 1);
    stk__free(text);
}

static void ndjson_has_one_object_per_row(void **state)
{
    maker m = start("a.json", 1);
    put_all_args(&m);
    stk__builder_slice(m.b, m.track, 5, 7, str(&m, "a"), 0, 0);
    stk__builder_counter(m.b, stk__builder_counter_track(m.b, m.process, STK__NONE, str(&m, "mem")), 9, NAN);
    const uint32_t frame =
        stk__builder_frame(m.b, &(stk__trace_frame){.name = str(&m, "f"), .file = str(&m, "a.py"), .line = 3});
    stk__builder_sample(m.b, m.track, STK__NO_TIME, stk__builder_callsite(m.b, STK__NONE, frame), 5, 0);
    char *text = written(finish(&m), &stk__writer_ndjson, NULL);
    assert_int_equal(count_of(text, "\n"), 3);
    assert_has(text, "{\"type\":\"slice\",\"ts\":5,\"dur\":7,\"name\":\"a\",\"category\":\"\",\"pid\":1,\"tid\":7,");
    assert_has(text, args_json);
    assert_has(text, "{\"type\":\"counter\",\"ts\":9,\"name\":\"mem\",\"value\":\"NaN\",");
    assert_has(text, "{\"type\":\"sample\",\"ts\":null,\"weight\":5,");
    assert_has(text, "\"stack\":[\"f (a.py:3)\"]}\n");
    stk__free(text);
}

/* ---- failures ---- */

static stk__trace *make_mixed(void)
{
    maker m = start("a.json", 1);
    put_all_args(&m);
    stk__builder_slice(m.b, m.track, 0, 10000, str(&m, "x"), 0, 0);
    stk__builder_slice(m.b, m.track, 5000, 10000, str(&m, "y"), 0, 0);
    stk__builder_slice(m.b, stk__builder_async_track(m.b, m.process, 0, str(&m, "1"), 0), 5, 5, str(&m, "z"), 0, 0);
    stk__builder_counter(m.b, stk__builder_counter_track(m.b, m.process, STK__NONE, str(&m, "mem")), 9, 1);
    const uint32_t frame = stk__builder_frame(m.b, &(stk__trace_frame){.name = str(&m, "f")});
    stk__builder_sample(m.b, m.track, 4, stk__builder_callsite(m.b, STK__NONE, frame), 5, 0);
    stk__builder_function(m.b, &(stk__trace_function){.frame = frame, .calls = 5});
    put_fact(&m, "a.b", "c");
    return finish(&m);
}

static void writers_survive_every_failed_allocation(void **state)
{
    const stk__trace_writer *const writers[] = {&stk__writer_chrome, &stk__writer_csv, &stk__writer_ndjson,
                                                &stk__writer_sqlite};
    stk__trace *t = make_mixed();
    for (size_t i = 0; i < STK_COUNT(writers); i++) {
        stk_status status = STK_NOMEM;
        for (uint64_t n = 1; n < 300 && status != STK_OK; n++) {
            stk_error err;
            stk_error_clear(&err);
            unlink(in_dir("fail"));
            stk__alloc_fail_at(n, false);
            status = stk__trace_write(t, in_dir("fail"), writers[i], NULL, &err);
            stk__alloc_fail_at(0, false);
            assert_int_equal(access(in_dir("fail"), F_OK) == 0, status == STK_OK);
        }
        assert_int_equal(status, STK_OK);
    }
    stk__trace_free(t);
}

static void empty_traces_are_written_whole(void **state)
{
    for (size_t i = 0; stk__trace_writers[i]; i++) {
        maker m = {0};
        assert_int_equal(stk__builder_new(NULL, &m.b, NULL), STK_OK);
        stk__trace *t = finish(&m);
        assert_int_equal(stk__trace_write(t, in_dir("none"), stk__trace_writers[i], NULL, NULL), STK_OK);
        stk__trace_free(t);
    }
}

/* ---- exports ---- */

static bool stop(void *arg, uint64_t done, uint64_t total)
{
    return false;
}

static stk__trace *make_many(int count)
{
    maker m = start("a.json", 1);
    for (int i = 0; i < count; i++)
        stk__builder_slice(m.b, m.track, i * 10, 5, str(&m, "name of a slice"), 0, 0);
    return finish(&m);
}

static void export_shards_stay_below_their_size(void **state)
{
    stk__trace *t = make_many(500);
    const stk__export_options options = {.dir = in_dir("shards/deep/"), .shard_bytes = 8192};
    stk__export_report report;
    assert_int_equal(stk__export_write(t, &stk__export_bigquery, &options, &report, NULL), STK_OK);
    assert_int_equal(report.slices, 500);
    assert_true(report.data_files > 5);
    size_t lines = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < report.data_files; i++) {
        char name[64], *data;
        size_t size;
        snprintf(name, sizeof name, "shards/deep/slice-%05zu.ndjson", i);
        assert_int_equal(stk__read_file(in_dir(name), 1 << 20, &data, &size, NULL), STK_OK);
        assert_true(size > 0 && size <= 8192);
        assert_int_equal(data[0], '{');
        assert_int_equal(data[size - 1], '\n');
        lines += count_of(data, "\n");
        bytes += size;
        stk__free(data);
    }
    assert_int_equal(lines, 500);
    assert_int_equal(bytes, report.data_bytes);
    struct stat st;
    assert_int_equal(stat(in_dir("shards/deep/load.sh"), &st), 0);
    assert_true(st.st_mode & 0100);
    stk__trace_free(t);
}

static void export_refuses_a_directory_with_something_in_it(void **state)
{
    stk__trace *t = make_many(3);
    stk_error err;
    stk_error_clear(&err);
    stk__export_options options = {.dir = in_dir("full")};
    assert_int_equal(mkdir(in_dir("full"), 0777), 0);
    assert_int_equal(stk__export_write(t, &stk__export_spark, &options, NULL, &err), STK_OK);
    assert_int_equal(stk__write_file(in_dir("full/slice-00009.ndjson"), "old", 3, NULL), STK_OK);
    assert_int_equal(stk__write_file(in_dir("full/mine.txt"), "mine", 4, NULL), STK_OK);
    assert_int_equal(stk__export_write(t, &stk__export_spark, &options, NULL, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "not empty"));
    options.force = true;
    assert_int_equal(stk__export_write(t, &stk__export_spark, &options, NULL, &err), STK_OK);
    assert_int_not_equal(access(in_dir("full/slice-00009.ndjson"), F_OK), 0);
    assert_int_equal(access(in_dir("full/mine.txt"), F_OK), 0);
    assert_int_equal(access(in_dir("full/slice-00000.ndjson"), F_OK), 0);
    stk__trace_free(t);
}

static size_t entries_of_dir(void)
{
    DIR *d = opendir(dir);
    size_t n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void export_that_is_stopped_leaves_nothing(void **state)
{
    stk__trace *t = make_many(40000);
    const stk__export_options options = {.dir = in_dir("stopped"), .progress = stop};
    const size_t before = entries_of_dir();
    stk_error err;
    assert_int_equal(stk__export_write(t, &stk__export_clickhouse, &options, NULL, &err), STK_CANCELLED);
    assert_int_equal(entries_of_dir(), before);
    stk__trace_free(t);
}

static void export_refuses_shards_that_no_engine_takes(void **state)
{
    stk__trace *t = make_many(3);
    const uint64_t sizes[] = {1, STK__SHARD_BYTES_MAX + 1};
    for (size_t i = 0; i < STK_COUNT(sizes); i++) {
        const stk__export_options options = {.dir = in_dir("sizes"), .shard_bytes = sizes[i]};
        assert_int_equal(stk__export_write(t, &stk__export_bigquery, &options, NULL, NULL), STK_INVALID);
    }
    stk__trace_free(t);
}

static void export_survives_every_failed_allocation(void **state)
{
    stk__trace *t = make_mixed();
    for (size_t i = 0; stk__export_targets[i]; i++) {
        stk_status status = STK_NOMEM;
        for (uint64_t n = 1; n < 1000 && status != STK_OK; n++) {
            const stk__export_options options = {.dir = in_dir("alloc")};
            const size_t before = entries_of_dir();
            stk__alloc_fail_at(n, false);
            status = stk__export_write(t, stk__export_targets[i], &options, NULL, NULL);
            stk__alloc_fail_at(0, false);
            if (status != STK_OK)
                assert_int_equal(entries_of_dir(), before);
        }
        assert_int_equal(status, STK_OK);
        remove_tree(in_dir("alloc"));
    }
    stk__trace_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(emit_int_prints_as_printf_does),
        cmocka_unit_test(emit_us_keeps_every_nanosecond),
        cmocka_unit_test(emit_double_reads_back_as_the_same_bits),
        cmocka_unit_test(emit_json_equals_the_slow_escape),
        cmocka_unit_test(chrome_writes_all_kinds_of_events),
        cmocka_unit_test(chrome_keeps_processes_of_two_files_apart),
        cmocka_unit_test(chrome_writes_lanes_on_the_thread_they_came_from),
        cmocka_unit_test(chrome_async_slices_nest_and_overlapping_ones_get_an_id),
        cmocka_unit_test(chrome_process_slices_get_a_row_of_their_own),
        cmocka_unit_test(chrome_facts_nest_again),
        cmocka_unit_test(chrome_samples_refer_to_the_tree_of_frames),
        cmocka_unit_test(csv_quotes_what_needs_it),
        cmocka_unit_test(csv_of_a_profile_has_its_functions),
        cmocka_unit_test(ndjson_has_one_object_per_row),
        cmocka_unit_test(writers_survive_every_failed_allocation),
        cmocka_unit_test(empty_traces_are_written_whole),
        cmocka_unit_test(export_shards_stay_below_their_size),
        cmocka_unit_test(export_refuses_a_directory_with_something_in_it),
        cmocka_unit_test(export_that_is_stopped_leaves_nothing),
        cmocka_unit_test(export_refuses_shards_that_no_engine_takes),
        cmocka_unit_test(export_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
