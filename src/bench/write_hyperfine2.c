/* Writes a result as hyperfine 2 does (schema 2): every run with its times and its memory. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/export.h"
#include "bench/hyperfine2.h"

#include "base/banned.h"

/* A metric of the file: what it is called there, and which of ours it is. */
typedef struct column {
    const stk__hyperfine2_name *name;
    size_t metric;
} column;

typedef struct columns {
    column items[STK__HYPERFINE2_NAMES];
    size_t count;
    const char *primary;
} columns;

/* `times` stands for the wall time: the metric that decides may be another time. */
static columns choose(const stk__export *ex, size_t times)
{
    columns c = {.primary = stk__hyperfine2_names[0].theirs};
    for (size_t i = 0; i < STK__HYPERFINE2_NAMES; i++) {
        const stk__hyperfine2_name *name = &stk__hyperfine2_names[i];
        const size_t metric = i ? stk__bench_export_metric(ex, name->ours, name->unit) : times;
        if (metric == SIZE_MAX || !stk__bench_export_any(ex, metric))
            continue;
        c.items[c.count++] = (column){name, metric};
        if (metric == ex->r->primary)
            c.primary = name->theirs;
    }
    return c;
}

static void put_run(const stk__export *ex, const stk__variant *v, const columns *c, size_t run)
{
    stk__text_puts(ex->out, "        {");
    for (size_t i = 0; i < c->count; i++) {
        const double x = v->values[c->items[i].metric][run];
        if (!isfinite(x))
            continue;
        stk__text_printf(ex->out, "\"%s\": {\"value\": ", c->items[i].name->theirs);
        stk__text_json_double(ex->out, x);
        stk__text_printf(ex->out, ", \"unit\": \"%s\"}, ", c->items[i].name->their_unit);
    }
    const int code = stk__bench_export_exit_code(v, run);
    if (code < 0)
        stk__text_puts(ex->out, "\"exit_code\": null}");
    else
        stk__text_printf(ex->out, "\"exit_code\": %d}", code);
}

static stk_status put_summary(const stk__export *ex, const stk__variant *v, const columns *c)
{
    size_t written = 0;
    stk__text_puts(ex->out, "      \"summary\": {");
    for (size_t i = 0; i < c->count; i++) {
        stk__summary s;
        STK_TRY(stk__bench_export_summary(ex, v, c->items[i].metric, &s));
        if (!s.n)
            continue;
        stk__text_printf(ex->out, "%s\n        \"%s\": {\"unit\": \"%s\", \"count\": %zu", written++ ? "," : "",
                         c->items[i].name->theirs, c->items[i].name->their_unit, s.n);
        const struct {
            const char *key;
            double value;
        } figures[] = {{"mean", s.mean}, {"stddev", s.sd}, {"median", s.median}, {"min", s.min}, {"max", s.max}};
        for (size_t k = 0; k < STK_COUNT(figures); k++) {
            stk__text_printf(ex->out, ", \"%s\": ", figures[k].key);
            stk__text_json_double(ex->out, figures[k].value);
        }
        stk__text_putc(ex->out, '}');
    }
    stk__text_puts(ex->out, "\n      }\n    }");
    return STK_OK;
}

static void put_parameters(const stk__export *ex, const stk__variant *v)
{
    stk__text_puts(ex->out, "      \"parameters\": {");
    for (size_t i = 0; i < v->parameter_count; i++) {
        stk__text_puts(ex->out, i ? ", " : "");
        stk__text_json_str(ex->out, v->parameters[i].name);
        stk__text_puts(ex->out, ": {\"value\": ");
        stk__text_json_str(ex->out, v->parameters[i].value);
        stk__text_putc(ex->out, '}');
    }
    stk__text_puts(ex->out, "},\n");
}

static stk_status write_item(const stk__export *ex, const stk__variant *v, const columns *c, const size_t *runs,
                             size_t n)
{
    stk__text_puts(ex->out, "    {\n      \"command\": ");
    stk__text_json_str(ex->out, v->command);
    if (strcmp(v->name, v->command) != 0) {
        stk__text_puts(ex->out, ",\n      \"name\": ");
        stk__text_json_str(ex->out, v->name);
    }
    stk__text_puts(ex->out, ",\n      \"measurements\": [\n");
    for (size_t i = 0; i < n; i++) {
        put_run(ex, v, c, runs[i]);
        stk__text_puts(ex->out, i + 1 < n ? ",\n" : "\n      ],\n");
    }
    if (v->parameter_count)
        put_parameters(ex, v);
    return put_summary(ex, v, c);
}

static void put_head(const stk__export *ex, const columns *c)
{
    stk__text_puts(ex->out, "{\n  \"schema_version\": 2,\n  \"metadata\": {\"written_by\": \"stoker bench\"");
    if (ex->r->time_s) {
        stk__text_puts(ex->out, ", \"start_time\": \"");
        stk__bench_export_time(ex->out, ex->r->time_s, 'T', "Z\"");
    }
    stk__text_printf(ex->out, "},\n  \"primary_metric\": \"%s\",\n  \"results\": [\n", c->primary);
}

/* What is written as wall time: that itself where what decides has a name of its own there, such as CPU time. */
static stk_status choose_times(const stk__export *ex, size_t *out)
{
    const size_t wall = stk__bench_export_metric(ex, "wall", "s");
    if (!stk__hyperfine2_ours(ex->r->metrics[ex->r->primary].name) || wall == SIZE_MAX ||
        !stk__bench_export_any(ex, wall))
        return stk__bench_export_times(ex, "hyperfine2", out);
    *out = wall;
    return STK_OK;
}

stk_status stk__write_hyperfine2(const stk__export *ex)
{
    size_t times, written = 0, left_out = 0;
    STK_TRY(choose_times(ex, &times));
    const columns c = choose(ex, times);
    put_head(ex, &c);
    for (size_t i = 0; i < ex->r->variant_count; i++) {
        const stk__variant *v = &ex->r->variants[i];
        size_t *runs, n;
        STK_TRY(stk__bench_export_known(ex, v, times, &runs, &n));
        stk_status status = STK_OK;
        if (n) {
            stk__text_puts(ex->out, written++ ? ",\n" : "");
            status = write_item(ex, v, &c, runs, n);
        } else {
            left_out++;
        }
        stk__free(runs);
        STK_TRY(status);
    }
    stk__text_puts(ex->out, "\n  ]\n}\n");
    if (left_out)
        stk__bench_export_note(ex, "%zu benchmarks without a known time were left out", left_out);
    if (ex->r->paired)
        stk__bench_export_note(ex, "hyperfine has no word for pairs: a reader takes the runs as unpaired");
    return STK_OK;
}
