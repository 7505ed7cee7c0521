/* The lower parts of a report: other metrics, interference, circumstances. */
#ifndef STK_BENCH_REPORT_PARTS_H
#define STK_BENCH_REPORT_PARTS_H

#include "bench/compare.h"

/* Medians of the metrics besides the one that decides, with the ratios of `others`. */
void stk__report_others(const stk__result *r, const stk__comparisons *c, const stk__comparisons *others,
                        size_t others_count, stk__text *out);
/* Steal and pressure, where they matter, and which variant had more of them. */
void stk__report_interference(const stk__result *r, stk__text *out);
/* Order and seed, limits, machine, notes. */
void stk__report_circumstances(const stk__result *r, stk__text *out);

#endif
