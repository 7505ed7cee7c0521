/* Charts: SVG that reads without colour, and the same for the terminal. */
#ifndef STK_BENCH_CHART_H
#define STK_BENCH_CHART_H

#include "bench/compare.h"
#include "bench/history.h"
#include "bench/result.h"

/* Each run as a dot, median and interval of the median, by variant; then the ratios with their intervals and verdicts. */
stk_status stk__chart_comparison(const stk__result *r, const stk__comparisons *c, const char *title, stk__text *out,
                                 stk_error *err);
/*
 * A ladder: bars of the medians, speed-up of each step over the one before and over the first, with intervals.
 * steps: variant i against i - 1, whole: variant i against 0; both have variant_count - 1 items.
 */
stk_status stk__chart_ladder(const stk__result *r, const stk__comparisons *steps, const stk__comparisons *whole,
                             const char *title, stk__text *out, stk_error *err);
/* Benchmarks of a log over its rows, with sd, their levels and steps, and marks where a verdict says faster or slower. */
stk_status stk__chart_history(const stk__history *h, const char *title, stk__text *out, stk_error *err);

/* For the terminal, at most `width` columns; ASCII only unless `unicode`. */
void stk__text_comparison(const stk__result *r, const stk__comparisons *c, size_t width, bool unicode, stk__text *out);
void stk__text_ladder(const stk__result *r, const stk__comparisons *steps, const stk__comparisons *whole, size_t width,
                      bool unicode, stk__text *out);
/* A line per benchmark: name, sparkline, first, last, change, and below it its steps; then the newest rows as a table. */
void stk__text_history(const stk__history *h, size_t width, bool unicode, stk__text *out);

#endif
