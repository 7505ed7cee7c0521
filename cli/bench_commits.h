/* What the parts of bench --commits share: the commits with their builds and figures. */
#ifndef STK_CLI_BENCH_COMMITS_H
#define STK_CLI_BENCH_COMMITS_H

#include "bench.h"
#include "bench/builds.h"

enum { COMMITS_COLUMNS = 7 };

/* What is run in every commit, with the same options and in the same rounds: the command line, or one entry of a suite. */
typedef struct commits_work {
    bench_design_options design;
    bench_rule_options rule;
    const stk__suite_entry *entry; /* NULL: the command line */
    stk__suite_options options;    /* of the entry */
    size_t first;                  /* of its benchmarks among all */
    size_t count;                  /* of its benchmarks */
    char *limits;                  /* that hold here, in words; "": none */
} commits_work;

typedef struct commits_benchmark {
    char *name, *metric, *unit;
    bool higher_is_better;
} commits_benchmark;

/* One benchmark of one commit. */
typedef struct commits_figure {
    size_t n; /* 0: nothing is known */
    double mean, sd, median;
    bool compared; /* with the commit before; else what follows is not known */
    bool valid;    /* the ratio has figures */
    double ratio, low, high, p;
    char *verdict;     /* a word of stk__verdict_name */
    char *reason;      /* why there is no clearer one, or NULL */
    bool withheld;     /* ... which more rounds would not change */
    bool open;         /* inconclusive */
    bool changed;      /* neither that nor equivalent */
    double regression; /* as a fraction, when it is slower by verdict; else 0 */
} commits_figure;

typedef enum commits_state {
    COMMITS_OPEN,     /* to be measured, or only there to compare with */
    COMMITS_LOGGED,   /* in the log already */
    COMMITS_MEASURED, /* now */
    COMMITS_BROKEN    /* `failure` says why it cannot be measured */
} commits_state;

typedef struct commits_item {
    const stk__commit *commit;
    commits_state state;
    char *failure; /* "did not build: exit code 2: ..." */
    bool tried;    /* to build it, in this run */
    stk__build build;
    size_t before; /* what it is compared with; SIZE_MAX: nothing */
    commits_figure *figures;
    bool interrupted; /* before all rounds were done */
    bool logged;      /* has its row from this run */
} commits_item;

/* Commits that are measured in the same rounds. */
typedef struct commits_block {
    size_t *members; /* all of them, oldest first */
    size_t count;
    size_t *wanted; /* those of them that are to be compared with the one before */
    size_t wanted_count;
    stk__result *results; /* one for each work */
    stk__comparisons *comparisons;
} commits_block;

typedef struct commits_run {
    const bench_context *x;
    const bench_commits_options *o;
    stk__commits range;
    commits_item *items; /* as in `range` */
    size_t count;
    stk__suite suite;
    commits_work *works;
    size_t work_count;
    commits_benchmark *benchmarks;
    size_t benchmark_count;
    stk__builds builds;
    int64_t seed;
    char *machine;
    char **notes; /* of all blocks, each once */
    size_t note_count, note_capacity;
    size_t made, found;             /* builds */
    size_t logged;                  /* commits that were in the log when it began */
    size_t printed;                 /* rows so far */
    size_t widths[COMMITS_COLUMNS]; /* of the table so far */
    size_t retaken, dropped, rounds, warmup;
    bool interrupted;
    /* For the time that is left. */
    double commits_done, seconds_done;
    int64_t block_began_ns;
} commits_run;

/* The place of a benchmark of a work at a member in the result of that work. */
static inline size_t commits_variant(const commits_block *b, size_t benchmark, size_t member)
{
    return benchmark * b->count + member;
}

/* The comparison of a benchmark of a work for a wanted commit. */
static inline size_t commits_comparison(const commits_block *b, size_t benchmark, size_t wanted)
{
    return benchmark * b->wanted_count + wanted;
}

int commits_no_memory(void);
void commits_figure_clear(commits_figure *f);

/* ---- what is run (bench_commits_work.c) ---- */

/* From the command line or the suite: benchmarks by name. */
int commits_works_make(commits_run *z);
void commits_works_clear(commits_run *z);
/* The trials of a work in places: benchmark by benchmark, each in all of them. */
int commits_trials(const commits_run *z, const commits_work *w, const bench_place *places, size_t count,
                   bench_trials *out);

/* ---- the log (bench_commits_log.c) ---- */

/* Refuses a log that would not take the rows, and marks the commits that it has. */
int commits_log_open(commits_run *z);
/* The row of a commit does not tell what is asked for after all: it is open again. */
void commits_reopen(commits_run *z, size_t i);
/* A row for each wanted commit of a block that was measured to its end. */
int commits_log_append(commits_run *z, const commits_block *b);

/* ---- telling (bench_commits_report.c) ---- */

/* Rows of the table up to the commit before `end` that were not printed yet. */
void commits_print_rows(commits_run *z, size_t end);
void commits_print_end(const commits_run *z);
void commits_print_json(const commits_run *z);
int commits_write_page(const commits_run *z);
/* The exit code by --fail-over, having told why. */
int commits_gate(const commits_run *z, int code);

#endif
