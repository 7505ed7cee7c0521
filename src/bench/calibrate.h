/* What this machine can tell apart: one command against itself, in turns and one after the other. */
#ifndef STK_BENCH_CALIBRATE_H
#define STK_BENCH_CALIBRATE_H

#include "bench/experiment.h"
#include "bench/luck.h"

enum { STK__CALIBRATE_SIZES = STK__LUCK_SIZES };

typedef struct stk__calibration {
    size_t runs;
    double median_s, cv, autocorrelation; /* of the wall times in the order in which they ran */
    double sd_log;                        /* of ln(b/a) of the pairs */
    double noise;                         /* of normal pairs of which the same changes would be found: for plans */
    /*
     * Windows of n rounds, both designs from the same 2n runs: share that is called a change though nothing changed.
     * Sizes grow; n is 0 where the rounds were too few for another one.
     */
    struct {
        size_t n, windows;
        size_t stride;             /* rounds from one window to the next; below n: they overlap */
        double paired, sequential; /* verdict rule with min_effect 0; first n runs against the next n, Mann-Whitney */
        double detectable;         /* smallest effect found in 80 %: ratio - 1 */
    } sizes[STK__CALIBRATE_SIZES];
    double floor_s;
    int64_t time_s;
    char machine[9];
} stk__calibration;

/*
 * From the runs of one command and the windows of them that were judged. INVALID under 6 rounds. Sets floor_s to NaN,
 * time_s to 0 and machine to "": the caller knows them.
 */
stk_status stk__calibration_from(const stk__luck *l, double confidence, stk__calibration *out, stk_error *err);

/* A small JSON file for each machine. Reading one that is missing gives END, one that is damaged CORRUPT. */
stk_status stk__calibration_save(const stk__calibration *c, const char *path, stk_error *err);
stk_status stk__calibration_load(const char *path, stk__calibration *out, stk_error *err);

#endif
