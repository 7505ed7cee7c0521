/* What luck.h found, as text, JSON and a picture. */
#ifndef STK_BENCH_LUCK_REPORT_H
#define STK_BENCH_LUCK_REPORT_H

#include "bench/calibrate.h"
#include "bench/luck.h"
#include "bench/result.h"

/* The result has the machine, the commands as variants, and notes. */
typedef struct stk__luck_story {
    const stk__luck *l;
    const stk__calibration *c;
    const stk__result *r;
    const char *hyperfine; /* "hyperfine 1.18.0"; NULL: it did not run */
    double took_s;
} stk__luck_story;

void stk__luck_text(const stk__luck_story *s, stk__text *out);
void stk__luck_json(const stk__luck_story *s, stk__text *out);
/* False alarms by the number of runs, and beside it how many of the real changes are found. */
stk_status stk__chart_luck(const stk__luck_story *s, const char *title, stk__text *out, stk_error *err);

#endif
