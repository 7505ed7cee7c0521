/*
 * Runs commands from a small process that was forked early. A child starts with the peak memory of the process that
 * forked it, so a large launcher makes every command look large; this one stays small.
 */
#ifndef STK_BENCH_LAUNCH_H
#define STK_BENCH_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "bench/counter.h"
#include "bench/result.h"

typedef struct stk__launcher stk__launcher;

/* Call before the process has threads or much memory. */
stk_status stk__launcher_start(stk__launcher **out, stk_error *err);
/* Ends the process and what it may still run. NULL is fine. */
void stk__launcher_stop(stk__launcher *l);

typedef enum stk__output {
    STK__OUTPUT_DISCARD, /* standard output to /dev/null */
    STK__OUTPUT_KEEP,    /* to a temporary file: hash and size are told, the text can be had */
    STK__OUTPUT_SHOW     /* through to our own standard output */
} stk__output;

/* What a run may use. Zero: no limit. */
typedef struct stk__limits {
    double cpus;           /* 1: one core by affinity; 1.5: two cores and a quota */
    uint64_t memory_bytes; /* of the whole process tree where a cgroup can be made, else of each process's addresses */
} stk__limits;

typedef struct stk__launch {
    const char *command;   /* run by /bin/sh -c, or directly when no character in it has a meaning for the shell */
    const char *directory; /* to start in; NULL: ours */
    const char *input;     /* file for standard input; NULL: /dev/null */
    stk__output output;
    const char *output_path; /* OUTPUT_KEEP: a file that stays; NULL: a temporary one */
    stk__limits limits;
    int64_t timeout_ns;             /* 0: none; then the process group is killed */
    const char *const *environment; /* "NAME=value" added to ours; NULL-terminated, may be NULL */
    const char *const *wrapper; /* words before the command, which is their argument; NULL-terminated, may be NULL */
    stk__counter_kind count;    /* into measures[STK__INSTRUCTIONS] */
    bool fixed;                 /* addresses, and hashes of Python, are not drawn at random, so that counts repeat */
} stk__launch;

typedef struct stk__outcome {
    int exit_code; /* -1 when a signal ended it */
    int signal;    /* 0: none */
    bool timed_out;
    bool not_started;    /* exec failed: there is no such program, or it may not be run */
    bool out_of_memory;  /* the memory limit was hit: killed by the kernel, or allocations failed under RLIMIT */
    bool memory_guessed; /* ... as its messages say, which is all that RLIMIT leaves to go by */
    size_t left_behind;  /* processes of its session that were still there when it ended, and were killed */
    double measures[STK__NAMED_MEASURES]; /* NaN: not known here (no PSI, no steal, not counted) */
    stk__count count;                     /* where it was asked for */
    uint64_t output_bytes, output_hash;   /* OUTPUT_KEEP: of standard output */
    char *
        output_end; /* OUTPUT_KEEP: the last 64 KiB at most of standard output, NUL-terminated; freed by outcome_clear */
    size_t output_end_size;
    char *error_end; /* the last 4 KiB at most of standard error; never NULL after a run */
    bool through_shell;
} stk__outcome;

/*
 * Runs one command to its end, in a session of its own: a terminal's Ctrl-C does not reach it, and it cannot ask the
 * terminal for a password and wait. Processes that it leaves are killed, but for daemons, which have left its session.
 * OK also when the command failed, which the outcome tells; the status is about launching.
 * CANCELLED: stk__launcher_interrupt was called; the command's process group has been killed.
 */
stk_status stk__launcher_run(stk__launcher *l, const stk__launch *launch, stk__outcome *out, stk_error *err);
void stk__outcome_clear(stk__outcome *o);
/* "exit code 3", "killed by signal 9 (Killed)", "took longer than 5 s", "out of memory (limit 64 MiB)"; empty when all went well. */
void stk__outcome_text(const stk__outcome *o, const stk__launch *launch, stk__text *out);

/* Other calls in place of the kernel's, for counters; they must be constants of the program. */
void stk__launcher_counters(stk__launcher *l, const stk__counter_calls *calls);

/* Makes a run in progress end as CANCELLED; nothing happens between runs. Safe in a signal handler. */
void stk__launcher_interrupt(stk__launcher *l);

/*
 * Can these limits be had here, and how? Writes "1 CPU (affinity), 4.0 GiB (cgroup v1)". A note, for people, where the
 * way is a weaker one: "no cgroup can be written: memory is limited per process, by addresses (RLIMIT_AS)".
 */
stk_status stk__limits_describe(stk__launcher *l, const stk__limits *limits, stk__text *out, stk__text *out_note,
                                stk_error *err);

#endif
