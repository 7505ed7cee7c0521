/* Writes a result as Google Benchmark's JSON: a row for each run, so that compare.py makes its U test. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/export.h"

#include "base/banned.h"

typedef struct written {
    size_t rows, families, empty, unknown_cpu, clashes;
} written;

static void put_ns(stk__text *t, const char *key, double seconds)
{
    stk__text_printf(t, ",\"%s\":", key);
    stk__text_json_double(t, fmin(seconds * 1e9, DBL_MAX));
}

static void write_context(const stk__export *ex)
{
    stk__text *t = ex->out;
    stk__text_puts(t, "{\"context\":{");
    if (ex->r->time_s > 0) {
        stk__text_puts(t, "\"date\":\"");
        stk__bench_export_time(t, ex->r->time_s, 'T', "+00:00");
        stk__text_puts(t, "\",");
    }
    if (ex->r->machine) {
        stk__text_puts(t, "\"machine\":");
        stk__text_json_str(t, ex->r->machine);
        stk__text_putc(t, ',');
    }
    stk__text_puts(t, "\"executable\":\"stoker bench\",\"caches\":[],\"library_build_type\":\"release\","
                      "\"json_schema_version\":1},\n\"benchmarks\":[");
}

/* Keys of a row that are not counters. */
static bool is_taken(const char *name)
{
    static const char *const keys[] = {"name",
                                       "family_index",
                                       "per_family_instance_index",
                                       "run_name",
                                       "run_type",
                                       "repetitions",
                                       "repetition_index",
                                       "threads",
                                       "iterations",
                                       "real_time",
                                       "cpu_time",
                                       "time_unit",
                                       "aggregate_name",
                                       "aggregate_unit",
                                       "label",
                                       "big_o",
                                       "rms",
                                       "error_occurred",
                                       "error_message",
                                       "skipped",
                                       "skip_message"};
    for (size_t i = 0; i < STK_COUNT(keys); i++) {
        if (strcmp(name, keys[i]) == 0)
            return true;
    }
    return false;
}

static void write_row(const stk__export *ex, size_t variant, size_t metric, size_t run, size_t count, size_t number,
                      written *w)
{
    const stk__variant *v = &ex->r->variants[variant];
    const size_t cpu = stk__bench_export_metric(ex, "cpu", "s");
    stk__text *t = ex->out;
    stk__text_puts(t, w->rows++ ? ",\n{\"name\":" : "\n{\"name\":");
    stk__text_json_str(t, v->name);
    stk__text_printf(t, ",\"family_index\":%zu,\"per_family_instance_index\":0,\"run_name\":", w->families);
    stk__text_json_str(t, v->name);
    stk__text_printf(t,
                     ",\"run_type\":\"iteration\",\"repetitions\":%zu,\"repetition_index\":%zu,\"threads\":1,"
                     "\"iterations\":1",
                     count, number);
    put_ns(t, "real_time", v->values[metric][run]);
    const bool known = cpu != SIZE_MAX && isfinite(v->values[cpu][run]);
    w->unknown_cpu += !known;
    put_ns(t, "cpu_time", known ? v->values[cpu][run] : 0);
    stk__text_puts(t, ",\"time_unit\":\"ns\"");
    for (size_t m = 0; m < ex->r->metric_count; m++) {
        const char *name = ex->r->metrics[m].name;
        if (m == metric || m == cpu || !isfinite(v->values[m][run]) || strcmp(name, "wall") == 0 ||
            strcmp(name, "cpu") == 0)
            continue;
        if (is_taken(name)) {
            w->clashes++;
            continue;
        }
        stk__text_putc(t, ',');
        stk__text_json_str(t, name);
        stk__text_putc(t, ':');
        stk__text_json_double(t, v->values[m][run]);
    }
    stk__text_putc(t, '}');
}

static void write_notes(const stk__export *ex, const written *w)
{
    if (w->empty)
        stk__bench_export_note(ex, "%zu benchmarks without a known time were left out", w->empty);
    if (w->unknown_cpu)
        stk__bench_export_note(ex, "the CPU time of %zu runs is not known: 0 was written", w->unknown_cpu);
    if (w->clashes)
        stk__bench_export_note(ex, "%zu values of metrics with the name of a key of Google Benchmark were left out",
                               w->clashes);
    if (ex->r->paired)
        stk__bench_export_note(ex, "Google Benchmark has no word for pairs: a reader takes the runs as unpaired");
}

stk_status stk__write_google(const stk__export *ex)
{
    size_t metric;
    written w = {0};
    STK_TRY(stk__bench_export_times(ex, "Google Benchmark", &metric));
    write_context(ex);
    for (size_t i = 0; i < ex->r->variant_count; i++) {
        size_t *runs, n;
        STK_TRY(stk__bench_export_known(ex, &ex->r->variants[i], metric, &runs, &n));
        for (size_t k = 0; k < n; k++)
            write_row(ex, i, metric, runs[k], n, k, &w);
        w.families += n > 0;
        w.empty += n == 0;
        stk__free(runs);
    }
    stk__text_puts(ex->out, "\n]}\n");
    write_notes(ex, &w);
    return STK_OK;
}
