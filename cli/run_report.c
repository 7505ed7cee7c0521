/* What `stoker run` tells at its end: a summary for people, an object for programs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "run.h"

#include "base/banned.h"

enum { TOP_OPS = 6 };

static double seconds_of(int64_t ns)
{
    return (double)ns / 1e9;
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

void cli_run_collect(run *r)
{
    stk_pipeline_stats(r->pipeline, &r->stats);
    const char *name;
    run_op op;
    size_t capacity = 0;
    while (stk_pipeline_op_stats(r->pipeline, r->op_count, &name, &op.busy_ns, &op.samples)) {
        op.name = stk__strdup(name);
        if (!op.name || !stk__grow((void **)&r->ops, &capacity, r->op_count + 1, sizeof *r->ops)) {
            stk__free(op.name);
            return;
        }
        r->ops[r->op_count++] = op;
    }
}

void cli_run_collect_clear(run *r)
{
    for (size_t i = 0; i < r->op_count; i++)
        stk__free(r->ops[i].name);
    stk__free(r->ops);
    r->ops = NULL;
    r->op_count = 0;
    stk__free(r->epochs.wait_ns);
    r->epochs = (run_epochs){0};
}

/* What one epoch made the consumer wait: a few figures for any number of epochs. */
typedef struct epoch_waits {
    double first_s, median_s, max_s;
} epoch_waits;

static int shortest_first(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* False when there was no batch, or no memory to sort in. */
static bool sum_up_waits(const run_epochs *e, epoch_waits *out)
{
    int64_t *sorted = e->count ? stk__calloc(e->count, sizeof *sorted) : NULL;
    if (!sorted)
        return false;
    memcpy(sorted, e->wait_ns, e->count * sizeof *sorted);
    qsort(sorted, e->count, sizeof *sorted, shortest_first);
    *out = (epoch_waits){
        .first_s = seconds_of(e->wait_ns[0]),
        .median_s = seconds_of(sorted[(e->count - 1) / 2] + sorted[e->count / 2]) / 2,
        .max_s = seconds_of(sorted[e->count - 1]),
    };
    stk__free(sorted);
    return true;
}

/* ---- for people ---- */

static void say_text(stk__text *t)
{
    cli_say("%s", t->data ? t->data : "");
    stk__text_reset(t);
}

static void say_amounts(stk__text *t, const run *r, const stk_stats *s)
{
    const double seconds = seconds_of(r->end_ns - r->opened_ns);
    cli_text_count(t, s->samples);
    stk__text_puts(t, s->samples == 1 ? " sample in " : " samples in ");
    cli_text_count(t, s->batches);
    stk__text_puts(t, s->batches == 1 ? " batch, " : " batches, ");
    cli_text_seconds(t, seconds);
    stk__text_puts(t, ": ");
    cli_text_rate(t, share((double)s->samples, seconds));
    stk__text_printf(t, " samples/s, %.1f MB/s read", share((double)s->bytes_read / 1e6, seconds));
    if (seconds_of(r->opened_ns - r->begin_ns) >= 0.1) {
        stk__text_puts(t, "; opened in ");
        cli_text_seconds(t, seconds_of(r->opened_ns - r->begin_ns));
    }
    say_text(t);
    stk__text_printf(t, "consumer waited %.1f %% of the time; peak memory ",
                     100 * share(seconds_of(s->consumer_wait_ns), seconds));
    stk__text_bytes(t, (uint64_t)s->peak_buffer_bytes);
    stk__text_puts(t, " of ");
    stk__text_bytes(t, (uint64_t)s->budget_bytes);
    stk__text_printf(t, "; %d thread%s", s->threads, s->threads == 1 ? "" : "s");
    say_text(t);
}

static void say_epochs(stk__text *t, const run_epochs *e)
{
    epoch_waits waits;
    if (e->count < 2 || !sum_up_waits(e, &waits))
        return;
    stk__text_puts(t, "wait per epoch: ");
    cli_text_seconds(t, waits.first_s);
    stk__text_puts(t, " in the first, median ");
    cli_text_seconds(t, waits.median_s);
    stk__text_puts(t, ", most ");
    cli_text_seconds(t, waits.max_s);
    stk__text_puts(t, " of ");
    cli_text_count(t, (int64_t)e->count);
    stk__text_puts(t, " epochs");
    say_text(t);
}

/* Nothing is lost silently. */
static void say_losses(stk__text *t, const run *r, const stk_stats *s)
{
    const char *before = "left out: ";
    if (s->skipped) {
        stk__text_puts(t, before);
        cli_text_count(t, s->skipped);
        stk__text_puts(t, s->skipped == 1 ? " bad record" : " bad records");
        if (s->quarantined && r->config.quarantine_path) {
            stk__text_puts(t, " (");
            cli_text_count(t, s->quarantined);
            stk__text_printf(t, " listed in %s)", r->config.quarantine_path);
        }
        before = ", ";
    }
    if (s->lost_bytes) {
        stk__text_puts(t, before);
        stk__text_bytes(t, (uint64_t)s->lost_bytes);
        stk__text_puts(t, " without a readable record");
        before = ", ";
    }
    if (s->dropped) {
        stk__text_puts(t, before);
        cli_text_count(t, s->dropped);
        stk__text_puts(t, s->dropped == 1 ? " sample dropped by ops" : " samples dropped by ops");
    }
    if (t->length)
        say_text(t);
    if (s->cache_hits || s->cache_misses) {
        stk__text_printf(t, "cache: %" PRId64 " hits, %" PRId64 " misses", s->cache_hits, s->cache_misses);
        if (s->cache_damaged)
            stk__text_printf(t, ", %" PRId64 " of them damaged and made again", s->cache_damaged);
        say_text(t);
    }
}

static int busiest_first(const void *a, const void *b)
{
    const run_op *x = *(const run_op *const *)a, *y = *(const run_op *const *)b;
    return (x->busy_ns < y->busy_ns) - (x->busy_ns > y->busy_ns);
}

static void say_ops(stk__text *t, const run *r)
{
    const run_op **ops = stk__calloc(r->op_count, sizeof *ops);
    int64_t total = 0;
    for (size_t i = 0; ops && i < r->op_count; i++) {
        ops[i] = &r->ops[i];
        total += ops[i]->busy_ns;
    }
    if (total > 0) {
        qsort((void *)ops, r->op_count, sizeof *ops, busiest_first);
        stk__text_puts(t, "workers' time: ");
        for (size_t i = 0; i < r->op_count && i < TOP_OPS && ops[i]->busy_ns > 0; i++)
            stk__text_printf(t, "%s%s %.1f %%", i ? ", " : "", ops[i]->name,
                             100 * share((double)ops[i]->busy_ns, (double)total));
        stk__text_puts(t, " of ");
        cli_text_seconds(t, seconds_of(total));
        say_text(t);
    }
    stk__free((void *)ops);
}

static void say_files(stk__text *t, const run *r)
{
    if (r->saved_batches >= 0) {
        stk__text_printf(t, "checkpoint: %s, after batch ", r->options->checkpoint);
        cli_text_count(t, r->saved_batches);
        stk__text_puts(t, " of this run");
        say_text(t);
    }
    if (r->options->trace) {
        stk__text_printf(t, "trace: %s, ", r->options->trace);
        cli_text_count(t, (int64_t)r->trace_stats.events_written);
        stk__text_puts(t, " events, ");
        stk__text_bytes(t, r->trace_stats.bytes_written);
        if (r->trace_stats.events_lost) {
            stk__text_puts(t, "; ");
            cli_text_count(t, (int64_t)r->trace_stats.events_lost);
            stk__text_puts(t, " events lost, totals are exact");
        }
        if (r->options->trace_last && r->trace_stats.events_dropped) {
            stk__text_puts(t, "; the last part: ");
            cli_text_count(t, (int64_t)r->trace_stats.events_dropped);
            stk__text_puts(t, " events before it were dropped");
        }
        say_text(t);
    }
}

void cli_run_warn_of_limit(const run *r)
{
    const uint64_t dropped = r->trace_stats.events_dropped;
    if (!dropped || r->options->trace_last)
        return;
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, "stoker: warning: the trace is full at ");
    stk__text_bytes(&t, r->trace_stats.bytes_written);
    stk__text_puts(&t, ": ");
    cli_text_count(&t, (int64_t)dropped);
    stk__text_puts(&t, " events of the rest were not recorded; --trace-last SIZE keeps the last part, --trace-limit SIZE "
                       "sets another limit");
    say_text(&t);
    stk__text_clear(&t);
}

void cli_run_summary(const run *r)
{
    stk__text t = STK__TEXT_INIT;
    if (r->end == RUN_INTERRUPTED)
        cli_say("interrupted");
    say_amounts(&t, r, &r->stats);
    say_epochs(&t, &r->epochs);
    say_losses(&t, r, &r->stats);
    say_ops(&t, r);
    say_files(&t, r);
    stk__text_clear(&t);
}

/* ---- for programs ---- */

static void json_int(stk__text *t, const char *name, int64_t value)
{
    stk__text_printf(t, ",\"%s\":%" PRId64, name, value);
}

static void json_double(stk__text *t, const char *name, double value)
{
    stk__text_printf(t, ",\"%s\":", name);
    stk__text_json_double(t, value);
}

static void json_string(stk__text *t, const char *name, const char *value)
{
    stk__text_printf(t, ",\"%s\":", name);
    stk__text_json_str(t, value);
}

static void json_ops(stk__text *t, const run *r)
{
    stk__text_puts(t, ",\"ops\":[");
    for (size_t i = 0; i < r->op_count; i++) {
        stk__text_printf(t, "%s{\"name\":", i ? "," : "");
        stk__text_json_str(t, r->ops[i].name);
        json_double(t, "busy_s", seconds_of(r->ops[i].busy_ns));
        json_int(t, "samples", r->ops[i].samples);
        stk__text_putc(t, '}');
    }
    stk__text_putc(t, ']');
}

static void json_epochs(stk__text *t, const run_epochs *e)
{
    epoch_waits waits;
    json_int(t, "epochs", (int64_t)e->count);
    if (!sum_up_waits(e, &waits)) {
        stk__text_puts(t, ",\"epoch_wait_s\":null");
        return;
    }
    stk__text_puts(t, ",\"epoch_wait_s\":{\"first\":");
    stk__text_json_double(t, waits.first_s);
    json_double(t, "median", waits.median_s);
    json_double(t, "max", waits.max_s);
    stk__text_putc(t, '}');
}

static int64_t peak_rss_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : 0;
}

static void json_counts(stk__text *t, const run *r, const stk_stats *s)
{
    const double seconds = seconds_of(r->end_ns - r->opened_ns);
    json_int(t, "samples", s->samples);
    json_int(t, "batches", s->batches);
    json_double(t, "seconds", seconds);
    json_double(t, "samples_per_s", share((double)s->samples, seconds));
    json_double(t, "open_s", seconds_of(r->opened_ns - r->begin_ns));
    if (r->first_batch_ns)
        json_double(t, "first_batch_s", seconds_of(r->first_batch_ns - r->begin_ns));
    else
        stk__text_puts(t, ",\"first_batch_s\":null");
    json_int(t, "bytes_read", s->bytes_read);
    json_double(t, "consumer_wait_s", seconds_of(s->consumer_wait_ns));
    json_epochs(t, &r->epochs);
    json_int(t, "peak_buffer_bytes", s->peak_buffer_bytes);
    json_int(t, "budget_bytes", s->budget_bytes);
    json_int(t, "peak_rss_bytes", peak_rss_bytes());
    json_int(t, "skipped", s->skipped);
    json_int(t, "quarantined", s->quarantined);
    json_int(t, "dropped", s->dropped);
    json_int(t, "lost_bytes", s->lost_bytes);
    json_int(t, "cache_hits", s->cache_hits);
    json_int(t, "cache_misses", s->cache_misses);
    json_int(t, "cache_damaged", s->cache_damaged);
    json_int(t, "threads", s->threads);
}

void cli_run_json(const run *r, stk__text *out)
{
    static const char *const ends[] = {[RUN_COMPLETE] = "complete",
                                       [RUN_STEPS_DONE] = "steps done",
                                       [RUN_INTERRUPTED] = "interrupted",
                                       [RUN_OUTPUT_CLOSED] = "output closed",
                                       [RUN_FAILED] = "failed"};
    stk__text_printf(out, "{\"end\":\"%s\"", ends[r->end]);
    if (r->end == RUN_FAILED) {
        char message[2600];
        stk_error_format(&r->err, message, sizeof message);
        json_string(out, "error", message);
    }
    json_counts(out, r, &r->stats);
    if (r->digest) {
        char hex[33];
        stk_digest_hex(r->digest, hex);
        json_string(out, "digest", hex);
    }
    if (r->saved_batches >= 0)
        json_string(out, "checkpoint", r->options->checkpoint);
    if (r->options->trace) {
        json_string(out, "trace", r->options->trace);
        json_int(out, "trace_events", (int64_t)r->trace_stats.events_written);
        json_int(out, "trace_events_lost", (int64_t)r->trace_stats.events_lost);
        json_int(out, "trace_events_dropped", (int64_t)r->trace_stats.events_dropped);
    }
    json_ops(out, r);
    stk__text_puts(out, "}\n");
}
