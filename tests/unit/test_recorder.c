/* The recorder: what reaches the file (read as Chrome text), what is counted as lost, memory, errors, threads. */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include <stoker/trace.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "trace/recorder.h"

static char folder[] = "/tmp/stoker-recorder-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static stk_recorder *start(const char *name, size_t memory)
{
    stk_recorder *r = NULL;
    stk_error err = {0};
    const stk_recorder_options options = {sizeof options, memory, "test"};
    if (stk_recorder_open(in_folder(name), &options, &r, &err) != STK_OK)
        fail_msg("%s", err.message);
    return r;
}

static stk_recorder_stats stop(stk_recorder *r)
{
    stk_recorder_stats stats;
    stk_error err = {0};
    if (stk_recorder_close(r, &stats, &err) != STK_OK)
        fail_msg("%s", err.message);
    return stats;
}

static char *read_text(const char *name)
{
    char *text = NULL;
    size_t size;
    assert_int_equal(stk__read_file(in_folder(name), 1 << 30, &text, &size, NULL), STK_OK);
    return text;
}

static size_t count_of(const char *text, const char *what)
{
    /* Not by strstr: that of the sanitizers measures all of the text each time. */
    const size_t length = strlen(what);
    size_t n = 0;
    for (const char *p = text; *p; p++)
        n += *p == *what && strncmp(p, what, length) == 0;
    return n;
}

/* Reads `"key":NUMBER` of the totals line that holds `what`; -1 when there is none. */
static long long total_of(const char *text, const char *what, const char *key)
{
    for (const char *line = text; (line = strstr(line, "\"stoker_total\"")); line++) {
        char copy[1024], pattern[64];
        snprintf(copy, sizeof copy, "%.*s", (int)strcspn(line, "\n"), line);
        snprintf(pattern, sizeof pattern, "\"%s\":", key);
        const char *value = strstr(copy, pattern);
        if (strstr(copy, what) && value)
            return strtoll(value + strlen(pattern), NULL, 10);
    }
    return -1;
}

static void recorder_null_is_a_no_op(void **state)
{
    stk_recorder_stats stats = {1, 2, 3, 4};
    stk_step(NULL, 1);
    stk_step_end(NULL);
    stk_span_begin(NULL, "x");
    stk_span_end(NULL);
    stk_counter(NULL, "x", 1);
    assert_null(stk__recorder_track(NULL, "x"));
    assert_int_equal(stk__recorder_name(NULL, "x", "y"), 0);
    stk__track_slice(NULL, 1, 0, 1, NULL);
    stk__track_counter(NULL, 1, 0, 1);
    assert_int_equal(stk_recorder_close(NULL, &stats, NULL), STK_OK);
    assert_int_equal(stats.events_lost, 0);
}

static void recorder_refuses_unknown_endings(void **state)
{
    stk_recorder *r = (stk_recorder *)state;
    stk_error err = {0};
    assert_int_equal(stk_recorder_open(in_folder("x.txt"), NULL, &r, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "x.txt"));
    assert_non_null(strstr(err.message, ".pftrace"));
    assert_ptr_equal(r, state);
    assert_int_equal(access(in_folder("x.txt"), F_OK), -1);
}

static void recorder_refuses_too_little_memory(void **state)
{
    stk_recorder *r;
    stk_error err = {0};
    const stk_recorder_options options = {sizeof options, 4096, NULL};
    assert_int_equal(stk_recorder_open(in_folder("m.json"), &options, &r, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "4096"));
}

static void recorder_names_file_that_cannot_be_created(void **state)
{
    stk_recorder *r;
    stk_error err = {0};
    assert_int_equal(stk_recorder_open(in_folder("none/x.json"), NULL, &r, &err), STK_IO);
    assert_string_equal(err.file, in_folder("none/x.json"));
    assert_non_null(strstr(err.message, "No such file"));
}

static void recorder_writes_slices_counters_and_totals(void **state)
{
    stk_recorder *r = start("a.json", 0);
    stk__track *track = stk__recorder_track(r, "worker 0");
    const int32_t op = stk__recorder_name(r, "parse", "op"), arg = stk__recorder_name(r, "samples", "arg");
    const int32_t depth = stk__recorder_name(r, "queue", "counter");
    assert_int_equal(stk__recorder_name(r, "parse", "op"), op);
    assert_int_not_equal(stk__recorder_name(r, "parse", "wait"), op);
    stk__track_slice(track, op, 1001, 2502, &(stk__slice_args){{arg}, {-7}});
    stk__track_slice(track, op, 3000, 2000, NULL); /* ends before it starts: shown with no duration */
    stk__track_counter(track, depth, 5000, 2.5);
    stk__track_counter(track, depth, 5001, (double)NAN);
    const stk_recorder_stats stats = stop(r);
    assert_int_equal(stats.events_written, 3);
    assert_int_equal(stats.events_lost, 1);
    char *text = read_text("a.json");
    assert_int_equal(stats.bytes_written, strlen(text));
    assert_non_null(strstr(text, "{\"ph\":\"X\",\"name\":\"parse\",\"cat\":\"op\",\"ts\":1.001,\"dur\":1.501,"));
    assert_non_null(strstr(text, "\"args\":{\"samples\":-7}},\n"));
    assert_non_null(strstr(text, "\"ts\":3.000,\"dur\":0.000,"));
    assert_non_null(strstr(text, "\"name\":\"queue\",\"ts\":5.000,"));
    assert_int_equal(total_of(text, "\"parse\"", "count"), 2);
    assert_int_equal(total_of(text, "\"parse\"", "total_ns"), 1501);
    assert_int_equal(total_of(text, "\"queue\"", "lost"), 1);
    assert_string_equal(text + strlen(text) - 4, "\n]}\n");
    stk__free(text);
}

static void recorder_gzip_holds_the_same_text(void **state)
{
    stk_recorder *r = start("z.json.gz", 0);
    stk__track *track = stk__recorder_track(r, "worker 0");
    const int32_t op = stk__recorder_name(r, "parse", "op");
    for (int i = 0; i < 5000; i++)
        stk__track_slice(track, op, 1000 * i, 1000 * i + 10, NULL);
    const stk_recorder_stats stats = stop(r);
    struct stat st;
    assert_int_equal(stat(in_folder("z.json.gz"), &st), 0);
    assert_int_equal(stats.bytes_written, st.st_size);
    const size_t room = 4 << 20;
    char *text = calloc(1, room);
    gzFile file = gzopen(in_folder("z.json.gz"), "rb");
    const int size = gzread(file, text, (unsigned)room - 1);
    assert_int_equal(gzclose(file), Z_OK);
    assert_in_range(size, 1, room - 1);
    assert_int_equal(count_of(text, "\"ph\":\"X\""), 5000);
    assert_string_equal(text + size - 4, "\n]}\n");
    free(text);
}

static void recorder_escapes_names(void **state)
{
    stk_recorder *r = start("e.json", 0);
    stk_span_begin(r, "a\"b\\c\nd\xff");
    stk_span_end(r);
    stop(r);
    char *text = read_text("e.json");
    assert_non_null(strstr(text, "\"name\":\"a\\\"b\\\\c\\\\x0ad\\\\xff\""));
    stk__free(text);
}

static void recorder_loses_events_only_when_the_ring_is_full_and_counts_them(void **state)
{
    stk_recorder *r = start("l.json", 1 << 20);
    stk__track *track = stk__recorder_track(r, "worker 0");
    const int32_t op = stk__recorder_name(r, "parse", "op");
    const int n = 200000;
    for (int i = 0; i < n; i++)
        stk__track_slice(track, op, 100 * i, 100 * i + 30, NULL);
    assert_in_range(stk__recorder_memory(r), 1, 1 << 20);
    const stk_recorder_stats stats = stop(r);
    assert_int_equal(stats.events_written + stats.events_lost, n);
    char *text = read_text("l.json");
    assert_int_equal(count_of(text, "\"ph\":\"X\""), stats.events_written);
    assert_int_equal(total_of(text, "\"parse\"", "count"), n);
    assert_int_equal(total_of(text, "\"parse\"", "total_ns"), 30LL * n);
    assert_int_equal(total_of(text, "\"parse\"", "lost"), stats.events_lost);
    stk__free(text);
}

static void recorder_memory_stays_under_its_cap_whatever_is_asked(void **state)
{
    static const size_t caps[] = {1 << 20, 3 << 20, 16 << 20};
    for (size_t c = 0; c < sizeof caps / sizeof caps[0]; c++) {
        stk_recorder *r = start("cap.json.gz", caps[c]);
        size_t tracks = 0;
        char name[300];
        for (int i = 0; i < 300; i++)
            tracks += stk__recorder_track(r, "t") != NULL;
        for (int i = 0; i < 5000; i++) {
            snprintf(name, sizeof name, "%0*d", 200, i);
            stk__recorder_name(r, name, "op");
        }
        assert_in_range(stk__recorder_memory(r), caps[c] / 2, caps[c]);
        assert_in_range(tracks, c ? 32 : 8, 256);
        stop(r);
    }
}

static void recorder_names_beyond_the_table_share_one(void **state)
{
    stk_recorder *r = start("n.json", 1 << 20);
    stk__track *track = stk__recorder_track(r, "t");
    char name[32];
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "name %d", i);
        const int32_t id = stk__recorder_name(r, name, "op");
        assert_true(id > 0);
        stk__track_slice(track, id, i * 10, i * 10 + 5, NULL);
    }
    stk__track_slice(track, -5, 5000, 5001, NULL);
    stk__track_slice(track, 1 << 30, 5002, 5003, &(stk__slice_args){{1 << 30}, {1}});
    const stk_recorder_stats stats = stop(r);
    assert_int_equal(stats.events_written, 202);
    char *text = read_text("n.json");
    assert_int_equal(count_of(text, "\"ph\":\"X\""), 202);
    assert_in_range(count_of(text, "\"ph\":\"X\",\"name\":\"(other)\""), 100, 201);
    stk__free(text);
}

static void recorder_spans_deeper_than_64_are_counted_as_lost(void **state)
{
    stk_recorder *r = start("d.json", 0);
    for (int i = 0; i < 70; i++)
        stk_span_begin(r, i < 64 ? "in" : "deep");
    for (int i = 0; i < 75; i++) /* more ends than begins do no harm */
        stk_span_end(r);
    const stk_recorder_stats stats = stop(r);
    assert_int_equal(stats.events_written, 64);
    assert_int_equal(stats.events_lost, 6);
    char *text = read_text("d.json");
    assert_int_equal(total_of(text, "\"deep\"", "lost"), 6);
    assert_int_equal(total_of(text, "\"in\"", "lost"), 0);
    stk__free(text);
}

static void recorder_close_ends_open_spans_and_steps(void **state)
{
    stk_recorder *r = start("o.json", 0);
    stk_step(r, 41);
    stk_step(r, 42);
    stk_span_begin(r, "outer");
    stk_span_begin(r, "inner");
    assert_int_equal(stop(r).events_written, 4);
    char *text = read_text("o.json");
    assert_non_null(strstr(text, "\"args\":{\"step\":41}"));
    assert_non_null(strstr(text, "\"args\":{\"step\":42}"));
    assert_int_equal(count_of(text, "\"cat\":\"step\""), 2);
    assert_int_equal(count_of(text, "\"cat\":\"span\""), 2);
    assert_int_equal(count_of(text, "\"args\":{\"name\":\"steps\"}"), 1);
    stk__free(text);
}

static void recorder_reads_a_reused_name_buffer_again(void **state)
{
    stk_recorder *r = start("p.json", 0);
    char name[32];
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "name%d", i % 3);
        stk_span_begin(r, name);
        stk_span_end(r);
    }
    stop(r);
    char *text = read_text("p.json");
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "\"name%d\"", i);
        assert_int_equal(total_of(text, name, "count"), 2);
    }
    stk__free(text);
}

/* The thread's memory of its track must not outlive the recorder, even at the same address. */
static void recorder_opened_after_another_closed_gets_its_own_tracks(void **state)
{
    for (int i = 0; i < 10; i++) {
        stk_recorder *r = start("g.json", 1 << 20), *other = start("h.json", 1 << 20);
        stk_span_begin(r, "left");
        stk_span_begin(other, "right");
        stk_span_end(other);
        stk_counter(other, "load", 1);
        stk_span_end(r);
        assert_int_equal(stop(r).events_written, 1);
        assert_int_equal(stop(other).events_written, 2);
        char *text = read_text("g.json");
        assert_int_equal(count_of(text, "\"left\""), 2); /* the slice and its total */
        assert_int_equal(count_of(text, "\"right\""), 0);
        stk__free(text);
    }
}

static void recorder_full_disk_is_reported_at_close_with_the_file(void **state)
{
    static const char *const names[] = {"full.pftrace", "full.json", "full.json.gz"};
    for (int i = 0; i < 3; i++) {
        stk_error err = {0};
        stk_recorder_stats stats;
        assert_int_equal(symlink("/dev/full", in_folder(names[i])), 0);
        stk_recorder *r = start(names[i], 0);
        for (int k = 0; k < 10000; k++) {
            stk_span_begin(r, "x");
            stk_span_end(r);
        }
        assert_int_equal(stk_recorder_close(r, &stats, &err), STK_IO);
        assert_string_equal(err.file, in_folder(names[i]));
        assert_non_null(strstr(err.message, "No space left"));
        assert_int_equal(stats.bytes_written, 0);
        assert_int_equal(stats.events_written, 0);
        assert_int_equal(stats.events_lost, 10000);
    }
}

/* ---- the size of the file ---- */

enum { BURSTS = 60, BURST = 1500 };

/* Spans with a counter each, at a pace that the writer can follow more or less. */
static stk_recorder_stats record_much(const char *name, uint64_t limit, uint64_t last)
{
    stk_recorder *r = NULL;
    stk_error err = {0};
    const stk_recorder_options options = {
        .struct_size = sizeof options, .process = "test", .limit_bytes = limit, .last_bytes = last};
    if (stk_recorder_open(in_folder(name), &options, &r, &err) != STK_OK)
        fail_msg("%s", err.message);
    for (int i = 0; i < BURSTS; i++) {
        for (int k = 0; k < BURST; k++) {
            stk_span_begin(r, "work");
            stk_counter(r, "number", i * BURST + k);
            stk_span_end(r);
        }
        usleep(4000);
    }
    assert_true(stk__recorder_memory(r) <= 16 << 20);
    return stop(r);
}

static void check_counts(const char *name, const stk_recorder_stats *s, uint64_t most)
{
    struct stat info;
    assert_int_equal(s->events_written + s->events_lost + s->events_dropped, 2 * BURSTS * BURST);
    assert_true(s->events_written > 1000 && s->events_dropped > 1000);
    assert_int_equal(stat(in_folder(name), &info), 0);
    assert_int_equal(info.st_size, s->bytes_written);
    assert_true((uint64_t)info.st_size <= most && (uint64_t)info.st_size > most / 2);
}

static long long number_in(const char *line)
{
    const char *value = line ? strstr(line, "\"value\":") : NULL;
    return value ? strtoll(value + strlen("\"value\":"), NULL, 10) : -1;
}

static void recorder_stops_at_the_limit_and_counts_the_rest(void **state)
{
    const stk_recorder_stats s = record_much("limit.json", 1 << 20, 0);
    check_counts("limit.json", &s, (1 << 20) + 4096); /* the totals come on top */
    char *text = read_text("limit.json"), wanted[64];
    assert_int_equal(count_of(text, "\"ph\":\"X\"") + count_of(text, "\"ph\":\"C\""), s.events_written);
    assert_int_equal(number_in(strstr(text, "\"ph\":\"C\"")), 0);
    snprintf(wanted, sizeof wanted, "\"events_dropped\":%llu}}\n]}\n", (unsigned long long)s.events_dropped);
    assert_non_null(strstr(text, wanted));
    assert_int_equal(total_of(text, "\"work\"", "count"), BURSTS * BURST);
    stk__free(text);
}

static void recorder_keeps_the_last_part(void **state)
{
    const stk_recorder_stats s = record_much("last.json", 0, 1 << 20);
    check_counts("last.json", &s, 1 << 20);
    char *text = read_text("last.json");
    assert_int_equal(count_of(text, "\"ph\":\"X\"") + count_of(text, "\"ph\":\"C\""), s.events_written);
    assert_int_equal(count_of(text, "\"traceEvents\""), 1);
    assert_true(number_in(strstr(text, "\"ph\":\"C\"")) > 1000);
    char last[32];
    snprintf(last, sizeof last, "\"value\":%d}", BURSTS * BURST - 1);
    assert_true(s.events_lost || strstr(text, last));
    assert_int_equal(total_of(text, "\"work\"", "count"), BURSTS * BURST);
    stk__free(text);
}

/* Segments are cut out of the compressed file: length and checksum of what is left must fit. */
static void recorder_keeps_a_sound_gzip_of_the_last_part(void **state)
{
    const stk_recorder_stats s = record_much("last.json.gz", 0, 1 << 20);
    gzFile in = gzopen(in_folder("last.json.gz"), "rb");
    size_t size = 0, capacity = 64 << 20;
    char *text = stk__alloc(capacity);
    assert_non_null(in);
    for (int n; (n = gzread(in, text + size, 1 << 20)) > 0;)
        size += (size_t)n;
    text[size] = 0;
    assert_int_equal(gzclose(in), Z_OK); /* Z_BUF_ERROR where the trailer is missing, Z_DATA_ERROR where it is wrong */
    assert_int_equal(count_of(text, "\"ph\":\"X\"") + count_of(text, "\"ph\":\"C\""), s.events_written);
    stk__free(text);
}

static void recorder_refuses_sizes_that_mean_nothing(void **state)
{
    static const stk_recorder_options wrong[] = {
        {.struct_size = sizeof wrong[0], .limit_bytes = 4095},
        {.struct_size = sizeof wrong[0], .last_bytes = 4095},
        {.struct_size = sizeof wrong[0], .limit_bytes = 1 << 24, .last_bytes = 1 << 24},
    };
    for (size_t i = 0; i < 3; i++) {
        stk_recorder *r;
        stk_error err = {0};
        assert_int_equal(stk_recorder_open(in_folder("size.json"), &wrong[i], &r, &err), STK_INVALID);
        assert_non_null(strstr(err.message, i < 2 ? "4095" : "both"));
        assert_int_equal(access(in_folder("size.json"), F_OK), -1);
    }
    const stk_recorder_options last = {.struct_size = sizeof last, .last_bytes = 1 << 24};
    stk_recorder *r;
    stk_error err = {0};
    assert_int_equal(symlink("/dev/null", in_folder("null.json")), 0);
    assert_int_equal(stk_recorder_open(in_folder("null.json"), &last, &r, &err), STK_IO);
    assert_non_null(strstr(err.message, "plain file"));
}

static void recorder_open_survives_every_failed_allocation(void **state)
{
    stk_recorder *r = NULL;
    int failures = 0;
    for (uint64_t n = 1; n < 60; n++) {
        stk_error err = {0};
        stk__alloc_fail_at(n, false);
        const stk_status status = stk_recorder_open(in_folder("f.json.gz"), NULL, &r, &err);
        if (status == STK_OK) {
            stk__track_slice(stk__recorder_track(r, "t"), stk__recorder_name(r, "y", "op"), 1, 2, NULL);
            stk_span_begin(r, "x");
            stk_span_end(r);
            stk_step(r, 1);
        } else {
            assert_int_equal(status, STK_NOMEM);
            assert_null(r);
            failures++;
        }
        stk__alloc_fail_at(0, false);
        if (status == STK_OK)
            stop(r);
        r = NULL;
    }
    assert_in_range(failures, 8, 60);
}

enum { THREADS = 8, PER_THREAD = 20000 };

typedef struct worker {
    stk_recorder *recorder;
    int number;
} worker;

static void *work(void *argument)
{
    const worker *w = argument;
    char name[32];
    snprintf(name, sizeof name, "worker %d", w->number);
    stk__track *track = stk__recorder_track(w->recorder, name);
    for (int i = 0; i < PER_THREAD; i++) {
        const int64_t now = stk__now_ns();
        stk__track_slice(track, stk__recorder_name(w->recorder, i % 2 ? "odd" : "even", "op"), now, now, NULL);
        if (i % 100 == 0) {
            stk_step(w->recorder, i);
            stk_span_begin(w->recorder, "span");
            stk_counter(w->recorder, "load", i);
            stk_span_end(w->recorder);
        }
    }
    stk_step_end(w->recorder);
    return NULL;
}

static void recorder_takes_events_from_eight_threads(void **state)
{
    static const char *const names[] = {"t.pftrace", "t.json"};
    for (int k = 0; k < 2; k++) {
        stk_recorder *r = start(names[k], 0);
        pthread_t threads[THREADS];
        worker workers[THREADS];
        for (int i = 0; i < THREADS; i++) {
            workers[i] = (worker){r, i};
            assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        const stk_recorder_stats stats = stop(r);
        assert_int_equal(stats.events_written + stats.events_lost, THREADS * (PER_THREAD + 3 * PER_THREAD / 100));
    }
    char *text = read_text("t.json");
    long long count = 0;
    for (const char *p = text; (p = strstr(p, "\"name\":\"odd\",\"count\":")); p++)
        count += strtoll(p + 21, NULL, 10);
    assert_int_equal(count, THREADS * PER_THREAD / 2);
    stk__free(text);
}

static void recorder_stop_finishes_the_file_and_ignores_what_comes_later(void **state)
{
    stk_recorder *r = start("s.json", 0);
    stk__track *track = stk__recorder_track(r, "worker 0");
    const int32_t op = stk__recorder_name(r, "parse", "op");
    stk_recorder_stats stats, again;
    stk_step(r, 7);
    stk_span_begin(r, "open");
    stk__track_slice(track, op, 10, 20, NULL);
    assert_int_equal(stk_recorder_stop(r, &stats, NULL), STK_OK);
    assert_int_equal(stats.events_written, 3);
    char *text = read_text("s.json");
    assert_int_equal(stats.bytes_written, strlen(text));
    assert_string_equal(text + strlen(text) - 4, "\n]}\n");

    stk_span_end(r); /* of a span that stop has ended */
    stk_step(r, 8);
    stk_span_begin(r, "late");
    stk_counter(r, "late", 1);
    for (int i = 0; i < 100000; i++) /* more than any ring holds */
        stk__track_slice(track, op, 30, 40, NULL);
    stk__track_brief(track, op, 50, 51);
    assert_null(stk__recorder_track(r, "worker 1"));
    assert_int_equal(stk_recorder_stop(r, &again, NULL), STK_OK);
    assert_memory_equal(&stats, &again, sizeof stats);
    assert_int_equal(stk_recorder_close(r, &again, NULL), STK_OK);
    assert_memory_equal(&stats, &again, sizeof stats);
    char *after = read_text("s.json");
    assert_string_equal(text, after);
    assert_int_equal(count_of(text, "late"), 0);
    assert_int_equal(total_of(text, "\"parse\"", "count"), 1);
    stk__free(text);
    stk__free(after);
    assert_int_equal(stk_recorder_stop(NULL, &stats, NULL), STK_OK);
    assert_int_equal(stats.events_written, 0);
}

/* Records until it is told to end, which is long after the stop. */
typedef struct endless {
    stk_recorder *recorder;
    atomic_bool end;
    atomic_int rounds;
} endless;

static void *record_on(void *argument)
{
    endless *e = argument;
    stk__track *track = stk__recorder_track(e->recorder, "worker");
    while (!atomic_load(&e->end)) {
        const int64_t now = stk__now_ns();
        stk_step(e->recorder, now);
        stk_span_begin(e->recorder, "outer");
        stk_span_begin(e->recorder, "inner");
        stk_counter(e->recorder, "load", 1);
        stk__track_slice(track, stk__recorder_name(e->recorder, "op", "op"), now, stk__now_ns(), NULL);
        stk_span_end(e->recorder);
        stk_span_end(e->recorder);
        atomic_fetch_add(&e->rounds, 1);
    }
    return NULL;
}

static void *record_late(void *argument)
{
    record_on(argument); /* a thread that was not there before */
    return NULL;
}

static void recorder_stops_while_threads_go_on(void **state)
{
    static const char *const names[] = {"w.json", "w.pftrace"};
    for (int round = 0; round < 12; round++) {
        endless e = {.recorder = start(names[round % 2], 1 << 20)};
        stk_recorder_stats stats;
        pthread_t threads[5];
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, record_on, &e), 0);
        while (atomic_load(&e.rounds) < 100 * round)
            usleep(100);
        assert_int_equal(stk_recorder_stop(e.recorder, &stats, NULL), STK_OK);
        assert_int_equal(pthread_create(&threads[4], NULL, record_late, &e), 0);
        const int before = atomic_load(&e.rounds);
        while (atomic_load(&e.rounds) < before + 1000)
            usleep(100);
        atomic_store(&e.end, true);
        for (int i = 0; i < 5; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(stk_recorder_close(e.recorder, NULL, NULL), STK_OK);
        if (round % 2 == 0) {
            char *text = read_text("w.json");
            assert_int_equal(strlen(text), stats.bytes_written);
            if (round == 0) /* the file is short: counting takes long under sanitizers */
                assert_int_equal(count_of(text, "\"ph\":\"X\"") + count_of(text, "\"ph\":\"C\""), stats.events_written);
            assert_string_equal(text + strlen(text) - 4, "\n]}\n");
            stk__free(text);
        }
    }
}

/* A failure is told once, by stop. */
static void recorder_stop_reports_a_full_disk(void **state)
{
    stk_error err = {0};
    assert_int_equal(symlink("/dev/full", in_folder("full2.json")), 0);
    stk_recorder *r = start("full2.json", 0);
    stk_span_begin(r, "x");
    assert_int_equal(stk_recorder_stop(r, NULL, &err), STK_IO);
    assert_string_equal(err.file, in_folder("full2.json"));
    assert_int_equal(stk_recorder_close(r, NULL, &err), STK_OK);
}

static int make_folder(void **state)
{
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorder_null_is_a_no_op),
        cmocka_unit_test(recorder_refuses_unknown_endings),
        cmocka_unit_test(recorder_refuses_too_little_memory),
        cmocka_unit_test(recorder_names_file_that_cannot_be_created),
        cmocka_unit_test(recorder_writes_slices_counters_and_totals),
        cmocka_unit_test(recorder_gzip_holds_the_same_text),
        cmocka_unit_test(recorder_escapes_names),
        cmocka_unit_test(recorder_loses_events_only_when_the_ring_is_full_and_counts_them),
        cmocka_unit_test(recorder_memory_stays_under_its_cap_whatever_is_asked),
        cmocka_unit_test(recorder_names_beyond_the_table_share_one),
        cmocka_unit_test(recorder_spans_deeper_than_64_are_counted_as_lost),
        cmocka_unit_test(recorder_close_ends_open_spans_and_steps),
        cmocka_unit_test(recorder_reads_a_reused_name_buffer_again),
        cmocka_unit_test(recorder_opened_after_another_closed_gets_its_own_tracks),
        cmocka_unit_test(recorder_full_disk_is_reported_at_close_with_the_file),
        cmocka_unit_test(recorder_stops_at_the_limit_and_counts_the_rest),
        cmocka_unit_test(recorder_keeps_the_last_part),
        cmocka_unit_test(recorder_keeps_a_sound_gzip_of_the_last_part),
        cmocka_unit_test(recorder_refuses_sizes_that_mean_nothing),
        cmocka_unit_test(recorder_open_survives_every_failed_allocation),
        cmocka_unit_test(recorder_takes_events_from_eight_threads),
        cmocka_unit_test(recorder_stop_finishes_the_file_and_ignores_what_comes_later),
        cmocka_unit_test(recorder_stops_while_threads_go_on),
        cmocka_unit_test(recorder_stop_reports_a_full_disk),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
