/* What this machine can tell apart: one command against itself, in turns and one after the other. */
#ifndef STK_BENCH_CALIBRATE_H
#define STK_BENCH_CALIBRATE_H

#include "bench/experiment.h"

enum { STK__CALIBRATE_SIZES = 3 };

typedef struct stk__calibration {
    size_t runs;
    double median_s, cv, autocorrelation; /* of the wall times in the order in which they ran */
    double sd_log;                        /* of ln(b/a) of the pairs */
    /*
     * Windows of n rounds, both designs from the same 2n runs: share that is called a change though nothing changed,
     * and how many windows there were. At least 20 where the rounds allow for it: those that follow each other, else
     * overlapping ones. Sizes grow; n is 0 where the rounds were too few for another one.
     */
    struct {
        size_t n, windows;
        size_t stride;             /* rounds from one window to the next; below n: they overlap */
        double paired, sequential; /* verdict rule with min_effect 0; first n runs against the next n, Mann-Whitney */
        double detectable;         /* smallest effect found with 80 %: |ratio - 1| */
    } sizes[STK__CALIBRATE_SIZES];
    double floor_s;
    int64_t time_s;
    char machine[9];
} stk__calibration;

/*
 * From the times of both sides of each round; b_first[i] is not 0 where b ran before a (NULL: nowhere). INVALID under 6
 * rounds, or when a time is not above 0. Sets floor_s to NaN, time_s to 0 and machine to "": the caller knows them.
 */
stk_status stk__calibration_from(const double *a, const double *b, const uint8_t *b_first, size_t rounds,
                                 double confidence, uint64_t seed, stk__calibration *out, stk_error *err);

/* A small JSON file for each machine. Reading one that is missing gives END, one that is damaged CORRUPT. */
stk_status stk__calibration_save(const stk__calibration *c, const char *path, stk_error *err);
stk_status stk__calibration_load(const char *path, stk__calibration *out, stk_error *err);

#endif
