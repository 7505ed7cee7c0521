/* Runs the experiment that luck.h judges: one command against itself, and against slower ones, in both orders. */
#ifndef STK_BENCH_LUCK_RUN_H
#define STK_BENCH_LUCK_RUN_H

#include "bench/experiment.h"
#include "bench/luck.h"

typedef struct stk__luck_progress {
    const char *what; /* is run just now; NULL: the warm-up */
    size_t runs;      /* done */
    double left_s;    /* estimate; NaN: not known */
} stk__luck_progress;

typedef struct stk__luck_plan {
    /* Of it trials, warm-up, seed, launch, ignore_failure, cancelled, context and measure hold. Trial 0 is A, trial k is
       the B of effect k; effects past them are scaled. */
    const stk__experiment *e;
    double time_s;         /* for all of it */
    size_t rounds;         /* of each part, in place of the time; 0: by the time */
    const char *hyperfine; /* the program, which is run as well; NULL: it is not */
    void (*progress)(void *context, const stk__luck_progress *progress); /* may be NULL */
} stk__luck_plan;

/*
 * Adds series to `l`, whose effects the caller has added, until the time is up or the rounds are there. With real Bs, in
 * cycles that have a piece of each part, so that none has the machine's quiet hour to itself, and so that the figures
 * so far make sense at any moment. INVALID when the time is too short for a single cycle of 12 rounds, with the time that
 * would do. A run that fails is an error that tells why; what ran before is in `l`. Interrupted: OK with r->interrupted.
 */
stk_status stk__luck_run(const stk__luck_plan *plan, stk__launcher *launcher, stk__result *r, stk__luck *l,
                         stk_error *err);

#endif
