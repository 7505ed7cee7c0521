/* Trials that are processes: hooks around each run, what they print, and whether it is the same for all. */
#ifndef STK_BENCH_PROCESS_RUN_H
#define STK_BENCH_PROCESS_RUN_H

#include "bench/experiment.h"

typedef struct stk__process_runs stk__process_runs;

/* Runs the set-up commands and times an empty process. `r` gets notes, and what is withheld from variants. */
stk_status stk__process_runs_open(const stk__experiment *e, stk__launcher *l, stk__result *r, stk__process_runs **out,
                                  stk_error *err);
/* prepare, the command, conclude. As stk__measure_fn. */
stk_status stk__process_measure(stk__process_runs *p, size_t trial, size_t round, double *values, int *out_exit_code,
                                bool *out_failed, stk__text *why, stk_error *err);
/* Must instructions be counted in runs of their own, after the rounds? */
bool stk__process_counts_apart(const stk__process_runs *p);
/* prepare, the command under valgrind, conclude. On failure `why` says so, with what may help. */
stk_status stk__process_count(stk__process_runs *p, size_t trial, size_t round, double *out, bool *out_failed,
                              stk__text *why, stk_error *err);
/* True once after the tool was changed: the counts before were by another one, and all are to be taken again. */
bool stk__process_counts_anew(stk__process_runs *p);
/* CPU time of all set-up, prepare and conclude commands so far: others did not use it. */
double stk__process_hooks_s(const stk__process_runs *p);
/* Runs the clean-up commands, says what was too fast to time, and frees. NULL is fine. */
stk_status stk__process_runs_close(stk__process_runs *p, stk_error *err);

#endif
