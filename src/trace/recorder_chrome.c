/* Chrome's trace event JSON: one complete event per line. */
#include <string.h>

#include "base/str.h"
#include "trace/recorder_format.h"

#include "base/banned.h"

/* Process ids end at 2^22, so these never meet the tid of a thread; rows beside a thread's own one get them. */
enum { CHROME_ROW_TID = 1 << 23 };

/* A line holds at most two names and two arg names, escaped, and a few numbers. */
enum { LINE_BYTES = 8 * STK__NAME_SIZE };

typedef struct line {
    stk__text text;
    char bytes[LINE_BYTES];
} line;

static stk__text *line_init(line *l)
{
    stk__text_fixed(&l->text, l->bytes, sizeof l->bytes);
    return &l->text;
}

static void line_write(stk__writer *w, const line *l)
{
    stk__output_write(w->output, l->text.data, l->text.length);
}

/* Microseconds with three decimals keep every nanosecond. */
static void put_time(stk__text *t, const char *key, int64_t ns)
{
    stk__text_printf(t, ",\"%s\":%lld.%03lld", key, (long long)(ns / 1000), (long long)(ns % 1000));
}

static void put_metadata(stk__writer *w, const char *what, int64_t tid, const char *name)
{
    line l;
    line_init(&l);
    stk__text_printf(&l.text, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%lld,\"tid\":%lld,\"args\":{\"name\":", what,
                     (long long)w->pid, (long long)tid);
    stk__text_json_str(&l.text, name);
    stk__text_puts(&l.text, "}},\n");
    line_write(w, &l);
}

static void chrome_head(stk__writer *w)
{
    static const char head[] = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    stk__output_write(w->output, head, sizeof head - 1);
}

static void chrome_start(stk__writer *w)
{
    put_metadata(w, "process_name", w->pid, w->process);
}

static int64_t row_tid(const stk__row *row)
{
    return row->parent ? CHROME_ROW_TID + (int64_t)row->id : row->tid;
}

static void chrome_row(stk__writer *w, const stk__row *row)
{
    put_metadata(w, "thread_name", row_tid(row), row->name);
}

static void put_args(stk__text *t, const stk__writer *w, const stk__event *slice)
{
    const char *before = ",\"args\":{";
    bool any = false;
    for (int i = 0; i < 2; i++) {
        if (!slice->arg[i])
            continue;
        stk__text_puts(t, before);
        stk__text_json_str(t, w->names[slice->arg[i]].text);
        stk__text_printf(t, ":%lld", (long long)slice->value[i]);
        before = ",";
        any = true;
    }
    if (any)
        stk__text_putc(t, '}');
}

/* Readers take the longer of two slices with the same start as the outer one, so the slice's own start is right. */
static void chrome_begin(stk__writer *w, const stk__row *row, const stk__event *slice, int64_t start_ns)
{
    const int32_t category = w->names[slice->name].category;
    line l;
    (void)start_ns;
    stk__text_puts(line_init(&l), "{\"ph\":\"X\",\"name\":");
    stk__text_json_str(&l.text, w->names[slice->name].text);
    if (category) {
        stk__text_puts(&l.text, ",\"cat\":");
        stk__text_json_str(&l.text, w->names[category].text);
    }
    put_time(&l.text, "ts", slice->start_ns);
    put_time(&l.text, "dur", slice->end_ns - slice->start_ns);
    stk__text_printf(&l.text, ",\"pid\":%lld,\"tid\":%lld", (long long)w->pid, (long long)row_tid(row));
    put_args(&l.text, w, slice);
    stk__text_puts(&l.text, "},\n");
    line_write(w, &l);
}

static void chrome_end(stk__writer *w, const stk__row *row, int64_t end_ns)
{
    (void)w; /* a complete event carries its duration */
    (void)row;
    (void)end_ns;
}

static void chrome_counter(stk__writer *w, const stk__event *event)
{
    line l;
    double value;
    memcpy(&value, &event->value[0], sizeof value);
    stk__text_puts(line_init(&l), "{\"ph\":\"C\",\"name\":");
    stk__text_json_str(&l.text, w->names[event->name].text);
    put_time(&l.text, "ts", event->start_ns);
    stk__text_printf(&l.text, ",\"pid\":%lld,\"args\":{\"value\":", (long long)w->pid);
    stk__text_json_double(&l.text, value);
    stk__text_puts(&l.text, "}},\n");
    line_write(w, &l);
}

static void chrome_total(stk__writer *w, const stk__total *total, int64_t at_ns)
{
    line l;
    (void)at_ns; /* metadata has no time */
    line_init(&l);
    stk__text_printf(&l.text, "{\"ph\":\"M\",\"name\":\"stoker_total\",\"pid\":%lld,\"tid\":%lld,\"args\":{\"track\":",
                     (long long)w->pid, (long long)w->pid);
    stk__text_json_str(&l.text, total->row);
    stk__text_puts(&l.text, ",\"name\":");
    stk__text_json_str(&l.text, w->names[total->name].text);
    stk__text_printf(&l.text, ",\"count\":%llu,\"total_ns\":%llu,\"lost\":%llu}},\n", (unsigned long long)total->count,
                     (unsigned long long)total->total_ns, (unsigned long long)total->lost);
    line_write(w, &l);
}

/* The one line without a comma behind it; a file that was cut off is whole up to its last newline but for "]}". */
static void chrome_finish(stk__writer *w, const stk_recorder_stats *stats, int64_t at_ns)
{
    line l;
    (void)at_ns;
    line_init(&l);
    stk__text_printf(&l.text,
                     "{\"ph\":\"M\",\"name\":\"stoker_summary\",\"pid\":%lld,\"tid\":%lld,"
                     "\"args\":{\"events_written\":%llu,\"events_lost\":%llu",
                     (long long)w->pid, (long long)w->pid, (unsigned long long)stats->events_written,
                     (unsigned long long)stats->events_lost);
    if (stats->events_dropped)
        stk__text_printf(&l.text, ",\"events_dropped\":%llu", (unsigned long long)stats->events_dropped);
    stk__text_puts(&l.text, "}}\n]}\n");
    line_write(w, &l);
}

const stk__format stk__format_chrome = {
    .head = chrome_head,
    .start = chrome_start,
    .row = chrome_row,
    .begin = chrome_begin,
    .end = chrome_end,
    .counter = chrome_counter,
    .total = chrome_total,
    .finish = chrome_finish,
};
