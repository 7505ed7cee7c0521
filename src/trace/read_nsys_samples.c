/* Samples of the CPU and metrics of the GPU in an Nsight Systems export. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "trace/read_nsys.h"

#include "base/banned.h"

enum { FRAMES_MAX = 4096 };

/* ---- stacks ---- */

typedef struct open_stack {
    int64_t id;
    uint32_t frames[FRAMES_MAX]; /* innermost first */
    size_t count;
    bool any, too_deep;
} open_stack;

static void close_stack(ns_reader *r, open_stack *s)
{
    uint32_t site = STK__NONE;
    for (size_t i = s->count; i-- > 0;)
        site = stk__builder_callsite(r->b, site, s->frames[i]);
    if (s->any && site != STK__NONE)
        stk__ns_put(r, NS_KEY_STACK, (uint64_t)s->id, 0, site);
    if (s->too_deep)
        stk__builder_note(r->b, STK__REASON_TOO_DEEP, -1);
    s->count = 0;
    s->any = s->too_deep = false;
}

/* The rows of a stack follow each other, innermost frame first. */
static void read_stacks(ns_reader *r, open_stack *s)
{
    enum { ID, SYMBOL, MODULE, KERNEL };
    static const char *const columns[] = {"id", "symbol", "module", "kernelMode", NULL};
    ns_rows rows;
    if (stk__ns_rows_open(&rows, r, "SAMPLING_CALLCHAINS", columns))
        while (stk__ns_rows_next(&rows)) {
            const int64_t id = stk__ns_int(&rows, ID, 0);
            if (s->any && id != s->id)
                close_stack(r, s);
            s->id = id;
            s->any = true;
            if (s->count == FRAMES_MAX) {
                s->too_deep = true;
                continue;
            }
            const stk__string name = stk__ns_name(&rows, SYMBOL);
            s->frames[s->count++] = stk__builder_frame(
                r->b, &(stk__trace_frame){.name = name ? name : r->words.unnamed,
                                          .module = stk__ns_name(&rows, MODULE),
                                          .flags = stk__ns_int(&rows, KERNEL, 0) ? STK__FRAME_KERNEL : 0});
        }
    stk__ns_rows_close(&rows);
    close_stack(r, s);
}

/* Each sample counts once: the cycles between two are not kept by all versions. */
void stk__ns_read_samples(ns_reader *r)
{
    enum { ID, START, TID };
    static const char *const columns[] = {"id", "start", "globalTid", NULL};
    if (!stk__ns_has_table(r, "COMPOSITE_EVENTS"))
        return;
    open_stack *s = stk__calloc(1, sizeof *s);
    if (!s) {
        stk__ns_nomem(r, sizeof *s);
        return;
    }
    read_stacks(r, s);
    stk__free(s);
    ns_rows rows;
    if (stk__ns_rows_open(&rows, r, "COMPOSITE_EVENTS", columns))
        while (stk__ns_rows_next(&rows)) {
            const int64_t ts = stk__ns_int(&rows, START, STK__NO_TIME);
            stk__builder_saw(r->b, 1);
            if (ts < -STK__TIME_MAX || ts > STK__TIME_MAX) {
                stk__builder_note(r->b, STK__REASON_NO_TIME, -1);
                continue;
            }
            const uint32_t site = stk__ns_get(r, NS_KEY_STACK, (uint64_t)stk__ns_int(&rows, ID, 0), 0);
            const uint32_t track = stk__ns_thread_track(r, stk__ns_int(&rows, TID, 0));
            stk__builder_track_at(r->b, track)->unit = STK__UNIT_SAMPLES;
            stk__builder_sample(r->b, track, ts, site, 1, 0);
        }
    stk__ns_rows_close(&rows);
}

/* ---- metrics ---- */

static void read_metric_names(ns_reader *r)
{
    enum { TYPE, METRIC, NAME };
    static const char *const columns[] = {"typeId", "metricId", "metricName", NULL};
    ns_rows rows;
    if (stk__ns_rows_open(&rows, r, "TARGET_INFO_GPU_METRICS", columns))
        while (stk__ns_rows_next(&rows))
            stk__ns_put(r, NS_KEY_METRIC_NAME, (uint64_t)stk__ns_int(&rows, TYPE, 0),
                        (uint64_t)stk__ns_int(&rows, METRIC, 0), stk__ns_text(&rows, NAME));
    stk__ns_rows_close(&rows);
}

/* "GPU 0: SM Active [Throughput %]". The low byte of a type is the GPU that it is of. */
static uint32_t metric_track(ns_reader *r, int64_t type, int64_t metric)
{
    uint32_t track = stk__ns_get(r, NS_KEY_METRIC, (uint64_t)type, (uint64_t)metric);
    if (track != STK__NONE)
        return track;
    const uint32_t known = stk__ns_get(r, NS_KEY_METRIC_NAME, (uint64_t)type, (uint64_t)metric);
    size_t size = 0;
    const char *text = known != STK__NONE && known ? stk__builder_get(r->b, known, &size) : "";
    stk__text_reset(&r->text);
    stk__text_printf(&r->text, "GPU %lld: ", (long long)(type & 0xff));
    stk__text_write(&r->text, text, size);
    if (!size)
        stk__text_printf(&r->text, "metric %lld", (long long)metric);
    const stk__string name = r->text.failed ? 0 : stk__builder_string(r->b, r->text.data, r->text.length);
    track = stk__builder_counter_track(r->b, STK__NONE, STK__NONE, name);
    stk__ns_put(r, NS_KEY_METRIC, (uint64_t)type, (uint64_t)metric, track);
    return track;
}

void stk__ns_read_metrics(ns_reader *r)
{
    enum { TIME, TYPE, METRIC, VALUE };
    static const char *const columns[] = {"timestamp", "typeId", "metricId", "value", NULL};
    if (!stk__ns_has_table(r, "GPU_METRICS"))
        return;
    read_metric_names(r);
    ns_rows rows;
    if (stk__ns_rows_open(&rows, r, "GPU_METRICS", columns))
        while (stk__ns_rows_next(&rows)) {
            const int64_t ts = stk__ns_int(&rows, TIME, STK__NO_TIME);
            stk__builder_saw(r->b, 1);
            if (ts < -STK__TIME_MAX || ts > STK__TIME_MAX || stk__ns_is_null(&rows, VALUE)) {
                stk__builder_note(r->b, STK__REASON_NO_TIME, -1);
                continue;
            }
            stk__builder_counter(r->b, metric_track(r, stk__ns_int(&rows, TYPE, 0), stk__ns_int(&rows, METRIC, 0)), ts,
                                 sqlite3_column_double(rows.statement, rows.column[VALUE]));
        }
    stk__ns_rows_close(&rows);
}
