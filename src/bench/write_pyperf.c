/* Writes a result as pyperf's JSON: each run a process with one value, so that pyperf pools nothing. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/export.h"

#include "base/banned.h"

static const char *pyperf_unit(const stk__metric *m)
{
    return strcmp(m->unit, "s") == 0 ? "second" : strcmp(m->unit, "bytes") == 0 ? "byte" : "integer";
}

/* pyperf refuses line ends and blanks at the ends in what it knows about a benchmark, and empty text. */
static void clean_line(stk__text *line, const char *text)
{
    for (const char *s = text; *s; s++) {
        const bool blank = (unsigned char)*s <= ' ' || *s == 0x7f;
        if (!blank || line->length)
            stk__text_putc(line, blank ? ' ' : *s);
    }
    while (line->length && line->data[line->length - 1] == ' ')
        line->data[--line->length] = 0;
    if (!line->length)
        stk__text_putc(line, '-');
}

static void put_line(const stk__export *ex, const char *text)
{
    stk__text line = STK__TEXT_INIT;
    clean_line(&line, text);
    if (line.failed)
        ex->out->failed = true;
    else
        stk__text_json(ex->out, line.data, line.length);
    stk__text_clear(&line);
}

static void put_run_metadata(const stk__export *ex, const stk__variant *v, size_t run)
{
    const size_t wall = stk__bench_export_metric(ex, "wall", "s"), rss = stk__bench_export_metric(ex, "rss", "bytes");
    const double duration = wall == SIZE_MAX ? NAN : v->values[wall][run];
    const double memory = rss == SIZE_MAX ? NAN : v->values[rss][run];
    bool any = false;
    stk__text_puts(ex->out, "{\"metadata\":{");
    if (duration >= 0) {
        stk__text_puts(ex->out, "\"duration\":");
        stk__text_json_double(ex->out, duration);
        any = true;
    }
    if (memory >= 1 && memory < 9e15)
        stk__text_printf(ex->out, "%s\"mem_max_rss\":%.0f", any ? "," : "", memory);
}

typedef struct written {
    size_t benchmarks, zeros, empty;
    stk__name_table names;
} written;

static stk_status write_benchmark(const stk__export *ex, size_t variant, const size_t *runs, size_t n, written *w)
{
    const stk__variant *v = &ex->r->variants[variant];
    const size_t metric = stk__variant_metric(ex->r, variant);
    const stk__metric *m = &ex->r->metrics[metric];
    stk__text clean = STK__TEXT_INIT;
    clean_line(&clean, v->name);
    const char *name = clean.failed ? NULL : stk__names_unique(&w->names, clean.data, " #", 1);
    stk__text_clear(&clean);
    if (!name)
        return stk__nomem(strlen(v->name), ex->err);
    stk__text_puts(ex->out, w->benchmarks++ ? ",\n" : "\n");
    stk__text_puts(ex->out, "{\"metadata\":{\"name\":");
    put_line(ex, name);
    stk__text_puts(ex->out, ",\"command\":");
    put_line(ex, v->command);
    stk__text_printf(ex->out, ",\"loops\":1,\"unit\":\"%s\"},\"runs\":[", pyperf_unit(m));
    for (size_t i = 0; i < n; i++) {
        stk__text_puts(ex->out, i ? ",\n" : "\n");
        put_run_metadata(ex, v, runs[i]);
        stk__text_puts(ex->out, "},\"values\":[");
        stk__text_json_double(ex->out, v->values[metric][runs[i]]);
        stk__text_puts(ex->out, "]}");
    }
    stk__text_puts(ex->out, "]}");
    return STK_OK;
}

/* pyperf takes values above 0 only. */
static size_t drop_zeros(const stk__variant *v, size_t metric, size_t *runs, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (v->values[metric][runs[i]] > 0)
            runs[kept++] = runs[i];
    }
    return kept;
}

static stk_status write_benchmarks(const stk__export *ex, written *w)
{
    for (size_t i = 0; i < ex->r->variant_count; i++) {
        const stk__variant *v = &ex->r->variants[i];
        size_t *runs, n;
        const size_t metric = stk__variant_metric(ex->r, i);
        STK_TRY(stk__bench_export_known(ex, v, metric, &runs, &n));
        const size_t kept = drop_zeros(v, metric, runs, n);
        w->zeros += n - kept;
        stk_status status = STK_OK;
        if (kept)
            status = write_benchmark(ex, i, runs, kept, w);
        else
            w->empty++;
        stk__free(runs);
        STK_TRY(status);
    }
    return STK_OK;
}

static void write_notes(const stk__export *ex, const written *w)
{
    const stk__metric *m = &ex->r->metrics[ex->r->primary];
    const char *mixed = NULL; /* a benchmark that has another metric than the first */
    for (size_t i = 0; i < ex->r->variant_count && !mixed; i++) {
        const size_t metric = stk__variant_metric(ex->r, i);
        mixed = metric == ex->r->primary ? NULL : ex->r->metrics[metric].name;
    }
    if (mixed)
        stk__bench_export_note(ex,
                               "pyperf holds one metric of each benchmark, less of which it calls faster: '%.80s' "
                               "and others were written as what they are",
                               mixed);
    else if (m->higher_is_better)
        stk__bench_export_note(
            ex, "pyperf calls the lower value faster: its words about '%.80s' are the wrong way round", m->name);
    if (!mixed && strcmp(pyperf_unit(m), "integer") == 0)
        stk__bench_export_note(ex, "pyperf has no unit '%.40s': it was written as a plain number", m->unit);
    if (w->zeros)
        stk__bench_export_note(ex, "%zu values that are not above 0 were left out: pyperf refuses them", w->zeros);
    if (w->empty)
        stk__bench_export_note(ex, "%zu benchmarks without values were left out", w->empty);
    if (!mixed && ex->r->metric_count > 1)
        stk__bench_export_note(ex, "pyperf holds one metric: '%.80s' and the peak memory were written", m->name);
    if (ex->r->paired)
        stk__bench_export_note(ex, "pyperf has no word for pairs: a reader takes the runs as unpaired");
}

stk_status stk__write_pyperf(const stk__export *ex)
{
    written w = {0};
    stk__text_puts(ex->out, "{\"version\":\"1.0\",\"metadata\":{\"producer\":\"stoker bench\"");
    if (ex->r->time_s > 0) {
        stk__text_puts(ex->out, ",\"date\":\"");
        stk__bench_export_time(ex->out, ex->r->time_s, ' ', "");
        stk__text_putc(ex->out, '"');
    }
    if (ex->r->machine && *ex->r->machine) {
        stk__text_puts(ex->out, ",\"platform\":");
        put_line(ex, ex->r->machine);
    }
    stk__text_puts(ex->out, "},\"benchmarks\":[");
    const stk_status status = write_benchmarks(ex, &w);
    stk__names_clear(&w.names);
    STK_TRY(status);
    stk__text_puts(ex->out, "]}\n");
    if (!w.benchmarks)
        return stk_error_set(ex->err, STK_UNSUPPORTED, "no value of '%.80s' is above 0, and pyperf takes no others",
                             ex->r->metrics[ex->r->primary].name);
    write_notes(ex, &w);
    return STK_OK;
}
