/* trace_writer OUT: records a known trace to OUT and prints what it recorded as JSON, for test_trace.py. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include <stoker/trace.h>

#include "base/clock.h"
#include "trace/recorder.h"

static const char *comma = "";

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* Records a slice and prints it. */
static void record(stk_recorder *r, stk__track *track, const char *row, const char *name, int64_t start, int64_t end)
{
    const stk__slice_args args = {{stk__recorder_name(r, "bytes", "arg"), stk__recorder_name(r, "index", "arg")},
                                  {end - start, -start}};
    stk__track_slice(track, stk__recorder_name(r, name, "op"), start, end, &args);
    printf("%s\n{\"track\":\"%s\",\"name\":\"%s\",\"start\":%" PRId64 ",\"end\":%" PRId64 "}", comma, row, name, start,
           end);
    comma = ",";
}

/* Work units as an engine records them: chained ops, then the unit from the first one's start to the last's end. */
static void record_units(stk_recorder *r, int64_t base)
{
    stk__track *track = stk__recorder_track(r, "worker 0");
    int64_t now = base;
    for (int i = 0; i < 2000; i++) {
        const int64_t start = now;
        for (int k = 0; k < 3; k++, now += 10 + i % 7)
            record(r, track, "worker 0", k == 0 ? "read" : k == 1 ? "parse" : "cast", now, now + 10 + i % 7);
        if (i % 100 == 0)
            pause_ms(30); /* a drain may come between the ops and their unit */
        record(r, track, "worker 0", "unit", start, now);
    }
    record(r, track, "worker 0", "epoch", base - 5, now);
}

/* Outer slices that come long after inner ones with the same start. */
static void record_late(stk_recorder *r, int64_t base)
{
    stk__track *track = stk__recorder_track(r, "late");
    record(r, track, "late", "inner", base + 10, base + 20);
    record(r, track, "late", "chained", base + 20, base + 30);
    pause_ms(200);
    record(r, track, "late", "outer", base + 10, base + 50);
    pause_ms(200);
    record(r, track, "late", "outer of chained", base + 20, base + 60);
}

static void record_overlaps(stk_recorder *r, int64_t base)
{
    stk__track *track = stk__recorder_track(r, "overlap");
    for (int i = 0; i < 10; i++)
        record(r, track, "overlap", i % 2 ? "odd" : "even", base + 10 * i, base + 10 * i + 15);
}

static void record_marks(stk_recorder *r)
{
    for (int i = 0; i < 100; i++) {
        stk_step(r, i);
        stk_span_begin(r, "train");
        stk_span_begin(r, "forward");
        stk_counter(r, "loss", 100.0 / (i + 1));
        stk_span_end(r);
        stk_span_end(r);
    }
    stk_step_end(r);
}

int main(int argc, char **argv)
{
    stk_recorder *r;
    stk_error err = {0};
    const stk_recorder_options options = {sizeof options, 0, "trace \"writer\""};
    if (argc != 2 || stk_recorder_open(argv[1], &options, &r, &err) != STK_OK) {
        fprintf(stderr, "trace_writer: %s\n", argc == 2 ? err.message : "usage: trace_writer OUT");
        return 2;
    }
    const int64_t base = stk__now_ns();
    printf("{\"slices\":[");
    record_late(r, base);
    record_units(r, base);
    record_overlaps(r, base);
    record_marks(r);
    stk_recorder_stats stats;
    if (stk_recorder_close(r, &stats, &err) != STK_OK) {
        fprintf(stderr, "trace_writer: %s\n", err.message);
        return 1;
    }
    printf("],\n\"events_written\":%" PRIu64 ",\"events_lost\":%" PRIu64 ",\"bytes_written\":%" PRIu64 "}\n",
           stats.events_written, stats.events_lost, stats.bytes_written);
    return 0;
}
