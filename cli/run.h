/* One run of a pipeline, as cmd_run.c drives it and run_report.c tells about it. */
#ifndef STK_CLI_RUN_H
#define STK_CLI_RUN_H

#include <pthread.h>
#include <stdatomic.h>

#include "cli.h"

typedef struct run_options {
    cli_pipeline_options pipeline;
    int64_t steps;
    int64_t step_ns;
    bool on_demand;
    bool digest, json, quiet;
    const char *trace;
    uint64_t trace_limit, trace_last;
    const char *checkpoint, *resume;
    int64_t checkpoint_every;
    const char *on_error;
    int64_t max_errors;
    int64_t stall_ns;
} run_options;

/* How the run ended, beside errors. */
typedef enum run_end { RUN_COMPLETE, RUN_STEPS_DONE, RUN_INTERRUPTED, RUN_OUTPUT_CLOSED, RUN_FAILED } run_end;

/* Time that workers spent in one op. */
typedef struct run_op {
    char *name;
    int64_t busy_ns, samples;
} run_op;

/* Time that the consumer waited, by epoch; the first one that was seen is number 0. */
typedef struct run_epochs {
    int64_t *wait_ns;
    size_t count, capacity;
    int64_t first;
} run_epochs;

typedef struct run {
    const run_options *options;
    cli_setup setup;
    stk_config config;
    stk_pipeline *pipeline;
    stk_recorder *recorder;
    stk_digest *digest;
    int64_t begin_ns;       /* the command began */
    int64_t opened_ns;      /* the pipeline was open */
    int64_t first_batch_ns; /* 0: none came */
    int64_t end_ns;
    int64_t progress_ns;    /* when progress was last shown */
    int64_t batches_taken;  /* consumed in this run */
    atomic_llong next_index; /* number of the next batch, which after a resume does not start at 0 */
    run_epochs epochs;
    int64_t saved_batches;  /* batches_taken at the last checkpoint; -1: none was written */
    run_end end;
    stk_error err; /* of RUN_FAILED */
    stk_recorder_stats trace_stats;
    stk_stats stats; /* these three: by cli_run_collect */
    run_op *ops;
    size_t op_count;
    struct {
        pthread_t thread;
        pthread_mutex_t lock;
        pthread_cond_t wake;
        bool started, stop; /* stop: guarded by lock */
    } live;
} run;

/* The live line of a run: shown while it goes on, when standard error is a terminal. */
void cli_run_live_start(run *r);
void cli_run_live_stop(run *r);
/* A stk_config.progress: shows how far indexing is; cancels once interrupted. `arg` is the run. */
bool cli_run_progress(void *arg, const char *what, int64_t done, int64_t total);

/* Takes the figures from the pipeline, which can then be closed. */
void cli_run_collect(run *r);
void cli_run_collect_clear(run *r);
/* Says that the trace does not have all of the run, where it was not to have a part alone. */
void cli_run_warn_of_limit(const run *r);
/* The summary for people, on standard error. */
void cli_run_summary(const run *r);
/* The object of --json. */
void cli_run_json(const run *r, stk__text *out);

#endif
