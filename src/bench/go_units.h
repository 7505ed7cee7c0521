/* Units of Go's benchmark text, and the metrics that they stand for. */
#ifndef STK_BENCH_GO_UNITS_H
#define STK_BENCH_GO_UNITS_H

#include "bench/result.h"

typedef struct stk__go_unit {
    char name[104], unit[104]; /* of the metric */
    double divisor;            /* turns the value into the metric's unit */
    bool higher_is_better;
    bool not_negative;
} stk__go_unit;

/* "ns/op" is wall, "rss-bytes" is rss, "user-ns" is user in seconds, others are their own. At most 100 bytes. */
void stk__go_unit_parse(const char *written, stk__go_unit *out);
/* The unit that stands for a metric, without blanks; *out_factor turns values into it. */
void stk__go_unit_print(const stk__metric *metric, stk__text *out, double *out_factor);
/* Whether the unit alone tells benchstat and us which way is better. */
bool stk__go_unit_tells(const char *written, bool higher_is_better);

/* Appends text with blanks, control bytes, bytes that are not UTF-8 and those of `more` as '_'. */
void stk__go_safe(stk__text *out, const char *text, const char *more);

#endif
