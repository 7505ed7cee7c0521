/* What the writers of benchmark files share. */
#ifndef STK_BENCH_EXPORT_H
#define STK_BENCH_EXPORT_H

#include "bench/compare.h"
#include "bench/import.h"
#include "bench/result.h"

typedef struct stk__export {
    const stk__result *r;
    const stk__comparisons *c; /* NULL: none */
    stk__text *out;
    stk__text *notes; /* NULL: not wanted */
    stk_error *err;
} stk__export;

/* A line of the notes. */
void stk__bench_export_note(const stk__export *ex, const char *format, ...) STK_PRINTF(2, 3);

/* Runs whose value of `metric` is known, in order; freed by stk__free. Their number may be 0. */
stk_status stk__bench_export_known(const stk__export *ex, const stk__variant *v, size_t metric, size_t **out_runs,
                                   size_t *out_count);
/* Of the known values; all NaN and n = 0 when there are none. */
stk_status stk__bench_export_summary(const stk__export *ex, const stk__variant *v, size_t metric, stk__summary *out);

/* Whether some run has a value of the metric. */
bool stk__bench_export_any(const stk__export *ex, size_t metric);
/* Index of the metric when it has that unit, else SIZE_MAX. */
size_t stk__bench_export_metric(const stk__export *ex, const char *name, const char *unit);

/* The metric to write as times: the primary when it is in seconds, else "wall" with a note; UNSUPPORTED without it. */
stk_status stk__bench_export_times(const stk__export *ex, const char *format, size_t *out_metric);

int stk__bench_export_exit_code(const stk__variant *v, size_t run);
/* "2026-11-15T16:00:00" and `zone`. */
void stk__bench_export_time(stk__text *t, int64_t time_s, char between, const char *zone);
/* {"name":"value", ...} */
void stk__bench_export_parameters(stk__text *t, const stk__variant *v);

/* Each appends to ex->out. */
stk_status stk__write_stoker(const stk__export *ex);
stk_status stk__write_hyperfine(const stk__export *ex);
stk_status stk__write_hyperfine2(const stk__export *ex);
stk_status stk__write_pyperf(const stk__export *ex);
stk_status stk__write_google(const stk__export *ex);
stk_status stk__write_go(const stk__export *ex);
stk_status stk__write_csv(const stk__export *ex);
stk_status stk__write_github(const stk__export *ex);
stk_status stk__write_bencher(const stk__export *ex);

#endif
