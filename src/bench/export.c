/* Shared parts of the writers of benchmark files. */
#include "bench/export.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"

#include "base/banned.h"

void stk__bench_export_note(const stk__export *ex, const char *format, ...)
{
    char line[512];
    va_list args;
    if (!ex->notes)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    stk__text_puts(ex->notes, line);
    stk__text_putc(ex->notes, '\n');
}

stk_status stk__bench_export_known(const stk__export *ex, const stk__variant *v, size_t metric, size_t **out_runs,
                                   size_t *out_count)
{
    size_t count = 0, *runs = stk__calloc(v->runs + 1, sizeof *runs);
    if (!runs)
        return stk__nomem(v->runs * sizeof *runs, ex->err);
    for (size_t i = 0; i < v->runs; i++) {
        if (isfinite(v->values[metric][i]))
            runs[count++] = i;
    }
    *out_runs = runs;
    *out_count = count;
    return STK_OK;
}

stk_status stk__bench_export_summary(const stk__export *ex, const stk__variant *v, size_t metric, stk__summary *out)
{
    double *values = stk__calloc(v->runs + 1, sizeof *values);
    size_t n = 0;
    if (!values)
        return stk__nomem(v->runs * sizeof *values, ex->err);
    for (size_t i = 0; i < v->runs; i++) {
        if (isfinite(v->values[metric][i]))
            values[n++] = v->values[metric][i];
    }
    stk_status status = STK_OK;
    if (n)
        status = stk__describe(values, n, out, ex->err);
    else
        *out = (stk__summary){0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, 0};
    stk__free(values);
    return status;
}

size_t stk__bench_export_metric(const stk__export *ex, const char *name, const char *unit)
{
    const size_t index = stk__result_metric(ex->r, name);
    return index != SIZE_MAX && strcmp(ex->r->metrics[index].unit, unit) == 0 ? index : SIZE_MAX;
}

bool stk__bench_export_any(const stk__export *ex, size_t metric)
{
    const stk__result *r = ex->r;
    for (size_t v = 0; v < r->variant_count; v++) {
        for (size_t i = 0; i < r->variants[v].runs; i++) {
            if (isfinite(r->variants[v].values[metric][i]))
                return true;
        }
    }
    return false;
}

stk_status stk__bench_export_times(const stk__export *ex, const char *format, size_t *out_metric)
{
    const stk__metric *primary = &ex->r->metrics[ex->r->primary];
    const size_t wall = stk__bench_export_metric(ex, "wall", "s");
    if (strcmp(primary->unit, "s") == 0) {
        if (wall != ex->r->primary)
            stk__bench_export_note(ex, "the times are those of the metric '%.80s'", primary->name);
        *out_metric = ex->r->primary;
        return STK_OK;
    }
    if (wall == SIZE_MAX || !stk__bench_export_any(ex, wall))
        return stk_error_set(ex->err, STK_UNSUPPORTED, "%s holds times, and the result has '%.80s' in '%.40s' only",
                             format, primary->name, primary->unit);
    stk__bench_export_note(ex, "%s holds times: wall was written in place of '%.80s' (%.40s)", format, primary->name,
                           primary->unit);
    *out_metric = wall;
    return STK_OK;
}

int stk__bench_export_exit_code(const stk__variant *v, size_t run)
{
    return v->exit_codes ? v->exit_codes[run] : 0;
}

void stk__bench_export_time(stk__text *t, int64_t time_s, char between, const char *zone)
{
    const time_t when = (time_t)time_s;
    struct tm parts;
    if (!gmtime_r(&when, &parts))
        memset(&parts, 0, sizeof parts);
    stk__text_printf(t, "%04d-%02d-%02d%c%02d:%02d:%02d%s", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     between, parts.tm_hour, parts.tm_min, parts.tm_sec, zone);
}

void stk__bench_export_parameters(stk__text *t, const stk__variant *v)
{
    stk__text_putc(t, '{');
    for (size_t i = 0; i < v->parameter_count; i++) {
        if (i)
            stk__text_putc(t, ',');
        stk__text_json_str(t, v->parameters[i].name);
        stk__text_putc(t, ':');
        stk__text_json_str(t, v->parameters[i].value);
    }
    stk__text_putc(t, '}');
}
