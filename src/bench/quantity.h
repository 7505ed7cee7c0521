/* Figures as people read them: seconds, bytes, counts and rates with three digits and a fitting unit. */
#ifndef STK_BENCH_QUANTITY_H
#define STK_BENCH_QUANTITY_H

#include "base/str.h"

/*
 * Units: "s" (shown as ns, us, ms, s), "bytes" (B, KiB, MiB, GiB), "instructions" (k, M, G), "share" (percent), "count"
 * (bare), anything else as it stands: what comes from outside is for the caller to escape.
 */

/* "15.9 s", "312 MiB", "1,234", "4.56e+09 samples/s"; "-" for NaN. */
void stk__quantity(stk__text *t, double value, const char *unit);
/* "15.9 s +- 0.4": both in the unit and with the decimals that fit the first; without a spread that is NaN. */
void stk__quantity_spread(stk__text *t, double value, double spread, const char *unit);
/* "(15.9, 0.4) s": the same for tables. */
void stk__quantity_pair(stk__text *t, double value, double spread, const char *unit);
/* Figures shown alike: in the unit that fits `fits`, with the decimals of mean and spread (NaN: none). */
typedef struct stk__quantity_style {
    double mean, spread, fits;
    const char *unit;
} stk__quantity_style;
/* "1,520 ms +- 95" */
void stk__quantity_style_put(stk__text *t, const stk__quantity_style *style);
/* "1,498": another value in that style, without the unit. */
void stk__quantity_like(stk__text *t, double value, const stk__quantity_style *style);
/* What turns values into the unit that fits `value`, for axes; its name is a constant or `unit`. */
double stk__quantity_factor(double value, const char *unit, const char **out_name);
/* A ratio: "0.963", "1.050", "12.1", "1.05e+05". */
void stk__ratio(stk__text *t, double ratio);

#endif
