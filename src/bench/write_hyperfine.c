/* Writes a result as hyperfine's --export-json does. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/export.h"

#include "base/banned.h"

static stk_status put_mean(const stk__export *ex, const stk__variant *v, const char *key, const char *metric)
{
    const size_t index = stk__bench_export_metric(ex, metric, "s");
    stk__summary s = {.mean = NAN};
    if (index != SIZE_MAX)
        STK_TRY(stk__bench_export_summary(ex, v, index, &s));
    stk__text_printf(ex->out, ",\n      \"%s\": ", key);
    stk__text_json_double(ex->out, s.mean);
    return STK_OK;
}

static void put_value(const stk__export *ex, const char *key, double x)
{
    stk__text_printf(ex->out, ",\n      \"%s\": ", key);
    stk__text_json_double(ex->out, x);
}

static void put_values(const stk__export *ex, const char *key, const double *values, const size_t *runs, size_t n)
{
    stk__text_printf(ex->out, ",\n      \"%s\": [", key);
    for (size_t i = 0; i < n; i++) {
        stk__text_puts(ex->out, i ? ", " : "");
        stk__text_json_double(ex->out, values[runs[i]]);
    }
    stk__text_putc(ex->out, ']');
}

/* Whole bytes, and only when all are known. */
static void put_memory(const stk__export *ex, const stk__variant *v, const size_t *runs, size_t n)
{
    const size_t rss = stk__bench_export_metric(ex, "rss", "bytes");
    for (size_t i = 0; rss != SIZE_MAX && i < n; i++) {
        if (!(v->values[rss][runs[i]] >= 0 && v->values[rss][runs[i]] < 9e15))
            return;
    }
    if (rss == SIZE_MAX)
        return;
    stk__text_puts(ex->out, ",\n      \"memory_usage_byte\": [");
    for (size_t i = 0; i < n; i++)
        stk__text_printf(ex->out, "%s%.0f", i ? ", " : "", v->values[rss][runs[i]]);
    stk__text_putc(ex->out, ']');
}

static void put_exit_codes(const stk__export *ex, const stk__variant *v, const size_t *runs, size_t n)
{
    stk__text_puts(ex->out, ",\n      \"exit_codes\": [");
    for (size_t i = 0; i < n; i++) {
        const int code = stk__bench_export_exit_code(v, runs[i]);
        if (code < 0)
            stk__text_puts(ex->out, i ? ", null" : "null");
        else
            stk__text_printf(ex->out, "%s%d", i ? ", " : "", code);
    }
    stk__text_putc(ex->out, ']');
}

static stk_status write_item(const stk__export *ex, const stk__variant *v, size_t metric, const size_t *runs, size_t n)
{
    stk__summary s;
    STK_TRY(stk__bench_export_summary(ex, v, metric, &s));
    stk__text_puts(ex->out, "    {\n      \"command\": ");
    stk__text_json_str(ex->out, v->name);
    put_value(ex, "mean", s.mean);
    put_value(ex, "stddev", s.sd);
    put_value(ex, "median", s.median);
    STK_TRY(put_mean(ex, v, "user", "user"));
    STK_TRY(put_mean(ex, v, "system", "system"));
    put_value(ex, "min", s.min);
    put_value(ex, "max", s.max);
    put_values(ex, "times", v->values[metric], runs, n);
    put_memory(ex, v, runs, n);
    put_exit_codes(ex, v, runs, n);
    if (v->parameter_count) {
        stk__text_puts(ex->out, ",\n      \"parameters\": ");
        stk__bench_export_parameters(ex->out, v);
    }
    stk__text_puts(ex->out, "\n    }");
    return STK_OK;
}

static void write_notes(const stk__export *ex, size_t left_out)
{
    size_t named = 0;
    for (size_t i = 0; i < ex->r->variant_count; i++)
        named += strcmp(ex->r->variants[i].name, ex->r->variants[i].command) != 0;
    if (named)
        stk__bench_export_note(
            ex, "hyperfine has one text for each benchmark: of %zu the name was written, not the command", named);
    if (left_out)
        stk__bench_export_note(ex, "%zu benchmarks without a known time were left out", left_out);
    if (ex->r->paired)
        stk__bench_export_note(ex, "hyperfine has no word for pairs: a reader takes the runs as unpaired");
    if (stk__bench_export_metric(ex, "user", "s") == SIZE_MAX)
        stk__bench_export_note(ex, "user and system times are not known: null was written");
    else
        stk__bench_export_note(ex, "hyperfine keeps user and system times as means only");
}

stk_status stk__write_hyperfine(const stk__export *ex)
{
    size_t metric, written = 0, left_out = 0;
    STK_TRY(stk__bench_export_times(ex, "hyperfine", &metric));
    stk__text_puts(ex->out, "{\n  \"results\": [\n");
    for (size_t i = 0; i < ex->r->variant_count; i++) {
        const stk__variant *v = &ex->r->variants[i];
        size_t *runs, n;
        STK_TRY(stk__bench_export_known(ex, v, metric, &runs, &n));
        stk_status status = STK_OK;
        if (n) {
            stk__text_puts(ex->out, written++ ? ",\n" : "");
            status = write_item(ex, v, metric, runs, n);
        } else {
            left_out++;
        }
        stk__free(runs);
        STK_TRY(status);
    }
    stk__text_puts(ex->out, "\n  ]\n}\n");
    write_notes(ex, left_out);
    return STK_OK;
}
