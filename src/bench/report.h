/* Results in words: for the terminal, as Markdown. */
#ifndef STK_BENCH_REPORT_H
#define STK_BENCH_REPORT_H

#include "bench/compare.h"
#include "bench/result.h"

/*
 *   A  lazy      15.9 s +- 0.4   (n=12)
 *   B  stored    15.3 s +- 0.5
 *   B/A 0.963  95 % CI 0.941..0.985   verdict: B is faster (Wilcoxon p=0.003, minimum effect 2 %)
 * With median, min, max and outliers of each variant; CPU time and memory with their ratios (`others`: comparisons of further metrics without
 * verdict, may be NULL); interference; notes.
 */
void stk__report_text(const stk__result *r, const stk__comparisons *c, const stk__comparisons *others,
                      size_t others_count, stk__text *out);
/* One comparison as in the third line. */
void stk__report_line(const stk__result *r, const stk__comparisons *c, size_t index, stk__text *out);
/* Two Markdown tables: variants, comparisons. */
void stk__report_markdown(const stk__result *r, const stk__comparisons *c, stk__text *out);

#endif
