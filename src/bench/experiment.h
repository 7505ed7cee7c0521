/* Runs an experiment: warm-up, rounds in random order, failures, stopping rule; the result holds whole rounds only. */
#ifndef STK_BENCH_EXPERIMENT_H
#define STK_BENCH_EXPERIMENT_H

#include "bench/compare.h"
#include "bench/launch.h"
#include "bench/result.h"

typedef struct stk__trial {
    char *name, *command;                       /* parameters filled in */
    char *directory;                            /* NULL: ours */
    char *setup, *prepare, *conclude, *cleanup; /* commands, or NULL */
    stk__parameter *parameters;
    size_t parameter_count;
    size_t group;
    bool digest; /* for same_output: "digest" in the JSON that it prints stands for what it prints */
} stk__trial;

/* One measured run. Fills values[metric_count], or sets *out_failed and writes into `why` what failed. */
typedef stk_status stk__measure_fn(void *context, size_t trial, size_t round, double *values, bool *out_failed,
                                   stk__text *why, stk_error *err);

typedef struct stk__progress {
    bool counting; /* instructions, after the rounds: `done` of `runs` */
    size_t round, rounds; /* at hand, from 0; rounds: as known so far */
    size_t done, runs;    /* runs of this round, or of the warm-up, that are done, and all of them */
    bool warming;
    double left_s; /* estimate; NaN: not known */
} stk__progress;

/* How instructions are counted: in hardware where that can be had, else by valgrind; or by the one that is asked for. */
typedef enum stk__count_with { STK__COUNT_ANYHOW, STK__COUNT_HARDWARE, STK__COUNT_VALGRIND } stk__count_with;

typedef struct stk__experiment {
    stk__trial *trials;
    size_t trial_count;
    size_t warmup;     /* runs of each before the first round */
    size_t rounds;     /* fixed number; 0: chosen from the time that the warm-up took: 12 to 50 within about 10 s */
    size_t least;      /* in place of these 12; 0: 12 */
    double seconds;    /* in place of these 10; 0: 10 */
    double width;      /* > 0: rounds go on until every interval of the pairs has high/low - 1 <= width ... */
    size_t max_rounds; /* ... but not past this */
    uint64_t seed;
    double quiet; /* > 0: a round in which others took more than this share of the machine is taken again, twice at
                      most; then it is kept, and counted */
    size_t count;      /* runs in which instructions are counted, where not every run can; 0: they are not counted. The
                          metric STK__INSTRUCTIONS must be there */
    stk__count_with count_with;
    size_t count_most; /* as many when they decide and differ from run to run */
    bool ignore_failure; /* a non-zero exit code is no failure */
    bool same_output;
    const char *keep_directory; /* standard output of each measured run goes to a file there, "B-0003.out"; NULL: none */
    stk__launch launch; /* template: limits, timeout, output, input */
    const stk__compare_pair *pairs;
    size_t pair_count;
    stk__rule rule;
    /* may be NULL */
    void (*progress)(void *context, const stk__progress *progress);
    bool (*cancelled)(void *context);
    void *context;
    size_t *out_failed; /* which trial's failures ended it, when some did; may be NULL */
    /* In place of processes, for tests and for functions; may be NULL. */
    stk__measure_fn *measure;
    void *measure_context;
} stk__experiment;

/*
 * Runs it with the launcher (NULL when `measure` is set) and fills `r`, whose metrics and primary the caller has set.
 * Metrics past STK__MEASURES are numbers of the JSON object that a command prints as its last line, by name ("a.b": b
 * in a); "cpu_per_1000", where it is not told, is CPU time by its "samples". The primary must be there (a failure otherwise), others may not.
 * A failed warm-up run is an error that tells command, outcome and the end of its standard error. A round in which a
 * run fails is dropped whole and counted; three in a row, or more than a third of all, end the experiment with that error: what
 * was measured before stays in `r`. Interrupted: OK with r->interrupted.
 */
stk_status stk__experiment_run(const stk__experiment *e, stk__launcher *l, stk__result *r, stk_error *err);

#endif
